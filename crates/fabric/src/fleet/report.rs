//! What came of a run.

use core::fmt;
use core::time::Duration;

use nvmf_roce::Counters;

use super::Fleet;
use super::crew::{Crew, HostReport};
use crate::lan::SwitchSettings;
use crate::scene::{Expect, Scene};

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Name of the scene.
    pub name: String,
    /// Its seed.
    pub seed: u64,
    /// Equal for two runs of one scene and seed.
    pub hash: u64,
    /// Time in the world.
    pub took: Duration,
    /// Frames that came in anywhere.
    pub frames: u64,
    /// Hosts, in the order of the scene.
    pub hosts: Vec<HostReport>,
    /// Ports whose queues, drops, marks or pauses are of interest.
    pub ports: Vec<PortReport>,
    /// Priority and ports that waited for each other when the faults ended.
    pub deadlock: Option<(u8, Vec<String>)>,
    /// What did not hold.
    pub violations: Vec<String>,
}

/// One direction of a link, at the port where it begins.
#[derive(Clone, Debug)]
pub struct PortReport {
    /// The node, and the one at the other end.
    pub name: String,
    /// The priority with the most in its queue.
    pub priority: u8,
    /// Most bytes in its queue.
    pub peak: u32,
    /// Bytes in it on average.
    pub mean: u64,
    /// Frames lost by a fault.
    pub lost: u64,
    /// Frames dropped, for whatever reason.
    pub dropped: u64,
    /// Frames marked.
    pub marked: u64,
    /// Pauses asked for.
    pub pauses_sent: u64,
    /// PFC frames that came in.
    pub pauses_received: u64,
    /// How long the priority was paused.
    pub paused: Duration,
}

impl Scene {
    pub(super) fn expects_deadlock(&self) -> bool {
        self.expects.contains(&Expect::Deadlock)
    }
}

pub(super) fn report(f: &Fleet) -> Report {
    let hosts: Vec<HostReport> = f.crews.iter().map(|c| c.report.clone()).collect();
    let ports = f.lan.ports().map(|p| {
        let priority = (0..8).max_by_key(|q| (p.stats.peak[*q], p.paused[*q])).unwrap_or(0);
        let s = p.stats;
        PortReport {
            priority: priority as u8,
            peak: s.peak[priority],
            mean: p.mean[priority],
            lost: s.lost,
            dropped: s.tail_drops + s.headroom_drops + s.giants,
            marked: s.marked,
            pauses_sent: s.pauses_sent,
            pauses_received: s.pauses_received,
            paused: p.paused[priority],
            name: p.name,
        }
    });
    Report {
        name: f.scene.name.clone(),
        seed: f.seed,
        hash: f.lan.trace_hash(),
        took: f.lan.now().since(nvmf_seam::Instant::START),
        frames: f.lan.ports().map(|p| p.stats.received).sum(),
        ports: ports.collect(),
        deadlock: f.deadlock.clone(),
        violations: violations(f, &hosts),
        hosts,
    }
}

fn violations(f: &Fleet, hosts: &[HostReport]) -> Vec<String> {
    let mut out: Vec<String> = f.crews.iter().flat_map(|c| c.violations.iter().cloned()).collect();
    let stuck = f.deadlock.is_some() && f.scene.expects_deadlock();
    match (&f.deadlock, f.scene.expects_deadlock()) {
        (Some((q, ring)), false) => out.push(format!("ports wait for each other in priority {q}: {}", ring.join(" "))),
        (None, true) => out.push("a deadlock was expected, and there is none".into()),
        _ => {}
    }
    if !stuck {
        out.extend(f.crews.iter().zip(hosts).filter_map(|(c, h)| Some(format!("{}: {}", h.name, c.unfinished()?))));
        if f.crews.iter().all(Crew::is_over) {
            left_over(f, &mut out);
        }
    }
    access(f, &mut out);
    limits(f, &mut out);
    for e in &f.scene.expects {
        let Expect::Latency { host, part, above, than } = e else { continue };
        let Some(h) = hosts.iter().find(|h| h.name == *host) else { continue };
        let is = Duration::from_nanos(h.times.value_at_quantile(f64::from(*part) / 1000.0));
        if (is > *than) != *above {
            let sign = if *above { ">" } else { "<" };
            out.push(format!("{host} p{} {sign} {than:?} was expected: it is {is:?}", f64::from(*part) / 10.0));
        }
    }
    out
}

/// What is still there though every host has left.
fn left_over(f: &Fleet, out: &mut Vec<String>) {
    let frames = f.lan.in_flight();
    if frames > 0 {
        out.push(format!("{frames} frames are on their way though all hosts have left"));
    }
    for s in &f.sites {
        let (connections, held) = (s.rdma.connections(), s.rdma.held());
        if connections + held > 0 {
            out.push(format!("a target has {connections} connections and holds {held} though all hosts have left"));
        }
    }
    for (c, h) in f.crews.iter().zip(&f.scene.hosts) {
        let regions = c.initiator.device().regions();
        if regions > 0 {
            out.push(format!("{}: {regions} regions are still registered", h.name));
        }
    }
}

/// Memory is never asked for outside of its bounds: reference hosts and targets have no reason to.
fn access(f: &Fleet, out: &mut Vec<String>) {
    let hosts = f.crews.iter().zip(&f.scene.hosts).map(|(c, h)| (&h.name, *c.initiator.device().counters()));
    let targets = f.sites.iter().zip(&f.scene.targets).map(|(s, t)| (&t.name, *s.rdma.device.counters()));
    for (name, Counters { nak_access, nak_invalid, nak_operational, .. }) in hosts.chain(targets) {
        if nak_access + nak_invalid + nak_operational > 0 {
            out.push(format!("{name} refused access: {nak_access} NAKs 62h, {nak_invalid} 61h, {nak_operational} 63h"));
        }
    }
}

fn limits(f: &Fleet, out: &mut Vec<String>) {
    let settings = |name: &str| f.scene.switches.iter().find(|s| s.name == name).map(|s| s.settings);
    for p in f.lan.ports() {
        let of = f.scene.switches.iter().find(|s| p.switch && p.name.starts_with(&format!("{}-", s.name)));
        let Some(SwitchSettings { queue, pfc, .. }) = of.and_then(|s| settings(&s.name)) else { continue };
        for (q, peak) in p.stats.peak.iter().enumerate() {
            let lossless = pfc.is_some_and(|pfc| pfc.lossless >> q & 1 == 1);
            if !lossless && *peak > queue {
                out.push(format!("{}: queue {q} had {peak} bytes, and holds {queue}", p.name));
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} seed {}: {:?} in the world, {} frames, trace {:016x}",
            self.name, self.seed, self.took, self.frames, self.hash
        )?;
        writeln!(
            f,
            "{:<12} {:>8} {:>8} {:>8} {:>5} {:>10} {:>10} {:>10} {:>10}",
            "host", "reads", "writes", "MiB", "lost", "p50", "p99", "p99.9", "most"
        )?;
        for h in &self.hosts {
            let at = |q| micros(Duration::from_nanos(h.times.value_at_quantile(q)));
            let mib = h.bytes as f64 / f64::from(1 << 20);
            let most = micros(Duration::from_nanos(h.times.max()));
            let (p50, p99, p999) = (at(0.5), at(0.99), at(0.999));
            writeln!(
                f,
                "{:<12} {:>8} {:>8} {mib:>8.1} {:>5} {p50:>10} {p99:>10} {p999:>10} {most:>10}",
                h.name, h.reads, h.writes, h.lost
            )?;
        }
        writeln!(
            f,
            "{:<16} {:>4} {:>10} {:>10} {:>6} {:>7} {:>7} {:>7} {:>7} {:>10}",
            "port", "prio", "peak", "mean", "lost", "dropped", "marked", "pauses", "paused", "for"
        )?;
        for p in self.ports.iter().filter(|p| p.peak > 0 || p.pauses_sent > 0) {
            let paused = micros(p.paused);
            writeln!(
                f,
                "{:<16} {:>4} {:>10} {:>10} {:>6} {:>7} {:>7} {:>7} {:>7} {paused:>10}",
                p.name, p.priority, p.peak, p.mean, p.lost, p.dropped, p.marked, p.pauses_sent, p.pauses_received
            )?;
        }
        if let Some((q, ring)) = &self.deadlock {
            writeln!(f, "deadlock in priority {q}: {}", ring.join(" waits for "))?;
        }
        self.violations.iter().try_for_each(|v| writeln!(f, "violation: {v}"))
    }
}

fn micros(t: Duration) -> String {
    format!("{:.1}us", t.as_nanos() as f64 / 1000.0)
}
