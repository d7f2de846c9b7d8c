//! Where in a capsule data begins: the ICDOFF of the controller, which only its Identify data tells. [NVMe/RDMA 1.0, 3.3.1]

use std::collections::BTreeMap;
use std::net::IpAddr;

use nvmf_wire::admin::{Cns, Identify};
use nvmf_wire::identify::IdentifyController;
use nvmf_wire::layout::Structure;
use nvmf_wire::sqe::FabricsType;
use nvmf_wire::{Cid, Cntlid, Cqe, Opcode, Sqe, Status};

use super::event::Data;

/// Most controllers of which it is remembered.
const MAX_CONTROLLERS: usize = 1024;

/// What an Admin Queue says of its controller.
#[derive(Debug, Default)]
pub(super) struct Admin {
    connect: Option<Cid>,
    identify: Option<Cid>,
    cntlid: Option<Cntlid>,
    /// Said and not taken yet.
    icdoff: Option<u16>,
}

impl Admin {
    pub(super) fn command(&mut self, sqe: &Sqe) {
        if sqe.fctype() == Some(FabricsType::CONNECT) {
            self.connect = Some(sqe.cid());
        } else if sqe.opc() == Opcode::IDENTIFY && Identify::from_bytes(*sqe.as_bytes()).cns() == Cns::CONTROLLER {
            self.identify = Some(sqe.cid());
        }
    }

    pub(super) fn response(&mut self, cqe: &Cqe) {
        if self.connect == Some(cqe.cid()) && cqe.status().code() == Status::SUCCESS {
            self.cntlid = Some(Cntlid(cqe.dw0() as u16));
            self.connect = None;
        }
    }

    pub(super) fn data(&mut self, data: &Data) {
        let at = IdentifyController::LAYOUT.offset("icdoff") as u64;
        let from = data.offset().filter(|_| data.target.cid.is_some() && data.target.cid == self.identify);
        let bytes = from.and_then(|from| usize::try_from(at.checked_sub(from)?).ok()).and_then(|at| data.bytes.get(at..));
        if let Some(found) = bytes.and_then(|b| b.first_chunk::<2>()) {
            self.icdoff = Some(u16::from_le_bytes(*found));
            self.identify = None;
        }
    }

    /// Controller and ICDOFF, once both are known.
    pub(super) fn said(&mut self) -> Option<(Cntlid, u16)> {
        let cntlid = self.cntlid?;
        Some((cntlid, self.icdoff.take()?))
    }
}

/// Of all controllers, by the addresses of host and controller and the controller ID.
#[derive(Default)]
pub(super) struct Places {
    known: BTreeMap<(IpAddr, IpAddr, Cntlid), u16>,
}

impl Places {
    pub(super) fn note(&mut self, host: IpAddr, controller: IpAddr, (cntlid, icdoff): (Cntlid, u16)) {
        if self.known.len() >= MAX_CONTROLLERS {
            self.known.pop_first();
        }
        self.known.insert((host, controller, cntlid), icdoff);
    }

    /// Where data begins behind the SQE, bytes; 0 where it is not known.
    pub(super) fn of(&self, host: IpAddr, controller: IpAddr, cntlid: Cntlid) -> usize {
        self.known.get(&(host, controller, cntlid)).map_or(0, |icdoff| usize::from(*icdoff) * 16)
    }
}
