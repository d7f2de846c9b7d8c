//! Plays the checks of one subsystem, in the order of the suite or, where that is possible, beside each other.
//!
//! Beside each other run those that disturb nobody: of class *safe* or *writes*, each with blocks of its own, and not marked `alone`.
//! What the way up needs runs before them, all others after them, one by one. What a check did beside others is believed where it
//! passed. Everything else is doubted and played again alone, and that verdict counts; so neither the peer's limits nor the order of
//! finishing change a result. Read [`Course::run`] first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::time::Duration;

use nvmf_scenario::ast::{Awaited, Expr, Stmt, What};
use nvmf_scenario::player::{Peer, Played, Player, StopKind};

use super::ready::{Admission, Ready};
use super::weigh;
use super::{Beside, Candidate, Event, Runner};
use crate::probe::{self, Facts};
use crate::report::{observation_word, verdict_word};
use crate::suite::{BASE, Item};
use crate::verdict::{CheckResult, Class, Observation, Run, Verdict};

/// Where this fails, a peer does not bear two associations of a host, and checks run one by one.
const TWO: &str = "fabrics/connect/two-associations";

/// The checks of one subsystem, and what came of them.
pub(super) struct Course<'r, 'a> {
    runner: &'r mut Runner<'a>,
    peer: &'r Peer,
    items: &'r [Item<'r>],
    tell: &'r mut dyn FnMut(Event<'_>),
    ready: Vec<Result<Ready, Box<CheckResult>>>,
    results: Vec<Option<CheckResult>>,
    /// Ids of what failed or was blocked, with and without the case.
    failed: BTreeSet<String>,
    /// Where the items of a check stand.
    places: BTreeMap<&'r str, Vec<usize>>,
    aborted: Option<String>,
}

/// What came of checks that ran beside each other and is not believed yet.
#[derive(Default)]
struct Doubts {
    results: BTreeMap<usize, CheckResult>,
    /// Those that ran when the peer was lost.
    suspects: BTreeSet<usize>,
}

impl<'r, 'a> Course<'r, 'a> {
    pub(super) fn new(
        runner: &'r mut Runner<'a>,
        peer: &'r Peer,
        facts: &'r Facts,
        items: &'r [Item<'r>],
        tell: &'r mut dyn FnMut(Event<'_>),
    ) -> Self {
        let mut admission = Admission::new(runner.options, peer, facts);
        let ready = items.iter().map(|item| admission.admit(item)).collect();
        let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, item) in items.iter().enumerate() {
            places.entry(item.check.script.id.as_str()).or_default().push(at);
        }
        let results = items.iter().map(|_| None).collect();
        Self { runner, peer, items, tell, ready, results, failed: BTreeSet::new(), places, aborted: None }
    }

    /// Plays everything and puts the results, in the order of the suite, into `run`.
    pub(super) fn run(mut self, run: Run) -> Run {
        if let Some(beside) = self.runner.beside.filter(|beside| beside.jobs > 1) {
            let first = |item: &Item<'_>| BASE.contains(&item.check.script.id.as_str()) || item.check.script.id == TWO;
            for at in (0..self.items.len()).filter(|at| first(&self.items[*at])) {
                self.step(at);
            }
            if self.aborted.is_none() && !self.failed.contains(TWO) {
                self.together(beside);
            }
        }
        for at in 0..self.items.len() {
            if self.results[at].is_none() {
                self.step(at);
            }
        }
        Run { results: self.results.into_iter().flatten().collect(), aborted: self.aborted, ..run }
    }

    /// One check, with nothing beside it.
    fn step(&mut self, at: usize) {
        let result = self.unplayed(at).unwrap_or_else(|| self.alone(at, false));
        self.settle(at, result);
    }

    /// The result of a check that is not to be played, if so.
    fn unplayed(&self, at: usize) -> Option<CheckResult> {
        let item = &self.items[at];
        let out = |why: &str| Some(weigh::not_run(self.runner.options, item, Verdict::Blocked, why));
        if self.aborted.is_some() {
            return out("the peer could no longer be reached");
        }
        let refused = self.ready[at].as_ref().err();
        if let Some(by) = item.check.script.after.iter().find(|a| self.failed.contains(&a.it))
            && refused.is_none_or(|r| r.verdict == Verdict::Blocked)
        {
            return out(&format!("{} failed", by.it));
        }
        refused.map(|result| (**result).clone())
    }

    /// Plays a check over the network of the runner. Whether the peer survived is tried where there is doubt, and where it has to be
    /// `sure`.
    fn alone(&mut self, at: usize, sure: bool) -> CheckResult {
        let (item, peer) = (&self.items[at], self.peer);
        let id = item.id();
        (self.tell)(Event::Started(&id));
        let vars = self.ready[at].as_ref().map(|ready| ready.vars.clone()).unwrap_or_default();
        let (played, _) = Player::new(&mut *self.runner.net, peer, vars).play(&item.check.script.body);
        let mut result = weigh::verdict(self.runner.options, item, played, &self.failed);
        if (sure || is_suspicious(&result) || result.class == Class::Destructive) && !self.alive() {
            died(&mut result, "the peer can no longer be reached after this check");
            self.lost(&id);
        }
        result
    }

    /// Waits for a peer that is gone; the run ends where it does not come back.
    fn lost(&mut self, by: &str) {
        (self.tell)(Event::PeerLost(by));
        if self.wait_for() {
            (self.tell)(Event::PeerBack);
        } else {
            self.aborted = Some(format!("the peer did not come back after {by}"));
        }
    }

    fn alive(&mut self) -> bool {
        let here = Candidate { transport: self.peer.transport, addr: self.peer.addr };
        probe::answers(&mut *self.runner.net, &here, self.runner.options.time_scale).is_ok()
    }

    /// Waits up to a minute for the peer.
    fn wait_for(&mut self) -> bool {
        for _ in 0..60 {
            let until = self.runner.net.now() + Duration::from_secs(1).mul_f64(self.runner.options.time_scale);
            self.runner.net.sleep(until);
            if self.alive() {
                return true;
            }
        }
        false
    }

    /// The result stands.
    fn settle(&mut self, at: usize, result: CheckResult) {
        if matches!(result.verdict, Verdict::Fail | Verdict::FailLenient | Verdict::Blocked | Verdict::Error) {
            self.failed.insert(result.id.clone());
            self.failed.insert(self.items[at].check.script.id.clone());
        }
        (self.tell)(Event::Finished { place: at, result: &result });
        self.results[at] = Some(result);
    }

    /// Plays those that disturb nobody beside each other, until none is left that may begin.
    fn together(&mut self, beside: Beside<'_>) {
        let shares = |at: &usize| self.results[*at].is_none() && shares(&self.items[*at]);
        let mut waiting: Vec<usize> = (0..self.items.len()).filter(shares).collect();
        // those that wait longest first, so that nothing is left to wait for at the end
        waiting.sort_by_key(|at| Reverse(quiet(&self.items[*at].check.script.body)));
        let mut jobs = beside.jobs;
        loop {
            let mut doubts = Doubts::default();
            self.wave(beside, &mut jobs, &mut waiting, &mut doubts);
            if doubts.results.is_empty() {
                return;
            }
            if self.doubted(doubts) > 0 {
                jobs = (jobs / 2).max(1);
            }
            if self.aborted.is_some() {
                return;
            }
        }
    }

    /// Starts checks as long as one may begin, and waits for them. Ends early where the peer is lost.
    fn wave(&mut self, beside: Beside<'_>, jobs: &mut usize, waiting: &mut Vec<usize>, doubts: &mut Doubts) {
        let (peer, items) = (self.peer, self.items);
        // with how many jobs each of those under way was begun
        let mut flying: BTreeMap<usize, usize> = BTreeMap::new();
        let (ended, ends) = mpsc::channel();
        std::thread::scope(|scope| {
            loop {
                while doubts.suspects.is_empty() && flying.len() < *jobs {
                    let Some(next) = waiting.iter().position(|at| self.may_begin(*at, &flying)) else { break };
                    let at = waiting.remove(next);
                    if let Some(result) = self.unplayed(at) {
                        self.settle(at, result);
                        continue;
                    }
                    (self.tell)(Event::Started(&items[at].id()));
                    flying.insert(at, *jobs);
                    let vars = self.ready[at].as_ref().map(|ready| ready.vars.clone()).unwrap_or_default();
                    let ended = ended.clone();
                    scope.spawn(move || {
                        let play = || Player::new(&mut *(beside.network)(), peer, vars).play(&items[at].check.script.body).0;
                        // the other end waits as long as a check is under way
                        let _ = ended.send((at, catch_unwind(AssertUnwindSafe(play))));
                    });
                }
                if flying.is_empty() {
                    return;
                }
                let Ok((at, outcome)) = ends.recv() else { return };
                let begun = flying.remove(&at);
                let played = outcome.unwrap_or_else(|panic| resume_unwind(panic));
                if stuck_on_the_way_up(&played) && begun == Some(*jobs) {
                    // perhaps it takes no more associations at once
                    *jobs = (*jobs / 2).max(1);
                }
                self.landed(at, played, &flying, doubts);
            }
        });
        if !doubts.suspects.is_empty() {
            self.lost(&names(items, &doubts.suspects));
        }
    }

    /// What a check did beside others: believed, or doubted.
    fn landed(&mut self, at: usize, played: Played, flying: &BTreeMap<usize, usize>, doubts: &mut Doubts) {
        let result = weigh::verdict(self.runner.options, &self.items[at], played, &self.failed);
        if doubts.suspects.is_empty() {
            if matches!(result.verdict, Verdict::Pass | Verdict::Blocked) {
                return self.settle(at, result);
            }
            if is_suspicious(&result) && !self.alive() {
                doubts.suspects = flying.keys().copied().chain([at]).collect();
            }
        }
        doubts.results.insert(at, result);
    }

    /// Whether a check may begin now: what it comes after is judged, and nobody else writes its blocks.
    fn may_begin(&self, at: usize, flying: &BTreeMap<usize, usize>) -> bool {
        let judged = |id: &str| self.places.get(id).is_none_or(|all| all.iter().all(|p| self.results[*p].is_some()));
        let Ok(ready) = &self.ready[at] else { return true };
        let other = |p: &usize| {
            self.ready[*p].as_ref().is_ok_and(|r| r.blocks.start < ready.blocks.end && ready.blocks.start < r.blocks.end)
        };
        self.items[at].check.script.after.iter().all(|a| judged(&a.it)) && !flying.keys().any(other)
    }

    /// Plays again, alone, what is doubted. Gives how many ended otherwise than beside others.
    fn doubted(&mut self, doubts: Doubts) -> usize {
        let Doubts { results, suspects } = doubts;
        let (mut differ, mut killed) = (0, false);
        let mut held = Vec::new();
        for (at, first) in results {
            let suspect = suspects.contains(&at);
            if self.aborted.is_some() {
                held.push((at, self.unrepeated(first, suspect && !killed, &suspects)));
                continue;
            }
            let mut result = self.alone(at, suspect);
            killed |= result.observation == Observation::PeerDied;
            if !suspect && (result.verdict, result.observation) != (first.verdict, first.observation) {
                differ += 1;
                let (verdict, seen) = (verdict_word(first.verdict), observation_word(first.observation));
                let message = first.message.lines().next().unwrap_or_default();
                result.notes.push(format!(
                    "beside other checks it ended with {verdict}, {seen}: {message}; alone, which counts, as said here"
                ));
            }
            held.push((at, result));
        }
        if !killed
            && self.aborted.is_none()
            && let Some((_, result)) = held.iter_mut().find(|(at, _)| suspects.contains(at))
        {
            let all = names(self.items, &suspects);
            died(
                result,
                &format!("the peer could no longer be reached while these ran beside each other: {all}; of none of them alone"),
            );
        }
        for (at, result) in held {
            self.settle(at, result);
        }
        differ
    }

    /// The result of a check that could not be played again, since the peer is gone for good.
    fn unrepeated(&self, mut first: CheckResult, blamed: bool, suspects: &BTreeSet<usize>) -> CheckResult {
        if blamed {
            let all = names(self.items, suspects);
            died(
                &mut first,
                &format!(
                    "the peer can no longer be reached since these ran beside each other: {all}; one of them may have done it"
                ),
            );
        } else {
            first.notes.push("it ran beside other checks and could not be run again alone".into());
        }
        first
    }
}

/// Whether a check may run beside others.
fn shares(item: &Item<'_>) -> bool {
    matches!(item.check.class(), Class::Safe | Class::Writes) && item.check.script.alone.is_none()
}

/// Whether what was seen may come from a peer that is gone.
fn is_suspicious(result: &CheckResult) -> bool {
    !matches!(result.verdict, Verdict::Pass | Verdict::Skip | Verdict::Blocked | Verdict::Warn)
}

fn stuck_on_the_way_up(played: &Played) -> bool {
    played.stop.as_ref().is_some_and(|stop| matches!(stop.kind, StopKind::Prerequisite(_)))
}

fn died(result: &mut CheckResult, why: &str) {
    result.verdict = Verdict::Fail;
    result.observation = Observation::PeerDied;
    result.message = format!("{why}. {}", result.message).trim_end().to_owned();
}

fn names(items: &[Item<'_>], places: &BTreeSet<usize>) -> String {
    places.iter().map(|at| items[*at].id()).collect::<Vec<String>>().join(", ")
}

/// How long a script waits whatever the peer does.
fn quiet(body: &[Stmt]) -> Duration {
    let one = |stmt: &Stmt| match &stmt.what {
        What::Wait(time) => *time,
        What::Expect { any, within: Some(time) } if any.iter().any(|a| matches!(a.what, Awaited::Silence)) => *time,
        What::Repeat(Expr::Int(n), inner) => quiet(inner) * u32::try_from(*n).unwrap_or(u32::MAX),
        What::Repeat(_, inner) | What::If(_, inner) => quiet(inner),
        _ => Duration::ZERO,
    };
    body.iter().map(one).sum()
}
