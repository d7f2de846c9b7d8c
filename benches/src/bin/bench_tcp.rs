//! The target over loopback TCP beside a raw loop, and the memory of a target with idle associations. `cargo xtask bench` runs it
//! in the right build; start with `tcp` and `memory`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use nvmfspec_benches::lean::LeanHost;
use nvmfspec_benches::round::{self, Sample, Spread, WORKS, Work};
use nvmfspec_benches::{SUBNQN, served};
use serde_json::{Value, json};

/// MiB that a target with 1,000 idle associations may have.
const MEMORY_GOAL: f64 = 200.0;
const ASSOCIATIONS: usize = 1000;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["tcp", json, rounds, ms] => tcp(json, rounds, ms),
        ["memory", program] => memory(program),
        _ => Err("usage: bench-tcp tcp JSON|- ROUNDS MS, or bench-tcp memory PROGRAM".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn tcp(json: &str, rounds: &str, ms: &str) -> Result<(), String> {
    let rounds: usize = rounds.parse().ok().filter(|n| *n > 0).ok_or("the rounds are a number from 1 on")?;
    let time = Duration::from_millis(ms.parse().ok().filter(|n| *n > 0).ok_or("the time is a number of ms from 1 on")?);
    let target = served::target().map_err(|e| format!("the target: {e}"))?;
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); WORKS.len()];
    for n in 0..rounds {
        for (work, of) in WORKS.iter().zip(&mut samples) {
            let s = round::sample(target.address(), SUBNQN, work, time).map_err(|e| format!("{}, round {n}: {e}", work.name))?;
            of.push(s);
        }
    }
    println!("{rounds} rounds of {} ms each, interleaved; median (min to max)\n", time.as_millis());
    println!("{:20} {:8} {:>30} {:>24}   {:>8}", "load", "", "commands/s", "ratio to raw", "MiB/s");
    let mut all = Vec::new();
    for (work, samples) in WORKS.iter().zip(&samples) {
        all.push(show(work, samples));
    }
    if json != "-" {
        let text = serde_json::to_string_pretty(&json!({ "rounds": rounds, "ms": time.as_millis() as u64, "loads": all }));
        let text = text.map_err(|e| e.to_string())?;
        std::fs::write(json, text + "\n").map_err(|e| format!("{json}: {e}"))?;
    }
    Ok(())
}

/// Prints one kind of load; gives it for a file.
fn show(work: &Work, samples: &[Sample]) -> Value {
    let raw = Spread::of(samples.iter().map(|s| s.raw));
    line(work, "raw", raw, None);
    let mut value = json!({ "name": work.name, "len": work.len, "depth": work.depth, "raw": spread(raw) });
    let plain: fn(&Sample) -> f64 = |s| s.plain;
    let digests: fn(&Sample) -> f64 = |s| s.digests;
    for (name, of) in [("plain", plain), ("digests", digests)] {
        let rate = Spread::of(samples.iter().map(of));
        let ratio = Spread::of(samples.iter().map(|s| of(s) / s.raw));
        line(work, name, rate, Some(ratio));
        value[name] = json!({ "rate": spread(rate), "ratio": spread(ratio) });
        if let (Some(goal), "plain") = (work.goal, name) {
            let met = ratio.median >= goal;
            println!("{:20} goal     ratio {goal}: {}", "", if met { "met" } else { "missed" });
            value["goal"] = json!({ "ratio": goal, "met": met });
        }
    }
    value
}

fn line(work: &Work, what: &str, rate: Spread, ratio: Option<Spread>) {
    let rates = format!("{:.0} ({:.0} to {:.0})", rate.median, rate.min, rate.max);
    let ratio = ratio.map_or(String::new(), |r| format!("{:.3} ({:.3} to {:.3})", r.median, r.min, r.max));
    let mib = rate.median * f64::from(work.len) / 1_048_576.0;
    println!("{:20} {what:8} {rates:>30} {ratio:>24}   {mib:>8.0}", work.name);
}

fn spread(s: Spread) -> Value {
    json!({ "min": s.min, "median": s.median, "max": s.max })
}

fn memory(program: &str) -> Result<(), String> {
    let mut child = Command::new(program)
        .args(["target", "--quiet", "--listen", "127.0.0.1:0", "--nqn", SUBNQN])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start the target: {e}"))?;
    let result = idle(&mut child);
    // It may have ended already; either way it is to be gone.
    let _ = child.kill();
    let _ = child.wait();
    result
}

fn idle(child: &mut Child) -> Result<(), String> {
    let stdout = child.stdout.take().ok_or("the target has no output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).map_err(|e| format!("the target's output: {e}"))?;
    let at: SocketAddr = line
        .strip_prefix("listening on ")
        .and_then(|rest| rest.split(' ').next())
        .and_then(|at| at.parse().ok())
        .ok_or_else(|| format!("the target says `{}`", line.trim()))?;
    let before = resident(child.id())?;
    let mut hosts = Vec::new();
    for n in 0..ASSOCIATIONS {
        hosts.push(LeanHost::connect(at, SUBNQN, false).map_err(|e| format!("association {n}: {e}"))?);
    }
    std::thread::sleep(Duration::from_millis(500));
    let after = resident(child.id())?;
    let each = (after - before) * 1024.0 / ASSOCIATIONS as f64;
    println!("a target without association: {before:.1} MiB resident");
    println!("with {ASSOCIATIONS}, each of an Admin and an I/O queue: {after:.1} MiB resident, {each:.1} KiB an association");
    println!("goal under {MEMORY_GOAL} MiB: {}", if after < MEMORY_GOAL { "met" } else { "missed" });
    Ok(())
}

/// MiB resident, as the system counts them.
fn resident(pid: u32) -> Result<f64, String> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let kib = text.lines().find_map(|l| l.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kib.map(|k| k / 1024.0).ok_or_else(|| format!("{path} has no VmRSS"))
}
