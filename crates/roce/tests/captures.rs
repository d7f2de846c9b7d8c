//! Recorded packets of Linux against the NIC: all of them are read, and what Linux's host asked of Linux's target is answered here, with
//! nothing else different than what a NIC chooses.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::IpAddr;

use bytes::{Bytes, BytesMut};
use nvmf_roce::testing::Pair;
use nvmf_roce::{Nic, NicSettings};
use nvmf_seam::Instant;
use nvmf_seam::rdma::{Accept, Asked, CmEvent, Completion, Device, DeviceEvent, Done, Pd, QpId, Work, WorkId};
use nvmf_wire::cm::{CmMessage, CmRep, CmReq, CmRtu, Mad};
use nvmf_wire::layout::Structure;
use nvmf_wire::roce::{AethKind, Headers, RoceOpcode, icrc, psn_add, psn_distance};

/// Captures in which the host is Linux's, and whom it is connected to.
const HOSTS: [&str; 8] = [
    "linux-6.12/rdma-admin",
    "linux-6.12/rdma-aen-ns",
    "linux-6.12/rdma-connect-plain",
    "linux-6.12/rdma-discover-8009",
    "linux-6.12/rdma-inline0",
    "linux-6.12/rdma-inline16k",
    "linux-6.12/rdma-io",
    "linux-6.12/rdma-keepalive-reset",
];
const OTHERS: [&str; 8] = [
    "rxe-peer/h1-udp6-tap",
    "rxe-peer/psn-swapped",
    "rxe-peer/t1-udp-fault-dreq",
    "rxe-peer/t1-udp-fault-droprx",
    "rxe-peer/t1-udp-fault-droptx",
    "rxe-peer/t1-udp-fault-rej",
    "rxe-peer/t1-udp-fault-reqlost",
    "rxe-peer/t1-udp-fault-rnr",
];

/// IP packets of a pcap file of Ethernet frames that go to UDP port 4791, with the bytes that pad their frames.
fn packets(name: &str) -> Vec<Bytes> {
    let path = format!("{}/../../captures/{name}.pcap.gz", env!("CARGO_MANIFEST_DIR"));
    let mut file = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).expect("a capture")).read_to_end(&mut file).expect("gzip");
    let (mut at, mut out) = (24, Vec::new());
    while at < file.len() {
        let len = u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap()) as usize;
        let frame = &file[at + 16..at + 16 + len];
        let (protocol, port) = match frame[12..14] {
            [0x08, 0] => (frame[23], 36),
            [0x86, 0xdd] => (frame[20], 56),
            _ => (0, 0),
        };
        if protocol == 17 && frame[port..port + 2] == 4791u16.to_be_bytes() {
            out.push(Bytes::copy_from_slice(&frame[14..]));
        }
        at += 16 + len;
    }
    out
}

/// Where the BTH begins, who sent the packet, and whom.
fn outer(d: &[u8]) -> (usize, IpAddr, IpAddr) {
    let v4 = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&d[at..at + 4]).unwrap());
    let v6 = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&d[at..at + 16]).unwrap());
    if d[0] >> 4 == 4 { (28, v4(12), v4(16)) } else { (48, v6(8), v6(24)) }
}

/// End of the packet before its ICRC.
fn end(d: &[u8]) -> usize {
    let at = if d[0] >> 4 == 4 { 2 } else { 4 };
    usize::from(u16::from_be_bytes([d[at], d[at + 1]])) + if at == 4 { 40 } else { 0 } - 4
}

fn headers(d: &[u8]) -> Headers {
    Headers::read(&d[outer(d).0..end(d)]).expect("headers")
}

/// MAD header and message of a CM packet.
fn message(d: &[u8]) -> Option<(Mad, Vec<u8>)> {
    let h = headers(d);
    h.deth?;
    let at = outer(d).0 + h.len;
    Some((Mad::read(&d[at..]).unwrap(), d[at + Mad::LEN..].to_vec()))
}

#[test]
fn all_recorded_packets_can_be_read() {
    let mut all = 0;
    for name in HOSTS.into_iter().chain(OTHERS) {
        let packets = packets(name);
        assert!(!packets.is_empty(), "{name}");
        let mut nics: BTreeMap<IpAddr, Nic> = BTreeMap::new();
        for packet in &packets {
            let (_, from, to) = outer(packet);
            for address in [from, to] {
                nics.entry(address).or_insert_with(|| Nic::new(NicSettings::new(address), 1));
            }
            nics.get_mut(&to).unwrap().handle_datagram(Instant::START, packet.clone());
        }
        let count = |f: fn(&nvmf_roce::Counters) -> u64| nics.values().map(|n| f(n.counters())).sum::<u64>();
        all += count(|c| c.received);
        assert_eq!(count(|c| c.received), packets.len() as u64);
        let bad = count(|c| c.not_ip + c.not_ours + c.truncated + c.bad_icrc + c.bad_version + c.bad_pkey + c.bad_mad);
        assert_eq!(bad, 0, "{name}");
        // All others are for queue pairs that these NICs never had, or for nobody who listens.
        assert!(count(|c| c.unknown_qp) > 0 || name.ends_with("fault-rej") || name.ends_with("outside"), "{name}");
    }
    assert!(all > 4900, "{all}");
}

/// One connection of the capture, as the NIC took it up.
struct Replayed {
    qp: QpId,
    /// Queue pair of the host.
    peer_qpn: u32,
    /// What Linux's target chose, and what the NIC did: QPN, communication ID, first PSN of the host.
    theirs: (u32, u32, u32),
    ours: (u32, u32, u32),
    /// SENDs of the host: the bytes of each message as the capture has them.
    sends: Vec<Vec<u8>>,
    got: Vec<Bytes>,
    /// PSN behind the last request of the host.
    next: u32,
    /// MSN of our acknowledgements, by how far their PSN is from the first.
    acks: BTreeMap<i32, u32>,
}

/// Changes what a packet of the host says of the target's choices into the NIC's, and gives it the right ICRC again.
fn translate(packet: &Bytes, c: &Replayed) -> Bytes {
    let (at, ..) = outer(packet);
    let end = end(packet);
    let h = headers(packet);
    let mut p = BytesMut::from(&packet[..]);
    if h.deth.is_some() {
        // Remote communication ID of RTU and DREQ, and the QPN of a DREQ.
        let body = at + h.len + Mad::LEN;
        p[body + 4..body + 8].copy_from_slice(&c.ours.1.to_be_bytes());
        if message(packet).is_some_and(|(mad, _)| mad.attribute() == CmMessage::DREQ) {
            p[body + 8..body + 11].copy_from_slice(&c.ours.0.to_be_bytes()[1..]);
        }
    } else {
        p[at + 5..at + 8].copy_from_slice(&c.ours.0.to_be_bytes()[1..]);
        if !h.bth.opcode().is_response() {
            let psn = psn_add(c.ours.2, psn_distance(h.bth.psn(), c.theirs.2) as u32);
            p[at + 9..at + 12].copy_from_slice(&psn.to_be_bytes()[1..]);
        }
    }
    let crc = icrc(&p[..end]).unwrap();
    p[end..end + 4].copy_from_slice(&crc);
    p.freeze()
}

/// The fields of two REPs that differ.
fn differing(a: &CmRep, b: &CmRep) -> Vec<String> {
    CmRep::LAYOUT.diff(a.as_bytes(), b.as_bytes()).into_iter().map(|(name, ..)| name).collect()
}

#[test]
fn what_linux_asks_for_is_answered_as_linux_answers() {
    let mut connections = 0;
    let (mut sends, mut twice, mut acks) = (0, 0, 0);
    for name in HOSTS {
        let packets = packets(name);
        let target = IpAddr::from([10, 9, 0, 2]);
        let mut nic = Nic::new(NicSettings { max_reads: 128, ack_delay: 15, ..NicSettings::new(target) }, 9);
        for port in [4420, 4421, 4422, 8009] {
            nic.listen(port).unwrap();
        }
        let mut replayed: Vec<Replayed> = Vec::new();
        let mut repeated = 0;
        for (n, packet) in packets.iter().enumerate() {
            let (_, from, to) = outer(packet);
            if to != target {
                continue;
            }
            let now = Instant(n as u64 * 1000);
            match message(packet) {
                Some((mad, body)) if mad.attribute() == CmMessage::REQ => {
                    let req = CmReq::read(&body).unwrap();
                    // What Linux's target answered.
                    let rep = packets.iter().skip(n).find_map(|p| {
                        let (mad, body) = message(p).filter(|_| outer(p).2 == from)?;
                        let rep = CmRep::read(&body).unwrap();
                        (mad.attribute() == CmMessage::REP && rep.remote_id() == req.local_id()).then_some(rep)
                    });
                    let Some(rep) = rep else { continue };
                    if replayed.iter().any(|c| c.theirs.1 == rep.local_id()) {
                        continue;
                    }
                    nic.handle_datagram(now, packet.clone());
                    replayed.push(take_up(&mut nic, now, &req, &rep));
                    connections += 1;
                }
                Some((_, body)) => {
                    let rtu = CmRtu::read(&body).unwrap();
                    if let Some(c) = replayed.iter().find(|c| c.theirs.1 == rtu.remote_id()) {
                        nic.handle_datagram(now, translate(packet, c));
                    }
                }
                None => {
                    let h = headers(packet);
                    let Some(c) = replayed.iter_mut().find(|c| c.theirs.0 == h.bth.dqpn()) else { continue };
                    let payload = h.payload(&packet[outer(packet).0..end(packet) + 4]).unwrap();
                    let op = h.bth.opcode();
                    let again = !op.is_response() && psn_distance(h.bth.psn(), c.next) < 0;
                    if !op.is_response() && !again {
                        c.next = psn_add(h.bth.psn(), 1);
                    }
                    repeated += u64::from(again);
                    if op.is_send() && !again {
                        match c.sends.last_mut().filter(|_| !op.begins()) {
                            Some(last) => last.extend_from_slice(payload),
                            None => c.sends.push(payload.to_vec()),
                        }
                    }
                    let translated = translate(packet, c);
                    nic.handle_datagram(now, translated);
                }
            }
            while let Some(d) = nic.poll_datagram(now) {
                let sent = headers(&d.to_bytes());
                let of = replayed.iter_mut().find(|c| nic.facts(c.qp).is_some_and(|f| f.peer_qpn == sent.bth.dqpn()));
                if let (Some(c), Some(aeth)) = (of, sent.aeth) {
                    c.acks.insert(psn_distance(sent.bth.psn(), c.ours.2), aeth.msn());
                }
            }
            collect(&mut nic, &mut replayed);
        }
        acks += same_msns(&packets, target, &replayed);
        let c = *nic.counters();
        let bad = c.bad_icrc + c.unknown_qp + c.psn_ahead + c.nak_invalid + c.nak_access + c.rnr_sent + c.refused_req;
        // What the host sent twice is acknowledged, and not executed twice: in rdma-keepalive-reset two SENDs.
        assert_eq!((bad, c.duplicate), (0, repeated), "{name}: {c:?}");
        twice += repeated;
        for c in &replayed {
            assert!(!c.sends.is_empty() && c.got.iter().eq(&c.sends), "{name}: {} of {} SENDs", c.got.len(), c.sends.len());
            sends += c.got.len();
        }
    }
    assert!(connections >= 16 && sends > 300 && twice == 2 && acks > 300, "{connections} {sends} {twice} {acks}");
}

/// Linux's target counts messages as the NIC does: for each acknowledgement of its own, ours of the same PSN has its MSN. Gives how many
/// were compared.
fn same_msns(packets: &[Bytes], target: IpAddr, replayed: &[Replayed]) -> usize {
    let mut compared = 0;
    for packet in packets.iter().filter(|p| outer(p).1 == target) {
        let h = headers(packet);
        let Some(aeth) = h.aeth.filter(|_| h.bth.opcode() == RoceOpcode::ACK) else { continue };
        assert_eq!((aeth.kind(), aeth.value()), (AethKind::ACK, 31), "soft-RoCE says nothing of credits");
        let of = replayed.iter().find(|c| c.peer_qpn == h.bth.dqpn());
        if let Some((c, ours)) = of.and_then(|c| Some((c, c.acks.get(&psn_distance(h.bth.psn(), c.theirs.2))?))) {
            assert_eq!(aeth.msn(), *ours, "{:?}", c.theirs);
            compared += 1;
        }
    }
    compared
}

/// The NIC accepts as Linux's target did. Its REP has the same in all fields but those that every NIC chooses for itself.
fn take_up(nic: &mut Nic, now: Instant, req: &CmReq, rep: &CmRep) -> Replayed {
    let Some((qp, DeviceEvent::Cm(CmEvent::Request(asked)))) = nic.poll_event() else { panic!("no request of {req}") };
    let Asked { from, to, private, responder_resources, .. } = asked;
    assert_eq!((from.ip(), to.ip()), (IpAddr::from([10, 9, 0, 1]), IpAddr::from([10, 9, 0, 2])));
    assert_eq!((u64::from(to.port()), &private[..]), (req.service_id() - 0x0106_0000, &req.private()[36..]));
    assert_eq!(responder_resources, req.resources());
    for id in 0..200 {
        nic.post(now, qp, Work::Receive { id: WorkId(id), len: 17_000 }).unwrap();
    }
    let accept = Accept {
        private: Bytes::copy_from_slice(&rep.private()),
        responder_resources: rep.resources(),
        initiator_depth: rep.depth(),
        rnr_retry_count: rep.rnr_retries(),
        pd: Pd(1),
    };
    nic.accept(now, qp, &accept).unwrap();
    let sent = nic.poll_datagram(now).unwrap().to_bytes();
    let ours = CmRep::read(&message(&sent).unwrap().1).unwrap();
    let expected = ["local_id", "qpn", "psn", "ca_guid"];
    let other: Vec<String> = differing(rep, &ours).into_iter().filter(|f| !expected.contains(&&f[..])).collect();
    assert!(other.is_empty(), "{other:?}\n{rep}\n{ours}");
    Replayed {
        qp,
        peer_qpn: req.qpn(),
        theirs: (rep.qpn(), rep.local_id(), rep.psn()),
        ours: (ours.qpn(), ours.local_id(), ours.psn()),
        sends: Vec::new(),
        got: Vec::new(),
        next: rep.psn(),
        acks: BTreeMap::new(),
    }
}

fn collect(nic: &mut Nic, replayed: &mut [Replayed]) {
    while let Some((qp, event)) = nic.poll_event() {
        if let DeviceEvent::Completed(Completion { result: Ok(Done::Received { data, .. }), .. }) = event
            && let Some(c) = replayed.iter_mut().find(|c| c.qp == qp)
        {
            c.got.push(data);
        }
    }
}

/// Our REQ beside that of Linux's host.
#[test]
fn a_request_is_as_linux_asks() {
    let mut seen = 0;
    for name in HOSTS {
        for packet in packets(name) {
            let Some((mad, body)) = message(&packet).filter(|(m, _)| m.attribute() == CmMessage::REQ) else { continue };
            let theirs = CmReq::read(&body).unwrap();
            let (_, from, to) = outer(&packet);
            let mut nic = Nic::new(NicSettings { max_reads: 128, ..NicSettings::new(from) }, 3);
            let ask = nvmf_seam::rdma::Ask {
                private: Bytes::copy_from_slice(&theirs.private()[36..]),
                responder_resources: theirs.resources(),
                initiator_depth: theirs.depth(),
                retry_count: theirs.retries(),
                rnr_retry_count: theirs.rnr_retries(),
                flow_control: theirs.flow_control(),
                ..Pair::ask()
            };
            let port = (theirs.service_id() - 0x0106_0000) as u16;
            nic.connect(Instant::START, (to, port).into(), &ask).unwrap();
            let (our_mad, body) = message(&nic.poll_datagram(Instant::START).unwrap().to_bytes()).unwrap();
            let ours = CmReq::read(&body).unwrap();
            let mads = Mad::LAYOUT.diff(mad.as_bytes(), our_mad.as_bytes());
            assert!(mads.iter().all(|(n, ..)| n == "tid"), "{mads:?}");
            let chosen = ["local_id", "qpn", "psn", "ca_guid"];
            let differs = CmReq::LAYOUT.diff(theirs.as_bytes(), ours.as_bytes());
            let text: Vec<String> = differs
                .into_iter()
                .filter(|(n, ..)| !chosen.contains(&&n[..]) && n != "private")
                .map(|(n, theirs, ours)| format!("{n}: {theirs}, ours {ours}"))
                .collect();
            if seen == 0 {
                insta::assert_snapshot!(text.join("\n"));
            }
            // Of the private data only the source port is chosen.
            let (a, b) = (theirs.private(), ours.private());
            assert!((0..92).all(|i| a[i] == b[i] || i == 2 || i == 3), "{a:?} {b:?}");
            seen += 1;
        }
    }
    assert!(seen >= 16, "{seen}");
}
