//! `nvmfspec target --control` and `nvmfspec control`: what a target serves changes under hosts that are connected over loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nvmf_engine::host::{HostSettings, Payload, command};
use nvmf_net::{HostClient, Notice, RealNetwork};
use nvmf_seam::Network;
use nvmf_wire::admin::{Feature, LogPage};
use nvmf_wire::cqe::EventType;
use nvmf_wire::nqn::DISCOVERY_NQN;
use nvmf_wire::{Cntlid, Nsid, Qid, Status};

const NQN: &str = "nqn.2014-08.org.example:first";
const OTHER: &str = "nqn.2014-08.org.example:second";
const HOST: &str = "nqn.2014-08.org.example:host";

/// A target with a control socket, in a directory of its own.
struct Running {
    child: Child,
    at: SocketAddr,
    socket: PathBuf,
    _dir: tempfile::TempDir,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("control");
        let mut child = Command::new(env!("CARGO_BIN_EXE_nvmfspec"))
            .args(["target", "--listen", "127.0.0.1:0", "--quiet", "--nqn", NQN, "--namespace", "mem:1MiB", "--control"])
            .arg(&socket)
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let at = first.strip_prefix("listening on ").unwrap().split_whitespace().next().unwrap().parse().unwrap();
        Self { child, at, socket, _dir: dir }
    }

    /// Status, standard output and standard error of `nvmfspec control`.
    fn control(&self, words: &[&str]) -> (Option<i32>, String, String) {
        control(&self.socket, words)
    }

    fn done(&self, words: &[&str]) -> String {
        let (code, out, err) = self.control(words);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{words:?}");
        out.trim_end().to_owned()
    }

    fn host(&self, subnqn: &str) -> HostClient<RealNetwork> {
        HostClient::connect(RealNetwork::default(), self.at, HostSettings::new(HOST, [7; 16], subnqn)).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn control(socket: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_nvmfspec")).arg("control").arg(socket).args(words).output().unwrap();
    (out.status.code(), String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
}

/// Waits for an event: information and log page.
fn event(client: &mut HostClient<RealNetwork>) -> (u8, u8) {
    for _ in 0..100 {
        if let Some(Notice::Event(e)) = client.notice() {
            assert_eq!(e.event_type(), EventType::NOTICE);
            return (e.event_info(), e.log_page().0);
        }
        let until = client.network().now() + Duration::from_millis(50);
        client.idle(until).unwrap();
    }
    panic!("no event came");
}

fn changed(client: &mut HostClient<RealNetwork>) -> Vec<u32> {
    let get = command::get_log_page(LogPage::CHANGED_NAMESPACES, 0, 4096, false);
    let done = client.execute(Qid::ADMIN, get, Payload::In(4096)).unwrap();
    assert!(done.status().is_success());
    let page = done.data.to_bytes();
    page.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).take_while(|n| *n != 0).collect()
}

#[test]
fn a_connected_host_sees_namespaces_come_and_go() {
    let target = Running::start(&[]);
    let mut client = target.host(NQN);
    assert_eq!(target.done(&["namespace", "add", "mem:2MiB,bs=4096"]), "ok 2");
    assert_eq!(event(&mut client), (0, 4));
    assert_eq!(target.done(&["namespace", "add", "null:1MiB"]), "ok 3");
    // No second event before the list is read, and the list holds both.
    assert_eq!(changed(&mut client), [2, 3]);
    assert_eq!(client.namespaces().unwrap(), [Nsid(1), Nsid(2), Nsid(3)]);
    assert_eq!(client.namespace(Nsid(2)).unwrap().nsze(), 512);
    // The I/O queue knows the new one.
    let write = client.execute(Qid(1), command::write(Nsid(2), 0, 1), Payload::Out(vec![0x5a; 4096].into())).unwrap();
    assert!(write.status().is_success());
    assert_eq!(target.done(&["namespace", "remove", "2"]), "ok");
    assert_eq!(event(&mut client), (0, 4));
    assert_eq!(changed(&mut client), [2]);
    assert_eq!(changed(&mut client), [0_u32; 0]);
    let read = client.execute(Qid(1), command::read(Nsid(2), 0, 1), Payload::In(4096)).unwrap();
    assert!(!read.status().is_success());
    assert_eq!(target.done(&["namespace", "add", "mem:1MiB"]), "ok 2");
    client.disconnect().unwrap();
}

#[test]
fn a_discovery_host_sees_subsystems_and_hosts_come_and_go() {
    let target = Running::start(&[]);
    let mut client = target.host(DISCOVERY_NQN);
    let names = |client: &mut HostClient<RealNetwork>| -> Vec<String> {
        let log = client.discovery_log().unwrap();
        log.entries.iter().map(|e| e.subnqn().as_str().to_owned()).collect()
    };
    assert_eq!(names(&mut client), [NQN]);
    assert_eq!(target.done(&["subsystem", "add", OTHER, "mem:1MiB", "null:1MiB"]), "ok");
    assert_eq!(event(&mut client), (0xf0, 0x70));
    assert_eq!(names(&mut client), [NQN, OTHER]);
    let mut second = target.host(OTHER);
    assert_eq!(second.namespaces().unwrap(), [Nsid(1), Nsid(2)]);
    // Nobody, then this host alone, then everybody.
    assert_eq!(target.done(&["host", "deny", "any", OTHER]), "ok");
    assert_eq!(event(&mut client), (0xf0, 0x70));
    assert_eq!(names(&mut client), [NQN]);
    let until = second.network().now() + Duration::from_secs(5);
    assert!(second.idle(until).is_err(), "the association of a host that is denied ends");
    assert_eq!(target.done(&["host", "allow", HOST, OTHER]), "ok");
    assert_eq!(event(&mut client), (0xf0, 0x70));
    assert_eq!(names(&mut client), [NQN, OTHER]);
    target.host(OTHER).disconnect().unwrap();
    assert_eq!(target.done(&["host", "allow", "any", OTHER]), "ok");
    assert_eq!(event(&mut client), (0xf0, 0x70));
    assert_eq!(names(&mut client), [NQN, OTHER]);
    assert_eq!(target.done(&["subsystem", "remove", OTHER]), "ok");
    assert_eq!(event(&mut client), (0xf0, 0x70));
    assert_eq!(names(&mut client), [NQN]);
    client.disconnect().unwrap();
}

#[test]
fn options_are_there_where_they_were_asked_for() {
    let target = Running::start(&[
        "--static-controllers",
        "8",
        "--subsystem-reset",
        "--queue-deletion",
        "--ana-groups",
        "2",
        "--referral",
        "192.0.2.9:8009",
    ]);
    let host = |cntlid| HostSettings { cntlid, ..HostSettings::new(HOST, [7; 16], NQN) };
    assert!(HostClient::connect(RealNetwork::default(), target.at, host(Cntlid::DYNAMIC)).is_err());
    let mut client = HostClient::connect(RealNetwork::default(), target.at, host(Cntlid(3))).unwrap();
    let id = client.controller();
    assert_eq!((id.cntlid(), id.fcatt_static(), id.ofcs_disconnect(), id.cmic_ana()), (Cntlid(3), true, true, true));
    assert!(client.facts().cap.nssrs());
    // The temperature, for a host that set a threshold.
    let set = |fid, value| command::set_features(Feature(fid), value);
    for sqe in [set(0x0b, 1 << 1 | 1 << 11), set(4, 320)] {
        assert!(client.execute(Qid::ADMIN, sqe, Payload::None).unwrap().status().is_success());
    }
    assert_eq!(target.done(&["temperature", "321"]), "ok");
    for _ in 0..100 {
        if let Some(Notice::Event(e)) = client.notice() {
            assert_eq!((e.event_type(), e.event_info(), e.log_page()), (EventType(1), 1, LogPage::SMART));
            break;
        }
        let until = client.network().now() + Duration::from_millis(50);
        client.idle(until).unwrap();
    }
    // A namespace in a group of its own that becomes inaccessible and comes back.
    let read = |client: &mut HostClient<RealNetwork>| {
        client.execute(Qid(1), command::read(Nsid(1), 0, 1), Payload::In(512)).unwrap().status().code()
    };
    assert_eq!(target.done(&["ana", "namespace", "1", "2"]), "ok");
    assert_eq!(event(&mut client), (3, 0x0c));
    assert_eq!(target.done(&["ana", "2", "inaccessible"]), "ok");
    assert_eq!(read(&mut client), Status::ASYMMETRIC_ACCESS_INACCESSIBLE);
    assert_eq!(target.done(&["ana", "2", "non-optimized"]), "ok");
    assert_eq!(read(&mut client), Status::SUCCESS);
    client.disconnect().unwrap();
    let mut client = target.host(DISCOVERY_NQN);
    assert_eq!(client.discovery_log().unwrap().entries.len(), 2);
    assert_eq!(target.done(&["referral", "remove", "192.0.2.9:8009"]), "ok");
    assert_eq!(client.discovery_log().unwrap().entries.len(), 1);
    client.disconnect().unwrap();
}

#[test]
fn list_says_what_is_there() {
    let target = Running::start(&["--allow-host", HOST]);
    let client = target.host(NQN);
    let list = target.done(&["list"]);
    let list: serde_json::Value = serde_json::from_str(list.strip_prefix("ok ").unwrap()).unwrap();
    assert_eq!(
        list,
        serde_json::json!({
            "subsystems": [{
                "nqn": NQN,
                "hosts": [HOST],
                "namespaces": [{ "nsid": 1, "blocks": 2048, "block_size": 512 }],
            }],
            "associations": [{ "cntlid": 1, "subnqn": NQN, "hostnqn": HOST, "io_queues": 1 }],
        })
    );
    client.disconnect().unwrap();
}

#[test]
fn what_is_wrong_is_said_and_changes_nothing() {
    let target = Running::start(&[]);
    let before = target.done(&["list"]);
    for (words, why) in [
        (&["namespace", "add", "disk:1GiB"][..], "no store"),
        (&["namespace", "add", "mem:1MiB", OTHER], "no such namespace or subsystem"),
        (&["namespace", "add", "file:/does/not/exist"], "/does/not/exist"),
        (&["namespace", "remove", "9"], "no such namespace"),
        (&["namespace", "remove", "one"], "an NSID is a number"),
        (&["subsystem", "add", "not-an-nqn"], "not usable as the NQN"),
        (&["subsystem", "add", DISCOVERY_NQN], "discovery subsystem"),
        (&["subsystem", "add", NQN], "exists already"),
        (&["subsystem", "add", OTHER, "mem:1MiB", "mem:1"], "less than one block"),
        (&["subsystem", "remove", OTHER], "does not exist"),
        (&["host", "allow", HOST], "every host may connect"),
        (&["host", "deny", HOST], "every host may connect"),
        (&["ana", "1", "inaccessible"], "no such ANA group"),
        (&["ana", "1", "gone"], "a state is"),
        (&["ana", "namespace", "1", "1"], "no such ANA group"),
        (&["referral", "add", "elsewhere"], "an address such as"),
        (&["referral", "remove", "192.0.2.1:8009"], "does not exist"),
        (&["temperature", "hot"], "a number of kelvins"),
        (&["reboot"], "no such command"),
        (&["list", "all"], "no such command"),
    ] {
        let (code, out, err) = target.control(words);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{words:?}");
        assert!(err.contains(why), "{words:?}: {err}");
    }
    assert_eq!(target.control(&["namespace", "add", "file:/a b"]).0, Some(2));
    assert_eq!(target.control(&["list", &"x".repeat(5000)]).0, Some(2));
    assert_eq!(target.control(&[]).0, Some(2));
    assert_eq!(target.done(&["list"]), before);
}

#[test]
fn lines_are_bounded_and_several_go_over_one_connection() {
    let target = Running::start(&[]);
    let mut stream = UnixStream::connect(&target.socket).unwrap();
    stream.write_all(b"namespace add mem:1MiB\n\n\xff\nnamespace remove 2\n").unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "ok 2");
    assert!(lines.next().unwrap().starts_with("error: an empty line"));
    assert!(lines.next().unwrap().starts_with("error: the line is not UTF-8"));
    assert_eq!(lines.next().unwrap(), "ok");
    stream.write_all(&[b'a'; 4096]).unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "error: a line has at most 4096 bytes\n");
}

#[test]
fn quit_ends_the_target_and_its_socket() {
    let mut target = Running::start(&[]);
    // A second target does not take the place of one that runs.
    let second = Command::new(env!("CARGO_BIN_EXE_nvmfspec"))
        .args(["target", "--listen", "127.0.0.1:0", "--control"])
        .arg(&target.socket)
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(3), "{second:?}");
    assert_eq!(target.done(&["quit"]), "ok");
    assert_eq!(target.child.wait().unwrap().code(), Some(0));
    assert!(!target.socket.exists());
    assert_eq!(target.control(&["list"]).0, Some(3));
}
