//! What is broken in which PDU, and what is found. In the order of the requirements; the last column says where it shows, and the
//! comment what is said.
//!
//! Where several requirements stand in one case they ask for the same of the same bytes in different sections, and are told as one finding.

use nvmf_wire::tcp::PduType;

use super::Break::{self, Drop, Raw, Set, Swap, Twice};
use super::Case;

const IC_REQ: PduType = PduType::IC_REQ;
const IC_RESP: PduType = PduType::IC_RESP;
const CMD: PduType = PduType::CAPSULE_CMD;
const RESP: PduType = PduType::CAPSULE_RESP;
const C2H: PduType = PduType::C2H_DATA;
const H2C: PduType = PduType::H2C_DATA;
const R2T: PduType = PduType::R2T;
const H2C_TERM: PduType = PduType::H2C_TERM_REQ;
const C2H_TERM: PduType = PduType::C2H_TERM_REQ;

const fn case(capture: &'static str, pdu: (PduType, &'static str, usize), how: Break, breaks: &'static str, behind: usize) -> Case {
    Case { capture, pdu, how, breaks, behind }
}

#[rustfmt::skip] // a table
pub const CASES: &[Case] = &[
    case("linux-6.12/tcp-abort", (CMD, "Abort", 0), Set(12, &[0x01]), "ADM-ABORT-08 host", 0), // Abort, CID 0x4012 with NSID or CDW11 to 15 set
    case("linux-6.12/tcp-aen-ns", (RESP, "AsyncEventRequest", 0), Set(8, &[0x0a]), "ADM-AER-04 controller", 0), // AsyncEventRequest, CID 0x001f: event 0x0004000a: reserved bits 0x8
    case("linux-6.12/tcp-aen-ns", (RESP, "AsyncEventRequest", 0), Set(8, &[0x00]), "ADM-AER-05 controller", 0), // AsyncEventRequest, CID 0x001f: event 0x00040000: log page 04h
    case("linux-6.12/tcp-aen-ns", (RESP, "AsyncEventRequest", 0), Set(9, &[0x04]), "ADM-AER-09 controller", 0), // AsyncEventRequest, CID 0x001f: event 0x00040402, bit 12 of the configuration is 0
    case("linux-6.12/tcp-io-4k", (CMD, "AsyncEventRequest", 0), Set(12, &[0x01]), "ADM-AER-26 host", 0), // AsyncEventRequest, CID 0x001f with NSID or CDW10 to 15 set
    case("spdk-26.09/02-spdk-identify", (RESP, "GetFeatures", 1), Set(22, &[0x04]), "ADM-FEAT-19 controller", 0), // GetFeatures, CID 0x0004: 0/02h Invalid Field in Command
    case("spdk-26.09/02-spdk-identify", (RESP, "SetFeatures", 1), Set(8, &[0x00]), "ADM-FEAT-26,ADM-FEAT-27 controller", 25), // GetFeatures, CID 0x0005, FID 07h, SEL 0: 0x7e007e
    case("spdk-26.09/02-spdk-identify", (RESP, "GetFeatures", 5), Set(10, &[0x01]), "ADM-FEAT-53 controller", 0), // GetFeatures, CID 0x0007, FID 05h, SEL 0: 0x10000
    case("linux-6.12/tcp-io-4k", (CMD, "Identify", 0), Set(50, &[0x01]), "ADM-IDENTIFY-07 host", 0), // Identify, CID 0x000a of CNS 01h with CNTID 0x1
    case("linux-6.12/tcp-io-4k", (CMD, "Identify", 0), Set(55, &[0x01]), "ADM-IDENTIFY-09 host", 0), // Identify, CID 0x000a of CNS 01h with CSI 0x1
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 2), Set(29, &[0x04]), "ADM-IDENTIFY-16 controller", 1), // Identify, CID 0x100d: [1, 1026]
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 3), Set(24, &[0x00]), "ADM-IDENTIFY-18 controller", 1), // Identify, CID 0x200a, NSID 1: types {0, 4}
    case("spdk-26.09/05c-spdk-write-128k-small-mdts", (C2H, "Identify", 4), Set(24, &[0x03]), "ADM-IDENTIFY-19 controller", 1), // Identify, CID 0x0004, NSID 1: type 3 twice
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 3), Set(44, &[0x00]), "ADM-IDENTIFY-20 controller", 1), // Identify, CID 0x200a, NSID 1: no CSI
    case("spdk-26.09/05c-spdk-write-128k-small-mdts", (C2H, "Identify", 3), Set(128, &[0x10]), "ADM-IDENTIFY-21 controller", 4), // Identify, CID 0x0004, NSID 1: descriptor of type 2 is not that of CNS 00h
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 3), Set(24, &[0x01]), "ADM-IDENTIFY-23 controller", 1), // Identify, CID 0x200a, NSID 1: type 1 with 16 bytes
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 3), Set(49, &[0x01]), "ADM-IDENTIFY-24 controller", 1), // Identify, CID 0x200a, NSID 1: something behind the last descriptor
    case("linux-6.12/tcp-io-4k", (RESP, "Connect", 0), Set(8, &[0x00]), "ADM-IDENTIFY-42,FAB-IDENT-09 controller", 15), // Identify, CID 0x000a: CNTLID 0x0001
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 0), Set(104, &[0x01]), "ADM-IDENTIFY-43 controller", 1), // Identify, CID 0x000a: VER 0x10301
    case("spdk-26.09/05c-spdk-write-128k-small-mdts", (C2H, "Identify", 0), Set(135, &[0x00]), "ADM-IDENTIFY-44,FAB-IDENT-04 controller", 1), // Identify, CID 0x0000: CNTRLTYPE 0
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 0), Set(28, &[0x00]), "ADM-IDENTIFY-45,FAB-IDENT-14 controller", 1), // Identify, CID 0x000a: SN has 0x00 in byte 0
    case("spdk-26.09/02-spdk-identify", (C2H, "Identify", 0), Set(88, &[0x33]), "ADM-IDENTIFY-46 controller", 50), // GetLogPage, CID 0x0006: FRS1 is not FR
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 0), Set(120, &[0x40]), "ADM-IDENTIFY-48 controller", 1), // Identify, CID 0x000a: CTRATT bit 0 0
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 0), Set(120, &[0xc1]), "ADM-IDENTIFY-59 controller", 1), // Identify, CID 0x000a: namespace granularity without Namespace Management
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 0), Set(100, &[0x8b]), "ADM-IDENTIFY-65 controller", 1), // Identify, CID 0x000a: 0x8b in byte 76
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 4), Set(24, &[0x01]), "ADM-IDENTIFY-71 controller", 1), // Identify, CID 0x200b, NSID 1: NSZE 131073, NCAP 131072, NUSE 131072
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 4), Set(154, &[0x08]), "ADM-IDENTIFY-72 controller", 1), // Identify, CID 0x200b, NSID 1: LBADS 8 of its format
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 4), Set(49, &[0x10]), "ADM-IDENTIFY-73 controller", 1), // Identify, CID 0x200b, NSID 1: 17 LBA formats
    case("spdk-26.09/05c-spdk-write-128k-small-mdts", (C2H, "Identify", 3), Set(52, &[0x08]), "ADM-IDENTIFY-74 controller", 1), // Identify, CID 0x0004, NSID 1: protection information first
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 4), Set(66, &[0x01]), "ADM-IDENTIFY-76 controller", 1), // Identify, CID 0x200b, NSID 1: NABO 1 without boundaries
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 1), Set(27, &[0x01]), "ADM-IDENTIFY-78 controller", 1), // Identify, CID 0x100c: DMRL 1, DMRSL 0, DMSL 0
    case("linux-6.12/tcp-abort", (C2H, "Identify", 5), Set(57, &[0x08]), "ADM-IDENTIFY-79 controller", 4), // Identify, CID 0x2015, NSID 1: DLFEAT bit 3 differs from that of another
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 4), Set(48, &[0x1a]), "ADM-IDENTIFY-80 controller", 1), // Identify, CID 0x200b, NSID 1: UIDREUSE without NGUID and EUI64
    case("linux-6.12/tcp-io-4k", (CMD, "GetLogPage", 0), Set(56, &[0x01]), "ADM-LOG-03 host", 0), // GetLogPage, CID 0x000b of LID 05h at offset 1
    case("linux-6.12/tcp-io-4k", (CMD, "GetLogPage", 0), Set(49, &[0x80]), "ADM-LOG-11 host", 0), // GetLogPage, CID 0x000b of LID 05h with RAE
    case("linux-6.12/tcp-admin", (C2H, "GetLogPage", 6), Set(88, &[0x05]), "ADM-LOG-18 controller", 1), // GetLogPage, CID 0x7004: error counts [5, 5, 3, 2]
    case("linux-6.12/tcp-admin", (C2H, "GetLogPage", 6), Set(24, &[0x00]), "ADM-LOG-19 controller", 1), // GetLogPage, CID 0x7004: an entry behind an unused one
    case("linux-6.12/tcp-admin", (C2H, "GetLogPage", 6), Set(38, &[0x68]), "ADM-LOG-21 controller", 1), // GetLogPage, CID 0x7004: byte 104 of a command is at fault
    case("linux-6.12/tcp-admin", (C2H, "GetLogPage", 6), Set(53, &[0x04]), "ADM-LOG-22 controller", 1), // GetLogPage, CID 0x7004: TRTYPE 4 in an entry
    case("spdk-26.09/02-spdk-identify", (CMD, "GetLogPage", 1), Set(12, &[0x00]), "ADM-LOG-27 host", 0), // GetLogPage, CID 0x0004 of LID 02h with NSID 4294967040
    case("linux-6.12/tcp-io-4k", (C2H, "GetLogPage", 2), Set(24, &[0x40]), "ADM-LOG-29 controller", 1), // GetLogPage, CID 0x000d: a reserved bit of byte 0
    case("linux-6.12/tcp-admin", (C2H, "GetLogPage", 2), Set(88, &[0x1e]), "ADM-LOG-30 controller", 89), // GetLogPage, CID 0x6005: Host Read Commands 34, before 30, and 6 were completed since
    case("spdk-26.09/02-spdk-identify", (C2H, "GetLogPage", 0), Set(24, &[0x01]), "ADM-LOG-31 controller", 5), // GetLogPage, CID 0x0004: 0 error entries, the newest had count 1
    case("linux-6.12/tcp-admin", (C2H, "GetLogPage", 11), Set(24, &[0x01]), "ADM-LOG-32 controller", 1), // GetLogPage, CID 0x9004: active slot 1 has no firmware
    case("linux-6.12/tcp-io-4k", (C2H, "GetLogPage", 0), Set(24, &[0x02]), "ADM-LOG-34 controller", 1), // GetLogPage, CID 0x000b: effects of opcode 00h (I/O: false), not supported
    case("linux-6.12/tcp-io-4k", (C2H, "GetLogPage", 0), Set(32, &[0x00]), "ADM-LOG-35 controller", 1), // GetLogPage, CID 0x000b: admin opcode 02h is not supported
    case("linux-6.12/tcp-io-4k", (RESP, "SetFeatures", 1), Set(22, &[0x02]), "ADM-PROHIB-05 controller", 0), // SetFeatures, CID 0x100b: 0/01h Invalid Command Opcode
    case("linux-6.12/tcp-io-4k", (RESP, "GetLogPage", 0), Set(22, &[0x02]), "ADM-PROHIB-05,FAB-IDENT-13 controller", 0), // GetLogPage, CID 0x000b: 0/01h Invalid Command Opcode
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 4), Set(116, &[0x00]), "ANA-03 controller", 1), // Identify, CID 0x200b, NSID 1: ANAGRPID 0
    case("linux-6.12/tcp-io-4k", (C2H, "GetLogPage", 1), Set(40, &[0x00]), "ANA-04 controller", 1), // GetLogPage, CID 0x000c: group 0
    case("spdk-26.09/10a-spdk-ana", (C2H, "GetLogPage", 0), Set(40, &[0x03]), "ANA-05,ANA-19 controller", 2), // GetLogPage, CID 0x0004: group 3: NSID Some(1) of another group
    case("linux-6.12/tcp-io-4k", (C2H, "GetLogPage", 1), Set(56, &[0x00]), "ANA-09 controller", 1), // GetLogPage, CID 0x000c: group 1: state 0
    case("linux-6.12/tcp-io-4k", (RESP, "Connect", 0), Twice, "CQE-01 controller", 1), // second response for CID 0x0000
    case("linux-6.12/tcp-io-4k", (RESP, "Connect", 0), Set(18, &[0x01]), "CQE-02 controller", 108), // SQID 1
    case("linux-6.12/tcp-io-4k", (RESP, "Connect", 0), Set(22, &[0x01]), "CQE-03 controller", 0), // phase bit 1
    case("linux-6.12/tcp-io-4k", (RESP, "Identify", 0), Set(8, &[0x01]), "CQE-04 controller", 0), // Identify, CID 0x000a: DW0 0x1, DW1 0x0
    case("linux-6.12/tcp-io-4k", (RESP, "Connect", 0), Set(23, &[0x10]), "CQE-05 controller", 0), // DNR or CRD set with success
    case("linux-6.12/tcp-io-4k", (RESP, "PropertyGet", 0), Set(23, &[0xff]), "CQE-07 controller", 0), // CRD 3 with DNR
    case("linux-6.12/tcp-io-misc", (RESP, "Compare", 0), Set(22, &[0x42]), "CQE-08,FAB-STATUS-08 controller", 0), // Compare, CID 0x001e: 0/21h Command Interrupted, M, DNR
    case("linux-6.12/tcp-io-4k", (RESP, "PropertyGet", 0), Set(23, &[0x08]), "CQE-14 controller", 0), // SCT 4
    case("linux-6.12/tcp-io-4k", (RESP, "GetLogPage", 0), Set(22, &[0x80]), "CQE-15 controller", 0), // GetLogPage, CID 0x000b: 0/40h
    case("linux-6.12/tcp-io-4k", (RESP, "Connect", 0), Set(16, &[0x03]), "CQE-17 controller", 0), // SQHD 3 after 0, 1 capsules sent, 0 taken
    case("linux-6.12/tcp-io-4k", (RESP, "PropertyGet", 0), Set(16, &[0x00]), "CQE-18 controller", 0), // SQHD 0 after 1, 2 capsules sent, 1 taken
    case("linux-6.12/tcp-connect-nosqflow", (RESP, "PropertyGet", 0), Set(16, &[0x01]), "CQE-19 controller", 0), // SQHD 1 with SQ flow control off
    case("linux-6.12/tcp-discover-8009-referral", (CMD, "GetLogPage", 0), Set(57, &[0x08]), "DISC-LOG-02,ADM-LOG-42 host", 3), // GetLogPage, CID 0x1016 of LID 70h at offset 0x400 behind a higher one
    case("linux-6.12/tcp-discover-8009-referral", (C2H, "GetLogPage", 0), Set(42, &[0x08]), "DISC-LOG-07 controller", 1), // GetLogPage, CID 0x0019: header with byte 18 set
    case("linux-6.12/tcp-discover-8009-referral", (C2H, "GetLogPage", 0), Set(40, &[0x01]), "DISC-LOG-07,ADM-LOG-39 controller", 1), // GetLogPage, CID 0x0019: RECFMT 1
    case("linux-6.12/tcp-io-4k", (RESP, "PropertyGet", 0), Set(22, &[0x02]), "FAB-CMD-03 controller", 0), // PropertyGet, CID 0x0001: 0/01h Invalid Command Opcode
    case("linux-6.12/tcp-io-4k", (CMD, "Connect", 0), Set(9, &[0x00]), "FAB-CMD-08 host", 0), // Connect, CID 0x0000 with PSDT 0
    case("linux-6.12/tcp-io-4k", (CMD, "Connect", 0), Twice, "FAB-CMD-09 host", 1), // Connect, CID 0x0000 while a command with that CID is outstanding
    case("linux-6.12/tcp-io-4k", (CMD, "Connect", 0), Set(9, &[0x41]), "FAB-CMD-10 host", 0), // Connect, CID 0x0000 with 0x41 in byte 1
    case("spdk-26.09/16a-spdk-malformed-icreq", (CMD, "Connect", 0), Set(48, &[0x01]), "FAB-CONNECT-05 host", 1), // RECFMT 1
    case("linux-6.12/tcp-io-4k", (CMD, "Connect", 0), Set(54, &[0x01]), "FAB-CONNECT-10 host", 0), // priority class 1 on the Admin Queue
    case("linux-6.12/tcp-io-4k", (CMD, "Connect", 0), Set(54, &[0x20]), "FAB-CONNECT-12 host", 0), // Connect, CID 0x0000 with 0x20 in byte 46
    case("linux-6.12/tcp-io-4k", (CMD, "Connect", 1), Set(56, &[0x01]), "FAB-CONNECT-14 host", 0), // KATO 1 on an I/O queue
    case("linux-6.12/tcp-io-4k", (CMD, "Connect", 0), Set(90, &[0x01]), "FAB-CONNECT-17 host", 0), // Connect data with byte 18 set
    case("linux-6.12/tcp-io-4k", (RESP, "Connect", 0), Set(12, &[0x01]), "FAB-CONNECT-39 controller", 0), // Connect, CID 0x0000: DW1 0x1
    case("linux-6.12/tcp-io-4k", (RESP, "Connect", 0), Set(10, &[0x01]), "FAB-CONNECT-40 controller", 0), // AUTHREQ 0x0001
    case("spdk-26.09/10a-spdk-ana", (CMD, "PropertyGet", 6), Set(12, &[0xff]), "FAB-INIT-01 host", 6), // PropertySet, CID 0x0000: EN is set before CAP was read
    case("linux-6.12/tcp-io-4k", (CMD, "Identify", 0), Set(8, &[0x0e]), "FAB-INIT-04 host", 16), // Connect, CID 0x0000 without Identify Controller
    case("linux-6.12/tcp-io-4k", (CMD, "PropertyGet", 0), Set(52, &[0x04]), "FAB-PROP-01,RESET-30 host", 0), // PropertyGet, CID 0x0001 of 8 bytes at 0x4
    case("linux-6.12/tcp-io-4k", (CMD, "PropertySet", 0), Set(56, &[0x62]), "FAB-PROP-06,RESET-28 host", 0), // PropertySet, CID 0x1000: CC [62, 00, 46, 00], reserved in byte 0
    case("linux-6.12/tcp-io-4k", (CMD, "PropertySet", 0), Set(60, &[0x01]), "FAB-PROP-08 host", 0), // PropertySet, CID 0x1000 with 0x1 in bytes 55:52
    case("linux-6.12/tcp-io-4k", (RESP, "PropertyGet", 2), Set(12, &[0x01]), "FAB-PROP-09 controller", 0), // PropertyGet, CID 0x2001: DW0 0x1, DW1 0x1
    case("linux-6.12/tcp-io-4k", (RESP, "PropertySet", 0), Set(8, &[0x01]), "FAB-PROP-10 controller", 0), // PropertySet, CID 0x1000: DW0 0x1, DW1 0x0
    case("linux-6.12/tcp-io-4k", (CMD, "PropertyGet", 0), Set(13, &[0x01]), "FAB-PROP-11 host", 0), // PropertyGet, CID 0x0001 with 0x01 in byte 5
    case("spdk-26.09/10a-spdk-ana", (RESP, "PropertyGet", 6), Set(8, &[0x00]), "FAB-PROP-17 controller", 0), // PropertyGet, CID 0x0000 at 0x0: 0x80000201e010000: MQES 0
    case("linux-6.12/tcp-io-4k", (RESP, "PropertyGet", 0), Set(8, &[0x00]), "FAB-PROP-18 controller", 0), // PropertyGet, CID 0x0001 at 0x0: 0x8200f000300: CQR 0
    case("spdk-26.09/05c-spdk-write-128k-small-mdts", (RESP, "PropertyGet", 1), Set(12, &[0x21]), "FAB-PROP-19 controller", 0), // PropertyGet, CID 0x0000 at 0x0: 0x80000211e01007f: DSTRD 1
    case("spdk-26.09/05c-spdk-write-128k-small-mdts", (RESP, "PropertyGet", 1), Set(15, &[0x00]), "FAB-PROP-20,RESET-17 controller", 0), // PropertyGet, CID 0x0000 at 0x0: 0x201e01007f: CRWMS 0
    case("linux-6.12/tcp-discover-8009-referral", (RESP, "PropertyGet", 0), Set(10, &[0x01]), "FAB-PROP-23 controller", 0), // PropertyGet, CID 0x0001 at 0x0: 0x8200f0103ff: CSS of a discovery controller
    case("linux-6.12/tcp-discover-8009-referral", (CMD, "PropertySet", 0), Set(56, &[0x20]), "FAB-PROP-30,RESET-19 host", 0), // PropertySet, CID 0x1000: AMS 0, MPS 0, CSS 2
    case("spdk-26.09/16a-spdk-malformed-icreq", (CMD, "Connect", 0), Set(52, &[0x00]), "FAB-QUEUE-13 host", 1), // SQSIZE 0, one entry
    case("spdk-26.09/16a-spdk-malformed-icreq", (CMD, "Connect", 0), Set(53, &[0x10]), "FAB-QUEUE-14 host", 1), // Connect, CID 0x0001 of 4128 entries on the Admin Queue
    case("linux-6.12/tcp-io-4k", (CMD, "SetFeatures", 0), Set(8, &[0x08]), "FAB-QUEUE-18,FAB-INIT-05 host", 4), // Connect, CID 0x0000 without CAP.MQES and Number of Queues
    case("linux-6.12/tcp-io-4k", (RESP, "PropertyGet", 0), Set(23, &[0x02]), "FAB-STATUS-06 controller", 0), // PropertyGet, CID 0x0001: 1/00h Completion Queue Invalid
    case("spdk-26.09/11a-spdk-reservations", (C2H, "GetFeatures", 0), Set(24, &[0x00]), "HOSTID-03,ADM-FEAT-34,FAB-CONNECT-18 controller", 2), // GetFeatures, CID 0x0004: another Host Identifier
    case("linux-6.12/tcp-admin", (CMD, "Connect", 0), Set(57, &[0x00]), "KA-16,ADM-KA-12 host", 123), // KeepAlive, CID 0x3001 3956 ms after the one before
    case("linux-6.12/tcp-io-4k", (CMD, "Identify", 0), Set(9, &[0x41]), "NVM-FUSED-02,FAB-TRANS-16 host", 3), // GetLogPage, CID 0x000b behind CID 0x000a, the first half of a fused operation
    case("spdk-26.09/12-spdk-fused", (RESP, "Compare", 0), Set(22, &[0x02]), "NVM-FUSED-05,NVM-FUSED-06,FAB-TRANS-17 controller", 1), // Write, CID 0x0003 whose first half failed: 0/00h Successful Completion
    case("linux-6.12/tcp-io-misc", (CMD, "Compare", 0), Set(59, &[0x20]), "NVM-RW-19 host", 0), // Compare, CID 0x001e with PRACT
    case("linux-6.12/tcp-io-misc", (C2H, "Read", 6), Set(24, &[0x01]), "NVM-RW-20 controller", 1), // Read, CID 0x001d: block 16 of NSID 1 is not what was written last
    case("linux-6.12/tcp-io-misc", (CMD, "WriteZeroes", 0), Set(59, &[0x01]), "NVM-RW-21 host", 0), // WriteZeroes, CID 0x001a with PRCHK 000b, STC true
    case("spdk-26.09/09a-spdk-dissqfc-success", (C2H, "Identify", 3), Set(123, &[0x01]), "NVM-RW-38 controller", 20), // Write, CID 0x0000 to a namespace that is write protected: 0/00h Successful Completion
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 4), Set(55, &[0x01]), "RES-04 controller", 1), // Identify, CID 0x200b, NSID 1: RESCAP 0x01
    case("spdk-26.09/05c-spdk-write-128k-small-mdts", (CMD, "PropertySet", 0), Set(58, &[0x47]), "RESET-15 host", 33), // Connect, CID 0x0000 with IOSQES 7, IOCQES 4
    case("linux-6.12/tcp-io-4k", (RESP, "PropertyGet", 2), Set(8, &[0x05]), "RESET-24 controller", 0), // PropertyGet, CID 0x2001 at 0x1c: 0x5: SHST 1 without a shutdown
    case("linux-6.12/tcp-io-4k", (CMD, "Connect", 0), Set(44, &[0x01]), "SGL-16 host", 0), // Connect, CID 0x0000: bytes 14:12 of its SGL descriptor are set
    case("linux-6.12/tcp-io-4k", (CMD, "Identify", 0), Twice, "SQE-01 host", 1), // Identify, CID 0x000a while a command with that CID is outstanding
    case("linux-6.12/tcp-io-4k", (CMD, "Identify", 0), Set(9, &[0x00]), "SQE-04 host", 0), // Identify, CID 0x000a with PSDT 0
    case("linux-6.12/tcp-io-4k", (CMD, "Identify", 0), Set(9, &[0x44]), "SQE-11 host", 0), // Identify, CID 0x000a with 0x44 in byte 1
    case("linux-6.12/tcp-io-4k", (CMD, "Identify", 0), Set(12, &[0x01]), "SQE-13 host", 0), // Identify, CID 0x000a of CNS 01h with NSID 0x1
    case("linux-6.12/tcp-io-4k", (CMD, "Identify", 0), Set(24, &[0x01]), "SQE-19 host", 0), // Identify, CID 0x000a with MPTR 0x1
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 4), Set(152, &[0x01]), "SQE-20 controller", 1), // Identify, CID 0x200b, NSID 1: metadata in a buffer of its own
    case("linux-6.12/tcp-io-misc", (RESP, "Copy", 0), Set(22, &[0x22]), "SQE-30 controller", 0), // Copy, CID 0x0011: 0/11h SGL Descriptor Type Invalid, M, DNR
    case("spdk-26.09/06d-spdk-read-128k-many-c2h", (C2H, "Read", 0), Drop, "TCP-C2H-02 controller", 0), // C2HData for Read, CID 0x0000 with DATAO 4096
    case("spdk-26.09/06d-spdk-read-128k-many-c2h", (C2H, "Read", 0), Twice, "TCP-C2H-03 controller", 1), // C2HData for Read, CID 0x0000 with DATAO 0
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 0), Set(1, &[0x00]), "TCP-C2H-08 controller", 1), // Identify, CID 0x000a completed, no C2HData had LAST_PDU
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 0), Set(1, &[0x0c]), "TCP-C2H-11 controller", 1), // response for CID 0x000a after SUCCESS
    case("linux-6.12/tcp-connect-nosqflow", (C2H, "GetLogPage", 0), Set(1, &[0x08]), "TCP-C2H-14 controller", 0), // C2HData with SUCCESS but not LAST_PDU
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 0), Set(1, &[0x14]), "TCP-C2H-23 controller", 0), // C2HData with FLAGS 0x14
    case("linux-6.12/tcp-io-4k", (RESP, "Identify", 0), Swap, "TCP-C2H-30 controller", 0), // C2HData for CID 0x000b, which was not sent
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 0), Set(10, &[0x01]), "TCP-C2H-31 controller", 0), // C2HData with 0x01 in byte 10
    case("linux-6.12/tcp-io-4k", (CMD, "Connect", 0), Set(32, &[0x01]), "TCP-CAPSULE-10 host", 0), // Connect, CID 0x0000 with 1024 bytes in capsule, its SGL ends at 1025
    case("linux-6.12/tcp-io-4k", (CMD, "Connect", 0), Set(1, &[0x04]), "TCP-CAPSULE-14 host", 0), // CapsuleCmd with FLAGS 0x04
    case("linux-6.12/tcp-io-64k", (CMD, "Read", 6), Set(2, &[0x08]), "TCP-CAPSULE-15 host", 0), // CapsuleCmd with HLEN 8
    case("linux-6.12/tcp-io-4k", (RESP, "Connect", 0), Set(1, &[0x02]), "TCP-CAPSULE-25 controller", 0), // CapsuleResp with FLAGS 0x02
    case("linux-6.12/tcp-io-4k", (RESP, "AsyncEventRequest", 0), Set(2, &[0x08]), "TCP-CAPSULE-26 controller", 0), // CapsuleResp with HLEN 8
    case("linux-6.12/tcp-io-4k", (RESP, "Connect", 0), Set(3, &[0x01]), "TCP-CAPSULE-27 controller", 0), // CapsuleResp with PDO 1
    case("linux-6.12/tcp-io-4k", (C2H, "Identify", 0), Set(3, &[0x00]), "TCP-CH-05 controller", 0), // C2HData with data and PDO 0
    case("linux-6.12/tcp-io-4k", (CMD, "Connect", 0), Set(3, &[0x00]), "TCP-CH-05 host", 0), // CapsuleCmd with data and PDO 0
    case("spdk-26.09/16c-spdk-malformed-h2cdata", (H2C, "Connect", 22), Set(1, &[0x05]), "TCP-DGST-08 host", 0), // H2CData with HDGSTF 1
    case("linux-6.12/tcp-io-4k", (CMD, "PropertyGet", 0), Set(1, &[0x02]), "TCP-DGST-15 host", 0), // CapsuleCmd with DDGSTF 1
    case("linux-6.12/tcp-hdgst-ddgst", (C2H, "Read", 0), Raw(28, &[0xee, 0xee, 0xee, 0xee]), "TCP-DGST-16 controller", 0), // DDGST of C2HData
    case("spdk-26.09/07b-spdk-ddgst", (C2H, "Read", 0), Raw(24, &[0xee, 0xee, 0xee, 0xee]), "TCP-DGST-16 controller", 0), // DDGST of C2HData
    case("spdk-26.09/16e-spdk-malformed-term", (IC_RESP, "", 1), Set(11, &[0x01]), "TCP-DGST-18 controller", 0), // ICResp enables HDGST
    case("spdk-26.09/16c-spdk-malformed-h2cdata", (H2C, "Connect", 0), Set(12, &[0x04]), "TCP-H2C-07 host", 59), // H2CData for Connect, CID 0x0001 with DATAO 4
    case("linux-6.12/tcp-io-64k", (H2C, "Write", 0), Set(1, &[0x00]), "TCP-H2C-12 host", 0), // H2CData for Write, CID 0x0057 ends its R2T without LAST_PDU
    case("spdk-26.09/16c-spdk-malformed-h2cdata", (H2C, "Connect", 16), Set(1, &[0x04]), "TCP-H2C-13 host", 17), // LAST_PDU after 512 of 1024 bytes, Connect, CID 0x0001
    case("linux-6.12/tcp-io-64k", (H2C, "Write", 0), Set(1, &[0x0c]), "TCP-H2C-19 host", 0), // H2CData with FLAGS 0x0c
    case("spdk-26.09/16c-spdk-malformed-h2cdata", (H2C, "Connect", 0), Set(2, &[0x08]), "TCP-H2C-20 host", 0), // H2CData with HLEN 8
    case("spdk-26.09/05c-spdk-write-128k-small-mdts", (H2C, "Write", 0), Set(8, &[0x01]), "TCP-H2C-25 host", 0), // H2CData for Write, CID 0x0001 with TTAG 0x0002
    case("linux-6.12/tcp-io-64k", (H2C, "Write", 0), Set(20, &[0x01]), "TCP-H2C-29 host", 0), // H2CData with 0x01 in byte 20
    case("spdk-26.09/16e-spdk-malformed-term", (IC_REQ, "", 0), Drop, "TCP-ICREQ-01 host", 1), // the host starts with H2CTermReq
    case("linux-6.12/tcp-io-4k", (IC_REQ, "", 0), Set(1, &[0x01]), "TCP-ICREQ-03 host", 0), // ICReq with FLAGS 0x01
    case("spdk-26.09/16a-spdk-malformed-icreq", (IC_REQ, "", 4), Twice, "TCP-ICREQ-04 host", 1), // ICReq with HLEN 127
    case("spdk-26.09/16a-spdk-malformed-icreq", (IC_REQ, "", 7), Twice, "TCP-ICREQ-05 host", 1), // ICReq with PLEN 129
    case("linux-6.12/tcp-io-4k", (IC_REQ, "", 0), Set(3, &[0x01]), "TCP-ICREQ-06 host", 0), // ICReq with PDO 1
    case("spdk-26.09/16a-spdk-malformed-icreq", (IC_REQ, "", 0), Twice, "TCP-ICREQ-07 host", 1), // PFV 1
    case("spdk-26.09/16a-spdk-malformed-icreq", (IC_REQ, "", 0), Set(10, &[0x20]), "TCP-ICREQ-08 host", 4), // HPDA 32
    case("linux-6.12/tcp-io-4k", (IC_REQ, "", 0), Set(11, &[0x04]), "TCP-ICREQ-09 host", 0), // DGST 0x04
    case("linux-6.12/tcp-io-4k", (IC_REQ, "", 0), Set(16, &[0x01]), "TCP-ICREQ-13 host", 0), // ICReq with 0x01 in byte 16
    case("linux-6.12/tcp-io-4k", (IC_RESP, "", 0), Set(1, &[0x01]), "TCP-ICRESP-03 controller", 0), // ICResp with FLAGS 0x01
    case("linux-6.12/tcp-io-4k", (IC_RESP, "", 0), Set(3, &[0x01]), "TCP-ICRESP-06 controller", 0), // ICResp with PDO 1
    case("spdk-26.09/16e-spdk-malformed-term", (IC_RESP, "", 0), Set(8, &[0x01]), "TCP-ICRESP-07 controller", 0), // PFV 1
    case("spdk-26.09/16e-spdk-malformed-term", (IC_RESP, "", 1), Set(10, &[0x20]), "TCP-ICRESP-08 controller", 0), // CPDA 32
    case("linux-6.12/tcp-io-4k", (IC_RESP, "", 0), Set(11, &[0x04]), "TCP-ICRESP-09 controller", 0), // DGST 0x04
    case("linux-6.12/tcp-io-4k", (IC_RESP, "", 0), Set(12, &[0x01]), "TCP-ICRESP-12 controller", 0), // MAXH2CDATA 4194305
    case("linux-6.12/tcp-io-4k", (IC_RESP, "", 0), Set(14, &[0x00]), "TCP-ICRESP-13 controller", 0), // MAXH2CDATA 0
    case("linux-6.12/tcp-io-4k", (IC_RESP, "", 0), Set(16, &[0x01]), "TCP-ICRESP-14 controller", 0), // ICResp with 0x01 in byte 16
    case("spdk-26.09/16c-spdk-malformed-h2cdata", (H2C, "Connect", 22), Set(24, &[0x01]), "TCP-PAD-04 host", 0), // H2CData with 0x01 in byte 0 of PAD
    case("linux-6.12/tcp-io-64k", (R2T, "Write", 0), Set(1, &[0x02]), "TCP-R2T-13 controller", 0), // R2T with FLAGS 0x02
    case("linux-6.12/tcp-io-64k", (R2T, "Write", 0), Set(3, &[0x01]), "TCP-R2T-15 controller", 0), // R2T with PDO 1
    case("spdk-26.09/16c-spdk-malformed-h2cdata", (R2T, "Connect", 4), Set(8, &[0x00]), "TCP-R2T-18 controller", 0), // R2T for CID 0x0000, which was not sent
    case("linux-6.12/tcp-io-64k", (R2T, "Write", 0), Set(20, &[0x01]), "TCP-R2T-22 controller", 0), // R2T with 0x01 in byte 20
    case("linux-6.12/tcp-io-4k", (CMD, "Identify", 0), Set(47, &[0x00]), "TCP-SGL-04 host", 0), // Identify, CID 0x000a with SGL descriptor 00h
    case("linux-6.12/tcp-io-4k", (CMD, "Identify", 0), Set(47, &[0x52]), "TCP-SGL-05 host", 0), // Identify, CID 0x000a with SGL descriptor 52h
    case("spdk-26.09/16a-spdk-malformed-icreq", (C2H_TERM, "", 0), Twice, "TCP-TERM-01 controller", 1), // C2HTermReq after a terminate request
    case("spdk-26.09/16a-spdk-malformed-icreq", (C2H_TERM, "", 0), Set(8, &[0x03]), "TCP-TERM-04 controller", 0), // C2HTermReq with FES 03h, FEI 0x8
    case("spdk-26.09/16a-spdk-malformed-icreq", (H2C_TERM, "", 0), Set(8, &[0x03]), "TCP-TERM-16 host", 1), // H2CTermReq with FES 03h, FEI 0x0
    case("spdk-26.09/16a-spdk-malformed-icreq", (C2H_TERM, "", 11), Set(8, &[0x03]), "TCP-TERM-19 controller", 1), // C2HTermReq with FES 03h, FEI 0x0 in answer to an H2CTermReq
    case("spdk-26.09/16a-spdk-malformed-icreq", (H2C_TERM, "", 0), Set(1, &[0x01]), "TCP-TERM-26 host", 1), // H2CTermReq with FLAGS 0x01
    case("spdk-26.09/16a-spdk-malformed-icreq", (H2C_TERM, "", 0), Set(2, &[0x08]), "TCP-TERM-27 host", 1), // H2CTermReq with HLEN 8
    case("spdk-26.09/16a-spdk-malformed-icreq", (H2C_TERM, "", 0), Set(3, &[0x01]), "TCP-TERM-28 host", 1), // H2CTermReq with PDO 1
    case("spdk-26.09/16a-spdk-malformed-icreq", (H2C_TERM, "", 0), Set(8, &[0x00]), "TCP-TERM-30 host", 1), // H2CTermReq with FES 0x0000
    case("spdk-26.09/16e-spdk-malformed-term", (H2C_TERM, "", 0), Set(8, &[0x05]), "TCP-TERM-38 host", 0), // FEI 0x8 with FES 05h
    case("spdk-26.09/16a-spdk-malformed-icreq", (H2C_TERM, "", 0), Set(14, &[0x01]), "TCP-TERM-39 host", 1), // H2CTermReq with 0x01 in byte 14
    case("spdk-26.09/16a-spdk-malformed-icreq", (C2H_TERM, "", 0), Set(1, &[0x01]), "TCP-TERM-42 controller", 0), // C2HTermReq with FLAGS 0x01
    case("spdk-26.09/16a-spdk-malformed-icreq", (C2H_TERM, "", 0), Set(2, &[0x08]), "TCP-TERM-43 controller", 0), // C2HTermReq with HLEN 8
    case("spdk-26.09/16a-spdk-malformed-icreq", (C2H_TERM, "", 0), Set(3, &[0x01]), "TCP-TERM-44 controller", 0), // C2HTermReq with PDO 1
    case("spdk-26.09/16a-spdk-malformed-icreq", (C2H_TERM, "", 0), Set(8, &[0x00]), "TCP-TERM-46 controller", 0), // C2HTermReq with FES 0x0000
    case("spdk-26.09/16a-spdk-malformed-icreq", (C2H_TERM, "", 0), Set(10, &[0x00]), "TCP-TERM-50,TCP-TERM-05 controller", 0), // C2HTermReq with FES 01h, FEI 0x0
    case("spdk-26.09/16a-spdk-malformed-icreq", (C2H_TERM, "", 4), Set(8, &[0x05]), "TCP-TERM-54 controller", 0), // FEI 0x2 with FES 05h
    case("spdk-26.09/16a-spdk-malformed-icreq", (C2H_TERM, "", 0), Set(14, &[0x01]), "TCP-TERM-55 controller", 0), // C2HTermReq with 0x01 in byte 14
];
