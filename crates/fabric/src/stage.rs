//! A target as a script describes it, and what a script may change at it while it is played.
//!
//! Lines are plain: a word and values by name. [`Stage::line`] takes them, [`Stage::build`] makes a world of them: a [`Sim`], or a
//! [`FrameSim`] where a port is reached over RDMA.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use nvmf_capture::Transport;
use nvmf_engine::controller::{Hub, NewNamespace, Port, PortTransport};
use nvmf_engine::store::MemoryStore;
use nvmf_engine::{ControllerSettings, TcpSettings};
use nvmf_seam::Network;
use nvmf_seam::store::{Abilities, Geometry, Store, StoreError, StoreOp};
use nvmf_wire::Value;

use crate::frames::{FrameOptions, FrameSim, Tapped};
use crate::sim::{Sim, SimOptions, SimTarget, TapFactory};

/// Values by name, each of which has to be asked for.
pub(crate) struct With<'a> {
    values: &'a [(String, Value)],
    asked: BTreeSet<&'static str>,
}

impl<'a> With<'a> {
    pub(crate) fn new(values: &'a [(String, Value)]) -> Self {
        Self { values, asked: BTreeSet::new() }
    }

    fn value(&mut self, name: &'static str) -> Option<&'a Value> {
        self.asked.insert(name);
        self.values.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    fn number<T: TryFrom<u64>>(&mut self, name: &'static str) -> Result<Option<T>, String> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Int(n)) => T::try_from(*n).map(Some).map_err(|_| format!("{name}={n} is too much")),
            Some(Value::Bytes(_)) => Err(format!("{name} is a number")),
        }
    }

    fn bytes(&mut self, name: &'static str) -> Result<Option<&'a [u8]>, String> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Bytes(b)) => Ok(Some(b)),
            Some(Value::Int(_)) => Err(format!("{name} is text or bytes")),
        }
    }

    fn text(&mut self, name: &'static str) -> Result<Option<String>, String> {
        let bytes = self.bytes(name)?;
        bytes.map(|b| String::from_utf8(b.to_vec()).map_err(|_| format!("{name} is no text"))).transpose()
    }

    fn set<T: TryFrom<u64>>(&mut self, name: &'static str, to: &mut T) -> Result<(), String> {
        if let Some(n) = self.number(name)? {
            *to = n;
        }
        Ok(())
    }

    /// Fails where a value was never asked for.
    fn end(self) -> Result<(), String> {
        match self.values.iter().find(|(n, _)| !self.asked.contains(n.as_str())) {
            Some((n, _)) => {
                let known: Vec<&str> = self.asked.into_iter().collect();
                Err(format!("no `{n}` here: {}", known.join(", ")))
            }
            None => Ok(()),
        }
    }
}

fn wanted<T>(value: Option<T>, name: &str) -> Result<T, String> {
    value.ok_or_else(|| format!("lacks {name}="))
}

/// A store that does what most targets do beside Read, Write and Flush: Write Zeroes and Dataset Management.
struct Plain(MemoryStore);

impl Store for Plain {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn abilities(&self) -> Abilities {
        Abilities { zero: true, deallocate: true, ..Abilities::default() }
    }

    fn execute(&self, op: StoreOp) -> Result<bytes::Bytes, StoreError> {
        match op {
            StoreOp::Compare { .. } | StoreOp::Verify { .. } | StoreOp::Spoil { .. } => Err(StoreError::Unsupported),
            op => self.0.execute(op),
        }
    }
}

/// A namespace with an empty store, and its NSID.
fn namespace(with: &mut With<'_>) -> Result<(u32, NewNamespace), String> {
    let nsid = wanted(with.number("nsid")?, "nsid")?;
    let block_size = with.number("block")?.unwrap_or(512);
    let blocks = wanted(with.number("blocks")?, "blocks")?;
    let memory = MemoryStore::new(Geometry { block_size, blocks });
    let store: Arc<dyn Store> = match with.number::<u8>("plain")? {
        Some(n) if n != 0 => Arc::new(Plain(memory)),
        _ => Arc::new(memory),
    };
    let uuid = match with.bytes("uuid")? {
        None => None,
        Some(b) => Some(b.first_chunk().copied().filter(|_| b.len() == 16).ok_or("uuid has 16 bytes")?),
    };
    Ok((nsid, NewNamespace { store, blocking: false, uuid }))
}

/// Writes `bytes` to a store from block `lba` on.
fn fill(store: &Arc<dyn Store>, lba: u64, bytes: &[u8]) -> Result<(), String> {
    let data = bytes::Bytes::copy_from_slice(bytes);
    store
        .execute(StoreOp::Write { offset: lba * u64::from(store.geometry().block_size), data })
        .map(|_| ())
        .map_err(|e| format!("data: {e:?}"))
}

/// What a script's `target` block describes.
pub struct Stage {
    /// What carries the capsules of a port that does not say.
    over: Transport,
    settings: ControllerSettings,
    tcp: TcpSettings,
    /// Of the world, where a port is reached over RDMA.
    frames: FrameOptions,
    ports: Vec<Place>,
    referrals: Vec<SocketAddr>,
    subsystems: Vec<Subsystem>,
    /// Names of the host that plays: NQN and Host Identifier.
    player: Option<(String, [u8; 16])>,
}

/// A port.
struct Place {
    id: u16,
    at: SocketAddr,
    discovery_only: bool,
    over: Transport,
}

struct Subsystem {
    nqn: String,
    hosts: Option<BTreeSet<String>>,
    namespaces: Vec<(u32, NewNamespace)>,
}

impl Stage {
    /// A target without ports; those that come are reached over `over` where they do not say.
    pub fn new(over: Transport) -> Self {
        Self {
            over,
            settings: ControllerSettings::default(),
            tcp: TcpSettings::default(),
            frames: FrameOptions::default(),
            ports: Vec::new(),
            referrals: Vec::new(),
            subsystems: Vec::new(),
            player: None,
        }
    }

    /// One line. The error says what is wrong with it; nothing tells how much of it was taken then.
    pub fn line(&mut self, what: &str, with: &[(String, Value)]) -> Result<(), String> {
        let mut with = With::new(with);
        match what {
            "controller" => self.controller(&mut with)?,
            "transport" => {
                with.set("maxh2cdata", &mut self.tcp.maxh2cdata)?;
                with.set("max_r2tl", &mut self.tcp.max_r2tl)?;
                with.set("max_c2hdata", &mut self.tcp.max_c2hdata)?;
                with.set("cpda", &mut self.tcp.cpda)?;
            }
            "rdma" => self.rdma(&mut with)?,
            "port" => {
                let id = wanted(with.number("id")?, "id")?;
                let at = wanted(with.text("at")?, "at")?;
                let discovery_only = with.number::<u8>("discovery")?.is_some_and(|n| n != 0);
                let at = at.parse().map_err(|_| format!("at={at} is no address with a port"))?;
                let over = match with.text("over")?.as_deref() {
                    None => self.over,
                    Some("tcp") => Transport::Tcp,
                    Some("rdma") => Transport::Rdma,
                    Some(other) => return Err(format!("over={other}: tcp or rdma")),
                };
                self.ports.push(Place { id, at, discovery_only, over });
            }
            "referral" => {
                let to = wanted(with.text("to")?, "to")?;
                self.referrals.push(to.parse().map_err(|_| format!("to={to} is no address with a port"))?);
            }
            "subsystem" => {
                let nqn = wanted(with.text("nqn")?, "nqn")?;
                let hosts = with.text("host")?.map(|h| BTreeSet::from([h]));
                self.subsystems.push(Subsystem { nqn, hosts, namespaces: Vec::new() });
            }
            "namespace" => {
                let new = namespace(&mut with)?;
                self.subsystems.last_mut().ok_or("no subsystem above")?.namespaces.push(new);
            }
            "data" => {
                let nsid: u32 = wanted(with.number("nsid")?, "nsid")?;
                let lba = with.number("lba")?.unwrap_or(0);
                let bytes = wanted(with.bytes("bytes")?, "bytes")?;
                let of = self.subsystems.last().and_then(|s| s.namespaces.iter().find(|(n, _)| *n == nsid));
                fill(&of.ok_or("no such namespace above")?.1.store, lba, bytes)?;
            }
            "player" => {
                let nqn = wanted(with.text("nqn")?, "nqn")?;
                let id = wanted(with.bytes("id")?, "id")?;
                self.player = Some((nqn, id.first_chunk().copied().filter(|_| id.len() == 16).ok_or("id has 16 bytes")?));
            }
            other => {
                return Err(format!(
                    "no `{other}`: controller, transport, rdma, port, referral, subsystem, namespace, data or player"
                ));
            }
        }
        with.end()
    }

    /// The target's connections, and what both NICs and the link between them are like.
    fn rdma(&mut self, with: &mut With<'_>) -> Result<(), String> {
        let FrameOptions { rdma, nic, link, .. } = &mut self.frames;
        with.set("msdbd", &mut rdma.capsules.msdbd)?;
        with.set("icdoff", &mut rdma.capsules.icdoff)?;
        with.set("max_read", &mut rdma.max_read)?;
        with.set("max_write", &mut rdma.max_write)?;
        with.set("connections", &mut rdma.connections)?;
        with.set("reads", &mut rdma.reads)?;
        with.set("reads", &mut nic.max_reads)?;
        with.set("cm_timeout", &mut nic.cm_timeout)?;
        with.set("cm_retries", &mut nic.cm_retries)?;
        with.set("ack_delay", &mut nic.ack_delay)?;
        with.set("mtu", &mut link.mtu)?;
        with.set("mtu", &mut nic.link_mtu)
    }

    fn controller(&mut self, with: &mut With<'_>) -> Result<(), String> {
        let s = &mut self.settings;
        for (name, to) in [("serial", &mut s.serial), ("model", &mut s.model), ("firmware", &mut s.firmware)] {
            if let Some(text) = with.text(name)? {
                *to = text;
            }
        }
        with.set("io_queues", &mut s.io_queues)?;
        with.set("io_entries", &mut s.io_queue_entries)?;
        with.set("admin_entries", &mut s.admin_queue_entries)?;
        with.set("mdts", &mut s.mdts)?;
        with.set("ioccsz", &mut s.ioccsz)?;
        with.set("async_events", &mut s.async_events)?;
        with.set("aborts", &mut s.aborts)?;
        with.set("kas", &mut s.kas)?;
        with.set("namespaces", &mut s.namespaces)?;
        with.set("ana_groups", &mut s.ana_groups)?;
        with.set("error_entries", &mut s.error_entries)?;
        let mut flag = |name, to: &mut bool| with.number(name).map(|n: Option<u8>| *to = n.map_or(*to, |n| n != 0));
        flag("kato_zero", &mut s.kato_zero)?;
        flag("traffic_keep_alive", &mut s.traffic_keep_alive)?;
        flag("flow_control_off", &mut s.flow_control_off)
    }

    /// The first port, where the first subsystem is reached, the last port, and the subsystem's name.
    pub fn reached(&self) -> Option<([(Transport, SocketAddr); 2], &str)> {
        let ports = [self.ports.first()?, self.ports.last()?];
        Some((ports.map(|p| (p.over, p.at)), self.subsystems.first()?.nqn.as_str()))
    }

    /// NQN and Host Identifier of the host that plays, where they are given.
    pub fn player(&self) -> Option<(&str, [u8; 16])> {
        self.player.as_ref().map(|(nqn, id)| (nqn.as_str(), *id))
    }

    /// Data that an I/O command may carry in its capsule, bytes.
    pub fn in_capsule(&self) -> u64 {
        match self.ports.first().map(|p| p.over) {
            Some(Transport::Rdma) => self.frames.rdma.capsules.data_bytes(self.settings.ioccsz) as u64,
            _ => u64::from(self.settings.ioccsz.saturating_sub(4)) * 16,
        }
    }

    /// The world with this target in it. A tap is on what the first port is reached over.
    pub fn build(self, seed: u64, tap: Option<TapFactory>) -> Result<Box<dyn Network>, String> {
        if self.ports.iter().all(|p| p.over == Transport::Tcp) {
            return Ok(Box::new(Sim::new(seed, self.target(tap)?, SimOptions::default())));
        }
        let mut options = self.frames.clone();
        if self.ports.first().is_some_and(|p| p.over == Transport::Tcp) {
            options.tapped = Tapped::Tcp;
        }
        Ok(Box::new(FrameSim::new(seed, self.target(tap)?, options)?))
    }

    fn target(self, tap: Option<TapFactory>) -> Result<SimTarget, String> {
        let mut hub = Hub::new(self.settings);
        let wrong = |e: nvmf_engine::controller::ConfigError| e.to_string();
        for s in self.subsystems {
            hub.add_subsystem(&s.nqn, s.hosts).map_err(wrong)?;
            for (nsid, new) in s.namespaces {
                hub.add_namespace(&s.nqn, nsid, new).map_err(wrong)?;
            }
        }
        let listen = self.ports.iter().map(|p| (p.at, p.id)).collect();
        for Place { id, at, discovery_only, over } in self.ports {
            let transport = match over {
                Transport::Tcp => PortTransport::Tcp,
                Transport::Rdma => PortTransport::Rdma(self.frames.rdma.capsules),
            };
            hub.add_port(Port { id, advertise: at, discovery_only, transport }).map_err(wrong)?;
        }
        for to in self.referrals {
            hub.add_referral(to).map_err(wrong)?;
        }
        Ok(SimTarget { hub, tcp: self.tcp, listen, tap })
    }
}

/// `target VERB …` of a script.
pub(crate) fn operate(hub: &mut Hub, verb: &str, with: &[(String, Value)]) -> Result<(), String> {
    let mut with = With::new(with);
    let wrong = |e: nvmf_engine::controller::ConfigError| e.to_string();
    let first = hub.subsystems().next().map(|s| s.nqn);
    let nqn = match with.text("nqn")? {
        Some(nqn) => nqn,
        None => wanted(first, "nqn")?,
    };
    match verb {
        "add_namespace" => {
            let (nsid, new) = namespace(&mut with)?;
            if let Some(bytes) = with.bytes("bytes")? {
                fill(&new.store, 0, bytes)?;
            }
            hub.add_namespace(&nqn, nsid, new).map_err(wrong)?;
        }
        "remove_namespace" => hub.remove_namespace(&nqn, wanted(with.number("nsid")?, "nsid")?).map_err(wrong)?,
        "add_subsystem" => hub.add_subsystem(&nqn, None).map_err(wrong)?,
        "remove_subsystem" => hub.remove_subsystem(&nqn).map_err(wrong)?,
        "allow" => hub.allow_host(&nqn, with.text("host")?.as_deref()).map_err(wrong)?,
        "deny" => hub.deny_host(&nqn, with.text("host")?.as_deref()).map_err(wrong)?,
        other => {
            return Err(format!("no `{other}`: add_namespace, remove_namespace, add_subsystem, remove_subsystem, allow or deny"));
        }
    }
    with.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(stage: &mut Stage, what: &str, with: &[(&str, Value)]) -> Result<(), String> {
        let with: Vec<_> = with.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect();
        stage.line(what, &with)
    }

    fn text(t: &str) -> Value {
        Value::Bytes(t.as_bytes().to_vec())
    }

    #[test]
    fn what_cannot_be_set_is_said() {
        let mut stage = Stage::new(Transport::Tcp);
        for (what, with, why) in [
            ("planet", vec![], "no `planet`"),
            ("controller", vec![("seriel", text("x"))], "no `seriel` here"),
            ("controller", vec![("kas", Value::Int(70_000))], "kas=70000 is too much"),
            ("controller", vec![("kas", text("x"))], "kas is a number"),
            ("namespace", vec![("nsid", Value::Int(1)), ("blocks", Value::Int(1))], "no subsystem above"),
            ("port", vec![("id", Value::Int(1))], "lacks at="),
            ("port", vec![("id", Value::Int(1)), ("at", text("here"))], "no address"),
            ("data", vec![("nsid", Value::Int(1)), ("bytes", text("x"))], "no such namespace"),
            ("player", vec![("nqn", text("n")), ("id", text("short"))], "16 bytes"),
        ] {
            let e = line(&mut stage, what, &with).expect_err(what);
            assert!(e.contains(why), "{what}: {e}");
        }
    }

    #[test]
    fn a_target_is_built_and_changed() {
        let mut stage = Stage::new(Transport::Tcp);
        line(&mut stage, "subsystem", &[("nqn", text("nqn.2014-08.org.example:a"))]).unwrap();
        line(&mut stage, "namespace", &[("nsid", Value::Int(1)), ("blocks", Value::Int(8))]).unwrap();
        line(&mut stage, "data", &[("nsid", Value::Int(1)), ("bytes", Value::Bytes(vec![7; 512]))]).unwrap();
        line(&mut stage, "port", &[("id", Value::Int(1)), ("at", text("192.0.2.1:4420"))]).unwrap();
        let mut sim = Sim::new(1, stage.target(None).unwrap(), SimOptions::default());
        let nsids =
            |sim: &mut Sim| sim.with_hub(|h| h.subsystems().next().map(|s| s.namespaces.keys().copied().collect::<Vec<_>>()));
        let with = [("nsid".to_owned(), Value::Int(2)), ("blocks".to_owned(), Value::Int(8))];
        sim.with_hub(|h| operate(h, "add_namespace", &with)).unwrap();
        assert_eq!(nsids(&mut sim), Some(vec![1, 2]));
        assert!(sim.with_hub(|h| operate(h, "add_namespace", &with)).is_err());
        sim.with_hub(|h| operate(h, "remove_namespace", &with[..1])).unwrap();
        assert_eq!(nsids(&mut sim), Some(vec![1]));
        assert!(sim.with_hub(|h| operate(h, "explode", &[])).unwrap_err().contains("no `explode`"));
    }
}
