//! The runs as one JSON object: what other programs read, and what `--expect` takes as a baseline.
//!
//! Fields are only ever added, never renamed or removed, without a new [`SCHEMA_VERSION`]. Their order is that of the
//! structures here. `wall` is the only member that two runs from one seed do not share.

use serde::Serialize;

use super::{Judged, Report, cited, class_word, files, observation_word, trace, verdict_word};
use crate::expect::Expected;
use crate::slips::Slip;
use crate::summary::Counts;
use crate::verdict::Run;

/// The value of `schema`.
pub const SCHEMA: &str = "nvmfspec-report";
/// The value of `schema_version`.
pub const SCHEMA_VERSION: u32 = 1;

/// The report, indented, with a newline at its end.
#[must_use]
pub fn render(report: &Report<'_>) -> String {
    // Strings, numbers and vectors only: there is no key or value here that the serializer could refuse.
    let text = serde_json::to_string_pretty(&Document::of(report)).unwrap_or_default();
    text + "\n"
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    schema_version: u32,
    tool: Tool,
    wall: Clock,
    target: &'a str,
    world: &'a str,
    seed: u64,
    subsystems: Vec<Subsystem<'a>>,
    strict: bool,
    lenient: bool,
    expectations: Option<About<'a>>,
    status: u8,
    counts: Numbers,
    checks: Vec<Check<'a>>,
    findings: Vec<Broken<'a>>,
}

/// A requirement that the peer broke in passing.
#[derive(Serialize)]
struct Broken<'a> {
    requirement: Cite<'a>,
    counted: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    count: u64,
    checks: usize,
    first: &'a str,
    seen: &'a str,
    expected: &'a str,
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Clock {
    started: String,
    duration_ms: u64,
}

#[derive(Serialize)]
struct Subsystem<'a> {
    nqn: &'a str,
    peer: Vec<Named<'a>>,
    aborted: Option<&'a str>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    value: &'a str,
}

#[derive(Serialize)]
struct About<'a> {
    file: &'a str,
    stack: Option<&'a str>,
    version: Option<&'a str>,
}

#[derive(Serialize)]
struct Numbers {
    total: usize,
    passed: usize,
    failed: usize,
    warned: usize,
    blocked: usize,
    skipped: usize,
    known: usize,
    may_fail: usize,
    errors: usize,
    unexpected_passes: usize,
    killed_the_peer: usize,
    passed_leniently: usize,
}

#[derive(Serialize)]
struct Check<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subsystem: Option<&'a str>,
    says: &'a str,
    cites: Vec<Cite<'a>>,
    class: &'static str,
    verdict: &'static str,
    observation: &'static str,
    counted: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<Wanted<'a>>,
    message: &'a str,
    notes: &'a [String],
    findings: Vec<String>,
    at: Option<&'a str>,
    took_us: u64,
    traffic: Traffic,
    reproduce: &'a str,
}

#[derive(Serialize)]
struct Cite<'a> {
    id: &'a str,
    spec: &'a str,
    section: &'a str,
    level: String,
}

#[derive(Serialize)]
struct Wanted<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observation: Option<&'static str>,
    reason: &'a str,
}

/// What went over the wire. The files lie in the folder of `--out`.
#[derive(Serialize)]
struct Traffic {
    connections: usize,
    pdus: usize,
    hash: String,
    file: String,
}

impl<'a> Document<'a> {
    fn of(report: &Report<'a>) -> Self {
        let Report { runs, summary, expectations, wall, .. } = *report;
        let first = report.first();
        Document {
            schema: SCHEMA,
            schema_version: SCHEMA_VERSION,
            tool: Tool { name: "nvmfspec", version: env!("CARGO_PKG_VERSION") },
            wall: Clock { started: wall.started_text(), duration_ms: u64::try_from(wall.took.as_millis()).unwrap_or(u64::MAX) },
            target: first.target,
            world: first.world,
            seed: first.seed,
            subsystems: runs.iter().map(Subsystem::of).collect(),
            strict: summary.policy.strict,
            lenient: summary.policy.lenient,
            expectations: expectations.map(|e| About { file: &e.file, stack: e.stack.as_deref(), version: e.version.as_deref() }),
            status: summary.status().code(),
            counts: Numbers::of(&summary.counts, summary.standings.len()),
            checks: report.judged().map(Check::of).collect(),
            findings: summary.slips.iter().map(Broken::of).collect(),
        }
    }
}

impl<'a> Subsystem<'a> {
    fn of(run: &'a Run) -> Self {
        let peer = run.peer.iter().map(|(name, value)| Named { name, value }).collect();
        Self { nqn: &run.subsystem, peer, aborted: run.aborted.as_deref() }
    }
}

impl Numbers {
    fn of(counts: &Counts, total: usize) -> Self {
        Self {
            total,
            passed: counts.passed,
            failed: counts.failed,
            warned: counts.warned,
            blocked: counts.blocked,
            skipped: counts.skipped,
            known: counts.known,
            may_fail: counts.may_fail,
            errors: counts.errors,
            unexpected_passes: counts.unexpected,
            killed_the_peer: counts.killed,
            passed_leniently: counts.leniently,
        }
    }
}

impl<'a> Check<'a> {
    fn of(judged: Judged<'a>) -> Self {
        let result = judged.result;
        Self {
            id: &result.id,
            subsystem: judged.subsystem,
            says: &result.says,
            cites: result.cites.iter().map(|id| Cite::of(id)).collect(),
            class: class_word(result.class),
            verdict: verdict_word(result.verdict),
            observation: observation_word(result.observation),
            counted: judged.standing.word(),
            expected: judged.entry.map(|entry| Wanted::of(&entry.expected, &entry.reason)),
            message: &result.message,
            notes: &result.notes,
            findings: result.findings.iter().map(ToString::to_string).collect(),
            at: result.at.as_deref(),
            took_us: u64::try_from(result.took.as_micros()).unwrap_or(u64::MAX),
            traffic: Traffic {
                connections: result.exchange.connections.len(),
                pdus: result.exchange.connections.iter().map(|c| c.pdus().count()).sum(),
                hash: format!("{:016x}", trace::hash(&result.exchange)),
                file: files::stem(judged.subsystem, &result.id),
            },
            reproduce: &result.reproduce,
        }
    }
}

impl<'a> Broken<'a> {
    fn of(slip: &'a Slip) -> Self {
        Self {
            requirement: Cite::of(slip.requirement.id),
            counted: slip.standing.word(),
            reason: Some(slip.reason.as_str()).filter(|reason| !reason.is_empty()),
            count: slip.count,
            checks: slip.checks,
            first: &slip.first,
            seen: &slip.seen,
            expected: &slip.expected,
        }
    }
}

impl<'a> Cite<'a> {
    fn of(id: &'a str) -> Self {
        match cited(id) {
            Some(r) => Self { id, spec: r.spec, section: r.section, level: r.level.to_string() },
            None => Self { id, spec: "", section: "", level: String::new() },
        }
    }
}

impl<'a> Wanted<'a> {
    fn of(expected: &Expected, reason: &'a str) -> Self {
        let (kind, verdict, observation) = match expected {
            Expected::Known { verdict, observation } => ("known", Some(verdict_word(*verdict)), observation.map(observation_word)),
            Expected::MayFail => ("may-fail", None, None),
            Expected::Exclude => ("exclude", None, None),
        };
        Self { kind, verdict, observation, reason }
    }
}
