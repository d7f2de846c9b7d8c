//! What happens to an association on a long day: events, aborts, queues that go and come, a controller reset, and hours without work.

use std::fmt::Write as _;
use std::time::Duration;

use nvmf_engine::host::{HostSettings, Payload, SubmitError, command};
use nvmf_net::{ClientError, Notice};
use nvmf_seam::Network;
use nvmf_wire::admin::{Feature, LogPage};
use nvmf_wire::cqe::AsyncEventResponse;
use nvmf_wire::cqe::EventType;
use nvmf_wire::log::health::Smart;
use nvmf_wire::{Nsid, Qid, Status};

use super::super::{Client, show};
use super::admin::{ask, is_refusal};
use super::data::{Ground, Named};
use super::{Step, Wrong, done, left};

pub(super) const STEPS: &[Named] =
    &[("event", event), ("abort", abort), ("queue deletion", Ground::queue_deletion), ("controller reset", Ground::reset)];

/// How long an event may take that is due at once.
const EVENT: Duration = Duration::from_secs(2);
/// The bit of Asynchronous Event Configuration for the temperature, and that of the SMART critical warnings. [Base 2.0, 5.27.1.8]
const TEMPERATURE: u32 = 1 << 1;
/// Commands in flight when the controller is reset.
const FLYING: u64 = 8;

/// A temperature threshold under the temperature makes the controller report it. [AER-02, ADM-AER-04]
fn event(_: &Ground, client: &mut Client) -> Step {
    if client.association().event_requests() == 0 {
        return left("the controller takes no Asynchronous Event Request");
    }
    let smart = command::get_log_page(LogPage::SMART, 0, 512, true).with(|s| s.nsid(Nsid::BROADCAST));
    let health = ask(client, smart, 512)?;
    let kelvin = Smart::read(&health.data.to_bytes()).map_or(0, |h| h.temperature());
    if !health.status().is_success() || kelvin < 2 {
        return left("the controller reports no temperature, and no other event can be provoked from here");
    }
    let mask = ask(client, command::get_features(Feature::ASYNC_EVENT_CONFIG, 0), 0)?;
    let threshold = ask(client, command::get_features(Feature::TEMPERATURE_THRESHOLD, 0), 0)?;
    if !mask.status().is_success() || !threshold.status().is_success() {
        return left("the controller has no temperature threshold, and no other event can be provoked from here");
    }
    let set = |client: &mut Client, fid, value| ask(client, command::set_features(fid, value), 0).map(|a| a.status());
    // What was told before is not what is waited for.
    while client.notice().is_some() {}
    let enabled = set(client, Feature::ASYNC_EVENT_CONFIG, mask.cqe.dw0() | TEMPERATURE)?;
    let provoked = set(client, Feature::TEMPERATURE_THRESHOLD, u32::from(kelvin) - 1)?;
    let came = if enabled.is_success() && provoked.is_success() { wait_for_event(client)? } else { None };
    let back = set(client, Feature::TEMPERATURE_THRESHOLD, threshold.cqe.dw0() & 0xffff)?;
    let cleared = came.map(|event| client.clear_event(event)).transpose();
    let restored = set(client, Feature::ASYNC_EVENT_CONFIG, mask.cqe.dw0())?;
    cleared?;
    for status in [enabled, provoked, back, restored] {
        if !status.is_success() && !is_refusal(status) {
            return Err(Wrong::Step(format!("Set Features failed with {status}")));
        }
    }
    match came {
        None => left("a threshold under the temperature brought no event, and no other can be provoked from here"),
        // AER-01: SMART / Health status, temperature threshold, and the log page that says more.
        Some(e) if (e.event_type(), e.event_info(), e.log_page()) == (EventType::HEALTH, 1, LogPage::SMART) => {
            done(format!("{e}; its log page read, threshold set back"))
        }
        Some(e) => Err(Wrong::Step(format!("a threshold under the temperature brought another event: {e}"))),
    }
}

fn wait_for_event(client: &mut Client) -> Result<Option<AsyncEventResponse>, ClientError> {
    let until = client.network().now() + EVENT;
    while client.network().now() < until {
        let next = client.network().now() + Duration::from_millis(20);
        client.idle(next)?;
        while let Some(notice) = client.notice() {
            if let Notice::Event(event) = notice {
                return Ok(Some(event));
            }
        }
    }
    Ok(None)
}

/// An Asynchronous Event Request is aborted, and a Read on its way. "Not aborted" is right as well. [ADM-ABORT-07]
fn abort(ground: &Ground, client: &mut Client) -> Step {
    let request = match client.association().an_event_request() {
        Some(cid) => format!("an event request: {}", word(client.abort(Qid::ADMIN, cid)?)),
        None => "no event request is outstanding".into(),
    };
    let (sqe, payload) = ground.read(ground.first, ground.most(client).min(64));
    let cid = client.submit(Qid(1), sqe, payload)?;
    let read = match client.abort(Qid(1), cid) {
        // It was done before.
        Err(ClientError::Submit(SubmitError::Unknown)) => "a Read: complete already",
        other => word(other?),
    };
    match client.wait(Qid(1), cid)?.status().code() {
        Status::SUCCESS | Status::COMMAND_ABORT_REQUESTED => done(format!("{request}; a Read: {read}")),
        status => Err(Wrong::Step(format!("a Read that was to be aborted ended with {status}"))),
    }
}

fn word(aborted: bool) -> &'static str {
    if aborted { "aborted" } else { "not aborted" }
}

impl Ground {
    /// Disconnect, and a Connect for the same queue. [FAB-DISC-21]
    fn queue_deletion(&self, client: &mut Client) -> Step {
        if !client.controller().ofcs_disconnect() {
            return left("OFCS has no Disconnect");
        }
        let status = client.delete_queue(Qid(1))?;
        if !status.is_success() {
            return Err(Wrong::Step(format!("Disconnect failed with {}", status.show(true))));
        }
        let other = client.association().io_queues().next();
        if let Some(other) = other {
            let (sqe, payload) = self.read(self.first, 1);
            let status = client.execute(other, sqe, payload)?.status();
            if !status.is_success() {
                return Err(Wrong::Step(format!("with queue 1 deleted a Read on queue {} failed with {status}", other.0)));
            }
        }
        client.create_queue(Qid(1))?;
        self.one(client, self.read(self.first, 1), "Read", self.first)?;
        done("queue 1 deleted by Disconnect, connected again, read from")
    }

    /// CC.EN to 0 and 1 with commands in flight: I/O queues, features and event requests come anew, the data stays.
    /// [RESET-08, RESET-10, RESET-11]
    fn reset(&self, client: &mut Client) -> Step {
        let n = 8.min(self.blocks);
        if self.may_write() {
            self.one(client, self.write(self.first, n, 400), "Write", self.first)?;
        }
        let before = self.one(client, self.read(self.first, n), "Read", self.first)?.data.to_bytes();
        let queues = client.association().io_queues().count();
        let mut flying = Vec::new();
        for _ in 0..FLYING {
            let (sqe, payload) = self.read(self.first, n);
            flying.push(client.submit(Qid(1), sqe, payload)?);
        }
        client.reset()?;
        let mut taken = 0;
        for cid in flying {
            let answer = client.wait(Qid(1), cid)?;
            taken += u32::from(answer.local.is_some());
        }
        if client.association().io_queues().count() != queues {
            return Err(Wrong::Step(format!("{queues} I/O queues before, {} after", client.association().io_queues().count())));
        }
        let after = self.one(client, self.read(self.first, n), "Read", self.first)?.data.to_bytes();
        if before != after {
            return Err(Wrong::Step(format!("blocks {} to {} differ after the reset", self.first, self.first + n - 1)));
        }
        let requests = client.association().event_requests();
        done(format!(
            "{taken} of {FLYING} Reads taken by it, {queues} I/O queues and {requests} event requests anew, {n} blocks as before"
        ))
    }
}

/// Three and a half times KATO without another command: without Keep Alive the controller would have ended the association.
/// [Base 2.0, 3.9]
pub(super) fn keep_alive(client: &mut Client, settings: &HostSettings) -> Step {
    let idle = Duration::from_millis(settings.kato_ms.into()) * 7 / 2;
    let until = client.network().now() + idle;
    client.idle(until)?;
    let answer = client.execute(Qid::ADMIN, command::keep_alive(), Payload::None)?;
    if !answer.status().is_success() {
        return Err(Wrong::Step(format!("Keep Alive failed with {}", answer.status())));
    }
    let (mut events, mut notes, mut failed) = (0, String::new(), None);
    while let Some(notice) = client.notice() {
        match &notice {
            Notice::Event(_) => events += 1,
            Notice::KeepAliveFailed(status) => failed = Some(*status),
            _ => {
                let _ = write!(notes, "; {}", show::notice(&notice));
            }
        }
    }
    if let Some(status) = failed {
        return Err(Wrong::Step(format!("a Keep Alive failed with {status}")));
    }
    let (kato, taken) = (settings.kato_ms, client.facts().kato_ms);
    let rounded = if kato == taken { String::new() } else { format!(", by KAS {taken} ms") };
    let requests = client.association().event_requests();
    done(format!(
        "{} ms with KATO {kato} ms{rounded}; {requests} Asynchronous Event Requests outstanding, {events} events{notes}",
        idle.as_millis()
    ))
}
