//! Every table of this crate in one list: for property tests, vector coverage and anything that looks a structure up by name.

use crate::layout::{Layout, Structure};
use crate::{admin, connect, cqe, identify, log, nvm, property, sgl, sqe, tcp};

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
    property::PropertyGet, property::PropertySet,
    property::Cap, property::Vs, property::Cc, property::Csts, property::Crto,
    admin::Identify, admin::GetLogPage, admin::SetFeatures, admin::GetFeatures, admin::Abort, admin::KeepAlive,
    admin::AsyncEventRequest,
    nvm::Read, nvm::Write, nvm::Flush,
    cqe::Cqe, cqe::ConnectResponse, cqe::ConnectInvalid, cqe::PropertyGetResponse, cqe::AsyncEventResponse, cqe::QueuesGranted,
    sgl::SglDescriptor, sgl::SglKeyed,
    identify::IdentifyController, identify::PowerState,
    identify::IdentifyNamespace, identify::LbaFormat, identify::IdentifyNamespaceNvm, identify::ExtendedLbaFormat,
    identify::IdentifyControllerNvm, identify::IdentifyNamespaceIndependent, identify::NamespaceDescriptor,
    log::DiscoveryHeader, log::DiscoveryEntry, log::TsasTcp, log::TsasRdma,
    log::ErrorEntry, log::Smart, log::FirmwareSlots,
    log::SupportedLogPage, log::CommandEffects, log::FeatureEffects,
    log::AnaHeader, log::AnaGroup,
}

/// The table of that name.
pub fn named(name: &str) -> Option<&'static Layout> {
    LAYOUTS.iter().copied().find(|l| l.name == name)
}
