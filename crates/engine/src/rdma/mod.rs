//! The NVMe/RDMA binding: one connection is one queue. [NVMe RDMA Transport 1.0]
//!
//! A connection gives out work requests and takes completions; who executes them is [`nvmf_seam::rdma::Device`].
//! [`ControllerConnection`] is the controller's end of one queue, [`HostConnection`] the host's; [`Target`] runs the connections of a
//! device beside a hub, [`Initiator`] associations of hosts over one.

mod controller;
mod host;
mod initiator;
mod target;

pub use controller::{CmAction, ControllerConnection, Event, Terms, named_controller, reject_private};
pub use host::{Capsule, HostConnection};
pub use initiator::{HostId, Initiator};
pub use target::{Target, TargetEvent};
