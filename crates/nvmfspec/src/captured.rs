//! `nvmfspec trace` and `nvmfspec lint`: what a capture file holds, and what the bystander rules find in it.

use std::fmt::Write as _;
use std::process::ExitCode;

use nvmf_capture::{EventKind, Exchange, Finding, Judge, Trace};
use nvmf_conformance::ExitStatus;
use nvmf_conformance::report::printable;
use nvmf_spec::Level;
use serde_json::json;

use crate::input::Input;
use crate::output;

const TRACE: &str = "\
Examples:
  nvmfspec trace run.pcapng                 one line a PDU
  nvmfspec trace --lint run.pcap.gz         with a line for each breach, below the PDU that shows it
  tcpdump -r run.pcap -w - | nvmfspec trace -

A line: milliseconds since the first event, the connection, `>` from the host or `<` from the controller, the PDU, its fields, and what
it means. NVMe/TCP is told by its ICReq, on any port; a connection that was there before the capture, by port 4420 or 8009.

Exit status: 0 done; 2 usage; 3 the file could not be read.";

const LINT: &str = "\
Examples:
  nvmfspec lint run.pcapng
  nvmfspec lint --json run.pcapng | jq '.findings[] | .requirement'

`nvmfspec explain ID` prints the requirement that a finding names.

Exit status: 0 nothing found; 1 something found; 2 usage; 3 the file could not be read.";

/// A capture to print.
#[derive(clap::Args)]
#[command(after_help = TRACE)]
pub struct TraceArgs {
    #[command(flatten)]
    input: Input,
    /// Run the bystander rules too
    #[arg(long)]
    lint: bool,
    /// Leave the times out, so that two captures can be compared
    #[arg(long)]
    no_times: bool,
}

/// A capture to judge.
#[derive(clap::Args)]
#[command(after_help = LINT)]
pub struct LintArgs {
    #[command(flatten)]
    input: Input,
    /// Findings as JSON
    #[arg(long)]
    json: bool,
}

/// Prints a line for each PDU.
pub fn trace(args: &TraceArgs) -> ExitCode {
    let capture = match args.input.capture() {
        Ok(capture) => capture,
        Err(status) => return status,
    };
    let exchange = capture.exchange();
    let mut trace = Trace::new(exchange.start_ns());
    if args.lint {
        trace = trace.with_rules();
    }
    if args.no_times {
        trace = trace.without_times();
    }
    // What peers sent may be in it.
    output::print(&printable(&trace.exchange(exchange)))
}

/// Prints what the rules find.
pub fn lint(args: &LintArgs) -> ExitCode {
    let capture = match args.input.capture() {
        Ok(capture) => capture,
        Err(status) => return status,
    };
    let exchange = capture.exchange();
    let findings = Judge::exchange(exchange);
    let text = if args.json { as_json(exchange, &findings) } else { as_text(exchange, &findings) };
    output::print(&text);
    if findings.is_empty() { ExitStatus::Success.into() } else { ExitStatus::Failed.into() }
}

fn pdus(exchange: &Exchange) -> usize {
    exchange.events().iter().filter(|(_, e)| matches!(e.kind, EventKind::Pdu(_))).count()
}

fn as_text(exchange: &Exchange, findings: &[Finding]) -> String {
    let mut out = String::new();
    for f in findings {
        let us = f.at_ns.saturating_sub(exchange.start_ns()) / 1000;
        let ends = exchange.connections.get(f.conn).map(|c| format!("{} -> {}", c.client, c.server)).unwrap_or_default();
        let _ = writeln!(out, "{}.{:03} #{} {ends}: {f}", us / 1000, us % 1000, f.conn);
    }
    let shall = findings.iter().filter(|f| f.level == Level::Shall).count();
    let (pdus, connections) = (pdus(exchange), exchange.connections.len());
    let _ = writeln!(out, "{pdus} PDUs on {connections} connections: {} findings, {shall} of them shall", findings.len());
    printable(&out)
}

fn as_json(exchange: &Exchange, findings: &[Finding]) -> String {
    let findings: Vec<_> = findings
        .iter()
        .map(|f| {
            let connection = exchange.connections.get(f.conn);
            let event = connection.and_then(|c| c.events.get(f.event));
            let bytes = event.and_then(|e| match &e.kind {
                EventKind::Pdu(bytes) => Some(bytes.iter().take(128).map(|b| format!("{b:02x}")).collect::<String>()),
                _ => None,
            });
            json!({
                "requirement": f.requirement.id,
                "level": f.level.to_string(),
                "side": f.side.to_string(),
                "connection": f.conn,
                "host": connection.map(|c| c.client.to_string()),
                "controller": connection.map(|c| c.server.to_string()),
                "at_ns": f.at_ns,
                "pdu": bytes,
                "seen": f.seen,
                "expected": f.expected,
            })
        })
        .collect();
    let all = json!({ "connections": exchange.connections.len(), "pdus": pdus(exchange), "findings": findings });
    format!("{all:#}\n")
}
