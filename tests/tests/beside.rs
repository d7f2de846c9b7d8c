//! Checks beside each other: what is reported does not depend on it, and whatever goes wrong is still told of the right check.
//!
//! Each check gets a simulated world of its own, so that nothing here waits; what the worlds share is [`Shared`].

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use nvmf_conformance::runner::{Beside, Event, Options, Runner};
use nvmf_conformance::suite::Suite;
use nvmf_conformance::{Observation, Run, Verdict};
use nvmf_fabric::Sim;
use nvmf_seam::{Instant, LinkId, Network, OpenError, Received, SendError};
use nvmfspec_tests::world;

/// What all worlds of one test share: the peer as far as it is one.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Worlds in which a link was opened, the runner's own left out.
    busy: usize,
    /// Most of those that the peer takes.
    limit: Option<usize>,
    /// The peer is gone.
    dead: bool,
    /// It never comes back.
    for_ever: bool,
}

/// When the peer dies.
#[derive(Clone, Copy, PartialEq)]
enum Kill {
    Never,
    /// Of a Flush with this NSID.
    Flush(u32),
    /// Of such a Flush while another check runs.
    FlushBeside(u32),
}

/// A world that passes everything on to a simulation of its own, as long as the peer lives.
struct World {
    sim: Sim,
    shared: Arc<Shared>,
    kill: Kill,
    /// The runner's own: what it plays, it plays alone.
    main: bool,
    opened: bool,
}

impl World {
    fn new(shared: &Arc<Shared>, kill: Kill, main: bool) -> Self {
        Self { sim: world::sim(7, None), shared: shared.clone(), kill, main, opened: false }
    }

    fn meets(&mut self, bytes: &[u8]) {
        // a command capsule with opcode 0 behind its header of 8 bytes
        let flush = |nsid: u32| bytes.len() >= 72 && bytes[0] == 4 && bytes[8] == 0 && bytes[12..16] == nsid.to_le_bytes();
        let mut state = self.shared.state.lock().unwrap();
        match self.kill {
            Kill::Flush(nsid) if flush(nsid) => state.dead = true,
            Kill::FlushBeside(nsid) if !self.main && flush(nsid) => {
                let patience = Duration::from_secs(20);
                let waited = self.shared.changed.wait_timeout_while(state, patience, |s| s.busy < 2 && !s.dead).unwrap();
                state = waited.0;
                state.dead = true;
            }
            _ => {}
        }
        self.shared.changed.notify_all();
    }

    fn dead(&self) -> bool {
        self.shared.state.lock().unwrap().dead
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.opened && !self.main {
            self.shared.state.lock().unwrap().busy -= 1;
        }
    }
}

impl Network for World {
    fn now(&self) -> Instant {
        self.sim.now()
    }

    fn open(&mut self, to: SocketAddr, patience: Duration) -> Result<LinkId, OpenError> {
        {
            let mut state = self.shared.state.lock().unwrap();
            if state.dead || (!self.main && !self.opened && state.limit.is_some_and(|limit| state.busy >= limit)) {
                return Err(OpenError::Refused);
            }
            state.busy += usize::from(!self.opened && !self.main);
        }
        self.opened = true;
        self.shared.changed.notify_all();
        self.sim.open(to, patience)
    }

    fn send(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), SendError> {
        self.meets(bytes);
        if self.dead() { Err(SendError::Closed) } else { self.sim.send(link, bytes) }
    }

    fn receive(&mut self, link: LinkId, until: Instant) -> Received {
        if self.dead() { Received::Closed { reset: true } } else { self.sim.receive(link, until) }
    }

    fn shutdown(&mut self, link: LinkId) {
        self.sim.shutdown(link);
    }

    fn close(&mut self, link: LinkId, reset: bool) {
        self.sim.close(link, reset);
    }

    fn sleep(&mut self, until: Instant) {
        let mut state = self.shared.state.lock().unwrap();
        // the runner waits for the peer
        state.dead &= !self.main || state.for_ever;
        drop(state);
        self.sim.sleep(until);
    }
}

/// Runs the checks below `filters` with so many beside each other, and gives what was lost as it was told.
fn run(filters: &[&str], jobs: usize, shared: &Arc<Shared>, kill: Kill) -> (Run, Vec<String>) {
    let suite = Suite::embedded().expect("the scripts are right");
    let options = Options { filters: filters.iter().map(|f| (*f).to_owned()).collect(), ..world::options(7) };
    let more = || Box::new(World::new(shared, kill, false)) as Box<dyn Network>;
    let mut net = World::new(shared, kill, true);
    let mut lost = Vec::new();
    let runner = Runner::new(&suite, &options, &mut net).beside(Some(Beside { jobs, network: &more }));
    let mut runs = runner.run(&mut |event| lost.extend(if let Event::PeerLost(by) = event { Some(by.to_owned()) } else { None }));
    (runs.as_mut().expect("a run").remove(0), lost)
}

fn verdicts(run: &Run) -> Vec<(&str, Verdict, Observation, &str)> {
    run.results.iter().map(|r| (r.id.as_str(), r.verdict, r.observation, r.message.as_str())).collect()
}

#[test]
fn results_and_their_order_are_those_of_one_after_the_other() {
    let shared = Arc::default();
    let (one, _) = run(&[], 1, &shared, Kill::Never);
    for jobs in [2, 16] {
        let (many, _) = run(&[], jobs, &shared, Kill::Never);
        assert_eq!(verdicts(&one), verdicts(&many), "{jobs} jobs");
        let noted: Vec<_> = many.results.iter().zip(&one.results).filter(|(m, o)| m.notes != o.notes).map(|(m, _)| &m.id).collect();
        assert!(noted.is_empty(), "{noted:?}");
    }
}

#[test]
fn a_peer_that_takes_few_associations_fails_no_check() {
    let shared = Arc::new(Shared { state: Mutex::new(State { limit: Some(1), ..State::default() }), ..Shared::default() });
    let (run, lost) = run(&["io", "fabrics/connect"], 8, &shared, Kill::Never);
    let wrong: Vec<_> = verdicts(&run).into_iter().filter(|v| !matches!(v.1, Verdict::Pass | Verdict::Skip)).collect();
    assert!(wrong.is_empty() && lost.is_empty(), "{wrong:?} {lost:?}");
    let noted =
        run.results.iter().flat_map(|r| &r.notes).filter(|n| n.starts_with("beside other checks it ended with fail")).count();
    assert!(noted > 0, "nothing was refused");
    assert!(noted < run.results.len() / 4, "with fewer jobs fewer are refused: {noted}");
}

#[test]
fn of_several_the_check_that_kills_the_peer_is_found() {
    let shared = Arc::default();
    let (run, lost) = run(&["io"], 8, &shared, Kill::Flush(0xffff_ffff));
    let died: Vec<&str> = run.results.iter().filter(|r| r.observation == Observation::PeerDied).map(|r| r.id.as_str()).collect();
    assert_eq!(died, ["io/flush/broadcast"]);
    assert!(
        run.results.iter().all(|r| r.observation == Observation::PeerDied || matches!(r.verdict, Verdict::Pass | Verdict::Skip))
    );
    assert_eq!(lost.last().map(String::as_str), Some("io/flush/broadcast"), "{lost:?}");
    assert_eq!(run.aborted, None);
}

#[test]
fn a_death_that_takes_several_checks_is_not_forgotten() {
    let shared = Arc::default();
    let (run, lost) = run(&["io"], 8, &shared, Kill::FlushBeside(0xffff_ffff));
    assert_eq!(lost.len(), 1, "{lost:?}");
    let died: Vec<_> = run.results.iter().filter(|r| r.observation == Observation::PeerDied).collect();
    assert_eq!(died.len(), 1);
    assert!(lost[0].contains("io/flush/broadcast") && died[0].message.contains(&lost[0]), "{}", died[0].message);
    assert!(died[0].message.contains("of none of them alone"), "{}", died[0].message);
}

#[test]
fn a_peer_that_does_not_come_back_ends_the_run_with_all_that_may_have_done_it() {
    let shared = Arc::new(Shared { state: Mutex::new(State { for_ever: true, ..State::default() }), ..Shared::default() });
    let (run, lost) = run(&["io"], 8, &shared, Kill::FlushBeside(0xffff_ffff));
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(run.aborted.as_deref(), Some(format!("the peer did not come back after {}", lost[0]).as_str()));
    let (died, whole): (Vec<_>, Vec<_>) = run.results.iter().partition(|r| r.observation == Observation::PeerDied);
    assert_eq!(died.iter().map(|r| r.id.as_str()).collect::<Vec<_>>().join(", "), lost[0]);
    assert!(whole.iter().any(|r| r.verdict == Verdict::Blocked && r.message == "the peer could no longer be reached"));
    assert_eq!(run.results.len(), Suite::embedded().unwrap().items().iter().filter(|i| i.id().starts_with("io/")).count());
}
