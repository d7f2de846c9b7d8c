//! Data of Get Log Page, under Wireshark's names.
//!
//! A row is depth, name, first byte, bytes, mask, and how the value is printed.

use crate::fields::Show::{Bytes, Dec, Flag, Hex, Text};
use crate::fields::{Row, bits, whole};

/// An entry of Error Information, 64 bytes.
pub static ERROR: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.errinf.errcnt", 0, 8, Dec),
    whole(0, "nvme.cmd.get_logpage.errinf.sqid", 8, 2, Dec),
    whole(0, "nvme.cmd.get_logpage.errinf.cid", 10, 2, Hex(4)),
    whole(0, "nvme.cmd.get_logpage.errinf.sf", 12, 2, Hex(4)),
    bits(1, "nvme.cmd.get_logpage.errinf.sf.val", 12, 2, 0x7fff, Hex(4)),
    bits(1, "nvme.cmd.get_logpage.errinf.sf.ptag", 12, 2, 0x8000, Hex(4)),
    whole(0, "nvme.cmd.get_logpage.errinf.pel", 14, 2, Hex(4)),
    bits(1, "nvme.cmd.get_logpage.errinf.pel.bytee", 14, 2, 0xff, Dec),
    bits(1, "nvme.cmd.get_logpage.errinf.pel.bite", 14, 2, 0x700, Dec),
    bits(1, "nvme.cmd.get_logpage.errinf.pel.rsvd", 14, 2, 0xf800, Dec),
    whole(0, "nvme.cmd.get_logpage.errinf.lba", 16, 8, Hex(16)),
    whole(0, "nvme.cmd.get_logpage.errinf.nsid", 24, 4, Hex(8)),
    whole(0, "nvme.cmd.get_logpage.errinf.vsi", 28, 1, Hex(2)),
    whole(0, "nvme.cmd.get_logpage.errinf.trype", 29, 1, Hex(2)),
    whole(0, "nvme.cmd.get_logpage.errinf.rsvd0", 30, 2, Hex(4)),
    whole(0, "nvme.cmd.get_logpage.errinf.csi", 32, 8, Hex(16)),
    whole(0, "nvme.cmd.get_logpage.errinf.tsi", 40, 2, Hex(4)),
    whole(0, "nvme.cmd.get_logpage.errinf.rsvd1", 42, 22, Bytes),
];

/// SMART / Health Information.
pub static SMART: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.smart.cw", 0, 1, Hex(2)),
    bits(1, "nvme.cmd.get_logpage.smart.cw.sc", 0, 1, 0x1, Flag),
    bits(1, "nvme.cmd.get_logpage.smart.cw.temp", 0, 1, 0x2, Flag),
    bits(1, "nvme.cmd.get_logpage.smart.cw.sme", 0, 1, 0x4, Flag),
    bits(1, "nvme.cmd.get_logpage.smart.cw.ro", 0, 1, 0x8, Flag),
    bits(1, "nvme.cmd.get_logpage.smart.cw.bdf", 0, 1, 0x10, Flag),
    bits(1, "nvme.cmd.get_logpage.smart.cw.mrro", 0, 1, 0x20, Flag),
    bits(1, "nvme.cmd.get_logpage.smart.cw.rsvd", 0, 1, 0xe0, Hex(2)),
    whole(0, "nvme.cmd.get_logpage.smart.ct", 1, 2, Dec),
    whole(0, "nvme.cmd.get_logpage.smart.asc", 3, 1, Dec),
    whole(0, "nvme.cmd.get_logpage.smart.ast", 4, 1, Dec),
    whole(0, "nvme.cmd.get_logpage.smart.lae", 5, 1, Dec),
    whole(0, "nvme.cmd.get_logpage.smart.egcws", 6, 1, Hex(2)),
    bits(1, "nvme.cmd.get_logpage.smart.egcws.sc", 6, 1, 0x1, Flag),
    bits(1, "nvme.cmd.get_logpage.smart.egcws.rsvd0", 6, 1, 0x2, Flag),
    bits(1, "nvme.cmd.get_logpage.smart.egcws.me", 6, 1, 0x4, Flag),
    bits(1, "nvme.cmd.get_logpage.smart.egcws.ro", 6, 1, 0x8, Flag),
    bits(1, "nvme.cmd.get_logpage.smart.egcws.rsvd1", 6, 1, 0xf0, Hex(2)),
    whole(0, "nvme.cmd.get_logpage.smart.rsvd0", 7, 25, Bytes),
    whole(0, "nvme.cmd.get_logpage.smart.dur", 32, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.smart.duw", 48, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.smart.hrc", 64, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.smart.hwc", 80, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.smart.cbt", 96, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.smart.pc", 112, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.smart.poh", 128, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.smart.us", 144, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.smart.mie", 160, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.smart.ele", 176, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.smart.wctt", 192, 4, Dec),
    whole(0, "nvme.cmd.get_logpage.smart.cctt", 196, 4, Dec),
    whole(0, "nvme.cmd.get_logpage.smart.ts", 200, 16, Bytes),
    whole(1, "nvme.cmd.get_logpage.smart.ts.s1", 200, 2, Dec),
    whole(1, "nvme.cmd.get_logpage.smart.ts.s2", 202, 2, Dec),
    whole(1, "nvme.cmd.get_logpage.smart.ts.s3", 204, 2, Dec),
    whole(1, "nvme.cmd.get_logpage.smart.ts.s4", 206, 2, Dec),
    whole(1, "nvme.cmd.get_logpage.smart.ts.s5", 208, 2, Dec),
    whole(1, "nvme.cmd.get_logpage.smart.ts.s6", 210, 2, Dec),
    whole(1, "nvme.cmd.get_logpage.smart.ts.s7", 212, 2, Dec),
    whole(1, "nvme.cmd.get_logpage.smart.ts.s8", 214, 2, Dec),
    whole(0, "nvme.cmd.get_logpage.smart.tmt1c", 216, 4, Dec),
    whole(0, "nvme.cmd.get_logpage.smart.tmt2c", 220, 4, Dec),
    whole(0, "nvme.cmd.get_logpage.smart.tmt1t", 224, 4, Dec),
    whole(0, "nvme.cmd.get_logpage.smart.tmt2t", 228, 4, Dec),
    whole(0, "nvme.cmd.get_logpage.smart.rsvd1", 232, 280, Bytes),
];

/// Firmware Slot Information.
pub static FIRMWARE: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.fw_slot.afi", 0, 1, Hex(2)),
    bits(1, "nvme.cmd.get_logpage.fw_slot.afi.afs", 0, 1, 0x7, Hex(2)),
    bits(1, "nvme.cmd.get_logpage.fw_slot.afi.rsvd0", 0, 1, 0x8, Hex(2)),
    bits(1, "nvme.cmd.get_logpage.fw_slot.afi.nfs", 0, 1, 0x70, Hex(2)),
    bits(1, "nvme.cmd.get_logpage.fw_slot.afi.rsvd1", 0, 1, 0x80, Hex(2)),
    whole(0, "nvme.cmd.get_logpage.fw_slot.rsvd0", 1, 7, Hex(16)),
    whole(0, "nvme.cmd.get_logpage.fw_slot.frs", 8, 56, Bytes),
    whole(1, "nvme.cmd.get_logpage.fw_slot.frs.s1", 8, 8, Hex(16)),
    whole(1, "nvme.cmd.get_logpage.fw_slot.frs.s2", 16, 8, Hex(16)),
    whole(1, "nvme.cmd.get_logpage.fw_slot.frs.s3", 24, 8, Hex(16)),
    whole(1, "nvme.cmd.get_logpage.fw_slot.frs.s4", 32, 8, Hex(16)),
    whole(1, "nvme.cmd.get_logpage.fw_slot.frs.s5", 40, 8, Hex(16)),
    whole(1, "nvme.cmd.get_logpage.fw_slot.frs.s6", 48, 8, Hex(16)),
    whole(1, "nvme.cmd.get_logpage.fw_slot.frs.s7", 56, 8, Hex(16)),
    whole(0, "nvme.cmd.get_logpage.fw_slot.rsvd1", 64, 448, Bytes),
];

/// Device Self-test, head.
pub static SELF_TEST: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.selftest.csto", 0, 1, Hex(2)),
    bits(1, "nvme.cmd.get_logpage.selftest.csto.st", 0, 1, 0xf, Hex(2)),
    bits(1, "nvme.cmd.get_logpage.selftest.csto.rsvd", 0, 1, 0xf0, Hex(2)),
    whole(0, "nvme.cmd.get_logpage.selftest.cstc", 1, 1, Hex(2)),
    bits(1, "nvme.cmd.get_logpage.selftest.cstc.pcnt", 1, 1, 0x7f, Dec),
    bits(1, "nvme.cmd.get_logpage.selftest.cstc.rsvd", 1, 1, 0x80, Hex(2)),
    bits(0, "nvme.cmd.get_logpage.selftest.rsvd", 2, 2, 0x80, Hex(4)),
];

/// A result of Device Self-test, 28 bytes.
pub static SELF_TEST_RESULT: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.selftest.res", 0, 24, Bytes),
    whole(1, "nvme.cmd.get_logpage.selftest.res.status", 0, 1, Hex(2)),
    bits(2, "nvme.cmd.get_logpage.selftest.res.status.result", 0, 1, 0xf, Hex(2)),
    bits(2, "nvme.cmd.get_logpage.selftest.res.status.type", 0, 1, 0xf0, Hex(2)),
    whole(1, "nvme.cmd.get_logpage.selftest.res.sn", 1, 1, Dec),
    whole(1, "nvme.cmd.get_logpage.selftest.res.vdi", 2, 1, Hex(2)),
    bits(2, "nvme.cmd.get_logpage.selftest.res.vdi.nsid", 2, 1, 0x1, Flag),
    bits(2, "nvme.cmd.get_logpage.selftest.res.vdi.flba", 2, 1, 0x2, Flag),
    bits(2, "nvme.cmd.get_logpage.selftest.res.vdi.sct", 2, 1, 0x4, Flag),
    bits(2, "nvme.cmd.get_logpage.selftest.res.vdi.sc", 2, 1, 0x8, Flag),
    bits(2, "nvme.cmd.get_logpage.selftest.res.vdi.rsvd", 2, 1, 0xf0, Flag),
    whole(1, "nvme.cmd.get_logpage.selftest.res.rsvd", 3, 1, Hex(2)),
    whole(1, "nvme.cmd.get_logpage.selftest.res.poh", 4, 8, Dec),
    whole(1, "nvme.cmd.get_logpage.selftest.res.nsid", 12, 4, Hex(8)),
    whole(1, "nvme.cmd.get_logpage.selftest.res.flba", 16, 8, Hex(16)),
    whole(1, "nvme.cmd.get_logpage.selftest.res.sct", 24, 1, Hex(2)),
    bits(2, "nvme.cmd.get_logpage.selftest.res.sct.ai", 24, 1, 0x7, Hex(2)),
    bits(2, "nvme.cmd.get_logpage.selftest.res.sct.rsvd", 24, 1, 0xf8, Hex(2)),
    whole(1, "nvme.cmd.get_logpage.selftest.res.sc", 25, 1, Hex(2)),
    whole(1, "nvme.cmd.get_logpage.selftest.res.vs", 26, 2, Hex(4)),
];

/// Telemetry, head.
pub static TELEMETRY: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.telemetry.li", 0, 1, Hex(2)),
    whole(0, "nvme.cmd.get_logpage.telemetry.rsvd0", 1, 4, Hex(2)),
    whole(0, "nvme.cmd.get_logpage.telemetry.ieee", 5, 3, Hex(8)),
    whole(0, "nvme.cmd.get_logpage.telemetry.da1b", 8, 2, Dec),
    whole(0, "nvme.cmd.get_logpage.telemetry.da2b", 10, 2, Dec),
    whole(0, "nvme.cmd.get_logpage.telemetry.da3b", 12, 3, Dec),
    whole(0, "nvme.cmd.get_logpage.telemetry.rsvd1", 14, 368, Bytes),
    whole(0, "nvme.cmd.get_logpage.telemetry.da", 382, 1, Flag),
    whole(0, "nvme.cmd.get_logpage.telemetry.dgn", 383, 1, Dec),
    whole(0, "nvme.cmd.get_logpage.telemetry.ri", 384, 128, Bytes),
];

/// Endurance Group Information.
pub static ENDURANCE: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.egroup.cw", 0, 1, Hex(2)),
    bits(1, "nvme.cmd.get_logpage.egroup.cw.asc", 0, 1, 0x1, Flag),
    bits(1, "nvme.cmd.get_logpage.egroup.cw.rsvd0", 0, 1, 0x2, Flag),
    bits(1, "nvme.cmd.get_logpage.egroup.cw.rd", 0, 1, 0x4, Flag),
    bits(1, "nvme.cmd.get_logpage.egroup.cw.ro", 0, 1, 0x8, Flag),
    bits(1, "nvme.cmd.get_logpage.egroup.cw.rsvd1", 0, 1, 0xf0, Flag),
    whole(0, "nvme.cmd.get_logpage.egroup.rsvd0", 1, 2, Hex(4)),
    whole(0, "nvme.cmd.get_logpage.egroup.as", 3, 1, Dec),
    whole(0, "nvme.cmd.get_logpage.egroup.ast", 4, 1, Dec),
    whole(0, "nvme.cmd.get_logpage.egroup.pu", 5, 1, Dec),
    whole(0, "nvme.cmd.get_logpage.egroup.rsvd1", 6, 26, Bytes),
    whole(0, "nvme.cmd.get_logpage.egroup.ee", 32, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.egroup.dur", 48, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.egroup.duw", 64, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.egroup.muw", 80, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.egroup.hrc", 96, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.egroup.hwc", 112, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.egroup.mdie", 128, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.egroup.ele", 144, 16, Bytes),
    whole(0, "nvme.cmd.get_logpage.egroup.rsvd2", 160, 3936, Bytes),
];

/// Predictable Latency Per NVM Set.
pub static PREDICTABLE: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.pred_lat.status", 0, 1, Hex(2)),
    bits(1, "nvme.cmd.get_logpage.pred_lat.status.ws", 0, 1, 0x7, Hex(2)),
    bits(1, "nvme.cmd.get_logpage.pred_lat.status.rsvd", 0, 1, 0xf8, Hex(2)),
    whole(0, "nvme.cmd.get_logpage.pred_lat.rsvd0", 1, 1, Hex(2)),
    whole(0, "nvme.cmd.get_logpage.pred_lat.etype", 2, 2, Hex(4)),
    bits(1, "nvme.cmd.get_logpage.pred_lat.etype.rw", 2, 2, 0x1, Flag),
    bits(1, "nvme.cmd.get_logpage.pred_lat.etype.ww", 2, 2, 0x2, Flag),
    bits(1, "nvme.cmd.get_logpage.pred_lat.etype.tw", 2, 2, 0x4, Flag),
    bits(1, "nvme.cmd.get_logpage.pred_lat.etype.rsvd", 2, 2, 0x3ff8, Hex(4)),
    bits(1, "nvme.cmd.get_logpage.pred_lat.etype.atve", 2, 2, 0x4000, Flag),
    bits(1, "nvme.cmd.get_logpage.pred_lat.etype.atde", 2, 2, 0x8000, Flag),
    whole(0, "nvme.cmd.get_logpage.pred_lat.rsvd1", 4, 28, Bytes),
    whole(0, "nvme.cmd.get_logpage.pred_lat.dtwin_rt", 32, 8, Dec),
    whole(0, "nvme.cmd.get_logpage.pred_lat.dtwin_wt", 40, 8, Dec),
    whole(0, "nvme.cmd.get_logpage.pred_lat.dtwin_tm", 48, 8, Dec),
    whole(0, "nvme.cmd.get_logpage.pred_lat.ndwin_tmh", 56, 8, Dec),
    whole(0, "nvme.cmd.get_logpage.pred_lat.ndwin_tml", 64, 8, Dec),
    whole(0, "nvme.cmd.get_logpage.pred_lat.rsvd2", 72, 56, Bytes),
    whole(0, "nvme.cmd.get_logpage.pred_lat.dtwin_re", 128, 8, Dec),
    whole(0, "nvme.cmd.get_logpage.pred_lat.dtwin_we", 136, 8, Dec),
    whole(0, "nvme.cmd.get_logpage.pred_lat.dtwin_te", 144, 152, Dec),
    whole(0, "nvme.cmd.get_logpage.pred_lat.rsvd3", 152, 3944, Bytes),
];

/// Asymmetric Namespace Access, head.
pub static ANA: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.ana.chcnt", 0, 8, Dec),
    whole(0, "nvme.cmd.get_logpage.ana.ngd", 8, 2, Dec),
    whole(0, "nvme.cmd.get_logpage.ana.rsvd", 10, 6, Hex(16)),
];

/// An ANA Group Descriptor without its NSIDs, 32 bytes.
pub static ANA_GROUP: &[Row] = &[
    whole(1, "nvme.cmd.get_logpage.ana.grp.id", 0, 4, Hex(8)),
    whole(1, "nvme.cmd.get_logpage.ana.grp.nns", 4, 4, Dec),
    whole(1, "nvme.cmd.get_logpage.ana.grp.chcnt", 8, 8, Dec),
    bits(1, "nvme.cmd.get_logpage.ana.grp.anas", 16, 1, 0xf, Hex(2)),
    bits(2, "nvme.cmd.get_logpage.ana.grp.anas.state", 16, 1, 0xf, Hex(2)),
    bits(2, "nvme.cmd.get_logpage.ana.grp.anas.rsvd", 16, 1, 0xf0, Hex(2)),
    whole(1, "nvme.cmd.get_logpage.ana.grp.rsvd", 17, 15, Bytes),
];

/// LBA Status Information, head.
pub static LBA_STATUS: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.lba_status.lslplen", 0, 4, Dec),
    whole(0, "nvme.cmd.get_logpage.lba_status.nlslne", 4, 4, Dec),
    whole(0, "nvme.cmd.get_logpage.lba_status.estulb", 8, 4, Dec),
    whole(0, "nvme.cmd.get_logpage.lba_status.rsvd", 12, 2, Hex(4)),
    whole(0, "nvme.cmd.get_logpage.lba_status.lsgc", 14, 2, Hex(4)),
];

/// Discovery, head.
pub static DISCOVERY: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.identify.genctr", 0, 8, Dec),
    whole(0, "nvme.cmd.get_logpage.identify.numrec", 8, 8, Dec),
    whole(0, "nvme.cmd.get_logpage.identify.recfmt", 16, 2, Dec),
    whole(0, "nvme.cmd.get_logpage.identify.rsvd", 18, 1006, Bytes),
];

/// A Discovery Log Page Entry, 1024 bytes.
pub static DISCOVERY_ENTRY: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.identify.rcrd", 0, 1024, Bytes),
    whole(1, "nvme.cmd.get_logpage.identify.rcrd.trtype", 0, 1, Hex(2)),
    whole(1, "nvme.cmd.get_logpage.identify.rcrd.adrfam", 1, 1, Hex(2)),
    whole(1, "nvme.cmd.get_logpage.identify.rcrd.subtype", 2, 1, Hex(2)),
    whole(1, "nvme.cmd.get_logpage.identify.rcrd.treq", 3, 1, Hex(2)),
    bits(2, "nvme.cmd.get_logpage.identify.rcrd.treq.secch", 3, 1, 0x1, Flag),
    bits(2, "nvme.cmd.get_logpage.identify.rcrd.treq.sqfc", 3, 1, 0x2, Flag),
    bits(2, "nvme.cmd.get_logpage.identify.rcrd.treq.rsvd", 3, 1, 0xf8, Hex(2)),
    whole(1, "nvme.cmd.get_logpage.identify.rcrd.portid", 4, 2, Hex(4)),
    whole(1, "nvme.cmd.get_logpage.identify.rcrd.cntlid", 6, 2, Hex(4)),
    whole(1, "nvme.cmd.get_logpage.identify.rcrd.asqsz", 8, 2, Dec),
    whole(1, "nvme.cmd.get_logpage.identify.rcrd.rsvd0", 10, 22, Bytes),
    whole(1, "nvme.cmd.get_logpage.identify.rcrd.trsvcid", 32, 32, Text),
    whole(1, "nvme.cmd.get_logpage.identify.rcrd.rsvd1", 64, 192, Bytes),
    whole(1, "nvme.cmd.get_logpage.identify.rcrd.subnqn", 256, 256, Text),
    whole(1, "nvme.cmd.get_logpage.identify.rcrd.traddr", 512, 256, Text),
    whole(1, "nvme.cmd.get_logpage.identify.rcrd.tsas", 768, 256, Bytes),
];

/// Reservation Notification.
pub static RESERVATION: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.reserv_notif.lpc", 0, 8, Hex(16)),
    whole(0, "nvme.cmd.get_logpage.reserv_notif.lpt", 8, 1, Hex(2)),
    whole(0, "nvme.cmd.get_logpage.reserv_notif.nalp", 9, 1, Dec),
    whole(0, "nvme.cmd.get_logpage.reserv_notif.rsvd0", 10, 2, Hex(4)),
    whole(0, "nvme.cmd.get_logpage.reserv_notif.nsid", 12, 4, Hex(8)),
    whole(0, "nvme.cmd.get_logpage.reserv_notif.rsvd1", 16, 48, Bytes),
];

/// Sanitize Status.
pub static SANITIZE: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.sanitize.sprog", 0, 2, Hex(4)),
    whole(0, "nvme.cmd.get_logpage.sanitize.sstat", 2, 2, Hex(4)),
    bits(1, "nvme.cmd.get_logpage.sanitize.sstat.mrst", 2, 2, 0x7, Hex(4)),
    bits(1, "nvme.cmd.get_logpage.sanitize.sstat.cop", 2, 2, 0xf8, Hex(4)),
    bits(1, "nvme.cmd.get_logpage.sanitize.sstat.gde", 2, 2, 0x100, Flag),
    bits(1, "nvme.cmd.get_logpage.sanitize.sstat.rsvd", 2, 2, 0xfe00, Hex(4)),
    whole(0, "nvme.cmd.get_logpage.sanitize.scdw10", 4, 4, Hex(8)),
    whole(0, "nvme.cmd.get_logpage.sanitize.eto", 8, 4, Hex(8)),
    whole(0, "nvme.cmd.get_logpage.sanitize.etbe", 12, 4, Hex(8)),
    whole(0, "nvme.cmd.get_logpage.sanitize.etce", 16, 4, Hex(8)),
    whole(0, "nvme.cmd.get_logpage.sanitize.etond", 20, 4, Hex(8)),
    whole(0, "nvme.cmd.get_logpage.sanitize.etbend", 24, 4, Hex(8)),
    whole(0, "nvme.cmd.get_logpage.sanitize.etcend", 28, 4, Hex(8)),
];

/// Commands Supported and Effects of one opcode, 4 bytes.
pub static EFFECTS: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.cmd_and_eff.cs", 0, 4, Bytes),
    whole(1, "nvme.cmd.get_logpage.cmd_and_eff.cseds", 0, 4, Hex(8)),
    bits(2, "nvme.cmd.get_logpage.cmd_and_eff.cseds.csupp", 0, 4, 0x1, Flag),
    bits(2, "nvme.cmd.get_logpage.cmd_and_eff.cseds.lbcc", 0, 4, 0x2, Flag),
    bits(2, "nvme.cmd.get_logpage.cmd_and_eff.cseds.ncc", 0, 4, 0x4, Flag),
    bits(2, "nvme.cmd.get_logpage.cmd_and_eff.cseds.nic", 0, 4, 0x8, Flag),
    bits(2, "nvme.cmd.get_logpage.cmd_and_eff.cseds.ccc", 0, 4, 0x10, Flag),
    bits(2, "nvme.cmd.get_logpage.cmd_and_eff.cseds.rsvd0", 0, 4, 0xffe0, Hex(8)),
    bits(2, "nvme.cmd.get_logpage.cmd_and_eff.cseds.cse", 0, 4, 0x70000, Hex(8)),
    bits(2, "nvme.cmd.get_logpage.cmd_and_eff.cseds.uss", 0, 4, 0x80000, Flag),
    bits(2, "nvme.cmd.get_logpage.cmd_and_eff.cseds.rsvd1", 0, 4, 0xfff00000, Hex(8)),
];
