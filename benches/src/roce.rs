//! Two software NICs back to back, moving what NVMe/RDMA commands move: capsule by SEND, data by WRITE or READ, response by SEND.

use std::net::IpAddr;

use bytes::Bytes;
use nvmf_roce::testing::Pair;
use nvmf_roce::{Nic, NicSettings};
use nvmf_seam::rdma::{Access, Completion, Device, DeviceEvent, Done, Memory, QpId, Remote, Work, WorkId};
use nvmf_seam::{Head, Instant};

/// What one command moves beside its capsule and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Nothing.
    Nothing,
    /// So many bytes by WRITE of the controller.
    Write(u32),
    /// So many bytes by READ of the controller.
    Read(u32),
}

/// Host (`0`) and controller (`1`) with one connection.
pub struct Exchange {
    nics: [Nic; 2],
    qps: [QpId; 2],
    at: Remote,
    data: Bytes,
    now: Instant,
}

const REGION: usize = 1 << 20;

impl Exchange {
    /// A connection with path MTU 4096, ready for commands of at most 1 MiB.
    pub fn new() -> Self {
        let mut pair = Pair::new(1, |s: &mut NicSettings| s.link_mtu = 9000);
        let (a, b) = pair.connect(&Pair::ask(), &Pair::accept()).expect("a connection");
        let now = pair.now;
        let access = Access { read: true, write: true };
        pair.nics[0].post(now, a, Work::Register { id: WorkId(0), memory: Memory::zeroed(REGION), access }).expect("a region");
        let Some((_, DeviceEvent::Completed(Completion { result: Ok(Done::Registered(at)), .. }))) = pair.nics[0].poll_event()
        else {
            unreachable!("registration completes at once");
        };
        let mut out = Self { nics: pair.nics, qps: [a, b], at, data: Bytes::from_static(&[7; REGION]), now };
        for side in 0..2 {
            (0..256).for_each(|_| out.post(side, Work::Receive { id: WorkId(0), len: 8192 }));
        }
        out
    }

    /// The same, but for READs, which lend what they bring instead of copying it: the region is shared memory.
    pub fn lending() -> Self {
        let mut out = Self::new();
        let access = Access { read: true, write: false };
        let memory = Memory::shared(out.data.clone());
        let (now, qp) = (out.now, out.qps[0]);
        out.nics[0].post(now, qp, Work::Register { id: WorkId(0), memory, access }).expect("a region");
        if let Some((_, DeviceEvent::Completed(Completion { result: Ok(Done::Registered(at)), .. }))) = out.nics[0].poll_event() {
            out.at = at;
        }
        out
    }

    fn post(&mut self, side: usize, work: Work) {
        self.nics[side].post(self.now, self.qps[side], work).expect("room for work");
    }

    /// `depth` commands, all at once, each to its response. Gives the packets that crossed.
    pub fn round(&mut self, moves: Move, depth: u32) -> u64 {
        let send =
            |len: usize| Work::Send { id: WorkId(1), head: Head::new(&[0; 64][..len]), payload: Bytes::new(), invalidate: None };
        (0..depth).for_each(|_| self.post(0, send(64)));
        let (mut packets, mut answered) = (0, 0);
        while answered < depth {
            let mut moved = false;
            for side in 0..2 {
                while let Some(d) = self.nics[side].poll_datagram(self.now) {
                    self.nics[1 - side].handle_parts(self.now, &d);
                    packets += 1;
                    moved = true;
                }
                while let Some((_, event)) = self.nics[side].poll_event() {
                    let DeviceEvent::Completed(Completion { result, .. }) = event else { continue };
                    moved = true;
                    match result.expect("no error") {
                        Done::Received { .. } => {
                            self.post(side, Work::Receive { id: WorkId(0), len: 8192 });
                            answered += u32::from(side == 0);
                            match moves {
                                _ if side == 0 => {}
                                Move::Nothing => self.post(1, send(16)),
                                Move::Write(len) => {
                                    let data = self.data.slice(..len as usize);
                                    self.post(1, Work::Write { id: WorkId(2), to: self.at, data });
                                    self.post(1, send(16));
                                }
                                Move::Read(len) => self.post(1, Work::Read { id: WorkId(3), from: self.at, len }),
                            }
                        }
                        Done::Read(_) => self.post(1, send(16)),
                        _ => {}
                    }
                }
            }
            assert!(moved, "stands still");
        }
        packets
    }
}

impl Default for Exchange {
    fn default() -> Self {
        Self::new()
    }
}

/// Two NICs of which the first has `n` idle connections to the second.
pub fn idle(n: u32) -> [Nic; 2] {
    let change = |s: &mut NicSettings| (s.max_qps, s.max_half_open) = (n, n);
    let mut pair = Pair::new(2, change);
    let address: IpAddr = Pair::ADDRESSES[1];
    pair.nics[1].listen(4420).expect("listens");
    for _ in 0..n {
        let now = pair.now;
        let qp = pair.nics[0].connect(now, (address, 4420).into(), &Pair::ask()).expect("a queue pair");
        pair.settle();
        while let Some((qp, event)) = pair.nics[1].poll_event() {
            if matches!(event, DeviceEvent::Cm(nvmf_seam::rdma::CmEvent::Request(_))) {
                // As an I/O queue of 32 commands has them.
                for id in 0..32 {
                    pair.nics[1].post(now, qp, Work::Receive { id: WorkId(id), len: 8192 }).expect("room");
                }
                pair.nics[1].accept(now, qp, &Pair::accept()).expect("accepts");
            }
        }
        for id in 0..32 {
            pair.nics[0].post(now, qp, Work::Receive { id: WorkId(id), len: 16 }).expect("room");
        }
        pair.settle();
        pair.nics.iter_mut().for_each(|nic| while nic.poll_event().is_some() {});
    }
    pair.nics
}
