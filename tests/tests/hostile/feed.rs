//! A capture through everything that watches captures.

use nvmf_capture::ladder::Choice;
use nvmf_capture::lint::{Cause, Lint, Sieve};
use nvmf_capture::{CaptureError, Direction, Ends, Event, EventKind, Follow, Judge, Ladder, Stats, Trace, Watcher};

use crate::counting;

/// Most bytes that reading and all watchers together may hold, whatever the capture.
pub const MOST: i64 = 128 << 20;

/// What came of a capture.
#[derive(Debug, Default)]
pub struct Fed {
    /// Trace lines of all events.
    pub lines: Vec<String>,
    /// What was odd about the file.
    pub notes: Vec<String>,
    /// PDUs.
    pub pdus: usize,
    /// Frames that were read.
    pub frames: u64,
    /// Why it could not be read at all.
    pub error: Option<String>,
    /// Most bytes held at a time.
    pub held: i64,
}

/// Reads `bytes`, prints, judges, counts and draws it. Panics where any of these does, and where more is held than there may be.
pub fn feed(bytes: &[u8]) -> Fed {
    feed_from(bytes, true, true)
}

/// The same without the pictures, which take the most time.
pub fn feed_fast(bytes: &[u8]) -> Fed {
    feed_from(bytes, true, false)
}

/// The same from any reader; `keep` collects the lines, `draw` makes the pictures.
pub fn feed_from(reader: impl std::io::Read, keep: bool, draw: bool) -> Fed {
    let (mut fed, held) = counting::most_held(|| run(reader, keep, draw));
    let kept: usize = fed.lines.iter().map(String::capacity).sum::<usize>() * 2 + fed.lines.capacity() * size_of::<String>() * 2;
    fed.held = held;
    assert!(held - (kept as i64) < MOST, "{held} bytes held");
    fed
}

fn run(reader: impl std::io::Read, keep: bool, draw: bool) -> Fed {
    let lint = |_: &Ends, cause: &Cause, _: u64| assert!(!cause.finding.to_string().is_empty());
    let mut all = All {
        keep,
        fed: Fed::default(),
        trace: Trace::new(0),
        lint: Lint::new(Judge::new(), Sieve::default(), lint),
        stats: Stats::new(),
        ladder: Ladder::new(Choice::default()),
    };
    let read = Follow::new().read(reader, &mut all);
    let All { mut fed, stats, ladder, .. } = all;
    match read {
        Ok(followed) if !draw => fed.frames = followed.frames,
        Ok(followed) => {
            fed.frames = followed.frames;
            let report = stats.finish(followed);
            assert!(!report.table().is_empty());
            assert!(serde_json::to_string(&report).is_ok());
            assert!(report.plot().is_ok_and(|svg| svg.ends_with("</svg>\n")));
        }
        Err(e) => {
            let (CaptureError::Io(_) | CaptureError::Format(_) | CaptureError::Link(_)) = &e;
            fed.error = Some(e.to_string());
        }
    }
    if !draw {
        return fed;
    }
    let picture = ladder.finish();
    assert!(picture.svg("hostile").ends_with("</svg>\n") && picture.text().len() < 1 << 20);
    fed
}

struct All<F> {
    keep: bool,
    fed: Fed,
    trace: Trace,
    lint: Lint<F>,
    stats: Stats,
    ladder: Ladder,
}

impl<F: FnMut(&Ends, &Cause, u64)> Watcher for All<F> {
    fn opened(&mut self, conn: usize, ends: &Ends) {
        self.lint.opened(conn, ends);
        self.stats.opened(conn, ends);
        self.ladder.opened(conn, ends);
    }

    fn event(&mut self, conn: usize, event: &Event) {
        self.fed.pdus += usize::from(matches!(event.kind, EventKind::Pdu(_)));
        let line = self.trace.event(conn, event);
        if self.keep {
            self.fed.lines.push(line);
        }
        self.lint.event(conn, event);
        self.stats.event(conn, event);
        self.ladder.event(conn, event);
    }

    fn repeated(&mut self, conn: usize, dir: Direction, at_ns: u64, len: usize) {
        self.stats.repeated(conn, dir, at_ns, len);
    }

    fn over(&mut self, conn: usize) {
        self.lint.over(conn);
        self.stats.over(conn);
        self.ladder.over(conn);
    }

    fn note(&mut self, note: &str) {
        self.fed.notes.push(note.to_owned());
        self.stats.note(note);
    }
}
