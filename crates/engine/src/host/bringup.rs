//! The way up and the way down: which command follows which. [Base 2.0, 3.5.2 and 3.6.2; FAB-INIT-01 to FAB-INIT-09]
//!
//! | step | command | then |
//! |---|---|---|
//! | Connect(0) | Connect, Admin Queue | Cap |
//! | Cap, Vs, Crto | Property Get | Csts |
//! | Csts | Property Get | Enable, or Disable where RDY is 1 already |
//! | Disable, Disabled | Property Set CC.EN 0, then Property Get CSTS until RDY is 0 | Enable |
//! | Enable, Enabled | Property Set CC.EN 1, then Property Get CSTS until RDY is 1 | Identify |
//! | Identify | Identify Controller | Queues; Events for a discovery controller |
//! | Queues | Set Features, Number of Queues | Events |
//! | Events | Set Features, Asynchronous Event Configuration | Connect(1), or ready |
//! | Connect(n) | Connect, I/O queue | Connect(n + 1), or ready |
//! | Notify, Shutdown | Property Set CC.SHN, then Property Get CSTS until SHST is 2 | the end |

use core::time::Duration;

use nvmf_seam::Instant;
use nvmf_wire::admin::{Cns, Feature};
use nvmf_wire::cqe::{ConnectResponse, PropertyGetResponse, QueuesGranted};
use nvmf_wire::identify::IdentifyController;
use nvmf_wire::property::{Cap, Cc, Crto, Csts, Property, Vs};
use nvmf_wire::{Nsid, Qid, Sqe};

use super::association::{Association, Event, Own, Phase};
use super::command::{connect, connect_data, identify, property_get, property_set, set_features};
use super::error::HostError;
use crate::tcp::host::{Completion, Payload};

/// A command of bring-up or shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Connect(Qid),
    Cap,
    Vs,
    Crto,
    Csts,
    Disable,
    Disabled,
    Enable,
    Enabled,
    Identify,
    Queues,
    Events,
    Notify,
    Shutdown,
}

impl Step {
    /// For errors.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Connect(Qid::ADMIN) => "Connect of the Admin Queue",
            Self::Connect(_) => "Connect of an I/O queue",
            Self::Cap => "Property Get of CAP",
            Self::Vs => "Property Get of VS",
            Self::Crto => "Property Get of CRTO",
            Self::Csts | Self::Disabled | Self::Enabled | Self::Shutdown => "Property Get of CSTS",
            Self::Disable | Self::Enable => "Property Set of CC.EN",
            Self::Identify => "Identify Controller",
            Self::Queues => "Set Features, Number of Queues",
            Self::Events => "Set Features, Asynchronous Event Configuration",
            Self::Notify => "Property Set of CC.SHN",
        }
    }
}

impl Association {
    /// Sends the step's command.
    pub(super) fn begin(&mut self, step: Step, now: Instant) {
        if self.phase == Phase::Over {
            return;
        }
        if step == Step::Notify {
            self.phase = Phase::Falling;
        }
        let (qid, sqe, payload) = self.command_of(step);
        let until = now + self.settings.command_patience;
        let sent = self.queues.get_mut(&qid).map(|q| q.submit(sqe, payload, Some(until)));
        match sent {
            Some(Ok(cid)) => {
                self.own.insert((qid, cid), Own::Step(step));
            }
            // The Admin Queue is full of the user's commands that never ended.
            _ if step == Step::Notify => self.end(now),
            _ => self.fail(HostError::Unusable("no place for a command of bring-up")),
        }
    }

    fn command_of(&self, step: Step) -> (Qid, Sqe, Payload) {
        let admin = |sqe| (Qid::ADMIN, sqe, Payload::None);
        match step {
            Step::Connect(qid) => {
                let (entries, cntlid) = match qid {
                    Qid::ADMIN => (self.settings.admin_entries, self.settings.cntlid),
                    _ => (self.facts.io_entries, self.facts.cntlid),
                };
                // In the capsule: there is room for 8192 bytes, and no R2T is needed before the queue exists. [TCP-CAPSULE-11]
                let data = connect_data(&self.settings, cntlid).as_bytes().to_vec();
                (qid, connect(&self.settings, qid, entries), Payload::Out(data.into()))
            }
            Step::Cap => admin(property_get(Property::CAP)),
            Step::Vs => admin(property_get(Property::VS)),
            Step::Crto => admin(property_get(Property::CRTO)),
            Step::Csts | Step::Disabled | Step::Enabled | Step::Shutdown => admin(property_get(Property::CSTS)),
            Step::Disable => admin(property_set(Property::CC, 0)),
            Step::Enable => admin(property_set(Property::CC, self.cc(0))),
            Step::Notify => admin(property_set(Property::CC, self.cc(1))),
            Step::Identify => (Qid::ADMIN, identify(Cns::CONTROLLER, Nsid::NONE), Payload::In(IdentifyController::LEN as u32)),
            Step::Queues => {
                let n = u32::from(self.settings.io_queues - 1);
                admin(set_features(Feature::NUMBER_OF_QUEUES, n << 16 | n))
            }
            Step::Events => admin(set_features(Feature::ASYNC_EVENT_CONFIG, self.event_mask())),
        }
    }

    /// CC with EN 1. For a discovery controller CSS, AMS and MPS are 0 and the entry sizes reserved. [FAB-INIT-02, FAB-PROP-30]
    fn cc(&self, shn: u8) -> u64 {
        let cap = self.facts.cap;
        let cc = Cc::new().with(|s| s.en(true).shn(shn));
        let cc = if self.settings.is_discovery() {
            cc
        } else {
            let css = if cap.css_none() { 7 } else { if cap.css_sets() { 6 } else { 0 } };
            // RESET-13, RESET-15
            cc.with(|s| s.css(css).mps(cap.mpsmin()).iosqes(6).iocqes(4))
        };
        u64::from(u32::from_le_bytes(*cc.as_bytes()))
    }

    /// Events that this host has a use for and the controller knows: namespace attributes, firmware, ANA, discovery log.
    fn event_mask(&self) -> u32 {
        let Some(i) = &self.facts.identify else { return 0 };
        let bit = |yes: bool, n: u32| u32::from(yes) << n;
        bit(i.oaes_nan(), 8) | bit(i.oaes_fan(), 9) | bit(i.oaes_ana(), 11) | bit(i.oaes_dlpc(), 31)
    }

    /// Takes the answer to a step's command and goes on.
    pub(super) fn done(&mut self, step: Step, answer: &Completion, now: Instant) {
        let status = answer.status();
        if !status.is_success() {
            match step {
                Step::Connect(qid) => self.fail(HostError::Refused { qid, cqe: answer.cqe }),
                // Neither is needed to work with the controller.
                Step::Crto => self.begin(Step::Csts, now),
                Step::Events => self.next_queue(now),
                // There is no more orderly way to end it.
                Step::Notify | Step::Shutdown => self.end(now),
                _ => self.fail(HostError::Command { what: step.name(), status }),
            }
            return;
        }
        let value = PropertyGetResponse::from_bytes(*answer.cqe.as_bytes()).value();
        let low = (value as u32).to_le_bytes();
        match step {
            Step::Connect(qid) => self.connected(qid, ConnectResponse::from_bytes(*answer.cqe.as_bytes()), now),
            Step::Cap => {
                self.facts.cap = Cap::from_bytes(value.to_le_bytes());
                self.begin(Step::Vs, now);
            }
            Step::Vs => {
                self.facts.vs = Vs::from_bytes(low);
                let has_crto = self.facts.cap.crwms() && !self.settings.is_discovery();
                self.begin(if has_crto { Step::Crto } else { Step::Csts }, now);
            }
            Step::Crto => {
                self.facts.crto = Some(Crto::from_bytes(low));
                self.begin(Step::Csts, now);
            }
            Step::Disable => self.wait_for(Step::Disabled, now),
            Step::Enable => self.wait_for(Step::Enabled, now),
            Step::Notify => {
                let rtd3e = self.facts.identify.as_ref().map_or(0, |i| i.rtd3e());
                self.give_up = now + self.settings.shutdown_patience.max(Duration::from_micros(rtd3e.into()));
                self.begin(Step::Shutdown, now);
            }
            Step::Csts | Step::Disabled | Step::Enabled | Step::Shutdown => self.look(step, Csts::from_bytes(low), now),
            Step::Identify => self.identified(answer, now),
            Step::Queues => {
                let granted = QueuesGranted::from_bytes(*answer.cqe.as_bytes());
                let most = granted.nsqa().min(granted.ncqa()).saturating_add(1);
                self.facts.io_queues = self.settings.io_queues.min(most);
                self.begin_events(now);
            }
            Step::Events => self.next_queue(now),
        }
    }

    fn connected(&mut self, qid: Qid, response: ConnectResponse, now: Instant) {
        if self.queues.get(&qid).is_some_and(|q| !q.has_flow_control()) {
            self.facts.flow_control_off.push(qid);
        }
        if response.atr() || response.ascr() {
            self.fail(HostError::AuthenticationRequired);
        } else if qid == Qid::ADMIN {
            self.facts.cntlid = response.cntlid();
            self.begin(Step::Cap, now);
        } else {
            self.next_queue(now);
        }
    }

    /// Starts to look at CSTS for at most CAP.TO or CRTO. [FAB-INIT-07]
    fn wait_for(&mut self, step: Step, now: Instant) {
        let crto = self.facts.crto.map_or(0, |c| c.crwmt());
        let units = u32::from(self.facts.cap.to()).max(crto.into()).max(1);
        self.give_up = now + Duration::from_millis(500) * units;
        self.begin(step, now);
    }

    fn look(&mut self, step: Step, csts: Csts, now: Instant) {
        let reached = match step {
            Step::Csts => true,
            Step::Disabled => !csts.rdy(),
            Step::Enabled => csts.rdy(),
            _ => csts.shst() == 2,
        };
        match step {
            Step::Enabled | Step::Csts if csts.cfs() => self.fail(HostError::Fatal),
            // EN goes from 0 to 1 only while RDY is 0. [FAB-INIT-09]
            Step::Csts if csts.rdy() => self.begin(Step::Disable, now),
            Step::Csts | Step::Disabled if reached => self.begin(Step::Enable, now),
            Step::Enabled if reached => self.begin(Step::Identify, now),
            _ if reached => self.end(now),
            Step::Shutdown if self.give_up <= now => self.fail(HostError::NoShutdown),
            _ if self.give_up <= now => self.fail(HostError::NotReady),
            _ => self.again = Some((now + self.settings.poll_interval, step)),
        }
    }

    fn identified(&mut self, answer: &Completion, now: Instant) {
        let Ok(identify) = IdentifyController::read(&answer.data.to_bytes()) else {
            self.fail(HostError::Unusable("Identify Controller gave no data"));
            return;
        };
        if identify.icdoff() != 0 {
            // TCP-CAPSULE-09: in-capsule data could not be placed.
            self.fail(HostError::Unusable("ICDOFF of Identify Controller is not zero"));
            return;
        }
        self.facts.identify = Some(Box::new(identify));
        self.start_service(now);
        if self.settings.is_discovery() || self.settings.io_queues == 0 {
            self.begin_events(now);
        } else {
            // MQES is 0's based, so the product does not exceed 65536. [FAB-QUEUE-18]
            let most = self.facts.cap.mqes().count();
            self.facts.io_entries = u16::try_from(most.min(self.settings.io_entries.into())).unwrap_or(u16::MAX).max(2);
            self.begin(Step::Queues, now);
        }
    }

    fn begin_events(&mut self, now: Instant) {
        let persistent = !self.settings.is_discovery() || self.settings.kato_ms > 0;
        if persistent && self.settings.async_events > 0 && self.event_mask() != 0 {
            self.begin(Step::Events, now);
        } else {
            self.next_queue(now);
        }
    }

    fn next_queue(&mut self, _now: Instant) {
        let next = self.queues.keys().next_back().map_or(0, |q| q.0) + 1;
        if next <= self.facts.io_queues {
            self.events.push_back(Event::Open(Qid(next)));
        } else {
            self.phase = Phase::Ready;
            self.events.push_back(Event::Ready);
        }
    }
}
