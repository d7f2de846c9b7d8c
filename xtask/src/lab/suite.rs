//! Our side against the guest's target: the conformance suite, then our host on a full day; and the guest's state after them.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::NQN;
use super::guest::{self, Frames, Guest};
use super::image::Kernel;
use super::klog;
use crate::cmd;

/// How it is to go.
pub struct Plan<'a> {
    /// The `nvmfspec` program.
    pub program: &'a Path,
    /// The folder for reports and logs; emptied first.
    pub report: &'a Path,
    /// Where the guest's target is.
    pub place: Place,
    /// The guest's kernel, which has known deviations.
    pub kernel: Kernel,
    /// Whether what may kill the target is tried too.
    pub full: bool,
    /// The guest's kernel log.
    pub kmsg: &'a Path,
    /// More arguments for `nvmfspec conformance`.
    pub arguments: &'a [String],
}

/// How the guest's target is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// By a loopback port that leads there.
    Tcp(u16),
    /// Over RoCEv2, in frames on these ports.
    Rdma(Frames),
}

impl Place {
    fn arguments(self) -> Vec<String> {
        match self {
            Place::Tcp(port) => vec![format!("--target=127.0.0.1:{port}")],
            Place::Rdma(frames) => {
                vec!["--transport=rdma".into(), format!("--nic={}", frames.nic()), format!("--target={}:4420", guest::INSIDE)]
            }
        }
    }

    /// The end of the name of the expectation file.
    fn suffix(self) -> &'static str {
        match self {
            Place::Tcp(_) => "",
            Place::Rdma(_) => "-rdma",
        }
    }
}

impl Plan<'_> {
    /// Runs the suite; its exit status.
    pub fn judge(&self, limit: Duration) -> Result<u8, String> {
        let root = cmd::root()?;
        let _ = fs::remove_dir_all(self.report);
        let mut command = Command::new(self.program);
        command
            .current_dir(&root)
            .arg("conformance")
            .args(self.place.arguments())
            .args(["--nqn", NQN])
            .args(["--allow-writes", "0-8191", "--allow", "disruptive"])
            .arg("--out")
            .arg(self.report)
            .arg("--json")
            .arg(self.report.join("linux.json"));
        if self.full {
            command.args(["--allow", "destructive"]);
        }
        let expectations = format!("tests/expect/linux-{}{}.toml", self.kernel.version, self.place.suffix());
        if root.join(&expectations).is_file() {
            command.args(["--expect", &expectations]);
        }
        command.args(self.arguments);
        let child = command.spawn().map_err(|e| format!("cannot start {}: {e}", self.program.display()))?;
        wait(child, limit, self.kmsg)
    }

    /// Our host on a full day; an error where a step failed or the bystander rules found something on our side.
    ///
    /// How the guest's side deviates is told and is no failure: the suite knows it. The range for writes is no larger than
    /// MAXH2CDATA of the guest, so that no transfer takes two H2CData: under data digests Linux takes the second for wrong.
    pub fn exercise(&self) -> Result<(), String> {
        let mut command = Command::new(self.program);
        command.args(["host", "connect", "--nqn", NQN, "--timeout", "60"]).args(self.place.arguments()).args([
            "--exercise",
            "--own-side",
            "--allow-writes",
            "1:0-8191",
        ]);
        let child = command.spawn().map_err(|e| format!("cannot start {}: {e}", self.program.display()))?;
        match wait(child, Duration::from_secs(300), self.kmsg)? {
            0 => Ok(()),
            status => Err(format!("our host's full day ended with status {status}")),
        }
    }
}

/// Waits for the program; one that takes too long is killed, as is one whose guest has died: nothing more is to be learned.
fn wait(mut child: Child, limit: Duration, kmsg: &Path) -> Result<u8, String> {
    let deadline = Instant::now() + limit;
    let mut dead = None;
    loop {
        match child.try_wait() {
            // ended by a signal: the harness broke
            Ok(Some(status)) => {
                return Ok(status.code().and_then(|c| u8::try_from(c).ok()).unwrap_or(3));
            }
            Ok(None) if Instant::now() < deadline && dead.is_none() => std::thread::sleep(Duration::from_millis(200)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(dead.unwrap_or_else(|| format!("nvmfspec did not end within {} s", limit.as_secs())));
            }
            Err(e) => return Err(format!("waiting for nvmfspec: {e}")),
        }
        dead = klog::death(&guest::lossy(kmsg)).map(|line| format!("the guest's kernel died: {line}"));
    }
}

/// What is wrong with a guest that the suite is done with; its logs go to the report.
pub fn health(guest: &mut Guest, report: &Path, full: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    // the log is complete once a later command has come back
    match guest::exec(guest.dir(), "sync", Duration::from_secs(20)) {
        Ok((0, _)) => std::thread::sleep(Duration::from_millis(200)),
        Ok((status, said)) => wrong.push(format!("the guest's shell is broken: {status} {said}")),
        Err(e) if guest.is_running() => wrong.push(format!("the guest hangs: {e}")),
        Err(_) => wrong.push("the guest died".into()),
    }
    let console = guest::lossy(&guest.dir().join(guest::CONSOLE));
    let log = klog::readable(&guest::lossy(&guest.dir().join(guest::KMSG)));
    let _ = fs::create_dir_all(report);
    let _ = fs::write(report.join("kernel.log"), &log);
    let _ = fs::write(report.join("console.log"), &console);
    let found = klog::complaints(&log).into_iter().chain(klog::complaints(&console));
    let found = found.filter(|line| !(full && line.contains(klog::PROVOKED)));
    wrong.extend(found.map(|line| format!("the kernel complains: {line}")));
    wrong
}
