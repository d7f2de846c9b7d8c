//! `nvmfspec target` as a user runs it: it says where it listens, serves, is wrong where it was asked to be, and ends in order.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use nvmf_capture::Capture;
use nvmf_wire::tcp::PduType;

struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    first: String,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nvmfspec"))
            .args(["target", "--listen", "127.0.0.1:0"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        out.read_line(&mut first).unwrap();
        Self { child, out, first }
    }

    fn address(&self) -> SocketAddr {
        let at = self.first.strip_prefix("listening on ").expect("where it listens");
        at.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// SIGINT; gives the status and what was printed since.
    fn interrupt(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

fn ic_req(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut bytes = [0; 128];
    bytes[2] = 128;
    bytes[4] = 128;
    stream.write_all(&bytes).unwrap();
    let mut answer = vec![0; 128];
    stream.read_exact(&mut answer).unwrap();
    answer
}

#[test]
fn it_serves_until_interrupted_and_leaves_a_capture() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.pcapng");
    let target = Running::start(&["--namespace", "mem:1MiB", "--cpda", "3", "--pcap", path.to_str().unwrap()]);
    let mut stream = TcpStream::connect(target.address()).unwrap();
    let answer = ic_req(&mut stream);
    assert_eq!((answer[0], answer[10]), (PduType::IC_RESP.0, 3));
    stream.write_all(&[0xac, 0, 8, 0, 8, 0, 0, 0]).unwrap();
    let mut term = [0; 32];
    stream.read_exact(&mut term).unwrap();
    drop(stream);
    std::thread::sleep(Duration::from_millis(100));
    let (status, printed) = target.interrupt();
    assert_eq!(status, Some(0));
    assert!(printed.contains("C2HTermReq FES 1 FEI 0"), "{printed}");
    let capture = Capture::open(&path).unwrap();
    let types: Vec<u8> = capture.connections()[0].pdus().map(|(_, pdu)| pdu[0]).collect();
    assert_eq!(types, [PduType::IC_REQ.0, PduType::IC_RESP.0, 0xac, PduType::C2H_TERM_REQ.0]);
}

#[test]
fn a_fault_of_a_file_bends_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("wrong.fault");
    let script = "fault wrong-cpda\n  says   \"CPDA is no alignment\"\n  breaks TCP-ICRESP-08\n  fails  tcp/icreq/answered\n  on c2h ICResp: set cpda=77\n";
    std::fs::write(&path, script).unwrap();
    let target = Running::start(&["--fault", path.to_str().unwrap()]);
    assert!(target.first.trim_end().ends_with("faults wrong-cpda"), "{}", target.first);
    let answer = ic_req(&mut TcpStream::connect(target.address()).unwrap());
    assert_eq!(answer[10], 77);
    assert_eq!(target.interrupt().0, Some(0));
}

#[test]
fn what_cannot_be_served_is_a_usage_error() {
    for args in [
        &["--namespace", "disk:1"][..],
        &["--namespace", "file:/nowhere/at/all"],
        &["--fault", "no-such-fault"],
        &["--fault", "/nowhere.fault"],
        &["--cpda", "32"],
    ] {
        let out =
            Command::new(env!("CARGO_BIN_EXE_nvmfspec")).args(["target", "--listen", "127.0.0.1:0"]).args(args).output().unwrap();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
}
