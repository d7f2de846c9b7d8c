//! Connections as lists of events: what a capture file and a live connection have in common.
//!
//! A [`Recorder`] is fed bytes by direction and time and cuts them into PDUs; the [`Connection`] that it builds also keeps the
//! pieces in which the bytes came ([`Chunk`]), so that segment boundaries can be shown and written as packets.

use std::net::SocketAddr;

use bytes::Bytes;
use nvmf_spec::Side;

use crate::roce::{Packet, Rdma};
use crate::stream::Stream;
use crate::tls::Notice;

/// Which way bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the host to the controller.
    HostToController,
    /// From the controller to the host.
    ControllerToHost,
}

impl Direction {
    /// The other way.
    #[must_use]
    pub fn reverse(self) -> Self {
        match self {
            Self::HostToController => Self::ControllerToHost,
            Self::ControllerToHost => Self::HostToController,
        }
    }

    /// Who sends this way.
    #[must_use]
    pub fn sender(self) -> Side {
        match self {
            Self::HostToController => Side::Host,
            Self::ControllerToHost => Side::Controller,
        }
    }

    /// `>` from the host, `<` from the controller.
    #[must_use]
    pub fn arrow(self) -> char {
        match self {
            Self::HostToController => '>',
            Self::ControllerToHost => '<',
        }
    }

    pub(crate) fn index(self) -> usize {
        match self {
            Self::HostToController => 0,
            Self::ControllerToHost => 1,
        }
    }
}

/// Something that happened on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was complete, nanoseconds: since the epoch in a capture file, since the start of the run when recorded live.
    pub at_ns: u64,
    /// Number of the frame that completed it, from 1 as Wireshark counts; 0 where there is no capture file.
    pub frame: u64,
    /// Which way; for [`EventKind::Closed`] the side that closed is the sender.
    pub dir: Direction,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A whole PDU, PLEN bytes.
    Pdu(Bytes),
    /// This direction ended: by FIN, or by RST, which ends both.
    Closed {
        /// True for RST.
        reset: bool,
    },
    /// Bytes that cannot be framed, or that a gap or the end of the connection cut short.
    Undecodable {
        /// Stream offset of the first of them in this direction, bytes.
        offset: u64,
        /// Why.
        why: String,
        /// The bytes; at most [`MAX_UNDECODABLE`] of them.
        bytes: Bytes,
        /// How many there were, bytes.
        len: u64,
    },
    /// Bytes that the capture does not have. A bystander cannot judge what depends on them.
    Gap {
        /// Stream offset of the first of them in this direction, bytes.
        offset: u64,
        /// How many, bytes; 0 where the start of the connection is missing.
        len: u64,
    },
    /// What TLS below the PDUs says of itself. It is not the PDUs' stream: offsets and pieces do not count it.
    Tls(Notice),
    /// A RoCEv2 packet of this connection, or one of connection management about it: one a frame, whatever it holds. What it comes to
    /// follows as [`EventKind::Rdma`], with the same frame.
    Packet(Packet),
    /// What RoCEv2 packets come to: a capsule, data that moved, a message of connection management. None of the variants above comes
    /// on such a connection.
    Rdma(Box<Rdma>),
}

/// Most bytes that one [`EventKind::Undecodable`] keeps.
pub const MAX_UNDECODABLE: usize = 64 * 1024;

/// A piece of a stream as it came or was sent: one TCP segment, or one read or write of a socket. Over RDMA, and only where it was recorded
/// live ([`crate::live`]), a whole IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// When, nanoseconds; the same clock as [`Event::at_ns`].
    pub at_ns: u64,
    /// Which way.
    pub dir: Direction,
    /// The bytes.
    pub bytes: Bytes,
}

/// What carries the capsules of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// NVMe/TCP: a TCP connection.
    #[default]
    Tcp,
    /// NVMe/RDMA: two reliable connected queue pairs over RoCEv2.
    Rdma,
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The host's end. Over RDMA the port is 4791 at both ends: [`Rdma::QueuePairs`] tells connections apart.
    pub client: SocketAddr,
    /// The controller's end.
    pub server: SocketAddr,
    /// When it was opened or first seen, nanoseconds.
    pub opened_ns: u64,
    /// What carries its capsules.
    pub transport: Transport,
}

/// One TCP connection, or one pair of RDMA queue pairs; hence one NVMe queue. [NVMe/TCP 1.0, 2; NVMe/RDMA 1.0, 3.2; TCP-QUEUE-01]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The host's end. Over RDMA the port is that of RoCEv2, 4791, at both ends: [`Rdma::QueuePairs`] tells connections apart.
    pub client: SocketAddr,
    /// The controller's end.
    pub server: SocketAddr,
    /// When it was opened or first seen, nanoseconds.
    pub opened_ns: u64,
    /// What carries its capsules.
    pub transport: Transport,
    /// What happened, in order of time.
    pub events: Vec<Event>,
    /// The pieces in which the bytes came, in order of time within each direction.
    pub chunks: Vec<Chunk>,
}

impl Connection {
    /// One of which nothing was seen yet.
    #[must_use]
    pub fn new(ends: &Ends) -> Self {
        let Ends { client, server, opened_ns, transport } = *ends;
        Self { client, server, opened_ns, transport, events: Vec::new(), chunks: Vec::new() }
    }

    /// The PDUs, in order.
    pub fn pdus(&self) -> impl Iterator<Item = (&Event, &Bytes)> {
        self.events.iter().filter_map(|e| match &e.kind {
            EventKind::Pdu(b) => Some((e, b)),
            _ => None,
        })
    }
}

/// The connections of one check, one scenario or one capture file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// In the order in which they were opened.
    pub connections: Vec<Connection>,
}

impl Exchange {
    /// Every event with the index of its connection, in order of time; at the same time in order of connections.
    #[must_use]
    pub fn events(&self) -> Vec<(usize, &Event)> {
        let mut all: Vec<(usize, &Event)> =
            self.connections.iter().enumerate().flat_map(|(i, c)| c.events.iter().map(move |e| (i, e))).collect();
        all.sort_by_key(|(_, e)| e.at_ns);
        all
    }

    /// The earliest time in it, nanoseconds; 0 where it is empty.
    #[must_use]
    pub fn start_ns(&self) -> u64 {
        self.connections.iter().map(|c| c.opened_ns).min().unwrap_or(0)
    }
}

/// Cuts the two byte streams of a connection into events.
///
/// Invariant: times within one direction never go back; an earlier time is taken as the one before.
#[derive(Debug)]
pub(crate) struct Cutter {
    streams: [Stream; 2],
    last_ns: [u64; 2],
    /// The frame that completes what comes now; 0 where there is no capture file.
    pub(crate) frame: u64,
}

impl Cutter {
    pub(crate) fn new(opened_ns: u64) -> Self {
        Self { streams: [Stream::new(true), Stream::new(false)], last_ns: [opened_ns; 2], frame: 0 }
    }

    pub(crate) fn push(&mut self, dir: Direction, at_ns: u64, bytes: &[u8], mut emit: impl FnMut(Event)) {
        let (at_ns, frame) = (self.clock(dir, at_ns), self.frame);
        self.streams[dir.index()].push(bytes, |kind| emit(Event { at_ns, frame, dir, kind }));
    }

    pub(crate) fn gap(&mut self, dir: Direction, at_ns: u64, len: u64, mut emit: impl FnMut(Event)) {
        let (at_ns, frame) = (self.clock(dir, at_ns), self.frame);
        self.streams[dir.index()].gap(len, |kind| emit(Event { at_ns, frame, dir, kind }));
    }

    /// Bytes held of PDUs that are not whole.
    pub(crate) fn held(&self) -> usize {
        self.streams.iter().map(Stream::held).sum()
    }

    /// Lets go of the PDU that is not whole in one direction.
    pub(crate) fn give_up(&mut self, dir: Direction, at_ns: u64, why: &str, mut emit: impl FnMut(Event)) {
        let (at_ns, frame) = (self.clock(dir, at_ns), self.frame);
        self.streams[dir.index()].give_up(why, |kind| emit(Event { at_ns, frame, dir, kind }));
    }

    /// An event beside the PDUs, with its time and frame.
    pub(crate) fn event(&mut self, dir: Direction, at_ns: u64, kind: EventKind) -> Event {
        Event { at_ns: self.clock(dir, at_ns), frame: self.frame, dir, kind }
    }

    /// The start of the connection was not seen: a gap of unknown length, shown as 0 bytes. Both streams look for their first PDU.
    pub(crate) fn missed_start(&mut self, at_ns: u64, mut emit: impl FnMut(Event)) {
        for stream in &mut self.streams {
            stream.missed_start();
        }
        let kind = EventKind::Gap { offset: 0, len: 0 };
        emit(Event { at_ns, frame: self.frame, dir: Direction::HostToController, kind });
    }

    pub(crate) fn close(&mut self, dir: Direction, at_ns: u64, reset: bool, mut emit: impl FnMut(Event)) {
        for d in [dir.reverse(), dir] {
            if d == dir || reset {
                self.end(d, at_ns, &mut emit);
            }
        }
        let (at_ns, frame) = (self.clock(dir, at_ns), self.frame);
        emit(Event { at_ns, frame, dir, kind: EventKind::Closed { reset } });
    }

    /// Nothing more comes: bytes that make no whole PDU become [`EventKind::Undecodable`].
    pub(crate) fn finish(&mut self, mut emit: impl FnMut(Event)) {
        for dir in [Direction::HostToController, Direction::ControllerToHost] {
            self.end(dir, self.last_ns[dir.index()], &mut emit);
        }
    }

    fn end(&mut self, dir: Direction, at_ns: u64, mut emit: impl FnMut(Event)) {
        let (at_ns, frame) = (self.clock(dir, at_ns), self.frame);
        self.streams[dir.index()].end(|kind| emit(Event { at_ns, frame, dir, kind }));
    }

    fn clock(&mut self, dir: Direction, at_ns: u64) -> u64 {
        let last = &mut self.last_ns[dir.index()];
        *last = (*last).max(at_ns);
        *last
    }
}

/// Builds a [`Connection`] from bytes as they go by.
#[derive(Debug)]
pub struct Recorder {
    connection: Connection,
    cutter: Cutter,
}

impl Recorder {
    /// A connection that was opened at `opened_ns`.
    #[must_use]
    pub fn new(client: SocketAddr, server: SocketAddr, opened_ns: u64) -> Self {
        let ends = Ends { client, server, opened_ns, transport: Transport::Tcp };
        Self { connection: Connection::new(&ends), cutter: Cutter::new(opened_ns) }
    }

    /// Takes bytes that went by. Returns the events that they completed.
    pub fn push(&mut self, dir: Direction, at_ns: u64, bytes: impl Into<Bytes>) -> &[Event] {
        let bytes = bytes.into();
        let events = &mut self.connection.events;
        let from = events.len();
        self.cutter.push(dir, at_ns, &bytes, |e| events.push(e));
        if !bytes.is_empty() {
            let at_ns = self.cutter.last_ns[dir.index()];
            self.connection.chunks.push(Chunk { at_ns, dir, bytes });
        }
        self.connection.events.get(from..).unwrap_or(&[])
    }

    /// Notes that `len` bytes went by unseen.
    pub fn gap(&mut self, dir: Direction, at_ns: u64, len: u64) -> &[Event] {
        let events = &mut self.connection.events;
        let from = events.len();
        self.cutter.gap(dir, at_ns, len, |e| events.push(e));
        self.connection.events.get(from..).unwrap_or(&[])
    }

    /// Notes that one direction ended. A reset ends both.
    pub fn close(&mut self, dir: Direction, at_ns: u64, reset: bool) -> &[Event] {
        let events = &mut self.connection.events;
        let from = events.len();
        self.cutter.close(dir, at_ns, reset, |e| events.push(e));
        self.connection.events.get(from..).unwrap_or(&[])
    }

    /// Drops the events and pieces recorded so far, for one who judges as it goes and keeps nothing.
    pub fn forget(&mut self) {
        self.connection.events.clear();
        self.connection.chunks.clear();
    }

    /// What was recorded so far. Bytes that make no whole PDU yet are not among the events.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// What was recorded; bytes that make no whole PDU become [`EventKind::Undecodable`]. Events are sorted by time.
    #[must_use]
    pub fn finish(mut self) -> Connection {
        let events = &mut self.connection.events;
        self.cutter.finish(|e| events.push(e));
        self.connection.events.sort_by_key(|e| e.at_ns);
        self.connection
    }
}
