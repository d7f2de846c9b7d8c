//! The NVMe/TCP binding: one connection is one queue. [NVMe/TCP 1.0]
//!
//! [`ControllerConnection`] is the controller's end: it eats and emits bytes, and its queue is a [`crate::queue`]; [`host`] has the host's.

mod carrier;
mod controller;
pub mod host;
mod judge;
mod receive;
mod send;
mod transfer;

pub use crate::queue::{CloseReason, StoreDone, StoreRequest, Transfer};
pub use controller::{ControllerConnection, Event};
