//! Commands on their way into the queue: alone, as a fused pair, and taken out of it again by a controller reset.

use bytes::Bytes;
use nvmf_seam::Instant;
use nvmf_wire::sqe::Direction;
use nvmf_wire::tcp::ADMIN_IN_CAPSULE;
use nvmf_wire::{Cid, Qid, SglDescriptor, Sqe};

use super::{FORGOTTEN, HostConnection, HostEvent, Item, Payload, Pending, State, SubmitError};
use crate::host::data::Data;

/// FUSE of the first and of the second command of a pair. [Base 2.0, 3.4.2; NVM-FUSED-02]
const FIRST: u8 = 1;
const SECOND: u8 = 2;

impl HostConnection {
    /// Submits a command. CID, PSDT and SGL1 of `sqe` are filled in; the rest goes out as it is. Its answer is due `until`.
    pub fn submit(&mut self, sqe: Sqe, payload: Payload, until: Option<Instant>) -> Result<Cid, SubmitError> {
        let command = self.prepare(sqe, payload, until)?;
        if self.queue.room(self.pending.len()) == 0 {
            return Err(SubmitError::Full);
        }
        Ok(self.place(command))
    }

    /// Submits two commands as a fused pair, FUSE filled in as well: their capsules go out one behind the other, with none of the
    /// queue's between them. Both or none are taken. [NVM-FUSED-02, FAB-TRANS-16]
    pub fn submit_fused(
        &mut self,
        (first, data): (Sqe, Payload),
        (second, other): (Sqe, Payload),
        until: Option<Instant>,
    ) -> Result<(Cid, Cid), SubmitError> {
        let first = self.prepare(first.with(|s| s.fuse(FIRST)), data, until)?;
        let second = self.prepare(second.with(|s| s.fuse(SECOND)), other, until)?;
        if self.queue.room(self.pending.len()) < 2 {
            return Err(SubmitError::Full);
        }
        Ok((self.place(first), self.place(second)))
    }

    /// Most data of a command from now on, bytes: what MDTS says once it is known. [FAB-IDENT-11, NVM-RW-07]
    pub fn limit_transfer(&mut self, bytes: u32) {
        self.max_transfer = self.max_transfer.min(bytes);
    }

    /// The controller was reset: it has none of the commands any more, and they end here. What it may still say about them is
    /// passed over, and their identifiers are not used while it might. [FAB-INIT-13]
    pub fn forget(&mut self) {
        self.out.retain(|item| matches!(item, Item::Made(_)));
        for (cid, p) in std::mem::take(&mut self.pending) {
            if p.sent {
                self.forgotten.insert(cid, p.due);
            } else {
                self.queue.take_back();
            }
            self.events.push_back(HostEvent::Completed(p.ended_here(cid)));
        }
        while self.forgotten.len() > FORGOTTEN {
            self.forgotten.pop_first();
        }
    }

    fn prepare(&self, sqe: Sqe, payload: Payload, until: Option<Instant>) -> Result<Pending, SubmitError> {
        if self.state != State::Ready {
            return Err(SubmitError::NotReady);
        }
        let (out, due, wanted) = match payload {
            Payload::None => (Bytes::new(), 0, None),
            Payload::Out(b) => (b, 0, Some(Direction::HostToController)),
            Payload::In(n) => (Bytes::new(), n, Some(Direction::ControllerToHost)),
        };
        if wanted.is_some_and(|w| w != Direction::of(&sqe)) {
            return Err(SubmitError::Direction);
        }
        if out.len() > self.max_transfer as usize || due > self.max_transfer {
            return Err(SubmitError::TooLarge);
        }
        // TCP-CAPSULE-02, TCP-CAPSULE-06: the limit is the transport's for admin and Fabrics commands, IOCCSZ's for the rest.
        let room = if self.qid == Qid::ADMIN || sqe.fctype().is_some() { ADMIN_IN_CAPSULE } else { self.in_capsule };
        let in_capsule = !out.is_empty() && out.len() <= room as usize;
        // TCP-SGL-03 to TCP-SGL-06; a command without data has no use for SGL1, which is then zero. [FAB-PROP-11, FAB-DISC-04]
        let sgl = match (wanted, in_capsule) {
            (None, _) => SglDescriptor::new(),
            (_, true) => SglDescriptor::in_capsule(0, out.len() as u32),
            (_, false) => SglDescriptor::transport(out.len() as u32 + due),
        };
        let sqe = sqe.with(|s| s.psdt(1)).with_sgl1(sgl);
        let data = Data::default();
        Ok(Pending { sqe, out, in_capsule, sent: false, due, data, last: false, ddgst_bad: false, asked: 0, r2ts: 0, until })
    }

    fn place(&mut self, mut command: Pending) -> Cid {
        let (pending, forgotten) = (&self.pending, &self.forgotten);
        let cid = self.queue.submit(pending.len(), |c| pending.contains_key(&c) || forgotten.contains_key(&c));
        command.sqe = command.sqe.with(|s| s.cid(cid));
        self.pending.insert(cid, command);
        self.out.push_back(Item::Capsule(cid));
        cid
    }
}
