//! Admin commands: what stands in their dwords. [Base 2.0, 5]

use crate::open::{Cid, Qid};
use crate::sqe::Sqe;

layout! {
    /// Identify command. [Base 2.0, 5.17, Figures 271 and 272]
    pub struct Identify[64] of Sqe without 8..24, 40..64 {
        cns: u8 @ 40 "Controller or Namespace Structure (CNS)" = "nvme.cmd.identify.dword10.cns",
        cntid: u16 @ 42 "Controller Identifier (CNTID)" = "nvme.cmd.identify.dword10.cntid",
        cnssid: u16 @ 44 "CNS Specific Identifier",
        csi: u8 @ 47 "Command Set Identifier (CSI)",
        uidx: u8 @ 56 [6:0] "UUID Index",
    }

    /// Get Log Page command. [Base 2.0, 5.16, Figures 194 to 199]
    pub struct GetLogPage[64] of Sqe without 8..24, 40..64 {
        lid: u8 @ 40 "Log Page Identifier (LID)" = "nvme.cmd.get_logpage.dword10.id",
        lsp: u8 @ 41 [6:0] "Log Specific Parameter (LSP)" = "nvme.cmd.get_logpage.dword10.lsp",
        rae: bool @ 41 [7] "Retain Asynchronous Event (RAE)" = "nvme.cmd.get_logpage.dword10.rae",
        numd: u32 @ 42 "Number of Dwords (NUMDL and NUMDU), 0's based" = "nvme.cmd.get_logpage.numd",
        lsi: u16 @ 46 "Log Specific Identifier (LSI)",
        lpo: u64 @ 48 "Log Page Offset (LPOL and LPOU), bytes" = "nvme.cmd.get_logpage.lpo",
        uidx: u8 @ 56 [6:0] "UUID Index",
        ot: bool @ 58 [7] "Offset Type (OT): the offset is an index",
        csi: u8 @ 59 "Command Set Identifier (CSI)",
    }

    /// Set Features command. [Base 2.0, 5.27, Figures 316 to 318]
    pub struct SetFeatures[64] of Sqe without 8..24, 40..64 {
        fid: u8 @ 40 "Feature Identifier (FID)" = "nvme.cmd.set_features.dword10.fid",
        sv: bool @ 43 [7] "Save (SV)" = "nvme.cmd.set_features.dword10.sv",
        value: u32 @ 44 "Feature specific, dword 11",
        cdw12: u32 @ 48 "Feature specific, dword 12",
        cdw13: u32 @ 52 "Feature specific, dword 13",
        uidx: u8 @ 56 [6:0] "UUID Index",
        cdw15: u32 @ 60 "Feature specific, dword 15",
    }

    /// Get Features command. [Base 2.0, 5.15, Figures 186 to 189]
    pub struct GetFeatures[64] of Sqe without 8..24, 40..64 {
        fid: u8 @ 40 "Feature Identifier (FID)" = "nvme.cmd.get_features.dword10.fid",
        sel: u8 @ 41 [2:0] "Select (SEL): 0 current, 1 default, 2 saved, 3 supported" = "nvme.cmd.set_features.dword10.sel",
        value: u32 @ 44 "Feature specific, dword 11",
        uidx: u8 @ 56 [6:0] "UUID Index",
    }

    /// Abort command. [Base 2.0, 5.1, Figure 140]
    pub struct Abort[64] of Sqe without 8..40, 40..64 {
        sqid: Qid @ 40 "Submission Queue Identifier (SQID)",
        cid_abort: Cid @ 42 "Command Identifier (CID) of the command to abort",
    }

    /// Keep Alive command: no fields of its own. [Base 2.0, 5.18]
    pub struct KeepAlive[64] of Sqe without 8..24, 40..64 {
    }

    /// Asynchronous Event Request command: no fields of its own. [Base 2.0, 5.2]
    pub struct AsyncEventRequest[64] of Sqe without 8..24, 40..64 {
    }

    /// Namespace Management command; a create carries [`NamespaceCreate`], a delete no data. [Base 2.0, 5.23]
    pub struct NamespaceManagement[64] of Sqe without 8..24, 40..64 {
        sel: u8 @ 40 [3:0] "Select (SEL): 0 create, 1 delete",
        csi: u8 @ 47 "Command Set Identifier (CSI), of a create",
    }

    /// What the host chooses of a new namespace of the NVM command set, 4096 bytes. [NVM Command Set 1.0, 4.1.6, Figure 105]
    pub struct NamespaceCreate[4096] {
        nsze: u64 @ 0 "Namespace Size (NSZE), blocks",
        ncap: u64 @ 8 "Namespace Capacity (NCAP), blocks",
        flbas_low: u8 @ 26 [3:0] "Formatted LBA Size (FLBAS): format, bits 3:0",
        flbas_extended: bool @ 26 [4] "Formatted LBA Size (FLBAS): metadata at the end of the block",
        flbas_high: u8 @ 26 [6:5] "Formatted LBA Size (FLBAS): format, bits 5:4",
        dps_type: u8 @ 29 [2:0] "End-to-end Data Protection Settings (DPS): type, 0 off",
        dps_first: bool @ 29 [3] "End-to-end Data Protection Settings (DPS): first bytes of the metadata",
        nmic_shared: bool @ 30 [0] "Multi-path I/O and Namespace Sharing (NMIC): shared",
        anagrpid: u32 @ 92 "ANA Group Identifier (ANAGRPID), 0 leaves it to the controller",
        nvmsetid: u16 @ 100 "NVM Set Identifier (NVMSETID), 0 leaves it to the controller",
        endgid: u16 @ 102 "Endurance Group Identifier (ENDGID), 0 leaves it to the controller",
        lbstm: u64 @ 384 "Logical Block Storage Tag Mask (LBSTM)",
        vs: [u8; 3072] @ 1024 "Vendor specific",
    }

    /// Namespace Attachment command; its data is a controller list ([`crate::identify::controller_list`]). [Base 2.0, 5.22]
    pub struct NamespaceAttachment[64] of Sqe without 8..24, 40..64 {
        sel: u8 @ 40 [3:0] "Select (SEL): 0 attach, 1 detach",
    }
}

open_enum! {
    /// Feature Identifier (FID). [Base 2.0, 5.27.1, Figure 317]
    pub struct Feature(u8) {
        ARBITRATION = 0x01 "Arbitration",
        POWER_MANAGEMENT = 0x02 "Power Management",
        TEMPERATURE_THRESHOLD = 0x04 "Temperature Threshold",
        ERROR_RECOVERY = 0x05 "Error Recovery",
        VOLATILE_WRITE_CACHE = 0x06 "Volatile Write Cache",
        NUMBER_OF_QUEUES = 0x07 "Number of Queues",
        INTERRUPT_COALESCING = 0x08 "Interrupt Coalescing",
        INTERRUPT_VECTOR = 0x09 "Interrupt Vector Configuration",
        WRITE_ATOMICITY = 0x0a "Write Atomicity Normal",
        ASYNC_EVENT_CONFIG = 0x0b "Asynchronous Event Configuration",
        TIMESTAMP = 0x0e "Timestamp",
        KEEP_ALIVE_TIMER = 0x0f "Keep Alive Timer",
        HOST_BEHAVIOR = 0x16 "Host Behavior Support",
        HOST_IDENTIFIER = 0x81 "Host Identifier",
        RESERVATION_NOTIFICATION_MASK = 0x82 "Reservation Notification Mask",
        RESERVATION_PERSISTENCE = 0x83 "Reservation Persistence",
    }
    /// Log Page Identifier (LID). [Base 2.0, 5.16.1, Figure 202; 71h to 73h: Base 2.1, 5.1.12.3]
    pub struct LogPage(u8) {
        SUPPORTED = 0x00 "Supported Log Pages",
        ERROR = 0x01 "Error Information",
        SMART = 0x02 "SMART / Health Information",
        FIRMWARE_SLOT = 0x03 "Firmware Slot Information",
        CHANGED_NAMESPACES = 0x04 "Changed Namespace List",
        COMMAND_EFFECTS = 0x05 "Commands Supported and Effects",
        ANA = 0x0c "Asymmetric Namespace Access",
        FEATURE_EFFECTS = 0x12 "Feature Identifiers Supported and Effects",
        DISCOVERY = 0x70 "Discovery",
        HOST_DISCOVERY = 0x71 "Host Discovery",
        AVE_DISCOVERY = 0x72 "AVE Discovery",
        PULL_MODEL_DDC_REQUEST = 0x73 "Pull Model DDC Request",
        RESERVATION = 0x80 "Reservation Notification",
    }
    /// Controller or Namespace Structure (CNS) of Identify. [Base 2.0, 5.17, Figure 273]
    pub struct Cns(u8) {
        NAMESPACE = 0x00 "Identify Namespace",
        CONTROLLER = 0x01 "Identify Controller",
        ACTIVE_NAMESPACES = 0x02 "Active Namespace ID list",
        NAMESPACE_DESCRIPTORS = 0x03 "Namespace Identification Descriptor list",
        NVM_SETS = 0x04 "NVM Set List",
        NAMESPACE_CSI = 0x05 "I/O command set specific Identify Namespace",
        CONTROLLER_CSI = 0x06 "I/O command set specific Identify Controller",
        ACTIVE_NAMESPACES_CSI = 0x07 "I/O command set specific Active Namespace ID list",
        NAMESPACE_INDEPENDENT = 0x08 "I/O command set independent Identify Namespace",
        ALLOCATED_NAMESPACES = 0x10 "Allocated Namespace ID list",
        ALLOCATED_NAMESPACE = 0x11 "Identify Namespace, allocated NSID",
        ATTACHED_CONTROLLERS = 0x12 "Namespace Attached Controller list",
        CONTROLLERS = 0x13 "Controller list",
        PRIMARY_CONTROLLER = 0x14 "Primary Controller Capabilities",
        SECONDARY_CONTROLLERS = 0x15 "Secondary Controller list",
        NAMESPACE_GRANULARITY = 0x16 "Namespace Granularity List",
        UUIDS = 0x17 "UUID List",
        DOMAINS = 0x18 "Domain List",
        ENDURANCE_GROUPS = 0x19 "Endurance Group List",
        ALLOCATED_NAMESPACES_CSI = 0x1a "I/O command set specific Allocated Namespace ID list",
        ALLOCATED_NAMESPACE_CSI = 0x1b "I/O command set specific Identify Namespace, allocated NSID",
        COMMAND_SETS = 0x1c "I/O Command Set",
    }
}
