//! What is counted at a port.

use core::time::Duration;

use nvmf_seam::Instant;

/// Counters of one port of a station or a switch; those of queues by priority.
#[derive(Clone, Debug, Default)]
pub struct PortStats {
    /// Frames sent, those of MAC control included.
    pub sent: u64,
    /// Their bytes, without FCS.
    pub sent_bytes: u64,
    /// Frames that came in.
    pub received: u64,
    /// Lost on the way out, by a fault.
    pub lost: u64,
    /// Larger than the MTU of the link.
    pub giants: u64,
    /// Dropped as the queue was full.
    pub tail_drops: u64,
    /// Dropped as the headroom of a lossless priority was full.
    pub headroom_drops: u64,
    /// No way to their destination is known.
    pub unknown: u64,
    /// Marked with Congestion Experienced.
    pub marked: u64,
    /// PFC frames that ask for silence.
    pub pauses_sent: u64,
    /// PFC frames that came in, resumes included; one for each priority in them.
    pub pauses_received: u64,
    /// Most bytes in a queue.
    pub peak: [u32; 8],
    /// Bytes in a queue times nanoseconds.
    area: [u128; 8],
    since: [Instant; 8],
    /// How long a priority was paused, up to the last pause.
    paused: [Duration; 8],
    paused_since: [Instant; 8],
}

impl PortStats {
    /// A queue's bytes change.
    pub(super) fn depth(&mut self, priority: usize, now: Instant, before: u32, after: u32) {
        self.area[priority] += u128::from(before) * now.since(self.since[priority]).as_nanos();
        self.since[priority] = now;
        self.peak[priority] = self.peak[priority].max(after);
    }

    /// A pause begins, goes on or ends: what is over of the one before is counted.
    pub(super) fn paused(&mut self, priority: usize, now: Instant, until_before: Instant) {
        let over = until_before.min(now);
        self.paused[priority] += over.since(self.paused_since[priority]);
        self.paused_since[priority] = now;
    }

    /// Bytes in a queue, on average up to `now`; `depth`: what is in it now.
    pub fn mean_depth(&self, priority: usize, now: Instant, depth: u32) -> u64 {
        let area = self.area[priority] + u128::from(depth) * now.since(self.since[priority]).as_nanos();
        u64::try_from(area / u128::from(now.0.max(1))).unwrap_or(u64::MAX)
    }

    /// How long a priority was paused up to `now`; `until`: the end of its last pause.
    pub(super) fn paused_for(&self, priority: usize, now: Instant, until: Instant) -> Duration {
        self.paused[priority] + until.min(now).since(self.paused_since[priority])
    }
}
