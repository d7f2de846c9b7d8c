//! The console: progress while the suite runs, each failure in full when it comes, and at the end what there is to know.
//!
//! On a terminal, a bar shows the check that runs and a line appears only for what did not pass. Anywhere else, and with
//! `NO_COLOR` set, every check is a plain line. The last line is always [`Summary::line`](crate::summary::Summary::line). All
//! text from peers and files goes through [`printable`].

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::{Judged, Report, cited, files, observation_word, printable, trace, verdict_word};
use crate::slips::SlipStanding;
use crate::summary::Standing;

/// Columns that long text is wrapped to.
const WIDTH: usize = 110;
/// Column where the text beside a label begins.
const LABEL: usize = 12;

/// Prints a run as it goes.
///
/// What cannot be written, because a pipe was closed, is dropped: the reports in files do not depend on it.
#[derive(Debug)]
pub struct Console<W> {
    out: W,
    fancy: bool,
    bar: Option<ProgressBar>,
    /// Checks under way, the one that was begun first in front.
    under_way: Vec<String>,
    traces: Option<PathBuf>,
    /// What the last story cited.
    cited: Vec<String>,
}

impl Console<io::Stdout> {
    /// On standard output, as its kind and the environment ask for. `traces` is the folder of `--out`.
    #[must_use]
    pub fn stdout(traces: Option<PathBuf>) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let fancy = !plain && io::stdout().is_terminal() && io::stderr().is_terminal();
        Self { out: io::stdout(), fancy, bar: None, under_way: Vec::new(), traces, cited: Vec::new() }
    }
}

impl<W: Write> Console<W> {
    /// Into a writer, without bar and colours.
    pub fn plain(out: W, traces: Option<PathBuf>) -> Self {
        Self { out, fancy: false, bar: None, under_way: Vec::new(), traces, cited: Vec::new() }
    }

    /// The run against this subsystem has this many checks ahead.
    pub fn plan(&mut self, total: usize, subsystem: &str) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        if self.fancy {
            let bar = ProgressBar::new(total as u64);
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {elapsed}  {wide_msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            self.bar = Some(bar);
        } else {
            self.line(&format!("{total} {} of {subsystem}", if total == 1 { "check" } else { "checks" }));
        }
    }

    /// This check runs now.
    pub fn started(&mut self, id: &str) {
        self.under_way.push(id.to_owned());
        self.tell_under_way();
    }

    /// A check has ended, not always in the order of the beginning: one line, and the whole story where it failed.
    pub fn finished(&mut self, judged: &Judged<'_>) {
        self.under_way.retain(|id| *id != judged.result.id);
        self.tell_under_way();
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
        let quiet = matches!(judged.standing, Standing::Passed | Standing::PassedLeniently | Standing::Skipped | Standing::Blocked);
        if self.fancy && quiet {
            return;
        }
        let mut text = format!("  {}", judged.name());
        match judged.standing {
            Standing::Passed | Standing::PassedLeniently => text.push_str(&format!("  {}", duration(judged.result.took))),
            Standing::Known | Standing::MayFail | Standing::Unexpected => text.push_str(&format!("  {}", judged.reason())),
            Standing::Failed | Standing::Killed | Standing::Errored => {}
            _ => text.push_str(&format!("  {}", judged.headline())),
        }
        let label = format!("{:7}", label(judged.standing));
        self.write(&self.painted(judged.standing, &label), &text);
        if judged.standing.is_failure() || matches!(judged.standing, Standing::Errored | Standing::Warned) {
            self.story(judged);
        }
    }

    fn tell_under_way(&self) {
        let (Some(bar), Some(first)) = (&self.bar, self.under_way.first()) else { return };
        let more = self.under_way.len() - 1;
        bar.set_message(if more > 0 { format!("{first} and {more} more") } else { first.clone() });
    }

    /// The peer is gone, and one of these checks seems to have done it.
    pub fn peer_lost(&mut self, by: &str) {
        self.line(&format!("the peer cannot be reached any more, since {by}; waiting for it"));
    }

    /// The peer answers again.
    pub fn peer_back(&mut self) {
        self.line("the peer is back");
    }

    /// Something that the reader should know now.
    pub fn remark(&mut self, text: &str) {
        self.line(text);
    }

    /// The end of the run: who was tested, what stands apart, and the counting line, after everything in `remarks`.
    pub fn end(&mut self, report: &Report<'_>, remarks: &[String]) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.line("");
        self.about(report);
        let story = |judged: &Judged<'_>| format!("{}: {}", observation_word(judged.result.observation), judged.headline());
        self.list("failed", &report.failures(), story);
        self.list("errors of the harness, not judged", &report.with(Standing::Errored), |judged| judged.headline().to_owned());
        let title = "expected to fail, and did not: take them out of the expectation file";
        self.list(title, &report.with(Standing::Unexpected), |judged| judged.reason().to_owned());
        self.grouped("blocked", &report.with(Standing::Blocked));
        self.grouped("skipped", &report.with(Standing::Skipped));
        self.slips(report);
        self.apart(report);
        for remark in remarks {
            self.line(remark);
        }
        for why in report.runs.iter().filter_map(|run| run.aborted.as_ref()) {
            self.line(&format!("the run is not whole: {why}"));
        }
        self.line(&report.summary.line());
        let _ = self.out.flush();
    }

    fn about(&mut self, report: &Report<'_>) {
        let first = report.first();
        self.labelled("target", first.target);
        if first.world == "sim" {
            self.labelled("world", &format!("sim, seed {}", first.seed));
        }
        for run in report.runs {
            self.labelled("subsystem", &run.subsystem);
            let peer: Vec<String> = run.peer.iter().map(|(name, value)| format!("{name} {value}")).collect();
            self.labelled("peer", &peer.join(", "));
        }
    }

    /// What the numbers of the last line leave out.
    fn apart(&mut self, report: &Report<'_>) {
        let counts = report.summary.counts;
        let file = report.expectations_named().unwrap_or_default();
        for (count, one, more) in [
            (counts.known, "known deviation", "known deviations"),
            (counts.may_fail, "failure that may be", "failures that may be"),
        ] {
            if count > 0 {
                let noun = if count == 1 { one } else { more };
                self.line(&format!("{count} {noun}, as {file} says: not counted as failed"));
            }
        }
        if counts.leniently > 0 {
            self.line(&format!("{} of those passed only because of --lenient", counts.leniently));
        }
        if counts.killed > 0 {
            self.line(&format!("{} of those failed killed the peer", counts.killed));
        }
        for (standing, what) in [
            (SlipStanding::Failed, "that nobody expected: the run fails by them, whatever the checks"),
            (SlipStanding::Known, "as the expectation file says"),
        ] {
            let count = report.summary.slips_of(standing);
            if count > 0 {
                self.line(&format!("{count} {} of the bystander rules {what}", if count == 1 { "finding" } else { "findings" }));
            }
        }
        if counts.errors > 0 {
            self.line(&format!("{} not judged: the harness broke", counts.errors));
        }
    }

    fn story(&mut self, judged: &Judged<'_>) {
        let result = judged.result;
        self.labelled("says", &result.says);
        if self.cited == result.cites {
            // Cases of one check follow each other.
            self.labelled("cites", &format!("as above: {}", result.cites.join(", ")));
        } else {
            self.cites(&result.cites);
            self.cited.clone_from(&result.cites);
        }
        self.labelled("verdict", &format!("{}, {}", verdict_word(result.verdict), observation_word(result.observation)));
        for line in result.message.lines() {
            self.labelled("", line);
        }
        if let Some(entry) = judged.entry {
            self.labelled("expected", &format!("otherwise, by the expectation file (line {}): {}", entry.line, entry.reason));
        }
        for note in &result.notes {
            self.labelled("note", note);
        }
        if let Some(at) = &result.at {
            self.labelled("at", at);
        }
        for (at, line) in trace::tail(&result.exchange, trace::TAIL).iter().enumerate() {
            let label = if at == 0 { "trace" } else { "" };
            self.line(&format!("  {label:0$}{1}", LABEL - 2, shortened(line)));
        }
        if let Some(path) = files::trace_path(self.traces.as_deref(), judged) {
            self.labelled("", &format!("all of it in {}", path.display()));
        }
        if !result.reproduce.is_empty() {
            // Not wrapped: it is there to be copied.
            self.line(&format!("  {:1$}{2}", "again", LABEL - 2, result.reproduce));
        }
    }

    fn cites(&mut self, ids: &[String]) {
        for id in ids {
            match cited(id) {
                Some(r) => {
                    self.labelled("cites", &format!("{r}, {}", r.level));
                    self.labelled("", r.says);
                }
                None => self.labelled("cites", id),
            }
        }
    }

    fn list(&mut self, title: &str, all: &[Judged<'_>], text: impl Fn(&Judged<'_>) -> String) {
        if all.is_empty() {
            return;
        }
        self.line(&format!("{title} ({})", all.len()));
        for judged in all {
            self.line(&format!("  {}  {}", judged.name(), text(judged)));
        }
    }

    /// Checks by reason: many have the same.
    fn grouped(&mut self, title: &str, all: &[Judged<'_>]) {
        let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for judged in all {
            reasons.entry(judged.headline()).or_default().push(judged.name());
        }
        if reasons.is_empty() {
            return;
        }
        self.line(&format!("{title} ({})", all.len()));
        for (reason, ids) in reasons {
            let more = ids.len().saturating_sub(3);
            let mut names = ids.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
            if more > 0 {
                names.push_str(&format!(" and {more} more"));
            }
            self.line(&format!("  {reason}: {names}"));
        }
    }

    /// What the peer did wrong in passing.
    fn slips(&mut self, report: &Report<'_>) {
        let slips = &report.summary.slips;
        if slips.is_empty() {
            return;
        }
        self.line(&format!("findings of the bystander rules, in the traffic of any check ({})", slips.len()));
        for slip in slips {
            let standing = match slip.standing {
                SlipStanding::Failed => Standing::Failed,
                SlipStanding::Warned => Standing::Warned,
                SlipStanding::Known => Standing::Known,
            };
            let mark = self.painted(standing, &format!("{:7}", label(standing)));
            let (id, level) = (slip.requirement.id, slip.requirement.level);
            let known = if slip.reason.is_empty() { String::new() } else { format!(": {}", slip.reason) };
            self.write(&mark, &format!("  {id} ({level}), {}{known}", slip.extent()));
            if slip.reason.is_empty() {
                self.labelled("", &format!("expected {}; seen {}", slip.expected, slip.seen));
            }
        }
    }

    /// A label and text beside it, wrapped. Nothing where the text is empty.
    fn labelled(&mut self, label: &str, text: &str) {
        for (at, line) in wrap(text, WIDTH - LABEL).iter().enumerate() {
            let label = if at == 0 { label } else { "" };
            self.line(&format!("  {label:0$}{line}", LABEL - 2));
        }
    }

    fn line(&mut self, text: &str) {
        self.write("", text);
    }

    /// A line. `ours` alone may hold an escape, for a colour.
    fn write(&mut self, ours: &str, text: &str) {
        let text = printable(text);
        let out = &mut self.out;
        let mut write = || {
            let _ = writeln!(out, "{ours}{text}");
        };
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn painted(&self, standing: Standing, text: &str) -> String {
        if !self.fancy {
            return text.to_owned();
        }
        let colour = match standing {
            Standing::Passed | Standing::PassedLeniently => 32,
            Standing::Failed | Standing::Killed | Standing::Errored | Standing::Unexpected => 31,
            Standing::Warned | Standing::Known | Standing::MayFail => 33,
            Standing::Blocked | Standing::Skipped => 36,
        };
        format!("\u{1b}[{colour}m{text}\u{1b}[0m")
    }
}

fn label(standing: Standing) -> &'static str {
    match standing {
        Standing::Passed | Standing::PassedLeniently => "pass",
        Standing::Failed => "FAIL",
        Standing::Killed => "KILLED",
        Standing::Warned => "warn",
        Standing::Blocked => "blocked",
        Standing::Skipped => "skip",
        Standing::Known => "known",
        Standing::MayFail => "mayfail",
        Standing::Unexpected => "PASSES",
        Standing::Errored => "ERROR",
    }
}

fn duration(took: Duration) -> String {
    match took.as_micros() {
        us if us < 1_000 => format!("{us} us"),
        us if us < 1_000_000 => format!("{} ms", us / 1_000),
        us => format!("{}.{} s", us / 1_000_000, us / 100_000 % 10),
    }
}

/// A trace line without its end where it is very long; a file has all of it.
fn shortened(line: &str) -> String {
    match line.char_indices().nth(2 * WIDTH) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or(line)),
        None => line.to_owned(),
    }
}

/// Lines of at most `width` characters, broken at spaces; a longer word stands alone.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_wrapped_at_spaces() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap("aaaaaaaa b", 5), ["aaaaaaaa", "b"]);
        assert_eq!(wrap("  ", 5), Vec::<String>::new());
    }

    #[test]
    fn a_long_line_of_a_trace_is_cut_between_characters() {
        let line = "ü".repeat(2 * WIDTH);
        assert_eq!(shortened(&line), line);
        assert_eq!(shortened(&(line.clone() + "x")), line + "…");
    }

    #[test]
    fn durations_keep_their_order_of_magnitude() {
        assert_eq!(duration(Duration::from_micros(40)), "40 us");
        assert_eq!(duration(Duration::from_millis(40)), "40 ms");
        assert_eq!(duration(Duration::from_millis(4_250)), "4.2 s");
    }
}
