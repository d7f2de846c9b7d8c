//! Packets of somebody who means ill, or whose software is broken: they change nothing but counters.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use nvmf_roce::testing::Pair;
use nvmf_roce::{Nic, NicSettings};
use nvmf_seam::rdma::{CmEvent, Completion, Device, DeviceEvent, Done, Work, WorkId};
use nvmf_seam::{Head, Instant};
use proptest::prelude::*;

#[path = "victim/mod.rs"]
mod victim;

use victim::{Victim, dropped, seal, state, victim};

/// The connection still does what it should.
fn alive(v: &mut Victim) {
    let now = v.pair.now;
    let [a, b] = v.qps;
    let work = Work::Send { id: WorkId(50), head: Head::new(&[8; 64]), payload: Bytes::new(), invalidate: None };
    v.pair.nics[0].post(now, a, work).unwrap();
    v.pair.nics[1].post(now, b, Work::Read { id: WorkId(51), from: v.at, len: 5000 }).unwrap();
    let mut seen = 0;
    assert!(v.pair.run(Duration::from_secs(30), |pair| {
        while let Some((_, event)) = pair.nics[1].poll_event() {
            match event {
                DeviceEvent::Completed(Completion { result: Ok(Done::Received { data, .. }), .. }) => {
                    assert!(data == [8; 64][..]);
                    seen += 1;
                }
                DeviceEvent::Completed(Completion { result: Ok(Done::Read(data)), .. }) => {
                    assert!(data.iter().all(|b| *b == 5));
                    seen += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        seen == 2
    }));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_change_nothing(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..20), v6: bool) {
        let mut v = victim();
        let before = dropped(&v.pair.nics[0]);
        let (n, untouched) = (packets.len() as u64, state(&v.pair.nics[0]));
        for mut packet in packets {
            // Most get as far as the addresses.
            if let Some(first) = packet.first_mut() {
                *first = if v6 { 0x60 } else { 0x45 };
            }
            v.pair.nics[0].handle_datagram(v.pair.now, packet.into());
        }
        prop_assert!(v.pair.nics[0].poll_event().is_none());
        prop_assert!(v.pair.nics[0].poll_datagram(v.pair.now).is_none());
        prop_assert_eq!(dropped(&v.pair.nics[0]) - before, n);
        prop_assert!(state(&v.pair.nics[0]) == untouched);
        alive(&mut v);
    }

    /// Behind right addresses and with a right ICRC anything else may stand.
    #[test]
    fn what_stands_behind_right_addresses_does_not_crash(
        picks in prop::collection::vec((any::<prop::sample::Index>(), 28usize..120, any::<u8>(), any::<bool>(), 0usize..40), 1..40),
    ) {
        let mut v = victim();
        for (which, at, value, sealed, cut) in picks {
            let (side, packet) = v.packets[which.index(v.packets.len())].clone();
            let mut packet = BytesMut::from(&packet[..packet.len() - if sealed { 0 } else { cut.min(packet.len()) }]);
            let at = at % packet.len().max(1);
            if let Some(b) = packet.get_mut(at) {
                *b = value;
            }
            let packet = if sealed { seal(packet) } else { packet.freeze() };
            v.pair.nics[side].handle_datagram(v.pair.now, packet);
            // Regions stay as large as they were, and nothing is made that grows.
            while v.pair.nics[side].poll_datagram(v.pair.now).is_some() {}
            while v.pair.nics[side].poll_event().is_some() {}
        }
        prop_assert!(v.pair.nics[0].peek(v.at.key).is_none_or(|m| m.len() == 8192));
        v.pair.run(Duration::from_secs(5), |_| false);
    }

    /// Packets of the connection that are damaged, and so have a wrong ICRC, and those of others.
    #[test]
    fn damaged_and_foreign_packets_leave_the_connection_alone(
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<u16>(), any::<bool>()), 1..40),
    ) {
        let mut v = victim();
        let untouched = [state(&v.pair.nics[0]), state(&v.pair.nics[1])];
        for (which, bit, foreign) in picks {
            let (side, packet) = v.packets[which.index(v.packets.len())].clone();
            let mut packet = BytesMut::from(&packet[..]);
            if foreign {
                // From another host that knows everything else, with a right ICRC.
                packet[15] ^= 0x40;
                let packet = seal(packet);
                // CM alone talks to strangers.
                if packet[33..36] != [0, 0, 1] {
                    v.pair.nics[side].handle_datagram(v.pair.now, packet);
                }
            } else {
                let covered = 28 * 8 + usize::from(bit) % ((packet.len() - 28) * 8);
                // Byte 4 of the BTH is not covered: congestion bits and reserved ones, which change nothing.
                packet[covered / 8] ^= 1 << (covered % 8);
                if covered / 8 != 32 {
                    v.pair.nics[side].handle_datagram(v.pair.now, packet.freeze());
                }
            }
            prop_assert!(v.pair.nics[side].poll_event().is_none());
            prop_assert!(v.pair.nics[side].poll_datagram(v.pair.now).is_none());
            prop_assert!(state(&v.pair.nics[side]) == untouched[side]);
        }
        alive(&mut v);
    }

    /// Old packets of the connection come again, in any order: nothing is done twice.
    #[test]
    fn packets_that_come_again_are_not_executed_again(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..60),
    ) {
        let mut v = victim();
        for which in picks {
            let (side, packet) = v.packets[which.index(v.packets.len())].clone();
            v.pair.nics[side].handle_datagram(v.pair.now, packet);
            prop_assert!(v.pair.nics[side].poll_event().is_none());
            v.pair.settle();
        }
        let (a, c) = (v.pair.nics[0].counters(), v.pair.nics[1].counters());
        prop_assert_eq!(a.nak_invalid + a.nak_access + c.nak_invalid + c.nak_access, 0);
        alive(&mut v);
    }
}

/// A REQ of a stranger, with a right ICRC.
fn req(from: u8, id: u32, qpn: u32) -> Bytes {
    let address = core::net::IpAddr::from([10, 0, 1, from]);
    let mut nic = Nic::new(NicSettings::new(address), u64::from(id));
    let with = [("local_id".to_owned(), nvmf_wire::Value::Int(id.into())), ("qpn".to_owned(), nvmf_wire::Value::Int(qpn.into()))];
    nic.connect_with(Instant::START, (Pair::ADDRESSES[1], 4420).into(), &Pair::ask(), &with).unwrap();
    nic.poll_datagram(Instant::START).unwrap().to_bytes()
}

#[test]
fn a_flood_of_requests_meets_a_limit_and_leaves_others_alone() {
    let mut pair = Pair::new(12, |s| (s.max_half_open, s.max_control) = (10, 64));
    let (a, b) = pair.connect(&Pair::ask(), &Pair::accept()).expect("comes up");
    for n in 0..1000u32 {
        pair.nics[1].handle_datagram(pair.now, req((n % 200) as u8, n + 1, n + 2));
    }
    let mut asked = 0;
    while let Some((_, event)) = pair.nics[1].poll_event() {
        asked += usize::from(matches!(event, DeviceEvent::Cm(CmEvent::Request(_))));
    }
    let c = pair.nics[1].counters();
    assert_eq!((asked, c.refused_req, c.control_full), (10, 990, 990 - 64));
    // Those that are half open go when their consumer says so; the connection that stands goes on.
    let now = pair.now;
    pair.nics[1].post(now, b, Work::Receive { id: WorkId(1), len: 64 }).unwrap();
    let work = Work::Send { id: WorkId(2), head: Head::new(&[8; 64]), payload: Bytes::new(), invalidate: None };
    pair.nics[0].post(now, a, work).unwrap();
    pair.settle();
    assert!(matches!(pair.nics[0].poll_event(), Some((_, DeviceEvent::Completed(c))) if c.result.is_ok()));
}

#[test]
fn connections_that_nobody_completes_end_by_themselves() {
    let mut nic = Nic::new(NicSettings { max_half_open: 4, ..NicSettings::new(Pair::ADDRESSES[1]) }, 1);
    nic.listen(4420).unwrap();
    let mut now = Instant::START;
    for round in 0..3u32 {
        for n in 0..4 {
            nic.handle_datagram(now, req(n as u8, 100 * round + n + 1, n + 2));
        }
        let mut taken = 0;
        while let Some((qp, event)) = nic.poll_event() {
            assert!(matches!(event, DeviceEvent::Cm(CmEvent::Request(_))));
            nic.accept(now, qp, &Pair::accept()).unwrap();
            taken += 1;
        }
        assert_eq!(taken, 4);
        while nic.poll_datagram(now).is_some() {}
        let (mut over, mut repeated) = (0, 0);
        while let Some(at) = nic.poll_timeout() {
            now = at;
            nic.handle_timeout(now);
            while nic.poll_datagram(now).is_some() {
                repeated += 1;
            }
            while let Some((qp, event)) = nic.poll_event() {
                assert!(matches!(event, DeviceEvent::Cm(CmEvent::Unreachable)));
                nic.destroy(now, qp);
                over += 1;
            }
        }
        // Each REP seven times again, then a REJ.
        assert_eq!((over, repeated), (4, 4 * 8));
    }
}
