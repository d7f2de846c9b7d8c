//! The host's end of one NVMe/TCP connection: ICReq and ICResp, capsules, data, digests, terminate requests. [NVMe/TCP 1.0, 3]
//!
//! What it is: bytes in, PDUs out, completions as events, for one queue. What it is not: it neither opens nor closes the TCP
//! connection (its driver does, told by [`HostEvent::Close`]) and knows no association; that is [`crate::host::Association`].
//!
//! Always correct (design invariant I2): what the controller does wrong is answered as NVMe/TCP 3.5 demands. `submit` takes commands,
//! `send` makes PDUs of them, `receive` judges what comes. Read [`HostConnection`] first.

mod receive;
mod send;
mod submit;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use nvmf_seam::{Instant, Transmit};
use nvmf_spec::{Answer, Requirement, Side, Violation};
use nvmf_wire::tcp::{Digests, Fes, Framer};
use nvmf_wire::{Cid, Cqe, Opcode, Qid, Sqe, Status};

use crate::host::data::Data;
use crate::host::queue::Queue;
use crate::host::settings::HostTcpSettings;

/// The data of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// None.
    None,
    /// The host sends these bytes.
    Out(Bytes),
    /// The controller is to send this many bytes.
    In(u32),
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
    /// More data than the settings or MDTS allow for one command. [FAB-IDENT-11]
    TooLarge,
    /// The controller does not say that it can do this.
    Unsupported,
    /// No such command is outstanding.
    Unknown,
}

impl core::fmt::Display for SubmitError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Full => "the queue is full",
            Self::NotReady => "the connection is not ready",
            Self::Direction => "the opcode moves data the other way",
            Self::TooLarge => "more data than one command may move here",
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
    /// Data from the controller; of use only where the status is success. [CQE-24]
    pub data: Data,
}

impl Completion {
    /// The status that counts.
    pub fn status(&self) -> Status {
        self.local.unwrap_or(self.cqe.status())
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

/// What happened on the connection.
#[derive(Clone, Debug)]
pub enum HostEvent {
    /// ICResp taken: commands may be submitted.
    Ready(Negotiated),
    /// A command ended.
    Completed(Completion),
    /// The controller broke a requirement. With [`Answer::TermReq`] the connection ends; otherwise it goes on.
    Violation(Violation),
    /// The controller sent a terminate request.
    TermReq {
        /// Fatal Error Status (FES).
        fes: Fes,
        /// Fatal Error Information (FEI).
        fei: u32,
    },
    /// Time ran out. Where it is a command's, the connection stays until its user closes it.
    TimedOut(Waiting),
    /// The driver is to close the TCP connection; nothing more comes.
    Close {
        /// With RST.
        reset: bool,
    },
}

/// What was waited for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The ICResp. [TCP-CONN-04]
    IcResp,
    /// The completion of a command.
    Command(Cid),
}

/// Notes about breaches that do not end the connection: so many are reported, the rest is dropped.
const NOTES: usize = 64;
/// Commands taken by controller resets that are remembered; the lowest identifiers are dropped.
const FORGOTTEN: usize = 1024;

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// ICReq out, ICResp due.
    Starting { until: Instant },
    /// Commands flow.
    Ready,
    /// A breach was seen in the first bytes of a header; the rest of it is waited for.
    Faulty { fault: Fault, until: Instant },
    /// H2CTermReq sent; the controller is to close. [TCP-TERM-20]
    Terminated { until: Instant },
    /// Over.
    Closed,
}

/// A fatal transport error by the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    fes: Fes,
    fei: u32,
    requirement: &'static Requirement,
    seen: String,
}

impl Fault {
    fn violation(&self) -> Violation {
        let answer = Answer::TermReq { fes: self.fes.0, fei: self.fei };
        Violation::new(self.requirement, Side::Controller, self.seen.clone()).answered(answer)
    }
}

/// A command between submission and completion.
#[derive(Debug)]
struct Pending {
    sqe: Sqe,
    /// Data to the controller.
    out: Bytes,
    in_capsule: bool,
    /// The capsule went to the driver: only then can the controller know the CID.
    sent: bool,
    /// Bytes due from the controller.
    due: u32,
    data: Data,
    /// A C2HData with LAST_PDU came.
    last: bool,
    /// A C2HData had a wrong DDGST. [TCP-DGST-24]
    ddgst_bad: bool,
    /// Offset at which the next R2T has to start: all before was asked for. [TCP-R2T-03]
    asked: u32,
    /// R2Ts not yet answered in full.
    r2ts: u32,
    until: Option<Instant>,
}

impl Pending {
    /// It ends without an answer.
    fn ended_here(self, cid: Cid) -> Completion {
        let status = Status::COMMAND_ABORTED_BY_HOST;
        Completion { cid, cqe: Cqe::of(cid, status, 0), local: Some(status), data: self.data }
    }
}

/// What waits to be sent.
#[derive(Debug)]
enum Item {
    /// ICReq or H2CTermReq.
    Made(Transmit),
    Capsule(Cid),
    /// The rest of an R2T.
    H2cData {
        cid: Cid,
        ttag: u16,
        at: u32,
        end: u32,
    },
}

/// The host's end of one connection.
///
/// A driver feeds `handle_*`, sends what [`Self::poll_transmit`] gives, takes [`Self::poll_event`] until there is none, and calls
/// [`Self::handle_timeout`] at [`Self::poll_timeout`].
///
/// Limits: as many commands as the queue has places, each with at most `settings.r2ts` R2Ts and `max_transfer` bytes; at most one
/// PDU is held unparsed, and no PDU is waited for that is longer than its command's data. Commands that a controller reset took are
/// remembered up to `FORGOTTEN`.
#[derive(Debug)]
pub struct HostConnection {
    settings: HostTcpSettings,
    qid: Qid,
    max_transfer: u32,
    in_capsule: u32,
    state: State,
    agreed: Negotiated,
    queue: Queue,
    pending: BTreeMap<Cid, Pending>,
    /// Commands that ended here by a controller reset, with the bytes due: what still comes for them is passed over.
    forgotten: BTreeMap<Cid, u32>,
    framer: Framer,
    out: VecDeque<Item>,
    events: VecDeque<HostEvent>,
    notes: usize,
}

impl HostConnection {
    /// A connection that was just opened for queue `qid` of `entries`: the ICReq is ready to be sent. [TCP-ICREQ-01]
    ///
    /// `max_transfer` bounds the data of one command and `in_capsule` the data in the capsule of an I/O command, both in bytes.
    pub fn new(settings: HostTcpSettings, qid: Qid, entries: u16, max_transfer: u32, in_capsule: u32, now: Instant) -> Self {
        let until = now + settings.ic_patience;
        let icreq = send::icreq(&settings);
        Self {
            settings,
            qid,
            max_transfer,
            in_capsule,
            state: State::Starting { until },
            agreed: Negotiated { digests: Digests::default(), align: 4, maxh2cdata: 0 },
            queue: Queue::new(entries),
            pending: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            framer: Framer::new(usize::MAX),
            out: VecDeque::from([Item::Made(icreq)]),
            events: VecDeque::new(),
            notes: 0,
        }
    }

    /// What was agreed on; of use after [`HostEvent::Ready`].
    pub fn negotiated(&self) -> Negotiated {
        self.agreed
    }

    /// True while SQHD is looked at.
    pub fn has_flow_control(&self) -> bool {
        self.queue.has_flow_control()
    }

    /// Commands not yet completed.
    pub fn outstanding(&self) -> usize {
        self.pending.len()
    }

    /// The opcodes of the commands not yet completed.
    pub fn opcodes(&self) -> impl Iterator<Item = Opcode> {
        self.pending.values().map(|p| p.sqe.opc())
    }

    /// True while this command is not completed.
    pub fn has(&self, cid: Cid) -> bool {
        self.pending.contains_key(&cid)
    }

    /// Commands that may be submitted now.
    pub fn room(&self) -> usize {
        if self.state == State::Ready { self.queue.room(self.pending.len()) } else { 0 }
    }

    /// The TCP connection ended by the controller's doing (or failed). Commands not completed end locally. [FAB-DISC-20]
    pub fn handle_closed(&mut self) {
        if let State::Faulty { fault, .. } = &self.state {
            // Too late for an H2CTermReq, not for the reason.
            self.events.push_back(HostEvent::Violation(fault.violation()));
        }
        self.close(false);
    }

    /// True once the controller broke the transport's rules: it is to close, and its doing so is no news.
    pub fn is_doomed(&self) -> bool {
        matches!(self.state, State::Terminated { .. } | State::Faulty { .. })
    }

    /// True after an H2CTermReq: the controller is to close now.
    pub fn is_terminated(&self) -> bool {
        matches!(self.state, State::Terminated { .. })
    }

    /// Time passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        match &self.state {
            State::Starting { until } if *until <= now => {
                self.events.push_back(HostEvent::TimedOut(Waiting::IcResp));
                self.close(true);
            }
            State::Faulty { fault, until } if *until <= now => {
                let fault = fault.clone();
                self.terminate(fault, now);
            }
            State::Terminated { until } if *until <= now => self.close(false),
            State::Ready => {
                let late = self.pending.iter().find(|(_, p)| p.until.is_some_and(|u| u <= now)).map(|(c, _)| *c);
                if let Some(cid) = late {
                    // Told once: whoever made the connection looks after the controller's health and ends it. [FAB-INIT-26]
                    self.pending.values_mut().for_each(|p| p.until = None);
                    self.events.push_back(HostEvent::TimedOut(Waiting::Command(cid)));
                }
            }
            _ => {}
        }
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Starting { until } | State::Faulty { until, .. } | State::Terminated { until } => Some(*until),
            State::Ready => self.pending.values().filter_map(|p| p.until).min(),
            State::Closed => None,
        }
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<HostEvent> {
        self.events.pop_front()
    }

    /// Ends the connection from our side: commands not completed end locally, and the driver is told to close.
    pub fn close(&mut self, reset: bool) {
        if self.state != State::Closed {
            self.end();
            self.events.push_back(HostEvent::Close { reset });
        }
    }

    /// A fatal transport error: no PDU is looked at any more, H2CTermReq goes out, the controller has to close.
    /// [TCP-TERM-14, TCP-TERM-15, TCP-TERM-20]
    fn terminate(&mut self, fault: Fault, now: Instant) {
        let (fes, fei) = (fault.fes, fault.fei);
        let request = send::term_req(fes, fei, self.faulty_header());
        let violation = fault.violation();
        self.events.push_back(HostEvent::Violation(violation));
        self.end();
        self.state = State::Terminated { until: now + self.settings.term_wait };
        self.out.push_back(Item::Made(request));
    }

    fn end(&mut self) {
        self.state = State::Closed;
        self.out.clear();
        self.framer.take_rest();
        for (cid, p) in std::mem::take(&mut self.pending) {
            self.events.push_back(HostEvent::Completed(p.ended_here(cid)));
        }
    }

    /// Reports a breach that does not end the connection.
    fn note(&mut self, requirement: &'static Requirement, seen: String) {
        if self.notes < NOTES {
            self.notes += 1;
            self.events.push_back(HostEvent::Violation(Violation::new(requirement, Side::Controller, seen)));
        }
    }
}
