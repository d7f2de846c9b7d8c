//! The target on loopback, driven by a socket: from ICReq to a write and its read, and the ends of a connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use nvmf_engine::controller::NewNamespace;
use nvmf_engine::store::MemoryStore;
use nvmf_engine::{ControllerSettings, RdmaSettings, TcpSettings};
use nvmf_net::target::{EmbeddedTarget, Listener, SubsystemConfig, TargetConfig};
use nvmf_seam::store::Geometry;
use nvmf_seam::{Side, Tap, TapOutput};
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::property::{Cc, Property, PropertySet};
use nvmf_wire::sqe::{FabricsType, IoOpcode};
use nvmf_wire::tcp::{CapsuleCmd, CapsuleResp, Digests, Framer, H2cData, IcReq, Pdu, PduType, R2t};
use nvmf_wire::value::Text;
use nvmf_wire::{Cid, Cntlid, CommandKind, Cqe, Nsid, Qid, SglDescriptor, Sqe, Status, ZeroBased16};

const SUBNQN: &str = "nqn.2014-08.org.example:subsystem";

fn config() -> TargetConfig {
    let store = Arc::new(MemoryStore::new(Geometry { blocks: 131_072, block_size: 512 }));
    TargetConfig {
        listeners: vec![Listener::new("127.0.0.1:0".parse().unwrap())],
        subsystems: vec![SubsystemConfig {
            nqn: SUBNQN.into(),
            hosts: None,
            namespaces: vec![(1, NewNamespace { store, blocking: true, uuid: None })],
        }],
        controller: ControllerSettings::default(),
        tcp: TcpSettings { term_wait: Duration::from_millis(200), ..TcpSettings::default() },
        rdma: RdmaSettings::default(),
        tap: None,
        observer: None,
    }
}

struct Host {
    stream: TcpStream,
    framer: Framer,
}

impl Host {
    fn new(target: &EmbeddedTarget) -> Self {
        let stream = TcpStream::connect(target.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut host = Self { stream, framer: Framer::new(1 << 24) };
        let mut header = *IcReq::new().as_bytes();
        header[0] = PduType::IC_REQ.0;
        host.pdu(&header, Bytes::new());
        assert_eq!(host.next().unwrap().ptype(), PduType::IC_RESP);
        host
    }

    fn pdu(&mut self, header: &[u8], data: Bytes) {
        self.stream.write_all(&Pdu::build(header, data, Digests::default(), 4).to_bytes()).unwrap();
    }

    /// The next PDU; `None` at the end of the stream.
    fn next(&mut self) -> Option<Pdu> {
        loop {
            if let Some(b) = self.framer.next_pdu() {
                return Some(Pdu::parse(&b).unwrap());
            }
            let mut buf = [0; 65536];
            match self.stream.read(&mut buf).unwrap() {
                0 => return None,
                n => self.framer.push(&buf[..n]),
            }
        }
    }

    fn submit(&mut self, sqe: Sqe, data: Bytes) {
        let mut header = *CapsuleCmd::new().with(|s| s.sqe(*sqe.as_bytes())).as_bytes();
        header[0] = PduType::CAPSULE_CMD.0;
        self.pdu(&header, data);
    }

    fn response(&mut self) -> Cqe {
        let pdu = self.next().unwrap();
        assert_eq!(pdu.ptype(), PduType::CAPSULE_RESP);
        Cqe::from_bytes(CapsuleResp::read(&pdu.header).unwrap().cqe())
    }

    fn connect(&mut self, qid: u16, cntlid: Cntlid) -> Cntlid {
        let mut c = Connect::from_bytes(*CommandKind::named("Connect").unwrap().sqe().as_bytes());
        c.set().qid(Qid(qid)).sqsize(ZeroBased16(31)).kato(if qid == 0 { 60_000 } else { 0 });
        let data = ConnectData::new().with(|s| {
            s.hostid([1; 16]).cntlid(cntlid).subnqn(Text::new(SUBNQN)).hostnqn(Text::new("nqn.2014-08.org.example:host"))
        });
        let sqe = Sqe::from_bytes(*c.as_bytes()).with_sgl1(SglDescriptor::in_capsule(0, 1024));
        self.submit(sqe, Bytes::copy_from_slice(data.as_bytes()));
        let cqe = self.response();
        assert_eq!(cqe.status(), Status::SUCCESS);
        Cntlid(cqe.dw0() as u16)
    }
}

fn admin(target: &EmbeddedTarget) -> (Host, Cntlid) {
    let mut host = Host::new(target);
    let id = host.connect(0, Cntlid::DYNAMIC);
    let mut p = PropertySet::from_bytes(*CommandKind::named("PropertySet").unwrap().sqe().as_bytes());
    assert_eq!(p.as_bytes()[4], FabricsType::PROPERTY_SET.0);
    let cc = Cc::new().with(|s| s.en(true).iosqes(6).iocqes(4));
    p.set().ofst(Property::CC).value(u64::from(u32::from_le_bytes(*cc.as_bytes())));
    host.submit(Sqe::from_bytes(*p.as_bytes()), Bytes::new());
    assert_eq!(host.response().status(), Status::SUCCESS);
    (host, id)
}

fn rw(opcode: IoOpcode, len: u32, cid: u16) -> Sqe {
    let rw = nvmf_wire::nvm::Write::new().with(|s| s.nlb(ZeroBased16((len / 512 - 1) as u16)));
    Sqe::from_bytes(*rw.as_bytes())
        .with(|s| s.opc(nvmf_wire::Opcode(opcode.0)).psdt(1).nsid(Nsid(1)).cid(Cid(cid)))
        .with_sgl1(SglDescriptor::transport(len))
}

#[test]
fn a_mebibyte_is_written_by_r2t_and_read_back() {
    let target = EmbeddedTarget::start(config()).unwrap();
    let (_admin, id) = admin(&target);
    let mut io = Host::new(&target);
    io.connect(1, id);
    let data: Bytes = (0..1 << 20).map(|i: u32| (i / 3) as u8).collect::<Vec<_>>().into();
    io.submit(rw(IoOpcode::WRITE, 1 << 20, 5), Bytes::new());
    let r2t = R2t::read(&io.next().unwrap().header).unwrap();
    assert_eq!((r2t.r2to(), r2t.r2tl()), (0, 1 << 20));
    for i in 0..8usize {
        let (at, n) = (i << 17, 1 << 17);
        let h = H2cData::new().with(|s| s.cccid(Cid(5)).ttag(r2t.ttag()).datao(at as u32).datal(n as u32).last(i == 7));
        let mut header = *h.as_bytes();
        header[0] = PduType::H2C_DATA.0;
        io.pdu(&header, data.slice(at..at + n));
    }
    assert_eq!(io.response().status(), Status::SUCCESS);
    io.submit(rw(IoOpcode::READ, 1 << 20, 6), Bytes::new());
    let mut got = Vec::new();
    while got.len() < data.len() {
        let pdu = io.next().unwrap();
        assert_eq!(pdu.ptype(), PduType::C2H_DATA);
        got.extend_from_slice(&pdu.data);
    }
    assert_eq!(got, data);
    assert_eq!(io.response().status(), Status::SUCCESS);
}

#[test]
fn the_loss_of_one_queue_ends_the_association() {
    let target = EmbeddedTarget::start(config()).unwrap();
    let (mut first, id) = admin(&target);
    let mut io = Host::new(&target);
    io.connect(1, id);
    drop(io);
    assert!(first.next().is_none(), "the Admin Queue is closed");
}

#[test]
fn after_a_terminate_request_the_target_waits_then_closes() {
    let target = EmbeddedTarget::start(config()).unwrap();
    let mut host = Host::new(&target);
    let begin = Instant::now();
    host.stream.write_all(&[0xac, 0, 8, 0, 8, 0, 0, 0]).unwrap();
    let pdu = host.next().unwrap();
    assert_eq!(pdu.ptype(), PduType::C2H_TERM_REQ);
    assert!(host.next().is_none());
    assert!(begin.elapsed() >= Duration::from_millis(200) && begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn many_idle_connections_and_a_clean_end() {
    let target = EmbeddedTarget::start(config()).unwrap();
    let hosts: Vec<_> = (0..200).map(|_| admin(&target)).collect();
    let ids: std::collections::BTreeSet<_> = hosts.iter().map(|(_, id)| *id).collect();
    assert_eq!(ids.len(), 200, "each association has a controller of its own");
    assert_eq!(target.with_hub(|h| h.associations()), 200);
    drop(target);
    for (mut host, _) in hosts {
        assert!(host.next().is_none());
    }
}

#[test]
fn a_host_that_does_not_read_is_reset_in_the_end() {
    let target = EmbeddedTarget::start(config()).unwrap();
    let (mut host, id) = admin(&target);
    let mut io = Host::new(&target);
    io.connect(1, id);
    // Twenty reads of a mebibyte fill every buffer; then the association ends.
    for cid in 0..20 {
        io.submit(rw(IoOpcode::READ, 1 << 20, cid), Bytes::new());
    }
    std::thread::sleep(Duration::from_millis(300));
    host.stream.write_all(&[2, 0, 24, 0, 24, 0, 0, 0]).unwrap();
    host.stream.write_all(&[0; 16]).unwrap();
    assert!(host.next().is_none());
    std::thread::sleep(Duration::from_secs(1));
    let mut buf = vec![0; 1 << 20];
    let end = loop {
        match io.stream.read(&mut buf) {
            Ok(0) => break None,
            Ok(_) => {}
            Err(e) => break Some(e.kind()),
        }
    };
    assert_eq!(end, Some(std::io::ErrorKind::ConnectionReset));
}

/// Closes in place of every CapsuleResp.
struct Mute;

impl Tap for Mute {
    fn pdu(&mut self, from: Side, pdu: Bytes) -> Vec<TapOutput> {
        if from == Side::Controller && pdu[0] == PduType::CAPSULE_RESP.0 {
            vec![TapOutput::Close]
        } else {
            vec![TapOutput::Pass(pdu)]
        }
    }
}

#[test]
fn a_tap_sees_what_passes() {
    let mut config = config();
    config.tap = Some(Arc::new(|| Box::new(Mute)));
    let target = EmbeddedTarget::start(config).unwrap();
    let mut host = Host::new(&target);
    host.submit(rw(IoOpcode::READ, 512, 1), Bytes::new());
    assert!(host.next().is_none(), "closed in place of the response");
}
