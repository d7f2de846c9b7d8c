//! Ends of work requests: responses judged, commands taken from one stage to the next.

use bytes::Bytes;
use nvmf_seam::Instant;
use nvmf_seam::rdma::{Completion, Done, Rkey, Work, WorkError, WorkId};
use nvmf_spec::req;
use nvmf_wire::{Cid, Cqe, Qid};

use super::work::{Kind, id, kind};
use super::{Answered, HostConnection, Pending, Region, State};

/// For a log and a user, why work failed.
fn words(e: WorkError) -> &'static str {
    match e {
        WorkError::Flushed => "the queue pair went to its error state",
        WorkError::Length => "a message or transfer longer than the device takes",
        WorkError::Protection => "local protection error of the RDMA device",
        WorkError::RemoteInvalidRequest => "the controller's NIC refused a SEND as invalid (NAK 61h)",
        WorkError::RemoteAccess => "the controller's NIC refused access (NAK 62h)",
        WorkError::RemoteOperational => "the controller's NIC failed (NAK 63h)",
        WorkError::RetryExceeded => "the controller's NIC does not answer",
        WorkError::RnrRetryExceeded => "the controller has no receive for a SEND",
        WorkError::BadResponse => "the controller's NIC answered with packets that cannot be right",
        WorkError::NoSuchKey => "the RDMA device lost a region",
    }
}

impl HostConnection {
    /// Work has ended. Of a connection that is over only memory is of interest.
    pub fn handle_completion(&mut self, completion: Completion, now: Instant) {
        self.now = now;
        let Completion { id, result } = completion;
        let Some(kind) = kind(id) else { return };
        if kind != Kind::Receive {
            self.posted = self.posted.saturating_sub(1);
        }
        if self.is_ending() {
            return self.late(id, kind, result);
        }
        match (kind, result) {
            (Kind::Receive, Ok(Done::Received { data, invalidated })) => {
                self.receives += 1;
                self.respond(&data, invalidated);
            }
            (Kind::Receive, Err(WorkError::Length)) => {
                self.violated(self.size_rule(), format!("a response of more than {} bytes", Cqe::LEN));
            }
            (Kind::Send, Ok(Done::Sent)) => {
                if let Some((cid, own)) = self.command(id) {
                    own.send_done = true;
                    self.advance(cid);
                }
            }
            (Kind::Register, Ok(Done::Registered(at))) => {
                if let Some((cid, own)) = self.command(id) {
                    own.region = Region::Registered(at);
                    self.advance(cid);
                }
            }
            (Kind::Invalidate, Ok(Done::Invalidated(memory))) => {
                if let Some((cid, own)) = self.command(id) {
                    own.region = Region::Back(memory);
                    self.advance(cid);
                }
            }
            // What took the queue pair down may still be told: the end of the connection by CM.
            (_, Err(WorkError::Flushed)) => {
                self.lost(id);
                self.flushed.get_or_insert(now);
            }
            (_, Err(e)) => {
                self.lost(id);
                self.broken(words(e));
            }
            (_, Ok(_)) => self.broken("the RDMA device mixed up its completions"),
        }
    }

    /// Work that failed has no memory to give back.
    pub(super) fn lost(&mut self, id: WorkId) {
        if let Some((_, own)) = self.command(id)
            && matches!(kind(id), Some(Kind::Register | Kind::Invalidate))
        {
            // A region whose invalidation was flushed is still registered.
            own.region = match own.region {
                Region::Invalidating(key) => Region::Invalidating(key),
                _ => Region::Gone,
            };
        }
    }

    /// The end of work of a connection that is over.
    fn late(&mut self, id: WorkId, kind: Kind, result: Result<Done, WorkError>) {
        let Some((cid, own)) = self.command(id) else { return };
        match (kind, result) {
            (Kind::Register, Ok(Done::Registered(at))) => {
                own.region = Region::Registered(at);
                self.revoke.push_back(at.key);
            }
            (Kind::Invalidate, Ok(Done::Invalidated(memory))) => {
                own.region = Region::Back(memory);
                self.finish(cid);
            }
            // The key is asked back, or was: see `handle_revoked`.
            (Kind::Invalidate, Err(WorkError::Flushed)) => {}
            (Kind::Register | Kind::Invalidate, _) => {
                own.region = Region::Gone;
                self.finish(cid);
            }
            _ => {}
        }
    }

    /// Takes a command on. Its response may come before the device says that its SEND is done, and only with both is its memory out of
    /// use; then its key is invalidated, whether the controller did so or not, and the memory comes back. [RDMA-KEY-09, RDMA-KEY-10]
    pub(super) fn advance(&mut self, cid: Cid) {
        let Some(p) = self.ledger.pending.get_mut(&cid) else { return };
        let own = &mut p.own;
        if own.answer.is_none() || !own.send_done {
            return;
        }
        match own.region {
            Region::Registered(at) => {
                own.region = Region::Invalidating(at.key);
                self.out.push_back(Work::Invalidate { id: id(Kind::Invalidate, own.serial, cid), key: at.key });
            }
            Region::Registering | Region::Invalidating(_) => {}
            Region::None | Region::Back(_) | Region::Gone => self.finish(cid),
        }
    }

    fn size_rule(&self) -> &'static nvmf_spec::Requirement {
        if self.qid == Qid::ADMIN { req::RDMA_CAPS_02 } else { req::RDMA_CAPS_04 }
    }

    /// A response capsule. [RDMA-CAPS-02, RDMA-CAPS-04]
    fn respond(&mut self, data: &Bytes, invalidated: Option<Rkey>) {
        debug_assert_eq!(self.state, State::Ready);
        let Some(bytes) = data.first_chunk::<{ Cqe::LEN }>().filter(|_| data.len() == Cqe::LEN) else {
            return self.violated(self.size_rule(), format!("a response of {} bytes", data.len()));
        };
        let cqe = Cqe::from_bytes(*bytes);
        let cid = cqe.cid();
        let known = self.ledger.pending.get(&cid).is_some_and(|p| p.sent && p.own.answer.is_none());
        if !known && !self.ledger.forgotten.contains_key(&cid) {
            return self.violated(req::CQE_01, format!("a response for CID {:#06x}, which is not outstanding", cid.0));
        }
        if known && !self.judge_key(cid, invalidated) {
            return;
        }
        if !self.ledger.take_head(&cqe, known) {
            return;
        }
        if let Some(p) = self.ledger.pending.get_mut(&cid) {
            p.own.answer = Some(Answered { cqe, real: true });
            p.until = None;
        }
        self.advance(cid);
    }

    /// Compares the key that a response invalidated. Another one than the command's is perhaps that of another command, whose data
    /// then cannot move: the connection ends. [RDMA-KEY-07 to RDMA-KEY-09]
    fn judge_key(&mut self, cid: Cid, invalidated: Option<Rkey>) -> bool {
        let Some(key) = invalidated else { return true };
        let own = self.ledger.pending.get(&cid).and_then(|Pending { own, .. }| match own.region {
            Region::Registered(at) => Some((at.key, own.wished)),
            _ => None,
        });
        match own {
            Some((ours, true)) if ours == key => true,
            Some((ours, false)) if ours == key => {
                let seen = format!("the response for CID {:#06x} invalidates key {:#010x} unasked", cid.0, key.0);
                self.ledger.note(req::RDMA_KEY_08, seen);
                true
            }
            other => {
                let (rule, ours) = match other {
                    Some((ours, true)) => (req::RDMA_KEY_07, format!("{:#010x}", ours.0)),
                    Some((ours, false)) => (req::RDMA_KEY_08, format!("{:#010x}", ours.0)),
                    None => (req::RDMA_KEY_08, "none".into()),
                };
                let seen = format!("the response for CID {:#06x} invalidates key {:#010x}, where its own is {ours}", cid.0, key.0);
                self.violated(rule, seen);
                false
            }
        }
    }
}
