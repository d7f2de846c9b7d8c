//! One association: the driver's verbs, what they lead to, and the end. What a user asks for is in `user`, keep alive and events are in
//! `service`, the steps up and down in `bringup`.

use std::collections::{BTreeMap, VecDeque};

use core::ops::Bound;

use nvmf_seam::{Instant, Transmit};
use nvmf_spec::{Answer, Violation};
use nvmf_wire::admin::LogPage;
use nvmf_wire::cqe::{AsyncEventResponse, EventType};
use nvmf_wire::identify::{ControllerType, IdentifyController};
use nvmf_wire::property::{Cap, Crto, Vs};
use nvmf_wire::tcp::Digests;
use nvmf_wire::{Cid, Cntlid, Qid, Status};

use super::bringup::Step;
use super::connection::{Agreed, Completion, Connection, HostEvent, Waiting};
use super::error::{ESTABLISHMENT, HostError};
use super::service::KeepAlive;
use super::settings::HostSettings;
use crate::tcp::host::HostConnection;

/// What happened, or what the driver has to do.
#[derive(Clone, Debug)]
pub enum Event {
    /// Open a connection for this queue: over TCP, then call [`Association::handle_opened`]; over RDMA as [`Association::ask`] says.
    /// [`Association::handle_open_failed`] where it cannot be.
    Open(Qid),
    /// Close the connection of this queue; nothing more is to be given in for it.
    Close {
        /// The queue.
        qid: Qid,
        /// TCP: with RST.
        reset: bool,
    },
    /// ICReq and ICResp, or REQ and REP, were exchanged.
    Negotiated(Qid, Agreed),
    /// Bring-up is complete, the first time or after a controller reset: commands may be submitted, [`Association::facts`] says with
    /// whom.
    Ready,
    /// The controller reported a fatal error (CSTS.CFS) and is being reset; [`Event::Ready`] or [`Event::Failed`] follows. [FAB-INIT-25]
    Fatal,
    /// An I/O queue is there again.
    QueueCreated(Qid),
    /// An I/O queue is gone: deleted as asked (success), not deleted though asked (another status), or with `None` lost by itself where
    /// single queues may go. [FAB-DISC-20]
    QueueDeleted(Qid, Option<Status>),
    /// A user's command ended.
    Completed(Qid, Completion),
    /// The controller reported an event. Reading its log page with RAE 0 clears it; until then no more of that kind should come.
    /// [AER-08, ADM-AER-06]
    AsyncEvent(AsyncEventResponse),
    /// A Keep Alive failed with this status; the association goes on.
    KeepAliveFailed(Status),
    /// The controller broke a requirement. Where it ends the association, [`Event::Failed`] follows.
    Violation(Qid, Violation),
    /// The association ended as asked. The last event but for [`Event::Close`] and [`Event::Completed`].
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
    /// I/O queues that the controller granted and the settings ask for; [`Association::io_queues`] has those that are there.
    pub io_queues: u16,
    /// Size of each I/O queue, entries.
    pub io_entries: u16,
    /// What each connection agreed on.
    pub negotiated: BTreeMap<Qid, Agreed>,
    /// Queues on which the controller granted to do without SQ flow control.
    pub flow_control_off: Vec<Qid>,
    /// The host may wait as CRD of a response says, for it told the controller that it would. [FAB-STATUS-04]
    pub retry_delays: bool,
    /// KATO as the controller takes it: rounded up to KAS, ms; 0 for none. [KA-17]
    pub kato_ms: u32,
}

impl Facts {
    /// Most data of one command by MDTS, bytes; `None` for no limit. [FAB-IDENT-10]
    pub fn mdts_bytes(&self) -> Option<u64> {
        let mdts = self.identify.as_ref().map_or(0, |i| i.mdts());
        let unit = 12 + u32::from(self.cap.mpsmin());
        (mdts > 0).then(|| 1u64.checked_shl(u32::from(mdts) + unit).unwrap_or(u64::MAX))
    }

    /// True where single I/O queues may be deleted: the controller can, and was told that the host can. [FAB-DISC-15]
    pub(super) fn deletes_queues(&self, settings: &HostSettings) -> bool {
        settings.queue_deletion && self.identify.as_ref().is_some_and(|i| i.ofcs_disconnect())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// On the way up; the next connection is being opened or a step is under way.
    Rising,
    Ready,
    /// CC.EN went to 0; CSTS.RDY is waited for. I/O queues may go at any moment. [RESET-08]
    Resetting,
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
    Disconnect,
}

/// One association with one controller.
///
/// A driver does what [`Event::Open`] and [`Event::Close`] say, feeds `handle_*`, sends what [`Self::poll_transmit`] gives (over RDMA:
/// posts what [`Self::poll_work`] gives), takes [`Self::poll_event`] until there is none, and calls [`Self::handle_timeout`] at
/// [`Self::poll_timeout`]. It starts with an event. Over RDMA [`crate::rdma::Initiator`] is such a driver.
///
/// Limits: those of [`HostSettings`]; each connection has its own.
#[derive(Debug)]
pub struct Association {
    pub(super) settings: HostSettings,
    pub(super) phase: Phase,
    pub(super) facts: Facts,
    pub(super) queues: BTreeMap<Qid, Connection>,
    pub(super) own: BTreeMap<(Qid, Cid), Own>,
    pub(super) events: VecDeque<Event>,
    /// When a step that looks at CSTS again is due, and when it gives up; or when a queue's connection is opened anew.
    pub(super) again: Option<(Instant, Step)>,
    pub(super) give_up: Instant,
    pub(super) keep_alive: KeepAlive,
    /// Events (type, information) whose log page was not read yet, with that page. [ADM-AER-06]
    pub(super) unread: BTreeMap<(EventType, u8), LogPage>,
    /// I/O queues to be deleted once they are idle, and whether Disconnect was sent.
    pub(super) leaving: BTreeMap<Qid, bool>,
    /// A command's time is over; CSTS.CFS is being looked at. [FAB-INIT-26]
    pub(super) suspect: Option<HostError>,
    /// A reset for CSTS.CFS was tried.
    pub(super) cured: bool,
    /// Until when the controller may take a queue of before a reset for one that stands.
    pub(super) lingers: Option<Instant>,
    pub(super) last_sent: Qid,
    /// What the connections that are over touched.
    touched: u64,
}

impl Association {
    /// The first event asks for the Admin Queue's connection, or says that no association can have these settings.
    pub fn new(settings: HostSettings) -> Self {
        let fault = settings.fault();
        let first = fault.map_or(Event::Open(Qid::ADMIN), |why| Event::Failed(HostError::Unusable(why)));
        Self {
            settings,
            phase: if fault.is_some() { Phase::Over } else { Phase::Rising },
            facts: Facts::default(),
            queues: BTreeMap::new(),
            own: BTreeMap::new(),
            events: VecDeque::from([first]),
            again: None,
            give_up: Instant::START,
            keep_alive: KeepAlive::default(),
            unread: BTreeMap::new(),
            leaving: BTreeMap::new(),
            suspect: None,
            cured: false,
            lingers: None,
            last_sent: Qid::ADMIN,
            touched: 0,
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

    /// Payload bytes that the CPU read or wrote for this association: none on a path of zero copies. Over TCP every byte is copied into
    /// the byte stream or out of it, over RDMA the NIC moves them; what a driver or a device copies in between is counted where it
    /// says so by [`nvmf_seam::rdma::Memory::touch`].
    pub fn touched(&self) -> u64 {
        self.touched + self.queues.values().map(Connection::touched).sum::<u64>()
    }

    /// I/O queues that take commands.
    pub fn io_queues(&self) -> impl Iterator<Item = Qid> {
        let ready = self.phase == Phase::Ready;
        self.queues.keys().copied().filter(move |q| ready && *q != Qid::ADMIN && !self.leaving.contains_key(q))
    }

    /// The TCP connection asked for by [`Event::Open`] is there.
    pub fn handle_opened(&mut self, qid: Qid, now: Instant) {
        if !matches!(self.phase, Phase::Rising | Phase::Ready) || self.queues.contains_key(&qid) {
            // Too late: nobody wants it any more.
            self.events.push_back(Event::Close { qid, reset: false });
            return;
        }
        let (entries, room) =
            if qid == Qid::ADMIN { (self.settings.admin_entries, 0) } else { (self.facts.io_entries, self.in_capsule()) };
        let tcp = self.settings.tcp.clone();
        let connection = HostConnection::new(tcp, qid, entries, self.max_transfer(), room, now);
        self.queues.insert(qid, Connection::Tcp(Box::new(connection)));
    }

    /// The TCP connection asked for by [`Event::Open`] could not be opened.
    pub fn handle_open_failed(&mut self, qid: Qid, why: String, now: Instant) {
        self.fail(HostError::Open { qid, why });
        self.pump(now);
    }

    /// Bytes came from the controller.
    pub fn handle_bytes(&mut self, qid: Qid, bytes: &[u8], now: Instant) {
        if let Some(q) = self.queues.get_mut(&qid).and_then(Connection::tcp) {
            q.handle_bytes(bytes, now);
            self.pump(now);
        }
    }

    /// The controller closed the TCP connection of a queue.
    pub fn handle_closed(&mut self, qid: Qid, reset: bool, now: Instant) {
        let Some(q) = self.queues.get(&qid) else { return };
        if !q.is_doomed() && !self.may_go(qid) {
            // The end of any connection ends the association, since single queues are not deleted. [FAB-DISC-20]
            let during = self.doing();
            self.fail(HostError::Lost { qid, reset, during });
        }
        if let Some(q) = self.queues.get_mut(&qid).and_then(Connection::tcp) {
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
            match step {
                Step::Connect(qid) => self.events.push_back(Event::Open(qid)),
                _ => self.begin(step, now),
            }
        }
        self.keep_alive_due(now);
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
        let queues = self.queues.values().filter_map(Connection::poll_timeout);
        queues.chain(self.again.map(|(at, _)| at)).chain(self.keep_alive.due()).chain(draining).min()
    }

    /// The next PDU and the queue on whose connection it goes. The queues take turns.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(Qid, Transmit)> {
        let behind = (Bound::Excluded(self.last_sent), Bound::Unbounded);
        let next = |(qid, q): (&Qid, &mut Connection)| q.tcp()?.poll_transmit(now).map(|t| (*qid, t));
        let found = self.queues.range_mut(behind).find_map(next);
        let found = found.or_else(|| self.queues.iter_mut().find_map(next));
        if let Some((qid, _)) = &found {
            self.last_sent = *qid;
        }
        found
    }

    /// What happened, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// True where the controller is a discovery controller, as far as is known.
    pub(super) fn is_discovery(&self) -> bool {
        let says = |i: &IdentifyController| i.cntrltype() == ControllerType::DISCOVERY;
        self.settings.is_discovery() || self.facts.identify.as_deref().is_some_and(says)
    }

    /// Most data of one command: what the settings and MDTS allow. [FAB-IDENT-11, NVM-RW-07]
    pub(super) fn max_transfer(&self) -> u32 {
        let mdts = self.facts.mdts_bytes().unwrap_or(u64::MAX);
        self.settings.max_transfer.min(u32::try_from(mdts).unwrap_or(u32::MAX))
    }

    /// Bytes of data that fit into an I/O command capsule, where its descriptor may name an offset. [TCP-CAPSULE-06]
    fn in_capsule(&self) -> u32 {
        let identify = self.facts.identify.as_ref().filter(|i| i.sgls_offset());
        u32::try_from(identify.map_or(0, |i| i.in_capsule_bytes())).unwrap_or(u32::MAX)
    }

    /// True where the controller may close this queue's connection without ending the association.
    pub(super) fn may_go(&self, qid: Qid) -> bool {
        qid != Qid::ADMIN
            && match self.phase {
                Phase::Resetting => true,
                Phase::Ready => self.facts.deletes_queues(&self.settings),
                _ => false,
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
        self.disconnect_idle(now);
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
            HostEvent::Ready(agreed) => self.agreed(qid, agreed, now),
            HostEvent::Completed(completion) => match self.own.remove(&(qid, completion.cid)) {
                None => self.events.push_back(Event::Completed(qid, completion)),
                Some(_) if self.phase == Phase::Over => {}
                Some(Own::Step(step)) => self.done(step, &completion, now),
                // A reset or the end of a connection took it.
                Some(Own::KeepAlive | Own::AsyncEvent) if completion.local.is_some() => {}
                Some(Own::KeepAlive) if completion.status().is_success() => {}
                Some(Own::KeepAlive) => self.events.push_back(Event::KeepAliveFailed(completion.status())),
                Some(Own::AsyncEvent) if completion.status().is_success() => {
                    self.event_came(AsyncEventResponse::from_bytes(*completion.cqe.as_bytes()));
                }
                // Refused (too many) or aborted: asking again would only repeat it.
                Some(Own::AsyncEvent) => {}
                Some(Own::Disconnect) => self.disconnected(qid, completion.status()),
            },
            HostEvent::Violation(violation) => {
                self.events.push_back(Event::Violation(qid, violation.clone()));
                if matches!(violation.answer, Answer::TermReq { .. } | Answer::Close) {
                    let during = self.doing();
                    self.fail(HostError::Violation { qid, violation, during });
                }
            }
            HostEvent::TermReq { fes, fei } => self.fail(HostError::TermReq { qid, fes, fei }),
            HostEvent::Refused(why) => self.fail(HostError::Open { qid, why }),
            HostEvent::Broken(_) if self.may_go(qid) => {}
            HostEvent::Broken(why) => {
                let during = self.doing();
                self.fail(HostError::Broken { qid, why, during });
            }
            // What was under way there ends with the reset.
            HostEvent::TimedOut(_) if qid != Qid::ADMIN && self.phase == Phase::Resetting => {}
            HostEvent::TimedOut(waiting) => {
                let during = self.doing();
                self.late(HostError::TimedOut { qid, waiting, during }, now);
            }
            HostEvent::Close { reset } => {
                self.touched += self.queues.remove(&qid).map_or(0, |q| q.touched());
                self.events.push_back(Event::Close { qid, reset });
                self.gone(qid);
            }
        }
    }

    fn agreed(&mut self, qid: Qid, agreed: Agreed, now: Instant) {
        self.facts.negotiated.insert(qid, agreed);
        self.events.push_back(Event::Negotiated(qid, agreed));
        let asked = self.settings.tcp.digests;
        let short = |d: Digests| asked.header && !d.header || asked.data && !d.data;
        match agreed.tcp() {
            Some(n) if self.settings.insist_on_digests && short(n.digests) => self.fail(HostError::DigestsRefused(n)),
            _ => self.begin(Step::Connect(qid), now),
        }
    }

    /// A time is over. Where commands flow it may be the controller that is broken: CSTS.CFS tells. [FAB-INIT-26]
    fn late(&mut self, why: HostError, now: Instant) {
        let command = matches!(why, HostError::TimedOut { waiting: Waiting::Command(_), .. });
        let served = matches!(self.phase, Phase::Ready | Phase::Draining { .. });
        let room = self.queues.get(&Qid::ADMIN).is_some_and(|q| q.room() > 0);
        match self.suspect.take() {
            // The look at it has no answer either.
            Some(first) => self.fail(first),
            None if command && served && room => {
                self.suspect = Some(why);
                self.begin(Step::Suspect, now);
            }
            None => self.fail(why),
        }
    }

    /// A queue's connection is gone while the association goes on.
    fn gone(&mut self, qid: Qid) {
        let asked = self.leaving.remove(&qid);
        self.facts.negotiated.remove(&qid);
        self.facts.flow_control_off.retain(|q| *q != qid);
        if self.phase == Phase::Ready {
            self.events.push_back(Event::QueueDeleted(qid, asked.map(|_| Status::SUCCESS)));
        }
    }

    /// What the association is about, for errors.
    pub(super) fn doing(&self) -> &'static str {
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
        // A command without an answer: nothing on that connection can be trusted any more.
        let late = match &why {
            HostError::TimedOut { qid, waiting: Waiting::Command(_), .. } => Some(*qid),
            _ => None,
        };
        self.events.push_back(Event::Failed(why));
        for (qid, q) in self.queues.iter_mut().filter(|(_, q)| !q.is_terminated()) {
            q.close(late == Some(*qid));
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
            while let Some(event) = self.queues.get_mut(&qid).and_then(Connection::poll_event) {
                self.take(qid, event, now);
            }
        }
        self.events.push_back(Event::Ended);
    }

    fn over(&mut self) {
        self.phase = Phase::Over;
        self.again = None;
        self.keep_alive = KeepAlive::default();
        self.suspect = None;
    }
}
