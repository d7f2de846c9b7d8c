//! Fused operations: a Compare and the Write behind it, of which the second is done where the first succeeds, with nothing in
//! between. [Base 2.0, 3.4.2; NVM Command Set 1.0, 2.1.3.1]
//!
//! The halves are paired as they leave the submission queue. Each is judged and gathers its data as any command does; then one store
//! request does both.

use bytes::Bytes;
use nvmf_seam::store::{StoreError, StoreOp};
use nvmf_wire::sqe::IoOpcode;
use nvmf_wire::{Cid, Sqe, Status, nvm};

use super::command::{Count, Plan};
use super::perform::{range_len, status_of};
use super::{Binding, Capsule, Core, Located, Phase, Sink, State, Transfer};
use crate::commands::has_fused;
use crate::message::NamespaceView;

/// FUSE: first and second command.
const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// The fused operations of a queue; the commands in them count into the queue's limit.
#[derive(Debug, Default)]
pub(super) struct Fused {
    /// A first half whose second has not come.
    first: Option<Capsule>,
    pairs: Vec<Pair>,
}

/// A fused operation at work.
#[derive(Debug)]
struct Pair {
    cids: [Cid; 2],
    halves: [Half; 2],
    ns: NamespaceView,
    /// Bytes from the start of the namespace.
    offset: u64,
    /// A Flush follows. [NVM-RW-12]
    flush: bool,
}

/// How far a half is.
#[derive(Debug)]
enum Half {
    /// Its data is on the way.
    Due,
    Ready(Bytes),
    Failed(Status),
}

impl<B: Binding> Core<B> {
    /// True where FUSE of this command is not looked at as an error, but paired.
    pub(super) fn takes_fused(&self, sqe: &Sqe) -> bool {
        let pairs = matches!(sqe.fuse(), FIRST | SECOND) && sqe.fctype().is_none();
        let here = self.phase == Phase::Connected && !self.queue.is_admin() && self.queue.serving;
        pairs && here && has_fused(self.queue.namespaces.abilities)
    }

    /// A capsule left the submission queue: a command of its own, or a half. The halves follow one another. [NVM-FUSED-02, FAB-TRANS-16]
    pub(super) fn fetched(&mut self, capsule: Capsule) {
        let fuse = if self.takes_fused(&capsule.sqe) { capsule.sqe.fuse() } else { 0 };
        match (self.queue.fused.first.take(), fuse) {
            (Some(first), SECOND) => return self.pair(first, capsule),
            // [NVM-FUSED-04]
            (Some(first), _) => self.failed(first.sqe.cid(), Status::ABORTED_MISSING_FUSED, 0),
            (None, _) => {}
        }
        match fuse {
            FIRST if self.commands.contains(capsule.sqe.cid()) => self.start(capsule),
            FIRST => {
                self.enter(capsule.sqe, B::Place::default(), State::First);
                self.queue.fused.first = Some(capsule);
            }
            SECOND => self.refuse(capsule.sqe, Status::ABORTED_MISSING_FUSED, 0),
            _ => self.start(capsule),
        }
    }

    /// The text does not say what becomes of a first half that fills the queue. Nothing can come behind it, so it is answered as one
    /// without a second half instead of never.
    pub(super) fn give_up_first(&mut self) {
        let alone = self.commands.len() == 1 && self.queue.is_full_with(self.commands.len());
        if alone && let Some(first) = self.queue.fused.first.take() {
            self.failed(first.sqe.cid(), Status::ABORTED_MISSING_FUSED, 0);
        }
    }

    /// An Abort of a first half that waits for its second.
    pub(super) fn forget_first(&mut self, cid: Cid) {
        self.queue.fused.first.take_if(|c| c.sqe.cid() == cid);
    }

    fn pair(&mut self, first: Capsule, second: Capsule) {
        let cids = [first.sqe.cid(), second.sqe.cid()];
        if self.commands.contains(cids[1]) {
            // It is no command, so the first half is alone. [SQE-02]
            self.failed(cids[0], Status::ABORTED_MISSING_FUSED, 0);
            return self.start(second);
        }
        self.enter(second.sqe, B::Place::default(), State::Paired);
        if !is_compare_and_write(&first.sqe, &second.sqe) {
            let status = Status::INVALID_FIELD_IN_COMMAND.dnr();
            return cids.into_iter().for_each(|cid| self.failed(cid, status, 0));
        }
        let (ns, offset, compare) = match self.judge(&first) {
            Ok((Plan { sink: Sink::Compare { ns, offset }, transfer, .. }, located)) => (ns, offset, (transfer, located)),
            // [NVM-FUSED-06]
            Ok(_) => return self.end_pair(cids, [Status::INTERNAL_ERROR, Status::ABORTED_FAILED_FUSED]),
            Err(status) => return self.end_pair(cids, [status, Status::ABORTED_FAILED_FUSED]),
        };
        let write = self.judge(&second).map(|(plan, located)| (plan.transfer, located));
        let halves = [self.gather(cids[0], Ok(compare)), self.gather(cids[1], write)];
        let flush = nvm::Write::from_bytes(*second.sqe.as_bytes()).fua();
        self.queue.fused.pairs.push(Pair { cids, halves, ns, offset, flush });
        // Both have their room or none, so that no first half keeps it from its second.
        let due: usize = cids.iter().filter_map(|cid| self.held_plan(*cid).map(|p| p.reserve)).sum();
        let mut reserve = due;
        for cid in cids {
            if let Some(plan) = self.held_plan(cid) {
                plan.reserve = core::mem::take(&mut reserve);
                self.queue.waiting.push_back(cid);
            }
        }
        self.settle(cids[0]);
        self.start_waiting();
    }

    /// How a half begins: with its data, or waiting for room to ask for it.
    fn gather(&mut self, cid: Cid, judged: Result<(Transfer, Located<B::Place>), Status>) -> Half {
        let (place, state, half) = match judged {
            Ok((_, Located::Capsule(data))) => (B::Place::default(), State::Paired, Half::Ready(data)),
            Ok((_, Located::Nowhere)) => (B::Place::default(), State::Paired, Half::Ready(Bytes::new())),
            Ok((transfer, Located::Host(place))) => (place, State::Held(Plan::new(transfer, Sink::Half)), Half::Due),
            Err(status) => (B::Place::default(), State::Paired, Half::Failed(status)),
        };
        if let Some(c) = self.commands.get_mut(cid) {
            (c.place, c.state) = (place, state);
        }
        half
    }

    fn held_plan(&mut self, cid: Cid) -> Option<&mut Plan> {
        match &mut self.commands.get_mut(cid)?.state {
            State::Held(plan) => Some(plan),
            _ => None,
        }
    }

    /// The data of a half is here, or did not come as it should.
    pub(super) fn half(&mut self, cid: Cid, data: Result<Bytes, Status>) {
        if let Some(c) = self.commands.get_mut(cid) {
            c.state = State::Paired;
        }
        for pair in self.queue.fused.pairs.iter_mut() {
            if let Some(at) = pair.cids.iter().position(|c| *c == cid) {
                let half = match data {
                    Ok(data) => Half::Ready(data),
                    Err(status) => Half::Failed(status),
                };
                pair.halves[at] = half;
                return self.settle(cid);
            }
        }
    }

    /// Asks the store once nothing more is to come for a pair.
    fn settle(&mut self, cid: Cid) {
        let Some(pair) = self.queue.fused.pairs.iter().find(|p| p.cids.contains(&cid)) else { return };
        let (cids, ns, offset) = (pair.cids, pair.ns.clone(), pair.offset);
        match &pair.halves {
            [Half::Due, _] | [_, Half::Due] => {}
            [Half::Failed(status), _] => {
                let status = *status;
                self.end_pair(cids, [status, Status::ABORTED_FAILED_FUSED]);
            }
            [Half::Ready(expected), second] => {
                let then = if let Half::Ready(data) = second { data.clone() } else { Bytes::new() };
                let op = StoreOp::Compare { offset, expected: expected.clone(), then };
                self.request(cids[0], &ns, op);
            }
        }
    }

    /// The store compared, and wrote where it found what was expected; or the Flush behind that is done.
    pub(super) fn compared(&mut self, cid: Cid, result: Result<Bytes, StoreError>) {
        let Some(pair) = self.queue.fused.pairs.iter_mut().find(|p| p.cids[0] == cid) else { return };
        let (cids, ns) = (pair.cids, pair.ns.clone());
        let statuses = match (result, &pair.halves[1]) {
            // [NVM-FUSED-07]
            (Ok(_), Half::Failed(status)) => [Status::SUCCESS, *status],
            (Ok(_), _) if pair.flush => {
                pair.flush = false;
                return self.request(cid, &ns, StoreOp::Flush);
            }
            (Ok(_), _) => [Status::SUCCESS; 2],
            (Err(e @ StoreError::NotWritten(_)), _) => [Status::SUCCESS, status_of(&e, false)],
            // [NVM-FUSED-05, NVM-FUSED-06]
            (Err(e), _) => [status_of(&e, true), Status::ABORTED_FAILED_FUSED],
        };
        for (cid, _) in cids.into_iter().zip(statuses).filter(|(_, s)| s.is_success()) {
            let bytes = self.commands.get(cid).map_or(0, |c| range_len(&c.sqe, &ns));
            self.count(if cid == cids[0] { Count::Read(bytes) } else { Count::Written(bytes) });
        }
        self.end_pair(cids, statuses);
    }

    /// Each half has a completion of its own. [NVM-FUSED-09, FAB-TRANS-17]
    fn end_pair(&mut self, cids: [Cid; 2], statuses: [Status; 2]) {
        self.queue.fused.pairs.retain(|p| p.cids != cids);
        for (cid, status) in cids.into_iter().zip(statuses) {
            if status.is_success() {
                self.complete(cid, status, 0, Bytes::new());
            } else {
                self.failed(cid, status, 0);
            }
        }
    }
}

/// The one fused operation that there is, on one range of blocks. [NVM-FUSED-01, NVM-FUSED-08]
fn is_compare_and_write(first: &Sqe, second: &Sqe) -> bool {
    let range = |sqe: &Sqe| {
        let rw = nvm::Write::from_bytes(*sqe.as_bytes());
        (sqe.nsid(), rw.slba(), rw.nlb())
    };
    let opcodes = (IoOpcode(first.opc().0), IoOpcode(second.opc().0));
    opcodes == (IoOpcode::COMPARE, IoOpcode::WRITE) && range(first) == range(second)
}
