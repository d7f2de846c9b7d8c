//! Commands of one queue between submission and completion: places, identifiers, deadlines, and what every response is judged by. No
//! bytes, no transport; the binding keeps what it needs of a command beside (`T`).

use std::collections::{BTreeMap, VecDeque};

use nvmf_seam::Instant;
use nvmf_spec::{Requirement, Side, Violation, req};
use nvmf_wire::connect::Connect;
use nvmf_wire::sqe::{Direction, FabricsType};
use nvmf_wire::{Cid, Cqe, Opcode, Sqe};

use super::connection::{HostEvent, Payload, SubmitError, Waiting};
use super::queue::Queue;

/// FUSE of the first and of the second command of a pair. [Base 2.0, 3.4.2; NVM-FUSED-02]
pub(crate) const FIRST: u8 = 1;
pub(crate) const SECOND: u8 = 2;
/// Notes about breaches that do not end the connection: so many are reported, the rest is dropped.
const NOTES: usize = 64;
/// Commands taken by controller resets that are remembered; the lowest identifiers are dropped.
const FORGOTTEN: usize = 1024;

/// A command between submission and completion.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    pub sqe: Sqe,
    /// The capsule went to the driver: only then can the controller know the CID.
    pub sent: bool,
    pub until: Option<Instant>,
    /// What the binding keeps.
    pub own: T,
}

/// The commands of one queue.
#[derive(Debug)]
pub(crate) struct Ledger<T> {
    pub queue: Queue,
    pub pending: BTreeMap<Cid, Pending<T>>,
    /// Commands that ended here by a controller reset, with the bytes due: what still comes for them is passed over.
    pub forgotten: BTreeMap<Cid, u32>,
    pub events: VecDeque<HostEvent>,
    /// Payload bytes that this CPU read or wrote.
    pub touched: u64,
    max_transfer: u32,
    notes: usize,
}

impl<T> Ledger<T> {
    pub fn new(entries: u16, max_transfer: u32) -> Self {
        Self {
            queue: Queue::new(entries),
            pending: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            events: VecDeque::new(),
            touched: 0,
            max_transfer,
            notes: 0,
        }
    }

    pub fn room(&self) -> usize {
        self.queue.room(self.pending.len())
    }

    pub fn opcodes(&self) -> impl Iterator<Item = Opcode> {
        self.pending.values().map(|p| p.sqe.opc())
    }

    /// Most data of a command from now on, bytes: what MDTS says once it is known. [FAB-IDENT-11, NVM-RW-07]
    pub fn limit_transfer(&mut self, bytes: u32) {
        self.max_transfer = self.max_transfer.min(bytes);
    }

    /// May this command move this data? The direction of the data, where there is any.
    pub fn check(&self, sqe: &Sqe, payload: &Payload) -> Result<Option<Direction>, SubmitError> {
        let wanted = match payload {
            Payload::None => None,
            Payload::Out(_) | Payload::OutOf(_) => Some(Direction::HostToController),
            Payload::In(_) | Payload::Into(_) => Some(Direction::ControllerToHost),
        };
        if wanted.is_some_and(|w| w != Direction::of(sqe)) {
            return Err(SubmitError::Direction);
        }
        let (out, due) = payload.sizes();
        if out.max(due) > self.max_transfer as usize {
            return Err(SubmitError::TooLarge);
        }
        Ok(wanted)
    }

    /// Takes a place and an identifier for a command. Ask [`Self::room`] first.
    pub fn place(&mut self, sqe: Sqe, own: T, until: Option<Instant>) -> Cid {
        let (pending, forgotten) = (&self.pending, &self.forgotten);
        let cid = self.queue.submit(pending.len(), |c| pending.contains_key(&c) || forgotten.contains_key(&c));
        self.pending.insert(cid, Pending { sqe: sqe.with(|s| s.cid(cid)), sent: false, until, own });
        cid
    }

    /// Remembers a command that a controller reset took, with the bytes due: its identifier is not used while an answer might come.
    /// [FAB-INIT-13]
    pub fn remember(&mut self, cid: Cid, due: u32) {
        self.forgotten.insert(cid, due);
        while self.forgotten.len() > FORGOTTEN {
            self.forgotten.pop_first();
        }
    }

    /// Takes SQHD of a response, and whether it grants a Connect's wish to do without flow control. False where the command is one that
    /// a controller reset took.
    pub fn take_head(&mut self, cqe: &Cqe, known: bool) -> bool {
        let command = self.pending.get(&cqe.cid()).filter(|_| known);
        let Some(command) = command else {
            let _ = self.queue.complete(cqe);
            self.forgotten.remove(&cqe.cid());
            self.note(req::FAB_INIT_13, format!("response for CID {:#06x} after the controller reset", cqe.cid().0));
            return false;
        };
        let connect = command.sqe.fctype() == Some(FabricsType::CONNECT);
        let wish = connect && Connect::from_bytes(*command.sqe.as_bytes()).sqfcd();
        if wish && cqe.status().is_success() && cqe.sqhd() == 0xffff {
            self.queue.flow_control_off();
        }
        if !self.queue.complete(cqe) {
            self.note(req::FAB_SQFC_14, format!("SQHD {} outside the queue or behind its tail", cqe.sqhd()));
        }
        true
    }

    /// Looks for a command whose time is over. Told once: whoever made the connection looks after the controller's health and ends it.
    /// [FAB-INIT-26]
    pub fn handle_timeout(&mut self, now: Instant) {
        let late = self.pending.iter().find(|(_, p)| p.until.is_some_and(|u| u <= now)).map(|(c, _)| *c);
        if let Some(cid) = late {
            self.pending.values_mut().for_each(|p| p.until = None);
            self.events.push_back(HostEvent::TimedOut(Waiting::Command(cid)));
        }
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.pending.values().filter_map(|p| p.until).min()
    }

    /// Reports a breach that does not end the connection.
    pub fn note(&mut self, requirement: &'static Requirement, seen: String) {
        if self.notes < NOTES {
            self.notes += 1;
            self.events.push_back(HostEvent::Violation(Violation::new(requirement, Side::Controller, seen)));
        }
    }
}
