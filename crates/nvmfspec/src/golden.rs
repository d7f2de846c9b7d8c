//! Scenarios that bring their own target: each is played in a simulated world of its own, and its packets are held beside the capture.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nvmf_capture::{Capture, Exchange};
use nvmf_conformance::ExitStatus;
use nvmf_conformance::report::printable;
use nvmf_fabric::Stage;
use nvmf_scenario::ast::{Scenario, Script};
use nvmf_scenario::golden;
use nvmf_scenario::player::Player;

use crate::output;

/// Differences shown of one scenario.
const SHOWN: usize = 20;

/// The scenarios of `file` that describe their target; none where it holds something else as well.
pub fn of(file: &Path) -> Option<Vec<Scenario>> {
    let text = std::fs::read_to_string(file).ok()?;
    let scripts = nvmf_scenario::parse::parse(&file.display().to_string(), &text).ok()?;
    let own = |script| match script {
        Script::Scenario(s) if !s.target.is_empty() => Some(s),
        _ => None,
    };
    scripts.into_iter().map(own).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
}

/// Plays those whose id begins with one of `filters`, or all where there are none.
pub fn run(file: &Path, scenarios: &[Scenario], filters: &[String], seed: u64) -> ExitCode {
    let chosen = |s: &&Scenario| filters.is_empty() || filters.iter().any(|f| s.id.starts_with(f.as_str()));
    let (mut out, mut played, mut wrong) = (String::new(), 0, 0);
    for s in scenarios.iter().filter(chosen) {
        played += 1;
        let said = match beside(file, s, seed) {
            Ok(None) => "pass".to_owned(),
            Ok(Some(differences)) => format!("fail\n{differences}"),
            Err(why) => format!("fail  {why}"),
        };
        wrong += u32::from(said != "pass");
        let _ = writeln!(out, "{}  {said}", s.id);
    }
    if played == 0 {
        return output::refuse(ExitStatus::Usage, "no scenario has such an id");
    }
    let _ = writeln!(out, "{played} scenarios, {wrong} not as they should be");
    let printed = output::print(&printable(&out));
    if wrong == 0 { printed } else { ExitStatus::Failed.into() }
}

/// What the run has otherwise than the scenario says and its capture has, or why they could not be compared.
fn beside(file: &Path, scenario: &Scenario, seed: u64) -> Result<Option<String>, String> {
    let run = play(scenario, seed)?;
    let off = |exchange: &Exchange, from: Option<&str>, whose: &str| {
        golden::matches(scenario, exchange, from).err().map_or(String::new(), |m| format!("{whose}, {m}\n"))
    };
    let mut said = off(&run, None, "the run");
    if let Some(golden) = &scenario.golden {
        let path = found(file, &golden.file).ok_or_else(|| format!("{} is neither here nor above the script", golden.file))?;
        let capture = Capture::open(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        said += &off(capture.exchange(), golden.from.as_deref(), &golden.file);
        if !golden.masks.is_empty() {
            let mask = |name: &str| {
                let path = file.with_file_name(format!("{name}.mask"));
                std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
            };
            let report = golden::packets(scenario, capture.exchange(), &run, mask)?;
            if !report.is_equal() {
                said += &report.text(SHOWN);
            }
        }
    }
    Ok(Some(said).filter(|t| !t.is_empty()))
}

fn play(scenario: &Scenario, seed: u64) -> Result<Exchange, String> {
    let mut stage = Stage::new(scenario.over);
    for s in golden::settings(scenario)? {
        stage.line(&s.what, &s.with).map_err(|e| format!("line {}: {e}", s.line))?;
    }
    let (ports, subnqn) = stage.reached().ok_or("the target has no port or no subsystem")?;
    let mut peer = golden::peer(ports, subnqn, stage.in_capsule());
    if let Some((nqn, id)) = stage.player() {
        (peer.hostnqn, peer.hostid) = (nqn.to_owned(), id);
    }
    let mut world = stage.build(seed, None)?;
    let (played, _) = Player::new(&mut *world, &peer, BTreeMap::new()).play(&scenario.host);
    match played.stop {
        Some(stop) => Err(format!("line {}: {}", stop.place.line, stop.message)),
        None => Ok(played.exchange),
    }
}

/// A path that is given from the project's root: from here, or from a folder above the script.
fn found(script: &Path, path: &str) -> Option<PathBuf> {
    let script = script.canonicalize().ok()?;
    let above = script.ancestors().skip(1).map(|dir| dir.join(path));
    std::iter::once(PathBuf::from(path)).chain(above).find(|p| p.is_file())
}
