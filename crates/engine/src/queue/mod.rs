//! One queue of a controller, whatever carries it: slots of the submission queue, commands and their states, store requests, and what
//! queue and hub tell each other. It knows no PDU and no work request.
//!
//! `Core` is the entry. A transport's connection owns one, hands it command capsules (`Core::submit`), messages of the hub and ends of
//! store requests, and is asked through its `Binding` for what transports do differently: where a command's data lies, how it is
//! fetched from the host, and how a command ends. The neighbours: `capsule` (slots), `command` (states, from capsule to data), `plan` (may
//! this command be), `perform` (what it does), `fused` (two that belong together), `data` (the pieces of what came).

mod capsule;
mod command;
mod data;
mod fused;
mod perform;
mod plan;
mod table;

use core::fmt::Debug;
use std::collections::VecDeque;

use bytes::Bytes;
use nvmf_wire::{Cid, Sqe, Status};

pub(crate) use capsule::{Capsule, Queue};
pub(crate) use command::{Command, Sink, State};
pub use command::{StoreDone, StoreRequest, Transfer};
pub(crate) use data::Gather;
pub(crate) use table::Table;

use crate::message::{Admitted, ToConnection, ToHub};

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The transport is not set up: NVMe/TCP waits for ICReq, NVMe/RDMA for the end of CM's handshake.
    Fresh,
    /// The transport is set up; no queue yet.
    Initialized,
    /// The hub judges a Connect; nothing more is looked at until it has.
    Connecting,
    /// The queue exists.
    Connected,
    /// The queue was deleted by Disconnect: what comes in is thrown away, and the host is given time to close. [FAB-DISC-06]
    Deleted,
    /// NVMe/TCP alone: a C2HTermReq is queued as the last PDU; what comes in is thrown away. [TCP-TERM-02]
    Terminating,
    /// Closes as soon as what is queued was taken.
    Closing,
    /// Nothing more happens.
    Closed,
}

/// Why a controller closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The host did not set up the transport or send Connect in time.
    Setup,
    /// The host did not close after our C2HTermReq. [TCP-TERM-08]
    TermUnanswered,
    /// The host sent an H2CTermReq. [TCP-TERM-19]
    HostTerminated,
    /// The hub ended the queue or the association.
    Association,
    /// The host overran the submission queue. [FAB-SQFC-13, FAB-SQFC-16]
    Overrun,
    /// The driver pushed more than it was asked for.
    Flooded,
    /// NVMe/RDMA: the host ended the connection, or is gone.
    Disconnected,
    /// NVMe/RDMA: the host sent less than a command. [RDMA-CAPS-06]
    Malformed,
    /// NVMe/RDMA: a SEND, READ or WRITE failed. [RDMA-ERR-01]
    Broken,
}

/// What transports do differently.
pub(crate) trait Binding: Debug {
    /// Where the data of a command lies in the host's memory, beyond what its SQE says.
    type Place: Debug + Default;
    /// Data of a command on its way from the host.
    type Fetch: Debug;

    /// Bytes of command data that the queue holds at once.
    fn max_held(&self) -> usize;

    /// Finds a command's data by its SGL descriptors; `capsule` is what came behind the SQE.
    fn locate(&self, sqe: &Sqe, transfer: Transfer, capsule: &Bytes) -> Result<Located<Self::Place>, Status>;

    /// Begins to fetch `len` bytes of a command's data. When they are here: [`Core::arrived`].
    fn fetch(&mut self, cid: Cid, len: usize) -> Self::Fetch;

    /// A command ends before all its data came. False where it cannot.
    fn abandon(&mut self, cid: Cid) -> bool;

    /// Queues the end of a command. When the host will know of it: [`Core::finish`], where it counts.
    fn reply(&mut self, reply: Reply);
}

/// Where a command's data lies.
#[derive(Debug)]
pub(crate) enum Located<P> {
    /// The command moves none.
    Nowhere,
    /// Here it is.
    Capsule(Bytes),
    /// In the host's memory.
    Host(P),
}

/// The end of a command.
#[derive(Debug)]
pub(crate) struct Reply {
    pub cid: Cid,
    pub status: Status,
    /// CQE DW0 and DW1.
    pub result: u64,
    /// For the host, in front of the completion.
    pub data: Bytes,
    /// SQHD of a Connect response; the others carry the head at the time of sending.
    pub sqhd: Option<u16>,
    /// False for the completion of a capsule that never became a command, its CID being in use.
    pub counted: bool,
}

/// The queue of a connection. Limits: commands by the queue's size, their data by [`Binding::max_held`].
#[derive(Debug)]
pub(crate) struct Core<B: Binding> {
    pub binding: B,
    pub phase: Phase,
    pub queue: Queue,
    pub commands: Table<Cid, Command<B>>,
    /// Commands so far; in a store request's id it tells a command from a later one with its CID.
    serial: u64,
    pub to_hub: VecDeque<ToHub>,
    pub requests: VecDeque<StoreRequest>,
    pub close: Option<CloseReason>,
}

impl<B: Binding> Core<B> {
    /// A queue before Connect.
    pub fn new(binding: B) -> Self {
        Self {
            binding,
            phase: Phase::Fresh,
            queue: Queue::default(),
            commands: Table::default(),
            serial: 0,
            to_hub: VecDeque::new(),
            requests: VecDeque::new(),
            close: None,
        }
    }

    /// True once the connection is to end: what is queued is the last.
    pub fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Terminating | Phase::Closing | Phase::Closed)
    }

    /// A message of the hub.
    pub fn handle_message(&mut self, message: ToConnection) {
        if self.is_ending() {
            // The association is over, but the host still gets its time to read a terminate request.
            if let ToConnection::Abort { token, .. } = message {
                self.to_hub.push_back(ToHub::AbortDone { token, aborted: false });
            }
            return;
        }
        match message {
            ToConnection::Admitted(a) => self.admitted(*a),
            ToConnection::Complete { cid, status, result, data } => {
                if self.phase == Phase::Connecting {
                    self.phase = Phase::Initialized;
                }
                self.complete(cid, status, result, data);
            }
            ToConnection::Serving(on) => self.queue.serving = on,
            ToConnection::Namespaces(table) => self.queue.namespaces = table,
            ToConnection::Reset => self.reset(),
            ToConnection::Abort { token, cid } => {
                let aborted = self.abort(cid);
                self.to_hub.push_back(ToHub::AbortDone { token, aborted });
            }
            ToConnection::Close => self.shut(CloseReason::Association),
        }
    }

    /// The transport connection is gone, whoever ended it.
    pub fn closed(&mut self) {
        if self.phase != Phase::Closed {
            self.phase = Phase::Closed;
            self.to_hub.push_back(ToHub::Closed);
        }
        self.requests.clear();
        self.commands = Table::default();
        self.queue = Queue::default();
        self.close = None;
    }

    /// Closes after what is queued was sent.
    pub fn shut(&mut self, reason: CloseReason) {
        if matches!(self.phase, Phase::Closing | Phase::Closed) {
            return;
        }
        self.phase = Phase::Closing;
        self.close = Some(reason);
        // What waits for the host or for a store will not be answered any more.
        self.requests.clear();
    }

    /// Why to close, once what was queued was sent.
    pub fn closing(&mut self) -> Option<CloseReason> {
        let reason = self.close.take()?;
        self.phase = Phase::Closed;
        self.to_hub.push_back(ToHub::Closed);
        Some(reason)
    }

    /// The host will know that the command ended: its CID and its slot are free.
    pub fn finish(&mut self, cid: Cid) {
        self.release(cid);
        self.commands.remove(cid);
        self.fetch();
        self.start_waiting();
        self.disconnect();
    }

    /// An idle queue gives back what a busy time made grow.
    pub fn rest(&mut self) {
        self.commands.rest();
        self.queue.rest();
        self.to_hub.shrink_to_fit();
        self.requests.shrink_to_fit();
    }

    /// Connect succeeded. [FAB-CONNECT-37, FAB-SQFC-04]
    fn admitted(&mut self, a: Admitted) {
        self.phase = Phase::Connected;
        let sqhd = self.queue.admit(&a);
        if let Some(c) = self.commands.get_mut(a.cid) {
            c.state = State::Replying;
            let (cid, result) = (a.cid, u64::from(a.result));
            let data = Bytes::new();
            self.binding.reply(Reply { cid, status: Status::SUCCESS, result, data, sqhd: Some(sqhd), counted: true });
        }
    }

    /// Queues the end of a command; on an error status no data is sent.
    fn complete(&mut self, cid: Cid, status: Status, result: u64, data: Bytes) {
        if let Some(c) = self.commands.get_mut(cid) {
            c.state = State::Replying;
        }
        let data = if status.is_success() { data } else { Bytes::new() };
        self.binding.reply(Reply { cid, status, result, data, sqhd: None, counted: true });
    }

    /// Completes a capsule whose CID belongs to another command, which goes on.
    fn complete_stray(&mut self, cid: Cid, status: Status) {
        self.binding.reply(Reply { cid, status, result: 0, data: Bytes::new(), sqhd: None, counted: false });
    }

    /// A controller reset: commands other than Fabrics commands end here, without completion. [FAB-INIT-13, ADM-AER-16]
    fn reset(&mut self) {
        self.queue.serving = false;
        let gone: Vec<Cid> = self
            .commands
            .iter()
            .filter(|(_, c)| c.sqe.fctype().is_none() && !matches!(c.state, State::Replying))
            .map(|(cid, _)| cid)
            .collect();
        for cid in gone {
            self.drop_command(cid);
        }
    }

    /// Aborts a command that waits for data or for room; one that runs is left alone. [ADM-ABORT-01 to ADM-ABORT-03]
    fn abort(&mut self, cid: Cid) -> bool {
        let stoppable = match self.commands.get(cid).map(|c| &c.state) {
            // Halves of a fused operation end together.
            Some(State::Held(plan)) => !matches!(plan.sink, Sink::Half),
            Some(State::Receiving { sink, .. }) => !matches!(sink, Sink::Half),
            Some(State::First) => true,
            _ => false,
        };
        if !stoppable || !self.binding.abandon(cid) {
            return false;
        }
        self.forget_first(cid);
        self.release(cid);
        self.complete(cid, Status::COMMAND_ABORT_REQUESTED, 0, Bytes::new());
        true
    }

    /// Forgets a command without a completion.
    fn drop_command(&mut self, cid: Cid) {
        self.binding.abandon(cid);
        self.release(cid);
        self.commands.remove(cid);
        self.queue.waiting.retain(|c| *c != cid);
    }
}
