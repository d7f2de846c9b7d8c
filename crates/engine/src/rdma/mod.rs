//! The NVMe/RDMA binding: one connection is one queue. [NVMe RDMA Transport 1.0]
//!
//! A connection gives out work requests and takes completions; who executes them is [`nvmf_seam::rdma::Device`].
//! [`ControllerConnection`] is the controller's end of one queue, [`Target`] runs those of a device beside a hub.

mod controller;
mod target;

pub use controller::{CmAction, ControllerConnection, Event, Terms, named_controller, reject_private};
pub use target::{Target, TargetEvent};
