//! Host and controller state machines of NVMe over Fabrics, sans-IO.
//!
//! They eat bytes, messages and time, and emit PDUs, store requests and events; they know no socket, clock, thread or random source.
//! The same code runs in the simulated world (`fabric`) and on real sockets (`net`). Reading order for the controller:
//! [`controller::Hub`] (all controllers of a target), [`tcp::ControllerConnection`] (one queue), [`message`] (what they tell each
//! other). Both follow the text: faults are applied from outside, never here.
#![deny(missing_docs)]

mod commands;
pub mod controller;
pub mod host;
pub mod message;
pub mod queue;
pub mod rdma;
pub mod reference;
pub mod settings;
pub mod store;
pub mod tcp;

pub use reference::Reference;
pub use settings::{ControllerModel, ControllerSettings, RdmaCapsules, RdmaSettings, TcpSettings};
