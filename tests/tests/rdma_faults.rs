//! The suite over RDMA is tested by faults, as `faults.rs` does over TCP: without one every check passes, and each fault about RoCEv2
//! packets makes the checks fail that it names, and few others.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

use nvmf_conformance::suite::{BASE, Suite, SuiteCheck, SuiteFault};
use nvmf_conformance::{Run, Verdict};
use nvmf_engine::Reference;
use nvmf_scenario::fault::is_of_rdma;
use nvmfspec_tests::rdma;

/// Most checks, cases not counted, that one fault may make fail.
const MOST: usize = 10;
/// The seed of all runs here.
const SEED: u64 = 7;
const THREADS: usize = 2;

static SUITE: LazyLock<Suite> = LazyLock::new(|| Suite::embedded().expect("the scripts are right"));
/// What the plain reference target has not.
static SKIPPED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let run = judge(Reference::Plain, Vec::new(), None).expect("the target is there");
    with(&run, &[Verdict::Skip]).into_iter().filter(|id| !of(id).is_of_tcp()).collect()
});
/// For each fault what failed, with cases, and where the harness broke.
static OUTCOMES: LazyLock<Vec<Outcome>> = LazyLock::new(judge_all);

type Outcome = (&'static SuiteFault, BTreeSet<String>, BTreeSet<String>);

fn judge(reference: Reference, filters: Vec<String>, fault: Option<&SuiteFault>) -> Result<Run, String> {
    rdma::judge(&SUITE, reference, filters, SEED, fault.map(|f| &f.script))
}

fn with(run: &Run, verdicts: &[Verdict]) -> BTreeSet<String> {
    run.results.iter().filter(|r| verdicts.contains(&r.verdict)).map(|r| r.id.clone()).collect()
}

fn without_case(id: &str) -> &str {
    if SUITE.check(id).is_some() {
        return id;
    }
    id.rsplit_once('/').map_or(id, |(check, _)| check)
}

/// The check of an id with its case.
fn of(id: &str) -> &'static SuiteCheck {
    SUITE.check(without_case(id)).expect("a check of the suite")
}

/// What did not pass and was not skipped, or was found in passing.
fn wrong(run: &Run) -> Vec<String> {
    let all = run.results.iter().filter(|r| !matches!(r.verdict, Verdict::Pass | Verdict::Skip) || !r.findings.is_empty());
    all.map(|r| format!("{}: {:?} {} {:?}", r.id, r.verdict, r.message, r.findings)).collect()
}

/// Each fault in a world of its own: against the plain reference target, and what that skips against the full one.
fn judge_all() -> Vec<Outcome> {
    let faults: Vec<&'static SuiteFault> = SUITE.faults().filter(|f| is_of_rdma(&f.script)).collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let rest = BASE.iter().map(|id| (*id).to_owned()).chain(SKIPPED.iter().cloned()).collect();
                    let (mut failed, mut broken) = (BTreeSet::new(), BTreeSet::new());
                    for (reference, filters) in [(Reference::Plain, Vec::new()), (Reference::Full, rest)] {
                        match judge(reference, filters, Some(fault)) {
                            Ok(run) => {
                                failed.extend(with(&run, &[Verdict::Fail, Verdict::FailLenient, Verdict::Warn]));
                                broken.extend(with(&run, &[Verdict::Error]));
                            }
                            Err(why) => {
                                broken.insert(why);
                            }
                        }
                    }
                    done.lock().expect("no panic").push((*fault, failed, broken));
                }
            });
        }
    });
    done.into_inner().expect("no panic")
}

fn is_below(id: &str, check: &str) -> bool {
    id.strip_prefix(check).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[test]
fn without_a_fault_every_check_passes() {
    let run = judge(Reference::Plain, Vec::new(), None).expect("the target is there");
    let wrong = wrong(&run);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let passed = with(&run, &[Verdict::Pass]);
    let own = passed.iter().filter(|id| of(id).is_of_rdma()).count();
    assert!(passed.len() >= 650 && own >= 190, "{} passed, {own} of them of RDMA alone", passed.len());
}

/// Between them the reference targets have everything that a check of RDMA asks for.
#[test]
fn every_check_is_played() {
    let full = judge(Reference::Full, Vec::new(), None).expect("the target is there");
    let wrong = wrong(&full);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let skipped = with(&full, &[Verdict::Skip]);
    let unplayed: Vec<&String> = SKIPPED.iter().filter(|id| skipped.contains(*id) && of(id).is_of_rdma()).collect();
    assert!(unplayed.is_empty(), "skipped by both reference targets: {unplayed:?}");
}

#[test]
fn every_fault_makes_the_checks_fail_that_it_names_and_few_others() {
    let mut all = Vec::new();
    for (fault, failed, broken) in OUTCOMES.iter() {
        let id = &fault.script.id;
        for check in fault.script.fails.iter().filter(|c| !failed.iter().any(|id| is_below(id, &c.it))) {
            all.push(format!("{id}: {} does not fail", check.it));
        }
        let checks: BTreeSet<&str> = failed.iter().map(|id| without_case(id)).collect();
        if fault.script.fails.is_empty() || checks.len() > MOST {
            all.push(format!("{id}: {} checks fail: {checks:?}", checks.len()));
        }
        if !broken.is_empty() {
            all.push(format!("{id}: the harness broke at {broken:?}"));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// Checks that no fault makes fail, each with the reason.
const UNCAUGHT: &[(&str, &str)] = &[("rdma/cm/accepted", "without it no peer can be reached, and nothing runs")];

#[test]
fn every_check_of_rdma_is_failed_by_a_fault() {
    let failed: BTreeSet<&str> = OUTCOMES.iter().flat_map(|(_, failed, _)| failed.iter().map(|id| without_case(id))).collect();
    let checks = SUITE.checks().filter(|c| c.is_of_rdma()).map(|c| c.script.id.as_str());
    let missed: Vec<&str> = checks.filter(|id| !failed.contains(id) && UNCAUGHT.iter().all(|(u, _)| u != id)).collect();
    assert!(missed.is_empty(), "no fault makes these fail: {missed:#?}");
}
