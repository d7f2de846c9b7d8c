//! Asynchronous events: what is raised, masked and reported. [Base 2.0, 5.2]

use std::collections::VecDeque;

use bytes::Bytes;
use nvmf_wire::admin::LogPage;
use nvmf_wire::{Cid, Status};

use super::Reply;
use super::state::{Controller, Kind};
use crate::message::{ConnectionId, ToConnection};
use crate::settings::ControllerSettings;

/// The events that our controllers report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Notice {
    /// SMART / Health Status (type 1), temperature threshold.
    Temperature,
    /// Notice (type 2): Namespace Attribute Changed.
    Namespaces,
    /// Notice (type 2): Asymmetric Namespace Access Change.
    Ana,
    /// Notice (type 2): Discovery Log Page Change.
    Discovery,
}

impl Notice {
    /// DW0: type in bits 2:0, information in 15:8, log page in 23:16. [AER-01, ADM-AER-04, ADM-AER-05, DISC-CTRL-16]
    fn dw0(self) -> u32 {
        match self {
            Self::Temperature => 0x0002_0101,
            Self::Namespaces => 0x0004_0002,
            Self::Ana => 0x000c_0302,
            Self::Discovery => 0x0070_f002,
        }
    }

    /// The bit of Asynchronous Event Configuration that enables it. [ADM-AER-08, ADM-AER-09, DISC-CTRL-19]
    fn enable(self) -> u32 {
        match self {
            // The bits of Critical Warning, at the same places. [Base 2.0, 5.27.1.8, Figure 326]
            Self::Temperature => 1 << 1,
            Self::Namespaces => 1 << 8,
            Self::Ana => 1 << 11,
            Self::Discovery => 1 << 31,
        }
    }

    /// The event that reading a log page clears.
    pub fn of(page: LogPage) -> Option<Self> {
        match page {
            LogPage::SMART => Some(Self::Temperature),
            LogPage::CHANGED_NAMESPACES => Some(Self::Namespaces),
            LogPage::ANA => Some(Self::Ana),
            LogPage::DISCOVERY => Some(Self::Discovery),
            _ => None,
        }
    }
}

impl Controller {
    /// Something happened. Reported at once, or kept for the next request. [AER-02, AER-04, ADM-AER-11, ADM-AER-13]
    pub fn raise(&mut self, notice: Notice, out: &mut VecDeque<(ConnectionId, ToConnection)>) {
        if self.features.aec & notice.enable() != 0 && self.serving() {
            self.raised.insert(notice);
            self.report(out);
        }
    }

    /// Reports what can be reported.
    pub fn report(&mut self, out: &mut VecDeque<(ConnectionId, ToConnection)>) {
        while let Some(notice) = self.raised.iter().find(|n| !self.masked.contains(n)).copied() {
            let Some(cid) = self.requests.pop_front() else { return };
            self.raised.remove(&notice);
            // Events of that kind wait until the host clears this one. [ADM-AER-06]
            self.masked.insert(notice);
            let done = ToConnection::Complete { cid, status: Status::SUCCESS, result: u64::from(notice.dw0()), data: Bytes::new() };
            out.push_back((self.admin, done));
        }
    }

    /// An Asynchronous Event Request. [AER-03, ADM-AER-01, ADM-AER-02]
    pub fn request_event(
        &mut self,
        settings: &ControllerSettings,
        cid: Cid,
        out: &mut VecDeque<(ConnectionId, ToConnection)>,
    ) -> Option<Reply> {
        if self.requests.len() >= usize::from(settings.async_events.max(4)) {
            return Some(Status::ASYNCHRONOUS_EVENT_REQUEST_LIMIT_EXCEEDED.into());
        }
        self.requests.push_back(cid);
        self.report(out);
        None
    }

    /// The host read a page with RAE 0: its event is cleared, also one that was not reported yet.
    /// [ADM-LOG-10, ADM-AER-07, ADM-AER-12]
    pub fn clear_event(&mut self, page: LogPage) {
        if let Some(notice) = Notice::of(page) {
            self.masked.remove(&notice);
            self.raised.remove(&notice);
        }
    }

    /// The host enabled or disabled events; a condition that holds already is reported. [ADM-AER-10]
    pub fn configure_events(&mut self, value: u32, out: &mut VecDeque<(ConnectionId, ToConnection)>) {
        self.features.aec = value;
        self.raised.retain(|n| value & n.enable() != 0);
        let holds = [(Notice::Temperature, self.hot), (Notice::Namespaces, !self.changed.is_empty())];
        for (notice, holds) in holds {
            if holds && !self.masked.contains(&notice) {
                self.raise(notice, out);
            }
        }
    }

    /// The temperature, in kelvins, or a threshold may have changed. The event tells of a threshold that was reached, not of one that is
    /// exceeded still. [Base 2.0, 5.2, Figure 145]
    pub fn feel(&mut self, temperature: u16, out: &mut VecDeque<(ConnectionId, ToConnection)>) {
        let hot = self.kind == Kind::Io && self.features.beyond(temperature);
        if hot && !self.hot {
            self.raise(Notice::Temperature, out);
        }
        self.hot = hot;
    }
}
