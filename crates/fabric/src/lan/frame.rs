//! [`Frame`]: one Ethernet frame without its FCS.

use bytes::{Bytes, BytesMut};
use nvmf_roce::Datagram;

/// A MAC address.
pub type Mac = [u8; 6];

/// To everybody.
pub const BROADCAST: Mac = [0xff; 6];

/// EtherTypes [IEEE 802 registry].
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// MAC control: PAUSE and PFC.
    pub const MAC_CONTROL: u16 = 0x8808;
}

/// One Ethernet frame without its FCS. Its payload is shared, and copied only where a fault changes it.
#[derive(Clone, Debug)]
pub struct Frame {
    eth: [u8; Self::ETH],
    body: Body,
}

/// What follows the Ethernet header.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all frames are datagrams, and a box would be an allocation a frame")]
pub enum Body {
    /// A packet of a software NIC in its three parts.
    Datagram(Datagram),
    /// Anything, in one piece.
    Bytes(Bytes),
}

impl Frame {
    /// Bytes of the Ethernet header.
    pub const ETH: usize = 14;
    /// Preamble, start delimiter, FCS and the least gap between frames: what a frame takes on the wire beside its bytes.
    pub const OVERHEAD: usize = 24;
    /// Least bytes without FCS; a shorter one is padded on the wire.
    pub const LEAST: usize = 60;

    /// A frame with anything in it.
    pub fn new(to: Mac, from: Mac, ethertype: u16, body: Bytes) -> Self {
        Self { eth: header(to, from, ethertype), body: Body::Bytes(body) }
    }

    /// A frame with a packet of a software NIC.
    pub fn datagram(to: Mac, from: Mac, datagram: Datagram) -> Self {
        let six = datagram.parts()[0].first().is_some_and(|b| b >> 4 == 6);
        let kind = if six { ethertype::IPV6 } else { ethertype::IPV4 };
        Self { eth: header(to, from, kind), body: Body::Datagram(datagram) }
    }

    /// Destination.
    pub fn to(&self) -> Mac {
        [self.eth[0], self.eth[1], self.eth[2], self.eth[3], self.eth[4], self.eth[5]]
    }

    /// Source.
    pub fn from(&self) -> Mac {
        [self.eth[6], self.eth[7], self.eth[8], self.eth[9], self.eth[10], self.eth[11]]
    }

    /// EtherType.
    pub fn ethertype(&self) -> u16 {
        u16::from_be_bytes([self.eth[12], self.eth[13]])
    }

    /// What is in it.
    pub fn into_body(self) -> Body {
        self.body
    }

    /// What is in it.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// All bytes in order, in parts.
    pub fn parts(&self) -> [&[u8]; 4] {
        match &self.body {
            Body::Datagram(d) => {
                let [head, payload, tail] = d.parts();
                [&self.eth, head, payload, tail]
            }
            Body::Bytes(b) => [&self.eth, b, &[], &[]],
        }
    }

    /// Bytes without FCS.
    pub fn len(&self) -> usize {
        Self::ETH + self.ip_len()
    }

    /// Never: there is always a header.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Bytes behind the Ethernet header: what an MTU limits.
    pub fn ip_len(&self) -> usize {
        match &self.body {
            Body::Datagram(d) => d.len(),
            Body::Bytes(b) => b.len(),
        }
    }

    /// Bytes that it takes on the wire, padding, FCS, preamble and gap included.
    pub fn wire_len(&self) -> usize {
        self.len().max(Self::LEAST) + Self::OVERHEAD
    }

    /// The first bytes behind the Ethernet header.
    fn head(&self) -> &[u8] {
        match &self.body {
            Body::Datagram(d) => d.parts()[0],
            Body::Bytes(b) => b,
        }
    }

    /// Priority 0 to 7: the class selector of the IP header's DSCP, as switches map it by default; 0 for all else.
    pub fn priority(&self) -> u8 {
        traffic_class(self.ethertype(), self.head()).map_or(0, |tc| tc >> 5)
    }

    /// Sets Congestion Experienced in an IP packet whose transport knows ECN (ECT(0), ECT(1)), the IPv4 header checksum along with it;
    /// false where it does not. [RFC 3168 5, RFC 1624]
    pub fn mark(&mut self) -> bool {
        let kind = self.ethertype();
        match traffic_class(kind, self.head()) {
            Some(tc) if matches!(tc & 3, 1 | 2) => {}
            other => return other.is_some_and(|tc| tc & 3 == 3),
        }
        match &mut self.body {
            Body::Datagram(d) => mark_head(kind, d.head_mut()),
            Body::Bytes(b) => {
                let mut new = BytesMut::from(&b[..]);
                mark_head(kind, &mut new);
                *b = new.freeze();
            }
        }
        true
    }
}

fn header(to: Mac, from: Mac, kind: u16) -> [u8; Frame::ETH] {
    let mut eth = [0; Frame::ETH];
    eth[..6].copy_from_slice(&to);
    eth[6..12].copy_from_slice(&from);
    eth[12..].copy_from_slice(&kind.to_be_bytes());
    eth
}

/// Traffic class octet (DSCP and ECN) of an IP packet.
fn traffic_class(kind: u16, ip: &[u8]) -> Option<u8> {
    let (first, second) = (*ip.first()?, *ip.get(1)?);
    match (kind, first >> 4) {
        (ethertype::IPV4, 4) => Some(second),
        (ethertype::IPV6, 6) => Some(first << 4 | second >> 4),
        _ => None,
    }
}

/// Both ECN bits set, and the header checksum of IPv4 changed by as much [RFC 1624, equation 3].
fn mark_head(kind: u16, ip: &mut [u8]) {
    let Some(second) = ip.get_mut(1) else { return };
    if kind == ethertype::IPV6 {
        *second |= 0x30;
        return;
    }
    let old = u16::from(*second);
    *second |= 3;
    let new = u16::from(*second);
    let Some(sum) = ip.get_mut(10..12) else { return };
    let word = u16::from_be_bytes([sum[0], sum[1]]);
    // version, IHL and TOS are one word, of which the low byte changes
    let mut s = u32::from(!word) + u32::from(!old) + u32::from(new);
    s = (s & 0xffff) + (s >> 16);
    s = (s & 0xffff) + (s >> 16);
    sum.copy_from_slice(&(!(s as u16)).to_be_bytes());
}

/// Flips bit `bit` of a frame, counted from its first byte, most significant bit first. The bytes are copied.
pub(super) fn flipped(frame: &Frame, bit: usize) -> Frame {
    let mut all = frame.parts().concat();
    let at = bit / 8 % all.len().max(1);
    all[at] ^= 0x80 >> (bit % 8);
    let eth = core::array::from_fn(|i| all[i]);
    Frame { eth, body: Body::Bytes(Bytes::from(all).slice(Frame::ETH..)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(ip: &[u8]) -> u16 {
        let mut s: u32 = ip.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        while s > 0xffff {
            s = (s & 0xffff) + (s >> 16);
        }
        s as u16
    }

    #[test]
    fn a_mark_keeps_the_header_checksum_right() {
        for (tos, marked) in [(0x62, true), (0x01, true), (0xfe, true), (0x60, false)] {
            let mut ip = vec![0x45, tos, 0, 20, 0x12, 0x34, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 7];
            let s = !sum(&ip);
            ip[10..12].copy_from_slice(&s.to_be_bytes());
            let mut f = Frame::new([2; 6], [4; 6], ethertype::IPV4, ip.into());
            assert_eq!((f.priority(), f.mark()), (tos >> 5, marked), "{tos:02x}");
            let ip = f.parts()[1];
            assert_eq!((ip[1], sum(ip)), (if marked { tos | 3 } else { tos }, 0xffff));
        }
    }

    #[test]
    fn ipv6_has_its_traffic_class_over_two_bytes() {
        let mut ip = vec![0; 40];
        (ip[0], ip[1]) = (0x66, 0x20);
        let mut f = Frame::datagram([2; 6], [4; 6], Datagram::new(&ip, Bytes::new(), &[]));
        assert_eq!((f.ethertype(), f.priority(), f.mark(), f.parts()[1][1]), (ethertype::IPV6, 3, true, 0x30));
        assert!(f.mark(), "marked already");
    }

    #[test]
    fn one_bit_is_flipped() {
        let f = Frame::new([2; 6], [4; 6], ethertype::ARP, Bytes::from_static(&[0; 4]));
        assert_eq!(flipped(&f, 14 * 8 + 9).parts()[1], [0, 0x40, 0, 0]);
        assert_eq!(flipped(&f, 7).to(), [3, 2, 2, 2, 2, 2]);
    }
}
