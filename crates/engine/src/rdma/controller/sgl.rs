//! Where a command's data lies: in its capsule, or in the host's memory as keyed descriptors say. [NVMe/RDMA 1.0, 3.3.1; Base 2.0, 4.1.2]

use bytes::Bytes;
use nvmf_seam::rdma::{Remote, Rkey};
use nvmf_wire::sgl::{SglKeyed, SglSubtype, SglType};
use nvmf_wire::{SglDescriptor, Sqe, Status};

use crate::queue::{Located, Transfer};
use crate::settings::RdmaCapsules;

/// Bytes of a descriptor.
const LEN: usize = 16;

/// What a queue takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The queue is an I/O queue.
    pub io: bool,
    pub capsules: RdmaCapsules,
    pub ioccsz: u32,
}

/// Host memory of a command, all of it judged.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The descriptors of the capsule; empty where the one of the SQE is all.
    list: Bytes,
    /// There is any: a command without data has a place too.
    keyed: bool,
}

/// How far the memory of a command was read or written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    /// Descriptor.
    index: usize,
    /// Bytes of it.
    at: u32,
}

impl Rules {
    /// Finds a command's data; `capsule` is what came behind the SQE.
    pub fn locate(&self, sqe: &Sqe, transfer: Transfer, capsule: &Bytes) -> Result<Located<Place>, Status> {
        let len = match transfer {
            Transfer::None | Transfer::In(0) | Transfer::Out(0) => return Ok(Located::Nowhere),
            Transfer::In(len) | Transfer::Out(len) => len,
        };
        let sgl = sqe.sgl1();
        match (sgl.kind(), sgl.sub()) {
            (SglType::KEYED_DATA_BLOCK, _) => {
                let one = keyed(&sgl)?;
                same_length(one.len().into(), len)?;
                Ok(Located::Host(Place { list: Bytes::new(), keyed: true }))
            }
            // The host's data alone, and none on the Admin Queue. [RDMA-CAPS-02, RDMA-CAPS-04, RDMA-SGL-01, RDMA-SGL-02]
            (SglType::DATA_BLOCK, SglSubtype::OFFSET) if self.io && matches!(transfer, Transfer::In(_)) => {
                self.in_capsule(&sgl, len, capsule).map(Located::Capsule)
            }
            // [RDMA-SGL-05, RDMA-SGL-06]
            (SglType::LAST_SEGMENT, SglSubtype::OFFSET) if self.io && sqe.fctype().is_none() => {
                let list = self.list(&sgl, len, capsule)?;
                Ok(Located::Host(Place { list, keyed: true }))
            }
            // [RDMA-SGL-03, SGL-03]
            _ => Err(Status::SGL_DESCRIPTOR_TYPE_INVALID.dnr()),
        }
    }

    /// Data begins ICDOFF behind the SQE or later; the descriptor counts from the end of the SQE. [SGL-18, SGL-26]
    fn in_capsule(&self, sgl: &SglDescriptor, len: usize, capsule: &Bytes) -> Result<Bytes, Status> {
        same_length(sgl.len().into(), len)?;
        let base = usize::from(self.capsules.icdoff) * LEN;
        let start = usize::try_from(sgl.addr()).unwrap_or(usize::MAX);
        match start.checked_add(len) {
            Some(end) if start >= base && end <= capsule.len() => Ok(capsule.slice(start..end)),
            Some(_) if start == base => Err(Status::DATA_SGL_LENGTH_INVALID.dnr()),
            _ => Err(Status::SGL_OFFSET_INVALID.dnr()),
        }
    }

    /// The descriptors of a last segment: right behind the SQE, and all of them keyed. [SGL-21, SGL-20]
    fn list(&self, sgl: &SglDescriptor, len: usize, capsule: &Bytes) -> Result<Bytes, Status> {
        let bytes = sgl.len() as usize;
        // [SGL-09]
        if bytes == 0 || !bytes.is_multiple_of(LEN) {
            return Err(Status::INVALID_SGL_SEGMENT_DESCRIPTOR.dnr());
        }
        // [SGL-22 to SGL-25]
        if bytes / LEN > usize::from(self.capsules.descriptors(self.ioccsz)) {
            return Err(Status::INVALID_NUMBER_OF_SGL_DESCRIPTORS.dnr());
        }
        // [SGL-18, SGL-21]
        if sgl.addr() != 0 {
            return Err(Status::SGL_OFFSET_INVALID.dnr());
        }
        // The capsule ends before the segment does.
        if bytes > capsule.len() {
            return Err(Status::INVALID_SGL_SEGMENT_DESCRIPTOR.dnr());
        }
        let list = capsule.slice(..bytes);
        let mut total = 0;
        for b in list.chunks_exact(LEN) {
            let d = SglDescriptor::read(b).map_err(|_| Status::INTERNAL_ERROR)?;
            match d.kind() {
                SglType::KEYED_DATA_BLOCK => total += u64::from(keyed(&d)?.len()),
                // [SGL-02]
                SglType::SEGMENT | SglType::LAST_SEGMENT => return Err(Status::INVALID_SGL_SEGMENT_DESCRIPTOR.dnr()),
                // Descriptors or data, never both. [SGL-17]
                SglType::DATA_BLOCK if d.sub() == SglSubtype::OFFSET => {
                    return Err(Status::INVALID_NUMBER_OF_SGL_DESCRIPTORS.dnr());
                }
                _ => return Err(Status::SGL_DESCRIPTOR_TYPE_INVALID.dnr()),
            }
        }
        same_length(total, len)?;
        Ok(list)
    }
}

/// A keyed descriptor with a sub type that there is. [RDMA-SGL-09, SGL-04, SGL-08]
fn keyed(d: &SglDescriptor) -> Result<SglKeyed, Status> {
    if !matches!(d.sub(), SglSubtype::ADDRESS | SglSubtype::INVALIDATE_KEY) {
        return Err(Status::SGL_DESCRIPTOR_TYPE_INVALID.dnr());
    }
    let d = SglKeyed::from_bytes(*d.as_bytes());
    match d.addr().checked_add(d.len().into()) {
        Some(_) => Ok(d),
        None => Err(Status::DATA_SGL_LENGTH_INVALID.dnr()),
    }
}

/// SGLS bit 18 is 0: descriptors are as long as the transfer. [SGL-06, SGL-07]
fn same_length(described: u64, len: usize) -> Result<(), Status> {
    if described == len as u64 { Ok(()) } else { Err(Status::DATA_SGL_LENGTH_INVALID.dnr()) }
}

impl Place {
    fn descriptor(&self, sqe: &Sqe, index: usize) -> Option<SglKeyed> {
        if !self.keyed {
            return None;
        }
        if self.list.is_empty() {
            return (index == 0).then(|| SglKeyed::from_bytes(*sqe.sgl1().as_bytes()));
        }
        SglKeyed::read(self.list.get(index * LEN..)?).ok()
    }

    /// The key that the host wishes to be invalidated: that of the last descriptor, where it has the sub type for it.
    /// [RDMA-SGL-10, RDMA-KEY-07, RDMA-KEY-08]
    pub fn invalidate(&self, sqe: &Sqe) -> Option<Rkey> {
        let last = self.descriptor(sqe, (self.list.len() / LEN).saturating_sub(1))?;
        (last.sub() == SglSubtype::INVALIDATE_KEY).then(|| Rkey(last.key()))
    }
}

impl Cursor {
    /// The next piece, of one descriptor and at most `most` bytes; `None` behind the last. [RDMA-DATA-09, RDMA-DATA-10]
    pub fn next(&mut self, place: &Place, sqe: &Sqe, most: u32) -> Option<(Remote, u32)> {
        loop {
            let d = place.descriptor(sqe, self.index)?;
            let len = d.len().saturating_sub(self.at).min(most);
            if len == 0 {
                // [SGL-11]
                (self.index, self.at) = (self.index + 1, 0);
                continue;
            }
            let from = Remote { addr: d.addr().wrapping_add(self.at.into()), key: Rkey(d.key()) };
            self.at += len;
            return Some((from, len));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(icdoff: u16, msdbd: u8) -> Rules {
        Rules { io: true, capsules: RdmaCapsules { msdbd, icdoff }, ioccsz: 4 + 256 }
    }

    fn one(addr: u64, len: u32, key: u32, sub: SglSubtype) -> SglKeyed {
        SglKeyed::new().with(|s| s.addr(addr).len(len).key(key).kind(SglType::KEYED_DATA_BLOCK).sub(sub))
    }

    fn with(sgl: &[u8; 16]) -> Sqe {
        Sqe::new().with_sgl1(SglDescriptor::from_bytes(*sgl))
    }

    fn segment(addr: u64, len: u32) -> Sqe {
        with(SglDescriptor::new().with(|s| s.addr(addr).len(len).kind(SglType::LAST_SEGMENT).sub(SglSubtype::OFFSET)).as_bytes())
    }

    fn list(all: &[SglKeyed]) -> Bytes {
        all.iter().flat_map(|d| *d.as_bytes()).collect()
    }

    #[track_caller]
    fn refused(rules: Rules, sqe: &Sqe, transfer: Transfer, capsule: &Bytes, status: Status) {
        assert_eq!(rules.locate(sqe, transfer, capsule).unwrap_err(), status.dnr());
    }

    #[test]
    fn what_one_descriptor_may_be() {
        let r = rules(0, 16);
        let none = Bytes::new();
        for sub in [SglSubtype::ADDRESS, SglSubtype::INVALIDATE_KEY] {
            let sqe = with(one(0x1000, 512, 7, sub).as_bytes());
            let Ok(Located::Host(place)) = r.locate(&sqe, Transfer::In(512), &none) else { panic!() };
            assert_eq!(place.invalidate(&sqe), (sub == SglSubtype::INVALIDATE_KEY).then_some(Rkey(7)));
            refused(r, &sqe, Transfer::Out(511), &none, Status::DATA_SGL_LENGTH_INVALID);
        }
        for sub in (1..15).map(SglSubtype) {
            let sqe = with(one(0x1000, 512, 7, sub).as_bytes());
            refused(r, &sqe, Transfer::In(512), &none, Status::SGL_DESCRIPTOR_TYPE_INVALID);
        }
        // RD-01: what 24 bits do not hold is another length.
        let sqe = with(one(0, 0x100_0000, 7, SglSubtype::ADDRESS).as_bytes());
        refused(r, &sqe, Transfer::In(0x100_0000), &none, Status::DATA_SGL_LENGTH_INVALID);
        let sqe = with(one(u64::MAX - 510, 512, 7, SglSubtype::ADDRESS).as_bytes());
        refused(r, &sqe, Transfer::In(512), &none, Status::DATA_SGL_LENGTH_INVALID);
        for id in [0x00, 0x10, 0x20, 0x21, 0x30, 0x5a, 0xf0] {
            let mut sgl = [0; 16];
            (sgl[9], sgl[15]) = (2, id);
            refused(r, &with(&sgl), Transfer::In(512), &none, Status::SGL_DESCRIPTOR_TYPE_INVALID);
        }
    }

    #[test]
    fn data_of_a_capsule_begins_at_icdoff() {
        let capsule: Bytes = (0..=255).collect();
        let at = |offset, len| with(SglDescriptor::in_capsule(offset, len).as_bytes());
        for (icdoff, offset, want) in [(0, 0, 0), (0, 100, 100), (2, 32, 32), (2, 42, 42)] {
            match rules(icdoff, 1).locate(&at(offset, 16), Transfer::In(16), &capsule) {
                Ok(Located::Capsule(data)) => assert_eq!(data[0], want),
                other => panic!("{other:?}"),
            }
        }
        let r = rules(2, 1);
        refused(r, &at(32, 225), Transfer::In(225), &capsule, Status::DATA_SGL_LENGTH_INVALID);
        refused(r, &at(252, 16), Transfer::In(16), &capsule, Status::SGL_OFFSET_INVALID);
        refused(r, &at(31, 16), Transfer::In(16), &capsule, Status::SGL_OFFSET_INVALID);
        refused(r, &at(0, 16), Transfer::In(16), &capsule, Status::SGL_OFFSET_INVALID);
        refused(r, &at(u64::MAX, 16), Transfer::In(16), &capsule, Status::SGL_OFFSET_INVALID);
        refused(r, &at(32, 16), Transfer::Out(16), &capsule, Status::SGL_DESCRIPTOR_TYPE_INVALID);
        refused(Rules { io: false, ..r }, &at(32, 16), Transfer::In(16), &capsule, Status::SGL_DESCRIPTOR_TYPE_INVALID);
    }

    #[test]
    fn what_a_list_may_be() {
        let (r, a) = (rules(0, 3), SglSubtype::ADDRESS);
        let three = [one(0x1000, 100, 1, a), one(0x2000, 0, 2, a), one(0x3000, 28, 3, SglSubtype::INVALIDATE_KEY)];
        let sqe = segment(0, 48);
        let Ok(Located::Host(place)) = r.locate(&sqe, Transfer::In(128), &list(&three)) else { panic!() };
        assert_eq!(place.invalidate(&sqe), Some(Rkey(3)));
        let mut cursor = Cursor::default();
        let mut pieces = Vec::new();
        while let Some((from, len)) = cursor.next(&place, &sqe, 64) {
            pieces.push((from.addr, from.key.0, len));
        }
        assert_eq!(pieces, [(0x1000, 1, 64), (0x1040, 1, 36), (0x3000, 3, 28)]);

        refused(r, &sqe, Transfer::In(129), &list(&three), Status::DATA_SGL_LENGTH_INVALID);
        refused(r, &segment(0, 64), Transfer::In(128), &list(&three), Status::INVALID_NUMBER_OF_SGL_DESCRIPTORS);
        // ICDOFF leaves room for two.
        refused(rules(2, 3), &sqe, Transfer::In(128), &list(&three), Status::INVALID_NUMBER_OF_SGL_DESCRIPTORS);
        refused(r, &sqe, Transfer::In(128), &list(&three[..2]), Status::INVALID_SGL_SEGMENT_DESCRIPTOR);
        for len in [0, 15, 47] {
            refused(r, &segment(0, len), Transfer::In(128), &list(&three), Status::INVALID_SGL_SEGMENT_DESCRIPTOR);
        }
        refused(r, &segment(16, 32), Transfer::In(28), &list(&three), Status::SGL_OFFSET_INVALID);
        refused(Rules { io: false, ..r }, &sqe, Transfer::In(128), &list(&three), Status::SGL_DESCRIPTOR_TYPE_INVALID);
        for (id, status) in [
            (0x21, Status::INVALID_SGL_SEGMENT_DESCRIPTOR),
            (0x31, Status::INVALID_SGL_SEGMENT_DESCRIPTOR),
            (0x01, Status::INVALID_NUMBER_OF_SGL_DESCRIPTORS),
            (0x41, Status::SGL_DESCRIPTOR_TYPE_INVALID),
            (0x5a, Status::SGL_DESCRIPTOR_TYPE_INVALID),
        ] {
            let mut bytes = list(&three).to_vec();
            bytes[31] = id;
            refused(r, &sqe, Transfer::In(128), &Bytes::from(bytes), status);
        }
    }

    #[test]
    fn fewer_descriptors_are_told_than_the_capsule_has_no_room_for() {
        // RD-05: IOCCSZ 4 has room for none but that of the SQE.
        for (ioccsz, icdoff, msdbd, told) in [(4, 0, 16, 1), (20, 0, 16, 16), (12, 0, 16, 8), (260, 4, 16, 4), (260, 0, 0, 1)] {
            assert_eq!(RdmaCapsules { msdbd, icdoff }.descriptors(ioccsz), told, "{ioccsz} {icdoff} {msdbd}");
        }
    }
}
