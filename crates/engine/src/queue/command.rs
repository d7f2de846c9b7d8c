//! A command's states, and its way from capsule to the moment at which its data is here. Whether it may be is in `plan`, what it then
//! does in `perform`, and two that belong together are in `fused`.

use std::sync::Arc;

use bytes::Bytes;
use nvmf_seam::store::{Store, StoreError, StoreOp};
use nvmf_wire::{Cid, Sqe, Status};

use super::perform::Steps;
use super::{Binding, Capsule, Core, Gather, Located, Phase};
use crate::message::NamespaceView;

/// A command at work.
#[derive(Debug)]
pub(crate) struct Command<B: Binding> {
    pub sqe: Sqe,
    pub state: State<B::Fetch>,
    /// Where its data lies.
    pub place: B::Place,
    /// Bytes of data reserved for it.
    pub held: usize,
    /// See [`Core::serial`].
    pub serial: u64,
}

#[derive(Debug)]
pub(crate) enum State<F> {
    /// Waits for room for its data.
    Held(Plan),
    /// Its data is on the way from the host.
    Receiving { sink: Sink, fetch: F },
    /// So many store requests are out.
    Storing { left: usize, failed: Option<Status>, count: Count, then_flush: Option<NamespaceView> },
    /// A read request is out.
    Reading,
    /// One of several store requests is out, of which each follows the one before.
    Stepping(Box<Steps>),
    /// The first half of a fused operation waits for the second.
    First,
    /// A half of a fused operation waits for the other's data, or for what the first's store request gives.
    Paired,
    /// The hub has it.
    InHub,
    /// The completion is queued.
    Replying,
}

/// What a command adds to the counts of its controller when it succeeds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Nothing,
    /// Bytes.
    Read(u64),
    /// Bytes.
    Written(u64),
}

/// Which way data goes, and how much, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// No data.
    None,
    /// From the host.
    In(usize),
    /// To the host.
    Out(usize),
}

/// A command that passed all checks.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub transfer: Transfer,
    pub sink: Sink,
    /// Bytes to be free before it asks for its data.
    pub reserve: usize,
}

impl Plan {
    pub fn new(transfer: Transfer, sink: Sink) -> Self {
        Self { transfer, sink, reserve: transfer.len() }
    }
}

impl Transfer {
    /// Bytes, whichever way.
    pub(super) fn len(self) -> usize {
        match self {
            Self::None => 0,
            Self::In(len) | Self::Out(len) => len,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Sink {
    Connect,
    Admin,
    Read {
        ns: NamespaceView,
        offset: u64,
    },
    Write {
        ns: NamespaceView,
        offset: u64,
        fua: bool,
    },
    Disconnect,
    Compare {
        ns: NamespaceView,
        offset: u64,
    },
    /// One store request without data of the host.
    One {
        ns: NamespaceView,
        op: StoreOp,
        fua: bool,
    },
    Dataset {
        ns: NamespaceView,
    },
    Copy {
        ns: NamespaceView,
    },
    /// Data of a half of a fused operation.
    Half,
}

/// What a namespace's storage is asked to do.
#[derive(Clone)]
pub struct StoreRequest {
    /// To be repeated in [`StoreDone`].
    pub id: u64,
    /// Whom to ask.
    pub store: Arc<dyn Store>,
    /// The store may block the thread that calls it.
    pub blocking: bool,
    /// What to do.
    pub op: StoreOp,
}

impl core::fmt::Debug for StoreRequest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "StoreRequest({}, {:?})", self.id, self.op)
    }
}

impl StoreRequest {
    /// Does it, on this thread.
    pub fn execute(self) -> StoreDone {
        StoreDone { id: self.id, result: self.store.execute(self.op) }
    }
}

/// The end of a [`StoreRequest`].
#[derive(Debug)]
pub struct StoreDone {
    /// From the request.
    pub id: u64,
    /// What a read gave; nothing for the others.
    pub result: Result<Bytes, StoreError>,
}

impl<B: Binding> Core<B> {
    /// Begins a command that was just fetched.
    pub(super) fn start(&mut self, capsule: Capsule) {
        let sqe = capsule.sqe;
        let cid = sqe.cid();
        // Nothing forces us to notice, but two commands of one CID cannot be told apart. [SQE-02]
        if self.commands.contains(cid) {
            return self.refuse(sqe, Status::COMMAND_ID_CONFLICT.dnr(), 0);
        }
        let (plan, located) = match self.judge(&capsule) {
            Ok(judged) => judged,
            Err(status) => return self.refuse(sqe, status, 0),
        };
        match located {
            Located::Capsule(data) => {
                self.enter(sqe, B::Place::default(), State::InHub);
                self.run(cid, plan.sink, data.into());
            }
            Located::Nowhere => {
                self.enter(sqe, B::Place::default(), State::InHub);
                self.run(cid, plan.sink, Gather::default());
            }
            Located::Host(place) => {
                self.enter(sqe, place, State::Held(plan));
                self.queue.waiting.push_back(cid);
                self.start_waiting();
            }
        }
    }

    /// All that can be said before a command's data is asked for: what it wants, and its data where the capsule has it.
    pub(super) fn judge(&self, capsule: &Capsule) -> Result<(Plan, Located<B::Place>), Status> {
        // [TCP-DGST-26, TCP-ERR-07]
        if !capsule.intact {
            return Err(Status::TRANSIENT_TRANSPORT_ERROR);
        }
        let plan = self.plan(&capsule.sqe)?;
        let located = self.binding.locate(&capsule.sqe, plan.transfer, &capsule.data)?;
        Ok((plan, located))
    }

    /// A command is at work from here on, until [`Core::finish`] or `drop_command`.
    pub(super) fn enter(&mut self, sqe: Sqe, place: B::Place, state: State<B::Fetch>) {
        self.serial += 1;
        self.commands.insert(sqe.cid(), Command { sqe, state, place, held: 0, serial: self.serial });
    }

    /// Starts waiting commands while there is room for their data.
    pub fn start_waiting(&mut self) {
        while !matches!(self.phase, Phase::Closing | Phase::Closed)
            && let Some(cid) = self.queue.waiting.front().copied()
        {
            let plan = match self.commands.get(cid) {
                Some(Command { state: State::Held(plan), .. }) => plan.clone(),
                _ => {
                    self.queue.waiting.pop_front();
                    continue;
                }
            };
            let full = self.queue.held > 0 && self.queue.held + plan.reserve > self.binding.max_held();
            if full && plan.reserve > 0 {
                return;
            }
            self.queue.waiting.pop_front();
            self.queue.held += plan.reserve;
            if let Some(c) = self.commands.get_mut(cid) {
                c.held = plan.reserve;
            }
            match plan.transfer {
                Transfer::In(len) => {
                    let fetch = self.binding.fetch(cid, len);
                    if let Some(c) = self.commands.get_mut(cid) {
                        c.state = State::Receiving { sink: plan.sink, fetch };
                    }
                }
                _ => self.run(cid, plan.sink, Gather::default()),
            }
        }
    }

    /// All data of a command that was being fetched is here, or was damaged on its way.
    pub fn arrived(&mut self, cid: Cid, data: Result<Gather, Status>) {
        let sink = match self.commands.get_mut(cid).map(|c| &c.state) {
            Some(State::Receiving { sink, .. }) => sink.clone(),
            _ => return,
        };
        match (data, sink) {
            (Ok(data), sink) => self.run(cid, sink, data),
            (Err(status), Sink::Half) => self.half(cid, Err(status)),
            (Err(status), _) => self.complete(cid, status, 0, Bytes::new()),
        }
    }

    /// Gives back the room that a command's data took.
    pub(super) fn release(&mut self, cid: Cid) {
        if let Some(c) = self.commands.get_mut(cid) {
            self.queue.held -= core::mem::take(&mut c.held);
        }
    }
}
