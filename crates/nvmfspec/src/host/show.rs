//! What `nvmfspec host` prints: facts, discovery logs and Identify structures, from the wire tables.

use std::fmt::Write;
use std::net::SocketAddr;

use nvmf_conformance::report::printable;
use nvmf_engine::host::{Agreed, DiscoveryLog};
use nvmf_net::Notice;
use nvmf_wire::identify::ControllerType;
use nvmf_wire::layout::{Field, Kind, Layout, Structure, Value};
use nvmf_wire::log::{DiscoveryEntry, SubsystemType, TransportType};
use nvmf_wire::{Cntlid, IdentifyController, IdentifyNamespace, Nsid};
use serde_json::{Map, Value as Json, json};

use super::{Client, Failure};

/// What bring-up found out.
pub(super) fn facts(client: &Client) -> String {
    let f = client.facts();
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "{name:<14}{}", printable(&value));
    };
    let id = client.controller();
    line("subsystem", id.subnqn().as_str().to_owned());
    line("controller", format!("CNTLID {:#06x}, {}", f.cntlid.0, id.cntrltype()));
    line("model", format!("{} (serial {}, firmware {})", id.mn().as_str(), id.sn().as_str(), id.fr().as_str()));
    line("version", format!("{}.{}.{}", f.vs.major(), f.vs.minor(), f.vs.tertiary()));
    line("CAP", f.cap.to_string());
    line(
        "transfer",
        match transfer_limit(client) {
            Some(n) => format!("{n} bytes a command (MDTS)"),
            None => "no limit a command (MDTS 0)".into(),
        },
    );
    line("in capsule", format!("{} bytes on I/O queues (IOCCSZ)", id.in_capsule_bytes()));
    line("I/O queues", format!("{} of {} entries", f.io_queues, f.io_entries));
    for (qid, n) in &f.negotiated {
        let on = |yes| if yes { "on" } else { "off" };
        let flow = if f.flow_control_off.contains(qid) { "off" } else { "on" };
        let text = match n {
            Agreed::Tcp(n) => format!(
                "HDGST {}, DDGST {}, data to the controller aligned to {}, MAXH2CDATA {}",
                on(n.digests.header),
                on(n.digests.data),
                n.align,
                n.maxh2cdata,
            ),
            Agreed::Rdma(g) => format!("CRQSIZE {}, {} RDMA READs at a time", g.crqsize, g.reads),
        };
        line(&format!("queue {}", qid.0), format!("{text}, SQ flow control {flow}"));
    }
    out
}

/// The same for programs.
pub(super) fn facts_json(client: &Client) -> String {
    let (f, id) = (client.facts(), client.controller());
    let queues: Vec<Json> = f
        .negotiated
        .iter()
        .map(|(qid, n)| {
            let flow = !f.flow_control_off.contains(qid);
            match n {
                Agreed::Tcp(n) => json!({
                    "qid": qid.0,
                    "hdgst": n.digests.header,
                    "ddgst": n.digests.data,
                    "alignment": n.align,
                    "maxh2cdata": n.maxh2cdata,
                    "flow_control": flow,
                }),
                Agreed::Rdma(g) => json!({
                    "qid": qid.0,
                    "crqsize": g.crqsize,
                    "reads": g.reads,
                    "rnr_retry_count": g.rnr_retry_count,
                    "flow_control": flow,
                }),
            }
        })
        .collect();
    pretty(&json!({
        "subsystem": id.subnqn().as_str(),
        "cntlid": f.cntlid.0,
        "model": id.mn().as_str(),
        "serial": id.sn().as_str(),
        "firmware": id.fr().as_str(),
        "version": format!("{}.{}.{}", f.vs.major(), f.vs.minor(), f.vs.tertiary()),
        "cap": structure(nvmf_wire::property::Cap::LAYOUT, f.cap.as_bytes()),
        "mdts_bytes": f.mdts_bytes(),
        "in_capsule_bytes": id.in_capsule_bytes(),
        "kato_ms": f.kato_ms,
        "io_queues": f.io_queues,
        "io_queue_entries": f.io_entries,
        "queues": queues,
    }))
}

/// Most bytes of one command by MDTS; `None` for no limit.
pub(super) fn transfer_limit(client: &Client) -> Option<u64> {
    client.facts().mdts_bytes()
}

pub(super) fn notice(notice: &Notice) -> String {
    printable(&match notice {
        Notice::Event(e) => format!("event: {e}"),
        Notice::Violation(qid, v) => format!("note: queue {}: {v}", qid.0),
        Notice::KeepAliveFailed(s) => format!("note: Keep Alive failed with {s}"),
        Notice::Fatal => "note: the controller reported a fatal error (CSTS.CFS) and was reset".into(),
        Notice::QueueLost(qid) => format!("note: queue {} was lost, the association goes on", qid.0),
        Notice::Reconnected(why) => format!("note: connected again after: {why}"),
    })
}

pub(super) fn log(log: &DiscoveryLog, at: SocketAddr) -> String {
    let mut out = format!("discovery log of {at}: generation {}, {} entries\n", log.header.genctr(), log.entries.len());
    for (n, e) in log.entries.iter().enumerate() {
        let _ = writeln!(out, "\nentry {n}: {}", e.subtype());
        let mut line = |name: &str, value: String| {
            let _ = writeln!(out, "  {name:<12}{}", printable(&value));
        };
        line("subsystem", e.subnqn().as_str().to_owned());
        line("transport", format!("{} {}", e.trtype(), e.adrfam()));
        line("address", format!("{} port {}", e.traddr().as_str(), e.trsvcid().as_str()));
        line("port id", e.portid().to_string());
        if e.subtype() != SubsystemType::REFERRAL {
            let model = match e.cntlid() {
                Cntlid::DYNAMIC | Cntlid::ANY_STATIC => e.cntlid().to_string(),
                Cntlid(n) => format!("{n:#06x}"),
            };
            line("controller", format!("{model}; Admin Queue of at most {} entries", e.asqsz()));
        }
        line("requires", requires(e));
        if let Some(at) = DiscoveryEntry::LAYOUT.reserved_set(e.as_bytes()) {
            line("note", format!("reserved byte {at} is {:#04x}", e.as_bytes()[at]));
        }
    }
    out
}

fn requires(e: &DiscoveryEntry) -> String {
    let mut parts = Vec::new();
    if e.trtype() == TransportType::TCP {
        parts.push(e.tsas_tcp().sectype().to_string());
    }
    parts.push(
        match e.treq_secure() {
            1 => "secure channel required",
            2 => "secure channel not required",
            0 => "secure channel not specified",
            _ => "secure channel: reserved value 3",
        }
        .to_owned(),
    );
    if e.treq_sqfcd() {
        parts.push("SQ flow control can be switched off".into());
    }
    parts.join("; ")
}

/// A log with those that it refers to.
pub(super) fn log_json(log: &DiscoveryLog, at: SocketAddr, referrals: Vec<Json>) -> String {
    let mut value = log_value(log, at);
    if let (Some(map), false) = (value.as_object_mut(), referrals.is_empty()) {
        map.insert("referrals".into(), referrals.into());
    }
    pretty(&value)
}

pub(super) fn log_value(log: &DiscoveryLog, at: SocketAddr) -> Json {
    let entries: Vec<Json> = log.entries.iter().map(|e| structure(DiscoveryEntry::LAYOUT, e.as_bytes())).collect();
    let header = structure(nvmf_wire::log::DiscoveryHeader::LAYOUT, log.header.as_bytes());
    json!({ "target": at.to_string(), "header": header, "entries": entries })
}

pub(super) fn identify(client: &mut Client, nsid: Option<u32>, all: bool, as_json: bool) -> Result<String, Failure> {
    let controller = client.controller();
    let nsids = match nsid {
        Some(n) => vec![Nsid(n)],
        // It has none, and does not know the list.
        None if controller.cntrltype() == ControllerType::DISCOVERY => Vec::new(),
        None => client.namespaces()?,
    };
    let mut namespaces = Vec::new();
    for nsid in nsids {
        namespaces.push((nsid, client.namespace(nsid)?));
    }
    if as_json {
        let list: Vec<Json> = namespaces
            .iter()
            .map(|(nsid, ns)| json!({ "nsid": nsid.0, "fields": structure(IdentifyNamespace::LAYOUT, ns.as_bytes()) }))
            .collect();
        let controller = structure(IdentifyController::LAYOUT, controller.as_bytes());
        return Ok(pretty(&json!({ "controller": controller, "namespaces": list })));
    }
    let mut out = String::from("Identify Controller\n");
    table(&mut out, IdentifyController::LAYOUT, controller.as_bytes(), all);
    for (nsid, ns) in namespaces {
        let _ = writeln!(out, "\nIdentify Namespace, NSID {}{}", nsid.0, size(&ns));
        table(&mut out, IdentifyNamespace::LAYOUT, ns.as_bytes(), all);
    }
    Ok(out)
}

fn size(ns: &IdentifyNamespace) -> String {
    match ns.block_bytes() {
        Some(block) => format!(": {} blocks of {block} bytes", ns.nsze()),
        None => String::new(),
    }
}

/// One line a field: name, value, title. Fields that are zero are left out unless `all`.
fn table(out: &mut String, layout: &'static Layout, bytes: &[u8], all: bool) {
    for f in layout.all_fields() {
        if all || !is_zero(f, bytes) {
            let _ = writeln!(out, "  {:<24} {:<34} {}", f.name, printable(&f.show(bytes)), f.title);
        }
    }
    if let Some(at) = layout.reserved_set(bytes) {
        let _ = writeln!(out, "  note: reserved byte {at} is {:#04x}", bytes.get(at).copied().unwrap_or(0));
    }
}

fn is_zero(f: &Field, bytes: &[u8]) -> bool {
    match f.get(bytes) {
        Value::Int(n) => n == 0,
        Value::Bytes(b) => b.iter().all(|x| *x == 0),
    }
}

/// Every field by its name: numbers, text, or hexadecimal for bytes.
fn structure(layout: &'static Layout, bytes: &[u8]) -> Json {
    let mut map = Map::new();
    for f in layout.all_fields() {
        let value = match (f.get(bytes), f.kind) {
            (Value::Int(n), Kind::Flag) => json!(n != 0),
            (Value::Int(n), _) => json!(n),
            (Value::Bytes(b), Kind::Ascii) => json!(String::from_utf8_lossy(&b).trim_end_matches([' ', '\0'])),
            (Value::Bytes(b), Kind::Text) => {
                json!(String::from_utf8_lossy(b.split(|c| *c == 0).next().unwrap_or(&[])))
            }
            (Value::Bytes(b), _) => json!(b.iter().map(|x| format!("{x:02x}")).collect::<String>()),
        };
        map.insert(f.name.to_owned(), value);
    }
    Json::Object(map)
}

fn pretty(value: &Json) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}
