//! `--judge`: the bystander rules on the traffic of a command, each requirement told once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

use bytes::Bytes;
use nvmf_capture::{Direction, Event, Finding, Judge, Recorder};
use nvmf_conformance::report::printable;
use nvmf_spec::{Level, Side};
use serde_json::{Value as Json, json};

/// Watches connections as they go by. It keeps nothing of them but what the rules need, so it can watch for ever.
#[derive(Debug, Default)]
pub struct Bystander {
    judge: Judge,
    open: BTreeMap<usize, Recorder>,
    connections: usize,
    pdus: u64,
    seen: BTreeMap<(&'static str, Side), Seen>,
}

/// The first breach of a requirement by a side, and how many there were.
#[derive(Debug)]
struct Seen {
    order: usize,
    first: Finding,
    count: u64,
}

impl Bystander {
    /// A connection was opened; gives the number by which it is named.
    pub fn opened(&mut self, host: SocketAddr, controller: SocketAddr, at_ns: u64) -> usize {
        let conn = self.connections;
        self.connections += 1;
        self.open.insert(conn, Recorder::new(host, controller, at_ns));
        conn
    }

    /// Bytes went by. Gives a line for each requirement that was broken for the first time.
    pub fn bytes(&mut self, conn: usize, dir: Direction, at_ns: u64, bytes: Bytes) -> Vec<String> {
        let Some(recorder) = self.open.get_mut(&conn) else { return Vec::new() };
        let events = recorder.push(dir, at_ns, bytes).to_vec();
        recorder.forget();
        self.judge(conn, &events)
    }

    /// A connection ended.
    pub fn closed(&mut self, conn: usize, by: Direction, at_ns: u64, reset: bool) -> Vec<String> {
        let Some(mut recorder) = self.open.remove(&conn) else { return Vec::new() };
        let events = recorder.close(by, at_ns, reset).to_vec();
        let lines = self.judge(conn, &events);
        self.judge.forget(conn);
        lines
    }

    /// RoCEv2 packets went by: all that there are, with their times in nanoseconds, of connections to `port` or to NVMe's own. Gives
    /// lines as [`Self::bytes`] does.
    pub fn packets(&mut self, packets: &[(u64, Bytes)], port: u16) -> Vec<String> {
        let connections = nvmf_capture::live::roce(packets, port);
        let mut lines = Vec::new();
        for connection in connections {
            let conn = self.connections;
            self.connections += 1;
            lines.extend(self.judge(conn, &connection.events));
            self.judge.forget(conn);
        }
        lines
    }

    fn judge(&mut self, conn: usize, events: &[Event]) -> Vec<String> {
        let mut lines = Vec::new();
        for event in events {
            self.pdus += u64::from(matches!(event.kind, nvmf_capture::EventKind::Pdu(_)));
            for finding in self.judge.event(conn, event) {
                let order = self.seen.len();
                let key = (finding.requirement.id, finding.side);
                let seen = self.seen.entry(key).or_insert_with(|| {
                    lines.push(line(&finding));
                    Seen { order, first: finding, count: 0 }
                });
                seen.count += 1;
            }
        }
        lines
    }

    fn in_order(&self) -> Vec<&Seen> {
        let mut all: Vec<&Seen> = self.seen.values().collect();
        all.sort_by_key(|s| s.order);
        all
    }

    /// Whether `side` broke a requirement of at least this level, where *shall* is the highest.
    pub fn broke(&self, side: Side, level: Level) -> bool {
        self.seen.values().any(|s| s.first.side == side && (level != Level::Shall || s.first.level == Level::Shall))
    }

    /// The findings, one line each, where they were not told as they came.
    pub fn findings(&self) -> String {
        self.in_order().iter().map(|s| format!("{}\n", line(&s.first))).collect()
    }

    /// One line: what was watched, and what was found on each side. `ours` is the side that this program plays.
    pub fn summary(&self, ours: Side) -> String {
        let mut text = format!("judged {} on {}: ", count(self.pdus, "PDU"), count(self.connections as u64, "connection"));
        for (n, (side, whose)) in [(ours.other(), "the other side"), (ours, "ours")].into_iter().enumerate() {
            let mine: Vec<&Seen> = self.seen.values().filter(|s| s.first.side == side).collect();
            let shall = mine.iter().filter(|s| s.first.level == Level::Shall).count();
            let breaches: u64 = mine.iter().map(|s| s.count).sum();
            let separator = if n == 0 { "" } else { "; " };
            let _ = match mine.len() as u64 {
                0 => write!(text, "{separator}no finding on the {side} ({whose})"),
                n => write!(
                    text,
                    "{separator}{} on the {side} ({whose}), {shall} of them shall, {}",
                    count(n, "finding"),
                    if breaches == 1 { "seen once".to_owned() } else { format!("seen {breaches} times") }
                ),
            };
        }
        text
    }

    /// The same for programs.
    pub fn json(&self) -> Json {
        let findings: Vec<Json> = self
            .in_order()
            .iter()
            .map(|s| {
                let f = &s.first;
                json!({
                    "requirement": f.requirement.id,
                    "level": f.level.to_string(),
                    "side": f.side.to_string(),
                    "connection": f.conn,
                    "seen": f.seen,
                    "expected": f.expected,
                    "count": s.count,
                })
            })
            .collect();
        json!({ "connections": self.connections, "pdus": self.pdus, "findings": findings })
    }
}

/// What was seen comes from the peer.
fn line(finding: &Finding) -> String {
    printable(&format!("finding: {finding}"))
}

fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ic_req(reserved: u8) -> Bytes {
        let mut bytes = vec![0; 128];
        (bytes[2], bytes[4], bytes[127]) = (128, 128, reserved);
        bytes.into()
    }

    #[test]
    fn a_requirement_is_told_once_and_counted() {
        let at = "127.0.0.1:4420".parse().unwrap();
        let mut bystander = Bystander::default();
        let first = bystander.opened(at, at, 0);
        let second = bystander.opened(at, at, 0);
        assert!(bystander.bytes(first, Direction::HostToController, 1, ic_req(0).slice(..60)).is_empty());
        let lines = bystander.bytes(first, Direction::HostToController, 2, ic_req(7).slice(60..));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(bystander.bytes(second, Direction::HostToController, 3, ic_req(7)).is_empty());
        assert!(bystander.closed(second, Direction::HostToController, 4, false).is_empty());
        assert!(bystander.broke(Side::Host, Level::May) && !bystander.broke(Side::Controller, Level::May));
        let json = bystander.json();
        assert_eq!((&json["findings"][0]["count"], &json["pdus"]), (&2.into(), &2.into()), "{json}");
        let summary = bystander.summary(Side::Host);
        assert!(summary.contains("no finding on the controller (the other side); 1 finding on the host (ours)"), "{summary}");
        assert!(summary.ends_with("seen 2 times"), "{summary}");
    }
}
