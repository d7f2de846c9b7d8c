//! Registered memory: keys, bounds, rights, domains.

use std::collections::VecDeque;

use bytes::Bytes;
use nvmf_seam::rdma::{Access, Memory, Pd, Remote, Rkey};
use nvmf_seam::{Entropy, SplitMix64};

use crate::pool::Pool;

/// What a packet wants to do with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Read,
    Write,
}

/// The key, its domain, its bounds or its rights do not allow it: NAK 62h. [IBA vol. 1, 9.7.5.2.5]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

#[derive(Debug)]
struct Region {
    memory: Memory,
    base: u64,
    access: Access,
    pd: Pd,
    /// False once the other side invalidated the key; the memory waits to be taken out.
    valid: bool,
}

#[derive(Debug)]
struct Slot {
    tag: u8,
    region: Option<Region>,
}

/// The table of regions. A key is 24 bits of index, which is the slot's number with some bits turned by chance, and a tag of 8 bits that
/// is another at each registration in the slot. [IBA vol. 1, 10.6.3.3]
#[derive(Debug)]
pub(crate) struct Regions {
    slots: Vec<Slot>,
    /// Oldest first, so that a key comes back as late as can be.
    free: VecDeque<u32>,
    mask: u32,
    max: u32,
    /// A CPU copies what goes in and out.
    bounce: bool,
}

impl Regions {
    pub(crate) fn new(max: u32, bounce: bool, rng: &mut SplitMix64) -> Self {
        let mask = rng.below(1 << 24) as u32;
        Self { slots: Vec::new(), free: VecDeque::new(), mask, max: max.min(1 << 24), bounce }
    }

    /// Registers; gives the memory back where the table is full.
    pub(crate) fn insert(&mut self, memory: Memory, access: Access, pd: Pd, rng: &mut SplitMix64) -> Result<Remote, Memory> {
        let slot = match self.free.pop_front() {
            Some(slot) => slot,
            None if self.slots.len() < self.max as usize => {
                self.slots.push(Slot { tag: rng.next_u64() as u8, region: None });
                self.slots.len() as u32 - 1
            }
            None => return Err(memory),
        };
        // A page of a user's half of the address space, as programs have them.
        let base = (rng.below(1 << 34) + 1) << 12;
        let index = (slot ^ self.mask) & 0x00ff_ffff;
        let Some(entry) = self.slots.get_mut(slot as usize) else { return Err(memory) };
        entry.tag = entry.tag.wrapping_add(1);
        if index == 0 && entry.tag == 0 {
            entry.tag = 1;
        }
        let key = Rkey(index << 8 | u32::from(entry.tag));
        entry.region = Some(Region { memory, base, access, pd, valid: true });
        Ok(Remote { addr: base, key })
    }

    fn slot(&mut self, key: Rkey) -> Option<(u32, &mut Slot)> {
        let number = (key.0 >> 8) ^ self.mask;
        let slot = self.slots.get_mut(number as usize)?;
        (slot.tag == key.0 as u8).then_some((number, slot))
    }

    /// Takes a region out.
    pub(crate) fn remove(&mut self, key: Rkey) -> Option<Memory> {
        let (number, slot) = self.slot(key)?;
        let region = slot.region.take()?;
        self.free.push_back(number);
        Some(region.memory)
    }

    /// The memory of a key, whether it is still valid or not.
    pub(crate) fn memory(&mut self, key: Rkey) -> Option<&Memory> {
        self.slot(key)?.1.region.as_ref().map(|r| &r.memory)
    }

    /// Regions in the table.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// SEND with Invalidate. [IBA vol. 1, 9.4.1.1.3]
    pub(crate) fn invalidate(&mut self, pd: Pd, key: Rkey) -> Result<(), Refused> {
        let region = self.slot(key).and_then(|(_, s)| s.region.as_mut()).ok_or(Refused)?;
        if !region.valid || region.pd != pd {
            return Err(Refused);
        }
        region.valid = false;
        Ok(())
    }

    /// The region and the offset in it, where all of `addr..addr + len` lies within and `want` is allowed.
    fn find(&mut self, pd: Pd, at: Remote, len: u32, want: Want) -> Result<(&mut Region, usize), Refused> {
        let region = self.slot(at.key).and_then(|(_, s)| s.region.as_mut()).ok_or(Refused)?;
        let allowed = match want {
            Want::Read => region.access.read,
            Want::Write => region.access.write,
        };
        let offset = at.addr.checked_sub(region.base).ok_or(Refused)?;
        let end = offset.checked_add(u64::from(len)).ok_or(Refused)?;
        if !allowed || !region.valid || region.pd != pd || end > region.memory.len() as u64 {
            return Err(Refused);
        }
        Ok((region, usize::try_from(offset).map_err(|_| Refused)?))
    }

    /// Whether a READ or WRITE of `len` bytes may be; of none it always may, and its key is not looked at. [IBA vol. 1, 9.7.4.1.3]
    pub(crate) fn check(&mut self, pd: Pd, at: Remote, len: u32, want: Want) -> Result<(), Refused> {
        if len == 0 {
            return Ok(());
        }
        let (region, _) = self.find(pd, at, len, want)?;
        // Memory that is shared cannot be written to, whatever its rights say.
        if want == Want::Write && region.memory.as_mut_slice().is_none() { Err(Refused) } else { Ok(()) }
    }

    /// Whether a READ may be. Gives its bytes where the memory is shared; what may change is read by [`Regions::copy`], packet by packet.
    pub(crate) fn read(&mut self, pd: Pd, at: Remote, len: u32) -> Result<Option<Bytes>, Refused> {
        if len == 0 {
            return Ok(Some(Bytes::new()));
        }
        let bounce = self.bounce;
        let (region, offset) = self.find(pd, at, len, Want::Read)?;
        if bounce {
            region.memory.touch(len as usize);
        }
        match region.memory.as_mut_slice() {
            Some(_) => Ok(None),
            None => region.memory.slice(offset, len as usize).map(Some).ok_or(Refused),
        }
    }

    /// The bytes of one packet of a READ.
    pub(crate) fn copy(&mut self, pd: Pd, at: Remote, len: u32, pool: &mut Pool) -> Result<Bytes, Refused> {
        let (region, offset) = self.find(pd, at, len, Want::Read)?;
        let bytes = region.memory.as_slice().get(offset..offset + len as usize).ok_or(Refused)?;
        let mut out = pool.take(bytes.len());
        out.extend_from_slice(bytes);
        Ok(out.freeze())
    }

    /// Puts the bytes of one packet of a WRITE where they belong.
    pub(crate) fn write(&mut self, pd: Pd, at: Remote, bytes: &[u8]) -> Result<(), Refused> {
        if bytes.is_empty() {
            return Ok(());
        }
        let len = u32::try_from(bytes.len()).map_err(|_| Refused)?;
        let bounce = self.bounce;
        let (region, offset) = self.find(pd, at, len, Want::Write)?;
        if bounce {
            region.memory.touch(bytes.len());
        }
        let room = region.memory.as_mut_slice().and_then(|m| m.get_mut(offset..offset + bytes.len())).ok_or(Refused)?;
        room.copy_from_slice(bytes);
        Ok(())
    }
}
