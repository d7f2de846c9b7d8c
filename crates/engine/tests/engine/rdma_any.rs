//! Whatever a host asks of CM and sends: no panic, no growth beyond the limits, and the target goes on serving others.

use std::time::Duration;

use crate::common::{connect, pattern, property_set, rw};
use crate::rdma_rig::*;
use bytes::Bytes;
use nvmf_engine::{ControllerSettings, RdmaCapsules, RdmaSettings};
use nvmf_seam::Head;
use nvmf_seam::rdma::{QpId, Work};
use nvmf_wire::property::Property;
use nvmf_wire::sqe::IoOpcode;
use nvmf_wire::{Cid, Cntlid, SglDescriptor, Sqe, Status};
use proptest::collection::vec;
use proptest::prelude::*;

/// Where it strikes.
#[derive(Clone, Copy, Debug)]
enum At {
    Accepted,
    Admin,
    Enabled,
    Io,
}

/// One thing that a hostile host does.
#[derive(Clone, Debug)]
enum Act {
    /// SEND of anything.
    Raw(Vec<u8>),
    /// An almost right command: opcode, CID, NSID, descriptor type, its place and length, CDW10 to 12, and what follows the SQE.
    Command {
        opcode: u8,
        cid: u8,
        nsid: u32,
        kind: u8,
        addr: u64,
        len: u32,
        cdw: [u32; 3],
        behind: Vec<u8>,
    },
    /// Many of one kind, of which nobody takes the answers.
    Flood(u8, u16),
    /// A right write of so many blocks by READ, and perhaps an Abort of it or a reset at once.
    Write(u16, bool, bool),
    Time(u32),
    Leave,
}

const RDMA: RdmaSettings = RdmaSettings {
    capsules: RdmaCapsules { msdbd: 4, icdoff: 0 },
    reads: 4,
    max_read: 8192,
    max_write: 8192,
    remote_invalidate: true,
    max_held: 1 << 20,
    connections: 16,
    connect_patience: Duration::from_secs(30),
    close_patience: Duration::from_secs(1),
};

fn rig() -> Rig {
    let controllers = ControllerSettings {
        admin_queue_entries: 32,
        io_queue_entries: 32,
        ioccsz: 4 + 64,
        queue_deletion: true,
        ..ControllerSettings::default()
    };
    Rig::new(controllers, RDMA, |_| {})
}

/// What one connection may hold: a receive for each slot, data, and an entry here and there for each command.
const HELD: usize = 33 * (64 + 1024 + 64) + (1 << 20) + (1 << 20) + 33 * 8;

fn act() -> impl Strategy<Value = Act> {
    let len = prop_oneof![0u32..64, Just(512), Just(1024), Just(4096), Just(0xff_ffff), any::<u32>()];
    let kind = prop_oneof![Just(0x40u8), Just(0x4f), Just(0x01), Just(0x31), any::<u8>()];
    let opcode = prop_oneof![Just(0x7fu8), 0u8..0x20, any::<u8>()];
    let addr = prop_oneof![Just(0u64), 0u64..4096, any::<u64>()];
    let command =
        (opcode, any::<u8>(), prop_oneof![0u32..3, any::<u32>()], kind, addr, len, any::<[u32; 3]>(), vec(any::<u8>(), 0..200));
    prop_oneof![
        vec(any::<u8>(), 0..160).prop_map(Act::Raw),
        command.prop_map(|(opcode, cid, nsid, kind, addr, len, cdw, behind)| Act::Command {
            opcode,
            cid,
            nsid,
            kind,
            addr,
            len,
            cdw: cdw.map(|x| x & 0x00ff_00ff),
            behind
        }),
        (any::<u8>(), 0u16..100).prop_map(|(o, n)| Act::Flood(o, n)),
        (1u16..64, any::<bool>(), any::<bool>()).prop_map(|(n, abort, reset)| Act::Write(n, abort, reset)),
        (0u32..200_000).prop_map(Act::Time),
        Just(Act::Leave),
    ]
}

/// The queues that are struck, the Admin Queue first.
fn start(rig: &mut Rig, at: At) -> Vec<QpId> {
    match at {
        At::Accepted => vec![rig.open(&Req::default())],
        At::Admin => vec![rig.admin().0],
        At::Enabled => vec![rig.enabled().0],
        At::Io => {
            let (admin, io) = rig.io();
            vec![io, admin]
        }
    }
}

/// SEND where the queue pair still takes one.
fn send(rig: &mut Rig, qp: QpId, head: &[u8], behind: Bytes) {
    let id = rig.work_id();
    let now = rig.pair.now;
    let work = Work::Send { id, head: Head::new(head), payload: behind, invalidate: None };
    let _ = nvmf_seam::rdma::Device::post(&mut rig.pair.nics[0], now, qp, work);
}

fn strike(rig: &mut Rig, qps: &[QpId], act: Act) {
    let qp = qps[0];
    match act {
        Act::Raw(bytes) => send(rig, qp, &[], bytes.into()),
        Act::Command { opcode, cid, nsid, kind, addr, len, cdw, behind } => {
            let mut sgl = [0; 16];
            sgl[..8].copy_from_slice(&addr.to_le_bytes());
            sgl[8..12].copy_from_slice(&len.to_le_bytes());
            sgl[15] = kind;
            let sqe = rw(IoOpcode::READ, nsid, 0, 1, SglDescriptor::from_bytes(sgl));
            let sqe = sqe.with(|s| s.cid(Cid(cid.into())).cdw10(cdw[0]).cdw11(cdw[1]).cdw12(cdw[2]));
            let mut bytes = *sqe.as_bytes();
            bytes[0] = opcode;
            bytes[4] = if opcode == 0x7f { cid % 9 } else { bytes[4] };
            send(rig, qp, &bytes, behind.into());
        }
        Act::Flood(opcode, n) => {
            let mut bytes = *rw(IoOpcode::FLUSH, 1, 0, 1, SglDescriptor::in_capsule(0, 0)).as_bytes();
            bytes[0] = opcode;
            (0..n).for_each(|_| send(rig, qp, &bytes, Bytes::new()));
        }
        Act::Write(blocks, abort, reset) if !rig.queues[&qp].over => {
            let region = rig.try_readable(qp, pattern(usize::from(blocks) * 512));
            let sgl = region.map_or(SglDescriptor::in_capsule(0, 0), Region::invalidated);
            let sqe = rw(IoOpcode::WRITE, 1, 0, blocks, sgl).with(|s| s.cid(Cid(7)));
            send(rig, qp, sqe.as_bytes(), Bytes::new());
            if let Some(admin) = qps.get(1).copied() {
                let cid = |sqe: Sqe, n| sqe.with(|s| s.cid(Cid(n)));
                if abort {
                    let sqe = cid(crate::common::admin_sqe(nvmf_wire::Opcode::ABORT, 0, 7 << 16 | 1, 0), 8);
                    send(rig, admin, sqe.as_bytes(), Bytes::new());
                }
                if reset {
                    send(rig, admin, cid(property_set(Property::CC, 0), 9).as_bytes(), Bytes::new());
                }
            }
        }
        Act::Write(..) => {}
        Act::Time(us) => rig.pass(Duration::from_micros(us.into())),
        Act::Leave => {
            let now = rig.pair.now;
            nvmf_seam::rdma::Device::disconnect(&mut rig.pair.nics[0], now, qp);
        }
    }
}

/// Another host comes, writes and reads.
fn serves(rig: &mut Rig) {
    let (_, id) = rig.enabled();
    let io = rig.open(&Req::io(1, id));
    let (sqe, data) = connect(1, 31, 0, id);
    let region = rig.readable(io, data);
    assert_eq!(rig.status(io, sqe.with_sgl1(region.sgl()), Bytes::new()), Status::SUCCESS);
    let region = rig.readable(io, pattern(65536));
    assert_eq!(rig.status(io, rw(IoOpcode::WRITE, 1, 0, 128, region.sgl()), Bytes::new()), Status::SUCCESS);
    assert_eq!(rig.read_back(io, 0, 65536), pattern(65536));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_capsules(at in prop_oneof![Just(At::Accepted), Just(At::Admin), Just(At::Enabled), Just(At::Io)],
                    latency in prop_oneof![Just(0u64), Just(50)],
                    stores in any::<bool>(),
                    acts in vec(act(), 1..20)) {
        let mut rig = rig();
        let qps = start(&mut rig, at);
        rig.pair.latency = Duration::from_micros(latency);
        rig.hold_stores = stores;
        for act in acts {
            strike(&mut rig, &qps, act);
            rig.settle();
            prop_assert!(rig.target.held() <= HELD * rig.target.connections() + 16, "{} held", rig.target.held());
        }
        rig.hold_stores = false;
        serves(&mut rig);
    }

    #[test]
    fn any_request(private in vec(any::<u8>(), 0..=56), near in any::<[u16; 5]>(), resources in any::<u8>(), is_near in any::<bool>()) {
        let mut rig = rig();
        let [recfmt, qid, hrqsize, hsqsize, cntlid] = near;
        let likely = [recfmt % 2, qid % 3, hrqsize % 40, hsqsize % 40, cntlid % 2];
        let private = if is_near { likely.iter().flat_map(|n| n.to_le_bytes()).chain([0; 22]).collect() } else { private };
        let req = Req { responder_resources: resources, hrqsize: 0, ..Req::default() };
        let qp = rig.ask(&req, &private);
        prop_assert!(rig.until(|r| r.queues[&qp].accepted.is_some() || r.queues[&qp].rejected.is_some()));
        if let Some((reason, private)) = &rig.queues[&qp].rejected {
            prop_assert_eq!(*reason, 28);
            let sts = u16::from_le_bytes([private[2], private[3]]);
            // [RDMA-CM-31]
            prop_assert!((1..=9).contains(&sts) && private[4..].iter().all(|b| *b == 0));
        }
        serves(&mut rig);
    }
}

#[test]
fn connections_that_are_over_hold_nothing() {
    let mut rig = rig();
    for _ in 0..40 {
        let qp = rig.open(&Req::default());
        let (sqe, data) = connect(0, 31, 120_000, Cntlid::DYNAMIC);
        let region = rig.readable(qp, data);
        rig.submit(qp, sqe.with_sgl1(region.sgl()), Bytes::new());
        let now = rig.pair.now;
        nvmf_seam::rdma::Device::disconnect(&mut rig.pair.nics[0], now, qp);
        assert!(rig.until(|r| r.target.connections() == 0));
    }
    assert_eq!((rig.target.held(), rig.hub.associations(), rig.target.poll_timeout()), (0, 0, None));
}
