//! Coverage, as text.

use std::fmt::Write as _;

use super::catalogue::{Catalogue, Judge, Level, Requirement};
use super::cites::Citations;

/// A line for each file and a total. A requirement is open when neither a check nor a bystander rule cites it and no
/// reason stands against one.
pub fn summary(catalogue: &Catalogue, citations: &Citations) -> String {
    let mut text = format!(
        "{:<12}{:>7}{:>7}{:>8}{:>6}{:>9}{:>7}{:>9}{:>7}{:>8}{:>7}\n",
        "file", "total", "shall", "should", "may", "checked", "ruled", "faulted", "coded", "reason", "open"
    );
    let mut total = Row::default();
    for file in &catalogue.files {
        let row = Row::of(&file.requirements, citations);
        let _ = writeln!(text, "{:<12}{row}", file.stem);
        total.add(&row);
    }
    let _ = writeln!(text, "{:<12}{total}", "all");
    text.push_str(&share(catalogue, citations));
    text
}

/// The least share, in percent, of what messages can show that a check or a rule has to judge.
const LEAST: usize = 60;

/// No *shall* without a check, a rule, or the reason for none, and a share of at least [`LEAST`]. The error names what is open.
pub fn demand(catalogue: &Catalogue, citations: &Citations) -> Result<(), String> {
    let all = || catalogue.files.iter().flat_map(|f| &f.requirements);
    let open: Vec<&str> =
        all().filter(|r| r.level == Level::Shall && !citations.judge(&r.id) && !r.unjudgeable()).map(|r| r.id.as_str()).collect();
    if !open.is_empty() {
        return Err(format!("reqs: {} shall without a check, a rule or a reason: {}", open.len(), open.join(" ")));
    }
    let shown: Vec<_> = all().filter(|r| r.judge != Judge::Inside).collect();
    let judged = shown.iter().filter(|r| citations.judge(&r.id)).count();
    if judged * 100 < shown.len() * LEAST {
        return Err(format!(
            "reqs: a check or a rule judges {judged} of {} that messages can show, less than {LEAST} %",
            shown.len()
        ));
    }
    Ok(())
}

/// Of what messages can show at all: how much a check or a rule judges, and how many *shall* are open.
fn share(catalogue: &Catalogue, citations: &Citations) -> String {
    let shown: Vec<_> = catalogue.files.iter().flat_map(|f| &f.requirements).filter(|r| r.judge != Judge::Inside).collect();
    let judged = shown.iter().filter(|r| citations.judge(&r.id)).count();
    let open = shown.iter().filter(|r| r.level == Level::Shall && !citations.judge(&r.id) && !r.unjudgeable()).count();
    let percent = judged * 100 / shown.len().max(1);
    format!("judge wire or peer: {judged} of {} have a check or a rule, {percent} %; open shall: {open}\n", shown.len())
}

#[derive(Default)]
struct Row([usize; 10]);

impl Row {
    fn of(requirements: &[Requirement], citations: &Citations) -> Self {
        let mut row = Self::default();
        for r in requirements {
            let judged = citations.judge(&r.id);
            row.add(&Row([
                true,
                r.level == Level::Shall,
                r.level == Level::Should,
                r.level == Level::May,
                citations.checks.contains_key(&r.id),
                citations.rules.contains_key(&r.id),
                citations.faults.contains_key(&r.id),
                citations.code.contains_key(&r.id),
                !judged && r.unjudgeable(),
                !judged && !r.unjudgeable(),
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
        for (n, width) in self.0.iter().zip([7, 7, 8, 6, 9, 7, 9, 7, 8, 7]) {
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
            let cited =
                [("check", &citations.checks), ("rule", &citations.rules), ("fault", &citations.faults), ("code", &citations.code)];
            for (what, by) in cited {
                for name in by.get(&r.id).into_iter().flatten() {
                    let _ = writeln!(text, "    {what}: {name}");
                }
            }
            if !r.reason.is_empty() {
                let _ = writeln!(text, "    reason: {}", r.reason);
            } else if r.unjudgeable() && !citations.judge(&r.id) {
                let _ = writeln!(text, "    reason: no message shows it, it happens inside the peer");
            } else if !citations.judge(&r.id) {
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
        [row.0[8], row.0[9]]
    }

    #[test]
    fn open_is_what_has_no_check_no_rule_and_no_reason() {
        let none = Citations::default();
        assert_eq!(last_two(&none, ""), [0, 1]);
        assert_eq!(last_two(&none, "needs two networks"), [1, 0]);
        let mut checked = Citations::default();
        checked.checks.entry("TCP-ICREQ-02".into()).or_default().insert("a.check".into());
        assert_eq!(last_two(&checked, ""), [0, 0]);
        assert_eq!(last_two(&checked, "needs two networks"), [0, 0]);
        let ruled = Citations { rules: checked.checks, ..Citations::default() };
        assert_eq!(last_two(&ruled, ""), [0, 0]);
        let coded = Citations { code: ruled.rules, ..Citations::default() };
        assert_eq!(last_two(&coded, ""), [0, 1]);
    }

    #[test]
    fn the_share_leaves_out_what_happens_inside() {
        let mut citations = Citations::default();
        let mut catalogue = one();
        let none = "judge wire or peer: 0 of 1 have a check or a rule, 0 %; open shall: 1\n";
        assert_eq!(share(&catalogue, &citations), none);
        citations.rules.entry("TCP-ICREQ-02".into()).or_default().insert("a.rs".into());
        let all = "judge wire or peer: 1 of 1 have a check or a rule, 100 %; open shall: 0\n";
        assert_eq!(share(&catalogue, &citations), all);
        catalogue.files[0].requirements[0].judge = Judge::Inside;
        assert!(share(&catalogue, &citations).starts_with("judge wire or peer: 0 of 0 "));
    }

    #[test]
    fn a_shall_needs_a_check_a_rule_or_a_reason() {
        let mut citations = Citations::default();
        let mut catalogue = one();
        assert!(demand(&catalogue, &citations).unwrap_err().ends_with("reason: TCP-ICREQ-02"));
        catalogue.files[0].requirements[0].reason = "needs two networks".into();
        assert!(demand(&catalogue, &citations).unwrap_err().contains("judges 0 of 1"));
        citations.rules.entry("TCP-ICREQ-02".into()).or_default().insert("a.rs".into());
        assert_eq!(demand(&catalogue, &citations), Ok(()));
        catalogue.files[0].requirements[0].reason = String::new();
        assert_eq!(demand(&catalogue, &citations), Ok(()));
    }

    #[test]
    fn the_list_names_what_cites() {
        let mut citations = Citations::default();
        assert!(list(&one(), &citations).ends_with("    x\n    open\n"));
        citations.checks.entry("TCP-ICREQ-02".into()).or_default().insert("a.check".into());
        assert!(list(&one(), &citations).ends_with("    x\n    check: a.check\n"));
        citations.rules.append(&mut citations.checks);
        assert!(list(&one(), &citations).ends_with("    x\n    rule: a.check\n"));
        citations.code.append(&mut citations.rules);
        assert!(list(&one(), &citations).ends_with("    x\n    code: a.check\n    open\n"));
    }
}
