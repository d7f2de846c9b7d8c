//! Commands, dword by dword, under Wireshark's names.
//!
//! A row is depth, name, first byte, bytes, mask, and how the value is printed.

use crate::fields::Show::{Bytes, Dec, Flag, Hex, Nothing};
use crate::fields::{Row, bits, whole};

/// What every NVMe command has in front of its SGL descriptor.
pub static SQE: &[Row] = &[
    whole(0, "nvme.cmd.opc", 0, 1, Hex(2)),
    bits(0, "nvme.cmd.fuse_op", 1, 1, 0x3, Hex(2)),
    bits(0, "nvme.cmd.rsvd", 1, 1, 0x3c, Hex(2)),
    bits(0, "nvme.cmd.psdt", 1, 1, 0xc0, Hex(2)),
    whole(0, "nvme.cmd.cid", 2, 2, Hex(4)),
    whole(0, "nvme.cmd.nsid", 4, 4, Hex(8)),
    whole(0, "nvme.cmd.rsvd1", 8, 8, Bytes),
    whole(0, "nvme.cmd.mptr", 16, 8, Hex(16)),
];

/// Dwords 10 to 15 of a command without fields of its own.
pub static DWORDS: &[Row] = &[
    whole(0, "nvme.cmd.dword10", 40, 4, Hex(8)),
    whole(0, "nvme.cmd.dword11", 44, 4, Hex(8)),
    whole(0, "nvme.cmd.dword12", 48, 4, Hex(8)),
    whole(0, "nvme.cmd.dword13", 52, 4, Hex(8)),
    whole(0, "nvme.cmd.dword14", 56, 4, Hex(8)),
    whole(0, "nvme.cmd.dword15", 60, 4, Hex(8)),
];

/// Dwords 10 to 15 of Identify.
pub static IDENTIFY: &[Row] = &[
    whole(0, "nvme.cmd.identify.dword10", 40, 4, Hex(8)),
    bits(1, "nvme.cmd.identify.dword10.cns", 40, 4, 0xff, Hex(8)),
    bits(1, "nvme.cmd.identify.dword10.rsvd", 40, 4, 0xff00, Hex(8)),
    bits(1, "nvme.cmd.identify.dword10.cntid", 40, 4, 0xffff0000, Hex(8)),
    whole(0, "nvme.cmd.identify.dword11", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.identify.dwrod11.nvmesetid", 44, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cmd.identify.dword11.rsvd", 44, 4, 0xffff0000, Hex(8)),
    whole(0, "nvme.cmd.dword12", 48, 4, Hex(8)),
    whole(0, "nvme.cmd.dword13", 52, 4, Hex(8)),
    whole(0, "nvme.cmd.identify.dword14", 56, 4, Hex(8)),
    bits(1, "nvme.cmd.identify.dword14.uuid_index", 56, 4, 0x7f, Hex(8)),
    bits(1, "nvme.cmd.identify.dword14.rsvd", 56, 4, 0xffffff80, Hex(8)),
    whole(0, "nvme.cmd.dword15", 60, 4, Hex(8)),
];

/// Dwords 10 to 15 of Get Log Page.
pub static GET_LOG_PAGE: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.dword10", 40, 4, Hex(8)),
    bits(1, "nvme.cmd.get_logpage.dword10.id", 40, 4, 0xff, Dec),
    bits(1, "nvme.cmd.get_logpage.dword10.lsp", 40, 4, 0x7f00, Hex(8)),
    bits(1, "nvme.cmd.get_logpage.dword10.rae", 40, 4, 0x8000, Flag),
    bits(1, "nvme.cmd.get_logpage.dword10.numdl", 40, 4, 0xffff0000, Hex(8)),
    whole(0, "nvme.cmd.get_logpage.numd", 42, 4, Dec),
    whole(0, "nvme.cmd.get_logpage.dword11", 44, 4, Hex(8)),
    bits(1, "nvme.cmd.get_logpage.dword11.numdu", 44, 4, 0xffff, Hex(8)),
    bits(1, "nvme.cmd.get_logpage.dword11.lsi", 44, 4, 0xffff0000, Hex(8)),
    whole(0, "nvme.cmd.get_logpage.lpo", 48, 8, Dec),
    whole(0, "nvme.cmd.dword13", 52, 4, Hex(8)),
    whole(0, "nvme.cmd.get_logpage.dword14", 56, 4, Hex(8)),
    bits(1, "nvme.cmd.identify.get_logpage.dword14.uuid_index", 56, 4, 0x7f, Hex(8)),
    bits(1, "nvme.cmd.identify.get_logpage.dword14.rsvd", 56, 4, 0xffffff80, Hex(8)),
    whole(0, "nvme.cmd.dword15", 60, 4, Hex(8)),
];

/// Dwords 10 to 15 of Read and Write.
pub static READ_WRITE: &[Row] = &[
    whole(0, "nvme.cmd.slba", 40, 8, Hex(16)),
    whole(0, "nvme.cmd.nlb", 48, 2, Dec),
    bits(0, "nvme.cmd.rsvd2", 50, 2, 0x3ff, Hex(4)),
    bits(0, "nvme.cmd.prinfo", 50, 2, 0x3c00, Hex(4)),
    bits(1, "nvme.cmd.prinfo.lbrtag", 50, 2, 0x400, Hex(4)),
    bits(1, "nvme.cmd.prinfo.apptag", 50, 2, 0x800, Hex(4)),
    bits(1, "nvme.cmd.prinfo.guard", 50, 2, 0x1000, Hex(4)),
    bits(1, "nvme.cmd.prinfo.action", 50, 2, 0x2000, Hex(4)),
    bits(0, "nvme.cmd.fua", 50, 2, 0x4000, Hex(4)),
    bits(0, "nvme.cmd.lr", 50, 2, 0x8000, Hex(4)),
    whole(0, "nvme.cmd.eilbrt", 56, 4, Hex(8)),
    whole(0, "nvme.cmd.elbat", 60, 2, Hex(4)),
    whole(0, "nvme.cmd.elbatm", 62, 2, Hex(4)),
    whole(0, "nvme.cmd.dsm", 52, 1, Nothing),
    bits(1, "nvme.cmd.dsm.access_freq", 52, 1, 0xf, Hex(2)),
    bits(1, "nvme.cmd.dsm.access_lat", 52, 1, 0x30, Hex(2)),
    bits(1, "nvme.cmd.dsm.seq_req", 52, 1, 0x40, Hex(2)),
    bits(1, "nvme.cmd.dsm.incompressible", 52, 1, 0x80, Hex(2)),
    whole(0, "nvme.cmd.rsvd3", 53, 3, Bytes),
];

/// Dwords 10 and 11 and those behind of Get Features; dword 11 stands apart.
pub static GET_FEATURES: &[Row] = &[
    whole(0, "nvme.cmd.get_features.dword10", 40, 4, Hex(8)),
    bits(1, "nvme.cmd.get_features.dword10.fid", 40, 4, 0xff, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword10.sel", 40, 4, 0x700, Hex(8)),
    bits(1, "nvme.cmd.get_features.dword10.rsvd", 40, 4, 0xfffff800, Hex(8)),
    whole(0, "nvme.cmd.dword12", 48, 4, Hex(8)),
    whole(0, "nvme.cmd.dword13", 52, 4, Hex(8)),
    whole(0, "nvme.cmd.get_features.dword14", 56, 4, Hex(8)),
    bits(1, "nvme.cmd.get_features.dword14.uuid", 56, 4, 0x7f, Hex(8)),
    bits(1, "nvme.cmd.get_features.dword14.rsvd", 56, 4, 0xffffff80, Hex(8)),
    whole(0, "nvme.cmd.dword15", 60, 4, Hex(8)),
];

/// Dwords of Set Features but 11 and 12.
pub static SET_FEATURES: &[Row] = &[
    whole(0, "nvme.cmd.set_features.dword10", 40, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword10.fid", 40, 4, 0xff, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword10.rsvd", 40, 4, 0x7fffff00, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword10.sv", 40, 4, 0x80000000, Hex(8)),
    whole(0, "nvme.cmd.dword13", 52, 4, Hex(8)),
    whole(0, "nvme.cmd.set_features.dword14", 56, 4, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword14.uuid", 56, 4, 0x7f, Hex(8)),
    bits(1, "nvme.cmd.set_features.dword14.rsvd", 56, 4, 0xffffff80, Hex(8)),
    whole(0, "nvme.cmd.dword15", 60, 4, Hex(8)),
];

/// What every Fabrics command begins with.
pub static FABRICS: &[Row] = &[
    whole(0, "nvme.fabrics.cmd", 0, 64, Nothing),
    whole(1, "nvme.fabrics.cmd.opc", 0, 1, Bytes),
    whole(1, "nvme.fabrics.cmd.rsvd", 1, 1, Hex(2)),
    whole(1, "nvme.fabrics.cmd.cid", 2, 2, Hex(4)),
    whole(1, "nvme.fabrics.cmd.fctype", 4, 1, Hex(2)),
];

/// Connect, behind its SGL descriptor.
pub static CONNECT: &[Row] = &[
    whole(0, "nvme.fabrics.cmd.connect.recfmt", 40, 2, Dec),
    whole(0, "nvme.fabrics.cmd.connect.qid", 42, 2, Dec),
    whole(0, "nvme.fabrics.cmd.connect.sqsize", 44, 2, Dec),
    whole(0, "nvme.fabrics.cmd.connect.cattr", 46, 1, Hex(2)),
    bits(1, "nvme.fabrics.cmd.connect.cattr.pc", 46, 1, 0x3, Hex(2)),
    bits(1, "nvme.fabrics.cmd.connect.cattr.dfc", 46, 1, 0x4, Hex(2)),
    bits(1, "nvme.fabrics.cmd.connect.cattr.dioq", 46, 1, 0x8, Hex(2)),
    bits(1, "nvme.fabrics.cmd.connect.cattr.rsvd", 46, 1, 0xf0, Hex(2)),
    whole(0, "nvme.fabrics.cmd.connect.rsvd2", 47, 1, Bytes),
    whole(0, "nvme.fabrics.cmd.connect.kato", 48, 4, Dec),
    whole(0, "nvme.fabrics.cmd.connect.rsvd3", 52, 12, Bytes),
];

/// What Property Get and Property Set share.
pub static PROPERTY: &[Row] = &[
    whole(0, "nvme.fabrics.cmd.prop_get_set.rsvd0", 5, 35, Bytes),
    bits(0, "nvme.fabrics.cmd.prop_get_set.attrib", 40, 1, 0x7, Hex(2)),
    bits(1, "nvme.fabrics.cmd.prop_get_set.attrib.size", 40, 1, 0x7, Hex(2)),
    bits(1, "nvme.fabrics.cmd.prop_get_set.attrib.rsvd", 40, 1, 0xf8, Hex(2)),
    whole(0, "nvme.fabrics.cmd.prop_get_set.rsvd1", 41, 3, Bytes),
    whole(0, "nvme.fabrics.cmd.prop_get_set.offset", 44, 4, Hex(8)),
];

/// Authentication Send and Receive, behind the SGL descriptor.
pub static AUTHENTICATION: &[Row] = &[
    whole(0, "nvme.fabrics.cmd.auth.rsvd2", 40, 1, Hex(2)),
    whole(0, "nvme.fabrics.cmd.auth.spsp0", 41, 1, Hex(2)),
    whole(0, "nvme.fabrics.cmd.auth.spsp1", 42, 1, Hex(2)),
    whole(0, "nvme.fabrics.cmd.auth.secp", 43, 1, Hex(2)),
    whole(0, "nvme.fabrics.cmd.auth.al", 44, 4, Dec),
    whole(0, "nvme.fabrics.cmd.auth.rsvd3", 48, 16, Bytes),
];

/// Disconnect.
pub static DISCONNECT: &[Row] = &[
    whole(0, "nvme.fabrics.cmd.disconnect.rsvd0", 5, 35, Bytes),
    whole(0, "nvme.fabrics.cmd.disconnect.recfmt", 40, 2, Dec),
    whole(0, "nvme.fabrics.cmd.disconnect.rsvd1", 42, 22, Bytes),
];

/// A Fabrics command of another type.
pub static OTHER_FABRICS: &[Row] =
    &[whole(0, "nvme.fabrics.cmd.generic.rsvd1", 5, 35, Bytes), whole(0, "nvme.fabrics.cmd.generic.field", 40, 24, Bytes)];
