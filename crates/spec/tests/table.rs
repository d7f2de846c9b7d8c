//! The generated table is unique and found by its ids; the small types keep their promises.

use std::collections::BTreeSet;

use nvmf_spec::{Answer, Judge, Level, Requirement, Revision, Role, Side, Violation, all, req, requirement, silence, silences};

#[test]
fn the_catalogue_is_there() {
    assert!(all().count() > 1000);
    assert!(silences().count() > 20);
}

#[test]
fn ids_are_unique_over_all_tables() {
    let ids: BTreeSet<&str> = all().map(|r| r.id).chain(silences().map(|s| s.id)).collect();
    assert_eq!(ids.len(), all().count() + silences().count());
}

#[test]
fn every_id_finds_its_own_entry() {
    for r in all() {
        let found = requirement(r.id).unwrap_or_else(|| panic!("{} is not found", r.id));
        assert_eq!((found.id, found.says, found.section), (r.id, r.says, r.section));
    }
    for s in silences() {
        assert_eq!(silence(s.id), Some(s));
    }
}

#[test]
fn other_text_finds_nothing() {
    for id in ["", "TCP", "TCP-ICREQ-2", "tcp-icreq-02", "TCP-ICREQ-99", "ZZZ-01", "TCP-SILENT-01"] {
        assert_eq!(requirement(id), None, "{id}");
    }
}

#[test]
fn every_entry_says_something() {
    for r in all() {
        assert!(!r.says.is_empty() && !r.section.is_empty() && !r.spec.is_empty(), "{}", r.id);
        assert_eq!(r.judge == Judge::Inside && r.reason.is_empty(), { r.unchecked_because().is_some_and(|why| why != r.reason) });
    }
}

#[test]
fn constants_are_the_table_entries() {
    assert_eq!(requirement("TCP-C2H-07"), Some(req::TCP_C2H_07));
    assert_eq!(req::TCP_C2H_07.id, "TCP-C2H-07");
}

const MADE_UP: Requirement = Requirement {
    id: "X-01",
    spec: "S",
    section: "1",
    level: Level::Shall,
    role: Role::Both,
    judge: Judge::Wire,
    says: "x",
    answer: "",
    note: "",
    reason: "",
    since: Some(Revision::V1_4),
    until: Some(Revision::V2_0),
};

#[test]
fn both_bounds_belong_to_the_range() {
    let applies = |r: Revision| MADE_UP.applies_to(r);
    assert!(!applies(Revision::V1_3));
    assert!(applies(Revision::V1_4) && applies(Revision::V2_0));
    assert!(!applies(Revision::V2_1));
    let open = Requirement { since: None, until: None, ..MADE_UP };
    assert!(open.applies_to(Revision(0)) && open.applies_to(Revision(u32::MAX)));
}

#[test]
fn revisions_are_encoded_as_vs() {
    assert_eq!(Revision::V1_2_1.0, 0x0001_0201);
    assert_eq!(Revision::V2_1.0, 0x0002_0100);
    assert!(Revision::V1_2_1 > Revision::V1_2 && Revision::V1_3 > Revision::V1_2_1);
    for (text, revision) in [("1.2.1", Revision::V1_2_1), ("2.0", Revision::V2_0), ("2.0.0", Revision::V2_0)] {
        assert_eq!(text.parse(), Ok(revision));
    }
    assert_eq!(Revision::V1_2_1.to_string(), "1.2.1");
    assert_eq!(Revision::V2_0.to_string(), "2.0");
    for bad in ["", "2", "2.", ".0", "2.0.", "2.0.0.0", "+2.0", "2.256", "65536.0", "two", " 2.0"] {
        assert!(bad.parse::<Revision>().is_err(), "{bad:?}");
    }
}

#[test]
fn a_violation_names_the_breaker_and_the_rule() {
    let breach = Violation::new(req::TCP_ICREQ_01, Side::Host, "CapsuleCmd first").answered(Answer::TermReq { fes: 2, fei: 0 });
    assert_eq!(breach.to_string(), "host: CapsuleCmd first breaks TCP-ICREQ-01 (NVMe TCP Transport 1.0, 3.1)");
    assert_eq!(breach.answer.to_string(), "TermReq FES 02h, FEI 0x0");
    assert_eq!(breach.side.other(), Side::Controller);
    assert_eq!(Answer::Status { sct: 1, sc: 0x82, dnr: true }.to_string(), "status 1h/82h, do not retry");
}
