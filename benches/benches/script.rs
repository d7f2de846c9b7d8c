//! Scripts to their syntax trees.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nvmf_scenario::parse::parse;
use nvmfspec_benches::{MEASUREMENT, WARM_UP};

const FILES: [(&str, &str); 2] = [
    ("icreq.check", include_str!("../../tests/checks/tcp/icreq.check")),
    ("tcp-data.fault", include_str!("../../tests/faults/tcp-data.fault")),
];

fn scripts(c: &mut Criterion) {
    let mut g = c.benchmark_group("script-parse");
    for (name, text) in FILES {
        g.throughput(Throughput::Bytes(text.len() as u64));
        g.bench_function(name, |b| b.iter(|| parse(name, black_box(text)).expect("a right script")));
        g.bench_function(format!("{name}-baseline-lines"), |b| b.iter(|| black_box(text).lines().map(str::len).sum::<usize>()));
    }
    g.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(WARM_UP).measurement_time(MEASUREMENT);
    targets = scripts
}
criterion_main!(benches);
