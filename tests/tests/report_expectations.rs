//! What an expectation does to a result, what a run counts, and the exit status: as tables.

use std::time::Duration;

use nvmf_capture::Exchange;
use nvmf_conformance::report::json;
use nvmf_conformance::summary::ExitStatus;
use nvmf_conformance::{
    CheckResult, Class, Expectations, Finding, Observation, Policy, Report, Run, Standing, Summary, Verdict, Wall,
};

const PLAIN: Policy = Policy { strict: false, lenient: false };
const STRICT: Policy = Policy { strict: true, lenient: false };
const LENIENT: Policy = Policy { strict: false, lenient: true };

fn result(id: &str, verdict: Verdict, observation: Observation) -> CheckResult {
    CheckResult {
        id: id.into(),
        says: "a peer does this".into(),
        cites: vec!["TCP-ICREQ-02".into()],
        class: Class::Safe,
        verdict,
        observation,
        message: "expected one\nseen another".into(),
        notes: Vec::new(),
        findings: Vec::new(),
        at: None,
        took: Duration::ZERO,
        exchange: Exchange::default(),
        reproduce: String::new(),
    }
}

fn run(results: Vec<CheckResult>) -> Run {
    Run { results, ..Run::default() }
}

fn one(verdict: Verdict, observation: Observation) -> Run {
    run(vec![result("a/b/c", verdict, observation)])
}

fn expect(text: &str) -> Expectations {
    Expectations::parse("expect.toml", text).expect("a good file")
}

fn known(verdict: &str, observation: &str) -> Expectations {
    let observation = if observation.is_empty() { String::new() } else { format!("observation = \"{observation}\"\n") };
    expect(&format!("[[known]]\nid = \"a/b/c\"\nverdict = \"{verdict}\"\n{observation}reason = \"r\"\n"))
}

fn outcome(run: &Run, expectations: Option<&Expectations>, policy: Policy) -> (Standing, u8) {
    let summary = Summary::of(std::slice::from_ref(run), expectations, policy);
    (summary.standings[0], summary.status().code())
}

#[test]
fn without_expectations() {
    use Observation as O;
    use Standing as S;
    use Verdict as V;
    let table = [
        (V::Pass, O::AsExpected, PLAIN, S::Passed, 0),
        (V::Fail, O::Timeout, PLAIN, S::Failed, 1),
        (V::Fail, O::Timeout, LENIENT, S::Failed, 1),
        (V::FailLenient, O::SilentClose, PLAIN, S::Failed, 1),
        (V::FailLenient, O::SilentClose, LENIENT, S::PassedLeniently, 0),
        (V::FailLenient, O::PeerDied, LENIENT, S::Killed, 1),
        (V::Warn, O::WrongAnswer, PLAIN, S::Warned, 0),
        (V::Warn, O::WrongAnswer, STRICT, S::Failed, 1),
        (V::Pass, O::PeerDied, PLAIN, S::Killed, 1),
        (V::Blocked, O::NotRun, STRICT, S::Blocked, 0),
        (V::Skip, O::NotRun, STRICT, S::Skipped, 0),
        (V::Error, O::NotRun, PLAIN, S::Errored, 3),
        (V::Error, O::PeerDied, PLAIN, S::Errored, 3),
    ];
    for (verdict, observation, policy, standing, status) in table {
        let seen = outcome(&one(verdict, observation), None, policy);
        assert_eq!(seen, (standing, status), "{verdict:?} {observation:?} {policy:?}");
    }
}

#[test]
fn a_known_deviation_is_that_failure_and_no_other() {
    use Observation as O;
    use Standing as S;
    use Verdict as V;
    let table = [
        (("fail", "timeout"), V::Fail, O::Timeout, PLAIN, S::Known, 0),
        (("fail", ""), V::Fail, O::Timeout, PLAIN, S::Known, 0),
        (("fail", "timeout"), V::Fail, O::WrongAnswer, PLAIN, S::Failed, 1),
        (("fail", "timeout"), V::FailLenient, O::Timeout, PLAIN, S::Failed, 1),
        (("fail-lenient", "silent-close"), V::Fail, O::SilentClose, PLAIN, S::Failed, 1),
        (("fail-lenient", "silent-close"), V::FailLenient, O::SilentClose, PLAIN, S::Known, 0),
        (("fail-lenient", "silent-close"), V::FailLenient, O::SilentClose, LENIENT, S::Known, 0),
        // A pass, and what has become no more than a warning, are news.
        (("fail", "timeout"), V::Pass, O::AsExpected, PLAIN, S::Unexpected, 4),
        (("fail", "timeout"), V::Warn, O::Timeout, PLAIN, S::Unexpected, 4),
        (("fail", "timeout"), V::Warn, O::Timeout, STRICT, S::Failed, 1),
        (("fail", "timeout"), V::FailLenient, O::Timeout, LENIENT, S::Unexpected, 4),
        (("warn", "timeout"), V::Warn, O::Timeout, PLAIN, S::Known, 0),
        (("warn", "timeout"), V::Warn, O::Timeout, STRICT, S::Known, 0),
        (("warn", "timeout"), V::Warn, O::Reset, PLAIN, S::Warned, 0),
        (("warn", "timeout"), V::Warn, O::Reset, STRICT, S::Failed, 1),
        (("warn", "timeout"), V::Fail, O::Timeout, PLAIN, S::Failed, 1),
        (("warn", "timeout"), V::Pass, O::AsExpected, PLAIN, S::Unexpected, 4),
        // A death has to be expected by name.
        (("fail", ""), V::Fail, O::PeerDied, PLAIN, S::Killed, 1),
        (("fail", "timeout"), V::Fail, O::PeerDied, PLAIN, S::Killed, 1),
        (("fail", "peer-died"), V::Fail, O::PeerDied, PLAIN, S::Known, 0),
        // What was not judged says nothing about the deviation.
        (("fail", "timeout"), V::Blocked, O::NotRun, PLAIN, S::Blocked, 0),
        (("fail", "timeout"), V::Skip, O::NotRun, PLAIN, S::Skipped, 0),
        (("fail", "timeout"), V::Error, O::NotRun, PLAIN, S::Errored, 3),
    ];
    for ((wanted, how), verdict, observation, policy, standing, status) in table {
        let seen = outcome(&one(verdict, observation), Some(&known(wanted, how)), policy);
        assert_eq!(seen, (standing, status), "known {wanted} {how}: {verdict:?} {observation:?} {policy:?}");
    }
}

#[test]
fn what_may_fail_is_no_news_either_way_but_a_death_is() {
    let may = expect("[[may-fail]]\nid = \"a/b/c\"\nreason = \"flaps\"\n");
    let seen = |verdict, observation, policy| outcome(&one(verdict, observation), Some(&may), policy);
    assert_eq!(seen(Verdict::Fail, Observation::Timeout, PLAIN), (Standing::MayFail, 0));
    assert_eq!(seen(Verdict::FailLenient, Observation::Reset, PLAIN), (Standing::MayFail, 0));
    assert_eq!(seen(Verdict::Warn, Observation::Reset, STRICT), (Standing::MayFail, 0));
    assert_eq!(seen(Verdict::Warn, Observation::Reset, PLAIN), (Standing::Warned, 0));
    assert_eq!(seen(Verdict::Pass, Observation::AsExpected, PLAIN), (Standing::Passed, 0));
    assert_eq!(seen(Verdict::Fail, Observation::PeerDied, PLAIN), (Standing::Killed, 1));
    assert_eq!(seen(Verdict::Error, Observation::NotRun, PLAIN), (Standing::Errored, 3));
}

#[test]
fn an_expectation_reaches_no_other_check() {
    let run =
        run(vec![result("a/b/d", Verdict::Fail, Observation::Timeout), result("a/b/c/case", Verdict::Fail, Observation::Timeout)]);
    let summary = Summary::of(std::slice::from_ref(&run), Some(&known("fail", "timeout")), PLAIN);
    assert_eq!(summary.standings, [Standing::Failed, Standing::Failed]);
}

/// Findings change no verdict, but a *shall* that nobody expected to be broken is not lost in a green run.
#[test]
fn findings_count_by_requirement_and_level() {
    use nvmf_spec::req::{CQE_02, TCP_ICRESP_13};
    let finding = |requirement, count| Finding { requirement, seen: "1".into(), expected: "0".into(), count };
    let with = |id: &str, findings| CheckResult { findings, ..result(id, Verdict::Pass, Observation::AsExpected) };
    let weigh = |all: Vec<CheckResult>, expected: &[&str], policy| {
        let entry = |id: &&str| format!("[[finding]]\nrequirement = \"{id}\"\nreason = \"r\"\n");
        let expectations = expect(&expected.iter().map(entry).collect::<String>());
        Summary::of(&[run(all)], Some(&expectations), policy)
    };
    let shall = || vec![with("a/b", vec![finding(CQE_02, 2)]), with("a/c", vec![finding(CQE_02, 1), finding(TCP_ICRESP_13, 1)])];
    let summary = weigh(shall(), &[], PLAIN);
    let seen: Vec<_> =
        summary.slips.iter().map(|s| (s.requirement.id, s.standing.word(), s.count, s.checks, s.first.as_str())).collect();
    assert_eq!(seen, [("CQE-02", "failed", 3, 2, "a/b"), ("TCP-ICRESP-13", "warned", 1, 1, "a/c")]);
    assert_eq!(summary.slips[0].extent(), "3 times in 2 checks, first in a/b");
    assert_eq!((summary.status().code(), summary.counts.passed, summary.counts.failed), (1, 2, 0));

    assert_eq!(weigh(shall(), &["CQE-02"], PLAIN).status().code(), 0);
    assert_eq!(weigh(shall(), &["CQE-02"], STRICT).status().code(), 1);
    assert_eq!(weigh(shall(), &["CQE-02", "TCP-ICRESP-13"], STRICT).status().code(), 0);
    assert_eq!(weigh(vec![with("a/c", vec![finding(TCP_ICRESP_13, 1)])], &[], PLAIN).status().code(), 0);
    // one that does not come is no news: it depends on which checks ran
    assert_eq!(weigh(Vec::new(), &["CQE-02"], STRICT).status().code(), 0);

    // the report is the next baseline: what failed is known, and what was known stays
    let runs = [run(shall())];
    let baseline = Expectations::parse("r.json", &report(&runs[0], None, PLAIN)).expect("a report");
    assert_eq!(
        baseline.findings().map(|(id, known)| (id, known.reason.as_str())).collect::<Vec<_>>(),
        [("CQE-02", "seen in an earlier run: 1")]
    );
    let next = Expectations::parse("r.json", &report(&runs[0], Some(&baseline), STRICT)).expect("a report");
    assert_eq!(next.findings().map(|(id, _)| id).collect::<Vec<_>>(), ["CQE-02", "TCP-ICRESP-13"]);
    assert_eq!(Summary::of(&runs, Some(&next), STRICT).status().code(), 0);
}

#[test]
fn the_exit_status_when_several_hold() {
    let pass = result("a/b/c", Verdict::Pass, Observation::AsExpected);
    let fail = result("a/b/d", Verdict::Fail, Observation::Timeout);
    let error = result("a/b/e", Verdict::Error, Observation::NotRun);
    let known = known("fail", "timeout");
    let status = |results: &[&CheckResult], aborted: bool| {
        let mut run = run(results.iter().map(|r| (*r).clone()).collect());
        run.aborted = aborted.then(|| "the peer is gone".into());
        Summary::of(std::slice::from_ref(&run), Some(&known), PLAIN).status().code()
    };
    assert_eq!(status(&[], false), 0);
    assert_eq!(status(&[&pass], false), 4);
    assert_eq!(status(&[&pass, &fail], false), 1);
    assert_eq!(status(&[&pass, &fail, &error], false), 3);
    assert_eq!(status(&[&pass, &fail], true), 3);
    assert_eq!(status(&[], true), 3);

    let order = [ExitStatus::Success, ExitStatus::UnexpectedPass, ExitStatus::Failed, ExitStatus::Harness, ExitStatus::Usage];
    assert_eq!(order.map(ExitStatus::code), [0, 4, 1, 3, 2]);
    for (at, low) in order.iter().enumerate() {
        for high in &order[at..] {
            assert_eq!((low.worst(*high), high.worst(*low)), (*high, *high));
        }
    }
}

#[test]
fn every_result_is_counted_once() {
    let text = "[[known]]\nid = \"k\"\nverdict = \"fail\"\nreason = \"r\"\n[[known]]\nid = \"u\"\nverdict = \"fail\"\nreason = \"r\"\n\
                [[known]]\nid = \"w\"\nverdict = \"fail\"\nreason = \"r\"\n[[may-fail]]\nid = \"m\"\nreason = \"r\"\n";
    let run = run(vec![
        result("p", Verdict::Pass, Observation::AsExpected),
        result("l", Verdict::FailLenient, Observation::SilentClose),
        result("f", Verdict::Fail, Observation::Timeout),
        result("d", Verdict::Fail, Observation::PeerDied),
        result("s", Verdict::Skip, Observation::NotRun),
        result("b", Verdict::Blocked, Observation::NotRun),
        result("e", Verdict::Error, Observation::NotRun),
        result("k", Verdict::Fail, Observation::Timeout),
        result("u", Verdict::Pass, Observation::AsExpected),
        result("w", Verdict::Warn, Observation::Timeout),
        result("m", Verdict::Fail, Observation::Timeout),
    ]);
    let expectations = expect(text);
    for policy in [PLAIN, STRICT, LENIENT] {
        let summary = Summary::of(std::slice::from_ref(&run), Some(&expectations), policy);
        let c = summary.counts;
        let sum = c.passed + c.failed + c.warned + c.blocked + c.skipped + c.known + c.may_fail + c.errors;
        assert_eq!(sum, run.results.len(), "{policy:?} {c:?}");
    }
    let summary = Summary::of(std::slice::from_ref(&run), Some(&expectations), PLAIN);
    assert_eq!(summary.line(), "2 passed, 3 failed, 1 warned, 1 blocked, 1 skipped");
    assert_eq!((summary.counts.unexpected, summary.counts.killed), (2, 1));
}

fn report(run: &Run, expectations: Option<&Expectations>, policy: Policy) -> String {
    let summary = Summary::of(std::slice::from_ref(run), expectations, policy);
    let wall = Wall { started: std::time::SystemTime::UNIX_EPOCH, took: Duration::ZERO };
    json::render(&Report { runs: std::slice::from_ref(run), by_subsystem: false, summary: &summary, expectations, wall })
}

#[test]
fn a_report_is_the_baseline_of_the_next_run() {
    let first = run(vec![
        result("a/pass", Verdict::Pass, Observation::AsExpected),
        result("a/fail", Verdict::Fail, Observation::WrongAnswer),
        result("a/lenient", Verdict::FailLenient, Observation::SilentClose),
        result("a/warn", Verdict::Warn, Observation::Unexpected),
        result("a/skip", Verdict::Skip, Observation::NotRun),
    ]);
    let baseline = Expectations::parse("r.json", &report(&first, None, PLAIN)).expect("a report");
    let ids: Vec<&str> = baseline.entries().map(|(id, _)| id).collect();
    assert_eq!(ids, ["a/fail", "a/lenient"]);
    assert_eq!(baseline.of("a/fail").map(|e| e.reason.as_str()), Some("expected one"));

    let again = Summary::of(std::slice::from_ref(&first), Some(&baseline), PLAIN);
    assert_eq!((again.status().code(), again.counts.known, again.counts.failed), (0, 2, 0));

    let mut second = first.clone();
    second.results[1].observation = Observation::Timeout;
    second.results[2].verdict = Verdict::Pass;
    let changed = Summary::of(&[second], Some(&baseline), PLAIN);
    assert_eq!(changed.standings[1..3], [Standing::Failed, Standing::Unexpected]);

    // Under --strict a warning is a failure, hence known the next time.
    let strict = Expectations::parse("r.json", &report(&first, None, STRICT)).expect("a report");
    assert_eq!(Summary::of(std::slice::from_ref(&first), Some(&strict), STRICT).status().code(), 0);
}

#[test]
fn a_baseline_keeps_what_its_own_run_expected() {
    let text = "stack = \"S\"\nversion = \"9\"\n[[known]]\nid = \"a/known\"\nverdict = \"fail\"\nreason = \"why\"\n[[known]]\nid = \"a/mended\"\n\
                verdict = \"fail\"\nreason = \"old\"\n[[may-fail]]\nid = \"a/flaps\"\nreason = \"clock\"\n[[exclude]]\nid = \"b/\"\nreason = \"off\"\n";
    let first = run(vec![
        result("a/known", Verdict::Fail, Observation::Timeout),
        result("a/mended", Verdict::Pass, Observation::AsExpected),
        result("a/flaps", Verdict::Pass, Observation::AsExpected),
        result("b/out", Verdict::Skip, Observation::NotRun),
    ]);
    let baseline = Expectations::parse("r.json", &report(&first, Some(&expect(text)), PLAIN)).expect("a report");
    assert_eq!((baseline.stack.as_deref(), baseline.version.as_deref()), (Some("S"), Some("9")));
    let kept: Vec<(&str, &str)> = baseline.entries().map(|(id, entry)| (id, entry.reason.as_str())).collect();
    assert_eq!(kept, [("a/flaps", "clock"), ("a/known", "why"), ("b/out", "off")]);
    assert_eq!(baseline.exclusion("b/out"), Some("off"));
}

#[test]
fn a_baseline_of_several_subsystems_keeps_what_they_share() {
    let runs = ["one", "two"].map(|nqn| Run {
        subsystem: nqn.into(),
        ..run(vec![
            result("a/both", Verdict::Fail, Observation::Timeout),
            result("a/one", if nqn == "one" { Verdict::Fail } else { Verdict::Pass }, Observation::Timeout),
        ])
    });
    let summary = Summary::of(&runs, None, PLAIN);
    let wall = Wall { started: std::time::SystemTime::UNIX_EPOCH, took: Duration::ZERO };
    let text = json::render(&Report { runs: &runs, by_subsystem: true, summary: &summary, expectations: None, wall });
    let baseline = Expectations::parse("r.json", &text).expect("a report");
    let again = Summary::of(&runs, Some(&baseline), PLAIN);
    assert_eq!(again.standings, [Standing::Known, Standing::MayFail, Standing::Known, Standing::Passed]);
    assert_eq!(again.status().code(), 0);
}

#[test]
fn what_is_no_report_is_refused() {
    let error = |text: &str| Expectations::parse("r.json", text).expect_err("no report").to_string();
    assert!(
        error("{\"schema\": \"nvmf").starts_with("r.json:1:16: is no report of `--json`: EOF"),
        "{}",
        error("{\"schema\": \"nvmf")
    );
    assert!(error("{\"a\": 1}").contains("missing field `schema`"));
    let other = report(&run(Vec::new()), None, PLAIN).replace("\"schema_version\": 1", "\"schema_version\": 99");
    assert_eq!(error(&other), "r.json: schema `nvmfspec-report 99`: `nvmfspec-report 1` was expected, as `--json` writes it");
    let whole = report(&one(Verdict::Fail, Observation::Timeout), None, PLAIN);
    for at in (1..whole.trim_end().len()).step_by(7) {
        assert!(Expectations::parse("r.json", &whole[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn the_files_of_real_stacks_name_checks_that_exist_and_say_whose_they_are() {
    let suite = nvmf_conformance::suite::Suite::embedded().expect("the embedded suite");
    let ids: Vec<String> = suite.items().iter().map(nvmf_conformance::suite::Item::id).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("expect");
    let mut read = 0;
    for entry in std::fs::read_dir(&dir).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|x| x != "toml") {
            continue;
        }
        let expectations = Expectations::load(&path).unwrap_or_else(|e| panic!("{e}"));
        expectations.check_ids(&ids).unwrap_or_else(|e| panic!("{e}"));
        assert!(expectations.stack.is_some() && expectations.version.is_some(), "{}: no stack or version", path.display());
        read += 1;
    }
    assert!(read > 0, "no expectation file in {}", dir.display());
}
