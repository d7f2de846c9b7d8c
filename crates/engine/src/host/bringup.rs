//! The way up and the way down: which command follows which. [Base 2.0, 3.5.2 and 3.6.2; FAB-INIT-01 to FAB-INIT-09]
//!
//! | step | command | then |
//! |---|---|---|
//! | Connect(0) | Connect, Admin Queue | Cap |
//! | Cap, Vs, Crto | Property Get | Csts |
//! | Csts | Property Get | Enable, or Disable where RDY or CFS is 1 already |
//! | Disable, Disabled | Property Set CC.EN 0, then Property Get CSTS until RDY is 0 | Enable; a reset begins here |
//! | Enable, Enabled | Property Set CC.EN 1, then Property Get CSTS until RDY is 1 | Identify |
//! | Identify | Identify Controller | Behavior; Events for a discovery controller |
//! | Behavior | Set Features, Host Behavior Support, where there are retry delays | Queues |
//! | Queues | Set Features, Number of Queues | Events |
//! | Events | Set Features, Asynchronous Event Configuration | Connect(1), or ready |
//! | Connect(n) | Connect, I/O queue | Connect(n + 1), or ready |
//! | Suspect | Property Get CSTS, after a command had no answer | the end; a reset where CFS is 1 |
//! | Notify, Shutdown | Property Set CC.SHN, then Property Get CSTS until SHST is 2 | the end |

use core::time::Duration;

use nvmf_seam::Instant;
use nvmf_wire::admin::{Cns, Feature};
use nvmf_wire::cqe::{ConnectResponse, PropertyGetResponse, QueuesGranted};
use nvmf_wire::identify::{ControllerType, IdentifyController};
use nvmf_wire::property::{Cap, Cc, Crto, Csts, Property, Vs};
use nvmf_wire::{Cntlid, Nsid, Qid, Sqe, Status};

use super::association::{Association, Event, Own, Phase};
use super::command::{connect, connect_data, identify, property_get, property_set, set_features};
use super::connection::{Completion, Payload};
use super::error::HostError;
use super::service::KeepAlive;

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
    Behavior,
    Queues,
    Events,
    Suspect,
    Notify,
    NotifyAbrupt,
    Shutdown,
}

/// Bytes of the Host Behavior Support feature. [Base 2.0, 5.27.1.18]
const BEHAVIOR: usize = 512;
/// The lowest CNTLID that no controller has. [FAB-CNTLID-01]
const RESERVED_CNTLIDS: Cntlid = Cntlid(0xfff0);
/// How long after a controller reset an I/O queue is asked for anew where the controller says that it stands. A reset ends it
/// [FAB-INIT-11], but the end of its connection may be noticed later: Linux then refuses Connect, with DNR, and closes.
pub(super) const LINGER: Duration = Duration::from_secs(2);

impl Step {
    /// For errors.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Connect(Qid::ADMIN) => "Connect of the Admin Queue",
            Self::Connect(_) => "Connect of an I/O queue",
            Self::Cap => "Property Get of CAP",
            Self::Vs => "Property Get of VS",
            Self::Crto => "Property Get of CRTO",
            Self::Csts | Self::Disabled | Self::Enabled | Self::Suspect | Self::Shutdown => "Property Get of CSTS",
            Self::Disable | Self::Enable => "Property Set of CC.EN",
            Self::Identify => "Identify Controller",
            Self::Behavior => "Set Features, Host Behavior Support",
            Self::Queues => "Set Features, Number of Queues",
            Self::Events => "Set Features, Asynchronous Event Configuration",
            Self::Notify | Self::NotifyAbrupt => "Property Set of CC.SHN",
        }
    }
}

impl Association {
    /// Sends the step's command.
    pub(super) fn begin(&mut self, step: Step, now: Instant) {
        if self.phase == Phase::Over {
            return;
        }
        let last = matches!(step, Step::Notify | Step::NotifyAbrupt);
        if last {
            // The controller's timer is off from here on. [KA-01]
            self.keep_alive = KeepAlive::default();
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
            _ if last => self.end(now),
            _ => self.fail(HostError::Unusable("no place for a command of the host's own")),
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
                // Over TCP in the capsule: there is room for 8192 bytes, and no R2T is needed before the queue exists.
                // [TCP-CAPSULE-11]
                let data = connect_data(&self.settings, cntlid).as_bytes().to_vec();
                (qid, connect(&self.settings, qid, entries), Payload::Out(data.into()))
            }
            Step::Cap => admin(property_get(Property::CAP)),
            Step::Vs => admin(property_get(Property::VS)),
            Step::Crto => admin(property_get(Property::CRTO)),
            Step::Csts | Step::Disabled | Step::Enabled | Step::Suspect | Step::Shutdown => admin(property_get(Property::CSTS)),
            Step::Disable => admin(property_set(Property::CC, 0)),
            Step::Enable => admin(property_set(Property::CC, self.cc(0))),
            Step::Notify => admin(property_set(Property::CC, self.cc(1))),
            Step::NotifyAbrupt => admin(property_set(Property::CC, self.cc(2))),
            Step::Identify => (Qid::ADMIN, identify(Cns::CONTROLLER, Nsid::NONE), Payload::In(IdentifyController::LEN as u32)),
            Step::Behavior => {
                // Advanced Command Retry Enable: without it CRD means nothing. [FAB-STATUS-04]
                let mut data = vec![0; BEHAVIOR];
                data[..1].fill(1);
                (Qid::ADMIN, set_features(Feature::HOST_BEHAVIOR, 0), Payload::Out(data.into()))
            }
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
        let cc = if self.is_discovery() {
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
            let stands = status.code() == Status::COMMAND_SEQUENCE_ERROR && self.lingers.is_some_and(|until| now < until);
            match step {
                Step::Connect(qid) if stands && qid != Qid::ADMIN => {
                    self.queues.get_mut(&qid).into_iter().for_each(|q| q.close(false));
                    self.again = Some((now + self.settings.poll_interval, step));
                }
                Step::Connect(qid) => self.fail(HostError::Refused { qid, cqe: answer.cqe }),
                // Neither is needed to work with the controller.
                Step::Crto => self.begin(Step::Csts, now),
                Step::Behavior => self.begin(Step::Queues, now),
                Step::Events => self.next_queue(now),
                Step::Suspect => self.condemn(),
                // There is no more orderly way to end it.
                Step::Notify | Step::NotifyAbrupt | Step::Shutdown => self.end(now),
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
            Step::Notify | Step::NotifyAbrupt => {
                let rtd3e = self.facts.identify.as_ref().map_or(0, |i| i.rtd3e());
                self.give_up = now + self.settings.shutdown_patience.max(Duration::from_micros(rtd3e.into()));
                self.begin(Step::Shutdown, now);
            }
            Step::Csts | Step::Disabled | Step::Enabled | Step::Shutdown => self.look(step, Csts::from_bytes(low), now),
            Step::Suspect if Csts::from_bytes(low).cfs() => self.cure(now),
            Step::Suspect => self.condemn(),
            Step::Identify => self.identified(answer, now),
            Step::Behavior => {
                self.facts.retry_delays = true;
                self.begin(Step::Queues, now);
            }
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
        let cntlid = response.cntlid();
        if response.atr() || response.ascr() {
            self.fail(HostError::AuthenticationRequired);
        } else if cntlid >= RESERVED_CNTLIDS || qid != Qid::ADMIN && cntlid != self.facts.cntlid {
            // FAB-CNTLID-01: an I/O queue could not be connected to such a one, or went to another.
            self.fail(HostError::Unusable("the CNTLID of a Connect response is none of a controller, or another one's"));
        } else if qid == Qid::ADMIN {
            self.facts.cntlid = cntlid;
            self.begin(Step::Cap, now);
        } else if self.phase == Phase::Ready {
            self.events.push_back(Event::QueueCreated(qid));
        } else {
            self.next_queue(now);
        }
    }

    /// The command without an answer ends the association after all.
    fn condemn(&mut self) {
        let why = self.suspect.take().unwrap_or(HostError::Unusable("a command has no answer"));
        self.fail(why);
    }

    /// CSTS.CFS: a controller reset is the remedy, tried once. [FAB-INIT-25, RESET-33]
    fn cure(&mut self, now: Instant) {
        self.suspect = None;
        if std::mem::replace(&mut self.cured, true) || matches!(self.phase, Phase::Draining { .. }) {
            self.fail(HostError::Fatal);
            return;
        }
        self.events.push_back(Event::Fatal);
        if self.phase == Phase::Rising {
            self.begin(Step::Disable, now);
        } else {
            self.start_reset(now);
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
            Step::Enabled | Step::Csts if csts.cfs() => self.cure(now),
            // EN goes from 0 to 1 only while RDY is 0. [FAB-INIT-09]
            Step::Csts if csts.rdy() => self.begin(Step::Disable, now),
            Step::Disabled if reached && self.phase == Phase::Resetting => self.was_reset(now),
            // A shutdown that was complete is over with EN 1 and SHN 00b in one write. [FAB-INIT-22]
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
        let io = self.settings.io_queues > 0 && identify.cntrltype() != ControllerType::DISCOVERY;
        if io && identify.sgls_support() == 0 {
            // ADM-IDENTIFY-52, FAB-IDENT-05: every command with data needs an SGL.
            self.fail(HostError::Unusable("Identify Controller says that SGLs are not supported"));
            return;
        }
        let over_rdma = self.settings.rdma.is_some();
        if io && over_rdma && !identify.sgls_keyed() {
            // RDMA-SGL-08: data that does not fit into the capsule could not be named.
            self.fail(HostError::Unusable("Identify Controller says that keyed SGL descriptors are not supported"));
            return;
        }
        if !over_rdma && identify.icdoff() != 0 {
            // TCP-CAPSULE-09: in-capsule data could not be placed.
            self.fail(HostError::Unusable("ICDOFF of Identify Controller is not zero"));
            return;
        }
        self.facts.identify = Some(Box::new(identify));
        let most = self.max_transfer();
        self.queues.get_mut(&Qid::ADMIN).into_iter().for_each(|q| q.limit_transfer(most));
        self.start_service(now);
        let delays = identify.crdt1() | identify.crdt2() | identify.crdt3();
        if self.is_discovery() || self.settings.io_queues == 0 {
            self.begin_events(now);
        } else {
            // MQES is 0's based, so the product does not exceed 65536. [FAB-QUEUE-18]
            let most = self.facts.cap.mqes().count();
            self.facts.io_entries = u16::try_from(most.min(self.settings.io_entries.into())).unwrap_or(u16::MAX).max(2);
            self.begin(if delays == 0 { Step::Queues } else { Step::Behavior }, now);
        }
    }

    fn begin_events(&mut self, now: Instant) {
        let persistent = !self.is_discovery() || self.settings.kato_ms > 0;
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
            self.cured = false;
            self.events.push_back(Event::Ready);
        }
    }
}
