//! Completion Queue Entry (CQE), 16 bytes. [Base 2.0, 3.3.3.2, Figures 89 to 92; FAB-CMD-11]

use crate::admin::LogPage;
use crate::open::{Cid, Cntlid, Nsid};
use crate::status::Status;

layout! {
    /// Completion Queue Entry (CQE). Over fabrics SQID and the phase tag are reserved: 0. [Base 2.0, 3.3.3.2]
    pub struct Cqe[16] {
        dw0: u32 @ 0 "Command specific, dword 0" = "nvme.cqe.dword0",
        dw1: u32 @ 4 "Command specific, dword 1" = "nvme.cqe.dword1",
        sqhd: u16 @ 8 "SQ Head Pointer (SQHD)" = "nvme.cqe.sqhd",
        cid: Cid @ 12 "Command Identifier (CID)" = "nvme.cqe.cid",
        sc: u8 @ 14 [8:1] "Status Code (SC)" = "nvme.cqe.status.sc",
        sct: u8 @ 14 [11:9] "Status Code Type (SCT)" = "nvme.cqe.status.sct",
        crd: u8 @ 14 [13:12] "Command Retry Delay (CRD)" = "nvme.cqe.status.crd",
        more: bool @ 14 [14] "More (M)" = "nvme.cqe.status.m",
        dnr: bool @ 14 [15] "Do Not Retry (DNR)" = "nvme.cqe.status.dnr",
    }

    /// Connect response after success. [Base 2.0, 6.3, Figure 383]
    pub struct ConnectResponse[16] of Cqe without 0..8 {
        cntlid: Cntlid @ 0 "Controller ID (CNTLID)" = "nvme.fabrics.cqe.connect.cntrlid",
        atr: bool @ 2 [1] "Authentication Transaction Required (ATR)",
        ascr: bool @ 2 [2] "Authentication and Secure Channel Required (ASCR)",
    }

    /// Connect response with status Connect Invalid Parameters (SCT 1, 82h). [Base 2.0, 6.3, Figure 383]
    pub struct ConnectInvalid[16] of Cqe without 0..8 {
        ipo: u16 @ 0 "Invalid Parameter Offset (IPO), bytes",
        iattr: u8 @ 2 [0] "Invalid Attributes (IATTR): 0 counts IPO from the SQE, 1 from the data",
    }

    /// Property Get response. [Base 2.0, 6.5, Figure 387]
    pub struct PropertyGetResponse[16] of Cqe without 0..8 {
        value: u64 @ 0 "Value (VALUE): 4-byte properties use bytes 3:0",
    }

    /// Asynchronous Event Request completion. [Base 2.0, 5.2, Figure 145]
    pub struct AsyncEventResponse[16] of Cqe without 0..4 {
        event_type: EventType @ 0 [2:0] "Asynchronous Event Type (AET)" = "nvme.cqe.dword0.aev.aet",
        event_info: u8 @ 1 "Asynchronous Event Information (AEI)" = "nvme.cqe.dword0.aev.aei",
        log_page: LogPage @ 2 "Log Page Identifier (LID)" = "nvme.cqe.dword0.aev.lpi",
    }

    /// Number of Queues, completion of Set or Get Features 07h. [Base 2.0, 5.27.1.5]
    pub struct QueuesGranted[16] of Cqe without 0..4 {
        nsqa: u16 @ 0 "Number of I/O Submission Queues Allocated (NSQA), 0's based",
        ncqa: u16 @ 2 "Number of I/O Completion Queues Allocated (NCQA), 0's based",
    }

    /// Copy completion after a failure. [NVM Command Set 1.0, 3.2.2.1]
    pub struct CopyFailed[16] of Cqe without 0..4 {
        range: u32 @ 0 "Lowest source range that was not copied; 0 also where nothing was written",
    }

    /// Namespace Management completion: the namespace that a create made. [Base 2.0, 5.23]
    pub struct NamespaceCreated[16] of Cqe without 0..4 {
        nsid: Nsid @ 0 "Namespace Identifier (NSID)",
    }
}

open_enum! {
    /// Asynchronous Event Type (AET). [Base 2.0, 5.2.1, Figure 145]
    pub struct EventType(u8) {
        ERROR = 0 "error",
        HEALTH = 1 "SMART / health",
        NOTICE = 2 "notice",
        IMMEDIATE = 3 "immediate",
        COMMAND_SET = 6 "I/O command set specific",
        VENDOR = 7 "vendor specific",
    }
    /// Asynchronous Event Information of type error. [Base 2.0, 5.2.1, Figure 146]
    pub struct ErrorEvent(u8) {
        DOORBELL_REGISTER = 0 "write to invalid doorbell register",
        DOORBELL_VALUE = 1 "invalid doorbell write value",
        DIAGNOSTIC = 2 "diagnostic failure",
        PERSISTENT_INTERNAL = 3 "persistent internal error",
        TRANSIENT_INTERNAL = 4 "transient internal error",
        FIRMWARE_LOAD = 5 "firmware image load error",
    }
    /// Asynchronous Event Information of type SMART / health. [Base 2.0, 5.2.1, Figure 147]
    pub struct HealthEvent(u8) {
        RELIABILITY = 0 "NVM subsystem reliability",
        TEMPERATURE = 1 "temperature threshold",
        SPARE = 2 "spare below threshold",
    }
    /// Asynchronous Event Information of type notice. [Base 2.0, 5.2.1, Figure 148; F1h to F3h: Base 2.1]
    pub struct NoticeEvent(u8) {
        NAMESPACE_ATTRIBUTE = 0x00 "attached namespace attribute changed",
        FIRMWARE_ACTIVATION = 0x01 "firmware activation starting",
        TELEMETRY = 0x02 "telemetry log changed",
        ANA_CHANGE = 0x03 "asymmetric namespace access change",
        PREDICTABLE_LATENCY = 0x04 "predictable latency event aggregate log change",
        LBA_STATUS = 0x05 "LBA status information alert",
        ENDURANCE_GROUP = 0x06 "endurance group event aggregate log change",
        ZONE_DESCRIPTOR = 0xef "zone descriptor changed",
        DISCOVERY = 0xf0 "discovery log page change",
        HOST_DISCOVERY = 0xf1 "host discovery log page change",
        AVE_DISCOVERY = 0xf2 "AVE discovery log page change",
        PULL_MODEL_DDC_REQUEST = 0xf3 "pull model DDC request log page change",
    }
    /// Asynchronous Event Information of type I/O command set specific, NVM command set. [Base 2.0, 5.2.1, Figure 150]
    pub struct CommandSetEvent(u8) {
        RESERVATION = 0 "reservation log page available",
        SANITIZE = 1 "sanitize operation completed",
        SANITIZE_UNEXPECTED = 2 "sanitize operation completed with unexpected deallocation",
        SANITIZE_VERIFICATION = 3 "sanitize operation entered media verification",
    }
}

impl AsyncEventResponse {
    /// The name of the event: type and information together.
    pub fn event_name(&self) -> Option<&'static str> {
        let info = self.event_info();
        match self.event_type() {
            EventType::ERROR => ErrorEvent(info).name(),
            EventType::HEALTH => HealthEvent(info).name(),
            EventType::NOTICE => NoticeEvent(info).name(),
            EventType::COMMAND_SET => CommandSetEvent(info).name(),
            _ => None,
        }
    }
}

impl Cqe {
    /// The 15-bit status field, bits 15:1 of bytes 15:14.
    pub fn status(&self) -> Status {
        Status(crate::layout::load_bits(self.as_bytes(), 113, 15) as u16)
    }

    /// The same with this status; the phase tag becomes 0.
    #[must_use]
    pub fn with_status(self, status: Status) -> Self {
        let mut b = *self.as_bytes();
        b[14..16].copy_from_slice(&(status.0 << 1).to_le_bytes());
        Self::from_bytes(b)
    }

    /// A completion with no command specific content.
    pub fn of(cid: Cid, status: Status, sqhd: u16) -> Self {
        Self::new().with(|s| s.cid(cid).sqhd(sqhd)).with_status(status)
    }
}
