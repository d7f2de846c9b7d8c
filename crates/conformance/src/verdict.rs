//! What a check ended with. Design section 8.

use std::time::Duration;

use nvmf_capture::Exchange;
use nvmf_spec::{Level, Requirement};
use serde::{Deserialize, Serialize};

/// The verdict on one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The peer did what the requirement asks.
    Pass,
    /// A *shall* is unmet.
    Fail,
    /// A *shall* is unmet in its means, but the effect was right: a close without the terminate request, say.
    FailLenient,
    /// A *should* is unmet.
    Warn,
    /// A prerequisite check failed, so this one could not be judged.
    Blocked,
    /// The peer lacks the capability, or the caller did not allow what the check does.
    Skip,
    /// Our side broke: the script or the harness.
    Error,
}

/// What was seen, so that a timeout, a wrong answer and a silent close are told apart. Expectation files match on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Observation {
    /// As expected.
    AsExpected,
    /// Nothing came within the time.
    Timeout,
    /// The peer answered, but with something else.
    WrongAnswer,
    /// The peer closed the connection without a word.
    SilentClose,
    /// The peer reset the connection.
    Reset,
    /// The peer sent something although it should not have.
    Unexpected,
    /// Data read back differs from what it has to be.
    WrongData,
    /// The peer could no longer be reached after the check.
    PeerDied,
    /// Nothing was exchanged: skipped, blocked or not run.
    NotRun,
}

/// What a check may do to the peer. Design section 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Changes nothing that another host would notice.
    Safe,
    /// Writes, but only inside the range that the caller gave.
    Writes,
    /// Resets, or other hosts notice.
    Disruptive,
    /// Writes outside the range given, or known to have killed real targets.
    Destructive,
}

/// One check, judged.
#[derive(Clone, Debug)]
pub struct CheckResult {
    /// Id: `area/topic/slug` or `area/topic/slug/case`.
    pub id: String,
    /// What the check says a peer must do, one sentence.
    pub says: String,
    /// Requirement ids that it cites.
    pub cites: Vec<String>,
    /// What it may do to the peer.
    pub class: Class,
    /// The verdict.
    pub verdict: Verdict,
    /// What was seen.
    pub observation: Observation,
    /// One to three lines for a reader: expected, seen, and where (`file:line`). Empty for a pass.
    pub message: String,
    /// Exact values worth recording although they change no verdict.
    pub notes: Vec<String>,
    /// Findings of the bystander rules on the peer's part of this check's traffic, each requirement once. They do not change the
    /// verdict of the check.
    pub findings: Vec<Finding>,
    /// Script and line that decided, for a fail, warn, skip or error.
    pub at: Option<String>,
    /// How long it took, by the world's own time.
    pub took: Duration,
    /// Everything that crossed the wire.
    pub exchange: Exchange,
    /// A command line that runs this check alone.
    pub reproduce: String,
}

/// A requirement that the peer broke in the traffic of a check, whatever the check asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The requirement.
    pub requirement: &'static Requirement,
    /// What was seen the first time, with values.
    pub seen: String,
    /// What the requirement asks for there.
    pub expected: String,
    /// How often.
    pub count: u64,
}

impl Finding {
    /// How strong the requirement is.
    #[must_use]
    pub fn level(&self) -> Level {
        self.requirement.level
    }
}

impl std::fmt::Display for Finding {
    /// `CQE-02 (shall): SQID 7; asked for: 0, reserved on fabrics; 3 times`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { requirement, seen, expected, count } = self;
        write!(f, "{} ({}): {seen}; asked for: {expected}", requirement.id, requirement.level)?;
        if *count > 1 { write!(f, "; {count} times") } else { Ok(()) }
    }
}

/// One run of the suite.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Target as the user named it, with the address used.
    pub target: String,
    /// NQN of the subsystem tested.
    pub subsystem: String,
    /// World: `sim` or `real`.
    pub world: String,
    /// What the peer says of itself: (name, value), in a fixed order (VS, CAP, MN, FR, IOCCSZ …).
    pub peer: Vec<(String, String)>,
    /// Seed of the run.
    pub seed: u64,
    /// Every check, in the order it ran.
    pub results: Vec<CheckResult>,
    /// Why the run ended early, if it did (the peer died for good, a signal).
    pub aborted: Option<String>,
}
