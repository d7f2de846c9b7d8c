//! One running guest: QEMU's process, its readiness, its consoles, its end.
//!
//! The guest's console and kernel log are files, and a socket takes shell commands; all lie in the guest's own folder.
//! A [`Guest`] that goes out of scope is killed; one let go with [`Guest::detach`] lives on until [`stop`].

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::image::Image;
use super::machine;
use crate::cmd;

/// How a guest is to run.
pub struct Plan<'a> {
    /// What it boots from.
    pub image: &'a Image,
    /// The folder that takes its console, logs and sockets; made, and emptied of an earlier guest's.
    pub dir: PathBuf,
    /// After how many seconds the guest ends by itself; 0 for never.
    pub limit_s: u64,
    /// Whether it must outlive this process.
    pub detached: bool,
    /// Whether not to try hardware virtualisation.
    pub no_kvm: bool,
    /// How many processors it has; the kernel's host makes no more I/O queues than that.
    pub cpus: u8,
    /// A cpio archive that is unpacked beside the image.
    pub beside: Option<&'a [u8]>,
}

/// A guest that answers.
pub struct Guest {
    child: Option<Child>,
    /// Its process.
    pub pid: u32,
    /// The loopback port that leads to the target's port 4420.
    pub port: u16,
    /// The loopback port that leads to the target's port 8009.
    pub discovery_port: u16,
    /// The UDP ports of loopback that carry the Ethernet frames of its soft-RoCE device.
    pub frames: Frames,
    /// `kvm` or `tcg`.
    pub accel: &'static str,
    dir: PathBuf,
}

/// One Ethernet frame a datagram, between two UDP ports of loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Where the guest's frames go: a program outside binds it.
    pub ours: u16,
    /// Where the guest takes frames.
    pub guest: u16,
}

/// The address of a program outside among the neighbours of the guest's soft-RoCE, and that of the guest: see xtask/lab/init.
pub const OUTSIDE: &str = "10.9.0.1";
/// The guest's own.
pub const INSIDE: &str = "10.9.0.2";
/// The console's file in a guest's folder.
pub const CONSOLE: &str = "console.log";
/// The kernel log's file in a guest's folder, records as `/dev/kmsg` gives them.
pub const KMSG: &str = "kmsg.log";
const CONTROL: &str = "control.sock";
const MONITOR: &str = "monitor.sock";
const QEMU_LOG: &str = "qemu.log";

/// A guest under hardware virtualisation says its first line within a second: one that has not by now never will.
const KVM_PATIENCE: Duration = Duration::from_secs(6);
const PATIENCE: Duration = Duration::from_secs(120);

impl Guest {
    /// Boots a guest and waits until its target answers on both ports.
    pub fn boot(plan: &Plan<'_>) -> Result<Guest, String> {
        fs::create_dir_all(&plan.dir).map_err(|e| format!("cannot make {}: {e}", plan.dir.display()))?;
        if plan.dir.join(CONTROL).as_os_str().len() > 100 {
            return Err("the folder's path is too long for a socket: use --dir".into());
        }
        if !plan.no_kvm && machine::kvm_opens() {
            match Guest::try_boot(plan, "kvm", KVM_PATIENCE) {
                Ok(guest) => return Ok(guest),
                // common where this machine is itself a guest; QEMU's reason is one for QEMU's makers
                Err(_) => println!("lab: /dev/kvm opens, but no guest comes up with it: software emulation"),
            }
        }
        Guest::try_boot(plan, "tcg", PATIENCE)
    }

    fn try_boot(plan: &Plan<'_>, accel: &'static str, patience: Duration) -> Result<Guest, String> {
        for name in [CONSOLE, KMSG, CONTROL, MONITOR, QEMU_LOG] {
            let _ = fs::remove_file(plan.dir.join(name));
        }
        let [port, discovery_port] = free_ports()?;
        let frames = Frames::free()?;
        let mut command = qemu(plan, accel, [port, discovery_port], frames)?;
        let child = command.spawn().map_err(|e| format!("cannot start {}: {e}", machine::QEMU))?;
        let mut guest = Guest { pid: child.id(), child: Some(child), port, discovery_port, frames, accel, dir: plan.dir.clone() };
        guest.wait_for_line("lab: init", patience)?;
        guest.wait_for_line("lab: ready", PATIENCE)?;
        for port in [port, discovery_port] {
            guest.wait_for_handshake(port)?;
        }
        Ok(guest)
    }

    /// The folder with its consoles.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether its process still runs.
    pub fn is_running(&mut self) -> bool {
        match &mut self.child {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => false,
        }
    }

    /// Waits for the guest's own end.
    pub fn wait(mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }

    /// Lets the guest outlive this process.
    pub fn detach(mut self) {
        self.child = None;
    }

    fn wait_for_line(&mut self, start: &str, patience: Duration) -> Result<(), String> {
        let deadline = Instant::now() + patience;
        loop {
            let console = lossy(&self.dir.join(CONSOLE));
            if console.lines().any(|line| line.starts_with(start)) {
                return Ok(());
            }
            if let Some(line) = console.lines().find(|l| l.starts_with("lab: failed")) {
                return Err(format!("the guest says: {line}"));
            }
            if !self.is_running() {
                let said = lossy(&self.dir.join(QEMU_LOG));
                let reason = said.lines().next_back().unwrap_or("nothing said");
                return Err(format!("the guest ended while booting: {reason}"));
            }
            if Instant::now() > deadline {
                return Err(format!("the guest did not say `{start}` within {} s", patience.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// The forwarded port accepts as soon as QEMU runs, so that only an answer from the target tells that it is there.
    fn wait_for_handshake(&mut self, port: u16) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match icreq_answered(port) {
                Ok(()) => return Ok(()),
                Err(e) if Instant::now() > deadline || !self.is_running() => {
                    return Err(format!("the target does not answer an ICReq: {e}"));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs one line in the shell of the guest whose folder is `dir`; returns its status and all it printed. It may be silent for as
/// long as `patience`: what goes on printing is at work, however slow the machine is.
pub fn exec(dir: &Path, line: &str, patience: Duration) -> Result<(i32, String), String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let lost = |e: std::io::Error| format!("the guest's control socket: {e}");
    let mut socket = UnixStream::connect(dir.join(CONTROL)).map_err(lost)?;
    socket.set_read_timeout(Some(Duration::from_millis(200))).map_err(lost)?;
    // what an earlier caller left unread comes before this mark
    let begin = format!("lab-begin-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    socket.write_all(format!("echo {begin}; {line}\n").as_bytes()).map_err(lost)?;
    let mut deadline = Instant::now() + patience;
    let mut seen = Vec::new();
    let mut part = [0; 4096];
    while Instant::now() < deadline {
        match socket.read(&mut part) {
            Ok(0) => return Err("the guest closed its control socket".into()),
            Ok(n) => {
                seen.extend_from_slice(&part[..n]);
                deadline = Instant::now() + patience;
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(lost(e)),
        }
        if let Some(answer) = answer_in(&String::from_utf8_lossy(&seen), &begin) {
            return Ok(answer);
        }
    }
    let (seen, patience) = (String::from_utf8_lossy(&seen), patience.as_secs());
    Err(match seen.split_once(&begin) {
        Some((_, printed)) => {
            format!("the guest did not finish `{line}`: silent for {patience} s after it printed:\n{}", printed.trim())
        }
        None => format!("the guest's shell took no command for {patience} s, `{line}` the last; it printed:\n{}", seen.trim()),
    })
}

/// Whether a guest runs whose folder is `dir`.
pub fn is_up(dir: &Path) -> bool {
    UnixStream::connect(dir.join(MONITOR)).is_ok()
}

/// Ends the guest whose folder is `dir`.
pub fn stop(dir: &Path) -> Result<(), String> {
    let mut socket = UnixStream::connect(dir.join(MONITOR)).map_err(|e| format!("no guest runs in {}: {e}", dir.display()))?;
    socket.write_all(b"quit\n").map_err(|e| format!("the guest's monitor: {e}"))?;
    // QEMU closes the socket as it ends
    let _ = socket.set_read_timeout(Some(Duration::from_secs(10)));
    let _ = socket.read_to_end(&mut Vec::new());
    Ok(())
}

fn answer_in(seen: &str, begin: &str) -> Option<(i32, String)> {
    let (_, after) = seen.split_once(begin)?;
    let (printed, rest) = after.split_once("\nlab-status ")?;
    let (status, _) = rest.split_once('\n')?;
    let printed = printed.trim_start_matches(['\r', '\n']);
    Some((status.trim().parse().ok()?, printed.to_owned()))
}

/// Two loopback ports that nothing listens on. Another program may take one before QEMU does; the boot then fails.
fn free_ports() -> Result<[u16; 2], String> {
    let bind = || {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| Ok((listener.local_addr()?.port(), listener)))
            .map_err(|e| format!("no free loopback port: {e}"))
    };
    let (first, _held) = bind()?;
    let (second, _) = bind()?;
    Ok([first, second])
}

impl Frames {
    /// What `--nic` of `nvmfspec` says to be beside the guest.
    pub fn nic(self) -> String {
        format!("qemu:{}:{}:{}", self.ours, self.guest, OUTSIDE)
    }

    /// Two ports that nobody has bound, as of [`free_ports`].
    fn free() -> Result<Frames, String> {
        let bind = || {
            UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
                .and_then(|socket| Ok((socket.local_addr()?.port(), socket)))
                .map_err(|e| format!("no free loopback port: {e}"))
        };
        let (ours, _held) = bind()?;
        let (guest, _) = bind()?;
        Ok(Frames { ours, guest })
    }
}

/// The initramfs of a guest: that of the image, and what is unpacked beside it. The kernel takes one archive after the other, each from
/// a multiple of 4 bytes on. [Linux, Documentation/driver-api/early-userspace/buffer-format.rst]
fn initrd(plan: &Plan<'_>) -> Result<PathBuf, String> {
    let Some(beside) = plan.beside else { return Ok(plan.image.initrd.clone()) };
    let path = plan.dir.join("initrd");
    let fault = |e: std::io::Error| format!("cannot make {}: {e}", path.display());
    let mut bytes = fs::read(&plan.image.initrd).map_err(fault)?;
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend_from_slice(beside);
    fs::write(&path, bytes).map_err(fault)?;
    Ok(path)
}

fn qemu(plan: &Plan<'_>, accel: &str, [port, discovery_port]: [u16; 2], frames: Frames) -> Result<Command, String> {
    let log = File::create(plan.dir.join(QEMU_LOG)).map_err(|e| format!("cannot write into {}: {e}", plan.dir.display()))?;
    let mut command;
    match cmd::find_program("setpriv") {
        // the guest dies with us, whatever ends us
        Some(setpriv) if !plan.detached => {
            command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", machine::QEMU]);
        }
        _ => command = Command::new(machine::QEMU),
    }
    if plan.detached {
        command.process_group(0);
    }
    let cpu = if accel == "kvm" { "host" } else { "Westmere" };
    let append = format!(
        "console=ttyS0 quiet panic=-1 mitigations=off audit=0 nokaslr tsc=reliable random.trust_cpu=on lab.limit={}",
        plan.limit_s
    );
    let net = format!("user,id=net0,hostfwd=tcp:127.0.0.1:{port}-:4420,hostfwd=tcp:127.0.0.1:{discovery_port}-:8009");
    command
        .args(["-accel", accel, "-cpu", cpu, "-m", "384", "-smp", &plan.cpus.to_string()])
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
        .arg("-kernel")
        .arg(&plan.image.kernel)
        .arg("-initrd")
        .arg(initrd(plan)?)
        .args(["-append", &append])
        .args(["-netdev", &net])
        .args(["-device", "virtio-net-pci,netdev=net0,romfile="])
        .args(["-netdev", &format!("socket,id=net1,udp=127.0.0.1:{},localaddr=127.0.0.1:{}", frames.ours, frames.guest)])
        .args(["-device", "virtio-net-pci,netdev=net1,romfile="])
        .args(["-serial", &format!("file:{CONSOLE}")])
        .args(["-serial", &format!("file:{KMSG}")])
        .args(["-serial", &format!("unix:{CONTROL},server=on,wait=off")])
        .args(["-monitor", &format!("unix:{MONITOR},server=on,wait=off")])
        // socket names stay short, however deep the folder lies
        .current_dir(&plan.dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    Ok(command)
}

/// Sends an ICReq that any controller must accept and waits for the ICResp. Bytes by hand: the lab's own judgement of
/// whether the target is there must not hang on the code that the lab exists to test. [NVMe/TCP 3.6.2.2, 3.6.2.3]
fn icreq_answered(port: u16) -> std::io::Result<()> {
    let patience = Duration::from_secs(2);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    let mut icreq = [0; 128];
    icreq[2] = 128; // HLEN
    icreq[4] = 128; // PLEN, little-endian
    stream.write_all(&icreq)?;
    let mut icresp = [0; 128];
    stream.read_exact(&mut icresp)?;
    if icresp[..8] == [1, 0, 128, 0, 128, 0, 0, 0] {
        return Ok(());
    }
    Err(std::io::Error::other("what came is no ICResp"))
}

/// A file's text, whatever bytes it holds; empty where there is none.
pub fn lossy(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::answer_in;

    #[test]
    fn an_answer_is_whole_or_none() {
        let seen = "old\nlab-status 3\nlab-begin-7\nsome text\n\nlab-status 12\n";
        assert_eq!(answer_in(seen, "lab-begin-7"), Some((12, "some text\n".into())));
        assert_eq!(answer_in(&seen[..seen.len() - 1], "lab-begin-7"), None);
        assert_eq!(answer_in(seen, "lab-begin-8"), None);
    }
}
