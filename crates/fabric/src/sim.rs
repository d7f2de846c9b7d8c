//! [`Sim`]: the clock, the events in order, the target and the links to it.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use nvmf_engine::TcpSettings;
use nvmf_engine::controller::{Hub, HubEvent};
use nvmf_engine::message::ConnectionId;
use nvmf_engine::tcp::{ControllerConnection, Event};
use nvmf_seam::{Instant, LinkId, Network, OpenError, Piped, Received, SendError, Side, SplitMix64, Tap, TapPipe};

use nvmf_wire::Value;

use crate::link::{Arrival, DOWN, Link, UP, segments};
use crate::stage::operate;

/// Makes the tap of a new connection.
pub type TapFactory = Arc<dyn Fn() -> Box<dyn Tap> + Send + Sync>;

/// The target in a [`Sim`].
pub struct SimTarget {
    /// Its controllers and subsystems, with the ports that `listen` names.
    pub hub: Hub,
    /// Of its connections.
    pub tcp: TcpSettings,
    /// Where it listens, and the port (PORTID) that stands for each.
    pub listen: Vec<(SocketAddr, u16)>,
    /// A tap for each connection.
    pub tap: Option<TapFactory>,
}

/// How the wire behaves.
#[derive(Clone, Copy, Debug)]
pub struct SimOptions {
    /// One way.
    pub delay: Duration,
    /// A random time up to this comes on top, for each segment.
    pub jitter: Duration,
    /// Least and most bytes of a segment.
    pub segment: (usize, usize),
    /// Bytes that one direction of a link holds before its sender is stopped.
    pub window: usize,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self { delay: Duration::from_micros(20), jitter: Duration::from_micros(5), segment: (1, 9000), window: 4 * 1024 * 1024 }
    }
}

/// A simulated world with one target and any number of links to it.
pub struct Sim {
    now: Instant,
    options: SimOptions,
    hub: Hub,
    tcp: Arc<TcpSettings>,
    listen: Vec<(SocketAddr, u16)>,
    tap: Option<TapFactory>,
    links: BTreeMap<LinkId, Link>,
    next: u32,
    /// What arrives when; ties in the order of sending.
    heap: BTreeMap<(Instant, u64), (LinkId, Arrival)>,
    count: u64,
    host_random: SplitMix64,
    target_random: SplitMix64,
    hash: u64,
    log: Vec<(Instant, HubEvent)>,
}

impl Sim {
    /// A world at its begin.
    pub fn new(seed: u64, target: SimTarget, options: SimOptions) -> Self {
        Self {
            now: Instant::START,
            options,
            hub: target.hub,
            tcp: Arc::new(target.tcp),
            listen: target.listen,
            tap: target.tap,
            links: BTreeMap::new(),
            next: 0,
            heap: BTreeMap::new(),
            count: 0,
            host_random: SplitMix64::new(seed ^ 0x686f_7374),
            target_random: SplitMix64::new(seed ^ 0x7467_7400),
            hash: 0xcbf2_9ce4_8422_2325,
            log: Vec::new(),
        }
    }

    /// A hash of every segment that arrived so far, with its time: equal for two runs of the same script and seed.
    pub fn trace_hash(&self) -> u64 {
        self.hash
    }

    /// What happened at the target's hub so far, with times.
    pub fn hub_events(&self) -> &[(Instant, HubEvent)] {
        &self.log
    }

    /// Changes what the target serves.
    pub fn with_hub<R>(&mut self, f: impl FnOnce(&mut Hub) -> R) -> R {
        let result = f(&mut self.hub);
        self.settle();
        result
    }

    fn schedule(&mut self, at: Instant, id: LinkId, arrival: Arrival) {
        self.count += 1;
        self.heap.insert((at, self.count), (id, arrival));
    }

    /// Lets everything happen that happens until `until`, or until `enough`.
    fn run(&mut self, until: Instant, enough: impl Fn(&Self) -> bool) {
        self.settle();
        while !enough(self) {
            match self.next_time() {
                Some(at) if at <= until => {
                    self.now = self.now.max(at);
                    self.happen();
                    self.settle();
                }
                _ => {
                    self.now = self.now.max(until);
                    return;
                }
            }
        }
    }

    fn next_time(&self) -> Option<Instant> {
        let timers = self.links.values().flat_map(|l| [l.engine.poll_timeout(), l.tap.as_ref().and_then(TapPipe::poll_timeout)]);
        timers.chain([self.hub.poll_timeout(), self.heap.keys().next().map(|(at, _)| *at)]).flatten().min()
    }

    /// The arrivals and timers of this moment.
    fn happen(&mut self) {
        let now = self.now;
        while let Some(first) = self.heap.first_entry()
            && first.key().0 <= now
        {
            let (id, arrival) = first.remove();
            self.arrive(id, arrival);
        }
        self.hub.handle_timeout(now);
        for l in self.links.values_mut() {
            l.engine.handle_timeout(now);
        }
    }

    fn arrive(&mut self, id: LinkId, arrival: Arrival) {
        self.fold(id, &arrival);
        let now = self.now;
        let Some(l) = self.links.get_mut(&id) else { return };
        match arrival {
            Arrival::ToController(bytes) => l.backlog.push_back(bytes),
            Arrival::ToHost(bytes) if l.released => l.queued[DOWN] -= bytes.len(),
            Arrival::ToHost(bytes) => l.inbox.push_back(bytes),
            Arrival::HostGone if l.tap.as_mut().is_some_and(|tap| tap.hides_end(Side::Host)) => {}
            Arrival::HostGone if !l.done => {
                // What the controller had to say is on its way already; then its end closes too.
                l.done = true;
                l.backlog.clear();
                l.engine.handle_closed(now);
                let at = l.arrival(DOWN, now, &self.options, &mut self.target_random);
                self.schedule(at, id, Arrival::ControllerGone { reset: false });
            }
            Arrival::HostGone => {}
            Arrival::ControllerGone { reset } => l.ended = Some(reset),
        }
    }

    /// FNV-1a over what arrives.
    fn fold(&mut self, id: LinkId, arrival: &Arrival) {
        let (kind, bytes): (u8, &[u8]) = match arrival {
            Arrival::ToController(b) => (0, b),
            Arrival::ToHost(b) => (1, b),
            Arrival::HostGone => (2, &[]),
            Arrival::ControllerGone { .. } => (3, &[]),
        };
        let head = [self.now.0, u64::from(id.0), u64::from(kind)];
        let all = head.iter().flat_map(|w| w.to_le_bytes()).chain(bytes.iter().copied());
        self.hash = all.fold(self.hash, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    }

    /// Moves messages, store requests and bytes until nothing moves.
    fn settle(&mut self) {
        let now = self.now;
        let ids: Vec<LinkId> = self.links.keys().copied().collect();
        loop {
            let mut moved = false;
            for id in &ids {
                moved |= self.turn(*id);
            }
            while let Some((to, message)) = self.hub.poll_message() {
                if let Some(l) = self.links.get_mut(&LinkId(to.0 as u32)) {
                    l.engine.handle_message(now, message);
                }
                moved = true;
            }
            while let Some(event) = self.hub.poll_event() {
                self.log.push((now, event));
            }
            if !moved {
                break;
            }
        }
        self.links.retain(|_, l| !(l.released && l.done && l.ended.is_some()));
    }

    /// One link's turn.
    fn turn(&mut self, id: LinkId) -> bool {
        let now = self.now;
        let Some(l) = self.links.get_mut(&id) else { return false };
        let mut moved = false;
        while l.engine.can_receive()
            && let Some(bytes) = l.backlog.pop_front()
        {
            l.queued[UP] -= bytes.len();
            match &mut l.tap {
                Some(tap) => tap.push(now, Side::Host, &bytes),
                None => l.engine.handle_bytes(now, &bytes),
            }
            moved = true;
        }
        while let Some(message) = l.engine.poll_message() {
            self.hub.handle_message(now, ConnectionId(u64::from(id.0)), message);
            moved = true;
        }
        while let Some(request) = l.engine.poll_store() {
            l.engine.handle_store(now, request.execute());
            moved = true;
        }
        let mut sent = Vec::new();
        let mut close = false;
        while l.queued[DOWN] + sent.iter().map(Bytes::len).sum::<usize>() < self.options.window
            && let Some(t) = l.engine.poll_transmit(now)
        {
            match &mut l.tap {
                Some(tap) => tap.push(now, Side::Controller, &t.to_bytes()),
                None => sent.push(t.to_bytes()),
            }
            moved = true;
        }
        while let Some(tap) = &mut l.tap
            && let Some(piped) = tap.poll(now)
        {
            match piped {
                Piped::To(Side::Host, bytes) => sent.push(bytes),
                Piped::To(Side::Controller, bytes) => l.engine.handle_bytes(now, &bytes),
                Piped::Close => close = true,
            }
            moved = true;
        }
        while let Some(event) = l.engine.poll_event() {
            close |= matches!(event, Event::Close(_));
            moved = true;
        }
        self.emit(id, sent, close);
        moved
    }

    /// Puts what the controller sent on the wire, and its end behind it.
    fn emit(&mut self, id: LinkId, sent: Vec<Bytes>, close: bool) {
        let now = self.now;
        for bytes in sent {
            for piece in segments(&bytes, &self.options, &mut self.target_random) {
                let Some(l) = self.links.get_mut(&id) else { return };
                if l.done {
                    return;
                }
                l.queued[DOWN] += piece.len();
                let at = l.arrival(DOWN, now, &self.options, &mut self.target_random);
                self.schedule(at, id, Arrival::ToHost(piece));
            }
        }
        let Some(l) = self.links.get_mut(&id) else { return };
        if close && !l.done {
            l.done = true;
            l.backlog.clear();
            l.engine.handle_closed(now);
            let at = l.arrival(DOWN, now, &self.options, &mut self.target_random);
            self.schedule(at, id, Arrival::ControllerGone { reset: false });
        }
    }

    fn host_gone(&mut self, id: LinkId) {
        let now = self.now;
        let Some(l) = self.links.get_mut(&id) else { return };
        let at = l.arrival(UP, now, &self.options, &mut self.host_random);
        self.schedule(at, id, Arrival::HostGone);
    }
}

impl Network for Sim {
    fn now(&self) -> Instant {
        self.now
    }

    fn open(&mut self, to: SocketAddr, patience: Duration) -> Result<LinkId, OpenError> {
        let round = self.options.delay * 2;
        if round > patience {
            self.run(self.now + patience, |_| false);
            return Err(OpenError::Timeout);
        }
        self.run(self.now + round, |_| false);
        let Some(port) = self.listen.iter().find(|(at, _)| *at == to).map(|(_, port)| *port) else {
            return Err(OpenError::Refused);
        };
        let id = LinkId(self.next);
        self.next = self.next.checked_add(1).ok_or_else(|| OpenError::Other("more than 2^32 links".into()))?;
        self.hub.open(ConnectionId(u64::from(id.0)), port, Some(to.ip()));
        let engine = ControllerConnection::new(self.now, self.tcp.clone());
        self.links.insert(id, Link::new(engine, self.tap.as_ref().map(|make| TapPipe::new(make()))));
        Ok(id)
    }

    fn send(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), SendError> {
        let bytes = Bytes::copy_from_slice(bytes);
        for piece in segments(&bytes, &self.options, &mut self.host_random) {
            let window = self.options.window;
            let room = |s: &Self| s.links.get(&link).is_none_or(|l| l.queued[UP] < window || l.ended.is_some());
            if !room(self) {
                // The peer's patience is as long as a real sender's would be.
                self.run(self.now + Duration::from_secs(30), room);
            }
            let now = self.now;
            let Some(l) = self.links.get_mut(&link).filter(|l| l.ended.is_none() && !l.released) else {
                return Err(SendError::Closed);
            };
            if l.queued[UP] >= window {
                return Err(SendError::Stalled);
            }
            if l.done {
                // The controller closed, which we cannot know yet: it throws this away.
                continue;
            }
            l.queued[UP] += piece.len();
            let at = l.arrival(UP, now, &self.options, &mut self.host_random);
            self.schedule(at, link, Arrival::ToController(piece));
        }
        Ok(())
    }

    fn receive(&mut self, link: LinkId, until: Instant) -> Received {
        self.run(until, |s| s.links.get(&link).is_none_or(|l| !l.inbox.is_empty() || l.ended.is_some()));
        let Some(l) = self.links.get_mut(&link) else { return Received::Closed { reset: false } };
        if let Some(bytes) = l.inbox.pop_front() {
            l.queued[DOWN] -= bytes.len();
            return Received::Bytes(bytes);
        }
        match l.ended {
            Some(reset) => Received::Closed { reset },
            None => Received::Nothing,
        }
    }

    fn shutdown(&mut self, link: LinkId) {
        self.host_gone(link);
    }

    fn close(&mut self, link: LinkId, _reset: bool) {
        self.host_gone(link);
        if let Some(l) = self.links.get_mut(&link) {
            l.released = true;
            l.queued[DOWN] -= l.inbox.drain(..).map(|b| b.len()).sum::<usize>();
        }
    }

    fn sleep(&mut self, until: Instant) {
        self.run(until, |_| false);
    }

    fn operate(&mut self, verb: &str, with: &[(String, Value)]) -> Result<(), String> {
        self.with_hub(|hub| operate(hub, verb, with))
    }
}
