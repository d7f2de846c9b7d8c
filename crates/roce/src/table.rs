//! The connections of a NIC, and how packets find theirs.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use core::net::IpAddr;

use nvmf_seam::Instant;
use nvmf_seam::rdma::{QpId, Recorded};

use crate::cm::Cm;
use crate::qp::Qp;

/// One connection: its queue pair, and what CM knows of it.
#[derive(Debug)]
pub(crate) struct Conn {
    pub qp: Qp,
    pub cm: Cm,
    /// It waits in the ring of those that may have packets.
    pub in_ring: bool,
    /// Its entry in the heap of timers that counts.
    pub scheduled: Option<Instant>,
    pub last_cnp: Option<Instant>,
    /// A player acts in the NIC's place.
    pub mute: bool,
    /// Packets of the peer are shown.
    pub observed: bool,
    pub recorded: Recording,
}

/// Packets that crossed the wire, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub packets: Vec<Recorded>,
    pub bytes: usize,
}

impl Recording {
    pub(crate) fn push(&mut self, limit: usize, packet: impl FnOnce() -> Recorded) {
        if self.bytes < limit {
            let packet = packet();
            self.bytes += packet.datagram.len();
            self.packets.push(packet);
        }
    }
}

impl Conn {
    pub(crate) fn new(qp: Qp, cm: Cm) -> Self {
        Self {
            qp,
            cm,
            in_ring: false,
            scheduled: None,
            last_cnp: None,
            mute: false,
            observed: false,
            recorded: Recording::default(),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match (self.cm.deadline(), self.qp.deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    conns: BTreeMap<u32, Box<Conn>>,
    by_qpn: BTreeMap<u32, u32>,
    by_comm_id: BTreeMap<u32, u32>,
    /// Passive connections, by the other side's address and communication ID: a REQ again is known by them.
    by_asker: BTreeMap<(IpAddr, u32), u32>,
    /// By the other side's address and queue pair number: a REQ for one in use is stale. [IBA vol. 1, 12.9.8.3.1]
    by_peer_qpn: BTreeMap<(IpAddr, u32), u32>,
    /// Queue pair numbers and communication IDs that were in use until a moment ago.
    resting: VecDeque<(Instant, u32, u32)>,
    half_open: usize,
    last: u32,
}

impl Table {
    /// A number for the next connection.
    pub(crate) fn next_id(&mut self) -> QpId {
        self.last = self.last.wrapping_add(1);
        QpId(self.last)
    }

    pub(crate) fn len(&self) -> usize {
        self.conns.len()
    }

    /// Passive connections that are not up.
    pub(crate) fn half_open(&self) -> usize {
        self.half_open
    }

    pub(crate) fn get(&mut self, id: u32) -> Option<&mut Conn> {
        self.conns.get_mut(&id).map(|c| &mut **c)
    }

    /// The connection whose queue pair has this number.
    pub(crate) fn by_qpn(&mut self, qpn: u32) -> Option<&mut Conn> {
        let id = self.by_qpn.get(&qpn)?;
        self.conns.get_mut(id).map(|c| &mut **c)
    }

    pub(crate) fn comm_id(&self, id: u32) -> Option<u32> {
        self.by_comm_id.get(&id).copied()
    }

    pub(crate) fn asker(&self, from: IpAddr, id: u32) -> Option<u32> {
        self.by_asker.get(&(from, id)).copied()
    }

    pub(crate) fn peer_qpn(&self, from: IpAddr, qpn: u32) -> Option<u32> {
        self.by_peer_qpn.get(&(from, qpn)).copied()
    }

    /// Neither in use nor resting; 0 and 1 are for management. [IBA vol. 1, 3.9.1]
    pub(crate) fn qpn_free(&self, qpn: u32) -> bool {
        qpn > 1 && !self.by_qpn.contains_key(&qpn) && !self.resting.iter().any(|(_, q, _)| *q == qpn)
    }

    /// Neither in use nor resting.
    pub(crate) fn comm_id_free(&self, id: u32) -> bool {
        id != 0 && !self.by_comm_id.contains_key(&id) && !self.resting.iter().any(|(_, _, c)| *c == id)
    }

    pub(crate) fn insert(&mut self, conn: Conn) {
        let id = conn.qp.shared.id.0;
        self.by_qpn.insert(conn.qp.shared.qpn, id);
        self.by_comm_id.insert(conn.cm.local_id, id);
        if !conn.cm.active {
            self.by_asker.insert((conn.qp.shared.peer, conn.cm.remote_id), id);
        }
        self.half_open += usize::from(conn.cm.is_half_open());
        self.conns.insert(id, Box::new(conn));
    }

    /// The other side's queue pair became known.
    pub(crate) fn learn(&mut self, id: u32) {
        if let Some(conn) = self.conns.get(&id) {
            self.by_peer_qpn.insert((conn.qp.shared.peer, conn.cm.remote_qpn), id);
        }
    }

    /// A passive connection is up, or will not be.
    pub(crate) fn settled(&mut self) {
        self.half_open = self.half_open.saturating_sub(1);
    }

    pub(crate) fn remove(&mut self, now: Instant, time_wait: core::time::Duration, id: u32) -> Option<Box<Conn>> {
        /// More are not kept: numbers are drawn by chance, so that one hardly comes again.
        const MOST: usize = 256;
        let conn = self.conns.remove(&id)?;
        self.half_open -= usize::from(conn.cm.is_half_open());
        let shared = &conn.qp.shared;
        self.by_qpn.remove(&shared.qpn);
        self.by_comm_id.remove(&conn.cm.local_id);
        for (map, key) in
            [(&mut self.by_asker, (shared.peer, conn.cm.remote_id)), (&mut self.by_peer_qpn, (shared.peer, conn.cm.remote_qpn))]
        {
            if map.get(&key) == Some(&id) {
                map.remove(&key);
            }
        }
        while self.resting.front().is_some_and(|(until, ..)| *until <= now) || self.resting.len() >= MOST {
            self.resting.pop_front();
        }
        self.resting.push_back((now + time_wait, shared.qpn, conn.cm.local_id));
        Some(conn)
    }
}
