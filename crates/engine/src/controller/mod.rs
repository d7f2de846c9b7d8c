//! All controllers of a target: NVM subsystems, the discovery subsystem, and what their queues share.
//!
//! [`Hub`] is the entry: connections ask it by [`ToHub`], it answers by [`ToConnection`]. What a target serves, and how that changes, is
//! in `config`, the state of one controller in `state`, the judging of Connect in `connect`, properties in `property`, admin commands in
//! `admin` and the modules beside it.

mod admin;
mod config;
mod connect;
mod events;
mod features;
mod identify;
mod log;
mod property;
mod state;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

use bytes::Bytes;
use nvmf_seam::Instant;
use nvmf_wire::{Cid, Cntlid, Status};

pub(crate) use admin::transfer_of;
pub use config::{AssociationInfo, ConfigError, NewNamespace, Port, PortTransport, SubsystemInfo};
pub use state::EndReason;
use state::{Controller, Kind, Subsystem};

use crate::message::{ConnectionId, ToConnection, ToHub};
use crate::settings::{ControllerModel, ControllerSettings};

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

/// Composite Temperature at first, kelvins.
const TEMPERATURE: u16 = 303;

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
    /// Other discovery services.
    referrals: BTreeSet<SocketAddr>,
    /// Composite Temperature, kelvins.
    temperature: u16,
    /// A subsystem to be reset once the command that asked for it is answered.
    resetting: Option<String>,
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
            referrals: BTreeSet::new(),
            temperature: TEMPERATURE,
            resetting: None,
            out: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &ControllerSettings {
        &self.settings
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
                if let Some(nqn) = self.resetting.take() {
                    self.reset_subsystem(&nqn);
                }
            }
            ToHub::Disconnect { cid } => self.disconnect(now, from, cid),
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

    /// What carries the queues of a port.
    fn transport(&self, port: u16) -> PortTransport {
        self.ports.get(&port).map(|p| p.transport).unwrap_or_default()
    }

    /// True where an NVM subsystem has a controller of that number, which an I/O queue may be for.
    pub fn has_controller(&self, cntlid: Cntlid) -> bool {
        self.controllers.values().any(|c| c.kind == Kind::Io && c.cntlid == cntlid)
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
            if reason == EndReason::KeepAlive
                && let Some(c) = self.controllers.get_mut(&key)
            {
                // Only a static controller outlives it. [ADM-LOG-25, FAB-CNTLID-12]
                c.errors.clear();
                c.log_untied(&self.settings, Status::KEEP_ALIVE_TIMER_EXPIRED);
            }
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
        self.queue_gone(now, key, link.qid);
    }

    /// Disconnect: the queue is no more, its connection is left to the host. [FAB-DISC-09, FAB-DISC-10, FAB-DISC-16]
    fn disconnect(&mut self, now: Instant, from: ConnectionId, cid: Cid) {
        if let Some(link) = self.links.get_mut(&from)
            && let Some(key) = link.controller.take()
        {
            let qid = link.qid;
            self.queue_gone(now, key, qid);
        }
        self.complete(from, cid, Reply::ok(0));
    }

    /// An I/O queue is no more; unless both sides can delete single queues, the association ends soon. [FAB-DISC-16, FAB-DISC-17]
    fn queue_gone(&mut self, now: Instant, key: u32, qid: u16) {
        let due = now + self.settings.loss_patience;
        let deletes = self.settings.queue_deletion;
        if let Some(c) = self.controllers.get_mut(&key) {
            c.queues.remove(&qid);
            if !(deletes && c.deletes_queues) {
                c.lost_due.get_or_insert((due, qid));
            }
        }
    }

    /// NVM Subsystem Reset: the controllers lose their hosts at once. [FAB-INIT-15, RESET-31]
    fn reset_subsystem(&mut self, nqn: &str) {
        let all: Vec<u32> = self.controllers.iter().filter(|(_, c)| c.subnqn == nqn).map(|(key, _)| *key).collect();
        for key in all {
            self.end(key, EndReason::SubsystemReset);
        }
        if let Some(s) = self.subsystems.get_mut(nqn)
            && let ControllerModel::Static { count } = self.settings.controller_model
        {
            for id in 1..=count {
                let kept = s.kept.entry(id).or_default();
                kept.errors.clear();
                kept.reset_occurred = true;
            }
        }
    }

    /// Ends an association: all its connections close. A dynamic controller is no more, a static one keeps what it saved.
    /// [FAB-ASSOC-02, FAB-CNTLID-12, FAB-CNTLID-13]
    fn end(&mut self, key: u32, reason: EndReason) {
        let Some(c) = self.controllers.remove(&key) else { return };
        for connection in c.queues.values().chain([&c.admin]) {
            if let Some(link) = self.links.get_mut(connection) {
                link.controller = None;
                self.out.push_back((*connection, ToConnection::Close));
            }
        }
        self.events.push_back(HubEvent::Ended { cntlid: c.cntlid, hostnqn: c.hostnqn.clone(), subnqn: c.subnqn.clone(), reason });
        if c.kind == Kind::Io
            && self.settings.controller_model != ControllerModel::Dynamic
            && let Some(s) = self.subsystems.get_mut(&c.subnqn)
        {
            s.kept.insert(c.cntlid.0, c.keep(reason));
        }
    }
}
