//! The JSON reports of runs in the simulated world beside `docs/report.schema.json`.
//!
//! The schema lets members pass that it does not know, since later versions may add some; here they are faults, so that none is
//! added without a word in the schema. The validator knows the keywords that the schema uses and refuses all others: what the
//! schema says is then what was looked at.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use nvmf_conformance::report::{Report, Wall, class_word, json, observation_word, verdict_word};
use nvmf_conformance::runner::Runner;
use nvmf_conformance::suite::Suite;
use nvmf_conformance::{CheckResult, Class, Expectations, Finding, Observation, Policy, Run, Standing, Summary, Verdict};
use nvmfspec_tests::world;
use serde_json::{Map, Value};

const EXPECT: &str = r#"
stack = "S"
[[known]]
id = "tcp/icreq/pfv-unsupported/one"
verdict = "fail"
observation = "wrong-answer"
reason = "does not look at it"
[[may-fail]]
id = "tcp/icreq/pfv-unsupported/high"
reason = "flaps"
[[exclude]]
id = "tcp/icreq/speaks-second"
reason = "off"
[[finding]]
requirement = "CQE-02"
reason = "sends it"
"#;

fn schema() -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/report.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("the schema")).expect("JSON")
}

/// A run of some checks in the simulated world, bent by a fault.
fn run(suite: &Suite, filter: &str, fault: Option<&str>) -> Run {
    let fault = fault.map(|id| &suite.fault(id).expect("a fault").script);
    let mut world = world::sim(7, fault);
    let mut options = world::options(u64::MAX);
    options.filters = vec![filter.into()];
    Runner::new(suite, &options, &mut world).run(&mut |_| {}).expect("a run").pop().expect("a subsystem")
}

fn report(runs: &[Run], expectations: Option<&Expectations>) -> Value {
    let summary = Summary::of(runs, expectations, Policy::default());
    let wall = Wall { started: SystemTime::UNIX_EPOCH, took: Duration::from_millis(5) };
    let by_subsystem = runs.len() > 1;
    let text = json::render(&Report { runs, by_subsystem, summary: &summary, expectations, wall });
    serde_json::from_str(&text).expect("JSON")
}

/// Reports that between them have every member.
fn reports() -> Vec<Value> {
    let suite = Suite::embedded().expect("the embedded suite");
    let expectations = Expectations::parse("expect.toml", EXPECT).expect("a good file");
    let ids: Vec<String> = suite.items().iter().map(|item| item.id()).collect();
    expectations.check_ids(&ids.iter().map(String::as_str).collect::<Vec<&str>>()).expect("checks that exist");
    let good = run(&suite, "tcp/icreq", None);
    let mut bent = run(&suite, "tcp/icreq", Some("tcp-pfv-ignored"));
    bent.results[0].findings = vec![finding()];
    let mut cut = bent.clone();
    cut.aborted = Some("interrupted".into());
    vec![report(&[good], None), report(std::slice::from_ref(&bent), None), report(&[bent, cut], Some(&expectations))]
}

#[test]
fn reports_of_real_runs_are_what_the_schema_says() {
    let (schema, reports) = (schema(), reports());
    let mut seen = BTreeSet::new();
    for report in &reports {
        validate(&schema, report, "", &mut seen).unwrap_or_else(|fault| panic!("{fault}"));
    }
    let failed = reports.iter().any(|report| report["status"] == 1 && report["checks"][0]["at"].is_null());
    assert!(failed, "the fault does nothing");
    // No member of the schema is one that no report has.
    let mut named = BTreeSet::new();
    names(&schema, "", &mut named);
    assert_eq!(named.difference(&seen).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn the_words_of_the_schema_are_those_of_the_program() {
    let schema = schema();
    let words = |at: &str| -> Vec<Value> { schema.pointer(at).and_then(Value::as_array).expect("words").clone() };
    let check = "/properties/checks/items/properties";
    let verdicts =
        [Verdict::Pass, Verdict::Fail, Verdict::FailLenient, Verdict::Warn, Verdict::Blocked, Verdict::Skip, Verdict::Error];
    assert_eq!(words(&format!("{check}/verdict/enum")), verdicts.map(|verdict| Value::from(verdict_word(verdict))));
    let classes = [Class::Safe, Class::Writes, Class::Disruptive, Class::Destructive];
    assert_eq!(words(&format!("{check}/class/enum")), classes.map(|class| Value::from(class_word(class))));
    let observations = [
        Observation::AsExpected,
        Observation::Timeout,
        Observation::WrongAnswer,
        Observation::SilentClose,
        Observation::Reset,
        Observation::Unexpected,
        Observation::WrongData,
        Observation::PeerDied,
        Observation::NotRun,
    ];
    let observations = observations.map(|observation| Value::from(observation_word(observation)));
    assert_eq!(words(&format!("{check}/observation/enum")), observations);
    assert_eq!(words(&format!("{check}/expected/properties/observation/enum")), observations);
    let standings = [
        Standing::Passed,
        Standing::PassedLeniently,
        Standing::Failed,
        Standing::Killed,
        Standing::Warned,
        Standing::Blocked,
        Standing::Skipped,
        Standing::Known,
        Standing::MayFail,
        Standing::Unexpected,
        Standing::Errored,
    ];
    assert_eq!(words(&format!("{check}/counted/enum")), standings.map(|standing| Value::from(standing.word())));
}

/// Whatever is taken out of a report or put into it, the schema notices.
#[test]
fn what_is_no_report_is_seen() {
    let schema = schema();
    let whole = report(&[Run { results: vec![result()], subsystem: "n".into(), world: "sim".into(), ..Run::default() }], None);
    let faulty = |report: &Value| validate(&schema, report, "", &mut BTreeSet::new()).is_err();
    assert!(!faulty(&whole));
    let mut places = Vec::new();
    pointers(&whole, "", &mut places);
    assert!(places.len() > 40, "{places:?}");
    for place in places {
        let mut wrong = whole.clone();
        *wrong.pointer_mut(&place).expect("a place") = Value::from(-1.5);
        assert!(faulty(&wrong), "{place} may be anything");
        let (parent, name) = place.rsplit_once('/').expect("a parent");
        let mut without = whole.clone();
        if let Some(Value::Object(members)) = without.pointer_mut(parent) {
            members.remove(name);
            assert!(faulty(&without), "{place} may be missing");
            members_of(&mut without, parent).insert(name.to_owned() + "x", Value::Null);
            assert!(faulty(&without), "{place}x may be there");
        }
    }
}

fn members_of<'a>(value: &'a mut Value, at: &str) -> &'a mut Map<String, Value> {
    value.pointer_mut(at).and_then(Value::as_object_mut).expect("an object")
}

fn finding() -> Finding {
    Finding { requirement: nvmf_spec::req::CQE_02, seen: "SQID 7".into(), expected: "0".into(), count: 2 }
}

fn result() -> CheckResult {
    CheckResult {
        id: "a/b/c".into(),
        says: "says".into(),
        cites: vec!["TCP-ICREQ-02".into()],
        class: Class::Safe,
        verdict: Verdict::Fail,
        observation: Observation::Timeout,
        message: "m".into(),
        notes: vec!["note".into()],
        findings: vec![finding()],
        at: Some("a.check:1".into()),
        took: Duration::ZERO,
        exchange: nvmf_capture::Exchange::default(),
        reproduce: "again".into(),
    }
}

/// Every place in a value below its top, as JSON pointers.
fn pointers(value: &Value, at: &str, out: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| (format!("{at}/{name}"), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(i, value)| (format!("{at}/{i}"), value)).collect(),
        _ => Vec::new(),
    };
    for (place, value) in below {
        out.push(place.clone());
        pointers(value, &place, out);
    }
}

/// The members that a schema names, by their place; items of an array have the place of the array.
fn names(schema: &Value, at: &str, out: &mut BTreeSet<String>) {
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        out.insert(format!("{at}/{name}"));
        names(schema, &format!("{at}/{name}"), out);
    }
    if schema["items"].is_object() {
        names(&schema["items"], at, out);
    }
}

/// Holds a value beside a schema. Members met go to `seen`.
fn validate(schema: &Value, value: &Value, at: &str, seen: &mut BTreeSet<String>) -> Result<(), String> {
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        let holds = match keyword.as_str() {
            "$schema" | "title" | "description" => true,
            "const" => value == rule,
            "enum" => rule.as_array().expect("values").contains(value),
            "type" => match rule {
                Value::Array(types) => types.iter().any(|name| has_type(value, name)),
                name => has_type(value, name),
            },
            "minimum" => value.as_f64().is_none_or(|n| n >= rule.as_f64().expect("a number")),
            "minLength" => value.as_str().is_none_or(|s| s.chars().count() as u64 >= rule.as_u64().expect("a number")),
            "maxLength" => value.as_str().is_none_or(|s| s.chars().count() as u64 <= rule.as_u64().expect("a number")),
            "required" => value.as_object().is_none_or(|members| {
                rule.as_array().expect("names").iter().all(|n| members.contains_key(n.as_str().unwrap_or_default()))
            }),
            "properties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    let place = format!("{at}/{name}");
                    let schema = rule.get(name).ok_or_else(|| format!("{place}: the schema has no such member"))?;
                    seen.insert(place.clone());
                    validate(schema, value, &place, seen)?;
                }
                true
            }
            "items" => {
                for value in value.as_array().into_iter().flatten() {
                    validate(rule, value, at, seen)?;
                }
                true
            }
            other => panic!("{at}: the schema has `{other}`, which nothing here looks at"),
        };
        if !holds {
            return Err(format!("{at}: {value} breaks `{keyword}`: {rule}"));
        }
    }
    Ok(())
}

fn has_type(value: &Value, name: &Value) -> bool {
    match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("integer") => value.is_u64() || value.is_i64(),
        other => panic!("there is no type {other:?}"),
    }
}
