//! Submission Queue Entry (SQE), 64 bytes: the part that all commands share. [Base 2.0, 3.3.3.1, Figures 86 and 87]

use crate::open::{Cid, Nsid};
use crate::sgl::SglDescriptor;

layout! {
    /// Submission Queue Entry (SQE), common fields. [Base 2.0, 3.3.3.1]
    pub struct Sqe[64] {
        opc: Opcode @ 0 "Opcode (OPC)" = "nvme.cmd.opc",
        fuse: u8 @ 1 [1:0] "Fused Operation (FUSE): 0 normal, 1 first, 2 second" = "nvme.cmd.fuse_op",
        psdt: u8 @ 1 [7:6] "PRP or SGL for Data Transfer (PSDT): 1 is SGL" = "nvme.cmd.psdt",
        cid: Cid @ 2 "Command Identifier (CID)" = "nvme.cmd.cid",
        nsid: Nsid @ 4 "Namespace Identifier (NSID)" = "nvme.cmd.nsid",
        cdw2: u32 @ 8 "Command Dword 2",
        cdw3: u32 @ 12 "Command Dword 3",
        mptr: u64 @ 16 "Metadata Pointer (MPTR)" = "nvme.cmd.mptr",
        sgl1_addr: u64 @ 24 "SGL Descriptor 1: address or offset, bytes" = "nvme.cmd.sgl1.addr",
        sgl1_len: u32 @ 32 "SGL Descriptor 1: length, bytes" = "nvme.cmd.sgl1.len",
        sgl1_rest: u32 @ 36 [23:0] "SGL Descriptor 1: bytes 14:12",
        sgl1_sub: u8 @ 39 [3:0] "SGL Descriptor 1: sub type" = "nvme.cmd.sgl.subtype",
        sgl1_type: u8 @ 39 [7:4] "SGL Descriptor 1: type" = "nvme.cmd.sgl.type",
        cdw10: u32 @ 40 "Command Dword 10" = "nvme.cmd.dword10",
        cdw11: u32 @ 44 "Command Dword 11" = "nvme.cmd.dword11",
        cdw12: u32 @ 48 "Command Dword 12" = "nvme.cmd.dword12",
        cdw13: u32 @ 52 "Command Dword 13" = "nvme.cmd.dword13",
        cdw14: u32 @ 56 "Command Dword 14" = "nvme.cmd.dword14",
        cdw15: u32 @ 60 "Command Dword 15" = "nvme.cmd.dword15",
    }

    /// Fabrics command, common fields: bytes 23:5 are reserved. [Base 2.0, 3.3.3.1, Figure 80]
    pub struct FabricsSqe[64] {
        opc: Opcode @ 0 "Opcode (OPC): 7Fh" = "nvme.fabrics.cmd.opc",
        psdt: u8 @ 1 [7:6] "PRP or SGL for Data Transfer (PSDT): should be 1, may be 0",
        cid: Cid @ 2 "Command Identifier (CID)" = "nvme.fabrics.cmd.cid",
        fctype: FabricsType @ 4 "Fabrics Command Type (FCTYPE)" = "nvme.fabrics.cmd.fctype",
        sgl1_addr: u64 @ 24 "SGL Descriptor 1: address or offset, bytes",
        sgl1_len: u32 @ 32 "SGL Descriptor 1: length, bytes",
        sgl1_rest: u32 @ 36 [23:0] "SGL Descriptor 1: bytes 14:12",
        sgl1_sub: u8 @ 39 [3:0] "SGL Descriptor 1: sub type",
        sgl1_type: u8 @ 39 [7:4] "SGL Descriptor 1: type",
    }
}

impl Sqe {
    /// The first SGL descriptor, bytes 39:24.
    pub fn sgl1(&self) -> SglDescriptor {
        SglDescriptor::read(&self.as_bytes()[24..]).unwrap_or_default()
    }

    /// Puts `sgl` into bytes 39:24.
    #[must_use]
    pub fn with_sgl1(self, sgl: SglDescriptor) -> Self {
        let mut b = *self.as_bytes();
        b[24..40].copy_from_slice(sgl.as_bytes());
        Self::from_bytes(b)
    }

    /// FCTYPE, byte 4, where the opcode is that of a Fabrics command.
    pub fn fctype(&self) -> Option<FabricsType> {
        (self.opc() == Opcode::FABRICS).then(|| FabricsType(self.as_bytes()[4]))
    }
}

open_enum! {
    /// Opcode (OPC) of an admin command or, from 00h on, of the NVM command set; which one is decided by the queue. Named here are
    /// the admin ones; see [`IoOpcode`]. [Base 2.0, 5, Figure 138; 22h, 25h to 45h: later]
    pub struct Opcode(u8) {
        DELETE_IO_SQ = 0x00 "Delete I/O Submission Queue",
        CREATE_IO_SQ = 0x01 "Create I/O Submission Queue",
        GET_LOG_PAGE = 0x02 "Get Log Page",
        DELETE_IO_CQ = 0x04 "Delete I/O Completion Queue",
        CREATE_IO_CQ = 0x05 "Create I/O Completion Queue",
        IDENTIFY = 0x06 "Identify",
        ABORT = 0x08 "Abort",
        SET_FEATURES = 0x09 "Set Features",
        GET_FEATURES = 0x0a "Get Features",
        ASYNC_EVENT_REQUEST = 0x0c "Asynchronous Event Request",
        NAMESPACE_MANAGEMENT = 0x0d "Namespace Management",
        FIRMWARE_COMMIT = 0x10 "Firmware Commit",
        FIRMWARE_DOWNLOAD = 0x11 "Firmware Image Download",
        DEVICE_SELF_TEST = 0x14 "Device Self-test",
        NAMESPACE_ATTACHMENT = 0x15 "Namespace Attachment",
        KEEP_ALIVE = 0x18 "Keep Alive",
        DIRECTIVE_SEND = 0x19 "Directive Send",
        DIRECTIVE_RECEIVE = 0x1a "Directive Receive",
        VIRTUALIZATION_MANAGEMENT = 0x1c "Virtualization Management",
        MI_SEND = 0x1d "NVMe-MI Send",
        MI_RECEIVE = 0x1e "NVMe-MI Receive",
        CAPACITY_MANAGEMENT = 0x20 "Capacity Management",
        DISCOVERY_INFORMATION_MANAGEMENT = 0x21 "Discovery Information Management",
        FABRIC_ZONING_RECEIVE = 0x22 "Fabric Zoning Receive",
        LOCKDOWN = 0x24 "Lockdown",
        FABRIC_ZONING_LOOKUP = 0x25 "Fabric Zoning Lookup",
        CLEAR_EXPORTED = 0x28 "Clear Exported NVM Resource Configuration",
        FABRIC_ZONING_SEND = 0x29 "Fabric Zoning Send",
        CREATE_EXPORTED_SUBSYSTEM = 0x2a "Create Exported NVM Subsystem",
        MANAGE_EXPORTED_SUBSYSTEM = 0x2d "Manage Exported NVM Subsystem",
        MANAGE_EXPORTED_NAMESPACE = 0x31 "Manage Exported Namespace",
        MANAGE_EXPORTED_PORT = 0x35 "Manage Exported Port",
        CROSS_CONTROLLER_RESET = 0x38 "Cross-Controller Reset",
        SEND_DISCOVERY_LOG_PAGE = 0x39 "Send Discovery Log Page",
        TRACK_SEND = 0x3d "Track Send",
        TRACK_RECEIVE = 0x3e "Track Receive",
        MIGRATION_SEND = 0x41 "Migration Send",
        MIGRATION_RECEIVE = 0x42 "Migration Receive",
        CONTROLLER_DATA_QUEUE = 0x45 "Controller Data Queue",
        DOORBELL_BUFFER_CONFIG = 0x7c "Doorbell Buffer Config",
        FABRICS = 0x7f "Fabrics Commands",
        FORMAT_NVM = 0x80 "Format NVM",
        SECURITY_SEND = 0x81 "Security Send",
        SECURITY_RECEIVE = 0x82 "Security Receive",
        SANITIZE = 0x84 "Sanitize",
        GET_LBA_STATUS = 0x86 "Get LBA Status",
    }
    /// Opcode of an I/O command of the NVM and Zoned Namespace command sets. [NVM Command Set 1.0, 3; 12h, 18h, 1Dh: Base 2.1, 7]
    pub struct IoOpcode(u8) {
        FLUSH = 0x00 "Flush",
        WRITE = 0x01 "Write",
        READ = 0x02 "Read",
        WRITE_UNCORRECTABLE = 0x04 "Write Uncorrectable",
        COMPARE = 0x05 "Compare",
        WRITE_ZEROES = 0x08 "Write Zeroes",
        DATASET_MANAGEMENT = 0x09 "Dataset Management",
        VERIFY = 0x0c "Verify",
        RESERVATION_REGISTER = 0x0d "Reservation Register",
        RESERVATION_REPORT = 0x0e "Reservation Report",
        RESERVATION_ACQUIRE = 0x11 "Reservation Acquire",
        IO_MANAGEMENT_RECEIVE = 0x12 "I/O Management Receive",
        RESERVATION_RELEASE = 0x15 "Reservation Release",
        CANCEL = 0x18 "Cancel",
        COPY = 0x19 "Copy",
        IO_MANAGEMENT_SEND = 0x1d "I/O Management Send",
        ZONE_MANAGEMENT_SEND = 0x79 "Zone Management Send",
        ZONE_MANAGEMENT_RECEIVE = 0x7a "Zone Management Receive",
        ZONE_APPEND = 0x7d "Zone Append",
        FABRICS = 0x7f "Fabrics Commands",
    }
    /// Fabrics Command Type (FCTYPE), byte 4; bits 1:0 give the direction of data. [Base 2.0, 6, Figure 375]
    pub struct FabricsType(u8) {
        PROPERTY_SET = 0x00 "Property Set",
        CONNECT = 0x01 "Connect",
        PROPERTY_GET = 0x04 "Property Get",
        AUTHENTICATION_SEND = 0x05 "Authentication Send",
        AUTHENTICATION_RECEIVE = 0x06 "Authentication Receive",
        DISCONNECT = 0x08 "Disconnect",
    }
}

/// Direction of a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// No data.
    None,
    /// Host to controller: in capsule, or R2T and H2CData.
    HostToController,
    /// Controller to host: C2HData.
    ControllerToHost,
    /// Both ways.
    Both,
}

impl Direction {
    /// What bits 1:0 of an opcode or FCTYPE say. [Base 2.0, 3.3.3.1; FAB-CMD-06]
    pub fn of_bits(code: u8) -> Self {
        match code & 3 {
            0 => Self::None,
            1 => Self::HostToController,
            2 => Self::ControllerToHost,
            _ => Self::Both,
        }
    }

    /// Of a whole SQE.
    pub fn of(sqe: &Sqe) -> Self {
        Self::of_bits(sqe.fctype().map_or(sqe.opc().0, |f| f.0))
    }
}
