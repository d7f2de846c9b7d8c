//! Each scenario of `tests/scenarios` played in the simulated world, and held beside the recorded capture that it names, by its wire block
//! or packet by packet: our two ends and a real stack do the same thing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use nvmf_capture::compare::{Mask, Report};
use nvmf_capture::{Capture, Exchange};
use nvmf_conformance::suite::Suite;
use nvmf_scenario::ast::{Fault, Scenario, Script};
use nvmf_scenario::golden;
use nvmf_scenario::player::Player;
use nvmfspec_tests::{host, world};

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

/// Plays the host block against the scenario's target, bent by `fault` where there is one.
fn play(scenario: &Scenario, seed: u64, fault: Option<&Fault>) -> Result<Exchange, String> {
    let (mut world, peer) = world::stage(scenario, seed, fault)?;
    let (played, _) = Player::new(&mut *world, &peer, BTreeMap::new()).play(&scenario.host);
    match played.stop {
        Some(stop) => Err(format!("line {}: {}", stop.place.line, stop.message)),
        None => Ok(played.exchange),
    }
}

fn capture(scenario: &Scenario) -> Exchange {
    let golden = scenario.golden.as_ref().unwrap_or_else(|| panic!("{} has no golden", scenario.id));
    Capture::open(root().join(&golden.file)).unwrap_or_else(|e| panic!("{}: {e}", golden.file)).into_exchange()
}

fn has_mask(scenario: &Scenario) -> bool {
    scenario.golden.as_ref().is_some_and(|g| !g.masks.is_empty())
}

fn mask(name: &str) -> Result<String, String> {
    std::fs::read_to_string(root().join(format!("tests/scenarios/{name}.mask"))).map_err(|e| format!("{name}.mask: {e}"))
}

/// The run beside the capture, packet by packet.
fn beside(scenario: &Scenario, run: &Exchange) -> Report {
    golden::packets(scenario, &capture(scenario), run, mask).unwrap_or_else(|e| panic!("{}: {e}", scenario.id))
}

#[test]
fn the_simulated_target_and_the_capture_both_follow_the_wire_block() {
    let all = scenarios();
    let with_wire: Vec<&Scenario> = all.iter().filter(|s| !s.wires.is_empty()).collect();
    assert!(with_wire.len() >= 20, "{}", with_wire.len());
    let mut wrong = Vec::new();
    for s in with_wire {
        for seed in 0..5 {
            let run = match play(s, seed, None) {
                Ok(run) => run,
                Err(e) => {
                    wrong.push(format!("{}: {e}", s.id));
                    break;
                }
            };
            if let Err(m) = golden::matches(s, &run, None) {
                wrong.push(format!("{} in the simulated world, seed {seed}: {m}", s.id));
                break;
            }
        }
        let Some(from) = s.golden.as_ref().map(|g| g.from.as_deref()) else { continue };
        if let Err(m) = golden::matches(s, &capture(s), from) {
            wrong.push(format!("{} in its capture: {m}", s.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The comparison can fail: each line matters, in both exchanges.
#[test]
fn a_wire_block_without_one_of_its_lines_does_not_match() {
    for s in scenarios().iter().filter(|s| !s.wires.is_empty()) {
        let simulated = play(s, 1, None).unwrap_or_else(|e| panic!("{}: {e}", s.id));
        let real = s.golden.as_ref().map(|g| (capture(s), g.from.as_deref()));
        for (block, gone) in s.wires.iter().enumerate().flat_map(|(n, w)| (1..w.len().saturating_sub(1)).map(move |g| (n, g))) {
            let mut short = s.clone();
            if s.wires[block][gone].pdu == "READ_RESPONSE" {
                // without the line nobody asks for them
                short.wires[block][gone].command = Some("Flush".into());
            } else {
                short.wires[block].remove(gone);
            }
            assert!(golden::matches(&short, &simulated, None).is_err(), "{} without line {gone} of block {block}", s.id);
            if let Some((real, from)) = &real {
                assert!(golden::matches(&short, real, *from).is_err(), "{} without line {gone} of block {block}, capture", s.id);
            }
        }
    }
}

/// Our host and our target say what Linux said, up to the masks; and every line of a mask is needed.
#[test]
fn the_packets_of_a_run_are_those_of_its_capture() {
    let all: Vec<Scenario> = scenarios().into_iter().filter(has_mask).collect();
    assert!(all.len() >= 15, "{}", all.len());
    let mut wrong = Vec::new();
    let mut used: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for s in &all {
        for seed in 0..3 {
            let run = match play(s, seed, None) {
                Ok(run) => run,
                Err(e) => {
                    wrong.push(format!("{}: {e}", s.id));
                    break;
                }
            };
            let report = beside(s, &run);
            if !report.is_equal() {
                wrong.push(format!("{}, seed {seed}:\n{}", s.id, report.text(40)));
                break;
            }
            for (n, name) in s.golden.iter().flat_map(|g| &g.masks).enumerate() {
                used.entry(name.clone()).or_default().extend(report.used.iter().filter(|l| l.mask == n + 1).map(|l| l.number));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (name, used) in used {
        let mut one = Mask::default();
        one.add(&mask(&name).expect("a mask")).unwrap_or_else(|e| panic!("{name}: {e}"));
        let idle: Vec<usize> = one.lines(1).difference(&used).copied().collect();
        assert!(idle.is_empty(), "{name}.mask: nothing needs lines {idle:?}");
    }
}

/// One field changed in what the target says makes the scenario that is about it fail, and names the field.
#[test]
fn a_field_changed_in_a_run_is_named() {
    let faults = [
        ("linux/connect", "on c2h C2HData Identify cns=1: set data.mdts=5", "IdentifyController.mdts"),
        ("linux/io-512", "on c2h CapsuleResp Write: set sqhd=$old+1", "CapsuleResp.Write.sqhd"),
        ("linux/io-4k", "on c2h C2HData Read slba=8: set data[100]=7", "Data.Read.bytes"),
        ("linux/io-64k", "on c2h R2T Write: set byte[20]=1", "R2T.Write.reserved[20]"),
        ("linux/digests", "on c2h C2HData Read #2: corrupt ddgst", "C2HData.Read.ddgst"),
        ("linux/no-flow-control", "on c2h CapsuleResp Connect: set sqhd=1", "CapsuleResp.Connect.sqhd"),
        ("linux/queue-32", "on c2h CapsuleResp Write #2: set dw0=9", "CapsuleResp.Write.dw0"),
        ("linux/keep-alive", "on c2h CapsuleResp KeepAlive #3: set dw0=1", "CapsuleResp.KeepAlive.dw0"),
        ("linux/abort", "on c2h CapsuleResp Abort #3: set dw1=5", "CapsuleResp.Abort.dw1"),
        ("linux/namespace-event", "on c2h CapsuleResp AsyncEventRequest #1: set event_info=3", "AsyncEventRequest.event_info"),
        ("linux/discover", "on c2h C2HData GetLogPage lpo=1024: set data[0]=9", "DiscoveryEntry[0].trtype"),
        ("linux/discover-referral", "on c2h C2HData GetLogPage lpo=1024: set data[1026]=2", "DiscoveryEntry[1].subtype"),
        ("linux/discovery-event", "on c2h CapsuleResp AsyncEventRequest #1: set event_info=0xf1", "AsyncEventRequest.event_info"),
        ("linux/refused", "on c2h CapsuleResp Connect iattr=1: set ipo=0", "CapsuleResp.Connect.ipo"),
        ("linux/removed", "on c2h CapsuleResp Connect iattr=1: set dnr=0", "CapsuleResp.Connect.dnr"),
        ("linux/reconnect", "on c2h ICResp: set maxh2cdata=65536", "ICResp.maxh2cdata"),
        ("linux/io-misc", "on c2h CapsuleResp Flush: set dw0=1", "CapsuleResp.Flush.dw0"),
        ("linux/errors", "on c2h CapsuleResp Identify cns=119: set status=0/0bh", "CapsuleResp.Identify.sc"),
        ("linux/admin", "on c2h C2HData Identify cns=2: set data[0]=9", "Data.Identify.nsid[0]"),
        ("rdma/life", "on c2h REP: set cm.resources=5", "CmRep.resources"),
        ("rdma/io", "on c2h SEND_ONLY_INV Write: set sqhd=$old+1", "CapsuleResp.Write.sqhd"),
        ("rdma/admin", "on c2h WRITE_FIRST Identify cns=1: set data.mdts=5", "IdentifyController.mdts"),
        ("rdma/no-capsule-data", "on c2h CapsuleResp Write slba=8: set dw0=5", "CapsuleResp.Write.dw0"),
        ("rdma/capsule-16k", "on c2h CapsuleResp Write: set dw0=3", "CapsuleResp.Write.dw0"),
        ("rdma/namespace-event", "on c2h CapsuleResp AsyncEventRequest #1: set event_info=3", "AsyncEventRequest.event_info"),
        ("rdma/keep-alive-reset", "on c2h CapsuleResp KeepAlive #3: set dw0=1", "CapsuleResp.KeepAlive.dw0"),
        ("rdma/discover", "on c2h WRITE_FIRST GetLogPage lpo=1024: set data[8]=9", "DiscoveryEntry[0].asqsz"),
    ];
    let all: BTreeMap<String, Scenario> = scenarios().into_iter().filter(has_mask).map(|s| (s.id.clone(), s)).collect();
    let named: BTreeSet<&str> = faults.iter().map(|f| f.0).collect();
    assert_eq!(named, all.keys().map(String::as_str).collect(), "each has one fault");
    for (id, rule, field) in faults {
        let fault = host::fault(&format!("fault f\n  says \"a field\"\n  {rule}\n"));
        let run = play(&all[id], 0, Some(&fault)).unwrap_or_else(|e| panic!("{id}: {e}"));
        let report = beside(&all[id], &run);
        let text = report.text(40);
        assert!(text.contains(field) && report.differences.len() <= 8, "{id}, {rule}: {field} in\n{text}");
    }
}

/// The scenario of that id, with a text of its file changed.
fn changed(id: &str, from: &str, to: &str) -> Scenario {
    let path = root().join("tests/scenarios/rdma.scenario");
    let text = std::fs::read_to_string(path).expect("a script");
    let at = text.find(&format!("scenario {id}\n")).unwrap_or_else(|| panic!("no {id}"));
    let (before, own) = text.split_at(at);
    assert!(own.contains(from), "{id} has no `{from}`");
    let text = before.to_owned() + &own.replacen(from, to, 1);
    let scripts = nvmf_scenario::parse::parse(id, &text).unwrap_or_else(|e| panic!("{e}"));
    let one = scripts.into_iter().find_map(|s| match s {
        Script::Scenario(s) if s.id == id => Some(s),
        _ => None,
    });
    one.expect("the scenario")
}

/// Bytes that a CPU touches are counted: a bounce buffer, a capsule and TCP each break what is asserted of a path without them.
#[test]
fn a_planted_bounce_is_counted() {
    let (gpu, direct) = ("pattern=checkpoint memory=gpu via io", "rdma/checkpoint-write-4mib");
    for (id, from, to, seen) in [
        (direct, gpu, "pattern=checkpoint memory=gpu bounce via io", "expected $touched=0; seen 4194304"),
        (direct, "read lba=0 blocks=8192", "read bounce lba=0 blocks=8192", "expected $touched=0; seen 4194304"),
        ("rdma/checkpoint-bounced", "memory=gpu bounce via io", "memory=gpu via io", "expected $touched=4194304; seen 0"),
        ("rdma/in-capsule-touched", "second memory=gpu", "second memory=host", "expected $touched=0; seen 4096"),
        ("rdma/in-capsule-touched", "pattern=first via", "pattern=first bounce via", "expected $touched=4096; seen 8192"),
        ("rdma/checkpoint-tcp", "$touched = 4194304", "$touched = 0", "expected $touched=0; seen 4194304"),
        ("rdma/checkpoint-tcp", "connect io", "connect io ddgst=1", "expected $touched=4194304; seen 8388608"),
    ] {
        let said = play(&changed(id, from, to), 0, None).map_or_else(|e| e, |_| "plays".to_owned());
        assert!(said.contains(seen), "{id} with `{to}`: {said}");
    }
}

/// READs of another key than the SQE named, and READs that do not fetch each byte once, are no checkpoint write.
#[test]
fn a_wire_block_notices_what_reads_fetch() {
    let mut s = changed("rdma/checkpoint-write-4mib", "    read lba=0", "    write lba=8192");
    s.wires[0].truncate(3);
    for (rule, seen) in [
        ("READ_REQUEST Write #5: set va=$old+512", "seen bytes that are left out or moved twice"),
        ("READ_REQUEST Write #32: set va=$old-131072", "seen bytes that are left out or moved twice"),
        ("READ_REQUEST Write #1: duplicate", "follows"),
        ("SEND_ONLY_INV Write: set ieth.rkey=$old+1", "expected the completion of Write"),
    ] {
        let fault = host::fault(&format!("fault f\n  says \"a field\"\n  on c2h {rule}\n"));
        let said = match play(&s, 0, Some(&fault)) {
            Ok(run) => golden::matches(&s, &run, None).map_or_else(|m| m.to_string(), |()| "follows".into()),
            Err(e) => e,
        };
        assert!(said.contains(seen), "{rule}: {said}");
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
