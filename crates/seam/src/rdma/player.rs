//! RDMA as a player of checks and scenarios sees it: connections, work, and packets that no NIC would send.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use bytes::Bytes;
use nvmf_wire::Value;

use super::{Accepted, Ask, CmEvent, Completion, Device, DeviceError, DeviceEvent, Memory, QpId, Rkey, Work};
use crate::network::LinkId;
use crate::time::Instant;

/// Why an RDMA connection did not come up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RdmaOpenError {
    /// REJ.
    Rejected {
        /// Reason.
        reason: u16,
        /// Private data, all 148 bytes.
        private: Bytes,
    },
    /// No answer to REQ within the time.
    Timeout,
    /// Anything else, in the words of the system.
    Other(String),
}

impl core::fmt::Display for RdmaOpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Rejected { reason, .. } => write!(f, "connection refused: REJ with reason {reason}"),
            Self::Timeout => f.write_str("no answer to the CM REQ"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for RdmaOpenError {}

/// Who sent a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketSide {
    /// The player's NIC.
    Ours,
    /// The peer.
    Peer,
}

/// A packet of a connection, from BTH to the last byte before the ICRC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When.
    pub at: Instant,
    /// BTH, extended headers, payload and padding.
    pub bytes: Bytes,
    /// Its ICRC is right.
    pub intact: bool,
}

/// What happened on a connection of the player.
#[derive(Clone, Debug)]
pub enum Happening {
    /// Work has ended.
    Completed(Completion),
    /// CM.
    Cm(CmEvent),
    /// A packet of the peer came for the queue pair, or a CM message for its communication id; the NIC acted on it already, unless
    /// [`RdmaNetwork::mute`] is on.
    Packet(Packet),
}

/// What ICRC a packet gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Icrc {
    /// The right one.
    #[default]
    Right,
    /// The right one with these bits changed, in the order of the wire.
    Flipped([u8; 4]),
}

/// A packet to be sent as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawPacket {
    /// BTH, extended headers, payload and padding.
    pub bytes: Bytes,
    /// Its ICRC.
    pub icrc: Icrc,
}

/// What a player has to know to make packets for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Our queue pair number.
    pub qpn: u32,
    /// The peer's.
    pub peer_qpn: u32,
    /// PSN of the next request packet of ours.
    pub psn: u32,
    /// PSN that the next request packet of the peer should have.
    pub expected_psn: u32,
    /// Our communication id.
    pub id: u32,
    /// The peer's.
    pub peer_id: u32,
    /// Path MTU, bytes.
    pub mtu: u32,
}

/// An IP packet as it crossed the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When.
    pub at: Instant,
    /// Who sent it.
    pub side: PacketSide,
    /// From the IP header to the ICRC.
    pub datagram: Bytes,
}

/// A world with RDMA as a player sees it; see [`crate::Network`], whose links these are too: the numbers are of one row. `receive`, `send`,
/// `shutdown` and `close` of [`crate::Network`] are not for these links.
pub trait RdmaNetwork {
    /// Opens a connection. `with`: fields of the REQ, of its IP CM header (`ip_cm.NAME`) and of the MAD header (`mad.NAME`) that are to
    /// differ from what the NIC would send, by their names in `nvmf_wire::cm`.
    fn open_rdma(
        &mut self,
        to: SocketAddr,
        ask: &Ask,
        with: &[(String, Value)],
        patience: Duration,
    ) -> Result<(LinkId, Accepted), RdmaOpenError>;

    /// Gives work to a connection.
    fn post(&mut self, link: LinkId, work: Work) -> Result<(), DeviceError>;

    /// Waits until `until` for what happens next on a connection; `None` where nothing did.
    fn next(&mut self, link: LinkId, until: Instant) -> Option<Happening>;

    /// Ends a connection: by DREQ, or (`silent`) without a word.
    fn end(&mut self, link: LinkId, silent: bool);

    /// Takes a region back at once.
    fn deregister(&mut self, key: Rkey) -> Option<Memory>;

    /// What is in a region that is registered.
    fn peek(&mut self, key: Rkey) -> Option<Bytes>;

    /// What is needed to make packets by hand.
    fn facts(&mut self, link: LinkId) -> Option<Facts>;

    /// Sends a packet from our address to the connection's peer as it is; the NIC's state does not change by it.
    fn inject(&mut self, link: LinkId, packet: RawPacket) -> Result<(), DeviceError>;

    /// Sends a packet to an address, for no connection.
    fn inject_to(&mut self, to: IpAddr, packet: RawPacket) -> Result<(), DeviceError>;

    /// Moves on our requester's next PSN, by what injected packets took.
    fn skip_psns(&mut self, link: LinkId, by: u32);

    /// Mute: the NIC does not act on packets of the peer for this queue pair, it only shows them. It sends no acknowledgements,
    /// and takes none.
    fn mute(&mut self, link: LinkId, on: bool);

    /// All IP packets of a connection so far, for traces; those of CM are among them.
    fn recorded(&mut self, link: LinkId) -> Vec<Recorded>;

    /// All IP packets of the attempt at which [`RdmaNetwork::open_rdma`] failed last: it has no link.
    fn recorded_unopened(&mut self) -> Vec<Recorded>;
}

/// What a player needs of the device behind an [`RdmaNetwork`], beyond [`Device`]. What stands here holds for hardware: it shows no
/// packets, and sends none but its own.
pub trait PlayedDevice: Device {
    /// Nothing more comes of a connection: it ended, or never came up.
    fn is_over(&mut self, qp: QpId) -> bool;

    /// [`Device::connect`]; `with` as in [`RdmaNetwork::open_rdma`].
    fn connect_with(&mut self, now: Instant, to: SocketAddr, ask: &Ask, with: &[(String, Value)]) -> Result<QpId, DeviceError> {
        match with.first() {
            None => self.connect(now, to, ask),
            Some((field, _)) => Err(DeviceError::Other(format!("{field} cannot be chosen: an RDMA device fills in its own REQ"))),
        }
    }

    /// What happened, oldest first, packets among it.
    fn poll_happening(&mut self) -> Option<(QpId, Happening)> {
        self.poll_event().map(|(qp, event)| match event {
            DeviceEvent::Cm(event) => (qp, Happening::Cm(event)),
            DeviceEvent::Completed(done) => (qp, Happening::Completed(done)),
        })
    }

    /// From now on packets of the peer are among what happens.
    fn observe(&mut self, _qp: QpId, _on: bool) {}

    /// See [`RdmaNetwork::recorded`].
    fn recorded(&mut self, _qp: QpId) -> Vec<Recorded> {
        Vec::new()
    }

    /// See [`RdmaNetwork::peek`].
    fn peek(&mut self, _key: Rkey) -> Option<Bytes> {
        None
    }

    /// See [`RdmaNetwork::facts`].
    fn facts(&mut self, _qp: QpId) -> Option<Facts> {
        None
    }

    /// See [`RdmaNetwork::inject`].
    fn inject(&mut self, _qp: QpId, _packet: RawPacket) -> Result<(), DeviceError> {
        Err(DeviceError::Other(ITS_OWN.into()))
    }

    /// See [`RdmaNetwork::inject_to`].
    fn inject_to(&mut self, _to: IpAddr, _packet: RawPacket) -> Result<(), DeviceError> {
        Err(DeviceError::Other(ITS_OWN.into()))
    }

    /// See [`RdmaNetwork::skip_psns`].
    fn skip_psns(&mut self, _qp: QpId, _by: u32) {}

    /// See [`RdmaNetwork::mute`].
    fn mute(&mut self, _qp: QpId, _on: bool) {}
}

const ITS_OWN: &str = "an RDMA device sends no packets but its own";
