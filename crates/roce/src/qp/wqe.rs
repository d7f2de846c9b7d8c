//! One entry of a send queue.

use bytes::{Bytes, BytesMut};
use nvmf_seam::Head;
use nvmf_seam::rdma::{Memory, Remote, Rkey, Work, WorkId};
use nvmf_wire::roce::{psn_add, psn_distance};

/// What an entry does. Those without packets are executed when their turn comes.
#[derive(Debug)]
pub(crate) enum Kind {
    Send {
        head: Head,
        payload: Bytes,
        invalidate: Option<Rkey>,
    },
    Write {
        to: Remote,
        data: Bytes,
    },
    Read {
        from: Remote,
        len: u32,
        got: u32,
        buffer: BytesMut,
        single: Bytes,
    },
    /// The region is made when it is posted, as nobody can know its key before it is complete.
    Register {
        remote: Remote,
    },
    Invalidate {
        key: Rkey,
        done: Option<Option<Memory>>,
    },
    /// PSNs that packets took which were made elsewhere.
    Skip,
}

#[derive(Debug)]
pub(crate) struct Wqe {
    pub id: WorkId,
    pub kind: Kind,
    /// First PSN, from when it was begun.
    pub psn: u32,
    /// PSNs that it takes.
    pub psns: u32,
    pub begun: bool,
}

impl Wqe {
    pub(crate) fn register(id: WorkId, remote: Remote) -> Self {
        Self { id, kind: Kind::Register { remote }, psn: 0, psns: 0, begun: false }
    }

    /// PSNs that were taken elsewhere.
    pub(crate) fn skip(psns: u32) -> Self {
        Self { id: WorkId::default(), kind: Kind::Skip, psn: 0, psns, begun: false }
    }

    /// `None` for [`Work::Receive`], which is for the other queue, and for [`Work::Register`]: see [`Wqe::register`].
    pub(crate) fn new(work: Work, mtu: u32) -> Option<Self> {
        let id = work.id();
        let kind = match work {
            Work::Receive { .. } | Work::Register { .. } => return None,
            Work::Send { head, payload, invalidate, .. } => Kind::Send { head, payload, invalidate },
            Work::Write { to, data, .. } => Kind::Write { to, data },
            Work::Read { from, len, .. } => Kind::Read { from, len, got: 0, buffer: BytesMut::new(), single: Bytes::new() },
            Work::Invalidate { key, .. } => Kind::Invalidate { key, done: None },
        };
        let mut wqe = Self { id, kind, psn: 0, psns: 0, begun: false };
        if !wqe.is_local() {
            wqe.psns = u32::try_from(wqe.len().div_ceil(u64::from(mtu)).max(1)).unwrap_or(u32::MAX);
        }
        Some(wqe)
    }

    /// Executed here, without a packet.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.kind, Kind::Register { .. } | Kind::Invalidate { .. })
    }

    pub(crate) fn is_read(&self) -> bool {
        matches!(self.kind, Kind::Read { .. })
    }

    /// Bytes of the message.
    pub(crate) fn len(&self) -> u64 {
        match &self.kind {
            Kind::Send { head, payload, .. } => head.as_slice().len() as u64 + payload.len() as u64,
            Kind::Write { data, .. } => data.len() as u64,
            Kind::Read { len, .. } => u64::from(*len),
            _ => 0,
        }
    }

    /// The PSN behind its last.
    pub(crate) fn end(&self) -> u32 {
        psn_add(self.psn, self.psns)
    }

    /// Behind the cursor where `psn` is the oldest that is not acknowledged: nothing of it is to be sent.
    pub(crate) fn passed(&self, psn: u32) -> bool {
        match &self.kind {
            Kind::Register { .. } => true,
            Kind::Invalidate { done, .. } => done.is_some(),
            Kind::Skip => self.begun,
            _ => self.begun && psn_distance(self.end(), psn) <= 0,
        }
    }

    /// One of its PSNs.
    pub(crate) fn holds(&self, psn: u32) -> bool {
        self.begun && psn_distance(psn, self.psn) >= 0 && psn_distance(psn, self.end()) < 0
    }

    /// A READ whose bytes are not all here: the PSN of the first response that is missing.
    pub(crate) fn missing(&self, mtu: u32) -> Option<u32> {
        match &self.kind {
            Kind::Read { len, got, .. } if got < len => Some(psn_add(self.psn, got / mtu)),
            _ => None,
        }
    }
}
