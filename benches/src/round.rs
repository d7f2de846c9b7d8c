//! What is measured over sockets, and how: rounds in which raw loop, plain and digests take turns, so that a busy moment of the
//! machine falls on all of them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::lean::LeanHost;
use crate::raw::{RawLoop, Sizes};

/// Bytes a logical block.
pub const BLOCK: u32 = 512;
/// Blocks of the namespace: 64 MiB.
pub const BLOCKS: u64 = 131_072;
/// Bytes that a client reads at once.
pub const READ: usize = 256 * 1024;
/// Bytes of PDU headers of a read, both directions apart: CapsuleCmd; C2HData and CapsuleResp. A write: CapsuleCmd and H2CData; R2T
/// and CapsuleResp.
const CAPSULE: usize = 72;
const HEADER: usize = 24;

/// One kind of load.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// For tables and files.
    pub name: &'static str,
    /// Write rather than read.
    pub write: bool,
    /// Bytes a command.
    pub len: u32,
    /// Commands under way.
    pub depth: u16,
    /// Part of the raw loop that is to be reached, without digests.
    pub goal: Option<f64>,
}

/// All kinds.
pub const WORKS: [Work; 5] = [
    Work { name: "read-4k-depth-1", write: false, len: 4096, depth: 1, goal: None },
    Work { name: "read-4k-depth-32", write: false, len: 4096, depth: 32, goal: Some(0.15) },
    Work { name: "read-4k-depth-128", write: false, len: 4096, depth: 128, goal: None },
    Work { name: "read-128k-depth-32", write: false, len: 131_072, depth: 32, goal: Some(0.25) },
    Work { name: "write-128k-depth-32", write: true, len: 131_072, depth: 32, goal: None },
];

impl Work {
    /// What the same bytes are without a protocol.
    pub fn sizes(&self) -> Sizes {
        let len = self.len as usize;
        if self.write {
            Sizes { request: CAPSULE + HEADER + len, answer: 2 * HEADER }
        } else {
            Sizes { request: CAPSULE, answer: 2 * HEADER + len }
        }
    }
}

/// Commands done in a time.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Commands.
    pub done: u64,
    /// From the first byte sent to the last received.
    pub time: Duration,
}

impl Rate {
    /// Commands a second.
    pub fn per_second(&self) -> f64 {
        self.done as f64 / self.time.as_secs_f64()
    }
}

/// Commands a second of one kind of load in one round.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The raw loop.
    pub raw: f64,
    /// The target.
    pub plain: f64,
    /// The target, with header and data digests.
    pub digests: f64,
}

/// Lowest, middle and highest of several rounds.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// Lowest.
    pub min: f64,
    /// The middle one; of an even number the upper of the two.
    pub median: f64,
    /// Highest.
    pub max: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut v: Vec<f64> = values.collect();
        v.sort_by(f64::total_cmp);
        let at = |i: usize| v.get(i).copied().unwrap_or(f64::NAN);
        Self { min: at(0), median: at(v.len() / 2), max: at(v.len().saturating_sub(1)) }
    }
}

/// One round of one kind of load; each part is warmed up for a fifth of `time` first.
pub fn sample(target: SocketAddr, subnqn: &str, work: &Work, time: Duration) -> io::Result<Sample> {
    let depth = usize::from(work.depth);
    let mut raw = RawLoop::start(work.sizes())?;
    raw.run(depth, time / 5)?;
    let raw = raw.run(depth, time)?.per_second();
    let of = |digests| -> io::Result<f64> {
        let mut host = LeanHost::connect(target, subnqn, digests)?;
        host.run(work, time / 5)?;
        Ok(host.run(work, time)?.per_second())
    };
    Ok(Sample { raw, plain: of(false)?, digests: of(true)? })
}
