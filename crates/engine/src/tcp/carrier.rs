//! How NVMe/TCP carries the data of commands: where it lies, R2Ts to fetch it, and the end of a command.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use nvmf_wire::{Cid, Sqe, Status};

use super::send::Out;
use super::transfer::{Receive, Transfers};
use crate::queue::{Binding, Located, Reply, Transfer};
use crate::settings::TcpSettings;

/// What the queue of an NVMe/TCP connection needs of its transport.
#[derive(Debug)]
pub(super) struct Carrier {
    pub settings: Arc<TcpSettings>,
    /// R2Ts that may be outstanding for one command.
    pub max_r2ts: u32,
    pub transfers: Transfers,
    pub out: VecDeque<Out>,
}

impl Carrier {
    pub fn new(settings: Arc<TcpSettings>) -> Self {
        Self { settings, max_r2ts: 1, transfers: Transfers::default(), out: VecDeque::new() }
    }
}

impl Binding for Carrier {
    type Place = ();
    type Fetch = Receive;

    fn max_held(&self) -> usize {
        self.settings.max_held
    }

    fn locate(&self, sqe: &Sqe, transfer: Transfer, capsule: &Bytes) -> Result<Located<()>, Status> {
        let sgl = sqe.sgl1();
        let len = match transfer {
            Transfer::None => return Ok(Located::Nowhere),
            Transfer::In(len) | Transfer::Out(len) => len,
        };
        let inline = sgl.is_in_capsule() && matches!(transfer, Transfer::In(_));
        // In-capsule data is for the host's data only; the text leaves its use by a read open. [TCP-SGL-04, TCP-SGL-05, TCP-SGL-07,
        // SGL-03, SQE-33, TCP-SILENT-08]
        if !inline && !sgl.is_transport() {
            return Err(Status::SGL_DESCRIPTOR_TYPE_INVALID.dnr());
        }
        // SGLS bit 18 is 0: the length is that of the transfer. [SGL-07, SQE-36, NVM-RW-05, TCP-SGL-06]
        if sgl.len() as usize != len {
            return Err(Status::DATA_SGL_LENGTH_INVALID.dnr());
        }
        if !inline {
            return Ok(Located::Host(()));
        }
        // The offset counts from the begin of the in-capsule data, ICDOFF being 0. [SGL-18, SQE-26, ADM-IDENTIFY-54]
        let start = usize::try_from(sgl.addr()).unwrap_or(usize::MAX);
        match start.checked_add(len) {
            Some(end) if end <= capsule.len() => Ok(Located::Capsule(capsule.slice(start..end))),
            _ if start == 0 => Err(Status::DATA_SGL_LENGTH_INVALID.dnr()),
            _ => Err(Status::SGL_OFFSET_INVALID.dnr()),
        }
    }

    fn fetch(&mut self, cid: Cid, len: usize) -> Receive {
        let mut receive = Receive::new(len);
        self.ask(cid, &mut receive);
        receive
    }

    fn abandon(&mut self, cid: Cid) -> bool {
        self.transfers.abandon(cid)
    }

    fn reply(&mut self, reply: Reply) {
        self.out.push_back(Out::Reply { reply, at: 0 });
    }
}
