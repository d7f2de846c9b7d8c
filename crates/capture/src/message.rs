//! Authentication messages, which may come in several PDUs or packets, put together again.
//!
//! A queue has one transaction, which is one message after the other [Base 2.0, 8.13.3], so one message a connection is kept.

use std::borrow::Cow;

use nvmf_wire::authentication::AuthenticationSend;
use nvmf_wire::layout::Structure;
use nvmf_wire::sqe::FabricsType;
use nvmf_wire::{Cid, Sqe};

/// Most bytes of a message that are kept. The longest of the text has 1168.
pub const MAX_MESSAGE: usize = 8 << 10;

/// The message of the last Authentication Send or Receive command, as far as it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    of: Option<Cid>,
    /// TL or AL, bytes.
    due: usize,
    bytes: Vec<u8>,
}

impl Message {
    /// A command was sent.
    pub(crate) fn command(&mut self, sqe: &Sqe) {
        match sqe.fctype() {
            Some(FabricsType::AUTHENTICATION_SEND | FabricsType::AUTHENTICATION_RECEIVE) => {
                // TL and AL have the same place.
                let due = AuthenticationSend::with_bytes(sqe.as_bytes()).tl() as usize;
                *self = Self { of: Some(sqe.cid()), due, bytes: Vec::new() };
            }
            _ if self.of == Some(sqe.cid()) => self.of = None,
            _ => {}
        }
    }

    /// Data of a command moved. What does not continue the message is left out, and the message is never whole then.
    pub(crate) fn data(&mut self, cid: Cid, offset: u32, bytes: &[u8]) {
        if self.of == Some(cid) && offset as usize == self.bytes.len() {
            let room = MAX_MESSAGE.saturating_sub(self.bytes.len());
            self.bytes.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        }
    }

    /// The whole message where these bytes complete it: as many as are due, or `last`.
    pub(crate) fn with<'a>(&'a self, cid: Cid, offset: u32, bytes: &'a [u8], last: bool) -> Option<Cow<'a, [u8]>> {
        let len = self.bytes.len() + bytes.len();
        if self.of != Some(cid) || offset as usize != self.bytes.len() || !(last || len >= self.due) {
            return None;
        }
        Some(if self.bytes.is_empty() { bytes.into() } else { [&self.bytes, bytes].concat().into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvmf_wire::CommandKind;

    fn receive(cid: u16, al: u32) -> Sqe {
        let sqe = CommandKind::named("AuthenticationReceive").unwrap().sqe().with(|s| s.cid(Cid(cid)));
        let mut b = *sqe.as_bytes();
        b[44..48].copy_from_slice(&al.to_le_bytes());
        Sqe::from_bytes(b)
    }

    #[test]
    fn pieces_in_order_make_a_whole() {
        let mut m = Message::default();
        m.command(&receive(7, 10));
        assert_eq!(m.with(Cid(7), 0, b"0123", false), None);
        m.data(Cid(7), 0, b"0123");
        m.data(Cid(8), 4, b"of another command");
        assert_eq!(m.with(Cid(8), 4, b"456789", true), None);
        assert_eq!(m.with(Cid(7), 5, b"56789", true), None, "a piece is missing");
        assert_eq!(m.with(Cid(7), 4, b"456789", false).as_deref(), Some(&b"0123456789"[..]));
        assert_eq!(m.with(Cid(7), 4, b"4", true).as_deref(), Some(&b"01234"[..]), "shorter than was asked for");
        m.command(&receive(7, 10));
        assert_eq!(m.with(Cid(7), 0, b"xy", true).as_deref(), Some(&b"xy"[..]), "a new command, a new message");
        m.command(&CommandKind::named("Identify").unwrap().sqe().with(|s| s.cid(Cid(7))));
        assert_eq!(m.with(Cid(7), 0, b"xy", true), None);
    }

    #[test]
    fn what_is_kept_is_limited() {
        let mut m = Message::default();
        m.command(&receive(1, u32::MAX));
        for i in 0..100 {
            m.data(Cid(1), i * 1000, &[0; 1000]);
        }
        assert_eq!(m.bytes.len(), MAX_MESSAGE);
    }
}
