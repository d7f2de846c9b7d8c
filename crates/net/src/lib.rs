//! The real world: sockets, and drivers that run the state machines of `engine` over them.
//!
//! [`RealNetwork`] is how a player reaches a real peer.

pub mod real;

pub use real::RealNetwork;
