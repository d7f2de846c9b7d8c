//! Finds PDUs in a byte stream, whatever the segments were. [NVMe/TCP 1.0, 2; TCP-GEN-05]

use bytes::{Buf, Bytes, BytesMut};

use super::pdu::{PduHead, PduType};

/// Cuts a stream into PDUs by PLEN. It judges nothing but the lengths that would make it wait for ever or grow without limit.
///
/// Invariant: `buf` starts at a PDU boundary, and the caller takes PDUs out until [`Framer::next_pdu`] gives `None` before pushing
/// more, so `buf` never holds more than one whole PDU (at most `limit` bytes) plus one push.
#[derive(Debug)]
pub struct Framer {
    buf: BytesMut,
    limit: usize,
}

impl Framer {
    /// Takes PDUs of up to `limit` bytes; longer ones are reported by [`Framer::oversize`].
    pub fn new(limit: usize) -> Self {
        Self { buf: BytesMut::new(), limit }
    }

    /// Adds bytes as they came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// The common header of the next PDU, as soon as its 8 bytes are there.
    pub fn head(&self) -> Option<PduHead> {
        PduHead::read(&self.buf).ok()
    }

    /// The next PDU's header (CH and PSH by its type's fixed HLEN, or by HLEN for an unknown type) and `extra` bytes behind it, as
    /// soon as they are there.
    pub fn header(&self, extra: usize) -> Option<&[u8]> {
        let head = self.head()?;
        let hlen = PduType(head.ptype().0).hlen().unwrap_or(usize::from(head.hlen()));
        self.buf.get(..hlen + extra)
    }

    /// Bytes held.
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// True where no byte is held.
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// All bytes held, from the PDU boundary on.
    pub fn peek(&self) -> &[u8] {
        &self.buf
    }

    /// PLEN of the next PDU where it cannot be framed: below 8 or above the limit.
    pub fn oversize(&self) -> Option<u32> {
        let plen = self.head()?.plen();
        (plen < 8 || plen as usize > self.limit).then_some(plen)
    }

    /// The next whole PDU, without copying it.
    pub fn next_pdu(&mut self) -> Option<Bytes> {
        let plen = self.head()?.plen() as usize;
        if plen < 8 || plen > self.limit || self.buf.len() < plen {
            return None;
        }
        Some(self.buf.split_to(plen).freeze())
    }

    /// Everything held, as one piece; the framer is empty afterwards.
    pub fn take_rest(&mut self) -> Bytes {
        self.buf.copy_to_bytes(self.buf.len())
    }
}
