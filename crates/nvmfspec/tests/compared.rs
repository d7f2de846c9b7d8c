//! `nvmfspec compare` and `nvmfspec scenario` with a golden: what they end with, and what they say.

use std::path::{Path, PathBuf};
use std::process::Command;

fn run(args: &[&str]) -> (i32, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_nvmfspec")).args(args).env("NO_COLOR", "1").output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (out.status.code().expect("not ended by a signal"), text(out.stdout), text(out.stderr))
}

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[test]
fn the_status_says_equal_different_usage_or_unreadable() {
    let (one, other) = (root("captures/linux-6.12/tcp-io-4k.pcap.gz"), root("captures/linux-6.12/tcp-io-512.pcap.gz"));
    let (a, b) = (one.to_str().unwrap(), other.to_str().unwrap());
    let (status, text, _) = run(&["compare", a, a]);
    assert_eq!(status, 0, "{text}");
    assert!(text.starts_with("equal: 148 messages of 44 commands on 2 connections"), "{text}");
    let (status, text, _) = run(&["compare", "--from", "Write", a, b]);
    assert_eq!(status, 1);
    assert!(text.contains("CapsuleCmd.Write.sgl1_len: expected 4096 (0x1000); seen 512 (0x200)"), "{text}");
    let (_, all, _) = run(&["compare", "--all", a, b]);
    let (_, some, _) = run(&["compare", a, b]);
    assert!(some.contains(" more\n") && !all.contains(" more\n") && all.len() > some.len());
    let dir = tempfile::tempdir().unwrap();
    let mask = dir.path().join("a.mask");
    std::fs::write(&mask, "# a lab\n\nignore slbaa \"x is y\"\n").unwrap();
    let (status, _, why) = run(&["compare", "--mask", mask.to_str().unwrap(), a, b]);
    assert!(status == 2 && why.contains("a.mask: line 3: no field `slbaa`"), "{status} {why}");
    std::fs::write(
        &mask,
        "ignore * \"x is y\"\nskip CapsuleCmd \"x is y\"\nskip ICReq \"x is y\"\nskip ICResp \"x is y\"\nskip Close \"x is y\"\n",
    )
    .unwrap();
    assert_eq!(run(&["compare", "--mask", mask.to_str().unwrap(), a, b]).0, 0);
    assert_eq!(run(&["compare", a]).0, 2);
    let (status, _, why) = run(&["compare", "--from", "Sanitize", a, b]);
    assert!(status == 2 && why.contains("A has no command Sanitize"), "{status} {why}");
    assert_eq!(run(&["compare", a, root("README.md").to_str().unwrap()]).0, 3);
    assert_eq!(run(&["compare", a, "/nowhere"]).0, 3);
    assert!(run(&["compare", "--print-mask"]).1.contains("rename  cccid"));
}

#[test]
fn differences_are_there_for_programs() {
    let (one, other) = (root("captures/linux-6.12/tcp-io-4k.pcap.gz"), root("captures/linux-6.12/tcp-io-512.pcap.gz"));
    let (status, json, _) = run(&["compare", "--json", "--from", "Write", one.to_str().unwrap(), other.to_str().unwrap()]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((status, json["equal"].as_bool()), (1, Some(false)));
    let all = json["differences"].as_array().unwrap();
    let slba = all.iter().find(|d| d["field"] == "CapsuleCmd.Write.slba").expect("the field");
    assert_eq!((&slba["expected"], &slba["seen"], &slba["queue"]), (&"8".into(), &"0".into(), &1.into()));
    assert_eq!((&slba["command"]["name"], &slba["kind"]), (&"Write".into(), &"field".into()));
    assert!(slba["a"]["frame"].as_u64() > slba["b"]["frame"].as_u64(), "{slba}");
    assert!(all.iter().any(|d| d["kind"] == "only in A"));
}

#[test]
fn scenarios_with_a_target_are_held_beside_their_captures() {
    let file = root("tests/scenarios/linux.scenario");
    let (status, text, why) = run(&["scenario", file.to_str().unwrap(), "--filter", "linux/io-"]);
    assert_eq!(status, 0, "{text}{why}");
    assert!(text.contains("linux/io-64k  pass") && text.ends_with("4 scenarios, 0 not as they should be\n"), "{text}");
    let rdma = root("tests/scenarios/rdma.scenario");
    let (status, text, why) = run(&["scenario", rdma.to_str().unwrap()]);
    assert_eq!(status, 0, "{text}{why}");
    assert!(
        ["rdma/io", "rdma/checkpoint-write-4mib", "rdma/checkpoint-tcp"].iter().all(|id| text.contains(&format!("{id}  pass"))),
        "{text}"
    );
    assert_eq!(run(&["scenario", file.to_str().unwrap(), "--filter", "linux/nothing"]).0, 2);
    // one that does something else
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other.scenario");
    let script = std::fs::read_to_string(&file).unwrap().replace("write lba=128 blocks=128", "write lba=256 blocks=128");
    let capture = |name: &str| root(name).canonicalize().unwrap().display().to_string();
    std::fs::write(&other, script.replace("captures/", &format!("{}/", capture("captures")))).unwrap();
    for mask in ["linux", "linux-discovery", "linux-errors", "linux-reconnect"] {
        std::fs::copy(root(&format!("tests/scenarios/{mask}.mask")), dir.path().join(format!("{mask}.mask"))).unwrap();
    }
    let (status, text, _) = run(&["scenario", other.to_str().unwrap(), "--filter", "linux/io-64k"]);
    assert_eq!(status, 1);
    assert!(text.contains("CapsuleCmd.Write.slba: expected 128 (0x80); seen 256 (0x100)"), "{text}");
}
