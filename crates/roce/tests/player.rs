//! A player at a desk: waiting, packets that it sees and makes, a NIC that is told to keep still, records.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use nvmf_roce::desk::Desk;
use nvmf_roce::testing::{Bench, Pair};
use nvmf_roce::{Nic, NicSettings};
use nvmf_seam::rdma::{
    Access, CmEvent, Completion, Device, DeviceEvent, Done, Happening, Icrc, Memory, Packet, PacketSide, RawPacket, RdmaNetwork,
    RdmaOpenError, Work, WorkId,
};
use nvmf_seam::{Head, Instant, LinkId};
use nvmf_wire::Value;
use nvmf_wire::roce::{Aeth, Bth, Headers, NakCode, Reth, RoceOpcode, psn_add};

type Echo = fn(&mut Nic, Instant);

/// A peer that takes every connection with receives for eight, and sends back what is sent to it.
fn echo(nic: &mut Nic, now: Instant) {
    while let Some((qp, event)) = nic.poll_event() {
        match event {
            DeviceEvent::Cm(CmEvent::Request(_)) => {
                for n in 0..8 {
                    nic.post(now, qp, Work::Receive { id: WorkId(n), len: 8192 }).unwrap();
                }
                nic.accept(now, qp, &Pair::accept()).unwrap();
            }
            DeviceEvent::Cm(CmEvent::Disconnected) => nic.destroy(now, qp),
            DeviceEvent::Completed(Completion { id, result: Ok(Done::Received { data, .. }) }) => {
                nic.post(now, qp, Work::Receive { id, len: 8192 }).unwrap();
                nic.post(now, qp, Work::Send { id, head: Head::new(&[]), payload: data, invalidate: None }).unwrap();
            }
            _ => {}
        }
    }
}

fn desk() -> Desk<Bench<Echo>> {
    let settings = |i: usize| NicSettings { record: 1 << 20, ..NicSettings::new(Pair::ADDRESSES[i]) };
    let mut peer = Nic::new(settings(1), 2);
    peer.listen(4420).unwrap();
    Desk::new(Nic::new(settings(0), 1), Bench::new(peer, echo))
}

const SECOND: Duration = Duration::from_secs(1);

fn open(desk: &mut Desk<Bench<Echo>>) -> LinkId {
    desk.open_rdma((Pair::ADDRESSES[1], 4420).into(), &Pair::ask(), &[], SECOND).expect("comes up").0
}

fn until(desk: &mut Desk<Bench<Echo>>) -> Instant {
    desk.wire().now + SECOND
}

fn next(desk: &mut Desk<Bench<Echo>>, link: LinkId) -> Option<Happening> {
    let until = until(desk);
    desk.next(link, until)
}

/// The next packet of the peer.
fn packet(desk: &mut Desk<Bench<Echo>>, link: LinkId) -> (Headers, Packet) {
    loop {
        match next(desk, link).expect("a packet") {
            Happening::Packet(p) => return (Headers::read(&p.bytes).unwrap(), p),
            _ => continue,
        }
    }
}

fn send_only(facts: &nvmf_seam::rdma::Facts, psn: u32, bytes: &[u8]) -> RawPacket {
    let bth = Bth::new().with(|s| s.opcode(RoceOpcode::SEND_ONLY).pkey(0xffff).dqpn(facts.peer_qpn).ackreq(true).psn(psn));
    RawPacket { bytes: [bth.as_bytes(), bytes].concat().into(), icrc: Icrc::Right }
}

#[test]
fn work_and_the_packets_behind_it_are_seen() {
    let mut desk = desk();
    let link = open(&mut desk);
    desk.post(link, Work::Receive { id: WorkId(1), len: 64 }).unwrap();
    let work = Work::Send { id: WorkId(2), head: Head::new(&[9; 64]), payload: Bytes::new(), invalidate: None };
    desk.post(link, work).unwrap();
    let mut seen = Vec::new();
    while let Some(what) = next(&mut desk, link) {
        seen.push(match what {
            Happening::Packet(p) => format!("{}", Headers::read(&p.bytes).unwrap().bth.opcode()),
            Happening::Completed(Completion { id, result }) => format!("{} {}", id.0, result.is_ok()),
            Happening::Cm(e) => format!("{e:?}"),
        });
    }
    assert_eq!(seen, ["RC Acknowledge", "2 true", "RC SEND Only", "1 true"].map(str::to_owned));
    let before = desk.wire().now;
    desk.end(link, false);
    assert_eq!(desk.wire().now, before, "nothing had to be waited for");
    assert!(matches!(next(&mut desk, link), Some(Happening::Packet(_))), "DREP is shown");
    assert!(matches!(next(&mut desk, link), Some(Happening::Cm(CmEvent::Disconnected))));
    assert!(next(&mut desk, link).is_none());
    // REQ, RTU, SEND, ACK and DREQ are ours.
    let recorded = desk.recorded(link);
    let ours = recorded.iter().filter(|r| r.side == PacketSide::Ours).count();
    assert_eq!((ours, recorded.len()), (5, 9));
    assert!(
        recorded
            .iter()
            .all(|r| nvmf_wire::roce::icrc(&r.datagram[..r.datagram.len() - 4]).unwrap() == r.datagram[r.datagram.len() - 4..])
    );
}

#[test]
fn packets_made_by_hand_draw_what_the_peer_thinks_of_them() {
    let mut desk = desk();
    let link = open(&mut desk);
    let facts = desk.facts(link).unwrap();

    // A wrong ICRC draws nothing.
    let mut wrong = send_only(&facts, facts.psn, b"drop");
    wrong.icrc = Icrc::Flipped([0, 0, 0x80, 0]);
    desk.inject(link, wrong).unwrap();
    assert!(next(&mut desk, link).is_none());
    assert_eq!(desk.wire().nic.counters().bad_icrc, 1);

    // A PSN ahead draws one NAK with the expected one.
    for ahead in [1, 2] {
        desk.inject(link, send_only(&facts, psn_add(facts.psn, ahead), b"gap.")).unwrap();
    }
    let (headers, p) = packet(&mut desk, link);
    assert_eq!((headers.aeth.and_then(|a| a.nak()), headers.bth.psn(), p.intact), (Some(NakCode::PSN_SEQUENCE), facts.psn, true));
    assert!(next(&mut desk, link).is_none());

    // The right one is executed; our own requests go on behind it.
    for id in [1, 3] {
        desk.post(link, Work::Receive { id: WorkId(id), len: 64 }).unwrap();
    }
    desk.inject(link, send_only(&facts, facts.psn, b"good")).unwrap();
    desk.skip_psns(link, 1);
    let mut echoed = false;
    while let Some(what) = next(&mut desk, link) {
        echoed |=
            matches!(what, Happening::Completed(Completion { result: Ok(Done::Received { data, .. }), .. }) if data == "good");
    }
    assert!(echoed);
    assert_eq!(desk.facts(link).unwrap().psn, psn_add(facts.psn, 1));
    let work = Work::Send { id: WorkId(2), head: Head::new(b"more"), payload: Bytes::new(), invalidate: None };
    desk.post(link, work).unwrap();
    let mut sent = false;
    while let Some(what) = next(&mut desk, link) {
        sent |= matches!(what, Happening::Completed(Completion { id: WorkId(2), result: Ok(Done::Sent) }));
    }
    assert!(sent);
    assert_eq!(desk.wire().nic.counters().psn_ahead, 2);
}

#[test]
fn a_muted_nic_leaves_the_answer_to_the_player() {
    let mut desk = desk();
    let link = open(&mut desk);
    let facts = desk.facts(link).unwrap();
    desk.mute(link, true);
    desk.inject(link, send_only(&facts, facts.psn, b"ping")).unwrap();
    let (ack, _) = packet(&mut desk, link);
    assert_eq!(ack.bth.opcode(), RoceOpcode::ACK);
    // The peer's echo comes again and again, as nobody acknowledges it.
    let (first, p) = packet(&mut desk, link);
    assert_eq!((first.bth.opcode(), &p.bytes[12..]), (RoceOpcode::SEND_ONLY, &b"ping"[..]));
    let (again, q) = packet(&mut desk, link);
    assert!(again.bth == first.bth && q.at > p.at);
    let aeth = Aeth::new().with(|s| s.value(31).msn(1));
    let bth = Bth::new().with(|s| s.opcode(RoceOpcode::ACK).pkey(0xffff).dqpn(facts.peer_qpn).psn(first.bth.psn()));
    let bytes = [&bth.as_bytes()[..], aeth.as_bytes()].concat().into();
    desk.inject(link, RawPacket { bytes, icrc: Icrc::Right }).unwrap();
    let quiet = desk.wire().now + 20 * SECOND;
    assert!(desk.next(link, quiet).is_none());
    // Unmuted, the NIC is where it was: the echo was not executed here.
    desk.mute(link, false);
    assert_eq!(desk.facts(link).unwrap().expected_psn, facts.expected_psn);
}

#[test]
fn a_read_by_the_host_is_refused_and_shown() {
    let mut desk = desk();
    let link = open(&mut desk);
    let facts = desk.facts(link).unwrap();
    let reth = Reth::new().with(|s| s.va(4096).rkey(77).dmalen(16));
    let bth = Bth::new().with(|s| s.opcode(RoceOpcode::READ_REQUEST).pkey(0xffff).dqpn(facts.peer_qpn).psn(facts.psn));
    desk.inject(link, RawPacket { bytes: [&bth.as_bytes()[..], reth.as_bytes()].concat().into(), icrc: Icrc::Right }).unwrap();
    assert_eq!(packet(&mut desk, link).0.aeth.and_then(|a| a.nak()), Some(NakCode::REMOTE_ACCESS));
}

#[test]
fn memory_is_seen_and_comes_back() {
    let mut desk = desk();
    let link = open(&mut desk);
    let access = Access { read: true, write: true };
    desk.post(link, Work::Register { id: WorkId(1), memory: Memory::shared(Bytes::from_static(b"abc")), access }).unwrap();
    let Some(Happening::Completed(Completion { result: Ok(Done::Registered(at)), .. })) = next(&mut desk, link) else { panic!() };
    assert_eq!(desk.peek(at.key).unwrap(), "abc");
    desk.end(link, true);
    assert_eq!(desk.deregister(at.key).unwrap().as_slice(), b"abc");
    assert!(desk.peek(at.key).is_none());
    assert!(matches!(desk.post(link, Work::Invalidate { id: WorkId(1), key: at.key }), Err(nvmf_seam::rdma::DeviceError::State)));
}

#[test]
fn fields_of_a_request_can_be_wrong_and_the_attempt_is_recorded() {
    let mut desk = desk();
    let to: (IpAddr, u16) = (Pair::ADDRESSES[1], 4420);
    let cases: [(&str, Value, Option<u16>); 9] = [
        ("service_id", Value::Int(0x0106_0000 + 4421), Some(8)),
        ("service_id", Value::Int(4420), Some(8)),
        ("service", Value::Int(1), Some(9)),
        ("mtu", Value::Int(7), Some(26)),
        ("mtu", Value::Int(5), Some(26)),
        ("remote_gid", Value::Bytes(vec![1; 16]), Some(12)),
        ("ip_cm.major", Value::Int(1), Some(28)),
        ("ip_cm.ip", Value::Int(0), Some(28)),
        ("mad.version", Value::Int(1), None),
    ];
    for (name, value, reason) in cases {
        match desk.open_rdma(to.into(), &Pair::ask(), &[(name.to_owned(), value)], SECOND) {
            Err(RdmaOpenError::Rejected { reason: r, private }) => assert_eq!((Some(r), private.len()), (reason, 148), "{name}"),
            Err(RdmaOpenError::Timeout) => assert_eq!(reason, None, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
        let recorded = desk.recorded_unopened();
        assert!(recorded.iter().any(|r| r.side == PacketSide::Ours), "{name}");
        assert_eq!(recorded.iter().any(|r| r.side == PacketSide::Peer), reason.is_some(), "{name}");
    }
    assert!(matches!(
        desk.open_rdma(to.into(), &Pair::ask(), &[("no_such".into(), Value::Int(1))], SECOND),
        Err(RdmaOpenError::Other(_))
    ));
    open(&mut desk);
    assert_eq!(desk.wire().nic.counters().refused_req, 8);
}

#[test]
fn nobody_there_is_a_timeout_in_time() {
    let mut desk = desk();
    let nobody = IpAddr::from([10, 0, 0, 9]);
    let got = desk.open_rdma((nobody, 4420).into(), &Pair::ask(), &[], 3 * SECOND);
    assert!(matches!(got, Err(RdmaOpenError::Timeout)));
    assert_eq!(desk.wire().now, Instant::START + 3 * SECOND);
}
