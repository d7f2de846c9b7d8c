//! The world of whole frames: TCP and RDMA at one target, a tap on its NIC, and a run that follows from its seed.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use nvmf_engine::controller::{Hub, NewNamespace, Port, PortTransport};
use nvmf_engine::store::MemoryStore;
use nvmf_engine::{ControllerSettings, RdmaCapsules, TcpSettings};
use nvmf_fabric::lan::SwitchSettings;
use nvmf_fabric::{FrameOptions, FrameSim, SimTarget, TapFactory};
use nvmf_seam::rdma::{Ask, Happening, RdmaNetwork, RdmaOpenError};
use nvmf_seam::store::Geometry;
use nvmf_seam::{Instant, Network, OpenError, Received, Side, Tap, TapOutput};
use nvmf_wire::ZeroBased16;
use nvmf_wire::rdma::RdmaRequest;

const SUBNQN: &str = "nqn.2014-08.org.example:subsystem";

fn at(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse::<IpAddr>().unwrap(), port)
}

fn target(ip: &str, tap: Option<TapFactory>) -> SimTarget {
    let mut hub = Hub::new(ControllerSettings::default());
    hub.add_subsystem(SUBNQN, None).unwrap();
    let store = Arc::new(MemoryStore::new(Geometry { blocks: 4096, block_size: 512 }));
    hub.add_namespace(SUBNQN, 1, NewNamespace { store, blocking: false, uuid: None }).unwrap();
    let listen = vec![(at(ip, 4420), 1), (at(ip, 8009), 2)];
    for (advertise, id) in &listen {
        let transport = if *id == 1 { PortTransport::Rdma(RdmaCapsules::default()) } else { PortTransport::Tcp };
        hub.add_port(Port { id: *id, advertise: *advertise, discovery_only: false, transport }).unwrap();
    }
    SimTarget { hub, tcp: TcpSettings::default(), listen, tap }
}

fn ask() -> Ask {
    let private = RdmaRequest::new().with(|s| s.hrqsize(32).hsqsize(ZeroBased16(31)));
    Ask { responder_resources: 4, ..Ask::new(Bytes::copy_from_slice(private.as_bytes())) }
}

fn sim(ip: &str, seed: u64) -> FrameSim {
    FrameSim::new(seed, target(ip, None), FrameOptions::default()).unwrap()
}

fn rdma(s: &mut FrameSim) -> &mut dyn RdmaNetwork {
    s.rdma().unwrap()
}

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn tcp_and_rdma_reach_one_target() {
    for ip in ["192.0.2.1", "2001:db8::1"] {
        let mut s = sim(ip, 1);
        let tcp = s.open(at(ip, 8009), PATIENCE).unwrap();
        assert_eq!(s.open(at(ip, 4420), PATIENCE), Err(OpenError::Refused), "RDMA alone");
        let (link, accepted) = rdma(&mut s).open_rdma(at(ip, 4420), &ask(), &[], PATIENCE).unwrap();
        assert_ne!(link, tcp);
        assert_eq!(accepted.private.len(), 196);
        let refused = rdma(&mut s).open_rdma(at(ip, 8009), &ask(), &[], PATIENCE);
        assert!(matches!(refused, Err(RdmaOpenError::Rejected { reason: 8, .. })), "{refused:?}");
        let nobody =
            rdma(&mut s).open_rdma(at(if ip.contains(':') { "2001:db8::7" } else { "192.0.2.7" }, 4420), &ask(), &[], PATIENCE);
        assert_eq!(nobody.unwrap_err(), RdmaOpenError::Timeout);
        // the target gives up a connection without a Connect
        let gone = rdma(&mut s).next(link, Instant(60_000_000_000));
        assert!(matches!(gone, Some(Happening::Cm(_) | Happening::Packet(_))), "{gone:?}");
        assert_eq!(s.receive(tcp, Instant(u64::MAX)), Received::Closed { reset: false });
        assert!(s.counters().iter().all(|c| c.bad_icrc == 0 && c.not_ip == 0), "{:?}", s.counters());
    }
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let run = |seed| {
        let options = FrameOptions { switch: Some(SwitchSettings::default()), known: true, ..FrameOptions::default() };
        let mut s = FrameSim::new(seed, target("192.0.2.1", None), options).unwrap();
        let (link, _) = rdma(&mut s).open_rdma(at("192.0.2.1", 4420), &ask(), &[], PATIENCE).unwrap();
        rdma(&mut s).end(link, false);
        s.sleep(s.now() + PATIENCE);
        (s.trace_hash(), s.now())
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
}

#[derive(Default)]
struct Seen(Arc<Mutex<Vec<Side>>>);

impl Tap for Seen {
    fn pdu(&mut self, from: Side, pdu: Bytes) -> Vec<TapOutput> {
        let mut seen = self.0.lock().unwrap();
        seen.push(from);
        match seen.len() {
            // the REQ is lost and the one after it late
            1 => Vec::new(),
            2 => vec![TapOutput::Late(Duration::from_millis(3), pdu)],
            _ => vec![TapOutput::Pass(pdu)],
        }
    }
}

#[test]
fn a_tap_has_the_packets_of_the_nic() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let copy = seen.clone();
    let tap: TapFactory = Arc::new(move || Box::new(Seen(copy.clone())));
    let mut s = FrameSim::new(1, target("192.0.2.1", Some(tap)), FrameOptions::default()).unwrap();
    rdma(&mut s).open_rdma(at("192.0.2.1", 4420), &ask(), &[], PATIENCE).unwrap();
    assert!(s.now() > Instant(1_000_000_000), "CM asked again after a second: {:?}", s.now());
    let seen = seen.lock().unwrap();
    assert_eq!(seen[..3], [Side::Host, Side::Host, Side::Controller]);
}
