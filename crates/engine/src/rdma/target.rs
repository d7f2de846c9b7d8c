//! All NVMe/RDMA connections of one device, between it and a [`Hub`].
//!
//! The hub stays the driver's, so that it may serve connections of other transports too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use nvmf_seam::Instant;
use nvmf_seam::rdma::{Asked, CmEvent, Device, DeviceError, DeviceEvent, QpId, WorkError};
use nvmf_wire::rdma::RdmaStatus;

use super::controller::{CmAction, ControllerConnection, Event, Terms, named_controller, reject_private};
use crate::controller::Hub;
use crate::message::{ConnectionId, ToConnection};
use crate::queue::{CloseReason, StoreDone, StoreRequest};
use crate::settings::RdmaSettings;

/// What happened, for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetEvent {
    /// A request was agreed to.
    Opened {
        /// Connection.
        connection: ConnectionId,
        /// The host.
        from: SocketAddr,
    },
    /// A request was refused.
    Rejected {
        /// The host.
        from: SocketAddr,
        /// Why.
        status: RdmaStatus,
    },
    /// Work failed; the connection ends.
    Failed {
        /// Connection.
        connection: ConnectionId,
        /// How.
        error: WorkError,
    },
    /// A connection ended.
    Closed {
        /// Connection.
        connection: ConnectionId,
        /// Why.
        reason: CloseReason,
    },
}

/// One connection.
#[derive(Debug)]
struct Link {
    id: ConnectionId,
    engine: ControllerConnection,
    /// Something may have changed since it was looked at.
    touched: bool,
    /// Its timer as it stands in [`Target::timers`].
    due: Option<Instant>,
}

/// The NVMe/RDMA side of a target: what a driver runs beside, or instead of, TCP connections.
///
/// In each turn of a driver: let the device take in what came, [`Target::turn`], then [`Target::poll_store`] and [`Target::poll_other`]
/// until they give `None`, and the same again as long as [`Target::handle_store`] or [`Target::handle_message`] was called. Then send
/// what the device wants sent, and wake it at [`Target::poll_timeout`].
///
/// Limits: connections by [`RdmaSettings::connections`]; for each see [`ControllerConnection`].
#[derive(Debug)]
pub struct Target<D> {
    /// The device, for its driver.
    pub device: D,
    settings: Arc<RdmaSettings>,
    /// Ports of the hub by those of CM.
    ports: BTreeMap<u16, u16>,
    links: BTreeMap<QpId, Link>,
    ids: BTreeMap<ConnectionId, QpId>,
    touched: VecDeque<QpId>,
    timers: BTreeSet<(Instant, QpId)>,
    stores: VecDeque<(ConnectionId, StoreRequest)>,
    others: VecDeque<(ConnectionId, ToConnection)>,
    events: VecDeque<TargetEvent>,
}

impl<D: Device> Target<D> {
    /// A target over a device, which listens nowhere yet.
    pub fn new(device: D, settings: RdmaSettings) -> Self {
        Self {
            device,
            settings: Arc::new(settings),
            ports: BTreeMap::new(),
            links: BTreeMap::new(),
            ids: BTreeMap::new(),
            touched: VecDeque::new(),
            timers: BTreeSet::new(),
            stores: VecDeque::new(),
            others: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Takes connections at an RDMA-CM port, for a port of the hub.
    pub fn listen(&mut self, cm_port: u16, hub_port: u16) -> Result<(), DeviceError> {
        self.device.listen(cm_port)?;
        self.ports.insert(cm_port, hub_port);
        Ok(())
    }

    /// Takes in what the device has to tell and what the hub says, and gives the device what follows, until nothing moves. New
    /// connections are numbered from `next_connection` on, which the driver shares among its transports.
    pub fn turn(&mut self, now: Instant, hub: &mut Hub, next_connection: &mut u64) {
        loop {
            let mut moved = false;
            while let Some((qp, event)) = self.device.poll_event() {
                moved = true;
                self.device_event(now, hub, next_connection, qp, event);
            }
            while let Some(qp) = self.touched.pop_front() {
                moved = true;
                self.pump(now, hub, qp);
            }
            while let Some((to, message)) = hub.poll_message() {
                moved = true;
                if let Some(message) = self.handle_message(now, to, message) {
                    self.others.push_back((to, message));
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// A message of the hub; given back where it is for none of this target's connections. [`Target::turn`] follows.
    pub fn handle_message(&mut self, now: Instant, to: ConnectionId, message: ToConnection) -> Option<ToConnection> {
        let Some(qp) = self.ids.get(&to).copied() else { return Some(message) };
        if let Some(link) = self.links.get_mut(&qp) {
            link.engine.handle_message(now, message);
            self.touch(qp);
        }
        None
    }

    /// A store request is done. [`Target::turn`] follows. What is for no connection of this target is ignored.
    pub fn handle_store(&mut self, now: Instant, to: ConnectionId, done: StoreDone) {
        let Some(qp) = self.ids.get(&to).copied() else { return };
        if let Some(link) = self.links.get_mut(&qp) {
            link.engine.handle_store(now, done);
            self.touch(qp);
        }
    }

    /// Time went on. The device has its own timers. [`Target::turn`] follows.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, qp)) = self.timers.first().copied() {
            if at > now {
                return;
            }
            self.timers.pop_first();
            if let Some(link) = self.links.get_mut(&qp) {
                link.due = None;
                link.engine.handle_timeout(now);
                self.touch(qp);
            }
        }
    }

    /// When [`Target::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The next request to a store.
    pub fn poll_store(&mut self) -> Option<(ConnectionId, StoreRequest)> {
        self.stores.pop_front()
    }

    /// The next message of the hub that [`Target::turn`] took and that is for none of its connections: for one of another transport, or
    /// that is over.
    pub fn poll_other(&mut self) -> Option<(ConnectionId, ToConnection)> {
        self.others.pop_front()
    }

    /// The next event for a log.
    pub fn poll_event(&mut self) -> Option<TargetEvent> {
        self.events.pop_front()
    }

    /// True where the connection is one of this target's.
    pub fn owns(&self, connection: ConnectionId) -> bool {
        self.ids.contains_key(&connection)
    }

    /// Connections.
    pub fn connections(&self) -> usize {
        self.links.len()
    }

    /// Bytes and entries held for all connections, for tests of the limits.
    pub fn held(&self) -> usize {
        self.links.values().map(|l| l.engine.held()).sum::<usize>() + self.stores.len() + self.touched.len()
    }

    fn device_event(&mut self, now: Instant, hub: &mut Hub, next: &mut u64, qp: QpId, event: DeviceEvent) {
        if let DeviceEvent::Cm(CmEvent::Request(asked)) = &event {
            return self.request(now, hub, next, qp, asked);
        }
        let Some(link) = self.links.get_mut(&qp) else { return };
        match event {
            DeviceEvent::Cm(event) => link.engine.handle_cm(now, &event),
            DeviceEvent::Completed(completion) => link.engine.handle_completion(now, completion),
        }
        self.touch(qp);
    }

    fn request(&mut self, now: Instant, hub: &mut Hub, next: &mut u64, qp: QpId, asked: &Asked) {
        let limits = self.device.limits();
        let known = hub.has_controller(named_controller(asked));
        let terms = Terms { controllers: hub.settings(), rdma: &self.settings, limits: &limits, known };
        let port = self.ports.get(&asked.to.port()).copied();
        let judged = match port {
            Some(port) if self.links.len() < self.settings.connections => {
                ControllerConnection::new(now, self.settings.clone(), asked, &terms).map(|engine| (port, engine))
            }
            _ => Err(RdmaStatus::NO_RESOURCES),
        };
        match judged {
            Ok((port, engine)) => {
                let id = ConnectionId(*next);
                *next += 1;
                hub.open(id, port, Some(asked.to.ip().to_canonical()));
                self.links.insert(qp, Link { id, engine, touched: false, due: None });
                self.ids.insert(id, qp);
                self.events.push_back(TargetEvent::Opened { connection: id, from: asked.from });
                self.touch(qp);
            }
            Err(status) => {
                // A host that is gone already needs no answer.
                let _ = self.device.reject(now, qp, &reject_private(status));
                self.events.push_back(TargetEvent::Rejected { from: asked.from, status });
            }
        }
    }

    fn touch(&mut self, qp: QpId) {
        if let Some(link) = self.links.get_mut(&qp)
            && !core::mem::replace(&mut link.touched, true)
        {
            self.touched.push_back(qp);
        }
    }

    /// Carries what a connection has for hub, stores and device.
    fn pump(&mut self, now: Instant, hub: &mut Hub, qp: QpId) {
        let Some(link) = self.links.get_mut(&qp) else { return };
        link.touched = false;
        let mut refused = false;
        while let Some(work) = link.engine.poll_work(now) {
            if self.device.post(now, qp, work).is_err() {
                refused = true;
                break;
            }
        }
        while !refused && let Some(action) = link.engine.poll_cm() {
            match action {
                CmAction::Accept(accept) => {
                    if self.device.accept(now, qp, &accept).is_err() {
                        link.engine.handle_cm(now, &CmEvent::Disconnected);
                    }
                }
                CmAction::Disconnect => self.device.disconnect(now, qp),
            }
        }
        if refused {
            if link.engine.is_unanswered() {
                // [RDMA-CM-28]
                let _ = self.device.reject(now, qp, &reject_private(RdmaStatus::NO_RESOURCES));
                link.engine.handle_cm(now, &CmEvent::Disconnected);
            } else {
                link.engine.handle_refused(now);
            }
            link.touched = true;
            self.touched.push_back(qp);
        }
        while let Some(message) = link.engine.poll_message() {
            hub.handle_message(now, link.id, message);
        }
        while let Some(request) = link.engine.poll_store() {
            self.stores.push_back((link.id, request));
        }
        let due = link.engine.poll_timeout();
        if due != link.due {
            if let Some(old) = link.due.take() {
                self.timers.remove(&(old, qp));
            }
            self.timers.extend(due.map(|at| (at, qp)));
            link.due = due;
        }
        let connection = link.id;
        let mut over = false;
        while let Some(event) = link.engine.poll_event() {
            self.events.push_back(match event {
                Event::Failed(error) => TargetEvent::Failed { connection, error },
                Event::Closed(reason) => {
                    over = true;
                    TargetEvent::Closed { connection, reason }
                }
            });
        }
        if over {
            self.forget(now, qp);
        }
    }

    fn forget(&mut self, now: Instant, qp: QpId) {
        if let Some(link) = self.links.remove(&qp) {
            self.ids.remove(&link.id);
            if let Some(at) = link.due {
                self.timers.remove(&(at, qp));
            }
        }
        self.device.destroy(now, qp);
    }
}
