//! The figures as text, for people.

use std::fmt::Write as _;

use super::latency::Latencies;
use super::report::{CommandReport, ControllerReport, QueueReport, Report, TrafficReport, queue_name};

const HEAD: [&str; 13] =
    ["queue", "command", "sent", "errors", "to contr.", "to host", "min", "mean", "p50", "p90", "p99", "p99.9", "max"];

impl Report {
    /// The figures as text: a table for each controller, then one for all where there are several.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::new();
        let _ = write!(
            out,
            "{}, {} in {}: ",
            time(self.duration_ns),
            count(self.connections, "connection"),
            count(self.frames, "frame")
        );
        let _ = writeln!(out, "{}", traffic(&self.traffic));
        for (i, c) in self.controllers.iter().enumerate() {
            controller(&mut out, i + 1, c);
        }
        if self.controllers.len() > 1 || self.unlisted_connections > 0 {
            out.push_str("\nAll controllers\n");
            if self.unlisted_connections > 0 {
                let _ = writeln!(out, "  with {} connections of controllers that are not listed", self.unlisted_connections);
            }
            let rows: Vec<_> = self.totals.iter().map(|c| row("all", c)).collect();
            table(&mut out, &rows);
        }
        if !self.totals.is_empty() {
            out.push_str(
                "\nTimes are from the command capsule to its response, where the capture was made. A KiB is 1024 bytes.\n",
            );
        }
        out
    }
}

fn controller(out: &mut String, number: usize, c: &ControllerReport) {
    let _ = write!(out, "\nController {number}: {} {}", c.transport.to_uppercase(), c.address);
    let _ = match c.cntlid {
        Some(id) => write!(out, ", CNTLID {id}"),
        None => write!(out, ", no Connect that succeeded"),
    };
    out.push('\n');
    for (what, name) in [("subsystem", &c.subnqn), ("host", &c.hostnqn)] {
        if let Some(name) = name {
            let _ = writeln!(out, "  {what} {name}");
        }
    }
    for q in &c.queues {
        let _ = writeln!(out, "  {}", queue(q));
    }
    let rows = c.queues.iter().flat_map(|q| q.commands.iter().map(|c| row(&short(q.qid), c)));
    table(out, &rows.collect::<Vec<_>>());
    for (q, c) in c.queues.iter().flat_map(|q| q.commands.iter().map(move |c| (q, c))) {
        for e in &c.errors_by_status {
            let _ = writeln!(out, "  {} {}: {} \u{d7} {}", short(q.qid), c.command, e.count, e.status);
        }
        if c.unanswered > 0 {
            let _ = writeln!(out, "  {} {}: {} not answered", short(q.qid), c.command, c.unanswered);
        }
    }
}

fn short(qid: Option<u16>) -> String {
    match qid {
        Some(0) => "Admin".to_owned(),
        Some(qid) => format!("I/O {qid}"),
        None => "?".to_owned(),
    }
}

fn queue(q: &QueueReport) -> String {
    let mut out = queue_name(q.qid);
    let named: Vec<String> = q.connection_numbers.iter().map(|n| format!("#{n}")).collect();
    let _ = write!(out, " ({}", named.join(", "));
    let more = q.connections.saturating_sub(named.len() as u64);
    if more > 0 {
        let _ = write!(out, " and {more} more");
    }
    if let Some(entries) = q.entries {
        let _ = write!(out, "; {entries} entries");
    }
    let _ = write!(out, "): depth at most {}, on average {:.3}; {}", q.depth.max, q.depth.mean, traffic(&q.traffic));
    out
}

fn traffic(t: &TrafficReport) -> String {
    let packets = t.packets_to_controller + t.packets_to_host;
    let mut out = if packets > 0 {
        format!("{} command and {} response capsules in {packets} packets", t.pdus_to_controller, t.pdus_to_host)
    } else {
        format!("{} PDUs to the controller, {} to the host", t.pdus_to_controller, t.pdus_to_host)
    };
    for (n, what) in [
        (t.retransmissions, "retransmission"),
        (t.bad_icrcs, "wrong ICRC"),
        (t.bad_header_digests, "wrong header digest"),
        (t.bad_data_digests, "wrong data digest"),
        (t.undecodable, "undecodable piece"),
        (t.gaps, "gap"),
    ] {
        if n > 0 {
            let _ = write!(out, ", {}", count(n, what));
        }
    }
    out
}

fn row(queue: &str, c: &CommandReport) -> [String; 13] {
    let t = |f: fn(&Latencies) -> u64| c.latency.as_ref().map_or_else(|| "-".to_owned(), |l| time(f(l)));
    [
        queue.to_owned(),
        c.command.clone(),
        c.count.to_string(),
        c.errors.to_string(),
        bytes(c.bytes_to_controller),
        bytes(c.bytes_to_host),
        t(|l| l.min_ns),
        t(|l| l.mean_ns),
        t(|l| l.p50_ns),
        t(|l| l.p90_ns),
        t(|l| l.p99_ns),
        t(|l| l.p999_ns),
        t(|l| l.max_ns),
    ]
}

/// Words to the left, numbers to the right, each column as wide as it has to be.
fn table(out: &mut String, rows: &[[String; 13]]) {
    if rows.is_empty() {
        return;
    }
    let head = HEAD.map(str::to_owned);
    let all = || std::iter::once(&head).chain(rows);
    let width = |i: usize| all().filter_map(|r| r.get(i)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    for r in all() {
        let mut line = String::from(" ");
        for (i, (cell, w)) in r.iter().zip(&widths).enumerate() {
            let _ = if i < 2 { write!(line, " {cell:<w$} ") } else { write!(line, " {cell:>w$} ") };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Three digits and a unit.
pub(crate) fn time(ns: u64) -> String {
    scaled(ns as f64, &[(1e3, "ns"), (1e6, "µs"), (1e9, "ms"), (f64::INFINITY, "s")], 1000.0)
}

/// Three digits and a unit.
fn bytes(n: u64) -> String {
    scaled(n as f64, &[(1024.0, "B"), (1_048_576.0, "KiB"), (1_073_741_824.0, "MiB"), (f64::INFINITY, "GiB")], 1024.0)
}

fn scaled(value: f64, units: &[(f64, &str)], step: f64) -> String {
    let mut scale = 1.0;
    for (below, unit) in units {
        let shown = value / scale;
        if value < *below {
            let digits = match shown {
                _ if scale == 1.0 => 0,
                s if s < 10.0 => 2,
                s if s < 100.0 => 1,
                _ => 0,
            };
            return format!("{shown:.digits$} {unit}");
        }
        scale *= step;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        let times = [0, 999, 1000, 12_345, 123_456, 1_500_000, 2_000_000_000, 100_000_000_000_000].map(time);
        assert_eq!(times, ["0 ns", "999 ns", "1.00 µs", "12.3 µs", "123 µs", "1.50 ms", "2.00 s", "100000 s"]);
        assert_eq!(
            [0, 1023, 1024, 65_536, 3 << 20, 5 << 30].map(bytes),
            ["0 B", "1023 B", "1.00 KiB", "64.0 KiB", "3.00 MiB", "5.00 GiB"]
        );
    }
}
