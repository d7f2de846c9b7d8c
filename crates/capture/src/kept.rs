//! A capture as a whole, for those who need it so: tests, and what goes over it twice.

use std::io::Read;
use std::path::Path;

use bytes::Bytes;

use crate::exchange::{Chunk, Connection, Direction, Ends, Event, Exchange};
use crate::file::CaptureError;
use crate::follow::{Follow, Followed, Watcher};

/// A capture file, read and kept.
#[derive(Clone, Debug)]
pub struct Capture {
    kept: Kept,
    followed: Followed,
}

/// The [`Watcher`] that keeps everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    exchange: Exchange,
    notes: Vec<String>,
}

impl Capture {
    /// Reads a file, whatever its name: the format is told from the first bytes.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        Self::read(std::fs::File::open(path)?)
    }

    /// Reads a capture from a stream.
    pub fn read(reader: impl Read) -> Result<Self, CaptureError> {
        Self::follow(&Follow::new(), reader)
    }

    /// The same, read as `follow` says.
    pub fn follow(follow: &Follow, reader: impl Read) -> Result<Self, CaptureError> {
        let mut kept = Kept::default();
        let followed = follow.read(reader, &mut kept)?;
        Ok(Self { kept, followed })
    }

    /// The connections, in the order in which they were recognised.
    #[must_use]
    pub fn connections(&self) -> &[Connection] {
        &self.kept.exchange.connections
    }

    /// The same as an exchange.
    #[must_use]
    pub fn exchange(&self) -> &Exchange {
        &self.kept.exchange
    }

    /// The same, taken out.
    #[must_use]
    pub fn into_exchange(self) -> Exchange {
        self.kept.into_exchange()
    }

    /// Packets read.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.followed.frames
    }

    /// TCP connections that carry something else.
    #[must_use]
    pub fn other_connections(&self) -> usize {
        self.followed.others
    }

    /// What is odd about the file itself, such as an end in the middle of a record.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.kept.notes
    }
}

impl Kept {
    /// The connections, each with its events in order of time.
    pub(crate) fn into_exchange(self) -> Exchange {
        self.exchange
    }
}

impl Watcher for Kept {
    fn opened(&mut self, _conn: usize, ends: &Ends) {
        self.exchange.connections.push(Connection::new(ends));
    }

    fn event(&mut self, conn: usize, event: &Event) {
        if let Some(c) = self.exchange.connections.get_mut(conn) {
            c.events.push(event.clone());
        }
    }

    fn chunk(&mut self, conn: usize, dir: Direction, at_ns: u64, bytes: &[u8]) {
        if let Some(c) = self.exchange.connections.get_mut(conn) {
            c.chunks.push(Chunk { at_ns, dir, bytes: Bytes::copy_from_slice(bytes) });
        }
    }

    fn over(&mut self, conn: usize) {
        if let Some(c) = self.exchange.connections.get_mut(conn) {
            c.events.sort_by_key(|e| e.at_ns);
        }
    }

    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }
}
