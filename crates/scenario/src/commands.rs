//! The commands seen on one connection, so that a response or data PDU is known by the command that it belongs to.

use std::collections::BTreeMap;

use nvmf_wire::connect::Connect;
use nvmf_wire::tcp::{C2hData, CapsuleCmd, H2cData, Pdu, PduType, R2t};
use nvmf_wire::{CommandKind, Field, Sqe};

use crate::fields::{cqe_of, seen, value_in};
use crate::value::Val;

/// Commands by CID; CIDs have 16 bits, so this is bounded.
#[derive(Clone, Debug)]
pub(crate) struct Commands {
    sent: BTreeMap<u16, Sqe>,
    admin: bool,
}

/// The command that a PDU carries or belongs to, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Belongs {
    pub(crate) sqe: Option<Sqe>,
    pub(crate) kind: Option<&'static CommandKind>,
}

impl Commands {
    /// Of a new connection: an Admin Queue's until a Connect says otherwise.
    pub(crate) fn new() -> Self {
        Self { sent: BTreeMap::new(), admin: true }
    }

    /// Remembers the command in a CapsuleCmd.
    pub(crate) fn note(&mut self, pdu: &Pdu) {
        if pdu.ptype() != PduType::CAPSULE_CMD {
            return;
        }
        if let Some(sqe) = self.of(pdu).sqe {
            if CommandKind::of(&sqe, true).is_some_and(|k| k.name == "Connect") {
                self.admin = Connect::from_bytes(*sqe.as_bytes()).qid().0 == 0;
            }
            self.sent.insert(sqe.cid().0, sqe);
        }
    }

    /// The command of a PDU.
    pub(crate) fn of(&self, pdu: &Pdu) -> Belongs {
        let cid = match pdu.ptype() {
            PduType::CAPSULE_RESP => Some(cqe_of(pdu).cid()),
            PduType::C2H_DATA => C2hData::read(&pdu.header).ok().map(|h| h.cccid()),
            PduType::H2C_DATA => H2cData::read(&pdu.header).ok().map(|h| h.cccid()),
            PduType::R2T => R2t::read(&pdu.header).ok().map(|h| h.cccid()),
            _ => None,
        };
        let sqe = match pdu.ptype() {
            PduType::CAPSULE_CMD => CapsuleCmd::read(&pdu.header).ok().map(|c| Sqe::from_bytes(c.sqe())),
            _ => cid.and_then(|c| self.sent.get(&c.0).copied()),
        };
        Belongs { sqe, kind: sqe.and_then(|s| CommandKind::of(&s, self.admin)) }
    }
}

impl Belongs {
    /// Whether it is a command of that name; any where none is named.
    pub(crate) fn is(&self, name: Option<&str>) -> bool {
        name.is_none() || self.kind.map(|k| k.name) == name
    }

    /// What `pdu` holds under `name`, or else its command does: `on c2h C2HData Identify cns=1`.
    pub(crate) fn seen(&self, pdu: &Pdu, name: &str) -> Option<(Option<&'static Field>, Val)> {
        seen(pdu, name, self.kind).or_else(|| {
            let f = self.kind.and_then(|k| k.layout.field(name))?;
            Some((Some(f), value_in(f, self.sqe?.as_bytes())))
        })
    }
}
