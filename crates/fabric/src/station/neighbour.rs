//! [`Neighbours`]: which MAC address an IP address has: static entries, ARP [RFC 826] and IPv6 neighbour discovery [RFC 4861].

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use nvmf_roce::Datagram;
use nvmf_seam::Instant;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv4Packet, Ipv6Packet, Ipv6Repr,
    NdiscNeighborFlags, NdiscRepr, RawHardwareAddress, UdpPacket,
};

use crate::lan::{BROADCAST, Body, Frame, Mac, ethertype};

/// Addresses that are remembered; further ones are not learnt.
const KNOWN_MAX: usize = 1024;
/// Addresses asked for at a time, and packets that wait for each.
const ASKED_MAX: usize = 64;
const WAITING_MAX: usize = 128;
/// How often an address is asked for, and how long an answer may take.
const TRIES: u8 = 3;
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Asked {
    again: Instant,
    tries: u8,
    waiting: Vec<Body>,
}

/// Neighbours of one station. What is known does not age: stations keep their addresses.
#[derive(Debug)]
pub(super) struct Neighbours {
    mac: Mac,
    addresses: Vec<IpAddr>,
    known: BTreeMap<IpAddr, Mac>,
    asked: BTreeMap<IpAddr, Asked>,
    out: VecDeque<Frame>,
}

impl Neighbours {
    pub fn new(mac: Mac, addresses: Vec<IpAddr>) -> Self {
        Self { mac, addresses, known: BTreeMap::new(), asked: BTreeMap::new(), out: VecDeque::new() }
    }

    /// A static entry.
    pub fn know(&mut self, at: IpAddr, mac: Mac) {
        self.known.insert(at, mac);
    }

    /// Sends a packet to `to`, once its MAC address is known.
    pub fn send(&mut self, now: Instant, to: IpAddr, body: Body) {
        if let Some(mac) = self.known.get(&to) {
            let frame = framed(*mac, self.mac, body);
            self.out.push_back(frame);
            return;
        }
        let room = self.asked.len() < ASKED_MAX;
        match self.asked.get_mut(&to) {
            Some(a) if a.waiting.len() < WAITING_MAX => a.waiting.push(body),
            Some(_) => {}
            None if room => {
                self.asked.insert(to, Asked { again: now + PATIENCE, tries: TRIES - 1, waiting: vec![body] });
                self.ask(to);
            }
            None => {}
        }
    }

    pub fn poll_frame(&mut self) -> Option<Frame> {
        self.out.pop_front()
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        self.asked.values().map(|a| a.again).min()
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        let due: Vec<IpAddr> = self.asked.iter().filter(|(_, a)| a.again <= now).map(|(ip, _)| *ip).collect();
        for ip in due {
            match self.asked.get_mut(&ip) {
                Some(a) if a.tries > 0 => {
                    a.tries -= 1;
                    a.again = now + PATIENCE;
                    self.ask(ip);
                }
                _ => drop(self.asked.remove(&ip)),
            }
        }
    }

    fn learn(&mut self, ip: IpAddr, mac: Mac) {
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&ip) {
            return;
        }
        self.known.insert(ip, mac);
        for body in self.asked.remove(&ip).map(|a| a.waiting).unwrap_or_default() {
            self.out.push_back(framed(mac, self.mac, body));
        }
    }

    fn ask(&mut self, ip: IpAddr) {
        let own = |six: bool| self.addresses.iter().find(|a| a.is_ipv6() == six).copied();
        match (own(ip.is_ipv6()), ip) {
            (Some(IpAddr::V4(own)), IpAddr::V4(ip)) => self.arp(ArpOperation::Request, own, BROADCAST, ip),
            (Some(IpAddr::V6(own)), IpAddr::V6(ip)) => {
                let solicit = NdiscRepr::NeighborSolicit { target_addr: ip, lladdr: Some(link_layer(self.mac)) };
                let [.., x, y, z] = ip.octets();
                let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(x), u16::from_be_bytes([y, z]));
                self.discovery(solicit, own, group, [0x33, 0x33, 0xff, x, y, z]);
            }
            _ => {}
        }
    }

    fn arp(&mut self, operation: ArpOperation, own: Ipv4Addr, to: Mac, ip: Ipv4Addr) {
        let arp = ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr: EthernetAddress(self.mac),
            source_protocol_addr: own,
            // the address that is asked for is not known yet
            target_hardware_addr: EthernetAddress(if to == BROADCAST { [0; 6] } else { to }),
            target_protocol_addr: ip,
        };
        let mut bytes = vec![0; arp.buffer_len()];
        arp.emit(&mut ArpPacket::new_unchecked(&mut bytes));
        self.out.push_back(Frame::new(to, self.mac, ethertype::ARP, bytes.into()));
    }

    fn discovery(&mut self, message: NdiscRepr<'_>, own: Ipv6Addr, to: Ipv6Addr, mac: Mac) {
        let icmp = Icmpv6Repr::Ndisc(message);
        let ip = Ipv6Repr {
            src_addr: own,
            dst_addr: to,
            next_header: IpProtocol::Icmpv6,
            payload_len: icmp.buffer_len(),
            hop_limit: 255,
        };
        let mut bytes = vec![0; ip.buffer_len() + icmp.buffer_len()];
        ip.emit(&mut Ipv6Packet::new_unchecked(&mut bytes[..]));
        let body = &mut bytes[ip.buffer_len()..];
        icmp.emit(&own, &to, &mut Icmpv6Packet::new_unchecked(body), &ChecksumCapabilities::default());
        self.out.push_back(Frame::new(mac, self.mac, ethertype::IPV6, bytes.into()));
    }

    /// An ARP packet came.
    pub fn handle_arp(&mut self, bytes: &[u8]) {
        let arp = ArpPacket::new_checked(bytes).and_then(|p| ArpRepr::parse(&p));
        let Ok(ArpRepr::EthernetIpv4 { operation, source_hardware_addr, source_protocol_addr, target_protocol_addr, .. }) = arp
        else {
            return;
        };
        if self.addresses.contains(&IpAddr::V4(target_protocol_addr)) {
            self.learn(IpAddr::V4(source_protocol_addr), source_hardware_addr.0);
            if operation == ArpOperation::Request {
                self.arp(ArpOperation::Reply, target_protocol_addr, source_hardware_addr.0, source_protocol_addr);
            }
        }
    }

    /// An ICMPv6 packet came, from its IPv6 header on.
    pub fn handle_icmpv6(&mut self, bytes: &[u8]) {
        let Some((ip, message)) = discovered(bytes) else { return };
        match message {
            NdiscRepr::NeighborSolicit { target_addr, lladdr: Some(from) } if self.addresses.contains(&IpAddr::V6(target_addr)) => {
                let Some(mac) = mac(from) else { return };
                self.learn(IpAddr::V6(ip.src_addr), mac);
                let flags = NdiscNeighborFlags::SOLICITED | NdiscNeighborFlags::OVERRIDE;
                let answer = NdiscRepr::NeighborAdvert { flags, target_addr, lladdr: Some(link_layer(self.mac)) };
                self.discovery(answer, target_addr, ip.src_addr, mac);
            }
            NdiscRepr::NeighborAdvert { target_addr, lladdr: Some(from), .. } => {
                // only what was asked for is learnt
                if let (Some(mac), true) = (mac(from), self.asked.contains_key(&IpAddr::V6(target_addr))) {
                    self.learn(IpAddr::V6(target_addr), mac);
                }
            }
            _ => {}
        }
    }
}

fn framed(to: Mac, from: Mac, body: Body) -> Frame {
    match body {
        Body::Datagram(d) => Frame::datagram(to, from, d),
        Body::Bytes(b) => {
            let six = b.first().is_some_and(|b| b >> 4 == 6);
            Frame::new(to, from, if six { ethertype::IPV6 } else { ethertype::IPV4 }, b)
        }
    }
}

fn link_layer(mac: Mac) -> RawHardwareAddress {
    RawHardwareAddress::from_bytes(&mac)
}

fn mac(raw: RawHardwareAddress) -> Option<Mac> {
    raw.as_bytes().try_into().ok()
}

/// A message of neighbour discovery that is right; its hop limit shows that it comes from this link [RFC 4861, 7.1].
fn discovered(bytes: &[u8]) -> Option<(Ipv6Repr, NdiscRepr<'_>)> {
    let packet = Ipv6Packet::new_checked(bytes).ok()?;
    let ip = Ipv6Repr::parse(&packet).ok().filter(|ip| ip.hop_limit == 255)?;
    let body = bytes.get(ip.buffer_len()..)?.get(..ip.payload_len)?;
    let icmp = Icmpv6Packet::new_checked(body).ok()?;
    match Icmpv6Repr::parse(&ip.src_addr, &ip.dst_addr, &icmp, &ChecksumCapabilities::default()).ok()? {
        Icmpv6Repr::Ndisc(message) => Some((ip, message)),
        _ => None,
    }
}

/// Where an IP packet comes from; `None` where it is none.
fn source(ip: &[u8]) -> Option<IpAddr> {
    match ip.first()? >> 4 {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(ip.get(12..16)?).ok()?)),
        6 => Some(IpAddr::from(<[u8; 16]>::try_from(ip.get(8..24)?).ok()?)),
        _ => None,
    }
}

/// Where an IP packet goes; `None` where it is none.
pub(super) fn destination(ip: &[u8]) -> Option<IpAddr> {
    match ip.first()? >> 4 {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(ip.get(16..20)?).ok()?)),
        6 => Some(IpAddr::from(<[u8; 16]>::try_from(ip.get(24..40)?).ok()?)),
        _ => None,
    }
}

/// The protocol that an IP packet carries; `None` where it is none, or where a checksum of IP or UDP is wrong. [RFC 1122, 3.2.1.2, 4.1.3.4]
pub(super) fn protocol(ip: &[u8]) -> Option<u8> {
    let (protocol, at) = match ip.first()? >> 4 {
        4 => {
            let head = ip.get(..usize::from(ip[0] & 15) * 4).filter(|h| h.len() >= 20)?;
            (Ipv4Packet::new_unchecked(head).verify_checksum().then(|| head[9])?, head.len())
        }
        6 => (*ip.get(6)?, 40),
        _ => return None,
    };
    // a UDP checksum of 0 is none
    let sound = protocol != u8::from(IpProtocol::Udp)
        || ip.get(at + 6..at + 8).is_none_or(|sum| sum == [0, 0])
        || UdpPacket::new_checked(&ip[at..])
            .is_ok_and(|udp| source(ip).zip(destination(ip)).is_some_and(|(a, b)| udp.verify_checksum(&a.into(), &b.into())));
    sound.then_some(protocol)
}

/// Where a packet of a software NIC goes.
pub(super) fn destination_of(datagram: &Datagram) -> Option<IpAddr> {
    destination(datagram.parts()[0])
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn two(six: bool) -> [Neighbours; 2] {
        let ip = |n: u8| {
            if six { IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n.into())) } else { IpAddr::from([192, 0, 2, n]) }
        };
        [1, 2].map(|n| Neighbours::new([2, 0, 0, 0, 0, n], vec![ip(n)]))
    }

    fn give(to: &mut Neighbours, frame: Frame) {
        let Body::Bytes(b) = frame.body() else { panic!() };
        match frame.ethertype() {
            ethertype::ARP => to.handle_arp(b),
            _ => to.handle_icmpv6(b),
        }
    }

    #[test]
    fn a_packet_waits_for_the_address_of_its_neighbour() {
        for six in [false, true] {
            let [mut a, mut b] = two(six);
            let (now, to) = (Instant(0), b.addresses[0]);
            let packet = Bytes::from(vec![if six { 0x60 } else { 0x45 }; 40]);
            a.send(now, to, Body::Bytes(packet.clone()));
            a.send(now, to, Body::Bytes(packet.clone()));
            let ask = a.poll_frame().unwrap();
            assert!(ask.to()[0] & 1 == 1 && a.poll_frame().is_none());
            give(&mut b, ask);
            let answer = b.poll_frame().unwrap();
            assert_eq!(answer.to(), a.mac);
            give(&mut a, answer);
            for _ in 0..2 {
                let sent = a.poll_frame().unwrap();
                assert_eq!((sent.to(), sent.parts()[1]), (b.mac, &packet[..]));
            }
            // and the other way nothing needs to be asked any more
            b.send(now, a.addresses[0], Body::Bytes(packet));
            assert_eq!(b.poll_frame().unwrap().to(), a.mac);
            assert_eq!((a.poll_timeout(), a.poll_frame().is_none()), (None, true));
        }
    }

    #[test]
    fn who_does_not_answer_is_asked_three_times() {
        let [mut a, b] = two(false);
        for _ in 0..WAITING_MAX + 9 {
            a.send(Instant(0), b.addresses[0], Body::Bytes(Bytes::from_static(&[0x45; 20])));
        }
        let mut asked = 0;
        while let Some(at) = a.poll_timeout() {
            asked += std::iter::from_fn(|| a.poll_frame()).count();
            a.handle_timeout(at);
        }
        assert_eq!((asked, a.poll_frame().is_none()), (3, true));
    }

    #[test]
    fn what_is_broken_teaches_nothing() {
        let [mut a, mut b] = two(true);
        a.send(Instant(0), b.addresses[0], Body::Bytes(Bytes::from_static(&[0x60; 40])));
        let ask = a.poll_frame().unwrap();
        let good = ask.parts()[1].to_vec();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            b.handle_icmpv6(&bad);
            b.handle_arp(&bad);
            b.handle_icmpv6(&good[..at]);
        }
        // traffic class and flow label are under no checksum
        assert!(b.known.len() <= 1 && b.out.len() <= 4, "{:?}", b.out.len());
    }
}
