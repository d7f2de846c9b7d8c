//! TLS 1.3 below NVMe/TCP, as a bystander with the secrets of the connection reads it. [RFC 8446; NVMe/TCP 1.0, 3.6.1]
//!
//! What it is: a [`Stream`] takes the bytes of both directions of a TCP connection and gives the application data, which are PDUs,
//! and a [`Notice`] for what TLS says of itself. A [`KeyLog`] has the secrets.
//!
//! What it is not: an end of a connection. It agrees on nothing, and checks no signature, binder or Finished: what it opens
//! authenticates itself under the secrets given.

mod handshake;
mod keylog;
mod keys;
mod notice;
mod stream;
#[cfg(test)]
mod tests;

pub use keylog::{KeyLog, KeyLogError, MAX_CONNECTIONS};
pub use notice::{Alert, Group, Notice, Suite, Version};
pub use stream::{Output, Stream};
