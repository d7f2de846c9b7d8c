//! Runs the suite against a peer, in whichever world the [`Network`] is of.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use nvmf_capture::{Exchange, Judge};
use nvmf_scenario::ast::{Expr, Grade};
use nvmf_scenario::golden;
use nvmf_scenario::player::{EvalError, Peer, Played, Player, Scope, Seen, Stop, StopKind};
use nvmf_scenario::value::{Val, compare};
use nvmf_seam::Network;
use nvmf_spec::Side;

use crate::probe::{self, Facts, Found};
use crate::select::{any_matches, check_prefixes};
use crate::suite::{Item, Suite};
use crate::verdict::{CheckResult, Class, Observation, Run, Verdict};

/// The well-known NQN of discovery services. [Base 2.0, 4.5]
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// What to run, and how far it may go.
#[derive(Clone, Debug)]
pub struct Options {
    /// The target as the user named it, for reports.
    pub target: String,
    /// Addresses to try, in order.
    pub candidates: Vec<SocketAddr>,
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
    /// `sim` or `real`.
    pub world: String,
    /// The command line that runs this again, to which `--filter` and the id of one check are added.
    pub reproduce: String,
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
    /// A check was judged.
    Finished(&'a CheckResult),
    /// The peer can no longer be reached; that check was the last.
    PeerLost(&'a str),
    /// It can be reached again.
    PeerBack,
}

/// Runs the suite.
pub struct Runner<'a> {
    suite: &'a Suite,
    options: &'a Options,
    net: &'a mut dyn Network,
}

impl<'a> Runner<'a> {
    /// A runner over `net`.
    pub fn new(suite: &'a Suite, options: &'a Options, net: &'a mut dyn Network) -> Self {
        Self { suite, options, net }
    }

    /// Runs what was asked for against each subsystem asked for.
    pub fn run(mut self, tell: &mut dyn FnMut(Event<'_>)) -> Result<Vec<Run>, RunError> {
        let items: Vec<Item<'_>> = self.suite.items();
        let ids: Vec<String> = items.iter().map(Item::id).collect();
        let names: Vec<&str> = ids.iter().map(String::as_str).collect();
        check_prefixes(&self.options.filters, &names).map_err(RunError::Usage)?;
        let chosen: Vec<Item<'_>> = items.into_iter().filter(|i| any_matches(&self.options.filters, &i.id())).collect();
        let addr = probe::reach(&mut *self.net, &self.options.candidates, &self.options.target, self.options.time_scale)?;
        let mut peer = self.peer(addr);
        probe::greet(&mut *self.net, &peer)?;
        let found = probe::discover(&mut *self.net, &peer, self.options.as_given);
        peer.serves_discovery = found.is_some();
        let subsystems = self.subsystems(addr, found)?;
        let mut runs = Vec::new();
        for s in subsystems {
            let here = Peer { addr: s.addr, subnqn: s.nqn, ..peer.clone() };
            if here.addr != addr {
                let hint = |why| {
                    format!(
                        "{why} (the discovery log of {addr} names it for {}; --connect-as-given stays at the target)",
                        here.subnqn
                    )
                };
                probe::greet(&mut *self.net, &here).map_err(|e| match e {
                    RunError::Unreachable(why) => RunError::Unreachable(hint(why)),
                    RunError::NotNvme(why) => RunError::NotNvme(hint(why)),
                    other => other,
                })?;
            }
            runs.push(self.run_on(here, &chosen, tell)?);
        }
        Ok(runs)
    }

    fn peer(&self, addr: SocketAddr) -> Peer {
        Peer {
            addr,
            discovery: addr,
            serves_discovery: true,
            hostnqn: self.options.hostnqn.clone(),
            hostid: self.options.hostid,
            subnqn: self.options.nqn.clone().unwrap_or_default(),
            discnqn: DISCOVERY_NQN.into(),
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
                "the discovery log of {addr} names no NVM subsystem over TCP; expected --nqn NQN"
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
        let facts = probe::facts(&mut *self.net, &peer, nsid)?;
        peer.facts.clone_from(&facts.vars);
        // names stand in tables of cases too, which are worked out before a player is there
        for (name, text) in [("hostnqn", &peer.hostnqn), ("subnqn", &peer.subnqn), ("discnqn", &peer.discnqn)] {
            peer.facts.insert(name.into(), Val::Text(text.clone()));
        }
        peer.facts.insert("hostid".into(), Val::Bytes(peer.hostid.to_vec()));
        tell(Event::Plan { total: items.len(), subsystem: &peer.subnqn });
        let mut run = Run {
            target: self.options.target.clone(),
            subsystem: peer.subnqn.clone(),
            world: self.options.world.clone(),
            peer: facts.shown.clone(),
            seed: self.options.seed,
            results: Vec::new(),
            aborted: None,
        };
        let mut failed = BTreeSet::new();
        let mut cursor = 0;
        for item in items {
            let id = item.id();
            if run.aborted.is_some() {
                run.results.push(self.not_run(item, Verdict::Blocked, "the peer could no longer be reached"));
                continue;
            }
            tell(Event::Started(&id));
            let mut result = self.judge(item, &peer, &facts, &failed, &mut cursor);
            let suspicious = !matches!(result.verdict, Verdict::Pass | Verdict::Skip | Verdict::Blocked | Verdict::Warn);
            if (suspicious || result.class == Class::Destructive && result.observation != Observation::NotRun)
                && !self.alive(peer.addr)
            {
                result.verdict = Verdict::Fail;
                result.observation = Observation::PeerDied;
                result.message = format!("the peer can no longer be reached after this check. {}", result.message);
                tell(Event::PeerLost(&id));
                if self.wait_for(peer.addr) {
                    tell(Event::PeerBack);
                } else {
                    run.aborted = Some(format!("the peer did not come back after {id}"));
                }
            }
            if matches!(result.verdict, Verdict::Fail | Verdict::FailLenient | Verdict::Blocked | Verdict::Error) {
                failed.insert(id.clone());
                failed.insert(item.check.script.id.clone());
            }
            tell(Event::Finished(&result));
            run.results.push(result);
        }
        Ok(run)
    }

    fn alive(&mut self, addr: SocketAddr) -> bool {
        match self.net.open(addr, Duration::from_secs(5).mul_f64(self.options.time_scale)) {
            Ok(link) => {
                self.net.close(link, false);
                true
            }
            Err(_) => false,
        }
    }

    /// Waits up to a minute for the peer.
    fn wait_for(&mut self, addr: SocketAddr) -> bool {
        for _ in 0..60 {
            let until = self.net.now() + Duration::from_secs(1).mul_f64(self.options.time_scale);
            self.net.sleep(until);
            if self.alive(addr) {
                return true;
            }
        }
        false
    }

    /// Judges one check: whether it may run, then by playing it.
    fn judge(&mut self, item: &Item<'_>, peer: &Peer, facts: &Facts, failed: &BTreeSet<String>, cursor: &mut u64) -> CheckResult {
        let script = &item.check.script;
        let id = item.id();
        if let Some((_, why)) = self.options.excluded.iter().find(|(p, _)| crate::select::matches(p, &id)) {
            return self.not_run(item, Verdict::Skip, &format!("excluded: {why}"));
        }
        if let Some(why) = self.forbidden(item.check.class(), script.writes.is_some()) {
            return self.not_run(item, Verdict::Skip, &why);
        }
        if let Some(by) = script.after.iter().find(|a| failed.contains(&a.it)) {
            return self.not_run(item, Verdict::Blocked, &format!("{} failed", by.it));
        }
        if let Some(why) = self.out_of_revision(item, facts) {
            return self.not_run(item, Verdict::Skip, &why);
        }
        let mut vars: BTreeMap<String, Val> = BTreeMap::new();
        vars.insert("lba".into(), Val::Int(self.first_block()));
        let names = peer.names();
        for (name, value) in item.case.map_or(&[][..], |c| &c.values) {
            match Scope(&names).eval(value) {
                Ok(v) => vars.insert(name.clone(), v),
                // the peer's fault, which another check judges; anything else is the script's
                Err(why @ EvalError::Fact(_)) => return self.not_run(item, Verdict::Blocked, &why.to_string()),
                Err(why) => return self.error(item, item.case.map_or(0, |c| c.place.line), &why.to_string()),
            };
        }
        if let Some(n) = &script.writes {
            let blocks = match fixed(n, &both(&names, &vars)).and_then(|v| v.int()) {
                Ok(n) => n,
                Err(why) => return self.not_run(item, Verdict::Blocked, &format!("how much to write is not known: {why}")),
            };
            match self.allot(blocks, &peer.facts, cursor) {
                Ok(lba) => vars.insert("lba".into(), Val::Int(lba)),
                Err(why) => return self.not_run(item, Verdict::Skip, &why),
            };
        }
        for need in &script.needs {
            let all = both(&names, &vars);
            let held = fixed(&need.test.left, &all)
                .and_then(|l| fixed(&need.test.right, &all).and_then(|r| compare(&l, need.test.op, &r)));
            match held {
                Ok(true) => {}
                Ok(false) => return self.not_run(item, Verdict::Skip, &need.why),
                Err(why) => return self.not_run(item, Verdict::Blocked, &format!("not known: {why}")),
            }
        }
        let (played, _) = Player::new(&mut *self.net, peer, vars).play(&script.body);
        self.verdict(item, played, failed)
    }

    fn forbidden(&self, class: Class, writes: bool) -> Option<String> {
        if writes && self.options.writes == Writes::Forbidden {
            return Some("it writes: not without --allow-writes FIRST-LAST".into());
        }
        match class {
            Class::Disruptive | Class::Destructive if !self.options.allow.contains(&class) => {
                let word = if class == Class::Disruptive { "disruptive" } else { "destructive" };
                Some(format!("it is {word}: not without --allow {word}"))
            }
            _ => None,
        }
    }

    /// A check none of whose requirements hold at the peer's revision is no check of this peer.
    fn out_of_revision(&self, item: &Item<'_>, facts: &Facts) -> Option<String> {
        let revision = nvmf_spec::Revision(self.options.spec.or(facts.vs)?);
        let cited: Vec<_> = item.check.script.cites.iter().filter_map(|c| nvmf_spec::requirement(&c.it)).collect();
        let holds = cited.is_empty() || cited.iter().any(|r| r.applies_to(revision));
        (!holds).then(|| format!("its requirements do not hold at revision {revision}"))
    }

    fn first_block(&self) -> u64 {
        match self.options.writes {
            Writes::Range { first, .. } => first,
            _ => 0,
        }
    }

    /// Gives a check blocks of its own, round the range.
    fn allot(&self, blocks: u64, facts: &BTreeMap<String, Val>, cursor: &mut u64) -> Result<u64, String> {
        let size = facts.get("blocks").and_then(|v| v.int().ok()).ok_or("no namespace to write to is known")?;
        let (first, last) = match self.options.writes {
            Writes::Range { first, last, .. } => (first, last.min(size.saturating_sub(1))),
            _ => (0, size.saturating_sub(1)),
        };
        let room = (last + 1).saturating_sub(first);
        if blocks > room {
            return Err(format!("it writes {blocks} blocks; --allow-writes gives {room}"));
        }
        if *cursor + blocks > room {
            *cursor = 0;
        }
        let lba = first + *cursor;
        *cursor += blocks;
        Ok(lba)
    }

    fn verdict(&self, item: &Item<'_>, played: Played, failed: &BTreeSet<String>) -> CheckResult {
        let mut r = self.blank(item);
        r.notes = played.notes;
        r.took = played.took;
        r.findings = findings(&played.exchange);
        r.exchange = played.exchange;
        let Some(stop) = played.stop.or(played.warning) else {
            if let Some(Err(m)) = item.check.wire.as_ref().map(|s| golden::matches(s, &r.exchange, None)) {
                r.at = Some(format!("{}:{}", item.check.file, m.place.line));
                r.verdict = Verdict::Fail;
                r.observation = Observation::WrongAnswer;
                r.message = format!("expected {}; seen {}", m.expected, m.seen);
            }
            return r;
        };
        r.at = Some(format!("{}:{}", item.check.file, stop.place.line));
        r.observation = observation(stop.seen);
        (r.verdict, r.message) = self.weigh(item, &stop, failed);
        r
    }

    fn weigh(&self, item: &Item<'_>, stop: &Stop, failed: &BTreeSet<String>) -> (Verdict, String) {
        match stop.kind {
            StopKind::Graded(Grade::Fail) => (Verdict::Fail, stop.message.clone()),
            StopKind::Graded(Grade::Lenient) => (Verdict::FailLenient, stop.message.clone()),
            StopKind::Graded(Grade::Warn) => (Verdict::Warn, stop.message.clone()),
            StopKind::Graded(Grade::Skip) => (Verdict::Skip, stop.message.clone()),
            StopKind::Graded(Grade::Ok) => (Verdict::Pass, stop.message.clone()),
            StopKind::Prerequisite(by) if by != item.check.script.id && failed.contains(by) => {
                (Verdict::Blocked, format!("{by} failed: {}", stop.message))
            }
            StopKind::Prerequisite(_) => (Verdict::Fail, stop.message.clone()),
            StopKind::Script | StopKind::Harness => (Verdict::Error, stop.message.clone()),
        }
    }

    fn blank(&self, item: &Item<'_>) -> CheckResult {
        let id = item.id();
        CheckResult {
            says: item.check.script.says.clone(),
            cites: item.check.cites(),
            class: item.check.class(),
            verdict: Verdict::Pass,
            observation: Observation::AsExpected,
            message: String::new(),
            notes: Vec::new(),
            findings: Vec::new(),
            at: None,
            took: Duration::ZERO,
            exchange: Exchange::default(),
            reproduce: format!("{} --filter {id}", self.options.reproduce),
            id,
        }
    }

    fn not_run(&self, item: &Item<'_>, verdict: Verdict, why: &str) -> CheckResult {
        CheckResult { verdict, observation: Observation::NotRun, message: why.to_owned(), ..self.blank(item) }
    }

    fn error(&self, item: &Item<'_>, line: usize, why: &str) -> CheckResult {
        let at = Some(format!("{}:{line}", item.check.file));
        CheckResult { at, ..self.not_run(item, Verdict::Error, why) }
    }
}

fn observation(seen: Seen) -> Observation {
    match seen {
        Seen::Expected => Observation::AsExpected,
        Seen::Timeout => Observation::Timeout,
        Seen::WrongAnswer => Observation::WrongAnswer,
        Seen::Close => Observation::SilentClose,
        Seen::Reset => Observation::Reset,
        Seen::Unexpected => Observation::Unexpected,
        Seen::WrongData => Observation::WrongData,
        Seen::Unreachable => Observation::PeerDied,
        Seen::NotRun => Observation::NotRun,
    }
}

/// What the bystander rules find in the controller's part of a check's traffic.
fn findings(exchange: &Exchange) -> Vec<String> {
    let mut judge = Judge::new();
    let mut out = Vec::new();
    for (conn, event) in exchange.events() {
        for f in judge.event(conn, event) {
            if f.side == Side::Controller {
                out.push(f.to_string());
            }
        }
    }
    out.dedup();
    out
}

fn both(names: &BTreeMap<String, Val>, vars: &BTreeMap<String, Val>) -> BTreeMap<String, Val> {
    names.iter().chain(vars).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// The value of an expression over facts alone.
fn fixed(e: &Expr, facts: &BTreeMap<String, Val>) -> Result<Val, String> {
    Scope(facts).eval(e).map_err(|e| e.to_string())
}
