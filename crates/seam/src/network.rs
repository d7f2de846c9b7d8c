//! How a player reaches a peer: the same calls in the simulated and in the real world.

use core::net::SocketAddr;
use core::time::Duration;

use bytes::Bytes;
use nvmf_wire::Value;

use crate::rdma::RdmaNetwork;
use crate::time::Instant;

/// A transport connection of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// Why a connection could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Refused at once: nothing listens there.
    Refused,
    /// No answer within the time.
    Timeout,
    /// Anything else, in the words of the system.
    Other(String),
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Refused => f.write_str("connection refused: nothing listens there"),
            Self::Timeout => f.write_str("no answer to the TCP connection request"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for OpenError {}

/// Bytes could not be sent: the peer closed or does not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The peer closed or reset the connection.
    Closed,
    /// The peer did not read for so long that nothing more fits.
    Stalled,
}

/// What came of waiting for bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// Bytes, at least one.
    Bytes(Bytes),
    /// The peer closed (`reset`: with RST rather than FIN).
    Closed {
        /// True for a TCP reset.
        reset: bool,
    },
    /// The time ran out.
    Nothing,
}

/// A world as a player sees it. All calls are in the player's own time; `receive` and `sleep` let the world go on.
pub trait Network {
    /// Now.
    fn now(&self) -> Instant;

    /// Opens a connection.
    fn open(&mut self, to: SocketAddr, patience: Duration) -> Result<LinkId, OpenError>;

    /// Sends all of `bytes`.
    fn send(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), SendError>;

    /// Waits for bytes or the end of the connection until `until`. Bytes that came before a close are given first.
    fn receive(&mut self, link: LinkId, until: Instant) -> Received;

    /// Ends our direction (FIN) and goes on receiving.
    fn shutdown(&mut self, link: LinkId);

    /// Ends the connection; `reset` asks for a TCP reset.
    fn close(&mut self, link: LinkId, reset: bool);

    /// Lets time pass until `until`.
    fn sleep(&mut self, until: Instant);

    /// This world's RDMA, where it has one.
    fn rdma(&mut self) -> Option<&mut dyn RdmaNetwork> {
        None
    }

    /// Changes what the target of this world serves: `target VERB name=value…` of a script. The error says why nothing was changed, as
    /// in every world whose target is another's.
    fn operate(&mut self, verb: &str, with: &[(String, Value)]) -> Result<(), String> {
        let _ = with;
        Err(format!("the target of this world is not ours: `{verb}` cannot be done"))
    }
}
