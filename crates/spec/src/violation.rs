//! The way to say that a peer broke a requirement, and what is answered.

use alloc::borrow::Cow;
use core::fmt;

use crate::Requirement;

/// One end of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The host.
    Host,
    /// The controller.
    Controller,
}

impl Side {
    /// The side across the wire.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Side::Host => Side::Controller,
            Side::Controller => Side::Host,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Side::Host => "host",
            Side::Controller => "controller",
        })
    }
}

/// What the side that notices a breach does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Nothing is due, or the text leaves it open.
    None,
    /// The offending message is dropped, and the connection goes on.
    Ignore,
    /// The connection is closed without a word.
    Close,
    /// A TermReq PDU, then a close [NVMe/TCP 3.5.1].
    TermReq {
        /// Fatal Error Status (FES).
        fes: u16,
        /// Fatal Error Information (FEI): for FES 01h the byte offset of the field, for 03h the received digest.
        fei: u32,
    },
    /// The command is completed with an error status.
    Status {
        /// Status Code Type (SCT), 3 bits.
        sct: u8,
        /// Status Code (SC).
        sc: u8,
        /// Do Not Retry (DNR).
        dnr: bool,
    },
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::None => f.write_str("nothing"),
            Answer::Ignore => f.write_str("ignored"),
            Answer::Close => f.write_str("close"),
            Answer::TermReq { fes, fei } => write!(f, "TermReq FES {fes:02X}h, FEI {fei:#x}"),
            Answer::Status { sct, sc, dnr } => {
                write!(f, "status {sct:X}h/{sc:02X}h")?;
                if *dnr { f.write_str(", do not retry") } else { Ok(()) }
            }
        }
    }
}

/// A peer broke a requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The requirement that was broken.
    pub requirement: &'static Requirement,
    /// Who broke it.
    pub side: Side,
    /// What was seen, with the values: `R2TL 0`.
    pub seen: Cow<'static, str>,
    /// What the side that noticed does about it.
    pub answer: Answer,
}

impl Violation {
    /// A breach by `side`, without an answer yet.
    #[must_use]
    pub fn new(requirement: &'static Requirement, side: Side, seen: impl Into<Cow<'static, str>>) -> Self {
        Self { requirement, side, seen: seen.into(), answer: Answer::None }
    }

    /// The same breach with the answer that is given.
    #[must_use]
    pub fn answered(mut self, answer: Answer) -> Self {
        self.answer = answer;
        self
    }
}

impl fmt::Display for Violation {
    /// `host: CapsuleCmd first breaks TCP-ICREQ-01 (NVMe TCP Transport 1.0, 3.1)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} breaks {}", self.side, self.seen, self.requirement)
    }
}

impl core::error::Error for Violation {}
