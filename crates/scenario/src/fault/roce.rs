//! A fault on RoCEv2: rules act on packets, and see the IP packets of one connection or of many.
//!
//! Which connection a packet belongs to is told from REQ and REP, the command of a READ or WRITE from the key that it names. Lengths and
//! ICRC are made right after every change, unless a wrong ICRC is what the rule is for.

use std::collections::BTreeMap;

use bytes::Bytes;
use nvmf_seam::{Side, TapOutput};
use nvmf_wire::cm::CmMessage;

use crate::ast::{Action, Assign, Cond, Rule};
use crate::commands::Belongs;
use crate::fields::data_layout;
use crate::player::Scope;
use crate::roce::{Commands, Datagram, Packet};
use crate::value::{Val, compare};

/// Connections that are told apart; the oldest is forgotten first.
const MAX_WIRES: usize = 1024;
/// Packets held back in one direction; more go out at once.
const MAX_HELD: usize = 64;

/// One connection, as far as it is known.
#[derive(Clone, Debug, Default)]
struct Wire {
    /// Queue pairs and communication IDs of host and controller.
    qpns: [Option<u32>; 2],
    ids: [Option<u32>; 2],
    commands: Commands,
    /// Matches of each rule so far.
    matches: Vec<u64>,
    held: [Vec<Bytes>; 2],
}

/// All connections that a tap sees.
#[derive(Clone, Debug, Default)]
pub(super) struct Wires {
    all: Vec<Wire>,
}

/// What is left to do with the packet itself.
#[derive(PartialEq)]
enum Kept {
    Yes,
    No,
    Held,
}

impl Wires {
    /// What becomes of an IP packet; `None` where it is none of RoCEv2.
    pub(super) fn packet(&mut self, rules: &[Rule], from: Side, bytes: &Bytes) -> Option<Vec<TapOutput>> {
        let mut datagram = Datagram::read(bytes, from == Side::Controller)?;
        let wire = self.of(from, &datagram.packet);
        wire.matches.resize(rules.len(), 0);
        let belongs = wire.note(&datagram.packet);
        let (mut out, mut kept, mut changed, mut stale) = (Vec::new(), Kept::Yes, false, false);
        for (k, rule) in rules.iter().enumerate() {
            if kept != Kept::Yes || !fits(rule, from, &datagram.packet, belongs) {
                continue;
            }
            wire.matches[k] += 1;
            if rule.nth.is_some_and(|n| n != wire.matches[k]) {
                continue;
            }
            changed = true;
            for action in &rule.actions {
                kept = wire.act(action, from, &mut datagram, belongs, &mut stale, &mut out);
                if kept != Kept::Yes {
                    break;
                }
            }
        }
        if kept == Kept::Yes {
            out.push(TapOutput::Pass(if changed { datagram.to_bytes(stale).into() } else { bytes.clone() }));
        }
        if kept != Kept::Held {
            out.extend(wire.held[usize::from(from == Side::Controller)].drain(..).map(TapOutput::Pass));
        }
        Some(out)
    }

    /// The connection of a packet. What belongs to none that is known is of a new one.
    fn of(&mut self, from: Side, packet: &Packet) -> &mut Wire {
        let peer = usize::from(from == Side::Host);
        let body = packet.get("mad.attribute", None).map(|_| ());
        let id = |name: &str| packet.get(name, None).and_then(|(_, v)| v.int().ok()).map(|n| n as u32);
        let found = match (body, packet.message()) {
            (Some(()), Some(message)) => {
                let (own, remote) = (id("cm.local_id"), id("cm.remote_id"));
                let new = message == CmMessage::REQ;
                self.all.iter().rposition(|w| {
                    let by_own = own.is_some() && w.ids[1 - peer] == own;
                    by_own && (!new || w.qpns[0] == id("cm.qpn")) || !new && remote.is_some() && w.ids[peer] == remote
                })
            }
            _ => self.all.iter().rposition(|w| w.qpns[peer] == Some(packet.bth().dqpn())),
        };
        let at = found.unwrap_or_else(|| {
            if self.all.len() >= MAX_WIRES {
                self.all.remove(0);
            }
            self.all.push(Wire::default());
            self.all.len() - 1
        });
        &mut self.all[at]
    }
}

impl Wire {
    /// Takes note of what a packet says of its connection, and tells its command.
    fn note(&mut self, packet: &Packet) -> Belongs {
        let number = |name: &str| packet.get(name, None).and_then(|(_, v)| v.int().ok()).map(|n| n as u32);
        match packet.message() {
            Some(CmMessage::REQ) => (self.ids[0], self.qpns[0]) = (number("cm.local_id"), number("cm.qpn")),
            Some(CmMessage::REP) => (self.ids[1], self.qpns[1]) = (number("cm.local_id"), number("cm.qpn")),
            _ => {}
        }
        self.commands.note(packet)
    }

    fn act(
        &mut self,
        action: &Action,
        from: Side,
        datagram: &mut Datagram,
        belongs: Belongs,
        stale: &mut bool,
        out: &mut Vec<TapOutput>,
    ) -> Kept {
        match action {
            Action::Set(with) => {
                for a in with {
                    set(&mut datagram.packet, a, belongs);
                }
            }
            Action::Drop => return Kept::No,
            Action::Duplicate => out.push(TapOutput::Pass(datagram.to_bytes(*stale).into())),
            Action::Delay(d) => {
                out.push(TapOutput::Late(*d, datagram.to_bytes(*stale).into()));
                return Kept::No;
            }
            Action::Corrupt(part, at) => *stale |= corrupt(&mut datagram.packet, part, *at as usize),
            Action::Hold => {
                let held = &mut self.held[usize::from(from == Side::Controller)];
                if held.len() < MAX_HELD {
                    held.push(datagram.to_bytes(*stale).into());
                    return Kept::Held;
                }
            }
            Action::Close => {
                out.push(TapOutput::Close);
                return Kept::No;
            }
            Action::Answer(name, with) => out.extend(self.answer(from, datagram, name, with).map(TapOutput::Answer)),
        }
        Kept::Yes
    }

    /// A packet made up for the sender of another: with the other's PSN, as an acknowledgement has it.
    fn answer(&self, to: Side, datagram: &Datagram, name: &str, with: &[Assign]) -> Option<Bytes> {
        let mut packet = Packet::of_name(name)?;
        packet.from_controller = to == Side::Host;
        let own = usize::from(to == Side::Controller);
        let n = |n: Option<u32>| Val::Int(u64::from(n.unwrap_or(0)));
        let defaults = if packet.message().is_some() {
            let asked = datagram.packet.get("mad.tid", None).map_or(Val::Int(0), |(_, v)| v);
            let (theirs, ours) = (self.ids[own], self.ids[1 - own].or(Some(1)));
            vec![("mad.tid", asked), ("cm.local_id", n(ours)), ("cm.remote_id", n(theirs)), ("cm.remote_qpn", n(self.qpns[own]))]
        } else {
            vec![("bth.dqpn", n(self.qpns[own])), ("bth.psn", n(Some(datagram.packet.bth().psn())))]
        };
        for (name, v) in defaults {
            // a message that lacks the field does not need it
            let _ = packet.set(name, None, &v);
        }
        for a in with {
            set(&mut packet, a, Belongs::default());
        }
        Some(datagram.reversed(packet).to_bytes(false).into())
    }
}

/// Whether a rule is about this packet.
fn fits(rule: &Rule, from: Side, packet: &Packet, belongs: Belongs) -> bool {
    // any PDU, which a packet is not
    rule.pdu != "any"
        && rule.from_controller == (from == Side::Controller)
        && packet.is(&rule.pdu)
        && belongs.is(rule.command.as_deref())
        && rule.conds.iter().all(|c| holds(packet, c, belongs).unwrap_or(false))
}

fn holds(packet: &Packet, c: &Cond, belongs: Belongs) -> Option<bool> {
    let (field, seen) = belongs.seen_in(packet, &c.name)?;
    let want = Scope(&BTreeMap::new()).wanted(&c.value, field).ok()?;
    compare(&seen, c.op, &want).ok()
}

/// Sets a field; `$old` in the value is what it was. A field that the packet does not have changes nothing.
fn set(packet: &mut Packet, a: &Assign, belongs: Belongs) {
    if a.name == "data" || a.name.starts_with("data.") {
        set_data(packet, a, belongs);
        return;
    }
    let old = packet.get(&a.name, belongs.kind).and_then(|(_, v)| v.int().ok());
    let Some(value) = worked_out(packet, a, old) else { return };
    if let ("byte", Some(at)) = (a.name.as_str(), a.index) {
        if let (Ok(n), Some(b)) = (value.int(), packet.bytes.get_mut(at as usize)) {
            *b = n as u8;
        }
        return;
    }
    let _ = packet.set(&a.name, belongs.kind, &value);
    if a.name == "payload" {
        packet.pad();
    }
}

/// Changes the data of a command where a packet moves it: a byte, or a field of what it begins with.
fn set_data(packet: &mut Packet, a: &Assign, belongs: Belongs) {
    let mut data = packet.payload().to_vec();
    let field = a.name.strip_prefix("data.").and_then(|n| belongs.sqe.as_ref().and_then(data_layout)?.field(n));
    let begins = packet.opcode().begins();
    match (field, a.index) {
        (Some(f), _) if begins && f.offset() + f.len() <= data.len() => {
            let Some(value) = worked_out(packet, a, f.get(&data).int()) else { return };
            let _ = crate::fields::put(f, &mut data, &value);
        }
        (None, Some(at)) => {
            let old = data.get(at as usize).map(|b| u64::from(*b));
            if let (Some(Ok(n)), Some(b)) = (worked_out(packet, a, old).map(|v| v.int()), data.get_mut(at as usize)) {
                *b = n as u8;
            }
        }
        _ => return,
    }
    let _ = packet.set("payload", None, &Val::Bytes(data));
    packet.pad();
}

/// The value of an assignment: `$old` is what the field was, `$payload` what the packet carries.
fn worked_out(packet: &Packet, a: &Assign, old: Option<u64>) -> Option<Val> {
    let payload = Val::Bytes(packet.payload().to_vec());
    let vars = BTreeMap::from([("old".to_owned(), Val::Int(old.unwrap_or(0))), ("payload".to_owned(), payload)]);
    Scope(&vars).eval(&a.value).ok()
}

/// Flips a byte; true where it is the ICRC that is to be wrong.
fn corrupt(packet: &mut Packet, part: &str, at: usize) -> bool {
    let headers = packet.bytes.len() - packet.payload().len() - usize::from(packet.bth().padcnt());
    let at = match part {
        "header" => at,
        "data" => headers + at,
        _ => return true,
    };
    if let Some(b) = packet.bytes.get_mut(at) {
        *b ^= 0xff;
    }
    false
}

#[cfg(test)]
mod tests {
    use nvmf_wire::roce::icrc;

    use super::*;
    use crate::ast::Script;

    /// An IP packet with a packet of that name.
    fn datagram(name: &str, with: &[(&str, u64)]) -> Bytes {
        let mut packet = Packet::of_name(name).unwrap();
        if name == "SEND_ONLY" {
            packet.set("payload", None, &Val::Bytes(vec![0; 16])).unwrap();
            packet.from_controller = true;
        }
        for (name, n) in with {
            packet.set(name, None, &Val::Int(*n)).unwrap();
        }
        let mut head = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
        head.extend([0xc0, 0, 0x12, 0xb7, 0, 0, 0, 0]);
        Datagram::with(head, packet).to_bytes(false).into()
    }

    fn rules(text: &str) -> Vec<Rule> {
        let text = format!("fault f\n  says \"x\"\n  {text}\n");
        match crate::parse::parse("f", &text).unwrap_or_else(|e| panic!("{e}")).remove(0) {
            Script::Fault(f) => f.rules,
            _ => unreachable!(),
        }
    }

    fn right(bytes: &[u8]) -> bool {
        icrc(&bytes[..bytes.len() - 4]).as_ref().map(|c| &c[..]) == bytes.get(bytes.len() - 4..)
    }

    fn passed(out: &[TapOutput]) -> (Packet, bool) {
        let [TapOutput::Pass(b)] = out else { panic!("{out:?}") };
        (Datagram::read(b, true).unwrap().packet, right(b))
    }

    #[test]
    fn a_changed_packet_has_the_right_icrc_and_each_connection_its_own_count() {
        let (rules, mut wires) = (rules("on c2h NAK value=0 #2: set value=1 psn=$old+1"), Wires::default());
        for qpn in [7, 8] {
            let req = datagram("REQ", &[("cm.local_id", qpn), ("cm.qpn", qpn)]);
            assert_eq!(wires.packet(&rules, Side::Host, &req), Some(vec![TapOutput::Pass(req.clone())]));
        }
        let nak = |qpn: u64| datagram("NAK", &[("dqpn", qpn), ("psn", 41)]);
        for qpn in [7, 8] {
            let out = wires.packet(&rules, Side::Controller, &nak(qpn)).unwrap();
            assert_eq!(out, [TapOutput::Pass(nak(qpn))], "the first of {qpn}");
        }
        let (changed, right) = passed(&wires.packet(&rules, Side::Controller, &nak(7)).unwrap());
        assert!(right && changed.is("NAK"));
        assert_eq!(changed.show(), "ACK psn=42 (0x2a) kind=3 NAK value=1 msn=0");
        assert_eq!(wires.packet(&rules, Side::Controller, &Bytes::from_static(&[5, 0, 24, 0])), None);
    }

    #[test]
    fn answers_go_back_and_a_wrong_icrc_is_wrong() {
        let mut wires = Wires::default();
        let spoilt = rules("on c2h SEND status=0: corrupt icrc");
        let [TapOutput::Pass(b)] = &wires.packet(&spoilt, Side::Controller, &datagram("SEND_ONLY", &[])).unwrap()[..] else {
            panic!("one packet")
        };
        assert!(!right(b));
        let answered = rules("on c2h READ_REQUEST: answer NAK value=3; drop");
        let out = wires.packet(&answered, Side::Controller, &datagram("READ_REQUEST", &[("psn", 9)])).unwrap();
        let [TapOutput::Answer(b)] = &out[..] else { panic!("{out:?}") };
        assert!(right(b) && b[12..20] == [192, 0, 2, 2, 192, 0, 2, 1]);
        assert_eq!(Datagram::read(b, false).unwrap().packet.show(), "ACK psn=9 kind=3 NAK value=3 msn=0");
    }

    #[test]
    fn a_payload_may_be_made_of_the_old_one() {
        let mut wires = Wires::default();
        let longer = rules("on c2h SEND: set payload=cat($payload, hex:01020304)");
        let (packet, _) = passed(&wires.packet(&longer, Side::Controller, &datagram("SEND_ONLY", &[])).unwrap());
        assert_eq!((packet.payload().len(), &packet.payload()[16..]), (20, &[1, 2, 3, 4][..]));
    }

    #[test]
    fn a_longer_payload_has_lengths_that_fit() {
        let mut wires = Wires::default();
        let longer = rules("on c2h CapsuleResp: set payload=zeros(21) status=0/04h");
        let (packet, right) = passed(&wires.packet(&longer, Side::Controller, &datagram("SEND_ONLY", &[])).unwrap());
        assert!(right);
        assert_eq!((packet.payload().len(), packet.bth().padcnt()), (21, 3));
        assert_eq!(packet.get("status", None).unwrap().1.int(), Ok(4));
    }
}
