//! One run of the suite from the first packet to the exit status: shows it, keeps what was measured, writes the reports.
//!
//! Whatever breaks on the way, what was measured until then is reported: a file that cannot be written, a second subsystem that is
//! not there, an interrupt. So everything that an interrupt needs lies in a [`Session`] behind a lock.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Stdout;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use nvmf_conformance::report::console::Console;
use nvmf_conformance::report::files::{self, FileError, OutDir};
use nvmf_conformance::report::{Judged, Report, Wall};
use nvmf_conformance::runner::{Beside, Event, Options, RunError, Runner, Writes};
use nvmf_conformance::suite::{Item, Suite};
use nvmf_conformance::{CheckResult, Class, ExitStatus, Expectations, Policy, Run, Standing, Summary, select};

use crate::conformance::{Allow, PeerArgs, ReportArgs, WorldArg};
use crate::output;
use crate::place::Place;
use crate::values::Uuid;

/// The Host Identifier used where none is given; the Host NQN is made from it.
const HOSTID: Uuid = Uuid([0x6e, 0x76, 0x6d, 0x66, 0x73, 0x70, 0x45, 0x63, 0x80, 0, 0, 0, 0, 0, 0, 2]);

/// Checks beside each other where `--jobs` does not say how many. They wait most of the time, so this has nothing to do with cores;
/// targets with fewer controllers to give are noticed.
const JOBS: usize = 8;

/// What is to run, once all files are read and all names are known to be good.
pub struct Plan {
    /// The checks.
    pub suite: Suite,
    /// Prefixes of those that run; none means all.
    pub filters: Vec<String>,
    /// What is expected.
    pub expectations: Option<Expectations>,
    /// The command that runs these checks, and where they come from, for the line that runs one of them again.
    pub command: String,
}

impl Plan {
    /// Whether a check runs: selected, and not excluded.
    pub fn runs(&self, id: &str) -> bool {
        select::any_matches(&self.filters, id) && self.expectations.as_ref().and_then(|e| e.exclusion(id)).is_none()
    }

    /// The checks that the expectation file excludes, with the reason.
    fn excluded(&self) -> Vec<(String, String)> {
        let Some(expectations) = &self.expectations else {
            return Vec::new();
        };
        let ids = self.suite.items().iter().map(Item::id).collect::<Vec<String>>().into_iter();
        ids.filter_map(|id| expectations.exclusion(&id).map(str::to_owned).map(|why| (id, why))).collect()
    }
}

/// Runs a plan against the peer and ends with the exit status.
pub fn run(plan: Plan, peer: PeerArgs, reports: ReportArgs) -> ExitCode {
    let mut place = match Place::open(&peer) {
        Ok(place) => place,
        Err((status, message)) => return output::refuse(status, &message),
    };
    let options = options(&plan, &peer, &place);
    let session = Arc::new(Mutex::new(Session::new(reports, &options, plan.expectations)));
    end_at_interrupt(&session);
    let more = place.more.as_deref();
    let beside = more.map(|network| Beside { jobs: peer.jobs.map_or(JOBS, NonZeroUsize::get), network });
    let runner = Runner::new(&plan.suite, &options, &mut *place.net).beside(beside);
    let play = || runner.run(&mut |event| locked(&session).show(event));
    let outcome = catch_unwind(AssertUnwindSafe(play));
    let written = place.close();
    let mut session = locked(&session);
    match outcome {
        Ok(Ok(runs)) => session.runs = runs,
        Ok(Err(error)) if session.begun.is_empty() => {
            let status = if matches!(error, RunError::Usage(_)) { ExitStatus::Usage } else { ExitStatus::Harness };
            return output::refuse(status, &error.to_string());
        }
        // An earlier subsystem was tested.
        Ok(Err(error)) => session.abort(&error.to_string()),
        // It has said where, on standard error.
        Err(_) => session.abort("the harness broke"),
    }
    if let Err(error) = written {
        session.abort(&error);
    }
    session.end().into()
}

fn options(plan: &Plan, peer: &PeerArgs, place: &Place) -> Options {
    let class = |allow: &Allow| match allow {
        Allow::Disruptive => Class::Disruptive,
        Allow::Destructive => Class::Destructive,
    };
    // Our own target is there to be written to and reset.
    let allow = if place.embedded {
        BTreeSet::from([Class::Disruptive, Class::Destructive])
    } else {
        peer.allow.iter().map(class).collect()
    };
    let writes = match peer.allow_writes {
        Some(blocks) => Writes::Range { nsid: blocks.nsid, first: blocks.first, last: blocks.last },
        None if place.embedded => Writes::Anywhere,
        None => Writes::Forbidden,
    };
    let hostid = peer.hostid.or_else(|| uuid_of(peer.hostnqn.as_deref()?)).unwrap_or(HOSTID);
    Options {
        target: place.target.clone(),
        transport: place.transport,
        candidates: place.candidates.clone(),
        nqn: peer.nqn.clone(),
        all_subsystems: peer.all_subsystems,
        as_given: peer.connect_as_given,
        hostnqn: peer.hostnqn.clone().unwrap_or_else(|| format!("nqn.2014-08.org.nvmexpress:uuid:{hostid}")),
        hostid: hostid.0,
        filters: plan.filters.clone(),
        excluded: plan.excluded(),
        writes,
        allow,
        time_scale: peer.time_scale,
        seed: peer.seed,
        spec: peer.spec.map(|revision| revision.0),
        rules: true,
        world: if peer.world == WorldArg::Sim { "sim" } else { "real" }.into(),
        reproduce: format!("nvmfspec {} {}", plan.command, peer.again()).trim_end().to_owned(),
    }
}

/// The UUID in a Host NQN that is made from one: host and identifier then agree, as targets expect. [Base 2.0, 4.5]
fn uuid_of(nqn: &str) -> Option<Uuid> {
    nqn.strip_prefix("nqn.2014-08.org.nvmexpress:uuid:")?.parse().ok()
}

/// Another thread that panics while it holds the lock leaves a session that can still be reported.
fn locked(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// After an interrupt or a request to end, reports what was measured and ends the process.
fn end_at_interrupt(session: &Arc<Mutex<Session>>) {
    let session = session.clone();
    // Without the thread an interrupt ends the process as it always does; the run itself does not need it.
    let _ = std::thread::Builder::new().name("interrupt".into()).spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            return;
        };
        if runtime.block_on(interrupt()).is_ok() {
            let mut session = locked(&session);
            session.abort("interrupted");
            std::process::exit(session.end().code().into());
        }
    });
}

#[cfg(unix)]
async fn interrupt() -> std::io::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminate.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn interrupt() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}

/// What was measured, and where it is shown and written.
struct Session {
    reports: ReportArgs,
    out: Option<OutDir>,
    /// Files that could not be written: remembered, and no reason not to write the others.
    problems: Vec<FileError>,
    console: Console<Stdout>,
    expectations: Option<Expectations>,
    policy: Policy,
    by_subsystem: bool,
    /// The run under way, without results.
    blank: Run,
    /// One for each subsystem begun; results by the place of the check among those of the subsystem.
    begun: Vec<(Run, BTreeMap<usize, CheckResult>)>,
    /// What the runner gave at its end, in place of those.
    runs: Vec<Run>,
    started: SystemTime,
    clock: Instant,
}

impl Session {
    /// Opens the folder and tries the files of the reports; says so now if one cannot be written.
    fn new(reports: ReportArgs, options: &Options, expectations: Option<Expectations>) -> Self {
        let started = SystemTime::now();
        let mut problems = Vec::new();
        let mut out = reports.out.as_deref().and_then(|path| OutDir::open(path).map_err(|e| problems.push(e)).ok());
        if options.world == "real" {
            out = out.map(|out| out.dated(started));
        }
        problems.extend(reports.files().filter_map(|(path, _)| files::check_writable(path).err()));
        let mut console = Console::stdout(out.as_ref().map(|out| out.path().to_owned()));
        for problem in &problems {
            console.remark(&problem.to_string());
        }
        let policy = Policy { strict: reports.strict, lenient: reports.lenient };
        let Options { target, world, seed, all_subsystems: by_subsystem, .. } = options.clone();
        let blank = Run { target, world, seed, ..Run::default() };
        let clock = Instant::now();
        Self {
            reports,
            out,
            problems,
            console,
            expectations,
            policy,
            by_subsystem,
            blank,
            begun: Vec::new(),
            runs: Vec::new(),
            started,
            clock,
        }
    }

    fn show(&mut self, event: Event<'_>) {
        match event {
            Event::Plan { total, subsystem } => {
                self.begun.push((Run { subsystem: subsystem.to_owned(), ..self.blank.clone() }, BTreeMap::new()));
                self.console.plan(total, subsystem);
            }
            Event::Started(id) => self.console.started(id),
            Event::Finished { place, result } => self.finished(place, result),
            Event::PeerLost(by) => self.console.peer_lost(by),
            Event::PeerBack => self.console.peer_back(),
        }
    }

    fn finished(&mut self, place: usize, result: &CheckResult) {
        let entry = self.expectations.as_ref().and_then(|e| e.of(&result.id));
        let standing = Standing::of(result, entry, self.policy);
        let run = self.begun.last();
        let subsystem = run.map(|(run, _)| run.subsystem.as_str()).filter(|_| self.by_subsystem);
        if let Some(Err(problem)) = self.out.as_ref().map(|out| out.write_check(subsystem, result)) {
            self.problems.push(problem);
        }
        self.console.finished(&Judged { result, subsystem, standing, entry });
        if let Some((_, results)) = self.begun.last_mut() {
            results.insert(place, result.clone());
        }
    }

    /// The run does not reach its end.
    fn abort(&mut self, why: &str) {
        let begun = std::mem::take(&mut self.begun).into_iter();
        self.runs = begun.map(|(run, results)| Run { results: results.into_values().collect(), ..run }).collect();
        if self.runs.is_empty() {
            self.runs.push(self.blank.clone());
        }
        if let Some(run) = self.runs.last_mut() {
            run.aborted = Some(why.to_owned());
        }
    }

    /// Writes every report, prints the end, and gives the status. A report that cannot be written makes the run incomplete, which
    /// those that follow then say.
    fn end(&mut self) -> ExitStatus {
        let wall = Wall { started: self.started, took: self.clock.elapsed() };
        let expectations = self.expectations.as_ref();
        let mut summary = Summary::of(&self.runs, expectations, self.policy);
        let (runs, by_subsystem) = (self.runs.as_slice(), self.by_subsystem);
        let mut problems = std::mem::take(&mut self.problems);
        for (path, format) in self.reports.files() {
            summary.incomplete |= !problems.is_empty();
            let report = Report { runs, by_subsystem, summary: &summary, expectations, wall };
            problems.extend(format.write(path, &report).err());
        }
        summary.incomplete |= !problems.is_empty();
        let report = Report { runs, by_subsystem, summary: &summary, expectations, wall };
        problems.extend(self.out.as_ref().map(|out| out.write_reports(&report)).unwrap_or_default());
        summary.incomplete |= !problems.is_empty();
        let mut remarks: Vec<String> = Vec::new();
        for text in problems.iter().map(FileError::to_string) {
            if !remarks.contains(&text) {
                remarks.push(text);
            }
        }
        remarks.extend(self.out.as_ref().map(|out| format!("traces and reports: {}", out.path().display())));
        self.console.end(&Report { runs, by_subsystem, summary: &summary, expectations, wall }, &remarks);
        summary.status()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_nqn_of_a_uuid_gives_the_host_identifier() {
        let nqn = "nqn.2014-08.org.nvmexpress:uuid:00112233-4455-6677-8899-aabbccddeeff";
        assert_eq!(uuid_of(nqn).map(|uuid| uuid.to_string()).as_deref(), nqn.get(32..));
        assert_eq!(uuid_of("nqn.2014-08.com.example:host"), None);
    }
}
