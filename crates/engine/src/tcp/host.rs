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

use std::collections::VecDeque;

use bytes::Bytes;
use nvmf_seam::rdma::Memory;
use nvmf_seam::{Instant, Transmit};
use nvmf_spec::{Answer, Requirement, Side, Violation};
use nvmf_wire::tcp::{Digests, Fes, Framer};
use nvmf_wire::{Cid, Opcode, Qid};

use crate::host::connection::{Completion, HostEvent, Negotiated, Waiting};
use crate::host::data::Data;
use crate::host::ledger::{self, Ledger};
use crate::host::settings::HostTcpSettings;

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

/// What the binding keeps of a command.
#[derive(Debug)]
struct Transfer {
    /// Data to the controller.
    out: Bytes,
    in_capsule: bool,
    /// Bytes due from the controller.
    due: u32,
    data: Data,
    /// The user's memory, to be filled from `data` where it can be written to.
    memory: Option<Memory>,
    /// A C2HData with LAST_PDU came.
    last: bool,
    /// A C2HData had a wrong DDGST. [TCP-DGST-24]
    ddgst_bad: bool,
    /// Offset at which the next R2T has to start: all before was asked for. [TCP-R2T-03]
    asked: u32,
    /// R2Ts not yet answered in full.
    r2ts: u32,
}

type Pending = ledger::Pending<Transfer>;

impl Transfer {
    /// The command ends without an answer.
    fn aborted(self, cid: Cid) -> Completion {
        Completion { data: self.data, memory: self.memory, ..Completion::aborted(cid) }
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
/// remembered up to 1024.
#[derive(Debug)]
pub struct HostConnection {
    settings: HostTcpSettings,
    qid: Qid,
    in_capsule: u32,
    state: State,
    agreed: Negotiated,
    ledger: Ledger<Transfer>,
    framer: Framer,
    out: VecDeque<Item>,
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
            in_capsule,
            state: State::Starting { until },
            agreed: Negotiated { digests: Digests::default(), align: 4, maxh2cdata: 0 },
            ledger: Ledger::new(entries, max_transfer),
            framer: Framer::new(usize::MAX),
            out: VecDeque::from([Item::Made(icreq)]),
        }
    }

    /// What was agreed on; of use after [`HostEvent::Ready`].
    pub fn negotiated(&self) -> Negotiated {
        self.agreed
    }

    /// True while SQHD is looked at.
    pub fn has_flow_control(&self) -> bool {
        self.ledger.queue.has_flow_control()
    }

    /// Commands not yet completed.
    pub fn outstanding(&self) -> usize {
        self.ledger.pending.len()
    }

    /// The opcodes of the commands not yet completed.
    pub fn opcodes(&self) -> impl Iterator<Item = Opcode> {
        self.ledger.opcodes()
    }

    /// True while this command is not completed.
    pub fn has(&self, cid: Cid) -> bool {
        self.ledger.pending.contains_key(&cid)
    }

    /// Commands that may be submitted now.
    pub fn room(&self) -> usize {
        if self.state == State::Ready { self.ledger.room() } else { 0 }
    }

    /// Payload bytes that the CPU read or wrote here: copied out of and into the byte stream, looked at for a digest, gathered.
    pub fn touched(&self) -> u64 {
        self.ledger.touched
    }

    /// The TCP connection ended by the controller's doing (or failed). Commands not completed end locally. [FAB-DISC-20]
    pub fn handle_closed(&mut self) {
        if let State::Faulty { fault, .. } = &self.state {
            // Too late for an H2CTermReq, not for the reason.
            self.ledger.events.push_back(HostEvent::Violation(fault.violation()));
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
                self.ledger.events.push_back(HostEvent::TimedOut(Waiting::IcResp));
                self.close(true);
            }
            State::Faulty { fault, until } if *until <= now => {
                let fault = fault.clone();
                self.terminate(fault, now);
            }
            State::Terminated { until } if *until <= now => self.close(false),
            State::Ready => self.ledger.handle_timeout(now),
            _ => {}
        }
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Starting { until } | State::Faulty { until, .. } | State::Terminated { until } => Some(*until),
            State::Ready => self.ledger.poll_timeout(),
            State::Closed => None,
        }
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<HostEvent> {
        self.ledger.events.pop_front()
    }

    /// Ends the connection from our side: commands not completed end locally, and the driver is told to close.
    pub fn close(&mut self, reset: bool) {
        if self.state != State::Closed {
            self.end();
            self.ledger.events.push_back(HostEvent::Close { reset });
        }
    }

    /// A fatal transport error: no PDU is looked at any more, H2CTermReq goes out, the controller has to close.
    /// [TCP-TERM-14, TCP-TERM-15, TCP-TERM-20]
    fn terminate(&mut self, fault: Fault, now: Instant) {
        let (fes, fei) = (fault.fes, fault.fei);
        let request = send::term_req(fes, fei, self.faulty_header());
        let violation = fault.violation();
        self.ledger.events.push_back(HostEvent::Violation(violation));
        self.end();
        self.state = State::Terminated { until: now + self.settings.term_wait };
        self.out.push_back(Item::Made(request));
    }

    fn end(&mut self) {
        self.state = State::Closed;
        self.out.clear();
        self.framer.take_rest();
        for (cid, p) in std::mem::take(&mut self.ledger.pending) {
            self.ledger.events.push_back(HostEvent::Completed(p.own.aborted(cid)));
        }
    }
}
