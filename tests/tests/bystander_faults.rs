//! What the bystander rules see by themselves: each fault of `tests/faults` is played with the checks that reach it, and nothing is
//! looked at but the findings of the rules in the controller's part of the traffic. No verdict of a check counts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use nvmf_conformance::runner::{Options, Runner};
use nvmf_conformance::suite::{Suite, SuiteFault};
use nvmf_scenario::fault::is_of_rdma;
use nvmfspec_tests::world;

const SEED: u64 = 7;
const THREADS: usize = 2;

/// Requirements that the rules find broken while `fault` is played, by the checks that it names.
fn found(suite: &Suite, fault: &SuiteFault) -> Vec<String> {
    let mut world = world::sim(SEED, Some(&fault.script));
    let filters = fault.script.fails.iter().map(|f| f.it.clone()).collect();
    let options = Options { filters, ..world::options(SEED) };
    let runs = Runner::new(suite, &options, &mut world).run(&mut |_| {}).unwrap_or_else(|e| panic!("{}: {e}", fault.script.id));
    let results = runs.iter().flat_map(|r| &r.results);
    let mut ids: Vec<String> = results.flat_map(|r| &r.findings).map(|f| f.requirement.id.to_owned()).collect();
    ids.sort();
    ids.dedup();
    ids
}

/// Those that are played over TCP.
fn faults(suite: &Suite) -> Vec<&SuiteFault> {
    suite.faults().filter(|f| !is_of_rdma(&f.script)).collect()
}

fn all(suite: &Suite) -> BTreeMap<String, Vec<String>> {
    let faults = faults(suite);
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let ids = found(suite, fault);
                    done.lock().expect("no panic").insert(fault.script.id.clone(), ids);
                }
            });
        }
    });
    done.into_inner().expect("no panic")
}

/// At least half of all faults over TCP; those that are not seen stand in the snapshot.
#[test]
fn the_rules_alone_see_half_of_all_faults() {
    let suite = Suite::embedded().expect("the scripts are right");
    let outcomes = all(&suite);
    let seen = outcomes.values().filter(|ids| !ids.is_empty()).count();
    println!("{seen} of {} faults are seen by the bystander rules alone", outcomes.len());
    for (fault, ids) in outcomes.iter().filter(|(_, ids)| !ids.is_empty()) {
        println!("  {fault}: {}", ids.join(" "));
    }
    let mut unseen = String::new();
    for fault in faults(&suite).iter().filter(|f| outcomes[&f.script.id].is_empty()) {
        let _ = writeln!(unseen, "{}: {}", fault.script.id, fault.script.says);
    }
    insta::assert_snapshot!(unseen);
    assert!(seen * 2 >= outcomes.len(), "{seen} of {}", outcomes.len());
}
