//! Connect and Disconnect. [Base 2.0, 6.3 and 6.4, Figures 380 to 385]

use crate::open::{Cntlid, Qid, ZeroBased16};
use crate::sqe::FabricsSqe;
use crate::value::Text;

layout! {
    /// Connect command. [Base 2.0, 6.3, Figure 380]
    pub struct Connect[64] of FabricsSqe {
        recfmt: u16 @ 40 "Record Format (RECFMT): 0" = "nvme.fabrics.cmd.connect.recfmt",
        qid: Qid @ 42 "Queue ID (QID)" = "nvme.fabrics.cmd.connect.qid",
        sqsize: ZeroBased16 @ 44 "Submission Queue Size (SQSIZE), 0's based" = "nvme.fabrics.cmd.connect.sqsize",
        prio: u8 @ 46 [1:0] "Connect Attributes (CATTR): priority class" = "nvme.fabrics.cmd.connect.cattr.pc",
        sqfcd: bool @ 46 [2] "Connect Attributes (CATTR): disable SQ flow control" = "nvme.fabrics.cmd.connect.cattr.dfc",
        ioqd: bool @ 46 [3] "Connect Attributes (CATTR): individual I/O queue deletion supported" = "nvme.fabrics.cmd.connect.cattr.dioq",
        connent: bool @ 46 [4] "Connect Attributes (CATTR): the connecting entity is a discovery controller (CONNENT); later than 2.0",
        kato: u32 @ 48 "Keep Alive Timeout (KATO), ms" = "nvme.fabrics.cmd.connect.kato",
    }

    /// Connect data, 1024 bytes. [Base 2.0, 6.3, Figure 381]
    pub struct ConnectData[1024] {
        hostid: [u8; 16] @ 0 "Host Identifier (HOSTID)" = "nvme.fabrics.cmd.connect.data.hostid",
        cntlid: Cntlid @ 16 "Controller ID (CNTLID)" = "nvme.fabrics.cmd.connect.data.cntrlid",
        subnqn: (Text<256>) @ 256 "NVM Subsystem NVMe Qualified Name (SUBNQN)" = "nvme.fabrics.cmd.connect.data.subnqn",
        hostnqn: (Text<256>) @ 512 "Host NVMe Qualified Name (HOSTNQN)" = "nvme.fabrics.cmd.connect.data.hostnqn",
    }

    /// Disconnect command. [Base 2.0, 6.4, Figure 384]
    pub struct Disconnect[64] of FabricsSqe without 24..40 {
        recfmt: u16 @ 40 "Record Format (RECFMT): 0" = "nvme.fabrics.cmd.disconnect.recfmt",
    }
}
