//! The side that asks for a connection. [IBA vol. 1, 12.9.7.1]

use core::net::SocketAddr;

use nvmf_seam::rdma::{Accepted, Ask, CmEvent, DeviceError, Happening, QpId};
use nvmf_seam::{Entropy, Instant};
use nvmf_wire::Value;
use nvmf_wire::cm::{CmMessage, CmRep, CmReq, CmRtu, CmService, CmStage, IpCm, Mad, PathMtu, RejReason, SERVICE_ID};
use nvmf_wire::layout::Structure;

use super::{Cm, CmState, Message, Side, messages};
use crate::nic::Nic;
use crate::qp::{PeerFacts, Qp};
use crate::table::Conn;

/// Consumer's private data of a REQ, behind the IP CM header.
const PRIVATE_MAX: usize = 56;

impl Nic {
    /// [`nvmf_seam::rdma::Device::connect`], with fields of REQ (`NAME`), IP CM header (`ip_cm.NAME`) and MAD header (`mad.NAME`)
    /// replaced on the wire. What the NIC itself believes of the connection stays as `ask` and its settings say.
    pub fn connect_with(&mut self, now: Instant, to: SocketAddr, ask: &Ask, with: &[(String, Value)]) -> Result<QpId, DeviceError> {
        if ask.private.len() > PRIVATE_MAX {
            return Err(DeviceError::Full("private data"));
        }
        if to.is_ipv4() != self.core.settings.address.is_ipv4() {
            return Err(DeviceError::Other(format!("{to} cannot be reached from {}", self.core.settings.address)));
        }
        let (qpn, local_id) = self.numbers()?;
        let id = self.table.next_id();
        let mut ask = ask.clone();
        let most = self.core.settings.max_reads;
        ask.responder_resources = ask.responder_resources.min(most);
        ask.initiator_depth = ask.initiator_depth.min(most);
        let (tid, psn) = (self.core.rng.next_u64(), self.core.first_psn());
        let mtu = self.core.settings.path_mtu();
        let mut req = self.req(to, &ask, (qpn, local_id, psn));
        let mut mad = messages::mad(CmMessage::REQ, tid);
        replace(&mut mad, &mut req, with).map_err(DeviceError::Other)?;
        // what the REQ says of them the peer goes by, and so does the queue pair, where it can
        let psn = req.psn();
        let mtu = req.mtu().bytes().map_or(mtu, |_| req.mtu().0.min(mtu));
        let message = messages::datagram(&mut self.core, to.ip(), &mad, &req);
        let qp = Qp::new(id, qpn, to.ip(), ask.pd);
        let mut cm = Cm {
            state: CmState::ReqSent,
            active: true,
            local_id,
            remote_id: 0,
            remote_qpn: 0,
            tid,
            psn,
            mtu,
            kind: Side::Active(ask),
            waiting: None,
            deadline: None,
            tries_left: 0,
        };
        cm.send(&mut self.core, id, now, message);
        self.table.insert(Conn::new(qp, cm));
        self.reschedule(id.0);
        Ok(id)
    }

    fn req(&mut self, to: SocketAddr, ask: &Ask, (qpn, local_id, psn): (u32, u32, u32)) -> CmReq {
        let port = 32_768 + self.core.rng.below(28_232) as u16;
        let s = &self.core.settings;
        let (version, source) = messages::to_ip_cm(s.address);
        let (_, destination) = messages::to_ip_cm(to.ip());
        let ip_cm = IpCm::new().with(|h| h.ip(version).port(port).source(source).destination(destination));
        let mut private = [0; 92];
        private[..IpCm::LEN].copy_from_slice(ip_cm.as_bytes());
        private[IpCm::LEN..].copy_from_slice(&messages::padded::<PRIVATE_MAX>(&ask.private));
        CmReq::new()
            .with(|r| {
                r.local_id(local_id)
                    .service_id(SERVICE_ID + u64::from(to.port()))
                    .ca_guid(s.guid)
                    .qpn(qpn)
                    .resources(ask.responder_resources)
                    .depth(ask.initiator_depth)
                    .remote_timeout(s.cm_timeout)
                    .service(CmService::RC)
                    .flow_control(ask.flow_control)
                    .psn(psn)
                    .local_timeout(s.cm_timeout)
                    .retries(ask.retry_count.min(7))
                    .pkey(s.pkey)
                    .mtu(PathMtu(s.path_mtu()))
                    .rnr_retries(ask.rnr_retry_count.min(7))
                    .cm_retries(s.cm_retries)
            })
            .with(|r| {
                // Of InfiniBand's own addresses there are none on Ethernet: the permissive LID. [IBA annex A17.7.3]
                r.local_lid(0xffff)
                    .remote_lid(0xffff)
                    .local_gid(messages::gid(s.address))
                    .remote_gid(messages::gid(to.ip()))
                    .traffic_class(s.dscp << 2)
                    .hop_limit(s.ttl)
                    .ack_timeout(s.ack_timeout)
                    .private(private)
            })
    }

    pub(super) fn on_rep(&mut self, message: &Message<'_>) {
        let Ok(rep) = CmRep::read(message.body) else { return };
        let Some(id) = self.addressee(message, rep.remote_id(), rep.local_id()) else {
            // [ROCE-CM-03]
            let ids = (rep.remote_id(), rep.local_id());
            let why = (CmStage::REP, RejReason::INVALID_COMM_ID);
            if let Some(d) = messages::reject(&mut self.core, message.from, message.mad.tid(), ids, why, &[]) {
                self.core.push_control(None, d);
            }
            return;
        };
        let (core, Some(conn)) = (&mut self.core, self.table.get(id)) else { return };
        match (conn.cm.state, &conn.cm.kind) {
            (CmState::ReqSent, Side::Active(ask)) => {
                conn.cm.remote_id = rep.local_id();
                conn.cm.remote_qpn = rep.qpn();
                let facts = PeerFacts {
                    qpn: rep.qpn(),
                    first_psn: conn.cm.psn,
                    our_psn: rep.psn(),
                    mtu: PathMtu(conn.cm.mtu).bytes().unwrap_or(256),
                    flow_control: ask.flow_control && rep.flow_control(),
                    reads_out: ask.initiator_depth.min(rep.resources()),
                    reads_in: ask.responder_resources,
                    ack_timeout: core.settings.ack_timeout.max(rep.ack_delay()),
                    retries: ask.retry_count.min(7),
                    rnr_retries: rep.rnr_retries(),
                };
                conn.qp.connect(core, &facts);
                conn.cm.answered(CmState::Established);
                let rtu = CmRtu::new().with(|s| s.local_id(conn.cm.local_id).remote_id(conn.cm.remote_id));
                conn.cm.waiting = messages::datagram(core, message.from, &messages::mad(CmMessage::RTU, conn.cm.tid), &rtu);
                conn.cm.repeat(core, QpId(id));
                let accepted = Accepted {
                    private: messages::shared(&rep.private()),
                    responder_resources: rep.resources(),
                    initiator_depth: rep.depth(),
                    rnr_retry_count: rep.rnr_retries(),
                };
                core.tell(QpId(id), Happening::Cm(CmEvent::Accepted(accepted)));
                self.table.learn(id);
            }
            // RTU was lost: every REP draws one. [IBA vol. 1, 12.9.8.4]
            (CmState::Established, Side::Active(_)) => conn.cm.repeat(core, QpId(id)),
            _ => core.counters.stray_cm += 1,
        }
        self.touch(id);
    }
}

/// Puts values into MAD, REQ and IP CM header by the names of their fields.
fn replace(mad: &mut Mad, req: &mut CmReq, with: &[(String, Value)]) -> Result<(), String> {
    for (name, value) in with {
        if let Some(name) = name.strip_prefix("mad.") {
            Mad::LAYOUT.write_field(mad.bytes_mut(), name, value)?;
        } else if let Some(name) = name.strip_prefix("ip_cm.") {
            let at = CmReq::LAYOUT.offset("private");
            let bytes = req.bytes_mut().get_mut(at..at + IpCm::LEN).unwrap_or(&mut []);
            IpCm::LAYOUT.write_field(bytes, name, value)?;
        } else {
            CmReq::LAYOUT.write_field(req.bytes_mut(), name, value)?;
        }
    }
    Ok(())
}
