//! The controller's end of one NVMe/TCP connection: the verbs, the phases and the timers. What the verbs do with PDUs is in the
//! neighbours: `receive` (bytes to PDUs), `capsule` and `command` (what a command asks for), `transfer` (R2T, H2CData), `send`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use nvmf_seam::{Instant, Transmit};
use nvmf_wire::tcp::Digests;
use nvmf_wire::{Cid, Status};

use super::capsule::Queue;
use super::command::{Command, Sink, State, StoreDone, StoreRequest};
use super::receive::Skip;
use super::send::Out;
use super::table::Table;
use super::transfer::Transfers;
use crate::message::{Admitted, ToConnection, ToHub};
use crate::settings::TcpSettings;

/// Time without a byte from the host after which a connection gives its buffers back: long beside a command, short beside a day.
const REST: Duration = Duration::from_secs(1);

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waits for ICReq.
    Fresh,
    /// ICResp is on its way; no queue yet.
    Initialized,
    /// The hub judges a Connect; nothing more is parsed until it has.
    Connecting,
    /// The queue exists.
    Connected,
    /// The queue was deleted by Disconnect: what comes in is thrown away, and the host is given time to close. [FAB-DISC-06]
    Deleted,
    /// A C2HTermReq is queued as the last PDU; what comes in is thrown away. [TCP-TERM-02]
    Terminating,
    /// Closes as soon as what is queued was taken.
    Closing,
    /// Nothing more happens.
    Closed,
}

/// Why a controller closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The host did not send ICReq or Connect in time.
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
}

/// What the driver has to act upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A fatal transport error was found; the C2HTermReq follows. For a log.
    Fatal {
        /// Fatal Error Status.
        fes: u16,
        /// Fatal Error Information.
        fei: u32,
    },
    /// Close the transport connection. Everything to be sent was taken by [`ControllerConnection::poll_transmit`] before.
    Close(CloseReason),
}

/// One connection, seen from the controller. Feed it with the `handle_` verbs, then drain `poll_message`, `poll_store`,
/// `poll_transmit` and `poll_event` until they give `None`, and wake it at `poll_timeout`.
///
/// Limits: one PDU is held while it is incomplete; commands are bounded by the queue; data of commands by
/// [`TcpSettings::max_held`]; what is to be sent by the queue.
#[derive(Debug)]
pub struct ControllerConnection {
    pub(super) settings: Arc<TcpSettings>,
    pub(super) phase: Phase,
    pub(super) digests: Digests,
    /// Alignment of C2HData, bytes: (HPDA + 1) x 4.
    pub(super) align: usize,
    /// R2Ts that may be outstanding for one command.
    pub(super) max_r2ts: u32,
    /// Unread bytes, from a PDU boundary on.
    pub(super) buf: BytesMut,
    pub(super) skip: Option<Skip>,
    pub(super) queue: Queue,
    pub(super) commands: Table<Cid, Command>,
    /// Commands so far; in a store request's id it tells a command from a later one with its CID.
    pub(super) serial: u64,
    pub(super) transfers: Transfers,
    pub(super) out: VecDeque<Out>,
    pub(super) to_hub: VecDeque<ToHub>,
    pub(super) requests: VecDeque<StoreRequest>,
    pub(super) events: VecDeque<Event>,
    pub(super) close: Option<CloseReason>,
    pub(super) header_due: Option<Instant>,
    setup_due: Option<Instant>,
    pub(super) term_due: Option<Instant>,
    /// When what a busy time made grow is given back.
    rest_due: Option<Instant>,
}

impl ControllerConnection {
    /// A connection that was just accepted.
    pub fn new(now: Instant, settings: Arc<TcpSettings>) -> Self {
        let due = now + settings.connect_patience;
        Self {
            settings,
            phase: Phase::Fresh,
            digests: Digests::default(),
            align: 4,
            max_r2ts: 1,
            buf: BytesMut::new(),
            skip: None,
            queue: Queue::default(),
            commands: Table::default(),
            serial: 0,
            transfers: Transfers::default(),
            out: VecDeque::new(),
            to_hub: VecDeque::new(),
            requests: VecDeque::new(),
            events: VecDeque::new(),
            close: None,
            header_due: None,
            setup_due: Some(due),
            term_due: None,
            rest_due: None,
        }
    }

    /// Bytes came from the host, in any pieces. [TCP-GEN-05]
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) {
        match self.phase {
            Phase::Deleted | Phase::Terminating | Phase::Closing | Phase::Closed => return,
            _ => {}
        }
        if !self.can_receive() && self.buf.len() > self.room() {
            self.shut(CloseReason::Flooded);
            return;
        }
        self.rest_due = Some(now + REST);
        self.buf.extend_from_slice(bytes);
        self.advance(now);
    }

    /// The transport connection is gone, whoever ended it.
    pub fn handle_closed(&mut self, _now: Instant) {
        if self.phase != Phase::Closed {
            self.phase = Phase::Closed;
            self.to_hub.push_back(ToHub::Closed);
        }
        self.forget();
    }

    /// Time went on.
    pub fn handle_timeout(&mut self, now: Instant) {
        let over = |due: Option<Instant>| due.is_some_and(|d| d <= now);
        if over(self.term_due) {
            self.term_due = None;
            let deleted = self.phase == Phase::Deleted;
            self.shut(if deleted { CloseReason::Association } else { CloseReason::TermUnanswered });
        }
        if over(self.setup_due) {
            self.setup_due = None;
            if matches!(self.phase, Phase::Fresh | Phase::Initialized) {
                self.shut(CloseReason::Setup);
            }
        }
        if over(self.header_due) {
            self.advance(now);
        }
        if over(self.rest_due) {
            self.rest();
        }
    }

    /// A message of the hub.
    pub fn handle_message(&mut self, now: Instant, message: ToConnection) {
        if matches!(self.phase, Phase::Terminating | Phase::Closing | Phase::Closed) {
            if matches!(message, ToConnection::Close) && self.phase == Phase::Terminating {
                // The association is over, but the host still gets its time to read the terminate request.
                return;
            }
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
        self.advance(now);
    }

    /// A store request is done.
    pub fn handle_store(&mut self, now: Instant, done: StoreDone) {
        // Nothing follows a terminate request. [TCP-TERM-01, TCP-TERM-02]
        if self.is_ending() {
            return;
        }
        self.stored(done);
        self.advance(now);
    }

    /// The next PDU to send.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let stalled = !self.can_receive();
        let transmit = self.next_transmit(now);
        if stalled && self.can_receive() {
            self.advance(now);
        }
        transmit
    }

    /// The next thing to act upon. [`Event::Close`] comes when nothing is left to send.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(e) = self.events.pop_front() {
            return Some(e);
        }
        if self.phase == Phase::Closing && self.out.is_empty() {
            let reason = self.close.take()?;
            self.phase = Phase::Closed;
            self.to_hub.push_back(ToHub::Closed);
            return Some(Event::Close(reason));
        }
        None
    }

    /// When [`ControllerConnection::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        // A stalled connection looks at the header when it goes on.
        let header_due = self.header_due.filter(|_| self.can_receive());
        [self.term_due, self.setup_due, header_due, self.rest_due].into_iter().flatten().min()
    }

    /// The next message to the hub.
    pub fn poll_message(&mut self) -> Option<ToHub> {
        self.to_hub.pop_front()
    }

    /// The next request to a store.
    pub fn poll_store(&mut self) -> Option<StoreRequest> {
        self.requests.pop_front()
    }

    /// False while the connection takes nothing more in, because it has too much to send or waits for the hub's word on a Connect: the
    /// driver stops reading then, and the host's TCP stalls.
    pub fn can_receive(&self) -> bool {
        self.out.len() < Out::LIMIT && self.phase != Phase::Connecting
    }

    /// True once the queue exists.
    pub fn is_connected(&self) -> bool {
        self.phase == Phase::Connected
    }

    /// True once the connection is to end: what is queued is the last. A driver that cannot send it resets the connection after
    /// [`TcpSettings::term_wait`]. [TCP-TERM-12]
    pub fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Terminating | Phase::Closing | Phase::Closed)
    }

    /// Bytes and entries held, for tests of the limits.
    pub fn held(&self) -> usize {
        self.buf.len() + self.queue.held + self.queue.pending_bytes() + self.out.len() + self.commands.len() + self.transfers.len()
    }

    /// Connect succeeded. [FAB-CONNECT-37, FAB-SQFC-04]
    fn admitted(&mut self, a: Admitted) {
        self.phase = Phase::Connected;
        self.setup_due = None;
        let sqhd = self.queue.admit(&a);
        if let Some(c) = self.commands.get_mut(a.cid) {
            c.state = State::Replying;
            self.out.push_back(Out::connected(a.cid, a.result, sqhd));
        }
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
            Some(State::Receiving(r)) => !matches!(r.sink, Sink::Half),
            Some(State::First) => true,
            _ => false,
        };
        if !stoppable || !self.transfers.abandon(cid) {
            return false;
        }
        self.forget_first(cid);
        self.release(cid);
        self.complete(cid, Status::COMMAND_ABORT_REQUESTED, 0, bytes::Bytes::new());
        true
    }

    /// Forgets a command without a completion.
    fn drop_command(&mut self, cid: Cid) {
        self.transfers.abandon(cid);
        self.release(cid);
        self.commands.remove(cid);
        self.queue.waiting.retain(|c| *c != cid);
    }

    /// Closes after what is queued was sent.
    pub(super) fn shut(&mut self, reason: CloseReason) {
        if matches!(self.phase, Phase::Closing | Phase::Closed) {
            return;
        }
        self.phase = Phase::Closing;
        self.close = Some(reason);
        self.buf = BytesMut::new();
        self.header_due = None;
        self.setup_due = None;
        self.term_due = None;
        self.rest_due = None;
        // What waits for the host or for a store will not be answered any more.
        self.requests.clear();
    }

    /// An idle connection holds no buffers.
    fn rest(&mut self) {
        self.rest_due = None;
        if self.buf.is_empty() {
            self.buf = BytesMut::new();
        }
        self.commands.rest();
        self.transfers.rest();
        self.queue.rest();
        self.out.shrink_to_fit();
        self.to_hub.shrink_to_fit();
        self.requests.shrink_to_fit();
    }

    /// Lets go of all memory.
    fn forget(&mut self) {
        self.buf = BytesMut::new();
        self.out.clear();
        self.requests.clear();
        self.commands = Table::default();
        self.queue = Queue::default();
        self.transfers = Transfers::default();
        self.header_due = None;
        self.setup_due = None;
        self.term_due = None;
        self.rest_due = None;
        self.close = None;
    }
}

#[cfg(test)]
mod tests {
    use nvmf_wire::tcp::{IcReq, Pdu, PduType};

    use super::*;

    #[test]
    fn an_idle_connection_gives_its_buffer_back() {
        let mut c = ControllerConnection::new(Instant(0), Arc::new(TcpSettings::default()));
        let mut header = *IcReq::new().as_bytes();
        header[0] = PduType::IC_REQ.0;
        let mut bytes = Pdu::build(&header, bytes::Bytes::new(), Digests::default(), 4).to_bytes();
        // The begin of the next PDU has to stay.
        bytes.extend_from_slice(&[4, 0, 72]);
        c.handle_bytes(Instant(0), &bytes);
        c.handle_timeout(Instant(0) + REST);
        assert_eq!(c.buf[..], [4, 0, 72]);
        c.handle_bytes(Instant(0), &[0, 72, 0, 0, 0]);
        c.handle_bytes(Instant(0), &[0; 64]);
        assert!(c.buf.is_empty());
        c.handle_timeout(Instant(0) + REST);
        assert!(c.poll_timeout().is_none_or(|t| t > Instant(0) + REST));
        assert!(!c.buf.try_reclaim(1));
    }
}
