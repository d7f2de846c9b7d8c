//! A capture read once, from its first frame to its last, for anyone who wants to see it go by.
//!
//! [`Follow`] says how, a [`Watcher`] sees it: connections as they are recognised, then their events in the order of the capture.
//! What prints, judges, counts or draws is a watcher and keeps what it needs itself, so that a capture of any length, or one that
//! is still being written, needs little memory. [`Capture`](crate::Capture) is the watcher that keeps everything.

use std::io::Read;

use nvmf_wire::tcp::{DISCOVERY_PORT, IO_PORT};

use crate::exchange::{Direction, Ends, Event};
use crate::file::{self, CaptureError, Frame, Frames};
use crate::packet::{self, Carried};
use crate::roce::Roce;
use crate::tcp::Reassembly;
use crate::tls::KeyLog;

/// Ports on which a connection is taken for NVMe/TCP whatever it carries.
pub const PORTS: [u16; 2] = [IO_PORT, DISCOVERY_PORT];

/// Sees a capture go by.
pub trait Watcher {
    /// Connection `conn` was recognised. Numbers start from 0 and are not given again.
    fn opened(&mut self, conn: usize, ends: &Ends) {
        let _ = (conn, ends);
    }

    /// The next event of connection `conn`, which was opened before. Within one direction, times never go back.
    fn event(&mut self, conn: usize, event: &Event);

    /// A piece of a byte stream as it came, in the stream's order; the events that it completes follow.
    fn chunk(&mut self, conn: usize, dir: Direction, at_ns: u64, bytes: &[u8]) {
        let _ = (conn, dir, at_ns, bytes);
    }

    /// `len` bytes of a stream were sent again.
    fn repeated(&mut self, conn: usize, dir: Direction, at_ns: u64, len: usize) {
        let _ = (conn, dir, at_ns, len);
    }

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
#[derive(Clone, Debug)]
pub struct Follow {
    ports: Vec<u16>,
    keys: KeyLog,
}

impl Default for Follow {
    fn default() -> Self {
        Self { ports: PORTS.to_vec(), keys: KeyLog::default() }
    }
}

/// What a capture held beside the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Frames read.
    pub frames: u64,
    /// TCP connections that carry something else.
    pub others: usize,
    /// Queue pairs of RoCEv2 that carry something else, or of which too little was seen to tell.
    pub other_queue_pairs: usize,
}

impl Follow {
    /// Recognises connections by what they carry, and by the ports 4420 and 8009.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes every TCP connection to or from `port` for NVMe/TCP, whatever it carries.
    #[must_use]
    pub fn decode_as(mut self, port: u16) -> Self {
        self.ports.push(port);
        self
    }

    /// Opens TLS connections with these secrets, beside those that a pcapng file has itself.
    #[must_use]
    pub fn keys(mut self, keys: KeyLog) -> Self {
        self.keys = keys;
        self
    }

    /// Reads a pcap or pcapng stream, compressed or not, to its end. Where it breaks off, what came before was seen, and a note
    /// says where.
    pub fn read(&self, reader: impl Read, watcher: &mut dyn Watcher) -> Result<Followed, CaptureError> {
        let mut frames = Ok(0);
        let followed = self.frames(watcher, |sink| frames = file::read(reader, sink));
        Ok(Followed { frames: frames?, ..followed })
    }

    /// Follows frames that somebody hands in one by one.
    #[must_use]
    pub fn live(&self) -> Live {
        Live { sorter: self.sorter(), frames: 0 }
    }

    fn sorter(&self) -> Sorter {
        let (tcp, roce) = (Reassembly::new(self.ports.clone(), self.keys.clone()), Roce::new(self.ports.clone()));
        Sorter { tcp, roce, fragments: (0, 0) }
    }

    /// Sorts the frames that `feed` gives.
    pub(crate) fn frames(&self, watcher: &mut dyn Watcher, feed: impl FnOnce(&mut dyn Frames)) -> Followed {
        let mut sink = Sink { sorter: self.sorter(), watcher };
        feed(&mut sink);
        let Sink { sorter, watcher } = sink;
        sorter.finish(watcher)
    }
}

/// A capture that comes frame by frame: [`Follow::live`].
pub struct Live {
    sorter: Sorter,
    frames: u64,
}

impl Live {
    /// The next Ethernet frame, whole, without its FCS. Times never go back.
    pub fn ethernet(&mut self, at_ns: u64, bytes: &[u8], watcher: &mut dyn Watcher) {
        self.frames += 1;
        let frame = Frame { number: self.frames, at_ns, link: packet::Link::Ethernet, bytes, original_len: bytes.len() };
        self.sorter.frame(&frame, watcher);
    }

    /// No more frames come.
    pub fn finish(self, watcher: &mut dyn Watcher) -> Followed {
        Followed { frames: self.frames, ..self.sorter.finish(watcher) }
    }
}

/// Sorts frames by what they carry.
struct Sorter {
    tcp: Reassembly,
    roce: Roce,
    /// How many IP fragments there were, and the frame of the first.
    fragments: (u64, u64),
}

impl Sorter {
    fn frame(&mut self, frame: &Frame<'_>, watcher: &mut dyn Watcher) {
        match packet::carried(frame.link, frame.bytes, frame.original_len) {
            Some(Carried::Segment(s)) => self.tcp.segment(frame.at_ns, frame.number, &s, watcher),
            Some(Carried::Datagram(d)) => self.roce.datagram(frame.at_ns, frame.number, &d, self.tcp.numbers(), watcher),
            Some(Carried::Fragment) => {
                let (n, first) = self.fragments;
                self.fragments = (n + 1, if n == 0 { frame.number } else { first });
            }
            None => {}
        }
    }

    fn finish(mut self, watcher: &mut dyn Watcher) -> Followed {
        if let (n @ 1.., first) = self.fragments {
            watcher.note(&format!("{n} IP fragments, from frame {first} on: they are not put together"));
        }
        let other_queue_pairs = self.roce.finish(self.tcp.numbers(), watcher);
        Followed { frames: 0, others: self.tcp.finish(watcher), other_queue_pairs }
    }
}

/// A file's frames, to a watcher.
struct Sink<'w> {
    sorter: Sorter,
    watcher: &'w mut dyn Watcher,
}

impl Frames for Sink<'_> {
    fn frame(&mut self, frame: &Frame<'_>) {
        self.sorter.frame(frame, self.watcher);
    }

    fn key_log(&mut self, text: &[u8]) -> Result<(), String> {
        self.sorter.tcp.keys().add(text).map_err(|e| e.to_string())
    }

    fn note(&mut self, note: &str) {
        self.watcher.note(note);
    }
}
