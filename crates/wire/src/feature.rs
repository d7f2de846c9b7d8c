//! Features: what dword 11 of Set Features, and dword 0 of a completed Get Features, holds for each FID, and the data that some carry.
//! [Base 2.0, 5.27.1]
//!
//! [`value_layout`] and [`data_layout`] find the table of a FID. What else a feature has in dword 12 is in a table of its own.

use crate::layout::{Layout, Structure};
use crate::open::ZeroBased16;

layout! {
    /// Arbitration (01h). [Base 2.0, 5.27.1.1]
    pub struct Arbitration[4] {
        ab: u8 @ 0 [2:0] "Arbitration Burst (AB): 2^n commands, 7 no limit",
        lpw: u8 @ 1 "Low Priority Weight (LPW), 0's based",
        mpw: u8 @ 2 "Medium Priority Weight (MPW), 0's based",
        hpw: u8 @ 3 "High Priority Weight (HPW), 0's based",
    }

    /// Power Management (02h). [Base 2.0, 5.27.1.2]
    pub struct PowerManagement[4] {
        ps: u8 @ 0 [4:0] "Power State (PS)",
        wh: u8 @ 0 [7:5] "Workload Hint (WH)",
    }

    /// LBA Range Type (03h). [NVM Command Set 1.0, 4.1.3.1]
    pub struct LbaRangeTypes[4] {
        num: u8 @ 0 [5:0] "Number of LBA Ranges (NUM), 0's based",
    }

    /// Temperature Threshold (04h). [Base 2.0, 5.27.1.3]
    pub struct TemperatureThreshold[4] {
        tmpth: u16 @ 0 "Temperature Threshold (TMPTH), kelvins",
        tmpsel: u8 @ 0 [19:16] "Threshold Temperature Select (TMPSEL): 0 composite, 1 to 8 a sensor, Fh all",
        thsel: u8 @ 0 [21:20] "Threshold Type Select (THSEL): 0 over, 1 under",
        tmpthh: u8 @ 0 [24:22] "Temperature Threshold Hysteresis (TMPTHH), kelvins; later than 2.0",
    }

    /// Error Recovery (05h). [NVM Command Set 1.0, 4.1.3.2]
    pub struct ErrorRecovery[4] {
        tler: u16 @ 0 "Time Limited Error Recovery (TLER), 100 ms units, 0 no limit",
        dulbe: bool @ 0 [16] "Deallocated or Unwritten Logical Block Error Enable (DULBE)",
    }

    /// Volatile Write Cache (06h). [Base 2.0, 5.27.1.4]
    pub struct VolatileWriteCache[4] {
        wce: bool @ 0 [0] "Volatile Write Cache Enable (WCE)",
    }

    /// Number of Queues (07h), as asked for; what is granted is in [`crate::cqe::QueuesGranted`]. [Base 2.0, 5.27.1.5]
    pub struct NumberOfQueues[4] {
        nsqr: ZeroBased16 @ 0 "Number of I/O Submission Queues Requested (NSQR), 0's based",
        ncqr: ZeroBased16 @ 2 "Number of I/O Completion Queues Requested (NCQR), 0's based",
    }

    /// Write Atomicity Normal (0Ah). [NVM Command Set 1.0, 4.1.3.3]
    pub struct WriteAtomicity[4] {
        dn: bool @ 0 [0] "Disable Normal (DN)",
    }

    /// Asynchronous Event Configuration (0Bh). [Base 2.0, 5.27.1.8; bits 30:28 and 19:16: later]
    pub struct AsyncEventConfig[4] {
        spare: bool @ 0 [0] "SMART / Health Critical Warnings: spare below threshold",
        temperature: bool @ 0 [1] "SMART / Health Critical Warnings: temperature",
        reliability: bool @ 0 [2] "SMART / Health Critical Warnings: reliability degraded",
        read_only: bool @ 0 [3] "SMART / Health Critical Warnings: read only",
        backup: bool @ 0 [4] "SMART / Health Critical Warnings: volatile memory backup failed",
        pmr: bool @ 0 [5] "SMART / Health Critical Warnings: persistent memory region",
        nan: bool @ 0 [8] "Attached Namespace Attribute Notices (NAN)",
        fan: bool @ 0 [9] "Firmware Activation Notices (FAN)",
        tln: bool @ 0 [10] "Telemetry Log Notices (TLN)",
        anacn: bool @ 0 [11] "Asymmetric Namespace Access Change Notices (ANACN)",
        plealcn: bool @ 0 [12] "Predictable Latency Event Aggregate Log Change Notices",
        lbasian: bool @ 0 [13] "LBA Status Information Alert Notices",
        egealcn: bool @ 0 [14] "Endurance Group Event Aggregate Log Change Notices",
        nnsshdn: bool @ 0 [15] "Normal NVM Subsystem Shutdown",
        tthry: bool @ 0 [16] "Temperature Threshold Hysteresis Recovery; later than 2.0",
        rassn: bool @ 0 [17] "Reachability Association Notices; later than 2.0",
        rgrp0: bool @ 0 [18] "Reachability Group Notices; later than 2.0",
        ansan: bool @ 0 [19] "Allocated Namespace Attribute Notices; later than 2.0",
        zdcn: bool @ 0 [27] "Zone Descriptor Changed Notices",
        pmdrlpcn: bool @ 0 [28] "Pull Model DDC Request Log Page Change Notices; later than 2.0",
        adlpcn: bool @ 0 [29] "AVE Discovery Log Page Change Notices; later than 2.0",
        hdlpcn: bool @ 0 [30] "Host Discovery Log Page Change Notices; later than 2.0",
        dlpcn: bool @ 0 [31] "Discovery Log Page Change Notices",
    }

    /// Autonomous Power State Transition (0Ch). [Base 2.0, 5.27.1.9]
    pub struct AutonomousPower[4] {
        apste: bool @ 0 [0] "Autonomous Power State Transition Enable (APSTE)",
    }

    /// Entry of the data of Autonomous Power State Transition, one of 32. [Base 2.0, 5.27.1.9]
    pub struct PowerTransition[8] {
        itps: u8 @ 0 [7:3] "Idle Transition Power State (ITPS)",
        itpt: u32 @ 0 [31:8] "Idle Time Prior to Transition (ITPT), ms",
    }

    /// Data of Timestamp (0Eh). [Base 2.0, 5.27.1.11]
    pub struct Timestamp[8] {
        timestamp: u64 @ 0 [47:0] "Timestamp, ms since 1970 or since the last reset",
        synch: bool @ 6 [0] "Timestamp Attributes: the counting may have stopped",
        origin: u8 @ 6 [3:1] "Timestamp Attributes: origin: 0 cleared by a reset, 1 set by a host",
    }

    /// Keep Alive Timer (0Fh). [Base 2.0, 5.27.1.12]
    pub struct KeepAliveTimer[4] {
        kato: u32 @ 0 "Keep Alive Timeout (KATO), ms",
    }

    /// Host Controlled Thermal Management (10h). [Base 2.0, 5.27.1.13]
    pub struct ThermalManagement[4] {
        tmt2: u16 @ 0 "Thermal Management Temperature 2 (TMT2), kelvins",
        tmt1: u16 @ 2 "Thermal Management Temperature 1 (TMT1), kelvins",
    }

    /// Non-Operational Power State Config (11h). [Base 2.0, 5.27.1.14]
    pub struct NonOperationalPower[4] {
        noppme: bool @ 0 [0] "Non-Operational Power State Permissive Mode Enable (NOPPME)",
    }

    /// Read Recovery Level Config (12h), and Predictable Latency Mode Config and Window (13h, 14h). [Base 2.0, 5.27.1.15 to 5.27.1.17]
    pub struct OfNvmSet[4] {
        nvmsetid: u16 @ 0 "NVM Set Identifier (NVMSETID)",
    }

    /// LBA Status Information Attributes (15h). [NVM Command Set 1.0, 4.1.3.5]
    pub struct LbaStatusAttributes[4] {
        lsiri: u16 @ 0 "LBA Status Information Report Interval (LSIRI), 100 ms units",
        lsipi: u16 @ 2 "LBA Status Information Poll Interval (LSIPI), 100 ms units",
    }

    /// Data of Host Behavior Support (16h). [Base 2.0, 5.27.1.18; HDISNS and CDFE: later]
    pub struct HostBehavior[512] {
        acre: u8 @ 0 "Advanced Command Retry Enable (ACRE): 1 enabled",
        etdas: u8 @ 1 "Extended Telemetry Data Area 4 Supported (ETDAS): 1 supported",
        lbafee: u8 @ 2 "LBA Format Extension Enable (LBAFEE): 1 enabled",
        hdisns: u8 @ 3 "Host Dispersed Namespace Support (HDISNS): 1 supported; later than 2.0",
        cdfe: u16 @ 4 "Copy Descriptor Formats Enable (CDFE), bit n for format n; later than 2.0",
    }

    /// Sanitize Config (17h). [Base 2.0, 5.27.1.19]
    pub struct SanitizeConfig[4] {
        nodrm: bool @ 0 [0] "No-Deallocate Response Mode (NODRM)",
    }

    /// Endurance Group Event Configuration (18h). [Base 2.0, 5.27.1.20]
    pub struct EnduranceGroupEvents[4] {
        endgid: u16 @ 0 "Endurance Group Identifier (ENDGID)",
        egcw_spare: bool @ 0 [16] "Endurance Group Critical Warnings: spare below threshold",
        egcw_reliability: bool @ 0 [18] "Endurance Group Critical Warnings: reliability degraded",
        egcw_read_only: bool @ 0 [19] "Endurance Group Critical Warnings: read only",
    }

    /// I/O Command Set Profile (19h). [Base 2.0, 5.27.1.21]
    pub struct CommandSetProfile[4] {
        iocsci: u16 @ 0 [8:0] "I/O Command Set Combination Index (IOCSCI)",
    }

    /// Spinup Control (1Ah). [Base 2.0, 5.27.1.22]
    pub struct SpinupControl[4] {
        sue: bool @ 0 [0] "Spinup Control Enable",
    }

    /// Flexible Data Placement (1Dh), dword 11. [Base 2.1, 5.1.25]
    pub struct Placement[4] {
        endgid: u16 @ 0 "Endurance Group Identifier (ENDGID)",
    }

    /// Flexible Data Placement (1Dh), dword 12 of Set Features and dword 0 of a completed Get Features. [Base 2.1, 5.1.25]
    pub struct PlacementSettings[4] {
        fdpe: bool @ 0 [0] "Flexible Data Placement Enable (FDPE)",
        fdpci: u8 @ 1 "Flexible Data Placement Configuration Index (FDPCI)",
    }

    /// Flexible Data Placement Events (1Eh), dword 11. [Base 2.1, 5.1.25]
    pub struct PlacementEvents[4] {
        phndl: u16 @ 0 "Placement Handle (PHNDL)",
        noet: u8 @ 2 "Number of FDP Event Types (NOET)",
    }

    /// Software Progress Marker (80h). [Base 2.0, 5.27.1.24]
    pub struct SoftwareProgress[4] {
        pbslc: u8 @ 0 "Pre-boot Software Load Count (PBSLC)",
    }

    /// Host Identifier (81h), dword 11. [Base 2.0, 5.27.1.25]
    pub struct HostIdentifierSize[4] {
        exhid: bool @ 0 [0] "Enable Extended Host Identifier (EXHID): 1 is 128 bits",
    }

    /// Reservation Notification Mask (82h): a bit set masks the notice. [Base 2.0, 5.27.1.26]
    pub struct ReservationMask[4] {
        regpre: bool @ 0 [1] "Mask Registration Preempted Notification (REGPRE)",
        resrel: bool @ 0 [2] "Mask Reservation Released Notification (RESREL)",
        respre: bool @ 0 [3] "Mask Reservation Preempted Notification (RESPRE)",
    }

    /// Reservation Persistence (83h). [Base 2.0, 5.27.1.27]
    pub struct ReservationPersistence[4] {
        ptpl: bool @ 0 [0] "Persist Through Power Loss (PTPL)",
    }

    /// Namespace Write Protection Config (84h). [Base 2.0, 5.27.1.28]
    pub struct WriteProtection[4] {
        wps: u8 @ 0 [2:0] "Write Protection State (WPS): 0 off, 1 on, 2 until power cycle, 3 permanent",
    }
}

open_enum! {
    /// Feature Identifier (FID). [Base 2.0, 5.27.1, Figure 317; 1Bh to 1Fh, 20h to 28h, 78h, 79h, 85h: later]
    pub struct Feature(u8) {
        ARBITRATION = 0x01 "Arbitration",
        POWER_MANAGEMENT = 0x02 "Power Management",
        LBA_RANGE_TYPE = 0x03 "LBA Range Type",
        TEMPERATURE_THRESHOLD = 0x04 "Temperature Threshold",
        ERROR_RECOVERY = 0x05 "Error Recovery",
        VOLATILE_WRITE_CACHE = 0x06 "Volatile Write Cache",
        NUMBER_OF_QUEUES = 0x07 "Number of Queues",
        INTERRUPT_COALESCING = 0x08 "Interrupt Coalescing",
        INTERRUPT_VECTOR = 0x09 "Interrupt Vector Configuration",
        WRITE_ATOMICITY = 0x0a "Write Atomicity Normal",
        ASYNC_EVENT_CONFIG = 0x0b "Asynchronous Event Configuration",
        AUTONOMOUS_POWER = 0x0c "Autonomous Power State Transition",
        HOST_MEMORY_BUFFER = 0x0d "Host Memory Buffer",
        TIMESTAMP = 0x0e "Timestamp",
        KEEP_ALIVE_TIMER = 0x0f "Keep Alive Timer",
        THERMAL_MANAGEMENT = 0x10 "Host Controlled Thermal Management",
        NON_OPERATIONAL_POWER = 0x11 "Non-Operational Power State Config",
        READ_RECOVERY_LEVEL = 0x12 "Read Recovery Level Config",
        PREDICTABLE_LATENCY_CONFIG = 0x13 "Predictable Latency Mode Config",
        PREDICTABLE_LATENCY_WINDOW = 0x14 "Predictable Latency Mode Window",
        LBA_STATUS_ATTRIBUTES = 0x15 "LBA Status Information Attributes",
        HOST_BEHAVIOR = 0x16 "Host Behavior Support",
        SANITIZE_CONFIG = 0x17 "Sanitize Config",
        ENDURANCE_GROUP_EVENTS = 0x18 "Endurance Group Event Configuration",
        COMMAND_SET_PROFILE = 0x19 "I/O Command Set Profile",
        SPINUP_CONTROL = 0x1a "Spinup Control",
        POWER_LOSS_SIGNALING = 0x1b "Power Loss Signaling Config",
        PERFORMANCE = 0x1c "Performance Characteristics",
        PLACEMENT = 0x1d "Flexible Data Placement",
        PLACEMENT_EVENTS = 0x1e "Flexible Data Placement Events",
        NAMESPACE_LABEL = 0x1f "Namespace Admin Label",
        KEY_VALUE = 0x20 "Key Value Configuration",
        CONTROLLER_DATA_QUEUE = 0x21 "Controller Data Queue",
        DEVICE_PERSONALITY = 0x22 "Configurable Device Personality",
        POWER_LIMIT = 0x23 "Power Limit",
        POWER_THRESHOLD = 0x24 "Power Threshold",
        POWER_MEASUREMENT = 0x25 "Power Measurement",
        VOLTAGE_THRESHOLD = 0x26 "Voltage Threshold",
        VOLTAGE_MEASUREMENT = 0x27 "Voltage Measurement",
        RATE_LIMITING = 0x28 "Rate Limiting",
        MANAGEMENT_ADDRESS = 0x78 "Embedded Management Controller Address",
        MANAGEMENT_AGENT = 0x79 "Host Management Agent Address",
        ENHANCED_METADATA = 0x7d "Enhanced Controller Metadata",
        CONTROLLER_METADATA = 0x7e "Controller Metadata",
        NAMESPACE_METADATA = 0x7f "Namespace Metadata",
        SOFTWARE_PROGRESS = 0x80 "Software Progress Marker",
        HOST_IDENTIFIER = 0x81 "Host Identifier",
        RESERVATION_NOTIFICATION_MASK = 0x82 "Reservation Notification Mask",
        RESERVATION_PERSISTENCE = 0x83 "Reservation Persistence",
        WRITE_PROTECTION = 0x84 "Namespace Write Protection Config",
        BOOT_PARTITION_PROTECTION = 0x85 "Boot Partition Write Protection Config",
    }
}

/// The table of dword 11 of Set Features for this FID, and of dword 0 of a completed Get Features where the feature returns its value
/// there (Number of Queues and Flexible Data Placement return another: [`crate::cqe::QueuesGranted`], [`PlacementSettings`]).
pub fn value_layout(fid: Feature) -> Option<&'static Layout> {
    Some(match fid {
        Feature::ARBITRATION => Arbitration::LAYOUT,
        Feature::POWER_MANAGEMENT => PowerManagement::LAYOUT,
        Feature::LBA_RANGE_TYPE => LbaRangeTypes::LAYOUT,
        Feature::TEMPERATURE_THRESHOLD => TemperatureThreshold::LAYOUT,
        Feature::ERROR_RECOVERY => ErrorRecovery::LAYOUT,
        Feature::VOLATILE_WRITE_CACHE => VolatileWriteCache::LAYOUT,
        Feature::NUMBER_OF_QUEUES => NumberOfQueues::LAYOUT,
        Feature::WRITE_ATOMICITY => WriteAtomicity::LAYOUT,
        Feature::ASYNC_EVENT_CONFIG => AsyncEventConfig::LAYOUT,
        Feature::AUTONOMOUS_POWER => AutonomousPower::LAYOUT,
        Feature::KEEP_ALIVE_TIMER => KeepAliveTimer::LAYOUT,
        Feature::THERMAL_MANAGEMENT => ThermalManagement::LAYOUT,
        Feature::NON_OPERATIONAL_POWER => NonOperationalPower::LAYOUT,
        Feature::READ_RECOVERY_LEVEL | Feature::PREDICTABLE_LATENCY_CONFIG | Feature::PREDICTABLE_LATENCY_WINDOW => {
            OfNvmSet::LAYOUT
        }
        Feature::LBA_STATUS_ATTRIBUTES => LbaStatusAttributes::LAYOUT,
        Feature::SANITIZE_CONFIG => SanitizeConfig::LAYOUT,
        Feature::ENDURANCE_GROUP_EVENTS => EnduranceGroupEvents::LAYOUT,
        Feature::COMMAND_SET_PROFILE => CommandSetProfile::LAYOUT,
        Feature::SPINUP_CONTROL => SpinupControl::LAYOUT,
        Feature::PLACEMENT => Placement::LAYOUT,
        Feature::PLACEMENT_EVENTS => PlacementEvents::LAYOUT,
        Feature::SOFTWARE_PROGRESS => SoftwareProgress::LAYOUT,
        Feature::HOST_IDENTIFIER => HostIdentifierSize::LAYOUT,
        Feature::RESERVATION_NOTIFICATION_MASK => ReservationMask::LAYOUT,
        Feature::RESERVATION_PERSISTENCE => ReservationPersistence::LAYOUT,
        Feature::WRITE_PROTECTION => WriteProtection::LAYOUT,
        _ => return None,
    })
}

/// The table of the data that Set and Get Features carry for this FID, where it is one structure.
pub fn data_layout(fid: Feature) -> Option<&'static Layout> {
    match fid {
        Feature::AUTONOMOUS_POWER => Some(PowerTransition::LAYOUT),
        Feature::TIMESTAMP => Some(Timestamp::LAYOUT),
        Feature::HOST_BEHAVIOR => Some(HostBehavior::LAYOUT),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_table_is_one_dword() {
        let found: alloc::vec::Vec<_> = (0..=255).filter_map(|n| value_layout(Feature(n))).collect();
        assert!(found.len() >= 25 && found.iter().all(|l| l.bytes == 4), "{found:?}");
        assert!((0..=255).map(Feature).all(|f| f.name().is_some() || (value_layout(f).is_none() && data_layout(f).is_none())));
    }
}
