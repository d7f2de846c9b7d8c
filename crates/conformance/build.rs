//! Embeds the scripts of `tests/checks` and `tests/faults`, so that the binary stands alone.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../tests");
    let mut out = String::from("/// Name below `tests/` and text of every script.\npub static EMBEDDED: &[(&str, &str)] = &[\n");
    for folder in ["checks", "faults"] {
        let mut files = Vec::new();
        walk(&root.join(folder), &mut files);
        files.sort();
        for f in files {
            let name = f.strip_prefix(&root).expect("below it").display().to_string();
            let path = f.canonicalize().expect("it was just listed");
            writeln!(out, "    ({name:?}, include_str!({:?})),", path.display().to_string()).expect("to a string");
        }
    }
    out.push_str("];\n");
    let to = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("embedded.rs");
    fs::write(to, out).expect("cargo's own folder can be written");
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", folder.display());
    let Ok(entries) = fs::read_dir(folder) else { return };
    for e in entries.flatten() {
        let p = e.path();
        if p.is_dir() {
            walk(&p, files);
        } else if p.extension().is_some_and(|x| x == "check" || x == "fault") {
            files.push(p);
        }
    }
}
