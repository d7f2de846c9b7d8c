//! The simulated world: the same seed gives the same run, another seed other segments, and what a player sees of the ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nvmf_engine::controller::{Hub, NewNamespace, Port, PortTransport};
use nvmf_engine::store::MemoryStore;
use nvmf_engine::{ControllerSettings, TcpSettings};
use nvmf_fabric::{Sim, SimOptions, SimTarget};
use nvmf_seam::store::Geometry;
use nvmf_seam::{Instant, LinkId, Network, OpenError, Received, SendError};
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::tcp::{CapsuleCmd, CapsuleResp, Digests, Framer, IcReq, Pdu, PduType};
use nvmf_wire::value::Text;
use nvmf_wire::{Cntlid, CommandKind, Cqe, SglDescriptor, Sqe, Status, ZeroBased16};

const SUBNQN: &str = "nqn.2014-08.org.example:subsystem";

fn address() -> SocketAddr {
    "192.0.2.1:4420".parse().unwrap()
}

fn sim(seed: u64, options: SimOptions) -> Sim {
    let mut hub = Hub::new(ControllerSettings::default());
    hub.add_subsystem(SUBNQN, None).unwrap();
    let store = Arc::new(MemoryStore::new(Geometry { blocks: 4096, block_size: 512 }));
    hub.add_namespace(SUBNQN, 1, NewNamespace { store, blocking: false, uuid: None }).unwrap();
    hub.add_port(Port { id: 1, advertise: address(), discovery_only: false, transport: PortTransport::Tcp }).unwrap();
    Sim::new(seed, SimTarget { hub, tcp: TcpSettings::default(), listen: vec![(address(), 1)], tap: None }, options)
}

fn next(sim: &mut Sim, link: LinkId, framer: &mut Framer) -> Option<Pdu> {
    loop {
        if let Some(b) = framer.next_pdu() {
            return Some(Pdu::parse(&b).unwrap());
        }
        match sim.receive(link, sim.now() + Duration::from_secs(60)) {
            Received::Bytes(b) => framer.push(&b),
            _ => return None,
        }
    }
}

fn ic_req() -> Vec<u8> {
    let mut header = *IcReq::new().as_bytes();
    header[0] = PduType::IC_REQ.0;
    Pdu::build(&header, Bytes::new(), Digests::default(), 4).to_bytes()
}

/// ICReq and an Admin Connect on each of several links; gives the CNTLIDs.
fn play(sim: &mut Sim) -> Vec<u16> {
    let mut ids = Vec::new();
    for _ in 0..3 {
        let link = sim.open(address(), Duration::from_secs(1)).unwrap();
        let mut framer = Framer::new(1 << 20);
        sim.send(link, &ic_req()).unwrap();
        assert_eq!(next(sim, link, &mut framer).unwrap().ptype(), PduType::IC_RESP);
        let mut c = Connect::from_bytes(*CommandKind::named("Connect").unwrap().sqe().as_bytes());
        c.set().sqsize(ZeroBased16(31)).kato(5000);
        let data = ConnectData::new().with(|s| {
            s.hostid([1; 16]).cntlid(Cntlid::DYNAMIC).subnqn(Text::new(SUBNQN)).hostnqn(Text::new("nqn.2014-08.org.example:host"))
        });
        let sqe = Sqe::from_bytes(*c.as_bytes()).with_sgl1(SglDescriptor::in_capsule(0, 1024));
        let mut header = *CapsuleCmd::new().with(|s| s.sqe(*sqe.as_bytes())).as_bytes();
        header[0] = PduType::CAPSULE_CMD.0;
        let pdu = Pdu::build(&header, Bytes::copy_from_slice(data.as_bytes()), Digests::default(), 4);
        sim.send(link, &pdu.to_bytes()).unwrap();
        let resp = CapsuleResp::read(&next(sim, link, &mut framer).unwrap().header).unwrap();
        let cqe = Cqe::from_bytes(resp.cqe());
        assert_eq!(cqe.status(), Status::SUCCESS);
        ids.push(cqe.dw0() as u16);
    }
    sim.sleep(sim.now() + Duration::from_secs(3600));
    ids
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let run = |seed| {
        let mut s = sim(seed, SimOptions::default());
        let ids = play(&mut s);
        (ids, s.trace_hash(), s.now())
    };
    assert_eq!(run(7), run(7));
    assert_eq!(run(7).0, run(8).0);
    assert_ne!(run(7).1, run(8).1, "another seed, other segments");
}

#[test]
fn one_byte_segments_change_nothing_but_the_trace() {
    let options = SimOptions { segment: (1, 1), ..SimOptions::default() };
    assert_eq!(play(&mut sim(1, options)), [1, 2, 3]);
}

#[test]
fn nothing_listens_elsewhere() {
    let mut s = sim(1, SimOptions::default());
    assert_eq!(s.open("192.0.2.1:9".parse().unwrap(), Duration::from_secs(1)), Err(OpenError::Refused));
}

#[test]
fn the_target_closes_a_silent_link_and_sending_fails_after() {
    let mut s = sim(1, SimOptions::default());
    let link = s.open(address(), Duration::from_secs(1)).unwrap();
    let begin = s.now();
    assert_eq!(s.receive(link, Instant(u64::MAX)), Received::Closed { reset: false });
    let took = s.now().since(begin);
    assert!(took >= Duration::from_secs(30) && took < Duration::from_secs(31), "{took:?}");
    assert_eq!(s.send(link, &[0]), Err(SendError::Closed));
}

#[test]
fn nothing_comes_within_the_time() {
    let mut s = sim(1, SimOptions::default());
    let link = s.open(address(), Duration::from_secs(1)).unwrap();
    let until = s.now() + Duration::from_millis(7);
    assert_eq!(s.receive(link, until), Received::Nothing);
    assert_eq!(s.now(), until);
    s.send(link, &ic_req()).unwrap();
    s.close(link, false);
    assert_eq!(s.receive(link, s.now() + Duration::from_secs(1)), Received::Closed { reset: false });
}
