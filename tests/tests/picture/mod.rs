//! What holds of every picture.

/// Every element is closed, in order, and no text has a bare `<` or `&`.
pub fn well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    for piece in svg.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag that ends");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{piece}");
        } else if !tag.ends_with('/') && !tag.starts_with('?') {
            open.push(tag.split_whitespace().next().expect("a name"));
        }
        let entities = ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&#"];
        assert_eq!(text.matches('&').count(), entities.iter().map(|e| text.matches(e).count()).sum::<usize>(), "{text}");
    }
    assert!(open.is_empty(), "{open:?}");
}
