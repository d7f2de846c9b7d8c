//! Every table of this crate in one list: for property tests, vector coverage and anything that looks a structure up by name.

use crate::authentication::message;
use crate::layout::{Layout, Structure};
use crate::{
    admin, authentication, cm, connect, cqe, feature, identify, log, maintenance, nvm, property, rdma, registration, reservation,
    roce, sgl, sqe, tcp,
};

macro_rules! layouts {
    ($($t:ty),+ $(,)?) => {
        /// Every table, in the order of the modules.
        pub static LAYOUTS: &[&Layout] = &[$(<$t as Structure>::LAYOUT),+];
    };
}

layouts! {
    tcp::PduHead, tcp::IcReq, tcp::IcResp, tcp::TermReq, tcp::CapsuleCmd, tcp::CapsuleResp, tcp::H2cData, tcp::C2hData, tcp::R2t,
    roce::Bth, roce::Deth, roce::Reth, roce::AtomicEth, roce::Aeth, roce::AtomicAckEth, roce::ImmDt, roce::Ieth,
    cm::Mad, cm::CmReq, cm::CmMra, cm::CmRej, cm::CmRep, cm::CmRtu, cm::CmDreq, cm::CmDrep, cm::IpCm,
    rdma::RdmaRequest, rdma::RdmaAccept, rdma::RdmaReject,
    sqe::Sqe, sqe::FabricsSqe,
    connect::Connect, connect::ConnectData, connect::Disconnect,
    authentication::AuthenticationSend, authentication::AuthenticationReceive,
    message::AuthMessage, message::AuthNegotiate, message::AuthDescriptor, message::DhchapChallenge, message::DhchapReply,
    message::DhchapSuccess1, message::DhchapSuccess2, message::AuthFailure,
    property::PropertyGet, property::PropertySet,
    property::Cap, property::Vs, property::Cc, property::Csts, property::Nssr, property::Nssd, property::Crto,
    admin::Identify, admin::GetLogPage, admin::SetFeatures, admin::GetFeatures, admin::Abort, admin::KeepAlive,
    admin::AsyncEventRequest, admin::NamespaceManagement, admin::NamespaceCreate, admin::NamespaceAttachment,
    maintenance::FirmwareCommit, maintenance::FirmwareDownload, maintenance::DeviceSelfTest, maintenance::DirectiveSend,
    maintenance::DirectiveReceive, maintenance::CapacityManagement, maintenance::Lockdown, maintenance::FormatNvm,
    maintenance::SecuritySend, maintenance::SecurityReceive, maintenance::Sanitize, maintenance::GetLbaStatus,
    feature::Arbitration, feature::PowerManagement, feature::LbaRangeTypes, feature::TemperatureThreshold, feature::ErrorRecovery,
    feature::VolatileWriteCache, feature::NumberOfQueues, feature::WriteAtomicity, feature::AsyncEventConfig,
    feature::AutonomousPower, feature::PowerTransition, feature::Timestamp, feature::KeepAliveTimer, feature::ThermalManagement,
    feature::NonOperationalPower, feature::OfNvmSet, feature::LbaStatusAttributes, feature::HostBehavior, feature::SanitizeConfig,
    feature::EnduranceGroupEvents, feature::CommandSetProfile, feature::SpinupControl, feature::Placement,
    feature::PlacementSettings, feature::PlacementEvents, feature::SoftwareProgress, feature::HostIdentifierSize,
    feature::ReservationMask, feature::ReservationPersistence, feature::WriteProtection,
    registration::DiscoveryInformationManagement, registration::RegistrationHeader, registration::RegistrationEntry,
    nvm::Read, nvm::Write, nvm::Flush, nvm::Compare, nvm::Verify, nvm::WriteUncorrectable, nvm::WriteZeroes,
    nvm::DatasetManagement, nvm::DatasetRange,
    nvm::IoManagementReceive, nvm::IoManagementSend,
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
    log::SelfTestHead, log::SelfTestResult, log::TelemetryHead, log::EnduranceGroup, log::EventAggregate,
    log::LbaStatusHead, log::LbaStatusElement, log::LbaStatusRange, log::LockdownHead, log::SanitizeStatus,
    log::PersistentEventHead, log::PersistentEvent,
    log::PlacementConfigurationsHead, log::PlacementConfiguration, log::ReclaimUnitHandle, log::HandleUsageHead, log::HandleUsage,
    log::PlacementStatistics, log::PlacementEventsHead, log::PlacementEvent, log::HandleStatusHead, log::HandleStatus,
    log::ReachabilityHead, log::ReachabilityGroup, log::ReachabilityAssociation, log::DispersedHead,
    log::AnaHeader, log::AnaGroup, log::ReservationNotification,
}

/// The table of that name.
pub fn named(name: &str) -> Option<&'static Layout> {
    LAYOUTS.iter().copied().find(|l| l.name == name)
}
