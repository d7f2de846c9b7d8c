//! An association over RDMA: what its driver gives in and takes out instead of bytes.

use core::ops::Bound;

use nvmf_seam::Instant;
use nvmf_seam::rdma::{Ask, CmEvent, Completion, Memory, Rkey, Work};
use nvmf_wire::{Cntlid, Qid};

#[cfg(doc)]
use super::association::Event;
use super::association::{Association, Phase};
use super::connection::Connection;
use super::error::HostError;
use crate::rdma::{Capsule, HostConnection};

impl Association {
    /// What to ask for, for the queue of [`Event::Open`]: the driver connects, posts what [`Self::poll_work`] gives (receives first), and
    /// hands in [`Self::handle_cm`] and [`Self::handle_completion`]. `None` where nobody wants the connection any more.
    pub fn ask(&mut self, qid: Qid, now: Instant) -> Option<Ask> {
        let settings = self.settings.rdma.clone()?;
        if !matches!(self.phase, Phase::Rising | Phase::Ready) || self.queues.contains_key(&qid) {
            return None;
        }
        // RDMA-CM-14, RDMA-CM-15
        let (entries, cntlid, capsule) = match qid {
            Qid::ADMIN => (self.settings.admin_entries, Cntlid(0), Capsule::admin()),
            _ => {
                let capsule = self.facts.identify.as_deref().map_or_else(Capsule::admin, Capsule::of);
                (self.facts.io_entries, self.facts.cntlid, capsule)
            }
        };
        let connection = HostConnection::new(settings, qid, entries, cntlid, capsule, self.max_transfer(), now);
        let ask = connection.ask();
        self.queues.insert(qid, Connection::Rdma(Box::new(connection)));
        Some(ask)
    }

    /// CM has news of a queue's connection.
    pub fn handle_cm(&mut self, qid: Qid, event: CmEvent, now: Instant) {
        let may_go = self.may_go(qid);
        let during = self.doing();
        let Some(q) = self.queues.get_mut(&qid).and_then(Connection::rdma) else { return };
        if event == CmEvent::Disconnected && q.is_ready() && !may_go {
            // The end of any connection ends the association, since single queues are not deleted. [FAB-DISC-20]
            self.fail(HostError::Lost { qid, reset: false, during });
        }
        if let Some(q) = self.queues.get_mut(&qid).and_then(Connection::rdma) {
            q.handle_cm(event, now);
        }
        self.pump(now);
    }

    /// Work of a queue's connection has ended.
    pub fn handle_completion(&mut self, qid: Qid, completion: Completion, now: Instant) {
        if let Some(q) = self.queues.get_mut(&qid).and_then(Connection::rdma) {
            q.handle_completion(completion, now);
            self.pump(now);
        }
    }

    /// The next work request and the queue on whose connection it goes. The queues take turns.
    pub fn poll_work(&mut self, now: Instant) -> Option<(Qid, Work)> {
        let behind = (Bound::Excluded(self.last_sent), Bound::Unbounded);
        let next = |(qid, q): (&Qid, &mut Connection)| q.rdma()?.poll_work(now).map(|w| (*qid, w));
        let found = self.queues.range_mut(behind).find_map(next);
        let found = found.or_else(|| self.queues.iter_mut().find_map(next));
        if let Some((qid, _)) = &found {
            self.last_sent = *qid;
        }
        found
    }

    /// A key of a connection that ends: the driver ends the connection (DREQ) where it did not yet, takes the region out of the device,
    /// and gives it to [`Self::handle_revoked`]. Only then does the command complete: nobody reaches its memory any more.
    pub fn poll_revoke(&mut self) -> Option<(Qid, Rkey)> {
        self.queues.iter_mut().find_map(|(qid, q)| q.rdma()?.poll_revoke().map(|key| (*qid, key)))
    }

    /// The region of a key from [`Self::poll_revoke`], as far as the device still had it.
    pub fn handle_revoked(&mut self, qid: Qid, key: Rkey, memory: Option<Memory>, now: Instant) {
        if let Some(q) = self.queues.get_mut(&qid).and_then(Connection::rdma) {
            q.handle_revoked(key, memory);
            self.pump(now);
        }
    }

    /// The device did not take the work that [`Self::poll_work`] gave last, of this queue's connection.
    pub fn handle_unposted(&mut self, qid: Qid, now: Instant) {
        if let Some(q) = self.queues.get_mut(&qid).and_then(Connection::rdma) {
            q.handle_unposted();
            self.pump(now);
        }
    }
}
