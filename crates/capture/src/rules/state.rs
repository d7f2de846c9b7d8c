//! What the rules remember of a connection, and the order in which they run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use nvmf_spec::{Side, req};
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::property::{Cc, Property, PropertySet};
use nvmf_wire::sqe::{FabricsType, IoOpcode};
use nvmf_wire::{Cid, Cntlid, Cqe, Qid, Sqe};

use super::answers::Answers;
use super::fatal::Faults;
use super::known::{Enable, Known, Who};
use super::rdma::Rdma;
use super::store::{Moving, Written};
use super::{Out, content, event, fatal, host, index, rdma, roce, store, tcp};
use crate::exchange::{Event, EventKind};
use crate::session::{Session, Window};

/// Two halves of a fused operation, and whether each succeeded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub first: u16,
    pub second: u16,
    pub ended: [Option<bool>; 2],
}

/// What was known when a command was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub at_ns: u64,
    /// CC.EN was 0 and no change was under way.
    pub off: bool,
    /// A shutdown was under way or done.
    pub shut: bool,
    /// The controller served admin and I/O commands.
    pub serving: bool,
    /// The queue was connected.
    pub connected: bool,
    /// I/O queues stood.
    pub queues: bool,
    /// The first bytes of the data in the capsule.
    pub data: [u8; 4],
    /// Reads and Writes that were completed by then.
    pub io_done: (u64, u64),
}

/// What the rules remember of a connection beyond its [`Session`]. One entry a CID at most, so a peer cannot make it grow.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Commands sent before the one that cleared CC.EN last: those outstanding went with the reset. [FAB-INIT-13]
    pub reset_at: u64,
    pub session: Session,
    pub events: usize,
    /// Bytes are missing: nothing can be judged.
    pub blind: bool,
    /// The clock of the events, nanoseconds.
    pub now_ns: u64,
    /// The connection of the Admin Queue whose association this belongs to.
    pub home: Option<usize>,
    /// What is known of the controller; lent by [`super::Judge`] while an event of this connection is judged.
    pub known: Box<Known>,
    /// Data that comes for commands whose answers are read.
    pub answers: Answers,
    /// What was known when a command was sent, by its CID.
    pub marks: BTreeMap<u16, Mark>,
    /// What was wrong with the PDUs of host and controller.
    pub faults: [Faults; 2],
    /// What was written by whom, lent like `known`.
    pub written: Option<Written>,
    /// Data of I/O commands on its way, where `written` is kept.
    pub moving: BTreeMap<u16, Moving>,
    /// CIDs that were completed, and whether by Command Abort Requested; Admin Queue.
    pub aborted: BTreeMap<u16, bool>,
    /// AUTHREQ of the Connect that succeeded was 0.
    pub free: bool,
    /// It asked for authentication.
    pub required: bool,
    /// Disconnect succeeded.
    pub disconnected: bool,
    /// CID of the command sent last, where it is the first half of a fused operation.
    pub half: Option<u16>,
    /// Fused operations under way.
    pub pairs: Vec<Pair>,
    /// Event types with their information that were reported, and not cleared since.
    pub masked: BTreeMap<(u8, u8), u8>,
    /// Log page that is being read in parts, and how far.
    pub parts: Option<(u8, u64)>,
    /// Authentication messages were seen.
    pub authenticating: bool,
    /// The event that is judged is a successful answer.
    pub served: bool,
    /// What only an RDMA connection has; `None` on a TCP connection.
    pub rdma: Option<Box<Rdma>>,
    /// Whether each side ended its direction.
    pub closed: [bool; 2],
    /// What host and controller sent cannot be relied on any more.
    pub tainted: [bool; 2],
    /// What host and controller sent may be cut into other PDUs by their peer than by us.
    pub ambiguous: [bool; 2],
    pub host_spoke: bool,
    /// What was reported, where each requirement is reported once.
    pub reported: BTreeSet<(&'static str, Side)>,
    /// Common headers of the last PDUs of host and controller, newest last.
    pub heads: [VecDeque<[u8; 8]>; 2],
    /// When a terminate request of host and controller was seen.
    pub term: [Option<u64>; 2],
    /// Connect succeeded.
    pub connected: bool,
    /// Whom the Connect under way names, where its data was seen.
    pub asking: Option<Who>,
    /// What a terminate request quotes that host and controller have not sent whole: it may be the begin of what they are sending.
    pub quoted: [Option<[u8; 8]>; 2],
    /// Controller ID that Connect named, where the data was seen.
    pub asked_cntlid: Option<Cntlid>,
    /// CIDs that were completed, and whether by SUCCESS.
    pub completed: BTreeMap<u16, bool>,
    /// R2Ts of commands that were completed while data was due.
    pub stale: BTreeMap<u16, Vec<Window>>,
    /// CIDs used while outstanding: how many more responses may come.
    pub doubled: BTreeMap<u16, u32>,
    /// Commands that the controller has taken, by SQHD, and the SQHD that said so.
    pub head: Option<(u64, u16)>,
}

impl State {
    /// Judges one event.
    pub fn event(&mut self, event: &Event, out: &mut Out) {
        let side = event.dir.sender();
        self.served = false;
        match &event.kind {
            EventKind::Pdu(bytes) => self.bytes(event.dir, bytes, out),
            EventKind::Gap { .. } => self.blind = true,
            EventKind::Undecodable { bytes, .. } => self.undecodable(side, bytes, out),
            EventKind::Closed { reset } => self.close(side, *reset, out),
            EventKind::Tls(_) => {}
            EventKind::Packet(packet) => roce::packet(self, event.dir, packet, out),
            EventKind::Rdma(message) => rdma::message(self, event.dir, message, out),
        }
    }

    fn close(&mut self, side: Side, reset: bool, out: &mut Out) {
        if self.closed == [false; 2] {
            let term = self.term.map(|at| at.is_some());
            fatal::closed(&mut self.faults, term, side, reset, self.now_ns, out);
            fatal::lingered(self.term, side, self.now_ns, out);
            let leaving = self.session.outstanding().any(|c| c.sqe.fctype() == Some(FabricsType::DISCONNECT));
            let early = leaving && side == Side::Controller;
            out.check(!early, req::FAB_DISC_12, "the controller closes before it has answered Disconnect", "the response first");
            host::left(self, side, reset, out);
        }
        self.closed[index(side)] = true;
        for quoted in [Side::Host, Side::Controller] {
            if (reset || quoted == side)
                && let Some(bytes) = self.quoted[index(quoted)].take()
            {
                tcp::misquoted(quoted.other(), &bytes, out);
            }
        }
        if let (true, Some(qid)) = (self.connected, self.session.qid()) {
            match qid {
                Qid::ADMIN => self.known.open = false,
                // The queue is gone already, and its ID may be another's. [FAB-DISC-10]
                _ if self.disconnected => {}
                _ => self.known.queue(qid, false),
            }
        }
        // Writes under way stay in flight for ever: they may still happen.
        self.moving.clear();
    }

    pub fn taint(&mut self, side: Side) {
        self.tainted[index(side)] = true;
    }

    pub fn trusts(&self, side: Side) -> bool {
        !self.tainted[index(side)]
    }

    pub fn note_command(&mut self, sqe: &Sqe, data: &[u8]) {
        let cid = sqe.cid();
        if self.session.command(cid).is_some() {
            *self.doubled.entry(cid.0).or_default() += 1;
        }
        self.completed.remove(&cid.0);
        self.stale.remove(&cid.0);
        let mark = Mark {
            at_ns: self.now_ns,
            off: self.known.enable == Enable::Off,
            shut: self.known.shut,
            serving: self.known.serving(),
            connected: self.connected,
            queues: self.known.queues.values().any(|stands| *stands),
            io_done: self.known.io_done,
            data: *data.first_chunk().unwrap_or(&[0; 4]),
        };
        self.marks.insert(cid.0, mark);
        self.faults[0].command(cid.0);
        self.answers.expect(sqe, self.session.is_admin());
        event::asked(self, sqe);
        host::traffic(self, sqe);
        if sqe.fctype() == Some(FabricsType::CONNECT) {
            self.note_connect(ConnectData::read(data).ok().as_ref());
        }
        if self.session.is_admin() && self.connected {
            self.known.command(sqe);
            if sqe.fctype() == Some(FabricsType::PROPERTY_SET) {
                self.known.wrote_ns = self.now_ns;
            }
        }
        self.pair(sqe);
        self.half = (sqe.fctype().is_none() && sqe.fuse() == 1).then_some(cid.0);
        store::command(self, sqe, data);
    }

    /// Whom a Connect names, once its data is there.
    pub fn note_connect(&mut self, data: Option<&ConnectData>) {
        self.asked_cntlid = data.map(|d| d.cntlid());
        self.asking = data.map(Who::of);
    }

    pub fn note_response(&mut self, cqe: &Cqe) {
        let success = cqe.status().is_success();
        if let Some(command) = self.session.command(cqe.cid()) {
            let sqe = command.sqe;
            if success && disables(&sqe) {
                self.reset_at = command.number;
            }
            if sqe.fctype() == Some(FabricsType::CONNECT) {
                self.connected |= success;
                if success {
                    self.free = cqe.dw0() >> 16 == 0;
                    self.required = cqe.dw0() & 0x2_0000 != 0;
                    self.associate(&sqe, cqe);
                }
            } else if !self.session.is_admin() {
                self.count(&sqe, success);
            } else {
                self.known.answer(&sqe, cqe, self.now_ns);
                content::learn(self, &sqe, success);
            }
            if success && sqe.fctype() == Some(FabricsType::DISCONNECT) {
                self.disconnected = true;
                if let Some(qid) = self.session.qid().filter(|qid| *qid != Qid::ADMIN) {
                    self.known.queue(qid, false);
                }
            }
            event::ended(self, cqe.cid().0, cqe.status());
            self.served = success;
            event::noted(self, &sqe, cqe);
            self.fused(cqe.cid().0, success);
            store::done(self, cqe.cid().0, success);
            self.finish(cqe.cid(), false);
        } else if let Some(n) = self.doubled.get_mut(&cqe.cid().0) {
            *n = n.saturating_sub(1);
        }
    }

    /// Keeps data that came for a command of the host, where rules read it; `sound` where it is what was sent.
    pub fn took(&mut self, cid: Cid, offset: u64, data: &[u8], sound: bool) {
        if sound && let Ok(offset) = u32::try_from(offset) {
            self.answers.data(cid.0, offset, data);
        }
        store::moved(self, cid, offset, false, data, sound);
    }

    /// A second half behind its first: from now on they stand and fall together.
    fn pair(&mut self, sqe: &Sqe) {
        if let Some(first) = self.half.filter(|_| sqe.fuse() == 2 && sqe.fctype().is_none())
            && self.pairs.len() < 64
        {
            self.pairs.push(Pair { first, second: sqe.cid().0, ended: [None; 2] });
        }
        self.pairs.retain(|p| p.second == sqe.cid().0 || p.first != sqe.cid().0);
    }

    /// Half of a fused operation is over.
    fn fused(&mut self, cid: u16, success: bool) {
        for p in &mut self.pairs {
            if p.first == cid {
                p.ended[0] = Some(success);
            } else if p.second == cid {
                p.ended[1] = Some(success);
            }
        }
        self.pairs.retain(|p| p.ended.contains(&None));
    }

    pub fn count(&mut self, sqe: &Sqe, success: bool) {
        match IoOpcode(sqe.opc().0) {
            IoOpcode::READ if success => self.known.io_done.0 += 1,
            IoOpcode::WRITE if success => self.known.io_done.1 += 1,
            _ => {}
        }
    }

    fn associate(&mut self, sqe: &Sqe, cqe: &Cqe) {
        let connect = Connect::from_bytes(*sqe.as_bytes());
        if connect.qid() != Qid::ADMIN {
            return self.known.queue(connect.qid(), true);
        }
        let who = self.asking.take().map(|w| Who { cntlid: Cntlid(cqe.dw0() as u16), ..w });
        self.known.associated(who, connect.kato(), self.now_ns);
    }

    pub fn finish(&mut self, cid: Cid, by_success: bool) {
        self.completed.insert(cid.0, by_success);
        self.answers.forget(cid.0);
        self.marks.remove(&cid.0);
        let due: Vec<Window> = self.session.command(cid).map(|c| c.r2ts.iter().copied().collect()).unwrap_or_default();
        if !due.is_empty() {
            self.stale.insert(cid.0, due);
        }
    }
}

/// A Property Set that clears CC.EN.
fn disables(sqe: &Sqe) -> bool {
    let set = PropertySet::from_bytes(*sqe.as_bytes());
    let property = sqe.fctype() == Some(FabricsType::PROPERTY_SET) && set.ofst() == Property::CC;
    property && !Cc::read(&set.value().to_le_bytes()).unwrap_or_default().en()
}
