//! `nvmfspec host` as a user runs it, against a target in this process.

use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Output};
use std::sync::Arc;

use nvmf_engine::controller::NewNamespace;
use nvmf_engine::store::MemoryStore;
use nvmf_engine::{ControllerSettings, RdmaSettings, TcpSettings};
use nvmf_net::target::{Listener, SubsystemConfig};
use nvmf_net::{EmbeddedTarget, TargetConfig};
use nvmf_seam::store::Geometry;

const NQN: &str = "nqn.2014-08.org.example:one";

fn target(nqns: &[&str]) -> (EmbeddedTarget, String) {
    let store = Arc::new(MemoryStore::new(Geometry { blocks: 1024, block_size: 512 }));
    let subsystems = nqns.iter().map(|nqn| SubsystemConfig {
        nqn: (*nqn).into(),
        hosts: None,
        namespaces: vec![(1, NewNamespace { store: store.clone(), blocking: false, uuid: None })],
    });
    let target = EmbeddedTarget::start(TargetConfig {
        listeners: vec![Listener::new("127.0.0.1:0".parse().unwrap())],
        subsystems: subsystems.collect(),
        controller: ControllerSettings::default(),
        tcp: TcpSettings { data_digest: false, ..TcpSettings::default() },
        rdma: RdmaSettings::default(),
        tap: None,
        observer: None,
    })
    .unwrap();
    let at = target.address().to_string();
    (target, at)
}

fn run(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_nvmfspec")).arg("host").args(args).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn discover_as_text_and_as_json() {
    let (_target, at) = target(&[NQN]);
    let (code, out, err) = run(&["discover", "--target", &at]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains(NQN) && out.contains("NVM subsystem") && out.contains("TCP IPv4"), "{out}");
    let (code, out, _) = run(&["discover", "--target", &at, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 0);
    assert!(json["entries"].as_array().unwrap().iter().any(|e| e["subnqn"] == NQN && e["trtype"] == 3), "{out}");
}

#[test]
fn connect_and_identify() {
    let (_target, at) = target(&[NQN]);
    let (code, out, err) = run(&["connect", "--target", &at, "--queues", "2", "--hdgst", "--no-flow-control"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let queue = out.lines().find(|l| l.starts_with("queue 2")).unwrap_or_else(|| panic!("{out}"));
    assert!(queue.contains("HDGST on, DDGST off") && queue.ends_with("SQ flow control off"), "{queue}");
    let (code, out, _) = run(&["connect", "--target", &at, "--kato", "1.5", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &json["subsystem"], &json["kato_ms"], &json["queues"][1]["qid"]), (0, &NQN.into(), &1500.into(), &1.into()));
    let (code, out, _) = run(&["identify", "--target", &at, "--nqn", NQN]);
    assert_eq!(code, 0);
    assert!(out.contains("Serial Number (SN)") && out.contains("NSID 1: 1024 blocks of 512 bytes"), "{out}");
    let (code, out, _) = run(&["identify", "--target", &at, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &json["controller"]["subnqn"], &json["namespaces"][0]["fields"]["nsze"]), (0, &NQN.into(), &1024.into()));
}

#[test]
fn write_and_read() {
    let (_target, at) = target(&[NQN]);
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let data: Vec<u8> = (0..200_000u32).map(|n| (n / 3) as u8).collect();
    std::fs::write(&from, &data).unwrap();
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    let (code, out, err) = run(&["write", "--target", &at, "--lba", "7", "--file", from, "--verify", "--queues", "3"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("391 blocks of 512 bytes written from block 7 on, read back equal"), "{out}");
    assert_eq!(run(&["read", "--target", &at, "--lba", "7", "--blocks", "391", "--file", to]).0, 0);
    let read = std::fs::read(to).unwrap();
    assert_eq!((read.len(), &read[..data.len()]), (391 * 512, &data[..]));
    assert!(read[data.len()..].iter().all(|b| *b == 0));
    assert_eq!(run(&["write", "--target", &at, "--blocks", "2", "--pattern", "lba"]).0, 0);
    let (_, out, _) = run(&["read", "--target", &at, "--lba", "1"]);
    assert!(out.starts_with("00000200  01 00 00 00 00 00 00 00 01 00"), "{out}");
}

#[test]
fn what_goes_wrong_has_a_status_and_a_reason() {
    let (_two, several) = target(&[NQN, "nqn.2014-08.org.example:two"]);
    let (code, _, err) = run(&["read", "--target", &several]);
    assert_eq!(code, 2);
    assert!(err.contains("--nqn") && err.contains(NQN), "{err}");
    let (code, _, err) = run(&["read", "--target", &several, "--nqn", NQN, "--lba", "1024"]);
    assert_eq!(code, 2);
    assert!(err.contains("1024 blocks"), "{err}");
    let (code, _, err) = run(&["connect", "--target", &several, "--nqn", "nqn.2014-08.org.example:none"]);
    assert_eq!(code, 1);
    assert!(err.contains("Connect refused") && err.contains("IPO 256 in the data"), "{err}");
    let (code, _, err) = run(&["connect", "--target", &several, "--nqn", NQN, "--ddgst"]);
    assert_eq!(code, 1);
    assert!(err.contains("digests not granted"), "{err}");
    for wrong in [&["read", "--target", &several, "--hpda", "32"][..], &["read"], &["write", "--target", &several]] {
        assert_eq!(run(wrong).0, 2, "{wrong:?}");
    }
    assert_eq!(run(&["write", "--target", &several, "--nqn", NQN, "--file", "/nonexistent/file"]).0, 1);

    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (code, _, err) = run(&["connect", "--target", &gone, "--nqn", NQN]);
    assert_eq!(code, 3);
    assert!(err.contains(&gone) && err.contains("refused"), "{err}");

    // Something else listens there.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = other.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").unwrap();
    });
    let (code, _, err) = run(&["connect", "--target", &at, "--nqn", NQN]);
    server.join().unwrap();
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("PDU type 0x48"), "{err}");
}
