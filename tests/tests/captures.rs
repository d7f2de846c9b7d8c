//! Every PDU, SQE and CQE of the recorded traffic in `captures/` decodes and gives the same bytes again, and there are as many as
//! the manifest counted by other means. `cargo xtask vectors --captures FILE…` does it for any capture.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Table;

#[path = "../../xtask/src/vectors/roundtrip.rs"]
mod roundtrip;

use roundtrip::Trip;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../captures")
}

fn manifest() -> Vec<Table> {
    let text = std::fs::read_to_string(folder().join("manifest.toml")).expect("the manifest can be read");
    let table: Table = text.parse().expect("the manifest is TOML");
    let entries = table["capture"].as_array().expect("a list").iter();
    entries.map(|e| e.as_table().expect("a table").clone()).collect()
}

fn number(entry: &Table, key: &str) -> usize {
    entry.get(key).and_then(toml::Value::as_integer).unwrap_or(0) as usize
}

fn counts(entry: &Table, key: &str) -> BTreeMap<String, usize> {
    let table = entry.get(key).and_then(toml::Value::as_table).into_iter().flatten();
    table.map(|(k, v)| (k.clone(), v.as_integer().unwrap_or(-1) as usize)).collect()
}

#[test]
fn every_capture_goes_through_and_back() {
    let entries = manifest();
    assert!(entries.len() >= 50, "only {} captures", entries.len());
    let mut wrong = Vec::new();
    for e in &entries {
        let file = e["file"].as_str().expect("a name");
        let keys = e.get("keys").map(|k| folder().join(k.as_str().expect("a name")));
        let trip = Trip::of(&folder().join(file), keys.as_deref()).expect("a capture");
        wrong.extend(trip.mismatches.iter().map(|m| format!("{file}: {m}")));
        let got = (&trip.pdus, trip.malformed.len(), trip.rest.len(), trip.bad_digests);
        let want = (&counts(e, "pdus"), number(e, "malformed"), number(e, "undecodable"), 0);
        if got != want {
            wrong.push(format!("{file}: (PDUs, malformed, undecodable, bad digests) {got:?}, the manifest has {want:?}"));
        }
        let got = (&trip.packets, &trip.messages, trip.repeated);
        let want = (&counts(e, "packets"), &counts(e, "messages"), number(e, "repeated"));
        if got != want {
            wrong.push(format!("{file}: (RoCEv2 packets, messages, sent again) {got:?}, the manifest has {want:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The manifest lists every file there is, and nothing else.
#[test]
fn the_manifest_is_complete() {
    let entries = manifest();
    let named = |key: &str| entries.iter().filter_map(|e| e.get(key)?.as_str()).map(|f| folder().join(f)).collect::<Vec<_>>();
    let mut listed = [named("file"), named("keys")].concat();
    let stacks = std::fs::read_dir(folder()).expect("the folder").map(|d| d.expect("an entry").path()).filter(|p| p.is_dir());
    let mut there: Vec<PathBuf> =
        stacks.flat_map(|d| std::fs::read_dir(d).expect("a folder").map(|f| f.expect("an entry").path())).collect();
    listed.sort();
    there.sort();
    assert_eq!(listed, there);
    for key in ["sha256", "stack", "what", "record"] {
        assert!(entries.iter().all(|e| e.get(key).is_some_and(|v| v.as_str().is_some_and(|s| !s.is_empty()))), "{key}");
    }
}

/// Garbage behind PDUs is told with where and why, and a file without PDUs is no success.
#[test]
fn garbage_is_no_silent_pass() {
    let dir = tempfile::tempdir().expect("a folder");
    let put = |name: &str, streams: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, pcap(streams)).expect("writes");
        Trip::of(&path, None).expect("a capture")
    };
    let mut icreq = vec![0u8; 128];
    (icreq[2], icreq[4]) = (128, 128);
    let good = put("good.pcap", &icreq);
    assert_eq!((good.total(), good.rest.len(), good.mismatches.len()), (1, 0, 0));
    let mut garbage = icreq.clone();
    garbage.extend([4, 0, 72, 0, 3, 0, 0, 0, 9, 9]);
    let bad = put("garbage.pcap", &garbage);
    assert_eq!((bad.total(), bad.rest.len()), (1, 1));
    assert!(bad.rest[0].contains("offset 128") && bad.rest[0].contains("PLEN 3"), "{}", bad.rest[0]);
    assert_eq!(put("http.pcap", b"GET / HTTP/1.1\r\n\r\n").total(), 0);
}

/// One TCP connection from 10.0.0.1 to 10.0.0.2:4420 that carries `payload` from the host, as a pcap file.
fn pcap(payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];
    for (flags, seq, data) in [(0x02u8, 100u32, &[][..]), (0x18, 101, payload), (0x11, 101 + payload.len() as u32, &[])] {
        let total = 40 + data.len();
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
        frame.extend((total as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(40000u16.to_be_bytes());
        frame.extend(4420u16.to_be_bytes());
        frame.extend(seq.to_be_bytes());
        frame.extend([0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend(data);
        out.extend([0u8; 8]);
        out.extend((frame.len() as u32).to_le_bytes());
        out.extend((frame.len() as u32).to_le_bytes());
        out.extend(frame);
    }
    out
}
