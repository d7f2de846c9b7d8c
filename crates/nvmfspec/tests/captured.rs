//! `nvmfspec trace` and `nvmfspec lint` on recorded traffic, on traffic of our own, and on what is no capture.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn run(args: &[&str], stdin: Stdio) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_nvmfspec")).args(args).stdin(stdin).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code().expect("not ended by a signal"), text(stdout), text(stderr))
}

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures").join(name)
}

#[test]
fn a_recorded_capture_is_shown_and_judged() {
    let file = recorded("linux-6.12/tcp-abort.pcap.gz");
    let path = file.to_str().unwrap();
    let (status, plain, note) = run(&["trace", path], Stdio::null());
    assert_eq!((status, note.as_str()), (0, ""));
    assert!(plain.contains(" #0 > ICReq pfv=0 "), "{plain}");
    assert_eq!(plain.lines().filter(|l| !l.starts_with('#')).count(), plain.lines().count() - 2);
    // The same from standard input.
    assert_eq!(run(&["trace", "-"], File::open(&file).unwrap().into()).1, plain);
    let (_, marked, _) = run(&["trace", "--lint", path], Stdio::null());
    let (status, found, _) = run(&["lint", path], Stdio::null());
    let (_, json, _) = run(&["lint", "--json", path], Stdio::null());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let findings = json["findings"].as_array().unwrap();
    assert_eq!(status, 1);
    assert!(!findings.is_empty());
    assert_eq!(found.lines().count(), findings.len() + 1);
    assert_eq!(marked.lines().count(), plain.lines().count() + findings.len());
    // What Linux sends in a reserved byte is what the finding shows.
    let first = &findings[0];
    assert_eq!((first["requirement"].as_str(), first["side"].as_str()), (Some("FAB-PROP-11"), Some("host")));
    let bytes = serde_json::json!({ "of": "pdu", "offset": 8 + 39, "hex": "5a" });
    assert_eq!((&first["bytes"], first["frame"].as_u64()), (&bytes, Some(10)));
    assert!(found.starts_with(&format!("{} frame 10 #0 ", found.split(' ').next().unwrap())), "{found}");
}

#[test]
fn findings_are_sifted() {
    let file = recorded("linux-6.12/tcp-discover-8009-referral.pcap.gz");
    let sift = |options: &[&str]| {
        let args = [&["lint", "--json"], options, &[file.to_str().unwrap()]].concat();
        let (status, json, _) = run(&args, Stdio::null());
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let text = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
        let findings = json["findings"].as_array().unwrap().iter();
        let found: Vec<_> = findings.map(|f| (text(&f["requirement"]), text(&f["side"]), text(&f["level"]))).collect();
        assert_eq!(status, i32::from(!found.is_empty()));
        found
    };
    let all = sift(&[]);
    let host = sift(&["--side", "host"]);
    assert!(!host.is_empty() && host.iter().all(|f| f.1 == "host"), "{host:?}");
    assert_eq!(all.len(), host.len() + sift(&["--side", "controller"]).len());
    let shall = sift(&["--level", "shall"]);
    assert!(shall.len() < all.len() && shall.iter().all(|f| f.2 == "shall"), "{shall:?}");
    assert_eq!(sift(&["--only", "TCP-DISC,FAB-PROP-23"]).len(), all.iter().filter(|f| f.2 == "should").count());
    assert_eq!(sift(&["--skip", "FAB,DISC,CQE,TCP,RESET"]), []);
    let once = sift(&["--once"]);
    let kinds: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(once.iter().collect::<std::collections::BTreeSet<_>>(), kinds);
    assert_eq!(once.len(), kinds.len());
    let (status, _, err) = run(&["lint", "--side", "both", file.to_str().unwrap()], Stdio::null());
    assert_eq!(status, 2, "{err}");
}

/// NVMe/TCP below TLS is as any other once its secrets are given; a key log that is none is refused with its line, and no line is quoted.
#[test]
fn secrets_are_given_by_a_key_log() {
    let (file, keys) = (recorded("linux-6.12/tls13-discover.pcap.gz"), recorded("linux-6.12/tls13-discover.keys"));
    let (path, log) = (file.to_str().unwrap(), keys.to_str().unwrap());
    let (status, with, note) = run(&["trace", "--keys", log, path], Stdio::null());
    assert_eq!((status, note.as_str()), (0, ""));
    assert!(with.contains(" #0 < TLS ServerHello version=\"TLS 1.3\" suite=TLS_AES_128_GCM_SHA256 "), "{with}");
    assert!(with.contains(" #0 > ICReq pfv=0 "), "{with}");
    let (_, without, _) = run(&["trace", path], Stdio::null());
    assert!(without.contains("no secret for client random") && !without.contains("ICReq"), "{without}");
    assert_eq!(run(&["lint", path], Stdio::null()).0, 0);
    assert_eq!(run(&["lint", "--keys", log, path], Stdio::null()).0, 1);
    let dir = tempfile::tempdir().unwrap();
    let wrong = dir.path().join("keys");
    std::fs::write(&wrong, "# one\nCLIENT_TRAFFIC_SECRET_0 12 5ec2e7\n").unwrap();
    let (status, _, said) = run(&["trace", "--keys", wrong.to_str().unwrap(), path], Stdio::null());
    assert!(
        status == 3 && said.contains("is no key log: line 2: 2 characters of client random") && !said.contains("5ec2e7"),
        "{said}"
    );
    assert_eq!(run(&["trace", "--keys", "/nowhere", path], Stdio::null()).0, 3);
}

/// The forms of `trace`: fields, JSON, tree, filter, colours.
#[test]
fn a_capture_in_every_form() {
    let file = recorded("linux-6.12/tcp-admin.pcap.gz");
    let path = file.to_str().unwrap();
    let trace = |args: &[&str]| run(&[&["trace"], args, &[path]].concat(), Stdio::null());
    let (status, out, _) = trace(&["--fields", "frame.number,nvme.cmd.opc,nvme.cmd.cid", "--filter", "nvme.cmd.opc in {2, 6}"]);
    assert_eq!((status, out.lines().next()), (0, Some("22\t0x06\t0x0002")));
    let (_, json, _) = trace(&["--json", "--filter", "frame.number == 22"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let layers = &json[0]["_source"]["layers"];
    assert_eq!(layers["frame"]["frame.number"].as_str(), Some("22"));
    assert_eq!(layers["nvme"]["nvme.cmd.identify.dword10_tree"]["nvme.cmd.identify.dword10.cns"].as_str(), Some("0x00000001"));
    let (_, tree, _) = trace(&["-V", "--filter", "frame.number == 22"]);
    assert!(tree.contains("nvme.cmd.opc: 0x06 (Identify)  Opcode (OPC)"), "{tree}");
    let (_, lines, _) = trace(&["--filter", "frame.number == 22"]);
    assert!(
        lines.contains("    22     0.031947 10.9.0.1 → 10.9.0.2 NVMe/TCP     72 #0 > CapsuleCmd cid=0x0002 Identify"),
        "{lines}"
    );
    let (_, coloured, _) = trace(&["--filter", "frame.number == 22", "--color", "always"]);
    assert!(coloured.contains("\x1b[36m") && coloured.contains("\x1b[0m\n"), "{coloured}");
    assert!(!lines.contains('\x1b'), "{lines}");
    let (status, out, err) = trace(&["--filter", "nvme.cmd.opc = = 1"]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.contains("--filter: column 16: "), "{err}");
}

/// The player goes straight to its point, so it skips what a host should do first; the reference target does nothing wrong.
#[test]
fn traffic_of_our_own_is_judged_as_any() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let (status, ..) = run(&["conformance", "--world", "sim", "--filter", "io/read/last-block", "--out", out], Stdio::null());
    assert_eq!(status, 0);
    let file = dir.path().join("io.read.last-block.pcapng");
    let (status, json, note) = run(&["lint", "--json", file.to_str().unwrap()], Stdio::null());
    assert_eq!((status, note.as_str()), (1, ""), "{json}");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let found: Vec<_> = json["findings"].as_array().unwrap().iter().map(|f| (f["side"].as_str(), f["level"].as_str())).collect();
    assert_eq!(found, [(Some("host"), Some("should"))]);
    assert_eq!((json["connections"].as_u64(), json["pdus"].as_u64()), (Some(2), Some(19)));
}

#[test]
fn what_is_no_capture_is_refused() {
    for command in ["trace", "lint"] {
        let (status, out, err) = run(&[command, "/does/not/exist"], Stdio::null());
        assert_eq!((status, out.as_str()), (3, ""), "{err}");
        let (status, out, err) = run(&[command, "-"], Stdio::null());
        assert_eq!((status, out.as_str()), (3, ""));
        assert!(err.contains("is no capture file"), "{err}");
    }
}
