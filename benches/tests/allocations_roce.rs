//! Allocations a packet through two software NICs, and memory of a queue pair that is idle. docs/performance.md says what the limits
//! are for.

use nvmfspec_benches::counting::{self, Counting};
use nvmfspec_benches::roce::{Exchange, Move, idle};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most allocations a packet.
const LIMIT: f64 = 0.01;
const ROUNDS: u64 = 400;

#[test]
fn a_steady_run_allocates_nothing() {
    let mut over = Vec::new();
    for moves in [Move::Nothing, Move::Write(4096), Move::Write(65_536), Move::Read(4096), Move::Read(65_536), Move::Read(1 << 20)]
    {
        for depth in [1, 32] {
            let mut exchange = Exchange::lending();
            if matches!(moves, Move::Write(_)) {
                exchange = Exchange::new();
            }
            let before = counting::of_this_thread();
            (0..20).for_each(|_| assert!(exchange.round(moves, depth) > 0));
            assert!(counting::of_this_thread() > before, "the allocator counts");
            let rounds = match moves {
                Move::Read(1_048_576) => 4,
                Move::Read(65_536) | Move::Write(65_536) => 50,
                _ => ROUNDS,
            };
            let before = counting::of_this_thread();
            let packets: u64 = (0..rounds).map(|_| exchange.round(moves, depth)).sum();
            let n = (counting::of_this_thread() - before) as f64 / packets as f64;
            let line = format!("{moves:?}, depth {depth}: {n:.4} allocations a packet, of {packets}");
            println!("{line}");
            if n > LIMIT {
                over.push(line);
            }
        }
    }
    assert!(over.is_empty(), "more than {LIMIT}:\n{}", over.join("\n"));
}

#[test]
fn ten_thousand_queue_pairs_take_less_than_400_mib() {
    const QPS: u32 = 10_000;
    let (nics, held) = counting::most_held(|| idle(QPS));
    // Both ends are here, and the most at a time is counted.
    let each = held / i64::from(QPS) / 2;
    let mib = held as f64 / 2.0 / f64::from(1 << 20);
    println!("{each} bytes an idle queue pair with 32 receives; {QPS} of them {mib:.1} MiB, goal 400 MiB");
    assert!(held / 2 < 400 << 20 && each > 500, "{held} bytes");
    drop(nics);
}
