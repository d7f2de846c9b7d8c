//! The runs of one call, one a subsystem, told: on the console, as JSON, JUnit XML, TAP, Markdown and HTML, and as one trace and one
//! pcapng a check.
//!
//! Each format is a module with one function that takes a [`Report`]; none of them judges: what a result counts as was
//! decided in [`crate::summary`]. Two runs that went alike give the same text in every format, but for what lies in [`Wall`].
//! Read [`Report`] first.

pub mod baseline;
pub mod console;
pub mod files;
pub mod html;
pub mod json;
pub mod junit;
pub mod ladder;
pub mod markdown;
pub mod tap;
pub mod trace;

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use nvmf_spec::Requirement;

use crate::expect::{Entry, Expectations};
use crate::summary::{Standing, Summary};
use crate::verdict::{CheckResult, Class, Observation, Run, Verdict};

/// All that a report tells.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// One run for each subsystem tested, of the same target.
    pub runs: &'a [Run],
    /// Several subsystems were asked for, so each result names its own.
    pub by_subsystem: bool,
    /// How it was counted.
    pub summary: &'a Summary,
    /// What was expected.
    pub expectations: Option<&'a Expectations>,
    /// When it ran by the clock on the wall.
    pub wall: Wall,
}

/// When a run took place. The only part of a report that a seed does not determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wall {
    /// When it began.
    pub started: SystemTime,
    /// How long it took.
    pub took: Duration,
}

impl Wall {
    /// When it began, as RFC 3339 has it, UTC, whole seconds.
    #[must_use]
    pub fn started_text(&self) -> String {
        let since = self.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        rfc3339(since.as_secs())
    }
}

impl<'a> Report<'a> {
    /// Each result with its standing and what was expected of it.
    pub fn judged(&self) -> impl Iterator<Item = Judged<'a>> {
        let Report { runs, by_subsystem, expectations, .. } = *self;
        let results = runs.iter().flat_map(|run| run.results.iter().map(move |result| (run, result)));
        results.zip(&self.summary.standings).map(move |((run, result), standing)| Judged {
            result,
            subsystem: by_subsystem.then_some(run.subsystem.as_str()),
            standing: *standing,
            entry: expectations.and_then(|e| e.of(&result.id)),
        })
    }

    /// What all runs share, from the first of them: target, world and seed.
    fn first(&self) -> Shared<'a> {
        let run = self.runs.first();
        Shared {
            target: run.map_or("", |run| run.target.as_str()),
            world: run.map_or("", |run| run.world.as_str()),
            seed: run.map_or(0, |run| run.seed),
        }
    }

    /// Those of one standing.
    fn with(&self, standing: Standing) -> Vec<Judged<'a>> {
        self.judged().filter(|judged| judged.standing == standing).collect()
    }

    /// The failures that count.
    fn failures(&self) -> Vec<Judged<'a>> {
        self.judged().filter(|judged| judged.standing.is_failure()).collect()
    }

    /// Whom the expectations are about, for a sentence: `tests/expect/linux-6.12.toml (Linux nvmet 6.12)`.
    fn expectations_named(&self) -> Option<String> {
        let expectations = self.expectations?;
        let about = [expectations.stack.as_deref(), expectations.version.as_deref()];
        let about: Vec<&str> = about.into_iter().flatten().collect();
        if about.is_empty() {
            return Some(expectations.file.clone());
        }
        Some(format!("{} ({})", expectations.file, about.join(" ")))
    }
}

/// What the runs of one call have in common.
struct Shared<'a> {
    target: &'a str,
    world: &'a str,
    seed: u64,
}

/// A result, with what it counts as and what was expected of it.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// The result.
    pub result: &'a CheckResult,
    /// NQN of the subsystem, where there may be several.
    pub subsystem: Option<&'a str>,
    /// What it counts as.
    pub standing: Standing,
    /// What the expectation file says of it.
    pub entry: Option<&'a Entry>,
}

impl<'a> Judged<'a> {
    /// The first line of the message, or what was seen where there is none.
    fn headline(&self) -> &'a str {
        let first = self.result.message.lines().find(|line| !line.trim().is_empty());
        first.map_or_else(|| observation_word(self.result.observation), str::trim)
    }

    /// The id, with the subsystem where there may be several.
    fn name(&self) -> String {
        match self.subsystem {
            Some(nqn) => format!("{} [{nqn}]", self.result.id),
            None => self.result.id.clone(),
        }
    }

    /// Why the expectation stands; empty where there is none.
    fn reason(&self) -> &'a str {
        self.entry.map_or("", |entry| entry.reason.as_str())
    }
}

/// The requirement that a check cites, if the catalogue has it.
fn cited(id: &str) -> Option<&'static Requirement> {
    nvmf_spec::requirement(id)
}

/// As in expectation files: `fail-lenient`.
#[must_use]
pub fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::FailLenient => "fail-lenient",
        Verdict::Warn => "warn",
        Verdict::Blocked => "blocked",
        Verdict::Skip => "skip",
        Verdict::Error => "error",
    }
}

/// As in expectation files: `silent-close`.
#[must_use]
pub fn observation_word(observation: Observation) -> &'static str {
    match observation {
        Observation::AsExpected => "as-expected",
        Observation::Timeout => "timeout",
        Observation::WrongAnswer => "wrong-answer",
        Observation::SilentClose => "silent-close",
        Observation::Reset => "reset",
        Observation::Unexpected => "unexpected",
        Observation::WrongData => "wrong-data",
        Observation::PeerDied => "peer-died",
        Observation::NotRun => "not-run",
    }
}

/// As on the command line: `disruptive`.
#[must_use]
pub fn class_word(class: Class) -> &'static str {
    match class {
        Class::Safe => "safe",
        Class::Writes => "writes",
        Class::Disruptive => "disruptive",
        Class::Destructive => "destructive",
    }
}

/// Text with every control character but the newline and the tab shown as an escape: what a peer sent must not drive a
/// terminal, and XML 1.0 cannot hold it at all. So are those that turn the direction of writing: a line then reads as it is.
#[must_use]
pub fn printable(text: &str) -> String {
    as_printable(text).into_owned()
}

/// The same; what is fit already is not copied.
#[must_use]
pub fn as_printable(text: &str) -> Cow<'_, str> {
    // Nearly every text is of this kind, and traces are long.
    if text.bytes().fold(true, |fit, b| fit & (b'~' >= b) & ((b >= b' ') | (b == b'\n') | (b == b'\t'))) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if (c.is_control() && c != '\n' && c != '\t') || is_odd(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Whether a character that is no control character to Unicode changes what a reader sees of others, or is none at all.
fn is_odd(c: char) -> bool {
    matches!(c, '\u{fffe}' | '\u{ffff}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Seconds since 1970 as `2026-01-31T23:59:59Z`. Days are counted in eras of 400 years that begin on the first of March,
/// so that the leap day is the last of its year.
fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let at = |seconds| rfc3339(seconds);
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(951_868_799), "2000-02-29T23:59:59Z");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn what_a_peer_sent_cannot_drive_a_terminal() {
        assert_eq!(printable("MN \u{1b}[2J\0ok\n\tü"), "MN \\u{1b}[2J\\u{0}ok\n\tü");
        assert_eq!(printable("\u{ffff}\u{9b}"), "\\u{ffff}\\u{9b}");
        assert_eq!(printable("a\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn words_are_those_of_the_files() {
        let verdicts =
            [Verdict::Pass, Verdict::Fail, Verdict::FailLenient, Verdict::Warn, Verdict::Blocked, Verdict::Skip, Verdict::Error];
        for verdict in verdicts {
            assert_eq!(serde_json::to_value(verdict).expect("a word"), verdict_word(verdict));
        }
        for class in [Class::Safe, Class::Writes, Class::Disruptive, Class::Destructive] {
            assert_eq!(serde_json::to_value(class).expect("a word"), class_word(class));
        }
        let observations = [
            Observation::AsExpected,
            Observation::Timeout,
            Observation::WrongAnswer,
            Observation::SilentClose,
            Observation::Reset,
            Observation::Unexpected,
            Observation::WrongData,
            Observation::PeerDied,
            Observation::NotRun,
        ];
        for observation in observations {
            assert_eq!(serde_json::to_value(observation).expect("a word"), observation_word(observation));
        }
    }
}
