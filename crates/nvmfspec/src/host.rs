//! `nvmfspec host`: the reference host against a real controller: discover, connect, identify, read, write.

mod discover;
mod exercise;
mod io;
mod show;
mod watch;

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use nvmf_conformance::ExitStatus;
use nvmf_engine::host::{HostError, HostRdmaSettings, HostSettings};
use nvmf_net::{ClientError, HostClient};
use nvmf_seam::{Network, OpenError};
use nvmf_spec::{Level, Side};
use nvmf_wire::Status;
use nvmf_wire::tcp::{DISCOVERY_PORT, Digests, IO_PORT};

use crate::bystander::Bystander;
use crate::nic::{self, Nic};
use crate::output;
use crate::values::{HostPort, TransportArg, Uuid, millis, nqn};
use discover::{DiscoverArgs, only_subsystem};
use watch::{Shared, Watched};

const EXAMPLES: &str = "\
Examples:
  nvmfspec host discover --target 10.0.0.5
      The discovery log: port 8009, then 4420.
  nvmfspec host discover --target 10.0.0.5 --persistent 1min --kato 5
      The same, and again whenever the service tells of a change.
  nvmfspec host identify --target 10.0.0.5 --nqn nqn.2014-08.com.example:array
      What the controller and its namespaces say about themselves.
  nvmfspec host connect --target array:4420 --queues 4 --hdgst --ddgst --seconds 60
      Full bring-up, a minute with keep alive, orderly shutdown.
  nvmfspec host connect --target array --exercise --allow-writes 0-16383
      What a host does on a full day, without and with digests, judged by the bystander rules.
  nvmfspec host connect --target 10.0.0.5 --transport rdma
      Over RoCEv2, without an RDMA device.
  nvmfspec host read --target array --nsid 1 --lba 0 --blocks 8
  nvmfspec host write --target array --nsid 1 --lba 0 --file image.raw

Without --nqn the only NVM subsystem of the discovery log is taken; where there are several they are listed.
Exit status: 0 done; 1 a command failed; 2 usage; 3 nothing reached, or what was reached does not speak NVMe.
With --judge also 1 where the controller broke a shall, and 3 where we broke any requirement.";

/// Play a host.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct HostArgs {
    #[command(subcommand)]
    command: HostCommand,
}

#[derive(Subcommand, Debug)]
enum HostCommand {
    /// Print the discovery log, and those that it refers to
    Discover {
        #[command(flatten)]
        peer: PeerArgs,
        #[command(flatten)]
        discover: DiscoverArgs,
    },
    /// Bring an association up, print what was agreed on, and end it in order
    Connect {
        #[command(flatten)]
        peer: PeerArgs,
        /// Stay this long, printing events
        #[arg(long, value_name = "N", default_value_t = 0)]
        seconds: u64,
        /// What was agreed on, or the steps and findings of the exercise, as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        exercise: exercise::ExerciseArgs,
    },
    /// Print Identify Controller and Identify Namespace
    Identify {
        #[command(flatten)]
        peer: PeerArgs,
        /// Only this namespace rather than every active one
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=0xffff_fffe))]
        nsid: Option<u32>,
        /// Fields that are zero too
        #[arg(long)]
        all: bool,
        /// As JSON, with the names of the wire tables
        #[arg(long)]
        json: bool,
    },
    /// Read blocks: as a hex dump, or into a file
    Read {
        #[command(flatten)]
        peer: PeerArgs,
        #[command(flatten)]
        range: io::ReadArgs,
    },
    /// Write blocks from a file or with a pattern
    Write {
        #[command(flatten)]
        peer: PeerArgs,
        #[command(flatten)]
        range: io::WriteArgs,
    },
}

/// Whom to talk to, and how.
#[derive(Args, Debug)]
struct PeerArgs {
    /// The controller: HOST or HOST:PORT. Without a port 4420, for discovery 8009 (over TCP) and then 4420
    #[arg(long, value_name = "HOST[:PORT]")]
    target: HostPort,
    /// What carries the capsules
    #[arg(long, value_enum, default_value_t = TransportArg::Tcp, value_name = "tcp|rdma")]
    transport: TransportArg,
    #[arg(long, value_name = "WAY", default_value = "udp", help = nic::HELP)]
    nic: Nic,
    /// The subsystem
    #[arg(long, value_parser = nqn)]
    nqn: Option<String>,
    /// Who we are; the default is made from the host identifier
    #[arg(long, value_parser = nqn, help_heading = "Host")]
    hostnqn: Option<String>,
    /// Host identifier
    #[arg(long, value_name = "UUID", default_value = "3f0c7a52-94c1-4d0e-8f61-7b5de2a9c804", help_heading = "Host")]
    hostid: Uuid,
    /// Ask for header digests, and insist on them
    #[arg(long, help_heading = "Transport")]
    hdgst: bool,
    /// Ask for data digests, and insist on them
    #[arg(long, help_heading = "Transport")]
    ddgst: bool,
    /// Host PDU Data Alignment: data to us starts at a multiple of (N + 1) x 4 bytes
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=31), help_heading = "Transport")]
    hpda: u8,
    /// R2Ts that may be outstanding for one command
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Transport")]
    r2ts: u16,
    /// I/O queues to ask for
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128), help_heading = "Queues")]
    queues: u16,
    /// Entries of each I/O queue to ask for
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(2..), help_heading = "Queues")]
    queue_entries: u16,
    /// Ask to do without SQ flow control
    #[arg(long, help_heading = "Queues")]
    no_flow_control: bool,
    /// Keep Alive Timeout: seconds such as 2 or 0.5, or 500ms, 1min [default: 120; 2 for --exercise]
    #[arg(long, value_name = "SECONDS", value_parser = millis, help_heading = "Queues")]
    kato: Option<u32>,
    /// Patience in seconds for a connection and for the answer to a command
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Run the bystander rules on the traffic; what they find is printed on standard error
    #[arg(long)]
    judge: bool,
    #[arg(skip)]
    bystander: Option<Shared>,
}

impl HostCommand {
    fn peer(&mut self) -> &mut PeerArgs {
        match self {
            Self::Discover { peer, .. }
            | Self::Connect { peer, .. }
            | Self::Identify { peer, .. }
            | Self::Read { peer, .. }
            | Self::Write { peer, .. } => peer,
        }
    }
}

/// Why nothing came of it.
#[derive(Debug)]
enum Failure {
    Client(ClientError),
    /// The name cannot be resolved.
    Name(String),
    /// Wrong use that only shows once the controller was asked.
    Usage(String),
    /// Ours: files.
    Local(String),
}

impl From<ClientError> for Failure {
    fn from(e: ClientError) -> Self {
        Self::Client(e)
    }
}

impl Failure {
    fn told(self) -> (ExitStatus, String) {
        match self {
            Self::Usage(why) => (ExitStatus::Usage, why),
            Self::Name(why) => (ExitStatus::Harness, why),
            Self::Local(why) => (ExitStatus::Failed, why),
            Self::Client(e) => (if e.is_unreachable() { ExitStatus::Harness } else { ExitStatus::Failed }, e.to_string()),
        }
    }
}

type Client = HostClient<Watched>;

/// Runs `nvmfspec host`.
pub fn run(mut args: HostArgs) -> ExitCode {
    let (exercise, own_side) = match &args.command {
        HostCommand::Connect { exercise, .. } => (exercise.wanted(), exercise.own_side()),
        _ => (false, false),
    };
    let peer = args.command.peer();
    // A full day is judged wherever that can be.
    let seen = peer.transport == TransportArg::Tcp || peer.nic.shows_packets();
    if peer.judge && !seen {
        let why = format!("--nic {}: the packets of an RDMA device cannot be seen: leave out --judge", peer.nic);
        return output::refuse(ExitStatus::Usage, &why);
    }
    peer.bystander = (peer.judge || exercise && seen).then(Shared::default);
    let bystander = peer.bystander.clone();
    let status = match args.command {
        HostCommand::Connect { peer, exercise, json, .. } if exercise.wanted() => exercise::run(&peer, &exercise, json),
        command => plain(command),
    };
    let Some(bystander) = bystander else { return status.into() };
    let bystander = bystander.borrow();
    if !exercise {
        eprintln!("{}{}", bystander.findings(), bystander.summary(Side::Host));
    }
    with_findings(status, &bystander, own_side).into()
}

/// The status of a command, and that of what the rules found: the first of 2, 3, 1 that holds.
fn with_findings(status: ExitStatus, bystander: &Bystander, own_side: bool) -> ExitStatus {
    match status {
        ExitStatus::Usage | ExitStatus::Harness => status,
        _ if bystander.broke(Side::Host, Level::May) => ExitStatus::Harness,
        _ if !own_side && bystander.broke(Side::Controller, Level::Shall) => ExitStatus::Failed,
        _ => status,
    }
}

fn plain(command: HostCommand) -> ExitStatus {
    let done = match command {
        HostCommand::Discover { peer, discover } => discover::run(&peer, &discover),
        HostCommand::Connect { peer, seconds, json, .. } => connect(&peer, seconds, json),
        HostCommand::Identify { peer, nsid, all, json } => {
            open(&peer, 0).and_then(|c| finish(c, |c| show::identify(c, nsid, all, json)))
        }
        HostCommand::Read { peer, range } => open(&peer, peer.queues).and_then(|c| finish(c, |c| io::read(c, &range))),
        HostCommand::Write { peer, range } => {
            io::source(&range).and_then(|source| open(&peer, peer.queues).and_then(|c| finish(c, |c| io::write(c, &range, source))))
        }
    };
    match done {
        Ok(text) => {
            output::print(&text);
            ExitStatus::Success
        }
        Err(failure) => {
            let (status, why) = failure.told();
            output::refuse(status, &why);
            status
        }
    }
}

fn connect(peer: &PeerArgs, seconds: u64, json: bool) -> Result<String, Failure> {
    let client = open(peer, peer.queues)?;
    finish(client, |client| {
        output::print(&if json { show::facts_json(client) } else { show::facts(client) });
        let until = client.network().now() + Duration::from_secs(seconds);
        // In pieces, so that events are printed when they come.
        while seconds > 0 && client.network().now() < until {
            let next = (client.network().now() + Duration::from_millis(500)).min(until);
            client.idle(next)?;
            while let Some(notice) = client.notice() {
                let line = format!("{}\n", show::notice(&notice));
                if json {
                    eprint!("{line}");
                } else {
                    output::print(&line);
                }
                if let nvmf_net::Notice::Event(event) = notice {
                    // So that the next one of its kind is told too.
                    client.clear_event(event)?;
                }
            }
        }
        Ok(String::new())
    })
}

/// Does `what`, then ends the association in order, whatever came of it. What the controller did wrong meanwhile is told.
fn finish(mut client: Client, what: impl FnOnce(&mut Client) -> Result<String, Failure>) -> Result<String, Failure> {
    let done = what(&mut client);
    let mut notes = String::new();
    while let Some(notice) = client.notice() {
        notes.push_str(&format!("{}\n", show::notice(&notice)));
    }
    let ended = client.disconnect();
    eprint!("{}", nvmf_conformance::report::printable(&notes));
    let text = done?;
    ended?;
    Ok(text)
}

/// Connects to the subsystem asked for, or to the only one that the discovery log has.
fn open(peer: &PeerArgs, queues: u16) -> Result<Client, Failure> {
    let subnqn = match &peer.nqn {
        Some(nqn) => nqn.clone(),
        None => only_subsystem(peer)?,
    };
    let mut settings = settings(peer, &subnqn);
    settings.io_queues = queues;
    let ports = if settings.is_discovery() { &[DISCOVERY_PORT, IO_PORT][..] } else { &[IO_PORT] };
    match reach(peer, ports, &settings) {
        // The subsystem moved: what the discovery log says now counts, once. [FAB-CONNECT-31]
        Err(Failure::Client(ClientError::Host(HostError::Refused { cqe, .. })))
            if peer.nqn.is_none() && cqe.status().code() == Status::CONNECT_RESTART_DISCOVERY =>
        {
            settings.subnqn = only_subsystem(peer)?;
            Ok(reach(peer, ports, &settings)?.0)
        }
        reached => Ok(reached?.0),
    }
}

fn settings(peer: &PeerArgs, subnqn: &str) -> HostSettings {
    let hostid = peer.hostid.0;
    let hostnqn = peer.hostnqn.clone().unwrap_or_else(|| {
        let h: String = hostid.iter().map(|b| format!("{b:02x}")).collect();
        let (a, b, c, d, e) = (&h[..8], &h[8..12], &h[12..16], &h[16..20], &h[20..]);
        format!("{}{a}-{b}-{c}-{d}-{e}", nvmf_wire::nqn::UUID_PREFIX)
    });
    let mut settings = HostSettings::new(hostnqn, hostid, subnqn);
    settings.kato_ms = peer.kato.unwrap_or(120_000);
    settings.io_entries = peer.queue_entries;
    settings.flow_control_off = peer.no_flow_control;
    settings.insist_on_digests = true;
    settings.command_patience = Duration::from_secs(peer.timeout);
    settings.tcp.digests = Digests { header: peer.hdgst, data: peer.ddgst };
    settings.tcp.hpda = peer.hpda;
    settings.tcp.r2ts = peer.r2ts;
    settings.tcp.ic_patience = settings.command_patience;
    settings
}

/// Connects to the first address and port where something listens. Discovery is asked over TCP first, also before RDMA.
fn reach(peer: &PeerArgs, ports: &[u16], settings: &HostSettings) -> Result<(Client, SocketAddr), Failure> {
    let given = peer.target.port.map(|p| [p]);
    let mut last = None;
    for port in given.as_ref().map_or(ports, |p| &p[..]) {
        let host = peer.target.host.as_str();
        let found = (host, *port).to_socket_addrs().map_err(|e| Failure::Name(format!("{host}: {e}")))?;
        let over_tcp = peer.target.port.is_none() && *port == DISCOVERY_PORT;
        if over_tcp && peer.transport == TransportArg::Rdma && peer.nic.is_apart() {
            // TCP does not go where these frames go.
            continue;
        }
        let transport = if over_tcp { TransportArg::Tcp } else { peer.transport };
        for at in found {
            match reach_at(peer, at, transport, settings) {
                Ok(client) => return Ok((client, at)),
                Err(Failure::Client(ClientError::Open(e))) => last = Some((at, e)),
                Err(e) => return Err(e),
            }
        }
    }
    match last {
        Some((at, e)) => Err(ClientError::Open(OpenError::Other(format!("{at}: {e}"))).into()),
        None => Err(Failure::Name(format!("{} has no address", peer.target.host))),
    }
}

fn reach_at(peer: &PeerArgs, at: SocketAddr, transport: TransportArg, settings: &HostSettings) -> Result<Client, Failure> {
    let mut settings = settings.clone();
    let network = match transport {
        TransportArg::Tcp => Watched::new(peer.bystander.clone()),
        TransportArg::Rdma => {
            settings.rdma = Some(HostRdmaSettings::default());
            Watched::over_rdma(peer.bystander.clone(), &peer.nic, at).map_err(|e| Failure::Name(e.to_string()))?
        }
    };
    Ok(HostClient::connect(network, at, settings)?)
}
