//! The scripts: those in the binary, and those of a folder, which add to them or replace those of the same id.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nvmf_scenario::ast::{Case, Check, ClassWord, Expr, Fault, Scenario, Script, Stmt, What};
use nvmf_scenario::{ScriptError, parse, transport};

use crate::verdict::Class;

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// All checks and faults known.
#[derive(Clone, Debug, Default)]
pub struct Suite {
    checks: BTreeMap<String, SuiteCheck>,
    faults: BTreeMap<String, SuiteFault>,
}

/// A check with the file that it stands in.
#[derive(Clone, Debug)]
pub struct SuiteCheck {
    /// The script.
    pub script: Check,
    /// File, as for errors.
    pub file: String,
    /// Its text.
    pub source: String,
    /// Where it was written as a scenario: what has to cross the wire while the host's statements run.
    pub wire: Option<Scenario>,
}

/// A fault with the file that it stands in.
#[derive(Clone, Debug)]
pub struct SuiteFault {
    /// The script.
    pub script: Fault,
    /// File, as for errors.
    pub file: String,
}

/// One row of one check: what counts as a check.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The check.
    pub check: &'a SuiteCheck,
    /// Its row, where it has a table.
    pub case: Option<&'a Case>,
}

/// A suite that cannot be loaded.
#[derive(Debug)]
pub enum SuiteError {
    /// A script is wrong.
    Script(ScriptError),
    /// A file or folder cannot be read.
    Io(PathBuf, std::io::Error),
    /// Two scripts of one load have the same id.
    Twice(String, String, String),
}

impl std::fmt::Display for SuiteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Script(e) => e.fmt(f),
            Self::Io(p, e) => write!(f, "{}: {e}", p.display()),
            Self::Twice(id, a, b) => write!(f, "`{id}` stands in {a} and in {b}; expected an id of its own"),
        }
    }
}

impl std::error::Error for SuiteError {}

impl Suite {
    /// The scripts in the binary.
    pub fn embedded() -> Result<Self, SuiteError> {
        let mut s = Self::default();
        s.add(EMBEDDED.iter().map(|(n, t)| ((*n).to_owned(), (*t).to_owned())).collect())?;
        Ok(s)
    }

    /// Adds the `.check` and `.fault` files below `dir`. A script with a known id takes its place.
    pub fn add_dir(&mut self, dir: &Path) -> Result<(), SuiteError> {
        let mut files = Vec::new();
        walk(dir, &mut files)?;
        files.sort();
        let mut texts = Vec::new();
        for f in files {
            let text = fs::read_to_string(&f).map_err(|e| SuiteError::Io(f.clone(), e))?;
            texts.push((f.display().to_string(), text));
        }
        self.add(texts)
    }

    /// Adds the scripts of one file.
    pub fn add_file(&mut self, path: &Path) -> Result<(), SuiteError> {
        let text = fs::read_to_string(path).map_err(|e| SuiteError::Io(path.to_owned(), e))?;
        self.add(vec![(path.display().to_string(), text)])
    }

    fn add(&mut self, files: Vec<(String, String)>) -> Result<(), SuiteError> {
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for (file, text) in files {
            for script in parse::parse(&file, &text).map_err(SuiteError::Script)? {
                let id = match &script {
                    Script::Check(c) => c.id.clone(),
                    Script::Fault(f) => f.id.clone(),
                    Script::Scenario(s) => s.id.clone(),
                };
                if let Some(first) = seen.insert(id.clone(), file.clone()) {
                    return Err(SuiteError::Twice(id, first, file));
                }
                match script {
                    Script::Check(script) => {
                        let source = source_of(&text, script.place.line);
                        self.checks.insert(id, SuiteCheck { script, file: file.clone(), source, wire: None });
                    }
                    Script::Fault(script) => {
                        self.faults.insert(id, SuiteFault { script, file: file.clone() });
                    }
                    Script::Scenario(scenario) => {
                        let source = source_of(&text, scenario.place.line);
                        let script = played(&scenario);
                        self.checks.insert(id, SuiteCheck { script, file: file.clone(), source, wire: Some(scenario) });
                    }
                }
            }
        }
        Ok(())
    }

    /// The checks, by id.
    pub fn checks(&self) -> impl Iterator<Item = &SuiteCheck> {
        self.checks.values()
    }

    /// The faults, by id.
    pub fn faults(&self) -> impl Iterator<Item = &SuiteFault> {
        self.faults.values()
    }

    /// The fault with that id.
    pub fn fault(&self, id: &str) -> Option<&SuiteFault> {
        self.faults.get(id)
    }

    /// The check with that id, without a case.
    pub fn check(&self, id: &str) -> Option<&SuiteCheck> {
        self.checks.get(id)
    }

    /// Every row of every check in the order in which they run: prerequisites first, then by class, then by id.
    pub fn items(&self) -> Vec<Item<'_>> {
        let mut order: Vec<&SuiteCheck> = self.checks.values().collect();
        let rank = |c: &SuiteCheck| BASE.iter().position(|b| *b == c.script.id).unwrap_or(BASE.len());
        order.sort_by(|a, b| (rank(a), a.class(), &a.script.id).cmp(&(rank(b), b.class(), &b.script.id)));
        let mut placed: Vec<&SuiteCheck> = Vec::new();
        for c in order {
            self.place(c, &mut placed, 0);
        }
        placed.into_iter().flat_map(SuiteCheck::items).collect()
    }

    /// Puts what `c` comes after in front of it. A circle is cut at 32 steps.
    fn place<'a>(&'a self, c: &'a SuiteCheck, placed: &mut Vec<&'a SuiteCheck>, depth: usize) {
        if placed.iter().any(|p| p.script.id == c.script.id) {
            return;
        }
        for a in c.script.after.iter().filter(|_| depth < 32) {
            if let Some(first) = self.checks.get(&a.it) {
                self.place(first, placed, depth + 1);
            }
        }
        placed.push(c);
    }
}

/// Checks that judge what the verbs `connect …` need, in the order of the way up.
pub const BASE: &[&str] = &[
    "tcp/icreq/answered",
    "rdma/cm/accepted",
    "fabrics/connect/admin",
    "fabrics/connect/enable",
    "fabrics/connect/io",
    "discovery/connect",
];

impl SuiteCheck {
    /// What it may do to the peer: the declared class, or *writes*.
    pub fn class(&self) -> Class {
        match (self.script.class, &self.script.writes) {
            (ClassWord::Destructive, _) => Class::Destructive,
            (ClassWord::Disruptive, _) => Class::Disruptive,
            (ClassWord::Safe, Some(_)) => Class::Writes,
            (ClassWord::Safe, None) => Class::Safe,
        }
    }

    /// Whether it can be played over TCP alone: it speaks of PDUs, not only of capsules.
    pub fn is_of_tcp(&self) -> bool {
        transport::is_of_tcp(&self.script)
    }

    /// Whether it can be played over RDMA alone.
    pub fn is_of_rdma(&self) -> bool {
        transport::is_of_rdma(&self.script)
    }

    /// Requirement ids.
    pub fn cites(&self) -> Vec<String> {
        self.script.cites.iter().map(|c| c.it.clone()).collect()
    }

    /// Its rows; one without a name where it has no table.
    pub fn items(&self) -> Vec<Item<'_>> {
        if self.script.cases.is_empty() {
            return vec![Item { check: self, case: None }];
        }
        self.script.cases.iter().map(|c| Item { check: self, case: Some(c) }).collect()
    }
}

impl Item<'_> {
    /// `check` or `check/case`.
    pub fn id(&self) -> String {
        match self.case {
            Some(c) => format!("{}/{}", self.check.script.id, c.name),
            None => self.check.script.id.clone(),
        }
    }
}

/// A scenario's host as the statements of a check. It writes where one of its statements does.
fn played(scenario: &Scenario) -> Check {
    let writes = scenario.host.iter().any(writes);
    Check {
        id: scenario.id.clone(),
        says: scenario.says.clone(),
        cites: Vec::new(),
        class: ClassWord::Safe,
        alone: None,
        over: Some(scenario.over),
        writes: writes.then_some(Expr::Int(0)),
        after: Vec::new(),
        needs: Vec::new(),
        cases: Vec::new(),
        body: scenario.host.clone(),
        place: scenario.place,
    }
}

/// Whether a statement changes blocks of a namespace.
fn writes(statement: &Stmt) -> bool {
    let changes = |command: &str| matches!(command, "Write" | "WriteZeroes" | "WriteUncorrectable" | "DatasetManagement" | "Copy");
    match &statement.what {
        What::Transfer { write, .. } => *write,
        What::Command { name, .. } => changes(name),
        What::Send { command, .. } => command.as_deref().is_some_and(changes),
        What::Repeat(_, inner) | What::If(_, inner) => inner.iter().any(writes),
        _ => false,
    }
}

/// The lines of a script from its first line to the next script.
fn source_of(text: &str, line: usize) -> String {
    let mut lines = text.lines().skip(line.saturating_sub(1));
    let mut out = lines.next().unwrap_or("").to_owned();
    for l in lines.take_while(|l| l.is_empty() || l.starts_with([' ', '#'])) {
        out.push('\n');
        out.push_str(l);
    }
    out.truncate(out.trim_end().len());
    out
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), SuiteError> {
    let list = fs::read_dir(dir).map_err(|e| SuiteError::Io(dir.to_owned(), e))?;
    for e in list {
        let p = e.map_err(|e| SuiteError::Io(dir.to_owned(), e))?.path();
        if p.is_dir() {
            walk(&p, files)?;
        } else if p.extension().is_some_and(|x| x == "check" || x == "fault") {
            files.push(p);
        }
    }
    Ok(())
}
