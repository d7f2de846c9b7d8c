//! Commands through the controller's state machine: capsule in, store, PDUs out, all in memory and on one thread.

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nvmf_engine::store::{MemoryStore, NullStore};
use nvmf_seam::{Geometry, Store};
use nvmf_wire::SglDescriptor;
use nvmfspec_benches::{Rig, io};

const GEOMETRY: Geometry = Geometry { blocks: 65_536, block_size: 512 };
const LEN: usize = 4096;

fn stores() -> [(&'static str, Arc<dyn Store>); 2] {
    [("null", Arc::new(NullStore::new(GEOMETRY))), ("memory", Arc::new(MemoryStore::new(GEOMETRY)))]
}

fn read(c: &mut Criterion) {
    let mut g = c.benchmark_group("read-4k");
    g.throughput(Throughput::Bytes(LEN as u64));
    for (store, digests) in stores().into_iter().flat_map(|s| [(s.clone(), false), (s, true)]) {
        let mut rig = Rig::new(store.1, digests);
        let capsule = rig.capsule(io("Read", 8, 8, SglDescriptor::transport(4096)), Bytes::new());
        let name = format!("{}{}", store.0, if digests { "-digests" } else { "" });
        g.bench_function(name, |b| {
            b.iter(|| {
                let out = rig.exchange(1, black_box(&capsule));
                assert_eq!((out.len(), out[0].payload.len()), (2, LEN));
                out
            });
        });
    }
    baseline(&mut g);
    g.finish();
}

fn write(c: &mut Criterion) {
    let mut g = c.benchmark_group("write-4k-in-capsule");
    g.throughput(Throughput::Bytes(LEN as u64));
    for (store, digests) in stores().into_iter().flat_map(|s| [(s.clone(), false), (s, true)]) {
        let mut rig = Rig::new(store.1, digests);
        let capsule = rig.capsule(io("Write", 8, 8, SglDescriptor::in_capsule(0, 4096)), Bytes::from(vec![7; LEN]));
        let name = format!("{}{}", store.0, if digests { "-digests" } else { "" });
        g.bench_function(name, |b| {
            b.iter(|| {
                let out = rig.exchange(1, black_box(&capsule));
                assert_eq!(out.len(), 1);
                out
            });
        });
    }
    baseline(&mut g);
    g.finish();
}

/// The data once, from one buffer into another.
fn baseline(g: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>) {
    let (from, mut to) = (vec![7u8; LEN], vec![0u8; LEN]);
    g.bench_function("baseline-memcpy", |b| b.iter(|| to.copy_from_slice(black_box(&from))));
}

criterion_group!(benches, read, write);
criterion_main!(benches);
