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
    /// Make a range read as zeroes.
    Zero {
        /// Bytes from the start.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Give back what a range takes, where that can be: it reads as zeroes then. Otherwise it stays as it is.
    Deallocate {
        /// Bytes from the start.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Find out whether a range can be read.
    Verify {
        /// Bytes from the start.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Compare a range with `expected`. Where they are the same and `then` is not empty, write that before anything else happens to the
    /// range.
    Compare {
        /// Bytes from the start.
        offset: u64,
        /// What should be there.
        expected: Bytes,
        /// What to write there: as long as `expected`, or nothing.
        then: Bytes,
    },
    /// Make a range unreadable until it is written, by [`StoreOp::Write`], [`StoreOp::Zero`] or a [`StoreOp::Compare`] that writes.
    Spoil {
        /// Bytes from the start.
        offset: u64,
        /// Bytes.
        len: u64,
    },
}

impl StoreOp {
    /// What it touches: bytes from the start, and how many. `None` where it is about the whole store.
    pub fn range(&self) -> Option<(u64, u64)> {
        match self {
            Self::Read { offset, len } => Some((*offset, *len as u64)),
            Self::Write { offset, data } => Some((*offset, data.len() as u64)),
            Self::Compare { offset, expected, .. } => Some((*offset, expected.len() as u64)),
            Self::Zero { offset, len }
            | Self::Deallocate { offset, len }
            | Self::Verify { offset, len }
            | Self::Spoil { offset, len } => Some((*offset, *len)),
            Self::Flush => None,
        }
    }
}

/// What a store does beside Read, Write and Flush. A controller offers a command where all stores of its subsystem can do it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// [`StoreOp::Zero`].
    pub zero: bool,
    /// [`StoreOp::Deallocate`].
    pub deallocate: bool,
    /// [`StoreOp::Verify`].
    pub verify: bool,
    /// [`StoreOp::Compare`].
    pub compare: bool,
    /// [`StoreOp::Spoil`].
    pub spoil: bool,
}

impl Abilities {
    /// Every one.
    pub const ALL: Self = Self { zero: true, deallocate: true, verify: true, compare: true, spoil: true };

    /// What both have.
    pub fn and(self, other: Self) -> Self {
        Self {
            zero: self.zero && other.zero,
            deallocate: self.deallocate && other.deallocate,
            verify: self.verify && other.verify,
            compare: self.compare && other.compare,
            spoil: self.spoil && other.spoil,
        }
    }
}

/// Why a store could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The range ends behind the last block.
    OutOfRange,
    /// The medium failed; the text is for a log.
    Medium(String),
    /// [`StoreOp::Compare`] found the same and could not write; the text is for a log.
    NotWritten(String),
    /// [`StoreOp::Compare`] found something else.
    Different,
    /// The range, or part of it, was made unreadable by [`StoreOp::Spoil`].
    Spoiled,
    /// The store does no such thing.
    Unsupported,
}

impl core::fmt::Display for StoreError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::OutOfRange => f.write_str("range behind the last block"),
            Self::Medium(why) => write!(f, "medium: {why}"),
            Self::NotWritten(why) => write!(f, "compared, but not written: {why}"),
            Self::Different => f.write_str("not what was expected"),
            Self::Spoiled => f.write_str("made unreadable"),
            Self::Unsupported => f.write_str("not supported"),
        }
    }
}

impl std::error::Error for StoreError {}

/// Storage behind a namespace: memory, a file, nothing, or what a user brings. The driver calls it, never a state machine.
pub trait Store: Send + Sync {
    /// Its size.
    fn geometry(&self) -> Geometry;

    /// What it can do beside Read, Write and Flush; always the same.
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    /// Does `op`; a read gives its bytes, the rest nothing. What it cannot do is [`StoreError::Unsupported`].
    fn execute(&self, op: StoreOp) -> Result<Bytes, StoreError>;
}
