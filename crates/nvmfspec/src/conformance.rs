//! `nvmfspec conformance`: the command line of the suite.
//!
//! Everything that can be wrong before the first packet (a filter, a file, an id) is looked at here, so that a run of an hour does
//! not end with a typing error. [`session`] does the rest.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use nvmf_conformance::report::files::Format;
use nvmf_conformance::suite::Item;
use nvmf_conformance::{ExitStatus, Expectations, select};
use nvmf_engine::Reference;
use nvmf_spec::Revision;

use crate::list::{self, Row, Scripts};
use crate::nic::{self, Nic};
use crate::output;
use crate::session::{self, Plan};
use crate::values::{Blocks, HostPort, TransportArg, Uuid, nqn, scale, seed};

const EXAMPLES: &str = "\
Examples:
  nvmfspec conformance
      Every check against the embedded reference target, over loopback TCP.
  nvmfspec conformance --target 10.0.0.5
      The safe checks against a real target: port 8009, then 4420.
  nvmfspec conformance --target 10.0.0.5:4420 --nqn nqn.2014-08.com.example:array \\
      --allow-writes 0-8191 --allow disruptive
      One subsystem; blocks 0 to 8191 of its lowest namespace may be overwritten,
      and its controllers reset.
  nvmfspec conformance --target [fd00::5] --filter tcp/icreq --out results
      Some checks; a trace and a pcapng of each in results/, and the reports.
  nvmfspec conformance --target array --expect known.toml --junit junit.xml
      For CI: status 0 as long as nothing goes wrong but what known.toml lists.
  nvmfspec conformance --target 10.0.0.5 --transport rdma
      The same over RoCEv2, without an RDMA device: a socket on UDP port 4791.
  nvmfspec conformance --world sim --seed 7 --json a.json
      In the simulated world: the same report every time.
  nvmfspec conformance --world sim --frames --filter tcp --pcap run.pcapng
      The same over Ethernet frames, with a TCP and a switch between.

Exit status: 0 all well; 1 a check failed or killed the peer, or the bystander
rules found a shall broken that --expect does not have; 2 usage; 3 the peer could not be reached or the harness broke; 4 an expected failure passed.
The last line is `N passed, M failed, W warned, B blocked, S skipped`.";

/// What to judge, and how.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    pub peer: PeerArgs,
    /// Only checks whose id begins with this; may be repeated
    #[arg(long, value_name = "PREFIX", help_heading = "Checks")]
    pub filter: Vec<String>,
    /// Known deviations (TOML), or the JSON report of an earlier run
    #[arg(long, value_name = "FILE", help_heading = "Checks")]
    pub expect: Option<PathBuf>,
    #[command(flatten)]
    pub scripts: Scripts,
    #[command(flatten)]
    pub reports: ReportArgs,
    /// Print the checks that would run, and end
    #[arg(long, help_heading = "Checks")]
    pub list: bool,
}

/// Whom to talk to, what is allowed there, and as whom.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Target")]
pub struct PeerArgs {
    /// The target; without a port 8009, then 4420. Without this option the embedded reference target
    #[arg(long, value_name = "HOST[:PORT]")]
    pub target: Option<HostPort>,
    /// Which reference target of ours, where --target names none
    #[arg(long, value_enum, default_value_t = ReferenceArg::Plain, value_name = "plain|full", conflicts_with = "target")]
    pub reference: ReferenceArg,
    /// Virtual time and a seed, or the clock and sockets
    #[arg(long, value_enum, default_value_t = WorldArg::Real, value_name = "sim|real")]
    pub world: WorldArg,
    /// In the simulated world: whole Ethernet frames over a switch, with TCP, instead of streams in memory; RDMA always has them
    #[arg(long)]
    pub frames: bool,
    /// In the simulated world of frames: write those at the player, with nanoseconds
    #[arg(long, value_name = "OUT.pcapng")]
    pub pcap: Option<PathBuf>,
    /// What carries the capsules. Over RDMA, and without a port, discovery is asked over TCP 8009, then over RDMA 4420
    #[arg(long, value_enum, default_value_t = TransportArg::Tcp, value_name = "tcp|rdma")]
    pub transport: TransportArg,
    #[arg(long, value_name = "WAY", default_value = "udp", help = nic::HELP)]
    pub nic: Nic,
    /// The subsystem; all connections then go to --target
    #[arg(long, value_parser = nqn, conflicts_with = "all_subsystems")]
    pub nqn: Option<String>,
    /// Every subsystem that discovery finds, one after the other
    #[arg(long)]
    pub all_subsystems: bool,
    /// The Host NQN to connect with
    #[arg(long, value_name = "NQN", value_parser = nqn)]
    pub hostnqn: Option<String>,
    /// The Host Identifier to connect with; by default the UUID in --hostnqn, where it has one
    #[arg(long, value_name = "UUID")]
    pub hostid: Option<Uuid>,
    /// Blocks that checks may overwrite, the last one included; without NSID, of the lowest active namespace
    #[arg(long, value_name = "[NSID:]FIRST-LAST")]
    pub allow_writes: Option<Blocks>,
    /// Checks that reset controllers or may harm: what is more than safe has to be allowed by name; may be repeated
    #[arg(long, value_enum, value_name = "CLASS")]
    pub allow: Vec<Allow>,
    /// How many checks may run beside each other, where they disturb nobody; 8 by default, and always 1 in the simulated world
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Connect to --target even where the discovery log names another address
    #[arg(long)]
    pub connect_as_given: bool,
    /// Multiplies our patience, never a time of the protocol
    #[arg(long, value_name = "X", default_value = "1", value_parser = scale)]
    pub time_scale: f64,
    /// Where random choices begin; the same seed makes the same choices
    #[arg(long, value_name = "N", default_value = "0", value_parser = seed)]
    pub seed: u64,
    /// Judge by this revision of the Base Specification instead of the one that the target reports, such as 2.0
    #[arg(long, value_name = "REV")]
    pub spec: Option<Revision>,
}

/// What is written, and what counts as a failure.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Reports")]
pub struct ReportArgs {
    /// A folder for a trace and a pcapng of each check and for the report as JSON, JUnit XML, TAP, HTML and Markdown
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write a JUnit XML report
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write a JSON report
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a TAP report (version 14)
    #[arg(long, value_name = "FILE")]
    pub tap: Option<PathBuf>,
    /// Write the report as one HTML page that needs no other file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// A warning (a "should" unmet) counts as a failure
    #[arg(long)]
    pub strict: bool,
    /// The right effect by the wrong means, such as a close without the TermReq, counts as a pass
    #[arg(long)]
    pub lenient: bool,
}

impl ReportArgs {
    /// The files of single reports that were asked for.
    pub fn files(&self) -> impl Iterator<Item = (&Path, Format)> {
        let all = [(&self.json, Format::Json), (&self.junit, Format::Junit), (&self.tap, Format::Tap), (&self.html, Format::Html)];
        all.into_iter().filter_map(|(path, format)| Some((path.as_deref()?, format)))
    }
}

/// The reference targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReferenceArg {
    /// Dynamic controllers, and what is mandatory
    Plain,
    /// Static controllers, and what is optional
    Full,
}

impl From<ReferenceArg> for Reference {
    fn from(arg: ReferenceArg) -> Self {
        match arg {
            ReferenceArg::Plain => Self::Plain,
            ReferenceArg::Full => Self::Full,
        }
    }
}

/// Where time and bytes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorldArg {
    Sim,
    Real,
}

/// Classes that --allow takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Allow {
    /// Resets controllers; other hosts notice
    Disruptive,
    /// May write anywhere, or has killed real targets
    Destructive,
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    let plan = match plan(&args) {
        Ok(plan) => plan,
        Err(message) => return output::refuse(ExitStatus::Usage, &message),
    };
    if args.list {
        let items = plan.suite.items().into_iter();
        let rows = items.map(|item| Row::of(&item)).filter(|row| plan.runs(&row.id));
        return output::print(&list::plain(&rows.collect::<Vec<Row>>(), "check"));
    }
    session::run(plan, args.peer, args.reports)
}

/// Reads every file and looks every name up, so that what is wrong is known before the first packet.
fn plan(args: &Args) -> Result<Plan, String> {
    let suite = args.scripts.load()?;
    let expectations = args.expect.as_deref().map(Expectations::load).transpose().map_err(|e| e.to_string())?;
    let ids: Vec<String> = suite.items().iter().map(Item::id).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    select::check_prefixes(&args.filter, &ids)?;
    if let Some(expectations) = &expectations {
        expectations.check_ids(&ids).map_err(|e| e.to_string())?;
    }
    let dirs = args.scripts.dirs().iter().map(|dir| format!(" --scripts {}", shell(&dir.display().to_string())));
    let command = format!("conformance{}", dirs.collect::<String>());
    Ok(Plan { suite, filters: args.filter.clone(), expectations, command })
}

/// A word as a shell takes it.
pub fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+[]".contains(c);
    if !word.is_empty() && word.chars().all(plain) && !word.contains('[') {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

impl PeerArgs {
    /// The arguments that reach the same peer in the same way, as a shell takes them.
    pub fn again(&self) -> String {
        let mut words = Vec::new();
        let mut option = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("--{name} {}", shell(&value))));
        };
        option("target", self.target.as_ref().map(HostPort::to_string));
        option("reference", (self.reference == ReferenceArg::Full).then(|| "full".into()));
        option("world", (self.world == WorldArg::Sim).then(|| "sim".into()));
        option("transport", (self.transport != TransportArg::Tcp).then(|| self.transport.to_string()));
        option("nic", (self.nic != Nic::default()).then(|| self.nic.to_string()));
        option("nqn", self.nqn.clone());
        option("hostnqn", self.hostnqn.clone());
        option("hostid", self.hostid.map(|id| id.to_string()));
        option("allow-writes", self.allow_writes.map(|blocks| blocks.to_string()));
        for class in &self.allow {
            option("allow", class.to_possible_value().map(|value| value.get_name().to_owned()));
        }
        #[expect(clippy::float_cmp, reason = "the default is exact")]
        option("time-scale", (self.time_scale != 1.0).then(|| self.time_scale.to_string()));
        option("seed", (self.seed != 0).then(|| self.seed.to_string()));
        option("spec", self.spec.map(|revision| revision.to_string()));
        words.extend(self.frames.then(|| "--frames".to_owned()));
        words.extend(self.all_subsystems.then(|| "--all-subsystems".to_owned()));
        words.extend(self.connect_as_given.then(|| "--connect-as-given".to_owned()));
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        peer: PeerArgs,
    }

    #[test]
    fn what_is_printed_to_run_again_is_the_same_command() {
        for line in [
            "",
            "--target [::1]:4420 --nqn nqn.2014-08.org.example:a --seed 9",
            "--target h --hostid 00112233-4455-6677-8899-aabbccddeeff --allow-writes 3:5-9 --allow disruptive --allow destructive",
            "--target 10.9.0.2 --transport rdma --nic qemu:17001:17002:10.9.0.1",
            "--world sim --frames --time-scale 0.25 --spec 1.4 --all-subsystems --connect-as-given",
        ] {
            let read = |line: &str| Only::try_parse_from(std::iter::once("x").chain(line.split_whitespace()).map(str::to_owned));
            let first = read(line).map(|only| only.peer.again()).expect("a command line");
            let second = read(&first.replace('\'', "")).map(|only| only.peer.again()).expect("what we print");
            assert_eq!(first, second);
            assert_eq!(first.split_whitespace().count(), line.split_whitespace().count(), "{first}");
        }
    }

    #[test]
    fn odd_words_are_quoted() {
        assert_eq!(shell("nqn.2014-08.org:a"), "nqn.2014-08.org:a");
        assert_eq!(shell("it's"), "'it'\\''s'");
        assert_eq!(shell(""), "''");
        assert_eq!(shell("[::1]"), "'[::1]'");
    }
}
