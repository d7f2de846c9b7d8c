//! `cargo xtask tidy`: rules on the project's files that neither rustc nor clippy knows.
//!
//! Source rules are in [`source`], rules on any text in [`text`], the crates' manifests and dependency arrows in
//! [`manifests`], scripts and recorded data in [`data`]. A finding is an error or a warning; only errors fail.

mod data;
mod manifests;
mod source;
mod text;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cmd;

/// One rule broken at one place.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, relative to the workspace root, with `/` between folders.
    pub file: String,
    /// The line, from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// What is wrong, and what to do where that is not plain.
    pub message: String,
    /// Whether it fails the run.
    pub grave: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.grave { "error" } else { "warning" };
        match self.line {
            0 => write!(f, "{kind}: {}: {}", self.file, self.message),
            line => write!(f, "{kind}: {}:{line}: {}", self.file, self.message),
        }
    }
}

/// One file of the project.
pub struct Source {
    /// Relative to the workspace root, with `/` between folders.
    pub path: String,
    /// Its text; nothing for a file that is not UTF-8.
    pub text: Option<String>,
}

impl Source {
    /// A finding in this file.
    pub fn finding(&self, line: usize, grave: bool, message: impl Into<String>) -> Finding {
        Finding { file: self.path.clone(), line, message: message.into(), grave }
    }
}

/// Runs all rules; an error if one of them is broken.
pub fn run(args: &[String]) -> Result<(), String> {
    if let Some(arg) = args.first() {
        return Err(format!("tidy takes no argument, and was given `{arg}`"));
    }
    let files = files(&cmd::root()?)?;
    let mut findings = source::check(&files);
    findings.extend(text::check(&files));
    findings.extend(manifests::check(&files));
    findings.extend(data::check(&files));
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.grave).count();
    println!("tidy: {} files, {errors} errors, {} warnings", files.len(), findings.len() - errors);
    match errors {
        0 => Ok(()),
        _ => Err(format!("tidy: {errors} rules broken")),
    }
}

/// Build output and what runs leave behind; everything else is the project.
const NOT_OURS: &[&str] = &[".git", ".lab", "target", "nvmfspec-report", "node_modules"];

/// All files of the project, in the order of their paths.
fn files(root: &Path) -> Result<Vec<Source>, String> {
    let mut files = Vec::new();
    let mut todo: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(dir) = todo.pop() {
        let entries = fs::read_dir(&dir).map_err(|e| format!("cannot list {}: {e}", dir.display()))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            if NOT_OURS.iter().any(|other| name == *other) {
                continue;
            }
            let path = entry.path();
            if path.is_dir() {
                todo.push(path);
                continue;
            }
            let inside = path.strip_prefix(root).unwrap_or(&path);
            let parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
            let text = fs::read(&path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            files.push(Source { path: parts.join("/"), text });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}
