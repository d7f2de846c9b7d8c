//! [`World`]: everything of a [`super::FrameSim`] but the player's NIC, which its desk has.

use std::collections::BTreeMap;

use nvmf_roce::Nic;
use nvmf_roce::desk::Wire;
use nvmf_seam::{Instant, LinkId};

use super::site::Site;
use crate::lan::{Lan, ethertype};
use crate::station::{Handle, Station};

pub(super) struct World {
    pub lan: Lan,
    pub site: Site,
    pub player: Station,
    /// TCP connections of the player.
    pub links: BTreeMap<LinkId, Handle>,
    pub next_link: u32,
    /// The player's NIC was given something.
    fed: bool,
}

impl World {
    pub fn new(lan: Lan, site: Site, player: Station) -> Self {
        Self { lan, site, player, links: BTreeMap::new(), next_link: 0, fed: false }
    }

    /// Lets everything happen that happens until `until`, or until `enough`.
    pub fn run(&mut self, nic: &mut Nic, until: Instant, enough: impl Fn(&mut Self) -> bool) {
        self.settle(nic);
        while !enough(self) {
            match self.next_time(nic) {
                Some(at) if at <= until => {
                    self.happen(nic, at);
                    self.settle(nic);
                }
                _ => {
                    self.lan.pass(until);
                    return;
                }
            }
        }
    }

    fn next_time(&mut self, nic: &mut Nic) -> Option<Instant> {
        let now = self.lan.now();
        let all = [self.lan.next_time(), self.site.poll_timeout(now), self.player.poll_timeout(now, nic)];
        all.into_iter().flatten().min()
    }

    /// What arrives, and what is due, at one moment.
    fn happen(&mut self, nic: &mut Nic, at: Instant) {
        self.lan.pass(at);
        let now = self.lan.now();
        while self.lan.next_time().is_some_and(|at| at <= now) {
            let Some((node, frame)) = self.lan.step() else { continue };
            if node == self.site.station.node {
                self.site.receive(now, frame);
            } else {
                self.fed |= frame.ethertype() != ethertype::ARP;
                self.player.receive(now, frame, nic);
            }
        }
        self.fed |= nic.poll_timeout().is_some_and(|at| at <= now);
        self.site.handle_timeout(now);
        self.player.handle_timeout(now, nic);
    }

    /// Moves everything that moves without time passing.
    pub fn settle(&mut self, nic: &mut Nic) {
        let now = self.lan.now();
        self.site.settle(now, &mut self.lan);
        self.player.flush(now, &mut self.lan, nic);
    }
}

impl Wire for World {
    fn now(&self) -> Instant {
        self.lan.now()
    }

    fn flush(&mut self, nic: &mut Nic) {
        let now = self.lan.now();
        self.player.flush(now, &mut self.lan, nic);
    }

    fn step(&mut self, nic: &mut Nic, until: Instant) -> bool {
        self.fed = false;
        self.run(nic, until, |w| w.fed);
        self.fed
    }

    fn next_link(&mut self) -> LinkId {
        let id = LinkId(self.next_link);
        // more links than numbers would take longer than anybody runs a world
        self.next_link = self.next_link.wrapping_add(1);
        id
    }
}
