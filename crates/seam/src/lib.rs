//! What crosses between state machines (`engine`) and worlds (`fabric`, `net`), as plain data and small traits.
//!
//! [`time`] has the only clock that a state machine knows, [`Transmit`] what it wants sent, [`store`] what it asks of a namespace's
//! storage, [`rdma`] what it asks of a NIC, [`Tap`] where deviations are applied from outside, and [`Network`] how a player reaches a peer in any world. Nothing here
//! does I/O.
#![deny(missing_docs)]

pub mod entropy;
pub mod network;
pub mod pipe;
pub mod rdma;
pub mod store;
pub mod tap;
pub mod time;
pub mod transmit;

pub use entropy::{Entropy, SplitMix64};
pub use network::{LinkId, Network, OpenError, Received, SendError};
pub use pipe::{Piped, TapPipe};
pub use store::{Abilities, Geometry, Store, StoreError, StoreOp};
pub use tap::{Side, Tap, TapOutput};
pub use time::Instant;
pub use transmit::{Head, Transmit};
