//! The submission queue of a connection: its slots, and what becomes of a command capsule before its command is looked at.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use nvmf_wire::{Cid, Qid, Sqe, Status};

use super::fused::Fused;
use super::{Binding, CloseReason, Core, Phase, State};
use crate::message::{Admitted, Counters, NamespaceTable, ToHub};

/// The queue that the connection carries. Slots are counted without wrapping; what goes on the wire is modulo the size.
#[derive(Debug)]
pub(crate) struct Queue {
    pub qid: Qid,
    /// Slots; 0 before Connect.
    pub entries: u32,
    pub flow_control: bool,
    /// Commands other than Fabrics commands are served.
    pub serving: bool,
    /// Disconnect is served.
    pub deletable: bool,
    /// Commands of an I/O command set are served.
    pub io_commands: bool,
    /// The Disconnect that is to end the queue: no command after it is fetched. [FAB-DISC-06]
    pub ending: Option<Cid>,
    /// Bytes that a capsule may carry behind its SQE; before Connect the transport's connection sets it.
    pub in_capsule: usize,
    pub mdts: Option<usize>,
    pub namespaces: Arc<NamespaceTable>,
    pub counters: Arc<Counters>,
    /// Capsules received.
    tail: u64,
    /// Capsules fetched.
    head: u64,
    /// The head that the host was last told.
    told: u64,
    /// Received but not fetched: there are as many commands at work as the queue has slots.
    pending: VecDeque<Capsule>,
    /// Bytes of command data held or promised.
    pub held: usize,
    /// Commands that wait for room, in order.
    pub waiting: VecDeque<Cid>,
    pub(super) fused: Fused,
}

#[derive(Debug)]
pub(crate) struct Capsule {
    pub sqe: Sqe,
    pub data: Bytes,
    /// Its data digest, if any, is right.
    pub intact: bool,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            qid: Qid::ADMIN,
            entries: 0,
            flow_control: true,
            serving: false,
            deletable: false,
            io_commands: true,
            ending: None,
            in_capsule: 0,
            mdts: None,
            namespaces: Arc::default(),
            counters: Arc::default(),
            tail: 0,
            head: 0,
            told: 0,
            pending: VecDeque::new(),
            held: 0,
            waiting: VecDeque::new(),
            fused: Fused::default(),
        }
    }
}

impl Queue {
    /// Connect succeeded; gives the SQHD of its response. [FAB-SQFC-04 to FAB-SQFC-06, FAB-SQFC-14]
    pub fn admit(&mut self, a: &Admitted) -> u16 {
        self.qid = a.qid;
        self.entries = a.entries;
        self.flow_control = a.flow_control;
        self.serving = a.serving;
        self.deletable = a.deletable;
        self.io_commands = a.io_commands;
        self.in_capsule = a.in_capsule;
        self.mdts = a.mdts;
        self.namespaces = a.namespaces.clone();
        self.counters = a.counters.clone();
        // The Connect command took the first slot.
        (self.tail, self.head, self.told) = (1, 1, 1);
        if self.flow_control { self.report_head() } else { 0xffff }
    }

    pub fn is_admin(&self) -> bool {
        self.qid == Qid::ADMIN
    }

    /// SQHD of a response that is sent now. [CQE-16 to CQE-19, FAB-SQFC-07]
    pub fn report_head(&mut self) -> u16 {
        if !self.flow_control || self.entries == 0 {
            return 0;
        }
        self.told = self.head;
        (self.head % u64::from(self.entries)) as u16
    }

    /// See [`Core::rest`].
    pub fn rest(&mut self) {
        self.pending.shrink_to_fit();
        self.waiting.shrink_to_fit();
    }

    /// What came after Disconnect is not processed.
    pub fn forget_pending(&mut self) {
        self.pending.clear();
    }

    /// True where a host that keeps to the rules submits nothing more while `commands` are at work.
    pub fn is_full_with(&self, commands: usize) -> bool {
        if self.entries == 0 {
            false
        } else if self.flow_control {
            // Full is one slot less than the size, counted from the head that the host knows at best. [FAB-SQFC-15, FAB-SQFC-16]
            self.tail + 1 - self.told >= u64::from(self.entries)
        } else {
            // [FAB-SQFC-13]
            commands + self.pending.len() + 1 >= self.entries as usize
        }
    }

    /// Capsules that wait for room at work.
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    pub fn pending_bytes(&self) -> usize {
        self.pending.iter().map(|c| c.data.len() + 64).sum()
    }
}

impl<B: Binding> Core<B> {
    /// A capsule came.
    pub fn submit(&mut self, capsule: Capsule) {
        if self.take_slot() {
            self.queue.pending.push_back(capsule);
            self.fetch();
        }
    }

    /// A capsule came whose command is not even looked at; `result` is CQE DW0 and DW1.
    pub fn submit_refused(&mut self, sqe: Sqe, status: Status, result: u64) {
        if self.take_slot() {
            self.queue.head += 1;
            self.refuse(sqe, status, result);
        }
    }

    /// Counts a capsule in; false where the host overran the queue, which ends the association.
    fn take_slot(&mut self) -> bool {
        let over = self.queue.is_full_with(self.commands.len());
        self.queue.tail += 1;
        if over {
            self.to_hub.push_back(ToHub::Overrun);
            self.shut(CloseReason::Overrun);
        }
        !over
    }

    /// Fetches capsules while there is room for their commands.
    pub fn fetch(&mut self) {
        while !matches!(self.phase, Phase::Connecting | Phase::Closing | Phase::Closed) {
            let q = &mut self.queue;
            let limit = if q.entries == 0 { 16 } else { q.entries as usize };
            if self.commands.len() >= limit || q.ending.is_some() {
                return;
            }
            let Some(c) = q.pending.pop_front() else { return self.give_up_first() };
            q.head += 1;
            self.fetched(c);
        }
    }

    /// Once nothing else is at work on the queue, the hub deletes it. [FAB-DISC-05, FAB-DISC-09, RESET-36]
    pub(super) fn disconnect(&mut self) {
        if let Some(cid) = self.queue.ending
            && self.commands.len() == 1
            && self.commands.contains(cid)
        {
            self.to_hub.push_back(ToHub::Disconnect { cid });
        }
    }

    /// Ends a command that was never begun.
    pub(super) fn refuse(&mut self, sqe: Sqe, status: Status, result: u64) {
        let cid = sqe.cid();
        if self.phase == Phase::Connected && !self.queue.is_admin() {
            self.to_hub.push_back(ToHub::Failed { sqe, status });
        }
        if self.commands.contains(cid) {
            return self.complete_stray(cid, status);
        }
        self.enter(sqe, B::Place::default(), State::Replying);
        self.complete(cid, status, result, Bytes::new());
    }
}
