//! Registered buffers for what is received, read, and copied on its way out.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use nvmf_seam::rdma::DeviceError;
use rdma_sys::ibv_access_flags;

use crate::sys::{Domain, Region};

const PAGE: usize = 4096;
/// Smallest and largest class of buffers that are kept, as powers of two: 256 bytes to 4 MiB.
const CLASSES: std::ops::RangeInclusive<u32> = 8..=22;
/// Bytes registered at a time, for classes smaller than that.
const CHUNK: usize = 1 << 20;

/// Buffers of one protection domain.
pub struct Pool {
    domain: Arc<Domain>,
    state: Mutex<State>,
    /// Most bytes registered.
    limit: usize,
}

#[derive(Default)]
struct State {
    /// Free places of each class.
    free: BTreeMap<u32, Vec<(Arc<Chunk>, usize)>>,
    /// All chunks by address.
    chunks: BTreeMap<usize, Arc<Chunk>>,
    bytes: usize,
}

/// Memory that was registered as a whole.
struct Chunk {
    at: *mut u8,
    layout: Layout,
    /// Dropped before the memory is.
    region: Option<Region>,
}

// SAFETY: the memory is handed out in places, each to one `Buffer` at a time.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    fn new(domain: &Arc<Domain>, bytes: usize) -> Result<Self, DeviceError> {
        let layout = Layout::from_size_align(bytes, PAGE).map_err(|e| DeviceError::Other(e.to_string()))?;
        // SAFETY: the layout is not empty: the smallest class is 256 bytes.
        let at = unsafe { alloc_zeroed(layout) };
        if at.is_null() {
            return Err(DeviceError::Full("memory for buffers"));
        }
        let mut chunk = Self { at, layout, region: None };
        // SAFETY: the memory lives until the chunk is dropped, and the region is dropped before it.
        chunk.region = Some(unsafe { Region::new(domain, at, bytes, ibv_access_flags::IBV_ACCESS_LOCAL_WRITE) }?);
        Ok(chunk)
    }

    fn lkey(&self) -> u32 {
        self.region.as_ref().map_or(0, Region::lkey)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.region = None;
        // SAFETY: allocated with this layout; no buffer of it is left, since each holds the chunk.
        unsafe { dealloc(self.at, self.layout) };
    }
}

impl Pool {
    pub fn new(domain: Arc<Domain>, limit: usize) -> Arc<Self> {
        Arc::new(Self { domain, state: Mutex::default(), limit })
    }

    /// A buffer of `len` bytes; what is in it is left from before.
    pub fn take(self: &Arc<Self>, len: usize) -> Result<Buffer, DeviceError> {
        let class = len.max(1).next_power_of_two().trailing_zeros().max(*CLASSES.start());
        if class > *CLASSES.end() {
            return Err(DeviceError::Full("buffers of that length"));
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.free.get(&class).is_none_or(Vec::is_empty) {
            self.grow(&mut state, class)?;
        }
        let (chunk, at) = state.free.get_mut(&class).and_then(Vec::pop).ok_or(DeviceError::Full("buffers"))?;
        Ok(Buffer { pool: self.clone(), chunk, at, len, class })
    }

    fn grow(&self, state: &mut State, class: u32) -> Result<(), DeviceError> {
        let size = 1usize << class;
        let bytes = size.max(CHUNK);
        if state.bytes + bytes > self.limit {
            return Err(DeviceError::Full("registered memory (Settings::memory)"));
        }
        let chunk = Arc::new(Chunk::new(&self.domain, bytes)?);
        state.bytes += bytes;
        state.chunks.insert(chunk.at as usize, chunk.clone());
        state.free.entry(class).or_default().extend((0..bytes / size).map(|i| (chunk.clone(), i * size)));
        Ok(())
    }

    /// The local key of bytes that lie in a buffer of the pool.
    pub fn lkey_of(&self, bytes: &[u8]) -> Option<u32> {
        let at = bytes.as_ptr() as usize;
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, chunk) = state.chunks.range(..=at).next_back()?;
        (at + bytes.len() <= start + chunk.layout.size()).then(|| chunk.lkey())
    }
}

/// A registered buffer. It goes back to its pool when dropped.
pub struct Buffer {
    pool: Arc<Pool>,
    chunk: Arc<Chunk>,
    at: usize,
    len: usize,
    class: u32,
}

impl Buffer {
    pub fn lkey(&self) -> u32 {
        self.chunk.lkey()
    }

    pub fn address(&self) -> u64 {
        self.chunk.at as u64 + self.at as u64
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Only so many bytes count from now on.
    pub fn shorten(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Copies `bytes` to the place `at`, as far as they fit.
    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        // SAFETY: the place of this buffer in the chunk, which no other buffer has; no NIC writes to it while it is not posted.
        let all = unsafe { std::slice::from_raw_parts_mut(self.chunk.at.add(self.at), self.len) };
        if let Some(to) = all.get_mut(at..at + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: as in `put`; a buffer is given out when the NIC is done with it.
        unsafe { std::slice::from_raw_parts(self.chunk.at.add(self.at), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.free.entry(self.class).or_default().push((self.chunk.clone(), self.at));
    }
}
