//! Connection management: how queue pairs learn of each other, by messages over queue pair 1. [IBA vol. 1, 12]
//!
//! `active` asks (REQ, RTU), `passive` answers (REP, REJ, MRA); what both do, to end a connection and to send again what may be lost,
//! is here.

mod active;
mod messages;
mod passive;

use core::net::IpAddr;

use nvmf_seam::Instant;
use nvmf_seam::rdma::{Ask, CmEvent, Happening, QpId};
use nvmf_wire::cm::{CmDrep, CmDreq, CmMessage, CmMra, CmRej, CmStage, MAD_LEN, Mad, RejReason};
use nvmf_wire::roce::RoceOpcode;

use crate::nic::Nic;
use crate::receive::Incoming;
use crate::settings::coded_time;
use crate::{Datagram, common::Core};

/// Where a connection is. [IBA vol. 1, 12.9.7]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CmState {
    /// Active: waits for REP.
    ReqSent,
    /// Passive: the consumer decides.
    ReqReceived,
    /// Passive: waits for RTU.
    RepSent,
    Established,
    /// Waits for DREP.
    DreqSent,
    /// Nothing more is sent; a DREQ that comes again is still answered.
    Over,
}

/// What CM knows of a connection.
#[derive(Debug)]
pub(crate) struct Cm {
    pub state: CmState,
    pub active: bool,
    pub local_id: u32,
    pub remote_id: u32,
    pub remote_qpn: u32,
    /// Transaction of the REQ, which all messages of the connection's making repeat.
    pub tid: u64,
    /// PSN that our message names: of the other side's first request.
    pub psn: u32,
    /// Code of the path MTU.
    pub mtu: u8,
    pub kind: Side,
    /// The message that waits for an answer.
    waiting: Option<Datagram>,
    deadline: Option<Instant>,
    tries_left: u8,
}

/// What one side has to remember.
#[derive(Debug)]
pub(crate) enum Side {
    Active(Ask),
    Passive(passive::Wishes),
}

impl Cm {
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub(crate) fn is_half_open(&self) -> bool {
        matches!(self.state, CmState::ReqReceived | CmState::RepSent)
    }

    /// Sends a message now, and again until it is answered.
    fn send(&mut self, core: &mut Core, qp: QpId, now: Instant, message: Option<Datagram>) {
        self.tries_left = core.settings.cm_retries;
        self.deadline = coded_time(core.settings.cm_timeout).map(|t| now + t);
        self.waiting = message;
        self.repeat(core, qp);
    }

    fn repeat(&self, core: &mut Core, qp: QpId) {
        if let Some(d) = &self.waiting {
            core.push_control(Some(qp), d.clone());
        }
    }

    /// Nothing waits for an answer any more. What a REQ may draw again from a passive side stays.
    fn answered(&mut self, state: CmState) {
        self.state = state;
        self.deadline = None;
    }
}

/// One CM message.
pub(crate) struct Message<'a> {
    pub now: Instant,
    pub from: IpAddr,
    pub mad: Mad,
    /// Behind the MAD header.
    pub body: &'a [u8],
    pub packet: &'a Incoming<'a>,
}

impl Nic {
    /// A packet for queue pair 1.
    pub(crate) fn handle_cm(&mut self, now: Instant, packet: &Incoming<'_>) {
        let h = &packet.headers;
        let whole = packet.payload.len() == MAD_LEN && h.bth.opcode() == RoceOpcode::UD_SEND_ONLY;
        let qkey = h.deth.is_some_and(|d| d.qkey() == nvmf_wire::cm::GSI_QKEY);
        let mad = Mad::read(&packet.payload).ok().filter(Mad::is_cm);
        let (Some(mad), true, true) = (mad, whole, qkey) else {
            self.core.counters.bad_mad += 1;
            return;
        };
        let body = packet.payload.get(Mad::LEN..).unwrap_or(&[]);
        let message = Message { now, from: packet.from, mad, body, packet };
        match mad.attribute() {
            CmMessage::REQ => self.on_req(&message),
            CmMessage::REP => self.on_rep(&message),
            CmMessage::RTU => self.on_rtu(&message),
            CmMessage::REJ => self.on_rej(&message),
            CmMessage::MRA => self.on_mra(&message),
            CmMessage::DREQ => self.on_dreq(&message),
            CmMessage::DREP => self.on_drep(&message),
            _ => self.core.counters.bad_mad += 1,
        }
    }

    /// The connection that a message names as its own (`ours`) and as the sender's (`theirs`), and shows it. Only REP, and REJ of a
    /// REQ, tell of a communication ID that is not known yet.
    pub(super) fn addressee(&mut self, message: &Message<'_>, ours: u32, theirs: u32) -> Option<u32> {
        let id = self.table.comm_id(ours).filter(|id| {
            self.table.get(*id).is_some_and(|c| {
                let known = c.cm.state != CmState::ReqSent && c.cm.remote_id != 0;
                c.qp.shared.peer == message.from && (!known || c.cm.remote_id == theirs)
            })
        });
        match id {
            Some(id) => self.show(message.now, id, message.packet),
            None => self.core.counters.stray_cm += 1,
        }
        id
    }

    fn on_mra(&mut self, message: &Message<'_>) {
        /// A longer service time than a minute is not waited for.
        const LONGEST: u8 = 24;
        let Ok(mra) = CmMra::read(message.body) else { return };
        let Some(id) = self.addressee(message, mra.remote_id(), mra.local_id()) else { return };
        let (core, Some(conn)) = (&mut self.core, self.table.get(id)) else { return };
        let fits = matches!((conn.cm.state, mra.message()), (CmState::ReqSent, CmStage::REQ) | (CmState::RepSent, CmStage::REP));
        match (fits, coded_time(mra.timeout().min(LONGEST))) {
            (true, Some(t)) => conn.cm.deadline = Some(message.now + t + coded_time(core.settings.cm_timeout).unwrap_or_default()),
            _ => core.counters.stray_cm += 1,
        }
        self.reschedule(id);
    }

    fn on_rej(&mut self, message: &Message<'_>) {
        let Ok(rej) = CmRej::read(message.body) else { return };
        let Some(id) = self.addressee(message, rej.remote_id(), rej.local_id()) else { return };
        let Some(conn) = self.table.get(id) else { return };
        let event = match conn.cm.state {
            CmState::ReqSent => CmEvent::Rejected { reason: rej.reason().0, private: messages::shared(&rej.private()) },
            CmState::RepSent | CmState::Established => CmEvent::Disconnected,
            _ => {
                self.core.counters.stray_cm += 1;
                return;
            }
        };
        self.over(id, event);
    }

    fn on_dreq(&mut self, message: &Message<'_>) {
        let Ok(dreq) = CmDreq::read(message.body) else { return };
        let id = self.table.comm_id(dreq.remote_id());
        let Some(id) = id.filter(|id| self.table.get(*id).is_some_and(|c| c.qp.shared.peer == message.from)) else {
            // Forgotten, or never known: the other side is to have its peace. [IBA vol. 1, 12.9.8.3.2]
            self.core.counters.stray_cm += 1;
            return self.drep(message.from, message.mad.tid(), dreq.remote_id(), dreq.local_id(), None);
        };
        self.show(message.now, id, message.packet);
        let Some(conn) = self.table.get(id) else { return };
        if conn.cm.remote_id != dreq.local_id() || conn.qp.shared.qpn != dreq.remote_qpn() {
            self.core.counters.stray_cm += 1;
            return;
        }
        let state = conn.cm.state;
        self.drep(message.from, message.mad.tid(), dreq.remote_id(), dreq.local_id(), Some(id));
        match state {
            CmState::RepSent | CmState::Established | CmState::DreqSent => self.over(id, CmEvent::Disconnected),
            _ => {}
        }
    }

    fn drep(&mut self, to: IpAddr, tid: u64, local_id: u32, remote_id: u32, qp: Option<u32>) {
        let drep = CmDrep::new().with(|s| s.local_id(local_id).remote_id(remote_id));
        if let Some(d) = messages::datagram(&mut self.core, to, &messages::mad(CmMessage::DREP, tid), &drep) {
            self.core.push_control(qp.map(QpId), d);
        }
    }

    fn on_drep(&mut self, message: &Message<'_>) {
        let Ok(drep) = CmDrep::read(message.body) else { return };
        let Some(id) = self.addressee(message, drep.remote_id(), drep.local_id()) else { return };
        match self.table.get(id).map(|c| c.cm.state) {
            Some(CmState::DreqSent) => self.over(id, CmEvent::Disconnected),
            _ => self.core.counters.stray_cm += 1,
        }
    }

    /// The connection ends: work is flushed, the consumer is told.
    pub(super) fn over(&mut self, id: u32, event: CmEvent) {
        let (core, Some(conn)) = (&mut self.core, self.table.get(id)) else { return };
        let half = conn.cm.is_half_open();
        conn.cm.answered(CmState::Over);
        conn.cm.waiting = None;
        conn.qp.fault(core);
        core.tell(QpId(id), Happening::Cm(event));
        if half {
            self.table.settled();
        }
    }

    /// Begins to end the connection.
    pub(crate) fn start_disconnect(&mut self, now: Instant, id: u32) {
        let (core, Some(conn)) = (&mut self.core, self.table.get(id)) else { return };
        let half = conn.cm.is_half_open();
        match conn.cm.state {
            CmState::Established | CmState::RepSent => {
                let dreq = CmDreq::new()
                    .with(|s| s.local_id(conn.cm.local_id).remote_id(conn.cm.remote_id).remote_qpn(conn.cm.remote_qpn));
                let mad = messages::mad(CmMessage::DREQ, conn.cm.tid.wrapping_add(1));
                let d = messages::datagram(core, conn.qp.shared.peer, &mad, &dreq);
                conn.cm.state = CmState::DreqSent;
                conn.qp.fault(core);
                conn.cm.send(core, QpId(id), now, d);
                if half {
                    self.table.settled();
                }
            }
            CmState::ReqSent | CmState::ReqReceived => self.over(id, CmEvent::Disconnected),
            CmState::DreqSent | CmState::Over => {}
        }
        self.reschedule(id);
    }

    /// Time is over for a message of ours: again, or no more.
    pub(crate) fn cm_timeout(&mut self, now: Instant, id: u32) {
        let (core, Some(conn)) = (&mut self.core, self.table.get(id)) else { return };
        if conn.cm.deadline.is_none_or(|at| at > now) {
            return;
        }
        if let Some(left) = conn.cm.tries_left.checked_sub(1) {
            conn.cm.tries_left = left;
            conn.cm.deadline = coded_time(core.settings.cm_timeout).map(|t| now + t);
            return conn.cm.repeat(core, QpId(id));
        }
        let (state, peer, tid, ids) = (conn.cm.state, conn.qp.shared.peer, conn.cm.tid, (conn.cm.local_id, conn.cm.remote_id));
        let stage = match state {
            CmState::ReqSent => CmStage::REQ,
            CmState::RepSent => CmStage::REP,
            _ => return self.over(id, CmEvent::Disconnected),
        };
        // [IBA vol. 1, 12.9.8.7]
        if let Some(d) = messages::reject(core, peer, tid, ids, (stage, RejReason::TIMEOUT), &[]) {
            core.push_control(Some(QpId(id)), d);
        }
        self.over(id, CmEvent::Unreachable);
    }
}
