//! Packets as they come in: what can be seen to be wrong without knowing a queue pair is dropped here.

use core::net::IpAddr;

use bytes::Bytes;
use nvmf_wire::roce::{Headers, ICRC_LEN, UDP_PORT, icrc_of};

use crate::Datagram;
use crate::counters::Counters;
use crate::pool::Pool;
use crate::settings::NicSettings;

/// One RoCEv2 packet for our address.
#[derive(Clone, Debug)]
pub(crate) struct Incoming<'a> {
    pub from: IpAddr,
    /// TOS or traffic class.
    pub traffic_class: u8,
    pub headers: Headers,
    /// Without padding.
    pub payload: Bytes,
    /// The ICRC is right.
    pub intact: bool,
    source: Source<'a>,
    /// Bytes of IP and UDP header.
    bth_at: usize,
    /// Bytes of all.
    total: usize,
}

/// An IP packet as a carrier has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    Whole(&'a Bytes),
    Parts(&'a Datagram),
}

impl Source<'_> {
    fn to_bytes(self) -> Bytes {
        match self {
            Self::Whole(b) => b.clone(),
            Self::Parts(d) => d.to_bytes(),
        }
    }
}

impl Incoming<'_> {
    /// The IP packet; copied where it came in parts.
    pub(crate) fn datagram(&self) -> Bytes {
        self.source.to_bytes().slice(..self.total)
    }

    /// From the BTH to the last byte before the ICRC; copied where the packet came in parts.
    pub(crate) fn bytes(&self) -> Bytes {
        self.source.to_bytes().slice(self.bth_at..self.total - ICRC_LEN)
    }
}

/// IP and UDP header, as far as they matter.
struct Outer {
    from: IpAddr,
    to: IpAddr,
    traffic_class: u8,
    port: u16,
    bth_at: usize,
    total: usize,
}

/// Takes an IP packet apart; `None` where it is dropped, which is counted. What is behind its total length is not looked at.
pub(crate) fn parse<'a>(
    settings: &NicSettings,
    counters: &mut Counters,
    pool: &mut Pool,
    source: Source<'a>,
) -> Option<Incoming<'a>> {
    counters.received += 1;
    let (head, len) = match source {
        Source::Whole(b) => (&b[..], b.len()),
        Source::Parts(d) => (d.parts()[0], d.len()),
    };
    let Some(outer) = outer(head, len) else {
        counters.not_ip += 1;
        return None;
    };
    if outer.to != settings.address || outer.port != UDP_PORT {
        counters.not_ours += 1;
        return None;
    }
    let Some((headers, payload, intact)) = inner(pool, source, &outer) else {
        counters.truncated += 1;
        return None;
    };
    let Outer { from, traffic_class, bth_at, total, .. } = outer;
    Some(Incoming { from, traffic_class, headers, payload, intact, source, bth_at, total })
}

/// Headers, payload, and whether the ICRC is right. `None` where the packet ends within its headers or its padding.
fn inner(pool: &mut Pool, source: Source<'_>, outer: &Outer) -> Option<(Headers, Bytes, bool)> {
    let end = outer.total - ICRC_LEN;
    if let Source::Parts(d) = source
        && let [head, payload, tail] = d.parts()
        && let Some(Ok(headers)) = head.get(outer.bth_at..).map(Headers::read)
        && let Some((pad, icrc)) = tail.split_at_checked(usize::from(headers.bth.padcnt())).filter(|(_, c)| c.len() == ICRC_LEN)
        && outer.total == d.len()
    {
        let intact = icrc_of(&[head, payload, pad]).is_some_and(|c| c == icrc);
        let inline = head.get(outer.bth_at + headers.len..).unwrap_or(&[]);
        let payload = match (inline, payload) {
            ([], _) => d.payload().clone(),
            (inline, payload) => {
                let mut joined = pool.take(inline.len() + payload.len());
                joined.extend_from_slice(inline);
                joined.extend_from_slice(payload);
                joined.freeze()
            }
        };
        return Some((headers, payload, intact));
    }
    let whole = source.to_bytes();
    let headers = Headers::read(whole.get(outer.bth_at..end)?).ok()?;
    let from = outer.bth_at + headers.len;
    let until = end.checked_sub(usize::from(headers.bth.padcnt())).filter(|u| *u >= from)?;
    let intact = icrc_of(&[whole.get(..end)?]).is_some_and(|c| whole.get(end..outer.total) == Some(&c[..]));
    Some((headers, whole.slice(from..until), intact))
}

/// `head` has at least IP and UDP header, `len` is that of the whole packet. Extension headers and fragments do not occur in RoCEv2.
fn outer(head: &[u8], len: usize) -> Option<Outer> {
    const UDP: u8 = 17;
    let (from, to, traffic_class, ip_len, total) = match head.first()? >> 4 {
        4 => {
            let ip_len = usize::from(head[0] & 15) * 4;
            let h: &[u8; 20] = head.first_chunk()?;
            let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
            let fragment = u16::from_be_bytes([h[6], h[7]]) & 0x3fff;
            if ip_len < 20 || fragment != 0 || h[9] != UDP {
                return None;
            }
            let at = |i: usize| IpAddr::from([h[i], h[i + 1], h[i + 2], h[i + 3]]);
            (at(12), at(16), h[1], ip_len, total)
        }
        6 => {
            let h: &[u8; 40] = head.first_chunk()?;
            let total = 40 + usize::from(u16::from_be_bytes([h[4], h[5]]));
            if h[6] != UDP {
                return None;
            }
            let at = |i: usize| Some(IpAddr::from(*h.get(i..)?.first_chunk::<16>()?));
            (at(8)?, at(24)?, h[0] << 4 | h[1] >> 4, 40, total)
        }
        _ => return None,
    };
    let udp: &[u8; 8] = head.get(ip_len..)?.first_chunk()?;
    let udp_len = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
    let bth_at = ip_len + 8;
    let fits = total <= len && total >= bth_at + ICRC_LEN && udp_len == total - ip_len;
    fits.then_some(Outer { from, to, traffic_class, port: u16::from_be_bytes([udp[2], udp[3]]), bth_at, total })
}
