//! Before the checks: whether it is an NVMe/TCP or NVMe/RDMA controller that answers, which subsystems it has, and what it can do.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nvmf_capture::{Direction, EventKind, Rdma, Transport};
use nvmf_scenario::ast::{Script, Stmt};
use nvmf_scenario::parse;
use nvmf_scenario::player::{Peer, Played, Player, Seen};
use nvmf_scenario::value::Val;
use nvmf_seam::rdma::{Ask, RdmaOpenError};
use nvmf_seam::{Network, OpenError};
use nvmf_wire::cm::RejReason;
use nvmf_wire::log::{DiscoveryEntry, DiscoveryHeader, TransportType};
use nvmf_wire::property::Cap;
use nvmf_wire::rdma::RdmaRequest;
use nvmf_wire::{Cntlid, Structure, Value, ZeroBased16};

use crate::runner::{Candidate, RunError};

/// A subsystem that can be tested, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its NQN.
    pub nqn: String,
    /// Where its controllers are.
    pub addr: SocketAddr,
}

/// Statements of the probe, as a check without a verdict.
fn statements(text: &str) -> Vec<Stmt> {
    let script = format!("check probe\n  says \"p\"\n  cites P\n{text}");
    match parse::parse("probe", &script).map(|mut s| s.remove(0)) {
        Ok(Script::Check(c)) => c.body,
        // a test below reads every text that stands here
        _ => Vec::new(),
    }
}

const GREETING: &str = "  open\n  send ICReq\n  expect ICResp | C2HTermReq\n";
const DIGESTS: &str = "  connect tcp hdgst ddgst\n";
const FACTS: &str = "  connect admin
  command PropertyGet ofst=CAP attrib=1 as $cap
  command PropertyGet ofst=VS as $vs
  command Identify cns=1 as $id
  command Identify cns=2 as $list
";
const NAMESPACE: &str = "  connect admin
  command Identify cns=0 nsid=$nsid as $ns
";
const DISCOVERY: &str = "  connect discovery
  command GetLogPage lid=0x70 length=1024 as $header
";
const DISCOVERY_LOG: &str = "  connect discovery
  command GetLogPage lid=0x70 length=$want as $log
";
/// Most entries of a discovery log read by the probe.
const MAX_ENTRIES: u64 = 1000;

fn play(net: &mut dyn Network, peer: &Peer, text: &str, vars: BTreeMap<String, Val>) -> (Played, BTreeMap<String, Val>) {
    Player::new(net, peer, vars).play(&statements(text))
}

/// The first of `candidates` that something answers at.
pub fn reach(net: &mut dyn Network, candidates: &[Candidate], target: &str, time_scale: f64) -> Result<Candidate, RunError> {
    let mut whys = Vec::new();
    for c in candidates {
        match answers(net, c, time_scale) {
            Ok(()) => return Ok(*c),
            Err(why) => {
                let over = if c.transport == Transport::Rdma { " over RDMA" } else { "" };
                whys.push(format!("port {}{over}: {why}", c.addr.port()));
            }
        }
    }
    whys.dedup();
    Err(RunError::Unreachable(format!("{target}: {}", whys.join("; "))))
}

/// Whether something listens there. The error says what came instead.
pub fn answers(net: &mut dyn Network, c: &Candidate, time_scale: f64) -> Result<(), String> {
    let patience = Duration::from_secs(5).mul_f64(time_scale);
    match c.transport {
        Transport::Tcp => match net.open(c.addr, patience) {
            Ok(link) => {
                net.close(link, false);
                Ok(())
            }
            Err(OpenError::Other(why)) => Err(why),
            Err(e) => Err(e.to_string()),
        },
        Transport::Rdma => {
            let rdma = net.rdma().ok_or("there is no RDMA here")?;
            match rdma.open_rdma(c.addr, &asking(), &[], patience) {
                Ok((link, _)) => {
                    rdma.end(link, false);
                    Ok(())
                }
                // whoever refuses with a reason of NVMe's own is there [RDMA-CM-22]
                Err(RdmaOpenError::Rejected { reason, .. }) if reason == RejReason::CONSUMER.0 => Ok(()),
                Err(e) => Err(e.to_string()),
            }
        }
    }
}

/// A REQ for an Admin Queue.
fn asking() -> Ask {
    let request = RdmaRequest::new().with(|s| s.hrqsize(32).hsqsize(ZeroBased16(31)));
    Ask::new(bytes::Bytes::copy_from_slice(request.as_bytes()))
}

/// Fails where what listens there does not answer an ICReq. Over RDMA the REQ was answered already.
pub fn greet(net: &mut dyn Network, peer: &Peer) -> Result<(), RunError> {
    if peer.transport == Transport::Rdma {
        return Ok(());
    }
    let (played, _) = play(net, peer, GREETING, BTreeMap::new());
    let Some(stop) = &played.stop else { return Ok(()) };
    let bytes: Vec<u8> = played
        .exchange
        .connections
        .iter()
        .flat_map(|c| &c.chunks)
        .filter(|c| c.dir == Direction::ControllerToHost)
        .flat_map(|c| c.bytes.iter().copied())
        .take(64)
        .collect();
    let what = match (bytes.as_slice(), stop.seen) {
        ([], Seen::Unreachable) => return Err(RunError::Unreachable(stop.message.clone())),
        ([], Seen::Timeout) => "it accepts the connection but does not answer an ICReq".into(),
        ([], Seen::Reset) => "it resets the connection on an ICReq".into(),
        ([], _) => "it closes the connection on an ICReq".into(),
        ([b'H', b'T', b'T', b'P', ..], _) => "it speaks HTTP".into(),
        ([0x14..=0x18, 3, 0..=4, ..], _) => "it speaks TLS: a TLS port, or one that demands it; expected plain NVMe/TCP".into(),
        ([0x00..=0x09, rest @ ..], Seen::Timeout) if rest.get(1).is_none_or(|hlen| *hlen >= 24) => {
            let bytes = if bytes.len() == 1 { "the first byte".to_owned() } else { format!("{} bytes", bytes.len()) };
            format!("it sent {bytes} of a PDU and then too little in the time (see --time-scale)")
        }
        (b, _) if b.iter().take(16).all(|c| c.is_ascii_graphic() || c.is_ascii_whitespace()) => {
            format!("it sent text: {:?}", String::from_utf8_lossy(&b[..b.len().min(32)]))
        }
        (b, _) => format!(
            "its answer is no NVMe/TCP PDU: {}",
            b.iter().take(16).map(|x| format!("{x:02x} ")).collect::<String>().trim_end()
        ),
    };
    Err(RunError::NotNvme(format!("{} is no NVMe/TCP controller: {what}", peer.addr)))
}

/// The subsystems in the discovery log of `peer` that are reached over `transport`, sorted by NQN; `None` where no discovery service answers.
pub fn discover(net: &mut dyn Network, peer: &Peer, transport: Transport, as_given: bool) -> Option<Vec<Found>> {
    let (played, vars) = play(net, peer, DISCOVERY, BTreeMap::new());
    if played.stop.is_some() {
        return None;
    }
    let header = DiscoveryHeader::read(&vars.get("header")?.bytes().ok()?).ok()?;
    let want = 1024 * (1 + header.numrec().min(MAX_ENTRIES));
    let (_, vars) = play(net, peer, DISCOVERY_LOG, BTreeMap::from([("want".into(), Val::Int(want))]));
    let log = vars.get("log")?.bytes().ok()?;
    let mut found = Vec::new();
    for e in log.chunks_exact(1024).skip(1).filter_map(|c| DiscoveryEntry::read(c).ok()) {
        let number = |n: &str| DiscoveryEntry::LAYOUT.field(n).and_then(|f| f.get(e.as_bytes()).int());
        let text = |n: &str| {
            DiscoveryEntry::LAYOUT.field(n).map_or(String::new(), |f| match f.get(e.as_bytes()) {
                Value::Bytes(b) => String::from_utf8_lossy(&b).trim_end_matches([' ', '\0']).to_owned(),
                Value::Int(_) => String::new(),
            })
        };
        // SUBTYPE 2 is an NVM subsystem [Base 2.0, Figure 264]
        let trtype = if transport == Transport::Rdma { TransportType::RDMA } else { TransportType::TCP };
        if number("trtype") != Some(trtype.0.into()) || number("subtype") != Some(2) {
            continue;
        }
        let nqn = text("subnqn").split('\0').next().unwrap_or("").to_owned();
        let there =
            text("traddr").parse::<IpAddr>().ok().zip(text("trsvcid").parse::<u16>().ok()).map(|(a, p)| SocketAddr::new(a, p));
        let addr = if as_given { Some(peer.addr) } else { there };
        if let Some(addr) = addr
            && !found.iter().any(|f: &Found| f.nqn == nqn)
        {
            found.push(Found { nqn, addr });
        }
    }
    found.sort_by(|a, b| a.nqn.cmp(&b.nqn));
    Some(found)
}

/// What the probe learnt, for scripts and for the report.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Names for scripts.
    pub vars: BTreeMap<String, Val>,
    /// What the peer says of itself, for the report.
    pub shown: Vec<(String, String)>,
    /// The VS property, where it could be read.
    pub vs: Option<u32>,
}

/// Learns what scripts may ask about. A peer that fails on the way gives fewer facts; the checks say why. Only an unknown subsystem
/// is an error. A subsystem whose controllers are static is asked for any of them from now on.
pub fn facts(net: &mut dyn Network, peer: &mut Peer, nsid: Option<u32>) -> Result<Facts, RunError> {
    let mut out = Facts::default();
    if peer.transport == Transport::Tcp {
        let (_, vars) = play(net, peer, DIGESTS, BTreeMap::new());
        for name in ["hdgst", "ddgst"] {
            let granted = vars.get("icresp").and_then(|r| r.field(name).ok()).and_then(|v| v.int().ok()).unwrap_or(0);
            out.vars.insert(name.into(), Val::Int(granted));
        }
    }
    let (mut played, mut vars) = play(net, peer, FACTS, BTreeMap::new());
    // [FAB-CNTLID-06]
    if played.stop.is_some() && refused_field(&played) == Some((16, 1)) {
        peer.cntlid = Cntlid::ANY_STATIC;
        (played, vars) = play(net, peer, FACTS, BTreeMap::new());
    }
    if let Some(stop) = &played.stop
        && unknown_nqn(&played)
    {
        return Err(RunError::UnknownNqn(format!("{} does not know the subsystem {}: {}", peer.addr, peer.subnqn, stop.message)));
    }
    for name in ["cap", "vs", "id", "icresp"] {
        if let Some(v) = vars.get(name) {
            out.vars.insert(name.into(), v.clone());
        }
    }
    let number = |v: &str, f: &str| vars.get(v).and_then(|r| r.field(f).ok()).and_then(|x| x.int().ok());
    if let Some(Val::Record { bytes, .. }) = vars.get("vs") {
        out.vs = bytes.first_chunk::<4>().map(|b| u32::from_le_bytes(*b));
    }
    if let Some(n) = number("id", "ioccsz") {
        out.vars.insert("incapsule".into(), Val::Int((n * 16).saturating_sub(64)));
    }
    if let (Some(n), Some(Val::Record { bytes, .. })) = (number("id", "mdts"), vars.get("cap")) {
        let page = 12 + Cap::read(bytes).map_or(0, |c| u64::from(c.mpsmin()));
        let limit = if n == 0 || n + page > 22 { 4 << 20 } else { 1 << (n + page) };
        out.vars.insert("mdts".into(), Val::Int(limit));
    }
    let list = vars.get("list").and_then(|v| v.bytes().ok()).unwrap_or_default();
    let lowest = list.first_chunk::<4>().map(|b| u32::from_le_bytes(*b)).filter(|n| *n != 0);
    if let Some(nsid) = nsid.or(lowest) {
        namespace(net, peer, nsid, &mut out);
    }
    out.shown = shown(&vars, &out);
    Ok(out)
}

fn namespace(net: &mut dyn Network, peer: &Peer, nsid: u32, out: &mut Facts) {
    let (played, vars) = play(net, peer, NAMESPACE, BTreeMap::from([("nsid".into(), Val::Int(u64::from(nsid)))]));
    let Some(ns @ Val::Record { bytes, .. }) = vars.get("ns").filter(|_| played.stop.is_none()) else { return };
    let number = |f: &str| ns.field(f).ok().and_then(|v| v.int().ok()).unwrap_or(0);
    // bits 3:0 of FLBAS choose the format, 6:5 are the upper bits of its number [NVM Command Set 1.0, Figure 97]
    let format = bytes.get(26).map_or(0, |f| usize::from(f & 0xf) | usize::from(f >> 5 & 3) << 4);
    let lbads = bytes.get(128 + 4 * format + 2).copied().unwrap_or(9);
    if (9..=16).contains(&lbads) && number("nsze") > 0 {
        out.vars.insert("nsid".into(), Val::Int(u64::from(nsid)));
        out.vars.insert("block".into(), Val::Int(1 << lbads));
        out.vars.insert("blocks".into(), Val::Int(number("nsze")));
    }
}

/// True where the last response was a Connect refused because of SUBNQN: IPO 256 in the data. [FAB-CONNECT-25, FAB-CONNECT-36]
fn unknown_nqn(played: &Played) -> bool {
    refused_field(played) == Some((256, 1))
}

/// IPO and IATTR, where the last response refused a Connect for its parameters.
fn refused_field(played: &Played) -> Option<(u16, u8)> {
    let mut last = None;
    for (_, e) in played.exchange.events() {
        let bytes = match &e.kind {
            EventKind::Pdu(p) if p.first() == Some(&nvmf_wire::tcp::PduType::CAPSULE_RESP.0) => {
                nvmf_wire::tcp::CapsuleResp::read(p).ok().map(|c| c.cqe())
            }
            EventKind::Rdma(r) => match &**r {
                Rdma::Response { cqe, .. } => Some(*cqe.as_bytes()),
                _ => None,
            },
            _ => None,
        };
        if let Some(bytes) = bytes {
            let r = nvmf_wire::cqe::ConnectInvalid::from_bytes(bytes);
            last = Some((nvmf_wire::Cqe::from_bytes(bytes).status().code(), r.ipo(), r.iattr()));
        }
    }
    last.filter(|(status, ..)| *status == nvmf_wire::Status::CONNECT_INVALID_PARAMETERS).map(|(_, ipo, iattr)| (ipo, iattr))
}

/// What the peer says of itself, in a fixed order.
fn shown(vars: &BTreeMap<String, Val>, facts: &Facts) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for (what, fields) in [
        ("id", &["sn", "mn", "fr", "subnqn", "cntrltype", "mdts", "maxcmd", "ioccsz", "kas", "oncs", "sgls"][..]),
        ("cap", &["mqes", "to"][..]),
    ] {
        for f in fields {
            if let Some(v) = vars.get(what).and_then(|r| r.field(f).ok()) {
                out.push(((*f).to_owned(), v.show()));
            }
        }
    }
    if let Some(vs) = facts.vs {
        out.insert(0, ("vs".into(), format!("{}.{}.{}", vs >> 16, vs >> 8 & 0xff, vs & 0xff)));
    }
    for name in ["hdgst", "ddgst", "nsid", "block", "blocks"] {
        if let Some(v) = facts.vars.get(name) {
            out.push((name.to_owned(), v.show()));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statements_of_the_probe_can_be_read() {
        for text in [GREETING, DIGESTS, FACTS, NAMESPACE, DISCOVERY, DISCOVERY_LOG] {
            assert!(!statements(text).is_empty(), "{text}");
        }
    }
}
