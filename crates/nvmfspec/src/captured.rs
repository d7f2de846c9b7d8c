//! `nvmfspec trace`: what a capture file holds.

use std::io::{BufWriter, IsTerminal as _, StdoutLock, Write};
use std::process::ExitCode;

use nvmf_capture::fields::{Dissector, Filter, Json, Select, Tree};
use nvmf_capture::{Ends, Event, EventKind, Trace, Transport, Watcher};
use nvmf_conformance::ExitStatus;
use nvmf_conformance::report::as_printable;

use crate::input::Input;
use crate::output;

const TRACE: &str = "\
Examples:
  nvmfspec trace run.pcapng                 one line a PDU
  nvmfspec trace -V run.pcapng              every field of it
  nvmfspec trace --fields frame.number,nvme.cmd.opc,nvme.cmd.slba run.pcapng
  nvmfspec trace --json --filter 'nvme.cqe.status.sc != 0' run.pcapng | jq .
  nvmfspec trace --lint run.pcap.gz         with a line for each breach, below the PDU that shows it
  nvmfspec trace --keys tls.log run.pcap    NVMe/TCP below TLS 1.3, with the secrets that SSLKEYLOGFILE named a file for
  tcpdump -w - -U port 4420 | nvmfspec trace --follow -

A line: frame, seconds since the first event, from whom to whom, protocol, bytes, the connection, `>` from the host or `<` from the
controller, the PDU, its fields, and what it means. NVMe/TCP is told by what it carries, on any port, and
below TLS by a PSK identity too; NVMe/RDMA by its CM messages or
its capsules: a line for each message, and for each packet sent again, refused or broken.

Fields have the names and values that tshark gives them; --json has tshark's layout. A filter compares them as Wireshark's display
filters do: == != < <= > >= contains, in {1, 3..5}, and or not, parentheses, or the name alone for `has it`. It is asked of each PDU,
not of each frame.

Exit status: 0 done; 2 usage; 3 the file could not be read.";

/// A capture to print.
#[derive(clap::Args)]
#[command(after_help = TRACE)]
pub struct TraceArgs {
    #[command(flatten)]
    input: Input,
    /// Every field, as a tree
    #[arg(short = 'V', long, conflicts_with_all = ["fields", "json"])]
    verbose: bool,
    /// These fields, with tabs between
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "json")]
    fields: Vec<String>,
    /// Every field, as `tshark -T json` lays them out
    #[arg(long)]
    json: bool,
    /// Only PDUs for which this display filter is true
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,
    /// Run the bystander rules too
    #[arg(long, conflicts_with_all = ["verbose", "fields", "json", "filter"])]
    lint: bool,
    /// Leave frames, times and addresses out, so that two captures can be compared
    #[arg(long, conflicts_with_all = ["verbose", "fields", "json"])]
    no_times: bool,
    /// Print each PDU as it comes
    #[arg(long)]
    follow: bool,
    /// Colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: When,
}

/// When there are colours.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum When {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Prints a capture.
pub fn trace(args: &TraceArgs) -> ExitCode {
    let filter = match args.filter.as_deref().map(Filter::parse).transpose() {
        Ok(filter) => filter,
        Err(e) => return output::refuse(ExitStatus::Usage, &format!("--filter: {e}")),
    };
    let colours = match args.color {
        When::Always => true,
        When::Never => false,
        When::Auto => std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
    };
    let form = if args.json {
        Form::Json(Json::new())
    } else if !args.fields.is_empty() {
        Form::Fields(Select::new(args.fields.iter().cloned()))
    } else if args.verbose {
        Form::Tree(Tree::new(colours))
    } else {
        let trace = Trace::new(0).without_times();
        Form::Lines(Box::new(Lines {
            trace: if args.lint { trace.with_rules() } else { trace },
            bare: args.no_times,
            colours,
            ..Lines::default()
        }))
    };
    let out = BufWriter::with_capacity(1 << 18, std::io::stdout().lock());
    let mut printer = Printer { out, failed: false, follow: args.follow, filter, dissector: Dissector::new(), form };
    let read = args.input.follow(&mut printer);
    printer.finish();
    read.map_or_else(|status| status, |_| ExitStatus::Success.into())
}

/// How events are printed.
enum Form {
    Lines(Box<Lines>),
    Tree(Tree),
    Fields(Select),
    Json(Json),
}

/// Prints events as they go by.
struct Printer<'a> {
    out: BufWriter<StdoutLock<'a>>,
    /// Nobody reads any more: as with any program in a pipeline, that is no error.
    failed: bool,
    follow: bool,
    filter: Option<Filter>,
    dissector: Dissector,
    form: Form,
}

impl Printer<'_> {
    fn write(&mut self, write: impl FnOnce(&mut BufWriter<StdoutLock<'_>>, &mut Form) -> std::io::Result<()>) {
        if !self.failed {
            let done = write(&mut self.out, &mut self.form);
            let flushed = if self.follow { self.out.flush() } else { Ok(()) };
            self.failed = done.and(flushed).is_err();
        }
    }

    fn finish(&mut self) {
        self.write(|out, form| match form {
            Form::Json(json) => {
                json.finish();
                json.take(out)
            }
            _ => Ok(()),
        });
        self.write(|out, _| out.flush());
    }
}

impl Watcher for Printer<'_> {
    fn opened(&mut self, conn: usize, ends: &Ends) {
        self.dissector.opened(conn, ends);
        self.write(|out, form| match form {
            Form::Lines(lines) => lines.opened(conn, ends, out),
            _ => Ok(()),
        });
    }

    fn event(&mut self, conn: usize, event: &Event) {
        if self.failed {
            return;
        }
        let fields = self.filter.is_some() || !matches!(self.form, Form::Lines(_));
        let mut shown = !fields;
        if fields {
            let (filter, form) = (&mut self.filter, &mut self.form);
            self.dissector.event(conn, event, |view| {
                if filter.as_mut().is_none_or(|f| f.matches(view)) {
                    shown = true;
                    match form {
                        Form::Lines(_) => {}
                        Form::Tree(tree) => view.show(tree),
                        Form::Fields(select) => view.show(select),
                        Form::Json(json) => view.show(json),
                    }
                }
            });
        }
        self.write(|out, form| match form {
            Form::Lines(lines) => lines.event(conn, event, shown, out),
            Form::Tree(tree) => tree.take(out),
            Form::Fields(select) => select.take(out),
            Form::Json(json) => json.take(out),
        });
    }

    fn over(&mut self, conn: usize) {
        self.dissector.over(conn);
        if let Form::Lines(lines) = &mut self.form {
            lines.ends.remove(&conn);
            lines.trace.forget(conn);
        }
    }
}

/// A line for each event.
#[derive(Default)]
struct Lines {
    trace: Trace,
    /// That of one event, and the columns before it, kept for their memory.
    text: String,
    line: String,
    ends: std::collections::BTreeMap<usize, (Ends, [String; 2])>,
    start_ns: Option<u64>,
    /// Without frames, times and addresses.
    bare: bool,
    colours: bool,
}

impl Lines {
    fn opened(&mut self, conn: usize, ends: &Ends, out: &mut impl Write) -> std::io::Result<()> {
        self.ends.insert(conn, (*ends, [ends.client.ip().to_string(), ends.server.ip().to_string()]));
        match self.bare {
            true => Ok(()),
            false => writeln!(out, "#{conn} {} -> {}", ends.client, ends.server),
        }
    }

    fn event(&mut self, conn: usize, event: &Event, shown: bool, out: &mut impl Write) -> std::io::Result<()> {
        let start = *self.start_ns.get_or_insert(event.at_ns);
        self.text.clear();
        self.trace.write_event(conn, event, &mut self.text);
        if self.text.is_empty() || !shown {
            return Ok(());
        }
        // What peers sent may be in it.
        let text = as_printable(&self.text);
        let colour = if self.colours { colour(event, &text) } else { "" };
        out.write_all(colour.as_bytes())?;
        if let Some((ends, [client, server])) = self.ends.get(&conn).filter(|_| !self.bare) {
            let (from, to) = match event.dir {
                nvmf_capture::Direction::HostToController => (client, server),
                nvmf_capture::Direction::ControllerToHost => (server, client),
            };
            let protocol = match ends.transport {
                Transport::Tcp => "NVMe/TCP",
                Transport::Rdma => "NVMe/RDMA",
            };
            let us = event.at_ns.saturating_sub(start) / 1000;
            let len = match &event.kind {
                EventKind::Pdu(bytes) => bytes.len(),
                EventKind::Packet(packet) => packet.bytes.len(),
                _ => 0,
            };
            let line = &mut self.line;
            line.clear();
            right(line, event.frame, 6, ' ');
            line.push(' ');
            right(line, us / 1_000_000, 5, ' ');
            line.push('.');
            right(line, us % 1_000_000, 6, '0');
            for part in [" ", from, " → ", to, " ", protocol, " "] {
                line.push_str(part);
            }
            right(line, len as u64, 6, ' ');
            line.push(' ');
            out.write_all(line.as_bytes())?;
        }
        match colour {
            "" => out.write_all(text.as_bytes()),
            _ => {
                out.write_all(text.trim_end_matches('\n').as_bytes())?;
                out.write_all(b"\x1b[0m\n")
            }
        }
    }
}

/// A number at the right of `width` places; formatting macros take half of a line's time.
fn right(out: &mut String, mut n: u64, width: usize, fill: char) {
    let mut digits = [0u8; 20];
    let mut count = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (n % 10) as u8;
        n /= 10;
        count += 1;
        if n == 0 {
            break;
        }
    }
    out.extend(std::iter::repeat_n(fill, width.saturating_sub(count)));
    out.extend(digits.iter().skip(20 - count).map(|d| char::from(*d)));
}

/// The colour of a line: commands, answers, data, and what is wrong.
fn colour(event: &Event, text: &str) -> &'static str {
    match &event.kind {
        EventKind::Pdu(_) if text.contains(" malformed") || text.contains("BAD") || text.contains("TermReq") => "\x1b[31m",
        EventKind::Pdu(bytes) => match bytes.first() {
            Some(4) => "\x1b[36m",
            Some(5) => "\x1b[32m",
            Some(6 | 7 | 9) => "\x1b[2m",
            _ => "\x1b[35m",
        },
        EventKind::Closed { .. } | EventKind::Tls(_) => "\x1b[33m",
        EventKind::Undecodable { .. } | EventKind::Gap { .. } => "\x1b[31m",
        _ => "\x1b[34m",
    }
}
