//! [`Network`] over the system's TCP sockets: blocking calls with timeouts, no runtime, one thread. RDMA where it was given a device
//! ([`RealNetwork::with_rdma`], [`RealNetwork::with_device`]).
//!
//! What it is: how a player or a [`crate::client::HostClient`] reaches a real peer. What it is not: a server (see the target side of
//! this crate), and no place for protocol rules.
//!
//! Two ends that both write and do not read would wait for each other for ever. So [`RealNetwork::send`] reads while the peer does
//! not: what arrives meanwhile waits in a buffer of at most [`Limits::backlog`] bytes and is given by the next `receive`.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use nvmf_seam::rdma::{PlayedDevice, RdmaNetwork};
use nvmf_seam::{Instant, LinkId, Network, OpenError, Received, SendError};
use socket2::SockRef;

use crate::Driver;
use crate::roce::{Line, Player, RealWire};

/// Bounds of a [`RealNetwork`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest time in which a `send` may make no progress before it gives [`SendError::Stalled`].
    pub send_patience: Duration,
    /// Most bytes of a link held while its peer does not read, bytes.
    pub backlog: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { send_patience: Duration::from_secs(30), backlog: 64 << 20 }
    }
}

/// The real world as a player sees it; see the module's text.
#[derive(Debug)]
pub struct RealNetwork {
    begin: std::time::Instant,
    limits: Limits,
    /// Of the next link, those over RDMA among them.
    next: Arc<AtomicU32>,
    links: BTreeMap<LinkId, Link>,
    rdma: Option<Box<dyn Player>>,
}

/// Bytes read by one call.
const READ: usize = 64 << 10;
/// Longest time for which a write blocks before the read side is looked at.
const SLICE: Duration = Duration::from_millis(10);

#[derive(Debug)]
struct Link {
    stream: TcpStream,
    /// Read while sending; given before anything else. At most [`Limits::backlog`] bytes.
    backlog: BytesMut,
    /// The end of the peer's direction, once seen: `true` for a reset.
    end: Option<bool>,
    /// The socket reported a reset to a write, which it then does not report to a read any more.
    write_reset: bool,
}

impl Default for RealNetwork {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl RealNetwork {
    /// Starts the clock: [`Instant::START`] is now.
    pub fn new(limits: Limits) -> Self {
        Self::since(std::time::Instant::now(), limits)
    }

    fn since(begin: std::time::Instant, limits: Limits) -> Self {
        Self { begin, limits, next: Arc::default(), links: BTreeMap::new(), rdma: None }
    }

    /// The same with a NIC on a line of RoCEv2.
    #[must_use]
    pub fn with_rdma(self, line: Line) -> Self {
        let nic = line.player();
        self.with_device(line, nic)
    }

    /// The same with any RDMA device, and what moves it.
    #[must_use]
    pub fn with_device<D, L>(self, line: L, device: D) -> Self
    where
        D: PlayedDevice + std::fmt::Debug + Send + 'static,
        L: Driver<D> + 'static,
    {
        Self { rdma: Some(Box::new(RealWire::desk(line, device, self.begin, self.next.clone()))), ..self }
    }

    /// Makes networks without links and NIC whose clock and limits are those of this one, for other threads.
    pub fn others(&self) -> impl Fn() -> Self + Send + Sync + use<> {
        let (begin, limits) = (self.begin, self.limits);
        move || Self::since(begin, limits)
    }

    /// Address of our end of a link.
    pub fn local_addr(&self, link: LinkId) -> Option<SocketAddr> {
        self.links.get(&link).and_then(|l| l.stream.local_addr().ok())
    }
}

impl Network for RealNetwork {
    fn now(&self) -> Instant {
        Instant::START + self.begin.elapsed()
    }

    fn open(&mut self, to: SocketAddr, patience: Duration) -> Result<LinkId, OpenError> {
        // The system refuses a timeout of zero.
        let stream = TcpStream::connect_timeout(&to, patience.max(Duration::from_millis(1))).map_err(|e| match e.kind() {
            ErrorKind::ConnectionRefused => OpenError::Refused,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => OpenError::Timeout,
            _ => OpenError::Other(e.to_string()),
        })?;
        let other = |e: std::io::Error| OpenError::Other(e.to_string());
        stream.set_nodelay(true).map_err(other)?;
        stream.set_write_timeout(Some(SLICE)).map_err(other)?;
        let id = LinkId(self.next.fetch_add(1, Ordering::Relaxed));
        self.links.insert(id, Link { stream, backlog: BytesMut::new(), end: None, write_reset: false });
        Ok(id)
    }

    fn send(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), SendError> {
        let limits = self.limits;
        self.links.get_mut(&link).ok_or(SendError::Closed)?.send(bytes, limits)
    }

    fn receive(&mut self, link: LinkId, until: Instant) -> Received {
        let begin = self.begin;
        match self.links.get_mut(&link) {
            Some(l) => l.receive(begin, until),
            None => Received::Closed { reset: false },
        }
    }

    fn shutdown(&mut self, link: LinkId) {
        if let Some(l) = self.links.get(&link) {
            // Fails only where the connection is gone, which `receive` tells.
            let _ = l.stream.shutdown(Shutdown::Write);
        }
    }

    fn close(&mut self, link: LinkId, reset: bool) {
        let Some(mut l) = self.links.remove(&link) else { return };
        if reset {
            let _ = SockRef::from(&l.stream).set_linger(Some(Duration::ZERO));
        } else {
            // Unread bytes in the socket would turn the FIN into an RST.
            let _ = l.stream.shutdown(Shutdown::Write);
            l.backlog.clear();
            l.drain(self.limits.backlog);
        }
    }

    fn sleep(&mut self, until: Instant) {
        match &mut self.rdma {
            Some(desk) => desk.idle(until),
            None => std::thread::sleep(until.since(self.now())),
        }
    }

    fn rdma(&mut self) -> Option<&mut dyn RdmaNetwork> {
        self.rdma.as_deref_mut().map(|desk| desk as &mut dyn RdmaNetwork)
    }
}

impl Link {
    fn send(&mut self, mut bytes: &[u8], limits: Limits) -> Result<(), SendError> {
        let mut progress = std::time::Instant::now();
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(SendError::Closed),
                Ok(n) => {
                    bytes = bytes.get(n..).unwrap_or(&[]);
                    progress = std::time::Instant::now();
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if progress.elapsed() >= limits.send_patience {
                        return Err(SendError::Stalled);
                    }
                    self.drain(limits.backlog);
                }
                Err(e) => {
                    self.write_reset |= e.kind() == ErrorKind::ConnectionReset;
                    return Err(SendError::Closed);
                }
            }
        }
        Ok(())
    }

    /// Takes what the socket holds without waiting, up to `limit` bytes held.
    fn drain(&mut self, limit: usize) {
        if self.end.is_some() || self.stream.set_nonblocking(true).is_err() {
            return;
        }
        let mut scratch = [0; 16 << 10];
        while self.end.is_none() && self.backlog.len() < limit {
            let room = scratch.len().min(limit - self.backlog.len());
            match self.stream.read(&mut scratch[..room]) {
                Ok(0) => self.end = Some(self.write_reset),
                Ok(n) => self.backlog.extend_from_slice(&scratch[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.end = Some(true),
            }
        }
        let _ = self.stream.set_nonblocking(false);
    }

    fn receive(&mut self, begin: std::time::Instant, until: Instant) -> Received {
        loop {
            if !self.backlog.is_empty() {
                return Received::Bytes(self.backlog.split().freeze());
            }
            if let Some(reset) = self.end {
                return Received::Closed { reset };
            }
            let left = until.since(Instant::START + begin.elapsed());
            if left.is_zero() {
                // One look without waiting: a player that polls sees what is there.
                self.drain(READ);
                if self.backlog.is_empty() && self.end.is_none() {
                    return Received::Nothing;
                }
                continue;
            }
            if self.stream.set_read_timeout(Some(left.max(Duration::from_micros(1)))).is_err() {
                self.end = Some(true);
                continue;
            }
            let mut scratch = BytesMut::zeroed(READ);
            match self.stream.read(&mut scratch) {
                Ok(0) => self.end = Some(self.write_reset),
                // A small read is copied, so that many of them do not hold a large buffer each.
                Ok(n) if n < READ / 4 => return Received::Bytes(Bytes::copy_from_slice(&scratch[..n])),
                Ok(n) => return Received::Bytes(scratch.split_to(n).freeze()),
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => self.end = Some(true),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    const SECOND: Duration = Duration::from_secs(1);

    fn pair(limits: Limits) -> (RealNetwork, LinkId, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut net = RealNetwork::new(limits);
        let link = net.open(listener.local_addr().unwrap(), SECOND).unwrap();
        (net, link, listener.accept().unwrap().0)
    }

    fn soon(net: &RealNetwork) -> Instant {
        net.now() + 5 * SECOND
    }

    #[test]
    fn a_closed_port_refuses() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(RealNetwork::default().open(gone, SECOND), Err(OpenError::Refused));
    }

    #[test]
    fn a_full_backlog_times_out() {
        // A listener that accepts nothing: once its queue is full, Linux drops further SYNs.
        let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        listener.listen(0).unwrap();
        let to = listener.local_addr().unwrap().as_socket().unwrap();
        let mut net = RealNetwork::default();
        let got: Vec<_> = (0..4).map(|_| net.open(to, Duration::from_millis(100))).collect();
        assert!(got.contains(&Err(OpenError::Timeout)), "{got:?}");
    }

    #[test]
    fn fin_after_bytes_and_it_stays_closed() {
        let (mut net, link, mut peer) = pair(Limits::default());
        peer.write_all(b"abc").unwrap();
        drop(peer);
        let until = soon(&net);
        assert_eq!(net.receive(link, until), Received::Bytes(Bytes::from_static(b"abc")));
        assert_eq!(net.receive(link, until), Received::Closed { reset: false });
        assert_eq!(net.receive(link, until), Received::Closed { reset: false });
    }

    #[test]
    fn rst_is_told_from_fin() {
        let (mut net, link, peer) = pair(Limits::default());
        SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
        drop(peer);
        let until = soon(&net);
        assert_eq!(net.receive(link, until), Received::Closed { reset: true });
    }

    #[test]
    fn rst_seen_first_by_a_write_is_still_a_reset_for_the_reader() {
        let (mut net, link, peer) = pair(Limits::default());
        SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
        drop(peer);
        while net.send(link, b"x").is_ok() {}
        let until = soon(&net);
        assert_eq!(net.receive(link, until), Received::Closed { reset: true });
    }

    #[test]
    fn our_close_is_fin_or_rst_as_asked() {
        for reset in [false, true] {
            let (mut net, link, mut peer) = pair(Limits::default());
            // Unread bytes must not turn a FIN into an RST.
            peer.write_all(&[1; 100]).unwrap();
            thread::sleep(Duration::from_millis(20));
            net.close(link, reset);
            peer.set_read_timeout(Some(5 * SECOND)).unwrap();
            let got = peer.read(&mut [0; 8]);
            match reset {
                false => assert_eq!(got.unwrap(), 0),
                true => assert_eq!(got.unwrap_err().kind(), ErrorKind::ConnectionReset),
            }
            assert_eq!(net.send(link, b"x"), Err(SendError::Closed));
        }
    }

    #[test]
    fn half_close_goes_on_receiving() {
        let (mut net, link, mut peer) = pair(Limits::default());
        net.shutdown(link);
        assert_eq!(peer.read(&mut [0; 8]).unwrap(), 0);
        peer.write_all(b"late").unwrap();
        let until = soon(&net);
        assert_eq!(net.receive(link, until), Received::Bytes(Bytes::from_static(b"late")));
    }

    #[test]
    fn a_byte_at_a_time_arrives_whole() {
        let (mut net, link, mut peer) = pair(Limits::default());
        peer.set_nodelay(true).unwrap();
        let writer = thread::spawn(move || {
            for b in 0..=255u8 {
                peer.write_all(&[b]).unwrap();
            }
        });
        let (mut got, until) = (Vec::new(), soon(&net));
        loop {
            match net.receive(link, until) {
                Received::Bytes(b) => got.extend_from_slice(&b),
                other => {
                    assert_eq!(other, Received::Closed { reset: false });
                    break;
                }
            }
        }
        writer.join().unwrap();
        assert_eq!(got, (0..=255).collect::<Vec<u8>>());
    }

    #[test]
    fn nothing_within_the_time() {
        let (mut net, link, _peer) = pair(Limits::default());
        let until = net.now() + Duration::from_millis(30);
        assert_eq!(net.receive(link, until), Received::Nothing);
        assert!(net.now() >= until);
        assert_eq!(net.receive(link, Instant::START), Received::Nothing);
    }

    #[test]
    fn a_peer_that_never_reads_stalls_the_send() {
        let (mut net, link, _peer) = pair(Limits { send_patience: Duration::from_millis(50), ..Limits::default() });
        let chunk = vec![0; 1 << 20];
        let got = (0..256).map(|_| net.send(link, &chunk)).find(Result::is_err);
        assert_eq!(got, Some(Err(SendError::Stalled)));
    }

    #[test]
    fn both_ends_writing_first_do_not_deadlock() {
        const MANY: usize = 16 << 20;
        let (mut net, link, mut peer) = pair(Limits::default());
        let writer = thread::spawn(move || {
            peer.write_all(&vec![7; MANY]).unwrap();
            let mut got = vec![0; MANY];
            peer.read_exact(&mut got).unwrap();
            got.iter().all(|b| *b == 9)
        });
        net.send(link, &vec![9; MANY]).unwrap();
        let (mut got, until) = (0, soon(&net) + 20 * SECOND);
        while got < MANY {
            match net.receive(link, until) {
                Received::Bytes(b) => {
                    assert!(b.iter().all(|b| *b == 7));
                    got += b.len();
                }
                other => panic!("{other:?} after {got} bytes"),
            }
        }
        assert!(writer.join().unwrap());
    }

    #[test]
    fn the_backlog_is_bounded() {
        let limits = Limits { send_patience: Duration::from_millis(100), backlog: 1 << 16 };
        let (mut net, link, mut peer) = pair(limits);
        let writer = thread::spawn(move || {
            peer.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
            let _ = peer.write_all(&vec![7; 64 << 20]);
            peer
        });
        assert_eq!(net.send(link, &vec![9; 64 << 20]), Err(SendError::Stalled));
        assert_eq!(net.links[&link].backlog.len(), limits.backlog);
        drop(writer.join().unwrap());
    }
}
