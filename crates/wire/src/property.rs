//! Property Get and Set, and the properties of a controller over fabrics. [Base 2.0, 6.5, 6.6 and 3.1.3, Figure 35]

use crate::open::ZeroBased16;
use crate::sqe::FabricsSqe;

layout! {
    /// Property Get command. [Base 2.0, 6.5, Figure 386]
    pub struct PropertyGet[64] of FabricsSqe without 24..40 {
        attrib: u8 @ 40 [2:0] "Attributes (ATTRIB): 0 is 4 bytes, 1 is 8 bytes" = "nvme.fabrics.cmd.prop_get_set.attrib.size",
        ofst: Property @ 44 "Offset (OFST), bytes" = "nvme.fabrics.cmd.prop_get_set.offset",
    }

    /// Property Set command. [Base 2.0, 6.6, Figure 388]
    pub struct PropertySet[64] of FabricsSqe without 24..40 {
        attrib: u8 @ 40 [2:0] "Attributes (ATTRIB): 0 is 4 bytes, 1 is 8 bytes" = "nvme.fabrics.cmd.prop_get_set.attrib.size",
        ofst: Property @ 44 "Offset (OFST), bytes" = "nvme.fabrics.cmd.prop_get_set.offset",
        value: u64 @ 48 "Value (VALUE): 4-byte properties use the low half",
    }

    /// Controller Capabilities (CAP), offset 0h, 8 bytes. [Base 2.0, 3.1.3.1]
    pub struct Cap[8] {
        mqes: ZeroBased16 @ 0 "Maximum Queue Entries Supported (MQES), 0's based; I/O queues",
        cqr: bool @ 0 [16] "Contiguous Queues Required (CQR)",
        ams: u8 @ 0 [18:17] "Arbitration Mechanism Supported (AMS)",
        to: u8 @ 3 "Timeout (TO), 500 ms units",
        dstrd: u8 @ 4 [3:0] "Doorbell Stride (DSTRD)",
        nssrs: bool @ 4 [4] "NVM Subsystem Reset Supported (NSSRS)",
        css_nvm: bool @ 4 [5] "Command Sets Supported (CSS): NVM command set",
        css_rest: u8 @ 4 [10:6] "Command Sets Supported (CSS): bits 5:1, reserved",
        css_sets: bool @ 4 [11] "Command Sets Supported (CSS): one or more I/O command sets",
        css_none: bool @ 4 [12] "Command Sets Supported (CSS): no I/O command set",
        bps: bool @ 4 [13] "Boot Partition Support (BPS)",
        cps: u8 @ 4 [15:14] "Controller Power Scope (CPS)",
        mpsmin: u8 @ 6 [3:0] "Memory Page Size Minimum (MPSMIN): 2^(12 + n) bytes",
        mpsmax: u8 @ 6 [7:4] "Memory Page Size Maximum (MPSMAX): 2^(12 + n) bytes",
        pmrs: bool @ 7 [0] "Persistent Memory Region Supported (PMRS)",
        cmbs: bool @ 7 [1] "Controller Memory Buffer Supported (CMBS)",
        nsss: bool @ 7 [2] "NVM Subsystem Shutdown Supported (NSSS)",
        crwms: bool @ 7 [3] "Controller Ready With Media Support (CRWMS)",
        crims: bool @ 7 [4] "Controller Ready Independent of Media Support (CRIMS)",
        nsses: bool @ 7 [5] "NVM Subsystem Shutdown Enhancements Supported (NSSES); later than 2.0",
    }

    /// Version (VS), offset 8h. [Base 2.0, 3.1.3.2]
    pub struct Vs[4] {
        tertiary: u8 @ 0 "Tertiary Version (TER)",
        minor: u8 @ 1 "Minor Version (MNR)",
        major: u16 @ 2 "Major Version (MJR)",
    }

    /// Controller Configuration (CC), offset 14h. [Base 2.0, 3.1.3.5]
    pub struct Cc[4] {
        en: bool @ 0 [0] "Enable (EN)" = "nvme.fabrics.prop_get_set.cc.en",
        css: u8 @ 0 [6:4] "I/O Command Set Selected (CSS)" = "nvme.fabrics.prop_get_set.cc.css",
        mps: u8 @ 0 [10:7] "Memory Page Size (MPS): 2^(12 + n) bytes" = "nvme.fabrics.prop_get_set.cc.mps",
        ams: u8 @ 0 [13:11] "Arbitration Mechanism Selected (AMS)" = "nvme.fabrics.prop_get_set.cc.ams",
        shn: u8 @ 0 [15:14] "Shutdown Notification (SHN): 1 normal, 2 abrupt" = "nvme.fabrics.prop_get_set.cc.shn",
        iosqes: u8 @ 2 [3:0] "I/O Submission Queue Entry Size (IOSQES): 2^n bytes" = "nvme.fabrics.prop_get_set.cc.iosqes",
        iocqes: u8 @ 2 [7:4] "I/O Completion Queue Entry Size (IOCQES): 2^n bytes" = "nvme.fabrics.prop_get_set.cc.iocqes",
        crime: bool @ 3 [0] "Controller Ready Independent of Media Enable (CRIME)",
    }

    /// Controller Status (CSTS), offset 1Ch. [Base 2.0, 3.1.3.6]
    pub struct Csts[4] {
        rdy: bool @ 0 [0] "Ready (RDY)" = "nvme.fabrics.prop_get_set.csts.rdy",
        cfs: bool @ 0 [1] "Controller Fatal Status (CFS)" = "nvme.fabrics.prop_get_set.csts.cfs",
        shst: u8 @ 0 [3:2] "Shutdown Status (SHST): 1 occurring, 2 complete" = "nvme.fabrics.prop_get_set.csts.shst",
        nssro: bool @ 0 [4] "NVM Subsystem Reset Occurred (NSSRO)" = "nvme.fabrics.prop_get_set.csts.nssro",
        pp: bool @ 0 [5] "Processing Paused (PP)" = "nvme.fabrics.prop_get_set.csts.pp",
        st: bool @ 0 [6] "Shutdown Type (ST)",
    }

    /// NVM Subsystem Reset (NSSR), offset 20h; reads as 0. [Base 2.0, 3.1.3.7]
    pub struct Nssr[4] {
        nssrc: u32 @ 0 "NVM Subsystem Reset Control (NSSRC)" = "nvme.fabrics.cmd.prop_attr.set.nssr.nssrc",
    }

    /// NVM Subsystem Shutdown (NSSD), offset 64h. [Base 2.0, 3.1.3.20, Figure 61]
    pub struct Nssd[4] {
        nssc: u32 @ 0 "NVM Subsystem Shutdown Control (NSSC)",
    }

    /// Controller Ready Timeouts (CRTO), offset 68h. [Base 2.0, 3.1.3.21, Figure 62]
    pub struct Crto[4] {
        crwmt: u16 @ 0 "Controller Ready With Media Timeout (CRWMT), 500 ms units",
        crimt: u16 @ 2 "Controller Ready Independent of Media Timeout (CRIMT), 500 ms units",
    }
}

open_enum! {
    /// Offset of a property, bytes; [`Property::size`] tells those that exist over fabrics. [Base 2.0, 3.1.3, Figure 35]
    pub struct Property(u32) {
        CAP = 0x00 "CAP",
        VS = 0x08 "VS",
        INTMS = 0x0c "INTMS",
        INTMC = 0x10 "INTMC",
        CC = 0x14 "CC",
        CSTS = 0x1c "CSTS",
        NSSR = 0x20 "NSSR",
        AQA = 0x24 "AQA",
        ASQ = 0x28 "ASQ",
        ACQ = 0x30 "ACQ",
        CMBLOC = 0x38 "CMBLOC",
        CMBSZ = 0x3c "CMBSZ",
        BPINFO = 0x40 "BPINFO",
        BPRSEL = 0x44 "BPRSEL",
        BPMBL = 0x48 "BPMBL",
        CMBMSC = 0x50 "CMBMSC",
        CMBSTS = 0x58 "CMBSTS",
        CMBEBS = 0x5c "CMBEBS",
        CMBSWTP = 0x60 "CMBSWTP",
        NSSD = 0x64 "NSSD",
        CRTO = 0x68 "CRTO",
        PMRCAP = 0xe00 "PMRCAP",
        PMRCTL = 0xe04 "PMRCTL",
        PMRSTS = 0xe08 "PMRSTS",
        PMREBS = 0xe0c "PMREBS",
        PMRSWTP = 0xe10 "PMRSWTP",
        PMRMSCL = 0xe14 "PMRMSCL",
        PMRMSCU = 0xe18 "PMRMSCU",
    }
}

impl Property {
    /// Size in bytes of a property that exists over fabrics; `None` for reserved offsets. [Base 2.0, Figure 35]
    pub fn size(self) -> Option<usize> {
        match self {
            Self::CAP => Some(8),
            Self::VS | Self::CC | Self::CSTS | Self::NSSR | Self::NSSD | Self::CRTO => Some(4),
            _ => None,
        }
    }
}

/// The value that, written to NSSR, resets the NVM subsystem: "NVMe". [Base 2.0, 3.1.3.7]
pub const NSSR_RESET: u32 = 0x4e56_4d65;

/// The value that, written to NSSD, shuts the NVM subsystem down normally: "Nrml". [Base 2.0, 3.1.3.20]
pub const NSSD_NORMAL: u32 = 0x4e72_6d6c;

/// The value that, written to NSSD, shuts the NVM subsystem down abruptly: "Abpt". [Base 2.0, 3.1.3.20]
pub const NSSD_ABRUPT: u32 = 0x4162_7074;
