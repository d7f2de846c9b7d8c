//! The controller's end of one NVMe/RDMA connection: the verbs, the timers and the receives. What becomes of commands is in
//! [`crate::queue`]; the neighbours have a connection request (`request`), where data lies (`sgl`), and READs, WRITEs and SENDs
//! (`carrier`). [NVMe/RDMA 1.0]

mod carrier;
mod request;
mod sgl;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nvmf_seam::Instant;
use nvmf_seam::rdma::{Accept, Asked, CmEvent, Completion, Done, Work, WorkError};
use nvmf_wire::connect::Connect;
use nvmf_wire::layout::Structure;
use nvmf_wire::rdma::RdmaStatus;
use nvmf_wire::sqe::FabricsType;
use nvmf_wire::{Sqe, Status};

use carrier::{Carrier, Purpose};
use request::Granted;
pub use request::{Terms, named_controller, reject_private};

use crate::message::{ToConnection, ToHub};
use crate::queue::{Capsule, CloseReason, Core, Phase, StoreDone, StoreRequest};
use crate::settings::RdmaSettings;

/// Time without a capsule after which a connection gives its buffers back.
const REST: Duration = Duration::from_secs(1);

/// What a connection asks of CM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CmAction {
    /// Agree to the request. The receives that [`ControllerConnection::poll_work`] gave are posted before.
    Accept(Accept),
    /// End the connection. [`CmEvent::Disconnected`] is awaited.
    Disconnect,
}

/// What the driver has to act upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Work failed, and the connection ends with it. For a log.
    Failed(WorkError),
    /// The connection is over: destroy it at the device.
    Closed(CloseReason),
}

/// Where the transport stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// The request is to be answered.
    Asked,
    /// REP is out.
    Accepted,
    Up,
    /// DREQ is out.
    Disconnecting,
    Over,
}

/// One connection, seen from the controller. Feed it with the `handle_` verbs, then drain `poll_message`, `poll_store`, `poll_work`,
/// `poll_cm` and `poll_event`, in this order, until they give `None`, and wake it at `poll_timeout`.
///
/// Limits: receives by CRQSIZE, which covers capsules that wait; commands by the queue; their data by [`RdmaSettings::max_held`]; READs by
/// what CM agreed on, SENDs by HRQSIZE, all work by the device's limit.
#[derive(Debug)]
pub struct ControllerConnection {
    core: Core<Carrier>,
    settings: Arc<RdmaSettings>,
    granted: Granted,
    link: Link,
    /// Receives at the device.
    posted: u32,
    /// Capsules that came while the hub judges a Connect.
    inbox: VecDeque<Bytes>,
    /// Nothing more can be sent.
    broken: bool,
    events: VecDeque<Event>,
    /// Why the connection ends, once DREQ is out.
    reason: Option<CloseReason>,
    setup_due: Option<Instant>,
    /// When the wait for what was sent last, or for the host's DREQ, is over.
    close_due: Option<Instant>,
    /// When the last capsule came, and when to look whether one came since. The timer does not move with each of them.
    seen: Instant,
    rest_due: Option<Instant>,
}

impl ControllerConnection {
    /// A connection for a request, or the status to refuse it with; see [`reject_private`].
    pub fn new(now: Instant, settings: Arc<RdmaSettings>, asked: &Asked, terms: &Terms<'_>) -> Result<Self, RdmaStatus> {
        let granted = request::judge(asked, terms)?;
        let due = now + settings.connect_patience;
        Ok(Self {
            core: Core::new(Carrier::new(settings.clone(), &granted, terms.limits)),
            settings,
            granted,
            link: Link::Asked,
            posted: 0,
            inbox: VecDeque::new(),
            broken: false,
            events: VecDeque::new(),
            reason: None,
            setup_due: Some(due),
            close_due: None,
            seen: now,
            rest_due: None,
        })
    }

    /// CM tells something.
    pub fn handle_cm(&mut self, now: Instant, event: &CmEvent) {
        match event {
            CmEvent::Established => self.established(),
            CmEvent::Disconnected | CmEvent::Unreachable | CmEvent::Removed | CmEvent::Rejected { .. } => {
                self.over(CloseReason::Disconnected);
            }
            CmEvent::Request(_) | CmEvent::Accepted(_) => {}
        }
        self.advance(now);
    }

    /// Work has ended.
    pub fn handle_completion(&mut self, now: Instant, completion: Completion) {
        let Some(purpose) = Purpose::of(completion.id) else { return };
        self.core.binding.ended(purpose, completion.id);
        if purpose == Purpose::Receive {
            self.posted = self.posted.saturating_sub(1);
        }
        if self.link == Link::Over {
            return;
        }
        let right = match completion.result {
            Ok(Done::Received { data, .. }) if purpose == Purpose::Receive => {
                // The first SEND may overtake RTU. [IBA vol. 1, 12.9.8.2]
                self.established();
                self.seen = now;
                self.rest_due.get_or_insert(now + REST);
                self.inbox.push_back(data);
                true
            }
            Ok(Done::Read(data)) if purpose == Purpose::Read => {
                // A connection that ends begins nothing more.
                let wanted = !self.core.is_ending();
                carrier::read_done(&mut self.core, wanted.then_some(data))
            }
            Ok(Done::Sent) => purpose == Purpose::Send,
            Ok(Done::Written) => purpose == Purpose::Write,
            Ok(_) => false,
            Err(error) => {
                if purpose == Purpose::Read {
                    carrier::read_done(&mut self.core, None);
                }
                self.failed(error);
                true
            }
        };
        if !right {
            self.failed(WorkError::BadResponse);
        }
        self.advance(now);
    }

    /// The device did not take work: the queue pair is of no more use.
    pub fn handle_refused(&mut self, now: Instant) {
        self.failed(WorkError::Flushed);
        self.advance(now);
    }

    /// A message of the hub.
    pub fn handle_message(&mut self, now: Instant, message: ToConnection) {
        self.core.handle_message(message);
        if self.core.phase == Phase::Connected {
            self.setup_due = None;
        }
        self.advance(now);
    }

    /// A store request is done.
    pub fn handle_store(&mut self, now: Instant, done: StoreDone) {
        if self.core.is_ending() {
            return;
        }
        self.core.stored(done);
        self.advance(now);
    }

    /// Time went on.
    pub fn handle_timeout(&mut self, now: Instant) {
        let over = |due: Option<Instant>| due.is_some_and(|d| d <= now);
        if over(self.setup_due) {
            self.setup_due = None;
            if matches!(self.core.phase, Phase::Fresh | Phase::Initialized) {
                self.core.shut(CloseReason::Setup);
            }
        }
        if over(self.close_due) {
            self.close_due = None;
            // What was sent last was not taken, or the host does not end the connection itself.
            self.broken |= self.core.phase == Phase::Closing;
            self.core.shut(CloseReason::Association);
        }
        if over(self.rest_due) {
            let due = self.seen + REST;
            self.rest_due = (due > now).then_some(due);
            if self.rest_due.is_none() {
                self.rest();
            }
        }
        self.advance(now);
    }

    /// The next work request.
    pub fn poll_work(&mut self, now: Instant) -> Option<Work> {
        if matches!(self.link, Link::Disconnecting | Link::Over) || self.broken {
            return None;
        }
        if self.posted < self.receives() {
            self.posted += 1;
            return Some(Work::Receive { id: Purpose::Receive.id(0), len: self.granted.receive_len });
        }
        if self.link != Link::Up {
            return None;
        }
        let reading = !self.core.is_ending();
        let next = carrier::next_work(&mut self.core, reading)?;
        if next.answered.is_some() && next.answered == self.core.queue.ending {
            // The last of the queue; the host ends the connection when it has it. [FAB-DISC-06, FAB-DISC-10, FAB-DISC-12]
            self.core.phase = Phase::Deleted;
            self.core.queue.forget_pending();
            self.close_due = Some(now + self.settings.close_patience);
        }
        Some(next.work)
    }

    /// What to ask of CM.
    pub fn poll_cm(&mut self) -> Option<CmAction> {
        if self.link == Link::Asked && !self.core.is_ending() {
            self.link = Link::Accepted;
            return Some(CmAction::Accept(self.granted.accept()));
        }
        let ends = self.core.phase == Phase::Closing && (self.broken || self.core.binding.is_drained());
        if !ends || matches!(self.link, Link::Disconnecting | Link::Over) {
            return None;
        }
        self.reason = self.core.closing();
        self.link = Link::Disconnecting;
        (self.setup_due, self.close_due, self.rest_due) = (None, None, None);
        Some(CmAction::Disconnect)
    }

    /// The next thing to act upon.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`ControllerConnection::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.setup_due, self.close_due, self.rest_due].into_iter().flatten().min()
    }

    /// The next message to the hub.
    pub fn poll_message(&mut self) -> Option<ToHub> {
        self.core.to_hub.pop_front()
    }

    /// The next request to a store.
    pub fn poll_store(&mut self) -> Option<StoreRequest> {
        self.core.requests.pop_front()
    }

    /// True while CM waits for an answer to the request.
    pub fn is_unanswered(&self) -> bool {
        self.link == Link::Asked
    }

    /// True once the queue exists.
    pub fn is_connected(&self) -> bool {
        self.core.phase == Phase::Connected
    }

    /// Bytes and entries held, for tests of the limits.
    pub fn held(&self) -> usize {
        let Core { queue, commands, binding, .. } = &self.core;
        let inbox: usize = self.inbox.iter().map(Bytes::len).sum();
        inbox + queue.held + queue.pending_bytes() + commands.len() + binding.held()
    }

    fn established(&mut self) {
        if self.link == Link::Accepted {
            self.link = Link::Up;
            if self.core.phase == Phase::Fresh {
                self.core.phase = Phase::Initialized;
            }
        }
    }

    /// Receives that are to be posted. A buffer is free again once its capsule was looked at; before there is a queue to count them, and
    /// where a response is for no command, capsules keep theirs, so that a host cannot send more than it takes.
    fn receives(&self) -> u32 {
        if matches!(self.core.phase, Phase::Deleted | Phase::Closing | Phase::Closed) {
            return 0;
        }
        let unconnected = if self.is_connected() { 0 } else { self.core.queue.pending_len() };
        let kept = self.inbox.len() + unconnected + self.core.binding.strays();
        self.granted.receives.saturating_sub(u32::try_from(kept).unwrap_or(u32::MAX))
    }

    /// Looks at what came as far as the phase allows.
    fn advance(&mut self, now: Instant) {
        self.core.fetch();
        self.core.start_waiting();
        while !matches!(self.core.phase, Phase::Connecting | Phase::Deleted | Phase::Closing | Phase::Closed) {
            let Some(data) = self.inbox.pop_front() else { break };
            self.capsule(&data);
        }
        match self.core.phase {
            Phase::Deleted | Phase::Closed => self.inbox.clear(),
            Phase::Closing => {
                self.inbox.clear();
                self.setup_due = None;
                if self.close_due.is_none() && !self.broken {
                    self.close_due = Some(now + self.settings.close_patience);
                }
            }
            _ => {}
        }
    }

    /// A SEND of the host: one capsule. [RDMA-DATA-01, RDMA-DATA-03]
    fn capsule(&mut self, bytes: &Bytes) {
        let Some(sqe) = bytes.first_chunk::<64>() else {
            // It has no CID to answer to, so that there is an end to the connection. [RDMA-CAPS-06, RDMA-ERR-01]
            self.core.shut(CloseReason::Malformed);
            self.broken = true;
            return;
        };
        let sqe = Sqe::from_bytes(*sqe);
        if self.core.phase == Phase::Initialized
            && sqe.fctype() == Some(FabricsType::CONNECT)
            && let Some(field) = self.differs(&Connect::from_bytes(*sqe.as_bytes()))
        {
            let at = Connect::LAYOUT.offset(field) as u64;
            return self.core.submit_refused(sqe, Status::CONNECT_INVALID_PARAMETERS.dnr(), at);
        }
        self.core.submit(Capsule { sqe, data: bytes.slice(64..), intact: true });
    }

    /// What Connect says otherwise than the request that made the connection. [RDMA-CM-11, RDMA-CM-13]
    fn differs(&self, connect: &Connect) -> Option<&'static str> {
        if connect.qid() != self.granted.qid {
            Some("qid")
        } else if connect.sqsize().count() != u64::from(self.granted.entries) {
            Some("sqsize")
        } else {
            None
        }
    }

    /// The queue pair is in error. What was flushed, nobody is to blame for; the reason comes otherwise, if at all. [RDMA-ERR-01,
    /// RDMA-ERR-02]
    fn failed(&mut self, error: WorkError) {
        if !self.broken && error != WorkError::Flushed {
            self.events.push_back(Event::Failed(error));
        }
        self.broken = true;
        self.core.shut(if error == WorkError::Flushed { CloseReason::Disconnected } else { CloseReason::Broken });
    }

    /// The transport connection is no more.
    fn over(&mut self, reason: CloseReason) {
        if self.link == Link::Over {
            return;
        }
        self.link = Link::Over;
        let reason = self.reason.take().or(self.core.close).unwrap_or(reason);
        self.core.closed();
        self.core.binding.clear();
        self.inbox.clear();
        (self.setup_due, self.close_due, self.rest_due) = (None, None, None);
        self.events.push_back(Event::Closed(reason));
    }

    /// An idle connection holds no buffers.
    fn rest(&mut self) {
        self.core.rest();
        self.core.binding.rest();
        self.inbox.shrink_to_fit();
    }
}
