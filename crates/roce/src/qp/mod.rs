//! One queue pair of a reliable connection: its [`Requester`] sends what its consumer posts, its [`Responder`] answers the other side.
//! [IBA vol. 1, 9.7]

mod requester;
mod responder;
mod state;
mod wqe;

use core::net::IpAddr;

use nvmf_seam::Instant;
use nvmf_seam::rdma::{Completion, DeviceError, Done, Happening, Pd, QpId, Work, WorkError, WorkId};
use nvmf_wire::roce::{Aeth, AethKind, Bth, NakCode, RoceOpcode};

use crate::Datagram;
use crate::common::Core;
use crate::packet::{Flow, Parts};
use crate::receive::Incoming;

pub(crate) use requester::Requester;
pub(crate) use responder::Responder;
pub(crate) use state::{QpEvent, QpState};

use wqe::Wqe;

/// What both halves need to know.
#[derive(Debug)]
pub(crate) struct Shared {
    pub id: QpId,
    pub qpn: u32,
    pub peer_qpn: u32,
    pub peer: IpAddr,
    pub pd: Pd,
    pub state: QpState,
    /// Path MTU, bytes.
    pub mtu: u32,
    /// Credits are counted. [IBA vol. 1, 9.7.7.2]
    pub flow_control: bool,
    pub flow: Option<Flow>,
}

#[derive(Debug)]
pub(crate) struct Qp {
    pub shared: Shared,
    pub requester: Requester,
    pub responder: Responder,
}

/// What CM found out about the other side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerFacts {
    pub qpn: u32,
    /// PSN of its first request: that which our CM message named.
    pub first_psn: u32,
    /// PSN of our first request: that which its CM message named.
    pub our_psn: u32,
    pub mtu: u32,
    pub flow_control: bool,
    /// READs that we have out at a time.
    pub reads_out: u8,
    /// READs of the other side that we answer at a time.
    pub reads_in: u8,
    /// Local ACK Timeout, n of 4.096 us * 2^n.
    pub ack_timeout: u8,
    pub retries: u8,
    pub rnr_retries: u8,
}

impl Shared {
    /// A packet to the other side.
    pub(crate) fn packet(
        &self,
        core: &Core,
        bth: Bth,
        extended: [&[u8]; 2],
        inline: &[u8],
        payload: bytes::Bytes,
    ) -> Option<Datagram> {
        let bth = bth.with(|s| s.pkey(core.settings.pkey).dqpn(self.peer_qpn));
        Some(self.flow.as_ref()?.packet(Parts { bth, extended, inline, payload }))
    }

    pub(crate) fn complete(&self, core: &mut Core, id: WorkId, result: Result<Done, WorkError>) {
        core.tell(self.id, Happening::Completed(Completion { id, result }));
    }
}

impl Qp {
    pub(crate) fn new(id: QpId, qpn: u32, peer: IpAddr, pd: Pd) -> Self {
        let state = QpState::Reset.after(QpEvent::Assigned);
        let shared = Shared { id, qpn, peer_qpn: 0, peer, pd, state, mtu: 256, flow_control: false, flow: None };
        Self { shared, requester: Requester::default(), responder: Responder::default() }
    }

    /// To RTR and RTS. False where the other side's address is not of our family.
    pub(crate) fn connect(&mut self, core: &Core, facts: &PeerFacts) -> bool {
        let s = &core.settings;
        let traffic_class = s.dscp << 2 | if s.ect { crate::packet::ECT0 } else { 0 };
        let entropy = self.shared.qpn << 8 ^ facts.qpn;
        self.shared.flow = Flow::new(s, self.shared.peer, traffic_class, entropy);
        self.shared.peer_qpn = facts.qpn;
        self.shared.mtu = facts.mtu;
        self.shared.flow_control = facts.flow_control;
        self.requester.start(facts);
        self.responder.start(facts);
        self.shared.state = self.shared.state.after(QpEvent::PeerKnown).after(QpEvent::Established);
        self.shared.flow.is_some()
    }

    /// Takes work. The error says which limit it meets; it is not executed then.
    pub(crate) fn post(&mut self, core: &mut Core, work: Work) -> Result<(), DeviceError> {
        let max = core.settings.max_work as usize;
        if let Work::Receive { id, len } = work {
            if self.responder.receives() >= max {
                return Err(DeviceError::Full("receive buffers"));
            }
            self.responder.post(&self.shared, core, id, len);
            return Ok(());
        }
        if self.requester.len() >= max {
            return Err(DeviceError::Full("entries in the send queue"));
        }
        let limit = core.settings.max_transfer.min(1 << 30) as usize;
        match &work {
            Work::Read { len, .. } if *len as usize > limit => return Err(DeviceError::Full("bytes for one READ")),
            Work::Write { data, .. } if data.len() > limit => return Err(DeviceError::Full("bytes for one WRITE")),
            Work::Send { payload, .. } if payload.len() > limit => return Err(DeviceError::Full("bytes for one SEND")),
            Work::Register { memory, .. } if memory.len() as u64 > core.settings.max_region => {
                return Err(DeviceError::Full("bytes for one region"));
            }
            _ => {}
        }
        let wqe = match work {
            Work::Register { id, memory, access } => match core.regions.insert(memory, access, self.shared.pd, &mut core.rng) {
                Ok(remote) => Some(Wqe::register(id, remote)),
                Err(_) => return Err(DeviceError::Full("regions")),
            },
            work => Wqe::new(work, self.shared.mtu),
        };
        if let Some(wqe) = wqe {
            self.requester.post(&self.shared, core, wqe);
        }
        Ok(())
    }

    /// To ERR: all work is flushed. [IBA vol. 1, 10.10.2.3]
    pub(crate) fn fault(&mut self, core: &mut Core) {
        if self.shared.state == QpState::Err {
            return;
        }
        self.shared.state = self.shared.state.after(QpEvent::Fault);
        self.requester.flush(&self.shared, core);
        self.responder.flush(&self.shared, core);
    }

    /// The connection is forgotten: a refusal that did not go out yet goes now, so that the other side learns why; what nobody can take
    /// out any more is taken out.
    pub(crate) fn last_words(&mut self, core: &mut Core) {
        let id = self.shared.id;
        self.responder.only_refusals();
        while let Some(d) = self.responder.poll(&self.shared, core) {
            core.push_control(Some(id), d);
        }
        self.fault(core);
    }

    /// A packet of the other side.
    pub(crate) fn handle(&mut self, core: &mut Core, now: Instant, packet: &Incoming<'_>) {
        let op = packet.headers.bth.opcode();
        let fine = match op.is_response() {
            true => self.requester.handle(&self.shared, core, now, packet),
            false => self.responder.handle(&self.shared, core, packet),
        };
        if !fine {
            self.fault(core);
        }
    }

    /// The next packet, where there is one to send now: answers first.
    pub(crate) fn poll(&mut self, core: &mut Core, now: Instant) -> Option<Datagram> {
        if let Some(d) = self.responder.poll(&self.shared, core) {
            if self.responder.is_broken() {
                self.fault(core);
            }
            return Some(d);
        }
        self.requester.poll(&self.shared, core, now)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.requester.deadline()
    }

    pub(crate) fn handle_timeout(&mut self, core: &mut Core, now: Instant) {
        if !self.requester.handle_timeout(&self.shared, core, now) {
            self.fault(core);
        }
    }
}

/// An acknowledgement packet.
pub(crate) fn acknowledge(shared: &Shared, core: &Core, psn: u32, aeth: Aeth) -> Option<Datagram> {
    let bth = Bth::new().with(|s| s.opcode(RoceOpcode::ACK).psn(psn));
    shared.packet(core, bth, [aeth.as_bytes(), &[]], &[], bytes::Bytes::new())
}

/// The AETH of a NAK.
pub(crate) fn nak_aeth(code: NakCode, msn: u32) -> Aeth {
    Aeth::new().with(|s| s.kind(AethKind::NAK).value(code.0).msn(msn))
}
