//! In-band authentication: the Fabrics commands Authentication Send and Receive here, the messages that they carry in [`message`].
//! [Base 2.0, 6.1, 6.2 and 8.13]

pub mod message;

use crate::sqe::FabricsSqe;

layout! {
    /// Authentication Send command; its data is one message of the protocol. [Base 2.0, 6.2, Figure 378]
    pub struct AuthenticationSend[64] of FabricsSqe {
        spsp0: u8 @ 41 "SP Specific 0 (SPSP0)" = "nvme.fabrics.cmd.auth.spsp0",
        spsp1: u8 @ 42 "SP Specific 1 (SPSP1)" = "nvme.fabrics.cmd.auth.spsp1",
        secp: SecurityProtocol @ 43 "Security Protocol (SECP)" = "nvme.fabrics.cmd.auth.secp",
        tl: u32 @ 44 "Transfer Length (TL), bytes" = "nvme.fabrics.cmd.auth.al",
    }

    /// Authentication Receive command; the controller returns one message of the protocol. [Base 2.0, 6.1, Figure 376]
    pub struct AuthenticationReceive[64] of FabricsSqe {
        spsp0: u8 @ 41 "SP Specific 0 (SPSP0)" = "nvme.fabrics.cmd.auth.spsp0",
        spsp1: u8 @ 42 "SP Specific 1 (SPSP1)" = "nvme.fabrics.cmd.auth.spsp1",
        secp: SecurityProtocol @ 43 "Security Protocol (SECP)" = "nvme.fabrics.cmd.auth.secp",
        al: u32 @ 44 "Allocation Length (AL), bytes" = "nvme.fabrics.cmd.auth.al",
    }
}

open_enum! {
    /// Security Protocol (SECP). NVMe in-band authentication has SPSP0 and SPSP1 01h. [Base 2.0, 8.13]
    pub struct SecurityProtocol(u8) {
        NVME_AUTHENTICATION = 0xe9 "NVMe in-band authentication",
    }
}
