//! Discovery log page (70h): a header of 1024 bytes, then entries of 1024 bytes. [Base 2.0, 5.16.1.23, Figures 264 and 265]

use crate::open::Cntlid;
use crate::value::{Ascii, Text};

layout! {
    /// Header of the discovery log page, 1024 bytes. [Base 2.0, 5.16.1.23, Figure 264; DLPF and TDLPL: Base 2.1, Figure 296]
    pub struct DiscoveryHeader[1024] {
        genctr: u64 @ 0 "Generation Counter (GENCTR)" = "nvme.cmd.get_logpage.identify.genctr",
        numrec: u64 @ 8 "Number of Records (NUMREC)" = "nvme.cmd.get_logpage.identify.numrec",
        recfmt: u16 @ 16 "Record Format (RECFMT): 0" = "nvme.cmd.get_logpage.identify.recfmt",
        dlpf_extdlpe: bool @ 18 [0] "Discovery Log Page Flags (DLPF): extended entries",
        dlpf_pleo: bool @ 18 [1] "Discovery Log Page Flags (DLPF): port local entries only",
        dlpf_allsube: bool @ 18 [2] "Discovery Log Page Flags (DLPF): all NVM subsystem entries",
        tdlpl: u32 @ 20 "Total Discovery Log Page Length (TDLPL), bytes",
    }

    /// Discovery log page entry, 1024 bytes. [Base 2.0, 5.16.1.23, Figure 265; ZHIDS, TASC and EFLAGS: Base 2.1, Figure 294]
    pub struct DiscoveryEntry[1024] {
        trtype: TransportType @ 0 "Transport Type (TRTYPE)" = "nvme.cmd.get_logpage.identify.rcrd.trtype",
        adrfam: AddressFamily @ 1 "Address Family (ADRFAM)" = "nvme.cmd.get_logpage.identify.rcrd.adrfam",
        subtype: SubsystemType @ 2 "Subsystem Type (SUBTYPE)" = "nvme.cmd.get_logpage.identify.rcrd.subtype",
        treq_secure: u8 @ 3 [1:0] "Transport Requirements (TREQ): secure channel: 0 not specified, 1 required, 2 not required",
        treq_sqfcd: bool @ 3 [2] "Transport Requirements (TREQ): SQ flow control may be disabled",
        treq_zhids: bool @ 3 [3] "Transport Requirements (TREQ): a host identifier of zero is taken (ZHIDS)",
        treq_tasc: u8 @ 3 [5:4] "Transport Requirements (TREQ): authentication and secure channel (TASC)",
        portid: u16 @ 4 "Port ID (PORTID)" = "nvme.cmd.get_logpage.identify.rcrd.portid",
        cntlid: Cntlid @ 6 "Controller ID (CNTLID)" = "nvme.cmd.get_logpage.identify.rcrd.cntlid",
        asqsz: u16 @ 8 "Admin Max SQ Size (ASQSZ), entries, not 0's based, at least 32" = "nvme.cmd.get_logpage.identify.rcrd.asqsz",
        eflags_dupretinfo: bool @ 10 [0] "Entry Flags (EFLAGS): duplicate returned information (DUPRETINFO)",
        eflags_epcsd: bool @ 10 [1] "Entry Flags (EFLAGS): explicit persistent connection (EPCSD)",
        eflags_ncc: bool @ 10 [2] "Entry Flags (EFLAGS): no CDC connectivity (NCC)",
        trsvcid: (Ascii<32>) @ 32 "Transport Service Identifier (TRSVCID)" = "nvme.cmd.get_logpage.identify.rcrd.trsvcid",
        subnqn: (Text<256>) @ 256 "NVM Subsystem Qualified Name (SUBNQN)" = "nvme.cmd.get_logpage.identify.rcrd.subnqn",
        traddr: (Ascii<256>) @ 512 "Transport Address (TRADDR)" = "nvme.cmd.get_logpage.identify.rcrd.traddr",
        tsas: [u8; 256] @ 768 "Transport Specific Address Subtype (TSAS)",
    }

    /// TSAS of an NVMe/TCP entry. [NVMe/TCP 1.0, 3.1.2, Figure 8]
    pub struct TsasTcp[256] {
        sectype: SecurityType @ 0 "Security Type (SECTYPE)" = "nvme.cmd.get_logpage.identify.rcrd.tsas.tcp_sectype",
    }

    /// TSAS of an NVMe/RDMA entry. [NVMe/RDMA 1.0, 3.1.2]
    pub struct TsasRdma[256] {
        qptype: u8 @ 0 "RDMA QP Service Type (RDMA_QPTYPE): 1 reliable connected, 2 reliable datagram" = "nvme.cmd.get_logpage.identify.rcrd.tsas.rdma_qptype",
        prtype: RdmaProvider @ 1 "RDMA Provider Type (RDMA_PRTYPE)" = "nvme.cmd.get_logpage.identify.rcrd.tsas.rdma_prtype",
        cms: u8 @ 2 "RDMA Connection Management Service (RDMA_CMS): 1 RDMA_IP_CM" = "nvme.cmd.get_logpage.identify.rcrd.tsas.rdma_cms",
        pkey: u16 @ 8 "RDMA Partition Key (RDMA_PKEY), for ADRFAM 3" = "nvme.cmd.get_logpage.identify.rcrd.tsas.rdma_pkey",
    }
}

open_enum! {
    /// Transport Type (TRTYPE). [Base 2.0, 5.16.1.23, Figure 265]
    pub struct TransportType(u8) {
        RDMA = 1 "RDMA",
        FC = 2 "Fibre Channel",
        TCP = 3 "TCP",
        LOOP = 254 "intra-host loopback",
    }
    /// Address Family (ADRFAM). [Base 2.0, 5.16.1.23, Figure 265]
    pub struct AddressFamily(u8) {
        IPV4 = 1 "IPv4",
        IPV6 = 2 "IPv6",
        INFINIBAND = 3 "InfiniBand",
        FC = 4 "Fibre Channel",
        LOOP = 254 "intra-host loopback",
    }
    /// Subsystem Type (SUBTYPE). [Base 2.0, 5.16.1.23, Figure 265; 3: Base 2.1, Figure 294]
    pub struct SubsystemType(u8) {
        REFERRAL = 1 "referral to another discovery service",
        NVM = 2 "NVM subsystem",
        CURRENT = 3 "current discovery subsystem",
    }
    /// Security Type (SECTYPE) of NVMe/TCP. [NVMe/TCP 1.0, 3.1.2]
    pub struct SecurityType(u8) {
        NONE = 0 "no security",
        TLS_1_2 = 1 "TLS 1.2",
        TLS_1_3 = 2 "TLS 1.3",
    }
    /// RDMA Provider Type (RDMA_PRTYPE). [NVMe/RDMA 1.0, 3.1.2]
    pub struct RdmaProvider(u8) {
        UNSPECIFIED = 1 "not specified",
        INFINIBAND = 2 "InfiniBand",
        ROCE_V1 = 3 "RoCE v1",
        ROCE_V2 = 4 "RoCE v2",
        IWARP = 5 "iWARP",
    }
}

impl DiscoveryEntry {
    /// TSAS read as NVMe/TCP's.
    pub fn tsas_tcp(&self) -> TsasTcp {
        TsasTcp::from_bytes(self.tsas())
    }

    /// TSAS read as NVMe/RDMA's.
    pub fn tsas_rdma(&self) -> TsasRdma {
        TsasRdma::from_bytes(self.tsas())
    }

    /// The entry at `index` of a whole page (header first); `None` where the page ends before it does.
    pub fn of_page(page: &[u8], index: usize) -> Option<Self> {
        let from = index.checked_add(1)?.checked_mul(Self::LEN)?;
        Self::read(page.get(from..)?).ok()
    }
}
