//! Messages of NVMe/RDMA. Capsules are those of NVMe/TCP, with a keyed descriptor instead of tags; an RDMA operation is one message, however
//! many packets it took.

use bytes::Bytes;
use nvmf_wire::Structure;
use nvmf_wire::cm::{CmMessage, IpCm, Mad};
use nvmf_wire::rdma::{RdmaAccept, RdmaReject, RdmaRequest};

use super::message::{Fact, Maker, Message, Part};
use crate::exchange::{Direction, Event};
use crate::roce::{Cm, Icrc, Packet, Place, Rdma, Target};

impl Maker {
    /// A packet is compared by what it comes to, but for what comes to nothing: one with a wrong ICRC, and one that was sent again.
    pub(super) fn packet(&mut self, event: &Event, packet: &Packet) {
        let mut m = Message::new(event, "Packet");
        if let Icrc::Bad { .. } = packet.icrc {
            m.facts.push(Fact::text("icrc", "bad"));
        }
        if packet.place == Place::Repeated {
            m.facts.push(Fact::int("repeated", 1));
        }
        if !m.facts.is_empty() {
            self.alone(m);
        }
    }

    pub(super) fn rdma(&mut self, event: &Event, rdma: &Rdma) {
        match rdma {
            // which numbers they have is no matter: CM messages name them
            Rdma::QueuePairs { .. } => {}
            Rdma::Cm(cm) => self.cm(event, cm),
            Rdma::Command { sqe, rest, send } => {
                let mut m = Message::new(event, "CapsuleCmd");
                m.facts.push(Fact::int("packets", u64::from(send.packets)));
                self.command(m, event, sqe, rest);
            }
            Rdma::Response { cqe, rest, invalidate, send } => {
                let mut m = Message::new(event, "CapsuleResp");
                m.facts.push(Fact::int("packets", u64::from(send.packets)));
                m.facts.extend(invalidate.map(|key| Fact::int("invalidate", u64::from(key))));
                m.raw = rest.clone();
                self.answer(cqe.cid().0, m, cqe);
            }
            Rdma::Read(target) => {
                let m = operation(Message::new(event, "Read"), target);
                self.owned(target, m);
            }
            Rdma::Data(data) => {
                let cid = data.target.cid.map(|c| c.0);
                if let (Some(cid), Some(offset)) = (cid, data.offset()) {
                    self.moved(cid, event, &data.bytes, u32::try_from(offset).unwrap_or(u32::MAX));
                }
                if data.last {
                    let name = if event.dir == Direction::ControllerToHost { "Write" } else { "ReadResponse" };
                    let mut m = operation(Message::new(event, name), &data.target);
                    m.facts.push(Fact::int("packets", u64::from(data.span.packets)));
                    self.owned(&data.target, m);
                }
            }
            Rdma::Send { bytes, send } => {
                self.other(event, "Send", &[Fact::int("packets", u64::from(send.packets))], bytes.clone())
            }
            Rdma::Immediate(value) => self.other(event, "Immediate", &[], Bytes::copy_from_slice(&value.to_be_bytes())),
            Rdma::Missing { count, .. } => self.other(event, "Missing", &[Fact::int("packets", u64::from(*count))], Bytes::new()),
            Rdma::Stray { why } => self.other(event, "Stray", &[Fact::text("why", *why)], Bytes::new()),
        }
        self.session.apply_rdma(event.dir, rdma);
    }

    fn owned(&mut self, target: &Target, mut m: Message) {
        match target.cid {
            Some(cid) => {
                m.command = self.name_of(cid.0);
                self.add(cid.0, m);
            }
            None => self.alone(m),
        }
    }

    fn other(&mut self, event: &Event, name: &'static str, facts: &[Fact], raw: Bytes) {
        let mut m = Message::new(event, name);
        m.facts.extend_from_slice(facts);
        m.raw = raw;
        self.alone(m);
    }

    /// A message of connection management, with the private data that NVMe has in it.
    fn cm(&mut self, event: &Event, cm: &Cm) {
        let name = cm.message().layout().map_or("Cm", |l| l.name);
        let mut m = Message::new(event, name);
        m.parts.push(Part::of(Mad::LAYOUT, Bytes::copy_from_slice(cm.mad.as_bytes())));
        if let Some(layout) = cm.message().layout() {
            m.parts.push(Part::header(layout, cm.bytes.clone(), &["private"]));
        }
        let private = cm.bytes.slice_ref(cm.private());
        let table = match cm.message() {
            CmMessage::REQ => Some(RdmaRequest::LAYOUT),
            CmMessage::REP => Some(RdmaAccept::LAYOUT),
            CmMessage::REJ => Some(RdmaReject::LAYOUT),
            _ => None,
        };
        let known = table.map_or(0, |l| l.bytes.min(private.len()));
        m.parts.extend(table.map(|l| Part::of(l, private.slice(..known))));
        m.raw = private.slice(known..);
        if cm.message() == CmMessage::REQ && cm.bytes.len() >= 140 + IpCm::LEN {
            m.parts.push(Part::of(IpCm::LAYOUT, cm.bytes.slice(140..140 + IpCm::LEN)));
        }
        if cm.repeated {
            m.facts.push(Fact::int("repeated", 1));
        }
        self.alone(m);
    }
}

/// What an RDMA READ or WRITE is about. Its address is compared as the place in the command's data that it stands for.
fn operation(mut m: Message, target: &Target) -> Message {
    m.facts.extend(target.offset.map(|at| Fact::int("offset", at)));
    m.facts.push(Fact::int("length", u64::from(target.reth.dmalen())));
    m.facts.push(Fact::int("rkey", u64::from(target.reth.rkey())));
    m
}
