//! Commands through the controller's state machine (capsule in, store, PDUs out) and through both ends' (submission to completion),
//! all in memory and on one thread.

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nvmf_engine::host::{Payload, command};
use nvmf_engine::store::{MemoryStore, NullStore};
use nvmf_seam::{Geometry, Store};
use nvmf_wire::{Nsid, SglDescriptor};
use nvmfspec_benches::pair::Pair;
use nvmfspec_benches::{MEASUREMENT, Rig, WARM_UP, io};

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
    baseline(&mut g, LEN);
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
    baseline(&mut g, LEN);
    g.finish();
}

/// A command from its submission at the host to its completion there, through both ends.
fn both_ends(c: &mut Criterion) {
    for (name, write, len) in [("read-4k", false, 4096), ("write-4k", true, 4096), ("write-128k", true, 128 * 1024)] {
        let mut g = c.benchmark_group(format!("both-ends-{name}"));
        g.throughput(Throughput::Bytes(u64::from(len)));
        let data = Bytes::from(vec![7; len as usize]);
        for (store, digests) in stores().into_iter().flat_map(|s| [(s.clone(), false), (s, true)]) {
            let mut pair = Pair::new(store.1, digests);
            let name = format!("{}{}", store.0, if digests { "-digests" } else { "" });
            g.bench_function(name, |b| {
                b.iter(|| {
                    let blocks = len / GEOMETRY.block_size;
                    let done = if write {
                        pair.execute(command::write(Nsid(1), 8, blocks), Payload::Out(black_box(&data).clone()))
                    } else {
                        pair.execute(command::read(Nsid(1), 8, blocks), Payload::In(len))
                    };
                    assert!(done.status().is_success());
                    done
                });
            });
        }
        baseline(&mut g, len as usize);
        g.finish();
    }
}

/// The data once, from one buffer into another.
fn baseline(g: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>, len: usize) {
    let (from, mut to) = (vec![7u8; len], vec![0u8; len]);
    g.bench_function("baseline-memcpy", |b| b.iter(|| to.copy_from_slice(black_box(&from))));
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(WARM_UP).measurement_time(MEASUREMENT);
    targets = read, write, both_ends
}
criterion_main!(benches);
