//! A software RoCEv2 NIC, sans-IO.
//!
//! A carrier (the simulated fabric, a UDP socket, a raw interface) moves [`Datagram`]s: IP packets of RoCEv2.
#![deny(missing_docs)]

mod datagram;

pub use datagram::Datagram;
