//! Every byte layout of NVMe over Fabrics that this project knows, each declared once.
//!
//! What it is: views ([`Sqe`], [`Cqe`], [`tcp::R2t`] …) declared with `layout!` as tables of fields, open enums for coded
//! values, the NVMe/TCP framing with digests and padding, the headers of RoCEv2, and the NQN grammar. *Any* bytes are a valid view: a conformance
//! tool has to send and record illegal values, so judging is separate from reading.
//!
//! What it is not: no state, no I/O, no clock. Whether a field is right at a given moment is for `engine` and `capture`.
//!
//! All NVMe structures are little-endian [Base 2.0, 1.4.2]; those of InfiniBand are big-endian. Read [`mod@layout`] first, then [`sqe`], [`tcp`] and [`roce`].
#![no_std]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[macro_use]
pub mod layout;
#[macro_use]
pub mod open;
pub mod value;

pub mod admin;
pub mod authentication;
pub mod cm;
pub mod command;
pub mod connect;
pub mod cqe;
pub mod feature;
pub mod identify;
pub mod log;
pub mod maintenance;
pub mod nqn;
pub mod nvm;
pub mod property;
pub mod rdma;
pub mod registration;
pub mod registry;
pub mod reservation;
pub mod roce;
pub mod sgl;
pub mod sqe;
pub mod status;
pub mod tcp;

pub use command::CommandKind;
pub use cqe::Cqe;
pub use identify::{IdentifyController, IdentifyNamespace};
pub use layout::{DecodeError, Field, Kind, Layout, Set, Structure, Value};
pub use nqn::Nqn;
pub use open::{Cid, Cntlid, Nsid, Qid, ZeroBased8, ZeroBased16, ZeroBased32};
pub use sgl::SglDescriptor;
pub use sqe::{Opcode, Sqe};
pub use status::Status;
