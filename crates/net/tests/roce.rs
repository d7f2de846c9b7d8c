//! Carriers of RoCEv2: packets over loopback, over frames, and on an interface in a namespace of the test's own.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use nvmf_net::roce::{Carrier, FrameCarrier, UdpCarrier, Way, wait};
use nvmf_roce::Datagram;
use nvmf_seam::Instant;
use nvmf_wire::roce::{UDP_PORT, icrc};

const PATIENCE: Duration = Duration::from_secs(10);

/// A packet as a NIC makes it: header, BTH, payload in a part of its own, ICRC.
fn datagram(from: IpAddr, to: IpAddr, tos: u8, payload: usize) -> Datagram {
    let udp_len = (8 + 12 + payload + 4) as u16;
    let mut head = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut h = vec![0x45, tos, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
            h[2..4].copy_from_slice(&(20 + udp_len).to_be_bytes());
            h.extend(from.octets().into_iter().chain(to.octets()));
            h
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut h = vec![0x60 | tos >> 4, tos << 4, 0, 0, 0, 0, 17, 64];
            h[4..6].copy_from_slice(&udp_len.to_be_bytes());
            h.extend(from.octets().into_iter().chain(to.octets()));
            h
        }
        _ => panic!("one family"),
    };
    for word in [UDP_PORT, UDP_PORT, udp_len, 0] {
        head.extend(word.to_be_bytes());
    }
    head.extend([4, 0, 0xff, 0xff, 0, 0, 0, 0x11, 0x80, 0, 0, 1]);
    let payload: Bytes = (0..payload).map(|n| (n * 31 % 251) as u8).collect();
    let crc = icrc(&[&head[..], &payload].concat()).expect("a packet");
    Datagram::new(&head, payload, &crc)
}

fn is_intact(packet: &[u8]) -> bool {
    let (head, crc) = packet.split_at(packet.len() - 4);
    icrc(head).is_some_and(|right| right == crc)
}

/// Sends from `a`, and takes what comes at `b` until `count` packets are there or nothing comes any more.
fn carry(a: &mut dyn Carrier, b: &mut dyn Carrier, mut queue: VecDeque<Datagram>, count: usize) -> Vec<Bytes> {
    let begin = std::time::Instant::now();
    let mut got = Vec::new();
    while got.len() < count && begin.elapsed() < PATIENCE {
        let now = Instant::START + begin.elapsed();
        a.send(now, &mut queue).expect("sent");
        b.send(now, &mut VecDeque::new()).expect("sent");
        wait(b, Duration::from_millis(1));
        while b.receive(now, &mut |p| got.push(p)).expect("received") > 0 {}
        while a.receive(now, &mut |_| ()).expect("received") > 0 {}
    }
    got
}

/// A carrier on an address of loopback that is free.
fn on_loopback() -> Box<dyn Carrier> {
    Way::Udp.open(None, Some(Ipv4Addr::new(127, 0, 9, 1).into())).expect("a free address of loopback")
}

#[test]
fn two_programs_on_loopback_and_every_byte_arrives() {
    let (mut a, mut b) = (on_loopback(), on_loopback());
    assert_eq!((a.source_port(), b.mtu() > 4200), (Some(UDP_PORT), true));
    let sizes = [0, 4, 256, 260, 1024, 4096];
    let sent: VecDeque<Datagram> = (0..600).map(|n| datagram(a.address(), b.address(), 2, sizes[n % sizes.len()])).collect();
    let got = carry(&mut *a, &mut *b, sent.clone(), sent.len());
    assert_eq!(got.len(), sent.len());
    for (sent, got) in sent.iter().zip(&got) {
        // Identification 0, Don't Fragment, TOS, both ports: as the kernel sent it, and as it was found again.
        let mut sent = sent.to_bytes().to_vec();
        sent[8..12].copy_from_slice(&got[8..12]);
        assert_eq!(&sent, got);
        assert!(is_intact(got));
    }
}

#[test]
fn an_identification_that_the_socket_hides_is_found() {
    let mut b = on_loopback();
    let peer = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let from = peer.local_addr().expect("an address");
    let mut expected = Vec::new();
    for (id, flags) in [(0xbeefu16, 0x40u8), (0, 0x40), (0xffff, 0x40), (0x1234, 0)] {
        let mut packet = datagram(from.ip(), b.address(), 0, 1024).to_bytes().to_vec();
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        packet[6] = flags;
        packet[20..22].copy_from_slice(&from.port().to_be_bytes());
        let at = packet.len() - 4;
        let crc = icrc(&packet[..at]).expect("a packet");
        packet[at..].copy_from_slice(&crc);
        peer.send_to(&packet[28..], SocketAddr::new(b.address(), UDP_PORT)).expect("sent");
        expected.push(packet);
    }
    // Damage that the UDP checksum did not notice.
    let mut wrong = expected[0].clone();
    wrong[100] ^= 1;
    peer.send_to(&wrong[28..], SocketAddr::new(b.address(), UDP_PORT)).expect("sent");
    let mut other = on_loopback();
    let got = carry(&mut *other, &mut *b, VecDeque::new(), 5);
    assert_eq!(got[..4], expected);
    assert!(got.len() == 5 && !is_intact(&got[4]));
}

#[test]
fn congestion_marks_are_seen_and_set() {
    let (mut a, mut b) = (on_loopback(), on_loopback());
    let sent = [0, 2, 3, 0xc0, 3].map(|tos| datagram(a.address(), b.address(), tos, 64));
    let got = carry(&mut *a, &mut *b, sent.into(), 5);
    assert_eq!(got.iter().map(|p| p[1]).collect::<Vec<u8>>(), [0, 2, 3, 0xc0, 3]);
}

#[test]
fn too_long_a_packet_lowers_the_mtu_and_stops_nothing() {
    let (mut a, mut b) = (on_loopback(), on_loopback());
    let long = datagram(a.address(), b.address(), 0, 70_000 - 44);
    let queue = VecDeque::from([long, datagram(a.address(), b.address(), 0, 64)]);
    assert_eq!(carry(&mut *a, &mut *b, queue, 1).len(), 1);
    assert!(a.mtu() < 70_000);
}

#[test]
fn ipv6_is_exact() {
    let at: IpAddr = Ipv6Addr::LOCALHOST.into();
    // There is one address only: nobody else may have it now.
    let mut carrier = match UdpCarrier::bind(at) {
        Ok(carrier) => carrier,
        Err(e) => return println!("skipped: UDP port 4791 of ::1: {e}"),
    };
    let mut queue: VecDeque<Datagram> = [(2, 0), (3, 1024), (0x41, 4096)].map(|(tos, len)| datagram(at, at, tos, len)).into();
    let sent: Vec<Bytes> = queue.iter().map(Datagram::to_bytes).collect();
    carrier.send(Instant::START, &mut queue).expect("sent");
    let mut got = Vec::new();
    while got.len() < sent.len() {
        wait(&carrier, PATIENCE);
        carrier.receive(Instant::START, &mut |p| got.push(p)).expect("received");
    }
    assert_eq!(got, sent);
}

#[test]
fn frames_to_a_virtual_machine_are_paced_and_find_each_other() {
    let ports = || UdpSocket::bind("127.0.0.1:0").and_then(|s| s.local_addr()).expect("a port").port();
    let (one, two) = (ports(), ports());
    let address = |n: u8| IpAddr::from([10, 9, 0, n]);
    let mut a = FrameCarrier::to_qemu(one, two, address(1)).expect("a carrier");
    let mut b = FrameCarrier::to_qemu(two, one, address(2)).expect("a carrier");
    let sent: VecDeque<Datagram> = (0..64).map(|_| datagram(address(1), address(2), 2, 1024)).collect();
    let got = carry(&mut a, &mut b, sent.clone(), 64);
    assert_eq!(got.len(), 64);
    assert!(got.iter().zip(&sent).all(|(got, sent)| *got == sent.to_bytes()));
    // The address is known: the next burst goes at once, but for what is beyond its bound.
    let now = Instant::START + Duration::from_secs(60);
    a.send(now, &mut sent.clone()).expect("sent");
    assert_eq!(a.poll_timeout(), Some(now + Duration::from_millis(1)));
}

/// Set where the test runs in the namespace that it made.
const INSIDE: &str = "NVMF_TEST_IN_NAMESPACE";

#[test]
fn raw_frames_on_an_interface() {
    if std::env::var_os(INSIDE).is_none() {
        let exe = std::env::current_exe().expect("the test's program");
        let script =
            "ip link add one type veth peer name two && ip link set one up && ip link set two up && exec \"$0\" --exact \"$1\"";
        let mut inside = Command::new("unshare");
        inside.args(["-Urn", "sh", "-c", script]).arg(exe).arg("raw_frames_on_an_interface").env(INSIDE, "1");
        match inside.output() {
            Ok(out) if out.status.success() => {}
            Ok(out) if String::from_utf8_lossy(&out.stdout).contains("running 1 test") => {
                panic!("{}", String::from_utf8_lossy(&out.stdout))
            }
            Ok(out) => println!("skipped: no namespace of one's own here: {}", String::from_utf8_lossy(&out.stderr)),
            Err(e) => println!("skipped: no unshare: {e}"),
        }
        return;
    }
    let address = |n: u8| IpAddr::from([10, 77, 0, n]);
    let mut a = FrameCarrier::on_interface("one", Some(address(1))).expect("a carrier");
    let mut b = FrameCarrier::on_interface("two", Some(address(2))).expect("a carrier");
    assert_eq!((a.mtu(), a.source_port()), (1500, None));
    let sent: VecDeque<Datagram> = (0..50).map(|_| datagram(address(1), address(2), 3, 1024)).collect();
    let got = carry(&mut a, &mut b, sent.clone(), sent.len());
    assert_eq!(got.len(), sent.len());
    assert!(got.iter().zip(&sent).all(|(got, sent)| *got == sent.to_bytes()));
}

mod nics {
    //! Two software NICs over their lines.
    use super::*;
    use nvmf_net::Driver;
    use nvmf_net::roce::Line;
    use nvmf_roce::Nic;
    use nvmf_seam::Head;
    use nvmf_seam::rdma::{
        Accept, Access, Ask, CmEvent, Completion, Device, DeviceEvent, Done, Memory, Pd, QpId, Remote, Work, WorkId,
    };

    struct End {
        line: Line,
        nic: Nic,
    }

    impl End {
        fn new(line: Line) -> Self {
            Self { nic: line.nic(), line }
        }
    }

    /// Moves both until `until` gives something for an event of one of them.
    fn run<T>(
        ends: &mut [End; 2],
        begin: std::time::Instant,
        mut until: impl FnMut(usize, &mut Nic, QpId, DeviceEvent) -> Option<T>,
    ) -> T {
        loop {
            let now = Instant::START + begin.elapsed();
            assert!(begin.elapsed() < PATIENCE);
            for (side, end) in ends.iter_mut().enumerate() {
                end.line.turn(now, &mut end.nic).expect("moved");
                while let Some((qp, event)) = end.nic.poll_event() {
                    if let Some(done) = until(side, &mut end.nic, qp, event) {
                        return done;
                    }
                }
                end.line.send(now, &mut end.nic).expect("sent");
            }
        }
    }

    fn exchange(lines: [Line; 2]) {
        let begin = std::time::Instant::now();
        let mut ends = lines.map(End::new);
        ends[1].nic.listen(4420).expect("a free port");
        let to = SocketAddr::new(ends[1].line.address(), 4420);
        let ask = Ask { responder_resources: 4, initiator_depth: 4, pd: Pd(1), ..Ask::new(Bytes::new()) };
        let start = Instant::START;
        let first = ends[0].nic.connect(start, to, &ask).expect("a connection");
        let bytes: Bytes = (0..1_000_003).map(|n| (n % 241) as u8).collect();
        let (id, key) = (WorkId(7), std::cell::Cell::new(Remote::default()));
        let accept = Accept { private: Bytes::new(), responder_resources: 4, initiator_depth: 4, rnr_retry_count: 7, pd: Pd(1) };
        let read = run(&mut ends, begin, |side, nic, qp, event| {
            match (side, event) {
                (1, DeviceEvent::Cm(CmEvent::Request(_))) => {
                    nic.post(start, qp, Work::Receive { id, len: 16_384 }).expect("posted");
                    nic.accept(start, qp, &accept).expect("accepted");
                }
                (0, DeviceEvent::Cm(CmEvent::Accepted(_))) => {
                    let work =
                        Work::Register { id, memory: Memory::shared(bytes.clone()), access: Access { read: true, write: false } };
                    nic.post(start, qp, work).expect("posted");
                }
                (0, DeviceEvent::Completed(Completion { result: Ok(Done::Registered(remote)), .. })) => {
                    key.set(remote);
                    let send = Work::Send { id, head: Head::new(&[9; 64]), payload: bytes.slice(..8192), invalidate: None };
                    nic.post(start, qp, send).expect("posted");
                }
                (1, DeviceEvent::Completed(Completion { result: Ok(Done::Received { data, .. }), .. })) => {
                    assert!(data[..64] == [9; 64] && data[64..] == bytes[..8192]);
                    nic.post(start, qp, Work::Read { id, from: key.get(), len: bytes.len() as u32 }).expect("posted");
                }
                (1, DeviceEvent::Completed(Completion { result: Ok(Done::Read(data)), .. })) => return Some(data),
                (_, DeviceEvent::Completed(Completion { result: Err(e), .. })) => panic!("{e:?}"),
                _ => {}
            }
            None
        });
        assert!(read == bytes);
        ends[0].nic.disconnect(start, first);
        run(&mut ends, begin, |side, _, _, event| {
            (side == 0 && matches!(event, DeviceEvent::Cm(CmEvent::Disconnected))).then_some(())
        });
        assert!(ends.iter().all(|end| end.nic.counters().bad_icrc == 0));
    }

    #[test]
    fn two_nics_over_udp() {
        exchange([on_loopback(), on_loopback()].map(Line::new));
    }

    #[test]
    fn two_nics_over_frames() {
        let ports = || UdpSocket::bind("127.0.0.1:0").and_then(|s| s.local_addr()).expect("a port").port();
        let (one, two) = (ports(), ports());
        let line = |ours, theirs, n: u8| {
            let way = Way::Qemu { ours, theirs, address: IpAddr::from([10, 9, 0, n]) };
            Line::new(way.open(None, None).expect("a carrier"))
        };
        exchange([line(one, two, 1), line(two, one, 2)]);
    }
}
