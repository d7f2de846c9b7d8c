//! The side that is asked. [IBA vol. 1, 12.9.7.2]

use core::net::SocketAddr;

use nvmf_seam::Instant;
use nvmf_seam::rdma::{Accept, Asked, CmEvent, DeviceError, Happening, Pd, QpId};
use nvmf_wire::cm::{CmMessage, CmMra, CmRep, CmReq, CmRtu, CmService, CmStage, IpCm, PathMtu, RejReason, SERVICE_ID};

use super::{Cm, CmState, Message, Side, messages};
use crate::common::Core;
use crate::nic::Nic;
use crate::qp::{PeerFacts, Qp};
use crate::table::Conn;

/// What a REQ wants, as far as accepting needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    first_psn: u32,
    resources: u8,
    flow_control: bool,
    retries: u8,
    rnr_retries: u8,
    ack_timeout: u8,
}

impl Nic {
    pub(super) fn on_req(&mut self, message: &Message<'_>) {
        let Ok(req) = CmReq::read(message.body) else { return };
        if let Some(id) = self.table.asker(message.from, req.local_id()) {
            return self.on_req_again(id, message);
        }
        match self.judge(message, &req) {
            Ok(asked) => self.take_req(message, &req, asked),
            Err(reason) => self.refuse(message, &req, reason),
        }
    }

    /// The same REQ, as its answer was lost or is not there yet: the same answer. [IBA vol. 1, 12.9.8.3]
    fn on_req_again(&mut self, id: u32, message: &Message<'_>) {
        self.show(message.now, id, message.packet);
        let (core, Some(conn)) = (&mut self.core, self.table.get(id)) else { return };
        match conn.cm.state {
            CmState::ReqReceived => {
                let mra = CmMra::new().with(|s| {
                    s.local_id(conn.cm.local_id)
                        .remote_id(conn.cm.remote_id)
                        .message(CmStage::REQ)
                        .timeout(core.settings.mra_timeout.min(31))
                });
                if let Some(d) = messages::datagram(core, message.from, &messages::mad(CmMessage::MRA, conn.cm.tid), &mra) {
                    core.push_control(Some(QpId(id)), d);
                }
            }
            CmState::RepSent => conn.cm.repeat(core, QpId(id)),
            _ => core.counters.stray_cm += 1,
        }
    }

    /// Whether a REQ can be passed to the consumer; else the reason of its REJ. [IBA vol. 1, 12.6.7.2]
    fn judge(&mut self, message: &Message<'_>, req: &CmReq) -> Result<Asked, RejReason> {
        let port = u16::try_from(req.service_id().wrapping_sub(SERVICE_ID)).ok().filter(|p| self.listening.contains(p));
        let port = port.ok_or(RejReason::INVALID_SERVICE_ID)?;
        if req.service() != CmService::RC {
            return Err(RejReason::INVALID_SERVICE_TYPE);
        }
        let s = &self.core.settings;
        if req.remote_gid() != messages::gid(s.address) || req.local_gid() != messages::gid(message.from) {
            return Err(RejReason::INVALID_GID);
        }
        if (req.pkey() ^ s.pkey) & 0x7fff != 0 {
            return Err(RejReason::INVALID_GID);
        }
        // [ROCE-CM-04]; and a path MTU that our own link does not carry would bring nothing but silence.
        if req.mtu().bytes().is_none() || req.mtu().0 > s.path_mtu() {
            return Err(RejReason::INVALID_MTU);
        }
        let private = req.private();
        let ip_cm = IpCm::read(&private).map_err(|_| RejReason::CONSUMER)?;
        let from = messages::ip_cm_address(ip_cm.ip(), ip_cm.source()).ok_or(RejReason::CONSUMER)?;
        let to = messages::ip_cm_address(ip_cm.ip(), ip_cm.destination()).ok_or(RejReason::CONSUMER)?;
        if ip_cm.major() != 0 || to != s.address {
            return Err(RejReason::CONSUMER);
        }
        // [IBA vol. 1, 12.9.8.3.1]: the other side lost the connection that it had on this queue pair.
        let old = self.table.peer_qpn(message.from, req.qpn());
        if let Some(old) = old.filter(|id| self.table.get(*id).is_some_and(|c| c.cm.state != CmState::Over)) {
            self.over(old, CmEvent::Disconnected);
            return Err(RejReason::STALE);
        }
        if self.table.half_open() >= self.core.settings.max_half_open as usize {
            return Err(RejReason::NO_RESOURCES);
        }
        Ok(Asked {
            from: SocketAddr::new(from, ip_cm.port()),
            to: SocketAddr::new(to, port),
            private: messages::shared(private.get(IpCm::LEN..).unwrap_or(&[])),
            responder_resources: req.resources(),
            initiator_depth: req.depth(),
            rnr_retry_count: req.rnr_retries(),
            flow_control: req.flow_control(),
        })
    }

    fn refuse(&mut self, message: &Message<'_>, req: &CmReq, reason: RejReason) {
        self.core.counters.refused_req += 1;
        let ids = (0, req.local_id());
        if let Some(d) = messages::reject(&mut self.core, message.from, message.mad.tid(), ids, (CmStage::REQ, reason), &[]) {
            self.core.push_control(None, d);
        }
    }

    fn take_req(&mut self, message: &Message<'_>, req: &CmReq, asked: Asked) {
        let Ok((qpn, local_id)) = self.numbers() else { return self.refuse(message, req, RejReason::NO_QP) };
        let id = self.table.next_id();
        let psn = self.core.first_psn();
        let wishes = Wishes {
            first_psn: req.psn(),
            resources: req.resources(),
            flow_control: req.flow_control(),
            retries: req.retries(),
            rnr_retries: req.rnr_retries(),
            ack_timeout: req.ack_timeout(),
        };
        let cm = Cm {
            state: CmState::ReqReceived,
            active: false,
            local_id,
            remote_id: req.local_id(),
            remote_qpn: req.qpn(),
            tid: message.mad.tid(),
            psn,
            mtu: req.mtu().0,
            kind: Side::Passive(wishes),
            waiting: None,
            deadline: None,
            tries_left: 0,
        };
        self.table.insert(Conn::new(Qp::new(id, qpn, message.from, Pd::default()), cm));
        self.table.learn(id.0);
        self.show(message.now, id.0, message.packet);
        self.core.tell(id, Happening::Cm(CmEvent::Request(asked)));
    }

    /// [`nvmf_seam::rdma::Device::accept`].
    pub(crate) fn accept_req(&mut self, now: Instant, qp: QpId, accept: &Accept) -> Result<(), DeviceError> {
        let (core, Some(conn)) = (&mut self.core, self.table.get(qp.0)) else { return Err(DeviceError::State) };
        let (CmState::ReqReceived, Side::Passive(wishes)) = (conn.cm.state, &conn.cm.kind) else {
            return Err(DeviceError::State);
        };
        if accept.private.len() > 196 {
            return Err(DeviceError::Full("private data"));
        }
        let most = core.settings.max_reads;
        let reads_in = accept.responder_resources.min(most);
        let facts = PeerFacts {
            qpn: conn.cm.remote_qpn,
            first_psn: conn.cm.psn,
            our_psn: wishes.first_psn,
            mtu: PathMtu(conn.cm.mtu).bytes().unwrap_or(256),
            flow_control: wishes.flow_control,
            // [RDMA-CM-04]
            reads_out: accept.initiator_depth.min(wishes.resources).min(most),
            reads_in,
            ack_timeout: wishes.ack_timeout,
            retries: wishes.retries,
            rnr_retries: wishes.rnr_retries,
        };
        conn.qp.shared.pd = accept.pd;
        if !conn.qp.connect(core, &facts) {
            return Err(DeviceError::State);
        }
        let rep = CmRep::new().with(|s| {
            s.local_id(conn.cm.local_id)
                .remote_id(conn.cm.remote_id)
                .qpn(conn.qp.shared.qpn)
                .psn(conn.cm.psn)
                .resources(reads_in)
                .depth(facts.reads_out)
                .ack_delay(core.settings.ack_delay)
                .flow_control(facts.flow_control)
                .rnr_retries(accept.rnr_retry_count.min(7))
                .ca_guid(core.settings.guid)
                .private(messages::padded(&accept.private))
        });
        let d = messages::datagram(core, conn.qp.shared.peer, &messages::mad(CmMessage::REP, conn.cm.tid), &rep);
        conn.cm.state = CmState::RepSent;
        conn.cm.send(core, qp, now, d);
        self.reschedule(qp.0);
        Ok(())
    }

    /// [`nvmf_seam::rdma::Device::reject`].
    pub(crate) fn reject_req(&mut self, now: Instant, qp: QpId, private: &[u8]) -> Result<(), DeviceError> {
        let (core, Some(conn)) = (&mut self.core, self.table.get(qp.0)) else { return Err(DeviceError::State) };
        if conn.cm.state != CmState::ReqReceived {
            return Err(DeviceError::State);
        }
        if private.len() > 148 {
            return Err(DeviceError::Full("private data"));
        }
        let (peer, tid, ids) = (conn.qp.shared.peer, conn.cm.tid, (conn.cm.local_id, conn.cm.remote_id));
        if let Some(d) = messages::reject(core, peer, tid, ids, (CmStage::REQ, RejReason::CONSUMER), private) {
            core.push_control(Some(qp), d);
        }
        self.forget(now, qp.0);
        Ok(())
    }

    pub(super) fn on_rtu(&mut self, message: &Message<'_>) {
        let Ok(rtu) = CmRtu::read(message.body) else { return };
        let Some(id) = self.addressee(message, rtu.remote_id(), rtu.local_id()) else { return };
        let (core, Some(conn)) = (&mut self.core, self.table.get(id)) else { return };
        match conn.cm.state {
            CmState::RepSent => {
                conn.established(core);
                self.table.settled();
            }
            CmState::Established => {}
            _ => core.counters.stray_cm += 1,
        }
    }
}

impl Conn {
    /// RTU came, or the first request in its place. [IBA vol. 1, 12.9.8.2]
    pub(crate) fn established(&mut self, core: &mut Core) {
        self.cm.answered(CmState::Established);
        core.tell(self.qp.shared.id, Happening::Cm(CmEvent::Established));
    }
}
