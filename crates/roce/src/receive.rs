//! Packets as they come in: what can be seen to be wrong without knowing a queue pair is dropped here.

use core::net::IpAddr;

use bytes::Bytes;
use nvmf_wire::roce::{Headers, ICRC_LEN, UDP_PORT, icrc};

use crate::counters::Counters;
use crate::settings::NicSettings;

/// One RoCEv2 packet for our address.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    pub from: IpAddr,
    /// TOS or traffic class.
    pub traffic_class: u8,
    pub headers: Headers,
    /// From the BTH to the last byte before the ICRC.
    pub bytes: Bytes,
    /// Without padding.
    pub payload: Bytes,
    /// The ICRC is right.
    pub intact: bool,
}

/// Takes an IP packet apart; `None` where it is dropped, which is counted.
pub(crate) fn parse(settings: &NicSettings, counters: &mut Counters, datagram: &Bytes) -> Option<Incoming> {
    counters.received += 1;
    let Some((from, to, traffic_class, ip_len, total)) = ip(datagram) else {
        counters.not_ip += 1;
        return None;
    };
    let udp = datagram.get(ip_len..total).filter(|u| u.len() >= 8);
    let Some(udp_len) = udp.map(|u| usize::from(u16::from_be_bytes([u[4], u[5]]))).filter(|n| *n == total - ip_len) else {
        counters.not_ip += 1;
        return None;
    };
    let port = datagram.get(ip_len + 2..ip_len + 4);
    if to != settings.address || port != Some(&UDP_PORT.to_be_bytes()) {
        counters.not_ours += 1;
        return None;
    }
    // Both lengths agree, so the packet ends where UDP says.
    let packet = datagram.slice(ip_len + 8..ip_len + udp_len);
    let Some(end) = packet.len().checked_sub(ICRC_LEN) else {
        counters.truncated += 1;
        return None;
    };
    let Some((headers, payload)) = Headers::read(&packet[..end]).ok().and_then(|h| {
        let until = end.checked_sub(usize::from(h.bth.padcnt()))?;
        (h.len <= until).then_some((h, h.len..until))
    }) else {
        counters.truncated += 1;
        return None;
    };
    let intact = icrc(&datagram[..total - ICRC_LEN]).is_some_and(|c| c == packet[end..]);
    Some(Incoming { from, traffic_class, headers, payload: packet.slice(payload), bytes: packet.slice(..end), intact })
}

/// Source, destination, TOS, length of the header, and of all. Extension headers and fragments do not occur in RoCEv2.
fn ip(d: &[u8]) -> Option<(IpAddr, IpAddr, u8, usize, usize)> {
    const UDP: u8 = 17;
    match d.first()? >> 4 {
        4 => {
            let len = usize::from(d[0] & 15) * 4;
            let head: &[u8; 20] = d.first_chunk()?;
            let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
            let fragment = u16::from_be_bytes([head[6], head[7]]) & 0x3fff;
            if len < 20 || total < len || total > d.len() || fragment != 0 || head[9] != UDP {
                return None;
            }
            let at = |i: usize| IpAddr::from([head[i], head[i + 1], head[i + 2], head[i + 3]]);
            Some((at(12), at(16), head[1], len, total))
        }
        6 => {
            let head: &[u8; 40] = d.first_chunk()?;
            let total = 40 + usize::from(u16::from_be_bytes([head[4], head[5]]));
            if total > d.len() || head[6] != UDP {
                return None;
            }
            let at = |i: usize| Some(IpAddr::from(*head[i..].first_chunk::<16>()?));
            Some((at(8)?, at(24)?, head[0] << 4 | head[1] >> 4, 40, total))
        }
        _ => None,
    }
}
