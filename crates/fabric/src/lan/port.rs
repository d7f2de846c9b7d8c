//! [`Port`]: one end of a link, with what waits to be sent there.

use std::collections::VecDeque;

use nvmf_seam::Instant;

use super::frame::{Frame, Mac};
use super::link::Way;
use super::stats::PortStats;

/// Where a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    Station,
    Switch(u32),
}

/// A frame in the world.
#[derive(Debug)]
pub(super) struct Held {
    pub frame: Frame,
    /// Bytes without FCS.
    pub len: u32,
    pub priority: u8,
    /// The switch port that it came in at and is counted at.
    pub ingress: Option<u32>,
}

/// All frames that wait or are on their way, by number.
#[derive(Debug, Default)]
pub(super) struct Frames {
    slots: Vec<Option<Held>>,
    free: Vec<u32>,
}

impl Frames {
    pub fn put(&mut self, held: Held) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = Some(held);
                at
            }
            None => {
                self.slots.push(Some(held));
                (self.slots.len() - 1) as u32
            }
        }
    }

    pub fn take(&mut self, at: u32) -> Option<Held> {
        let held = self.slots.get_mut(at as usize)?.take();
        if held.is_some() {
            self.free.push(at);
        }
        held
    }

    pub fn get(&self, at: u32) -> Option<&Held> {
        self.slots.get(at as usize)?.as_ref()
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// One end of a link. Priorities take turns, frame by frame; MAC control goes before all of them and is never paused.
#[derive(Debug)]
pub(super) struct Port {
    pub owner: Owner,
    /// Name of the node that it belongs to.
    pub name: String,
    pub mac: Mac,
    /// The direction from here.
    pub way: Way,
    control: VecDeque<u32>,
    queues: [VecDeque<u32>; 8],
    /// Bytes in each queue.
    pub queued: [u32; 8],
    turn: usize,
    paused_until: [Instant; 8],
    /// Of frames that came in here and did not leave the switch yet, bytes.
    pub held: [u32; 8],
    /// The other end was asked to be silent.
    pub pausing: [bool; 8],
    /// Until when the last frame is being sent.
    pub busy_until: Instant,
    /// An event that looks after this port is due then.
    pub wake: Option<Instant>,
    /// Interface of the capture.
    pub tap: Option<u32>,
    /// Frames are shown to who watches.
    pub watched: bool,
    pub stats: PortStats,
}

impl Port {
    pub fn new(owner: Owner, name: String, mac: Mac, way: Way) -> Self {
        Self {
            owner,
            name,
            mac,
            way,
            control: VecDeque::new(),
            queues: Default::default(),
            queued: [0; 8],
            turn: 0,
            paused_until: [Instant::START; 8],
            held: [0; 8],
            pausing: [false; 8],
            busy_until: Instant::START,
            wake: None,
            tap: None,
            watched: false,
            stats: PortStats::default(),
        }
    }

    /// Queues a frame of a MAC's own.
    pub fn push_control(&mut self, frame: u32) {
        self.control.push_back(frame);
    }

    /// Queues a frame.
    pub fn push(&mut self, now: Instant, frame: u32, priority: u8, len: u32) {
        let p = usize::from(priority & 7);
        self.stats.depth(p, now, self.queued[p], self.queued[p] + len);
        self.queued[p] += len;
        self.queues[p].push_back(frame);
    }

    /// Takes the frame whose turn it is.
    pub fn pop(&mut self, now: Instant, frames: &Frames) -> Option<u32> {
        if let Some(frame) = self.control.pop_front() {
            return Some(frame);
        }
        for i in 1..=8 {
            let p = (self.turn + i) % 8;
            if self.paused_until[p] > now {
                continue;
            }
            if let Some(frame) = self.queues[p].pop_front() {
                self.turn = p;
                let len = frames.get(frame).map_or(0, |h| h.len);
                self.stats.depth(p, now, self.queued[p], self.queued[p] - len);
                self.queued[p] -= len;
                return Some(frame);
            }
        }
        None
    }

    /// When something waits here that may be sent then, where nothing changes before.
    pub fn due(&self) -> Option<Instant> {
        if !self.control.is_empty() {
            return Some(self.busy_until);
        }
        let waiting = (0..8).filter(|p| !self.queues[*p].is_empty());
        waiting.map(|p| self.paused_until[p].max(self.busy_until)).min()
    }

    /// The other end asks for silence until then; a time that is over ends it.
    pub fn pause(&mut self, now: Instant, priority: usize, until: Instant) {
        self.stats.paused(priority, now, self.paused_until[priority]);
        self.paused_until[priority] = until;
        self.stats.pauses_received += 1;
    }

    /// True where something waits that a pause holds.
    pub fn is_held(&self, now: Instant, priority: usize) -> bool {
        self.paused_until[priority] > now && !self.queues[priority].is_empty()
    }

    pub fn paused_until(&self, priority: usize) -> Instant {
        self.paused_until[priority]
    }

    /// Frames that wait, by priority.
    pub fn waiting(&self, priority: usize) -> impl Iterator<Item = u32> {
        self.queues[priority].iter().copied()
    }
}
