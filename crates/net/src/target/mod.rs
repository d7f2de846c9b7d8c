//! A target on real sockets: listeners, one task a connection, and the hub that they share.
//!
//! [`Target::bind`] is for an asynchronous program, [`EmbeddedTarget`] runs one in a thread of its own for everything else.
//! [`TargetConfig`] says what it serves.

mod connection;
mod embedded;
mod outbox;
mod shared;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nvmf_engine::controller::{ConfigError, Hub, HubEvent, NewNamespace, Port, PortTransport};
use nvmf_engine::message::ConnectionId;
use nvmf_engine::tcp::{CloseReason, Event};
use nvmf_engine::{ControllerSettings, TcpSettings};
use nvmf_seam::{Instant, Side, Tap};
use tokio::net::TcpListener;

pub use embedded::EmbeddedTarget;
use shared::Shared;

/// Makes the tap of a new connection.
pub type TapFactory = Arc<dyn Fn() -> Box<dyn Tap> + Send + Sync>;

/// Where a target listens.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Address; port 0 for any free one.
    pub at: SocketAddr,
    /// What the discovery log gives instead of the address bound to.
    pub advertise: Option<SocketAddr>,
    /// Only the discovery subsystem is reached here.
    pub discovery_only: bool,
}

impl Listener {
    /// Serves everything at `at`.
    pub fn new(at: SocketAddr) -> Self {
        Self { at, advertise: None, discovery_only: false }
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
    /// Of all connections.
    pub tcp: TcpSettings,
    /// A tap for every connection: how faults are applied.
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
    /// A queue was created or refused, or an association ended.
    fn hub(&self, _now: Instant, _event: &HubEvent) {}
    /// True where [`Observer::bytes`] is wanted: it costs a copy of what is sent.
    fn wants_bytes(&self) -> bool {
        false
    }
}

/// A target that listens already and serves once [`Target::run`] is awaited.
pub struct Target {
    shared: Arc<Shared>,
    listeners: Vec<(u16, TcpListener)>,
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
        let mut listeners = Vec::new();
        for (i, l) in config.listeners.iter().enumerate() {
            let socket = TcpListener::bind(l.at).await.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", l.at)))?;
            let id = u16::try_from(i + 1).unwrap_or(u16::MAX);
            let advertise = l.advertise.unwrap_or(socket.local_addr()?);
            hub.add_port(Port { id, advertise, discovery_only: l.discovery_only, transport: PortTransport::Tcp })
                .map_err(invalid)?;
            listeners.push((id, socket));
        }
        Ok(Self { shared: Arc::new(Shared::new(hub, config)), listeners })
    }

    /// The addresses bound to, in the order of the configuration.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|(_, l)| l.local_addr().ok()).collect()
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
