//! Our host and our controller over two software NICs back to back, and what work each NIC was given.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::SUBNQN;
use bytes::Bytes;
use nvmf_engine::controller::{Hub, NewNamespace, Port, PortTransport};
use nvmf_engine::host::{Completion, Event, HostSettings, Payload};
use nvmf_engine::rdma::{HostId, Initiator, Target};
use nvmf_engine::store::MemoryStore;
use nvmf_engine::{ControllerSettings, RdmaSettings};
use nvmf_roce::testing::Pair;
use nvmf_roce::{Nic, NicSettings};
use nvmf_seam::rdma::{Accept, Ask, Device, DeviceError, DeviceEvent, Done, Limits, Memory, QpId, Remote, Rkey, Work};
use nvmf_seam::{Geometry, Instant};
use nvmf_wire::{Nsid, Qid, Sqe};

/// A NIC, and what work it was given.
pub struct Spied {
    pub nic: Nic,
    pub reads: Vec<(Rkey, u32)>,
    pub sends: Vec<Bytes>,
    pub registered: Vec<Remote>,
    pub received: Vec<(Bytes, Option<Rkey>)>,
    /// Connections agreed to.
    pub qps: Vec<QpId>,
    /// Driver without direct access: what is registered is copied to a buffer of its own, and back.
    pub bounce: bool,
}

impl Spied {
    fn new(nic: Nic) -> Self {
        Self {
            nic,
            reads: Vec::new(),
            sends: Vec::new(),
            registered: Vec::new(),
            received: Vec::new(),
            qps: Vec::new(),
            bounce: false,
        }
    }
}

impl Device for Spied {
    fn limits(&self) -> Limits {
        self.nic.limits()
    }

    fn listen(&mut self, port: u16) -> Result<(), DeviceError> {
        self.nic.listen(port)
    }

    fn connect(&mut self, now: Instant, to: SocketAddr, ask: &Ask) -> Result<QpId, DeviceError> {
        self.nic.connect(now, to, ask)
    }

    fn accept(&mut self, now: Instant, qp: QpId, accept: &Accept) -> Result<(), DeviceError> {
        self.qps.push(qp);
        self.nic.accept(now, qp, accept)
    }

    fn reject(&mut self, now: Instant, qp: QpId, private: &[u8]) -> Result<(), DeviceError> {
        self.nic.reject(now, qp, private)
    }

    fn disconnect(&mut self, now: Instant, qp: QpId) {
        self.nic.disconnect(now, qp);
    }

    fn destroy(&mut self, now: Instant, qp: QpId) {
        self.nic.destroy(now, qp);
    }

    fn post(&mut self, now: Instant, qp: QpId, work: Work) -> Result<(), DeviceError> {
        let work = match work {
            Work::Register { id, memory, access } if self.bounce => {
                let place = memory.place();
                let mut copy = Memory::shared(Bytes::copy_from_slice(memory.as_slice())).at(place);
                copy.touch(memory.len());
                Work::Register { id, memory: copy, access }
            }
            other => other,
        };
        match &work {
            Work::Read { from, len, .. } => self.reads.push((from.key, *len)),
            Work::Send { head, payload, .. } => self.sends.push([head.as_slice(), payload].concat().into()),
            _ => {}
        }
        self.nic.post(now, qp, work)
    }

    fn deregister(&mut self, key: Rkey) -> Option<Memory> {
        self.nic.deregister(key)
    }

    fn poll_event(&mut self) -> Option<(QpId, DeviceEvent)> {
        let (qp, event) = self.nic.poll_event()?;
        if let DeviceEvent::Completed(c) = &event {
            match &c.result {
                Ok(Done::Registered(at)) => self.registered.push(*at),
                Ok(Done::Received { data, invalidated }) => self.received.push((data.clone(), *invalidated)),
                _ => {}
            }
        }
        Some((qp, event))
    }
}

pub struct World {
    pub pair: Pair,
    pub initiator: Initiator<Spied>,
    pub target: Target<Spied>,
    pub hub: Hub,
    pub next: u64,
    pub events: Vec<(HostId, Event)>,
}

impl World {
    pub fn new(rdma: RdmaSettings, nics: impl Fn(&mut NicSettings)) -> Self {
        let mut pair = Pair::new(7, nics);
        let spare = || Nic::new(NicSettings::new([10, 0, 0, 9].into()), 99);
        let ours = std::mem::replace(&mut pair.nics[0], spare());
        let theirs = std::mem::replace(&mut pair.nics[1], spare());
        let mut hub = Hub::new(ControllerSettings { mdts: 10, queue_deletion: true, ..ControllerSettings::default() });
        hub.add_subsystem(SUBNQN, None).unwrap();
        let store = MemoryStore::new(Geometry { blocks: 1 << 15, block_size: 512 });
        hub.add_namespace(SUBNQN, 1, NewNamespace { store: Arc::new(store), blocking: false, uuid: None }).unwrap();
        let transport = PortTransport::Rdma(rdma.capsules);
        hub.add_port(Port { id: 1, advertise: address(), discovery_only: false, transport }).unwrap();
        let mut target = Target::new(Spied::new(theirs), rdma);
        target.listen(4420, 1).unwrap();
        Self { pair, initiator: Initiator::new(Spied::new(ours)), target, hub, next: 1000, events: Vec::new() }
    }

    pub fn plain() -> Self {
        Self::new(RdmaSettings::default(), |_| {})
    }

    /// The NICs are at the wire.
    fn swap(&mut self) {
        std::mem::swap(&mut self.pair.nics[0], &mut self.initiator.device_mut().nic);
        std::mem::swap(&mut self.pair.nics[1], &mut self.target.device.nic);
    }

    /// Everything that happens without time going on.
    pub fn settle(&mut self) {
        loop {
            let now = self.pair.now;
            if self.target.poll_timeout().is_some_and(|at| at <= now) {
                self.target.handle_timeout(now);
            }
            if self.hub.poll_timeout().is_some_and(|at| at <= now) {
                self.hub.handle_timeout(now);
            }
            self.target.turn(now, &mut self.hub, &mut self.next);
            let mut moved = false;
            while let Some((to, r)) = self.target.poll_store() {
                self.target.handle_store(now, to, r.execute());
                moved = true;
            }
            // For connections that are gone.
            while self.target.poll_other().is_some() {}
            while self.hub.poll_event().is_some() {}
            self.initiator.turn(now);
            self.events.extend(std::iter::from_fn(|| self.initiator.poll_event()));
            self.swap();
            moved |= self.pair.settle();
            self.swap();
            if !moved {
                return;
            }
        }
    }

    fn due(&mut self) -> Option<Instant> {
        let now = self.pair.now;
        self.swap();
        let wire = self.pair.advance().then_some(self.pair.now);
        self.swap();
        self.pair.now = now;
        [wire, self.target.poll_timeout(), self.hub.poll_timeout(), self.initiator.poll_timeout()].into_iter().flatten().min()
    }

    /// Lets time go on until `done`, for two minutes at most.
    #[track_caller]
    pub fn until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        let end = self.pair.now + Duration::from_secs(120);
        loop {
            self.settle();
            if done(self) {
                return;
            }
            match self.due() {
                Some(at) if at <= end => self.pair.now = self.pair.now.max(at),
                _ => panic!("nothing more happens: {:?}", self.events),
            }
        }
    }

    pub fn connect(&mut self, settings: HostSettings) -> HostId {
        let now = self.pair.now;
        self.initiator.connect(address(), settings, now)
    }

    #[track_caller]
    pub fn ready(&mut self, settings: HostSettings) -> HostId {
        let id = self.connect(settings);
        self.until(|w| w.events.iter().any(|(h, e)| *h == id && matches!(e, Event::Ready | Event::Failed(_))));
        assert!(self.initiator.host(id).unwrap().is_ready(), "{:?}", self.events);
        id
    }

    pub fn submit(&mut self, id: HostId, qid: u16, sqe: Sqe, payload: Payload) {
        let now = self.pair.now;
        self.initiator.host_mut(id).unwrap().submit(Qid(qid), sqe, payload, now).expect("a place");
    }

    #[track_caller]
    pub fn execute(&mut self, id: HostId, qid: u16, sqe: Sqe, payload: Payload) -> Completion {
        self.submit(id, qid, sqe, payload);
        self.until(|w| w.events.iter().any(|(h, e)| *h == id && matches!(e, Event::Completed(..))));
        self.completions().remove(0)
    }

    pub fn completions(&mut self) -> Vec<Completion> {
        let (done, rest) = std::mem::take(&mut self.events).into_iter().partition(|(_, e)| matches!(e, Event::Completed(..)));
        self.events = rest;
        let done: Vec<(HostId, Event)> = done;
        let completion = |(_, e)| match e {
            Event::Completed(_, c) => Some(c),
            _ => None,
        };
        done.into_iter().filter_map(completion).collect()
    }

    #[track_caller]
    pub fn shut(&mut self, id: HostId) {
        let now = self.pair.now;
        self.initiator.host_mut(id).unwrap().shutdown(now);
        self.until(|w| w.events.iter().any(|(h, e)| *h == id && matches!(e, Event::Ended)));
        let events = std::mem::take(&mut self.events);
        assert!(!events.iter().any(|(_, e)| matches!(e, Event::Violation(..) | Event::Failed(_))), "{events:?}");
        self.until(|w| w.initiator.host(id).unwrap().connections().next().is_none());
    }
}

pub fn address() -> SocketAddr {
    SocketAddr::new(Pair::ADDRESSES[1], 4420)
}

pub fn settings() -> HostSettings {
    HostSettings { io_queues: 2, ..HostSettings::new("nqn.2014-08.org.example:host", [1; 16], SUBNQN) }
}

pub fn pattern(len: usize) -> Bytes {
    (0..len).map(|i| (i / 4 % 251) as u8).collect()
}

pub const NS: Nsid = Nsid(1);
