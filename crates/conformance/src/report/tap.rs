//! The runs as TAP version 14: what `prove` and other harnesses of the Test Anything Protocol read.
//!
//! TAP knows *ok*, *not ok* and the directives SKIP and TODO, so: a failure that counts, an expected failure that passed and our
//! own errors are *not ok*; what fails as expected is *not ok* with TODO, which no harness counts; blocked and skipped are *ok*
//! with SKIP and the reason; a warning is *ok*. What the peer did wrong in passing has points of its own behind the checks, a
//! requirement each: *ok* where it is no more than a warning, with TODO where it is expected. Whatever a reader may want to know of one stands below it as YAML, a
//! string quoted as JSON quotes it, lines as a block. A run that did not reach its end ends with `Bail out!`.

use super::{Judged, Report, cited, class_word, observation_word, printable, trace, verdict_word};
use crate::slips::{Slip, SlipStanding};
use crate::summary::Standing;

/// The report.
#[must_use]
pub fn render(report: &Report<'_>) -> String {
    let mut text = "TAP version 14\n".to_owned();
    head(&mut text, report);
    let (checks, slips) = (report.summary.standings.len(), &report.summary.slips);
    text.push_str(&format!("1..{}\n", checks + slips.len()));
    for (at, judged) in report.judged().enumerate() {
        point(&mut text, at + 1, &judged);
    }
    for (at, slip) in slips.iter().enumerate() {
        broken(&mut text, checks + at + 1, slip);
    }
    text.push_str(&format!("# {}\n", line(&report.summary.line())));
    for why in report.runs.iter().filter_map(|run| run.aborted.as_ref()) {
        text.push_str(&format!("Bail out! {}\n", line(why)));
    }
    text
}

fn head(text: &mut String, report: &Report<'_>) {
    let first = report.first();
    let mut about = vec![
        format!("nvmfspec {}", env!("CARGO_PKG_VERSION")),
        format!("target {}", first.target),
        format!("world {}, seed {}", first.world, first.seed),
    ];
    for run in report.runs {
        about.push(format!("subsystem {}", run.subsystem));
        about.extend(run.peer.iter().map(|(name, value)| format!("peer {name} {value}")));
    }
    about.extend(report.expectations_named().map(|name| format!("expectations {name}")));
    about.push(format!("started {}", report.wall.started_text()));
    for comment in about {
        text.push_str(&format!("# {}\n", line(&comment)));
    }
}

/// The point of a requirement that was broken in passing.
fn broken(text: &mut String, number: usize, slip: &Slip) {
    let (ok, directive) = match slip.standing {
        SlipStanding::Failed => ("not ok", String::new()),
        SlipStanding::Warned => ("ok", String::new()),
        SlipStanding::Known => ("not ok", format!(" # {}", escaped(&format!("TODO known finding: {}", slip.reason)))),
    };
    text.push_str(&format!("{ok} {number} - bystander rules: {}{directive}\n", slip.requirement.id));
    let mut rows = vec![format!("counted: {}", slip.standing.word()), format!("level: {}", slip.requirement.level)];
    block(&mut rows, "says", [slip.requirement.says.to_owned()].into_iter());
    block(&mut rows, "seen", [slip.seen.clone()].into_iter());
    block(&mut rows, "expected", [slip.expected.clone()].into_iter());
    rows.push(format!("extent: {}", quoted(&slip.extent())));
    yaml(text, rows);
}

fn yaml(text: &mut String, rows: Vec<String>) {
    text.push_str("  ---\n");
    for row in rows {
        text.push_str(&format!("  {row}\n"));
    }
    text.push_str("  ...\n");
}

/// One test point, with its diagnostics where there are any.
fn point(text: &mut String, number: usize, judged: &Judged<'_>) {
    let (ok, directive) = match judged.standing {
        Standing::Passed | Standing::PassedLeniently | Standing::Warned => (true, None),
        Standing::Blocked => (true, Some(format!("SKIP blocked: {}", judged.headline()))),
        Standing::Skipped => (true, Some(format!("SKIP {}", judged.headline()))),
        Standing::Known => (false, Some(format!("TODO known deviation: {}", judged.reason()))),
        Standing::MayFail => (false, Some(format!("TODO may fail: {}", judged.reason()))),
        Standing::Failed | Standing::Killed | Standing::Errored | Standing::Unexpected => (false, None),
    };
    let directive = directive.map_or_else(String::new, |words| format!(" # {}", escaped(&words)));
    let ok = if ok { "ok" } else { "not ok" };
    text.push_str(&format!("{ok} {number} - {}{directive}\n", escaped(&judged.name())));
    let rows = diagnostics(judged);
    if !rows.is_empty() {
        yaml(text, rows);
    }
}

/// YAML, a line each. Empty for a plain pass and for what did not run.
fn diagnostics(judged: &Judged<'_>) -> Vec<String> {
    let result = judged.result;
    let quiet = matches!(judged.standing, Standing::Passed | Standing::Blocked | Standing::Skipped);
    let mut rows = Vec::new();
    if !quiet {
        rows.push(format!("counted: {}", judged.standing.word()));
        rows.push(format!("verdict: {}", verdict_word(result.verdict)));
        rows.push(format!("observation: {}", observation_word(result.observation)));
        rows.push(format!("class: {}", class_word(result.class)));
        rows.push(format!("says: {}", quoted(&result.says)));
        block(
            &mut rows,
            "cites",
            result.cites.iter().map(|id| match cited(id) {
                Some(r) => format!("{r}, {}: {}", r.level, r.says),
                None => id.clone(),
            }),
        );
        block(&mut rows, "message", result.message.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned));
        rows.extend(judged.entry.map(|entry| format!("expected: {}", quoted(&entry.reason))));
    }
    block(&mut rows, "notes", result.notes.iter().cloned());
    block(&mut rows, "findings", result.findings.iter().map(ToString::to_string));
    if !quiet {
        rows.extend(result.at.iter().map(|at| format!("at: {}", quoted(at))));
        block(&mut rows, "trace", trace::tail(&result.exchange, trace::TAIL).into_iter());
        rows.push(format!("duration_ms: {}.{:03}", result.took.as_micros() / 1000, result.took.as_micros() % 1000));
        rows.push(format!("again: {}", quoted(&result.reproduce)));
    }
    rows
}

/// Lines by their name, as a block that keeps them as they are; nothing where there are none. Not as a list of strings: the
/// reader of Perl's `prove` takes an item with a colon for a mapping.
fn block(rows: &mut Vec<String>, name: &str, all: impl Iterator<Item = String>) {
    let lines: Vec<String> = all.map(|line| printable(&line).replace(['\n', '\t'], " ")).collect();
    // The first line's indentation is that of the block.
    let lines = lines.iter().enumerate().map(|(at, line)| if at == 0 { line.trim() } else { line.trim_end() });
    let lines: Vec<String> = lines.filter(|line| !line.is_empty()).map(|line| format!("  {line}")).collect();
    if !lines.is_empty() {
        rows.push(format!("{name}: |"));
        rows.extend(lines);
    }
}

/// A string as YAML and JSON both read it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(printable(text)).to_string()
}

/// Text that keeps to its line.
fn line(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ").trim().to_owned()
}

/// Text that keeps to its line and begins no directive.
fn escaped(text: &str) -> String {
    // The first `#` of ours stands in front of what is escaped, never inside.
    line(text).replace('\\', "\\\\").replace('#', "\\#")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_begins_no_directive_and_no_line() {
        assert_eq!(escaped("a # SKIP \\ \n not ok"), "a \\# SKIP \\\\   not ok");
        assert_eq!(quoted("a\n\"b\": \u{1b}"), "\"a\\n\\\"b\\\": \\\\u{1b}\"");
    }
}
