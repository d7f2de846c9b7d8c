//! `nvmfspec target`: plays a target, correct or with faults, until it is interrupted.

mod control;
mod log;
mod namespace;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use nvmf_conformance::suite::Suite;
use nvmf_conformance::{ExitStatus, select};
use nvmf_engine::{ControllerModel, ControllerSettings, RdmaSettings, TcpSettings};
use nvmf_net::target::{Listener, Observer, SubsystemConfig, TapFactory, Target, TargetConfig};
use nvmf_scenario::ast::{Fault, Script};
use nvmf_scenario::fault::FaultTap;

use crate::nic::{self, Nic};
use crate::output;
use crate::values::{TransportArg, listen_at};
use control::Control;
use log::Log;
use namespace::Namespace;

const EXAMPLES: &str = "\
Examples:
  nvmfspec target                                            64 MiB in memory on 127.0.0.1:4420
  nvmfspec target --listen 0.0.0.0:4420 --namespace mem:1GiB,bs=4096 --namespace file:disk.img
  nvmfspec target --discovery 0.0.0.0:8009 --listen 0.0.0.0:4420
  nvmfspec target --transport rdma --listen 10.0.0.5         NVMe/RDMA over RoCEv2, without an RDMA device
  nvmfspec target --transport rdma --listen 10.0.0.5 --nic verbs:mlx5_0    by an RDMA device
  nvmfspec target --transport tcp,rdma --listen 10.0.0.5 --discovery 10.0.0.5:8009
  nvmfspec target --judge                                    tells what the hosts that come do wrong
  nvmfspec target --fault tcp-r2t-nothing --pcap out.pcapng  a target that is wrong in one way
  nvmfspec target --control /run/nvmf.sock                   then: nvmfspec control /run/nvmf.sock namespace add mem:64MiB

It serves until SIGINT, or `quit` over its control socket, and then ends with status 0.";

/// What to serve, and where.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct TargetArgs {
    /// Where to listen; may be repeated; the discovery subsystem answers here too. Without a port 4420
    #[arg(long, value_name = "ADDR[:PORT]", default_value = "127.0.0.1:4420", value_parser = listen_at)]
    listen: Vec<SocketAddr>,
    /// Over what at each --listen: tcp, rdma or tcp,rdma
    #[arg(long, value_name = "WHAT", default_value = "tcp", value_delimiter = ',')]
    transport: Vec<TransportArg>,
    #[arg(long, value_name = "WAY", default_value = "udp", help = nic::HELP)]
    nic: Nic,
    /// Where to listen over TCP for discovery alone; may be repeated
    #[arg(long, value_name = "ADDR:PORT")]
    discovery: Vec<SocketAddr>,
    /// Address of the first --listen in the discovery log, where hosts reach it by another one
    #[arg(long, value_name = "ADDR:PORT")]
    advertise: Option<SocketAddr>,
    /// Name of the NVM subsystem
    #[arg(long, value_name = "NQN", default_value = crate::place::EMBEDDED_NQN)]
    nqn: String,
    /// mem:SIZE, null:SIZE or file:PATH, then ,bs=BYTES for the block size (512); may be repeated: NSID 1, 2, ...
    #[arg(long, value_name = "STORE", default_value = "mem:64MiB")]
    namespace: Vec<Namespace>,
    /// Host NQN that may connect; may be repeated; without it all may
    #[arg(long, value_name = "NQN")]
    allow_host: Vec<String>,
    /// Take commands on this Unix socket; see `nvmfspec control --help`
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Fault by its id, or all faults of a file; may be repeated
    #[arg(long, value_name = "ID|FILE.fault")]
    fault: Vec<String>,
    /// Write what passes to this file, pcapng, at the end
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Run the bystander rules on the traffic and print what they find, and at the end what was watched
    #[arg(long)]
    judge: bool,
    /// Most data in one H2CData PDU (MAXH2CDATA), bytes
    #[arg(long, value_name = "BYTES", default_value_t = 131_072, value_parser = clap::value_parser!(u32).range(4096..))]
    maxh2cdata: u32,
    /// Most data that one R2T asks for, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1_048_576, value_parser = clap::value_parser!(u32).range(512..))]
    max_r2t: u32,
    /// Most data in one C2HData PDU, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 131_072, value_parser = clap::value_parser!(u32).range(512..))]
    max_c2hdata: u32,
    /// Alignment asked of the host's data (CPDA): (N + 1) x 4 bytes
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=31))]
    cpda: u8,
    /// In-capsule data of I/O commands, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    in_capsule: u32,
    /// Take Connect with KATO 0, which the specification refuses and many hosts send
    #[arg(long)]
    kato_zero: bool,
    /// Let any command keep the association alive (TBKAS), not Keep Alive alone
    #[arg(long)]
    traffic_keep_alive: bool,
    #[command(flatten)]
    options: OptionArgs,
    /// Do not print associations and connections
    #[arg(long, short)]
    quiet: bool,
}

/// What a controller may have or not.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Options of the controllers")]
struct OptionArgs {
    /// Static controllers 1 to N, which a host names and which keep what it saved, in place of dynamic ones
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=0xffef))]
    static_controllers: Option<u16>,
    /// Let hosts reset the NVM subsystem (CAP.NSSRS)
    #[arg(long)]
    subsystem_reset: bool,
    /// Let hosts delete single I/O queues: Disconnect (OFCS bit 0)
    #[arg(long)]
    queue_deletion: bool,
    /// ANA groups 1 to N; namespaces begin in group 1, and `nvmfspec control` moves them
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1024))]
    ana_groups: u32,
    /// Another discovery service that the discovery log refers to; may be repeated
    #[arg(long, value_name = "ADDR:PORT")]
    referral: Vec<SocketAddr>,
}

/// Serves until SIGINT or `quit`.
pub fn run(args: TargetArgs) -> ExitCode {
    match serve(&args) {
        Ok(()) => ExitStatus::Success.into(),
        Err((status, message)) => output::refuse(status, &message),
    }
}

fn serve(args: &TargetArgs) -> Result<(), (ExitStatus, String)> {
    let usage = |message: String| (ExitStatus::Usage, message);
    let harness = |message: String| (ExitStatus::Harness, message);
    let faults = faults(&args.fault).map_err(usage)?;
    let log = Arc::new(Log::new(!args.quiet, args.pcap.is_some(), args.judge));
    let config = config(args, &faults, log.clone()).map_err(usage)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|e| harness(e.to_string()))?;
    runtime.block_on(async {
        let target = Target::bind(config).await.map_err(|e| harness(e.to_string()))?;
        for to in &args.options.referral {
            let added = target.handle().with_hub(|hub| hub.add_referral(*to));
            added.map_err(|e| usage(format!("--referral {to}: {e}")))?;
        }
        let at: Vec<String> = target.addresses().iter().map(SocketAddr::to_string).collect();
        let wrong: Vec<&str> = faults.iter().map(|f| f.id.as_str()).collect();
        let wrong = if wrong.is_empty() { String::new() } else { format!(" faults {}", wrong.join(" ")) };
        // Before anybody is told that it runs.
        let stop = interrupted().map_err(|e| harness(e.to_string()))?;
        let control = args.control.as_ref().map(|path| {
            let control = Control::bind(path, target.handle(), &args.nqn);
            control.map_err(|e| harness(format!("--control {}: {e}", path.display())))
        });
        let control = control.transpose()?;
        output::print(&format!("listening on {} as {}{wrong}\n", at.join(" "), args.nqn));
        let quit = async {
            match control {
                Some(control) => control.run().await,
                None => std::future::pending().await,
            }
        };
        let stop = async {
            tokio::select! {
                () = stop => {}
                () = quit => {}
            }
        };
        target.run(stop).await;
        Ok(())
    })?;
    log.end();
    match &args.pcap {
        Some(path) => log.write_capture(path).map_err(|e| harness(format!("{}: {e}", path.display()))),
        None => Ok(()),
    }
}

/// Until SIGINT or SIGTERM, which are caught from the call on.
fn interrupted() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut int = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
        }
    })
}

fn config(args: &TargetArgs, faults: &[Fault], log: Arc<Log>) -> Result<TargetConfig, String> {
    let over = |at: &SocketAddr, transport: &TransportArg| match transport {
        TransportArg::Tcp => Listener::new(*at),
        TransportArg::Rdma => Listener::new(*at).over_rdma(args.nic.clone()),
    };
    let mut listeners: Vec<Listener> = args.listen.iter().flat_map(|at| args.transport.iter().map(move |t| over(at, t))).collect();
    if !faults.is_empty() && args.transport.contains(&TransportArg::Rdma) {
        return Err("--fault changes PDUs of NVMe/TCP: over RDMA there are none".into());
    }
    if args.transport.contains(&TransportArg::Rdma) && !args.nic.shows_packets() && (args.judge || args.pcap.is_some()) {
        return Err(format!("--nic {}: the packets of an RDMA device cannot be seen: leave out --judge and --pcap", args.nic));
    }
    if let Some(first) = listeners.first_mut() {
        first.advertise = args.advertise;
    }
    listeners.extend(args.discovery.iter().map(|at| Listener { discovery_only: true, ..Listener::new(*at) }));
    let namespaces = args
        .namespace
        .iter()
        .zip(1..)
        .map(|(n, nsid)| n.open().map(|ns| (nsid, ns)).map_err(|e| format!("--namespace {n}: {e}")))
        .collect::<Result<Vec<_>, String>>()?;
    let hosts = (!args.allow_host.is_empty()).then(|| args.allow_host.iter().cloned().collect());
    Ok(TargetConfig {
        listeners,
        subsystems: vec![SubsystemConfig { nqn: args.nqn.clone(), hosts, namespaces }],
        controller: ControllerSettings {
            // The SQE takes four units of 16 bytes.
            ioccsz: 4 + args.in_capsule / 16,
            kato_zero: args.kato_zero,
            traffic_keep_alive: args.traffic_keep_alive,
            controller_model: match args.options.static_controllers {
                Some(count) => ControllerModel::Static { count },
                None => ControllerModel::Dynamic,
            },
            subsystem_reset: args.options.subsystem_reset,
            queue_deletion: args.options.queue_deletion,
            ana_groups: args.options.ana_groups,
            ..ControllerSettings::default()
        },
        tcp: TcpSettings {
            cpda: args.cpda,
            maxh2cdata: args.maxh2cdata / 4 * 4,
            max_r2tl: args.max_r2t / 4 * 4,
            max_c2hdata: args.max_c2hdata / 4 * 4,
            ..TcpSettings::default()
        },
        rdma: RdmaSettings::default(),
        tap: taps(faults)?,
        observer: Some(log as Arc<dyn Observer>),
    })
}

/// The faults that are named: by id among those built in, or all of a file.
fn faults(named: &[String]) -> Result<Vec<Fault>, String> {
    let mut out = Vec::new();
    for name in named {
        if name.ends_with(".fault") {
            out.extend(of_file(Path::new(name))?);
            continue;
        }
        let suite = Suite::embedded().map_err(|e| e.to_string())?;
        let Some(fault) = suite.fault(name) else {
            let guess = select::did_you_mean(name, suite.faults().map(|fault| fault.script.id.as_str()));
            return Err(format!("--fault {name}: no fault has that id, and a file's name ends with .fault{guess}"));
        };
        out.push(fault.script.clone());
    }
    Ok(out)
}

fn of_file(path: &Path) -> Result<Vec<Fault>, String> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| format!("{name}: {e}"))?;
    let scripts = nvmf_scenario::parse::parse(&name, &text).map_err(|e| e.to_string())?;
    let faults: Vec<Fault> = scripts.into_iter().filter_map(|s| if let Script::Fault(f) = s { Some(f) } else { None }).collect();
    if faults.is_empty() { Err(format!("{name}: holds no fault")) } else { Ok(faults) }
}

/// A connection has one tap; the rules of several faults are joined in the order of the command line.
fn taps(faults: &[Fault]) -> Result<Option<TapFactory>, String> {
    let Some((first, rest)) = faults.split_first() else { return Ok(None) };
    let mut all = first.clone();
    all.rules.extend(rest.iter().flat_map(|f| f.rules.iter().cloned()));
    Ok(Some(Arc::new(move || Box::new(FaultTap::new(&all)))))
}
