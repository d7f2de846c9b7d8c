//! What a command whose data is here asks of its store or of the hub, and what becomes of the answer.

use bytes::Bytes;
use nvmf_seam::store::{StoreError, StoreOp};
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::{Cid, Sqe, Status, nvm};

use super::command::Count;
use super::plan::byte_range;
use super::{Binding, Core, Gather, Phase, Sink, State, StoreDone, StoreRequest};
use crate::commands::CopyLimits;
use crate::message::{NamespaceView, ToHub};

impl<B: Binding> Core<B> {
    /// All data is here: do the command.
    pub(super) fn run(&mut self, cid: Cid, sink: Sink, data: Gather) {
        let Some(c) = self.commands.get_mut(cid) else { return };
        let sqe = c.sqe;
        match sink {
            Sink::Connect => {
                c.state = State::InHub;
                self.phase = Phase::Connecting;
                let bytes = data.into_bytes();
                let data = Box::new(ConnectData::read(&bytes).unwrap_or_default());
                self.to_hub.push_back(ToHub::Connect { sqe: Connect::from_bytes(*sqe.as_bytes()), data });
            }
            Sink::Admin => {
                c.state = State::InHub;
                self.to_hub.push_back(ToHub::Admin { sqe, data: data.into_bytes() });
            }
            Sink::Disconnect => {
                self.queue.ending = Some(cid);
                self.disconnect();
            }
            Sink::Read { ns, offset } => {
                c.state = State::Reading;
                let len = range_len(&sqe, &ns) as usize;
                self.request(cid, &ns, StoreOp::Read { offset, len });
            }
            Sink::Write { ns, offset, fua } => {
                let pieces = data.into_pieces(ns.geometry.block_size as usize);
                let count = Count::Written(range_len(&sqe, &ns));
                c.state = State::Storing { left: pieces.len(), failed: None, count, then_flush: fua.then(|| ns.clone()) };
                self.request_each(cid, &ns, offset, pieces, |offset, data| StoreOp::Write { offset, data });
            }
            Sink::Compare { ns, offset } => {
                let pieces = data.into_pieces(ns.geometry.block_size as usize);
                let count = Count::Read(range_len(&sqe, &ns));
                c.state = State::Storing { left: pieces.len(), failed: None, count, then_flush: None };
                self.request_each(cid, &ns, offset, pieces, compare);
            }
            Sink::One { ns, op, fua } => {
                // [ADM-LOG-30]
                let count = if let StoreOp::Verify { len, .. } = op { Count::Read(len) } else { Count::Nothing };
                c.state = State::Storing { left: 1, failed: None, count, then_flush: fua.then(|| ns.clone()) };
                self.request(cid, &ns, op);
            }
            Sink::Dataset { ns } => match dataset(&nvm::DatasetManagement::from_bytes(*sqe.as_bytes()), &ns, data.into_bytes()) {
                Ok(steps) => self.next_step(cid, steps),
                Err(status) => self.failed(cid, status, 0),
            },
            Sink::Copy { ns } => match copying(&nvm::Copy::from_bytes(*sqe.as_bytes()), &ns, data.into_bytes()) {
                Ok(steps) => self.next_step(cid, steps),
                Err(status) => self.failed(cid, status, 0),
            },
            Sink::Half => self.half(cid, Ok(data.into_bytes())),
        }
    }

    fn request_each(
        &mut self,
        cid: Cid,
        ns: &NamespaceView,
        offset: u64,
        pieces: impl Iterator<Item = Bytes>,
        op: fn(u64, Bytes) -> StoreOp,
    ) {
        let mut at = offset;
        for piece in pieces {
            let len = piece.len() as u64;
            self.request(cid, ns, op(at, piece));
            at += len;
        }
    }

    pub(super) fn request(&mut self, cid: Cid, ns: &NamespaceView, op: StoreOp) {
        let Some(c) = self.commands.get(cid) else { return };
        let id = c.serial << 16 | u64::from(cid.0);
        self.requests.push_back(StoreRequest { id, store: ns.store.clone(), blocking: ns.blocking, op });
    }

    /// A store request came back.
    pub fn stored(&mut self, done: StoreDone) {
        let cid = Cid(done.id as u16);
        let Some(c) = self.commands.get_mut(cid).filter(|c| c.serial == done.id >> 16) else { return };
        match &mut c.state {
            State::Reading => match done.result {
                Ok(data) => {
                    self.queue.counters.read(data.len() as u64);
                    self.complete(cid, Status::SUCCESS, 0, data);
                }
                Err(e) => self.failed(cid, status_of(&e, true), 0),
            },
            State::Storing { left, failed, count, then_flush } => {
                *left = left.saturating_sub(1);
                if let Err(e) = done.result {
                    // Of several the first is told.
                    failed.get_or_insert(status_of(&e, matches!(count, Count::Read(_))));
                }
                if *left > 0 {
                    return;
                }
                let (failed, count) = (*failed, *count);
                match (failed, then_flush.take()) {
                    (Some(status), _) => self.failed(cid, status, 0),
                    (None, Some(ns)) => {
                        // FUA: on the medium before completion. [NVM-RW-12]
                        *left = 1;
                        self.request(cid, &ns, StoreOp::Flush);
                    }
                    (None, None) => {
                        self.count(count);
                        self.complete(cid, Status::SUCCESS, 0, Bytes::new());
                    }
                }
            }
            State::Stepping(_) => {
                if let State::Stepping(steps) = core::mem::replace(&mut c.state, State::InHub) {
                    self.stepped(cid, *steps, done.result);
                }
            }
            State::Paired => self.compared(cid, done.result),
            _ => {}
        }
    }

    pub(super) fn count(&self, count: Count) {
        match count {
            Count::Nothing => {}
            Count::Read(bytes) => self.queue.counters.read(bytes),
            Count::Written(bytes) => self.queue.counters.written(bytes),
        }
    }

    /// A command at work ends with an error.
    pub(super) fn failed(&mut self, cid: Cid, status: Status, result: u64) {
        if let Some(c) = self.commands.get(cid) {
            self.to_hub.push_back(ToHub::Failed { sqe: c.sqe, status });
        }
        self.complete(cid, status, result, Bytes::new());
    }

    /// The next request of several, or the end.
    fn next_step(&mut self, cid: Cid, steps: Steps) {
        match steps.next_op() {
            Some(op) => {
                let ns = steps.ns.clone();
                if let Some(c) = self.commands.get_mut(cid) {
                    c.state = State::Stepping(Box::new(steps));
                }
                self.request(cid, &ns, op);
            }
            None => {
                if let Work::Copy { copied, .. } = steps.work {
                    self.count(Count::Read(copied));
                    self.count(Count::Written(copied));
                }
                self.complete(cid, Status::SUCCESS, 0, Bytes::new());
            }
        }
    }

    fn stepped(&mut self, cid: Cid, mut steps: Steps, result: Result<Bytes, StoreError>) {
        match result {
            Ok(data) => {
                steps.done(data);
                self.next_step(cid, steps);
            }
            Err(e) => {
                // The lowest range that was not copied. [NVM-RW-37]
                let (reading, range) = match &steps.work {
                    Work::Copy { data, .. } => (data.is_none(), steps.at as u64),
                    Work::Deallocate => (false, 0),
                };
                self.failed(cid, status_of(&e, reading), range);
            }
        }
    }
}

fn compare(offset: u64, expected: Bytes) -> StoreOp {
    StoreOp::Compare { offset, expected, then: Bytes::new() }
}

/// Bytes of the range that a command names by SLBA and NLB.
pub(super) fn range_len(sqe: &Sqe, ns: &NamespaceView) -> u64 {
    nvm::Write::from_bytes(*sqe.as_bytes()).nlb().count() * u64::from(ns.geometry.block_size)
}

/// Store requests for a list of ranges, of which each follows the one before.
#[derive(Debug)]
pub(crate) struct Steps {
    ns: NamespaceView,
    /// As they came from the host, all of them judged.
    list: Bytes,
    /// The range at work.
    at: usize,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Deallocate,
    Copy {
        /// Where the next range goes, bytes.
        to: u64,
        /// What was read of the range at work.
        data: Option<Bytes>,
        /// Bytes so far.
        copied: u64,
        /// A Flush ends it. [NVM-RW-12]
        flush: bool,
    },
}

impl Steps {
    /// The range at work: bytes from the start of the namespace, and bytes; `None` behind the last.
    fn range(&self) -> Option<(u64, u64)> {
        let block = u64::from(self.ns.geometry.block_size);
        let (slba, blocks) = match self.work {
            Work::Deallocate => {
                let r = nvm::DatasetRange::read(self.list.get(self.at * nvm::DatasetRange::LEN..)?).ok()?;
                (r.slba(), u64::from(r.llb()))
            }
            Work::Copy { .. } => {
                let r = nvm::CopyRange0::read(self.list.get(self.at * nvm::CopyRange0::LEN..)?).ok()?;
                (r.slba(), r.nlb().count())
            }
        };
        Some((slba * block, blocks * block))
    }

    fn next_op(&self) -> Option<StoreOp> {
        match (&self.work, self.range()) {
            (Work::Deallocate, Some((offset, len))) => Some(StoreOp::Deallocate { offset, len }),
            (Work::Copy { data: Some(data), to, .. }, Some(_)) => Some(StoreOp::Write { offset: *to, data: data.clone() }),
            (Work::Copy { .. }, Some((offset, len))) => Some(StoreOp::Read { offset, len: len as usize }),
            (Work::Copy { flush: true, .. }, None) => Some(StoreOp::Flush),
            (_, None) => None,
        }
    }

    /// The last request is done; a read gave `read`.
    fn done(&mut self, read: Bytes) {
        let over = self.range().is_none();
        match &mut self.work {
            Work::Deallocate => self.at += 1,
            Work::Copy { flush, .. } if over => *flush = false,
            Work::Copy { to, data, copied, .. } => match data.take() {
                None => *data = Some(read),
                Some(written) => {
                    *to += written.len() as u64;
                    *copied += written.len() as u64;
                    self.at += 1;
                }
            },
        }
    }
}

/// What a Dataset Management asks for; the attributes other than AD are hints that we do not use. [NVM-RW-23 to NVM-RW-25]
fn dataset(command: &nvm::DatasetManagement, ns: &NamespaceView, mut list: Bytes) -> Result<Steps, Status> {
    list.truncate(command.data_bytes());
    for range in list.chunks_exact(nvm::DatasetRange::LEN) {
        let range = nvm::DatasetRange::read(range).map_err(|_| Status::INTERNAL_ERROR)?;
        byte_range(ns, range.slba(), range.llb().into())?;
    }
    let list = if command.ad() { list } else { Bytes::new() };
    Ok(Steps { ns: ns.clone(), list, at: 0, work: Work::Deallocate })
}

/// What a Copy asks for: nothing is copied where anything is wrong. [NVM-RW-03, NVM-RW-35, NVM-RW-36]
fn copying(command: &nvm::Copy, ns: &NamespaceView, list: Bytes) -> Result<Steps, Status> {
    let limits = CopyLimits::of(ns.geometry);
    let mut total = 0;
    for range in list.chunks_exact(nvm::CopyRange0::LEN) {
        let range = nvm::CopyRange0::read(range).map_err(|_| Status::INTERNAL_ERROR)?;
        let blocks = range.nlb().count();
        total += blocks;
        if blocks > u64::from(limits.range) || total > u64::from(limits.total) {
            return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED.dnr());
        }
        byte_range(ns, range.slba(), blocks)?;
    }
    let to = byte_range(ns, command.sdlba(), total)?;
    Ok(Steps { ns: ns.clone(), list, at: 0, work: Work::Copy { to, data: None, copied: 0, flush: command.fua() } })
}

/// The status of a failed store. [Base 2.0, 3.3.3.2.1.3]
pub(super) fn status_of(e: &StoreError, read: bool) -> Status {
    match e {
        StoreError::OutOfRange => Status::LBA_OUT_OF_RANGE.dnr(),
        StoreError::Medium(_) if read => Status::UNRECOVERED_READ_ERROR,
        StoreError::Medium(_) | StoreError::NotWritten(_) => Status::WRITE_FAULT,
        // [NVM-RW-18]
        StoreError::Different => Status::COMPARE_FAILURE,
        // [NVM-RW-32]
        StoreError::Spoiled => Status::UNRECOVERED_READ_ERROR.dnr(),
        StoreError::Unsupported => Status::INTERNAL_ERROR.dnr(),
    }
}
