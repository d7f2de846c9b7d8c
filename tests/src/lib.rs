//! What the integration tests share. [`world`] has the suite in the simulated world, [`host`] the reference host there, [`rdma`] the suite over RDMA,
//! [`frames`] what a simulated run writes.

pub mod frames;
pub mod host;
pub mod rdma;
pub mod world;
