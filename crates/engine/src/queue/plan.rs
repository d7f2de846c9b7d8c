//! What a command asks for, and whether it may: everything that its SQE, the queue and the namespaces decide.

use std::sync::atomic::Ordering;

use nvmf_seam::StoreOp;
use nvmf_wire::connect::{ConnectData, Disconnect};
use nvmf_wire::sqe::{FabricsType, IoOpcode};
use nvmf_wire::{Nsid, Sqe, Status, nvm};

use super::command::Plan;
use super::{Binding, Core, Phase, Sink, State, Transfer};
use crate::commands::{CopyLimits, is_offered};
use crate::controller::transfer_of;
use crate::message::NamespaceView;

/// PRACT of PRINFO.
const PRACT: u8 = 8;

/// Where a range of blocks begins, bytes from the start of the namespace. The end must not wrap. [NVM-RW-03]
pub(super) fn byte_range(ns: &NamespaceView, slba: u64, blocks: u64) -> Result<u64, Status> {
    match slba.checked_add(blocks) {
        Some(end) if end <= ns.geometry.blocks => Ok(slba * u64::from(ns.geometry.block_size)),
        _ => Err(Status::LBA_OUT_OF_RANGE.dnr()),
    }
}

/// Bytes that a Dataset Management brings: as NR says, or as its SGL says where that is more and no more than NR could say. Linux always
/// sends a whole table, for the sake of controllers that fetch one whatever NR is; the ranges of NR count. [NVM-RW-23; findings, 12]
fn table_of_ranges(sqe: &Sqe) -> usize {
    let named = nvm::DatasetManagement::from_bytes(*sqe.as_bytes()).data_bytes();
    let described = sqe.sgl1().data_len().map_or(0, |len| len as usize);
    if (named..=nvm::DatasetManagement::MAX_DATA_BYTES).contains(&described) { described } else { named }
}

fn plan_copy(copy: &nvm::Copy, ns: NamespaceView) -> Result<Plan, Status> {
    match copy.desfmt() {
        0 => {}
        // Of format 1h are the ranges of namespaces with 32b or 64b guards, and ours have none of these. [NVM-RW-34]
        1 => return Err(Status::INVALID_NAMESPACE_OR_FORMAT.dnr()),
        // [NVM-RW-33]
        _ => return Err(Status::INVALID_FIELD_IN_COMMAND.dnr()),
    }
    // [NVM-RW-35]
    if copy.nr().count() > u64::from(CopyLimits::of(ns.geometry).ranges) {
        return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED.dnr());
    }
    let len = copy.data_bytes().ok_or(Status::INTERNAL_ERROR)?;
    Ok(Plan::new(Transfer::In(len), Sink::Copy { ns }))
}

impl<B: Binding> Core<B> {
    /// All checks that need nothing but the SQE and the queue.
    pub(super) fn plan(&self, sqe: &Sqe) -> Result<Plan, Status> {
        let fctype = sqe.fctype();
        if self.phase != Phase::Connected {
            // No queue yet: only Connect makes one, and only one at a time. [FAB-QUEUE-12, FAB-CONNECT-01]
            let busy = self.commands.iter().any(|(_, c)| !matches!(c.state, State::Replying));
            return match fctype {
                Some(FabricsType::CONNECT) if !busy => Ok(Plan::new(Transfer::In(ConnectData::LEN), Sink::Connect)),
                _ => Err(Status::COMMAND_SEQUENCE_ERROR),
            };
        }
        if let Some(fctype) = fctype {
            return self.plan_fabrics(fctype, sqe);
        }
        // [FAB-QUEUE-05, FAB-QUEUE-07, SQE-38, SQE-39; RESET-21: after a shutdown the text names no status]
        if !self.queue.serving {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        // Fabrics commands do not count. [KA-14]
        self.queue.counters.traffic.store(true, Ordering::Relaxed);
        // Fabrics hosts use SGLs with a contiguous metadata buffer, 01b; 11b is reserved. [SQE-06]
        if sqe.psdt() != 1 {
            return Err(Status::INVALID_FIELD_IN_COMMAND.dnr());
        }
        // Halves of fused operations are paired before; what comes here is none that is supported. [SQE-07, SQE-08, FAB-TRANS-15,
        // NVM-FUSED-12]
        if sqe.fuse() != 0 && !self.takes_fused(sqe) {
            return Err(Status::INVALID_FIELD_IN_COMMAND.dnr());
        }
        let plan = if self.queue.is_admin() { Plan::new(transfer_of(sqe), Sink::Admin) } else { self.plan_io(sqe)? };
        // [FAB-IDENT-10, NVM-RW-06]
        match self.queue.mdts {
            Some(most) if plan.transfer.len() > most => Err(Status::INVALID_FIELD_IN_COMMAND.dnr()),
            _ => Ok(plan),
        }
    }

    fn plan_fabrics(&self, fctype: FabricsType, sqe: &Sqe) -> Result<Plan, Status> {
        match fctype {
            // Connect is sent once a queue. [FAB-CONNECT-02]
            FabricsType::CONNECT => Err(Status::COMMAND_SEQUENCE_ERROR),
            // [FAB-DISC-03]
            FabricsType::DISCONNECT if self.queue.deletable => match Disconnect::from_bytes(*sqe.as_bytes()).recfmt() {
                0 => Ok(Plan::new(Transfer::None, Sink::Disconnect)),
                _ => Err(Status::INCOMPATIBLE_FORMAT.dnr()),
            },
            // On an I/O queue properties are refused, and so is Disconnect where OFCS says that we lack it. [FAB-CMD-04, FAB-DISC-15]
            _ if !self.queue.is_admin() => Err(Status::INVALID_FIELD_IN_COMMAND.dnr()),
            _ => Ok(Plan::new(Transfer::None, Sink::Admin)),
        }
    }

    fn plan_io(&self, sqe: &Sqe) -> Result<Plan, Status> {
        let opcode = IoOpcode(sqe.opc().0);
        // [FAB-PROP-31, SQE-45]
        if !self.queue.io_commands {
            return Err(Status::INVALID_COMMAND_OPCODE.dnr());
        }
        if !is_offered(opcode, self.queue.namespaces.abilities) {
            // [SQE-09, NVM-RW-02]
            return Err(Status::INVALID_COMMAND_OPCODE.dnr());
        }
        let ns = self.namespace(sqe.nsid(), opcode)?;
        match opcode {
            IoOpcode::FLUSH => Ok(Plan::new(Transfer::None, Sink::One { ns, op: StoreOp::Flush, fua: false })),
            IoOpcode::DATASET_MANAGEMENT => Ok(Plan::new(Transfer::In(table_of_ranges(sqe)), Sink::Dataset { ns })),
            IoOpcode::COPY => plan_copy(&nvm::Copy::from_bytes(*sqe.as_bytes()), ns),
            _ => self.plan_range(sqe, opcode, ns),
        }
    }

    fn namespace(&self, nsid: Nsid, opcode: IoOpcode) -> Result<NamespaceView, Status> {
        let table = &self.queue.namespaces;
        match table.active.get(&nsid.0) {
            Some(ns) => ns.barred().map_or_else(|| Ok(ns.clone()), Err),
            // VWC bits 2:1 are 10b. [NVM-RW-15]
            None if nsid == Nsid::BROADCAST && opcode == IoOpcode::FLUSH => Err(Status::INVALID_NAMESPACE_OR_FORMAT.dnr()),
            // [SQE-17, SQE-18]
            None if nsid == Nsid::BROADCAST => Err(Status::INVALID_FIELD_IN_COMMAND.dnr()),
            // [SQE-16, NVM-RW-39]
            None if nsid == Nsid::NONE || nsid.0 > table.nn => Err(Status::INVALID_NAMESPACE_OR_FORMAT.dnr()),
            // [SQE-15, NVM-RW-39]
            None => Err(Status::INVALID_FIELD_IN_COMMAND.dnr()),
        }
    }

    /// Commands about one range of blocks: SLBA, NLB, PRINFO and FUA stand in the same place in all of them.
    fn plan_range(&self, sqe: &Sqe, opcode: IoOpcode, ns: NamespaceView) -> Result<Plan, Status> {
        let rw = nvm::Write::from_bytes(*sqe.as_bytes());
        let blocks = rw.nlb().count();
        let len = blocks.saturating_mul(u64::from(ns.geometry.block_size));
        let moves = matches!(opcode, IoOpcode::READ | IoOpcode::WRITE | IoOpcode::COMPARE);
        // What moves no data is not bounded by MDTS, and WZSL, VSL and WUSL are 0. [NVM-RW-06, NVM-RW-22, NVM-RW-31, NVM-RW-32]
        if moves && self.queue.mdts.is_some_and(|most| len > most as u64) {
            return Err(Status::INVALID_FIELD_IN_COMMAND.dnr());
        }
        // Without protection information the other bits of PRINFO are ignored. [NVM-RW-30, NVM-RW-16]
        if opcode == IoOpcode::VERIFY && rw.prinfo() & PRACT != 0 {
            return Err(Status::INVALID_FIELD_IN_COMMAND.dnr());
        }
        let offset = byte_range(&ns, rw.slba(), blocks)?;
        let fua = rw.fua();
        let one = |ns, op, fua| Plan::new(Transfer::None, Sink::One { ns, op, fua });
        Ok(match opcode {
            IoOpcode::READ => Plan::new(Transfer::Out(len as usize), Sink::Read { ns, offset }),
            IoOpcode::COMPARE => Plan::new(Transfer::In(len as usize), Sink::Compare { ns, offset }),
            // DEAC only allows to deallocate. [NVM-RW-20]
            IoOpcode::WRITE_ZEROES => one(ns, StoreOp::Zero { offset, len }, fua),
            IoOpcode::VERIFY => one(ns, StoreOp::Verify { offset, len }, false),
            IoOpcode::WRITE_UNCORRECTABLE => one(ns, StoreOp::Spoil { offset, len }, false),
            _ => Plan::new(Transfer::In(len as usize), Sink::Write { ns, offset, fua }),
        })
    }
}
