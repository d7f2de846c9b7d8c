//! What a comparison found, as data and as text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::MAX_KEPT;
use super::mask::Line;
use super::message::Message;
use super::side::Conn;

/// What two captures differ in.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In the order of A, and of B where A has nothing; at most [`MAX_KEPT`].
    pub differences: Vec<Difference>,
    /// Differences beyond those.
    pub more: u64,
    /// Pairs of connections that were compared.
    pub connections: u64,
    /// Pairs of commands that were compared.
    pub commands: u64,
    /// Pairs of messages that were compared: PDUs, data of commands, ends.
    pub messages: u64,
    /// The lines of the mask without which there would have been another difference.
    pub used: BTreeSet<Line>,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where, in A and in B.
    pub spots: [Option<Spot>; 2],
    /// The queue, as Connect names it.
    pub queue: Option<u16>,
    /// The command that it belongs to, as a trace calls it; empty where it belongs to none.
    pub command: String,
    /// How many commands were sent on the queue before that one, in A.
    pub number: Option<u64>,
    /// What differs.
    pub what: What,
}

/// A message in a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Connection, from 0.
    pub conn: usize,
    /// Frame, from 1; 0 where there is no capture file.
    pub frame: u64,
    /// When, nanoseconds since the capture's first connection was opened.
    pub at_ns: u64,
    /// What it is: `> CapsuleCmd`.
    pub message: String,
}

impl Spot {
    pub(super) fn of(conn: &Conn, m: &Message) -> Self {
        let message = format!("{} {}", m.dir.arrow(), m.name);
        Self { conn: conn.index, frame: m.frame, at_ns: m.at_ns.saturating_sub(conn.start_ns), message }
    }
}

/// What differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A field.
    Field {
        /// Message, command, structure and field: `CapsuleCmd.Read.slba`.
        path: String,
        /// What A has.
        expected: String,
        /// What B has.
        seen: String,
    },
    /// Something that A has and B has not.
    OnlyInA(String),
    /// Something that B has and A has not.
    OnlyInB(String),
    /// Something that both have, in another order.
    Moved(String),
}

impl What {
    pub(super) fn only(in_a: bool, what: String) -> Self {
        if in_a { Self::OnlyInA(what) } else { Self::OnlyInB(what) }
    }
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Field { path, expected, seen } => write!(f, "{path}: expected {expected}; seen {seen}"),
            Self::OnlyInA(what) => write!(f, "only in A: {what}"),
            Self::OnlyInB(what) => write!(f, "only in B: {what}"),
            Self::Moved(what) => write!(f, "in another order: {what}"),
        }
    }
}

impl Report {
    /// True where nothing differs.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.differences.is_empty()
    }

    pub(super) fn add(&mut self, difference: Difference) {
        if self.differences.len() < MAX_KEPT {
            self.differences.push(difference);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn sorted(mut self) -> Self {
        // each capture has a clock of its own: by A's, where it has one to go by
        let mut last = 0;
        let mut keyed: Vec<(u64, Difference)> = Vec::with_capacity(self.differences.len());
        for d in self.differences.drain(..) {
            if let Some(spot) = &d.spots[0] {
                last = spot.at_ns;
            }
            keyed.push((last, d));
        }
        keyed.sort_by_key(|(at, _)| *at);
        self.differences = keyed.into_iter().map(|(_, d)| d).collect();
        self
    }

    /// The first `limit` differences with the command that each belongs to, then a line that sums up.
    #[must_use]
    pub fn text(&self, limit: usize) -> String {
        let mut out = String::new();
        let mut heading = String::new();
        for d in self.differences.iter().take(limit) {
            let now = d.heading();
            if now != heading {
                let _ = writeln!(out, "{now}");
                heading = now;
            }
            let _ = writeln!(out, "  {}{}", d.place(), d.what);
        }
        let total = self.differences.len() as u64 + self.more;
        let hidden = total - self.differences.len().min(limit) as u64;
        if hidden > 0 {
            let _ = writeln!(out, "{hidden} more");
        }
        let compared =
            format!("{} messages of {} commands on {} connections compared", self.messages, self.commands, self.connections);
        let _ = match self.differences.first() {
            None => writeln!(out, "equal: {compared}"),
            Some(first) => {
                writeln!(out, "{total} difference{}, from {} on; {compared}", if total == 1 { "" } else { "s" }, first.since())
            }
        };
        out
    }
}

impl Difference {
    /// Queue and command.
    fn heading(&self) -> String {
        let queue = match self.queue {
            Some(0) => "Admin Queue".to_owned(),
            Some(q) => format!("I/O queue {q}"),
            None => "no queue".to_owned(),
        };
        match self.number {
            Some(n) => format!("{queue}, command {} {}", n + 1, self.command),
            None => queue,
        }
    }

    /// Frames, or times where there are none.
    fn place(&self) -> String {
        let one = |spot: &Option<Spot>| match spot {
            Some(s) if s.frame > 0 => format!("frame {}", s.frame),
            Some(s) => format!("{}.{:03} ms", s.at_ns / 1_000_000, s.at_ns / 1000 % 1000),
            None => "-".to_owned(),
        };
        let [a, b] = &self.spots;
        let message = a.as_ref().or(b.as_ref()).map_or("", |s| s.message.as_str());
        format!("[A {}, B {}] {message}  ", one(a), one(b))
    }

    fn since(&self) -> String {
        let frame = self.spots.iter().flatten().find(|s| s.frame > 0).map_or(String::new(), |s| format!(" (frame {})", s.frame));
        format!("{}{frame}", self.heading())
    }
}
