//! The JSON report of an earlier run, taken as what is expected of the next.
//!
//! What failed becomes *known* with its verdict and observation. What an expectation file of that run said stays: a known
//! deviation, with its reason, unless it passed; a check that may fail; an exclusion, as an entry for each check it took. So it is
//! with findings: those that failed the run are known, and those that were known stay.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::json;
use crate::expect::{Entry, ExpectError, Expectations, Expected, KnownFinding};
use crate::verdict::{Observation, Verdict};

/// Reads the text of a report.
pub(crate) fn read(file: &str, text: &str) -> Result<Expectations, ExpectError> {
    let fault = |at, message| ExpectError { file: file.to_owned(), at, message };
    let report: Document = serde_json::from_str(text).map_err(|e| {
        let place = format!(" at line {} column {}", e.line(), e.column());
        let message = e.to_string().replace(&place, "");
        fault(Some((e.line(), e.column())), format!("is no report of `--json`: {message}"))
    })?;
    if report.schema != json::SCHEMA || report.schema_version != json::SCHEMA_VERSION {
        let message = format!(
            "schema `{} {}`: `{} {}` was expected, as `--json` writes it",
            report.schema,
            report.schema_version,
            json::SCHEMA,
            json::SCHEMA_VERSION
        );
        return Err(fault(None, message));
    }
    let (stack, version) = report.expectations.map(|e| (e.stack, e.version)).unwrap_or_default();
    let mut out = Expectations::of_stack(file, stack.or(Some(report.target)), version);
    // Several subsystems may have the same check.
    let mut carried: BTreeMap<&str, Vec<Option<(Expected, String)>>> = BTreeMap::new();
    for check in &report.checks {
        carried.entry(&check.id).or_default().push(check.carried());
    }
    for (id, all) in carried {
        let alike = all.iter().all(|one| one.as_ref().map(|c| &c.0) == all.first().and_then(|c| c.as_ref().map(|c| &c.0)));
        let Some((expected, reason)) = all.into_iter().flatten().next() else {
            continue;
        };
        let line = line_of(text, id);
        let expected = if alike { expected } else { Expected::MayFail };
        let reason = if alike { reason } else { format!("not the same in every subsystem: {reason}") };
        out.insert(id.to_owned(), Entry { expected, reason, line });
    }
    for broken in report.findings.into_iter().filter(|broken| broken.counted != "warned") {
        let id = broken.requirement.id;
        let line = line_of(text, &id);
        let reason = broken.reason.unwrap_or_else(|| format!("seen in an earlier run: {}", broken.seen));
        out.insert_finding(id, KnownFinding { reason, line });
    }
    Ok(out)
}

/// The line on which the check's id stands, counted from 1, so that an error about it names a place.
fn line_of(text: &str, id: &str) -> usize {
    let quoted = format!("\"id\": \"{id}\"");
    text.lines().position(|line| line.contains(&quoted)).map_or(1, |at| at + 1)
}

#[derive(Deserialize)]
struct Document {
    schema: String,
    schema_version: u32,
    target: String,
    expectations: Option<About>,
    checks: Vec<Check>,
    #[serde(default)]
    findings: Vec<Broken>,
}

#[derive(Deserialize)]
struct Broken {
    requirement: Cite,
    counted: String,
    reason: Option<String>,
    seen: String,
}

#[derive(Deserialize)]
struct Cite {
    id: String,
}

#[derive(Deserialize)]
struct About {
    stack: Option<String>,
    version: Option<String>,
}

#[derive(Deserialize)]
struct Check {
    id: String,
    verdict: Verdict,
    observation: Observation,
    counted: String,
    expected: Option<Wanted>,
    message: String,
}

#[derive(Deserialize)]
struct Wanted {
    kind: String,
    verdict: Option<Verdict>,
    observation: Option<Observation>,
    reason: String,
}

impl Check {
    /// What this check's outcome asks the next run to expect.
    fn carried(&self) -> Option<(Expected, String)> {
        let failed = matches!(self.counted.as_str(), "failed" | "killed-the-peer");
        // A warning counts as failed under `--strict`, and so do the observations of the dead: all have a verdict of their own.
        if failed && matches!(self.verdict, Verdict::Fail | Verdict::FailLenient | Verdict::Warn) {
            let expected = Expected::Known { verdict: self.verdict, observation: Some(self.observation) };
            let reason = self.message.lines().next().unwrap_or_default().trim();
            let reason = if reason.is_empty() { "failed in an earlier run" } else { reason };
            return Some((expected, reason.to_owned()));
        }
        let wanted = self.expected.as_ref()?;
        let expected = match (wanted.kind.as_str(), wanted.verdict) {
            ("known", Some(verdict)) if self.counted != "unexpected-pass" => {
                Expected::Known { verdict, observation: wanted.observation }
            }
            ("may-fail", _) => Expected::MayFail,
            ("exclude", _) => Expected::Exclude,
            _ => return None,
        };
        Some((expected, wanted.reason.clone()))
    }
}
