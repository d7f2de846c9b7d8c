//! One connection of a host as its users and the association see it, whatever the transport: payloads, completions, events, and the verbs
//! that TCP and RDMA have in common.
//!
//! Read [`HostEvent`] first; the connections themselves are [`crate::tcp::host::HostConnection`] and [`crate::rdma::HostConnection`].

use core::fmt;

use bytes::Bytes;
use nvmf_seam::Instant;
use nvmf_seam::rdma::Memory;
use nvmf_spec::Violation;
use nvmf_wire::tcp::{Digests, Fes};
use nvmf_wire::{Cid, Cqe, Opcode, Sqe, Status};

use super::data::Data;
use crate::{rdma, tcp};

/// The data of a command.
#[derive(Clone, Debug)]
pub enum Payload {
    /// None.
    None,
    /// The host sends these bytes.
    Out(Bytes),
    /// The controller is to send this many bytes.
    In(u32),
    /// The host sends what is in this memory, which comes back with the completion.
    OutOf(Memory),
    /// The controller is to fill this memory, which comes back with the completion.
    Into(Memory),
}

impl Payload {
    /// Bytes to the controller, and from it.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        match self {
            Self::None => (0, 0),
            Self::Out(b) => (b.len(), 0),
            Self::In(n) => (0, *n as usize),
            Self::OutOf(m) => (m.len(), 0),
            Self::Into(m) => (0, m.len()),
        }
    }
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// The queue is full; try again after a completion.
    Full,
    /// The connection is not established yet, is ending or has ended.
    NotReady,
    /// The opcode's direction is not that of the payload. [FAB-CMD-06]
    Direction,
    /// More data than the settings, MDTS, or over RDMA the descriptors of one capsule allow for one command. [FAB-IDENT-11]
    TooLarge,
    /// Memory that cannot be written to is no place for data from the controller.
    ReadOnly,
    /// The controller does not say that it can do this.
    Unsupported,
    /// No such command is outstanding.
    Unknown,
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the queue is full",
            Self::NotReady => "the connection is not ready",
            Self::Direction => "the opcode moves data the other way",
            Self::TooLarge => "more data than one command may move here",
            Self::ReadOnly => "the memory is read only",
            Self::Unsupported => "the controller does not support it",
            Self::Unknown => "no such command is outstanding",
        })
    }
}

impl std::error::Error for SubmitError {}

/// The end of a command.
#[derive(Clone, Debug)]
pub struct Completion {
    /// Which command.
    pub cid: Cid,
    /// What the controller answered, or what a C2HData with SUCCESS stands for. [TCP-C2H-12]
    pub cqe: Cqe,
    /// The host's own verdict where it differs: a data digest error, data missing from a success, or the end of the connection.
    pub local: Option<Status>,
    /// Data from the controller for [`Payload::In`]; of use only where the status is success. [CQE-24]
    pub data: Data,
    /// The memory of [`Payload::OutOf`] or [`Payload::Into`]; `None` as well where the end of the connection took it.
    pub memory: Option<Memory>,
}

impl Completion {
    /// The status that counts.
    pub fn status(&self) -> Status {
        self.local.unwrap_or(self.cqe.status())
    }

    /// A command that ends without an answer.
    pub(crate) fn aborted(cid: Cid) -> Self {
        let status = Status::COMMAND_ABORTED_BY_HOST;
        Self { cid, cqe: Cqe::of(cid, status, 0), local: Some(status), data: Data::default(), memory: None }
    }
}

/// What ICReq and ICResp agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Digests in use. [TCP-DGST-03, TCP-DGST-11]
    pub digests: Digests,
    /// Alignment of data to the controller, bytes: (CPDA + 1) x 4.
    pub align: usize,
    /// Most bytes of data in one H2CData. [TCP-ICRESP-11]
    pub maxh2cdata: u32,
}

/// What REQ and REP agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Receive buffers of the controller (CRQSIZE), as it says it. [RDMA-CM-19]
    pub crqsize: u16,
    /// READs that the controller has out at a time (Initiator Depth of the REP). [RDMA-CM-04]
    pub reads: u8,
    /// RNR Retry Count of the controller. [RDMA-CM-09]
    pub rnr_retry_count: u8,
}

/// What the ends of a connection agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreed {
    /// Over TCP.
    Tcp(Negotiated),
    /// Over RDMA.
    Rdma(Granted),
}

impl Agreed {
    /// Over TCP.
    pub fn tcp(&self) -> Option<Negotiated> {
        match self {
            Self::Tcp(n) => Some(*n),
            Self::Rdma(_) => None,
        }
    }

    /// Over RDMA.
    pub fn rdma(&self) -> Option<Granted> {
        match self {
            Self::Tcp(_) => None,
            Self::Rdma(g) => Some(*g),
        }
    }
}

/// What happened on the connection.
#[derive(Clone, Debug)]
pub enum HostEvent {
    /// ICResp or REP taken: commands may be submitted.
    Ready(Agreed),
    /// A command ended.
    Completed(Completion),
    /// The controller broke a requirement. With [`nvmf_spec::Answer::TermReq`] and `Close` the connection ends; otherwise it goes on.
    Violation(Violation),
    /// TCP: the controller sent a terminate request.
    TermReq {
        /// Fatal Error Status (FES).
        fes: Fes,
        /// Fatal Error Information (FEI).
        fei: u32,
    },
    /// RDMA: there will be no connection, and why, in words.
    Refused(String),
    /// RDMA: the queue pair is in error, and why. [RDMA-ERR-02]
    Broken(&'static str),
    /// Time ran out. Where it is a command's, the connection stays until its user closes it.
    TimedOut(Waiting),
    /// The driver is to close the connection; nothing more comes.
    Close {
        /// TCP: with RST.
        reset: bool,
    },
}

/// What was waited for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The ICResp. [TCP-CONN-04]
    IcResp,
    /// The REP.
    Rep,
    /// The completion of a command.
    Command(Cid),
}

/// A connection of either transport.
#[derive(Debug)]
pub(super) enum Connection {
    Tcp(Box<tcp::host::HostConnection>),
    Rdma(Box<rdma::HostConnection>),
}

/// The same call on either.
macro_rules! either {
    ($self:expr, $c:ident => $call:expr) => {
        match $self {
            Connection::Tcp($c) => $call,
            Connection::Rdma($c) => $call,
        }
    };
}

impl Connection {
    pub(super) fn tcp(&mut self) -> Option<&mut tcp::host::HostConnection> {
        match self {
            Self::Tcp(c) => Some(c),
            Self::Rdma(_) => None,
        }
    }

    pub(super) fn rdma(&mut self) -> Option<&mut rdma::HostConnection> {
        match self {
            Self::Tcp(_) => None,
            Self::Rdma(c) => Some(c),
        }
    }

    pub(super) fn submit(&mut self, sqe: Sqe, payload: Payload, until: Option<Instant>) -> Result<Cid, SubmitError> {
        either!(self, c => c.submit(sqe, payload, until))
    }

    pub(super) fn submit_fused(
        &mut self,
        first: (Sqe, Payload),
        second: (Sqe, Payload),
        until: Option<Instant>,
    ) -> Result<(Cid, Cid), SubmitError> {
        either!(self, c => c.submit_fused(first, second, until))
    }

    pub(super) fn limit_transfer(&mut self, bytes: u32) {
        either!(self, c => c.limit_transfer(bytes));
    }

    pub(super) fn forget(&mut self) {
        either!(self, c => c.forget());
    }

    pub(super) fn close(&mut self, reset: bool) {
        either!(self, c => c.close(reset));
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        either!(self, c => c.handle_timeout(now));
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        either!(self, c => c.poll_timeout())
    }

    pub(super) fn poll_event(&mut self) -> Option<HostEvent> {
        either!(self, c => c.poll_event())
    }

    pub(super) fn room(&self) -> usize {
        either!(self, c => c.room())
    }

    pub(super) fn outstanding(&self) -> usize {
        either!(self, c => c.outstanding())
    }

    pub(super) fn has(&self, cid: Cid) -> bool {
        either!(self, c => c.has(cid))
    }

    /// Outstanding commands with this opcode.
    pub(super) fn count(&self, opcode: Opcode) -> usize {
        either!(self, c => c.opcodes().filter(|o| *o == opcode).count())
    }

    pub(super) fn has_flow_control(&self) -> bool {
        either!(self, c => c.has_flow_control())
    }

    pub(super) fn touched(&self) -> u64 {
        either!(self, c => c.touched())
    }

    /// It ends by the controller's own doing, or waits for that: no news.
    pub(super) fn is_doomed(&self) -> bool {
        match self {
            Self::Tcp(c) => c.is_doomed(),
            Self::Rdma(c) => c.is_ending(),
        }
    }

    /// It is left alone when the association ends: it waits for the controller to close.
    pub(super) fn is_terminated(&self) -> bool {
        match self {
            Self::Tcp(c) => c.is_terminated(),
            Self::Rdma(_) => false,
        }
    }
}
