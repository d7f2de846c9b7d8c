//! Bystander rules: what bytes alone show to be wrong, whoever sent them.
//!
//! [`Judge`] takes the events of any number of connections in order and returns a [`Finding`] for each breach. Where one side has sent
//! something that cannot be understood, the other is no longer judged by rules that depend on it; after a gap of the capture nothing is
//! judged. A rule that could blame a peer that is right is a defect: where what it hangs on was not seen, it is silent.
//!
//! What each PDU shows by itself is in `head` and `digest`; `data` has C2HData, R2T and H2CData, `fatal` terminate requests and what
//! should have led to one, `capsule` and `host` commands, `response`, `claim` and `answer` completions: their fields, what a status
//! claims, and what should have been refused. `known` is what was learnt of a controller over all of its connections, which `property`,
//! `identify`, `namespace`, `log`, `discovery`, `feature` and `event` add to and judge; `store` has the data of blocks, where the caller
//! says that nobody else writes. `state` is one connection, and the order in which all of them run.
//!
//! A new rule goes into one of these, and a case that breaks it into `tests/tests/bystander/`, whose test notices when one is missing.

mod answer;
mod answers;
mod capsule;
mod claim;
mod content;
mod controllers;
mod data;
mod digest;
mod discovery;
mod event;
mod fatal;
mod feature;
mod head;
mod host;
mod identify;
mod known;
mod log;
mod namespace;
mod property;
mod rdma;
mod rdma_cm;
mod response;
mod roce;
mod state;
mod store;
mod tcp;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use nvmf_spec::{Level, Requirement, Side, req};
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::layout::Layout;
use nvmf_wire::registry::LAYOUTS;
use nvmf_wire::sgl::{SglKeyed, SglType};
use nvmf_wire::sqe::FabricsType;
use nvmf_wire::tcp::{CapsuleCmd, Pdu, PduHead, PduType};
use nvmf_wire::{Cqe, Qid, Sqe};

use crate::exchange::{Direction, Event, EventKind, Exchange};
use crate::session::{Command, Session};
use controllers::Controllers;
use known::{Known, Who};
use state::State;
use store::Written;

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
    /// Frame of the capture file that completed the event, from 1; 0 where there is none.
    pub frame: u64,
    /// The bytes that show it; none where it is the end of a connection, or bytes that did not come.
    pub bytes: Shown,
    /// What was seen, with values.
    pub seen: String,
    /// What the requirement asks for here.
    pub expected: String,
}

/// Bytes that show a breach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Where they begin, bytes from the start of the PDU; of [`Part::Data`], from the start of the data.
    pub offset: usize,
    /// What they are a part of.
    pub part: Part,
    /// At most [`MAX_SHOWN`] of them.
    pub bytes: Vec<u8>,
}

/// Most bytes that a finding shows.
pub const MAX_SHOWN: usize = 128;

/// What the bytes of a finding are a part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// The PDU, or message, that is the event.
    #[default]
    Pdu,
    /// The data of a command, which may have come in many PDUs.
    Data,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pdu => "pdu",
            Self::Data => "data",
        })
    }
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
    connections: BTreeMap<usize, Box<State>>,
    /// What is known of the controllers.
    controllers: Controllers,
    /// What was written, where nobody else writes.
    written: Option<Written>,
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

    /// Judges the data that Reads bring as well: nobody but the hosts of these connections writes to the namespaces.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        self.written = Some(Written::default());
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
        self.controllers.forget(conn);
    }

    /// What is wrong about the next event of connection `conn`; the caller numbers connections as it likes.
    pub fn event(&mut self, conn: usize, event: &Event) -> Vec<Finding> {
        let state = self.connections.entry(conn).or_default();
        let number = state.events;
        state.events += 1;
        if state.blind {
            return Vec::new();
        }
        let mut out = Out::new(event.dir);
        state.now_ns = event.at_ns;
        home(state, conn, &self.controllers, &event.kind);
        if let Some(home) = state.home {
            self.controllers.swap(home, home == conn, &mut state.known);
        }
        state.written = self.written.take();
        state.event(event, &mut out);
        twice(state, conn, &self.controllers, event, &mut out);
        self.written = state.written.take();
        match state.home {
            Some(home) => self.controllers.swap(home, false, &mut state.known),
            // A connection that belongs to no known controller learns nothing for its next event.
            None => *state.known = Known::default(),
        }
        if self.once {
            let side = event.dir.sender();
            out.breaches.retain(|b| state.reported.insert((b.requirement.id, b.side.unwrap_or(side))));
        }
        if out.breaches.is_empty() {
            return Vec::new();
        }
        let bytes = carried(&event.kind);
        let finding = |b: Breach| Finding {
            requirement: b.requirement,
            level: b.requirement.level,
            side: b.side.unwrap_or(event.dir.sender()),
            conn,
            event: number,
            at_ns: event.at_ns,
            frame: event.frame,
            bytes: b.bytes.unwrap_or_else(|| shown(Part::Pdu, &bytes, b.at)),
            seen: b.seen,
            expected: b.expected,
        };
        out.breaches.into_iter().map(finding).collect()
    }
}

/// A controller serves one association, so that a second one under its name means that both go by one controller ID.
fn twice(state: &mut State, conn: usize, controllers: &Controllers, event: &Event, out: &mut Out) {
    let served = event.dir == Direction::ControllerToHost && state.session.is_admin() && state.served;
    let Some(w) = state.known.who.as_ref().filter(|_| served && state.known.open) else { return };
    if controllers.named(&w.subnqn, w.cntlid).any(|(home, k)| home != conn && k.since_ns > state.known.since_ns) {
        let seen = format!("controller {} of {} serves an association, and a later one has its ID", w.cntlid.0, w.subnqn);
        out.add(req::FAB_CNTLID_14, seen, "one association at a time");
        state.known.open = false;
    }
}

/// Finds the controller that a connection belongs to: its own where it is an Admin Queue, by the Connect data where it is another.
fn home(state: &mut State, conn: usize, controllers: &Controllers, kind: &EventKind) {
    if state.home.is_some() || state.session.connect().is_some() && state.asking.is_none() {
        return;
    }
    let found = match kind {
        EventKind::Pdu(bytes) if bytes.first() == Some(&PduType::CAPSULE_CMD.0) => Pdu::parse(bytes).ok().and_then(|pdu| {
            let capsule = CapsuleCmd::read(&pdu.header).ok()?;
            let data = ConnectData::read(&pdu.data).ok();
            Some((Sqe::from_bytes(capsule.sqe()), data))
        }),
        EventKind::Rdma(message) => match message.as_ref() {
            crate::Rdma::Command { sqe, rest, .. } => Some((*sqe, ConnectData::read(rest).ok())),
            _ => None,
        },
        _ => None,
    };
    let who = match found {
        Some((sqe, _)) if sqe.fctype() != Some(FabricsType::CONNECT) => return,
        Some((sqe, _)) if Connect::from_bytes(*sqe.as_bytes()).qid() == Qid::ADMIN => {
            state.home = Some(conn);
            return;
        }
        Some((_, data)) => data.as_ref().map(Who::of),
        // The data may have come after the command.
        None => None,
    };
    if let Some(who) = who.or_else(|| state.asking.clone().filter(|_| state.session.qid() != Some(Qid::ADMIN))) {
        state.home = controllers.home(&who);
    }
}

/// Headers of each side that are remembered for its peer's terminate request.
const HEADS: usize = 64;

struct Breach {
    requirement: &'static Requirement,
    seen: String,
    expected: String,
    /// Which bytes of the event show it: the first, and how many.
    at: (usize, usize),
    /// The bytes themselves, where they are no part of the event.
    bytes: Option<Shown>,
    /// Who broke it, where that is not the sender of the event.
    side: Option<Side>,
}

/// Where a check looks, within the part that is judged. Which bytes that are is found out where there is something to say.
#[derive(Clone, Copy, Debug)]
enum Field {
    /// Offset and length.
    Bytes(usize, usize),
    /// A field of a table.
    Of(&'static Layout, &'static str),
}

/// Collects the breaches of the sender of one event.
struct Out {
    dir: Direction,
    breaches: Vec<Breach>,
    /// Where in the event lies what is judged now.
    part: (usize, usize),
    /// The same for the next check alone.
    field: Option<Field>,
    /// Where in the event its CQE lies, if it has one.
    cqe: Option<usize>,
}

impl Out {
    fn new(dir: Direction) -> Self {
        Self { dir, breaches: Vec::new(), part: (0, 16), field: None, cqe: None }
    }

    /// From now on `len` bytes at `offset` of the event are judged.
    fn part(&mut self, offset: usize, len: usize) {
        self.part = (offset, len);
    }

    /// The CQE of the event begins at `offset`.
    fn cqe(&mut self, offset: usize) {
        self.part(offset, Cqe::LEN);
        self.cqe = Some(offset);
    }

    /// From now on `len` bytes at `offset` of the CQE are judged; of an event that has none, what was judged before.
    fn within_cqe(&mut self, offset: usize, len: usize) {
        if let Some(cqe) = self.cqe {
            self.part(cqe + offset, len);
        }
    }

    /// The next check is about `len` bytes at `offset` of that part.
    fn at(&mut self, offset: usize, len: usize) -> &mut Self {
        self.field = Some(Field::Bytes(offset, len));
        self
    }

    /// The next check is about a field of the table that begins where that part does.
    fn of(&mut self, layout: &'static Layout, name: &'static str) -> &mut Self {
        self.field = Some(Field::Of(layout, name));
        self
    }

    fn add(&mut self, requirement: &'static Requirement, seen: impl fmt::Display, expected: impl fmt::Display) {
        self.push(None, requirement, seen.to_string(), expected.to_string());
    }

    fn push(&mut self, side: Option<Side>, requirement: &'static Requirement, seen: String, expected: String) {
        let (from, all) = self.part;
        let at = match self.field.take() {
            Some(Field::Bytes(offset, len)) => (from + offset, len),
            Some(Field::Of(layout, name)) => layout.field(name).map_or((from, all), |f| {
                let first = f.bit / 8;
                (from + first, (f.bit + f.width).div_ceil(8) - first)
            }),
            None => (from, all),
        };
        self.breaches.push(Breach { requirement, seen, expected, at, bytes: None, side });
    }

    /// Takes over what was found in data that is no part of the event.
    fn of_data(&mut self, data: &[u8], inner: Out) {
        for mut breach in inner.breaches {
            breach.bytes = Some(shown(Part::Data, data, breach.at));
            self.breaches.push(breach);
        }
    }

    /// Adds a breach of a side that did not send this event.
    fn blame(&mut self, side: Side, requirement: &'static Requirement, seen: impl fmt::Display, expected: impl fmt::Display) {
        self.push(Some(side), requirement, seen.to_string(), expected.to_string());
    }

    /// Adds a breach unless `ok`; only then the texts are made, so that what is right costs nothing.
    #[inline]
    fn check(&mut self, ok: bool, requirement: &'static Requirement, seen: impl fmt::Display, expected: impl fmt::Display) {
        if !ok {
            self.add(requirement, seen, expected);
        }
        self.field = None;
    }
}

/// Bytes of data that the first descriptor of a command describes; `None` where it is none that this transport has for data.
fn buffer(state: &State, sqe: &Sqe) -> Option<u32> {
    let sgl = sqe.sgl1();
    match (state.rdma.is_some(), sgl.kind()) {
        (true, SglType::KEYED_DATA_BLOCK) => Some(SglKeyed::from_bytes(*sgl.as_bytes()).len()),
        (true, _) => sgl.is_in_capsule().then(|| sgl.len()),
        (false, _) => (sgl.is_in_capsule() || sgl.is_transport()).then(|| sgl.len()),
    }
}

/// The bits that no field of a table names. Many are asked for with each command, and finding them takes longer than all else.
pub(crate) fn reserved(layout: &'static Layout) -> &'static [u8] {
    static MASKS: LazyLock<BTreeMap<&str, Vec<u8>>> =
        LazyLock::new(|| LAYOUTS.iter().map(|l| (l.name, l.reserved_mask())).collect());
    MASKS.get(layout.name).map_or(&[], Vec::as_slice)
}

/// Offset of the first byte with a reserved bit set.
pub(crate) fn reserved_at(layout: &'static Layout, bytes: &[u8]) -> Option<usize> {
    reserved(layout).iter().zip(bytes).position(|(m, b)| m & b != 0)
}

/// The bytes of an event: those of a PDU or packet; of an RDMA message those of the capsule, or of the header that says what moves.
fn carried(kind: &EventKind) -> Cow<'_, [u8]> {
    use crate::Rdma;
    match kind {
        EventKind::Pdu(bytes) | EventKind::Undecodable { bytes, .. } => Cow::Borrowed(bytes),
        EventKind::Packet(packet) => Cow::Borrowed(&packet.bytes),
        EventKind::Rdma(message) => match message.as_ref() {
            Rdma::Cm(cm) => Cow::Borrowed(&cm.bytes),
            Rdma::Command { sqe, rest, .. } => Cow::Owned([sqe.as_bytes(), rest.as_ref()].concat()),
            Rdma::Response { cqe, rest, .. } => Cow::Owned([cqe.as_bytes(), rest.as_ref()].concat()),
            Rdma::Send { bytes, .. } => Cow::Borrowed(bytes),
            Rdma::Read(target) => Cow::Owned(target.reth.as_bytes().to_vec()),
            Rdma::Data(data) => Cow::Owned(data.target.reth.as_bytes().to_vec()),
            _ => Cow::Borrowed(&[]),
        },
        _ => Cow::Borrowed(&[]),
    }
}

/// The part of `bytes` that lies at `at`.
fn shown(part: Part, bytes: &[u8], (offset, len): (usize, usize)) -> Shown {
    let offset = offset.min(bytes.len());
    let end = offset.saturating_add(len.min(MAX_SHOWN)).min(bytes.len());
    Shown { offset, part, bytes: bytes.get(offset..end).unwrap_or(&[]).to_vec() }
}

fn index(side: Side) -> usize {
    usize::from(side == Side::Controller)
}

/// Text that is made where there is something to say.
type Said<'a> = &'a dyn fmt::Display;

/// `Read, CID 0x0007`.
struct Name<'a> {
    session: &'a Session,
    sqe: &'a Sqe,
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, CID {:#06x}", self.session.command_name(self.sqe), self.sqe.cid().0)
    }
}

fn name<'a>(session: &'a Session, command: &'a Command) -> Name<'a> {
    Name { session, sqe: &command.sqe }
}

fn type_of(bytes: &[u8]) -> Option<(PduHead, PduType)> {
    let head = PduHead::read(bytes).ok()?;
    Some((head, head.ptype()))
}
