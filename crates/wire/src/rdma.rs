//! NVMe/RDMA: the private data by which a queue introduces itself, little-endian like all of NVMe. [NVMe/RDMA 1.0, 3.1]
//!
//! It rides in the messages of [`crate::cm`]: in a REQ behind the IP CM header, in REP and REJ from their private data's start on.

use crate::{Cntlid, Qid, ZeroBased16};

/// RECFMT of all three structures.
pub const RECORD_FORMAT: u16 = 0;

layout! {
    /// RDMA_CM_REQUEST private data: the host names the queue. [NVMe/RDMA 1.0, 3.1, Figure 5]
    pub struct RdmaRequest[32] {
        recfmt: u16 @ 0 "Record Format (RECFMT)" = "nvme-rdma.cm.req.recfmt",
        qid: Qid @ 2 "Queue ID (QID)" = "nvme-rdma.cm.req.qid",
        hrqsize: u16 @ 4 "Host Receive Queue Size (HRQSIZE), entries" = "nvme-rdma.cm.req.hrqsize",
        hsqsize: ZeroBased16 @ 6 "Host Send Queue Size (HSQSIZE), entries" = "nvme-rdma.cm.req.hsqsize",
        cntlid: Cntlid @ 8 "Controller ID (CNTLID)" = "nvme-rdma.cm.req.cntlid",
    }

    /// RDMA_CM_ACCEPT private data: the controller takes the queue. [NVMe/RDMA 1.0, 3.1, Figure 6]
    pub struct RdmaAccept[32] {
        recfmt: u16 @ 0 "Record Format (RECFMT)" = "nvme-rdma.cm.rsp.recfmt",
        crqsize: u16 @ 2 "Controller Receive Queue Size (CRQSIZE), entries" = "nvme-rdma.cm.rsp.crqsize",
    }

    /// RDMA_CM_REJECT private data: the controller refuses the queue. [NVMe/RDMA 1.0, 3.1, Figure 7]
    pub struct RdmaReject[4] {
        recfmt: u16 @ 0 "Record Format (RECFMT)" = "nvme-rdma.cm.rej.recfmt",
        sts: RdmaStatus @ 2 "Status (STS)" = "nvme-rdma.cm.rej.status",
    }
}

open_enum! {
    /// Why a controller refuses a queue (STS). [NVMe/RDMA 1.0, 3.5.1, Figure 11]
    pub struct RdmaStatus(u16) {
        INVALID_LENGTH = 1 "Invalid Private Data Length",
        INVALID_RECFMT = 2 "Invalid RECFMT",
        INVALID_QID = 3 "Invalid QID",
        INVALID_HSQSIZE = 4 "Invalid HSQSIZE",
        INVALID_HRQSIZE = 5 "Invalid HRQSIZE",
        NO_RESOURCES = 6 "No Resources",
        INVALID_IRD = 7 "Invalid IRD",
        INVALID_ORD = 8 "Invalid ORD",
        INVALID_CNTLID = 9 "Invalid CNTLID",
    }
}
