//! A run in the simulated world is a function of the scripts and the seed (design invariant I6).

use std::time::{Duration, SystemTime};

use nvmf_conformance::report::{Report, Wall, json};
use nvmf_conformance::suite::Suite;
use nvmf_conformance::{Policy, Run, Summary, Verdict};
use nvmfspec_tests::world;

fn suite() -> Suite {
    Suite::embedded().expect("the scripts are right")
}

/// All that a report says, with the same wall clock for every run.
fn report(run: &Run) -> String {
    let runs = std::slice::from_ref(run);
    let summary = Summary::of(runs, None, Policy::default());
    let wall = Wall { started: SystemTime::UNIX_EPOCH, took: Duration::ZERO };
    json::render(&Report { runs, by_subsystem: false, summary: &summary, expectations: None, wall })
}

#[test]
fn the_same_seed_gives_the_same_run_to_the_byte() {
    let suite = suite();
    for seed in [7, 0xffff_ffff_ffff_ffff] {
        let (one, hash) = world::judge(&suite, seed, None).expect("a run");
        let (two, again) = world::judge(&suite, seed, None).expect("a run");
        assert_eq!(hash, again, "seed {seed}");
        assert!(report(&one) == report(&two), "the reports of two runs with seed {seed} differ");
        for (a, b) in one.results.iter().zip(&two.results) {
            assert_eq!(a.exchange, b.exchange, "{} with seed {seed}: times or bytes differ", a.id);
            assert_eq!(a.took, b.took, "{}", a.id);
        }
    }
}

/// A fault is part of the script: with it a run is as repeatable as without.
#[test]
fn the_same_seed_gives_the_same_run_under_a_fault() {
    let suite = suite();
    let fault = &suite.fault("tcp-h2c-misplaced").expect("it is there").script;
    let (one, hash) = world::judge(&suite, 3, Some(fault)).expect("a run");
    let (two, again) = world::judge(&suite, 3, Some(fault)).expect("a run");
    assert_eq!(hash, again);
    assert!(report(&one) == report(&two));
    assert!(one.results.iter().any(|r| r.verdict == Verdict::Fail), "the fault does nothing");
}

/// Other segments and other delays, but the same verdicts.
#[test]
fn any_seed_passes_every_check() {
    let suite = suite();
    let mut hashes = Vec::new();
    for seed in [0, 1, 2, 0x1234_5678, u64::MAX] {
        let (run, hash) = world::judge(&suite, seed, None).expect("a run");
        let wrong: Vec<String> = run
            .results
            .iter()
            .filter(|r| !matches!(r.verdict, Verdict::Pass | Verdict::Skip))
            .map(|r| format!("{}: {:?} {}", r.id, r.verdict, r.message))
            .collect();
        assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
        hashes.push(hash);
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 5, "two seeds gave the same run");
}
