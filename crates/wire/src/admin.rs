//! Admin commands: what stands in their dwords. [Base 2.0, 5]

pub use crate::feature::Feature;
use crate::open::{Cid, Qid};
use crate::sqe::Sqe;

layout! {
    /// Identify command. [Base 2.0, 5.17, Figures 271 and 272]
    pub struct Identify[64] of Sqe without 8..24, 40..64 {
        cns: Cns @ 40 "Controller or Namespace Structure (CNS)" = "nvme.cmd.identify.dword10.cns",
        cntid: u16 @ 42 "Controller Identifier (CNTID)" = "nvme.cmd.identify.dword10.cntid",
        cnssid: u16 @ 44 "CNS Specific Identifier",
        csi: u8 @ 47 "Command Set Identifier (CSI)",
        uidx: u8 @ 56 [6:0] "UUID Index",
    }

    /// Get Log Page command. [Base 2.0, 5.16, Figures 194 to 199]
    pub struct GetLogPage[64] of Sqe without 8..24, 40..64 {
        lid: LogPage @ 40 "Log Page Identifier (LID)" = "nvme.cmd.get_logpage.dword10.id",
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
        fid: Feature @ 40 "Feature Identifier (FID)" = "nvme.cmd.set_features.dword10.fid",
        sv: bool @ 43 [7] "Save (SV)" = "nvme.cmd.set_features.dword10.sv",
        value: u32 @ 44 "Feature specific, dword 11",
        cdw12: u32 @ 48 "Feature specific, dword 12",
        cdw13: u32 @ 52 "Feature specific, dword 13",
        uidx: u8 @ 56 [6:0] "UUID Index",
        cdw15: u32 @ 60 "Feature specific, dword 15",
    }

    /// Get Features command. [Base 2.0, 5.15, Figures 186 to 189]
    pub struct GetFeatures[64] of Sqe without 8..24, 40..64 {
        fid: Feature @ 40 "Feature Identifier (FID)" = "nvme.cmd.get_features.dword10.fid",
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
        nmic_disns: bool @ 30 [1] "Multi-path I/O and Namespace Sharing (NMIC): dispersed; later than NVM Command Set 1.0",
        anagrpid: u32 @ 92 "ANA Group Identifier (ANAGRPID), 0 leaves it to the controller",
        nvmsetid: u16 @ 100 "NVM Set Identifier (NVMSETID), 0 leaves it to the controller",
        endgid: u16 @ 102 "Endurance Group Identifier (ENDGID), 0 leaves it to the controller",
        lbstm: u64 @ 384 "Logical Block Storage Tag Mask (LBSTM)",
        nphndls: u16 @ 392 "Number of Placement Handles (NPHNDLS); later than NVM Command Set 1.0",
        phndl: [u8; 256] @ 512 "Placement Handle List, 128 of 2 bytes; later than NVM Command Set 1.0",
        vs: [u8; 3072] @ 1024 "Vendor specific",
    }

    /// Namespace Attachment command; its data is a controller list ([`crate::identify::controller_list`]). [Base 2.0, 5.22]
    pub struct NamespaceAttachment[64] of Sqe without 8..24, 40..64 {
        sel: u8 @ 40 [3:0] "Select (SEL): 0 attach, 1 detach",
    }
}

open_enum! {
    /// Log Page Identifier (LID). [Base 2.0, 5.16.1, Figure 202; 10h, 11h and 16h to 28h, 71h to 73h, 7Fh: later]
    pub struct LogPage(u8) {
        SUPPORTED = 0x00 "Supported Log Pages",
        ERROR = 0x01 "Error Information",
        SMART = 0x02 "SMART / Health Information",
        FIRMWARE_SLOT = 0x03 "Firmware Slot Information",
        CHANGED_NAMESPACES = 0x04 "Changed Attached Namespace List",
        COMMAND_EFFECTS = 0x05 "Commands Supported and Effects",
        SELF_TEST = 0x06 "Device Self-test",
        TELEMETRY_HOST = 0x07 "Telemetry Host-Initiated",
        TELEMETRY_CONTROLLER = 0x08 "Telemetry Controller-Initiated",
        ENDURANCE_GROUP = 0x09 "Endurance Group Information",
        PREDICTABLE_LATENCY = 0x0a "Predictable Latency Per NVM Set",
        PREDICTABLE_LATENCY_EVENTS = 0x0b "Predictable Latency Event Aggregate",
        ANA = 0x0c "Asymmetric Namespace Access",
        PERSISTENT_EVENTS = 0x0d "Persistent Event Log",
        LBA_STATUS = 0x0e "LBA Status Information",
        ENDURANCE_GROUP_EVENTS = 0x0f "Endurance Group Event Aggregate",
        MEDIA_UNITS = 0x10 "Media Unit Status",
        CAPACITY_CONFIGURATIONS = 0x11 "Supported Capacity Configuration List",
        FEATURE_EFFECTS = 0x12 "Feature Identifiers Supported and Effects",
        MANAGEMENT_EFFECTS = 0x13 "NVMe-MI Commands Supported and Effects",
        LOCKDOWN = 0x14 "Command and Feature Lockdown",
        BOOT_PARTITION = 0x15 "Boot Partition",
        ROTATIONAL_MEDIA = 0x16 "Rotational Media Information",
        DISPERSED_NAMESPACE = 0x17 "Dispersed Namespace Participating NVM Subsystems",
        MANAGEMENT_ADDRESSES = 0x18 "Management Address List",
        EYE_OPENING = 0x19 "Physical Interface Receiver Eye Opening Measurement",
        REACHABILITY_GROUPS = 0x1a "Reachability Groups",
        REACHABILITY_ASSOCIATIONS = 0x1b "Reachability Associations",
        CHANGED_ALLOCATED_NAMESPACES = 0x1c "Changed Allocated Namespace List",
        DEVICE_PERSONALITIES = 0x1d "Device Personalities",
        CROSS_CONTROLLER_RESET = 0x1e "Cross-Controller Reset",
        LOST_HOST = 0x1f "Lost Host Communication",
        PLACEMENT_CONFIGURATIONS = 0x20 "FDP Configurations",
        HANDLE_USAGE = 0x21 "Reclaim Unit Handle Usage",
        PLACEMENT_STATISTICS = 0x22 "FDP Statistics",
        PLACEMENT_EVENTS = 0x23 "FDP Events",
        MANUFACTURING_DEFAULTS = 0x24 "Manufacturing Default Configuration",
        POWER_MEASUREMENT = 0x25 "Power Measurement",
        VOLTAGE_MEASUREMENT = 0x27 "Voltage Measurement",
        RATE_LIMITING = 0x28 "Rate Limiting",
        DISCOVERY = 0x70 "Discovery",
        HOST_DISCOVERY = 0x71 "Host Discovery",
        AVE_DISCOVERY = 0x72 "AVE Discovery",
        PULL_MODEL_DDC_REQUEST = 0x73 "Pull Model DDC Request",
        SANITIZE_NAMESPACES = 0x7f "Sanitize Namespace Status List",
        RESERVATION = 0x80 "Reservation Notification",
        SANITIZE = 0x81 "Sanitize Status",
        CHANGED_ZONES = 0xbf "Changed Zone List",
    }
    /// Controller or Namespace Structure (CNS) of Identify. [Base 2.0, 5.17, Figure 273; 09h, 0Ah, 1Dh to 20h: later]
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
        NAMESPACE_FORMAT = 0x09 "Identify Namespace, user data format",
        NAMESPACE_FORMAT_CSI = 0x0a "I/O command set specific Identify Namespace, user data format",
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
        UNDERLYING_NAMESPACES = 0x1d "Underlying Namespace List",
        PORTS = 0x1e "Ports List",
        ALLOCATED_NAMESPACE_INDEPENDENT = 0x1f "I/O command set independent Identify Namespace, allocated NSID",
        CONTROLLER_STATE_FORMATS = 0x20 "Supported Controller State Formats",
    }
}
