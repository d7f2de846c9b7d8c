//! `cargo xtask bench capture`: how fast captures are read, beside tshark on the same file in the same run.
//!
//! The file is made of recorded associations of Linux, again and again under ports of their own ([`made`]). Each program is a process
//! of its own that writes to nowhere, so that start, reading and printing all count. Two files more show that nothing is quadratic: one
//! of 10,000 connections, one with a hole near its start that is never filled; they are held against the first by bytes a second.

mod made;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cmd;

/// What the figures have to reach: ours, the program of tshark's it is held against, how many times as fast.
const GOALS: [(&str, &str, f64); 3] =
    [("trace", "tshark", 10.0), ("trace --json", "tshark -T json", 30.0), ("lint", "tshark", 8.0)];

/// Most resident memory of ours, MiB, whatever the length of the capture.
const MEMORY_MIB: f64 = 150.0;

/// What one program took.
struct Took {
    seconds: f64,
    peak_mib: f64,
}

/// Makes the captures, runs everything `rounds` times and prints the best of each.
pub fn run(json_file: &str, megabytes: u64, rounds: u32) -> Result<(), String> {
    let nvmfspec = cmd::nvmfspec_release()?;
    let tshark = cmd::find_program("tshark");
    let dir = cmd::target_dir()?.join("bench-capture");
    fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let main = made::associations(&dir.join("associations.pcap"), megabytes << 20)?;
    println!("{}: {} MB, {} frames, {} connections", main.path.display(), main.bytes / 1_000_000, main.frames, main.connections);

    let mut figures: Vec<(String, Took)> = Vec::new();
    let file = main.path.to_string_lossy().into_owned();
    for args in [&["trace"][..], &["trace", "--json"], &["lint"]] {
        figures.push((args.join(" "), best(&nvmfspec, &[args, &[&file]].concat(), rounds)?));
    }
    match &tshark {
        Some(tshark) => {
            for args in [&[][..], &["-T", "json"]] {
                let name = ["tshark"].iter().chain(args).copied().collect::<Vec<_>>().join(" ");
                // Minutes each: once is enough for a ratio of tens.
                figures.push((name, best(tshark, &[&["-r", &file], args].concat(), 1)?));
            }
        }
        None => println!("tshark is not installed: no ratios"),
    }
    let mb = main.bytes as f64 / 1e6;
    for (name, took) in &figures {
        println!("  {name:<16} {:>8.2} s  {:>8.1} MB/s  {:>7.1} MiB", took.seconds, mb / took.seconds, took.peak_mib);
    }
    let ratios = ratios(&figures);
    let linear = linear(&nvmfspec, &dir, &figures, mb, rounds)?;
    if json_file != "-" {
        let text = format!("{:#}\n", as_json(&main, &figures, &ratios, &linear));
        fs::write(json_file, text).map_err(|e| format!("{json_file}: {e}"))?;
    }
    Ok(())
}

/// How many times as fast we are as tshark, printed beside the goal.
fn ratios(figures: &[(String, Took)]) -> Vec<(&'static str, f64)> {
    let of = |name: &str| figures.iter().find(|(n, _)| n == name).map(|(_, t)| t.seconds);
    let mut out = Vec::new();
    for (ours, theirs, goal) in GOALS {
        if let (Some(a), Some(b)) = (of(ours), of(theirs)) {
            println!("  {ours}: {:.1} times as fast as {theirs} (goal {goal})", b / a);
            out.push((ours, b / a));
        }
    }
    let peak = figures.iter().filter(|(n, _)| !n.starts_with("tshark")).map(|(_, t)| t.peak_mib).fold(0.0, f64::max);
    println!("  most memory of ours: {peak:.1} MiB (goal {MEMORY_MIB})");
    out
}

/// Bytes a second of `trace` on the two files that a quadratic reader would be slow on, as a part of those of the first file.
fn linear(
    nvmfspec: &Path,
    dir: &Path,
    figures: &[(String, Took)],
    mb: f64,
    rounds: u32,
) -> Result<Vec<(&'static str, f64)>, String> {
    let base = figures.iter().find(|(n, _)| n == "trace").map_or(1.0, |(_, t)| mb / t.seconds);
    let files = [
        ("10,000 connections", made::connections(&dir.join("connections.pcap"), 10_000)?),
        ("a hole never filled", made::hole(&dir.join("hole.pcap"), 64 << 20)?),
    ];
    let mut out = Vec::new();
    for (name, file) in files {
        let took = best(nvmfspec, &["trace", &file.path.to_string_lossy()], rounds)?;
        let part = file.bytes as f64 / 1e6 / took.seconds / base;
        println!("  {name}: {:.2} s, {:.1} MiB, {part:.2} of the bytes a second of the first file", took.seconds, took.peak_mib);
        out.push((name, part));
    }
    Ok(out)
}

fn as_json(main: &made::Made, figures: &[(String, Took)], ratios: &[(&str, f64)], linear: &[(&str, f64)]) -> Value {
    let figures: Vec<Value> =
        figures.iter().map(|(name, t)| json!({ "name": name, "seconds": t.seconds, "peak_mib": t.peak_mib })).collect();
    let named = |list: &[(&str, f64)]| -> Value {
        list.iter().map(|(n, v)| ((*n).to_owned(), json!(v))).collect::<serde_json::Map<_, _>>().into()
    };
    json!({
        "bytes": main.bytes, "frames": main.frames, "connections": main.connections,
        "programs": figures, "ratio": named(ratios), "linear": named(linear),
    })
}

/// The fastest of `rounds` runs, with the highest peak of memory of all.
fn best(program: &Path, args: &[&str], rounds: u32) -> Result<Took, String> {
    let mut best = Took { seconds: f64::MAX, peak_mib: 0.0 };
    for _ in 0..rounds.max(1) {
        let took = once(program, args)?;
        best.seconds = best.seconds.min(took.seconds);
        best.peak_mib = best.peak_mib.max(took.peak_mib);
    }
    Ok(best)
}

fn once(program: &Path, args: &[&str]) -> Result<Took, String> {
    let name = format!("{} {}", program.display(), args.join(" "));
    let start = Instant::now();
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("cannot start {name}: {e}"))?;
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut peak_mib = 0.0;
    let ended = loop {
        peak_mib = f64::max(peak_mib, peak(&status));
        if let Some(ended) = child.try_wait().map_err(|e| format!("{name}: {e}"))? {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    // `lint` ends with 1 where it finds something.
    match ended.code() {
        Some(0 | 1) => Ok(Took { seconds: start.elapsed().as_secs_f64(), peak_mib }),
        _ => Err(format!("{name} ended with {ended}")),
    }
}

/// The most memory that a process had so far, MiB.
fn peak(status: &Path) -> f64 {
    let text = fs::read_to_string(status).unwrap_or_default();
    let kib = text.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}
