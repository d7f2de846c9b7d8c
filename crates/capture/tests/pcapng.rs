//! Files: what is written is read back the same, in every container and link type, and Wireshark agrees where it is installed.

use std::io::Write as _;
use std::process::Command;

use bytes::Bytes;
use nvmf_capture::pcapng::Writer;
use nvmf_capture::{Capture, CaptureError, Connection, Direction, EventKind, Exchange, Recorder, Trace};
use nvmf_wire::tcp::{C2hData, Digests, IcReq, IcResp, Pdu, PduType};
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::block_common::Block;

use Direction::{ControllerToHost as C2H, HostToController as H2C};

fn pdu(ptype: PduType, header: &[u8], data: &[u8]) -> Vec<u8> {
    let mut header = header.to_vec();
    header[0] = ptype.0;
    Pdu::build(&header, data.to_vec().into(), Digests::default(), 4).to_bytes()
}

/// Two connections that overlap in time; one ends by FIN on both sides, the other by RST.
fn exchange(host: &str, controller: &str) -> Exchange {
    let mut connections = Vec::new();
    for i in 0..2u64 {
        let port = 40_000 + i;
        let at = |ns: u64| 1_000_000_000 + i + ns;
        let mut rec =
            Recorder::new(format!("{host}:{port}").parse().unwrap(), format!("{controller}:4420").parse().unwrap(), at(0));
        rec.push(H2C, at(10), pdu(PduType::IC_REQ, IcReq::new().as_bytes(), &[]));
        rec.push(C2H, at(21), pdu(PduType::IC_RESP, IcResp::new().with(|s| s.maxh2cdata(4096)).as_bytes(), &[]));
        let data = pdu(PduType::C2H_DATA, C2hData::new().with(|s| s.datal(10_000)).as_bytes(), &[i as u8; 10_000]);
        rec.push(C2H, at(33), data[..9].to_vec());
        rec.push(C2H, at(1_000_000_007), data[9..].to_vec());
        if i == 0 {
            rec.close(H2C, at(2_000_000_000), false);
            rec.close(C2H, at(2_000_000_005), false);
        } else {
            rec.push(H2C, at(2_000_000_001), vec![4, 0, 72]);
            rec.close(C2H, at(2_000_000_009), true);
        }
        connections.push(rec.finish());
    }
    Exchange { connections }
}

fn written(e: &Exchange, mss: usize) -> Vec<u8> {
    let mut out = Vec::new();
    Writer::new().mss(mss).comment("tcp/icreq/pfv-unsupported:one").write(e, &mut out).unwrap();
    out
}

/// Without the numbers of frames, which only a file has.
fn unnumbered(mut e: Exchange) -> Exchange {
    for event in e.connections.iter_mut().flat_map(|c| &mut c.events) {
        assert!(event.frame > 0);
        event.frame = 0;
    }
    e
}

#[test]
fn what_is_written_is_read_back_with_its_nanoseconds() {
    for (host, controller) in [("10.0.0.1", "10.0.0.2"), ("[fd00::1]", "[fd00::2]"), ("127.0.0.1", "127.0.0.1")] {
        let e = exchange(host, controller);
        for mss in [1, 536, 1460, 65_000] {
            let back = Capture::read(&written(&e, mss)[..]).unwrap();
            assert!(back.notes().is_empty(), "{:?}", back.notes());
            let back = unnumbered(back.into_exchange());
            assert_eq!(back.connections.len(), 2);
            for (got, want) in back.connections.iter().zip(&e.connections) {
                assert_eq!((got.client, got.server, got.opened_ns), (want.client, want.server, want.opened_ns));
                assert_eq!(got.events, want.events, "{host} mss {mss}");
            }
            if mss == 65_000 {
                assert_eq!(back, e, "with a large MSS the pieces are the same, too");
            }
        }
    }
}

#[test]
fn a_base_moves_all_times() {
    let e = exchange("10.0.0.1", "10.0.0.2");
    let base = 1_700_000_000_000_000_001;
    let mut out = Vec::new();
    Writer::new().at(base).write(&e, &mut out).unwrap();
    let back = Capture::read(&out[..]).unwrap();
    assert_eq!(back.connections()[0].events[0].at_ns, base + 1_000_000_010);
}

#[test]
fn gzip_is_told_from_its_bytes_and_files_from_their_magic() {
    let plain = written(&exchange("10.0.0.1", "10.0.0.2"), 1460);
    let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zip.write_all(&plain).unwrap();
    let zip = zip.finish().unwrap();
    assert_eq!(Capture::read(&zip[..]).unwrap().exchange(), Capture::read(&plain[..]).unwrap().exchange());

    assert!(matches!(Capture::read(&b"no"[..]), Err(CaptureError::Format(_))));
    assert!(matches!(Capture::read(&b"check tcp/icreq"[..]), Err(CaptureError::Format(_))));
    assert!(matches!(Capture::open("/nonexistent/file.pcap"), Err(CaptureError::Io(_))));
    assert!(matches!(Capture::read(&zip[..5]), Err(CaptureError::Io(_))));
}

#[test]
fn a_file_that_ends_in_a_record_is_read_as_far_as_it_goes() {
    let plain = written(&exchange("10.0.0.1", "10.0.0.2"), 1460);
    let back = Capture::read(&plain[..plain.len() - 30]).unwrap();
    assert_eq!(back.notes().len(), 1);
    assert_eq!(back.connections().len(), 2);
    assert_eq!(back.connections()[0].pdus().count(), 3);
}

/// The Ethernet frames of a file, with their times.
fn frames(file: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut reader = PcapNgReader::new(file).unwrap();
    let mut out = Vec::new();
    while let Some(block) = reader.next_block() {
        if let (Block::EnhancedPacket(p), _) = block.unwrap() {
            out.push((p.timestamp.as_nanos() as u64, p.data.to_vec()));
        }
    }
    out
}

/// A classic pcap of nanoseconds; `snap` cuts frames.
fn classic(link: u32, snap: usize, frames: &[(u64, Vec<u8>)], big_endian: bool) -> Vec<u8> {
    let word = |w: u32| if big_endian { w.to_be_bytes() } else { w.to_le_bytes() };
    let mut out = Vec::new();
    out.extend(word(0xa1b2_3c4d));
    out.extend(if big_endian { [0, 2, 0, 4] } else { [2, 0, 4, 0] });
    for w in [0, 0, 262_144, link] {
        out.extend(word(w));
    }
    for (at, f) in frames {
        let kept = f.len().min(snap);
        for w in [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, kept as u32, f.len() as u32] {
            out.extend(word(w));
        }
        out.extend(&f[..kept]);
    }
    out
}

#[test]
fn every_link_type_and_byte_order_gives_the_same_connections() {
    for host in ["10.0.0.1", "[fd00::1]"] {
        let e = exchange(host, if host.starts_with('[') { "[fd00::2]" } else { "10.0.0.2" });
        let ethernet = frames(&written(&e, 1460));
        let relink = |head: &dyn Fn(&[u8]) -> Vec<u8>| -> Vec<(u64, Vec<u8>)> {
            ethernet.iter().map(|(at, f)| (*at, [head(f), f[14..].to_vec()].concat())).collect()
        };
        let links = [
            (1, ethernet.clone()),
            (1, ethernet.iter().map(|(at, f)| (*at, [&f[..12], &[0x81, 0, 0, 5], &f[12..]].concat())).collect()),
            (101, relink(&|_| Vec::new())),
            (113, relink(&|f| [&[0; 14], &f[12..14]].concat())),
            (276, relink(&|f| [&f[12..14], &[0; 18]].concat())),
            (0, relink(&|_| vec![2, 0, 0, 0])),
            (108, relink(&|_| vec![0, 0, 0, 2])),
        ];
        let want = Capture::read(&written(&e, 1460)[..]).unwrap();
        for (link, frames) in links {
            for big_endian in [false, true] {
                let back = Capture::read(&classic(link, usize::MAX, &frames, big_endian)[..]).unwrap();
                assert_eq!(back.exchange(), want.exchange(), "link type {link} of {host}");
            }
        }
        let infiniband = Capture::read(&classic(247, usize::MAX, &ethernet, false)[..]);
        assert!(matches!(infiniband, Err(CaptureError::Link(_))), "{infiniband:?}");
    }
}

#[test]
fn frames_cut_by_a_snap_length_lose_data_but_not_the_connection() {
    let e = exchange("10.0.0.1", "10.0.0.2");
    let file = classic(1, 14 + 20 + 20 + 128, &frames(&written(&e, 1460)), false);
    let back = Capture::read(&file[..]).unwrap();
    let c = &back.connections()[0];
    assert_eq!(c.pdus().count(), 2, "ICReq and ICResp are whole");
    assert!(c.events.iter().any(|e| matches!(e.kind, EventKind::Gap { .. })));
    assert!(matches!(c.events.last().unwrap().kind, EventKind::Closed { reset: false }));
}

#[test]
fn tshark_reads_it_without_complaint() {
    let Ok(version) = Command::new("tshark").arg("--version").output() else {
        eprintln!("skipped: tshark is not installed");
        return;
    };
    assert!(version.status.success());
    let e = exchange("10.0.0.1", "10.0.0.2");
    let path = std::env::temp_dir().join(format!("nvmf-capture-{}.pcapng", std::process::id()));
    std::fs::write(&path, written(&e, 1460)).unwrap();
    let run = |args: &[&str]| {
        let checks = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"];
        let out = Command::new("tshark").arg("-r").arg(&path).args(checks).args(args).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let types = run(&["-Y", "nvme-tcp", "-T", "fields", "-e", "nvme-tcp.type", "-e", "frame.comment"]);
    let bad =
        run(&["-Y", "_ws.expert.severity >= 6291456 || tcp.checksum.status == 0 || ip.checksum.status == 0 || tcp.analysis.flags"]);
    let stamp = run(&["-Y", "tcp.flags.syn == 1", "-T", "fields", "-e", "frame.time_epoch"]);
    std::fs::remove_file(&path).unwrap();
    let mut seen: Vec<&str> = types.lines().collect();
    seen.sort_unstable();
    let comment = "tcp/icreq/pfv-unsupported:one";
    let want: Vec<String> = ["0", "0", "1", "1", "7", "7"].iter().map(|t| format!("{t}\t{comment}")).collect();
    assert_eq!(seen, want, "{types}");
    assert_eq!(bad.lines().filter(|l| !l.contains("[RST")).collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(stamp.starts_with("1.000000000\n"), "{stamp}");
}

#[test]
fn the_trace_of_a_file_is_that_of_the_recorded_exchange() {
    let e = exchange("10.0.0.1", "10.0.0.2");
    let back = Capture::read(&written(&e, 100)[..]).unwrap();
    assert_eq!(Trace::new(e.start_ns()).exchange(back.exchange()), Trace::new(e.start_ns()).exchange(&e));
}

/// A recorded association of Linux with its target on `port`, as frames.
fn recorded(port: u16) -> (Exchange, Vec<(u64, Vec<u8>)>) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../captures/linux-6.12/tcp-io-64k.pcap.gz");
    let mut e = Capture::open(path).unwrap().into_exchange();
    for c in &mut e.connections {
        c.server.set_port(port);
    }
    let frames = frames(&written(&e, 1448));
    (e, frames)
}

fn bytes_of(c: &Connection, dir: Direction) -> Vec<Bytes> {
    c.pdus().filter(|(e, _)| e.dir == dir).map(|(_, b)| b.clone()).collect()
}

/// Wherever a capture begins, and on whatever port, what it shows of a connection is the end of what the whole shows, and nothing
/// else; at most the PDU that the beginning cuts and a few that nothing proves are missing.
#[test]
fn a_capture_may_begin_anywhere() {
    for port in [4420, 5555] {
        let (whole, frames) = recorded(port);
        let io = whole.connections.last().unwrap();
        for first in (0..frames.len()).step_by(frames.len() / 40) {
            let back = Capture::read(&classic(1, usize::MAX, &frames[first..], false)[..]).unwrap();
            let found = |c: &&Connection| back.connections().iter().any(|b| b.client == c.client);
            let left = |c: &Connection| c.pdus().filter(|(e, _)| e.at_ns > frames[first].0).count();
            for missing in whole.connections.iter().filter(|c| !found(c)) {
                assert!(left(missing) <= 2, "port {port}, from frame {first} on: {} PDUs", left(missing));
            }
            for c in back.connections() {
                let all = whole.connections.iter().find(|w| w.client == c.client && w.server == c.server).unwrap();
                for dir in [H2C, C2H] {
                    let (seen, all) = (bytes_of(c, dir), bytes_of(all, dir));
                    assert!(all.ends_with(&seen), "port {port}, from frame {first} on: {} of {} PDUs", seen.len(), all.len());
                }
                let from = c.events[0].at_ns;
                let due = all.pdus().filter(|(e, _)| e.at_ns > from).count();
                assert!(c.pdus().count() + 2 >= due, "port {port}, from frame {first} on: {} of {due}", c.pdus().count());
            }
        }
        let middle = frames.iter().position(|(at, _)| *at >= io.events[io.events.len() / 2].at_ns).unwrap();
        let back = Capture::read(&classic(1, usize::MAX, &frames[middle..], false)[..]).unwrap();
        let trace = Trace::new(0).exchange(back.exchange());
        assert!(trace.contains("the start of the connection was not captured"), "{trace}");
        let of_io: Vec<&str> =
            trace.lines().filter(|l| l.contains("(taken for an I/O Queue by its commands: no Connect was seen)")).collect();
        let [inferred] = of_io[..] else { panic!("{trace}") };
        assert!(inferred.contains(" Read ") || inferred.contains(" Write "), "{inferred}");
    }
}

/// With any one frame missing, every other PDU but those that it held a part of is shown.
#[test]
fn a_missing_frame_costs_the_pdus_that_it_held() {
    let (whole, frames) = recorded(4420);
    let count = |e: &Exchange| e.connections.iter().flat_map(|c| c.pdus()).count();
    let all = count(&whole);
    let long = |f: &[u8]| f.len() > 100;
    for left_out in (0..frames.len()).filter(|i| long(&frames[*i].1)).step_by(23) {
        let rest: Vec<_> = frames.iter().enumerate().filter(|(i, _)| *i != left_out).map(|(_, f)| f.clone()).collect();
        let back = Capture::read(&classic(1, usize::MAX, &rest, false)[..]).unwrap();
        let lost = all - count(back.exchange());
        // A segment of 1,448 bytes can hold 20 capsules of 72; here it holds data and few of them.
        assert!((1..=4).contains(&lost), "without frame {left_out} {lost} PDUs are missing");
        assert!(back.connections().iter().any(|c| c.events.iter().any(|e| matches!(e.kind, EventKind::Gap { .. }))));
    }
}
