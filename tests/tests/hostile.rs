//! Captures that are cut, broken or made to harm: everything that reads them goes on or says where it ends, and holds little.
//!
//! The changes are drawn by proptest, which is a dependency already, needs no nightly toolchain, and shrinks what it finds to the few
//! changes that matter. `HOSTILE_CASES=100000 HOSTILE_SEED=3 cargo test --test hostile` runs it longer, and otherwise.

#[path = "../../benches/src/counting.rs"]
#[allow(dead_code, reason = "what counts allocations is not used here")]
mod counting;
#[path = "hostile/feed.rs"]
mod feed;
#[path = "hostile/mutate.rs"]
mod mutate;

use std::io::{Read, Write};

use proptest::test_runner::{Config, RngSeed, TestRunner};

use feed::{feed, feed_fast, feed_from};
use mutate::{Base, changed, changes, unzipped};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// The smallest with reads and writes, one with both digests, one of a stream that is broken on purpose.
const BASES: [&str; 4] = [
    "spdk-26.09/04-spdk-write-4k-incapsule.pcap.gz",
    "spdk-26.09/07c-spdk-hdgst-ddgst.pcap.gz",
    "spdk-26.09/05d-spdk-write-128k-maxh2c4096.pcap.gz",
    "spdk-26.09/16b-spdk-malformed-header.pcap.gz",
];

fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(or)
}

fn attack(bases: &[Base]) {
    let (cases, seed) = (number("HOSTILE_CASES", 240) as u32, number("HOSTILE_SEED", 7));
    let config = Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(seed), ..Config::default() };
    println!("{cases} cases of seed {seed}");
    let case = (0..bases.len(), changes());
    let run = |(base, changes): (usize, Vec<_>)| {
        feed(&changed(&bases[base], &changes));
        Ok(())
    };
    TestRunner::new(config).run(&case, run).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
}

#[test]
fn changed_pcap_files_do_no_harm() {
    attack(&BASES.map(Base::pcap));
}

/// Queue pairs, keys, packet numbers and messages of connection management.
#[test]
fn changed_captures_of_rdma_do_no_harm() {
    attack(&["linux-6.12/rdma-discover-8009.pcap.gz", "linux-6.12/rdma-connect-plain.pcap.gz"].map(Base::pcap));
}

/// TLS records and the secrets that open them, and authentication messages.
#[test]
fn changed_captures_of_tls_and_authentication_do_no_harm() {
    let tls = Base::blocks(unzipped("linux-6.12/tls13-psk-hmac1-id1.pcapng.gz"));
    let opened = feed(&tls.bytes);
    assert!(opened.pdus > 100 && opened.notes.is_empty(), "{} PDUs: {:?}", opened.pdus, opened.notes);
    attack(&[tls, Base::pcap("linux-6.12/auth-bidi-sha512-null.pcap.gz"), Base::pcap("linux-6.12/tls13-refused-plain.pcap.gz")]);
}

#[test]
fn changed_pcapng_files_do_no_harm() {
    attack(&BASES.map(Base::pcapng));
}

/// Wherever a file ends: what came before is shown, and the note says at which byte the record begins that is not whole.
#[test]
fn a_file_may_end_anywhere() {
    const FILE: &str = "spdk-26.09/01-spdk-discover.pcap.gz";
    // Behind the header of the file, or of the section and its interface, as far as a Property Get.
    for (base, head) in [(Base::pcap(FILE).start(12), 24), (Base::pcapng(FILE).start(14), 0)] {
        let head = if head == 0 { base.records[1] } else { head };
        let whole = feed(&base.bytes);
        assert!(whole.pdus >= 5 && whole.notes.is_empty(), "{} PDUs, {:?}", whole.pdus, whole.notes);
        for end in 0..base.bytes.len() {
            let cut = feed_fast(&base.bytes[..end]);
            if let Some(e) = cut.error {
                assert!(end < head, "{end}: {e}");
                continue;
            }
            let shown = cut.lines.iter().zip(&whole.lines).take_while(|(a, b)| a == b).count();
            // Behind the cut only what the end cuts short is said.
            assert!(cut.lines.len() - shown <= 2, "{end}: {:?}", cut.lines.get(shown..));
            let at = base.records.iter().rfind(|r| **r <= end).copied().unwrap_or(head);
            match cut.notes.as_slice() {
                [] => assert_eq!(end, at, "nothing is said"),
                [note] => assert!(note.contains(&format!("at byte {at}:")), "{end}, record at {at}: {note}"),
                more => panic!("{end}: {more:?}"),
            }
        }
    }
}

/// Wherever gzip ends or is broken: what came before is shown, and something is said.
#[test]
fn gzip_may_end_or_break_anywhere() {
    let plain = Base::pcap("spdk-26.09/01-spdk-discover.pcap.gz").start(12).bytes;
    let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zip.write_all(&plain).expect("writes");
    let zip = zip.finish().expect("writes");
    let whole = feed_fast(&zip);
    assert_eq!(whole.pdus, feed_fast(&plain).pdus);
    for at in 0..zip.len() {
        let cut = feed_fast(&zip[..at]);
        assert!(cut.error.is_some() || !cut.notes.is_empty(), "cut at {at}: nothing is said");
        let mut broken = zip.clone();
        broken[at] ^= 0x55;
        feed_fast(&broken);
    }
    let late = feed_fast(&zip[..zip.len() - 9]);
    assert!(late.pdus + 2 >= whole.pdus, "{} of {} PDUs: {:?} {:?}", late.pdus, whole.pdus, late.notes, late.error);
}

/// 64 MiB of empty records, in 300 KiB.
#[test]
fn a_gzip_bomb_costs_time_alone() {
    let start = unzipped("spdk-26.09/01-spdk-discover.pcap.gz");
    let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zip.write_all(&start).expect("writes");
    for _ in 0..64 {
        zip.write_all(&[0; 1 << 20]).expect("writes");
    }
    let zip = zip.finish().expect("writes");
    let fed = feed_from(zip.as_slice(), false, true);
    assert!(fed.frames > 4_000_000 && fed.pdus > 20, "{} frames, {} PDUs, {:?}", fed.frames, fed.pdus, fed.notes);
}

/// A record of the link type raw IP behind the header of a pcap file.
fn raw(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0, 0, 0];
    for (i, p) in packets.iter().enumerate() {
        for n in [i as u32, 0, p.len() as u32, p.len() as u32] {
            out.extend(n.to_le_bytes());
        }
        out.extend(p);
    }
    out
}

/// A TCP segment to port 4420 in IPv4, with so many bytes of options, all `option`.
fn tcp(seq: u32, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let words = 5 + options.len() / 4;
    let total = (20 + 20 + options.len() + payload.len()) as u16;
    let mut p = vec![0x45, 0];
    p.extend(total.to_be_bytes());
    p.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0xc0, 0, 0x11, 0x44]);
    p.extend(seq.to_be_bytes());
    p.extend([0; 4]);
    p.extend([(words as u8) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    p.extend(options);
    p.extend(payload);
    p
}

fn icreq() -> Vec<u8> {
    let mut b = vec![0; 128];
    (b[2], b[4]) = (128, 128);
    b
}

/// Options of any length and kind, also of length 0, do not hide the payload.
#[test]
fn absurd_tcp_options_are_passed_over() {
    for fill in [0u8, 1, 2, 5, 8, 0xff] {
        for len in (0..=40).step_by(4) {
            let fed = feed(&raw(&[tcp(0, 2, &[], &[]), tcp(1, 0x18, &vec![fill; len], &icreq())]));
            assert_eq!(fed.pdus, 1, "{len} bytes of {fill:#x}: {:?}", fed.lines);
        }
    }
    let mut short = tcp(1, 0x18, &[], &icreq());
    short[32] = 0xf0;
    short.truncate(44);
    assert_eq!(feed(&raw(&[short])).pdus, 0);
}

/// Extension headers up to the length of the packet, fragments of every kind.
#[test]
fn deep_ipv6_and_fragments_do_no_harm() {
    let segment = tcp(1, 0x18, &[], &icreq())[20..].to_vec();
    for (kind, deep) in [(0u8, 1usize), (0, 8000), (43, 8000), (44, 8000), (60, 8000), (51, 8000), (135, 8000)] {
        let mut p = vec![0x60, 0, 0, 0];
        p.extend(((deep * 8 + segment.len()).min(65535) as u16).to_be_bytes());
        p.extend([kind, 64]);
        p.extend(
            [[0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], [0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]].concat(),
        );
        for n in 0..deep {
            p.extend([if n + 1 == deep { 6 } else { kind }, 0, 0, 0, 0, 0, 0, 0]);
        }
        p.extend(&segment);
        let fed = feed(&raw(&[p]));
        assert!(fed.error.is_none() && fed.frames == 1, "{kind}: {:?}", fed.error);
    }
    for offset in [0u16, 0x2000, 0x2001, 0x1fff, 0x3fff, 0x8000] {
        let mut p = tcp(1, 0x18, &[], &icreq());
        p[6..8].copy_from_slice(&offset.to_be_bytes());
        feed(&raw(&[p.clone(), p]));
    }
}

/// Lengths of records that are absurd end the reading, at that byte; what came before is shown.
#[test]
fn absurd_lengths_of_records_are_named_by_their_byte() {
    let base = Base::pcap("spdk-26.09/01-spdk-discover.pcap.gz");
    let whole = feed(&base.bytes);
    let at = base.records[base.records.len() / 2];
    for caplen in [0x0080_0001u32, 0x7fff_ffff, 0xffff_ffff] {
        let mut b = base.bytes.clone();
        b[at + 8..at + 12].copy_from_slice(&caplen.to_le_bytes());
        let fed = feed(&b);
        assert!(fed.pdus > 5 && fed.pdus < whole.pdus, "{caplen:#x}: {} PDUs", fed.pdus);
        assert!(fed.notes.iter().any(|n| n.contains(&format!("at byte {at}:"))), "{caplen:#x}: {:?}", fed.notes);
    }
    for origlen in [0u32, 0x7fff_ffff, 0xffff_ffff] {
        let mut b = base.bytes.clone();
        b[at + 12..at + 16].copy_from_slice(&origlen.to_le_bytes());
        let fed = feed(&b);
        assert!(fed.pdus > 5, "{origlen:#x}: {} PDUs", fed.pdus);
    }
}

/// Blocks, options, interfaces and time resolutions of pcapng that make no sense.
#[test]
fn absurd_blocks_are_named_by_their_byte_or_passed_over() {
    let base = Base::pcapng("spdk-26.09/01-spdk-discover.pcap.gz");
    let at = base.records[base.records.len() / 2];
    for len in [0u32, 1, 11, 12, 13, 0x7fff_fffc, 0xffff_ffff] {
        let mut b = base.bytes.clone();
        b[at + 4..at + 8].copy_from_slice(&len.to_le_bytes());
        let fed = feed(&b);
        assert!(fed.pdus > 5, "{len:#x}: {} PDUs", fed.pdus);
        assert!(fed.notes.iter().any(|n| n.contains(&format!("at byte {at}:"))), "{len:#x}: {:?}", fed.notes);
    }
    for interface in [1u32, 0x7fff_ffff, 0xffff_ffff] {
        let mut b = base.bytes.clone();
        b[at + 8..at + 12].copy_from_slice(&interface.to_le_bytes());
        assert!(feed(&b).pdus > 5);
    }
    // The resolution is the value of the last option but one of the interface, a byte.
    let interface = base.records[1];
    let resolution = (interface..base.records[2]).find(|i| base.bytes[*i..].starts_with(&[9, 0, 1, 0])).expect("if_tsresol") + 4;
    for value in 0..=255u8 {
        let mut b = base.bytes.clone();
        b[resolution] = value;
        feed(&b);
    }
    for len in [0u16, 5, 0x7fff, 0xffff] {
        let mut b = base.bytes.clone();
        b[resolution - 2..resolution].copy_from_slice(&len.to_le_bytes());
        feed(&b);
    }
}

/// Segments to port 4420 from so many connections, round and round, made as they are read: the first of each is an ICReq and the head of
/// a C2HData of 64 MiB that never ends.
struct Endless {
    connections: u32,
    segments: u32,
    made: u32,
    piece: std::collections::VecDeque<u8>,
}

/// Payload of a segment, bytes.
const SEGMENT: u32 = 0xf000;

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.piece.is_empty() && self.made < self.segments {
            let (conn, round) = (self.made % self.connections, self.made / self.connections);
            let mut payload = if round == 0 { icreq() } else { Vec::new() };
            if round == 0 {
                payload.extend([6, 0, 24, 24, 0xff, 0xff, 0xff, 3]);
            }
            payload.resize(SEGMENT as usize, 0xaa);
            let mut segment = tcp(1 + round * SEGMENT, 0x18, &[], &payload);
            segment[20..22].copy_from_slice(&(10_000 + conn as u16).to_be_bytes());
            let file = raw(&[segment]);
            self.piece.extend(if self.made == 0 { &file[..] } else { &file[24..] });
            self.made += 1;
        }
        self.piece.read(out)
    }
}

/// Streams that claim a PDU of 64 MiB and never end it: one may hold what is put together at most, many no more than that.
#[test]
fn pdus_that_never_end_hold_little() {
    let one = feed_from(Endless { connections: 1, segments: 200, made: 0, piece: [].into() }, false, true);
    assert!(one.pdus == 1 && one.held > 4 << 20, "{} PDUs, {} bytes: the allocator counts", one.pdus, one.held);
    let many = feed_from(Endless { connections: 100, segments: 4000, made: 0, piece: [].into() }, false, true);
    assert_eq!(many.pdus, 100, "{:?}", many.notes);
}
