//! From events to fields: what is remembered of a connection, and the PDUs of NVMe/TCP.

use std::collections::BTreeMap;

use bytes::Bytes;
use nvmf_wire::sqe::{FabricsType, Opcode};
use nvmf_wire::tcp::{C2hData, H2cData, Pdu, PduType, R2t};
use nvmf_wire::{Cqe, Sqe, Status};

use super::tables::{command, feature, response, transport};
use super::{Field, Packet, Row, Show, Value, Visitor, Window, bits, page, rdma, walk, whole};
use crate::exchange::{Direction, Ends, Event, EventKind};

/// Most bytes of data that are kept of one command, so that fields which two PDUs share can be read.
pub const MAX_KEPT: usize = 64 * 1024;
/// Most commands of one connection of which data is kept at a time.
pub const MAX_KEEPING: usize = 16;

/// Hands the fields of events to a visitor; remembers what each connection needs for that.
#[derive(Debug, Default)]
pub struct Dissector {
    connections: BTreeMap<usize, State>,
    start_ns: Option<u64>,
}

/// What is remembered of one connection.
#[derive(Debug)]
pub(super) struct State {
    ends: Ends,
    /// The queue, as the last Connect names it, or the private data of an RDMA connection.
    pub(super) qid: Option<u16>,
    pub(super) commands: BTreeMap<u16, Asked>,
    /// Commands of which data is kept.
    keeping: usize,
}

/// A command that waits for its answer.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) sqe: Sqe,
    pub(super) frame: u64,
    at_ns: u64,
    /// Its data so far, where there is more to come.
    pub(super) kept: Vec<u8>,
    /// Frame of the last RDMA READ request for it; 0 without one.
    pub(super) request: u64,
    /// Frame of the packet before of an RDMA operation; 0 where none is under way.
    pub(super) previous: u64,
}

impl Dissector {
    /// Nothing was seen.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Connection `conn` was recognised.
    pub fn opened(&mut self, conn: usize, ends: &Ends) {
        self.connections.insert(conn, State { ends: *ends, qid: None, commands: BTreeMap::new(), keeping: 0 });
    }

    /// No more events of it will come.
    pub fn over(&mut self, conn: usize) {
        self.connections.remove(&conn);
    }

    /// Hands one event to `see`, which may have its fields shown as often as it likes, then takes note of it.
    pub fn event(&mut self, conn: usize, event: &Event, mut see: impl FnMut(&View<'_>)) {
        let start = *self.start_ns.get_or_insert(event.at_ns);
        let Some(state) = self.connections.get_mut(&conn) else { return };
        let pdu = match &event.kind {
            EventKind::Pdu(bytes) => Pdu::parse(bytes).ok(),
            EventKind::Gap { .. } | EventKind::Undecodable { .. } | EventKind::Packet(_) | EventKind::Rdma(_) => None,
            _ => return,
        };
        match (&event.kind, &pdu) {
            (EventKind::Rdma(rdma), _) => state.take_rdma(rdma),
            (_, Some(pdu)) => state.take(pdu),
            _ => {}
        }
        let (from, to) = match event.dir {
            Direction::HostToController => (state.ends.client, state.ends.server),
            Direction::ControllerToHost => (state.ends.server, state.ends.client),
        };
        let packet = Packet {
            frame: event.frame,
            at_ns: event.at_ns,
            since_ns: event.at_ns.saturating_sub(start),
            conn,
            from,
            to,
            transport: state.ends.transport,
        };
        see(&View { state, event, pdu: pdu.as_ref(), packet });
        match &event.kind {
            EventKind::Pdu(bytes) => state.settle(event, bytes, pdu.as_ref()),
            EventKind::Rdma(rdma) => state.settle_rdma(event, rdma),
            _ => {}
        }
    }
}

/// One event, ready to be shown.
pub struct View<'a> {
    state: &'a State,
    event: &'a Event,
    pdu: Option<&'a Pdu>,
    packet: Packet,
}

impl View<'_> {
    /// Shows its fields.
    pub fn show(&self, visitor: &mut impl Visitor) {
        visitor.packet(&self.packet);
        match (&self.event.kind, self.pdu) {
            (EventKind::Pdu(bytes), pdu) => self.state.show(self.event, bytes, pdu, visitor),
            (EventKind::Packet(packet), _) => rdma::packet(packet, visitor),
            (EventKind::Rdma(what), _) => self.state.show_rdma(self.event, what, visitor),
            (kind, _) => other(kind, visitor),
        }
        visitor.end();
    }
}

fn unknown(bytes: &[u8], at: usize, visitor: &mut impl Visitor) {
    visitor.field(&Field { name: "nvme-tcp.unknown_data", depth: 0, value: Value::Bytes(bytes), at, len: bytes.len() });
}

/// Where the data of a PDU begins.
fn data_at(pdu: &Pdu) -> usize {
    pdu.header.len() + pdu.hdgst.map_or(0, |_| 4) + pdu.pad.len()
}

/// CID, offset of the data and LAST_PDU of a PDU of data.
fn piece_of(pdu: &Pdu) -> Option<(u16, usize, bool)> {
    let head = match pdu.ptype() {
        PduType::C2H_DATA => C2hData::read(&pdu.header).map(|c| (c.cccid().0, c.datao(), c.last())),
        PduType::H2C_DATA => H2cData::read(&pdu.header).map(|h| (h.cccid().0, h.datao(), h.last())),
        _ => return None,
    };
    head.ok().map(|(cid, offset, last)| (cid, offset as usize, last))
}

/// The SQE of a capsule, also where its header contradicts itself.
fn sqe_of(bytes: &[u8]) -> Option<Sqe> {
    let capsule = bytes.first() == Some(&PduType::CAPSULE_CMD.0);
    bytes.get(8..).filter(|_| capsule)?.first_chunk::<64>().map(|b| Sqe::from_bytes(*b))
}

/// The CQE of a capsule.
fn cqe_of(bytes: &[u8]) -> Option<Cqe> {
    let capsule = bytes.first() == Some(&PduType::CAPSULE_RESP.0);
    bytes.get(8..).filter(|_| capsule)?.first_chunk::<16>().map(|b| Cqe::from_bytes(*b))
}

/// What is no PDU, under names of our own.
fn other(kind: &EventKind, visitor: &mut impl Visitor) {
    let mut number = |name, n| visitor.field(&Field { name, depth: 0, value: Value::Number(n, 0), at: 0, len: 0 });
    match kind {
        EventKind::Gap { offset, len } => {
            number("nvmfspec.gap.offset", *offset);
            number("nvmfspec.gap.length", *len);
        }
        EventKind::Undecodable { offset, why, bytes, len } => {
            number("nvmfspec.undecodable.offset", *offset);
            number("nvmfspec.undecodable.length", *len);
            let mut text = |name, value| visitor.field(&Field { name, depth: 0, value, at: 0, len: 0 });
            text("nvmfspec.undecodable.why", Value::Text(why.as_bytes()));
            text("nvmfspec.undecodable.bytes", Value::Bytes(bytes));
        }
        _ => {}
    }
}

/// A number that is not in the bytes, such as that of a frame.
pub(super) fn number(visitor: &mut impl Visitor, depth: u8, name: &'static str, value: Value<'_>) {
    visitor.field(&Field { name, depth, value, at: 0, len: 0 });
}

/// One row of its own.
fn one(row: &'static Row, window: Window<'_>, depth: u8, visitor: &mut impl Visitor) {
    walk(std::slice::from_ref(row), window, 0, depth, visitor);
}

impl State {
    pub(super) fn is_admin(&self) -> bool {
        self.qid.is_none_or(|q| q == 0)
    }

    /// Takes note of a PDU before it is shown.
    fn take(&mut self, pdu: &Pdu) {
        if let Some((cid, offset, last)) = piece_of(pdu) {
            self.keep(cid, offset, &pdu.data, last);
        }
    }

    /// Keeps a piece of data that belongs to what is kept already, or that more will follow.
    pub(super) fn keep(&mut self, cid: u16, offset: usize, data: &[u8], last: bool) {
        let (admin, room) = (self.is_admin(), self.keeping < MAX_KEEPING);
        let Some(asked) = self.commands.get_mut(&cid) else { return };
        let kept_before = !asked.kept.is_empty();
        if page::wanted(&asked.sqe, admin) && !(offset == 0 && last) {
            asked.keep(offset, data, room);
        }
        match (kept_before, !asked.kept.is_empty()) {
            (false, true) => self.keeping += 1,
            (true, false) => self.keeping = self.keeping.saturating_sub(1),
            _ => {}
        }
    }

    /// Takes note of a PDU that was shown.
    fn settle(&mut self, event: &Event, bytes: &[u8], pdu: Option<&Pdu>) {
        if let Some(sqe) = sqe_of(bytes) {
            self.asked(event, &sqe);
        } else if let Some(cqe) = cqe_of(bytes) {
            self.answered(cqe.cid().0);
        } else if let Some((cid, _, true)) = pdu.and_then(piece_of) {
            self.let_go(cid);
        }
    }

    /// A command was sent.
    pub(super) fn asked(&mut self, event: &Event, sqe: &Sqe) {
        if sqe.fctype() == Some(FabricsType::CONNECT) {
            self.qid = Some(u16::from_le_bytes([sqe.as_bytes()[42], sqe.as_bytes()[43]]));
        } else if self.qid.is_none() && only_admin(sqe) {
            self.qid = Some(0);
        }
        self.let_go(sqe.cid().0);
        let asked = Asked { sqe: *sqe, frame: event.frame, at_ns: event.at_ns, kept: Vec::new(), request: 0, previous: 0 };
        self.commands.insert(sqe.cid().0, asked);
    }

    /// A command was answered.
    pub(super) fn answered(&mut self, cid: u16) {
        self.let_go(cid);
        self.commands.remove(&cid);
    }

    /// The data that is kept of a command is of no more use.
    pub(super) fn let_go(&mut self, cid: u16) {
        if let Some(asked) = self.commands.get_mut(&cid)
            && !asked.kept.is_empty()
        {
            asked.kept = Vec::new();
            self.keeping = self.keeping.saturating_sub(1);
        }
    }

    /// `pdu` is missing where the header contradicts itself; what stands where it has to is shown all the same.
    fn show(&self, event: &Event, bytes: &Bytes, pdu: Option<&Pdu>, visitor: &mut impl Visitor) {
        visitor.layer("nvme-tcp");
        if let Some(qid) = self.qid {
            number(visitor, 0, "nvme-tcp.cmd.qid", Value::Number(qid.into(), 4));
        }
        let header = Window::whole(bytes, 0);
        walk(transport::HEAD, header, 0, 0, visitor);
        if let Some(pdu) = pdu {
            digests(pdu, visitor);
        }
        match PduType(bytes.first().copied().unwrap_or(0)) {
            PduType::IC_REQ => walk(transport::IC_REQ, header, 0, 0, visitor),
            PduType::IC_RESP => walk(transport::IC_RESP, header, 0, 0, visitor),
            PduType::CAPSULE_CMD => {
                if let Some(sqe) = sqe_of(bytes) {
                    // Where HLEN is wrong, nothing says where data is.
                    let data = pdu.filter(|p| p.header.len() == 72).map(|p| (&p.data[..], data_at(p)));
                    self.command(&sqe, data.unwrap_or((&[], 0)), 8, visitor);
                }
            }
            PduType::CAPSULE_RESP => {
                if let Some(cqe) = cqe_of(bytes) {
                    self.response(event, &cqe, 8, visitor);
                }
            }
            PduType::C2H_DATA | PduType::H2C_DATA => {
                walk(transport::DATA, header, 0, 0, visitor);
                if let Some(pdu) = pdu {
                    self.data(pdu, visitor);
                }
            }
            PduType::R2T => {
                walk(transport::R2T, header, 0, 0, visitor);
                if let Some(asked) = R2t::read(bytes).ok().and_then(|r| self.commands.get(&r.cccid().0)) {
                    number(visitor, 0, "nvme-tcp.cmd_pkt", Value::Number(asked.frame, 0));
                }
            }
            PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ => {
                if let Some(pdu) = pdu {
                    terminate(pdu, visitor);
                }
            }
            _ => unknown(bytes, 0, visitor),
        }
    }

    /// A command, which begins at `from` of its PDU or message, with the data that is in the capsule and where that begins.
    pub(super) fn command(&self, sqe: &Sqe, (data, at): (&[u8], usize), from: usize, visitor: &mut impl Visitor) {
        let window = Window::whole(data, at);
        if let Some(fctype) = sqe.fctype() {
            fabrics(sqe, fctype, from, visitor);
            if !data.is_empty() {
                static DATA: Row = whole(0, "nvme-tcp.cmd.data", 0, 0, Show::Nothing);
                one(&DATA, window, 0, visitor);
                if fctype == FabricsType::CONNECT {
                    walk(transport::CONNECT_DATA, window, 0, 1, visitor);
                }
            }
            return;
        }
        visitor.layer("nvme");
        nvme(sqe, self.is_admin(), from, visitor);
        if !data.is_empty() {
            visitor.layer("nvme");
            page::data(sqe, self.is_admin(), window, data, visitor);
        }
    }

    pub(super) fn response(&self, event: &Event, cqe: &Cqe, at: usize, visitor: &mut impl Visitor) {
        let asked = self.commands.get(&cqe.cid().0);
        let window = Window::whole(cqe.as_bytes(), at);
        let fabrics = asked.and_then(|a| a.sqe.fctype());
        let (depth, packet, latency) = match fabrics {
            Some(_) => (1, "nvme.fabrics.cmd_pkt", "nvme.fabrics.cmd_latency"),
            None => (0, "nvme.cmd_pkt", "nvme.cmd_latency"),
        };
        if fabrics.is_some() {
            static CQE: Row = whole(0, "nvme.fabrics.cqe", 0, 16, Show::Nothing);
            one(&CQE, window, 0, visitor);
        } else {
            visitor.layer("nvme");
        }
        if let Some(asked) = asked {
            number(visitor, depth, packet, Value::Number(asked.frame, 0));
            number(visitor, depth, latency, Value::Millis(event.at_ns.saturating_sub(asked.at_ns)));
        }
        match (asked, fabrics) {
            (Some(asked), Some(fctype)) => {
                fabrics_result(&asked.sqe, fctype, cqe, window, visitor);
                walk(response::FABRICS_CQE, window, 0, 1, visitor);
            }
            (asked, _) => {
                let special = asked.and_then(|a| result(&a.sqe, self.is_admin()));
                let (first, rest) = response::CQE_DWORDS.split_at(1);
                walk(special.unwrap_or(first), window, 0, 0, visitor);
                walk(rest, window, 0, 0, visitor);
                walk(response::CQE, window, 0, 0, visitor);
            }
        }
    }

    fn data(&self, pdu: &Pdu, visitor: &mut impl Visitor) {
        let at = data_at(pdu);
        let Some((asked, offset)) = piece_of(pdu).and_then(|(cid, offset, _)| Some((self.commands.get(&cid)?, offset))) else {
            unknown(&pdu.data, at, visitor);
            return;
        };
        number(visitor, 0, "nvme-tcp.cmd_pkt", Value::Number(asked.frame, 0));
        if let Some(fctype) = asked.sqe.fctype() {
            let bytes = Value::Bytes(&pdu.data);
            if pdu.ptype() == PduType::C2H_DATA {
                visitor.layer("nvme");
                visitor.field(&Field { name: "nvme.data", depth: 0, value: bytes, at, len: pdu.data.len() });
            } else {
                static DATA: Row = whole(0, "nvme-tcp.cmd.data", 0, 0, Show::Nothing);
                one(&DATA, Window::whole(&pdu.data, at), 0, visitor);
                if fctype == FabricsType::CONNECT {
                    let window = page::window(&asked.sqe, &asked.kept, offset, &pdu.data, at);
                    walk(transport::CONNECT_DATA, window, 0, 1, visitor);
                }
            }
            return;
        }
        visitor.layer("nvme");
        let window = page::window(&asked.sqe, &asked.kept, offset, &pdu.data, at);
        page::data(&asked.sqe, self.is_admin(), window, &pdu.data, visitor);
    }
}

/// True for a command that no I/O queue takes. [Base 2.0, 3.1.2, 6]
fn only_admin(sqe: &Sqe) -> bool {
    match sqe.fctype() {
        Some(f) => f == FabricsType::PROPERTY_GET || f == FabricsType::PROPERTY_SET,
        None => {
            !matches!(
                sqe.opc().0,
                0x00 | 0x01 | 0x02 | 0x04 | 0x05 | 0x08 | 0x09 | 0x0c | 0x0d | 0x0e | 0x11 | 0x12 | 0x15 | 0x19 | 0x1d
            ) && sqe.opc().0 < 0x80
        }
    }
}

impl Asked {
    /// Takes data that belongs behind what is kept; lets everything go where it does not fit.
    fn keep(&mut self, offset: usize, data: &[u8], room: bool) {
        let fits = offset == self.kept.len() && offset + data.len() <= MAX_KEPT && (room || !self.kept.is_empty());
        if fits {
            self.kept.extend_from_slice(data);
        } else {
            self.kept = Vec::new();
        }
    }
}

fn digests(pdu: &Pdu, visitor: &mut impl Visitor) {
    let mut show = |name, status, digest: Option<[u8; 4]>, good: bool, at: usize| {
        let Some(digest) = digest else { return };
        let value = Value::Number(u32::from_be_bytes(digest).into(), 8);
        visitor.field(&Field { name, depth: 0, value, at, len: 4 });
        visitor.field(&Field { name: status, depth: 0, value: Value::Number(good.into(), 0), at, len: 0 });
    };
    if pdu.hdgst.is_some() {
        show("nvme-tcp.hdgst", "nvme-tcp.hdgst.status", pdu.hdgst, pdu.hdgst_ok(), pdu.header.len());
    }
    if pdu.ddgst.is_some() {
        let at = pdu.header.len() + pdu.hdgst.map_or(0, |_| 4) + pdu.pad.len() + pdu.data.len();
        show("nvme-tcp.ddgst", "nvme-tcp.ddgst.status", pdu.ddgst, pdu.ddgst_ok(), at);
    }
}

/// A termination request: the fields of the other direction have other names. [NVMe/TCP 1.0, 3.6.2.3, 3.6.2.4]
fn terminate(pdu: &Pdu, visitor: &mut impl Visitor) {
    let names = match pdu.ptype() {
        PduType::H2C_TERM_REQ => [
            "nvme-tcp.h2ctermreq",
            "nvme-tcp.h2ctermreq.fes",
            "nvme-tcp.h2ctermreq.phfo",
            "nvme-tcp.h2ctermreq.phd",
            "nvme-tcp.h2ctermreq.upfo",
            "nvme-tcp.h2ctermreq.reserved",
            "nvme-tcp.h2ctermreq.data",
        ],
        _ => [
            "nvme-tcp.c2htermreq",
            "nvme-tcp.c2htermreq.fes",
            "nvme-tcp.c2htermreq.phfo",
            "nvme-tcp.c2htermreq.phd",
            "nvme-tcp.c2htermreq.upfo",
            "nvme-tcp.c2htermreq.reserved",
            "nvme-tcp.c2htermreq.data",
        ],
    };
    let [group, fes, phfo, phd, upfo, reserved, data] = names;
    let (Some(&[f0, f1]), Some(&[i0, i1, i2, i3])) =
        (pdu.header.get(8..).and_then(|h| h.first_chunk::<2>()), pdu.header.get(10..).and_then(|h| h.first_chunk::<4>()))
    else {
        return;
    };
    let (code, info) = (u16::from_le_bytes([f0, f1]), u32::from_le_bytes([i0, i1, i2, i3]));
    visitor.field(&Field { name: group, depth: 0, value: Value::Nothing, at: 8, len: pdu.header.len().saturating_sub(8) });
    visitor.field(&Field { name: fes, depth: 1, value: Value::Number(code.into(), 4), at: 8, len: 2 });
    let name = match code {
        1 => phfo,
        3 => phd,
        6 => upfo,
        _ => reserved,
    };
    visitor.field(&Field { name, depth: 1, value: Value::Number(info.into(), 8), at: 10, len: 4 });
    visitor.field(&Field { name: data, depth: 1, value: Value::Nothing, at: pdu.header.len(), len: pdu.data.len() });
}

/// The first SGL descriptor, which begins at byte 24 of an SQE. [Base 2.0, 4.1.2; Figures 99 to 106]
fn sgl(name: &'static str, sqe: Window<'_>, depth: u8, visitor: &mut impl Visitor) {
    static KIND: &[Row] =
        &[bits(0, "nvme.cmd.sgl.type", 39, 1, 0xf0, Show::Hex(2)), bits(0, "nvme.cmd.sgl.subtype", 39, 1, 0x0f, Show::Hex(2))];
    static ADDRESS: &[Row] = &[
        whole(0, "nvme.cmd.sgl1.addr", 24, 8, Show::Hex(16)),
        whole(0, "nvme.cmd.sgl1.len", 32, 4, Show::Dec),
        whole(0, "nvme.cmd.sgl1.rsvd", 36, 3, Show::Bytes),
    ];
    static LENGTH: &[Row] = &[
        whole(0, "nvme.cmd.sgl1.addr_rsvd", 24, 8, Show::Hex(16)),
        whole(0, "nvme.cmd.sgl1.len", 32, 4, Show::Dec),
        whole(0, "nvme.cmd.sgl1.rsvd", 36, 3, Show::Bytes),
    ];
    static KEYED: &[Row] = &[
        whole(0, "nvme.cmd.sgl1.addr", 24, 8, Show::Hex(16)),
        whole(0, "nvme.cmd.sgl1.len", 32, 3, Show::Dec),
        whole(0, "nvme.cmd.sgl1.key", 35, 4, Show::Hex(8)),
    ];
    visitor.field(&Field { name, depth, value: Value::Nothing, at: sqe.place(24), len: 16 });
    walk(KIND, sqe, 0, depth + 1, visitor);
    let rows = match sqe.get(39, 1).and_then(|b| b.first()).map(|b| b >> 4) {
        Some(0 | 2 | 3) => ADDRESS,
        Some(1 | 5) => LENGTH,
        Some(4) => KEYED,
        _ => return,
    };
    walk(rows, sqe, 0, depth + 1, visitor);
}

/// A Fabrics command, in the layer of the transport.
fn fabrics(sqe: &Sqe, fctype: FabricsType, at: usize, visitor: &mut impl Visitor) {
    let window = Window::whole(sqe.as_bytes(), at);
    walk(command::FABRICS, window, 0, 0, visitor);
    match fctype {
        FabricsType::CONNECT => {
            static RESERVED: Row = whole(1, "nvme.fabrics.cmd.connect.rsvd1", 5, 19, Show::Bytes);
            one(&RESERVED, window, 0, visitor);
            sgl("nvme.fabrics.cmd.connect.sgl1", window, 1, visitor);
            walk(command::CONNECT, window, 0, 1, visitor);
        }
        FabricsType::PROPERTY_GET => {
            static REST: Row = whole(1, "nvme.fabrics.cmd.prop_get.rsvd2", 48, 16, Show::Bytes);
            walk(command::PROPERTY, window, 0, 1, visitor);
            one(&REST, window, 0, visitor);
        }
        FabricsType::PROPERTY_SET => {
            static REST: Row = whole(1, "nvme.fabrics.cmd.prop_set.rsvd", 56, 8, Show::Bytes);
            walk(command::PROPERTY, window, 0, 1, visitor);
            walk(property(sqe), window, 48, 1, visitor);
            one(&REST, window, 0, visitor);
        }
        FabricsType::AUTHENTICATION_SEND | FabricsType::AUTHENTICATION_RECEIVE => {
            static RESERVED: Row = whole(1, "nvme.fabrics.cmd.auth.rsvd1", 5, 19, Show::Bytes);
            one(&RESERVED, window, 0, visitor);
            sgl("nvme.fabrics.cmd.auth.sgl1", window, 1, visitor);
            walk(command::AUTHENTICATION, window, 0, 1, visitor);
        }
        FabricsType::DISCONNECT => walk(command::DISCONNECT, window, 0, 1, visitor),
        _ => walk(command::OTHER_FABRICS, window, 0, 1, visitor),
    }
}

/// The table of the property that a Property Get or Set names.
fn property(sqe: &Sqe) -> &'static [Row] {
    match sqe.as_bytes().get(44..48) {
        Some([0, 0, 0, 0]) => response::PROPERTY_CAP,
        Some([8, 0, 0, 0]) => response::PROPERTY_VS,
        Some([0x14, 0, 0, 0]) => response::PROPERTY_CC,
        Some([0x1c, 0, 0, 0]) => response::PROPERTY_CSTS,
        Some([0x20, 0, 0, 0]) => response::PROPERTY_NSSR,
        _ => response::PROPERTY_OTHER,
    }
}

/// Dwords 0 and 1 of the answer to a Fabrics command. [Base 2.0, 6]
fn fabrics_result(sqe: &Sqe, fctype: FabricsType, cqe: &Cqe, window: Window<'_>, visitor: &mut impl Visitor) {
    static STATUS: Row = whole(1, "nvme.fabrics.cqe.sts", 0, 8, Show::Hex(16));
    match fctype {
        FabricsType::CONNECT if cqe.status().code() == Status::SUCCESS => walk(response::CONNECTED, window, 0, 1, visitor),
        FabricsType::PROPERTY_GET => walk(property(sqe), window, 0, 1, visitor),
        FabricsType::PROPERTY_SET => {
            static RESERVED: Row = whole(1, "nvme.fabrics.cqe.prop_set.rsvd", 0, 8, Show::Bytes);
            one(&RESERVED, window, 0, visitor);
        }
        _ => one(&STATUS, window, 0, visitor),
    }
}

/// Dword 0 of the answer to a command that defines it.
fn result(sqe: &Sqe, admin: bool) -> Option<&'static [Row]> {
    let fid = sqe.as_bytes()[40];
    match sqe.opc() {
        Opcode::ASYNC_EVENT_REQUEST if admin => Some(response::AER),
        Opcode::SET_FEATURES if admin => response::set_features(fid),
        Opcode::GET_FEATURES if admin => response::get_features(fid),
        _ => None,
    }
}

/// An NVMe command.
fn nvme(sqe: &Sqe, admin: bool, at: usize, visitor: &mut impl Visitor) {
    let window = Window::whole(sqe.as_bytes(), at);
    walk(command::SQE, window, 0, 0, visitor);
    sgl("nvme.cmd.sgl1", window, 0, visitor);
    let mut show = |rows| walk(rows, window, 0, 0, visitor);
    let fid = sqe.as_bytes()[40];
    match (sqe.opc(), admin) {
        (Opcode::IDENTIFY, true) => show(command::IDENTIFY),
        (Opcode::GET_LOG_PAGE, true) => show(command::GET_LOG_PAGE),
        (Opcode::GET_FEATURES, true) => {
            let (first, rest) = split(command::GET_FEATURES, 44);
            show(first);
            show(feature::get(fid).unwrap_or(dword(1)));
            show(rest);
        }
        (Opcode::SET_FEATURES, true) => {
            let (first, rest) = split(command::SET_FEATURES, 44);
            show(first);
            let special = feature::set(fid);
            show(special.unwrap_or(dword(1)));
            if special.is_none_or(|rows| rows.iter().all(|r| r.at < 48)) {
                show(dword(2));
            }
            show(rest);
        }
        (Opcode(1 | 2), false) => show(command::READ_WRITE),
        _ => show(command::DWORDS),
    }
}

/// Dword 10 + `n`, as commands have it that define none.
fn dword(n: usize) -> &'static [Row] {
    command::DWORDS.get(n..=n).unwrap_or(&[])
}

/// The rows before byte `at` and the others.
fn split(rows: &'static [Row], at: u16) -> (&'static [Row], &'static [Row]) {
    rows.split_at(rows.iter().position(|r| r.at >= at).unwrap_or(rows.len()))
}
