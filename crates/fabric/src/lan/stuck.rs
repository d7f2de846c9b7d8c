//! What can be read of a network: names, counters, and ports that wait for each other.

use core::time::Duration;

use super::port::Owner;
use super::{Lan, Link, Node, PortStats};

/// One port, for a report.
#[derive(Clone, Debug)]
pub struct PortView<'a> {
    /// The node, and the one at the other end: `sw0-target`.
    pub name: String,
    /// The node.
    pub node: String,
    /// Counters.
    pub stats: &'a PortStats,
    /// Bytes that wait now, by priority.
    pub queued: [u32; 8],
    /// Bytes on average, by priority.
    pub mean: [u64; 8],
    /// How long each priority was paused.
    pub paused: [Duration; 8],
    /// It belongs to a switch.
    pub switch: bool,
}

impl Lan {
    /// A link's name, of those of its ends.
    pub fn link_name(&self, link: Link) -> Option<String> {
        let at = link.0 as usize * 2;
        let (a, b) = (self.ports.get(at)?, self.ports.get(at + 1)?);
        Some(format!("{}-{}", a.name, b.name))
    }

    /// All links.
    pub fn links(&self) -> Vec<Link> {
        (0..self.ports.len() as u32 / 2).map(Link).collect()
    }

    /// The link of a station.
    pub fn link_of(&self, station: Node) -> Option<Link> {
        self.port_of(station).map(|p| Link(p / 2))
    }

    /// All ports, two for each link.
    pub fn ports(&self) -> impl Iterator<Item = PortView<'_>> {
        let now = self.now;
        self.ports.iter().enumerate().map(move |(i, p)| PortView {
            name: format!("{}-{}", p.name, self.ports[i ^ 1].name),
            node: p.name.clone(),
            stats: &p.stats,
            queued: p.queued,
            mean: core::array::from_fn(|q| p.stats.mean_depth(q, now, p.queued[q])),
            paused: core::array::from_fn(|q| p.stats.paused_for(q, now, p.paused_until(q))),
            switch: matches!(p.owner, Owner::Switch(_)),
        })
    }

    /// Ports of switches that wait for each other in a ring in one priority: each is paused by the next one's switch, which holds
    /// what came from there only since it is paused itself. Their names, the first one again at the end.
    pub fn deadlock(&self) -> Option<(u8, Vec<String>)> {
        (0..8).find_map(|q| self.ring(q).map(|r| (q as u8, r)))
    }

    fn ring(&self, q: usize) -> Option<Vec<String>> {
        let count = self.ports.len();
        for start in (0..count).filter(|p| self.waits(*p, q)) {
            let mut path = vec![start];
            // each port has few successors; a walk along the first that waits finds a ring where there is one from here
            while let Some(next) = self.waits_for(*path.last()?, q) {
                if let Some(at) = path.iter().position(|p| *p == next) {
                    let ring = path[at..].iter().chain([&next]);
                    return Some(ring.map(|p| format!("{}-{}", self.ports[*p].name, self.ports[p ^ 1].name)).collect());
                }
                path.push(next);
            }
        }
        None
    }

    fn waits(&self, port: usize, q: usize) -> bool {
        matches!(self.ports[port].owner, Owner::Switch(_)) && self.ports[port].is_held(self.now, q)
    }

    /// A port that waits, of the switch at the other end of `port`, and that holds frames which came in there.
    fn waits_for(&self, port: usize, q: usize) -> Option<usize> {
        let far = port ^ 1;
        let Owner::Switch(s) = self.ports[far].owner else { return None };
        let of_far = |p: usize| self.ports[p].waiting(q).any(|f| self.frames.get(f).is_some_and(|h| h.ingress == Some(far as u32)));
        self.switches[s as usize].0.ports.iter().map(|p| *p as usize).find(|p| self.waits(*p, q) && of_far(*p))
    }
}
