//! A host made of bytes: whole PDUs in, whole PDUs out, with a hub and any number of connections behind it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nvmf_engine::controller::{Hub, HubEvent, NewNamespace, Port, PortTransport};
use nvmf_engine::message::ConnectionId;
use nvmf_engine::store::MemoryStore;
use nvmf_engine::tcp::{CloseReason, ControllerConnection, Event, StoreRequest};
use nvmf_engine::{ControllerSettings, TcpSettings};
use nvmf_seam::Instant;
use nvmf_seam::store::Geometry;
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::nqn::DISCOVERY_NQN;
use nvmf_wire::nvm;
use nvmf_wire::property::{Cc, Property, PropertyGet, PropertySet};
use nvmf_wire::sqe::{FabricsType, IoOpcode};
use nvmf_wire::tcp::{C2hData, CapsuleCmd, CapsuleResp, Digests, Framer, H2cData, IcReq, IcResp, Pdu, PduType, TermReq};
use nvmf_wire::value::Text;
use nvmf_wire::{Cid, Cntlid, Cqe, Nsid, Opcode, Qid, SglDescriptor, Sqe, Status, ZeroBased16, ZeroBased32};

pub const SUBNQN: &str = "nqn.2014-08.org.example:subsystem";
pub const HOSTNQN: &str = "nqn.2014-08.org.example:host";
/// Blocks of namespace 1 (512 bytes) and namespace 3 (4096 bytes).
pub const BLOCKS: u64 = 4096;

pub struct Rig {
    pub hub: Hub,
    pub now: Instant,
    pub tcp: Arc<TcpSettings>,
    links: BTreeMap<u64, Link>,
    next: u64,
    pub events: Vec<HubEvent>,
    /// Store requests are kept back until this is false again.
    pub hold_stores: bool,
    kept: Vec<(u64, StoreRequest)>,
}

struct Link {
    engine: ControllerConnection,
    framer: Framer,
    closed: Option<CloseReason>,
    digests: Digests,
    align: usize,
    next_cid: u16,
}

/// A connection of a [`Rig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conn(pub u64);

impl Default for Rig {
    fn default() -> Self {
        Self::new(ControllerSettings::default(), TcpSettings::default())
    }
}

impl Rig {
    pub fn new(settings: ControllerSettings, tcp: TcpSettings) -> Self {
        let mut hub = Hub::new(settings);
        hub.add_subsystem(SUBNQN, None).unwrap();
        hub.add_namespace(SUBNQN, 1, memory(512)).unwrap();
        hub.add_namespace(SUBNQN, 3, memory(4096)).unwrap();
        hub.add_port(Port {
            id: 1,
            advertise: "192.0.2.1:4420".parse().unwrap(),
            discovery_only: false,
            transport: PortTransport::Tcp,
        })
        .unwrap();
        Self {
            hub,
            now: Instant(1),
            tcp: Arc::new(tcp),
            links: BTreeMap::new(),
            next: 0,
            events: Vec::new(),
            hold_stores: false,
            kept: Vec::new(),
        }
    }

    pub fn open(&mut self) -> Conn {
        self.open_at(1)
    }

    pub fn open_at(&mut self, port: u16) -> Conn {
        let id = self.next;
        self.next += 1;
        self.hub.open(ConnectionId(id), port, None);
        let engine = ControllerConnection::new(self.now, self.tcp.clone());
        let framer = Framer::new(1 << 24);
        let link = Link { engine, framer, closed: None, digests: Digests::default(), align: 4, next_cid: 1 };
        self.links.insert(id, link);
        Conn(id)
    }

    /// Sends bytes and lets everything settle.
    pub fn send(&mut self, c: Conn, bytes: &[u8]) {
        let now = self.now;
        self.link(c).engine.handle_bytes(now, bytes);
        self.settle();
    }

    /// The host closes.
    pub fn hang_up(&mut self, c: Conn) {
        let now = self.now;
        self.link(c).engine.handle_closed(now);
        self.settle();
    }

    /// Time goes on, timers fire in their order.
    pub fn pass(&mut self, by: Duration) {
        let end = self.now + by;
        loop {
            let due = self.links.values().filter_map(|l| l.engine.poll_timeout()).chain(self.hub.poll_timeout()).min();
            match due {
                Some(t) if t <= end => {
                    self.now = self.now.max(t);
                    let now = self.now;
                    self.hub.handle_timeout(now);
                    self.links.values_mut().for_each(|l| l.engine.handle_timeout(now));
                    self.settle();
                }
                _ => break,
            }
        }
        self.now = end;
    }

    /// Runs messages and stores until nothing moves; bytes for the host are collected.
    pub fn settle(&mut self) {
        let now = self.now;
        loop {
            let mut moved = false;
            for (id, l) in &mut self.links {
                while let Some(m) = l.engine.poll_message() {
                    self.hub.handle_message(now, ConnectionId(*id), m);
                    moved = true;
                }
                while let Some(r) = l.engine.poll_store() {
                    self.kept.push((*id, r));
                    moved = true;
                }
                while let Some(t) = l.engine.poll_transmit(now) {
                    l.framer.push(&t.to_bytes());
                    moved = true;
                }
                while let Some(e) = l.engine.poll_event() {
                    if let Event::Close(r) = e {
                        l.closed = Some(r);
                    }
                    moved = true;
                }
            }
            if !self.hold_stores {
                for (id, r) in self.kept.drain(..) {
                    if let Some(l) = self.links.get_mut(&id) {
                        l.engine.handle_store(now, r.execute());
                    }
                    moved = true;
                }
            }
            while let Some((to, m)) = self.hub.poll_message() {
                if let Some(l) = self.links.get_mut(&to.0) {
                    l.engine.handle_message(now, m);
                }
                moved = true;
            }
            while let Some(e) = self.hub.poll_event() {
                self.events.push(e);
            }
            if !moved {
                return;
            }
        }
    }

    fn link(&mut self, c: Conn) -> &mut Link {
        self.links.get_mut(&c.0).unwrap()
    }

    pub fn closed(&mut self, c: Conn) -> Option<CloseReason> {
        self.link(c).closed
    }

    pub fn held(&mut self, c: Conn) -> usize {
        self.link(c).engine.held()
    }

    /// The next PDU for the host, whose digests are checked.
    pub fn pdu(&mut self, c: Conn) -> Option<Pdu> {
        let bytes = self.link(c).framer.next_pdu()?;
        let pdu = Pdu::parse(&bytes).unwrap();
        assert!(pdu.hdgst_ok() && pdu.ddgst_ok(), "a digest of ours is wrong");
        Some(pdu)
    }

    pub fn pdus(&mut self, c: Conn) -> Vec<Pdu> {
        std::iter::from_fn(|| self.pdu(c)).collect()
    }

    /// Sends ICReq and takes the ICResp.
    pub fn init(&mut self, c: Conn, f: impl FnOnce(&mut IcReq)) -> IcResp {
        let mut req = IcReq::new();
        f(&mut req);
        let bytes = ic_req(req);
        self.send(c, &bytes);
        let pdu = self.pdu(c).expect("an ICResp");
        assert_eq!(pdu.ptype(), PduType::IC_RESP);
        let resp = IcResp::read(&pdu.header).unwrap();
        let link = self.link(c);
        link.digests = Digests { header: resp.hdgst(), data: resp.ddgst() };
        link.align = (usize::from(resp.cpda()) + 1) * 4;
        resp
    }

    /// A capsule in the form that the connection negotiated.
    pub fn capsule(&mut self, c: Conn, sqe: Sqe, data: Bytes) -> Vec<u8> {
        let link = self.link(c);
        frame(&capsule_header(&sqe), data, link.digests, link.align)
    }

    pub fn submit(&mut self, c: Conn, sqe: Sqe, data: Bytes) {
        let bytes = self.capsule(c, sqe, data);
        self.send(c, &bytes);
    }

    pub fn cid(&mut self, c: Conn) -> Cid {
        let link = self.link(c);
        link.next_cid += 1;
        Cid(link.next_cid)
    }

    /// Sends a command and takes its end: the CQE (made up for SUCCESS) and the data that came.
    pub fn command(&mut self, c: Conn, sqe: Sqe, data: Bytes) -> (Cqe, Vec<u8>) {
        let cid = self.cid(c);
        let mut b = *sqe.as_bytes();
        b[2..4].copy_from_slice(&cid.0.to_le_bytes());
        self.submit(c, Sqe::from_bytes(b), data);
        self.end_of(c, cid)
    }

    pub fn end_of(&mut self, c: Conn, cid: Cid) -> (Cqe, Vec<u8>) {
        let mut data = Vec::new();
        loop {
            let pdu = self.pdu(c).expect("the end of the command");
            match pdu.ptype() {
                PduType::CAPSULE_RESP => {
                    let cqe = Cqe::from_bytes(CapsuleResp::read(&pdu.header).unwrap().cqe());
                    assert_eq!(cqe.cid(), cid);
                    return (cqe, data);
                }
                PduType::C2H_DATA => {
                    let h = C2hData::read(&pdu.header).unwrap();
                    assert_eq!((h.cccid(), h.datao() as usize, h.datal() as usize), (cid, data.len(), pdu.data.len()));
                    data.extend_from_slice(&pdu.data);
                    if pdu.head().success() {
                        return (Cqe::of(cid, Status::SUCCESS, 0), data);
                    }
                }
                other => panic!("{other} in place of the end of {cid:?}"),
            }
        }
    }

    pub fn status(&mut self, c: Conn, sqe: Sqe, data: Bytes) -> Status {
        self.command(c, sqe, data).0.status().code()
    }

    /// A connected Admin Queue.
    pub fn admin(&mut self) -> (Conn, Cntlid) {
        let c = self.open();
        self.init(c, |_| {});
        let (sqe, data) = connect(0, 31, 120_000, Cntlid::DYNAMIC);
        let (cqe, _) = self.command(c, sqe, data);
        assert_eq!(cqe.status(), Status::SUCCESS);
        (c, Cntlid(cqe.dw0() as u16))
    }

    /// A connected Admin Queue of an enabled controller.
    pub fn enabled(&mut self) -> (Conn, Cntlid) {
        let (c, id) = self.admin();
        let (cqe, _) = self.command(c, property_set(Property::CC, u64::from(enable())), Bytes::new());
        assert_eq!(cqe.status(), Status::SUCCESS);
        assert_eq!(self.property(c, Property::CSTS) & 1, 1);
        (c, id)
    }

    pub fn property(&mut self, c: Conn, property: Property) -> u64 {
        let (cqe, _) = self.command(c, property_get(property), Bytes::new());
        assert_eq!(cqe.status(), Status::SUCCESS);
        u64::from_le_bytes(*cqe.as_bytes().first_chunk().unwrap())
    }

    /// An enabled controller with one I/O queue.
    pub fn io(&mut self) -> (Conn, Conn) {
        let (admin, id) = self.enabled();
        let io = self.open();
        self.init(io, |_| {});
        let (sqe, data) = connect(1, 31, 0, id);
        assert_eq!(self.status(io, sqe, data), Status::SUCCESS);
        (admin, io)
    }

    /// The C2HTermReq that must come next, as (FES, FEI, DATA).
    pub fn term(&mut self, c: Conn) -> (u16, u32, Bytes) {
        let pdu = self.pdu(c).expect("a C2HTermReq");
        assert_eq!(pdu.ptype(), PduType::C2H_TERM_REQ);
        assert!(self.pdu(c).is_none(), "the C2HTermReq is the last PDU");
        let t = TermReq::read(&pdu.header).unwrap();
        (t.fes().0, t.fei(), pdu.data)
    }
}

fn memory(block_size: u32) -> NewNamespace {
    NewNamespace { store: Arc::new(MemoryStore::new(Geometry { blocks: BLOCKS, block_size })), blocking: false, uuid: None }
}

pub fn new_namespace() -> NewNamespace {
    memory(512)
}

pub fn ic_req(req: IcReq) -> Vec<u8> {
    let mut header = *req.as_bytes();
    header[0] = PduType::IC_REQ.0;
    frame(&header, Bytes::new(), Digests::default(), 4)
}

pub fn frame(header: &[u8], data: Bytes, digests: Digests, align: usize) -> Vec<u8> {
    Pdu::build(header, data, digests, align).seal().to_bytes()
}

pub fn capsule_header(sqe: &Sqe) -> [u8; 72] {
    let mut b = *CapsuleCmd::new().with(|s| s.sqe(*sqe.as_bytes())).as_bytes();
    b[0] = PduType::CAPSULE_CMD.0;
    b
}

pub fn h2c_header(f: impl FnOnce(&mut H2cData)) -> [u8; 24] {
    let mut h = H2cData::new();
    f(&mut h);
    let mut b = *h.as_bytes();
    b[0] = PduType::H2C_DATA.0;
    b
}

fn fabrics(fctype: FabricsType) -> [u8; 64] {
    let mut b = *Sqe::new().with(|s| s.opc(Opcode::FABRICS).psdt(1)).as_bytes();
    b[4] = fctype.0;
    b
}

/// A Connect with its data in the capsule.
pub fn connect(qid: u16, sqsize: u16, kato: u32, cntlid: Cntlid) -> (Sqe, Bytes) {
    connect_with(|_| {}, |_| {}, qid, sqsize, kato, cntlid)
}

pub fn connect_with(
    f: impl FnOnce(&mut Connect),
    g: impl FnOnce(&mut ConnectData),
    qid: u16,
    sqsize: u16,
    kato: u32,
    cntlid: Cntlid,
) -> (Sqe, Bytes) {
    let mut c = Connect::from_bytes(fabrics(FabricsType::CONNECT));
    c.set().qid(Qid(qid)).sqsize(ZeroBased16(sqsize)).kato(kato);
    f(&mut c);
    let mut d = ConnectData::new();
    d.set().hostid([7; 16]).cntlid(cntlid).subnqn(Text::new(SUBNQN)).hostnqn(Text::new(HOSTNQN));
    g(&mut d);
    let sqe = Sqe::from_bytes(*c.as_bytes()).with_sgl1(SglDescriptor::in_capsule(0, 1024));
    (sqe, Bytes::copy_from_slice(d.as_bytes()))
}

pub fn discovery(kato: u32) -> (Sqe, Bytes) {
    connect_with(|_| {}, |d| put(d.set().subnqn(Text::new(DISCOVERY_NQN))), 0, 31, kato, Cntlid::DYNAMIC)
}

pub fn property_get(property: Property) -> Sqe {
    let mut p = PropertyGet::from_bytes(fabrics(FabricsType::PROPERTY_GET));
    p.set().ofst(property).attrib(u8::from(property == Property::CAP));
    Sqe::from_bytes(*p.as_bytes())
}

pub fn property_set(property: Property, value: u64) -> Sqe {
    let mut p = PropertySet::from_bytes(fabrics(FabricsType::PROPERTY_SET));
    p.set().ofst(property).value(value);
    Sqe::from_bytes(*p.as_bytes())
}

/// CC that enables an I/O controller.
pub fn enable() -> u32 {
    u32::from_le_bytes(*Cc::new().with(|s| s.en(true).iosqes(6).iocqes(4)).as_bytes())
}

pub fn admin_sqe(opcode: Opcode, nsid: u32, cdw10: u32, cdw11: u32) -> Sqe {
    Sqe::new().with(|s| s.opc(opcode).psdt(1).nsid(Nsid(nsid)).cdw10(cdw10).cdw11(cdw11))
}

pub fn identify(cns: u8, nsid: u32) -> Sqe {
    admin_sqe(Opcode::IDENTIFY, nsid, u32::from(cns), 0).with_sgl1(SglDescriptor::transport(4096))
}

pub fn log_page(lid: u8, len: u32, offset: u64, rae: bool) -> Sqe {
    let cdw10 = u32::from(lid) | u32::from(rae) << 15 | ((len / 4 - 1) & 0xffff) << 16;
    let sqe = admin_sqe(Opcode::GET_LOG_PAGE, 0, cdw10, (len / 4 - 1) >> 16);
    sqe.with(|s| s.cdw12(offset as u32).cdw13((offset >> 32) as u32)).with_sgl1(SglDescriptor::transport(len))
}

pub fn rw(opcode: IoOpcode, nsid: u32, slba: u64, blocks: u16, sgl: SglDescriptor) -> Sqe {
    let mut s = nvm::Write::new();
    s.set().slba(slba).nlb(ZeroBased16(blocks - 1));
    Sqe::from_bytes(*s.as_bytes()).with(|s| s.opc(Opcode(opcode.0)).psdt(1).nsid(Nsid(nsid))).with_sgl1(sgl)
}

/// Bytes that tell their place.
pub fn pattern(len: usize) -> Bytes {
    (0..len).map(|i| (i / 4 % 251) as u8 ^ (i % 4) as u8).collect::<Vec<u8>>().into()
}

pub fn maxr2t(n: u32) -> impl FnOnce(&mut IcReq) {
    move |r| put(r.set().maxr2t(ZeroBased32(n)))
}

/// Ends a chain of setters in a closure that gives nothing.
pub fn put<T>(_: T) {}
