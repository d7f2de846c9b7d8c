//! Allocations a command on the way of the target: bytes in, engine, store, PDUs out, without sockets. The figure is a limit that a
//! change must not raise; docs/performance.md says what they are for.
#![allow(unsafe_code, reason = "a global allocator that counts cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use nvmf_engine::store::{MemoryStore, NullStore};
use nvmf_seam::{Geometry, Store};
use nvmf_wire::{Cid, SglDescriptor};
use nvmfspec_benches::{Rig, io};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no counter any more, and nothing to count.
        let _ = COUNT.try_with(|c| c.set(c.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above; the pointer came from `System`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = COUNT.try_with(|c| c.set(c.get() + 1));
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROUNDS: u64 = 1000;

/// Allocations of one command where `depth` capsules come at once, after a first round.
fn per_command(write: bool, depth: u16, digests: bool, store: Arc<dyn Store>) -> f64 {
    let mut rig = Rig::new(store, digests);
    let mut batch = Vec::new();
    for cid in 0..depth {
        let (name, sgl, data) = if write {
            ("Write", SglDescriptor::in_capsule(0, 4096), Bytes::from(vec![7; 4096]))
        } else {
            ("Read", SglDescriptor::transport(4096), Bytes::new())
        };
        batch.extend(rig.capsule(io(name, 8 * u64::from(cid), 8, sgl).with(|s| s.cid(Cid(cid))), data));
    }
    let mut out = Vec::with_capacity(256);
    let mut round = || {
        rig.exchange_into(1, &batch, &mut out);
        // C2HData and CapsuleResp, or CapsuleResp alone
        assert_eq!(out.len(), usize::from(depth) * if write { 1 } else { 2 });
        out.clear();
    };
    round();
    let before = COUNT.with(Cell::get);
    for _ in 0..ROUNDS {
        round();
    }
    let count = COUNT.with(Cell::get) - before;
    count as f64 / (ROUNDS * u64::from(depth)) as f64
}

#[test]
fn allocations_a_command_do_not_grow() {
    let geometry = Geometry { blocks: 65_536, block_size: 512 };
    let null: Arc<dyn Store> = Arc::new(NullStore::new(geometry));
    let memory: Arc<dyn Store> = Arc::new(MemoryStore::new(geometry));
    // Deeper than one node of an ordered map: 0.27 for the nodes that come and go. One for a read's buffer, or for the list of a
    // write's pieces. The last hundredth is for buffers that grow once more.
    let cases = [
        ("read, no storage", false, &null, [0.01, 0.28]),
        ("read, memory", false, &memory, [1.01, 1.28]),
        ("write, no storage", true, &null, [1.01, 1.28]),
        ("write, memory", true, &memory, [1.01, 1.28]),
    ];
    let mut over = Vec::new();
    for (name, write, store, limits) in cases {
        for (depth, limit) in [8, 30].into_iter().zip(limits) {
            for digests in [false, true] {
                let n = per_command(write, depth, digests, store.clone());
                let line = format!("{name}, depth {depth}, digests {digests}: {n:.3} allocations a command, at most {limit}");
                println!("{line}");
                if n > limit {
                    over.push(line);
                }
            }
        }
    }
    assert!(over.is_empty(), "{}", over.join("\n"));
}
