//! Optional I/O commands: Compare, fused Compare and Write, Write Zeroes, Dataset Management, Verify, Write Uncorrectable, Copy; and that
//! Identify and the effects log say what is served.

use std::sync::Arc;

use crate::common::*;
use bytes::Bytes;
use nvmf_engine::controller::NewNamespace;
use nvmf_engine::store::NullStore;
use nvmf_engine::{ControllerSettings, TcpSettings};
use nvmf_seam::Geometry;
use nvmf_wire::identify::{IdentifyController, IdentifyNamespace};
use nvmf_wire::sqe::IoOpcode;
use nvmf_wire::tcp::{CapsuleResp, PduType, R2t};
use nvmf_wire::{Cid, Cqe, SglDescriptor, Sqe, Status, ZeroBased8, ZeroBased16, nvm};

const FAILED: Status = Status::ABORTED_FAILED_FUSED;
const MISSING: Status = Status::ABORTED_MISSING_FUSED;
const INVALID: Status = Status::INVALID_FIELD_IN_COMMAND;

fn inline(len: usize) -> SglDescriptor {
    SglDescriptor::in_capsule(0, len as u32)
}

fn block(byte: u8) -> Bytes {
    vec![byte; 512].into()
}

fn write(rig: &mut Rig, io: Conn, slba: u64, data: Bytes) {
    let sqe = rw(IoOpcode::WRITE, 1, slba, (data.len() / 512) as u16, inline(data.len()));
    assert_eq!(rig.status(io, sqe, data), Status::SUCCESS);
}

fn read(rig: &mut Rig, io: Conn, slba: u64) -> Result<Vec<u8>, Status> {
    let (cqe, data) = rig.command(io, rw(IoOpcode::READ, 1, slba, 1, SglDescriptor::transport(512)), Bytes::new());
    if cqe.status().is_success() { Ok(data) } else { Err(cqe.status().code()) }
}

/// A command about blocks without data.
fn bare(rig: &mut Rig, io: Conn, opcode: IoOpcode, slba: u64, blocks: u16) -> Status {
    rig.status(io, rw(opcode, 1, slba, blocks, SglDescriptor::new()), Bytes::new())
}

/// A half of a fused operation on one block, data in the capsule.
fn half(opcode: IoOpcode, fuse: u8, cid: u16, slba: u64) -> Sqe {
    rw(opcode, 1, slba, 1, inline(512)).with(|s| s.fuse(fuse).cid(Cid(cid)))
}

/// The statuses that come, by CID.
fn ends(rig: &mut Rig, io: Conn) -> Vec<(u16, Status)> {
    let cqe = |header: &[u8]| Cqe::from_bytes(CapsuleResp::read(header).expect("a CapsuleResp").cqe());
    let all = rig.pdus(io).into_iter().map(|p| cqe(&p.header));
    all.map(|c| (c.cid().0, c.status().code())).collect()
}

fn pair(rig: &mut Rig, io: Conn, first: (Sqe, Bytes), second: (Sqe, Bytes)) -> Vec<(u16, Status)> {
    rig.submit(io, first.0, first.1);
    rig.submit(io, second.0, second.1);
    ends(rig, io)
}

#[test]
fn compare_says_whether_the_blocks_are_the_same() {
    let mut rig = Rig::default();
    let (_, io) = rig.io();
    write(&mut rig, io, 8, pattern(4096));
    let sqe = rw(IoOpcode::COMPARE, 1, 8, 8, inline(4096));
    assert_eq!(rig.status(io, sqe, pattern(4096)), Status::SUCCESS);
    for at in [0, 2000, 4095] {
        let mut other = pattern(4096).to_vec();
        other[at] ^= 1;
        assert_eq!(rig.status(io, sqe, other.into()), Status::COMPARE_FAILURE);
    }
}

#[test]
fn a_pair_compares_and_writes_and_each_half_is_completed() {
    let mut rig = Rig::default();
    let (_, io) = rig.io();
    let compare = |byte| (half(IoOpcode::COMPARE, 1, 100, 3), block(byte));
    let store = |byte| (half(IoOpcode::WRITE, 2, 101, 3), block(byte));
    assert_eq!(pair(&mut rig, io, compare(0), store(1)), [(100, Status::SUCCESS), (101, Status::SUCCESS)]);
    assert_eq!(read(&mut rig, io, 3), Ok(vec![1; 512]));
    assert_eq!(pair(&mut rig, io, compare(0), store(2)), [(100, Status::COMPARE_FAILURE), (101, FAILED)]);
    assert_eq!(read(&mut rig, io, 3), Ok(vec![1; 512]));
    // FUA asks for a flush behind it.
    let fua = |s: (Sqe, Bytes)| (Sqe::from_bytes(*nvm::Write::from_bytes(*s.0.as_bytes()).with(|w| w.fua(true)).as_bytes()), s.1);
    assert_eq!(pair(&mut rig, io, compare(1), fua(store(2))), [(100, Status::SUCCESS), (101, Status::SUCCESS)]);
    assert_eq!(read(&mut rig, io, 3), Ok(vec![2; 512]));
}

#[test]
fn a_half_without_its_other_is_aborted_and_what_stands_between_is_done() {
    let mut rig = Rig::default();
    let (_, io) = rig.io();
    let (first, second) = (|cid| half(IoOpcode::COMPARE, 1, cid, 0), |cid| half(IoOpcode::WRITE, 2, cid, 0));
    rig.submit(io, second(1), block(9));
    assert_eq!(ends(&mut rig, io), [(1, MISSING)]);
    rig.submit(io, first(1), block(0));
    assert_eq!(ends(&mut rig, io), []);
    rig.submit(io, first(2), block(0));
    assert_eq!(ends(&mut rig, io), [(1, MISSING)]);
    rig.submit(io, rw(IoOpcode::FLUSH, 1, 0, 1, SglDescriptor::new()).with(|s| s.cid(Cid(3))), Bytes::new());
    assert_eq!(ends(&mut rig, io), [(2, MISSING), (3, Status::SUCCESS)]);
    rig.submit(io, second(4), block(9));
    assert_eq!(ends(&mut rig, io), [(4, MISSING)]);
    rig.submit(io, first(5), block(0));
    rig.submit(io, half(IoOpcode::WRITE, 3, 6, 0), block(9));
    assert_eq!(ends(&mut rig, io), [(5, MISSING), (6, INVALID)]);
    // A CID in use is no command, so the first half is alone.
    rig.submit(io, first(7), block(0));
    rig.submit(io, second(7), block(9));
    assert_eq!(ends(&mut rig, io), [(7, MISSING), (7, Status::COMMAND_ID_CONFLICT)]);
    assert_eq!(read(&mut rig, io, 0), Ok(vec![0; 512]));
}

#[test]
fn what_is_no_compare_and_write_of_one_range_is_refused_for_both() {
    let mut rig = Rig::default();
    let (_, io) = rig.io();
    let both = [(1, INVALID), (2, INVALID)];
    let good = (half(IoOpcode::COMPARE, 1, 1, 0), block(0));
    let others = [
        half(IoOpcode::WRITE, 2, 2, 1),
        rw(IoOpcode::WRITE, 1, 0, 2, inline(1024)).with(|s| s.fuse(2).cid(Cid(2))),
        half(IoOpcode::COMPARE, 2, 2, 0),
    ];
    for second in others {
        let data = Bytes::from(vec![9; second.sgl1().len() as usize]);
        assert_eq!(pair(&mut rig, io, good.clone(), (second, data)), both, "{second}");
    }
    let read_first = (half(IoOpcode::READ, 1, 1, 0), block(0));
    assert_eq!(pair(&mut rig, io, read_first, (half(IoOpcode::WRITE, 2, 2, 0), block(9))), both);
    assert_eq!(read(&mut rig, io, 0), Ok(vec![0; 512]));
}

#[test]
fn an_error_of_one_half_is_its_own_and_the_second_follows_the_first() {
    let mut rig = Rig::default();
    let (_, io) = rig.io();
    let (compare, store) = (half(IoOpcode::COMPARE, 1, 1, 0), half(IoOpcode::WRITE, 2, 2, 0));
    let long = |s: Sqe| s.with_sgl1(SglDescriptor::transport(1024));
    let length = Status::DATA_SGL_LENGTH_INVALID;
    assert_eq!(pair(&mut rig, io, (long(compare), Bytes::new()), (store, block(9))), [(1, length), (2, FAILED)]);
    assert_eq!(pair(&mut rig, io, (compare, block(0)), (long(store), Bytes::new())), [(1, Status::SUCCESS), (2, length)]);
    let different = [(1, Status::COMPARE_FAILURE), (2, FAILED)];
    assert_eq!(pair(&mut rig, io, (compare, block(7)), (long(store), Bytes::new())), different);
    let at = |opcode, fuse, cid| (half(opcode, fuse, cid, BLOCKS), block(0));
    let range = [(1, Status::LBA_OUT_OF_RANGE), (2, FAILED)];
    assert_eq!(pair(&mut rig, io, at(IoOpcode::COMPARE, 1, 1), at(IoOpcode::WRITE, 2, 2)), range);
    assert_eq!(read(&mut rig, io, 0), Ok(vec![0; 512]));
}

/// Both halves by R2T, where the data held may be less than both: they have their room together.
#[test]
fn a_pair_by_r2t_is_done_when_all_its_data_is_here() {
    let tcp = TcpSettings { max_held: 512, ..TcpSettings::default() };
    let mut rig = Rig::new(ControllerSettings::default(), tcp);
    let (_, io) = rig.io();
    let by_r2t = |s: Sqe| s.with_sgl1(SglDescriptor::transport(512));
    rig.submit(io, by_r2t(half(IoOpcode::COMPARE, 1, 1, 0)), Bytes::new());
    assert!(rig.pdus(io).is_empty(), "nothing is asked for before the second half is there");
    rig.submit(io, by_r2t(half(IoOpcode::WRITE, 2, 2, 0)), Bytes::new());
    let r2ts: Vec<R2t> = rig.pdus(io).into_iter().map(|p| R2t::read(&p.header).unwrap()).collect();
    assert_eq!(r2ts.iter().map(|r| r.cccid().0).collect::<Vec<_>>(), [1, 2]);
    // The second's data first.
    for (r, byte) in [(r2ts[1], 5), (r2ts[0], 0)] {
        assert!(rig.pdus(io).is_empty());
        let header = h2c_header(|h| put(h.set().cccid(r.cccid()).ttag(r.ttag()).datal(512).last(true)));
        let bytes = frame(&header, block(byte), nvmf_wire::tcp::Digests::default(), 4);
        rig.send(io, &bytes);
    }
    assert_eq!(ends(&mut rig, io), [(1, Status::SUCCESS), (2, Status::SUCCESS)]);
    assert_eq!(read(&mut rig, io, 0), Ok(vec![5; 512]));
}

#[test]
fn a_first_half_that_fills_the_queue_is_answered() {
    let mut rig = Rig::default();
    let (_, id) = rig.enabled();
    let io = rig.open();
    rig.init(io, |_| {});
    // Two slots hold one command.
    let (sqe, data) = connect(1, 1, 0, id);
    assert_eq!(rig.status(io, sqe, data), Status::SUCCESS);
    rig.submit(io, half(IoOpcode::COMPARE, 1, 9, 0), block(0));
    assert_eq!(ends(&mut rig, io), [(9, MISSING)]);
    assert_eq!(read(&mut rig, io, 0), Ok(vec![0; 512]));
}

#[test]
fn a_first_half_alone_may_be_aborted() {
    let mut rig = Rig::default();
    let (admin, io) = rig.io();
    rig.submit(io, half(IoOpcode::COMPARE, 1, 9, 0), block(0));
    let abort = admin_sqe(nvmf_wire::Opcode::ABORT, 0, 9 << 16 | 1, 0);
    let (cqe, _) = rig.command(admin, abort, Bytes::new());
    assert_eq!((cqe.status(), cqe.dw0()), (Status::SUCCESS, 0));
    assert_eq!(ends(&mut rig, io), [(9, Status::COMMAND_ABORT_REQUESTED)]);
    rig.submit(io, half(IoOpcode::WRITE, 2, 10, 0), block(1));
    assert_eq!(ends(&mut rig, io), [(10, MISSING)]);
}

#[test]
fn blocks_made_uncorrectable_are_read_again_once_written() {
    let mut rig = Rig::default();
    let (_, io) = rig.io();
    let unreadable = Status::UNRECOVERED_READ_ERROR;
    assert_eq!(bare(&mut rig, io, IoOpcode::WRITE_UNCORRECTABLE, 4, 2), Status::SUCCESS);
    assert_eq!(read(&mut rig, io, 3), Ok(vec![0; 512]));
    assert_eq!(read(&mut rig, io, 5), Err(unreadable));
    assert_eq!(bare(&mut rig, io, IoOpcode::VERIFY, 0, 8), unreadable);
    assert_eq!(rig.status(io, rw(IoOpcode::COMPARE, 1, 4, 1, inline(512)), block(0)), unreadable);
    write(&mut rig, io, 4, block(3));
    assert_eq!(read(&mut rig, io, 4), Ok(vec![3; 512]));
    assert_eq!(bare(&mut rig, io, IoOpcode::WRITE_ZEROES, 5, 1), Status::SUCCESS);
    assert_eq!(bare(&mut rig, io, IoOpcode::VERIFY, 0, 8), Status::SUCCESS);
    for opcode in [IoOpcode::VERIFY, IoOpcode::WRITE_UNCORRECTABLE, IoOpcode::WRITE_ZEROES] {
        assert_eq!(bare(&mut rig, io, opcode, BLOCKS - 1, 2), Status::LBA_OUT_OF_RANGE);
    }
    let pract = rw(IoOpcode::VERIFY, 1, 0, 1, SglDescriptor::new());
    let pract = nvm::Verify::from_bytes(*pract.as_bytes()).with(|s| s.prinfo(8));
    assert_eq!(rig.status(io, Sqe::from_bytes(*pract.as_bytes()), Bytes::new()), INVALID);
}

fn dataset(rig: &mut Rig, io: Conn, ad: bool, ranges: &[(u64, u32)]) -> Status {
    let mut list = Vec::new();
    for (slba, llb) in ranges {
        list.extend_from_slice(nvm::DatasetRange::new().with(|s| s.slba(*slba).llb(*llb)).as_bytes());
    }
    let sqe = rw(IoOpcode::DATASET_MANAGEMENT, 1, 0, 1, inline(list.len()));
    let sqe = nvm::DatasetManagement::from_bytes(*sqe.as_bytes()).with(|s| s.nr(ZeroBased8((ranges.len() - 1) as u8)).ad(ad));
    rig.status(io, Sqe::from_bytes(*sqe.as_bytes()), list.into())
}

#[test]
fn deallocated_blocks_read_as_zero_and_the_others_as_before() {
    let mut rig = Rig::default();
    let (_, io) = rig.io();
    write(&mut rig, io, 0, vec![7; 4096].into());
    assert_eq!(dataset(&mut rig, io, false, &[(0, 8)]), Status::SUCCESS);
    assert_eq!(read(&mut rig, io, 0), Ok(vec![7; 512]));
    assert_eq!(dataset(&mut rig, io, true, &[(1, 2), (5, 0), (6, 1)]), Status::SUCCESS);
    let values: Vec<u8> = (0..8).map(|lba| read(&mut rig, io, lba).unwrap()[511]).collect();
    assert_eq!(values, [7, 0, 0, 7, 7, 7, 0, 7]);
    // One range that is wrong, and nothing is done.
    assert_eq!(dataset(&mut rig, io, true, &[(0, 1), (BLOCKS, 1)]), Status::LBA_OUT_OF_RANGE);
    assert_eq!(read(&mut rig, io, 0), Ok(vec![7; 512]));
    assert_eq!(dataset(&mut rig, io, true, &[(0, 1); 256]), Status::SUCCESS);
}

/// Linux brings a table of 4,096 bytes whatever NR says.
#[test]
fn of_a_whole_table_the_ranges_of_nr_count() {
    let mut rig = Rig::default();
    let (_, io) = rig.io();
    write(&mut rig, io, 0, vec![7; 4096].into());
    let mut bring = |opcode, len: usize| {
        let mut table = vec![0; len];
        for (at, slba) in [(0, 1), (16, 2)] {
            table[at..at + 16].copy_from_slice(nvm::DatasetRange::new().with(|s| s.slba(slba).llb(1)).as_bytes());
        }
        let sqe =
            nvm::DatasetManagement::from_bytes(*rw(opcode, 1, 0, 1, inline(len)).as_bytes()).with(|s| s.nr(ZeroBased8(0)).ad(true));
        rig.status(io, Sqe::from_bytes(*sqe.as_bytes()), table.into())
    };
    for len in [32, 4096] {
        assert_eq!(bring(IoOpcode::DATASET_MANAGEMENT, len), Status::SUCCESS, "{len}");
    }
    for (opcode, len) in [(IoOpcode::DATASET_MANAGEMENT, 4112), (IoOpcode::COPY, 64)] {
        assert_eq!(bring(opcode, len), Status::DATA_SGL_LENGTH_INVALID, "{opcode:?} {len}");
    }
    let values: Vec<u8> = (0..4).map(|lba| read(&mut rig, io, lba).unwrap()[0]).collect();
    assert_eq!(values, [7, 0, 7, 7]);
}

/// Status and DW0.
fn copy(rig: &mut Rig, io: Conn, to: u64, format: u8, ranges: &[(u64, u16)]) -> (Status, u32) {
    let mut list = Vec::new();
    for (slba, blocks) in ranges {
        let nlb = ZeroBased16(blocks - 1);
        match format {
            0 => list.extend_from_slice(nvm::CopyRange0::new().with(|s| s.slba(*slba).nlb(nlb)).as_bytes()),
            _ => list.extend_from_slice(nvm::CopyRange1::new().with(|s| s.slba(*slba).nlb(nlb)).as_bytes()),
        }
    }
    let sqe = rw(IoOpcode::COPY, 1, to, 1, inline(list.len()));
    let sqe = nvm::Copy::from_bytes(*sqe.as_bytes())
        .with(|s| s.sdlba(to).nr(ZeroBased8((ranges.len() - 1) as u8)).desfmt(format).cetype(0).fua(true));
    let (cqe, _) = rig.command(io, Sqe::from_bytes(*sqe.as_bytes()), list.into());
    (cqe.status().code(), cqe.dw0())
}

#[test]
fn copy_puts_ranges_one_after_the_other_and_tells_which_failed() {
    let mut rig = Rig::default();
    let (_, io) = rig.io();
    for lba in 0..8 {
        write(&mut rig, io, lba, block(lba as u8 + 1));
    }
    let at = |rig: &mut Rig, lba| read(rig, io, lba).map(|d| d[0]);
    assert_eq!(copy(&mut rig, io, 100, 0, &[(4, 2), (0, 1), (7, 1)]), (Status::SUCCESS, 0));
    assert_eq!([100, 101, 102, 103, 104].map(|lba| at(&mut rig, lba)), [Ok(5), Ok(6), Ok(1), Ok(8), Ok(0)]);
    assert_eq!(bare(&mut rig, io, IoOpcode::WRITE_UNCORRECTABLE, 2, 1), Status::SUCCESS);
    assert_eq!(copy(&mut rig, io, 200, 0, &[(0, 1), (1, 1), (2, 1), (3, 1)]), (Status::UNRECOVERED_READ_ERROR, 2));
    assert_eq!([200, 201, 202].map(|lba| at(&mut rig, lba)), [Ok(1), Ok(2), Ok(0)]);
    let limits = Status::COMMAND_SIZE_LIMIT_EXCEEDED;
    assert_eq!(copy(&mut rig, io, 0, 0, &[(0, 513)]), (limits, 0));
    assert_eq!(copy(&mut rig, io, 0, 0, &[(0, 512); 5]), (limits, 0));
    assert_eq!(copy(&mut rig, io, 0, 0, &[(0, 1); 17]), (limits, 0));
    assert_eq!(copy(&mut rig, io, 300, 0, &[(0, 1), (BLOCKS, 1)]), (Status::LBA_OUT_OF_RANGE, 0));
    assert_eq!(at(&mut rig, 300), Ok(0));
    assert_eq!(copy(&mut rig, io, BLOCKS - 1, 0, &[(0, 2)]), (Status::LBA_OUT_OF_RANGE, 0));
    assert_eq!(copy(&mut rig, io, 300, 1, &[(0, 1)]), (Status::INVALID_NAMESPACE_OR_FORMAT, 0));
    assert_eq!(copy(&mut rig, io, 300, 2, &[(0, 1)]), (INVALID, 0));
}

/// ONCS, FUSES and the effects log against what is done, with all abilities and without one.
#[test]
fn what_identify_and_the_effects_log_say_is_what_is_served() {
    for without in [false, true] {
        let mut rig = Rig::default();
        if without {
            let store = Arc::new(NullStore::new(Geometry { blocks: BLOCKS, block_size: 512 }));
            rig.hub.add_namespace(SUBNQN, 7, NewNamespace { store, blocking: false, uuid: None }).unwrap();
        }
        let (admin, io) = rig.io();
        let (_, page) = rig.command(admin, identify(1, 0), Bytes::new());
        let id = IdentifyController::read(&page).unwrap();
        let (_, page) = rig.command(admin, identify(0, 1), Bytes::new());
        let ns = IdentifyNamespace::read(&page).unwrap();
        assert_eq!((ns.mssrl(), ns.mcl(), ns.msrc().count()), (512, 2048, 16));
        let (_, effects) = rig.command(admin, log_page(5, 4096, 0, false), Bytes::new());
        let served = [
            (IoOpcode::COMPARE, id.oncs_compare()),
            (IoOpcode::WRITE_UNCORRECTABLE, id.oncs_wus()),
            (IoOpcode::DATASET_MANAGEMENT, id.oncs_dsm()),
            (IoOpcode::WRITE_ZEROES, id.oncs_wzs()),
            (IoOpcode::VERIFY, id.oncs_verify()),
            (IoOpcode::COPY, id.oncs_copy()),
            (IoOpcode::RESERVATION_REGISTER, id.oncs_reservs()),
        ];
        for (opcode, said) in served {
            let status = bare(&mut rig, io, opcode, 0, 1);
            assert_eq!(status != Status::INVALID_COMMAND_OPCODE, said, "{opcode:?}: {status:?}");
            assert_eq!(effects[1024 + 4 * usize::from(opcode.0)] & 1 != 0, said, "{opcode:?}");
        }
        assert_eq!((id.oncs_wus(), id.fuses()), (!without, true));
    }
}

#[test]
fn without_compare_there_is_no_fused_operation() {
    #[derive(Debug)]
    struct Plain(NullStore);
    impl nvmf_seam::Store for Plain {
        fn geometry(&self) -> Geometry {
            self.0.geometry()
        }

        fn execute(&self, op: nvmf_seam::StoreOp) -> Result<Bytes, nvmf_seam::StoreError> {
            self.0.execute(op)
        }
    }
    let mut rig = Rig::default();
    let store = Arc::new(Plain(NullStore::new(Geometry { blocks: BLOCKS, block_size: 512 })));
    rig.hub.add_namespace(SUBNQN, 7, NewNamespace { store, blocking: false, uuid: None }).unwrap();
    let (_, io) = rig.io();
    let statuses = pair(&mut rig, io, (half(IoOpcode::COMPARE, 1, 1, 0), block(0)), (half(IoOpcode::WRITE, 2, 2, 0), block(1)));
    assert_eq!(statuses, [(1, INVALID), (2, INVALID)]);
    assert_eq!(rig.pdus(io).iter().filter(|p| p.ptype() == PduType::R2T).count(), 0);
}
