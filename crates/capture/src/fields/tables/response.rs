//! Answers, under Wireshark's names.
//!
//! A row is depth, name, first byte, bytes, mask, and how the value is printed.

use crate::fields::Show::{Bytes, Dec, Flag, Hex};
use crate::fields::{Row, bits, whole};

/// Dword 0 of the answer to an Asynchronous Event Request.
pub static AER: &[Row] = &[
    whole(0, "nvme.cqe.dword0.aev", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.aev.aet", 0, 4, 0x7, Hex(8)),
    bits(1, "nvme.cqe.dword0.aev.rsvd0", 0, 4, 0xf8, Hex(8)),
    bits(1, "nvme.cqe.dword0.aev.aei", 0, 4, 0xff00, Hex(8)),
    bits(1, "nvme.cqe.dword0.aev.lpi", 0, 4, 0xff0000, Dec),
    bits(1, "nvme.cqe.dword0.aev.rsvd1", 0, 4, 0xff000000, Hex(8)),
];

/// Dwords 2 and 3 of a CQE.
pub static CQE: &[Row] = &[
    whole(0, "nvme.cqe.sqhd", 8, 2, Hex(4)),
    whole(0, "nvme.cqe.sqid", 10, 2, Hex(4)),
    whole(0, "nvme.cqe.cid", 12, 2, Hex(4)),
    whole(0, "nvme.cqe.status", 14, 2, Hex(4)),
    bits(1, "nvme.cqe.status.p", 14, 2, 0x1, Hex(4)),
    bits(1, "nvme.cqe.status.sc", 14, 2, 0x1fe, Hex(4)),
    bits(1, "nvme.cqe.status.sct", 14, 2, 0xe00, Hex(4)),
    bits(1, "nvme.cqe.status.crd", 14, 2, 0x3000, Hex(4)),
    bits(1, "nvme.cqe.status.m", 14, 2, 0x4000, Flag),
    bits(1, "nvme.cqe.status.dnr", 14, 2, 0x8000, Flag),
];

/// Dwords 0 and 1 of a CQE.
pub static CQE_DWORDS: &[Row] = &[whole(0, "nvme.cqe.dword0", 0, 4, Hex(8)), whole(0, "nvme.cqe.dword1", 4, 4, Hex(8))];

/// Dword 0 of the answer to Get Features 01h.
pub static GOT_ARBITRATION: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.arb", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.arb.ab", 0, 4, 0x7, Hex(8)),
];

/// Dword 0 of the answer to Get Features 02h.
pub static GOT_POWER_MANAGEMENT: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.pm", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.pm.ps", 0, 4, 0x1f, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.pm.wh", 0, 4, 0xe0, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.pm.rsvd", 0, 4, 0xffffff00, Hex(8)),
];

/// Dword 0 of the answer to Get Features 03h.
pub static GOT_LBA_RANGE: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.lbart", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.lbart.lbarn", 0, 4, 0x3f, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.lbart.rsvd", 0, 4, 0xffffffc0, Hex(8)),
];

/// Dword 0 of the answer to Get Features 04h.
pub static GOT_TEMPERATURE: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.tt", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.tt.tmpth", 0, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.tt.tmpsel", 0, 4, 0xf0000, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.tt.thpsel", 0, 4, 0x300000, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.tt.rsvd", 0, 4, 0xffc00000, Hex(8)),
];

/// Dword 0 of the answer to Get Features 05h.
pub static GOT_ERROR_RECOVERY: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.erec", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.erec.tler", 0, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.erec.dulbe", 0, 4, 0x10000, Flag),
    bits(1, "nvme.cqe.dword0.get_features.erec.rsvd", 0, 4, 0xfffe0000, Hex(8)),
];

/// Dword 0 of the answer to Get Features 06h.
pub static GOT_WRITE_CACHE: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.vwce", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.vwce.wce", 0, 4, 0x1, Flag),
    bits(1, "nvme.cqe.dword0.get_features.vwce.rsvd", 0, 4, 0xfffffffe, Hex(8)),
];

/// Dword 0 of the answer to Get Features 07h.
pub static GOT_QUEUES: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.nq", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.nq.nsqa", 0, 4, 0xffff, Dec),
    bits(1, "nvme.cqe.dword0.get_features.nq.ncqa", 0, 4, 0xffff0000, Dec),
];

/// Dword 0 of the answer to Set Features 07h.
pub static DONE_QUEUES: &[Row] = &[
    whole(0, "nvme.cqe.dword0.set_features.nq", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.set_features.nq.nsqa", 0, 4, 0xffff, Dec),
    bits(1, "nvme.cqe.dword0.set_features.ncqa", 0, 4, 0xffff0000, Dec),
];

/// Dword 0 of the answer to Get Features 08h.
pub static GOT_COALESCING: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.irqc", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.irqc.thr", 0, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.irqc.time", 0, 4, 0xffff0000, Hex(8)),
];

/// Dword 0 of the answer to Get Features 09h.
pub static GOT_VECTOR: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.irqv", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.irqv.iv", 0, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.irqv.cd", 0, 4, 0x10000, Flag),
    bits(1, "nvme.cqe.dword0.get_features.irqv.rsvd", 0, 4, 0xfffe0000, Hex(8)),
];

/// Dword 0 of the answer to Get Features 0Ah.
pub static GOT_ATOMICITY: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.wan", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.wan.dn", 0, 4, 0x1, Flag),
    bits(1, "nvme.cqe.dword0.get_features.wan.rsvd", 0, 4, 0xfffffffe, Hex(8)),
];

/// Dword 0 of the answer to Get Features 0Bh.
pub static GOT_EVENTS: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.aec", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.aec.smart", 0, 4, 0xff, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.aec.ns", 0, 4, 0x100, Flag),
    bits(1, "nvme.cqe.dword0.get_features.aec.fwa", 0, 4, 0x200, Flag),
    bits(1, "nvme.cqe.dword0.get_features.aec.tel", 0, 4, 0x400, Flag),
    bits(1, "nvme.cqe.dword0.get_features.aec.ana", 0, 4, 0x800, Flag),
    bits(1, "nvme.cqe.dword0.get_features.aec.plat", 0, 4, 0x1000, Flag),
    bits(1, "nvme.cqe.dword0.get_features.aec.lba", 0, 4, 0x2000, Flag),
    bits(1, "nvme.cqe.dword0.get_features.aec.eg", 0, 4, 0x4000, Flag),
    bits(1, "nvme.cqe.dword0.get_features.aec.rsvd", 0, 4, 0x7fff8000, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.aec.disc", 0, 4, 0x80000000, Flag),
];

/// Dword 0 of the answer to Get Features 0Ch.
pub static GOT_AUTONOMOUS_POWER: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.apst", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.apst.apste", 0, 4, 0x1, Flag),
    bits(1, "nvme.cqe.dword0.get_features.apst.rsvd", 0, 4, 0xfffffffe, Hex(8)),
];

/// Dword 0 of the answer to Get Features 0Fh.
pub static GOT_KEEP_ALIVE: &[Row] =
    &[whole(0, "nvme.cqe.dword0.get_features.kat", 0, 4, Hex(8)), whole(1, "nvme.cqe.dword0.get_features.kat.kato", 0, 4, Dec)];

/// Dword 0 of the answer to Get Features 10h.
pub static GOT_THERMAL: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.hctm", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.hctm.tmt2", 0, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.hctm.tmt1", 0, 4, 0xffff0000, Hex(8)),
];

/// Dword 0 of the answer to Get Features 11h.
pub static GOT_NON_OPERATIONAL: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.nops", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.nops.noppme", 0, 4, 0x1, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.nops.rsvd", 0, 4, 0xfffffffe, Hex(8)),
];

/// Dword 0 of the answer to Get Features 12h.
pub static GOT_RECOVERY_LEVEL: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.rrl", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.rrl.rrl", 0, 4, 0xf, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.rrl.rsvd", 0, 4, 0xfffffff0, Hex(8)),
];

/// Dword 0 of the answer to Get Features 13h.
pub static GOT_PREDICTABLE: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.plmc", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.plmc.ple", 0, 4, 0x1, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.plmc.rsvd", 0, 4, 0xfffffffe, Hex(8)),
];

/// Dword 0 of the answer to Get Features 14h.
pub static GOT_PREDICTABLE_WINDOW: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.plmw", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.plmw.nvmsetid", 0, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.plmw.rsvd", 0, 4, 0xffff0000, Hex(8)),
];

/// Dword 0 of the answer to Get Features 15h.
pub static GOT_LBA_STATUS: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.lbasi", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.lbasi.lsiri", 0, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.lbasi.lsipi", 0, 4, 0xffff0000, Hex(8)),
];

/// Dword 0 of the answer to Get Features 17h.
pub static GOT_SANITIZE: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.san", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.san.nodrm", 0, 4, 0x1, Flag),
    bits(1, "nvme.cqe.dword0.get_features.san.rsvd", 0, 4, 0xfffffffe, Hex(8)),
];

/// Dword 0 of the answer to Get Features 18h.
pub static GOT_ENDURANCE: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.eg", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.eg.endgid", 0, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.eg.egcw", 0, 4, 0xff0000, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.eg.rsvd", 0, 4, 0xff000000, Hex(8)),
];

/// Dword 0 of the answer to Get Features 80h.
pub static GOT_PROGRESS: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.swp", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.swp.pbslc", 0, 4, 0xff, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.swp.rsvd", 0, 4, 0xffffff00, Hex(8)),
];

/// Dword 0 of the answer to Get Features 81h.
pub static GOT_HOST_ID: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.hid", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.hid.exhid", 0, 4, 0x1, Flag),
    bits(1, "nvme.cqe.dword0.get_features.hid.rsvd", 0, 4, 0xfffffffe, Hex(8)),
];

/// Dword 0 of the answer to Get Features 82h.
pub static GOT_RESERVATION_MASK: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.rsrvn", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.rsrvn.rsvd0", 0, 4, 0x1, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.rsrvn.regpre", 0, 4, 0x2, Flag),
    bits(1, "nvme.cqe.dword0.get_features.rsrvn.resrel", 0, 4, 0x4, Flag),
    bits(1, "nvme.cqe.dword0.get_features.rsrvn.resrpe", 0, 4, 0x8, Flag),
    bits(1, "nvme.cqe.dword0.get_features.rsrvn.rsvd1", 0, 4, 0xfffffff0, Hex(8)),
];

/// Dword 0 of the answer to Get Features 83h.
pub static GOT_RESERVATION_PERSISTENCE: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.rsrvp", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.rsrvp.ptpl", 0, 4, 0x1, Flag),
    bits(1, "nvme.cqe.dword0.get_features.rsrvp.rsvd", 0, 4, 0xfffffffe, Hex(8)),
];

/// Dword 0 of the answer to Get Features 84h.
pub static GOT_WRITE_PROTECTION: &[Row] = &[
    whole(0, "nvme.cqe.dword0.get_features.nswp", 0, 4, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.nswp.wps", 0, 4, 0x7, Hex(8)),
    bits(1, "nvme.cqe.dword0.get_features.nswp.rsvd", 0, 4, 0xfffffff8, Hex(8)),
];

/// Dword 0 of the answer to Set Features, by feature.
pub fn set_features(fid: u8) -> Option<&'static [Row]> {
    Some(match fid {
        0x07 => DONE_QUEUES,
        _ => return None,
    })
}

/// Dword 0 of the answer to Get Features, by feature.
pub fn get_features(fid: u8) -> Option<&'static [Row]> {
    Some(match fid {
        0x01 => GOT_ARBITRATION,
        0x02 => GOT_POWER_MANAGEMENT,
        0x03 => GOT_LBA_RANGE,
        0x04 => GOT_TEMPERATURE,
        0x05 => GOT_ERROR_RECOVERY,
        0x06 => GOT_WRITE_CACHE,
        0x07 => GOT_QUEUES,
        0x08 => GOT_COALESCING,
        0x09 => GOT_VECTOR,
        0x0a => GOT_ATOMICITY,
        0x0b => GOT_EVENTS,
        0x0c => GOT_AUTONOMOUS_POWER,
        0x0f => GOT_KEEP_ALIVE,
        0x10 => GOT_THERMAL,
        0x11 => GOT_NON_OPERATIONAL,
        0x12 => GOT_RECOVERY_LEVEL,
        0x13 => GOT_PREDICTABLE,
        0x14 => GOT_PREDICTABLE_WINDOW,
        0x15 => GOT_LBA_STATUS,
        0x17 => GOT_SANITIZE,
        0x18 => GOT_ENDURANCE,
        0x80 => GOT_PROGRESS,
        0x81 => GOT_HOST_ID,
        0x82 => GOT_RESERVATION_MASK,
        0x83 => GOT_RESERVATION_PERSISTENCE,
        0x84 => GOT_WRITE_PROTECTION,
        _ => return None,
    })
}

/// The value of property 00h, 8 bytes.
pub static PROPERTY_CAP: &[Row] = &[
    whole(0, "nvme.fabrics.prop_get_set.data", 0, 8, Bytes),
    whole(1, "nvme.fabrics.prop_get.ccap", 0, 8, Hex(16)),
    bits(2, "nvme.fabrics.prop_get.ccap.mqes", 0, 8, 0xffff, Dec),
    bits(2, "nvme.fabrics.prop_get.ccap.cqr", 0, 8, 0x10000, Flag),
    bits(2, "nvme.fabrics.prop_get.ccap.ams.wrr", 0, 8, 0x20000, Flag),
    bits(2, "nvme.fabrics.prop_get.ccap.ams.vs", 0, 8, 0x40000, Flag),
    bits(2, "nvme.fabrics.prop_get.ccap.rsvd0", 0, 8, 0xf80000, Hex(16)),
    bits(2, "nvme.fabrics.prop_get.ccap.to", 0, 8, 0xff000000, Dec),
    bits(2, "nvme.fabrics.prop_get.ccap.dstrd", 0, 8, 0xf00000000, Dec),
    bits(2, "nvme.fabrics.prop_get.ccap.nssrs", 0, 8, 0x1000000000, Flag),
    bits(2, "nvme.fabrics.prop_get.ccap.css", 0, 8, 0x1fe000000000, Dec),
    bits(2, "nvme.fabrics.prop_get.ccap.bps", 0, 8, 0x200000000000, Flag),
    bits(2, "nvme.fabrics.prop_get.ccap.rsdv1", 0, 8, 0xc00000000000, Hex(16)),
    bits(2, "nvme.fabrics.prop_get.ccap.mpsmin", 0, 8, 0xf000000000000, Dec),
    bits(2, "nvme.fabrics.prop_get.ccap.mpsmax", 0, 8, 0xf0000000000000, Dec),
    bits(2, "nvme.fabrics.prop_get.ccap.pmrs", 0, 8, 0x100000000000000, Flag),
    bits(2, "nvme.fabrics.prop_get.ccap.cmbs", 0, 8, 0x200000000000000, Flag),
    bits(2, "nvme.fabrics.prop_get.ccap.rsvd2", 0, 8, 0xfc00000000000000, Hex(16)),
];

/// The value of property 08h, 8 bytes.
pub static PROPERTY_VS: &[Row] = &[
    whole(0, "nvme.fabrics.prop_get_set.data", 0, 8, Bytes),
    whole(1, "nvme.fabrics.prop_get.vs", 0, 4, Hex(8)),
    bits(2, "nvme.fabrics.prop_get.vs.ter", 0, 4, 0xff, Dec),
    bits(2, "nvme.fabrics.prop_get.vs.mnr", 0, 4, 0xff00, Dec),
    bits(2, "nvme.fabrics.prop_get.vs.mjr", 0, 4, 0xffff0000, Dec),
    whole(1, "nvme.fabrics.prop_get_set.data.rsvd", 4, 4, Hex(8)),
];

/// The value of a property without a table of its own, 8 bytes.
pub static PROPERTY_OTHER: &[Row] =
    &[whole(0, "nvme.fabrics.prop_get_set.data", 0, 8, Bytes), whole(1, "nvme.fabrics.prop_get_set.data.8B", 0, 8, Hex(16))];

/// The value of property 14h, 8 bytes.
pub static PROPERTY_CC: &[Row] = &[
    whole(0, "nvme.fabrics.prop_get_set.data", 0, 8, Bytes),
    whole(1, "nvme.fabrics.prop_get_set.cc", 0, 4, Hex(8)),
    bits(2, "nvme.fabrics.prop_get_set.cc.en", 0, 4, 0x1, Hex(8)),
    bits(2, "nvme.fabrics.prop_get_set.cc.rsvd0", 0, 4, 0xe, Hex(8)),
    bits(2, "nvme.fabrics.prop_get_set.cc.css", 0, 4, 0x70, Hex(8)),
    bits(2, "nvme.fabrics.prop_get_set.cc.mps", 0, 4, 0x780, Dec),
    bits(2, "nvme.fabrics.prop_get_set.cc.ams", 0, 4, 0x3800, Hex(8)),
    bits(2, "nvme.fabrics.prop_get_set.cc.shn", 0, 4, 0xc000, Hex(8)),
    bits(2, "nvme.fabrics.prop_get_set.cc.iosqes", 0, 4, 0xf0000, Dec),
    bits(2, "nvme.fabrics.prop_get_set.cc.iocqes", 0, 4, 0xf00000, Dec),
    bits(2, "nvme.fabrics.prop_get_set.cc.rsvd1", 0, 4, 0xff000000, Hex(8)),
    whole(1, "nvme.fabrics.prop_get_set.data.rsvd", 4, 4, Hex(8)),
];

/// The value of property 1Ch, 8 bytes.
pub static PROPERTY_CSTS: &[Row] = &[
    whole(0, "nvme.fabrics.prop_get_set.data", 0, 8, Bytes),
    whole(1, "nvme.fabrics.prop_get_set.csts", 0, 4, Hex(8)),
    bits(2, "nvme.fabrics.prop_get_set.csts.rdy", 0, 4, 0x1, Hex(8)),
    bits(2, "nvme.fabrics.prop_get_set.csts.cfs", 0, 4, 0x2, Hex(8)),
    bits(2, "nvme.fabrics.prop_get_set.csts.shst", 0, 4, 0xc, Hex(8)),
    bits(2, "nvme.fabrics.prop_get_set.csts.nssro", 0, 4, 0x10, Hex(8)),
    bits(2, "nvme.fabrics.prop_get_set.csts.pp", 0, 4, 0x20, Hex(8)),
    bits(2, "nvme.fabrics.prop_get_set.csts.rsvd", 0, 4, 0xffffffc0, Hex(8)),
    whole(1, "nvme.fabrics.prop_get_set.data.rsvd", 4, 4, Hex(8)),
];

/// The value of property 20h, 8 bytes.
pub static PROPERTY_NSSR: &[Row] =
    &[whole(0, "nvme.fabrics.prop_get_set.data", 0, 8, Bytes), whole(1, "nvme.fabrics.prop_get_set.data.rsvd", 4, 4, Hex(8))];

/// Dwords 0 and 1 of the answer to a Connect.
pub static CONNECTED: &[Row] = &[
    whole(0, "nvme.fabrics.cqe.connect.cntrlid", 0, 2, Hex(4)),
    whole(0, "nvme.fabrics.cqe.connect.authreq", 2, 2, Hex(4)),
    whole(0, "nvme.fabrics.cqe.connect.rsvd", 4, 4, Bytes),
];

/// Dwords 2 and 3 of a CQE for a Fabrics command.
pub static FABRICS_CQE: &[Row] = &[
    whole(0, "nvme.cqe.sqhd", 8, 2, Hex(4)),
    whole(0, "nvme.cqe.sqid", 10, 2, Hex(4)),
    whole(0, "nvme.cqe.cid", 12, 2, Hex(4)),
    whole(0, "nvme.cqe.status", 14, 2, Hex(4)),
    bits(1, "nvme.cqe.status.rsvd", 14, 2, 0x1, Hex(4)),
    bits(1, "nvme.cqe.status.sc", 14, 2, 0x1fe, Hex(4)),
    bits(1, "nvme.cqe.status.sct", 14, 2, 0xe00, Hex(4)),
    bits(1, "nvme.cqe.status.crd", 14, 2, 0x3000, Hex(4)),
    bits(1, "nvme.cqe.status.m", 14, 2, 0x4000, Flag),
    bits(1, "nvme.cqe.status.dnr", 14, 2, 0x8000, Flag),
];
