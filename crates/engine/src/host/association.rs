//! One association: the verbs, the user's commands, keep alive, events, the end. Bring-up and shutdown steps are in `bringup`.

use std::collections::{BTreeMap, VecDeque};

use core::ops::Bound;
use core::time::Duration;

use nvmf_seam::{Instant, Transmit};
use nvmf_spec::{Answer, Violation};
use nvmf_wire::cqe::AsyncEventResponse;
use nvmf_wire::identify::IdentifyController;
use nvmf_wire::property::{Cap, Crto, Vs};
use nvmf_wire::{Cid, Cntlid, Qid, Sqe, Status};

use super::bringup::Step;
use super::command;
use super::error::{ESTABLISHMENT, HostError};
use super::settings::HostSettings;
use crate::tcp::host::{Completion, HostConnection, HostEvent, Negotiated, Payload, SubmitError};

/// What happened, or what the driver has to do.
#[derive(Clone, Debug)]
pub enum Event {
    /// Open a TCP connection for this queue, then call [`Association::handle_opened`] or [`Association::handle_open_failed`].
    Open(Qid),
    /// Close the TCP connection of this queue; nothing more is to be given in for it.
    Close {
        /// The queue.
        qid: Qid,
        /// With RST.
        reset: bool,
    },
    /// ICReq and ICResp were exchanged.
    Negotiated(Qid, Negotiated),
    /// Bring-up is complete: commands may be submitted, [`Association::facts`] says with whom.
    Ready,
    /// A user's command ended.
    Completed(Qid, Completion),
    /// The controller reported an event; reading its log page clears it. [AER-08]
    AsyncEvent(AsyncEventResponse),
    /// A Keep Alive failed with this status; the association goes on.
    KeepAliveFailed(Status),
    /// The controller broke a requirement. Where it ends the association, [`Event::Failed`] follows.
    Violation(Qid, Violation),
    /// The association ended as asked.
    Ended,
    /// The association ended otherwise. The last event but for [`Event::Close`] and [`Event::Completed`].
    Failed(HostError),
}

/// What the controller said about itself during bring-up.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Controller Capabilities.
    pub cap: Cap,
    /// Version.
    pub vs: Vs,
    /// Controller Ready Timeouts, where CAP.CRMS promises them.
    pub crto: Option<Crto>,
    /// Controller ID from the Connect response.
    pub cntlid: Cntlid,
    /// Identify Controller.
    pub identify: Option<Box<IdentifyController>>,
    /// I/O queues connected.
    pub io_queues: u16,
    /// Size of each I/O queue, entries.
    pub io_entries: u16,
    /// What each connection agreed on.
    pub negotiated: BTreeMap<Qid, Negotiated>,
    /// Queues on which the controller granted to do without SQ flow control.
    pub flow_control_off: Vec<Qid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// On the way up; the next connection is being opened or a step is under way.
    Rising,
    Ready,
    /// Shutdown asked for; the user's commands finish first. [RESET-27]
    Draining {
        until: Instant,
    },
    /// CC.SHN set, SHST waited for.
    Falling,
    Over,
}

/// A command of the association's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    Step(Step),
    KeepAlive,
    AsyncEvent,
}

/// One association with one controller.
///
/// A driver does what [`Event::Open`] and [`Event::Close`] say, feeds `handle_*`, sends what [`Self::poll_transmit`] gives, takes
/// [`Self::poll_event`] until there is none, and calls [`Self::handle_timeout`] at [`Self::poll_timeout`]. It starts with an event.
///
/// Limits: those of [`HostSettings`]; each connection has its own.
#[derive(Debug)]
pub struct Association {
    pub(super) settings: HostSettings,
    pub(super) phase: Phase,
    pub(super) facts: Facts,
    pub(super) queues: BTreeMap<Qid, HostConnection>,
    pub(super) own: BTreeMap<(Qid, Cid), Own>,
    pub(super) events: VecDeque<Event>,
    /// When a step that looks at CSTS again is due, and when it gives up.
    pub(super) again: Option<(Instant, Step)>,
    pub(super) give_up: Instant,
    keep_alive: Option<Instant>,
    last_sent: Qid,
}

impl Association {
    /// The first event asks for the Admin Queue's connection.
    pub fn new(settings: HostSettings) -> Self {
        Self {
            settings,
            phase: Phase::Rising,
            facts: Facts::default(),
            queues: BTreeMap::new(),
            own: BTreeMap::new(),
            events: VecDeque::from([Event::Open(Qid::ADMIN)]),
            again: None,
            give_up: Instant::START,
            keep_alive: None,
            last_sent: Qid::ADMIN,
        }
    }

    /// The settings it was made with.
    pub fn settings(&self) -> &HostSettings {
        &self.settings
    }

    /// What the controller said about itself so far.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// True between [`Event::Ready`] and the end.
    pub fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// True once the association is over; connections may still wait to be closed by the controller.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Queues that still have a connection.
    pub fn connections(&self) -> impl Iterator<Item = Qid> {
        self.queues.keys().copied()
    }

    /// The TCP connection asked for by [`Event::Open`] is there.
    pub fn handle_opened(&mut self, qid: Qid, now: Instant) {
        if self.phase != Phase::Rising || self.queues.contains_key(&qid) {
            // Too late: nobody wants it any more.
            self.events.push_back(Event::Close { qid, reset: false });
            return;
        }
        let (entries, room) =
            if qid == Qid::ADMIN { (self.settings.admin_entries, 0) } else { (self.facts.io_entries, self.in_capsule()) };
        let tcp = self.settings.tcp.clone();
        self.queues.insert(qid, HostConnection::new(tcp, qid, entries, self.settings.max_transfer, room, now));
    }

    /// The TCP connection asked for by [`Event::Open`] could not be opened.
    pub fn handle_open_failed(&mut self, qid: Qid, why: String, now: Instant) {
        self.fail(HostError::Open { qid, why });
        self.pump(now);
    }

    /// Bytes came from the controller.
    pub fn handle_bytes(&mut self, qid: Qid, bytes: &[u8], now: Instant) {
        if let Some(q) = self.queues.get_mut(&qid) {
            q.handle_bytes(bytes, now);
            self.pump(now);
        }
    }

    /// The controller closed the TCP connection of a queue.
    pub fn handle_closed(&mut self, qid: Qid, reset: bool, now: Instant) {
        let Some(q) = self.queues.get(&qid) else { return };
        if !q.is_doomed() {
            // The end of any connection ends the association, since single queues are not deleted. [FAB-DISC-20]
            let during = self.doing();
            self.fail(HostError::Lost { qid, reset, during });
        }
        if let Some(q) = self.queues.get_mut(&qid) {
            q.handle_closed();
        }
        self.pump(now);
    }

    /// Nothing could be sent on a queue's connection for longer than the driver has patience: it is reset. [TCP-TERM-24]
    pub fn handle_stalled(&mut self, qid: Qid, now: Instant) {
        let Some(q) = self.queues.get_mut(&qid) else { return };
        q.close(true);
        self.fail(HostError::Stalled { qid });
        self.pump(now);
    }

    /// Time passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        for q in self.queues.values_mut() {
            q.handle_timeout(now);
        }
        self.pump(now);
        if let Some((at, step)) = self.again
            && at <= now
        {
            self.again = None;
            self.begin(step, now);
        }
        if self.keep_alive.is_some_and(|at| at <= now) {
            self.send_keep_alive(now);
        }
        if let Phase::Draining { until } = self.phase
            && until <= now
        {
            self.begin(Step::Notify, now);
        }
        self.pump(now);
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let draining = match self.phase {
            Phase::Draining { until } => Some(until),
            _ => None,
        };
        let queues = self.queues.values().filter_map(HostConnection::poll_timeout);
        queues.chain(self.again.map(|(at, _)| at)).chain(self.keep_alive).chain(draining).min()
    }

    /// The next PDU and the queue on whose connection it goes. The queues take turns.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(Qid, Transmit)> {
        let behind = (Bound::Excluded(self.last_sent), Bound::Unbounded);
        let found = self.queues.range_mut(behind).find_map(|(qid, q)| q.poll_transmit(now).map(|t| (*qid, t)));
        let found = found.or_else(|| self.queues.iter_mut().find_map(|(qid, q)| q.poll_transmit(now).map(|t| (*qid, t))));
        if let Some((qid, _)) = &found {
            self.last_sent = *qid;
        }
        found
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Submits a command on a queue of a ready association; its end comes as [`Event::Completed`] with the CID returned.
    ///
    /// CID, PSDT and SGL1 of `sqe` are filled in. One place of the Admin Queue stays free for Keep Alive.
    pub fn submit(&mut self, qid: Qid, sqe: Sqe, payload: Payload, now: Instant) -> Result<Cid, SubmitError> {
        if self.phase != Phase::Ready {
            return Err(SubmitError::NotReady);
        }
        let until = now + self.settings.command_patience;
        let q = self.queues.get_mut(&qid).ok_or(SubmitError::NotReady)?;
        if qid == Qid::ADMIN && q.room() < 2 {
            return Err(SubmitError::Full);
        }
        q.submit(sqe, payload, Some(until))
    }

    /// Commands that [`Self::submit`] takes now on a queue.
    pub fn room(&self, qid: Qid) -> usize {
        match self.queues.get(&qid) {
            Some(q) if self.phase == Phase::Ready => q.room().saturating_sub(usize::from(qid == Qid::ADMIN)),
            _ => 0,
        }
    }

    /// Ends the association in order: the user's commands finish, CC.SHN is set, SHST waited for, the connections closed; then comes
    /// [`Event::Ended`]. During bring-up the connections are closed at once. [RESET-26, RESET-27]
    pub fn shutdown(&mut self, now: Instant) {
        match self.phase {
            Phase::Ready => {
                self.keep_alive = None;
                self.phase = Phase::Draining { until: now + self.settings.command_patience };
                self.pump(now);
            }
            Phase::Rising => self.end(now),
            _ => {}
        }
    }

    /// Bytes of data that fit into an I/O command capsule. [TCP-CAPSULE-06]
    fn in_capsule(&self) -> u32 {
        let bytes = self.facts.identify.as_ref().map_or(0, |i| i.in_capsule_bytes());
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// Starts keep alive and asynchronous events once the controller is ready.
    pub(super) fn start_service(&mut self, now: Instant) {
        if self.settings.kato_ms > 0 {
            self.keep_alive = Some(now + self.half_kato());
        }
        let limit = self.facts.identify.as_ref().map_or(1, |i| i.aerl().count());
        // A discovery controller takes the requests on persistent connections only. [DISC-CTRL-04]
        let wanted = if self.settings.is_discovery() && self.settings.kato_ms == 0 { 0 } else { self.settings.async_events };
        for _ in 0..u64::from(wanted).min(limit) {
            self.request_event();
        }
    }

    fn request_event(&mut self) {
        let Some(q) = self.queues.get_mut(&Qid::ADMIN) else { return };
        // Two places stay free: for Keep Alive and for steps.
        if q.room() > 2
            && let Ok(cid) = q.submit(command::async_event_request(), Payload::None, None)
        {
            self.own.insert((Qid::ADMIN, cid), Own::AsyncEvent);
        }
    }

    /// Half of KATO. [KA-13]
    fn half_kato(&self) -> Duration {
        Duration::from_millis(u64::from(self.settings.kato_ms)) / 2
    }

    fn send_keep_alive(&mut self, now: Instant) {
        self.keep_alive = Some(now + self.half_kato());
        if self.own.values().any(|o| *o == Own::KeepAlive) {
            return;
        }
        let until = now + self.settings.command_patience.min(Duration::from_millis(self.settings.kato_ms.into()));
        let sent = self.queues.get_mut(&Qid::ADMIN).map(|q| q.submit(command::keep_alive(), Payload::None, Some(until)));
        if let Some(Ok(cid)) = sent {
            self.own.insert((Qid::ADMIN, cid), Own::KeepAlive);
        }
    }

    /// Takes over what happened on the connections.
    pub(super) fn pump(&mut self, now: Instant) {
        loop {
            let next = self.queues.iter_mut().find_map(|(qid, q)| q.poll_event().map(|e| (*qid, e)));
            match next {
                Some((qid, event)) => self.take(qid, event, now),
                None => break,
            }
        }
        if matches!(self.phase, Phase::Draining { .. }) && !self.is_busy() {
            self.begin(Step::Notify, now);
        }
    }

    /// True while a user's command is outstanding.
    fn is_busy(&self) -> bool {
        self.queues.iter().any(|(qid, q)| q.outstanding() > self.own.keys().filter(|(own, _)| own == qid).count())
    }

    fn take(&mut self, qid: Qid, event: HostEvent, now: Instant) {
        match event {
            HostEvent::Ready(agreed) => {
                self.facts.negotiated.insert(qid, agreed);
                self.events.push_back(Event::Negotiated(qid, agreed));
                let asked = self.settings.tcp.digests;
                let short = asked.header && !agreed.digests.header || asked.data && !agreed.digests.data;
                if short && self.settings.insist_on_digests {
                    self.fail(HostError::DigestsRefused(agreed));
                } else {
                    self.begin(Step::Connect(qid), now);
                }
            }
            HostEvent::Completed(completion) => match self.own.remove(&(qid, completion.cid)) {
                None => self.events.push_back(Event::Completed(qid, completion)),
                Some(_) if self.phase == Phase::Over => {}
                Some(Own::Step(step)) => self.done(step, &completion, now),
                Some(Own::KeepAlive) if completion.status().is_success() => {}
                Some(Own::KeepAlive) => self.events.push_back(Event::KeepAliveFailed(completion.status())),
                Some(Own::AsyncEvent) if completion.status().is_success() => {
                    self.events.push_back(Event::AsyncEvent(AsyncEventResponse::from_bytes(*completion.cqe.as_bytes())));
                    self.request_event();
                }
                // Refused (too many) or aborted: asking again would only repeat it.
                Some(Own::AsyncEvent) => {}
            },
            HostEvent::Violation(violation) => {
                self.events.push_back(Event::Violation(qid, violation.clone()));
                if matches!(violation.answer, Answer::TermReq { .. }) {
                    let during = self.doing();
                    self.fail(HostError::Violation { qid, violation, during });
                }
            }
            HostEvent::TermReq { fes, fei } => self.fail(HostError::TermReq { qid, fes, fei }),
            HostEvent::TimedOut(waiting) => {
                let during = self.doing();
                self.fail(HostError::TimedOut { qid, waiting, during });
            }
            HostEvent::Close { reset } => {
                self.queues.remove(&qid);
                self.events.push_back(Event::Close { qid, reset });
            }
        }
    }

    /// What the association is about, for errors.
    fn doing(&self) -> &'static str {
        let step = self.own.values().find_map(|o| match o {
            Own::Step(s) => Some(s.name()),
            _ => None,
        });
        match (step, self.phase) {
            (Some(name), _) => name,
            (None, Phase::Rising) => ESTABLISHMENT,
            _ => "operation",
        }
    }

    /// Ends the association for a reason: every connection is closed but those on which an H2CTermReq waits for its effect.
    pub(super) fn fail(&mut self, why: HostError) {
        if self.phase == Phase::Over {
            return;
        }
        self.over();
        self.events.push_back(Event::Failed(why));
        for q in self.queues.values_mut().filter(|q| !q.is_terminated()) {
            q.close(false);
        }
    }

    /// Ends the association as asked.
    pub(super) fn end(&mut self, now: Instant) {
        self.over();
        // The Admin Queue goes last.
        for q in self.queues.values_mut().rev() {
            q.close(false);
        }
        let mut qids: Vec<Qid> = self.queues.keys().copied().collect();
        qids.reverse();
        for qid in qids {
            while let Some(event) = self.queues.get_mut(&qid).and_then(HostConnection::poll_event) {
                self.take(qid, event, now);
            }
        }
        self.events.push_back(Event::Ended);
    }

    fn over(&mut self) {
        self.phase = Phase::Over;
        self.again = None;
        self.keep_alive = None;
    }
}
