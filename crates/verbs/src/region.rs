//! Memory that the other side may reach: a memory region, and where the device has them a window with a key for each use.

use std::sync::Arc;

use nvmf_seam::rdma::{Access, DeviceError, Memory};
use rdma_sys::ibv_access_flags;

use crate::sys::{Domain, Region, Window};

/// Registered memory. Fields are dropped in order: a bound window keeps its region, and the region its memory.
pub struct Registered {
    pub window: Option<Window>,
    region: Region,
    memory: Memory,
    /// The other side invalidated the key.
    pub invalidated: bool,
}

impl Registered {
    /// Registers `memory`, for a window where one is given.
    pub fn new(
        domain: &Arc<Domain>,
        memory: Memory,
        access: Access,
        window: Option<Window>,
    ) -> Result<Self, (DeviceError, Memory)> {
        let mut flags = ibv_access_flags(0);
        if access.write {
            flags |= ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
        }
        flags |= if window.is_some() { ibv_access_flags::IBV_ACCESS_MW_BIND } else { remote(access) };
        let mut memory = memory;
        let at = match memory.as_mut_slice() {
            Some(bytes) => bytes.as_ptr(),
            None if access.write => return Err((DeviceError::Other("shared memory cannot be written to".into()), memory)),
            None => memory.as_slice().as_ptr(),
        };
        // SAFETY: the buffer of `Memory` is on the heap and does not move; it is kept beside the region, which is dropped first. It is
        // not lent to anybody meanwhile.
        match unsafe { Region::new(domain, at, memory.len(), flags) } {
            Ok(region) => Ok(Self { window, region, memory, invalidated: false }),
            Err(e) => Err((e, memory)),
        }
    }

    /// The key to be bound next: that of the window with a new tag, or the region's own.
    pub fn next_key(&mut self) -> u32 {
        match &mut self.window {
            Some(w) => w.next_key(),
            None => self.region.rkey(),
        }
    }

    pub fn region(&self) -> &Region {
        &self.region
    }

    pub fn address(&self) -> u64 {
        self.memory.as_slice().as_ptr() as u64
    }

    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Takes it out of the device. A window whose key is invalid (`unbound`) can be used again.
    pub fn dissolve(self, unbound: bool) -> (Memory, Option<Window>) {
        let Self { window, region, memory, .. } = self;
        let window = window.filter(|_| unbound);
        drop(region);
        (memory, window)
    }
}

/// Access of the other side.
pub fn remote(access: Access) -> ibv_access_flags {
    let mut flags = ibv_access_flags(0);
    if access.read {
        flags |= ibv_access_flags::IBV_ACCESS_REMOTE_READ;
    }
    if access.write {
        flags |= ibv_access_flags::IBV_ACCESS_REMOTE_WRITE;
    }
    flags
}
