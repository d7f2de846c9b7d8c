//! Which checks of the suite run: prefixes, exclusions, and what was probably meant where a name is wrong.
//!
//! A prefix ends at a slash or at the end of an id: `tcp/icreq` takes `tcp/icreq/first` and not `tcp/icreq-x`. Read
//! [`matches()`] first.

/// Whether the check with this id is selected by one prefix.
#[must_use]
pub fn matches(prefix: &str, id: &str) -> bool {
    match id.strip_prefix(prefix) {
        Some(rest) => rest.is_empty() || rest.starts_with('/') || prefix.ends_with('/') || prefix.is_empty(),
        None => false,
    }
}

/// Whether the check with this id is selected by any of the prefixes; no prefix selects all.
#[must_use]
pub fn any_matches(prefixes: &[String], id: &str) -> bool {
    prefixes.is_empty() || prefixes.iter().any(|prefix| matches(prefix, id))
}

/// Refuses a prefix that selects none of `ids`, with what was probably meant.
pub fn check_prefixes(prefixes: &[String], ids: &[&str]) -> Result<(), String> {
    match prefixes.iter().find(|prefix| !ids.iter().any(|id| matches(prefix, id))) {
        None => Ok(()),
        Some(prefix) => {
            Err(format!("no check begins with `{prefix}`{}", did_you_mean(prefix, stems(ids).iter().map(String::as_str))))
        }
    }
}

/// `; did you mean …?` with up to three names near to `wrong`, or nothing where none is.
#[must_use]
pub fn did_you_mean<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> String {
    match near(wrong, names).as_slice() {
        [] => String::new(),
        [one] => format!("; did you mean `{one}`?"),
        some => format!("; did you mean one of `{}`?", some.join("`, `")),
    }
}

/// Up to three of `names` near to `wrong`, nearest first: few letters away, or one contained in the other.
#[must_use]
pub fn near<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let wrong = wrong.trim_end_matches('/').to_ascii_lowercase();
    if wrong.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<(usize, &str)> = names
        .filter_map(|name| {
            let lower = name.to_ascii_lowercase();
            let distance = distance(&wrong, &lower);
            let contained = wrong.len() >= 3 && lower.contains(&wrong);
            let allowed = (wrong.chars().count() / 4).clamp(1, 4);
            (contained || distance <= allowed).then_some((if contained { distance.min(allowed) } else { distance }, name))
        })
        .collect();
    found.sort();
    found.dedup();
    found.into_iter().map(|(_, name)| name).take(3).collect()
}

/// The ids and every prefix of them that ends before a slash.
fn stems(ids: &[&str]) -> Vec<String> {
    let mut stems: Vec<String> = Vec::new();
    for id in ids {
        stems.extend(id.match_indices('/').filter_map(|(at, _)| id.get(..at)).map(str::to_owned));
        stems.push((*id).to_owned());
    }
    stems.sort();
    stems.dedup();
    stems
}

/// The number of letters to insert, drop or change (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cb, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let changed = diagonal + usize::from(ca != *cb);
            diagonal = *cell;
            left = changed.min(*cell + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_at_a_slash() {
        assert!(matches("tcp/icreq", "tcp/icreq/first") && matches("tcp/icreq/", "tcp/icreq/first") && matches("", "a/b"));
        assert!(matches("a/b", "a/b"));
        assert!(!matches("tcp/icreq", "tcp/icreq-x/first") && !matches("tcp/icreq/first", "tcp/icreq"));
    }

    #[test]
    fn a_prefix_that_selects_nothing_is_refused() {
        let ids = ["tcp/icreq/first", "tcp/icreq/pfv", "nvm/read/one"];
        let check = |prefix: &str| check_prefixes(&[prefix.to_owned()], &ids);
        assert_eq!(check("tcp"), Ok(()));
        assert_eq!(check("tcp/icrq").expect_err("wrong"), "no check begins with `tcp/icrq`; did you mean `tcp/icreq`?");
        assert_eq!(check("zzzz").expect_err("wrong"), "no check begins with `zzzz`");
        assert!(check("first").expect_err("wrong").contains("`tcp/icreq/first`"));
    }

    #[test]
    fn distances() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }
}
