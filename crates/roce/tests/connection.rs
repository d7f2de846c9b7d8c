//! Connection management where messages are lost, doubled, late or wrong; addresses of both families; congestion marks; credits.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use nvmf_roce::testing::{Faults, Pair};
use nvmf_roce::{Datagram, Nic, NicSettings};
use nvmf_seam::rdma::{Ask, CmEvent, Completion, Device, DeviceEvent, Done, QpId, Work, WorkError, WorkId};
use nvmf_seam::{Head, Instant};
use nvmf_wire::Value;
use nvmf_wire::cm::{CmMessage, CmRej, Mad, RejReason};
use nvmf_wire::roce::{Aeth, AethKind, Headers, RoceOpcode};

const MS: Duration = Duration::from_millis(1);

/// The CM message of a datagram over IPv4.
fn message(d: &Datagram) -> Option<(CmMessage, Bytes)> {
    let bytes = d.to_bytes();
    let h = Headers::read(&bytes[28..]).unwrap();
    h.deth?;
    let mad = Mad::read(&bytes[28 + h.len..]).unwrap();
    Some((mad.attribute(), bytes.slice(28 + h.len + Mad::LEN..)))
}

fn opcode(d: &Datagram) -> RoceOpcode {
    Headers::read(&d.to_bytes()[28..]).unwrap().bth.opcode()
}

/// All that a NIC has to send now.
fn out(nic: &mut Nic, now: Instant) -> Vec<Datagram> {
    core::iter::from_fn(|| nic.poll_datagram(now)).collect()
}

/// Hands over what `keep` does not drop, and says what there was.
fn carry(pair: &mut Pair, from: usize, keep: impl Fn(CmMessage) -> bool) -> Vec<CmMessage> {
    let now = pair.now;
    let mut seen = Vec::new();
    for d in out(&mut pair.nics[from], now) {
        let (kind, _) = message(&d).expect("CM");
        seen.push(kind);
        if keep(kind) {
            pair.nics[1 - from].handle_parts(now, &d);
        }
    }
    seen
}

/// The CM event that waits first at a NIC.
fn event(nic: &mut Nic) -> Option<CmEvent> {
    core::iter::from_fn(|| nic.poll_event()).find_map(|(_, e)| match e {
        DeviceEvent::Cm(e) => Some(e),
        _ => None,
    })
}

fn begin(change: impl Fn(&mut NicSettings)) -> (Pair, QpId) {
    let mut pair = Pair::new(21, |s| {
        // 4.096 us * 2^10 is about 4.2 ms.
        (s.cm_timeout, s.cm_retries) = (10, 3);
        change(s);
    });
    pair.nics[1].listen(4420).unwrap();
    let now = pair.now;
    let a = pair.nics[0].connect(now, (Pair::ADDRESSES[1], 4420).into(), &Pair::ask()).unwrap();
    (pair, a)
}

/// Time goes on to the next timeout of one side.
fn timeout(pair: &mut Pair, side: usize) {
    pair.now = pair.nics[side].poll_timeout().expect("something waits");
    let now = pair.now;
    pair.nics[side].handle_timeout(now);
}

fn request(pair: &mut Pair) -> QpId {
    match pair.nics[1].poll_event() {
        Some((qp, DeviceEvent::Cm(CmEvent::Request(_)))) => qp,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_message_may_be_lost_once() {
    let (mut pair, a) = begin(|_| {});
    use CmMessage as M;
    assert_eq!(carry(&mut pair, 0, |_| false), [M::REQ]);
    timeout(&mut pair, 0);
    assert_eq!(carry(&mut pair, 0, |_| true), [M::REQ]);
    let b = request(&mut pair);
    // The same REQ while the consumer still decides: MRA, and no second request.
    timeout(&mut pair, 0);
    assert_eq!(carry(&mut pair, 0, |_| true), [M::REQ]);
    assert_eq!(carry(&mut pair, 1, |_| true), [M::MRA]);
    assert!(event(&mut pair.nics[1]).is_none());
    // MRA makes the active side wait for the service time: 4.096 us * 2^20 is 4.3 s.
    let due = pair.nics[0].poll_timeout().unwrap();
    assert!(due.since(pair.now) > Duration::from_secs(4));
    let now = pair.now;
    pair.nics[1].accept(now, b, &Pair::accept()).unwrap();
    assert!(pair.nics[1].accept(now, b, &Pair::accept()).is_err());
    assert_eq!(carry(&mut pair, 1, |_| false), [M::REP]);
    timeout(&mut pair, 1);
    assert_eq!(carry(&mut pair, 1, |_| true), [M::REP]);
    assert!(matches!(event(&mut pair.nics[0]), Some(CmEvent::Accepted(_))));
    assert_eq!(carry(&mut pair, 0, |_| false), [M::RTU]);
    // REP again draws RTU again, and no second event.
    timeout(&mut pair, 1);
    assert_eq!(carry(&mut pair, 1, |_| true), [M::REP]);
    assert_eq!(carry(&mut pair, 0, |_| true), [M::RTU]);
    assert!(event(&mut pair.nics[0]).is_none());
    assert!(matches!(event(&mut pair.nics[1]), Some(CmEvent::Established)));

    let now = pair.now;
    pair.nics[0].disconnect(now, a);
    assert_eq!(carry(&mut pair, 0, |_| false), [M::DREQ]);
    timeout(&mut pair, 0);
    assert_eq!(carry(&mut pair, 0, |_| true), [M::DREQ]);
    assert!(matches!(event(&mut pair.nics[1]), Some(CmEvent::Disconnected)));
    assert_eq!(carry(&mut pair, 1, |_| false), [M::DREP]);
    // Forgotten meanwhile; a DREQ again still gets its answer.
    let now = pair.now;
    pair.nics[1].destroy(now, b);
    timeout(&mut pair, 0);
    assert_eq!(carry(&mut pair, 0, |_| true), [M::DREQ]);
    assert_eq!(carry(&mut pair, 1, |_| true), [M::DREP]);
    assert!(matches!(event(&mut pair.nics[0]), Some(CmEvent::Disconnected)));
    assert!(pair.nics.iter_mut().all(|n| n.poll_timeout().is_none()));
}

#[test]
fn a_send_stands_for_a_lost_rtu() {
    let (mut pair, a) = begin(|_| {});
    carry(&mut pair, 0, |_| true);
    let b = request(&mut pair);
    let now = pair.now;
    pair.nics[1].post(now, b, Work::Receive { id: WorkId(1), len: 64 }).unwrap();
    // Nothing but receives before the connection stands.
    let send = || Work::Send { id: WorkId(2), head: Head::new(&[1; 64]), payload: Bytes::new(), invalidate: None };
    assert!(pair.nics[1].post(now, b, send()).is_err() && pair.nics[0].post(now, a, send()).is_err());
    pair.nics[1].accept(now, b, &Pair::accept()).unwrap();
    carry(&mut pair, 1, |_| true);
    assert_eq!(carry(&mut pair, 0, |_| false), [CmMessage::RTU]);
    pair.nics[0].post(now, a, send()).unwrap();
    pair.settle();
    assert!(matches!(pair.nics[1].poll_event(), Some((_, DeviceEvent::Cm(CmEvent::Established)))));
    let received = pair.nics[1].poll_event();
    assert!(matches!(received, Some((_, DeviceEvent::Completed(Completion { result: Ok(Done::Received { .. }), .. })))));
    // No REP is sent again.
    assert!(!pair.run(Duration::from_secs(1), |p| out(&mut p.nics[1], p.now).iter().any(|d| message(d).is_some())));
}

#[test]
fn who_gets_no_answer_gives_up_and_says_so() {
    let (mut pair, _) = begin(|_| {});
    for _ in 0..4 {
        assert_eq!(carry(&mut pair, 0, |_| false), [CmMessage::REQ]);
        timeout(&mut pair, 0);
    }
    let last = out(&mut pair.nics[0], pair.now);
    let (kind, body) = message(&last[0]).unwrap();
    assert_eq!((kind, CmRej::read(&body).unwrap().reason()), (CmMessage::REJ, RejReason::TIMEOUT));
    assert!(matches!(event(&mut pair.nics[0]), Some(CmEvent::Unreachable)));
    assert_eq!(pair.now.since(Instant::START), 4 * Duration::from_nanos(4096 << 10));
    assert!(pair.nics[0].poll_timeout().is_none());
}

#[test]
fn a_rep_that_nobody_asked_for_is_rejected() {
    let (mut pair, a) = begin(|_| {});
    carry(&mut pair, 0, |_| true);
    let b = request(&mut pair);
    let now = pair.now;
    pair.nics[0].destroy(now, a);
    pair.nics[1].accept(now, b, &Pair::accept()).unwrap();
    carry(&mut pair, 1, |_| true);
    let rej = out(&mut pair.nics[0], now);
    let (kind, body) = message(&rej[0]).unwrap();
    assert_eq!((kind, CmRej::read(&body).unwrap().reason()), (CmMessage::REJ, RejReason::INVALID_COMM_ID));
    pair.nics[1].handle_parts(now, &rej[0]);
    assert!(matches!(event(&mut pair.nics[1]), Some(CmEvent::Disconnected)));
}

#[test]
fn a_request_from_a_queue_pair_in_use_is_stale_and_ends_the_old_connection() {
    let (mut pair, _) = begin(|_| {});
    let (a, b) = pair.connect(&Pair::ask(), &Pair::accept()).expect("comes up");
    let qpn = pair.nics[0].facts(a).unwrap().qpn;
    let to = (Pair::ADDRESSES[1], 4420).into();
    let now = pair.now;
    pair.nics[1].post(now, b, Work::Receive { id: WorkId(3), len: 1 }).unwrap();
    let with = [("qpn".to_owned(), Value::Int(qpn.into()))];
    let c = pair.nics[0].connect_with(now, to, &Pair::ask(), &with).unwrap();
    pair.settle();
    let rejected = pair.nics[0].poll_event();
    assert!(matches!(rejected, Some((qp, DeviceEvent::Cm(CmEvent::Rejected { reason: 10, .. }))) if qp == c), "{rejected:?}");
    let mut seen = Vec::new();
    while let Some((qp, event)) = pair.nics[1].poll_event() {
        seen.push((qp == b, matches!(event, DeviceEvent::Completed(Completion { result: Err(WorkError::Flushed), .. }))));
    }
    assert_eq!(seen, [(true, true), (true, false)]);
}

#[test]
fn connections_come_up_on_a_bad_wire_each_once() {
    let mut pair = Pair::new(22, |s| (s.cm_timeout, s.cm_retries) = (10, 15));
    pair.latency = MS;
    pair.faults = Faults { loss: 200, duplication: 200, reordering: 200, corruption: 100 };
    for _ in 0..40 {
        let (a, b) = pair.connect(&Pair::ask(), &Pair::accept()).expect("comes up");
        let (x, y) = (pair.nics[0].facts(a).unwrap(), pair.nics[1].facts(b).unwrap());
        assert_eq!((x.qpn, x.peer_qpn, x.psn, x.expected_psn), (y.peer_qpn, y.qpn, y.expected_psn, y.psn));
        assert_eq!((x.id, x.peer_id, x.mtu), (y.peer_id, y.id, y.mtu));
    }
}

#[test]
fn ipv6_carries_everything_as_well() {
    let addresses = ["fd00::1", "fd00::2"].map(|a| a.parse::<IpAddr>().unwrap());
    for udp_checksum in [false, true] {
        let mut pair = Pair::between(23, addresses, |s| (s.udp_checksum, s.link_mtu) = (udp_checksum, 9000));
        let (a, b) = pair.connect(&Pair::ask(), &Pair::accept()).expect("comes up");
        let now = pair.now;
        pair.nics[1].post(now, b, Work::Receive { id: WorkId(1), len: 10_000 }).unwrap();
        let payload = Bytes::from(vec![9; 9001]);
        pair.nics[0].post(now, a, Work::Send { id: WorkId(2), head: Head::new(&[1; 64]), payload, invalidate: None }).unwrap();
        let packets = out(&mut pair.nics[0], now);
        assert_eq!(packets.len(), 3);
        for d in &packets {
            let bytes = d.to_bytes();
            assert_eq!((bytes[0] >> 4, bytes[6], usize::from(bytes[4]) << 8 | usize::from(bytes[5])), (6, 17, bytes.len() - 40));
            assert_eq!(bytes[bytes.len() - 4..], nvmf_wire::roce::icrc(&bytes[..bytes.len() - 4]).unwrap());
            if udp_checksum {
                let pseudo = [&bytes[8..40], &[0, 0, bytes[4], bytes[5], 0, 0, 0, 17]].concat();
                assert_eq!(ones_sum(&[&pseudo[..], &bytes[40..]].concat()), 0xffff);
            } else {
                assert_eq!(bytes[46..48], [0, 0]);
            }
            pair.nics[1].handle_datagram(now, bytes);
        }
        pair.settle();
        let got = pair.nics[1].poll_event();
        assert!(
            matches!(got, Some((_, DeviceEvent::Completed(Completion { result: Ok(Done::Received { data, .. }), .. }))) if data.len() == 9065)
        );
        let to = (Pair::ADDRESSES[0], 4420).into();
        assert!(pair.nics[0].connect(now, to, &Pair::ask()).is_err(), "IPv4 cannot be reached");
    }
}

/// Sum in ones' complement of 16-bit words. [RFC 1071]
fn ones_sum(bytes: &[u8]) -> u32 {
    let sum: u32 = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |b| u32::from(*b))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum & 0xffff) + (sum >> 16)
}

#[test]
fn ipv4_headers_are_as_linux_has_them() {
    let (mut pair, _) = begin(|s| s.udp_checksum = true);
    let d = out(&mut pair.nics[0], Instant::START)[0].to_bytes();
    assert_eq!((d[0], d[1], &d[4..8], d[8], d[9]), (0x45, 0, &[0, 0, 0x40, 0][..], 64, 17));
    assert_eq!(usize::from(d[2]) << 8 | usize::from(d[3]), d.len());
    assert_eq!(ones_sum(&d[..20]), 0xffff);
    assert!(d[20] >= 0xc0 && d[22..24] == [0x12, 0xb7]);
    let pseudo = [&d[12..20], &[0, 17, d[24], d[25]]].concat();
    assert_eq!(ones_sum(&[&pseudo[..], &d[20..]].concat()), 0xffff);
}

#[test]
fn congestion_marks_are_answered_now_and_then() {
    let mut pair = Pair::new(24, |_| {});
    let (a, b) = pair.connect(&Pair::ask(), &Pair::accept()).expect("comes up");
    let now = pair.now;
    let mut answers = Vec::new();
    for n in 0..3u64 {
        let now = now + 30 * Duration::from_micros(n);
        pair.nics[1].post(now, b, Work::Receive { id: WorkId(1), len: 64 }).unwrap();
        let work = Work::Send { id: WorkId(2), head: Head::new(&[1; 64]), payload: Bytes::new(), invalidate: None };
        pair.nics[0].post(now, a, work).unwrap();
        let mut packets = out(&mut pair.nics[0], now);
        assert_eq!(packets[0].parts()[0][1] & 3, 0b10, "ECT(0)");
        packets[0].head_mut()[1] |= 0b11;
        pair.nics[1].handle_parts(now, &packets[0]);
        let out = out(&mut pair.nics[1], now);
        for d in &out {
            pair.nics[0].handle_parts(now, d);
        }
        answers.push(out.iter().map(opcode).collect::<Vec<_>>());
        if n == 0 {
            let h = Headers::read(&out[0].to_bytes()[28..]).unwrap();
            let facts = pair.nics[0].facts(a).unwrap();
            assert_eq!((h.bth.dqpn(), h.bth.psn(), h.bth.becn(), out[0].len()), (facts.qpn, 0, true, 28 + 12 + 16 + 4));
            assert_eq!(out[0].parts()[0][1], 48 << 2, "its own DSCP, and not ECN capable");
        }
    }
    let (cnp, ack) = (RoceOpcode::CNP, RoceOpcode::ACK);
    assert_eq!(answers, [vec![cnp, ack], vec![ack], vec![cnp, ack]]);
    assert_eq!((pair.nics[1].counters().congestion_marks, pair.nics[1].counters().cnps_sent), (3, 2));
    assert_eq!(pair.nics[0].counters().cnps_received, 2);
}

#[test]
fn credits_hold_back_what_would_find_no_buffer() {
    for flow_control in [true, false] {
        let mut pair = Pair::new(25, |_| {});
        let (a, b) = pair.connect(&Ask { flow_control, ..Pair::ask() }, &Pair::accept()).expect("comes up");
        let now = pair.now;
        for id in 0..5 {
            pair.nics[1].post(now, b, Work::Receive { id: WorkId(id), len: 64 }).unwrap();
        }
        for id in 0..12 {
            let work = Work::Send { id: WorkId(id), head: Head::new(&[1; 64]), payload: Bytes::new(), invalidate: None };
            pair.nics[0].post(now, a, work).unwrap();
        }
        // One to learn of credits; it leaves four buffers, and with one message ahead that makes five.
        let first = out(&mut pair.nics[0], now);
        assert_eq!(first.len(), if flow_control { 1 } else { 12 });
        first.iter().for_each(|d| pair.nics[1].handle_parts(now, d));
        let acks = out(&mut pair.nics[1], now);
        let aeth = Headers::read(&acks[0].to_bytes()[28..]).unwrap().aeth.unwrap();
        if flow_control {
            assert_eq!((aeth.kind(), aeth.value(), aeth.msn()), (AethKind::ACK, 4, 1));
            acks.iter().for_each(|d| pair.nics[0].handle_parts(now, d));
            assert_eq!(out(&mut pair.nics[0], now).len(), 5);
        } else {
            assert_eq!(aeth, Aeth::new().with(|s| s.value(31).msn(5)));
            assert_eq!(pair.nics[1].counters().rnr_sent, 1);
        }
    }
}
