//! The simulated world: virtual time, a target in it, and what carries its traffic, all of it from a seed.
//!
//! There are two of it, for one kind of target: [`Sim`] carries byte streams in memory and is fast; [`FrameSim`] carries Ethernet frames over a
//! [`lan::Lan`], with TCP, RoCEv2 and everything that goes wrong in networks. Each is a [`nvmf_seam::Network`], so that whatever
//! plays against a real peer plays here too, in milliseconds. A run is a function of the script and the seed: ordered maps only, one
//! random stream a node, and a `trace_hash` to compare two runs by.
#![deny(missing_docs)]

mod fleet;
mod frames;
pub mod lan;
mod link;
pub mod scene;
mod sim;
mod stage;
mod station;

pub use fleet::{Fleet, HostReport, NicReport, PortReport, Report};
pub use frames::{FrameOptions, FrameSim, Tapped};
pub use scene::Scene;
pub use sim::{Sim, SimOptions, SimTarget, TapFactory};
pub use stage::Stage;
