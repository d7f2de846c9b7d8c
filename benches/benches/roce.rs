//! Packets through two software NICs, beside what cannot be saved of it: the copy of the payload into its region, and its ICRC twice.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nvmf_wire::roce::icrc;
use nvmfspec_benches::roce::{Exchange, Move};
use nvmfspec_benches::{MEASUREMENT, WARM_UP};

const DEPTH: u32 = 32;

fn commands(c: &mut Criterion) {
    let cases = [
        ("nothing", Move::Nothing, 0),
        ("write-4k", Move::Write(4096), 4096),
        ("write-64k", Move::Write(65_536), 65_536),
        ("read-4k", Move::Read(4096), 4096),
        ("read-64k", Move::Read(65_536), 65_536),
    ];
    for (name, moves, len) in cases {
        let mut g = c.benchmark_group(format!("roce-{name}"));
        let mut exchange = if matches!(moves, Move::Read(_)) { Exchange::lending() } else { Exchange::new() };
        let packets = exchange.round(moves, DEPTH);
        g.throughput(Throughput::Elements(packets));
        g.bench_function(format!("two-nics-{DEPTH}-commands"), |b| b.iter(|| exchange.round(black_box(moves), DEPTH)));
        // The same bytes copied once, and their ICRC computed by sender and receiver.
        let packet = vec![0x45u8; 64 + len.min(4096)];
        let mut packet = packet;
        packet[9] = 17;
        let mut to = vec![0u8; packet.len()];
        g.bench_function("baseline-copy-and-icrc", |b| {
            b.iter(|| {
                for _ in 0..packets {
                    let packet = black_box(&packet[..]);
                    to.copy_from_slice(packet);
                    black_box((icrc(packet), icrc(packet)));
                }
                black_box(&mut to);
            });
        });
        g.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(WARM_UP).measurement_time(MEASUREMENT);
    targets = commands
}
criterion_main!(benches);
