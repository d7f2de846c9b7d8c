//! `nvmfspec stats`: how much a capture moves, how fast commands are answered, how many wait.

use std::path::PathBuf;
use std::process::ExitCode;

use nvmf_capture::Stats;
use nvmf_conformance::ExitStatus;
use nvmf_conformance::report::printable;

use crate::input::Input;
use crate::output;

const HELP: &str = "\
Examples:
  nvmfspec stats run.pcapng                   a table for each controller
  nvmfspec stats --svg run.svg run.pcapng     and a plot of response times and queue depth over time
  nvmfspec stats --json run.pcapng | jq '.totals[] | {command, count, p99: .latency.\"p99_ns\"}'

The response time is that from the command capsule to its response, as they passed where the capture was made: at the host it holds the
network, at the controller it does not. Queue depth leaves out Asynchronous Event Requests, which wait for events. Of more than 64 commands
times are told to 1 %, in the plot and over time to 6 %. Up to 256 controllers are told apart; the totals have all.

Exit status: 0 done; 2 usage; 3 the file could not be read, or the plot not be written.";

/// A capture to count.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct StatsArgs {
    #[command(flatten)]
    input: Input,
    /// The figures as JSON: times in nanoseconds, lengths in bytes
    #[arg(long)]
    json: bool,
    /// Plot response times and queue depth over time into this file
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
}

/// Prints the figures.
pub fn run(args: &StatsArgs) -> ExitCode {
    let mut stats = Stats::new();
    let followed = match args.input.follow(&mut stats) {
        Ok(followed) => followed,
        Err(status) => return status,
    };
    let report = stats.finish(followed);
    if let Some(path) = &args.svg {
        let written = report.plot().and_then(|svg| std::fs::write(path, svg).map_err(|e| e.to_string()));
        if let Err(e) = written {
            return output::refuse(ExitStatus::Harness, &format!("{} cannot be written: {e}", path.display()));
        }
    }
    if !args.json {
        // What peers sent may be in it.
        return output::print(&printable(&report.table()));
    }
    match serde_json::to_string_pretty(&report) {
        Ok(json) => output::print(&format!("{json}\n")),
        Err(e) => output::refuse(ExitStatus::Harness, &e.to_string()),
    }
}
