//! A capture read once, from its first frame to its last, for anyone who wants to see it go by.
//!
//! [`Follow`] says how, a [`Watcher`] sees it: connections as they are recognised, then their events in the order of the capture.
//! What prints, judges, counts or draws is a watcher and keeps what it needs itself, so that a capture of any length, or one that
//! is still being written, needs little memory. [`Capture`](crate::Capture) is the watcher that keeps everything.

use std::io::Read;

use crate::exchange::{Ends, Event};
use crate::file::{Capture, CaptureError};

/// Sees a capture go by.
pub trait Watcher {
    /// Connection `conn` was recognised. Numbers start from 0 and are not given again.
    fn opened(&mut self, conn: usize, ends: &Ends) {
        let _ = (conn, ends);
    }

    /// The next event of connection `conn`, which was opened before.
    fn event(&mut self, conn: usize, event: &Event);

    /// No more events of connection `conn` will come: what is kept of it can go.
    fn over(&mut self, conn: usize) {
        let _ = conn;
    }

    /// Something odd about the file itself, such as an end in the middle of a record, with the offset.
    fn note(&mut self, note: &str) {
        let _ = note;
    }
}

/// How a capture is read.
#[derive(Clone, Debug, Default)]
pub struct Follow {}

/// What a capture held beside the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Frames read.
    pub frames: u64,
    /// TCP connections that carry something else.
    pub others: usize,
}

impl Follow {
    /// Recognises connections by themselves.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a pcap or pcapng stream, compressed or not, to its end.
    pub fn read(&self, reader: impl Read, watcher: &mut dyn Watcher) -> Result<Followed, CaptureError> {
        let capture = Capture::read(reader)?;
        for (i, c) in capture.connections().iter().enumerate() {
            let ends = Ends { client: c.client, server: c.server, opened_ns: c.opened_ns, transport: c.transport };
            watcher.opened(i, &ends);
        }
        for (conn, event) in capture.exchange().events() {
            watcher.event(conn, event);
        }
        for note in capture.notes() {
            watcher.note(note);
        }
        Ok(Followed { frames: capture.packets(), others: capture.other_connections() })
    }
}
