//! [`Fleet`]: a [`Scene`] at work: reference hosts read and write while things go wrong, then everything is healed and has to finish.
//!
//! What is judged in every run: no acknowledged write is lost, no read gives bytes that were never written there, every command ends
//! exactly once, nothing is outstanding once the network was healed for long enough, no NIC was asked for memory that it may not give,
//! queues stay within their limits. [`Report::violations`] has what did not hold.

mod blocks;
mod build;
mod crew;
mod expectations;
mod report;
mod store;
mod witness;

use std::collections::BTreeMap;
use std::io;

use core::time::Duration;

use nvmf_seam::Instant;

use crate::frames::Site;
use crate::lan::{CaptureFile, Lan, Node};
use crate::scene::Scene;

pub use crew::HostReport;
pub use report::{NicReport, PortReport, Report};

use crew::Crew;
use witness::Witness;

/// How long the world goes on after the last host left, so that everything on its way arrives.
const AFTER: Duration = Duration::from_secs(10);
/// Events of one run, far beyond any that ends.
const EVENTS_MAX: u64 = 2_000_000_000;

/// Whose a station is.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Site(usize),
    Crew(usize),
}

/// A scene at work.
pub struct Fleet {
    lan: Lan,
    scene: Scene,
    seed: u64,
    sites: Vec<Site>,
    crews: Vec<Crew>,
    owners: BTreeMap<Node, usize>,
    /// Each station with what waits for it.
    stations: Vec<(Owner, Option<Instant>)>,
    touched: Vec<usize>,
    deadlock: Option<(u8, Vec<String>)>,
    /// Where exchanges are to be looked at.
    witness: Option<Witness>,
}

impl Fleet {
    /// Everything at its begin. The error says why the scene cannot be.
    pub fn new(scene: &Scene, seed: u64) -> Result<Self, String> {
        build::fleet(scene, seed)
    }

    /// Writes what all links carry to a file.
    pub fn capture(&mut self, file: CaptureFile) -> io::Result<()> {
        let links = self.lan.links();
        self.lan.capture(file, &links, 0)
    }

    /// Plays it to the end. The error is the capture's.
    pub fn run(mut self) -> io::Result<Report> {
        let heal = Instant::START + self.scene.heal;
        let end = heal + self.scene.within;
        self.touched.extend(0..self.stations.len());
        self.until(heal, |_| false);
        self.deadlock = self.lan.deadlock();
        self.lan.heal();
        for (i, (owner, _)) in self.stations.iter().enumerate() {
            if let Owner::Crew(c) = owner {
                self.crews[*c].heal();
                self.touched.push(i);
            }
        }
        if self.deadlock.is_none() || !self.scene.expects_deadlock() {
            self.until(end, |f| f.crews.iter().all(Crew::is_over));
            if self.crews.iter().all(Crew::is_over) {
                self.until(self.lan.now() + AFTER, |_| false);
            }
        }
        self.lan.end_capture()?;
        self.look();
        let exchanges = self.witness.take().map(Witness::finish).unwrap_or_default();
        Ok(report::report(&self, &exchanges))
    }

    /// Lets everything happen that happens until `until`, or until `enough`.
    fn until(&mut self, until: Instant, enough: impl Fn(&Self) -> bool) {
        self.settle();
        for _ in 0..EVENTS_MAX {
            if enough(self) {
                return;
            }
            let timers = self.stations.iter().filter_map(|(_, due)| *due).min();
            let next = [timers, self.lan.next_time()].into_iter().flatten().min();
            let Some(at) = next.filter(|at| *at <= until) else {
                self.lan.pass(until);
                return;
            };
            self.happen(at);
            self.settle();
        }
    }

    /// What arrives, and what is due, at one moment.
    fn happen(&mut self, at: Instant) {
        self.lan.pass(at);
        let now = self.lan.now();
        while self.lan.next_time().is_some_and(|at| at <= now) {
            let Some((node, frame)) = self.lan.step() else { continue };
            let Some(station) = self.owners.get(&node).copied() else { continue };
            match self.stations[station].0 {
                Owner::Site(s) => self.sites[s].receive(now, frame),
                Owner::Crew(c) => {
                    let crew = &mut self.crews[c];
                    crew.station.receive(now, frame, crew.initiator.device_mut());
                }
            }
            self.touched.push(station);
        }
        for (i, (_, due)) in self.stations.iter().enumerate() {
            if due.is_some_and(|due| due <= now) {
                self.touched.push(i);
            }
        }
        self.touched.sort_unstable();
        self.touched.dedup();
    }

    /// Shows the witness what went over the links of its hosts.
    fn look(&mut self) {
        while let Some((at, frame)) = self.lan.poll_seen() {
            if let Some(witness) = &mut self.witness {
                witness.frame(at, &frame);
            }
        }
    }

    /// Gives each station that something happened to its turn.
    fn settle(&mut self) {
        let now = self.lan.now();
        self.look();
        for station in std::mem::take(&mut self.touched) {
            let (owner, due) = &mut self.stations[station];
            *due = match *owner {
                Owner::Site(s) => {
                    let site = &mut self.sites[s];
                    site.handle_timeout(now);
                    site.settle(now, &mut self.lan);
                    site.poll_timeout(now)
                }
                Owner::Crew(c) => {
                    let crew = &mut self.crews[c];
                    crew.turn(now, &mut self.lan);
                    crew.poll_timeout(now)
                }
            };
        }
    }
}
