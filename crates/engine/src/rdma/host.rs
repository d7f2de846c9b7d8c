//! The host's end of one NVMe/RDMA connection: REQ and REP, receives, registration, capsules, responses, invalidation, the end.
//! [NVMe RDMA Transport 1.0, 3]
//!
//! What it is: CM events and completions in, work requests out, completions of commands as events, for one queue. What it is not: it
//! neither connects nor executes work (its driver does, over a device) and knows no association; that is [`crate::host::Association`].
//!
//! Always correct (design invariant I2): what the controller does wrong is told as a violation, and where the connection cannot go on
//! it ends. `submit` takes commands, `receive` judges what comes. Read [`HostConnection`] first.

mod cm;
mod receive;
mod submit;
mod work;

use std::collections::VecDeque;

use bytes::Bytes;
use nvmf_seam::Instant;
use nvmf_seam::rdma::{Ask, Memory, Remote, Rkey, Work, WorkId};
use nvmf_spec::{Answer, Requirement, Side, Violation};
use nvmf_wire::identify::IdentifyController;
use nvmf_wire::{Cid, Cntlid, Cqe, Opcode, Qid, Sqe};

use crate::host::connection::{Completion, HostEvent, Waiting};
use crate::host::data::Data;
use crate::host::ledger::{self, Ledger};
use crate::host::settings::HostRdmaSettings;

/// What may follow the SQE in a command capsule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capsule {
    /// Bytes of a capsule: 64 on the Admin Queue, IOCCSZ x 16 on an I/O queue. [RDMA-CAPS-02, RDMA-CAPS-03]
    pub bytes: u64,
    /// Where data begins behind the SQE, bytes: ICDOFF x 16. [SQE-25]
    pub data_at: u32,
    /// Descriptors of one command, at least 1: MSDBD, or as many as fit. [SQE-22]
    pub descriptors: u64,
    /// Descriptors may name an offset into the capsule (SGLS bit 20). [RDMA-SGL-08]
    pub offset: bool,
}

impl Capsule {
    /// Of the Admin Queue: no data, one descriptor. [RDMA-CAPS-02, RDMA-SGL-05]
    pub fn admin() -> Self {
        Self { bytes: Sqe::LEN as u64, data_at: 0, descriptors: 1, offset: false }
    }

    /// Of an I/O queue of this controller.
    pub fn of(i: &IdentifyController) -> Self {
        let (bytes, data_at) = (i.command_capsule_bytes(), u32::from(i.icdoff()) * 16);
        // Descriptors follow the SQE; where ICDOFF is not zero they take no more than that. [SGL-21, SGL-22]
        let behind = bytes.saturating_sub(Sqe::LEN as u64);
        let room = if data_at == 0 { behind } else { behind.min(data_at.into()) } / 16;
        let msdbd = if i.msdbd() == 0 { u64::MAX } else { i.msdbd().into() };
        Self { bytes, data_at, descriptors: if i.sgls_offset() { room.min(msdbd).max(1) } else { 1 }, offset: i.sgls_offset() }
    }

    /// Bytes of data that fit.
    fn room(&self) -> u64 {
        if self.offset { self.bytes.saturating_sub(Sqe::LEN as u64 + u64::from(self.data_at)) } else { 0 }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// REQ out, REP due.
    Asking { until: Instant },
    /// Commands flow.
    Ready,
    /// No work is given out any more. What the device still has is waited for.
    Ending { reset: bool, until: Instant },
    /// Over.
    Closed,
}

/// Where the memory of a command is.
#[derive(Debug)]
enum Region {
    /// No memory is named by a key.
    None,
    /// In [`HostConnection::out`], or with the device, which has not said the key yet.
    Registering,
    /// It can be reached by the controller.
    Registered(Remote),
    /// [`Work::Invalidate`] was given out.
    Invalidating(Rkey),
    /// It was waited for, and is here.
    Back(Memory),
    /// The device could not give it back.
    Gone,
}

/// What the binding keeps of a command.
#[derive(Debug)]
struct Transfer {
    /// Tells this command from others that had its CID.
    serial: u64,
    region: Region,
    /// Bytes of the region.
    len: usize,
    /// Bytes of it that were touched before.
    touched: u64,
    /// Where a key is named, its invalidation was asked for.
    wished: bool,
    /// Data for the capsule.
    inline: Bytes,
    /// The user's memory where its data goes in the capsule or there is none.
    lent: Option<Memory>,
    /// The region is the user's memory.
    of_user: bool,
    /// Data from the controller is expected.
    to_host: bool,
    /// The device is done with the SEND.
    send_done: bool,
    /// The response, or the end in its stead.
    answer: Option<Answered>,
}

#[derive(Debug)]
struct Answered {
    cqe: Cqe,
    /// It came from the controller.
    real: bool,
}

type Pending = ledger::Pending<Transfer>;

/// The host's end of one connection.
///
/// A driver connects with [`Self::ask`], hands in `handle_*`, posts what [`Self::poll_work`] gives, does what [`Self::poll_revoke`]
/// says, takes [`Self::poll_event`] until there is none, and calls [`Self::handle_timeout`] at [`Self::poll_timeout`].
///
/// A command completes when the device is done with its SEND, its response came, and its memory is back: whatever the controller does
/// afterwards, nobody else reaches it. [RDMA-DATA-11, RDMA-KEY-10]
///
/// Limits: as many commands as the queue has places, a region each of at most `max_transfer` bytes; one receive for each place of the
/// queue, 16 bytes each; `settings.work` requests on the send queue.
#[derive(Debug)]
pub struct HostConnection {
    settings: HostRdmaSettings,
    qid: Qid,
    entries: u16,
    cntlid: Cntlid,
    capsule: Capsule,
    state: State,
    ledger: Ledger<Transfer>,
    /// Commands that the controller takes at a time, beside what the queue allows. [RDMA-CM-21]
    window: usize,
    /// Capsules to be sent, in the order of submission: the halves of a fused pair stay together. [FAB-TRANS-03]
    order: VecDeque<Cid>,
    /// Registrations and invalidations to be posted.
    out: VecDeque<Work>,
    /// Receives to be posted.
    receives: u32,
    /// Work on the send queue.
    posted: u32,
    serial: u64,
    /// Keys to be taken out of the device.
    revoke: VecDeque<Rkey>,
    /// Work was flushed without a reason; one may still come.
    flushed: Option<Instant>,
    /// The work given out last.
    given: WorkId,
    /// The time when something was last handed in.
    now: Instant,
}

impl HostConnection {
    /// A connection for queue `qid` of `entries`, to be asked for by [`Self::ask`].
    ///
    /// `cntlid` is 0 for the Admin Queue [RDMA-CM-14], `max_transfer` bounds the data of one command in bytes.
    pub fn new(
        settings: HostRdmaSettings,
        qid: Qid,
        entries: u16,
        cntlid: Cntlid,
        capsule: Capsule,
        max_transfer: u32,
        now: Instant,
    ) -> Self {
        let until = now + settings.rep_patience;
        let entries = entries.max(2);
        Self {
            settings,
            qid,
            entries,
            cntlid,
            capsule,
            state: State::Asking { until },
            ledger: Ledger::new(entries, max_transfer),
            window: usize::MAX,
            order: VecDeque::new(),
            out: VecDeque::new(),
            receives: entries.into(),
            posted: 0,
            serial: 0,
            revoke: VecDeque::new(),
            flushed: None,
            given: WorkId::default(),
            now,
        }
    }

    /// What to connect with.
    pub fn ask(&self) -> Ask {
        cm::ask(&self.settings, self.qid, self.entries, self.cntlid)
    }

    /// True while commands flow.
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// True once the end has begun.
    pub fn is_ending(&self) -> bool {
        matches!(self.state, State::Ending { .. } | State::Closed)
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
        if self.state != State::Ready {
            return 0;
        }
        self.ledger.room().min(self.window.saturating_sub(self.ledger.pending.len()))
    }

    /// Payload bytes that a CPU read or wrote here, or in memory that came back.
    pub fn touched(&self) -> u64 {
        self.ledger.touched
    }

    /// Time passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        match &self.state {
            State::Ending { until, .. } if *until <= now => self.give_up(),
            State::Asking { until } if *until <= now => {
                self.ledger.events.push_back(HostEvent::TimedOut(Waiting::Rep));
                self.close(true);
            }
            State::Ready if self.flushed.is_some_and(|at| at <= now) => self.broken("the queue pair went to its error state"),
            State::Ready => self.ledger.handle_timeout(now),
            _ => {}
        }
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Asking { until } | State::Ending { until, .. } => Some(*until),
            State::Ready => self.ledger.poll_timeout().into_iter().chain(self.flushed).min(),
            _ => None,
        }
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<HostEvent> {
        self.ledger.events.pop_front()
    }

    /// Ends the connection from our side: commands not completed end locally once their memory is back, then the driver is told to close.
    pub fn close(&mut self, reset: bool) {
        if !self.is_ending() {
            self.end(reset);
        }
    }

    /// A key whose region is to be taken out of the device, for [`Self::handle_revoked`]. The connection is to be ended before, where it
    /// stands: the controller must not find out by a NAK.
    pub fn poll_revoke(&mut self) -> Option<Rkey> {
        self.revoke.pop_front()
    }

    /// The region of a key from [`Self::poll_revoke`], as far as the device still had it.
    pub fn handle_revoked(&mut self, key: Rkey, memory: Option<Memory>) {
        let found = self.ledger.pending.iter_mut().find_map(|(cid, p)| match p.own.region {
            Region::Registered(r) if r.key == key => Some((*cid, &mut p.own, false)),
            Region::Invalidating(k) if k == key => Some((*cid, &mut p.own, true)),
            _ => None,
        });
        let Some((cid, own, invalidating)) = found else { return };
        match memory {
            Some(m) => own.region = Region::Back(m),
            // The end of the work request brings it.
            None if invalidating => return,
            None => own.region = Region::Gone,
        }
        self.finish(cid);
    }

    /// The device did not take the work that [`Self::poll_work`] gave last, and the memory in it is lost.
    pub fn handle_unposted(&mut self) {
        let id = self.given;
        self.lost(id);
        let gone = self.command(id).filter(|(_, own)| matches!(own.region, Region::Gone)).map(|(cid, _)| cid);
        match gone {
            Some(cid) if self.is_ending() => self.finish(cid),
            _ => self.broken("the RDMA device takes no more work"),
        }
    }

    /// The connection cannot go on, by the device's word. [RDMA-ERR-02]
    fn broken(&mut self, why: &'static str) {
        if !self.is_ending() {
            self.ledger.events.push_back(HostEvent::Broken(why));
            self.end(false);
        }
    }

    /// The controller broke a rule, and the connection cannot go on.
    fn violated(&mut self, requirement: &'static Requirement, seen: String) {
        if !self.is_ending() {
            let violation = Violation::new(requirement, Side::Controller, seen).answered(Answer::Close);
            self.ledger.events.push_back(HostEvent::Violation(violation));
            self.end(false);
        }
    }

    fn end(&mut self, reset: bool) {
        self.state = State::Ending { reset, until: self.now + self.settings.end_patience };
        self.order.clear();
        // Memory that did not get to the device is here; keys not invalidated yet are revoked.
        self.take_back();
        self.out.clear();
        let cids: Vec<Cid> = self.ledger.pending.keys().copied().collect();
        for cid in cids {
            let Some(p) = self.ledger.pending.get_mut(&cid) else { continue };
            p.own.answer.get_or_insert_with(|| Answered { cqe: Completion::aborted(cid).cqe, real: false });
            match p.own.region {
                Region::Registering => {}
                Region::Registered(Remote { key, .. }) | Region::Invalidating(key) => self.revoke.push_back(key),
                Region::None | Region::Back(_) | Region::Gone => self.finish(cid),
            }
        }
        self.close_idle();
    }

    /// Nothing more is heard of the device: commands end without the memory that it has.
    fn give_up(&mut self) {
        self.revoke.clear();
        let cids: Vec<Cid> = self.ledger.pending.keys().copied().collect();
        for cid in cids {
            self.finish(cid);
        }
    }

    /// The last command's memory is back: the connection is closed.
    fn close_idle(&mut self) {
        if let State::Ending { reset, .. } = self.state
            && self.ledger.pending.is_empty()
        {
            self.state = State::Closed;
            self.ledger.forgotten.clear();
            self.ledger.events.push_back(HostEvent::Close { reset });
        }
    }

    /// A command ends, with what there is of its memory.
    fn finish(&mut self, cid: Cid) {
        let Some(Pending { own, .. }) = self.ledger.pending.remove(&cid) else { return };
        let answered = own.answer.unwrap_or(Answered { cqe: Completion::aborted(cid).cqe, real: false });
        let mut done = Completion { cqe: answered.cqe, memory: own.lent, ..Completion::aborted(cid) };
        if answered.real {
            done.local = None;
        }
        if let Region::Back(memory) = own.region {
            self.ledger.touched += memory.touched().saturating_sub(own.touched);
            if own.of_user {
                done.memory = Some(memory);
            } else if own.to_host && answered.real && done.status().is_success() {
                done.data = Data::from(memory.into_bytes());
            }
        }
        self.ledger.events.push_back(HostEvent::Completed(done));
        self.close_idle();
    }
}
