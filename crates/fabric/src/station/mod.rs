//! [`Station`]: a node of the network that has IP: neighbours, TCP, and the way to a software NIC, which its owner has.

mod neighbour;
mod packet_tap;
mod tcp;

use core::net::IpAddr;
use core::time::Duration;

use bytes::Bytes;
use nvmf_roce::{Datagram, Nic};
use nvmf_seam::{Instant, Side, Tap};

use crate::lan::{Body, Frame, Lan, Mac, Node, ethertype};

use neighbour::{Neighbours, destination, destination_of, protocol};
use packet_tap::PacketTap;
pub(crate) use tcp::{Handle, Read, Tcp};

/// Bytes that wait at a station's port in one priority before it takes no more from NIC and TCP.
const QUEUE: u32 = 128 << 10;

/// How soon a full queue is looked at again: well before 128 KiB are sent at 100 Gbit/s.
const LOOK_AGAIN: Duration = Duration::from_micros(5);

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// How a station is made.
pub(crate) struct StationSettings {
    pub name: String,
    pub mac: Mac,
    /// The first of them is the NIC's.
    pub addresses: Vec<IpAddr>,
    /// Bytes of an IP packet with TCP.
    pub tcp_mtu: usize,
    /// Bytes that each direction of a TCP connection buffers.
    pub tcp_buffer: usize,
    pub seed: u64,
}

pub(crate) struct Station {
    pub node: Node,
    pub mac: Mac,
    pub tcp: Tcp,
    neighbours: Neighbours,
    tap: Option<PacketTap>,
    /// Priority of the NIC's last packet, and of TCP's.
    priorities: [u8; 2],
    /// The port's queue was full: it is looked at again then.
    again: Option<Instant>,
    /// IP packets that were dropped for what their header says: no IP, a wrong checksum, or a protocol that nobody has.
    pub not_taken: u64,
}

impl Station {
    /// A station in `lan`, without a link yet.
    pub fn new(lan: &mut Lan, settings: StationSettings) -> Self {
        let StationSettings { name, mac, addresses, tcp_mtu, tcp_buffer, seed } = settings;
        Self {
            node: lan.station(&name, mac),
            mac,
            tcp: Tcp::new(&addresses, tcp_mtu, tcp_buffer, seed),
            neighbours: Neighbours::new(mac, addresses),
            tap: None,
            priorities: [0; 2],
            again: None,
            not_taken: 0,
        }
    }

    /// Puts a tap between the NIC and the network.
    pub fn tap(&mut self, tap: Box<dyn Tap>) {
        self.tap = Some(PacketTap::new(tap));
    }

    /// A neighbour that does not need to be asked for.
    pub fn know(&mut self, at: IpAddr, mac: Mac) {
        self.neighbours.know(at, mac);
    }

    /// A frame came.
    pub fn receive(&mut self, now: Instant, frame: Frame, nic: &mut Nic) {
        let to = frame.to();
        if to != self.mac && to[0] & 1 == 0 {
            return;
        }
        let kind = frame.ethertype();
        match frame.into_body() {
            Body::Datagram(d) if self.tap.is_none() => nic.handle_parts(now, &d),
            Body::Datagram(d) => self.packet(now, d.to_bytes(), nic),
            Body::Bytes(b) if kind == ethertype::ARP => self.neighbours.handle_arp(&b),
            Body::Bytes(b) if kind == ethertype::IPV4 || kind == ethertype::IPV6 => self.ip(now, b, nic),
            Body::Bytes(_) => {}
        }
    }

    fn ip(&mut self, now: Instant, packet: Bytes, nic: &mut Nic) {
        match protocol(&packet) {
            Some(UDP) => self.packet(now, packet, nic),
            Some(TCP) => self.tcp.handle_packet(packet),
            Some(ICMPV6) => self.neighbours.handle_icmpv6(&packet),
            _ => self.not_taken += 1,
        }
    }

    /// A packet for the NIC.
    fn packet(&mut self, now: Instant, packet: Bytes, nic: &mut Nic) {
        match &mut self.tap {
            Some(tap) => {
                tap.push(now, Side::Host, packet);
                self.tapped(now, nic);
            }
            None => nic.handle_datagram(now, packet),
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant, nic: &mut Nic) {
        nic.handle_timeout(now);
        self.neighbours.handle_timeout(now);
        self.tapped(now, nic);
    }

    /// Gives the network what it takes; true where the NIC was given something by its tap. To be called after everything that may
    /// have made something to send.
    pub fn flush(&mut self, now: Instant, lan: &mut Lan, nic: &mut Nic) -> bool {
        self.tcp.turn(now);
        let mut fed = false;
        while lan.queued(self.node, self.priorities[0]) < QUEUE
            && let Some(datagram) = nic.poll_datagram(now)
        {
            match &mut self.tap {
                Some(tap) => {
                    tap.push(now, Side::Controller, datagram.to_bytes());
                    fed |= self.tapped(now, nic);
                }
                None => self.send(now, datagram),
            }
            self.frames(lan, 0);
        }
        while lan.queued(self.node, self.priorities[1]) < QUEUE
            && let Some(packet) = self.tcp.poll_packet()
        {
            if let Some(to) = destination(&packet) {
                self.neighbours.send(now, to, Body::Bytes(packet));
            }
            self.frames(lan, 1);
        }
        self.frames(lan, 1);
        let full = self.priorities.iter().any(|p| lan.queued(self.node, *p) >= QUEUE);
        self.again = full.then(|| now + LOOK_AGAIN);
        fed
    }

    fn send(&mut self, now: Instant, datagram: Datagram) {
        if let Some(to) = destination_of(&datagram) {
            self.neighbours.send(now, to, Body::Datagram(datagram));
        }
    }

    /// What comes out of the tap; true where it is for the NIC.
    fn tapped(&mut self, now: Instant, nic: &mut Nic) -> bool {
        let mut fed = false;
        while let Some((to, bytes)) = self.tap.as_mut().and_then(|t| t.poll(now)) {
            match to {
                Side::Controller => {
                    nic.handle_datagram(now, bytes);
                    fed = true;
                }
                Side::Host => {
                    if let Some(to) = destination(&bytes) {
                        self.neighbours.send(now, to, Body::Bytes(bytes));
                    }
                }
            }
        }
        fed
    }

    fn frames(&mut self, lan: &mut Lan, whose: usize) {
        while let Some(frame) = self.neighbours.poll_frame() {
            self.priorities[whose] = frame.priority();
            lan.send(self.node, frame);
        }
    }

    /// When [`Station::handle_timeout`] or [`Station::flush`] has something to do.
    pub fn poll_timeout(&mut self, now: Instant, nic: &mut Nic) -> Option<Instant> {
        let tap = self.tap.as_ref().and_then(PacketTap::poll_timeout);
        let tcp = self.tcp.poll_timeout(now);
        [nic.poll_timeout(), self.neighbours.poll_timeout(), tap, tcp, self.again].into_iter().flatten().min()
    }
}
