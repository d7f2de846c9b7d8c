//! Two NICs and the wire between them, on virtual time: for tests of what uses a NIC.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use nvmf_seam::rdma::{Accept, Ask, CmEvent, Device, DeviceEvent, Pd, QpId};
use nvmf_seam::{Entropy, Instant, SplitMix64};

use crate::{Datagram, Nic, NicSettings};

/// What the wire does to packets, each in so many of 1,000.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Lost.
    pub loss: u32,
    /// Brought twice, the second one later.
    pub duplication: u32,
    /// Late by up to ten times the latency, so that others overtake.
    pub reordering: u32,
    /// One bit is turned.
    pub corruption: u32,
}

/// Two NICs, `nics[0]` and `nics[1]`, joined back to back.
#[derive(Debug)]
pub struct Pair {
    /// Now.
    pub now: Instant,
    /// The two.
    pub nics: [Nic; 2],
    /// How long a packet is on its way.
    pub latency: Duration,
    /// What happens to it there.
    pub faults: Faults,
    rng: SplitMix64,
    flying: BTreeMap<(Instant, u64), (usize, Datagram)>,
    sent: u64,
}

impl Pair {
    /// Addresses of the two.
    pub const ADDRESSES: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))];

    /// Two NICs with the usual settings, but for what `change` changes in those of both. No latency, no faults.
    pub fn new(seed: u64, change: impl Fn(&mut NicSettings)) -> Self {
        Self::between(seed, Self::ADDRESSES, change)
    }

    /// The same with other addresses.
    pub fn between(seed: u64, addresses: [IpAddr; 2], change: impl Fn(&mut NicSettings)) -> Self {
        let nic = |i: usize| {
            let mut settings = NicSettings::new(addresses[i]);
            settings.guid += i as u64;
            change(&mut settings);
            Nic::new(settings, seed.wrapping_mul(2).wrapping_add(i as u64))
        };
        Self {
            now: Instant::START,
            nics: [nic(0), nic(1)],
            latency: Duration::ZERO,
            faults: Faults::default(),
            rng: SplitMix64::new(seed),
            flying: BTreeMap::new(),
            sent: 0,
        }
    }

    /// Lets everything happen that happens at this moment; true where something did.
    pub fn settle(&mut self) -> bool {
        let mut moved = false;
        loop {
            let mut more = false;
            for i in 0..2 {
                while let Some(d) = self.nics[i].poll_datagram(self.now) {
                    self.launch(1 - i, d);
                    more = true;
                }
            }
            while let Some(first) = self.flying.first_entry().filter(|e| e.key().0 <= self.now) {
                let (to, datagram) = first.remove();
                self.nics[to].handle_parts(self.now, &datagram);
                more = true;
            }
            for nic in &mut self.nics {
                if nic.poll_timeout().is_some_and(|at| at <= self.now) {
                    nic.handle_timeout(self.now);
                    more = true;
                }
            }
            if !more {
                return moved;
            }
            moved = true;
        }
    }

    /// Moves time on to what happens next; false where nothing will.
    pub fn advance(&mut self) -> bool {
        let timeouts = self.nics.iter_mut().filter_map(Nic::poll_timeout);
        let next = timeouts.chain(self.flying.keys().next().map(|(at, _)| *at)).min();
        match next {
            Some(at) => {
                self.now = self.now.max(at);
                true
            }
            None => false,
        }
    }

    /// Settles and advances until `done` says so, or for at most `patience`; whether it did.
    pub fn run(&mut self, patience: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let until = self.now + patience;
        loop {
            self.settle();
            if done(self) {
                return true;
            }
            // What `done` posted goes out before time moves on.
            if self.settle() {
                continue;
            }
            if !self.advance() || self.now > until {
                return false;
            }
        }
    }

    fn launch(&mut self, to: usize, mut datagram: Datagram) {
        let Faults { loss, duplication, reordering, corruption } = self.faults;
        let mut hit = |share: u32| share > 0 && self.rng.below(1000) < u64::from(share);
        let (lost, twice, late, broken) = (hit(loss), hit(duplication), hit(reordering), hit(corruption));
        if broken {
            let bit = self.rng.below(8 * datagram.len() as u64) as usize;
            let mut copy = BytesMut::from(&datagram.to_bytes()[..]);
            copy[bit / 8] ^= 1 << (bit % 8);
            let head = copy.split_to(copy.len().min(28));
            datagram = Datagram::new(&head, copy.freeze(), &[]);
        }
        let unit = self.latency.max(Duration::from_micros(1));
        let mut late_by = |yes: bool| if yes { unit * (1 + self.rng.below(10) as u32) } else { Duration::ZERO };
        let (first, second) = (late_by(late), late_by(twice));
        for extra in [(!lost).then_some(first), twice.then_some(second)].into_iter().flatten() {
            self.sent += 1;
            self.flying.insert((self.now + self.latency + extra, self.sent), (to, datagram.clone()));
        }
    }

    /// A connection from `nics[0]` to port 4420 of `nics[1]`, up on both sides; `ask` and `accept` may be those of [`Pair::ask`] and
    /// [`Pair::accept`]. `None` where it does not come up.
    pub fn connect(&mut self, ask: &Ask, accept: &Accept) -> Option<(QpId, QpId)> {
        self.nics[1].listen(4420).ok()?;
        let to = SocketAddr::new(self.nics[1].settings().address, 4420);
        let a = self.nics[0].connect(self.now, to, ask).ok()?;
        let (mut b, mut up) = (None, [false; 2]);
        self.run(Duration::from_secs(60), |pair| {
            while let Some((_, event)) = pair.nics[0].poll_event() {
                up[0] |= matches!(event, DeviceEvent::Cm(CmEvent::Accepted(_)));
            }
            while let Some((qp, event)) = pair.nics[1].poll_event() {
                if matches!(event, DeviceEvent::Cm(CmEvent::Request(_))) {
                    b = Some(qp);
                    up[1] = pair.nics[1].accept(pair.now, qp, accept).is_err();
                }
                up[1] |= matches!(event, DeviceEvent::Cm(CmEvent::Established));
            }
            up == [true; 2]
        });
        b.filter(|_| up == [true; 2]).map(|b| (a, b))
    }

    /// Asks for READs in both directions, 16 at a time.
    pub fn ask() -> Ask {
        Ask { initiator_depth: 16, pd: Pd(1), ..Ask::new(Bytes::new()) }
    }

    /// The answer to it.
    pub fn accept() -> Accept {
        Accept { private: Bytes::new(), responder_resources: 16, initiator_depth: 16, rnr_retry_count: 7, pd: Pd(2) }
    }
}

/// A wire for a [`Desk`](crate::desk::Desk) whose other end is a NIC that a test serves: `serve` is called whenever something may
/// have happened there.
pub struct Bench<S> {
    /// Now.
    pub now: Instant,
    /// The other NIC.
    pub nic: Nic,
    /// What it does with its events.
    pub serve: S,
    links: u32,
}

impl<S: FnMut(&mut Nic, Instant)> Bench<S> {
    /// A wire to `nic`.
    pub fn new(nic: Nic, serve: S) -> Self {
        Self { now: Instant::START, nic, serve, links: 0 }
    }

    /// Whether something came to `player`.
    fn exchange(&mut self, player: &mut Nic) -> bool {
        let (mut came, mut more) = (false, true);
        while more {
            more = false;
            while let Some(d) = player.poll_datagram(self.now) {
                self.nic.handle_parts(self.now, &d);
                more = true;
            }
            (self.serve)(&mut self.nic, self.now);
            while let Some(d) = self.nic.poll_datagram(self.now) {
                player.handle_datagram(self.now, d.to_bytes());
                (came, more) = (true, true);
            }
        }
        came
    }
}

impl<S: FnMut(&mut Nic, Instant)> crate::desk::Wire for Bench<S> {
    fn now(&self) -> Instant {
        self.now
    }

    fn flush(&mut self, nic: &mut Nic) {
        while let Some(d) = nic.poll_datagram(self.now) {
            self.nic.handle_datagram(self.now, d.to_bytes());
        }
    }

    fn step(&mut self, nic: &mut Nic, until: Instant) -> bool {
        loop {
            if self.exchange(nic) {
                return true;
            }
            let (ours, theirs) = (nic.poll_timeout(), self.nic.poll_timeout());
            let Some(at) = ours.into_iter().chain(theirs).min().filter(|at| *at <= until) else {
                self.now = self.now.max(until);
                return false;
            };
            self.now = self.now.max(at);
            self.nic.handle_timeout(self.now);
            if ours.is_some_and(|at| at <= self.now) {
                nic.handle_timeout(self.now);
                self.exchange(nic);
                return true;
            }
        }
    }

    fn next_link(&mut self) -> nvmf_seam::LinkId {
        self.links += 1;
        nvmf_seam::LinkId(self.links)
    }
}
