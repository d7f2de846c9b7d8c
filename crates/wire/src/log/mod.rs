//! Log pages, read with Get Log Page. [Base 2.0, 5.16.1]
//!
//! [`discovery`] is the page that every host of a fabric reads first; [`health`] holds the error log, SMART and the firmware slots;
//! [`effects`] the pages about commands, features and log pages; [`ana`] the states of ANA groups. The changed namespace list (04h) is
//! a namespace list: see [`crate::identify::read_namespace_list`].

pub mod ana;
pub mod discovery;
pub mod effects;
pub mod health;

pub use ana::{AnaGroup, AnaGroups, AnaHeader, AnaState, read_ana};
pub use discovery::{AddressFamily, DiscoveryEntry, DiscoveryHeader, SubsystemType, TransportType, TsasRdma, TsasTcp};
pub use effects::{CommandEffects, FeatureEffects, SupportedLogPage};
pub use health::{ErrorEntry, FirmwareSlots, Smart};
