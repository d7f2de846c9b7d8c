//! Dwords of Set Features and Get Features that belong to one feature.
//!
//! A row is depth, name, first byte, bytes, mask, and how the value is printed.

use crate::fields::Show::{Dec, Flag, Hex};
use crate::fields::{Row, bits, whole};

/// Set Features 01h.
pub static SET_ARBITRATION: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.arb", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.arb.ab", 44, 4, 0x7, Hex(8)),
];

/// Set Features 02h.
pub static SET_POWER_MANAGEMENT: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.pm", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.pm.ps", 44, 4, 0x1f, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.pm.wh", 44, 4, 0xe0, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.pm.rsvd", 44, 4, 0xffffff00, Hex(8)),
];

/// Set Features 03h.
pub static SET_LBA_RANGE: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.lbart", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.lbart.lbarn", 44, 4, 0x3f, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.lbart.rsvd", 44, 4, 0xffffffc0, Hex(8)),
];

/// Set Features 04h.
pub static SET_TEMPERATURE: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.tt", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.tt.tmpth", 44, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.tt.tmpsel", 44, 4, 0xf0000, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.tt.thpsel", 44, 4, 0x300000, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.tt.rsvd", 44, 4, 0xffc00000, Hex(8)),
];

/// Set Features 05h.
pub static SET_ERROR_RECOVERY: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.erec", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.erec.tler", 44, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.erec.dulbe", 44, 4, 0x10000, Flag),
    bits(1, "nvme.cmd.set_features.dword11.erec.rsvd", 44, 4, 0xfffe0000, Hex(8)),
];

/// Set Features 06h.
pub static SET_WRITE_CACHE: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.vwce", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.vwce.wce", 44, 4, 0x1, Flag),
    bits(1, "nvme.cmd.set_features.dword11.vwce.rsvd", 44, 4, 0xfffffffe, Hex(8)),
];

/// Set Features 07h.
pub static SET_QUEUES: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.nq", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.nq.nsqr", 44, 4, 0xffff, Dec),
    bits(1, "nvme.cmd.set_features.dword11.nq.ncqr", 44, 4, 0xffff0000, Dec),
];

/// Set Features 08h.
pub static SET_COALESCING: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.irqc", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.irqc.thr", 44, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.irqc.time", 44, 4, 0xffff0000, Hex(8)),
];

/// Set Features 09h.
pub static SET_VECTOR: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.irqv", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.irqv.iv", 44, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.irqv.cd", 44, 4, 0x10000, Flag),
    bits(1, "nvme.cmd.set_features.dword11.irqv.rsvd", 44, 4, 0xfffe0000, Hex(8)),
];

/// Set Features 0Ah.
pub static SET_ATOMICITY: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.wan", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.wan.dn", 44, 4, 0x1, Flag),
    bits(1, "nvme.cmd.set_features.dword11.wan.rsvd", 44, 4, 0xfffffffe, Hex(8)),
];

/// Set Features 0Bh.
pub static SET_EVENTS: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.aec", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.aec.smart", 44, 4, 0xff, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.aec.ns", 44, 4, 0x100, Flag),
    bits(1, "nvme.cmd.set_features.dword11.aec.fwa", 44, 4, 0x200, Flag),
    bits(1, "nvme.cmd.set_features.dword11.aec.tel", 44, 4, 0x400, Flag),
    bits(1, "nvme.cmd.set_features.dword11.aec.ana", 44, 4, 0x800, Flag),
    bits(1, "nvme.cmd.set_features.dword11.aec.plat", 44, 4, 0x1000, Flag),
    bits(1, "nvme.cmd.set_features.dword11.aec.lba", 44, 4, 0x2000, Flag),
    bits(1, "nvme.cmd.set_features.dword11.aec.eg", 44, 4, 0x4000, Flag),
    bits(1, "nvme.cmd.set_features.dword11.aec.rsvd", 44, 4, 0x7fff8000, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.aec.disc", 44, 4, 0x80000000, Flag),
];

/// Set Features 0Ch.
pub static SET_AUTONOMOUS_POWER: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.apst", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.apst.apste", 44, 4, 0x1, Flag),
    bits(1, "nvme.cmd.set_features.dword11.apst.rsvd", 44, 4, 0xfffffffe, Hex(8)),
];

/// Set Features 0Fh.
pub static SET_KEEP_ALIVE: &[Row] =
    &[whole(0, "nvme.cmd.set_features.dword11.kat", 44, 4, Hex(8)), whole(1, "nvme.cmd.set_features.dword11.kat.kato", 44, 4, Dec)];

/// Set Features 10h.
pub static SET_THERMAL: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.hctm", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.hctm.tmt2", 44, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.hctm.tmt1", 44, 4, 0xffff0000, Hex(8)),
];

/// Set Features 11h.
pub static SET_NON_OPERATIONAL: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.nops", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.nops.noppme", 44, 4, 0x1, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.nops.rsvd", 44, 4, 0xfffffffe, Hex(8)),
];

/// Get Features 12h.
pub static GET_RECOVERY_LEVEL: &[Row] = &[
    whole(0, "nvme.cmd.get_features.dword11.rrl", 44, 4, Hex(8)),
    bits(1, "nvme.cmd_get_features.dword11.rrl.nvmsetid", 44, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cmd.get_features.dword11.rrl.rsvd", 44, 4, 0xffff0000, Hex(8)),
];

/// Set Features 12h.
pub static SET_RECOVERY_LEVEL: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.rrl", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.rrl.nvmsetid", 44, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.rrl.rsvd", 44, 4, 0xffff0000, Hex(8)),
    whole(0, "nvme.cmd.set_features.dword12.rrl", 48, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword12.rrl.rrl", 48, 4, 0xf, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword12.rrl.rsvd", 48, 4, 0xfffffff0, Hex(8)),
];

/// Get Features 13h.
pub static GET_PREDICTABLE: &[Row] = &[
    whole(0, "nvme.cmd.get_features.dword11.plmc", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.get_features.dword11.plmc.nvmsetid", 44, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cmd.get_features.dword11.plmc.rsvd", 44, 4, 0xffff0000, Hex(8)),
];

/// Set Features 13h.
pub static SET_PREDICTABLE: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.plmc", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.plmc.nvmsetid", 44, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.plmc.rsvd", 44, 4, 0xffff0000, Hex(8)),
    whole(0, "nvme.cmd.set_features.dword12.plmc", 48, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword12.plmc.ple", 48, 4, 0x1, Flag),
    bits(1, "nvme.cmd.set_features.dword12.plmc.rsvd", 48, 4, 0xfffffffe, Hex(8)),
];

/// Get Features 14h.
pub static GET_PREDICTABLE_WINDOW: &[Row] = &[
    whole(0, "nvme.cmd.get_features.dword11.plmw", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.get_features.dword11.plmw.nvmsetid", 44, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cmd.get_features.dword11.plmw.rsvd", 44, 4, 0xffff0000, Hex(8)),
];

/// Set Features 14h.
pub static SET_PREDICTABLE_WINDOW: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.plmw", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.plmw.nvmsetid", 44, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.plmw.rsvd", 44, 4, 0xffff0000, Hex(8)),
    whole(0, "nvme.cmd.set_features.dword12.plmw", 48, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword12.plmw.ws", 48, 4, 0x7, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword12.plmw.rsvd", 48, 4, 0xfffffff8, Hex(8)),
];

/// Set Features 15h.
pub static SET_LBA_STATUS: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.lbasi", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.lbasi.lsiri", 44, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.lbasi.lsipi", 44, 4, 0xffff0000, Hex(8)),
];

/// Set Features 17h.
pub static SET_SANITIZE: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.san", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.san.nodrm", 44, 4, 0x1, Flag),
    bits(1, "nvme.cmd.set_features.dword11.san.rsvd", 44, 4, 0xfffffffe, Hex(8)),
];

/// Set Features 18h.
pub static SET_ENDURANCE: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.eg", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.eg.endgid", 44, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.eg.egcw", 44, 4, 0xff0000, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.eg.rsvd", 44, 4, 0xff000000, Hex(8)),
];

/// Set Features 80h.
pub static SET_PROGRESS: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.swp", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.swp.pbslc", 44, 4, 0xff, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.swp.rsvd", 44, 4, 0xffffff00, Hex(8)),
];

/// Set Features 81h.
pub static SET_HOST_ID: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.hid", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.hid.exhid", 44, 4, 0x1, Flag),
    bits(1, "nvme.cmd.set_features.dword11.hid.rsvd", 44, 4, 0xfffffffe, Hex(8)),
];

/// Set Features 82h.
pub static SET_RESERVATION_MASK: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.rsrvn", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.rsrvn.rsvd0", 44, 4, 0x1, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.rsrvn.regpre", 44, 4, 0x2, Flag),
    bits(1, "nvme.cmd.set_features.dword11.rsrvn.resrel", 44, 4, 0x4, Flag),
    bits(1, "nvme.cmd.set_features.dword11.rsrvn.resrpe", 44, 4, 0x8, Flag),
    bits(1, "nvme.cmd.set_features.dword11.rsrvn.rsvd1", 44, 4, 0xfffffff0, Hex(8)),
];

/// Set Features 83h.
pub static SET_RESERVATION_PERSISTENCE: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.rsrvp", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.rsrvp.ptpl", 44, 4, 0x1, Flag),
    bits(1, "nvme.cmd.set_features.dword11.rsrvp.rsvd", 44, 4, 0xfffffffe, Hex(8)),
];

/// Set Features 84h.
pub static SET_WRITE_PROTECTION: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword11.nswp", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.nswp.wps", 44, 4, 0x7, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword11.nswp.rsvd", 44, 4, 0xfffffff8, Hex(8)),
];

/// Dwords 11 and 12 of Set Features, by feature.
pub fn set(fid: u8) -> Option<&'static [Row]> {
    Some(match fid {
        0x01 => SET_ARBITRATION,
        0x02 => SET_POWER_MANAGEMENT,
        0x03 => SET_LBA_RANGE,
        0x04 => SET_TEMPERATURE,
        0x05 => SET_ERROR_RECOVERY,
        0x06 => SET_WRITE_CACHE,
        0x07 => SET_QUEUES,
        0x08 => SET_COALESCING,
        0x09 => SET_VECTOR,
        0x0a => SET_ATOMICITY,
        0x0b => SET_EVENTS,
        0x0c => SET_AUTONOMOUS_POWER,
        0x0f => SET_KEEP_ALIVE,
        0x10 => SET_THERMAL,
        0x11 => SET_NON_OPERATIONAL,
        0x12 => SET_RECOVERY_LEVEL,
        0x13 => SET_PREDICTABLE,
        0x14 => SET_PREDICTABLE_WINDOW,
        0x15 => SET_LBA_STATUS,
        0x17 => SET_SANITIZE,
        0x18 => SET_ENDURANCE,
        0x80 => SET_PROGRESS,
        0x81 => SET_HOST_ID,
        0x82 => SET_RESERVATION_MASK,
        0x83 => SET_RESERVATION_PERSISTENCE,
        0x84 => SET_WRITE_PROTECTION,
        _ => return None,
    })
}

/// Dword 11 of Get Features, by feature.
pub fn get(fid: u8) -> Option<&'static [Row]> {
    Some(match fid {
        0x12 => GET_RECOVERY_LEVEL,
        0x13 => GET_PREDICTABLE,
        0x14 => GET_PREDICTABLE_WINDOW,
        _ => return None,
    })
}
