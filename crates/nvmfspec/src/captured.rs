//! `nvmfspec trace`: what a capture file holds.

use std::process::ExitCode;

use nvmf_capture::Trace;
use nvmf_conformance::report::printable;

use crate::input::Input;
use crate::output;

const TRACE: &str = "\
Examples:
  nvmfspec trace run.pcapng                 one line a PDU
  nvmfspec trace --lint run.pcap.gz         with a line for each breach, below the PDU that shows it
  nvmfspec trace --keys tls.log run.pcap    NVMe/TCP below TLS 1.3, with the secrets that SSLKEYLOGFILE named a file for
  tcpdump -r run.pcap -w - | nvmfspec trace -

A line: milliseconds since the first event, the connection, `>` from the host or `<` from the controller, the PDU, its fields, and what
it means. NVMe/TCP is told by its ICReq, on any port; a connection that was there before the capture, by port 4420 or 8009;
below TLS by a PSK identity too. NVMe/RDMA is told by its CM messages, or by its capsules: a line for each message, and for each packet sent again, refused or broken.

Exit status: 0 done; 2 usage; 3 the file could not be read.";

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
