//! NVMe/TCP PDUs. [NVMe/TCP 1.0, 3.6.2]
//!
//! [`pdu`] has the table of each PDU, [`frame`] the order inside one (CH, PSH, HDGST, PAD, DATA, DDGST) and [`Framer`] finds PDUs in
//! a byte stream. Start with [`PduType`], then [`frame::Pdu`].

pub mod digest;
pub mod frame;
pub mod framer;
pub mod pdu;

pub use digest::crc32c;
pub use frame::{Digests, Pdu};
pub use framer::Framer;
pub use pdu::{C2hData, CapsuleCmd, CapsuleResp, Fes, H2cData, IcReq, IcResp, PduHead, PduType, R2t, TermReq};

/// Least and greatest PLEN of a terminate request, bytes. [NVMe/TCP 1.0, 3.5.1; TCP-TERM-22, TCP-TERM-23]
pub const TERM_PLEN: core::ops::RangeInclusive<u32> = 24..=152;
/// Most bytes of in-capsule data that every controller takes on the Admin Queue and for Fabrics commands. [NVMe/TCP 1.0, 3.3.1]
pub const ADMIN_IN_CAPSULE: u32 = 8192;
/// Port of discovery controllers. [NVMe/TCP 1.0, 3.1.2; TCP-DISC-03]
pub const DISCOVERY_PORT: u16 = 8009;
/// Port commonly used by I/O controllers. [NVMe/TCP 1.0, 3.1.2; TCP-DISC-04]
pub const IO_PORT: u16 = 4420;
