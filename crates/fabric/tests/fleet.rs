//! Scenes at work: what they find, and that a run follows from its seed.

use nvmf_fabric::{Fleet, Report, Scene};

fn scene(name: &str) -> Scene {
    let path = format!("{}/../../tests/sims/{name}.sim", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    Scene::parse(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn run(scene: &Scene, seed: u64) -> Report {
    Fleet::new(scene, seed).unwrap().run().unwrap()
}

fn good(name: &str, seed: u64) -> Report {
    let report = run(&scene(name), seed);
    println!("{report}");
    assert_eq!(report.violations, [""; 0], "{name} seed {seed}");
    report
}

#[test]
fn everything_survives_mixed_faults() {
    let mut lost = 0;
    for seed in 1..=10 {
        let r = good("mixed-faults", seed);
        assert!(r.hosts.iter().all(|h| h.reads + h.writes == 60));
        lost += r.ports.iter().map(|p| p.lost).sum::<u64>();
    }
    assert!(lost > 100, "{lost}");
}

#[test]
fn more_than_a_port_queues_is_sent_without_waiting_for_a_retry() {
    let text = "sim large\nsays \"x\"\ntarget t\nhost h ops=4 reads=0 depth=1 size=1MiB span=2MiB\nlink h t\nheal 50ms";
    let r = run(&Scene::parse(text).unwrap(), 1);
    assert_eq!(r.violations, [""; 0]);
    // 336 us at 25 Gbit/s; a local ACK timeout is 17 ms
    assert!(r.hosts[0].times.max() < 1_000_000, "{}", r.hosts[0].times.max());
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let s = scene("mixed-faults");
    let mut hashes: Vec<u64> = (1..=200).map(|seed| run(&s, seed).hash).collect();
    let again: Vec<u64> = (1..=200).map(|seed| run(&s, seed).hash).collect();
    assert_eq!(hashes, again);
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 200);
}

#[test]
fn a_lost_write_is_found_and_found_again() {
    let s = scene("lost-write");
    let seed = (1..1000).find(|seed| !run(&s, *seed).violations.is_empty()).expect("a seed that shows it");
    let [first, again] = [run(&s, seed), run(&s, seed)];
    assert!(first.violations[0].contains("is lost"), "{:?}", first.violations);
    assert_eq!((first.hash, first.violations), (again.hash, again.violations));
    // without what is planted nothing is found, and without all else it still is
    assert_eq!(run(&s.only(&[0, 1]), seed).violations, [""; 0]);
    assert!(run(&s.only(&[2]), seed).violations.iter().any(|v| v.contains("is lost")) || seed > 1);
}

#[test]
fn eight_hosts_write_a_checkpoint_without_loss_or_copy() {
    for seed in 1..=3 {
        let r = good("checkpoint-8-hosts", seed);
        assert!(r.hosts.iter().all(|h| h.writes == 1 && h.bytes == 4 << 20));
        assert!(r.ports.iter().all(|p| p.dropped == 0));
    }
    good("checkpoint-bounce", 1);
}

/// Each expectation of the checkpoint is broken by something.
#[test]
fn what_is_expected_can_fail() {
    let text = |name: &str| std::fs::read_to_string(format!("{}/../../tests/sims/{name}.sim", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let unmet = |text: &str| run(&Scene::parse(text).unwrap(), 1).violations;
    let eight = text("checkpoint-8-hosts");
    for (change, to, told) in [
        ("h1..8 writes = 1", "h1..8 writes = 2", "h8 writes = 2 was expected: it is 1"),
        ("memory=gpu", "memory=gpu bounce=yes", "h1 touched = 0 was expected: it is 8394752"),
        (" ecn=40KiB..160KiB mark=20%", "", "sw marks > 0 was expected: it is 0"),
        (" ecn=40KiB..160KiB mark=20%", "", "t marks > 0"),
        (" ecn=40KiB..160KiB mark=20%", "", "t cnps-sent > 0"),
        (" ecn=40KiB..160KiB mark=20%", "", "all cnps-received > 0"),
        ("pfc=3 xoff", "pfc=4 xoff", "sw pauses > 0"),
        ("pfc=3 xoff", "pfc=4 xoff", "sw dropped = 0"),
        ("heal 100ms", "fault partition h3-sw from=100us for=2ms\nheal 100ms", "all timeouts = 0"),
        ("heal 100ms", "fault partition h3-sw from=100us for=400ms\nheal 500ms", "all lost = 0"),
        ("heal 100ms", "fault partition h3-sw from=100us for=400ms\nheal 500ms", "h3: command"),
    ] {
        assert!(eight.contains(change), "{change}");
        let violations = unmet(&eight.replacen(change, to, 1));
        assert!(violations.iter().any(|v| v.contains(told)), "{change} -> {to}: {violations:?}");
    }
    let bounce = text("checkpoint-bounce").replace(" bounce=yes", "");
    assert_eq!(unmet(&bounce), ["bounces touched = 8394752 was expected: it is 0"]);
    // nothing of its exchanges was seen
    let idle = "sim idle\nsays \"x\"\ntarget t\nhost h ops=1\nlink h t\nexpect h exchange\nexpect h p50 > 1s\nheal 50ms";
    assert_eq!(unmet(idle).len(), 1, "{:?}", unmet(idle));
}

#[test]
fn an_endless_pause_blocks_an_innocent_flow() {
    let r = good("pause-innocent", 1);
    let trunk = r.ports.iter().find(|p| p.name == "left-right").unwrap();
    assert!(trunk.paused.as_millis() >= 3, "{trunk:?}");
    let mut healthy = scene("pause-innocent").only(&[]);
    healthy.expects.clear();
    let r = run(&healthy, 1);
    let innocent = &r.hosts[1];
    assert!(innocent.times.value_at_quantile(0.999) < 1_000_000, "{}", innocent.times.value_at_quantile(0.999));
}

#[test]
fn a_ring_of_lossless_switches_locks_up() {
    let r = good("pause-deadlock", 1);
    let (priority, ring) = r.deadlock.unwrap();
    assert_eq!((priority, ring.len()), (3, 4), "{ring:?}");
}
