//! The network of frames: where they go, what is lost, marked and paused, and what a capture of it holds.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use nvmf_fabric::lan::{
    BROADCAST, EcnSettings, Frame, Lan, LinkFault, LinkSettings, Mac, Node, PerMillion, PfcSettings, SwitchSettings, Wrong,
    ethertype,
};
use nvmf_seam::Instant;

fn mac(n: u8) -> Mac {
    [2, 0, 0, 0, 0, n]
}

/// An IPv4 header of priority 3 that knows ECN, and `len` bytes behind it.
fn packet(to: u8, from: u8, len: usize) -> Frame {
    let mut ip = vec![0; 20 + len];
    ip[..2].copy_from_slice(&[0x45, 0x62]);
    Frame::new(mac(to), mac(from), ethertype::IPV4, ip.into())
}

/// Stations 1 to n at one switch.
fn star(seed: u64, n: u8, switch: SwitchSettings, link: LinkSettings) -> (Lan, Vec<Node>) {
    let mut lan = Lan::new(seed);
    let sw = lan.switch("sw", switch);
    let stations: Vec<Node> = (1..=n).map(|i| lan.station(&format!("h{i}"), mac(i))).collect();
    for s in &stations {
        lan.link([*s, sw], [link; 2]).unwrap();
    }
    (lan, stations)
}

/// Lets everything happen; gives how many frames each station got.
fn run(lan: &mut Lan, until: Instant) -> BTreeMap<Node, usize> {
    let mut got = BTreeMap::new();
    while lan.next_time().is_some_and(|at| at <= until) {
        if let Some((node, _)) = lan.step() {
            *got.entry(node).or_default() += 1;
        }
    }
    got
}

const LATE: Instant = Instant(1_000_000_000);

#[test]
fn a_switch_learns_where_stations_are() {
    let (mut lan, s) = star(1, 4, SwitchSettings::default(), LinkSettings::default());
    lan.send(s[0], Frame::new(BROADCAST, mac(1), ethertype::ARP, Bytes::from_static(&[0; 46])));
    assert_eq!(run(&mut lan, LATE), BTreeMap::from([(s[1], 1), (s[2], 1), (s[3], 1)]));
    lan.send(s[1], packet(1, 2, 100));
    assert_eq!(run(&mut lan, LATE), BTreeMap::from([(s[0], 1)]));
    // 3 was never heard of
    lan.send(s[1], packet(3, 2, 100));
    assert_eq!(run(&mut lan, LATE).len(), 3);
    assert_eq!(lan.in_flight(), 0);
}

#[test]
fn time_of_a_frame_is_that_of_rate_and_delay() {
    let link = LinkSettings { delay: Duration::from_micros(3), rate: Some(10_000_000_000), ..LinkSettings::default() };
    let (mut lan, s) = star(1, 2, SwitchSettings::default(), link);
    // 1000 bytes with preamble, FCS and gap are 800 ns at 10 Gbit/s; twice, and two delays
    lan.send(s[0], packet(2, 1, 1000 - 24 - 14 - 20));
    run(&mut lan, LATE);
    assert_eq!(lan.now(), Instant(2 * (800 + 3000)));
}

#[test]
fn more_than_a_queue_holds_is_dropped_at_its_tail() {
    let (mut lan, s) = star(1, 3, SwitchSettings { queue: 20_000, ..SwitchSettings::default() }, LinkSettings::default());
    lan.send(s[2], packet(1, 3, 10));
    run(&mut lan, LATE);
    for _ in 0..100 {
        lan.send(s[0], packet(3, 1, 1000));
        lan.send(s[1], packet(3, 2, 1000));
    }
    let got = run(&mut lan, LATE)[&s[2]];
    let dropped: u64 = lan.ports().map(|p| p.stats.tail_drops).sum();
    assert!(dropped > 50 && got as u64 + dropped == 200, "{got} {dropped}");
    assert!(lan.ports().all(|p| !p.switch || p.stats.peak[3] <= 20_000));
}

#[test]
fn pauses_keep_a_lossless_priority_without_loss() {
    let ecn = EcnSettings { min: 5_000, max: 50_000, most: PerMillion(200_000) };
    let pfc = PfcSettings { xoff: 20_000, xon: 10_000, headroom: 20_000, ..PfcSettings::default() };
    let settings = SwitchSettings { queue: 10_000, ecn: Some(ecn), pfc: Some(pfc), ..SwitchSettings::default() };
    let (mut lan, s) = star(1, 3, settings, LinkSettings::default());
    lan.send(s[2], packet(1, 3, 10));
    run(&mut lan, LATE);
    for _ in 0..500 {
        lan.send(s[0], packet(3, 1, 1000));
        lan.send(s[1], packet(3, 2, 1000));
    }
    assert_eq!(run(&mut lan, LATE)[&s[2]], 1000);
    let total = |f: fn(&nvmf_fabric::lan::PortStats) -> u64| lan.ports().map(|p| f(p.stats)).sum::<u64>();
    assert_eq!((total(|s| s.tail_drops), total(|s| s.headroom_drops)), (0, 0));
    assert!(total(|s| s.pauses_sent) > 10 && total(|s| s.pauses_received) > 10 && total(|s| s.marked) > 100);
    let paused: Vec<_> = lan.ports().filter(|p| !p.switch).map(|p| p.paused[3]).collect();
    assert!(paused[0] > Duration::from_micros(50) && paused[2].is_zero(), "{paused:?}");
    assert_eq!((lan.in_flight(), lan.deadlock()), (0, None));
}

#[test]
fn a_fault_is_of_one_direction_and_the_run_of_its_seed() {
    let fate = |seed| {
        let (mut lan, s) = star(seed, 2, SwitchSettings::default(), LinkSettings::default());
        let link = lan.link_of(s[0]).unwrap();
        let all = |what, share| LinkFault { what, share: PerMillion(share), from: Instant(0), until: LATE };
        lan.fault(link, 0, all(Wrong::Lost, 100_000), 1);
        lan.fault(link, 0, all(Wrong::Duplicated, 100_000), 2);
        lan.fault(link, 0, all(Wrong::Corrupted, 100_000), 3);
        lan.fault(link, 0, all(Wrong::Reordered(Duration::from_micros(9)), 100_000), 4);
        for _ in 0..500 {
            lan.send(s[0], packet(2, 1, 100));
            lan.send(s[1], packet(1, 2, 100));
        }
        let got = run(&mut lan, LATE);
        (got[&s[0]], got[&s[1]], lan.trace_hash())
    };
    let (back, there, _) = fate(1);
    assert_eq!(back, 500, "nothing goes wrong on the way back");
    assert!((470..530).contains(&there) && there != 500, "{there}");
    assert_eq!(fate(1), fate(1));
    assert_ne!(fate(1).2, fate(2).2);
}

#[test]
fn a_storm_of_pauses_silences_a_priority_until_healed() {
    let pfc = PfcSettings { xoff: 20_000, xon: 10_000, headroom: 20_000, ..PfcSettings::default() };
    let (mut lan, s) = star(1, 3, SwitchSettings { pfc: Some(pfc), ..SwitchSettings::default() }, LinkSettings::default());
    for i in [1, 2] {
        lan.send(s[i], packet(1, i as u8 + 1, 10));
    }
    run(&mut lan, LATE);
    let begin = lan.now();
    lan.storm(s[2], 3, begin, LATE);
    run(&mut lan, begin + Duration::from_micros(10));
    // the one to the station that is out of order fills the port of the sender, and the innocent one has to wait
    for _ in 0..40 {
        lan.send(s[0], packet(3, 1, 1000));
    }
    lan.send(s[0], packet(2, 1, 1000));
    let got = run(&mut lan, begin + Duration::from_millis(10));
    assert!(got.is_empty(), "{got:?}");
    lan.heal();
    let got = run(&mut lan, LATE);
    assert_eq!(got, BTreeMap::from([(s[1], 1), (s[2], 40)]));
}

/// A file that a test can look into.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_capture_has_frames_with_nanoseconds_and_what_became_of_them() {
    let (mut lan, s) = star(1, 2, SwitchSettings::default(), LinkSettings::default());
    let link = lan.link_of(s[0]).unwrap();
    let file = Shared::default();
    lan.capture(Box::new(file.clone()), &lan.links(), 1_000_000_000).unwrap();
    let lost = LinkFault { what: Wrong::Lost, share: PerMillion::ALL, from: Instant(1), until: LATE };
    lan.fault(link, 0, lost, 1);
    lan.send(s[0], packet(2, 1, 1000));
    run(&mut lan, LATE);
    lan.end_capture().unwrap();
    let bytes = file.0.lock().unwrap().clone();
    let has = |what: &[u8]| bytes.windows(what.len()).any(|w| w == what);
    assert!(has(b"h1-sw") && has(b"h2-sw") && has(b"lost"));
    assert!(has(packet(2, 1, 1000).parts().concat().as_slice()));
    // if_tsresol: 9
    assert!(has(&[9, 0, 1, 0, 9]));
}

#[test]
fn a_ring_of_switches_locks_itself_up() {
    // three switches, each with a station; everything goes clockwise, two links far
    let mut lan = Lan::new(1);
    let pfc = PfcSettings { xoff: 6_000, xon: 3_000, headroom: 20_000, ..PfcSettings::default() };
    let settings = SwitchSettings { pfc: Some(pfc), learns: false, ..SwitchSettings::default() };
    let sw: Vec<Node> = (0..3).map(|i| lan.switch(&format!("sw{i}"), settings)).collect();
    let st: Vec<Node> = (0..3).map(|i| lan.station(&format!("h{i}"), mac(i))).collect();
    let edge: Vec<_> = (0..3).map(|i| lan.link([st[i], sw[i]], [LinkSettings::default(); 2]).unwrap()).collect();
    let ring: Vec<_> = (0..3).map(|i| lan.link([sw[i], sw[(i + 1) % 3]], [LinkSettings::default(); 2]).unwrap()).collect();
    for i in 0..3 {
        for to in 0..3 {
            lan.route(sw[i], mac(to as u8), if to == i { edge[i] } else { ring[i] });
        }
    }
    for _ in 0..200 {
        for i in 0..3u8 {
            lan.send(st[usize::from(i)], packet((i + 2) % 3, i, 1000));
        }
    }
    run(&mut lan, Instant(20_000_000));
    let before = lan.in_flight();
    assert!(before > 100, "{before}");
    let (priority, ring) = lan.deadlock().expect("a ring");
    assert_eq!((priority, ring.len(), &ring[0]), (3, 4, &ring[3]), "{ring:?}");
}
