//! What crosses between a binding that speaks RDMA and what executes its work: the software NIC, or hardware through verbs.
//!
//! A binding owns connections. For each it gives out [`Work`] and takes [`Completion`]s and [`CmEvent`]s; a [`Device`] executes the
//! one and makes the others. [`Memory`] is what it registers. The words are those of InfiniBand verbs and of its connection manager
//! (CM) [IBA vol. 1, 10, 11, 12]; who posts what, in which order, is the binding's business.
//!
//! [`RdmaNetwork`] is the other view: what a player needs of a world, wrong packets included.

mod memory;
mod player;

use core::net::SocketAddr;

use bytes::Bytes;

use crate::time::Instant;
use crate::transmit::Head;

pub use memory::{Memory, Place};
pub use player::{Facts, Happening, Icrc, Packet, PacketSide, PlayedDevice, RawPacket, RdmaNetwork, RdmaOpenError, Recorded};

/// A connection at a device: a queue pair (QP) and what CM knows of it. The device numbers it and never uses a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QpId(pub u32);

/// A piece of work of one connection, numbered by the binding; the [`Completion`] repeats it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub u64);

/// A remote key (R_Key): 24 bits of index and, in bits 7:0, the tag that a consumer chooses anew with each registration.
/// [IBA vol. 1, 10.6.3.3]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rkey(pub u32);

/// A protection domain (PD): a region is reached through queue pairs of its own domain alone. [IBA vol. 1, 10.2.3]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pd(pub u32);

/// A place in memory of the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// Virtual address.
    pub addr: u64,
    /// Key of the region that it lies in.
    pub key: Rkey,
}

/// What the other side may do with a region. The consumer itself may always read and write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// RDMA READ.
    pub read: bool,
    /// RDMA WRITE.
    pub write: bool,
}

/// A work request of one connection. Those of the send queue (all but [`Work::Receive`]) are begun in the order in which they were
/// posted; a [`Work::Send`] behind a [`Work::Write`] is seen by the other side after the data. [IBA vol. 1, 10.8.3.3, 11.4.1]
#[derive(Clone, Debug)]
pub enum Work {
    /// A buffer for one SEND of the other side, at most `len` bytes. The device's own memory: the bytes come with the completion.
    Receive {
        /// See [`WorkId`].
        id: WorkId,
        /// Bytes.
        len: u32,
    },
    /// SEND of `head` and `payload` as one message.
    Send {
        /// See [`WorkId`].
        id: WorkId,
        /// Bytes in front, inline.
        head: Head,
        /// Bytes behind them, not copied.
        payload: Bytes,
        /// SEND with Invalidate: the key that the other side is to invalidate.
        invalidate: Option<Rkey>,
    },
    /// RDMA READ. The bytes come with the completion, in the device's memory.
    Read {
        /// See [`WorkId`].
        id: WorkId,
        /// Where they are.
        from: Remote,
        /// Bytes.
        len: u32,
    },
    /// RDMA WRITE.
    Write {
        /// See [`WorkId`].
        id: WorkId,
        /// Where they are to be.
        to: Remote,
        /// The bytes, not copied.
        data: Bytes,
    },
    /// Fast registration: `memory` can be reached by the other side from the next work request on. It is the device's until it comes back.
    Register {
        /// See [`WorkId`].
        id: WorkId,
        /// What is to be reached.
        memory: Memory,
        /// How.
        access: Access,
    },
    /// Local invalidation of a key of our own; gives the memory back, also where the other side invalidated the key before.
    Invalidate {
        /// See [`WorkId`].
        id: WorkId,
        /// The key.
        key: Rkey,
    },
}

impl Work {
    /// Its number.
    pub fn id(&self) -> WorkId {
        match self {
            Self::Receive { id, .. }
            | Self::Send { id, .. }
            | Self::Read { id, .. }
            | Self::Write { id, .. }
            | Self::Register { id, .. }
            | Self::Invalidate { id, .. } => *id,
        }
    }
}

/// The end of a [`Work`]. Every work request has exactly one, in the order of its queue.
#[derive(Clone, Debug)]
pub struct Completion {
    /// Which.
    pub id: WorkId,
    /// What came of it.
    pub result: Result<Done, WorkError>,
}

/// What a work request came to.
#[derive(Clone, Debug)]
pub enum Done {
    /// A SEND of the other side is in the buffer.
    Received {
        /// Its bytes.
        data: Bytes,
        /// The key of ours that it invalidated.
        invalidated: Option<Rkey>,
    },
    /// The other side's NIC has the whole message.
    Sent,
    /// The bytes of a READ.
    Read(Bytes),
    /// The other side's NIC has all bytes.
    Written,
    /// The region can be reached here.
    Registered(Remote),
    /// The key is no more.
    Invalidated(Memory),
}

/// Why a work request failed. All but `NoSuchKey` take the queue pair to its error state, in which all others end as `Flushed`.
/// [IBA vol. 1, 10.10.2.3, 11.6.2]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkError {
    /// The queue pair was in error, or the connection over, before its turn came.
    Flushed,
    /// The other side's SEND was longer than the buffer, or a READ or WRITE exceeds what the device does.
    Length,
    /// Local protection: no such region, or not in the queue pair's domain.
    Protection,
    /// The other side refused the request as invalid (NAK 61h).
    RemoteInvalidRequest,
    /// The other side refused access (NAK 62h).
    RemoteAccess,
    /// The other side failed (NAK 63h).
    RemoteOperational,
    /// No answer, for as often as the connection allows.
    RetryExceeded,
    /// The other side had no receive buffer, for as often as the connection allows.
    RnrRetryExceeded,
    /// The other side's packets cannot be right.
    BadResponse,
    /// [`Work::Invalidate`] of a key that is not ours. The queue pair goes on.
    NoSuchKey,
}

/// What the active side asks for. [IBA vol. 1, 12.6.5]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Private data of the consumer; the device puts the IP CM header before it. At most 56 bytes.
    pub private: Bytes,
    /// Responder Resources: READs of the other side that are answered at a time.
    pub responder_resources: u8,
    /// Initiator Depth: READs that this side wants to have out at a time.
    pub initiator_depth: u8,
    /// Retry Count, 0 to 7.
    pub retry_count: u8,
    /// RNR Retry Count, 0 to 7; 7 is for ever.
    pub rnr_retry_count: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// Domain of the queue pair.
    pub pd: Pd,
}

impl Ask {
    /// What a side asks for that answers READs and has none of its own, as NVMe hosts do: 16 at a time, and retries without end.
    pub fn new(private: Bytes) -> Self {
        Self {
            private,
            responder_resources: 16,
            initiator_depth: 0,
            retry_count: 7,
            rnr_retry_count: 7,
            flow_control: true,
            pd: Pd(0),
        }
    }
}

/// A REQ as the passive side sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Who: address and port of the IP CM header.
    pub from: SocketAddr,
    /// Whom: address and port that is listened on.
    pub to: SocketAddr,
    /// Private data behind the IP CM header, all 56 bytes: CM does not say how many of them were meant.
    pub private: Bytes,
    /// READs of ours that the other side answers at a time.
    pub responder_resources: u8,
    /// READs that the other side wants to have out at a time.
    pub initiator_depth: u8,
    /// RNR Retry Count.
    pub rnr_retry_count: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
}

/// How the passive side agrees. [IBA vol. 1, 12.6.8]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// Private data, at most 196 bytes.
    pub private: Bytes,
    /// READs of the other side that are answered at a time.
    pub responder_resources: u8,
    /// READs that this side has out at a time.
    pub initiator_depth: u8,
    /// RNR Retry Count, 0 to 7.
    pub rnr_retry_count: u8,
    /// Domain of the queue pair.
    pub pd: Pd,
}

/// A REP as the active side sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Private data, all 196 bytes.
    pub private: Bytes,
    /// READs of ours that the other side answers at a time.
    pub responder_resources: u8,
    /// READs that the other side has out at a time.
    pub initiator_depth: u8,
    /// RNR Retry Count.
    pub rnr_retry_count: u8,
}

/// What CM says about a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CmEvent {
    /// Passive: somebody asks. To be answered by [`Device::accept`] or [`Device::reject`]. Receives may be posted before.
    Request(Asked),
    /// Active: REP came, RTU is on its way. Work may be posted.
    Accepted(Accepted),
    /// Passive: RTU, or the first SEND in its place, came. [IBA vol. 1, 12.9.8.2]
    Established,
    /// Active: REJ came.
    Rejected {
        /// Reason, see `nvmf_wire::cm::RejReason`.
        reason: u16,
        /// Private data, all 148 bytes.
        private: Bytes,
    },
    /// Active: no answer to REQ. Passive: none to REP.
    Unreachable,
    /// The other side asked to disconnect (DREQ), or answered our own wish, or gave up by REJ after REP. All work ends as
    /// [`WorkError::Flushed`].
    Disconnected,
    /// The device is gone.
    Removed,
}

/// What a device tells.
#[derive(Clone, Debug)]
pub enum DeviceEvent {
    /// Of a connection's CM.
    Cm(CmEvent),
    /// Work has ended.
    Completed(Completion),
}

/// What a device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Work requests on one send queue, and receive buffers of one queue pair.
    pub work: u32,
    /// READs that one queue pair has out, or answers, at a time.
    pub reads: u8,
    /// Bytes of one READ or WRITE.
    pub transfer: u32,
    /// Bytes of one region.
    pub region: u64,
    /// SEND with Invalidate can be sent.
    pub sends_invalidate: bool,
    /// SEND with Invalidate of the other side is honoured for keys of [`Work::Register`].
    pub takes_invalidate: bool,
}

/// Why a device did not take something. The text is for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceError {
    /// No such connection, or not in a state for this.
    State,
    /// A limit of the device; which.
    Full(&'static str),
    /// Anything else, in the words of the system.
    Other(String),
}

impl core::fmt::Display for DeviceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::State => f.write_str("not in the connection's present state"),
            Self::Full(what) => write!(f, "the device has no more {what}"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for DeviceError {}

/// What executes the work of any number of connections: the software NIC, or hardware.
///
/// A driver lets the device take in what came (frames, or completions of hardware), then drains [`Device::poll_event`]. Calls have
/// their effects in order; none of them waits.
pub trait Device {
    /// What it can do.
    fn limits(&self) -> Limits;

    /// Takes REQs for an RDMA-CM port from now on.
    fn listen(&mut self, port: u16) -> Result<(), DeviceError>;

    /// Asks for a connection. [`CmEvent::Accepted`], `Rejected` or `Unreachable` follows.
    fn connect(&mut self, now: Instant, to: SocketAddr, ask: &Ask) -> Result<QpId, DeviceError>;

    /// Agrees to a [`CmEvent::Request`].
    fn accept(&mut self, now: Instant, qp: QpId, accept: &Accept) -> Result<(), DeviceError>;

    /// Refuses a [`CmEvent::Request`]: REJ with reason 28 (consumer defined) and this private data, at most 148 bytes. The connection
    /// is forgotten.
    fn reject(&mut self, now: Instant, qp: QpId, private: &[u8]) -> Result<(), DeviceError>;

    /// Ends a connection by DREQ; all work is flushed. [`CmEvent::Disconnected`] follows.
    fn disconnect(&mut self, now: Instant, qp: QpId);

    /// Forgets a connection, with what it still has out; nothing is heard of it any more.
    fn destroy(&mut self, now: Instant, qp: QpId);

    /// Gives work to a connection's queue pair. Receives are taken from [`CmEvent::Request`] or [`Device::connect`] on, all else once the
    /// connection stands.
    fn post(&mut self, now: Instant, qp: QpId, work: Work) -> Result<(), DeviceError>;

    /// Takes a region out of the device at once, whatever the state of its queue pair.
    fn deregister(&mut self, key: Rkey) -> Option<Memory>;

    /// What happened, oldest first.
    fn poll_event(&mut self) -> Option<(QpId, DeviceEvent)>;
}
