//! The player's NIC in the real world: a [`Desk`] whose wire is a [`Line`] and whose time is the clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nvmf_roce::Nic;
use nvmf_roce::desk::{Desk, Wire};
use nvmf_seam::{Instant, LinkId};

use super::Line;

/// Bytes of IP packets that are kept of each connection, for traces.
const RECORD: usize = 16 << 20;

/// A [`Line`] and a clock.
pub struct RealWire {
    line: Line,
    begin: std::time::Instant,
    links: Arc<AtomicU32>,
}

impl RealWire {
    /// A desk over `line`. Its time runs since `begin`, its connections have numbers of the row that `links` counts.
    pub fn desk(line: Line, begin: std::time::Instant, links: Arc<AtomicU32>) -> Desk<Self> {
        let mut settings = line.settings();
        settings.record = RECORD;
        let nic: Nic = line.nic_with(settings);
        Desk::new(nic, Self { line, begin, links })
    }
}

impl fmt::Debug for RealWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RealWire({})", self.line.address())
    }
}

impl Wire for RealWire {
    fn now(&self) -> Instant {
        Instant::START + self.begin.elapsed()
    }

    fn flush(&mut self, nic: &mut Nic) {
        // What a line that is broken does not send is lost, and the peer silent: that is what the player then sees.
        let _ = self.line.send(self.now(), nic);
    }

    fn step(&mut self, nic: &mut Nic, until: Instant) -> bool {
        loop {
            let now = self.now();
            let due = nic.poll_timeout().is_some_and(|at| at <= now);
            match self.line.turn(now, nic) {
                Ok(turn) if turn.came || due => return true,
                _ if now >= until => return false,
                Ok(_) => {
                    let next = self.line.due(now, nic).map_or(until, |at| at.min(until));
                    self.line.wait(next.since(now).max(Duration::from_micros(1)));
                }
                Err(_) => std::thread::sleep(until.since(now).min(Duration::from_millis(10))),
            }
        }
    }

    fn next_link(&mut self) -> LinkId {
        LinkId(self.links.fetch_add(1, Ordering::Relaxed))
    }
}
