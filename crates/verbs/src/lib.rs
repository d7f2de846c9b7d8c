//! Real RDMA NICs (and soft-RoCE) by libibverbs and librdmacm: executes the work of a binding on hardware.
//!
//! What it is: [`VerbsDevice`], a [`nvmf_seam::rdma::Device`]. What it is not: protocol; NVMe/RDMA is `engine::rdma`, and packets are the
//! NIC's. The only crate with FFI, and the only one that needs system libraries (`libibverbs`, `librdmacm`); it is no default member.
//!
//! Regions are registered as memory windows of type 2B where the device has them, with a new key for each use and invalidation by the
//! other side; elsewhere as plain memory regions, which cannot be invalidated remotely. [IBA vol. 1, 10.6.7]
//!
//! Read [`VerbsDevice`] first; then `conn` (one queue pair), `pool` (registered buffers), `sys` (what C gives, owned).
#![deny(missing_docs)]

mod cm;
mod conn;
mod device;
mod pool;
mod region;
mod sys;

pub use device::{Settings, VerbsDevice};
