//! A host made of work requests: capsules and regions by hand, over two software NICs, with a target and a hub behind the other one.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use nvmf_engine::controller::{Hub, HubEvent, Port, PortTransport};
use nvmf_engine::message::ConnectionId;
use nvmf_engine::queue::{CloseReason, StoreRequest};
use nvmf_engine::rdma::{Target, TargetEvent};
use nvmf_engine::{ControllerSettings, RdmaSettings};
use nvmf_roce::testing::Pair;
use nvmf_roce::{Nic, NicSettings};
use nvmf_seam::rdma::{
    Accept, Accepted, Access, Ask, CmEvent, Completion, Device, DeviceError, DeviceEvent, Done, Limits, Memory, QpId, Remote, Rkey,
    Work, WorkError, WorkId,
};
use nvmf_seam::{Head, Instant};
use nvmf_wire::property::Property;
use nvmf_wire::rdma::RdmaRequest;
use nvmf_wire::sgl::{SglKeyed, SglSubtype, SglType};
use nvmf_wire::{Cid, Cntlid, Cqe, Qid, SglDescriptor, Sqe, Status, ZeroBased16};

use crate::common::{self, SUBNQN};

pub struct Rig {
    pub pair: Pair,
    pub target: Target<Spy>,
    pub hub: Hub,
    pub next: u64,
    pub queues: BTreeMap<QpId, Queue>,
    pub events: Vec<TargetEvent>,
    pub hub_events: Vec<HubEvent>,
    /// Store requests are kept back until this is false again.
    pub hold_stores: bool,
    kept: Vec<(ConnectionId, StoreRequest)>,
    next_work: u64,
}

/// A queue pair of the host, and what came of it.
pub struct Queue {
    /// The target's number of it.
    pub id: ConnectionId,
    pub accepted: Option<Accepted>,
    pub rejected: Option<(u16, Bytes)>,
    pub over: bool,
    /// Responses, each with the key that it invalidated.
    pub responses: VecDeque<(Cqe, Option<Rkey>)>,
    pub done: BTreeMap<u64, Result<Done, WorkError>>,
    pub errors: Vec<WorkError>,
    pub next_cid: u16,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            id: ConnectionId(0),
            accepted: None,
            rejected: None,
            over: false,
            responses: VecDeque::new(),
            done: BTreeMap::new(),
            errors: Vec::new(),
            next_cid: 0,
        }
    }
}

/// What a REQ says.
#[derive(Clone)]
pub struct Req {
    pub qid: u16,
    pub hrqsize: u16,
    pub hsqsize: u16,
    pub cntlid: u16,
    pub responder_resources: u8,
}

impl Default for Req {
    fn default() -> Self {
        Self { qid: 0, hrqsize: 32, hsqsize: 31, cntlid: 0, responder_resources: 16 }
    }
}

impl Req {
    pub fn io(qid: u16, cntlid: Cntlid) -> Self {
        Self { qid, cntlid: cntlid.0, ..Self::default() }
    }

    pub fn private(&self) -> RdmaRequest {
        RdmaRequest::new()
            .with(|r| r.qid(Qid(self.qid)).hrqsize(self.hrqsize).hsqsize(ZeroBased16(self.hsqsize)).cntlid(Cntlid(self.cntlid)))
    }
}

/// A NIC of which is known what work it has.
pub struct Spy {
    pub nic: Nic,
    /// It takes no receives.
    pub full: bool,
    /// READs, WRITEs and SENDs that are out, by queue pair and number.
    out: BTreeMap<(QpId, WorkId), &'static str>,
    /// Most of each kind at a time on one queue pair.
    pub most: BTreeMap<&'static str, usize>,
    /// Of each kind so far.
    pub count: BTreeMap<&'static str, usize>,
}

impl Spy {
    fn new(nic: Nic) -> Self {
        Self { nic, full: false, out: BTreeMap::new(), most: BTreeMap::new(), count: BTreeMap::new() }
    }

    pub fn out(&self, kind: &str) -> usize {
        self.out.values().filter(|k| **k == kind).count()
    }
}

impl Device for Spy {
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
        self.out.retain(|(q, _), _| *q != qp);
        self.nic.destroy(now, qp);
    }

    fn post(&mut self, now: Instant, qp: QpId, work: Work) -> Result<(), DeviceError> {
        let kind = match &work {
            Work::Receive { .. } if self.full => return Err(DeviceError::Full("receives")),
            Work::Receive { .. } => None,
            Work::Send { .. } => Some("send"),
            Work::Read { .. } => Some("read"),
            Work::Write { .. } => Some("write"),
            other => panic!("{other:?}"),
        };
        let id = work.id();
        self.nic.post(now, qp, work)?;
        if let Some(kind) = kind {
            assert!(kind == "write" || self.out.insert((qp, id), kind).is_none(), "a number in use");
            let n = self.out.iter().filter(|((q, _), k)| *q == qp && **k == kind).count();
            let most = self.most.entry(kind).or_default();
            *most = n.max(*most);
            *self.count.entry(kind).or_default() += 1;
        }
        Ok(())
    }

    fn deregister(&mut self, key: Rkey) -> Option<Memory> {
        self.nic.deregister(key)
    }

    fn poll_event(&mut self) -> Option<(QpId, DeviceEvent)> {
        let (qp, event) = self.nic.poll_event()?;
        if let DeviceEvent::Completed(c) = &event {
            self.out.remove(&(qp, c.id));
        }
        Some((qp, event))
    }
}

const PATIENCE: Duration = Duration::from_secs(120);

impl Rig {
    pub fn new(controllers: ControllerSettings, rdma: RdmaSettings, nics: impl Fn(&mut NicSettings)) -> Self {
        let mut pair = Pair::new(1, nics);
        let spare = Nic::new(NicSettings::new([10, 0, 0, 9].into()), 99);
        let nic = std::mem::replace(&mut pair.nics[1], spare);
        let mut hub = Hub::new(controllers);
        hub.add_subsystem(SUBNQN, None).unwrap();
        hub.add_namespace(SUBNQN, 1, common::new_namespace()).unwrap();
        let transport = PortTransport::Rdma(rdma.capsules);
        hub.add_port(Port { id: 1, advertise: Self::address(), discovery_only: false, transport }).unwrap();
        let mut target = Target::new(Spy::new(nic), rdma);
        target.listen(4420, 1).unwrap();
        Self {
            pair,
            target,
            hub,
            next: 1000,
            queues: BTreeMap::new(),
            events: Vec::new(),
            hub_events: Vec::new(),
            hold_stores: false,
            kept: Vec::new(),
            next_work: 1,
        }
    }

    pub fn address() -> SocketAddr {
        SocketAddr::new(Pair::ADDRESSES[1], 4420)
    }

    /// Everything that happens without time going on.
    pub fn settle(&mut self) {
        loop {
            let now = self.pair.now;
            std::mem::swap(&mut self.pair.nics[1], &mut self.target.device.nic);
            let mut moved = self.pair.settle();
            std::mem::swap(&mut self.pair.nics[1], &mut self.target.device.nic);
            if self.target.poll_timeout().is_some_and(|at| at <= now) {
                self.target.handle_timeout(now);
                moved = true;
            }
            if self.hub.poll_timeout().is_some_and(|at| at <= now) {
                self.hub.handle_timeout(now);
                moved = true;
            }
            self.target.turn(now, &mut self.hub, &mut self.next);
            while let Some(r) = self.target.poll_store() {
                self.kept.push(r);
            }
            if !self.hold_stores {
                for (to, r) in self.kept.drain(..) {
                    self.target.handle_store(now, to, r.execute());
                    moved = true;
                }
            }
            // There are none but ours, and those that are over.
            while self.target.poll_other().is_some() {}
            self.events.extend(std::iter::from_fn(|| self.target.poll_event()));
            self.hub_events.extend(std::iter::from_fn(|| self.hub.poll_event()));
            moved |= self.host_events();
            if !moved {
                return;
            }
        }
    }

    fn host_events(&mut self) -> bool {
        let mut moved = false;
        while let Some((qp, event)) = self.pair.nics[0].poll_event() {
            moved = true;
            let q = self.queues.entry(qp).or_default();
            match event {
                DeviceEvent::Cm(CmEvent::Accepted(a)) => q.accepted = Some(a),
                DeviceEvent::Cm(CmEvent::Rejected { reason, private }) => q.rejected = Some((reason, private)),
                DeviceEvent::Cm(_) => q.over = true,
                DeviceEvent::Completed(Completion { result: Ok(Done::Received { data, invalidated }), .. }) => {
                    let cqe = Cqe::read(&data).expect("16 bytes");
                    assert_eq!(data.len(), 16);
                    q.responses.push_back((cqe, invalidated));
                }
                DeviceEvent::Completed(Completion { id, result }) => {
                    q.errors.extend(result.as_ref().err().filter(|e| **e != WorkError::Flushed));
                    q.done.insert(id.0, result);
                }
            }
        }
        moved
    }

    /// Settles and lets time go on until `done`; false where that is not within two minutes.
    pub fn until(&mut self, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.pair.now + PATIENCE;
        loop {
            self.settle();
            if done(self) {
                return true;
            }
            match self.due() {
                Some(at) if at <= end => self.pair.now = self.pair.now.max(at),
                _ => return false,
            }
        }
    }

    /// When something happens next.
    fn due(&mut self) -> Option<Instant> {
        let now = self.pair.now;
        std::mem::swap(&mut self.pair.nics[1], &mut self.target.device.nic);
        let wire = self.pair.advance().then_some(self.pair.now);
        std::mem::swap(&mut self.pair.nics[1], &mut self.target.device.nic);
        self.pair.now = now;
        [wire, self.target.poll_timeout(), self.hub.poll_timeout()].into_iter().flatten().min()
    }

    /// Time goes on.
    pub fn pass(&mut self, by: Duration) {
        let end = self.pair.now + by;
        self.until(|r| r.due().is_none_or(|at| at > end));
        self.pair.now = self.pair.now.max(end);
        self.settle();
    }

    /// Asks for a connection, and posts `hrqsize` receives.
    pub fn ask(&mut self, req: &Req, private: &[u8]) -> QpId {
        let ask = Ask {
            private: Bytes::copy_from_slice(private),
            responder_resources: req.responder_resources,
            initiator_depth: 0,
            ..Pair::ask()
        };
        let now = self.pair.now;
        let qp = self.pair.nics[0].connect(now, Self::address(), &ask).unwrap();
        self.queues.entry(qp).or_default().next_cid = 1;
        for _ in 0..req.hrqsize {
            self.receive(qp);
        }
        qp
    }

    pub fn open(&mut self, req: &Req) -> QpId {
        let qp = self.ask(req, req.private().as_bytes());
        assert!(self.until(|r| r.queues[&qp].accepted.is_some()), "{:?}", self.queues[&qp].rejected);
        self.queues.get_mut(&qp).unwrap().id = ConnectionId(self.next - 1);
        qp
    }

    /// Reason and STS of the refusal.
    pub fn refused(&mut self, req: &Req, private: &[u8]) -> (u16, u16) {
        let qp = self.ask(req, private);
        assert!(self.until(|r| r.queues[&qp].rejected.is_some()));
        let (reason, private) = self.queues[&qp].rejected.clone().unwrap();
        assert_eq!(private[..2], [0, 0], "RECFMT");
        (reason, u16::from_le_bytes([private[2], private[3]]))
    }

    /// Why the target closed a connection, once it is over on both sides.
    #[track_caller]
    pub fn closed(&mut self, qp: QpId) -> CloseReason {
        let id = self.queues[&qp].id;
        let reason = |r: &Self| {
            r.events.iter().find_map(|e| match e {
                TargetEvent::Closed { connection, reason } if *connection == id => Some(*reason),
                _ => None,
            })
        };
        assert!(self.until(|r| r.queues[&qp].over && reason(r).is_some()), "still up: {:?}", self.events);
        reason(self).unwrap()
    }

    pub fn receive(&mut self, qp: QpId) {
        let id = self.work_id();
        self.post(qp, Work::Receive { id, len: 16 });
    }

    pub fn work_id(&mut self) -> WorkId {
        self.next_work += 1;
        WorkId(self.next_work)
    }

    pub fn post(&mut self, qp: QpId, work: Work) {
        let now = self.pair.now;
        self.pair.nics[0].post(now, qp, work).unwrap();
    }

    /// SEND of these bytes.
    pub fn send(&mut self, qp: QpId, head: &[u8], payload: Bytes) {
        let id = self.work_id();
        self.post(qp, Work::Send { id, head: Head::new(head), payload, invalidate: None });
    }

    pub fn register(&mut self, qp: QpId, memory: Memory, access: Access) -> Region {
        let id = self.work_id();
        let len = memory.len() as u32;
        self.post(qp, Work::Register { id, memory, access });
        self.settle();
        match self.queues.get_mut(&qp).unwrap().done.remove(&id.0) {
            Some(Ok(Done::Registered(at))) => Region { at, len },
            other => panic!("{other:?}"),
        }
    }

    /// As [`Rig::readable`], on a queue pair that may be in error.
    pub fn try_readable(&mut self, qp: QpId, bytes: Bytes) -> Option<Region> {
        let id = self.work_id();
        let (now, len) = (self.pair.now, bytes.len() as u32);
        let work = Work::Register { id, memory: Memory::shared(bytes), access: Access { read: true, write: false } };
        self.pair.nics[0].post(now, qp, work).ok()?;
        self.settle();
        match self.queues.get_mut(&qp)?.done.remove(&id.0) {
            Some(Ok(Done::Registered(at))) => Some(Region { at, len }),
            _ => None,
        }
    }

    pub fn readable(&mut self, qp: QpId, bytes: Bytes) -> Region {
        self.register(qp, Memory::shared(bytes), Access { read: true, write: false })
    }

    pub fn writable(&mut self, qp: QpId, len: usize) -> Region {
        self.register(qp, Memory::zeroed(len), Access { read: false, write: true })
    }

    /// Takes a region back, and what is in it.
    pub fn take(&mut self, region: Region) -> Bytes {
        self.pair.nics[0].deregister(region.at.key).expect("a region").into_bytes()
    }

    pub fn cid(&mut self, qp: QpId) -> Cid {
        let q = self.queues.get_mut(&qp).unwrap();
        q.next_cid += 1;
        Cid(q.next_cid)
    }

    pub fn submit(&mut self, qp: QpId, sqe: Sqe, behind: Bytes) -> Cid {
        let cid = self.cid(qp);
        self.send(qp, sqe.with(|s| s.cid(cid)).as_bytes(), behind);
        cid
    }

    /// The response of a command.
    #[track_caller]
    pub fn end_of(&mut self, qp: QpId, cid: Cid) -> (Cqe, Option<Rkey>) {
        assert!(self.until(|r| r.queues[&qp].responses.iter().any(|(c, _)| c.cid() == cid)), "no response for {cid:?}");
        let q = self.queues.get_mut(&qp).unwrap();
        let at = q.responses.iter().position(|(c, _)| c.cid() == cid).unwrap();
        let end = q.responses.remove(at).unwrap();
        self.receive(qp);
        end
    }

    #[track_caller]
    pub fn command(&mut self, qp: QpId, sqe: Sqe, behind: Bytes) -> (Cqe, Option<Rkey>) {
        let cid = self.submit(qp, sqe, behind);
        self.end_of(qp, cid)
    }

    #[track_caller]
    pub fn status(&mut self, qp: QpId, sqe: Sqe, behind: Bytes) -> Status {
        self.command(qp, sqe, behind).0.status().code()
    }

    /// A connected Admin Queue; its Connect data is fetched by a READ.
    pub fn admin(&mut self) -> (QpId, Cntlid) {
        let qp = self.open(&Req::default());
        let (sqe, data) = common::connect(0, 31, 120_000, Cntlid::DYNAMIC);
        let region = self.readable(qp, data);
        let (cqe, _) = self.command(qp, sqe.with_sgl1(region.sgl()), Bytes::new());
        assert_eq!(cqe.status(), Status::SUCCESS);
        (qp, Cntlid(cqe.dw0() as u16))
    }

    pub fn enabled(&mut self) -> (QpId, Cntlid) {
        let (qp, id) = self.admin();
        let set = common::property_set(Property::CC, u64::from(common::enable()));
        assert_eq!(self.status(qp, set, Bytes::new()), Status::SUCCESS);
        (qp, id)
    }

    /// An I/O queue; its Connect data comes in the capsule, as Linux sends it.
    pub fn io_with(&mut self, cntlid: Cntlid, req: &Req) -> QpId {
        let qp = self.open(req);
        let (sqe, data) = common::connect(req.qid, req.hsqsize, 0, cntlid);
        assert_eq!(self.status(qp, sqe, data), Status::SUCCESS);
        qp
    }

    /// An enabled controller with one I/O queue.
    pub fn io(&mut self) -> (QpId, QpId) {
        let (admin, id) = self.enabled();
        (admin, self.io_with(id, &Req::io(1, id)))
    }

    /// What a controller read of memory that is written to: blocks of namespace 1 by a Read.
    pub fn read_back(&mut self, qp: QpId, slba: u64, len: usize) -> Bytes {
        let region = self.writable(qp, len);
        let sqe = common::rw(nvmf_wire::sqe::IoOpcode::READ, 1, slba, (len / 512) as u16, region.sgl());
        assert_eq!(self.status(qp, sqe, Bytes::new()), Status::SUCCESS);
        self.take(region)
    }
}

/// Host memory that the controller reaches.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    pub at: Remote,
    pub len: u32,
}

impl Region {
    pub fn keyed(self, from: u32, len: u32, sub: SglSubtype) -> SglDescriptor {
        let k = SglKeyed::new()
            .with(|s| s.addr(self.at.addr + u64::from(from)).len(len).key(self.at.key.0).kind(SglType::KEYED_DATA_BLOCK).sub(sub));
        SglDescriptor::from_bytes(*k.as_bytes())
    }

    pub fn sgl(self) -> SglDescriptor {
        self.keyed(0, self.len, SglSubtype::ADDRESS)
    }

    pub fn invalidated(self) -> SglDescriptor {
        self.keyed(0, self.len, SglSubtype::INVALIDATE_KEY)
    }
}

/// SGL1 for so many descriptors behind the SQE.
pub fn segment(descriptors: usize) -> SglDescriptor {
    SglDescriptor::new().with(|s| s.len(descriptors as u32 * 16).kind(SglType::LAST_SEGMENT).sub(SglSubtype::OFFSET))
}

pub fn list(all: &[SglDescriptor]) -> Bytes {
    all.iter().flat_map(|d| *d.as_bytes()).collect()
}
