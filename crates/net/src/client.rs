//! A blocking driver of the reference host over any [`Network`]: real sockets or the simulated world. One thread, no runtime. Over RDMA,
//! where the settings say so, by the network's NIC.
//!
//! What it is: [`nvmf_engine::host::Association`] with its connections opened, fed and closed, and calls that wait for their answer.
//! What it is not: protocol; every rule is in the engine. `ask` has what users ask for often, `recover` what is done about losses.

mod ask;
mod rdma;
mod recover;

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use nvmf_engine::host::{
    Association, Completion, DiscoveryError, ESTABLISHMENT, Event, Facts, HostError, HostSettings, Payload, SubmitError,
};
use nvmf_seam::{Instant, LinkId, Network, OpenError, Received, SendError};
use nvmf_wire::identify::IdentifyController;
use nvmf_wire::{Cid, Qid, Sqe, Status};

/// Why a call did not give what it was asked for.
#[derive(Debug)]
pub enum ClientError {
    /// No connection.
    Open(OpenError),
    /// The association ended.
    Host(HostError),
    /// The command could not be submitted.
    Submit(SubmitError),
    /// A command ended with an error status.
    Status {
        /// Which one.
        what: &'static str,
        /// How.
        status: Status,
    },
    /// The discovery log could not be read.
    Discovery(DiscoveryError),
    /// The controller's answer makes no sense.
    Answer(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(e) => e.fmt(f),
            Self::Host(e) => e.fmt(f),
            Self::Submit(e) => e.fmt(f),
            Self::Status { what, status } => write!(f, "{what} failed with {status}"),
            Self::Discovery(e) => e.fmt(f),
            Self::Answer(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ClientError {}

impl ClientError {
    /// True where no NVMe peer was reached at all: nothing listens, nothing answers, or what answers speaks something else.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Open(_) => true,
            Self::Host(HostError::Open { qid, .. }) => *qid == Qid::ADMIN,
            Self::Host(
                HostError::Lost { qid, during, .. }
                | HostError::TimedOut { qid, during, .. }
                | HostError::Violation { qid, during, .. },
            ) => *qid == Qid::ADMIN && *during == ESTABLISHMENT,
            _ => false,
        }
    }
}

/// Something that came without being asked for.
#[derive(Clone, Debug)]
pub enum Notice {
    /// An asynchronous event. See [`Event::AsyncEvent`].
    Event(nvmf_wire::cqe::AsyncEventResponse),
    /// The controller broke a requirement, and the association goes on.
    Violation(Qid, nvmf_spec::Violation),
    /// A Keep Alive failed.
    KeepAliveFailed(Status),
    /// The controller reported a fatal error and is being reset.
    Fatal,
    /// An I/O queue was lost, and the association goes on without it.
    QueueLost(Qid),
    /// The association was lost for this reason, and another one stands in its place.
    Reconnected(HostError),
}

/// Most notices kept until they are asked for; the newest are dropped.
const NOTICES: usize = 256;
/// Longest wait on one connection while others may have something.
const SLICE: Duration = Duration::from_millis(1);
/// Payloads up to this many bytes go out in one piece with their head.
const COALESCE: usize = 16 << 10;

/// A host with one association.
#[derive(Debug)]
pub struct HostClient<N: Network> {
    network: N,
    target: SocketAddr,
    association: Association,
    links: BTreeMap<Qid, Link>,
    completed: BTreeMap<(Qid, Cid), Completion>,
    notices: VecDeque<Notice>,
    open_error: Option<OpenError>,
    failed: Option<HostError>,
    ready: bool,
    ended: bool,
    /// The answer to the queue that is being created or deleted.
    queue: Option<Status>,
}

#[derive(Debug)]
struct Link {
    id: LinkId,
    /// The peer closed its reading side; what it said before is still to be read.
    deaf: bool,
}

impl<N: Network> HostClient<N> {
    /// Brings up an association with the controller at `target`.
    pub fn connect(network: N, target: SocketAddr, settings: HostSettings) -> Result<Self, ClientError> {
        Self::try_connect(network, target, settings).map_err(|(e, _)| e)
    }

    /// As [`Self::connect`], but gives the network back where it fails.
    pub fn try_connect(network: N, target: SocketAddr, settings: HostSettings) -> Result<Self, (ClientError, N)> {
        let mut client = Self {
            network,
            target,
            association: Association::new(settings),
            links: BTreeMap::new(),
            completed: BTreeMap::new(),
            notices: VecDeque::new(),
            open_error: None,
            failed: None,
            ready: false,
            ended: false,
            queue: None,
        };
        match client.rise() {
            Ok(()) => Ok(client),
            Err(e) => Err((e, client.network)),
        }
    }

    /// Lets the association come up.
    fn rise(&mut self) -> Result<(), ClientError> {
        self.settle();
        while !self.ready {
            if let Err(e) = self.check() {
                self.close_all();
                return Err(e);
            }
            self.turn(Qid::ADMIN, None);
        }
        Ok(())
    }

    /// What the controller said about itself.
    pub fn facts(&self) -> &Facts {
        self.association.facts()
    }

    /// Identify Controller, read during bring-up.
    pub fn controller(&self) -> IdentifyController {
        self.facts().identify.as_deref().copied().unwrap_or_default()
    }

    /// The network.
    pub fn network(&mut self) -> &mut N {
        &mut self.network
    }

    /// The oldest notice.
    pub fn notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Submits a command and waits for its end. An error status is no error here.
    pub fn execute(&mut self, qid: Qid, sqe: Sqe, payload: Payload) -> Result<Completion, ClientError> {
        let cid = loop {
            match self.submit(qid, sqe, payload.clone()) {
                Err(ClientError::Submit(SubmitError::Full)) => self.turn(qid, None),
                // A controller that reported a fatal error is on its way up again.
                Err(ClientError::Submit(SubmitError::NotReady)) if !self.ready => self.rise()?,
                other => break other?,
            }
        };
        self.wait(qid, cid)
    }

    /// Submits a command without waiting for its end.
    pub fn submit(&mut self, qid: Qid, sqe: Sqe, payload: Payload) -> Result<Cid, ClientError> {
        self.check()?;
        let now = self.network.now();
        let cid = self.association.submit(qid, sqe, payload, now).map_err(ClientError::Submit)?;
        self.settle();
        Ok(cid)
    }

    /// Submits two commands as a fused pair without waiting for their ends.
    pub fn submit_fused(&mut self, qid: Qid, first: (Sqe, Payload), second: (Sqe, Payload)) -> Result<(Cid, Cid), ClientError> {
        self.check()?;
        let now = self.network.now();
        let cids = self.association.submit_fused(qid, first, second, now).map_err(ClientError::Submit)?;
        self.settle();
        Ok(cids)
    }

    /// Asks the controller to abort a command and waits for its answer: true where it says that it did. The command itself ends as
    /// ever. [ADM-ABORT-07]
    pub fn abort(&mut self, qid: Qid, cid: Cid) -> Result<bool, ClientError> {
        self.check()?;
        let now = self.network.now();
        let abort = self.association.abort(qid, cid, now).map_err(ClientError::Submit)?;
        self.settle();
        let done = self.wait(Qid::ADMIN, abort)?;
        match done.status() {
            s if s.is_success() => Ok(done.cqe.dw0() & 1 == 0),
            status => Err(ClientError::Status { what: "Abort", status }),
        }
    }

    /// Resets the controller and brings it up again. Commands that were out end with Command Aborted By Host.
    pub fn reset(&mut self) -> Result<(), ClientError> {
        self.check()?;
        let now = self.network.now();
        if !self.association.reset(now) {
            return Err(ClientError::Submit(SubmitError::NotReady));
        }
        self.ready = false;
        self.rise()
    }

    /// Deletes an I/O queue, after its commands.
    pub fn delete_queue(&mut self, qid: Qid) -> Result<Status, ClientError> {
        self.check()?;
        let now = self.network.now();
        self.queue = None;
        self.association.delete_queue(qid, now).map_err(ClientError::Submit)?;
        self.queue_answer()
    }

    /// Connects an I/O queue that was deleted or lost.
    pub fn create_queue(&mut self, qid: Qid) -> Result<(), ClientError> {
        self.check()?;
        self.queue = None;
        self.association.create_queue(qid).map_err(ClientError::Submit)?;
        self.queue_answer().map(|_| ())
    }

    fn queue_answer(&mut self) -> Result<Status, ClientError> {
        self.settle();
        loop {
            if let Some(status) = self.queue.take() {
                return Ok(status);
            }
            self.check()?;
            self.turn(Qid::ADMIN, None);
        }
    }

    /// The association.
    pub fn association(&self) -> &Association {
        &self.association
    }

    /// Waits for the end of a command submitted before.
    pub fn wait(&mut self, qid: Qid, cid: Cid) -> Result<Completion, ClientError> {
        loop {
            if let Some(done) = self.completed.remove(&(qid, cid)) {
                // Commands that the end of the association took with it are told by what ended it.
                if done.local == Some(Status::COMMAND_ABORTED_BY_HOST) {
                    self.check()?;
                }
                return Ok(done);
            }
            self.check()?;
            self.turn(qid, None);
        }
    }

    /// Keeps the association alive until `until`; notices can be asked for afterwards.
    pub fn idle(&mut self, until: Instant) -> Result<(), ClientError> {
        while self.network.now() < until {
            self.check()?;
            self.turn(Qid::ADMIN, Some(until));
        }
        self.check()
    }

    /// Ends the association in order; gives the network back.
    pub fn disconnect(self) -> Result<N, ClientError> {
        self.release().map_err(|(e, _)| e)
    }

    /// The same, but gives the network back where it fails too.
    pub fn release(mut self) -> Result<N, (ClientError, N)> {
        let now = self.network.now();
        self.association.shutdown(now);
        self.settle();
        while !self.ended {
            if let Err(e) = self.check() {
                self.close_all();
                return Err((e, self.network));
            }
            self.turn(Qid::ADMIN, None);
        }
        self.close_all();
        Ok(self.network)
    }

    fn check(&mut self) -> Result<(), ClientError> {
        if let Some(e) = self.open_error.take() {
            self.failed = Some(HostError::Unusable("the connection could not be opened"));
            return Err(ClientError::Open(e));
        }
        match &self.failed {
            Some(e) => {
                let e = e.clone();
                self.linger();
                Err(ClientError::Host(e))
            }
            None => Ok(()),
        }
    }

    /// After a failure: lets an H2CTermReq go out and the controller close, for as long as the engine waits.
    fn linger(&mut self) {
        while self.association.connections().next().is_some() {
            self.turn(Qid::ADMIN, None);
        }
    }

    /// Lets the world go on until something happened on a connection, a timer is due or `until`, and deals with it. Waits on `qid`'s
    /// connection; the others are looked at in between.
    fn turn(&mut self, qid: Qid, until: Option<Instant>) {
        let links: Vec<(Qid, LinkId)> = self.links.iter().map(|(q, l)| (*q, l.id)).collect();
        let now = self.network.now();
        let mut any = false;
        if links.len() > 1 {
            for (q, id) in &links {
                any |= self.take(*q, *id, now);
            }
        }
        if !any {
            let mut wait = self.association.poll_timeout();
            wait = wait.into_iter().chain(until).chain((links.len() > 1).then(|| now + SLICE)).min();
            let wait = wait.unwrap_or(now + Duration::from_secs(1));
            match links.iter().find(|(q, _)| *q == qid).or(links.first()) {
                Some((q, id)) => drop(self.take(*q, *id, wait)),
                None => self.network.sleep(wait),
            }
        }
        let now = self.network.now();
        if self.association.poll_timeout().is_some_and(|t| t <= now) {
            self.association.handle_timeout(now);
        }
        self.settle();
    }

    /// Waits until `until` for what comes on a queue's connection; true where something did.
    fn take(&mut self, qid: Qid, id: LinkId, until: Instant) -> bool {
        if self.is_over_rdma() {
            return self.take_rdma(qid, until);
        }
        let got = self.network.receive(id, until);
        let now = self.network.now();
        match got {
            Received::Nothing => return false,
            Received::Bytes(bytes) => self.association.handle_bytes(qid, &bytes, now),
            Received::Closed { reset } => {
                if let Some(link) = self.links.remove(&qid) {
                    self.network.close(link.id, false);
                }
                self.association.handle_closed(qid, reset, now);
            }
        }
        self.settle();
        true
    }

    /// Does what the association wants: sends, opens, closes, keeps completions.
    fn settle(&mut self) {
        loop {
            self.send_all();
            let Some(event) = self.association.poll_event() else { break };
            match event {
                Event::Open(qid) => self.open(qid),
                Event::Close { qid, reset } if self.is_over_rdma() => self.end_rdma(qid, reset),
                Event::Close { qid, reset } => {
                    if let Some(link) = self.links.remove(&qid) {
                        self.network.close(link.id, reset);
                    }
                }
                Event::Completed(qid, done) => {
                    self.completed.insert((qid, done.cid), done);
                }
                Event::Ready => self.ready = true,
                Event::Ended => self.ended = true,
                Event::Failed(why) => self.failed = Some(why),
                Event::AsyncEvent(e) => self.notify(Notice::Event(e)),
                Event::Violation(qid, v) => self.notify(Notice::Violation(qid, v)),
                Event::KeepAliveFailed(s) => self.notify(Notice::KeepAliveFailed(s)),
                Event::Fatal => {
                    self.ready = false;
                    self.notify(Notice::Fatal);
                }
                Event::QueueCreated(_) => self.queue = Some(Status::SUCCESS),
                Event::QueueDeleted(_, Some(status)) => self.queue = Some(status),
                Event::QueueDeleted(qid, None) => self.notify(Notice::QueueLost(qid)),
                Event::Negotiated(..) => {}
            }
        }
    }

    fn notify(&mut self, notice: Notice) {
        if self.notices.len() < NOTICES {
            self.notices.push_back(notice);
        }
    }

    fn open(&mut self, qid: Qid) {
        if self.is_over_rdma() {
            return self.open_rdma(qid);
        }
        let patience = self.association.settings().command_patience;
        match self.network.open(self.target, patience) {
            Ok(id) => {
                self.links.insert(qid, Link { id, deaf: false });
                let now = self.network.now();
                self.association.handle_opened(qid, now);
            }
            Err(e) => {
                let now = self.network.now();
                self.association.handle_open_failed(qid, e.to_string(), now);
                if qid == Qid::ADMIN {
                    self.open_error = Some(e);
                }
            }
        }
    }

    fn send_all(&mut self) {
        if self.is_over_rdma() {
            return self.post_all();
        }
        loop {
            let now = self.network.now();
            let Some((qid, t)) = self.association.poll_transmit(now) else { break };
            let Some(link) = self.links.get_mut(&qid).filter(|l| !l.deaf) else { continue };
            let id = link.id;
            let sent = if t.payload.len() <= COALESCE {
                self.network.send(id, &t.to_bytes())
            } else {
                let tail = t.digest.unwrap_or_default();
                self.network
                    .send(id, t.head.as_slice())
                    .and_then(|()| self.network.send(id, &t.payload))
                    .and_then(|()| self.network.send(id, &tail[..t.digest.map_or(0, |d| d.len())]))
            };
            match sent {
                Ok(()) => {}
                // What the controller said before it closed, perhaps a C2HTermReq, is still to be read.
                Err(SendError::Closed) => link.deaf = true,
                Err(SendError::Stalled) => {
                    let now = self.network.now();
                    self.association.handle_stalled(qid, now);
                }
            }
        }
    }

    fn close_all(&mut self) {
        if self.is_over_rdma() {
            let all: Vec<Qid> = self.links.keys().copied().collect();
            return all.into_iter().for_each(|qid| self.end_rdma(qid, false));
        }
        for link in std::mem::take(&mut self.links).into_values() {
            self.network.close(link.id, false);
        }
    }
}
