//! Error information (01h), SMART / health information (02h) and firmware slots (03h). [Base 2.0, 5.16.1.2 to 5.16.1.4]

use crate::open::{Cid, Nsid, Qid};
use crate::value::Ascii;

layout! {
    /// Error information log entry, 64 bytes; the newest comes first, an error count of 0 is an empty entry.
    /// [Base 2.0, 5.16.1.2, Figure 206; CSI, opcode and version: later]
    pub struct ErrorEntry[64] {
        count: u64 @ 0 "Error Count" = "nvme.cmd.get_logpage.errinf.errcnt",
        sqid: Qid @ 8 "Submission Queue ID (SQID), FFFFh not specific" = "nvme.cmd.get_logpage.errinf.sqid",
        cid: Cid @ 10 "Command ID (CID), FFFFh not specific" = "nvme.cmd.get_logpage.errinf.cid",
        phase: bool @ 12 [0] "Status Field: phase tag",
        status: u16 @ 12 [15:1] "Status Field, as in a CQE",
        location_byte: u8 @ 14 "Parameter Error Location: byte of the command" = "nvme.cmd.get_logpage.errinf.pel.bytee",
        location_bit: u8 @ 15 [2:0] "Parameter Error Location: bit in that byte",
        lba: u64 @ 16 "LBA" = "nvme.cmd.get_logpage.errinf.lba",
        nsid: Nsid @ 24 "Namespace (NSID)" = "nvme.cmd.get_logpage.errinf.nsid",
        vendor_info: u8 @ 28 "Vendor Specific Information Available: log page, 0 none" = "nvme.cmd.get_logpage.errinf.vsi",
        trtype: u8 @ 29 "Transport Type (TRTYPE)" = "nvme.cmd.get_logpage.errinf.trype",
        csi: u8 @ 30 "Command Set Indicator (CSI); later than 2.0",
        opcode: u8 @ 31 "Opcode; later than 2.0",
        command_info: u64 @ 32 "Command Specific Information" = "nvme.cmd.get_logpage.errinf.csi",
        transport_info: u16 @ 40 "Transport Type Specific Information: for TCP the offset of the field in error, bytes" = "nvme.cmd.get_logpage.errinf.tsi",
        version: u8 @ 63 "Log Page Version; later than 2.0",
    }

    /// SMART / health information log, 512 bytes. 16-byte counters are little-endian. [Base 2.0, 5.16.1.3, Figure 207]
    pub struct Smart[512] {
        warn_spare: bool @ 0 [0] "Critical Warning: spare below threshold" = "nvme.cmd.get_logpage.smart.cw.sc",
        warn_temperature: bool @ 0 [1] "Critical Warning: temperature beyond a threshold" = "nvme.cmd.get_logpage.smart.cw.temp",
        warn_reliability: bool @ 0 [2] "Critical Warning: reliability degraded" = "nvme.cmd.get_logpage.smart.cw.sme",
        warn_read_only: bool @ 0 [3] "Critical Warning: all media read only" = "nvme.cmd.get_logpage.smart.cw.ro",
        warn_backup: bool @ 0 [4] "Critical Warning: volatile memory backup failed" = "nvme.cmd.get_logpage.smart.cw.bdf",
        warn_pmr: bool @ 0 [5] "Critical Warning: persistent memory region unreliable or read only" = "nvme.cmd.get_logpage.smart.cw.mrro",
        temperature: u16 @ 1 "Composite Temperature, kelvins" = "nvme.cmd.get_logpage.smart.ct",
        spare: u8 @ 3 "Available Spare, percent" = "nvme.cmd.get_logpage.smart.asc",
        spare_threshold: u8 @ 4 "Available Spare Threshold, percent" = "nvme.cmd.get_logpage.smart.ast",
        used: u8 @ 5 "Percentage Used, 255 for 255 and more" = "nvme.cmd.get_logpage.smart.lae",
        eg_warn_spare: bool @ 6 [0] "Endurance Group Critical Warning Summary: spare below threshold" = "nvme.cmd.get_logpage.smart.egcws.sc",
        eg_warn_reliability: bool @ 6 [2] "Endurance Group Critical Warning Summary: reliability degraded" = "nvme.cmd.get_logpage.smart.egcws.me",
        eg_warn_read_only: bool @ 6 [3] "Endurance Group Critical Warning Summary: read only" = "nvme.cmd.get_logpage.smart.egcws.ro",
        data_units_read: [u8; 16] @ 32 "Data Units Read, 1000 x 512 bytes" = "nvme.cmd.get_logpage.smart.dur",
        data_units_written: [u8; 16] @ 48 "Data Units Written, 1000 x 512 bytes" = "nvme.cmd.get_logpage.smart.duw",
        host_reads: [u8; 16] @ 64 "Host Read Commands" = "nvme.cmd.get_logpage.smart.hrc",
        host_writes: [u8; 16] @ 80 "Host Write Commands" = "nvme.cmd.get_logpage.smart.hwc",
        busy_minutes: [u8; 16] @ 96 "Controller Busy Time, minutes" = "nvme.cmd.get_logpage.smart.cbt",
        power_cycles: [u8; 16] @ 112 "Power Cycles" = "nvme.cmd.get_logpage.smart.pc",
        power_on_hours: [u8; 16] @ 128 "Power On Hours" = "nvme.cmd.get_logpage.smart.poh",
        unsafe_shutdowns: [u8; 16] @ 144 "Unsafe Shutdowns" = "nvme.cmd.get_logpage.smart.us",
        media_errors: [u8; 16] @ 160 "Media and Data Integrity Errors" = "nvme.cmd.get_logpage.smart.mie",
        error_entries: [u8; 16] @ 176 "Number of Error Information Log Entries" = "nvme.cmd.get_logpage.smart.ele",
        warning_minutes: u32 @ 192 "Warning Composite Temperature Time, minutes" = "nvme.cmd.get_logpage.smart.wctt",
        critical_minutes: u32 @ 196 "Critical Composite Temperature Time, minutes" = "nvme.cmd.get_logpage.smart.cctt",
        sensor1: u16 @ 200 "Temperature Sensor 1, kelvins" = "nvme.cmd.get_logpage.smart.ts.s1",
        sensor2: u16 @ 202 "Temperature Sensor 2, kelvins" = "nvme.cmd.get_logpage.smart.ts.s2",
        sensor3: u16 @ 204 "Temperature Sensor 3, kelvins" = "nvme.cmd.get_logpage.smart.ts.s3",
        sensor4: u16 @ 206 "Temperature Sensor 4, kelvins" = "nvme.cmd.get_logpage.smart.ts.s4",
        sensor5: u16 @ 208 "Temperature Sensor 5, kelvins" = "nvme.cmd.get_logpage.smart.ts.s5",
        sensor6: u16 @ 210 "Temperature Sensor 6, kelvins" = "nvme.cmd.get_logpage.smart.ts.s6",
        sensor7: u16 @ 212 "Temperature Sensor 7, kelvins" = "nvme.cmd.get_logpage.smart.ts.s7",
        sensor8: u16 @ 214 "Temperature Sensor 8, kelvins" = "nvme.cmd.get_logpage.smart.ts.s8",
        tmt1_count: u32 @ 216 "Thermal Management Temperature 1 Transition Count" = "nvme.cmd.get_logpage.smart.tmt1c",
        tmt2_count: u32 @ 220 "Thermal Management Temperature 2 Transition Count" = "nvme.cmd.get_logpage.smart.tmt2c",
        tmt1_seconds: u32 @ 224 "Total Time for Thermal Management Temperature 1, seconds" = "nvme.cmd.get_logpage.smart.tmt1t",
        tmt2_seconds: u32 @ 228 "Total Time for Thermal Management Temperature 2, seconds" = "nvme.cmd.get_logpage.smart.tmt2t",
        lifetime_energy: u64 @ 232 "Operational Lifetime Energy Consumed; later than 2.0",
        interval_power: u32 @ 240 "Interval Power Measurement; later than 2.0",
    }

    /// Firmware slot information log, 512 bytes. [Base 2.0, 5.16.1.4, Figure 208]
    pub struct FirmwareSlots[512] {
        active: u8 @ 0 [2:0] "Active Firmware Info (AFI): slot that runs" = "nvme.cmd.get_logpage.fw_slot.afi.afs",
        next: u8 @ 0 [6:4] "Active Firmware Info (AFI): slot after the next Controller Level Reset" = "nvme.cmd.get_logpage.fw_slot.afi.nfs",
        frs1: (Ascii<8>) @ 8 "Firmware Revision for Slot 1 (FRS1)" = "nvme.cmd.get_logpage.fw_slot.frs.s1",
        frs2: (Ascii<8>) @ 16 "Firmware Revision for Slot 2 (FRS2)" = "nvme.cmd.get_logpage.fw_slot.frs.s2",
        frs3: (Ascii<8>) @ 24 "Firmware Revision for Slot 3 (FRS3)" = "nvme.cmd.get_logpage.fw_slot.frs.s3",
        frs4: (Ascii<8>) @ 32 "Firmware Revision for Slot 4 (FRS4)" = "nvme.cmd.get_logpage.fw_slot.frs.s4",
        frs5: (Ascii<8>) @ 40 "Firmware Revision for Slot 5 (FRS5)" = "nvme.cmd.get_logpage.fw_slot.frs.s5",
        frs6: (Ascii<8>) @ 48 "Firmware Revision for Slot 6 (FRS6)" = "nvme.cmd.get_logpage.fw_slot.frs.s6",
        frs7: (Ascii<8>) @ 56 "Firmware Revision for Slot 7 (FRS7)" = "nvme.cmd.get_logpage.fw_slot.frs.s7",
    }
}
