//! The data that comes for commands whose answers the rules read: gathered while it comes, dropped with the command.

use std::collections::BTreeMap;

use nvmf_wire::admin::{Feature, GetFeatures};
use nvmf_wire::{Opcode, Sqe};

/// Bytes of one answer that are kept; what lies behind is not judged.
const MOST_BYTES: usize = 64 * 1024;
/// Answers that are gathered at a time on one connection.
const MOST: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Answers {
    parts: BTreeMap<u16, Part>,
}

#[derive(Debug, Default)]
struct Part {
    bytes: Vec<u8>,
    /// A piece is missing: nothing is to be read.
    torn: bool,
}

impl Answers {
    /// A command was sent: whether its data will be read.
    pub fn expect(&mut self, sqe: &Sqe, admin: bool) {
        self.parts.remove(&sqe.cid().0);
        let read = match sqe.opc() {
            Opcode::IDENTIFY | Opcode::GET_LOG_PAGE => true,
            Opcode::GET_FEATURES => {
                matches!(GetFeatures::from_bytes(*sqe.as_bytes()).fid(), Feature::HOST_BEHAVIOR | Feature::HOST_IDENTIFIER)
            }
            _ => false,
        };
        if admin && read && self.parts.len() < MOST {
            self.parts.insert(sqe.cid().0, Part::default());
        }
    }

    /// Data came at `offset` of the buffer.
    pub fn data(&mut self, cid: u16, offset: u32, bytes: &[u8]) {
        let Some(part) = self.parts.get_mut(&cid) else { return };
        if offset as usize != part.bytes.len() && part.bytes.len() < MOST_BYTES {
            part.torn = true;
        }
        let room = MOST_BYTES - part.bytes.len();
        part.bytes.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or(&[]));
    }

    /// What came for a command, up to 64 KiB of it; `None` where it is not read or a piece is missing.
    pub fn get(&self, cid: u16) -> Option<&[u8]> {
        self.parts.get(&cid).filter(|p| !p.torn && !p.bytes.is_empty()).map(|p| p.bytes.as_slice())
    }

    /// The command is over.
    pub fn forget(&mut self, cid: u16) {
        self.parts.remove(&cid);
    }
}
