//! The runs as one Markdown page: what stands in a merge request or is kept beside a release.
//!
//! What needs attention comes first, each with the requirement, what was seen and the end of the trace; passes come last, folded.

use super::{Judged, Report, cited, class_word, observation_word, printable, trace, verdict_word};
use crate::summary::Standing;

/// The page.
#[must_use]
pub fn render(report: &Report<'_>) -> String {
    let mut page = String::new();
    head(&mut page, report);
    for (title, judged) in [
        ("Failed", report.failures()),
        ("Expected to fail, and did not", report.with(Standing::Unexpected)),
        ("Errors of the harness", report.with(Standing::Errored)),
        ("Warnings", report.with(Standing::Warned)),
        ("Passed only leniently", report.with(Standing::PassedLeniently)),
    ] {
        details(&mut page, title, &judged);
    }
    slips(&mut page, report);
    let known = report.with(Standing::Known);
    let title =
        report.expectations_named().map_or_else(|| "Known deviations".into(), |n| format!("Known deviations: {}", cell(&n)));
    table(&mut page, &title, "reason", &known, |judged| judged.reason().to_owned());
    table(&mut page, "May fail, and did", "reason", &report.with(Standing::MayFail), |judged| judged.reason().to_owned());
    table(&mut page, "Blocked", "by", &report.with(Standing::Blocked), |judged| judged.headline().to_owned());
    table(&mut page, "Skipped", "why", &report.with(Standing::Skipped), |judged| judged.headline().to_owned());
    passes(&mut page, &report.with(Standing::Passed));
    page
}

fn head(page: &mut String, report: &Report<'_>) {
    let first = report.first();
    page.push_str(&format!("# NVMe-oF conformance of {}\n\n", cell(first.target)));
    page.push_str(&format!("**{}** · exit status {}\n\n", report.summary.line(), report.summary.status().code()));
    for why in report.runs.iter().filter_map(|run| run.aborted.as_ref()) {
        page.push_str(&format!("**The run is not whole: {}**\n\n", cell(why)));
    }
    let counts = report.summary.counts;
    for (count, what) in [
        (counts.known, "known deviations, as expected"),
        (counts.may_fail, "failures that were allowed"),
        (counts.errors, "not judged, because the harness broke"),
        (counts.killed, "failures that killed the peer"),
    ] {
        if count > 0 {
            page.push_str(&format!("- {what}: {count}\n"));
        }
    }
    page.push_str("\n| | |\n|---|---|\n");
    let mut rows = vec![("world".to_owned(), first.world.to_owned()), ("seed".to_owned(), first.seed.to_string())];
    for run in report.runs {
        rows.push(("subsystem".to_owned(), run.subsystem.clone()));
        rows.extend(run.peer.iter().cloned());
    }
    rows.extend(report.expectations_named().map(|name| ("expectations".to_owned(), name)));
    rows.push(("started".to_owned(), report.wall.started_text()));
    rows.push(("tool".to_owned(), format!("nvmfspec {}", env!("CARGO_PKG_VERSION"))));
    for (name, value) in rows {
        page.push_str(&format!("| {} | {} |\n", cell(&name), cell(&value)));
    }
}

fn details(page: &mut String, title: &str, all: &[Judged<'_>]) {
    if all.is_empty() {
        return;
    }
    page.push_str(&format!("\n## {title} ({})\n", all.len()));
    for judged in all {
        detail(page, judged);
    }
}

fn detail(page: &mut String, judged: &Judged<'_>) {
    let result = judged.result;
    page.push_str(&format!("\n### `{}`\n\n{}\n\n", code(&judged.name()), cell(&result.says)));
    page.push_str(&format!("- **{}**, {}\n", verdict_word(result.verdict), observation_word(result.observation)));
    for id in &result.cites {
        page.push_str(&match cited(id) {
            Some(r) => format!("- {} ({}, {}), {}: {}\n", r.id, cell(r.spec), cell(r.section), r.level, cell(r.says)),
            None => format!("- {}\n", cell(id)),
        });
    }
    if let Some(entry) = judged.entry {
        page.push_str(&format!("- the expectation file says: {}\n", cell(&entry.reason)));
    }
    for line in result.message.lines().filter(|line| !line.trim().is_empty()) {
        page.push_str(&format!("- {}\n", cell(line)));
    }
    for note in &result.notes {
        page.push_str(&format!("- note: {}\n", cell(note)));
    }
    if let Some(at) = &result.at {
        page.push_str(&format!("- at `{}`\n", code(at)));
    }
    if !result.reproduce.is_empty() {
        page.push_str(&format!("- again: `{}`\n", code(&result.reproduce)));
    }
    let tail = trace::tail(&result.exchange, trace::TAIL);
    if !tail.is_empty() {
        // A fence longer than any run of backticks inside cannot be closed from inside.
        let text = printable(&tail.join("\n")).replace("```", "'''");
        page.push_str(&format!("\n```text\n{text}\n```\n"));
    }
}

fn table(page: &mut String, title: &str, why: &str, all: &[Judged<'_>], text: impl Fn(&Judged<'_>) -> String) {
    if all.is_empty() {
        return;
    }
    page.push_str(&format!("\n## {title} ({})\n\n| check | cites | {why} |\n|---|---|---|\n", all.len()));
    for judged in all {
        let cites = judged.result.cites.join(", ");
        page.push_str(&format!("| `{}` | {} | {} |\n", code(&judged.name()), cell(&cites), cell(&text(judged))));
    }
}

fn passes(page: &mut String, all: &[Judged<'_>]) {
    if all.is_empty() {
        return;
    }
    page.push_str(&format!("\n<details><summary>Passed ({})</summary>\n\n| check | class | cites |\n|---|---|---|\n", all.len()));
    for judged in all {
        let cites = cell(&judged.result.cites.join(", "));
        page.push_str(&format!("| `{}` | {} | {cites} |\n", code(&judged.name()), class_word(judged.result.class)));
    }
    page.push_str("\n</details>\n");
}

/// What the peer did wrong in passing, and in which checks.
fn slips(page: &mut String, report: &Report<'_>) {
    let slips = &report.summary.slips;
    if slips.is_empty() {
        return;
    }
    page.push_str(&format!("\n## Findings of the bystander rules ({})\n\n", slips.len()));
    page.push_str("What the peer did wrong in passing, in whichever check: it changes the verdict of none.\n");
    page.push_str("\n| requirement | counted | seen | asked for | how often | why |\n|---|---|---|---|---|---|\n");
    for slip in slips {
        let why = if slip.reason.is_empty() { slip.requirement.says } else { slip.reason.as_str() };
        let cells = [&slip.seen, &slip.expected, &slip.extent(), why].map(cell).join(" | ");
        let (id, level) = (slip.requirement.id, slip.requirement.level);
        page.push_str(&format!("| {id} ({level}) | {} | {cells} |\n", slip.standing.word()));
    }
}

/// Text that cannot leave its table cell or list item, nor become markup.
fn cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).trim().chars() {
        match c {
            '\n' | '\t' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '#' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

/// Text inside backticks in a table or a list.
fn code(text: &str) -> String {
    printable(text).replace('`', "'").replace('|', "\\|").replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_in_its_cell() {
        assert_eq!(cell("a|b\n<img> `x` \u{1b}"), "a\\|b &lt;img&gt; \\`x\\` \\\\u{1b}");
        assert_eq!(code("a`|`\nb"), "a'\\|' b");
    }
}
