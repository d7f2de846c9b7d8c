//! The suite is tested by faults: each makes the checks fail that it says, and without one every check passes. [design section 8]
//!
//! Those about RoCEv2 packets, and the checks of RDMA alone, are in `rdma_faults.rs`.
//!
//! [`NAMED`] has one fault of each family with its check. The snapshot `faults__what_each_fault_makes_fail` shows for each fault of `tests/faults` the checks that fail.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

use nvmf_conformance::suite::{BASE, Suite, SuiteCheck, SuiteFault};
use nvmf_conformance::{Run, Verdict};
use nvmf_engine::Reference;
use nvmf_scenario::fault::is_of_rdma;
use nvmfspec_tests::world;

/// Most checks, cases not counted, that one fault may make fail; more is no fault but an outage.
const MOST: usize = 10;
/// The seed of all runs here.
const SEED: u64 = 7;
const THREADS: usize = 2;

static SUITE: LazyLock<Suite> = LazyLock::new(|| Suite::embedded().expect("the scripts are right"));
/// What the plain reference target has not.
static SKIPPED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let (run, _) = world::judge(&SUITE, SEED, None).expect("the target is there");
    with(&run, &[Verdict::Skip]).into_iter().filter(|id| !is_of_rdma_alone(id)).collect()
});
static OUTCOMES: LazyLock<BTreeMap<&'static str, Outcome>> = LazyLock::new(judge_all);

/// What a fault did to the suite.
struct Outcome {
    /// The ids, with cases, that failed: leniently as well, and where a *should* is unmet.
    failed: BTreeSet<String>,
    blocked: usize,
    broken: Vec<String>,
}

impl Outcome {
    /// Against the plain reference target, and what that skips against the full one.
    fn of(fault: &SuiteFault) -> Self {
        let plain = world::judge(&SUITE, SEED, Some(&fault.script));
        // With what the verbs need, so that a fault in it blocks here as it does in the whole suite.
        let rest = BASE.iter().map(|id| (*id).to_owned()).chain(SKIPPED.iter().cloned()).collect();
        let full = world::judge_some(&SUITE, Reference::Full, rest, SEED, Some(&fault.script));
        let mut all = Self { failed: BTreeSet::new(), blocked: 0, broken: Vec::new() };
        for outcome in [plain, full] {
            match outcome {
                Ok((run, _)) => {
                    all.failed.extend(with(&run, &[Verdict::Fail, Verdict::FailLenient, Verdict::Warn]));
                    all.blocked += with(&run, &[Verdict::Blocked]).len();
                    all.broken.extend(with(&run, &[Verdict::Error]));
                }
                Err(why) => all.broken.push(why),
            }
        }
        all
    }

    fn fails(&self, check: &str) -> bool {
        self.failed.iter().any(|id| is_below(id, check))
    }

    /// The checks without their cases.
    fn checks(&self) -> BTreeSet<&str> {
        self.failed.iter().map(|id| without_case(id)).collect()
    }
}

fn with(run: &Run, verdicts: &[Verdict]) -> BTreeSet<String> {
    run.results.iter().filter(|r| verdicts.contains(&r.verdict)).map(|r| r.id.clone()).collect()
}

fn is_of_rdma_alone(id: &str) -> bool {
    SUITE.check(without_case(id)).is_some_and(SuiteCheck::is_of_rdma)
}

/// The faults over TCP.
fn faults() -> impl Iterator<Item = &'static SuiteFault> {
    SUITE.faults().filter(|f| !is_of_rdma(&f.script))
}

fn is_below(id: &str, check: &str) -> bool {
    id.strip_prefix(check).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn without_case(id: &str) -> &str {
    if SUITE.check(id).is_some() {
        return id;
    }
    id.rsplit_once('/').map_or(id, |(check, _)| check)
}

/// Each fault against the whole suite, in a world of its own.
fn judge_all() -> BTreeMap<&'static str, Outcome> {
    let faults: Vec<&'static SuiteFault> = faults().collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = Outcome::of(fault);
                    done.lock().expect("no panic").insert(fault.script.id.as_str(), outcome);
                }
            });
        }
    });
    done.into_inner().expect("no panic")
}

#[test]
fn without_a_fault_every_check_passes() {
    let (run, _) = world::judge(&SUITE, SEED, None).expect("the target is there");
    let wrong: Vec<String> = run
        .results
        .iter()
        .filter(|r| !matches!(r.verdict, Verdict::Pass | Verdict::Skip) || !r.findings.is_empty())
        .map(|r| format!("{}: {:?} {} {:?}", r.id, r.verdict, r.message, r.findings))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(run.results.len(), SUITE.items().len());
    assert!(with(&run, &[Verdict::Pass]).len() >= 600);
}

/// Between them the reference targets have everything that a check asks for.
#[test]
fn every_check_is_played() {
    let (full, _) = world::judge_some(&SUITE, Reference::Full, Vec::new(), SEED, None).expect("the target is there");
    let wrong: Vec<String> = full
        .results
        .iter()
        .filter(|r| !matches!(r.verdict, Verdict::Pass | Verdict::Skip) || !r.findings.is_empty())
        .map(|r| format!("{}: {:?} {} {:?}", r.id, r.verdict, r.message, r.findings))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let skipped = with(&full, &[Verdict::Skip]);
    let unplayed: Vec<&str> = SKIPPED.iter().filter(|id| skipped.contains(*id)).map(String::as_str).collect();
    let excused: Vec<&str> = UNPLAYED.iter().map(|(id, _)| *id).collect();
    assert_eq!(unplayed, excused, "skipped by both reference targets");
}

/// Checks, with their cases, that both reference targets skip, each with the reason.
const UNPLAYED: &[(&str, &str)] = &[
    ("io/dataset/unwritten-error", "no store of ours tells of unwritten blocks"),
    ("io/read/protection-type", "no namespace of ours has protection information"),
    ("io/write/protected", "no namespace of ours is write protected"),
];

#[test]
fn every_fault_makes_the_checks_fail_that_it_names_and_few_others() {
    let mut wrong = Vec::new();
    for fault in faults() {
        let id = &fault.script.id;
        let outcome = &OUTCOMES[id.as_str()];
        if fault.script.fails.is_empty() {
            wrong.push(format!("{id}: names no check that it makes fail"));
        }
        for check in fault.script.fails.iter().filter(|c| !outcome.fails(&c.it)) {
            wrong.push(format!("{id}: {} does not fail", check.it));
        }
        let all = outcome.checks();
        let named = all.iter().filter(|c| fault.script.fails.iter().any(|f| is_below(&f.it, c))).count();
        if all.len() > MOST && named < all.len() {
            wrong.push(format!("{id}: {} checks fail, more than {MOST} and {named} of them named: {all:?}", all.len()));
        }
        if !outcome.broken.is_empty() {
            wrong.push(format!("{id}: the harness broke at {:?}", outcome.broken));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One fault of each family with the check that has to notice it, whatever the scripts say.
const NAMED: &[(&str, &str)] = &[
    ("tcp-pfv-ignored", "tcp/icreq/pfv-unsupported/one"),
    ("tcp-reserved-type-skipped", "tcp/pdu/reserved-type/gap"),
    ("tcp-term-twice", "tcp/term/last-word/behind"),
    ("tcp-hdgst-fei-zero", "tcp/digest/header-bad/low-bits"),
    ("tcp-r2t-too-long", "tcp/r2t/small/one-block"),
    ("tcp-transfer-gap", "tcp/h2c/not-contiguous/gap"),
    ("tcp-c2h-gap", "tcp/c2h/contiguous/most"),
    ("tcp-capsule-damaged", "tcp/capsule/in-capsule-write/three"),
    ("fab-connect-recfmt", "fabrics/connect/recfmt/one"),
    ("fab-property-dstrd", "fabrics/property/cap"),
    ("fab-queue-cid", "fabrics/queue/cid-echo/highest"),
    ("fab-reset-stays-ready", "fabrics/reset/disable"),
    ("fab-disconnect-others", "fabrics/disconnect/alone"),
    ("fab-static-shared", "fabrics/static/named"),
    ("fab-nssr-nothing", "fabrics/subsystem/reset"),
    ("disc-log-cntlid", "discovery/log/cntlid"),
    ("admin-identify-ascii", "admin/identify/ascii"),
    ("admin-log-firmware", "admin/log/firmware"),
    ("admin-feature-events", "admin/feature/events"),
    ("admin-keep-alive-never", "admin/keep-alive/expiry"),
    ("admin-aer-unmasked", "admin/aer/masked"),
    ("admin-ana-groups", "admin/ana/groups"),
    ("admin-abort-silent", "admin/abort/aer"),
    ("io-read-last", "io/read/last-block"),
    ("io-write-offset", "io/write/capsule-offset"),
];

/// Checks that no fault makes fail, each with the reason.
const UNCAUGHT: &[(&str, &str)] = &[("tcp/icreq/answered", "without it no peer can be probed, and nothing runs")];

#[test]
fn every_check_is_failed_by_a_fault() {
    let failed: BTreeSet<&str> = OUTCOMES.values().flat_map(Outcome::checks).collect();
    let excused: BTreeSet<&str> = UNCAUGHT.iter().map(|(check, _)| *check).collect();
    let checks = SUITE.checks().filter(|c| !c.is_of_rdma());
    let open: Vec<&str> = checks.map(|c| c.script.id.as_str()).filter(|id| !failed.contains(id)).collect();
    let missed: Vec<_> = open.iter().filter(|id| !excused.contains(*id)).collect();
    assert!(missed.is_empty(), "no fault makes these fail: {missed:#?}");
    let stale: Vec<_> = excused.iter().filter(|id| !open.contains(id)).collect();
    assert!(stale.is_empty(), "UNCAUGHT names checks that a fault does make fail, or that are gone: {stale:#?}");
}

#[test]
fn a_fault_of_each_family_is_noticed_by_the_check_that_is_for_it() {
    let missed: Vec<_> = NAMED.iter().filter(|(fault, check)| !OUTCOMES[fault].failed.contains(*check)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

/// What each fault breaks is a requirement of the catalogue.
#[test]
fn every_fault_breaks_a_known_requirement() {
    let mut wrong = Vec::new();
    for fault in SUITE.faults().map(|f| &f.script) {
        let unknown = fault.breaks.iter().filter(|b| nvmf_spec::requirement(&b.it).is_none());
        wrong.extend(unknown.map(|b| format!("{}: no requirement {}", fault.id, b.it)));
        if fault.breaks.is_empty() {
            wrong.push(format!("{}: breaks nothing", fault.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// For a reader: what each fault makes fail.
#[test]
fn what_each_fault_makes_fail() {
    let mut table = String::new();
    for fault in faults() {
        let _ = writeln!(table, "{}: {}", fault.script.id, fault.script.says);
        let outcome = &OUTCOMES[fault.script.id.as_str()];
        for id in &outcome.failed {
            let named = fault.script.fails.iter().any(|c| is_below(id, &c.it));
            let _ = writeln!(table, "  {} {id}", if named { '*' } else { ' ' });
        }
        if outcome.blocked > 0 {
            let _ = writeln!(table, "    and {} blocked by these", outcome.blocked);
        }
    }
    insta::assert_snapshot!(table);
}
