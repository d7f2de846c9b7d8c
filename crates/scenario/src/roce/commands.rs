//! The commands seen on one connection over RDMA, so that a packet is known by the command that it carries or belongs to: a response by
//! its CID, a READ or WRITE by the key that it names. What [`crate::commands`] is for PDUs.

use std::collections::BTreeMap;

use nvmf_wire::connect::Connect;
use nvmf_wire::roce::RoceOpcode;
use nvmf_wire::sgl::{SglKeyed, SglType};
use nvmf_wire::{CommandKind, Field, Sqe};

use super::Packet;
use crate::commands::Belongs;
use crate::fields::value_in;
use crate::value::Val;

/// Commands and keys of one connection that are remembered.
const MAX_KNOWN: usize = 65_536;

/// Commands by CID, and by the keys of their descriptors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commands {
    io: bool,
    sent: BTreeMap<u16, Sqe>,
    keys: BTreeMap<u32, u16>,
    /// Whose data the packets of a WRITE are that name no key.
    writing: Option<u16>,
    /// The command whose capsule goes on.
    sending: Option<u16>,
    /// READs by their PSN, which is that of the response's first packet. [IBA vol. 1, 9.7.5.1.5]
    reads: BTreeMap<u32, Option<u16>>,
    /// Whose data the packets of a READ response are that are not its first.
    reading: Option<u16>,
}

impl Commands {
    /// Takes note of what a packet says of its connection, and tells its command.
    pub(crate) fn note(&mut self, packet: &Packet) -> Belongs {
        let number = |name: &str| packet.get(name, None).and_then(|(_, v)| v.int().ok());
        if let Some(qid) = number("private.qid") {
            self.io = qid != 0;
        }
        if let Some(sqe) = packet.sqe() {
            self.command(&sqe, packet.payload());
            self.sending = (!packet.opcode().ends()).then_some(sqe.cid().0);
            return self.belongs(Some(sqe));
        }
        let cid = self.cid(packet, number("reth.rkey"));
        self.belongs(cid.and_then(|c| self.sent.get(&c).copied()))
    }

    /// The CID of the command that a packet belongs to.
    fn cid(&mut self, packet: &Packet, key: Option<u64>) -> Option<u16> {
        let (op, psn) = (packet.opcode(), packet.bth().psn());
        if let Some(cqe) = packet.cqe() {
            return Some(cqe.cid().0);
        }
        let of_key = key.and_then(|key| self.keys.get(&(key as u32)).copied());
        if op == RoceOpcode::READ_REQUEST {
            if self.reads.len() >= MAX_KNOWN {
                self.reads.clear();
            }
            self.reads.insert(psn, of_key);
            return of_key;
        }
        let (behind, first) = if op.is_write() {
            (&mut self.writing, of_key)
        } else if op.is_read_response() {
            (&mut self.reading, self.reads.get(&psn).copied().flatten())
        } else if op.is_send() && !packet.from_controller {
            (&mut self.sending, None)
        } else {
            return None;
        };
        let cid = if op.begins() { first } else { *behind };
        *behind = cid.filter(|_| !op.ends());
        cid
    }

    fn command(&mut self, sqe: &Sqe, capsule: &[u8]) {
        if self.sent.len() >= MAX_KNOWN || self.keys.len() >= MAX_KNOWN {
            self.sent.clear();
            self.keys.clear();
        }
        if CommandKind::of(sqe, true).is_some_and(|k| k.name == "Connect") {
            self.io = Connect::from_bytes(*sqe.as_bytes()).qid().0 != 0;
        }
        self.sent.insert(sqe.cid().0, *sqe);
        for d in keyed(sqe, capsule) {
            self.keys.insert(d.key(), sqe.cid().0);
        }
    }

    fn belongs(&self, sqe: Option<Sqe>) -> Belongs {
        Belongs { sqe, kind: sqe.and_then(|s| CommandKind::of(&s, !self.io)) }
    }
}

/// The keyed descriptors of a command: the one in its SQE, and those in the capsule.
fn keyed(sqe: &Sqe, capsule: &[u8]) -> impl Iterator<Item = SglKeyed> {
    let behind = capsule.get(Sqe::LEN..).unwrap_or(&[]).chunks_exact(16);
    let listed = behind.filter(|_| sqe.sgl1().kind() == SglType::LAST_SEGMENT).filter_map(|b| SglKeyed::read(b).ok());
    let first = SglKeyed::read(sqe.sgl1().as_bytes()).ok();
    first.into_iter().chain(listed).filter(|d| d.kind() == SglType::KEYED_DATA_BLOCK)
}

impl Belongs {
    /// What `packet` holds under `name`, or else its command does.
    pub(crate) fn seen_in(&self, packet: &Packet, name: &str) -> Option<(Option<&'static Field>, Val)> {
        packet.get(name, self.kind).or_else(|| {
            let f = self.kind?.layout.field(name)?;
            Some((Some(f), value_in(f, self.sqe?.as_bytes())))
        })
    }
}
