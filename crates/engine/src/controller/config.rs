//! What a target serves, and how that changes while hosts are connected: ports, subsystems, namespaces, and the hosts that may come.
//!
//! Every change is told to those whom it concerns: queues get the new namespaces, hosts the events that they asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use nvmf_seam::store::{Geometry, Store};
use nvmf_wire::Cntlid;
use nvmf_wire::log::AnaState;
use nvmf_wire::nqn::{DISCOVERY_NQN, Nqn, NqnError};

use super::Hub;
use super::events::Notice;
use super::state::{EndReason, Kind, Subsystem};
use crate::message::{NamespaceView, ToConnection};
use crate::settings::{ControllerModel, RdmaCapsules};

/// A place where connections come in.
#[derive(Clone, Debug)]
pub struct Port {
    /// PORTID, different for each port. [DISC-LOG-23]
    pub id: u16,
    /// Address that the discovery log gives. An unspecified IP address stands for the one that the host reached us by.
    pub advertise: SocketAddr,
    /// True where only the discovery subsystem is reached here.
    pub discovery_only: bool,
    /// What carries its queues.
    pub transport: PortTransport,
}

/// What carries the queues of a port. A controller is reached over one port, so that Identify tells of that port's transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortTransport {
    /// NVMe/TCP.
    #[default]
    Tcp,
    /// NVMe/RDMA.
    Rdma(RdmaCapsules),
}

/// A namespace to be added.
#[derive(Clone)]
pub struct NewNamespace {
    /// Its storage.
    pub store: Arc<dyn Store>,
    /// The store may block the thread that calls it.
    pub blocking: bool,
    /// UUID; `None` for one that is derived from the subsystem's NQN and the NSID.
    pub uuid: Option<[u8; 16]>,
}

/// Why the hub could not do what its user asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The name is no NQN, or the one that is kept for discovery.
    Name(String),
    /// There is one of that name or number already.
    Exists,
    /// There is none of that name or number.
    Unknown,
    /// The NSID is 0 or above NN.
    Nsid(u32),
    /// Every NSID up to NN is in use.
    Full,
    /// The ANA group is 0 or above their number, or the state is none.
    Ana,
    /// Every host may connect, so that there is no list to add to or to take from.
    AnyHost,
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Name(why) => write!(f, "not usable as the NQN of a subsystem: {why}"),
            Self::Exists => f.write_str("exists already"),
            Self::Unknown => f.write_str("does not exist"),
            Self::Nsid(n) => write!(f, "NSID {n} is not in the range of valid NSIDs"),
            Self::Ana => f.write_str("no such ANA group or state"),
            Self::Full => f.write_str("no NSID is free"),
            Self::AnyHost => f.write_str("every host may connect: there is no list of hosts"),
        }
    }
}

impl std::error::Error for ConfigError {}

impl From<NqnError> for ConfigError {
    fn from(e: NqnError) -> Self {
        Self::Name(e.to_string())
    }
}

/// What a subsystem is, for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubsystemInfo {
    /// Its name.
    pub nqn: String,
    /// Host NQNs that may connect; `None` for all.
    pub hosts: Option<BTreeSet<String>>,
    /// Size of each namespace by its NSID.
    pub namespaces: BTreeMap<u32, Geometry>,
}

/// What an association is, for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssociationInfo {
    /// Controller.
    pub cntlid: Cntlid,
    /// The subsystem's name.
    pub subnqn: String,
    /// The host's name.
    pub hostnqn: String,
    /// I/O queues connected.
    pub io_queues: usize,
}

impl Hub {
    /// The port with this PORTID.
    pub fn port(&self, id: u16) -> Option<&Port> {
        self.ports.get(&id)
    }

    /// Adds a port: the discovery log changes.
    pub fn add_port(&mut self, port: Port) -> Result<(), ConfigError> {
        if self.ports.contains_key(&port.id) {
            return Err(ConfigError::Exists);
        }
        self.ports.insert(port.id, port);
        self.discovery_changed();
        Ok(())
    }

    /// Adds an NVM subsystem: the discovery log changes. `hosts` are the names that may connect; `None` for all.
    pub fn add_subsystem(&mut self, nqn: &str, hosts: Option<BTreeSet<String>>) -> Result<(), ConfigError> {
        let nqn = Nqn::parse(nqn)?;
        if nqn.as_str() == DISCOVERY_NQN {
            return Err(ConfigError::Name("it names the discovery subsystem".into()));
        }
        if self.subsystems.contains_key(nqn.as_str()) {
            return Err(ConfigError::Exists);
        }
        self.subsystems.insert(nqn.as_str().to_owned(), Subsystem::new(nqn.as_str(), hosts, &self.settings));
        self.discovery_changed();
        Ok(())
    }

    /// Removes an NVM subsystem and ends its associations: the discovery log changes.
    pub fn remove_subsystem(&mut self, nqn: &str) -> Result<(), ConfigError> {
        self.subsystems.remove(nqn).ok_or(ConfigError::Unknown)?;
        let gone: Vec<u32> = self.controllers.iter().filter(|(_, c)| c.subnqn == nqn).map(|(k, _)| *k).collect();
        for key in gone {
            self.end(key, EndReason::Removed);
        }
        self.discovery_changed();
        Ok(())
    }

    /// Adds a namespace and attaches it to every controller of its subsystem.
    pub fn add_namespace(&mut self, nqn: &str, nsid: u32, new: NewNamespace) -> Result<(), ConfigError> {
        if nsid == 0 || nsid > self.settings.namespaces {
            return Err(ConfigError::Nsid(nsid));
        }
        let subsystem = self.subsystems.get_mut(nqn).ok_or(ConfigError::Unknown)?;
        if subsystem.table.active.contains_key(&nsid) {
            return Err(ConfigError::Exists);
        }
        let view =
            NamespaceView { geometry: new.store.geometry(), store: new.store, blocking: new.blocking, ana: AnaState::OPTIMIZED };
        subsystem.attach(nsid, view, new.uuid);
        // Told by the notice of the namespace alone. [ADM-AER-19]
        subsystem.ana_changes += 1;
        self.namespaces_changed(nqn, nsid);
        Ok(())
    }

    /// Adds a namespace under the lowest NSID that is free, and gives that.
    pub fn add_namespace_somewhere(&mut self, nqn: &str, new: NewNamespace) -> Result<u32, ConfigError> {
        let subsystem = self.subsystems.get(nqn).ok_or(ConfigError::Unknown)?;
        let nsid = (1..=self.settings.namespaces).find(|n| !subsystem.table.active.contains_key(n)).ok_or(ConfigError::Full)?;
        self.add_namespace(nqn, nsid, new)?;
        Ok(nsid)
    }

    /// Detaches a namespace from every controller and removes it.
    pub fn remove_namespace(&mut self, nqn: &str, nsid: u32) -> Result<(), ConfigError> {
        let subsystem = self.subsystems.get_mut(nqn).ok_or(ConfigError::Unknown)?;
        if !subsystem.detach(nsid) {
            return Err(ConfigError::Unknown);
        }
        subsystem.ana_changes += 1;
        self.namespaces_changed(nqn, nsid);
        Ok(())
    }

    /// Lets a host, or every host, connect to a subsystem: the discovery log changes.
    pub fn allow_host(&mut self, nqn: &str, host: Option<&str>) -> Result<(), ConfigError> {
        let subsystem = self.subsystems.get_mut(nqn).ok_or(ConfigError::Unknown)?;
        match host {
            None => subsystem.hosts = None,
            Some(host) => {
                let host = Nqn::parse(host)?;
                let hosts = subsystem.hosts.as_mut().ok_or(ConfigError::AnyHost)?;
                if !hosts.insert(host.as_str().to_owned()) {
                    return Err(ConfigError::Exists);
                }
            }
        }
        self.discovery_changed();
        Ok(())
    }

    /// Keeps a host, or every host, off a subsystem from now on, and ends their associations: the discovery log changes.
    pub fn deny_host(&mut self, nqn: &str, host: Option<&str>) -> Result<(), ConfigError> {
        let subsystem = self.subsystems.get_mut(nqn).ok_or(ConfigError::Unknown)?;
        match host {
            None => subsystem.hosts = Some(BTreeSet::new()),
            Some(host) => {
                if !subsystem.hosts.as_mut().ok_or(ConfigError::AnyHost)?.remove(host) {
                    return Err(ConfigError::Unknown);
                }
            }
        }
        let off = |hostnqn: &str| host.is_none_or(|h| h == hostnqn);
        let gone: Vec<u32> =
            self.controllers.iter().filter(|(_, c)| c.subnqn == nqn && off(&c.hostnqn)).map(|(key, _)| *key).collect();
        for key in gone {
            self.end(key, EndReason::HostDenied);
        }
        self.discovery_changed();
        Ok(())
    }

    /// Adds a referral to another discovery service: the discovery log changes. [DISC-LOG-20]
    pub fn add_referral(&mut self, to: SocketAddr) -> Result<(), ConfigError> {
        if !self.referrals.insert(to) {
            return Err(ConfigError::Exists);
        }
        self.discovery_changed();
        Ok(())
    }

    /// Removes a referral: the discovery log changes.
    pub fn remove_referral(&mut self, to: SocketAddr) -> Result<(), ConfigError> {
        if !self.referrals.remove(&to) {
            return Err(ConfigError::Unknown);
        }
        self.discovery_changed();
        Ok(())
    }

    /// Keeps a static controller for one host. [FAB-CONNECT-28]
    pub fn reserve_controller(&mut self, nqn: &str, cntlid: Cntlid, host: &str) -> Result<(), ConfigError> {
        let host = Nqn::parse(host)?;
        let subsystem = self.subsystems.get_mut(nqn).ok_or(ConfigError::Unknown)?;
        match self.settings.controller_model {
            ControllerModel::Static { count } if (1..=count).contains(&cntlid.0) => {
                subsystem.reserved.insert(cntlid.0, host.as_str().to_owned());
                Ok(())
            }
            _ => Err(ConfigError::Unknown),
        }
    }

    /// Puts a namespace into an ANA group. [ANA-18]
    pub fn set_ana_group(&mut self, nqn: &str, nsid: u32, group: u32) -> Result<(), ConfigError> {
        let subsystem = self.subsystems.get_mut(nqn).ok_or(ConfigError::Unknown)?;
        if !subsystem.groups.contains_key(&group) {
            return Err(ConfigError::Ana);
        }
        subsystem.ids.get_mut(&nsid).ok_or(ConfigError::Unknown)?.group = group;
        subsystem.refresh_ana();
        self.ana_changed(nqn, AnaState::OPTIMIZED);
        Ok(())
    }

    /// Changes the state of an ANA group.
    pub fn set_ana_state(&mut self, nqn: &str, group: u32, state: AnaState) -> Result<(), ConfigError> {
        let known =
            [AnaState::OPTIMIZED, AnaState::NON_OPTIMIZED, AnaState::INACCESSIBLE, AnaState::PERSISTENT_LOSS, AnaState::CHANGE];
        let subsystem = self.subsystems.get_mut(nqn).ok_or(ConfigError::Unknown)?;
        let now = subsystem.groups.get_mut(&group).ok_or(ConfigError::Ana)?;
        // A namespace never comes back from a persistent loss. [ANA-12]
        if !known.contains(&state) || *now == AnaState::PERSISTENT_LOSS {
            return Err(ConfigError::Ana);
        }
        if std::mem::replace(now, state) != state {
            subsystem.refresh_ana();
            self.ana_changed(nqn, state);
        }
        Ok(())
    }

    /// Makes it warmer or colder, in kelvins: controllers whose host set a threshold report that it was reached.
    pub fn set_temperature(&mut self, kelvins: u16) {
        self.temperature = kelvins;
        for c in self.controllers.values_mut() {
            c.feel(kelvins, &mut self.out);
        }
    }

    /// The NVM subsystems, by name.
    pub fn subsystems(&self) -> impl Iterator<Item = SubsystemInfo> {
        self.subsystems.iter().map(|(nqn, s)| SubsystemInfo {
            nqn: nqn.clone(),
            hosts: s.hosts.clone(),
            namespaces: s.table.active.iter().map(|(nsid, n)| (*nsid, n.geometry)).collect(),
        })
    }

    /// The associations, oldest first.
    pub fn association_list(&self) -> impl Iterator<Item = AssociationInfo> {
        self.controllers.values().map(|c| AssociationInfo {
            cntlid: c.cntlid,
            subnqn: c.subnqn.clone(),
            hostnqn: c.hostnqn.clone(),
            io_queues: c.queues.len(),
        })
    }

    /// Tells every queue of a subsystem the state of its namespaces, and hosts of the new state; entry to the change state needs no
    /// notice. [ANA-18]
    fn ana_changed(&mut self, nqn: &str, state: AnaState) {
        let Some(subsystem) = self.subsystems.get(nqn) else { return };
        for c in self.controllers.values_mut().filter(|c| c.subnqn == nqn && c.kind == Kind::Io) {
            for connection in c.queues.values() {
                self.out.push_back((*connection, ToConnection::Namespaces(subsystem.table.clone())));
            }
            if state != AnaState::CHANGE {
                c.raise(Notice::Ana, &mut self.out);
            }
        }
    }

    /// Tells every queue of a subsystem, and every host that asked for notices.
    fn namespaces_changed(&mut self, nqn: &str, nsid: u32) {
        let Some(subsystem) = self.subsystems.get(nqn) else { return };
        for c in self.controllers.values_mut().filter(|c| c.subnqn == nqn && c.kind == Kind::Io) {
            for connection in c.queues.values() {
                self.out.push_back((*connection, ToConnection::Namespaces(subsystem.table.clone())));
            }
            c.changed.insert(nsid);
            c.raise(Notice::Namespaces, &mut self.out);
        }
    }

    /// The discovery log changed. [DISC-LOG-06, DISC-CTRL-17]
    fn discovery_changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        for c in self.controllers.values_mut().filter(|c| c.kind == Kind::Discovery) {
            c.raise(Notice::Discovery, &mut self.out);
        }
    }
}
