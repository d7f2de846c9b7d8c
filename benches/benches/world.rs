//! The simulated world of frames: 4 KiB reads a second, from a host's submission to its completion, on one core and without a capture;
//! beside it what no way of doing it can save. And how long a thousand seeds of a simulation with faults take on two cores. Each goal stands
//! beside its figure. A name as argument (`link`, `switch`, `seeds`) takes that part alone.
//!
//! No criterion: a run is long, and its parts cannot be repeated by themselves.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nvmf_fabric::{Fleet, Report, Scene};
use nvmf_wire::roce::icrc;

const READS: u32 = 100_000;
const ROUNDS: usize = 5;
const SEEDS: u64 = 1000;
/// 4 KiB reads a second on one core, without a capture.
const GOAL: f64 = 100_000.0;
/// For all seeds on two cores.
const GOAL_SEEDS: Duration = Duration::from_secs(60);

/// One host and one target on a link, or with a switch between.
fn reads(switch: bool) -> Scene {
    let network = if switch { "switch sw\nlink h sw\nlink t sw" } else { "link h t" };
    let text = format!("sim reads\ntarget t\nhost h ops={READS} reads=100 size=4KiB depth=32 span=1MiB\n{network}\nheal 10min");
    Scene::parse(&text).expect("a scene")
}

fn run(scene: &Scene, seed: u64) -> (Report, Duration) {
    let fleet = Fleet::new(scene, seed).expect("a fleet");
    let begin = Instant::now();
    let report = fleet.run().expect("no capture");
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    (report, begin.elapsed())
}

/// For each read: its bytes out of the store, into the host's memory, and their ICRC made and checked.
fn least() -> Duration {
    let store = vec![0x45; 1 << 20];
    let mut packet = vec![0; 40 + 4096];
    (packet[0], packet[9]) = (0x45, 17);
    let mut memory = vec![0; 32 * 4096];
    let begin = Instant::now();
    for i in 0..READS as usize {
        packet[40..].copy_from_slice(&store[i % 256 * 4096..][..4096]);
        let sent = icrc(black_box(&packet));
        memory[i % 32 * 4096..][..4096].copy_from_slice(&packet[40..]);
        assert_eq!(icrc(black_box(&packet)), sent);
    }
    black_box(&memory);
    begin.elapsed()
}

fn per_second(count: u32, took: Duration) -> f64 {
    f64::from(count) / took.as_secs_f64()
}

fn met(yes: bool) -> &'static str {
    if yes { "met" } else { "missed" }
}

fn bench_reads(name: &str, scene: &Scene) {
    let mut best = 0.0_f64;
    for round in 1..=ROUNDS {
        let (report, took) = run(scene, round as u64);
        let done = report.hosts.iter().map(|h| h.reads).sum::<u64>() as u32;
        let (ours, least) = (per_second(done, took), per_second(READS, least()));
        let frames = report.frames;
        println!("{name}: {ours:.0} reads/s, {frames} frames; copies and ICRCs alone {least:.0}/s; ratio {:.3}", ours / least);
        best = best.max(ours);
    }
    println!("{name}: best of {ROUNDS} rounds {best:.0} reads/s; goal {GOAL:.0}: {}", met(best >= GOAL));
}

/// The whole simulation with each seed, on two threads.
fn bench_seeds() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/sims/mixed-faults.sim");
    let text = std::fs::read_to_string(path).expect("the simulation");
    let scene = &Scene::parse(&text).expect("a scene");
    let begin = Instant::now();
    std::thread::scope(|s| {
        (0..2).for_each(|thread| {
            drop(s.spawn(move || (1..=SEEDS).filter(|n| n % 2 == thread).for_each(|seed| drop(run(scene, seed)))))
        });
    });
    let took = begin.elapsed();
    println!("mixed-faults: {SEEDS} seeds in {took:.1?} on two cores; goal {GOAL_SEEDS:?}: {}", met(took < GOAL_SEEDS));
}

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|c| c == name);
    for (name, scene) in [("link", reads(false)), ("switch", reads(true))] {
        if wanted(name) {
            bench_reads(name, &scene);
        }
    }
    if wanted("seeds") {
        bench_seeds();
    }
}
