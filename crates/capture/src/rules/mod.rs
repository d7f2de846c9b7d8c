//! Bystander rules: what bytes alone show to be wrong. Read [`Judge`].

use std::fmt;

use nvmf_spec::{Requirement, Side};

use crate::exchange::Event;

/// A breach that the bytes show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The requirement.
    pub requirement: &'static Requirement,
    /// Who broke it.
    pub side: Side,
    /// The connection, as the caller numbers them.
    pub conn: usize,
    /// Index of the event among those of its connection, from 0.
    pub event: usize,
    /// When, on the clock of the events, nanoseconds.
    pub at_ns: u64,
    /// What was seen, with values.
    pub seen: String,
    /// What the requirement asks for here.
    pub expected: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) {}: {}; {}", self.requirement.id, self.requirement.level, self.side, self.seen, self.expected)
    }
}

/// Finds breaches in events, connection by connection. It has no rules yet.
#[derive(Debug, Default)]
pub struct Judge {}

impl Judge {
    /// A judge that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What is wrong about the next event of connection `conn`.
    pub fn event(&mut self, _conn: usize, _event: &Event) -> Vec<Finding> {
        Vec::new()
    }
}
