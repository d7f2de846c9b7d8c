//! Where a run takes place: the network that reaches the peer, and the addresses to try.
//!
//! Without `--target` the peer is the reference target of this program: on a loopback port in the real world, on a node of the
//! fabric in the simulated one. Over RDMA the player has a software NIC: beside a target of ours at an address of loopback of its own.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use nvmf_capture::Transport;
use nvmf_conformance::ExitStatus;
use nvmf_conformance::runner::Candidate;
use nvmf_engine::controller::{ConfigError, Hub, NewNamespace, Port, PortTransport};
use nvmf_engine::store::MemoryStore;
use nvmf_engine::{RdmaSettings, Reference, TcpSettings};
use nvmf_fabric::lan::SwitchSettings;
use nvmf_fabric::{FrameOptions, FrameSim, Sim, SimOptions, SimTarget};
use nvmf_net::roce::{Line, Way};
use nvmf_net::target::{Listener, SubsystemConfig};
use nvmf_net::{EmbeddedTarget, NicSource, RealNetwork, TargetConfig};
use nvmf_seam::{Geometry, Network};

use crate::conformance::{PeerArgs, WorldArg};
use crate::recording::Recording;
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
    /// What carries the capsules to what is judged.
    pub transport: Transport,
    /// Places of the peer, in the order in which they are tried.
    pub candidates: Vec<Candidate>,
    /// The peer, for a reader.
    pub target: String,
    /// It is our own, where everything is allowed.
    pub embedded: bool,
    /// Frames of the network are written to a file.
    recording: Option<Recording>,
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
            (WorldArg::Sim, None) => simulated(peer),
            (WorldArg::Real, _) if peer.frames || peer.pcap.is_some() => {
                let message = "--frames and --pcap are for --world sim: real traffic is captured by tcpdump, and --out writes what a check saw";
                Err((ExitStatus::Usage, message.into()))
            }
            (WorldArg::Real, Some(target)) => remote(peer, target),
            (WorldArg::Real, None) => embedded(peer),
        }
    }
}

impl Place {
    /// Nothing more goes over the network. The error is that of the file its frames went to.
    pub fn close(self) -> Result<(), String> {
        drop(self.net);
        self.recording.map_or(Ok(()), Recording::end)
    }
}

fn over(transport: Transport, addr: SocketAddr) -> Candidate {
    Candidate { transport, addr }
}

fn remote(peer: &PeerArgs, target: &HostPort) -> Result<Place, (ExitStatus, String)> {
    let found = (target.host.as_str(), 0).to_socket_addrs();
    let addresses: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
    let Some(first) = addresses.first() else {
        return Err((ExitStatus::Harness, format!("{target}: no address is known for `{}`", target.host)));
    };
    let transport = peer.transport.into();
    let (ports, (net, more)) = match transport {
        Transport::Tcp => {
            let ports = target.port.map_or(PORTS.to_vec(), |port| vec![port]);
            (ports.into_iter().map(|port| (Transport::Tcp, port)).collect(), real())
        }
        Transport::Rdma => {
            if !peer.nic.shows_packets() {
                let why = "an RDMA device neither shows packets nor sends wrong ones, which checks need: choose --nic udp or raw:INTERFACE";
                return Err((ExitStatus::Usage, format!("--nic {}: {why}", peer.nic)));
            }
            let net = peer.nic.equip(RealNetwork::default(), first.ip(), None);
            let net: Box<dyn Network> = Box::new(net.map_err(|e| (ExitStatus::Harness, e.to_string()))?);
            // One NIC has the whole address, so there is no other player beside.
            (rdma_ports(peer, target), (net, None))
        }
    };
    let candidates =
        ports.iter().flat_map(|(t, port)| addresses.iter().map(|a| over(*t, SocketAddr::new(a.ip(), *port)))).collect();
    Ok(Place { net, more, transport, candidates, target: target.to_string(), embedded: false, recording: None, _target: None })
}

/// Discovery is asked over TCP first, where the way to the target carries it.
fn rdma_ports(peer: &PeerArgs, target: &HostPort) -> Vec<(Transport, u16)> {
    match target.port {
        Some(port) => vec![(Transport::Rdma, port)],
        None if peer.nic.is_apart() => vec![(Transport::Rdma, PORTS[1])],
        None => vec![(Transport::Tcp, PORTS[0]), (Transport::Rdma, PORTS[1])],
    }
}

fn line(way: &Way, peer: IpAddr) -> Result<Line, (ExitStatus, String)> {
    way.open(None, Some(peer)).map(Line::new).map_err(|e| (ExitStatus::Harness, e.to_string()))
}

fn embedded(peer: &PeerArgs) -> Result<Place, (ExitStatus, String)> {
    let (reference, transport) = (peer.reference.into(), peer.transport.into());
    let broken = |e: &dyn std::fmt::Display| (ExitStatus::Harness, format!("the embedded target: {e}"));
    let (target, (net, more)) = match transport {
        Transport::Tcp => {
            let at = SocketAddr::from(([127, 0, 0, 1], 0));
            let listeners = (0..Reference::ports(reference)).map(|_| Listener::new(at)).collect();
            (EmbeddedTarget::start(target_config(reference, listeners)).map_err(|e| broken(&e))?, real())
        }
        Transport::Rdma => {
            let target = embedded_rdma(reference).map_err(|e| broken(&e))?;
            let beside = real_rdma(target.address().ip())?;
            (target, beside)
        }
    };
    target.with_hub(|hub| reference.prepare(hub, EMBEDDED_NQN)).map_err(|e| broken(&e))?;
    Ok(Place {
        net,
        more,
        transport,
        candidates: vec![over(transport, target.address())],
        target: "embedded reference target".into(),
        embedded: true,
        recording: None,
        _target: Some(target),
    })
}

fn target_config(reference: Reference, listeners: Vec<Listener>) -> TargetConfig {
    TargetConfig {
        listeners,
        subsystems: vec![subsystem()],
        controller: reference.settings(),
        tcp: tcp_settings(),
        rdma: rdma_settings(),
        tap: None,
        observer: None,
    }
}

/// At the first address of loopback whose port 4791 is free: others may play there too.
fn embedded_rdma(reference: Reference) -> std::io::Result<EmbeddedTarget> {
    let mut last = std::io::ErrorKind::AddrInUse.into();
    for net in 0..=250 {
        let first = SocketAddr::from(([127, 0, net, 1], PORTS[1]));
        let listeners = ports(reference, first).map(|(at, _)| Listener::new(at).over_rdma(Way::Udp)).collect();
        match EmbeddedTarget::start(target_config(reference, listeners)) {
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => last = e,
            started => return started,
        }
    }
    Err(last)
}

/// A network, and how to make more of it.
type Networks = (Box<dyn Network>, Option<Maker>);

/// The real network with a NIC that meets `target` from another address of loopback, and more of the kind.
fn real_rdma(target: IpAddr) -> Result<Networks, (ExitStatus, String)> {
    let net = RealNetwork::default();
    let others = net.others();
    let more = move || -> Box<dyn Network> {
        let net = others();
        // Without a NIC the checks say that this world has no RDMA.
        Box::new(match line(&Way::Udp, target) {
            Ok(line) => net.with_rdma(line),
            Err(_) => net,
        })
    };
    Ok((Box::new(net.with_rdma(line(&Way::Udp, target)?)), Some(Box::new(more))))
}

/// The real network, and more of it by the same clock.
fn real() -> Networks {
    let net = RealNetwork::default();
    let others = net.others();
    (Box::new(net), Some(Box::new(move || Box::new(others()))))
}

fn simulated(peer: &PeerArgs) -> Result<Place, (ExitStatus, String)> {
    let (reference, transport) = (peer.reference.into(), peer.transport.into());
    let at = SocketAddr::from(([192, 0, 2, 1], PORTS[1]));
    let broken = |e: &dyn std::fmt::Display| (ExitStatus::Harness, format!("the simulated target: {e}"));
    let carries = match transport {
        Transport::Tcp => PortTransport::Tcp,
        Transport::Rdma => PortTransport::Rdma(rdma_settings().capsules),
    };
    let hub = hub(reference, at, carries).map_err(|e| broken(&e))?;
    let target = SimTarget { hub, tcp: tcp_settings(), listen: ports(reference, at).collect(), tap: None };
    let (net, recording): (Box<dyn Network>, _) = match transport {
        Transport::Tcp if !peer.frames && peer.pcap.is_some() => {
            return Err((ExitStatus::Usage, "--pcap writes frames: --frames is wanted with it, or --transport rdma".into()));
        }
        Transport::Tcp if !peer.frames => (Box::new(Sim::new(peer.seed, target, SimOptions::default())), None),
        Transport::Tcp | Transport::Rdma => {
            let switch = peer.frames.then(SwitchSettings::default);
            let options = FrameOptions { rdma: rdma_settings(), switch, ..FrameOptions::default() };
            let mut sim = FrameSim::new(peer.seed, target, options).map_err(|e| broken(&e))?;
            let recording = peer.pcap.as_deref().map(|path| Recording::begin(&mut sim, path)).transpose();
            (Box::new(sim), recording.map_err(|e| (ExitStatus::Harness, e))?)
        }
    };
    Ok(Place {
        net,
        more: None,
        recording,
        transport,
        candidates: vec![over(transport, at)],
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
fn hub(reference: Reference, at: SocketAddr, transport: PortTransport) -> Result<Hub, ConfigError> {
    let mut hub = Hub::new(reference.settings());
    let SubsystemConfig { nqn, hosts, namespaces } = subsystem();
    hub.add_subsystem(&nqn, hosts)?;
    for (nsid, namespace) in namespaces {
        hub.add_namespace(&nqn, nsid, namespace)?;
    }
    reference.prepare(&mut hub, &nqn)?;
    for (advertise, id) in ports(reference, at) {
        hub.add_port(Port { id, advertise, discovery_only: false, transport })?;
    }
    Ok(hub)
}

/// The embedded target waits a second where 30 are allowed, so that the checks that wait for it end soon.
fn tcp_settings() -> TcpSettings {
    TcpSettings { term_wait: Duration::from_secs(1), connect_patience: Duration::from_secs(1), ..TcpSettings::default() }
}

/// The same over RDMA.
fn rdma_settings() -> RdmaSettings {
    RdmaSettings { connect_patience: Duration::from_secs(1), ..RdmaSettings::default() }
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
