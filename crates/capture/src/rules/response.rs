//! Completions: CID, SQHD, reserved fields, command specific dwords, data that had to come before. [Base 2.0, 3.3.3.2 and 6]

use nvmf_spec::{Side, req};
use nvmf_wire::property::PropertyGet;
use nvmf_wire::sqe::{Direction as DataDirection, FabricsType, IoOpcode, Opcode};
use nvmf_wire::tcp::{C2hData, Pdu};
use nvmf_wire::{Cntlid, Cqe, Status};

use super::state::State;
use super::{Out, Said, answer, claim, content, data, event, feature, name, property, rdma, store};
use crate::session::Command;

pub(super) fn check(state: &mut State, cqe: &Cqe, out: &mut Out) {
    let bytes = cqe.as_bytes();
    let sqid = u16::from_le_bytes([bytes[10], bytes[11]]);
    out.at(10, 2).check(sqid == 0, req::CQE_02, format_args!("SQID {sqid}"), "0, it is reserved");
    out.at(14, 1).check(bytes[14] & 1 == 0, req::CQE_03, "phase bit 1", "0, it is reserved");
    let status = cqe.status();
    out.at(14, 2).check(!(4..=6).contains(&status.sct()), req::CQE_14, format_args!("SCT {}", status.sct()), "not 4 to 6");
    let success = status.code() == Status::SUCCESS;
    out.at(14, 2).check(!success || (!cqe.dnr() && cqe.crd() == 0), req::CQE_05, "DNR or CRD set with success", "0");
    out.at(14, 2).check(!cqe.dnr() || cqe.crd() == 0, req::CQE_07, format_args!("CRD {} with DNR", cqe.crd()), "0");
    let Some(command) = state.session.command(cqe.cid()) else {
        unknown(state, cqe, out);
        return sqhd(state, None, cqe, out);
    };
    let who = name(&state.session, command);
    dwords(state, command, cqe, &who, out);
    match state.rdma.is_some() {
        true => rdma::moved(state, command, success, &who, out),
        false => moved(command, success, &who, out),
    }
    let whole = out.part;
    rules(state, command, cqe, &who, out);
    out.part = whole;
    let connect = (command.sqe.fctype() == Some(FabricsType::CONNECT)).then_some(success);
    sqhd(state, connect, cqe, out);
}

/// A command that SUCCESS in its last C2HData completes: as with a response that says nothing more.
pub(super) fn by_success(state: &State, pdu: &Pdu, out: &mut Out) {
    let Ok(d) = C2hData::read(&pdu.header) else { return };
    if let Some(command) = state.session.command(d.cccid()).filter(|_| d.last() && d.success()) {
        let who = name(&state.session, command);
        rules(state, command, &Cqe::of(d.cccid(), Status::SUCCESS, 0), &who, out);
    }
}

/// What the answer says, against the command and against what is known of the controller.
fn rules(state: &State, command: &Command, cqe: &Cqe, who: Said, out: &mut Out) {
    let sqe = &command.sqe;
    if !state.trusts(Side::Host) {
        return;
    }
    out.within_cqe(14, 2);
    claim::check(state, command, cqe, who, out);
    answer::check(state, command, cqe, who, out);
    out.within_cqe(0, 8);
    if sqe.fctype().is_some() {
        return property::answered(state, sqe, cqe, who, out);
    }
    if !state.session.is_admin() {
        return store::check(state, sqe, cqe, who, out);
    }
    event::answered(state, sqe, cqe, who, out);
    feature::answered(state, sqe, cqe, who, out);
    content::check(state, sqe, cqe, who, out);
}

fn unknown(state: &State, cqe: &Cqe, out: &mut Out) {
    let cid = cqe.cid().0;
    let doubled = state.doubled.get(&cid).is_some_and(|n| *n > 0);
    if doubled || !state.trusts(Side::Host) {
        return;
    }
    match state.completed.get(&cid) {
        Some(true) => out.at(12, 2).add(req::TCP_C2H_11, format_args!("response for CID {cid:#06x} after SUCCESS"), "none"),
        Some(false) => out.at(12, 2).add(req::CQE_01, format_args!("second response for CID {cid:#06x}"), "one for each command"),
        None => out.add(
            req::CQE_01,
            format_args!("response for CID {cid:#06x}, which was not sent"),
            "the CID of an outstanding command",
        ),
    }
}

/// Data before a success: complete, and ended by LAST_PDU.
fn moved(command: &Command, success: bool, who: Said, out: &mut Out) {
    if !success {
        return;
    }
    if command.c2h.pdus > 0 {
        out.check(
            command.c2h.last,
            req::TCP_C2H_08,
            format_args!("{who} completed, no C2HData had LAST_PDU"),
            "LAST_PDU in the last one",
        );
        data::full(command, u64::from(command.c2h.next), who, req::TCP_C2H_04, out);
    }
    if command.direction() == DataDirection::HostToController && command.r2t_next > 0 {
        data::full(command, u64::from(command.r2t_next), who, req::TCP_R2T_04, out);
    }
}

/// Dwords 0 and 1 where the command says what they hold.
fn dwords(state: &State, command: &Command, cqe: &Cqe, who: Said, out: &mut Out) {
    let (dw0, dw1, status) = (cqe.dw0(), cqe.dw1(), cqe.status().code());
    let success = status == Status::SUCCESS;
    let seen = format_args!("{who}: DW0 {dw0:#x}, DW1 {dw1:#x}");
    match command.sqe.fctype() {
        Some(FabricsType::CONNECT) => connect(state, cqe, who, out),
        Some(FabricsType::PROPERTY_SET) => out.at(0, 8).check((dw0, dw1) == (0, 0), req::FAB_PROP_10, seen, "0"),
        Some(FabricsType::PROPERTY_GET) if success => {
            let get = PropertyGet::from_bytes(*command.sqe.as_bytes());
            out.at(4, 4).check(get.attrib() != 0 || dw1 == 0, req::FAB_PROP_09, seen, "DW1 0 for a property of 4 bytes");
        }
        Some(FabricsType::AUTHENTICATION_SEND | FabricsType::AUTHENTICATION_RECEIVE) => {
            out.at(0, 8).check((dw0, dw1) == (0, 0), req::FAB_AUTH_04, seen, "0");
        }
        Some(_) => {}
        None => {
            let plain = match state.session.is_admin() {
                true => matches!(command.sqe.opc(), Opcode::IDENTIFY | Opcode::GET_LOG_PAGE | Opcode::KEEP_ALIVE),
                false => matches!(IoOpcode(command.sqe.opc().0), IoOpcode::READ | IoOpcode::WRITE | IoOpcode::FLUSH),
            };
            out.at(0, 8).check(!plain || (dw0, dw1) == (0, 0), req::CQE_04, seen, "0, the command defines neither");
        }
    }
}

fn connect(state: &State, cqe: &Cqe, who: Said, out: &mut Out) {
    let (dw0, dw1, status) = (cqe.dw0(), cqe.dw1(), cqe.status().code());
    out.at(4, 4).check(dw1 == 0, req::FAB_CONNECT_39, format_args!("{who}: DW1 {dw1:#x}"), "0, it is reserved");
    if status == Status::SUCCESS {
        let authreq = dw0 >> 16;
        out.at(2, 2).check(authreq & !6 == 0, req::FAB_CONNECT_40, format_args!("AUTHREQ {authreq:#06x}"), "no bits but 1 and 2");
        let alike = state.asking.as_ref().is_some_and(|w| w.hostnqn == w.subnqn) && authreq & 2 != 0;
        out.check(!alike, req::FAB_CONNECT_32, format_args!("{who}: host and subsystem of one name, with authentication"), "1/84h");
        out.at(2, 2).check(authreq & 6 != 6, req::FAB_CONNECT_41, "AUTHREQ with ATR and ASCR", "ATR cleared where ASCR is set");
        let got = Cntlid(dw0 as u16);
        let asked = state.asked_cntlid.filter(|c| *c != Cntlid::DYNAMIC && *c != Cntlid::ANY_STATIC);
        if let Some(asked) = asked {
            out.check(
                got == asked,
                req::FAB_CONNECT_38,
                format_args!("controller ID {}", got.0),
                format_args!("{}, as Connect named", asked.0),
            );
        }
    } else if status != Status::CONNECT_INVALID_PARAMETERS {
        out.check(
            dw0 == 0,
            req::FAB_CONNECT_39,
            format_args!("{who}: DW0 {dw0:#x} with status {}", cqe.status().show(true)),
            "0, it is reserved",
        );
    }
}

/// SQHD: with flow control an entry that was submitted, moving forward; without it FFFFh once and then 0. `connect` is whether a
/// Connect succeeded with this.
fn sqhd(state: &mut State, connect: Option<bool>, cqe: &Cqe, out: &mut Out) {
    let sqhd = cqe.sqhd();
    let asked_off = state.session.connect().is_some_and(|c| c.sqfcd());
    match connect {
        Some(true) if !asked_off => {
            out.at(8, 2).check(sqhd != 0xffff, req::FAB_SQFC_06, "SQHD FFFFh, no disabling was asked for", "another value")
        }
        Some(false) => return,
        None if state.session.flow_control_off() => {
            return out.at(8, 2).check(sqhd == 0, req::CQE_19, format_args!("SQHD {sqhd} with SQ flow control off"), "0");
        }
        _ => {}
    }
    let Some(size) = state.session.queue_size().filter(|_| state.trusts(Side::Host)) else { return };
    if sqhd == 0xffff || (connect.is_none() && state.head.is_none()) {
        return;
    }
    if u64::from(sqhd) >= size {
        return out.at(8, 2).add(req::CQE_17, format_args!("SQHD {sqhd}"), format_args!("below {size}, the queue size"));
    }
    let (taken, last) = state.head.unwrap_or((0, 0));
    let step = (u64::from(sqhd) + size - u64::from(last)) % size;
    let now = taken + step;
    let sent = state.session.submitted();
    if now > sent {
        let back = size - step;
        let which = if back <= taken { req::CQE_18 } else { req::CQE_17 };
        out.add(
            which,
            format_args!("SQHD {sqhd} after {last}, {sent} capsules sent, {taken} taken"),
            "forward, and no further than what was sent",
        );
    } else {
        state.head = Some((now, sqhd));
    }
}
