//! PDUs of NVMe/TCP, under Wireshark's names.
//!
//! A row is depth, name, first byte, bytes, mask, and how the value is printed.

use crate::fields::Show::{Bytes, Dec, Flag, Hex, Nothing, Text};
use crate::fields::{Row, bits, whole};

/// The common header.
pub static HEAD: &[Row] = &[
    whole(0, "nvme-tcp.type", 0, 1, Dec),
    whole(0, "nvme-tcp.flags", 1, 1, Hex(2)),
    bits(1, "nvme-tcp.flags.pdu.hdgst", 1, 1, 0x1, Flag),
    bits(1, "nvme-tcp.flags.pdu.ddgst", 1, 1, 0x2, Flag),
    bits(1, "nvme-tcp.flags.pdu.data_last", 1, 1, 0x4, Flag),
    bits(1, "nvme-tcp.flags.pdu.data_success", 1, 1, 0x8, Flag),
    whole(0, "nvme-tcp.hlen", 2, 1, Dec),
    whole(0, "nvme-tcp.pdo", 3, 1, Dec),
    whole(0, "nvme-tcp.plen", 4, 4, Dec),
];

/// ICReq.
pub static IC_REQ: &[Row] = &[
    whole(0, "nvme-tcp.icreq", 8, 8, Nothing),
    whole(1, "nvme-tcp.icreq.pfv", 8, 2, Dec),
    whole(1, "nvme-tcp.icreq.hpda", 10, 1, Dec),
    whole(1, "nvme-tcp.icreq.digest", 11, 1, Dec),
    whole(1, "nvme-tcp.icreq.maxr2t", 12, 4, Dec),
];

/// ICResp.
pub static IC_RESP: &[Row] = &[
    whole(0, "nvme-tcp.icresp", 8, 8, Nothing),
    whole(1, "nvme-tcp.icresp.pfv", 8, 2, Dec),
    whole(1, "nvme-tcp.icresp.cpda", 10, 1, Dec),
    whole(1, "nvme-tcp.icresp.digest", 11, 1, Dec),
    whole(1, "nvme-tcp.icresp.maxdata", 12, 4, Dec),
];

/// C2HData and H2CData.
pub static DATA: &[Row] = &[
    whole(0, "nvme-tcp.data", 8, 16, Nothing),
    whole(1, "nvme-tcp.cmd.cid", 8, 2, Hex(4)),
    whole(1, "nvme-tcp.ttag", 10, 2, Hex(4)),
    whole(1, "nvme-tcp.data.offset", 12, 4, Dec),
    whole(1, "nvme-tcp.data.length", 16, 4, Dec),
    whole(1, "nvme-tcp.data.rsvd", 20, 4, Bytes),
];

/// R2T.
pub static R2T: &[Row] = &[
    whole(0, "nvme-tcp.r2t", 8, 16, Nothing),
    whole(1, "nvme-tcp.cmd.cid", 8, 2, Hex(4)),
    whole(1, "nvme-tcp.ttag", 10, 2, Hex(4)),
    whole(1, "nvme-tcp.r2t.offset", 12, 4, Dec),
    whole(1, "nvme-tcp.r2t.length", 16, 4, Dec),
    whole(1, "nvme-tcp.r2t.rsvd", 20, 4, Bytes),
];

/// Data of Connect.
pub static CONNECT_DATA: &[Row] = &[
    whole(0, "nvme.fabrics.cmd.connect.data.hostid", 0, 16, Bytes),
    whole(0, "nvme.fabrics.cmd.connect.data.cntrlid", 16, 2, Hex(4)),
    whole(0, "nvme.fabrics.cmd.connect.data.rsvd0", 18, 238, Bytes),
    whole(0, "nvme.fabrics.cmd.connect.data.subnqn", 256, 256, Text),
    whole(0, "nvme.fabrics.cmd.connect.data.hostnqn", 512, 256, Text),
    whole(0, "nvme.fabrics.cmd.connect.data.rsvd1", 768, 256, Bytes),
];
