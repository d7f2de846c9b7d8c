//! [`FrameSim`]: the simulated world in which whole Ethernet frames cross a network: TCP by smoltcp, RoCEv2 by the software NIC.
//!
//! It is what [`crate::Sim`] is for streams in memory: a target, a player, virtual time, a seed. It is slower, and everything that
//! a network does to frames can happen in it: [`FrameSim::lan`] has links, faults and captures.

mod site;
mod tcp_target;
mod world;

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::time::Duration;

use nvmf_engine::RdmaSettings;
use nvmf_engine::controller::{Hub, HubEvent};
use nvmf_engine::rdma::TargetEvent;
use nvmf_roce::desk::{Desk, Wire};
use nvmf_roce::{Counters, Nic, NicSettings};
use nvmf_seam::rdma::RdmaNetwork;
use nvmf_seam::{Entropy, Instant, LinkId, Network, OpenError, Received, SendError, SplitMix64};
use nvmf_wire::Value;

use crate::lan::{Lan, Link, LinkSettings, Mac, SwitchSettings};
use crate::sim::SimTarget;
use crate::stage::operate;
use crate::station::{Handle, Read, Station, StationSettings, Tcp};

pub(crate) use site::{Site, SiteSettings, addresses};
use world::World;

/// Which traffic of the target the tap of a [`SimTarget`] is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tapped {
    /// PDUs of each TCP connection, a tap for each.
    Tcp,
    /// IP packets of the NIC, one tap for all of it.
    #[default]
    Rdma,
}

/// How the world of a [`FrameSim`] is.
#[derive(Clone, Debug)]
pub struct FrameOptions {
    /// Each link, in both directions.
    pub link: LinkSettings,
    /// A switch between player and target; without, there is one link.
    pub switch: Option<SwitchSettings>,
    /// Both NICs; their addresses are replaced.
    pub nic: NicSettings,
    /// The target's RDMA connections; where capsules have what is replaced by what its first port says.
    pub rdma: RdmaSettings,
    /// Bytes of an IP packet with TCP in it.
    pub tcp_mtu: usize,
    /// Bytes that each direction of a TCP connection buffers at each end.
    pub tcp_buffer: usize,
    /// What the target's tap is on.
    pub tapped: Tapped,
    /// Stations know each other's MAC addresses; without, they ask by ARP and neighbour discovery.
    pub known: bool,
}

impl Default for FrameOptions {
    /// One link of [`LinkSettings::default`], so a path MTU of 4096; TCP segments for an MTU of 1500, 256 KiB of buffers.
    fn default() -> Self {
        let link = LinkSettings::default();
        let nic = NicSettings { link_mtu: link.mtu as u32, record: RECORD, ..NicSettings::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) };
        Self {
            link,
            switch: None,
            nic,
            rdma: RdmaSettings::default(),
            tcp_mtu: 1500,
            tcp_buffer: 256 << 10,
            tapped: Tapped::Rdma,
            known: false,
        }
    }
}

const TARGET_MAC: Mac = [2, 0, 0, 0, 0, 1];
const PLAYER_MAC: Mac = [2, 0, 0, 0, 0, 2];
/// IP packets that are recorded of each RDMA connection of the player, bytes.
const RECORD: usize = 16 << 20;

/// A simulated world of frames with one target and one player.
///
/// A port of the target's hub that says RDMA is listened on by the NIC at its address, any other by TCP. All RDMA ports are those of
/// the target's first address.
pub struct FrameSim {
    desk: Desk<World>,
}

impl FrameSim {
    /// A world at its begin. The error says why it cannot be: the target listens nowhere, or a port of it cannot be had.
    pub fn new(seed: u64, target: SimTarget, options: FrameOptions) -> Result<Self, String> {
        let FrameOptions { link, switch, nic, rdma, tcp_mtu, tcp_buffer, tapped, known } = options;
        let mut lan = Lan::new(seed);
        let mut random = SplitMix64::new(seed ^ 0x6672_616d_6573);
        let far = addresses(&target.listen);
        let near: Vec<IpAddr> = far.iter().copied().map(neighbour).collect();
        let address = *near.first().ok_or("the target listens nowhere")?;
        let own = NicSettings { address, ..nic.clone() };
        let seed = random.next_u64();
        let name = "target".into();
        let mut site =
            Site::new(&mut lan, target, SiteSettings { name, mac: TARGET_MAC, nic, rdma, tcp_mtu, tcp_buffer, tapped, seed })?;
        let (name, seed) = ("host".into(), random.next_u64());
        let mut player =
            Station::new(&mut lan, StationSettings { name, mac: PLAYER_MAC, addresses: near.clone(), tcp_mtu, tcp_buffer, seed });
        if known {
            far.iter().for_each(|ip| player.know(*ip, TARGET_MAC));
            near.iter().for_each(|ip| site.station.know(*ip, PLAYER_MAC));
        }
        let ends = [player.node, site.station.node];
        let joined = match switch {
            None => lan.link(ends, [link; 2]).is_some(),
            Some(settings) => {
                let switch = lan.switch("switch", settings);
                ends.iter().all(|s| lan.link([*s, switch], [link; 2]).is_some())
            }
        };
        if !joined {
            return Err("a link between nodes that are not there".into());
        }
        let nic = Nic::new(own, random.next_u64());
        Ok(Self { desk: Desk::new(nic, World::new(lan, site, player)) })
    }

    /// The network: its links, faults, captures and counters.
    pub fn lan(&mut self) -> &mut Lan {
        &mut self.desk.wire().lan
    }

    /// The link at the player, and the one at the target: the same where there is no switch.
    pub fn edges(&self) -> Option<[Link; 2]> {
        let world = self.desk.wire_ref();
        Some([world.lan.link_of(world.player.node)?, world.lan.link_of(world.site.station.node)?])
    }

    /// A hash of every frame that arrived so far, with its time: equal for two runs of the same script and seed.
    pub fn trace_hash(&self) -> u64 {
        self.desk.wire_ref().lan.trace_hash()
    }

    /// What happened at the target's hub so far, with times.
    pub fn hub_events(&self) -> &[(Instant, HubEvent)] {
        &self.desk.wire_ref().site.log
    }

    /// What happened to the target's RDMA connections so far, with times.
    pub fn rdma_events(&self) -> &[(Instant, TargetEvent)] {
        &self.desk.wire_ref().site.rdma_log
    }

    /// What the NICs counted: the player's, the target's.
    pub fn counters(&self) -> [Counters; 2] {
        [*self.desk.nic().counters(), *self.desk.wire_ref().site.rdma.device.counters()]
    }

    /// Changes what the target serves.
    pub fn with_hub<R>(&mut self, f: impl FnOnce(&mut Hub) -> R) -> R {
        let (nic, world) = self.desk.apart();
        let result = f(&mut world.site.hub);
        world.settle(nic);
        result
    }

    fn run(&mut self, until: Instant, enough: impl Fn(&mut World) -> bool) {
        let (nic, world) = self.desk.apart();
        world.run(nic, until, enough);
    }

    fn settle(&mut self) {
        let (nic, world) = self.desk.apart();
        world.settle(nic);
    }

    fn tcp(&mut self) -> &mut Tcp {
        &mut self.desk.wire().player.tcp
    }

    fn handle(&self, link: LinkId) -> Option<Handle> {
        self.desk.wire_ref().links.get(&link).copied()
    }
}

/// The player's address beside one of the target's, of the same kind.
fn neighbour(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(a) => IpAddr::V4((u32::from(a) ^ 0x80).into()),
        IpAddr::V6(a) => IpAddr::V6((u128::from(a) ^ 0x80).into()),
    }
}

impl Network for FrameSim {
    fn now(&self) -> Instant {
        self.desk.wire_ref().lan.now()
    }

    fn open(&mut self, to: SocketAddr, patience: Duration) -> Result<LinkId, OpenError> {
        let handle = self.tcp().connect(to).ok_or_else(|| OpenError::Other(format!("no connection to {to} can be begun")))?;
        let until = self.now() + patience;
        self.run(until, |w| !w.player.tcp.is_opening(handle));
        if self.tcp().is_opening(handle) || !self.tcp().is_up(handle) {
            let late = self.tcp().is_opening(handle);
            self.tcp().release(handle, true);
            self.settle();
            return Err(if late { OpenError::Timeout } else { OpenError::Refused });
        }
        let world = self.desk.wire();
        let id = world.next_link();
        world.links.insert(id, handle);
        Ok(id)
    }

    fn send(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), SendError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(handle) = self.handle(link).filter(|h| self.tcp().may_send(*h)) else { return Err(SendError::Closed) };
            let n = self.tcp().send(handle, rest);
            rest = &rest[n..];
            self.settle();
            if n == 0 {
                // The peer's patience is as long as a real sender's would be.
                let until = self.now() + Duration::from_secs(30);
                self.run(until, |w| !w.player.tcp.may_send(handle) || w.player.tcp.has_room(handle));
                if self.tcp().may_send(handle) && !self.tcp().has_room(handle) {
                    return Err(SendError::Stalled);
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self, link: LinkId, until: Instant) -> Received {
        let Some(handle) = self.handle(link) else { return Received::Closed { reset: false } };
        self.run(until, |w| w.player.tcp.has_news(handle));
        let read = self.tcp().receive(handle);
        self.settle();
        match read {
            Read::Bytes(b) => Received::Bytes(b),
            Read::Nothing => Received::Nothing,
            Read::Closed { reset } => Received::Closed { reset },
        }
    }

    fn shutdown(&mut self, link: LinkId) {
        if let Some(handle) = self.handle(link) {
            self.tcp().shutdown(handle);
            self.settle();
        }
    }

    fn close(&mut self, link: LinkId, reset: bool) {
        if let Some(handle) = self.desk.wire().links.remove(&link) {
            self.tcp().release(handle, reset);
            self.settle();
        }
    }

    fn sleep(&mut self, until: Instant) {
        self.desk.idle(until);
    }

    fn rdma(&mut self) -> Option<&mut dyn RdmaNetwork> {
        Some(&mut self.desk)
    }

    fn operate(&mut self, verb: &str, with: &[(String, Value)]) -> Result<(), String> {
        self.with_hub(|hub| operate(hub, verb, with))
    }
}
