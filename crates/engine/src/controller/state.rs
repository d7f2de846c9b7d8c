//! The state of a subsystem and of a controller.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use nvmf_seam::{Entropy, Instant, SplitMix64};
use nvmf_wire::log::{AnaState, ErrorEntry};
use nvmf_wire::nvm::Read;
use nvmf_wire::property::{Cc, Csts};
use nvmf_wire::sqe::IoOpcode;
use nvmf_wire::{Cid, Cntlid, Qid, Sqe, Status};

use super::events::Notice;
use super::features::{Features, Saveable};
use crate::message::{ConnectionId, Counters, NamespaceTable, NamespaceView};
use crate::settings::ControllerSettings;

/// Why an association ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The connection of one of its queues was lost or closed.
    ConnectionLost {
        /// The queue; 0 is the Admin Queue.
        qid: u16,
    },
    /// No Keep Alive came in time.
    KeepAlive,
    /// The host overran a submission queue.
    Overrun,
    /// The host did not enable the controller in time.
    NotEnabled,
    /// The subsystem was removed, or the target ends.
    Removed,
    /// The host may not connect to the subsystem any more.
    HostDenied,
    /// The NVM subsystem was reset.
    SubsystemReset,
}

impl core::fmt::Display for EndReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::ConnectionLost { qid: 0 } => f.write_str("connection of the Admin Queue closed"),
            Self::ConnectionLost { qid } => write!(f, "connection of I/O queue {qid} closed"),
            Self::KeepAlive => f.write_str("Keep Alive Timer expired"),
            Self::Overrun => f.write_str("submission queue overrun"),
            Self::NotEnabled => f.write_str("controller not enabled in time"),
            Self::Removed => f.write_str("subsystem removed"),
            Self::SubsystemReset => f.write_str("NVM Subsystem Reset"),
            Self::HostDenied => f.write_str("host not allowed any more"),
        }
    }
}

/// What a controller is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Io,
    Discovery,
}

/// An NVM subsystem.
#[derive(Debug)]
pub(super) struct Subsystem {
    nqn: String,
    /// Host NQNs that may connect; `None` for all.
    pub hosts: Option<BTreeSet<String>>,
    pub table: Arc<NamespaceTable>,
    pub ids: BTreeMap<u32, Ids>,
    /// State of each ANA group.
    pub groups: BTreeMap<u32, AnaState>,
    /// Changes of the ANA log so far.
    pub ana_changes: u64,
    /// What static controllers keep while they have no association.
    pub kept: BTreeMap<u16, Kept>,
    /// Static controllers that are for one host alone. [FAB-CONNECT-28]
    pub reserved: BTreeMap<u16, String>,
}

/// Identifiers of a namespace; they stay the same as long as it exists. [ADM-IDENTIFY-83]
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids {
    pub nguid: [u8; 16],
    pub uuid: [u8; 16],
    /// ANA group; 0 without ANA reporting.
    pub group: u32,
}

/// What a static controller keeps from one association to the next: what survives a Controller Level Reset. [FAB-CNTLID-13]
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub saved: Saveable,
    pub counters: Arc<Counters>,
    /// Errors that ended the last association. [ADM-LOG-25]
    pub errors: VecDeque<ErrorEntry>,
    pub error_count: u64,
    /// CSTS.NSSRO.
    pub reset_occurred: bool,
    pub created: Option<Instant>,
}

impl Subsystem {
    pub fn new(nqn: &str, hosts: Option<BTreeSet<String>>, settings: &ControllerSettings) -> Self {
        let table = Arc::new(NamespaceTable::new(settings.namespaces, BTreeMap::new()));
        Self {
            nqn: nqn.to_owned(),
            hosts,
            table,
            ids: BTreeMap::new(),
            groups: (1..=settings.ana_groups).map(|g| (g, AnaState::OPTIMIZED)).collect(),
            ana_changes: 0,
            kept: BTreeMap::new(),
            reserved: BTreeMap::new(),
        }
    }

    /// Adds a namespace; with ANA reporting it is in group 1. [ANA-03]
    pub fn attach(&mut self, nsid: u32, mut view: NamespaceView, uuid: Option<[u8; 16]>) {
        let group = self.groups.keys().next().copied().unwrap_or(0);
        view.ana = self.state_of(group);
        let mut random = SplitMix64::new(fold(self.nqn.as_bytes()).wrapping_add(u64::from(nsid)));
        let mut draw = || (u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())).to_be_bytes();
        let nguid = draw();
        let mut derived = draw();
        // Version 8 (RFC 9562: the bits are ours), variant 10b.
        derived[6] = derived[6] & 0x0f | 0x80;
        derived[8] = derived[8] & 0x3f | 0x80;
        self.ids.insert(nsid, Ids { nguid, uuid: uuid.unwrap_or(derived), group });
        self.change(|active| {
            active.insert(nsid, view);
        });
    }

    pub fn detach(&mut self, nsid: u32) -> bool {
        if self.ids.remove(&nsid).is_none() {
            return false;
        }
        self.change(|active| {
            active.remove(&nsid);
        });
        true
    }

    fn state_of(&self, group: u32) -> AnaState {
        self.groups.get(&group).copied().unwrap_or(AnaState::OPTIMIZED)
    }

    /// Gives every namespace the state of its group.
    pub fn refresh_ana(&mut self) {
        self.ana_changes += 1;
        let states: BTreeMap<u32, AnaState> = self.ids.iter().map(|(nsid, ids)| (*nsid, self.state_of(ids.group))).collect();
        self.change(|active| {
            for (nsid, view) in active {
                view.ana = states.get(nsid).copied().unwrap_or(AnaState::OPTIMIZED);
            }
        });
    }

    fn change(&mut self, f: impl FnOnce(&mut BTreeMap<u32, NamespaceView>)) {
        let mut active = self.table.active.clone();
        f(&mut active);
        self.table = Arc::new(NamespaceTable::new(self.table.nn, active));
    }

    pub fn allows(&self, hostnqn: &str) -> bool {
        self.hosts.as_ref().is_none_or(|h| h.contains(hostnqn))
    }
}

/// The first LBA of an I/O command that has one.
fn lba_of(qid: u16, sqe: &Sqe) -> u64 {
    match IoOpcode(sqe.opc().0) {
        IoOpcode::READ | IoOpcode::WRITE | IoOpcode::WRITE_ZEROES if qid != 0 => Read::from_bytes(*sqe.as_bytes()).slba(),
        _ => 0,
    }
}

/// FNV-1a, 64 bits: the same name gives the same identifiers in every run.
fn fold(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

/// One controller and its association.
#[derive(Debug)]
pub(super) struct Controller {
    pub kind: Kind,
    pub cntlid: Cntlid,
    /// The host can do with the loss of a single I/O queue (CATTR bit 3 of the Admin Queue's Connect). [FAB-DISC-16]
    pub deletes_queues: bool,
    /// Changes of the ANA log before the association or the last reset. [ANA-07]
    pub ana_base: u64,
    pub subnqn: String,
    pub hostnqn: String,
    pub hostid: [u8; 16],
    /// The port that the association is bound to. [FAB-ASSOC-04]
    pub port: u16,
    /// Our address as the host sees it.
    pub local: Option<IpAddr>,
    pub admin: ConnectionId,
    pub queues: BTreeMap<u16, ConnectionId>,
    pub cc: Cc,
    pub csts: Csts,
    pub keep_alive_due: Option<Instant>,
    pub enable_due: Option<Instant>,
    /// When the association ends for the loss of this I/O queue.
    pub lost_due: Option<(Instant, u16)>,
    pub features: Features,
    /// Outstanding Asynchronous Event Requests.
    pub requests: VecDeque<Cid>,
    /// Events to be reported.
    pub raised: BTreeSet<Notice>,
    /// Reported, and not cleared by the host yet.
    pub masked: BTreeSet<Notice>,
    /// The temperature is beyond a threshold.
    pub hot: bool,
    /// NSIDs for the Changed Namespace List.
    pub changed: BTreeSet<u32>,
    /// Newest first.
    pub errors: VecDeque<ErrorEntry>,
    pub error_count: u64,
    /// Aborts that wait for a queue's answer: token and CID of the Abort command.
    pub aborts: BTreeMap<u64, Cid>,
    pub counters: Arc<Counters>,
    pub created: Instant,
}

impl Controller {
    /// Commands other than Fabrics commands are served: enabled, ready and not shut down. [FAB-QUEUE-05, FAB-INIT-20]
    pub fn serving(&self) -> bool {
        self.cc.en() && self.csts.rdy() && self.cc.shn() == 0 && self.csts.shst() == 0
    }

    /// Starts the keep alive timer anew, or stops it where it is not active. [KA-01, KA-02, FAB-INIT-21]
    pub fn restart_keep_alive(&mut self, now: Instant) {
        let kato = self.features.kato;
        let active = kato != 0 && self.serving();
        self.keep_alive_due = active.then(|| now + core::time::Duration::from_millis(u64::from(kato)));
    }

    /// What stays of a static controller at the end of its association.
    pub fn keep(self, reason: EndReason) -> Kept {
        let errors = if reason == EndReason::KeepAlive { self.errors } else { VecDeque::new() };
        Kept {
            saved: self.features.saved,
            counters: self.counters,
            errors,
            error_count: self.error_count,
            reset_occurred: self.csts.nssro(),
            created: Some(self.created),
        }
    }

    /// Adds an entry to the Error Information log. TRTYPE stays 0: no error of the transport comes here.
    /// [ADM-LOG-18 to ADM-LOG-22]
    pub fn log_error(&mut self, settings: &ControllerSettings, qid: u16, sqe: &Sqe, status: Status) {
        let entry =
            ErrorEntry::new().with(|s| s.sqid(Qid(qid)).cid(sqe.cid()).status(status.0).nsid(sqe.nsid()).lba(lba_of(qid, sqe)));
        self.add_error(settings, entry);
    }

    /// Adds an error that no command is to blame for. [ADM-LOG-20]
    pub fn log_untied(&mut self, settings: &ControllerSettings, status: Status) {
        let entry = ErrorEntry::new().with(|s| s.sqid(Qid(0xffff)).cid(Cid(0xffff)).status(status.0));
        self.add_error(settings, entry);
    }

    fn add_error(&mut self, settings: &ControllerSettings, entry: ErrorEntry) {
        self.error_count += 1;
        let mut b = *entry.with(|s| s.count(self.error_count)).as_bytes();
        // Where in the command the error is, is not told: all ones. [Base 2.0, Figure 206]
        b[14..16].copy_from_slice(&[0xff; 2]);
        self.errors.push_front(ErrorEntry::from_bytes(b));
        self.errors.truncate(usize::from(settings.error_entries.max(1)));
    }
}
