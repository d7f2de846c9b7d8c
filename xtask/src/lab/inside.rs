//! Programs of ours inside the guest: `crates/verbs` on the guest's soft-RoCE device, which is all the RDMA hardware that a machine
//! without any can have.

use std::fs;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::cpio::Archive;
use super::guest::{self, Guest, INSIDE};
use super::machine::Trouble;
use crate::{cmd, verbs};

/// Where the test program lies in the guest.
const PROGRAM: &str = "verbs-device";
/// The device that the guest's init makes.
const DEVICE: &str = "rxe0";
/// Seconds that a program has in the guest: all kinds of work take a few in software emulation, on a busy machine.
const LIMIT_S: u64 = 60;
/// Runs a program in the guest, for as long as it may.
const WATCHED: &str = include_str!("../../lab/watched.sh");

/// What has to be unpacked into the guest beside its image: built here, since the default members do without verbs.
pub fn archive() -> Result<Vec<u8>, Trouble> {
    verbs::provide().map_err(Trouble::Skip)?;
    let program = built().map_err(Trouble::Fail)?;
    let mut archive = Archive::default();
    archive.file(PROGRAM, 0o755, &stripped(&program).map_err(Trouble::Fail)?);
    archive.file("watched.sh", 0o644, WATCHED.as_bytes());
    Ok(archive.finish())
}

/// Runs the tests of the crate in the guest; what they printed, and whether all is well.
pub fn run(guest: &Guest) -> Result<bool, String> {
    let line = format!("NVMF_VERBS={DEVICE}@{INSIDE} sh /watched.sh {LIMIT_S} /{PROGRAM} --nocapture --test-threads 1");
    let (status, printed) = guest::exec(guest.dir(), &line, Duration::from_secs(LIMIT_S * 2))?;
    print!("{printed}");
    // A run that skipped all would pass, too.
    Ok(status == 0 && printed.contains(&format!("device {DEVICE}: Limits")))
}

/// The test program of the crate, as cargo built it.
fn built() -> Result<PathBuf, String> {
    let args = ["test", "-p", "nvmf-verbs", "--test", "device", "--no-run", "--quiet", "--message-format", "json"];
    let output = verbs::cargo(&args)?.stdout(Stdio::piped()).spawn().and_then(|child| child.wait_with_output());
    let output = output.map_err(|e| format!("cannot start cargo: {e}"))?;
    if !output.status.success() {
        return Err("crates/verbs does not build".into());
    }
    let messages = output.stdout.lines().map_while(Result::ok).filter_map(|l| serde_json::from_str::<serde_json::Value>(&l).ok());
    let program = messages
        .filter(|m| m["reason"] == "compiler-artifact" && m["target"]["name"] == "device")
        .find_map(|m| m["executable"].as_str().map(|path| Path::new(path).to_owned()));
    program.ok_or_else(|| "cargo names no test program of crates/verbs".into())
}

/// A program without what only a debugger reads, so that the guest's memory holds it. Not by cargo's profile, which would build
/// everything anew.
fn stripped(program: &Path) -> Result<Vec<u8>, String> {
    let small = program.with_extension("stripped");
    cmd::run(Command::new("strip").arg("-o").arg(&small).arg(program))?;
    fs::read(&small).map_err(|e| format!("cannot read {}: {e}", small.display()))
}
