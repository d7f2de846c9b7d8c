//! Commands on their way into the queue: alone, as a fused pair, and taken out of it again by a controller reset.

use bytes::Bytes;
use nvmf_seam::rdma::{Access, Memory, Place, Work};
use nvmf_seam::{Head, Instant};
use nvmf_wire::{Cid, Qid, Sqe};

use super::work::{Kind, SERIALS, id, pieces};
use super::{Answered, Capsule, HostConnection, Region, State, Transfer};
use crate::host::connection::{Completion, Payload, SubmitError};
use crate::host::ledger::{FIRST, SECOND};

/// A command that may be sent, and the memory to be registered for it.
struct Prepared {
    sqe: Sqe,
    own: Transfer,
    memory: Option<Memory>,
}

impl HostConnection {
    /// Submits a command. CID, PSDT and SGL1 of `sqe` are filled in; the rest goes out as it is. Its answer is due `until`.
    pub fn submit(&mut self, sqe: Sqe, payload: Payload, until: Option<Instant>) -> Result<Cid, SubmitError> {
        let command = self.prepare(sqe, payload)?;
        if self.room() == 0 {
            return Err(SubmitError::Full);
        }
        Ok(self.place(command, until))
    }

    /// Submits two commands as a fused pair, FUSE filled in as well: their capsules go out one behind the other, with none of the
    /// queue's between them. Both or none are taken. [NVM-FUSED-02, FAB-TRANS-03]
    pub fn submit_fused(
        &mut self,
        (first, data): (Sqe, Payload),
        (second, other): (Sqe, Payload),
        until: Option<Instant>,
    ) -> Result<(Cid, Cid), SubmitError> {
        let first = self.prepare(first.with(|s| s.fuse(FIRST)), data)?;
        let second = self.prepare(second.with(|s| s.fuse(SECOND)), other)?;
        if self.room() < 2 {
            return Err(SubmitError::Full);
        }
        Ok((self.place(first, until), self.place(second, until)))
    }

    /// Most data of a command from now on, bytes: what MDTS says once it is known. [FAB-IDENT-11, NVM-RW-07]
    pub fn limit_transfer(&mut self, bytes: u32) {
        self.ledger.limit_transfer(bytes);
    }

    /// The controller was reset: it has none of the commands any more, and they end here once their memory is back. What it may still
    /// say about them is passed over, and their identifiers are not used while it might. [FAB-INIT-13]
    pub fn forget(&mut self) {
        self.order.clear();
        self.take_back();
        let cids: Vec<Cid> = self.ledger.pending.keys().copied().collect();
        for cid in cids {
            let Some(p) = self.ledger.pending.get_mut(&cid).filter(|p| p.own.answer.is_none()) else { continue };
            p.own.answer = Some(Answered { cqe: Completion::aborted(cid).cqe, real: false });
            p.until = None;
            if p.sent {
                self.ledger.remember(cid, 0);
            } else {
                p.own.send_done = true;
                self.ledger.queue.take_back();
            }
            self.advance(cid);
        }
    }

    /// Memory that did not get to the device yet is taken back.
    pub(super) fn take_back(&mut self) {
        for work in std::mem::take(&mut self.out) {
            match work {
                Work::Register { id, memory, .. } => {
                    if let Some((_, own)) = self.command(id) {
                        own.region = Region::Back(memory);
                    }
                }
                other => self.out.push_back(other),
            }
        }
    }

    fn prepare(&mut self, sqe: Sqe, payload: Payload) -> Result<Prepared, SubmitError> {
        if self.state != State::Ready {
            return Err(SubmitError::NotReady);
        }
        self.ledger.check(&sqe, &payload)?;
        let (out, due) = payload.sizes();
        let place = match &payload {
            Payload::OutOf(m) => m.place(),
            _ => Place::Host,
        };
        let in_capsule = out > 0 && place == Place::Host && out as u64 <= self.inline_room(&sqe);
        if !in_capsule && pieces(out.max(due), self.settings.descriptor).count as u64 > self.descriptors(&sqe) {
            return Err(SubmitError::TooLarge);
        }
        let mut inline = Bytes::new();
        let (memory, of_user) = match payload {
            Payload::None => (None, false),
            Payload::Out(b) if in_capsule => {
                inline = b;
                (None, false)
            }
            Payload::Out(b) => (Some(Memory::shared(b)), false),
            Payload::In(n) => (Some(Memory::zeroed(n as usize)), false),
            Payload::OutOf(m) => (Some(m), true),
            Payload::Into(m) if m.is_read_only() => return Err(SubmitError::ReadOnly),
            Payload::Into(m) => (Some(m), true),
        };
        let touched = memory.as_ref().map_or(0, Memory::touched);
        let (mut region, mut lent) = (memory, None);
        if in_capsule || out.max(due) == 0 {
            lent = region.take().filter(|_| of_user);
        }
        if let Some(m) = lent.as_mut().filter(|_| in_capsule) {
            inline = self.copied(m);
        }
        let own = Transfer {
            serial: 0,
            region: if region.is_some() { Region::Registering } else { Region::None },
            len: out.max(due),
            touched,
            wished: false,
            inline,
            lent,
            of_user,
            to_host: due > 0,
            send_done: false,
            answer: None,
        };
        Ok(Prepared { sqe: sqe.with(|s| s.psdt(1)), own, memory: region })
    }

    /// Bytes of memory for a capsule; those of memory that can change are copied.
    fn copied(&mut self, m: &mut Memory) -> Bytes {
        if !m.is_read_only() {
            m.touch(m.len());
            self.ledger.touched += m.len() as u64;
        }
        m.slice(0, m.len()).unwrap_or_default()
    }

    /// Bytes of data that may go in the capsule of this command. [RDMA-CAPS-01, RDMA-CAPS-02]
    fn inline_room(&self, sqe: &Sqe) -> u64 {
        // What stands between SQE and data is part of the head.
        let placed = Sqe::LEN + self.capsule.data_at as usize <= Head::MAX;
        // Where a Connect's data would be with an ICDOFF is not known: it goes by key then.
        let connect = self.settings.connect_in_capsule && self.capsule.data_at == 0;
        let allowed = self.qid != Qid::ADMIN && (sqe.fctype().is_none() || connect);
        if placed && allowed { self.capsule.room() } else { 0 }
    }

    /// Descriptors that this command may have. [RDMA-SGL-05, RDMA-SGL-06]
    fn descriptors(&self, sqe: &Sqe) -> u64 {
        let one = self.qid == Qid::ADMIN || sqe.fctype().is_some();
        if one { Capsule::admin().descriptors } else { self.capsule.descriptors }
    }

    fn place(&mut self, command: Prepared, until: Option<Instant>) -> Cid {
        self.serial = (self.serial + 1) & SERIALS;
        let (serial, to_host) = (self.serial, command.own.to_host);
        let cid = self.ledger.place(command.sqe, Transfer { serial, ..command.own }, until);
        self.order.push_back(cid);
        if let Some(memory) = command.memory {
            let access = Access { read: !to_host, write: to_host };
            self.out.push_back(Work::Register { id: id(Kind::Register, serial, cid), memory, access });
        }
        cid
    }
}
