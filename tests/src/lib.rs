//! What the integration tests share. [`world`] has the suite in the simulated world, [`host`] the reference host there.

pub mod host;
pub mod world;
