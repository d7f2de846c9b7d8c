//! `nvmfspec control`: gives a command to a target that runs with `--control`, and prints its answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use nvmf_conformance::ExitStatus;
use nvmf_conformance::report::printable;

use crate::output;

/// Longest line of a command, bytes, its end included.
pub const LINE_MAX: usize = 4096;
/// Longest answer that is read, bytes.
const ANSWER_MAX: u64 = 16 << 20;
/// How long an answer may take: a store in a file is opened meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);

const COMMANDS: &str = "\
Commands:
  namespace add STORE [NQN]       adds a namespace under the lowest free NSID, which is the answer
  namespace remove NSID [NQN]
  subsystem add NQN STORE...
  subsystem remove NQN            ends its associations
  host allow NQN|any [SUBNQN]
  host deny NQN|any [SUBNQN]      ends their associations
  ana GROUP STATE [NQN]           optimized, non-optimized, inaccessible, persistent-loss or change
  ana namespace NSID GROUP [NQN]  moves a namespace into another group
  referral add|remove ADDR:PORT   to another discovery service
  temperature KELVINS             hosts that set a threshold hear of it
  list                            what is served, and who is connected: one line of JSON
  quit                            ends the target

STORE is as in `nvmfspec target --namespace`; a namespace or host without a subsystem's NQN is one of the subsystem that the target
was started with. The socket takes the same commands, one a line of up to 4096 bytes, and answers each by one line that begins with
`ok` or `error:`.

Exit status: 0 done; 1 the target refused; 2 usage; 3 the target could not be reached.";

/// Where, and what.
#[derive(clap::Args)]
#[command(after_help = COMMANDS)]
pub struct Args {
    /// The socket that the target was given by --control
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The command
    #[arg(value_name = "WORDS", required = true, trailing_var_arg = true)]
    words: Vec<String>,
}

/// Sends one command and prints what comes back.
pub fn run(args: &Args) -> ExitCode {
    let line = args.words.join(" ");
    if args.words.iter().any(|w| w.is_empty() || w.contains(char::is_whitespace)) {
        return output::refuse(ExitStatus::Usage, "a word of a command cannot be empty or contain a space");
    }
    if line.len() >= LINE_MAX {
        return output::refuse(ExitStatus::Usage, &format!("a command has at most {} bytes", LINE_MAX - 1));
    }
    match ask(args, &line) {
        Ok(answer) => match answer.strip_prefix("error: ") {
            Some(why) => output::refuse(ExitStatus::Failed, why),
            // Names in it come from hosts.
            None => output::print(&format!("{}\n", printable(&answer))),
        },
        Err(e) => output::refuse(ExitStatus::Harness, &format!("{}: {e}", args.path.display())),
    }
}

fn ask(args: &Args, line: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(&args.path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream.take(ANSWER_MAX)).read_line(&mut answer)?;
    let whole = answer.strip_suffix('\n').ok_or_else(|| io::Error::other("the target closed without a whole answer"))?;
    if whole == "ok" || whole.starts_with("ok ") || whole.starts_with("error: ") {
        return Ok(whole.to_owned());
    }
    Err(io::Error::other("the answer is none of a target's control socket"))
}
