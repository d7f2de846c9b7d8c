//! `capture::compare` on recorded captures: each is equal to itself, whatever is renamed; each change of a field is named.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use nvmf_capture::compare::{Difference, Mask, Options, Report, What, compare};
use nvmf_capture::{Capture, Connection, Direction, EventKind, Exchange, Rdma, Session};
use nvmf_wire::cm::CmMessage;
use nvmf_wire::tcp::{CapsuleCmd, CapsuleResp, Pdu, PduType};
use nvmf_wire::{Cqe, Layout, Nsid, Sqe, Structure, Value, connect, cqe, identify, log, nvm, property};
use proptest::prelude::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../captures")
}

fn load(file: &str) -> Exchange {
    Capture::open(folder().join(file)).unwrap_or_else(|e| panic!("{file}: {e}")).into_exchange()
}

fn files() -> Vec<String> {
    let mut out = Vec::new();
    for stack in ["linux-6.12", "spdk-26.09", "rxe-peer"] {
        let all = std::fs::read_dir(folder().join(stack)).expect("the folder");
        out.extend(all.map(|e| format!("{stack}/{}", e.expect("an entry").file_name().to_string_lossy())));
    }
    out.retain(|f| f.ends_with(".gz"));
    out.sort();
    assert!(out.len() > 50);
    out
}

fn held(a: &Exchange, b: &Exchange, mask: &str) -> Report {
    let mut all = Mask::default();
    all.add(mask).unwrap_or_else(|e| panic!("{e}"));
    compare(a, b, &Options { mask: all, ..Options::default() }).expect("nothing to look for")
}

fn paths(report: &Report) -> Vec<String> {
    let one = |d: &Difference| match &d.what {
        What::Field { path, .. } => path.clone(),
        What::OnlyInA(_) => format!("-{}", d.spots[0].as_ref().map_or("", |s| s.message.as_str())),
        What::OnlyInB(_) => format!("+{}", d.spots[1].as_ref().map_or("", |s| s.message.as_str())),
        What::Moved(_) => "moved".to_owned(),
    };
    report.differences.iter().map(one).collect()
}

/// Every PDU with the name of the command that it belongs to, to be changed; digests stay right where `seal`.
fn each(exchange: &mut Exchange, seal: bool, mut change: impl FnMut(usize, &str, &mut Pdu) -> bool) {
    for (n, c) in exchange.connections.iter_mut().enumerate() {
        let mut session = Session::new();
        for e in &mut c.events {
            let EventKind::Pdu(bytes) = &e.kind else { continue };
            let Ok(mut pdu) = Pdu::parse(bytes) else { continue };
            let command = match pdu.ptype() {
                PduType::CAPSULE_CMD => CapsuleCmd::read(&pdu.header).ok().map(|c| Sqe::from_bytes(c.sqe())),
                _ => cid_of(&pdu).and_then(|cid| session.command(nvmf_wire::Cid(cid)).map(|c| c.sqe)),
            };
            let name = command.map(|s| session.command_name(&s)).unwrap_or_default();
            session.apply(e.dir, &pdu);
            if change(n, &name, &mut pdu) {
                let pdu = if seal { pdu.seal() } else { pdu };
                e.kind = EventKind::Pdu(pdu.to_bytes().into());
            }
        }
    }
}

fn cid_of(pdu: &Pdu) -> Option<u16> {
    match pdu.ptype() {
        PduType::CAPSULE_RESP => CapsuleResp::read(&pdu.header).ok().map(|c| Cqe::from_bytes(c.cqe()).cid().0),
        PduType::C2H_DATA | PduType::H2C_DATA | PduType::R2T => {
            pdu.ptype().layout()?.field("cccid")?.get(&pdu.header).int().map(|n| n as u16)
        }
        _ => None,
    }
}

fn put(bytes: &mut Bytes, at: usize, layout: &Layout, field: &str, value: Value) {
    let mut all = bytes.to_vec();
    layout.write_field(&mut all[at..], field, &value).unwrap_or_else(|e| panic!("{field}: {e}"));
    *bytes = all.into();
}

#[test]
fn each_capture_is_equal_to_itself() {
    for file in files() {
        let one = load(&file);
        let report = held(&one, &one, "within time 0 \"it is the same capture\"");
        assert!(report.is_equal(), "{file}: {}", report.text(20));
        let pdus = one.events().iter().filter(|(_, e)| matches!(e.kind, EventKind::Pdu(_))).count() as u64;
        assert!(report.messages >= pdus, "{file}: {} of {pdus}", report.messages);
    }
}

/// Where a change is made: the header of the PDU, what a capsule carries, or data.
#[derive(Clone, Copy)]
enum At {
    Header,
    Inside(&'static Layout),
    Data(usize, &'static Layout),
}

/// Changes one field of the `nth` PDU of that name and command.
fn changed(one: &Exchange, pdu: &str, command: &str, nth: usize, at: At, field: &str, value: Value) -> Exchange {
    let mut other = one.clone();
    let mut seen = 0;
    each(&mut other, true, |_, name, p| {
        let hit = p.ptype().name() == Some(pdu) && name == command;
        seen += usize::from(hit);
        if !hit || seen != nth {
            return false;
        }
        let table = p.ptype().layout().expect("a table");
        match at {
            At::Header => put(&mut p.header, 0, table, field, value.clone()),
            At::Inside(layout) => put(&mut p.header, 8, layout, field, value.clone()),
            At::Data(from, layout) => put(&mut p.data, from, layout, field, value.clone()),
        }
        true
    });
    assert!(seen >= nth, "{seen} of {pdu} {command}");
    other
}

#[test]
fn each_change_of_a_field_is_named() {
    use At::{Data, Header, Inside};
    let n = Value::Int;
    let text = |s: &str| Value::Bytes(s.as_bytes().to_vec());
    let io = "linux-6.12/tcp-io-64k.pcap.gz";
    let digests = "linux-6.12/tcp-hdgst-ddgst.pcap.gz";
    let plain = "linux-6.12/tcp-connect-plain.pcap.gz";
    let admin = "linux-6.12/tcp-admin.pcap.gz";
    let event = "linux-6.12/tcp-aen-ns.pcap.gz";
    let discover = "linux-6.12/tcp-discover-8009-referral.pcap.gz";
    let many = "spdk-26.09/05d-spdk-write-128k-maxh2c4096.pcap.gz";
    type Case<'a> = (&'a str, &'a str, &'a str, usize, At, &'a str, Value, &'a str);
    let cases: &[Case<'_>] = &[
        (plain, "ICReq", "", 1, Header, "hpda", n(3), "ICReq.hpda"),
        (plain, "ICReq", "", 2, Header, "maxr2t", n(7), "ICReq.maxr2t"),
        (plain, "ICResp", "", 1, Header, "maxh2cdata", n(131_072), "ICResp.maxh2cdata"),
        (digests, "ICResp", "", 2, Header, "ddgst", n(0), "ICResp.ddgst"),
        (plain, "CapsuleCmd", "Connect", 1, Inside(connect::Connect::LAYOUT), "kato", n(7), "CapsuleCmd.Connect.kato"),
        (plain, "CapsuleCmd", "Connect", 2, Inside(connect::Connect::LAYOUT), "sqsize", n(31), "CapsuleCmd.Connect.sqsize"),
        (
            plain,
            "CapsuleCmd",
            "Connect",
            1,
            Data(0, connect::ConnectData::LAYOUT),
            "hostnqn",
            text("nqn.x"),
            "Data.Connect.ConnectData.hostnqn",
        ),
        (
            plain,
            "CapsuleCmd",
            "Connect",
            2,
            Data(0, connect::ConnectData::LAYOUT),
            "cntlid",
            n(9),
            "Data.Connect.ConnectData.cntlid",
        ),
        (plain, "CapsuleResp", "Connect", 1, Inside(cqe::ConnectResponse::LAYOUT), "atr", n(1), "CapsuleResp.Connect.atr"),
        (
            plain,
            "CapsuleCmd",
            "PropertySet",
            2,
            Inside(property::PropertySet::LAYOUT),
            "value",
            n(0x46_0001),
            "CapsuleCmd.PropertySet.Cc.css",
        ),
        (
            plain,
            "CapsuleResp",
            "PropertyGet",
            1,
            Inside(cqe::PropertyGetResponse::LAYOUT),
            "value",
            n(0x0820_0f00_01ff),
            "CapsuleResp.PropertyGet.Cap.mqes",
        ),
        (
            plain,
            "CapsuleResp",
            "PropertyGet",
            3,
            Inside(cqe::PropertyGetResponse::LAYOUT),
            "value",
            n(2),
            "CapsuleResp.PropertyGet.Csts.rdy",
        ),
        (plain, "CapsuleResp", "SetFeatures", 1, Inside(cqe::QueuesGranted::LAYOUT), "ncqa", n(3), "CapsuleResp.SetFeatures.ncqa"),
        (
            plain,
            "C2HData",
            "Identify",
            1,
            Data(0, identify::IdentifyController::LAYOUT),
            "mdts",
            n(5),
            "Data.Identify.IdentifyController.mdts",
        ),
        (
            plain,
            "C2HData",
            "Identify",
            1,
            Data(0, identify::IdentifyController::LAYOUT),
            "subnqn",
            text("nqn.y"),
            "Data.Identify.IdentifyController.subnqn",
        ),
        (
            admin,
            "C2HData",
            "Identify",
            5,
            Data(0, identify::IdentifyNamespace::LAYOUT),
            "nsze",
            n(5),
            "Data.Identify.IdentifyNamespace.nsze",
        ),
        (
            plain,
            "C2HData",
            "GetLogPage",
            1,
            Data(4, log::CommandEffects::LAYOUT),
            "lbcc",
            n(1),
            "Data.GetLogPage.CommandEffects[1].lbcc",
        ),
        (plain, "C2HData", "GetLogPage", 2, Data(16, log::AnaGroup::LAYOUT), "state", n(3), "Data.GetLogPage.AnaGroup[0].state"),
        (
            discover,
            "C2HData",
            "GetLogPage",
            1,
            Data(0, log::DiscoveryHeader::LAYOUT),
            "numrec",
            n(2),
            "Data.GetLogPage.DiscoveryHeader.numrec",
        ),
        (
            discover,
            "C2HData",
            "GetLogPage",
            2,
            Data(1024, log::DiscoveryEntry::LAYOUT),
            "asqsz",
            n(64),
            "Data.GetLogPage.DiscoveryEntry[1].asqsz",
        ),
        (
            event,
            "CapsuleResp",
            "AsyncEventRequest",
            1,
            Inside(cqe::AsyncEventResponse::LAYOUT),
            "log_page",
            n(0xc),
            "CapsuleResp.AsyncEventRequest.log_page",
        ),
        (io, "CapsuleCmd", "Read", 2, Inside(nvm::Read::LAYOUT), "slba", n(4096), "CapsuleCmd.Read.slba"),
        (io, "CapsuleCmd", "Write", 1, Inside(nvm::Write::LAYOUT), "fua", n(1), "CapsuleCmd.Write.fua"),
        (io, "CapsuleCmd", "Write", 1, Inside(Sqe::LAYOUT), "sgl1_len", n(4096), "CapsuleCmd.Write.sgl1_len"),
        (io, "CapsuleCmd", "Write", 1, Inside(Sqe::LAYOUT), "opc", n(5), "CapsuleCmd.opc"),
        (io, "R2T", "Write", 1, Header, "r2tl", n(4096), "R2T.Write.r2tl"),
        (io, "H2CData", "Write", 1, Header, "ttag", n(0x7777), "H2CData.Write.ttag"),
        (many, "H2CData", "Write", 2, Header, "datao", n(1), "H2CData.Write.datao"),
        (io, "C2HData", "Read", 2, Header, "last", n(0), "C2HData.Read.last"),
        (io, "C2HData", "Read", 2, Header, "datal", n(4), "C2HData.Read.datal"),
        (io, "C2HData", "Read", 1, Header, "cccid", n(0x7777), "C2HData.Read.cccid"),
        (io, "C2HData", "Read", 1, Data(700, Cqe::LAYOUT), "dw0", n(0x1234_5678), "Data.Read.bytes"),
        (io, "CapsuleResp", "Read", 3, Inside(Cqe::LAYOUT), "sc", n(0x80), "CapsuleResp.Read.sc"),
        (io, "CapsuleResp", "Read", 3, Inside(Cqe::LAYOUT), "sqhd", n(99), "CapsuleResp.Read.sqhd"),
        (io, "CapsuleResp", "Write", 1, Inside(Cqe::LAYOUT), "cid", n(0x7777), "CapsuleResp.Write.cid"),
    ];
    assert!(cases.len() >= 30);
    let mut captures: BTreeMap<&str, Exchange> = BTreeMap::new();
    for (file, pdu, command, nth, at, field, value, path) in cases {
        let one = captures.entry(file).or_insert_with(|| load(file));
        let other = changed(one, pdu, command, *nth, *at, field, value.clone());
        let report = held(one, &other, "");
        let found = paths(&report);
        assert!(found.iter().any(|p| p == path), "{file} {pdu} {command} {field}: {}", report.text(20));
        // what depends on it may differ too, such as the next step of SQHD, and the data of a field that is data
        assert!(found.len() <= 3, "{file} {pdu} {command} {field}: {}", report.text(20));
        let shown = report.text(20);
        assert!(shown.contains(path) && shown.contains("difference"), "{shown}");
    }
}

#[test]
fn wrong_digests_lengths_of_connections_and_ends_are_named() {
    let one = load("linux-6.12/tcp-hdgst-ddgst.pcap.gz");
    for (part, path) in [("hdgst", "C2HData.Read.hdgst"), ("ddgst", "C2HData.Read.ddgst")] {
        let mut other = one.clone();
        let mut done = false;
        each(&mut other, false, |_, command, p| {
            let hit = !done && command == "Read" && p.ptype() == PduType::C2H_DATA;
            done |= hit;
            let which = if part == "hdgst" { &mut p.hdgst } else { &mut p.ddgst };
            *which = which.map(|d| if hit { d.map(|b| b ^ 1) } else { d });
            hit
        });
        assert_eq!(paths(&held(&one, &other, "")), [path]);
    }
    let mut other = one.clone();
    for e in &mut other.connections[1].events {
        e.kind = match &e.kind {
            EventKind::Closed { reset } => EventKind::Closed { reset: !reset },
            kind => kind.clone(),
        };
    }
    assert!(held(&one, &other, "").is_equal());
    assert_eq!(paths(&held(&one, &other, "exact Close.reset")), ["Close.reset"]);
    let at = other.connections[1].events.iter().position(|e| matches!(e.kind, EventKind::Closed { .. })).expect("an end");
    other.connections[1].events.truncate(at);
    assert_eq!(paths(&held(&one, &other, "")), ["-> Close"]);
    other.connections.truncate(1);
    let report = held(&one, &other, "");
    assert!(report.text(5).contains("only in A: connection") && report.text(5).contains("I/O queue 1"), "{}", report.text(5));
}

/// Another run: every CID, TTAG, CNTLID, address and port is another one.
fn renamed(one: &Exchange) -> Exchange {
    let mut other = one.clone();
    let mut sent = std::collections::BTreeSet::new();
    let address = |old: &str| if old == "10.9.0.2" { "192.0.2.77".to_owned() } else { format!("2001:db8::{}", old.len()) };
    each(&mut other, true, |_, command, p| {
        let xor = |bytes: &mut Bytes, at: usize, layout: &Layout, field: &str, with: u64| {
            let old = layout.field(field).and_then(|f| f.get(&bytes[at..]).int()).expect("a number");
            put(bytes, at, layout, field, Value::Int(old ^ with));
        };
        match p.ptype() {
            PduType::CAPSULE_CMD => {
                sent.insert(u16::from_le_bytes([p.header[10], p.header[11]]));
                xor(&mut p.header, 8, Sqe::LAYOUT, "cid", 0x5555);
                // a command that was sent has another name, too; any other number stays
                if command == "Abort" && sent.contains(&u16::from_le_bytes([p.header[8 + 42], p.header[8 + 43]])) {
                    xor(&mut p.header, 8, nvmf_wire::admin::Abort::LAYOUT, "cid_abort", 0x5555);
                }
                if command == "Connect" && p.header[8 + 42] != 0 {
                    xor(&mut p.data, 0, connect::ConnectData::LAYOUT, "cntlid", 0x40);
                }
            }
            PduType::CAPSULE_RESP => {
                xor(&mut p.header, 8, Cqe::LAYOUT, "cid", 0x5555);
                if command == "Connect" && p.header[8 + 14] == 0 {
                    xor(&mut p.header, 8, cqe::ConnectResponse::LAYOUT, "cntlid", 0x40);
                }
            }
            PduType::R2T | PduType::H2C_DATA => {
                let layout = p.ptype().layout().expect("a table");
                xor(&mut p.header, 0, layout, "cccid", 0x5555);
                xor(&mut p.header, 0, layout, "ttag", 0x1111);
            }
            PduType::C2H_DATA => {
                xor(&mut p.header, 0, nvmf_wire::tcp::C2hData::LAYOUT, "cccid", 0x5555);
                if command == "Identify" && p.data.len() == 4096 && p.data[80..84] == [0, 3, 1, 0] {
                    xor(&mut p.data, 0, identify::IdentifyController::LAYOUT, "cntlid", 0x40);
                }
                if command == "GetLogPage" && p.data.len() >= 1024 && p.data.len() % 1024 == 0 && p.data[256..260] == *b"nqn." {
                    for n in 0..p.data.len() / 1024 {
                        let entry = log::DiscoveryEntry::read(&p.data[n * 1024..]).expect("an entry");
                        let to = address(entry.traddr().as_str());
                        put(&mut p.data, n * 1024, log::DiscoveryEntry::LAYOUT, "traddr", Value::Bytes(to.into_bytes()));
                    }
                }
            }
            _ => return false,
        }
        true
    });
    for (n, c) in other.connections.iter_mut().enumerate() {
        let to = |at: SocketAddr| address(&at.ip().to_string()).parse::<IpAddr>().expect("an address");
        c.client = SocketAddr::new(to(c.client), 1000 + n as u16);
        c.server = SocketAddr::new(to(c.server), c.server.port());
    }
    other
}

#[test]
fn another_name_for_everything_is_no_difference_and_two_names_for_one_thing_are() {
    let mut tried = 0;
    for file in files().iter().filter(|f| f.contains("linux-6.12/tcp-") && !f.contains("raw")) {
        let one = load(file);
        let other = renamed(&one);
        let report = held(&one, &other, "");
        assert!(report.is_equal(), "{file}: {}", report.text(20));
        tried += 1;
    }
    assert!(tried > 15);
    let one = load("linux-6.12/tcp-io-64k.pcap.gz");
    for (pdu, command, at, field, value, path) in [
        ("C2HData", "Read", At::Header, "cccid", 7, "C2HData.Read.cccid"),
        ("H2CData", "Write", At::Header, "ttag", 7, "H2CData.Write.ttag"),
    ] {
        let other = changed(&renamed(&one), pdu, command, 1, at, field, Value::Int(value));
        assert_eq!(paths(&held(&one, &other, "")), [path]);
    }
    // the second connection goes to another target, the I/O queue to another controller
    let mut other = renamed(&one);
    other.connections[1].server.set_port(9999);
    assert_eq!(paths(&held(&one, &other, "")), ["Connection.server"]);
    let other =
        changed(&renamed(&one), "CapsuleResp", "Connect", 2, At::Inside(cqe::ConnectResponse::LAYOUT), "cntlid", Value::Int(2));
    assert_eq!(paths(&held(&one, &other, "")), ["CapsuleResp.Connect.cntlid"]);
}

/// The place of the `nth` PDU of a name and a command.
fn place(one: &Exchange, pdu: &str, command: &str, nth: usize) -> (usize, usize) {
    let mut copy = one.clone();
    let mut order = Vec::new();
    each(&mut copy, true, |conn, name, p| {
        order.push((conn, p.ptype().name() == Some(pdu) && name == command));
        false
    });
    let (conn, _) = *order.iter().filter(|(_, hit)| *hit).nth(nth - 1).expect("such a PDU");
    let upto = order.iter().position(|o| o.0 == conn).unwrap_or(0);
    let of_conn: Vec<bool> = order.iter().filter(|o| o.0 == conn).map(|o| o.1).collect();
    let before = order[..upto].iter().filter(|(_, hit)| *hit).count();
    let among = of_conn.iter().enumerate().filter(|(_, hit)| **hit).nth(nth - 1 - before).expect("such a PDU").0;
    let pdus = one.connections[conn]
        .events
        .iter()
        .enumerate()
        .filter(|(_, e)| matches!(&e.kind, EventKind::Pdu(b) if Pdu::parse(b).is_ok()));
    (conn, pdus.map(|(n, _)| n).nth(among).expect("such a PDU"))
}

#[test]
fn a_missing_or_an_extra_pdu_is_said_and_passed_over() {
    let one = load("linux-6.12/tcp-io-64k.pcap.gz");
    let (conn, at) = place(&one, "C2HData", "Read", 3);
    let mut other = one.clone();
    other.connections[conn].events.remove(at);
    assert_eq!(paths(&held(&one, &other, "")), ["-< C2HData", "-< Data"]);
    assert_eq!(paths(&held(&other, &one, "")), ["+< C2HData", "+< Data"]);
    let (conn, at) = place(&one, "CapsuleResp", "Write", 1);
    let mut other = one.clone();
    other.connections[conn].events.remove(at);
    // without the response one step of SQHD is missing, and the next is twice as far
    let found = paths(&held(&one, &other, ""));
    assert_eq!(found, ["-< CapsuleResp"], "{found:?}");
    let mut twice = one.clone();
    let copy = twice.connections[conn].events[at].clone();
    twice.connections[conn].events.insert(at, copy);
    let found = paths(&held(&one, &twice, ""));
    assert_eq!(found, ["+< CapsuleResp"], "{found:?}");
    // a whole command
    let mut other = one.clone();
    let mut cid = None;
    other.connections[0].events.retain(|e| {
        let EventKind::Pdu(bytes) = &e.kind else { return true };
        let Ok(pdu) = Pdu::parse(bytes) else { return true };
        if pdu.ptype() == PduType::CAPSULE_CMD && pdu.header[8] == 2 && pdu.header[8 + 40] == 5 {
            cid = Some(u16::from_le_bytes([pdu.header[10], pdu.header[11]]));
            return false;
        }
        let belongs = cid.is_some() && cid_of(&pdu) == cid;
        if belongs && pdu.ptype() == PduType::CAPSULE_RESP {
            cid = None;
        }
        !belongs
    });
    let found = paths(&held(&one, &other, ""));
    assert!(found.contains(&"-> CapsuleCmd".to_owned()) && found.len() <= 2, "{found:?}");
}

#[test]
fn commands_that_overlap_may_end_in_another_order() {
    let one = load("spdk-26.09/03-spdk-read-4k-qd4.pcap.gz");
    let mut other = one.clone();
    let mut swapped = 0;
    for c in &mut other.connections {
        let mut at = 0;
        while at + 1 < c.events.len() {
            let data = |c: &Connection, i: usize| match &c.events[i].kind {
                EventKind::Pdu(b) => Pdu::parse(b).ok().filter(|p| p.ptype() == PduType::C2H_DATA).and_then(|p| cid_of(&p)),
                _ => None,
            };
            let cid = |c: &Connection, i: usize| match &c.events[i].kind {
                EventKind::Pdu(b) if c.events[i].dir == Direction::ControllerToHost => Pdu::parse(b).ok().and_then(|p| cid_of(&p)),
                _ => None,
            };
            if let (Some(x), Some(y)) = (cid(c, at), data(c, at + 1))
                && x != y
            {
                let (first, second) = (c.events[at].clone(), c.events[at + 1].clone());
                c.events[at].kind = second.kind;
                c.events[at + 1].kind = first.kind;
                swapped += 1;
                at += 1;
            }
            at += 1;
        }
    }
    assert!(swapped > 3, "{swapped}");
    let report = held(&one, &other, "");
    assert!(report.is_equal(), "{}", report.text(20));
}

#[test]
fn times_are_compared_within_what_the_mask_says() {
    let one = load("linux-6.12/tcp-io-4k.pcap.gz");
    let (conn, at) = place(&one, "CapsuleResp", "Write", 1);
    let late = |by: u64| {
        let mut other = one.clone();
        for e in other.connections[conn].events.iter_mut().skip(at) {
            e.at_ns += by;
        }
        other
    };
    assert!(held(&one, &late(500_000), "within CapsuleResp.time 1ms \"a lab\"").is_equal());
    assert_eq!(paths(&held(&one, &late(5_000_000), "within CapsuleResp.time 1ms \"a lab\"")), ["CapsuleResp.Write.time"]);
    assert!(held(&one, &late(5_000_000), "within CapsuleResp.time 99% \"a lab\"").is_equal());
    assert!(held(&one, &late(5_000_000), "").is_equal());
}

#[test]
fn a_mask_takes_away_what_it_names_and_no_more() {
    let one = load("linux-6.12/tcp-errors-cmd.pcap.gz");
    let other = changed(&one, "CapsuleResp", "Read", 8, At::Inside(Cqe::LAYOUT), "sc", Value::Int(0x80));
    assert_eq!(paths(&held(&one, &other, "")), ["CapsuleResp.Read.sc"]);
    assert!(held(&one, &other, "allow CapsuleResp.Read.sc 6 -> 0x80 \"of two names for it\"").is_equal());
    assert!(!held(&one, &other, "allow CapsuleResp.Read.sc 7 -> 0x80 \"of two names for it\"").is_equal());
    assert!(held(&one, &other, "ignore Read.sc \"whatever it is\"").is_equal());
    assert!(held(&one, &other, "skip CapsuleResp.Read sc=6 \"as if it were not there\"").differences.len() == 1);
    let report = held(&one, &other, "ignore Read.sc \"whatever it is\"\nignore Read.dnr \"whatever it is\"");
    assert_eq!(report.used.iter().map(|l| (l.mask, l.number)).filter(|l| l.0 == 1).collect::<Vec<_>>(), [(1, 1)]);
}

#[test]
fn data_may_be_cut_otherwise_where_the_mask_joins_it() {
    let one = load("spdk-26.09/06a-spdk-read-128k.pcap.gz");
    let other = load("spdk-26.09/06d-spdk-read-128k-many-c2h.pcap.gz");
    let options = |mask: &str| {
        let mut all = Mask::default();
        all.add(mask).expect("a mask");
        Options { mask: all, from: Some("Read".into()), to: Some("Read".into()) }
    };
    let apart = compare(&one, &other, &options("")).expect("a Read in both");
    assert!(paths(&apart).iter().any(|p| p == "+< C2HData"), "{}", apart.text(20));
    let joined = compare(&one, &other, &options("join C2HData \"each controller has its own pieces\"")).expect("a Read in both");
    assert!(!paths(&joined).iter().any(|p| p.contains("C2HData")), "{}", joined.text(20));
    assert!(compare(&one, &other, &Options { from: Some("Sanitize".into()), ..Options::default() }).is_err());
}

/// The `nth` thing that RDMA packets came to, changed; `change` says whether it is one of those that count.
fn bent(one: &Exchange, nth: usize, mut change: impl FnMut(&mut Rdma) -> bool) -> Exchange {
    let mut other = one.clone();
    let mut left = nth;
    for e in other.connections.iter_mut().flat_map(|c| &mut c.events) {
        let EventKind::Rdma(rdma) = &mut e.kind else { continue };
        let mut copy = rdma.clone();
        if change(&mut copy) {
            left -= 1;
            if left == 0 {
                *rdma = copy;
                return other;
            }
        }
    }
    panic!("{left} of {nth} missing");
}

#[test]
fn rdma_is_compared_by_what_its_packets_come_to() {
    // two sessions: other queue pairs, keys, addresses and sequence numbers, and the same up to the number of queues
    let (one, other) = (load("linux-6.12/rdma-connect-plain.pcap.gz"), load("linux-6.12/rdma-io.pcap.gz"));
    let mut mask = Mask::default();
    mask.add("ignore Smart.host_* \"of the target's whole life\"\nskip CapsuleCmd.KeepAlive \"one was slower\"").expect("a mask");
    let report =
        compare(&one, &other, &Options { mask, to: Some("SetFeatures".into()), ..Options::default() }).expect("both have it");
    assert!(report.is_equal() && report.commands >= 12, "{}", report.text(20));

    let one = other;
    type Bend = fn(&mut Rdma) -> bool;
    let cases: &[(&str, usize, Bend)] = &[
        ("CapsuleCmd.Read.slba", 2, |r| match r {
            Rdma::Command { sqe, .. } if sqe.opc().0 == 2 && sqe.nsid() == Nsid(1) => {
                let mut b = *sqe.as_bytes();
                b[40] ^= 0x40;
                *sqe = Sqe::from_bytes(b);
                true
            }
            _ => false,
        }),
        (".invalidate", 2, |r| match r {
            Rdma::Response { invalidate: Some(key), .. } => {
                *key ^= 0x100;
                true
            }
            _ => false,
        }),
        ("Read.Connect.rkey", 1, |r| match r {
            Rdma::Read(target) => {
                target.reth = target.reth.with(|s| s.rkey(7));
                true
            }
            _ => false,
        }),
        ("Read.Connect.offset", 1, |r| match r {
            Rdma::Read(target) => {
                target.offset = Some(512);
                true
            }
            _ => false,
        }),
        ("ReadResponse.Connect.length", 1, |r| match r {
            Rdma::Data(d) if d.last => {
                d.target.reth = d.target.reth.with(|s| s.dmalen(8));
                true
            }
            _ => false,
        }),
        ("CmReq.RdmaRequest.hsqsize", 1, |r| match r {
            Rdma::Cm(cm) if cm.message() == CmMessage::REQ => {
                let mut b = cm.bytes.to_vec();
                b[140 + 36 + 6] ^= 1;
                cm.bytes = b.into();
                true
            }
            _ => false,
        }),
        ("CmDreq.remote_qpn", 1, |r| match r {
            Rdma::Cm(cm) if cm.message() == CmMessage::DREQ => {
                let mut b = cm.bytes.to_vec();
                b[10] ^= 1;
                cm.bytes = b.into();
                true
            }
            _ => false,
        }),
        ("CapsuleResp.", 4, |r| match r {
            Rdma::Response { cqe, .. } => {
                *cqe = cqe.with_status(nvmf_wire::Status(6));
                true
            }
            _ => false,
        }),
    ];
    for (path, nth, bend) in cases {
        let report = held(&one, &bent(&one, *nth, bend), "");
        let found = paths(&report);
        assert!(found.iter().any(|p| p.contains(path)) && found.len() <= 12, "{path}: {}", report.text(20));
    }
    // an operation that did not come, and its data with it
    let mut other = one.clone();
    let events = &mut other.connections[1].events;
    let at = events
        .iter()
        .position(|e| matches!(&e.kind, EventKind::Rdma(r) if matches!(&**r, Rdma::Data(d) if d.last && d.span.packets == 1)));
    events.remove(at.expect("a WRITE in one packet"));
    let found = paths(&held(&one, &other, ""));
    assert!(found.contains(&"-< Write".to_owned()) && found.len() <= 2, "{found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever bit of whatever PDU is turned, there is a difference; and nothing panics.
    #[test]
    fn any_bit_makes_a_difference(pick in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let one = load("linux-6.12/tcp-hdgst-ddgst.pcap.gz");
        let all: Vec<(usize, usize)> = one.connections.iter().enumerate().flat_map(|(c, x)| {
            x.events.iter().enumerate().filter(|(_, e)| matches!(e.kind, EventKind::Pdu(_))).map(move |(n, _)| (c, n))
        }).collect();
        let (c, n) = all[pick.index(all.len())];
        let mut other = one.clone();
        if let EventKind::Pdu(bytes) = &one.connections[c].events[n].kind {
            let mut b = bytes.to_vec();
            let i = at.index(b.len());
            b[i] ^= 1 << bit;
            other.connections[c].events[n].kind = EventKind::Pdu(b.into());
        }
        prop_assert!(!held(&one, &other, "").is_equal());
    }
}
