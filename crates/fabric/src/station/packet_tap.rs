//! [`PacketTap`]: a [`Tap`] on the IP packets of a NIC, with what it holds back.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use nvmf_seam::{Instant, Side, Tap, TapOutput};

/// Most bytes held back at once; what is to come late beyond that comes now.
const LATE_MAX: usize = 64 << 20;

pub(super) struct PacketTap {
    tap: Box<dyn Tap>,
    ready: VecDeque<(Side, Bytes)>,
    late: BTreeMap<(Instant, u64), (Side, Bytes)>,
    late_bytes: usize,
    count: u64,
}

impl PacketTap {
    pub fn new(tap: Box<dyn Tap>) -> Self {
        Self { tap, ready: VecDeque::new(), late: BTreeMap::new(), late_bytes: 0, count: 0 }
    }

    /// A packet that `from` sent. A NIC has many connections, so that [`TapOutput::Close`] means nothing here.
    pub fn push(&mut self, now: Instant, from: Side, packet: Bytes) {
        self.tap.came_in(1, packet.len());
        let to = match from {
            Side::Host => Side::Controller,
            Side::Controller => Side::Host,
        };
        for output in self.tap.pdu(from, packet) {
            match output {
                TapOutput::Pass(b) => self.ready.push_back((to, b)),
                TapOutput::Answer(b) => self.ready.push_back((from, b)),
                TapOutput::Late(by, b) if self.late_bytes + b.len() <= LATE_MAX => {
                    self.count += 1;
                    self.late_bytes += b.len();
                    self.late.insert((now + by, self.count), (to, b));
                }
                TapOutput::Late(_, b) => self.ready.push_back((to, b)),
                TapOutput::Close => {}
            }
        }
    }

    /// What is due now, and for whom.
    pub fn poll(&mut self, now: Instant) -> Option<(Side, Bytes)> {
        if let Some(ready) = self.ready.pop_front() {
            return Some(ready);
        }
        let due = self.late.first_entry().filter(|e| e.key().0 <= now)?.remove();
        self.late_bytes -= due.1.len();
        Some(due)
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        if !self.ready.is_empty() {
            return Some(Instant::START);
        }
        self.late.keys().next().map(|(at, _)| *at)
    }
}
