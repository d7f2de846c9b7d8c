//! Data of blocks: what a Read brings is what the Write before it carried. Only where nobody else writes
//! ([`super::Judge::exclusive`]), for a watcher sees no other hosts. [NVM Command Set 1.0, 2.1.2; NVM-RW-08]
//!
//! A block is remembered by the CRC-32C of its data. Whatever may have changed it otherwise, a write that is under way, failed or lost
//! its connection, makes it unknown.

use std::collections::BTreeMap;

use nvmf_spec::{Requirement, req};
use nvmf_wire::nvm::Read;
use nvmf_wire::sqe::IoOpcode;
use nvmf_wire::tcp::crc32c;
use nvmf_wire::{Cid, Cqe, Sqe, Status};

use super::state::State;
use super::{Out, Said};

/// Blocks that are remembered.
const MOST_BLOCKS: usize = 64 * 1024;
/// Bytes of one command that are kept while they move; commands of more are not judged.
const MOST_BYTES: u64 = 2 * 1024 * 1024;
/// Commands whose data is kept at a time, on one connection.
const MOST: usize = 64;

/// Subsystem and NSID.
type Place = (String, u32);

/// What was written, by namespace and block.
#[derive(Debug, Default)]
pub(super) struct Written {
    blocks: BTreeMap<Place, BTreeMap<u64, Block>>,
    count: usize,
    version: u64,
    /// Writes that were sent and are not over, those of connections that ended among them: first block, blocks, and whether
    /// another overlapped.
    flying: BTreeMap<u64, Flight>,
}

#[derive(Debug)]
struct Flight {
    place: Place,
    first: u64,
    blocks: u64,
    overlapped: bool,
}

/// Writes that are remembered as under way; with more nothing is judged any longer.
const MOST_FLIGHTS: usize = 8192;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    /// `None` where it was made unreadable.
    crc: Option<[u8; 4]>,
    /// What put it there.
    by: &'static Requirement,
    version: u64,
    size: u64,
}

/// A Read or Write under way.
#[derive(Debug)]
pub(super) struct Moving {
    place: Place,
    first: u64,
    blocks: u64,
    /// Its flight, where it changes blocks.
    flight: Option<u64>,
    /// It is a Write whose data is kept.
    write: bool,
    bytes: Vec<u8>,
    /// It is a Compare.
    compare: bool,
    /// What it makes of each block, where that is not its data.
    makes: Option<Block>,
    /// What was known of the blocks when a Read or Compare was sent.
    before: Vec<Option<Block>>,
    /// Data is missing or lies where it should not.
    torn: bool,
}

impl Written {
    fn forget(&mut self, place: &Place, first: u64, blocks: u64) {
        if let Some(map) = self.blocks.get_mut(place) {
            let gone: Vec<u64> = map.range(first..first.saturating_add(blocks)).map(|(lba, _)| *lba).collect();
            self.count -= gone.len();
            for lba in gone {
                map.remove(&lba);
            }
        }
    }

    /// Something changed that cannot be told.
    fn forget_all(&mut self) {
        self.blocks.clear();
        self.count = 0;
        for flight in self.flying.values_mut() {
            flight.overlapped = true;
        }
    }

    /// A write is sent. Where two overlap, what is there afterwards is unknown.
    fn fly(&mut self, place: &Place, first: u64, blocks: u64) -> u64 {
        self.forget(place, first, blocks);
        let end = first.saturating_add(blocks);
        let mut overlapped = self.flying.len() >= MOST_FLIGHTS;
        for f in self.flying.values_mut().filter(|f| f.place == *place && f.first < end && first < f.first.saturating_add(f.blocks))
        {
            f.overlapped = true;
            overlapped = true;
        }
        self.version += 1;
        if self.flying.len() < MOST_FLIGHTS {
            self.flying.insert(self.version, Flight { place: place.clone(), first, blocks, overlapped });
        }
        self.version
    }

    /// A write is over; whether it was alone all the time.
    fn land(&mut self, flight: u64) -> bool {
        self.flying.len() < MOST_FLIGHTS && self.flying.remove(&flight).is_some_and(|f| !f.overlapped)
    }

    fn keep(&mut self, place: &Place, lba: u64, block: Block) {
        if self.count < MOST_BLOCKS && self.blocks.entry(place.clone()).or_default().insert(lba, block).is_none() {
            self.count += 1;
        }
    }

    fn get(&self, place: &Place, lba: u64) -> Option<Block> {
        self.blocks.get(place)?.get(&lba).copied()
    }
}

/// A command was sent.
pub(super) fn command(state: &mut State, sqe: &Sqe, data: &[u8]) {
    let len = super::buffer(state, sqe).map_or(0, u64::from);
    let Some(written) = &mut state.written else { return };
    if sqe.fctype().is_some() {
        return;
    }
    if state.session.is_admin() {
        // Format NVM, Sanitize, namespaces made and deleted, firmware: any of them may change what blocks hold.
        if sqe.opc().0 & 0x80 != 0 || matches!(sqe.opc().0, 0x0d | 0x10 | 0x15) {
            written.forget_all();
        }
        return;
    }
    let Some(who) = &state.known.who else { return written.forget_all() };
    let place = (who.subnqn.clone(), sqe.nsid().0);
    let read = Read::from_bytes(*sqe.as_bytes());
    let (first, blocks) = (read.slba(), read.nlb().count());
    match IoOpcode(sqe.opc().0) {
        o @ (IoOpcode::READ | IoOpcode::COMPARE | IoOpcode::WRITE | IoOpcode::WRITE_ZEROES | IoOpcode::WRITE_UNCORRECTABLE) => {
            let compare = o == IoOpcode::COMPARE;
            let (reads, write) = (o == IoOpcode::READ || compare, o == IoOpcode::WRITE || compare);
            let size = state.known.spaces.get(&sqe.nsid().0).map(|s| s.block).filter(|b| (512..=65536).contains(b));
            let makes = size.and_then(|size| made(o, size));
            let plain = len <= MOST_BYTES && len > 0 && len.is_multiple_of(blocks) && read.prinfo() & 8 == 0 && sqe.fuse() == 0;
            let kept = (reads || write) && plain && state.moving.len() < MOST;
            let known = |n| written.get(&place, first.wrapping_add(n));
            let before = if reads && kept { (0..blocks).map(known).collect() } else { Vec::new() };
            let flight = (!reads).then(|| written.fly(&place, first, blocks));
            let bytes = if kept { data.to_vec() } else { Vec::new() };
            let moving = Moving { place, first, blocks, flight, write, compare, makes, bytes, before, torn: !kept };
            state.moving.insert(sqe.cid().0, moving);
        }
        IoOpcode::FLUSH | IoOpcode::VERIFY => {}
        o if (0x0d..=0x15).contains(&o.0) => {}
        _ => written.forget_all(),
    }
}

/// What a command without data makes of a block.
fn made(opcode: IoOpcode, size: u64) -> Option<Block> {
    match opcode {
        IoOpcode::WRITE_ZEROES => {
            let crc = crc32c(&vec![0; usize::try_from(size).ok()?]);
            Some(Block { crc: Some(crc), by: req::NVM_RW_20, version: 0, size })
        }
        IoOpcode::WRITE_UNCORRECTABLE => Some(Block { crc: None, by: req::NVM_RW_32, version: 0, size }),
        _ => None,
    }
}

/// Data of a command moved, `write` from the host; `sound` where it is what was sent.
pub(super) fn moved(state: &mut State, cid: Cid, offset: u64, write: bool, data: &[u8], sound: bool) {
    let Some(m) = state.moving.get_mut(&cid.0).filter(|m| m.write == write && !m.torn) else { return };
    let sound = sound && offset == m.bytes.len() as u64 && (m.bytes.len() + data.len()) as u64 <= MOST_BYTES;
    m.torn |= !sound;
    if sound {
        m.bytes.extend_from_slice(data);
    }
}

/// Compares what a Read brought, once it has succeeded.
pub(super) fn check(state: &State, sqe: &Sqe, cqe: &Cqe, who: Said, out: &mut Out) {
    let (Some(written), Some(m)) = (&state.written, state.moving.get(&sqe.cid().0)) else { return };
    if m.compare {
        return compare(written, m, cqe, who, out);
    }
    if m.write || m.torn || !cqe.status().is_success() || m.bytes.is_empty() {
        return;
    }
    let size = m.bytes.len() as u64 / m.blocks;
    for (n, (data, before)) in m.bytes.chunks_exact(usize::try_from(size).unwrap_or(1).max(1)).zip(&m.before).enumerate() {
        let lba = m.first.wrapping_add(n as u64);
        let Some(block) = before.filter(|b| b.size == size && written.get(&m.place, lba) == Some(*b)) else { continue };
        if Some(crc32c(data)) != block.crc {
            let seen = format_args!("{who}: block {lba} of NSID {} is not what was written last", m.place.1);
            return out.add(block.by, seen, "what the command made of it that was completed before");
        }
    }
}

/// A Compare against blocks that are all known: it fails with any difference, and succeeds without. [NVM-RW-18]
fn compare(written: &Written, m: &Moving, cqe: &Cqe, who: Said, out: &mut Out) {
    let size = m.bytes.len() as u64 / m.blocks;
    if m.torn || size == 0 || m.before.len() as u64 != m.blocks {
        return;
    }
    let mut same = true;
    for (n, (data, before)) in m.bytes.chunks_exact(usize::try_from(size).unwrap_or(1).max(1)).zip(&m.before).enumerate() {
        let lba = m.first.wrapping_add(n as u64);
        let Some(crc) = before.filter(|b| b.size == size && written.get(&m.place, lba) == Some(*b)).and_then(|b| b.crc) else {
            return;
        };
        same &= crc == crc32c(data);
    }
    let failed = cqe.status().code() == Status::COMPARE_FAILURE;
    let wrong = same && failed || !same && cqe.status().is_success();
    out.check(
        !wrong,
        req::NVM_RW_18,
        format_args!("{who}: {} where the data is {}", cqe.status(), if same { "the same" } else { "not" }),
        "Compare Failure with a difference, and only then",
    );
}

/// A command is over.
pub(super) fn done(state: &mut State, cid: u16, success: bool) {
    let Some(m) = state.moving.remove(&cid) else { return };
    let (Some(written), Some(flight)) = (&mut state.written, m.flight) else { return };
    let alone = written.land(flight);
    if let (Some(made), true) = (m.makes, alone && success) {
        for n in 0..m.blocks.min(MOST_BLOCKS as u64) {
            written.version += 1;
            let block = Block { version: written.version, ..made };
            written.keep(&m.place, m.first.wrapping_add(n), block);
        }
        return;
    }
    let whole = !m.bytes.is_empty() && (m.bytes.len() as u64).is_multiple_of(m.blocks);
    if !(alone && m.write && success && !m.torn && whole) {
        return;
    }
    let size = m.bytes.len() as u64 / m.blocks;
    for (n, data) in m.bytes.chunks_exact(usize::try_from(size).unwrap_or(1).max(1)).enumerate() {
        written.version += 1;
        let block = Block { crc: Some(crc32c(data)), by: req::NVM_RW_08, version: written.version, size };
        written.keep(&m.place, m.first.wrapping_add(n as u64), block);
    }
}
