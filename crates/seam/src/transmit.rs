//! What a binding wants sent.

use bytes::Bytes;

/// Bytes in front of the payload, held inline: CH, PSH, HDGST and PAD of one PDU (at most 128 for ICResp; 24 + 4 and padding up to
/// 128 for C2HData; 24 + 128 for a terminate request).
#[derive(Clone, Copy)]
pub struct Head {
    len: u8,
    bytes: [u8; Self::MAX],
}

impl Head {
    /// Most bytes that fit.
    pub const MAX: usize = 160;

    /// Copies `bytes`; what exceeds [`Head::MAX`] is cut off.
    pub fn new(bytes: &[u8]) -> Self {
        let mut h = Self { len: 0, bytes: [0; Self::MAX] };
        h.extend(bytes);
        h
    }

    /// Appends `more`; what exceeds [`Head::MAX`] is cut off.
    pub fn extend(&mut self, more: &[u8]) {
        let at = usize::from(self.len);
        let n = more.len().min(Self::MAX - at);
        self.bytes[at..at + n].copy_from_slice(&more[..n]);
        self.len += n as u8;
    }

    /// Appends `n` zero bytes (PAD).
    pub fn pad(&mut self, n: usize) {
        let n = n.min(Self::MAX - usize::from(self.len));
        self.len += n as u8;
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl core::fmt::Debug for Head {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Head({:02x?})", self.as_slice())
    }
}

/// One PDU to send: head, payload and data digest in this order, in one vectored write. The payload is shared, never copied.
#[derive(Clone, Debug)]
pub struct Transmit {
    /// CH, PSH, HDGST, PAD.
    pub head: Head,
    /// DATA.
    pub payload: Bytes,
    /// DDGST.
    pub digest: Option<[u8; 4]>,
}

impl Transmit {
    /// Length on the wire, bytes.
    pub fn len(&self) -> usize {
        self.head.as_slice().len() + self.payload.len() + self.digest.map_or(0, |_| 4)
    }

    /// True where there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The PDU in one piece: for taps, captures and tests, not for the hot path.
    pub fn to_bytes(&self) -> Bytes {
        let mut v = Vec::with_capacity(self.len());
        v.extend_from_slice(self.head.as_slice());
        v.extend_from_slice(&self.payload);
        v.extend(self.digest.iter().flatten());
        v.into()
    }
}
