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

/// A test that fails leaves no target behind.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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

fn host(args: &[&str]) -> (Option<i32>, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_nvmfspec")).arg("host").args(args).output().unwrap();
    (out.status.code(), String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
}

#[test]
fn a_full_day_shows_no_finding_on_either_side() {
    let target = Running::start(&["--namespace", "mem:4MiB", "--judge", "--quiet"]);
    let at = target.address().to_string();
    let (code, out, err) =
        host(&["connect", "--target", &at, "--exercise", "--kato", "1000ms", "--allow-writes", "1:1024-4095", "--json"]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let steps = json["steps"].as_array().unwrap();
    let detail = |pass: &str, name: &str| {
        let step = steps.iter().find(|s| s["pass"] == pass && s["name"] == name).unwrap_or_else(|| panic!("{pass}, {name}: {out}"));
        step["detail"].as_str().unwrap().to_owned()
    };
    assert!(steps.iter().all(|s| s["ok"] == true), "{out}");
    for (pass, digests) in [("digests off", "HDGST off, DDGST off"), ("digests on", "HDGST on, DDGST on")] {
        assert!(detail(pass, "connect").contains(digests), "{out}");
        assert!(detail(pass, "write over MAXH2CDATA").ends_with("read back equal"), "{out}");
        assert!(detail(pass, "keep alive").starts_with("3500 ms with KATO 1000 ms; 4 Asynchronous"), "{out}");
        assert!(detail(pass, "controller reset").contains("2 I/O queues and 4 event requests anew, 8 blocks as before"), "{out}");
        assert!(detail(pass, "event").ends_with("its log page read, threshold set back"), "{out}");
        assert!(detail(pass, "abort").starts_with("an event request: aborted; a Read: "), "{out}");
    }
    let none = serde_json::json!([]);
    assert_eq!((&json["failed"], &json["deviations"], &json["judged"]["findings"]), (&0.into(), &0.into(), &none));
    assert!(json["judged"]["pdus"].as_u64().unwrap() > 1000, "{out}");
    // Nothing outside the range was written.
    let (_, before, _) = host(&["read", "--target", &at, "--blocks", "1024"]);
    assert_eq!(before.lines().count(), 3, "{before}");
    let (_, written, _) = host(&["read", "--target", &at, "--lba", "1024", "--blocks", "4"]);
    assert_eq!(written.lines().count(), 128, "{written}");
    let (status, printed) = target.interrupt();
    assert_eq!(status, Some(0));
    assert_eq!(printed.lines().count(), 1, "{printed}");
    assert!(printed.contains("no finding on the host (the other side); no finding on the controller (ours)"), "{printed}");
}

#[test]
fn without_a_range_the_exercise_only_reads() {
    let target = Running::start(&["--namespace", "mem:1MiB", "--judge"]);
    let at = target.address().to_string();
    let (code, out, _) = host(&["connect", "--target", &at, "--exercise", "--kato", "1"]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("reads, by depth") && !out.contains("writes") && !out.contains("flush"), "{out}");
    assert!(out.lines().last().unwrap().contains(" steps, 0 failed, 0 deviations of the controller, "), "{out}");
    assert_eq!(host(&["read", "--target", &at, "--blocks", "2048"]).1.lines().count(), 3);
    // A range that is not there is not used.
    let (code, out, _) = host(&["connect", "--target", &at, "--exercise", "--kato", "1s", "--allow-writes", "0-2048"]);
    assert_eq!(code, Some(1));
    assert!(out.contains("FAIL  namespace") && out.contains("2048 blocks: the range ends behind them"), "{out}");
    for wrong in
        [&["--allow-writes", "0-7"][..], &["--own-side"], &["--exercise", "--seconds", "5"], &["--exercise", "--kato", "0"]]
    {
        let args = [&["connect", "--target", &at], wrong].concat();
        assert_eq!(host(&args).0, Some(2), "{args:?}");
    }
    target.interrupt();
}

/// MDTS allows what the controller then refuses: told as its deviation, and the rest of the step is done. [FAB-IDENT-10]
#[test]
fn a_limit_that_mdts_does_not_tell_is_a_deviation_and_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("limit.fault");
    let script = "fault limit\n  says   \"the response to a long write says that its length is wrong\"\n  breaks FAB-IDENT-10\n  \
                  fails  io/write/mdts\n  on c2h CapsuleResp Write nlb>256: set status=0/0fh\n";
    std::fs::write(&path, script).unwrap();
    let target = Running::start(&["--namespace", "mem:4MiB", "--fault", path.to_str().unwrap(), "--quiet"]);
    let at = target.address().to_string();
    let day = ["connect", "--target", &at, "--exercise", "--kato", "1", "--allow-writes", "0-4095", "--json"];
    for (own_side, status) in [(&[][..], Some(1)), (&["--own-side"], Some(0))] {
        let (code, out, _) = host(&[&day[..], own_side].concat());
        let json: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &json["failed"], &json["deviations"]), (status, &0.into(), &2.into()), "{out}");
        let long = json["steps"].as_array().unwrap().iter().find(|s| s["name"] == "write over MAXH2CDATA").unwrap();
        let detail = long["detail"].as_str().unwrap();
        assert!(
            long["outcome"] == "deviation" && detail.contains("[FAB-IDENT-10]") && detail.ends_with("read back equal"),
            "{long}"
        );
    }
    target.interrupt();
}

#[test]
fn what_the_controller_does_wrong_is_told_to_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("wrong.fault");
    let script = "fault wrong-sqid\n  says   \"SQID is set\"\n  breaks CQE-02\n  fails  tcp/icreq/answered\n  on c2h CapsuleResp: set byte[18]=7\n";
    std::fs::write(&path, script).unwrap();
    let target = Running::start(&["--fault", path.to_str().unwrap(), "--judge", "--quiet"]);
    let at = target.address().to_string();
    let (code, _, err) = host(&["connect", "--target", &at]);
    assert_eq!((code, err.contains("finding")), (Some(0), false), "{err}");
    for command in [&["connect"][..], &["identify"], &["read"], &["write", "--pattern", "lba"], &["discover"]] {
        let (code, _, err) = host(&[command, &["--target", &at, "--judge"]].concat());
        assert_eq!(code, Some(1), "{command:?}: {err}");
        let findings: Vec<&str> = err.lines().filter(|l| l.starts_with("finding: ")).collect();
        assert_eq!(findings.len(), 1, "{err}");
        assert!(findings[0].starts_with("finding: CQE-02 (shall) controller: SQID 7; asked for: "), "{err}");
        assert!(err.lines().last().unwrap().contains("1 finding on the controller (the other side), 1 of them shall"), "{err}");
    }
    let (status, printed) = target.interrupt();
    assert_eq!(status, Some(0));
    assert_eq!(printed.matches("finding: CQE-02").count(), 1, "{printed}");
    assert!(printed.contains("1 finding on the controller (ours)"), "{printed}");
}

#[test]
fn what_a_host_does_wrong_is_told_by_the_target() {
    let target = Running::start(&["--judge", "--quiet"]);
    let mut stream = TcpStream::connect(target.address()).unwrap();
    ic_req(&mut stream);
    stream.write_all(&[0xac, 0, 8, 0, 8, 0, 0, 0]).unwrap();
    let mut term = [0; 32];
    stream.read_exact(&mut term).unwrap();
    drop(stream);
    let (status, printed) = target.interrupt();
    assert_eq!(status, Some(0));
    assert!(printed.lines().any(|l| l.contains("finding: ") && l.contains(" host: ")), "{printed}");
    assert!(printed.lines().last().unwrap().contains("1 finding on the host (the other side)"), "{printed}");
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
