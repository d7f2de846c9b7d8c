//! A [`Fleet`] from a [`Scene`].

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;
use std::sync::Arc;

use nvmf_engine::controller::{Hub, NewNamespace, Port, PortTransport};
use nvmf_engine::host::{HostRdmaSettings, HostSettings};
use nvmf_engine::store::MemoryStore;
use nvmf_engine::{ControllerSettings, RdmaCapsules, RdmaSettings, TcpSettings};
use nvmf_roce::{Nic, NicSettings};
use nvmf_seam::store::{Geometry, Store};
use nvmf_seam::{Entropy, Instant, SplitMix64};

use super::crew::{Crew, CrewSettings};
use super::store::Losing;
use super::witness::Witness;
use super::{Fleet, Owner};
use crate::frames::{Site, SiteSettings, Tapped};
use crate::lan::{Lan, Link, LinkFault, Mac, Node};
use crate::scene::{Expect, FaultKind, NicSpec, Scene, TargetSpec, draw};
use crate::sim::SimTarget;
use crate::station::{Station, StationSettings};

const PORT: u16 = 4420;
/// TCP is there, and nobody uses it.
const TCP_MTU: usize = 1500;
const TCP_BUFFER: usize = 64 << 10;

/// Address and MAC address of the station with this number.
fn address(number: usize) -> (IpAddr, Mac) {
    let n = number as u32 + 1;
    let [_, _, high, low] = n.to_be_bytes();
    (IpAddr::from([10, 0, high, low]), [2, 0, 0, 0, high, low])
}

fn nic(spec: &NicSpec, number: usize) -> NicSettings {
    NicSettings {
        dscp: spec.dscp,
        link_mtu: spec.mtu,
        ack_timeout: spec.ack_timeout,
        window: spec.window,
        // as a NIC in a network that marks does: notifications go with the rest, or before it
        cnp_dscp: spec.dscp,
        // the world is small: CM asks again after 4 ms, often
        cm_timeout: 10,
        cm_retries: 15,
        ..NicSettings::new(address(number).0)
    }
}

fn subnqn(t: &TargetSpec) -> String {
    format!("nqn.2014-08.org.example:{}", t.name)
}

pub(super) fn fleet(scene: &Scene, seed: u64) -> Result<Fleet, String> {
    let mut random = SplitMix64::new(seed ^ 0x666c_6565_7400);
    let mut lan = Lan::new(seed);
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    for s in &scene.switches {
        nodes.insert(s.name.clone(), lan.switch(&s.name, s.settings));
    }
    let mut sites = Vec::new();
    for (i, t) in scene.targets.iter().enumerate() {
        let site = site(&mut lan, scene, i, random.next_u64(), seed)?;
        nodes.insert(t.name.clone(), site.station.node);
        sites.push(site);
    }
    let mut crews = Vec::new();
    for i in 0..scene.hosts.len() {
        let crew = crew(&mut lan, scene, i, random.next_u64())?;
        nodes.insert(scene.hosts[i].name.clone(), crew.station.node);
        crews.push(crew);
    }
    let all = sites.iter_mut().map(|s| &mut s.station).chain(crews.iter_mut().map(|c| &mut c.station));
    for station in all {
        (0..scene.targets.len() + scene.hosts.len()).map(address).for_each(|(ip, mac)| station.know(ip, mac));
    }
    let mut links: BTreeMap<[String; 2], Link> = BTreeMap::new();
    let node = |name: &str| nodes.get(name).copied().ok_or_else(|| format!("no node `{name}`"));
    for l in &scene.links {
        let ends = [node(&l.ends[0])?, node(&l.ends[1])?];
        let link = lan.link(ends, [l.settings; 2]).ok_or("a link that cannot be")?;
        links.insert(l.ends.clone(), link);
    }
    for r in &scene.routes {
        let (link, _) = find(&links, &r.switch, &r.via)?;
        let station = scene.targets.iter().map(|t| &t.name).chain(scene.hosts.iter().map(|h| &h.name)).position(|n| *n == r.to);
        let (_, mac) = address(station.ok_or_else(|| format!("route: `{}` is no station", r.to))?);
        lan.route(node(&r.switch)?, mac, link);
    }
    faults(&mut lan, scene, &links, &nodes, seed)?;
    let mut owners = BTreeMap::new();
    let mut stations = Vec::new();
    for (i, s) in sites.iter().enumerate() {
        owners.insert(s.station.node, stations.len());
        stations.push((Owner::Site(i), None));
    }
    for (i, c) in crews.iter().enumerate() {
        owners.insert(c.station.node, stations.len());
        stations.push((Owner::Crew(i), None));
    }
    let witness = witness(&mut lan, scene, &crews);
    let (scene, touched) = (scene.clone(), Vec::new());
    Ok(Fleet { lan, scene, seed, sites, crews, owners, stations, touched, deadlock: None, witness })
}

/// A witness of the hosts whose exchanges are to be looked at, where there are any.
fn witness(lan: &mut Lan, scene: &Scene, crews: &[Crew]) -> Option<Witness> {
    let expected = |i: &usize| scene.expects.contains(&Expect::Exchange(scene.hosts[*i].name.clone()));
    let hosts: Vec<usize> = (0..scene.hosts.len()).filter(expected).collect();
    let links: Vec<Link> = hosts.iter().filter_map(|i| lan.link_of(crews[*i].station.node)).collect();
    links.into_iter().for_each(|link| lan.watch(link));
    (!hosts.is_empty()).then(|| Witness::new(hosts.into_iter().map(|i| (i, address(scene.targets.len() + i).0))))
}

/// A link, and whether it was written the other way round.
fn find(links: &BTreeMap<[String; 2], Link>, a: &str, b: &str) -> Result<(Link, bool), String> {
    let get = |a: &str, b: &str| links.get(&[a.to_owned(), b.to_owned()]).copied();
    get(a, b).map(|l| (l, false)).or_else(|| get(b, a).map(|l| (l, true))).ok_or_else(|| format!("no link {a}-{b}"))
}

fn site(lan: &mut Lan, scene: &Scene, i: usize, seed: u64, run: u64) -> Result<Site, String> {
    let t = &scene.targets[i];
    let wrong = |e: nvmf_engine::controller::ConfigError| e.to_string();
    let bytes: u64 = scene.hosts.iter().filter(|h| h.to == i).map(|h| u64::from(h.span)).sum();
    let geometry = Geometry { block_size: t.block, blocks: (bytes / u64::from(t.block)).max(1) };
    let memory = MemoryStore::new(geometry);
    let lost = scene.faults.iter().enumerate().find_map(|(n, f)| match &f.what {
        FaultKind::LostWrite { target, share } if *target == t.name && !f.lasts.1.is_zero() => Some((n, *share)),
        _ => None,
    });
    let store: Arc<dyn Store> = match lost {
        Some((n, share)) => Arc::new(Losing::new(memory, share, run ^ 0x1057 ^ (n as u64) << 32)),
        None => Arc::new(memory),
    };
    let mdts = (t.mdts / 4096).ilog2() as u8;
    let mut hub = Hub::new(ControllerSettings { io_queue_entries: 1024, mdts, ..ControllerSettings::default() });
    hub.add_subsystem(&subnqn(t), None).map_err(wrong)?;
    hub.add_namespace(&subnqn(t), 1, NewNamespace { store, blocking: false, uuid: None }).map_err(wrong)?;
    let (ip, mac) = address(i);
    let at = SocketAddr::new(ip, PORT);
    let transport = PortTransport::Rdma(RdmaCapsules::default());
    hub.add_port(Port { id: 1, advertise: at, discovery_only: false, transport }).map_err(wrong)?;
    let target = SimTarget { hub, tcp: TcpSettings::default(), listen: vec![(at, 1)], tap: None };
    let settings = SiteSettings {
        name: t.name.clone(),
        mac,
        nic: nic(&t.nic, i),
        rdma: RdmaSettings::default(),
        tcp_mtu: TCP_MTU,
        tcp_buffer: TCP_BUFFER,
        tapped: Tapped::Rdma,
        seed,
    };
    Site::new(lan, target, settings)
}

fn crew(lan: &mut Lan, scene: &Scene, i: usize, seed: u64) -> Result<Crew, String> {
    let spec = scene.hosts[i].clone();
    let target = &scene.targets[spec.to];
    let number = scene.targets.len() + i;
    let (ip, mac) = address(number);
    let mut random = SplitMix64::new(seed);
    let name = spec.name.clone();
    let settings =
        StationSettings { name, mac, addresses: vec![ip], tcp_mtu: TCP_MTU, tcp_buffer: TCP_BUFFER, seed: random.next_u64() };
    let station = Station::new(lan, settings);
    let nic = Nic::new(NicSettings { bounce: spec.bounce, ..nic(&spec.nic, number) }, random.next_u64());
    let hostnqn = format!("nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-{number:012x}");
    let mut settings = HostSettings::new(hostnqn, *b"nvmfspec-fleet-1", subnqn(target));
    settings.hostid[14..].copy_from_slice(&(number as u16 + 1).to_be_bytes());
    settings.io_entries = spec.depth.max(2).saturating_add(1);
    settings.rdma = Some(HostRdmaSettings::default());
    let before = scene.hosts[..i].iter().filter(|h| h.to == spec.to).map(|h| u64::from(h.span)).sum::<u64>();
    let (block, to) = (target.block, SocketAddr::new(address(spec.to).0, PORT));
    let (first_block, number, seed) = (before / u64::from(block), i as u32 + 1, random.next_u64());
    Crew::new(CrewSettings { station, nic, spec, to, settings, block, first_block, number, seed })
}

fn faults(
    lan: &mut Lan,
    scene: &Scene,
    links: &BTreeMap<[String; 2], Link>,
    nodes: &BTreeMap<String, Node>,
    seed: u64,
) -> Result<(), String> {
    for (n, f) in scene.faults.iter().enumerate() {
        // each fault draws its own times, whatever the others are
        let mut random = SplitMix64::new(seed ^ 0xfa01_7000 ^ (n as u64) << 40);
        let from = Instant::START + draw(f.from, &mut random);
        let until = from + draw(f.lasts, &mut random);
        match &f.what {
            FaultKind::Link { ends: [a, b], way, what, share } => {
                let (link, turned) = find(links, a, b)?;
                let fault = LinkFault { what: *what, share: *share, from, until };
                for (i, end) in [a, b].into_iter().enumerate() {
                    if way.as_ref().is_none_or(|w| w == end) {
                        lan.fault(link, i ^ usize::from(turned), fault, (n * 2 + i) as u64);
                    }
                }
            }
            FaultKind::Pause { station, priority } if until > from => {
                let node = nodes.get(station).copied().ok_or_else(|| format!("no station `{station}`"))?;
                lan.storm(node, *priority, from, until);
            }
            FaultKind::Pause { .. } | FaultKind::LostWrite { .. } => {}
        }
    }
    Ok(())
}
