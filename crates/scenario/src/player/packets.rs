//! Packets made by hand, and what is expected of the peer's packets.

use std::time::Duration;

use bytes::Bytes;
use nvmf_seam::rdma::{Facts, Icrc, RawPacket};
use nvmf_wire::cm::CmMessage;

use super::compose::Said;
use super::conn::Next;
use super::expect::{Met, describe};
use super::{Player, Seen, Step, StopKind};
use crate::ast::{Alternative, Assign, Awaited, Cond, RdmaWhat, Stmt};
use crate::roce::Packet;
use crate::value::Val;

/// Fields of `send packet` that are none of a packet.
const SPECIAL: &[&str] = &["icrc", "takes"];
/// Packets named in a message.
const SHOWN: usize = 6;

impl Player<'_> {
    pub(super) fn rdma(&mut self, s: &Stmt, what: &RdmaWhat) -> Step {
        if let RdmaWhat::Open { name, with } = what {
            return self.open_rdma(name.as_deref(), with);
        }
        let i = self.conn_of(s)?;
        if self.conns[i].pairs().is_none() {
            return Err(self.script("this connection is not over RDMA"));
        }
        match what {
            RdmaWhat::Open { .. } => Ok(()),
            RdmaWhat::Region { name, with } => self.region(i, name, with),
            RdmaWhat::Deregister(name) => self.deregister(i, name),
            RdmaWhat::Peek { name, bind } => self.peek(i, name, bind),
            RdmaWhat::Capsule { bind, command, with } => {
                let said = self.say(with)?;
                let bytes = self.compose(i, "CapsuleCmd", Some(command), &said)?;
                self.vars.insert(bind.clone(), Val::Bytes(bytes.get(8..).unwrap_or(&[]).to_vec()));
                Ok(())
            }
            RdmaWhat::Packet { packet, again, with } => self.send_packet(i, packet, *again, with),
            RdmaWhat::Mute(on) => {
                self.up(i, None)?;
                if let Some(pairs) = self.conns[i].pairs() {
                    pairs.mute(&mut *self.net, *on);
                }
                Ok(())
            }
            RdmaWhat::Mark => {
                self.settle(i, Duration::ZERO);
                if let Some(pairs) = self.conns[i].pairs() {
                    pairs.forget_packets();
                }
                Ok(())
            }
            RdmaWhat::Receive(n) => {
                let n = self.int(n)?.min(65_536) as u32;
                if let Some(pairs) = self.conns[i].pairs() {
                    pairs.post_receives(&mut *self.net, n);
                }
                Ok(())
            }
        }
    }

    /// `$qp`: what packets of a connection are made with, as it is now.
    pub(super) fn bind_facts(&mut self, i: usize) {
        let Some(f) = self.conns[i].pairs().and_then(|p| p.facts(&mut *self.net)) else { return };
        let beside = [
            ("qpn", f.qpn),
            ("peer", f.peer_qpn),
            ("psn", f.psn),
            ("expected", f.expected_psn),
            ("id", f.id),
            ("peer_id", f.peer_id),
            ("mtu", f.mtu),
        ];
        let beside = beside.map(|(name, n)| (name, u64::from(n))).to_vec();
        self.vars.insert("qp".into(), Val::Record { layout: None, bytes: Vec::new(), beside });
    }

    /// `send packet …`.
    fn send_packet(&mut self, i: usize, name: &str, again: bool, with: &[Assign]) -> Step {
        // what it answers has to be there before
        self.settle(i, Duration::ZERO);
        let said = self.say(with)?;
        let Some(pairs) = self.conns[i].pairs() else { return Ok(()) };
        let facts = pairs.facts(&mut *self.net);
        let made = if again { pairs.last_sent(&mut *self.net, name) } else { Packet::of_name(name) };
        let Some(mut packet) = made else {
            let why = if again { format!("no {name} was sent yet") } else { format!("{name} is no packet that can be made") };
            return Err(self.script(why));
        };
        if !again && let Some(facts) = facts {
            defaults(&mut packet, &facts);
        }
        let mut kind = packet.sqe().and_then(|s| nvmf_wire::CommandKind::of(&s, self.conns[i].qid == 0));
        for s in said.iter().filter(|s| !SPECIAL.contains(&s.name.as_str())) {
            if s.name == "byte" {
                self.set_byte(&mut packet, s)?;
                continue;
            }
            packet.set(&s.name, kind, &s.value).map_err(|e| self.script(e))?;
            if s.name == "payload" {
                packet.pad();
                kind = packet.sqe().and_then(|s| nvmf_wire::CommandKind::of(&s, self.conns[i].qid == 0));
            }
        }
        let icrc = match said.iter().find(|s| s.name == "icrc").map(|s| &s.value) {
            None => Icrc::Right,
            Some(Val::Word(w)) if w == "bad" => Icrc::Flipped([1, 0, 0, 0]),
            Some(v) => Icrc::Flipped((v.int().map_err(|e| self.script(e))? as u32).to_be_bytes()),
        };
        let skip = said.iter().find(|s| s.name == "takes").map(|s| s.value.int()).transpose().map_err(|e| self.script(e))?;
        if let Some(pairs) = self.conns[i].pairs() {
            pairs.forget_packets();
            // a link that is gone sends nothing: what follows in the script judges that
            let _ = pairs.inject(&mut *self.net, RawPacket { bytes: Bytes::from(packet.bytes), icrc });
            pairs.skip(&mut *self.net, skip.unwrap_or(0) as u32);
        }
        Ok(())
    }

    fn set_byte(&self, packet: &mut Packet, s: &Said) -> Step {
        let at = s.index.ok_or_else(|| self.script("byte lacks its index: byte[12]=0"))? as usize;
        let n = s.value.int().map_err(|e| self.script(e))?;
        let length = packet.bytes.len();
        *packet.bytes.get_mut(at).ok_or_else(|| self.script(format!("byte[{at}] of a packet of {length} bytes")))? = n as u8;
        Ok(())
    }

    /// `expect packet …` and `expect no packet …`, beside what else may come.
    pub(super) fn expect_packet(&mut self, i: usize, any: &[Alternative], within: Duration) -> Step {
        let until = self.net.now() + within;
        let mut seen = Vec::new();
        loop {
            while let Some(p) = self.conns[i].pairs().and_then(super::rdma::Pairs::take_packet) {
                for alt in any {
                    let (name, conds, wanted) = match &alt.what {
                        Awaited::Packet { packet, conds } => (packet, conds, true),
                        Awaited::NoPacket { packet, conds } => (packet, conds, false),
                        _ => continue,
                    };
                    let bound = self.vars.clone();
                    let met = if p.is(name) { self.packet_meets(&p, conds)? } else { Met::No(String::new()) };
                    let Met::Yes(mut notes) = met else {
                        self.vars = bound;
                        continue;
                    };
                    self.notes.append(&mut notes);
                    if wanted {
                        return self.met(alt, Seen::WrongAnswer, &p.show());
                    }
                    let message = format!("expected no {name}; seen {}", p.show());
                    return Err(self.stop(StopKind::Graded(crate::ast::Grade::Fail), Seen::Unexpected, message));
                }
                seen.push(p.show());
            }
            let next = self.conns[i].ready();
            if let Some(alt) = next.as_ref().and_then(|n| any.iter().find(|a| self.met_by(i, n, &a.what))) {
                let next = self.conns[i].next(&mut *self.net, until);
                let words = self.words_of(i, &next);
                return self.met(alt, super::expect::observation(&next), &words);
            }
            if !self.conns[i].pump(&mut *self.net, until) {
                break;
            }
        }
        if let Some(alt) = any.iter().find(|a| matches!(a.what, Awaited::NoPacket { .. })) {
            return self.met(alt, Seen::Timeout, "no such packet");
        }
        let wanted = any.iter().map(|a| describe(&a.what)).collect::<Vec<_>>().join(" | ");
        let (word, what) = match (seen.len(), self.conns[i].ready()) {
            (0, Some(next)) => (super::expect::observation(&next), self.words_of(i, &next)),
            (0, None) => (Seen::Timeout, "no packet within the time".to_owned()),
            (n, _) => (Seen::WrongAnswer, seen.split_off(n.saturating_sub(SHOWN)).join("; ")),
        };
        Err(self.stop(StopKind::Graded(crate::ast::Grade::Fail), word, format!("expected {wanted}; seen {what}")))
    }

    fn met_by(&mut self, i: usize, next: &Next, what: &Awaited) -> bool {
        !matches!(what, Awaited::Packet { .. } | Awaited::NoPacket { .. }) && matches!(self.meets(i, next, what), Ok(Met::Yes(_)))
    }

    /// Whether a packet meets all conditions.
    pub(super) fn packet_meets(&mut self, packet: &Packet, conds: &[Cond]) -> Step<Met> {
        let mut notes = Vec::new();
        for c in conds {
            self.place.column = c.place.column;
            let Some((field, seen)) = packet.get(&c.name, None) else {
                if crate::roce::may_have(&c.name) {
                    return Ok(Met::No(format!("it has no {}", c.name)));
                }
                return Err(self.script(format!("no field `{}` in a packet", c.name)));
            };
            if let Some(why) = self.holds_for(c, field, seen, &mut notes)? {
                return Ok(Met::No(why));
            }
        }
        Ok(Met::Yes(notes))
    }
}

/// What a packet of a connection has where the script says nothing.
fn defaults(packet: &mut Packet, f: &Facts) {
    let n = |n: u32| Val::Int(u64::from(n));
    // a field that this packet does not have stays away
    let mut set = |name: &str, v: Val| {
        let _ = packet.set(name, None, &v);
    };
    set("cm.local_id", n(f.id));
    set("cm.remote_id", n(f.peer_id));
    set("cm.remote_qpn", n(f.peer_qpn));
    if matches!(packet.message(), None | Some(CmMessage(0))) && packet.opcode().transport() == 0 {
        let response = packet.opcode().is_response();
        let mut set = |name: &str, v: Val| {
            let _ = packet.set(name, None, &v);
        };
        set("bth.dqpn", n(f.peer_qpn));
        set("bth.psn", n(if response { f.expected_psn } else { f.psn }));
        set("bth.ackreq", Val::Int(u64::from(!response)));
    }
}
