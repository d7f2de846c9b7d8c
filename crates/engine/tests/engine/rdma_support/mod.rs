//! A device without a wire, and a controller of a few lines behind it that does what the test says. Its own idea of the bytes: no
//! layouts of the code but the SQE's and Identify's.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use bytes::Bytes;
use nvmf_engine::host::{Event, HostError, HostSettings};
use nvmf_engine::rdma::{HostId, Initiator};
use nvmf_seam::Instant;
use nvmf_seam::rdma::{
    Accept, Accepted, Access, Ask, CmEvent, Completion, Device, DeviceError, DeviceEvent, Done, Limits, Memory, QpId, Remote, Rkey,
    Work, WorkError, WorkId,
};
use nvmf_wire::{IdentifyController, Nsid, Qid};

pub const T0: Instant = Instant(1_000_000_000);
pub const TARGET: &str = "10.0.0.5:4420";

/// A queue pair of the host.
#[derive(Default)]
pub struct Qp {
    pub ask: Option<Ask>,
    pub receives: VecDeque<(WorkId, u32)>,
    /// SENDs not yet taken by the controller.
    pub capsules: VecDeque<Vec<u8>>,
    /// SENDs whose completion is held back.
    pub unacknowledged: VecDeque<WorkId>,
    pub disconnects: usize,
    pub error: bool,
}

/// A device whose other end is the test.
pub struct Bench {
    pub limits: Limits,
    pub qps: BTreeMap<QpId, Qp>,
    pub destroyed: Vec<QpId>,
    pub regions: BTreeMap<u32, (Memory, Access)>,
    pub events: VecDeque<(QpId, DeviceEvent)>,
    /// What happened, for the order of it.
    pub log: Vec<String>,
    /// Completions of SENDs are held back until `acknowledge`.
    pub hold_sends: bool,
    pub refuse: Option<DeviceError>,
    /// Work of this kind is not taken.
    pub full: Option<&'static str>,
    /// Nothing is heard of work any more.
    pub mute: bool,
    /// Copies everything through a buffer of its own, as a driver without direct access does.
    pub bounce: bool,
    next: u32,
}

/// Regions begin at this address plus their key, so that neither 0 nor the key will do.
const BASE: u64 = 0x7f00_0000_0000;

impl Bench {
    pub fn new() -> Self {
        let limits =
            Limits { work: 4096, reads: 16, transfer: 1 << 30, region: 1 << 30, sends_invalidate: true, takes_invalidate: true };
        Self {
            limits,
            qps: BTreeMap::new(),
            destroyed: Vec::new(),
            regions: BTreeMap::new(),
            events: VecDeque::new(),
            log: Vec::new(),
            hold_sends: false,
            refuse: None,
            full: None,
            mute: false,
            bounce: false,
            next: 1,
        }
    }

    pub fn cm(&mut self, qp: QpId, event: CmEvent) {
        self.events.push_back((qp, DeviceEvent::Cm(event)));
    }

    pub fn complete(&mut self, qp: QpId, id: WorkId, result: Result<Done, WorkError>) {
        if !self.mute {
            self.events.push_back((qp, DeviceEvent::Completed(Completion { id, result })));
        }
    }

    /// The controller agrees.
    pub fn accept_host(&mut self, qp: QpId, change: impl FnOnce(&mut [u8; 196], &mut Accepted)) {
        let ask = self.qps[&qp].ask.clone().unwrap();
        let mut private = [0; 196];
        // CRQSIZE as Linux says it: HSQSIZE + 1.
        let hsqsize = u16::from_le_bytes([ask.private[6], ask.private[7]]);
        private[2..4].copy_from_slice(&(hsqsize + 1).to_le_bytes());
        let mut accepted = Accepted {
            private: Bytes::new(),
            responder_resources: 0,
            initiator_depth: ask.responder_resources,
            rnr_retry_count: ask.rnr_retry_count,
        };
        change(&mut private, &mut accepted);
        accepted.private = Bytes::copy_from_slice(&private);
        self.cm(qp, CmEvent::Accepted(accepted));
    }

    /// SENDs bytes to the host.
    pub fn send(&mut self, qp: QpId, bytes: &[u8], invalidate: Option<u32>) {
        let Some(q) = self.qps.get_mut(&qp) else { return };
        let (id, len) = q.receives.pop_front().expect("a receive for every response");
        if bytes.len() > len as usize {
            q.error = true;
            return self.complete(qp, id, Err(WorkError::Length));
        }
        let invalidated = invalidate.map(Rkey);
        self.complete(qp, id, Ok(Done::Received { data: Bytes::copy_from_slice(bytes), invalidated }));
    }

    /// The NIC's acknowledgements of SENDs come at last.
    pub fn acknowledge(&mut self, qp: QpId) {
        let ids: Vec<WorkId> = self.qps.get_mut(&qp).unwrap().unacknowledged.drain(..).collect();
        ids.into_iter().for_each(|id| self.complete(qp, id, Ok(Done::Sent)));
    }

    /// DREQ of the controller.
    pub fn disconnect_by_peer(&mut self, qp: QpId) {
        let q = self.qps.get_mut(&qp).unwrap();
        q.error = true;
        q.receives.clear();
        self.log.push("DREQ".into());
        self.cm(qp, CmEvent::Disconnected);
    }

    /// A receive that is posted for a queue.
    pub fn any_receive(&self, qid: u16) -> WorkId {
        let q = self.qps.values().find(|q| q.ask.as_ref().unwrap().private[2..4] == qid.to_le_bytes());
        q.unwrap().receives[0].0
    }

    fn reach(&mut self, key: u32, addr: u64, len: usize, write: bool) -> Option<(&mut Memory, usize)> {
        let (memory, access) = self.regions.get_mut(&key)?;
        let at = usize::try_from(addr.checked_sub(BASE + u64::from(key))?).ok()?;
        let allowed = if write { access.write } else { access.read };
        (allowed && at.checked_add(len)? <= memory.len()).then_some((memory, at))
    }

    /// RDMA READ by the controller.
    pub fn read(&mut self, key: u32, addr: u64, len: usize) -> Option<Bytes> {
        self.log.push(format!("READ {len}"));
        let bounce = self.bounce;
        let (memory, at) = self.reach(key, addr, len, false)?;
        if bounce {
            memory.touch(len);
        }
        memory.slice(at, len)
    }

    /// RDMA WRITE by the controller.
    pub fn write(&mut self, key: u32, addr: u64, bytes: &[u8]) -> bool {
        self.log.push(format!("WRITE {}", bytes.len()));
        let bounce = self.bounce;
        let Some((memory, at)) = self.reach(key, addr, bytes.len(), true) else { return false };
        memory.as_mut_slice().unwrap()[at..at + bytes.len()].copy_from_slice(bytes);
        if bounce {
            memory.touch(bytes.len());
        }
        true
    }
}

impl Device for Bench {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn listen(&mut self, _: u16) -> Result<(), DeviceError> {
        Err(DeviceError::State)
    }

    fn connect(&mut self, _: Instant, to: SocketAddr, ask: &Ask) -> Result<QpId, DeviceError> {
        assert_eq!(to, TARGET.parse().unwrap());
        if let Some(e) = &self.refuse {
            return Err(e.clone());
        }
        let qp = QpId(self.next);
        self.next += 1;
        self.qps.insert(qp, Qp { ask: Some(ask.clone()), ..Qp::default() });
        Ok(qp)
    }

    fn accept(&mut self, _: Instant, _: QpId, _: &Accept) -> Result<(), DeviceError> {
        Err(DeviceError::State)
    }

    fn reject(&mut self, _: Instant, _: QpId, _: &[u8]) -> Result<(), DeviceError> {
        Err(DeviceError::State)
    }

    fn disconnect(&mut self, _: Instant, qp: QpId) {
        let Some(q) = self.qps.get_mut(&qp) else { return };
        q.disconnects += 1;
        if q.disconnects == 1 {
            self.log.push("DREQ".into());
            let flushed: Vec<WorkId> = q.receives.drain(..).map(|(id, _)| id).chain(q.unacknowledged.drain(..)).collect();
            flushed.into_iter().for_each(|id| self.complete(qp, id, Err(WorkError::Flushed)));
            self.cm(qp, CmEvent::Disconnected);
        }
    }

    fn destroy(&mut self, _: Instant, qp: QpId) {
        assert!(self.qps.remove(&qp).is_some(), "destroyed once");
        self.destroyed.push(qp);
    }

    fn post(&mut self, _: Instant, qp: QpId, work: Work) -> Result<(), DeviceError> {
        let Some(q) = self.qps.get_mut(&qp) else { return Err(DeviceError::State) };
        let id = work.id();
        let kind = match work {
            Work::Send { .. } => "SEND",
            Work::Register { .. } => "REGISTER",
            Work::Invalidate { .. } => "INVALIDATE",
            _ => "",
        };
        if self.full == Some(kind) {
            return Err(DeviceError::Full("work requests"));
        }
        match work {
            Work::Receive { len, .. } => q.receives.push_back((id, len)),
            _ if q.error || q.disconnects > 0 => self.complete(qp, id, Err(WorkError::Flushed)),
            Work::Send { head, payload, invalidate, .. } => {
                assert_eq!(invalidate, None, "hosts do not invalidate remotely");
                self.log.push("SEND".into());
                q.capsules.push_back([head.as_slice(), &payload].concat());
                q.unacknowledged.push_back(id);
                if !self.hold_sends {
                    self.acknowledge(qp);
                }
            }
            Work::Register { memory, access, .. } => {
                self.log.push("REGISTER".into());
                let key = self.next << 8 | 0x5a;
                self.next += 1;
                self.regions.insert(key, (memory, access));
                self.complete(qp, id, Ok(Done::Registered(Remote { addr: BASE + u64::from(key), key: Rkey(key) })));
            }
            Work::Invalidate { key, .. } => {
                self.log.push("INVALIDATE".into());
                let result = self.regions.remove(&key.0).map(|(m, _)| Done::Invalidated(m)).ok_or(WorkError::NoSuchKey);
                self.complete(qp, id, result);
            }
            Work::Read { .. } | Work::Write { .. } => panic!("hosts issue neither READ nor WRITE [RDMA-CM-06, RDMA-DATA-04]"),
        }
        Ok(())
    }

    fn deregister(&mut self, key: Rkey) -> Option<Memory> {
        self.log.push("DEREGISTER".into());
        self.regions.remove(&key.0).map(|(m, _)| m)
    }

    fn poll_event(&mut self) -> Option<(QpId, DeviceEvent)> {
        self.events.pop_front()
    }
}

/// A command capsule as the controller sees it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub qp: QpId,
    pub qid: u16,
    pub capsule: Vec<u8>,
}

impl Seen {
    pub fn opc(&self) -> u8 {
        self.capsule[0]
    }

    pub fn fctype(&self) -> u8 {
        self.capsule[4]
    }

    pub fn cid(&self) -> u16 {
        u16::from_le_bytes([self.capsule[2], self.capsule[3]])
    }

    fn byte(&self, at: usize) -> u8 {
        self.capsule[at]
    }

    /// Type and sub type of SGL Entry 1.
    pub fn sgl(&self) -> u8 {
        self.capsule[39]
    }

    pub fn descriptor(&self, at: usize) -> (u64, usize, u32, u8) {
        let d = &self.capsule[at..at + 16];
        let len = u32::from_le_bytes([d[8], d[9], d[10], 0]) as usize;
        (u64::from_le_bytes(d[..8].try_into().unwrap()), len, u32::from_le_bytes(d[11..15].try_into().unwrap()), d[15])
    }

    /// Keyed descriptors: address, length, key, type.
    pub fn descriptors(&self) -> Vec<(u64, usize, u32, u8)> {
        match self.sgl() {
            0x40 | 0x4f => vec![self.descriptor(24)],
            0x31 => {
                let (offset, len) = (self.descriptor(24).0 as usize, u32::from_le_bytes(self.capsule[32..36].try_into().unwrap()));
                (0..len as usize / 16).map(|n| self.descriptor(64 + offset + n * 16)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// 16 bytes of a response; `status` is the 15-bit field.
pub fn cqe(cid: u16, sqhd: u16, value: u64, status: u16) -> [u8; 16] {
    let mut b = [0; 16];
    b[..8].copy_from_slice(&value.to_le_bytes());
    b[8..10].copy_from_slice(&sqhd.to_le_bytes());
    b[12..14].copy_from_slice(&cid.to_le_bytes());
    b[14..].copy_from_slice(&(status << 1).to_le_bytes());
    b
}

pub type Oddity = Box<dyn FnMut(&Seen, &mut Bench) -> bool>;

/// A host, and a controller that is ready at once, with a store of 64 MiB in blocks of 512.
pub struct Rig {
    pub initiator: Initiator<Bench>,
    pub id: HostId,
    pub now: Instant,
    pub identify: IdentifyController,
    pub store: Vec<u8>,
    pub seen: Vec<Seen>,
    pub events: Vec<Event>,
    /// Takes a command away from the plain controller.
    pub odd: Oddity,
    /// Invalidates where it is asked to.
    pub invalidates: bool,
    sqhd: BTreeMap<QpId, u16>,
    enabled: bool,
    shut: bool,
}

pub fn settings() -> HostSettings {
    HostSettings::new("nqn.2014-08.org.example:host", [1; 16], "nqn.2014-08.org.example:subsystem")
}

impl Rig {
    pub fn new(settings: HostSettings) -> Self {
        Self::on(Bench::new(), settings)
    }

    pub fn on(bench: Bench, settings: HostSettings) -> Self {
        let mut initiator = Initiator::new(bench);
        let id = initiator.connect(TARGET.parse().unwrap(), settings, T0);
        let identify = IdentifyController::new()
            .with(|s| s.ioccsz(260).iorcsz(1).sgls_support(1).sgls_keyed(true).sgls_offset(true).msdbd(16));
        Self {
            initiator,
            id,
            now: T0,
            identify,
            store: vec![0; 64 << 20],
            seen: Vec::new(),
            events: Vec::new(),
            odd: Box::new(|_, _| false),
            invalidates: true,
            sqhd: BTreeMap::new(),
            enabled: false,
            shut: false,
        }
    }

    /// Ready, with one I/O queue.
    pub fn ready() -> Self {
        Self::ready_with(settings())
    }

    pub fn ready_with(settings: HostSettings) -> Self {
        let mut r = Self::new(settings);
        r.run();
        assert!(r.events.iter().any(|e| matches!(e, Event::Ready)), "{:?} {:?} {:?}", r.events, r.initiator.device().log, r.seen);
        r
    }

    pub fn bench(&mut self) -> &mut Bench {
        self.initiator.device_mut()
    }

    pub fn qp(&mut self, qid: u16) -> QpId {
        let found = self.bench().qps.iter().find(|(_, q)| q.ask.as_ref().unwrap().private[2..4] == qid.to_le_bytes());
        *found.expect("a connection of this queue").0
    }

    pub fn turn(&mut self) {
        self.initiator.turn(self.now);
        while let Some((_, e)) = self.initiator.poll_event() {
            self.events.push(e);
        }
    }

    /// Agrees to every REQ, serves every capsule, until nothing happens.
    pub fn run(&mut self) {
        loop {
            self.turn();
            let known = &self.sqhd;
            let qps = self.initiator.device().qps.keys();
            let asking: Vec<QpId> = qps.filter(|q| !known.contains_key(q)).copied().collect();
            for qp in &asking {
                self.sqhd.insert(*qp, 0);
                self.bench().accept_host(*qp, |_, _| {});
            }
            if !self.serve() && asking.is_empty() {
                break;
            }
        }
    }

    /// The same for queues whose REQ the test answered itself, up to the REQ of the next one.
    pub fn run_from(&mut self, qid: u16) {
        let qp = self.qp(qid);
        self.sqhd.insert(qp, 0);
        self.turn();
        while self.serve() {
            self.turn();
        }
    }

    /// Serves the capsules that are there.
    pub fn serve(&mut self) -> bool {
        let mut any = false;
        let qps: Vec<QpId> = self.bench().qps.keys().copied().collect();
        for qp in qps {
            while let Some(capsule) = self.bench().qps.get_mut(&qp).and_then(|q| q.capsules.pop_front()) {
                any = true;
                let private = self.bench().qps[&qp].ask.as_ref().unwrap().private.clone();
                let seen = Seen { qp, qid: u16::from_le_bytes([private[2], private[3]]), capsule };
                self.seen.push(seen.clone());
                let mut odd = std::mem::replace(&mut self.odd, Box::new(|_, _| false));
                if !odd(&seen, self.bench()) {
                    self.answer(&seen);
                }
                self.odd = odd;
            }
        }
        any
    }

    /// As a plain controller does.
    pub fn answer(&mut self, c: &Seen) {
        let (value, status) = match (c.opc(), c.fctype()) {
            (0x7f, 0) => {
                self.enabled = c.byte(48) & 1 == 1;
                self.shut = c.byte(49) & 0xc0 == 0x40;
                (0, 0)
            }
            (0x7f, 1) => {
                let data = self.fetch(c, 1024).expect("the Connect's data");
                assert_eq!(&data[512..538], b"nqn.2014-08.org.example:ho" as &[u8], "HOSTNQN after SUBNQN",);
                (5, 0)
            }
            (0x7f, 4) => match c.byte(44) {
                0 => (0x20_0100_001f, 0),
                8 => (0x0002_0000, 0),
                _ => (u64::from(self.enabled) | if self.shut { 8 } else { 0 }, 0),
            },
            (0x0c, _) if c.qid == 0 => return,
            (0x09, _) if c.qid == 0 => (if c.byte(40) == 7 { 0x0001_0001 } else { 0 }, 0),
            (0x06, _) if c.qid == 0 => {
                let data = self.identify.as_bytes().to_vec();
                (0, if self.put(c, &data) { 0 } else { 4 })
            }
            (1, _) => {
                let (at, len) = range(c);
                match self.fetch(c, len) {
                    Some(data) => {
                        self.store[at..at + len].copy_from_slice(&data);
                        (0, 0)
                    }
                    None => (0, 4),
                }
            }
            (2, _) => {
                let (at, len) = range(c);
                let data = self.store[at..at + len].to_vec();
                (0, if self.put(c, &data) { 0 } else { 4 })
            }
            (0x7f, _) => (0, 0),
            _ => (0, 0),
        };
        self.respond(c, value, status);
    }

    /// The response of a command, with its key where the host wants it invalidated.
    pub fn respond(&mut self, c: &Seen, value: u64, status: u16) {
        let head = self.sqhd.entry(c.qp).or_default();
        let entries = u32::from(u16::from_le_bytes(
            self.initiator.device().qps[&c.qp].ask.as_ref().unwrap().private[6..8].try_into().unwrap(),
        )) + 1;
        *head = ((u32::from(*head) + 1) % entries) as u16;
        let bytes = cqe(c.cid(), *head, value, status);
        let key = c.descriptors().last().filter(|d| d.3 == 0x4f).map(|d| d.2);
        let invalidate = key.filter(|_| self.invalidates);
        self.bench().send(c.qp, &bytes, invalidate);
    }

    /// READs the data of a command, or takes it from the capsule.
    pub fn fetch(&mut self, c: &Seen, len: usize) -> Option<Vec<u8>> {
        if c.sgl() == 1 {
            let (at, n) = (c.descriptor(24).0 as usize, u32::from_le_bytes(c.capsule[32..36].try_into().unwrap()) as usize);
            assert_eq!((n, c.capsule.len()), (len, 64 + at + n));
            return Some(c.capsule[64 + at..].to_vec());
        }
        let mut all = Vec::new();
        for (addr, n, key, _) in c.descriptors() {
            all.extend_from_slice(&self.bench().read(key, addr, n)?);
        }
        assert_eq!(all.len(), len);
        Some(all)
    }

    pub fn put(&mut self, c: &Seen, data: &[u8]) -> bool {
        let mut rest = data;
        for (addr, n, key, _) in c.descriptors() {
            let (now, behind) = rest.split_at(n);
            if !self.bench().write(key, addr, now) {
                return false;
            }
            rest = behind;
        }
        assert!(rest.is_empty());
        true
    }

    pub fn completions(&mut self) -> Vec<nvmf_engine::host::Completion> {
        let events = std::mem::take(&mut self.events);
        let (done, rest): (Vec<_>, Vec<_>) = events.into_iter().partition(|e| matches!(e, Event::Completed(..)));
        self.events = rest;
        done.into_iter()
            .filter_map(|e| match e {
                Event::Completed(_, c) => Some(c),
                _ => None,
            })
            .collect()
    }

    pub fn submit(&mut self, sqe: nvmf_wire::Sqe, payload: nvmf_engine::host::Payload) -> nvmf_wire::Cid {
        let (id, now) = (self.id, self.now);
        self.initiator.host_mut(id).unwrap().submit(Qid(1), sqe, payload, now).expect("a place")
    }

    pub fn failure(&self) -> &HostError {
        let found: Vec<&HostError> = self
            .events
            .iter()
            .filter_map(|e| match e {
                Event::Failed(e) => Some(e),
                _ => None,
            })
            .collect();
        assert_eq!(found.len(), 1, "{:?}", self.events);
        found[0]
    }

    /// Everything was given back, and the device knows no connection any more.
    pub fn is_clean(&mut self) {
        self.turn();
        assert!(self.initiator.host(self.id).unwrap().connections().next().is_none());
        let bench = self.bench();
        assert!(bench.qps.is_empty() && bench.regions.is_empty(), "{} {}", bench.qps.len(), bench.regions.len());
    }

    pub fn violations(&self) -> Vec<&'static str> {
        self.events
            .iter()
            .filter_map(|e| match e {
                Event::Violation(_, v) => Some(v.requirement.id),
                _ => None,
            })
            .collect()
    }
}

/// Where a Read or Write is in the store.
fn range(c: &Seen) -> (usize, usize) {
    let slba = u64::from_le_bytes(c.capsule[40..48].try_into().unwrap()) as usize;
    let nlb = usize::from(u16::from_le_bytes([c.capsule[48], c.capsule[49]])) + 1;
    (slba * 512, nlb * 512)
}

pub const NS: Nsid = Nsid(1);
