//! The other way round: the guest's kernel is the host, and `nvmfspec target` on this machine's loopback serves it.
//!
//! Each of the [`steps`] prints one line. Afterwards the kernel's log ([`klog`]), what the bystander rules found, and what
//! went over the wire ([`wire`]) are judged. Start with [`run`]. [`faults`] is the same with targets that are wrong.
//!
//! [`klog`]: super::klog

pub mod faults;
mod steps;
mod target;
mod wire;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::guest::{self, Guest};
use super::klog;
pub use steps::Extent;
use steps::{QUEUES, play};
pub use target::Reach;
use target::{CAPTURE, Findings, Target};

/// How it is to go.
pub struct Plan<'a> {
    /// The `nvmfspec` program.
    pub program: &'a Path,
    /// The folder for logs and capture; emptied first.
    pub report: &'a Path,
    /// How the guest reaches the target.
    pub reach: Reach,
    /// How much is done.
    pub extent: Extent,
    /// Processors of the guest.
    pub cpus: u8,
    /// More arguments for `nvmfspec target`.
    pub arguments: &'a [String],
}

/// Runs the steps in `guest` against a target of ours and judges them; `true` if all is well.
pub fn run(guest: &mut Guest, plan: &Plan<'_>) -> Result<bool, String> {
    let report = plan.report;
    let started = Instant::now();
    empty(report)?;
    let before = kernel_records(guest).len();
    let target = Target::start(plan.program, report, plan.reach, plan.arguments)?;
    let (passed, mut wrong) = play(guest, &target, plan.reach, plan.extent);
    target.stop()?;
    if let Err(e) = settle(guest) {
        wrong.push(format!("the guest after the last step: {e}"));
    }
    let records = kernel_records(guest);
    let records = records.get(before..).unwrap_or(&records);
    let _ = fs::write(report.join("kernel.log"), klog::readable(records));
    let said = klog::host_errors(records);
    for (line, reason) in said.allowed {
        println!("lab host: note  the kernel says `{line}`: {reason}");
    }
    wrong.extend(said.wrong.into_iter().map(|line| format!("the kernel says `{line}`")));
    match plan.reach {
        Reach::Tcp => {
            wrong.extend(judged(report));
            wrong.extend(wire::judge(&report.join(CAPTURE), plan.extent, plan.cpus.min(QUEUES).into())?);
        }
        Reach::Rdma(_) => wrong.extend(linted(plan.program, report)?),
    }
    for line in &wrong {
        println!("lab host: FAIL  {line}");
    }
    println!(
        "lab host: {passed} steps passed, {} complaints, {:.0} s; {}",
        wrong.len(),
        started.elapsed().as_secs_f32(),
        report.display()
    );
    Ok(wrong.is_empty())
}

/// What the bystander rules found on our side; what they found on the host's is told.
fn judged(report: &Path) -> Vec<String> {
    let found = Findings::read(report);
    for finding in found.host {
        println!("lab host: note  {finding}");
    }
    let mut wrong = found.controller;
    match found.summary {
        Some(summary) => println!("lab host: wire  {summary}"),
        None => wrong.push("the target has judged nothing".into()),
    }
    wrong
}

/// What the rules find on our side in the capture of packets.
fn linted(program: &Path, report: &Path) -> Result<Vec<String>, String> {
    let mut command = Command::new(program);
    command.current_dir(report).args(["lint", "--once", CAPTURE]);
    let said = command.output().map_err(|e| format!("cannot start {}: {e}", program.display()))?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let _ = fs::write(report.join("lint.log"), &said);
    let (ours, theirs): (Vec<&str>, Vec<&str>) = said
        .lines()
        .filter(|line| line.contains(") controller: ") || line.contains(") host: "))
        .partition(|l| l.contains(") controller: "));
    for finding in theirs {
        println!("lab host: note  {finding}");
    }
    let mut wrong: Vec<String> = ours.into_iter().map(str::to_owned).collect();
    match said.lines().next_back() {
        Some(summary) => println!("lab host: wire  {summary}"),
        None => wrong.push("the capture cannot be read".into()),
    }
    Ok(wrong)
}

fn empty(dir: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(dir);
    fs::create_dir_all(dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))
}

fn kernel_records(guest: &Guest) -> String {
    guest::lossy(&guest.dir().join(guest::KMSG))
}

/// Waits until the guest's log is complete: a later command has come back.
fn settle(guest: &Guest) -> Result<(), String> {
    guest::exec(guest.dir(), "sync", Duration::from_secs(60))?;
    std::thread::sleep(Duration::from_millis(200));
    Ok(())
}
