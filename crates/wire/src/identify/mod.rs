//! Identify data structures, one 4096-byte page a CNS. [Base 2.0, 5.17, Figure 273]
//!
//! [`controller`] and [`namespace`] have the fixed tables; [`lists`] reads and writes what is variable: namespace lists and
//! namespace identification descriptors; [`sets`] has controllers, NVM sets, domains and combinations of command sets. Start with
//! [`IdentifyController`].

pub mod controller;
pub mod lists;
pub mod namespace;
pub mod sets;

pub use controller::{ControllerType, DiscoveryType, IdentifyController, PowerState};
pub use lists::{Descriptor, NamespaceDescriptor, Nidt, namespace_list, read_descriptors, read_namespace_list, write_descriptors};
pub use namespace::{
    ExtendedLbaFormat, IdentifyControllerNvm, IdentifyNamespace, IdentifyNamespaceIndependent, IdentifyNamespaceNvm, LbaFormat,
};
pub use sets::{
    CommandSetVector, ControllerListHead, Domain, NamespaceGranularity, NamespaceGranularityHead, NvmSet, PrimaryController,
    SecondaryController, UuidEntry, command_sets, controller_list, read_command_sets, read_controller_list, read_id_list,
};

use crate::admin::Cns;
use crate::layout::{Layout, Structure};

/// The table of an Identify page that begins with one structure: the whole page, or the head of what is variable. `None` for lists
/// ([`lists`], [`sets`]) and for pages that are not here.
pub fn page_layout(cns: Cns) -> Option<&'static Layout> {
    Some(match cns {
        Cns::NAMESPACE | Cns::ALLOCATED_NAMESPACE | Cns::NAMESPACE_FORMAT => IdentifyNamespace::LAYOUT,
        Cns::CONTROLLER => IdentifyController::LAYOUT,
        Cns::NAMESPACE_CSI | Cns::ALLOCATED_NAMESPACE_CSI | Cns::NAMESPACE_FORMAT_CSI => IdentifyNamespaceNvm::LAYOUT,
        Cns::CONTROLLER_CSI => IdentifyControllerNvm::LAYOUT,
        Cns::NAMESPACE_INDEPENDENT | Cns::ALLOCATED_NAMESPACE_INDEPENDENT => IdentifyNamespaceIndependent::LAYOUT,
        Cns::ATTACHED_CONTROLLERS | Cns::CONTROLLERS | Cns::ENDURANCE_GROUPS => ControllerListHead::LAYOUT,
        Cns::PRIMARY_CONTROLLER => PrimaryController::LAYOUT,
        Cns::NAMESPACE_GRANULARITY => NamespaceGranularityHead::LAYOUT,
        Cns::COMMAND_SETS => CommandSetVector::LAYOUT,
        _ => return None,
    })
}

/// Length in bytes of every Identify data structure. [Base 2.0, 5.17]
pub const IDENTIFY_BYTES: usize = 4096;
