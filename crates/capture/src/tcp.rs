//! TCP reassembly: from segments to the two byte streams of each connection. [RFC 9293, 3.4]
//!
//! Own code, small: sequence numbers that wrap, segments out of order, repeated and overlapping ones (the first copy counts), and
//! bytes that the capture misses. What waits for a hole is limited, so that a capture cannot exhaust us.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;

use crate::exchange::{Connection, Direction, Recorder};
use crate::packet::Segment;

/// Most bytes that wait behind a hole in one direction before the hole is taken for a gap of the capture.
const MAX_WAITING: usize = 4 << 20;
/// Most segments that wait behind a hole in one direction.
const MAX_SEGMENTS: usize = 4096;
/// Segments of a connection that may pass after the receiver acknowledged a hole before it is taken for a gap of the capture. A
/// capture on several queues can show the acknowledgement first.
const GRACE: u32 = 64;

/// All connections of a capture.
#[derive(Default)]
pub(crate) struct Reassembly {
    live: BTreeMap<(SocketAddr, SocketAddr), usize>,
    flows: Vec<Flow>,
}

/// One connection.
struct Flow {
    /// `ends[0]` opened it, so far as is known.
    ends: [SocketAddr; 2],
    opened_ns: u64,
    syn_seen: bool,
    sides: [Side; 2],
    done: bool,
    log: Vec<Piece>,
}

/// What one end sent.
#[derive(Default)]
struct Side {
    /// Sequence number of the next byte expected; `None` before the first segment.
    next: Option<u32>,
    syn: Option<u32>,
    /// Segments behind a hole, by distance from the stream's start, which does not wrap.
    waiting: BTreeMap<u64, Waiting>,
    waiting_bytes: usize,
    offset: u64,
    fin: Option<u64>,
    acked: Option<u32>,
    since_ack: u32,
}

struct Waiting {
    at_ns: u64,
    bytes: Bytes,
    cut: usize,
}

enum Piece {
    Bytes { end: usize, at_ns: u64, bytes: Bytes },
    Gap { end: usize, at_ns: u64, len: u64 },
    Closed { end: usize, at_ns: u64, reset: bool },
}

impl Reassembly {
    pub(crate) fn segment(&mut self, at_ns: u64, s: &Segment<'_>) {
        let key = if s.from <= s.to { (s.from, s.to) } else { (s.to, s.from) };
        let opens = s.syn && s.ack.is_none();
        let known = self.live.get(&key).copied().and_then(|i| self.flows.get(i).map(|f| (i, f)));
        let index = match known {
            Some((i, f)) if !opens || f.is_repeat_of_syn(s) => i,
            _ => {
                let ends = if s.syn && s.ack.is_some() { [s.to, s.from] } else { [s.from, s.to] };
                self.flows.push(Flow::new(ends, at_ns));
                let i = self.flows.len() - 1;
                self.live.insert(key, i);
                i
            }
        };
        if let Some(flow) = self.flows.get_mut(index) {
            flow.segment(at_ns, s);
        }
    }

    /// The connections that carry NVMe/TCP, in the order in which they were opened, and how many others there were.
    pub(crate) fn finish(mut self, ports: &[u16]) -> (Vec<Connection>, usize) {
        let mut out = Vec::new();
        let mut others = 0;
        for flow in &mut self.flows {
            flow.give_up();
            match flow.host_end(ports) {
                Some(host) => out.push(flow.record(host)),
                None => others += 1,
            }
        }
        (out, others)
    }
}

impl Flow {
    fn new(ends: [SocketAddr; 2], opened_ns: u64) -> Self {
        Self { ends, opened_ns, syn_seen: false, sides: [Side::default(), Side::default()], done: false, log: Vec::new() }
    }

    fn is_repeat_of_syn(&self, s: &Segment<'_>) -> bool {
        let end = usize::from(s.from != self.ends[0]);
        self.sides.get(end).is_some_and(|side| side.syn == Some(s.seq)) && !self.done
    }

    fn segment(&mut self, at_ns: u64, s: &Segment<'_>) {
        if self.done {
            return;
        }
        let end = usize::from(s.from != self.ends[0]);
        let [a, b] = &mut self.sides;
        let (me, peer) = if end == 0 { (a, b) } else { (b, a) };
        let mut seq = s.seq;
        if s.syn {
            self.syn_seen = true;
            me.syn = Some(s.seq);
            seq = seq.wrapping_add(1);
        }
        me.next.get_or_insert(seq);
        me.take(end, at_ns, seq, s, &mut self.log);
        peer.acknowledged(1 - end, at_ns, s.ack, &mut self.log);
        if s.rst {
            me.give_up(end, &mut self.log);
            peer.give_up(1 - end, &mut self.log);
            self.log.push(Piece::Closed { end, at_ns, reset: true });
            self.done = true;
        }
    }

    fn give_up(&mut self) {
        for (end, side) in self.sides.iter_mut().enumerate() {
            side.give_up(end, &mut self.log);
        }
    }

    fn starts_with_icreq(&self, end: usize) -> bool {
        let mut start = Vec::with_capacity(8);
        for p in &self.log {
            match p {
                Piece::Bytes { end: e, bytes, .. } if *e == end => start.extend(bytes.iter().take(8 - start.len())),
                Piece::Gap { end: e, .. } if *e == end && start.len() < 8 => return false,
                _ => {}
            }
            if let [ptype, _, hlen, _, a, b, c, d] = *start {
                return ptype == 0 && hlen == 128 && u32::from_le_bytes([a, b, c, d]) == 128;
            }
        }
        false
    }

    /// Which end is the host: the one whose stream starts with an ICReq; else the one that opened the connection or does not sit on
    /// one of the ports. `None` where nothing looks like NVMe/TCP.
    fn host_end(&self, ports: &[u16]) -> Option<usize> {
        if let Some(end) = (0..2).find(|end| self.starts_with_icreq(*end)) {
            return Some(end);
        }
        let [a, b] = self.ends;
        match (ports.contains(&a.port()), ports.contains(&b.port())) {
            (false, true) => Some(0),
            (true, false) => Some(1),
            (true, true) => Some(0),
            (false, false) => None,
        }
    }

    fn record(&mut self, host: usize) -> Connection {
        let [a, b] = self.ends;
        let (client, server) = if host == 0 { (a, b) } else { (b, a) };
        let mut rec = Recorder::new(client, server, self.opened_ns);
        if !self.syn_seen && !self.starts_with_icreq(host) {
            // An unknown number of bytes went before.
            rec.missed_start(self.opened_ns);
        }
        let dir = |end: usize| if end == host { Direction::HostToController } else { Direction::ControllerToHost };
        for piece in self.log.drain(..) {
            match piece {
                Piece::Bytes { end, at_ns, bytes } => {
                    rec.push(dir(end), at_ns, bytes);
                }
                Piece::Gap { end, at_ns, len } => {
                    rec.gap(dir(end), at_ns, len);
                }
                Piece::Closed { end, at_ns, reset } => {
                    rec.close(dir(end), at_ns, reset);
                }
            }
        }
        rec.finish()
    }
}

impl Side {
    /// Where `seq` lies in the stream; `None` for what lies before its start.
    fn place(&self, seq: u32) -> Option<u64> {
        let delta = i64::from(seq.wrapping_sub(self.next?) as i32);
        u64::try_from(i64::try_from(self.offset).ok()? + delta).ok()
    }

    fn take(&mut self, end: usize, at_ns: u64, seq: u32, s: &Segment<'_>, log: &mut Vec<Piece>) {
        let (at, bytes) = match self.place(seq) {
            Some(at) => (at, s.payload),
            // A keep-alive probe or a repetition that starts before the first byte known.
            None => {
                let before = self.next.unwrap_or(seq).wrapping_sub(seq) as usize;
                (0, s.payload.get(before..).unwrap_or(&[]))
            }
        };
        let whole = (bytes.len() + s.cut) as u64;
        if s.fin && self.fin.is_none() {
            self.fin = Some(at + whole);
        }
        if (!bytes.is_empty() || s.cut > 0) && at + whole > self.offset {
            self.hold(at, Waiting { at_ns, bytes: Bytes::copy_from_slice(bytes), cut: s.cut });
        }
        self.drain(end, at_ns, log);
        while self.waiting_bytes > MAX_WAITING || self.waiting.len() > MAX_SEGMENTS {
            self.skip_hole(end, log);
            self.drain(end, at_ns, log);
        }
        if self.fin.is_some_and(|fin| fin == self.offset) {
            self.fin = Some(u64::MAX);
            log.push(Piece::Closed { end, at_ns, reset: false });
        }
    }

    fn hold(&mut self, at: u64, new: Waiting) {
        let longer = self.waiting.get(&at).is_none_or(|w| w.bytes.len() + w.cut < new.bytes.len() + new.cut);
        if longer {
            self.waiting_bytes += new.bytes.len();
            if let Some(old) = self.waiting.insert(at, new) {
                self.waiting_bytes -= old.bytes.len();
            }
        }
    }

    /// Moves what is in order to the log. Bytes that waited are as late as what filled the hole before them.
    fn drain(&mut self, end: usize, now_ns: u64, log: &mut Vec<Piece>) {
        while let Some(entry) = self.waiting.first_entry() {
            let at = *entry.key();
            if at > self.offset {
                return;
            }
            let w = entry.remove();
            self.waiting_bytes -= w.bytes.len();
            let at_ns = w.at_ns.max(now_ns);
            let known = (self.offset - at) as usize;
            let bytes = w.bytes.slice(known.min(w.bytes.len())..);
            let cut = (w.bytes.len() + w.cut).saturating_sub(known.max(w.bytes.len()));
            if !bytes.is_empty() {
                self.advance(bytes.len() as u64);
                log.push(Piece::Bytes { end, at_ns, bytes });
            }
            if cut > 0 {
                self.advance(cut as u64);
                log.push(Piece::Gap { end, at_ns, len: cut as u64 });
            }
        }
    }

    fn advance(&mut self, n: u64) {
        self.offset += n;
        self.next = self.next.map(|s| s.wrapping_add(n as u32));
    }

    /// The hole before what waits will not be filled: note it, and go on behind it at the time at which that came.
    fn skip_hole(&mut self, end: usize, log: &mut Vec<Piece>) {
        let Some((&at, w)) = self.waiting.first_key_value() else { return };
        let at_ns = w.at_ns;
        if at > self.offset {
            let len = at - self.offset;
            self.advance(len);
            log.push(Piece::Gap { end, at_ns, len });
        }
        self.drain(end, at_ns, log);
    }

    fn acknowledged(&mut self, end: usize, at_ns: u64, ack: Option<u32>, log: &mut Vec<Piece>) {
        let Some(ack) = ack else { return };
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
            self.skip_hole(end, log);
            self.drain(end, at_ns, log);
        }
    }

    fn give_up(&mut self, end: usize, log: &mut Vec<Piece>) {
        while !self.waiting.is_empty() {
            self.skip_hole(end, log);
        }
        if let Some(fin) = self.fin.filter(|f| *f != u64::MAX && *f >= self.offset) {
            let at_ns = log.iter().rev().find_map(|p| p.at(end)).unwrap_or(0);
            if fin > self.offset {
                let len = fin - self.offset;
                self.advance(len);
                log.push(Piece::Gap { end, at_ns, len });
            }
            self.fin = Some(u64::MAX);
            log.push(Piece::Closed { end, at_ns, reset: false });
        }
    }
}

impl Piece {
    fn at(&self, of: usize) -> Option<u64> {
        match self {
            Piece::Bytes { end, at_ns, .. } | Piece::Gap { end, at_ns, .. } | Piece::Closed { end, at_ns, .. } => {
                (*end == of).then_some(*at_ns)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::EventKind;
    use nvmf_wire::tcp::{IcReq, PduHead};

    fn host() -> SocketAddr {
        "10.0.0.1:50000".parse().unwrap()
    }

    fn controller() -> SocketAddr {
        "10.0.0.2:4420".parse().unwrap()
    }

    fn up(seq: u32, payload: &[u8]) -> Segment<'_> {
        Segment { from: host(), to: controller(), seq, ack: Some(1), syn: false, fin: false, rst: false, payload, cut: 0 }
    }

    fn syn(seq: u32) -> Segment<'static> {
        Segment { syn: true, ack: None, ..up(seq, &[]) }
    }

    /// An ICReq and two more PDUs whose bytes all differ.
    fn stream() -> Vec<u8> {
        let mut b = IcReq::new().as_bytes().to_vec();
        b[2] = 128;
        b[4] = 128;
        for fill in [1u8, 2] {
            b.extend(PduHead::new().with(|s| s.hlen(8).plen(600)).as_bytes());
            b.extend((0..592u32).map(|i| (i as u8).wrapping_mul(fill)));
        }
        b
    }

    fn run(segments: &[(u64, Segment<'_>)]) -> Vec<Connection> {
        let mut tcp = Reassembly::default();
        for (at, s) in segments {
            tcp.segment(*at, s);
        }
        tcp.finish(&[4420]).0
    }

    fn pdus(c: &Connection) -> Vec<u8> {
        c.pdus().flat_map(|(_, b)| b.to_vec()).collect()
    }

    #[test]
    fn segments_out_of_order_repeated_and_overlapping_across_the_wrap() {
        let b = stream();
        let isn = u32::MAX - 200;
        let at = |off: usize| isn.wrapping_add(1).wrapping_add(off as u32);
        let c = run(&[
            (0, syn(isn)),
            (1, syn(isn)),
            (2, up(at(0), &b[..150])),
            (3, up(at(400), &b[400..900])),
            (4, up(at(0), &b[..150])),
            (5, up(at(149), &b[149..150])),
            (6, up(at(880), &b[880..])),
            (7, up(at(100), &b[100..450])),
            (8, Segment { fin: true, ..up(at(b.len()), &[]) }),
        ]);
        assert_eq!(c.len(), 1);
        assert_eq!(pdus(&c[0]), b);
        let times: Vec<u64> = c[0].pdus().map(|(e, _)| e.at_ns).collect();
        assert_eq!(times, [2, 7, 7], "what waited for the hole is as late as what filled it");
        assert_eq!(c[0].events.last().unwrap().kind, EventKind::Closed { reset: false });
    }

    #[test]
    fn every_split_gives_the_same_stream() {
        let b = stream();
        for size in [1, 3, 7, 8, 9, 127, 128, 129, 599, 2000] {
            let segments: Vec<_> =
                b.chunks(size).enumerate().map(|(i, piece)| (i as u64, up(7u32.wrapping_add((i * size) as u32), piece))).collect();
            let c = run(&segments);
            assert_eq!(pdus(&c[0]), b, "pieces of {size}");
            assert_eq!(c[0].chunks.len(), segments.len());
        }
    }

    #[test]
    fn a_hole_that_never_fills_is_a_gap_and_costs_one_pdu() {
        let b = stream();
        let c = run(&[(0, up(0, &b[..200])), (5, up(300, &b[300..])), (9, Segment { rst: true, ..up(b.len() as u32, &[]) })]);
        let kinds: Vec<_> = c[0].events.iter().map(|e| e.kind.clone()).collect();
        assert!(matches!(kinds[0], EventKind::Pdu(_)), "{kinds:?}");
        assert!(matches!(kinds[1], EventKind::Undecodable { offset: 128, len: 72, .. }), "{kinds:?}");
        assert_eq!(kinds[2], EventKind::Gap { offset: 200, len: 100 });
        assert_eq!(kinds[3], EventKind::Pdu(b[728..].to_vec().into()));
        assert_eq!(kinds[4], EventKind::Closed { reset: true });
        assert_eq!(c[0].events[3].at_ns, 5, "the time of its own packet, not of the reset");
    }

    #[test]
    fn an_acknowledged_hole_is_given_up_after_a_while() {
        let b = stream();
        let mut segments = vec![(0, up(0, &b[..200])), (1, up(300, &b[300..]))];
        let ack = Segment {
            from: controller(),
            to: host(),
            seq: 1,
            ack: Some(b.len() as u32),
            syn: false,
            fin: false,
            rst: false,
            payload: &[],
            cut: 0,
        };
        segments.extend((0..=u64::from(GRACE)).map(|i| (2 + i, ack)));
        let mut tcp = Reassembly::default();
        for (at, s) in &segments {
            tcp.segment(*at, s);
        }
        assert!(tcp.flows[0].sides[0].waiting.is_empty());
        assert_eq!(tcp.flows[0].sides[0].offset, b.len() as u64);
    }

    #[test]
    fn what_waits_is_limited() {
        let mut tcp = Reassembly::default();
        tcp.segment(0, &up(0, &[0]));
        let piece = vec![0u8; 60_000];
        for i in 0..1000u32 {
            tcp.segment(1, &up(10 + i * 120_000, &piece));
            assert!(tcp.flows[0].sides[0].waiting_bytes <= MAX_WAITING);
        }
        assert_eq!(
            tcp.flows[0].sides[0].waiting_bytes,
            tcp.flows[0].sides[0].waiting.values().map(|w| w.bytes.len()).sum::<usize>()
        );
    }

    #[test]
    fn cut_frames_leave_gaps_of_the_right_length() {
        let b = stream();
        let c = run(&[
            (0, up(0, &b[..128])),
            (1, Segment { cut: 500, ..up(128, &b[128..228]) }),
            (2, Segment { cut: 500, ..up(728, &b[728..828]) }),
        ]);
        let gaps: Vec<_> = c[0].events.iter().filter(|e| matches!(e.kind, EventKind::Gap { len: 500, .. })).collect();
        assert_eq!(gaps.len(), 2);
        assert_eq!(c[0].pdus().count(), 1);
    }

    #[test]
    fn the_host_is_told_by_its_icreq_on_any_port_and_other_traffic_is_left_out() {
        let b = stream();
        let swap =
            |s: Segment<'static>, from: &str, to: &str| Segment { from: from.parse().unwrap(), to: to.parse().unwrap(), ..s };
        let b: &'static [u8] = b.leak();
        let mut tcp = Reassembly::default();
        tcp.segment(0, &swap(up(0, b), "10.0.0.1:22", "10.0.0.2:50001"));
        tcp.segment(0, &swap(up(0, b"SSH-2.0-x\r\n"), "10.0.0.1:22", "10.0.0.2:50002"));
        let (c, others) = tcp.finish(&[4420]);
        assert_eq!((c.len(), others), (1, 1));
        assert_eq!(c[0].client.port(), 22);
    }

    #[test]
    fn a_new_syn_on_the_same_ports_is_a_new_connection() {
        let b = stream();
        let c = run(&[
            (0, syn(10)),
            (1, up(11, &b)),
            (2, Segment { rst: true, ..up(11 + b.len() as u32, &[]) }),
            (3, syn(90_000)),
            (4, up(90_001, &b)),
        ]);
        assert_eq!(c.len(), 2);
        assert_eq!(pdus(&c[1]), b);
    }
}
