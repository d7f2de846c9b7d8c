//! [`Scene`]: a network, its hosts and targets, what they do and what goes wrong, as a file says it. `docs/simulation.md` has the language.

mod line;
mod parse;

use core::time::Duration;

use nvmf_seam::rdma::Place;
use nvmf_seam::{Entropy, SplitMix64};

use crate::lan::{LinkSettings, PerMillion, SwitchSettings};

/// A simulation as it is written.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// Its name.
    pub name: String,
    /// What it shows, one sentence.
    pub says: String,
    /// Switches.
    pub switches: Vec<SwitchSpec>,
    /// Targets.
    pub targets: Vec<TargetSpec>,
    /// Hosts.
    pub hosts: Vec<HostSpec>,
    /// Links.
    pub links: Vec<LinkSpec>,
    /// Static entries of switches.
    pub routes: Vec<RouteSpec>,
    /// What goes wrong.
    pub faults: Vec<FaultSpec>,
    /// When all faults end.
    pub heal: Duration,
    /// How long everything may take from then on.
    pub within: Duration,
    /// What is to come of it.
    pub expects: Vec<Expect>,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchSpec {
    /// Name.
    pub name: String,
    /// How it is set.
    pub settings: SwitchSettings,
}

/// What targets and hosts have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicSpec {
    /// DSCP of its packets, whose class selector is their priority.
    pub dscp: u8,
    /// Bytes of an IP packet.
    pub mtu: u32,
    /// Local ACK Timeout n: 4.096 us * 2^n.
    pub ack_timeout: u8,
    /// Packets that a queue pair has out unacknowledged.
    pub window: u32,
}

/// A target: one subsystem with one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSpec {
    /// Name.
    pub name: String,
    /// Its NIC.
    pub nic: NicSpec,
    /// Block size, bytes.
    pub block: u32,
    /// Most bytes of a command: 4096 times a power of two.
    pub mdts: u32,
}

/// A host: one association, and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSpec {
    /// Name.
    pub name: String,
    /// Its NIC.
    pub nic: NicSpec,
    /// The target, by its place in [`Scene::targets`].
    pub to: usize,
    /// Reads and writes that it is to bring to an end.
    pub ops: u32,
    /// How many of a hundred are reads.
    pub reads: u8,
    /// Bytes of each, from least to most.
    pub size: (u32, u32),
    /// Commands at a time.
    pub depth: u16,
    /// Bytes of the namespace that are its own.
    pub span: u32,
    /// When it begins.
    pub from: Duration,
    /// Where the data of its commands lies.
    pub memory: Place,
    /// Its NIC reaches memory through a buffer from which a CPU copies.
    pub bounce: bool,
}

/// A link between two nodes, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Its ends.
    pub ends: [String; 2],
    /// Both directions.
    pub settings: LinkSettings,
}

/// A static entry of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSpec {
    /// The switch.
    pub switch: String,
    /// Frames to this station…
    pub to: String,
    /// …go out on the link to this node.
    pub via: String,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSpec {
    /// As it is written.
    pub text: String,
    /// What.
    pub what: FaultKind,
    /// From when on: a time of this range, by the seed.
    pub from: (Duration, Duration),
    /// How long: a time of this range.
    pub lasts: (Duration, Duration),
}

/// What a fault does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// To frames on a link, in the direction from `way` or in both.
    Link {
        /// Its ends.
        ends: [String; 2],
        /// The end where the direction begins.
        way: Option<String>,
        /// What.
        what: crate::lan::Wrong,
        /// Which frames.
        share: PerMillion,
    },
    /// A station asks for silence again and again.
    Pause {
        /// Whose NIC.
        station: String,
        /// Which priority.
        priority: u8,
    },
    /// A target acknowledges writes that it does not do.
    LostWrite {
        /// Whose store.
        target: String,
        /// Which writes.
        share: PerMillion,
    },
}

/// What is to come of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Ports of switches wait for each other at the end of the faults' time; not everything finishes then.
    Deadlock,
    /// What the wire shows of this host is the exchange of NVMe/RDMA, command by command, and breaks no rule.
    Exchange(String),
    /// A figure.
    Figure {
        /// Of this node; of all that have it together where it is `None`.
        node: Option<String>,
        /// Which.
        what: Figure,
        /// How it is to compare…
        sign: core::cmp::Ordering,
        /// …with this: nanoseconds, bytes, or how many.
        than: u64,
    },
}

/// What a node has counted at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Hosts: a part of all commands, in thousandths, was at most so long; nanoseconds.
    Latency(u16),
    /// Hosts: reads that ended well, what was read back not among them.
    Reads,
    /// Hosts: writes that ended well.
    Writes,
    /// Hosts: associations that were lost, or did not come up.
    Lost,
    /// Hosts: payload bytes that a CPU touched.
    Touched,
    /// Switches: frames that were marked. Hosts and targets: packets that came with a mark.
    Marks,
    /// Hosts and targets: CNPs sent.
    CnpsSent,
    /// Hosts and targets: CNPs that came.
    CnpsReceived,
    /// Hosts and targets: local ACK timeouts.
    Timeouts,
    /// Switches: pauses asked for.
    Pauses,
    /// Switches: frames dropped.
    Dropped,
}

impl Figure {
    /// All, by name.
    pub const ALL: [(&str, Self); 13] = [
        ("p50", Self::Latency(500)),
        ("p99", Self::Latency(990)),
        ("p99.9", Self::Latency(999)),
        ("reads", Self::Reads),
        ("writes", Self::Writes),
        ("lost", Self::Lost),
        ("touched", Self::Touched),
        ("marks", Self::Marks),
        ("cnps-sent", Self::CnpsSent),
        ("cnps-received", Self::CnpsReceived),
        ("timeouts", Self::Timeouts),
        ("pauses", Self::Pauses),
        ("dropped", Self::Dropped),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, f)| *f == self).map_or("", |(n, _)| n)
    }

    /// Whether hosts, targets and switches have it.
    pub(crate) fn of(self) -> [bool; 3] {
        match self {
            Self::Latency(_) | Self::Reads | Self::Writes | Self::Lost | Self::Touched => [true, false, false],
            Self::CnpsSent | Self::CnpsReceived | Self::Timeouts => [true, true, false],
            Self::Marks => [true, true, true],
            Self::Pauses | Self::Dropped => [false, false, true],
        }
    }
}

/// Why a scene cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SceneError {
    /// Line, from 1 on.
    pub line: usize,
    /// What was expected.
    pub message: String,
}

impl core::fmt::Display for SceneError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for SceneError {}

impl Scene {
    /// Reads a scene.
    pub fn parse(text: &str) -> Result<Self, SceneError> {
        parse::scene(text)
    }

    /// The same with only those faults whose numbers `keep` has.
    pub fn only(&self, keep: &[usize]) -> Self {
        let faults = self.faults.iter().enumerate();
        // those that are left out keep their places, and so do the random streams of the others
        let faults = faults.map(|(i, f)| if keep.contains(&i) { f.clone() } else { FaultSpec { lasts: NEVER, ..f.clone() } });
        Self { faults: faults.collect(), ..self.clone() }
    }
}

const NEVER: (Duration, Duration) = (Duration::ZERO, Duration::ZERO);

/// A time of a range.
pub(crate) fn draw(range: (Duration, Duration), random: &mut SplitMix64) -> Duration {
    let width = (range.1 - range.0).as_nanos() as u64;
    range.0 + Duration::from_nanos(random.below(width.saturating_add(1)))
}
