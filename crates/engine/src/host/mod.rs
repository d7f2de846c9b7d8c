//! The reference host: one association with one controller, from the first connection to the last. [Base 2.0, 3.3, 3.5, 3.6]
//!
//! What it is: state machines that are always correct (design invariant I2). What it is not: a way to send anything illegal (the raw
//! player is), nor a driver of sockets (`nvmf-net` has one).
//!
//! Read [`Association`] first; [`HostSettings`] has what can be chosen, [`discovery::LogReader`] reads a discovery log, [`Walk`] follows
//! referrals, [`Recovery`] and [`Retry`] say what is tried again and when, and [`command`] makes the SQEs. One connection of the
//! association is [`crate::tcp::host::HostConnection`] or [`crate::rdma::HostConnection`].

pub mod association;
pub mod command;
pub mod connection;
pub mod data;
pub mod discovery;
pub mod error;
pub mod queue;
pub mod recovery;
pub mod settings;
pub mod walk;

mod bringup;
pub(crate) mod ledger;
mod rdma;
mod service;
mod user;

pub use association::{Association, Event, Facts};
pub use connection::{Agreed, Completion, Granted, HostEvent, Negotiated, Payload, SubmitError, Waiting};
pub use data::Data;
pub use discovery::{DiscoveryError, DiscoveryLog, LogReader};
pub use error::{ESTABLISHMENT, HostError};
pub use recovery::{Again, Recovery, RecoverySettings, Retry, Verdict};
pub use settings::{DISCOVERY_NQN, HostRdmaSettings, HostSettings, HostTcpSettings};
pub use walk::{Left, Service, Walk, address};
