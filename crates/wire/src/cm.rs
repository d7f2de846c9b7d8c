//! InfiniBand connection management over RoCEv2: how two queue pairs learn of each other. Big-endian. [IBA vol. 1, 12.6]
//!
//! A message is a management datagram ([`Mad`], then one of the tables here) in an unreliable datagram from and to queue pair 1. A
//! REQ of the RDMA connection manager begins its private data with [`IpCm`]; what is behind it is the consumer's, for NVMe
//! [`crate::rdma`].

use crate::layout::{Layout, Structure};

/// Queue pair on which both sides speak CM (the GSI).
pub const GSI_QPN: u32 = 1;
/// Q_Key of that queue pair.
pub const GSI_QKEY: u32 = 0x8001_0000;
/// Bytes of every management datagram.
pub const MAD_LEN: usize = 256;
/// Service ID of an RDMA-CM port over TCP's port space: this plus the port. [IBA vol. 1, annex A11]
pub const SERVICE_ID: u64 = 0x0106_0000;

layout! {
    /// Common header of a management datagram (MAD). [IBA vol. 1, 13.4.2]
    pub struct Mad[24] in BigEndian {
        base: u8 @ 0 "Base Version" = "infiniband.mad.baseversion",
        class: MadClass @ 1 "Management Class" = "infiniband.mad.mgmtclass",
        version: u8 @ 2 "Class Version" = "infiniband.mad.classversion",
        method: MadMethod @ 3 "Method" = "infiniband.mad.method",
        status: u16 @ 4 "Status" = "infiniband.mad.status",
        specific: u16 @ 6 "Class Specific" = "infiniband.mad.classspecific",
        tid: u64 @ 8 "Transaction ID" = "infiniband.mad.transactionid",
        attribute: CmMessage @ 16 "Attribute ID" = "infiniband.mad.attributeid",
        modifier: u32 @ 20 "Attribute Modifier" = "infiniband.mad.attributemodifier",
    }

    /// REQ: the active side asks for a connection. [IBA vol. 1, 12.6.5]
    pub struct CmReq[232] in BigEndian {
        local_id: u32 @ 0 "Local Communication ID" = "infiniband.cm.req",
        service_id: u64 @ 8 "Service ID" = "infiniband.cm.req.serviceid",
        ca_guid: u64 @ 16 "Local CA GUID" = "infiniband.cm.req.localcaguid",
        qkey: u32 @ 28 "Local Q_Key" = "infiniband.cm.req.localqkey",
        qpn: u32 @ 32 [23:0] "Local QPN" = "infiniband.cm.req.localqpn",
        resources: u8 @ 35 "Responder Resources: READs that it can answer at a time" = "infiniband.cm.req.responderres",
        eecn: u32 @ 36 [23:0] "Local EECN" = "infiniband.cm.req.localeecn",
        depth: u8 @ 39 "Initiator Depth: READs that it wants to have out at a time" = "infiniband.cm.req.initdepth",
        remote_eecn: u32 @ 40 [23:0] "Remote EECN" = "infiniband.cm.req.remoteeecn",
        remote_timeout: u8 @ 43 [7:3] "Remote CM Response Timeout, 4.096 us * 2^n" = "infiniband.cm.req.remoteresptout",
        service: CmService @ 43 [2:1] "Transport Service Type" = "infiniband.cm.req.transpsvctype",
        flow_control: bool @ 43 [0] "End-to-End Flow Control" = "infiniband.cm.req.e2eflowctrl",
        psn: u32 @ 44 [23:0] "Starting PSN: that of the other side's first request" = "infiniband.cm.req.startpsn",
        local_timeout: u8 @ 47 [7:3] "Local CM Response Timeout, 4.096 us * 2^n" = "infiniband.cm.req.localresptout",
        retries: u8 @ 47 [2:0] "Retry Count" = "infiniband.cm.req.retrcount",
        pkey: u16 @ 48 "Partition Key" = "infiniband.cm.req.pkey",
        mtu: PathMtu @ 50 [7:4] "Path Packet Payload MTU" = "infiniband.cm.req.pppmtu",
        rdc: bool @ 50 [3] "RDC Exists" = "infiniband.cm.req.rdcexist",
        rnr_retries: u8 @ 50 [2:0] "RNR Retry Count (7: without end)" = "infiniband.cm.req.rnrretrcount",
        cm_retries: u8 @ 51 [7:4] "Max CM Retries" = "infiniband.cm.req.maxcmretr",
        srq: bool @ 51 [3] "SRQ" = "infiniband.cm.req.srq",
        extended: u8 @ 51 [2:0] "Extended Transport Type" = "infiniband.cm.req.ext_transport",
        local_lid: u16 @ 52 "Primary Local Port LID" = "infiniband.cm.req.prim_locallid",
        remote_lid: u16 @ 54 "Primary Remote Port LID" = "infiniband.cm.req.prim_remotelid",
        local_gid: [u8; 16] @ 56 "Primary Local Port GID" = "infiniband.cm.req.prim_localgid",
        remote_gid: [u8; 16] @ 72 "Primary Remote Port GID" = "infiniband.cm.req.prim_remotegid",
        flow_label: u32 @ 88 [31:12] "Primary Flow Label" = "infiniband.cm.req.prim_flowlabel",
        rate: u8 @ 91 [5:0] "Primary Packet Rate" = "infiniband.cm.req.prim_pktrate",
        traffic_class: u8 @ 92 "Primary Traffic Class" = "infiniband.cm.req.prim_tfcclass",
        hop_limit: u8 @ 93 "Primary Hop Limit" = "infiniband.cm.req.prim_hoplim",
        sl: u8 @ 94 [7:4] "Primary SL" = "infiniband.cm.req.prim_sl",
        subnet_local: bool @ 94 [3] "Primary Subnet Local" = "infiniband.cm.req.prim_subnetlocal",
        ack_timeout: u8 @ 95 [7:3] "Primary Local ACK Timeout, 4.096 us * 2^n" = "infiniband.cm.req.prim_localacktout",
        alt_local_lid: u16 @ 96 "Alternate Local Port LID" = "infiniband.cm.req.alt_locallid",
        alt_remote_lid: u16 @ 98 "Alternate Remote Port LID" = "infiniband.cm.req.alt_remotelid",
        alt_local_gid: [u8; 16] @ 100 "Alternate Local Port GID" = "infiniband.cm.req.alt_localgid",
        alt_remote_gid: [u8; 16] @ 116 "Alternate Remote Port GID" = "infiniband.cm.req.alt_remotegid",
        alt_flow_label: u32 @ 132 [31:12] "Alternate Flow Label" = "infiniband.cm.req.alt_flowlabel",
        alt_rate: u8 @ 135 [5:0] "Alternate Packet Rate" = "infiniband.cm.req.alt_pktrate",
        alt_traffic_class: u8 @ 136 "Alternate Traffic Class" = "infiniband.cm.req.alt_tfcclass",
        alt_hop_limit: u8 @ 137 "Alternate Hop Limit" = "infiniband.cm.req.alt_hoplim",
        alt_sl: u8 @ 138 [7:4] "Alternate SL" = "infiniband.cm.req.alt_sl",
        alt_subnet_local: bool @ 138 [3] "Alternate Subnet Local" = "infiniband.cm.req.alt_subnetlocal",
        alt_ack_timeout: u8 @ 139 [7:3] "Alternate Local ACK Timeout, 4.096 us * 2^n" = "infiniband.cm.req.alt_localacktout",
        private: [u8; 92] @ 140 "Private Data" = "infiniband.cm.req.private",
    }

    /// MRA: message received, an answer will take time. [IBA vol. 1, 12.6.6]
    pub struct CmMra[232] in BigEndian {
        local_id: u32 @ 0 "Local Communication ID",
        remote_id: u32 @ 4 "Remote Communication ID",
        message: CmStage @ 8 [7:6] "Message MRAed",
        timeout: u8 @ 9 [7:3] "Service Timeout, 4.096 us * 2^n",
        private: [u8; 222] @ 10 "Private Data",
    }

    /// REJ: no connection. [IBA vol. 1, 12.6.7]
    pub struct CmRej[232] in BigEndian {
        local_id: u32 @ 0 "Local Communication ID" = "infiniband.cm.rej.localcommid",
        remote_id: u32 @ 4 "Remote Communication ID" = "infiniband.cm.rej.remotecommid",
        message: CmStage @ 8 [7:6] "Message Rejected" = "infiniband.cm.rej.msgrej",
        info_len: u8 @ 9 [7:1] "Reject Info Length, bytes" = "infiniband.cm.rej.rejinfolen",
        reason: RejReason @ 10 "Reason" = "infiniband.cm.rej.reason",
        info: [u8; 72] @ 12 "Additional Reject Information (ARI)" = "infiniband.cm.rej.ari",
        private: [u8; 148] @ 84 "Private Data" = "infiniband.cm.rej.private",
    }

    /// REP: the passive side agrees. [IBA vol. 1, 12.6.8]
    pub struct CmRep[232] in BigEndian {
        local_id: u32 @ 0 "Local Communication ID" = "infiniband.cm.rep",
        remote_id: u32 @ 4 "Remote Communication ID" = "infiniband.cm.rep.remotecommid",
        qkey: u32 @ 8 "Local Q_Key" = "infiniband.cm.rep.localqkey",
        qpn: u32 @ 12 [23:0] "Local QPN" = "infiniband.cm.rep.localqpn",
        eecn: u32 @ 16 [23:0] "Local EE Context Number" = "infiniband.cm.rep.localeecn",
        psn: u32 @ 20 [23:0] "Starting PSN: that of the other side's first request" = "infiniband.cm.rep.startpsn",
        resources: u8 @ 24 "Responder Resources: READs that it can answer at a time" = "infiniband.cm.rep.respres",
        depth: u8 @ 25 "Initiator Depth: READs that it will have out at a time" = "infiniband.cm.rep.initdepth",
        ack_delay: u8 @ 26 [7:3] "Target ACK Delay, 4.096 us * 2^n" = "infiniband.cm.rep.tgtackdelay",
        failover: u8 @ 26 [2:1] "Failover Accepted" = "infiniband.cm.rep.failoveracc",
        flow_control: bool @ 26 [0] "End-to-End Flow Control" = "infiniband.cm.rep.e2eflowctrl",
        rnr_retries: u8 @ 27 [7:5] "RNR Retry Count (7: without end)" = "infiniband.cm.rep.rnrretrcount",
        srq: bool @ 27 [4] "SRQ" = "infiniband.cm.rep.srq",
        ca_guid: u64 @ 28 "Local CA GUID" = "infiniband.cm.rep.localcaguid",
        private: [u8; 196] @ 36 "Private Data" = "infiniband.cm.rep.private",
    }

    /// RTU: the active side is ready to use the connection. [IBA vol. 1, 12.6.9]
    pub struct CmRtu[232] in BigEndian {
        local_id: u32 @ 0 "Local Communication ID" = "infiniband.cm.rtu.localcommid",
        remote_id: u32 @ 4 "Remote Communication ID" = "infiniband.cm.rtu.remotecommid",
        private: [u8; 224] @ 8 "Private Data" = "infiniband.cm.rtu.private",
    }

    /// DREQ: one side ends the connection. [IBA vol. 1, 12.6.10]
    pub struct CmDreq[232] in BigEndian {
        local_id: u32 @ 0 "Local Communication ID" = "infiniband.cm.dreq.localcommid",
        remote_id: u32 @ 4 "Remote Communication ID" = "infiniband.cm.dreq.remotecommid",
        remote_qpn: u32 @ 8 [23:0] "Remote QPN" = "infiniband.cm.req.remoteqpneecn",
        private: [u8; 220] @ 12 "Private Data" = "infiniband.cm.dreq.private",
    }

    /// DREP: the other side takes note. [IBA vol. 1, 12.6.11]
    pub struct CmDrep[232] in BigEndian {
        local_id: u32 @ 0 "Local Communication ID" = "infiniband.cm.drsp.localcommid",
        remote_id: u32 @ 4 "Remote Communication ID" = "infiniband.cm.drsp.remotecommid",
        private: [u8; 224] @ 8 "Private Data" = "infiniband.cm.drsp.private",
    }

    /// What the RDMA connection manager puts before the consumer's private data of a REQ. [IBA vol. 1, annex A11]
    pub struct IpCm[36] in BigEndian {
        major: u8 @ 0 [7:4] "Major Version" = "infiniband.cm.req.ip_cm.majv",
        minor: u8 @ 0 [3:0] "Minor Version" = "infiniband.cm.req.ip_cm.minv",
        ip: u8 @ 1 [7:4] "IP Version (4 or 6)" = "infiniband.cm.req.ip_cm.ipv",
        port: u16 @ 2 "Source Port" = "infiniband.cm.req.ip_cm.sport",
        source: [u8; 16] @ 4 "Source IP Address (IPv4 in the last 4 bytes)" = "infiniband.cm.req.ip_cm.sip6",
        destination: [u8; 16] @ 20 "Destination IP Address (IPv4 in the last 4 bytes)" = "infiniband.cm.req.ip_cm.dip6",
    }
}

open_enum! {
    /// Management Class of a MAD. [IBA vol. 1, 13.4.4]
    pub struct MadClass(u8) {
        SUBNET_ADMINISTRATION = 0x03 "Subnet Administration",
        COMMUNICATION_MANAGEMENT = 0x07 "Communication Management",
    }
    /// Method of a MAD. [IBA vol. 1, 13.4.5]
    pub struct MadMethod(u8) {
        SEND = 0x03 "Send",
    }
    /// Attribute ID in class Communication Management: which message it is. [IBA vol. 1, 16.7.3]
    pub struct CmMessage(u16) {
        REQ = 0x10 "REQ",
        MRA = 0x11 "MRA",
        REJ = 0x12 "REJ",
        REP = 0x13 "REP",
        RTU = 0x14 "RTU",
        DREQ = 0x15 "DREQ",
        DREP = 0x16 "DREP",
        SIDR_REQ = 0x17 "SIDR_REQ",
        SIDR_REP = 0x18 "SIDR_REP",
        LAP = 0x19 "LAP",
        APR = 0x1a "APR",
    }
    /// Transport Service Type of a REQ. [IBA vol. 1, 12.7]
    pub struct CmService(u8) {
        RC = 0 "RC",
        UC = 1 "UC",
        RD = 2 "RD",
        EXTENDED = 3 "extended",
    }
    /// Path MTU, coded. [IBA vol. 1, 12.7]
    pub struct PathMtu(u8) {
        MTU_256 = 1 "256",
        MTU_512 = 2 "512",
        MTU_1024 = 3 "1024",
        MTU_2048 = 4 "2048",
        MTU_4096 = 5 "4096",
    }
    /// What an MRA or a REJ answers. [IBA vol. 1, 12.6.6, 12.6.7]
    pub struct CmStage(u8) {
        REQ = 0 "REQ",
        REP = 1 "REP",
        OTHER = 2 "another message",
    }
    /// Reason of a REJ. [IBA vol. 1, 12.6.7.2]
    pub struct RejReason(u16) {
        NO_QP = 1 "No QP available",
        NO_EEC = 2 "No EEC available",
        NO_RESOURCES = 3 "No resources available",
        TIMEOUT = 4 "Timeout",
        UNSUPPORTED = 5 "Unsupported request",
        INVALID_COMM_ID = 6 "Invalid Communication ID",
        INVALID_COMM_INSTANCE = 7 "Invalid Communication Instance",
        INVALID_SERVICE_ID = 8 "Invalid Service ID",
        INVALID_SERVICE_TYPE = 9 "Invalid Transport Service Type",
        STALE = 10 "Stale connection",
        NO_RDC = 11 "RDC does not exist",
        INVALID_GID = 12 "Primary Remote Port GID rejected",
        INVALID_LID = 13 "Primary Remote Port LID rejected",
        INVALID_SL = 14 "Invalid Primary SL",
        INVALID_TRAFFIC_CLASS = 15 "Invalid Primary Traffic Class",
        INVALID_HOP_LIMIT = 16 "Invalid Primary Hop Limit",
        INVALID_RATE = 17 "Invalid Primary Packet Rate",
        INVALID_ALT_GID = 18 "Alternate Remote Port GID rejected",
        INVALID_ALT_LID = 19 "Alternate Remote Port LID rejected",
        INVALID_ALT_SL = 20 "Invalid Alternate SL",
        INVALID_ALT_TRAFFIC_CLASS = 21 "Invalid Alternate Traffic Class",
        INVALID_ALT_HOP_LIMIT = 22 "Invalid Alternate Hop Limit",
        INVALID_ALT_RATE = 23 "Invalid Alternate Packet Rate",
        CM_REDIRECT = 24 "Port and CM redirection",
        PORT_REDIRECT = 25 "Port redirection",
        INVALID_MTU = 26 "Invalid Path MTU",
        FEW_RESOURCES = 27 "Insufficient Responder Resources",
        CONSUMER = 28 "Consumer defined",
        INVALID_RNR_RETRY = 29 "Invalid RNR Retry Count",
        DUPLICATE_COMM_ID = 30 "Duplicate Local Communication ID",
        INVALID_CLASS_VERSION = 31 "Invalid Class Version",
        INVALID_FLOW_LABEL = 32 "Invalid Primary Flow Label",
        INVALID_ALT_FLOW_LABEL = 33 "Invalid Alternate Flow Label",
        VENDOR_OPTION = 35 "Vendor option not supported",
    }
}

impl PathMtu {
    /// The MTU, bytes; `None` for a reserved code.
    pub fn bytes(self) -> Option<u32> {
        (1..=5).contains(&self.0).then(|| 128 << self.0)
    }
}

impl CmMessage {
    /// The table of the message.
    pub fn layout(self) -> Option<&'static Layout> {
        Some(match self {
            Self::REQ => CmReq::LAYOUT,
            Self::MRA => CmMra::LAYOUT,
            Self::REJ => CmRej::LAYOUT,
            Self::REP => CmRep::LAYOUT,
            Self::RTU => CmRtu::LAYOUT,
            Self::DREQ => CmDreq::LAYOUT,
            Self::DREP => CmDrep::LAYOUT,
            _ => return None,
        })
    }
}

impl Mad {
    /// True for a message of connection management that this module knows how to read: base version 1, class 7 version 2, Send.
    pub fn is_cm(&self) -> bool {
        (self.base(), self.class(), self.version(), self.method()) == (1, MadClass::COMMUNICATION_MANAGEMENT, 2, MadMethod::SEND)
    }
}
