//! The figures of recorded traffic: table, JSON and plot.

mod picture;

use std::io::Read;
use std::path::Path;

use nvmf_capture::stats::Report;
use nvmf_capture::{Capture, Direction, Ends, Event, EventKind, Follow, Rdma, Stats, Transport, Watcher};

fn report(file: &str) -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../captures").join(file);
    let mut stats = Stats::new();
    let followed = Follow::new().read(std::fs::File::open(path).expect("a capture"), &mut stats).expect("it can be read");
    stats.finish(followed)
}

#[test]
fn the_table_of_a_linux_host_that_reads_and_writes() {
    insta::assert_snapshot!(report("linux-6.12/tcp-io-64k.pcap.gz").table());
}

#[test]
fn the_table_of_two_controllers_one_after_the_other() {
    insta::assert_snapshot!(report("linux-6.12/tcp-reconnect.pcap.gz").table());
}

#[test]
fn the_table_of_a_host_over_rdma() {
    insta::assert_snapshot!(report("linux-6.12/rdma-io.pcap.gz").table());
}

/// Counted in another way, as below.
#[test]
fn the_figures_of_rdma_are_those_of_its_messages() {
    for file in ["linux-6.12/rdma-io.pcap.gz", "linux-6.12/rdma-inline16k.pcap.gz", "linux-6.12/rdma-admin.pcap.gz"] {
        let report = report(file);
        let capture = Capture::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("../captures").join(file)).expect("it can be read");
        let (mut commands, mut out, mut back, mut packets) = (0, 0, 0, 0);
        for e in capture.connections().iter().flat_map(|c| &c.events) {
            match &e.kind {
                EventKind::Packet(_) => packets += 1,
                EventKind::Rdma(rdma) => match rdma.as_ref() {
                    Rdma::Command { rest, .. } => (commands, out) = (commands + 1, out + rest.len() as u64),
                    Rdma::Data(d) if e.dir == Direction::HostToController => out += d.bytes.len() as u64,
                    Rdma::Data(d) => back += d.bytes.len() as u64,
                    _ => {}
                },
                _ => {}
            }
        }
        let total = |f: fn(&nvmf_capture::stats::CommandReport) -> u64| report.totals.iter().map(f).sum::<u64>();
        assert!(commands > 20 && back > 4096, "{file}");
        assert_eq!(
            (total(|c| c.count), total(|c| c.bytes_to_controller), total(|c| c.bytes_to_host)),
            (commands, out, back),
            "{file}"
        );
        assert_eq!(report.traffic.packets_to_controller + report.traffic.packets_to_host, packets, "{file}");
        assert!(report.controllers.iter().all(|c| c.transport == "rdma" && c.subnqn.is_some()), "{file}");
    }
}

#[test]
fn the_figures_as_json() {
    let mut report = report("spdk-26.09/03-spdk-read-4k-qd4.pcap.gz");
    for series in &mut report.timeline.series {
        series.pieces.truncate(4);
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&report).expect("JSON"));
}

/// Counted in another way: PDUs from the manifest's reader, times and depth from the list of all events.
#[test]
fn the_figures_are_those_of_the_events() {
    for file in ["spdk-26.09/03-spdk-read-4k-qd4.pcap.gz", "linux-6.12/tcp-hdgst-ddgst.pcap.gz", "spdk-26.09/12-spdk-fused.pcap.gz"]
    {
        let report = report(file);
        let capture = Capture::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("../captures").join(file)).expect("it can be read");
        let bytes = |e: &Event| match &e.kind {
            EventKind::Pdu(b) => Some(b.clone()),
            _ => None,
        };
        let (mut sent, mut data) = ([0u64; 2], [0u64; 2]);
        for c in capture.connections() {
            for (e, b) in c.events.iter().filter_map(|e| Some((e, bytes(e)?))) {
                sent[usize::from(e.dir == Direction::ControllerToHost)] += 1;
                let long = nvmf_wire::tcp::Pdu::parse(&b).expect("a PDU").data.len() as u64;
                data[usize::from(e.dir == Direction::ControllerToHost)] += long;
            }
        }
        let total = |f: fn(&nvmf_capture::stats::CommandReport) -> u64| report.totals.iter().map(f).sum::<u64>();
        assert_eq!([report.traffic.pdus_to_controller, report.traffic.pdus_to_host], sent, "{file}");
        assert_eq!([total(|c| c.bytes_to_controller), total(|c| c.bytes_to_host)], data, "{file}");
        let queues = || report.controllers.iter().flat_map(|c| &c.queues);
        assert_eq!(queues().flat_map(|q| &q.commands).map(|c| c.count).sum::<u64>(), total(|c| c.count), "{file}");
        assert_eq!(queues().map(|q| q.traffic.pdus_to_host).sum::<u64>(), sent[1], "{file}");
        let drawn: u64 = report.timeline.series.iter().flat_map(|s| &s.pieces).map(|p| p.answered).sum();
        let timed: u64 = report.totals.iter().filter_map(|c| c.latency.as_ref()).map(|l| l.count).sum();
        assert_eq!(drawn, timed, "{file}");
    }
}

#[test]
fn the_plot_is_well_formed_and_the_same_each_time() {
    let file = "spdk-26.09/03-spdk-read-4k-qd4.pcap.gz";
    let svg = report(file).plot().expect("a plot");
    picture::well_formed(&svg);
    assert_eq!(svg, report(file).plot().expect("a plot"));
    for text in ["Admin Queue", "I/O queue 1", "99th percentile", "response time", "commands outstanding", "ms"] {
        assert!(svg.contains(text), "{text}");
    }
}

/// The host's segments come a second time, as they do when their acknowledgement is lost.
#[test]
fn what_comes_again_is_counted_and_counted_once() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../captures/linux-6.12/tcp-io-4k.pcap.gz");
    let mut plain = Vec::new();
    let file = std::fs::File::open(path).expect("a capture");
    flate2::read::GzDecoder::new(file).read_to_end(&mut plain).expect("it can be read");
    let mut twice = plain[..24].to_vec();
    let (mut at, mut again) = (24, 0);
    while at < plain.len() {
        let long = u32::from_le_bytes(plain[at + 8..at + 12].try_into().expect("4 bytes")) as usize;
        let record = &plain[at..at + 16 + long];
        // Ethernet, IPv4 without options: the TCP header is at 34, and says how long it is.
        let total = usize::from(u16::from_be_bytes([record[16 + 16], record[16 + 17]]));
        let payload = total - 20 - usize::from(record[16 + 46] >> 4) * 4;
        let from_host = record[16 + 29] == 1;
        let copies = if payload > 0 && from_host { 2 } else { 1 };
        again += copies - 1;
        (0..copies).for_each(|_| twice.extend_from_slice(record));
        at += 16 + long;
    }
    let figures = |bytes: &[u8]| {
        let mut stats = Stats::new();
        let followed = Follow::new().read(bytes, &mut stats).expect("it can be read");
        stats.finish(followed)
    };
    let (once, twice) = (figures(&plain), figures(&twice));
    assert!(again > 20);
    assert_eq!((once.traffic.retransmissions, twice.traffic.retransmissions), (0, again));
    assert_eq!(once.totals, twice.totals);
}

/// An empty capture has figures, a table and a plot as well.
#[test]
fn nothing_at_all_is_no_error() {
    let report = Stats::new().finish(nvmf_capture::Followed::default());
    assert!(report.table().starts_with("0 ns, 0 connections in 0 frames"), "{}", report.table());
    picture::well_formed(&report.plot().expect("a plot"));
}

/// Many controllers are told apart up to a limit; the totals have the rest.
#[test]
fn what_is_beyond_the_limits_is_in_the_totals() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../captures/linux-6.12/tcp-connect-plain.pcap.gz");
    let capture = Capture::open(path).expect("it can be read");
    let mut stats = Stats::new();
    let rounds = 300;
    let mut number = 0;
    for round in 0..rounds {
        let first = number;
        for c in capture.connections() {
            let ends = Ends { client: c.client, server: c.server, opened_ns: c.opened_ns + round, transport: Transport::Tcp };
            stats.opened(number, &ends);
            number += 1;
        }
        for (conn, event) in capture.exchange().events() {
            stats.event(first + conn, event);
        }
        (first..number).for_each(|conn| stats.over(conn));
    }
    let report = stats.finish(nvmf_capture::Followed::default());
    let connects = report.totals.iter().find(|c| c.command == "Connect").expect("Connect");
    assert_eq!(connects.count, rounds * capture.connections().len() as u64);
    assert_eq!(report.controllers.len(), nvmf_capture::stats::MAX_CONTROLLERS);
    let extra = (rounds - report.controllers.len() as u64) * capture.connections().len() as u64;
    assert_eq!(report.unlisted_connections, extra, "none of them is taken for one of a listed controller with the same ID");
    assert_eq!(report.timeline.series.len(), 10, "eight queues, and what is left of both kinds");
    assert!(report.table().contains("All controllers"));
    picture::well_formed(&report.plot().expect("a plot"));
}
