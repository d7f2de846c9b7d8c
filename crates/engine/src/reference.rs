//! The reference targets that the suite is played against: between them they have every option, so that no check stays unplayed.

use std::sync::Arc;

use bytes::Bytes;
use nvmf_seam::store::{Geometry, Store, StoreError, StoreOp};
use nvmf_wire::log::AnaState;

use crate::controller::{ConfigError, Hub, NewNamespace};
use crate::settings::{ControllerModel, ControllerSettings};
use crate::store::MemoryStore;

/// A store that can do no more than it must: a subsystem with such a namespace has no optional I/O commands but Copy.
struct Bare(MemoryStore);

impl Store for Bare {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn execute(&self, op: StoreOp) -> Result<Bytes, StoreError> {
        match op {
            StoreOp::Read { .. } | StoreOp::Write { .. } | StoreOp::Flush => self.0.execute(op),
            _ => Err(StoreError::Unsupported),
        }
    }
}

/// Which reference target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reference {
    /// Dynamic controllers, as most targets have them, and every I/O command.
    #[default]
    Plain,
    /// Static controllers and what the other has not: traffic based keep alive, NVM Subsystem Reset, deletion of single queues, ANA,
    /// two ports, a referral. None of the other's optional I/O commands.
    Full,
}

impl Reference {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Plain, Self::Full];

    /// How its controllers are.
    pub fn settings(self) -> ControllerSettings {
        match self {
            Self::Plain => ControllerSettings::default(),
            Self::Full => ControllerSettings {
                controller_model: ControllerModel::Static { count: 256 },
                traffic_keep_alive: true,
                subsystem_reset: true,
                queue_deletion: true,
                ana_groups: 5,
                admin_only: true,
                ..ControllerSettings::default()
            },
        }
    }

    /// Ports, on which all is served.
    pub fn ports(self) -> u16 {
        match self {
            Self::Plain => 1,
            Self::Full => 2,
        }
    }

    /// What is left to do once the hub has the subsystem `nqn` with its namespaces 1 and 2.
    pub fn prepare(self, hub: &mut Hub, nqn: &str) -> Result<(), ConfigError> {
        if self == Self::Full {
            hub.set_ana_group(nqn, 2, 2)?;
            hub.set_ana_state(nqn, 2, AnaState::NON_OPTIMIZED)?;
            for (nsid, state) in [(3, AnaState::INACCESSIBLE), (4, AnaState::PERSISTENT_LOSS), (5, AnaState::CHANGE)] {
                let store = Arc::new(Bare(MemoryStore::new(Geometry { blocks: 256, block_size: 512 })));
                hub.add_namespace(nqn, nsid, NewNamespace { store, blocking: false, uuid: None })?;
                hub.set_ana_group(nqn, nsid, nsid)?;
                hub.set_ana_state(nqn, nsid, state)?;
            }
            hub.add_referral(([192, 0, 2, 9], 8009).into())?;
        }
        Ok(())
    }
}
