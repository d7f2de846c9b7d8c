//! Our host and our controller over two software NICs back to back: both transports' ends meet, and a wire between them loses packets.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::SUBNQN;
use nvmf_engine::controller::{Hub, NewNamespace, Port, PortTransport};
use nvmf_engine::host::{
    Completion, DISCOVERY_NQN, DiscoveryLog, Event, HostError, HostRdmaSettings, HostSettings, LogReader, Payload, command,
};
use nvmf_engine::rdma::{HostId, Initiator, Target};
use nvmf_engine::store::MemoryStore;
use nvmf_engine::{ControllerSettings, RdmaCapsules, RdmaSettings};
use nvmf_roce::testing::{Faults, Pair};
use nvmf_roce::{Nic, NicSettings};
use nvmf_seam::rdma::{Accept, Ask, Device, DeviceError, DeviceEvent, Done, Limits, Memory, Place, QpId, Remote, Rkey, Work};
use nvmf_seam::{Geometry, Instant};
use nvmf_wire::{Nsid, Qid, Sqe};

/// A NIC, and what work it was given.
struct Spied {
    nic: Nic,
    reads: Vec<(Rkey, u32)>,
    sends: Vec<Bytes>,
    registered: Vec<Remote>,
    received: Vec<(Bytes, Option<Rkey>)>,
    /// Driver without direct access: what is registered is copied to a buffer of its own, and back.
    bounce: bool,
}

impl Spied {
    fn new(nic: Nic) -> Self {
        Self { nic, reads: Vec::new(), sends: Vec::new(), registered: Vec::new(), received: Vec::new(), bounce: false }
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

struct World {
    pair: Pair,
    initiator: Initiator<Spied>,
    target: Target<Spied>,
    hub: Hub,
    next: u64,
    events: Vec<(HostId, Event)>,
}

impl World {
    fn new(rdma: RdmaSettings, nics: impl Fn(&mut NicSettings)) -> Self {
        let mut pair = Pair::new(7, nics);
        let spare = || Nic::new(NicSettings::new([10, 0, 0, 9].into()), 99);
        let ours = std::mem::replace(&mut pair.nics[0], spare());
        let theirs = std::mem::replace(&mut pair.nics[1], spare());
        let mut hub = Hub::new(ControllerSettings { mdts: 10, ..ControllerSettings::default() });
        hub.add_subsystem(SUBNQN, None).unwrap();
        let store = MemoryStore::new(Geometry { blocks: 1 << 15, block_size: 512 });
        hub.add_namespace(SUBNQN, 1, NewNamespace { store: Arc::new(store), blocking: false, uuid: None }).unwrap();
        let transport = PortTransport::Rdma(rdma.capsules);
        hub.add_port(Port { id: 1, advertise: address(), discovery_only: false, transport }).unwrap();
        let mut target = Target::new(Spied::new(theirs), rdma);
        target.listen(4420, 1).unwrap();
        Self { pair, initiator: Initiator::new(Spied::new(ours)), target, hub, next: 1000, events: Vec::new() }
    }

    fn plain() -> Self {
        Self::new(RdmaSettings::default(), |_| {})
    }

    /// The NICs are at the wire.
    fn swap(&mut self) {
        std::mem::swap(&mut self.pair.nics[0], &mut self.initiator.device_mut().nic);
        std::mem::swap(&mut self.pair.nics[1], &mut self.target.device.nic);
    }

    /// Everything that happens without time going on.
    fn settle(&mut self) {
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
    fn until(&mut self, mut done: impl FnMut(&Self) -> bool) {
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

    fn connect(&mut self, settings: HostSettings) -> HostId {
        let now = self.pair.now;
        self.initiator.connect(address(), settings, now)
    }

    #[track_caller]
    fn ready(&mut self, settings: HostSettings) -> HostId {
        let id = self.connect(settings);
        self.until(|w| w.events.iter().any(|(h, e)| *h == id && matches!(e, Event::Ready | Event::Failed(_))));
        assert!(self.initiator.host(id).unwrap().is_ready(), "{:?}", self.events);
        id
    }

    fn submit(&mut self, id: HostId, qid: u16, sqe: Sqe, payload: Payload) {
        let now = self.pair.now;
        self.initiator.host_mut(id).unwrap().submit(Qid(qid), sqe, payload, now).expect("a place");
    }

    #[track_caller]
    fn execute(&mut self, id: HostId, qid: u16, sqe: Sqe, payload: Payload) -> Completion {
        self.submit(id, qid, sqe, payload);
        self.until(|w| w.events.iter().any(|(h, e)| *h == id && matches!(e, Event::Completed(..))));
        self.completions().remove(0)
    }

    fn completions(&mut self) -> Vec<Completion> {
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
    fn shut(&mut self, id: HostId) {
        let now = self.pair.now;
        self.initiator.host_mut(id).unwrap().shutdown(now);
        self.until(|w| w.events.iter().any(|(h, e)| *h == id && matches!(e, Event::Ended)));
        let events = std::mem::take(&mut self.events);
        assert!(!events.iter().any(|(_, e)| matches!(e, Event::Violation(..) | Event::Failed(_))), "{events:?}");
        self.until(|w| w.initiator.host(id).unwrap().connections().next().is_none());
    }
}

fn address() -> SocketAddr {
    SocketAddr::new(Pair::ADDRESSES[1], 4420)
}

fn settings() -> HostSettings {
    HostSettings { io_queues: 2, ..HostSettings::new("nqn.2014-08.org.example:host", [1; 16], SUBNQN) }
}

fn pattern(len: usize) -> Bytes {
    (0..len).map(|i| (i / 4 % 251) as u8).collect()
}

const NS: Nsid = Nsid(1);

#[test]
fn bring_up_data_both_ways_reset_and_shutdown() {
    let mut w = World::plain();
    let id = w.ready(settings());
    let facts = w.initiator.host(id).unwrap().facts();
    assert!(facts.io_queues == 2 && facts.negotiated.values().all(|a| a.rdma().is_some_and(|g| g.reads > 0)));
    for (qid, len) in [(1, 512), (2, 4096), (1, 8192), (2, 64 << 10), (1, 1 << 20)] {
        let (data, blocks) = (pattern(len), (len / 512) as u32);
        assert!(w.execute(id, qid, command::write(NS, 1, blocks), Payload::Out(data.clone())).status().is_success());
        let read = w.execute(id, 3 - qid, command::read(NS, 1, blocks), Payload::In(len as u32));
        assert!(read.status().is_success() && read.data.to_bytes() == data, "{len} {:?}", read.cqe);
        let compared = w.execute(id, qid, command::compare(NS, 2, 1), Payload::Out(Bytes::from(vec![9; 512])));
        assert!(!compared.status().is_success());
    }
    assert!(w.execute(id, 1, command::flush(NS), Payload::None).status().is_success());
    assert_eq!(w.initiator.host(id).unwrap().touched(), 0);
    let now = w.pair.now;
    assert!(w.initiator.host_mut(id).unwrap().reset(now));
    w.events.clear();
    w.until(|w| w.events.iter().any(|(_, e)| matches!(e, Event::Ready)));
    let read = w.execute(id, 1, command::read(NS, 1, 2048), Payload::In(1 << 20));
    assert!(read.data.to_bytes() == pattern(1 << 20));
    w.shut(id);
}

#[test]
fn discovery_over_rdma_then_the_subsystem_it_names() {
    let mut w = World::plain();
    let discovery = HostSettings { subnqn: DISCOVERY_NQN.into(), kato_ms: 0, ..settings() };
    let id = w.ready(discovery);
    let mut reader = LogReader::new(true);
    let log: DiscoveryLog = loop {
        let (sqe, payload) = reader.request();
        let done = w.execute(id, 0, sqe, payload);
        if let Some(log) = reader.handle(&done).expect("a log") {
            break log;
        }
    };
    assert_eq!(log.entries.len(), 1);
    assert_eq!(log.entries[0].subnqn().as_str(), SUBNQN);
    w.shut(id);
    // The same device, another association.
    let id = w.ready(settings());
    w.shut(id);
}

/// One checkpoint write of 4 MiB: one capsule, READs of the controller with the key that its SQE names, one response, and no byte of it
/// was touched by the host's CPU, wherever the memory is.
#[test]
fn a_checkpoint_write_of_4_mib() {
    for place in [Place::Host, Place::Gpu] {
        let mut w = World::plain();
        let id = w.ready(HostSettings { io_queues: 1, async_events: 0, ..settings() });
        let (sends, received) = (w.initiator.device().sends.len(), w.initiator.device().received.len());
        w.target.device.reads.clear();
        let memory = Memory::shared(pattern(4 << 20)).at(place);
        let done = w.execute(id, 1, command::write(NS, 0, 8192), Payload::OutOf(memory));
        assert!(done.status().is_success(), "{done:?}");
        let back = done.memory.expect("the memory");
        assert_eq!((back.place(), back.touched(), back.len()), (place, 0, 4 << 20));
        assert_eq!(w.initiator.host(id).unwrap().touched(), 0);
        let ours = w.initiator.device();
        assert_eq!((ours.sends.len() - sends, ours.received.len() - received), (1, 1), "one capsule, one response");
        let capsule = ours.sends.last().unwrap();
        assert_eq!((capsule.len(), capsule[39], &capsule[32..35]), (64, 0x4f, &[0, 0, 0x40][..]));
        let key = Rkey(u32::from_le_bytes(capsule[35..39].try_into().unwrap()));
        let reads = &w.target.device.reads;
        assert!(!reads.is_empty() && reads.iter().all(|(k, _)| *k == key));
        assert_eq!(reads.iter().map(|(_, n)| u64::from(*n)).sum::<u64>(), 4 << 20);
        assert_eq!(ours.received.last().unwrap().1, Some(key), "the response invalidated it");
        w.shut(id);
    }
}

#[test]
fn a_device_that_bounces_is_counted() {
    let mut w = World::plain();
    let id = w.ready(settings());
    let before = w.initiator.host(id).unwrap().touched();
    w.initiator.device_mut().bounce = true;
    let done = w.execute(id, 1, command::write(NS, 0, 8192), Payload::OutOf(Memory::shared(pattern(4 << 20)).at(Place::Gpu)));
    assert_eq!(done.memory.expect("the memory").touched(), 4 << 20);
    assert_eq!(w.initiator.host(id).unwrap().touched() - before, 4 << 20);
}

/// RD-04: with one READ at a time, or 16, of a controller that would like more.
#[test]
fn reads_keep_to_the_hosts_responder_resources() {
    for responder_resources in [1, 2, 16] {
        let mut w = World::plain();
        let rdma = Some(HostRdmaSettings { responder_resources, ..HostRdmaSettings::default() });
        let id = w.ready(HostSettings { rdma, ..settings() });
        assert!(w.initiator.host(id).unwrap().facts().negotiated.values().all(|a| a.rdma().unwrap().reads <= responder_resources));
        for n in 0..8 {
            w.submit(id, 1, command::write(NS, n * 256, 256), Payload::Out(pattern(128 << 10)));
        }
        w.until(|w| w.events.iter().filter(|(_, e)| matches!(e, Event::Completed(..))).count() == 8);
        assert!(w.completions().iter().all(|c| c.status().is_success()));
        w.shut(id);
    }
}

/// Keyed descriptors by pages: several of them, READ in their order and WRITTEN in their order.
#[test]
fn several_descriptors_both_ways() {
    let mut w = World::plain();
    let rdma = Some(HostRdmaSettings { descriptor: 8192, ..HostRdmaSettings::default() });
    let id = w.ready(HostSettings { rdma, ..settings() });
    let data = pattern(100 << 10);
    assert!(w.execute(id, 1, command::write(NS, 5, 200), Payload::Out(data.clone())).status().is_success());
    let capsule = w.initiator.device().sends.last().unwrap();
    assert_eq!((capsule[39], capsule.len()), (0x31, 64 + 13 * 16));
    let read = w.execute(id, 1, command::read(NS, 5, 200), Payload::In(100 << 10));
    assert!(read.data.to_bytes() == data);
    w.shut(id);
}

/// In-capsule data and descriptors where the controller's ICDOFF puts them. [SQE-25, SGL-22]
#[test]
fn both_ends_agree_on_icdoff() {
    let capsules = RdmaCapsules { icdoff: 4, msdbd: 16 };
    let mut w = World::new(RdmaSettings { capsules, ..RdmaSettings::default() }, |_| {});
    let rdma = Some(HostRdmaSettings { descriptor: 4096, connect_in_capsule: true, ..HostRdmaSettings::default() });
    let id = w.ready(HostSettings { rdma, ..settings() });
    // What fits, and four pages.
    for (len, sgl, size) in [(4096, 0x01, 64 + 64 + 4096), (16 << 10, 0x31, 64 + 64)] {
        let data = pattern(len);
        assert!(w.execute(id, 1, command::write(NS, 5, (len / 512) as u32), Payload::Out(data.clone())).status().is_success());
        let capsule = w.initiator.device().sends.last().unwrap();
        assert_eq!((capsule[39], capsule.len()), (sgl, size));
        let read = w.execute(id, 1, command::read(NS, 5, (len / 512) as u32), Payload::In(len as u32));
        assert!(read.data.to_bytes() == data);
    }
    w.shut(id);
}

#[test]
fn a_wire_that_loses_and_reorders_changes_nothing() {
    let mut w = World::new(RdmaSettings::default(), |s| s.link_mtu = 1500);
    w.pair.latency = Duration::from_micros(5);
    w.pair.faults = Faults { loss: 10, duplication: 10, reordering: 20, corruption: 5 };
    let id = w.ready(settings());
    for n in 0..16 {
        w.submit(id, 1 + n as u16 % 2, command::write(NS, n * 128, 128), Payload::Out(pattern(64 << 10)));
    }
    w.until(|w| w.events.iter().filter(|(_, e)| matches!(e, Event::Completed(..))).count() == 16);
    assert!(w.completions().iter().all(|c| c.status().is_success()));
    for n in 0..16 {
        let read = w.execute(id, 1, command::read(NS, n * 128, 128), Payload::In(64 << 10));
        assert!(read.status().is_success() && read.data.to_bytes() == pattern(64 << 10));
    }
    w.shut(id);
}

/// The words of a REJ come to the user.
#[test]
fn a_refused_queue_says_why() {
    let mut w = World::plain();
    w.target.device.nic = Nic::new(NicSettings::new(Pair::ADDRESSES[1]), 3);
    let id = w.connect(settings());
    w.until(|w| w.events.iter().any(|(_, e)| matches!(e, Event::Failed(_))));
    let Some((_, Event::Failed(HostError::Open { qid: Qid::ADMIN, why }))) = w.events.last() else { panic!("{:?}", w.events) };
    assert!(why.contains("reason 8"), "nobody listens: {why}");
    assert!(w.initiator.host(id).unwrap().connections().next().is_none());
    // STS of NVMe/RDMA. [RDMA-CM-22, RDMA-CM-28]
    let mut w = World::new(RdmaSettings { connections: 0, ..RdmaSettings::default() }, |_| {});
    w.connect(settings());
    w.until(|w| w.events.iter().any(|(_, e)| matches!(e, Event::Failed(_))));
    let Some((_, Event::Failed(e))) = w.events.last() else { panic!("{:?}", w.events) };
    assert_eq!(e.to_string(), "queue 0: the controller refuses the queue: No Resources (STS 06h)");
}
