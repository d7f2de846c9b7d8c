//! A namespace in a file or on a block device.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use bytes::{Bytes, BytesMut};
use nvmf_engine::store::check;
use nvmf_seam::store::{Abilities, Geometry, Store, StoreError, StoreOp};

/// A file or block device as it stands: byte n of the namespace is byte n of the file. A write is on the medium when it ends, since
/// the controller reports no volatile write cache.
#[derive(Debug)]
pub struct FileStore {
    file: File,
    geometry: Geometry,
    /// Held alone by a Compare that may write, and shared by everything else that touches blocks.
    gate: RwLock<()>,
}

/// Bytes of a long operation that are read or written at once.
const PIECE: usize = 1024 * 1024;

impl FileStore {
    /// Opens `path` for reading and writing. What is left behind the last whole block is not used.
    pub fn open(path: &Path, block_size: u32) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        // A block device has no length of its own, but an end to seek to.
        let bytes = file.seek(SeekFrom::End(0))?;
        let blocks = bytes / u64::from(block_size.max(1));
        if blocks == 0 {
            let why = format!("{} has {bytes} bytes, less than one block of {block_size}", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(Self { file, geometry: Geometry { blocks, block_size }, gate: RwLock::new(()) })
    }
}

impl FileStore {
    fn read(&self, offset: u64, len: usize) -> io::Result<Bytes> {
        let mut data = BytesMut::zeroed(len);
        self.file.read_exact_at(&mut data, offset)?;
        Ok(data.freeze())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)?;
        self.file.sync_data()
    }

    fn zero(&self, offset: u64, len: u64) -> io::Result<()> {
        let zeroes = vec![0; PIECE.min(usize::try_from(len).unwrap_or(PIECE))];
        for (at, n) in pieces(offset, len) {
            self.file.write_all_at(&zeroes[..n], at)?;
        }
        self.file.sync_data()
    }

    fn verify(&self, offset: u64, len: u64) -> io::Result<()> {
        pieces(offset, len).try_for_each(|(at, n)| self.read(at, n).map(drop))
    }

    fn compare(&self, offset: u64, expected: &[u8], then: &[u8]) -> Result<(), StoreError> {
        if self.read(offset, expected.len()).map_err(failed)? != expected {
            return Err(StoreError::Different);
        }
        if then.is_empty() { Ok(()) } else { self.write(offset, then).map_err(|e| StoreError::NotWritten(e.to_string())) }
    }
}

fn failed(e: io::Error) -> StoreError {
    StoreError::Medium(e.to_string())
}

/// Cuts a range into (offset, length).
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize)> {
    let end = offset + len;
    (offset..end).step_by(PIECE).map(move |at| (at, (end - at).min(PIECE as u64) as usize))
}

impl Store for FileStore {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn abilities(&self) -> Abilities {
        // A file has no place for what is to be unreadable.
        Abilities { spoil: false, ..Abilities::ALL }
    }

    fn execute(&self, op: StoreOp) -> Result<Bytes, StoreError> {
        check(self.geometry, &op)?;
        if let StoreOp::Compare { offset, expected, then } = op {
            let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
            return self.compare(offset, &expected, &then).map(|()| Bytes::new());
        }
        let _shared = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let done = match op {
            StoreOp::Read { offset, len } => return self.read(offset, len).map_err(failed),
            StoreOp::Write { offset, data } => self.write(offset, &data),
            StoreOp::Flush => self.file.sync_data(),
            StoreOp::Zero { offset, len } => self.zero(offset, len),
            StoreOp::Verify { offset, len } => self.verify(offset, len),
            // Holes are the file system's affair.
            StoreOp::Deallocate { .. } => Ok(()),
            StoreOp::Compare { .. } | StoreOp::Spoil { .. } => return Err(StoreError::Unsupported),
        };
        done.map(|()| Bytes::new()).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_what_was_written_and_its_length() {
        let path = std::env::temp_dir().join(format!("nvmfspec-store-{}", std::process::id()));
        std::fs::write(&path, vec![7; 3 * 512 + 100]).unwrap();
        let store = FileStore::open(&path, 512).unwrap();
        assert_eq!(store.geometry(), Geometry { blocks: 3, block_size: 512 });
        store.execute(StoreOp::Write { offset: 512, data: Bytes::from(vec![9; 512]) }).unwrap();
        assert_eq!(store.execute(StoreOp::Read { offset: 511, len: 2 }).unwrap(), Bytes::from_static(&[7, 9]));
        assert_eq!(store.execute(StoreOp::Write { offset: 3 * 512, data: Bytes::from_static(&[1]) }), Err(StoreError::OutOfRange));
        let compare = |expected: u8, then: u8| {
            let blocks = |byte| Bytes::from(vec![byte; 512]);
            store.execute(StoreOp::Compare { offset: 512, expected: blocks(expected), then: blocks(then) })
        };
        assert_eq!((compare(9, 8), compare(9, 7)), (Ok(Bytes::new()), Err(StoreError::Different)));
        store.execute(StoreOp::Verify { offset: 0, len: 3 * 512 }).unwrap();
        store.execute(StoreOp::Zero { offset: 512, len: 512 }).unwrap();
        let around = store.execute(StoreOp::Read { offset: 511, len: 514 }).unwrap();
        assert_eq!((around[0], &around[1..513], around[513]), (7, &[0; 512][..], 7));
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 3 * 512 + 100);
        std::fs::remove_file(path).unwrap();
    }
}
