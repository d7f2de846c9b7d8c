//! `nvmfspec host connect --exercise`: what a host does on a full day, twice: without digests, then with them.
//!
//! Each step says what was done, or what was wrong about it. The bystander rules judge the traffic of all of them.

mod admin;
mod data;

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use nvmf_conformance::ExitStatus;
use nvmf_conformance::report::printable;
use nvmf_engine::host::{HostSettings, Payload, command};
use nvmf_net::{ClientError, Notice};
use nvmf_seam::Network;
use nvmf_spec::Side;
use nvmf_wire::Qid;
use nvmf_wire::tcp::{Digests, IO_PORT};
use serde_json::{Value as Json, json};

use super::{Client, Failure, PeerArgs, only_subsystem, reach, settings, show};
use crate::output;
use crate::values::Blocks;

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
    /// Keep Alive Timeout in milliseconds [default: 2000]
    #[arg(
        long,
        value_name = "MS",
        requires = "exercise",
        conflicts_with = "kato",
        value_parser = clap::value_parser!(u32).range(1..),
        help_heading = "Exercise"
    )]
    kato_ms: Option<u32>,
    /// Steps and findings as JSON
    #[arg(long, requires = "exercise", help_heading = "Exercise")]
    json: bool,
}

impl ExerciseArgs {
    pub(super) fn wanted(&self) -> bool {
        self.exercise
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

/// What was done, in a few words.
type Step = Result<String, Wrong>;

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
    ok: bool,
    detail: String,
}

impl Report {
    fn begin(&mut self, pass: &'static str) {
        self.pass = pass;
        self.say(&format!("{pass}\n"));
    }

    fn step(&mut self, name: &'static str, step: Step) -> Result<(), Over> {
        let (ok, over, detail) = match step {
            Ok(detail) => (true, false, detail),
            Err(Wrong::Step(why)) => (false, false, why),
            Err(Wrong::Lost(why)) => (false, true, why),
        };
        // What was wrong may be told in the words of the peer.
        let detail = printable(&detail);
        self.say(&format!("  {:<5} {name:<22} {detail}\n", if ok { "ok" } else { "FAIL" }));
        self.steps.push(Done { pass: self.pass, name, ok, detail });
        if over { Err(Over) } else { Ok(()) }
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            output::print(text);
        }
    }

    fn failed(&self) -> usize {
        self.steps.iter().filter(|s| !s.ok).count()
    }

    fn json(&self) -> Vec<Json> {
        let steps = self.steps.iter();
        steps.map(|s| json!({ "pass": s.pass, "name": s.name, "ok": s.ok, "detail": s.detail })).collect()
    }
}

/// Runs the exercise and prints it; what the rules found is printed too, and for the caller to make a status of.
pub(super) fn run(peer: &PeerArgs, args: &ExerciseArgs) -> ExitStatus {
    let refuse = |failure: Failure| {
        let (status, why) = failure.told();
        output::refuse(status, &why);
        status
    };
    let subnqn = match peer.nqn.clone().map_or_else(|| only_subsystem(peer), Ok) {
        Ok(nqn) => nqn,
        Err(failure) => return refuse(failure),
    };
    let mut report = Report { quiet: args.json, pass: "", steps: Vec::new() };
    let passes = [("digests off", Digests::default()), ("digests on", Digests { header: true, data: true })];
    for (name, digests) in passes {
        let settings = day_settings(peer, args, &subnqn, digests);
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
    end(peer, args, &subnqn, &report)
}

fn day_settings(peer: &PeerArgs, args: &ExerciseArgs, subnqn: &str, digests: Digests) -> HostSettings {
    let mut settings = settings(peer, subnqn);
    settings.tcp.digests = digests;
    // Both are for the controller to grant or not.
    settings.insist_on_digests = false;
    settings.io_queues = peer.queues.max(2);
    settings.async_events = EVENTS;
    settings.kato_ms = args.kato_ms.or(peer.kato.map(|s| s * 1000)).unwrap_or(KATO_MS);
    settings
}

fn pass(
    mut client: Client,
    again: impl Fn() -> Result<Client, Wrong>,
    args: &ExerciseArgs,
    settings: &HostSettings,
    report: &mut Report,
) -> Result<(), Over> {
    report.step("connect", Ok(connected(&client)))?;
    day(&mut client, args, settings, report)?;
    report
        .step("disconnect", client.disconnect().map(|_| "CC.SHN, SHST complete, connections closed".into()).map_err(Wrong::from))?;
    let mut fresh = None;
    let step = again().map(|c| {
        let text = connected(&c);
        fresh = Some(c);
        text
    });
    report.step("connect again", step)?;
    let Some(mut client) = fresh else { return Err(Over) };
    let step = data::Ground::find(&mut client, args.allow_writes).and_then(|ground| ground.first_read(&mut client));
    report.step("read", step)?;
    report.step("disconnect", client.disconnect().map(|_| "in order".into()).map_err(Wrong::from))
}

fn connected(client: &Client) -> String {
    let f = client.facts();
    let on = |yes| if yes { "on" } else { "off" };
    let digests = f.negotiated.get(&Qid::ADMIN).map(|n| n.digests).unwrap_or_default();
    let least = f.negotiated.values().map(|n| n.maxh2cdata).min().unwrap_or(0);
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
            let writes = if ground.may_write() { data::WRITES } else { &[] };
            for (name, step) in writes {
                let done = step(&ground, client);
                report.step(name, done)?;
            }
        }
    }
    let done = keep_alive(client, settings);
    report.step("keep alive", done)
}

/// Two and a half times KATO without another command: without Keep Alive the controller would have ended the association. [Base 2.0, 3.9]
fn keep_alive(client: &mut Client, settings: &HostSettings) -> Step {
    let kato = Duration::from_millis(settings.kato_ms.into());
    let until = client.network().now() + kato * 5 / 2;
    client.idle(until)?;
    let done = client.execute(Qid::ADMIN, command::keep_alive(), Payload::None)?;
    if !done.status().is_success() {
        return Err(Wrong::Step(format!("Keep Alive failed with {}", done.status())));
    }
    let outstanding = u64::from(settings.async_events).min(client.controller().aerl().count());
    let (mut events, mut notes, mut failed) = (0, String::new(), None);
    while let Some(notice) = client.notice() {
        match &notice {
            Notice::Event(_) => events += 1,
            Notice::KeepAliveFailed(status) => failed = Some(*status),
            Notice::Violation(..) => {
                let _ = write!(notes, "; {}", show::notice(&notice));
            }
        }
    }
    match failed {
        Some(status) => Err(Wrong::Step(format!("a Keep Alive failed with {status}"))),
        None => Ok(format!(
            "{} ms with KATO {} ms; {outstanding} Asynchronous Event Requests outstanding, {events} events{notes}",
            (kato * 5 / 2).as_millis(),
            settings.kato_ms
        )),
    }
}

/// What was found, and the last line.
fn end(peer: &PeerArgs, args: &ExerciseArgs, subnqn: &str, report: &Report) -> ExitStatus {
    let failed = report.failed();
    if let Some(bystander) = &peer.bystander {
        let bystander = bystander.borrow();
        if args.json {
            let value = json!({
                "target": peer.target.to_string(),
                "subsystem": subnqn,
                "steps": report.json(),
                "failed": failed,
                "judged": bystander.json(),
            });
            output::print(&format!("{}\n", serde_json::to_string_pretty(&value).unwrap_or_default()));
        } else {
            let steps = report.steps.len();
            let told = format!("{}{steps} steps, {failed} failed; {}\n", bystander.findings(), bystander.summary(Side::Host));
            output::print(&told);
        }
    }
    if failed > 0 { ExitStatus::Failed } else { ExitStatus::Success }
}
