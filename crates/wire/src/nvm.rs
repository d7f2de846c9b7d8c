//! I/O commands of the NVM command set, and the ranges that Dataset Management and Copy carry. [NVM Command Set 1.0, 3]
//!
//! Start with [`Read`] and [`Write`]. A field marked "later than 1.0" is reserved in NVM Command Set 1.0 and stands here as revision 1.1
//! has it. The commands about reservations are in [`crate::reservation`].

use crate::layout::{Layout, Structure};
use crate::open::{Nsid, ZeroBased8, ZeroBased16, ZeroBased32};
use crate::sqe::Sqe;

layout! {
    /// Read command. [NVM Command Set 1.0, 3.2.4]
    pub struct Read[64] of Sqe without 8..16, 40..64 {
        elbtl: u32 @ 8 "Expected Logical Block Tags (ELBTL)",
        elbtu: u16 @ 12 "Expected Logical Block Tags (ELBTU)",
        slba: u64 @ 40 "Starting LBA (SLBA)" = "nvme.cmd.slba",
        nlb: ZeroBased16 @ 48 "Number of Logical Blocks (NLB), 0's based" = "nvme.cmd.nlb",
        cetype: u8 @ 50 [3:0] "Command Extension Type (CETYPE); later than 1.0",
        stc: bool @ 51 [0] "Storage Tag Check (STC)",
        prinfo: u8 @ 51 [5:2] "Protection Information (PRINFO)" = "nvme.cmd.prinfo",
        fua: bool @ 51 [6] "Force Unit Access (FUA)" = "nvme.cmd.fua",
        lr: bool @ 51 [7] "Limited Retry (LR)" = "nvme.cmd.lr",
        dsm: u8 @ 52 "Dataset Management (DSM); with CETYPE the low half of CEV",
        cev_high: u8 @ 53 "Command Extension Value (CEV), high half; later than 1.0",
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
        cetype: u8 @ 50 [3:0] "Command Extension Type (CETYPE); later than 1.0",
        dtype: u8 @ 50 [7:4] "Directive Type (DTYPE)",
        stc: bool @ 51 [0] "Storage Tag Check (STC)",
        prinfo: u8 @ 51 [5:2] "Protection Information (PRINFO)" = "nvme.cmd.prinfo",
        fua: bool @ 51 [6] "Force Unit Access (FUA)" = "nvme.cmd.fua",
        lr: bool @ 51 [7] "Limited Retry (LR)" = "nvme.cmd.lr",
        dsm: u8 @ 52 "Dataset Management (DSM); with CETYPE the low half of CEV",
        cev_high: u8 @ 53 "Command Extension Value (CEV), high half; later than 1.0",
        dspec: u16 @ 54 "Directive Specific (DSPEC)",
        lbt: u32 @ 56 "Initial Logical Block Reference Tag" = "nvme.cmd.eilbrt",
        lbat: u16 @ 60 "Logical Block Application Tag" = "nvme.cmd.elbat",
        lbatm: u16 @ 62 "Logical Block Application Tag Mask" = "nvme.cmd.elbatm",
    }

    /// Flush command: no fields of its own. [Base 2.0, 7.1]
    pub struct Flush[64] of Sqe without 8..24, 40..64 {
    }

    /// Compare command; its data is what the blocks are compared with. [NVM Command Set 1.0, 3.2.1, Figures 19 to 25]
    pub struct Compare[64] of Sqe without 8..16, 40..64 {
        elbtl: u32 @ 8 "Expected Logical Block Tags (ELBTL)",
        elbtu: u16 @ 12 "Expected Logical Block Tags (ELBTU)",
        slba: u64 @ 40 "Starting LBA (SLBA)",
        nlb: ZeroBased16 @ 48 "Number of Logical Blocks (NLB), 0's based",
        cetype: u8 @ 50 [3:0] "Command Extension Type (CETYPE); later than 1.0",
        stc: bool @ 51 [0] "Storage Tag Check (STC)",
        prinfo: u8 @ 51 [5:2] "Protection Information (PRINFO)",
        fua: bool @ 51 [6] "Force Unit Access (FUA)",
        lr: bool @ 51 [7] "Limited Retry (LR)",
        cev: u16 @ 52 "Command Extension Value (CEV); later than 1.0",
        elbt: u32 @ 56 "Expected Initial Logical Block Reference Tag",
        elbat: u16 @ 60 "Expected Logical Block Application Tag",
        elbatm: u16 @ 62 "Expected Logical Block Application Tag Mask",
    }

    /// Copy command; its data is NR + 1 ranges of [`CopyRange0`] to [`CopyRange3`], as DESFMT says.
    /// [NVM Command Set 1.0, 3.2.2, Figures 27 to 33]
    pub struct Copy[64] of Sqe without 8..24, 40..64 {
        lbtl: u32 @ 8 "Logical Block Tags (LBTL)",
        lbtu: u16 @ 12 "Logical Block Tags (LBTU)",
        sdlba: u64 @ 40 "Starting Destination LBA (SDLBA)",
        nr: ZeroBased8 @ 48 "Number of Ranges (NR), 0's based",
        desfmt: u8 @ 49 [3:0] "Descriptor Format (DESFMT)",
        prinfor: u8 @ 49 [7:4] "Protection Information Read (PRINFOR)",
        cetype: u8 @ 50 [3:0] "Command Extension Type (CETYPE); later than 1.0",
        dtype: u8 @ 50 [7:4] "Directive Type (DTYPE)",
        stcw: bool @ 51 [0] "Storage Tag Check Write (STCW)",
        stcr: bool @ 51 [1] "Storage Tag Check Read (STCR); later than 1.0",
        prinfow: u8 @ 51 [5:2] "Protection Information Write (PRINFOW)",
        fua: bool @ 51 [6] "Force Unit Access (FUA)",
        lr: bool @ 51 [7] "Limited Retry (LR)",
        cev: u16 @ 52 "Command Extension Value (CEV); later than 1.0",
        dspec: u16 @ 54 "Directive Specific (DSPEC)",
        lbt: u32 @ 56 "Initial Logical Block Reference Tag",
        lbat: u16 @ 60 "Logical Block Application Tag",
        lbatm: u16 @ 62 "Logical Block Application Tag Mask",
    }

    /// Source range of Copy, descriptor format 0h: 16b guard, source in the destination's namespace.
    /// [NVM Command Set 1.0, 3.2.2, Figure 34]
    pub struct CopyRange0[32] {
        slba: u64 @ 8 "Starting LBA (SLBA)",
        nlb: ZeroBased16 @ 16 "Number of Logical Blocks (NLB), 0's based",
        cetype: u8 @ 18 [3:0] "Command Extension Type (CETYPE); later than 1.0",
        cev: u16 @ 20 "Command Extension Value (CEV); later than 1.0",
        elbt: u32 @ 24 "Expected Logical Block Tags (ELBT)",
        elbat: u16 @ 28 "Expected Logical Block Application Tag (ELBAT)",
        elbatm: u16 @ 30 "Expected Logical Block Application Tag Mask (ELBATM)",
    }

    /// Source range of Copy, descriptor format 1h: 32b or 64b guard, source in the destination's namespace. ELBT is 10 bytes in
    /// wire order. [NVM Command Set 1.0, 3.2.2, Figure 35]
    pub struct CopyRange1[40] {
        slba: u64 @ 8 "Starting LBA (SLBA)",
        nlb: ZeroBased16 @ 16 "Number of Logical Blocks (NLB), 0's based",
        cetype: u8 @ 18 [3:0] "Command Extension Type (CETYPE); later than 1.0",
        cev: u16 @ 20 "Command Extension Value (CEV); later than 1.0",
        elbt: [u8; 10] @ 26 "Expected Logical Block Tags (ELBT)",
        elbat: u16 @ 36 "Expected Logical Block Application Tag (ELBAT)",
        elbatm: u16 @ 38 "Expected Logical Block Application Tag Mask (ELBATM)",
    }

    /// Source range of Copy, descriptor format 2h: 16b guard, source in any namespace. [NVM Command Set 1.1, 3.3.2, Figure 39]
    pub struct CopyRange2[32] {
        snsid: Nsid @ 0 "Source Namespace Identifier (SNSID)",
        slba: u64 @ 8 "Starting LBA (SLBA)",
        nlb: ZeroBased16 @ 16 "Number of Logical Blocks (NLB), 0's based",
        cetype: u8 @ 18 [3:0] "Command Extension Type (CETYPE)",
        cev: u16 @ 20 "Command Extension Value (CEV)",
        fco: bool @ 22 [15] "Source Options (SOPT): Fast Copy Only (FCO)",
        elbt: u32 @ 24 "Expected Logical Block Tags (ELBT)",
        elbat: u16 @ 28 "Expected Logical Block Application Tag (ELBAT)",
        elbatm: u16 @ 30 "Expected Logical Block Application Tag Mask (ELBATM)",
    }

    /// Source range of Copy, descriptor format 3h: 32b or 64b guard, source in any namespace. ELBT is 10 bytes in wire order.
    /// [NVM Command Set 1.1, 3.3.2, Figure 40]
    pub struct CopyRange3[40] {
        snsid: Nsid @ 0 "Source Namespace Identifier (SNSID)",
        slba: u64 @ 8 "Starting LBA (SLBA)",
        nlb: ZeroBased16 @ 16 "Number of Logical Blocks (NLB), 0's based",
        cetype: u8 @ 18 [3:0] "Command Extension Type (CETYPE)",
        cev: u16 @ 20 "Command Extension Value (CEV)",
        fco: bool @ 22 [15] "Source Options (SOPT): Fast Copy Only (FCO)",
        elbt: [u8; 10] @ 26 "Expected Logical Block Tags (ELBT)",
        elbat: u16 @ 36 "Expected Logical Block Application Tag (ELBAT)",
        elbatm: u16 @ 38 "Expected Logical Block Application Tag Mask (ELBATM)",
    }

    /// Dataset Management command; its data is NR + 1 ranges of [`DatasetRange`]. [NVM Command Set 1.0, 3.2.3, Figures 38 to 40]
    pub struct DatasetManagement[64] of Sqe without 8..24, 40..64 {
        nr: ZeroBased8 @ 40 "Number of Ranges (NR), 0's based",
        idr: bool @ 44 [0] "Integral Dataset for Read (IDR)",
        idw: bool @ 44 [1] "Integral Dataset for Write (IDW)",
        ad: bool @ 44 [2] "Deallocate (AD)",
    }

    /// Range of Dataset Management. LLB counts from 1. [NVM Command Set 1.0, 3.2.3, Figures 41 and 42]
    pub struct DatasetRange[16] {
        af: u8 @ 0 [3:0] "Context Attributes: Access Frequency (AF)",
        al: u8 @ 0 [5:4] "Context Attributes: Access Latency (AL): 1 idle, 2 normal, 3 low",
        srr: bool @ 0 [8] "Context Attributes: Sequential Read Range (SRR)",
        swr: bool @ 0 [9] "Context Attributes: Sequential Write Range (SWR)",
        wprep: bool @ 0 [10] "Context Attributes: Write Prepare (WPREP)",
        casze: u8 @ 3 "Context Attributes: Command Access Size (CASZE), blocks",
        llb: u32 @ 4 "Length in Logical Blocks (LLB)",
        slba: u64 @ 8 "Starting LBA (SLBA)",
    }

    /// Verify command: no data moves. [NVM Command Set 1.0, 3.2.5, Figures 53 to 57]
    pub struct Verify[64] of Sqe without 8..24, 40..64 {
        elbtl: u32 @ 8 "Expected Logical Block Tags (ELBTL)",
        elbtu: u16 @ 12 "Expected Logical Block Tags (ELBTU)",
        slba: u64 @ 40 "Starting LBA (SLBA)",
        nlb: ZeroBased16 @ 48 "Number of Logical Blocks (NLB), 0's based",
        cetype: u8 @ 50 [3:0] "Command Extension Type (CETYPE); later than 1.0",
        stc: bool @ 51 [0] "Storage Tag Check (STC)",
        prinfo: u8 @ 51 [5:2] "Protection Information (PRINFO)",
        fua: bool @ 51 [6] "Force Unit Access (FUA)",
        lr: bool @ 51 [7] "Limited Retry (LR)",
        cev: u16 @ 52 "Command Extension Value (CEV); later than 1.0",
        elbt: u32 @ 56 "Expected Initial Logical Block Reference Tag",
        elbat: u16 @ 60 "Expected Logical Block Application Tag",
        elbatm: u16 @ 62 "Expected Logical Block Application Tag Mask",
    }

    /// Write Uncorrectable command: no data moves. [NVM Command Set 1.0, 3.2.7, Figures 68 and 69]
    pub struct WriteUncorrectable[64] of Sqe without 8..24, 40..64 {
        slba: u64 @ 40 "Starting LBA (SLBA)",
        nlb: ZeroBased16 @ 48 "Number of Logical Blocks (NLB), 0's based",
        dtype: u8 @ 50 [7:4] "Directive Type (DTYPE); later than 1.0",
        dspec: u16 @ 54 "Directive Specific (DSPEC); later than 1.0",
    }

    /// Write Zeroes command: no data moves. [NVM Command Set 1.0, 3.2.8, Figures 71 to 75]
    pub struct WriteZeroes[64] of Sqe without 8..24, 40..64 {
        lbtl: u32 @ 8 "Logical Block Tags (LBTL)",
        lbtu: u16 @ 12 "Logical Block Tags (LBTU)",
        slba: u64 @ 40 "Starting LBA (SLBA)",
        nlb: ZeroBased16 @ 48 "Number of Logical Blocks (NLB), 0's based",
        cetype: u8 @ 50 [3:0] "Command Extension Type (CETYPE); later than 1.0",
        dtype: u8 @ 50 [6:4] "Directive Type (DTYPE); later than 1.0",
        nsz: bool @ 50 [7] "Namespace Zeroes (NSZ); later than 1.0",
        stc: bool @ 51 [0] "Storage Tag Check (STC): 0",
        deac: bool @ 51 [1] "Deallocate (DEAC)",
        prinfo: u8 @ 51 [5:2] "Protection Information (PRINFO)",
        fua: bool @ 51 [6] "Force Unit Access (FUA)",
        lr: bool @ 51 [7] "Limited Retry (LR)",
        cev: u16 @ 52 "Command Extension Value (CEV); later than 1.0",
        dspec: u16 @ 54 "Directive Specific (DSPEC); later than 1.0",
        lbt: u32 @ 56 "Initial Logical Block Reference Tag",
        lbat: u16 @ 60 "Logical Block Application Tag",
        lbatm: u16 @ 62 "Logical Block Application Tag Mask",
    }

    /// I/O Management Receive command: status of reclaim unit handles ([`crate::log::HandleStatusHead`]). [Base 2.1, 7.3]
    pub struct IoManagementReceive[64] of Sqe without 8..24, 40..64 {
        mo: u8 @ 40 "Management Operation (MO): 1 reclaim unit handle status",
        mos: u16 @ 42 "Management Operation Specific (MOS)",
        numd: ZeroBased32 @ 44 "Number of Dwords (NUMD), 0's based",
    }

    /// I/O Management Send command; its data is placement identifiers, 2 bytes each. [Base 2.1, 7.4]
    pub struct IoManagementSend[64] of Sqe without 8..24, 40..64 {
        mo: u8 @ 40 "Management Operation (MO): 1 reclaim unit handle update",
        mos: u16 @ 42 "Management Operation Specific (MOS): number of placement identifiers, 0's based",
    }
}

impl Copy {
    /// The table of a source range of this descriptor format; `None` for formats that are not here. 4h belongs to Subsystem Local
    /// Memory, the rest is reserved. [NVM Command Set 1.1, Figure 34]
    pub fn range_layout(desfmt: u8) -> Option<&'static Layout> {
        match desfmt {
            0 => Some(CopyRange0::LAYOUT),
            1 => Some(CopyRange1::LAYOUT),
            2 => Some(CopyRange2::LAYOUT),
            3 => Some(CopyRange3::LAYOUT),
            _ => None,
        }
    }

    /// Length in bytes of the list that the command announces; `None` where the descriptor format is not here.
    pub fn data_bytes(&self) -> Option<usize> {
        let range = Self::range_layout(self.desfmt())?;
        Some(range.bytes * usize::from(self.nr().0) + range.bytes)
    }
}

impl DatasetManagement {
    /// Bytes of the largest table of ranges: 256 of 16 bytes. [NVM 1.0, 3.2.3]
    pub const MAX_DATA_BYTES: usize = DatasetRange::LEN * 256;

    /// Length in bytes of the ranges that the command announces: 16 to 4096.
    pub fn data_bytes(&self) -> usize {
        DatasetRange::LEN * (usize::from(self.nr().0) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_ranges_is_as_long_as_its_count_and_format_say() {
        let copy = |format, nr| Copy::new().with(|s| s.desfmt(format).nr(ZeroBased8(nr))).data_bytes();
        assert_eq!((copy(0, 127), copy(2, 0)), (Some(4096), Some(32)));
        assert_eq!((copy(1, 101), copy(3, 255)), (Some(4080), Some(10240)));
        assert_eq!((copy(4, 0), copy(15, 0)), (None, None));
        let dsm = |nr| DatasetManagement::new().with(|s| s.nr(ZeroBased8(nr))).data_bytes();
        assert_eq!((dsm(0), dsm(255)), (16, 4096));
    }
}
