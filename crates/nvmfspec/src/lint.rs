//! `nvmfspec lint`: what hosts and controllers do wrong in a capture file, finding by finding as the capture goes by.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use nvmf_capture::lint::{Cause, Lint, Sieve, Tally};
use nvmf_capture::{Ends, Followed, Judge};
use nvmf_conformance::ExitStatus;
use nvmf_conformance::report::printable;
use nvmf_spec::{Level, Side};
use serde_json::{Value as Json, json};

use crate::input::Input;

const HELP: &str = "\
Examples:
  nvmfspec lint run.pcapng
  nvmfspec lint --side controller --level shall run.pcap.gz
  nvmfspec lint --once --skip CQE-02,FAB-PROP run.pcap
  nvmfspec lint --json run.pcapng | jq '.findings[] | {frame, side, requirement}'

A line: milliseconds since the first connection, frame, connection, requirement with its level, the side to blame, what was seen, what
was asked for, and the bytes that show it, with their place in the PDU or in the data of the command. Further requirements that ask for
the same in other words stand behind the first. `nvmfspec explain ID` prints a requirement.

JSON: one object. `findings` has an object each:
  requirement, also   the id, and the ids of others that the same bytes break
  level, side         shall, should or may; host or controller
  frame, at_ns        number of the frame as Wireshark counts; nanoseconds since 1970
  connection, host, controller   number of the connection from 0, and its ends
  seen, expected      what was seen, what is asked for
  bytes               {of: pdu or data, offset, hex}; null where nothing was sent
Behind them `pdus` (of NVMe/TCP, and packets of RoCEv2), `connections`, `frames` and `other_connections` say what was looked at.

Exit status: 0 nothing found; 1 something found; 2 usage; 3 the file could not be read.";

/// A capture to judge.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct LintArgs {
    #[command(flatten)]
    input: Input,
    /// Findings as JSON
    #[arg(long)]
    json: bool,
    /// Blame this side alone
    #[arg(long, value_parser = side, value_name = "host|controller")]
    side: Option<Side>,
    /// Findings this strong at least
    #[arg(long, value_parser = level, value_name = "shall|should|may")]
    level: Option<Level>,
    /// Requirements whose id begins with one of these
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    only: Vec<String>,
    /// Requirements whose id begins with none of these
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    skip: Vec<String>,
    /// Each requirement once a side
    #[arg(long)]
    once: bool,
    /// Nobody but the hosts of the capture writes to the namespaces: judge the data that Reads bring
    #[arg(long)]
    exclusive: bool,
}

fn side(s: &str) -> Result<Side, String> {
    [Side::Host, Side::Controller].into_iter().find(|v| v.to_string() == s).ok_or_else(|| "host or controller".to_owned())
}

fn level(s: &str) -> Result<Level, String> {
    let all = [Level::Shall, Level::Should, Level::May];
    all.into_iter().find(|v| v.to_string() == s).ok_or_else(|| "shall, should or may".to_owned())
}

/// Prints what the rules find.
pub fn run(args: &LintArgs) -> ExitCode {
    let mut out = BufWriter::new(io::stdout().lock());
    let (tally, read) = lint(args, &mut out);
    // Everything before the place where the file breaks was judged. A closed pipe ends it quietly.
    let _ = match (args.json, &read) {
        (true, _) => writeln!(out, "{}", tail(tally, read.as_ref().copied().unwrap_or_default())),
        (false, Ok(_)) => {
            let Tally { pdus, connections, causes, shall } = tally;
            writeln!(out, "{pdus} PDUs or packets on {connections} connections: {causes} findings, {shall} of them shall")
        }
        (false, Err(_)) => Ok(()),
    };
    let _ = out.flush();
    match read {
        Ok(_) if tally.causes == 0 => ExitStatus::Success.into(),
        Ok(_) => ExitStatus::Failed.into(),
        Err(status) => status,
    }
}

fn lint(args: &LintArgs, out: &mut dyn Write) -> (Tally, Result<Followed, ExitCode>) {
    let judge = if args.exclusive { Judge::new().exclusive() } else { Judge::new() };
    let sieve = Sieve { side: args.side, level: args.level, only: args.only.clone(), skip: args.skip.clone(), once: args.once };
    let mut next = "{\n  \"findings\": [\n    ";
    let mut lint = Lint::new(judge, sieve, |ends: &Ends, cause: &Cause, since_ns| {
        let _ = match args.json {
            true => write!(out, "{}{}", std::mem::replace(&mut next, ",\n    "), as_json(ends, cause)),
            // What peers sent may be in it.
            false => out.write_all(printable(&line(ends, cause, since_ns)).as_bytes()),
        };
    });
    let read = args.input.follow(&mut lint);
    let tally = lint.tally();
    if args.json && tally.causes == 0 {
        let _ = out.write_all(next.trim_end().as_bytes());
    }
    (tally, read)
}

fn line(ends: &Ends, cause: &Cause, since_ns: u64) -> String {
    let f = &cause.finding;
    let us = since_ns / 1000;
    let mut out = format!("{}.{:03} frame {} #{} {} -> {}: ", us / 1000, us % 1000, f.frame, f.conn, ends.client, ends.server);
    let ids: Vec<&str> = cause.requirements().map(|r| r.id).collect();
    let (ids, level) = (ids.join(", "), cause.level());
    let _ = write!(out, "{ids} ({level}) {}: {}; asked for: {}", f.side, f.seen, f.expected);
    if !f.bytes.bytes.is_empty() {
        let _ = write!(out, "; {} byte {}: {}", f.bytes.part, f.bytes.offset, hex(&f.bytes.bytes, 16));
    }
    out.push('\n');
    out
}

fn hex(bytes: &[u8], most: usize) -> String {
    let mut out = String::with_capacity(2 * bytes.len().min(most) + 3);
    for b in bytes.iter().take(most) {
        let _ = write!(out, "{b:02x}");
    }
    if bytes.len() > most {
        out.push_str("...");
    }
    out
}

fn as_json(ends: &Ends, cause: &Cause) -> Json {
    let f = &cause.finding;
    let shown = &f.bytes;
    let bytes = (!shown.bytes.is_empty())
        .then(|| json!({ "of": shown.part.to_string(), "offset": shown.offset, "hex": hex(&shown.bytes, usize::MAX) }));
    json!({
        "requirement": f.requirement.id,
        "also": cause.also.iter().map(|r| r.id).collect::<Vec<_>>(),
        "level": cause.level().to_string(),
        "side": f.side.to_string(),
        "frame": f.frame,
        "at_ns": f.at_ns,
        "connection": f.conn,
        "host": ends.client.to_string(),
        "controller": ends.server.to_string(),
        "seen": f.seen,
        "expected": f.expected,
        "bytes": bytes,
    })
}

fn tail(tally: Tally, followed: Followed) -> String {
    format!(
        "\n  ],\n  \"connections\": {},\n  \"pdus\": {},\n  \"frames\": {},\n  \"other_connections\": {}\n}}",
        tally.connections, tally.pdus, followed.frames, followed.others
    )
}
