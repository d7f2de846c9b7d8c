//! A scenario's `golden`: a run beside a capture of a real stack, packet by packet, and the wire block against either.

mod wire;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use nvmf_capture::compare::{self, Mask, Options, Report};
use nvmf_capture::{Exchange, Transport};
use nvmf_wire::nqn::DISCOVERY_NQN;
use nvmf_wire::{Cntlid, Value};

pub use wire::{Mismatch, matches};

use crate::ast::{Assign, Scenario};
use crate::player::{Peer, Scope};
use crate::value::Val;

/// Holds what the host and the target of a run said to each other beside the capture, A, as `golden … mask` says. `mask` gives the text of
/// a mask by its name. An error is that the two cannot be compared.
pub fn packets(
    scenario: &Scenario,
    capture: &Exchange,
    run: &Exchange,
    mask: impl Fn(&str) -> Result<String, String>,
) -> Result<Report, String> {
    let golden = scenario.golden.as_ref().ok_or_else(|| format!("{} has no golden", scenario.id))?;
    let mut all = Mask::default();
    for name in &golden.masks {
        all.add(&mask(name)?).map_err(|e| format!("mask {name}, {e}"))?;
    }
    compare::compare(capture, run, &Options { mask: all, from: golden.from.clone(), to: golden.to.clone() })
}

/// A line of a `target` block, worked out: what is set, to which values.
pub struct Setting {
    /// What is set.
    pub what: String,
    /// To what.
    pub with: Vec<(String, Value)>,
    /// Line of the script.
    pub line: usize,
}

/// The lines of a scenario's `target` block. The error names the line that has no value.
pub fn settings(scenario: &Scenario) -> Result<Vec<Setting>, String> {
    let bound = bound();
    let one = |s: &crate::ast::Setting| {
        let fault = |e: String| format!("line {}: {e}", s.place.line);
        let value = |a: &Assign| Ok((a.name.clone(), Scope(&bound).eval(&a.value).map_err(|e| e.to_string())?.plain()?));
        let with = s.with.iter().map(value).collect::<Result<_, String>>().map_err(fault)?;
        Ok(Setting { what: s.what.clone(), with, line: s.place.line })
    };
    scenario.target.iter().map(one).collect()
}

/// What is bound in a scenario with a target of its own, beside names and `$incapsule`.
fn bound() -> BTreeMap<String, Val> {
    [("nsid", 1), ("block", 512), ("lba", 0)].map(|(name, n)| (name.to_owned(), Val::Int(n))).into()
}

/// A scenario's own target as a player sees it: its first port, where the first subsystem is reached, its last, where the discovery
/// service is, the subsystem's name, and the data that a capsule takes, bytes.
#[must_use]
pub fn peer([first, last]: [(Transport, SocketAddr); 2], subnqn: &str, in_capsule: u64) -> Peer {
    let mut facts = bound();
    facts.insert("incapsule".to_owned(), Val::Int(in_capsule));
    Peer {
        addr: first.1,
        transport: first.0,
        discovery: last.1,
        discovery_transport: last.0,
        serves_discovery: true,
        hostnqn: "nqn.2014-08.org.example:host".to_owned(),
        hostid: *b"nvmfspec-golden1",
        subnqn: subnqn.to_owned(),
        discnqn: DISCOVERY_NQN.to_owned(),
        cntlid: Cntlid::DYNAMIC,
        facts,
        time_scale: 1.0,
    }
}
