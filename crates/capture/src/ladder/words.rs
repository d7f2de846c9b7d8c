//! What an arrow says: its name, its key fields, and what it means in plain words.

use std::fmt::Write as _;

use nvmf_wire::admin::{GetFeatures, GetLogPage, Identify, SetFeatures};
use nvmf_wire::connect::Connect;
use nvmf_wire::cqe::ConnectResponse;
use nvmf_wire::layout::{Layout, Structure, Value};
use nvmf_wire::nvm::Read;
use nvmf_wire::property::{PropertyGet, PropertySet};
use nvmf_wire::sqe::{FabricsType, IoOpcode, Opcode};
use nvmf_wire::tcp::{C2hData, CapsuleCmd, CapsuleResp, H2cData, IcReq, IcResp, Pdu, PduType, R2t, TermReq};
use nvmf_wire::{Cid, Cqe, Qid, Sqe};

use crate::exchange::Direction;
use crate::session::Session;

/// What it does: it decides on the colour, and on what the legend explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Piece {
    /// A connection begins.
    Setup,
    Command,
    /// The controller asks for data.
    Ready,
    /// Data from the host.
    Out,
    /// Data from the controller.
    In,
    /// A command is answered.
    End,
    /// Packets came.
    Ack,
    /// A connection ends.
    Closed,
    /// Something is wrong.
    Trouble,
}

/// One arrow in words.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) piece: Piece,
    /// `CapsuleCmd Write`.
    pub(super) name: String,
    /// `cid=0x0057 nsid=1 slba=128`.
    pub(super) fields: String,
    /// What it means, for people who do not know the field names.
    pub(super) words: String,
    /// The command in a few words: `Write of 64 KiB (CID 0x0057)`. Of a command alone.
    pub(super) about: String,
    pub(super) cid: Option<Cid>,
    /// A Connect, whose data have names.
    pub(super) connect: bool,
    /// That a Connect response gave.
    pub(super) cntlid: Option<u16>,
    /// Data: offset of the first byte, how many.
    pub(super) span: Option<(u64, u64)>,
    /// The last arrow says more than those before it.
    pub(super) last: &'static str,
    /// The RDMA operation that data belong to, by its address: its packets are one arrow.
    pub(super) operation: Option<u64>,
    /// Fields that all packets of an operation share.
    pub(super) prefix: String,
}

impl Told {
    pub(super) fn new(piece: Piece, name: impl Into<String>, fields: impl Into<String>, words: impl Into<String>) -> Self {
        Self {
            piece,
            name: name.into(),
            fields: fields.into(),
            words: words.into(),
            about: String::new(),
            cid: None,
            connect: false,
            cntlid: None,
            span: None,
            last: "",
            operation: None,
            prefix: String::new(),
        }
    }

    pub(super) fn closed(reset: bool) -> Self {
        match reset {
            false => Self::new(Piece::Closed, "FIN", "", "No more bytes will come from this side."),
            true => Self::new(Piece::Closed, "RST", "", "The connection is gone at once."),
        }
    }

    pub(super) fn trouble(name: String, why: String) -> Self {
        Self::new(Piece::Trouble, name, why, "This cannot be read.")
    }

    pub(super) fn gap(len: u64) -> Self {
        let name = if len == 0 { "start not captured".to_owned() } else { format!("{len} bytes not captured") };
        Self::new(Piece::Trouble, name, "", "The capture does not have what came here.")
    }

    pub(super) fn tls(notice: &str) -> Self {
        Self::new(Piece::Setup, "TLS", notice, "What TLS below the PDUs says of itself.")
    }

    /// A PDU; `session` is what was seen before it.
    pub(super) fn pdu(session: &Session, dir: Direction, pdu: &Pdu) -> Self {
        let ptype = pdu.ptype();
        if ptype.from_host() != (dir == Direction::HostToController) || ptype.layout().is_none() {
            return Self::trouble(format!("{ptype} out of place"), format!("{} bytes", pdu.head().plen()));
        }
        let h = &pdu.header;
        let told = match ptype {
            PduType::IC_REQ => {
                IcReq::read(h).map(|_| Self::ic(pdu, IcReq::LAYOUT, "The host opens the connection: what it can do."))
            }
            PduType::IC_RESP => IcResp::read(h).map(|r| {
                let words = format!("The controller agrees, and takes up to {} in one H2CData.", bytes(r.maxh2cdata().into()));
                Self::ic(pdu, IcResp::LAYOUT, &words)
            }),
            PduType::CAPSULE_CMD => {
                CapsuleCmd::read(h).map(|c| Self::command(session, &Sqe::from_bytes(c.sqe()), "CapsuleCmd", pdu.data.len()))
            }
            PduType::CAPSULE_RESP => {
                CapsuleResp::read(h).map(|c| Self::response(session, &Cqe::from_bytes(c.cqe()), "CapsuleResp"))
            }
            PduType::R2T => R2t::read(h).map(|r| Self::r2t(&r)),
            PduType::H2C_DATA => H2cData::read(h).map(|d| Self::h2c_data(&d)),
            PduType::C2H_DATA => C2hData::read(h).map(|d| Self::c2h_data(&d)),
            _ => TermReq::read(h).map(|t| {
                let words =
                    format!("A fatal error, after which the connection ends: {}.", t.fes().name().unwrap_or("of an unknown kind"));
                Self::new(Piece::Trouble, ptype.to_string(), fields(TermReq::LAYOUT, h, 8), words)
            }),
        };
        told.unwrap_or_else(|e| Self::trouble(format!("malformed {ptype}"), e.to_string()))
    }

    fn ic(pdu: &Pdu, layout: &'static Layout, words: &str) -> Self {
        Self::new(Piece::Setup, pdu.ptype().to_string(), fields(layout, &pdu.header, 8), words)
    }

    /// A command, in whatever carries capsules.
    pub(super) fn command(session: &Session, sqe: &Sqe, capsule: &str, in_capsule: usize) -> Self {
        let name = session.command_name(sqe);
        let mut text = format!("cid={:#06x}", sqe.cid().0);
        let (layout, _) = session.layout_of(sqe);
        for f in layout.all_fields() {
            let elsewhere = matches!(f.name, "opc" | "cid" | "psdt" | "fctype" | "attrib") || f.name.starts_with("sgl1_");
            let always = matches!(f.name, "ofst" | "qid" | "cns" | "fid" | "slba" | "nlb");
            if f.is_int() && !elsewhere && (always || f.get(sqe.as_bytes()) != Value::Int(0)) {
                let _ = write!(text, " {}={}", f.name, short(&f.show(sqe.as_bytes())));
            }
        }
        let keyed = super::rdma::keyed(sqe);
        let apart = keyed.as_ref().map_or(u64::from(sqe.sgl1().len()), |(_, len)| *len);
        let length = if in_capsule > 0 { in_capsule as u64 } else { apart };
        if let Some((key, _)) = &keyed {
            let _ = write!(text, " {key}");
        }
        if in_capsule > 0 {
            let _ = write!(text, " in-capsule={in_capsule}");
        } else if length > 0 {
            let _ = write!(text, " length={length}");
        }
        let how = match (in_capsule > 0, keyed.is_some()) {
            (true, _) => How::InCapsule,
            (false, true) => How::Keyed,
            (false, false) => How::Apart,
        };
        let mut told = Self::new(Piece::Command, format!("{capsule} {name}"), text, meaning(session, sqe, &name, length, how));
        let size = if length > 0 { format!(" of {}", bytes(length)) } else { String::new() };
        told.about = format!("{name}{size} (CID {:#06x})", sqe.cid().0);
        told.cid = Some(sqe.cid());
        told.connect = sqe.fctype() == Some(FabricsType::CONNECT);
        told
    }

    /// A response, in whatever carries capsules.
    pub(super) fn response(session: &Session, cqe: &Cqe, capsule: &str) -> Self {
        let command = session.command(cqe.cid());
        let fctype = command.and_then(|c| c.sqe.fctype());
        let status = cqe.status();
        let text = format!("cid={:#06x} status={} sqhd={}", cqe.cid().0, status.show(fctype.is_some()), cqe.sqhd());
        let mut words = match (command, status.is_success()) {
            (None, _) => "An answer to no command that was seen.".to_owned(),
            (_, true) => "The command is done.".to_owned(),
            (_, false) => format!("The command failed: {}.", status.name(fctype.is_some()).unwrap_or("a status that is not known")),
        };
        let mut cntlid = None;
        if fctype == Some(FabricsType::CONNECT) && status.is_success() {
            let id = ConnectResponse::from_bytes(*cqe.as_bytes()).cntlid().0;
            cntlid = Some(id);
            words = format!("The queue is there. The controller has ID {id}.");
        }
        let name = command.map_or_else(|| capsule.to_owned(), |c| format!("{capsule} {}", session.command_name(&c.sqe)));
        Self { cid: Some(cqe.cid()), cntlid, ..Self::new(Piece::End, name, text, words) }
    }

    fn r2t(r: &R2t) -> Self {
        let fields = format!("cid={:#06x} ttag={:#x} r2to={} r2tl={}", r.cccid().0, r.ttag(), r.r2to(), r.r2tl());
        let words = format!("The controller is ready for {} of the command's data.", range(r.r2to().into(), r.r2tl().into()));
        Self { cid: Some(r.cccid()), ..Self::new(Piece::Ready, "R2T", fields, words) }
    }

    fn h2c_data(d: &H2cData) -> Self {
        let last = if d.last() { " LAST" } else { "" };
        let fields = format!("cid={:#06x} ttag={:#x} datao={} datal={}{last}", d.cccid().0, d.ttag(), d.datao(), d.datal());
        let (at, len) = (d.datao().into(), d.datal().into());
        let more = if d.last() { ": all that was asked for" } else { "" };
        let words = format!("The host sends {}{more}.", range(at, len));
        Self { cid: Some(d.cccid()), span: Some((at, len)), last, ..Self::new(Piece::Out, "H2CData", fields, words) }
    }

    fn c2h_data(d: &C2hData) -> Self {
        let (last, more, piece) = match (d.last(), d.success()) {
            (true, true) => (" LAST SUCCESS", ": all of it, and the command is done", Piece::End),
            (true, false) => (" LAST", ": the last of them", Piece::In),
            _ => ("", "", Piece::In),
        };
        let fields = format!("cid={:#06x} datao={} datal={}{last}", d.cccid().0, d.datao(), d.datal());
        let (at, len) = (d.datao().into(), d.datal().into());
        let words = format!("The controller sends {}{more}.", range(at, len));
        Self { cid: Some(d.cccid()), span: Some((at, len)), last, ..Self::new(piece, "C2HData", fields, words) }
    }

    /// Notes how long the command took.
    pub(super) fn took(&mut self, ns: u64) {
        let _ = write!(self.words, " It took {}.", crate::stats::time(ns));
    }

    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.piece == other.piece
            && self.name == other.name
            && self.span.is_some()
            && other.span.is_some()
            && self.cid == other.cid
            && self.operation == other.operation
    }

    /// An RDMA operation has brought so much.
    pub(super) fn moves(&mut self, at: u64, len: u64) {
        self.span = Some((at, len));
        self.fields = format!("{}bytes={len}", self.prefix);
        self.words = match self.piece {
            Piece::Out => format!("The memory of the host gives {}.", range(at, len)),
            _ => format!("The controller puts {} into the memory of the host.", range(at, len)),
        };
    }

    /// Data that go on, as one.
    pub(super) fn join(&mut self, next: &Self) {
        let (Some((at, len)), Some((_, more))) = (self.span, next.span) else { return };
        let len = len.saturating_add(more);
        (self.span, self.last) = (Some((at, len)), next.last);
        if self.operation.is_some() {
            return self.moves(at, len);
        }
        let cid = self.cid.map_or(0, |c| c.0);
        let who = if self.piece == Piece::Out { "host" } else { "controller" };
        self.fields = format!("cid={cid:#06x} from datao={at} on, {len} bytes{}", self.last);
        self.words = format!("The {who} sends {}, piece by piece.", range(at, len));
    }
}

/// The fields of a PDU behind its common header.
pub(super) fn fields(layout: &Layout, header: &[u8], from: usize) -> String {
    let all = layout.fields.iter().filter(|f| f.offset() >= from);
    all.map(|f| format!("{}={}", f.name, short(&f.show(header)))).collect::<Vec<_>>().join(" ")
}

/// Without the hexadecimal form.
fn short(shown: &str) -> String {
    match shown.split_once(" (0x") {
        Some((number, rest)) => format!("{number}{}", rest.split_once(')').map_or("", |(_, label)| label)),
        None => shown.to_owned(),
    }
}

/// How the data of a command travel.
#[derive(Clone, Copy)]
enum How {
    InCapsule,
    Apart,
    Keyed,
}

/// What a command asks for.
fn meaning(session: &Session, sqe: &Sqe, name: &str, length: u64, how: How) -> String {
    let bytes64 = *sqe.as_bytes();
    match sqe.fctype() {
        Some(FabricsType::CONNECT) => {
            let connect = Connect::from_bytes(bytes64);
            return match connect.qid() {
                Qid::ADMIN => "The host asks for a controller; this is its Admin Queue.".to_owned(),
                qid => format!("The host asks for I/O queue {} with {} entries.", qid.0, connect.sqsize().count()),
            };
        }
        Some(FabricsType::PROPERTY_GET) => {
            return format!("The host reads {}.", label(PropertyGet::from_bytes(bytes64).ofst().name()));
        }
        Some(FabricsType::PROPERTY_SET) => {
            return format!("The host writes {}.", label(PropertySet::from_bytes(bytes64).ofst().name()));
        }
        Some(FabricsType::DISCONNECT) => return "The host asks to delete this I/O queue.".to_owned(),
        Some(_) => return format!("The host asks for {name}."),
        None => {}
    }
    if session.is_admin() {
        return match sqe.opc() {
            Opcode::IDENTIFY => format!("The host asks for {}.", label(Identify::from_bytes(bytes64).cns().name())),
            Opcode::GET_LOG_PAGE => {
                format!("The host asks for the log page {}.", label(GetLogPage::from_bytes(bytes64).lid().name()))
            }
            Opcode::SET_FEATURES => format!("The host sets {}.", label(SetFeatures::from_bytes(bytes64).fid().name())),
            Opcode::GET_FEATURES => format!("The host asks for {}.", label(GetFeatures::from_bytes(bytes64).fid().name())),
            Opcode::ASYNC_EVENT_REQUEST => "The host asks to be told of an event; the answer comes with the event.".to_owned(),
            Opcode::KEEP_ALIVE => "The host is alive.".to_owned(),
            _ => format!("The host asks for {name}."),
        };
    }
    let verb = match IoOpcode(sqe.opc().0) {
        IoOpcode::READ => "read",
        IoOpcode::WRITE => "write",
        IoOpcode::COMPARE => "compare",
        IoOpcode::WRITE_ZEROES => "zero",
        IoOpcode::VERIFY => "verify",
        _ => return format!("The host asks for {name}."),
    };
    let read = Read::from_bytes(bytes64);
    let mut out = format!("The host asks to {verb} {} from LBA {}", blocks(read.nlb().count()), read.slba());
    if length > 0 {
        let _ = write!(out, ": {}", bytes(length));
    }
    out.push_str(match (verb, how) {
        ("write" | "compare", How::InCapsule) => ", which come with the command.",
        ("write" | "compare", How::Apart) => ", which it sends when asked.",
        ("write" | "compare", How::Keyed) => ", which are in its memory under this key.",
        (_, How::Keyed) => ", into its memory under this key.",
        _ => ".",
    });
    out
}

fn label(name: Option<&str>) -> &str {
    name.unwrap_or("something unknown")
}

fn blocks(n: u64) -> String {
    if n == 1 { "1 block".to_owned() } else { format!("{n} blocks") }
}

/// `bytes 0 to 4095`.
pub(super) fn range(at: u64, len: u64) -> String {
    match len {
        0 => "no bytes".to_owned(),
        n => format!("bytes {at} to {}", at.saturating_add(n - 1)),
    }
}

/// `64 KiB`, where it is a whole number of them.
pub(super) fn bytes(n: u64) -> String {
    match n {
        n if n >= 1 << 20 && n % (1 << 20) == 0 => format!("{} MiB", n >> 20),
        n if n >= 1 << 10 && n % (1 << 10) == 0 => format!("{} KiB", n >> 10),
        n => format!("{n} bytes"),
    }
}
