//! The engine's tests in one program: each of its own would build what they share, and the engine's generics, once more.

mod admin;
mod any_bytes;
mod common;
mod connect;
mod data;
mod features;
mod host_association;
mod host_faults;
mod host_flow;
mod host_life;
mod host_random;
mod host_support;
mod nvm;
mod options;
mod rdma;
mod rdma_any;
mod rdma_faults;
mod rdma_host;
mod rdma_life;
mod rdma_pair;
mod rdma_random;
mod rdma_rig;
mod rdma_support;
mod rdma_world;
