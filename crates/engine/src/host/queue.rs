//! The host's side of a submission queue: places, heads and command identifiers. No bytes, no transport.

use nvmf_wire::{Cid, Cqe};

/// Places of one submission queue and the next command identifier.
///
/// Without SQ flow control only the number of outstanding commands counts; with it, a place is free again once SQHD has passed it.
/// The completion queue has as many entries as the submission queue, so the number outstanding is bounded in both cases.
/// [FAB-SQFC-12, FAB-SQFC-15, FAB-SQFC-22]
#[derive(Debug)]
pub struct Queue {
    entries: u32,
    head: u32,
    tail: u32,
    flow_control: bool,
    next_cid: u16,
}

impl Queue {
    /// An empty queue of `entries`, at least 2, with flow control.
    pub fn new(entries: u16) -> Self {
        Self { entries: u32::from(entries.max(2)), head: 0, tail: 0, flow_control: true, next_cid: 0 }
    }

    /// The controller granted the wish to do without flow control. [FAB-SQFC-04]
    pub fn flow_control_off(&mut self) {
        self.flow_control = false;
    }

    /// True while SQHD is looked at.
    pub fn has_flow_control(&self) -> bool {
        self.flow_control
    }

    /// Commands that may be submitted now with `outstanding` not yet completed.
    pub fn room(&self, outstanding: usize) -> usize {
        let most = self.entries as usize - 1;
        let left = most.saturating_sub(outstanding);
        if !self.flow_control {
            return left;
        }
        // With nothing outstanding the controller has taken everything from the queue, though responses without SQHD (SUCCESS in a
        // C2HData) did not say so: waiting for SQHD would be waiting for ever.
        left.min(most.saturating_sub(self.used() as usize)).max(usize::from(outstanding == 0))
    }

    /// Takes a place and an identifier that `taken` denies. Ask [`Queue::room`] first. [SQE-01, SQE-03]
    pub fn submit(&mut self, outstanding: usize, taken: impl Fn(Cid) -> bool) -> Cid {
        if outstanding == 0 && self.used() == self.entries - 1 {
            self.head = self.tail;
        }
        self.tail = (self.tail + 1) % self.entries;
        loop {
            let cid = Cid(self.next_cid);
            // FFFFh stands for "no command" in the error log.
            self.next_cid = if self.next_cid >= 0xfffe { 0 } else { self.next_cid + 1 };
            if !taken(cid) {
                return cid;
            }
        }
    }

    /// The command submitted last was never sent: its place is free again.
    pub fn take_back(&mut self) {
        self.tail = (self.tail + self.entries - 1) % self.entries;
    }

    /// Takes SQHD from a response. False where it does not point between the last head and the tail; the head then stays.
    /// [FAB-SQFC-17]
    #[must_use]
    pub fn complete(&mut self, cqe: &Cqe) -> bool {
        if !self.flow_control {
            return true;
        }
        let to = u32::from(cqe.sqhd());
        if to >= self.entries {
            return false;
        }
        let moved = (to + self.entries - self.head) % self.entries;
        if moved > self.used() {
            return false;
        }
        self.head = to;
        true
    }

    fn used(&self) -> u32 {
        (self.tail + self.entries - self.head) % self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvmf_wire::Status;

    fn done(q: &mut Queue, sqhd: u16) -> bool {
        q.complete(&Cqe::of(Cid(0), Status::SUCCESS, sqhd))
    }

    #[test]
    fn full_is_one_entry_less_than_the_size_until_sqhd_moves() {
        let mut q = Queue::new(4);
        for outstanding in 0..3 {
            assert_eq!(q.room(outstanding), 3 - outstanding);
            q.submit(outstanding, |_| false);
        }
        assert_eq!(q.room(3), 0);
        // A response that leaves SQHD where it was frees the command but no place.
        assert!(done(&mut q, 0));
        assert_eq!(q.room(2), 0);
        assert!(done(&mut q, 2));
        assert_eq!(q.room(1), 2);
    }

    #[test]
    fn sqhd_beyond_the_tail_or_the_size_is_refused() {
        let mut q = Queue::new(4);
        q.submit(0, |_| false);
        assert!(!done(&mut q, 2));
        assert!(!done(&mut q, 4));
        assert!(done(&mut q, 1));
        assert!(!done(&mut q, 0), "backwards");
    }

    #[test]
    fn responses_without_sqhd_cannot_stop_an_idle_queue() {
        let mut q = Queue::new(3);
        for _ in 0..10 {
            assert!(q.room(0) > 0);
            q.submit(0, |_| false);
        }
        q.flow_control_off();
        assert_eq!((q.room(1), q.room(2)), (1, 0));
    }

    #[test]
    fn what_was_not_sent_leaves_its_place() {
        let mut q = Queue::new(4);
        q.submit(0, |_| false);
        q.submit(1, |_| false);
        q.take_back();
        assert_eq!(q.room(1), 2);
        assert!(!done(&mut q, 2) && done(&mut q, 1));
    }

    #[test]
    fn identifiers_are_not_reused_while_taken_and_never_ffff() {
        let mut q = Queue::new(2);
        q.next_cid = 0xfffe;
        assert_eq!(q.submit(0, |_| false), Cid(0xfffe));
        assert_eq!(q.submit(0, |c| c.0 < 5), Cid(5));
    }
}
