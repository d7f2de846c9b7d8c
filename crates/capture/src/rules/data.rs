//! C2HData, R2T and H2CData: offsets, lengths, windows, LAST_PDU and SUCCESS. [NVMe/TCP 1.0, 3.3.2 and 3.4]

use nvmf_spec::{Requirement, Side, req};
use nvmf_wire::sqe::{Direction as DataDirection, FabricsType, Opcode};
use nvmf_wire::tcp::{C2hData, H2cData, Pdu, R2t};

use super::state::State;
use super::{Out, Said, name};
use crate::session::Command;

pub(super) fn c2h(state: &State, pdu: &Pdu, out: &mut Out) {
    let Ok(d) = C2hData::read(&pdu.header) else { return };
    let len = pdu.data.len() as u64;
    out.at(16, 4).check(
        u64::from(d.datal()) == len,
        req::TCP_C2H_01,
        format_args!("C2HData with DATAL {} and {len} bytes", d.datal()),
        "the same",
    );
    out.at(1, 1).check(
        d.last() || !d.success(),
        req::TCP_C2H_14,
        "C2HData with SUCCESS but not LAST_PDU",
        "SUCCESS only in the last one",
    );
    let Some(command) = state.session.command(d.cccid()) else {
        if state.trusts(Side::Host) {
            out.at(8, 2).add(
                req::TCP_C2H_30,
                format_args!("C2HData for CID {:#06x}, {}", d.cccid().0, past(state, d.cccid().0)),
                "the CID of the command that owns the buffer",
            );
        }
        return;
    };
    let who = name(&state.session, command);
    let to_host = matches!(command.direction(), DataDirection::ControllerToHost | DataDirection::Both);
    out.at(8, 2).check(to_host, req::SQE_21, format_args!("C2HData for {who}"), "data only the way its opcode says");
    if command.c2h.last {
        out.at(1, 1).add(
            req::TCP_C2H_09,
            format_args!("C2HData for {who} behind the one with LAST_PDU"),
            "LAST_PDU in the last one only",
        );
    }
    let seen = format_args!("C2HData for {who} with DATAO {}", d.datao());
    if command.c2h.pdus == 0 {
        out.at(12, 4).check(d.datao() == 0, req::TCP_C2H_02, seen, "0 in the first");
    } else {
        out.at(12, 4).check(
            d.datao() == command.c2h.next,
            req::TCP_C2H_03,
            seen,
            format_args!("{}, right behind the one before", command.c2h.next),
        );
    }
    let end = u64::from(d.datao()) + u64::from(d.datal());
    if let Some(buffer) = command.length() {
        out.at(16, 4).check(
            end <= u64::from(buffer),
            req::TCP_C2H_01,
            format_args!("C2HData for {who} up to byte {end}"),
            format_args!("within its buffer of {buffer}"),
        );
    }
    aligned(command, (d.datao(), req::TCP_C2H_32), (d.datal(), req::TCP_C2H_33), "C2HData", end, out);
    if d.last() && d.success() {
        full(command, end, &who, req::TCP_C2H_04, out);
    }
}

/// Offsets and lengths are multiples of 4, but for the end of a buffer that is not. [TCP-H2C-28]
fn aligned(
    command: &Command,
    (offset, of): (u32, &'static Requirement),
    (len, on): (u32, &'static Requirement),
    what: &str,
    end: u64,
    out: &mut Out,
) {
    out.at(12, 4).check(offset.is_multiple_of(4), of, format_args!("{what} with offset {offset}"), "a multiple of 4");
    let odd_end = command.length().is_some_and(|l| !l.is_multiple_of(4) && u64::from(l) == end);
    out.at(16, 4).check(len.is_multiple_of(4) || odd_end, on, format_args!("{what} with length {len}"), "a multiple of 4");
}

/// Data that a successful command moved outside its capsule reaches the end of its buffer; not so where the buffer is an
/// allocation that the data may be shorter than.
pub(super) fn full(command: &Command, moved: u64, who: Said, which: &'static Requirement, out: &mut Out) {
    let allocation = match command.sqe.fctype() {
        Some(f) => f == FabricsType::AUTHENTICATION_RECEIVE,
        None => command.sqe.opc() == Opcode::SECURITY_RECEIVE,
    };
    if let Some(buffer) = command.length().filter(|_| command.sqe.sgl1().is_transport() && !allocation) {
        out.check(
            moved >= u64::from(buffer),
            which,
            format_args!("{who} succeeds with {moved} bytes moved"),
            format_args!("all {buffer} of its buffer"),
        );
    }
}

fn past(state: &State, cid: u16) -> &'static str {
    if state.completed.contains_key(&cid) { "which is completed" } else { "which was not sent" }
}

pub(super) fn r2t(state: &State, pdu: &Pdu, out: &mut Out) {
    let Ok(r) = R2t::read(&pdu.header) else { return };
    let Some(command) = state.session.command(r.cccid()) else {
        if state.trusts(Side::Host) {
            out.at(8, 2).add(
                req::TCP_R2T_18,
                format_args!("R2T for CID {:#06x}, {}", r.cccid().0, past(state, r.cccid().0)),
                "the CID of the command that owns the buffer",
            );
        }
        return;
    };
    let who = name(&state.session, command);
    let from_host = matches!(command.direction(), DataDirection::HostToController | DataDirection::Both);
    let has_buffer = from_host && !command.sqe.sgl1().is_in_capsule();
    out.at(8, 2).check(has_buffer, req::TCP_R2T_18, format_args!("R2T for {who}"), "a command with data in a buffer of the host");
    let seen = format_args!("R2T for {who} with R2TO {}", r.r2to());
    if command.r2t_next == 0 && command.r2ts.is_empty() && command.h2c.pdus == 0 {
        out.at(12, 4).check(r.r2to() == 0, req::TCP_R2T_02, seen, "0 in the first");
    } else {
        out.at(12, 4).check(
            r.r2to() == command.r2t_next,
            req::TCP_R2T_03,
            seen,
            format_args!("{}, right behind the one before", command.r2t_next),
        );
    }
    let end = u64::from(r.r2to()) + u64::from(r.r2tl());
    if let Some(buffer) = command.length().filter(|_| has_buffer) {
        out.at(16, 4).check(
            end <= u64::from(buffer),
            req::TCP_R2T_04,
            format_args!("R2T for {who} up to byte {end}"),
            format_args!("within its buffer of {buffer}"),
        );
    }
    aligned(command, (r.r2to(), req::TCP_R2T_20), (r.r2tl(), req::TCP_R2T_21), "R2T", end, out);
    if let Some(most) = state.session.icreq().map(|q| q.maxr2t().count()) {
        let now = command.r2ts.len() as u64 + 1;
        out.at(10, 2).check(
            now <= most,
            req::TCP_R2T_10,
            format_args!("{now} R2Ts outstanding for {who}"),
            format_args!("{most} at most, by MAXR2T"),
        );
    }
}

pub(super) fn h2c(state: &State, pdu: &Pdu, out: &mut Out) {
    let Ok(d) = H2cData::read(&pdu.header) else { return };
    let len = pdu.data.len() as u64;
    out.at(16, 4).check(
        u64::from(d.datal()) == len,
        req::TCP_H2C_24,
        format_args!("H2CData with DATAL {} and {len} bytes", d.datal()),
        "the same",
    );
    if let Some(most) = state.session.icresp().map(|r| r.maxh2cdata()) {
        out.at(16, 4).check(
            d.datal() <= most,
            req::TCP_H2C_09,
            format_args!("H2CData with DATAL {}", d.datal()),
            format_args!("{most} at most, by MAXH2CDATA"),
        );
    }
    let Some(command) = state.session.command(d.cccid()) else { return h2c_late(state, &d, out) };
    let who = name(&state.session, command);
    let Some((place, window)) = command.r2ts.iter().enumerate().find(|(_, w)| w.ttag == d.ttag()) else {
        return h2c_unasked(state, &d, &who, out);
    };
    out.at(10, 2).check(
        place == 0,
        req::TCP_R2T_07,
        format_args!("H2CData for {who} with TTAG {:#06x}", d.ttag()),
        "R2Ts of one command served in their order",
    );
    let due = window.r2to.wrapping_add(window.sent);
    let which = if window.sent == 0 { req::TCP_H2C_07 } else { req::TCP_H2C_08 };
    out.at(12, 4).check(d.datao() == due, which, format_args!("H2CData for {who} with DATAO {}", d.datao()), due);
    let sent = u64::from(window.sent) + u64::from(d.datal());
    let all = u64::from(window.r2tl);
    out.at(16, 4).check(sent <= all, req::TCP_H2C_08, format_args!("{sent} bytes for an R2T of {all}, {who}"), "R2TL bytes");
    out.at(1, 1).check(
        d.last() || sent < all,
        req::TCP_H2C_12,
        format_args!("H2CData for {who} ends its R2T without LAST_PDU"),
        "LAST_PDU in the last one",
    );
    out.at(1, 1).check(
        !d.last() || sent >= all,
        req::TCP_H2C_13,
        format_args!("LAST_PDU after {sent} of {all} bytes, {who}"),
        "LAST_PDU in the last one only",
    );
    let end = u64::from(d.datao()) + u64::from(d.datal());
    aligned(command, (d.datao(), req::TCP_H2C_27), (d.datal(), req::TCP_H2C_28), "H2CData", end, out);
}

/// Data for a command that is not outstanding: right only where it crossed an early response.
fn h2c_late(state: &State, d: &H2cData, out: &mut Out) {
    let crossing = state.stale.get(&d.cccid().0).is_some_and(|w| w.iter().any(|w| w.ttag == d.ttag()));
    if !crossing && state.trusts(Side::Controller) {
        out.at(10, 2).add(
            req::TCP_H2C_04,
            format_args!("H2CData for CID {:#06x}, {}", d.cccid().0, past(state, d.cccid().0)),
            "data only for an R2T",
        );
    }
}

fn h2c_unasked(state: &State, d: &H2cData, who: Said, out: &mut Out) {
    if !state.trusts(Side::Controller) {
        return;
    }
    let other = state.session.outstanding().find(|c| c.r2ts.iter().any(|w| w.ttag == d.ttag()));
    match other {
        Some(c) => {
            let owner = name(&state.session, c);
            out.at(8, 2).add(
                req::TCP_H2C_25,
                format_args!("H2CData for {who} with TTAG {:#06x}", d.ttag()),
                format_args!("CCCID of {owner}, whose R2T it was"),
            );
        }
        None => {
            out.at(10, 2).add(
                req::TCP_H2C_04,
                format_args!("H2CData for {who} with TTAG {:#06x}, of no outstanding R2T", d.ttag()),
                "data only for an R2T",
            );
        }
    }
}
