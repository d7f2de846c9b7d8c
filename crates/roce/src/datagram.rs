//! One IP packet in three parts, so that payload is not copied on its way to the wire.

use bytes::{BufMut, Bytes, BytesMut};

/// An IPv4 or IPv6 packet that carries one RoCEv2 packet. The parts follow each other on the wire.
#[derive(Clone, Debug)]
pub struct Datagram {
    head: [u8; Self::HEAD],
    head_len: u8,
    tail: [u8; 8],
    tail_len: u8,
    payload: Bytes,
}

impl Datagram {
    /// Most bytes in front of the payload: IPv6 (40), UDP (8), BTH (12), extended headers (at most 28), and the inline part of a SEND
    /// ([`nvmf_seam::Head::MAX`], 160), in round numbers.
    pub const HEAD: usize = 248;

    /// `head`: IP header to the last extended header; `tail`: padding and ICRC, at most 8 bytes. What exceeds the limits is cut off: no
    /// packet of RoCEv2 does.
    pub fn new(head: &[u8], payload: Bytes, tail: &[u8]) -> Self {
        let mut out = Self {
            head: [0; Self::HEAD],
            head_len: head.len().min(Self::HEAD) as u8,
            tail: [0; 8],
            tail_len: tail.len().min(8) as u8,
            payload,
        };
        out.head[..usize::from(out.head_len)].copy_from_slice(&head[..usize::from(out.head_len)]);
        out.tail[..usize::from(out.tail_len)].copy_from_slice(&tail[..usize::from(out.tail_len)]);
        out
    }

    /// Appends to the first part, within its limit.
    pub(crate) fn extend_head(&mut self, more: &[u8]) {
        let at = usize::from(self.head_len);
        let n = more.len().min(Self::HEAD - at);
        self.head[at..at + n].copy_from_slice(&more[..n]);
        self.head_len += n as u8;
    }

    /// The three parts, to be filled in.
    pub(crate) fn parts_mut(&mut self) -> (&mut [u8], &[u8], &mut [u8]) {
        (&mut self.head[..usize::from(self.head_len)], &self.payload, &mut self.tail[..usize::from(self.tail_len)])
    }

    /// The three parts, in order.
    pub fn parts(&self) -> [&[u8]; 3] {
        [&self.head[..usize::from(self.head_len)], &self.payload, &self.tail[..usize::from(self.tail_len)]]
    }

    /// The first part, IP header to the last extended header, to be changed on the way: by a router or a switch.
    pub fn head_mut(&mut self) -> &mut [u8] {
        &mut self.head[..usize::from(self.head_len)]
    }

    /// The second part, shared.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.parts().iter().map(|p| p.len()).sum()
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// In one piece.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.len());
        self.parts().iter().for_each(|p| out.put_slice(p));
        out.freeze()
    }
}
