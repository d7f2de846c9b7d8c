//! Packets as they go out: IP and UDP header of a flow, what the caller puts behind it, padding, ICRC.

use core::net::IpAddr;

use bytes::Bytes;
use nvmf_wire::roce::{Bth, UDP_PORT, icrc_of};

use crate::Datagram;
use crate::settings::NicSettings;

/// Congestion bits of a packet that switches may mark. [RFC 3168, 5]
pub(crate) const ECT0: u8 = 0b10;
/// Those of one that was marked.
pub(crate) const CE: u8 = 0b11;
const UDP: u8 = 17;

/// IP and UDP header of all packets of one queue pair, but for their lengths.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    head: [u8; 48],
    ip_len: u8,
    checksum: bool,
}

/// What stands behind the UDP header.
pub(crate) struct Parts<'a> {
    /// Its PadCnt is filled in.
    pub bth: Bth,
    /// Extended headers, in order.
    pub extended: [&'a [u8]; 2],
    /// Payload that goes inline, in front of the other.
    pub inline: &'a [u8],
    pub payload: Bytes,
}

impl Flow {
    /// `entropy` chooses the source port C000h to FFFFh, by which switches spread flows, unless the settings fix it. [IBA annex A17.5.2]
    /// The other side must be of our address family: `None` where it is not.
    pub(crate) fn new(settings: &NicSettings, to: IpAddr, traffic_class: u8, entropy: u32) -> Option<Self> {
        let mut head = [0u8; 48];
        let ip_len = match (settings.address, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                // Identification 0 with DF: what Linux puts on packets of an unconnected socket that never fragments.
                head[..20].copy_from_slice(&[
                    0x45,
                    traffic_class,
                    0,
                    0,
                    0,
                    0,
                    0x40,
                    0,
                    settings.ttl,
                    UDP,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                ]);
                head[12..16].copy_from_slice(&from.octets());
                head[16..20].copy_from_slice(&to.octets());
                20
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let label = hash(entropy) & 0x000f_ffff;
                let first = 6 << 28 | u32::from(traffic_class) << 20 | label;
                head[..4].copy_from_slice(&first.to_be_bytes());
                (head[6], head[7]) = (UDP, settings.ttl);
                head[8..24].copy_from_slice(&from.octets());
                head[24..40].copy_from_slice(&to.octets());
                40
            }
            _ => return None,
        };
        let source = settings.source_port.unwrap_or(0xc000 | (hash(entropy) >> 16) as u16);
        head[ip_len..ip_len + 2].copy_from_slice(&source.to_be_bytes());
        head[ip_len + 2..ip_len + 4].copy_from_slice(&UDP_PORT.to_be_bytes());
        Some(Self { head, ip_len: ip_len as u8, checksum: settings.udp_checksum })
    }

    /// The whole packet.
    pub(crate) fn packet(&self, parts: Parts<'_>) -> Datagram {
        let pad = (4 - (parts.inline.len() + parts.payload.len()) % 4) % 4;
        let bth = parts.bth.with(|s| s.padcnt(pad as u8));
        self.raw([bth.as_bytes(), parts.extended[0], parts.extended[1], parts.inline], parts.payload, pad, [0; 4])
    }

    /// `head` and `payload` behind the UDP header as they are, `pad` zero bytes, and an ICRC in which the bits of `flip` are changed.
    pub(crate) fn raw(&self, head: [&[u8]; 4], payload: Bytes, pad: usize, flip: [u8; 4]) -> Datagram {
        let ip_len = usize::from(self.ip_len);
        let mut out = Datagram::new(&self.head[..ip_len + 8], payload, &[0; 8][..pad + 4]);
        head.iter().for_each(|h| out.extend_head(h));
        let udp_len = out.len() - ip_len;
        let (head, payload, tail) = out.parts_mut();
        head[ip_len + 4..ip_len + 6].copy_from_slice(&(udp_len as u16).to_be_bytes());
        if ip_len == 20 {
            head[2..4].copy_from_slice(&((ip_len + udp_len) as u16).to_be_bytes());
            let sum = fold(add(0, &head[..20]));
            head[10..12].copy_from_slice(&(!sum).to_be_bytes());
        } else {
            head[4..6].copy_from_slice(&(udp_len as u16).to_be_bytes());
        }
        let crc = icrc_of(&[head, payload, &tail[..pad]]).unwrap_or_default();
        tail[pad..].iter_mut().zip(crc.iter().zip(flip)).for_each(|(t, (c, f))| *t = c ^ f);
        if self.checksum {
            let sum = udp_checksum(ip_len, &[head, payload, tail]);
            head[ip_len + 6..ip_len + 8].copy_from_slice(&sum.to_be_bytes());
        }
        out
    }
}

/// Spreads numbers that may lie close together (a finalizer of MurmurHash3).
fn hash(n: u32) -> u32 {
    let n = (n ^ n >> 16).wrapping_mul(0x85eb_ca6b);
    let n = (n ^ n >> 13).wrapping_mul(0xc2b2_ae35);
    n ^ n >> 16
}

/// Adds the 16-bit words of `bytes`; an odd last byte counts as the high one. [RFC 1071]
fn add(sum: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(2).fold(sum, |s, w| s + (u64::from(w[0]) << 8 | w.get(1).map_or(0, |b| u64::from(*b))))
}

fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Of a packet in parts: the first has the headers, all but the last are of even length or followed by nothing.
fn udp_checksum(ip_len: usize, parts: &[&[u8]; 3]) -> u16 {
    let addresses = if ip_len == 20 { &parts[0][12..20] } else { &parts[0][8..40] };
    let udp_len: usize = parts.iter().map(|p| p.len()).sum::<usize>() - ip_len;
    let mut sum = add(u64::from(UDP) + udp_len as u64, addresses);
    let mut odd = false;
    for part in [&parts[0][ip_len..], parts[1], parts[2]] {
        // A part that begins at an odd place adds its bytes the other way round.
        let own = u64::from(fold(add(0, part)));
        sum += if odd { own.swap_bytes() >> 48 } else { own };
        odd ^= part.len() % 2 == 1;
    }
    match !fold(sum) {
        0 => 0xffff,
        sum => sum,
    }
}
