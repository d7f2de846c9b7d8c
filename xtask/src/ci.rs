//! `cargo xtask ci`: everything that a change must pass, in one command that works on a fresh machine.
//!
//! Steps run one after another, cheap ones first; a failed one does not keep the rest from running. The last line is
//! `N passed, N failed, N skipped`. A step that the machine cannot run is skipped with the reason. Start with [`STEPS`].

use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::{capture, cmd, docs, lab, packages, reqs, tidy, vectors, verbs};

struct Step {
    name: &'static str,
    what: &'static str,
    run: fn() -> Result<Done, String>,
}

enum Done {
    Passed,
    Skipped(String),
}

const STEPS: &[Step] = &[
    Step { name: "fmt", what: "formatting", run: || cargo(&["fmt", "--all", "--check"]) },
    Step { name: "tidy", what: "the project's own rules on its files", run: || tidy::run(&[]).map(|()| Done::Passed) },
    Step {
        name: "reqs",
        what: "the requirement catalogue and the constants made from it",
        run: || reqs::run(&[]).map(|()| Done::Passed),
    },
    Step { name: "docs", what: "the pages of the checks", run: || docs::run(&[]).map(|()| Done::Passed) },
    Step { name: "programs", what: "programs of Debian that the steps below use", run: programs },
    Step { name: "deny", what: "licences and sources of the packages used", run: deny },
    Step {
        name: "clippy",
        what: "lints, all targets",
        run: || cargo(&["clippy", "--all-targets", "--quiet", "--", "-D", "warnings"]),
    },
    Step { name: "test", what: "unit, property and integration tests", run: || cargo(&["test", "--quiet", "--no-fail-fast"]) },
    Step { name: "verbs", what: "the crate for RDMA NICs, against Debian's libibverbs and librdmacm", run: verbs_step },
    Step { name: "doc", what: "documentation, without a warning", run: doc },
    Step { name: "vectors", what: "byte vectors against the codec", run: || vectors::run(&[]).map(|()| Done::Passed) },
    Step { name: "wireshark", what: "every field of the recorded captures beside tshark", run: wireshark },
    Step { name: "conformance", what: "every check against the embedded target over loopback TCP", run: || conformance(&[]) },
    Step { name: "replay", what: "the simulated world twice from one seed: the same report", run: replay },
    Step { name: "conformance-rdma", what: "the same over RDMA, RoCEv2 between two addresses of loopback", run: conformance_rdma },
    Step { name: "lab", what: "the suite against Linux's own target in a guest", run: || lab_step(&[]) },
    Step {
        name: "lab-rdma",
        what: "Linux's host and target over RDMA, with soft-RoCE in a guest",
        run: || lab_step(&["rdma".into()]),
    },
    Step { name: "lab-verbs", what: "verbs on the soft-RoCE device of a guest", run: || lab_step(&["verbs".into()]) },
];

/// Runs all steps, or those named; the exit status is 1 if one failed.
pub fn run(args: &[String]) -> Result<u8, String> {
    if args.iter().any(|arg| arg == "--list") {
        for step in STEPS {
            println!("{:12} {}", step.name, step.what);
        }
        return Ok(0);
    }
    if let Some(unknown) = args.iter().find(|arg| !STEPS.iter().any(|step| step.name == **arg)) {
        eprintln!("ci: there is no step `{unknown}`; `cargo xtask ci --list` names them");
        return Ok(2);
    }
    let chosen = STEPS.iter().filter(|step| args.is_empty() || args.iter().any(|arg| arg == step.name));
    let started = Instant::now();
    let (mut passed, mut failed, mut skipped) = (0, Vec::new(), Vec::new());
    for step in chosen {
        println!("\n=== {}: {}", step.name, step.what);
        let begun = Instant::now();
        let result = (step.run)();
        let seconds = begun.elapsed().as_secs_f32();
        match result {
            Ok(Done::Passed) => {
                passed += 1;
                println!("=== {} passed in {seconds:.1} s", step.name);
            }
            Ok(Done::Skipped(reason)) => {
                println!("=== {} skipped: {reason}", step.name);
                skipped.push((step.name, reason));
            }
            Err(message) => {
                println!("=== {} FAILED in {seconds:.1} s: {message}", step.name);
                failed.push((step.name, message));
            }
        }
    }
    println!("\n=== summary after {:.0} s", started.elapsed().as_secs_f32());
    for (name, reason) in &skipped {
        println!("skipped  {name}: {reason}");
    }
    for (name, message) in &failed {
        let first = message.lines().next().unwrap_or_default();
        println!("FAILED   {name}: {first}   (again: cargo xtask ci {name})");
    }
    println!("{passed} passed, {} failed, {} skipped", failed.len(), skipped.len());
    Ok(u8::from(!failed.is_empty()))
}

fn cargo(args: &[&str]) -> Result<Done, String> {
    cmd::run(&mut cmd::cargo(args)?).map(|()| Done::Passed)
}

/// Tests beside tshark, and of live capture, say that they are skipped where these are not.
fn programs() -> Result<Done, String> {
    let needed = [("tshark", Some("tshark")), ("tcpdump", Some("tcpdump"))];
    Ok(packages::provide(&needed).map_or_else(Done::Skipped, |()| Done::Passed))
}

/// Lints and tests of the one crate that needs system libraries; the default members do without.
fn verbs_step() -> Result<Done, String> {
    if let Err(reason) = verbs::provide() {
        return Ok(Done::Skipped(reason));
    }
    for args in [
        &["clippy", "-p", "nvmf-verbs", "--all-targets", "--quiet", "--", "-D", "warnings"][..],
        &["test", "-p", "nvmf-verbs", "--quiet"],
    ] {
        cmd::run(&mut verbs::cargo(args)?)?;
    }
    Ok(Done::Passed)
}

fn doc() -> Result<Done, String> {
    let mut command = cmd::cargo(["doc", "--no-deps", "--quiet"])?;
    command.env("RUSTDOCFLAGS", "-D warnings");
    cmd::run(&mut command).map(|()| Done::Passed)
}

fn wireshark() -> Result<Done, String> {
    let skipped = || Done::Skipped("tshark is not installed".to_owned());
    Ok(capture::captures_beside_wireshark()?.map_or_else(skipped, |()| Done::Passed))
}

/// Without the advisory database, which would have to come from the network.
fn deny() -> Result<Done, String> {
    let cargo_home = std::env::var_os("CARGO_HOME").map(std::path::PathBuf::from);
    let in_home = cargo_home.is_some_and(|home| home.join("bin/cargo-deny").is_file());
    if !in_home && cmd::find_program("cargo-deny").is_none() {
        return Ok(Done::Skipped("cargo-deny is not installed".into()));
    }
    cargo(&["deny", "--offline", "check", "bans", "licenses", "sources"])
}

/// Runs the suite with `args`; any exit status but 0 is a failure.
fn conformance(args: &[&str]) -> Result<Done, String> {
    let mut command = Command::new(cmd::nvmfspec()?);
    command.current_dir(cmd::root()?).arg("conformance").args(args);
    cmd::run(&mut command).map(|()| Done::Passed)
}

fn replay() -> Result<Done, String> {
    let dir = cmd::target_dir()?.join("xtask-replay");
    std::fs::create_dir_all(&dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
    let mut reports = Vec::new();
    for name in ["first.json", "second.json"] {
        let file = dir.join(name);
        let path = file.to_string_lossy();
        conformance(&["--world", "sim", "--seed", "7", "--json", &path])?;
        let text = std::fs::read_to_string(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        let value: Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?;
        reports.push(value);
    }
    match first_difference("", &reports[0], &reports[1]) {
        None => Ok(Done::Passed),
        Some(at) => Err(format!("two runs from one seed differ at {at}; the reports lie in {}", dir.display())),
    }
}

/// The report's member for the time of day and how long things took here: no part of what a seed determines.
const WALL_CLOCK: &str = "wall";

/// Where two reports first differ, as a path like `/checks/3/verdict`, wall-clock fields aside.
fn first_difference(at: &str, a: &Value, b: &Value) -> Option<String> {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys = x.keys().chain(y.keys().filter(|key| !x.contains_key(*key)));
            keys.filter(|key| *key != WALL_CLOCK).find_map(|key| {
                let below = format!("{at}/{key}");
                match (x.get(key), y.get(key)) {
                    (Some(a), Some(b)) => first_difference(&below, a, b),
                    _ => Some(below),
                }
            })
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            x.iter().zip(y).enumerate().find_map(|(i, (a, b))| first_difference(&format!("{at}/{i}"), a, b))
        }
        _ if a == b => None,
        _ => Some(if at.is_empty() { "/" } else { at }.to_owned()),
    }
}

fn conformance_rdma() -> Result<Done, String> {
    conformance(&["--transport", "rdma"])?;
    conformance(&["--transport", "rdma", "--world", "sim"])
}

fn lab_step(args: &[String]) -> Result<Done, String> {
    match lab::run(args)? {
        lab::Ending::Ran(0) => Ok(Done::Passed),
        lab::Ending::Ran(status) => Err(format!("the suite ended with status {status}")),
        lab::Ending::Skipped(reason) => Ok(Done::Skipped(reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::first_difference;
    use serde_json::json;

    #[test]
    fn only_the_wall_clock_may_differ() {
        let report = |wall: u64, verdict: &str| json!({"wall": wall, "checks": [{"id": "a"}, {"verdict": verdict}]});
        let difference = |a, b| first_difference("", &a, &b);
        assert_eq!(difference(report(1, "pass"), report(2, "pass")), None);
        assert_eq!(difference(report(1, "pass"), report(1, "fail")).as_deref(), Some("/checks/1/verdict"));
        assert_eq!(difference(json!({"a": 1}), json!({"a": 1, "b": null})).as_deref(), Some("/b"));
        assert_eq!(difference(json!([1]), json!([1, 2])).as_deref(), Some("/"));
    }
}
