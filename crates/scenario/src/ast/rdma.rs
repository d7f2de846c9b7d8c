//! Statements that mean something over RDMA alone.

use super::{Assign, Expr};

/// What a statement does to queue pairs, memory and packets.
#[derive(Clone, Debug)]
pub enum RdmaWhat {
    /// `open rdma [as NAME] [field=…]`: a REQ, whatever is answered.
    Open {
        /// Name for `via`.
        name: Option<String>,
        /// Fields of NVMe's private data, and of `cm.`, `ip_cm.` and `mad.`.
        with: Vec<Assign>,
    },
    /// `region NAME bytes=N [access=…] [data=… | pattern=…]`: registers memory; `$NAME.key` and `$NAME.addr`.
    Region {
        /// Name that it is bound to.
        name: String,
        /// Parameters.
        with: Vec<Assign>,
    },
    /// `deregister NAME`.
    Deregister(String),
    /// `peek NAME as $x`: what is in a region.
    Peek {
        /// The region.
        name: String,
        /// Name for its bytes.
        bind: String,
    },
    /// `capsule $x Command [field=…]`: a command capsule as bytes, not sent.
    Capsule {
        /// Name for the bytes.
        bind: String,
        /// Name in the table of commands.
        command: String,
        /// Fields.
        with: Vec<Assign>,
    },
    /// `send packet NAME [again] [field=…]`.
    Packet {
        /// Name of the packet.
        packet: String,
        /// Begins from the packet of that name that was sent last.
        again: bool,
        /// Fields, `payload`, `icrc`, `takes`.
        with: Vec<Assign>,
    },
    /// `mute` and `unmute`.
    Mute(bool),
    /// `mark`: packets of the peer so far are forgotten.
    Mark,
    /// `receive N`: gives the NIC so many receives more.
    Receive(Expr),
}
