//! `cargo xtask reqs`: the requirement catalogue, its constants, and who cites it.
//!
//! Reads `docs/requirements/*.toml`, demands that `crates/spec/src/ids` is what they generate, collects the citations in
//! checks, faults, bystander rules and other code, and prints the coverage. It fails where a citation is of what the catalogue does not
//! have, where a *shall* has neither a check nor a rule nor the reason for none, and where less than 60 % of what messages can show is
//! judged. It judges the catalogue, not peers.
//!
//! - `--bless` writes the constants, and the list of what the rules judge.
//! - `--list` prints every requirement with what covers it.

use std::path::{Path, PathBuf};

mod catalogue;
mod cites;
mod constants;
mod report;
mod ruled;

use catalogue::Catalogue;
use cites::Citations;

/// The subcommand. An error is one message, ready to print.
pub fn run(args: &[String]) -> Result<(), String> {
    let (mut bless, mut list) = (false, false);
    for arg in args {
        match arg.as_str() {
            "--bless" => bless = true,
            "--list" => list = true,
            other => {
                return Err(format!("reqs: unknown argument {other:?}; it takes --bless and --list"));
            }
        }
    }
    let root = crate::cmd::root()?;
    let catalogue = Catalogue::load(&root.join("docs/requirements"))?;
    let ids = root.join("crates/spec/src/ids");
    if bless {
        constants::write(&catalogue, &ids)?;
    } else {
        constants::demand_fresh(&catalogue, &ids)?;
    }
    let citations = Citations::collect(&root, &catalogue)?;
    if bless {
        ruled::write(&citations, &root)?;
    } else {
        ruled::demand_fresh(&citations, &root)?;
    }
    print!("{}", if list { report::list(&catalogue, &citations) } else { report::summary(&catalogue, &citations) });
    report::demand(&catalogue, &citations)
}

/// Files below `dir` with this extension, sorted; none if there is no such folder.
fn files(dir: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(format!("{}: {e}", dir.display())),
        };
        for entry in entries {
            let entry = entry.map_err(|e| format!("{}: {e}", dir.display()))?;
            let kind = entry.file_type().map_err(|e| format!("{}: {e}", entry.path().display()))?;
            if kind.is_dir() {
                todo.push(entry.path());
            } else if entry.path().extension().is_some_and(|e| e == extension) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The text of a file, with its name in the error.
fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}
