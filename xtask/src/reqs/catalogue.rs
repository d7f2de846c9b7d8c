//! The catalogue as the files have it, and what a valid one is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

/// All files, in the order of their names.
pub struct Catalogue {
    pub files: Vec<File>,
}

/// One file of `docs/requirements`.
pub struct File {
    /// Its name without `.toml`.
    pub stem: String,
    pub requirements: Vec<Requirement>,
    pub silences: Vec<Silence>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    requirement: Vec<Requirement>,
    #[serde(default)]
    silence: Vec<Silence>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    pub id: String,
    pub spec: String,
    pub section: String,
    pub level: Level,
    pub role: Role,
    pub judge: Judge,
    pub says: String,
    #[serde(default)]
    pub answer: String,
    #[serde(default)]
    pub note: String,
    #[serde(default)]
    pub reason: String,
    pub since: Option<String>,
    pub until: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Silence {
    pub id: String,
    pub spec: String,
    pub section: String,
    pub topic: String,
    pub seen: String,
}

/// `Debug` gives the variant's name in `nvmf_spec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Shall,
    Should,
    May,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Host,
    Controller,
    Both,
    Subsystem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Judge {
    Wire,
    Peer,
    Inside,
}

/// What an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Requirement,
    Silence,
}

impl Catalogue {
    /// Reads and validates every file of the folder. The error lists all faults, not the first.
    pub fn load(dir: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        for path in super::files(dir, "toml")? {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let file = File::parse(stem, &super::read(&path)?).map_err(|e| format!("{}: {e}", path.display()))?;
            files.push(file);
        }
        if files.is_empty() {
            return Err(format!("{}: no requirement file", dir.display()));
        }
        let catalogue = Self { files };
        let faults = catalogue.faults();
        if faults.is_empty() { Ok(catalogue) } else { Err(faults.join("\n")) }
    }

    /// What every id of the catalogue names.
    pub fn kinds(&self) -> BTreeMap<&str, Kind> {
        self.ids().map(|(id, kind, _)| (id, kind)).collect()
    }

    /// (id, kind, file) of every entry.
    fn ids(&self) -> impl Iterator<Item = (&str, Kind, &str)> {
        self.files.iter().flat_map(|f| {
            let requirements = f.requirements.iter().map(|r| (r.id.as_str(), Kind::Requirement, f.stem.as_str()));
            requirements.chain(f.silences.iter().map(|s| (s.id.as_str(), Kind::Silence, f.stem.as_str())))
        })
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        for (id, _, file) in self.ids() {
            if !is_id(id) {
                faults.push(format!("{file}: {id:?} is no id: capitals and digits, hyphens between, two digits at the end"));
            }
            if let Some(first) = seen.insert(id, file) {
                faults.push(format!("{file}: {id} stands in {first} already"));
            }
        }
        for file in &self.files {
            for r in &file.requirements {
                let dead = dead_references(&seen, &[&r.answer, &r.note, &r.reason]);
                faults.extend(dead.iter().map(|id| format!("{}: {} names {id}, which is nowhere", file.stem, r.id)));
            }
            faults.extend(file.requirements.iter().flat_map(|r| r.faults()).map(|e| format!("{}: {e}", file.stem)));
            faults.extend(file.silences.iter().flat_map(|s| s.faults()).map(|e| format!("{}: {e}", file.stem)));
        }
        faults
    }
}

impl File {
    fn parse(stem: String, text: &str) -> Result<Self, String> {
        let raw: RawFile = toml::from_str(text).map_err(|e| e.to_string())?;
        Ok(Self { stem, requirements: raw.requirement, silences: raw.silence })
    }
}

impl Requirement {
    fn faults(&self) -> Vec<String> {
        let mut faults = empty(&self.id, &[("spec", &self.spec), ("section", &self.section), ("says", &self.says)]);
        for (key, value) in [("since", &self.since), ("until", &self.until)] {
            if let Some(text) = value
                && text.parse::<nvmf_spec::Revision>().is_err()
            {
                faults.push(format!("{}: {key} {text:?} is no revision such as 2.0 or 1.2.1", self.id));
            }
        }
        faults
    }

    /// Whether a check is to be expected at all.
    pub fn unjudgeable(&self) -> bool {
        self.judge == Judge::Inside || !self.reason.is_empty()
    }
}

impl Silence {
    fn faults(&self) -> Vec<String> {
        let fields = [("spec", &self.spec), ("section", &self.section), ("topic", &self.topic), ("seen", &self.seen)];
        empty(&self.id, &fields)
    }
}

fn empty(id: &str, fields: &[(&str, &String)]) -> Vec<String> {
    let blank = fields.iter().filter(|(_, value)| value.trim().is_empty());
    blank.map(|(key, _)| format!("{id}: {key} is empty")).collect()
}

/// What looks like an id of a known area in these texts and is none.
fn dead_references<'a>(ids: &BTreeMap<&str, &str>, texts: &[&'a String]) -> Vec<&'a str> {
    let families: BTreeSet<&str> = ids.keys().map(|id| family(id)).collect();
    let tokens = texts.iter().flat_map(|t| t.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')));
    let dead = tokens.filter(|t| is_id(t) && families.contains(family(t)) && !ids.contains_key(t));
    dead.collect()
}

/// `TOKEN(-TOKEN)*-NN`, where a token is made of capitals and digits and starts with a capital.
pub fn is_id(text: &str) -> bool {
    let Some((family, number)) = text.rsplit_once('-') else {
        return false;
    };
    let token = |t: &str| {
        t.starts_with(|c: char| c.is_ascii_uppercase()) && t.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
    };
    number.len() == 2 && number.bytes().all(|b| b.is_ascii_digit()) && family.split('-').all(token)
}

/// The area of an id: all but its number.
pub fn family(id: &str) -> &str {
    id.rsplit_once('-').map_or(id, |(family, _)| family)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    const ENTRY: &str = r#"
        [[requirement]]
        id = "TCP-ICREQ-02"
        spec = "S"
        section = "1"
        level = "shall"
        role = "host"
        judge = "wire"
        says = "x"
    "#;

    pub fn of(text: &str) -> Catalogue {
        Catalogue { files: vec![File::parse("test".into(), text).unwrap()] }
    }

    pub fn one() -> Catalogue {
        of(ENTRY)
    }

    #[test]
    fn ids_have_a_shape() {
        for good in ["SQE-01", "TCP-C2H-07", "FAB-CONNECT-43"] {
            assert!(is_id(good), "{good}");
        }
        for bad in ["SQE", "SQE-1", "SQE-001", "sqe-01", "-01", "TCP--01", "C2H 01", "2H-01", "SQE-0a", "TCP_ICREQ_02"] {
            assert!(!is_id(bad), "{bad}");
        }
    }

    #[test]
    fn a_valid_file_has_no_fault() {
        assert_eq!(one().faults(), Vec::<String>::new());
    }

    #[test]
    fn faults_are_named() {
        assert_eq!(of(&ENTRY.repeat(2)).faults(), ["test: TCP-ICREQ-02 stands in test already"]);
        assert_eq!(of(&ENTRY.replace("\"x\"", "\" \"")).faults(), ["test: TCP-ICREQ-02: says is empty"]);
        let late = format!("{ENTRY}\nsince = \"two\"");
        assert_eq!(of(&late).faults(), ["test: TCP-ICREQ-02: since \"two\" is no revision such as 2.0 or 1.2.1"]);
        let lost = of(&format!("{ENTRY}\nnote = \"see TCP-ICREQ-03, SHA-25\"")).faults();
        assert_eq!(lost, ["test: TCP-ICREQ-02 names TCP-ICREQ-03, which is nowhere"]);
        let odd = of(&ENTRY.replace("-02", "-2")).faults();
        assert_eq!(odd.len(), 1);
        assert!(odd[0].contains("is no id"), "{odd:?}");
    }

    #[test]
    fn unknown_words_do_not_parse() {
        for (from, to) in [("shall", "must"), ("\"host\"", "\"target\""), ("wire", "eye"), ("says", "said")] {
            assert!(File::parse("test".into(), &ENTRY.replace(from, to)).is_err(), "{to}");
        }
    }
}
