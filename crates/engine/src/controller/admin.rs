//! Commands of the Admin Queue: which there are, how much data they move, and who does them.

use bytes::Bytes;
use nvmf_seam::Instant;
use nvmf_wire::admin::{Abort, Feature, GetFeatures, GetLogPage, SetFeatures};
use nvmf_wire::identify::IDENTIFY_BYTES;
use nvmf_wire::sqe::FabricsType;
use nvmf_wire::{Nsid, Opcode, Qid, Sqe, Status};

use super::features::{HOST_BEHAVIOR_BYTES, TIMESTAMP_BYTES};
use super::state::Kind;
use super::{Hub, Reply};
use crate::message::{ConnectionId, ToConnection};
use crate::tcp::Transfer;

/// Which way an admin command moves data, and how much.
pub(crate) fn transfer_of(sqe: &Sqe) -> Transfer {
    match sqe.opc() {
        Opcode::IDENTIFY => Transfer::Out(IDENTIFY_BYTES),
        Opcode::GET_LOG_PAGE => {
            let dwords = u64::from(GetLogPage::from_bytes(*sqe.as_bytes()).numd()) + 1;
            Transfer::Out((dwords * 4) as usize)
        }
        Opcode::GET_FEATURES => {
            let get = GetFeatures::from_bytes(*sqe.as_bytes());
            match get.fid() {
                _ if get.sel() >= 3 => Transfer::None,
                Feature::HOST_BEHAVIOR => Transfer::Out(HOST_BEHAVIOR_BYTES),
                Feature::TIMESTAMP => Transfer::Out(TIMESTAMP_BYTES),
                Feature::HOST_IDENTIFIER if get.value() & 1 != 0 => Transfer::Out(16),
                _ => Transfer::None,
            }
        }
        Opcode::SET_FEATURES => match SetFeatures::from_bytes(*sqe.as_bytes()).fid() {
            Feature::HOST_BEHAVIOR => Transfer::In(HOST_BEHAVIOR_BYTES),
            Feature::TIMESTAMP => Transfer::In(TIMESTAMP_BYTES),
            _ => Transfer::None,
        },
        _ => Transfer::None,
    }
}

/// M in the status field. [Base 2.0, 3.3.3.2.1, Figure 92]
const MORE: u16 = 1 << 13;

impl Hub {
    /// Does a command of an Admin Queue; `None` where its completion comes later.
    pub(super) fn admin(&mut self, now: Instant, from: ConnectionId, sqe: &Sqe, data: Bytes) -> Option<Reply> {
        let Some(key) = self.links.get(&from).and_then(|l| l.controller) else {
            return Some(Status::COMMAND_SEQUENCE_ERROR.into());
        };
        if let Some(fctype) = sqe.fctype() {
            return Some(self.fabrics(now, key, fctype, sqe));
        }
        let Some(c) = self.controllers.get(&key) else { return Some(Status::COMMAND_SEQUENCE_ERROR.into()) };
        // Disabled meanwhile. [FAB-QUEUE-05]
        if !c.serving() {
            return Some(Status::COMMAND_SEQUENCE_ERROR.into());
        }
        let mut reply = if supports(c.kind, c.features.connect_kato, sqe.opc()) {
            self.dispatch(now, key, sqe, &data)
        } else {
            // [SQE-09, SQE-40, DISC-CTRL-10, ADM-PROHIB-01, ADM-PROHIB-04]
            Some(Status::INVALID_COMMAND_OPCODE.dnr().into())
        };
        if let Some(r) = &mut reply
            && !r.status.is_success()
            && let Some(c) = self.controllers.get_mut(&key)
        {
            // More is to be found in the log. [CQE-12]
            r.status = Status(r.status.0 | MORE);
            c.log_error(&self.settings, 0, sqe, r.status);
        }
        reply
    }

    fn fabrics(&mut self, now: Instant, key: u32, fctype: FabricsType, sqe: &Sqe) -> Reply {
        let kind = self.controllers.get(&key).map(|c| c.kind);
        match fctype {
            // Fabrics commands are processed whatever CC.EN is. [FAB-CMD-02]
            FabricsType::PROPERTY_GET => self.property_get(key, sqe),
            FabricsType::PROPERTY_SET => self.property_set(now, key, sqe),
            // [FAB-DISC-01, ADM-PROHIB-07]; a discovery controller does not have the command. [DISC-CTRL-09]
            FabricsType::DISCONNECT if kind == Some(Kind::Io) => Status::INVALID_QUEUE_TYPE.dnr().into(),
            // [FAB-CMD-07, SQE-10]
            _ => Status::INVALID_FIELD_IN_COMMAND.dnr().into(),
        }
    }

    fn dispatch(&mut self, now: Instant, key: u32, sqe: &Sqe, data: &Bytes) -> Option<Reply> {
        // These do not use NSID. [SQE-14, FAB-STATUS-12]
        let unused = matches!(sqe.opc(), Opcode::KEEP_ALIVE | Opcode::ABORT | Opcode::ASYNC_EVENT_REQUEST);
        if unused && sqe.nsid() != Nsid::NONE {
            return Some(Status::INVALID_FIELD_IN_COMMAND.dnr().into());
        }
        match sqe.opc() {
            Opcode::IDENTIFY => Some(self.identify(key, sqe)),
            Opcode::GET_LOG_PAGE => Some(self.get_log_page(now, key, sqe)),
            Opcode::GET_FEATURES => Some(self.get_features(now, key, sqe)),
            Opcode::SET_FEATURES => Some(self.set_features(now, key, sqe, data)),
            Opcode::ABORT => self.abort(key, sqe),
            Opcode::ASYNC_EVENT_REQUEST => {
                let c = self.controllers.get_mut(&key)?;
                c.request_event(&self.settings, sqe.cid(), &mut self.out)
            }
            Opcode::KEEP_ALIVE => {
                // [KA-11, KA-19, ADM-KA-01]
                if let Some(c) = self.controllers.get_mut(&key) {
                    c.restart_keep_alive(now);
                }
                Some(Reply::ok(0))
            }
            _ => Some(Status::INVALID_COMMAND_OPCODE.dnr().into()),
        }
    }

    /// Abort: whatever becomes of the command, this one succeeds and tells. [ADM-ABORT-01 to ADM-ABORT-04, FAB-STATUS-13]
    fn abort(&mut self, key: u32, sqe: &Sqe) -> Option<Reply> {
        let abort = Abort::from_bytes(*sqe.as_bytes());
        let (limit, token) = (usize::from(self.settings.aborts.max(4)), self.next_abort);
        let c = self.controllers.get_mut(&key)?;
        if c.aborts.len() >= limit {
            return Some(Status::ABORT_COMMAND_LIMIT_EXCEEDED.into());
        }
        let target = abort.cid_abort();
        if abort.sqid() == Qid::ADMIN
            && let Some(at) = c.requests.iter().position(|r| *r == target)
        {
            c.requests.remove(at);
            let admin = c.admin;
            self.complete(admin, target, Status::COMMAND_ABORT_REQUESTED.into());
            return Some(Reply::ok(0));
        }
        let queue = if abort.sqid() == Qid::ADMIN { Some(c.admin) } else { c.queues.get(&abort.sqid().0).copied() };
        let Some(queue) = queue else { return Some(Reply::ok(1)) };
        c.aborts.insert(token, sqe.cid());
        self.next_abort += 1;
        self.out.push_back((queue, ToConnection::Abort { token, cid: target }));
        None
    }

    pub(super) fn abort_done(&mut self, token: u64, aborted: bool) {
        let found = self.controllers.values_mut().find_map(|c| Some((c.admin, c.aborts.remove(&token)?)));
        if let Some((admin, cid)) = found {
            self.complete(admin, cid, Reply::ok(u64::from(!aborted)));
        }
    }
}

/// The admin commands of a controller. A discovery controller without a persistent connection has no Keep Alive, no events and no
/// features. [ADM-PROHIB-05, DISC-CTRL-03, DISC-CTRL-07, DISC-CTRL-10]
pub(super) fn supports(kind: Kind, kato: u32, opcode: Opcode) -> bool {
    match opcode {
        Opcode::IDENTIFY | Opcode::GET_LOG_PAGE | Opcode::ABORT => true,
        Opcode::SET_FEATURES | Opcode::GET_FEATURES | Opcode::ASYNC_EVENT_REQUEST | Opcode::KEEP_ALIVE => {
            kind == Kind::Io || kato != 0
        }
        _ => false,
    }
}
