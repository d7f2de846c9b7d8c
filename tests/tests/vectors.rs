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
    assert!(report.files.len() >= 180, "only {} files", report.files.len());
    assert_eq!(report.missing, [""; 0], "tables without a vector");
    assert_eq!(report.untold, [""; 0], "fields without a vector");
    assert!(report.excused < 10, "{} fields are excused", report.excused);
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

/// A field that no vector tells is named, an excuse takes it off the list, and an excuse that is not needed is a failure.
#[test]
fn a_field_that_is_zero_everywhere_is_named() {
    let dir = tempfile::tempdir().expect("a folder for a copy");
    let file = "structure = \"R2t\"\nbytes = 24\n[[vector]]\nname = \"one\"\norigin = \"derived\"\nsource = \"NVMe/TCP 1.0, 3.6.2.10\"\n\
                hex = \"09001800180000005500a5a5000000000020000000000000\"\n\
                [vector.fields]\nptype = 9\nhlen = 24\nplen = 24\ncccid = 0x55\nttag = 0xa5a5\nr2tl = 8192\n";
    std::fs::write(dir.path().join("r2t.toml"), file).expect("writes");
    let manifest = "[[file]]\npath = \"r2t.toml\"\nstructure = \"R2t\"\nvectors = 1\n";
    let with = |fields: &str, reason: &str| {
        let excuse = format!("{manifest}[[untold]]\nstructure = \"R2t\"\nfields = \"{fields}\"\nreason = \"{reason}\"\n");
        std::fs::write(dir.path().join("manifest.toml"), excuse).expect("writes");
        let report = check::check(dir.path()).expect("can be read");
        let of_r2t = report.untold.into_iter().filter(|f| f.starts_with("R2t.")).collect::<Vec<_>>().join(" ");
        (of_r2t, report.failures.join("\n"))
    };
    assert_eq!(with("", "none"), ("R2t.hdgstf R2t.r2to".to_owned(), String::new()));
    assert_eq!(with("hdgstf r2to", "a reason"), (String::new(), String::new()));
    assert!(with("hdgstf", "").1.contains("no reason"));
    assert!(with("ttag", "a reason").1.contains("R2t.ttag has a vector"));
    assert!(with("ptype", "a reason").1.contains("no field \"ptype\" of its own"));
}
