//! Programs of ours inside the guest, on its soft-RoCE device, which is all the RDMA hardware that a machine without any can have: the
//! tests of `crates/verbs`, and `nvmfspec` over verbs as host of the kernel's target and as target of the kernel's host.

use std::fs;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::cpio::Archive;
use super::guest::{self, Guest, INSIDE};
use super::klog;
use super::machine::Trouble;
use super::suite;
use crate::{cmd, verbs};

/// The device that the guest's init makes.
const DEVICE: &str = "rxe0";
/// Seconds that a program has in the guest: all of it takes a few, ten times as many on a machine that does other things.
const LIMIT_S: u64 = 240;
/// Runs a program in the guest, for as long as it may.
const WATCHED: &str = include_str!("../../lab/watched.sh");
/// What `nvmfspec` is made to do.
const STEPS: &str = include_str!("../../lab/verbs.sh");

/// What has to be unpacked into the guest beside its image: built here, since the default members do without verbs.
pub fn archive() -> Result<Vec<u8>, Trouble> {
    verbs::provide().map_err(Trouble::Skip)?;
    let mut archive = Archive::default();
    for (name, args) in [
        ("verbs-device", &["test", "-p", "nvmf-verbs", "--test", "device", "--no-run"][..]),
        ("nvmfspec", &["build", "--bin", "nvmfspec", "--features", "nvmfspec/verbs"]),
    ] {
        let program = built(args).and_then(|path| stripped(&path)).map_err(Trouble::Fail)?;
        archive.file(name, 0o755, &program);
    }
    archive.file("watched.sh", 0o644, WATCHED.as_bytes());
    archive.file("verbs.sh", 0o644, STEPS.as_bytes());
    Ok(archive.finish())
}

/// Runs all of it in the guest, whose logs go to `report`; whether all is well.
pub fn run(guest: &mut Guest, report: &Path) -> Result<bool, String> {
    let kmsg = guest.dir().join(guest::KMSG);
    let before = guest::lossy(&kmsg).len();
    let mut good = true;
    for (what, line) in [
        ("all kinds of work on the device", "/verbs-device --nocapture --test-threads 1".to_owned()),
        ("nvmfspec as host of the kernel's target", "sh -eu /verbs.sh host".into()),
        ("nvmfspec as target of the kernel's host", "sh -eu /verbs.sh target".into()),
    ] {
        println!("lab verbs: {what}");
        let begun = Instant::now();
        let line = format!("NVMF_VERBS={DEVICE}@{INSIDE} sh /watched.sh {LIMIT_S} {line}");
        let (status, printed) = guest::exec(guest.dir(), &line, Duration::from_secs(LIMIT_S + 30))?;
        print!("{printed}");
        // A run that skipped all would pass, too.
        let done = status == 0 && (printed.contains(&format!("device {DEVICE}: Limits")) || printed.contains("s: over"));
        println!("lab verbs: {} ({:.1} s): {what}", if done { "ok   " } else { "FAIL " }, begun.elapsed().as_secs_f32());
        good &= done;
    }
    let records = guest::lossy(&kmsg);
    let said = klog::host_errors(records.get(before..).unwrap_or(&records));
    for (line, reason) in said.allowed {
        println!("lab verbs: note  the kernel says `{line}`: {reason}");
    }
    let said = said.wrong.iter().map(|line| format!("the kernel says `{line}`"));
    for line in said.chain(suite::health(guest, report, false)) {
        println!("lab verbs: FAIL  {line}");
        good = false;
    }
    Ok(good)
}

/// The program that cargo makes of these arguments, as it lies in the target folder.
fn built(args: &[&str]) -> Result<PathBuf, String> {
    let args = [args, &["--quiet", "--message-format", "json"]].concat();
    let output = verbs::cargo(&args)?.stdout(Stdio::piped()).spawn().and_then(|child| child.wait_with_output());
    let output = output.map_err(|e| format!("cannot start cargo: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo {} failed", args.join(" ")));
    }
    let messages = output.stdout.lines().map_while(Result::ok).filter_map(|l| serde_json::from_str::<serde_json::Value>(&l).ok());
    let program = messages.filter_map(|m| m["executable"].as_str().map(|path| Path::new(path).to_owned())).last();
    program.ok_or_else(|| format!("cargo {} names no program", args.join(" ")))
}

/// A program without what only a debugger reads, so that the guest's memory holds it. Not by cargo's profile, which would build
/// everything anew.
fn stripped(program: &Path) -> Result<Vec<u8>, String> {
    let small = program.with_extension("stripped");
    cmd::run(Command::new("strip").arg("-o").arg(&small).arg(program))?;
    fs::read(&small).map_err(|e| format!("cannot read {}: {e}", small.display()))
}
