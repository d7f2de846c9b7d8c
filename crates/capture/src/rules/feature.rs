//! Features: what Get Features returns against what was set, granted and connected with. [Base 2.0, 5.15 and 5.27]

use nvmf_spec::req;
use nvmf_wire::admin::{Feature, GetFeatures, SetFeatures};
use nvmf_wire::{Cqe, Opcode, Sqe};

use super::state::State;
use super::{Out, Said};

/// Default of the Keep Alive Timeout on TCP, ms. [ADM-FEAT-33]
const KATO_DEFAULT: u32 = 120_000;
/// Unit of Keep Alive Support, ms.
const KAS_UNIT: u32 = 100;

pub(super) fn answered(state: &State, sqe: &Sqe, cqe: &Cqe, who: Said, out: &mut Out) {
    if !cqe.status().is_success() {
        return;
    }
    match sqe.opc() {
        Opcode::SET_FEATURES => {
            let set = SetFeatures::from_bytes(*sqe.as_bytes());
            let silent = set.fid() != Feature::NUMBER_OF_QUEUES && set.fid().0 < 0xc0;
            out.check(
                !silent || cqe.dw0() == 0,
                req::CQE_04,
                format_args!("{who}: DW0 {:#x} of FID {:02x}h", cqe.dw0(), set.fid().0),
                "0",
            );
        }
        Opcode::GET_FEATURES => got(state, &GetFeatures::from_bytes(*sqe.as_bytes()), sqe.nsid().0, cqe.dw0(), who, out),
        _ => {}
    }
}

fn got(state: &State, get: &GetFeatures, nsid: u32, dw0: u32, who: Said, out: &mut Out) {
    let known = &state.known;
    let (fid, sel) = (get.fid(), get.sel());
    let who = format_args!("{who}, FID {:02x}h, SEL {sel}", fid.0);
    if sel == 3 {
        out.check(dw0 & !7 == 0, req::ADM_FEAT_05, format_args!("{who}: DW0 {dw0:#x}"), "no bits but 2:0");
        if (0x7d..=0x7f).contains(&fid.0) {
            let due = if fid.0 == 0x7f { 6 } else { 4 };
            out.check(
                dw0 == due,
                req::ADM_FEAT_52,
                format_args!("{who}: DW0 {dw0:#x}"),
                format_args!("{due}: changeable, not saveable"),
            );
        }
        return;
    }
    let wide = nsid == 0;
    let before = known.features.get(&(fid.0, sel)).copied().filter(|_| wide && get.value() == 0);
    let seen = format_args!("{who}: {dw0:#x}");
    match (fid, sel, before) {
        (Feature::NUMBER_OF_QUEUES, 0, Some(v)) => {
            for which in [req::ADM_FEAT_26, req::ADM_FEAT_27] {
                out.check(dw0 == v, which, seen, format_args!("{v:#x}, as granted"));
            }
        }
        (Feature::ASYNC_EVENT_CONFIG, 0, Some(v)) => {
            for which in [req::ADM_FEAT_29, req::ADM_FEAT_17] {
                out.check(dw0 == v, which, seen, format_args!("{v:#x}, as before"));
            }
        }
        (Feature::WRITE_ATOMICITY | Feature::ERROR_RECOVERY, 0, Some(v)) => {
            out.check(dw0 == v, req::ADM_FEAT_17, seen, format_args!("{v:#x}, as before"));
        }
        (_, 1, Some(v)) if fid.0 < 0xc0 => out.check(dw0 == v, req::ADM_FEAT_06, seen, format_args!("{v:#x}, as before")),
        _ => {}
    }
    let saveable = known.features.get(&(fid.0, 3)).map(|v| v & 1 != 0);
    let default = known.features.get(&(fid.0, 1)).filter(|_| sel == 2 && wide && saveable == Some(false));
    if let Some(v) = default {
        out.check(dw0 == *v, req::ADM_FEAT_04, seen, format_args!("{v:#x}, the default of what cannot be saved"));
    }
    fresh(state, fid, sel, dw0, &who, out);
    if fid == Feature::KEEP_ALIVE_TIMER {
        keep_alive(state, sel, dw0, &who, out);
    }
}

/// Values of what nobody has set: a controller that was made for this association has nothing saved for it.
fn fresh(state: &State, fid: Feature, sel: u8, dw0: u32, who: Said, out: &mut Out) {
    let known = &state.known;
    let untouched = sel == 1 || sel == 0 && known.dynamic() && !known.set.contains(&fid.0) && !known.saved.contains(&fid.0);
    if !untouched {
        return;
    }
    let seen = format_args!("{who}: {dw0:#x}");
    match fid {
        // Bits 7:0 ask for critical warnings, which are no optional events.
        Feature::ASYNC_EVENT_CONFIG if known.discovery() != Some(true) && sel == 0 => {
            for which in [req::ADM_AER_08, req::FAB_IDENT_12] {
                out.check(dw0 & 0x7fff_ff00 == 0, which, seen, "no notice that the host has not asked for");
            }
        }
        Feature::ASYNC_EVENT_CONFIG if known.discovery() == Some(true) && known.kato != 0 && sel == 0 => {
            out.check(dw0 & 0x8000_0000 != 0, req::DISC_CTRL_14, seen, "bit 31, since a KATO was given");
        }
        Feature::ERROR_RECOVERY => out.check(dw0 & 0x1_0000 == 0, req::ADM_FEAT_53, seen, "DULBE 0"),
        _ => {}
    }
}

/// In units of KAS, which are 100 ms or more, and never less than what was asked for.
fn keep_alive(state: &State, sel: u8, dw0: u32, who: Said, out: &mut Out) {
    let known = &state.known;
    let seen = format_args!("{who}: {dw0} ms");
    for which in [req::KA_17, req::ADM_FEAT_31] {
        out.check(dw0.is_multiple_of(KAS_UNIT), which, seen, "a multiple of 100 ms, the unit of KAS");
    }
    if sel == 1 {
        for which in [req::ADM_FEAT_33, req::KA_18] {
            out.check(dw0 >= KATO_DEFAULT, which, seen, "120000 ms, rounded up");
        }
    }
    if sel != 0 {
        return;
    }
    // A Set Features under way has removed the value.
    let asked = match known.features.get(&(Feature::KEEP_ALIVE_TIMER.0, 0)) {
        Some(v) => *v,
        None if known.set.contains(&Feature::KEEP_ALIVE_TIMER.0) => return,
        None => known.kato,
    };
    if asked == 0 || known.resets > 0 {
        return;
    }
    for which in [req::KA_17, req::ADM_FEAT_32] {
        out.check(dw0 >= asked, which, seen, format_args!("{asked} ms at least, as asked for"));
    }
    let grain = known.identify.as_ref().map(|i| u32::from(i.kas()) * KAS_UNIT).filter(|g| *g != 0);
    if let Some(grain) = grain {
        out.check(dw0.is_multiple_of(grain), req::KA_17, seen, format_args!("a multiple of {grain} ms, by KAS"));
    }
}

/// Host Behavior Support is as it was set, and all zero at first.
pub(super) fn behavior(state: &State, data: &[u8], who: Said, out: &mut Out) {
    let known = &state.known;
    let due = match known.behavior_data {
        Some(set) => set,
        None if known.dynamic() && !known.behavior => [0; 4],
        None => return,
    };
    let same = data.get(..3) == due.get(..3);
    out.check(
        same,
        req::ADM_FEAT_38,
        format_args!("{who}: {:02x?}", data.get(..3).unwrap_or(&[])),
        format_args!("{:02x?}, as set", &due[..3]),
    );
}

/// The Host Identifier is that of Connect.
pub(super) fn host_id(state: &State, sqe: &Sqe, data: &[u8], who: Said, out: &mut Out) {
    let wide = sqe.cdw11() & 1 == 1;
    let Some(w) = state.known.who.as_ref().filter(|_| wide && data.len() >= 16) else { return };
    for which in [req::HOSTID_03, req::ADM_FEAT_34, req::FAB_CONNECT_18] {
        let same = data.get(..16) == Some(&w.hostid[..]);
        out.check(same, which, format_args!("{who}: another Host Identifier"), "that of Connect");
    }
}
