//! Checks, faults, verdicts, expectations and reports. Design section 8.
//!
//! [`verdict`] says what a check can end with. Read [`Verdict`] first; [`summary`] makes an exit status of a [`Run`], and
//! [`report`] tells it.

pub mod expect;
pub mod probe;
pub mod report;
pub mod runner;
pub mod select;
pub mod slips;
pub mod suite;
pub mod summary;
pub mod verdict;

pub use expect::Expectations;
pub use report::{Report, Wall};
pub use slips::{Slip, SlipStanding};
pub use summary::{ExitStatus, Policy, Standing, Summary};
pub use verdict::{CheckResult, Class, Finding, Observation, Run, Verdict};
