//! A namespace in a file or on a block device.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use nvmf_engine::store::check;
use nvmf_seam::store::{Geometry, Store, StoreError, StoreOp};

/// A file or block device as it stands: byte n of the namespace is byte n of the file. A write is on the medium when it ends, since
/// the controller reports no volatile write cache.
#[derive(Debug)]
pub struct FileStore {
    file: File,
    geometry: Geometry,
}

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
        Ok(Self { file, geometry: Geometry { blocks, block_size } })
    }
}

impl Store for FileStore {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn execute(&self, op: StoreOp) -> Result<Bytes, StoreError> {
        check(self.geometry, &op)?;
        let done = match op {
            StoreOp::Read { offset, len } => {
                let mut data = BytesMut::zeroed(len);
                self.file.read_exact_at(&mut data, offset).map(|()| data.freeze())
            }
            StoreOp::Write { offset, data } => {
                self.file.write_all_at(&data, offset).and_then(|()| self.file.sync_data()).map(|()| Bytes::new())
            }
            StoreOp::Flush => self.file.sync_data().map(|()| Bytes::new()),
        };
        done.map_err(|e| StoreError::Medium(e.to_string()))
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
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 3 * 512 + 100);
        std::fs::remove_file(path).unwrap();
    }
}
