//! `nvmfspec list`: the checks of the suite, or the faults that `nvmfspec target` plays.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use nvmf_conformance::report::class_word;
use nvmf_conformance::suite::{Item, Suite, SuiteFault};
use nvmf_conformance::{ExitStatus, select};
use serde::Serialize;

use crate::output;

const EXAMPLES: &str = "\
Examples:
  nvmfspec list                                   every check
  nvmfspec list connect nvm/read                  those below either prefix
  nvmfspec list --json | jq -r '.[].id'           for other programs
  nvmfspec list --faults                          what `nvmfspec target --fault` takes
  nvmfspec list --scripts my-checks               with checks of your own";

/// What to list.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Only checks below these prefixes
    #[arg(value_name = "PREFIX")]
    prefixes: Vec<String>,
    /// The same, as `conformance` takes it
    #[arg(long, value_name = "PREFIX")]
    filter: Vec<String>,
    /// The faults instead of the checks
    #[arg(long)]
    faults: bool,
    /// As a JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    scripts: Scripts,
}

/// Where checks come from besides the program itself.
#[derive(clap::Args, Clone, Debug)]
pub struct Scripts {
    /// Add the checks of a folder; one of the same id replaces the embedded one
    #[arg(long, value_name = "DIR", help_heading = "Checks")]
    scripts: Vec<PathBuf>,
}

impl Scripts {
    /// The suite: embedded and added checks. The error is a message with file, line and column.
    pub fn load(&self) -> Result<Suite, String> {
        let mut suite = Suite::embedded().map_err(|e| e.to_string())?;
        for dir in &self.scripts {
            suite.add_dir(dir).map_err(|e| e.to_string())?;
        }
        Ok(suite)
    }

    /// The folders, for a command line that runs the same.
    pub fn dirs(&self) -> &[PathBuf] {
        &self.scripts
    }
}

/// Prints the list.
pub fn run(args: &Args) -> ExitCode {
    let prefixes: Vec<String> = args.prefixes.iter().chain(&args.filter).cloned().collect();
    let printed = args.scripts.load().and_then(|suite| {
        let chosen = if args.faults { faults(&suite, &prefixes)? } else { checks(&suite, &prefixes)? };
        if args.json {
            return Ok(serde_json::to_string_pretty(&chosen).unwrap_or_default() + "\n");
        }
        Ok(plain(&chosen, if args.faults { "fault" } else { "check" }))
    });
    match printed {
        Ok(text) => output::print(&text),
        Err(message) => output::refuse(ExitStatus::Usage, &message),
    }
}

fn checks(suite: &Suite, prefixes: &[String]) -> Result<Vec<Row>, String> {
    let rows: Vec<Row> = suite.items().iter().map(Row::of).collect();
    let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    select::check_prefixes(prefixes, &ids)?;
    let mut chosen: Vec<Row> = rows.into_iter().filter(|row| select::any_matches(prefixes, &row.id)).collect();
    chosen.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(chosen)
}

/// Ids of faults have no levels, so any beginning is a prefix.
fn faults(suite: &Suite, prefixes: &[String]) -> Result<Vec<Row>, String> {
    let is_chosen = |row: &Row| prefixes.is_empty() || prefixes.iter().any(|prefix| row.id.starts_with(prefix.as_str()));
    let chosen: Vec<Row> = suite.faults().map(Row::of_fault).filter(is_chosen).collect();
    match chosen.as_slice() {
        [] => Err(format!("no fault begins with `{}`", prefixes.join("` or `"))),
        _ => Ok(chosen),
    }
}

/// What is printed of one check or fault.
#[derive(Serialize)]
pub struct Row {
    pub id: String,
    pub class: &'static str,
    pub says: String,
    pub cites: Vec<String>,
    /// `any`, or the only one over which it can be played.
    pub transport: &'static str,
    pub file: String,
}

impl Row {
    pub fn of(item: &Item<'_>) -> Self {
        Self {
            id: item.id(),
            class: class_word(item.check.class()),
            says: item.check.script.says.clone(),
            cites: item.check.cites(),
            transport: match (item.check.is_of_tcp(), item.check.is_of_rdma()) {
                (true, _) => "tcp",
                (_, true) => "rdma",
                _ => "any",
            },
            file: item.check.file.clone(),
        }
    }

    /// Of a fault: what it breaks stands for what a check cites.
    fn of_fault(fault: &SuiteFault) -> Self {
        let SuiteFault { script, file } = fault;
        let cites = script.breaks.iter().map(|id| id.it.clone()).collect();
        Self { id: script.id.clone(), class: "fault", says: script.says.clone(), cites, transport: "tcp", file: file.clone() }
    }
}

/// One line a check or fault, and how many there are.
pub fn plain(rows: &[Row], what: &str) -> String {
    let width = rows.iter().map(|row| row.id.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for Row { id, class, says, cites, transport, .. } in rows {
        let _ = writeln!(text, "{id:width$}  {class:11}  {transport}  {says} [{}]", cites.join(", "));
    }
    let any = rows.iter().filter(|row| row.transport == "any").count();
    let _ = write!(text, "{} {what}{}", rows.len(), if rows.len() == 1 { "" } else { "s" });
    let _ = if any > 0 { writeln!(text, ", {any} of them over any transport") } else { writeln!(text) };
    text
}
