//! The reference host over days with the reference controller in the simulated world, under the bystander rules: resets, queues that come
//! and go, events, keep alive in all its forms, groups of namespaces that change, referrals; over streams that are cut and delayed.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nvmf_engine::controller::{Hub, NewNamespace, Port, PortTransport};
use nvmf_engine::host::{
    Again, DISCOVERY_NQN, HostError, HostSettings, Left, Payload, Recovery, RecoverySettings, SubmitError, Walk, command,
};
use nvmf_engine::settings::ControllerModel;
use nvmf_engine::store::MemoryStore;
use nvmf_engine::{ControllerSettings, TcpSettings};
use nvmf_fabric::{Sim, SimOptions, SimTarget, TapFactory};
use nvmf_net::{ClientError, HostClient, Notice};
use nvmf_scenario::fault::FaultTap;
use nvmf_seam::store::Geometry;
use nvmf_seam::{Network, Tap};
use nvmf_wire::admin::LogPage;
use nvmf_wire::log::AnaState;
use nvmf_wire::tcp::Digests;
use nvmf_wire::{Cntlid, Nsid, Qid, Status};
use nvmfspec_tests::host::{Recorded, day, fault, pattern, settings};
use nvmfspec_tests::world::SUBNQN;

const AT: &str = "192.0.2.1:4420";
const OTHER: &str = "192.0.2.1:8009";

type Client = HostClient<Recorded<Sim>>;

fn store() -> NewNamespace {
    let store = Arc::new(MemoryStore::new(Geometry { blocks: 4096, block_size: 512 }));
    NewNamespace { store, blocking: false, uuid: None }
}

fn world(
    seed: u64,
    controller: ControllerSettings,
    tcp: TcpSettings,
    options: SimOptions,
    tap: Option<TapFactory>,
) -> Recorded<Sim> {
    let mut hub = Hub::new(controller);
    hub.add_subsystem(SUBNQN, None).unwrap();
    hub.add_namespace(SUBNQN, 1, store()).unwrap();
    let listen: Vec<(SocketAddr, u16)> = vec![(AT.parse().unwrap(), 1), (OTHER.parse().unwrap(), 2)];
    for (at, id) in &listen {
        hub.add_port(Port { id: *id, advertise: *at, discovery_only: *id == 2, transport: PortTransport::Tcp }).unwrap();
    }
    Recorded::new(Sim::new(seed, SimTarget { hub, tcp, listen, tap }, options))
}

fn plain(controller: ControllerSettings) -> Recorded<Sim> {
    world(1, controller, TcpSettings::default(), SimOptions::default(), None)
}

fn up(network: Recorded<Sim>, settings: HostSettings) -> Client {
    HostClient::connect(network, AT.parse().unwrap(), settings).unwrap_or_else(|e| panic!("{e}"))
}

/// Ends in order, with no finding on either side.
fn end(client: Client) {
    let network = client.release().unwrap_or_else(|(e, _)| panic!("{e}"));
    assert_eq!(network.findings(), [""; 0]);
}

fn read_one(client: &mut Client, qid: Qid) -> Result<Status, ClientError> {
    Ok(client.execute(qid, command::read(Nsid(1), 0, 8), Payload::In(4096))?.status())
}

fn rest(client: &mut Client, time: Duration) {
    let until = client.network().now() + time;
    client.idle(until).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn days_over_streams_that_are_cut_and_delayed() {
    for seed in 0..16u64 {
        let pick = |n: u64| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(n as u32 * 7);
        let options = SimOptions {
            delay: Duration::from_micros(20 + pick(1) % 3000),
            jitter: Duration::from_micros(pick(2) % 5000),
            segment: if seed % 4 == 0 { (1, 40) } else { (1, 1 + (pick(3) % 9000) as usize) },
            window: 4096 << (pick(4) % 8),
        };
        let tcp = TcpSettings {
            cpda: (pick(5) % 32) as u8,
            maxh2cdata: 4096 * (1 + pick(6) as u32 % 16),
            max_r2tl: 4096 * (1 + pick(7) as u32 % 32),
            max_c2hdata: 512 * (1 + pick(8) as u32 % 64),
            ..TcpSettings::default()
        };
        let controller = ControllerSettings {
            queue_deletion: pick(9) % 2 == 0,
            ioccsz: 4 + (pick(10) as u32 % 3) * 256,
            ..ControllerSettings::default()
        };
        let mut host = settings();
        host.io_queues = 2;
        host.io_entries = 4 + (pick(11) % 60) as u16;
        host.flow_control_off = pick(12) % 2 == 0;
        host.queue_deletion = true;
        host.tcp.hpda = (pick(13) % 32) as u8;
        host.tcp.r2ts = 1 + (pick(14) % 4) as u16;
        host.tcp.digests = Digests { header: pick(15) % 2 == 0, data: pick(16) % 2 == 0 };
        let mut client = up(world(seed, controller, tcp, options, None), host);
        day(&mut client).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let network = client.release().unwrap_or_else(|(e, _)| panic!("seed {seed}: {e}"));
        assert_eq!(network.findings(), [""; 0], "seed {seed}");
    }
}

#[test]
fn resets_in_the_middle_of_work() {
    let mut host = settings();
    host.io_queues = 3;
    host.async_events = 4;
    let mut client = up(plain(ControllerSettings::default()), host);
    let data = pattern(9, 64 * 512);
    client.execute(Qid(2), command::write(Nsid(1), 100, 64), Payload::Out(data.clone())).unwrap();
    for round in 0..5 {
        let flying: Vec<(Qid, _)> = (0..12u16)
            .map(|n| {
                let qid = Qid(1 + n % 3);
                (qid, client.submit(qid, command::read(Nsid(1), u64::from(n) * 64, 64), Payload::In(32_768)).unwrap())
            })
            .collect();
        client.reset().unwrap();
        for (qid, cid) in flying {
            let done = client.wait(qid, cid).unwrap();
            assert!([Status::SUCCESS, Status::COMMAND_ABORTED_BY_HOST].contains(&done.status()), "{}", done.status());
        }
        let again = client.execute(Qid(1 + round % 3), command::read(Nsid(1), 100, 64), Payload::In(32_768)).unwrap();
        assert_eq!(again.data.to_bytes(), data);
        assert_eq!((client.association().event_requests(), client.association().io_queues().count()), (4, 3));
    }
    end(client);
}

/// [FAB-DISC-15, FAB-DISC-20, FAB-DISC-21]
#[test]
fn queues_are_deleted_and_connected_again_under_work() {
    let mut host = settings();
    host.io_queues = 3;
    host.queue_deletion = true;
    let mut client = up(plain(ControllerSettings { queue_deletion: true, ..ControllerSettings::default() }), host.clone());
    for round in 0..4 {
        let qid = Qid(1 + round % 3);
        let cid = client.submit(qid, command::read(Nsid(1), 0, 128), Payload::In(65_536)).unwrap();
        assert_eq!(client.delete_queue(qid).unwrap(), Status::SUCCESS);
        assert_eq!(client.wait(qid, cid).unwrap().status(), Status::SUCCESS, "what was out ends first");
        assert!(matches!(read_one(&mut client, qid), Err(ClientError::Submit(SubmitError::NotReady))));
        assert_eq!(read_one(&mut client, Qid(1 + (round + 1) % 3)).unwrap(), Status::SUCCESS);
        client.create_queue(qid).unwrap();
        assert_eq!(read_one(&mut client, qid).unwrap(), Status::SUCCESS);
    }
    end(client);
    // Without Disconnect at the controller there is none.
    let mut client = up(plain(ControllerSettings::default()), host);
    assert!(matches!(client.delete_queue(Qid(1)), Err(ClientError::Submit(SubmitError::Unsupported))));
    end(client);
}

#[test]
fn events_are_told_once_until_their_page_is_read() {
    let mut host = settings();
    host.async_events = 3;
    let mut client = up(plain(ControllerSettings::default()), host);
    for nsid in 2..5 {
        client.network().inner.with_hub(|h| h.add_namespace(SUBNQN, nsid, store()).unwrap());
        rest(&mut client, Duration::from_millis(50));
        let events: Vec<_> = std::iter::from_fn(|| client.notice()).collect();
        let [Notice::Event(event)] = events[..] else { panic!("{events:?}") };
        assert_eq!((event.event_type().0, event.log_page()), (2, LogPage::CHANGED_NAMESPACES));
        // A second change is not told before that page was read. [ADM-AER-06]
        client.network().inner.with_hub(|h| h.remove_namespace(SUBNQN, nsid).unwrap());
        rest(&mut client, Duration::from_millis(50));
        assert!(client.notice().is_none());
        assert_eq!(client.clear_event(event).unwrap().expect("it has a page").len(), 4096);
    }
    assert_eq!(client.association().event_requests(), 3);
    end(client);
}

#[test]
fn keep_alive_by_traffic_and_by_granularity() {
    // With TBKAS other commands do. [KA-15, KA-16]
    let controller = ControllerSettings { traffic_keep_alive: true, ..ControllerSettings::default() };
    let mut client = up(plain(controller), settings());
    for _ in 0..60 {
        rest(&mut client, Duration::from_millis(300));
        assert_eq!(read_one(&mut client, Qid(1)).unwrap(), Status::SUCCESS);
    }
    let exchange = client.network().exchange();
    let keep_alives = exchange.connections.iter().flat_map(|c| c.pdus()).filter(|(_, b)| b[0] == 4 && b[8] == 0x18).count();
    assert_eq!(keep_alives, 0);
    rest(&mut client, Duration::from_secs(20));
    assert_eq!(read_one(&mut client, Qid(1)).unwrap(), Status::SUCCESS);
    end(client);
    // A KATO below the granularity is raised to it. [KA-13, KA-17]
    let mut host = settings();
    host.kato_ms = 1;
    let mut client = up(plain(ControllerSettings { kas: 20, ..ControllerSettings::default() }), host);
    assert_eq!(client.facts().kato_ms, 2000);
    rest(&mut client, Duration::from_secs(20));
    let exchange = client.network().exchange();
    let keep_alives = exchange.connections.iter().flat_map(|c| c.pdus()).filter(|(_, b)| b[0] == 4 && b[8] == 0x18).count();
    assert!((19..=21).contains(&keep_alives), "{keep_alives}");
    // The rules hold a host to the KATO that it asked for, not to what the controller makes of it.
    let network = client.release().unwrap_or_else(|(e, _)| panic!("{e}"));
    let others: Vec<String> =
        network.findings().into_iter().filter(|f| !f.starts_with("KA-13") && !f.starts_with("ADM-KA-11")).collect();
    assert_eq!(others, [""; 0]);
}

/// [ANA-20, CQE-22]
#[test]
fn a_group_that_changes_is_waited_for_and_one_that_does_not_is_given_up() {
    let ana = || ControllerSettings { ana_groups: 4, ..ControllerSettings::default() };
    let mut client = up(plain(ana()), settings());
    client.network().inner.with_hub(|h| h.set_ana_state(SUBNQN, 1, AnaState::CHANGE).unwrap());
    let started = client.network().now();
    let mut recovery = Recovery::new(RecoverySettings::default());
    let read = || (command::read(Nsid(1), 0, 8), Payload::In(4096));
    let (sqe, payload) = read();
    let done = client.persist(&mut recovery, Qid(1), sqe, payload).unwrap();
    assert_eq!(done.status().code(), Status::ASYMMETRIC_ACCESS_TRANSITION);
    let anatt = Duration::from_secs(client.controller().anatt().into());
    assert!(client.network().now().since(started) >= anatt, "ANATT is {anatt:?}");
    client.network().inner.with_hub(|h| h.set_ana_state(SUBNQN, 1, AnaState::OPTIMIZED).unwrap());
    let (sqe, payload) = read();
    assert!(client.persist(&mut recovery, Qid(1), sqe, payload).unwrap().status().is_success());
    end(client);
}

/// Data that never comes through is given up after four tries. [CQE-23, FAB-STATUS-09]
#[test]
fn four_digest_errors_are_the_end_of_a_command() {
    let script = "fault f\n  says \"x\"\n  breaks TCP-DGST-16\n  fails  tcp/icreq/answered\n  on c2h C2HData Read: corrupt data\n";
    let fault = fault(script);
    let tap: TapFactory = Arc::new(move || Box::new(FaultTap::new(&fault)) as Box<dyn Tap>);
    let mut host = settings();
    host.tcp.digests = Digests { header: false, data: true };
    let mut client = up(world(1, ControllerSettings::default(), TcpSettings::default(), SimOptions::default(), Some(tap)), host);
    let mut recovery = Recovery::new(RecoverySettings::default());
    let done = client.persist(&mut recovery, Qid(1), command::read(Nsid(1), 0, 8), Payload::In(4096)).unwrap();
    assert_eq!(done.status(), Status::TRANSIENT_TRANSPORT_ERROR);
    let exchange = client.network().exchange();
    assert_eq!(
        exchange
            .connections
            .iter()
            .flat_map(|c| c.pdus())
            .filter(|(_, b)| b[0] == 4 && b[8] == 2 && b[48..56] == [0; 8] && b[56] == 7)
            .count(),
        4
    );
    let network = client.release().unwrap_or_else(|(e, _)| panic!("{e}"));
    assert_eq!(network.ours(), [""; 0]);
}

/// A host that took any controller of a static subsystem asks for the same one again. [FAB-CNTLID-11]
#[test]
fn the_same_static_controller_is_asked_for_again() {
    let controller = ControllerSettings { controller_model: ControllerModel::Static { count: 4 }, ..ControllerSettings::default() };
    let mut host = settings();
    host.cntlid = Cntlid::ANY_STATIC;
    let mut client = up(plain(controller), host);
    let first = client.facts().cntlid;
    client.network().inner.with_hub(Hub::shut_down);
    assert!(matches!(read_one(&mut client, Qid(1)), Err(ClientError::Host(HostError::Lost { .. }))));
    assert!(matches!(client.lost(), Some(HostError::Lost { .. })));
    client.reconnect(&mut Recovery::new(RecoverySettings::default())).unwrap();
    assert_eq!((client.facts().cntlid, client.association().settings().cntlid), (first, first));
    assert!(std::iter::from_fn(|| client.notice()).any(|n| matches!(n, Notice::Reconnected(HostError::Lost { .. }))));
    assert_eq!(read_one(&mut client, Qid(1)).unwrap(), Status::SUCCESS);
    let network = client.release().unwrap_or_else(|(e, _)| panic!("{e}"));
    assert_eq!(network.ours(), [""; 0]);
}

#[test]
fn a_subsystem_that_is_gone_is_not_asked_for_for_ever() {
    let mut client = up(plain(ControllerSettings::default()), settings());
    client.network().inner.with_hub(|h| h.remove_subsystem(SUBNQN).unwrap());
    assert!(read_one(&mut client, Qid(1)).is_err());
    let mut recovery = Recovery::new(RecoverySettings::default());
    match client.reconnect(&mut recovery) {
        // Connect Invalid Parameters would be the answer to the next as well.
        Err(ClientError::Host(HostError::Refused { .. })) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(recovery.tried(), 1);
    let why = HostError::Unusable("any");
    assert_eq!(recovery.after(&why, client.network().now()), Again::Never);
}

/// Two services that refer to each other, and one that is not there. [DISC-LOG-09, TCP-DISC-08]
#[test]
fn referrals_are_followed_and_a_loop_is_noticed() {
    let mut network = plain(ControllerSettings::default());
    let far: SocketAddr = "198.51.100.7:8009".parse().unwrap();
    network.inner.with_hub(|h| {
        for to in [AT.parse().unwrap(), OTHER.parse().unwrap(), far] {
            h.add_referral(to).unwrap();
        }
    });
    let mut walk = Walk::new(AT.parse().unwrap(), DISCOVERY_NQN, false);
    let (mut asked, mut left) = (Vec::new(), VecDeque::new());
    while let Some(service) = walk.next_service() {
        asked.push((service.at.to_string(), service.depth));
        let mut host = settings();
        host.subnqn.clone_from(&service.subnqn);
        (host.kato_ms, host.io_queues) = (0, 0);
        let mut client = HostClient::connect(network, service.at, host).unwrap_or_else(|e| panic!("{e}"));
        let log = client.discovery_log().unwrap();
        left.extend(walk.take(&service, &log).into_iter().filter_map(|(_, left)| left));
        network = client.release().unwrap_or_else(|(e, _)| panic!("{e}"));
    }
    assert_eq!(asked, [(AT.to_owned(), 0), (OTHER.to_owned(), 1)]);
    left.make_contiguous().sort_by_key(|l| *l as u8);
    assert_eq!(left, [Left::Known, Left::Known, Left::Known, Left::Elsewhere, Left::Elsewhere]);
    assert_eq!(network.findings(), [""; 0]);
}
