//! Endurance groups (09h), their events (0Fh) and those of predictable latency (0Bh), self-tests (06h), sanitize operations (81h), blocks
//! whose status is in doubt (0Eh), telemetry (07h, 08h) and lockdown (14h): what a device tells of its media.
//! [Base 2.0, 5.16.1.7 to 5.16.1.20 and 5.16.1.25]

use crate::open::Nsid;

layout! {
    /// Head of the device self-test log (06h); 20 results follow, the newest first. [Base 2.0, 5.16.1.7]
    pub struct SelfTestHead[4] {
        operation: u8 @ 0 [3:0] "Current Device Self-test Operation: 0 none, 1 short, 2 extended",
        completion: u8 @ 1 [6:0] "Current Device Self-test Completion, percent",
    }

    /// Self-test result. [Base 2.0, 5.16.1.7]
    pub struct SelfTestResult[28] {
        result: u8 @ 0 [3:0] "Device Self-test Status: result, Fh entry not used",
        code: u8 @ 0 [7:4] "Device Self-test Status: code of the test",
        seg: u8 @ 1 "Segment Number that failed",
        vdi_nsid: bool @ 2 [0] "Valid Diagnostic Information: NSID",
        vdi_flba: bool @ 2 [1] "Valid Diagnostic Information: failing LBA",
        vdi_sct: bool @ 2 [2] "Valid Diagnostic Information: status code type",
        vdi_sc: bool @ 2 [3] "Valid Diagnostic Information: status code",
        poh: u64 @ 4 "Power On Hours (POH)",
        nsid: Nsid @ 12 "Namespace Identifier (NSID)",
        flba: u64 @ 16 "Failing LBA",
        sct: u8 @ 24 [2:0] "Status Code Type (SCT)",
        sc: u8 @ 25 "Status Code (SC)",
        vs: [u8; 2] @ 26 "Vendor specific",
    }

    /// Head of the telemetry logs of host (07h) and controller (08h); data blocks of 512 bytes follow.
    /// [Base 2.0, 5.16.1.8 and 5.16.1.9]
    pub struct TelemetryHead[512] {
        lid: u8 @ 0 "Log Page Identifier (LID)",
        ieee: [u8; 3] @ 5 "IEEE OUI Identifier (IEEE), in wire order",
        dalb1: u16 @ 8 "Telemetry Data Area 1 Last Block",
        dalb2: u16 @ 10 "Telemetry Data Area 2 Last Block",
        dalb3: u16 @ 12 "Telemetry Data Area 3 Last Block",
        dalb4: u32 @ 16 "Telemetry Data Area 4 Last Block",
        generation: u8 @ 381 "Telemetry Host-Initiated Data Generation Number (07h)",
        available: u8 @ 382 "Telemetry Controller-Initiated Data Available",
        controller_generation: u8 @ 383 "Telemetry Controller-Initiated Data Generation Number",
        reason: [u8; 128] @ 384 "Reason Identifier",
    }

    /// Endurance group information log (09h). 16-byte counters are little-endian. [Base 2.0, 5.16.1.10]
    pub struct EnduranceGroup[512] {
        warn_spare: bool @ 0 [0] "Critical Warning: spare below threshold",
        warn_reliability: bool @ 0 [2] "Critical Warning: reliability degraded",
        warn_read_only: bool @ 0 [3] "Critical Warning: read only",
        egrmedia: bool @ 1 [0] "Endurance Group Features: rotational media",
        spare: u8 @ 3 "Available Spare, percent",
        spare_threshold: u8 @ 4 "Available Spare Threshold, percent",
        used: u8 @ 5 "Percentage Used, 255 for 255 and more",
        did: u16 @ 6 "Domain Identifier (DID)",
        endurance: [u8; 16] @ 32 "Endurance Estimate, 10^9 bytes",
        data_units_read: [u8; 16] @ 48 "Data Units Read, 10^9 bytes",
        data_units_written: [u8; 16] @ 64 "Data Units Written, 10^9 bytes",
        media_units_written: [u8; 16] @ 80 "Media Units Written, 10^9 bytes",
        host_reads: [u8; 16] @ 96 "Host Read Commands",
        host_writes: [u8; 16] @ 112 "Host Write Commands",
        media_errors: [u8; 16] @ 128 "Media and Data Integrity Errors",
        error_entries: [u8; 16] @ 144 "Number of Error Information Log Entries",
        total: [u8; 16] @ 160 "Total Endurance Group Capacity (TEGCAP), bytes",
        unallocated: [u8; 16] @ 176 "Unallocated Endurance Group Capacity (UEGCAP), bytes",
    }

    /// Head of the event aggregate logs of predictable latency (0Bh) and endurance groups (0Fh); identifiers of NVM sets or endurance
    /// groups follow, 2 bytes each, ascending. [Base 2.0, 5.16.1.12 and 5.16.1.16]
    pub struct EventAggregate[8] {
        n: u64 @ 0 "Number of Entries",
    }

    /// Head of the LBA status information log (0Eh). [NVM Command Set 1.0, 4.1.4.5]
    pub struct LbaStatusHead[16] {
        lslplen: u32 @ 0 "LBA Status Log Page Length (LSLPLEN), bytes",
        nlslne: u32 @ 4 "Number of LBA Status Log Namespace Elements (NLSLNE)",
        estulb: u32 @ 8 "Estimate of Unrecoverable Logical Blocks (ESTULB)",
        lsgc: u16 @ 14 "LBA Status Generation Counter (LSGC)",
    }

    /// LBA status log namespace element; its ranges ([`LbaStatusRange`]) follow. [NVM Command Set 1.0, 4.1.4.5]
    pub struct LbaStatusElement[16] {
        neid: Nsid @ 0 "Namespace Element Identifier (NEID)",
        nlrd: u32 @ 4 "Number of LBA Range Descriptors (NLRD)",
        ratype: u8 @ 8 "Recommended Action Type (RATYPE)",
    }

    /// LBA range descriptor. [NVM Command Set 1.0, 4.1.4.5]
    pub struct LbaStatusRange[16] {
        rslba: u64 @ 0 "Range Starting LBA (RSLBA)",
        rnlb: u32 @ 8 "Range Number of Logical Blocks (RNLB)",
    }

    /// Head of the command and feature lockdown log (14h); LNGTH bytes of opcodes or feature identifiers follow. [Base 2.0, 5.16.1.20]
    pub struct LockdownHead[4] {
        scope: u8 @ 0 [3:0] "Command and Feature Identifier List Attributes: scope, as of Lockdown",
        contents: u8 @ 0 [5:4] "Command and Feature Identifier List Attributes: 0 supported, 1 prohibited, 2 prohibited out of band",
        lngth: u8 @ 3 "Length (LNGTH), bytes",
    }

    /// Sanitize status log (81h). [Base 2.0, 5.16.1.25; media verification: later]
    pub struct SanitizeStatus[512] {
        sprog: u16 @ 0 "Sanitize Progress (SPROG), 1/65536",
        status: u8 @ 2 [2:0] "Sanitize Status (SSTAT): 0 never, 1 done, 2 in progress, 3 failed, 4 done without deallocation",
        passes: u8 @ 2 [7:3] "Sanitize Status (SSTAT): overwrite passes done",
        gde: bool @ 2 [8] "Sanitize Status (SSTAT): global data erased",
        mvcncld: bool @ 2 [9] "Sanitize Status (SSTAT): media verification canceled; later than 2.0",
        scdw10: u32 @ 4 "Sanitize Command Dword 10 (SCDW10)",
        eto: u32 @ 8 "Estimated Time for Overwrite, seconds",
        etbe: u32 @ 12 "Estimated Time for Block Erase, seconds",
        etce: u32 @ 16 "Estimated Time for Crypto Erase, seconds",
        etond: u32 @ 20 "Estimated Time for Overwrite With No-Deallocate, seconds",
        etbend: u32 @ 24 "Estimated Time for Block Erase With No-Deallocate, seconds",
        etcend: u32 @ 28 "Estimated Time for Crypto Erase With No-Deallocate, seconds",
        etpvds: u32 @ 32 "Estimated Time for Post-Verification Deallocation State, seconds; later than 2.0",
        sans: u8 @ 36 [3:0] "Sanitize State Information: state; later than 2.0",
        fails: u8 @ 36 [7:4] "Sanitize State Information: state that failed; later than 2.0",
    }
}
