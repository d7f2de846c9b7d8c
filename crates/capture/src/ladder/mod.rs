//! Ladder diagrams: who sent what to whom, in order of time.
//!
//! [`Ladder`] watches a capture go by and keeps the arrows that were asked for; [`Picture`] draws them, as text ([`Picture::text`]) or as
//! SVG ([`Picture::svg`]). It keeps no more than [`Choice::limit`] arrows; how many more there were is said in the picture.

mod rdma;
mod svg;
mod text;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use bytes::Bytes;
use nvmf_spec::Side;
use nvmf_wire::connect::ConnectData;
use nvmf_wire::sqe::FabricsType;
use nvmf_wire::tcp::Pdu;
use nvmf_wire::{Cid, Qid};

use crate::exchange::{Direction, Ends, Event, EventKind, Transport};
use crate::follow::Watcher;
use crate::lint::Cause;
use crate::roce::Rdma;
use crate::rules::{Finding, Judge};
use crate::session::Session;
use words::{Piece, Told};

/// Alike arrows from which on they are drawn as one.
const FOLD: u64 = 3;
/// Endpoints in one picture.
const MAX_ENDS: usize = 8;

/// What is drawn.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Frames of the file, from 1.
    pub frames: Option<RangeInclusive<u64>>,
    /// Nanoseconds since the start of the capture.
    pub time_ns: Option<RangeInclusive<u64>>,
    /// One connection, as [`crate::Trace`] numbers them.
    pub conn: Option<usize>,
    /// One command and what belongs to it.
    pub command: Option<Pick>,
    /// Draws data that repeat one by one, and acknowledgements of RoCEv2.
    pub unfolded: bool,
    /// Most arrows.
    pub limit: usize,
}

impl Default for Choice {
    fn default() -> Self {
        Self { frames: None, time_ns: None, conn: None, command: None, unfolded: false, limit: 100 }
    }
}

/// One command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The Nth command of the capture, from 1, as the arrows number them.
    Number(u64),
    /// The first command with this Command Identifier in what was chosen else.
    Cid {
        /// Command Identifier.
        cid: Cid,
        /// On this connection.
        conn: Option<usize>,
    },
}

/// Watches a capture and keeps the arrows that were asked for.
#[derive(Debug, Default)]
pub struct Ladder {
    choice: Choice,
    connections: BTreeMap<usize, Conn>,
    judge: Judge,
    start_ns: Option<u64>,
    commands: u64,
    /// The command that [`Pick::Cid`] chose, by its number.
    picked: Option<u64>,
    picture: Picture,
    ends: BTreeMap<Place, usize>,
    told: BTreeSet<(&'static str, Side)>,
}

/// Arrows between endpoints.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    ends: Vec<End>,
    arrows: Vec<Arrow>,
    /// The command that it is about.
    about: Option<String>,
    frames: u64,
    commands: u64,
    left_out: u64,
    too_far: u64,
}

/// Where an endpoint stands: hosts before controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Host(IpAddr),
    Controller(SocketAddr),
}

/// An endpoint.
#[derive(Clone, Debug)]
struct End {
    place: Place,
    name: Option<String>,
    cntlid: Option<u16>,
}

/// What is drawn between two endpoints.
#[derive(Clone, Debug)]
struct Arrow {
    at_ns: u64,
    /// Of the first and the last of them, 0 where there is no capture file.
    frames: (u64, u64),
    conn: usize,
    qid: Option<u16>,
    dir: Direction,
    /// Number of its command, from 1.
    command: Option<u64>,
    from: usize,
    to: usize,
    told: Told,
    /// How many it stands for.
    count: u64,
    findings: Vec<String>,
}

#[derive(Debug)]
struct Conn {
    transport: Transport,
    client: SocketAddr,
    server: SocketAddr,
    session: Session,
    hostnqn: Option<String>,
    subnqn: Option<String>,
    cntlid: Option<u16>,
    /// What came of the data of the first Connect.
    connect: Vec<u8>,
    /// Number and time of outstanding commands.
    commands: BTreeMap<u16, (u64, u64)>,
}

impl Watcher for Ladder {
    fn opened(&mut self, conn: usize, ends: &Ends) {
        self.start_ns.get_or_insert(ends.opened_ns);
        let new = Conn {
            transport: ends.transport,
            client: ends.client,
            server: ends.server,
            session: Session::new(),
            hostnqn: None,
            subnqn: None,
            cntlid: None,
            connect: Vec::new(),
            commands: BTreeMap::new(),
        };
        self.connections.insert(conn, new);
    }

    fn event(&mut self, conn: usize, event: &Event) {
        let findings = self.judge.event(conn, event);
        let Some(mut c) = self.connections.remove(&conn) else { return };
        self.picture.frames = self.picture.frames.max(event.frame);
        let (told, command) = self.tell(&mut c, event);
        if let Some(told) = told
            && self.wanted(conn, event, command, told.cid)
        {
            self.draw(conn, &c, event, command, told, findings);
        }
        self.connections.insert(conn, c);
    }

    fn over(&mut self, conn: usize) {
        self.connections.remove(&conn);
        self.judge.forget(conn);
    }
}

impl Ladder {
    /// A picture of what `choice` asks for.
    #[must_use]
    pub fn new(choice: Choice) -> Self {
        Self { choice, ..Self::default() }
    }

    /// The picture, of a capture that is read.
    #[must_use]
    pub fn finish(mut self) -> Picture {
        self.picture.commands = self.commands;
        self.picture.sort();
        self.picture
    }

    /// What an event means, and the number of the command that it belongs to.
    fn tell(&mut self, c: &mut Conn, event: &Event) -> (Option<Told>, Option<u64>) {
        match &event.kind {
            EventKind::Pdu(bytes) => self.pdu(c, event, bytes),
            EventKind::Closed { reset } => (Some(Told::closed(*reset)), None),
            EventKind::Undecodable { why, len, .. } => {
                (Some(Told::trouble(format!("{len} bytes that are no PDU"), why.clone())), None)
            }
            EventKind::Gap { len, .. } => (Some(Told::gap(*len)), None),
            EventKind::Packet(packet) => (Told::packet(packet, self.choice.unfolded), None),
            EventKind::Rdma(rdma) => self.rdma(c, event, rdma),
            EventKind::Tls(notice) => (Some(Told::tls(&notice.to_string())), None),
        }
    }

    fn pdu(&mut self, c: &mut Conn, event: &Event, bytes: &Bytes) -> (Option<Told>, Option<u64>) {
        let pdu = match Pdu::parse(bytes) {
            Ok(pdu) => pdu,
            Err(e) => return (Some(Told::trouble("malformed PDU".to_owned(), e.to_string())), None),
        };
        let mut told = Told::pdu(&c.session, event.dir, &pdu);
        let command = self.command(c, event, &mut told);
        c.learn(&told, &pdu.data);
        c.session.apply(event.dir, &pdu);
        (Some(told), command)
    }

    fn rdma(&mut self, c: &mut Conn, event: &Event, rdma: &Rdma) -> (Option<Told>, Option<u64>) {
        let Some(mut told) = Told::rdma(&c.session, event.dir, rdma) else { return (None, None) };
        let command = self.command(c, event, &mut told);
        match rdma {
            Rdma::Command { rest, .. } => c.learn(&told, rest),
            Rdma::Data(data) => c.learn(&told, &data.bytes),
            _ => c.learn(&told, &[]),
        }
        c.session.apply_rdma(event.dir, rdma);
        (Some(told), command)
    }

    /// The number of the command that an arrow belongs to.
    fn command(&mut self, c: &mut Conn, event: &Event, told: &mut Told) -> Option<u64> {
        let cid = told.cid?;
        match told.piece {
            Piece::Command => {
                self.commands += 1;
                c.commands.insert(cid.0, (self.commands, event.at_ns));
                Some(self.commands)
            }
            Piece::End => c.commands.remove(&cid.0).map(|(number, at_ns)| {
                told.took(event.at_ns.saturating_sub(at_ns));
                number
            }),
            _ => c.commands.get(&cid.0).map(|(number, _)| *number),
        }
    }

    /// Whether an event belongs into the picture.
    fn wanted(&mut self, conn: usize, event: &Event, command: Option<u64>, cid: Option<Cid>) -> bool {
        let at_ns = event.at_ns.saturating_sub(self.start_ns.unwrap_or(0));
        let choice = &self.choice;
        let here = choice.frames.as_ref().is_none_or(|r| r.contains(&event.frame))
            && choice.time_ns.as_ref().is_none_or(|r| r.contains(&at_ns))
            && choice.conn.is_none_or(|c| c == conn);
        match choice.command {
            None => here,
            Some(Pick::Number(number)) => here && command == Some(number),
            Some(Pick::Cid { cid: wanted, conn: on }) => {
                let fits = here && cid == Some(wanted) && on.is_none_or(|c| c == conn) && command.is_some();
                if fits && self.picked.is_none() {
                    self.picked = command;
                }
                fits && self.picked == command
            }
        }
    }

    fn draw(&mut self, conn: usize, c: &Conn, event: &Event, command: Option<u64>, told: Told, findings: Vec<Finding>) {
        let (host, controller) = (self.end(Place::Host(c.client.ip()), c), self.end(Place::Controller(c.server), c));
        let (Some(host), Some(controller)) = (host, controller) else {
            self.picture.too_far += 1;
            return;
        };
        let (from, to) = match event.dir {
            Direction::HostToController => (host, controller),
            Direction::ControllerToHost => (controller, host),
        };
        if self.choice.command.is_some() && told.piece == Piece::Command {
            let over = match c.transport {
                Transport::Tcp => "NVMe/TCP",
                Transport::Rdma => "NVMe/RDMA",
            };
            self.picture.about = Some(format!("{} over {over}", told.about));
        }
        let mut findings: Vec<String> = Cause::join(findings).iter().map(|c| self.found(c)).collect();
        // The entries of a log page may all have the same fault.
        findings.dedup();
        let arrow = Arrow {
            at_ns: event.at_ns.saturating_sub(self.start_ns.unwrap_or(0)),
            frames: (event.frame, event.frame),
            conn,
            qid: c.session.qid().map(|q: Qid| q.0),
            dir: event.dir,
            command,
            from,
            to,
            told,
            count: 1,
            findings,
        };
        self.picture.add(arrow, self.choice.limit, !self.choice.unfolded);
    }

    /// What a stack does wrong it does all the time: it is told in full once.
    fn found(&mut self, cause: &Cause) -> String {
        let f = &cause.finding;
        if !self.told.insert((f.requirement.id, f.side)) {
            return format!("{} ({}) {}: again, as above", f.requirement.id, f.level, f.side);
        }
        let also: Vec<&str> = cause.also.iter().map(|r| r.id).collect();
        if also.is_empty() { f.to_string() } else { format!("{f} (also {})", also.join(", ")) }
    }

    /// The number of an endpoint; `None` where there are too many.
    fn end(&mut self, place: Place, c: &Conn) -> Option<usize> {
        let known = self.ends.get(&place).copied().or_else(|| {
            (self.picture.ends.len() < MAX_ENDS).then(|| {
                self.picture.ends.push(End { place, name: None, cntlid: None });
                let number = self.picture.ends.len() - 1;
                self.ends.insert(place, number);
                number
            })
        })?;
        let end = self.picture.ends.get_mut(known)?;
        let name = if matches!(place, Place::Host(_)) { &c.hostnqn } else { &c.subnqn };
        if end.name.is_none() {
            end.name.clone_from(name);
        }
        end.cntlid = end.cntlid.or(c.cntlid);
        Some(known)
    }
}

impl Conn {
    /// Takes note of names: those in the data of Connect, in however many pieces they come, and the controller's ID.
    fn learn(&mut self, told: &Told, data: &[u8]) {
        self.cntlid = self.cntlid.or(told.cntlid);
        let connect =
            told.cid.and_then(|cid| self.session.command(cid)).is_some_and(|c| c.sqe.fctype() == Some(FabricsType::CONNECT));
        let wanted = told.connect || (connect && told.piece == Piece::Out);
        let room = ConnectData::LEN.saturating_sub(self.connect.len());
        if !wanted || room == 0 {
            return;
        }
        self.connect.extend(data.iter().take(room));
        if let Ok(data) = ConnectData::read(&self.connect) {
            self.hostnqn = Some(data.hostnqn().as_str().to_owned());
            self.subnqn = Some(data.subnqn().as_str().to_owned());
        }
    }
}

impl Picture {
    /// How many arrows it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.arrows.len()
    }

    /// True where nothing was chosen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.arrows.is_empty()
    }

    /// What is not in the picture, and how to see it; `None` where all is.
    #[must_use]
    pub fn left_out(&self) -> Option<String> {
        let (frames, commands) = (self.frames, self.commands);
        let how = format!(
            "choose with --frames A-B (of {frames}), --time A-B, --conn N or --command N (of {commands}), or draw more with --limit N"
        );
        match (self.left_out, self.too_far) {
            (0, 0) => None,
            (0, n) => Some(format!("{n} PDUs of more endpoints than fit are not drawn: {how}")),
            (n, _) => Some(format!("{n} more PDUs are not drawn: {how}")),
        }
    }

    fn add(&mut self, arrow: Arrow, limit: usize, fold: bool) {
        if fold && let Some(last) = self.arrows.last_mut().filter(|l| l.is_like(&arrow)) {
            // The packets of an RDMA operation are always one.
            if last.count >= FOLD || last.told.operation.is_some() {
                return last.join(&arrow);
            }
            let run = self.arrows.iter().rev().take_while(|a| a.is_like(&arrow)).count();
            if run + 1 >= FOLD as usize {
                for _ in 0..run - 1 {
                    if let (Some(b), Some(a)) = (self.arrows.pop(), self.arrows.last_mut()) {
                        a.join(&b);
                    }
                }
                if let Some(a) = self.arrows.last_mut() {
                    a.join(&arrow);
                }
                return;
            }
        }
        if self.arrows.len() < limit {
            self.arrows.push(arrow);
        } else {
            self.left_out += 1;
        }
    }

    /// Hosts to the left, controllers to the right.
    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.ends.len()).collect();
        order.sort_by_key(|i| (self.ends.get(*i).is_some_and(|e| matches!(e.place, Place::Controller(_))), *i));
        let new = |old: usize| order.iter().position(|o| *o == old).unwrap_or(old);
        for a in &mut self.arrows {
            (a.from, a.to) = (new(a.from), new(a.to));
        }
        let mut ends = Vec::new();
        for i in &order {
            ends.extend(self.ends.get(*i).cloned());
        }
        self.ends = ends;
    }

    /// True where all arrows belong to one command.
    fn is_one_command(&self) -> bool {
        self.about.is_some()
    }
}

impl Arrow {
    /// Data of the same command that go on.
    fn is_like(&self, other: &Self) -> bool {
        let same = self.conn == other.conn && self.dir == other.dir && self.command == other.command;
        let quiet = self.findings.is_empty() && other.findings.is_empty();
        same && quiet && self.told.is_like(&other.told)
    }

    fn join(&mut self, next: &Self) {
        self.count += next.count;
        self.frames.1 = next.frames.1;
        self.told.join(&next.told);
    }

    /// With how many PDUs or packets it stands for.
    fn name(&self) -> String {
        match (self.count, self.told.operation) {
            (1, _) => self.told.name.clone(),
            (n, Some(_)) => format!("{} in {n} packets", self.told.name),
            (n, None) => format!("{} \u{d7} {n}", self.told.name),
        }
    }

    /// `#1 I/O 2`.
    fn queue(&self) -> String {
        match self.qid {
            Some(0) => format!("#{} Admin", self.conn),
            Some(qid) => format!("#{} I/O {qid}", self.conn),
            None => format!("#{}", self.conn),
        }
    }
}

/// Microseconds as milliseconds with three decimals.
fn ms(ns: u64) -> String {
    let us = ns / 1000;
    format!("{}.{:03}", us / 1000, us % 1000)
}

/// Three digits and a unit: the time since the arrow before.
fn since(ns: u64) -> String {
    format!("+{}", crate::stats::time(ns))
}

/// Words in lines of at most `width` characters; a longer word is cut.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let mut lines: Vec<String> = Vec::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let chars: Vec<char> = word.chars().collect();
        for (i, part) in chars.chunks(width).enumerate() {
            match lines.last_mut() {
                Some(line) if i == 0 && used + 1 + part.len() <= width => {
                    line.push(' ');
                    line.extend(part);
                    used += 1 + part.len();
                }
                _ => {
                    lines.push(part.iter().collect());
                    used = part.len();
                }
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_to_the_width() {
        assert_eq!(wrap("aaa bbb cccc dd", 8), ["aaa bbb", "cccc dd"]);
        assert_eq!(wrap("abcdefghijk l", 8), ["abcdefgh", "ijk l"]);
        assert!(wrap("  ", 8).is_empty());
    }
}
