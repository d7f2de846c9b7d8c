//! Persistent event log (0Dh): a head of 512 bytes, then events, the newest first. [Base 2.0, 5.16.1.14]

use crate::open::Cntlid;
use crate::value::{Ascii, Text};

layout! {
    /// Head of the persistent event log, 512 bytes. [Base 2.0, 5.16.1.14; generation and context: later]
    pub struct PersistentEventHead[512] {
        lid: u8 @ 0 "Log Page Identifier (LID): 0Dh",
        tnev: u32 @ 4 "Total Number of Events (TNEV)",
        tll: u64 @ 8 "Total Log Length (TLL), bytes",
        rv: u8 @ 16 "Log Revision",
        lhl: u16 @ 18 "Log Header Length (LHL), bytes behind byte 19",
        ts: u64 @ 20 "Timestamp, as of the feature",
        poh: [u8; 16] @ 28 "Power on Hours (POH), little-endian",
        pcc: u64 @ 44 "Power Cycle Count",
        vid: u16 @ 52 "PCI Vendor ID (VID)",
        ssvid: u16 @ 54 "PCI Subsystem Vendor ID (SSVID)",
        sn: (Ascii<20>) @ 56 "Serial Number (SN)",
        mn: (Ascii<40>) @ 76 "Model Number (MN)",
        subnqn: (Text<256>) @ 116 "NVM Subsystem NVMe Qualified Name (SUBNQN)",
        generation: u16 @ 372 "Generation Number; later than 2.0",
        rci_rcpid: u16 @ 374 "Reporting Context Information: port identifier; later than 2.0",
        rci_rcpit: u8 @ 376 [1:0] "Reporting Context Information: port identifier type; later than 2.0",
        rci_rce: bool @ 376 [2] "Reporting Context Information: context exists; later than 2.0",
        seb: [u8; 32] @ 480 "Supported Events Bitmap, bit n for event type n",
    }

    /// Head of a persistent event: VSIL bytes of vendor information and EL - VSIL of the event follow. [Base 2.0, 5.16.1.14.1]
    pub struct PersistentEvent[24] {
        etype: EventKind @ 0 "Event Type",
        etype_rev: u8 @ 1 "Event Type Revision",
        ehl: u8 @ 2 "Event Header Length (EHL), bytes behind byte 2",
        pit: u8 @ 3 [1:0] "Event Header Additional Info: port identifier type; later than 2.0",
        cntlid: Cntlid @ 4 "Controller Identifier (CNTLID)",
        ets: u64 @ 6 "Event Timestamp, as of the feature",
        pelpid: u16 @ 14 "Port Identifier (PELPID); later than 2.0",
        vsil: u16 @ 20 "Vendor Specific Information Length (VSIL), bytes",
        el: u16 @ 22 "Event Length (EL), bytes",
    }
}

open_enum! {
    /// Persistent event type. [Base 2.0, 5.16.1.14.1; 0Eh to 10h: later]
    pub struct EventKind(u8) {
        HEALTH = 0x01 "SMART / Health Log Snapshot",
        FIRMWARE_COMMIT = 0x02 "Firmware Commit",
        TIMESTAMP = 0x03 "Timestamp Change",
        POWER_ON = 0x04 "Power-on or Reset",
        HARDWARE_ERROR = 0x05 "NVM Subsystem Hardware Error",
        CHANGE_NAMESPACE = 0x06 "Change Namespace",
        FORMAT_START = 0x07 "Format NVM Start",
        FORMAT_END = 0x08 "Format NVM Completion",
        SANITIZE_START = 0x09 "Sanitize Start",
        SANITIZE_END = 0x0a "Sanitize Completion",
        SET_FEATURE = 0x0b "Set Feature",
        TELEMETRY = 0x0c "Telemetry Log Created",
        THERMAL = 0x0d "Thermal Excursion",
        MEDIA_VERIFICATION = 0x0e "Sanitize Media Verification",
        PERSONALITY = 0x0f "Configurable Device Personality Change",
        EXPORTED_SUBSYSTEM = 0x10 "Exported NVM Subsystem Change",
        VENDOR = 0xde "Vendor Specific",
        TCG = 0xdf "TCG Defined",
    }
}
