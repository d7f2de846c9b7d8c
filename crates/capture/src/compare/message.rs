//! What is compared: messages with a name, fields read by the wire tables, and facts that no table has.
//!
//! [`units`] makes them of a connection's events. A [`Unit`] is a command with all that belongs to it (R2Ts, data, its response), or
//! one message that belongs to no command. The data of a command is a message of its own, put together from all PDUs that carried it,
//! so that its fields are compared however it was cut. Another transport joins by making the same units of its own events.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use nvmf_wire::command::CommandKind;
use nvmf_wire::cqe::{AsyncEventResponse, ConnectInvalid, ConnectResponse, PropertyGetResponse, QueuesGranted};
use nvmf_wire::layout::{Layout, Structure};
use nvmf_wire::property::{Property, PropertyGet, PropertySet};
use nvmf_wire::sgl::{SglKeyed, SglType};
use nvmf_wire::sqe::{FabricsType, Opcode};
use nvmf_wire::tcp::{C2hData, CapsuleCmd, CapsuleResp, H2cData, Pdu, PduHead, PduType, R2t};
use nvmf_wire::{Cqe, Sqe, Status};

use super::data;
use crate::exchange::{Connection, Direction, Event, EventKind};
use crate::session::Session;

/// Messages besides PDUs.
pub(super) const NAMES: &[&str] = &[
    "Data",
    "Close",
    "Malformed",
    "Undecodable",
    "Gap",
    "Connection",
    // of RDMA
    "CmReq",
    "CmRep",
    "CmRtu",
    "CmRej",
    "CmMra",
    "CmDreq",
    "CmDrep",
    "Cm",
    "Read",
    "ReadResponse",
    "Write",
    "Send",
    "Immediate",
    "Missing",
    "Stray",
    "Packet",
];

/// Fields that no table has.
pub(super) const FACTS: &[&str] = &[
    "offset",
    "packets",
    "invalidate",
    "rkey",
    "icrc",
    "why",
    "repeated",
    "time",
    "hdgst",
    "ddgst",
    "pad",
    "bytes",
    "length",
    "nsid",
    "cntlid",
    "nid",
    "reset",
    "by",
    "len",
    "server",
    "client",
];

/// The name of commands that the table of commands does not have.
pub(super) const UNKNOWN: &str = "Unknown";

/// A command with all that belongs to it, or one message that belongs to none.
#[derive(Debug)]
pub(super) struct Unit {
    pub command: Option<Command>,
    /// At least one.
    pub messages: Vec<Message>,
}

/// What is to be known of a command beside its messages.
#[derive(Clone, Debug)]
pub(super) struct Command {
    /// Of the table of commands, or [`UNKNOWN`].
    pub name: &'static str,
    /// As a trace calls it.
    pub label: String,
    pub sqe: Sqe,
    /// How many commands were sent on the queue before it.
    pub number: u64,
    /// Its CID was that of a command that was still out.
    pub reused: bool,
}

/// One PDU, the data of a command, or the end of a connection.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub name: &'static str,
    /// Of the table of commands; empty where it belongs to none.
    pub command: &'static str,
    pub dir: Direction,
    pub frame: u64,
    pub at_ns: u64,
    /// Since the command was sent; of the first message of a unit, since the unit before began.
    pub took_ns: u64,
    pub parts: Vec<Part>,
    pub facts: Vec<Fact>,
    /// What no table reads.
    pub raw: Bytes,
}

/// Bytes and the table to read them with.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub layout: &'static Layout,
    pub bytes: Bytes,
    /// True where the table's name stands in the path of its fields: a structure in data, bits of a property.
    pub named: bool,
    /// Place in a list.
    pub index: Option<usize>,
    /// Fields that are read by another part.
    pub hidden: &'static [&'static str],
    /// The table that this is a field of, in the same place of a list.
    pub of: Option<&'static str>,
}

impl Part {
    pub fn of(layout: &'static Layout, bytes: Bytes) -> Self {
        Self { layout, bytes, named: true, index: None, hidden: &[], of: None }
    }

    pub fn header(layout: &'static Layout, bytes: Bytes, hidden: &'static [&'static str]) -> Self {
        Self { layout, bytes, named: false, index: None, hidden, of: None }
    }
}

/// A value that no table has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub name: &'static str,
    pub index: Option<usize>,
    pub value: Known,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Int(u64),
    Text(String),
}

impl Fact {
    pub fn int(name: &'static str, value: u64) -> Self {
        Self { name, index: None, value: Known::Int(value) }
    }

    pub fn text(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, index: None, value: Known::Text(value.into()) }
    }
}

impl Message {
    pub fn new(event: &Event, name: &'static str) -> Self {
        Self {
            name,
            command: "",
            dir: event.dir,
            frame: event.frame,
            at_ns: event.at_ns,
            took_ns: 0,
            parts: Vec::new(),
            facts: Vec::new(),
            raw: Bytes::new(),
        }
    }

    /// A field that is a number, wherever in the message it stands.
    pub fn number(&self, name: &str) -> Option<u64> {
        let of_facts = || match self.facts.iter().find(|f| f.name == name && f.index.is_none())?.value {
            Known::Int(n) => Some(n),
            Known::Text(_) => None,
        };
        self.parts.iter().find_map(|p| p.layout.field(name)?.get(&p.bytes).int()).or_else(of_facts)
    }
}

/// A command that is out.
#[derive(Debug)]
struct Out {
    unit: usize,
    data: Option<Message>,
    /// The pieces of its data, and where the next has to begin for them to be one.
    pieces: BytesMut,
    in_order: bool,
}

/// Makes units of one connection.
pub(super) struct Maker {
    pub(super) session: Session,
    units: Vec<Unit>,
    /// By CID.
    out: BTreeMap<u16, Out>,
    closed: bool,
}

/// The units of a connection, in the order in which they began.
pub(super) fn units(connection: &Connection) -> Vec<Unit> {
    let mut maker = Maker { session: Session::new(), units: Vec::new(), out: BTreeMap::new(), closed: false };
    for event in &connection.events {
        maker.event(event);
    }
    let left: Vec<u16> = maker.out.keys().copied().collect();
    for cid in left {
        maker.complete(cid);
    }
    let mut last = None;
    for unit in &mut maker.units {
        let Some(begun) = unit.messages.first().map(|m| m.at_ns) else { continue };
        for (n, m) in unit.messages.iter_mut().enumerate() {
            let since = if n == 0 { last.unwrap_or(begun) } else { begun };
            m.took_ns = m.at_ns.saturating_sub(since);
        }
        last = Some(begun);
    }
    maker.units
}

impl Maker {
    fn event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Pdu(bytes) => match Pdu::parse(bytes) {
                Ok(pdu) => self.pdu(event, &pdu),
                Err(_) => {
                    let mut m = Message::new(event, "Malformed");
                    m.raw = bytes.clone();
                    self.alone(m);
                }
            },
            // what ends the second direction follows from the first
            EventKind::Closed { reset } => {
                if !std::mem::replace(&mut self.closed, true) {
                    let mut m = Message::new(event, "Close");
                    m.facts.push(Fact::text("by", event.dir.sender().to_string()));
                    m.facts.push(Fact::int("reset", u64::from(*reset)));
                    self.alone(m);
                }
            }
            EventKind::Undecodable { bytes, len, .. } => {
                let mut m = Message::new(event, "Undecodable");
                m.raw = bytes.clone();
                m.facts.push(Fact::int("len", *len));
                self.alone(m);
            }
            EventKind::Gap { len, .. } => {
                let mut m = Message::new(event, "Gap");
                m.facts.push(Fact::int("len", *len));
                self.alone(m);
            }
            EventKind::Packet(packet) => self.packet(event, packet),
            EventKind::Rdma(rdma) => self.rdma(event, rdma),
            // what TLS says of itself is not what is compared
            EventKind::Tls(_) => {}
        }
    }

    pub(super) fn alone(&mut self, message: Message) {
        self.units.push(Unit { command: None, messages: vec![message] });
    }

    fn pdu(&mut self, event: &Event, pdu: &Pdu) {
        let ptype = pdu.ptype();
        let with_direction = ptype.from_host() == (event.dir == Direction::HostToController);
        let mut m = self.message(event, pdu);
        match ptype {
            PduType::CAPSULE_CMD if with_direction => self.submit(m, event, pdu),
            PduType::CAPSULE_RESP | PduType::C2H_DATA | PduType::H2C_DATA | PduType::R2T if with_direction => {
                match self.owner(ptype, own_cid(pdu)) {
                    Some(cid) => self.belongs(cid, m, event, pdu),
                    None => {
                        m.raw = pdu.data.clone();
                        self.alone(m);
                    }
                }
            }
            _ => {
                m.raw = pdu.data.clone();
                self.alone(m);
            }
        }
        self.session.apply(event.dir, pdu);
    }

    /// The CID of the command that a PDU belongs to: its own, or, where no such command is out, that of the one that waits longest for
    /// such a PDU. So a wrong CID is a difference in that field, not a PDU that is missing.
    fn owner(&self, ptype: PduType, own: u16) -> Option<u16> {
        if self.out.contains_key(&own) {
            return Some(own);
        }
        let waits = |unit: &Unit| {
            let Some(c) = &unit.command else { return false };
            let data = nvmf_wire::sqe::Direction::of(&c.sqe);
            match ptype {
                PduType::C2H_DATA => data == nvmf_wire::sqe::Direction::ControllerToHost,
                PduType::H2C_DATA | PduType::R2T => data == nvmf_wire::sqe::Direction::HostToController,
                _ => c.name != "AsyncEventRequest",
            }
        };
        let all = self.out.iter().filter(|(_, o)| self.units.get(o.unit).is_some_and(waits));
        all.min_by_key(|(_, o)| o.unit).map(|(cid, _)| *cid)
    }

    fn submit(&mut self, m: Message, event: &Event, pdu: &Pdu) {
        match CapsuleCmd::read(&pdu.header) {
            Ok(c) => self.command(m, event, &Sqe::from_bytes(c.sqe()), &pdu.data),
            Err(_) => self.alone(m),
        }
    }

    /// A command was sent, with `data` in its capsule.
    pub(super) fn command(&mut self, mut m: Message, event: &Event, sqe: &Sqe, data: &Bytes) {
        let cid = sqe.cid().0;
        let reused = self.out.contains_key(&cid);
        self.complete(cid);
        let admin = self.session.is_admin() || sqe.fctype() == Some(FabricsType::CONNECT);
        let name = CommandKind::of(sqe, admin).map_or(UNKNOWN, |k| k.name);
        m.command = name;
        let bytes = Bytes::copy_from_slice(sqe.as_bytes());
        // a key shares its bytes with the length of other descriptors
        let keyed = sqe.sgl1().kind() == SglType::KEYED_DATA_BLOCK;
        let hidden = if keyed { &["sgl1_addr", "sgl1_len", "sgl1_rest", "sgl1_sub", "sgl1_type"][..] } else { &[] };
        m.parts.push(Part::header(self.session.layout_of(sqe).0, bytes.clone(), hidden));
        if sqe.fctype() == Some(FabricsType::PROPERTY_SET) {
            let set = PropertySet::from_bytes(*sqe.as_bytes());
            property(&mut m, set.ofst(), set.value());
        }
        if keyed {
            m.parts.push(Part::of(SglKeyed::LAYOUT, bytes.slice(24..40)));
        }
        let (label, number) = (self.session.command_name(sqe), self.session.submitted());
        let command = Command { name, label: label.into_owned(), sqe: *sqe, number, reused };
        let mut out = Out { unit: self.units.len(), data: None, pieces: BytesMut::new(), in_order: true };
        out.take(event, data, 0);
        self.units.push(Unit { command: Some(command), messages: vec![m] });
        self.out.insert(cid, out);
    }

    /// A command was answered.
    pub(super) fn answer(&mut self, cid: u16, mut m: Message, cqe: &Cqe) {
        let unit = self.out.get(&cid).and_then(|out| self.units.get_mut(out.unit));
        let Some((unit, command)) = unit.and_then(|u| Some((u.command.clone()?, u))).map(|(c, u)| (u, c)) else {
            return self.alone(m);
        };
        m.command = command.name;
        response(&mut m, &command, cqe, Bytes::copy_from_slice(cqe.as_bytes()));
        unit.messages.push(m);
        self.complete(cid);
    }

    fn belongs(&mut self, cid: u16, mut m: Message, event: &Event, pdu: &Pdu) {
        if let (PduType::CAPSULE_RESP, Ok(c)) = (pdu.ptype(), CapsuleResp::read(&pdu.header)) {
            return self.answer(cid, m, &Cqe::from_bytes(c.cqe()));
        }
        let offset = match pdu.ptype() {
            PduType::C2H_DATA => C2hData::read(&pdu.header).map(|h| h.datao()),
            _ => H2cData::read(&pdu.header).map(|h| h.datao()),
        };
        if pdu.ptype() != PduType::R2T {
            self.moved(cid, event, &pdu.data, offset.unwrap_or_default());
        }
        m.command = self.name_of(cid);
        self.add(cid, m);
        if pdu.ptype() == PduType::C2H_DATA && C2hData::read(&pdu.header).is_ok_and(|h| h.last() && h.success()) {
            self.complete(cid);
        }
    }

    /// Data of a command moved.
    pub(super) fn moved(&mut self, cid: u16, event: &Event, data: &Bytes, offset: u32) {
        if let Some(out) = self.out.get_mut(&cid) {
            out.take(event, data, offset);
        }
    }

    pub(super) fn name_of(&self, cid: u16) -> &'static str {
        let unit = self.out.get(&cid).and_then(|out| self.units.get(out.unit));
        unit.and_then(|u| u.command.as_ref()).map_or("", |c| c.name)
    }

    /// A message of a command that is out.
    pub(super) fn add(&mut self, cid: u16, m: Message) {
        match self.out.get(&cid).and_then(|out| self.units.get_mut(out.unit)) {
            Some(unit) => unit.messages.push(m),
            None => self.alone(m),
        }
    }

    /// The command is out no longer: its data is all there.
    fn complete(&mut self, cid: u16) {
        let Some(out) = self.out.remove(&cid) else { return };
        let Some(unit) = self.units.get_mut(out.unit) else { return };
        if let (Some(mut m), Some(command)) = (out.data, &unit.command) {
            let bytes = out.pieces.freeze();
            m.command = command.name;
            m.facts.push(Fact::int("length", bytes.len() as u64));
            match out.in_order {
                true => data::read(&mut m, command, bytes),
                false => m.raw = bytes,
            }
            unit.messages.push(m);
        }
    }

    /// Header, digests and padding.
    fn message(&self, event: &Event, pdu: &Pdu) -> Message {
        let ptype = pdu.ptype();
        let name = ptype.name().unwrap_or("Malformed");
        let mut m = Message::new(event, name);
        let layout = ptype.layout().filter(|l| l.bytes == pdu.header.len()).unwrap_or(PduHead::LAYOUT);
        let hidden = match ptype {
            PduType::CAPSULE_CMD => &["sqe"][..],
            PduType::CAPSULE_RESP => &["cqe"],
            _ => &[],
        };
        m.parts.push(Part::header(layout, pdu.header.clone(), hidden));
        let good = |ok: bool| if ok { "good" } else { "bad" };
        if pdu.hdgst.is_some() {
            m.facts.push(Fact::text("hdgst", good(pdu.hdgst_ok())));
        }
        if pdu.ddgst.is_some() {
            m.facts.push(Fact::text("ddgst", good(pdu.ddgst_ok())));
        }
        if !pdu.pad.is_empty() {
            m.facts.push(Fact::text("pad", pdu.pad.iter().map(|b| format!("{b:02x}")).collect::<String>()));
        }
        m
    }
}

impl Out {
    /// Data of the command. What is kept is never more than what the capture holds, whatever offsets say.
    fn take(&mut self, event: &Event, data: &Bytes, offset: u32) {
        if data.is_empty() {
            return;
        }
        self.in_order &= self.pieces.len() == offset as usize;
        self.pieces.extend_from_slice(data);
        self.data.get_or_insert_with(|| Message::new(event, "Data"));
    }
}

fn own_cid(pdu: &Pdu) -> u16 {
    match pdu.ptype() {
        PduType::CAPSULE_RESP => CapsuleResp::read(&pdu.header).map(|c| Cqe::from_bytes(c.cqe()).cid()),
        PduType::C2H_DATA => C2hData::read(&pdu.header).map(|h| h.cccid()),
        PduType::H2C_DATA => H2cData::read(&pdu.header).map(|h| h.cccid()),
        _ => R2t::read(&pdu.header).map(|h| h.cccid()),
    }
    .unwrap_or_default()
    .0
}

/// A response by the table that its command and status give it. [Base 2.0, Figures 145, 383, 387]
fn response(m: &mut Message, command: &Command, cqe: &Cqe, bytes: Bytes) {
    let (sqe, status) = (&command.sqe, cqe.status().code());
    let good = status == Status::SUCCESS;
    let admin_feature = matches!(command.name, "SetFeatures" | "GetFeatures") && sqe.as_bytes()[40] == 7;
    let layout = match sqe.fctype() {
        Some(FabricsType::CONNECT) if good => ConnectResponse::LAYOUT,
        Some(FabricsType::CONNECT) if status == Status::CONNECT_INVALID_PARAMETERS => ConnectInvalid::LAYOUT,
        Some(FabricsType::PROPERTY_GET) if good => PropertyGetResponse::LAYOUT,
        None if good && command.name == "AsyncEventRequest" && sqe.opc() == Opcode::ASYNC_EVENT_REQUEST => {
            AsyncEventResponse::LAYOUT
        }
        None if good && admin_feature => QueuesGranted::LAYOUT,
        _ => Cqe::LAYOUT,
    };
    m.parts.push(Part::header(layout, bytes, &[]));
    if std::ptr::eq(layout, PropertyGetResponse::LAYOUT) {
        let get = PropertyGet::from_bytes(*sqe.as_bytes());
        property(m, get.ofst(), PropertyGetResponse::from_bytes(*cqe.as_bytes()).value());
    }
}

/// The bits of a property that has some, instead of its value.
fn property(m: &mut Message, at: Property, value: u64) {
    let Some(layout) = crate::trace::property_layout(at) else { return };
    if let Some(whole) = m.parts.last_mut() {
        whole.hidden = &["value"];
    }
    m.parts.push(Part::of(layout, Bytes::copy_from_slice(&value.to_le_bytes())));
}
