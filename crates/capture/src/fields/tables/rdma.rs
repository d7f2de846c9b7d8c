//! Private data of connection management, under Wireshark's names. [NVMe/RDMA 1.0, 3.2]
//!
//! A row is depth, name, first byte, bytes, mask, and how the value is printed.

use crate::fields::Show::{Bytes, Dec, Hex};
use crate::fields::{Row, whole};

/// Of the host's REQ.
pub static REQUEST: &[Row] = &[
    whole(0, "nvme-rdma.cm.req.recfmt", 0, 2, Dec),
    whole(0, "nvme-rdma.cm.req.qid", 2, 2, Dec),
    whole(0, "nvme-rdma.cm.req.hrqsize", 4, 2, Dec),
    whole(0, "nvme-rdma.cm.req.hsqsize", 6, 2, Dec),
    whole(0, "nvme-rdma.cm.req.cntlid", 8, 2, Hex(4)),
    whole(0, "nvme-rdma.cm.req.reserved", 10, 22, Bytes),
];

/// Of the controller's REP.
pub static ACCEPT: &[Row] = &[
    whole(0, "nvme-rdma.cm.rsp.recfmt", 0, 2, Dec),
    whole(0, "nvme-rdma.cm.rsp.crqsize", 2, 2, Dec),
    whole(0, "nvme-rdma.cm.rsp.reserved", 4, 28, Bytes),
];

/// Of a REJ.
pub static REJECT: &[Row] = &[whole(0, "nvme-rdma.cm.rej.recfmt", 0, 2, Dec), whole(0, "nvme-rdma.cm.rej.status", 2, 2, Hex(4))];
