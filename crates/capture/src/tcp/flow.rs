//! One TCP connection: does it carry NVMe/TCP, which end is the host, and its events.
//!
//! It is NVMe/TCP where its first PDU is an ICReq, on any port; else by its port; and in a capture that begins in its middle, where a
//! segment starts with a PDU head that proves itself. Below TLS a PSK identity tells it, or what the secrets open. What comes before that is known is kept, up to a limit.

use std::net::SocketAddr;

use super::nvme::{self, Nvme};
use super::side::{Piece, Side, When};
use crate::exchange::{Ends, Transport};
use crate::follow::Watcher;
use crate::hunt::{self, Place};
use crate::packet::Segment;
use crate::tls::{self, KeyLog};

/// Most bytes of a connection that are kept before it is known what it carries.
const MAX_UNDECIDED: usize = 64 << 10;
/// Most pieces of them.
const MAX_UNDECIDED_PIECES: usize = 256;
/// The same for all connections.
const MAX_UNDECIDED_IN_ALL: usize = 16 << 20;

/// What all connections of a capture share.
pub(super) struct Shared {
    ports: Vec<u16>,
    /// Secrets of TLS connections, those that the capture has itself included.
    pub(super) keys: KeyLog,
    /// Number of the next connection that is recognised.
    pub(super) next: usize,
    /// Connections that carry something else.
    pub(super) others: usize,
    /// Bytes that wait for a hole to be filled.
    waiting: usize,
    /// Bytes of connections of which it is not known what they carry.
    undecided: usize,
    /// Bytes of PDUs that are not whole.
    framed: usize,
    /// Connections so far.
    flows: u64,
}

impl Shared {
    pub(super) fn new(ports: Vec<u16>, keys: KeyLog) -> Self {
        Self { ports, keys, next: 0, others: 0, waiting: 0, undecided: 0, framed: 0, flows: 0 }
    }
}

/// One connection.
pub(super) struct Flow {
    /// `ends[0]` opened it, so far as is known.
    ends: [SocketAddr; 2],
    opened_ns: u64,
    syn_seen: bool,
    pub(super) sides: [Side; 2],
    fate: Fate,
    /// Its place in the order of connections.
    pub(super) first: u64,
    /// Number of the last frame.
    pub(super) seen: u64,
}

enum Fate {
    Undecided(Vec<Kept>),
    Nvme(Box<Nvme>),
    Other,
    /// Reset, or closed by both ends: what still comes belongs to nothing.
    Over,
}

/// A piece kept until it is known what the connection carries.
struct Kept {
    end: usize,
    when: When,
    piece: KeptPiece,
}

enum KeptPiece {
    Bytes(Vec<u8>),
    Gap(u64),
    Closed { reset: bool },
}

/// What can be said of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Unknown,
    Host(usize),
    Other,
}

impl Flow {
    pub(super) fn new(s: &Segment<'_>, opened_ns: u64) -> Self {
        let ends = if s.syn && s.ack.is_some() { [s.to, s.from] } else { [s.from, s.to] };
        let (sides, fate) = ([Side::default(), Side::default()], Fate::Undecided(Vec::new()));
        Self { ends, opened_ns, syn_seen: false, sides, fate, first: u64::MAX, seen: 0 }
    }

    pub(super) fn is_repeat_of_syn(&self, s: &Segment<'_>) -> bool {
        let end = usize::from(s.from != self.ends[0]);
        self.sides.get(end).is_some_and(|side| side.syn == Some(s.seq)) && !matches!(self.fate, Fate::Over)
    }

    pub(super) fn segment(&mut self, at_ns: u64, frame: u64, s: &Segment<'_>, shared: &mut Shared, watcher: &mut dyn Watcher) {
        if self.seen == 0 {
            self.first = shared.flows;
            shared.flows += 1;
        }
        self.seen = frame;
        self.syn_seen |= s.syn;
        if matches!(self.fate, Fate::Over | Fate::Other) {
            return;
        }
        let when = When { at_ns, frame };
        let end = usize::from(s.from != self.ends[0]);
        let mut waiting = std::mem::take(&mut shared.waiting);
        let known = Known { ends: self.ends, opened_ns: self.opened_ns, syn_seen: self.syn_seen };
        let [a, b] = &mut self.sides;
        let (me, peer) = if end == 0 { (a, b) } else { (b, a) };
        let fate = &mut self.fate;
        me.take(when, s, &mut waiting, &mut |when, piece| fate.piece(&known, end, when, piece, shared, watcher));
        if let Some(ack) = s.ack {
            peer.acknowledged(when, ack, &mut waiting, &mut |when, piece| {
                fate.piece(&known, 1 - end, when, piece, shared, watcher);
            });
        }
        if s.rst {
            me.give_up(&mut waiting, &mut |when, piece| fate.piece(&known, end, when, piece, shared, watcher));
            peer.give_up(&mut waiting, &mut |when, piece| fate.piece(&known, 1 - end, when, piece, shared, watcher));
            fate.piece(&known, end, when, Piece::Closed { reset: true }, shared, watcher);
        }
        let over = s.rst || (me.is_closed() && peer.is_closed());
        shared.waiting = waiting;
        if over {
            self.end(shared, watcher);
        } else if matches!(self.fate, Fate::Other) {
            self.let_go(shared);
        }
    }

    /// Nothing more comes.
    pub(super) fn finish(mut self, shared: &mut Shared, watcher: &mut dyn Watcher) {
        let known = Known { ends: self.ends, opened_ns: self.opened_ns, syn_seen: self.syn_seen };
        let mut waiting = std::mem::take(&mut shared.waiting);
        for (end, side) in self.sides.iter_mut().enumerate() {
            let fate = &mut self.fate;
            side.give_up(&mut waiting, &mut |when, piece| fate.piece(&known, end, when, piece, shared, watcher));
        }
        shared.waiting = waiting;
        self.end(shared, watcher);
    }

    fn end(&mut self, shared: &mut Shared, watcher: &mut dyn Watcher) {
        let known = Known { ends: self.ends, opened_ns: self.opened_ns, syn_seen: self.syn_seen };
        self.fate.decide(&known, true, shared, watcher);
        match std::mem::replace(&mut self.fate, Fate::Over) {
            Fate::Nvme(mut nvme) => {
                nvme.finish(&mut shared.framed, watcher);
                watcher.over(nvme.conn);
            }
            Fate::Undecided(_) => shared.others += 1,
            Fate::Other | Fate::Over => {}
        }
        self.let_go(shared);
    }

    fn let_go(&mut self, shared: &mut Shared) {
        for side in &mut self.sides {
            shared.waiting -= side.waiting_bytes;
            side.let_go();
        }
    }
}

/// What does not change while a segment is taken.
struct Known {
    ends: [SocketAddr; 2],
    opened_ns: u64,
    syn_seen: bool,
}

impl Fate {
    fn piece(&mut self, known: &Known, end: usize, when: When, piece: Piece<'_>, shared: &mut Shared, watcher: &mut dyn Watcher) {
        match self {
            Self::Nvme(nvme) => {
                nvme.piece(end, when, piece, &shared.keys, watcher);
                nvme.weigh(end, when, &mut shared.framed, watcher);
            }
            Self::Undecided(kept) => {
                let piece = match piece {
                    Piece::Bytes(b) => {
                        shared.undecided += b.len();
                        KeptPiece::Bytes(b.to_vec())
                    }
                    Piece::Gap(len) => KeptPiece::Gap(len),
                    Piece::Closed { reset } => KeptPiece::Closed { reset },
                    Piece::Repeated(_) => return,
                };
                kept.push(Kept { end, when, piece });
                self.decide(known, false, shared, watcher);
            }
            Self::Other | Self::Over => {}
        }
    }

    /// Says what the connection carries, once that is known, and at its end in any case.
    fn decide(&mut self, known: &Known, at_end: bool, shared: &mut Shared, watcher: &mut dyn Watcher) {
        let Self::Undecided(kept) = self else { return };
        let verdict = known.verdict(kept, at_end, shared);
        if verdict == Verdict::Unknown {
            return;
        }
        let kept = std::mem::take(kept);
        shared.undecided -= kept.iter().map(|k| k.piece.len()).sum::<usize>();
        let Verdict::Host(host) = verdict else {
            shared.others += 1;
            *self = Self::Other;
            return;
        };
        let start = start_of(&kept, host);
        let secure = start.is_some_and(|s| tls::Stream::starts(&s) == Some(true));
        let mut nvme = Box::new(Nvme::new(shared.next, host, known.opened_ns, secure));
        shared.next += 1;
        let [a, b] = known.ends;
        let (client, server) = if host == 0 { (a, b) } else { (b, a) };
        watcher.opened(nvme.conn, &Ends { client, server, opened_ns: known.opened_ns, transport: Transport::Tcp });
        if !known.syn_seen && !secure && start.is_none_or(|s| !is_ic(&s, 0)) {
            // An unknown number of bytes went before.
            let frame = kept.first().map_or(0, |k| k.when.frame);
            nvme.missed_start(When { at_ns: known.opened_ns, frame }, watcher);
        }
        for Kept { end, when, piece } in &kept {
            let piece = match piece {
                KeptPiece::Bytes(b) => Piece::Bytes(b),
                KeptPiece::Gap(len) => Piece::Gap(*len),
                KeptPiece::Closed { reset } => Piece::Closed { reset: *reset },
            };
            nvme.piece(*end, *when, piece, &shared.keys, watcher);
            nvme.weigh(*end, *when, &mut shared.framed, watcher);
        }
        *self = Self::Nvme(nvme);
    }
}

impl KeptPiece {
    fn len(&self) -> usize {
        if let Self::Bytes(b) = self { b.len() } else { 0 }
    }
}

impl Known {
    fn verdict(&self, kept: &[Kept], at_end: bool, shared: &Shared) -> Verdict {
        let starts = [start_of(kept, 0), start_of(kept, 1)];
        let with = |ptype: u8| starts.iter().position(|s| s.is_some_and(|s| is_ic(&s, ptype)));
        if let Some(host) = with(0) {
            return Verdict::Host(host);
        }
        // A capture on several queues can show the answer first.
        if let Some(controller) = with(1) {
            return Verdict::Host(1 - controller);
        }
        let spoke = starts.iter().any(Option::is_some);
        let kept_bytes: usize = kept.iter().map(|k| k.piece.len()).sum();
        let too_much = kept_bytes > MAX_UNDECIDED || kept.len() > MAX_UNDECIDED_PIECES || shared.undecided > MAX_UNDECIDED_IN_ALL;
        let enough = at_end || spoke && self.syn_seen || too_much;
        let [a, b] = self.ends.map(|e| shared.ports.contains(&e.port()));
        if let Some(client) = starts.iter().position(|s| s.is_some_and(|s| tls::Stream::starts(&s) == Some(true))) {
            let given_up = if at_end || too_much { Verdict::Other } else { Verdict::Unknown };
            let carries = if a || b { Some(true) } else { nvme::below_tls(bytes_of(kept, client), &shared.keys) };
            return carries.map_or(given_up, |nvme| if nvme { Verdict::Host(client) } else { Verdict::Other });
        }
        if a || b {
            let host = if b { 0 } else { 1 };
            return if enough || spoke { Verdict::Host(host) } else { Verdict::Unknown };
        }
        if !self.syn_seen
            && let Some(host) = kept.last().and_then(Kept::host)
        {
            return Verdict::Host(host);
        }
        if enough { Verdict::Other } else { Verdict::Unknown }
    }
}

impl Kept {
    /// The host, where this piece starts with a PDU that proves itself: its head is right and it ends with the piece, or another
    /// follows it.
    fn host(&self) -> Option<usize> {
        let KeptPiece::Bytes(bytes) = &self.piece else { return None };
        let from_host = [true, false].into_iter().find(|from_host| {
            let Place::Pdu(plen) = hunt::place(bytes, Some(*from_host)) else { return false };
            hunt::proven(bytes, plen, Some(*from_host)) == Some(true)
        })?;
        Some(if from_host { self.end } else { 1 - self.end })
    }
}

/// The bytes that were kept, each piece with whether `end` sent it.
fn bytes_of(kept: &[Kept], end: usize) -> impl Iterator<Item = (bool, &[u8])> {
    kept.iter().filter_map(move |k| match &k.piece {
        KeptPiece::Bytes(bytes) => Some((k.end == end, bytes.as_slice())),
        _ => None,
    })
}

/// The first 8 bytes that an end sent; `None` where they are not all there, or a gap came before.
fn start_of(kept: &[Kept], end: usize) -> Option<[u8; 8]> {
    let mut start = [0u8; 8];
    let mut n = 0;
    for k in kept.iter().filter(|k| k.end == end) {
        match &k.piece {
            KeptPiece::Bytes(bytes) => {
                for (to, from) in start.iter_mut().skip(n).zip(bytes) {
                    *to = *from;
                    n += 1;
                }
            }
            KeptPiece::Gap(_) => return None,
            KeptPiece::Closed { .. } => {}
        }
        if n == 8 {
            return Some(start);
        }
    }
    None
}

/// True for the head of an ICReq (type 0) or ICResp (type 1).
pub(super) fn is_ic(start: &[u8; 8], ptype: u8) -> bool {
    let [t, _, hlen, _, a, b, c, d] = *start;
    t == ptype && hlen == 128 && u32::from_le_bytes([a, b, c, d]) == 128
}
