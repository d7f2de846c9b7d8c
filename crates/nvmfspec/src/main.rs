//! The `nvmfspec` program: judges NVMe-oF targets, plays a target or a host, and explains what the specifications ask for.
//!
//! Here is the command line only; each command is a module. What a command ends with is
//! [`ExitStatus`].

mod bystander;
mod captured;
mod compare;
mod completion;
mod conformance;
mod control;
mod explain;
mod golden;
mod host;
mod input;
mod ladder;
mod lint;
mod list;
mod nic;
mod output;
mod place;
mod recording;
mod scenario;
mod session;
mod sim;
mod stats;
mod target;
mod values;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use nvmf_conformance::ExitStatus;

/// Emulator and conformance suite for NVMe over Fabrics.
#[derive(Parser)]
#[command(name = "nvmfspec", version, about, long_about = None, max_term_width = 110, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  nvmfspec conformance                      every check against the embedded reference target
  nvmfspec conformance --target 10.0.0.5    the safe checks against a real one
  nvmfspec list tcp/icreq                   what is checked, below a prefix
  nvmfspec explain TCP-ICREQ-02             what a requirement asks for, and what checks it
  nvmfspec target --fault tcp-r2t-nothing   a target that is wrong in one way, for a host to meet
  nvmfspec host discover --target 10.0.0.5  what a host sees
  nvmfspec lint run.pcapng                  what both sides of a capture do wrong

Exit status: 0 all well; 1 a check failed or killed the peer; 2 usage;
3 the peer could not be reached or the harness broke; 4 an expected failure passed.
When several hold, the first of 2, 3, 1, 4.";

#[derive(Subcommand)]
enum Command {
    /// Judge a target, clause by clause
    Conformance(Box<conformance::Args>),
    /// Print the checks
    List(list::Args),
    /// Print a requirement or a check, with the reasons
    Explain(explain::Args),
    /// Play a target, right or wrong in a chosen way
    #[command(alias = "controller")]
    Target(Box<target::TargetArgs>),
    /// Change what a target serves while hosts are connected to it
    Control(control::Args),
    /// Play a host: discover, connect, identify, read, write
    #[command(alias = "initiator")]
    Host(Box<host::HostArgs>),
    /// Print what a capture file holds, a line a PDU
    Trace(captured::TraceArgs),
    /// Find what hosts and controllers do wrong in a capture file
    Lint(lint::LintArgs),
    /// Hold two captures beside each other, field by field
    Compare(Box<compare::Args>),
    /// Count what a capture file holds: commands, bytes, response times, queue depth
    Stats(stats::StatsArgs),
    /// Draw who sent what to whom in a capture file
    Ladder(ladder::LadderArgs),
    /// Play the scripts of one file against a target
    Scenario(Box<scenario::Args>),
    /// Simulate hosts, targets and the network between them
    #[command(subcommand)]
    Sim(sim::Args),
    /// Print the script by which a shell completes command lines
    Completion(completion::Args),
}

fn main() -> ExitCode {
    // clap ends the process with 2 for a wrong command line, and with 0 after --help.
    let cli = Cli::parse();
    let run = || match cli.command {
        Command::Conformance(args) => conformance::run(*args),
        Command::Control(args) => control::run(&args),
        Command::List(args) => list::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Host(args) => host::run(*args),
        Command::Trace(args) => captured::trace(&args),
        Command::Lint(args) => lint::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Ladder(args) => ladder::run(&args),
        Command::Scenario(args) => scenario::run(*args),
        Command::Target(args) => target::run(*args),
        Command::Sim(args) => sim::run(&args),
        Command::Completion(args) => completion::run(&args, &mut Cli::command()),
    };
    // A panic has printed its message already; it is the harness that broke, which has a status of its own.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or(ExitStatus::Harness.into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
