//! Whole Ethernet frames as a carrier: on an interface by a packet socket, or to a virtual machine by UDP datagrams.
//!
//! Every byte of the IP header is ours. An interface takes the privilege CAP_NET_RAW. QEMU's `-netdev socket,udp=…,localaddr=…` takes none:
//! each datagram on loopback is one frame.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use bytes::Bytes;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, bind, socket};
use nvmf_roce::Datagram;
use nvmf_seam::Instant;
use nvmf_wire::roce::UDP_PORT;

use super::batch::{Going, HEADROOM, Receiver, passed_on, send};
use super::ethernet::{Frame, Mac, Place, Station};
use super::{Carrier, way};

/// Bytes of frames that wait in the system while we are busy.
const BUFFER: usize = 8 << 20;
/// QEMU's socket holds 92 frames of 1.5 KiB where nobody enlarged it. So many go, and then none for a while.
const BURST: usize = 32;
const PAUSE: Duration = Duration::from_millis(1);
/// And no more are under way at all, for a guest may be slow.
const WINDOW: u32 = 64;

/// See the module's text.
pub struct FrameCarrier {
    socket: OwnedFd,
    station: Station,
    mtu: u32,
    pace: Option<Pace>,
    receiver: Receiver,
    /// Keeps the system from answering our packets as ones to a port where nobody is.
    _guard: Option<UdpSocket>,
}

/// For a peer that cannot hold many frames.
struct Pace {
    left: usize,
    again: Option<Instant>,
}

impl FrameCarrier {
    /// On an interface of this machine, with an address of its own there or (`None`) the interface's first.
    pub fn on_interface(name: &str, address: Option<IpAddr>) -> io::Result<Self> {
        let found = way::interface(name)?;
        let own = address.is_none_or(|a| found.addresses.iter().any(|(own, _)| *own == a));
        let chosen = address.or_else(|| found.addresses.first().map(|(own, _)| *own));
        let address = chosen.ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))?;
        let near = found.addresses.iter().find(|(own, _)| *own == address);
        let near = near.or_else(|| found.addresses.iter().find(|(own, _)| own.is_ipv4() == address.is_ipv4()));
        let prefix = near.map_or(if address.is_ipv4() { 24 } else { 64 }, |(_, prefix)| *prefix);
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)?;
        bind(std::os::fd::AsRawFd::as_raw_fd(&socket), &found.link)?;
        way::enlarge(&socket, BUFFER);
        let gateway = way::gateway(name).map(IpAddr::V4).filter(|g| g.is_ipv4() == address.is_ipv4());
        let place = Place { mac: found.mac, address, prefix, gateway, answers: !own };
        let guard = if own { Some(UdpSocket::bind(SocketAddr::new(address, UDP_PORT))?) } else { None };
        Ok(Self::new(socket, place, found.mtu, None, guard))
    }

    /// To a virtual machine whose frames come to our UDP port `ours` of loopback, and which takes them at its port `theirs`.
    pub fn to_qemu(ours: u16, theirs: u16, address: IpAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, ours))?;
        socket.connect((Ipv4Addr::LOCALHOST, theirs))?;
        socket.set_nonblocking(true)?;
        way::enlarge(&socket, BUFFER);
        // All stations are neighbours there.
        let place = Place { mac: made_up(address), address, prefix: 0, gateway: None, answers: true };
        let pace = Pace { left: BURST, again: None };
        Ok(Self::new(socket.into(), place, way::ETHERNET_MTU, Some(pace), None))
    }

    fn new(socket: OwnedFd, place: Place, mtu: u32, pace: Option<Pace>, guard: Option<UdpSocket>) -> Self {
        let station = Station::new(place);
        Self { socket, station, mtu, pace, receiver: Receiver::new(), _guard: guard }
    }

    fn flush(&mut self, now: Instant) {
        if let Some(pace) = &mut self.pace
            && pace.again.is_some_and(|at| at <= now)
        {
            *pace = Pace { left: BURST, again: None };
        }
        loop {
            let most = self.pace.as_ref().map_or(usize::MAX, |p| p.left);
            match send(&self.socket, self.station.frames().map(going).take(most)) {
                Ok(0) => break,
                Ok(n) => {
                    self.station.sent(n);
                    if let Some(pace) = &mut self.pace {
                        pace.left -= n.min(pace.left);
                        // The pause begins with a burst, so that single frames never wait.
                        pace.again.get_or_insert(now + PAUSE);
                    }
                }
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                // Too long, the interface is down, nobody is there: lost as on a wire.
                Err(_) => self.station.sent(1),
            }
        }
    }
}

/// A locally administered address.
fn made_up(address: IpAddr) -> Mac {
    match address {
        IpAddr::V4(v4) => {
            let o = v4.octets();
            [2, 0, o[0], o[1], o[2], o[3]]
        }
        IpAddr::V6(v6) => {
            let o = v6.octets();
            [2, 6, o[12], o[13], o[14], o[15]]
        }
    }
}

fn going(Frame(header, rest): &Frame) -> Going<'_> {
    let [head, payload, tail] = rest.parts();
    ([IoSlice::new(header), IoSlice::new(head), IoSlice::new(payload), IoSlice::new(tail)], None)
}

impl AsFd for FrameCarrier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Carrier for FrameCarrier {
    fn address(&self) -> IpAddr {
        self.station.address()
    }

    fn mtu(&self) -> u32 {
        self.mtu
    }

    fn source_port(&self) -> Option<u16> {
        None
    }

    fn window(&self) -> Option<u32> {
        self.pace.as_ref().map(|_| WINDOW)
    }

    fn send(&mut self, now: Instant, queue: &mut VecDeque<Datagram>) -> io::Result<()> {
        self.station.timeout(now);
        queue.drain(..).for_each(|d| self.station.send(now, d));
        self.flush(now);
        Ok(())
    }

    fn receive(&mut self, now: Instant, each: &mut dyn FnMut(Bytes)) -> io::Result<usize> {
        let station = &mut self.station;
        let taken = self.receiver.receive(&self.socket, |came| {
            if let Some(packet) = station.take(passed_on(came.buffer, HEADROOM)) {
                each(packet);
            }
        });
        // An answer to ARP may have to go, or may have let packets go.
        self.flush(now);
        match taken {
            Ok(n) => Ok(n),
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED | Errno::ENETDOWN) => Ok(0),
            Err(e) => Err(e.into()),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let waiting = self.station.frames().next().is_some();
        let paced = self.pace.as_ref().and_then(|p| p.again).filter(|_| waiting);
        [paced, self.station.due()].into_iter().flatten().min()
    }
}
