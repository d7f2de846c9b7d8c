//! The folder of `--out` and the files of `--json`, `--junit`, `--tap` and `--html`.
//!
//! The folder gets, for each check with traffic, `ID.trace.txt` and `ID.pcapng` with the slashes of the id as points, and at
//! the end a report in every [`Format`]. It is opened before the run, so that a folder that cannot be written is
//! known at once; whatever fails later is an error of that file and does not keep the others from being written.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Judged, Report, cited, html, json, junit, ladder, markdown, observation_word, printable, tap, trace, verdict_word};
use crate::verdict::CheckResult;

/// A folder that was writable when it was opened.
#[derive(Debug)]
pub struct OutDir {
    path: PathBuf,
    base_ns: u64,
}

/// A file or folder that could not be written.
#[derive(Debug)]
pub struct FileError {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write {}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for FileError {}

impl OutDir {
    /// Makes the folder if it is not there, and tries whether a file can be made in it.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let fault = |e: std::io::Error| FileError { path: path.to_owned(), why: e.to_string() };
        fs::create_dir_all(path).map_err(fault)?;
        probe(&path.join(".nvmfspec-probe")).map_err(fault)?;
        Ok(Self { path: path.to_owned(), base_ns: 0 })
    }

    /// Packets are dated from here on instead of 1970. Not for the simulated world, where the same seed gives the same files.
    #[must_use]
    pub fn dated(mut self, started: SystemTime) -> Self {
        let since = started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.base_ns = u64::try_from(since.as_nanos()).unwrap_or(0);
        self
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the trace and the pcapng of one check. A check without traffic has neither. `subsystem` is given where there may be
    /// several, and stands in front of the name.
    pub fn write_check(&self, subsystem: Option<&str>, result: &CheckResult) -> Result<(), FileError> {
        if result.exchange.connections.is_empty() {
            return Ok(());
        }
        let stem = stem(subsystem, &result.id);
        write(&self.path.join(format!("{stem}.trace.txt")), trace_text(result).as_bytes())?;
        let path = self.path.join(format!("{stem}.pcapng"));
        let bytes = trace::pcapng(result, self.base_ns).map_err(|why| FileError { path: path.clone(), why })?;
        write(&path, &bytes)
    }

    /// Writes the reports on the whole run. Every one is tried; the errors are of those that failed.
    #[must_use]
    pub fn write_reports(&self, report: &Report<'_>) -> Vec<FileError> {
        let tries = Format::ALL.iter().map(|format| format.write(&self.path.join(format.file_name()), report));
        tries.filter_map(Result::err).collect()
    }
}

/// In what a whole run can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For programs, and the baseline of a later run.
    Json,
    /// JUnit XML.
    Junit,
    /// Test Anything Protocol.
    Tap,
    /// One page that stands alone.
    Html,
    /// One page for a merge request.
    Markdown,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Json, Self::Junit, Self::Tap, Self::Html, Self::Markdown];

    /// Its name in the folder of `--out`.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Json => "report.json",
            Self::Junit => "junit.xml",
            Self::Tap => "report.tap",
            Self::Html => "report.html",
            Self::Markdown => "report.md",
        }
    }

    /// Writes the report in this format, over an older one.
    pub fn write(self, path: &Path, report: &Report<'_>) -> Result<(), FileError> {
        let text = match self {
            Self::Json => json::render(report),
            Self::Junit => junit::render(report).map_err(|why| FileError { path: path.to_owned(), why })?,
            Self::Tap => tap::render(report),
            Self::Html => html::render(report),
            Self::Markdown => markdown::render(report),
        };
        write(path, text.as_bytes())
    }
}

/// Whether a report file can be made here; finds a wrong path before the run instead of after it. The file is left as it was.
pub fn check_writable(path: &Path) -> Result<(), FileError> {
    let fault = |e: std::io::Error| FileError { path: path.to_owned(), why: e.to_string() };
    if path.exists() {
        return fs::OpenOptions::new().append(true).open(path).map(drop).map_err(fault);
    }
    probe(path).map_err(fault)
}

/// The name, without its ending, of the files of a check: slashes become points, and what no file name should have a `_`.
#[must_use]
pub fn stem(subsystem: Option<&str>, id: &str) -> String {
    let safe = |c: char| match c {
        '/' => '.',
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => c,
        _ => '_',
    };
    // File systems end names at 255 bytes; the last part of an NQN is the part that differs.
    let subsystem: Vec<char> = subsystem.unwrap_or_default().chars().collect();
    let tail = subsystem.get(subsystem.len().saturating_sub(80)..).unwrap_or_default();
    let colon = if tail.is_empty() { "" } else { "_" };
    let prefix: String = tail.iter().map(|c| safe(*c)).collect();
    prefix + colon + &id.chars().map(safe).collect::<String>()
}

fn probe(path: &Path) -> std::io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    fs::remove_file(path)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    fs::write(path, bytes).map_err(|e| FileError { path: path.to_owned(), why: e.to_string() })
}

/// What a check is about and how it ended, as comment lines, then its trace, then the same as a ladder.
fn trace_text(result: &CheckResult) -> String {
    let mut lines = vec![format!("# {}", result.id), format!("# says: {}", result.says)];
    lines.extend(result.cites.iter().map(|id| match cited(id) {
        Some(r) => format!("# cites: {r}, {}: {}", r.level, r.says),
        None => format!("# cites: {id}"),
    }));
    lines.push(format!("# verdict: {} ({})", verdict_word(result.verdict), observation_word(result.observation)));
    lines.extend(result.message.lines().map(|line| format!("# {line}")));
    lines.extend(result.at.iter().map(|at| format!("# at: {at}")));
    lines.extend(result.findings.iter().map(|finding| format!("# finding: {finding}")));
    lines.push(format!("# again: {}", result.reproduce));
    lines.push(String::new());
    lines.extend(trace::lines(&result.exchange));
    lines.push(String::new());
    lines.extend(ladder::lines(&result.exchange));
    lines.push(String::new());
    printable(&lines.join("\n"))
}

/// Where the files of a check lie, for a sentence, if it had traffic.
pub(crate) fn trace_path(out: Option<&Path>, judged: &Judged<'_>) -> Option<PathBuf> {
    let has_traffic = !judged.result.exchange.connections.is_empty();
    out.filter(|_| has_traffic).map(|dir| dir.join(format!("{}.trace.txt", stem(judged.subsystem, &judged.result.id))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_hold_nothing_odd() {
        assert_eq!(stem(None, "tcp/icreq/pfv-unsupported/one"), "tcp.icreq.pfv-unsupported.one");
        assert_eq!(stem(None, "../a b\0"), "__.a_b_");
        assert_eq!(stem(Some("nqn.2014-08.a:b"), "c/d"), "nqn_2014-08_a_b_c.d");
        assert_eq!(stem(Some(&"x".repeat(223)), "c/d").len(), 84);
    }
}
