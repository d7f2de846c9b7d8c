//! A network of Ethernet frames: stations, switches and links on one virtual clock.
//!
//! It knows MAC addresses, priorities and MAC control; what is in a frame is the stations' business. [`Lan`] moves only when its owner calls
//! [`Lan::step`], so that stations and their timers have their turns between. A run is a function of what is sent and the seed.
//! Read [`Lan`], then [`LinkSettings`], [`LinkFault`] and [`SwitchSettings`].

mod frame;
mod link;
mod pause;
mod port;
mod record;
mod stats;
mod stuck;
mod switch;

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;

use nvmf_seam::{Entropy, Instant, SplitMix64};

pub use frame::{BROADCAST, Body, Frame, Mac, ethertype};
pub use link::{LinkFault, LinkSettings, PerMillion, Wrong};
pub use record::CaptureFile;
pub use stats::PortStats;
pub use stuck::PortView;
pub use switch::{EcnSettings, PfcSettings, SwitchSettings};

use link::Way;
use port::{Frames, Held, Owner, Port};
use record::Recorder;
use switch::Switch;

/// A node of the network: a station or a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// Sends and receives; it has one port.
    Station(u32),
    /// Forwards.
    Switch(u32),
}

/// A link; its ends are 0 and 1, in the order in which they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link(u32);

#[derive(Debug)]
struct Station {
    name: String,
    mac: Mac,
    port: Option<u32>,
}

/// A station that asks for silence again and again, as a broken NIC does.
#[derive(Clone, Copy, Debug)]
struct Storm {
    port: u32,
    priority: u8,
    until: Instant,
}

#[derive(Clone, Copy, Debug)]
enum Happens {
    /// A frame is at a port.
    Arrive { port: u32, frame: u32 },
    /// A port may have something to send.
    Ready { port: u32 },
    /// A pause that is asked for lasts on.
    Refresh { port: u32, priority: u8 },
    /// A [`Storm`].
    Storm(u32),
}

#[derive(Debug)]
struct Event {
    at: Instant,
    number: u64,
    what: Happens,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// The network.
#[derive(Debug)]
pub struct Lan {
    now: Instant,
    seed: u64,
    stations: Vec<Station>,
    switches: Vec<(Switch, String)>,
    /// The ends of link k are 2k and 2k+1.
    ports: Vec<Port>,
    frames: Frames,
    heap: BinaryHeap<Reverse<Event>>,
    count: u64,
    storms: Vec<Storm>,
    recorder: Option<Recorder>,
    /// Frames on links that are watched.
    seen: VecDeque<(Instant, Frame)>,
    hash: u64,
}

impl Lan {
    /// A network without anything in it.
    pub fn new(seed: u64) -> Self {
        Self {
            now: Instant::START,
            seed,
            stations: Vec::new(),
            switches: Vec::new(),
            ports: Vec::new(),
            frames: Frames::default(),
            heap: BinaryHeap::new(),
            count: 0,
            storms: Vec::new(),
            recorder: None,
            seen: VecDeque::new(),
            hash: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// Adds a station.
    pub fn station(&mut self, name: &str, mac: Mac) -> Node {
        self.stations.push(Station { name: name.into(), mac, port: None });
        Node::Station(self.stations.len() as u32 - 1)
    }

    /// Adds a switch.
    pub fn switch(&mut self, name: &str, settings: SwitchSettings) -> Node {
        let number = self.switches.len() as u32;
        self.switches.push((Switch::new(settings, self.stream(0x5317_0000 | u64::from(number))), name.into()));
        Node::Switch(number)
    }

    /// Adds a link; `ways`: from the first to the second and back. `None` where a node is not of this network, or a station that has a
    /// link already.
    pub fn link(&mut self, ends: [Node; 2], ways: [LinkSettings; 2]) -> Option<Link> {
        let first = self.ports.len() as u32;
        for (i, node) in ends.into_iter().enumerate() {
            let number = first + i as u32;
            let way = Way::new(ways[i], self.stream(0x1149_0000 | u64::from(number)));
            let (owner, name, mac) = match node {
                Node::Station(s) => {
                    let s = self.stations.get(s as usize).filter(|s| s.port.is_none())?;
                    (Owner::Station, s.name.clone(), s.mac)
                }
                Node::Switch(s) => {
                    let name = self.switches.get(s as usize)?.1.clone();
                    (Owner::Switch(s), name, [2, 0xff, (s >> 8) as u8, s as u8, (number >> 8) as u8, number as u8])
                }
            };
            self.ports.push(Port::new(owner, name, mac, way));
        }
        for (i, node) in ends.into_iter().enumerate() {
            match node {
                Node::Station(s) => self.stations[s as usize].port = Some(first + i as u32),
                Node::Switch(s) => self.switches[s as usize].0.ports.push(first + i as u32),
            }
        }
        Some(Link(first / 2))
    }

    /// A static entry in the table of a switch: frames to `to` go out on `link`. Nothing where the switch is not at an end of it.
    pub fn route(&mut self, switch: Node, to: Mac, link: Link) {
        let Node::Switch(s) = switch else { return };
        let ends = [link.0 * 2, link.0 * 2 + 1];
        let Some(port) = ends.into_iter().find(|p| self.owner(*p) == Some(Owner::Switch(s))) else { return };
        self.switches[s as usize].0.route(to, port);
    }

    /// Adds a fault to the direction of `link` that begins at its end `from`. Faults have random streams of their own: what one hits
    /// does not depend on which others there are, but for `label`.
    pub fn fault(&mut self, link: Link, from: usize, fault: LinkFault, label: u64) {
        let seed = self.stream(0xfa17_0000_0000 ^ label.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if let Some(p) = self.ports.get_mut(link.0 as usize * 2 + (from & 1)) {
            p.way.add(fault, seed);
        }
    }

    /// A station asks for silence again and again from `from` to `until`, as a NIC does whose receive path hangs.
    pub fn storm(&mut self, station: Node, priority: u8, from: Instant, until: Instant) {
        if let Some(port) = self.port_of(station) {
            self.storms.push(Storm { port, priority: priority & 7, until });
            self.schedule(from, Happens::Storm(self.storms.len() as u32 - 1));
        }
    }

    /// Ends all faults of links and all storms.
    pub fn heal(&mut self) {
        self.ports.iter_mut().for_each(|p| p.way.heal());
        for s in &mut self.storms {
            s.until = self.now;
        }
    }

    /// Writes what the given links carry to a file from now on; times get `base_ns` added.
    pub fn capture(&mut self, file: CaptureFile, links: &[Link], base_ns: u64) -> io::Result<()> {
        let mut recorder = Recorder::new(file, base_ns)?;
        for l in links {
            let ends = [l.0 as usize * 2, l.0 as usize * 2 + 1];
            let Some(name) = self.link_name(*l) else { continue };
            let interface = recorder.interface(&name)?;
            for end in ends {
                self.ports[end].tap = Some(interface);
            }
        }
        self.recorder = Some(recorder);
        Ok(())
    }

    /// What `link` carries is to be seen by [`Lan::poll_seen`] from now on; its caller has to take it.
    pub fn watch(&mut self, link: Link) {
        for end in [link.0 as usize * 2, link.0 as usize * 2 + 1] {
            if let Some(port) = self.ports.get_mut(end) {
                port.watched = true;
            }
        }
    }

    /// The next frame of a link that is watched, as its sender put it on the wire, and when.
    pub fn poll_seen(&mut self) -> Option<(Instant, Frame)> {
        self.seen.pop_front()
    }

    /// Ends the capture; the error is the first that came while it was written.
    pub fn end_capture(&mut self) -> io::Result<()> {
        self.recorder.take().map_or(Ok(()), Recorder::finish)
    }

    /// Now.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A hash of every frame that arrived so far, with time and place: equal for two runs of one seed. Payload of the software NICs is in
    /// it by its ICRC.
    pub fn trace_hash(&self) -> u64 {
        self.hash
    }

    /// Sends a frame from a station.
    pub fn send(&mut self, station: Node, frame: Frame) {
        if let Some(port) = self.port_of(station) {
            self.enqueue(port, None, frame);
        }
    }

    /// Bytes that wait at a station in one priority.
    pub fn queued(&self, station: Node, priority: u8) -> u32 {
        self.port_of(station).map_or(0, |p| self.ports[p as usize].queued[usize::from(priority & 7)])
    }

    /// Frames that wait or are on their way.
    pub fn in_flight(&self) -> usize {
        self.frames.len()
    }

    /// When something happens next.
    pub fn next_time(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(e)| e.at)
    }

    /// Lets time pass, up to [`Lan::next_time`].
    pub fn pass(&mut self, until: Instant) {
        self.now = self.now.max(until.min(self.next_time().unwrap_or(until)));
    }

    /// The next thing happens; gives the frame that came to a station by it.
    pub fn step(&mut self) -> Option<(Node, Frame)> {
        let Reverse(event) = self.heap.pop()?;
        self.now = self.now.max(event.at);
        match event.what {
            Happens::Arrive { port, frame } => return self.arrive(port, frame),
            Happens::Ready { port } => {
                self.ports[port as usize].wake = None;
                self.transmit(port);
            }
            Happens::Refresh { port, priority } => self.refresh(port, priority),
            Happens::Storm(which) => self.blow(which),
        }
        None
    }

    fn arrive(&mut self, port: u32, frame: u32) -> Option<(Node, Frame)> {
        let held = self.frames.take(frame)?;
        self.fold(port, &held.frame);
        let p = self.ports.get_mut(port as usize)?;
        p.stats.received += 1;
        if held.frame.ethertype() == ethertype::MAC_CONTROL {
            self.paused(port, &held.frame);
            return None;
        }
        let Owner::Switch(s) = p.owner else {
            let number = self.stations.iter().position(|s| s.port == Some(port))?;
            return Some((Node::Station(number as u32), held.frame));
        };
        let switch = &mut self.switches[s as usize].0;
        switch.learn(held.frame.from(), port);
        match switch.way(held.frame.to(), port) {
            switch::Way::Port(out) => self.enqueue(out, Some((s, port)), held.frame),
            switch::Way::Nowhere => self.ports[port as usize].stats.unknown += 1,
            switch::Way::Flood => {
                for i in 0..self.switches[s as usize].0.ports.len() {
                    let out = self.switches[s as usize].0.ports[i];
                    if out != port {
                        self.enqueue(out, Some((s, port)), held.frame.clone());
                    }
                }
            }
        }
        None
    }

    /// Puts a frame in a queue of port `out`. `via`: the switch, and the port that it came in at.
    fn enqueue(&mut self, out: u32, via: Option<(u32, u32)>, mut frame: Frame) {
        let (priority, len) = (frame.priority(), frame.len() as u32);
        let q = usize::from(priority);
        if let Some((s, came)) = via {
            let switch = &mut self.switches[s as usize].0;
            let queued = self.ports[out as usize].queued[q];
            let lossless = switch.lossless(priority);
            match lossless {
                Some(pfc) if self.ports[came as usize].held[q] + len > pfc.xoff.saturating_add(pfc.headroom) => {
                    self.ports[came as usize].stats.headroom_drops += 1;
                    return;
                }
                None if queued + len > switch.settings.queue => {
                    self.ports[out as usize].stats.tail_drops += 1;
                    return;
                }
                _ => {}
            }
            if switch.marks(queued) && frame.mark() {
                self.ports[out as usize].stats.marked += 1;
            }
            let input = &mut self.ports[came as usize];
            input.held[q] += len;
            if let Some(pfc) = lossless
                && input.held[q] > pfc.xoff
                && !input.pausing[q]
            {
                input.pausing[q] = true;
                self.ask(came, priority, pfc);
            }
        }
        let number = self.frames.put(Held { frame, len, priority, ingress: via.map(|(_, came)| came) });
        self.ports[out as usize].push(self.now, number, priority, len);
        self.transmit(out);
    }

    /// Sends what may be sent at a port.
    fn transmit(&mut self, port: u32) {
        let now = self.now;
        loop {
            let p = &mut self.ports[port as usize];
            let Some(due) = p.due() else { return };
            if due > now {
                // what is due earlier than the event that waits gets one of its own
                if p.wake.is_none_or(|at| at > due) {
                    p.wake = Some(due);
                    self.schedule(due, Happens::Ready { port });
                }
                return;
            }
            let Some(number) = p.pop(now, &self.frames) else { return };
            self.put_on_wire(port, number);
        }
    }

    fn put_on_wire(&mut self, port: u32, number: u32) {
        let now = self.now;
        let Some(held) = self.frames.take(number) else { return };
        if let Some(came) = held.ingress {
            self.left(came, held.priority, held.len);
        }
        let p = &mut self.ports[port as usize];
        if held.frame.ip_len() > p.way.settings.mtu {
            p.stats.giants += 1;
            return;
        }
        let sent = now + p.way.settings.serialization(held.frame.wire_len());
        p.busy_until = sent;
        p.stats.sent += 1;
        p.stats.sent_bytes += u64::from(held.len);
        let [first, second] = p.way.fate(sent, held.frame.len(), Frame::ETH);
        if let (Some(interface), Some(r)) = (p.tap, &mut self.recorder) {
            r.frame(interface, now, &held.frame, &p.way.hits);
        }
        if p.watched {
            self.seen.push_back((now, held.frame.clone()));
        }
        let Some(at) = first else {
            p.stats.lost += 1;
            return;
        };
        let twice = second.map(|at| (at, Held { frame: held.frame.clone(), ingress: None, ..held }));
        let flips = p.way.hits.iter().filter_map(|h| h.bit);
        let frame = flips.fold(held.frame, |frame, bit| frame::flipped(&frame, bit));
        if let Some((at, copy)) = twice {
            self.on_its_way(port ^ 1, at, copy);
        }
        self.on_its_way(port ^ 1, at, Held { frame, ingress: None, ..held });
    }

    fn on_its_way(&mut self, port: u32, at: Instant, held: Held) {
        let frame = self.frames.put(held);
        self.schedule(at, Happens::Arrive { port, frame });
    }

    /// A frame that came in at `port` has left the switch.
    fn left(&mut self, port: u32, priority: u8, len: u32) {
        let q = usize::from(priority);
        let p = &mut self.ports[port as usize];
        p.held[q] = p.held[q].saturating_sub(len);
        let (held, pausing, Owner::Switch(s)) = (p.held[q], p.pausing[q], p.owner) else { return };
        if let Some(pfc) = self.switches[s as usize].0.lossless(priority)
            && pausing
            && held <= pfc.xon
        {
            self.ports[port as usize].pausing[q] = false;
            self.control(port, priority, 0);
        }
    }

    /// Asks the other end of a port for silence, and does so again while it is needed.
    fn ask(&mut self, port: u32, priority: u8, pfc: PfcSettings) {
        self.control(port, priority, pfc.quanta);
        self.ports[port as usize].stats.pauses_sent += 1;
        let again = self.now + (self.ports[port as usize].way.settings.quantum() * u32::from(pfc.quanta) / 2).max(LEAST_REFRESH);
        self.schedule(again, Happens::Refresh { port, priority });
    }

    fn refresh(&mut self, port: u32, priority: u8) {
        let p = &self.ports[port as usize];
        if let Owner::Switch(s) = p.owner
            && p.pausing[usize::from(priority)]
            && let Some(pfc) = self.switches[s as usize].0.lossless(priority)
        {
            self.ask(port, priority, pfc);
        }
    }

    fn blow(&mut self, which: u32) {
        let Storm { port, priority, until } = self.storms[which as usize];
        if self.now >= until {
            self.control(port, priority, 0);
            return;
        }
        self.control(port, priority, u16::MAX);
        self.ports[port as usize].stats.pauses_sent += 1;
        let again = self.now + (self.ports[port as usize].way.settings.quantum() * u32::from(u16::MAX) / 2).max(LEAST_REFRESH);
        self.schedule(again.min(until), Happens::Storm(which));
    }

    /// Sends a PFC frame for one priority.
    fn control(&mut self, port: u32, priority: u8, quanta: u16) {
        let mut all = [None; 8];
        all[usize::from(priority & 7)] = Some(quanta);
        let frame = pause::frame(self.ports[port as usize].mac, &all);
        let len = frame.len() as u32;
        let number = self.frames.put(Held { frame, len, priority: 0, ingress: None });
        let p = &mut self.ports[port as usize];
        p.push_control(number);
        // by an event, as this comes from the midst of another port's sending
        let at = self.now.max(p.busy_until);
        self.schedule(at, Happens::Ready { port });
    }

    /// A MAC control frame came in.
    fn paused(&mut self, port: u32, frame: &Frame) {
        let Some(quanta) = pause::read(frame) else { return };
        let now = self.now;
        let p = &mut self.ports[port as usize];
        let quantum = p.way.settings.quantum();
        for (i, q) in quanta.into_iter().enumerate() {
            if let Some(q) = q {
                p.pause(now, i, now + quantum * u32::from(q));
            }
        }
        self.transmit(port);
    }

    fn schedule(&mut self, at: Instant, what: Happens) {
        self.count += 1;
        self.heap.push(Reverse(Event { at, number: self.count, what }));
    }

    fn fold(&mut self, port: u32, frame: &Frame) {
        let mut h = fold(self.hash, self.now.0 ^ u64::from(port) << 56);
        let whole = matches!(frame.body(), Body::Bytes(_));
        for (i, part) in frame.parts().into_iter().enumerate() {
            // the third part is the payload of a datagram, which its ICRC stands for
            if whole || i != 2 {
                let (words, rest) = part.as_chunks::<8>();
                h = words.iter().fold(h, |h, w| fold(h, u64::from_le_bytes(*w)));
                h = rest.iter().fold(h, |h, b| fold(h, u64::from(*b)));
            }
        }
        self.hash = h;
    }

    /// A seed of a random stream of its own.
    fn stream(&self, label: u64) -> u64 {
        SplitMix64::new(self.seed ^ label).next_u64()
    }

    fn owner(&self, port: u32) -> Option<Owner> {
        self.ports.get(port as usize).map(|p| p.owner)
    }

    fn port_of(&self, station: Node) -> Option<u32> {
        match station {
            Node::Station(s) => self.stations.get(s as usize)?.port,
            Node::Switch(_) => None,
        }
    }
}

/// Pauses are asked for again no more often than this, so that short quanta do not fill the world with them.
const LEAST_REFRESH: Duration = Duration::from_nanos(500);

/// FNV-1a by words, with the high bits mixed down.
fn fold(h: u64, word: u64) -> u64 {
    let h = (h ^ word).wrapping_mul(0x0000_0100_0000_01b3);
    h ^ h >> 29
}
