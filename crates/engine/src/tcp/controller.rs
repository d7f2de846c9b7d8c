//! The controller's end of one NVMe/TCP connection: the verbs and the timers. What the verbs do with PDUs is in the neighbours:
//! `receive` (bytes to PDUs), `carrier` and `transfer` (R2T, H2CData), `send`; what becomes of commands is in [`crate::queue`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use nvmf_seam::{Instant, Transmit};
use nvmf_wire::tcp::{ADMIN_IN_CAPSULE, Digests};

use super::carrier::Carrier;
use super::receive::Skip;
use super::send::Out;
use super::transfer::Transfers;
use crate::message::{ToConnection, ToHub};
use crate::queue::{CloseReason, Core, Phase, StoreDone, StoreRequest};
use crate::settings::TcpSettings;

/// Time without a byte from the host after which a connection gives its buffers back: long beside a command, short beside a day.
const REST: Duration = Duration::from_secs(1);

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
    pub(super) core: Core<Carrier>,
    pub(super) digests: Digests,
    /// Alignment of C2HData, bytes: (HPDA + 1) x 4.
    pub(super) align: usize,
    /// Unread bytes, from a PDU boundary on.
    pub(super) buf: BytesMut,
    pub(super) skip: Option<Skip>,
    pub(super) events: VecDeque<Event>,
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
        let mut core = Core::new(Carrier::new(settings));
        core.queue.in_capsule = ADMIN_IN_CAPSULE as usize;
        Self {
            core,
            digests: Digests::default(),
            align: 4,
            buf: BytesMut::new(),
            skip: None,
            events: VecDeque::new(),
            header_due: None,
            setup_due: Some(due),
            term_due: None,
            rest_due: None,
        }
    }

    /// Bytes came from the host, in any pieces. [TCP-GEN-05]
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) {
        match self.core.phase {
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
        self.core.closed();
        self.core.binding.out.clear();
        self.core.binding.transfers = Transfers::default();
        self.let_go();
    }

    /// Time went on.
    pub fn handle_timeout(&mut self, now: Instant) {
        let over = |due: Option<Instant>| due.is_some_and(|d| d <= now);
        if over(self.term_due) {
            self.term_due = None;
            let deleted = self.core.phase == Phase::Deleted;
            self.shut(if deleted { CloseReason::Association } else { CloseReason::TermUnanswered });
        }
        if over(self.setup_due) {
            self.setup_due = None;
            if matches!(self.core.phase, Phase::Fresh | Phase::Initialized) {
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
        let ending = self.core.is_ending();
        self.core.handle_message(message);
        if self.core.phase == Phase::Connected {
            self.setup_due = None;
        }
        if !ending {
            self.advance(now);
        }
    }

    /// A store request is done.
    pub fn handle_store(&mut self, now: Instant, done: StoreDone) {
        // Nothing follows a terminate request. [TCP-TERM-01, TCP-TERM-02]
        if self.core.is_ending() {
            return;
        }
        self.core.stored(done);
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
        let over = self.core.phase == Phase::Closing && self.core.binding.out.is_empty();
        if over { self.core.closing().map(Event::Close) } else { None }
    }

    /// When [`ControllerConnection::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        // A stalled connection looks at the header when it goes on.
        let header_due = self.header_due.filter(|_| self.can_receive());
        [self.term_due, self.setup_due, header_due, self.rest_due].into_iter().flatten().min()
    }

    /// The next message to the hub.
    pub fn poll_message(&mut self) -> Option<ToHub> {
        self.core.to_hub.pop_front()
    }

    /// The next request to a store.
    pub fn poll_store(&mut self) -> Option<StoreRequest> {
        self.core.requests.pop_front()
    }

    /// False while the connection takes nothing more in, because it has too much to send or waits for the hub's word on a Connect: the
    /// driver stops reading then, and the host's TCP stalls.
    pub fn can_receive(&self) -> bool {
        self.core.binding.out.len() < Out::LIMIT && self.core.phase != Phase::Connecting
    }

    /// True once the queue exists.
    pub fn is_connected(&self) -> bool {
        self.core.phase == Phase::Connected
    }

    /// True once the connection is to end: what is queued is the last. A driver that cannot send it resets the connection after
    /// [`TcpSettings::term_wait`]. [TCP-TERM-12]
    pub fn is_ending(&self) -> bool {
        self.core.is_ending()
    }

    /// Bytes and entries held, for tests of the limits.
    pub fn held(&self) -> usize {
        let Core { queue, commands, binding, .. } = &self.core;
        let data = self.buf.len() + queue.held + queue.pending_bytes();
        data + binding.out.len() + commands.len() + binding.transfers.len()
    }

    /// Closes after what is queued was sent.
    pub(super) fn shut(&mut self, reason: CloseReason) {
        self.core.shut(reason);
        self.let_go();
    }

    /// The connection ends: nothing more is taken in, no timer runs.
    pub(super) fn let_go(&mut self) {
        self.buf = BytesMut::new();
        self.header_due = None;
        self.setup_due = None;
        self.term_due = None;
        self.rest_due = None;
    }

    /// An idle connection holds no buffers.
    fn rest(&mut self) {
        self.rest_due = None;
        if self.buf.is_empty() {
            self.buf = BytesMut::new();
        }
        self.core.rest();
        self.core.binding.transfers.rest();
        self.core.binding.out.shrink_to_fit();
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
