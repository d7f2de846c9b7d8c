//! Bystander rules: what bytes alone show to be wrong, whoever sent them.
//!
//! [`Judge`] takes the events of any number of connections in order and returns a [`Finding`] for each breach. It judges senders,
//! not reactions: whether a wrong PDU was answered as it should be is for the checks. Where one side has sent something that cannot
//! be understood, the other is no longer judged by rules that depend on it; after a gap of the capture nothing is judged.
//!
//! `head` has what each PDU shows by itself, `digest` digests and padding, `data` C2HData, R2T and H2CData, `capsule` commands and
//! `response` completions. A new rule goes into one of these, and a case that breaks it into `tests/tests/bystander.rs`, which
//! notices when one is missing.

mod capsule;
mod data;
mod digest;
mod head;
mod response;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use nvmf_spec::{Level, Requirement, Side, req};
use nvmf_wire::connect::ConnectData;
use nvmf_wire::property::{Cc, Csts, Property, PropertyGet, PropertySet};
use nvmf_wire::sqe::FabricsType;
use nvmf_wire::tcp::{CapsuleCmd, CapsuleResp, H2cData, Pdu, PduHead, PduType, TermReq};
use nvmf_wire::{Cid, Cntlid, Cqe, Sqe, Status};

use crate::exchange::{Direction, Event, EventKind, Exchange};
use crate::session::{Command, Session, Window};

/// A breach that the bytes show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The requirement.
    pub requirement: &'static Requirement,
    /// How strong it is; the requirement's own level.
    pub level: Level,
    /// Who broke it.
    pub side: Side,
    /// The connection, as the caller numbers them.
    pub conn: usize,
    /// Index of the event among those of its connection that the judge was given, from 0.
    pub event: usize,
    /// When, on the clock of the events, nanoseconds.
    pub at_ns: u64,
    /// What was seen, with values.
    pub seen: String,
    /// What the requirement asks for here.
    pub expected: String,
}

impl fmt::Display for Finding {
    /// `TCP-C2H-03 (shall) controller: C2HData of CID 7 has DATAO 512; 1024, right behind the one before`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}) {}: {}; asked for: {}", self.requirement.id, self.level, self.side, self.seen, self.expected)
    }
}

/// Finds breaches in events, connection by connection.
#[derive(Debug, Default)]
pub struct Judge {
    connections: BTreeMap<usize, State>,
    once: bool,
}

impl Judge {
    /// A judge that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reports a requirement only the first time a side of a connection breaks it: what a stack does wrong it does all the time.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// All breaches of an exchange, in order of time.
    #[must_use]
    pub fn exchange(exchange: &Exchange) -> Vec<Finding> {
        let mut judge = Self::new();
        exchange.events().into_iter().flat_map(|(conn, event)| judge.event(conn, event)).collect()
    }

    /// Drops what is remembered of connection `conn`: it is over.
    pub fn forget(&mut self, conn: usize) {
        self.connections.remove(&conn);
    }

    /// What is wrong about the next event of connection `conn`; the caller numbers connections as it likes.
    pub fn event(&mut self, conn: usize, event: &Event) -> Vec<Finding> {
        let state = self.connections.entry(conn).or_default();
        let number = state.events;
        state.events += 1;
        if state.blind {
            return Vec::new();
        }
        let mut out = Out { dir: event.dir, breaches: Vec::new() };
        match &event.kind {
            EventKind::Pdu(bytes) => match Pdu::parse(bytes) {
                Ok(pdu) => state.pdu(event.dir, &pdu, &mut out),
                Err(e) => {
                    state.taint(event.dir.sender());
                    state.ambiguous[index(event.dir.sender())] = true;
                    state.remember(event.dir.sender(), bytes);
                    head::malformed(bytes, &e, &mut out);
                }
            },
            EventKind::Gap { .. } => state.blind = true,
            EventKind::Undecodable { bytes, .. } => {
                if state.trusts(event.dir.sender()) {
                    head::unframed(bytes, &mut out);
                }
                state.taint(event.dir.sender());
                state.ambiguous[index(event.dir.sender())] = true;
                state.remember(event.dir.sender(), bytes);
            }
            EventKind::Closed { .. } => {}
        }
        if self.once {
            let side = event.dir.sender();
            out.breaches.retain(|b| state.reported.insert((b.requirement.id, side)));
        }
        let finding = |b: Breach| Finding {
            requirement: b.requirement,
            level: b.requirement.level,
            side: event.dir.sender(),
            conn,
            event: number,
            at_ns: event.at_ns,
            seen: b.seen,
            expected: b.expected,
        };
        out.breaches.into_iter().map(finding).collect()
    }
}

/// Headers of each side that are remembered for its peer's terminate request.
const HEADS: usize = 64;

struct Breach {
    requirement: &'static Requirement,
    seen: String,
    expected: String,
}

/// Collects the breaches of the sender of one event.
struct Out {
    dir: Direction,
    breaches: Vec<Breach>,
}

impl Out {
    fn add(&mut self, requirement: &'static Requirement, seen: impl Into<String>, expected: impl Into<String>) {
        self.breaches.push(Breach { requirement, seen: seen.into(), expected: expected.into() });
    }

    /// Adds a breach unless `ok`.
    fn check(&mut self, ok: bool, requirement: &'static Requirement, seen: impl Into<String>, expected: impl Into<String>) {
        if !ok {
            self.add(requirement, seen, expected);
        }
    }
}

/// What the rules remember of a connection beyond its [`Session`]. One entry a CID at most, so a peer cannot make it grow.
#[derive(Debug, Default)]
struct State {
    session: Session,
    events: usize,
    /// Bytes are missing: nothing can be judged.
    blind: bool,
    /// What host and controller sent cannot be relied on any more.
    tainted: [bool; 2],
    /// What host and controller sent may be cut into other PDUs by their peer than by us.
    ambiguous: [bool; 2],
    host_spoke: bool,
    /// What was reported, where each requirement is reported once.
    reported: BTreeSet<(&'static str, Side)>,
    /// Common headers of the last PDUs of host and controller, newest last.
    heads: [VecDeque<[u8; 8]>; 2],
    /// A terminate request of host and controller was seen.
    term: [bool; 2],
    /// Connect succeeded.
    connected: bool,
    /// Controller ID that Connect named, where the data was seen.
    asked_cntlid: Option<Cntlid>,
    /// CSTS.RDY as the host last read it since it last set or cleared CC.EN; Admin Queue.
    ready: bool,
    /// CIDs that were completed, and whether by SUCCESS.
    completed: BTreeMap<u16, bool>,
    /// R2Ts of commands that were completed while data was due.
    stale: BTreeMap<u16, Vec<Window>>,
    /// CIDs used while outstanding: how many more responses may come.
    doubled: BTreeMap<u16, u32>,
    /// Commands that the controller has taken, by SQHD, and the SQHD that said so.
    head: Option<(u64, u16)>,
}

impl State {
    fn taint(&mut self, side: Side) {
        self.tainted[index(side)] = true;
    }

    fn trusts(&self, side: Side) -> bool {
        !self.tainted[index(side)]
    }

    /// Keeps the start of what a side sent, so that a terminate request that quotes it can be judged.
    fn remember(&mut self, side: Side, bytes: &[u8]) {
        let heads = &mut self.heads[index(side)];
        if heads.len() == HEADS {
            heads.pop_front();
        }
        let mut head = [0; 8];
        for (d, s) in head.iter_mut().zip(bytes) {
            *d = *s;
        }
        heads.push_back(head);
    }

    /// The data of a terminate request is the header that was being processed. [NVMe/TCP 1.0, 3.5.1]
    fn quote(&self, sender: Side, pdu: &Pdu, out: &mut Out) {
        let quoted = pdu.data.get(..8).unwrap_or(&pdu.data);
        let peer = index(sender.other());
        let known =
            self.ambiguous[peer] || pdu.header.len() != TermReq::LEN || self.heads[peer].iter().any(|h| h.starts_with(quoted));
        let which = if sender == Side::Host { req::TCP_TERM_18 } else { req::TCP_TERM_06 };
        let seen = || quoted.iter().map(|b| format!("{b:02x}")).collect::<String>();
        if !known {
            out.add(which, format!("{} with data {}", pdu.ptype(), seen()), "the header of the PDU that was wrong");
        }
    }

    fn pdu(&mut self, dir: Direction, pdu: &Pdu, out: &mut Out) {
        let sender = dir.sender();
        self.remember(sender, &pdu.header);
        if self.term[index(sender)] {
            let ends = if sender == Side::Host { req::TCP_TERM_13 } else { req::TCP_TERM_01 };
            out.add(ends, format!("{} after a terminate request", pdu.ptype()), "nothing but the end of the connection");
        }
        if !head::direction(pdu, out) {
            self.taint(sender);
            return;
        }
        let before = out.breaches.len();
        head::check(pdu, out);
        self.order(sender, pdu, out);
        digest::check(&self.session, pdu, out);
        if out.breaches.iter().skip(before).any(|b| fatal(b.requirement)) {
            self.taint(sender);
        }
        match pdu.ptype() {
            PduType::IC_RESP => self.ic_resp(pdu, out),
            PduType::CAPSULE_CMD => capsule::check(self, pdu, out),
            PduType::CAPSULE_RESP => response::check(self, pdu, out),
            PduType::C2H_DATA => data::c2h(self, pdu, out),
            PduType::R2T => data::r2t(self, pdu, out),
            PduType::H2C_DATA => data::h2c(self, pdu, out),
            PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ => self.quote(sender, pdu, out),
            _ => {}
        }
        let lengths = [req::TCP_H2C_24, req::TCP_C2H_01];
        if out.breaches.iter().skip(before).any(|b| lengths.contains(&b.requirement)) {
            self.ambiguous[index(sender)] = true;
        }
        self.note(sender, pdu);
        self.session.apply(dir, pdu);
    }

    /// ICReq first, and nothing but it before ICResp. [NVMe/TCP 1.0, 3.1]
    fn order(&mut self, sender: Side, pdu: &Pdu, out: &mut Out) {
        let ptype = pdu.ptype();
        let started = self.session.icreq().is_some() && self.session.icresp().is_some();
        if sender == Side::Host && !self.host_spoke {
            self.host_spoke = true;
            out.check(ptype == PduType::IC_REQ, req::TCP_ICREQ_01, format!("the host starts with {ptype}"), "an ICReq first");
        }
        let early =
            matches!(ptype, PduType::CAPSULE_CMD | PduType::CAPSULE_RESP | PduType::H2C_DATA | PduType::C2H_DATA | PduType::R2T);
        out.check(!early || started, req::TCP_CONN_02, format!("{ptype} before ICReq and ICResp"), "the exchange of both first");
    }

    fn ic_resp(&self, pdu: &Pdu, out: &mut Out) {
        let (Some(asked), Ok(got)) = (self.session.icreq(), nvmf_wire::tcp::IcResp::read(&pdu.header)) else { return };
        for (name, asked, got) in [("HDGST", asked.hdgst(), got.hdgst()), ("DDGST", asked.ddgst(), got.ddgst())] {
            out.check(asked || !got, req::TCP_DGST_18, format!("ICResp enables {name}"), "only what ICReq asked for");
        }
    }

    /// Remembers what the rules need beyond the session.
    fn note(&mut self, sender: Side, pdu: &Pdu) {
        match pdu.ptype() {
            PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ => self.term[index(sender)] = true,
            PduType::CAPSULE_CMD => {
                if let Ok(c) = CapsuleCmd::read(&pdu.header) {
                    self.note_command(&Sqe::from_bytes(c.sqe()), &pdu.data);
                }
            }
            PduType::CAPSULE_RESP => {
                if let Ok(c) = CapsuleResp::read(&pdu.header) {
                    self.note_response(&Cqe::from_bytes(c.cqe()));
                }
            }
            PduType::C2H_DATA => {
                let done = nvmf_wire::tcp::C2hData::read(&pdu.header).ok().filter(|d| d.last() && d.success());
                if let Some(d) = done {
                    self.finish(d.cccid(), true);
                }
            }
            PduType::H2C_DATA => {
                if let Ok(d) = H2cData::read(&pdu.header)
                    && self.session.command(d.cccid()).is_none_or(|c| c.r2ts.is_empty())
                    && d.last()
                {
                    self.stale.remove(&d.cccid().0);
                }
            }
            _ => {}
        }
    }

    fn note_command(&mut self, sqe: &Sqe, data: &[u8]) {
        let cid = sqe.cid();
        if self.session.command(cid).is_some() {
            *self.doubled.entry(cid.0).or_default() += 1;
        }
        self.completed.remove(&cid.0);
        self.stale.remove(&cid.0);
        match sqe.fctype() {
            Some(FabricsType::CONNECT) => self.asked_cntlid = ConnectData::read(data).ok().map(|d| d.cntlid()),
            Some(FabricsType::PROPERTY_SET) => {
                let set = PropertySet::from_bytes(*sqe.as_bytes());
                let cc = Cc::read(&set.value().to_le_bytes()).unwrap_or_default();
                if set.ofst() == Property::CC && !cc.en() {
                    self.ready = false;
                }
            }
            _ => {}
        }
    }

    fn note_response(&mut self, cqe: &Cqe) {
        let success = cqe.status().code() == Status::SUCCESS;
        if let Some(command) = self.session.command(cqe.cid()) {
            match command.sqe.fctype() {
                Some(FabricsType::CONNECT) => self.connected |= success,
                Some(FabricsType::PROPERTY_GET) if success => {
                    let get = PropertyGet::from_bytes(*command.sqe.as_bytes());
                    let csts = Csts::read(&cqe.dw0().to_le_bytes()).unwrap_or_default();
                    if get.ofst() == Property::CSTS {
                        self.ready = csts.rdy();
                    }
                }
                _ => {}
            }
            self.finish(cqe.cid(), false);
        } else if let Some(n) = self.doubled.get_mut(&cqe.cid().0) {
            *n = n.saturating_sub(1);
        }
    }

    fn finish(&mut self, cid: Cid, by_success: bool) {
        self.completed.insert(cid.0, by_success);
        let due: Vec<Window> = self.session.command(cid).map(|c| c.r2ts.iter().copied().collect()).unwrap_or_default();
        if !due.is_empty() {
            self.stale.insert(cid.0, due);
        }
    }
}

/// Breaches after which the receiver may have read something else than we did.
fn fatal(requirement: &Requirement) -> bool {
    [req::TCP_DGST_05, req::TCP_DGST_06, req::TCP_DGST_08, req::TCP_CH_05, req::TCP_CONN_02, req::TCP_ICREQ_01]
        .contains(&requirement)
        || head::HLEN.contains(&requirement)
}

fn index(side: Side) -> usize {
    usize::from(side == Side::Controller)
}

/// `Read, CID 0x0007`.
fn name(session: &Session, command: &Command) -> String {
    format!("{}, CID {:#06x}", session.command_name(&command.sqe), command.sqe.cid().0)
}

fn type_of(bytes: &[u8]) -> Option<(PduHead, PduType)> {
    let head = PduHead::read(bytes).ok()?;
    Some((head, head.ptype()))
}
