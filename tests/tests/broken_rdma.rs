//! Hand-broken copies of recorded RDMA captures: bytes of one packet are changed, its ICRC made right again, and the copy is judged as
//! `nvmfspec lint` judges it and held beside the original. The rule that was broken is named with the side that broke it, and so is the
//! field.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

use bytes::Bytes;
use nvmf_capture::compare::{Options, What, compare};
use nvmf_capture::{Capture, Direction, EventKind, Exchange, Judge, live};
use nvmf_wire::roce::{ICRC_LEN, UDP_PORT, icrc};

/// One broken copy.
struct Case {
    /// The capture, below `captures/linux-6.12`, without `.pcap.gz`.
    capture: &'static str,
    /// Frame of the packet.
    frame: u64,
    /// From this byte of the BTH on, these bytes.
    set: (usize, &'static [u8]),
    /// Its ICRC stays as it was.
    stale: bool,
    /// What is found, and nothing else: ids, each with the side that broke it.
    breaks: &'static [&'static str],
    /// What the comparison names; nothing where it compares no such thing.
    field: &'static str,
}

const fn case(
    capture: &'static str,
    frame: u64,
    set: (usize, &'static [u8]),
    breaks: &'static [&'static str],
    field: &'static str,
) -> Case {
    Case { capture, frame, set, stale: false, breaks, field }
}

/// Bytes of a BTH, and where behind it a RETH, a capsule, a CM message and its private data begin.
const BTH: usize = 12;
const CM: usize = BTH + 8 + 24;
const PRIVATE: usize = CM + 140 + 36;

const RETH: usize = BTH;
const SQE: usize = BTH;

#[rustfmt::skip] // a table
const CASES: &[Case] = &[
    case("rdma-io", 1, (PRIVATE, &[1]), &["RDMA-CM-10 host", "RDMA-CM-24 controller"], "CmReq.RdmaRequest.recfmt"),
    case("rdma-io", 76, (PRIVATE + 2, &[2]), &["RDMA-CM-11 host"], "CmReq.RdmaRequest.qid"),
    case("rdma-io", 76, (PRIVATE + 6, &[0x7e]), &["RDMA-CM-13 host"], "CmReq.RdmaRequest.hsqsize"),
    case("rdma-io", 1, (PRIVATE + 8, &[1]), &["RDMA-CM-14 host", "RDMA-CM-30 controller"], "CmReq.RdmaRequest.cntlid"),
    case("rdma-io", 76, (PRIVATE + 8, &[5]), &["RDMA-CM-15 host"], "CmReq.RdmaRequest.cntlid"),
    case("rdma-io", 1, (PRIVATE + 12, &[1]), &["RDMA-CM-16 host"], "CmReq.RdmaRequest.reserved[12]"),
    case("rdma-io", 2, (CM + 36, &[1]), &["RDMA-CM-18 controller"], "CmRep.RdmaAccept.recfmt"),
    case("rdma-io", 2, (CM + 36 + 8, &[1]), &["RDMA-CM-18 controller"], "CmRep.RdmaAccept.reserved[8]"),
    case("rdma-io", 315, (RETH + 8, &[0xee]), &["RDMA-DATA-05 controller", "RDMA-DATA-10 controller"], "only in A: < Read Write"),
    case("rdma-io", 315, (RETH + 7, &[4]), &["RDMA-DATA-10 controller"], "Read.Write.offset"),
    case("rdma-io", 315, (RETH + 12, &[0, 1, 0, 4]), &["RDMA-DATA-10 controller"], "Read.Write.length"),
    case("rdma-io", 397, (RETH + 8, &[0xee]), &["RDMA-DATA-07 controller", "RDMA-DATA-10 controller"], "only in A: < Write Read"),
    case("rdma-io", 398, (BTH, &[0xee]), &["RDMA-KEY-07 controller"], "CapsuleResp.Read.invalidate"),
    case("rdma-io", 313, (SQE + 39, &[0x40]), &["RDMA-KEY-08 controller"], "CapsuleCmd.Write.SglKeyed.sub"),
    case("rdma-io", 511, (SQE + 39, &[0x5a]), &["RDMA-SGL-02 host"], "CapsuleCmd.Flush"),
    case("rdma-io", 513, (4, &[1]), &["ROCE-BTH-02 controller"], ""),
    case("rdma-io", 513, (1, &[1]), &["ROCE-BTH-01 controller"], "only in A: < CapsuleResp Flush"),
    case("rdma-io", 512, (13, &[0xff]), &["ROCE-ACK-02 controller"], ""),
    case("rdma-io", 512, (9, &[0xff]), &["ROCE-ACK-01 controller"], ""),
    Case { stale: true, ..case("rdma-io", 513, (BTH + 8, &[0x77]), &["ROCE-ICRC-01 controller"], "only in B: < Packet") },
];

/// A packet: time, frame, and the IP packet.
type Whole = (u64, u64, Vec<u8>);

/// The packets of a capture: time, frame, and the IP packet, put together anew round what is behind the UDP header.
fn packets(capture: &str) -> Vec<Whole> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../captures/linux-6.12/{capture}.pcap.gz"));
    let exchange = Capture::open(path).unwrap_or_else(|e| panic!("{capture}: {e}")).into_exchange();
    let mut out = Vec::new();
    for (conn, event) in exchange.events() {
        let EventKind::Packet(packet) = &event.kind else { continue };
        let c = &exchange.connections[conn];
        let ends = if event.dir == Direction::HostToController { [c.client, c.server] } else { [c.server, c.client] };
        let [IpAddr::V4(from), IpAddr::V4(to)] = ends.map(|e| e.ip()) else { panic!("{capture} is over IPv4") };
        let udp = (8 + packet.bytes.len()) as u16;
        let mut b = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
        b.extend(from.octets().into_iter().chain(to.octets()));
        b.extend([49_152, UDP_PORT, udp, 0].iter().flat_map(|n: &u16| n.to_be_bytes()));
        b.extend_from_slice(&packet.bytes);
        let len = (b.len() as u16).to_be_bytes();
        b[2..4].copy_from_slice(&len);
        seal(&mut b);
        out.push((event.at_ns, event.frame, b));
    }
    out.sort_by_key(|(at, frame, _)| (*at, *frame));
    out
}

/// Makes the ICRC of an IP packet right.
fn seal(packet: &mut [u8]) {
    let end = packet.len() - ICRC_LEN;
    let right = icrc(&packet[..end]).expect("an IP packet of RoCEv2");
    packet[end..].copy_from_slice(&right);
}

fn read(packets: &[Whole]) -> Exchange {
    let all: Vec<(u64, Bytes)> = packets.iter().map(|(at, _, b)| (*at, Bytes::copy_from_slice(b))).collect();
    Exchange { connections: live::roce(&all, 4420) }
}

/// What is found, each as often as it is.
fn findings(exchange: &Exchange) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    let mut judge = Judge::new().exclusive();
    for f in exchange.events().into_iter().flat_map(|(conn, event)| judge.event(conn, event)) {
        *out.entry(format!("{} {}: {}", f.requirement.id, f.side, f.seen)).or_default() += 1;
    }
    out
}

/// What is found in the copy and not in the original, and the fields in which the two differ.
fn broken(original: &[Whole], case: &Case) -> (BTreeSet<String>, Vec<String>) {
    let mut copy = original.to_vec();
    let (_, _, packet) = copy.iter_mut().find(|(_, frame, _)| *frame == case.frame).expect("the frame");
    let (at, new) = (28 + case.set.0, case.set.1);
    assert_ne!(packet[at..at + new.len()], *new, "nothing is changed");
    packet[at..at + new.len()].copy_from_slice(new);
    if !case.stale {
        seal(packet);
    }
    let (a, b) = (read(original), read(&copy));
    let before = findings(&a);
    let new = findings(&b).into_iter().filter(|(f, n)| before.get(f).is_none_or(|m| m < n)).map(|(f, _)| f).collect();
    let report = compare(&a, &b, &Options::default()).expect("nothing to look for");
    let fields = report.differences.iter().map(|d| match &d.what {
        What::Field { path, .. } => path.clone(),
        other => other.to_string(),
    });
    (new, fields.collect())
}

#[test]
fn each_break_is_named() {
    let mut originals: BTreeMap<&str, Vec<Whole>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in CASES {
        let original = originals.entry(case.capture).or_insert_with(|| packets(case.capture));
        let (found, fields) = broken(original, case);
        let ids: BTreeSet<&str> = found.iter().filter_map(|f| f.split_once(':').map(|(id, _)| id)).collect();
        let named = if case.field.is_empty() { fields.is_empty() } else { fields.iter().any(|f| f.contains(case.field)) };
        if ids != case.breaks.iter().copied().collect() || !named {
            wrong.push(format!("{} frame {} {:?}: {found:#?}, {fields:?}", case.capture, case.frame, case.set));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Put together anew, a capture is what it was.
#[test]
fn a_copy_without_a_change_is_equal() {
    for capture in CASES.iter().map(|c| c.capture).collect::<BTreeSet<_>>() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../captures/linux-6.12/{capture}.pcap.gz"));
        let original = Capture::open(path).expect("a capture").into_exchange();
        let report = compare(&original, &read(&packets(capture)), &Options::default()).expect("nothing to look for");
        assert!(report.is_equal() && report.messages > 100, "{capture}: {}", report.text(20));
    }
}
