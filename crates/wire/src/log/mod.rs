//! Log pages, read with Get Log Page. [Base 2.0, 5.16.1]
//!
//! [`discovery`] is the page that every host of a fabric reads first; [`health`] holds the error log, SMART and the firmware slots;
//! [`effects`] the pages about commands, features and log pages; [`ana`] the states of ANA groups; [`reservation`] what became of
//! reservations; [`cdc`] the pages of centralized and direct discovery controllers, [`extended`] their entries with attributes. The
//! changed namespace lists (04h, 1Ch) are namespace lists: see [`crate::identify::read_namespace_list`]. [`endurance`], [`persistent`] and
//! [`placement`] hold what devices behind a fabric may pass on, [`reachability`] what reaches what.

pub mod ana;
pub mod cdc;
pub mod discovery;
pub mod effects;
pub mod endurance;
pub mod extended;
pub mod health;
pub mod persistent;
pub mod placement;
pub mod reachability;
pub mod reservation;

pub use ana::{AnaGroup, AnaGroups, AnaHeader, AnaState, read_ana};
pub use cdc::{
    AveDiscoveryEntry, AveDiscoveryHeader, AveTransportRecord, HostDiscoveryEntry, HostDiscoveryHeader, PullModelRequest, read_ave,
};
pub use discovery::{
    AddressFamily, DiscoveryEntry, DiscoveryHeader, RdmaProvider, SubsystemType, TransportType, TsasRdma, TsasTcp,
};
pub use effects::{CommandEffects, FeatureEffects, SupportedLogPage};
pub use endurance::{
    EnduranceGroup, EventAggregate, LbaStatusElement, LbaStatusHead, LbaStatusRange, LockdownHead, SanitizeStatus, SelfTestHead,
    SelfTestResult, TelemetryHead,
};
pub use extended::{ExtendedAttribute, ExtendedAttributeHead, ExtendedDiscoveryEntry, read_attributes, read_extended_entries};
pub use health::{ErrorEntry, FirmwareSlots, Smart};
pub use persistent::{PersistentEvent, PersistentEventHead};
pub use placement::{
    HandleStatus, HandleStatusHead, HandleUsage, HandleUsageHead, PlacementConfiguration, PlacementConfigurationsHead,
    PlacementEvent, PlacementEventsHead, PlacementStatistics, ReclaimUnitHandle,
};
pub use reachability::{DispersedHead, ReachabilityAssociation, ReachabilityGroup, ReachabilityHead};
pub use reservation::ReservationNotification;

use crate::admin::LogPage;
use crate::layout::{Layout, Structure};

/// The tables of a log page: its head, and the entries of one size that follow. Entries of variable length are in none: they are read
/// by what their module has. `None` for pages that are not here and for namespace lists.
pub fn page_layouts(lid: LogPage) -> Option<(Option<&'static Layout>, Option<&'static Layout>)> {
    Some(match lid {
        LogPage::SUPPORTED => (None, Some(SupportedLogPage::LAYOUT)),
        LogPage::ERROR => (None, Some(ErrorEntry::LAYOUT)),
        LogPage::SMART => (Some(Smart::LAYOUT), None),
        LogPage::FIRMWARE_SLOT => (Some(FirmwareSlots::LAYOUT), None),
        LogPage::COMMAND_EFFECTS => (None, Some(CommandEffects::LAYOUT)),
        LogPage::SELF_TEST => (Some(SelfTestHead::LAYOUT), Some(SelfTestResult::LAYOUT)),
        LogPage::TELEMETRY_HOST | LogPage::TELEMETRY_CONTROLLER => (Some(TelemetryHead::LAYOUT), None),
        LogPage::ENDURANCE_GROUP => (Some(EnduranceGroup::LAYOUT), None),
        LogPage::PREDICTABLE_LATENCY_EVENTS | LogPage::ENDURANCE_GROUP_EVENTS => (Some(EventAggregate::LAYOUT), None),
        LogPage::ANA => (Some(AnaHeader::LAYOUT), None),
        LogPage::PERSISTENT_EVENTS => (Some(PersistentEventHead::LAYOUT), None),
        LogPage::LBA_STATUS => (Some(LbaStatusHead::LAYOUT), None),
        LogPage::FEATURE_EFFECTS => (None, Some(FeatureEffects::LAYOUT)),
        LogPage::LOCKDOWN => (Some(LockdownHead::LAYOUT), None),
        LogPage::DISPERSED_NAMESPACE => (Some(DispersedHead::LAYOUT), None),
        LogPage::REACHABILITY_GROUPS | LogPage::REACHABILITY_ASSOCIATIONS => (Some(ReachabilityHead::LAYOUT), None),
        LogPage::PLACEMENT_CONFIGURATIONS => (Some(PlacementConfigurationsHead::LAYOUT), None),
        LogPage::HANDLE_USAGE => (Some(HandleUsageHead::LAYOUT), Some(HandleUsage::LAYOUT)),
        LogPage::PLACEMENT_STATISTICS => (Some(PlacementStatistics::LAYOUT), None),
        LogPage::PLACEMENT_EVENTS => (Some(PlacementEventsHead::LAYOUT), Some(PlacementEvent::LAYOUT)),
        LogPage::DISCOVERY => (Some(DiscoveryHeader::LAYOUT), Some(DiscoveryEntry::LAYOUT)),
        LogPage::HOST_DISCOVERY => (Some(HostDiscoveryHeader::LAYOUT), None),
        LogPage::AVE_DISCOVERY => (Some(AveDiscoveryHeader::LAYOUT), None),
        LogPage::PULL_MODEL_DDC_REQUEST => (Some(PullModelRequest::LAYOUT), None),
        LogPage::RESERVATION => (Some(ReservationNotification::LAYOUT), None),
        LogPage::SANITIZE => (Some(SanitizeStatus::LAYOUT), None),
        _ => return None,
    })
}
