//! Puts a [`Tap`] between a byte stream and its two ends: cuts the stream into PDUs, and holds back what is to come late.

use core::time::Duration;
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

/// How long an impatient tap waits for the host's next PDU.
const PATIENCE: Duration = Duration::from_millis(100);

/// One direction of the stream.
struct Way {
    framer: Framer,
    /// PDUs that were whole.
    pdus: u64,
    /// Pieces that the bytes in the framer came in, and how many came first.
    pieces: usize,
    first: usize,
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
    /// Since when an impatient tap waits for the host; for ever where it was told already.
    waiting: Option<Instant>,
    told: bool,
    /// The tap closed the connection: nothing that comes after it passes.
    closed: bool,
}

impl TapPipe {
    /// A pipe around `tap`.
    pub fn new(tap: Box<dyn Tap>) -> Self {
        let way = || Way { framer: Framer::new(LONGEST), pdus: 0, pieces: 0, first: 0, lost: false };
        Self {
            tap,
            host: way(),
            controller: way(),
            ready: VecDeque::new(),
            late: BTreeMap::new(),
            late_bytes: 0,
            count: 0,
            waiting: None,
            told: false,
            closed: false,
        }
    }

    /// Bytes that `from` sent, in any pieces.
    pub fn push(&mut self, now: Instant, from: Side, bytes: &[u8]) {
        let mut way = match from {
            Side::Host => &mut self.host,
            Side::Controller => &mut self.controller,
        };
        if self.closed {
            return;
        }
        way.framer.push(bytes);
        way.pieces += 1;
        if way.pieces == 1 {
            way.first = bytes.len();
        }
        if from == Side::Host {
            (self.waiting, self.told) = (Some(now), false);
        }
        while !way.lost {
            if way.framer.oversize().is_some() {
                way.lost = true;
                break;
            }
            let Some(pdu) = way.framer.next_pdu() else { break };
            way.pdus += 1;
            self.tap.came_in(way.pieces, way.first.min(pdu.len()));
            // what is left came with the end of this one
            (way.pieces, way.first) = (usize::from(!way.framer.is_empty()), way.framer.len());
            let outputs = self.tap.pdu(from, pdu);
            for output in outputs {
                if !self.take(now, from, output) {
                    return;
                }
            }
            way = match from {
                Side::Host => &mut self.host,
                Side::Controller => &mut self.controller,
            };
        }
        if way.lost && !way.framer.is_empty() {
            self.ready.push_back(Piped::To(other(from), way.framer.take_rest()));
        }
    }

    /// One thing that the tap wants done about what `from` sent; false where nothing comes after it.
    fn take(&mut self, now: Instant, from: Side, output: TapOutput) -> bool {
        let (delay, piped) = match output {
            TapOutput::Pass(b) => (None, Piped::To(other(from), b)),
            TapOutput::Late(by, b) => (Some(by), Piped::To(other(from), b)),
            TapOutput::Answer(b) => (None, Piped::To(from, b)),
            TapOutput::Close => {
                self.ready.push_back(Piped::Close);
                self.closed = true;
                return false;
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
        true
    }

    /// True where the other side is not to notice that `by` ended the connection.
    pub fn hides_end(&mut self, by: Side) -> bool {
        self.tap.hides_end(by)
    }

    /// Tells an impatient tap once of each PDU of the host that does not come.
    fn wait(&mut self, now: Instant) {
        if !self.tap.is_impatient() || self.told || self.closed {
            return;
        }
        if *self.waiting.get_or_insert(now) + PATIENCE <= now {
            self.told = true;
            for output in self.tap.waiting(self.host.pdus, self.host.framer.len()) {
                self.take(now, Side::Host, output);
            }
        }
    }

    /// What is due now.
    pub fn poll(&mut self, now: Instant) -> Option<Piped> {
        self.wait(now);
        if let Some(p) = self.ready.pop_front() {
            return Some(p);
        }
        let due = self.late.first_entry().filter(|e| e.key().0 <= now)?.remove();
        self.late_bytes -= due.len();
        Some(due)
    }

    /// When [`TapPipe::poll`] has something again.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if !self.ready.is_empty() {
            return Some(Instant::START);
        }
        let impatient = self.tap.is_impatient() && !self.told && !self.closed;
        // before the first look there is no begin to count from
        let waiting = impatient.then(|| self.waiting.map_or(Instant::START, |since| since + PATIENCE));
        self.late.keys().next().map(|(at, _)| *at).into_iter().chain(waiting).min()
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

    #[derive(Default)]
    struct Impatient {
        pieces: usize,
    }

    impl Tap for Impatient {
        fn pdu(&mut self, _: Side, _: Bytes) -> Vec<TapOutput> {
            vec![TapOutput::Pass(vec![self.pieces as u8].into())]
        }

        fn came_in(&mut self, pieces: usize, first: usize) {
            self.pieces = 16 * first + pieces;
        }

        fn is_impatient(&self) -> bool {
            true
        }

        fn waiting(&mut self, pdus: u64, bytes: usize) -> Vec<TapOutput> {
            vec![TapOutput::Answer(vec![pdus as u8, bytes as u8].into())]
        }
    }

    #[test]
    fn an_impatient_tap_is_told_once_of_each_pdu_that_does_not_come() {
        let mut p = TapPipe::new(Box::<Impatient>::default());
        let host = |b: &[u8]| Some(Piped::To(Side::Host, Bytes::copy_from_slice(b)));
        let at = |ms: u64| Instant(ms * 1_000_000);
        assert_eq!((p.poll(at(5)), p.poll_timeout()), (None, Some(at(105))));
        assert_eq!((p.poll(at(104)), p.poll(at(105)), p.poll(at(900))), (None, host(&[0, 0]), None));
        assert_eq!(p.poll_timeout(), None);
        let pdu = [4, 0, 8, 0, 9, 0, 0, 0, 7];
        p.push(at(1000), Side::Host, &pdu);
        p.push(at(1050), Side::Host, &pdu[..3]);
        assert_eq!(p.poll(at(1100)), Some(Piped::To(Side::Controller, Bytes::from_static(&[16 * 9 + 1]))));
        assert_eq!((p.poll(at(1149)), p.poll(at(1150)), p.poll_timeout()), (None, host(&[1, 3]), None));
    }

    #[test]
    fn pieces_are_counted_for_each_pdu() {
        let mut p = TapPipe::new(Box::<Impatient>::default());
        let two = [[4, 0, 8, 0, 9, 0, 0, 0, 7]; 2].concat();
        let mut seen = Vec::new();
        for piece in [&two[..2], &two[2..5], &two[5..12], &two[12..], &two] {
            p.push(Instant(0), Side::Controller, piece);
            while let Some(Piped::To(Side::Host, b)) = p.poll(Instant(0)) {
                seen.push(b[0]);
            }
        }
        assert_eq!(seen, [16 * 2 + 3, 16 * 3 + 2, 16 * 9 + 1, 16 * 9 + 1]);
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
