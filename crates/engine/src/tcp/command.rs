//! What a command asks for, whether it may, and its way from capsule to completion.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use nvmf_seam::store::{Store, StoreError, StoreOp};
use nvmf_wire::connect::{Connect, ConnectData, Disconnect};
use nvmf_wire::sqe::{FabricsType, IoOpcode};
use nvmf_wire::{Cid, Nsid, Sqe, Status, nvm};

use super::controller::{ControllerConnection, Phase};
use super::transfer::{Gather, Receive};
use crate::controller::transfer_of;
use crate::message::{NamespaceView, ToHub};

/// A command at work.
#[derive(Debug)]
pub(super) struct Command {
    pub sqe: Sqe,
    pub state: State,
    /// Bytes of data reserved for it.
    pub held: usize,
    /// No data digest was wrong.
    pub intact: bool,
    /// See [`ControllerConnection::serial`].
    pub serial: u64,
}

#[derive(Debug)]
pub(super) enum State {
    /// Waits for room for its data.
    Held(Plan),
    /// R2Ts are out.
    Receiving(Receive),
    /// So many store requests are out.
    Storing { left: usize, failed: Option<Status>, bytes: usize, then_flush: Option<NamespaceView> },
    /// A read request is out.
    Reading,
    /// The hub has it.
    InHub,
    /// The completion is queued.
    Replying,
}

/// Which way data goes, and how much, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// No data.
    None,
    /// From the host.
    In(usize),
    /// To the host.
    Out(usize),
}

/// A command that passed all checks.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub transfer: Transfer,
    pub sink: Sink,
}

#[derive(Clone, Debug)]
pub(super) enum Sink {
    Connect,
    Admin,
    Read { ns: NamespaceView, offset: u64 },
    Write { ns: NamespaceView, offset: u64, fua: bool },
    Zeroes { ns: NamespaceView, offset: u64, len: u64, fua: bool },
    Flush { ns: NamespaceView },
    Disconnect,
}

/// What Write Zeroes writes at once.
static ZEROES: [u8; 256 * 1024] = [0; 256 * 1024];

/// What a namespace's storage is asked to do.
#[derive(Clone)]
pub struct StoreRequest {
    /// To be repeated in [`StoreDone`].
    pub id: u64,
    /// Whom to ask.
    pub store: Arc<dyn Store>,
    /// The store may block the thread that calls it.
    pub blocking: bool,
    /// What to do.
    pub op: StoreOp,
}

impl core::fmt::Debug for StoreRequest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "StoreRequest({}, {:?})", self.id, self.op)
    }
}

impl StoreRequest {
    /// Does it, on this thread.
    pub fn execute(self) -> StoreDone {
        StoreDone { id: self.id, result: self.store.execute(self.op) }
    }
}

/// The end of a [`StoreRequest`].
#[derive(Debug)]
pub struct StoreDone {
    /// From the request.
    pub id: u64,
    /// What a read gave; nothing for the others.
    pub result: Result<Bytes, StoreError>,
}

impl ControllerConnection {
    /// Begins a command that was just fetched.
    pub(super) fn start(&mut self, sqe: Sqe, data: Bytes, intact: bool) {
        let cid = sqe.cid();
        // Nothing forces us to notice, but two commands of one CID cannot be told apart. [SQE-02]
        if self.commands.contains(cid) {
            return self.refuse(sqe, Status::COMMAND_ID_CONFLICT.dnr());
        }
        // [TCP-DGST-26, TCP-ERR-07]
        if !intact {
            return self.refuse(sqe, Status::TRANSIENT_TRANSPORT_ERROR);
        }
        let plan = match self.plan(&sqe) {
            Ok(plan) => plan,
            Err(status) => return self.refuse(sqe, status),
        };
        let inline = match self.locate(&sqe, plan.transfer, data) {
            Ok(inline) => inline,
            Err(status) => return self.refuse(sqe, status),
        };
        match (inline, plan.transfer) {
            (Some(data), _) => {
                self.enter(sqe, State::InHub);
                self.run(cid, plan.sink, data.into());
            }
            (None, Transfer::None) => {
                self.enter(sqe, State::InHub);
                self.run(cid, plan.sink, Gather::default());
            }
            (None, _) => {
                self.enter(sqe, State::Held(plan));
                self.queue.waiting.push_back(cid);
                self.start_waiting();
            }
        }
    }

    /// A command is at work from here on, until [`ControllerConnection::finish`] or `drop_command`.
    pub(super) fn enter(&mut self, sqe: Sqe, state: State) {
        self.serial += 1;
        self.commands.insert(sqe.cid(), Command { sqe, state, held: 0, intact: true, serial: self.serial });
    }

    /// Starts waiting commands while there is room for their data.
    pub(super) fn start_waiting(&mut self) {
        while let Some(cid) = self.queue.waiting.front().copied() {
            let plan = match self.commands.get(cid) {
                Some(Command { state: State::Held(plan), .. }) => plan.clone(),
                _ => {
                    self.queue.waiting.pop_front();
                    continue;
                }
            };
            let (Transfer::In(len) | Transfer::Out(len)) = plan.transfer else { return };
            if self.queue.held > 0 && self.queue.held + len > self.settings.max_held {
                return;
            }
            self.queue.waiting.pop_front();
            self.queue.held += len;
            if let Some(c) = self.commands.get_mut(cid) {
                c.held = len;
            }
            match plan.transfer {
                Transfer::In(len) => self.receive(cid, plan.sink, len),
                _ => self.run(cid, plan.sink, Gather::default()),
            }
        }
    }

    /// Gives back the room that a command's data took.
    pub(super) fn release(&mut self, cid: Cid) {
        if let Some(c) = self.commands.get_mut(cid) {
            self.queue.held -= core::mem::take(&mut c.held);
        }
    }

    /// All checks that need nothing but the SQE and the queue.
    fn plan(&self, sqe: &Sqe) -> Result<Plan, Status> {
        let fctype = sqe.fctype();
        if self.phase != Phase::Connected {
            // No queue yet: only Connect makes one, and only one at a time. [FAB-QUEUE-12, FAB-CONNECT-01]
            let busy = self.commands.iter().any(|(_, c)| !matches!(c.state, State::Replying));
            return match fctype {
                Some(FabricsType::CONNECT) if !busy => Ok(Plan { transfer: Transfer::In(ConnectData::LEN), sink: Sink::Connect }),
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
        // FUSES is 0. [SQE-07, SQE-08, FAB-TRANS-15, NVM-FUSED-12]
        if sqe.fuse() != 0 {
            return Err(Status::INVALID_FIELD_IN_COMMAND.dnr());
        }
        let plan = if self.queue.is_admin() { Plan { transfer: transfer_of(sqe), sink: Sink::Admin } } else { self.plan_io(sqe)? };
        // [FAB-IDENT-10, NVM-RW-06]
        let (Transfer::In(len) | Transfer::Out(len)) = plan.transfer else { return Ok(plan) };
        match self.queue.mdts {
            Some(most) if len > most => Err(Status::INVALID_FIELD_IN_COMMAND.dnr()),
            _ => Ok(plan),
        }
    }

    fn plan_fabrics(&self, fctype: FabricsType, sqe: &Sqe) -> Result<Plan, Status> {
        match fctype {
            // Connect is sent once a queue. [FAB-CONNECT-02]
            FabricsType::CONNECT => Err(Status::COMMAND_SEQUENCE_ERROR),
            // [FAB-DISC-03]
            FabricsType::DISCONNECT if self.queue.deletable => match Disconnect::from_bytes(*sqe.as_bytes()).recfmt() {
                0 => Ok(Plan { transfer: Transfer::None, sink: Sink::Disconnect }),
                _ => Err(Status::INCOMPATIBLE_FORMAT.dnr()),
            },
            // On an I/O queue properties are refused, and so is Disconnect where OFCS says that we lack it. [FAB-CMD-04, FAB-DISC-15]
            _ if !self.queue.is_admin() => Err(Status::INVALID_FIELD_IN_COMMAND.dnr()),
            _ => Ok(Plan { transfer: Transfer::None, sink: Sink::Admin }),
        }
    }

    fn plan_io(&self, sqe: &Sqe) -> Result<Plan, Status> {
        let opcode = IoOpcode(sqe.opc().0);
        if !matches!(opcode, IoOpcode::READ | IoOpcode::WRITE | IoOpcode::FLUSH | IoOpcode::WRITE_ZEROES) {
            // [SQE-09, NVM-RW-02]
            return Err(Status::INVALID_COMMAND_OPCODE.dnr());
        }
        let table = &self.queue.namespaces;
        let nsid = sqe.nsid();
        let ns = match table.active.get(&nsid.0) {
            Some(ns) => ns.clone(),
            // VWC bits 2:1 are 10b. [NVM-RW-15]
            None if nsid == Nsid::BROADCAST && opcode == IoOpcode::FLUSH => return Err(Status::INVALID_NAMESPACE_OR_FORMAT.dnr()),
            // [SQE-17, SQE-18]
            None if nsid == Nsid::BROADCAST => return Err(Status::INVALID_FIELD_IN_COMMAND.dnr()),
            // [SQE-16, NVM-RW-39]
            None if nsid == Nsid::NONE || nsid.0 > table.nn => return Err(Status::INVALID_NAMESPACE_OR_FORMAT.dnr()),
            // [SQE-15, NVM-RW-39]
            None => return Err(Status::INVALID_FIELD_IN_COMMAND.dnr()),
        };
        if let Some(status) = ns.barred() {
            return Err(status);
        }
        if opcode == IoOpcode::FLUSH {
            return Ok(Plan { transfer: Transfer::None, sink: Sink::Flush { ns } });
        }
        // SLBA, NLB and FUA stand in the same place in Read, Write and Write Zeroes.
        let rw = nvm::Write::from_bytes(*sqe.as_bytes());
        let blocks = rw.nlb().count();
        let len = blocks.saturating_mul(u64::from(ns.geometry.block_size)) as usize;
        // Write Zeroes moves no data, so MDTS does not bound it, and WZSL is 0. [NVM-RW-06, NVM-RW-22]
        if opcode != IoOpcode::WRITE_ZEROES && self.queue.mdts.is_some_and(|most| len > most) {
            return Err(Status::INVALID_FIELD_IN_COMMAND.dnr());
        }
        // The end must not wrap. [NVM-RW-03]
        if rw.slba().checked_add(blocks).is_none_or(|end| end > ns.geometry.blocks) {
            return Err(Status::LBA_OUT_OF_RANGE.dnr());
        }
        let offset = rw.slba() * u64::from(ns.geometry.block_size);
        Ok(match opcode {
            IoOpcode::WRITE_ZEROES => {
                Plan { transfer: Transfer::None, sink: Sink::Zeroes { ns, offset, len: len as u64, fua: rw.fua() } }
            }
            IoOpcode::READ => Plan { transfer: Transfer::Out(len), sink: Sink::Read { ns, offset } },
            _ => Plan { transfer: Transfer::In(len), sink: Sink::Write { ns, offset, fua: rw.fua() } },
        })
    }

    /// Finds a command's data by its SGL descriptor: `Some` where it came in the capsule.
    fn locate(&self, sqe: &Sqe, transfer: Transfer, data: Bytes) -> Result<Option<Bytes>, Status> {
        let sgl = sqe.sgl1();
        let len = match transfer {
            Transfer::None => return Ok(None),
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
            return Ok(None);
        }
        // The offset counts from the begin of the in-capsule data, ICDOFF being 0. [SGL-18, SQE-26, ADM-IDENTIFY-54]
        let start = usize::try_from(sgl.addr()).unwrap_or(usize::MAX);
        match start.checked_add(len) {
            Some(end) if end <= data.len() => Ok(Some(data.slice(start..end))),
            _ if start == 0 => Err(Status::DATA_SGL_LENGTH_INVALID.dnr()),
            _ => Err(Status::SGL_OFFSET_INVALID.dnr()),
        }
    }

    /// All data is here: do the command.
    pub(super) fn run(&mut self, cid: Cid, sink: Sink, data: Gather) {
        let Some(c) = self.commands.get_mut(cid) else { return };
        let sqe = c.sqe;
        match sink {
            Sink::Connect => {
                c.state = State::InHub;
                self.phase = Phase::Connecting;
                let bytes = data.into_bytes();
                let data = Box::new(ConnectData::read(&bytes).unwrap_or_default());
                self.to_hub.push_back(ToHub::Connect { sqe: Connect::from_bytes(*sqe.as_bytes()), data });
            }
            Sink::Admin => {
                c.state = State::InHub;
                self.to_hub.push_back(ToHub::Admin { sqe, data: data.into_bytes() });
            }
            Sink::Disconnect => {
                self.queue.ending = Some(cid);
                self.disconnect();
            }
            Sink::Read { ns, offset } => {
                c.state = State::Reading;
                let Transfer::Out(len) = self.read_len(&sqe, &ns) else { return };
                self.request(cid, &ns, StoreOp::Read { offset, len });
            }
            Sink::Write { ns, offset, fua } => {
                let pieces = data.into_pieces(ns.geometry.block_size as usize);
                let bytes = (nvm::Write::from_bytes(*sqe.as_bytes()).nlb().count() * u64::from(ns.geometry.block_size)) as usize;
                c.state = State::Storing { left: pieces.len(), failed: None, bytes, then_flush: fua.then(|| ns.clone()) };
                let mut at = offset;
                for piece in pieces {
                    let len = piece.len() as u64;
                    self.request(cid, &ns, StoreOp::Write { offset: at, data: piece });
                    at += len;
                }
            }
            Sink::Zeroes { ns, offset, len, fua } => {
                // DEAC only allows to deallocate. [NVM-RW-20]
                let step = ZEROES.len() as u64;
                let left = len.div_ceil(step) as usize;
                c.state = State::Storing { left, failed: None, bytes: 0, then_flush: fua.then(|| ns.clone()) };
                for at in (0..len).step_by(ZEROES.len()) {
                    let data = Bytes::from_static(&ZEROES).slice(..step.min(len - at) as usize);
                    self.request(cid, &ns, StoreOp::Write { offset: offset + at, data });
                }
            }
            Sink::Flush { ns } => {
                c.state = State::Storing { left: 1, failed: None, bytes: 0, then_flush: None };
                self.request(cid, &ns, StoreOp::Flush);
            }
        }
    }

    fn read_len(&self, sqe: &Sqe, ns: &NamespaceView) -> Transfer {
        let blocks = nvm::Read::from_bytes(*sqe.as_bytes()).nlb().count();
        Transfer::Out((blocks * u64::from(ns.geometry.block_size)) as usize)
    }

    fn request(&mut self, cid: Cid, ns: &NamespaceView, op: StoreOp) {
        let Some(c) = self.commands.get(cid) else { return };
        let id = c.serial << 16 | u64::from(cid.0);
        self.requests.push_back(StoreRequest { id, store: ns.store.clone(), blocking: ns.blocking, op });
    }

    /// A store request came back.
    pub(super) fn stored(&mut self, done: StoreDone) {
        let cid = Cid(done.id as u16);
        let Some(c) = self.commands.get_mut(cid).filter(|c| c.serial == done.id >> 16) else { return };
        let sqe = c.sqe;
        let read = matches!(c.state, State::Reading);
        match (&mut c.state, done.result) {
            (State::Reading, Ok(data)) => {
                self.queue.counters.read(data.len() as u64);
                self.complete(cid, Status::SUCCESS, 0, data);
            }
            (State::Storing { left, failed, bytes, then_flush }, result) => {
                *left = left.saturating_sub(1);
                if let Err(e) = result {
                    *failed = Some(status_of(&e, read));
                }
                if *left > 0 {
                    return;
                }
                if failed.is_none()
                    && let Some(ns) = then_flush.take()
                {
                    // FUA: on the medium before completion. [NVM-RW-12]
                    *left = 1;
                    return self.request(cid, &ns, StoreOp::Flush);
                }
                let (status, bytes) = (failed.unwrap_or(Status::SUCCESS), *bytes as u64);
                if status.is_success() && bytes > 0 {
                    self.queue.counters.written(bytes);
                } else if !status.is_success() {
                    self.to_hub.push_back(ToHub::Failed { sqe, status });
                }
                self.complete(cid, status, 0, Bytes::new());
            }
            (_, Err(e)) => {
                let status = status_of(&e, read);
                self.to_hub.push_back(ToHub::Failed { sqe, status });
                self.complete(cid, status, 0, Bytes::new());
            }
            (_, Ok(_)) => {}
        }
    }
}

/// The status of a failed store. [Base 2.0, 3.3.3.2.1.3]
fn status_of(e: &StoreError, read: bool) -> Status {
    match e {
        StoreError::OutOfRange => Status::LBA_OUT_OF_RANGE.dnr(),
        StoreError::Medium(_) if read => Status::UNRECOVERED_READ_ERROR,
        StoreError::Medium(_) => Status::WRITE_FAULT,
    }
}
