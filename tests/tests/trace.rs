//! The decoded trace and Wireshark's names, over exchanges put together by hand.

use bytes::Bytes;
use nvmf_capture::{Direction, Exchange, Recorder, Session, Trace, wireshark_fields};
use nvmf_wire::command::CommandKind;
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::open::ZeroBased16;
use nvmf_wire::tcp::{C2hData, CapsuleCmd, CapsuleResp, Digests, Fes, H2cData, IcReq, IcResp, Pdu, PduType, R2t, TermReq};
use nvmf_wire::value::Text;
use nvmf_wire::{Cid, Cntlid, Cqe, Qid, SglDescriptor, Sqe, Status};

use Direction::{ControllerToHost as C2H, HostToController as H2C};

/// One connection, written down PDU by PDU; each is a millisecond after the one before.
struct Talk {
    rec: Recorder,
    now_ns: u64,
    digests: Digests,
    align: usize,
}

impl Talk {
    fn new() -> Self {
        let rec = Recorder::new("10.0.0.1:40000".parse().unwrap(), "10.0.0.2:4420".parse().unwrap(), 0);
        Self { rec, now_ns: 0, digests: Digests::default(), align: 4 }
    }

    fn send(&mut self, dir: Direction, ptype: PduType, header: &[u8], data: &[u8]) {
        let mut header = header.to_vec();
        header[0] = ptype.0;
        let pdu = Pdu::build(&header, Bytes::copy_from_slice(data), self.digests, self.align).seal();
        self.raw(dir, &pdu.to_bytes());
    }

    fn raw(&mut self, dir: Direction, bytes: &[u8]) {
        self.now_ns += 1_000_500;
        self.rec.push(dir, self.now_ns, bytes.to_vec());
    }

    fn start(&mut self, digests: Digests) {
        let q = IcReq::new().with(|s| s.hdgst(digests.header).ddgst(digests.data));
        let r = IcResp::new().with(|s| s.hdgst(digests.header).ddgst(digests.data).maxh2cdata(0x20000));
        self.send(H2C, PduType::IC_REQ, q.as_bytes(), &[]);
        self.send(C2H, PduType::IC_RESP, r.as_bytes(), &[]);
        self.digests = digests;
    }

    fn command(&mut self, sqe: Sqe, data: &[u8]) {
        self.send(H2C, PduType::CAPSULE_CMD, CapsuleCmd::new().with(|s| s.sqe(*sqe.as_bytes())).as_bytes(), data);
    }

    fn response(&mut self, cqe: [u8; 16]) {
        self.send(C2H, PduType::CAPSULE_RESP, CapsuleResp::new().with(|s| s.cqe(cqe)).as_bytes(), &[]);
    }

    fn done(&mut self, cid: u16, status: Status, sqhd: u16) {
        self.response(*Cqe::of(Cid(cid), status, sqhd).as_bytes());
    }

    fn exchange(self) -> Exchange {
        Exchange { connections: vec![self.rec.finish()] }
    }
}

fn sqe(name: &str, cid: u16, fields: &[(&str, u64)]) -> Sqe {
    let kind = CommandKind::named(name).unwrap();
    let mut bytes = *kind.sqe().with(|s| s.cid(Cid(cid))).as_bytes();
    for (field, value) in fields {
        kind.layout.field(field).unwrap().set(&mut bytes, &nvmf_wire::Value::Int(*value)).unwrap();
    }
    Sqe::from_bytes(bytes)
}

fn connect(qid: u16, cid: u16) -> (Sqe, ConnectData) {
    let c = Connect::from_bytes(*sqe("Connect", cid, &[]).as_bytes())
        .with(|s| s.qid(Qid(qid)).sqsize(ZeroBased16(31)).kato(if qid == 0 { 5000 } else { 0 }));
    let data = ConnectData::new().with(|s| {
        s.hostid([0x11; 16])
            .cntlid(if qid == 0 { Cntlid::DYNAMIC } else { Cntlid(1) })
            .subnqn(Text::new("nqn.2026-01.org.example:sub"))
            .hostnqn(Text::new("nqn.2026-01.org.example:host"))
    });
    (Sqe::from_bytes(*c.as_bytes()).with_sgl1(SglDescriptor::in_capsule(0, 1024)), data)
}

fn connected(qid: u16, digests: Digests) -> Talk {
    let mut t = Talk::new();
    t.start(digests);
    let (sqe, data) = connect(qid, 0);
    t.command(sqe, data.as_bytes());
    t.response(*Cqe::of(Cid(0), Status::SUCCESS, 1).with(|s| s.dw0(1)).as_bytes());
    t
}

fn plain(talk: Talk) -> String {
    Trace::default().without_times().exchange(&talk.exchange())
}

#[test]
fn an_admin_queue_with_its_properties() {
    let mut t = connected(0, Digests::default());
    t.command(sqe("PropertyGet", 1, &[("attrib", 1)]), &[]);
    t.response(*Cqe::of(Cid(1), Status::SUCCESS, 2).with(|s| s.dw0(0x1e01_03ff).dw1(0x20)).as_bytes());
    t.command(sqe("PropertySet", 2, &[("ofst", 0x14), ("value", 0x0046_0001)]), &[]);
    t.done(2, Status::SUCCESS, 3);
    t.command(sqe("PropertyGet", 3, &[("ofst", 0x1c)]), &[]);
    t.response(*Cqe::of(Cid(3), Status::SUCCESS, 4).with(|s| s.dw0(1)).as_bytes());
    t.command(sqe("SetFeatures", 4, &[("fid", 7), ("value", 0x0001_0001)]), &[]);
    t.response(*Cqe::of(Cid(4), Status::SUCCESS, 5).with(|s| s.dw0(0x0001_0001)).as_bytes());
    t.command(sqe("AsyncEventRequest", 5, &[]), &[]);
    t.response(*Cqe::of(Cid(5), Status::SUCCESS, 6).with(|s| s.dw0(0x0004_0002)).as_bytes());
    t.command(sqe("Identify", 6, &[("cns", 1), ("sgl1_len", 4096), ("sgl1_type", 5), ("sgl1_sub", 10)]), &[]);
    let head = C2hData::new().with(|s| s.cccid(Cid(6)).datal(4096).last(true));
    t.send(C2H, PduType::C2H_DATA, head.as_bytes(), &[0; 4096]);
    t.done(6, Status::SUCCESS, 7);
    insta::assert_snapshot!(plain(t));
}

#[test]
fn an_io_queue_with_r2t_digests_and_padding() {
    let mut t = connected(1, Digests { header: true, data: true });
    t.align = 32;
    let fields = [("nsid", 1), ("slba", 128), ("nlb", 7), ("sgl1_len", 4096), ("sgl1_type", 5), ("sgl1_sub", 10)];
    t.command(sqe("Write", 7, &fields), &[]);
    t.send(C2H, PduType::R2T, R2t::new().with(|s| s.cccid(Cid(7)).ttag(0x21).r2tl(4096)).as_bytes(), &[]);
    for (datao, last) in [(0, false), (2048, true)] {
        let head = H2cData::new().with(|s| s.cccid(Cid(7)).ttag(0x21).datao(datao).datal(2048).last(last));
        t.send(H2C, PduType::H2C_DATA, head.as_bytes(), &[7; 2048]);
    }
    t.done(7, Status::SUCCESS, 2);
    t.command(sqe("Read", 8, &fields), &[]);
    let head = C2hData::new().with(|s| s.cccid(Cid(8)).datal(4096).last(true).success(true));
    t.send(C2H, PduType::C2H_DATA, head.as_bytes(), &[7; 4096]);
    t.done(8, Status::SUCCESS, 3);
    insta::assert_snapshot!(plain(t));
}

#[test]
fn what_goes_wrong_is_said() {
    let mut t = Talk::new();
    t.start(Digests::default());
    let (sqe, data) = connect(0, 3);
    t.command(sqe, data.as_bytes());
    let status = Status(Status::CONNECT_INVALID_PARAMETERS.0 | 1 << 14);
    t.response(*Cqe::of(Cid(3), status, 1).with(|s| s.dw0(0x0001_0100)).as_bytes());
    t.send(C2H, PduType::R2T, R2t::new().with(|s| s.cccid(Cid(9)).ttag(1).r2tl(512)).as_bytes(), &[]);
    t.send(H2C, PduType(0x0a), &[0; 16], &[]);
    t.send(H2C, PduType::CAPSULE_RESP, &[0; 24], &[]);
    t.digests = Digests { header: true, data: true };
    t.align = 16;
    let head = C2hData::new().with(|s| s.cccid(Cid(3)).datal(8));
    t.send(C2H, PduType::C2H_DATA, &with_reserved(head.as_bytes()), &[1; 8]);
    let mut torn =
        Pdu::build(&with_type(H2cData::new().as_bytes(), PduType::H2C_DATA), Bytes::from_static(&[1; 8]), t.digests, 4).to_bytes();
    torn[3] = 200;
    t.raw(H2C, &torn);
    let offending = with_type(&[0; 24], PduType::H2C_DATA);
    let term = TermReq::new().with(|s| s.fes(Fes::INVALID_PDU_HEADER_FIELD).fei(3));
    t.send(C2H, PduType::C2H_TERM_REQ, term.as_bytes(), &offending);
    t.raw(C2H, &[1, 2, 3, 4, 0xff, 0xff, 0xff, 0xff, 5]);
    t.rec.gap(H2C, t.now_ns, 77);
    t.rec.close(C2H, t.now_ns, true);
    insta::assert_snapshot!(plain(t));
}

fn with_type(header: &[u8], ptype: PduType) -> Vec<u8> {
    let mut b = header.to_vec();
    b[0] = ptype.0;
    b
}

fn with_reserved(header: &[u8]) -> Vec<u8> {
    let mut b = header.to_vec();
    b[10] = 0x55;
    b
}

#[test]
fn times_are_milliseconds_since_the_start_with_microseconds() {
    let mut t = Talk::new();
    t.start(Digests::default());
    let e = t.exchange();
    let text = Trace::new(e.start_ns()).exchange(&e);
    assert_eq!(text.lines().next(), Some("#0 10.0.0.1:40000 -> 10.0.0.2:4420"));
    assert!(text.lines().nth(1).unwrap().starts_with("     1.000 #0 > ICReq "), "{text}");
    assert!(text.lines().nth(2).unwrap().starts_with("     2.001 #0 < ICResp "), "{text}");
}

#[test]
fn every_cut_gives_the_same_events_and_keeps_the_pieces() {
    let whole = connected(0, Digests { header: true, data: true }).exchange();
    let connection = &whole.connections[0];
    for size in [1, 7, 8, 9, 72, 4096] {
        let mut rec = Recorder::new(connection.client, connection.server, 0);
        let mut pieces = 0;
        for chunk in &connection.chunks {
            for piece in chunk.bytes.chunks(size) {
                rec.push(chunk.dir, chunk.at_ns, Bytes::copy_from_slice(piece));
                pieces += 1;
            }
        }
        let again = rec.finish();
        assert_eq!(again.events, connection.events, "pieces of {size}");
        assert_eq!(again.chunks.len(), pieces);
    }
}

#[test]
fn fields_by_the_names_of_wireshark() {
    let e = connected(3, Digests::default()).exchange();
    let mut session = Session::new();
    let mut out = String::new();
    for (event, bytes) in e.connections[0].pdus() {
        let pdu = Pdu::parse(bytes).unwrap();
        for (name, value) in wireshark_fields(&session, &pdu) {
            out.push_str(&format!("{name}={value}\n"));
        }
        out.push('\n');
        session.apply(event.dir, &pdu);
    }
    insta::assert_snapshot!(out);
}
