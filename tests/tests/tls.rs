//! NVMe/TCP over TLS 1.3 in recorded captures: opened with the secrets, told without them, and changed bytes cost what they touch.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use nvmf_capture::tls::{KeyLog, Notice};
use nvmf_capture::{Capture, EventKind, Follow, Judge, Trace};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../captures").join(name)
}

/// The uncompressed bytes of a capture.
fn bytes(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(file(name)).unwrap()).read_to_end(&mut out).unwrap();
    out
}

const DISCOVER: &str = "linux-6.12/tls13-discover.pcap.gz";

fn discover(keys: &[u8]) -> Capture {
    Capture::follow(&Follow::new().keys(KeyLog::read(keys).unwrap()), &bytes(DISCOVER)[..]).unwrap()
}

fn key_log() -> Vec<u8> {
    std::fs::read(file("linux-6.12/tls13-discover.keys")).unwrap()
}

/// Kinds of events of a capture, counted.
fn kinds(capture: &Capture) -> BTreeMap<&'static str, usize> {
    let mut out = BTreeMap::new();
    for (_, e) in capture.exchange().events() {
        let kind = match &e.kind {
            EventKind::Pdu(_) => "PDU",
            EventKind::Tls(_) => "TLS",
            EventKind::Undecodable { .. } => "undecodable",
            EventKind::Gap { .. } => "gap",
            _ => continue,
        };
        *out.entry(kind).or_default() += 1;
    }
    out
}

/// What TLS says on each connection, and the first PDUs.
#[test]
fn what_was_negotiated_is_in_the_trace() {
    let mut out = String::new();
    for name in [
        "linux-6.12/tls13-psk-hmac1-id0.pcapng.gz",
        "linux-6.12/tls13-psk-hmac1-id1.pcapng.gz",
        "linux-6.12/tls13-refused-by-plain-target.pcap.gz",
        "linux-6.12/tls13-refused-plain.pcap.gz",
        "spdk-26.09/14a-spdk-tls-psk32.pcapng.gz",
        "spdk-26.09/14c-spdk-tls-wrong-psk.pcap.gz",
        "openssl-3.0/chacha-keyupdate.pcapng.gz",
        "openssl-3.0/aes256-retry.pcapng.gz",
    ] {
        let capture = Capture::open(file(name)).unwrap();
        assert!(capture.notes().is_empty(), "{:?}", capture.notes());
        let text = Trace::default().without_times().exchange(capture.exchange());
        out.push_str(&format!("{name}\n"));
        for line in text.lines().filter(|l| !l.contains(" Capsule") && !l.contains(" C2HData")) {
            out.push_str(&format!("{line}\n"));
        }
    }
    insta::assert_snapshot!(out);
}

/// The same PDUs, whoever sealed them: OpenSSL was given those of the Linux capture.
#[test]
fn all_suites_give_the_same_pdus() {
    let plain = |capture: &Capture| {
        let c = &capture.connections()[0];
        assert_eq!(capture.connections().len(), 1);
        let mut out: Vec<_> = c.pdus().map(|(e, b)| (e.dir, b.clone())).collect();
        out.sort_by_key(|(dir, _)| *dir);
        out
    };
    let linux = plain(&discover(&key_log()));
    assert_eq!(linux.len(), 39);
    for name in ["openssl-3.0/chacha-keyupdate.pcapng.gz", "openssl-3.0/aes256-retry.pcapng.gz"] {
        assert_eq!(plain(&Capture::open(file(name)).unwrap()), linux, "{name}");
    }
}

/// A connection on any port is recognised by its PSK identity. Without its secrets that is told once, with the random by which they
/// can be found; the rules hold nobody to account for what they do not see.
#[test]
fn missing_secrets_are_told() {
    let capture = discover(b"");
    assert_eq!(kinds(&capture), BTreeMap::from([("TLS", 2), ("undecodable", 1)]));
    let text = Trace::default().without_times().exchange(capture.exchange());
    let random = std::str::from_utf8(&key_log()).unwrap().split(' ').nth(1).unwrap().to_owned();
    assert!(text.contains(&format!("TLS 1.3, no secret for client random {random}")), "{text}");
    assert!(Judge::exchange(capture.exchange()).is_empty());
    assert!(!Judge::exchange(discover(&key_log()).exchange()).is_empty(), "what Linux breaks without TLS it breaks above it");
}

/// Secrets of which a digit is wrong open nothing, and are not taken for missing.
#[test]
fn wrong_secrets_are_told() {
    let mut keys = key_log();
    for line in keys.split_mut(|b| *b == b'\n') {
        if let Some(last) = line.last_mut() {
            *last = if *last == b'0' { b'1' } else { b'0' };
        }
    }
    let capture = discover(&keys);
    let kinds = kinds(&capture);
    assert_eq!(kinds.get("PDU"), None);
    let text = Trace::default().without_times().exchange(capture.exchange());
    assert!(text.contains("TLS record 0 does not authenticate"), "{text}");
    assert!(kinds["undecodable"] <= 4, "{text}");
}

/// Where no PSK identity tells it, a connection on any port is NVMe/TCP by the ICReq that the secrets show, and without them not.
#[test]
fn a_certificate_alone_does_not_tell() {
    let capture = Capture::open(file("openssl-3.0/aes256-retry.pcapng.gz")).unwrap();
    let hello = capture.connections()[0].events.iter().find_map(|e| match &e.kind {
        EventKind::Tls(Notice::ClientHello { identities, .. }) => Some(identities.len()),
        _ => None,
    });
    assert_eq!(hello, Some(0));
    // Secrets of another kind.
    let mut raw = bytes("openssl-3.0/aes256-retry.pcapng.gz");
    let at = raw.windows(4).position(|w| w == b"KSLT").unwrap();
    raw[at] = b'X';
    let capture = Capture::read(&raw[..]).unwrap();
    assert_eq!((capture.connections().len(), capture.other_connections()), (0, 1));
}

/// A wrong line of a key log within a file is told with its place, and the frames are read all the same.
#[test]
fn a_broken_secrets_block_is_a_note() {
    let mut raw = bytes("linux-6.12/tls13-psk-hmac1-id0.pcapng.gz");
    let at = raw.windows(23).position(|w| w == b"CLIENT_TRAFFIC_SECRET_0").unwrap();
    raw[at + 30] = b'!';
    let capture = Capture::read(&raw[..]).unwrap();
    assert_eq!(capture.connections().len(), 2);
    assert!(capture.notes().len() == 1 && capture.notes()[0].contains("secrets at byte"), "{:?}", capture.notes());
}

/// One bit changed in each record: it is told, at most the PDUs that it touches are lost, and the others are as they were.
#[test]
fn a_changed_bit_costs_what_it_touches() {
    let raw = bytes(DISCOVER);
    let whole: Vec<_> = discover(&key_log()).connections()[0].pdus().map(|(_, b)| b.clone()).collect();
    let follow = Follow::new().keys(KeyLog::read(&key_log()).unwrap());
    let records: Vec<usize> = raw.windows(3).enumerate().filter(|(_, w)| *w == [23, 3, 3]).map(|(i, _)| i).collect();
    assert!(records.len() > 30, "{}", records.len());
    for at in records.iter().map(|at| at + 12) {
        let mut changed = raw.clone();
        changed[at] ^= 4;
        let capture = Capture::follow(&follow, &changed[..]).unwrap();
        let left: Vec<_> = capture.connections()[0].pdus().map(|(_, b)| b.clone()).collect();
        assert!(left.len() + 2 >= whole.len(), "byte {at}: {} of {} PDUs", left.len(), whole.len());
        assert!(left.iter().all(|pdu| whole.contains(pdu)), "byte {at}: a PDU that nobody sent");
        assert!(kinds(&capture).contains_key("undecodable"), "byte {at}");
    }
}

/// Any bytes changed anywhere in the file: reading, tracing and judging end.
#[test]
fn no_bytes_can_make_it_fail() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below.max(1) as u64) as usize
    };
    let mut pdus = 0;
    for name in ["linux-6.12/tls13-psk-hmac1-id0.pcapng.gz", "openssl-3.0/aes256-retry.pcapng.gz"] {
        let raw = bytes(name);
        for _ in 0..40 {
            let mut changed = raw.clone();
            for _ in 0..random(40) {
                let at = random(changed.len());
                changed[at] = random(256) as u8;
            }
            if let Ok(capture) = Capture::read(&changed[..]) {
                pdus += kinds(&capture).get("PDU").copied().unwrap_or(0);
                assert_eq!(Trace::new(0).with_rules().exchange(capture.exchange()).is_empty(), capture.connections().is_empty());
            }
        }
    }
    assert!(pdus > 500, "{pdus}");
}
