//! The NVMe/TCP binding: one connection is one queue. [NVMe/TCP 1.0]
//!
//! [`ControllerConnection`] is the controller's end: it eats and emits bytes and keeps the state of its queue; [`host`] has the host's.

mod capsule;
mod command;
mod controller;
mod fused;
pub mod host;
mod judge;
mod perform;
mod plan;
mod receive;
mod send;
mod table;
mod transfer;

pub use command::{StoreDone, StoreRequest, Transfer};
pub use controller::{CloseReason, ControllerConnection, Event};
