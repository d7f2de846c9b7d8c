//! One of the two captures: its connections with their units, without what is not to be compared.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

use bytes::Bytes;
use nvmf_wire::cm::CmMessage;
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::nqn::DISCOVERY_NQN;

use super::align::Key;
use super::mask::{Line, Mask};
use super::message::{Fact, Message, Unit, units};
use super::report::Spot;
use super::{Options, message::Part};
use crate::exchange::{Connection, EventKind, Exchange};
use crate::roce::Rdma;

pub(super) struct Side {
    pub conns: Vec<Conn>,
}

pub(super) struct Conn {
    /// In its capture, from 0.
    pub index: usize,
    /// When its capture begins.
    pub start_ns: u64,
    pub client: SocketAddr,
    pub server: SocketAddr,
    pub opened_ns: u64,
    /// When the first direction ended.
    pub closed_ns: Option<u64>,
    /// Of the first Connect.
    pub qid: Option<u16>,
    /// Entries of the submission queue; 0 where no Connect was seen.
    pub entries: u64,
    discovery: bool,
    pub units: Vec<Unit>,
}

impl Side {
    /// Fails where the command to begin or end at is not there.
    pub fn of(exchange: &Exchange, options: &Options, used: &mut BTreeSet<Line>) -> Result<Self, String> {
        let mut conns: Vec<Conn> =
            exchange.connections.iter().enumerate().map(|(i, c)| Conn::new(i, exchange.start_ns(), c)).collect();
        let first = |conns: &[Conn], name: &str, after: u64| {
            let named = |u: &&Unit| u.command.as_ref().is_some_and(|c| c.name == name || c.label == name);
            let all = conns.iter().flat_map(|c| &c.units).filter(named).filter_map(|u| u.messages.first());
            all.map(|m| m.at_ns).filter(|at| *at >= after).min().ok_or_else(|| format!("has no command {name}"))
        };
        let from = options.from.as_deref().map(|name| first(&conns, name, 0)).transpose()?;
        let to = options.to.as_deref().map(|name| first(&conns, name, from.unwrap_or(0))).transpose()?;
        for c in &mut conns {
            c.units.retain(|u| {
                u.messages.first().is_some_and(|m| from.is_none_or(|t| m.at_ns >= t) && to.is_none_or(|t| m.at_ns <= t))
            });
            c.skip(&options.mask, used);
            c.join(&options.mask, used);
        }
        conns.retain(|c| !c.units.is_empty());
        Ok(Self { conns })
    }

    pub fn unit(&self, conn: usize, unit: usize) -> Option<&Unit> {
        self.conns.get(conn)?.units.get(unit)
    }
}

impl Conn {
    fn new(index: usize, start_ns: u64, connection: &Connection) -> Self {
        let units = units(connection);
        let connect = units.iter().find(|u| u.command.as_ref().is_some_and(|c| c.name == "Connect"));
        let sqe = connect.and_then(|u| u.command.as_ref()).map(|c| Connect::from_bytes(*c.sqe.as_bytes()));
        let data = connect.and_then(|u| u.messages.iter().find(|m| m.name == "Data"));
        let subnqn = data.and_then(|m| m.parts.first()).and_then(|p| ConnectData::read(&p.bytes).ok()).map(|d| d.subnqn());
        let closed = connection.events.iter().find(|e| match &e.kind {
            EventKind::Closed { .. } => true,
            EventKind::Rdma(rdma) => matches!(&**rdma, Rdma::Cm(cm) if cm.message() == CmMessage::DREQ),
            _ => false,
        });
        Self {
            index,
            start_ns,
            client: connection.client,
            server: connection.server,
            opened_ns: connection.opened_ns,
            closed_ns: closed.map(|e| e.at_ns),
            qid: sqe.map(|c| c.qid().0),
            entries: sqe.map_or(0, |c| c.sqsize().count()),
            discovery: subnqn.is_some_and(|n| n.as_str() == DISCOVERY_NQN),
            units,
        }
    }

    /// What connections are paired by: their queue, and whether it is one of a discovery controller.
    pub fn key(&self) -> Key {
        let of = |what: &dyn Fn(&mut DefaultHasher)| {
            let mut h = DefaultHasher::new();
            what(&mut h);
            h.finish()
        };
        Key {
            strong: of(&|h| (self.qid, self.discovery).hash(h)),
            weak: of(&|h| (self.qid.map(|q| q == 0), self.discovery).hash(h)),
            kind: of(&|h| self.qid.is_some_and(|q| q != 0).hash(h)),
        }
    }

    /// Which queue it is, in words.
    pub fn role(&self) -> String {
        match (self.qid, self.discovery) {
            (None, _) => "without Connect".into(),
            (Some(0), true) => "Admin Queue of a discovery controller".into(),
            (Some(0), false) => "Admin Queue".into(),
            (Some(q), _) => format!("I/O queue {q}"),
        }
    }

    pub fn first(&self) -> Option<Spot> {
        self.units.first().and_then(|u| u.messages.first()).map(|m| Spot::of(self, m))
    }

    /// Leaves out what the mask skips: with a command all that belongs to it.
    fn skip(&mut self, mask: &Mask, used: &mut BTreeSet<Line>) {
        self.units.retain_mut(|u| {
            let command = u.command.as_ref().and_then(|_| u.messages.first()).cloned();
            let mut skipped = |m: &Message| {
                let line = mask.skips(m.name, m.command, |f| m.number(f).or_else(|| command.as_ref()?.number(f)));
                used.extend(line);
                line.is_some()
            };
            if u.messages.first().is_some_and(&mut skipped) {
                return false;
            }
            u.messages.retain(|m| !skipped(m));
            for part in u.messages.iter_mut().map(|m| &mut m.parts) {
                structures(part, mask, used);
            }
            !u.messages.is_empty()
        });
    }

    /// Makes one message of several that carry data of a command one behind the other.
    fn join(&mut self, mask: &Mask, used: &mut BTreeSet<Line>) {
        for unit in &mut self.units {
            let mut out: Vec<Message> = Vec::with_capacity(unit.messages.len());
            for m in unit.messages.drain(..) {
                match mask.joins(m.name, m.command) {
                    Some(line) => {
                        let same = out.last_mut().filter(|l| l.name == m.name);
                        used.extend(same.is_some().then_some(line));
                        match same {
                            Some(last) => append(last, &m),
                            None => {
                                let mut one = m;
                                lengthless(&mut one);
                                out.push(one);
                            }
                        }
                    }
                    None => out.push(m),
                }
            }
            unit.messages = out;
        }
    }
}

/// Leaves out the structures of a message that the mask skips; those behind them in a list move up.
fn structures(parts: &mut Vec<Part>, mask: &Mask, used: &mut BTreeSet<Line>) {
    let mut gone: Vec<&'static str> = Vec::new();
    let mut within = None;
    parts.retain_mut(|p| {
        let line = mask.skips(p.layout.name, "", |f| p.layout.field(f)?.get(&p.bytes).int()).filter(|_| p.named);
        used.extend(line);
        if line.is_some() {
            gone.push(p.layout.name);
            within = p.index;
            return false;
        }
        let whole = p.of.unwrap_or(p.layout.name);
        if p.of.is_some_and(|of| gone.last() == Some(&of)) && p.index == within {
            return false;
        }
        let before = gone.iter().filter(|g| **g == whole).count();
        p.index = p.index.map(|n| n.saturating_sub(before));
        true
    });
}

/// Adds the length and the flags of the next piece to a message that carries data.
fn append(last: &mut Message, next: &Message) {
    let (Some(part), Some(more)) = (last.parts.first_mut(), next.parts.first()) else { return };
    let sum = ["datal", "r2tl"].iter().find_map(|name| {
        let f = part.layout.field(name)?;
        Some((f, f.get(&part.bytes).int()?.saturating_add(f.get(&more.bytes).int()?)))
    });
    let mut bytes = part.bytes.to_vec();
    if let (Some(d), Some(s)) = (bytes.get_mut(1), more.bytes.get(1)) {
        *d = *s;
    }
    if let Some((f, sum)) = sum {
        // beyond 32 bits the sum stays what it was: no command moves so much
        let _ = f.set(&mut bytes, &nvmf_wire::Value::Int(sum));
    }
    *part = Part { bytes: Bytes::from(bytes), ..part.clone() };
    if next.facts.iter().any(|f| f.name.ends_with("dgst") && *f == Fact::text(f.name, "bad")) {
        last.facts.clone_from(&next.facts);
    }
}

/// The length of a PDU and the offset of its data mean nothing once pieces are joined.
fn lengthless(m: &mut Message) {
    let Some(part) = m.parts.first_mut() else { return };
    let mut bytes = part.bytes.to_vec();
    for name in ["plen", "pdo"] {
        let _ = part.layout.write_field(&mut bytes, name, &nvmf_wire::Value::Int(0));
    }
    part.bytes = Bytes::from(bytes);
}
