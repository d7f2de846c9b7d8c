//! The NIC: takes IP packets and work in, gives IP packets and events out.

use core::cmp::Reverse;
use core::net::SocketAddr;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use bytes::Bytes;
use nvmf_seam::rdma::{Accept, Ask, Device, DeviceError, DeviceEvent, Happening, Limits, Memory, QpId, Rkey, Work};
use nvmf_seam::{Entropy, Instant};
use nvmf_wire::cm::GSI_QPN;
use nvmf_wire::roce::{Bth, CNP_RESERVED, RoceOpcode};

use crate::cm::CmState;
use crate::common::Core;
use crate::counters::Counters;
use crate::packet::{CE, Parts};
use crate::qp::QpState;
use crate::receive::{self, Incoming, Source};
use crate::table::{Conn, Table};
use crate::{Datagram, NicSettings};

/// A software RoCEv2 NIC with one port. See the crate's documentation for how to drive it.
#[derive(Debug)]
pub struct Nic {
    pub(crate) core: Core,
    pub(crate) table: Table,
    pub(crate) listening: BTreeSet<u16>,
    agenda: Agenda,
}

/// Who may have something to do, and when.
#[derive(Debug, Default)]
struct Agenda {
    /// Connections that may have packets to send, each once.
    ring: VecDeque<u32>,
    /// Deadlines, of which only the one that its connection names as scheduled counts.
    timers: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl Agenda {
    /// A connection may have something to send, and another deadline.
    fn touch(&mut self, conn: &mut Conn) {
        if !core::mem::replace(&mut conn.in_ring, true) {
            self.ring.push_back(conn.qp.shared.id.0);
        }
        self.reschedule(conn);
    }

    /// Sees to it that the heap has an entry not later than the connection's deadline.
    fn reschedule(&mut self, conn: &mut Conn) {
        if let Some(deadline) = conn.deadline()
            && conn.scheduled.is_none_or(|at| at > deadline)
        {
            conn.scheduled = Some(deadline);
            self.timers.push(Reverse((deadline, conn.qp.shared.id.0)));
        }
    }
}

impl Nic {
    /// A NIC without connections. Everything that it chooses by chance (queue pair numbers, PSNs, communication IDs, keys) follows
    /// from `seed`; two NICs of one world have different ones.
    pub fn new(settings: NicSettings, seed: u64) -> Self {
        Self { core: Core::new(settings, seed), table: Table::default(), listening: BTreeSet::new(), agenda: Agenda::default() }
    }

    /// What it was made with.
    pub fn settings(&self) -> &NicSettings {
        &self.core.settings
    }

    /// What became of packets so far.
    pub fn counters(&self) -> &Counters {
        &self.core.counters
    }

    /// An IP packet came, from its version to its last byte; what is behind its total length (padding of a frame) is not looked at.
    /// What is no right packet for one of our connections changes nothing but [`Nic::counters`].
    pub fn handle_datagram(&mut self, now: Instant, datagram: Bytes) {
        self.take(now, Source::Whole(&datagram));
    }

    /// The same for a packet that is still in the parts in which another NIC made it: its payload is not copied.
    pub fn handle_parts(&mut self, now: Instant, datagram: &Datagram) {
        let [head, ..] = datagram.parts();
        let outer = if head.first().is_some_and(|b| b >> 4 == 6) { 48 } else { 28 };
        if head.len() < outer {
            // Parts that no NIC makes.
            return self.handle_datagram(now, datagram.to_bytes());
        }
        self.take(now, Source::Parts(datagram));
    }

    fn take(&mut self, now: Instant, source: Source<'_>) {
        let core = &mut self.core;
        let Some(packet) = receive::parse(&core.settings, &mut core.counters, &mut core.pool, source) else { return };
        let bth = packet.headers.bth;
        let conn = self.table.by_qpn(bth.dqpn());
        let known = conn.is_some();
        let mut conn = conn.filter(|c| c.qp.shared.peer == packet.from);
        if let Some(conn) = &mut conn {
            core.show(now, conn, &packet);
        }
        let c = &mut core.counters;
        if !packet.intact {
            // [ROCE-ICRC-01]
            c.bad_icrc += 1;
        } else if bth.tver() != 0 {
            // [ROCE-BTH-01]
            c.bad_version += 1;
        } else if (bth.pkey() ^ core.settings.pkey) & 0x7fff != 0 {
            c.bad_pkey += 1;
        } else if bth.dqpn() == GSI_QPN {
            self.handle_cm(now, &packet);
        } else if let Some(conn) = conn {
            let up = handle_packet(core, conn, now, &packet);
            self.agenda.touch(conn);
            if up {
                self.table.settled();
            }
        } else if known {
            c.wrong_peer += 1;
        } else {
            c.unknown_qp += 1;
        }
    }

    /// The next IP packet to be sent, until `None`: connections take turns, packet by packet.
    pub fn poll_datagram(&mut self, now: Instant) -> Option<Datagram> {
        let (id, datagram) = self.next_datagram(now)?;
        self.core.counters.sent += 1;
        if let Some(id) = id {
            self.record(now, id.0, || datagram.to_bytes());
        }
        Some(datagram)
    }

    fn next_datagram(&mut self, now: Instant) -> Option<(Option<QpId>, Datagram)> {
        if let Some(control) = self.core.control.pop_front() {
            return Some(control);
        }
        while let Some(id) = self.agenda.ring.pop_front() {
            let (core, Some(conn)) = (&mut self.core, self.table.get(id)) else { continue };
            match conn.qp.poll(core, now) {
                Some(datagram) => {
                    self.agenda.ring.push_back(id);
                    self.agenda.reschedule(conn);
                    return Some((Some(QpId(id)), datagram));
                }
                None => conn.in_ring = false,
            }
        }
        None
    }

    /// The earliest time at which [`Nic::handle_timeout`] has something to do.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        while let Some(Reverse((at, id))) = self.agenda.timers.peek().copied() {
            let conn = self.table.get(id).filter(|c| c.scheduled == Some(at));
            let Some(conn) = conn else {
                self.agenda.timers.pop();
                continue;
            };
            // Deadlines move on with every acknowledgement; the heap learns of it here.
            match conn.deadline() {
                Some(deadline) if deadline > at => {
                    conn.scheduled = Some(deadline);
                    self.agenda.timers.pop();
                    self.agenda.timers.push(Reverse((deadline, id)));
                }
                Some(_) => return Some(at),
                None => {
                    conn.scheduled = None;
                    self.agenda.timers.pop();
                }
            }
        }
        None
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(at) = self.poll_timeout()
            && at <= now
        {
            let Some(Reverse((_, id))) = self.agenda.timers.pop() else { return };
            let (core, Some(conn)) = (&mut self.core, self.table.get(id)) else { continue };
            conn.scheduled = None;
            conn.qp.handle_timeout(core, now);
            self.cm_timeout(now, id);
            self.touch(id);
        }
    }

    /// See [`Agenda::touch`].
    pub(crate) fn touch(&mut self, id: u32) {
        if let Some(conn) = self.table.get(id) {
            self.agenda.touch(conn);
        }
    }

    /// See [`Agenda::reschedule`].
    pub(crate) fn reschedule(&mut self, id: u32) {
        if let Some(conn) = self.table.get(id) {
            self.agenda.reschedule(conn);
        }
    }

    /// A queue pair number and a communication ID for a new connection, by chance over their whole range: a number that the other
    /// side still remembers would be taken for a stale connection.
    pub(crate) fn numbers(&mut self) -> Result<(u32, u32), DeviceError> {
        if self.table.len() >= self.core.settings.max_qps as usize {
            return Err(DeviceError::Full("queue pairs"));
        }
        loop {
            let (qpn, id) = (self.core.random24(), self.core.rng.next_u64() as u32);
            if self.table.qpn_free(qpn) && self.table.comm_id_free(id) {
                return Ok((qpn, id));
            }
        }
    }

    /// Takes a connection out.
    pub(crate) fn forget(&mut self, now: Instant, id: u32) {
        let time_wait = self.core.settings.time_wait;
        if let Some(mut conn) = self.table.remove(now, time_wait, id) {
            conn.qp.last_words(&mut self.core);
            self.core.forget_events(QpId(id));
        }
    }
}

/// A packet of its peer for a connection. True where it stands for RTU, and the connection is up by it.
fn handle_packet(core: &mut Core, conn: &mut Conn, now: Instant, packet: &Incoming<'_>) -> bool {
    let op = packet.headers.bth.opcode();
    if !conn.qp.shared.state.receives() {
        core.counters.wrong_state += 1;
        return false;
    }
    if op == RoceOpcode::CNP {
        core.counters.cnps_received += 1;
        return false;
    }
    if op.transport() != 0 {
        core.counters.wrong_transport += 1;
        return false;
    }
    if conn.mute {
        return false;
    }
    let up = conn.cm.state == CmState::RepSent;
    if up {
        conn.established(core);
    }
    if packet.traffic_class & 3 == CE {
        congested(core, conn, now);
    }
    conn.qp.handle(core, now, packet);
    up
}

/// Answers a congestion mark by a CNP, unless one went out just now. [IBA annex A17.9.3]
fn congested(core: &mut Core, conn: &mut Conn, now: Instant) {
    core.counters.congestion_marks += 1;
    let Some(interval) = core.settings.cnp_interval else { return };
    if conn.last_cnp.is_some_and(|last| now.since(last) < interval) {
        return;
    }
    conn.last_cnp = Some(now);
    let shared = &conn.qp.shared;
    let bth = Bth::new().with(|s| s.opcode(RoceOpcode::CNP).becn(true).pkey(core.settings.pkey).dqpn(shared.peer_qpn));
    if let Some(flow) = core.control_flow(shared.peer, core.settings.cnp_dscp, shared.qpn << 8 ^ shared.peer_qpn) {
        let parts = Parts { bth, extended: [&[], &[]], inline: &[0; CNP_RESERVED], payload: Bytes::new() };
        core.counters.cnps_sent += 1;
        core.push_control(Some(shared.id), flow.packet(parts));
    }
}

impl Device for Nic {
    fn limits(&self) -> Limits {
        self.core.settings.limits()
    }

    fn listen(&mut self, port: u16) -> Result<(), DeviceError> {
        self.listening.insert(port);
        Ok(())
    }

    fn connect(&mut self, now: Instant, to: SocketAddr, ask: &Ask) -> Result<QpId, DeviceError> {
        self.connect_with(now, to, ask, &[])
    }

    fn accept(&mut self, now: Instant, qp: QpId, accept: &Accept) -> Result<(), DeviceError> {
        self.accept_req(now, qp, accept)
    }

    fn reject(&mut self, now: Instant, qp: QpId, private: &[u8]) -> Result<(), DeviceError> {
        self.reject_req(now, qp, private)
    }

    fn disconnect(&mut self, now: Instant, qp: QpId) {
        self.start_disconnect(now, qp.0);
    }

    fn destroy(&mut self, now: Instant, qp: QpId) {
        self.forget(now, qp.0);
    }

    fn post(&mut self, _now: Instant, qp: QpId, work: Work) -> Result<(), DeviceError> {
        let (core, Some(conn)) = (&mut self.core, self.table.get(qp.0)) else { return Err(DeviceError::State) };
        // Before the connection stands only receives can be posted; afterwards work comes back flushed.
        let early = matches!(conn.cm.state, CmState::ReqSent | CmState::ReqReceived) && conn.qp.shared.state != QpState::Err;
        if early && !matches!(work, Work::Receive { .. }) {
            return Err(DeviceError::State);
        }
        conn.qp.post(core, work)?;
        self.agenda.touch(conn);
        Ok(())
    }

    fn deregister(&mut self, key: Rkey) -> Option<Memory> {
        self.core.regions.remove(key)
    }

    fn poll_event(&mut self) -> Option<(QpId, DeviceEvent)> {
        loop {
            match self.poll_happening()? {
                (qp, Happening::Completed(c)) => return Some((qp, DeviceEvent::Completed(c))),
                (qp, Happening::Cm(event)) => return Some((qp, DeviceEvent::Cm(event))),
                (_, Happening::Packet(_)) => {}
            }
        }
    }
}
