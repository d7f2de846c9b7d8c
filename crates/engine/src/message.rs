//! What a connection (one queue) and the [`Hub`](crate::controller::Hub) (all controllers of a target) tell each other.
//!
//! Queue state lives with its connection; what concerns a controller or subsystem is the hub's. The driver carries the messages, in
//! order for each connection (design invariant I7).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use nvmf_seam::store::{Abilities, Geometry, Store};
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::log::AnaState;
use nvmf_wire::{Cid, Qid, Sqe, Status};

/// A transport connection, numbered by the driver; never used twice in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// From a connection to the hub.
#[derive(Debug)]
pub enum ToHub {
    /// A Connect command with its data. Answered by [`ToConnection::Admitted`] or [`ToConnection::Complete`].
    Connect {
        /// The SQE.
        sqe: Connect,
        /// The data.
        data: Box<ConnectData>,
    },
    /// A command of the Admin Queue. Answered by [`ToConnection::Complete`], at once or (Abort, Asynchronous Event Request) later.
    Admin {
        /// The SQE.
        sqe: Sqe,
        /// Data that the host sent; empty for the other direction.
        data: Bytes,
    },
    /// What became of [`ToConnection::Abort`].
    AbortDone {
        /// From the request.
        token: u64,
        /// True where the command was aborted: its completion is on the way already.
        aborted: bool,
    },
    /// An I/O command ended with an error; for the Error Information log.
    Failed {
        /// The SQE.
        sqe: Sqe,
        /// Its status.
        status: Status,
    },
    /// Disconnect: all other commands of the I/O queue ended. Answered by [`ToConnection::Complete`]. [FAB-DISC-09]
    Disconnect {
        /// Its CID.
        cid: Cid,
    },
    /// The host overran the queue: the controller shall set CSTS.CFS and end the association. [FAB-SQFC-13, FAB-SQFC-16]
    Overrun,
    /// The connection is gone.
    Closed,
}

/// From the hub to a connection.
#[derive(Debug)]
pub enum ToConnection {
    /// Connect succeeded.
    Admitted(Box<Admitted>),
    /// A command is complete.
    Complete {
        /// Command.
        cid: Cid,
        /// Status.
        status: Status,
        /// CQE DW0 and DW1.
        result: u64,
        /// Data for the host; empty on errors.
        data: Bytes,
    },
    /// The controller began (true) or ceased (false) to serve commands other than Fabrics commands.
    Serving(bool),
    /// The namespaces changed.
    Namespaces(Arc<NamespaceTable>),
    /// A controller reset: commands of the Admin Queue other than Fabrics commands end without completion. [FAB-INIT-13]
    Reset,
    /// Abort a command if that is still possible. Answered by [`ToHub::AbortDone`].
    Abort {
        /// To be repeated in the answer.
        token: u64,
        /// Command.
        cid: Cid,
    },
    /// Close: the queue or the association is no more. What was queued for the host is sent first.
    Close,
}

/// What a successful Connect gives to its connection.
#[derive(Debug)]
pub struct Admitted {
    /// CID of the Connect command.
    pub cid: Cid,
    /// CQE DW0: CNTLID and AUTHREQ.
    pub result: u32,
    /// The queue.
    pub qid: Qid,
    /// Slots of the queue: SQSIZE + 1.
    pub entries: u32,
    /// Disconnect is served. [FAB-DISC-15]
    pub deletable: bool,
    /// False where the host enabled the controller for admin commands alone. [FAB-PROP-31]
    pub io_commands: bool,
    /// False where the host asked for SQ flow control off and got it.
    pub flow_control: bool,
    /// Commands other than Fabrics commands are served (an I/O queue; an Admin Queue starts with a disabled controller).
    pub serving: bool,
    /// Most in-capsule data, bytes.
    pub in_capsule: usize,
    /// Most data a command, bytes; `None` for no limit.
    pub mdts: Option<usize>,
    /// What I/O commands need.
    pub namespaces: Arc<NamespaceTable>,
    /// Counts of the controller, for its SMART / Health log.
    pub counters: Arc<Counters>,
}

/// The namespaces attached to a controller, as its I/O queues need them.
#[derive(Debug, Default)]
pub struct NamespaceTable {
    /// NN: the largest valid NSID.
    pub nn: u32,
    /// The active ones.
    pub active: BTreeMap<u32, NamespaceView>,
    /// What the stores of all of them can do.
    pub abilities: Abilities,
}

impl NamespaceTable {
    /// A table of these.
    pub fn new(nn: u32, active: BTreeMap<u32, NamespaceView>) -> Self {
        let abilities = active.values().fold(Abilities::ALL, |all, n| all.and(n.store.abilities()));
        Self { nn, active, abilities }
    }
}

/// A namespace as an I/O queue sees it.
#[derive(Clone)]
pub struct NamespaceView {
    /// Size.
    pub geometry: Geometry,
    /// Its storage; for the driver, no state machine calls it.
    pub store: Arc<dyn Store>,
    /// The store may block the thread that calls it.
    pub blocking: bool,
    /// State of its ANA group; optimized where there is no ANA reporting.
    pub ana: AnaState,
}

impl NamespaceView {
    /// Why commands to the namespace are refused now, if they are. [ANA-10 to ANA-13]
    pub fn barred(&self) -> Option<Status> {
        match self.ana {
            AnaState::INACCESSIBLE => Some(Status::ASYMMETRIC_ACCESS_INACCESSIBLE),
            AnaState::PERSISTENT_LOSS => Some(Status::ASYMMETRIC_ACCESS_PERSISTENT_LOSS),
            AnaState::CHANGE => Some(Status::ASYMMETRIC_ACCESS_TRANSITION),
            _ => None,
        }
    }
}

impl core::fmt::Debug for NamespaceView {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "NamespaceView({:?})", self.geometry)
    }
}

/// Counts of one controller, shared by its queues.
#[derive(Debug, Default)]
pub struct Counters {
    /// Read commands completed.
    pub reads: AtomicU64,
    /// Write commands completed.
    pub writes: AtomicU64,
    /// Bytes read.
    pub read_bytes: AtomicU64,
    /// Bytes written.
    pub written_bytes: AtomicU64,
    /// An admin or I/O command came since the hub looked last: for traffic based keep alive.
    pub traffic: AtomicBool,
}

impl Counters {
    /// Counts a read of `bytes`.
    pub fn read(&self, bytes: u64) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a write of `bytes`.
    pub fn written(&self, bytes: u64) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
