//! [`Tcp`]: the TCP of a station, which is smoltcp's, on IP packets.
//!
//! Segments, windows and retransmission are real. What smoltcp does not have: SACK, timestamps, congestion control (it can; Reno and
//! CUBIC are off), and a retransmission timeout below one second. So no claim about the tails of TCP can be made with it.

use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

use bytes::Bytes;
use nvmf_seam::Instant;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{RecvError, Socket, SocketBuffer, State};
use smoltcp::time::Instant as Micros;
use smoltcp::wire::{HardwareAddress, IpCidr};

/// One connection of a [`Tcp`].
pub(crate) type Handle = SocketHandle;

/// Connections that are not taken yet, for each address that is listened on.
const BACKLOG: usize = 16;
/// Packets that wait to be sent.
const OUT_MAX: usize = 256;
/// First port that is chosen for a connection of ours [RFC 6335, 6].
const FIRST_PORT: u16 = 49_152;

/// What came of reading.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Bytes(Bytes),
    Nothing,
    /// The other side ended its direction (FIN), or (`reset`) the connection.
    Closed {
        reset: bool,
    },
}

pub(crate) struct Tcp {
    interface: Interface,
    sockets: SocketSet<'static>,
    packets: Packets,
    buffer: usize,
    listening: Vec<(SocketAddr, Vec<Handle>)>,
    /// Let go of; they go once they are closed.
    released: Vec<Handle>,
    next_port: u16,
}

impl Tcp {
    /// A station's TCP. `mtu`: bytes of an IP packet; `buffer`: bytes of each direction of a connection.
    pub fn new(addresses: &[IpAddr], mtu: usize, buffer: usize, seed: u64) -> Self {
        let mut packets = Packets { incoming: VecDeque::new(), outgoing: VecDeque::new(), mtu };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut packets, Micros::ZERO);
        interface.update_ip_addrs(|all| {
            for a in addresses {
                // everything is on the link: neighbours are the station's business
                let _ = all.push(IpCidr::new((*a).into(), 0));
            }
        });
        Self {
            interface,
            sockets: SocketSet::new(Vec::new()),
            packets,
            buffer,
            listening: Vec::new(),
            released: Vec::new(),
            next_port: FIRST_PORT,
        }
    }

    fn socket(&self) -> Socket<'static> {
        let buffer = || SocketBuffer::new(vec![0; self.buffer]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        // an acknowledgement of its own for every segment would hide nothing, but for each small PDU cost a frame
        socket.set_ack_delay(Some(smoltcp::time::Duration::from_micros(50)));
        socket
    }

    /// Listens on an address of the station.
    pub fn listen(&mut self, at: SocketAddr) {
        self.listening.push((at, Vec::new()));
        self.fill();
    }

    /// Sees to it that there is a socket for the next connection wherever it is listened.
    fn fill(&mut self) {
        for i in 0..self.listening.len() {
            let (at, handles) = &self.listening[i];
            let free = handles.iter().any(|h| self.sockets.get::<Socket>(*h).is_listening());
            if free || handles.len() >= BACKLOG {
                continue;
            }
            let at = *at;
            let mut socket = self.socket();
            if socket.listen((at.ip(), at.port())).is_ok() {
                let handle = self.sockets.add(socket);
                self.listening[i].1.push(handle);
            }
        }
    }

    /// A connection that came up, with the address that it came to.
    pub fn accept(&mut self) -> Option<(Handle, SocketAddr)> {
        for (at, handles) in &mut self.listening {
            // those that failed before they came up
            handles.retain(|h| {
                let gone = self.sockets.get::<Socket>(*h).state() == State::Closed;
                if gone {
                    self.sockets.remove(*h);
                }
                !gone
            });
            let up = |h: &Handle| {
                let socket = self.sockets.get::<Socket>(*h);
                socket.may_send() || socket.state() == State::CloseWait
            };
            if let Some(i) = handles.iter().position(up) {
                let handle = handles.remove(i);
                let at = *at;
                self.fill();
                return Some((handle, at));
            }
        }
        self.fill();
        None
    }

    /// Begins a connection.
    pub fn connect(&mut self, to: SocketAddr) -> Option<Handle> {
        let mut socket = self.socket();
        let port = self.next_port;
        self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_PORT);
        socket.connect(self.interface.context(), (to.ip(), to.port()), port).ok()?;
        Some(self.sockets.add(socket))
    }

    /// A connection is neither up nor over yet.
    pub fn is_opening(&self, handle: Handle) -> bool {
        matches!(self.sockets.get::<Socket>(handle).state(), State::SynSent | State::SynReceived)
    }

    /// A connection came up, and is not broken off.
    pub fn is_up(&self, handle: Handle) -> bool {
        self.sockets.get::<Socket>(handle).is_active()
    }

    /// There is something to be had by [`Tcp::receive`].
    pub fn has_news(&self, handle: Handle) -> bool {
        let socket = self.sockets.get::<Socket>(handle);
        socket.can_recv() || !socket.may_recv()
    }

    /// There is room for bytes.
    pub fn has_room(&self, handle: Handle) -> bool {
        self.sockets.get::<Socket>(handle).can_send()
    }

    /// Bytes can be sent, now or later.
    pub fn may_send(&self, handle: Handle) -> bool {
        self.sockets.get::<Socket>(handle).may_send()
    }

    /// Takes as many bytes as there is room for.
    pub fn send(&mut self, handle: Handle, bytes: &[u8]) -> usize {
        self.sockets.get_mut::<Socket>(handle).send_slice(bytes).unwrap_or(0)
    }

    /// Bytes that came, in order.
    pub fn receive(&mut self, handle: Handle) -> Read {
        let socket = self.sockets.get_mut::<Socket>(handle);
        match socket.recv(|b| (b.len(), Bytes::copy_from_slice(b))) {
            Ok(b) if b.is_empty() => Read::Nothing,
            Ok(b) => Read::Bytes(b),
            Err(RecvError::Finished) => Read::Closed { reset: false },
            Err(RecvError::InvalidState) => Read::Closed { reset: true },
        }
    }

    /// Ends our direction, behind what was given to be sent.
    pub fn shutdown(&mut self, handle: Handle) {
        self.sockets.get_mut::<Socket>(handle).close();
    }

    /// Lets go of a connection: it is ended, or (`reset`) broken off.
    pub fn release(&mut self, handle: Handle, reset: bool) {
        let socket = self.sockets.get_mut::<Socket>(handle);
        match reset {
            true => socket.abort(),
            false => socket.close(),
        }
        self.released.push(handle);
    }

    /// An IP packet with TCP in it came.
    pub fn handle_packet(&mut self, packet: Bytes) {
        self.packets.incoming.push_back(packet);
    }

    /// Lets what came and what is due have its effects.
    pub fn turn(&mut self, now: Instant) {
        if self.sockets.iter().next().is_none() && self.packets.incoming.is_empty() {
            return;
        }
        self.interface.poll(micros(now), &mut self.packets, &mut self.sockets);
        self.released.retain(|h| {
            let socket = self.sockets.get_mut::<Socket>(*h);
            // what still comes is for nobody
            let _ = socket.recv(|b| (b.len(), ()));
            // a socket that waits for late segments can go: ports are not used again so soon
            let over = matches!(socket.state(), State::Closed | State::TimeWait);
            if over {
                self.sockets.remove(*h);
            }
            !over
        });
    }

    /// The next packet to be sent.
    pub fn poll_packet(&mut self) -> Option<Bytes> {
        self.packets.outgoing.pop_front()
    }

    /// When [`Tcp::turn`] has something to do.
    pub fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        let at = self.interface.poll_at(micros(now), &self.sockets)?;
        let at = Instant(u64::try_from(at.total_micros()).unwrap_or(0).saturating_mul(1000));
        // what cannot go out now (the queue is full) is tried again a little later
        Some(if at <= now { now + core::time::Duration::from_micros(10) } else { at })
    }
}

fn micros(now: Instant) -> Micros {
    Micros::from_micros(i64::try_from(now.0 / 1000).unwrap_or(i64::MAX))
}

/// smoltcp's device: packets that came, packets to go.
struct Packets {
    incoming: VecDeque<Bytes>,
    outgoing: VecDeque<Bytes>,
    mtu: usize,
}

impl Device for Packets {
    type RxToken<'a> = Incoming;
    type TxToken<'a> = Outgoing<'a>;

    fn receive(&mut self, _: Micros) -> Option<(Incoming, Outgoing<'_>)> {
        let packet = self.incoming.pop_front()?;
        Some((Incoming(packet), Outgoing(&mut self.outgoing)))
    }

    fn transmit(&mut self, _: Micros) -> Option<Outgoing<'_>> {
        (self.outgoing.len() < OUT_MAX).then_some(Outgoing(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut c = DeviceCapabilities::default();
        c.medium = Medium::Ip;
        c.max_transmission_unit = self.mtu;
        c
    }
}

struct Incoming(Bytes);

impl RxToken for Incoming {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

struct Outgoing<'a>(&'a mut VecDeque<Bytes>);

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push_back(packet.into());
        result
    }
}
