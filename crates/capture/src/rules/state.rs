//! What the rules remember of a connection, and the order in which they run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use nvmf_spec::{Requirement, Side, req};
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::property::{Cc, Property, PropertySet};
use nvmf_wire::sqe::{FabricsType, IoOpcode};
use nvmf_wire::tcp::{C2hData, CapsuleCmd, CapsuleResp, H2cData, Pdu, PduHead, PduType, R2t, TermReq};
use nvmf_wire::{Cid, Cntlid, Cqe, Qid, Sqe, Status};

use super::answers::Answers;
use super::fatal::{self, Faults};
use super::known::{Enable, Known, Who};
use super::store::{Moving, Written};
use super::{HEADS, Out, capsule, content, data, digest, event, head, host, index, response, store};
use crate::exchange::{Direction, Event, EventKind};
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
    /// Whether each side ended its direction.
    pub closed: [bool; 2],
    /// What host and controller sent cannot be relied on any more.
    pub tainted: [bool; 2],
    /// What host and controller sent may be cut into other PDUs by their peer than by us.
    pub ambiguous: [bool; 2],
    host_spoke: bool,
    /// What was reported, where each requirement is reported once.
    pub reported: BTreeSet<(&'static str, Side)>,
    /// Common headers of the last PDUs of host and controller, newest last.
    heads: [VecDeque<[u8; 8]>; 2],
    /// When a terminate request of host and controller was seen.
    term: [Option<u64>; 2],
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
            EventKind::Pdu(bytes) => match Pdu::parse(bytes) {
                Ok(pdu) => self.pdu(event.dir, pdu, out),
                Err(e) => {
                    self.taint(side);
                    self.ambiguous[index(side)] = true;
                    self.remember(side, bytes);
                    head::malformed(bytes, &e, out);
                    self.blame(side, bytes, None, 0, out);
                }
            },
            EventKind::Gap { .. } => self.blind = true,
            EventKind::Undecodable { bytes, .. } => {
                if self.trusts(side) {
                    head::unframed(bytes, out);
                }
                self.taint(side);
                self.ambiguous[index(side)] = true;
                self.remember(side, bytes);
                if self.quoted[index(side)].is_some_and(|q| bytes.starts_with(&q)) {
                    self.quoted[index(side)] = None;
                }
                self.faults[index(side)].blur();
            }
            EventKind::Closed { reset } => self.close(side, *reset, out),
            EventKind::Tls(_) => {}
            // Not judged yet.
            EventKind::Packet(_) | EventKind::Rdma(_) => {}
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
                misquoted(quoted.other(), &bytes, out);
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

    /// Remembers what was wrong with a PDU, for the terminate request that may follow.
    fn blame(&mut self, side: Side, bytes: &[u8], hdgst: Option<[u8; 4]>, from: usize, out: &Out) {
        // A response to no command is one of the transport's too: its CCCID field names none. [TCP-CAPSULE-30]
        let is_transport = |r: &&'static Requirement| r.id.starts_with("TCP-") || *r == req::CQE_01;
        let transport = out.breaches.iter().skip(from).map(|b| b.requirement).filter(is_transport);
        let what: Vec<_> = transport.collect();
        self.faults[index(side)].note(bytes, hdgst, &what, self.now_ns);
    }

    pub fn taint(&mut self, side: Side) {
        self.tainted[index(side)] = true;
    }

    pub fn trusts(&self, side: Side) -> bool {
        !self.tainted[index(side)]
    }

    /// Keeps the start of what a side sent, so that a terminate request that quotes it can be judged.
    pub fn remember(&mut self, side: Side, bytes: &[u8]) {
        let heads = &mut self.heads[index(side)];
        if heads.len() == HEADS {
            heads.pop_front();
        }
        let mut head = [0; 8];
        for (d, s) in head.iter_mut().zip(bytes) {
            *d = *s;
        }
        heads.push_back(head);
    }

    /// The data of a terminate request is the header that was being processed. [NVMe/TCP 1.0, 3.5.1]
    pub fn quote(&mut self, sender: Side, pdu: &Pdu, out: &mut Out) {
        let quoted = pdu.data.get(..8).unwrap_or(&pdu.data);
        let peer = index(sender.other());
        let known = self.maybe_partial(sender, pdu)
            || self.ambiguous[peer]
            || pdu.header.len() != TermReq::LEN
            || self.heads[peer].iter().any(|h| h.starts_with(quoted));
        match quoted.first_chunk() {
            _ if known => {}
            // a PDU of which more was due may be wrong in what is there: its end tells
            Some(quoted) if !self.closed[peer] => self.quoted[peer] = Some(*quoted),
            _ => misquoted(sender, quoted, out),
        }
    }

    fn pdu(&mut self, dir: Direction, mut pdu: Pdu, out: &mut Out) {
        let sender = dir.sender();
        self.remember(sender, &pdu.header);
        if self.term[index(sender)].is_some() {
            let ends = if sender == Side::Host { req::TCP_TERM_13 } else { req::TCP_TERM_01 };
            out.add(ends, format_args!("{} after a terminate request", pdu.ptype()), "nothing but the end of the connection");
        }
        let before = out.breaches.len();
        out.part(0, pdu.header.len());
        if !head::direction(&pdu, out) {
            self.taint(sender);
            self.blame(sender, &pdu.header, None, before, out);
            return;
        }
        if sender == Side::Controller && self.disconnected && !matches!(pdu.ptype(), PduType::C2H_TERM_REQ | PduType::IC_RESP) {
            for which in [req::FAB_DISC_05, req::FAB_DISC_06, req::RESET_35] {
                out.add(which, format_args!("{} behind the response to Disconnect", pdu.ptype()), "nothing more on the queue");
            }
        }
        if sender == Side::Controller {
            fatal::goes_on(&mut self.faults[0], &pdu, out);
        }
        head::check(&pdu, out);
        self.order(sender, &pdu, out);
        if digest::check(&self.session, &pdu, out) {
            // Nobody has to count it again.
            pdu.ddgst = None;
        }
        let pdu = &pdu;
        if out.breaches.iter().skip(before).any(|b| fatal(b.requirement)) {
            self.taint(sender);
        }
        match pdu.ptype() {
            PduType::IC_RESP => self.ic_resp(pdu, out),
            PduType::CAPSULE_CMD => {
                if let Ok(c) = CapsuleCmd::read(&pdu.header) {
                    out.part(PduHead::LEN, Sqe::LEN);
                    capsule::check(self, &Sqe::from_bytes(c.sqe()), &pdu.data, out);
                }
            }
            PduType::CAPSULE_RESP => {
                if let Ok(c) = CapsuleResp::read(&pdu.header) {
                    out.cqe(PduHead::LEN);
                    response::check(self, &Cqe::from_bytes(c.cqe()), out);
                }
            }
            PduType::C2H_DATA => {
                data::c2h(self, pdu, out);
                self.took(pdu);
                store::came(self, pdu);
                response::by_success(self, pdu, out);
            }
            PduType::R2T => data::r2t(self, pdu, out),
            PduType::H2C_DATA => {
                data::h2c(self, pdu, out);
                store::sent(self, pdu);
            }
            PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ => {
                self.quote(sender, pdu, out);
                let peer = index(sender.other());
                let unseen = self.maybe_partial(sender, pdu) && !self.faults[peer].has(&pdu.data);
                if !self.ambiguous[peer] && !unseen {
                    fatal::term(&self.faults[peer], sender, self.term[peer].is_some(), pdu, out);
                }
            }
            _ => {}
        }
        let lengths = [req::TCP_H2C_24, req::TCP_C2H_01];
        if out.breaches.iter().skip(before).any(|b| lengths.contains(&b.requirement)) {
            self.ambiguous[index(sender)] = true;
        }
        if !matches!(pdu.ptype(), PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ) {
            self.blame(sender, &pdu.header, pdu.hdgst, before, out);
            self.silent(sender, pdu);
        }
        self.note(sender, pdu);
        self.session.apply(dir, pdu);
    }

    /// Whether a terminate request quotes a header of a PDU that is longer than the quote and was not seen: it is judged before its data
    /// is there, and may never have come as a whole. Headers of data PDUs are too much alike to say that one was seen.
    fn maybe_partial(&self, sender: Side, term: &Pdu) -> bool {
        let Ok(h) = PduHead::read(&term.data) else { return false };
        let theirs = h.ptype().hlen().is_some() && h.ptype().from_host() == (sender == Side::Controller);
        let data = matches!(h.ptype(), PduType::C2H_DATA | PduType::H2C_DATA);
        let seen = !data && self.heads[index(sender.other())].iter().any(|seen| term.data.starts_with(seen));
        theirs && !seen && h.plen() as usize > term.data.len()
    }

    /// What the text says nothing of: a second ICReq or ICResp, data PDUs of no bytes, and an R2T that asks for none.
    /// [TCP-SILENT-02, TCP-SILENT-11, TCP-SILENT-16, TCP-SILENT-19]
    fn silent(&mut self, side: Side, pdu: &Pdu) {
        let again = match pdu.ptype() {
            PduType::IC_REQ => self.session.icreq().is_some(),
            PduType::IC_RESP => self.session.icresp().is_some(),
            _ => false,
        };
        let nothing = match pdu.ptype() {
            PduType::H2C_DATA | PduType::C2H_DATA => pdu.data.is_empty(),
            PduType::R2T => R2t::read(&pdu.header).is_ok_and(|r| r.r2tl() == 0),
            _ => false,
        };
        if again || nothing {
            self.faults[index(side)].note_silent(&pdu.header, self.now_ns);
        }
    }

    /// Keeps data that came for a command, where rules read it.
    fn took(&mut self, pdu: &Pdu) {
        if let Ok(d) = C2hData::read(&pdu.header)
            && pdu.ddgst_ok()
        {
            self.answers.data(d.cccid().0, d.datao(), &pdu.data);
        }
    }

    /// ICReq first, and nothing but it before ICResp. [NVMe/TCP 1.0, 3.1]
    pub fn order(&mut self, sender: Side, pdu: &Pdu, out: &mut Out) {
        let ptype = pdu.ptype();
        let started = self.session.icreq().is_some() && self.session.icresp().is_some();
        if sender == Side::Host && !self.host_spoke {
            self.host_spoke = true;
            out.check(ptype == PduType::IC_REQ, req::TCP_ICREQ_01, format_args!("the host starts with {ptype}"), "an ICReq first");
        }
        let early =
            matches!(ptype, PduType::CAPSULE_CMD | PduType::CAPSULE_RESP | PduType::H2C_DATA | PduType::C2H_DATA | PduType::R2T);
        out.check(
            !early || started,
            req::TCP_CONN_02,
            format_args!("{ptype} before ICReq and ICResp"),
            "the exchange of both first",
        );
    }

    pub fn ic_resp(&self, pdu: &Pdu, out: &mut Out) {
        let (Some(asked), Ok(got)) = (self.session.icreq(), nvmf_wire::tcp::IcResp::read(&pdu.header)) else { return };
        for (name, asked, got) in [("HDGST", asked.hdgst(), got.hdgst()), ("DDGST", asked.ddgst(), got.ddgst())] {
            out.check(asked || !got, req::TCP_DGST_18, format_args!("ICResp enables {name}"), "only what ICReq asked for");
        }
    }

    /// Remembers what the rules need beyond the session.
    pub fn note(&mut self, sender: Side, pdu: &Pdu) {
        match pdu.ptype() {
            PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ => self.term[index(sender)] = Some(self.now_ns),
            PduType::CAPSULE_CMD => {
                if let Ok(c) = CapsuleCmd::read(&pdu.header) {
                    self.note_command(&Sqe::from_bytes(c.sqe()), &pdu.data);
                }
            }
            PduType::CAPSULE_RESP => {
                if let Ok(c) = CapsuleResp::read(&pdu.header) {
                    self.note_response(&Cqe::from_bytes(c.cqe()));
                }
            }
            PduType::C2H_DATA => {
                let done = C2hData::read(&pdu.header).ok().filter(|d| d.last() && d.success());
                if let Some(d) = done {
                    if let Some(sqe) = self.session.command(d.cccid()).map(|c| c.sqe).filter(|_| self.session.is_admin()) {
                        self.known.answer(&sqe, &Cqe::of(d.cccid(), Status::SUCCESS, 0), self.now_ns);
                        content::learn(self, &sqe, true);
                    }
                    if let Some(sqe) = self.session.command(d.cccid()).map(|c| c.sqe).filter(|_| !self.session.is_admin()) {
                        self.count(&sqe, true);
                    }
                    store::done(self, d.cccid().0, true);
                    self.finish(d.cccid(), true);
                }
            }
            PduType::H2C_DATA => {
                if let Ok(d) = H2cData::read(&pdu.header)
                    && self.session.command(d.cccid()).is_none_or(|c| c.r2ts.is_empty())
                    && d.last()
                {
                    self.stale.remove(&d.cccid().0);
                }
            }
            _ => {}
        }
    }

    fn note_command(&mut self, sqe: &Sqe, data: &[u8]) {
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
            let data = ConnectData::read(data).ok();
            self.asked_cntlid = data.as_ref().map(|d| d.cntlid());
            self.asking = data.as_ref().map(Who::of);
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

    fn note_response(&mut self, cqe: &Cqe) {
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

    fn count(&mut self, sqe: &Sqe, success: bool) {
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

/// Breaches after which the receiver may have read something else than we did.
pub(super) fn fatal(requirement: &Requirement) -> bool {
    [req::TCP_DGST_05, req::TCP_DGST_06, req::TCP_DGST_08, req::TCP_CH_05, req::TCP_CONN_02, req::TCP_ICREQ_01]
        .contains(&requirement)
        || head::HLEN.contains(&requirement)
}

/// A terminate request of `sender` quotes what its peer has not sent.
fn misquoted(sender: Side, quoted: &[u8], out: &mut Out) {
    let (both, what) = match sender {
        Side::Host => ([req::TCP_TERM_18, req::TCP_TERM_40], PduType::H2C_TERM_REQ),
        Side::Controller => ([req::TCP_TERM_06, req::TCP_TERM_56], PduType::C2H_TERM_REQ),
    };
    let data: String = quoted.iter().map(|b| format!("{b:02x}")).collect();
    for which in both {
        out.blame(sender, which, format_args!("{what} with data {data}"), "the header of the PDU that was wrong");
    }
}

/// A Property Set that clears CC.EN.
fn disables(sqe: &Sqe) -> bool {
    let set = PropertySet::from_bytes(*sqe.as_bytes());
    let property = sqe.fctype() == Some(FabricsType::PROPERTY_SET) && set.ofst() == Property::CC;
    property && !Cc::read(&set.value().to_le_bytes()).unwrap_or_default().en()
}
