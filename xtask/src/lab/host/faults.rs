//! Targets that are wrong, one after the other, and what the guest's host does with each: what the product is for.
//!
//! The faults stand in `xtask/lab/host.fault`. Each has a target and associations of its own, and `xtask/lab/wrong.sh` bounds
//! its time. A fault that the host does not notice must be known, with the reason; so must be the one that it does no longer.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use nvmf_capture::{Capture, EventKind};
use nvmf_scenario::ast::Script;
use nvmf_wire::tcp::{Pdu, PduType, TermReq};

use super::guest::{self, Guest};
use super::klog;
use super::target::{CAPTURE, NQN, Reach, Target};
use super::{empty, kernel_records, settle};

const SCRIPT: &str = "xtask/lab/host.fault";
const TEXT: &str = include_str!("../../../lab/host.fault");

/// Faults that the Linux host does not notice, and why that is.
const UNNOTICED: &[(&str, &str)] = &[
    ("r2t-wraps", "R2TO is not looked at: it comes back as DATAO, with the data that are next"),
    ("r2t-offset", "R2TO is not looked at: it comes back as DATAO, with the data that are next"),
    ("r2t-odd", "R2TL need not be a multiple of 4: as much is sent"),
    ("c2h-gap", "DATAO is not looked at: data is placed as it comes"),
    ("c2h-first-offset", "DATAO is not looked at: data is placed as it comes"),
    ("c2h-no-last", "LAST_PDU is not looked at without SUCCESS: the amount of data is counted"),
    ("c2h-last-early", "LAST_PDU is not looked at without SUCCESS: the amount of data is counted"),
    ("c2h-damaged", "without a digest nothing tells"),
    ("response-plen", "PLEN of a response is not looked at"),
    ("response-sqid", "SQID is reserved, and not looked at"),
    ("response-sqhd", "SQHD is not looked at: the host counts commands, not queue entries"),
    ("event-reserved", "an unknown event is dropped"),
    ("event-flood", "each event is taken, and another request sent"),
    ("discovery-format", "nvme-cli does not look at RECFMT of the discovery log"),
];

/// A guest that says nothing for so long hangs: `wrong.sh` tells how each of its steps ended.
const PATIENCE: Duration = Duration::from_secs(120);

/// One fault of `host.fault`.
struct HostFault {
    /// Its name.
    id: String,
    says: String,
    /// Its script, alone.
    text: String,
}

impl HostFault {
    /// All of them, in the order of the file.
    fn all() -> Result<Vec<HostFault>, String> {
        let scripts = nvmf_scenario::parse::parse(SCRIPT, TEXT).map_err(|e| e.to_string())?;
        let texts = TEXT.split("\nfault ").skip(1);
        let faults = scripts.into_iter().zip(texts).filter_map(|(script, text)| match script {
            Script::Fault(fault) => Some(HostFault { id: fault.id, says: fault.says, text: format!("fault {text}\n") }),
            _ => None,
        });
        Ok(faults.collect())
    }

    /// Writes its script to `dir` and returns the arguments with which a target plays it.
    fn arguments(&self, dir: &Path) -> Result<[String; 2], String> {
        let file = dir.join(format!("{}.fault", self.id));
        fs::write(&file, &self.text).map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        Ok(["--fault".into(), file.display().to_string()])
    }

    /// Whether it needs digests to be met.
    fn wants_digests(&self) -> bool {
        self.text.contains("hdgst") || self.text.contains("ddgst")
    }
}

/// What makes a target play the fault `id`, one of ours or of the suite's; `dir` takes its script.
pub fn arguments(id: &str, dir: &Path) -> Result<Vec<String>, String> {
    let ours = HostFault::all()?.into_iter().find(|fault| fault.id == id);
    Ok(ours.map_or(Ok(["--fault".into(), id.to_owned()]), |fault| fault.arguments(dir))?.to_vec())
}

/// What a host did with a target.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// What did not end well, such as `write hangs`.
    bad: Vec<String>,
    /// What the kernel's host said, each once.
    said: Vec<String>,
    /// What the kernel said about itself.
    complaints: Vec<String>,
    /// FES of each H2CTermReq.
    terminated: Vec<u16>,
    /// Why the guest is not fit for the next one.
    lost: Option<String>,
}

/// Runs them, or those named by `only`; `true` if the host did what is known of it. `boot` gives a guest: each may be the last of one.
pub fn run(boot: &dyn Fn() -> Result<Guest, String>, program: &Path, report: &Path, only: &[String]) -> Result<bool, String> {
    let mut faults = HostFault::all()?;
    if let Some(unknown) = only.iter().find(|id| !faults.iter().any(|fault| &fault.id == *id)) {
        return Err(format!("{SCRIPT} has no fault {unknown}"));
    }
    faults.retain(|fault| only.is_empty() || only.contains(&fault.id));
    empty(report)?;
    let mut guest = boot()?;
    // a target that is right comes first: what is said of that one is no sign
    let right = HostFault { id: "none".into(), says: "a target that is right".into(), text: "hdgst".into() };
    let calm = play(&guest, program, report, &right, &[])?;
    let usual: BTreeSet<String> = calm.said.iter().cloned().collect();
    let mut wrong = tell(&right, &calm, &BTreeSet::new(), report);
    for fault in &faults {
        let outcome = play(&guest, program, report, fault, &fault.arguments(report)?)?;
        wrong += tell(fault, &outcome, &usual, report);
        if outcome.lost.is_some() {
            guest = boot()?;
        }
    }
    println!("lab faults: {} targets, {wrong} that Linux did something new with; {}", faults.len(), report.display());
    Ok(wrong == 0)
}

/// One target.
fn play(guest: &Guest, program: &Path, report: &Path, fault: &HostFault, arguments: &[String]) -> Result<Outcome, String> {
    let dir = report.join(&fault.id);
    empty(&dir)?;
    let before = kernel_records(guest).len();
    let target = Target::start(program, &dir, Reach::Tcp, arguments)?;
    let digests = if fault.wants_digests() { "-g -G" } else { "" };
    let line = format!("sh -u /wrong.sh {} {NQN} {digests}", target.port);
    let mut outcome = Outcome::default();
    match guest::exec(guest.dir(), &line, PATIENCE).and_then(|(_, said)| settle(guest).map(|()| said)) {
        Ok(said) => outcome.read(&said),
        Err(e) => outcome.lost = Some(e),
    }
    target.stop()?;
    let records = kernel_records(guest);
    let records = records.get(before..).unwrap_or(&records);
    let _ = fs::write(dir.join("kernel.log"), klog::readable(records));
    outcome.kernel(records);
    outcome.terminated = terminations(&dir.join(CAPTURE))?;
    Ok(outcome)
}

impl Outcome {
    /// What `wrong.sh` tells.
    fn read(&mut self, said: &str) {
        for line in said.lines().filter_map(|line| line.strip_prefix("did ")) {
            let (what, how) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
            match (what, how) {
                (_, "ok") | ("state", "live") => {}
                ("end", left) => self.lost = Some(format!("{left} stays")),
                (what, "hangs") => self.bad.push(format!("{what} hangs")),
                ("state", state) => self.bad.push(format!("state {state}")),
                (what, _) => self.bad.push(format!("{what} fails")),
            }
        }
    }

    fn kernel(&mut self, records: &str) {
        self.complaints = klog::complaints(records).into_iter().map(str::to_owned).collect();
        if let Some(line) = klog::death(records) {
            self.lost = Some(line.to_owned());
        }
        for line in klog::host_errors(records).wrong {
            let line = nameless(line);
            if !self.said.contains(&line) {
                self.said.push(line);
            }
        }
    }

    /// Whether the host did: not by its data being wrong, and not by our target's word, which saw what the host made of it.
    fn noticed(&self, usual: &BTreeSet<String>) -> bool {
        let told = self.said.iter().any(|line| line.starts_with("Received CNHTermReq"));
        let said = !told && self.said.iter().any(|line| !usual.contains(line));
        said || self.bad.iter().any(|what| what != "compare fails") || !self.terminated.is_empty() || self.lost.is_some()
    }
}

/// `nvme nvme0: queue 1: bad` without the device and numbers, which differ from run to run.
fn nameless(line: &str) -> String {
    let text = line.split_once(": ").map_or(line, |(_, text)| text);
    let mut out = String::new();
    for c in text.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('N') {
            out.push('N');
        }
    }
    out
}

fn terminations(capture: &Path) -> Result<Vec<u16>, String> {
    let capture = Capture::open(capture).map_err(|e| format!("{}: {e}", capture.display()))?;
    let sent = capture.exchange().events().into_iter().filter_map(|(_, event)| {
        let EventKind::Pdu(bytes) = &event.kind else { return None };
        let pdu = Pdu::parse(bytes).ok().filter(|pdu| pdu.ptype() == PduType::H2C_TERM_REQ)?;
        TermReq::read(&pdu.header).ok().map(|term| term.fes().0)
    });
    Ok(sent.collect())
}

/// Prints a row; 1 where it is not what is known.
fn tell(fault: &HostFault, outcome: &Outcome, usual: &BTreeSet<String>, report: &Path) -> usize {
    let noticed = outcome.noticed(usual);
    let known = UNNOTICED.iter().find(|(id, _)| *id == fault.id);
    let is_right = fault.id == "none";
    let as_known = outcome.complaints.is_empty() && if is_right { !noticed } else { noticed == known.is_none() };
    let mut text = format!("{:<5} {:<26} {}", if as_known { "ok" } else { "NEW" }, fault.id, fault.says);
    let mut add = |what: &str, items: &[String]| {
        if !items.is_empty() {
            let _ = write!(text, "\n        {what}: {}", items.join("; "));
        }
    };
    let fes: Vec<String> = outcome.terminated.iter().map(|fes| format!("FES {fes:02x}h")).collect();
    add("ended", &outcome.bad);
    add("H2CTermReq", &fes);
    add("kernel", &outcome.said);
    add("COMPLAINTS", &outcome.complaints);
    add("guest", outcome.lost.as_slice());
    match known {
        Some((_, reason)) if !noticed => add("not noticed", &[(*reason).to_owned()]),
        _ if !noticed && !is_right => add("not noticed", &["no reason known".to_owned()]),
        _ => {}
    }
    println!("lab faults: {text}");
    let table = report.join("faults.txt");
    let before = guest::lossy(&table);
    let _ = fs::write(table, format!("{before}{text}\n"));
    usize::from(!as_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_stands_alone_and_what_is_known_is_of_one() {
        let faults = HostFault::all().expect("the script is right");
        assert!(faults.len() > 40);
        for fault in &faults {
            let alone = nvmf_scenario::parse::parse(&fault.id, &fault.text).expect("a script");
            assert!(matches!(&alone[..], [Script::Fault(f)] if f.id == fault.id), "{}", fault.id);
        }
        for (id, _) in UNNOTICED {
            assert!(faults.iter().any(|fault| fault.id == *id), "{id}");
        }
    }

    #[test]
    fn what_did_not_end_well_is_noticed() {
        let mut outcome = Outcome::default();
        outcome.read("did connect ok\ndid state live \ndid end ok\n");
        outcome.kernel("3,1,1,-;nvme nvme3: queue 2: usual\n");
        let usual = BTreeSet::from(["queue N: usual".to_owned()]);
        assert_eq!(outcome, Outcome { said: vec!["queue N: usual".into()], ..Outcome::default() });
        assert!(!outcome.noticed(&usual) && outcome.noticed(&BTreeSet::new()));
        outcome.read("did write hangs\ndid compare 1\ndid end nvme0\n");
        assert_eq!(outcome.bad, ["write hangs", "compare fails"]);
        assert_eq!(outcome.lost.as_deref(), Some("nvme0 stays"));
        assert!(outcome.noticed(&usual));
        // the data is wrong, or our target has said so: the host did not notice
        let said = vec!["Received CNHTermReq (FES = x)".to_owned()];
        let silent = Outcome { bad: vec!["compare fails".into()], said, ..Outcome::default() };
        assert!(!silent.noticed(&usual));
    }
}
