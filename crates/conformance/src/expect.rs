//! Expectation files: what a stack is known to get wrong, so that only what is new fails a run. Design section 8.
//!
//! A file is TOML:
//!
//! ```toml
//! stack = "Linux nvmet"                 # optional: whom this is about
//! version = "6.12"
//!
//! [[known]]                             # this failure, and no other, is expected
//! id = "tcp/icreq/pfv-unsupported/one"
//! verdict = "fail-lenient"              # fail, fail-lenient or warn
//! observation = "silent-close"          # optional: without it any observation does, but the death of the peer
//! reason = "closes without a C2HTermReq"
//!
//! [[may-fail]]                          # flaps: whether it fails or passes is no news
//! id = "keep-alive/timer/expires"
//! reason = "the deadline is checked every other tick"
//!
//! [[exclude]]                           # does not run, nor does anything below
//! id = "discovery"
//! reason = "the discovery service is off in this lab"
//!
//! [[finding]]                           # the bystander rules find this broken in the traffic of any check
//! requirement = "CQE-02"
//! reason = "sends the queue ID as SQID"
//! ```
//!
//! The JSON report of a run can stand in its place: what failed there is known here. How an expectation and a result meet is
//! decided in [`crate::summary`]; here files are read and ids found. Read [`Expectations`] first.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use crate::report::baseline;
use crate::select;
use crate::verdict::{Observation, Verdict};

/// What is expected of one stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectations {
    /// The file, as the user named it.
    pub file: String,
    /// Whose deviations these are.
    pub stack: Option<String>,
    /// Which version of it.
    pub version: Option<String>,
    entries: BTreeMap<String, Entry>,
    findings: BTreeMap<String, KnownFinding>,
}

/// A requirement that is known to be broken in passing, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownFinding {
    /// Why, for a reader who knows the stack.
    pub reason: String,
    /// Line in the file, counted from 1.
    pub line: usize,
}

/// What is expected of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It fails in this way.
    Known {
        /// The verdict: fail, fail-lenient or warn.
        verdict: Verdict,
        /// What is seen; `None` takes anything but [`Observation::PeerDied`].
        observation: Option<Observation>,
    },
    /// It fails at times.
    MayFail,
    /// It is not to run.
    Exclude,
}

/// An expectation, why it stands, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What is expected.
    pub expected: Expected,
    /// Why, for a reader who knows the stack.
    pub reason: String,
    /// Line in the file, counted from 1.
    pub line: usize,
}

/// A file that cannot be used, with the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectError {
    /// The file, as the user named it.
    pub file: String,
    /// Line and column, counted from 1; `None` where the file could not be read at all.
    pub at: Option<(usize, usize)>,
    /// What is wrong and what was expected.
    pub message: String,
}

impl fmt::Display for ExpectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for ExpectError {}

impl Expectations {
    /// Reads an expectation file, or the JSON report of an earlier run.
    pub fn load(path: &Path) -> Result<Self, ExpectError> {
        let file = path.display().to_string();
        let fault = |message| ExpectError { file: file.clone(), at: None, message };
        let bytes = std::fs::read(path).map_err(|e| fault(format!("cannot be read: {e}")))?;
        let text = String::from_utf8(bytes).map_err(|_| fault("is not UTF-8 text".into()))?;
        Self::parse(&file, &text)
    }

    /// Takes the text of `file`. What begins with `{` is a JSON report.
    pub fn parse(file: &str, text: &str) -> Result<Self, ExpectError> {
        if text.trim_start().starts_with('{') {
            return baseline::read(file, text);
        }
        let parsed: File = toml::from_str(text).map_err(|e| {
            let at = e.span().map(|span| place(text, &span));
            ExpectError { file: file.into(), at, message: e.message().trim_end().to_owned() }
        })?;
        let mut reader = Reader { text, out: Self::of_stack(file, parsed.stack, parsed.version) };
        for Known { id, verdict, observation, reason } in parsed.known {
            reader.take(&id, Expected::Known { verdict: verdict.into(), observation }, &reason)?;
        }
        for Plain { id, reason } in parsed.may_fail {
            reader.take(&id, Expected::MayFail, &reason)?;
        }
        for Plain { id, reason } in parsed.exclude {
            reader.take(&id, Expected::Exclude, &reason)?;
        }
        for Broken { requirement, reason } in parsed.finding {
            reader.take_finding(&requirement, &reason)?;
        }
        Ok(reader.out)
    }

    /// What is expected of the check with this id: its own entry, or else the longest exclusion above it.
    #[must_use]
    pub fn of(&self, id: &str) -> Option<&Entry> {
        let excludes = |(prefix, entry): &(&String, &Entry)| entry.expected == Expected::Exclude && select::matches(prefix, id);
        let above = || self.entries.iter().filter(excludes).max_by_key(|(prefix, _)| prefix.len()).map(|(_, entry)| entry);
        self.entries.get(id).or_else(above)
    }

    /// Why the check with this id is not to run, if so.
    #[must_use]
    pub fn exclusion(&self, id: &str) -> Option<&str> {
        self.of(id).filter(|entry| entry.expected == Expected::Exclude).map(|entry| entry.reason.as_str())
    }

    /// Why this requirement is expected to be broken in passing, if so.
    #[must_use]
    pub fn finding(&self, requirement: &str) -> Option<&KnownFinding> {
        self.findings.get(requirement)
    }

    /// Every requirement expected to be broken in passing, in the order of ids.
    pub fn findings(&self) -> impl Iterator<Item = (&str, &KnownFinding)> {
        self.findings.iter().map(|(id, known)| (id.as_str(), known))
    }

    /// Every entry with its id, in the order of ids.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(id, entry)| (id.as_str(), entry))
    }

    /// Refuses an entry that names no check of `ids`: a typing error would hide a failure for good.
    pub fn check_ids(&self, ids: &[&str]) -> Result<(), ExpectError> {
        for (id, entry) in &self.entries {
            let is_prefix = entry.expected == Expected::Exclude;
            let exists = if is_prefix { ids.iter().any(|i| select::matches(id, i)) } else { ids.contains(&id.as_str()) };
            if !exists {
                let what = if is_prefix { "no check begins with" } else { "there is no check" };
                let message = format!("{what} `{id}`{}", select::did_you_mean(id, ids.iter().copied()));
                return Err(ExpectError { file: self.file.clone(), at: Some((entry.line, 1)), message });
            }
        }
        Ok(())
    }

    /// Expects nothing yet.
    pub(crate) fn of_stack(file: &str, stack: Option<String>, version: Option<String>) -> Self {
        Self { file: file.to_owned(), stack, version, entries: BTreeMap::new(), findings: BTreeMap::new() }
    }

    pub(crate) fn insert(&mut self, id: String, entry: Entry) {
        self.entries.insert(id, entry);
    }

    pub(crate) fn insert_finding(&mut self, requirement: String, known: KnownFinding) {
        self.findings.insert(requirement, known);
    }
}

/// Checks entries one by one and puts them in.
struct Reader<'a> {
    text: &'a str,
    out: Expectations,
}

impl Reader<'_> {
    fn take(&mut self, id: &Spanned<String>, expected: Expected, reason: &Spanned<String>) -> Result<(), ExpectError> {
        let (line, _) = place(self.text, &id.span());
        let name = id.get_ref().as_str();
        self.has_reason(name, reason)?;
        if name.is_empty() {
            return Err(self.fault(&id.span(), "the id is empty: `area/topic/slug` was expected".into()));
        }
        if name.ends_with('/') && expected != Expected::Exclude {
            let message = format!("`{name}` is a prefix; only [[exclude]] takes one: the id of a single check was expected");
            return Err(self.fault(&id.span(), message));
        }
        if let Some(earlier) = self.out.entries.get(name) {
            return Err(self.fault(&id.span(), format!("`{name}` stands in line {} already", earlier.line)));
        }
        let entry = Entry { expected, reason: reason.get_ref().trim().to_owned(), line };
        self.out.insert(name.to_owned(), entry);
        Ok(())
    }

    fn take_finding(&mut self, requirement: &Spanned<String>, reason: &Spanned<String>) -> Result<(), ExpectError> {
        let (id, line) = (requirement.get_ref(), place(self.text, &requirement.span()).0);
        self.has_reason(id, reason)?;
        if nvmf_spec::requirement(id).is_none() {
            let hint = select::did_you_mean(id, nvmf_spec::all().map(|r| r.id));
            return Err(self.fault(&requirement.span(), format!("there is no requirement `{id}`{hint}")));
        }
        if let Some(earlier) = self.out.findings.get(id) {
            return Err(self.fault(&requirement.span(), format!("`{id}` stands in line {} already", earlier.line)));
        }
        self.out.insert_finding(id.clone(), KnownFinding { reason: reason.get_ref().trim().to_owned(), line });
        Ok(())
    }

    fn has_reason(&self, name: &str, reason: &Spanned<String>) -> Result<(), ExpectError> {
        if reason.get_ref().trim().is_empty() {
            return Err(self.fault(&reason.span(), format!("the reason of `{name}` is empty: say why this is expected")));
        }
        Ok(())
    }

    fn fault(&self, span: &Range<usize>, message: String) -> ExpectError {
        ExpectError { file: self.out.file.clone(), at: Some(place(self.text, span)), message }
    }
}

/// Line and column of where a span begins, both counted from 1; columns in characters.
fn place(text: &str, span: &Range<usize>) -> (usize, usize) {
    let before = text.get(..span.start).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
    (line, before.get(line_start..).unwrap_or_default().chars().count() + 1)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    stack: Option<String>,
    version: Option<String>,
    #[serde(default)]
    known: Vec<Known>,
    #[serde(default, rename = "may-fail")]
    may_fail: Vec<Plain>,
    #[serde(default)]
    exclude: Vec<Plain>,
    #[serde(default)]
    finding: Vec<Broken>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Broken {
    requirement: Spanned<String>,
    reason: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    id: Spanned<String>,
    verdict: Deviation,
    observation: Option<Observation>,
    reason: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {
    id: Spanned<String>,
    reason: Spanned<String>,
}

/// The verdicts that a deviation can have, so that the error for another one lists these.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Deviation {
    Fail,
    FailLenient,
    Warn,
}

impl From<Deviation> for Verdict {
    fn from(deviation: Deviation) -> Self {
        match deviation {
            Deviation::Fail => Verdict::Fail,
            Deviation::FailLenient => Verdict::FailLenient,
            Deviation::Warn => Verdict::Warn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Expectations::parse("e.toml", text).expect_err("a fault").to_string()
    }

    #[test]
    fn all_three_kinds_are_read() {
        let text = "stack = \"S\"\nversion = \"1\"\n[[known]]\nid = \"a/b\"\nverdict = \"fail\"\nobservation = \"timeout\"\n\
                    reason = \"r\"\n[[may-fail]]\nid = \"a/c\"\nreason = \"flaps\"\n[[exclude]]\nid = \"d/\"\nreason = \"off\"\n";
        let read = Expectations::parse("e.toml", text).expect("a good file");
        assert_eq!((read.stack.as_deref(), read.version.as_deref()), (Some("S"), Some("1")));
        let known = Expected::Known { verdict: Verdict::Fail, observation: Some(Observation::Timeout) };
        assert_eq!(read.of("a/b"), Some(&Entry { expected: known, reason: "r".into(), line: 4 }));
        assert_eq!(read.of("a/c").map(|e| &e.expected), Some(&Expected::MayFail));
        assert_eq!(read.exclusion("d/e/f"), Some("off"));
        assert_eq!(read.exclusion("d"), None);
        assert_eq!(read.exclusion("de/f"), None);
        assert_eq!(read.of("a/b/c"), None);
    }

    #[test]
    fn a_finding_names_a_requirement_that_exists() {
        let entry = |id: &str, reason: &str| format!("[[finding]]\nrequirement = \"{id}\"\nreason = \"{reason}\"\n");
        let read = Expectations::parse("e.toml", &entry("CQE-02", "r")).expect("a good file");
        assert_eq!(read.finding("CQE-02"), Some(&KnownFinding { reason: "r".into(), line: 2 }));
        assert_eq!(read.finding("CQE-03"), None);
        assert!(error(&entry("CQE-2", "r")).starts_with("e.toml:2:15: there is no requirement `CQE-2`; did you mean"));
        assert!(error(&entry("CQE-02", " ")).starts_with("e.toml:3:10: the reason of `CQE-02` is empty"));
        assert_eq!(error(&(entry("CQE-02", "r") + &entry("CQE-02", "r"))), "e.toml:5:15: `CQE-02` stands in line 2 already");
    }

    #[test]
    fn an_entry_of_its_own_wins_over_the_exclusion_above() {
        let text = "[[exclude]]\nid = \"d/\"\nreason = \"off\"\n[[may-fail]]\nid = \"d/e\"\nreason = \"flaps\"\n";
        let read = Expectations::parse("e.toml", text).expect("a good file");
        assert_eq!((read.exclusion("d/e"), read.exclusion("d/f")), (None, Some("off")));
    }

    #[test]
    fn faults_name_the_place_and_what_was_expected() {
        let known = "[[known]]\nid = \"a/b\"\nverdict = \"fail\"\n";
        assert_eq!(
            error(&format!("{known}reason = \" \"\n")),
            "e.toml:4:10: the reason of `a/b` is empty: say why this is expected"
        );
        assert_eq!(error(known), "e.toml:1:1: missing field `reason`");
        assert!(
            error("[[known]]\nid = \"a\"\nverdict = \"pass\"\nreason = \"r\"\n").starts_with("e.toml:3:11: unknown variant `pass`")
        );
        assert!(error("[[known]]\nid = \"a\"\nverdct = \"fail\"\n").starts_with("e.toml:3:1: unknown field `verdct`"));
        assert!(error("[[known]]\nid = \"a/b").starts_with("e.toml:2:"), "{}", error("[[known]]\nid = \"a/b"));
        let twice = "[[may-fail]]\nid = \"a\"\nreason = \"r\"\n[[exclude]]\nid = \"a\"\nreason = \"r\"\n";
        assert_eq!(error(twice), "e.toml:5:6: `a` stands in line 2 already");
        assert!(error("[[may-fail]]\nid = \"a/\"\nreason = \"r\"\n").contains("only [[exclude]] takes one"));
    }

    #[test]
    fn an_id_of_no_check_is_a_fault() {
        let read =
            Expectations::parse("e.toml", "\n[[may-fail]]\nid = \"tcp/icreq/frist\"\nreason = \"r\"\n").expect("a good file");
        let message = read.check_ids(&["tcp/icreq/first", "nvm/read/one"]).expect_err("no such check").to_string();
        assert_eq!(message, "e.toml:3:1: there is no check `tcp/icreq/frist`; did you mean `tcp/icreq/first`?");
        assert!(read.check_ids(&["tcp/icreq/frist"]).is_ok());
        let none_below = Expectations::parse("e.toml", "[[exclude]]\nid = \"x/\"\nreason = \"r\"\n").expect("a good file");
        assert!(none_below.check_ids(&["x"]).is_err() && none_below.check_ids(&["x/y"]).is_ok());
    }

    #[test]
    fn an_unreadable_file_is_named() {
        let error = Expectations::load(Path::new("/nonexistent/e.toml")).expect_err("no such file").to_string();
        assert!(error.starts_with("/nonexistent/e.toml: cannot be read: "), "{error}");
    }
}
