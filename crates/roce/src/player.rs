//! What a player needs beside [`nvmf_seam::rdma::Device`]: to see packets, to keep the NIC from acting, to send what no NIC would.

use core::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use nvmf_seam::Instant;
use nvmf_seam::rdma::{Ask, DeviceError, Facts, Happening, Packet, PacketSide, PlayedDevice, QpId, RawPacket, Recorded, Rkey};
use nvmf_wire::Value;

use crate::cm::CmState;
use crate::common::Core;
use crate::nic::Nic;
use crate::receive::Incoming;
use crate::table::Conn;

impl Nic {
    /// What happened, oldest first, with the packets of connections that are observed.
    pub fn poll_happening(&mut self) -> Option<(QpId, Happening)> {
        self.core.next_event()
    }

    /// From now on packets of the peer are shown by [`Nic::poll_happening`], those with a wrong ICRC as well.
    pub fn observe(&mut self, qp: QpId, on: bool) {
        if let Some(conn) = self.table.get(qp.0) {
            conn.observed = on;
        }
    }

    /// Whether the NIC leaves packets of the peer for this queue pair alone: it then neither executes nor acknowledges requests, and
    /// takes no acknowledgement. CM goes on.
    pub fn mute(&mut self, qp: QpId, on: bool) {
        if let Some(conn) = self.table.get(qp.0) {
            conn.mute = on;
        }
    }

    /// What is needed to make packets by hand; `None` before the peer's queue pair is known.
    pub fn facts(&mut self, qp: QpId) -> Option<Facts> {
        let conn = self.table.get(qp.0)?;
        conn.qp.shared.flow.as_ref()?;
        Some(Facts {
            qpn: conn.qp.shared.qpn,
            peer_qpn: conn.qp.shared.peer_qpn,
            psn: conn.qp.requester.psn(),
            expected_psn: conn.qp.responder.expected(),
            id: conn.cm.local_id,
            peer_id: conn.cm.remote_id,
            mtu: conn.qp.shared.mtu,
        })
    }

    /// Sends a packet to the connection's peer as it is.
    pub fn inject(&mut self, qp: QpId, packet: RawPacket) -> Result<(), DeviceError> {
        let to = self.table.get(qp.0).ok_or(DeviceError::State)?.qp.shared.peer;
        self.inject_for(Some(qp), to, packet)
    }

    /// Sends a packet to an address, for no connection.
    pub fn inject_to(&mut self, to: IpAddr, packet: RawPacket) -> Result<(), DeviceError> {
        self.inject_for(None, to, packet)
    }

    fn inject_for(&mut self, qp: Option<QpId>, to: IpAddr, packet: RawPacket) -> Result<(), DeviceError> {
        use nvmf_seam::rdma::Icrc;
        let s = &self.core.settings;
        let flow = self.core.control_flow(to, s.dscp, qp.map_or(0, |q| q.0));
        let flow = flow.ok_or_else(|| DeviceError::Other(format!("{to} cannot be reached from {}", s.address)))?;
        let flip = match packet.icrc {
            Icrc::Right => [0; 4],
            Icrc::Flipped(bits) => bits,
        };
        // The ICRC is computed from its first part, which has the BTH; a packet that is shorter has none that is right.
        let head = packet.bytes.slice(..packet.bytes.len().min(12));
        let datagram = flow.raw([&head, &[], &[], &[]], packet.bytes.slice(head.len()..), 0, flip);
        match self.core.push_control(qp, datagram) {
            true => Ok(()),
            false => Err(DeviceError::Full("room for packets to be sent")),
        }
    }

    /// Moves on our requester's next PSN, by what injected packets took.
    pub fn skip_psns(&mut self, qp: QpId, by: u32) {
        if let Some(conn) = self.table.get(qp.0) {
            conn.qp.requester.skip(by);
        }
    }

    /// What is in a region that is registered: a copy, where its owner may change it.
    pub fn peek(&mut self, key: Rkey) -> Option<Bytes> {
        let memory = self.core.regions.memory(key)?;
        memory.slice(0, memory.len())
    }

    /// Nothing more comes of a connection: it ended, or never came up.
    pub fn is_over(&mut self, qp: QpId) -> bool {
        self.table.get(qp.0).is_none_or(|c| c.cm.state == CmState::Over)
    }

    /// Regions that are registered.
    pub fn regions(&self) -> usize {
        self.core.regions.len()
    }

    /// IP packets of a connection so far, up to `NicSettings::record` bytes; those of CM are among them.
    pub fn recorded(&mut self, qp: QpId) -> Vec<Recorded> {
        self.table.get(qp.0).map(|c| c.recorded.packets.clone()).unwrap_or_default()
    }

    /// Records a packet of ours.
    pub(crate) fn record(&mut self, now: Instant, id: u32, datagram: impl FnOnce() -> Bytes) {
        let limit = self.core.settings.record;
        if limit > 0
            && let Some(conn) = self.table.get(id)
        {
            conn.recorded.push(limit, || Recorded { at: now, side: PacketSide::Ours, datagram: datagram() });
        }
    }

    /// See [`Core::show`].
    pub(crate) fn show(&mut self, now: Instant, id: u32, packet: &Incoming<'_>) {
        if let Some(conn) = self.table.get(id) {
            self.core.show(now, conn, packet);
        }
    }
}

impl PlayedDevice for Nic {
    fn is_over(&mut self, qp: QpId) -> bool {
        Nic::is_over(self, qp)
    }

    fn connect_with(&mut self, now: Instant, to: SocketAddr, ask: &Ask, with: &[(String, Value)]) -> Result<QpId, DeviceError> {
        Nic::connect_with(self, now, to, ask, with)
    }

    fn poll_happening(&mut self) -> Option<(QpId, Happening)> {
        Nic::poll_happening(self)
    }

    fn observe(&mut self, qp: QpId, on: bool) {
        Nic::observe(self, qp, on);
    }

    fn recorded(&mut self, qp: QpId) -> Vec<Recorded> {
        Nic::recorded(self, qp)
    }

    fn peek(&mut self, key: Rkey) -> Option<Bytes> {
        Nic::peek(self, key)
    }

    fn facts(&mut self, qp: QpId) -> Option<Facts> {
        Nic::facts(self, qp)
    }

    fn inject(&mut self, qp: QpId, packet: RawPacket) -> Result<(), DeviceError> {
        Nic::inject(self, qp, packet)
    }

    fn inject_to(&mut self, to: IpAddr, packet: RawPacket) -> Result<(), DeviceError> {
        Nic::inject_to(self, to, packet)
    }

    fn skip_psns(&mut self, qp: QpId, by: u32) {
        Nic::skip_psns(self, qp, by);
    }

    fn mute(&mut self, qp: QpId, on: bool) {
        Nic::mute(self, qp, on);
    }
}

impl Core {
    /// Records a packet of the peer, and shows it where its connection is observed.
    pub(crate) fn show(&mut self, now: Instant, conn: &mut Conn, packet: &Incoming<'_>) {
        let limit = self.settings.record;
        if limit > 0 {
            conn.recorded.push(limit, || Recorded { at: now, side: PacketSide::Peer, datagram: packet.datagram() });
        }
        if !conn.observed {
            return;
        }
        if self.shown >= self.settings.max_shown {
            self.counters.not_shown += 1;
            return;
        }
        self.shown += 1;
        let packet = Packet { at: now, bytes: packet.bytes(), intact: packet.intact };
        self.tell(conn.qp.shared.id, Happening::Packet(packet));
    }
}
