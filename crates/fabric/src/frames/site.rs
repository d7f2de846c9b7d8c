//! [`Site`]: a target at a station, with everything between frames and stores.

use std::net::{IpAddr, SocketAddr};

use nvmf_engine::RdmaSettings;
use nvmf_engine::controller::{Hub, HubEvent, PortTransport};
use nvmf_engine::rdma::{Target, TargetEvent};
use nvmf_roce::{Nic, NicSettings};
use nvmf_seam::{Entropy, Instant, SplitMix64};

use super::Tapped;
use super::tcp_target::TcpTarget;
use crate::lan::{Frame, Lan, Mac};
use crate::sim::SimTarget;
use crate::station::{Station, StationSettings};

/// How a [`Site`] is reached.
pub(crate) struct SiteSettings {
    pub name: String,
    pub mac: Mac,
    /// Its address is replaced.
    pub nic: NicSettings,
    pub rdma: RdmaSettings,
    pub tcp_mtu: usize,
    pub tcp_buffer: usize,
    pub tapped: Tapped,
    pub seed: u64,
}

/// A target: TCP and RDMA side by side at one hub.
pub(crate) struct Site {
    pub station: Station,
    pub hub: Hub,
    pub rdma: Target<Nic>,
    tcp: TcpTarget,
    next_connection: u64,
    pub log: Vec<(Instant, HubEvent)>,
    pub rdma_log: Vec<(Instant, TargetEvent)>,
}

/// Events of each kind that are kept.
const LOG_MAX: usize = 1 << 16;

impl Site {
    /// A target in `lan`, without a link yet. The error says why it cannot be.
    pub fn new(lan: &mut Lan, target: SimTarget, settings: SiteSettings) -> Result<Self, String> {
        let SiteSettings { name, mac, nic, rdma, tcp_mtu, tcp_buffer, tapped, seed } = settings;
        let SimTarget { hub, tcp, listen, tap } = target;
        let mut random = SplitMix64::new(seed);
        let addresses = addresses(&listen);
        let address = *addresses.first().ok_or("the target listens nowhere")?;
        let nic = Nic::new(NicSettings { address, ..nic }, random.next_u64());
        let seed = random.next_u64();
        let mut station = Station::new(lan, StationSettings { name, mac, addresses, tcp_mtu, tcp_buffer, seed });
        let capsules = |id: u16| match hub.port(id).map(|p| p.transport) {
            Some(PortTransport::Rdma(capsules)) => Some(capsules),
            _ => None,
        };
        let over_rdma: Vec<_> = listen.iter().filter_map(|(at, id)| Some((at.port(), *id, capsules(*id)?))).collect();
        let over_tcp: Vec<_> = listen.iter().filter(|(_, id)| capsules(*id).is_none()).copied().collect();
        let rdma = RdmaSettings { capsules: over_rdma.first().map_or(rdma.capsules, |(_, _, c)| *c), ..rdma };
        let mut rdma = Target::new(nic, rdma);
        for (at, id, _) in over_rdma {
            rdma.listen(at, id).map_err(|e| e.to_string())?;
        }
        over_tcp.iter().for_each(|(at, _)| station.tcp.listen(*at));
        let (mut tcp_tap, mut rdma_tap) = (tap, None);
        if tapped == Tapped::Rdma {
            core::mem::swap(&mut tcp_tap, &mut rdma_tap);
        }
        if let Some(make) = rdma_tap {
            station.tap(make());
        }
        let tcp = TcpTarget::new(tcp, over_tcp, tcp_tap);
        Ok(Self { station, hub, rdma, tcp, next_connection: 0, log: Vec::new(), rdma_log: Vec::new() })
    }

    /// A frame came.
    pub fn receive(&mut self, now: Instant, frame: Frame) {
        self.station.receive(now, frame, &mut self.rdma.device);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.station.handle_timeout(now, &mut self.rdma.device);
        self.hub.handle_timeout(now);
        self.tcp.handle_timeout(now);
        self.rdma.handle_timeout(now);
    }

    /// When [`Site::handle_timeout`] has something to do.
    pub fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        let station = self.station.poll_timeout(now, &mut self.rdma.device);
        [station, self.hub.poll_timeout(), self.tcp.poll_timeout(), self.rdma.poll_timeout()].into_iter().flatten().min()
    }

    /// Moves everything that moves without time passing, and sends what is to be sent.
    pub fn settle(&mut self, now: Instant, lan: &mut Lan) {
        loop {
            self.station.flush(now, lan, &mut self.rdma.device);
            self.tcp.accept(now, &mut self.station.tcp, &mut self.hub, &mut self.next_connection);
            let mut moved = self.tcp.turn(now, &mut self.station.tcp, &mut self.hub);
            self.rdma.turn(now, &mut self.hub, &mut self.next_connection);
            while let Some((to, request)) = self.rdma.poll_store() {
                self.rdma.handle_store(now, to, request.execute());
                moved = true;
            }
            while let Some((to, message)) = self.rdma.poll_other() {
                self.tcp.message(now, to, message);
                moved = true;
            }
            self.note(now);
            // answers of a tap come back into the NIC, which then has something to tell
            if !moved && !self.station.flush(now, lan, &mut self.rdma.device) {
                return;
            }
        }
    }

    fn note(&mut self, now: Instant) {
        while let Some(event) = self.hub.poll_event() {
            if self.log.len() < LOG_MAX {
                self.log.push((now, event));
            }
        }
        while let Some(event) = self.rdma.poll_event() {
            if self.rdma_log.len() < LOG_MAX {
                self.rdma_log.push((now, event));
            }
        }
    }
}

/// The IP addresses of a target, each once.
pub(crate) fn addresses(listen: &[(SocketAddr, u16)]) -> Vec<IpAddr> {
    let mut all = Vec::new();
    for (at, _) in listen {
        if !all.contains(&at.ip()) {
            all.push(at.ip());
        }
    }
    all
}
