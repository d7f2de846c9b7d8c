//! What a host does by itself while it is connected: Keep Alive, and Asynchronous Event Requests. [Base 2.0, 3.9, 5.2, 5.18]

use core::time::Duration;

use nvmf_seam::Instant;
use nvmf_spec::{Side, Violation, req};
use nvmf_wire::Qid;
use nvmf_wire::admin::{GetLogPage, LogPage};
use nvmf_wire::cqe::{AsyncEventResponse, EventType};
use nvmf_wire::{Opcode, Sqe};

use super::association::{Association, Event, Own};
use super::command;
use super::connection::Payload;

/// When the next Keep Alive is due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeepAlive {
    due: Option<Instant>,
    every: Duration,
    /// Other commands keep the association alive as well. [KA-14]
    traffic: bool,
}

impl KeepAlive {
    /// Half of KATO; where KATO is below the controller's granularity, half of that, since it is raised to it. [KA-13, KA-17]
    fn new(kato_ms: u32, granularity_ms: u32, traffic: bool, now: Instant) -> Self {
        let every = Duration::from_millis(kato_ms.max(granularity_ms).into()) / 2;
        Self { due: (kato_ms > 0).then(|| now + every), every, traffic }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Another admin or I/O command was submitted. [KA-15, KA-16, ADM-KA-12]
    pub(super) fn other_command(&mut self, now: Instant) {
        if self.traffic {
            self.restart(now);
        }
    }

    fn restart(&mut self, now: Instant) {
        self.due = self.due.map(|_| now + self.every);
    }
}

impl Association {
    /// Starts keep alive and asynchronous events once the controller is ready.
    pub(super) fn start_service(&mut self, now: Instant) {
        let identify = self.facts.identify.as_deref().copied().unwrap_or_default();
        let granularity_ms = u32::from(identify.kas()) * 100;
        self.facts.kato_ms = self.settings.kato_ms.checked_next_multiple_of(granularity_ms.max(1)).unwrap_or(u32::MAX);
        self.keep_alive = KeepAlive::new(self.settings.kato_ms, granularity_ms, identify.ctratt_tbkas(), now);
        // A discovery controller takes the requests on persistent connections only. [DISC-CTRL-04]
        let wanted = if self.is_discovery() && self.settings.kato_ms == 0 { 0 } else { self.settings.async_events };
        // ADM-AER-03
        for _ in 0..u64::from(wanted).min(identify.aerl().count()) {
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

    /// An event was reported. The next request goes out at once, since events of other kinds may come; but one of a kind whose log page
    /// was not read yet is not answered with another request, or a controller that does not mask events would never be done.
    pub(super) fn event_came(&mut self, event: AsyncEventResponse) {
        let kind = (event.event_type(), event.event_info());
        // Immediate events and those without a page are not masked. [ADM-AER-06]
        let masked = event.event_type() != EventType::IMMEDIATE && event.log_page() != LogPage::SUPPORTED;
        let again = masked && self.unread.insert(kind, event.log_page()).is_some();
        self.events.push_back(Event::AsyncEvent(event));
        if again {
            let seen = format!("{event} again, though log page {:02X}h was not read", event.log_page().0);
            self.events.push_back(Event::Violation(Qid::ADMIN, Violation::new(req::ADM_AER_06, Side::Controller, seen)));
        } else {
            self.request_event();
        }
    }

    /// A command of the user's goes out: it may clear an event, and with it the reason not to ask for more. [ADM-LOG-10, AER-08]
    pub(super) fn look_at(&mut self, qid: Qid, sqe: &Sqe, now: Instant) {
        if sqe.fctype().is_none() {
            self.keep_alive.other_command(now);
        }
        if qid != Qid::ADMIN || sqe.opc() != Opcode::GET_LOG_PAGE {
            return;
        }
        let get = GetLogPage::from_bytes(*sqe.as_bytes());
        if !get.rae() && self.unread.values().any(|page| *page == get.lid()) {
            self.unread.retain(|_, page| *page != get.lid());
            let limit = self.facts.identify.as_ref().map_or(1, |i| i.aerl().count()).min(self.settings.async_events.into());
            while (self.event_requests() as u64) < limit && self.queues.get(&Qid::ADMIN).is_some_and(|q| q.room() > 2) {
                self.request_event();
            }
        }
    }

    /// Asynchronous Event Requests outstanding.
    pub fn event_requests(&self) -> usize {
        self.own.values().filter(|o| **o == Own::AsyncEvent).count()
    }

    /// Sends Keep Alive where it is due; one at a time.
    pub(super) fn keep_alive_due(&mut self, now: Instant) {
        if self.keep_alive.due.is_none_or(|at| at > now) {
            return;
        }
        self.keep_alive.restart(now);
        if self.own.values().any(|o| *o == Own::KeepAlive) {
            return;
        }
        let kato = Duration::from_millis(self.facts.kato_ms.into());
        let until = now + self.settings.command_patience.min(kato);
        let sent = self.queues.get_mut(&Qid::ADMIN).map(|q| q.submit(command::keep_alive(), Payload::None, Some(until)));
        if let Some(Ok(cid)) = sent {
            self.own.insert((Qid::ADMIN, cid), Own::KeepAlive);
        }
    }
}
