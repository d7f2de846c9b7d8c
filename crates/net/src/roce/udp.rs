//! A UDP socket on port 4791 as a carrier: no device, no privilege.
//!
//! The invariant CRC covers nearly all of the IP header, so every byte that the kernel puts there has to be known in advance. On IPv4
//! that is so where the socket is unconnected and never fragments: identification 0, Don't Fragment. What the kernel does not show of
//! a received header is found from the ICRC ([`super::ident`]). IPv6 has no such field.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use bytes::{Bytes, BytesMut};
use nix::errno::Errno;
use nix::sys::socket::{SockaddrIn, SockaddrIn6, SockaddrLike, SockaddrStorage, setsockopt, sockopt};
use nvmf_roce::Datagram;
use nvmf_seam::Instant;
use nvmf_wire::roce::UDP_PORT;

use super::batch::{Came, Going, HEADROOM, Receiver, passed_on, send};
use super::ident::{self, IPV4};
use super::{Carrier, way};

const IPV6: usize = 40;
const UDP: usize = 8;
/// Protocol number.
const UDP_PROTOCOL: u8 = 17;
/// What received headers get, for the socket does not say: the CRC leaves it out.
const TTL: u8 = 64;
/// Bytes of packets that wait in the system while we are busy: a few thousand of them.
const BUFFER: usize = 4 << 20;

mod options {
    use nix::{setsockopt_impl, sockopt_impl};

    sockopt_impl!(
        /// How the kernel fragments, and what it puts into the identification of IPv4.
        MtuDiscover, SetOnly, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::c_int
    );
    sockopt_impl!(
        /// The same for IPv6.
        MtuDiscover6, SetOnly, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::c_int
    );
    sockopt_impl!(
        /// Takes datagrams over IPv6 whose checksum is 0, as RoCEv2 has them.
        NoCheck6, SetOnly, libc::IPPROTO_UDP, libc::UDP_NO_CHECK6_RX, bool
    );
}

/// See the module's text.
pub struct UdpCarrier {
    socket: UdpSocket,
    address: IpAddr,
    mtu: u32,
    /// TOS of what is sent now.
    tos: u8,
    receiver: Receiver,
}

impl UdpCarrier {
    /// Binds port 4791 of `address`, which must be one of this machine's.
    pub fn bind(address: IpAddr) -> io::Result<Self> {
        Self::bind_to(SocketAddr::new(address, UDP_PORT))
    }

    pub(super) fn bind_to(at: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(at)?;
        socket.set_nonblocking(true)?;
        if at.is_ipv4() {
            setsockopt(&socket, options::MtuDiscover, &libc::IP_PMTUDISC_DO)?;
            setsockopt(&socket, sockopt::IpRecvTos, &true)?;
        } else {
            setsockopt(&socket, options::MtuDiscover6, &libc::IPV6_PMTUDISC_DO)?;
            setsockopt(&socket, sockopt::Ipv6RecvTClass, &true)?;
            setsockopt(&socket, options::NoCheck6, &true)?;
        }
        way::enlarge(&socket, BUFFER);
        let address = at.ip();
        let mtu = way::mtu_of(address).unwrap_or(way::ETHERNET_MTU);
        Ok(Self { socket, address, mtu, tos: 0, receiver: Receiver::new() })
    }

    /// No packet larger than the route to `peer` carries, as far as the system knows it.
    pub fn towards(&mut self, peer: IpAddr) {
        self.mtu = self.mtu.min(way::route_mtu(peer).unwrap_or(u32::MAX));
    }

    fn set_tos(&mut self, tos: u8) -> Result<(), Errno> {
        if tos != self.tos {
            match self.address {
                IpAddr::V4(_) => setsockopt(&self.socket, sockopt::Ipv4Tos, &tos.into())?,
                IpAddr::V6(_) => setsockopt(&self.socket, sockopt::Ipv6TClass, &tos.into())?,
            }
            self.tos = tos;
        }
        Ok(())
    }
}

impl AsFd for UdpCarrier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Carrier for UdpCarrier {
    fn address(&self) -> IpAddr {
        self.address
    }

    fn mtu(&self) -> u32 {
        self.mtu
    }

    fn source_port(&self) -> Option<u16> {
        Some(UDP_PORT)
    }

    fn send(&mut self, _: Instant, queue: &mut VecDeque<Datagram>) -> io::Result<()> {
        while let Some(tos) = queue.front().map(tos_of) {
            self.set_tos(tos)?;
            let alike = queue.iter().take_while(|d| tos_of(d) == tos).map_while(going);
            match send(&self.socket, alike) {
                // Nothing that a socket could send.
                Ok(0) => drop(queue.pop_front()),
                Ok(n) => drop(queue.drain(..n)),
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(Errno::EMSGSIZE) => {
                    let len = queue.pop_front().map_or(0, |d| d.len());
                    self.mtu = self.mtu.min(u32::try_from(len.saturating_sub(1)).unwrap_or(u32::MAX));
                }
                // No route, a full queue of the interface, an answer of ICMP to an earlier one: a packet is lost.
                Err(_) => drop(queue.pop_front()),
            }
        }
        Ok(())
    }

    fn receive(&mut self, _: Instant, each: &mut dyn FnMut(Bytes)) -> io::Result<usize> {
        let local = self.address;
        let taken = self.receiver.receive(&self.socket, |came| {
            if let Some(packet) = with_header(came, local) {
                each(packet);
            }
        });
        match taken {
            Ok(n) => Ok(n),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
            // Of an earlier send.
            Err(Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENETUNREACH | Errno::EMSGSIZE) => Ok(0),
            Err(e) => Err(e.into()),
        }
    }
}

/// Bytes of the IP header at the front of a packet.
fn ip_len(packet: &[u8]) -> Option<usize> {
    match packet.first()? >> 4 {
        4 => Some(IPV4),
        6 => Some(IPV6),
        _ => None,
    }
}

fn tos_of(datagram: &Datagram) -> u8 {
    match datagram.parts()[0] {
        [0x40..=0x4f, tos, ..] => *tos,
        [first @ 0x60..=0x6f, second, ..] => first << 4 | second >> 4,
        _ => 0,
    }
}

/// What of it a socket sends: all behind the UDP header. `None` where it is no packet of IP.
fn going(datagram: &Datagram) -> Option<Going<'_>> {
    let [head, payload, tail] = datagram.parts();
    let ip_len = ip_len(head)?;
    let behind = head.get(ip_len + UDP..)?;
    let port = u16::from_be_bytes([*head.get(ip_len + 2)?, *head.get(ip_len + 3)?]);
    Some(([IoSlice::new(behind), IoSlice::new(payload), IoSlice::new(tail), IoSlice::new(&[])], Some(to(head, port)?)))
}

fn to(head: &[u8], port: u16) -> Option<SockaddrStorage> {
    let at = match ip_len(head)? {
        IPV4 => SocketAddr::new(Ipv4Addr::from(<[u8; 4]>::try_from(head.get(16..20)?).ok()?).into(), port),
        _ => SocketAddr::new(Ipv6Addr::from(<[u8; 16]>::try_from(head.get(24..40)?).ok()?).into(), port),
    };
    Some(SockaddrStorage::from(at))
}

/// The packet with IP and UDP header as its sender wrote them, but for what the CRC leaves out.
fn with_header(came: Came, local: IpAddr) -> Option<Bytes> {
    let Came { mut buffer, from, tos } = came;
    let from = from?;
    let (from, at) = match (from.family()?, local) {
        (nix::sys::socket::AddressFamily::Inet, IpAddr::V4(to)) => {
            let from: &SockaddrIn = from.as_sockaddr_in()?;
            ipv4(&mut buffer, (from.ip(), to), tos)?;
            (from.port(), HEADROOM - UDP - IPV4)
        }
        (nix::sys::socket::AddressFamily::Inet6, IpAddr::V6(to)) => {
            let from: &SockaddrIn6 = from.as_sockaddr_in6()?;
            ipv6(&mut buffer, (from.ip(), to), tos)?;
            (from.port(), HEADROOM - UDP - IPV6)
        }
        _ => return None,
    };
    udp(&mut buffer, from)?;
    if local.is_ipv4() {
        // Where none fits the receiver finds a wrong ICRC.
        ident::restore(buffer.get_mut(at..)?);
    }
    Some(passed_on(buffer, at))
}

fn ipv4(buffer: &mut BytesMut, (from, to): (Ipv4Addr, Ipv4Addr), tos: u8) -> Option<()> {
    let len = u16::try_from(buffer.len() - HEADROOM + UDP + IPV4).ok()?;
    let header = buffer.get_mut(HEADROOM - UDP - IPV4..HEADROOM - UDP)?;
    header.copy_from_slice(&[0x45, tos, 0, 0, 0, 0, 0, 0, TTL, UDP_PROTOCOL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    header[2..4].copy_from_slice(&len.to_be_bytes());
    header[12..16].copy_from_slice(&from.octets());
    header[16..20].copy_from_slice(&to.octets());
    Some(())
}

fn ipv6(buffer: &mut BytesMut, (from, to): (Ipv6Addr, Ipv6Addr), class: u8) -> Option<()> {
    let len = u16::try_from(buffer.len() - HEADROOM + UDP).ok()?;
    let header = buffer.get_mut(HEADROOM - UDP - IPV6..HEADROOM - UDP)?;
    header[..8].copy_from_slice(&[0x60 | class >> 4, class << 4, 0, 0, 0, 0, UDP_PROTOCOL, TTL]);
    header[4..6].copy_from_slice(&len.to_be_bytes());
    header[8..24].copy_from_slice(&from.octets());
    header[24..40].copy_from_slice(&to.octets());
    Some(())
}

fn udp(buffer: &mut BytesMut, from: u16) -> Option<()> {
    let len = u16::try_from(buffer.len() - HEADROOM + UDP).ok()?;
    let header = buffer.get_mut(HEADROOM - UDP..HEADROOM)?;
    header[..2].copy_from_slice(&from.to_be_bytes());
    header[2..4].copy_from_slice(&UDP_PORT.to_be_bytes());
    header[4..6].copy_from_slice(&len.to_be_bytes());
    header[6..8].fill(0);
    Some(())
}
