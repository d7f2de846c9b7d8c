//! Lines: number, indentation, text without comment.

use super::Fault;
use crate::ast::Place;

/// A line with something on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: usize,
    /// Leading spaces.
    pub(super) indent: usize,
    /// Without indentation, comment and trailing space.
    pub(super) text: &'a str,
}

/// The lines of a file that say something.
pub(super) fn lines(text: &str) -> Result<Vec<Line<'_>>, Fault> {
    let mut out = Vec::new();
    for (i, raw) in text.lines().enumerate() {
        let body = without_comment(raw).trim_end();
        let trimmed = body.trim_start_matches(' ');
        let indent = body.len() - trimmed.len();
        if trimmed.starts_with('\t') {
            let place = Place { line: i + 1, column: indent + 1 };
            return Err(Fault { place, what: "a tab in the indentation; expected spaces".into() });
        }
        if !trimmed.is_empty() {
            out.push(Line { number: i + 1, indent, text: trimmed });
        }
    }
    Ok(out)
}

/// Cuts off ` # …`, but not a `#` inside quotes or one that begins `#3`.
fn without_comment(raw: &str) -> &str {
    let (mut quoted, mut before) = (false, ' ');
    for (i, c) in raw.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted && before == ' ' && !raw[i + 1..].starts_with(|n: char| n.is_ascii_digit()) => return &raw[..i],
            _ => {}
        }
        before = c;
    }
    raw
}
