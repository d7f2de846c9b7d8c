//! Coverage, as text.

use std::fmt::Write as _;

use super::catalogue::{Catalogue, Level, Requirement};
use super::cites::Citations;

/// A line for each file and a total. A requirement is open when no check cites it and no reason stands against one.
pub fn summary(catalogue: &Catalogue, citations: &Citations) -> String {
    let mut text = format!(
        "{:<12}{:>7}{:>7}{:>8}{:>6}{:>9}{:>8}{:>8}{:>11}{:>7}\n",
        "file", "total", "shall", "should", "may", "checked", "faulted", "coded", "no check", "open"
    );
    let mut total = Row::default();
    for file in &catalogue.files {
        let row = Row::of(&file.requirements, citations);
        let _ = writeln!(text, "{:<12}{row}", file.stem);
        total.add(&row);
    }
    let _ = writeln!(text, "{:<12}{total}", "all");
    text
}

#[derive(Default)]
struct Row([usize; 9]);

impl Row {
    fn of(requirements: &[Requirement], citations: &Citations) -> Self {
        let mut row = Self::default();
        for r in requirements {
            let checked = citations.checks.contains_key(&r.id);
            row.add(&Row([
                true,
                r.level == Level::Shall,
                r.level == Level::Should,
                r.level == Level::May,
                checked,
                citations.faults.contains_key(&r.id),
                citations.code.contains_key(&r.id),
                !checked && r.unjudgeable(),
                !checked && !r.unjudgeable(),
            ]
            .map(usize::from)));
        }
        row
    }

    fn add(&mut self, other: &Row) {
        for (sum, n) in self.0.iter_mut().zip(other.0) {
            *sum += n;
        }
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (n, width) in self.0.iter().zip([7, 7, 8, 6, 9, 8, 8, 11, 7]) {
            write!(f, "{n:>width$}")?;
        }
        Ok(())
    }
}

/// A paragraph for each requirement: what it says and what cites it.
pub fn list(catalogue: &Catalogue, citations: &Citations) -> String {
    let mut text = String::new();
    for file in &catalogue.files {
        for r in &file.requirements {
            let level = format!("{:?}", r.level).to_lowercase();
            let _ = writeln!(text, "{} [{}, {}] {}\n    {}", r.id, level, r.section, r.spec, r.says);
            for (what, by) in [("check", &citations.checks), ("fault", &citations.faults), ("code", &citations.code)] {
                for name in by.get(&r.id).into_iter().flatten() {
                    let _ = writeln!(text, "    {what}: {name}");
                }
            }
            if !r.reason.is_empty() {
                let _ = writeln!(text, "    no check: {}", r.reason);
            } else if r.unjudgeable() {
                let _ = writeln!(text, "    no check: inside the peer");
            } else if !citations.checks.contains_key(&r.id) {
                let _ = writeln!(text, "    open");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::tests::one;
    use super::*;

    fn last_two(citations: &Citations, reason: &str) -> [usize; 2] {
        let mut catalogue = one();
        catalogue.files[0].requirements[0].reason = reason.into();
        let row = Row::of(&catalogue.files[0].requirements, citations);
        [row.0[7], row.0[8]]
    }

    #[test]
    fn open_is_what_has_neither_check_nor_reason() {
        let none = Citations::default();
        assert_eq!(last_two(&none, ""), [0, 1]);
        assert_eq!(last_two(&none, "needs two networks"), [1, 0]);
        let mut checked = Citations::default();
        checked.checks.entry("TCP-ICREQ-02".into()).or_default().insert("a.check".into());
        assert_eq!(last_two(&checked, ""), [0, 0]);
        assert_eq!(last_two(&checked, "needs two networks"), [0, 0]);
    }

    #[test]
    fn the_list_names_what_cites() {
        let mut citations = Citations::default();
        assert!(list(&one(), &citations).ends_with("    x\n    open\n"));
        citations.checks.entry("TCP-ICREQ-02".into()).or_default().insert("a.check".into());
        assert!(list(&one(), &citations).ends_with("    x\n    check: a.check\n"));
        citations.code.append(&mut citations.checks);
        assert!(list(&one(), &citations).ends_with("    x\n    code: a.check\n    open\n"));
    }
}
