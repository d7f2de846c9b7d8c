//! What a [`HostClient`] does over RDMA: the same association, on connections and with work of the network's NIC.

use std::time::Duration;

use nvmf_seam::rdma::{CmEvent, Happening, RdmaOpenError};
use nvmf_seam::{Instant, Network, OpenError};
use nvmf_wire::Qid;

use super::{HostClient, Link};

impl<N: Network> HostClient<N> {
    pub(super) fn is_over_rdma(&self) -> bool {
        self.association.settings().rdma.is_some()
    }

    /// Asks for a queue's connection and waits for the answer.
    pub(super) fn open_rdma(&mut self, qid: Qid) {
        let now = self.network.now();
        let patience = self.association.settings().command_patience;
        let Some(ask) = self.association.ask(qid, now) else { return };
        let Some(rdma) = self.network.rdma() else {
            return self.unopened(qid, "there is no RDMA in this world".into());
        };
        let opened = rdma.open_rdma(self.target, &ask, &[], patience);
        let now = self.network.now();
        let event = match opened {
            Ok((id, accepted)) => {
                self.links.insert(qid, Link { id, deaf: false });
                CmEvent::Accepted(accepted)
            }
            Err(RdmaOpenError::Other(why)) => return self.unopened(qid, why),
            Err(e) => {
                if qid == Qid::ADMIN {
                    self.open_error = Some(OpenError::Other(e.to_string()));
                }
                match e {
                    RdmaOpenError::Rejected { reason, private } => CmEvent::Rejected { reason, private },
                    _ => CmEvent::Unreachable,
                }
            }
        };
        self.association.handle_cm(qid, event, now);
    }

    fn unopened(&mut self, qid: Qid, why: String) {
        let now = self.network.now();
        self.association.handle_open_failed(qid, why.clone(), now);
        if qid == Qid::ADMIN {
            self.open_error = Some(OpenError::Other(why));
        }
    }

    /// Gives the NIC what the association has for it.
    pub(super) fn post_all(&mut self) {
        loop {
            let now = self.network.now();
            if let Some((qid, key)) = self.association.poll_revoke() {
                self.end_rdma(qid, false);
                // Nobody reaches the memory any more once the connection is over.
                let memory = self.network.rdma().and_then(|rdma| rdma.deregister(key));
                self.association.handle_revoked(qid, key, memory, now);
                continue;
            }
            let Some((qid, work)) = self.association.poll_work(now) else { return };
            let link = self.links.get(&qid).map(|l| l.id);
            let posted = link.zip(self.network.rdma()).map(|(id, rdma)| rdma.post(id, work));
            if !matches!(posted, Some(Ok(()))) {
                self.association.handle_unposted(qid, now);
            }
        }
    }

    /// Ends a queue's connection, and takes in how the work ended that was still out: memory may be in it.
    pub(super) fn end_rdma(&mut self, qid: Qid, silent: bool) {
        let Some(link) = self.links.remove(&qid) else { return };
        let now = self.network.now();
        let Some(rdma) = self.network.rdma() else { return };
        rdma.end(link.id, silent || link.deaf);
        while let Some(happened) = rdma.next(link.id, now) {
            if let Happening::Completed(done) = happened {
                self.association.handle_completion(qid, done, now);
            }
        }
    }

    /// Waits until `until` for what happens on a queue's connection; true where something did.
    pub(super) fn take_rdma(&mut self, qid: Qid, until: Instant) -> bool {
        let Some(id) = self.links.get(&qid).map(|l| l.id) else {
            self.network.sleep(until);
            return false;
        };
        let Some(happened) = self.network.rdma().and_then(|rdma| rdma.next(id, until)) else {
            // Over, so that it does not wait.
            let now = self.network.now();
            if now < until {
                self.network.sleep(until.min(now + Duration::from_millis(1)));
            }
            return false;
        };
        let now = self.network.now();
        match happened {
            Happening::Completed(done) => self.association.handle_completion(qid, done, now),
            Happening::Cm(event) => {
                // Nothing is left to be ended.
                let over = matches!(event, CmEvent::Disconnected | CmEvent::Unreachable | CmEvent::Removed);
                self.links.get_mut(&qid).into_iter().for_each(|l| l.deaf |= over);
                self.association.handle_cm(qid, event, now);
            }
            // The NIC has dealt with it.
            Happening::Packet(_) => return false,
        }
        self.settle();
        true
    }
}
