//! Before a check is played: whether it may be, and what it needs.
//!
//! None of this depends on how other checks end, so that it is the same however checks run beside each other.

use std::collections::BTreeMap;
use std::ops::Range;

use nvmf_capture::Transport;
use nvmf_scenario::ast::Expr;
use nvmf_scenario::player::{EvalError, Peer, Scope};
use nvmf_scenario::value::{Val, compare};

use super::{Options, Writes};
use crate::probe::Facts;
use crate::runner::weigh::{error, not_run};
use crate::suite::Item;
use crate::verdict::{CheckResult, Class, Verdict};

/// What a check is played with.
pub(super) struct Ready {
    /// Values bound from the start besides the facts.
    pub(super) vars: BTreeMap<String, Val>,
    /// Blocks that it may write, empty where it writes none.
    pub(super) blocks: Range<u64>,
}

/// Judges what may run, in the order of the suite: each writing check gets blocks of its own from the range given.
pub(super) struct Admission<'a> {
    options: &'a Options,
    peer: &'a Peer,
    facts: &'a Facts,
    names: BTreeMap<String, Val>,
    /// Where the next range begins.
    cursor: u64,
}

impl<'a> Admission<'a> {
    pub(super) fn new(options: &'a Options, peer: &'a Peer, facts: &'a Facts) -> Self {
        Self { options, peer, facts, names: peer.names(), cursor: 0 }
    }

    /// What the check is played with, or the result that it has without being played.
    pub(super) fn admit(&mut self, item: &Item<'_>) -> Result<Ready, Box<CheckResult>> {
        let script = &item.check.script;
        let id = item.id();
        let out = |verdict, why: &str| Err(Box::new(not_run(self.options, item, verdict, why)));
        if let Some((_, why)) = self.options.excluded.iter().find(|(p, _)| crate::select::matches(p, &id)) {
            return out(Verdict::Skip, &format!("excluded: {why}"));
        }
        match self.peer.transport {
            Transport::Rdma if item.check.is_of_tcp() => return out(Verdict::Skip, "it is about NVMe/TCP: the transport is RDMA"),
            Transport::Tcp if item.check.is_of_rdma() => return out(Verdict::Skip, "it is about NVMe/RDMA: the transport is TCP"),
            _ => {}
        }
        if let Some(why) = self.forbidden(item.check.class(), script.writes.is_some()) {
            return out(Verdict::Skip, &why);
        }
        if let Some(why) = self.out_of_revision(item) {
            return out(Verdict::Skip, &why);
        }
        let mut vars: BTreeMap<String, Val> = BTreeMap::new();
        vars.insert("lba".into(), Val::Int(self.first_block()));
        for (name, value) in item.case.map_or(&[][..], |c| &c.values) {
            match Scope(&self.names).eval(value) {
                Ok(v) => vars.insert(name.clone(), v),
                // the peer's fault, which another check judges; anything else is the script's
                Err(why @ EvalError::Fact(_)) => return out(Verdict::Blocked, &why.to_string()),
                Err(why) => {
                    let line = item.case.map_or(0, |c| c.place.line);
                    return Err(Box::new(error(self.options, item, line, &why.to_string())));
                }
            };
        }
        let mut blocks = 0..0;
        if let Some(n) = &script.writes {
            let wanted = match fixed(n, &both(&self.names, &vars)).and_then(|v| v.int()) {
                Ok(n) => n,
                Err(why) => return out(Verdict::Blocked, &format!("how much to write is not known: {why}")),
            };
            match allot(self.options, self.peer, wanted, &mut self.cursor) {
                Ok(lba) => blocks = lba..lba + wanted,
                Err(why) => return out(Verdict::Skip, &why),
            }
            vars.insert("lba".into(), Val::Int(blocks.start));
        }
        for need in &script.needs {
            let all = both(&self.names, &vars);
            let held = fixed(&need.test.left, &all)
                .and_then(|l| fixed(&need.test.right, &all).and_then(|r| compare(&l, need.test.op, &r)));
            match held {
                Ok(true) => {}
                Ok(false) => return out(Verdict::Skip, &need.why),
                Err(why) => return out(Verdict::Blocked, &format!("not known: {why}")),
            }
        }
        Ok(Ready { vars, blocks })
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
    fn out_of_revision(&self, item: &Item<'_>) -> Option<String> {
        let revision = nvmf_spec::Revision(self.options.spec.or(self.facts.vs)?);
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
}

/// Gives a check blocks of its own, round the range.
fn allot(options: &Options, peer: &Peer, blocks: u64, cursor: &mut u64) -> Result<u64, String> {
    let size = peer.facts.get("blocks").and_then(|v| v.int().ok()).ok_or("no namespace to write to is known")?;
    let (first, last) = match options.writes {
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

fn both(names: &BTreeMap<String, Val>, vars: &BTreeMap<String, Val>) -> BTreeMap<String, Val> {
    names.iter().chain(vars).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// The value of an expression over facts alone.
fn fixed(e: &Expr, facts: &BTreeMap<String, Val>) -> Result<Val, String> {
    Scope(facts).eval(e).map_err(|e| e.to_string())
}
