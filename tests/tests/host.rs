//! The reference host against the reference controller in the simulated world, and over loopback sockets.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nvmf_engine::controller::{Hub, HubEvent, NewNamespace, Port, PortTransport};
use nvmf_engine::host::{HostError, HostSettings, Payload, SubmitError, command};
use nvmf_engine::store::MemoryStore;
use nvmf_engine::{ControllerSettings, RdmaSettings, TcpSettings};
use nvmf_fabric::{Sim, SimOptions, SimTarget};
use nvmf_net::target::{Listener, SubsystemConfig};
use nvmf_net::{ClientError, EmbeddedTarget, HostClient, Notice, RealNetwork, TargetConfig};
use nvmf_seam::store::Geometry;
use nvmf_seam::{Network, Side, Tap, TapOutput};
use nvmf_wire::admin::LogPage;
use nvmf_wire::nqn::DISCOVERY_NQN;
use nvmf_wire::tcp::Digests;
use nvmf_wire::{Cntlid, Nsid, Qid, Sqe, Status};
use nvmfspec_tests::host::{Recorded, pattern};

const SUBNQN: &str = "nqn.2014-08.org.example:subsystem";
const AT: &str = "192.0.2.1:4420";

fn hub(settings: ControllerSettings) -> Hub {
    let mut hub = Hub::new(settings);
    hub.add_subsystem(SUBNQN, None).unwrap();
    for (nsid, block_size) in [(1, 512), (3, 4096)] {
        let store = Arc::new(MemoryStore::new(Geometry { blocks: 4096, block_size }));
        hub.add_namespace(SUBNQN, nsid, NewNamespace { store, blocking: false, uuid: None }).unwrap();
    }
    hub.add_port(Port { id: 1, advertise: AT.parse().unwrap(), discovery_only: false, transport: PortTransport::Tcp }).unwrap();
    hub
}

fn world(seed: u64, tcp: TcpSettings, controller: ControllerSettings) -> Sim {
    let target = SimTarget { hub: hub(controller), tcp, listen: vec![(AT.parse().unwrap(), 1)], tap: None };
    Sim::new(seed, target, SimOptions::default())
}

fn plain(seed: u64) -> Sim {
    world(seed, TcpSettings::default(), ControllerSettings::default())
}

fn settings() -> HostSettings {
    HostSettings::new("nqn.2014-08.org.example:host", *b"0123456789abcdef", SUBNQN)
}

fn connect<N: Network>(network: N, settings: HostSettings) -> Result<HostClient<N>, ClientError> {
    HostClient::connect(network, AT.parse().unwrap(), settings)
}

fn up<N: Network>(network: N, settings: HostSettings) -> HostClient<N> {
    match connect(network, settings) {
        Ok(c) => c,
        Err(e) => panic!("{e}"),
    }
}

fn write_and_read<N: Network>(client: &mut HostClient<N>, qid: Qid, lba: u64, blocks: u32) {
    let data = pattern(lba, blocks as usize * 512);
    let done = client.execute(qid, command::write(Nsid(1), lba, blocks), Payload::Out(data.clone())).unwrap();
    assert_eq!(done.status(), Status::SUCCESS);
    let done = client.execute(qid, command::read(Nsid(1), lba, blocks), Payload::In(blocks * 512)).unwrap();
    assert_eq!((done.status(), done.data.to_bytes()), (Status::SUCCESS, data));
}

#[test]
fn what_was_written_is_read_whatever_the_two_ends_agree_on() {
    // (CPDA, HPDA, digests, MAXH2CDATA, R2TL, C2HData, R2Ts, flow control off, in-capsule bytes)
    let cases = [
        (0, 0, false, false, 131_072, 1 << 20, 131_072, 1, false, 8192),
        (31, 31, true, true, 4096, 65_536, 4096, 4, true, 8192),
        (1, 3, true, false, 4096, 4096, 512, 1, false, 0),
        (15, 0, false, true, 8192, 12_288, 8192, 3, true, 4096),
        (0, 15, true, true, 65_536, 4096, 1024, 8, false, 16_384),
    ];
    for (n, (cpda, hpda, header, data, maxh2cdata, max_r2tl, max_c2hdata, r2ts, off, capsule)) in cases.into_iter().enumerate() {
        let tcp = TcpSettings { cpda, maxh2cdata, max_r2tl, max_c2hdata, ..TcpSettings::default() };
        let controller = ControllerSettings { ioccsz: 4 + capsule / 16, ..ControllerSettings::default() };
        let mut host = settings();
        host.tcp.hpda = hpda;
        host.tcp.digests = Digests { header, data };
        host.tcp.r2ts = r2ts;
        host.flow_control_off = off;
        host.insist_on_digests = true;
        host.io_queues = 2;
        let mut client = up(Recorded::new(world(n as u64, tcp, controller)), host);
        assert_eq!(client.facts().flow_control_off.len(), if off { 3 } else { 0 });
        assert_eq!(client.controller().in_capsule_bytes(), u64::from(capsule));
        for (i, blocks) in [1, 8, 16, 32, 33, 128, 2048].into_iter().enumerate() {
            write_and_read(&mut client, Qid(1 + i as u16 % 2), i as u64, blocks);
        }
        assert!(client.notice().is_none(), "case {n}");
        assert_eq!(client.disconnect().unwrap().findings(), [""; 0], "case {n}");
    }
}

#[test]
fn the_same_over_loopback_sockets() {
    let store = Arc::new(MemoryStore::new(Geometry { blocks: 4096, block_size: 512 }));
    let target = EmbeddedTarget::start(TargetConfig {
        listeners: vec![Listener::new("127.0.0.1:0".parse().unwrap())],
        subsystems: vec![SubsystemConfig {
            nqn: SUBNQN.into(),
            hosts: None,
            namespaces: vec![(1, NewNamespace { store, blocking: false, uuid: None })],
        }],
        controller: ControllerSettings::default(),
        tcp: TcpSettings { maxh2cdata: 4096, max_c2hdata: 4096, ..TcpSettings::default() },
        rdma: RdmaSettings::default(),
        tap: None,
        observer: None,
    })
    .unwrap();
    let mut host = settings();
    host.io_queues = 3;
    host.tcp.digests = Digests { header: true, data: true };
    host.insist_on_digests = true;
    let network = Recorded::new(RealNetwork::default());
    let mut client = HostClient::connect(network, target.address(), host).map_err(|e| e.to_string()).unwrap();
    for (n, blocks) in [1, 16, 100, 2048].into_iter().enumerate() {
        write_and_read(&mut client, Qid(1 + n as u16 % 3), n as u64, blocks);
    }
    let mut right = 0;
    let reads = (0..300u64).map(|n| (command::read(Nsid(1), n % 8, 256), Payload::In(131_072)));
    client.run(reads, |_, c| right += u32::from(c.status().is_success() && c.data.len() == 131_072)).unwrap();
    assert_eq!(right, 300);
    assert_eq!(client.disconnect().unwrap().findings(), [""; 0]);
}

#[test]
fn bring_up_finds_out_about_the_controller_and_shutdown_is_orderly() {
    let controller = ControllerSettings { io_queues: 3, io_queue_entries: 16, ..ControllerSettings::default() };
    let mut host = settings();
    host.io_queues = 5;
    let mut client = up(world(1, TcpSettings::default(), controller), host);
    let facts = client.facts();
    assert_eq!((facts.io_queues, facts.io_entries, facts.negotiated.len()), (3, 16, 4));
    assert_eq!((facts.vs.major(), facts.vs.minor()), (2, 0));
    assert_ne!(facts.cntlid, Cntlid::DYNAMIC);
    assert_eq!(client.controller().cntlid(), facts.cntlid);
    assert_eq!(client.controller().subnqn().as_str(), SUBNQN);
    assert_eq!(client.namespaces().unwrap(), [Nsid(1), Nsid(3)]);
    assert_eq!(client.namespace(Nsid(3)).unwrap().block_bytes(), Some(4096));
    let world = client.disconnect().unwrap();
    let connected = world.hub_events().iter().filter(|(_, e)| matches!(e, HubEvent::Connected { .. })).count();
    assert!(connected == 4, "{:?}", world.hub_events());
}

#[test]
fn many_commands_fly_at_once_and_none_is_lost() {
    let mut host = settings();
    host.io_queues = 4;
    host.io_entries = 8;
    let mut client = up(plain(3), host);
    let writes: Vec<(Sqe, Payload)> =
        (0..400u64).map(|n| (command::write(Nsid(1), n * 8, 8), Payload::Out(pattern(n, 4096)))).collect();
    let mut done = vec![0; 400];
    client.run(writes, |n, c| done[n] += u32::from(c.status().is_success())).unwrap();
    assert!(done.iter().all(|n| *n == 1));
    let reads = (0..400u64).map(|n| (command::read(Nsid(1), n * 8, 8), Payload::In(4096)));
    client.run(reads, |n, c| assert_eq!(c.data.to_bytes(), pattern(n as u64, 4096))).unwrap();
    client.disconnect().unwrap();
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let run = |seed| {
        let mut host = settings();
        host.io_queues = 2;
        let mut client = up(plain(seed), host);
        write_and_read(&mut client, Qid(2), 5, 64);
        client.disconnect().unwrap().trace_hash()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn keep_alive_holds_an_idle_association() {
    let mut host = settings();
    host.kato_ms = 2000;
    let mut client = up(plain(1), host);
    let until = client.network().now() + Duration::from_secs(60);
    client.idle(until).unwrap();
    write_and_read(&mut client, Qid(1), 0, 8);
    assert!(client.notice().is_none());
    client.disconnect().unwrap();
}

#[test]
fn discovery() {
    for kato_ms in [0, 60_000] {
        let mut host = settings();
        host.subnqn = DISCOVERY_NQN.into();
        host.kato_ms = kato_ms;
        let mut client = up(Recorded::new(plain(1)), host);
        let log = client.discovery_log().unwrap();
        let names: Vec<String> = log.entries.iter().map(|e| e.subnqn().as_str().to_owned()).collect();
        assert_eq!(log.header.numrec() as usize, names.len());
        assert!(names.iter().any(|n| n == SUBNQN), "{names:?}");
        // A change is told on a persistent connection, once the log was read. [DISC-CTRL-18]
        client.network().inner.with_hub(|h| h.add_subsystem("nqn.2014-08.org.example:second", None).unwrap());
        let until = client.network().now() + Duration::from_secs(1);
        client.idle(until).unwrap();
        let told =
            std::iter::from_fn(|| client.notice()).any(|n| matches!(n, Notice::Event(e) if e.log_page() == LogPage::DISCOVERY));
        assert_eq!(told, kato_ms > 0);
        let again = client.discovery_log().unwrap();
        assert!(again.entries.len() > log.entries.len() && again.header.genctr() > log.header.genctr());
        assert_eq!(client.disconnect().unwrap().findings(), [""; 0]);
    }
}

#[test]
fn a_long_discovery_log_is_read_in_parts() {
    let mut world = plain(1);
    world.with_hub(|h| (0..40).for_each(|n| h.add_subsystem(&format!("nqn.2014-08.org.example:s{n}"), None).unwrap()));
    let mut host = settings();
    host.subnqn = DISCOVERY_NQN.into();
    host.kato_ms = 0;
    let mut client = up(world, host);
    let log = client.discovery_log().unwrap();
    let mut names: Vec<String> = log.entries.iter().map(|e| e.subnqn().as_str().to_owned()).collect();
    names.sort();
    names.dedup();
    assert!(names.len() >= 41 && names.len() == log.entries.len(), "{} of {}", names.len(), log.entries.len());
}

#[test]
fn refusals_are_told() {
    let mut host = settings();
    host.subnqn = "nqn.2014-08.org.example:other".into();
    match connect(plain(1), host) {
        Err(ClientError::Host(HostError::Refused { qid: Qid::ADMIN, cqe })) => {
            assert_eq!(cqe.status().code(), Status::CONNECT_INVALID_PARAMETERS);
        }
        other => panic!("{:?}", other.err()),
    }
    let mut host = settings();
    host.tcp.digests = Digests { header: true, data: false };
    host.insist_on_digests = true;
    let tcp = TcpSettings { header_digest: false, ..TcpSettings::default() };
    let got = connect(world(1, tcp.clone(), ControllerSettings::default()), host.clone());
    assert!(matches!(got, Err(ClientError::Host(HostError::DigestsRefused(_)))));
    // Without insisting it goes on without them. [TCP-DGST-17]
    host.insist_on_digests = false;
    let client = up(world(1, tcp, ControllerSettings::default()), host);
    assert!(!client.facts().negotiated[&Qid(1)].tcp().unwrap().digests.header);
}

#[test]
fn errors_of_commands_are_outcomes() {
    let mut client = up(plain(1), settings());
    let done = client.execute(Qid(1), command::read(Nsid(1), 4096, 1), Payload::In(512)).unwrap();
    assert_eq!(done.status().code(), Status::LBA_OUT_OF_RANGE);
    let done = client.execute(Qid(1), command::read(Nsid(9), 0, 1), Payload::In(512)).unwrap();
    assert!(!done.status().is_success());
    let wrong = client.execute(Qid(1), command::read(Nsid(1), 0, 1), Payload::Out(Bytes::from_static(&[0; 512])));
    assert!(matches!(wrong, Err(ClientError::Submit(SubmitError::Direction))));
    write_and_read(&mut client, Qid(1), 0, 1);
}

/// Does something to the nth C2HData.
struct OnData {
    seen: u32,
    nth: u32,
    what: fn(&mut Vec<u8>) -> bool,
}

impl Tap for OnData {
    fn pdu(&mut self, from: Side, pdu: Bytes) -> Vec<TapOutput> {
        if from == Side::Controller && pdu.first() == Some(&7) && pdu.len() > 8192 {
            self.seen += 1;
            if self.seen == self.nth {
                let mut changed = pdu.to_vec();
                return if (self.what)(&mut changed) { vec![TapOutput::Pass(changed.into())] } else { vec![TapOutput::Close] };
            }
        }
        vec![TapOutput::Pass(pdu)]
    }
}

fn tapped(what: fn(&mut Vec<u8>) -> bool) -> HostClient<Sim> {
    let tap: nvmf_fabric::TapFactory = Arc::new(move || Box::new(OnData { seen: 0, nth: 1, what }));
    let target = SimTarget {
        hub: hub(ControllerSettings::default()),
        tcp: TcpSettings::default(),
        listen: vec![(AT.parse().unwrap(), 1)],
        tap: Some(tap),
    };
    let mut host = settings();
    host.tcp.digests = Digests { header: false, data: true };
    up(Sim::new(1, target, SimOptions::default()), host)
}

#[test]
fn a_flipped_bit_of_data_fails_one_command() {
    let mut client = tapped(|pdu| {
        pdu[1000] ^= 1;
        true
    });
    let read = || (command::read(Nsid(1), 0, 32), Payload::In(16_384));
    let (sqe, payload) = read();
    assert_eq!(client.execute(Qid(1), sqe, payload).unwrap().status(), Status::TRANSIENT_TRANSPORT_ERROR);
    let (sqe, payload) = read();
    assert_eq!(client.execute(Qid(1), sqe, payload).unwrap().status(), Status::SUCCESS);
    client.disconnect().unwrap();
}

#[test]
fn a_broken_header_ends_the_association_and_says_why() {
    let mut client = tapped(|pdu| {
        pdu[12] = 4; // DATAO
        true
    });
    let got = client.execute(Qid(1), command::read(Nsid(1), 0, 32), Payload::In(16_384));
    match got {
        Err(ClientError::Host(HostError::Violation { qid: Qid(1), violation, .. })) => {
            assert_eq!((violation.requirement.id, violation.answer), ("TCP-C2H-02", nvmf_spec::Answer::TermReq { fes: 2, fei: 0 }));
        }
        other => panic!("{other:?}"),
    }
    assert!(client.execute(Qid(1), command::read(Nsid(1), 0, 1), Payload::In(512)).is_err());
}

#[test]
fn a_lost_connection_ends_the_association_and_says_so() {
    let mut client = tapped(|_| false);
    let got = client.execute(Qid(1), command::read(Nsid(1), 0, 32), Payload::In(16_384));
    assert!(matches!(got, Err(ClientError::Host(HostError::Lost { qid: Qid(1), .. }))), "{got:?}");
}
