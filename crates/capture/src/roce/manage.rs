//! Connections by what connection management says of them. [IBA vol. 1, 12; NVMe/RDMA 1.0, 3.1]

use std::net::IpAddr;

use bytes::Bytes;
use nvmf_wire::Qid;
use nvmf_wire::cm::{CmDreq, CmMessage, CmRep, CmReq, IpCm, MAD_LEN, Mad, SERVICE_ID};
use nvmf_wire::layout::Structure;
use nvmf_wire::rdma::{RECORD_FORMAT, RdmaRequest};
use nvmf_wire::roce::Headers;

use super::event::{Cm, Icrc, Packet, Place};
use super::pair::{Out, Pair, When};
use super::{Known, Roce};
use crate::exchange::Direction;
use crate::follow::Watcher;

impl Roce {
    /// A datagram for queue pair 1, from one address to another.
    pub(super) fn manage(
        &mut self,
        (from, to): (IpAddr, IpAddr),
        when: When,
        headers: &Headers,
        mut packet: Packet,
        next: &mut usize,
        watcher: &mut dyn Watcher,
    ) {
        let payload = packet.payload_behind(headers);
        let Some(mad) = Mad::read(&payload).ok().filter(|m| m.is_cm() && payload.len() >= MAD_LEN) else { return };
        let bytes = payload.slice(Mad::LEN..MAD_LEN);
        let bad = matches!(packet.icrc, Icrc::Bad { .. });
        let found = self.named(from, to, mad.attribute(), &bytes);
        let (conn, dir) = match (found, CmReq::read(&bytes)) {
            (Some(known), _) => known,
            (None, Ok(req)) if mad.attribute() == CmMessage::REQ && !bad && self.is_nvme(&req) => {
                let pair = Pair::new(self.place(from, to, &req));
                let (ids, qpns) = ([Some(req.local_id()), None], [Some(req.qpn()), None]);
                let known = Known { pair, host: from, controller: to, qpns, ids, sent: [0; 2], inferred: false };
                (self.open(known, when, next, watcher), Direction::HostToController)
            }
            _ => return,
        };
        let Some(known) = self.known.get_mut(&conn) else { return };
        let bit = 1u16 << (mad.attribute().0 & 15);
        let repeated = known.sent[dir.index()] & bit != 0;
        packet.place = if repeated { Place::Repeated } else { Place::Next };
        let mut out = Out { conn, when, watcher, room: &mut self.room };
        out.packet(dir, packet);
        if bad {
            return;
        }
        known.sent[dir.index()] |= bit;
        out.rdma(dir, super::Rdma::Cm(Cm { mad, bytes: bytes.clone(), repeated }));
        if repeated {
            return;
        }
        let learnt = match mad.attribute() {
            CmMessage::REQ => CmReq::read(&bytes).is_ok_and(|req| {
                // The PSN in a message is the one that the other side starts with.
                known.pair.begin(Direction::ControllerToHost, req.psn(), req.mtu().bytes());
                true
            }),
            CmMessage::REP => CmRep::read(&bytes).is_ok_and(|rep| {
                known.pair.begin(Direction::HostToController, rep.psn(), None);
                known.qpns[1] = Some(rep.qpn());
                known.ids[1] = Some(rep.local_id());
                true
            }),
            _ => false,
        };
        if learnt {
            out.rdma(dir, known.queue_pairs());
            self.learn(conn);
        }
        if matches!(mad.attribute(), CmMessage::REJ | CmMessage::DREP) {
            self.end(conn, watcher);
        }
    }

    /// Where data begin in the capsules of a queue, as its controller's Admin Queue has said.
    fn place(&self, host: IpAddr, controller: IpAddr, req: &CmReq) -> usize {
        let private = req.private();
        let request = RdmaRequest::read(private.get(IpCm::LEN..).unwrap_or(&[]));
        let io = request.ok().filter(|r| r.qid() != Qid::ADMIN);
        io.map_or(0, |r| self.places.of(host, controller, r.cntlid()))
    }

    /// The connection that a message is about, and who sends it.
    fn named(&self, from: IpAddr, to: IpAddr, message: CmMessage, bytes: &Bytes) -> Option<(usize, Direction)> {
        let word = |at: usize| bytes.get(at..)?.first_chunk::<4>().map(|b| u32::from_be_bytes(*b));
        let own = self.ids.get(&(from, to, word(0)?)).copied();
        if message == CmMessage::REQ {
            // An ID is given again to another queue pair: that is another connection.
            let qpn = CmReq::read(bytes).ok()?.qpn();
            return own.filter(|(conn, _)| self.known.get(conn).is_some_and(|k| k.qpns[0] == Some(qpn)));
        }
        let peers = self.ids.get(&(to, from, word(4)?)).map(|(conn, dir)| (*conn, dir.reverse()));
        let by_id = own.or(peers);
        if by_id.is_some() || message != CmMessage::DREQ {
            return by_id;
        }
        // Where the start of the connection is missing.
        let qpn = CmDreq::read(bytes).ok()?.remote_qpn();
        self.ways.get(&(from, to, qpn)).copied()
    }

    /// True for a REQ to one of the ports, or one whose private data is that of NVMe.
    fn is_nvme(&self, req: &CmReq) -> bool {
        let port = req.service_id().checked_sub(SERVICE_ID).and_then(|p| u16::try_from(p).ok());
        let Some(port) = port else { return false };
        let private = req.private();
        let (ip, own) = private.split_at(IpCm::LEN);
        let (Ok(ip), Ok(request)) = (IpCm::read(ip), RdmaRequest::read(own)) else { return false };
        let rest = own.get(RdmaRequest::LEN..).unwrap_or(&[]);
        let shaped = matches!(ip.ip(), 4 | 6)
            && request.recfmt() == RECORD_FORMAT
            && request.hrqsize() > 0
            && request.hsqsize().0 > 0
            && RdmaRequest::LAYOUT.reserved_set(own).is_none()
            && rest.iter().all(|b| *b == 0);
        self.ports.contains(&port) || shaped
    }
}
