//! A scenario's wire block against an exchange: what a run gave, or what a capture of a real stack holds.

use std::collections::BTreeMap;

use nvmf_capture::{Direction, EventKind, Exchange};
use nvmf_wire::tcp::{C2hData, CapsuleCmd, CapsuleResp, H2cData, Pdu, PduType, R2t};
use nvmf_wire::{CommandKind, Sqe};

use crate::ast::{Expr, Op, Place, Scenario, WireLine};
use crate::fields::{cqe_of, seen};
use crate::player::Scope;
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
    sqe: Option<Sqe>,
    kind: Option<&'static CommandKind>,
}

/// Compares, from the first PDU on that the first line fits. `from`: not before the first command of that name.
pub fn matches(scenario: &Scenario, exchange: &Exchange, from: Option<&str>) -> Result<(), Mismatch> {
    let mut best: Option<(usize, Mismatch)> = None;
    for c in 0..exchange.connections.len() {
        let steps = steps(exchange, c);
        let begin = match from {
            Some(name) => {
                steps.iter().position(|s| s.pdu.ptype() == PduType::CAPSULE_CMD && s.kind.is_some_and(|k| k.name == name))
            }
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
        let kind = s.kind.map_or(String::new(), |k| format!(" {}", k.name));
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
    if line.command.is_some() && step.kind.map(|k| k.name) != line.command.as_deref() {
        return false;
    }
    line.conds.iter().all(|c| {
        let of_command = || {
            let f = step.kind.and_then(|k| k.layout.field(&c.name))?;
            Some((Some(f), crate::fields::value_in(f, step.sqe?.as_bytes())))
        };
        let Some((field, seen)) = seen(&step.pdu, &c.name, step.kind).or_else(of_command) else { return false };
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
    let mut commands: BTreeMap<u16, Sqe> = BTreeMap::new();
    let mut admin = true;
    let mut out = Vec::new();
    for (_, event) in exchange.events().into_iter().filter(|(c, _)| *c == connection) {
        let EventKind::Pdu(bytes) = &event.kind else { continue };
        let Ok(pdu) = Pdu::parse(bytes) else { continue };
        let cid = match pdu.ptype() {
            PduType::CAPSULE_CMD => {
                let sqe = CapsuleCmd::read(&pdu.header).map(|c| Sqe::from_bytes(c.sqe())).unwrap_or_default();
                if CommandKind::of(&sqe, true).is_some_and(|k| k.name == "Connect") {
                    admin = nvmf_wire::connect::Connect::from_bytes(*sqe.as_bytes()).qid().0 == 0;
                }
                commands.insert(sqe.cid().0, sqe);
                Some(sqe.cid())
            }
            PduType::CAPSULE_RESP => CapsuleResp::read(&pdu.header).ok().map(|_| cqe_of(&pdu).cid()),
            PduType::C2H_DATA => C2hData::read(&pdu.header).ok().map(|h| h.cccid()),
            PduType::H2C_DATA => H2cData::read(&pdu.header).ok().map(|h| h.cccid()),
            PduType::R2T => R2t::read(&pdu.header).ok().map(|h| h.cccid()),
            _ => None,
        };
        let sqe = cid.and_then(|c| commands.get(&c.0).copied());
        out.push(Step { dir: event.dir, sqe, kind: sqe.and_then(|s| CommandKind::of(&s, admin)), pdu });
    }
    out
}
