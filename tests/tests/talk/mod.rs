//! Exchanges put together PDU by PDU, for the tests of traces and rules.
#![allow(dead_code)] // each test uses its part

use bytes::Bytes;
use nvmf_capture::{Direction, Exchange, Recorder};
use nvmf_wire::command::CommandKind;
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::open::ZeroBased16;
use nvmf_wire::tcp::{C2hData, CapsuleCmd, CapsuleResp, Digests, IcReq, IcResp, Pdu, PduType};
use nvmf_wire::value::Text;
use nvmf_wire::{Cid, Cntlid, Cqe, Qid, SglDescriptor, Sqe, Status};

pub use Direction::{ControllerToHost as C2H, HostToController as H2C};

/// One connection, written down PDU by PDU; each is a millisecond after the one before.
pub struct Talk {
    pub rec: Recorder,
    pub now_ns: u64,
    pub digests: Digests,
    pub align: usize,
    /// Capsules sent by the host, for SQHD.
    pub sent: u16,
}

impl Talk {
    pub fn new() -> Self {
        let rec = Recorder::new("10.0.0.1:40000".parse().unwrap(), "10.0.0.2:4420".parse().unwrap(), 0);
        Self { rec, now_ns: 0, digests: Digests::default(), align: 4, sent: 0 }
    }

    pub fn send(&mut self, dir: Direction, ptype: PduType, header: &[u8], data: &[u8]) {
        let mut header = header.to_vec();
        header[0] = ptype.0;
        let pdu = Pdu::build(&header, Bytes::copy_from_slice(data), self.digests, self.align).seal();
        self.raw(dir, &pdu.to_bytes());
    }

    pub fn raw(&mut self, dir: Direction, bytes: &[u8]) {
        self.now_ns += 1_000_500;
        self.rec.push(dir, self.now_ns, bytes.to_vec());
    }

    pub fn start(&mut self, digests: Digests) {
        let q = IcReq::new().with(|s| s.hdgst(digests.header).ddgst(digests.data));
        let r = IcResp::new().with(|s| s.hdgst(digests.header).ddgst(digests.data).maxh2cdata(0x20000));
        self.send(H2C, PduType::IC_REQ, q.as_bytes(), &[]);
        self.send(C2H, PduType::IC_RESP, r.as_bytes(), &[]);
        self.digests = digests;
    }

    pub fn command(&mut self, sqe: Sqe, data: &[u8]) {
        self.sent += 1;
        self.send(H2C, PduType::CAPSULE_CMD, CapsuleCmd::new().with(|s| s.sqe(*sqe.as_bytes())).as_bytes(), data);
    }

    pub fn response(&mut self, cqe: [u8; 16]) {
        self.send(C2H, PduType::CAPSULE_RESP, CapsuleResp::new().with(|s| s.cqe(cqe)).as_bytes(), &[]);
    }

    pub fn done(&mut self, cid: u16, status: Status, sqhd: u16) {
        self.response(*Cqe::of(Cid(cid), status, sqhd).as_bytes());
    }

    /// A response with the SQHD of a controller that has taken every capsule; queues of 32 entries.
    pub fn answer(&mut self, cid: u16, status: Status, dw0: u32) {
        let sqhd = self.sent % 32;
        self.response(*Cqe::of(Cid(cid), status, sqhd).with(|s| s.dw0(dw0)).as_bytes());
    }

    /// A command and its success.
    pub fn ask(&mut self, sqe: Sqe, dw0: u32) {
        self.command(sqe, &[]);
        self.answer(sqe.cid().0, Status::SUCCESS, dw0);
    }

    /// A command and another status.
    pub fn refuse(&mut self, sqe: Sqe, status: Status) {
        self.command(sqe, &[]);
        self.answer(sqe.cid().0, status, 0);
    }

    /// A command that brings data, and its success.
    pub fn fetch(&mut self, sqe: Sqe, data: &[u8]) {
        let cid = sqe.cid();
        self.command(sqe.with_sgl1(SglDescriptor::transport(data.len() as u32)), &[]);
        let head = C2hData::new().with(|s| s.cccid(cid).datal(data.len() as u32).last(true));
        self.send(C2H, PduType::C2H_DATA, head.as_bytes(), data);
        self.answer(cid.0, Status::SUCCESS, 0);
    }

    pub fn exchange(self) -> Exchange {
        Exchange { connections: vec![self.rec.finish()] }
    }
}

pub fn sqe(name: &str, cid: u16, fields: &[(&str, u64)]) -> Sqe {
    let kind = CommandKind::named(name).unwrap();
    let mut bytes = *kind.sqe().with(|s| s.cid(Cid(cid))).as_bytes();
    for (field, value) in fields {
        kind.layout.field(field).unwrap().set(&mut bytes, &nvmf_wire::Value::Int(*value)).unwrap();
    }
    Sqe::from_bytes(bytes)
}

pub fn connect(qid: u16, cid: u16) -> (Sqe, ConnectData) {
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

pub fn connected(qid: u16, digests: Digests) -> Talk {
    let mut t = Talk::new();
    t.start(digests);
    let (sqe, data) = connect(qid, 0);
    t.command(sqe, data.as_bytes());
    t.response(*Cqe::of(Cid(0), Status::SUCCESS, 1).with(|s| s.dw0(1)).as_bytes());
    t
}

/// An Admin Queue whose controller is ready: Connect, CC.EN, CSTS.RDY. The next SQHD is 4, the next CID 3.
pub fn ready(digests: Digests) -> Talk {
    let mut t = connected(0, digests);
    get_cap(&mut t, 100, 0x0800_0020_1e01_03ff);
    t.command(sqe("PropertySet", 1, &[("ofst", 0x14), ("value", 0x0046_0001)]), &[]);
    t.done(1, Status::SUCCESS, 2);
    t.command(sqe("PropertyGet", 2, &[("ofst", 0x1c)]), &[]);
    t.response(*Cqe::of(Cid(2), Status::SUCCESS, 3).with(|s| s.dw0(1)).as_bytes());
    t
}

/// An I/O command with a command data buffer of `len` bytes.
pub fn io(name: &str, cid: u16, len: u32) -> Sqe {
    let fields: &[(&str, u64)] =
        if name == "Flush" { &[("nsid", 1)] } else { &[("nsid", 1), ("nlb", u64::from(len / 512).max(1) - 1)] };
    sqe(name, cid, fields).with_sgl1(SglDescriptor::transport(len))
}

/// `header` with bytes changed: (offset, value).
pub fn bent(header: &[u8], changes: &[(usize, u8)]) -> Vec<u8> {
    let mut b = header.to_vec();
    for (at, value) in changes {
        b[*at] = *value;
    }
    b
}

/// The recorded captures, in order of their paths.
pub fn captures() -> Vec<std::path::PathBuf> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../captures");
    let mut out = Vec::new();
    for stack in std::fs::read_dir(root).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()) {
        out.extend(
            std::fs::read_dir(stack).unwrap().map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "gz")),
        );
    }
    out.sort();
    assert!(out.len() > 10, "{out:?}");
    out
}

/// An Admin Queue of `subnqn` whose controller is ready, of revision 2.0; the next CID is 8.
pub fn up_as(subnqn: &str) -> Talk {
    let mut t = Talk::new();
    t.start(Digests::default());
    let (command, data) = connect(0, 0);
    t.command(command, data.with(|s| s.subnqn(Text::new(subnqn))).as_bytes());
    t.answer(0, Status::SUCCESS, 1);
    get_cap(&mut t, 1, 0x0800_0020_1e01_03ff);
    get_vs(&mut t, 2, 0x20000);
    set_cc(&mut t, 3, 0x0046_0001);
    property(&mut t, 4, 0x1c, false, 1);
    let discovery = subnqn == nvmf_wire::nqn::DISCOVERY_NQN;
    let kind = if discovery { [("cntrltype", 2), ("oaes_dlpc", 1)] } else { [("cntrltype", 1), ("oaes_dlpc", 0)] };
    t.fetch(sqe("Identify", 5, &[("cns", 1)]), &controller(&kind));
    if !discovery {
        t.ask(sqe("SetFeatures", 6, &[("fid", 7), ("value", 0x0007_0007)]), 0x0007_0007);
    }
    t
}

/// Identify Controller data of an I/O controller that is right, with fields changed.
pub fn controller(ints: &[(&str, u64)]) -> Vec<u8> {
    let right: &[(&str, u64)] = &[
        ("cntlid", 1),
        ("ver", 0x20000),
        ("cntrltype", 1),
        ("ctratt_hids", 1),
        ("kas", 10),
        ("sqes_min", 6),
        ("sqes_max", 6),
        ("cqes_min", 4),
        ("cqes_max", 4),
        ("maxcmd", 64),
        ("nn", 8),
        ("sgls_support", 1),
        ("ioccsz", 260),
        ("iorcsz", 1),
        ("acl", 3),
        ("aerl", 3),
        ("vwc_fb", 2),
        ("wctemp", 343),
        ("cctemp", 353),
        ("mdts", 3),
    ];
    let mut bytes = vec![0; 4096];
    let text = |v: &str, len: usize| v.bytes().chain(std::iter::repeat(b' ')).take(len).collect::<Vec<u8>>();
    bytes[4..24].copy_from_slice(&text("1", 20));
    bytes[24..64].copy_from_slice(&text("model", 40));
    bytes[64..72].copy_from_slice(&text("1.0", 8));
    bytes[768..795].copy_from_slice(b"nqn.2026-01.org.example:sub");
    for (name, v) in right.iter().chain(ints) {
        <nvmf_wire::IdentifyController as nvmf_wire::Structure>::LAYOUT
            .write_field(&mut bytes, name, &nvmf_wire::Value::Int(*v))
            .unwrap();
    }
    bytes
}

/// The same of an NVM subsystem.
pub fn up() -> Talk {
    up_as("nqn.2026-01.org.example:sub")
}

/// I/O queue 1 of what [`up`] gives.
pub fn io_queue(admin: &Talk) -> Talk {
    let mut t = Talk::new();
    t.now_ns = admin.now_ns;
    t.start(Digests::default());
    let (sqe, data) = connect(1, 0);
    t.command(sqe, data.as_bytes());
    t.answer(0, Status::SUCCESS, 1);
    t
}

/// Property Get and its answer.
pub fn property(t: &mut Talk, cid: u16, ofst: u64, wide: bool, value: u64) {
    t.command(sqe("PropertyGet", cid, &[("ofst", ofst), ("attrib", u64::from(wide))]), &[]);
    let sqhd = t.sent % 32;
    t.response(*Cqe::of(Cid(cid), Status::SUCCESS, sqhd).with(|s| s.dw0(value as u32).dw1((value >> 32) as u32)).as_bytes());
}

pub fn get_cap(t: &mut Talk, cid: u16, value: u64) {
    property(t, cid, 0, true, value);
}

pub fn get_vs(t: &mut Talk, cid: u16, value: u64) {
    property(t, cid, 8, false, value);
}

pub fn set_cc(t: &mut Talk, cid: u16, value: u64) {
    t.ask(sqe("PropertySet", cid, &[("ofst", 0x14), ("value", value)]), 0);
}
