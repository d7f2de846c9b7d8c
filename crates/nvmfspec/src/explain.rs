//! `nvmfspec explain`: a requirement, an open case, a check or a structure, with all that is known of it.

mod data;

use std::fmt::Write;
use std::process::ExitCode;

use nvmf_conformance::report::class_word;
use nvmf_conformance::suite::{Item, Suite, SuiteCheck};
use nvmf_conformance::{ExitStatus, select};
use nvmf_spec::{Requirement, Silence};
use nvmf_wire::layout::{Field, Layout};
use nvmf_wire::registry::LAYOUTS;

use crate::list::Scripts;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  nvmfspec explain TCP-ICREQ-02                   what it asks for, where it stands, and the checks that cite it
  nvmfspec explain tcp/icreq/pfv-unsupported      a check: what it says, why, and its script
  nvmfspec explain TCP-SILENT-01                  a case that the specification leaves open
  nvmfspec explain ICReq                          the fields of a structure, by the names that scripts use
  nvmfspec explain --json ICReq | jq .fields      for other programs";

/// What to explain.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A requirement, an open case, a check or a structure, by its id or name
    id: String,
    /// As a JSON object
    #[arg(long)]
    json: bool,
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
        return show(args, || data::requirement(requirement, &suite), || of_requirement(requirement, &suite));
    }
    if let Some(silence) = nvmf_spec::silence(&upper) {
        return show(args, || data::silence(silence), || of_silence(silence));
    }
    if let Some(layout) = LAYOUTS.iter().find(|layout| layout.name.eq_ignore_ascii_case(&args.id)) {
        return show(args, || data::layout(layout), || of_layout(layout));
    }
    let items: Vec<Item<'_>> = suite.items().into_iter().filter(|item| select::matches(&args.id, &item.id())).collect();
    match items.as_slice() {
        [] => {}
        [first, rest @ ..] if rest.iter().all(|item| item.check.script.id == first.check.script.id) => {
            return show(args, || data::check(first, &items), || of_check(first, &items));
        }
        _ => {
            let message = format!("`{}` begins the ids of {} checks: `nvmfspec list {0}` prints them", args.id, items.len());
            return output::refuse(ExitStatus::Usage, &message);
        }
    }
    let requirements = nvmf_spec::all().map(|r| r.id).chain(nvmf_spec::silences().map(|s| s.id));
    let layouts = LAYOUTS.iter().map(|layout| layout.name);
    let names = requirements.chain(layouts).chain(suite.checks().map(|check| check.script.id.as_str()));
    let guess = select::did_you_mean(&args.id, names);
    output::refuse(ExitStatus::Usage, &format!("there is no requirement, check or structure `{}`{guess}", args.id))
}

/// Prints one of the two.
fn show(args: &Args, data: impl FnOnce() -> serde_json::Value, text: impl FnOnce() -> String) -> ExitCode {
    if args.json {
        return output::print(&(serde_json::to_string_pretty(&data()).unwrap_or_default() + "\n"));
    }
    output::print(&text())
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
    let citing: Vec<_> = citing(r, suite).collect();
    let ruled = ruled(r);
    if ruled {
        row("bystander", "its rules judge it in the traffic of every check, and with --judge");
    }
    if citing.is_empty() {
        let none = if ruled { "none of its own" } else { "none yet" };
        row("checks", r.unchecked_because().filter(|_| !ruled).unwrap_or(none));
    } else {
        text.push_str("\nchecks that cite it:\n");
        for check in citing {
            let _ = writeln!(text, "  {:44} {}", check.script.id, check.script.says);
        }
    }
    text
}

/// Whether a bystander rule judges it.
fn ruled(r: &Requirement) -> bool {
    nvmf_capture::JUDGED.iter().any(|judged| judged.id == r.id)
}

/// The checks that cite a requirement.
fn citing<'a>(r: &Requirement, suite: &'a Suite) -> impl Iterator<Item = &'a SuiteCheck> {
    suite.checks().filter(|check| check.script.cites.iter().any(|c| c.it == r.id))
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

/// A structure: where each field lies, what it is called here and in Wireshark, and what it means.
fn of_layout(layout: &Layout) -> String {
    let mut text = format!("{}\n", layout.name);
    row(&mut text, "is", layout.about);
    row(&mut text, "length", &format!("{} bytes", layout.bytes));
    text.push('\n');
    let mut rows: Vec<[String; 4]> = layout.all_fields().map(field).collect();
    rows.insert(0, ["byte".into(), "field".into(), "Wireshark".into(), "meaning".into()]);
    let width = |column: usize| rows.iter().map(|row| row.get(column).map_or(0, |cell| cell.chars().count())).max().unwrap_or(0);
    let (at, name, wireshark) = (width(0), width(1), width(2));
    for [a, b, c, d] in &rows {
        let _ = writeln!(text, "  {a:at$}  {b:name$}  {c:wireshark$}  {d}");
    }
    text
}

/// Place (`8-9`, or `4.0-4.5` for bits), name, Wireshark's name, meaning.
fn field(field: &Field) -> [String; 4] {
    let (first, last) = (field.bits().min().unwrap_or(field.bit), field.bits().max().unwrap_or(field.bit));
    let whole = first % 8 == 0 && (last + 1) % 8 == 0;
    let bit = |bit: usize| if whole { format!("{}", bit / 8) } else { format!("{}.{}", bit / 8, bit % 8) };
    let at = if bit(first) == bit(last) { bit(first) } else { format!("{}-{}", bit(first), bit(last)) };
    [at, field.name.to_owned(), field.wireshark.to_owned(), field.title.to_owned()]
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
