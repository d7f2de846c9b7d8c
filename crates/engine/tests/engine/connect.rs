//! ICReq, Connect and the life of an association: what each fault gets, and who is closed when.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::*;
use bytes::Bytes;
use nvmf_engine::controller::{EndReason, HubEvent, Port, PortTransport};
use nvmf_engine::tcp::CloseReason;
use nvmf_engine::{ControllerSettings, TcpSettings};
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::property::Property;
use nvmf_wire::sqe::IoOpcode;
use nvmf_wire::tcp::{Digests, IcReq, PduType};
use nvmf_wire::value::Text;
use nvmf_wire::{Cid, Cntlid, Opcode, Qid, SglDescriptor, Sqe, Status, ZeroBased16};

const IPO_DATA: u32 = 1 << 16;

/// Status and DW0 of an Admin Connect with these changes.
fn refused(f: impl FnOnce(&mut Connect), g: impl FnOnce(&mut ConnectData)) -> (Status, u32) {
    let mut rig = Rig::default();
    let c = rig.open();
    rig.init(c, |_| {});
    let (sqe, data) = connect_with(f, g, 0, 31, 60_000, Cntlid::DYNAMIC);
    let (cqe, _) = rig.command(c, sqe, data);
    assert_eq!(cqe.dw1(), 0);
    assert_eq!(rig.hub.associations(), 0);
    // The connection is still good for a right one.
    let (sqe, data) = connect(0, 31, 60_000, Cntlid::DYNAMIC);
    assert_eq!(rig.status(c, sqe, data), Status::SUCCESS);
    (cqe.status().code(), cqe.dw0())
}

fn text(len: usize) -> Text<256> {
    let mut t = Text([0; 256]);
    let name = format!("nqn.2014-08.org.example:{}", "x".repeat(232));
    t.0[..len].copy_from_slice(&name.as_bytes()[..len]);
    t
}

#[test]
fn each_fault_of_connect_is_named() {
    let bad = Status::CONNECT_INVALID_PARAMETERS;
    assert_eq!(refused(|c| put(c.set().recfmt(1)), |_| {}), (Status::INCOMPATIBLE_FORMAT, 0));
    assert_eq!(refused(|c| put(c.set().sqsize(ZeroBased16(0))), |_| {}), (bad, 44));
    assert_eq!(refused(|c| put(c.set().sqsize(ZeroBased16(128))), |_| {}), (bad, 44));
    assert_eq!(refused(|c| put(c.set().kato(0)), |_| {}), (Status::KEEP_ALIVE_TIMEOUT_INVALID, 0));
    assert_eq!(refused(|c| put(c.set().qid(Qid(1))), |_| {}), (bad, IPO_DATA | 16), "no such association");
    assert_eq!(refused(|_| {}, |d| put(d.set().hostid([0; 16]))), (bad, IPO_DATA));
    assert_eq!(refused(|_| {}, |d| put(d.set().cntlid(Cntlid(1)))), (bad, IPO_DATA | 16));
    assert_eq!(refused(|_| {}, |d| put(d.set().cntlid(Cntlid(0xfffe)))), (bad, IPO_DATA | 16));
    assert_eq!(refused(|_| {}, |d| put(d.set().subnqn(Text::new("nqn.2014-08.org.example:Subsystem")))), (bad, IPO_DATA | 256));
    assert_eq!(refused(|_| {}, |d| put(d.set().subnqn(Text([0; 256])))), (bad, IPO_DATA | 256));
    assert_eq!(refused(|_| {}, |d| put(d.set().hostnqn(Text([0; 256])))), (bad, IPO_DATA | 512));
    assert_eq!(refused(|_| {}, |d| put(d.set().hostnqn(text(256)))), (bad, IPO_DATA | 512), "no NUL");
    assert_eq!(refused(|_| {}, |d| put(d.set().hostnqn(text(224)))), (bad, IPO_DATA | 512));
}

#[test]
fn the_longest_name_and_queue_are_taken() {
    let mut rig = Rig::default();
    let c = rig.open();
    rig.init(c, |_| {});
    let (sqe, data) = connect_with(|_| {}, |d| put(d.set().hostnqn(text(223))), 0, 127, 60_000, Cntlid::DYNAMIC);
    let (cqe, _) = rig.command(c, sqe, data);
    assert_eq!((cqe.status(), cqe.dw0(), cqe.dw1(), cqe.sqhd()), (Status::SUCCESS, 1, 0, 1));
}

#[test]
fn io_connect_must_fit_its_association() {
    let bad = Status::CONNECT_INVALID_PARAMETERS;
    let mut rig = Rig::default();
    rig.hub.add_subsystem("nqn.2014-08.org.example:other", None).unwrap();
    let (admin, id) = rig.admin();
    let attempt = |rig: &mut Rig, f: &dyn Fn(&mut Connect), g: &dyn Fn(&mut ConnectData), qid, sqsize| {
        let c = rig.open();
        rig.init(c, |_| {});
        let (sqe, data) = connect_with(f, g, qid, sqsize, 0, id);
        let (cqe, _) = rig.command(c, sqe, data);
        (cqe.status().code(), cqe.dw0())
    };
    let same: &dyn Fn(&mut Connect) = &|_| {};
    let like: &dyn Fn(&mut ConnectData) = &|_| {};
    assert_eq!(attempt(&mut rig, same, like, 1, 31), (bad, 42), "not enabled yet");
    rig.command(admin, property_set(Property::CC, u64::from(enable())), Bytes::new());
    assert_eq!(attempt(&mut rig, same, &|d| put(d.set().hostid([9; 16])), 1, 31), (bad, IPO_DATA));
    assert_eq!(attempt(&mut rig, same, &|d| put(d.set().cntlid(Cntlid(99))), 1, 31), (bad, IPO_DATA | 16));
    assert_eq!(attempt(&mut rig, same, &|d| put(d.set().cntlid(Cntlid::DYNAMIC)), 1, 31), (bad, IPO_DATA | 16));
    let other = "nqn.2014-08.org.example:other";
    assert_eq!(attempt(&mut rig, same, &|d| put(d.set().subnqn(Text::new(other))), 1, 31), (bad, IPO_DATA | 256));
    assert_eq!(attempt(&mut rig, same, &|d| put(d.set().hostnqn(Text::new(other))), 1, 31), (bad, IPO_DATA | 512));
    assert_eq!(attempt(&mut rig, same, like, 65, 31), (bad, 42));
    assert_eq!(attempt(&mut rig, same, like, 0xffff, 31), (bad, 42));
    assert_eq!(attempt(&mut rig, same, like, 1, 0), (bad, 44));
    assert_eq!(attempt(&mut rig, same, like, 1, 1024), (bad, 44));
    assert_eq!(attempt(&mut rig, same, like, 1, 1023), (Status::SUCCESS, u32::from(id.0)));
    assert_eq!(attempt(&mut rig, same, like, 1, 31), (Status::COMMAND_SEQUENCE_ERROR, 0));
    assert_eq!(attempt(&mut rig, same, like, 2, 1), (Status::SUCCESS, u32::from(id.0)));
}

#[test]
fn hosts_that_are_not_allowed_are_told_so_and_do_not_see_the_subsystem() {
    let mut rig = Rig::default();
    let private = "nqn.2014-08.org.example:private";
    rig.hub.add_subsystem(private, Some(BTreeSet::from(["nqn.2014-08.org.example:friend".to_owned()]))).unwrap();
    for (host, want, entries) in
        [(HOSTNQN, Status::CONNECT_INVALID_HOST, 1u64), ("nqn.2014-08.org.example:friend", Status::SUCCESS, 2)]
    {
        let c = rig.open();
        rig.init(c, |_| {});
        let (sqe, data) = connect_with(
            |_| {},
            |d| put(d.set().subnqn(Text::new(private)).hostnqn(Text::new(host))),
            0,
            31,
            1000,
            Cntlid::DYNAMIC,
        );
        let (cqe, _) = rig.command(c, sqe, data);
        assert_eq!((cqe.status().code(), cqe.dw0() >> 16), (want, 0));
        let c = rig.open();
        rig.init(c, |_| {});
        let (sqe, mut data) = discovery(0);
        let mut d = ConnectData::read(&data).unwrap();
        d.set().hostnqn(Text::new(host));
        data = Bytes::copy_from_slice(d.as_bytes());
        assert_eq!(rig.status(c, sqe, data), Status::SUCCESS);
        rig.command(c, property_set(Property::CC, 1), Bytes::new());
        let (_, log) = rig.command(c, log_page(0x70, 1024, 0, false), Bytes::new());
        assert_eq!(u64::from_le_bytes(*log[8..].first_chunk().unwrap()), entries);
    }
}

#[test]
fn icreq_faults() {
    type Change = fn(&mut IcReq);
    let cases: [(Change, u16, u32); 4] = [
        (|r| put(r.set().pfv(1)), 6, 8),
        (|r| put(r.set().hpda(32)), 1, 10),
        (|r| put(r.set().hpda(255)), 1, 10),
        (|r| put(r.set().pfv(0xffff).hpda(32)), 6, 8),
    ];
    for (f, fes, fei) in cases {
        let mut rig = Rig::default();
        let c = rig.open();
        let mut req = IcReq::new();
        f(&mut req);
        let bytes = ic_req(req);
        rig.send(c, &bytes);
        let (a, b, shown) = rig.term(c);
        assert_eq!((a, b), (fes, fei));
        assert_eq!(shown, bytes);
    }
    for (at, value, fei) in [(2, 127, 2), (4, 127, 4), (4, 129, 4)] {
        let mut rig = Rig::default();
        let c = rig.open();
        let mut bytes = ic_req(IcReq::new());
        bytes[at] = value;
        rig.send(c, &bytes);
        assert_eq!(rig.term(c).1, fei);
    }
}

#[test]
fn reserved_fields_of_icreq_are_not_looked_at() {
    let mut rig = Rig::default();
    let c = rig.open();
    let mut bytes = ic_req(IcReq::new());
    bytes[1] = 0xff;
    bytes[3] = 0xff;
    bytes[11] = 0xfc;
    bytes[16..].fill(0xff);
    rig.send(c, &bytes);
    assert_eq!(rig.pdu(c).unwrap().ptype(), PduType::IC_RESP);
}

#[test]
fn pdus_out_of_turn() {
    // A capsule first; a second ICReq; types that a host does not send.
    let mut rig = Rig::default();
    let c = rig.open();
    let bytes = frame(&capsule_header(&Sqe::new()), Bytes::new(), Digests::default(), 4);
    rig.send(c, &bytes);
    assert_eq!(rig.term(c).0, 2);
    let c = rig.open();
    rig.init(c, |_| {});
    rig.send(c, &ic_req(IcReq::new()));
    assert_eq!(rig.term(c).0, 2);
    for ptype in [1, 3, 5, 7, 8, 9, 10, 0xac, 0xff] {
        let c = rig.open();
        rig.init(c, |_| {});
        rig.send(c, &[ptype, 0, 8, 0, 8, 0, 0, 0]);
        let (fes, fei, shown) = rig.term(c);
        assert_eq!((fes, fei, &shown[..]), (1, 0, &[ptype, 0, 8, 0, 8, 0, 0, 0][..]));
    }
}

#[test]
fn a_bad_header_digest_is_given_back() {
    let mut rig = Rig::default();
    let c = rig.open();
    rig.init(c, |r| put(r.set().hdgst(true)));
    let (sqe, data) = connect(0, 31, 60_000, Cntlid::DYNAMIC);
    let mut bytes = rig.capsule(c, sqe, data);
    bytes[73] ^= 0x10;
    rig.send(c, &bytes);
    let (fes, fei, shown) = rig.term(c);
    assert_eq!((fes, fei), (3, u32::from_le_bytes(*bytes[72..].first_chunk().unwrap())));
    assert_eq!(shown, bytes[..72]);
}

#[test]
fn segments_do_not_matter() {
    let mut rig = Rig::default();
    let c = rig.open();
    for b in ic_req(IcReq::new()) {
        rig.send(c, &[b]);
    }
    assert_eq!(rig.pdu(c).unwrap().ptype(), PduType::IC_RESP);
    let (sqe, data) = connect(0, 31, 60_000, Cntlid::DYNAMIC);
    // Connect and a property in one segment: the second waits for the first.
    let mut bytes = rig.capsule(c, sqe.with(|s| s.cid(Cid(1))), data);
    bytes.extend(rig.capsule(c, property_get(Property::VS).with(|s| s.cid(Cid(2))), Bytes::new()));
    rig.send(c, &bytes);
    assert_eq!(rig.end_of(c, Cid(1)).0.status(), Status::SUCCESS);
    let (cqe, _) = rig.end_of(c, Cid(2));
    assert_eq!((cqe.status(), cqe.dw0(), cqe.sqhd()), (Status::SUCCESS, 0x0002_0000, 2));
}

#[test]
fn terminate_requests_of_the_host_are_not_answered() {
    for plen in [24u32, 25, 152, 0, 23, 153, u32::MAX] {
        let mut rig = Rig::default();
        let (c, _) = rig.admin();
        let mut bytes = vec![2, 0, 24, 0];
        bytes.extend(plen.to_le_bytes());
        bytes.resize(if (24..=152).contains(&plen) { plen as usize } else { 24 }, 0);
        rig.send(c, &bytes);
        assert_eq!(rig.closed(c), Some(CloseReason::HostTerminated), "PLEN {plen}");
        assert!(rig.pdu(c).is_none());
    }
}

#[test]
fn after_a_fatal_error_nothing_is_processed_and_patience_ends() {
    let mut rig = Rig::default();
    let (c, _) = rig.admin();
    rig.send(c, &[0xff, 0, 8, 0, 8, 0, 0, 0]);
    let bytes = rig.capsule(c, property_get(Property::VS), Bytes::new());
    rig.send(c, &bytes);
    rig.term(c);
    rig.pass(Duration::from_secs(29));
    assert_eq!(rig.closed(c), None);
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.closed(c), Some(CloseReason::TermUnanswered));
    assert_eq!(rig.hub.associations(), 0);
}

#[test]
fn silence_before_connect_ends() {
    let mut rig = Rig::default();
    let fresh = rig.open();
    let named = rig.open();
    rig.init(named, |_| {});
    let (admin, _) = rig.admin();
    rig.pass(Duration::from_secs(31));
    assert_eq!(
        (rig.closed(fresh), rig.closed(named), rig.closed(admin)),
        (Some(CloseReason::Setup), Some(CloseReason::Setup), None)
    );
}

#[test]
fn commands_before_connect_and_a_second_connect_are_out_of_sequence() {
    let mut rig = Rig::default();
    let c = rig.open();
    rig.init(c, |_| {});
    for sqe in [property_get(Property::CAP), identify(1, 0), rw(IoOpcode::READ, 1, 0, 1, SglDescriptor::transport(512))] {
        assert_eq!(rig.status(c, sqe, Bytes::new()), Status::COMMAND_SEQUENCE_ERROR);
    }
    let (sqe, data) = connect(0, 31, 60_000, Cntlid::DYNAMIC);
    assert_eq!(rig.status(c, sqe, data.clone()), Status::SUCCESS);
    assert_eq!(rig.status(c, sqe, data), Status::COMMAND_SEQUENCE_ERROR);
}

#[test]
fn connect_data_by_r2t() {
    let mut rig = Rig::default();
    let c = rig.open();
    rig.init(c, |_| {});
    let (sqe, data) = connect(0, 31, 60_000, Cntlid::DYNAMIC);
    let sqe = sqe.with_sgl1(SglDescriptor::transport(1024)).with(|s| s.cid(Cid(3)));
    rig.submit(c, sqe, Bytes::new());
    let r2t = nvmf_wire::tcp::R2t::read(&rig.pdu(c).unwrap().header).unwrap();
    assert_eq!((r2t.r2to(), r2t.r2tl()), (0, 1024));
    let header = h2c_header(|h| put(h.set().cccid(Cid(3)).ttag(r2t.ttag()).datal(1024).last(true)));
    let bytes = frame(&header, data, Digests::default(), 4);
    rig.send(c, &bytes);
    assert_eq!(rig.end_of(c, Cid(3)).0.status(), Status::SUCCESS);
}

#[test]
fn wrong_lengths_of_connect_data() {
    let mut rig = Rig::default();
    let c = rig.open();
    rig.init(c, |_| {});
    let (sqe, data) = connect(0, 31, 60_000, Cntlid::DYNAMIC);
    for (sgl, want) in [
        (SglDescriptor::in_capsule(0, 1023), Status::DATA_SGL_LENGTH_INVALID),
        (SglDescriptor::in_capsule(4, 1024), Status::SGL_OFFSET_INVALID),
        (SglDescriptor::new().with(|s| s.len(1024)), Status::SGL_DESCRIPTOR_TYPE_INVALID),
    ] {
        assert_eq!(rig.status(c, sqe.with_sgl1(sgl), data.clone()), want);
    }
}

#[test]
fn any_lost_queue_ends_the_association_and_only_that() {
    let mut rig = Rig::default();
    let (admin, io) = rig.io();
    let (other, _) = rig.enabled();
    rig.hang_up(io);
    // a host that goes closes its I/O queues first, and is still answered for a moment
    assert_eq!(rig.property(admin, Property::CSTS), 1);
    assert_eq!(rig.closed(admin), None);
    rig.pass(ControllerSettings::default().loss_patience);
    assert_eq!(rig.closed(admin), Some(CloseReason::Association));
    assert_eq!(rig.closed(other), None);
    let ended = rig.events.iter().any(|e| matches!(e, HubEvent::Ended { reason: EndReason::ConnectionLost { qid: 1 }, .. }));
    assert!(ended);
    assert_eq!(rig.property(other, Property::CSTS), 1);
}

#[test]
fn controller_ids_start_at_one_and_are_reused() {
    let mut rig = Rig::default();
    let all: Vec<_> = (0..4).map(|_| rig.admin()).collect();
    assert_eq!(all.iter().map(|(_, id)| id.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
    rig.hang_up(all[1].0);
    assert_eq!(rig.admin().1, Cntlid(2));
    let mut rig = Rig::new(ControllerSettings { controllers: 1, ..ControllerSettings::default() }, TcpSettings::default());
    rig.admin();
    let c = rig.open();
    rig.init(c, |_| {});
    let (sqe, data) = connect(0, 31, 60_000, Cntlid::DYNAMIC);
    assert_eq!(rig.status(c, sqe, data), Status::CONTROLLER_BUSY);
}

#[test]
fn a_discovery_port_serves_discovery_alone() {
    let mut rig = Rig::default();
    rig.hub
        .add_port(Port { id: 2, advertise: "192.0.2.1:8009".parse().unwrap(), discovery_only: true, transport: PortTransport::Tcp })
        .unwrap();
    let c = rig.open_at(2);
    rig.init(c, |_| {});
    let (sqe, data) = connect(0, 31, 60_000, Cntlid::DYNAMIC);
    assert_eq!(rig.status(c, sqe, data), Status::CONNECT_INVALID_PARAMETERS);
    let (sqe, data) = discovery(0);
    assert_eq!(rig.status(c, sqe, data), Status::SUCCESS);
}

#[test]
fn a_queue_that_is_overrun_ends_the_association() {
    for off in [false, true] {
        let mut rig = Rig::default();
        let (admin, id) = rig.enabled();
        let io = rig.open();
        rig.init(io, |_| {});
        let (sqe, data) = connect_with(|c| put(c.set().sqfcd(off)), |_| {}, 1, 3, 0, id);
        rig.command(io, sqe, data);
        // Writes that wait for their data keep their slots; three fit into four.
        for cid in 0..3 {
            let sqe = rw(IoOpcode::WRITE, 1, 0, 32, SglDescriptor::transport(16384)).with(|s| s.cid(Cid(100 + cid)));
            rig.submit(io, sqe, Bytes::new());
        }
        assert_eq!(rig.closed(io), None, "flow control off: {off}");
        let sqe = rw(IoOpcode::WRITE, 1, 0, 32, SglDescriptor::transport(16384)).with(|s| s.cid(Cid(200)));
        rig.submit(io, sqe, Bytes::new());
        assert_eq!((rig.closed(io), rig.closed(admin)), (Some(CloseReason::Overrun), Some(CloseReason::Association)));
    }
}

#[test]
fn a_cid_in_use_is_a_conflict_and_the_first_command_goes_on() {
    let mut rig = Rig::default();
    let (_, io) = rig.io();
    let write = rw(IoOpcode::WRITE, 1, 0, 1, SglDescriptor::transport(512)).with(|s| s.cid(Cid(60)));
    rig.submit(io, write, Bytes::new());
    let r2t = nvmf_wire::tcp::R2t::read(&rig.pdu(io).unwrap().header).unwrap();
    rig.submit(io, Sqe::new().with(|s| s.opc(Opcode(0)).psdt(1).cid(Cid(60))), Bytes::new());
    assert_eq!(rig.end_of(io, Cid(60)).0.status().code(), Status::COMMAND_ID_CONFLICT);
    let header = h2c_header(|h| put(h.set().cccid(Cid(60)).ttag(r2t.ttag()).datal(512).last(true)));
    let bytes = frame(&header, pattern(512), Digests::default(), 4);
    rig.send(io, &bytes);
    assert_eq!(rig.end_of(io, Cid(60)).0.status(), Status::SUCCESS);
}
