//! Runs the suite against a peer, in whichever world the [`Network`] is of.
//!
//! [`Runner`] finds the peer and its subsystems. For each subsystem `ready` says which checks may run and with what, `course` plays
//! them, one by one or beside each other, and `weigh` makes a verdict of what was played. Read `course` for the order of things.

mod course;
mod ready;
mod weigh;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use nvmf_capture::Transport;
use nvmf_scenario::player::Peer;
use nvmf_scenario::value::Val;
use nvmf_seam::Network;
use nvmf_wire::Cntlid;

use self::course::Course;
use crate::probe::{self, Found};
use crate::select::{any_matches, check_prefixes};
use crate::suite::{Item, Suite};
use crate::verdict::{CheckResult, Class, Run};

pub use nvmf_wire::nqn::DISCOVERY_NQN;

/// What to run, and how far it may go.
#[derive(Clone, Debug)]
pub struct Options {
    /// The target as the user named it, for reports.
    pub target: String,
    /// What carries the capsules to the subsystem under test.
    pub transport: Transport,
    /// Places to try, in order: the discovery service may be asked over another transport than the one tested.
    pub candidates: Vec<Candidate>,
    /// `--nqn`: every connection goes to the target.
    pub nqn: Option<String>,
    /// `--all-subsystems`.
    pub all_subsystems: bool,
    /// `--connect-as-given`: addresses of the discovery log are replaced by the target's.
    pub as_given: bool,
    /// Host NQN.
    pub hostnqn: String,
    /// Host Identifier.
    pub hostid: [u8; 16],
    /// Prefixes of ids; none means all.
    pub filters: Vec<String>,
    /// Prefixes and reasons of checks that do not run.
    pub excluded: Vec<(String, String)>,
    /// `--allow-writes`.
    pub writes: Writes,
    /// Classes allowed besides *safe* and *writes*.
    pub allow: BTreeSet<Class>,
    /// Multiplies our patience.
    pub time_scale: f64,
    /// Seed of the run.
    pub seed: u64,
    /// `--spec`, as VS encodes it; what the peer reports otherwise.
    pub spec: Option<u32>,
    /// The bystander rules hear what a check and the peer say; without them there are verdicts, and no findings.
    pub rules: bool,
    /// `sim` or `real`.
    pub world: String,
    /// The command line that runs this again, to which `--filter` and the id of one check are added.
    pub reproduce: String,
}

/// A place that may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Over which transport.
    pub transport: Transport,
    /// Where.
    pub addr: SocketAddr,
}

/// Where checks may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Nowhere.
    Forbidden,
    /// Anywhere in the lowest active namespace: the target is our own.
    Anywhere,
    /// Blocks `first` to `last` of `nsid`, the lowest active one where none is given.
    Range {
        /// Namespace.
        nsid: Option<u32>,
        /// First block.
        first: u64,
        /// Last block, included.
        last: u64,
    },
}

/// Why nothing could be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The caller asked for something that is not there.
    Usage(String),
    /// Nothing answers.
    Unreachable(String),
    /// Something answers, but not NVMe/TCP.
    NotNvme(String),
    /// No subsystem of that name.
    UnknownNqn(String),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usage(w) | Self::Unreachable(w) | Self::NotNvme(w) | Self::UnknownNqn(w) => f.write_str(w),
        }
    }
}

impl std::error::Error for RunError {}

/// What happens during a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// So many checks will be judged against this subsystem.
    Plan {
        /// Checks.
        total: usize,
        /// NQN of the subsystem.
        subsystem: &'a str,
    },
    /// A check begins.
    Started(&'a str),
    /// A check was judged. Where checks run beside each other they do not end in the order in which they are listed.
    Finished {
        /// Its place among the checks of this subsystem, from 0.
        place: usize,
        /// The result.
        result: &'a CheckResult,
    },
    /// The peer can no longer be reached; these checks were the last.
    PeerLost(&'a str),
    /// It can be reached again.
    PeerBack,
}

/// Lets checks run beside each other, each over a network of its own.
#[derive(Clone, Copy)]
pub struct Beside<'a> {
    /// How many at most.
    pub jobs: usize,
    /// Makes one more network in the same world, with the same clock.
    pub network: &'a (dyn Fn() -> Box<dyn Network> + Sync),
}

/// Runs the suite.
pub struct Runner<'a> {
    suite: &'a Suite,
    options: &'a Options,
    net: &'a mut dyn Network,
    beside: Option<Beside<'a>>,
}

impl<'a> Runner<'a> {
    /// A runner over `net`.
    pub fn new(suite: &'a Suite, options: &'a Options, net: &'a mut dyn Network) -> Self {
        Self { suite, options, net, beside: None }
    }

    /// The checks that disturb nobody run beside each other. Without this, and in a simulated world, they run one by one.
    #[must_use]
    pub fn beside(mut self, beside: Option<Beside<'a>>) -> Self {
        self.beside = beside;
        self
    }

    /// Runs what was asked for against each subsystem asked for.
    pub fn run(mut self, tell: &mut dyn FnMut(Event<'_>)) -> Result<Vec<Run>, RunError> {
        let items: Vec<Item<'_>> = self.suite.items();
        let ids: Vec<String> = items.iter().map(Item::id).collect();
        let names: Vec<&str> = ids.iter().map(String::as_str).collect();
        check_prefixes(&self.options.filters, &names).map_err(RunError::Usage)?;
        let chosen: Vec<Item<'_>> = items.into_iter().filter(|i| any_matches(&self.options.filters, &i.id())).collect();
        // a subsystem that is named is where the target is, so that only its own transport leads there
        let transport = self.options.transport;
        let own = |c: &Candidate| self.options.nqn.is_none() && !self.options.as_given || c.transport == transport;
        let candidates: Vec<Candidate> = self.options.candidates.iter().copied().filter(own).collect();
        let first = probe::reach(&mut *self.net, &candidates, &self.options.target, self.options.time_scale)?;
        let addr = first.addr;
        let mut peer = self.peer(&first);
        probe::greet(&mut *self.net, &peer)?;
        let found = probe::discover(&mut *self.net, &peer, transport, self.options.as_given);
        peer.serves_discovery = found.is_some();
        let subsystems = self.subsystems(addr, found)?;
        let mut runs = Vec::new();
        for s in subsystems {
            let here = Peer { addr: s.addr, transport, subnqn: s.nqn, ..peer.clone() };
            if here.addr != addr || transport != first.transport {
                let hint = |why| {
                    format!(
                        "{why} (the discovery log of {addr} names it for {}; --connect-as-given stays at the target)",
                        here.subnqn
                    )
                };
                let reached = probe::answers(&mut *self.net, &Candidate { transport, addr: here.addr }, self.options.time_scale);
                let reached = reached.map_err(|why| RunError::Unreachable(format!("{}: {why}", here.addr)));
                reached.and_then(|()| probe::greet(&mut *self.net, &here)).map_err(|e| match e {
                    RunError::Unreachable(why) => RunError::Unreachable(hint(why)),
                    RunError::NotNvme(why) => RunError::NotNvme(hint(why)),
                    other => other,
                })?;
            }
            runs.push(self.run_on(here, &chosen, tell)?);
        }
        Ok(runs)
    }

    fn peer(&self, first: &Candidate) -> Peer {
        Peer {
            addr: first.addr,
            transport: first.transport,
            discovery: first.addr,
            discovery_transport: first.transport,
            serves_discovery: true,
            hostnqn: self.options.hostnqn.clone(),
            hostid: self.options.hostid,
            subnqn: self.options.nqn.clone().unwrap_or_default(),
            discnqn: DISCOVERY_NQN.into(),
            cntlid: Cntlid::DYNAMIC,
            facts: BTreeMap::new(),
            time_scale: self.options.time_scale,
        }
    }

    fn subsystems(&self, addr: SocketAddr, found: Option<Vec<Found>>) -> Result<Vec<Found>, RunError> {
        if let Some(nqn) = &self.options.nqn {
            return Ok(vec![Found { nqn: nqn.clone(), addr }]);
        }
        let mut all = found.ok_or_else(|| {
            RunError::UnknownNqn(format!("{addr} gives no discovery log to choose a subsystem from; expected --nqn NQN"))
        })?;
        if all.is_empty() {
            return Err(RunError::UnknownNqn(format!(
                "the discovery log of {addr} names no NVM subsystem over {}; expected --nqn NQN",
                if self.options.transport == Transport::Rdma { "RDMA" } else { "TCP" }
            )));
        }
        if !self.options.all_subsystems {
            all.truncate(1);
        }
        Ok(all)
    }

    fn run_on(&mut self, mut peer: Peer, items: &[Item<'_>], tell: &mut dyn FnMut(Event<'_>)) -> Result<Run, RunError> {
        let nsid = match self.options.writes {
            Writes::Range { nsid, .. } => nsid,
            _ => None,
        };
        let facts = probe::facts(&mut *self.net, &mut peer, nsid)?;
        peer.facts.clone_from(&facts.vars);
        // names stand in tables of cases too, which are worked out before a player is there
        for (name, text) in [("hostnqn", &peer.hostnqn), ("subnqn", &peer.subnqn), ("discnqn", &peer.discnqn)] {
            peer.facts.insert(name.into(), Val::Text(text.clone()));
        }
        peer.facts.insert("hostid".into(), Val::Bytes(peer.hostid.to_vec()));
        tell(Event::Plan { total: items.len(), subsystem: &peer.subnqn });
        let run = Run {
            target: self.options.target.clone(),
            subsystem: peer.subnqn.clone(),
            world: self.options.world.clone(),
            peer: facts.shown.clone(),
            seed: self.options.seed,
            results: Vec::new(),
            aborted: None,
        };
        Ok(Course::new(self, &peer, &facts, items, tell).run(run))
    }
}
