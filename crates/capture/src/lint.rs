//! A capture judged as it goes by: the bystander rules on every connection, sifted and told one cause at a time.
//!
//! [`Lint`] is a [`Watcher`] that keeps what the rules need of connections that stand, and nothing else, so that captures of any
//! length go through.

use std::collections::{BTreeMap, BTreeSet};

use nvmf_spec::{Level, Requirement, Side};

use crate::exchange::{Ends, Event, EventKind};
use crate::follow::Watcher;
use crate::rules::{Finding, Judge};

/// What is wrong with one event: a finding, and what else asks for the same in other words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The first requirement that is broken, with where and how.
    pub finding: Finding,
    /// Other requirements that the same bytes break in the same way, in the order of the rules.
    pub also: Vec<&'static Requirement>,
}

impl Cause {
    /// Joins findings of one event that tell the same of the same bytes.
    #[must_use]
    pub fn join(findings: Vec<Finding>) -> Vec<Self> {
        let mut out: Vec<Self> = Vec::with_capacity(findings.len());
        for f in findings {
            let same = |c: &&mut Self| (&c.finding.seen, &c.finding.expected, c.finding.side) == (&f.seen, &f.expected, f.side);
            match out.iter_mut().find(same) {
                Some(c) => c.also.push(f.requirement),
                None => out.push(Self { finding: f, also: Vec::new() }),
            }
        }
        out
    }

    /// All requirements that are broken.
    pub fn requirements(&self) -> impl Iterator<Item = &'static Requirement> {
        std::iter::once(self.finding.requirement).chain(self.also.iter().copied())
    }

    /// The strongest of their levels.
    #[must_use]
    pub fn level(&self) -> Level {
        self.requirements().map(|r| r.level).min().unwrap_or(self.finding.level)
    }
}

/// Which findings are told.
#[derive(Clone, Debug, Default)]
pub struct Sieve {
    /// Of this side alone.
    pub side: Option<Side>,
    /// This strong at least.
    pub level: Option<Level>,
    /// Whose id begins with one of these; empty lets all through.
    pub only: Vec<String>,
    /// Whose id begins with none of these.
    pub skip: Vec<String>,
    /// The first of a requirement and a side alone.
    pub once: bool,
}

impl Sieve {
    fn lets(&self, f: &Finding) -> bool {
        let begins = |with: &[String]| with.iter().any(|p| f.requirement.id.starts_with(p.as_str()));
        self.side.is_none_or(|s| s == f.side)
            && self.level.is_none_or(|l| f.level <= l)
            && (self.only.is_empty() || begins(&self.only))
            && !begins(&self.skip)
    }
}

/// What went through a [`Lint`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Connections.
    pub connections: usize,
    /// PDUs of NVMe/TCP, and packets of RoCEv2.
    pub pdus: u64,
    /// Causes that were told.
    pub causes: u64,
    /// Those of them that break a *shall*.
    pub shall: u64,
}

/// Judges a capture and hands each cause to `tell`, with the ends of its connection, as soon as it shows.
pub struct Lint<F> {
    judge: Judge,
    sieve: Sieve,
    seen: BTreeSet<(&'static str, Side)>,
    ends: BTreeMap<usize, Ends>,
    start_ns: Option<u64>,
    tally: Tally,
    tell: F,
}

impl<F: FnMut(&Ends, &Cause, u64)> Lint<F> {
    /// Tells what `sieve` lets through. `tell` is given the ends of the connection, the cause, and nanoseconds since the first
    /// connection of the capture.
    pub fn new(judge: Judge, sieve: Sieve, tell: F) -> Self {
        Self { judge, sieve, seen: BTreeSet::new(), ends: BTreeMap::new(), start_ns: None, tally: Tally::default(), tell }
    }

    /// What went through so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    fn found(&mut self, conn: usize, mut findings: Vec<Finding>) {
        let (sieve, seen) = (&self.sieve, &mut self.seen);
        findings.retain(|f| sieve.lets(f) && (!sieve.once || seen.insert((f.requirement.id, f.side))));
        let Some(ends) = self.ends.get(&conn) else { return };
        for cause in Cause::join(findings) {
            self.tally.causes += 1;
            self.tally.shall += u64::from(cause.level() == Level::Shall);
            let since = cause.finding.at_ns.saturating_sub(self.start_ns.unwrap_or(0));
            (self.tell)(ends, &cause, since);
        }
    }
}

impl<F: FnMut(&Ends, &Cause, u64)> Watcher for Lint<F> {
    fn opened(&mut self, conn: usize, ends: &Ends) {
        self.tally.connections += 1;
        self.start_ns = Some(self.start_ns.map_or(ends.opened_ns, |at| at.min(ends.opened_ns)));
        self.ends.insert(conn, *ends);
    }

    fn event(&mut self, conn: usize, event: &Event) {
        self.tally.pdus += u64::from(matches!(event.kind, EventKind::Pdu(_) | EventKind::Packet(_)));
        let findings = self.judge.event(conn, event);
        if !findings.is_empty() {
            self.found(conn, findings);
        }
    }

    fn over(&mut self, conn: usize) {
        self.judge.forget(conn);
        self.ends.remove(&conn);
    }
}
