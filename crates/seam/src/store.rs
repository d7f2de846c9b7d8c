//! What a namespace asks of its storage.

use bytes::Bytes;

/// Size of a namespace's storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Logical blocks.
    pub blocks: u64,
    /// Bytes a logical block: a power of two from 512 on.
    pub block_size: u32,
}

/// One operation on a store. Offsets are in bytes from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreOp {
    /// Read `len` bytes from `offset`.
    Read {
        /// Bytes from the start.
        offset: u64,
        /// Bytes.
        len: usize,
    },
    /// Write `data` at `offset`.
    Write {
        /// Bytes from the start.
        offset: u64,
        /// What to write.
        data: Bytes,
    },
    /// Make everything written so far durable.
    Flush,
}

/// Why a store could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The range ends behind the last block.
    OutOfRange,
    /// The medium failed; the text is for a log.
    Medium(String),
}

impl core::fmt::Display for StoreError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::OutOfRange => f.write_str("range behind the last block"),
            Self::Medium(why) => write!(f, "medium: {why}"),
        }
    }
}

impl std::error::Error for StoreError {}

/// Storage behind a namespace: memory, a file, nothing, or what a user brings. The driver calls it, never a state machine.
pub trait Store: Send + Sync {
    /// Its size.
    fn geometry(&self) -> Geometry;

    /// Does `op`; a read gives its bytes, the rest nothing.
    fn execute(&self, op: StoreOp) -> Result<Bytes, StoreError>;
}
