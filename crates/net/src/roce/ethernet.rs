//! A station on an Ethernet: who has which address (ARP, Neighbor Discovery), and IP packets into frames and out of them.
//!
//! [`Station`] does no I/O: frames come by [`Station::take`], and go by [`Station::next`]. Only what RoCEv2 needs is understood: ARP for
//! IPv4, solicitation and advertisement for IPv6, UDP to port 4791. [RFC 826, RFC 4861, RFC 2464]

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use bytes::Bytes;
use nvmf_roce::Datagram;
use nvmf_seam::Instant;
use nvmf_wire::roce::UDP_PORT;

/// An Ethernet address.
pub(super) type Mac = [u8; 6];

const BROADCAST: Mac = [0xff; 6];
/// Bytes of the Ethernet header.
pub(super) const HEADER: usize = 14;
/// Shortest frame, without its check sequence.
const SHORTEST: usize = 60;
const ARP: u16 = 0x0806;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

/// Neighbours that are remembered; the one asked for first is forgotten for another.
const NEIGHBOURS: usize = 256;
/// Packets that wait for the answer of one neighbour; the oldest is lost for another.
const WAITING: usize = 64;
/// Asked again after this long, so many times.
const AGAIN: Duration = Duration::from_millis(250);
const TRIES: u8 = 12;

/// Where a station is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub mac: Mac,
    pub address: IpAddr,
    /// Bits of the address that all neighbours share.
    pub prefix: u8,
    /// For whom is none.
    pub gateway: Option<IpAddr>,
    /// Nobody else answers for the address.
    pub answers: bool,
}

/// See the module's text.
pub(super) struct Station {
    place: Place,
    neighbours: BTreeMap<IpAddr, Neighbour>,
    out: VecDeque<Frame>,
}

enum Neighbour {
    Asked { again: Instant, tries: u8, waiting: VecDeque<Datagram> },
    Known(Mac),
}

/// A frame that is to go: Ethernet header, and what follows it.
pub(super) struct Frame(pub [u8; HEADER], pub Datagram);

impl Frame {
    /// Of a short message, with its Ethernet header.
    fn control(bytes: &[u8]) -> Self {
        let (head, rest) = bytes.split_first_chunk().unwrap_or((&[0; HEADER], &[]));
        Self(*head, Datagram::new(rest, Bytes::new(), &[]))
    }
}

impl Station {
    pub fn new(place: Place) -> Self {
        Self { place, neighbours: BTreeMap::new(), out: VecDeque::new() }
    }

    pub fn address(&self) -> IpAddr {
        self.place.address
    }

    /// An IP packet is to go.
    pub fn send(&mut self, now: Instant, datagram: Datagram) {
        let Some(to) = destination(&datagram) else { return };
        let hop = self.hop(to);
        match self.neighbours.get_mut(&hop) {
            Some(Neighbour::Known(mac)) => {
                let head = header(*mac, self.place.mac, if to.is_ipv4() { IPV4 } else { IPV6 });
                self.out.push_back(Frame(head, datagram));
            }
            Some(Neighbour::Asked { waiting, .. }) => {
                if waiting.len() == WAITING {
                    waiting.pop_front();
                }
                waiting.push_back(datagram);
            }
            None => {
                self.make_room();
                let waiting = VecDeque::from([datagram]);
                self.neighbours.insert(hop, Neighbour::Asked { again: now + AGAIN, tries: 1, waiting });
                self.ask(hop);
            }
        }
    }

    fn hop(&self, to: IpAddr) -> IpAddr {
        if self.is_near(to) { to } else { self.place.gateway.unwrap_or(to) }
    }

    fn is_near(&self, to: IpAddr) -> bool {
        let bits = |ip: IpAddr| match ip {
            IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
            IpAddr::V6(v6) => u128::from(v6),
        };
        let differ = bits(to) ^ bits(self.place.address);
        self.place.prefix == 0 || differ >> (128 - u32::from(self.place.prefix.min(128))) == 0
    }

    /// Those that have been asked and have not answered go first.
    fn make_room(&mut self) {
        if self.neighbours.len() < NEIGHBOURS {
            return;
        }
        let silent = self.neighbours.iter().find(|(_, n)| matches!(n, Neighbour::Asked { .. })).map(|(ip, _)| *ip);
        if let Some(ip) = silent.or_else(|| self.neighbours.keys().next().copied()) {
            self.neighbours.remove(&ip);
        }
    }

    fn ask(&mut self, whom: IpAddr) {
        let frame = match (self.place.address, whom) {
            (IpAddr::V4(us), IpAddr::V4(whom)) => arp(1, (self.place.mac, us), (BROADCAST, [0; 6], whom)),
            (IpAddr::V6(us), IpAddr::V6(whom)) => {
                let group = solicited_group(whom);
                let o = group.octets();
                let to = (group, [0x33, 0x33, o[12], o[13], o[14], o[15]]);
                discovery(SOLICITATION, 0, (self.place.mac, us), to, whom)
            }
            _ => return,
        };
        self.out.push_back(Frame::control(&frame));
    }

    /// Asks again those that are silent, and gives up on them.
    pub fn timeout(&mut self, now: Instant) {
        let mut due = Vec::new();
        self.neighbours.retain(|ip, n| match n {
            Neighbour::Asked { again, tries, .. } if *again <= now => {
                (*again, *tries) = (now + AGAIN, *tries + 1);
                due.push(*ip);
                *tries <= TRIES
            }
            _ => true,
        });
        due.retain(|ip| self.neighbours.contains_key(ip));
        due.into_iter().for_each(|ip| self.ask(ip));
    }

    /// When [`Station::timeout`] is due.
    pub fn due(&self) -> Option<Instant> {
        let asked = |n: &Neighbour| if let Neighbour::Asked { again, .. } = n { Some(*again) } else { None };
        self.neighbours.values().filter_map(asked).min()
    }

    /// The next frame to go; it is given again until [`Station::sent`].
    pub fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.out.iter()
    }

    /// So many frames are gone.
    pub fn sent(&mut self, frames: usize) {
        self.out.drain(..frames.min(self.out.len()));
    }

    /// Takes a frame; gives the packet where it is one of RoCEv2 for us.
    pub fn take(&mut self, frame: Bytes) -> Option<Bytes> {
        let to: Mac = frame.get(..6)?.try_into().ok()?;
        let from: Mac = frame.get(6..12)?.try_into().ok()?;
        // On an interface one's own frames are seen too.
        if from == self.place.mac || (to != self.place.mac && to[0] & 1 == 0) {
            return None;
        }
        match u16::from_be_bytes(frame.get(12..HEADER)?.try_into().ok()?) {
            ARP => {
                self.arp(&frame[HEADER..]);
                None
            }
            IPV4 => self.ipv4(frame.slice(HEADER..)),
            IPV6 => self.ipv6(frame.slice(HEADER..)),
            _ => None,
        }
    }

    fn arp(&mut self, message: &[u8]) -> Option<()> {
        let IpAddr::V4(us) = self.place.address else { return None };
        // Ethernet, IPv4, their lengths.
        if message.get(..6)? != [0, 1, 8, 0, 6, 4] {
            return None;
        }
        let mac: Mac = message.get(8..14)?.try_into().ok()?;
        let from = Ipv4Addr::from(<[u8; 4]>::try_from(message.get(14..18)?).ok()?);
        let target = Ipv4Addr::from(<[u8; 4]>::try_from(message.get(24..28)?).ok()?);
        let ours = target == us;
        // Who asks for us will hear from us: remembered as well as an answer is. [RFC 826]
        if !from.is_unspecified() && (ours || self.neighbours.contains_key(&from.into())) {
            self.learn(from.into(), mac);
        }
        if ours && self.place.answers && message.get(6..8)? == [0, 1] {
            self.out.push_back(Frame::control(&arp(2, (self.place.mac, us), (mac, mac, from))));
        }
        Some(())
    }

    fn ipv4(&mut self, packet: Bytes) -> Option<Bytes> {
        let IpAddr::V4(us) = self.place.address else { return None };
        // No options, not a fragment.
        if *packet.first()? != 0x45 || packet.get(6)? & 0x3f != 0 || *packet.get(7)? != 0 || *packet.get(9)? != UDP {
            return None;
        }
        let len = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        (packet.get(16..20)? == us.octets()).then_some(())?;
        is_roce(&packet, 20).then_some(())?;
        // What follows is padding of the frame.
        (len <= packet.len()).then(|| packet.slice(..len))
    }

    fn ipv6(&mut self, packet: Bytes) -> Option<Bytes> {
        let IpAddr::V6(us) = self.place.address else { return None };
        let len = 40 + usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
        if packet.first()? >> 4 != 6 || len > packet.len() || len < 48 {
            return None;
        }
        match packet[6] {
            UDP => (packet[24..40] == us.octets() && is_roce(&packet, 40)).then(|| packet.slice(..len)),
            ICMPV6 => {
                self.discovery(us, &packet[..len]);
                None
            }
            _ => None,
        }
    }

    /// Solicitation and advertisement; both name the sender's Ethernet address in an option. [RFC 4861, 4.3, 4.4]
    fn discovery(&mut self, us: Ipv6Addr, packet: &[u8]) -> Option<()> {
        let from = Ipv6Addr::from(<[u8; 16]>::try_from(packet.get(8..24)?).ok()?);
        let message = packet.get(40..)?;
        let target = Ipv6Addr::from(<[u8; 16]>::try_from(message.get(8..24)?).ok()?);
        // A hop limit below 255 came through a router. [RFC 4861, 7.1]
        if packet[7] != 255 || message[1] != 0 {
            return None;
        }
        match message[0] {
            SOLICITATION if target == us => {
                let mac = option(message, 1);
                if let Some(mac) = mac.filter(|_| !from.is_unspecified()) {
                    self.learn(from.into(), mac);
                }
                if self.place.answers {
                    let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
                    let (to, mac, flags) =
                        if from.is_unspecified() { (all, [0x33, 0x33, 0, 0, 0, 1], 0x20) } else { (from, mac?, 0x60) };
                    self.out.push_back(Frame::control(&discovery(ADVERTISEMENT, flags, (self.place.mac, us), (to, mac), us)));
                }
            }
            ADVERTISEMENT if self.neighbours.contains_key(&target.into()) => self.learn(target.into(), option(message, 2)?),
            _ => {}
        }
        Some(())
    }

    fn learn(&mut self, who: IpAddr, mac: Mac) {
        if mac[0] & 1 == 1 {
            return;
        }
        if !self.neighbours.contains_key(&who) {
            self.make_room();
        }
        if let Some(Neighbour::Asked { waiting, .. }) = self.neighbours.insert(who, Neighbour::Known(mac)) {
            let head = header(mac, self.place.mac, if who.is_ipv4() { IPV4 } else { IPV6 });
            self.out.extend(waiting.into_iter().map(|d| Frame(head, d)));
        }
    }
}

fn is_roce(packet: &[u8], ip_len: usize) -> bool {
    packet.get(ip_len + 2..ip_len + 4) == Some(&UDP_PORT.to_be_bytes())
}

fn destination(datagram: &Datagram) -> Option<IpAddr> {
    let head = datagram.parts()[0];
    match head.first()? >> 4 {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(head.get(16..20)?).ok()?).into()),
        6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(head.get(24..40)?).ok()?).into()),
        _ => None,
    }
}

fn header(to: Mac, from: Mac, kind: u16) -> [u8; HEADER] {
    let mut out = [0; HEADER];
    out[..6].copy_from_slice(&to);
    out[6..12].copy_from_slice(&from);
    out[12..].copy_from_slice(&kind.to_be_bytes());
    out
}

/// `to`: the frame's destination, then what the message says of the other side.
fn arp(operation: u8, us: (Mac, Ipv4Addr), to: (Mac, Mac, Ipv4Addr)) -> Vec<u8> {
    let mut out = header(to.0, us.0, ARP).to_vec();
    out.extend([0, 1, 8, 0, 6, 4, 0, operation]);
    out.extend(us.0);
    out.extend(us.1.octets());
    out.extend(to.1);
    out.extend(to.2.octets());
    out.resize(SHORTEST, 0);
    out
}

/// The group that a station with this address listens to. [RFC 4291, 2.7.1]
fn solicited_group(address: Ipv6Addr) -> Ipv6Addr {
    let o = address.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, o[13], o[14], o[15]])
}

fn discovery(kind: u8, flags: u8, us: (Mac, Ipv6Addr), to: (Ipv6Addr, Mac), target: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, flags, 0, 0, 0];
    message.extend(target.octets());
    // Source link-layer address in a solicitation, target link-layer address in an advertisement.
    message.extend([if kind == SOLICITATION { 1 } else { 2 }, 1]);
    message.extend(us.0);
    let mut sum: u32 = u32::from(ICMPV6) + message.len() as u32;
    for word in [&us.1.octets()[..], &to.0.octets(), &message].concat().chunks(2) {
        sum += u32::from(u16::from_be_bytes([word[0], word[1]]));
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    message[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    let mut out = header(to.1, us.0, IPV6).to_vec();
    out.extend([0x60, 0, 0, 0, 0, message.len() as u8, ICMPV6, 255]);
    out.extend(us.1.octets());
    out.extend(to.0.octets());
    out.extend(message);
    out
}

/// The Ethernet address in an option of this kind.
fn option(message: &[u8], kind: u8) -> Option<Mac> {
    let mut rest = message.get(24..)?;
    loop {
        let len = usize::from(*rest.get(1)?) * 8;
        if rest[0] == kind && len == 8 {
            return rest.get(2..8)?.try_into().ok();
        }
        rest = rest.get(len.max(8)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(n: u8, v6: bool) -> Station {
        let address: IpAddr =
            if v6 { Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n.into()).into() } else { Ipv4Addr::new(10, 9, 0, n).into() };
        let prefix = if v6 { 64 } else { 24 };
        Station::new(Place { mac: [2, 0, 0, 0, 0, n], address, prefix, gateway: None, answers: true })
    }

    fn packet(from: &Station, to: IpAddr) -> Datagram {
        let mut head = match (from.address(), to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mut h = vec![0x45, 0, 0, 48, 0, 0, 0x40, 0, 64, UDP, 0, 0];
                h.extend(from.octets());
                h.extend(to.octets());
                h
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let mut h = vec![0x60, 0, 0, 0, 0, 28, UDP, 64];
                h.extend(from.octets());
                h.extend(to.octets());
                h
            }
            _ => panic!("one family"),
        };
        head.extend(UDP_PORT.to_be_bytes());
        head.extend(UDP_PORT.to_be_bytes());
        head.extend([0; 4]);
        Datagram::new(&head, Bytes::from_static(&[7; 16]), &[1; 4])
    }

    /// All frames that wait, as bytes.
    fn drain(s: &mut Station) -> Vec<Bytes> {
        let all: Vec<Bytes> = s.frames().map(|Frame(head, rest)| [&head[..], &rest.to_bytes()].concat().into()).collect();
        s.sent(all.len());
        all
    }

    #[test]
    fn a_packet_waits_for_the_neighbours_address() {
        for v6 in [false, true] {
            let (mut a, mut b) = (station(1, v6), station(2, v6));
            let sent = packet(&a, b.address());
            a.send(Instant::START, sent.clone());
            a.send(Instant::START, sent.clone());
            let asked = drain(&mut a);
            assert_eq!(asked.len(), 1);
            assert_eq!(b.take(asked[0].clone()), None);
            let answered = drain(&mut b);
            assert_eq!(answered.len(), 1);
            assert_eq!(a.take(answered[0].clone()), None);
            let frames = drain(&mut a);
            assert_eq!(frames.len(), 2);
            assert_eq!(b.take(frames[1].clone()), Some(sent.to_bytes()));
            // B knows A from its question, and need not ask.
            let back = packet(&b, a.address());
            b.send(Instant::START, back.clone());
            assert_eq!(a.take(drain(&mut b).remove(0)), Some(back.to_bytes()));
            assert_eq!((a.due(), b.due()), (None, None));
        }
    }

    #[test]
    fn who_does_not_answer_is_given_up() {
        let mut a = station(1, false);
        let to = station(2, false);
        a.send(Instant::START, packet(&a, to.address()));
        let mut asked = drain(&mut a).len();
        while let Some(due) = a.due() {
            a.timeout(due);
            asked += drain(&mut a).len();
        }
        assert_eq!((asked, a.neighbours.len()), (usize::from(TRIES), 0));
    }

    #[test]
    fn what_a_neighbour_can_make_grow_is_bounded() {
        let mut a = station(1, false);
        for n in 0..5000u32 {
            let to = IpAddr::from((0x0a09_0000 + n).to_be_bytes());
            a.send(Instant::START, packet(&a, to));
        }
        assert_eq!(a.neighbours.len(), NEIGHBOURS);
        let to = station(2, false).address();
        (0..500).for_each(|_| a.send(Instant::START, packet(&a, to)));
        let waiting = a.neighbours.values().map(|n| if let Neighbour::Asked { waiting, .. } = n { waiting.len() } else { 0 }).max();
        assert_eq!(waiting, Some(WAITING));
    }

    #[test]
    fn far_addresses_go_by_the_gateway() {
        let place = station(1, false).place;
        let mut a = Station::new(Place { gateway: Some(IpAddr::from([10, 9, 0, 254])), ..place });
        a.send(Instant::START, packet(&a, IpAddr::from([192, 0, 2, 7])));
        assert!(a.neighbours.contains_key(&IpAddr::from([10, 9, 0, 254])));
    }

    #[test]
    fn cut_and_wild_frames_do_nothing() {
        for v6 in [false, true] {
            let (mut a, mut b) = (station(1, v6), station(2, v6));
            a.send(Instant::START, packet(&a, b.address()));
            let asked = drain(&mut a).remove(0);
            for len in 0..asked.len() {
                let _ = b.take(asked.slice(..len));
                for value in [0, 0xff] {
                    let mut wild = asked.to_vec();
                    wild[len] = value;
                    let _ = b.take(wild.into());
                }
            }
        }
    }
}
