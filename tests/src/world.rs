//! The simulated world with the reference target in it, as `nvmfspec --world sim` sets it up, and the suite run there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nvmf_capture::Transport;
use nvmf_conformance::probe;
use nvmf_conformance::runner::{Candidate, DISCOVERY_NQN, Options, Runner, Writes};
use nvmf_conformance::suite::Suite;
use nvmf_conformance::{Class, Run};
use nvmf_engine::controller::{Hub, NewNamespace, Port, PortTransport};
use nvmf_engine::store::MemoryStore;
use nvmf_engine::{Reference, TcpSettings};
use nvmf_fabric::{FrameOptions, FrameSim, Sim, SimOptions, SimTarget, Stage, TapFactory};
use nvmf_scenario::ast::{Fault, Scenario};
use nvmf_scenario::fault::FaultTap;
use nvmf_scenario::golden;
use nvmf_scenario::player::Peer;
use nvmf_seam::{Geometry, Network, Tap};
use nvmf_wire::Cntlid;

/// The subsystem under test.
pub const SUBNQN: &str = "nqn.2014-08.org.example:subsystem";
const HOSTNQN: &str = "nqn.2014-08.org.example:host";
const HOSTID: [u8; 16] = *b"nvmfspec-tests-1";

/// Where the target listens.
pub fn address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 4420))
}

/// A world around the reference target, bent by `fault` where there is one.
pub fn sim(seed: u64, fault: Option<&Fault>) -> Sim {
    sim_of(Reference::Plain, seed, fault)
}

/// As [`sim`], around one reference target or the other.
pub fn sim_of(reference: Reference, seed: u64, fault: Option<&Fault>) -> Sim {
    Sim::new(seed, target_of(reference, fault), SimOptions::default())
}

/// As [`sim_of`], with whole frames.
pub fn frames_of(reference: Reference, seed: u64, fault: Option<&Fault>, options: FrameOptions) -> FrameSim {
    FrameSim::new(seed, target_of(reference, fault), options).expect("a target with an address")
}

/// A reference target, bent by `fault` where there is one.
pub fn target_of(reference: Reference, fault: Option<&Fault>) -> SimTarget {
    target_over(reference, fault, PortTransport::Tcp)
}

/// As [`target_of`], with ports of that transport.
pub fn target_over(reference: Reference, fault: Option<&Fault>, transport: PortTransport) -> SimTarget {
    let mut hub = Hub::new(reference.settings());
    hub.add_subsystem(SUBNQN, None).expect("an NQN");
    for (nsid, block_size, blocks) in [(1, 512, 131_072), (2, 4096, 4096)] {
        let store = Arc::new(MemoryStore::new(Geometry { block_size, blocks }));
        hub.add_namespace(SUBNQN, nsid, NewNamespace { store, blocking: false, uuid: None }).expect("a free NSID");
    }
    reference.prepare(&mut hub, SUBNQN).expect("a subsystem that is there");
    let listen: Vec<(SocketAddr, u16)> =
        (1..=reference.ports()).map(|id| (SocketAddr::new(address().ip(), address().port() + id - 1), id)).collect();
    for (advertise, id) in &listen {
        hub.add_port(Port { id: *id, advertise: *advertise, discovery_only: false, transport }).expect("a free port");
    }
    let second = Duration::from_secs(1);
    let tcp = TcpSettings { term_wait: second, connect_patience: second, ..TcpSettings::default() };
    let tap = fault.cloned().map(|f| Arc::new(move || Box::new(FaultTap::new(&f)) as Box<dyn Tap>) as TapFactory);
    SimTarget { hub, tcp, listen, tap }
}

/// The target as a player sees it.
pub fn peer() -> Peer {
    Peer {
        addr: address(),
        transport: Transport::Tcp,
        discovery: address(),
        discovery_transport: Transport::Tcp,
        serves_discovery: true,
        hostnqn: HOSTNQN.into(),
        hostid: HOSTID,
        subnqn: SUBNQN.into(),
        discnqn: DISCOVERY_NQN.into(),
        cntlid: Cntlid::DYNAMIC,
        facts: BTreeMap::new(),
        time_scale: 1.0,
    }
}

/// The world that a scenario describes, and the target as a player sees it: the reference target where it describes none.
///
/// # Errors
///
/// What the scenario says wrong.
pub fn stage(scenario: &Scenario, seed: u64, fault: Option<&Fault>) -> Result<(Box<dyn Network>, Peer), String> {
    let tap = fault.cloned().map(|f| Arc::new(move || Box::new(FaultTap::new(&f)) as Box<dyn Tap>) as TapFactory);
    if scenario.target.is_empty() {
        let (mut world, mut peer): (Box<dyn Network>, Peer) = match scenario.over {
            Transport::Tcp => (Box::new(sim(seed, fault)), peer()),
            Transport::Rdma => {
                let options = FrameOptions::default();
                let target = target_over(Reference::Plain, fault, PortTransport::Rdma(options.rdma.capsules));
                (Box::new(FrameSim::new(seed, target, options)?), crate::rdma::peer())
            }
        };
        peer.facts = probe::facts(&mut *world, &mut peer, None).map_err(|e| format!("{e:?}"))?.vars;
        return Ok((world, peer));
    }
    let mut stage = Stage::new(scenario.over);
    for s in golden::settings(scenario)? {
        stage.line(&s.what, &s.with).map_err(|e| format!("line {}: {e}", s.line))?;
    }
    let (ports, subnqn) = stage.reached().ok_or("the target has no port or no subsystem")?;
    let mut peer = golden::peer(ports, subnqn, stage.in_capsule());
    if let Some((nqn, id)) = stage.player() {
        (peer.hostnqn, peer.hostid) = (nqn.to_owned(), id);
    }
    Ok((stage.build(seed, tap)?, peer))
}

/// Every check, everything allowed.
pub fn options(seed: u64) -> Options {
    Options {
        target: "simulated reference target".into(),
        transport: Transport::Tcp,
        candidates: vec![Candidate { transport: Transport::Tcp, addr: address() }],
        nqn: Some(SUBNQN.into()),
        all_subsystems: false,
        as_given: false,
        hostnqn: HOSTNQN.into(),
        hostid: HOSTID,
        filters: Vec::new(),
        excluded: Vec::new(),
        writes: Writes::Anywhere,
        allow: BTreeSet::from([Class::Disruptive, Class::Destructive]),
        time_scale: 1.0,
        seed,
        spec: None,
        rules: true,
        world: "sim".into(),
        reproduce: "nvmfspec conformance --world sim".into(),
    }
}

/// Runs the whole suite in a world of its own; gives the run and the world's trace hash. An error is that nothing could be run. The
/// bystander rules listen where there is no fault: `bystander_faults` is about what they find of faults.
pub fn judge(suite: &Suite, seed: u64, fault: Option<&Fault>) -> Result<(Run, u64), String> {
    judge_some(suite, Reference::Plain, Vec::new(), seed, fault)
}

/// As [`judge`], against one reference target or the other, and only what stands below one of `filters` where there are any.
pub fn judge_some(
    suite: &Suite,
    reference: Reference,
    filters: Vec<String>,
    seed: u64,
    fault: Option<&Fault>,
) -> Result<(Run, u64), String> {
    let mut world = sim_of(reference, seed, fault);
    let options = Options { filters, rules: fault.is_none(), ..options(seed) };
    let mut runs = Runner::new(suite, &options, &mut world).run(&mut |_| {}).map_err(|e| e.to_string())?;
    let run = runs.pop().ok_or("no subsystem")?;
    Ok((run, world.trace_hash()))
}
