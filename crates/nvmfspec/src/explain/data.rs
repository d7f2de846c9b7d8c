//! What `nvmfspec explain` knows of a thing, as JSON. Its `kind` tells which members there are.

use nvmf_conformance::report::class_word;
use nvmf_conformance::suite::{Item, Suite};
use nvmf_spec::{Requirement, Silence};
use nvmf_wire::layout::{Kind, Layout, Order};
use serde_json::{Value, json};

use super::{citing, judge};

pub fn requirement(r: &Requirement, suite: &Suite) -> Value {
    let checks: Vec<Value> = citing(r, suite).map(|c| json!({ "id": c.script.id, "says": c.script.says })).collect();
    json!({
        "kind": "requirement",
        "id": r.id,
        "spec": r.spec,
        "section": r.section,
        "level": r.level.to_string(),
        "role": r.role.to_string(),
        "says": r.says,
        "answer": r.answer,
        "note": r.note,
        "since": r.since.map(|revision| revision.to_string()),
        "until": r.until.map(|revision| revision.to_string()),
        "judged_by": judge(r),
        "bystander": super::ruled(r),
        "unchecked_because": if checks.is_empty() && !super::ruled(r) { r.unchecked_because() } else { None },
        "checks": checks,
    })
}

pub fn silence(s: &Silence) -> Value {
    json!({ "kind": "open-case", "id": s.id, "spec": s.spec, "section": s.section, "topic": s.topic, "seen": s.seen })
}

/// Places are in bits, from bit 0 of byte 0; of a big-endian field `bit` counts from bit 0 of its first byte, but tells where the value
/// begins in its last.
pub fn layout(layout: &Layout) -> Value {
    let fields: Vec<Value> = layout
        .all_fields()
        .map(|f| {
            let kind = match f.kind {
                Kind::Uint => "uint",
                Kind::ZeroBased => "zero-based",
                Kind::Flag => "flag",
                Kind::Bytes => "bytes",
                Kind::Ascii => "ascii",
                Kind::Text => "text",
            };
            let order = match f.order {
                Order::LittleEndian => "little",
                Order::BigEndian => "big",
            };
            json!({
                "name": f.name, "bit": f.bit, "width": f.width, "order": order, "kind": kind, "title": f.title, "wireshark": f.wireshark,
            })
        })
        .collect();
    json!({ "kind": "structure", "name": layout.name, "about": layout.about, "bytes": layout.bytes, "fields": fields })
}

/// One check with the cases that were asked for.
pub fn check(first: &Item<'_>, items: &[Item<'_>]) -> Value {
    let check = first.check;
    let cites: Vec<Value> = check
        .cites()
        .iter()
        .map(|id| match nvmf_spec::requirement(id) {
            Some(r) => {
                json!({ "id": id, "spec": r.spec, "section": r.section, "level": r.level.to_string(), "says": r.says })
            }
            None => json!({ "id": id }),
        })
        .collect();
    json!({
        "kind": "check",
        "id": check.script.id,
        "says": check.script.says,
        "class": class_word(check.class()),
        "cites": cites,
        "after": check.script.after.iter().map(|a| a.it.as_str()).collect::<Vec<_>>(),
        "needs": check.script.needs.iter().map(|n| n.why.as_str()).collect::<Vec<_>>(),
        "cases": items.iter().filter_map(|item| item.case).map(|case| case.name.as_str()).collect::<Vec<_>>(),
        "file": check.file,
        "line": check.script.place.line,
        "script": check.source.trim_end(),
    })
}
