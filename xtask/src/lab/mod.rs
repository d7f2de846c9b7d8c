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
mod inside;
mod klog;
mod machine;
mod modules;
mod suite;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use self::guest::{Guest, Plan};
use self::image::Kernel;
use self::machine::Trouble;
use crate::cmd;

/// What `cargo xtask lab help` prints.
pub const USAGE: &str = "\
cargo xtask lab [COMMAND] [OPTIONS] [-- ARGS]

  run (default)  boot a guest, run the conformance suite against its kernel's target, judge its kernel log, end it;
                 ARGS go to `nvmfspec conformance`, e.g. `cargo xtask lab run -- --filter tcp/icreq`;
                 without them the kernel's host then does the short form of `lab host`
  host           boot a guest, let its kernel's host use `nvmfspec target`, judge its kernel log and the traffic, end it;
                 ARGS go to `nvmfspec target`, e.g. `cargo xtask lab host -- --max-r2t 4096`
  rdma           boot a guest with soft-RoCE: its kernel's host uses our target over RDMA, then the suite judges its kernel's target
                 over RDMA, without an RDMA device on this side; ARGS go to `nvmfspec conformance`, and choose checks: then
                 only that
  verbs          boot a guest with soft-RoCE and work inside it over libibverbs: the tests of crates/verbs, then nvmfspec as host
                 of its kernel's target and as target of its kernel's host
  faults         let the kernel's host meet one wrong target after the other (xtask/lab/host.fault) and tell what it does;
                 ARGS choose some, e.g. `cargo xtask lab faults -- r2t-nothing`
  build          only make the guest, from Debian packages; done once, kept until its inputs change
  up             boot a guest and keep it running; Ctrl-C ends it
  up --detach    the same in the background, described in .lab/guest.json; `lab down` ends it
  exec COMMAND   run a shell command in the guest that `up` started
  down           end the guest that `up` started

  --dir DIR      where the guest's files lie (.lab in the workspace)
  --kernel V     the guest's kernel: 6.12 (the usual one) or 6.1
  --full         every kernel, unless --kernel chooses one; run: checks of class destructive too; host: more data, keep
                 alive over a minute
  --fault ID     host: the target is wrong in this way, as `nvmfspec list --faults` or xtask/lab/host.fault names it: the run fails
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
/// Processors of a guest that is both over RDMA: more than one I/O queue.
const RDMA_CPUS: u8 = 2;

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
    kernel: Option<Kernel>,
    full: bool,
    force: bool,
    detach: bool,
    require: bool,
    no_kvm: bool,
    limit_s: u64,
    fault: Option<String>,
    /// What follows `--`, or the words of `exec`.
    rest: Vec<String>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Options, String> {
        let mut options = Options {
            command: "run".into(),
            dir: cmd::root()?.join(".lab"),
            kernel: None,
            full: false,
            force: false,
            detach: false,
            require: false,
            no_kvm: false,
            limit_s: 1200,
            fault: None,
            rest: Vec::new(),
        };
        let mut args = args.iter();
        let mut first = true;
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "run" | "host" | "rdma" | "verbs" | "faults" | "build" | "up" | "down" | "help" if first => {
                    options.command.clone_from(arg)
                }
                "-h" | "--help" => options.command = "help".into(),
                "--dir" => options.dir = std::path::absolute(value()?).map_err(|e| e.to_string())?,
                "--limit" => {
                    let text = value()?;
                    options.limit_s = text.parse().map_err(|_| format!("--limit {text}: not a number of seconds"))?;
                }
                "--kernel" => {
                    let version = value()?;
                    let known = image::KERNELS.iter().find(|kernel| kernel.version == version);
                    options.kernel = Some(*known.ok_or_else(|| format!("--kernel {version}: no guest has that one"))?);
                }
                "--fault" => options.fault = Some(value()?.clone()),
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
                for kernel in self.kernels() {
                    let image = self.image(kernel)?;
                    println!("lab: guest with Linux {} in {}", image.release, self.dir.display());
                }
                Ok(0)
            }
            "up" => self.up(),
            "exec" => self.exec(),
            "host" => self.serve(),
            "rdma" => self.over_rdma(),
            "verbs" => self.inside(),
            "faults" => self.meet_faults(),
            "down" => {
                guest::stop(&self.up_dir()).map_err(Trouble::Fail)?;
                let _ = fs::remove_file(self.dir.join("guest.json"));
                Ok(0)
            }
            _ => self.judge(),
        }
    }

    /// Those that are to run, one after the other.
    fn kernels(&self) -> Vec<Kernel> {
        let number = if self.full { image::KERNELS.len() } else { 1 };
        self.kernel.map_or_else(|| image::KERNELS[..number].to_vec(), |kernel| vec![kernel])
    }

    fn image(&self, kernel: Kernel) -> Result<image::Image, Trouble> {
        machine::prepare()?;
        image::build(&self.dir, kernel, self.force)
    }

    fn up_dir(&self) -> PathBuf {
        self.dir.join("up")
    }

    fn boot(&self, kernel: Kernel, dir: PathBuf, limit_s: u64, cpus: u8, beside: Option<&[u8]>) -> Result<Guest, Trouble> {
        let image = self.image(kernel)?;
        let started = Instant::now();
        let plan = Plan { image: &image, dir, limit_s, detached: self.detach, no_kvm: self.no_kvm, cpus, beside };
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
        let guest = self.boot(self.kernel.unwrap_or(image::KERNELS[0]), dir, 0, CPUS, None)?;
        let description = self.dir.join("guest.json");
        let json = format!(
            "{{ \"pid\": {}, \"port\": {}, \"discovery_port\": {}, \"frames\": {{ \"ours\": {}, \"guest\": {} }}, \
             \"nqn\": \"{NQN}\", \"accel\": \"{}\" }}\n",
            guest.pid, guest.port, guest.discovery_port, guest.frames.ours, guest.frames.guest, guest.accel
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

    /// Each guest's target against the suite and our host, then its kernel's host against our target, then its own state.
    fn judge(&self) -> Result<u8, Trouble> {
        let program = cmd::nvmfspec().map_err(Trouble::Fail)?;
        let mut worst = 0;
        // a kernel that cannot be had is told before any has run
        for kernel in self.kernels() {
            self.image(kernel)?;
        }
        for kernel in self.kernels() {
            let status = self.judge_kernel(&program, kernel)?;
            worst = if worst == 0 { status } else { worst };
        }
        Ok(worst)
    }

    fn judge_kernel(&self, program: &Path, kernel: Kernel) -> Result<u8, Trouble> {
        let dir = self.dir.join("run");
        let _lock = lock(&dir)?;
        let mut guest = self.boot(kernel, dir, self.limit_s + 600, CPUS, None)?;
        let report = self.dir.join(format!("report-{}", kernel.version));
        let kmsg = guest.dir().join(guest::KMSG);
        let (port, full) = (guest.port, self.full);
        let place = suite::Place::Tcp(port);
        let plan = suite::Plan { program, report: &report, place, kernel, full, kmsg: &kmsg, arguments: &self.rest };
        let status = plan.judge(Duration::from_secs(self.limit_s)).map_err(Trouble::Fail)?;
        // arguments choose checks: who gives some is after these
        let alone = !self.rest.is_empty();
        let exercised = alone || plan.exercise().inspect_err(|e| println!("lab: {e}")).is_ok();
        let served = alone || self.served(program, &mut guest, kernel, host::Extent::Smoke, CPUS);
        let health = suite::health(&mut guest, &report, self.full);
        drop(guest);
        for line in &health {
            println!("lab: {line}");
        }
        println!("lab: Linux {}: the suite ended with status {status}; report in {}", kernel.version, report.display());
        Ok(if status == 0 && !(exercised && served && health.is_empty()) { 1 } else { status })
    }

    /// Each guest's host against our target.
    fn serve(&self) -> Result<u8, Trouble> {
        let program = cmd::nvmfspec().map_err(Trouble::Fail)?;
        let extent = if self.full { host::Extent::Full } else { host::Extent::Usual };
        let mut good = true;
        for kernel in self.kernels() {
            let dir = self.dir.join("run-host");
            let _lock = lock(&dir)?;
            let mut guest = self.boot(kernel, dir, self.limit_s + 600, HOST_CPUS, None)?;
            good &= self.served(&program, &mut guest, kernel, extent, HOST_CPUS);
        }
        Ok(u8::from(!good))
    }

    /// Each guest over RDMA: its host against our target, then its target against the suite.
    fn over_rdma(&self) -> Result<u8, Trouble> {
        let program = cmd::nvmfspec().map_err(Trouble::Fail)?;
        let mut worst = 0;
        for kernel in self.kernels() {
            let dir = self.dir.join("run-rdma");
            let _lock = lock(&dir)?;
            let mut guest = self.boot(kernel, dir, self.limit_s + 600, RDMA_CPUS, None)?;
            let reach = host::Reach::Rdma(guest.frames);
            // arguments choose checks: who gives some is after these
            let served = !self.rest.is_empty() || {
                let report = self.dir.join(format!("report-rdma-host-{}", kernel.version));
                let extent = if self.full { host::Extent::Full } else { host::Extent::Usual };
                let plan = host::Plan { program: &program, report: &report, reach, extent, cpus: RDMA_CPUS, arguments: &[] };
                told(kernel, " over RDMA", host::run(&mut guest, &plan))
            };
            let report = self.dir.join(format!("report-rdma-{}", kernel.version));
            let kmsg = guest.dir().join(guest::KMSG);
            let place = suite::Place::Rdma(guest.frames);
            let plan = suite::Plan {
                program: &program,
                report: &report,
                place,
                kernel,
                full: self.full,
                kmsg: &kmsg,
                arguments: &self.rest,
            };
            let status = plan.judge(Duration::from_secs(self.limit_s)).map_err(Trouble::Fail)?;
            // HSQSIZE is allocated as the REQ has it, so that the page allocator complains whatever the class of the checks
            let health = suite::health(&mut guest, &report, true);
            health.iter().for_each(|line| println!("lab: {line}"));
            println!(
                "lab: Linux {} over RDMA: the suite ended with status {status}; report in {}",
                kernel.version,
                report.display()
            );
            let status = if status == 0 && !(served && health.is_empty()) { 1 } else { status };
            worst = if worst == 0 { status } else { worst };
        }
        Ok(worst)
    }

    /// `crates/verbs`, and `nvmfspec` over it, on the soft-RoCE device of each guest.
    fn inside(&self) -> Result<u8, Trouble> {
        let archive = inside::archive()?;
        let mut good = true;
        for kernel in self.kernels() {
            let dir = self.dir.join("run-verbs");
            let _lock = lock(&dir)?;
            let mut guest = self.boot(kernel, dir, self.limit_s + 600, CPUS, Some(&archive))?;
            let report = self.dir.join(format!("report-verbs-{}", kernel.version));
            good &= inside::run(&mut guest, &report).map_err(Trouble::Fail)?;
        }
        println!("lab: verbs on soft-RoCE in the guest: {}", if good { "all well" } else { "FAILED" });
        Ok(u8::from(!good))
    }

    /// Each guest's host against one wrong target after the other.
    fn meet_faults(&self) -> Result<u8, Trouble> {
        let program = cmd::nvmfspec().map_err(Trouble::Fail)?;
        let mut good = true;
        for kernel in self.kernels() {
            let dir = self.dir.join("run-faults");
            let _lock = lock(&dir)?;
            self.image(kernel)?;
            let boot = || self.boot(kernel, dir.clone(), 0, CPUS, None).map_err(|e| e.to_string());
            let report = self.dir.join(format!("report-faults-{}", kernel.version));
            good &= host::faults::run(&boot, &program, &report, &self.rest).map_err(Trouble::Fail)?;
        }
        Ok(u8::from(!good))
    }

    fn served(&self, program: &Path, guest: &mut Guest, kernel: Kernel, extent: host::Extent, cpus: u8) -> bool {
        let fault = self.fault.as_deref().map_or(Ok(Vec::new()), |id| host::faults::arguments(id, &self.dir));
        match fault {
            Ok(fault) => {
                let arguments = [fault, self.rest.clone()].concat();
                let report = self.dir.join(format!("report-host-{}", kernel.version));
                let plan = host::Plan { program, report: &report, reach: host::Reach::Tcp, extent, cpus, arguments: &arguments };
                told(kernel, "", host::run(guest, &plan))
            }
            Err(e) => told(kernel, "", Err(e)),
        }
    }
}

/// Says how it went; true where all is well.
fn told(kernel: Kernel, how: &str, ended: Result<bool, String>) -> bool {
    let what = format!("lab: Linux {} as the host of our target{how}", kernel.version);
    match &ended {
        Ok(true) => println!("{what}: passed"),
        Ok(false) => println!("{what}: FAILED"),
        Err(e) => println!("{what}: FAILED: {e}"),
    }
    ended == Ok(true)
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
