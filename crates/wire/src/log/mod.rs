//! Log pages, read with Get Log Page. [Base 2.0, 5.16.1]
//!
//! [`discovery`] is the page that every host of a fabric reads first; [`health`] holds the error log, SMART and the firmware slots;
//! [`effects`] the pages about commands, features and log pages; [`ana`] the states of ANA groups; [`reservation`] what became of
//! reservations; [`cdc`] the pages of centralized and direct discovery controllers, [`extended`] their entries with attributes. The
//! changed namespace list (04h) is a namespace list: see [`crate::identify::read_namespace_list`].

pub mod ana;
pub mod cdc;
pub mod discovery;
pub mod effects;
pub mod extended;
pub mod health;
pub mod reservation;

pub use ana::{AnaGroup, AnaGroups, AnaHeader, AnaState, read_ana};
pub use cdc::{
    AveDiscoveryEntry, AveDiscoveryHeader, AveTransportRecord, HostDiscoveryEntry, HostDiscoveryHeader, PullModelRequest, read_ave,
};
pub use discovery::{AddressFamily, DiscoveryEntry, DiscoveryHeader, SubsystemType, TransportType, TsasRdma, TsasTcp};
pub use effects::{CommandEffects, FeatureEffects, SupportedLogPage};
pub use extended::{ExtendedAttribute, ExtendedAttributeHead, ExtendedDiscoveryEntry, read_attributes, read_extended_entries};
pub use health::{ErrorEntry, FirmwareSlots, Smart};
pub use reservation::ReservationNotification;
