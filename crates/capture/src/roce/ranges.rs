//! The memory of the host that outstanding commands name: who owns what a READ or WRITE is for.

use std::collections::BTreeMap;

use bytes::Bytes;
use nvmf_wire::roce::Reth;
use nvmf_wire::sgl::{SglKeyed, SglSubtype, SglType};
use nvmf_wire::{Cid, Sqe};

use super::event::Target;
use super::room::Room;

/// Most descriptors remembered of one command. [Base 2.0, Figure 275: MSDBD]
const MAX_DESCRIPTORS: usize = 256;
/// What remembering one descriptor takes of the [`Room`], bytes.
const RANGE: usize = 128;

/// Keyed descriptors of the commands of one connection that were not completed yet.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    by_place: BTreeMap<(u32, u64), Range>,
    by_command: BTreeMap<u16, Vec<(u32, u64)>>,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    len: u32,
    /// Where in the command's data it begins, bytes.
    offset: u64,
    cid: Cid,
}

impl Ranges {
    /// Takes note of a command; `rest` is what is behind its SQE.
    pub(super) fn command(&mut self, sqe: &Sqe, rest: &Bytes, room: &mut Room) {
        let cid = sqe.cid();
        self.response(cid, room);
        let mut places = Vec::new();
        let mut offset = 0;
        for sgl in descriptors(sqe, rest) {
            if !room.take(RANGE) {
                break;
            }
            let place = (sgl.key(), sgl.addr());
            self.by_place.insert(place, Range { len: sgl.len(), offset, cid });
            places.push(place);
            offset += u64::from(sgl.len());
        }
        if !places.is_empty() {
            self.by_command.insert(cid.0, places);
        }
    }

    /// A command was completed: its memory is no longer open.
    pub(super) fn response(&mut self, cid: Cid, room: &mut Room) {
        for place in self.by_command.remove(&cid.0).unwrap_or_default() {
            room.give(RANGE);
            if self.by_place.get(&place).is_some_and(|r| r.cid == cid) {
                self.by_place.remove(&place);
            }
        }
    }

    /// Forgets all commands.
    pub(super) fn clear(&mut self, room: &mut Room) {
        room.give(RANGE * self.by_command.values().map(Vec::len).sum::<usize>());
        *self = Self::default();
    }

    /// Whose memory an operation is for.
    pub(super) fn owner(&self, reth: Reth) -> Target {
        let (key, va) = (reth.rkey(), reth.va());
        let below = self.by_place.range((key, 0)..=(key, va)).next_back();
        if let Some((&(_, addr), range)) = below
            && (va - addr < u64::from(range.len) || (va == addr && range.len == 0))
        {
            return Target { reth, cid: Some(range.cid), offset: Some(range.offset + (va - addr)) };
        }
        let same_key = self.by_place.range((key, 0)..=(key, u64::MAX)).next();
        Target { reth, cid: same_key.map(|(_, r)| r.cid), offset: None }
    }
}

/// The keyed descriptors of a command: the one in its SQE, or those of the last segment in the capsule. [NVMe/RDMA 1.0, 3.3.1]
fn descriptors(sqe: &Sqe, rest: &Bytes) -> Vec<SglKeyed> {
    let first = sqe.sgl1();
    match first.kind() {
        SglType::KEYED_DATA_BLOCK => vec![SglKeyed::from_bytes(*first.as_bytes())],
        SglType::LAST_SEGMENT if first.sub() == SglSubtype::OFFSET => {
            let from = usize::try_from(first.addr()).unwrap_or(usize::MAX);
            let list = rest.get(from..).unwrap_or(&[]);
            let list = list.get(..first.len() as usize).unwrap_or(list);
            let all = list.chunks_exact(16).take(MAX_DESCRIPTORS).filter_map(|d| SglKeyed::read(d).ok());
            all.filter(|d| d.kind() == SglType::KEYED_DATA_BLOCK).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyed(addr: u64, len: u32, key: u32) -> SglKeyed {
        SglKeyed::new().with(|s| s.addr(addr).len(len).key(key).kind(SglType::KEYED_DATA_BLOCK))
    }

    fn reth(va: u64, rkey: u32, dmalen: u32) -> Reth {
        Reth::new().with(|s| s.va(va).rkey(rkey).dmalen(dmalen))
    }

    fn command(cid: u16, sgl: &[u8; 16]) -> Sqe {
        let mut bytes = [0; 64];
        bytes[24..40].copy_from_slice(sgl);
        Sqe::from_bytes(bytes).with(|s| s.cid(Cid(cid)))
    }

    #[test]
    fn an_operation_belongs_to_the_command_whose_range_it_begins_in() {
        let (mut ranges, mut room) = (Ranges::default(), Room::default());
        ranges.command(&command(1, keyed(0x1000, 0x1000, 7).as_bytes()), &Bytes::new(), &mut room);
        ranges.command(&command(2, keyed(0x2000, 0x1000, 7).as_bytes()), &Bytes::new(), &mut room);
        let owner = |r: &Ranges, va, key| (r.owner(reth(va, key, 512)).cid, r.owner(reth(va, key, 512)).offset);
        assert_eq!(owner(&ranges, 0x1000, 7), (Some(Cid(1)), Some(0)));
        assert_eq!(owner(&ranges, 0x2e00, 7), (Some(Cid(2)), Some(0xe00)));
        assert_eq!(owner(&ranges, 0x3000, 7), (Some(Cid(1)), None));
        assert_eq!(owner(&ranges, 0x1000, 8), (None, None));
        ranges.response(Cid(1), &mut room);
        assert_eq!(owner(&ranges, 0x1000, 7), (Some(Cid(2)), None));
    }

    #[test]
    fn descriptors_in_the_capsule_follow_one_another() {
        let list: Vec<u8> = [keyed(0x9000, 512, 3), keyed(0x100, 4096, 4)].iter().flat_map(|d| *d.as_bytes()).collect();
        let mut segment = [0u8; 16];
        segment[8] = 32;
        segment[15] = 0x31;
        let (mut ranges, mut room) = (Ranges::default(), Room::default());
        ranges.command(&command(5, &segment), &list.into(), &mut room);
        assert_eq!(ranges.owner(reth(0x300, 4, 1)).offset, Some(512 + 0x200));
        assert_eq!(ranges.owner(reth(0x9000, 3, 1)).cid, Some(Cid(5)));
    }
}
