//! The real world: sockets, and drivers that run the state machines of `engine` over them.
//!
//! [`RealNetwork`] is how a player reaches a real peer, and [`HostClient`] drives the reference host over it or any other network.

pub mod client;
pub mod driver;
pub mod real;
pub mod roce;
pub mod store;
pub mod target;

pub use client::{ClientError, HostClient, Notice};
pub use driver::{Driver, NicSource};
pub use real::RealNetwork;
pub use store::FileStore;
pub use target::{EmbeddedTarget, Target, TargetConfig};
