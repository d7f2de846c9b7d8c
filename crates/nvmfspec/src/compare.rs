//! `nvmfspec compare`: two captures beside each other.

use std::path::PathBuf;
use std::process::ExitCode;

use nvmf_capture::compare::{DEFAULT, Difference, Mask, Options, Report, Spot, What, compare};
use nvmf_conformance::ExitStatus;
use nvmf_conformance::report::printable;
use serde_json::{Value as Json, json};

use crate::input::Reading;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  nvmfspec compare good.pcapng bad.pcapng               what came otherwise in bad
  nvmfspec compare --from Write good.pcap bad.pcap      from the first Write on
  nvmfspec compare --mask lab.mask good.pcap bad.pcap   some fields may differ
  nvmfspec compare --print-mask                         the lines that always hold

Command identifiers, transfer tags, controller IDs, addresses and ports may be others as long as each stands for the same one
everywhere. Masks are described in docs/compare.md.

Exit status: 0 equal; 1 a difference; 2 usage, or a mask that cannot be read; 3 a capture that cannot be read.";

/// Differences printed without `--all`.
const SHOWN: usize = 20;

/// Two captures, and what may differ.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What is expected: pcap or pcapng, also compressed by gzip
    #[arg(value_name = "A", required_unless_present = "print_mask")]
    a: Option<PathBuf>,
    /// What came; `-` for standard input
    #[arg(value_name = "B", required_unless_present = "print_mask")]
    b: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// Lines that say what may differ; may be repeated
    #[arg(long, value_name = "FILE")]
    mask: Vec<PathBuf>,
    /// Begin at the first command of this name
    #[arg(long, value_name = "COMMAND")]
    from: Option<String>,
    /// End with the first command of this name, from the begin on
    #[arg(long, value_name = "COMMAND")]
    to: Option<String>,
    /// All differences, not only the first
    #[arg(long)]
    all: bool,
    /// Differences as JSON
    #[arg(long)]
    json: bool,
    /// Print the lines that always hold, and end
    #[arg(long, conflicts_with_all = ["a", "b", "mask", "from", "to", "all", "json"])]
    print_mask: bool,
}

/// Compares.
pub fn run(args: &Args) -> ExitCode {
    if args.print_mask {
        return output::print(DEFAULT);
    }
    let (Some(a), Some(b)) = (&args.a, &args.b) else {
        return output::refuse(ExitStatus::Usage, "two captures are needed");
    };
    let mut mask = Mask::default();
    for path in &args.mask {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) => return output::refuse(ExitStatus::Usage, &format!("{}: {e}", path.display())),
        };
        if let Err(e) = mask.add(&text) {
            return output::refuse(ExitStatus::Usage, &format!("{}: {e}", path.display()));
        }
    }
    let (a, b) = match (args.reading.capture(a), args.reading.capture(b)) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(status), _) | (_, Err(status)) => return status,
    };
    let options = Options { mask, from: args.from.clone(), to: args.to.clone() };
    let report = match compare(a.exchange(), b.exchange(), &options) {
        Ok(report) => report,
        Err(e) => return output::refuse(ExitStatus::Usage, &e),
    };
    let limit = if args.all { usize::MAX } else { SHOWN };
    let text = if args.json { format!("{:#}\n", as_json(&report, limit)) } else { printable(&report.text(limit)) };
    let printed = output::print(&text);
    if report.is_equal() { printed } else { ExitStatus::Failed.into() }
}

fn as_json(report: &Report, limit: usize) -> Json {
    let differences: Vec<Json> = report.differences.iter().take(limit).map(one).collect();
    json!({
        "equal": report.is_equal(),
        "connections": report.connections,
        "commands": report.commands,
        "messages": report.messages,
        "count": report.differences.len() as u64 + report.more,
        "differences": differences,
    })
}

fn one(d: &Difference) -> Json {
    let spot = |s: &Option<Spot>| {
        s.as_ref().map(|s| json!({ "connection": s.conn, "frame": s.frame, "at_ns": s.at_ns, "message": s.message }))
    };
    let [a, b] = &d.spots;
    let mut out = json!({
        "queue": d.queue,
        "command": d.number.map(|n| json!({ "name": d.command, "number": n + 1 })),
        "a": spot(a),
        "b": spot(b),
    });
    let (kind, more) = match &d.what {
        What::Field { path, expected, seen } => ("field", json!({ "field": path, "expected": expected, "seen": seen })),
        What::OnlyInA(what) => ("only in A", json!({ "what": what })),
        What::OnlyInB(what) => ("only in B", json!({ "what": what })),
        What::Moved(what) => ("order", json!({ "what": what })),
    };
    if let (Some(out), Json::Object(more)) = (out.as_object_mut(), more) {
        out.insert("kind".into(), kind.into());
        out.extend(more);
    }
    out
}
