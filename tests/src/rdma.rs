//! The reference target behind a software NIC, and the player's NIC, with nothing but a delay between the two: where checks over RDMA are
//! played fast. The frames of a fabric are `nvmf_fabric`'s.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeMap;

use bytes::Bytes;
use nvmf_capture::Transport;
use nvmf_conformance::Run;
use nvmf_conformance::runner::{Candidate, Options, Runner};
use nvmf_conformance::suite::Suite;
use nvmf_engine::controller::{Hub, PortTransport};
use nvmf_engine::rdma::Target;
use nvmf_engine::{RdmaSettings, Reference};
use nvmf_fabric::SimTarget;
use nvmf_roce::desk::{Desk, Wire};
use nvmf_roce::{Nic, NicSettings};
use nvmf_scenario::ast::Fault;
use nvmf_scenario::fault::FaultTap;
use nvmf_scenario::player::Peer;
use nvmf_seam::rdma::RdmaNetwork;
use nvmf_seam::{Instant, LinkId, Network, OpenError, Received, SendError, Side, Tap, TapOutput};

use crate::world::{self, address};

/// One way.
const DELAY: Duration = Duration::from_micros(5);
/// Recorded of each connection, bytes.
const RECORD: usize = 64 << 20;

/// Both NICs but the player's, which its [`Desk`] has.
pub struct Between {
    now: Instant,
    target: Target<Nic>,
    hub: Hub,
    connections: u64,
    links: u32,
    tap: Option<FaultTap>,
    /// Packets on their way, in order of time and of sending; true for those to the target.
    wire: BTreeMap<(Instant, u64), (bool, Bytes)>,
    sent: u64,
}

impl Between {
    /// A packet goes out, or what the tap makes of it.
    fn send(&mut self, from: Side, datagram: Bytes) {
        let outputs = match &mut self.tap {
            Some(tap) => tap.pdu(from, datagram),
            None => vec![TapOutput::Pass(datagram)],
        };
        for output in outputs {
            let (to_target, late, bytes) = match output {
                TapOutput::Pass(b) => (from == Side::Host, Duration::ZERO, b),
                TapOutput::Late(by, b) => (from == Side::Host, by, b),
                TapOutput::Answer(b) => (from == Side::Controller, Duration::ZERO, b),
                TapOutput::Close => continue,
            };
            self.sent += 1;
            self.wire.insert((self.now + DELAY + late, self.sent), (to_target, bytes));
        }
    }

    /// The target's turn: until nothing moves at this time.
    fn turn(&mut self) {
        let now = self.now;
        loop {
            self.target.turn(now, &mut self.hub, &mut self.connections);
            let mut moved = false;
            while let Some((to, request)) = self.target.poll_store() {
                self.target.handle_store(now, to, request.execute());
                moved = true;
            }
            while self.hub.poll_event().is_some() || self.target.poll_event().is_some() || self.target.poll_other().is_some() {}
            if !moved {
                break;
            }
        }
        while let Some(d) = self.target.device.poll_datagram(now) {
            self.send(Side::Controller, d.to_bytes());
        }
    }

    fn due(&mut self, nic: &mut Nic) -> Option<Instant> {
        let wire = self.wire.keys().next().map(|k| k.0);
        let target = [self.target.poll_timeout(), self.target.device.poll_timeout(), self.hub.poll_timeout()];
        wire.into_iter().chain(target.into_iter().flatten()).chain(nic.poll_timeout()).min()
    }
}

impl Wire for Between {
    fn now(&self) -> Instant {
        self.now
    }

    fn flush(&mut self, nic: &mut Nic) {
        while let Some(d) = nic.poll_datagram(self.now) {
            self.send(Side::Host, d.to_bytes());
        }
        self.turn();
    }

    fn step(&mut self, nic: &mut Nic, until: Instant) -> bool {
        self.flush(nic);
        loop {
            let Some(at) = self.due(nic).filter(|at| *at <= until) else {
                self.now = self.now.max(until);
                return false;
            };
            let now = self.now.max(at);
            self.now = now;
            let mut handed = false;
            if let Some(first) = self.wire.first_entry().filter(|e| e.key().0 <= now) {
                let (to_target, bytes) = first.remove();
                if to_target {
                    self.target.device.handle_datagram(now, bytes);
                } else {
                    nic.handle_datagram(now, bytes);
                    handed = true;
                }
            } else if nic.poll_timeout().is_some_and(|t| t <= now) {
                nic.handle_timeout(now);
                handed = true;
            } else {
                self.target.device.handle_timeout(now);
                self.target.handle_timeout(now);
                self.hub.handle_timeout(now);
            }
            self.flush(nic);
            if handed {
                return true;
            }
        }
    }

    fn next_link(&mut self) -> LinkId {
        self.links += 1;
        LinkId(self.links)
    }
}

/// A world with one target, reached over RDMA alone.
pub struct RdmaWorld {
    desk: Desk<Between>,
}

/// Of the target's connections: as patient as a test can bear.
#[must_use]
pub fn settings() -> RdmaSettings {
    RdmaSettings { connect_patience: Duration::from_secs(1), ..RdmaSettings::default() }
}

/// The player's address.
fn host() -> IpAddr {
    [192, 0, 2, 2].into()
}

impl RdmaWorld {
    /// Around one reference target or the other, bent by `fault` where there is one.
    ///
    /// # Panics
    ///
    /// Where the reference target cannot be set up.
    pub fn new(reference: Reference, seed: u64, fault: Option<&Fault>) -> Self {
        let settings = settings();
        let SimTarget { hub, listen, .. } = world::target_over(reference, None, PortTransport::Rdma(settings.capsules));
        let nic = |address: IpAddr, seed: u64| {
            let settings = NicSettings { record: RECORD, link_mtu: 4096 + 128, ..NicSettings::new(address) };
            Nic::new(settings, seed)
        };
        let mut target = Target::new(nic(address().ip(), seed ^ 0x7467_7400), settings);
        for (at, id) in listen {
            target.listen(at.port(), id).expect("a free port");
        }
        let between = Between {
            now: Instant::START,
            target,
            hub,
            connections: 1,
            links: 0,
            tap: fault.map(FaultTap::new),
            wire: BTreeMap::new(),
            sent: 0,
        };
        Self { desk: Desk::new(nic(host(), seed), between) }
    }
}

impl Network for RdmaWorld {
    fn now(&self) -> Instant {
        self.desk.wire_ref().now
    }

    fn open(&mut self, _: SocketAddr, _: Duration) -> Result<LinkId, OpenError> {
        Err(OpenError::Refused)
    }

    fn send(&mut self, _: LinkId, _: &[u8]) -> Result<(), SendError> {
        Err(SendError::Closed)
    }

    fn receive(&mut self, _: LinkId, _: Instant) -> Received {
        Received::Closed { reset: true }
    }

    fn shutdown(&mut self, _: LinkId) {}

    fn close(&mut self, _: LinkId, _: bool) {}

    fn sleep(&mut self, until: Instant) {
        self.desk.idle(until);
    }

    fn rdma(&mut self) -> Option<&mut dyn RdmaNetwork> {
        Some(&mut self.desk)
    }
}

/// The target as a player sees it.
pub fn peer() -> Peer {
    Peer { transport: Transport::Rdma, discovery_transport: Transport::Rdma, ..world::peer() }
}

/// Every check that can be played over RDMA, everything allowed.
pub fn options(seed: u64) -> Options {
    Options {
        transport: Transport::Rdma,
        candidates: vec![Candidate { transport: Transport::Rdma, addr: address() }],
        ..world::options(seed)
    }
}

/// Runs the suite over RDMA in a world of its own; only what stands below one of `filters`, where there are any.
///
/// # Errors
///
/// Why nothing could be run.
pub fn judge(suite: &Suite, reference: Reference, filters: Vec<String>, seed: u64, fault: Option<&Fault>) -> Result<Run, String> {
    let mut world = RdmaWorld::new(reference, seed, fault);
    let options = Options { filters, rules: fault.is_none(), ..options(seed) };
    let mut runs = Runner::new(suite, &options, &mut world).run(&mut |_| {}).map_err(|e| e.to_string())?;
    runs.pop().ok_or_else(|| "no subsystem".to_owned())
}
