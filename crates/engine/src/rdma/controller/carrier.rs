//! How NVMe/RDMA carries the data of commands: READs that fetch it, WRITEs and a SEND that end a command. What is queued here becomes
//! work requests one at a time, as the queue pair has room.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use nvmf_seam::Head;
use nvmf_seam::rdma::{Rkey, Work, WorkId};
use nvmf_wire::{Cid, Cqe, Sqe, Status};

use super::request::Granted;
use super::sgl::{Cursor, Place, Rules};
use crate::queue::{Binding, Core, Gather, Located, Reply, State, Transfer};
use crate::settings::RdmaSettings;

/// What the queue of an NVMe/RDMA connection needs of its transport.
#[derive(Debug)]
pub(super) struct Carrier {
    settings: Arc<RdmaSettings>,
    rules: Rules,
    sending: Sending,
    /// Commands with data still to be asked for, in turn.
    fetching: VecDeque<Cid>,
    /// READs that are out, oldest first: they complete in this order.
    reads: VecDeque<ReadOut>,
    /// READs among them that nobody waits for any more.
    orphans: usize,
    out: VecDeque<Out>,
    /// Replies of `out` that are for no command.
    strays: usize,
    /// Number of the last READ or SEND.
    serial: u64,
    /// The last turn at the send queue was a READ's.
    read_last: bool,
}

/// What the send queue has out, and may have.
#[derive(Debug)]
struct Sending {
    /// SENDs, READs and WRITEs.
    all: u32,
    max_all: u32,
    sends: u32,
    max_sends: u32,
    max_reads: usize,
    /// Bytes of WRITEs.
    writing: usize,
    /// Bytes of one READ, and of one WRITE.
    read_len: u32,
    write_len: u32,
    /// SEND with Invalidate is there and wanted.
    invalidates: bool,
}

#[derive(Debug)]
struct ReadOut {
    cid: Cid,
    len: u32,
    orphan: bool,
}

/// The end of a command: what is left of its data, then the response.
#[derive(Debug)]
struct Out {
    reply: Reply,
    /// Bytes written.
    at: usize,
    cursor: Cursor,
}

/// Data of a command on its way.
#[derive(Debug)]
pub(super) struct Fetch {
    len: usize,
    asked: usize,
    got: usize,
    cursor: Cursor,
    gather: Gather,
}

/// What a work request was for, in the upper bits of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Receive = 0,
    Send = 1,
    Read = 2,
    /// The lower bits say how many bytes.
    Write = 3,
}

const SHIFT: u32 = 56;

impl Purpose {
    pub fn of(id: WorkId) -> Option<Self> {
        match id.0 >> SHIFT {
            0 => Some(Self::Receive),
            1 => Some(Self::Send),
            2 => Some(Self::Read),
            3 => Some(Self::Write),
            _ => None,
        }
    }

    pub fn id(self, low: u64) -> WorkId {
        WorkId((self as u64) << SHIFT | low & ((1 << SHIFT) - 1))
    }
}

impl Binding for Carrier {
    type Place = Place;
    type Fetch = Fetch;

    fn max_held(&self) -> usize {
        self.settings.max_held
    }

    fn locate(&self, sqe: &Sqe, transfer: Transfer, capsule: &Bytes) -> Result<Located<Place>, Status> {
        self.rules.locate(sqe, transfer, capsule)
    }

    fn fetch(&mut self, cid: Cid, len: usize) -> Fetch {
        self.fetching.push_back(cid);
        Fetch { len, asked: 0, got: 0, cursor: Cursor::default(), gather: Gather::default() }
    }

    /// READs that are out cannot be taken back: until they are done no response goes out, since with it the host takes its memory away.
    /// [RDMA-DATA-11, RDMA-KEY-04]
    fn abandon(&mut self, cid: Cid) -> bool {
        self.fetching.retain(|c| *c != cid);
        for read in self.reads.iter_mut().filter(|r| r.cid == cid && !r.orphan) {
            read.orphan = true;
            self.orphans += 1;
        }
        true
    }

    fn reply(&mut self, reply: Reply) {
        self.strays += usize::from(!reply.counted);
        self.out.push_back(Out { reply, at: 0, cursor: Cursor::default() });
    }
}

impl Carrier {
    pub fn new(settings: Arc<RdmaSettings>, granted: &Granted, limits: &nvmf_seam::rdma::Limits) -> Self {
        let most = |len: u32| len.min(limits.transfer).max(1);
        Self {
            rules: Rules { io: granted.qid != nvmf_wire::Qid::ADMIN, capsules: settings.capsules, ioccsz: granted.ioccsz },
            sending: Sending {
                all: 0,
                max_all: limits.work.max(1),
                sends: 0,
                max_sends: granted.sends.min(limits.work).max(1),
                max_reads: usize::from(granted.reads.max(1)),
                writing: 0,
                read_len: most(settings.max_read),
                write_len: most(settings.max_write),
                invalidates: settings.remote_invalidate && limits.sends_invalidate,
            },
            settings,
            fetching: VecDeque::new(),
            reads: VecDeque::new(),
            orphans: 0,
            out: VecDeque::new(),
            strays: 0,
            serial: 0,
            read_last: false,
        }
    }

    /// Replies for no command, and entries of all kinds that are held.
    pub fn strays(&self) -> usize {
        self.strays
    }

    pub fn held(&self) -> usize {
        self.fetching.len() + self.reads.len() + self.out.len()
    }

    /// Every response was sent, and the other side's NIC has it.
    pub fn is_drained(&self) -> bool {
        self.out.is_empty() && self.sending.sends == 0
    }

    pub fn clear(&mut self) {
        (self.fetching, self.reads, self.out) = Default::default();
        (self.orphans, self.strays) = (0, 0);
    }

    pub fn rest(&mut self) {
        self.fetching.shrink_to_fit();
        self.reads.shrink_to_fit();
        self.out.shrink_to_fit();
    }

    /// Room on the send queue is free again.
    pub fn ended(&mut self, purpose: Purpose, id: WorkId) {
        if purpose != Purpose::Receive {
            self.sending.all = self.sending.all.saturating_sub(1);
        }
        match purpose {
            Purpose::Send => self.sending.sends = self.sending.sends.saturating_sub(1),
            Purpose::Write => {
                let len = (id.0 & ((1 << SHIFT) - 1)) as usize;
                self.sending.writing = self.sending.writing.saturating_sub(len);
            }
            Purpose::Receive | Purpose::Read => {}
        }
    }
}

/// What [`next_work`] gives.
#[derive(Debug)]
pub(super) struct Next {
    pub work: Work,
    /// The response of this command is on its way.
    pub answered: Option<Cid>,
}

/// The next work request of the send queue, READs and answers in turn. `reading`: new READs may begin.
pub(super) fn next_work(core: &mut Core<Carrier>, reading: bool) -> Option<Next> {
    let Sending { all, max_all, .. } = core.binding.sending;
    if all >= max_all {
        return None;
    }
    let first = !core.binding.read_last;
    for read in [first, !first] {
        let next = match read {
            true if reading => next_read(core).map(|work| Next { work, answered: None }),
            true => None,
            false => next_answer(core),
        };
        if next.is_some() {
            core.binding.read_last = read;
            core.binding.sending.all += 1;
            return next;
        }
    }
    None
}

/// One READ, of the command whose turn it is: no more are out than the host answers at a time, and a command with much to fetch
/// does not keep others waiting. [RDMA-CM-04, RDMA-DATA-05]
fn next_read(core: &mut Core<Carrier>) -> Option<Work> {
    let Core { binding: b, commands, .. } = core;
    if b.reads.len() >= b.sending.max_reads {
        return None;
    }
    while let Some(cid) = b.fetching.pop_front() {
        let Some(c) = commands.get_mut(cid) else { continue };
        let State::Receiving { fetch, .. } = &mut c.state else { continue };
        let Some((from, len)) = fetch.cursor.next(&c.place, &c.sqe, b.sending.read_len) else { continue };
        fetch.asked += len as usize;
        if fetch.asked < fetch.len {
            b.fetching.push_back(cid);
        }
        b.serial += 1;
        b.reads.push_back(ReadOut { cid, len, orphan: false });
        return Some(Work::Read { id: Purpose::Read.id(b.serial), from, len });
    }
    None
}

/// The oldest READ is done. False where it is not what was asked for.
pub(super) fn read_done(core: &mut Core<Carrier>, data: Option<Bytes>) -> bool {
    let Some(read) = core.binding.reads.pop_front() else { return false };
    if read.orphan {
        core.binding.orphans -= 1;
        return true;
    }
    let Some(data) = data else { return true };
    if data.len() != read.len as usize {
        return false;
    }
    let Some(c) = core.commands.get_mut(read.cid) else { return true };
    let State::Receiving { fetch, .. } = &mut c.state else { return true };
    fetch.got += data.len();
    if data.len() == fetch.len {
        // All at once: nothing to join it with, however small it is.
        fetch.gather = data.into();
    } else {
        fetch.gather.push(data);
    }
    if fetch.got >= fetch.len {
        let data = core::mem::take(&mut fetch.gather);
        core.arrived(read.cid, Ok(data));
    }
    true
}

/// The next piece of the oldest reply: WRITEs while there is data, then the response, which the host thus sees behind the data.
/// [RDMA-DATA-05, RDMA-DATA-07]
fn next_answer(core: &mut Core<Carrier>) -> Option<Next> {
    let Core { binding: b, commands, .. } = core;
    if b.orphans > 0 {
        return None;
    }
    let out = b.out.front_mut()?;
    let left = out.reply.data.len().saturating_sub(out.at);
    if left > 0 {
        let most = b.sending.write_len.min(u32::try_from(left).unwrap_or(u32::MAX));
        if b.sending.writing > 0 && b.sending.writing + most as usize > b.settings.max_held {
            return None;
        }
        let piece = commands.get(out.reply.cid).and_then(|c| out.cursor.next(&c.place, &c.sqe, most));
        if let Some((to, len)) = piece {
            let n = len as usize;
            // All in one WRITE is given away as it is: to share it would cost an allocation.
            let whole = out.at == 0 && n == left;
            let data = if whole { core::mem::take(&mut out.reply.data) } else { out.reply.data.slice(out.at..out.at + n) };
            out.at += n;
            b.sending.writing += n;
            return Some(Next { work: Work::Write { id: Purpose::Write.id(len.into()), to, data }, answered: None });
        }
        // Descriptors are as long as the transfer, so that nothing is left.
        out.reply.data = Bytes::new();
    }
    next_send(core)
}

/// The response of the oldest reply. No more SENDs are out than the host has receives. [RDMA-CM-12, RDMA-DATA-02, RDMA-CAPS-04]
fn next_send(core: &mut Core<Carrier>) -> Option<Next> {
    let b = &mut core.binding;
    if b.sending.sends >= b.sending.max_sends {
        return None;
    }
    let Out { reply, .. } = b.out.pop_front()?;
    b.sending.sends += 1;
    b.serial += 1;
    let id = Purpose::Send.id(b.serial);
    let mut invalidate: Option<Rkey> = None;
    if reply.counted {
        // [RDMA-KEY-05, RDMA-KEY-06]
        let wished = core.commands.get(reply.cid).and_then(|c| c.place.invalidate(&c.sqe));
        invalidate = wished.filter(|_| b.sending.invalidates);
    } else {
        b.strays -= 1;
    }
    // [CQE-16, CQE-19]
    let sqhd = reply.sqhd.unwrap_or_else(|| core.queue.report_head());
    let mut cqe = *Cqe::of(reply.cid, reply.status, sqhd).as_bytes();
    cqe[..8].copy_from_slice(&reply.result.to_le_bytes());
    if reply.counted {
        core.finish(reply.cid);
    }
    let work = Work::Send { id, head: Head::new(&cqe), payload: Bytes::new(), invalidate };
    Some(Next { work, answered: reply.counted.then_some(reply.cid) })
}
