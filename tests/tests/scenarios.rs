//! Each scenario of `tests/scenarios` played in the simulated world, and its wire block held beside the recorded capture that it
//! names: our two ends and a real stack do the same thing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nvmf_capture::{Capture, Exchange};
use nvmf_conformance::probe;
use nvmf_conformance::suite::Suite;
use nvmf_scenario::ast::{Scenario, Script};
use nvmf_scenario::golden;
use nvmf_scenario::player::{Peer, Player};
use nvmfspec_tests::world;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn scenarios() -> Vec<Scenario> {
    let folder = root().join("tests/scenarios");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).expect("the folder").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    let mut out = Vec::new();
    for file in files.iter().filter(|f| f.extension().is_some_and(|x| x == "scenario")) {
        let text = std::fs::read_to_string(file).expect("a script");
        let scripts = nvmf_scenario::parse::parse(&file.display().to_string(), &text).unwrap_or_else(|e| panic!("{e}"));
        out.extend(scripts.into_iter().map(|s| match s {
            Script::Scenario(s) => s,
            other => panic!("{}: no scenario: {other:?}", file.display()),
        }));
    }
    out
}

/// Plays the host block against the reference target.
fn play(scenario: &Scenario, seed: u64) -> Exchange {
    let mut sim = world::sim(seed, None);
    let mut bare = world::peer();
    let facts = probe::facts(&mut sim, &mut bare, None).expect("the target answers");
    let peer = Peer { facts: facts.vars, ..bare };
    let (played, _) = Player::new(&mut sim, &peer, BTreeMap::new()).play(&scenario.host);
    assert!(played.stop.is_none(), "{}: {:?}", scenario.id, played.stop);
    played.exchange
}

fn capture(scenario: &Scenario) -> (Exchange, String) {
    let golden = scenario.golden.as_ref().unwrap_or_else(|| panic!("{} has no golden", scenario.id));
    let capture = Capture::open(root().join(&golden.file)).unwrap_or_else(|e| panic!("{}: {e}", golden.file));
    (capture.into_exchange(), golden.from.clone())
}

#[test]
fn the_simulated_target_and_the_capture_both_follow_the_wire_block() {
    let all = scenarios();
    assert!(all.len() >= 11);
    let mut wrong = Vec::new();
    for s in &all {
        for seed in 0..5 {
            if let Err(m) = golden::matches(s, &play(s, seed), None) {
                wrong.push(format!("{} in the simulated world, seed {seed}: {m}", s.id));
            }
        }
        let (real, from) = capture(s);
        if let Err(m) = golden::matches(s, &real, Some(&from)) {
            wrong.push(format!("{} in its capture: {m}", s.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The comparison can fail: each line matters, in both exchanges.
#[test]
fn a_wire_block_without_one_of_its_lines_does_not_match() {
    for s in scenarios() {
        let (simulated, (real, from)) = (play(&s, 1), capture(&s));
        for gone in 1..s.wire.len().saturating_sub(1) {
            let mut short = s.clone();
            short.wire.remove(gone);
            assert!(golden::matches(&short, &simulated, None).is_err(), "{} without line {gone}", s.id);
            assert!(golden::matches(&short, &real, Some(&from)).is_err(), "{} without line {gone}, capture", s.id);
        }
    }
}

/// The table of faults that shipped names checks that exist; a name without slashes is of the topic named before it.
#[test]
fn the_findings_name_checks_that_exist() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/findings.md");
    let text = std::fs::read_to_string(path).expect("the page");
    let (_, table) = text.split_once("## 8. Faults that shipped").expect("the section");
    let suite = Suite::embedded().expect("the embedded suite");
    let mut named = 0;
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        let checks = row.rsplit('|').nth(1).unwrap_or_default();
        let mut topic = String::new();
        for name in checks.split('`').skip(1).step_by(2) {
            let id = match name.rsplit_once('/') {
                Some((above, _)) => {
                    topic = above.to_owned();
                    name.to_owned()
                }
                None => format!("{topic}/{name}"),
            };
            assert!(suite.check(&id).is_some(), "there is no check {id}: {row}");
            named += 1;
        }
    }
    assert!(named > 100, "{named}");
}
