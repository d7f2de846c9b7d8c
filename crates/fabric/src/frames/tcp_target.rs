//! The target's TCP connections: what [`crate::Sim`] does with streams in memory, on real segments.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use nvmf_engine::TcpSettings;
use nvmf_engine::controller::Hub;
use nvmf_engine::message::{ConnectionId, ToConnection};
use nvmf_engine::tcp::{ControllerConnection, Event};
use nvmf_seam::{Instant, Piped, Side, TapPipe};

use crate::TapFactory;
use crate::station::{Handle, Read, Tcp};

/// Bytes that wait for room in a socket before the engine is asked for no more.
const FULL: usize = 256 << 10;

struct Connection {
    handle: Handle,
    engine: ControllerConnection,
    tap: Option<TapPipe>,
    out: VecDeque<Bytes>,
    out_bytes: usize,
    /// The engine's side is over: what waits still goes out, then the connection is let go.
    over: bool,
    /// Bytes and the end of the host are not looked at any more.
    deaf: bool,
}

pub(super) struct TcpTarget {
    settings: Arc<TcpSettings>,
    listen: Vec<(SocketAddr, u16)>,
    tap: Option<TapFactory>,
    connections: BTreeMap<ConnectionId, Connection>,
}

impl TcpTarget {
    pub fn new(settings: TcpSettings, listen: Vec<(SocketAddr, u16)>, tap: Option<TapFactory>) -> Self {
        Self { settings: Arc::new(settings), listen, tap, connections: BTreeMap::new() }
    }

    /// Takes connections that came up.
    pub fn accept(&mut self, now: Instant, tcp: &mut Tcp, hub: &mut Hub, next: &mut u64) {
        while let Some((handle, at)) = tcp.accept() {
            let Some(port) = self.listen.iter().find(|(a, _)| *a == at).map(|(_, port)| *port) else {
                tcp.release(handle, true);
                continue;
            };
            let id = ConnectionId(*next);
            *next += 1;
            hub.open(id, port, Some(at.ip()));
            let engine = ControllerConnection::new(now, self.settings.clone());
            let tap = self.tap.as_ref().map(|make| TapPipe::new(make()));
            let out = VecDeque::new();
            self.connections.insert(id, Connection { handle, engine, tap, out, out_bytes: 0, over: false, deaf: false });
        }
    }

    /// A message of the hub. It comes too late for a connection that is gone.
    pub fn message(&mut self, now: Instant, to: ConnectionId, message: ToConnection) {
        if let Some(c) = self.connections.get_mut(&to) {
            c.engine.handle_message(now, message);
        }
    }

    /// Moves bytes, messages and store requests; true where something moved.
    pub fn turn(&mut self, now: Instant, tcp: &mut Tcp, hub: &mut Hub) -> bool {
        let mut moved = false;
        for (id, c) in &mut self.connections {
            moved |= c.turn(now, *id, tcp, hub);
        }
        self.connections.retain(|_, c| {
            let gone = c.over && (c.out.is_empty() || !tcp.may_send(c.handle));
            if gone {
                tcp.release(c.handle, false);
            }
            !gone
        });
        moved
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        self.connections.values_mut().for_each(|c| c.engine.handle_timeout(now));
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        let timers =
            self.connections.values().flat_map(|c| [c.engine.poll_timeout(), c.tap.as_ref().and_then(TapPipe::poll_timeout)]);
        timers.flatten().min()
    }
}

impl Connection {
    fn turn(&mut self, now: Instant, id: ConnectionId, tcp: &mut Tcp, hub: &mut Hub) -> bool {
        let mut moved = self.receive(now, tcp);
        while let Some(message) = self.engine.poll_message() {
            hub.handle_message(now, id, message);
            moved = true;
        }
        while let Some(request) = self.engine.poll_store() {
            self.engine.handle_store(now, request.execute());
            moved = true;
        }
        while self.out_bytes < FULL
            && let Some(t) = self.engine.poll_transmit(now)
        {
            match &mut self.tap {
                Some(tap) => tap.push(now, Side::Controller, &t.to_bytes()),
                None => self.push(t.to_bytes()),
            }
            moved = true;
        }
        while let Some(piped) = self.tap.as_mut().and_then(|t| t.poll(now)) {
            match piped {
                Piped::To(Side::Host, bytes) => self.push(bytes),
                Piped::To(Side::Controller, bytes) => self.engine.handle_bytes(now, &bytes),
                Piped::Close => self.end(now),
            }
            moved = true;
        }
        while let Some(event) = self.engine.poll_event() {
            if matches!(event, Event::Close(_)) {
                self.end(now);
            }
            moved = true;
        }
        moved | self.send(tcp)
    }

    fn receive(&mut self, now: Instant, tcp: &mut Tcp) -> bool {
        let mut moved = false;
        while !self.over && !self.deaf && self.engine.can_receive() {
            match tcp.receive(self.handle) {
                Read::Bytes(b) => match &mut self.tap {
                    Some(tap) => tap.push(now, Side::Host, &b),
                    None => self.engine.handle_bytes(now, &b),
                },
                Read::Nothing => break,
                Read::Closed { reset: false } if self.tap.as_mut().is_some_and(|t| t.hides_end(Side::Host)) => self.deaf = true,
                Read::Closed { .. } => self.end(now),
            }
            moved = true;
        }
        moved
    }

    fn end(&mut self, now: Instant) {
        if !self.over {
            self.over = true;
            self.engine.handle_closed(now);
        }
    }

    fn push(&mut self, bytes: Bytes) {
        self.out_bytes += bytes.len();
        self.out.push_back(bytes);
    }

    fn send(&mut self, tcp: &mut Tcp) -> bool {
        let mut moved = false;
        while let Some(first) = self.out.front_mut() {
            let n = tcp.send(self.handle, first);
            moved |= n > 0;
            self.out_bytes -= n;
            if n < first.len() {
                let _ = first.split_to(n);
                break;
            }
            self.out.pop_front();
        }
        moved
    }
}
