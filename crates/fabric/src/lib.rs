//! The simulated world: virtual time, a target in it, and byte streams whose segments and delays come from a seed.
//!
//! [`Sim`] is a [`nvmf_seam::Network`], so that whatever plays against a real peer plays here too, in milliseconds. A run is a function
//! of the script and the seed: ordered maps only, one random stream a node, and [`Sim::trace_hash`] to compare two runs by.
#![deny(missing_docs)]

pub mod lan;
mod link;
mod sim;
mod stage;

pub use sim::{Sim, SimOptions, SimTarget, TapFactory};
pub use stage::Stage;
