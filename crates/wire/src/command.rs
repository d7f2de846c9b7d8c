//! The table of commands: name, code, layout, direction and data. Scripts, traces and the lint look commands up here.

use crate::admin;
use crate::authentication;
use crate::connect::{Connect, ConnectData, Disconnect};
use crate::layout::{Layout, Structure};
use crate::maintenance;
use crate::nvm;
use crate::property::{PropertyGet, PropertySet};
use crate::registration::{DiscoveryInformationManagement, RegistrationHeader};
use crate::reservation;
use crate::sqe::{Direction, FabricsType, IoOpcode, Opcode, Sqe};

/// Where a command may be submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// Fabrics command, told by FCTYPE.
    Fabrics(u8),
    /// Admin Queue.
    Admin(u8),
    /// I/O queue, NVM command set.
    Io(u8),
}

/// One command.
#[derive(Debug)]
pub struct CommandKind {
    /// Name in scripts and traces.
    pub name: &'static str,
    /// Queue and code.
    pub at: Where,
    /// Layout of its SQE.
    pub layout: &'static Layout,
    /// Layout of the data that the host sends, where it is one structure.
    pub data: Option<&'static Layout>,
}

macro_rules! commands {
    ($( $name:literal $at:ident($code:expr) $layout:ty $(, $data:ty)? ; )+) => {
        /// Every command with a layout.
        pub static COMMANDS: &[CommandKind] = &[$( CommandKind {
            name: $name,
            at: Where::$at($code.0),
            layout: <$layout as Structure>::LAYOUT,
            data: commands!(@data $($data)?),
        }, )+];
    };
    (@data) => { None };
    (@data $t:ty) => { Some(<$t as Structure>::LAYOUT) };
}

commands! {
    "Connect" Fabrics(FabricsType::CONNECT) Connect, ConnectData;
    "Disconnect" Fabrics(FabricsType::DISCONNECT) Disconnect;
    "PropertyGet" Fabrics(FabricsType::PROPERTY_GET) PropertyGet;
    "PropertySet" Fabrics(FabricsType::PROPERTY_SET) PropertySet;
    "AuthenticationSend" Fabrics(FabricsType::AUTHENTICATION_SEND) authentication::AuthenticationSend;
    "AuthenticationReceive" Fabrics(FabricsType::AUTHENTICATION_RECEIVE) authentication::AuthenticationReceive;
    "Identify" Admin(Opcode::IDENTIFY) admin::Identify;
    "GetLogPage" Admin(Opcode::GET_LOG_PAGE) admin::GetLogPage;
    "SetFeatures" Admin(Opcode::SET_FEATURES) admin::SetFeatures;
    "GetFeatures" Admin(Opcode::GET_FEATURES) admin::GetFeatures;
    "Abort" Admin(Opcode::ABORT) admin::Abort;
    "KeepAlive" Admin(Opcode::KEEP_ALIVE) admin::KeepAlive;
    "AsyncEventRequest" Admin(Opcode::ASYNC_EVENT_REQUEST) admin::AsyncEventRequest;
    "NamespaceManagement" Admin(Opcode::NAMESPACE_MANAGEMENT) admin::NamespaceManagement, admin::NamespaceCreate;
    "NamespaceAttachment" Admin(Opcode::NAMESPACE_ATTACHMENT) admin::NamespaceAttachment;
    "DiscoveryInformationManagement" Admin(Opcode::DISCOVERY_INFORMATION_MANAGEMENT) DiscoveryInformationManagement, RegistrationHeader;
    "FirmwareCommit" Admin(Opcode::FIRMWARE_COMMIT) maintenance::FirmwareCommit;
    "FirmwareDownload" Admin(Opcode::FIRMWARE_DOWNLOAD) maintenance::FirmwareDownload;
    "DeviceSelfTest" Admin(Opcode::DEVICE_SELF_TEST) maintenance::DeviceSelfTest;
    "DirectiveSend" Admin(Opcode::DIRECTIVE_SEND) maintenance::DirectiveSend;
    "DirectiveReceive" Admin(Opcode::DIRECTIVE_RECEIVE) maintenance::DirectiveReceive;
    "CapacityManagement" Admin(Opcode::CAPACITY_MANAGEMENT) maintenance::CapacityManagement;
    "Lockdown" Admin(Opcode::LOCKDOWN) maintenance::Lockdown;
    "FormatNvm" Admin(Opcode::FORMAT_NVM) maintenance::FormatNvm;
    "SecuritySend" Admin(Opcode::SECURITY_SEND) maintenance::SecuritySend;
    "SecurityReceive" Admin(Opcode::SECURITY_RECEIVE) maintenance::SecurityReceive;
    "Sanitize" Admin(Opcode::SANITIZE) maintenance::Sanitize;
    "GetLbaStatus" Admin(Opcode::GET_LBA_STATUS) maintenance::GetLbaStatus;
    "Read" Io(IoOpcode::READ) nvm::Read;
    "Write" Io(IoOpcode::WRITE) nvm::Write;
    "Flush" Io(IoOpcode::FLUSH) nvm::Flush;
    "WriteUncorrectable" Io(IoOpcode::WRITE_UNCORRECTABLE) nvm::WriteUncorrectable;
    "Compare" Io(IoOpcode::COMPARE) nvm::Compare;
    "WriteZeroes" Io(IoOpcode::WRITE_ZEROES) nvm::WriteZeroes;
    "DatasetManagement" Io(IoOpcode::DATASET_MANAGEMENT) nvm::DatasetManagement;
    "Verify" Io(IoOpcode::VERIFY) nvm::Verify;
    "Copy" Io(IoOpcode::COPY) nvm::Copy;
    "IoManagementReceive" Io(IoOpcode::IO_MANAGEMENT_RECEIVE) nvm::IoManagementReceive;
    "IoManagementSend" Io(IoOpcode::IO_MANAGEMENT_SEND) nvm::IoManagementSend;
    "ReservationRegister" Io(IoOpcode::RESERVATION_REGISTER) reservation::ReservationRegister, reservation::RegisterData;
    "ReservationReport" Io(IoOpcode::RESERVATION_REPORT) reservation::ReservationReport;
    "ReservationAcquire" Io(IoOpcode::RESERVATION_ACQUIRE) reservation::ReservationAcquire, reservation::AcquireData;
    "ReservationRelease" Io(IoOpcode::RESERVATION_RELEASE) reservation::ReservationRelease, reservation::ReleaseData;
}

impl CommandKind {
    /// The command of that name.
    pub fn named(name: &str) -> Option<&'static CommandKind> {
        COMMANDS.iter().find(|c| c.name == name)
    }

    /// What an SQE on an Admin (`admin`) or I/O queue is, where the table has it.
    pub fn of(sqe: &Sqe, admin: bool) -> Option<&'static CommandKind> {
        let at = match sqe.fctype() {
            Some(f) => Where::Fabrics(f.0),
            None if admin => Where::Admin(sqe.opc().0),
            None => Where::Io(sqe.opc().0),
        };
        COMMANDS.iter().find(|c| c.at == at)
    }

    /// The layout to read an SQE with: the command's own, or the common one.
    pub fn layout_of(sqe: &Sqe, admin: bool) -> &'static Layout {
        Self::of(sqe, admin).map_or(Sqe::LAYOUT, |c| c.layout)
    }

    /// An SQE with opcode, FCTYPE and PSDT (01b: SGL) filled in. [SQE-04, SQE-05]
    pub fn sqe(&self) -> Sqe {
        let opc = match self.at {
            Where::Fabrics(_) => Opcode::FABRICS,
            Where::Admin(o) | Where::Io(o) => Opcode(o),
        };
        let mut b = *Sqe::new().with(|s| s.opc(opc).psdt(1)).as_bytes();
        if let Where::Fabrics(f) = self.at {
            b[4] = f;
        }
        Sqe::from_bytes(b)
    }

    /// Direction of the command's data; [`Direction::None`] for those whose code says so.
    pub fn direction(&self) -> Direction {
        match self.at {
            Where::Fabrics(c) | Where::Admin(c) | Where::Io(c) => Direction::of_bits(c),
        }
    }
}
