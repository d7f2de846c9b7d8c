//! `cargo xtask`: the project's own commands. Run without arguments for the list.
//!
//! Each command is a module; this file only finds the one that is asked for. What users run is the `nvmfspec` program:
//! `conformance` here is a shortcut to it.

mod bench;
mod capture;
mod ci;
mod cmd;
mod docs;
mod lab;
mod packages;
mod reqs;
mod tidy;
mod vectors;
mod verbs;

use std::process::{Command, ExitCode};

const USAGE: &str = "\
cargo xtask COMMAND

  conformance [ARGS]  run `nvmfspec conformance ARGS`: without ARGS, every check against the embedded target
                        cargo xtask conformance --target 10.0.0.5
                        cargo xtask conformance --filter tcp/icreq
  ci [STEP]…          all that a change must pass, or the named steps only; `ci --list` names them
  tidy                the project's own rules on its files
  reqs [--bless]      check the requirement catalogue, or write the constants made from it
  docs [--bless]      check the pages of docs/checks, or write them from the scripts
  vectors [ARGS]      check the byte vectors; `vectors --captures FILE…` takes captures through the codec and back
  capture [ARGS]      our reading of captures beside tshark's; `capture help` says more
  bless               accept what the snapshot tests, the catalogue's constants and the pages of the checks now are
  bench tcp|memory|capture
                      the target over loopback beside a raw socket loop, its memory, captures beside tshark; `bench help` says more
  lab [COMMAND]       the suite against Linux's own target in a guest; `lab help` says more";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(status) => ExitCode::from(status),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(1)
        }
    }
}

/// Runs the command; the exit status to end with, or what went wrong.
fn dispatch(args: &[String]) -> Result<u8, String> {
    let (command, rest) = match args.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", args),
    };
    match command {
        "conformance" => conformance(rest),
        "ci" => ci::run(rest),
        "tidy" => tidy::run(rest).map(|()| 0),
        "reqs" => reqs::run(rest).map(|()| 0),
        "docs" => docs::run(rest).map(|()| 0),
        "capture" => capture::run(rest).map(|()| 0),
        "vectors" => vectors::run(rest).map(|()| 0),
        "bench" => bench::run(rest),
        "bless" => bless().map(|()| 0),
        "lab" => lab::run(rest).map(|ending| match ending {
            lab::Ending::Ran(status) => status,
            lab::Ending::Skipped(_) => 0,
        }),
        "help" | "-h" | "--help" => {
            println!("{USAGE}");
            Ok(0)
        }
        other => {
            eprintln!("there is no command `{other}`\n\n{USAGE}");
            Ok(2)
        }
    }
}

/// `nvmfspec conformance ARGS` in the folder that the user stands in, with its own exit status.
fn conformance(args: &[String]) -> Result<u8, String> {
    let program = cmd::nvmfspec()?;
    let status = Command::new(&program)
        .arg("conformance")
        .args(args)
        .status()
        .map_err(|e| format!("cannot start {}: {e}", program.display()))?;
    // ended by a signal: the harness broke
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(3))
}

fn bless() -> Result<(), String> {
    cmd::run(cmd::cargo(["test", "--quiet"])?.env("INSTA_UPDATE", "always"))?;
    let bless = ["--bless".to_owned()];
    reqs::run(&bless)?;
    docs::run(&bless)
}
