//! Data of features, under Wireshark's names.
//!
//! A row is depth, name, first byte, bytes, mask, and how the value is printed.

use crate::fields::Show::{Bytes, Flag, Hex};
use crate::fields::{Row, bits, whole};

/// Data of feature 03h.
pub static LBA_RANGE: &[Row] = &[
    whole(0, "nvme.set_features.lbart", 0, 64, Bytes),
    whole(1, "nvme.set_features.lbart.type", 0, 1, Hex(2)),
    whole(1, "nvme.set_features.lbart.attr", 1, 1, Hex(2)),
    bits(2, "nvme.set_features.lbart.attr.ovw", 1, 1, 0x1, Flag),
    bits(2, "nvme.set_features.lbart.attr.hid", 1, 1, 0x2, Flag),
    bits(2, "nvme.set_features.lbart.attr.rsvd", 1, 1, 0xfc, Hex(2)),
    whole(1, "nvme.set_features.lbart.rsvd0", 2, 14, Bytes),
    whole(1, "nvme.set_features.lbart.slba", 16, 8, Hex(16)),
    whole(1, "nvme.set_features.lbart.nlb", 24, 8, Hex(16)),
    whole(1, "nvme.set_features.lbart.guid", 32, 16, Bytes),
    whole(1, "nvme.set_features.lbart.rsvd1", 48, 16, Bytes),
];

/// Data of feature 0Ch.
pub static AUTONOMOUS_POWER: &[Row] = &[
    whole(0, "nvme.set_features.lbart.apst", 0, 8, Hex(16)),
    bits(1, "nvme.set_features.lbart.apst.rsvd0", 0, 8, 0x7, Hex(16)),
    bits(1, "nvme.set_features.lbart.apst.itps", 0, 8, 0xf8, Hex(16)),
    bits(1, "nvme.set_features.lbart.apst.itpt", 0, 8, 0xffffff00, Hex(16)),
    bits(1, "nvme.set_features.lbart.apst.rsvd1", 0, 8, 0xffffffff00000000, Hex(16)),
];

/// Data of feature 0Eh.
pub static TIMESTAMP: &[Row] = &[
    whole(0, "nvme.set_features.tst", 0, 8, Hex(16)),
    bits(1, "nvme.set_features.tst.ms", 0, 8, 0xffffffffffff, Hex(16)),
    bits(1, "nvme.set_features.tst.rsvd", 0, 8, 0xffff000000000000, Hex(16)),
];

/// Data of feature 13h.
pub static PREDICTABLE: &[Row] = &[
    whole(0, "nvme.set_features.plmc", 0, 512, Bytes),
    whole(1, "nvme.set_features.plmc.ee", 0, 2, Hex(4)),
    bits(2, "nvme.set_features.plmc.ee.dtwinr", 0, 2, 0x1, Flag),
    bits(2, "nvme.set_features.plmc.ee.dtwinw", 0, 2, 0x2, Flag),
    bits(2, "nvme.set_features.plmc.ee.dtwint", 0, 2, 0x4, Flag),
    bits(2, "nvme.set_features.plmc.ee.rsvd", 0, 2, 0x3ff8, Hex(4)),
    bits(2, "nvme.set_features.plmc.ee.ndtwindv", 0, 2, 0x4000, Flag),
    bits(2, "nvme.set_features.plmc.ee.ndtwindde", 0, 2, 0x8000, Flag),
    whole(1, "nvme.set_features.plmc.rsvd0", 2, 30, Bytes),
    whole(1, "nvme.set_features.plmc.dtwinrt", 32, 8, Hex(16)),
    whole(1, "nvme.set_features.plmc.dtwinwt", 40, 8, Hex(16)),
    whole(1, "nvme.set_features.plmc.dtwintt", 48, 8, Hex(16)),
    whole(1, "nvme.set_features.plmc.rsvd1", 56, 456, Bytes),
];

/// Data of feature 16h.
pub static HOST_BEHAVIOR: &[Row] = &[
    whole(0, "nvme.set_features.hbs", 0, 512, Bytes),
    whole(1, "nvme.set_features.hbs.acre", 0, 1, Hex(2)),
    whole(1, "nvme.set_features.hbs.rsvd", 1, 511, Bytes),
];
