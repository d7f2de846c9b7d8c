//! `nvmfspec host connect --exercise`: what a host does on a full day, twice: without digests, then with them.
//!
//! Each step says what was done, what could not be done here and why, how the controller deviates from what it says about itself, or what
//! was wrong. The bystander rules judge the traffic of all of them.

mod admin;
mod data;
mod life;
mod optional;

use clap::Args;
use nvmf_conformance::ExitStatus;
use nvmf_conformance::report::printable;
use nvmf_engine::host::HostSettings;
use nvmf_net::ClientError;
use nvmf_spec::Side;
use nvmf_wire::Qid;
use nvmf_wire::tcp::{Digests, IO_PORT};
use serde_json::{Value as Json, json};

use super::{Client, Failure, PeerArgs, only_subsystem, reach, settings};
use crate::output;
use crate::values::{Blocks, TransportArg};

/// A day shorter than a real one: KATO in milliseconds where none is given.
const KATO_MS: u32 = 2000;
/// Asynchronous Event Requests kept outstanding, where the controller takes as many.
const EVENTS: u8 = 4;

/// How to exercise the controller.
#[derive(Args, Debug)]
pub struct ExerciseArgs {
    /// Do what a host does on a full day, without and with digests, and judge the traffic
    #[arg(long, conflicts_with_all = ["seconds", "hdgst", "ddgst"], help_heading = "Exercise")]
    exercise: bool,
    /// Blocks that may be overwritten, the last one included; without NSID, of the lowest active namespace; without this it only reads
    #[arg(long, value_name = "[NSID:]FIRST-LAST", requires = "exercise", help_heading = "Exercise")]
    allow_writes: Option<Blocks>,
    /// Take no deviation and no finding of the controller's for a reason to fail: exit status 1 is left to steps that fail
    #[arg(long, requires = "exercise", help_heading = "Exercise")]
    own_side: bool,
}

impl ExerciseArgs {
    pub(super) fn wanted(&self) -> bool {
        self.exercise
    }

    pub(super) fn own_side(&self) -> bool {
        self.own_side
    }
}

/// What is wrong with a step.
#[derive(Debug)]
enum Wrong {
    /// The step failed; the next can be tried.
    Step(String),
    /// The association is gone.
    Lost(String),
}

impl From<ClientError> for Wrong {
    fn from(e: ClientError) -> Self {
        match e {
            ClientError::Open(_) | ClientError::Host(_) => Self::Lost(e.to_string()),
            _ => Self::Step(e.to_string()),
        }
    }
}

/// What came of a step that did not fail.
#[derive(Debug)]
enum Told {
    /// What was done, in a few words.
    Done(String),
    /// It cannot be done here, and nobody is wrong.
    Left(String),
    /// The controller does not keep to what it says about itself; the step went round it, and the rest was right.
    Deviates(String),
}

impl From<String> for Told {
    fn from(done: String) -> Self {
        Self::Done(done)
    }
}

type Step = Result<Told, Wrong>;

/// A step that was done.
fn done(text: impl Into<String>) -> Step {
    Ok(Told::Done(text.into()))
}

/// A step that cannot be done here.
fn left(why: impl Into<String>) -> Step {
    Ok(Told::Left(why.into()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Left,
    Deviates,
    Failed,
}

impl Outcome {
    /// In the console, and in JSON.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Done => ("ok", "done"),
            Self::Left => ("-", "left out"),
            Self::Deviates => ("DEV", "deviation"),
            Self::Failed => ("FAIL", "failed"),
        }
    }
}

/// The rest of a pass cannot be done.
#[derive(Debug)]
struct Over;

/// The steps as they come.
#[derive(Debug)]
struct Report {
    quiet: bool,
    pass: &'static str,
    steps: Vec<Done>,
}

#[derive(Debug)]
struct Done {
    pass: &'static str,
    name: &'static str,
    outcome: Outcome,
    detail: String,
}

impl Report {
    fn begin(&mut self, pass: &'static str) {
        self.pass = pass;
        self.say(&format!("{pass}\n"));
    }

    fn step(&mut self, name: &'static str, step: Step) -> Result<(), Over> {
        let (outcome, over, detail) = match step {
            Ok(Told::Done(text)) => (Outcome::Done, false, text),
            Ok(Told::Left(why)) => (Outcome::Left, false, format!("left out: {why}")),
            Ok(Told::Deviates(text)) => (Outcome::Deviates, false, text),
            Err(Wrong::Step(why)) => (Outcome::Failed, false, why),
            Err(Wrong::Lost(why)) => (Outcome::Failed, true, why),
        };
        // What was wrong may be told in the words of the peer.
        let detail = printable(&detail);
        self.say(&format!("  {:<5} {name:<22} {detail}\n", outcome.words().0));
        self.steps.push(Done { pass: self.pass, name, outcome, detail });
        if over { Err(Over) } else { Ok(()) }
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            output::print(text);
        }
    }

    fn count(&self, outcome: Outcome) -> usize {
        self.steps.iter().filter(|s| s.outcome == outcome).count()
    }

    fn json(&self) -> Vec<Json> {
        let one = |s: &Done| {
            let ok = s.outcome != Outcome::Failed;
            json!({ "pass": s.pass, "name": s.name, "ok": ok, "outcome": s.outcome.words().1, "detail": s.detail })
        };
        self.steps.iter().map(one).collect()
    }
}

/// Runs the exercise and prints it; what the rules found is printed too, and for the caller to make a status of.
pub(super) fn run(peer: &PeerArgs, args: &ExerciseArgs, json: bool) -> ExitStatus {
    let refuse = |failure: Failure| {
        let (status, why) = failure.told();
        output::refuse(status, &why);
        status
    };
    let subnqn = match peer.nqn.clone().map_or_else(|| only_subsystem(peer), Ok) {
        Ok(nqn) => nqn,
        Err(failure) => return refuse(failure),
    };
    let mut report = Report { quiet: json, pass: "", steps: Vec::new() };
    let passes = [("digests off", Digests::default()), ("digests on", Digests { header: true, data: true })];
    // Digests are NVMe/TCP's.
    let passes = if peer.transport == TransportArg::Rdma { &passes[..1] } else { &passes[..] };
    for (name, digests) in passes {
        let settings = day_settings(peer, &subnqn, *digests);
        report.begin(name);
        let client = match reach(peer, &[IO_PORT], &settings) {
            Ok((client, _)) => client,
            Err(failure) if report.steps.is_empty() => return refuse(failure),
            Err(failure) => {
                let _ = report.step("connect", Err(Wrong::Lost(failure.told().1)));
                continue;
            }
        };
        let again = || reach(peer, &[IO_PORT], &settings).map(|(client, _)| client).map_err(|f| Wrong::Lost(f.told().1));
        // Where it is over, the step that ended it has said why.
        let _ = pass(client, again, args, &settings, &mut report);
    }
    end(peer, args, json, &subnqn, &report)
}

fn day_settings(peer: &PeerArgs, subnqn: &str, digests: Digests) -> HostSettings {
    let mut settings = settings(peer, subnqn);
    settings.tcp.digests = digests;
    // Both are for the controller to grant or not.
    settings.insist_on_digests = false;
    settings.io_queues = peer.queues.max(2);
    settings.async_events = EVENTS;
    settings.kato_ms = peer.kato.unwrap_or(KATO_MS);
    settings.queue_deletion = true;
    settings
}

fn pass(
    mut client: Client,
    again: impl Fn() -> Result<Client, Wrong>,
    args: &ExerciseArgs,
    settings: &HostSettings,
    report: &mut Report,
) -> Result<(), Over> {
    report.step("connect", done(connected(&client)))?;
    day(&mut client, args, settings, report)?;
    let ended = client.disconnect();
    report
        .step("disconnect", ended.map(|_| Told::Done("CC.SHN, SHST complete, connections closed".into())).map_err(Wrong::from))?;
    let mut fresh = None;
    let step = again().map(|c| {
        let text = connected(&c);
        fresh = Some(c);
        Told::Done(text)
    });
    report.step("connect again", step)?;
    let Some(mut client) = fresh else { return Err(Over) };
    let step = data::Ground::find(&mut client, args.allow_writes).and_then(|ground| ground.first_read(&mut client));
    report.step("read", step)?;
    report.step("disconnect", client.disconnect().map(|_| Told::Done("in order".into())).map_err(Wrong::from))
}

fn connected(client: &Client) -> String {
    let f = client.facts();
    let on = |yes| if yes { "on" } else { "off" };
    let digests = f.negotiated.get(&Qid::ADMIN).and_then(|a| a.tcp()).map(|n| n.digests).unwrap_or_default();
    let least = f.negotiated.values().filter_map(|a| a.tcp()).map(|n| n.maxh2cdata).min().unwrap_or(0);
    format!(
        "CNTLID {:#06x}, {} I/O queues of {} entries, HDGST {}, DDGST {}, MAXH2CDATA {least}",
        f.cntlid.0,
        f.io_queues,
        f.io_entries,
        on(digests.header),
        on(digests.data),
    )
}

fn day(client: &mut Client, args: &ExerciseArgs, settings: &HostSettings, report: &mut Report) -> Result<(), Over> {
    for (name, step) in admin::STEPS {
        let done = step(client);
        report.step(name, done)?;
    }
    match data::Ground::find(client, args.allow_writes) {
        Err(wrong) => report.step("namespace", Err(wrong))?,
        Ok(ground) => {
            for (name, step) in data::READS {
                let done = step(&ground, client);
                report.step(name, done)?;
            }
            let writes = if ground.may_write() { data::WRITES.iter().chain(optional::WRITES) } else { [].iter().chain(&[]) };
            for (name, step) in writes.chain(life::STEPS) {
                let done = step(&ground, client);
                report.step(name, done)?;
            }
        }
    }
    let done = life::keep_alive(client, settings);
    report.step("keep alive", done)
}

/// What was found, and the last line.
fn end(peer: &PeerArgs, args: &ExerciseArgs, json: bool, subnqn: &str, report: &Report) -> ExitStatus {
    let (failed, deviations) = (report.count(Outcome::Failed), report.count(Outcome::Deviates));
    let bystander = peer.bystander.as_ref().map(|b| b.borrow());
    if json {
        let value = json!({
            "target": peer.target.to_string(),
            "subsystem": subnqn,
            "steps": report.json(),
            "failed": failed,
            "deviations": deviations,
            "judged": bystander.map(|b| b.json()),
        });
        output::print(&format!("{}\n", serde_json::to_string_pretty(&value).unwrap_or_default()));
    } else {
        let (steps, left) = (report.steps.len(), report.count(Outcome::Left));
        let counts = format!("{steps} steps, {failed} failed, {deviations} deviations of the controller, {left} left out");
        output::print(&match bystander {
            Some(b) => format!("{}{counts}; {}\n", b.findings(), b.summary(Side::Host)),
            None => format!("{counts}; no packets were seen, and so none judged\n"),
        });
    }
    if failed > 0 || deviations > 0 && !args.own_side { ExitStatus::Failed } else { ExitStatus::Success }
}
