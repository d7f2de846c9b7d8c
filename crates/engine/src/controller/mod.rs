//! All controllers of a target: NVM subsystems, the discovery subsystem, and what their queues share.
//!
//! [`Hub`] is the entry: connections ask it by [`ToHub`], it answers by [`ToConnection`]. The state of one controller is in `state`, the
//! judging of Connect in `connect`, properties in `property`, admin commands in `admin` and the modules beside it.

mod admin;
mod connect;
mod events;
mod features;
mod identify;
mod log;
mod property;
mod state;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use nvmf_seam::Instant;
use nvmf_seam::store::Store;
use nvmf_wire::nqn::{Nqn, NqnError};
use nvmf_wire::{Cid, Cntlid, Status};

pub(crate) use admin::transfer_of;
use events::Notice;
pub use state::EndReason;
use state::{Controller, Kind, Subsystem};

use crate::message::{ConnectionId, NamespaceView, ToConnection, ToHub};
use crate::settings::ControllerSettings;

/// A place where connections come in.
#[derive(Clone, Debug)]
pub struct Port {
    /// PORTID, different for each port. [DISC-LOG-23]
    pub id: u16,
    /// Address that the discovery log gives. An unspecified IP address stands for the one that the host reached us by.
    pub advertise: SocketAddr,
    /// True where only the discovery subsystem is reached here.
    pub discovery_only: bool,
}

/// A namespace to be added.
#[derive(Clone)]
pub struct NewNamespace {
    /// Its storage.
    pub store: Arc<dyn Store>,
    /// The store may block the thread that calls it.
    pub blocking: bool,
    /// UUID; `None` for one that is derived from the subsystem's NQN and the NSID.
    pub uuid: Option<[u8; 16]>,
}

/// What happened, for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HubEvent {
    /// A queue was created.
    Connected {
        /// Connection.
        connection: ConnectionId,
        /// Controller.
        cntlid: Cntlid,
        /// Queue.
        qid: u16,
        /// The host's name.
        hostnqn: String,
        /// The subsystem's name.
        subnqn: String,
    },
    /// A Connect failed.
    Refused {
        /// Connection.
        connection: ConnectionId,
        /// Status.
        status: Status,
        /// CQE DW0: IPO and IATTR where the status is Connect Invalid Parameters.
        result: u32,
    },
    /// An association ended.
    Ended {
        /// Controller.
        cntlid: Cntlid,
        /// The host's name.
        hostnqn: String,
        /// The subsystem's name.
        subnqn: String,
        /// Why.
        reason: EndReason,
    },
}

/// Why the hub could not do what its user asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The name is no NQN, or the one that is kept for discovery.
    Name(String),
    /// There is one of that name or number already.
    Exists,
    /// There is none of that name or number.
    Unknown,
    /// The NSID is 0 or above NN.
    Nsid(u32),
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Name(why) => write!(f, "not usable as the NQN of a subsystem: {why}"),
            Self::Exists => f.write_str("exists already"),
            Self::Unknown => f.write_str("does not exist"),
            Self::Nsid(n) => write!(f, "NSID {n} is not in the range of valid NSIDs"),
        }
    }
}

impl std::error::Error for ConfigError {}

impl From<NqnError> for ConfigError {
    fn from(e: NqnError) -> Self {
        Self::Name(e.to_string())
    }
}

/// One connection as the hub knows it.
#[derive(Debug)]
struct Link {
    port: u16,
    local: Option<IpAddr>,
    controller: Option<u32>,
    qid: u16,
}

/// All controllers of a target. Feed it with `handle_message` and `handle_timeout`, drain `poll_message` and `poll_event` after each,
/// and wake it at `poll_timeout`.
///
/// Limits: controllers and queues a controller by [`ControllerSettings`]; requests that wait by the queues.
#[derive(Debug)]
pub struct Hub {
    settings: ControllerSettings,
    subsystems: BTreeMap<String, Subsystem>,
    ports: BTreeMap<u16, Port>,
    links: BTreeMap<ConnectionId, Link>,
    controllers: BTreeMap<u32, Controller>,
    next_key: u32,
    next_abort: u64,
    /// GENCTR of the discovery log. [DISC-LOG-06]
    generation: u64,
    out: VecDeque<(ConnectionId, ToConnection)>,
    events: VecDeque<HubEvent>,
}

/// The completion of a command.
struct Reply {
    status: Status,
    result: u64,
    data: Bytes,
}

impl Reply {
    fn ok(result: u64) -> Self {
        Self { status: Status::SUCCESS, result, data: Bytes::new() }
    }

    fn data(data: impl Into<Bytes>) -> Self {
        Self { status: Status::SUCCESS, result: 0, data: data.into() }
    }
}

impl From<Status> for Reply {
    fn from(status: Status) -> Self {
        Self { status, result: 0, data: Bytes::new() }
    }
}

impl Hub {
    /// A hub without subsystems and ports.
    pub fn new(settings: ControllerSettings) -> Self {
        Self {
            settings,
            subsystems: BTreeMap::new(),
            ports: BTreeMap::new(),
            links: BTreeMap::new(),
            controllers: BTreeMap::new(),
            next_key: 0,
            next_abort: 0,
            generation: 0,
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &ControllerSettings {
        &self.settings
    }

    /// Adds a port: the discovery log changes.
    pub fn add_port(&mut self, port: Port) -> Result<(), ConfigError> {
        if self.ports.contains_key(&port.id) {
            return Err(ConfigError::Exists);
        }
        self.ports.insert(port.id, port);
        self.discovery_changed();
        Ok(())
    }

    /// Adds an NVM subsystem: the discovery log changes. `hosts` are the names that may connect; `None` for all.
    pub fn add_subsystem(&mut self, nqn: &str, hosts: Option<BTreeSet<String>>) -> Result<(), ConfigError> {
        let nqn = Nqn::parse(nqn)?;
        if nqn.as_str() == nvmf_wire::nqn::DISCOVERY_NQN {
            return Err(ConfigError::Name("it names the discovery subsystem".into()));
        }
        if self.subsystems.contains_key(nqn.as_str()) {
            return Err(ConfigError::Exists);
        }
        self.subsystems.insert(nqn.as_str().to_owned(), Subsystem::new(nqn.as_str(), hosts, self.settings.namespaces));
        self.discovery_changed();
        Ok(())
    }

    /// Removes an NVM subsystem and ends its associations: the discovery log changes.
    pub fn remove_subsystem(&mut self, nqn: &str) -> Result<(), ConfigError> {
        self.subsystems.remove(nqn).ok_or(ConfigError::Unknown)?;
        let gone: Vec<u32> = self.controllers.iter().filter(|(_, c)| c.subnqn == nqn).map(|(k, _)| *k).collect();
        for key in gone {
            self.end(key, EndReason::Removed);
        }
        self.discovery_changed();
        Ok(())
    }

    /// Adds a namespace and attaches it to every controller of its subsystem.
    pub fn add_namespace(&mut self, nqn: &str, nsid: u32, new: NewNamespace) -> Result<(), ConfigError> {
        if nsid == 0 || nsid > self.settings.namespaces {
            return Err(ConfigError::Nsid(nsid));
        }
        let subsystem = self.subsystems.get_mut(nqn).ok_or(ConfigError::Unknown)?;
        if subsystem.table.active.contains_key(&nsid) {
            return Err(ConfigError::Exists);
        }
        let view = NamespaceView { geometry: new.store.geometry(), store: new.store, blocking: new.blocking };
        subsystem.attach(nsid, view, new.uuid);
        self.namespaces_changed(nqn, nsid);
        Ok(())
    }

    /// Detaches a namespace from every controller and removes it.
    pub fn remove_namespace(&mut self, nqn: &str, nsid: u32) -> Result<(), ConfigError> {
        let subsystem = self.subsystems.get_mut(nqn).ok_or(ConfigError::Unknown)?;
        if !subsystem.detach(nsid) {
            return Err(ConfigError::Unknown);
        }
        self.namespaces_changed(nqn, nsid);
        Ok(())
    }

    /// A connection was accepted at `port`; `local` is our address on it, where that is known.
    pub fn open(&mut self, connection: ConnectionId, port: u16, local: Option<IpAddr>) {
        self.links.insert(connection, Link { port, local, controller: None, qid: 0 });
    }

    /// A message of a connection.
    pub fn handle_message(&mut self, now: Instant, from: ConnectionId, message: ToHub) {
        match message {
            ToHub::Connect { sqe, data } => self.connect(now, from, &sqe, &data),
            ToHub::Admin { sqe, data } => {
                let cid = sqe.cid();
                if let Some(reply) = self.admin(now, from, &sqe, data) {
                    self.complete(from, cid, reply);
                }
            }
            ToHub::AbortDone { token, aborted } => self.abort_done(token, aborted),
            ToHub::Failed { sqe, status } => {
                if let Some((key, qid)) = self.links.get(&from).and_then(|l| Some((l.controller?, l.qid)))
                    && let Some(c) = self.controllers.get_mut(&key)
                {
                    c.log_error(&self.settings, qid, &sqe, status);
                }
            }
            ToHub::Overrun => {
                // The controller is gone with the association, so that CFS cannot be read. [FAB-SQFC-13, FAB-SQFC-16]
                if let Some(key) = self.links.get(&from).and_then(|l| l.controller) {
                    self.end(key, EndReason::Overrun);
                }
            }
            ToHub::Closed => self.closed(now, from),
        }
    }

    /// Time went on.
    pub fn handle_timeout(&mut self, now: Instant) {
        let due = |at: Option<Instant>| at.is_some_and(|t| t <= now);
        if self.settings.traffic_keep_alive {
            // The timer that ran out starts anew where a command came within the interval. [KA-14, ADM-KA-04]
            for c in self.controllers.values_mut().filter(|c| due(c.keep_alive_due)) {
                if c.counters.traffic.swap(false, Ordering::Relaxed) {
                    c.restart_keep_alive(now);
                }
            }
        }
        let late: Vec<(u32, EndReason)> = self
            .controllers
            .iter()
            .filter_map(|(k, c)| match (due(c.keep_alive_due), due(c.enable_due), c.lost_due) {
                // [KA-05, ADM-KA-05]
                (true, ..) => Some((*k, EndReason::KeepAlive)),
                // [FAB-ASSOC-10]
                (_, true, _) => Some((*k, EndReason::NotEnabled)),
                // [FAB-ASSOC-03]
                (_, _, Some((at, qid))) if at <= now => Some((*k, EndReason::ConnectionLost { qid })),
                _ => None,
            })
            .collect();
        for (key, reason) in late {
            self.end(key, reason);
        }
    }

    /// When [`Hub::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.controllers.values().flat_map(|c| [c.keep_alive_due, c.enable_due, c.lost_due.map(|l| l.0)]).flatten().min()
    }

    /// The next message to a connection.
    pub fn poll_message(&mut self) -> Option<(ConnectionId, ToConnection)> {
        self.out.pop_front()
    }

    /// The next event for a log.
    pub fn poll_event(&mut self) -> Option<HubEvent> {
        self.events.pop_front()
    }

    /// Associations that exist.
    pub fn associations(&self) -> usize {
        self.controllers.len()
    }

    /// Ends every association, as before the end of the program.
    pub fn shut_down(&mut self) {
        let all: Vec<u32> = self.controllers.keys().copied().collect();
        for key in all {
            self.end(key, EndReason::Removed);
        }
    }

    fn complete(&mut self, to: ConnectionId, cid: Cid, reply: Reply) {
        let Reply { status, result, data } = reply;
        self.out.push_back((to, ToConnection::Complete { cid, status, result, data }));
    }

    /// A connection is gone. Without deletion of single queues, that is the end of the association, whichever queue it was: at once for
    /// the Admin Queue, after a little patience for an I/O queue. [FAB-ASSOC-02, FAB-ASSOC-03, RESET-34]
    fn closed(&mut self, now: Instant, connection: ConnectionId) {
        let Some(link) = self.links.remove(&connection) else { return };
        let Some(key) = link.controller else { return };
        if link.qid == 0 {
            return self.end(key, EndReason::ConnectionLost { qid: 0 });
        }
        let due = now + self.settings.loss_patience;
        if let Some(c) = self.controllers.get_mut(&key) {
            c.queues.remove(&link.qid);
            c.lost_due.get_or_insert((due, link.qid));
        }
    }

    /// Ends an association: all its connections close, the controller is no more. [FAB-ASSOC-02, FAB-CNTLID-12]
    fn end(&mut self, key: u32, reason: EndReason) {
        let Some(c) = self.controllers.remove(&key) else { return };
        for connection in c.queues.values().chain([&c.admin]) {
            if let Some(link) = self.links.get_mut(connection) {
                link.controller = None;
                self.out.push_back((*connection, ToConnection::Close));
            }
        }
        self.events.push_back(HubEvent::Ended { cntlid: c.cntlid, hostnqn: c.hostnqn, subnqn: c.subnqn, reason });
    }

    /// Tells every queue of a subsystem, and every host that asked for notices.
    fn namespaces_changed(&mut self, nqn: &str, nsid: u32) {
        let Some(subsystem) = self.subsystems.get(nqn) else { return };
        for c in self.controllers.values_mut().filter(|c| c.subnqn == nqn && c.kind == Kind::Io) {
            for connection in c.queues.values() {
                self.out.push_back((*connection, ToConnection::Namespaces(subsystem.table.clone())));
            }
            c.changed.insert(nsid);
            c.raise(Notice::Namespaces, &mut self.out);
        }
    }

    /// The discovery log changed. [DISC-LOG-06, DISC-CTRL-17]
    fn discovery_changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        for c in self.controllers.values_mut().filter(|c| c.kind == Kind::Discovery) {
            c.raise(Notice::Discovery, &mut self.out);
        }
    }
}
