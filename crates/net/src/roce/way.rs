//! Which carrier, and what the system knows of interfaces and routes.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::str::FromStr;

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{LinkAddr, SockaddrStorage, getsockopt, setsockopt, sockopt};

use nvmf_engine::RdmaSettings;

use super::ethernet::Mac;
use super::{Carrier, FrameCarrier, Line, UdpCarrier};
use crate::driver::{Driver, NicSource, PacketTap};
use crate::real::RealNetwork;
use crate::target::ServedDevice;

/// Bytes of an IP packet in a frame of usual length.
pub(super) const ETHERNET_MTU: u32 = 1500;

mod options {
    use nix::{getsockopt_impl, sockopt_impl};

    sockopt_impl!(
        /// What the system knows of the way to a connected socket's peer.
        Ipv6Mtu, GetOnly, libc::IPPROTO_IPV6, libc::IPV6_MTU, libc::c_int
    );
}

/// How RoCEv2 goes out without a device: `udp`, `raw:INTERFACE`, `raw:INTERFACE:ADDRESS` or `qemu:OURS:THEIRS:ADDRESS`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// A socket on UDP port 4791.
    #[default]
    Udp,
    /// Frames on an interface.
    Raw {
        /// Its name.
        interface: String,
        /// An address that nobody has; `None` for the interface's first.
        address: Option<IpAddr>,
    },
    /// Frames to a virtual machine of QEMU's (`-netdev socket,udp=127.0.0.1:OURS,localaddr=127.0.0.1:THEIRS`).
    Qemu {
        /// Our port of loopback.
        ours: u16,
        /// Its port of loopback.
        theirs: u16,
        /// Our address among the machine's neighbours.
        address: IpAddr,
    },
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected udp, raw:INTERFACE, raw:INTERFACE:ADDRESS or qemu:OUR-PORT:ITS-PORT:ADDRESS";
        let address = |text: &str| text.parse::<IpAddr>().map_err(|_| format!("`{text}` is no IP address: {expected}"));
        let port =
            |text: &str| text.parse::<u16>().ok().filter(|p| *p > 0).ok_or_else(|| format!("`{text}` is no port: {expected}"));
        match text.split_once(':').unwrap_or((text, "")) {
            ("udp", "") => Ok(Self::Udp),
            ("raw", rest) if !rest.is_empty() => {
                let (interface, own) = rest.split_once(':').map_or((rest, None), |(i, a)| (i, Some(a)));
                Ok(Self::Raw { interface: interface.to_owned(), address: own.map(address).transpose()? })
            }
            ("qemu", rest) => match rest.splitn(3, ':').collect::<Vec<_>>()[..] {
                [ours, theirs, own] => Ok(Self::Qemu { ours: port(ours)?, theirs: port(theirs)?, address: address(own)? }),
                _ => Err(expected.into()),
            },
            _ => Err(expected.into()),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp => f.write_str("udp"),
            Self::Raw { interface, address: None } => write!(f, "raw:{interface}"),
            Self::Raw { interface, address: Some(own) } => write!(f, "raw:{interface}:{own}"),
            Self::Qemu { ours, theirs, address } => write!(f, "qemu:{ours}:{theirs}:{address}"),
        }
    }
}

/// Why there is no carrier, in one line that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFault {
    kind: io::ErrorKind,
    text: String,
}

impl OpenFault {
    fn new(kind: io::ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

impl fmt::Display for OpenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for OpenFault {}

impl From<OpenFault> for io::Error {
    fn from(fault: OpenFault) -> Self {
        Self::new(fault.kind, fault)
    }
}

impl Way {
    /// A carrier at `local`, where an address was chosen; else at the one by which `peer` is reached. A peer on loopback is met from the
    /// first address of loopback that is free.
    pub fn open(&self, local: Option<IpAddr>, peer: Option<IpAddr>) -> Result<Box<dyn Carrier>, OpenFault> {
        match self {
            Self::Udp => udp(local, peer),
            Self::Raw { interface, address } => {
                let opened = FrameCarrier::on_interface(interface, address.or(local));
                opened.map(boxed).map_err(|e| OpenFault::new(e.kind(), raw_fault(interface, &e)))
            }
            Self::Qemu { ours, theirs, address } => {
                let opened = FrameCarrier::to_qemu(*ours, *theirs, *address);
                opened
                    .map(boxed)
                    .map_err(|e| OpenFault::new(e.kind(), format!("--nic {self}: port {ours} of loopback cannot be bound: {e}")))
            }
        }
    }
}

impl NicSource for Way {
    fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Udp => None,
            Self::Raw { address, .. } => *address,
            Self::Qemu { address, .. } => Some(*address),
        }
    }

    fn at(&self, address: IpAddr, settings: &RdmaSettings) -> io::Result<ServedDevice> {
        let line = Line::new(self.open(Some(address), None)?);
        let nic = line.nic();
        ServedDevice::new(line, nic, settings)
    }

    fn equip(&self, network: RealNetwork, peer: IpAddr, tap: Option<PacketTap>) -> io::Result<RealNetwork> {
        let mut line = Line::new(self.open(None, Some(peer))?);
        tap.into_iter().for_each(|tap| line.tap(tap));
        Ok(network.with_rdma(line))
    }
}

fn boxed<C: Carrier + 'static>(carrier: C) -> Box<dyn Carrier> {
    Box::new(carrier)
}

fn udp(local: Option<IpAddr>, peer: Option<IpAddr>) -> Result<Box<dyn Carrier>, OpenFault> {
    let mut carrier = match (local, peer) {
        (Some(local), _) => bind(local)?,
        (None, Some(IpAddr::V4(peer))) if peer.is_loopback() => beside(peer)?,
        (None, Some(peer)) => {
            let local = address_towards(peer).map_err(|e| OpenFault::new(e.kind(), format!("there is no route to {peer}: {e}")))?;
            bind(local)?
        }
        (None, None) => {
            let why = "RDMA needs an address of this machine: none was given, and no peer";
            return Err(OpenFault::new(io::ErrorKind::InvalidInput, why));
        }
    };
    peer.into_iter().for_each(|peer| carrier.towards(peer));
    Ok(boxed(carrier))
}

fn bind(local: IpAddr) -> Result<UdpCarrier, OpenFault> {
    if local.is_unspecified() {
        let why = format!(
            "RDMA cannot listen on {local}: the ICRC covers the address that a packet was sent to, so name one of this machine's"
        );
        return Err(OpenFault::new(io::ErrorKind::InvalidInput, why));
    }
    UdpCarrier::bind(local).map_err(|e| OpenFault::new(e.kind(), udp_fault(local, &e)))
}

/// Another address of loopback than `peer`: as it is the whole of 127.0.0.0/8, there is one for every program.
fn beside(peer: Ipv4Addr) -> Result<UdpCarrier, OpenFault> {
    let mut last = (peer, io::ErrorKind::AddrInUse.into());
    for n in 2..=254 {
        let local = Ipv4Addr::new(127, 0, peer.octets()[2], n);
        if local != peer {
            match UdpCarrier::bind(local.into()) {
                Ok(carrier) => return Ok(carrier),
                Err(e) => last = (local, e),
            }
        }
    }
    let (local, e): (Ipv4Addr, io::Error) = last;
    Err(OpenFault::new(e.kind(), udp_fault(local.into(), &e)))
}

fn udp_fault(local: IpAddr, e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::AddrInUse => format!(
            "UDP port 4791 of {local} is taken: end the program that speaks RoCEv2 there, remove soft-RoCE from the interface (`rdma link \
             delete`), or choose `--nic raw:INTERFACE:ADDRESS`"
        ),
        io::ErrorKind::AddrNotAvailable => format!("{local} is no address of this machine: `ip address` lists them"),
        _ => format!("UDP port 4791 of {local} cannot be bound: {e}"),
    }
}

fn raw_fault(interface: &str, e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "raw frames on {interface} need the privilege CAP_NET_RAW: run as root, or `setcap cap_net_raw+ep` on the program, or choose \
             `--nic udp`"
        ),
        io::ErrorKind::NotFound => format!("there is no interface {interface}: `ip link` lists them"),
        io::ErrorKind::AddrNotAvailable => {
            format!("{interface} has no IP address: choose one that nobody has by `--nic raw:{interface}:ADDRESS`")
        }
        io::ErrorKind::AddrInUse => format!(
            "UDP port 4791 of {interface} is taken: end the program that speaks RoCEv2 there, or choose an address that nobody has by \
             `--nic raw:{interface}:ADDRESS`"
        ),
        _ => format!("raw frames on {interface}: {e}"),
    }
}

/// Our address on the way to a peer.
pub fn address_towards(peer: IpAddr) -> io::Result<IpAddr> {
    towards(peer)?.local_addr().map(|at| at.ip())
}

/// A socket that sends nothing: connecting one asks the system for a route.
fn towards(peer: IpAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(SocketAddr::new(peer, nvmf_wire::roce::UDP_PORT))?;
    Ok(socket)
}

/// Bytes of an IP packet that the route to a peer carries.
pub(super) fn route_mtu(peer: IpAddr) -> Option<u32> {
    let socket = towards(peer).ok()?;
    let mtu = if peer.is_ipv4() { getsockopt(&socket, sockopt::IpMtu) } else { getsockopt(&socket, options::Ipv6Mtu) };
    u32::try_from(mtu.ok()?).ok()
}

/// Bytes of an IP packet on the interface that has an address.
pub(super) fn mtu_of(address: IpAddr) -> Option<u32> {
    let loopback = match address {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_loopback(),
    };
    let has = |a: &nix::ifaddrs::InterfaceAddress| {
        let own = a.address.and_then(ip).map(|(ip, _)| ip);
        // All of 127.0.0.0/8 is loopback's.
        own == Some(address) || (loopback && own.is_some_and(|o| o == IpAddr::V4(Ipv4Addr::LOCALHOST)))
    };
    mtu_by_name(&getifaddrs().ok()?.find(has)?.interface_name)
}

fn mtu_by_name(interface: &str) -> Option<u32> {
    std::fs::read_to_string(format!("/sys/class/net/{interface}/mtu")).ok()?.trim().parse().ok()
}

/// An interface of this machine.
pub(super) struct Interface {
    pub link: LinkAddr,
    pub mac: Mac,
    pub mtu: u32,
    /// Its IP addresses, with the bits that its neighbours share.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// The interface of this name.
pub(super) fn interface(name: &str) -> io::Result<Interface> {
    let all: Vec<_> = getifaddrs()?.filter(|a| a.interface_name == name).collect();
    let link = all.iter().find_map(|a| a.address.as_ref()?.as_link_addr().copied()).ok_or(io::ErrorKind::NotFound)?;
    let addresses = all
        .iter()
        .filter_map(|a| {
            let mask = a.netmask.and_then(ip).map(|(_, ones)| ones);
            a.address.and_then(ip).map(|(ip, _)| (ip, mask.unwrap_or(0)))
        })
        .collect();
    let mac = link.addr().unwrap_or_default();
    Ok(Interface { link, mac, mtu: mtu_by_name(name).unwrap_or(ETHERNET_MTU), addresses })
}

/// An IP address, and how many bits of it are set: of a mask, its length.
fn ip(storage: SockaddrStorage) -> Option<(IpAddr, u8)> {
    if let Some(v4) = storage.as_sockaddr_in() {
        return Some((v4.ip().into(), u32::from(v4.ip()).count_ones() as u8));
    }
    let v6 = storage.as_sockaddr_in6()?;
    Some((v6.ip().into(), u128::from(v6.ip()).count_ones() as u8))
}

/// The default gateway of an interface over IPv4. [proc_pid_net(5), route]
pub(super) fn gateway(interface: &str) -> Option<Ipv4Addr> {
    let table = std::fs::read_to_string("/proc/net/route").ok()?;
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, "00000000", gateway, ..] = fields[..] else { return None };
        let gateway = u32::from_str_radix(gateway, 16).ok().filter(|g| *g != 0)?;
        // As it lies in memory: the order of the network, printed as a number of this machine.
        (name == interface).then(|| Ipv4Addr::from(gateway.to_ne_bytes()))
    })
}

/// Lets the system hold more for a socket, as far as it allows.
pub(super) fn enlarge(socket: &impl AsFd, bytes: usize) {
    if setsockopt(socket, sockopt::RcvBufForce, &bytes) == Err(Errno::EPERM) {
        let _ = setsockopt(socket, sockopt::RcvBuf, &bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_read_and_shown() {
        for text in ["udp", "raw:eth0", "raw:eth0:10.9.0.7", "qemu:17001:17002:10.9.0.1", "qemu:1:2:fd00::1", "raw:e:fd00::1"] {
            assert_eq!(text.parse::<Way>().map(|w| w.to_string()).as_deref(), Ok(text));
        }
        for wrong in ["", "udp:", "tcp", "raw", "raw:", "raw:eth0:x", "qemu", "qemu:1:2", "qemu:0:2:10.0.0.1", "qemu:1:2:10.0.0"] {
            if wrong != "udp:" {
                assert!(wrong.parse::<Way>().is_err(), "{wrong}");
            }
        }
    }

    #[test]
    fn each_fault_is_one_line_that_says_what_to_do() {
        let told =
            |way: &str, local: &str| way.parse::<Way>().unwrap().open(Some(local.parse().unwrap()), None).err().unwrap().text;
        let (_held, local) = match udp(None, Some(Ipv4Addr::LOCALHOST.into())) {
            Ok(carrier) => (carrier.address(), carrier),
            Err(e) => panic!("{e}"),
        };
        let taken = told("udp", &local.address().to_string());
        assert!(taken.contains("is taken: end the program") && !taken.contains('\n'), "{taken}");
        assert!(told("udp", "192.0.2.77").contains("no address of this machine"));
        assert!(told("udp", "0.0.0.0").contains("name one of this machine's"));
        assert!(told("raw:no-such-0", "10.0.0.1").contains("no interface no-such-0"));
        assert!(raw_fault("eth0", &io::ErrorKind::PermissionDenied.into()).contains("CAP_NET_RAW"));
    }

    #[test]
    fn loopback_carries_the_largest_path_mtu() {
        let mtu = mtu_of(Ipv4Addr::new(127, 0, 3, 9).into()).expect("a loopback interface");
        assert!(mtu >= 4096 + 96, "{mtu}");
    }
}
