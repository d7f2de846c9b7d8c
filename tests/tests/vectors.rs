//! Every byte vector of `vectors/` holds against the tables and codecs of `nvmf-wire`; `cargo xtask vectors` prints the same.

use std::path::{Path, PathBuf};

#[path = "../../xtask/src/vectors/check.rs"]
mod check;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors")
}

#[test]
fn every_vector_holds() {
    let report = check::check(&folder()).expect("the vectors can be read");
    assert!(report.failures.is_empty(), "{}", report.failures.join("\n"));
    assert!(report.files.len() >= 60, "only {} files", report.files.len());
    assert_eq!(report.missing, [""; 0], "tables without a vector");
}

/// The check finds what it is there to find: one changed byte, one changed value, one field too few.
#[test]
fn a_wrong_vector_fails() {
    let dir = tempfile::tempdir().expect("a folder for a copy");
    let put = |body: &str| {
        let manifest = "[[file]]\npath = \"r2t.toml\"\nstructure = \"R2t\"\nvectors = 1\n";
        std::fs::write(dir.path().join("manifest.toml"), manifest).expect("writes");
        std::fs::write(dir.path().join("r2t.toml"), body).expect("writes");
        check::check(dir.path()).expect("can be read").failures.join("\n")
    };
    let right = "structure = \"R2t\"\nbytes = 24\n[[vector]]\nname = \"one\"\norigin = \"derived\"\nsource = \"NVMe/TCP 1.0, 3.6.2.10\"\n\
                 hex = \"09001800180000005500a5a5001000000020000000000000\"\n\
                 [vector.fields]\nptype = 9\nhlen = 24\nplen = 24\ncccid = 0x55\nttag = 0xa5a5\nr2to = 4096\nr2tl = 8192\n";
    assert_eq!(put(right), "");
    let wrong = |from: &str, to: &str, says: &str| {
        let changed = right.replace(from, to);
        assert_ne!(changed, right, "{from} is in the file");
        let got = put(&changed);
        assert!(got.contains(says), "{from} -> {to}: {got:?}");
    };
    wrong("00200000", "00210000", "r2tl reads");
    wrong("r2tl = 8192\n", "", "r2tl reads");
    wrong("r2to = 4096", "r2to = 4097", "r2to reads");
    wrong("0000000000\"", "0000000001\"", "expected 0x01");
    wrong("cccid = 0x55", "cccid = 0x55\nccid = 1", "no field \"ccid\"");
    wrong("\"derived\"", "\"guessed\"", "origin");
    wrong("0000000000\"", "00000000\"", "23 bytes");
    wrong("bytes = 24", "bytes = 25", "25");
    wrong("r2tl = 8192\n", "r2tl = 8192\n[vector.reserved]\n8 = 1\n", "fields own");
}
