//! What the integration tests share. [`world`] has the suite in the simulated world.

pub mod world;
