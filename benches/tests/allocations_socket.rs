//! Allocations a command of a whole target: socket, driver, engine and store. The load generator's thread stands apart.

use std::time::Duration;

use nvmfspec_benches::SUBNQN;
use nvmfspec_benches::counting::{self, Counting};
use nvmfspec_benches::lean::LeanHost;
use nvmfspec_benches::round::Work;
use nvmfspec_benches::served;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most allocations a command.
const LIMIT: f64 = 0.01;
const WARM_UP: Duration = Duration::from_millis(100);
const TIME: Duration = Duration::from_millis(400);

#[test]
fn a_steady_run_allocates_nothing() {
    counting::stand_apart();
    let target = served::target().expect("a target");
    let mut over = Vec::new();
    for (write, depth, digests) in
        [false, true].into_iter().flat_map(|w| [(w, 1, false), (w, 32, false), (w, 1, true), (w, 32, true)])
    {
        let name = if write { "write by R2T" } else { "read" };
        let work = Work { name, write, len: 4096, depth, goal: None };
        let before = counting::of_the_others();
        let mut host = LeanHost::connect(target.address(), SUBNQN, digests).expect("an association");
        host.run(&work, WARM_UP).expect("commands");
        assert!(counting::of_the_others() > before, "an association takes memory: the allocator counts");
        let before = counting::of_the_others();
        let done = host.run(&work, TIME).expect("commands").done;
        let n = (counting::of_the_others() - before) as f64 / done as f64;
        let line = format!("{name}, depth {depth}, digests {digests}: {n:.4} allocations a command, of {done}");
        println!("{line}");
        if n > LIMIT {
            over.push(line);
        }
    }
    assert!(over.is_empty(), "more than {LIMIT}:\n{}", over.join("\n"));
}
