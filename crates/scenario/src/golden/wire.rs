//! Wire blocks: what has to cross a connection, line by line, be it PDUs of NVMe/TCP or packets of RoCEv2.
//!
//! [`matches`] looks for a connection that follows a block. Over RDMA a line is a packet. Acknowledgements and the answers to READs, which
//! come whenever they come, are left out where no line of the block names them, and what was sent again always is.

use std::collections::BTreeMap;

use nvmf_capture::roce::Place as Order;
use nvmf_capture::{Connection, Direction, EventKind, Exchange};
use nvmf_wire::Field;
use nvmf_wire::roce::ICRC_LEN;
use nvmf_wire::sgl::{SglKeyed, SglType};
use nvmf_wire::tcp::Pdu;

use crate::ast::{Cond, Expr, Op, Place, Scenario, WireLine};
use crate::commands::{Belongs, Commands};
use crate::player::{Scope, show_cond};
use crate::roce::{self, Packet};
use crate::value::{Val, compare};

/// Packets that a line has to name to be looked at.
const BESIDE: &[&str] = &["ACK", "READ_RESPONSE"];
/// The condition on all packets of a line together: the bytes that they move, each exactly once.
const COVERS: &str = "covers";

/// Where an exchange leaves the wire block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The line of the script.
    pub place: Place,
    /// What it wants.
    pub expected: String,
    /// What stands there instead.
    pub seen: String,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: expected {}; seen {}", self.place.line, self.expected, self.seen)
    }
}

/// Holds each wire block against the connections of an exchange, from the first PDU or packet on that its first line fits; a block
/// stands for a connection behind that of the block before. `from`: not before the first command of that name.
pub fn matches(scenario: &Scenario, exchange: &Exchange, from: Option<&str>) -> Result<(), Mismatch> {
    let mut next = 0;
    for lines in &scenario.wires {
        next += 1 + block(scenario, lines, exchange.connections.get(next..).unwrap_or(&[]), from)?;
    }
    Ok(())
}

/// The first of `connections` that follows a block.
fn block(scenario: &Scenario, lines: &[WireLine], connections: &[Connection], from: Option<&str>) -> Result<usize, Mismatch> {
    let mut best: Option<(usize, Mismatch)> = None;
    for (n, connection) in connections.iter().enumerate() {
        let steps = steps(lines, connection);
        let begin = match from {
            Some(name) => steps.iter().position(|s| s.is("CapsuleCmd", Some(name))),
            None => Some(0),
        };
        let Some(begin) = begin else { continue };
        match follow(lines, &steps[begin..]) {
            Ok(()) => return Ok(n),
            Err((depth, m)) if best.as_ref().is_none_or(|b| b.0 < depth) => best = Some((depth, m)),
            Err(_) => {}
        }
    }
    let nothing = || Mismatch {
        place: lines.first().map_or(scenario.place, |l| l.place),
        expected: from.map_or_else(|| "a connection".into(), |f| format!("a connection with {f}")),
        seen: "none".into(),
    };
    Err(best.map_or_else(nothing, |b| b.1))
}

fn follow(lines: &[WireLine], steps: &[Step]) -> Result<(), (usize, Mismatch)> {
    let mut vars = BTreeMap::new();
    let Some(first) = lines.first() else { return Ok(()) };
    let Some(mut at) = steps.iter().position(|s| fits(first, s, &mut BTreeMap::new())) else {
        return Err((0, off(first, None)));
    };
    for (depth, line) in lines.iter().enumerate() {
        let begin = at;
        if !steps.get(at).is_some_and(|s| fits(line, s, &mut vars)) {
            return Err((depth + 1, off(line, steps.get(at))));
        }
        at += 1;
        while line.many && steps.get(at).is_some_and(|s| fits(line, s, &mut vars)) {
            at += 1;
        }
        for cond in line.conds.iter().filter(|c| c.name == COVERS) {
            let whole = covered(&steps[begin..at]);
            if !whole.is_some_and(|n| holds(cond, None, &Val::Int(n), &vars)) {
                let seen = whole.map_or("bytes that are left out or moved twice".into(), |n| format!("{n} bytes"));
                return Err((depth + 1, Mismatch { seen, ..off(line, None) }));
            }
        }
    }
    Ok(())
}

fn off(line: &WireLine, step: Option<&Step>) -> Mismatch {
    let arrow = if line.from_controller { '<' } else { '>' };
    let command = line.command.as_deref().map_or(String::new(), |c| format!(" {c}"));
    let conds = line.conds.iter().map(|c| format!(" {}", show_cond(c))).collect::<String>();
    let seen = step.map_or("the end".to_owned(), Step::show);
    Mismatch { place: line.place, expected: format!("{arrow} {}{command}{conds}", line.pdu), seen }
}

fn fits(line: &WireLine, step: &Step, vars: &mut BTreeMap<String, Val>) -> bool {
    let dir = if line.from_controller { Direction::ControllerToHost } else { Direction::HostToController };
    step.dir == dir
        && step.is(&line.pdu, line.command.as_deref())
        && line.conds.iter().filter(|c| c.name != COVERS).all(|c| {
            let Some((field, seen)) = step.seen(&c.name) else { return false };
            if let (Expr::Var(name, None), Op::Equal) = (&c.value, c.op)
                && !vars.contains_key(name)
            {
                vars.insert(name.clone(), seen);
                return true;
            }
            holds(c, field, &seen, vars)
        })
}

fn holds(c: &Cond, field: Option<&'static Field>, seen: &Val, vars: &BTreeMap<String, Val>) -> bool {
    Scope(vars).wanted(&c.value, field).is_ok_and(|w| compare(seen, c.op, &w).unwrap_or(false))
}

/// One PDU or packet of a connection with the command that it belongs to.
struct Step {
    dir: Direction,
    what: What,
    command: Belongs,
}

enum What {
    Pdu(Pdu),
    /// With the first packet of the SEND or WRITE that it goes on with.
    Packet(Packet, Option<Packet>),
}

impl Step {
    /// Whether it goes by that name, and its command by that one.
    fn is(&self, name: &str, command: Option<&str>) -> bool {
        let named = match &self.what {
            What::Pdu(pdu) => name == "any" || pdu.ptype().name().unwrap_or("PDU") == name,
            What::Packet(packet, first) => packet.is(name) || name == "CapsuleCmd" && first.as_ref().is_some_and(|f| f.is(name)),
        };
        named && self.command.is(command)
    }

    fn seen(&self, name: &str) -> Option<(Option<&'static Field>, Val)> {
        match &self.what {
            What::Pdu(pdu) => self.command.seen(pdu, name),
            What::Packet(packet, _) if name == "invalidated" => {
                packet.cqe()?;
                Some(packet.get("ieth.rkey", None).unwrap_or((None, Val::Int(0))))
            }
            What::Packet(packet, first) => {
                let of_first = || self.command.seen_in(first.as_ref()?, name);
                packet.get(name, self.command.kind).or_else(of_first).or_else(|| self.command.seen_in(packet, name))
            }
        }
    }

    fn show(&self) -> String {
        let arrow = self.dir.arrow();
        let kind = self.command.kind.map_or(String::new(), |k| format!(" {}", k.name));
        match &self.what {
            What::Pdu(pdu) => {
                let fields = pdu.ptype().layout().map_or(String::new(), |l| l.describe(&pdu.header));
                format!("{arrow} {}{kind} {fields}", pdu.ptype())
            }
            What::Packet(packet, _) => {
                format!("{arrow} {}{}", packet.show(), if kind.is_empty() { kind } else { format!(" of{kind}") })
            }
        }
    }

    /// Where in its command's memory an operation begins, and how many bytes it moves.
    fn range(&self) -> Option<(u64, u64)> {
        let What::Packet(packet, None) = &self.what else { return None };
        let reth = packet.reth()?;
        let keyed = SglKeyed::read(self.command.sqe?.sgl1().as_bytes()).ok().filter(|d| d.kind() == SglType::KEYED_DATA_BLOCK)?;
        Some((reth.va().wrapping_sub(keyed.addr()), u64::from(reth.dmalen())))
    }
}

/// The bytes that operations move, from the begin of their command's memory on, where each is moved exactly once.
fn covered(steps: &[Step]) -> Option<u64> {
    let mut ranges: Vec<(u64, u64)> = steps.iter().filter_map(Step::range).collect();
    ranges.sort_unstable();
    ranges.iter().try_fold(0u64, |end, (at, len)| (*at == end).then_some(end.checked_add(*len)?))
}

/// What crossed a connection, in the order of time.
fn steps(lines: &[WireLine], connection: &Connection) -> Vec<Step> {
    let (mut tcp, mut rdma) = (Commands::new(), roce::Commands::default());
    let mut begun = [None, None];
    let mut out = Vec::new();
    for event in &connection.events {
        let dir = event.dir;
        let from_controller = dir == Direction::ControllerToHost;
        match &event.kind {
            EventKind::Pdu(bytes) => {
                let Ok(pdu) = Pdu::parse(bytes) else { continue };
                tcp.note(&pdu);
                out.push(Step { dir, command: tcp.of(&pdu), what: What::Pdu(pdu) });
            }
            EventKind::Packet(p) if p.place != Order::Repeated => {
                let end = p.bytes.len().saturating_sub(ICRC_LEN);
                let Some(packet) = p.bytes.get(..end).and_then(|b| Packet::read(b, from_controller, true)) else { continue };
                let command = rdma.note(&packet);
                let first = goes_on(&mut begun[usize::from(from_controller)], &packet);
                let named = lines.iter().any(|l| l.from_controller == from_controller && packet.is(&l.pdu));
                let beside = BESIDE.iter().any(|name| packet.is(name)) && !packet.is("NAK") && !packet.is("RNR_NAK");
                if named || !beside {
                    out.push(Step { dir, command, what: What::Packet(packet, first) });
                }
            }
            _ => {}
        }
    }
    out
}

/// The packet with which the SEND or WRITE began that `packet` goes on with. `begun` is what its side has begun.
fn goes_on(begun: &mut Option<Packet>, packet: &Packet) -> Option<Packet> {
    let op = packet.opcode();
    if !op.is_send() && !op.is_write() {
        return None;
    }
    if op.begins() {
        *begun = (!op.ends()).then(|| packet.clone());
        return None;
    }
    if op.ends() { begun.take() } else { begun.clone() }
}
