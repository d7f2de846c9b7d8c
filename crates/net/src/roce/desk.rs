//! The player's NIC in the real world: a [`Desk`] whose wire is a [`Driver`] and whose time is the clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nvmf_roce::desk::{Desk, Wire};
use nvmf_seam::rdma::{PlayedDevice, RdmaNetwork};
use nvmf_seam::{Instant, LinkId};

use super::{Line, wait};
use crate::driver::Driver;

/// Bytes of IP packets that are kept of each connection, for traces.
const RECORD: usize = 16 << 20;

/// A [`Driver`] and a clock.
pub struct RealWire<L> {
    line: L,
    begin: std::time::Instant,
    links: Arc<AtomicU32>,
}

impl<L> RealWire<L> {
    /// A desk at `device`, which `line` moves. Its time runs since `begin`, its connections have numbers of the row that `links` counts.
    pub fn desk<D: PlayedDevice>(line: L, device: D, begin: std::time::Instant, links: Arc<AtomicU32>) -> Desk<Self, D>
    where
        L: Driver<D>,
    {
        Desk::new(device, Self { line, begin, links })
    }
}

impl Line {
    /// A NIC whose packets are recorded.
    pub fn player(&self) -> nvmf_roce::Nic {
        let mut settings = self.settings();
        settings.record = RECORD;
        self.nic_with(settings)
    }
}

/// What a network holds of its desk, whatever the device.
pub trait Player: RdmaNetwork + fmt::Debug + Send {
    /// See [`Desk::idle`].
    fn idle(&mut self, until: Instant);
}

impl<L, D> Player for Desk<RealWire<L>, D>
where
    L: Driver<D>,
    D: PlayedDevice + fmt::Debug + Send,
{
    fn idle(&mut self, until: Instant) {
        Desk::idle(self, until);
    }
}

impl<L> fmt::Debug for RealWire<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RealWire")
    }
}

impl<D, L: Driver<D>> Wire<D> for RealWire<L> {
    fn now(&self) -> Instant {
        Instant::START + self.begin.elapsed()
    }

    fn flush(&mut self, device: &mut D) {
        // What a line that is broken does not send is lost, and the peer silent: that is what the player then sees.
        let _ = self.line.send(self.now(), device);
    }

    fn step(&mut self, device: &mut D, until: Instant) -> bool {
        loop {
            let now = self.now();
            let due = self.line.due(now, device).is_some_and(|at| at <= now);
            match self.line.turn(now, device) {
                Ok(turn) if turn.came || due => return true,
                _ if now >= until => return false,
                Ok(_) => {
                    let next = self.line.due(now, device).map_or(until, |at| at.min(until));
                    wait(&self.line, next.since(now).max(Duration::from_micros(1)));
                }
                Err(_) => std::thread::sleep(until.since(now).min(Duration::from_millis(10))),
            }
        }
    }

    fn next_link(&mut self) -> LinkId {
        LinkId(self.links.fetch_add(1, Ordering::Relaxed))
    }
}
