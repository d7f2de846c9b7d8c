//! The runs as one HTML page that stands alone: what is mailed, or kept beside a build.
//!
//! Nothing is loaded and nothing runs: the style is in the page, folding is HTML's own, and a policy in its head forbids the rest,
//! so that even text that slipped through would stay text. All text goes through `text`. What needs attention comes first and
//! unfolded; passes come last, folded. Each check has its trace, folded.

use super::{Judged, Report, cited, class_word, observation_word, printable, trace, verdict_word};
use crate::slips::{Slip, SlipStanding};
use crate::summary::Standing;

/// Lines of a trace in the page; of more, the first and the last are kept.
const LINES: usize = 60;
/// Characters of one such line. The trace file has all of both.
const LINE: usize = 400;

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">
";

const STYLE: &str = "\
:root { --ink: #1b1f24; --paper: #fff; --soft: #59636e; --line: #d1d9e0; --box: #f6f8fa;
  --good: #1a7f37; --bad: #cf222e; --mind: #9a6700; --idle: #57606a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --soft: #9198a1; --line: #3d444d; --box: #161b22;
  --good: #3fb950; --bad: #f85149; --mind: #d29922; --idle: #9198a1; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 72rem; margin: 2rem auto;
  padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--box); border: 1px solid var(--line); padding: .6rem; overflow-x: auto; overflow-wrap: normal; }
table { border-collapse: collapse; } th, td { text-align: left; vertical-align: top; padding: .15rem .8rem .15rem 0; }
th { color: var(--soft); font-weight: normal; }
details { border-top: 1px solid var(--line); padding: .3rem 0; } details details { border: 0; }
summary { cursor: pointer; } .why { color: var(--soft); }
dl { display: grid; grid-template-columns: 7rem 1fr; gap: .15rem .8rem; margin: .5rem 0 .5rem 1.2rem; }
dt { color: var(--soft); } dd { margin: 0; }
.sum { font-size: 1.15rem; font-weight: 600; } .broken { color: var(--bad); font-weight: 600; }
.mark { display: inline-block; min-width: 5.5rem; font-weight: 600; }
.good { color: var(--good); } .bad { color: var(--bad); } .mind { color: var(--mind); } .idle { color: var(--idle); }
";

/// The page.
#[must_use]
pub fn render(report: &Report<'_>) -> String {
    let title = text(&format!("NVMe-oF conformance of {}", report.first().target));
    let mut page = format!("{HEAD}<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n");
    head(&mut page, report);
    let known = report.expectations_named().map_or_else(|| "Known deviations".into(), |n| format!("Known deviations: {n}"));
    for (title, judged, open) in [
        ("Failed", report.failures(), true),
        ("Expected to fail, and did not", report.with(Standing::Unexpected), true),
        ("Errors of the harness", report.with(Standing::Errored), true),
        ("Warnings", report.with(Standing::Warned), true),
        ("Passed only leniently", report.with(Standing::PassedLeniently), false),
        (known.as_str(), report.with(Standing::Known), false),
        ("May fail, and did", report.with(Standing::MayFail), false),
        ("Blocked", report.with(Standing::Blocked), false),
        ("Skipped", report.with(Standing::Skipped), false),
        ("Passed", report.with(Standing::Passed), false),
    ] {
        if title == "Warnings" {
            slips(&mut page, &report.summary.slips);
        }
        section(&mut page, title, &judged, open);
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn head(page: &mut String, report: &Report<'_>) {
    let first = report.first();
    let status = report.summary.status().code();
    page.push_str(&format!("<p class=\"sum\">{} · exit status {status}</p>\n", text(&report.summary.line())));
    for why in report.runs.iter().filter_map(|run| run.aborted.as_ref()) {
        page.push_str(&format!("<p class=\"broken\">The run is not whole: {}</p>\n", text(why)));
    }
    let mut rows = vec![("world", first.world.to_owned()), ("seed", first.seed.to_string())];
    for run in report.runs {
        rows.push(("subsystem", run.subsystem.clone()));
        rows.extend(run.peer.iter().map(|(name, value)| (name.as_str(), value.clone())));
    }
    rows.extend(report.expectations_named().map(|name| ("expectations", name)));
    rows.push(("started", report.wall.started_text()));
    rows.push(("tool", format!("nvmfspec {}", env!("CARGO_PKG_VERSION"))));
    page.push_str("<table>\n");
    for (name, value) in rows {
        page.push_str(&format!("<tr><th>{}</th><td>{}</td></tr>\n", text(name), text(&value)));
    }
    page.push_str("</table>\n");
}

fn section(page: &mut String, title: &str, all: &[Judged<'_>], open: bool) {
    if all.is_empty() {
        return;
    }
    page.push_str(&format!("<h2>{} ({})</h2>\n", text(title), all.len()));
    for judged in all {
        check(page, judged, open);
    }
}

/// What the peer did wrong in passing, a requirement each.
fn slips(page: &mut String, slips: &[Slip]) {
    if slips.is_empty() {
        return;
    }
    page.push_str(&format!("<h2>Findings of the bystander rules ({})</h2>\n", slips.len()));
    for slip in slips {
        let (colour, open) = match slip.standing {
            SlipStanding::Failed => ("bad", " open"),
            SlipStanding::Warned | SlipStanding::Known => ("mind", ""),
        };
        let (word, id) = (slip.standing.word(), slip.requirement.id);
        page.push_str(&format!(
            "<details{open}><summary><span class=\"mark {colour}\">{word}</span> <code>{id}</code> <span class=\"why\">{}</span></summary>\n<dl>\n",
            text(&slip.extent())
        ));
        let mut row = |name: &str, value: &str| page.push_str(&format!("<dt>{name}</dt><dd>{}</dd>\n", text(value)));
        row("cites", &format!("{}, {}: {}", slip.requirement, slip.requirement.level, slip.requirement.says));
        row("seen", &slip.seen);
        row("asked for", &slip.expected);
        if !slip.reason.is_empty() {
            row("known", &slip.reason);
        }
        page.push_str("</dl>\n</details>\n");
    }
}

fn check(page: &mut String, judged: &Judged<'_>, open: bool) {
    let result = judged.result;
    let (colour, open) = (colour(judged.standing), if open { " open" } else { "" });
    let quiet = matches!(judged.standing, Standing::Passed | Standing::PassedLeniently);
    let why = match judged.standing {
        _ if quiet => result.says.as_str(),
        Standing::Known | Standing::MayFail | Standing::Unexpected => judged.reason(),
        _ => judged.headline(),
    };
    page.push_str(&format!(
        "<details{open}><summary><span class=\"mark {colour}\">{}</span> <code>{}</code> <span class=\"why\">{}</span></summary>\n<dl>\n",
        text(judged.standing.word()),
        text(&judged.name()),
        text(why)
    ));
    let mut row = |name: &str, value: &str| page.push_str(&format!("<dt>{name}</dt><dd>{}</dd>\n", text(value)));
    row("says", &result.says);
    for id in &result.cites {
        row("cites", &cited(id).map_or_else(|| id.clone(), |r| format!("{r}, {}: {}", r.level, r.says)));
    }
    row("class", class_word(result.class));
    row("verdict", &format!("{}, {}", verdict_word(result.verdict), observation_word(result.observation)));
    result.message.lines().filter(|line| !line.trim().is_empty()).for_each(|line| row("message", line));
    judged.entry.iter().for_each(|entry| row("expected", &entry.reason));
    result.notes.iter().for_each(|note| row("note", note));
    result.findings.iter().for_each(|finding| row("finding", &finding.to_string()));
    result.at.iter().for_each(|at| row("at", at));
    if !result.reproduce.is_empty() {
        page.push_str(&format!("<dt>again</dt><dd><code>{}</code></dd>\n", text(&result.reproduce)));
    }
    page.push_str("</dl>\n");
    traffic(page, judged);
    page.push_str("</details>\n");
}

fn traffic(page: &mut String, judged: &Judged<'_>) {
    let mut lines = trace::lines(&judged.result.exchange);
    if lines.is_empty() {
        return;
    }
    let count = lines.len();
    if count > LINES {
        lines.splice(LINES / 2..count - LINES / 2, [format!("… {} lines left out", count - LINES)]);
    }
    page.push_str(&format!("<details><summary>trace ({count} lines)</summary>\n<pre>"));
    for line in lines {
        let cut = line.char_indices().nth(LINE).and_then(|(at, _)| line.get(..at));
        page.push_str(&cut.map_or_else(|| text(&line), |start| text(start) + "…"));
        page.push('\n');
    }
    page.push_str("</pre></details>\n");
}

fn colour(standing: Standing) -> &'static str {
    match standing {
        Standing::Passed | Standing::PassedLeniently => "good",
        Standing::Failed | Standing::Killed | Standing::Errored | Standing::Unexpected => "bad",
        Standing::Warned | Standing::Known | Standing::MayFail => "mind",
        Standing::Blocked | Standing::Skipped => "idle",
    }
}

/// Text that is text wherever it stands, in an element or in a quoted attribute.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn text_stays_text() {
        assert_eq!(text("</pre><script>\u{1b}&\"'"), "&lt;/pre&gt;&lt;script&gt;\\u{1b}&amp;&quot;&#39;");
    }
}
