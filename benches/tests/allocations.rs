//! Allocations a command on the way of the target: bytes in, engine, store, PDUs out, without sockets. docs/performance.md says what
//! the limit is for.

use std::sync::Arc;

use bytes::Bytes;
use nvmf_engine::store::{MemoryStore, NullStore};
use nvmf_seam::{Geometry, Store};
use nvmf_wire::tcp::R2t;
use nvmf_wire::{Cid, SglDescriptor};
use nvmfspec_benches::counting::{self, Counting};
use nvmfspec_benches::{Rig, io, pdu};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Batches of commands that are counted, after those that let buffers grow.
const ROUNDS: u64 = 1000;
const WARM_UP: u64 = 10;
/// Most allocations a command.
const LIMIT: f64 = 0.01;
const LEN: u32 = 4096;
const BLOCKS: u16 = 8;

#[derive(Clone, Copy, Debug)]
enum Load {
    Read,
    WriteInCapsule,
    WriteByR2t,
}

struct Case {
    rig: Rig,
    load: Load,
    /// The capsules of one round.
    batch: Vec<u8>,
    /// One H2CData for each.
    data: Vec<Vec<u8>>,
    out: Vec<nvmf_seam::Transmit>,
    counted: u64,
}

impl Case {
    fn new(load: Load, depth: u16, digests: bool, store: Arc<dyn Store>) -> Self {
        let rig = Rig::new(store, digests);
        let (name, sgl, inline) = match load {
            Load::Read => ("Read", SglDescriptor::transport(LEN), Bytes::new()),
            Load::WriteInCapsule => ("Write", SglDescriptor::in_capsule(0, LEN), Bytes::from(vec![7; LEN as usize])),
            Load::WriteByR2t => ("Write", SglDescriptor::transport(LEN), Bytes::new()),
        };
        // CIDs as a host likes them: far apart and in no order.
        let cid = |n: u16| Cid(n.wrapping_mul(0x9e37));
        let capsule = |n| rig.capsule(io(name, u64::from(BLOCKS * n), BLOCKS, sgl).with(|s| s.cid(cid(n))), inline.clone());
        let batch = (0..depth).flat_map(capsule).collect();
        let one = pdu::h2c_data(vec![9; LEN as usize].into(), rig.digests());
        Self { rig, load, batch, data: vec![one; usize::from(depth)], out: Vec::with_capacity(256), counted: 0 }
    }

    /// All commands of a batch, each to its end. What the host has to do for it is not counted.
    fn round(&mut self) {
        self.exchange(None);
        let depth = self.data.len();
        match self.load {
            // C2HData and CapsuleResp
            Load::Read => assert_eq!(self.out.len(), 2 * depth),
            Load::WriteInCapsule => assert_eq!(self.out.len(), depth),
            Load::WriteByR2t => {
                assert_eq!(self.out.len(), depth);
                for n in 0..depth {
                    let r2t = R2t::read(self.out[n].head.as_slice()).expect("an R2T");
                    assert_eq!((r2t.r2to(), r2t.r2tl()), (0, LEN));
                    let digests = self.rig.digests();
                    pdu::address(&mut self.data[n], r2t.cccid(), r2t.ttag(), digests);
                }
                self.out.clear();
                // One by one, as they come from a host that answers R2Ts.
                (0..depth).for_each(|n| self.exchange(Some(n)));
                assert_eq!(self.out.len(), depth);
            }
        }
        self.out.clear();
    }

    fn exchange(&mut self, data: Option<usize>) {
        let before = counting::of_this_thread();
        self.rig.exchange_into(1, data.map_or(&self.batch, |n| &self.data[n]), &mut self.out);
        self.counted += counting::of_this_thread() - before;
    }

    fn per_command(&mut self) -> f64 {
        (0..WARM_UP).for_each(|_| self.round());
        assert!(self.counted > 0, "buffers grow in the first rounds: the allocator counts");
        self.counted = 0;
        (0..ROUNDS).for_each(|_| self.round());
        self.counted as f64 / (ROUNDS * self.data.len() as u64) as f64
    }
}

#[test]
fn a_steady_run_allocates_nothing() {
    let geometry = Geometry { blocks: 65_536, block_size: 512 };
    let stores: [(&str, Arc<dyn Store>); 2] =
        [("no storage", Arc::new(NullStore::new(geometry))), ("memory", Arc::new(MemoryStore::new(geometry)))];
    let mut over = Vec::new();
    for load in [Load::Read, Load::WriteInCapsule, Load::WriteByR2t] {
        for (name, store) in &stores {
            for (depth, digests) in [(1, false), (1, true), (32, false), (32, true)] {
                let n = Case::new(load, depth, digests, store.clone()).per_command();
                let line = format!("{load:?}, {name}, depth {depth}, digests {digests}: {n:.4} allocations a command");
                println!("{line}");
                if n > LIMIT {
                    over.push(line);
                }
            }
        }
    }
    assert!(over.is_empty(), "more than {LIMIT}:\n{}", over.join("\n"));
}
