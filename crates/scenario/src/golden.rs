//! A scenario's `golden`: a run beside a capture of a real stack, packet by packet, and the wire block against either.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use nvmf_capture::compare::{self, Mask, Options, Report};
use nvmf_capture::{Direction, EventKind, Exchange, Transport};
use nvmf_wire::nqn::DISCOVERY_NQN;
use nvmf_wire::tcp::{Pdu, PduType};
use nvmf_wire::{Cntlid, Value};

use crate::ast::{Assign, Expr, Op, Place, Scenario, WireLine};
use crate::commands::{Belongs, Commands};
use crate::player::{Peer, Scope};
use crate::value::{Val, compare};

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

/// One PDU of a connection with the command that it belongs to.
struct Step {
    dir: Direction,
    pdu: Pdu,
    command: Belongs,
}

/// Holds what the host and the target of a run said to each other beside the capture, A, as `golden … mask` says. `mask` gives the text of
/// a mask by its name. An error is that the two cannot be compared.
pub fn packets(
    scenario: &Scenario,
    capture: &Exchange,
    run: &Exchange,
    mask: impl Fn(&str) -> Result<String, String>,
) -> Result<Report, String> {
    let golden = scenario.golden.as_ref().ok_or_else(|| format!("{} has no golden", scenario.id))?;
    let mut all = Mask::default();
    for name in &golden.masks {
        all.add(&mask(name)?).map_err(|e| format!("mask {name}, {e}"))?;
    }
    compare::compare(capture, run, &Options { mask: all, from: golden.from.clone(), to: golden.to.clone() })
}

/// A line of a `target` block, worked out: what is set, to which values.
pub struct Setting {
    /// What is set.
    pub what: String,
    /// To what.
    pub with: Vec<(String, Value)>,
    /// Line of the script.
    pub line: usize,
}

/// The lines of a scenario's `target` block. The error names the line that has no value.
pub fn settings(scenario: &Scenario) -> Result<Vec<Setting>, String> {
    let bound = bound();
    let one = |s: &crate::ast::Setting| {
        let fault = |e: String| format!("line {}: {e}", s.place.line);
        let value = |a: &Assign| Ok((a.name.clone(), Scope(&bound).eval(&a.value).map_err(|e| e.to_string())?.plain()?));
        let with = s.with.iter().map(value).collect::<Result<_, String>>().map_err(fault)?;
        Ok(Setting { what: s.what.clone(), with, line: s.place.line })
    };
    scenario.target.iter().map(one).collect()
}

/// What is bound in a scenario with a target of its own, beside names and `$incapsule`.
fn bound() -> BTreeMap<String, Val> {
    [("nsid", 1), ("block", 512), ("lba", 0)].map(|(name, n)| (name.to_owned(), Val::Int(n))).into()
}

/// A scenario's own target as a player sees it: where the first subsystem is reached, where the discovery service, the subsystem's name, and
/// the data that a capsule takes, bytes.
#[must_use]
pub fn peer(addr: SocketAddr, discovery: SocketAddr, subnqn: &str, in_capsule: u64) -> Peer {
    let mut facts = bound();
    facts.insert("incapsule".to_owned(), Val::Int(in_capsule));
    Peer {
        addr,
        transport: Transport::Tcp,
        discovery,
        discovery_transport: Transport::Tcp,
        serves_discovery: true,
        hostnqn: "nqn.2014-08.org.example:host".to_owned(),
        hostid: *b"nvmfspec-golden1",
        subnqn: subnqn.to_owned(),
        discnqn: DISCOVERY_NQN.to_owned(),
        cntlid: Cntlid::DYNAMIC,
        facts,
        time_scale: 1.0,
    }
}

/// Compares, from the first PDU on that the first line fits. `from`: not before the first command of that name.
pub fn matches(scenario: &Scenario, exchange: &Exchange, from: Option<&str>) -> Result<(), Mismatch> {
    let mut best: Option<(usize, Mismatch)> = None;
    for c in 0..exchange.connections.len() {
        let steps = steps(exchange, c);
        let begin = match from {
            Some(name) => steps.iter().position(|s| s.pdu.ptype() == PduType::CAPSULE_CMD && s.command.is(Some(name))),
            None => Some(0),
        };
        let Some(begin) = begin else { continue };
        match follow(&scenario.wire, &steps[begin..]) {
            Ok(()) => return Ok(()),
            Err((depth, m)) if best.as_ref().is_none_or(|b| b.0 < depth) => best = Some((depth, m)),
            Err(_) => {}
        }
    }
    let nothing = || Mismatch {
        place: scenario.place,
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
        if !steps.get(at).is_some_and(|s| fits(line, s, &mut vars)) {
            return Err((depth + 1, off(line, steps.get(at))));
        }
        at += 1;
        while line.many && steps.get(at).is_some_and(|s| fits(line, s, &mut vars)) {
            at += 1;
        }
    }
    Ok(())
}

fn off(line: &WireLine, step: Option<&Step>) -> Mismatch {
    let arrow = if line.from_controller { '<' } else { '>' };
    let command = line.command.as_deref().map_or(String::new(), |c| format!(" {c}"));
    let conds = line.conds.iter().map(|c| format!(" {}", crate::player::show_cond(c))).collect::<String>();
    let seen = step.map_or("the end".to_owned(), |s| {
        let kind = s.command.kind.map_or(String::new(), |k| format!(" {}", k.name));
        let fields = s.pdu.ptype().layout().map_or(String::new(), |l| l.describe(&s.pdu.header));
        format!("{} {}{kind} {fields}", s.dir.arrow(), s.pdu.ptype())
    });
    Mismatch { place: line.place, expected: format!("{arrow} {}{command}{conds}", line.pdu), seen }
}

fn fits(line: &WireLine, step: &Step, vars: &mut BTreeMap<String, Val>) -> bool {
    let dir = if line.from_controller { Direction::ControllerToHost } else { Direction::HostToController };
    let name = step.pdu.ptype().name().unwrap_or("PDU");
    if step.dir != dir || (line.pdu != "any" && line.pdu != name) {
        return false;
    }
    step.command.is(line.command.as_deref())
        && line.conds.iter().all(|c| {
            let Some((field, seen)) = step.command.seen(&step.pdu, &c.name) else { return false };
            if let (Expr::Var(name, None), Op::Equal) = (&c.value, c.op)
                && !vars.contains_key(name)
            {
                vars.insert(name.clone(), seen);
                return true;
            }
            Scope(vars).wanted(&c.value, field).is_ok_and(|w| compare(&seen, c.op, &w).unwrap_or(false))
        })
}

/// The PDUs of one connection in the order of time.
fn steps(exchange: &Exchange, connection: usize) -> Vec<Step> {
    let mut commands = Commands::new();
    let mut out = Vec::new();
    for (_, event) in exchange.events().into_iter().filter(|(c, _)| *c == connection) {
        let EventKind::Pdu(bytes) = &event.kind else { continue };
        let Ok(pdu) = Pdu::parse(bytes) else { continue };
        commands.note(&pdu);
        out.push(Step { dir: event.dir, command: commands.of(&pdu), pdu });
    }
    out
}
