//! Admin commands about firmware, media, security and directives. A fabrics controller may have them; the reference controller does not,
//! and a host of a fabric meets them as what is refused or as an entry of the commands supported and effects log. [Base 2.0, 5]

use crate::open::ZeroBased32;
use crate::sqe::Sqe;

layout! {
    /// Firmware Commit command. [Base 2.0, 5.12, Figure 181]
    pub struct FirmwareCommit[64] of Sqe without 8..24, 40..64 {
        fs: u8 @ 40 [2:0] "Firmware Slot (FS), 0 leaves it to the controller",
        ca: CommitAction @ 40 [5:3] "Commit Action (CA)",
        bpid: bool @ 43 [7] "Boot Partition ID (BPID)",
    }

    /// Firmware Image Download command. [Base 2.0, 5.13, Figures 184 and 185]
    pub struct FirmwareDownload[64] of Sqe without 8..24, 40..64 {
        numd: ZeroBased32 @ 40 "Number of Dwords (NUMD), 0's based",
        ofst: u32 @ 44 "Offset (OFST), dwords",
    }

    /// Device Self-test command. [Base 2.0, 5.9, Figure 170]
    pub struct DeviceSelfTest[64] of Sqe without 8..24, 40..64 {
        stc: SelfTest @ 40 [3:0] "Self-test Code (STC)",
    }

    /// Directive Send command. [Base 2.0, 5.8, Figures 166 and 167]
    pub struct DirectiveSend[64] of Sqe without 8..24, 40..64 {
        numd: ZeroBased32 @ 40 "Number of Dwords (NUMD), 0's based",
        doper: u8 @ 44 "Directive Operation (DOPER)",
        dtype: u8 @ 45 "Directive Type (DTYPE): 0 identify, 1 streams",
        dspec: u16 @ 46 "Directive Specific (DSPEC)",
        cdw12: u32 @ 48 "Directive specific, dword 12",
        cdw13: u32 @ 52 "Directive specific, dword 13",
    }

    /// Directive Receive command. [Base 2.0, 5.7, Figures 163 and 164]
    pub struct DirectiveReceive[64] of Sqe without 8..24, 40..64 {
        numd: ZeroBased32 @ 40 "Number of Dwords (NUMD), 0's based",
        doper: u8 @ 44 "Directive Operation (DOPER)",
        dtype: u8 @ 45 "Directive Type (DTYPE): 0 identify, 1 streams",
        dspec: u16 @ 46 "Directive Specific (DSPEC)",
        cdw12: u32 @ 48 "Directive specific, dword 12",
        cdw13: u32 @ 52 "Directive specific, dword 13",
    }

    /// Capacity Management command. [Base 2.0, 5.3]
    pub struct CapacityManagement[64] of Sqe without 8..24, 40..64 {
        oper: u8 @ 40 [3:0] "Operation (OPER)",
        elid: u16 @ 42 "Element Identifier (ELID)",
        cap: u64 @ 44 "Capacity (CAPL and CAPU), bytes",
    }

    /// Lockdown command. [Base 2.0, 5.19]
    pub struct Lockdown[64] of Sqe without 8..24, 40..64 {
        scp: u8 @ 40 [3:0] "Scope (SCP): 0 admin command, 2 feature, 3 and 4 management interface",
        prhbt: bool @ 40 [4] "Prohibit (PRHBT)",
        ifc: u8 @ 40 [6:5] "Interface (IFC)",
        ofi: u8 @ 41 "Opcode or Feature Identifier (OFI)",
        uidx: u8 @ 56 [6:0] "UUID Index",
    }

    /// Format NVM command. [Base 2.0, 5.14, Figure 187]
    pub struct FormatNvm[64] of Sqe without 8..24, 40..64 {
        lbafl: u8 @ 40 [3:0] "LBA Format Lower (LBAFL)",
        mset: bool @ 40 [4] "Metadata Settings (MSET): at the end of the block",
        pi: u8 @ 40 [7:5] "Protection Information (PI): type, 0 off",
        pil: bool @ 40 [8] "Protection Information Location (PIL): first bytes of the metadata",
        ses: u8 @ 40 [11:9] "Secure Erase Settings (SES): 1 user data, 2 cryptographic",
        lbafu: u8 @ 40 [13:12] "LBA Format Upper (LBAFU)",
    }

    /// Security Send command. [Base 2.0, 5.26]
    pub struct SecuritySend[64] of Sqe without 8..24, 40..64 {
        nssf: u8 @ 40 "NVMe Security Specific Field (NSSF)",
        spsp0: u8 @ 41 "SP Specific 0 (SPSP0)",
        spsp1: u8 @ 42 "SP Specific 1 (SPSP1)",
        secp: u8 @ 43 "Security Protocol (SECP)",
        tl: u32 @ 44 "Transfer Length (TL), bytes",
    }

    /// Security Receive command. [Base 2.0, 5.25]
    pub struct SecurityReceive[64] of Sqe without 8..24, 40..64 {
        nssf: u8 @ 40 "NVMe Security Specific Field (NSSF)",
        spsp0: u8 @ 41 "SP Specific 0 (SPSP0)",
        spsp1: u8 @ 42 "SP Specific 1 (SPSP1)",
        secp: u8 @ 43 "Security Protocol (SECP)",
        al: u32 @ 44 "Allocation Length (AL), bytes",
    }

    /// Sanitize command. [Base 2.0, 5.24]
    pub struct Sanitize[64] of Sqe without 8..24, 40..64 {
        sanact: SanitizeAction @ 40 [2:0] "Sanitize Action (SANACT)",
        ause: bool @ 40 [3] "Allow Unrestricted Sanitize Exit (AUSE)",
        owpass: u8 @ 40 [7:4] "Overwrite Pass Count (OWPASS), 0 is 16",
        oipbp: bool @ 40 [8] "Overwrite Invert Pattern Between Passes (OIPBP)",
        ndas: bool @ 40 [9] "No-Deallocate After Sanitize (NDAS)",
        emvs: bool @ 40 [10] "Enter Media Verification State (EMVS); later than 2.0",
        ovrpat: u32 @ 44 "Overwrite Pattern (OVRPAT)",
    }

    /// Get LBA Status command. [NVM Command Set 1.0, 4.2.1]
    pub struct GetLbaStatus[64] of Sqe without 8..24, 40..64 {
        slba: u64 @ 40 "Starting LBA (SLBA)",
        mndw: ZeroBased32 @ 48 "Maximum Number of Dwords (MNDW), 0's based",
        rl: u16 @ 52 "Range Length (RL), blocks, 0 up to the end",
        atype: u8 @ 55 "Action Type (ATYPE)",
    }
}

open_enum! {
    /// Commit Action (CA) of Firmware Commit. [Base 2.0, 5.12, Figure 181]
    pub struct CommitAction(u8) {
        REPLACE = 0 "replace",
        REPLACE_AND_ACTIVATE = 1 "replace, activate at the next reset",
        ACTIVATE = 2 "activate at the next reset",
        ACTIVATE_NOW = 3 "activate at once",
        REPLACE_BOOT_PARTITION = 6 "replace a boot partition",
        ACTIVATE_BOOT_PARTITION = 7 "activate a boot partition",
    }
    /// Self-test Code (STC). [Base 2.0, 5.9, Figure 170]
    pub struct SelfTest(u8) {
        SHORT = 0x1 "short",
        EXTENDED = 0x2 "extended",
        VENDOR = 0xe "vendor specific",
        ABORT = 0xf "abort",
    }
    /// Sanitize Action (SANACT). [Base 2.0, 5.24; 5: later]
    pub struct SanitizeAction(u8) {
        EXIT_FAILURE = 1 "exit failure mode",
        BLOCK_ERASE = 2 "block erase",
        OVERWRITE = 3 "overwrite",
        CRYPTO_ERASE = 4 "cryptographic erase",
        EXIT_VERIFICATION = 5 "exit media verification",
    }
}
