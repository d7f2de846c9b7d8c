//! Work requests: their numbers, their order, and the capsules that SENDs carry.

use bytes::{BufMut, Bytes, BytesMut};
use nvmf_seam::rdma::{Remote, Work, WorkId};
use nvmf_seam::{Head, Instant};
use nvmf_wire::sgl::{SglKeyed, SglSubtype, SglType};
use nvmf_wire::{Cid, Cqe, SglDescriptor, Sqe};

use super::{Capsule, HostConnection, Region, State, Transfer};

/// What a work request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Receive,
    Register,
    Send,
    Invalidate,
}

/// Number of a work request: what for (bits 63:60), which command by its number (59:16) and CID (15:0).
pub(super) fn id(kind: Kind, serial: u64, cid: Cid) -> WorkId {
    WorkId((kind as u64) << 60 | (serial & SERIALS) << 16 | u64::from(cid.0))
}

pub(super) const SERIALS: u64 = (1 << 44) - 1;

pub(super) fn kind(id: WorkId) -> Option<Kind> {
    [Kind::Receive, Kind::Register, Kind::Send, Kind::Invalidate].into_iter().find(|k| *k as u64 == id.0 >> 60)
}

impl HostConnection {
    /// The next work request: receives first, so that no response finds none; then what registers and invalidates, then capsules in the
    /// order of submission.
    pub fn poll_work(&mut self, now: Instant) -> Option<Work> {
        self.now = now;
        let work = self.next_work()?;
        self.given = work.id();
        Some(work)
    }

    fn next_work(&mut self) -> Option<Work> {
        if self.is_ending() {
            return None;
        }
        if self.receives > 0 {
            self.receives -= 1;
            // RDMA-CAPS-02, RDMA-CAPS-04
            return Some(Work::Receive { id: id(Kind::Receive, 0, Cid(0)), len: Cqe::LEN as u32 });
        }
        if self.state != State::Ready || self.posted >= self.settings.work {
            return None;
        }
        let work = self.out.pop_front().or_else(|| self.capsule());
        self.posted += u32::from(work.is_some());
        work
    }

    /// The command that a work request is of, unless it is over.
    pub(super) fn command(&mut self, work: WorkId) -> Option<(Cid, &mut Transfer)> {
        let cid = Cid(work.0 as u16);
        let p = self.ledger.pending.get_mut(&cid)?;
        (p.own.serial == work.0 >> 16 & SERIALS).then_some((cid, &mut p.own))
    }

    /// The next capsule, once its data can be reached. [RDMA-KEY-02]
    fn capsule(&mut self) -> Option<Work> {
        let cid = *self.order.front()?;
        let (capsule, wish, most) = (self.capsule, self.settings.remote_invalidate, self.settings.descriptor);
        let Some(p) = self.ledger.pending.get_mut(&cid) else {
            self.order.pop_front();
            return self.capsule();
        };
        if matches!(p.own.region, Region::Registering) {
            return None;
        }
        self.order.pop_front();
        p.sent = true;
        let id = id(Kind::Send, p.own.serial, cid);
        let (head, payload) = match p.own.region {
            Region::Registered(at) => {
                p.own.wished = wish;
                by_key(p.sqe, at, p.own.len, wish, most)
            }
            _ => within(p.sqe, &p.own.inline, &capsule),
        };
        Some(Work::Send { id, head, payload, invalidate: None })
    }
}

/// A capsule whose data, if any, is in it. [RDMA-DATA-06, SQE-25]
fn within(sqe: Sqe, data: &Bytes, capsule: &Capsule) -> (Head, Bytes) {
    if data.is_empty() {
        // SGL Entry 1 has a descriptor in any case, and it is a keyed one. [RDMA-SGL-05] Targets refuse all zeroes, though that
        // describes no data just as well [SGL-11], and Property commands have it reserved [FAB-PROP-11].
        let none = SglKeyed::new().with(|s| s.kind(SglType::KEYED_DATA_BLOCK));
        return (Head::new(sqe.with_sgl1(SglDescriptor::from_bytes(*none.as_bytes())).as_bytes()), Bytes::new());
    }
    // Offsets count from the end of the SQE. [SGL-26]
    let sgl = SglDescriptor::in_capsule(capsule.data_at.into(), data.len() as u32);
    let mut head = Head::new(sqe.with_sgl1(sgl).as_bytes());
    head.pad(capsule.data_at as usize);
    (head, data.clone())
}

/// A capsule whose data lies in a region: one keyed descriptor, or a last segment of several behind the SQE. [RDMA-SGL-01 to RDMA-SGL-06]
fn by_key(sqe: Sqe, at: Remote, len: usize, wish: bool, most: u32) -> (Head, Bytes) {
    let pieces = pieces(len, most);
    let descriptor = |n: usize| {
        let (start, bytes) = pieces.get(n);
        // Only the key of the last one can be invalidated, and it is the key of all. [RDMA-KEY-03, RDMA-KEY-07]
        let sub = if wish && n + 1 == pieces.count { SglSubtype::INVALIDATE_KEY } else { SglSubtype::ADDRESS };
        let keyed = SglKeyed::new().with(|s| {
            s.addr(at.addr.wrapping_add(start as u64)).len(bytes as u32).key(at.key.0).kind(SglType::KEYED_DATA_BLOCK).sub(sub)
        });
        *keyed.as_bytes()
    };
    if pieces.count <= 1 {
        return (Head::new(sqe.with_sgl1(SglDescriptor::from_bytes(descriptor(0))).as_bytes()), Bytes::new());
    }
    // SQE-31: a multiple of 16. The list is right behind the SQE, at offset 0. [SGL-21, SGL-26]
    let segment =
        SglDescriptor::new().with(|s| s.len(pieces.count as u32 * 16).kind(SglType::LAST_SEGMENT).sub(SglSubtype::OFFSET));
    let mut list = BytesMut::with_capacity(pieces.count * 16);
    (0..pieces.count).for_each(|n| list.put_slice(&descriptor(n)));
    (Head::new(sqe.with_sgl1(segment).as_bytes()), list.freeze())
}

/// How data is spread over descriptors.
pub(super) struct Pieces {
    len: usize,
    each: usize,
    /// How many.
    pub count: usize,
}

impl Pieces {
    /// Where the nth begins, and its bytes.
    fn get(&self, n: usize) -> (usize, usize) {
        let start = n * self.each;
        (start, self.len.saturating_sub(start).min(self.each))
    }
}

/// Data of `len` bytes in descriptors of at most `most`: one where it fits, else whole pages of 4 KiB each as far as they go.
pub(super) fn pieces(len: usize, most: u32) -> Pieces {
    let most = most as usize;
    let each = if len <= most || most < 4096 { most } else { most & !4095 };
    Pieces { len, each, count: len.div_ceil(each.max(1)).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::settings::KEYED_MAX;

    #[test]
    fn pieces_cover_everything_once() {
        for (len, most, count) in [(0, 512, 1), (512, 512, 1), (513, 512, 2), (1 << 24, KEYED_MAX, 2), (0xff_ffff, KEYED_MAX, 1)] {
            let p = pieces(len, most);
            assert_eq!(p.count, count, "{len} {most}");
            let mut at = 0;
            for n in 0..p.count {
                let (start, bytes) = p.get(n);
                assert!(start == at && bytes <= most as usize && (bytes > 0 || len == 0));
                at += bytes;
            }
            assert_eq!(at, len);
        }
        assert_eq!(pieces(1 << 24, KEYED_MAX).get(1), (0xff_f000, 4096), "pages");
    }

    #[test]
    fn numbers_keep_what_they_are_made_of() {
        let n = id(Kind::Invalidate, 7, Cid(0xfffe));
        assert_eq!((kind(n), n.0 as u16, n.0 >> 16 & SERIALS), (Some(Kind::Invalidate), 0xfffe, 7));
        assert_eq!(kind(WorkId(u64::MAX)), None);
    }
}
