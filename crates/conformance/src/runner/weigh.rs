//! What a check ended with, from what was played.

use std::collections::BTreeSet;
use std::time::Duration;

use nvmf_capture::{Exchange, Judge};
use nvmf_scenario::ast::Grade;
use nvmf_scenario::golden;
use nvmf_scenario::player::{Played, Seen, Stop, StopKind};
use nvmf_spec::Side;

use super::Options;
use crate::suite::Item;
use crate::verdict::{CheckResult, Finding, Observation, Verdict};

/// The result of a check that was played. `failed` has the ids of those that failed before.
pub(super) fn verdict(options: &Options, item: &Item<'_>, played: Played, failed: &BTreeSet<String>) -> CheckResult {
    let mut r = blank(options, item);
    r.notes = played.notes;
    r.took = played.took;
    if options.rules {
        r.findings = findings(&played.exchange);
    }
    r.exchange = played.exchange;
    let Some(stop) = played.stop.or(played.warning) else {
        if let Some(Err(m)) = item.check.wire.as_ref().map(|s| golden::matches(s, &r.exchange, None)) {
            r.at = Some(format!("{}:{}", item.check.file, m.place.line));
            r.verdict = Verdict::Fail;
            r.observation = Observation::WrongAnswer;
            r.message = format!("expected {}; seen {}", m.expected, m.seen);
        }
        return r;
    };
    r.at = Some(format!("{}:{}", item.check.file, stop.place.line));
    r.observation = observation(stop.seen);
    (r.verdict, r.message) = weigh(item, &stop, failed);
    r
}

fn weigh(item: &Item<'_>, stop: &Stop, failed: &BTreeSet<String>) -> (Verdict, String) {
    match stop.kind {
        StopKind::Graded(Grade::Fail) => (Verdict::Fail, stop.message.clone()),
        StopKind::Graded(Grade::Lenient) => (Verdict::FailLenient, stop.message.clone()),
        StopKind::Graded(Grade::Warn) => (Verdict::Warn, stop.message.clone()),
        StopKind::Graded(Grade::Skip) => (Verdict::Skip, stop.message.clone()),
        StopKind::Graded(Grade::Ok) => (Verdict::Pass, stop.message.clone()),
        StopKind::Prerequisite(by) if by != item.check.script.id && failed.contains(by) => {
            (Verdict::Blocked, format!("{by} failed: {}", stop.message))
        }
        StopKind::Prerequisite(_) => (Verdict::Fail, stop.message.clone()),
        StopKind::Script | StopKind::Harness => (Verdict::Error, stop.message.clone()),
    }
}

fn blank(options: &Options, item: &Item<'_>) -> CheckResult {
    let id = item.id();
    CheckResult {
        says: item.check.script.says.clone(),
        cites: item.check.cites(),
        class: item.check.class(),
        verdict: Verdict::Pass,
        observation: Observation::AsExpected,
        message: String::new(),
        notes: Vec::new(),
        findings: Vec::new(),
        at: None,
        took: Duration::ZERO,
        exchange: Exchange::default(),
        reproduce: format!("{} --filter {id}", options.reproduce),
        id,
    }
}

/// The result of a check that was not played.
pub(super) fn not_run(options: &Options, item: &Item<'_>, verdict: Verdict, why: &str) -> CheckResult {
    CheckResult { verdict, observation: Observation::NotRun, message: why.to_owned(), ..blank(options, item) }
}

/// The result of a check whose script is wrong.
pub(super) fn error(options: &Options, item: &Item<'_>, line: usize, why: &str) -> CheckResult {
    let at = Some(format!("{}:{line}", item.check.file));
    CheckResult { at, ..not_run(options, item, Verdict::Error, why) }
}

fn observation(seen: Seen) -> Observation {
    match seen {
        Seen::Expected => Observation::AsExpected,
        Seen::Timeout => Observation::Timeout,
        Seen::WrongAnswer => Observation::WrongAnswer,
        Seen::Close => Observation::SilentClose,
        Seen::Reset => Observation::Reset,
        Seen::Unexpected => Observation::Unexpected,
        Seen::WrongData => Observation::WrongData,
        Seen::Unreachable => Observation::PeerDied,
        Seen::NotRun => Observation::NotRun,
    }
}

/// What the bystander rules find in the controller's part of a check's traffic, each requirement once. The blocks
/// that a check writes are its own.
fn findings(exchange: &Exchange) -> Vec<Finding> {
    let mut judge = Judge::new().exclusive();
    let mut all: Vec<Finding> = Vec::new();
    for (conn, event) in exchange.events() {
        for f in judge.event(conn, event).into_iter().filter(|f| f.side == Side::Controller) {
            match all.iter_mut().find(|known| known.requirement.id == f.requirement.id) {
                Some(known) => known.count += 1,
                None => all.push(Finding { requirement: f.requirement, seen: f.seen, expected: f.expected, count: 1 }),
            }
        }
    }
    all
}
