//! One connection: its queue pair, its completion queue, and the work that is out.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::ptr;
use std::sync::Arc;

use bytes::Bytes;
use nvmf_seam::Head;
use nvmf_seam::rdma::{Access, Completion, DeviceError, Done, Memory, QpId, Remote, Rkey, Work, WorkError, WorkId};
use rdma_sys::{
    bind_mw_t, ibv_access_flags, ibv_mw_bind_info, ibv_poll_cq, ibv_post_recv, ibv_post_send, ibv_qp_init_attr, ibv_qp_type,
    ibv_recv_wr, ibv_req_notify_cq, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wc, ibv_wc_flags, ibv_wc_status as status,
    ibv_wr_opcode as op, imm_data_invalidated_rkey_union_t, rdma_create_qp, rdma_destroy_qp, rdma_t,
};

use crate::cm::Id;
use crate::device::Context;
use crate::pool::Buffer;
use crate::region::{Registered, remote};
use crate::sys::{Cq, Region, errno, failed};

/// Payloads from this length on are registered where they are; shorter ones are copied into a registered buffer.
const REGISTER_FROM: usize = 16 * 1024;
/// Completions taken from a queue at a time.
const BATCH: usize = 32;

/// Work that was posted, with what has to stay until it is done.
enum Pending {
    Receive(Buffer),
    Send { _held: Held },
    Read(Buffer),
    Write { _held: Held },
    Bind(Rkey),
    Invalidate(Rkey),
}

/// What a SEND or WRITE takes its bytes from. Dropped in order: a region before its memory.
#[derive(Default)]
struct Held {
    _region: Option<Region>,
    _payload: Bytes,
    _buffer: Option<Buffer>,
}

/// A queue pair and its completion queue.
struct Pair {
    cq: Cq,
    /// Bytes that a SEND may have inline.
    inline: usize,
}

/// One connection.
pub struct Conn {
    pub id: Id,
    pair: Option<Pair>,
    context: Option<Arc<Context>>,
    /// Posted work by its number at the device.
    pending: BTreeMap<u64, (WorkId, Pending)>,
    serial: u64,
    /// Receives posted before there was a queue pair.
    early: VecDeque<Work>,
    regions: BTreeMap<Rkey, Registered>,
    /// What is done, and not told yet.
    done: VecDeque<Completion>,
    /// Payload bytes that were copied into registered buffers.
    pub copied: u64,
    /// It did not come up, or ended.
    pub over: bool,
}

impl Conn {
    pub fn new(id: Id) -> Self {
        Self {
            id,
            pair: None,
            context: None,
            pending: BTreeMap::new(),
            serial: 0,
            early: VecDeque::new(),
            regions: BTreeMap::new(),
            done: VecDeque::new(),
            copied: 0,
            over: false,
        }
    }

    pub fn is_ready(&self) -> bool {
        self.pair.is_some()
    }

    /// Makes the queue pair, once the id is on a device, and posts what waited for it.
    pub fn make_pair(&mut self, context: &Arc<Context>, qp: QpId) -> Result<(), DeviceError> {
        let depth = context.limits.work;
        let cq = Cq::new(context.verbs, (depth * 2).min(context.max_cqe) as i32, &context.channel, qp.0)?;
        // SAFETY: a structure of numbers and pointers; all that matters is set.
        let mut attr: ibv_qp_init_attr = unsafe { mem::zeroed() };
        attr.send_cq = cq.0;
        attr.recv_cq = cq.0;
        attr.qp_type = ibv_qp_type::IBV_QPT_RC;
        attr.sq_sig_all = 1;
        attr.cap.max_send_wr = depth;
        attr.cap.max_recv_wr = depth;
        attr.cap.max_send_sge = 2;
        attr.cap.max_recv_sge = 1;
        attr.cap.max_inline_data = context.inline;
        // SAFETY: id, domain and queue are valid; the queue pair is destroyed before any of them, in `drop`.
        if unsafe { rdma_create_qp(self.id.as_ptr(), context.domain.0, &raw mut attr) } != 0 {
            return Err(errno(&format!("cannot make a queue pair of {depth} work requests")));
        }
        // SAFETY: a valid queue.
        unsafe { ibv_req_notify_cq(cq.0, 0) };
        self.pair = Some(Pair { cq, inline: attr.cap.max_inline_data as usize });
        self.context = Some(context.clone());
        for work in mem::take(&mut self.early) {
            self.post(work)?;
        }
        Ok(())
    }

    /// Posts work; receives also before there is a queue pair.
    pub fn post(&mut self, work: Work) -> Result<(), DeviceError> {
        let Some(context) = self.context.clone() else {
            if !matches!(work, Work::Receive { .. }) {
                return Err(DeviceError::State);
            }
            self.early.push_back(work);
            return Ok(());
        };
        if self.pending.len() >= context.limits.work as usize * 2 {
            return Err(DeviceError::Full("work requests (Settings::depth)"));
        }
        match work {
            Work::Receive { id, len } => self.receive(&context, id, len),
            Work::Send { id, head, payload, invalidate } => self.send(&context, id, &head, payload, invalidate),
            Work::Read { id, from, len } => {
                let buffer = context.pool.take(len as usize)?;
                let sge = ibv_sge { addr: buffer.address(), length: len, lkey: buffer.lkey() };
                self.post_send(
                    id,
                    op::IBV_WR_RDMA_READ,
                    &mut [sge][..usize::from(len > 0)],
                    |wr| set_remote(wr, from),
                    Pending::Read(buffer),
                )
            }
            Work::Write { id, to, data } => {
                let (sge, held) = self.source(&context, &[], data)?;
                let n = usize::from(sge.length > 0);
                let pending = Pending::Write { _held: held };
                self.post_send(id, op::IBV_WR_RDMA_WRITE, &mut [sge][..n], |wr| set_remote(wr, to), pending)
            }
            Work::Register { id, memory, access } => self.register(&context, id, memory, access),
            Work::Invalidate { id, key } => self.invalidate(&context, id, key),
        }
    }

    fn receive(&mut self, context: &Context, id: WorkId, len: u32) -> Result<(), DeviceError> {
        let buffer = context.pool.take(len as usize)?;
        let mut sge = ibv_sge { addr: buffer.address(), length: buffer.len() as u32, lkey: buffer.lkey() };
        self.serial += 1;
        let mut wr = ibv_recv_wr { wr_id: self.serial, next: ptr::null_mut(), sg_list: &raw mut sge, num_sge: 1 };
        let mut bad = ptr::null_mut();
        // SAFETY: a queue pair that is there, and a request that is read during the call; the buffer is held until its completion.
        let code = unsafe { ibv_post_recv((*self.id.as_ptr()).qp, &raw mut wr, &raw mut bad) };
        if code != 0 {
            return Err(failed("cannot post a receive", code));
        }
        self.pending.insert(self.serial, (id, Pending::Receive(buffer)));
        Ok(())
    }

    /// A SEND of up to two pieces; small ones go inline.
    fn send(&mut self, context: &Context, id: WorkId, head: &Head, payload: Bytes, key: Option<Rkey>) -> Result<(), DeviceError> {
        let opcode = if key.is_some() { op::IBV_WR_SEND_WITH_INV } else { op::IBV_WR_SEND };
        let inline = self.pair.as_ref().map_or(0, |p| p.inline);
        let set = |wr: &mut ibv_send_wr| {
            if let Some(key) = key {
                wr.imm_data_invalidated_rkey_union = imm_data_invalidated_rkey_union_t { invalidated_rkey: key.0 };
            }
        };
        let bytes = head.as_slice();
        if payload.is_empty() && bytes.len() <= inline {
            let sge = ibv_sge { addr: bytes.as_ptr() as u64, length: bytes.len() as u32, lkey: 0 };
            let set = |wr: &mut ibv_send_wr| {
                set(wr);
                wr.send_flags |= ibv_send_flags::IBV_SEND_INLINE.0;
            };
            return self.post_send(id, opcode, &mut [sge], set, Pending::Send { _held: Held::default() });
        }
        // Both in one registered buffer where the payload is short; else the head in one and the payload where it is.
        if payload.len() < REGISTER_FROM && context.pool.lkey_of(&payload).is_none() {
            let (sge, held) = self.source(context, bytes, payload)?;
            return self.post_send(id, opcode, &mut [sge], set, Pending::Send { _held: held });
        }
        let mut first = context.pool.take(bytes.len())?;
        first.put(0, bytes);
        let one = ibv_sge { addr: first.address(), length: bytes.len() as u32, lkey: first.lkey() };
        let (two, mut held) = self.source(context, &[], payload)?;
        held._buffer.get_or_insert(first);
        self.post_send(id, opcode, &mut [one, two], set, Pending::Send { _held: held })
    }

    /// Registered bytes to send from: those of the payload where they are, or, where it is short, a copy behind `head`.
    fn source(&mut self, context: &Context, head: &[u8], payload: Bytes) -> Result<(ibv_sge, Held), DeviceError> {
        let (at, len) = (payload.as_ptr() as u64, payload.len() as u32);
        if head.is_empty() {
            if let Some(lkey) = context.pool.lkey_of(&payload) {
                return Ok((ibv_sge { addr: at, length: len, lkey }, Held { _payload: payload, ..Held::default() }));
            }
            if payload.len() >= REGISTER_FROM {
                // SAFETY: the payload is held beside the region until the work is done, and is only read.
                let region = unsafe { Region::new(&context.domain, payload.as_ptr(), payload.len(), ibv_access_flags(0)) }?;
                let sge = ibv_sge { addr: at, length: len, lkey: region.lkey() };
                return Ok((sge, Held { _region: Some(region), _payload: payload, _buffer: None }));
            }
        }
        let mut buffer = context.pool.take(head.len() + payload.len())?;
        buffer.put(0, head);
        buffer.put(head.len(), &payload);
        self.copied += payload.len() as u64;
        let sge = ibv_sge { addr: buffer.address(), length: buffer.len() as u32, lkey: buffer.lkey() };
        Ok((sge, Held { _buffer: Some(buffer), ..Held::default() }))
    }

    /// One request of the send queue.
    fn post_send(
        &mut self,
        id: WorkId,
        opcode: op::Type,
        sges: &mut [ibv_sge],
        set: impl FnOnce(&mut ibv_send_wr),
        pending: Pending,
    ) -> Result<(), DeviceError> {
        self.serial += 1;
        // SAFETY: a structure of numbers and pointers, null and 0 where nothing is set.
        let mut wr: ibv_send_wr = unsafe { mem::zeroed() };
        wr.wr_id = self.serial;
        wr.sg_list = sges.as_mut_ptr();
        wr.num_sge = sges.len() as i32;
        wr.opcode = opcode;
        wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
        set(&mut wr);
        let mut bad = ptr::null_mut();
        // SAFETY: a queue pair that is there, and a request that is read during the call; what it names is held until its completion.
        let code = unsafe { ibv_post_send((*self.id.as_ptr()).qp, &raw mut wr, &raw mut bad) };
        if code != 0 {
            return Err(failed("cannot post to the send queue", code));
        }
        self.pending.insert(self.serial, (id, pending));
        Ok(())
    }

    fn register(&mut self, context: &Arc<Context>, id: WorkId, memory: Memory, access: Access) -> Result<(), DeviceError> {
        let window = context.window();
        let mut region = match Registered::new(&context.domain, memory, access, window) {
            Ok(r) => r,
            Err((e, _)) => return Err(e),
        };
        let key = Rkey(region.next_key());
        let at = Remote { addr: region.address(), key };
        let Some(mw) = region.window.as_ref().map(crate::sys::Window::as_ptr) else {
            self.regions.insert(key, region);
            self.done.push_back(Completion { id, result: Ok(Done::Registered(at)) });
            return Ok(());
        };
        let bind_info = ibv_mw_bind_info {
            mr: region.region().as_ptr(),
            addr: at.addr,
            length: region.len() as u64,
            mw_access_flags: remote(access).0,
        };
        self.regions.insert(key, region);
        let set = |wr: &mut ibv_send_wr| wr.bind_mw_tso_union.bind_mw = bind_mw_t { mw, rkey: key.0, bind_info };
        let posted = self.post_send(id, op::IBV_WR_BIND_MW, &mut [], set, Pending::Bind(key));
        if posted.is_err() {
            self.regions.remove(&key);
        }
        posted
    }

    fn invalidate(&mut self, context: &Arc<Context>, id: WorkId, key: Rkey) -> Result<(), DeviceError> {
        let Some(region) = self.regions.get(&key) else {
            self.done.push_back(Completion { id, result: Err(WorkError::NoSuchKey) });
            return Ok(());
        };
        if region.invalidated || region.window.is_none() {
            self.give_back(context, id, key);
            return Ok(());
        }
        let set = |wr: &mut ibv_send_wr| {
            wr.imm_data_invalidated_rkey_union = imm_data_invalidated_rkey_union_t { invalidated_rkey: key.0 }
        };
        self.post_send(id, op::IBV_WR_LOCAL_INV, &mut [], set, Pending::Invalidate(key))
    }

    /// The key is no more: its memory goes back.
    fn give_back(&mut self, context: &Context, id: WorkId, key: Rkey) {
        let result = match self.regions.remove(&key) {
            Some(region) => {
                let (memory, window) = region.dissolve(true);
                context.keep(window);
                Ok(Done::Invalidated(memory))
            }
            None => Err(WorkError::NoSuchKey),
        };
        self.done.push_back(Completion { id, result });
    }

    /// Takes a region out, whatever the state of the queue pair.
    pub fn deregister(&mut self, key: Rkey) -> Option<Memory> {
        Some(self.regions.remove(&key)?.dissolve(false).0)
    }

    /// What has ended since.
    pub fn next_done(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    /// Takes in what the completion queue has.
    pub fn poll(&mut self) {
        let (Some(context), Some(cq)) = (self.context.clone(), self.pair.as_ref().map(|p| p.cq.0)) else { return };
        // Armed before it is emptied: what comes in between is told again.
        // SAFETY: a valid queue.
        unsafe { ibv_req_notify_cq(cq, 0) };
        loop {
            // SAFETY: completions are structures of numbers.
            let mut wcs: [ibv_wc; BATCH] = unsafe { mem::zeroed() };
            // SAFETY: a valid queue and room for as many as are asked for.
            let n = unsafe { ibv_poll_cq(cq, BATCH as i32, wcs.as_mut_ptr()) };
            for wc in wcs.iter().take(usize::try_from(n).unwrap_or(0)) {
                self.complete(&context, wc);
            }
            if n < BATCH as i32 {
                return;
            }
        }
    }

    fn complete(&mut self, context: &Context, wc: &ibv_wc) {
        let Some((id, pending)) = self.pending.remove(&wc.wr_id) else { return };
        if wc.status != status::IBV_WC_SUCCESS {
            self.done.push_back(Completion { id, result: Err(error(wc.status)) });
            return;
        }
        let done = match pending {
            Pending::Receive(mut buffer) => {
                buffer.shorten(wc.byte_len as usize);
                Done::Received { data: Bytes::from_owner(buffer), invalidated: self.invalidated_by(wc) }
            }
            Pending::Send { .. } => Done::Sent,
            Pending::Read(buffer) => Done::Read(Bytes::from_owner(buffer)),
            Pending::Write { .. } => Done::Written,
            Pending::Bind(key) => {
                let addr = self.regions.get(&key).map_or(0, Registered::address);
                Done::Registered(Remote { addr, key })
            }
            Pending::Invalidate(key) => return self.give_back(context, id, key),
        };
        self.done.push_back(Completion { id, result: Ok(done) });
    }

    fn invalidated_by(&mut self, wc: &ibv_wc) -> Option<Rkey> {
        // Soft-RoCE of Linux sets the kernel's flag, which is another one in user space and means nothing on a reliable connection.
        let told = wc.wc_flags & ibv_wc_flags::IBV_WC_WITH_INV.0 != 0;
        let told_by_rxe = wc.wc_flags & ibv_wc_flags::IBV_WC_IP_CSUM_OK.0 != 0;
        if !told && !told_by_rxe {
            return None;
        }
        // SAFETY: a number, whichever member of the union was set.
        let key = Rkey(unsafe { wc.imm_data_invalidated_rkey_union.invalidated_rkey });
        match self.regions.get_mut(&key) {
            Some(region) => region.invalidated = true,
            None if told => {}
            None => return None,
        }
        Some(key)
    }

    /// Receives that never reached a queue pair end as flushed.
    pub fn flush_early(&mut self) {
        let early = mem::take(&mut self.early);
        self.done.extend(early.iter().map(|w| Completion { id: w.id(), result: Err(WorkError::Flushed) }));
    }
}

impl Conn {
    /// Ends it; the memory of its regions.
    pub fn dissolve(mut self) -> Vec<(Rkey, Memory)> {
        self.end();
        mem::take(&mut self.regions).into_iter().map(|(key, region)| (key, region.dissolve(false).0)).collect()
    }

    fn end(&mut self) {
        // Windows first: one that is bound is the queue pair's. [IBA vol. 1, 10.6.7.2.3]
        self.regions.values_mut().for_each(|r| r.window = None);
        if self.pair.is_some() {
            // SAFETY: the queue pair is there and destroyed once; after it no NIC touches buffers and regions of ours.
            unsafe { rdma_destroy_qp(self.id.as_ptr()) };
            self.pair = None;
        }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.end();
    }
}

fn set_remote(wr: &mut ibv_send_wr, at: Remote) {
    wr.wr.rdma = rdma_t { remote_addr: at.addr, rkey: at.key.0 };
}

fn error(code: status::Type) -> WorkError {
    match code {
        status::IBV_WC_WR_FLUSH_ERR => WorkError::Flushed,
        status::IBV_WC_LOC_LEN_ERR => WorkError::Length,
        status::IBV_WC_LOC_PROT_ERR | status::IBV_WC_LOC_QP_OP_ERR | status::IBV_WC_MW_BIND_ERR | status::IBV_WC_LOC_ACCESS_ERR => {
            WorkError::Protection
        }
        status::IBV_WC_REM_INV_REQ_ERR => WorkError::RemoteInvalidRequest,
        status::IBV_WC_REM_ACCESS_ERR => WorkError::RemoteAccess,
        status::IBV_WC_REM_OP_ERR | status::IBV_WC_REM_ABORT_ERR => WorkError::RemoteOperational,
        status::IBV_WC_RETRY_EXC_ERR | status::IBV_WC_RESP_TIMEOUT_ERR => WorkError::RetryExceeded,
        status::IBV_WC_RNR_RETRY_EXC_ERR => WorkError::RnrRetryExceeded,
        _ => WorkError::BadResponse,
    }
}
