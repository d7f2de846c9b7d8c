//! NVMe/RDMA and RoCEv2: capsules, memory, keys, connection management, packets.

use bytes::Bytes;
use nvmf_capture::roce::{Cm, Data, Icrc, Packet, Place, Rdma, Span, Target};
use nvmf_capture::{Direction, Event, EventKind, Judge};
use nvmf_spec::Side::Controller;
use nvmf_wire::cm::{CmMessage, CmRej, CmRep, CmReq, IpCm, Mad, MadClass, MadMethod, PathMtu, RejReason, SERVICE_ID};
use nvmf_wire::connect::ConnectData;
use nvmf_wire::rdma::{RdmaAccept, RdmaReject, RdmaRequest, RdmaStatus};
use nvmf_wire::roce::{Aeth, Bth, Reth, RoceOpcode};
use nvmf_wire::sgl::{SglKeyed, SglSubtype, SglType};
use nvmf_wire::{Cid, Cntlid, Cqe, Qid, SglDescriptor, Sqe, Status, ZeroBased16};

use super::talk::{C2H, H2C, bent, connect, controller, io, sqe, up_as};
use super::{Seen, admin};

const KEY: u32 = 0x0102_0304;
const AT: u64 = 0x7000;
const ICRC: [u8; 4] = [0; 4];

/// One connection as a bystander sees it, put together event by event.
struct Pair {
    events: Vec<Event>,
    /// Capsules sent by the host, for SQHD.
    sent: u16,
}

fn span(bytes: usize) -> Span {
    Span { first_frame: 1, psn: 0, packets: 1, bytes: bytes as u64 }
}

fn with_key(sqe: Sqe, len: u32, sub: u8) -> Sqe {
    let sgl = SglKeyed::new().with(|s| s.addr(AT).len(len).key(KEY).sub(SglSubtype(sub)).kind(SglType::KEYED_DATA_BLOCK));
    sqe.with_sgl1(SglDescriptor::from_bytes(*sgl.as_bytes()))
}

fn reth(at: u64, key: u32, len: u32) -> Reth {
    Reth::new().with(|s| s.va(at).rkey(key).dmalen(len))
}

/// A right REQ for a queue.
fn request(qid: u16) -> (CmReq, RdmaRequest) {
    let req = CmReq::new().with(|s| {
        s.local_id(1).service_id(SERVICE_ID + 4420).qpn(17).resources(2).psn(100).mtu(PathMtu(1)).rnr_retries(7).retries(7)
    });
    let cntlid = Cntlid(u16::from(qid != 0));
    (req, RdmaRequest::new().with(|s| s.qid(Qid(qid)).hrqsize(32).hsqsize(ZeroBased16(31)).cntlid(cntlid)))
}

/// Communication ID, PSN and so on of a right REP.
fn accept() -> (CmRep, RdmaAccept) {
    let rep = CmRep::new().with(|s| s.local_id(2).remote_id(1).qpn(18).psn(200).rnr_retries(7));
    (rep, RdmaAccept::new().with(|s| s.crqsize(32)))
}

fn put(message: &[u8], at: usize, private: &[u8]) -> Vec<u8> {
    let mut bytes = message.to_vec();
    bytes[at..at + private.len()].copy_from_slice(private);
    bytes
}

fn req_bytes((req, private): &(CmReq, RdmaRequest)) -> Vec<u8> {
    let ip = IpCm::new().with(|s| s.ip(4).port(4000));
    put(&put(req.as_bytes(), 140, ip.as_bytes()), 176, private.as_bytes())
}

fn rep_bytes((rep, private): &(CmRep, RdmaAccept)) -> Vec<u8> {
    put(rep.as_bytes(), 36, private.as_bytes())
}

impl Pair {
    fn new() -> Self {
        Self { events: Vec::new(), sent: 0 }
    }

    fn push(&mut self, dir: Direction, kind: EventKind) {
        let n = self.events.len() as u64 + 1;
        self.events.push(Event { at_ns: n * 1_000_000, frame: n, dir, kind });
    }

    fn says(&mut self, dir: Direction, message: Rdma) {
        self.push(dir, EventKind::Rdma(Box::new(message)));
    }

    fn cm_as(&mut self, dir: Direction, message: CmMessage, class: MadClass, bytes: &[u8]) {
        let mad = Mad::new().with(|s| s.base(1).class(class).version(2).method(MadMethod::SEND).attribute(message));
        self.says(dir, Rdma::Cm(Cm { mad, bytes: Bytes::copy_from_slice(bytes), repeated: false }));
    }

    fn cm(&mut self, dir: Direction, message: CmMessage, bytes: &[u8]) {
        self.cm_as(dir, message, MadClass::COMMUNICATION_MANAGEMENT, bytes);
    }

    /// REQ and REP as given.
    fn agreed(req: &(CmReq, RdmaRequest), rep: &(CmRep, RdmaAccept)) -> Self {
        let mut p = Self::new();
        p.cm(H2C, CmMessage::REQ, &req_bytes(req));
        p.cm(C2H, CmMessage::REP, &rep_bytes(rep));
        p
    }

    /// A queue that is connected; the next CID is 1.
    fn connected(qid: u16) -> Self {
        let mut p = Self::agreed(&request(qid), &accept());
        let (sqe, data) = connect(qid, 0);
        p.command(with_key(sqe, 1024, 0), &[]);
        p.reads(0, 0, &data.as_bytes()[..], 1024);
        p.done(0, 1);
        p
    }

    /// An Admin Queue whose controller is ready; the next CID is 4.
    fn ready() -> Self {
        let mut p = Self::connected(0);
        p.ask(sqe("PropertyGet", 1, &[("attrib", 1)]), 0x1e01_03ff, 0x0800_0020);
        p.ask(sqe("PropertySet", 2, &[("ofst", 0x14), ("value", 0x0046_0001)]), 0, 0);
        p.ask(sqe("PropertyGet", 3, &[("ofst", 0x1c)]), 1, 0);
        p
    }

    fn command(&mut self, sqe: Sqe, rest: &[u8]) {
        self.sent += 1;
        self.says(H2C, Rdma::Command { sqe, rest: Bytes::copy_from_slice(rest), send: span(64 + rest.len()) });
    }

    fn response(&mut self, cqe: Cqe, rest: &[u8], invalidate: Option<u32>) {
        self.says(C2H, Rdma::Response { cqe, rest: Bytes::copy_from_slice(rest), invalidate, send: span(16 + rest.len()) });
    }

    fn done(&mut self, cid: u16, dw0: u32) {
        let cqe = *Cqe::of(Cid(cid), Status::SUCCESS, self.sent % 32).with(|s| s.dw0(dw0)).as_bytes();
        self.response(Cqe::from_bytes(cqe), &[], None);
    }

    fn ask(&mut self, sqe: Sqe, dw0: u32, dw1: u32) {
        self.command(sqe, &[]);
        let cqe = *Cqe::of(sqe.cid(), Status::SUCCESS, self.sent % 32).with(|s| s.dw0(dw0).dw1(dw1)).as_bytes();
        self.response(Cqe::from_bytes(cqe), &[], None);
    }

    /// An RDMA WRITE of `len` bytes of which `data` come.
    fn writes(&mut self, cid: Option<u16>, offset: Option<u64>, key: u32, data: &[u8], len: u32) {
        let target = Target { reth: reth(AT + offset.unwrap_or(0), key, len), cid: cid.map(Cid), offset };
        let bytes = Bytes::copy_from_slice(data);
        self.says(C2H, Rdma::Data(Data { target, before: 0, bytes, last: true, span: span(data.len()) }));
    }

    fn read(&mut self, cid: u16, offset: u64, len: u32) -> Target {
        let target = Target { reth: reth(AT + offset, KEY, len), cid: Some(Cid(cid)), offset: Some(offset) };
        self.says(C2H, Rdma::Read(target));
        target
    }

    /// An RDMA READ of `len` bytes and its answer, `data`.
    fn reads(&mut self, cid: u16, offset: u64, data: &[u8], len: u32) {
        let target = self.read(cid, offset, len);
        let bytes = Bytes::copy_from_slice(data);
        self.says(H2C, Rdma::Data(Data { target, before: 0, bytes, last: true, span: span(data.len()) }));
    }

    fn packet(&mut self, dir: Direction, bytes: &[u8], place: Place) {
        let packet = Packet { bytes: Bytes::copy_from_slice(bytes), len: bytes.len(), icrc: Icrc::Good, place };
        self.push(dir, EventKind::Packet(packet));
    }
}

fn packet(op: RoceOpcode, psn: u32, rest: &[u8]) -> Vec<u8> {
    let bth = Bth::new().with(|s| s.opcode(op).psn(psn).dqpn(17).pkey(0xffff));
    [bth.as_bytes(), rest, &ICRC].concat()
}

fn ack(psn: u32, msn: u32) -> Vec<u8> {
    packet(RoceOpcode::ACK, psn, Aeth::from_bytes([0x1f, 0, 0, 0]).with(|s| s.msn(msn)).as_bytes())
}

impl Seen {
    /// What `p` breaks: ids with their side, in any order, and nothing else.
    #[track_caller]
    fn rdma(&mut self, ids: &[&str], p: Pair) {
        let mut judge = Judge::new();
        let findings: Vec<_> = p.events.iter().flat_map(|e| judge.event(0, e)).collect();
        let mut got: Vec<String> = findings.iter().map(|f| format!("{} {}", f.requirement.id, f.side)).collect();
        let mut due: Vec<String> = ids.iter().map(|s| (*s).to_owned()).collect();
        got.sort();
        due.sort();
        if got != due {
            let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
            self.failures.push(format!("{}: found {texts:#?}, expected {due:?}", std::panic::Location::caller()));
        }
        self.ids.extend(ids.iter().map(|s| s.split(' ').next().unwrap().to_owned()));
    }
}

pub fn cases(seen: &mut Seen) {
    right(seen);
    connection(seen);
    refusals(seen);
    capsules(seen);
    memory(seen);
    keys(seen);
    packets(seen);
    acknowledgements(seen);
    controllers(seen);
    discovery(seen);
}

fn right(seen: &mut Seen) {
    for sub in [0, 0xf] {
        let mut p = Pair::connected(1);
        p.cm(H2C, CmMessage::RTU, &put(&[0; 232], 4, &[0, 0, 0, 2]));
        p.command(with_key(io("Read", 1, 4096), 4096, sub), &[]);
        p.writes(Some(1), Some(0), KEY, &[7; 1024], 1024);
        p.writes(Some(1), Some(1024), KEY, &[7; 3072], 3072);
        let cqe = Cqe::of(Cid(1), Status::SUCCESS, p.sent);
        p.response(cqe, &[], (sub == 0xf).then_some(KEY));
        p.command(with_key(io("Write", 2, 4096), 4096, sub), &[]);
        p.reads(2, 0, &[7; 4096], 4096);
        p.done(2, 0);
        p.command(io("Write", 3, 512).with_sgl1(SglDescriptor::in_capsule(0, 512)), &[7; 512]);
        p.done(3, 0);
        seen.rdma(&[], p);
    }
    // Without its start nothing is held against anybody but what packets show.
    let mut p = Pair::new();
    p.says(H2C, Rdma::QueuePairs { host: Some(17), controller: Some(18), inferred: true });
    p.done(7, 0);
    p.writes(None, None, KEY, &[7; 512], 512);
    seen.rdma(&[], p);
}

type Break<'a> = &'a dyn Fn(&mut (CmReq, RdmaRequest));

fn connection(seen: &mut Seen) {
    let asked = |change: Break| {
        let mut r = request(0);
        change(&mut r);
        let mut p = Pair::new();
        p.cm(H2C, CmMessage::REQ, &req_bytes(&r));
        p
    };
    let cases: &[(&[&str], Break)] = &[
        (&["ROCE-CM-04 host"], &|r| r.0 = r.0.with(|s| s.mtu(PathMtu(6)))),
        (&["RDMA-DISC-05 host", "RDMA-DISC-09 host"], &|r| r.0 = r.0.with(|s| s.service_id(4420))),
        (&["RDMA-CM-07 host"], &|r| r.0 = r.0.with(|s| s.rnr_retries(3))),
        (&["RDMA-CM-10 host"], &|r| r.1 = r.1.with(|s| s.recfmt(1))),
        (&["RDMA-CM-12 host"], &|r| r.1 = r.1.with(|s| s.hrqsize(0))),
        (&["RDMA-CM-14 host"], &|r| r.1 = r.1.with(|s| s.cntlid(Cntlid(5)))),
    ];
    for (ids, change) in cases {
        seen.rdma(ids, asked(*change));
    }
    let mut p = Pair::new();
    p.cm(H2C, CmMessage::REQ, &bent(&req_bytes(&request(0)), &[(186, 1)]));
    seen.rdma(&["RDMA-CM-16 host"], p);
    let mut p = Pair::new();
    p.cm_as(H2C, CmMessage::REQ, MadClass(3), &req_bytes(&request(0)));
    seen.rdma(&["ROCE-CM-01 host"], p);

    // What Connect says afterwards.
    let later = |qid: u16, change: Break| {
        let mut r = request(qid);
        change(&mut r);
        let mut p = Pair::agreed(&r, &accept());
        let (sqe, data) = connect(qid, 0);
        p.command(with_key(sqe, 1024, 0), &[]);
        p.reads(0, 0, data.as_bytes(), 1024);
        p
    };
    seen.rdma(&["RDMA-CM-11 host"], later(1, &|r| r.1 = r.1.with(|s| s.qid(Qid(2)))));
    seen.rdma(&["RDMA-CM-13 host"], later(1, &|r| r.1 = r.1.with(|s| s.hsqsize(ZeroBased16(30)))));
    seen.rdma(&["RDMA-CM-15 host"], later(1, &|r| r.1 = r.1.with(|s| s.cntlid(Cntlid(9)))));
    // The names in Connect data that is read from the host.
    let mut p = Pair::agreed(&request(0), &accept());
    let (sqe, data) = connect(0, 0);
    p.command(with_key(sqe, 1024, 0), &[]);
    let data: ConnectData = data.with(|s| s.hostid([0; 16]));
    p.reads(0, 0, data.as_bytes(), 1024);
    seen.rdma(&["FAB-CONNECT-19 host"], p);
}

fn refusals(seen: &mut Seen) {
    // What a controller agrees to.
    let taken = |seen: &mut Seen, ids: &[&str], change: Break, answer: &dyn Fn(&mut (CmRep, RdmaAccept))| {
        let (mut r, mut a) = (request(0), accept());
        change(&mut r);
        answer(&mut a);
        let mut p = Pair::agreed(&r, &a);
        p.events.retain(|e| e.dir == C2H || matches!(&e.kind, EventKind::Rdma(_)));
        seen.rdma(ids, p);
    };
    taken(seen, &["RDMA-CM-05 controller"], &|_| (), &|a| a.0 = a.0.with(|s| s.resources(1)));
    taken(seen, &["RDMA-CM-09 controller"], &|_| (), &|a| a.0 = a.0.with(|s| s.rnr_retries(3)));
    taken(seen, &["RDMA-CM-18 controller"], &|_| (), &|a| a.1 = a.1.with(|s| s.recfmt(1)));
    taken(seen, &["ROCE-CM-03 controller"], &|_| (), &|a| a.0 = a.0.with(|s| s.remote_id(9)));
    let none: Break = &|r| r.0 = r.0.with(|s| s.rnr_retries(0));
    taken(seen, &["RDMA-CM-20 controller"], none, &|a| {
        a.0 = a.0.with(|s| s.rnr_retries(0));
        a.1 = a.1.with(|s| s.crqsize(16));
    });
    taken(seen, &["RDMA-CM-10 host", "RDMA-CM-24 controller"], &|r| r.1 = r.1.with(|s| s.recfmt(1)), &|_| ());
    taken(seen, &["RDMA-CM-25 controller"], &|r| r.1 = r.1.with(|s| s.qid(Qid(0xffff))), &|_| ());
    taken(seen, &["RDMA-CM-26 controller"], &|r| r.1 = r.1.with(|s| s.hsqsize(ZeroBased16(0))), &|_| ());
    taken(seen, &["RDMA-CM-12 host", "RDMA-CM-27 controller"], &|r| r.1 = r.1.with(|s| s.hrqsize(0)), &|_| ());
    taken(seen, &["RDMA-CM-14 host", "RDMA-CM-30 controller"], &|r| r.1 = r.1.with(|s| s.cntlid(Cntlid(5))), &|_| ());

    // What it refuses, and how.
    let refused = |seen: &mut Seen, ids: &[&str], recfmt: u16, sts: u16| {
        let mut p = Pair::new();
        p.cm(H2C, CmMessage::REQ, &req_bytes(&request(0)));
        let rej = CmRej::new().with(|s| s.local_id(2).remote_id(1).reason(RejReason(28)));
        let private = RdmaReject::new().with(|s| s.recfmt(recfmt).sts(RdmaStatus(sts)));
        p.cm(C2H, CmMessage::REJ, &put(rej.as_bytes(), 84, private.as_bytes()));
        seen.rdma(ids, p);
    };
    refused(seen, &[], 0, 6);
    refused(seen, &["RDMA-CM-22 controller"], 1, 6);
    refused(seen, &["RDMA-CM-22 controller"], 0, 0x100);
    refused(seen, &["RDMA-CM-22 controller", "RDMA-CM-31 controller"], 0, 0x0a);
    refused(seen, &["RDMA-CM-24 controller"], 0, 2);
    refused(seen, &["RDMA-CM-30 controller"], 0, 9);
}

fn capsules(seen: &mut Seen) {
    let on = |qid: u16, sqe: Sqe, rest: &[u8]| {
        let mut p = Pair::connected(qid);
        p.command(sqe, rest);
        p
    };
    let (connecting, data) = connect(1, 0);
    let mut p = Pair::agreed(&request(1), &accept());
    p.command(connecting, data.as_bytes());
    seen.rdma(&["RDMA-CAPS-01 host", "RDMA-SGL-05 host"], p);
    let mut p = Pair::ready();
    p.command(admin::identify(9, 1, 0).with_sgl1(SglDescriptor::in_capsule(0, 64)), &[0; 64]);
    seen.rdma(&["RDMA-CAPS-02 host", "RDMA-SGL-05 host", "RDMA-SGL-01 host"], p);
    seen.rdma(&["RDMA-SGL-02 host"], on(1, io("Read", 1, 512), &[]));
    seen.rdma(
        &["RDMA-SGL-04 host"],
        on(
            1,
            io("Read", 1, 512).with_sgl1(SglDescriptor::from_bytes(
                [1; 15].iter().copied().chain([0x30]).collect::<Vec<u8>>().try_into().unwrap(),
            )),
            &[],
        ),
    );
    seen.rdma(&["FAB-TRANS-08 host"], on(1, io("Write", 1, 512).with_sgl1(SglDescriptor::in_capsule(0, 512)), &[0; 256]));

    let mut p = Pair::connected(1);
    p.says(H2C, Rdma::Send { bytes: Bytes::from_static(&[0; 63]), send: span(63) });
    seen.rdma(&["RDMA-CAPS-06 host"], p);
    let mut p = Pair::connected(1);
    p.says(C2H, Rdma::Send { bytes: Bytes::from_static(&[0; 15]), send: span(15) });
    seen.rdma(&["RDMA-CAPS-04 controller"], p);
    let mut p = Pair::connected(1);
    p.command(io("Flush", 1, 0).with_sgl1(SglDescriptor::from_bytes([0; 16])), &[]);
    let cqe = Cqe::of(Cid(1), Status::SUCCESS, p.sent);
    p.response(cqe, &[0; 4], None);
    seen.rdma(&["RDMA-CAPS-04 controller"], p);
    for (op, ids) in [
        (RoceOpcode::SEND_ONLY_INV, &["RDMA-DATA-01 host"][..]),
        (RoceOpcode::WRITE_MIDDLE, &["RDMA-DATA-04 host"]),
        (RoceOpcode::READ_REQUEST, &["RDMA-DATA-04 host", "RDMA-CM-06 host"]),
        (RoceOpcode::CMP_SWAP, &["RDMA-GEN-04 host"]),
        (RoceOpcode(0x24), &["RDMA-GEN-02 host"]),
    ] {
        let mut p = Pair::new();
        let headers: &[u8] = match op {
            RoceOpcode::READ_REQUEST => &[0; 16],
            RoceOpcode::CMP_SWAP => &[0; 28],
            _ => &[0; 4],
        };
        p.packet(H2C, &packet(op, 1, headers), Place::Next);
        seen.rdma(ids, p);
    }
    let mut p = Pair::new();
    p.packet(C2H, &packet(RoceOpcode::SEND_ONLY_IMM, 1, &[0; 20]), Place::Next);
    p.says(C2H, Rdma::Immediate(7));
    seen.rdma(&["RDMA-DATA-02 controller", "RDMA-GEN-04 controller"], p);
}

fn memory(seen: &mut Seen) {
    let reading = || {
        let mut p = Pair::connected(1);
        p.command(with_key(io("Read", 1, 4096), 4096, 0), &[]);
        p
    };
    let writing = || {
        let mut p = Pair::connected(1);
        p.command(with_key(io("Write", 1, 4096), 4096, 0), &[]);
        p
    };
    let case = |seen: &mut Seen, ids: &[&str], mut p: Pair, wrong: &dyn Fn(&mut Pair)| {
        wrong(&mut p);
        seen.rdma(ids, p);
    };
    case(seen, &["RDMA-DATA-10 controller"], reading(), &|p| p.writes(None, None, 0x99, &[0; 512], 512));
    case(seen, &["RDMA-DATA-10 controller"], reading(), &|p| p.writes(Some(1), None, KEY, &[0; 512], 512));
    case(seen, &["RDMA-DATA-10 controller"], reading(), &|p| p.writes(Some(1), Some(4000), KEY, &[0; 512], 512));
    case(seen, &["RDMA-DATA-05 controller"], writing(), &|p| p.writes(Some(1), Some(0), KEY, &[0; 512], 512));
    case(seen, &["RDMA-DATA-05 controller"], reading(), &|p| p.reads(1, 0, &[0; 512], 512));
    case(seen, &["RDMA-DATA-05 controller"], writing(), &|p| p.done(1, 0));
    case(seen, &["RDMA-DATA-07 controller"], reading(), &|p| {
        p.writes(Some(1), Some(0), KEY, &[0; 2048], 2048);
        p.done(1, 0);
    });
    case(seen, &["RDMA-DATA-07 controller"], reading(), &|p| {
        p.writes(Some(1), Some(0), KEY, &[0; 4096], 4096);
        p.done(1, 0);
        p.writes(None, None, KEY, &[0; 512], 512);
    });
    case(seen, &["RDMA-DATA-10 controller"], writing(), &|p| {
        p.reads(1, 0, &[0; 4096], 4096);
        p.done(1, 0);
        p.says(C2H, Rdma::Read(Target { reth: reth(AT, KEY, 512), cid: None, offset: None }));
    });
    case(seen, &["ROCE-WRITE-01 controller"], reading(), &|p| p.writes(Some(1), Some(0), KEY, &[0; 511], 512));
    case(seen, &["ROCE-READ-01 host"], writing(), &|p| p.reads(1, 0, &[0; 511], 512));
    // The REQ has two responder resources.
    case(seen, &["RDMA-CM-04 controller"], writing(), &|p| {
        for at in 0..3 {
            p.read(1, at * 512, 512);
        }
    });
    case(seen, &["ROCE-SEQ-01 controller"], reading(), &|p| p.says(C2H, Rdma::Stray { why: "a middle without a first" }));
}

fn keys(seen: &mut Seen) {
    let answered = |sub: u8, invalidate: u32, before: &dyn Fn(&mut Pair)| {
        let mut p = Pair::connected(1);
        p.command(with_key(io("Write", 1, 512), 512, sub), &[]);
        p.reads(1, 0, &[0; 512], 512);
        before(&mut p);
        let cqe = Cqe::of(Cid(1), Status::SUCCESS, p.sent);
        p.response(cqe, &[], Some(invalidate));
        p
    };
    seen.rdma(&[], answered(0xf, KEY, &|_| ()));
    seen.rdma(&["RDMA-KEY-08 controller"], answered(0, KEY, &|_| ()));
    seen.rdma(&["RDMA-KEY-07 controller"], answered(0xf, 0x99, &|_| ()));
    seen.rdma(
        &["RDMA-KEY-04 controller"],
        answered(0xf, KEY, &|p| {
            p.read(1, 0, 512);
        }),
    );
    let mut p = Pair::connected(1);
    p.command(with_key(io("Flush", 1, 0), 512, 3), &[]);
    p.done(1, 0);
    seen.rdma(&["RDMA-SGL-02 host", "RDMA-SGL-09 controller"], p);
    let mut p = Pair::connected(1);
    p.command(
        io("Flush", 1, 0)
            .with_sgl1(SglDescriptor::from_bytes([1; 15].iter().copied().chain([0x20]).collect::<Vec<u8>>().try_into().unwrap())),
        &[],
    );
    p.done(1, 0);
    seen.rdma(&["RDMA-SGL-04 host", "RDMA-SGL-03 controller"], p);
}

fn packets(seen: &mut Seen) {
    let sent = |bytes: &[u8]| {
        let mut p = Pair::agreed(&request(1), &accept());
        p.packet(H2C, bytes, Place::Next);
        p
    };
    let send = |len: usize| packet(RoceOpcode::SEND_ONLY, 200, &vec![5; len]);
    seen.rdma(&[], sent(&send(64)));
    seen.rdma(&["ROCE-BTH-01 host"], sent(&bent(&send(64), &[(1, 1)])));
    seen.rdma(&["ROCE-BTH-02 host"], sent(&bent(&send(64), &[(8, 1)])));
    seen.rdma(&["ROCE-BTH-03 host"], sent(&send(63)));
    // The path MTU is 256.
    seen.rdma(&["ROCE-MTU-01 host"], sent(&send(260)));
    seen.rdma(&["ROCE-MTU-01 host"], sent(&packet(RoceOpcode::SEND_FIRST, 200, &[5; 252])));
    seen.rdma(&["ROCE-PSN-01 host"], sent(&packet(RoceOpcode::SEND_ONLY, 199, &[5; 64])));
    seen.rdma(&["ROCE-PSN-01 host"], sent(&packet(RoceOpcode::SEND_ONLY, 5000, &[5; 64])));
    seen.rdma(&[], sent(&packet(RoceOpcode::SEND_ONLY, 201, &[5; 64])));
    let mut p = Pair::new();
    let bad =
        Packet { bytes: send(64).into(), len: send(64).len(), icrc: Icrc::Bad { expected: [1, 2, 3, 4] }, place: Place::Next };
    p.push(C2H, EventKind::Packet(bad));
    seen.rdma(&["ROCE-ICRC-01 controller"], p);
    let again = |second: u8, len: usize| {
        let mut p = sent(&send(64));
        p.packet(H2C, &packet(RoceOpcode::SEND_ONLY, 200, &vec![second; len]), Place::Repeated);
        p
    };
    seen.rdma(&[], again(5, 64));
    seen.rdma(&["ROCE-PSN-02 host"], again(6, 64));
    seen.rdma(&["ROCE-PSN-02 host"], again(5, 128));
    let datagram = |qpn: u8, key: u8| {
        let rest = [&[0x80, 1, 0, key, 0, 0, 0, 1][..], &[0; 256]].concat();
        bent(&packet(RoceOpcode::UD_SEND_ONLY, 0, &rest), &[(7, qpn)])
    };
    let mut p = Pair::new();
    p.packet(H2C, &datagram(1, 0), Place::Next);
    seen.rdma(&[], p);
    for (qpn, key) in [(2, 0), (1, 9)] {
        let mut p = Pair::new();
        p.packet(H2C, &datagram(qpn, key), Place::Next);
        seen.rdma(&["ROCE-CM-02 host"], p);
    }
}

fn acknowledgements(seen: &mut Seen) {
    let mut p = Pair::agreed(&request(1), &accept());
    let send = |psn: u32| packet(RoceOpcode::SEND_ONLY, psn, &[5; 64]);
    p.packet(H2C, &send(200), Place::Next);
    p.packet(C2H, &ack(200, 1), Place::Next);
    p.packet(H2C, &send(201), Place::Next);
    p.packet(C2H, &ack(201, 2), Place::Next);
    let right = p.events.clone();
    seen.rdma(&[], Pair { events: right.clone(), sent: 0 });
    let mut back = Pair { events: right.clone(), sent: 0 };
    back.packet(C2H, &ack(201, 1), Place::Next);
    seen.rdma(&["ROCE-ACK-02 controller"], back);
    let mut ghost = Pair { events: right, sent: 0 };
    ghost.packet(C2H, &ack(203, 4), Place::Next);
    ghost.packet(H2C, &send(202), Place::Next);
    seen.rdma(&["ROCE-ACK-01 controller"], ghost);
}

fn controllers(seen: &mut Seen) {
    let identified = |ints: &[(&str, u64)]| {
        let mut p = Pair::ready();
        p.command(with_key(admin::identify(4, 1, 0), 4096, 0), &[]);
        p.writes(Some(4), Some(0), KEY, &controller(&[&[("sgls_keyed", 1), ("sgls_offset", 1)], ints].concat()), 4096);
        p.done(4, 0);
        p
    };
    seen.rdma(&[], identified(&[]));
    seen.rdma(&["RDMA-CAPS-04 controller"], identified(&[("iorcsz", 2)]));
    seen.rdma(&["RDMA-SGL-07 controller"], identified(&[("sgls_support", 2)]));
    seen.rdma(&["RDMA-SGL-08 controller"], identified(&[("sgls_keyed", 0)]));
    let mut p = Pair::agreed(&request(0), &accept());
    let (sqe, data) = connect(0, 0);
    let unkept = Sqe::from_bytes(bent(sqe.as_bytes(), &[(48, 0), (49, 0), (50, 0), (51, 0)]).try_into().unwrap());
    p.command(with_key(unkept, 1024, 0), &[]);
    p.reads(0, 0, data.as_bytes(), 1024);
    p.done(0, 1);
    seen.rdma(&["RDMA-KA-01 controller"], p);
}

fn discovery(seen: &mut Seen) {
    let entry = |ints: &[(&str, u64)], changes: &[(usize, u8)]| {
        let tsas = [(768, 1), (769, 1), (770, 1)];
        bent(&admin::entry(&[&[("trtype", 1)], ints].concat()), &[&tsas[..], changes].concat())
    };
    let page = |seen: &mut Seen, ids: &str, entry: Vec<u8>| {
        let mut t = up_as(nvmf_wire::nqn::DISCOVERY_NQN);
        let data = [admin::one_record(), entry].concat();
        t.fetch(admin::log(9, 0x70, data.len(), &[]), &data);
        seen.breaks(Controller, ids, vec![t]);
    };
    page(seen, "", entry(&[], &[]));
    page(seen, "RDMA-DISC-01", entry(&[], &[(768, 3)]));
    page(seen, "RDMA-DISC-02", entry(&[], &[(769, 6)]));
    page(seen, "RDMA-DISC-03", entry(&[], &[(770, 2)]));
    page(seen, "RDMA-DISC-04", entry(&[], &[(776, 2)]));
    page(seen, "RDMA-DISC-06", entry(&[], &[(32, b'x')]));
    page(seen, "RDMA-DISC-13", entry(&[], &[(32, b'0')]));
    page(seen, "RDMA-DISC-11", entry(&[("adrfam", 4)], &[]));
    page(seen, "RDMA-DISC-12 DISC-LOG-22", entry(&[], &[(512, b'x')]));
    page(seen, "RDMA-DISC-14", entry(&[("adrfam", 3)], &[]));
}
