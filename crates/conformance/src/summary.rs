//! How a run is counted and which exit status it ends with. Design section 8.
//!
//! Every result gets one [`Standing`] from its verdict, the policy and what was expected of it; the counts and the
//! [`ExitStatus`] follow from the standings alone, but for what the peer did wrong in passing ([`crate::slips`]). Read [`Standing`] first.

use crate::expect::{Entry, Expectations, Expected};
use crate::slips::{Slip, SlipStanding};
use crate::verdict::{CheckResult, Observation, Run, Verdict};

/// How hard a run is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// A *should* unmet counts as a failure.
    pub strict: bool,
    /// A right effect by wrong means counts as a pass.
    pub lenient: bool,
}

/// What a result counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The requirement is met.
    Passed,
    /// Met in its effect alone, which `--lenient` accepts. Counted as passed.
    PassedLeniently,
    /// A failure that nobody expected; under `--strict` also a warning.
    Failed,
    /// The peer died of it, and that was not expected. Counted as failed.
    Killed,
    /// A *should* is unmet.
    Warned,
    /// It could not be judged, because a check before it failed.
    Blocked,
    /// The peer lacks the capability, the caller did not allow it, or an expectation file excludes it.
    Skipped,
    /// It failed exactly as the expectation file says. Counted apart.
    Known,
    /// It failed, and the expectation file says that it may. Counted apart.
    MayFail,
    /// The expectation file says that it fails, and it does not any more. Counted as passed or, where a *should* remains
    /// unmet, as warned.
    Unexpected,
    /// Our side broke. Counted apart.
    Errored,
}

impl Standing {
    /// One word for reports: `passed`, `failed`, `known` and so on.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Standing::Passed => "passed",
            Standing::PassedLeniently => "passed-leniently",
            Standing::Failed => "failed",
            Standing::Killed => "killed-the-peer",
            Standing::Warned => "warned",
            Standing::Blocked => "blocked",
            Standing::Skipped => "skipped",
            Standing::Known => "known",
            Standing::MayFail => "may-fail",
            Standing::Unexpected => "unexpected-pass",
            Standing::Errored => "error",
        }
    }

    /// Whether it is a failure that counts.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Standing::Failed | Standing::Killed)
    }

    /// The standing of a result under a policy, given what was expected of its check.
    #[must_use]
    pub fn of(result: &CheckResult, entry: Option<&Entry>, policy: Policy) -> Self {
        let plain = Self::unexpecting(result, policy);
        let judged = !matches!(plain, Standing::Blocked | Standing::Skipped | Standing::Errored);
        let Some(entry) = entry.filter(|_| judged) else {
            return plain;
        };
        match &entry.expected {
            Expected::Exclude => plain,
            Expected::MayFail if plain == Standing::Failed => Standing::MayFail,
            Expected::MayFail => plain,
            Expected::Known { verdict, observation } => {
                let seen = match observation {
                    Some(observation) => *observation == result.observation,
                    None => result.observation != Observation::PeerDied,
                };
                if *verdict == result.verdict && seen {
                    Standing::Known
                } else if plain.is_failure() || *verdict == result.verdict {
                    // Another failure of the same check, or the same warning seen otherwise.
                    plain
                } else {
                    Standing::Unexpected
                }
            }
        }
    }

    fn unexpecting(result: &CheckResult, policy: Policy) -> Self {
        match result.verdict {
            Verdict::Error => Standing::Errored,
            _ if result.observation == Observation::PeerDied => Standing::Killed,
            Verdict::Pass => Standing::Passed,
            Verdict::FailLenient if policy.lenient => Standing::PassedLeniently,
            Verdict::Fail | Verdict::FailLenient => Standing::Failed,
            Verdict::Warn if policy.strict => Standing::Failed,
            Verdict::Warn => Standing::Warned,
            Verdict::Blocked => Standing::Blocked,
            Verdict::Skip => Standing::Skipped,
        }
    }
}

/// The five numbers of the last line, and those that stand apart. Together they are all results:
/// `passed + failed + warned + blocked + skipped + known + may_fail + errors`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requirement met, expected or not.
    pub passed: usize,
    /// Failed without being expected to.
    pub failed: usize,
    /// A *should* unmet.
    pub warned: usize,
    /// Not judged, since a check before failed.
    pub blocked: usize,
    /// Not run, with a reason.
    pub skipped: usize,
    /// Failed as the expectation file says.
    pub known: usize,
    /// Failed as the expectation file allows.
    pub may_fail: usize,
    /// Our side broke.
    pub errors: usize,
    /// Of those counted above as passed or warned: the expectation file says that they fail.
    pub unexpected: usize,
    /// Of those counted as failed: the peer died of it.
    pub killed: usize,
    /// Of those counted as passed: only `--lenient` lets them.
    pub leniently: usize,
}

/// The runs of one call, counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The policy that it was counted by.
    pub policy: Policy,
    /// The numbers.
    pub counts: Counts,
    /// One for each result, in the order of the runs.
    pub standings: Vec<Standing>,
    /// What the peer did wrong in passing, a requirement each.
    pub slips: Vec<Slip>,
    /// Something beside the results kept the run from being whole: it ended early, or a report could not be written.
    pub incomplete: bool,
}

impl Summary {
    /// Counts the runs of one call.
    #[must_use]
    pub fn of(runs: &[Run], expectations: Option<&Expectations>, policy: Policy) -> Self {
        let standing = |result: &CheckResult| Standing::of(result, expectations.and_then(|e| e.of(&result.id)), policy);
        let standings: Vec<Standing> = runs.iter().flat_map(|run| &run.results).map(standing).collect();
        let mut counts = Counts::default();
        for (result, standing) in runs.iter().flat_map(|run| &run.results).zip(&standings) {
            counts.add(*standing, result.verdict);
        }
        let slips = Slip::all(runs, expectations, policy);
        Self { policy, counts, standings, slips, incomplete: runs.iter().any(|run| run.aborted.is_some()) }
    }

    /// The status to end with.
    #[must_use]
    pub fn status(&self) -> ExitStatus {
        let holds = [
            (self.incomplete || self.counts.errors > 0, ExitStatus::Harness),
            (self.counts.failed > 0 || self.slips_of(SlipStanding::Failed) > 0, ExitStatus::Failed),
            (self.counts.unexpected > 0, ExitStatus::UnexpectedPass),
        ];
        let all = holds.into_iter().filter(|(holds, _)| *holds).map(|(_, status)| status);
        all.fold(ExitStatus::Success, ExitStatus::worst)
    }

    /// How many requirements were broken in passing and count as this.
    #[must_use]
    pub fn slips_of(&self, standing: SlipStanding) -> usize {
        self.slips.iter().filter(|slip| slip.standing == standing).count()
    }

    /// The last line of the console.
    #[must_use]
    pub fn line(&self) -> String {
        let Counts { passed, failed, warned, blocked, skipped, .. } = self.counts;
        format!("{passed} passed, {failed} failed, {warned} warned, {blocked} blocked, {skipped} skipped")
    }
}

impl Counts {
    fn add(&mut self, standing: Standing, verdict: Verdict) {
        let count = match standing {
            Standing::Passed => &mut self.passed,
            Standing::PassedLeniently => {
                self.leniently += 1;
                &mut self.passed
            }
            Standing::Failed => &mut self.failed,
            Standing::Killed => {
                self.killed += 1;
                &mut self.failed
            }
            Standing::Warned => &mut self.warned,
            Standing::Blocked => &mut self.blocked,
            Standing::Skipped => &mut self.skipped,
            Standing::Known => &mut self.known,
            Standing::MayFail => &mut self.may_fail,
            Standing::Errored => &mut self.errors,
            Standing::Unexpected => {
                self.unexpected += 1;
                if verdict == Verdict::Warn { &mut self.warned } else { &mut self.passed }
            }
        };
        *count += 1;
    }
}

/// What the process ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// All well.
    Success,
    /// A check failed or killed the peer, or the bystander rules found a *shall* broken that nobody expected.
    Failed,
    /// The command line, a script or an expectation file is wrong.
    Usage,
    /// The peer could not be reached, or the harness broke.
    Harness,
    /// An expected failure passed.
    UnexpectedPass,
}

impl ExitStatus {
    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            ExitStatus::Success => 0,
            ExitStatus::Failed => 1,
            ExitStatus::Usage => 2,
            ExitStatus::Harness => 3,
            ExitStatus::UnexpectedPass => 4,
        }
    }

    /// The one that stands when both hold: 2 before 3, 1 and 4.
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
    }

    fn rank(self) -> u8 {
        match self {
            ExitStatus::Success => 0,
            ExitStatus::UnexpectedPass => 1,
            ExitStatus::Failed => 2,
            ExitStatus::Harness => 3,
            ExitStatus::Usage => 4,
        }
    }
}

impl From<ExitStatus> for std::process::ExitCode {
    fn from(status: ExitStatus) -> Self {
        std::process::ExitCode::from(status.code())
    }
}
