//! Stores that need nothing but memory: [`MemoryStore`] and [`NullStore`]. What a namespace asks of its store is `seam::store`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use bytes::{BufMut, Bytes, BytesMut};
use nvmf_seam::store::{Geometry, Store, StoreError, StoreOp};

/// Bytes kept together; untouched chunks take no memory.
const CHUNK: usize = 64 * 1024;

/// A store in memory. Blocks that were never written read as zero and take no memory.
#[derive(Debug)]
pub struct MemoryStore {
    geometry: Geometry,
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    chunks: BTreeMap<u64, Box<[u8]>>,
    buffers: Buffers,
}

impl MemoryStore {
    /// An empty store of that size.
    pub fn new(geometry: Geometry) -> Self {
        Self { geometry, blocks: Mutex::default() }
    }
}

impl Blocks {
    fn read(&mut self, offset: u64, len: usize) -> Bytes {
        let out = self.buffers.with_room(len);
        for (_, index, start, n) in pieces(offset, len) {
            match self.chunks.get(&index) {
                Some(chunk) => out.extend_from_slice(&chunk[start..start + n]),
                None => out.put_bytes(0, n),
            }
        }
        debug_assert_eq!(out.len(), len);
        out.split().freeze()
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        for (at, index, start, n) in pieces(offset, data.len()) {
            let chunk = self.chunks.entry(index).or_insert_with(|| vec![0; CHUNK].into_boxed_slice());
            if let Some(from) = data.get(at..at + n) {
                chunk[start..start + n].copy_from_slice(from);
            }
        }
    }
}

impl Store for MemoryStore {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn execute(&self, op: StoreOp) -> Result<Bytes, StoreError> {
        check(self.geometry, &op)?;
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        match op {
            StoreOp::Read { offset, len } => Ok(blocks.read(offset, len)),
            StoreOp::Write { offset, data } => {
                blocks.write(offset, &data);
                Ok(Bytes::new())
            }
            StoreOp::Flush => Ok(Bytes::new()),
        }
    }
}

/// Memory that reads are lent from. A buffer is lent in parts until it is used up, and again once all its parts were given back, so
/// that a steady run of reads allocates nothing. Without a read it takes no memory.
#[derive(Debug, Default)]
struct Buffers {
    /// The one in use first, then by the time since they were used.
    ring: VecDeque<BytesMut>,
}

/// Bytes of one buffer.
const BUFFER: usize = 256 * 1024;
/// Most buffers kept; what is read while all are lent has memory of its own.
const BUFFERS: usize = 32;

impl Buffers {
    /// An empty buffer in which `len` bytes have room, for the caller to fill and split off.
    fn with_room(&mut self, len: usize) -> &mut BytesMut {
        let fits = |b: Option<&mut BytesMut>| b.is_some_and(|b| b.try_reclaim(len));
        if !fits(self.ring.front_mut()) {
            if fits(self.ring.back_mut()) {
                self.ring.rotate_right(1);
            } else {
                if self.ring.len() == BUFFERS {
                    self.ring.pop_back();
                }
                self.ring.push_front(BytesMut::with_capacity(BUFFER.max(len)));
            }
        }
        &mut self.ring[0]
    }
}

/// A store that forgets what is written and reads as zero: for measuring everything but storage.
#[derive(Debug)]
pub struct NullStore {
    geometry: Geometry,
    zeroes: Bytes,
}

impl NullStore {
    /// A store of that size.
    pub fn new(geometry: Geometry) -> Self {
        Self { geometry, zeroes: Bytes::from(vec![0; 1024 * 1024]) }
    }
}

impl Store for NullStore {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn execute(&self, op: StoreOp) -> Result<Bytes, StoreError> {
        check(self.geometry, &op)?;
        Ok(match op {
            StoreOp::Read { len, .. } if len <= self.zeroes.len() => self.zeroes.slice(..len),
            StoreOp::Read { len, .. } => Bytes::from(vec![0; len]),
            StoreOp::Write { .. } | StoreOp::Flush => Bytes::new(),
        })
    }
}

/// Refuses what lies behind the end.
pub fn check(geometry: Geometry, op: &StoreOp) -> Result<(), StoreError> {
    let size = geometry.blocks.saturating_mul(u64::from(geometry.block_size));
    let (offset, len) = match op {
        StoreOp::Read { offset, len } => (*offset, *len),
        StoreOp::Write { offset, data } => (*offset, data.len()),
        StoreOp::Flush => return Ok(()),
    };
    match offset.checked_add(len as u64) {
        Some(end) if end <= size => Ok(()),
        _ => Err(StoreError::OutOfRange),
    }
}

/// Cuts a range into (place in the range, chunk, place in the chunk, length).
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (usize, u64, usize, usize)> {
    let mut at = 0;
    core::iter::from_fn(move || {
        if at >= len {
            return None;
        }
        let place = offset + at as u64;
        let start = (place % CHUNK as u64) as usize;
        let n = (CHUNK - start).min(len - at);
        let piece = (at, place / CHUNK as u64, start, n);
        at += n;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_the_rest_is_zero() {
        let store = MemoryStore::new(Geometry { blocks: 1024, block_size: 512 });
        let data = Bytes::from((0..CHUNK + 7).map(|i| (i % 251) as u8 + 1).collect::<Vec<_>>());
        store.execute(StoreOp::Write { offset: CHUNK as u64 - 3, data: data.clone() }).unwrap();
        let read = store.execute(StoreOp::Read { offset: CHUNK as u64 - 5, len: data.len() + 4 }).unwrap();
        assert_eq!(&read[..2], &[0, 0]);
        assert_eq!(&read[2..data.len() + 2], &data[..]);
        assert_eq!(&read[data.len() + 2..], &[0, 0]);
    }

    #[test]
    fn what_was_read_stays_while_later_reads_and_writes_come() {
        let store = MemoryStore::new(Geometry { blocks: 4096, block_size: 512 });
        let len = BUFFER / 2;
        let (mut lent, mut rounds) = (Vec::new(), 0u8);
        while lent.len() < 3 * BUFFERS {
            rounds += 1;
            store.execute(StoreOp::Write { offset: 0, data: Bytes::from(vec![rounds; len]) }).unwrap();
            lent.push(store.execute(StoreOp::Read { offset: 0, len }).unwrap());
        }
        for (data, value) in lent.iter().zip(1..) {
            assert!(data.iter().all(|b| *b == value));
        }
        assert_eq!(store.blocks.lock().unwrap().buffers.ring.len(), BUFFERS);
    }

    #[test]
    fn nothing_reaches_behind_the_end() {
        let store = MemoryStore::new(Geometry { blocks: 8, block_size: 512 });
        assert_eq!(store.execute(StoreOp::Read { offset: 8 * 512 - 1, len: 2 }), Err(StoreError::OutOfRange));
        assert_eq!(store.execute(StoreOp::Read { offset: u64::MAX, len: 2 }), Err(StoreError::OutOfRange));
    }
}
