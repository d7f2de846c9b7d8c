//! What comes next, and whether it is what the script expects.

use std::time::Duration;

use nvmf_wire::tcp::{C2hData, Pdu, PduType};
use nvmf_wire::{Cqe, Status, Structure};

use super::conn::{Ended, Next};
use super::eval::{Scope, show, show_cond};
use super::{PATIENCE, Player, Seen, Step, StopKind};
use crate::ast::{Alternative, Awaited, Cond, Expr, Grade, Op};
use crate::fields::{cqe_of, seen};
use crate::pattern::mismatch;
use crate::value::{Val, compare};

impl Player<'_> {
    /// `expect …`.
    pub(super) fn expect(&mut self, i: usize, any: &[Alternative], within: Option<Duration>) -> Step {
        let patience = self.patience(within.unwrap_or(PATIENCE));
        if self.conns[i].pairs().is_some_and(|p| p.is_waiting()) {
            self.up(i, None)?;
        }
        if any.iter().any(|a| matches!(a.what, Awaited::Packet { .. } | Awaited::NoPacket { .. })) {
            return self.expect_packet(i, any, patience);
        }
        let until = self.net.now() + patience;
        let next = self.conns[i].next(&mut *self.net, until);
        let mut near = String::new();
        for alt in any {
            let bound = self.vars.clone();
            match self.meets(i, &next, &alt.what)? {
                Met::Yes(mut notes) => {
                    if let Next::Pdu(p) = &next {
                        self.conns[i].seen(p);
                    }
                    self.notes.append(&mut notes);
                    let words = self.words_of(i, &next);
                    return self.met(alt, observation(&next), &words);
                }
                Met::No(why) => {
                    self.vars = bound;
                    if near.is_empty() {
                        near = why;
                    }
                }
            }
        }
        let wanted = any.iter().map(|a| describe(&a.what)).collect::<Vec<_>>().join(" | ");
        let near = if near.is_empty() { near } else { format!(" ({near})") };
        let message = format!("expected {wanted}; seen {}{near}", self.words_of(i, &next));
        let term = any.iter().any(|a| matches!(&a.what, Awaited::Pdu { pdu, .. } if pdu == "C2HTermReq"));
        let silent = any.iter().any(|a| matches!(a.what, Awaited::Silence));
        let word = if silent { Seen::Unexpected } else { observation(&next) };
        // the effect is right: the connection is gone, and the terminate request alone is missing
        let grade = if term && matches!(next, Next::Ended(_)) { Grade::Lenient } else { Grade::Fail };
        Err(self.stop(StopKind::Graded(grade), word, message))
    }

    /// An alternative was met by what was `seen`: what that means.
    pub(super) fn met(&mut self, alt: &Alternative, word: Seen, seen: &str) -> Step {
        let text = alt.text.clone().unwrap_or_default();
        match alt.grade {
            Grade::Ok if text.is_empty() => Ok(()),
            Grade::Ok => {
                self.notes.push(text);
                Ok(())
            }
            g => {
                let colon = if text.is_empty() { "" } else { ": " };
                self.grade(g, word, format!("{text}{colon}seen {seen}"))
            }
        }
    }

    pub(super) fn meets(&mut self, i: usize, next: &Next, what: &Awaited) -> Step<Met> {
        match (what, next) {
            (Awaited::Disconnect, Next::Ended(Ended::Dreq)) => Ok(Met::Yes(Vec::new())),
            (Awaited::Cm { message, conds }, Next::Cm(packet)) if packet.is(message) => self.packet_meets(packet, conds),
            (Awaited::Close, Next::Ended(_)) | (Awaited::Silence, Next::Nothing(0)) => Ok(Met::Yes(Vec::new())),
            (Awaited::Pdu { pdu, conds }, Next::Pdu(p)) => {
                let name = p.ptype().name().unwrap_or("PDU");
                if pdu != "any" && pdu != name {
                    return Ok(Met::No(String::new()));
                }
                self.conditions(i, p, conds)
            }
            (Awaited::Pdu { pdu, conds }, _) if pdu == "any" && conds.is_empty() => Ok(Met::Yes(Vec::new())),
            _ => Ok(Met::No(String::new())),
        }
    }

    /// Whether a PDU meets all conditions; a response has to carry the CID sent last, unless `cid` is a condition.
    pub(super) fn conditions(&mut self, i: usize, pdu: &Pdu, conds: &[Cond]) -> Step<Met> {
        let mut notes = Vec::new();
        if pdu.ptype() == PduType::CAPSULE_RESP && !conds.iter().any(|c| c.name == "cid") {
            let cid = cqe_of(pdu).cid().0;
            let want = self.conns[i].last_cid;
            if cid != want {
                return Ok(Met::No(format!("cid={cid}, not {want}")));
            }
        }
        for c in conds {
            self.place.column = c.place.column;
            if let Some(why) = self.condition(i, pdu, c, &mut notes)? {
                return Ok(Met::No(why));
            }
        }
        Ok(Met::Yes(notes))
    }

    /// `None` where the condition holds.
    fn condition(&mut self, i: usize, pdu: &Pdu, c: &Cond, notes: &mut Vec<String>) -> Step<Option<String>> {
        match c.name.as_str() {
            "hdgst" | "ddgst" if !has_own(pdu, &c.name) => return self.digest_is(pdu, c),
            "reserved" => return Ok(reserved(pdu).map(|(what, at)| format!("reserved byte {at} of {what} is not 0"))),
            "invalidated" => {
                let cid = cqe_of(pdu).cid().0;
                let seen = self.conns[i].sent.get(&cid).and_then(|s| s.invalidated).unwrap_or(0);
                return self.holds_for(c, None, Val::Int(u64::from(seen)), notes);
            }
            "offender" => {
                let sent = &self.conns[i].last_sent;
                let same = !pdu.data.is_empty() && sent.starts_with(&pdu.data);
                return Ok((!same).then(|| format!("its data ({} bytes) is not the begin of the PDU sent", pdu.data.len())));
            }
            "pattern" => {
                let (Expr::Word(name), Ok(h)) = (&c.value, C2hData::read(&pdu.header)) else {
                    return Err(self.script("pattern=NAME, of a C2HData"));
                };
                let at = self.conns[i].sent.get(&h.cccid().0).map_or(0, |s| s.at);
                return Ok(mismatch(name, at + u64::from(h.datao()), &pdu.data));
            }
            _ => {}
        }
        let Some((field, seen)) = seen(pdu, &c.name, None) else {
            return Err(self.script(format!("no field `{}` in {}", c.name, pdu.ptype())));
        };
        self.holds_for(c, field, seen, notes)
    }

    /// `None` where the condition holds for the value seen; a name without a value takes it.
    pub(super) fn holds_for(
        &mut self,
        c: &Cond,
        field: Option<&'static nvmf_wire::Field>,
        seen: Val,
        notes: &mut Vec<String>,
    ) -> Step<Option<String>> {
        if let (Expr::Var(name, None), Op::Equal) = (&c.value, c.op)
            && !self.vars.contains_key(name)
        {
            self.vars.insert(name.clone(), seen);
            return Ok(None);
        }
        let want = Scope(&self.vars).wanted(&c.value, field).map_err(|why| self.no_value(&why))?;
        let holds = compare(&seen, c.op, &want).map_err(|e| self.script(format!("{}: {e}", c.name)))?;
        let shown = if c.name == "status" { show_status(&seen) } else { seen.show() };
        if holds && matches!(c.op, Op::In) {
            notes.push(format!("{}={shown}, accepted{}", c.name, show_cond(c).trim_start_matches(&c.name)));
        }
        Ok((!holds).then(|| format!("{}={shown}, not {}", c.name, show(&c.value))))
    }

    fn digest_is(&self, pdu: &Pdu, c: &Cond) -> Step<Option<String>> {
        let (there, ok) = match c.name.as_str() {
            "hdgst" => (pdu.hdgst.is_some(), pdu.hdgst_ok()),
            _ => (pdu.ddgst.is_some(), pdu.ddgst_ok()),
        };
        let holds = match &c.value {
            Expr::Word(w) if w == "ok" => there && ok,
            Expr::Word(w) if w == "none" => !there,
            _ => return Err(self.script(format!("{}=ok or {}=none", c.name, c.name))),
        };
        let seen = if !there {
            "none"
        } else if ok {
            "right"
        } else {
            "wrong"
        };
        Ok((!holds).then(|| format!("{} is {seen}", c.name.to_uppercase())))
    }

    /// What came, in words.
    pub(super) fn words_of(&self, i: usize, next: &Next) -> String {
        match next {
            Next::Pdu(p) => self.conns[i].words(p),
            Next::Garbage(why) => why.clone(),
            Next::Cm(packet) => packet.show(),
            Next::Ended(Ended::Fin) => "the connection closed".into(),
            Next::Ended(Ended::Rst) => "the connection reset".into(),
            Next::Ended(Ended::Dreq) => "the connection ended by DREQ".into(),
            Next::Ended(Ended::Error) => "the queue pair in error".into(),
            Next::Nothing(0) => "nothing within the time".into(),
            Next::Nothing(n) => format!("only {n} bytes of a PDU within the time"),
        }
    }
}

/// Whether an alternative was met: with notes, or why not.
pub(super) enum Met {
    Yes(Vec<String>),
    No(String),
}

pub(super) fn observation(next: &Next) -> Seen {
    match next {
        Next::Pdu(_) | Next::Garbage(_) | Next::Cm(_) => Seen::WrongAnswer,
        Next::Ended(Ended::Fin | Ended::Dreq) => Seen::Close,
        Next::Ended(Ended::Rst | Ended::Error) => Seen::Reset,
        Next::Nothing(_) => Seen::Timeout,
    }
}

pub(super) fn describe(what: &Awaited) -> String {
    let with = |name: &str, conds: &[Cond]| {
        let conds: Vec<String> = conds.iter().map(show_cond).collect();
        if conds.is_empty() { name.to_owned() } else { format!("{name} {}", conds.join(" ")) }
    };
    match what {
        Awaited::Disconnect => "disconnect".into(),
        Awaited::Cm { message, conds } => with(message, conds),
        Awaited::Packet { packet, conds } => with(packet, conds),
        Awaited::NoPacket { packet, conds } => with(&format!("no {packet}"), conds),
        Awaited::Close => "close".into(),
        Awaited::Silence => "silence".into(),
        Awaited::Pdu { pdu, conds } => with(pdu, conds),
    }
}

fn has_own(pdu: &Pdu, name: &str) -> bool {
    pdu.ptype().layout().is_some_and(|l| l.field(name).is_some())
}

/// The first reserved byte that is not 0: of the PDU's header, or of the CQE in it.
fn reserved(pdu: &Pdu) -> Option<(&'static str, usize)> {
    let layout = pdu.ptype().layout()?;
    if let Some(at) = layout.reserved_set(&pdu.header) {
        return Some((layout.name, at));
    }
    if pdu.ptype() == PduType::CAPSULE_RESP {
        return Cqe::LAYOUT.reserved_set(cqe_of(pdu).as_bytes()).map(|at| ("CQE", at));
    }
    pdu.pad.iter().position(|b| *b != 0).map(|at| ("PAD", at))
}

pub(super) fn show_status(v: &Val) -> String {
    match v {
        Val::Int(n) => Status(*n as u16).show(true).to_string(),
        v => v.show(),
    }
}
