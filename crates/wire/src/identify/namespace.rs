//! Identify Namespace data: NVM command set (CNS 00h, 05h), its controller data (CNS 06h), and what is independent of the command
//! set (CNS 08h). [NVM Command Set 1.0, 4.1.5; Base 2.0, 5.17.2.8]

use crate::open::ZeroBased8;

layout! {
    /// Identify Namespace data of the NVM command set (CNS 00h), 4096 bytes. An inactive NSID gives all zeroes.
    /// [NVM Command Set 1.0, 4.1.5.1, Figure 97]
    pub struct IdentifyNamespace[4096] {
        nsze: u64 @ 0 "Namespace Size (NSZE), blocks" = "nvme.cmd.identify.ns.nsze",
        ncap: u64 @ 8 "Namespace Capacity (NCAP), blocks" = "nvme.cmd.identify.ns.ncap",
        nuse: u64 @ 16 "Namespace Utilization (NUSE), blocks" = "nvme.cmd.identify.ns.nuse",
        nsfeat_thinp: bool @ 24 [0] "Namespace Features (NSFEAT): thin provisioning",
        nsfeat_nsabp: bool @ 24 [1] "Namespace Features (NSFEAT): NAWUN, NAWUPF and NACWU are defined",
        nsfeat_dae: bool @ 24 [2] "Namespace Features (NSFEAT): deallocated or unwritten block error",
        nsfeat_uidreuse: bool @ 24 [3] "Namespace Features (NSFEAT): NGUID and EUI64 are never reused",
        nsfeat_optperf: u8 @ 24 [5:4] "Namespace Features (NSFEAT): NPWG, NPWA, NPDG, NPDA and NOWS are defined; bit 1: later than 1.0",
        nlbaf: ZeroBased8 @ 25 "Number of LBA Formats (NLBAF), 0's based" = "nvme.cmd.identify.ns.nlbaf",
        flbas_low: u8 @ 26 [3:0] "Formatted LBA Size (FLBAS): format in use, bits 3:0",
        flbas_extended: bool @ 26 [4] "Formatted LBA Size (FLBAS): metadata at the end of the block",
        flbas_high: u8 @ 26 [6:5] "Formatted LBA Size (FLBAS): format in use, bits 5:4",
        mc_extended: bool @ 27 [0] "Metadata Capabilities (MC): at the end of the block",
        mc_pointer: bool @ 27 [1] "Metadata Capabilities (MC): separate buffer",
        dpc_type1: bool @ 28 [0] "End-to-end Data Protection Capabilities (DPC): type 1",
        dpc_type2: bool @ 28 [1] "End-to-end Data Protection Capabilities (DPC): type 2",
        dpc_type3: bool @ 28 [2] "End-to-end Data Protection Capabilities (DPC): type 3",
        dpc_first: bool @ 28 [3] "End-to-end Data Protection Capabilities (DPC): first bytes of the metadata",
        dpc_last: bool @ 28 [4] "End-to-end Data Protection Capabilities (DPC): last bytes of the metadata",
        dps_type: u8 @ 29 [2:0] "End-to-end Data Protection Settings (DPS): type, 0 off",
        dps_first: bool @ 29 [3] "End-to-end Data Protection Settings (DPS): first bytes of the metadata",
        nmic_shared: bool @ 30 [0] "Multi-path I/O and Namespace Sharing (NMIC): shared",
        nmic_disns: bool @ 30 [1] "Multi-path I/O and Namespace Sharing (NMIC): dispersed; later than NVM Command Set 1.0",
        rescap: u8 @ 31 "Reservation Capabilities (RESCAP): 0 PTPL, 1 WE, 2 EA, 3 WE-RO, 4 EA-RO, 5 WE-AR, 6 EA-AR, 7 IEKEY as in 1.3",
        fpi_remaining: u8 @ 32 [6:0] "Format Progress Indicator (FPI): percent that remains",
        fpi_supported: bool @ 32 [7] "Format Progress Indicator (FPI): supported",
        dlfeat_read: u8 @ 33 [2:0] "Deallocate Features (DLFEAT): reads of deallocated blocks: 0 not reported, 1 zeroes, 2 ones",
        dlfeat_wzds: bool @ 33 [3] "Deallocate Features (DLFEAT): Write Zeroes may deallocate",
        dlfeat_guard: bool @ 33 [4] "Deallocate Features (DLFEAT): guard of deallocated blocks is their CRC",
        nawun: u16 @ 34 "Namespace Atomic Write Unit Normal (NAWUN), blocks, 0's based",
        nawupf: u16 @ 36 "Namespace Atomic Write Unit Power Fail (NAWUPF), blocks, 0's based",
        nacwu: u16 @ 38 "Namespace Atomic Compare and Write Unit (NACWU), blocks, 0's based",
        nabsn: u16 @ 40 "Namespace Atomic Boundary Size Normal (NABSN), blocks, 0's based",
        nabo: u16 @ 42 "Namespace Atomic Boundary Offset (NABO), blocks",
        nabspf: u16 @ 44 "Namespace Atomic Boundary Size Power Fail (NABSPF), blocks, 0's based",
        noiob: u16 @ 46 "Namespace Optimal I/O Boundary (NOIOB), blocks",
        nvmcap: [u8; 16] @ 48 "NVM Capacity (NVMCAP), bytes",
        npwg: u16 @ 64 "Namespace Preferred Write Granularity (NPWG), blocks, 0's based",
        npwa: u16 @ 66 "Namespace Preferred Write Alignment (NPWA), blocks, 0's based",
        npdg: u16 @ 68 "Namespace Preferred Deallocate Granularity (NPDG), blocks, 0's based",
        npda: u16 @ 70 "Namespace Preferred Deallocate Alignment (NPDA), blocks, 0's based",
        nows: u16 @ 72 "Namespace Optimal Write Size (NOWS), blocks, 0's based",
        mssrl: u16 @ 74 "Maximum Single Source Range Length (MSSRL), blocks",
        mcl: u32 @ 76 "Maximum Copy Length (MCL), blocks",
        msrc: ZeroBased8 @ 80 "Maximum Source Range Count (MSRC), 0's based",
        kpios: u8 @ 81 [1:0] "Key Per I/O Status (KPIOS); later than NVM Command Set 1.0",
        nulbaf: u8 @ 82 "Number of Unique Attribute LBA Formats (NULBAF)",
        kpiodaag: u32 @ 84 "Key Per I/O Data Access Alignment and Granularity (KPIODAAG), blocks, 0's based; later than NVM Command Set 1.0",
        anagrpid: u32 @ 92 "ANA Group Identifier (ANAGRPID)",
        nsattr_wp: bool @ 99 [0] "Namespace Attributes (NSATTR): write protected",
        nvmsetid: u16 @ 100 "NVM Set Identifier (NVMSETID)",
        endgid: u16 @ 102 "Endurance Group Identifier (ENDGID)",
        nguid: [u8; 16] @ 104 "Namespace Globally Unique Identifier (NGUID), big-endian" = "nvme.cmd.identify.ns.nguid",
        eui64: [u8; 8] @ 120 "IEEE Extended Unique Identifier (EUI64), big-endian" = "nvme.cmd.identify.ns.eui64",
        lbaf0: u32 @ 128 "LBA Format 0 (LBAF0), see LbaFormat",
        lbaf1: u32 @ 132 "LBA Format 1 (LBAF1), see LbaFormat",
        lbaf2: u32 @ 136 "LBA Format 2 (LBAF2), see LbaFormat",
        lbaf3: u32 @ 140 "LBA Format 3 (LBAF3), see LbaFormat",
        lbaf4: u32 @ 144 "LBA Format 4 (LBAF4), see LbaFormat",
        lbaf5: u32 @ 148 "LBA Format 5 (LBAF5), see LbaFormat",
        lbaf6: u32 @ 152 "LBA Format 6 (LBAF6), see LbaFormat",
        lbaf7: u32 @ 156 "LBA Format 7 (LBAF7), see LbaFormat",
        lbaf8: u32 @ 160 "LBA Format 8 (LBAF8), see LbaFormat",
        lbaf9: u32 @ 164 "LBA Format 9 (LBAF9), see LbaFormat",
        lbaf10: u32 @ 168 "LBA Format 10 (LBAF10), see LbaFormat",
        lbaf11: u32 @ 172 "LBA Format 11 (LBAF11), see LbaFormat",
        lbaf12: u32 @ 176 "LBA Format 12 (LBAF12), see LbaFormat",
        lbaf13: u32 @ 180 "LBA Format 13 (LBAF13), see LbaFormat",
        lbaf14: u32 @ 184 "LBA Format 14 (LBAF14), see LbaFormat",
        lbaf15: u32 @ 188 "LBA Format 15 (LBAF15), see LbaFormat",
        lbaf16: u32 @ 192 "LBA Format 16 (LBAF16), see LbaFormat",
        lbaf17: u32 @ 196 "LBA Format 17 (LBAF17), see LbaFormat",
        lbaf18: u32 @ 200 "LBA Format 18 (LBAF18), see LbaFormat",
        lbaf19: u32 @ 204 "LBA Format 19 (LBAF19), see LbaFormat",
        lbaf20: u32 @ 208 "LBA Format 20 (LBAF20), see LbaFormat",
        lbaf21: u32 @ 212 "LBA Format 21 (LBAF21), see LbaFormat",
        lbaf22: u32 @ 216 "LBA Format 22 (LBAF22), see LbaFormat",
        lbaf23: u32 @ 220 "LBA Format 23 (LBAF23), see LbaFormat",
        lbaf24: u32 @ 224 "LBA Format 24 (LBAF24), see LbaFormat",
        lbaf25: u32 @ 228 "LBA Format 25 (LBAF25), see LbaFormat",
        lbaf26: u32 @ 232 "LBA Format 26 (LBAF26), see LbaFormat",
        lbaf27: u32 @ 236 "LBA Format 27 (LBAF27), see LbaFormat",
        lbaf28: u32 @ 240 "LBA Format 28 (LBAF28), see LbaFormat",
        lbaf29: u32 @ 244 "LBA Format 29 (LBAF29), see LbaFormat",
        lbaf30: u32 @ 248 "LBA Format 30 (LBAF30), see LbaFormat",
        lbaf31: u32 @ 252 "LBA Format 31 (LBAF31), see LbaFormat",
        lbaf32: u32 @ 256 "LBA Format 32 (LBAF32), see LbaFormat",
        lbaf33: u32 @ 260 "LBA Format 33 (LBAF33), see LbaFormat",
        lbaf34: u32 @ 264 "LBA Format 34 (LBAF34), see LbaFormat",
        lbaf35: u32 @ 268 "LBA Format 35 (LBAF35), see LbaFormat",
        lbaf36: u32 @ 272 "LBA Format 36 (LBAF36), see LbaFormat",
        lbaf37: u32 @ 276 "LBA Format 37 (LBAF37), see LbaFormat",
        lbaf38: u32 @ 280 "LBA Format 38 (LBAF38), see LbaFormat",
        lbaf39: u32 @ 284 "LBA Format 39 (LBAF39), see LbaFormat",
        lbaf40: u32 @ 288 "LBA Format 40 (LBAF40), see LbaFormat",
        lbaf41: u32 @ 292 "LBA Format 41 (LBAF41), see LbaFormat",
        lbaf42: u32 @ 296 "LBA Format 42 (LBAF42), see LbaFormat",
        lbaf43: u32 @ 300 "LBA Format 43 (LBAF43), see LbaFormat",
        lbaf44: u32 @ 304 "LBA Format 44 (LBAF44), see LbaFormat",
        lbaf45: u32 @ 308 "LBA Format 45 (LBAF45), see LbaFormat",
        lbaf46: u32 @ 312 "LBA Format 46 (LBAF46), see LbaFormat",
        lbaf47: u32 @ 316 "LBA Format 47 (LBAF47), see LbaFormat",
        lbaf48: u32 @ 320 "LBA Format 48 (LBAF48), see LbaFormat",
        lbaf49: u32 @ 324 "LBA Format 49 (LBAF49), see LbaFormat",
        lbaf50: u32 @ 328 "LBA Format 50 (LBAF50), see LbaFormat",
        lbaf51: u32 @ 332 "LBA Format 51 (LBAF51), see LbaFormat",
        lbaf52: u32 @ 336 "LBA Format 52 (LBAF52), see LbaFormat",
        lbaf53: u32 @ 340 "LBA Format 53 (LBAF53), see LbaFormat",
        lbaf54: u32 @ 344 "LBA Format 54 (LBAF54), see LbaFormat",
        lbaf55: u32 @ 348 "LBA Format 55 (LBAF55), see LbaFormat",
        lbaf56: u32 @ 352 "LBA Format 56 (LBAF56), see LbaFormat",
        lbaf57: u32 @ 356 "LBA Format 57 (LBAF57), see LbaFormat",
        lbaf58: u32 @ 360 "LBA Format 58 (LBAF58), see LbaFormat",
        lbaf59: u32 @ 364 "LBA Format 59 (LBAF59), see LbaFormat",
        lbaf60: u32 @ 368 "LBA Format 60 (LBAF60), see LbaFormat",
        lbaf61: u32 @ 372 "LBA Format 61 (LBAF61), see LbaFormat",
        lbaf62: u32 @ 376 "LBA Format 62 (LBAF62), see LbaFormat",
        lbaf63: u32 @ 380 "LBA Format 63 (LBAF63), see LbaFormat",
        vs: [u8; 3712] @ 384 "Vendor specific",
    }

    /// LBA Format. [NVM Command Set 1.0, 4.1.5.1, Figure 98]
    pub struct LbaFormat[4] {
        ms: u16 @ 0 "Metadata Size (MS), bytes",
        lbads: u8 @ 2 "LBA Data Size (LBADS): 2^n bytes, 0 means not available",
        rp: u8 @ 3 [1:0] "Relative Performance (RP): 0 best, 3 degraded",
    }

    /// I/O command set specific Identify Namespace data of the NVM command set (CNS 05h, CSI 00h), 4096 bytes.
    /// [NVM Command Set 1.0, 4.1.5.3, Figure 100]
    pub struct IdentifyNamespaceNvm[4096] {
        lbstm: u64 @ 0 "Logical Block Storage Tag Mask (LBSTM)",
        pic_sts: bool @ 8 [0] "Protection Information Capabilities (PIC): storage tag with 16b guard (16BPISTS)",
        pic_stm: bool @ 8 [1] "Protection Information Capabilities (PIC): whole storage tag mask with 16b guard (16BPISTM)",
        pic_stcrs: bool @ 8 [2] "Protection Information Capabilities (PIC): storage tag check read (STCRS); later than 1.0",
        pic_qpifs: bool @ 8 [3] "Protection Information Capabilities (PIC): qualified protection information format (QPIFS); later than 1.0",
        pifa_stmla: u8 @ 9 [3:0] "Protection Information Format Attribute (PIFA): storage tag masking level (STMLA); later than 1.0",
        elbaf0: u32 @ 12 "Extended LBA Format 0 (ELBAF0), see ExtendedLbaFormat",
        elbaf1: u32 @ 16 "Extended LBA Format 1 (ELBAF1), see ExtendedLbaFormat",
        elbaf2: u32 @ 20 "Extended LBA Format 2 (ELBAF2), see ExtendedLbaFormat",
        elbaf3: u32 @ 24 "Extended LBA Format 3 (ELBAF3), see ExtendedLbaFormat",
        elbaf4: u32 @ 28 "Extended LBA Format 4 (ELBAF4), see ExtendedLbaFormat",
        elbaf5: u32 @ 32 "Extended LBA Format 5 (ELBAF5), see ExtendedLbaFormat",
        elbaf6: u32 @ 36 "Extended LBA Format 6 (ELBAF6), see ExtendedLbaFormat",
        elbaf7: u32 @ 40 "Extended LBA Format 7 (ELBAF7), see ExtendedLbaFormat",
        elbaf8: u32 @ 44 "Extended LBA Format 8 (ELBAF8), see ExtendedLbaFormat",
        elbaf9: u32 @ 48 "Extended LBA Format 9 (ELBAF9), see ExtendedLbaFormat",
        elbaf10: u32 @ 52 "Extended LBA Format 10 (ELBAF10), see ExtendedLbaFormat",
        elbaf11: u32 @ 56 "Extended LBA Format 11 (ELBAF11), see ExtendedLbaFormat",
        elbaf12: u32 @ 60 "Extended LBA Format 12 (ELBAF12), see ExtendedLbaFormat",
        elbaf13: u32 @ 64 "Extended LBA Format 13 (ELBAF13), see ExtendedLbaFormat",
        elbaf14: u32 @ 68 "Extended LBA Format 14 (ELBAF14), see ExtendedLbaFormat",
        elbaf15: u32 @ 72 "Extended LBA Format 15 (ELBAF15), see ExtendedLbaFormat",
        elbaf16: u32 @ 76 "Extended LBA Format 16 (ELBAF16), see ExtendedLbaFormat",
        elbaf17: u32 @ 80 "Extended LBA Format 17 (ELBAF17), see ExtendedLbaFormat",
        elbaf18: u32 @ 84 "Extended LBA Format 18 (ELBAF18), see ExtendedLbaFormat",
        elbaf19: u32 @ 88 "Extended LBA Format 19 (ELBAF19), see ExtendedLbaFormat",
        elbaf20: u32 @ 92 "Extended LBA Format 20 (ELBAF20), see ExtendedLbaFormat",
        elbaf21: u32 @ 96 "Extended LBA Format 21 (ELBAF21), see ExtendedLbaFormat",
        elbaf22: u32 @ 100 "Extended LBA Format 22 (ELBAF22), see ExtendedLbaFormat",
        elbaf23: u32 @ 104 "Extended LBA Format 23 (ELBAF23), see ExtendedLbaFormat",
        elbaf24: u32 @ 108 "Extended LBA Format 24 (ELBAF24), see ExtendedLbaFormat",
        elbaf25: u32 @ 112 "Extended LBA Format 25 (ELBAF25), see ExtendedLbaFormat",
        elbaf26: u32 @ 116 "Extended LBA Format 26 (ELBAF26), see ExtendedLbaFormat",
        elbaf27: u32 @ 120 "Extended LBA Format 27 (ELBAF27), see ExtendedLbaFormat",
        elbaf28: u32 @ 124 "Extended LBA Format 28 (ELBAF28), see ExtendedLbaFormat",
        elbaf29: u32 @ 128 "Extended LBA Format 29 (ELBAF29), see ExtendedLbaFormat",
        elbaf30: u32 @ 132 "Extended LBA Format 30 (ELBAF30), see ExtendedLbaFormat",
        elbaf31: u32 @ 136 "Extended LBA Format 31 (ELBAF31), see ExtendedLbaFormat",
        elbaf32: u32 @ 140 "Extended LBA Format 32 (ELBAF32), see ExtendedLbaFormat",
        elbaf33: u32 @ 144 "Extended LBA Format 33 (ELBAF33), see ExtendedLbaFormat",
        elbaf34: u32 @ 148 "Extended LBA Format 34 (ELBAF34), see ExtendedLbaFormat",
        elbaf35: u32 @ 152 "Extended LBA Format 35 (ELBAF35), see ExtendedLbaFormat",
        elbaf36: u32 @ 156 "Extended LBA Format 36 (ELBAF36), see ExtendedLbaFormat",
        elbaf37: u32 @ 160 "Extended LBA Format 37 (ELBAF37), see ExtendedLbaFormat",
        elbaf38: u32 @ 164 "Extended LBA Format 38 (ELBAF38), see ExtendedLbaFormat",
        elbaf39: u32 @ 168 "Extended LBA Format 39 (ELBAF39), see ExtendedLbaFormat",
        elbaf40: u32 @ 172 "Extended LBA Format 40 (ELBAF40), see ExtendedLbaFormat",
        elbaf41: u32 @ 176 "Extended LBA Format 41 (ELBAF41), see ExtendedLbaFormat",
        elbaf42: u32 @ 180 "Extended LBA Format 42 (ELBAF42), see ExtendedLbaFormat",
        elbaf43: u32 @ 184 "Extended LBA Format 43 (ELBAF43), see ExtendedLbaFormat",
        elbaf44: u32 @ 188 "Extended LBA Format 44 (ELBAF44), see ExtendedLbaFormat",
        elbaf45: u32 @ 192 "Extended LBA Format 45 (ELBAF45), see ExtendedLbaFormat",
        elbaf46: u32 @ 196 "Extended LBA Format 46 (ELBAF46), see ExtendedLbaFormat",
        elbaf47: u32 @ 200 "Extended LBA Format 47 (ELBAF47), see ExtendedLbaFormat",
        elbaf48: u32 @ 204 "Extended LBA Format 48 (ELBAF48), see ExtendedLbaFormat",
        elbaf49: u32 @ 208 "Extended LBA Format 49 (ELBAF49), see ExtendedLbaFormat",
        elbaf50: u32 @ 212 "Extended LBA Format 50 (ELBAF50), see ExtendedLbaFormat",
        elbaf51: u32 @ 216 "Extended LBA Format 51 (ELBAF51), see ExtendedLbaFormat",
        elbaf52: u32 @ 220 "Extended LBA Format 52 (ELBAF52), see ExtendedLbaFormat",
        elbaf53: u32 @ 224 "Extended LBA Format 53 (ELBAF53), see ExtendedLbaFormat",
        elbaf54: u32 @ 228 "Extended LBA Format 54 (ELBAF54), see ExtendedLbaFormat",
        elbaf55: u32 @ 232 "Extended LBA Format 55 (ELBAF55), see ExtendedLbaFormat",
        elbaf56: u32 @ 236 "Extended LBA Format 56 (ELBAF56), see ExtendedLbaFormat",
        elbaf57: u32 @ 240 "Extended LBA Format 57 (ELBAF57), see ExtendedLbaFormat",
        elbaf58: u32 @ 244 "Extended LBA Format 58 (ELBAF58), see ExtendedLbaFormat",
        elbaf59: u32 @ 248 "Extended LBA Format 59 (ELBAF59), see ExtendedLbaFormat",
        elbaf60: u32 @ 252 "Extended LBA Format 60 (ELBAF60), see ExtendedLbaFormat",
        elbaf61: u32 @ 256 "Extended LBA Format 61 (ELBAF61), see ExtendedLbaFormat",
        elbaf62: u32 @ 260 "Extended LBA Format 62 (ELBAF62), see ExtendedLbaFormat",
        elbaf63: u32 @ 264 "Extended LBA Format 63 (ELBAF63), see ExtendedLbaFormat",
        npdgl: u32 @ 268 "Namespace Preferred Deallocate Granularity Large (NPDGL), blocks, 0's based; later than 1.0",
        nprg: u32 @ 272 "Namespace Preferred Read Granularity (NPRG), blocks, 0's based; later than 1.0",
        npra: u32 @ 276 "Namespace Preferred Read Alignment (NPRA), blocks, 0's based; later than 1.0",
        nors: u32 @ 280 "Namespace Optimal Read Size (NORS), blocks, 0's based; later than 1.0",
        npdal: u32 @ 284 "Namespace Preferred Deallocate Alignment Large (NPDAL), blocks, 0's based; later than 1.0",
        lbapss: u32 @ 288 "LBA Format Placement Shard Size (LBAPSS), blocks, 0's based; later than 1.0",
        tlbaag: u32 @ 292 "Tracked LBA Allocation Granularity (TLBAAG), blocks, 0's based; later than 1.0",
    }

    /// Extended LBA Format. [NVM Command Set 1.0, 4.1.5.3, Figure 101]
    pub struct ExtendedLbaFormat[4] {
        sts: u8 @ 0 [6:0] "Storage Tag Size (STS), bits",
        pif: u8 @ 0 [8:7] "Protection Information Format (PIF): 0 16b guard, 1 32b guard, 2 64b guard, 3 as QPIF says",
        qpif: u8 @ 0 [12:9] "Qualified Protection Information Format (QPIF); later than 1.0",
    }

    /// I/O command set specific Identify Controller data of the NVM command set (CNS 06h, CSI 00h), 4096 bytes.
    /// [NVM Command Set 1.0, 4.1.5.4, Figure 102]
    pub struct IdentifyControllerNvm[4096] {
        vsl: u8 @ 0 "Verify Size Limit (VSL): 2^n units of CAP.MPSMIN, 0 no limit",
        wzsl: u8 @ 1 "Write Zeroes Size Limit (WZSL): 2^n units of CAP.MPSMIN, 0 no limit",
        wusl: u8 @ 2 "Write Uncorrectable Size Limit (WUSL): 2^n units of CAP.MPSMIN, 0 no limit",
        dmrl: u8 @ 3 "Dataset Management Ranges Limit (DMRL), 0 no limit",
        dmrsl: u32 @ 4 "Dataset Management Range Size Limit (DMRSL), blocks, 0 no limit",
        dmsl: u64 @ 8 "Dataset Management Size Limit (DMSL), blocks, 0 no limit",
        kpiocap: u8 @ 16 "Key Per I/O Capabilities (KPIOCAP); later than 1.0",
        wzdsl: u8 @ 17 "Write Zeroes With Deallocate Size Limit (WZDSL): 2^n units of CAP.MPSMIN, 0 no limit; later than 1.0",
        aocs: u16 @ 18 "Admin Optional Command Support (AOCS); later than 1.0",
        ver: u32 @ 20 "Version (VER) of the NVM command set; later than 1.0",
        lbamqf: u8 @ 24 "LBA Migration Queue Format (LBAMQF); later than 1.0",
    }

    /// I/O command set independent Identify Namespace data (CNS 08h), 4096 bytes. [Base 2.0, 5.17.2.8, Figure 280]
    pub struct IdentifyNamespaceIndependent[4096] {
        nsfeat_uidreuse: bool @ 0 [3] "Common Namespace Features (NSFEAT): NGUID and EUI64 are never reused",
        nsfeat_rmedia: bool @ 0 [4] "Common Namespace Features (NSFEAT): rotational media",
        nsfeat_vwcnp: bool @ 0 [5] "Common Namespace Features (NSFEAT): no volatile write cache (VWCNP); later than 2.0",
        nmic_shared: bool @ 1 [0] "Multi-path I/O and Namespace Sharing (NMIC): shared",
        nmic_disns: bool @ 1 [1] "Multi-path I/O and Namespace Sharing (NMIC): dispersed; later than 2.0",
        rescap: u8 @ 2 "Reservation Capabilities (RESCAP), as in Identify Namespace",
        fpi_remaining: u8 @ 3 [6:0] "Format Progress Indicator (FPI): percent that remains",
        fpi_supported: bool @ 3 [7] "Format Progress Indicator (FPI): supported",
        anagrpid: u32 @ 4 "ANA Group Identifier (ANAGRPID)",
        nsattr_wp: bool @ 8 [0] "Namespace Attributes (NSATTR): write protected",
        nvmsetid: u16 @ 10 "NVM Set Identifier (NVMSETID)",
        endgid: u16 @ 12 "Endurance Group Identifier (ENDGID)",
        nstat_ready: bool @ 14 [0] "Namespace Status (NSTAT): ready (NRDY)",
        kpios: u8 @ 15 [1:0] "Key Per I/O Status (KPIOS); later than 2.0",
        maxkt: u16 @ 16 "Maximum Key Tag (MAXKT); later than 2.0",
        rgrpid: u32 @ 20 "Reachability Group Identifier (RGRPID); later than 2.0",
    }
}

impl IdentifyNamespace {
    /// LBA format `n`; `None` from 64 on. How many hold anything is NLBAF (and NULBAF).
    pub fn lba_format(&self, n: usize) -> Option<LbaFormat> {
        if n >= 64 {
            return None;
        }
        LbaFormat::read(self.as_bytes().get(128 + 4 * n..)?).ok()
    }

    /// Index of the format in use. Bits 5:4 hold only where there are more than 16 formats. [NVM Command Set 1.0, Figure 97, FLBAS]
    pub fn format_in_use(&self) -> usize {
        let high = if self.nlbaf().0 > 15 { self.flbas_high() } else { 0 };
        usize::from(self.flbas_low()) | usize::from(high) << 4
    }

    /// Size of a block in bytes, without metadata; `None` where LBADS is below 9 (512 bytes, the least allowed) or above 31.
    pub fn block_bytes(&self) -> Option<u32> {
        let n = self.lba_format(self.format_in_use())?.lbads();
        (9..=31).contains(&n).then(|| 1 << n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_bits_of_flbas_hold_only_with_more_than_16_formats() {
        let mut ns = IdentifyNamespace::new().with(|s| s.nlbaf(ZeroBased8(15)).flbas_low(2).flbas_high(1).lbaf2(0x0009_0000));
        assert_eq!((ns.format_in_use(), ns.block_bytes()), (2, Some(512)));
        ns.set().nlbaf(ZeroBased8(20)).lbaf18(0x000c_0008);
        assert_eq!((ns.format_in_use(), ns.block_bytes()), (18, Some(4096)));
        assert_eq!(ns.lba_format(18).map(|f| f.ms()), Some(8));
        assert_eq!(ns.lba_format(64), None);
    }

    #[test]
    fn an_inactive_namespace_has_no_block_size() {
        assert_eq!(IdentifyNamespace::new().block_bytes(), None);
        assert_eq!(IdentifyNamespace::new().with(|s| s.lbaf0(0x0020_0000)).block_bytes(), None);
    }
}
