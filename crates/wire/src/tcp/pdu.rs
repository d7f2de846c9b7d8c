//! The header of each PDU: common header (CH, 8 bytes) and PDU specific header (PSH). [NVMe/TCP 1.0, 3.6.2.1 to 3.6.2.10]

use crate::layout::{Layout, Structure};
use crate::open::{Cid, ZeroBased32};

layout! {
    /// PDU common header (CH). [NVMe/TCP 1.0, 3.6.2.1]
    pub struct PduHead[8] {
        ptype: PduType @ 0 "PDU Type (PDU-Type)" = "nvme-tcp.type",
        hdgstf: bool @ 1 [0] "Flags: HDGST present (HDGSTF)" = "nvme-tcp.flags.pdu.hdgst",
        ddgstf: bool @ 1 [1] "Flags: DDGST present (DDGSTF)" = "nvme-tcp.flags.pdu.ddgst",
        last: bool @ 1 [2] "Flags: last PDU (LAST_PDU)" = "nvme-tcp.flags.pdu.data_last",
        success: bool @ 1 [3] "Flags: no response capsule follows (SUCCESS)" = "nvme-tcp.flags.pdu.data_success",
        hlen: u8 @ 2 "Header Length (HLEN), bytes" = "nvme-tcp.hlen",
        pdo: u8 @ 3 "PDU Data Offset (PDO), bytes" = "nvme-tcp.pdo",
        plen: u32 @ 4 "PDU Length (PLEN), bytes" = "nvme-tcp.plen",
    }

    /// Initialize Connection Request (ICReq): the host's first PDU. [NVMe/TCP 1.0, 3.6.2.2]
    pub struct IcReq[128] of PduHead without 1..2, 3..4 {
        pfv: u16 @ 8 "PDU Format Version (PFV)" = "nvme-tcp.icreq.pfv",
        hpda: u8 @ 10 "Host PDU Data Alignment (HPDA): (n + 1) x 4 bytes, at most 31" = "nvme-tcp.icreq.hpda",
        hdgst: bool @ 11 [0] "Header digest wanted (HDGST_ENABLE)",
        ddgst: bool @ 11 [1] "Data digest wanted (DDGST_ENABLE)",
        maxr2t: ZeroBased32 @ 12 "Maximum R2Ts outstanding per command (MAXR2T), 0's based" = "nvme-tcp.icreq.maxr2t",
    }

    /// Initialize Connection Response (ICResp). [NVMe/TCP 1.0, 3.6.2.3]
    pub struct IcResp[128] of PduHead without 1..2, 3..4 {
        pfv: u16 @ 8 "PDU Format Version (PFV)" = "nvme-tcp.icresp.pfv",
        cpda: u8 @ 10 "Controller PDU Data Alignment (CPDA): (n + 1) x 4 bytes, at most 31" = "nvme-tcp.icresp.cpda",
        hdgst: bool @ 11 [0] "Header digest in use (HDGST_ENABLE)",
        ddgst: bool @ 11 [1] "Data digest in use (DDGST_ENABLE)",
        maxh2cdata: u32 @ 12 "Maximum Host to Controller Data length (MAXH2CDATA), bytes" = "nvme-tcp.icresp.maxdata",
    }

    /// Terminate request of either side (H2CTermReq, C2HTermReq). [NVMe/TCP 1.0, 3.6.2.4 and 3.6.2.5]
    pub struct TermReq[24] of PduHead without 1..2, 3..4 {
        fes: Fes @ 8 "Fatal Error Status (FES)" = "nvme-tcp.c2htermreq.fes",
        fei: u32 @ 10 "Fatal Error Information (FEI), unaligned" = "nvme-tcp.c2htermreq.phfo",
    }

    /// Command capsule (CapsuleCmd): CH, then the SQE. [NVMe/TCP 1.0, 3.6.2.6]
    pub struct CapsuleCmd[72] of PduHead without 1..2 {
        hdgstf: bool @ 1 [0] "Flags: HDGST present (HDGSTF)" = "nvme-tcp.flags.pdu.hdgst",
        ddgstf: bool @ 1 [1] "Flags: DDGST present (DDGSTF)" = "nvme-tcp.flags.pdu.ddgst",
        sqe: [u8; 64] @ 8 "Submission Queue Entry (SQE)",
    }

    /// Response capsule (CapsuleResp): CH, then the CQE. [NVMe/TCP 1.0, 3.6.2.7]
    pub struct CapsuleResp[24] of PduHead without 1..2, 3..4 {
        hdgstf: bool @ 1 [0] "Flags: HDGST present (HDGSTF)" = "nvme-tcp.flags.pdu.hdgst",
        cqe: [u8; 16] @ 8 "Completion Queue Entry (CQE)",
    }

    /// Host to Controller Data Transfer (H2CData). [NVMe/TCP 1.0, 3.6.2.8]
    pub struct H2cData[24] of PduHead without 1..2 {
        hdgstf: bool @ 1 [0] "Flags: HDGST present (HDGSTF)" = "nvme-tcp.flags.pdu.hdgst",
        ddgstf: bool @ 1 [1] "Flags: DDGST present (DDGSTF)" = "nvme-tcp.flags.pdu.ddgst",
        last: bool @ 1 [2] "Flags: last PDU of this R2T (LAST_PDU)" = "nvme-tcp.flags.pdu.data_last",
        cccid: Cid @ 8 "Command Capsule CID (CCCID)" = "nvme-tcp.cmd.cid",
        ttag: u16 @ 10 "Transfer Tag (TTAG)" = "nvme-tcp.ttag",
        datao: u32 @ 12 "Data Offset (DATAO), bytes" = "nvme-tcp.data.offset",
        datal: u32 @ 16 "Data Length (DATAL), bytes" = "nvme-tcp.data.length",
    }

    /// Controller to Host Data Transfer (C2HData). [NVMe/TCP 1.0, 3.6.2.9]
    pub struct C2hData[24] of PduHead without 1..2 {
        hdgstf: bool @ 1 [0] "Flags: HDGST present (HDGSTF)" = "nvme-tcp.flags.pdu.hdgst",
        ddgstf: bool @ 1 [1] "Flags: DDGST present (DDGSTF)" = "nvme-tcp.flags.pdu.ddgst",
        last: bool @ 1 [2] "Flags: last PDU of this command (LAST_PDU)" = "nvme-tcp.flags.pdu.data_last",
        success: bool @ 1 [3] "Flags: no response capsule follows (SUCCESS)" = "nvme-tcp.flags.pdu.data_success",
        cccid: Cid @ 8 "Command Capsule CID (CCCID)" = "nvme-tcp.cmd.cid",
        datao: u32 @ 12 "Data Offset (DATAO), bytes" = "nvme-tcp.data.offset",
        datal: u32 @ 16 "Data Length (DATAL), bytes" = "nvme-tcp.data.length",
    }

    /// Ready to Transfer (R2T): the controller asks for a range of a command's data. [NVMe/TCP 1.0, 3.6.2.10]
    pub struct R2t[24] of PduHead without 1..2, 3..4 {
        hdgstf: bool @ 1 [0] "Flags: HDGST present (HDGSTF)" = "nvme-tcp.flags.pdu.hdgst",
        cccid: Cid @ 8 "Command Capsule CID (CCCID)" = "nvme-tcp.cmd.cid",
        ttag: u16 @ 10 "Transfer Tag (TTAG)" = "nvme-tcp.ttag",
        r2to: u32 @ 12 "Requested Data Offset (R2TO), bytes" = "nvme-tcp.r2t.offset",
        r2tl: u32 @ 16 "Requested Data Length (R2TL), bytes" = "nvme-tcp.r2t.length",
    }
}

open_enum! {
    /// PDU type; bit 0 is the direction: 0 host to controller, 1 controller to host. [NVMe/TCP 1.0, 3.6.2, Figure 23; TCP-CH-01]
    pub struct PduType(u8) {
        IC_REQ = 0x00 "ICReq",
        IC_RESP = 0x01 "ICResp",
        H2C_TERM_REQ = 0x02 "H2CTermReq",
        C2H_TERM_REQ = 0x03 "C2HTermReq",
        CAPSULE_CMD = 0x04 "CapsuleCmd",
        CAPSULE_RESP = 0x05 "CapsuleResp",
        H2C_DATA = 0x06 "H2CData",
        C2H_DATA = 0x07 "C2HData",
        R2T = 0x09 "R2T",
    }
    /// Fatal Error Status (FES). 05h is "R2T Limit Exceeded" from the host and "Data Transfer Limit Exceeded" from the controller.
    /// [NVMe/TCP 1.0, 3.6.2.4 and 3.6.2.5]
    pub struct Fes(u16) {
        INVALID_PDU_HEADER_FIELD = 1 "Invalid PDU Header Field",
        PDU_SEQUENCE_ERROR = 2 "PDU Sequence Error",
        HEADER_DIGEST_ERROR = 3 "Header Digest Error",
        DATA_TRANSFER_OUT_OF_RANGE = 4 "Data Transfer Out of Range",
        LIMIT_EXCEEDED = 5 "Data Transfer or R2T Limit Exceeded",
        UNSUPPORTED_PARAMETER = 6 "Unsupported Parameter",
    }
}

impl PduType {
    /// HLEN of the type: CH and PSH, without HDGST; `None` for a type that the text does not have. [NVMe/TCP 1.0, 3.6.2]
    pub fn hlen(self) -> Option<usize> {
        self.layout().map(|l| l.bytes)
    }

    /// The table of the type's header.
    pub fn layout(self) -> Option<&'static Layout> {
        Some(match self {
            Self::IC_REQ => IcReq::LAYOUT,
            Self::IC_RESP => IcResp::LAYOUT,
            Self::H2C_TERM_REQ | Self::C2H_TERM_REQ => TermReq::LAYOUT,
            Self::CAPSULE_CMD => CapsuleCmd::LAYOUT,
            Self::CAPSULE_RESP => CapsuleResp::LAYOUT,
            Self::H2C_DATA => H2cData::LAYOUT,
            Self::C2H_DATA => C2hData::LAYOUT,
            Self::R2T => R2t::LAYOUT,
            _ => return None,
        })
    }

    /// True for the types that a host sends.
    #[allow(clippy::wrong_self_convention)] // "from" is where the PDU comes from, no conversion
    pub fn from_host(self) -> bool {
        self.0 & 1 == 0
    }

    /// True where the type carries HDGST once header digests are on. [TCP-DGST-04]
    pub fn takes_hdgst(self) -> bool {
        matches!(self, Self::CAPSULE_CMD | Self::CAPSULE_RESP | Self::H2C_DATA | Self::C2H_DATA | Self::R2T)
    }

    /// True where the type's DATA is covered by DDGST once data digests are on. [TCP-DGST-12]
    pub fn takes_ddgst(self) -> bool {
        matches!(self, Self::CAPSULE_CMD | Self::H2C_DATA | Self::C2H_DATA)
    }

    /// True for the two terminate requests: DATA at byte 24, neither padding nor digests. [NVMe/TCP 1.0, 3.6.2.4]
    pub fn is_term(self) -> bool {
        matches!(self, Self::H2C_TERM_REQ | Self::C2H_TERM_REQ)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_go_with_the_tables() {
        for t in (0..=255).map(PduType) {
            let has = |name| t.layout().is_some_and(|l| l.field(name).is_some());
            assert_eq!((t.takes_hdgst(), t.takes_ddgst()), (has("hdgstf"), has("ddgstf")), "{t:?}");
        }
    }
}
