//! NVMe/RDMA, the controller's end, over two software NICs back to back.

use std::time::Duration;

use crate::common::{connect, identify, log_page, pattern, property_set, rw};
use crate::rdma_rig::*;
use bytes::Bytes;
use nvmf_engine::controller::{Port, PortTransport};
use nvmf_engine::message::{ConnectionId, ToConnection, ToHub};
use nvmf_engine::queue::CloseReason;
use nvmf_engine::rdma::TargetEvent;
use nvmf_engine::{ControllerSettings, RdmaCapsules, RdmaSettings};
use nvmf_roce::NicSettings;
use nvmf_seam::rdma::{Rkey, WorkError};
use nvmf_wire::connect::{Connect, ConnectData, Disconnect};
use nvmf_wire::layout::Structure;
use nvmf_wire::log::{DiscoveryEntry, DiscoveryHeader, RdmaProvider, TransportType};
use nvmf_wire::property::Property;
use nvmf_wire::sgl::SglSubtype;
use nvmf_wire::sqe::{FabricsType, IoOpcode};
use nvmf_wire::{Cid, Cntlid, IdentifyController, Opcode, SglDescriptor, Sqe, Status};

fn rig() -> Rig {
    with(ControllerSettings::default(), RdmaSettings::default())
}

fn with(controllers: ControllerSettings, rdma: RdmaSettings) -> Rig {
    Rig::new(controllers, rdma, |_| {})
}

fn write(slba: u64, len: usize, sgl: SglDescriptor) -> Sqe {
    rw(IoOpcode::WRITE, 1, slba, (len / 512) as u16, sgl)
}

fn in_capsule(len: u32) -> SglDescriptor {
    SglDescriptor::in_capsule(0, len)
}

#[test]
fn a_controller_says_how_it_is_reached() {
    let mut rig = rig();
    let (admin, _) = rig.enabled();
    let region = rig.writable(admin, 4096);
    let (cqe, gone) = rig.command(admin, identify(1, 0).with_sgl1(region.invalidated()), Bytes::new());
    assert_eq!((cqe.status(), gone), (Status::SUCCESS, Some(region.at.key)));
    let page = IdentifyController::read(&rig.take(region)).unwrap();
    assert_eq!((page.sgls_support(), page.sgls_keyed(), page.sgls_offset(), page.sgls_transport()), (1, true, true, false));
    assert_eq!((page.ioccsz(), page.icdoff(), page.msdbd(), page.iorcsz()), (4 + 512, 0, 16, 1));
}

#[test]
fn the_discovery_log_says_rdma() {
    let mut rig = rig();
    let qp = rig.open(&Req::default());
    let (sqe, data) = crate::common::discovery(0);
    let region = rig.readable(qp, data);
    assert_eq!(rig.status(qp, sqe.with_sgl1(region.sgl()), Bytes::new()), Status::SUCCESS);
    rig.status(qp, property_set(Property::CC, 1), Bytes::new());
    let region = rig.writable(qp, 2048);
    assert_eq!(rig.status(qp, log_page(0x70, 2048, 0, false).with_sgl1(region.sgl()), Bytes::new()), Status::SUCCESS);
    let page = rig.take(region);
    assert_eq!(DiscoveryHeader::read(&page).unwrap().numrec(), 1);
    let entry = DiscoveryEntry::of_page(&page, 0).unwrap();
    let tsas = entry.tsas_rdma();
    assert_eq!((entry.trtype(), tsas.qptype(), tsas.prtype(), tsas.cms()), (TransportType::RDMA, 1, RdmaProvider::ROCE_V2, 1));
}

#[test]
fn data_comes_in_the_capsule_and_goes_by_write() {
    let mut rig = rig();
    let (_, io) = rig.io();
    let reads = rig.target.device.count["read"];
    let data = pattern(4096);
    assert_eq!(rig.status(io, write(8, 4096, in_capsule(4096)), data.clone()), Status::SUCCESS);
    assert_eq!(rig.read_back(io, 8, 4096), data);
    assert_eq!(rig.target.device.count["read"], reads, "no READ for data of a capsule");
    assert_eq!(rig.target.device.count["write"], 1);
    // RD-01, RD-05: a length that is not the transfer's, whichever is shorter.
    let short = rw(IoOpcode::WRITE, 1, 0, 10, in_capsule(4096));
    assert_eq!(rig.status(io, short, data), Status::DATA_SGL_LENGTH_INVALID);
}

#[test]
fn data_is_read_within_the_agreed_depth() {
    for (depth, len, max_read) in
        [(16u8, 64 * 1024, 128 * 1024), (1, 1 << 20, 128 * 1024), (16, 1 << 20, 64 * 1024), (3, 1 << 20, 4096)]
    {
        let mut rig = with(ControllerSettings::default(), RdmaSettings { max_read, ..RdmaSettings::default() });
        let (admin, id) = rig.enabled();
        let io = rig.io_with(id, &Req { responder_resources: depth, ..Req::io(1, id) });
        let agreed = rig.queues[&io].accepted.clone().unwrap();
        // RD-04: the controller reads, the host does not.
        assert_eq!((agreed.initiator_depth, agreed.responder_resources), (depth, 0));
        let before = rig.target.device.count["read"];
        rig.target.device.most.clear();
        let data = pattern(len);
        let region = rig.readable(io, data.clone());
        assert_eq!(rig.status(io, write(0, len, region.sgl()), Bytes::new()), Status::SUCCESS);
        let reads = rig.target.device.count["read"] - before;
        assert_eq!(reads, len.div_ceil(max_read as usize));
        assert_eq!(rig.target.device.most["read"], usize::from(depth).min(reads));
        assert_eq!(rig.read_back(io, 0, len), data);
        assert!(rig.queues[&io].errors.is_empty() && rig.queues[&admin].errors.is_empty());
    }
}

#[test]
fn several_descriptors_are_read_and_written_in_order() {
    // RD-06: more descriptors than READs at a time, of lengths that cut blocks.
    for depth in [1, 4, 16] {
        let mut rig = rig();
        let (_, id) = rig.enabled();
        let io = rig.io_with(id, &Req { responder_resources: depth, ..Req::io(1, id) });
        let data = pattern(16 * 4096);
        let region = rig.readable(io, data.clone());
        let cuts = [0, 4096, 4097, 5000, 5000, 20000, 20480, 30000, 30001, 40000, 50000, 50176, 60000, 61440, 65000, 65024, 65536];
        let descriptors: Vec<_> = cuts.windows(2).map(|w| region.keyed(w[0], w[1] - w[0], SglSubtype::ADDRESS)).collect();
        assert_eq!(descriptors.len(), 16);
        assert_eq!(rig.status(io, write(0, data.len(), segment(16)), list(&descriptors)), Status::SUCCESS);
        assert!(rig.target.device.most["read"] <= usize::from(depth));
        assert_eq!(rig.read_back(io, 0, data.len()), data);

        let back = rig.writable(io, data.len());
        let last = |sub| back.keyed(4096, 61440, sub);
        let two = [back.keyed(0, 4096, SglSubtype::ADDRESS), last(SglSubtype::INVALIDATE_KEY)];
        let read = rw(IoOpcode::READ, 1, 0, 128, segment(2));
        assert_eq!(rig.command(io, read, list(&two)).1, Some(back.at.key));
        assert_eq!(rig.take(back), data);
        // RD-05: one more than MSDBD.
        let many = vec![region.keyed(0, 512, SglSubtype::ADDRESS); 17];
        assert_eq!(rig.status(io, write(0, 17 * 512, segment(17)), list(&many)), Status::INVALID_NUMBER_OF_SGL_DESCRIPTORS);
    }
}

#[test]
fn descriptors_and_data_have_their_places_in_the_capsule() {
    let rdma = RdmaSettings { capsules: RdmaCapsules { msdbd: 16, icdoff: 2 }, ..RdmaSettings::default() };
    let mut rig = with(ControllerSettings { ioccsz: 4 + 2 + 256, ..ControllerSettings::default() }, rdma);
    let (_, id) = rig.enabled();
    let io = rig.open(&Req::io(1, id));
    let (sqe, data) = connect(1, 31, 0, id);
    let behind = |data: &[u8]| Bytes::from([&[0xee; 32], data].concat());
    // Offsets count from the end of the SQE. [SGL-26]
    let at = |offset, data: &[u8]| SglDescriptor::in_capsule(offset, data.len() as u32);
    assert_eq!(rig.status(io, sqe.with_sgl1(at(32, &data)), behind(&data)), Status::SUCCESS);
    let data = pattern(4096);
    assert_eq!(rig.status(io, write(0, 4096, at(16, &data)), behind(&data)), Status::SGL_OFFSET_INVALID);
    assert_eq!(rig.status(io, write(0, 4096, at(32, &data)), behind(&data)), Status::SUCCESS);
    let region = rig.readable(io, pattern(1024));
    let halves = [region.keyed(0, 512, SglSubtype::ADDRESS), region.keyed(512, 512, SglSubtype::ADDRESS)];
    assert_eq!(rig.status(io, write(8, 1024, segment(2)), list(&halves)), Status::SUCCESS);
    let three = [halves[0], halves[0], halves[1]];
    assert_eq!(rig.status(io, write(8, 1536, segment(3)), list(&three)), Status::INVALID_NUMBER_OF_SGL_DESCRIPTORS);
    assert_eq!(rig.read_back(io, 0, 5120), Bytes::from([data, pattern(1024)].concat()));
}

#[test]
fn a_key_is_invalidated_where_the_host_wishes_so_and_not_otherwise() {
    // RD-07.
    for able in [true, false] {
        let mut rig = with(ControllerSettings::default(), RdmaSettings { remote_invalidate: able, ..RdmaSettings::default() });
        let (_, io) = rig.io();
        let data = pattern(8192);
        let key = |r: Region| able.then_some(r.at.key);
        let region = rig.readable(io, data.clone());
        let (cqe, gone) = rig.command(io, write(0, 8192, region.invalidated()), Bytes::new());
        assert_eq!((cqe.status(), gone), (Status::SUCCESS, key(region)));
        let region = rig.readable(io, data.clone());
        assert_eq!(rig.command(io, write(0, 8192, region.sgl()), Bytes::new()).1, None);
        // Asked for on the first of two alone: not the last, so not at all.
        let two = [region.keyed(0, 512, SglSubtype::INVALIDATE_KEY), region.keyed(512, 512, SglSubtype::ADDRESS)];
        assert_eq!(rig.command(io, write(0, 1024, segment(2)), list(&two)).1, None);
        // A command without data has no key, whatever its SGL1 says.
        let flush = rw(IoOpcode::FLUSH, 1, 0, 1, region.invalidated());
        assert_eq!(rig.command(io, flush, Bytes::new()).1, None);
        assert_eq!(rig.command(io, write(0, 4096, in_capsule(4096)), pattern(4096)).1, None);
        // Nor has one that was refused before its data was looked at.
        let refused = rw(IoOpcode::WRITE, 9, 0, 16, region.invalidated());
        assert_eq!(rig.command(io, refused, Bytes::new()).1, None);
        assert!(rig.queues[&io].errors.is_empty());
    }
}

#[test]
fn a_request_that_is_wrong_is_rejected_with_its_status() {
    // RD-03, as the hub and CM see it; the rest is in `request`.
    let mut rig = rig();
    let (admin, id) = rig.enabled();
    let good = Req::default();
    let cases: [(Req, u16); 7] = [
        (Req { hsqsize: 0, ..good.clone() }, 4),
        (Req { hsqsize: 128, ..good.clone() }, 4),
        (Req { qid: 65, ..good.clone() }, 3),
        (Req { cntlid: 1, ..good.clone() }, 9),
        (Req::io(1, Cntlid(id.0 + 1)), 9),
        (Req { responder_resources: 0, ..good.clone() }, 7),
        (Req { hrqsize: 0, ..good.clone() }, 5),
    ];
    for (req, sts) in cases {
        assert_eq!(rig.refused(&req, req.private().as_bytes()), (28, sts));
    }
    assert_eq!(rig.refused(&good, &[]), (28, 1));
    let mut long = good.private().as_bytes().to_vec();
    long.push(1);
    assert_eq!(rig.refused(&good, &long), (28, 1));
    assert_eq!((rig.target.connections(), rig.queues[&admin].over), (1, false));

    let settings = RdmaSettings { connections: 1, ..RdmaSettings::default() };
    let mut rig = with(ControllerSettings::default(), settings);
    rig.admin();
    assert_eq!(rig.refused(&good, good.private().as_bytes()), (28, 6));
}

#[test]
fn connect_repeats_what_the_request_said() {
    let mut rig = rig();
    let (_, id) = rig.enabled();
    for (qid, sqsize, field) in [(2, 31, "qid"), (1, 30, "sqsize"), (0, 31, "qid")] {
        let io = rig.open(&Req::io(1, id));
        let (sqe, data) = connect(qid, sqsize, 0, id);
        let (cqe, _) = rig.command(io, sqe, data);
        assert_eq!(cqe.status().code(), Status::CONNECT_INVALID_PARAMETERS);
        assert_eq!(cqe.dw0(), Connect::LAYOUT.offset(field) as u32);
    }
}

#[test]
fn no_data_comes_in_a_capsule_of_the_admin_queue() {
    let mut rig = rig();
    let (admin, _) = rig.enabled();
    let features = Sqe::new().with(|s| s.opc(Opcode::SET_FEATURES).psdt(1).cdw10(0x0e)).with_sgl1(in_capsule(8));
    assert_eq!(rig.status(admin, features, Bytes::new()), Status::SGL_DESCRIPTOR_TYPE_INVALID);
    // A longer capsule does not fit into the receive.
    let cid = Cid(99);
    rig.send(admin, features.with(|s| s.cid(cid)).as_bytes(), Bytes::from_static(&[0; 16]));
    rig.closed(admin);
    assert_eq!((rig.hub.associations(), rig.target.connections()), (0, 0));
}

#[test]
fn memory_out_of_reach_ends_the_queue() {
    let mut rig = rig();
    let (admin, io) = rig.io();
    let region = rig.readable(io, pattern(4096));
    let wrong = Region { at: nvmf_seam::rdma::Remote { key: Rkey(region.at.key.0 ^ 1), ..region.at }, ..region };
    rig.submit(io, write(0, 4096, wrong.sgl()), Bytes::new());
    assert_eq!(rig.closed(io), CloseReason::Broken);
    assert!(rig.events.iter().any(|e| matches!(e, TargetEvent::Failed { error: WorkError::RemoteAccess, .. })));
    // The association goes with its queue. [FAB-ASSOC-03]
    assert!(rig.until(|r| r.queues[&admin].over && r.target.connections() == 0));
    assert_eq!((rig.target.held(), rig.hub.associations()), (0, 0));
}

#[test]
fn responses_wait_for_receives_of_the_host() {
    // RD-09: two receives, and 31 commands at a time.
    let mut rig = rig();
    let (_, id) = rig.enabled();
    let io = rig.io_with(id, &Req { hrqsize: 2, ..Req::io(1, id) });
    rig.target.device.most.clear();
    let data = pattern(16384);
    let region = rig.readable(io, data.clone());
    for round in 0..4u64 {
        let cids: Vec<Cid> =
            (0..31).map(|i| rig.submit(io, write(32 * (i + 31 * round), 16384, region.sgl()), Bytes::new())).collect();
        for cid in cids {
            assert_eq!(rig.end_of(io, cid).0.status(), Status::SUCCESS);
        }
    }
    assert_eq!(rig.target.device.most["send"], 2);
    assert_eq!(rig.read_back(io, 32 * 123, 16384), data);
    assert!(rig.queues[&io].errors.is_empty());
}

#[test]
fn an_aborted_command_is_answered_when_nothing_reads_its_memory_any_more() {
    let mut rig = rig();
    rig.pair.latency = Duration::from_millis(1);
    let (admin, id) = rig.enabled();
    let io = rig.io_with(id, &Req { responder_resources: 2, ..Req::io(1, id) });
    let len = 1 << 20;
    let (one, two) = (rig.readable(io, pattern(len)), rig.readable(io, pattern(len)));
    let first = rig.submit(io, write(0, len, one.invalidated()), Bytes::new());
    let second = rig.submit(io, write(2048, len, two.sgl()), Bytes::new());
    assert!(rig.until(|r| r.target.device.out("read") == 2));
    let abort = Sqe::new().with(|s| s.opc(Opcode::ABORT).psdt(1).cdw10(u32::from(first.0) << 16 | 1));
    let (cqe, _) = rig.command(admin, abort, Bytes::new());
    assert_eq!((cqe.status(), cqe.dw0() & 1), (Status::SUCCESS, 0), "aborted");
    let (cqe, gone) = rig.end_of(io, first);
    assert_eq!((cqe.status().code(), gone), (Status::COMMAND_ABORT_REQUESTED, Some(one.at.key)));
    rig.take(one);
    assert_eq!(rig.end_of(io, second).0.status(), Status::SUCCESS);
    assert!(rig.queues[&io].errors.is_empty());
    assert_eq!(rig.read_back(io, 2048, len), pattern(len));
    assert_eq!(rig.read_back(io, 0, 4096), Bytes::from(vec![0; 4096]), "nothing of the first was written");
}

#[test]
fn a_reset_ends_the_io_queues_and_leaves_the_admin_queue() {
    let mut rig = rig();
    rig.pair.latency = Duration::from_millis(1);
    let (admin, io) = rig.io();
    let region = rig.readable(io, pattern(1 << 20));
    rig.submit(io, write(0, 1 << 20, region.sgl()), Bytes::new());
    assert!(rig.until(|r| r.target.device.out("read") > 0));
    assert_eq!(rig.status(admin, property_set(Property::CC, 0), Bytes::new()), Status::SUCCESS);
    assert_eq!(rig.closed(io), CloseReason::Association);
    assert!(rig.queues[&io].responses.is_empty());
    let enable = property_set(Property::CC, u64::from(crate::common::enable()));
    assert_eq!(rig.status(admin, enable, Bytes::new()), Status::SUCCESS);
    assert_eq!(rig.target.connections(), 1);
}

#[test]
fn disconnect_is_answered_and_then_the_connection_ends() {
    let settings = ControllerSettings { queue_deletion: true, ..ControllerSettings::default() };
    let mut rig = with(settings, RdmaSettings::default());
    let (admin, io) = rig.io();
    let mut b = *Disconnect::new().as_bytes();
    (b[0], b[1], b[4]) = (Opcode::FABRICS.0, 0x40, FabricsType::DISCONNECT.0);
    assert_eq!(rig.status(io, Sqe::from_bytes(b), Bytes::new()), Status::SUCCESS);
    assert!(!rig.queues[&io].over, "the host has its time");
    assert_eq!(rig.closed(io), CloseReason::Association);
    assert!(!rig.queues[&admin].over || rig.hub.associations() == 0);
}

#[test]
fn the_host_goes() {
    let mut rig = rig();
    let (admin, io) = rig.io();
    // RD-06: the queue pair dies while data is on its way.
    rig.pair.latency = Duration::from_millis(1);
    let region = rig.readable(io, pattern(1 << 20));
    rig.submit(io, write(0, 1 << 20, region.sgl()), Bytes::new());
    assert!(rig.until(|r| r.target.device.out("read") > 2));
    let now = rig.pair.now;
    nvmf_seam::rdma::Device::disconnect(&mut rig.pair.nics[0], now, io);
    assert_eq!(rig.closed(io), CloseReason::Disconnected);
    assert!(rig.until(|r| r.queues[&admin].over && r.target.connections() == 0));
    assert_eq!((rig.target.held(), rig.hub.associations()), (0, 0));
}

#[test]
fn capsules_that_are_none_end_the_connection() {
    for len in [0, 1, 63] {
        let mut rig = rig();
        let (_, io) = rig.io();
        rig.send(io, &vec![0; len], Bytes::new());
        assert_eq!(rig.closed(io), CloseReason::Malformed, "{len} bytes");
    }
    let mut rig = rig();
    let (_, io) = rig.io();
    // The receive has IOCCSZ x 16 bytes and no more.
    let sqe = write(0, 8704, in_capsule(8704)).with(|s| s.cid(Cid(7)));
    rig.send(io, sqe.as_bytes(), pattern(8704));
    assert!(matches!(rig.closed(io), CloseReason::Broken | CloseReason::Disconnected | CloseReason::Association));
}

#[test]
fn an_overrun_ends_the_association() {
    let mut rig = rig();
    let (admin, io) = rig.io();
    rig.hold_stores = true;
    let flush = rw(IoOpcode::FLUSH, 1, 0, 1, in_capsule(0));
    for _ in 0..31 {
        rig.submit(io, flush, Bytes::new());
    }
    rig.settle();
    assert!(!rig.queues[&io].over);
    rig.submit(io, flush, Bytes::new());
    assert_eq!(rig.closed(io), CloseReason::Overrun);
    assert!(rig.until(|r| r.queues[&admin].over));
    assert_eq!(rig.hub.associations(), 0);
}

#[test]
fn a_host_without_connect_is_not_waited_for_long() {
    let mut rig = rig();
    let qp = rig.open(&Req::default());
    rig.pass(Duration::from_secs(29));
    assert!(!rig.queues[&qp].over);
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.closed(qp), CloseReason::Setup);
    assert_eq!(rig.target.connections(), 0);
}

#[test]
fn what_comes_when_patience_is_over_begins_nothing() {
    // The READ of the Connect data is out when the connection is given up.
    let patience = Duration::from_micros(3500);
    let mut rig = with(ControllerSettings::default(), RdmaSettings { connect_patience: patience, ..RdmaSettings::default() });
    rig.pair.latency = Duration::from_millis(1);
    let qp = rig.open(&Req::default());
    let (sqe, data) = connect(0, 31, 120_000, Cntlid::DYNAMIC);
    let region = rig.readable(qp, data);
    rig.submit(qp, sqe.with_sgl1(region.sgl()), Bytes::new());
    assert_eq!(rig.closed(qp), CloseReason::Setup);
    assert_eq!(rig.target.device.count["read"], 1);
    assert_eq!((rig.target.connections(), rig.hub.associations(), rig.hub_events.len()), (0, 0, 0));
}

#[test]
fn a_request_that_the_device_has_no_receives_for_is_rejected() {
    let mut rig = rig();
    rig.target.device.full = true;
    let good = Req::default();
    assert_eq!(rig.refused(&good, good.private().as_bytes()), (28, 6));
    assert_eq!(rig.target.connections(), 0);
    rig.target.device.full = false;
    rig.enabled();
}

#[test]
fn a_lossy_wire_loses_no_data() {
    let mut rig = Rig::new(ControllerSettings::default(), RdmaSettings::default(), |n: &mut NicSettings| n.ack_timeout = 12);
    let (_, io) = rig.io();
    rig.pair.faults = nvmf_roce::testing::Faults { loss: 20, duplication: 20, reordering: 20, corruption: 10 };
    let data = pattern(256 * 1024);
    for i in 0..8 {
        let region = rig.readable(io, data.clone());
        assert_eq!(rig.status(io, write(i * 512, data.len(), region.invalidated()), Bytes::new()), Status::SUCCESS);
        assert_eq!(rig.read_back(io, i * 512, data.len()), data);
    }
}

#[test]
fn a_device_that_can_do_little_is_enough() {
    // RD-06, RD-09: fewer receives than the queue has slots, and room for two work requests.
    let small = |n: &mut NicSettings| {
        if n.address == nvmf_roce::testing::Pair::ADDRESSES[1] {
            (n.max_work, n.max_reads, n.max_transfer) = (2, 1, 4096);
        }
    };
    let mut rig = Rig::new(ControllerSettings::default(), RdmaSettings::default(), small);
    let (_, io) = rig.io();
    let agreed = rig.queues[&io].accepted.clone().unwrap();
    assert_eq!((agreed.initiator_depth, &agreed.private[2..4]), (1, &[2, 0][..]));
    let data = pattern(65536);
    let region = rig.readable(io, data.clone());
    let cids: Vec<Cid> = (0..31).map(|i| rig.submit(io, write(128 * i, data.len(), region.sgl()), Bytes::new())).collect();
    for cid in cids {
        assert_eq!(rig.end_of(io, cid).0.status(), Status::SUCCESS);
    }
    let regions: Vec<Region> = (0..8).map(|_| rig.writable(io, data.len())).collect();
    let read = |i: usize, r: &Region| rw(IoOpcode::READ, 1, 128 * i as u64, 128, r.sgl());
    let cids: Vec<Cid> = regions.iter().enumerate().map(|(i, r)| rig.submit(io, read(i, r), Bytes::new())).collect();
    for (cid, region) in cids.into_iter().zip(regions) {
        assert_eq!(rig.end_of(io, cid).0.status(), Status::SUCCESS);
        assert_eq!(rig.take(region), data);
    }
    let most = &rig.target.device.most;
    assert!(most["read"] == 1 && most["send"] <= 2, "{most:?}");
}

#[test]
fn a_hub_serves_connections_of_both_transports() {
    let mut rig = rig();
    let advertise = "10.0.0.2:4420".parse().unwrap();
    rig.hub.add_port(Port { id: 2, advertise, discovery_only: false, transport: PortTransport::Tcp }).unwrap();
    let (admin, id) = rig.enabled();
    // What the hub says to a connection of the other transport, the driver gets.
    let other = ConnectionId(7);
    rig.hub.open(other, 2, None);
    let sqe = |cntlid| connect(0, 31, 120_000, cntlid);
    let to_hub = |(sqe, data): (Sqe, Bytes)| ToHub::Connect {
        sqe: Connect::from_bytes(*sqe.as_bytes()),
        data: Box::new(ConnectData::read(&data).unwrap()),
    };
    let now = rig.pair.now;
    rig.hub.handle_message(now, other, to_hub(sqe(Cntlid::DYNAMIC)));
    rig.target.turn(now, &mut rig.hub, &mut rig.next);
    let Some((to, ToConnection::Admitted(a))) = rig.target.poll_other() else { panic!("no answer") };
    assert_eq!((to, rig.target.owns(to), a.in_capsule), (other, false, 8192));
    // An I/O queue over TCP for the controller that was made over RDMA: another port. [FAB-CONNECT-33]
    let io = ConnectionId(8);
    rig.hub.open(io, 2, None);
    rig.hub.handle_message(now, io, to_hub(connect(1, 31, 0, id)));
    rig.target.turn(now, &mut rig.hub, &mut rig.next);
    let Some((_, ToConnection::Complete { status, .. })) = rig.target.poll_other() else { panic!("no answer") };
    assert_eq!(status.code(), Status::CONNECT_INVALID_PARAMETERS);

    let qp = rig.open(&Req::default());
    let (sqe, data) = crate::common::discovery(0);
    let region = rig.readable(qp, data);
    assert_eq!(rig.status(qp, sqe.with_sgl1(region.sgl()), Bytes::new()), Status::SUCCESS);
    rig.status(qp, property_set(Property::CC, 1), Bytes::new());
    let region = rig.writable(qp, 3072);
    assert_eq!(rig.status(qp, log_page(0x70, 3072, 0, false).with_sgl1(region.sgl()), Bytes::new()), Status::SUCCESS);
    let page = rig.take(region);
    let kinds = [0, 1].map(|i| DiscoveryEntry::of_page(&page, i).unwrap().trtype());
    assert_eq!(kinds, [TransportType::RDMA, TransportType::TCP]);
    assert!(!rig.queues[&admin].over);
}

#[test]
fn a_host_that_takes_no_responses_is_not_listened_to_for_ever() {
    // Without SQ flow control nothing but receives bounds commands whose identifier is in use.
    let mut rig = rig();
    rig.pair.latency = Duration::from_micros(10);
    let (_, id) = rig.enabled();
    let io = rig.open(&Req { hrqsize: 1, ..Req::io(1, id) });
    let (sqe, data) = crate::common::connect_with(|c| *c = c.with(|s| s.sqfcd(true)), |_| {}, 1, 31, 0, id);
    assert_eq!(rig.status(io, sqe, data), Status::SUCCESS);
    rig.hold_stores = true;
    let flush = rw(IoOpcode::FLUSH, 1, 0, 1, in_capsule(0)).with(|s| s.cid(Cid(7)));
    for _ in 0..300 {
        rig.send(io, flush.as_bytes(), Bytes::new());
    }
    rig.pass(Duration::from_secs(1));
    assert!(!rig.queues[&io].over && rig.target.held() < 100, "{} held", rig.target.held());
    rig.hold_stores = false;
    (0..300).for_each(|_| rig.receive(io));
    assert!(rig.until(|r| r.queues[&io].responses.len() == 300));
    let conflicts = rig.queues[&io].responses.iter().filter(|(c, _)| c.status().code() == Status::COMMAND_ID_CONFLICT).count();
    assert!((1..300).contains(&conflicts), "{conflicts}");
}
