//! `nvmfspec sim`: plays a simulation: hosts and targets on a network of frames while things go wrong; and looks for seeds that break it.

use std::ffi::OsString;
use std::fs;
use std::io::BufWriter;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use nvmf_conformance::ExitStatus;
use nvmf_fabric::{Fleet, Report, Scene};

use crate::values::TransportArg;
use crate::{output, scenario};

const RUN_HELP: &str = "\
Examples:
  nvmfspec sim run tests/sims/mixed-faults.sim --seed 7                      what came of it
  nvmfspec sim run tests/sims/mixed-faults.sim --seed 7 --pcap out.pcapng    and every frame, for Wireshark
  nvmfspec sim run tests/sims/mixed-faults.sim --seed 7 --faults 1,4         with its first and fourth fault alone
  nvmfspec sim run my.check --seed 7 --pcap out.pcapng                       the checks of a script, over frames

A script of checks (.check, .scenario) is played against the reference target through a switch, as by `nvmfspec scenario SCRIPT --world sim
--frames`, which has more options.
The same file and seed give the same run, to the frame: `trace` in the first line tells two runs apart. docs/simulation.md has the
language of the files.

Exit status: 0 everything held; 1 something did not; 2 the file or the command line is wrong; 3 the capture could not be written.";

const SEARCH_HELP: &str = "\
Examples:
  nvmfspec sim search tests/sims/mixed-faults.sim --seeds 1..1000    until a seed breaks it
  nvmfspec sim search tests/sims/lost-write.sim --seeds 1..1000      a bug that is planted

Seeds are tried beside each other on all cores. Of those that fail the least is taken, faults that it does not need are left out, and
the line that plays it again is printed.

Exit status: 0 every seed held; 1 one did not; 2 the file or the command line is wrong.";

/// Simulate hosts, targets and the network between them.
#[derive(clap::Subcommand)]
pub enum Args {
    /// Play one simulation
    #[command(after_help = RUN_HELP)]
    Run(RunArgs),
    /// Look for a seed that breaks a simulation
    #[command(after_help = SEARCH_HELP)]
    Search(SearchArgs),
}

/// One run.
#[derive(clap::Args)]
pub struct RunArgs {
    /// The simulation, or a script of checks
    #[arg(value_name = "FILE.sim|SCRIPT")]
    file: PathBuf,
    /// Everything random follows from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write every frame of every link, one interface a link; of a script those at the player
    #[arg(long, value_name = "OUT.pcapng")]
    pcap: Option<PathBuf>,
    /// What carries the capsules of a script; a simulation always has RDMA
    #[arg(long, value_enum, value_name = "tcp|rdma")]
    transport: Option<TransportArg>,
    /// Play with these faults alone, counted from 1 in the order of the file; 0 for none
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    faults: Option<Vec<usize>>,
}

/// A search.
#[derive(clap::Args)]
pub struct SearchArgs {
    /// The simulation
    #[arg(value_name = "FILE.sim")]
    file: PathBuf,
    /// The seeds, the last one included
    #[arg(long, value_name = "A..B", value_parser = seeds)]
    seeds: Range<u64>,
    /// How many at a time; as many as there are cores where it is not given
    #[arg(long, value_name = "N")]
    jobs: Option<std::num::NonZero<usize>>,
}

/// `A..B`, both included.
fn seeds(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("`{text}`: A..B was expected, such as 1..1000");
    let (a, b) = text.split_once("..").ok_or_else(wrong)?;
    let (a, b): (u64, u64) = (a.parse().map_err(|_| wrong())?, b.parse().map_err(|_| wrong())?);
    b.checked_add(1).filter(|end| *end > a).map(|end| a..end).ok_or_else(wrong)
}

/// Plays, or searches.
pub fn run(args: &Args) -> ExitCode {
    match args {
        Args::Run(args) => play(args),
        Args::Search(args) => search(args),
    }
}

fn scene(path: &Path) -> Result<Scene, ExitCode> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let scene = text.and_then(|t| Scene::parse(&t).map_err(|e| format!("{}: {e}", path.display())));
    scene.map_err(|e| output::refuse(ExitStatus::Usage, &e))
}

/// A script of checks, over frames.
fn script(args: &RunArgs) -> ExitCode {
    if args.faults.is_some() {
        return output::refuse(ExitStatus::Usage, "--faults is for simulations: a script is played without");
    }
    let mut words: Vec<OsString> = vec!["--seed".into(), args.seed.to_string().into()];
    let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
    args.pcap.iter().for_each(|path| option("--pcap", path.into()));
    args.transport.iter().for_each(|t| option("--transport", t.to_string().into()));
    match scenario::Args::over_frames(&args.file, &words) {
        Ok(args) => scenario::run(args),
        Err(e) => output::refuse(ExitStatus::Usage, &e.to_string()),
    }
}

fn play(args: &RunArgs) -> ExitCode {
    if args.file.extension().is_some_and(|e| e == "check" || e == "scenario") {
        return script(args);
    }
    if args.transport.is_some() {
        return output::refuse(ExitStatus::Usage, "--transport is for scripts: the hosts of a simulation have RDMA");
    }
    let whole = match scene(&args.file) {
        Ok(scene) => scene,
        Err(status) => return status,
    };
    let count = whole.faults.len();
    if let Some(n) = args.faults.iter().flatten().find(|n| **n > count) {
        return output::refuse(ExitStatus::Usage, &format!("--faults {n}: {} has {count}", args.file.display()));
    }
    let scene = match &args.faults {
        None => whole,
        Some(numbers) => whole.only(&numbers.iter().filter_map(|n| n.checked_sub(1)).collect::<Vec<_>>()),
    };
    let mut fleet = match Fleet::new(&scene, args.seed) {
        Ok(fleet) => fleet,
        Err(e) => return output::refuse(ExitStatus::Usage, &format!("{}: {e}", args.file.display())),
    };
    if let Some(path) = &args.pcap {
        let begun = fs::File::create(path).and_then(|f| fleet.capture(Box::new(BufWriter::new(f))));
        if let Err(e) = begun {
            return output::refuse(ExitStatus::Harness, &format!("{} cannot be written: {e}", path.display()));
        }
    }
    match fleet.run() {
        Ok(report) => {
            output::print(&report.to_string());
            standing(&report)
        }
        Err(e) => output::refuse(ExitStatus::Harness, &format!("the capture cannot be written: {e}")),
    }
}

fn standing(report: &Report) -> ExitCode {
    if report.violations.is_empty() { ExitStatus::Success.into() } else { ExitStatus::Failed.into() }
}

/// What came of a run without a capture.
fn judge(scene: &Scene, seed: u64) -> Result<Report, String> {
    Fleet::new(scene, seed)?.run().map_err(|e| e.to_string())
}

/// The least seed that fails, and how many were tried.
fn least(scene: &Scene, seeds: Range<u64>, jobs: usize) -> Result<(Option<Report>, u64), String> {
    let (next, tried) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
    let found: Mutex<Option<Result<Report, String>>> = Mutex::new(None);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let outcome = judge(scene, seed);
            tried.fetch_add(1, Ordering::Relaxed);
            if outcome.as_ref().is_ok_and(|r| r.violations.is_empty()) {
                continue;
            }
            // seeds below this one were taken before it, and are played to their ends
            next.store(seeds.end, Ordering::Relaxed);
            let mut found = found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let earlier = matches!(&*found, Some(Ok(r)) if r.seed < seed);
            if !earlier {
                *found = Some(outcome);
            }
        }
    };
    thread::scope(|s| (0..jobs).for_each(|_| drop(s.spawn(work))));
    let found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok((found.transpose()?, tried.into_inner()))
}

/// Leaves out one fault after the other for as long as the run still fails; gives what is left, by number from 0 on.
fn shrink(scene: &Scene, seed: u64) -> Result<Vec<usize>, String> {
    let mut keep: Vec<usize> = (0..scene.faults.len()).collect();
    for fault in (0..scene.faults.len()).rev() {
        let fewer: Vec<usize> = keep.iter().copied().filter(|n| *n != fault).collect();
        if !judge(&scene.only(&fewer), seed)?.violations.is_empty() {
            keep = fewer;
        }
    }
    Ok(keep)
}

fn search(args: &SearchArgs) -> ExitCode {
    let scene = match scene(&args.file) {
        Ok(scene) => scene,
        Err(status) => return status,
    };
    let cores = || thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = args.jobs.map_or_else(cores, std::num::NonZero::get);
    let wrong = |e: String| output::refuse(ExitStatus::Usage, &format!("{}: {e}", args.file.display()));
    let (report, tried) = match least(&scene, args.seeds.clone(), jobs) {
        Ok((None, tried)) => return output::print(&format!("{}: {tried} seeds held\n", scene.name)),
        Ok((Some(report), tried)) => (report, tried),
        Err(e) => return wrong(e),
    };
    let seed = report.seed;
    let keep = match shrink(&scene, seed) {
        Ok(keep) => keep,
        Err(e) => return wrong(e),
    };
    let shrunk = match judge(&scene.only(&keep), seed) {
        Ok(report) => report,
        Err(e) => return wrong(e),
    };
    let mut text = format!("{}: seed {seed} fails; {tried} were tried\n", scene.name);
    shrunk.violations.iter().for_each(|v| text.push_str(&format!("violation: {v}\n")));
    keep.iter().filter_map(|n| scene.faults.get(*n)).for_each(|f| text.push_str(&format!("needs: {}\n", f.text)));
    let numbers: Vec<String> = keep.iter().map(|n| (n + 1).to_string()).collect();
    let numbers = if numbers.is_empty() { "0".to_owned() } else { numbers.join(",") };
    text.push_str(&format!("again: nvmfspec sim run {} --seed {seed} --faults {numbers}\n", args.file.display()));
    output::print(&text);
    ExitStatus::Failed.into()
}
