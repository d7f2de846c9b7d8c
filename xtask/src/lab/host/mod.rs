//! The other way round: the guest's kernel is the host, and `nvmfspec target` on this machine's loopback serves it.
//!
//! Each step is one run of `xtask/lab/host.sh` in the guest and prints one line. Afterwards the kernel's log ([`klog`]) and
//! what went over the wire ([`wire`]) are judged. Start with [`run`].
//!
//! [`klog`]: super::klog

mod wire;

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::guest::{self, Guest};
use super::klog;

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// What fits beside the suite.
    Smoke,
    /// All steps.
    Usual,
    /// All steps, with more data and more time.
    Full,
}

/// The subsystem that the target serves.
const NQN: &str = "nqn.2026-01.org.example:lab:served";
/// The target's own files in the report's folder.
const LOG: &str = "target.log";
const CAPTURE: &str = "target.pcapng";

struct Step {
    name: &'static str,
    /// What `host.sh` is to do, with its arguments.
    line: String,
    /// The least extent that has it.
    from: Extent,
}

fn steps(extent: Extent) -> Vec<Step> {
    let (plain, digests) = match extent {
        Extent::Smoke => (2, 2),
        Extent::Usual => (16, 16),
        Extent::Full => (64, 16),
    };
    let periods = if extent == Extent::Full { 60 } else { 7 };
    let step = |name, line: &str, from| Step { name, line: line.to_owned(), from };
    let all = vec![
        step("nvme discover", "discover", Extent::Smoke),
        step("nvme discover --persistent", "discover-persistently", Extent::Usual),
        step("nvme connect", "connect 1", Extent::Smoke),
        step("id-ctrl, id-ns, smart-log, get-feature", "identify", Extent::Smoke),
        step("other logs and features", "logs", Extent::Usual),
        step("write and read back", &format!("data 1 {plain}"), Extent::Smoke),
        step("nvme reset under writes", "reset", Extent::Smoke),
        step("nvme disconnect", "disconnect", Extent::Smoke),
        step("nvme connect -g -G -i 4 -Q 32 -k 2", &format!("connect 1 -g -G -i {QUEUES} -Q 32 -k 2"), Extent::Smoke),
        step("write and read back, digests", &format!("data 11 {digests}"), Extent::Smoke),
        step("nvme reset under writes, digests", "reset", Extent::Usual),
        step("keep alive over three periods", &format!("keep-alive {periods}"), Extent::Smoke),
        step("a second host connects", "connect 2 -g", Extent::Smoke),
        step("write and read back, two paths", "data 21 4", Extent::Usual),
        step("both disconnect", "disconnect", Extent::Smoke),
        step("nvme connect-all", "connect-all", Extent::Smoke),
        step("write and read back, no SQ flow control", "data 31 1", Extent::Smoke),
        step("nvme disconnect again", "disconnect", Extent::Smoke),
    ];
    all.into_iter().filter(|step| step.from <= extent).collect()
}

/// I/O queues that a step asks for.
const QUEUES: u8 = 4;

/// How it is to go.
pub struct Plan<'a> {
    /// The `nvmfspec` program.
    pub program: &'a Path,
    /// The folder for logs and capture; emptied first.
    pub report: &'a Path,
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
    let _ = fs::remove_dir_all(report);
    fs::create_dir_all(report).map_err(|e| format!("cannot make {}: {e}", report.display()))?;
    let kmsg = guest.dir().join(guest::KMSG);
    let before = guest::lossy(&kmsg).len();
    let target = Target::start(plan)?;
    let (passed, mut wrong) = play(guest, target.port, plan.extent)?;
    target.stop()?;
    // the log is complete once a later command has come back
    if let Err(e) = guest::exec(guest.dir(), "sync", Duration::from_secs(20)) {
        wrong.push(format!("the guest after the last step: {e}"));
    }
    std::thread::sleep(Duration::from_millis(200));
    let records = guest::lossy(&kmsg);
    let records = records.get(before..).unwrap_or(&records);
    let _ = fs::write(report.join("kernel.log"), klog::readable(records));
    let said = klog::host_errors(records);
    for (line, reason) in said.allowed {
        println!("lab host: note  the kernel says `{line}`: {reason}");
    }
    wrong.extend(said.wrong.into_iter().map(|line| format!("the kernel says `{line}`")));
    wrong.extend(wire::judge(&report.join(CAPTURE), plan.cpus.min(QUEUES).into())?);
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

/// Runs the steps in order; the first that fails is the last, for what follows builds on it.
fn play(guest: &mut Guest, port: u16, extent: Extent) -> Result<(usize, Vec<String>), String> {
    let mut passed = 0;
    for step in steps(extent) {
        let begun = Instant::now();
        let line = format!("sh -eu /host.sh {}", with_target(&step.line, port));
        let patience = Duration::from_secs(if extent == Extent::Full { 600 } else { 120 });
        let (status, said) = match guest::exec(guest.dir(), &line, patience) {
            Ok(answer) => answer,
            Err(e) => return Ok((passed, vec![format!("{}: {e}", step.name)])),
        };
        let seconds = begun.elapsed().as_secs_f32();
        let last = said.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or_default();
        if status != 0 {
            return Ok((passed, vec![format!("{} ({seconds:.1} s): status {status}: {}", step.name, said.trim())]));
        }
        println!("lab host: ok    {} ({seconds:.1} s): {last}", step.name);
        passed += 1;
    }
    Ok((passed, Vec::new()))
}

/// `connect 1` becomes `connect 4420 NQN 1`.
fn with_target(line: &str, port: u16) -> String {
    let (step, arguments) = line.split_once(' ').unwrap_or((line, ""));
    format!("{step} {port} {NQN} {arguments}")
}

/// `nvmfspec target` in a process of its own; killed where it is not stopped.
struct Target {
    child: Child,
    port: u16,
}

impl Target {
    fn start(plan: &Plan<'_>) -> Result<Target, String> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .map_err(|e| format!("no free loopback port: {e}"))?
            .port();
        let log = plan.report.join(LOG);
        let file = File::create(&log).map_err(|e| format!("cannot write {}: {e}", log.display()))?;
        let errors = file.try_clone().map_err(|e| format!("{}: {e}", log.display()))?;
        let child = Command::new(plan.program)
            .args(["target", "--nqn", NQN, "--namespace", "mem:64MiB", "--namespace", "mem:64MiB,bs=4096"])
            .args(["--listen", &format!("127.0.0.1:{port}"), "--advertise", &format!("10.0.2.2:{port}")])
            .arg("--pcap")
            .arg(plan.report.join(CAPTURE))
            .args(plan.arguments)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", plan.program.display()))?;
        let mut target = Target { child, port };
        let deadline = Instant::now() + Duration::from_secs(20);
        while !guest::lossy(&log).contains("listening on") {
            if Instant::now() > deadline || !matches!(target.child.try_wait(), Ok(None)) {
                return Err(format!("the target does not listen: {}", guest::lossy(&log).trim()));
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        Ok(target)
    }

    /// Interrupts it, so that it writes its capture, and waits for its end.
    fn stop(mut self) -> Result<(), String> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(format!("the target ended by itself: {status}"));
        }
        let pid = self.child.id().to_string();
        let kill = Command::new("/bin/sh").args(["-c", "kill -INT \"$1\"", "sh", &pid]).status();
        if !kill.is_ok_and(|status| status.success()) {
            return Err("the target cannot be interrupted".into());
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("the target ended with {status}")),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(30)),
                Ok(None) => return Err("the target does not end when interrupted".into()),
                Err(e) => return Err(format!("waiting for the target: {e}")),
            }
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_gets_the_target_before_its_arguments() {
        assert_eq!(with_target("connect 1 -g", 7), format!("connect 7 {NQN} 1 -g"));
        assert_eq!(with_target("reset", 7), format!("reset 7 {NQN} "));
    }

    #[test]
    fn each_extent_has_the_steps_of_the_smaller_one() {
        let [smoke, usual, full] = [Extent::Smoke, Extent::Usual, Extent::Full].map(|extent| steps(extent).len());
        assert!(smoke < usual && usual == full, "{smoke} {usual} {full}");
        assert!(steps(Extent::Smoke).iter().any(|step| step.line.contains("-g -G")));
    }
}
