//! A software RoCEv2 NIC, sans-IO: reliable connections with everything that a hardware NIC does for them, and connection management.
//!
//! Read [`Nic`] first. A carrier (the simulated fabric, a UDP socket, a raw interface) moves [`Datagram`]s, IP packets of RoCEv2,
//! and passes the time in; a consumer gives it work through [`nvmf_seam::rdma::Device`]. What a driver does in each turn:
//!
//! 1. [`Nic::handle_datagram`] or [`Nic::handle_parts`] for each packet that came, [`Nic::handle_timeout`] where
//!    [`Nic::poll_timeout`] is reached;
//! 2. [`nvmf_seam::rdma::Device::poll_event`] until it gives `None`, with the consumer posting what follows from it;
//! 3. [`Nic::poll_datagram`] until it gives `None`; then [`Nic::poll_timeout`].
//!
//! It has no clock, socket or thread, and what it chooses by chance follows from a seed. It is not a place for faults: it is always
//! right, but for what a player injects. Sources: InfiniBand Architecture Specification vol. 1 (IBA), chapters 9 to 12; annexes A11 (IP
//! CM) and A17 (RoCEv2). Rate control does not exist: congestion marks are answered, and CNPs that come are counted.
#![deny(missing_docs)]

mod cm;
mod common;
mod counters;
mod datagram;
pub mod desk;
mod memory;
mod nic;
mod packet;
mod player;
mod pool;
mod qp;
mod receive;
mod settings;
mod table;
pub mod testing;

pub use counters::Counters;
pub use datagram::Datagram;
pub use nic::Nic;
pub use settings::NicSettings;
