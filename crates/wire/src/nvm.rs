//! I/O commands of the NVM command set: Read, Write, Flush. [NVM Command Set 1.0, 3]

use crate::open::ZeroBased16;
use crate::sqe::Sqe;

layout! {
    /// Read command. [NVM Command Set 1.0, 3.2.4]
    pub struct Read[64] of Sqe without 8..16, 40..64 {
        elbtl: u32 @ 8 "Expected Logical Block Tags (ELBTL)",
        elbtu: u16 @ 12 "Expected Logical Block Tags (ELBTU)",
        slba: u64 @ 40 "Starting LBA (SLBA)" = "nvme.cmd.slba",
        nlb: ZeroBased16 @ 48 "Number of Logical Blocks (NLB), 0's based" = "nvme.cmd.nlb",
        stc: bool @ 51 [0] "Storage Tag Check (STC)",
        prinfo: u8 @ 51 [5:2] "Protection Information (PRINFO)" = "nvme.cmd.prinfo",
        fua: bool @ 51 [6] "Force Unit Access (FUA)" = "nvme.cmd.fua",
        lr: bool @ 51 [7] "Limited Retry (LR)" = "nvme.cmd.lr",
        dsm: u8 @ 52 "Dataset Management (DSM)",
        elbt: u32 @ 56 "Expected Initial Logical Block Reference Tag" = "nvme.cmd.eilbrt",
        elbat: u16 @ 60 "Expected Logical Block Application Tag" = "nvme.cmd.elbat",
        elbatm: u16 @ 62 "Expected Logical Block Application Tag Mask" = "nvme.cmd.elbatm",
    }

    /// Write command. [NVM Command Set 1.0, 3.2.6]
    pub struct Write[64] of Sqe without 8..16, 40..64 {
        lbtl: u32 @ 8 "Logical Block Tags (LBTL)",
        lbtu: u16 @ 12 "Logical Block Tags (LBTU)",
        slba: u64 @ 40 "Starting LBA (SLBA)" = "nvme.cmd.slba",
        nlb: ZeroBased16 @ 48 "Number of Logical Blocks (NLB), 0's based" = "nvme.cmd.nlb",
        dtype: u8 @ 50 [7:4] "Directive Type (DTYPE)",
        stc: bool @ 51 [0] "Storage Tag Check (STC)",
        prinfo: u8 @ 51 [5:2] "Protection Information (PRINFO)" = "nvme.cmd.prinfo",
        fua: bool @ 51 [6] "Force Unit Access (FUA)" = "nvme.cmd.fua",
        lr: bool @ 51 [7] "Limited Retry (LR)" = "nvme.cmd.lr",
        dsm: u8 @ 52 "Dataset Management (DSM)",
        dspec: u16 @ 54 "Directive Specific (DSPEC)",
        lbt: u32 @ 56 "Initial Logical Block Reference Tag" = "nvme.cmd.eilbrt",
        lbat: u16 @ 60 "Logical Block Application Tag" = "nvme.cmd.elbat",
        lbatm: u16 @ 62 "Logical Block Application Tag Mask" = "nvme.cmd.elbatm",
    }

    /// Flush command: no fields of its own. [Base 2.0, 7.1]
    pub struct Flush[64] of Sqe without 8..24, 40..64 {
    }
}
