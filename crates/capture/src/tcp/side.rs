//! One direction of a TCP connection: what is in order goes on at once, what waits for a hole is kept for a while.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::packet::Segment;

/// Most bytes that wait behind a hole in one direction before the hole is taken for a gap of the capture.
pub(super) const MAX_WAITING: usize = 4 << 20;
/// Most bytes that wait behind all holes of a capture.
const MAX_WAITING_IN_ALL: usize = 32 << 20;
/// Most segments that wait behind a hole in one direction.
const MAX_SEGMENTS: usize = 4096;
/// Segments of a connection that may pass after the receiver acknowledged a hole before it is taken for a gap of the capture. A
/// capture on several queues can show the acknowledgement first.
pub(super) const GRACE: u32 = 64;

/// When a piece came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct When {
    pub(super) at_ns: u64,
    pub(super) frame: u64,
}

/// What comes out of one direction, in the order of its stream.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece<'a> {
    Bytes(&'a [u8]),
    /// Bytes that the capture does not have.
    Gap(u64),
    /// The direction ended.
    Closed {
        reset: bool,
    },
    /// So many bytes were sent again.
    Repeated(usize),
}

/// What one end sent.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// Sequence number of the next byte expected; `None` before the first segment.
    next: Option<u32>,
    pub(super) syn: Option<u32>,
    /// Segments behind a hole, by distance from the stream's start, which does not wrap.
    pub(super) waiting: BTreeMap<u64, Waiting>,
    pub(super) waiting_bytes: usize,
    pub(super) offset: u64,
    /// Where the stream ends, once FIN was seen and until that is told.
    fin: Option<u64>,
    closed: bool,
    acked: Option<u32>,
    since_ack: u32,
    last: When,
}

#[derive(Debug)]
pub(super) struct Waiting {
    when: When,
    pub(super) bytes: Bytes,
    cut: usize,
}

impl Side {
    /// Lets go of all memory; only a SYN is remembered.
    pub(super) fn let_go(&mut self) {
        *self = Self { syn: self.syn, ..Self::default() };
    }

    /// True once FIN was reached.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Where `seq` lies in the stream; `None` for what lies before its start.
    fn place(&self, seq: u32) -> Option<u64> {
        let delta = i64::from(seq.wrapping_sub(self.next?) as i32);
        u64::try_from(i64::try_from(self.offset).ok()? + delta).ok()
    }

    /// Takes a segment that this end sent. `in_all` counts the bytes that wait in the whole capture.
    pub(super) fn take(&mut self, when: When, s: &Segment<'_>, in_all: &mut usize, emit: &mut impl FnMut(When, Piece<'_>)) {
        let mut seq = s.seq;
        if s.syn {
            self.syn = Some(s.seq);
            seq = seq.wrapping_add(1);
        }
        self.next.get_or_insert(seq);
        let (at, bytes) = match self.place(seq) {
            Some(at) => (at, s.payload),
            // A keep-alive probe or a repetition that starts before the first byte known.
            None => {
                let before = self.next.unwrap_or(seq).wrapping_sub(seq) as usize;
                (0, s.payload.get(before..).unwrap_or(&[]))
            }
        };
        let end = at + (bytes.len() + s.cut) as u64;
        if s.fin && self.fin.is_none() {
            self.fin = Some(end);
        }
        if end <= self.offset {
            // A probe repeats one byte at most.
            if s.payload.len() > 1 {
                emit(when, Piece::Repeated(s.payload.len()));
            }
        } else if at <= self.offset && self.waiting.is_empty() {
            self.advance_over(when, at, bytes, s.cut, emit);
        } else if !bytes.is_empty() || s.cut > 0 {
            self.hold(at, Waiting { when, bytes: Bytes::copy_from_slice(bytes), cut: s.cut }, in_all);
            self.drain(when, in_all, emit);
            while self.waiting_bytes > MAX_WAITING || self.waiting.len() > MAX_SEGMENTS || *in_all > MAX_WAITING_IN_ALL {
                if self.waiting.is_empty() {
                    break;
                }
                self.skip_hole(in_all, emit);
            }
        }
        self.close_at_fin(when, emit);
    }

    fn close_at_fin(&mut self, when: When, emit: &mut impl FnMut(When, Piece<'_>)) {
        if !self.closed && self.fin.is_some_and(|fin| fin <= self.offset) {
            self.closed = true;
            emit(when, Piece::Closed { reset: false });
        }
    }

    fn hold(&mut self, at: u64, new: Waiting, in_all: &mut usize) {
        let longer = self.waiting.get(&at).is_none_or(|w| w.bytes.len() + w.cut < new.bytes.len() + new.cut);
        if longer {
            self.waiting_bytes += new.bytes.len();
            *in_all += new.bytes.len();
            if let Some(old) = self.waiting.insert(at, new) {
                self.waiting_bytes -= old.bytes.len();
                *in_all -= old.bytes.len();
            }
        }
    }

    /// Hands on what is in order. Bytes that waited are as late as what filled the hole before them.
    fn drain(&mut self, now: When, in_all: &mut usize, emit: &mut impl FnMut(When, Piece<'_>)) {
        while let Some(entry) = self.waiting.first_entry() {
            let at = *entry.key();
            if at > self.offset {
                return;
            }
            let w = entry.remove();
            self.waiting_bytes -= w.bytes.len();
            *in_all -= w.bytes.len();
            let when = if w.when.at_ns > now.at_ns { w.when } else { now };
            self.advance_over(when, at, &w.bytes, w.cut, emit);
        }
    }

    /// Hands on `bytes`, which start at `at`, and what is missing behind them, but for what is known already.
    fn advance_over(&mut self, when: When, at: u64, bytes: &[u8], cut: usize, emit: &mut impl FnMut(When, Piece<'_>)) {
        let known = (self.offset - at) as usize;
        let cut = (bytes.len() + cut).saturating_sub(known.max(bytes.len()));
        let bytes = bytes.get(known..).unwrap_or(&[]);
        self.last = when;
        if !bytes.is_empty() {
            self.advance(bytes.len() as u64);
            emit(when, Piece::Bytes(bytes));
        }
        if cut > 0 {
            self.advance(cut as u64);
            emit(when, Piece::Gap(cut as u64));
        }
    }

    fn advance(&mut self, n: u64) {
        self.offset += n;
        self.next = self.next.map(|s| s.wrapping_add(n as u32));
    }

    /// The hole before what waits will not be filled: tells it, and goes on behind it at the time at which that came.
    fn skip_hole(&mut self, in_all: &mut usize, emit: &mut impl FnMut(When, Piece<'_>)) {
        let Some((&at, w)) = self.waiting.first_key_value() else { return };
        let when = w.when;
        if at > self.offset {
            let len = at - self.offset;
            self.advance(len);
            self.last = when;
            emit(when, Piece::Gap(len));
        }
        self.drain(when, in_all, emit);
    }

    /// Takes an acknowledgement of the other end.
    pub(super) fn acknowledged(&mut self, when: When, ack: u32, in_all: &mut usize, emit: &mut impl FnMut(When, Piece<'_>)) {
        let newer = self.acked.is_none_or(|a| (ack.wrapping_sub(a) as i32) > 0);
        if newer {
            self.acked = Some(ack);
        }
        let covers = self
            .waiting
            .first_key_value()
            .is_some_and(|(at, _)| self.acked.and_then(|a| self.place(a)).is_some_and(|acked| acked >= *at && *at > self.offset));
        if !covers {
            self.since_ack = 0;
            return;
        }
        self.since_ack += 1;
        if self.since_ack > GRACE {
            self.since_ack = 0;
            self.skip_hole(in_all, emit);
            self.close_at_fin(when, emit);
        }
    }

    /// Nothing more comes: what waits goes on behind its holes, and FIN is told.
    pub(super) fn give_up(&mut self, in_all: &mut usize, emit: &mut impl FnMut(When, Piece<'_>)) {
        while !self.waiting.is_empty() {
            self.skip_hole(in_all, emit);
        }
        if let Some(fin) = self.fin.filter(|_| !self.closed) {
            if fin > self.offset {
                let len = fin - self.offset;
                self.advance(len);
                emit(self.last, Piece::Gap(len));
            }
            self.close_at_fin(self.last, emit);
        }
    }
}
