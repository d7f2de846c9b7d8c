//! Stores that need nothing but memory: [`MemoryStore`] and [`NullStore`]. What a namespace asks of its store is `seam::store`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use bytes::{BufMut, Bytes, BytesMut};
use nvmf_seam::store::{Abilities, Geometry, Store, StoreError, StoreOp};

/// Bytes kept together; untouched chunks take no memory.
const CHUNK: usize = 64 * 1024;
/// Bytes that one bit of [`Blocks::spoiled`] stands for: the smallest block there is.
const SMALLEST: usize = CHUNK / u128::BITS as usize;

/// A store in memory, which does everything that a store may do. Blocks that were never written read as zero and take no memory.
#[derive(Debug)]
pub struct MemoryStore {
    geometry: Geometry,
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    chunks: BTreeMap<u64, Box<[u8]>>,
    /// Chunks that cannot be read as a whole, a bit for each [`SMALLEST`] bytes.
    spoiled: BTreeMap<u64, u128>,
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
        for p in pieces(offset, len as u64) {
            match self.chunks.get(&p.chunk) {
                Some(chunk) => out.extend_from_slice(&chunk[p.within()]),
                None => out.put_bytes(0, p.len),
            }
        }
        debug_assert_eq!(out.len(), len);
        out.split().freeze()
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        for p in pieces(offset, data.len() as u64) {
            let chunk = self.chunks.entry(p.chunk).or_insert_with(|| vec![0; CHUNK].into_boxed_slice());
            if let Some(from) = data.get(p.at..p.at + p.len) {
                chunk[p.within()].copy_from_slice(from);
            }
        }
        self.mend(offset, data.len() as u64);
    }

    fn zero(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        let whole = offset.div_ceil(CHUNK as u64)..end / CHUNK as u64;
        if whole.start < whole.end {
            let mut rest = self.chunks.split_off(&whole.start);
            self.chunks.append(&mut rest.split_off(&whole.end));
        }
        // What is left of the range has whole chunks only where there is nothing.
        for p in ends(offset, len) {
            if let Some(chunk) = self.chunks.get_mut(&p.chunk) {
                chunk[p.within()].fill(0);
            }
        }
        self.mend(offset, len);
    }

    fn is(&self, offset: u64, expected: &[u8]) -> bool {
        pieces(offset, expected.len() as u64).all(|p| {
            let expected = expected.get(p.at..p.at + p.len).unwrap_or(&[]);
            match self.chunks.get(&p.chunk) {
                Some(chunk) => chunk[p.within()] == *expected,
                None => expected.iter().all(|b| *b == 0),
            }
        })
    }

    fn spoil(&mut self, offset: u64, len: u64) {
        for p in pieces(offset, len) {
            *self.spoiled.entry(p.chunk).or_default() |= p.bits();
        }
    }

    /// Ends what [`StoreOp::Spoil`] did.
    fn mend(&mut self, offset: u64, len: u64) {
        let range = offset / CHUNK as u64..=(offset + len) / CHUNK as u64;
        if self.spoiled.range(range).next().is_none() {
            return;
        }
        for p in pieces(offset, len) {
            if let Some(bits) = self.spoiled.get_mut(&p.chunk) {
                *bits &= !p.bits();
                if *bits == 0 {
                    self.spoiled.remove(&p.chunk);
                }
            }
        }
    }

    fn readable(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        let spoiled = |p: Piece| self.spoiled.get(&p.chunk).is_some_and(|bits| bits & p.bits() != 0);
        if !self.spoiled.is_empty() && pieces(offset, len).any(spoiled) { Err(StoreError::Spoiled) } else { Ok(()) }
    }
}

impl Store for MemoryStore {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn abilities(&self) -> Abilities {
        Abilities::ALL
    }

    fn execute(&self, op: StoreOp) -> Result<Bytes, StoreError> {
        check(self.geometry, &op)?;
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        match op {
            StoreOp::Read { offset, len } => {
                blocks.readable(offset, len as u64)?;
                return Ok(blocks.read(offset, len));
            }
            StoreOp::Write { offset, data } => blocks.write(offset, &data),
            StoreOp::Flush => {}
            StoreOp::Zero { offset, len } | StoreOp::Deallocate { offset, len } => blocks.zero(offset, len),
            StoreOp::Verify { offset, len } => blocks.readable(offset, len)?,
            StoreOp::Compare { offset, expected, then } => {
                blocks.readable(offset, expected.len() as u64)?;
                if !blocks.is(offset, &expected) {
                    return Err(StoreError::Different);
                }
                if !then.is_empty() {
                    blocks.write(offset, &then);
                }
            }
            StoreOp::Spoil { offset, len } => blocks.spoil(offset, len),
        }
        Ok(Bytes::new())
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

    fn abilities(&self) -> Abilities {
        // Nothing stays unreadable here.
        Abilities { spoil: false, ..Abilities::ALL }
    }

    fn execute(&self, op: StoreOp) -> Result<Bytes, StoreError> {
        check(self.geometry, &op)?;
        match op {
            StoreOp::Read { len, .. } if len <= self.zeroes.len() => Ok(self.zeroes.slice(..len)),
            StoreOp::Read { len, .. } => Ok(Bytes::from(vec![0; len])),
            StoreOp::Compare { expected, .. } if expected.iter().any(|b| *b != 0) => Err(StoreError::Different),
            StoreOp::Spoil { .. } => Err(StoreError::Unsupported),
            _ => Ok(Bytes::new()),
        }
    }
}

/// Refuses what lies behind the end, and a [`StoreOp::Compare`] of two lengths.
pub fn check(geometry: Geometry, op: &StoreOp) -> Result<(), StoreError> {
    if matches!(op, StoreOp::Compare { expected, then, .. } if !then.is_empty() && then.len() != expected.len()) {
        return Err(StoreError::Unsupported);
    }
    let size = geometry.blocks.saturating_mul(u64::from(geometry.block_size));
    match op.range() {
        Some((offset, len)) if offset.checked_add(len).is_none_or(|end| end > size) => Err(StoreError::OutOfRange),
        _ => Ok(()),
    }
}

/// Part of a range that lies in one chunk.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Place in the range.
    at: usize,
    chunk: u64,
    /// Place in the chunk.
    start: usize,
    len: usize,
}

impl Piece {
    fn within(&self) -> core::ops::Range<usize> {
        self.start..self.start + self.len
    }

    /// The bits that it touches.
    fn bits(&self) -> u128 {
        let (first, end) = (self.start / SMALLEST, (self.start + self.len).div_ceil(SMALLEST));
        (u128::MAX >> (u128::BITS as usize - (end - first).clamp(1, 128))) << first
    }
}

/// Cuts a range by chunks.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    core::iter::from_fn(move || {
        if at >= len {
            return None;
        }
        let place = offset + at;
        let start = (place % CHUNK as u64) as usize;
        let n = ((CHUNK - start) as u64).min(len - at);
        let piece = Piece { at: at as usize, chunk: place / CHUNK as u64, start, len: n as usize };
        at += n;
        Some(piece)
    })
}

/// The first and the last piece of a range.
fn ends(offset: u64, len: u64) -> impl Iterator<Item = Piece> {
    let last = (offset + len) / CHUNK as u64 * CHUNK as u64;
    let last = last.max(offset);
    pieces(offset, len).take(1).chain(pieces(last, offset + len - last))
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

    fn memory() -> MemoryStore {
        MemoryStore::new(Geometry { blocks: 1024, block_size: 512 })
    }

    fn write(store: &MemoryStore, offset: u64, len: usize, byte: u8) {
        store.execute(StoreOp::Write { offset, data: Bytes::from(vec![byte; len]) }).unwrap();
    }

    fn read(store: &MemoryStore, offset: u64, len: usize) -> Result<Bytes, StoreError> {
        store.execute(StoreOp::Read { offset, len })
    }

    #[test]
    fn a_zeroed_range_reads_as_zero_and_takes_no_memory() {
        let chunk = CHUNK as u64;
        let most = chunk * 8;
        for (offset, len) in
            [(512, 1024), (0, chunk), (chunk - 512, 1024), (512, chunk * 3), (chunk, chunk * 2), (0, most), (7 * chunk, chunk)]
        {
            let store = memory();
            write(&store, 0, most as usize, 7);
            store.execute(StoreOp::Zero { offset, len }).unwrap();
            let all = read(&store, 0, most as usize).unwrap();
            for (at, b) in (0..).zip(all.iter()) {
                assert_eq!(*b == 0, (offset..offset + len).contains(&at), "byte {at} of {offset}, {len}");
            }
            let whole = (offset.div_ceil(chunk)..(offset + len) / chunk).count();
            assert_eq!(store.blocks.lock().unwrap().chunks.len(), 8 - whole);
        }
    }

    #[test]
    fn a_spoiled_range_is_read_again_once_it_was_written_and_not_before() {
        let store = memory();
        let offset = CHUNK as u64 - 1024;
        store.execute(StoreOp::Spoil { offset, len: 2048 }).unwrap();
        assert_eq!(read(&store, offset - 512, 512), Ok(Bytes::from(vec![0; 512])));
        assert_eq!(read(&store, offset + 2048, 512), Ok(Bytes::from(vec![0; 512])));
        for at in [0, 512, 1024, 1536] {
            assert_eq!(read(&store, offset + at, 512), Err(StoreError::Spoiled));
            let expected = Bytes::from(vec![0; 512]);
            let compare = StoreOp::Compare { offset: offset + at, expected: expected.clone(), then: expected };
            assert_eq!(store.execute(compare), Err(StoreError::Spoiled));
        }
        assert_eq!(store.execute(StoreOp::Verify { offset: 0, len: 512 * 1024 }), Err(StoreError::Spoiled));
        write(&store, offset, 512, 1);
        assert_eq!(read(&store, offset, 512), Ok(Bytes::from(vec![1; 512])));
        assert_eq!(read(&store, offset, 1024), Err(StoreError::Spoiled));
        store.execute(StoreOp::Zero { offset: offset + 512, len: 1536 }).unwrap();
        store.execute(StoreOp::Verify { offset: 0, len: 512 * 1024 }).unwrap();
        assert!(store.blocks.lock().unwrap().spoiled.is_empty());
    }

    #[test]
    fn compare_writes_where_it_finds_what_was_expected() {
        let store = memory();
        let blocks = |byte| Bytes::from(vec![byte; 1024]);
        let compare = |expected, then| store.execute(StoreOp::Compare { offset: CHUNK as u64 - 512, expected, then });
        assert_eq!(compare(blocks(0), blocks(3)), Ok(Bytes::new()));
        assert_eq!(compare(blocks(0), blocks(4)), Err(StoreError::Different));
        assert_eq!(compare(blocks(3), Bytes::new()), Ok(Bytes::new()));
        assert_eq!(compare(blocks(3), Bytes::from_static(&[1])), Err(StoreError::Unsupported));
        assert_eq!(read(&store, CHUNK as u64 - 512, 1024), Ok(blocks(3)));
    }

    #[test]
    fn nothing_reaches_behind_the_end() {
        let store = MemoryStore::new(Geometry { blocks: 8, block_size: 512 });
        assert_eq!(store.execute(StoreOp::Read { offset: 8 * 512 - 1, len: 2 }), Err(StoreError::OutOfRange));
        assert_eq!(store.execute(StoreOp::Read { offset: u64::MAX, len: 2 }), Err(StoreError::OutOfRange));
    }
}
