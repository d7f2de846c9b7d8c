//! REQ, REP and REJ: what the host asks for, and what it makes of the answer. [NVMe RDMA Transport 1.0, 3.1.4]

use bytes::Bytes;
use nvmf_seam::Instant;
use nvmf_seam::rdma::{Accepted, Ask, CmEvent};
use nvmf_spec::req;
use nvmf_wire::cm::RejReason;
use nvmf_wire::rdma::{RECORD_FORMAT, RdmaAccept, RdmaReject, RdmaRequest};
use nvmf_wire::{Cntlid, Qid, ZeroBased16};

use super::{HostConnection, State};
use crate::host::connection::{Agreed, Granted, HostEvent};
use crate::host::settings::HostRdmaSettings;

/// REQ: RECFMT 0, the queue, a receive for each of its places, SQSIZE of its Connect; READs of the controller are answered, none are asked
/// for. [RDMA-CM-03, RDMA-CM-06, RDMA-CM-07, RDMA-CM-10 to RDMA-CM-17]
pub(super) fn ask(settings: &HostRdmaSettings, qid: Qid, entries: u16, cntlid: Cntlid) -> Ask {
    let request = RdmaRequest::new()
        .with(|s| s.recfmt(RECORD_FORMAT).qid(qid).hrqsize(entries).hsqsize(ZeroBased16::of(entries.into())).cntlid(cntlid));
    Ask {
        private: Bytes::copy_from_slice(request.as_bytes()),
        responder_resources: settings.responder_resources,
        initiator_depth: 0,
        retry_count: settings.retry_count,
        rnr_retry_count: settings.rnr_retry_count,
        flow_control: true,
        pd: settings.pd,
    }
}

/// What a REJ says, in words. [RDMA-CM-22]
fn rejected(reason: u16, private: &[u8]) -> String {
    let reason = RejReason(reason);
    let said = RdmaReject::read(private).ok().filter(|r| reason == RejReason::CONSUMER && r.recfmt() == RECORD_FORMAT);
    match said.map(|r| r.sts()).filter(|s| s.0 != 0) {
        Some(sts) => format!("the controller refuses the queue: {sts} (STS {:02x}h)", sts.0),
        None => format!("the connection was refused: {reason} (REJ reason {})", reason.0),
    }
}

impl HostConnection {
    /// CM has news of the connection.
    pub fn handle_cm(&mut self, event: CmEvent, now: Instant) {
        self.now = now;
        let asking = matches!(self.state, State::Asking { .. });
        match event {
            CmEvent::Accepted(rep) if asking => self.accepted(&rep),
            CmEvent::Rejected { reason, private } if asking => self.refused(rejected(reason, &private)),
            CmEvent::Unreachable if asking => self.refused("no answer to the CM REQ".into()),
            CmEvent::Disconnected if asking => self.refused("the controller gave up the connection".into()),
            CmEvent::Removed if asking => self.refused("the RDMA device is gone".into()),
            CmEvent::Disconnected => self.close(false),
            CmEvent::Removed => {
                self.broken("the RDMA device is gone");
                self.give_up();
            }
            // Of the passive side, or too late.
            _ => {}
        }
    }

    fn refused(&mut self, why: String) {
        self.ledger.events.push_back(HostEvent::Refused(why));
        self.end(false);
    }

    /// REP, judged: what cannot be read ends the connection, what is merely not as it should be is noted.
    fn accepted(&mut self, rep: &Accepted) {
        let said = RdmaAccept::read(&rep.private).unwrap_or_default();
        if said.recfmt() != RECORD_FORMAT {
            return self.violated(req::RDMA_CM_18, format!("REP with RECFMT {}", said.recfmt()));
        }
        let crqsize = said.crqsize();
        // The one is a count, the other 0's based, and both are called equal: either reading is taken. [RDMA-CM-20]
        let (least, most) = (self.entries - 1, self.entries);
        let retries = self.settings.rnr_retry_count > 0;
        if !retries && crqsize == 0 {
            return self.violated(req::RDMA_CM_20, "CRQSIZE 0 without RNR retries".into());
        }
        if !retries {
            // Nobody waits for a receive that is not there. [RDMA-CM-21]
            self.window = usize::from(crqsize);
        }
        let rules = [
            (said.as_bytes().iter().skip(4).any(|b| *b != 0), req::RDMA_CM_18, "reserved bytes of the private data"),
            (retries && crqsize > most, req::RDMA_CM_19, "CRQSIZE above HSQSIZE"),
            (!retries && !(least..=most).contains(&crqsize), req::RDMA_CM_20, "CRQSIZE that is not HSQSIZE"),
            (rep.responder_resources != 0, req::RDMA_CM_05, "responder resources, though hosts do not READ"),
            (rep.initiator_depth > self.settings.responder_resources, req::RDMA_CM_04, "more READs than the host answers"),
            (rep.rnr_retry_count != self.settings.rnr_retry_count, req::RDMA_CM_09, "another RNR retry count"),
        ];
        for (_, requirement, what) in rules.into_iter().filter(|(broken, ..)| *broken) {
            let (r, d, n) = (rep.responder_resources, rep.initiator_depth, rep.rnr_retry_count);
            let seen = format!("REP with {what}: CRQSIZE {crqsize}, responder resources {r}, initiator depth {d}, RNR retries {n}");
            self.ledger.note(requirement, seen);
        }
        self.state = State::Ready;
        let granted = Granted { crqsize, reads: rep.initiator_depth, rnr_retry_count: rep.rnr_retry_count };
        self.ledger.events.push_back(HostEvent::Ready(Agreed::Rdma(granted)));
    }
}
