//! Flexible data placement: logs of configurations (20h), handle usage (21h), statistics (22h) and events (23h), and the status that I/O
//! Management Receive returns. [Base 2.1, 5.1.12.1.28 to 5.1.12.1.31 and 7.3]

use crate::open::{Nsid, ZeroBased16};

layout! {
    /// Head of the FDP configurations log (20h); configurations follow, each as long as its size says. [Base 2.1, 5.1.12.1.28]
    pub struct PlacementConfigurationsHead[16] {
        n: ZeroBased16 @ 0 "Number of FDP Configurations, 0's based",
        version: u8 @ 2 "Version",
        size: u32 @ 4 "Size, bytes",
    }

    /// FDP configuration descriptor; a descriptor of 4 bytes for each reclaim unit handle follows. [Base 2.1, 5.1.12.1.28]
    pub struct PlacementConfiguration[64] {
        size: u16 @ 0 "Descriptor Size, bytes",
        rgif: u8 @ 2 [3:0] "FDP Attributes: Reclaim Group Identifier Format (RGIF), bits",
        fdpvwc: bool @ 2 [4] "FDP Attributes: volatile write cache",
        valid: bool @ 2 [7] "FDP Attributes: configuration valid",
        vss: u8 @ 3 "Vendor Specific Size, bytes",
        nrg: u32 @ 4 "Number of Reclaim Groups (NRG)",
        nruh: u16 @ 8 "Number of Reclaim Unit Handles (NRUH)",
        maxpids: ZeroBased16 @ 10 "Max Placement Identifiers (MAXPIDS), 0's based",
        nns: u32 @ 12 "Number of Namespaces Supported (NNS), 0 no limit",
        runs: u64 @ 16 "Reclaim Unit Nominal Size (RUNS), bytes",
        erutl: u32 @ 24 "Estimated Reclaim Unit Time Limit (ERUTL), seconds, 0 not said",
    }

    /// Reclaim unit handle descriptor. [Base 2.1, 5.1.12.1.28]
    pub struct ReclaimUnitHandle[4] {
        ruht: u8 @ 0 "Reclaim Unit Handle Type (RUHT): 1 initially isolated, 2 persistently isolated",
    }

    /// Head of the reclaim unit handle usage log (21h); NRUH entries follow. [Base 2.1, 5.1.12.1.29]
    pub struct HandleUsageHead[8] {
        nruh: u16 @ 0 "Number of Reclaim Unit Handles (NRUH)",
    }

    /// Reclaim unit handle usage. [Base 2.1, 5.1.12.1.29]
    pub struct HandleUsage[8] {
        ruha: u8 @ 0 "Reclaim Unit Handle Attributes (RUHA): 0 unused, 1 host specified, 2 controller specified",
    }

    /// FDP statistics log (22h). Counters are little-endian. [Base 2.1, 5.1.12.1.30]
    pub struct PlacementStatistics[64] {
        hbmw: [u8; 16] @ 0 "Host Bytes with Metadata Written (HBMW), bytes",
        mbmw: [u8; 16] @ 16 "Media Bytes with Metadata Written (MBMW), bytes",
        mbe: [u8; 16] @ 32 "Media Bytes Erased (MBE), bytes",
    }

    /// Head of the FDP events log (23h). [Base 2.1, 5.1.12.1.31]
    pub struct PlacementEventsHead[64] {
        n: u32 @ 0 "Number of FDP Events, at most 63",
    }

    /// FDP event. [Base 2.1, 5.1.12.1.31]
    pub struct PlacementEvent[64] {
        etype: PlacementEventKind @ 0 "Event Type",
        piv: bool @ 1 [0] "Event Flags: placement identifier valid",
        nsidv: bool @ 1 [1] "Event Flags: NSID valid",
        lv: bool @ 1 [2] "Event Flags: location valid",
        pid: u16 @ 2 "Placement Identifier (PID)",
        timestamp: u64 @ 4 "Event Timestamp, as of the feature",
        nsid: Nsid @ 12 "Namespace Identifier (NSID)",
        specific: [u8; 16] @ 16 "Event type specific",
        rgid: u16 @ 32 "Reclaim Group Identifier (RGID)",
        ruhid: u8 @ 34 "Reclaim Unit Handle Identifier (RUHID)",
        vs: [u8; 24] @ 40 "Vendor specific",
    }

    /// Head of the reclaim unit handle status that I/O Management Receive returns; descriptors follow. [Base 2.1, 7.3]
    pub struct HandleStatusHead[16] {
        nruhsd: u16 @ 14 "Number of Reclaim Unit Handle Status Descriptors (NRUHSD)",
    }

    /// Reclaim unit handle status descriptor. [Base 2.1, 7.3]
    pub struct HandleStatus[32] {
        pid: u16 @ 0 "Placement Identifier (PID)",
        ruhid: u16 @ 2 "Reclaim Unit Handle Identifier (RUHID)",
        earutr: u32 @ 4 "Estimated Active Reclaim Unit Time Remaining (EARUTR), seconds",
        ruamw: u64 @ 8 "Reclaim Unit Available Media Writes (RUAMW), blocks",
    }
}

open_enum! {
    /// FDP event type. [Base 2.1, 5.1.12.1.31]
    pub struct PlacementEventKind(u8) {
        NOT_FULLY_WRITTEN = 0x00 "reclaim unit not fully written",
        TIME_LIMIT = 0x01 "reclaim unit time limit exceeded",
        RESET = 0x02 "reset changed reclaim unit handles",
        INVALID_PID = 0x03 "invalid placement identifier",
        REALLOCATED = 0x80 "media reallocated",
        MODIFIED = 0x81 "implicitly modified reclaim unit handle",
    }
}
