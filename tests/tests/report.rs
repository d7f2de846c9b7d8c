//! Every report format over one hand-made run that has every kind of result, as snapshots.
//!
//! Traffic is made from PDUs written out by hand, so that these tests depend on no state machine.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use nvmf_capture::{Direction, Exchange, Recorder};
use nvmf_conformance::report::console::Console;
use nvmf_conformance::report::files::{self, OutDir};
use nvmf_conformance::report::{html, json, junit, ladder, markdown, tap};
use nvmf_conformance::{CheckResult, Class, Expectations, Finding, Observation, Policy, Report, Run, Summary, Verdict, Wall};
use nvmf_spec::Requirement;

const EXPECT: &str = r#"
stack = "Some stack"
version = "1.2"

[[known]]
id = "connect/data/hostnqn-empty"
verdict = "fail"
observation = "wrong-answer"
reason = "answers Invalid Field, not Connect Invalid Parameters"

[[known]]
id = "nvm/read/beyond-end"
verdict = "fail"
reason = "completes with success; mended in 1.2.1"

[[may-fail]]
id = "keep-alive/timer/expires"
reason = "looks at its clock every other second"

[[exclude]]
id = "discovery/"
reason = "off in this lab"

[[finding]]
requirement = "CQE-02"
reason = "the queue ID is sent where nothing is to be"
"#;

/// ICReq, and the ICResp that accepts it.
fn handshake() -> Exchange {
    let client: SocketAddr = "192.0.2.1:50000".parse().expect("an address");
    let server: SocketAddr = "192.0.2.2:4420".parse().expect("an address");
    let mut icreq = vec![0_u8; 128];
    icreq[..8].copy_from_slice(&[0, 0, 128, 0, 128, 0, 0, 0]);
    icreq[8] = 1;
    let mut icresp = vec![0_u8; 128];
    icresp[..8].copy_from_slice(&[1, 0, 128, 0, 128, 0, 0, 0]);
    icresp[12..16].copy_from_slice(&131_072_u32.to_le_bytes());
    let mut recorder = Recorder::new(client, server, 1_000_000);
    recorder.push(Direction::HostToController, 1_250_000, Bytes::from(icreq));
    recorder.push(Direction::ControllerToHost, 2_000_000, Bytes::from(icresp));
    recorder.close(Direction::ControllerToHost, 3_500_000, false);
    Exchange { connections: vec![recorder.finish()] }
}

fn result(id: &str, verdict: Verdict, observation: Observation, message: &str) -> CheckResult {
    CheckResult {
        id: id.into(),
        says: format!("what {id} asks of a peer"),
        cites: vec!["TCP-ICREQ-02".into()],
        class: Class::Safe,
        verdict,
        observation,
        message: message.into(),
        notes: Vec::new(),
        findings: Vec::new(),
        at: None,
        took: Duration::from_micros(1_500),
        exchange: Exchange::default(),
        reproduce: format!("nvmfspec conformance --target 192.0.2.2 --filter {id}"),
    }
}

fn finding(requirement: &'static Requirement, seen: &str, expected: &str, count: u64) -> Finding {
    Finding { requirement, seen: seen.into(), expected: expected.into(), count }
}

fn run() -> Run {
    let mut failed = result(
        "tcp/icreq/pfv-unsupported/one",
        Verdict::Fail,
        Observation::WrongAnswer,
        "expected C2HTermReq fes in {1, 6} fei=8 within 30s\nseen ICResp pfv=0 <&>\u{1b}[2J\u{0}",
    );
    failed.says = "a PFV that the controller does not know ends the connection".into();
    failed.at = Some("tests/checks/tcp/icreq.check:14".into());
    failed.exchange = handshake();
    failed.notes = vec!["ICResp after 0.75 ms".into()];
    failed.findings = vec![
        finding(nvmf_spec::req::CQE_02, "SQID 7", "0, as it is reserved", 3),
        finding(nvmf_spec::req::TCP_ICRESP_13, "MAXH2CDATA 512 <&>\u{1b}[2J", "at least 4096", 1),
    ];
    let mut passed = result("tcp/icreq/first", Verdict::Pass, Observation::AsExpected, "");
    passed.exchange = handshake();
    passed.findings = vec![finding(nvmf_spec::req::CQE_03, "P 1", "0, as it is reserved", 1)];
    let mut killed =
        result("tcp/header/plen-zero", Verdict::Fail, Observation::PeerDied, "expected close\nseen: port refuses connections");
    killed.class = Class::Destructive;
    killed.cites.push("NO-SUCH-99".into());
    killed.findings = vec![finding(nvmf_spec::req::CQE_02, "SQID 9", "0, as it is reserved", 2)];
    let results = vec![
        passed,
        failed,
        result("tcp/icreq/maxr2t", Verdict::FailLenient, Observation::SilentClose, "expected C2HTermReq\nseen FIN"),
        killed,
        result("connect/data/hostnqn-empty", Verdict::Fail, Observation::WrongAnswer, "expected sct=1 sc=0x82\nseen sct=0 sc=0x02"),
        result("nvm/read/beyond-end", Verdict::Pass, Observation::AsExpected, ""),
        result("nvm/read/one|two", Verdict::Warn, Observation::Unexpected, "seen SGHL 1 | `odd`"),
        result("nvm/write/one", Verdict::Skip, Observation::NotRun, "needs --allow-writes"),
        result("nvm/write/two", Verdict::Skip, Observation::NotRun, "needs --allow-writes"),
        result("keep-alive/timer/expires", Verdict::Fail, Observation::Timeout, "expected close within 4s"),
        result("keep-alive/timer/feature", Verdict::Blocked, Observation::NotRun, "blocked by tcp/icreq/maxr2t"),
        result("discovery/log/header", Verdict::Skip, Observation::NotRun, "excluded by expect.toml: off in this lab"),
        result("admin/abort/unknown", Verdict::Error, Observation::NotRun, "script: $cid is not bound"),
    ];
    Run {
        target: "target.example:4420 (192.0.2.2)".into(),
        subsystem: "nqn.2014-08.org.example:sub_1".into(),
        world: "real".into(),
        peer: vec![("VS".into(), "1.4".into()), ("MN".into(), "Model\u{7} X".into())],
        seed: 7,
        results,
        aborted: None,
    }
}

/// Gives what every format needs to `tell`.
fn told<T>(run: &Run, policy: Policy, tell: impl FnOnce(&Report<'_>) -> T) -> T {
    told_all(std::slice::from_ref(run), policy, tell)
}

fn told_all<T>(runs: &[Run], policy: Policy, tell: impl FnOnce(&Report<'_>) -> T) -> T {
    let expectations = Expectations::parse("expect.toml", EXPECT).expect("a good file");
    let summary = Summary::of(runs, Some(&expectations), policy);
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let wall = Wall { started, took: Duration::from_millis(1_234) };
    tell(&Report { runs, by_subsystem: runs.len() > 1, summary: &summary, expectations: Some(&expectations), wall })
}

fn console(runs: &[Run], policy: Policy) -> String {
    told_all(runs, policy, |report| {
        let mut out = Vec::new();
        let mut console = Console::plain(&mut out, Some("out".into()));
        console.plan(report.judged().count(), "nqn.2014-08.org.example:sub_1");
        for judged in report.judged() {
            console.started(&judged.result.id);
            console.finished(&judged);
            if judged.result.observation == Observation::PeerDied {
                console.peer_lost(&judged.result.id);
                console.peer_back();
            }
        }
        console.end(report, &["reports are in out".to_owned()]);
        String::from_utf8(out).expect("text")
    })
}

#[test]
fn json_report() {
    insta::assert_snapshot!(told(&run(), Policy::default(), json::render));
}

#[test]
fn junit_report() {
    insta::assert_snapshot!(told(&run(), Policy::default(), |r| junit::render(r).expect("XML")));
}

#[test]
fn markdown_report() {
    insta::assert_snapshot!(told(&run(), Policy::default(), markdown::render));
}

#[test]
fn tap_report() {
    insta::assert_snapshot!(told(&run(), Policy::default(), tap::render));
}

#[test]
fn html_report() {
    insta::assert_snapshot!(told(&run(), Policy::default(), html::render));
}

#[test]
fn tap_of_a_run_that_was_cut_short_says_so_and_numbers_every_check() {
    let mut broken = run();
    broken.aborted = Some("interrupted\nnot ok 99".into());
    let text = told(&broken, Policy { strict: true, lenient: false }, tap::render);
    assert!(text.starts_with("TAP version 14\n# "), "{text}");
    assert_eq!(text.lines().last(), Some("Bail out! interrupted not ok 99"));
    let all = broken.results.len() + 3;
    assert!(text.contains(&format!("\n1..{all}\n")));
    let points: Vec<&str> = text.lines().filter(|line| line.starts_with("ok ") || line.starts_with("not ok ")).collect();
    assert_eq!(points.len(), all);
    let (points, slips) = points.split_at(broken.results.len());
    assert!(
        slips
            .iter()
            .enumerate()
            .all(|(at, point)| point.contains(&format!("ok {} - bystander rules: ", broken.results.len() + at + 1)))
    );
    // a should is one under --strict
    assert_eq!(slips.iter().filter(|point| point.starts_with("not ok ") && !point.contains(" # TODO ")).count(), 2);
    for (at, (point, result)) in points.iter().zip(&broken.results).enumerate() {
        let plain = point.trim_start_matches("not ");
        assert!(plain.starts_with(&format!("ok {} - {}", at + 1, result.id)), "{point}");
    }
    // What counts as failed, or passes against expectation, or broke on our side: what a harness has to see.
    let red = points.iter().filter(|point| point.starts_with("not ok ") && !point.contains(" # TODO ")).count();
    assert_eq!(red, 3 + 1 + 1 + 1, "{text}");
    assert_eq!(points.iter().filter(|point| point.contains(" # SKIP ")).count(), 4, "{text}");
}

#[test]
fn the_page_loads_and_runs_nothing_and_what_a_peer_sends_stays_text() {
    let mut wild = run();
    let odd = "</pre></details><script src=x>alert(1)</script><img src='//h/' onerror=\"a\">\u{202e}";
    wild.peer.push((odd.into(), odd.into()));
    wild.subsystem = odd.into();
    wild.target = odd.into();
    wild.aborted = Some(odd.into());
    for result in &mut wild.results {
        result.says = odd.into();
        result.message = odd.into();
        result.at = Some(odd.into());
        result.notes = vec![odd.into()];
        result.findings = vec![finding(nvmf_spec::req::CQE_03, odd, odd, 1)];
        result.reproduce = odd.into();
        result.cites = vec![odd.into()];
    }
    let page = told_all(&[wild.clone(), wild], Policy::default(), html::render);
    let tags = ["html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "table", "tr", "th", "td", "details", "summary"];
    let tags: Vec<&str> = tags.into_iter().chain(["span", "code", "dl", "dt", "dd", "pre", "!DOCTYPE"]).collect();
    let mut open = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag has an end");
        let name = tag.trim_start_matches('/').split(' ').next().unwrap_or_default();
        assert!(tags.contains(&name), "<{tag}>");
        assert!(!tag.contains("src=") && !tag.contains("href") && !tag.contains(" on"), "<{tag}>");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{page}"),
            None if ["meta", "!DOCTYPE"].contains(&name) => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(!page.contains('\u{202e}') && !page.contains("url(") && !page.contains("://"), "{page}");
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn a_long_exchange_has_a_ladder_that_says_what_it_leaves_out() {
    let mut long = handshake();
    let events = long.connections[0].events.clone();
    for _ in 0..200 {
        long.connections[0].events.extend(events.iter().take(2).cloned());
    }
    let lines = ladder::lines(&long);
    assert_eq!(lines.len(), 1 + 300 + 1);
    assert!(lines.iter().any(|line| line.contains("… 103 more …")), "{lines:?}");
    assert!(ladder::lines(&Exchange::default()).is_empty());
}

#[test]
fn console_report() {
    insta::assert_snapshot!(console(&[run()], Policy::default()));
}

#[test]
fn the_last_line_is_the_count_whatever_happened() {
    let mut broken = run();
    broken.aborted = Some("interrupted".into());
    let text = console(&[broken], Policy { strict: true, lenient: true });
    let mut lines = text.lines().rev();
    assert_eq!(lines.next(), Some("3 passed, 3 failed, 0 warned, 1 blocked, 3 skipped"));
    assert_eq!(lines.next(), Some("the run is not whole: interrupted"));
    assert!(text.ends_with("skipped\n"));
    let nothing = console(&[Run::default()], Policy::default());
    assert_eq!(nothing.lines().last(), Some("0 passed, 0 failed, 0 warned, 0 blocked, 0 skipped"));
}

#[test]
fn what_the_peer_sends_reaches_no_terminal_and_breaks_no_format() {
    let policy = Policy::default();
    let texts = [
        console(&[run()], policy),
        told(&run(), policy, markdown::render),
        told(&run(), policy, |r| junit::render(r).expect("XML")),
        told(&run(), policy, tap::render),
        told(&run(), policy, html::render),
    ];
    for text in texts {
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
        assert!(text.contains("\\u{1b}"), "{text}");
    }
}

#[test]
fn several_subsystems_are_told_apart() {
    let mut second = run();
    second.subsystem = "nqn.2014-08.org.example:sub_2".into();
    let runs = [run(), second];
    let text = console(&runs, Policy::default());
    assert!(text.contains("FAIL     tcp/icreq/maxr2t [nqn.2014-08.org.example:sub_2]\n"), "{text}");
    assert!(text.ends_with("\n4 passed, 6 failed, 2 warned, 2 blocked, 6 skipped\n"), "{text}");
    let xml = told_all(&runs, Policy::default(), |r| junit::render(r).expect("XML"));
    assert!(xml.contains("<testsuite name=\"nqn.2014-08.org.example:sub_2 tcp\" tests=\"4\""), "{xml}");
    let value: serde_json::Value = serde_json::from_str(&told_all(&runs, Policy::default(), json::render)).expect("JSON");
    assert_eq!(value["subsystems"][1]["nqn"], "nqn.2014-08.org.example:sub_2");
    let checks = value["checks"].as_array().expect("checks");
    let files: std::collections::BTreeSet<&str> = checks.iter().filter_map(|c| c["traffic"]["file"].as_str()).collect();
    assert_eq!((checks.len(), files.len()), (26, 26));
}

#[test]
fn only_the_wall_clock_tells_two_like_runs_apart() {
    let runs = [run()];
    let summary = Summary::of(&runs, None, Policy::default());
    let render = |seconds| {
        let started = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let wall = Wall { started, took: Duration::from_secs(seconds) };
        let text = json::render(&Report { runs: &runs, by_subsystem: false, summary: &summary, expectations: None, wall });
        let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let wall = value.as_object_mut().expect("an object").remove("wall");
        (value, wall)
    };
    let (first, second) = (render(1), render(2));
    assert_eq!(first.0, second.0);
    assert_ne!(first.1, second.1);
}

#[test]
fn traffic_that_differs_has_another_hash() {
    let hash = |exchange: Exchange| {
        let mut run = Run { results: vec![result("a/b/c", Verdict::Pass, Observation::AsExpected, "")], ..Run::default() };
        run.results[0].exchange = exchange;
        let text = told(&run, Policy::default(), json::render);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        value["checks"][0]["traffic"]["hash"].as_str().expect("a hash").to_owned()
    };
    let mut later = handshake();
    later.connections[0].events[1].at_ns += 1;
    let mut reset = handshake();
    let last = reset.connections[0].events.last_mut().expect("the close");
    last.kind = nvmf_capture::EventKind::Closed { reset: true };
    let hashes = [Exchange::default(), handshake(), later, reset].map(hash);
    for (at, one) in hashes.iter().enumerate() {
        assert!(!hashes[at + 1..].contains(one), "{hashes:?}");
    }
}

#[test]
fn the_folder_gets_a_trace_and_a_pcapng_a_check_and_every_report() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("deep/out");
    let out = OutDir::open(&path).expect("a writable folder");
    let run = run();
    for result in &run.results {
        out.write_check(None, result).expect("written");
    }
    let errors = told(&run, Policy::default(), |report| out.write_reports(report));
    assert!(errors.is_empty(), "{errors:?}");
    let mut names: Vec<String> = std::fs::read_dir(&path)
        .expect("the folder")
        .map(|e| e.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "junit.xml",
            "report.html",
            "report.json",
            "report.md",
            "report.tap",
            "tcp.icreq.first.pcapng",
            "tcp.icreq.first.trace.txt",
            "tcp.icreq.pfv-unsupported.one.pcapng",
            "tcp.icreq.pfv-unsupported.one.trace.txt",
        ]
    );
    let text = std::fs::read_to_string(path.join("tcp.icreq.pfv-unsupported.one.trace.txt")).expect("a trace");
    insta::assert_snapshot!(text);
    let capture = std::fs::read(path.join("tcp.icreq.first.pcapng")).expect("a capture");
    let read = nvmf_capture::Capture::read(capture.as_slice()).expect("a capture that can be read");
    let pdus: usize = read.exchange().connections.iter().map(|c| c.pdus().count()).sum();
    assert_eq!(pdus, 2);
}

#[test]
fn a_folder_or_file_that_cannot_be_written_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("file");
    std::fs::write(&file, "kept").expect("written");
    let below = file.join("out");
    let error = OutDir::open(&below).expect_err("a file is no folder").to_string();
    assert!(error.starts_with(&format!("cannot write {}: ", below.display())), "{error}");
    assert!(files::check_writable(&below).is_err());
    assert!(files::check_writable(dir.path()).is_err());
    assert!(files::check_writable(&file).is_ok());
    assert_eq!(std::fs::read_to_string(&file).expect("still there"), "kept");
    let fresh = dir.path().join("new.json");
    assert!(files::check_writable(&fresh).is_ok() && !fresh.exists());
}

#[test]
fn a_folder_that_goes_away_during_the_run_spoils_no_other_report() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("out");
    let out = OutDir::open(&path).expect("a writable folder");
    std::fs::remove_dir(&path).expect("removed");
    let errors = told(&run(), Policy::default(), |report| out.write_reports(report));
    assert_eq!(errors.len(), files::Format::ALL.len());
}
