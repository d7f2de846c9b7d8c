//! [`Crew`]: a host of a fleet: its station, its association, and what it does with it.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use bytes::Bytes;
use hdrhistogram::Histogram;
use nvmf_engine::host::{Completion, Event, HostSettings, Payload, command};
use nvmf_engine::rdma::{HostId, Initiator};
use nvmf_roce::Nic;
use nvmf_seam::rdma::{Memory, Place};
use nvmf_seam::{Entropy, Instant, SplitMix64};
use nvmf_wire::{Cid, Nsid, Qid};

use super::blocks::Blocks;
use crate::lan::Lan;
use crate::scene::HostSpec;
use crate::station::Station;

/// From the loss of an association to the next try.
const AGAIN: Duration = Duration::from_millis(100);
/// Bytes of one read when everything is read back.
const READ_BACK: usize = 128 << 10;
/// Violations that are told for each host.
const VIOLATIONS_MAX: usize = 16;

/// What a host is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing, until then.
    Waiting(Instant),
    /// The association is on its way up.
    Rising,
    /// Reads and writes.
    Working,
    /// All of it is done; everything is read back once the network is healed.
    Done,
    ReadingBack,
    /// The association is on its way down.
    Leaving,
    Over,
}

/// A command that is out.
#[derive(Clone, Debug)]
struct Op {
    at: usize,
    count: usize,
    /// The number of the write; `None` for a read.
    write: Option<u32>,
    /// It reads back, and does not count as work.
    back: bool,
    since: Instant,
}

/// What a host has done, for a report.
#[derive(Clone, Debug)]
pub struct HostReport {
    /// Name.
    pub name: String,
    /// Reads that ended well.
    pub reads: u64,
    /// Writes that ended well.
    pub writes: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Associations that were lost, or did not come up.
    pub lost: u64,
    /// Times of reads and writes, nanoseconds.
    pub times: Histogram<u64>,
    /// From the first command to the last answer.
    pub took: Duration,
    /// Payload bytes that a CPU of the host touched.
    pub touched: u64,
}

/// The data of a write. What lies in the host's memory may go in the capsule.
fn data_of(place: Place, data: Bytes) -> Payload {
    match place {
        Place::Host => Payload::Out(data),
        Place::Gpu => Payload::OutOf(Memory::shared(data).at(place)),
    }
}

/// Room for the data of a read.
fn room_at(place: Place, len: usize) -> Payload {
    match place {
        Place::Host => Payload::In(len as u32),
        Place::Gpu => Payload::Into(Memory::zeroed(len).at(place)),
    }
}

pub(super) struct Crew {
    pub station: Station,
    pub initiator: Initiator<Nic>,
    spec: HostSpec,
    to: SocketAddr,
    settings: HostSettings,
    first_block: u64,
    block: usize,
    blocks: Blocks,
    random: SplitMix64,
    phase: Phase,
    association: Option<HostId>,
    out: BTreeMap<(Qid, Cid), Op>,
    left: u32,
    back: Vec<(usize, usize)>,
    healed: bool,
    pub report: HostReport,
    begun: Option<Instant>,
    pub violations: Vec<String>,
}

/// What a crew is made of.
pub(super) struct CrewSettings {
    pub station: Station,
    pub nic: Nic,
    pub spec: HostSpec,
    pub to: SocketAddr,
    pub settings: HostSettings,
    /// Block size, bytes.
    pub block: u32,
    /// Its part of the namespace begins there.
    pub first_block: u64,
    pub number: u32,
    pub seed: u64,
}

impl Crew {
    pub fn new(s: CrewSettings) -> Result<Self, String> {
        let CrewSettings { station, nic, spec, to, settings, block, first_block, number, seed } = s;
        // 3 digits, up to an hour
        let times = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).map_err(|e| e.to_string())?;
        let report =
            HostReport { name: spec.name.clone(), reads: 0, writes: 0, bytes: 0, lost: 0, times, took: Duration::ZERO, touched: 0 };
        Ok(Self {
            station,
            initiator: Initiator::new(nic),
            to,
            settings,
            first_block,
            block: block as usize,
            blocks: Blocks::new(number, block as usize, (spec.span / block) as usize),
            random: SplitMix64::new(seed),
            phase: Phase::Waiting(Instant::START + spec.from),
            association: None,
            out: BTreeMap::new(),
            left: spec.ops,
            back: Vec::new(),
            healed: false,
            report,
            begun: None,
            violations: Vec::new(),
            spec,
        })
    }

    /// The network is healed: once its work is done, a host reads back what it wrote, and leaves.
    pub fn heal(&mut self) {
        self.healed = true;
    }

    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// What is still to be done, for a report.
    pub fn unfinished(&self) -> Option<String> {
        let (out, left) = (self.out.len(), self.left);
        (!self.is_over())
            .then(|| format!("{:?}: {out} commands out, {left} not done, {} ranges to read back", self.phase, self.back.len()))
    }

    /// When [`Crew::turn`] has something to do.
    pub fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        let own = match self.phase {
            Phase::Waiting(until) => Some(until),
            _ => None,
        };
        let station = self.station.poll_timeout(now, self.initiator.device_mut());
        [own, station, self.initiator.poll_timeout()].into_iter().flatten().min()
    }

    /// Does what is due and what follows from what came.
    pub fn turn(&mut self, now: Instant, lan: &mut Lan) {
        self.station.handle_timeout(now, self.initiator.device_mut());
        loop {
            self.initiator.turn(now);
            let mut moved = false;
            while let Some((id, event)) = self.initiator.poll_event() {
                if Some(id) == self.association {
                    self.event(now, event);
                }
                moved = true;
            }
            moved |= self.act(now);
            if !moved {
                break;
            }
        }
        self.station.flush(now, lan, self.initiator.device_mut());
    }

    fn violation(&mut self, what: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(format!("{}: {what}", self.spec.name));
        }
    }

    fn event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Ready => {
                self.begun.get_or_insert(now);
                self.phase = if self.left > 0 { Phase::Working } else { Phase::Done };
            }
            Event::Completed(qid, done) => self.completed(now, qid, done),
            Event::Violation(_, v) => self.violation(format!("the target broke {v:?}")),
            Event::Ended => self.end(now, Phase::Over),
            Event::Failed(_) => {
                self.report.lost += 1;
                let next = if self.phase == Phase::Leaving { Phase::Over } else { Phase::Waiting(now + AGAIN) };
                self.end(now, next);
            }
            _ => {}
        }
    }

    /// The association is over.
    fn end(&mut self, now: Instant, next: Phase) {
        let gone = self.association.take().and_then(|id| self.initiator.remove(id, now));
        self.report.touched += gone.map_or(0, |a| a.touched());
        for op in std::mem::take(&mut self.out).into_values() {
            self.failed(op);
        }
        self.phase = next;
    }

    /// A command had no answer: it may have been done, and is done again in another way.
    fn failed(&mut self, op: Op) {
        self.blocks.set_busy(op.at, op.count, false);
        match op.write {
            _ if op.back => self.back.push((op.at, op.count)),
            Some(write) => {
                self.blocks.unknown(op.at, op.count, write);
                self.left += 1;
            }
            None => self.left += 1,
        }
    }

    fn completed(&mut self, now: Instant, qid: Qid, done: Completion) {
        if qid == Qid::ADMIN {
            return;
        }
        let Some(op) = self.out.remove(&(qid, done.cid)) else {
            self.violation(format!("command {:?} of queue {qid:?} ended twice, or was never sent", done.cid));
            return;
        };
        if done.local.is_some() {
            self.failed(op);
            return;
        }
        if !done.status().is_success() {
            self.violation(format!("a command ended with {}", done.status()));
            self.failed(op);
            return;
        }
        self.blocks.set_busy(op.at, op.count, false);
        match op.write {
            Some(write) => self.blocks.acknowledged(op.at, op.count, write),
            None => {
                let lent = done.memory.map(|m| [m.into_bytes()]);
                let pieces = lent.as_ref().map_or(done.data.pieces(), |m| &m[..]);
                if let Err(wrong) = self.blocks.check(op.at, op.count, pieces) {
                    self.violation(wrong.to_string());
                }
            }
        }
        if !op.back {
            self.count(now, &op);
        }
    }

    fn count(&mut self, now: Instant, op: &Op) {
        let r = &mut self.report;
        match op.write {
            Some(_) => r.writes += 1,
            None => r.reads += 1,
        }
        r.bytes += (op.count * self.block) as u64;
        r.times.saturating_record((now.since(op.since).as_nanos() as u64).max(1));
        r.took = now.since(self.begun.unwrap_or(now));
    }

    /// What the host does by itself; true where it did something.
    fn act(&mut self, now: Instant) -> bool {
        match self.phase {
            Phase::Waiting(until) if until <= now => {
                self.association = Some(self.initiator.connect(self.to, self.settings.clone(), now));
                self.phase = Phase::Rising;
                true
            }
            Phase::Working if self.left == 0 && self.out.is_empty() => {
                self.phase = Phase::Done;
                true
            }
            Phase::Working => self.work(now),
            Phase::Done if self.healed => {
                self.back = self.blocks.written((READ_BACK / self.block).max(1));
                self.phase = Phase::ReadingBack;
                true
            }
            Phase::ReadingBack if self.back.is_empty() && self.out.is_empty() => {
                if let Some(a) = self.association.and_then(|id| self.initiator.host_mut(id)) {
                    a.shutdown(now);
                }
                self.phase = Phase::Leaving;
                true
            }
            Phase::ReadingBack => self.read_back(now),
            _ => false,
        }
    }

    fn work(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while self.left > 0 && self.out.len() < usize::from(self.spec.depth) {
            let write = self.random.below(100) >= u64::from(self.spec.reads);
            let (least, most) = (self.spec.size.0 as usize / self.block, self.spec.size.1 as usize / self.block);
            let count = least + self.random.below((most - least) as u64 + 1) as usize;
            let Some(at) = self.blocks.choose(count, write, &mut self.random) else { break };
            let op = Op { at, count, write: None, back: false, since: now };
            if !self.submit(now, op, write) {
                break;
            }
            self.left -= 1;
            moved = true;
        }
        moved
    }

    fn read_back(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while self.out.len() < usize::from(self.spec.depth)
            && let Some((at, count)) = self.back.last().copied()
        {
            if !self.submit(now, Op { at, count, write: None, back: true, since: now }, false) {
                break;
            }
            self.back.pop();
            moved = true;
        }
        moved
    }

    /// Submits a command; false where the queue takes none now.
    fn submit(&mut self, now: Instant, mut op: Op, write: bool) -> bool {
        let Some(association) = self.association.and_then(|id| self.initiator.host_mut(id)) else { return false };
        let Some(qid) = association.io_queues().next().filter(|q| association.room(*q) > 0) else { return false };
        let (lba, blocks) = (self.first_block + op.at as u64, op.count as u32);
        let (sqe, payload) = match write {
            true => {
                let (number, data) = self.blocks.write(op.at, op.count);
                op.write = Some(number);
                (command::write(Nsid(1), lba, blocks), data_of(self.spec.memory, data))
            }
            false => (command::read(Nsid(1), lba, blocks), room_at(self.spec.memory, op.count * self.block)),
        };
        match association.submit(qid, sqe, payload, now) {
            Ok(cid) => {
                self.blocks.set_busy(op.at, op.count, true);
                if self.out.insert((qid, cid), op).is_some() {
                    self.violation(format!("two commands of queue {qid:?} have {cid:?}"));
                }
                true
            }
            Err(_) => false,
        }
    }
}
