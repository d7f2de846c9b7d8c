//! What the integration tests share. [`world`] has the suite in the simulated world, [`host`] the reference host there, [`rdma`] the suite over RDMA.

pub mod host;
pub mod rdma;
pub mod world;
