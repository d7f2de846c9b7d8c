//! TCP reassembly: from segments to the two byte streams of each connection, as they come. [RFC 9293, 3.4]
//!
//! Own code, small: sequence numbers that wrap, segments out of order, repeated and overlapping ones (the first copy counts), and
//! bytes that the capture misses. What waits for a hole is limited, for each direction and in all, so that a capture cannot exhaust us.
//!
//! Which connections carry NVMe/TCP, and which end is the host, is told by [`flow::Flow`].

mod flow;
mod nvme;
mod side;

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::follow::Watcher;
use crate::packet::Segment;
use crate::tls::KeyLog;
use flow::{Flow, Shared};

/// Most connections that are remembered, over or not; the half that was silent for longest goes first.
const MAX_FLOWS: usize = 32_768;

/// All connections of a capture.
pub(crate) struct Reassembly {
    flows: HashMap<(SocketAddr, SocketAddr), Flow>,
    shared: Shared,
}

impl Reassembly {
    /// Connections on `ports` are taken for NVMe/TCP whatever they carry.
    pub(crate) fn new(ports: Vec<u16>, keys: KeyLog) -> Self {
        Self { flows: HashMap::new(), shared: Shared::new(ports, keys) }
    }

    /// The secrets of TLS connections, for more to be added.
    pub(crate) fn keys(&mut self) -> &mut KeyLog {
        &mut self.shared.keys
    }

    /// Takes the next segment of the capture, which came in frame `number`.
    pub(crate) fn segment(&mut self, at_ns: u64, number: u64, s: &Segment<'_>, watcher: &mut dyn Watcher) {
        let key = if s.from <= s.to { (s.from, s.to) } else { (s.to, s.from) };
        let opens = s.syn && s.ack.is_none();
        let shared = &mut self.shared;
        let flow = match self.flows.get_mut(&key) {
            Some(flow) => {
                if opens && !flow.is_repeat_of_syn(s) {
                    std::mem::replace(flow, Flow::new(s, at_ns)).finish(shared, watcher);
                }
                flow
            }
            None => {
                if self.flows.len() >= MAX_FLOWS {
                    evict(&mut self.flows, shared, watcher);
                }
                self.flows.entry(key).or_insert_with(|| Flow::new(s, at_ns))
            }
        };
        flow.segment(at_ns, number, s, shared, watcher);
    }

    /// The number of the next connection, whatever carries it.
    pub(crate) fn numbers(&mut self) -> &mut usize {
        &mut self.shared.next
    }

    /// The capture is over. Returns how many connections carried something else.
    pub(crate) fn finish(mut self, watcher: &mut dyn Watcher) -> usize {
        drain(self.flows.drain().map(|(_, f)| f).collect(), &mut self.shared, watcher);
        self.shared.others
    }
}

/// Lets go of the half of all connections that was silent for longest.
fn evict(flows: &mut HashMap<(SocketAddr, SocketAddr), Flow>, shared: &mut Shared, watcher: &mut dyn Watcher) {
    let mut seen: Vec<u64> = flows.values().map(|f| f.seen).collect();
    let middle = seen.len() / 2;
    let (_, &mut limit, _) = seen.select_nth_unstable(middle);
    let old = flows.extract_if(|_, f| f.seen <= limit).map(|(_, f)| f).collect();
    drain(old, shared, watcher);
}

/// Ends connections in the order in which they were opened.
fn drain(mut flows: Vec<Flow>, shared: &mut Shared, watcher: &mut dyn Watcher) {
    flows.sort_by_key(|f| f.first);
    for flow in flows {
        flow.finish(shared, watcher);
    }
}

#[cfg(test)]
mod tests {
    use super::side::{GRACE, MAX_WAITING, Side};
    use super::*;
    use crate::exchange::{Connection, EventKind};
    use crate::kept::Kept;
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
        let mut kept = Kept::default();
        let mut tcp = Reassembly::new(vec![4420], KeyLog::default());
        for (i, (at, s)) in segments.iter().enumerate() {
            tcp.segment(*at, 1 + i as u64, s, &mut kept);
        }
        tcp.finish(&mut kept);
        kept.into_exchange().connections
    }

    fn side(tcp: &Reassembly) -> &Side {
        tcp.flows.values().next().unwrap().sides.first().unwrap()
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
        let mut tcp = Reassembly::new(vec![4420], KeyLog::default());
        for (at, s) in &segments {
            tcp.segment(*at, *at, s, &mut Kept::default());
        }
        assert!(side(&tcp).waiting.is_empty());
        assert_eq!(side(&tcp).offset, b.len() as u64);
    }

    #[test]
    fn what_waits_is_limited() {
        let mut tcp = Reassembly::new(vec![4420], KeyLog::default());
        let mut kept = Kept::default();
        tcp.segment(0, 1, &up(0, &[0]), &mut kept);
        let piece = vec![0u8; 60_000];
        for i in 0..1000u32 {
            tcp.segment(1, 2, &up(10 + i * 120_000, &piece), &mut kept);
            assert!(side(&tcp).waiting_bytes <= MAX_WAITING);
        }
        assert_eq!(side(&tcp).waiting_bytes, side(&tcp).waiting.values().map(|w| w.bytes.len()).sum::<usize>());
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
        let mut tcp = Reassembly::new(vec![4420], KeyLog::default());
        let mut kept = Kept::default();
        tcp.segment(0, 1, &swap(up(0, b), "10.0.0.1:22", "10.0.0.2:50001"), &mut kept);
        tcp.segment(0, 2, &swap(up(0, b"SSH-2.0-x\r\n"), "10.0.0.1:22", "10.0.0.2:50002"), &mut kept);
        let others = tcp.finish(&mut kept);
        let c = kept.into_exchange().connections;
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
