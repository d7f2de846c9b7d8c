//! Figures of a capture: what each controller's queues carried, how fast commands were answered, how many waited.
//!
//! [`Stats`] watches a capture go by and gives a [`Report`], which prints itself as a table ([`Report::table`]), as a plot
//! ([`Report::plot`]) and, by serde, as JSON. It needs the same memory whatever the length of the capture: what there may be of each
//! kind is limited, and what is beyond the limits is counted in the totals alone, which the report says.

mod latency;
mod plot;
mod report;
mod table;
mod timeline;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::cqe::ConnectResponse;
use nvmf_wire::sqe::{FabricsType, Opcode};
use nvmf_wire::tcp::{C2hData, CapsuleCmd, CapsuleResp, H2cData, Pdu, PduType};
use nvmf_wire::{Cid, Cqe, Qid, Sqe, Status};

use crate::exchange::{Direction, Ends, Event, EventKind, Transport};
use crate::follow::{Followed, Watcher};
use crate::roce::{Icrc, Packet, Place, Rdma};
use crate::session::Session;
pub use latency::Latencies;
use latency::Latency;
pub(crate) use report::queue_name;
pub use report::{CommandReport, ControllerReport, Depth, ErrorReport, PieceReport, QueueReport, Report, SeriesReport, Timeline};
pub(crate) use table::time;

/// Controllers that are told apart; more are in the totals alone.
pub const MAX_CONTROLLERS: usize = 256;
/// Queues that are told apart.
pub const MAX_QUEUES: usize = 2048;
/// Commands of queues that are told apart, over all queues.
pub const MAX_ROWS: usize = 2048;
/// Different errors of one command that are told apart.
const MAX_ERRORS: usize = 16;
/// Connections of one queue that are named.
const MAX_NAMED: usize = 8;

/// Watches a capture and counts.
#[derive(Debug, Default)]
pub struct Stats {
    connections: BTreeMap<usize, Conn>,
    controllers: Vec<Controller>,
    queues: Vec<Queue>,
    rows: usize,
    totals: BTreeMap<Code, Row>,
    traffic: Traffic,
    opened: u64,
    unlisted: u64,
    time: Option<(u64, u64)>,
    timeline: timeline::Timeline,
    /// Lines for all Admin Queues and all I/O queues that have no line of their own.
    rest: [Option<usize>; 2],
    notes: Vec<String>,
}

/// What a command is: Fabrics command, admin command, I/O command, then its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Code(Kind, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Fabrics,
    Admin,
    Io,
}

/// What was seen of one command on one queue.
#[derive(Debug)]
struct Row {
    name: String,
    sent: u64,
    answered: u64,
    bytes: [u64; 2],
    /// By status code, and whether it is that of a Fabrics command.
    errors: BTreeMap<(u16, bool), u64>,
    more_errors: u64,
    times: Latency,
}

/// What passed below the commands.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    /// PDUs, or over RDMA capsules.
    pdus: [u64; 2],
    /// RoCEv2 packets.
    packets: [u64; 2],
    repeated: u64,
    bad_icrc: u64,
    bad_hdgst: u64,
    bad_ddgst: u64,
    undecodable: u64,
    missed: u64,
}

#[derive(Debug)]
struct Controller {
    server: SocketAddr,
    transport: Transport,
    names: Option<Names>,
    cntlid: Option<u16>,
    /// Its I/O queues may still come.
    open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Names {
    subnqn: String,
    hostnqn: String,
}

#[derive(Debug)]
struct Queue {
    controller: usize,
    qid: Option<u16>,
    entries: Option<u64>,
    connections: u64,
    named: Vec<usize>,
    rows: BTreeMap<Code, Row>,
    traffic: Traffic,
    depth: DepthSoFar,
    line: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct DepthSoFar {
    now: u32,
    max: u32,
    /// Depth times nanoseconds.
    area: u128,
    /// First and last change, nanoseconds.
    span: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Conn {
    session: Session,
    server: SocketAddr,
    transport: Transport,
    /// In Connect.
    names: Option<Names>,
    /// Of the queues; `None` before the first command, and where there were too many.
    queue: Option<usize>,
    settled: bool,
    /// The Connect command whose data have not come, and what came of them.
    connect: Option<(Sqe, Vec<u8>)>,
    /// What passed before the queue was known.
    traffic: Traffic,
    pending: BTreeMap<u16, Pending>,
    line: Option<usize>,
    closed: u32,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    at_ns: u64,
    code: Code,
    /// It waits for an event, not for the controller.
    event: bool,
}

impl Watcher for Stats {
    fn opened(&mut self, conn: usize, ends: &Ends) {
        self.opened += 1;
        self.pass(ends.opened_ns);
        let new = Conn {
            session: Session::new(),
            server: ends.server,
            transport: ends.transport,
            names: None,
            queue: None,
            settled: false,
            connect: None,
            traffic: Traffic::default(),
            pending: BTreeMap::new(),
            line: None,
            closed: 0,
        };
        self.connections.insert(conn, new);
    }

    fn event(&mut self, conn: usize, event: &Event) {
        self.pass(event.at_ns);
        let Some(mut c) = self.connections.remove(&conn) else { return };
        match &event.kind {
            EventKind::Pdu(bytes) => self.pdu(conn, &mut c, event, bytes),
            EventKind::Undecodable { .. } => self.traffic(&mut c, |t| t.undecodable += 1),
            EventKind::Packet(packet) => self.packet(&mut c, event.dir, packet),
            EventKind::Rdma(rdma) => self.rdma(conn, &mut c, event, rdma),
            EventKind::Tls(_) => {}
            EventKind::Gap { .. } => self.traffic(&mut c, |t| t.missed += 1),
            EventKind::Closed { reset } => {
                c.closed += 1 + u32::from(*reset);
                if c.closed > 1 {
                    self.empty(&mut c, event.at_ns);
                }
            }
        }
        self.connections.insert(conn, c);
    }

    fn repeated(&mut self, conn: usize, _: Direction, at_ns: u64, _: usize) {
        self.pass(at_ns);
        if let Some(mut c) = self.connections.remove(&conn) {
            self.traffic(&mut c, |t| t.repeated += 1);
            self.connections.insert(conn, c);
        }
    }

    fn over(&mut self, conn: usize) {
        if let Some(mut c) = self.connections.remove(&conn) {
            let at_ns = self.time.map_or(0, |(_, last)| last);
            self.empty(&mut c, at_ns);
        }
    }

    fn note(&mut self, note: &str) {
        if self.notes.len() < MAX_ERRORS {
            self.notes.push(note.to_owned());
        }
    }
}

impl Stats {
    /// Nothing counted yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What was counted, of a capture that is read.
    #[must_use]
    pub fn finish(mut self, followed: Followed) -> Report {
        let end_ns = self.time.map_or(0, |(_, last)| last);
        for (_, mut c) in std::mem::take(&mut self.connections) {
            self.empty(&mut c, end_ns);
        }
        self.timeline.end(end_ns);
        report::of(&self, followed)
    }

    fn pass(&mut self, at_ns: u64) {
        let (first, last) = self.time.unwrap_or((at_ns, at_ns));
        if self.time.is_none() {
            // Lines begin with the capture, not with their first command.
            self.timeline.end(at_ns);
        }
        self.time = Some((first.min(at_ns), last.max(at_ns)));
    }

    fn traffic(&mut self, c: &mut Conn, count: impl Fn(&mut Traffic)) {
        count(&mut self.traffic);
        match c.queue.and_then(|q| self.queues.get_mut(q)) {
            Some(queue) => count(&mut queue.traffic),
            None => count(&mut c.traffic),
        }
    }

    fn pdu(&mut self, conn: usize, c: &mut Conn, event: &Event, bytes: &Bytes) {
        let dir = event.dir;
        self.traffic(c, |t| t.pdus[dir.index()] += 1);
        let Ok(pdu) = Pdu::parse(bytes) else { return self.traffic(c, |t| t.undecodable += 1) };
        if !pdu.hdgst_ok() {
            self.traffic(c, |t| t.bad_hdgst += 1);
        }
        if !pdu.ddgst_ok() {
            self.traffic(c, |t| t.bad_ddgst += 1);
        }
        if pdu.ptype().from_host() != (dir == Direction::HostToController) {
            return;
        }
        match pdu.ptype() {
            PduType::CAPSULE_CMD => {
                if let Ok(capsule) = CapsuleCmd::read(&pdu.header) {
                    c.session.apply(dir, &pdu);
                    return self.command(conn, c, event.at_ns, &Sqe::from_bytes(capsule.sqe()), &pdu.data);
                }
            }
            PduType::CAPSULE_RESP => {
                if let Ok(capsule) = CapsuleResp::read(&pdu.header) {
                    self.response(conn, c, event.at_ns, &Cqe::from_bytes(capsule.cqe()));
                }
            }
            PduType::H2C_DATA => {
                if let Ok(h) = H2cData::read(&pdu.header) {
                    self.data(conn, c, event.at_ns, h.cccid(), dir, &pdu.data);
                }
            }
            PduType::C2H_DATA => {
                if let Ok(h) = C2hData::read(&pdu.header) {
                    self.data(conn, c, event.at_ns, h.cccid(), dir, &pdu.data);
                    if h.success() && h.last() {
                        self.answered(c, event.at_ns, h.cccid(), None);
                    }
                }
            }
            _ => {}
        }
        c.session.apply(dir, &pdu);
    }

    fn packet(&mut self, c: &mut Conn, dir: Direction, packet: &Packet) {
        self.traffic(c, |t| t.packets[dir.index()] += 1);
        if let Icrc::Bad { .. } = packet.icrc {
            self.traffic(c, |t| t.bad_icrc += 1);
        } else if packet.place == Place::Repeated {
            self.traffic(c, |t| t.repeated += 1);
        }
    }

    fn rdma(&mut self, conn: usize, c: &mut Conn, event: &Event, rdma: &Rdma) {
        let dir = event.dir;
        match rdma {
            Rdma::Command { sqe, rest, .. } => {
                self.traffic(c, |t| t.pdus[dir.index()] += 1);
                c.session.apply_rdma(dir, rdma);
                return self.command(conn, c, event.at_ns, sqe, rest);
            }
            Rdma::Response { cqe, .. } => {
                self.traffic(c, |t| t.pdus[dir.index()] += 1);
                self.response(conn, c, event.at_ns, cqe);
            }
            Rdma::Data(data) => {
                if let Some(cid) = data.target.cid {
                    self.data(conn, c, event.at_ns, cid, dir, &data.bytes);
                }
            }
            Rdma::Send { .. } | Rdma::Stray { .. } => self.traffic(c, |t| t.undecodable += 1),
            Rdma::Missing { .. } => self.traffic(c, |t| t.missed += 1),
            _ => {}
        }
        c.session.apply_rdma(dir, rdma);
    }

    fn command(&mut self, conn: usize, c: &mut Conn, at_ns: u64, sqe: &Sqe, data: &[u8]) {
        let first = !std::mem::replace(&mut c.settled, true);
        let late = first && sqe.fctype() == Some(FabricsType::CONNECT) && data.len() < ConnectData::LEN;
        if late {
            c.connect = Some((*sqe, data.to_vec()));
        } else if first {
            self.settle(conn, c, sqe, data);
        }
        let code = Code::of(&c.session, sqe);
        let name = || c.session.command_name(sqe).into_owned();
        self.rows(c.queue, code, name, |row| {
            row.sent += 1;
            row.bytes[Direction::HostToController.index()] += data.len() as u64;
        });
        let event = code == Code(Kind::Admin, Opcode::ASYNC_EVENT_REQUEST.0);
        if let Some(old) = c.pending.insert(sqe.cid().0, Pending { at_ns, code, event }).filter(|old| !old.event) {
            // A CID that is used again before it was answered: the one before will never be.
            self.depth(c, old.at_ns.max(at_ns), -1);
        }
        if !event && !late {
            self.depth(c, at_ns, 1);
        }
    }

    fn data(&mut self, conn: usize, c: &mut Conn, at_ns: u64, cid: Cid, dir: Direction, data: &[u8]) {
        if let Some(p) = c.pending.get(&cid.0) {
            self.rows(c.queue, p.code, String::new, |row| row.bytes[dir.index()] += data.len() as u64);
        }
        let Some((sqe, got)) = &mut c.connect else { return };
        if sqe.cid() == cid && dir == Direction::HostToController {
            got.extend(data.iter().take(ConnectData::LEN.saturating_sub(got.len())));
            if got.len() >= ConnectData::LEN {
                self.settle_late(conn, c, at_ns);
            }
        }
    }

    /// The data of Connect came behind the command, or will not come: what the queue missed is made up for.
    fn settle_late(&mut self, conn: usize, c: &mut Conn, at_ns: u64) {
        let Some((sqe, got)) = c.connect.take() else { return };
        self.settle(conn, c, &sqe, &got);
        let name = || c.session.command_name(&sqe).into_owned();
        self.row(c.queue, Code::of(&c.session, &sqe), name, |row| {
            row.sent += 1;
            row.bytes[Direction::HostToController.index()] += got.len() as u64;
        });
        self.depth(c, at_ns, 1);
    }

    fn response(&mut self, conn: usize, c: &mut Conn, at_ns: u64, cqe: &Cqe) {
        self.settle_late(conn, c, at_ns);
        let connect = c.session.command(cqe.cid()).is_some_and(|o| o.sqe.fctype() == Some(FabricsType::CONNECT));
        if connect && cqe.status().code() == Status::SUCCESS {
            self.connected(c, ConnectResponse::from_bytes(*cqe.as_bytes()).cntlid().0);
        }
        self.answered(c, at_ns, cqe.cid(), Some(cqe.status()));
    }

    /// A Connect succeeded. On an Admin Queue it makes a controller, and the one before that had its ID is no more.
    fn connected(&mut self, c: &Conn, cntlid: u16) {
        let own = c.queue.and_then(|q| self.queues.get(q)).map(|q| q.controller);
        if c.session.is_admin() {
            let same = |k: &Controller| k.cntlid == Some(cntlid) && k.names == c.names && k.server == c.server;
            self.controllers.iter_mut().filter(|k| same(k)).for_each(|k| k.open = false);
        }
        if let Some(controller) = own.and_then(|o| self.controllers.get_mut(o)) {
            controller.cntlid = Some(cntlid);
            controller.open = true;
        }
    }

    fn answered(&mut self, c: &mut Conn, at_ns: u64, cid: Cid, status: Option<Status>) {
        let Some(p) = c.pending.remove(&cid.0) else { return };
        let took = at_ns.saturating_sub(p.at_ns);
        let error = status.map(Status::code).filter(|s| *s != Status::SUCCESS);
        let key = error.map(|s| (s.0, p.code.0 == Kind::Fabrics));
        self.rows(c.queue, p.code, String::new, |row| {
            row.answered += 1;
            if !p.event {
                row.times.record(took);
            }
            let Some(key) = key else { return };
            if row.errors.len() < MAX_ERRORS || row.errors.contains_key(&key) {
                *row.errors.entry(key).or_default() += 1;
            } else {
                row.more_errors += 1;
            }
        });
        if !p.event {
            self.depth(c, at_ns, -1);
            if let Some(line) = c.line {
                self.timeline.answered(line, at_ns, took);
            }
        }
    }

    /// Does the same to the row of the queue and to that of the totals.
    fn rows(&mut self, queue: Option<usize>, code: Code, name: impl Fn() -> String, act: impl Fn(&mut Row)) {
        act(self.totals.entry(code).or_insert_with(|| Row::new(name())));
        self.row(queue, code, name, act);
    }

    fn row(&mut self, queue: Option<usize>, code: Code, name: impl Fn() -> String, act: impl Fn(&mut Row)) {
        let Some(queue) = queue.and_then(|q| self.queues.get_mut(q)) else { return };
        if let Some(row) = queue.rows.get_mut(&code) {
            act(row);
        } else if self.rows < MAX_ROWS {
            self.rows += 1;
            act(queue.rows.entry(code).or_insert_with(|| Row::new(name())));
        }
    }

    fn depth(&mut self, c: &Conn, at_ns: u64, change: i64) {
        if let Some(line) = c.line {
            self.timeline.depth(line, at_ns, change);
        }
        let Some(queue) = c.queue.and_then(|q| self.queues.get_mut(q)) else { return };
        let d = &mut queue.depth;
        let (first, last) = d.span.unwrap_or((at_ns, at_ns));
        d.area += u128::from(at_ns.saturating_sub(last)) * u128::from(d.now);
        d.span = Some((first, last.max(at_ns)));
        d.now = u32::try_from(i64::from(d.now) + change).unwrap_or(0);
        d.max = d.max.max(d.now);
    }

    /// The connection is over: what is outstanding will not be answered.
    fn empty(&mut self, c: &mut Conn, at_ns: u64) {
        let waiting = std::mem::take(&mut c.pending).into_values().filter(|p| !p.event).count();
        if waiting > 0 {
            self.depth(c, at_ns, -(waiting as i64));
        }
    }

    /// Finds the controller and the queue of a connection by its first command.
    fn settle(&mut self, conn: usize, c: &mut Conn, sqe: &Sqe, data: &[u8]) {
        let connect = (sqe.fctype() == Some(FabricsType::CONNECT)).then(|| Connect::from_bytes(*sqe.as_bytes()));
        let data = ConnectData::read(data).ok();
        let names =
            data.as_ref().map(|d| Names { subnqn: d.subnqn().as_str().to_owned(), hostnqn: d.hostnqn().as_str().to_owned() });
        let qid = connect.map(|k| k.qid().0);
        c.names.clone_from(&names);
        let cntlid = data.as_ref().filter(|_| qid != Some(Qid::ADMIN.0)).map(|d| d.cntlid().0);
        // One whose Connect was not seen may be any controller at that address.
        let fits = |k: &Controller| k.open && k.cntlid == cntlid && k.names == names && (names.is_some() || k.server == c.server);
        let known = self.controllers.iter().rposition(fits).filter(|_| qid != Some(Qid::ADMIN.0));
        let Some(controller) = known.or_else(|| {
            (self.controllers.len() < MAX_CONTROLLERS).then(|| {
                self.controllers.push(Controller {
                    server: c.server,
                    transport: c.transport,
                    names: names.clone(),
                    cntlid,
                    open: true,
                });
                self.controllers.len() - 1
            })
        }) else {
            self.unlisted += 1;
            c.line = Some(self.rest(c.session.is_admin()));
            return;
        };
        let same = |q: &Queue| q.controller == controller && q.qid == qid && qid.is_some();
        let queue = self.queues.iter().rposition(same).or_else(|| {
            (self.queues.len() < MAX_QUEUES).then(|| {
                let line = self.line(c.session.is_admin());
                self.queues.push(Queue {
                    controller,
                    qid,
                    entries: connect.map(|k| k.sqsize().count()),
                    connections: 0,
                    named: Vec::new(),
                    rows: BTreeMap::new(),
                    traffic: Traffic::default(),
                    depth: DepthSoFar::default(),
                    line,
                });
                self.queues.len() - 1
            })
        });
        c.queue = queue;
        c.line = Some(match queue.and_then(|q| self.queues.get_mut(q)) {
            Some(queue) => {
                queue.connections += 1;
                if queue.named.len() < MAX_NAMED {
                    queue.named.push(conn);
                }
                queue.traffic.add(&c.traffic);
                queue.line
            }
            None => self.rest(c.session.is_admin()),
        });
    }

    /// A line of its own, or the one that is shared.
    fn line(&mut self, admin: bool) -> usize {
        let taken = self.rest.iter().flatten().count();
        if self.timeline.series.len() - taken < timeline::SERIES { self.timeline.add() } else { self.rest(admin) }
    }

    fn rest(&mut self, admin: bool) -> usize {
        let timeline = &mut self.timeline;
        let [first, second] = &mut self.rest;
        *(if admin { first } else { second }).get_or_insert_with(|| timeline.add())
    }
}

impl Code {
    fn of(session: &Session, sqe: &Sqe) -> Self {
        match sqe.fctype() {
            Some(f) => Self(Kind::Fabrics, f.0),
            None if session.is_admin() => Self(Kind::Admin, sqe.opc().0),
            None => Self(Kind::Io, sqe.opc().0),
        }
    }
}

impl Row {
    fn new(name: String) -> Self {
        Self { name, sent: 0, answered: 0, bytes: [0; 2], errors: BTreeMap::new(), more_errors: 0, times: Latency::default() }
    }
}

impl Traffic {
    fn add(&mut self, other: &Self) {
        self.pdus[0] += other.pdus[0];
        self.pdus[1] += other.pdus[1];
        self.packets[0] += other.packets[0];
        self.packets[1] += other.packets[1];
        self.repeated += other.repeated;
        self.bad_icrc += other.bad_icrc;
        self.bad_hdgst += other.bad_hdgst;
        self.bad_ddgst += other.bad_ddgst;
        self.undecodable += other.undecodable;
        self.missed += other.missed;
    }
}
