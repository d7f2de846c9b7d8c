//! Asynchronous events, aborts and Keep Alive: what their completions say. [Base 2.0, 5.1, 5.2 and 5.18]

use nvmf_spec::req;
use nvmf_wire::admin::{Abort, Feature, GetLogPage};
use nvmf_wire::cqe::AsyncEventResponse;
use nvmf_wire::{Cqe, Opcode, Qid, Sqe, Status};

use super::state::State;
use super::{Out, Said};
use crate::session::Command;

/// AER limit of a controller that does not say, and more than any can: AERL has 8 bits.
const AERS: usize = 256;

pub(super) fn answered(state: &State, sqe: &Sqe, cqe: &Cqe, who: Said, out: &mut Out) {
    match sqe.opc() {
        Opcode::ASYNC_EVENT_REQUEST if cqe.status().is_success() => event(state, cqe, who, out),
        Opcode::ABORT if cqe.status().is_success() => abort(state, &Abort::from_bytes(*sqe.as_bytes()), cqe.dw0(), who, out),
        _ => {}
    }
}

/// Type, information and log page belong together. [Base 2.0, Figures 145 to 151]
fn event(state: &State, cqe: &Cqe, who: Said, out: &mut Out) {
    let e = AsyncEventResponse::from_bytes(*cqe.as_bytes());
    let dw0 = cqe.dw0();
    let (kind, info, page) = (e.event_type().0, e.event_info(), e.log_page().0);
    let who = format_args!("{who}: event {dw0:#010x}");
    let reserved = dw0 & 0xff00_00f8;
    out.check(reserved == 0, req::ADM_AER_04, format_args!("{who}: reserved bits {reserved:#x}"), "0");
    out.check(matches!(kind, 0..=3 | 6 | 7), req::ADM_AER_04, format_args!("{who}: type {kind}"), "0 to 3, 6 or 7");
    let known = match kind {
        0 => info <= 0x05,
        1 => info <= 0x02,
        3 => info == 0,
        6 => info <= 0x03,
        _ => true,
    };
    out.check(known, req::ADM_AER_04, format_args!("{who}: information {info:#04x} of type {kind}"), "a value that is defined");
    let pages: &[u8] = match (kind, info) {
        (0, _) => &[0x01],
        (1, _) => &[0x02],
        (2, 0x00) => &[0x04],
        (2, 0x01) => &[0x03],
        (2, 0x02) => &[0x07, 0x08],
        (2, 0x03) => &[0x0c],
        (2, 0xf0) => &[0x70],
        (6, 0x00) => &[0x80],
        (6, 0x01..=0x03) => &[0x81],
        _ => &[],
    };
    out.check(
        pages.is_empty() || pages.contains(&page),
        req::ADM_AER_05,
        format_args!("{who}: log page {page:02x}h"),
        "the page of the event",
    );
    if state.masked.contains_key(&(kind, info)) {
        for which in [req::AER_02, req::ADM_AER_06, req::ADM_AER_07, req::ADM_LOG_10] {
            out.add(which, format_args!("{who} again, and its log page was not read since"), "masked until the host clears it");
        }
    }
    let bit = match (kind, info) {
        (2, 0x00..=0x07) => Some(8 + u32::from(info)),
        (2, 0xf0) => Some(31),
        _ => None,
    };
    let config = state.known.features.get(&(Feature::ASYNC_EVENT_CONFIG.0, 0));
    if let (Some(bit), Some(config)) = (bit, config) {
        out.check(
            config >> bit & 1 == 1,
            req::ADM_AER_09,
            format_args!("{who}, bit {bit} of the configuration is 0"),
            "no such event",
        );
    }
    if state.known.discovery() == Some(true) && kind == 2 && state.known.until(super::identify::V2_0) {
        for which in [req::DISC_CTRL_16, req::ADM_AER_25] {
            out.check(info == 0xf0 && page == 0x70, which, who, "0070F002h, the only notice of a discovery controller");
        }
    }
}

/// A command of the host clears an event: the log page is read, and not retained. [AER-02, ADM-AER-07]
pub(super) fn asked(state: &mut State, sqe: &Sqe) {
    if sqe.fctype().is_none() && sqe.opc() == Opcode::GET_LOG_PAGE && state.session.is_admin() {
        let c = GetLogPage::from_bytes(*sqe.as_bytes());
        state.masked.retain(|_, page| c.rae() || *page != c.lid().0);
    }
}

/// An event was reported: from now on its like is masked.
pub(super) fn noted(state: &mut State, sqe: &Sqe, cqe: &Cqe) {
    if !state.session.is_admin() || sqe.fctype().is_some() {
        return;
    }
    if sqe.opc() == Opcode::ASYNC_EVENT_REQUEST && cqe.status().is_success() {
        let e = AsyncEventResponse::from_bytes(*cqe.as_bytes());
        if e.log_page().0 != 0 {
            state.masked.insert((e.event_type().0, e.event_info()), e.log_page().0);
        }
    }
}

/// DW0 bit 0 of Abort against what became of the command.
fn abort(state: &State, abort: &Abort, dw0: u32, who: Said, out: &mut Out) {
    let cid = abort.cid_abort();
    let seen = format_args!("{who}: DW0 {dw0:#x} for CID {:#06x} of queue {}", cid.0, abort.sqid().0);
    // Order is certain on one connection alone.
    if dw0 & 1 != 0 || abort.sqid() != Qid::ADMIN || !state.session.is_admin() {
        return;
    }
    if state.session.command(cid).is_some() {
        for which in [req::ADM_ABORT_01, req::FAB_STATUS_13] {
            out.add(
                which,
                format_args!("{}, which has no completion yet", seen),
                "its completion with Command Abort Requested first",
            );
        }
    } else if state.aborted.get(&cid.0) != Some(&true) {
        for which in [req::ADM_ABORT_02, req::FAB_STATUS_13] {
            out.add(which, format_args!("{}, which was not aborted", seen), "bit 0 set");
        }
    }
}

/// How a command ended: whether it was aborted on request.
pub(super) fn ended(state: &mut State, cid: u16, status: Status) {
    state.aborted.insert(cid, status.code() == Status::COMMAND_ABORT_REQUESTED);
}

/// A host keeps to the limits of requests that are outstanding.
pub(super) fn limits(state: &State, sqe: &Sqe, who: Said, out: &mut Out) {
    let Some(i) = state.known.identify.as_ref().filter(|_| sqe.fctype().is_none() && state.session.is_admin()) else { return };
    let same = |c: &&Command| c.number >= state.reset_at && c.sqe.fctype().is_none() && c.sqe.opc() == sqe.opc();
    let now = state.session.outstanding().filter(same).count() + 1;
    match sqe.opc() {
        Opcode::ASYNC_EVENT_REQUEST if state.known.discovery() == Some(false) => {
            let most = usize::try_from(i.aerl().count()).unwrap_or(AERS);
            out.check(
                now <= most,
                req::ADM_AER_03,
                format_args!("{who} is outstanding number {now}"),
                format_args!("{most} at most, by AERL"),
            );
        }
        Opcode::ABORT => {
            let most = usize::try_from(i.acl().count()).unwrap_or(AERS);
            out.check(
                now <= most,
                req::ADM_ABORT_05,
                format_args!("{who} is outstanding number {now}"),
                format_args!("{most} at most, by ACL"),
            );
        }
        _ => {}
    }
}
