//! The runs as JUnit XML, for what shows test results in CI.
//!
//! A suite is the first part of the ids, after the subsystem where there may be several; a class name all but the last. JUnit knows four outcomes, so: a failure that counts and
//! an expected failure that passed are failures; our own errors are errors; blocked, skipped, and what fails as expected are
//! *skipped* with the reason; a warning passes, with its text in the output. What the peer did wrong in passing is a suite of its
//! own, a case for each requirement. Times are those of the world that the run took
//! place in.

use quick_junit::{NonSuccessKind, Property, TestCase, TestCaseStatus, TestSuite};

use super::{Judged, Report, cited, observation_word, printable, trace, verdict_word};
use crate::slips::{Slip, SlipStanding};
use crate::summary::Standing;

/// The report. The error is a message: the XML writer refused.
pub fn render(report: &Report<'_>) -> Result<String, String> {
    let mut xml = quick_junit::Report::new("nvmfspec");
    xml.set_time(report.judged().map(|judged| judged.result.took).sum());
    for suite in suites(report) {
        xml.add_test_suite(suite);
    }
    if !report.summary.slips.is_empty() {
        xml.add_test_suite(in_passing(&report.summary.slips));
    }
    xml.to_string().map_err(|e| format!("JUnit XML: {e}"))
}

fn suites(report: &Report<'_>) -> Vec<TestSuite> {
    let mut suites: Vec<TestSuite> = Vec::new();
    for judged in report.judged() {
        let area = judged.result.id.split('/').next().unwrap_or_default();
        let name = printable(&judged.subsystem.map_or(area.to_owned(), |nqn| format!("{nqn} {area}")));
        let at = suites.iter().position(|suite| suite.name.as_str() == name).unwrap_or_else(|| {
            let mut suite = TestSuite::new(&name);
            suite.set_time(std::time::Duration::ZERO);
            for (name, value) in properties(report, &judged) {
                suite.add_property(Property::new(name, printable(&value)));
            }
            suites.push(suite);
            suites.len() - 1
        });
        if let Some(suite) = suites.get_mut(at) {
            let time = suite.time.unwrap_or_default() + judged.result.took;
            suite.set_time(time);
            suite.add_test_case(case(&judged));
        }
    }
    suites
}

fn in_passing(slips: &[Slip]) -> TestSuite {
    let mut suite = TestSuite::new("bystander rules");
    suite.set_time(std::time::Duration::ZERO);
    for slip in slips {
        let story =
            printable(&format!("{}\nexpected {}; seen {}\n{}", slip.requirement.says, slip.expected, slip.seen, slip.extent()));
        let status = match slip.standing {
            SlipStanding::Failed => {
                let message = format!("expected {}; seen {}", slip.expected, slip.seen);
                not_well(NonSuccessKind::Failure, "finding", printable(&message), story.clone())
            }
            SlipStanding::Warned => TestCaseStatus::success(),
            SlipStanding::Known => skipped(format!("known finding: {}", printable(&slip.reason))),
        };
        let mut case = TestCase::new(slip.requirement.id, status);
        case.set_classname("bystander").set_time(std::time::Duration::ZERO);
        if slip.standing != SlipStanding::Failed {
            case.set_system_out(story);
        }
        suite.add_test_case(case);
    }
    suite
}

/// What a reader of one suite has to know, since JUnit has no place for it above the suites.
fn properties(report: &Report<'_>, judged: &Judged<'_>) -> Vec<(String, String)> {
    let first = report.first();
    let mut all = vec![
        ("target".to_owned(), first.target.to_owned()),
        ("world".to_owned(), first.world.to_owned()),
        ("seed".to_owned(), first.seed.to_string()),
    ];
    all.extend(report.expectations_named().map(|name| ("expectations".to_owned(), name)));
    let run = report.runs.iter().find(|run| judged.subsystem.is_none_or(|nqn| run.subsystem == nqn));
    if let Some(run) = run {
        all.push(("subsystem".to_owned(), run.subsystem.clone()));
        all.extend(run.peer.iter().map(|(name, value)| (format!("peer.{name}"), value.clone())));
        all.extend(run.aborted.iter().map(|why| ("aborted".to_owned(), why.clone())));
    }
    all
}

fn case(judged: &Judged<'_>) -> TestCase {
    let result = judged.result;
    let (class, name) = result.id.rsplit_once('/').unwrap_or(("", &result.id));
    let mut case = TestCase::new(name, status(judged));
    case.set_classname(class.replace('/', "."));
    case.set_time(result.took);
    let out = output(judged);
    if !out.is_empty() {
        case.set_system_out(printable(&out));
    }
    case
}

fn status(judged: &Judged<'_>) -> TestCaseStatus {
    let result = judged.result;
    let headline = printable(judged.headline());
    match judged.standing {
        Standing::Passed | Standing::PassedLeniently | Standing::Warned => TestCaseStatus::success(),
        Standing::Blocked | Standing::Skipped => skipped(headline),
        Standing::Known => skipped(format!("known deviation: {}", printable(judged.reason()))),
        Standing::MayFail => skipped(format!("may fail, and did: {}", printable(judged.reason()))),
        Standing::Unexpected => {
            let message = format!("expected to fail, and did not: {}", printable(judged.reason()));
            not_well(NonSuccessKind::Failure, "unexpected-pass", message, result.message.clone())
        }
        Standing::Failed | Standing::Killed => {
            let kind = format!("{}/{}", verdict_word(result.verdict), observation_word(result.observation));
            not_well(NonSuccessKind::Failure, &kind, headline, description(judged))
        }
        Standing::Errored => not_well(NonSuccessKind::Error, "harness", headline, description(judged)),
    }
}

fn skipped(message: String) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(message);
    status
}

fn not_well(kind: NonSuccessKind, ty: &str, message: String, description: String) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(ty).set_message(message);
    if !description.is_empty() {
        status.set_description(printable(&description));
    }
    status
}

fn description(judged: &Judged<'_>) -> String {
    let result = judged.result;
    let mut lines = vec![format!("says: {}", result.says)];
    for id in &result.cites {
        lines.push(match cited(id) {
            Some(r) => format!("cites: {r}: {}", r.says),
            None => format!("cites: {id}"),
        });
    }
    lines.extend(result.message.lines().map(str::to_owned));
    lines.extend(result.at.iter().map(|at| format!("at: {at}")));
    let tail = trace::tail(&result.exchange, trace::TAIL);
    if !tail.is_empty() {
        lines.push("trace, its end:".to_owned());
        lines.extend(tail.iter().map(|line| format!("  {line}")));
    }
    if !result.reproduce.is_empty() {
        lines.push(format!("again: {}", result.reproduce));
    }
    lines.join("\n")
}

/// What a reader of a case that is no failure may want: warnings, notes and findings.
fn output(judged: &Judged<'_>) -> String {
    let result = judged.result;
    let mut lines = Vec::new();
    if matches!(judged.standing, Standing::Warned | Standing::PassedLeniently | Standing::Known | Standing::MayFail) {
        lines.push(format!("{}: {}", verdict_word(result.verdict), result.message));
    }
    lines.extend(result.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(result.findings.iter().map(|finding| format!("finding: {finding}")));
    lines.join("\n")
}
