//! Admin commands that only look: Identify, Get Log Page, Get Features; and Set Features with the value that is set already.

use nvmf_engine::host::{Completion, Payload, command};
use nvmf_wire::admin::{Cns, Feature, Identify, LogPage};
use nvmf_wire::identify::{ControllerType, IdentifyController};
use nvmf_wire::{Nsid, Qid, Sqe, Status};

use super::super::Client;
use super::{Step, Wrong, done};

/// A step by its name.
pub(super) type Named = (&'static str, fn(&mut Client) -> Step);

/// In the order of a host's bring-up.
pub(super) const STEPS: &[Named] = &[
    ("identify", identify),
    ("identify, namespaces", namespaces),
    ("identify, optional", optional),
    ("log pages", logs),
    ("features", features),
    ("event configuration", event_configuration),
];

/// Namespaces looked at: a controller may have very many.
const NAMESPACES: usize = 16;

/// The controller does not have what was asked for, which it is free to say.
pub(super) fn is_refusal(status: Status) -> bool {
    let known = [
        Status::INVALID_COMMAND_OPCODE,
        Status::INVALID_FIELD_IN_COMMAND,
        Status::INVALID_NAMESPACE_OR_FORMAT,
        Status::INVALID_LOG_PAGE,
    ];
    known.contains(&status.code())
}

pub(super) fn ask(client: &mut Client, sqe: Sqe, bytes: u32) -> Result<Completion, Wrong> {
    let payload = if bytes == 0 { Payload::None } else { Payload::In(bytes) };
    Ok(client.execute(Qid::ADMIN, sqe, payload)?)
}

/// Asks for each in turn; those that are required have to come, the others may be refused.
fn each(client: &mut Client, what: &str, list: &[(u8, bool, Sqe, u32)]) -> Step {
    let (mut given, mut refused) = (Vec::new(), Vec::new());
    for (id, required, sqe, bytes) in list {
        let answer = ask(client, *sqe, *bytes)?;
        let status = answer.status();
        if status.is_success() {
            if answer.data.len() != *bytes as usize {
                return Err(Wrong::Step(format!("{what} {id:#04x} gave {} bytes of {bytes}", answer.data.len())));
            }
            given.push(format!("{id:#04x}"));
        } else if *required || !is_refusal(status) {
            return Err(Wrong::Step(format!("{what} {id:#04x} failed with {status}")));
        } else {
            refused.push(format!("{id:#04x}"));
        }
    }
    let refused = if refused.is_empty() { String::new() } else { format!("; refused {}", refused.join(" ")) };
    done(format!("{what} {}{refused}", given.join(" ")))
}

/// Once more after bring-up: it has to be the same controller.
fn identify(client: &mut Client) -> Step {
    let page = client.identify(Cns::CONTROLLER, Nsid::NONE, "Identify Controller")?;
    let read = IdentifyController::read(&page).map_err(|e| Wrong::Step(e.to_string()))?;
    let before = client.controller();
    if (read.cntlid(), read.sn().as_str(), read.subnqn().as_str())
        != (before.cntlid(), before.sn().as_str(), before.subnqn().as_str())
    {
        return Err(Wrong::Step("Identify Controller names another controller than at bring-up".into()));
    }
    done(format!("{}, serial {}, firmware {}", read.mn().as_str(), read.sn().as_str(), read.fr().as_str()))
}

fn namespaces(client: &mut Client) -> Step {
    let all = client.namespaces()?;
    for nsid in all.iter().take(NAMESPACES) {
        client.namespace(*nsid)?;
        client.identify(Cns::NAMESPACE_DESCRIPTORS, *nsid, "Identify, namespace descriptors")?;
    }
    done(format!("{} active, CNS 0x02 0x00 0x03", all.len()))
}

fn optional(client: &mut Client) -> Step {
    let nsid = client.namespaces()?.first().copied().unwrap_or(Nsid(1));
    let vs = client.facts().vs;
    let mut list = vec![
        (Cns::ALLOCATED_NAMESPACES, Nsid::NONE),
        (Cns::ALLOCATED_NAMESPACE, nsid),
        (Cns::ATTACHED_CONTROLLERS, nsid),
        (Cns::CONTROLLERS, Nsid::NONE),
    ];
    if vs.major() >= 2 {
        list.extend([
            (Cns::NAMESPACE_CSI, nsid),
            (Cns::CONTROLLER_CSI, Nsid::NONE),
            (Cns::ACTIVE_NAMESPACES_CSI, Nsid::NONE),
            (Cns::NAMESPACE_INDEPENDENT, nsid),
            (Cns::COMMAND_SETS, Nsid::NONE),
        ]);
    }
    let list: Vec<_> = list
        .into_iter()
        .map(|(cns, nsid)| {
            let sqe = command::identify(cns, nsid);
            // FFFFh is the controller that is asked. [Base 2.0, 5.17.2.21]
            let this = Identify::from_bytes(*sqe.as_bytes()).with(|s| s.cntid(0xffff));
            let sqe = if cns == Cns::COMMAND_SETS { Sqe::from_bytes(*this.as_bytes()) } else { sqe };
            (cns.0, false, sqe, 4096)
        })
        .collect();
    each(client, "CNS", &list)
}

/// Pages that events lead to. [ADM-LOG-11]
const EVENT_PAGES: [LogPage; 5] =
    [LogPage::ERROR, LogPage::SMART, LogPage::FIRMWARE_SLOT, LogPage::CHANGED_NAMESPACES, LogPage::ANA];

/// Retain Asynchronous Event is set where there are events, so that reading changes nothing.
fn logs(client: &mut Client) -> Step {
    let io = client.controller().cntrltype() != ControllerType::DISCOVERY;
    let list: Vec<_> = [
        (LogPage::ERROR, true, 64),
        (LogPage::SMART, io, 512),
        (LogPage::FIRMWARE_SLOT, io, 512),
        (LogPage::SUPPORTED, false, 1024),
        (LogPage::CHANGED_NAMESPACES, false, 4096),
        (LogPage::COMMAND_EFFECTS, false, 4096),
        (LogPage::ANA, false, 16),
        (LogPage::FEATURE_EFFECTS, false, 1024),
    ]
    .into_iter()
    .map(|(lid, required, bytes)| {
        let all = lid == LogPage::SMART;
        let sqe = command::get_log_page(lid, 0, bytes, EVENT_PAGES.contains(&lid));
        let sqe = if all { sqe.with(|s| s.nsid(Nsid::BROADCAST)) } else { sqe };
        (lid.0, required, sqe, bytes)
    })
    .collect();
    each(client, "LID", &list)
}

fn features(client: &mut Client) -> Step {
    let list: Vec<_> = [
        (Feature::NUMBER_OF_QUEUES, true, 0, 0),
        (Feature::ASYNC_EVENT_CONFIG, true, 0, 0),
        (Feature::KEEP_ALIVE_TIMER, true, 0, 0),
        (Feature::ARBITRATION, false, 0, 0),
        (Feature::POWER_MANAGEMENT, false, 0, 0),
        (Feature::TEMPERATURE_THRESHOLD, false, 0, 0),
        (Feature::VOLATILE_WRITE_CACHE, false, 0, 0),
        (Feature::WRITE_ATOMICITY, false, 0, 0),
        // The 128-bit form, the only one over fabrics. [Base 2.0, 5.27.1.25]
        (Feature::HOST_IDENTIFIER, false, 1, 16),
    ]
    .into_iter()
    .map(|(fid, required, value, bytes)| (fid.0, required, command::get_features(fid, value), bytes))
    .collect();
    each(client, "FID", &list)
}

fn event_configuration(client: &mut Client) -> Step {
    let value = |answer: Completion, what: &str| match answer.status() {
        s if s.is_success() => Ok(answer.cqe.dw0()),
        s => Err(Wrong::Step(format!("{what} failed with {s}"))),
    };
    let before = value(ask(client, command::get_features(Feature::ASYNC_EVENT_CONFIG, 0), 0)?, "Get Features")?;
    value(ask(client, command::set_features(Feature::ASYNC_EVENT_CONFIG, before), 0)?, "Set Features")?;
    let after = value(ask(client, command::get_features(Feature::ASYNC_EVENT_CONFIG, 0), 0)?, "Get Features")?;
    if before == after {
        done(format!("{before:#010x} set and read back"))
    } else {
        Err(Wrong::Step(format!("{before:#010x} was set, {after:#010x} read back")))
    }
}
