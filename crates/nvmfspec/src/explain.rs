//! `nvmfspec explain`: a requirement, an open case or a check, with all that is known of it.

use std::fmt::Write;
use std::process::ExitCode;

use nvmf_conformance::report::class_word;
use nvmf_conformance::suite::{Item, Suite};
use nvmf_conformance::{ExitStatus, select};
use nvmf_spec::{Requirement, Silence};

use crate::list::Scripts;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  nvmfspec explain TCP-ICREQ-02                   what it asks for, where it stands, and the checks that cite it
  nvmfspec explain tcp/icreq/pfv-unsupported      a check: what it says, why, and its script
  nvmfspec explain TCP-SILENT-01                  a case that the specification leaves open";

/// What to explain.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A requirement, an open case or a check, by its id
    id: String,
    #[command(flatten)]
    scripts: Scripts,
}

const WIDTH: usize = 110;

/// Prints the explanation. An unknown id is usage, with the ids that were perhaps meant.
pub fn run(args: &Args) -> ExitCode {
    let suite = match args.scripts.load() {
        Ok(suite) => suite,
        Err(message) => return output::refuse(ExitStatus::Usage, &message),
    };
    let upper = args.id.to_ascii_uppercase();
    if let Some(requirement) = nvmf_spec::requirement(&upper) {
        return output::print(&of_requirement(requirement, &suite));
    }
    if let Some(silence) = nvmf_spec::silence(&upper) {
        return output::print(&of_silence(silence));
    }
    let items: Vec<Item<'_>> = suite.items().into_iter().filter(|item| select::matches(&args.id, &item.id())).collect();
    match items.as_slice() {
        [] => {}
        [first, rest @ ..] if rest.iter().all(|item| item.check.script.id == first.check.script.id) => {
            return output::print(&of_check(first, &items));
        }
        _ => {
            let message = format!("`{}` begins the ids of {} checks: `nvmfspec list {0}` prints them", args.id, items.len());
            return output::refuse(ExitStatus::Usage, &message);
        }
    }
    let requirements = nvmf_spec::all().map(|r| r.id).chain(nvmf_spec::silences().map(|s| s.id));
    let names = requirements.chain(suite.checks().map(|check| check.script.id.as_str()));
    let guess = select::did_you_mean(&args.id, names);
    output::refuse(ExitStatus::Usage, &format!("there is no requirement and no check `{}`{guess}", args.id))
}

fn of_requirement(r: &Requirement, suite: &Suite) -> String {
    let mut text = format!("{}\n", r.id);
    let mut row = |label: &str, value: &str| row(&mut text, label, value);
    row("in", &format!("{}, section {}", r.spec, r.section));
    row("level", &format!("{}, on the {}", r.level, r.role));
    row("says", r.says);
    row("answer", r.answer);
    row("note", r.note);
    match (r.since, r.until) {
        (Some(since), Some(until)) => row("revisions", &format!("{since} to {until}")),
        (Some(since), None) => row("revisions", &format!("since {since}")),
        (None, Some(until)) => row("revisions", &format!("until {until}")),
        (None, None) => {}
    }
    row("judged by", judge(r));
    let citing: Vec<_> = suite.checks().filter(|check| check.script.cites.iter().any(|c| c.it == r.id)).collect();
    if citing.is_empty() {
        row("checks", r.unchecked_because().map_or("none yet", |why| why));
    } else {
        text.push_str("\nchecks that cite it:\n");
        for check in citing {
            let _ = writeln!(text, "  {:44} {}", check.script.id, check.script.says);
        }
    }
    text
}

fn judge(r: &Requirement) -> &'static str {
    match r.judge {
        nvmf_spec::Judge::Wire => "the bytes alone: a capture shows it",
        nvmf_spec::Judge::Peer => "provoking it",
        nvmf_spec::Judge::Inside => "nobody outside",
    }
}

fn of_silence(silence: &Silence) -> String {
    let mut text = format!("{}\n", silence.id);
    row(&mut text, "in", &format!("{}, section {}", silence.spec, silence.section));
    row(&mut text, "open case", silence.topic);
    row(&mut text, "seen", silence.seen);
    row(&mut text, "checks", "none can be: the text says nothing that could fail");
    text
}

/// One check; where it has a table, with the cases that were asked for.
fn of_check(first: &Item<'_>, items: &[Item<'_>]) -> String {
    let check = first.check;
    let mut text = format!("{}\n", check.script.id);
    row(&mut text, "says", &check.script.says);
    row(&mut text, "class", class_word(check.class()));
    for id in check.cites() {
        match nvmf_spec::requirement(&id) {
            Some(r) => row(&mut text, "cites", &format!("{r}, {}: {}", r.level, r.says)),
            None => row(&mut text, "cites", &id),
        }
    }
    let after: Vec<&str> = check.script.after.iter().map(|a| a.it.as_str()).collect();
    row(&mut text, "after", &after.join(", "));
    let cases: Vec<&str> = items.iter().filter_map(|item| item.case).map(|case| case.name.as_str()).collect();
    row(&mut text, "cases", &cases.join(", "));
    row(&mut text, "script", &format!("{}:{}", check.file, check.script.place.line));
    text.push('\n');
    for line in check.source.trim_end().lines() {
        let _ = writeln!(text, "    {line}");
    }
    text
}

/// `label     value`, wrapped; nothing where the value is empty.
fn row(text: &mut String, label: &str, value: &str) {
    const INDENT: &str = "             ";
    let wrapped = output::wrapped(value, INDENT, WIDTH);
    if let Some(rest) = wrapped.strip_prefix(INDENT) {
        let _ = write!(text, "  {label:0$}{rest}", INDENT.len() - 2);
    }
}
