//! Where a run takes place: the network that reaches the peer, and the addresses to try.
//!
//! Without `--target` the peer is the reference target of this program: on a loopback port in the real world, on a node of the
//! fabric in the simulated one.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use nvmf_conformance::ExitStatus;
use nvmf_engine::controller::{ConfigError, Hub, NewNamespace, Port, PortTransport};
use nvmf_engine::store::MemoryStore;
use nvmf_engine::{RdmaSettings, Reference, TcpSettings};
use nvmf_fabric::{Sim, SimOptions, SimTarget};
use nvmf_net::target::{Listener, SubsystemConfig};
use nvmf_net::{EmbeddedTarget, RealNetwork, TargetConfig};
use nvmf_seam::{Geometry, Network};

use crate::conformance::{PeerArgs, WorldArg};
use crate::values::HostPort;

/// The NQN of the embedded target's subsystem.
pub const EMBEDDED_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:6e766d66-7370-4563-8000-000000000001";

/// The ports tried where none is given: discovery as IANA registered it, then the first that targets use for everything.
const PORTS: [u16; 2] = [8009, 4420];

/// Makes a network.
type Maker = Box<dyn Fn() -> Box<dyn Network> + Send + Sync>;

/// A network with a peer in it.
pub struct Place {
    /// The network.
    pub net: Box<dyn Network>,
    /// More networks like it, for checks that run beside each other; none where only one player moves the world.
    pub more: Option<Maker>,
    /// Addresses of the peer, in the order in which they are tried.
    pub candidates: Vec<SocketAddr>,
    /// The peer, for a reader.
    pub target: String,
    /// It is our own, where everything is allowed.
    pub embedded: bool,
    _target: Option<EmbeddedTarget>,
}

impl Place {
    /// Opens the place that the command line asks for. The error is a message with the status to end with.
    pub fn open(peer: &PeerArgs) -> Result<Self, (ExitStatus, String)> {
        match (peer.world, &peer.target) {
            (WorldArg::Sim, Some(_)) => {
                let message = "--world sim has a target of its own: --target is for the real world";
                Err((ExitStatus::Usage, message.into()))
            }
            (WorldArg::Sim, None) if peer.jobs.is_some_and(|jobs| jobs.get() > 1) => {
                let message = "--world sim has one player at a time: --jobs is for the real world";
                Err((ExitStatus::Usage, message.into()))
            }
            (WorldArg::Sim, None) => simulated(peer.reference.into(), peer.seed),
            (WorldArg::Real, Some(target)) => remote(target),
            (WorldArg::Real, None) => embedded(peer.reference.into()),
        }
    }
}

fn remote(target: &HostPort) -> Result<Place, (ExitStatus, String)> {
    let ports = target.port.map_or(PORTS.to_vec(), |port| vec![port]);
    let found = (target.host.as_str(), 0).to_socket_addrs();
    let addresses: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
    if addresses.is_empty() {
        return Err((ExitStatus::Harness, format!("{target}: no address is known for `{}`", target.host)));
    }
    let candidates = ports.iter().flat_map(|port| addresses.iter().map(|a| SocketAddr::new(a.ip(), *port))).collect();
    let (net, more) = real();
    Ok(Place { net, more, candidates, target: target.to_string(), embedded: false, _target: None })
}

fn embedded(reference: Reference) -> Result<Place, (ExitStatus, String)> {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = TargetConfig {
        listeners: (0..reference.ports()).map(|_| Listener::new(loopback)).collect(),
        subsystems: vec![subsystem()],
        controller: reference.settings(),
        tcp: tcp_settings(),
        rdma: RdmaSettings::default(),
        tap: None,
        observer: None,
    };
    let broken = |e: &dyn std::fmt::Display| (ExitStatus::Harness, format!("the embedded target: {e}"));
    let target = EmbeddedTarget::start(config).map_err(|e| broken(&e))?;
    target.with_hub(|hub| reference.prepare(hub, EMBEDDED_NQN)).map_err(|e| broken(&e))?;
    let (net, more) = real();
    Ok(Place {
        net,
        more,
        candidates: vec![target.address()],
        target: "embedded reference target".into(),
        embedded: true,
        _target: Some(target),
    })
}

/// The real network, and more of it by the same clock.
fn real() -> (Box<dyn Network>, Option<Maker>) {
    let net = RealNetwork::default();
    let others = net.others();
    (Box::new(net), Some(Box::new(move || Box::new(others()))))
}

fn simulated(reference: Reference, seed: u64) -> Result<Place, (ExitStatus, String)> {
    let at = SocketAddr::from(([192, 0, 2, 1], PORTS[1]));
    let hub = hub(reference, at).map_err(|e| (ExitStatus::Harness, format!("the simulated target: {e}")))?;
    let target = SimTarget { hub, tcp: tcp_settings(), listen: ports(reference, at).collect(), tap: None };
    Ok(Place {
        net: Box::new(Sim::new(seed, target, SimOptions::default())),
        more: None,
        candidates: vec![at],
        target: "simulated reference target".into(),
        embedded: true,
        _target: None,
    })
}

/// Where the simulated target listens, and the PORTID of each place.
fn ports(reference: Reference, first: SocketAddr) -> impl Iterator<Item = (SocketAddr, u16)> {
    (1..=reference.ports()).map(move |id| (SocketAddr::new(first.ip(), first.port() + id - 1), id))
}

/// The same subsystem as in the real world.
fn hub(reference: Reference, at: SocketAddr) -> Result<Hub, ConfigError> {
    let mut hub = Hub::new(reference.settings());
    let SubsystemConfig { nqn, hosts, namespaces } = subsystem();
    hub.add_subsystem(&nqn, hosts)?;
    for (nsid, namespace) in namespaces {
        hub.add_namespace(&nqn, nsid, namespace)?;
    }
    reference.prepare(&mut hub, &nqn)?;
    for (advertise, id) in ports(reference, at) {
        hub.add_port(Port { id, advertise, discovery_only: false, transport: PortTransport::Tcp })?;
    }
    Ok(hub)
}

/// The embedded target waits a second where 30 are allowed, so that the checks that wait for it end soon.
fn tcp_settings() -> TcpSettings {
    TcpSettings { term_wait: Duration::from_secs(1), connect_patience: Duration::from_secs(1), ..TcpSettings::default() }
}

/// Two namespaces in memory, 64 MiB in blocks of 512 bytes and 16 MiB in blocks of 4 KiB.
fn subsystem() -> SubsystemConfig {
    let memory = |block_size: u32, blocks: u64| NewNamespace {
        store: Arc::new(MemoryStore::new(Geometry { block_size, blocks })),
        blocking: false,
        uuid: None,
    };
    let namespaces = vec![(1, memory(512, 131_072)), (2, memory(4096, 4096))];
    SubsystemConfig { nqn: EMBEDDED_NQN.into(), hosts: None, namespaces }
}
