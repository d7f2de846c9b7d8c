//! Identify Controller data (CNS 01h) and the power state descriptor. [Base 2.0, 5.17.2.1, Figures 275 and 276]

use crate::open::{Cntlid, ZeroBased8};
use crate::value::{Ascii, Text};

layout! {
    /// Identify Controller data, 4096 bytes. [Base 2.0, 5.17.2.1, Figure 275; DCTYPE: Base 2.1]
    pub struct IdentifyController[4096] {
        vid: u16 @ 0 "PCI Vendor ID (VID)" = "nvme.cmd.identify.ctrl.vid",
        ssvid: u16 @ 2 "PCI Subsystem Vendor ID (SSVID)" = "nvme.cmd.identify.ctrl.ssvid",
        sn: (Ascii<20>) @ 4 "Serial Number (SN)" = "nvme.cmd.identify.ctrl.sn",
        mn: (Ascii<40>) @ 24 "Model Number (MN)" = "nvme.cmd.identify.ctrl.mn",
        fr: (Ascii<8>) @ 64 "Firmware Revision (FR)" = "nvme.cmd.identify.ctrl.fr",
        rab: u8 @ 72 "Recommended Arbitration Burst (RAB): 2^n commands" = "nvme.cmd.identify.ctrl.rab",
        ieee: [u8; 3] @ 73 "IEEE OUI Identifier (IEEE), in wire order" = "nvme.cmd.identify.ctrl.ieee",
        cmic_mp: bool @ 76 [0] "Multi-Path I/O and Namespace Sharing (CMIC): more than one port" = "nvme.cmd.identify.ctrl.cmic.mp",
        cmic_mc: bool @ 76 [1] "Multi-Path I/O and Namespace Sharing (CMIC): more than one controller" = "nvme.cmd.identify.ctrl.cmic.mc",
        cmic_sriov: bool @ 76 [2] "Multi-Path I/O and Namespace Sharing (CMIC): SR-IOV virtual function" = "nvme.cmd.identify.ctrl.cmic.sriov",
        cmic_ana: bool @ 76 [3] "Multi-Path I/O and Namespace Sharing (CMIC): ANA reporting" = "nvme.cmd.identify.ctrl.cmic.ana",
        mdts: u8 @ 77 "Maximum Data Transfer Size (MDTS): 2^n units of CAP.MPSMIN, 0 no limit" = "nvme.cmd.identify.ctrl.mdts",
        cntlid: Cntlid @ 78 "Controller ID (CNTLID)" = "nvme.cmd.identify.ctrl.cntlid",
        ver: u32 @ 80 "Version (VER), as property VS" = "nvme.cmd.identify.ctrl.ver",
        rtd3r: u32 @ 84 "RTD3 Resume Latency (RTD3R), us" = "nvme.cmd.identify.ctrl.rtd3r",
        rtd3e: u32 @ 88 "RTD3 Entry Latency (RTD3E), us" = "nvme.cmd.identify.ctrl.rtd3e",
        oaes_nan: bool @ 92 [8] "Optional Asynchronous Events (OAES): namespace attribute notices" = "nvme.cmd.identify.ctrl.oaes.nan",
        oaes_fan: bool @ 92 [9] "Optional Asynchronous Events (OAES): firmware activation notices" = "nvme.cmd.identify.ctrl.oaes.fan",
        oaes_ana: bool @ 92 [11] "Optional Asynchronous Events (OAES): ANA change notices" = "nvme.cmd.identify.ctrl.oaes.ana",
        oaes_ple: bool @ 92 [12] "Optional Asynchronous Events (OAES): predictable latency event aggregate log notices" = "nvme.cmd.identify.ctrl.oaes.ple",
        oaes_lba: bool @ 92 [13] "Optional Asynchronous Events (OAES): LBA status information alert notices" = "nvme.cmd.identify.ctrl.oaes.lba",
        oaes_ege: bool @ 92 [14] "Optional Asynchronous Events (OAES): endurance group event aggregate log notices" = "nvme.cmd.identify.ctrl.oaes.ege",
        oaes_nss: bool @ 92 [15] "Optional Asynchronous Events (OAES): normal NVM subsystem shutdown",
        oaes_zdc: bool @ 92 [27] "Optional Asynchronous Events (OAES): zone descriptor changed notices",
        oaes_dlpc: bool @ 92 [31] "Optional Asynchronous Events (OAES): discovery log page change notices",
        ctratt_hids: bool @ 96 [0] "Controller Attributes (CTRATT): 128-bit host identifier" = "nvme.cmd.identify.ctrl.ctratt.hi_128",
        ctratt_nopspm: bool @ 96 [1] "Controller Attributes (CTRATT): non-operational power state permissive mode" = "nvme.cmd.identify.ctrl.ctratt.nopspm",
        ctratt_nsets: bool @ 96 [2] "Controller Attributes (CTRATT): NVM sets" = "nvme.cmd.identify.ctrl.ctratt.nvmset",
        ctratt_rrl: bool @ 96 [3] "Controller Attributes (CTRATT): read recovery levels" = "nvme.cmd.identify.ctrl.ctratt.rrl",
        ctratt_egs: bool @ 96 [4] "Controller Attributes (CTRATT): endurance groups" = "nvme.cmd.identify.ctrl.ctratt.eg",
        ctratt_plm: bool @ 96 [5] "Controller Attributes (CTRATT): predictable latency mode" = "nvme.cmd.identify.ctrl.ctratt.plm",
        ctratt_tbkas: bool @ 96 [6] "Controller Attributes (CTRATT): traffic based keep alive (TBKAS)" = "nvme.cmd.identify.ctrl.ctratt.tbkas",
        ctratt_ng: bool @ 96 [7] "Controller Attributes (CTRATT): namespace granularity" = "nvme.cmd.identify.ctrl.ctratt.ng",
        ctratt_sqa: bool @ 96 [8] "Controller Attributes (CTRATT): SQ associations" = "nvme.cmd.identify.ctrl.ctratt.sqa",
        ctratt_ulist: bool @ 96 [9] "Controller Attributes (CTRATT): UUID list" = "nvme.cmd.identify.ctrl.ctratt.uuidl",
        ctratt_mds: bool @ 96 [10] "Controller Attributes (CTRATT): multi-domain subsystem (MDS)",
        ctratt_fcm: bool @ 96 [11] "Controller Attributes (CTRATT): fixed capacity management",
        ctratt_vcm: bool @ 96 [12] "Controller Attributes (CTRATT): variable capacity management",
        ctratt_deg: bool @ 96 [13] "Controller Attributes (CTRATT): delete endurance group",
        ctratt_dnvms: bool @ 96 [14] "Controller Attributes (CTRATT): delete NVM set",
        ctratt_elbas: bool @ 96 [15] "Controller Attributes (CTRATT): extended LBA formats (ELBAS)",
        rrls: u16 @ 100 "Read Recovery Levels Supported (RRLS), bit n for level n" = "nvme.cmd.identify.ctrl.rrls",
        cntrltype: ControllerType @ 111 "Controller Type (CNTRLTYPE)" = "nvme.cmd.identify.ctrl.cntrltype",
        fguid: [u8; 16] @ 112 "FRU Globally Unique Identifier (FGUID)" = "nvme.cmd.identify.ctrl.fguid",
        crdt1: u16 @ 128 "Command Retry Delay Time 1 (CRDT1), 100 ms units" = "nvme.cmd.identify.ctrl.crdt1",
        crdt2: u16 @ 130 "Command Retry Delay Time 2 (CRDT2), 100 ms units" = "nvme.cmd.identify.ctrl.crdt2",
        crdt3: u16 @ 132 "Command Retry Delay Time 3 (CRDT3), 100 ms units" = "nvme.cmd.identify.ctrl.crdt3",
        nvmsr_nvmesd: bool @ 253 [0] "NVM Subsystem Report (NVMSR): part of an NVMe storage device" = "nvme.cmd.identify.ctrl.mi.nvmsr.nvmesd",
        nvmsr_nvmee: bool @ 253 [1] "NVM Subsystem Report (NVMSR): part of an NVMe enclosure" = "nvme.cmd.identify.ctrl.mi.nvmsr.nvmee",
        vwci_vwcr: u8 @ 254 [6:0] "VPD Write Cycle Information (VWCI): write cycles remaining" = "nvme.cmd.identify.ctrl.mi.vwci.vwcr",
        vwci_vwcrv: bool @ 254 [7] "VPD Write Cycle Information (VWCI): count valid" = "nvme.cmd.identify.ctrl.mi.vwci.vwcrv",
        mec_smbusme: bool @ 255 [0] "Management Endpoint Capabilities (MEC): SMBus/I2C port" = "nvme.cmd.identify.ctrl.mi.mec.smbusme",
        mec_pcieme: bool @ 255 [1] "Management Endpoint Capabilities (MEC): PCIe port" = "nvme.cmd.identify.ctrl.mi.mec.pcieme",
        oacs_ssrs: bool @ 256 [0] "Optional Admin Commands (OACS): Security Send and Receive" = "nvme.cmd.identify.ctrl.oacs.sec",
        oacs_fnvms: bool @ 256 [1] "Optional Admin Commands (OACS): Format NVM" = "nvme.cmd.identify.ctrl.oacs.fmt",
        oacs_fwds: bool @ 256 [2] "Optional Admin Commands (OACS): Firmware Commit and Image Download" = "nvme.cmd.identify.ctrl.oacs.fw",
        oacs_nms: bool @ 256 [3] "Optional Admin Commands (OACS): Namespace Management and Attachment" = "nvme.cmd.identify.ctrl.oacs.nsmgmt",
        oacs_dsts: bool @ 256 [4] "Optional Admin Commands (OACS): Device Self-test" = "nvme.cmd.identify.ctrl.oacs.stst",
        oacs_dirs: bool @ 256 [5] "Optional Admin Commands (OACS): Directive Send and Receive" = "nvme.cmd.identify.ctrl.oacs.dtv",
        oacs_nsrs: bool @ 256 [6] "Optional Admin Commands (OACS): NVMe-MI Send and Receive" = "nvme.cmd.identify.ctrl.oacs.mi",
        oacs_vms: bool @ 256 [7] "Optional Admin Commands (OACS): Virtualization Management" = "nvme.cmd.identify.ctrl.oacs.vm",
        oacs_dbcs: bool @ 256 [8] "Optional Admin Commands (OACS): Doorbell Buffer Config" = "nvme.cmd.identify.ctrl.oacs.db",
        oacs_glss: bool @ 256 [9] "Optional Admin Commands (OACS): Get LBA Status" = "nvme.cmd.identify.ctrl.oacs.sec.lba",
        oacs_cfls: bool @ 256 [10] "Optional Admin Commands (OACS): command and feature lockdown",
        acl: ZeroBased8 @ 258 "Abort Command Limit (ACL), 0's based" = "nvme.cmd.identify.ctrl.acl",
        aerl: ZeroBased8 @ 259 "Asynchronous Event Request Limit (AERL), 0's based" = "nvme.cmd.identify.ctrl.aerl",
        frmw_ffsro: bool @ 260 [0] "Firmware Updates (FRMW): first slot read only" = "nvme.cmd.identify.ctrl.frmw.fro",
        frmw_nofs: u8 @ 260 [3:1] "Firmware Updates (FRMW): number of slots" = "nvme.cmd.identify.ctrl.frmw.fsn",
        frmw_fawr: bool @ 260 [4] "Firmware Updates (FRMW): activation without reset" = "nvme.cmd.identify.ctrl.frmw.anr",
        frmw_smud: bool @ 260 [5] "Firmware Updates (FRMW): multiple update detection",
        lpa_smarts: bool @ 261 [0] "Log Page Attributes (LPA): SMART log per namespace" = "nvme.cmd.identify.ctrl.lpa.smrt",
        lpa_cses: bool @ 261 [1] "Log Page Attributes (LPA): commands supported and effects log" = "nvme.cmd.identify.ctrl.lpa.cmds",
        lpa_lpeds: bool @ 261 [2] "Log Page Attributes (LPA): extended data, offset and 32-bit NUMD" = "nvme.cmd.identify.ctrl.lpa.elp",
        lpa_ts: bool @ 261 [3] "Log Page Attributes (LPA): telemetry logs and notices" = "nvme.cmd.identify.ctrl.lpa.tel",
        lpa_pes: bool @ 261 [4] "Log Page Attributes (LPA): persistent event log" = "nvme.cmd.identify.ctrl.lpa.ple",
        lpa_mlps: bool @ 261 [5] "Log Page Attributes (LPA): log pages 00h, 12h and 13h",
        lpa_da4s: bool @ 261 [6] "Log Page Attributes (LPA): telemetry data area 4",
        elpe: ZeroBased8 @ 262 "Error Log Page Entries (ELPE), 0's based" = "nvme.cmd.identify.ctrl.elpe",
        npss: ZeroBased8 @ 263 "Number of Power States Support (NPSS), 0's based" = "nvme.cmd.identify.ctrl.npss",
        avscc: bool @ 264 [0] "Admin Vendor Specific Command Configuration (AVSCC): standard format" = "nvme.cmd.identify.ctrl.avscc.std",
        apsta: bool @ 265 [0] "Autonomous Power State Transition Attributes (APSTA): supported" = "nvme.cmd.identify.ctrl.apsta.aut",
        wctemp: u16 @ 266 "Warning Composite Temperature Threshold (WCTEMP), kelvins" = "nvme.cmd.identify.ctrl.wctemp",
        cctemp: u16 @ 268 "Critical Composite Temperature Threshold (CCTEMP), kelvins" = "nvme.cmd.identify.ctrl.cctemp",
        mtfa: u16 @ 270 "Maximum Time for Firmware Activation (MTFA), 100 ms units" = "nvme.cmd.identify.ctrl.mtfa",
        hmpre: u32 @ 272 "Host Memory Buffer Preferred Size (HMPRE), 4 KiB units" = "nvme.cmd.identify.ctrl.hmpre",
        hmmin: u32 @ 276 "Host Memory Buffer Minimum Size (HMMIN), 4 KiB units" = "nvme.cmd.identify.ctrl.hmmin",
        tnvmcap: [u8; 16] @ 280 "Total NVM Capacity (TNVMCAP), bytes" = "nvme.cmd.identify.ctrl.tnvmcap",
        unvmcap: [u8; 16] @ 296 "Unallocated NVM Capacity (UNVMCAP), bytes" = "nvme.cmd.identify.ctrl.unvmcap",
        rpmbs_nrpmbu: u8 @ 312 [2:0] "Replay Protected Memory Block Support (RPMBS): number of units" = "nvme.cmd.identify.ctrl.rpmbs.nu",
        rpmbs_am: u8 @ 312 [5:3] "Replay Protected Memory Block Support (RPMBS): authentication method" = "nvme.cmd.identify.ctrl.rpmbs.au",
        rpmbs_ts: u8 @ 314 "Replay Protected Memory Block Support (RPMBS): total size, 128 KiB units, 0's based" = "nvme.cmd.identify.ctrl.rpmbs.ts",
        rpmbs_as: u8 @ 315 "Replay Protected Memory Block Support (RPMBS): access size, 512 B units, 0's based" = "nvme.cmd.identify.ctrl.rpmbs.as",
        edstt: u16 @ 316 "Extended Device Self-test Time (EDSTT), minutes" = "nvme.cmd.identify.ctrl.edstt",
        dsto: bool @ 318 [0] "Device Self-test Options (DSTO): one at a time in the subsystem" = "nvme.cmd.identify.ctrl.dsto.mds",
        fwug: u8 @ 319 "Firmware Update Granularity (FWUG), 4 KiB units" = "nvme.cmd.identify.ctrl.fwug",
        kas: u16 @ 320 "Keep Alive Support (KAS): granularity of KATO, 100 ms units" = "nvme.cmd.identify.ctrl.kas",
        hctma: bool @ 322 [0] "Host Controlled Thermal Management Attributes (HCTMA): supported" = "nvme.cmd.identify.ctrl.hctma.sup",
        mntmt: u16 @ 324 "Minimum Thermal Management Temperature (MNTMT), kelvins" = "nvme.cmd.identify.ctrl.mntmt",
        mxtmt: u16 @ 326 "Maximum Thermal Management Temperature (MXTMT), kelvins" = "nvme.cmd.identify.ctrl.mxtmt",
        sanicap_ces: bool @ 328 [0] "Sanitize Capabilities (SANICAP): crypto erase" = "nvme.cmd.identify.ctrl.sanicap.ces",
        sanicap_bes: bool @ 328 [1] "Sanitize Capabilities (SANICAP): block erase" = "nvme.cmd.identify.ctrl.sanicap.bes",
        sanicap_ows: bool @ 328 [2] "Sanitize Capabilities (SANICAP): overwrite" = "nvme.cmd.identify.ctrl.sanicap.ows",
        sanicap_ndi: bool @ 328 [29] "Sanitize Capabilities (SANICAP): no-deallocate inhibited" = "nvme.cmd.identify.ctrl.sanicap.ndi",
        sanicap_nodmmas: u8 @ 328 [31:30] "Sanitize Capabilities (SANICAP): no-deallocate modifies media after sanitize" = "nvme.cmd.identify.ctrl.sanicap.nodmmas",
        hmminds: u32 @ 332 "Host Memory Buffer Minimum Descriptor Entry Size (HMMINDS), 4 KiB units" = "nvme.cmd.identify.ctrl.hmmminds",
        hmmaxd: u16 @ 336 "Host Memory Maximum Descriptor Entries (HMMAXD)" = "nvme.cmd.identify.ctrl.hmmaxd",
        nsetidmax: u16 @ 338 "NVM Set Identifier Maximum (NSETIDMAX)" = "nvme.cmd.identify.ctrl.nsetidmax",
        endgidmax: u16 @ 340 "Endurance Group Identifier Maximum (ENDGIDMAX)" = "nvme.cmd.identify.ctrl.endgidmax",
        anatt: u8 @ 342 "ANA Transition Time (ANATT), seconds" = "nvme.cmd.identify.ctrl.anatt",
        anacap_optimized: bool @ 343 [0] "ANA Capabilities (ANACAP): reports optimized" = "nvme.cmd.identify.ctrl.anacap.osr",
        anacap_non_optimized: bool @ 343 [1] "ANA Capabilities (ANACAP): reports non-optimized" = "nvme.cmd.identify.ctrl.anacap.nosr",
        anacap_inaccessible: bool @ 343 [2] "ANA Capabilities (ANACAP): reports inaccessible" = "nvme.cmd.identify.ctrl.anacap.isr",
        anacap_persistent_loss: bool @ 343 [3] "ANA Capabilities (ANACAP): reports persistent loss" = "nvme.cmd.identify.ctrl.anacap.plsr",
        anacap_change: bool @ 343 [4] "ANA Capabilities (ANACAP): reports change" = "nvme.cmd.identify.ctrl.anacap.csr",
        anacap_fixed: bool @ 343 [6] "ANA Capabilities (ANACAP): ANAGRPID does not change while attached" = "nvme.cmd.identify.ctrl.anacap.panagrpid",
        anacap_nonzero: bool @ 343 [7] "ANA Capabilities (ANACAP): nonzero ANAGRPID in Namespace Management" = "nvme.cmd.identify.ctrl.anacap.nzpanagrpid",
        anagrpmax: u32 @ 344 "ANA Group Identifier Maximum (ANAGRPMAX)" = "nvme.cmd.identify.ctrl.anagrpmax",
        nanagrpid: u32 @ 348 "Number of ANA Group Identifiers (NANAGRPID)" = "nvme.cmd.identify.ctrl.nanagrpid",
        pels: u32 @ 352 "Persistent Event Log Size (PELS), 64 KiB units" = "nvme.cmd.identify.ctrl.pels",
        did: u16 @ 356 "Domain Identifier (DID)",
        megcap: [u8; 16] @ 368 "Maximum Endurance Group Capacity (MEGCAP), bytes",
        sqes_min: u8 @ 512 [3:0] "Submission Queue Entry Size (SQES): required, 2^n bytes" = "nvme.cmd.identify.ctrl.sqes.mins",
        sqes_max: u8 @ 512 [7:4] "Submission Queue Entry Size (SQES): maximum, 2^n bytes" = "nvme.cmd.identify.ctrl.sqes.maxs",
        cqes_min: u8 @ 513 [3:0] "Completion Queue Entry Size (CQES): required, 2^n bytes" = "nvme.cmd.identify.ctrl.cqes.mins",
        cqes_max: u8 @ 513 [7:4] "Completion Queue Entry Size (CQES): maximum, 2^n bytes" = "nvme.cmd.identify.ctrl.cqes.maxs",
        maxcmd: u16 @ 514 "Maximum Outstanding Commands (MAXCMD)" = "nvme.cmd.identify.ctrl.maxcmd",
        nn: u32 @ 516 "Number of Namespaces (NN)" = "nvme.cmd.identify.ctrl.nn",
        oncs_compare: bool @ 520 [0] "Optional NVM Commands (ONCS): Compare" = "nvme.cmd.identify.ctrl.oncs.ccs",
        oncs_wus: bool @ 520 [1] "Optional NVM Commands (ONCS): Write Uncorrectable" = "nvme.cmd.identify.ctrl.oncs.wus",
        oncs_dsm: bool @ 520 [2] "Optional NVM Commands (ONCS): Dataset Management" = "nvme.cmd.identify.ctrl.oncs.dsms",
        oncs_wzs: bool @ 520 [3] "Optional NVM Commands (ONCS): Write Zeroes" = "nvme.cmd.identify.ctrl.oncs.wzs",
        oncs_ssfs: bool @ 520 [4] "Optional NVM Commands (ONCS): Save and Select fields of features" = "nvme.cmd.identify.ctrl.oncs.nzfs",
        oncs_reservs: bool @ 520 [5] "Optional NVM Commands (ONCS): reservations" = "nvme.cmd.identify.ctrl.oncs.ress",
        oncs_tss: bool @ 520 [6] "Optional NVM Commands (ONCS): Timestamp feature" = "nvme.cmd.identify.ctrl.oncs.tstmps",
        oncs_verify: bool @ 520 [7] "Optional NVM Commands (ONCS): Verify" = "nvme.cmd.identify.ctrl.oncs.vers",
        oncs_copy: bool @ 520 [8] "Optional NVM Commands (ONCS): Copy",
        fuses: bool @ 522 [0] "Fused Operation Support (FUSES): Compare and Write" = "nvme.cmd.identify.ctrl.fuses.cws",
        fna_fns: bool @ 524 [0] "Format NVM Attributes (FNA): format applies to all namespaces" = "nvme.cmd.identify.ctrl.fna.fall",
        fna_sens: bool @ 524 [1] "Format NVM Attributes (FNA): secure erase applies to all namespaces" = "nvme.cmd.identify.ctrl.fna.seall",
        fna_cryes: bool @ 524 [2] "Format NVM Attributes (FNA): cryptographic erase" = "nvme.cmd.identify.ctrl.fna.ces",
        fna_fnvmbs: bool @ 524 [3] "Format NVM Attributes (FNA): NSID FFFFFFFFh not supported",
        vwc_present: bool @ 525 [0] "Volatile Write Cache (VWC): present" = "nvme.cmd.identify.ctrl.vwc.cp",
        vwc_fb: u8 @ 525 [2:1] "Volatile Write Cache (VWC): Flush with NSID FFFFFFFFh: 2 refused, 3 taken" = "nvme.cmd.identify.ctrl.vwc.cfb",
        awun: u16 @ 526 "Atomic Write Unit Normal (AWUN), blocks, 0's based" = "nvme.cmd.identify.ctrl.awun",
        awupf: u16 @ 528 "Atomic Write Unit Power Fail (AWUPF), blocks, 0's based" = "nvme.cmd.identify.ctrl.awupf",
        icsvscc: bool @ 530 [0] "I/O Command Set Vendor Specific Command Configuration (ICSVSCC): standard format" = "nvme.cmd.identify.ctrl.nvscc.std",
        nwpc_nwpss: bool @ 531 [0] "Namespace Write Protection Capabilities (NWPC): no write protect and write protect" = "nvme.cmd.identify.ctrl.nwpc.wpss",
        nwpc_wpupcs: bool @ 531 [1] "Namespace Write Protection Capabilities (NWPC): until power cycle" = "nvme.cmd.identify.ctrl.nwpc.wppcs",
        nwpc_pwps: bool @ 531 [2] "Namespace Write Protection Capabilities (NWPC): permanent" = "nvme.cmd.identify.ctrl.nwpc.pwpss",
        acwu: u16 @ 532 "Atomic Compare and Write Unit (ACWU), blocks, 0's based" = "nvme.cmd.identify.ctrl.acwu",
        cdfs_0: bool @ 534 [0] "Copy Descriptor Formats Supported (CDFS): format 0",
        cdfs_1: bool @ 534 [1] "Copy Descriptor Formats Supported (CDFS): format 1",
        sgls_support: u8 @ 536 [1:0] "SGL Support (SGLS): 0 none, 1 no alignment, 2 dword aligned" = "nvme.cmd.identify.ctrl.sgls.sgls",
        sgls_keyed: bool @ 536 [2] "SGL Support (SGLS): keyed data block" = "nvme.cmd.identify.ctrl.sgls.kdbs",
        sgls_sdt: u8 @ 537 "SGL Support (SGLS): descriptor threshold (SDT)",
        sgls_bit_bucket: bool @ 536 [16] "SGL Support (SGLS): bit bucket" = "nvme.cmd.identify.ctrl.sgls.bbd",
        sgls_mptr_buffer: bool @ 536 [17] "SGL Support (SGLS): byte aligned contiguous metadata buffer" = "nvme.cmd.identify.ctrl.sgls.bufmptr",
        sgls_longer: bool @ 536 [18] "SGL Support (SGLS): SGL longer than the transfer" = "nvme.cmd.identify.ctrl.sgls.lsgl",
        sgls_mptr_sgl: bool @ 536 [19] "SGL Support (SGLS): MPTR holds one SGL descriptor" = "nvme.cmd.identify.ctrl.sgls.kmptr",
        sgls_offset: bool @ 536 [20] "SGL Support (SGLS): address may be an offset" = "nvme.cmd.identify.ctrl.sgls.offs",
        sgls_transport: bool @ 536 [21] "SGL Support (SGLS): transport data block" = "nvme.cmd.identify.ctrl.sgls.tdbd",
        mnan: u32 @ 540 "Maximum Number of Allowed Namespaces (MNAN)" = "nvme.cmd.identify.ctrl.mnan",
        maxdna: [u8; 16] @ 544 "Maximum Domain Namespace Attachments (MAXDNA)",
        maxcna: u32 @ 560 "Maximum I/O Controller Namespace Attachments (MAXCNA)",
        subnqn: (Text<256>) @ 768 "NVM Subsystem NVMe Qualified Name (SUBNQN)" = "nvme.cmd.identify.ctrl.subnqn",
        ioccsz: u32 @ 1792 "I/O Queue Command Capsule Supported Size (IOCCSZ), 16 B units" = "nvme.cmd.identify.ctrl.nvmeof.ioccsz",
        iorcsz: u32 @ 1796 "I/O Queue Response Capsule Supported Size (IORCSZ), 16 B units" = "nvme.cmd.identify.ctrl.nvmeof.iorcsz",
        icdoff: u16 @ 1800 "In Capsule Data Offset (ICDOFF), 16 B units" = "nvme.cmd.identify.ctrl.nvmeof.icdoff",
        fcatt_static: bool @ 1802 [0] "Fabrics Controller Attributes (FCATT): 0 dynamic, 1 static controller model" = "nvme.cmd.identify.ctrl.nvmeof.fcatt.dcm",
        msdbd: u8 @ 1803 "Maximum SGL Data Block Descriptors (MSDBD), 0 no limit" = "nvme.cmd.identify.ctrl.nvmeof.msdbd",
        ofcs_disconnect: bool @ 1804 [0] "Optional Fabrics Commands Support (OFCS): Disconnect" = "nvme.cmd.identify.ctrl.nvmeof.ofcs.dcs",
        dctype: DiscoveryType @ 1806 "Discovery Controller Type (DCTYPE)",
        psd0: [u8; 32] @ 2048 "Power State 0 Descriptor (PSD0)",
        psd1: [u8; 32] @ 2080 "Power State 1 Descriptor (PSD1)",
        psd2: [u8; 32] @ 2112 "Power State 2 Descriptor (PSD2)",
        psd3: [u8; 32] @ 2144 "Power State 3 Descriptor (PSD3)",
        psd4: [u8; 32] @ 2176 "Power State 4 Descriptor (PSD4)",
        psd5: [u8; 32] @ 2208 "Power State 5 Descriptor (PSD5)",
        psd6: [u8; 32] @ 2240 "Power State 6 Descriptor (PSD6)",
        psd7: [u8; 32] @ 2272 "Power State 7 Descriptor (PSD7)",
        psd8: [u8; 32] @ 2304 "Power State 8 Descriptor (PSD8)",
        psd9: [u8; 32] @ 2336 "Power State 9 Descriptor (PSD9)",
        psd10: [u8; 32] @ 2368 "Power State 10 Descriptor (PSD10)",
        psd11: [u8; 32] @ 2400 "Power State 11 Descriptor (PSD11)",
        psd12: [u8; 32] @ 2432 "Power State 12 Descriptor (PSD12)",
        psd13: [u8; 32] @ 2464 "Power State 13 Descriptor (PSD13)",
        psd14: [u8; 32] @ 2496 "Power State 14 Descriptor (PSD14)",
        psd15: [u8; 32] @ 2528 "Power State 15 Descriptor (PSD15)",
        psd16: [u8; 32] @ 2560 "Power State 16 Descriptor (PSD16)",
        psd17: [u8; 32] @ 2592 "Power State 17 Descriptor (PSD17)",
        psd18: [u8; 32] @ 2624 "Power State 18 Descriptor (PSD18)",
        psd19: [u8; 32] @ 2656 "Power State 19 Descriptor (PSD19)",
        psd20: [u8; 32] @ 2688 "Power State 20 Descriptor (PSD20)",
        psd21: [u8; 32] @ 2720 "Power State 21 Descriptor (PSD21)",
        psd22: [u8; 32] @ 2752 "Power State 22 Descriptor (PSD22)",
        psd23: [u8; 32] @ 2784 "Power State 23 Descriptor (PSD23)",
        psd24: [u8; 32] @ 2816 "Power State 24 Descriptor (PSD24)",
        psd25: [u8; 32] @ 2848 "Power State 25 Descriptor (PSD25)",
        psd26: [u8; 32] @ 2880 "Power State 26 Descriptor (PSD26)",
        psd27: [u8; 32] @ 2912 "Power State 27 Descriptor (PSD27)",
        psd28: [u8; 32] @ 2944 "Power State 28 Descriptor (PSD28)",
        psd29: [u8; 32] @ 2976 "Power State 29 Descriptor (PSD29)",
        psd30: [u8; 32] @ 3008 "Power State 30 Descriptor (PSD30)",
        psd31: [u8; 32] @ 3040 "Power State 31 Descriptor (PSD31)",
        vs: [u8; 1024] @ 3072 "Vendor specific",
    }

    /// Power State Descriptor. [Base 2.0, 5.17.2.1, Figure 276]
    pub struct PowerState[32] {
        mp: u16 @ 0 "Maximum Power (MP), in units of MXPS" = "nvme.cmd.identify.ctrl.psds.psd.mp",
        mxps: bool @ 3 [0] "Max Power Scale (MXPS): 0 is 0.01 W, 1 is 0.0001 W" = "nvme.cmd.identify.ctrl.psds.psd.mxps",
        nops: bool @ 3 [1] "Non-Operational State (NOPS)" = "nvme.cmd.identify.ctrl.psds.psd.nops",
        enlat: u32 @ 4 "Entry Latency (ENLAT), us" = "nvme.cmd.identify.ctrl.psds.psd.enlat",
        exlat: u32 @ 8 "Exit Latency (EXLAT), us" = "nvme.cmd.identify.ctrl.psds.psd.exlat",
        rrt: u8 @ 12 [4:0] "Relative Read Throughput (RRT)" = "nvme.cmd.identify.ctrl.psds.psd.rrt",
        rrl: u8 @ 13 [4:0] "Relative Read Latency (RRL)" = "nvme.cmd.identify.ctrl.psds.psd.rrl",
        rwt: u8 @ 14 [4:0] "Relative Write Throughput (RWT)" = "nvme.cmd.identify.ctrl.psds.psd.rwt",
        rwl: u8 @ 15 [4:0] "Relative Write Latency (RWL)" = "nvme.cmd.identify.ctrl.psds.psd.rwl",
        idlp: u16 @ 16 "Idle Power (IDLP), in units of IPS" = "nvme.cmd.identify.ctrl.psds.psd.idlp",
        ips: u8 @ 18 [7:6] "Idle Power Scale (IPS): 1 is 0.0001 W, 2 is 0.01 W" = "nvme.cmd.identify.ctrl.psds.psd.ips",
        actp: u16 @ 20 "Active Power (ACTP), in units of APS" = "nvme.cmd.identify.ctrl.psds.psd.actp",
        apw: u8 @ 22 [2:0] "Active Power Workload (APW)" = "nvme.cmd.identify.ctrl.psds.psd.apw",
        aps: u8 @ 22 [7:6] "Active Power Scale (APS): 1 is 0.0001 W, 2 is 0.01 W" = "nvme.cmd.identify.ctrl.psds.psd.aps",
    }
}

open_enum! {
    /// Controller Type (CNTRLTYPE). [Base 2.0, 5.17.2.1, Figure 275]
    pub struct ControllerType(u8) {
        NOT_REPORTED = 0 "not reported",
        IO = 1 "I/O controller",
        DISCOVERY = 2 "discovery controller",
        ADMINISTRATIVE = 3 "administrative controller",
    }
    /// Discovery Controller Type (DCTYPE). [Base 2.1, 5.1.13.2.1]
    pub struct DiscoveryType(u8) {
        NOT_REPORTED = 0 "not reported",
        DIRECT = 1 "direct discovery controller",
        CENTRAL = 2 "central discovery controller",
    }
}

impl IdentifyController {
    /// Power state descriptor `n`; `None` from 32 on. How many hold anything is NPSS.
    pub fn power_state(&self, n: usize) -> Option<PowerState> {
        if n >= 32 {
            return None;
        }
        PowerState::read(self.as_bytes().get(2048 + 32 * n..)?).ok()
    }

    /// Size in bytes of the largest command capsule on an I/O queue.
    pub fn command_capsule_bytes(&self) -> u64 {
        u64::from(self.ioccsz()) * 16
    }

    /// Room in bytes for in-capsule data on an I/O queue, behind the SQE and ICDOFF. [Base 2.0, Figure 275, IOCCSZ and ICDOFF]
    pub fn in_capsule_bytes(&self) -> u64 {
        self.command_capsule_bytes().saturating_sub(64 + u64::from(self.icdoff()) * 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capsule_sizes_count_16_bytes() {
        let c = IdentifyController::new().with(|s| s.ioccsz(1028).icdoff(0));
        assert_eq!((c.command_capsule_bytes(), c.in_capsule_bytes()), (16448, 16384));
        assert_eq!(IdentifyController::new().with(|s| s.ioccsz(6).icdoff(1)).in_capsule_bytes(), 16);
        assert_eq!(IdentifyController::new().in_capsule_bytes(), 0);
    }

    #[test]
    fn there_are_32_power_states() {
        let c = IdentifyController::new().with(|s| {
            s.psd31([0xc4, 9, 0, 2, 16, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        });
        let p = c.power_state(31).unwrap();
        assert_eq!((p.mp(), p.nops(), p.enlat(), p.exlat()), (2500, true, 16, 4));
        assert_eq!(c.power_state(32), None);
    }
}
