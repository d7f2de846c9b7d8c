//! Statuses by themselves: those that do not exist, that no host asked for, or that say of a command what the bytes show to be
//! otherwise. [Base 2.0, 3.3.3.2.1]

use nvmf_spec::req;
use nvmf_wire::admin::GetFeatures;
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::cqe::ConnectInvalid;
use nvmf_wire::sqe::FabricsType;
use nvmf_wire::{Cqe, Opcode, Qid, Sqe, Status};

use super::rdma;
use super::state::State;
use super::{Out, Said};
use crate::session::Command;

pub(super) fn check(state: &State, command: &Command, cqe: &Cqe, who: Said, out: &mut Out) {
    let status = cqe.status();
    if status.is_success() {
        return;
    }
    let sqe = &command.sqe;
    let seen = format_args!("{who}: {}", status.show(sqe.fctype().is_some()));
    exists(state, sqe, status, &seen, out);
    retries(state, cqe, &seen, out);
    match sqe.fctype() {
        Some(kind) => fabrics(state, kind, sqe, cqe, &seen, out),
        None => plain(state, command, status, &seen, out),
    }
}

/// Codes that the revision reserves. [CQE-15, FAB-STATUS-06]
fn exists(state: &State, sqe: &Sqe, status: Status, seen: Said, out: &mut Out) {
    let (sct, sc) = (status.sct(), status.sc());
    let known =
        |fabrics: bool| Status::CODES.iter().any(|c| c.status == status.code() && (sct != 1 || sc < 0x80 || c.fabrics == fabrics));
    let generic = sct == 0 && sc < 0x80 || sct == 3 && sc < 0xc0;
    if generic && state.known.until(super::identify::V2_0) {
        let late = sct == 0 && (0x25..0x80).contains(&sc);
        out.check(known(false) && !late, req::CQE_15, seen, "a code of revision 2.0");
    }
    if sqe.fctype().is_some() && sct == 1 {
        // B0h to BFh belong to transports, C0h and above to vendors.
        let right = sc >= 0xb0 || sc >= 0x80 && known(true);
        out.check(right, req::FAB_STATUS_06, seen, "a code that Fabrics commands have");
    }
}

/// CRD and Command Interrupted need a host that asked for them by Host Behavior Support.
fn retries(state: &State, cqe: &Cqe, seen: Said, out: &mut Out) {
    // A static controller may have kept what an earlier association set.
    let never = state.known.dynamic() && !state.known.behavior;
    out.check(
        !never || cqe.crd() == 0 || cqe.dnr(),
        req::CQE_06,
        format_args!("{}, CRD {}", seen, cqe.crd()),
        "CRD 0: ACRE was not set",
    );
    if cqe.status().code() == Status::COMMAND_INTERRUPTED {
        for which in [req::CQE_08, req::FAB_STATUS_08] {
            out.check(!never && !cqe.dnr(), which, seen, "only with ACRE, and without DNR");
        }
    }
    let passing = [Status::FORMAT_IN_PROGRESS];
    if passing.contains(&cqe.status().code()) {
        out.check(!cqe.dnr(), req::CQE_09, seen, "DNR 0: it passes");
    }
}

fn fabrics(state: &State, kind: FabricsType, sqe: &Sqe, cqe: &Cqe, seen: Said, out: &mut Out) {
    let code = cqe.status().code();
    let authentication = matches!(kind, FabricsType::AUTHENTICATION_SEND | FabricsType::AUTHENTICATION_RECEIVE);
    if code == Status::AUTHENTICATION_REQUIRED {
        let own = kind == FabricsType::CONNECT || authentication;
        out.check(!own, req::FAB_STATUS_07, seen, "never for Connect and the authentication commands");
        out.check(kind != FabricsType::CONNECT, req::FAB_CONNECT_42, seen, "Connect is judged before authentication");
    }
    let property = matches!(kind, FabricsType::PROPERTY_GET | FabricsType::PROPERTY_SET);
    if property && state.connected && state.session.is_admin() {
        out.check(code != Status::COMMAND_SEQUENCE_ERROR, req::FAB_CMD_02, seen, "Fabrics commands served whatever CC.EN is");
        out.check(code != Status::INVALID_COMMAND_OPCODE, req::FAB_CMD_03, seen, "Property Get and Set at every controller");
    }
    if code == Status::AUTHENTICATION_REQUIRED && state.connected && state.free {
        out.add(req::FAB_QUEUE_01, seen, "the queue is usable: AUTHREQ of Connect was 0");
    }
    if kind == FabricsType::CONNECT {
        connect(state, sqe, cqe, seen, out);
    }
}

/// What a refused Connect may say, and the place that it blames. [FAB-CONNECT-34, FAB-CONNECT-36]
fn connect(state: &State, sqe: &Sqe, cqe: &Cqe, seen: Said, out: &mut Out) {
    let code = cqe.status().code();
    out.check(code != Status::INVALID_FIELD_IN_COMMAND, req::FAB_CONNECT_34, seen, "never Invalid Field in Command");
    if code == Status::DATA_SGL_LENGTH_INVALID && super::buffer(state, sqe) == Some(ConnectData::LEN as u32) {
        out.add(req::FAB_CONNECT_17, seen, "another status: the data has the 1024 bytes that it should");
    }
    if code == Status::COMMAND_SEQUENCE_ERROR && !state.connected {
        let qid = Connect::from_bytes(*sqe.as_bytes()).qid();
        let taken = qid == Qid::ADMIN || state.known.queues.contains_key(&qid.0);
        // Another host may stand behind the same controller only where this is not its association.
        let ours = state.known.who.is_some() || qid == Qid::ADMIN;
        out.check(taken && qid != Qid::ADMIN || !ours, req::FAB_CONNECT_03, seen, "only for a queue that exists");
    }
    if code != Status::CONNECT_INVALID_PARAMETERS {
        return;
    }
    let e = ConnectInvalid::from_bytes(*cqe.as_bytes());
    let (ipo, data) = (e.ipo(), e.iattr() == 1);
    let place = format_args!("{}, IPO {ipo}, IATTR {}", seen, e.iattr());
    let rest = cqe.dw0() >> 17;
    out.check(rest == 0, req::FAB_CONNECT_36, format_args!("{place}, bits {rest:#x} above"), "0");
    let c = Connect::from_bytes(*sqe.as_bytes());
    let fields: &[u16] = if data { &[0, 16, 256, 512] } else { &[40, 42, 44, 46, 48] };
    if !fields.contains(&ipo) {
        // The text lets a receiver refuse what is reserved, which then is not zero there.
        let own = if data { None } else { sqe.as_bytes().get(usize::from(ipo)).copied() };
        out.check(own.is_some_and(|b| b != 0), req::FAB_CONNECT_36, place, "the start of a field that can be wrong");
        return;
    }
    let innocent = match (data, ipo) {
        (false, 40) => c.recfmt() == 0,
        (false, 42) => c.qid() == Qid::ADMIN,
        (false, 44) => c.qid() == Qid::ADMIN && c.sqsize().0 == 1,
        (false, 46) => c.as_bytes().get(46).is_some_and(|b| *b == 0),
        (true, 0) => c.qid() == Qid::ADMIN && state.asking.as_ref().is_some_and(|w| w.hostid != [0; 16]),
        _ => false,
    };
    out.check(!innocent, req::FAB_CONNECT_36, place, "the field that is wrong: this one is right");
}

/// Statuses of admin and I/O commands that name a cause which is not there.
fn plain(state: &State, command: &Command, status: Status, seen: Said, out: &mut Out) {
    let sqe = &command.sqe;
    let code = status.code();
    let mark = state.marks.get(&sqe.cid().0).copied().unwrap_or_default();
    if !mark.serving || !state.known.serving() {
        return;
    }
    let admin = state.session.is_admin();
    if code == Status::INVALID_COMMAND_OPCODE {
        let always = admin && matches!(sqe.opc(), Opcode::IDENTIFY | Opcode::GET_LOG_PAGE);
        for which in [req::ADM_PROHIB_05, req::FAB_IDENT_13] {
            out.check(!always, which, seen, "a command that every controller has");
        }
        let own = [Opcode::ABORT, Opcode::SET_FEATURES, Opcode::GET_FEATURES, Opcode::ASYNC_EVENT_REQUEST, Opcode::KEEP_ALIVE];
        let io = admin && state.known.serves_io() && own.contains(&sqe.opc());
        out.check(!io, req::ADM_PROHIB_05, seen, "a command that every I/O controller has");
    }
    let with_media = state.known.since(super::identify::V2_0) && state.known.cc.is_some_and(|c| !c.crime());
    let waits = !status.is_dnr() && (code == Status::NAMESPACE_NOT_READY || code == Status::ADMIN_COMMAND_MEDIA_NOT_READY);
    out.check(!(with_media && waits), req::CQE_11, seen, "media is ready with the controller");
    let media = code == Status::ADMIN_COMMAND_MEDIA_NOT_READY;
    out.check(!(with_media && media), req::CQE_10, seen, "only with CC.CRIME 1");
    let unknown = code == Status::INVALID_FIELD_IN_COMMAND && admin && sqe.opc() == Opcode::GET_FEATURES;
    if unknown {
        let get = GetFeatures::from_bytes(*sqe.as_bytes());
        let plain = get.sel() == 0 && get.value() == 0 && sqe.nsid().0 == 0;
        let io = state.known.serves_io() && plain;
        let mandatory = matches!(get.fid().0, 0x01 | 0x02 | 0x04 | 0x07 | 0x0b);
        out.check(!(io && mandatory), req::ADM_FEAT_19, seen, "a feature that every I/O controller has");
        out.check(!(io && get.fid().0 == 0x0a), req::ADM_FEAT_20, seen, "a feature of the NVM command set");
        let sets = plain && get.fid().0 == 0x19 && state.known.cap.is_some_and(|c| c.css_sets()) && state.known.serves_io();
        out.check(!sets, req::ADM_FEAT_40, seen, "a feature that CAP.CSS bit 6 goes with");
    }
    if code == Status::COMMAND_SEQUENCE_ERROR && admin {
        let free = [Opcode::IDENTIFY, Opcode::KEEP_ALIVE, Opcode::GET_FEATURES];
        out.check(!free.contains(&sqe.opc()), req::FAB_QUEUE_05, seen, "only while the controller is disabled");
    }
    if code == Status::SGL_DESCRIPTOR_TYPE_INVALID {
        let right = super::buffer(state, &command.sqe).is_some() && !rdma::reserved_subtype(state, &command.sqe);
        out.check(!right, req::SQE_30, seen, "a descriptor that the transport has is taken");
    }
}
