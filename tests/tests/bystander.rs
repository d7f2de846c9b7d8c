//! The bystander rules: right exchanges have no findings, and each rule is seen failing on one that is wrong.

mod talk;

#[path = "bystander/admin.rs"]
mod admin;
#[path = "bystander/answers.rs"]
mod answers;
#[path = "bystander/further.rs"]
mod further;
#[path = "bystander/hosts.rs"]
mod hosts;
#[path = "bystander/rdma.rs"]
mod rdma;
#[path = "bystander/transfer.rs"]
mod transfer;
#[path = "bystander/transport.rs"]
mod transport;

use std::collections::BTreeSet;

use bytes::Bytes;
use nvmf_capture::rules::Part;
use nvmf_capture::{Exchange, Finding, Judge};
use nvmf_spec::{Level, Side};
use nvmf_wire::connect::ConnectData;
use nvmf_wire::tcp::{C2hData, CapsuleCmd, CapsuleResp, Digests, Fes, H2cData, IcReq, IcResp, Pdu, PduType, R2t, TermReq};
use nvmf_wire::{Cid, Cqe, SglDescriptor, Sqe, Status, ZeroBased32};

use talk::{C2H, H2C, Talk, bent, connect, connected, io, ready, sqe};

const PLAIN: Digests = Digests { header: false, data: false };
const BOTH: Digests = Digests { header: true, data: true };

fn found(t: Talk) -> Vec<String> {
    let findings = Judge::exchange(&t.exchange());
    findings.iter().map(|f| format!("{} {}", f.requirement.id, f.side)).collect()
}

/// Ids seen failing so far.
#[derive(Default)]
struct Seen {
    ids: BTreeSet<String>,
    failures: Vec<String>,
}

impl Seen {
    /// `start`, then `wrong`, which must be found as `ids` ("host" or "controller" behind each), in this order and nothing else.
    #[track_caller]
    fn case(&mut self, start: Talk, ids: &[&str], wrong: impl FnOnce(&mut Talk)) {
        let mut t = start;
        wrong(&mut t);
        let got = found(t);
        if got != ids {
            self.failures.push(format!("{}: found {got:?}, expected {ids:?}", std::panic::Location::caller()));
        }
        self.ids.extend(ids.iter().map(|s| s.split(' ').next().unwrap().to_owned()));
    }

    /// What `all` breaks over its connections: these ids of `side`, parted by spaces, in any order, and nothing else.
    #[track_caller]
    fn breaks(&mut self, side: Side, ids: &str, all: Vec<Talk>) {
        self.judge(side, ids, all, false);
    }

    /// The same of what `side` alone breaks.
    #[track_caller]
    fn only(&mut self, side: Side, ids: &str, all: Vec<Talk>) {
        self.judge(side, ids, all, true);
    }

    #[track_caller]
    fn judge(&mut self, side: Side, ids: &str, all: Vec<Talk>, alone: bool) {
        let exchange = Exchange { connections: all.into_iter().map(|t| t.rec.finish()).collect() };
        let mut judge = Judge::new().exclusive();
        let mut findings: Vec<_> = exchange.events().into_iter().flat_map(|(conn, event)| judge.event(conn, event)).collect();
        findings.retain(|f| !alone || f.side == side);
        let name = |f: &Finding| format!("{} {}", f.requirement.id, f.side);
        let due: BTreeSet<String> = ids.split_whitespace().map(|id| format!("{id} {side}")).collect();
        let got: BTreeSet<String> = findings.iter().map(name).collect();
        if got != due {
            let more: Vec<_> = findings.iter().filter(|f| !due.contains(&name(f))).map(ToString::to_string).collect();
            let less: Vec<_> = due.difference(&got).collect();
            self.failures.push(format!("{}: too many {more:#?}, missing {less:?}", std::panic::Location::caller()));
        }
        self.ids.extend(ids.split_whitespace().map(str::to_owned));
    }
}

fn head(ptype: PduType) -> Vec<u8> {
    let mut h = vec![0; ptype.hlen().unwrap()];
    h[0] = ptype.0;
    h
}

/// The bytes of a PDU as `t` would send it, with some of them changed.
fn wrong_pdu(t: &Talk, ptype: PduType, header: &[u8], data: &[u8], changes: &[(usize, u8)]) -> Vec<u8> {
    let pdu = Pdu::build(&bent(header, &[(0, ptype.0)]), Bytes::copy_from_slice(data), t.digests, t.align).seal();
    bent(&pdu.to_bytes(), changes)
}

fn c2h(cid: u16, datao: u32, datal: u32, last: bool, success: bool) -> Vec<u8> {
    C2hData::new().with(|s| s.cccid(Cid(cid)).datao(datao).datal(datal).last(last).success(success)).as_bytes().to_vec()
}

fn h2c(cid: u16, ttag: u16, datao: u32, datal: u32, last: bool) -> Vec<u8> {
    H2cData::new().with(|s| s.cccid(Cid(cid)).ttag(ttag).datao(datao).datal(datal).last(last)).as_bytes().to_vec()
}

fn r2t(cid: u16, ttag: u16, r2to: u32, r2tl: u32) -> Vec<u8> {
    R2t::new().with(|s| s.cccid(Cid(cid)).ttag(ttag).r2to(r2to).r2tl(r2tl)).as_bytes().to_vec()
}

impl Talk {
    fn c2h(&mut self, header: &[u8]) {
        let len = u32::from_le_bytes(*header[16..].first_chunk().unwrap());
        self.send(C2H, PduType::C2H_DATA, header, &vec![0xda; len as usize]);
    }

    fn h2c(&mut self, header: &[u8]) {
        let len = u32::from_le_bytes(*header[16..].first_chunk().unwrap());
        self.send(H2C, PduType::H2C_DATA, header, &vec![0xda; len as usize]);
    }

    fn r2t(&mut self, header: &[u8]) {
        self.send(C2H, PduType::R2T, header, &[]);
    }
}

#[test]
fn right_exchanges_have_no_findings() {
    for digests in [PLAIN, Digests { header: true, data: false }, Digests { header: false, data: true }, BOTH] {
        for units in [0u8, 1, 7, 31] {
            let mut t = Talk::new();
            let q = IcReq::new().with(|s| s.hdgst(digests.header).ddgst(digests.data).hpda(units).maxr2t(ZeroBased32(1)));
            let r = IcResp::new().with(|s| s.hdgst(digests.header).ddgst(digests.data).cpda(units).maxh2cdata(4096));
            t.send(H2C, PduType::IC_REQ, q.as_bytes(), &[]);
            t.send(C2H, PduType::IC_RESP, r.as_bytes(), &[]);
            t.digests = digests;
            t.align = (usize::from(units) + 1) * 4;
            let (sqe, data) = connect(1, 0);
            t.command(sqe, data.as_bytes());
            t.response(*Cqe::of(Cid(0), Status::SUCCESS, 1).with(|s| s.dw0(1)).as_bytes());
            t.command(io("Write", 1, 4096), &[]);
            t.r2t(&r2t(1, 9, 0, 2048));
            t.r2t(&r2t(1, 9, 2048, 2048));
            t.h2c(&h2c(1, 9, 0, 1024, false));
            t.h2c(&h2c(1, 9, 1024, 1024, true));
            t.h2c(&h2c(1, 9, 2048, 2048, true));
            t.done(1, Status::SUCCESS, 2);
            t.command(io("Read", 2, 4096), &[]);
            t.command(io("Read", 3, 4096), &[]);
            t.c2h(&c2h(2, 0, 1024, false, false));
            t.c2h(&c2h(3, 0, 4096, true, true));
            t.c2h(&c2h(2, 1024, 3072, true, false));
            t.done(2, Status::SUCCESS, 4);
            // An early error, and data that crosses it.
            t.command(io("Write", 4, 4096), &[]);
            t.r2t(&r2t(4, 1, 0, 4096));
            t.done(4, Status::LBA_OUT_OF_RANGE, 5);
            t.h2c(&h2c(4, 1, 0, 4096, true));
            t.rec.close(H2C, t.now_ns, false);
            assert_eq!(found(t), Vec::<String>::new(), "{digests:?} {units}");
        }
    }
}

#[test]
fn sqhd_may_wrap_and_skip_and_be_off() {
    let mut t = connected(1, PLAIN);
    for n in 1..100u16 {
        t.command(io("Read", n, 4096), &[]);
        t.c2h(&c2h(n, 0, 4096, true, n % 3 == 0));
        if n % 3 != 0 {
            t.done(n, Status::SUCCESS, (n + 1) % 32);
        }
    }
    assert_eq!(found(t), Vec::<String>::new());
    assert_eq!(found(sqhd_off()), Vec::<String>::new());
}

/// A queue without SQ flow control.
fn sqhd_off() -> Talk {
    let mut t = Talk::new();
    t.start(PLAIN);
    let (sqe, data) = connect(1, 0);
    t.command(Sqe::from_bytes(bent(sqe.as_bytes(), &[(46, 4)]).try_into().unwrap()), data.as_bytes());
    t.response(*Cqe::of(Cid(0), Status::SUCCESS, 0xffff).with(|s| s.dw0(1)).as_bytes());
    for n in 1..100u16 {
        t.command(io("Read", n, 4096), &[]);
        t.c2h(&c2h(n, 0, 4096, true, true));
    }
    t
}

#[test]
fn every_rule_is_seen_failing() {
    let mut seen = Seen::default();
    connection_start(&mut seen);
    heads(&mut seen);
    terminate_requests(&mut seen);
    transfer::cases(&mut seen);
    commands(&mut seen);
    connects(&mut seen);
    responses(&mut seen);
    submission_queue(&mut seen);
    admin::cases(&mut seen);
    answers::cases(&mut seen);
    hosts::cases(&mut seen);
    further::cases(&mut seen);
    transport::cases(&mut seen);
    rdma::cases(&mut seen);

    assert!(seen.failures.is_empty(), "{:#?}", seen.failures);

    let rules = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/capture/src/rules");
    let sources: Vec<String> = std::fs::read_dir(rules)
        .unwrap()
        .map(|e| std::fs::read_to_string(e.unwrap().path()).unwrap())
        .map(|text| text.split("#[cfg(test)]").next().unwrap().to_owned())
        .collect();
    let word = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let cited: BTreeSet<String> = sources
        .iter()
        .flat_map(|s| s.split("req::").skip(1))
        .map(|s| s.split(|c| !word(c)).next().unwrap().replace('_', "-"))
        .filter(|id| !id.is_empty())
        .collect();
    let never: Vec<_> = cited.difference(&seen.ids).collect();
    assert!(never.is_empty(), "no case breaks {never:?}");
    assert!(cited.len() > 400, "{}", cited.len());
}

/// Makes a PDU with bytes changed.
type Bend<'a> = &'a dyn Fn(&[(usize, u8)]) -> Vec<u8>;

fn connection_start(seen: &mut Seen) {
    let icreq = |f: &[(usize, u8)]| wrong_pdu(&Talk::new(), PduType::IC_REQ, IcReq::new().as_bytes(), &[], f);
    for (id, changes) in [
        ("TCP-ICREQ-03 host", (1, 0x80)),
        ("TCP-ICREQ-06 host", (3, 128)),
        ("TCP-ICREQ-07 host", (8, 1)),
        ("TCP-ICREQ-08 host", (10, 32)),
        ("TCP-ICREQ-09 host", (11, 4)),
        ("TCP-ICREQ-13 host", (127, 1)),
        ("TCP-ICREQ-04 host", (2, 64)),
    ] {
        seen.case(Talk::new(), &[id], |t| t.raw(H2C, &icreq(&[changes])));
    }
    let long = |f: Bend| [f(&[(4, 132)]), vec![0; 4]].concat();
    seen.case(Talk::new(), &["TCP-ICREQ-05 host"], |t| t.raw(H2C, &long(&icreq)));

    let icresp = |f: &[(usize, u8)]| wrong_pdu(&Talk::new(), PduType::IC_RESP, IcResp::new().as_bytes(), &[], f);
    let icresp = |f: &[(usize, u8)]| icresp(&[&[(13, 0x20)], f].concat());
    let asked = || {
        let mut t = Talk::new();
        t.raw(H2C, &icreq(&[]));
        t
    };
    for (id, changes) in [
        ("TCP-ICRESP-03 controller", (1, 0x80)),
        ("TCP-ICRESP-06 controller", (3, 128)),
        ("TCP-ICRESP-07 controller", (8, 1)),
        ("TCP-ICRESP-08 controller", (10, 32)),
        ("TCP-ICRESP-09 controller", (11, 4)),
        ("TCP-ICRESP-12 controller", (12, 2)),
        ("TCP-ICRESP-13 controller", (13, 0x0f)),
        ("TCP-ICRESP-14 controller", (16, 1)),
        ("TCP-ICRESP-04 controller", (2, 127)),
        ("TCP-DGST-18 controller", (11, 1)),
        ("TCP-DGST-18 controller", (11, 2)),
    ] {
        seen.case(asked(), &[id], |t| t.raw(C2H, &icresp(&[changes])));
    }
    seen.case(asked(), &["TCP-ICRESP-05 controller"], |t| t.raw(C2H, &long(&icresp)));

    let (sqe, data) = connect(0, 0);
    seen.case(Talk::new(), &["TCP-ICREQ-01 host", "TCP-CONN-02 host"], |t| t.command(sqe, data.as_bytes()));
    seen.case(asked(), &["TCP-CONN-02 host"], |t| t.command(sqe, data.as_bytes()));
    seen.case(asked(), &["TCP-CONN-02 controller", "CQE-01 controller"], |t| t.done(0, Status::SUCCESS, 1));
}

type Start<'a> = &'a dyn Fn() -> Talk;
/// What comes before, a right header, bytes of data behind it, the byte that is changed, what that breaks.
type Case<'a> = (Start<'a>, Vec<u8>, usize, (usize, u8), &'a [&'a str]);

fn heads(seen: &mut Seen) {
    seen.case(connected(1, PLAIN), &["TCP-CH-01 host"], |t| t.send(H2C, PduType::R2T, &head(PduType::R2T), &[]));
    seen.case(connected(1, PLAIN), &["TCP-CH-01 controller"], |t| t.send(C2H, PduType::H2C_DATA, &head(PduType::H2C_DATA), &[]));
    seen.case(connected(1, PLAIN), &["TCP-CH-02 host"], |t| t.send(H2C, PduType(0x0a), &[0; 24], &[]));
    seen.case(connected(1, PLAIN), &["TCP-CH-06 host"], |t| t.raw(H2C, &[8, 0, 24, 0, 7, 0, 0, 0]));

    // A right PDU of each type, and where one byte of it breaks what.
    let command = CapsuleCmd::new().with(|s| s.sqe(*io("Flush", 7, 0).as_bytes()));
    let write = CapsuleCmd::new().with(|s| s.sqe(*io("Write", 7, 512).as_bytes()));
    let read = CapsuleCmd::new().with(|s| s.sqe(*io("Read", 7, 512).as_bytes()));
    let response = CapsuleResp::new().with(|s| s.cqe(*Cqe::of(Cid(7), Status::SUCCESS, 2).as_bytes()));
    let after = |c: &CapsuleCmd| {
        let mut t = connected(1, PLAIN);
        t.send(H2C, PduType::CAPSULE_CMD, c.as_bytes(), &[]);
        t
    };
    let asked = || {
        let mut t = after(&write);
        t.r2t(&r2t(7, 5, 0, 512));
        t
    };
    let t = |h: &[u8], p: PduType| bent(h, &[(0, p.0)]);
    let start: Start = &|| connected(1, PLAIN);
    let (written, reading, wanted): (Start, Start, Start) = (&|| after(&write), &|| after(&read), &asked);
    let cases: &[Case] = &[
        (start, t(command.as_bytes(), PduType::CAPSULE_CMD), 0, (1, 0x10), &["TCP-CAPSULE-14 host"]),
        (start, t(command.as_bytes(), PduType::CAPSULE_CMD), 0, (2, 68), &["TCP-CAPSULE-15 host"]),
        (written, t(response.as_bytes(), PduType::CAPSULE_RESP), 0, (1, 2), &["TCP-CAPSULE-25 controller"]),
        (written, t(response.as_bytes(), PduType::CAPSULE_RESP), 0, (2, 20), &["TCP-CAPSULE-26 controller"]),
        (written, t(response.as_bytes(), PduType::CAPSULE_RESP), 0, (3, 24), &["TCP-CAPSULE-27 controller"]),
        (written, t(&r2t(7, 5, 0, 512), PduType::R2T), 0, (1, 4), &["TCP-R2T-13 controller"]),
        (written, t(&r2t(7, 5, 0, 512), PduType::R2T), 0, (2, 23), &["TCP-R2T-14 controller"]),
        (written, t(&r2t(7, 5, 0, 512), PduType::R2T), 0, (3, 1), &["TCP-R2T-15 controller"]),
        (written, t(&r2t(7, 5, 0, 512), PduType::R2T), 0, (23, 1), &["TCP-R2T-22 controller"]),
        (reading, t(&c2h(7, 0, 512, true, false), PduType::C2H_DATA), 512, (1, 0x14), &["TCP-C2H-23 controller"]),
        (reading, t(&c2h(7, 0, 512, true, false), PduType::C2H_DATA), 512, (2, 20), &["TCP-C2H-24 controller"]),
        (reading, t(&c2h(7, 0, 512, true, false), PduType::C2H_DATA), 512, (10, 1), &["TCP-C2H-31 controller"]),
        (reading, t(&c2h(7, 0, 512, true, false), PduType::C2H_DATA), 512, (20, 1), &["TCP-C2H-31 controller"]),
        (wanted, t(&h2c(7, 5, 0, 512, true), PduType::H2C_DATA), 512, (1, 0x0c), &["TCP-H2C-19 host"]),
        (wanted, t(&h2c(7, 5, 0, 512, true), PduType::H2C_DATA), 512, (2, 20), &["TCP-H2C-20 host"]),
        (wanted, t(&h2c(7, 5, 0, 512, true), PduType::H2C_DATA), 512, (20, 1), &["TCP-H2C-29 host"]),
    ];
    for (start, header, data, change, ids) in cases {
        let dir = if PduType(header[0]).from_host() { H2C } else { C2H };
        seen.case(start(), ids, |t| {
            let bytes = wrong_pdu(t, PduType(header[0]), header, &vec![1; *data], &[*change]);
            t.raw(dir, &bytes);
        });
    }
    // Lengths: one byte more where the length is fixed, and PLEN that ends within the header.
    let longer =
        |header: &[u8]| [bent(&wrong_pdu(&Talk::new(), PduType(header[0]), header, &[], &[]), &[(4, 28)]), vec![0; 4]].concat();
    seen.case(written(), &["TCP-CAPSULE-28 controller"], |k| k.raw(C2H, &longer(&t(response.as_bytes(), PduType::CAPSULE_RESP))));
    seen.case(written(), &["TCP-R2T-16 controller"], |k| k.raw(C2H, &longer(&t(&r2t(7, 5, 0, 512), PduType::R2T))));
    seen.case(start(), &["TCP-CAPSULE-19 host"], |t| t.raw(H2C, &[4, 0, 72, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    seen.case(reading(), &["TCP-C2H-29 controller"], |t| t.raw(C2H, &[7, 0, 24, 0, 8, 0, 0, 0]));
    seen.case(wanted(), &["TCP-H2C-24 host"], |t| t.raw(H2C, &[6, 0, 24, 24, 8, 0, 0, 0]));
    seen.case(start(), &["TCP-CH-05 host"], |k| {
        let bytes = wrong_pdu(k, PduType::H2C_DATA, &h2c(7, 5, 0, 512, true), &[1; 512], &[(3, 8)]);
        k.raw(H2C, &bytes);
    });
    seen.case(start(), &["TCP-C2H-24 controller"], |t| {
        t.raw(C2H, &[7, 0, 200, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    });
    seen.case(start(), &["TCP-CH-02 host"], |t| t.raw(H2C, &[8, 0, 200, 0, 8, 0, 0, 0]));
}

fn terminate_requests(seen: &mut Seen) {
    let term = |dir, fes, fei, data: &[u8], changes: &[(usize, u8)]| {
        let ptype = if dir == H2C { PduType::H2C_TERM_REQ } else { PduType::C2H_TERM_REQ };
        let head = TermReq::new().with(|s| s.fes(Fes(fes)).fei(fei));
        wrong_pdu(&Talk::new(), ptype, head.as_bytes(), data, changes)
    };
    for (dir, side, ids) in [
        (H2C, "host", ["26", "27", "28", "29", "30", "38", "39", "18", "13", "21", "16", "40"]),
        (C2H, "controller", ["42", "43", "44", "45", "46", "54", "55", "06", "01", "09", "04", "56"]),
    ] {
        let id = |n: usize| format!("TCP-TERM-{} {side}", ids[n]);
        // What the other side sent last, which a terminate request may quote. It was right, so that none is due.
        let q = {
            let t = connected(1, PLAIN);
            let last = t.rec.connection().pdus().filter(|(e, _)| e.dir != dir).last().unwrap().1.clone();
            last[..24].to_vec()
        };
        let unfit = id(10);
        seen.case(connected(1, PLAIN), &[&unfit], |t| t.raw(dir, &term(dir, 1, 8, &q, &[])));
        for (n, fes, fei, change) in [
            (0, 1, 8, Some((1, 1))),
            (1, 1, 8, Some((2, 23))),
            (2, 1, 8, Some((3, 24))),
            (4, 0, 0, None),
            (4, 7, 0, None),
            (5, 2, 1, None),
            (5, 4, 1, None),
            (5, 5, 1, None),
            (6, 1, 8, Some((14, 2))),
        ] {
            let bytes = term(dir, fes, fei, &q, change.as_slice());
            let first = id(n);
            // With another HLEN nobody can tell what it says.
            let told = (1..=3).contains(&fes) && n != 1;
            let ids: Vec<&str> = if told { vec![&first, &unfit] } else { vec![&first] };
            seen.case(connected(1, PLAIN), &ids, |t| t.raw(dir, &bytes));
        }
        let much = [q.clone(), vec![0; 105]].concat();
        seen.case(connected(1, PLAIN), &[&id(3), &id(9), &unfit], |t| t.raw(dir, &term(dir, 1, 8, &much, &[])));
        // It may be the begin of what the other side has not sent whole.
        let other = if dir == H2C { C2H } else { H2C };
        seen.case(connected(1, PLAIN), &[&unfit, &id(7), &id(11)], |t| {
            t.raw(dir, &term(dir, 1, 8, &[0xee; 8], &[]));
            t.rec.close(other, t.now_ns, false);
        });
        seen.case(connected(1, PLAIN), &[&unfit], |t| {
            t.raw(other, &[0xee; 7]);
            t.raw(dir, &term(dir, 1, 8, &[0xee; 8], &[]));
            t.raw(other, &[0xee]);
            t.rec.close(other, t.now_ns, false);
        });
        seen.case(connected(1, PLAIN), &[&unfit, &id(8), &unfit], |t| {
            t.raw(dir, &term(dir, 1, 8, &q, &[]));
            t.raw(dir, &term(dir, 1, 8, &q, &[]));
        });
    }
}

fn commands(seen: &mut Seen) {
    let change = |sqe: Sqe, changes: &[(usize, u8)]| Sqe::from_bytes(bent(sqe.as_bytes(), changes).try_into().unwrap());
    seen.case(connected(1, PLAIN), &["SQE-01 host"], |t| {
        t.command(io("Read", 7, 512), &[]);
        t.command(io("Read", 7, 512), &[]);
        t.done(7, Status::COMMAND_ID_CONFLICT, 3);
        t.done(7, Status::COMMAND_ID_CONFLICT, 3);
    });
    seen.case(connected(1, PLAIN), &["SQE-04 host"], |t| t.command(change(io("Flush", 7, 0), &[(1, 0)]), &[]));
    seen.case(connected(1, PLAIN), &["SQE-11 host"], |t| t.command(change(io("Flush", 7, 0), &[(1, 0x44)]), &[]));
    seen.case(connected(1, PLAIN), &["SQE-19 host"], |t| t.command(change(io("Flush", 7, 0), &[(16, 1)]), &[]));
    seen.case(connected(1, PLAIN), &["TCP-SGL-04 host"], |t| t.command(change(io("Read", 7, 512), &[(39, 0x00)]), &[]));
    seen.case(connected(1, PLAIN), &["TCP-SGL-05 host"], |t| t.command(change(io("Read", 7, 512), &[(39, 0x51)]), &[]));
    seen.case(connected(1, PLAIN), &["SGL-16 host"], |t| t.command(change(io("Read", 7, 512), &[(36, 1)]), &[]));
    seen.case(connected(1, PLAIN), &["SGL-16 host"], |t| t.command(change(io("Read", 7, 512), &[(24, 1)]), &[]));
    let inline = |len| io("Write", 7, 0).with_sgl1(SglDescriptor::in_capsule(0, len));
    seen.case(connected(1, PLAIN), &["TCP-CAPSULE-10 host"], |t| t.command(inline(512), &[1; 516]));
    seen.case(connected(1, PLAIN), &["TCP-CAPSULE-10 host"], |t| t.command(inline(512), &[]));
    seen.case(connected(1, PLAIN), &["TCP-CAPSULE-10 host"], |t| t.command(io("Write", 7, 512), &[1; 512]));
    seen.case(ready(PLAIN), &["TCP-CAPSULE-02 host"], |t| {
        let sqe = sqe("SetFeatures", 3, &[("fid", 0x81)]).with_sgl1(SglDescriptor::in_capsule(0, 8196));
        t.command(sqe, &[0; 8196]);
    });
    seen.case(connected(1, PLAIN), &["FAB-CMD-05 host"], |t| t.command(sqe("PropertyGet", 7, &[("ofst", 8)]), &[]));
    seen.case(connected(0, PLAIN), &["FAB-CMD-08 host"], |t| {
        t.command(change(sqe("PropertyGet", 7, &[("ofst", 8)]), &[(1, 0)]), &[])
    });
    seen.case(connected(0, PLAIN), &["FAB-CMD-09 host"], |t| {
        t.command(sqe("PropertyGet", 7, &[("ofst", 0x14)]), &[]);
        t.command(sqe("PropertyGet", 7, &[("ofst", 0x14)]), &[]);
        t.done(7, Status::SUCCESS, 2);
        t.done(7, Status::SUCCESS, 3);
    });
    seen.case(connected(0, PLAIN), &["FAB-CMD-10 host"], |t| {
        t.command(change(sqe("PropertyGet", 7, &[("ofst", 8)]), &[(63, 1)]), &[])
    });
    seen.case(connected(0, PLAIN), &["FAB-PROP-11 host"], |t| {
        t.command(change(sqe("PropertyGet", 7, &[("ofst", 8)]), &[(39, 0x5a)]), &[])
    });
    seen.case(connected(0, PLAIN), &["FAB-QUEUE-08 host"], |t| t.command(sqe("KeepAlive", 7, &[]), &[]));
    seen.case(ready(PLAIN), &["FAB-QUEUE-08 host"], |t| {
        t.ask(sqe("KeepAlive", 7, &[]), 0);
        t.ask(sqe("PropertySet", 7, &[("ofst", 0x14)]), 0);
        t.refuse(sqe("KeepAlive", 7, &[]), Status::COMMAND_SEQUENCE_ERROR);
    });
}

fn connects(seen: &mut Seen) {
    let fresh = || {
        let mut t = Talk::new();
        t.start(PLAIN);
        t
    };
    let connect_with = |qid: u16, changes: &[(usize, u8)]| {
        let (sqe, data) = connect(qid, 0);
        (Sqe::from_bytes(bent(sqe.as_bytes(), changes).try_into().unwrap()), data)
    };
    for (id, qid, changes) in [
        ("FAB-CONNECT-05 host", 0, &[(40, 1)][..]),
        ("FAB-CONNECT-06 host", 0xffff, &[]),
        ("FAB-QUEUE-13 host", 0, &[(44, 0)]),
        ("FAB-CONNECT-10 host", 0, &[(46, 1)]),
        ("FAB-CONNECT-12 host", 0, &[(46, 0x20)]),
        ("FAB-CONNECT-14 host", 1, &[(48, 1)]),
        ("FAB-CMD-10 host", 0, &[(47, 1)]),
    ] {
        let (sqe, data) = connect_with(qid, changes);
        seen.case(fresh(), &[id], |t| t.command(sqe, data.as_bytes()));
    }
    let (sqe_, data) = connect_with(0, &[]);
    seen.case(fresh(), &["FAB-CONNECT-19 host"], |t| t.command(sqe_, data.with(|s| s.hostid([0; 16])).as_bytes()));
    seen.case(fresh(), &["FAB-CONNECT-17 host"], |t| t.command(sqe_, &bent(data.as_bytes(), &[(18, 1)])));
    seen.case(fresh(), &["FAB-CONNECT-17 host"], |t| {
        t.command(sqe_.with_sgl1(SglDescriptor::in_capsule(0, 1028)), &[data.as_bytes(), &[0; 4][..]].concat());
    });
    seen.case(fresh(), &["TCP-CONN-03 host"], |t| t.command(sqe("PropertyGet", 0, &[("ofst", 8)]), &[]));
    seen.case(connected(0, PLAIN), &["FAB-CONNECT-02 host"], |t| t.command(sqe_, data.as_bytes()));

    // What Connect answers.
    let asked = |cntlid: u16| {
        let mut t = fresh();
        let data: ConnectData = data.with(|s| s.cntlid(nvmf_wire::Cntlid(cntlid)));
        t.command(sqe_, data.as_bytes());
        t
    };
    let cqe = |status, dw0, dw1, sqhd| *Cqe::of(Cid(0), status, sqhd).with(|s| s.dw0(dw0).dw1(dw1)).as_bytes();
    let ok = Status::SUCCESS;
    seen.case(asked(7), &["FAB-CONNECT-38 controller"], |t| t.response(cqe(ok, 8, 0, 1)));
    seen.case(asked(0xffff), &["FAB-CONNECT-39 controller"], |t| t.response(cqe(ok, 1, 1, 1)));
    seen.case(asked(0xffff), &["FAB-CONNECT-39 controller"], |t| t.response(cqe(Status::CONNECT_INVALID_HOST, 512, 0, 1)));
    seen.case(asked(0xffff), &["FAB-CONNECT-40 controller"], |t| t.response(cqe(ok, 0x0001_0001, 0, 1)));
    seen.case(asked(0xffff), &["FAB-CONNECT-41 controller"], |t| t.response(cqe(ok, 0x0006_0001, 0, 1)));
    seen.case(asked(0xffff), &["FAB-SQFC-06 controller"], |t| t.response(cqe(ok, 1, 0, 0xffff)));
}

fn responses(seen: &mut Seen) {
    let asked = || {
        let mut t = connected(1, PLAIN);
        t.command(io("Flush", 7, 0), &[]);
        t
    };
    let cqe = || Cqe::of(Cid(7), Status::SUCCESS, 2);
    let change = |changes: &[(usize, u8)]| bent(cqe().as_bytes(), changes).try_into().unwrap();
    seen.case(asked(), &["CQE-02 controller"], |t| t.response(change(&[(10, 1)])));
    seen.case(asked(), &["CQE-03 controller"], |t| t.response(change(&[(14, 1)])));
    seen.case(asked(), &["CQE-04 controller"], |t| t.response(change(&[(0, 1)])));
    seen.case(asked(), &["CQE-05 controller"], |t| t.response(change(&[(15, 0x80)])));
    seen.case(asked(), &["CQE-07 controller"], |t| t.response(change(&[(14, 4), (15, 0x90)])));
    seen.case(asked(), &["CQE-14 controller"], |t| t.response(change(&[(15, 0x08)])));
    seen.case(asked(), &["CQE-01 controller"], |t| t.response(change(&[(12, 8)])));
    seen.case(asked(), &["CQE-01 controller"], |t| {
        t.done(7, Status::SUCCESS, 2);
        t.done(7, Status::SUCCESS, 2);
    });
    let admin = |name: &str, fields: &[(&str, u64)]| {
        let mut t = ready(PLAIN);
        t.command(sqe(name, 7, fields), &[]);
        t
    };
    let with = |dw0: u32, dw1: u32| *Cqe::of(Cid(7), Status::SUCCESS, 4).with(|s| s.dw0(dw0).dw1(dw1)).as_bytes();
    seen.case(admin("KeepAlive", &[]), &["CQE-04 controller"], |t| t.response(with(1, 0)));
    seen.case(admin("PropertySet", &[("ofst", 0x14), ("value", 1)]), &["FAB-PROP-10 controller"], |t| t.response(with(1, 0)));
    seen.case(admin("PropertyGet", &[("ofst", 8)]), &["FAB-PROP-09 controller"], |t| t.response(with(0x20000, 1)));
    seen.case(admin("PropertyGet", &[("attrib", 1)]), &[], |t| t.response(with(0x1_ffff, 0x20)));
    seen.case(ready(PLAIN), &["FAB-AUTH-01 host", "FAB-AUTH-05 host", "FAB-AUTH-04 controller"], |t| {
        t.command(Sqe::from_bytes(bent(sqe("PropertyGet", 7, &[("ofst", 8)]).as_bytes(), &[(4, 5)]).try_into().unwrap()), &[]);
        t.response(with(1, 0));
    });
}

fn submission_queue(seen: &mut Seen) {
    let after = |n: u16| {
        let mut t = connected(1, PLAIN);
        for cid in 1..=n {
            t.command(io("Flush", cid, 0), &[]);
        }
        t
    };
    seen.case(after(1), &["CQE-17 controller"], |t| t.done(1, Status::SUCCESS, 3));
    seen.case(after(1), &["CQE-17 controller"], |t| t.done(1, Status::SUCCESS, 32));
    seen.case(after(2), &["CQE-18 controller"], |t| {
        t.done(1, Status::SUCCESS, 3);
        t.done(2, Status::SUCCESS, 2);
    });
    // SQSIZE 31: 32 entries, of which one stays free.
    seen.case(after(31), &[], |_| ());
    seen.case(after(31), &["SQE-42 host", "FAB-SQFC-15 host"], |t| t.command(io("Flush", 99, 0), &[]));
    seen.case(sqhd_off(), &["CQE-19 controller"], |t| {
        t.command(io("Flush", 700, 0), &[]);
        t.done(700, Status::SUCCESS, 1);
    });
}

#[test]
fn one_breach_does_not_blame_the_other_side() {
    // A host that cannot be understood, then an answer to what it may have meant.
    let mut t = connected(1, PLAIN);
    t.raw(H2C, &[4, 0, 72, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    t.done(7, Status::INVALID_FIELD_IN_COMMAND, 2);
    assert_eq!(found(t), ["TCP-CAPSULE-19 host"]);

    // Bytes missing: silence.
    let mut t = connected(1, PLAIN);
    t.rec.gap(H2C, t.now_ns, 72);
    t.done(7, Status::SUCCESS, 2);
    t.done(7, Status::SUCCESS, 2);
    assert_eq!(found(t), Vec::<String>::new());
}

#[test]
fn a_finding_says_what_and_where() {
    let mut t = connected(1, PLAIN);
    t.command(io("Read", 7, 1024), &[]);
    t.c2h(&c2h(7, 512, 512, true, true));
    t.c2h(&c2h(9, 512, 512, true, true));
    let e = t.exchange();
    let all = Judge::exchange(&e);
    let f = &all[0];
    assert_eq!((f.level, f.side, f.conn, f.event, f.at_ns), (Level::Shall, Side::Controller, 0, 5, 6 * 1_000_500));
    assert_eq!(
        f.to_string(),
        "TCP-C2H-02 (shall) controller: C2HData for Read, CID 0x0007 with DATAO 512; asked for: 0 in the first"
    );
    // DATAO, 12 bytes into the PDU; and of data that came for a command, the field.
    assert_eq!((f.bytes.part, f.bytes.offset, &f.bytes.bytes[..]), (Part::Pdu, 12, &512u32.to_le_bytes()[..]));
    let mut t = talk::up();
    t.fetch(admin::identify(9, 1, 0), &talk::controller(&[("wctemp", 0)]));
    let wrong = Judge::exchange(&t.exchange());
    let shown = &wrong[0].bytes;
    assert_eq!((shown.part, shown.offset, &shown.bytes[..]), (Part::Data, 266, &[0, 0][..]), "{wrong:?}");
    let mut judge = Judge::new().once();
    let twice: Vec<_> = [0, 0].iter().flat_map(|_| e.events()).flat_map(|(c, e)| judge.event(c, e)).collect();
    let ids: BTreeSet<_> = twice.iter().map(|f| (f.requirement.id, f.side)).collect();
    assert_eq!(ids.len(), twice.len(), "once each");
}

#[test]
fn findings_stand_in_the_trace() {
    let mut t = connected(1, PLAIN);
    t.command(io("Read", 7, 1024), &[]);
    t.c2h(&c2h(7, 512, 512, true, false));
    t.done(7, Status::SUCCESS, 2);
    let text = nvmf_capture::Trace::default().without_times().with_rules().exchange(&t.exchange());
    insta::assert_snapshot!(text);
}
