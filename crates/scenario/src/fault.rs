//! A fault script as a [`Tap`]: bends the traffic of one connection. Over RDMA `roce` does, packet by packet.

mod roce;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use nvmf_capture::Transport;
use nvmf_seam::{Side, Tap, TapOutput};
use nvmf_wire::tcp::{CapsuleResp, Digests, Pdu, PduType};
use nvmf_wire::{CommandKind, Cqe, Layout, Status};

use crate::ast::{Action, Assign, Cond, Fault, Place, Rule};
use crate::commands::{Belongs, Commands};
use crate::fields::{RESPONSES, data_layout, find, put};
use crate::player::Scope;
use crate::value::{Val, compare};

/// Plays the rules of a fault on one connection.
#[derive(Clone, Debug)]
pub struct FaultTap {
    rules: Vec<Rule>,
    /// Matches of each rule so far.
    matches: Vec<u64>,
    commands: Commands,
    /// PDUs held back, by direction.
    held: [VecDeque<Bytes>; 2],
    /// Pieces in which the PDU came, and how many bytes of it the first had.
    pieces: usize,
    first: usize,
    /// Connections over RDMA.
    wires: roce::Wires,
}

/// Most PDUs held back in one direction; more go out at once.
const MAX_HELD: usize = 64;

impl FaultTap {
    /// A tap for a new connection.
    pub fn new(fault: &Fault) -> Self {
        Self {
            matches: vec![0; fault.rules.len()],
            rules: fault.rules.clone(),
            commands: Commands::new(),
            held: [VecDeque::new(), VecDeque::new()],
            pieces: 1,
            first: usize::MAX,
            wires: roce::Wires::default(),
        }
    }

    fn matches(&self, rule: &Rule, from: Side, pdu: &Pdu) -> bool {
        let name = pdu.ptype().name().unwrap_or("PDU");
        if rule.from_controller != (from == Side::Controller) || (rule.pdu != "any" && rule.pdu != name) {
            return false;
        }
        let command = self.commands.of(pdu);
        let holds = |c: &Cond| match c.name.as_str() {
            "pieces" => is(self.pieces as u64, c),
            "first" => is(self.first as u64, c),
            _ => holds(pdu, c, &command),
        };
        command.is(rule.command.as_deref()) && rule.conds.iter().all(holds)
    }

    /// Of a PDU whose parts cannot be told: what a rule answers where its name and bytes fit, told with `malformed=1`.
    fn malformed(&mut self, from: Side, bytes: Bytes) -> Vec<TapOutput> {
        let name = bytes.first().and_then(|t| PduType(*t).name()).unwrap_or("PDU");
        let mut out = Vec::new();
        for rule in &self.rules {
            let here = rule.from_controller == (from == Side::Controller) && (rule.pdu == "any" || rule.pdu == name);
            if here && !rule.conds.is_empty() && rule.conds.iter().all(|c| c.name == "malformed" && is(1, c)) {
                out.extend(rule.actions.iter().filter_map(made_up));
            }
        }
        out.push(TapOutput::Pass(bytes));
        out
    }

    fn act(&mut self, action: &Action, from: Side, pdu: &mut Pdu, out: &mut Vec<TapOutput>) -> Kept {
        match action {
            Action::Set(with) => {
                let command = self.commands.of(pdu);
                for a in with {
                    set(pdu, a, command);
                }
            }
            Action::Drop => return Kept::No,
            Action::Duplicate => out.push(TapOutput::Pass(pdu.to_bytes().into())),
            Action::Delay(d) => {
                out.push(TapOutput::Late(*d, pdu.to_bytes().into()));
                return Kept::No;
            }
            Action::Corrupt(part, at) => corrupt(pdu, part, *at as usize),
            Action::Hold => {
                let held = &mut self.held[usize::from(from == Side::Controller)];
                if held.len() < MAX_HELD {
                    held.push_back(pdu.to_bytes().into());
                    return Kept::Held;
                }
            }
            Action::Close => {
                out.push(TapOutput::Close);
                return Kept::No;
            }
            Action::Answer(name, with) => {
                if let Some(a) = answer(name, with) {
                    out.push(TapOutput::Answer(a));
                }
            }
        }
        Kept::Yes
    }
}

#[derive(PartialEq)]
enum Kept {
    Yes,
    No,
    Held,
}

/// Whether a fault is about packets of RoCEv2, so that only a world with RDMA shows it.
pub fn is_of_rdma(fault: &Fault) -> bool {
    let over = |rule: &Rule| rule.pdu != "any" && crate::roce::is_name(&rule.pdu);
    fault.over == Some(Transport::Rdma) || fault.rules.iter().any(over)
}

/// The first field that a `set` of `fault` names and no PDU of its rule can have: such a rule would change nothing, without a word.
pub(crate) fn unknown_field(fault: &Fault) -> Option<(Place, String)> {
    for rule in &fault.rules {
        for action in &rule.actions {
            let (pdu, with) = match action {
                Action::Set(with) => (rule.pdu.as_str(), with),
                Action::Answer(pdu, with) => (pdu.as_str(), with),
                _ => continue,
            };
            if let Some(a) = with.iter().find(|a| !may_have(pdu, &a.name)) {
                return Some((a.place, format!("no field `{}` in {pdu}", a.name)));
            }
        }
    }
    None
}

/// Whether [`set`] can find a field of that name in some PDU of that name.
fn may_have(pdu: &str, name: &str) -> bool {
    if matches!(name, "flags" | "byte" | "data") {
        return true;
    }
    if crate::roce::is_name(pdu) && pdu != "any" || matches!(pdu, "CapsuleResp" | "CapsuleCmd") && name == "payload" {
        return crate::roce::may_have(name)
            || name.strip_prefix("data.").is_some_and(|n| one_has(nvmf_wire::registry::LAYOUTS.iter().copied(), n));
    }
    if let Some(n) = name.strip_prefix("data.") {
        return one_has(nvmf_wire::registry::LAYOUTS.iter().copied(), n);
    }
    let is = |which: &str| pdu == which || pdu == "any";
    let own = PduType::NAMED.iter().filter(|n| is(n.2)).filter_map(|n| n.0.layout());
    let response = is("CapsuleResp") && (name == "status" || one_has(RESPONSES, name));
    let commands = nvmf_wire::command::COMMANDS.iter().flat_map(|k| [Some(k.layout), k.data]).flatten();
    one_has(own, name) || response || is("CapsuleCmd") && one_has(commands, name)
}

fn one_has(layouts: impl IntoIterator<Item = &'static Layout>, field: &str) -> bool {
    layouts.into_iter().any(|l| l.field(field).is_some())
}

impl Tap for FaultTap {
    fn pdu(&mut self, from: Side, bytes: Bytes) -> Vec<TapOutput> {
        // no PDU has such a type: an IP packet
        if bytes.first().is_some_and(|b| matches!(b >> 4, 4 | 6)) {
            return self.wires.packet(&self.rules, from, &bytes).unwrap_or_else(|| vec![TapOutput::Pass(bytes)]);
        }
        let Ok(mut pdu) = Pdu::parse(&bytes) else {
            return self.malformed(from, bytes);
        };
        if from == Side::Host {
            self.commands.note(&pdu);
        }
        let mut out = Vec::new();
        let mut kept = Kept::Yes;
        let mut changed = false;
        for k in 0..self.rules.len() {
            let rule = self.rules[k].clone();
            if kept != Kept::Yes || !self.matches(&rule, from, &pdu) {
                continue;
            }
            self.matches[k] += 1;
            if rule.nth.is_some_and(|n| n != self.matches[k]) {
                continue;
            }
            changed = true;
            for action in &rule.actions {
                kept = self.act(action, from, &mut pdu, &mut out);
                if kept != Kept::Yes {
                    break;
                }
            }
        }
        if kept == Kept::Yes {
            out.push(TapOutput::Pass(if changed { pdu.to_bytes().into() } else { bytes }));
        }
        if kept != Kept::Held {
            out.extend(self.held[usize::from(from == Side::Controller)].drain(..).map(TapOutput::Pass));
        }
        out
    }

    fn came_in(&mut self, pieces: usize, first: usize) {
        (self.pieces, self.first) = (pieces, first);
    }

    fn hides_end(&mut self, by: Side) -> bool {
        by == Side::Host && self.rules.iter().any(|rule| rule.pdu == "end")
    }

    fn is_impatient(&self) -> bool {
        self.rules.iter().any(|rule| rule.pdu == "wait")
    }

    fn waiting(&mut self, pdus: u64, bytes: usize) -> Vec<TapOutput> {
        let holds = |c: &Cond| match c.name.as_str() {
            "pdus" => is(pdus, c),
            "bytes" => is(bytes as u64, c),
            _ => false,
        };
        let due = self.rules.iter().filter(|rule| rule.pdu == "wait" && rule.conds.iter().all(holds));
        due.flat_map(|rule| &rule.actions).filter_map(made_up).collect()
    }
}

/// Whether a number that is no field of a PDU is as a condition wants it.
fn is(seen: u64, c: &Cond) -> bool {
    let want = Scope(&BTreeMap::new()).eval(&c.value);
    want.is_ok_and(|w| compare(&Val::Int(seen), c.op, &w).unwrap_or(false))
}

/// What an action sends or does without a PDU to act on.
fn made_up(action: &Action) -> Option<TapOutput> {
    match action {
        Action::Answer(name, with) => answer(name, with).map(TapOutput::Answer),
        Action::Close => Some(TapOutput::Close),
        _ => None,
    }
}

fn holds(pdu: &Pdu, c: &Cond, command: &Belongs) -> bool {
    let Some((field, seen)) = command.seen(pdu, &c.name) else { return false };
    let want = Scope(&BTreeMap::new()).wanted(&c.value, field);
    want.is_ok_and(|w| compare(&seen, c.op, &w).unwrap_or(false))
}

/// Sets a field; `$old` in the value is what it was. A field that the PDU does not have changes nothing.
fn set(pdu: &mut Pdu, a: &Assign, command: Belongs) {
    let Belongs { sqe, kind } = command;
    let data_field = a.name.strip_prefix("data.").and_then(|n| sqe.as_ref().and_then(data_layout).and_then(|l| l.field(n)));
    let old = match data_field {
        Some(f) => f.get(&pdu.data).int(),
        None => find(pdu, &a.name, kind).and_then(|(f, buf)| f.and_then(|f| f.get(&buf).int())),
    };
    let vars = BTreeMap::from([("old".to_owned(), Val::Int(old.unwrap_or(0)))]);
    let Ok(value) = Scope(&vars).eval(&a.value) else { return };
    let mut header = pdu.header.to_vec();
    match (a.name.as_str(), a.index) {
        ("flags", _) => {
            if let (Ok(n), Some(b)) = (value.int(), header.get_mut(1)) {
                *b = n as u8;
            }
        }
        ("byte", Some(at)) => {
            if let (Ok(n), Some(b)) = (value.int(), header.get_mut(at as usize)) {
                *b = n as u8;
            }
        }
        ("data", at) => {
            let mut data = pdu.data.to_vec();
            match (at, &value) {
                (Some(at), v) => {
                    if let (Ok(n), Some(b)) = (v.int(), data.get_mut(at as usize)) {
                        *b = n as u8;
                    }
                }
                (None, v) => data = v.bytes().unwrap_or(data),
            }
            pdu.data = data.into();
        }
        ("status", _) => {
            if let (Ok(n), Ok(c)) = (value.int(), CapsuleResp::read(&header)) {
                let cqe = Cqe::from_bytes(c.cqe()).with_status(Status(n as u16));
                header[8..24].copy_from_slice(cqe.as_bytes());
            }
        }
        _ if data_field.is_some() => {
            let mut data = pdu.data.to_vec();
            if let Some(f) = data_field {
                let _ = put(f, &mut data, &value);
            }
            pdu.data = data.into();
        }
        (name, _) => set_named(pdu, &mut header, name, &value, kind),
    }
    pdu.header = header.into();
    *pdu = pdu.clone().seal();
}

fn set_named(pdu: &mut Pdu, header: &mut [u8], name: &str, value: &Val, kind: Option<&'static CommandKind>) {
    if let Some(f) = pdu.ptype().layout().and_then(|l| l.field(name)) {
        let _ = put(f, header, value);
        return;
    }
    let inner = match pdu.ptype() {
        PduType::CAPSULE_RESP => RESPONSES.iter().find_map(|l| l.field(name)),
        PduType::CAPSULE_CMD => kind.and_then(|k| k.layout.field(name)),
        _ => None,
    };
    if let (Some(f), Some(part)) = (inner, header.get_mut(8..)) {
        let _ = put(f, part, value);
    } else if let Some(f) = kind.and_then(|k| k.data).and_then(|l| l.field(name)).filter(|_| pdu.ptype() == PduType::CAPSULE_CMD) {
        let mut data = pdu.data.to_vec();
        let _ = put(f, &mut data, value);
        pdu.data = data.into();
    }
}

/// Flips bits of one part; digests stay as they are.
fn corrupt(pdu: &mut Pdu, part: &str, at: usize) {
    let flip = |b: &Bytes| {
        let mut v = b.to_vec();
        if let Some(x) = v.get_mut(at) {
            *x ^= 0xff;
        }
        Bytes::from(v)
    };
    match part {
        "header" => pdu.header = flip(&pdu.header),
        "data" => pdu.data = flip(&pdu.data),
        "hdgst" => pdu.hdgst = pdu.hdgst.map(|d| d.map(|b| b ^ 0xff)),
        _ => pdu.ddgst = pdu.ddgst.map(|d| d.map(|b| b ^ 0xff)),
    }
}

/// A PDU made up for the sender.
fn answer(name: &str, with: &[Assign]) -> Option<Bytes> {
    let (ptype, ..) = PduType::NAMED.iter().find(|n| n.2 == name)?;
    let mut header = vec![0; ptype.hlen()?];
    *header.first_mut()? = ptype.0;
    let mut pdu = Pdu::build(&header, Bytes::new(), Digests::default(), 4);
    for a in with {
        set(&mut pdu, a, Belongs::default());
    }
    Some(pdu.to_bytes().into())
}

#[cfg(test)]
mod tests {
    use nvmf_wire::tcp::R2t;

    use super::*;
    use crate::ast::Script;

    fn tap(rule: &str) -> FaultTap {
        let text = format!("fault f\n  says \"x\"\n  {rule}\n");
        match crate::parse::parse("f", &text).unwrap().remove(0) {
            Script::Fault(f) => FaultTap::new(&f),
            _ => unreachable!(),
        }
    }

    #[test]
    fn a_field_that_no_such_pdu_has_is_refused_with_its_place() {
        let text = "fault f\n  says \"x\"\n  on c2h CapsuleResp: set dw0=1 sqid=7\n";
        let e = crate::parse::parse("f", text).unwrap_err();
        assert_eq!((e.place.line, e.place.column, e.what.as_str()), (3, 33, "no field `sqid` in CapsuleResp"));
        for rule in
            ["on c2h any: set ptype=8", "on c2h C2HData Identify: set data.cntlid=1", "on c2h CapsuleResp: set ipo=1 status=0/02h"]
        {
            tap(rule);
        }
    }

    #[test]
    fn what_is_no_pdu_has_actions_of_its_own() {
        for (rule, column, expected) in [
            ("on h2c end: close", 15, "drop"),
            ("on h2c wait pdus=0: drop", 23, "answer or close"),
            ("on c2h end: drop", 10, "a PDU"),
        ] {
            let e = crate::parse::parse("f", &format!("fault f\n  says \"x\"\n  {rule}\n")).unwrap_err();
            assert!(e.place.column == column && e.what.contains(expected), "{rule}: {} {}", e.place.column, e.what);
        }
        let mut hides = tap("on h2c end: drop");
        assert!(hides.hides_end(Side::Host) && !hides.hides_end(Side::Controller) && !hides.is_impatient());
        let mut waits = tap("on h2c wait pdus=1 bytes>0: close");
        assert!(waits.is_impatient() && !waits.hides_end(Side::Host));
        assert_eq!((waits.waiting(0, 1), waits.waiting(1, 0), waits.waiting(1, 5)), (vec![], vec![], vec![TapOutput::Close]));
    }

    #[test]
    fn what_is_shorter_than_its_header_is_answered_by_name() {
        let mut t = tap("on h2c H2CTermReq malformed=1: close");
        let short = |ptype: u8| Bytes::from(vec![ptype, 0, 24, 0, 8, 0, 0, 0]);
        assert_eq!(t.pdu(Side::Host, short(2)), [TapOutput::Close, TapOutput::Pass(short(2))]);
        assert_eq!(t.pdu(Side::Host, short(4)), [TapOutput::Pass(short(4))]);
        assert_eq!(t.pdu(Side::Controller, short(2)), [TapOutput::Pass(short(2))]);
    }

    fn r2t(r2tl: u32) -> Bytes {
        let h = R2t::new().with(|s| s.ttag(3).r2tl(r2tl));
        let mut b = *h.as_bytes();
        b[0] = PduType::R2T.0;
        Pdu::build(&b, Bytes::new(), Digests { header: true, data: false }, 4).seal().to_bytes().into()
    }

    #[test]
    fn only_the_nth_match_is_changed_and_its_digest_is_right() {
        let mut t = tap("on c2h R2T ttag=3 #2: set r2tl=$old+4");
        let plain = r2t(4096);
        assert_eq!(t.pdu(Side::Controller, plain.clone()), [TapOutput::Pass(plain.clone())]);
        let [TapOutput::Pass(b)] = &t.pdu(Side::Controller, plain.clone())[..] else { panic!("one PDU") };
        let p = Pdu::parse(b).unwrap();
        assert_eq!(R2t::read(&p.header).unwrap().r2tl(), 4100);
        assert!(p.hdgst_ok());
        assert_eq!(t.pdu(Side::Controller, plain.clone()), [TapOutput::Pass(plain)]);
    }

    #[test]
    fn held_goes_out_after_the_next() {
        let mut t = tap("on c2h R2T r2tl=1: hold");
        assert_eq!(t.pdu(Side::Controller, r2t(1)), []);
        assert_eq!(t.pdu(Side::Controller, r2t(2)), [TapOutput::Pass(r2t(2)), TapOutput::Pass(r2t(1))]);
    }

    #[test]
    fn a_corrupt_digest_is_wrong() {
        let mut t = tap("on c2h R2T: corrupt hdgst");
        let [TapOutput::Pass(b)] = &t.pdu(Side::Controller, r2t(1))[..] else { panic!("one PDU") };
        assert!(!Pdu::parse(b).unwrap().hdgst_ok());
    }
}
