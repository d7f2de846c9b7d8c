//! PSNs in order: what was due, what was seen before, what comes too early. [IBA vol. 1, 9.7.1]

use nvmf_wire::roce::{psn_add, psn_distance};

use super::event::Place;

/// Most holes remembered in the response to one READ.
const MAX_HOLES: usize = 16;

/// Where the requests of one direction are.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The first PSN there can be: the CM's, or the first that was seen.
    start: Option<u32>,
    /// The one that is due.
    next: Option<u32>,
}

impl Order {
    /// The CM says with which PSN the direction begins.
    pub(super) fn begin(&mut self, psn: u32) {
        self.start.get_or_insert(psn);
        self.next.get_or_insert(psn);
    }

    pub(super) fn next(&self) -> Option<u32> {
        self.next
    }

    pub(super) fn place(&self, psn: u32) -> Place {
        let Some(next) = self.next else { return Place::Next };
        match psn_distance(psn, next) {
            0 => Place::Next,
            ahead @ 1.. => Place::Early(ahead as u32),
            _ if self.start.is_some_and(|s| psn_distance(psn, s) < 0) => Place::Outside,
            _ => Place::Repeated,
        }
    }

    /// A request of `count` PSNs was taken; `None` where it is not known how many it uses, so that any may follow.
    pub(super) fn took(&mut self, psn: u32, count: Option<u32>) {
        self.start.get_or_insert(psn);
        self.next = count.map(|n| psn_add(psn, n));
        // What lies half the range back is no longer behind.
        if let (Some(start), Some(next)) = (self.start, self.next)
            && psn_distance(next, start) < 0
        {
            self.start = Some(psn_add(next, 0x00c0_0000));
        }
    }

    /// What was due will not come.
    pub(super) fn skip_to(&mut self, psn: u32) {
        self.next = Some(psn);
    }
}

/// Which packets of a READ's response were seen, by their place in it.
#[derive(Debug, Default)]
pub(super) struct Seen {
    next: u32,
    holes: Vec<(u32, u32)>,
}

impl Seen {
    pub(super) fn note(&mut self, at: u32) -> Place {
        if at >= self.next {
            let missing = at - self.next;
            if missing > 0 {
                if self.holes.len() == MAX_HOLES {
                    self.holes.remove(0);
                }
                self.holes.push((self.next, at));
            }
            self.next = at + 1;
            return if missing > 0 { Place::Early(missing) } else { Place::Next };
        }
        let Some(i) = self.holes.iter().position(|(from, to)| (*from..*to).contains(&at)) else { return Place::Repeated };
        let (from, to) = self.holes.remove(i);
        for part in [(from, at), (at + 1, to)] {
            if part.0 < part.1 {
                self.holes.push(part);
            }
        }
        Place::Next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wrap_and_repeat() {
        let mut order = Order::default();
        order.begin(0xff_fffe);
        for psn in [0xff_fffe, 0xff_ffff, 0] {
            assert_eq!(order.place(psn), Place::Next);
            order.took(psn, Some(1));
        }
        assert_eq!(
            (order.place(0xff_ffff), order.place(0xff_fffd), order.place(4)),
            (Place::Repeated, Place::Outside, Place::Early(3))
        );
        order.took(1, Some(8));
        assert_eq!(order.place(9), Place::Next);
        order.took(9, None);
        assert_eq!(order.place(77), Place::Next);
    }

    #[test]
    fn a_start_that_lies_far_back_outlaws_nothing() {
        let mut order = Order::default();
        order.begin(0);
        order.took(0, Some(1));
        for _ in 0..40 {
            let next = order.next().unwrap();
            order.took(next, Some(0x0008_0000));
            assert_eq!(order.place(next), Place::Repeated);
        }
    }

    #[test]
    fn holes_are_filled_once() {
        let mut seen = Seen::default();
        assert_eq!([0, 3, 3, 1, 1, 2, 4].map(|i| seen.note(i)), {
            use Place::{Early, Next, Repeated};
            [Next, Early(2), Repeated, Next, Repeated, Next, Next]
        });
    }
}
