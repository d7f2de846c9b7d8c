//! What the peer did wrong in passing: findings of the bystander rules, over all checks of a call, a requirement each.
//!
//! A finding changes the verdict of no check: it tells of something else than what that check asks, and often comes in every check.
//! Here it is counted once for its requirement, and weighed: a *shall* that nobody expected to be broken fails the run. Read [`Slip`].

use std::collections::BTreeMap;

use nvmf_spec::{Level, Requirement};

use crate::expect::Expectations;
use crate::summary::Policy;
use crate::verdict::{Finding, Run};

/// A requirement that the peer broke in the traffic of checks, whatever those ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slip {
    /// The requirement.
    pub requirement: &'static Requirement,
    /// What it counts as.
    pub standing: SlipStanding,
    /// How often it was broken.
    pub count: u64,
    /// In how many checks.
    pub checks: usize,
    /// The first of those, in the order of the suite.
    pub first: String,
    /// What was seen there first, with values.
    pub seen: String,
    /// What the requirement asks for there.
    pub expected: String,
    /// Why it was expected; empty where it was not.
    pub reason: String,
}

/// What a [`Slip`] counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlipStanding {
    /// A *shall*, under `--strict` also a *should*, that nobody expected to be broken: the run fails.
    Failed,
    /// Anything less.
    Warned,
    /// The expectation file has it.
    Known,
}

impl SlipStanding {
    /// One word for reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Warned => "warned",
            Self::Known => "known",
        }
    }

    fn of(level: Level, expected: bool, policy: Policy) -> Self {
        match level {
            _ if expected => Self::Known,
            Level::Shall => Self::Failed,
            Level::Should if policy.strict => Self::Failed,
            Level::Should | Level::May => Self::Warned,
        }
    }
}

impl Slip {
    /// All of some runs: what fails the run first, then by requirement.
    pub(crate) fn all(runs: &[Run], expectations: Option<&Expectations>, policy: Policy) -> Vec<Self> {
        let mut all: BTreeMap<&str, Self> = BTreeMap::new();
        for result in runs.iter().flat_map(|run| &run.results) {
            for finding in &result.findings {
                let slip = all.entry(finding.requirement.id).or_insert_with(|| {
                    let entry = expectations.and_then(|e| e.finding(finding.requirement.id));
                    Self::first(finding, &result.id, entry.map(|e| e.reason.as_str()), policy)
                });
                slip.count += finding.count;
                slip.checks += 1;
            }
        }
        let mut all: Vec<Self> = all.into_values().collect();
        all.sort_by_key(|slip| slip.standing);
        all
    }

    fn first(finding: &Finding, id: &str, reason: Option<&str>, policy: Policy) -> Self {
        Self {
            requirement: finding.requirement,
            standing: SlipStanding::of(finding.requirement.level, reason.is_some(), policy),
            count: 0,
            checks: 0,
            first: id.to_owned(),
            seen: finding.seen.clone(),
            expected: finding.expected.clone(),
            reason: reason.unwrap_or_default().to_owned(),
        }
    }

    /// How often, and where: `3 times in 2 checks, first in io/read/one`.
    #[must_use]
    pub fn extent(&self) -> String {
        let Self { count, checks, first, .. } = self;
        match (count, checks) {
            (1, _) => format!("once, in {first}"),
            (n, 1) => format!("{n} times in {first}"),
            (n, checks) => format!("{n} times in {checks} checks, first in {first}"),
        }
    }
}
