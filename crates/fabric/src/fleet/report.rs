//! What came of a run.

use core::fmt;
use core::time::Duration;

use nvmf_roce::Counters;

use super::crew::{Crew, HostReport};
use super::witness::Exchanges;
use super::{Fleet, expectations};
use crate::lan::{PortView, SwitchSettings};
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
    /// NICs of targets, then of hosts, in the order of the scene.
    pub nics: Vec<NicReport>,
    /// Ports whose queues, drops, marks or pauses are of interest.
    pub ports: Vec<PortReport>,
    /// Priority and ports that waited for each other when the faults ended.
    pub deadlock: Option<(u8, Vec<String>)>,
    /// What did not hold.
    pub violations: Vec<String>,
}

/// What a NIC, and the IP layer below it, counted.
#[derive(Clone, Debug)]
pub struct NicReport {
    /// Whose.
    pub name: String,
    /// The NIC's own.
    pub counters: Counters,
    /// Packets that did not get as far, for what their IP or UDP header says.
    pub not_taken: u64,
}

/// One direction of a link, at the port where it begins.
#[derive(Clone, Debug)]
pub struct PortReport {
    /// The node, and the one at the other end.
    pub name: String,
    /// The node.
    pub node: String,
    /// It is a switch.
    pub switch: bool,
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

pub(super) fn report(f: &Fleet, exchanges: &Exchanges) -> Report {
    let hosts: Vec<HostReport> = f.crews.iter().map(|c| c.report.clone()).collect();
    let nics: Vec<NicReport> = nics(f).collect();
    let ports = f.lan.ports().map(port).collect();
    let mut report = Report {
        name: f.scene.name.clone(),
        seed: f.seed,
        hash: f.lan.trace_hash(),
        took: f.lan.now().since(nvmf_seam::Instant::START),
        frames: f.lan.ports().map(|p| p.stats.received).sum(),
        violations: violations(f, &hosts, &nics),
        hosts,
        nics,
        ports,
        deadlock: f.deadlock.clone(),
    };
    let unmet = expectations::unmet(&f.scene, &report, exchanges);
    report.violations.extend(unmet);
    report
}

fn port(p: PortView<'_>) -> PortReport {
    let priority = (0..8).max_by_key(|q| (p.stats.peak[*q], p.paused[*q])).unwrap_or(0);
    let s = p.stats;
    PortReport {
        node: p.node,
        switch: p.switch,
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
}

fn nics(f: &Fleet) -> impl Iterator<Item = NicReport> {
    let targets = f.scene.targets.iter().zip(&f.sites).map(|(t, s)| (&t.name, &s.rdma.device, &s.station));
    let hosts = f.scene.hosts.iter().zip(&f.crews).map(|(h, c)| (&h.name, c.initiator.device(), &c.station));
    let both = targets.chain(hosts);
    both.map(|(name, nic, station)| NicReport { name: name.clone(), counters: *nic.counters(), not_taken: station.not_taken })
}

fn violations(f: &Fleet, hosts: &[HostReport], nics: &[NicReport]) -> Vec<String> {
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
    access(nics, &mut out);
    limits(f, &mut out);
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
fn access(nics: &[NicReport], out: &mut Vec<String>) {
    for NicReport { name, counters, .. } in nics {
        let Counters { nak_access, nak_invalid, nak_operational, .. } = counters;
        if nak_access + nak_invalid + nak_operational > 0 {
            out.push(format!("{name} refused access: {nak_access} NAKs 62h, {nak_invalid} 61h, {nak_operational} 63h"));
        }
    }
}

fn limits(f: &Fleet, out: &mut Vec<String>) {
    for p in f.lan.ports() {
        let of = f.scene.switches.iter().find(|s| s.name == p.node);
        let Some(SwitchSettings { queue, pfc, .. }) = of.map(|s| s.settings) else { continue };
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
            "{:<12} {:>8} {:>8} {:>8} {:>5} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "host", "reads", "writes", "MiB", "lost", "touched", "p50", "p99", "p99.9", "most"
        )?;
        for h in &self.hosts {
            let at = |q| micros(Duration::from_nanos(h.times.value_at_quantile(q)));
            let mib = h.bytes as f64 / f64::from(1 << 20);
            let most = micros(Duration::from_nanos(h.times.max()));
            let (p50, p99, p999) = (at(0.5), at(0.99), at(0.999));
            writeln!(
                f,
                "{:<12} {:>8} {:>8} {mib:>8.1} {:>5} {:>10} {p50:>10} {p99:>10} {p999:>10} {most:>10}",
                h.name, h.reads, h.writes, h.lost, h.touched
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
        for NicReport { name, counters: c, not_taken } in &self.nics {
            let damaged = not_taken + c.not_ip + c.not_ours + c.truncated + c.bad_icrc;
            let all = [
                ("marked packets came", c.congestion_marks),
                ("CNPs sent", c.cnps_sent),
                ("CNPs came", c.cnps_received),
                ("timeouts", c.timeouts),
                ("times gone back", c.went_back),
                ("damaged packets dropped", damaged),
            ];
            let all: Vec<String> = all.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{n} {what}")).collect();
            if !all.is_empty() {
                writeln!(f, "nic {name}: {}", all.join(", "))?;
            }
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
