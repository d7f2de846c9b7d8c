//! Allocations a command on the way of an NVMe/RDMA target: capsule in, engine, store, work requests out, over a device that does
//! everything at once and costs nothing. docs/performance.md says what the limit is for.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use nvmf_engine::controller::{Hub, NewNamespace, Port, PortTransport};
use nvmf_engine::rdma::Target;
use nvmf_engine::store::{MemoryStore, NullStore};
use nvmf_engine::{ControllerSettings, RdmaSettings};
use nvmf_seam::rdma::{
    Accept, Ask, Asked, CmEvent, Completion, Device, DeviceError, DeviceEvent, Done, Limits, Memory, QpId, Rkey, Work, WorkId,
};
use nvmf_seam::{Geometry, Instant, Store};
use nvmf_wire::rdma::RdmaRequest;
use nvmf_wire::sgl::{SglKeyed, SglSubtype, SglType};
use nvmf_wire::{Cid, Cntlid, Cqe, Qid, SglDescriptor, Sqe, Status, ZeroBased16};
use nvmfspec_benches::counting::{self, Counting};
use nvmfspec_benches::{SUBNQN, io, pdu};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Batches of commands that are counted, after those that let buffers grow.
const ROUNDS: u64 = 1000;
const WARM_UP: u64 = 10;
/// Most allocations a command.
const LIMIT: f64 = 0.01;
const LEN: u32 = 4096;
const BLOCKS: u16 = 8;
const NOW: Instant = Instant(1);

/// A device whose host's memory is all alike.
#[derive(Default)]
struct AtOnce {
    events: VecDeque<(QpId, DeviceEvent)>,
    receives: VecDeque<(QpId, WorkId)>,
    /// What READs find.
    memory: Bytes,
    responses: Vec<Cqe>,
}

impl AtOnce {
    fn send(&mut self, qp: QpId, data: Bytes) {
        let at = self.receives.iter().position(|(q, _)| *q == qp).expect("a receive");
        let (_, id) = self.receives.remove(at).expect("a receive");
        self.done(qp, id, Done::Received { data, invalidated: None });
    }

    fn done(&mut self, qp: QpId, id: WorkId, done: Done) {
        self.events.push_back((qp, DeviceEvent::Completed(Completion { id, result: Ok(done) })));
    }
}

impl Device for AtOnce {
    fn limits(&self) -> Limits {
        Limits { work: 256, reads: 16, transfer: 1 << 24, region: 1 << 30, sends_invalidate: true, takes_invalidate: true }
    }

    fn listen(&mut self, _: u16) -> Result<(), DeviceError> {
        Ok(())
    }

    fn connect(&mut self, _: Instant, _: SocketAddr, _: &Ask) -> Result<QpId, DeviceError> {
        Err(DeviceError::State)
    }

    fn accept(&mut self, _: Instant, qp: QpId, _: &Accept) -> Result<(), DeviceError> {
        self.events.push_back((qp, DeviceEvent::Cm(CmEvent::Established)));
        Ok(())
    }

    fn reject(&mut self, _: Instant, _: QpId, private: &[u8]) -> Result<(), DeviceError> {
        panic!("rejected: {private:?}")
    }

    fn disconnect(&mut self, _: Instant, _: QpId) {
        panic!("the target gave up")
    }

    fn destroy(&mut self, _: Instant, _: QpId) {}

    fn post(&mut self, _: Instant, qp: QpId, work: Work) -> Result<(), DeviceError> {
        match work {
            Work::Receive { id, .. } => self.receives.push_back((qp, id)),
            Work::Send { id, head, .. } => {
                self.responses.push(Cqe::read(head.as_slice()).expect("a CQE"));
                self.done(qp, id, Done::Sent);
            }
            Work::Read { id, len, .. } => {
                let data = self.memory.slice(..len as usize);
                self.done(qp, id, Done::Read(data));
            }
            Work::Write { id, .. } => self.done(qp, id, Done::Written),
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    fn deregister(&mut self, _: Rkey) -> Option<Memory> {
        None
    }

    fn poll_event(&mut self) -> Option<(QpId, DeviceEvent)> {
        self.events.pop_front()
    }
}

struct Rig {
    target: Target<AtOnce>,
    hub: Hub,
    next: u64,
}

const ADMIN: QpId = QpId(1);
const IO: QpId = QpId(2);

impl Rig {
    fn new(store: Arc<dyn Store>) -> Self {
        let mut hub = Hub::new(ControllerSettings::default());
        hub.add_subsystem(SUBNQN, None).expect("an NQN");
        hub.add_namespace(SUBNQN, 1, NewNamespace { store, blocking: false, uuid: None }).expect("a free NSID");
        let rdma = RdmaSettings::default();
        let advertise = "192.0.2.1:4420".parse().expect("an address");
        let transport = PortTransport::Rdma(rdma.capsules);
        hub.add_port(Port { id: 1, advertise, discovery_only: false, transport }).expect("a free port");
        let mut target = Target::new(AtOnce::default(), rdma);
        target.listen(4420, 1).expect("a port");
        let mut rig = Self { target, hub, next: 0 };
        let cntlid = Cntlid(rig.connect(ADMIN, 0, Cntlid::DYNAMIC).dw0() as u16);
        let enable = pdu::enable(Default::default());
        rig.exchange(ADMIN, &[Bytes::copy_from_slice(&enable[8..72])]);
        rig.connect(IO, 1, cntlid);
        rig
    }

    fn connect(&mut self, qp: QpId, qid: u16, cntlid: Cntlid) -> Cqe {
        let named = if qid == 0 { Cntlid(0) } else { cntlid };
        let private =
            RdmaRequest::new().with(|r| r.qid(Qid(qid)).hrqsize(64).hsqsize(ZeroBased16(63)).cntlid(named)).as_bytes().to_vec();
        let ask = Asked {
            from: "192.0.2.9:40000".parse().expect("an address"),
            to: "192.0.2.1:4420".parse().expect("an address"),
            private: [private, vec![0; 24]].concat().into(),
            responder_resources: 16,
            initiator_depth: 0,
            rnr_retry_count: 7,
            flow_control: true,
        };
        self.target.device.events.push_back((qp, DeviceEvent::Cm(CmEvent::Request(ask))));
        self.turn();
        let bytes = pdu::connect(Qid(qid), cntlid, 64, SUBNQN, Default::default());
        self.target.device.memory = Bytes::copy_from_slice(&bytes[72..]);
        let sqe = Sqe::read(&bytes[8..]).expect("an SQE").with_sgl1(keyed(1024));
        self.exchange(qp, &[Bytes::copy_from_slice(sqe.as_bytes())]);
        self.target.device.responses[0]
    }

    /// Commands, each to its end, all of them successful.
    fn exchange(&mut self, qp: QpId, capsules: &[Bytes]) {
        self.target.device.responses.clear();
        for c in capsules {
            self.target.device.send(qp, c.clone());
        }
        self.turn();
        let responses = &self.target.device.responses;
        assert_eq!(responses.len(), capsules.len());
        assert!(responses.iter().all(|r| r.status() == Status::SUCCESS), "{responses:?}");
    }

    fn turn(&mut self) {
        loop {
            self.target.turn(NOW, &mut self.hub, &mut self.next);
            let mut moved = false;
            while let Some((to, request)) = self.target.poll_store() {
                self.target.handle_store(NOW, to, request.execute());
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }

    fn per_command(&mut self, capsules: &[Bytes]) -> f64 {
        (0..WARM_UP).for_each(|_| self.exchange(IO, capsules));
        let before = counting::of_this_thread();
        (0..ROUNDS).for_each(|_| self.exchange(IO, capsules));
        (counting::of_this_thread() - before) as f64 / (ROUNDS * capsules.len() as u64) as f64
    }
}

fn keyed(len: u32) -> SglDescriptor {
    let k =
        SglKeyed::new().with(|s| s.addr(0x1000).len(len).key(7).kind(SglType::KEYED_DATA_BLOCK).sub(SglSubtype::INVALIDATE_KEY));
    SglDescriptor::from_bytes(*k.as_bytes())
}

#[test]
fn a_steady_run_allocates_nothing() {
    let geometry = Geometry { blocks: 65_536, block_size: 512 };
    let stores: [(&str, Arc<dyn Store>); 2] =
        [("no storage", Arc::new(NullStore::new(geometry))), ("memory", Arc::new(MemoryStore::new(geometry)))];
    let inline = SglDescriptor::in_capsule(0, LEN);
    let loads = [("Read", keyed(LEN), 0), ("Write", inline, LEN as usize), ("Write", keyed(LEN), 0)];
    let mut over = Vec::new();
    for (name, store) in &stores {
        for depth in [1, 32] {
            for (command, sgl, data) in loads {
                let mut rig = Rig::new(store.clone());
                rig.target.device.memory = Bytes::from(vec![9; LEN as usize]);
                let capsule = |n: u16| {
                    // CIDs as a host likes them: far apart and in no order.
                    let sqe = io(command, u64::from(BLOCKS * n), BLOCKS, sgl).with(|s| s.cid(Cid(n.wrapping_mul(0x9e37))));
                    Bytes::from([sqe.as_bytes(), &vec![7; data][..]].concat())
                };
                let capsules: Vec<Bytes> = (0..depth).map(capsule).collect();
                let n = rig.per_command(&capsules);
                let line = format!("{command}, {data} bytes in the capsule, {name}, depth {depth}: {n:.4} allocations a command");
                println!("{line}");
                if n > LIMIT {
                    over.push(line);
                }
            }
        }
    }
    assert!(over.is_empty(), "more than {LIMIT}:\n{}", over.join("\n"));
}
