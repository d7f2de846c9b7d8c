//! One PDU, taken apart and put together: CH, PSH, HDGST, PAD, DATA, DDGST. [NVMe/TCP 1.0, 3.6.2, Figure 3; TCP-GEN-03]

use alloc::vec::Vec;

use bytes::Bytes;

use super::digest::crc32c;
use super::pdu::{PduHead, PduType};
use crate::layout::DecodeError;

/// Which digests a connection uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Header digest (HDGST).
    pub header: bool,
    /// Data digest (DDGST).
    pub data: bool,
}

/// A PDU in parts. Nothing is judged: the parts are those that HLEN, PDO, PLEN and FLAGS claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdu {
    /// CH and PSH, HLEN bytes.
    pub header: Bytes,
    /// HDGST as received.
    pub hdgst: Option<[u8; 4]>,
    /// PAD.
    pub pad: Bytes,
    /// DATA.
    pub data: Bytes,
    /// DDGST as received.
    pub ddgst: Option<[u8; 4]>,
}

impl Pdu {
    /// Takes apart `bytes`, a whole PDU of PLEN bytes. Fails where the lengths in the header contradict each other, so that the
    /// parts cannot be told.
    pub fn parse(bytes: &Bytes) -> Result<Self, DecodeError> {
        let head = PduHead::read(bytes)?;
        let plen = bytes.len();
        let bad = |at, why| DecodeError { what: "PDU", at, why };
        if head.plen() as usize != plen {
            return Err(bad(4, alloc::format!("PLEN {} but {plen} bytes given", head.plen())));
        }
        let hlen = usize::from(head.hlen());
        if hlen < PduHead::LEN || hlen > plen {
            return Err(bad(2, alloc::format!("HLEN {hlen} outside 8..={plen}")));
        }
        let ptype = head.ptype();
        let digests = !ptype.is_term();
        let mut at = hlen;
        let mut hdgst = None;
        if head.hdgstf() && digests && ptype.takes_hdgst() {
            let Some(d) = bytes.get(at..).and_then(|b| b.first_chunk::<4>()) else {
                return Err(bad(4, alloc::format!("PLEN {plen} leaves no room for HDGST behind HLEN {hlen}")));
            };
            hdgst = Some(*d);
            at += 4;
        }
        let has_data = at < plen;
        let data_at = match usize::from(head.pdo()) {
            _ if !has_data => at,
            0 => at,
            _ if ptype.is_term() => at,
            pdo if pdo >= at && pdo <= plen => pdo,
            pdo => return Err(bad(3, alloc::format!("PDO {pdo} outside {at}..={plen}"))),
        };
        let mut end = plen;
        let mut ddgst = None;
        if head.ddgstf() && digests && ptype.takes_ddgst() && data_at + 4 <= plen {
            end -= 4;
            ddgst = bytes[end..].first_chunk::<4>().copied();
        }
        Ok(Self { header: bytes.slice(..hlen), hdgst, pad: bytes.slice(at..data_at), data: bytes.slice(data_at..end), ddgst })
    }

    /// The PDU in wire order.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.header.len() + self.pad.len() + self.data.len() + 8);
        out.extend_from_slice(&self.header);
        out.extend(self.hdgst.iter().flatten());
        out.extend_from_slice(&self.pad);
        out.extend_from_slice(&self.data);
        out.extend(self.ddgst.iter().flatten());
        out
    }

    /// Builds a PDU of the type in byte 0 of `header`, setting HLEN, PDO, PLEN, HDGSTF and DDGSTF as the text demands.
    ///
    /// `align` is the receiver's alignment in bytes ((HPDA or CPDA + 1) x 4). The digests are zero until [`Pdu::seal`].
    pub fn build(header: &[u8], data: Bytes, digests: Digests, align: usize) -> Self {
        let mut header = header.to_vec();
        let ptype = PduType(header.first().copied().unwrap_or(0));
        let (hlen, plain) = (header.len(), ptype.is_term());
        let hdgst = (digests.header && ptype.takes_hdgst()).then_some([0; 4]);
        let ddgst = (digests.data && ptype.takes_ddgst() && !data.is_empty()).then_some([0; 4]);
        let at = hlen + hdgst.map_or(0, |_| 4);
        let data_at = if data.is_empty() || plain { at } else { at.next_multiple_of(align.max(4)) };
        let plen = data_at + data.len() + ddgst.map_or(0, |_| 4);
        if let Some(b) = header.first_chunk_mut::<8>() {
            let mut head = PduHead::from_bytes(*b);
            let pdo = if data.is_empty() || plain { 0 } else { data_at };
            head.set().hlen(hlen as u8).pdo(pdo as u8).plen(plen as u32).hdgstf(hdgst.is_some()).ddgstf(ddgst.is_some());
            *b = *head.as_bytes();
        }
        Self { header: header.into(), hdgst, pad: alloc::vec![0; data_at - at].into(), data, ddgst }
    }

    /// Puts the right value into the digests that are there. [TCP-DGST-06, TCP-DGST-16]
    #[must_use]
    pub fn seal(mut self) -> Self {
        if self.hdgst.is_some() {
            self.hdgst = Some(crc32c(&self.header));
        }
        if self.ddgst.is_some() {
            self.ddgst = Some(crc32c(&self.data));
        }
        self
    }

    /// Type of the PDU.
    pub fn ptype(&self) -> PduType {
        PduType(self.header.first().copied().unwrap_or(0))
    }

    /// The common header; zero where the header is shorter than that.
    pub fn head(&self) -> PduHead {
        PduHead::read(&self.header).unwrap_or_default()
    }

    /// True where HDGST, if there, is that of the header.
    pub fn hdgst_ok(&self) -> bool {
        self.hdgst.is_none_or(|d| d == crc32c(&self.header))
    }

    /// True where DDGST, if there, is that of the data.
    pub fn ddgst_ok(&self) -> bool {
        self.ddgst.is_none_or(|d| d == crc32c(&self.data))
    }
}
