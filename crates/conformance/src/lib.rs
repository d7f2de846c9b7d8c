//! Checks, faults, verdicts, expectations and reports. Design section 8.
//!
//! [`verdict`] says what a check can end with. Read [`Verdict`] first.

pub mod verdict;

pub use verdict::{CheckResult, Class, Observation, Run, Verdict};
