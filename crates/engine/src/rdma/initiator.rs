//! A driver of hosts over RDMA, for any device: connects, posts, hands in what the device says. No time of its own, no I/O.
//!
//! Read [`Initiator`] first.

use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};

use nvmf_seam::Instant;
use nvmf_seam::rdma::{CmEvent, Device, DeviceEvent, QpId};
use nvmf_wire::Qid;

use crate::host::{Association, Event, HostSettings};

/// An association of an [`Initiator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

#[derive(Debug)]
struct Host {
    to: SocketAddr,
    association: Association,
    links: BTreeMap<Qid, QpId>,
}

/// Whose a connection of the device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Of {
        host: HostId,
        qid: Qid,
        /// It was refused, or has ended.
        over: bool,
    },
    /// We asked to disconnect; the device's word that it is over is waited for.
    Leaving,
}

/// Associations of hosts over one device.
///
/// Its user lets the device take in what came, then calls [`Self::turn`], and again at [`Self::poll_timeout`] and after every use of an
/// association; the device's own timers are the user's business. [`Event::Open`] and [`Event::Close`] are dealt with here.
#[derive(Debug)]
pub struct Initiator<D> {
    device: D,
    hosts: BTreeMap<HostId, Host>,
    links: BTreeMap<QpId, Link>,
    next: u32,
    events: VecDeque<(HostId, Event)>,
}

impl<D: Device> Initiator<D> {
    /// Over this device.
    pub fn new(device: D) -> Self {
        Self { device, hosts: BTreeMap::new(), links: BTreeMap::new(), next: 0, events: VecDeque::new() }
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device, to be given what came and to be asked for what goes.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Begins an association with the controller at `to`. Settings for RDMA are made where there are none, and lowered to what the device
    /// can do.
    pub fn connect(&mut self, to: SocketAddr, settings: HostSettings, now: Instant) -> HostId {
        let id = HostId(self.next);
        self.next += 1;
        let association = Association::new(self.fit(settings));
        self.hosts.insert(id, Host { to, association, links: BTreeMap::new() });
        self.turn(now);
        id
    }

    fn fit(&self, mut settings: HostSettings) -> HostSettings {
        let limits = self.device.limits();
        let mut rdma = settings.rdma.take().unwrap_or_default();
        rdma.responder_resources = rdma.responder_resources.min(limits.reads);
        rdma.remote_invalidate &= limits.takes_invalidate;
        rdma.work = rdma.work.min(limits.work);
        // A receive for each place of a queue.
        let entries = u16::try_from(limits.work).unwrap_or(u16::MAX);
        settings.admin_entries = settings.admin_entries.min(entries);
        settings.io_entries = settings.io_entries.min(entries);
        settings.max_transfer = settings.max_transfer.min(u32::try_from(limits.region).unwrap_or(u32::MAX));
        settings.rdma = Some(rdma);
        settings
    }

    /// An association, to be used; then [`Self::turn`] is due.
    pub fn host_mut(&mut self, id: HostId) -> Option<&mut Association> {
        self.hosts.get_mut(&id).map(|h| &mut h.association)
    }

    /// An association.
    pub fn host(&self, id: HostId) -> Option<&Association> {
        self.hosts.get(&id).map(|h| &h.association)
    }

    /// All associations.
    pub fn hosts(&self) -> impl Iterator<Item = (HostId, &Association)> {
        self.hosts.iter().map(|(id, h)| (*id, &h.association))
    }

    /// Forgets an association, with what it still has with the device; its events so far can still be asked for.
    pub fn remove(&mut self, id: HostId, now: Instant) -> Option<Association> {
        self.turn(now);
        let mut host = self.hosts.remove(&id)?;
        let qids: Vec<Qid> = host.links.keys().copied().collect();
        for qid in qids {
            host.association.handle_cm(qid, CmEvent::Disconnected, now);
        }
        self.drive(now).settle(id, &mut host);
        for qp in host.links.values() {
            self.links.remove(qp);
            self.device.destroy(now, *qp);
        }
        Some(host.association)
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<(HostId, Event)> {
        self.events.pop_front()
    }

    /// When [`Self::turn`] is due though nothing came.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.hosts.values().filter_map(|h| h.association.poll_timeout()).min()
    }

    /// Takes in what the device says and what time it is, and does what follows, until there is nothing more.
    pub fn turn(&mut self, now: Instant) {
        loop {
            while let Some((qp, event)) = self.device.poll_event() {
                self.take(qp, event, now);
            }
            let mut any = false;
            for (id, host) in &mut self.hosts {
                if host.association.poll_timeout().is_some_and(|at| at <= now) {
                    host.association.handle_timeout(now);
                }
                let mut drive = Drive { device: &mut self.device, links: &mut self.links, events: &mut self.events, now };
                any |= drive.settle(*id, host);
            }
            if !any {
                break;
            }
        }
    }

    fn drive(&mut self, now: Instant) -> Drive<'_, D> {
        Drive { device: &mut self.device, links: &mut self.links, events: &mut self.events, now }
    }

    fn take(&mut self, qp: QpId, event: DeviceEvent, now: Instant) {
        use CmEvent::{Disconnected, Rejected, Removed, Unreachable};
        let end = matches!(event, DeviceEvent::Cm(Disconnected | Rejected { .. } | Unreachable | Removed));
        match self.links.get_mut(&qp) {
            Some(Link::Of { host, qid, over }) => {
                *over |= end;
                let (qid, Some(host)) = (*qid, self.hosts.get_mut(host)) else { return };
                match event {
                    DeviceEvent::Cm(event) => host.association.handle_cm(qid, event, now),
                    DeviceEvent::Completed(done) => host.association.handle_completion(qid, done, now),
                }
            }
            Some(Link::Leaving) if end => {
                self.links.remove(&qp);
                self.device.destroy(now, qp);
            }
            _ => {}
        }
    }
}

/// What an association is driven with.
struct Drive<'a, D> {
    device: &'a mut D,
    links: &'a mut BTreeMap<QpId, Link>,
    events: &'a mut VecDeque<(HostId, Event)>,
    now: Instant,
}

impl<D: Device> Drive<'_, D> {
    /// Does what an association wants; true where it wanted something.
    fn settle(&mut self, id: HostId, host: &mut Host) -> bool {
        let mut any = false;
        loop {
            if let Some(event) = host.association.poll_event() {
                match event {
                    Event::Open(qid) => self.open(id, host, qid),
                    Event::Close { qid, .. } => self.close(host, qid),
                    event => self.events.push_back((id, event)),
                }
            } else if let Some((qid, key)) = host.association.poll_revoke() {
                if let Some(qp) = host.links.get(&qid) {
                    self.device.disconnect(self.now, *qp);
                }
                let memory = self.device.deregister(key);
                host.association.handle_revoked(qid, key, memory, self.now);
            } else if let Some((qid, work)) = host.association.poll_work(self.now) {
                let posted = host.links.get(&qid).map(|qp| self.device.post(self.now, *qp, work));
                if !matches!(posted, Some(Ok(()))) {
                    host.association.handle_unposted(qid, self.now);
                }
            } else {
                return any;
            }
            any = true;
        }
    }

    fn open(&mut self, id: HostId, host: &mut Host, qid: Qid) {
        let Some(ask) = host.association.ask(qid, self.now) else { return };
        match self.device.connect(self.now, host.to, &ask) {
            Ok(qp) => {
                host.links.insert(qid, qp);
                self.links.insert(qp, Link::Of { host: id, qid, over: false });
            }
            Err(e) => host.association.handle_open_failed(qid, e.to_string(), self.now),
        }
    }

    fn close(&mut self, host: &mut Host, qid: Qid) {
        let Some(qp) = host.links.remove(&qid) else { return };
        match self.links.insert(qp, Link::Leaving) {
            Some(Link::Of { over: true, .. }) => {
                self.links.remove(&qp);
                self.device.destroy(self.now, qp);
            }
            _ => self.device.disconnect(self.now, qp),
        }
    }
}
