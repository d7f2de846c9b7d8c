//! Read and Write over TCP: in capsule, by R2T, in several PDUs, aligned and with digests; and what each wrong H2CData gets.

use crate::common::*;
use bytes::Bytes;
use nvmf_engine::{ControllerSettings, TcpSettings};
use nvmf_wire::sqe::IoOpcode;
use nvmf_wire::tcp::{Digests, H2cData, PduType, R2t};
use nvmf_wire::{Cid, SglDescriptor, Sqe, Status};

const SMALL: u32 = 4096;

/// A rig whose R2Ts and C2HData are small, so that there are several a command.
fn small() -> Rig {
    let tcp = TcpSettings { max_r2tl: SMALL, max_c2hdata: SMALL, maxh2cdata: SMALL, ..TcpSettings::default() };
    Rig::new(ControllerSettings::default(), tcp)
}

fn read(rig: &mut Rig, io: Conn, slba: u64, blocks: u16) -> Vec<u8> {
    let sqe = rw(IoOpcode::READ, 1, slba, blocks, SglDescriptor::transport(u32::from(blocks) * 512));
    let (cqe, data) = rig.command(io, sqe, Bytes::new());
    assert_eq!(cqe.status(), Status::SUCCESS);
    data
}

#[test]
fn written_in_the_capsule_is_read_back() {
    let mut rig = Rig::default();
    let (_, io) = rig.io();
    let data = pattern(4096);
    let sqe = rw(IoOpcode::WRITE, 1, 8, 8, SglDescriptor::in_capsule(0, 4096));
    assert_eq!(rig.status(io, sqe, data.clone()), Status::SUCCESS);
    assert_eq!(read(&mut rig, io, 8, 8), data);
    let flush = rw(IoOpcode::FLUSH, 1, 0, 1, SglDescriptor::new());
    assert_eq!(rig.status(io, flush, Bytes::new()), Status::SUCCESS);
}

/// Answers R2Ts with H2CData of at most `step` bytes until the command ends.
fn serve(rig: &mut Rig, io: Conn, cid: Cid, data: &Bytes, step: usize, digests: Digests, align: usize) -> Vec<(u32, u32)> {
    let mut asked = Vec::new();
    while let Some(pdu) = rig.pdu(io) {
        if pdu.ptype() != PduType::R2T {
            assert_eq!(pdu.ptype(), PduType::CAPSULE_RESP);
            assert_eq!(nvmf_wire::Cqe::read(&pdu.header[8..]).unwrap().status(), Status::SUCCESS);
            return asked;
        }
        let r2t = R2t::read(&pdu.header).unwrap();
        assert_eq!(r2t.cccid(), cid);
        asked.push((r2t.r2to(), r2t.r2tl()));
        let (mut at, end) = (r2t.r2to() as usize, (r2t.r2to() + r2t.r2tl()) as usize);
        while at < end {
            let n = step.min(end - at);
            let header = h2c_header(|h| {
                h.set().cccid(cid).ttag(r2t.ttag()).datao(at as u32).datal(n as u32).last(at + n == end);
            });
            let bytes = frame(&header, data.slice(at..at + n), digests, align);
            rig.send(io, &bytes);
            at += n;
        }
    }
    panic!("the command did not end");
}

fn write_by_r2t(rig: &mut Rig, io: Conn, data: &Bytes, step: usize, digests: Digests, align: usize) -> Vec<(u32, u32)> {
    let cid = rig.cid(io);
    let sqe =
        rw(IoOpcode::WRITE, 1, 0, (data.len() / 512) as u16, SglDescriptor::transport(data.len() as u32)).with(|s| s.cid(cid));
    rig.submit(io, sqe, Bytes::new());
    serve(rig, io, cid, data, step, digests, align)
}

#[test]
fn r2ts_are_contiguous_and_any_pdu_size_lands_in_its_place() {
    for step in [4, 516, 4096] {
        let mut rig = small();
        let (_, io) = rig.io();
        let data = pattern(3 * 4096 + 512);
        let asked = write_by_r2t(&mut rig, io, &data, step, Digests::default(), 4);
        assert_eq!(asked, [(0, 4096), (4096, 4096), (8192, 4096), (12288, 512)]);
        assert_eq!(read(&mut rig, io, 0, 25), data);
    }
}

#[test]
fn maxr2t_is_zero_based() {
    for maxr2t in [0, 1, 2] {
        let mut rig = small();
        let (_, id) = rig.enabled();
        let io = rig.open();
        rig.init(io, crate::common::maxr2t(maxr2t));
        let (sqe, data) = connect(1, 31, 0, id);
        assert_eq!(rig.status(io, sqe, data), Status::SUCCESS);
        let sqe = rw(IoOpcode::WRITE, 1, 0, 64, SglDescriptor::transport(32768)).with(|s| s.cid(Cid(9)));
        rig.submit(io, sqe, Bytes::new());
        assert_eq!(rig.pdus(io).len() as u32, maxr2t + 1);
    }
}

#[test]
fn alignment_and_digests_in_both_directions() {
    for (hpda, cpda) in [(0, 0), (3, 31), (31, 1), (15, 15)] {
        for dgst in 0..4u8 {
            let tcp = TcpSettings { cpda, max_c2hdata: SMALL, ..TcpSettings::default() };
            let mut rig = Rig::new(ControllerSettings::default(), tcp);
            let (_, id) = rig.enabled();
            let io = rig.open();
            let resp = rig.init(io, |r| {
                r.set().hpda(hpda).hdgst(dgst & 1 != 0).ddgst(dgst & 2 != 0);
            });
            let digests = Digests { header: resp.hdgst(), data: resp.ddgst() };
            assert_eq!((digests.header, digests.data), (dgst & 1 != 0, dgst & 2 != 0));
            let (sqe, data) = connect(1, 31, 0, id);
            assert_eq!(rig.status(io, sqe, data), Status::SUCCESS);
            let data = pattern(16384);
            write_by_r2t(&mut rig, io, &data, 4096, digests, (usize::from(cpda) + 1) * 4);
            let sqe = rw(IoOpcode::READ, 1, 0, 32, SglDescriptor::transport(16384)).with(|s| s.cid(Cid(99)));
            rig.submit(io, sqe, Bytes::new());
            let pdus = rig.pdus(io);
            assert_eq!(pdus.len(), 5);
            let want = (24 + if digests.header { 4 } else { 0usize }).next_multiple_of((usize::from(hpda) + 1) * 4);
            for (i, p) in pdus[..4].iter().enumerate() {
                assert_eq!(usize::from(p.head().pdo()), want, "HPDA {hpda}, digests {dgst}");
                assert_eq!(p.data, data.slice(i * 4096..(i + 1) * 4096));
                assert_eq!((p.head().last(), p.head().success()), (i == 3, false));
                assert!(p.pad.iter().all(|b| *b == 0));
                assert_eq!(p.ddgst.is_some(), digests.data);
            }
        }
    }
}

/// Starts a write of 8192 bytes with R2Ts of 4096, then sends one H2CData; gives FES and FEI of the answer.
fn fault(f: impl FnOnce(&mut H2cData, &mut Bytes)) -> (u16, u32) {
    let tcp = TcpSettings { max_r2tl: 8192, maxh2cdata: SMALL, ..TcpSettings::default() };
    let mut rig = Rig::new(ControllerSettings::default(), tcp);
    let (_, io) = rig.io();
    let old = pattern(16384);
    write_by_r2t(&mut rig, io, &old, 4096, Digests::default(), 4);
    let sqe = rw(IoOpcode::WRITE, 1, 0, 16, SglDescriptor::transport(8192)).with(|s| s.cid(Cid(77)));
    rig.submit(io, sqe, Bytes::new());
    let r2t = R2t::read(&rig.pdu(io).unwrap().header).unwrap();
    let mut data = Bytes::from(vec![0xee; 4096]);
    let header = h2c_header(|h| {
        h.set().cccid(Cid(77)).ttag(r2t.ttag()).datal(4096);
        f(h, &mut data);
    });
    let bytes = frame(&header, data, Digests::default(), 4);
    rig.send(io, &bytes);
    let (fes, fei, shown) = rig.term(io);
    assert_eq!(shown, bytes[..24], "the terminate request shows the header");
    // Nothing of it reached the namespace.
    let io = {
        let (_, io) = rig.io();
        io
    };
    assert_eq!(read(&mut rig, io, 0, 32), old);
    (fes, fei)
}

#[test]
fn each_wrong_h2cdata_has_its_fatal_error() {
    assert_eq!(
        fault(|h, _| {
            let next = h.ttag().wrapping_add(1);
            h.set().ttag(next);
        }),
        (1, 10)
    );
    assert_eq!(fault(|h, _| put(h.set().cccid(Cid(78)))), (1, 8));
    assert_eq!(fault(|h, _| put(h.set().datal(4092))), (1, 4));
    assert_eq!(fault(|h, _| put(h.set().datao(2))), (1, 12));
    assert_eq!(
        fault(|h, d| {
            h.set().datal(4095);
            d.truncate(4095);
        }),
        (1, 16)
    );
    assert_eq!(
        fault(|h, d| {
            h.set().datal(4100);
            *d = Bytes::from(vec![1; 4100]);
        }),
        (5, 0)
    );
    assert_eq!(fault(|h, _| put(h.set().datao(8192))), (4, 0));
    assert_eq!(fault(|h, _| put(h.set().datao(4100))), (4, 0));
    assert_eq!(fault(|h, _| put(h.set().datao(4096).last(true))), (2, 0));
    assert_eq!(fault(|h, _| put(h.set().last(true))), (2, 0), "LAST_PDU before the end");
    assert_eq!(fault(|h, _| put(h.set().datal(0x10_0000))), (1, 4), "DATAL far beyond PLEN");
}

#[test]
fn h2cdata_without_an_r2t() {
    let mut rig = Rig::default();
    let (_, io) = rig.io();
    let header = h2c_header(|h| put(h.set().cccid(Cid(1)).datal(512).last(true)));
    let bytes = frame(&header, pattern(512), Digests::default(), 4);
    rig.send(io, &bytes);
    assert_eq!(rig.term(io).0, 1);
}

#[test]
fn a_wrong_data_digest_fails_the_command_alone() {
    let tcp = TcpSettings { max_r2tl: SMALL, ..TcpSettings::default() };
    let mut rig = Rig::new(ControllerSettings::default(), tcp);
    let (_, id) = rig.enabled();
    let io = rig.open();
    rig.init(io, |r| put(r.set().ddgst(true)));
    let digests = Digests { header: false, data: true };
    let (sqe, data) = connect(1, 31, 0, id);
    assert_eq!(rig.status(io, sqe, data), Status::SUCCESS);
    // In the capsule.
    let sqe = rw(IoOpcode::WRITE, 1, 0, 1, SglDescriptor::in_capsule(0, 512)).with(|s| s.cid(Cid(40)));
    let mut bytes = rig.capsule(io, sqe, pattern(512));
    *bytes.last_mut().unwrap() ^= 1;
    rig.send(io, &bytes);
    assert_eq!(rig.end_of(io, Cid(40)).0.status(), Status::TRANSIENT_TRANSPORT_ERROR);
    // In the first of two H2CData: the other is still taken.
    let sqe = rw(IoOpcode::WRITE, 1, 0, 16, SglDescriptor::transport(8192)).with(|s| s.cid(Cid(41)));
    rig.submit(io, sqe, Bytes::new());
    for i in 0..2u32 {
        let r2t = R2t::read(&rig.pdu(io).unwrap().header).unwrap();
        let header = h2c_header(|h| put(h.set().cccid(Cid(41)).ttag(r2t.ttag()).datao(4096 * i).datal(4096).last(true)));
        let mut bytes = frame(&header, pattern(4096), digests, 4);
        if i == 0 {
            *bytes.last_mut().unwrap() ^= 1;
        }
        rig.send(io, &bytes);
    }
    let status = rig.end_of(io, Cid(41)).0.status();
    assert_eq!((status, status.is_dnr()), (Status::TRANSIENT_TRANSPORT_ERROR, false));
    assert_eq!(read(&mut rig, io, 0, 16), vec![0; 8192]);
}

#[test]
fn success_flag_only_without_sq_flow_control() {
    for off in [false, true] {
        let mut rig = small();
        let (_, id) = rig.enabled();
        let io = rig.open();
        rig.init(io, |_| {});
        let (sqe, data) = connect_with(|c| put(c.set().sqfcd(off)), |_| {}, 1, 31, 0, id);
        let (cqe, _) = rig.command(io, sqe, data);
        assert_eq!(cqe.sqhd(), if off { 0xffff } else { 1 });
        let sqe = rw(IoOpcode::READ, 1, 0, 16, SglDescriptor::transport(8192)).with(|s| s.cid(Cid(50)));
        rig.submit(io, sqe, Bytes::new());
        let pdus = rig.pdus(io);
        let flags: Vec<_> = pdus.iter().map(|p| (p.ptype(), p.head().last(), p.head().success())).collect();
        let (d, r) = (PduType::C2H_DATA, PduType::CAPSULE_RESP);
        match off {
            false => assert_eq!(flags, [(d, false, false), (d, true, false), (r, false, false)]),
            true => assert_eq!(flags, [(d, false, false), (d, true, true)]),
        }
    }
}

#[test]
fn bad_descriptors_and_ranges_are_statuses() {
    let mut rig = Rig::default();
    let (_, io) = rig.io();
    let transport = SglDescriptor::transport;
    let cases: Vec<(Sqe, Status)> = vec![
        (rw(IoOpcode::READ, 1, 0, 1, SglDescriptor::in_capsule(0, 512)), Status::SGL_DESCRIPTOR_TYPE_INVALID),
        (rw(IoOpcode::READ, 1, 0, 1, SglDescriptor::new().with(|s| s.len(512))), Status::SGL_DESCRIPTOR_TYPE_INVALID),
        (rw(IoOpcode::READ, 1, 0, 1, transport(511)), Status::DATA_SGL_LENGTH_INVALID),
        (rw(IoOpcode::READ, 1, 0, 1, transport(1024)), Status::DATA_SGL_LENGTH_INVALID),
        (rw(IoOpcode::WRITE, 1, 0, 1, transport(0xffff_ffff)), Status::DATA_SGL_LENGTH_INVALID),
        (rw(IoOpcode::READ, 1, BLOCKS, 1, transport(512)), Status::LBA_OUT_OF_RANGE),
        (rw(IoOpcode::READ, 1, BLOCKS - 1, 2, transport(1024)), Status::LBA_OUT_OF_RANGE),
        (rw(IoOpcode::READ, 1, u64::MAX, 2, transport(1024)), Status::LBA_OUT_OF_RANGE),
        (rw(IoOpcode::READ, 1, 0, 4096, transport(4096 * 512)), Status::INVALID_FIELD_IN_COMMAND),
        (rw(IoOpcode::READ, 0, 0, 1, transport(512)), Status::INVALID_NAMESPACE_OR_FORMAT),
        (rw(IoOpcode::READ, 2, 0, 1, transport(512)), Status::INVALID_FIELD_IN_COMMAND),
        (rw(IoOpcode::READ, 1025, 0, 1, transport(512)), Status::INVALID_NAMESPACE_OR_FORMAT),
        (rw(IoOpcode::READ, u32::MAX, 0, 1, transport(512)), Status::INVALID_FIELD_IN_COMMAND),
        (rw(IoOpcode::FLUSH, u32::MAX, 0, 1, transport(0)), Status::INVALID_NAMESPACE_OR_FORMAT),
        (rw(IoOpcode::RESERVATION_REGISTER, 1, 0, 1, transport(512)), Status::INVALID_COMMAND_OPCODE),
        (rw(IoOpcode::READ, 1, 0, 1, transport(512)).with(|s| s.fuse(3)), Status::INVALID_FIELD_IN_COMMAND),
        (rw(IoOpcode::READ, 1, 0, 1, transport(512)).with(|s| s.psdt(0)), Status::INVALID_FIELD_IN_COMMAND),
        (rw(IoOpcode::READ, 1, 0, 1, transport(512)).with(|s| s.psdt(3)), Status::INVALID_FIELD_IN_COMMAND),
        (property_get(nvmf_wire::property::Property::CAP), Status::INVALID_FIELD_IN_COMMAND),
        (connect(1, 31, 0, nvmf_wire::Cntlid(1)).0, Status::COMMAND_SEQUENCE_ERROR),
    ];
    for (sqe, want) in cases {
        assert_eq!(rig.status(io, sqe, Bytes::new()), want, "{sqe}");
    }
    let sqe = rw(IoOpcode::WRITE, 1, 0, 1, SglDescriptor::in_capsule(4, 512));
    assert_eq!(rig.status(io, sqe, pattern(512)), Status::SGL_OFFSET_INVALID);
    let sqe = rw(IoOpcode::WRITE, 1, 0, 64, SglDescriptor::in_capsule(0, 32768));
    assert_eq!(rig.status(io, sqe, pattern(32768)), Status::DATA_SGL_LENGTH_INVALID, "more than a capsule holds");
    // The connection is as before.
    assert_eq!(read(&mut rig, io, 0, 1), vec![0; 512]);
}

#[test]
fn a_command_that_ends_after_a_terminate_request_says_nothing() {
    let mut rig = Rig::default();
    let (_, io) = rig.io();
    rig.hold_stores = true;
    let sqe = rw(IoOpcode::READ, 1, 0, 1, SglDescriptor::transport(512));
    rig.submit(io, sqe, Bytes::new());
    rig.send(io, &[0xff, 0, 8, 0, 8, 0, 0, 0]);
    rig.term(io);
    rig.hold_stores = false;
    rig.settle();
    assert!(rig.pdu(io).is_none());
}

#[test]
fn commands_wait_for_room_and_end_in_any_order_of_their_data() {
    let tcp = TcpSettings { max_held: 8192, ..TcpSettings::default() };
    let mut rig = Rig::new(ControllerSettings::default(), tcp);
    let (_, io) = rig.io();
    for cid in 0..4 {
        let sqe = rw(IoOpcode::WRITE, 1, u64::from(cid) * 8, 8, SglDescriptor::transport(4096)).with(|s| s.cid(Cid(300 + cid)));
        rig.submit(io, sqe, Bytes::new());
    }
    // Two fit; each that ends lets another in.
    let r2ts = |rig: &mut Rig| -> Vec<R2t> {
        let pdus = rig.pdus(io).into_iter().filter(|p| p.ptype() == PduType::R2T);
        pdus.map(|p| R2t::read(&p.header).unwrap()).collect()
    };
    let first = r2ts(&mut rig);
    assert_eq!(first.iter().map(|r| r.cccid().0).collect::<Vec<_>>(), [300, 301]);
    let answer = |rig: &mut Rig, r: &R2t| {
        let header = h2c_header(|h| put(h.set().cccid(r.cccid()).ttag(r.ttag()).datal(4096).last(true)));
        let bytes = frame(&header, pattern(4096), Digests::default(), 4);
        rig.send(io, &bytes);
    };
    answer(&mut rig, &first[1]);
    let second = r2ts(&mut rig);
    assert_eq!(second.iter().map(|r| r.cccid().0).collect::<Vec<_>>(), [302]);
    answer(&mut rig, &first[0]);
    assert_eq!(r2ts(&mut rig).iter().map(|r| r.cccid().0).collect::<Vec<_>>(), [303]);
}

#[test]
fn zeroes_are_written_without_data() {
    let mut rig = Rig::default();
    let (_, io) = rig.io();
    let sqe = rw(IoOpcode::WRITE, 1, 0, 16, SglDescriptor::in_capsule(0, 8192));
    assert_eq!(rig.status(io, sqe, pattern(8192)), Status::SUCCESS);
    // More than MDTS and more than one step of the store: all but the first and the last block.
    let sqe = rw(IoOpcode::WRITE_ZEROES, 1, 1, BLOCKS as u16 - 2, SglDescriptor::new());
    assert_eq!(rig.status(io, sqe, Bytes::new()), Status::SUCCESS);
    let got = read(&mut rig, io, 0, 16);
    assert_eq!(got[..512], pattern(8192)[..512]);
    assert!(got[512..].iter().all(|b| *b == 0));
    let sqe = rw(IoOpcode::WRITE_ZEROES, 1, 1, BLOCKS as u16, SglDescriptor::new());
    assert_eq!(rig.status(io, sqe, Bytes::new()), Status::LBA_OUT_OF_RANGE);
}
