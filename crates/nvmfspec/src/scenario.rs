//! `nvmfspec scenario`: plays the scripts of one file, checks and scenarios, as one writes them.

use std::path::PathBuf;
use std::process::ExitCode;

use nvmf_conformance::ExitStatus;
use nvmf_conformance::suite::{Item, Suite};

use crate::conformance::{PeerArgs, ReportArgs, shell};
use crate::golden;
use crate::output;
use crate::session::{self, Plan};

const EXAMPLES: &str = "\
Examples:
  nvmfspec scenario my.check                        against the embedded reference target
  nvmfspec scenario my.check --target 10.0.0.5      against a real one
  nvmfspec scenario my.check --world sim --out out  in the simulated world, the trace in out/

Scenarios that describe their target are played in a simulated world of their own and held beside their captures, whatever the
options say of the peer. The language is described in docs/scenarios.md. The exit status is that of `nvmfspec conformance`.";

/// What to play, and against whom.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The file: checks and scenarios
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only checks whose id begins with this; may be repeated
    #[arg(long, value_name = "PREFIX")]
    filter: Vec<String>,
    #[command(flatten)]
    peer: PeerArgs,
    #[command(flatten)]
    reports: ReportArgs,
}

impl Args {
    /// A script in the simulated world of frames; `words` are options.
    pub fn over_frames(file: &std::path::Path, words: &[std::ffi::OsString]) -> Result<Self, clap::Error> {
        use clap::{Args as _, FromArgMatches as _};
        let fixed = ["scenario", "--world", "sim", "--frames"].map(std::ffi::OsString::from);
        let all = fixed.into_iter().chain(words.iter().cloned()).chain(["--".into(), file.into()]);
        Self::from_arg_matches(&Self::augment_args(clap::Command::new("scenario")).try_get_matches_from(all)?)
    }
}

/// Plays the file.
pub fn run(args: Args) -> ExitCode {
    if let Some(scenarios) = golden::of(&args.file) {
        if args.peer.frames || args.peer.pcap.is_some() {
            let why =
                "scenarios that describe their target are held beside a capture of their own: --frames and --pcap are for checks";
            return output::refuse(ExitStatus::Usage, why);
        }
        return golden::run(&args.file, &scenarios, &args.filter, args.peer.seed);
    }
    match plan(&args) {
        Ok(plan) => session::run(plan, args.peer, args.reports),
        Err(message) => output::refuse(ExitStatus::Usage, &message),
    }
}

fn plan(args: &Args) -> Result<Plan, String> {
    let mut suite = Suite::default();
    suite.add_file(&args.file).map_err(|e| e.to_string())?;
    let ids: Vec<String> = suite.items().iter().map(Item::id).collect();
    if ids.is_empty() {
        return Err(format!("{}: holds no check and no scenario to play", args.file.display()));
    }
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    nvmf_conformance::select::check_prefixes(&args.filter, &ids)?;
    let command = format!("scenario {}", shell(&args.file.display().to_string()));
    Ok(Plan { suite, filters: args.filter.clone(), expectations: None, command })
}
