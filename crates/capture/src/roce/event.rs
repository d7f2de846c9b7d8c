//! What a bystander sees of NVMe/RDMA over RoCEv2: packets, and what they come to.

use bytes::Bytes;
use nvmf_wire::cm::{CmMessage, Mad};
use nvmf_wire::layout::DecodeError;
use nvmf_wire::roce::{Headers, ICRC_LEN, Reth};
use nvmf_wire::{Cid, Cqe, Sqe};

/// One RoCEv2 packet: one frame of the capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// From the BTH to the ICRC; less where the capture cut the frame short.
    pub bytes: Bytes,
    /// Its length on the wire, bytes.
    pub len: usize,
    /// What its ICRC is worth.
    pub icrc: Icrc,
    /// Its place among the packets of its direction.
    pub place: Place,
}

impl Packet {
    /// Its headers: BTH, then those that the opcode asks for. Fails where the packet ends within them.
    pub fn headers(&self) -> Result<Headers, DecodeError> {
        Headers::read(&self.bytes)
    }

    /// Its payload as far as it was captured, without padding and ICRC; empty where the headers do not leave any.
    #[must_use]
    pub fn payload(&self) -> Bytes {
        self.headers().map_or_else(|_| Bytes::new(), |h| self.payload_behind(&h))
    }

    pub(crate) fn payload_behind(&self, headers: &Headers) -> Bytes {
        let end = (headers.len + self.payload_len(headers)).min(self.bytes.len());
        if headers.len < end { self.bytes.slice(headers.len..end) } else { Bytes::new() }
    }

    /// Length of its payload on the wire, bytes.
    pub(crate) fn payload_len(&self, headers: &Headers) -> usize {
        self.len.saturating_sub(headers.len + ICRC_LEN + usize::from(headers.bth.padcnt()))
    }
}

/// What an invariant CRC is worth. [IBA vol. 1, 7.8.1]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icrc {
    /// It is that of the bytes.
    Good,
    /// It is not: the receiver drops the packet without a word, and so does [`Rdma`].
    Bad {
        /// What it had to be, as it would stand on the wire.
        expected: [u8; 4],
    },
    /// It cannot be told: the capture cut the frame short, or the IP header is one that RoCEv2 does not use.
    Unknown,
}

/// Place of a packet among those of its direction, by PSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The one that was due, or one that has no place: an acknowledgement, a datagram, the first that was seen.
    Next,
    /// One that was seen before: a retransmission. [`Rdma`] does not show what it holds again.
    Repeated,
    /// One from before the first PSN of its direction: its receiver cannot have waited for it.
    Outside,
    /// One that comes too early: this many PSNs are missing before it. What it holds is shown once they came, or once it is certain
    /// that the capture will not have them.
    Early(u32),
}

/// What packets come to. Behind the packet that completed it; [`crate::Event::dir`] says who sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rdma {
    /// Which queue pairs this connection has, as far as is known by now.
    QueuePairs {
        /// The host's, in the BTH of what the controller sends.
        host: Option<u32>,
        /// The controller's, in the BTH of what the host sends.
        controller: Option<u32>,
        /// True where it was told from the packets themselves, since the capture does not have the CM messages. Sizes, the queue's ID
        /// and commands sent before are then unknown.
        inferred: bool,
    },
    /// A message of connection management. DREQ ends the connection, REJ says that there is none.
    Cm(Cm),
    /// A command capsule: one SEND of the host.
    Command {
        /// The submission queue entry.
        sqe: Sqe,
        /// In-capsule data and descriptors: from byte 64 on, or from where Identify Controller (ICDOFF) said that they begin. Less than
        /// `send.bytes` has where the capture cut frames short, or where the capsule is longer than is put together (1 MiB).
        rest: Bytes,
        /// The SEND.
        send: Span,
    },
    /// A response capsule: one SEND of the controller.
    Response {
        /// The completion queue entry.
        cqe: Cqe,
        /// Bytes behind it: there should be none.
        rest: Bytes,
        /// The key that a SEND with Invalidate names.
        invalidate: Option<u32>,
        /// The SEND.
        send: Span,
    },
    /// A SEND that is no capsule, since it is too short.
    Send {
        /// Its bytes.
        bytes: Bytes,
        /// The SEND.
        send: Span,
    },
    /// An RDMA READ request: its sender (for NVMe always the controller) wants data of a command.
    Read(Target),
    /// Data that moved: what one packet of an RDMA WRITE, or of the response to an RDMA READ, holds. One operation is one or many of these,
    /// in order; what is lost on the way and comes later is in its place by `offset`.
    Data(Data),
    /// Immediate data behind a SEND or WRITE. NVMe has no use for it.
    Immediate(u32),
    /// Packets that the capture does not have: what they held is unknown.
    Missing {
        /// PSN of the first.
        psn: u32,
        /// How many.
        count: u32,
    },
    /// A packet that does not fit in behind those before it, such as the middle of a message without its start.
    Stray {
        /// Why.
        why: &'static str,
    },
}

/// The packets of one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Frame of the first, from 1.
    pub first_frame: u64,
    /// PSN of the first.
    pub psn: u32,
    /// How many.
    pub packets: u32,
    /// Bytes of payload in them, on the wire.
    pub bytes: u64,
}

/// The memory of the host that an RDMA READ or WRITE names, and the command that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Address, key and length of the whole operation.
    pub reth: Reth,
    /// The outstanding command with a keyed descriptor of this key. Where several have it: the one whose range the operation begins in.
    pub cid: Option<Cid>,
    /// Where in the command's data the operation begins, bytes; `None` where that lies outside what the descriptor of `cid` names.
    pub offset: Option<u64>,
}

/// What one packet moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// The whole operation: a WRITE where the controller is the sender, an answered READ where the host is.
    pub target: Target,
    /// Bytes of the operation before these.
    pub before: u32,
    /// The bytes.
    pub bytes: Bytes,
    /// True for the packet that ends the operation.
    pub last: bool,
    /// The operation's packets so far, this one included; of a READ those of the response.
    pub span: Span,
}

impl Data {
    /// Where in the command's data the bytes lie; `None` where the operation belongs to no command.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        Some(self.target.offset? + u64::from(self.before))
    }
}

/// A message of connection management.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cm {
    /// Header of the management datagram.
    pub mad: Mad,
    /// The 232 bytes of the message; its table is [`CmMessage::layout`].
    pub bytes: Bytes,
    /// True where the same message was seen before.
    pub repeated: bool,
}

impl Cm {
    /// Which message.
    #[must_use]
    pub fn message(&self) -> CmMessage {
        self.mad.attribute()
    }

    /// The consumer's private data: for NVMe one of the structures of [`nvmf_wire::rdma`], then zeroes. Behind the IP CM header in a REQ.
    #[must_use]
    pub fn private(&self) -> &[u8] {
        let from = match self.message() {
            CmMessage::REQ => 140 + 36,
            CmMessage::MRA => 10,
            CmMessage::REJ => 84,
            CmMessage::REP => 36,
            CmMessage::DREQ => 12,
            CmMessage::RTU | CmMessage::DREP => 8,
            _ => return &[],
        };
        self.bytes.get(from..).unwrap_or(&[])
    }
}
