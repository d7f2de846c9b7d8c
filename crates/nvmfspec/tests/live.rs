//! Captures that are still being written, and connections that only their user can tell.

use std::io::{BufRead, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nvmf_capture::{Direction, Exchange, Recorder, pcapng};
use nvmf_wire::tcp::{CapsuleCmd, Digests, Pdu, PduType};

fn nvmfspec(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nvmfspec"));
    command.args(args).env("NO_COLOR", "1");
    command
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// PDUs are shown while tcpdump is still running. Skipped, with a word, where tcpdump cannot capture on loopback.
#[test]
fn a_live_capture_is_shown_as_it_comes() {
    let mut target = nvmfspec(&["target", "--listen", "127.0.0.1:0"]);
    let mut target = Running(target.stdout(Stdio::piped()).spawn().unwrap());
    let mut first = String::new();
    BufReader::new(target.0.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let at: SocketAddr = first.strip_prefix("listening on ").unwrap().split_whitespace().next().unwrap().parse().unwrap();

    let filter = format!("tcp port {}", at.port());
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.args(["-i", "lo", "-U", "--immediate-mode", "-w", "-", &filter]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(tcpdump) = tcpdump.spawn() else { return eprintln!("skipped: tcpdump is not installed") };
    let mut tcpdump = Running(tcpdump);
    let mut said = String::new();
    let mut stderr = BufReader::new(tcpdump.0.stderr.take().unwrap());
    while !said.contains("listening on") {
        if stderr.read_line(&mut said).unwrap() == 0 {
            return eprintln!("skipped: tcpdump cannot capture on loopback: {said}");
        }
    }
    let trace = nvmfspec(&["trace", "--follow", "-"]).stdin(tcpdump.0.stdout.take().unwrap()).stdout(Stdio::piped()).spawn();
    let mut trace = Running(trace.unwrap());
    let (lines, shown) = mpsc::channel();
    let out = BufReader::new(trace.0.stdout.take().unwrap());
    std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| lines.send(line)));

    let address = at.to_string();
    let host = nvmfspec(&["host", "connect", "--target", &address]).stdout(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
    assert!(host.status.success(), "{}", String::from_utf8_lossy(&host.stderr));
    // tcpdump goes on: what is shown from here on was not held back until its end.
    let mut seen = String::new();
    while !["ICReq", "ICResp", "Connect", "PropertyGet", "Identify"].iter().all(|pdu| seen.contains(pdu)) {
        match shown.recv_timeout(Duration::from_secs(30)) {
            Ok(line) => seen.push_str(&format!("{line}\n")),
            Err(e) => panic!("{e} behind:\n{seen}"),
        }
    }
    assert!(tcpdump.0.try_wait().unwrap().is_none(), "tcpdump is still running");
    assert!(trace.0.try_wait().unwrap().is_none(), "and so is the trace");
}

/// A connection of which nothing proves what it is, on a port that is nobody's: only `--decode-as` shows it.
#[test]
fn a_port_can_be_told() {
    let (host, controller) = ("10.0.0.1:40000".parse().unwrap(), "10.0.0.2:5000".parse().unwrap());
    let mut rec = Recorder::new(host, controller, 0);
    let mut head = CapsuleCmd::new().as_bytes().to_vec();
    (head[0], head[2]) = (PduType::CAPSULE_CMD.0, 72);
    rec.push(Direction::HostToController, 10, Pdu::build(&head, Vec::new().into(), Digests::default(), 4).to_bytes());
    let exchange = Exchange { connections: vec![rec.finish()] };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("strange.pcapng");
    pcapng::Writer::new().write(&exchange, std::fs::File::create(&file).unwrap()).unwrap();
    let trace = |args: &[&str]| {
        let mut child = nvmfspec(&[&["trace"], args, &[file.to_str().unwrap()]].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = String::new();
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (child.wait().unwrap().code().unwrap(), out, err)
    };
    let (status, out, _) = trace(&[]);
    assert!(status == 0 && !out.contains("CapsuleCmd"), "{out}");
    for port in ["5000", "tcp.port==5000,nvme-tcp"] {
        let (status, out, err) = trace(&["--decode-as", port]);
        assert!(status == 0 && out.contains("CapsuleCmd"), "{out}{err}");
    }
    for (wrong, why) in [("udp.port==1,nvme-tcp", "only tcp.port==PORT,nvme-tcp can be told"), ("70000", "`70000` is no port")] {
        let (status, _, err) = trace(&["--decode-as", wrong]);
        assert!(status == 2 && err.contains(why), "{err}");
    }
}
