//! Every table of this crate in one list: for property tests, vector coverage and anything that looks a structure up by name.

use crate::layout::{Layout, Structure};
use crate::{admin, authentication, connect, cqe, identify, log, nvm, property, registration, reservation, sgl, sqe, tcp};

macro_rules! layouts {
    ($($t:ty),+ $(,)?) => {
        /// Every table, in the order of the modules.
        pub static LAYOUTS: &[&Layout] = &[$(<$t as Structure>::LAYOUT),+];
    };
}

layouts! {
    tcp::PduHead, tcp::IcReq, tcp::IcResp, tcp::TermReq, tcp::CapsuleCmd, tcp::CapsuleResp, tcp::H2cData, tcp::C2hData, tcp::R2t,
    sqe::Sqe, sqe::FabricsSqe,
    connect::Connect, connect::ConnectData, connect::Disconnect,
    authentication::AuthenticationSend, authentication::AuthenticationReceive,
    property::PropertyGet, property::PropertySet,
    property::Cap, property::Vs, property::Cc, property::Csts, property::Nssr, property::Nssd, property::Crto,
    admin::Identify, admin::GetLogPage, admin::SetFeatures, admin::GetFeatures, admin::Abort, admin::KeepAlive,
    admin::AsyncEventRequest, admin::NamespaceManagement, admin::NamespaceCreate, admin::NamespaceAttachment,
    registration::DiscoveryInformationManagement, registration::RegistrationHeader, registration::RegistrationEntry,
    nvm::Read, nvm::Write, nvm::Flush, nvm::Compare, nvm::Verify, nvm::WriteUncorrectable, nvm::WriteZeroes,
    nvm::DatasetManagement, nvm::DatasetRange,
    nvm::Copy, nvm::CopyRange0, nvm::CopyRange1, nvm::CopyRange2, nvm::CopyRange3,
    reservation::ReservationRegister, reservation::ReservationReport, reservation::ReservationAcquire,
    reservation::ReservationRelease, reservation::RegisterData, reservation::AcquireData, reservation::ReleaseData,
    reservation::ReservationStatus, reservation::RegisteredController,
    reservation::ReservationStatusExtended, reservation::RegisteredControllerExtended,
    cqe::Cqe, cqe::ConnectResponse, cqe::ConnectInvalid, cqe::PropertyGetResponse, cqe::AsyncEventResponse, cqe::QueuesGranted,
    cqe::CopyFailed, cqe::NamespaceCreated,
    sgl::SglDescriptor, sgl::SglKeyed,
    identify::IdentifyController, identify::PowerState,
    identify::IdentifyNamespace, identify::LbaFormat, identify::IdentifyNamespaceNvm, identify::ExtendedLbaFormat,
    identify::IdentifyControllerNvm, identify::IdentifyNamespaceIndependent, identify::NamespaceDescriptor,
    identify::CommandSetVector, identify::ControllerListHead, identify::PrimaryController, identify::SecondaryController,
    identify::NvmSet, identify::NamespaceGranularityHead, identify::NamespaceGranularity, identify::UuidEntry, identify::Domain,
    log::DiscoveryHeader, log::DiscoveryEntry, log::TsasTcp, log::TsasRdma,
    log::ExtendedDiscoveryEntry, log::ExtendedAttributeHead, log::HostDiscoveryHeader, log::HostDiscoveryEntry,
    log::AveDiscoveryHeader, log::AveDiscoveryEntry, log::AveTransportRecord, log::PullModelRequest,
    log::ErrorEntry, log::Smart, log::FirmwareSlots,
    log::SupportedLogPage, log::CommandEffects, log::FeatureEffects,
    log::AnaHeader, log::AnaGroup, log::ReservationNotification,
}

/// The table of that name.
pub fn named(name: &str) -> Option<&'static Layout> {
    LAYOUTS.iter().copied().find(|l| l.name == name)
}
