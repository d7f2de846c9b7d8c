//! What a scene expects of its run, against what came of it.

use core::cmp::Ordering;
use core::time::Duration;

use super::report::{NicReport, PortReport, Report};
use super::witness::Exchanges;
use crate::scene::{Expect, Figure, Scene};

/// What is not as the scene expects it, a sentence each; deadlocks are judged elsewhere.
pub(super) fn unmet(scene: &Scene, report: &Report, exchanges: &Exchanges) -> Vec<String> {
    let mut out = Vec::new();
    for e in &scene.expects {
        match e {
            Expect::Deadlock => {}
            Expect::Exchange(host) => exchange(report, exchanges, host, &mut out),
            Expect::Figure { node, what, sign, than } => {
                let is = figure(report, node.as_deref(), *what);
                if is.cmp(than) != *sign {
                    let sign = match sign {
                        Ordering::Less => '<',
                        Ordering::Equal => '=',
                        Ordering::Greater => '>',
                    };
                    let (node, name) = (node.as_deref().unwrap_or("all"), what.name());
                    out.push(format!("{node} {name} {sign} {} was expected: it is {}", show(*what, *than), show(*what, is)));
                }
            }
        }
    }
    out
}

fn show(what: Figure, n: u64) -> String {
    match what {
        Figure::Latency(_) => format!("{:?}", Duration::from_nanos(n)),
        _ => n.to_string(),
    }
}

fn exchange(report: &Report, exchanges: &Exchanges, host: &str, out: &mut Vec<String>) {
    let Some((number, host)) = report.hosts.iter().enumerate().find(|(_, h)| h.name == host) else { return };
    out.extend(exchanges.wrong.get(&number).into_iter().flatten().map(|what| format!("{}: {what}", host.name)));
    let (seen, done) = (exchanges.whole.get(&number).copied().unwrap_or(0), host.reads + host.writes);
    if seen < done {
        out.push(format!("{}: {done} commands have ended, and {seen} whole exchanges were seen", host.name));
    }
}

/// A figure of one node, or of all that have it together.
fn figure(r: &Report, node: Option<&str>, what: Figure) -> u64 {
    let named = |name: &str| node.is_none_or(|n| n == name);
    let hosts = || r.hosts.iter().filter(|h| named(&h.name));
    let nics = |of: fn(&NicReport) -> u64| r.nics.iter().filter(|n| named(&n.name)).map(of).sum::<u64>();
    let switches = |of: fn(&PortReport) -> u64| r.ports.iter().filter(|p| p.switch && named(&p.node)).map(of).sum::<u64>();
    match what {
        Figure::Latency(part) => hosts().map(|h| h.times.value_at_quantile(f64::from(part) / 1000.0)).max().unwrap_or(0),
        Figure::Reads => hosts().map(|h| h.reads).sum(),
        Figure::Writes => hosts().map(|h| h.writes).sum(),
        Figure::Lost => hosts().map(|h| h.lost).sum(),
        Figure::Touched => hosts().map(|h| h.touched).sum(),
        // a node is a station or a switch: the other one has none
        Figure::Marks => nics(|n| n.counters.congestion_marks) + switches(|p| p.marked),
        Figure::CnpsSent => nics(|n| n.counters.cnps_sent),
        Figure::CnpsReceived => nics(|n| n.counters.cnps_received),
        Figure::Timeouts => nics(|n| n.counters.timeouts),
        Figure::Pauses => switches(|p| p.pauses_sent),
        Figure::Dropped => switches(|p| p.dropped),
    }
}
