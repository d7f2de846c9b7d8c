//! A target on real sockets: listeners, one task a connection over TCP and one a device of RDMA, and the hub that they share.
//!
//! [`Target::bind`] is for an asynchronous program, [`EmbeddedTarget`] runs one in a thread of its own for everything else.
//! [`TargetConfig`] says what it serves.

mod connection;
mod embedded;
mod outbox;
mod rdma;
mod shared;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nvmf_engine::controller::{ConfigError, Hub, HubEvent, NewNamespace, Port, PortTransport};
use nvmf_engine::message::ConnectionId;
use nvmf_engine::rdma::TargetEvent;
use nvmf_engine::tcp::{CloseReason, Event};
use nvmf_engine::{ControllerSettings, RdmaSettings, TcpSettings};
use nvmf_seam::{Instant, Side, Tap};
use tokio::net::TcpListener;

pub use embedded::EmbeddedTarget;
pub use rdma::ServedDevice;
use shared::Shared;

use crate::NicSource;

/// Makes the tap of a new connection.
pub type TapFactory = Arc<dyn Fn() -> Box<dyn Tap> + Send + Sync>;

/// Where a target listens.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Address; port 0 for any free one, over RDMA for 4420.
    pub at: SocketAddr,
    /// Over TCP (`None`), or over RDMA by a device from here. Listeners at one address share its device.
    pub rdma: Option<Arc<dyn NicSource>>,
    /// What the discovery log gives instead of the address bound to.
    pub advertise: Option<SocketAddr>,
    /// Only the discovery subsystem is reached here.
    pub discovery_only: bool,
}

impl Listener {
    /// Serves everything at `at`.
    pub fn new(at: SocketAddr) -> Self {
        Self { at, rdma: None, advertise: None, discovery_only: false }
    }

    /// The same over RDMA.
    pub fn over_rdma(self, source: impl NicSource + 'static) -> Self {
        Self { rdma: Some(Arc::new(source)), ..self }
    }
}

/// An NVM subsystem of a target.
#[derive(Clone)]
pub struct SubsystemConfig {
    /// Its name.
    pub nqn: String,
    /// Host NQNs that may connect; `None` for all.
    pub hosts: Option<BTreeSet<String>>,
    /// Its namespaces: NSID and storage.
    pub namespaces: Vec<(u32, NewNamespace)>,
}

/// What a target serves, and how.
#[derive(Clone)]
pub struct TargetConfig {
    /// At least one.
    pub listeners: Vec<Listener>,
    /// NVM subsystems; the discovery subsystem is always there.
    pub subsystems: Vec<SubsystemConfig>,
    /// Of all controllers.
    pub controller: ControllerSettings,
    /// Of all connections over TCP.
    pub tcp: TcpSettings,
    /// Of all connections over RDMA.
    pub rdma: RdmaSettings,
    /// A tap for every connection over TCP: how faults are applied.
    pub tap: Option<TapFactory>,
    /// Is told what happens.
    pub observer: Option<Arc<dyn Observer>>,
}

/// Hears what happens at a target. Called from the tasks of the connections, so it has to be quick.
pub trait Observer: Send + Sync {
    /// A connection was accepted.
    fn opened(&self, _now: Instant, _connection: ConnectionId, _host: SocketAddr, _controller: SocketAddr) {}
    /// Bytes passed on the wire.
    fn bytes(&self, _now: Instant, _connection: ConnectionId, _from: Side, _bytes: &[u8]) {}
    /// A fatal transport error was found, or our side closes.
    fn connection(&self, _now: Instant, _connection: ConnectionId, _event: Event) {}
    /// A connection is gone.
    fn closed(&self, _now: Instant, _connection: ConnectionId) {}
    /// A packet of RoCEv2 went or came, from its IP header to its ICRC.
    fn packet(&self, _now: Instant, _packet: &[u8]) {}
    /// A connection over RDMA was refused, or work on it failed.
    fn rdma(&self, _now: Instant, _event: &TargetEvent) {}
    /// A queue was created or refused, or an association ended.
    fn hub(&self, _now: Instant, _event: &HubEvent) {}
    /// True where [`Observer::bytes`] and [`Observer::packet`] are wanted: they cost a copy of what is sent.
    fn wants_bytes(&self) -> bool {
        false
    }
}

/// A target that listens already and serves once [`Target::run`] is awaited.
pub struct Target {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    listeners: Vec<(u16, TcpListener)>,
    devices: Vec<(String, ServedDevice)>,
}

/// Reaches the hub of a target that runs, from any thread.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// Looks at what the target serves, or changes it: hosts are told as the text asks.
    pub fn with_hub<R>(&self, f: impl FnOnce(&mut Hub) -> R) -> R {
        self.0.with(self.0.now(), f)
    }
}

/// How long the end of a target waits for its connections to close.
const GRACE: Duration = Duration::from_secs(2);

impl Target {
    /// Binds all listeners. Must be called within a tokio runtime.
    pub async fn bind(config: TargetConfig) -> io::Result<Self> {
        let mut hub = Hub::new(config.controller.clone());
        let invalid = |e: ConfigError| io::Error::new(io::ErrorKind::InvalidInput, e.to_string());
        for s in &config.subsystems {
            hub.add_subsystem(&s.nqn, s.hosts.clone())
                .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, format!("subsystem {}: {e}", s.nqn)))?;
            for (nsid, ns) in &s.namespaces {
                hub.add_namespace(&s.nqn, *nsid, ns.clone()).map_err(invalid)?;
            }
        }
        let (mut listeners, mut devices, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        for (l, id) in config.listeners.iter().zip(1..) {
            let (at, transport) = match &l.rdma {
                None => {
                    let socket = TcpListener::bind(l.at).await.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", l.at)))?;
                    let at = socket.local_addr()?;
                    listeners.push((id, socket));
                    (at, PortTransport::Tcp)
                }
                Some(source) => {
                    let at = rdma::listen(&mut devices, source.as_ref(), l.at, id, &config.rdma)?;
                    (at, PortTransport::Rdma(config.rdma.capsules))
                }
            };
            let advertise = l.advertise.unwrap_or(at);
            hub.add_port(Port { id, advertise, discovery_only: l.discovery_only, transport }).map_err(invalid)?;
            addresses.push(at);
        }
        Ok(Self { shared: Arc::new(Shared::new(hub, config)), addresses, listeners, devices })
    }

    /// The addresses bound to, in the order of the configuration.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.clone()
    }

    /// Reaches the target while it runs.
    pub fn handle(&self) -> Handle {
        Handle(self.shared.clone())
    }

    /// Serves until `stop` is ready, then closes every connection.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let timer = tokio::spawn(shared::keep_time(self.shared.clone()));
        let accepting: Vec<_> =
            self.listeners.into_iter().map(|(port, l)| tokio::spawn(accept(self.shared.clone(), port, l))).collect();
        let devices: Vec<_> = self.devices.into_iter().map(|(_, d)| tokio::spawn(d.serve(self.shared.clone()))).collect();
        stop.await;
        for task in accepting {
            task.abort();
        }
        self.shared.shut_down();
        let empty = async {
            while self.shared.connections() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        // What does not close in time ends with the runtime.
        let _ = tokio::time::timeout(GRACE, empty).await;
        timer.abort();
        devices.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

async fn accept(shared: Arc<Shared>, port: u16, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, host)) => {
                // PDUs are written whole; waiting for more would only delay them.
                let _ = stream.set_nodelay(true);
                let local: Option<SocketAddr> = stream.local_addr().ok();
                let (id, mail) = shared.open(port, local.map(|a| a.ip()), host, local);
                tokio::spawn(connection::serve(shared.clone(), id, mail, stream));
            }
            // Out of descriptors, or the peer is gone already: nothing to do but to go on.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Why our side closed, in words.
pub fn close_reason(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Setup => "no ICReq or Connect in time",
        CloseReason::TermUnanswered => "the host did not close after C2HTermReq",
        CloseReason::HostTerminated => "H2CTermReq",
        CloseReason::Association => "end of the queue or the association",
        CloseReason::Overrun => "submission queue overrun",
        CloseReason::Flooded => "more bytes than can be taken in",
        CloseReason::Disconnected => "the host ended it or is gone",
        CloseReason::Malformed => "a capsule without a whole command",
        CloseReason::Broken => "an RDMA operation failed",
    }
}
