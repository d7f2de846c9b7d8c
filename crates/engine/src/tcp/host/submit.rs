//! Commands on their way into the queue: alone, as a fused pair, and taken out of it again by a controller reset.

use bytes::Bytes;
use nvmf_seam::Instant;
use nvmf_wire::tcp::ADMIN_IN_CAPSULE;
use nvmf_wire::{Cid, Qid, SglDescriptor, Sqe};

use super::{HostConnection, Item, State, Transfer};
use crate::host::connection::{HostEvent, Payload, SubmitError};
use crate::host::data::Data;
use crate::host::ledger::{FIRST, SECOND};

impl HostConnection {
    /// Submits a command. CID, PSDT and SGL1 of `sqe` are filled in; the rest goes out as it is. Its answer is due `until`.
    pub fn submit(&mut self, sqe: Sqe, payload: Payload, until: Option<Instant>) -> Result<Cid, SubmitError> {
        let command = self.prepare(sqe, payload)?;
        if self.ledger.room() == 0 {
            return Err(SubmitError::Full);
        }
        Ok(self.place(command, until))
    }

    /// Submits two commands as a fused pair, FUSE filled in as well: their capsules go out one behind the other, with none of the
    /// queue's between them. Both or none are taken. [NVM-FUSED-02, FAB-TRANS-16]
    pub fn submit_fused(
        &mut self,
        (first, data): (Sqe, Payload),
        (second, other): (Sqe, Payload),
        until: Option<Instant>,
    ) -> Result<(Cid, Cid), SubmitError> {
        let first = self.prepare(first.with(|s| s.fuse(FIRST)), data)?;
        let second = self.prepare(second.with(|s| s.fuse(SECOND)), other)?;
        if self.ledger.room() < 2 {
            return Err(SubmitError::Full);
        }
        Ok((self.place(first, until), self.place(second, until)))
    }

    /// Most data of a command from now on, bytes: what MDTS says once it is known. [FAB-IDENT-11, NVM-RW-07]
    pub fn limit_transfer(&mut self, bytes: u32) {
        self.ledger.limit_transfer(bytes);
    }

    /// The controller was reset: it has none of the commands any more, and they end here. What it may still say about them is
    /// passed over, and their identifiers are not used while it might. [FAB-INIT-13]
    pub fn forget(&mut self) {
        self.out.retain(|item| matches!(item, Item::Made(_)));
        for (cid, p) in std::mem::take(&mut self.ledger.pending) {
            if p.sent {
                self.ledger.remember(cid, p.own.due);
            } else {
                self.ledger.queue.take_back();
            }
            self.ledger.events.push_back(HostEvent::Completed(p.own.aborted(cid)));
        }
    }

    fn prepare(&mut self, sqe: Sqe, payload: Payload) -> Result<(Sqe, Transfer), SubmitError> {
        if self.state != State::Ready {
            return Err(SubmitError::NotReady);
        }
        let wanted = self.ledger.check(&sqe, &payload)?;
        let due = payload.sizes().1 as u32;
        let (out, memory) = match payload {
            Payload::None | Payload::In(_) => (Bytes::new(), None),
            Payload::Out(b) => (b, None),
            Payload::Into(m) if m.is_read_only() => return Err(SubmitError::ReadOnly),
            Payload::Into(m) => (Bytes::new(), Some(m)),
            Payload::OutOf(mut m) => {
                // A byte stream is fed from bytes that cannot change: those of memory that can are copied.
                let copied = if m.is_read_only() { 0 } else { m.len() };
                m.touch(copied);
                self.ledger.touched += copied as u64;
                (m.slice(0, m.len()).unwrap_or_default(), Some(m))
            }
        };
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
        Ok((sqe, Transfer { out, in_capsule, due, data, memory, last: false, ddgst_bad: false, asked: 0, r2ts: 0 }))
    }

    fn place(&mut self, (sqe, own): (Sqe, Transfer), until: Option<Instant>) -> Cid {
        let cid = self.ledger.place(sqe, own, until);
        self.out.push_back(Item::Capsule(cid));
        cid
    }
}
