//! NVMe/RDMA over RoCEv2, as a bystander sees it.
//!
//! A connection is a pair of queue pairs. [`Packet`] is what one frame holds, [`Rdma`] what packets come to: capsules, data that moved,
//! connection management. Read [`Rdma`] first.

mod event;

pub use event::{Cm, Data, Icrc, Packet, Place, Rdma, Span, Target};
