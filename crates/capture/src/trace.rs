//! The decoded trace: one line a PDU, for people.
//!
//! A line holds the time in milliseconds since the start, the connection, an arrow (`>` from the host), the PDU's name, its fields,
//! and what it means: the command's name and fields, the status in words, the command that data belongs to. Names of fields are
//! those of the wire tables. Read [`Trace`].

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nvmf_wire::authentication::message::Message;
use nvmf_wire::connect::ConnectData;
use nvmf_wire::cqe::{AsyncEventResponse, ConnectInvalid, ConnectResponse, PropertyGetResponse, QueuesGranted};
use nvmf_wire::layout::{Field, Layout, Structure};
use nvmf_wire::property::{Cap, Cc, Crto, Csts, Property, PropertyGet, PropertySet, Vs};
use nvmf_wire::sgl::SglKeyed;
use nvmf_wire::sqe::{FabricsType, Opcode};
use nvmf_wire::tcp::{C2hData, CapsuleCmd, CapsuleResp, H2cData, Pdu, PduHead, PduType, R2t};
use nvmf_wire::{Cqe, Sqe, Status};

use crate::exchange::{Connection, Direction, Event, EventKind, Exchange};
use crate::roce::show;
use crate::rules::{Judge, reserved, reserved_at};
use crate::session::{Command, Session};

/// Makes trace lines; keeps a [`Session`] for each connection.
#[derive(Debug, Default)]
pub struct Trace {
    start_ns: u64,
    times: bool,
    judge: Option<Judge>,
    sessions: BTreeMap<usize, Session>,
}

impl Trace {
    /// Times are shown relative to `start_ns`.
    #[must_use]
    pub fn new(start_ns: u64) -> Self {
        Self { start_ns, times: true, ..Self::default() }
    }

    /// Leaves times out, so that two runs can be compared.
    #[must_use]
    pub fn without_times(mut self) -> Self {
        self.times = false;
        self
    }

    /// Adds a line for each breach that [`Judge`] finds.
    #[must_use]
    pub fn with_rules(mut self) -> Self {
        self.judge = Some(Judge::new());
        self
    }

    /// All of an exchange: who talks to whom, then the events in order of time.
    pub fn exchange(&mut self, exchange: &Exchange) -> String {
        let mut out = String::new();
        for (i, c) in exchange.connections.iter().enumerate() {
            if self.times {
                let _ = writeln!(out, "#{i} {} -> {}", c.client, c.server);
            }
        }
        for (i, e) in exchange.events() {
            out.push_str(&self.event(i, e));
        }
        out
    }

    /// No more events of connection `conn` come: what is kept of it can go.
    pub fn forget(&mut self, conn: usize) {
        self.sessions.remove(&conn);
        if let Some(judge) = &mut self.judge {
            judge.forget(conn);
        }
    }

    /// All of one connection, as number 0.
    pub fn connection(&mut self, connection: &Connection) -> String {
        connection.events.iter().map(|e| self.event(0, e)).collect()
    }

    /// The lines of one event, each ended by a newline. `conn` tells connections apart.
    pub fn event(&mut self, conn: usize, event: &Event) -> String {
        let mut line = String::new();
        self.write_event(conn, event, &mut line);
        line
    }

    /// The same, behind what `line` holds.
    pub fn write_event(&mut self, conn: usize, event: &Event, line: &mut String) {
        let start = line.len();
        if self.times {
            let us = event.at_ns.saturating_sub(self.start_ns) / 1000;
            let _ = write!(line, "{:>10} ", format!("{}.{:03}", us / 1000, us % 1000));
        }
        let _ = write!(line, "#{conn} {} ", event.dir.arrow());
        let before = line.len();
        let session = self.sessions.entry(conn).or_default();
        match &event.kind {
            EventKind::Pdu(bytes) => match Pdu::parse(bytes) {
                Ok(pdu) => {
                    write_pdu(line, session, event.dir, &pdu);
                    session.apply(event.dir, &pdu);
                }
                Err(e) => {
                    let ptype = PduType(bytes.first().copied().unwrap_or(0));
                    let _ = write!(line, "{ptype} malformed, {} bytes: {e}; {}", bytes.len(), hex(bytes, 24));
                }
            },
            EventKind::Closed { reset: false } => line.push_str("FIN"),
            EventKind::Closed { reset: true } => line.push_str("RST"),
            EventKind::Undecodable { offset, why, bytes, len } => {
                let _ = write!(line, "{len} bytes from {offset} on are no PDU: {why}; {}", hex(bytes, 24));
            }
            EventKind::Gap { len: 0, .. } => line.push_str("the start of the connection was not captured"),
            EventKind::Gap { offset, len } => {
                let _ = write!(line, "{len} bytes from {offset} on were not captured");
            }
            EventKind::Tls(notice) => {
                let _ = write!(line, "{notice}");
            }
            EventKind::Packet(packet) => line.push_str(&show::packet(packet)),
            EventKind::Rdma(rdma) => {
                line.push_str(&show::message(session, event.dir, rdma));
                session.apply_rdma(event.dir, rdma);
            }
        }
        // Most packets say nothing of their own.
        if line.len() == before {
            line.truncate(start);
        } else {
            line.push('\n');
        }
        if let Some(judge) = &mut self.judge {
            for finding in judge.event(conn, event) {
                let _ = writeln!(line, "{:>1$}{finding}", "! ", if self.times { 13 } else { 2 });
            }
        }
    }
}

/// A PDU in words. `session` is what was seen before it.
#[must_use]
pub fn describe(session: &Session, dir: Direction, pdu: &Pdu) -> String {
    let mut out = String::new();
    write_pdu(&mut out, session, dir, pdu);
    out
}

/// The same, behind what `out` holds: as all functions here, since traces are long.
fn write_pdu(out: &mut String, session: &Session, dir: Direction, pdu: &Pdu) {
    let ptype = pdu.ptype();
    let _ = write!(out, "{ptype}");
    flags(out, pdu);
    if ptype.from_host() != (dir == Direction::HostToController) {
        out.push_str(" AGAINST ITS DIRECTION");
    }
    let Some(layout) = ptype.layout() else {
        let _ = write!(out, " {} bytes: {}", pdu.head().plen(), hex(&pdu.header, 24));
        return;
    };
    if layout.bytes != pdu.header.len() {
        let _ = write!(out, " hlen={} (not {})", pdu.header.len(), layout.bytes);
    }
    match ptype {
        PduType::CAPSULE_CMD => {
            if let Ok(c) = CapsuleCmd::read(&pdu.header) {
                command(out, session, &Sqe::from_bytes(c.sqe()), &pdu.data);
            }
        }
        PduType::CAPSULE_RESP => {
            if let Ok(c) = CapsuleResp::read(&pdu.header) {
                response(out, session, &Cqe::from_bytes(c.cqe()));
            }
        }
        PduType::H2C_DATA | PduType::C2H_DATA | PduType::R2T => {
            own_fields(out, layout, &pdu.header);
            let owner = owner(session, pdu);
            of(out, session, owner);
            if let Some(c) = owner {
                out.push_str(&host_data(session, c, pdu));
                out.push_str(&message(session, c, pdu));
            }
        }
        PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ => {
            own_fields(out, layout, &pdu.header);
            if let Ok(head) = PduHead::read(&pdu.data) {
                let _ = write!(out, " because of {}: {}", head.ptype(), hex(&pdu.data, 24));
            }
        }
        _ => own_fields(out, layout, &pdu.header),
    }
    shape(out, pdu);
}

/// Flags in brackets, digests with what they are worth.
fn flags(out: &mut String, pdu: &Pdu) {
    let head = pdu.head();
    let mut first = true;
    let mut word = |args: std::fmt::Arguments<'_>| {
        let _ = write!(out, "{}{args}", if first { " [" } else { ", " });
        first = false;
    };
    match (pdu.hdgst, head.hdgstf()) {
        (Some(_), _) => word(format_args!("HDGST {}", good(pdu.hdgst_ok()))),
        (None, true) => word(format_args!("HDGSTF")),
        _ => {}
    }
    match (pdu.ddgst, head.ddgstf()) {
        (Some(_), _) => word(format_args!("DDGST {}", good(pdu.ddgst_ok()))),
        (None, true) => word(format_args!("DDGSTF")),
        _ => {}
    }
    if head.last() {
        word(format_args!("LAST"));
    }
    if head.success() {
        word(format_args!("SUCCESS"));
    }
    let rest = pdu.header.get(1).copied().unwrap_or(0) & 0xf0;
    if rest != 0 {
        word(format_args!("flags {rest:#04x}"));
    }
    if !first {
        out.push(']');
    }
}

fn good(ok: bool) -> &'static str {
    if ok { "good" } else { "BAD" }
}

/// The fields behind the common header, zero or not, then reserved bytes that are set.
fn own_fields(out: &mut String, layout: &'static Layout, bytes: &[u8]) {
    for f in layout.fields.iter().filter(|f| f.offset() >= 8) {
        field(out, f, bytes);
    }
    if let Some(at) = reserved(layout).iter().zip(bytes).skip(8).position(|(m, b)| m & b != 0) {
        let _ = write!(out, " reserved[{}]={:#04x}", at + 8, bytes.get(at + 8).copied().unwrap_or(0));
    }
}

fn field(out: &mut String, field: &Field, bytes: &[u8]) {
    let _ = write!(out, " {}=", field.name);
    field.write(bytes, out);
}

/// Data, its place where it is not right behind the header, and a PDO that points nowhere.
fn shape(out: &mut String, pdu: &Pdu) {
    let head = pdu.head();
    if !pdu.data.is_empty() && !pdu.ptype().is_term() {
        let _ = write!(out, " data={}", pdu.data.len());
        if !pdu.pad.is_empty() {
            let _ = write!(out, " pad={}", pdu.pad.len());
        }
        if head.pdo() == 0 {
            out.push_str(" pdo=0");
        }
    } else if head.pdo() != 0 {
        let _ = write!(out, " pdo={}", head.pdo());
    }
}

/// A command; `data` is what its capsule has behind the SQE.
pub(crate) fn command(out: &mut String, session: &Session, sqe: &Sqe, data: &[u8]) {
    let (layout, known) = session.layout_of(sqe);
    let bytes = sqe.as_bytes();
    let _ = write!(out, " cid={:#06x} {}", sqe.cid().0, session.command_name(sqe));
    for f in layout.all_fields() {
        let elsewhere = matches!(f.name, "opc" | "cid" | "psdt" | "fctype") || f.name.starts_with("sgl1_");
        let always = matches!(f.name, "ofst" | "qid" | "cns" | "fid");
        if elsewhere || (!always && f.is_zero(bytes)) {
            continue;
        }
        if f.name == "value" && sqe.fctype() == Some(FabricsType::PROPERTY_SET) {
            let set = PropertySet::from_bytes(*bytes);
            let _ = write!(out, " value={}", property(set.ofst(), set.value()));
        } else {
            field(out, f, bytes);
        }
    }
    let psdt = sqe.as_bytes()[1] >> 6;
    if psdt != 1 && sqe.fctype().is_none() {
        let _ = write!(out, " psdt={psdt}");
    }
    sgl(out, sqe);
    if let Some(at) = reserved_at(layout, bytes) {
        let _ = match known {
            true => write!(out, " reserved[{at}]={:#04x}", bytes.get(at).copied().unwrap_or(0)),
            false => write!(out, " bytes 40 to 63: {}", hex(bytes.get(40..).unwrap_or(&[]), 24)),
        };
    }
    if sqe.fctype() == Some(FabricsType::CONNECT) {
        out.push_str(&connect_data(data));
    }
    if sqe.fctype() == Some(FabricsType::AUTHENTICATION_SEND) && !data.is_empty() {
        out.push_str(&authentication(data));
    }
    if let Some(admin) = session.infers(sqe) {
        let queue = if admin { "the Admin Queue" } else { "an I/O Queue" };
        let _ = write!(out, " (taken for {queue} by its commands: no Connect was seen)");
    }
}

fn sgl(out: &mut String, sqe: &Sqe) {
    let s = sqe.sgl1();
    let _ = match s.id() {
        _ if s.as_bytes().iter().all(|b| *b == 0) => Ok(()),
        0x01 if s.addr() == 0 => write!(out, " sgl=in-capsule({})", s.len()),
        0x01 => write!(out, " sgl=in-capsule({} at {})", s.len(), s.addr()),
        0x5a if s.addr() == 0 && s.len() == 0 => Ok(()),
        0x5a if s.addr() == 0 => write!(out, " sgl=transport({})", s.len()),
        0x40 | 0x4f => {
            let k = SglKeyed::from_bytes(*s.as_bytes());
            let what = if s.id() == 0x40 { "keyed" } else { "keyed, invalidate" };
            match (k.len(), k.addr(), k.key()) {
                (0, 0, 0) => Ok(()),
                (len, addr, key) => write!(out, " sgl={what}({len} key={key:#x} va={addr:#x})"),
            }
        }
        id => write!(out, " sgl={id:#04x}(addr={:#x} len={})", s.addr(), s.len()),
    };
}

pub(crate) fn connect_data(data: &[u8]) -> String {
    ConnectData::read(data).map_or(String::new(), |d| format!(" {{{d}}}"))
}

/// Connect data, when it comes by H2CData in one piece.
fn host_data(session: &Session, command: &Command, pdu: &Pdu) -> String {
    let connect = command.sqe.fctype() == Some(FabricsType::CONNECT);
    let whole = session.command(command.sqe.cid()).is_some_and(|c| c.h2c.next == 0);
    if connect && whole && pdu.ptype() == PduType::H2C_DATA { connect_data(&pdu.data) } else { String::new() }
}

/// The authentication message that this data completes.
fn message(session: &Session, command: &Command, pdu: &Pdu) -> String {
    let (offset, last) = match pdu.ptype() {
        PduType::C2H_DATA => C2hData::read(&pdu.header).map_or((0, false), |c| (c.datao(), c.last())),
        PduType::H2C_DATA => H2cData::read(&pdu.header).map_or((0, false), |h| (h.datao(), false)),
        _ => return String::new(),
    };
    session.message_with(command.sqe.cid(), offset, &pdu.data, last).map_or(String::new(), |whole| authentication(&whole))
}

fn authentication(message: &[u8]) -> String {
    match Message::read(message) {
        Ok(m) => format!(" {{{m}}}"),
        Err(e) => format!(" {{malformed authentication message: {e}}}"),
    }
}

fn owner<'a>(session: &'a Session, pdu: &Pdu) -> Option<&'a Command> {
    let cid = match pdu.ptype() {
        PduType::H2C_DATA => H2cData::read(&pdu.header).ok()?.cccid(),
        PduType::C2H_DATA => C2hData::read(&pdu.header).ok()?.cccid(),
        _ => R2t::read(&pdu.header).ok()?.cccid(),
    };
    session.command(cid)
}

/// The command that something belongs to.
pub(crate) fn of(out: &mut String, session: &Session, command: Option<&Command>) {
    let _ = match command {
        Some(c) => write!(out, " of {}", session.command_name(&c.sqe)),
        None => write!(out, " of no outstanding command"),
    };
}

pub(crate) fn response(out: &mut String, session: &Session, cqe: &Cqe) {
    let command = session.command(cqe.cid());
    let fabrics = command.is_some_and(Command::is_fabrics);
    let _ = write!(out, " cid={:#06x}", cqe.cid().0);
    of(out, session, command);
    let _ = write!(out, " {} sqhd={}", cqe.status().show(fabrics), cqe.sqhd());
    result(out, command, cqe);
    let (sqid, phase) = (cqe.as_bytes().get(10..12).unwrap_or(&[]), cqe.as_bytes()[14] & 1);
    if sqid != [0, 0] {
        let _ = write!(out, " sqid={}", hex(sqid, 2));
    }
    if phase != 0 {
        out.push_str(" phase=1");
    }
}

/// Dwords 0 and 1, by what the command was. [Base 2.0, Figures 145, 383, 387]
fn result(out: &mut String, command: Option<&Command>, cqe: &Cqe) {
    let (bytes, status) = (*cqe.as_bytes(), cqe.status().code());
    let Some(command) = command else { return dwords(out, cqe) };
    match command.sqe.fctype() {
        Some(FabricsType::CONNECT) if status == Status::SUCCESS => named(out, ConnectResponse::LAYOUT, &bytes),
        Some(FabricsType::CONNECT) if status == Status::CONNECT_INVALID_PARAMETERS => named(out, ConnectInvalid::LAYOUT, &bytes),
        Some(FabricsType::PROPERTY_GET) if status == Status::SUCCESS => {
            let get = PropertyGet::from_bytes(*command.sqe.as_bytes());
            let value = property(get.ofst(), PropertyGetResponse::from_bytes(bytes).value());
            let _ = write!(out, " {}={value}", get.ofst());
        }
        Some(_) => dwords(out, cqe),
        None if status != Status::SUCCESS => dwords(out, cqe),
        None => match command.sqe.opc() {
            Opcode::ASYNC_EVENT_REQUEST => named(out, AsyncEventResponse::LAYOUT, &bytes),
            Opcode::SET_FEATURES | Opcode::GET_FEATURES if command.sqe.as_bytes()[40] == 7 => {
                named(out, QueuesGranted::LAYOUT, &bytes);
            }
            _ => dwords(out, cqe),
        },
    }
}

fn dwords(out: &mut String, cqe: &Cqe) {
    for (name, value) in [("dw0", cqe.dw0()), ("dw1", cqe.dw1())] {
        if value != 0 {
            let _ = write!(out, " {name}={value:#x}");
        }
    }
}

/// The fields of a response that are not those of every CQE.
fn named(out: &mut String, layout: &Layout, bytes: &[u8]) {
    for f in layout.fields {
        field(out, f, bytes);
    }
}

/// The table of a property's bits.
pub(crate) fn property_layout(at: Property) -> Option<&'static Layout> {
    Some(match at {
        Property::CAP => Cap::LAYOUT,
        Property::VS => Vs::LAYOUT,
        Property::CC => Cc::LAYOUT,
        Property::CSTS => Csts::LAYOUT,
        Property::CRTO => Crto::LAYOUT,
        _ => return None,
    })
}

/// A property's value with its bits.
fn property(at: Property, value: u64) -> String {
    let bytes = value.to_le_bytes();
    let Some(layout) = property_layout(at) else { return format!("{value:#x}") };
    let bits = layout.describe(&bytes);
    if bits.is_empty() { format!("{value:#x}") } else { format!("{value:#x} ({bits})") }
}

pub(crate) fn hex(bytes: &[u8], most: usize) -> String {
    let mut out = String::new();
    for b in bytes.iter().take(most) {
        let _ = write!(out, "{b:02x}");
    }
    if bytes.len() > most {
        out.push('…');
    }
    out
}
