//! Who cites a requirement: checks, faults, bystander rules and other code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::catalogue::{Catalogue, Kind, family, is_id};

/// Names of the citing files by id; paths are relative to the workspace.
#[derive(Default)]
pub struct Citations {
    /// `cites` of a check.
    pub checks: BTreeMap<String, BTreeSet<String>>,
    /// `breaks` of a fault.
    pub faults: BTreeMap<String, BTreeSet<String>>,
    /// An id or its constant in the bystander rules.
    pub rules: BTreeMap<String, BTreeSet<String>>,
    /// An id or its constant in the other code of a crate.
    pub code: BTreeMap<String, BTreeSet<String>>,
}

/// The bystander rules: what they cite they judge, on whatever traffic passes.
const RULES: &str = "crates/capture/src/rules/";

impl Citations {
    /// Scans the workspace. The error lists every citation of what is not in the catalogue.
    pub fn collect(root: &Path, catalogue: &Catalogue) -> Result<Self, String> {
        let kinds = catalogue.kinds();
        let mut found = Self::default();
        let mut wrong = Vec::new();
        let scripts = [("tests/checks", "check", "cites"), ("tests/faults", "fault", "breaks")];
        for (dir, extension, keyword) in scripts {
            for path in super::files(&root.join(dir), extension)? {
                let name = relative(root, &path);
                let by = if keyword == "cites" { &mut found.checks } else { &mut found.faults };
                wrong.extend(script(&super::read(&path)?, keyword, &name, &kinds, by));
            }
        }
        for path in super::files(&root.join("crates"), "rs")? {
            let name = relative(root, &path);
            if !name.starts_with("crates/spec/") && name != super::ruled::PATH {
                let by = if name.starts_with(RULES) { &mut found.rules } else { &mut found.code };
                wrong.extend(code(&super::read(&path)?, &name, &kinds, by));
            }
        }
        // A folder that moved would turn its rules into plain code without a word.
        if found.rules.is_empty() {
            wrong.push(format!("{RULES}: no requirement is cited there"));
        }
        // Pages are not counted, but what they name has to be there.
        for path in super::files(&root.join("docs"), "md")? {
            let name = relative(root, &path);
            wrong.extend(code(&super::read(&path)?, &name, &kinds, &mut BTreeMap::new()));
        }
        if wrong.is_empty() { Ok(found) } else { Err(wrong.join("\n")) }
    }

    /// Whether a check or a bystander rule judges it.
    pub fn judge(&self, id: &str) -> bool {
        self.checks.contains_key(id) || self.rules.contains_key(id)
    }
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

/// Takes the ids of every line that begins with `keyword`; answers with the faults.
fn script(
    text: &str,
    keyword: &str,
    name: &str,
    kinds: &BTreeMap<&str, Kind>,
    by: &mut BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some(rest) = line.trim_start().strip_prefix(keyword) else {
            continue;
        };
        // A longer word that begins like the keyword is another one.
        if !rest.starts_with(|c: char| c.is_whitespace()) {
            continue;
        }
        let rest = rest.split('#').next().unwrap_or_default();
        for id in rest.split([',', ' ', '\t']).filter(|t| !t.is_empty()) {
            let place = format!("{name}:{}", at + 1);
            match kinds.get(id) {
                Some(Kind::Requirement) => {
                    by.entry(id.to_owned()).or_default().insert(name.to_owned());
                }
                // A fault may do what the text leaves open; a check has nothing to judge there.
                Some(Kind::Silence) if keyword == "breaks" => {}
                Some(Kind::Silence) => wrong.push(format!("{place}: {keyword} {id}, a case that the text leaves open")),
                None => wrong.push(format!("{place}: {keyword} {id}, which docs/requirements does not have")),
            }
        }
    }
    wrong
}

/// Takes ids and their constants wherever they stand, comments included. A token that looks like an id of a known area
/// but is none is a stale citation.
fn code(text: &str, name: &str, kinds: &BTreeMap<&str, Kind>, by: &mut BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let families: BTreeSet<&str> = kinds.keys().map(|id| family(id)).collect();
    let mut wrong = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for token in line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')) {
            let id = token.trim_matches(['-', '_']).replace('_', "-");
            match kinds.get(id.as_str()) {
                Some(Kind::Requirement) => {
                    by.entry(id).or_default().insert(name.to_owned());
                }
                Some(Kind::Silence) => {}
                None if is_id(&id) && families.contains(family(&id)) => {
                    wrong.push(format!("{name}:{}: {id} is not in docs/requirements", at + 1));
                }
                None => {}
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds() -> BTreeMap<&'static str, Kind> {
        let requirements = ["TCP-ICREQ-02", "TCP-H2C-07"].map(|id| (id, Kind::Requirement));
        requirements.into_iter().chain([("TCP-SILENT-01", Kind::Silence)]).collect()
    }

    #[test]
    fn scripts_cite_on_their_line() {
        let mut by = BTreeMap::new();
        let text = "check a\n  says \"cites X-01\"\n  cites  TCP-ICREQ-02, TCP-H2C-07 # why\n  citesome X-02\n";
        assert!(script(text, "cites", "a.check", &kinds(), &mut by).is_empty());
        assert_eq!(by.keys().collect::<Vec<_>>(), ["TCP-H2C-07", "TCP-ICREQ-02"]);
    }

    #[test]
    fn scripts_may_not_cite_the_unknown_or_the_open() {
        let mut by = BTreeMap::new();
        let text = "cites TCP-ICREQ-99\ncites TCP-SILENT-01\n";
        let wrong = script(text, "cites", "a.check", &kinds(), &mut by);
        assert!(wrong[0].starts_with("a.check:1: cites TCP-ICREQ-99, which"), "{wrong:?}");
        assert!(wrong[1].starts_with("a.check:2: cites TCP-SILENT-01, a case"), "{wrong:?}");
        assert!(by.is_empty());
        assert!(script("breaks TCP-SILENT-01", "breaks", "a.fault", &kinds(), &mut by).is_empty());
    }

    #[test]
    fn code_cites_by_id_and_by_constant() {
        let mut by = BTreeMap::new();
        let text = "// as TCP-ICREQ-02 has it\nreturn breach(req::TCP_H2C_07, X_01);\nlet UTF_08 = SHA-25;";
        assert!(code(text, "a.rs", &kinds(), &mut by).is_empty());
        assert_eq!(by.len(), 2);
        let wrong = code("x\n// TCP-H2C-70", "a.rs", &kinds(), &mut by);
        assert_eq!(wrong, ["a.rs:2: TCP-H2C-70 is not in docs/requirements"]);
    }
}
