//! The lab: a Linux guest whose kernel is the NVMe/TCP target, and our suite run against it; or its host, and our target.
//!
//! `build` makes the guest ([`image`]), `up` boots one for a developer, `run` boots one, judges it with `nvmfspec
//! conformance`, reads its kernel log ([`klog`]) and ends it; `host` lets its kernel's host use our target ([`host`]), and
//! `run` does some of that too. The guest is reached through a forwarded loopback port.
//! A machine that cannot run it says why and that is no failure, unless `--require` is given.

mod cpio;
mod guest;
mod host;
mod image;
mod klog;
mod machine;
mod modules;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use self::guest::{Guest, Plan};
use self::machine::Trouble;
use crate::cmd;

/// What `cargo xtask lab help` prints.
pub const USAGE: &str = "\
cargo xtask lab [COMMAND] [OPTIONS] [-- ARGS]

  run (default)  boot a guest, run the conformance suite against its kernel's target, judge its kernel log, end it;
                 ARGS go to `nvmfspec conformance`, e.g. `cargo xtask lab run -- --filter tcp/icreq`;
                 without them the kernel's host then does the short form of `lab host`
  host           boot a guest, let its kernel's host use `nvmfspec target`, judge its kernel log and the traffic, end it;
                 ARGS go to `nvmfspec target`, e.g. `cargo xtask lab host -- --fault tcp-r2t-nothing`
  build          only make the guest, from Debian packages; done once, kept until its inputs change
  up             boot a guest and keep it running; Ctrl-C ends it
  up --detach    the same in the background, described in .lab/guest.json; `lab down` ends it
  exec COMMAND   run a shell command in the guest that `up` started
  down           end the guest that `up` started

  --dir DIR      where the guest's files lie (.lab in the workspace)
  --full         run: checks of class destructive too; host: more data, keep alive over a minute
  --limit S      run: give up after S seconds (1200)
  --force        build: make the guest anew
  --no-kvm       software emulation even where /dev/kvm opens
  --require      fail where this machine cannot run the lab, instead of saying `lab: skipped: reason`";

/// The subsystem that the suite judges; xtask/lab/target.sh sets it up.
const NQN: &str = "nqn.2026-01.org.example:lab:sub1";
/// Processors of a guest whose target is judged: one is what a busy machine emulates best.
const CPUS: u8 = 1;
/// Processors of a guest whose host is judged: it makes an I/O queue for each.
const HOST_CPUS: u8 = 4;
/// Known deviations of the guest's kernel.
const EXPECTATIONS: &str = "tests/expect/linux-6.12.toml";

/// How the lab ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    /// It ran; the exit status to pass on.
    Ran(u8),
    /// This machine cannot; why.
    Skipped(String),
}

/// Runs `cargo xtask lab ARGS`.
pub fn run(args: &[String]) -> Result<Ending, String> {
    let options = Options::parse(args)?;
    if options.command == "help" {
        println!("{USAGE}");
        return Ok(Ending::Ran(0));
    }
    match options.dispatch() {
        Ok(status) => Ok(Ending::Ran(status)),
        Err(Trouble::Fail(reason)) => Err(format!("lab: {reason}")),
        Err(Trouble::Skip(reason)) => {
            println!("lab: skipped: {reason}");
            if options.require {
                return Ok(Ending::Ran(1));
            }
            Ok(Ending::Skipped(reason))
        }
    }
}

struct Options {
    command: String,
    dir: PathBuf,
    full: bool,
    force: bool,
    detach: bool,
    require: bool,
    no_kvm: bool,
    limit_s: u64,
    /// What follows `--`, or the words of `exec`.
    rest: Vec<String>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Options, String> {
        let mut options = Options {
            command: "run".into(),
            dir: cmd::root()?.join(".lab"),
            full: false,
            force: false,
            detach: false,
            require: false,
            no_kvm: false,
            limit_s: 1200,
            rest: Vec::new(),
        };
        let mut args = args.iter();
        let mut first = true;
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "run" | "host" | "build" | "up" | "down" | "help" if first => options.command.clone_from(arg),
                "-h" | "--help" => options.command = "help".into(),
                "--dir" => options.dir = std::path::absolute(value()?).map_err(|e| e.to_string())?,
                "--limit" => {
                    let text = value()?;
                    options.limit_s = text.parse().map_err(|_| format!("--limit {text}: not a number of seconds"))?;
                }
                "--full" => options.full = true,
                "--force" => options.force = true,
                "--detach" => options.detach = true,
                "--require" => options.require = true,
                "--no-kvm" => options.no_kvm = true,
                "exec" if first => {
                    options.command.clone_from(arg);
                    options.rest.extend(args.by_ref().cloned());
                }
                "--" => options.rest.extend(args.by_ref().cloned()),
                _ => return Err(format!("lab: what is `{arg}`?\n\n{USAGE}")),
            }
            first = false;
        }
        Ok(options)
    }

    fn dispatch(&self) -> Result<u8, Trouble> {
        match self.command.as_str() {
            "build" => {
                let image = self.image()?;
                println!("lab: guest with Linux {} in {}", image.release, self.dir.display());
                Ok(0)
            }
            "up" => self.up(),
            "exec" => self.exec(),
            "host" => self.serve(),
            "down" => {
                guest::stop(&self.up_dir()).map_err(Trouble::Fail)?;
                let _ = fs::remove_file(self.dir.join("guest.json"));
                Ok(0)
            }
            _ => self.judge(),
        }
    }

    fn image(&self) -> Result<image::Image, Trouble> {
        machine::prepare()?;
        image::build(&self.dir, self.force)
    }

    fn up_dir(&self) -> PathBuf {
        self.dir.join("up")
    }

    fn boot(&self, dir: PathBuf, limit_s: u64, cpus: u8) -> Result<Guest, Trouble> {
        let image = self.image()?;
        let started = Instant::now();
        let plan = Plan { image: &image, dir, limit_s, detached: self.detach, no_kvm: self.no_kvm, cpus };
        let guest = Guest::boot(&plan).map_err(Trouble::Fail)?;
        println!(
            "lab: Linux {} ({}) answers on 127.0.0.1:{} (discovery on {}) after {:.1} s",
            image.release,
            guest.accel,
            guest.port,
            guest.discovery_port,
            started.elapsed().as_secs_f32()
        );
        Ok(guest)
    }

    fn up(&self) -> Result<u8, Trouble> {
        let dir = self.up_dir();
        if guest::is_up(&dir) {
            return Err(Trouble::Fail("a guest is up already: `cargo xtask lab down` ends it".into()));
        }
        let guest = self.boot(dir, 0, CPUS)?;
        let description = self.dir.join("guest.json");
        let json = format!(
            "{{ \"pid\": {}, \"port\": {}, \"discovery_port\": {}, \"nqn\": \"{NQN}\", \"accel\": \"{}\" }}\n",
            guest.pid, guest.port, guest.discovery_port, guest.accel
        );
        fs::write(&description, json).map_err(|e| Trouble::Fail(format!("cannot write {}: {e}", description.display())))?;
        println!(
            "lab: nvmfspec conformance --target 127.0.0.1:{} --nqn {NQN}\n\
             lab: console and kernel log in {}; `cargo xtask lab exec dmesg` asks the guest",
            guest.port,
            guest.dir().display()
        );
        if self.detach {
            guest.detach();
            println!("lab: `cargo xtask lab down` ends it");
            return Ok(0);
        }
        println!("lab: Ctrl-C ends it");
        guest.wait();
        let _ = fs::remove_file(description);
        Ok(0)
    }

    fn exec(&self) -> Result<u8, Trouble> {
        let line = self.rest.join(" ");
        let (status, printed) = guest::exec(&self.up_dir(), &line, Duration::from_secs(600)).map_err(Trouble::Fail)?;
        print!("{printed}");
        Ok(u8::try_from(status).unwrap_or(1))
    }

    /// The suite against a guest of its own, then the guest's own state.
    fn judge(&self) -> Result<u8, Trouble> {
        let suite = cmd::nvmfspec().map_err(Trouble::Fail)?;
        let dir = self.dir.join("run");
        let _lock = lock(&dir)?;
        let mut guest = self.boot(dir, self.limit_s + 300, CPUS)?;
        let report = self.dir.join("report");
        let status = self.suite(&suite, &report, guest.port)?;
        // arguments choose checks: who gives some is after these
        let served = !self.rest.is_empty() || self.served(&suite, &mut guest, host::Extent::Smoke, CPUS);
        let health = health(&mut guest, &report);
        drop(guest);
        for line in &health {
            println!("lab: {line}");
        }
        println!("lab: the suite ended with status {status}; report in {}", report.display());
        Ok(if status == 0 && !(served && health.is_empty()) { 1 } else { status })
    }

    /// The guest's host against our target, in a guest of its own.
    fn serve(&self) -> Result<u8, Trouble> {
        let program = cmd::nvmfspec().map_err(Trouble::Fail)?;
        let dir = self.dir.join("run-host");
        let _lock = lock(&dir)?;
        let mut guest = self.boot(dir, self.limit_s + 120, HOST_CPUS)?;
        let extent = if self.full { host::Extent::Full } else { host::Extent::Usual };
        Ok(u8::from(!self.served(&program, &mut guest, extent, HOST_CPUS)))
    }

    fn served(&self, program: &Path, guest: &mut Guest, extent: host::Extent, cpus: u8) -> bool {
        let report = self.dir.join("report-host");
        let ended = host::run(guest, &host::Plan { program, report: &report, extent, cpus, arguments: &self.rest });
        match &ended {
            Ok(true) => println!("lab: Linux as the host of our target: passed"),
            Ok(false) => println!("lab: Linux as the host of our target: FAILED"),
            Err(e) => println!("lab: Linux as the host of our target: FAILED: {e}"),
        }
        ended == Ok(true)
    }

    fn suite(&self, program: &Path, report: &Path, port: u16) -> Result<u8, Trouble> {
        let root = cmd::root().map_err(Trouble::Fail)?;
        let _ = fs::remove_dir_all(report);
        let mut command = Command::new(program);
        command
            .current_dir(&root)
            .args(["conformance", "--target", &format!("127.0.0.1:{port}"), "--nqn", NQN])
            .args(["--allow-writes", "0-8191", "--allow", "disruptive"])
            .arg("--out")
            .arg(report)
            .arg("--json")
            .arg(report.join("linux.json"));
        if self.full {
            command.args(["--allow", "destructive"]);
        }
        if root.join(EXPECTATIONS).is_file() {
            command.args(["--expect", EXPECTATIONS]);
        }
        command.args(&self.rest);
        let child = command.spawn().map_err(|e| Trouble::Fail(format!("cannot start {}: {e}", program.display())))?;
        wait(child, Duration::from_secs(self.limit_s)).map_err(Trouble::Fail)
    }
}

/// Keeps others from using a guest's folder; made if it is not there.
fn lock(dir: &Path) -> Result<fs::File, Trouble> {
    fs::create_dir_all(dir).map_err(|e| Trouble::Fail(format!("cannot make {}: {e}", dir.display())))?;
    let lock =
        fs::File::create(dir.join("lock")).map_err(|e| Trouble::Fail(format!("cannot write into {}: {e}", dir.display())))?;
    if lock.try_lock().is_err() {
        return Err(Trouble::Fail(format!("another run uses {}: wait for it, or use --dir", dir.display())));
    }
    Ok(lock)
}

/// Waits for the suite; one that takes too long is killed.
fn wait(mut child: Child, limit: Duration) -> Result<u8, String> {
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait() {
            // ended by a signal: the harness broke
            Ok(Some(status)) => {
                return Ok(status.code().and_then(|c| u8::try_from(c).ok()).unwrap_or(3));
            }
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(50)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the suite did not end within {} s", limit.as_secs()));
            }
            Err(e) => return Err(format!("waiting for the suite: {e}")),
        }
    }
}

/// What is wrong with a guest that the suite is done with; its logs go to the report.
fn health(guest: &mut Guest, report: &Path) -> Vec<String> {
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
    wrong.extend(found.map(|line| format!("the kernel complains: {line}")));
    wrong
}
