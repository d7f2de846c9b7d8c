//! `nvmfspec target` in a process of its own: on a port of this machine's loopback that the guest reaches as 10.0.2.2, or beside the
//! guest's soft-RoCE as 10.9.0.1.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::guest::{self, Frames, OUTSIDE};
use crate::cmd;

/// The subsystem that it serves.
pub const NQN: &str = "nqn.2026-01.org.example:lab:served";
/// Its files in the report's folder.
pub const LOG: &str = "target.log";
/// What went over the wire.
pub const CAPTURE: &str = "target.pcapng";
const CONTROL: &str = "target.sock";

/// A running target; killed where it is not stopped.
pub struct Target {
    child: Child,
    program: PathBuf,
    dir: PathBuf,
    /// Where it listens, as `host.sh` wants it said.
    pub port: String,
}

/// How the guest reaches a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// By a TCP port.
    Tcp,
    /// Over RoCEv2, in frames on these ports.
    Rdma(Frames),
}

impl Target {
    /// Starts one whose files go to `dir`, with `arguments` beside the usual ones.
    pub fn start(program: &Path, dir: &Path, reach: Reach, arguments: &[String]) -> Result<Target, String> {
        let (port, place) = match reach {
            Reach::Tcp => tcp_place()?,
            Reach::Rdma(frames) => rdma_place(frames),
        };
        let log = dir.join(LOG);
        let file = File::create(&log).map_err(|e| format!("cannot write {}: {e}", log.display()))?;
        let errors = file.try_clone().map_err(|e| format!("{}: {e}", log.display()))?;
        let child = Command::new(program)
            // the socket's name stays short, however deep the folder lies
            .current_dir(dir)
            .args(["target", "--control", CONTROL, "--pcap", CAPTURE, "--nqn", NQN])
            .args(["--namespace", "mem:64MiB", "--namespace", "mem:64MiB,bs=4096"])
            .args(place)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", program.display()))?;
        let mut target = Target { child, program: program.to_owned(), dir: dir.to_owned(), port };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !guest::lossy(&log).contains("listening on") {
            if Instant::now() > deadline || !matches!(target.child.try_wait(), Ok(None)) {
                return Err(format!("the target does not listen: {}", guest::lossy(&log).trim()));
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        Ok(target)
    }

    /// Has it change what it serves: `words` as for `nvmfspec control`.
    pub fn control(&self, words: &str) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.dir).args(["control", CONTROL]).args(words.split(' '));
        cmd::output(&mut command).map(|said| String::from_utf8_lossy(&said).trim().to_owned())
    }

    /// Interrupts it, so that it writes its capture, and waits for its end.
    pub fn stop(mut self) -> Result<(), String> {
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

/// A free port of loopback, with the options that make the target listen there.
fn tcp_place() -> Result<(String, Vec<String>), String> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|e| format!("no free loopback port: {e}"))?
        .port();
    let place = ["--judge".into(), format!("--listen=127.0.0.1:{port}"), format!("--advertise=10.0.2.2:{port}")];
    Ok((port.to_string(), place.to_vec()))
}

fn rdma_place(frames: Frames) -> (String, Vec<String>) {
    let place = ["--transport=rdma".into(), format!("--nic={}", frames.nic()), format!("--listen={OUTSIDE}")];
    ("rdma:4420".into(), place.to_vec())
}

impl Drop for Target {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// What the bystander rules found, as its log tells: on the host's side, and on ours.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The host's.
    pub host: Vec<String>,
    /// Ours.
    pub controller: Vec<String>,
    /// The last line, which tells what was judged; without it nothing was.
    pub summary: Option<String>,
}

impl Findings {
    /// Reads the log in `dir`.
    pub fn read(dir: &Path) -> Findings {
        Findings::of(&guest::lossy(&dir.join(LOG)))
    }

    fn of(log: &str) -> Findings {
        let mut found = Findings::default();
        for line in log.lines() {
            if let Some((_, finding)) = line.split_once("  finding: ") {
                // the side follows the requirement and its level
                let side = finding.split(' ').nth(2).unwrap_or_default();
                let all = if side == "host:" { &mut found.host } else { &mut found.controller };
                all.push(finding.to_owned());
            } else if line.starts_with("judged ") {
                found.summary = Some(line.to_owned());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::Findings;

    #[test]
    fn findings_go_by_their_side() {
        let log = "listening on 127.0.0.1:1 as x\n     0.2 s  finding: FAB-PROP-11 (shall) host: PropertyGet; asked for: 0\n\
                   \x20    0.3 s  finding: CQE-02 (shall) controller: SQID 1 of host: 2; asked for: 0\njudged 7 PDUs on 1 connection: x\n";
        let found = Findings::of(log);
        assert_eq!(found.host, ["FAB-PROP-11 (shall) host: PropertyGet; asked for: 0"]);
        assert_eq!(found.controller, ["CQE-02 (shall) controller: SQID 1 of host: 2; asked for: 0"]);
        assert_eq!(found.summary.as_deref(), Some("judged 7 PDUs on 1 connection: x"));
    }
}
