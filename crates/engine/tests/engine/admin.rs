//! Properties, reset, shutdown, keep alive, events, abort, Identify, log pages, features, and the discovery controller.

use std::time::Duration;

use crate::common::*;
use bytes::Bytes;
use nvmf_engine::controller::{EndReason, HubEvent};
use nvmf_engine::tcp::CloseReason;
use nvmf_engine::{ControllerSettings, TcpSettings};
use nvmf_wire::identify::{ControllerType, IdentifyController, IdentifyNamespace, Nidt, read_descriptors, read_namespace_list};
use nvmf_wire::log::{DiscoveryEntry, DiscoveryHeader, ErrorEntry, SupportedLogPage};
use nvmf_wire::property::{Property, PropertyGet};
use nvmf_wire::sqe::IoOpcode;
use nvmf_wire::tcp::Digests;
use nvmf_wire::{Cid, Cntlid, Nsid, Opcode, SglDescriptor, Sqe, Status};

const INVALID: Status = Status::INVALID_FIELD_IN_COMMAND;

fn set_feature(fid: u8, value: u32) -> Sqe {
    admin_sqe(Opcode::SET_FEATURES, 0, u32::from(fid), value)
}

fn get_feature(fid: u8, select: u8, value: u32) -> Sqe {
    admin_sqe(Opcode::GET_FEATURES, 0, u32::from(fid) | u32::from(select) << 8, value)
}

fn none() -> Bytes {
    Bytes::new()
}

#[test]
fn properties_have_one_size_and_most_are_read_only() {
    let mut rig = Rig::default();
    let (c, _) = rig.admin();
    let cap = rig.property(c, Property::CAP);
    assert_eq!(cap & 0xffff, 1023, "MQES");
    assert_eq!((cap >> 16 & 1, cap >> 24 & 0xff, cap >> 37 & 1, cap >> 43 & 1, cap >> 59 & 1), (1, 30, 1, 1, 1));
    assert_eq!(rig.property(c, Property::VS), 0x2_0000);
    assert_eq!(rig.property(c, Property::CC), 0);
    assert_eq!(rig.property(c, Property::CSTS), 0);
    assert_eq!(rig.property(c, Property::CRTO), 30);
    for property in [Property::INTMS, Property::NSSR, Property::AQA, Property::NSSD, Property(4), Property(0x1000)] {
        assert_eq!(rig.status(c, property_get(property), none()), INVALID, "{property}");
        assert_eq!(rig.status(c, property_set(property, 0), none()), INVALID, "{property}");
    }
    for property in [Property::CAP, Property::VS, Property::CSTS, Property::CRTO] {
        assert_eq!(rig.status(c, property_set(property, 0), none()), INVALID, "{property}");
    }
    for (property, attrib) in [(Property::CAP, 0), (Property::VS, 1), (Property::CC, 2), (Property::CSTS, 7)] {
        let mut p = PropertyGet::from_bytes(*property_get(property).as_bytes());
        p.set().attrib(attrib);
        assert_eq!(rig.status(c, Sqe::from_bytes(*p.as_bytes()), none()), INVALID);
    }
}

#[test]
fn a_value_that_cc_cannot_take_changes_nothing() {
    let mut rig = Rig::default();
    let (c, _) = rig.admin();
    for cc in [0x46_0011u32, 0x46_0071, 0x46_0081, 0x46_0801, 0x45_0001, 0x36_0001, 0x46_c001] {
        assert_eq!(rig.status(c, property_set(Property::CC, u64::from(cc)), none()), INVALID, "{cc:#x}");
        assert_eq!((rig.property(c, Property::CC), rig.property(c, Property::CSTS)), (0, 0));
    }
    assert_eq!(rig.status(c, property_set(Property::CC, 0xff46_0061), none()), Status::SUCCESS);
    assert_eq!(rig.property(c, Property::CC), 0x46_0061, "reserved bits read as 0");
}

#[test]
fn disabled_serves_fabrics_commands_alone() {
    let mut rig = Rig::default();
    let (c, _) = rig.admin();
    assert_eq!(rig.status(c, identify(1, 0), none()), Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(rig.status(c, admin_sqe(Opcode(0xff), 0, 0, 0), none()), Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(rig.status(c, property_get(Property::CAP), none()), Status::SUCCESS);
}

#[test]
fn a_reset_closes_io_queues_and_keeps_the_association() {
    let mut rig = Rig::default();
    let (admin, io) = rig.io();
    rig.submit(admin, admin_sqe(Opcode::ASYNC_EVENT_REQUEST, 0, 0, 0).with(|s| s.cid(Cid(500))), none());
    assert_eq!(rig.status(admin, property_set(Property::CC, 0x46_0000), none()), Status::SUCCESS);
    assert_eq!((rig.property(admin, Property::CC), rig.property(admin, Property::CSTS)), (0, 0));
    assert_eq!((rig.closed(io), rig.closed(admin)), (Some(CloseReason::Association), None));
    rig.hang_up(io);
    assert_eq!(rig.hub.associations(), 1, "the end of a deleted queue is no loss");
    // The request ended without completion: its CID is free.
    rig.command(admin, property_set(Property::CC, u64::from(enable())), none());
    rig.submit(admin, identify(1, 0).with(|s| s.cid(Cid(500))), none());
    assert_eq!(rig.end_of(admin, Cid(500)).0.status(), Status::SUCCESS);
}

#[test]
fn after_a_shutdown_fabrics_commands_alone_until_the_reset() {
    for shn in [1u64, 2] {
        let mut rig = Rig::default();
        let (admin, io) = rig.io();
        let cc = u64::from(enable()) | shn << 14;
        assert_eq!(rig.status(admin, property_set(Property::CC, cc), none()), Status::SUCCESS);
        assert_eq!(rig.property(admin, Property::CSTS), 0b1001);
        assert_ne!(rig.status(admin, identify(1, 0), none()), Status::SUCCESS);
        let read = rw(IoOpcode::READ, 1, 0, 1, SglDescriptor::transport(512));
        assert_ne!(rig.status(io, read, none()), Status::SUCCESS);
        // No keep alive runs.
        rig.pass(Duration::from_secs(1000));
        assert_eq!(rig.closed(admin), None);
        rig.command(admin, property_set(Property::CC, 0), none());
        assert_eq!(rig.property(admin, Property::CSTS), 0);
        rig.command(admin, property_set(Property::CC, u64::from(enable())), none());
        assert_eq!(rig.status(admin, identify(1, 0), none()), Status::SUCCESS);
    }
}

#[test]
fn keep_alive_expires_only_while_it_is_active() {
    let mut rig = Rig::default();
    let (idle, _) = rig.admin();
    rig.pass(Duration::from_secs(500));
    assert_eq!(rig.closed(idle), None, "not enabled, no timer");
    let (admin, io) = rig.io();
    for _ in 0..10 {
        rig.pass(Duration::from_secs(100));
        assert_eq!(rig.status(admin, admin_sqe(Opcode::KEEP_ALIVE, 0, 0, 0), none()), Status::SUCCESS);
    }
    // Other commands do not count.
    rig.pass(Duration::from_secs(100));
    assert_eq!(rig.status(admin, identify(1, 0), none()), Status::SUCCESS);
    rig.pass(Duration::from_secs(21));
    assert_eq!((rig.closed(admin), rig.closed(io)), (Some(CloseReason::Association), Some(CloseReason::Association)));
    assert!(rig.events.iter().any(|e| matches!(e, HubEvent::Ended { reason: EndReason::KeepAlive, .. })));
}

#[test]
fn traffic_keeps_alive_where_the_controller_says_so() {
    let mut rig =
        Rig::new(ControllerSettings { traffic_keep_alive: true, ..ControllerSettings::default() }, TcpSettings::default());
    let (admin, io) = rig.io();
    let (_, page) = rig.command(admin, identify(1, 0), none());
    assert!(IdentifyController::read(&page).unwrap().ctratt_tbkas());
    for _ in 0..5 {
        rig.pass(Duration::from_secs(110));
        let read = rw(IoOpcode::READ, 1, 0, 1, SglDescriptor::transport(512));
        assert_eq!(rig.status(io, read, none()), Status::SUCCESS);
    }
    // Fabrics commands do not count.
    for _ in 0..3 {
        rig.pass(Duration::from_secs(60));
        if rig.closed(admin).is_none() {
            rig.property(admin, Property::CSTS);
        }
    }
    assert_eq!((rig.closed(admin), rig.closed(io)), (Some(CloseReason::Association), Some(CloseReason::Association)));
}

#[test]
fn kato_is_rounded_up_and_never_zero() {
    let settings = ControllerSettings { kas: 10, ..ControllerSettings::default() };
    let mut rig = Rig::new(settings, TcpSettings::default());
    let (c, _) = rig.enabled();
    assert_eq!(rig.status(c, set_feature(0x0f, 0), none()), Status::KEEP_ALIVE_TIMEOUT_INVALID);
    assert_eq!(rig.status(c, set_feature(0x0f, 1), none()), Status::SUCCESS);
    assert_eq!(rig.command(c, get_feature(0x0f, 0, 0), none()).0.dw0(), 1000);
    assert_eq!(rig.command(c, get_feature(0x0f, 1, 0), none()).0.dw0(), 120_000);
    rig.pass(Duration::from_millis(1001));
    assert_eq!(rig.closed(c), Some(CloseReason::Association));
}

#[test]
fn events_are_masked_until_their_log_is_read() {
    let mut rig = Rig::default();
    let (c, _) = rig.enabled();
    let aer = |cid| admin_sqe(Opcode::ASYNC_EVENT_REQUEST, 0, 0, 0).with(|s| s.cid(Cid(cid)));
    for cid in 600..604 {
        rig.submit(c, aer(cid), none());
        assert!(rig.pdu(c).is_none());
    }
    rig.submit(c, aer(604), none());
    assert_eq!(rig.end_of(c, Cid(604)).0.status().code(), Status::ASYNCHRONOUS_EVENT_REQUEST_LIMIT_EXCEEDED);
    // Not enabled: nothing is sent, but the change is remembered for when it is.
    rig.hub.add_namespace(SUBNQN, 7, new_namespace()).unwrap();
    rig.settle();
    assert!(rig.pdu(c).is_none());
    let cid = rig.cid(c);
    rig.submit(c, set_feature(0x0b, 1 << 8).with(|s| s.cid(cid)), none());
    assert_eq!(rig.end_of(c, Cid(600)).0.dw0(), 0x0004_0002);
    assert_eq!(rig.end_of(c, cid).0.status(), Status::SUCCESS);
    // Masked.
    rig.hub.remove_namespace(SUBNQN, 7).unwrap();
    rig.settle();
    assert!(rig.pdu(c).is_none());
    // RAE 1 keeps the mask; RAE 0 lifts it. The list starts anew with each read.
    let (_, list) = rig.command(c, log_page(4, 4096, 0, true), none());
    assert_eq!(read_namespace_list(&list).unwrap(), [Nsid(7)]);
    rig.hub.add_namespace(SUBNQN, 8, new_namespace()).unwrap();
    rig.settle();
    assert!(rig.pdu(c).is_none());
    let (_, list) = rig.command(c, log_page(4, 4096, 0, false), none());
    assert_eq!(read_namespace_list(&list).unwrap(), [Nsid(8)]);
    assert!(rig.pdu(c).is_none(), "reading cleared the event");
    rig.hub.remove_namespace(SUBNQN, 8).unwrap();
    rig.settle();
    assert_eq!(rig.end_of(c, Cid(601)).0.dw0(), 0x0004_0002);
}

#[test]
fn abort_tells_what_became_of_the_command() {
    let mut rig = Rig::default();
    let (admin, io) = rig.io();
    let abort = |sqid: u16, cid: u16| admin_sqe(Opcode::ABORT, 0, u32::from(sqid) | u32::from(cid) << 16, 0);
    for sqe in [abort(1, 77), abort(9, 1), abort(0, 77)] {
        let (cqe, _) = rig.command(admin, sqe, none());
        assert_eq!((cqe.status(), cqe.dw0()), (Status::SUCCESS, 1));
    }
    // An event request: its completion comes first.
    rig.submit(admin, admin_sqe(Opcode::ASYNC_EVENT_REQUEST, 0, 0, 0).with(|s| s.cid(Cid(700))), none());
    rig.submit(admin, abort(0, 700).with(|s| s.cid(Cid(701))), none());
    assert_eq!(rig.end_of(admin, Cid(700)).0.status(), Status::COMMAND_ABORT_REQUESTED);
    let (cqe, _) = rig.end_of(admin, Cid(701));
    assert_eq!((cqe.status(), cqe.dw0()), (Status::SUCCESS, 0));
    // A write between R2T and H2CData; the data that comes all the same is dropped.
    rig.submit(io, rw(IoOpcode::WRITE, 1, 0, 1, SglDescriptor::transport(512)).with(|s| s.cid(Cid(44))), none());
    let r2t = nvmf_wire::tcp::R2t::read(&rig.pdu(io).unwrap().header).unwrap();
    let (cqe, _) = rig.command(admin, abort(1, 44), none());
    assert_eq!(cqe.dw0(), 0);
    assert_eq!(rig.end_of(io, Cid(44)).0.status(), Status::COMMAND_ABORT_REQUESTED);
    let header = h2c_header(|h| put(h.set().cccid(Cid(44)).ttag(r2t.ttag()).datal(512).last(true)));
    let bytes = frame(&header, pattern(512), Digests::default(), 4);
    rig.send(io, &bytes);
    let (cqe, data) = rig.command(io, rw(IoOpcode::READ, 1, 0, 1, SglDescriptor::transport(512)), none());
    assert_eq!((cqe.status(), data), (Status::SUCCESS, vec![0; 512]));
}

#[test]
fn identify_controller_and_namespaces() {
    let mut rig = Rig::default();
    let (c, id) = rig.enabled();
    let (_, page) = rig.command(c, identify(1, 0), none());
    let ctrl = IdentifyController::read(&page).unwrap();
    assert_eq!((ctrl.cntlid(), ctrl.ver(), ctrl.cntrltype()), (id, 0x2_0000, ControllerType::IO));
    assert_eq!((ctrl.subnqn().as_str(), ctrl.nn(), ctrl.ioccsz(), ctrl.iorcsz(), ctrl.icdoff()), (SUBNQN, 1024, 516, 1, 0));
    assert_eq!((ctrl.aerl().0, ctrl.acl().0, ctrl.kas(), ctrl.sgls_support(), ctrl.sgls_longer()), (3, 3, 1, 1, false));
    assert!(page[3072..].iter().all(|b| *b == 0));
    let (_, list) = rig.command(c, identify(2, 0), none());
    assert_eq!(read_namespace_list(&list).unwrap(), [Nsid(1), Nsid(3)]);
    let (_, list) = rig.command(c, identify(2, 1), none());
    assert_eq!(read_namespace_list(&list).unwrap(), [Nsid(3)]);
    let (_, page) = rig.command(c, identify(0, 3), none());
    let ns = IdentifyNamespace::read(&page).unwrap();
    assert_eq!((ns.nsze(), ns.ncap(), ns.nuse(), ns.block_bytes()), (BLOCKS, BLOCKS, BLOCKS, Some(4096)));
    let (_, page) = rig.command(c, identify(3, 3), none());
    let ids = read_descriptors(&page).unwrap();
    assert_eq!(ids.iter().map(|d| d.nidt).collect::<Vec<_>>(), [Nidt::NGUID, Nidt::UUID, Nidt::CSI]);
    assert_eq!(ids[0].nid, ns.nguid());
    for cns in [5u8, 6, 7, 8, 0x1c] {
        let nsid = u32::from(matches!(cns, 5 | 8));
        let sqe = identify(cns, nsid).with(|s| s.cdw10(u32::from(cns) | 0xffff_0000));
        assert_eq!(rig.command(c, sqe, none()).1.len(), 4096, "CNS {cns:#x}");
    }
}

#[test]
fn identify_faults() {
    let mut rig = Rig::default();
    let (c, _) = rig.enabled();
    let format = Status::INVALID_NAMESPACE_OR_FORMAT;
    let csi = |cns, nsid| identify(cns, nsid).with(|s| s.cdw11(2 << 24));
    for (sqe, want) in [
        (identify(0, 0), format),
        (identify(0, 1025), format),
        (identify(0, u32::MAX), format),
        (identify(2, 0xffff_fffe), format),
        (identify(2, u32::MAX), format),
        (identify(3, 2), INVALID),
        (identify(3, 0), format),
        (identify(5, u32::MAX), format),
        (identify(8, u32::MAX), format),
        (csi(5, 1), INVALID),
        (csi(6, 0), INVALID),
        (csi(7, 0), INVALID),
        (identify(0x14, 0), INVALID),
        (identify(0x10, u32::MAX), format),
        (identify(0x11, 1025), format),
        (identify(0x12, u32::MAX), INVALID),
        (identify(0x12, 0), format),
        (identify(0x13, 1), INVALID),
        (csi(0x1a, 0), INVALID),
        (csi(0x1b, 1), INVALID),
        (identify(0xff, 0), INVALID),
        (identify(1, 1), INVALID),
        (identify(1, 0).with_sgl1(SglDescriptor::transport(4095)), Status::DATA_SGL_LENGTH_INVALID),
        (identify(1, 0).with(|s| s.psdt(0)), INVALID),
        (identify(1, 0).with(|s| s.fuse(3)), INVALID),
        (admin_sqe(Opcode::CREATE_IO_SQ, 0, 0, 0), Status::INVALID_COMMAND_OPCODE),
        (admin_sqe(Opcode::FORMAT_NVM, 1, 0, 0), Status::INVALID_COMMAND_OPCODE),
        (admin_sqe(Opcode(0xc1), 0, 0, 0), Status::INVALID_COMMAND_OPCODE),
    ] {
        assert_eq!(rig.status(c, sqe, none()), want, "{sqe}");
    }
    // Valid but inactive: zeroes.
    for cns in [0, 5, 8, 0x11, 0x12, 0x1b] {
        let (cqe, page) = rig.command(c, identify(cns, 2), none());
        assert_eq!((cqe.status(), page), (Status::SUCCESS, vec![0; 4096]));
    }
}

#[test]
fn log_pages_and_their_offsets() {
    let mut rig = Rig::default();
    let (c, _) = rig.enabled();
    let (_, whole) = rig.command(c, log_page(0, 1024, 0, true), none());
    for lid in 0..=255u8 {
        let says = SupportedLogPage::read(&whole[usize::from(lid) * 4..]).unwrap().lsupp();
        let status = rig.status(c, log_page(lid, 64, 0, true), none());
        assert_eq!(status == Status::SUCCESS, says, "LID {lid:#x} gave {status}");
        assert!(says || status == Status::INVALID_LOG_PAGE);
    }
    let (_, part) = rig.command(c, log_page(0, 512, 512, true), none());
    assert_eq!(part, whole[512..]);
    let (_, part) = rig.command(c, log_page(0, 16, 1024, true), none());
    assert_eq!(part, [0; 16]);
    assert_eq!(rig.status(c, log_page(0, 16, 1028, true), none()), INVALID);
    assert_eq!(rig.status(c, log_page(0, 16, 2, true), none()), INVALID);
    assert_eq!(rig.status(c, log_page(0, 16, 0, true).with(|s| s.cdw14(1 << 23)), none()), INVALID);
    assert_eq!(rig.status(c, log_page(2, 512, 0, true).with(|s| s.nsid(Nsid(1))), none()), INVALID);
}

#[test]
fn the_error_log_names_the_command_newest_first() {
    let mut rig = Rig::default();
    let (c, _) = rig.enabled();
    for cid in [810, 811] {
        rig.submit(c, identify(0xff, 0).with(|s| s.cid(Cid(cid))), none());
        rig.end_of(c, Cid(cid));
    }
    let (_, page) = rig.command(c, log_page(1, 128 + 64, 0, false), none());
    let e = |i: usize| ErrorEntry::read(&page[64 * i..]).unwrap();
    let last = e(0).count();
    assert_eq!((e(0).cid(), e(1).cid(), e(1).count()), (Cid(811), Cid(810), last - 1));
    assert_eq!(Status(e(0).status()).code(), INVALID);
    let (cqe, _) = rig.command(c, identify(0xff, 0), none());
    assert!(cqe.status().more(), "the log has more");
}

#[test]
fn features() {
    let mut rig = Rig::default();
    let (c, _) = rig.enabled();
    let (cqe, _) = rig.command(c, set_feature(7, 0x0003_0003), none());
    assert_eq!(cqe.dw0(), 0x003f_003f);
    assert_eq!(rig.command(c, get_feature(7, 0, 0), none()).0.dw0(), 0x003f_003f);
    let (cqe, id) = rig.command(c, get_feature(0x81, 0, 1).with_sgl1(SglDescriptor::transport(16)), none());
    assert_eq!((cqe.status(), id), (Status::SUCCESS, vec![7; 16]));
    let behave = set_feature(0x16, 0).with_sgl1(SglDescriptor::in_capsule(0, 512));
    let mut bytes = vec![0; 512];
    bytes[0] = 1;
    assert_eq!(rig.status(c, behave, bytes.clone().into()), Status::SUCCESS);
    let (_, back) = rig.command(c, get_feature(0x16, 0, 0).with_sgl1(SglDescriptor::transport(512)), none());
    assert_eq!(back, bytes);
    bytes[1] = 2;
    assert_eq!(rig.status(c, behave, bytes.into()), INVALID);
    for (sqe, want) in [
        (set_feature(7, 0xffff), INVALID),
        (set_feature(0x81, 1), Status::COMMAND_SEQUENCE_ERROR),
        (get_feature(0x81, 0, 0), INVALID),
        (get_feature(8, 0, 0), INVALID),
        (get_feature(6, 0, 0), INVALID),
        (get_feature(1, 4, 0), INVALID),
        (set_feature(0x0b, 0).with(|s| s.cdw10(0x8000_000b)), Status::FEATURE_IDENTIFIER_NOT_SAVEABLE),
        (set_feature(1, 0).with(|s| s.nsid(Nsid(1))), Status::FEATURE_NOT_NAMESPACE_SPECIFIC),
        (set_feature(1, 0).with(|s| s.nsid(Nsid(5000))), Status::INVALID_NAMESPACE_OR_FORMAT),
        (set_feature(2, 1), INVALID),
        (set_feature(0x0b, 1 << 14), INVALID),
        (set_feature(4, 2 << 20), INVALID),
        (get_feature(4, 0, 0xf << 16), INVALID),
    ] {
        assert_eq!(rig.status(c, sqe, none()), want, "{sqe}");
    }
    assert_eq!(rig.command(c, get_feature(0x0b, 3, 0), none()).0.dw0(), 0b100);
    assert_eq!(rig.command(c, get_feature(0x81, 3, 0), none()).0.dw0(), 0);
}

#[test]
fn number_of_queues_is_settled_once_a_queue_exists() {
    let mut rig = Rig::default();
    let (admin, _) = rig.io();
    assert_eq!(rig.status(admin, set_feature(7, 0), none()), Status::COMMAND_SEQUENCE_ERROR);
}

fn discovery_controller(rig: &mut Rig, kato: u32) -> Conn {
    let c = rig.open();
    rig.init(c, |_| {});
    let (sqe, data) = discovery(kato);
    assert_eq!(rig.status(c, sqe, data), Status::SUCCESS);
    assert_eq!(rig.status(c, property_set(Property::CC, 0x46_0001), none()), Status::SUCCESS);
    c
}

#[test]
fn the_discovery_log() {
    let mut rig = Rig::default();
    let c = discovery_controller(&mut rig, 0);
    let cap = rig.property(c, Property::CAP);
    assert_eq!((cap >> 37 & 0xff, cap >> 48), (1, 1 << 11), "CSS bit 0 alone; CRWMS alone");
    let (_, page) = rig.command(c, identify(1, 0), none());
    let ctrl = IdentifyController::read(&page).unwrap();
    assert_eq!((ctrl.cntrltype(), ctrl.oaes_dlpc(), ctrl.ioccsz(), ctrl.nn()), (ControllerType::DISCOVERY, true, 0, 0));
    let (_, log) = rig.command(c, log_page(0x70, 2048, 0, true), none());
    let header = DiscoveryHeader::read(&log).unwrap();
    assert_eq!((header.numrec(), header.recfmt()), (1, 0));
    let e = DiscoveryEntry::of_page(&log, 0).unwrap();
    assert_eq!((e.trtype().0, e.adrfam().0, e.subtype().0, e.treq_secure(), e.treq_sqfcd()), (3, 1, 2, 2, true));
    assert_eq!((e.portid(), e.cntlid(), e.asqsz()), (1, Cntlid::DYNAMIC, 128));
    assert_eq!((e.trsvcid().as_str(), e.traddr().as_str(), e.subnqn().as_str()), ("4420", "192.0.2.1", SUBNQN));
    assert_eq!(e.traddr().0[9..], [b' '; 247], "padded with spaces");
    let generation = header.genctr();
    rig.hub.add_subsystem("nqn.2014-08.org.example:second", None).unwrap();
    let (_, log) = rig.command(c, log_page(0x70, 1024, 0, true), none());
    let header = DiscoveryHeader::read(&log).unwrap();
    assert_eq!((header.genctr(), header.numrec()), (generation + 1, 2));
}

#[test]
fn what_a_discovery_controller_does_not_have() {
    let mut rig = Rig::default();
    let c = discovery_controller(&mut rig, 0);
    for opcode in [Opcode::KEEP_ALIVE, Opcode::ASYNC_EVENT_REQUEST, Opcode::SET_FEATURES, Opcode::GET_FEATURES, Opcode::FORMAT_NVM]
    {
        assert_eq!(rig.status(c, admin_sqe(opcode, 0, 0x0f, 1000), none()), Status::INVALID_COMMAND_OPCODE, "{opcode}");
    }
    assert_eq!(rig.status(c, identify(0, 1), none()), INVALID);
    assert_eq!(rig.status(c, log_page(2, 512, 0, false), none()), Status::INVALID_LOG_PAGE);
    let (sqe, data) = discovery(0);
    let io = rig.open();
    rig.init(io, |_| {});
    let mut b = *sqe.as_bytes();
    b[42] = 1;
    let (cqe, _) = rig.command(io, Sqe::from_bytes(b), data);
    assert_eq!((cqe.status().code(), cqe.dw0()), (Status::CONNECT_INVALID_PARAMETERS, 42));
}

#[test]
fn a_persistent_discovery_connection_hears_of_changes() {
    let mut rig = Rig::default();
    let c = discovery_controller(&mut rig, 60_000);
    rig.submit(c, admin_sqe(Opcode::ASYNC_EVENT_REQUEST, 0, 0, 0).with(|s| s.cid(Cid(900))), none());
    rig.hub.add_subsystem("nqn.2014-08.org.example:second", None).unwrap();
    rig.settle();
    assert_eq!(rig.end_of(c, Cid(900)).0.dw0(), 0x0070_f002);
    assert_eq!(rig.status(c, admin_sqe(Opcode::KEEP_ALIVE, 0, 0, 0), none()), Status::SUCCESS);
    assert_eq!(rig.command(c, get_feature(0x0b, 0, 0), none()).0.dw0(), 1 << 31);
}

#[test]
fn log_70h_is_not_for_io_controllers_nor_data_for_properties() {
    let mut rig = Rig::default();
    let (c, _) = rig.enabled();
    assert_eq!(rig.status(c, log_page(0x70, 1024, 0, true), none()), Status::INVALID_LOG_PAGE);
    let mut disconnect = *property_get(Property::CAP).as_bytes();
    disconnect[4] = 8;
    assert_eq!(rig.status(c, Sqe::from_bytes(disconnect), none()), Status::INVALID_QUEUE_TYPE);
    for fctype in [2, 3, 5, 6, 7, 0x7f, 0xff] {
        disconnect[4] = fctype;
        assert_eq!(rig.status(c, Sqe::from_bytes(disconnect), none()), INVALID, "FCTYPE {fctype:#x}");
    }
}
