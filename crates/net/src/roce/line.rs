//! A software NIC on a carrier: what is moved in one turn.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nvmf_roce::{Datagram, Nic, NicSettings};
use nvmf_seam::Instant;

use super::Carrier;
use crate::driver::{Driver, PacketTap, Turn};

/// Receive calls of one turn; what is left comes in the next.
const CALLS: usize = 8;
/// Packets that are asked of the NIC at a time.
const BURST: usize = 64;

/// The carrier of one NIC, and what waits there to be sent.
pub struct Line {
    carrier: Box<dyn Carrier>,
    queue: VecDeque<Datagram>,
    tap: Option<PacketTap>,
}

impl Line {
    /// A line on which nothing waits.
    pub fn new(carrier: Box<dyn Carrier>) -> Self {
        Self { carrier, queue: VecDeque::new(), tap: None }
    }

    /// The address of its NIC.
    pub fn address(&self) -> IpAddr {
        self.carrier.address()
    }

    /// Settings that suit the carrier.
    pub fn settings(&self) -> NicSettings {
        let mut settings = NicSettings::new(self.address());
        settings.link_mtu = self.carrier.mtu();
        settings.source_port = self.carrier.source_port();
        settings.window = self.carrier.window().unwrap_or(settings.window);
        settings
    }

    /// A NIC for it, with numbers that nobody can foresee: one that the peer remembers would be taken for a stale connection.
    pub fn nic(&self) -> Nic {
        self.nic_with(self.settings())
    }

    /// The same with other settings.
    pub fn nic_with(&self, settings: NicSettings) -> Nic {
        Nic::new(settings, RandomState::new().hash_one(self.address()))
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.carrier.as_fd()
    }
}

impl Driver<Nic> for Line {
    fn address(&self) -> IpAddr {
        Line::address(self)
    }

    fn turn(&mut self, now: Instant, nic: &mut Nic) -> io::Result<Turn> {
        let mut turn = Turn { came: false, more: true };
        for _ in 0..CALLS {
            let tap = &mut self.tap;
            let taken = self.carrier.receive(now, &mut |packet| {
                tap.iter_mut().for_each(|tap| tap(&packet));
                nic.handle_datagram(now, packet);
            })?;
            if taken == 0 {
                turn.more = false;
                break;
            }
            turn.came = true;
        }
        nic.handle_timeout(now);
        self.send(now, nic)?;
        Ok(turn)
    }

    fn send(&mut self, now: Instant, nic: &mut Nic) -> io::Result<()> {
        loop {
            while self.queue.len() < BURST
                && let Some(datagram) = nic.poll_datagram(now)
            {
                self.tap.iter_mut().for_each(|tap| tap(&datagram.to_bytes()));
                self.queue.push_back(datagram);
            }
            let waiting = self.queue.len();
            self.carrier.send(now, &mut self.queue)?;
            // All is gone, or the carrier takes no more now.
            if waiting < BURST || self.queue.len() >= waiting {
                return Ok(());
            }
        }
    }

    fn due(&self, now: Instant, nic: &mut Nic) -> Option<Instant> {
        let blocked = (!self.queue.is_empty()).then_some(now + Duration::from_millis(1));
        [nic.poll_timeout(), self.carrier.poll_timeout(), blocked].into_iter().flatten().min()
    }

    /// Costs a copy of what goes.
    fn tap(&mut self, tap: PacketTap) {
        self.tap = Some(tap);
    }
}
