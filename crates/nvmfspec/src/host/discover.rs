//! `nvmfspec host discover`: a discovery log, those that it refers to, and what changes while one stays connected.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use nvmf_conformance::report::printable;
use nvmf_engine::host::{DISCOVERY_NQN, DiscoveryLog, HostSettings, Service, Walk, address};
use nvmf_net::Notice;
use nvmf_seam::Network;
use nvmf_wire::admin::LogPage;
use nvmf_wire::log::{DiscoveryEntry, SubsystemType};
use nvmf_wire::tcp::{DISCOVERY_PORT, IO_PORT};
use serde_json::{Value as Json, json};

use super::{Client, Failure, PeerArgs, finish, reach, reach_at, settings, show};
use crate::output;
use crate::values::{TransportArg, millis};

/// What to read, and for how long.
#[derive(Args, Debug)]
pub struct DiscoverArgs {
    /// Follow referrals to other addresses than the target's too
    #[arg(long)]
    referrals: bool,
    /// Stay connected this long, and print the log again when the service tells of a change: seconds, or 500ms, 1min
    #[arg(long, value_name = "SECONDS", value_parser = millis)]
    persistent: Option<u32>,
    /// As JSON, with the names of the wire tables
    #[arg(long)]
    json: bool,
}

/// Prints the log of the service, then what it refers to.
pub(super) fn run(peer: &PeerArgs, args: &DiscoverArgs) -> Result<String, Failure> {
    let mut settings = discovery_settings(peer);
    // A nonzero KATO asks for a persistent connection; one look needs none. [DISC-CTRL-04]
    settings.kato_ms = if args.persistent.is_some() { peer.kato.unwrap_or(120_000) } else { 0 };
    let (client, at) = reach(peer, &[DISCOVERY_PORT, IO_PORT], &settings)?;
    finish(client, |client| {
        let log = client.discovery_log()?;
        output::print(&told(peer, args, &log, at));
        if let Some(ms) = args.persistent {
            stay(client, args, at, Duration::from_millis(ms.into()))?;
        }
        Ok(String::new())
    })
}

/// Waits for changes; each is read again, which lets the next one be told. [DISC-CTRL-18]
fn stay(client: &mut Client, args: &DiscoverArgs, at: SocketAddr, time: Duration) -> Result<(), Failure> {
    let until = client.network().now() + time;
    while client.network().now() < until {
        let next = (client.network().now() + Duration::from_millis(200)).min(until);
        client.idle(next)?;
        while let Some(notice) = client.notice() {
            eprintln!("{}", show::notice(&notice));
            if let Notice::Event(event) = notice
                && event.log_page() == LogPage::DISCOVERY
            {
                let log = client.discovery_log()?;
                output::print(&if args.json { show::log_json(&log, at, Vec::new()) } else { format!("\n{}", show::log(&log, at)) });
            }
        }
    }
    Ok(())
}

/// The log and those of the referrals, as text or JSON.
fn told(peer: &PeerArgs, args: &DiscoverArgs, log: &DiscoveryLog, at: SocketAddr) -> String {
    let subnqn = peer.nqn.as_deref().unwrap_or(DISCOVERY_NQN);
    let mut walk = Walk::new(at, subnqn, args.referrals);
    let (mut text, mut list) = (show::log(log, at), Vec::new());
    if let Some(first) = walk.next_service() {
        leave(&mut walk, &first, log, &mut text, &mut list);
    }
    while let Some(service) = walk.next_service() {
        match ask(peer, &service) {
            Ok(log) => {
                let _ = write!(text, "\nreferred to, {} deep\n{}", service.depth, show::log(&log, service.at));
                list.push(show::log_value(&log, service.at));
                leave(&mut walk, &service, &log, &mut text, &mut list);
            }
            Err(why) => {
                let _ = writeln!(text, "\nreferral to {}: {}", service.at, printable(&why));
                list.push(json!({ "target": service.at.to_string(), "subnqn": service.subnqn, "error": why }));
            }
        }
    }
    if args.json { show::log_json(log, at, list) } else { text }
}

/// Tells of the referrals that are not followed.
fn leave(walk: &mut Walk, service: &Service, log: &DiscoveryLog, text: &mut String, list: &mut Vec<Json>) {
    for (entry, left) in walk.take(service, log) {
        let Some(left) = left else { continue };
        let to = address(entry)
            .map_or_else(|| format!("{} port {}", entry.traddr().as_str(), entry.trsvcid().as_str()), |at| at.to_string());
        let _ = writeln!(text, "\nreferral to {} not followed: {left}", printable(&to));
        list.push(json!({ "target": to, "subnqn": entry.subnqn().as_str(), "left": left.to_string() }));
    }
}

/// The log of a service that another one referred to.
fn ask(peer: &PeerArgs, service: &Service) -> Result<DiscoveryLog, String> {
    let mut settings = discovery_settings(peer);
    settings.subnqn.clone_from(&service.subnqn);
    settings.kato_ms = 0;
    let told = |e: Failure| e.told().1;
    let mut client = reach_at(peer, service.at, TransportArg::Tcp, &settings).map_err(told)?;
    let log = client.discovery_log();
    let ended = client.disconnect();
    let log = log.map_err(|e| told(e.into()))?;
    ended.map_err(|e| told(e.into()))?;
    Ok(log)
}

fn discovery_settings(peer: &PeerArgs) -> HostSettings {
    let mut settings = settings(peer, peer.nqn.as_deref().unwrap_or(DISCOVERY_NQN));
    settings.discovery = true;
    settings.io_queues = 0;
    settings
}

/// The only NVM subsystem that the discovery log of the target has.
pub(super) fn only_subsystem(peer: &PeerArgs) -> Result<String, Failure> {
    let mut settings = settings(peer, DISCOVERY_NQN);
    settings.kato_ms = 0;
    let (mut client, at) = reach(peer, &[DISCOVERY_PORT, IO_PORT], &settings)?;
    let log = client.discovery_log();
    let ended = client.disconnect();
    let log = log?;
    ended?;
    let mut names: Vec<String> = log
        .entries
        .iter()
        .filter(|e| e.subtype() == SubsystemType::NVM)
        .map(|e: &DiscoveryEntry| e.subnqn().as_str().to_owned())
        .collect();
    names.sort();
    names.dedup();
    match names.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Failure::Usage(format!("the discovery log of {at} has no NVM subsystem; give one with --nqn"))),
        several => Err(Failure::Usage(format!(
            "the discovery log of {at} has several NVM subsystems; choose with --nqn:\n  {}",
            several.join("\n  ")
        ))),
    }
}
