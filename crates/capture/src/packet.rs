//! From a captured frame to a TCP segment or a RoCEv2 datagram.

use std::net::{IpAddr, SocketAddr};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};

/// How frames start. [pcapng link types]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Ethernet II, with or without VLAN tags.
    Ethernet,
    /// Linux cooked, version 1 (16 bytes).
    Cooked,
    /// Linux cooked, version 2 (20 bytes).
    Cooked2,
    /// IPv4 or IPv6 at once.
    Raw,
    /// BSD loopback: 4 bytes of address family.
    Loopback,
}

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) payload: &'a [u8],
    /// Payload bytes behind `payload` that were on the wire but not captured.
    pub(crate) cut: usize,
}

/// A UDP datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'a> {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) port: u16,
    /// From the IP header to the end of `payload`.
    pub(crate) ip: &'a [u8],
    /// As far as it was captured.
    pub(crate) payload: &'a [u8],
    /// Length of the payload on the wire, bytes.
    pub(crate) len: usize,
}

/// What a frame carries.
pub(crate) enum Carried<'a> {
    Segment(Segment<'a>),
    Datagram(Datagram<'a>),
    /// A part of an IP packet. They are not put together.
    Fragment,
}

/// The TCP segment or UDP datagram in a frame, or that it is a fragment; `None` for anything else. `orig_len` is the frame's length on the
/// wire.
pub(crate) fn carried(link: Link, frame: &[u8], orig_len: usize) -> Option<Carried<'_>> {
    let packet = match link {
        Link::Ethernet => LaxSlicedPacket::from_ethernet(frame).ok()?,
        Link::Raw => LaxSlicedPacket::from_ip(frame).ok()?,
        Link::Loopback => LaxSlicedPacket::from_ip(frame.get(4..)?).ok()?,
        Link::Cooked => cooked(frame, 14, 16)?,
        Link::Cooked2 => cooked(frame, 0, 20)?,
    };
    // Where a part of the frame begins in it.
    let at = |part: &[u8]| (part.as_ptr() as usize).checked_sub(frame.as_ptr() as usize);
    let (source, destination, fragment, header): (IpAddr, IpAddr, bool, usize) = match packet.net? {
        LaxNetSlice::Ipv4(ip) => {
            let h = ip.header();
            (h.source_addr().into(), h.destination_addr().into(), ip.payload().fragmented, at(h.slice())?)
        }
        LaxNetSlice::Ipv6(ip) => {
            let h = ip.header();
            (h.source_addr().into(), h.destination_addr().into(), ip.payload().fragmented, at(h.slice())?)
        }
        LaxNetSlice::Arp(_) => return None,
    };
    if fragment {
        return Some(Carried::Fragment);
    }
    match packet.transport? {
        TransportSlice::Tcp(tcp) => Some(Carried::Segment(Segment {
            from: SocketAddr::new(source, tcp.source_port()),
            to: SocketAddr::new(destination, tcp.destination_port()),
            seq: tcp.sequence_number(),
            ack: tcp.ack().then(|| tcp.acknowledgment_number()),
            syn: tcp.syn(),
            fin: tcp.fin(),
            rst: tcp.rst(),
            payload: tcp.payload(),
            cut: orig_len.saturating_sub(frame.len()),
        })),
        TransportSlice::Udp(udp) => {
            let end = at(udp.slice())? + udp.slice().len();
            Some(Carried::Datagram(Datagram {
                from: source,
                to: destination,
                port: udp.destination_port(),
                ip: frame.get(header..end)?,
                payload: udp.payload(),
                len: usize::from(udp.length()).saturating_sub(8),
            }))
        }
        _ => None,
    }
}

fn cooked(frame: &[u8], proto: usize, header: usize) -> Option<LaxSlicedPacket<'_>> {
    let ether = u16::from_be_bytes(*frame.get(proto..)?.first_chunk::<2>()?);
    Some(LaxSlicedPacket::from_ether_type(EtherType(ether), frame.get(header..)?))
}
