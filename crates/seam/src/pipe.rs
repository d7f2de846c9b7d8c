//! Puts a [`Tap`] between a byte stream and its two ends: cuts the stream into PDUs, and holds back what is to come late.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use nvmf_wire::tcp::Framer;

use crate::tap::{Side, Tap, TapOutput};
use crate::time::Instant;

/// Longest PDU that a tap sees whole; what follows a longer one passes unseen.
const LONGEST: usize = 32 * 1024 * 1024;

/// What a [`TapPipe`] wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piped {
    /// Bytes for that side.
    To(Side, Bytes),
    /// Close the connection.
    Close,
}

impl Piped {
    fn len(&self) -> usize {
        match self {
            Self::To(_, b) => b.len(),
            Self::Close => 0,
        }
    }
}

/// Most bytes held back at once; what is to come late beyond that comes now.
const LATE_MAX: usize = 64 << 20;

/// One direction of the stream.
struct Way {
    framer: Framer,
    /// The stream cannot be cut into PDUs any more.
    lost: bool,
}

/// A tap with both directions of one connection. Push what either side sent, then take what comes out.
pub struct TapPipe {
    tap: Box<dyn Tap>,
    host: Way,
    controller: Way,
    ready: VecDeque<Piped>,
    /// What comes later, in order of time and, for the same time, of arrival. Never more than [`LATE_MAX`] bytes.
    late: BTreeMap<(Instant, u64), Piped>,
    late_bytes: usize,
    count: u64,
    /// The tap closed the connection: nothing that comes after it passes.
    closed: bool,
}

impl TapPipe {
    /// A pipe around `tap`.
    pub fn new(tap: Box<dyn Tap>) -> Self {
        let way = || Way { framer: Framer::new(LONGEST), lost: false };
        Self {
            tap,
            host: way(),
            controller: way(),
            ready: VecDeque::new(),
            late: BTreeMap::new(),
            late_bytes: 0,
            count: 0,
            closed: false,
        }
    }

    /// Bytes that `from` sent, in any pieces.
    pub fn push(&mut self, now: Instant, from: Side, bytes: &[u8]) {
        let way = match from {
            Side::Host => &mut self.host,
            Side::Controller => &mut self.controller,
        };
        if self.closed {
            return;
        }
        way.framer.push(bytes);
        while !way.lost {
            if way.framer.oversize().is_some() {
                way.lost = true;
                break;
            }
            let Some(pdu) = way.framer.next_pdu() else { break };
            for output in self.tap.pdu(from, pdu) {
                let (delay, piped) = match output {
                    TapOutput::Pass(b) => (None, Piped::To(other(from), b)),
                    TapOutput::Late(by, b) => (Some(by), Piped::To(other(from), b)),
                    TapOutput::Answer(b) => (None, Piped::To(from, b)),
                    TapOutput::Close => {
                        self.ready.push_back(Piped::Close);
                        self.closed = true;
                        return;
                    }
                };
                match delay {
                    Some(by) if self.late_bytes + piped.len() <= LATE_MAX => {
                        self.count += 1;
                        self.late_bytes += piped.len();
                        self.late.insert((now + by, self.count), piped);
                    }
                    _ => self.ready.push_back(piped),
                }
            }
        }
        if way.lost && !way.framer.is_empty() {
            self.ready.push_back(Piped::To(other(from), way.framer.take_rest()));
        }
    }

    /// What is due now.
    pub fn poll(&mut self, now: Instant) -> Option<Piped> {
        if let Some(p) = self.ready.pop_front() {
            return Some(p);
        }
        let due = self.late.first_entry().filter(|e| e.key().0 <= now)?.remove();
        self.late_bytes -= due.len();
        Some(due)
    }

    /// When [`TapPipe::poll`] has something again.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.ready.is_empty() { self.late.keys().next().map(|(at, _)| *at) } else { Some(Instant::START) }
    }
}

fn other(side: Side) -> Side {
    match side {
        Side::Host => Side::Controller,
        Side::Controller => Side::Host,
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    struct Script;

    impl Tap for Script {
        fn pdu(&mut self, from: Side, pdu: Bytes) -> Vec<TapOutput> {
            match from {
                Side::Host => vec![TapOutput::Late(Duration::from_nanos(5), pdu.clone()), TapOutput::Pass(pdu)],
                Side::Controller => vec![TapOutput::Close],
            }
        }
    }

    #[test]
    fn late_bytes_do_not_hold_up_what_follows() {
        let mut p = TapPipe::new(Box::new(Script));
        let pdu = [4, 0, 8, 0, 9, 0, 0, 0, 7];
        p.push(Instant(0), Side::Host, &pdu[..5]);
        assert_eq!(p.poll(Instant(0)), None);
        p.push(Instant(0), Side::Host, &pdu[5..]);
        let out = Piped::To(Side::Controller, Bytes::copy_from_slice(&pdu));
        assert_eq!(p.poll(Instant(0)), Some(out.clone()));
        assert_eq!(p.poll(Instant(4)), None);
        assert_eq!(p.poll_timeout(), Some(Instant(5)));
        assert_eq!(p.poll(Instant(5)), Some(out));
        p.push(Instant(6), Side::Controller, &pdu);
        assert_eq!(p.poll(Instant(6)), Some(Piped::Close));
    }

    #[test]
    fn a_stream_that_is_no_pdus_passes_as_it_is() {
        let mut p = TapPipe::new(Box::new(Script));
        p.push(Instant(0), Side::Host, &[0; 20]);
        assert_eq!(p.poll(Instant(0)), Some(Piped::To(Side::Controller, Bytes::from_static(&[0; 20]))));
        p.push(Instant(0), Side::Host, &[1; 3]);
        assert_eq!(p.poll(Instant(0)), Some(Piped::To(Side::Controller, Bytes::from_static(&[1; 3]))));
    }

    #[test]
    fn what_exceeds_the_limit_is_not_held_back() {
        let mut p = TapPipe::new(Box::new(Script));
        let mut pdu = vec![0; 30 << 20];
        pdu[..8].copy_from_slice(&[4, 0, 8, 0, 0, 0, 0xe0, 1]);
        let out = Piped::To(Side::Controller, Bytes::from(pdu.clone()));
        for copies in [1, 1, 2] {
            p.push(Instant(0), Side::Host, &pdu);
            for _ in 0..copies {
                assert!(p.poll(Instant(0)) == Some(out.clone()), "the copy that passes, and the one that found no room");
            }
            assert_eq!(p.poll(Instant(0)), None);
        }
    }
}
