//! The sending half: turns the send queue into packets, and keeps them until they are acknowledged. [IBA vol. 1, 9.7]
//!
//! The queue holds entries from the oldest that is not complete to the newest. `una` is the oldest PSN that is not acknowledged,
//! `cursor` with `cursor_psn` what is sent next; going back (go-back-N) is moving the cursor.

use std::collections::VecDeque;

use bytes::Bytes;
use nvmf_seam::Instant;
use nvmf_seam::rdma::{Done, WorkError};
use nvmf_wire::roce::{Aeth, AethKind, Bth, Ieth, NakCode, Reth, RoceOpcode, psn_add, psn_distance};

use super::wqe::{Kind, Wqe};
use super::{PeerFacts, Shared};
use crate::Datagram;
use crate::common::Core;
use crate::qp::QpState;
use crate::receive::Incoming;
use crate::settings::coded_time;

/// All outstanding PSNs stay within a quarter of their space, so that ahead and behind can be told apart. [IBA vol. 1, 9.7.1]
const PSN_SPAN: u32 = 1 << 22;
/// A syndrome's value that says nothing of credits. [IBA vol. 1, 9.7.7.2.4]
const NO_CREDITS: u8 = 31;

#[derive(Debug, Default)]
pub(crate) struct Requester {
    queue: VecDeque<Wqe>,
    /// PSN of the next entry that is begun.
    next_psn: u32,
    una: u32,
    /// One past the highest PSN that was sent.
    sent: u32,
    cursor: usize,
    cursor_psn: u32,
    /// READs before the cursor whose bytes are not all here.
    reads: u32,
    max_reads: u32,
    /// Gone back, and nothing was acknowledged since: further signs of the same loss change nothing.
    recovering: bool,
    deadline: Option<Instant>,
    /// No packets until then: the other side had no receive buffer.
    rnr_until: Option<Instant>,
    timeout: u8,
    retries: u8,
    retries_left: u8,
    rnr_retries: u8,
    rnr_left: u8,
    /// Number of the last message that was begun, and of the last one that credits allow.
    ssn: u32,
    limit: u32,
    limited: bool,
}

impl Requester {
    pub(crate) fn start(&mut self, facts: &PeerFacts) {
        (self.next_psn, self.una, self.sent, self.cursor_psn) = (facts.our_psn, facts.our_psn, facts.our_psn, facts.our_psn);
        self.max_reads = u32::from(facts.reads_out);
        self.timeout = facts.ack_timeout;
        (self.retries, self.retries_left) = (facts.retries, facts.retries);
        (self.rnr_retries, self.rnr_left) = (facts.rnr_retries, facts.rnr_retries);
        self.limited = facts.flow_control;
    }

    /// PSN of the next request.
    pub(crate) fn psn(&self) -> u32 {
        self.next_psn
    }

    /// Entries of the queue.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.rnr_until.or(self.deadline)
    }

    pub(crate) fn post(&mut self, shared: &Shared, core: &mut Core, wqe: Wqe) {
        if shared.state == QpState::Err {
            return end(shared, core, wqe, WorkError::Flushed);
        }
        self.queue.push_back(wqe);
        // What needs no packet and waits for nothing is done now, not when the carrier asks for packets.
        self.local(shared, core);
    }

    /// Moves on our next PSN: packets made elsewhere took some.
    pub(crate) fn skip(&mut self, by: u32) {
        if self.queue.is_empty() {
            self.next_psn = psn_add(self.next_psn, by);
            (self.una, self.sent, self.cursor_psn) = (self.next_psn, self.next_psn, self.next_psn);
        } else if by > 0 {
            self.queue.push_back(Wqe::skip(by));
        }
    }

    /// All work ends unexecuted.
    pub(crate) fn flush(&mut self, shared: &Shared, core: &mut Core) {
        core::mem::take(&mut self.queue).into_iter().for_each(|w| end(shared, core, w, WorkError::Flushed));
        (self.cursor, self.deadline, self.rnr_until) = (0, None, None);
    }

    /// The entry at the cursor, where nothing holds it back but the window of the NIC.
    fn next(&self, shared: &Shared) -> Option<&Wqe> {
        let wqe = self.queue.get(self.cursor)?;
        if !wqe.begun {
            let span = psn_distance(self.next_psn, self.una).max(0) as u32;
            if wqe.psns > PSN_SPAN - span.min(PSN_SPAN) {
                return None;
            }
            // Without a credit one message may still go, to learn of credits by its acknowledgement. [IBA vol. 1, 9.7.7.2.5]
            let ahead = psn_distance(psn_add(self.ssn, 1), self.limit);
            if self.limited && shared.flow_control && matches!(wqe.kind, Kind::Send { .. }) && ahead > 1 {
                return None;
            }
        }
        // [RDMA-CM-04]
        (!wqe.is_read() || self.reads < self.max_reads).then_some(wqe)
    }

    /// Executes what needs no packet at the cursor.
    fn local(&mut self, shared: &Shared, core: &mut Core) {
        if shared.state != QpState::Rts || self.rnr_until.is_some() {
            return;
        }
        while let Some(wqe) = self.queue.get_mut(self.cursor) {
            match &mut wqe.kind {
                Kind::Invalidate { key, done } if done.is_none() => *done = Some(core.regions.remove(*key)),
                Kind::Register { .. } | Kind::Invalidate { .. } => {}
                Kind::Skip => {
                    (wqe.psn, wqe.begun) = (self.next_psn, true);
                    self.next_psn = wqe.end();
                    (self.cursor_psn, self.sent) = (self.next_psn, self.next_psn);
                }
                _ => break,
            }
            self.cursor += 1;
        }
        self.complete(shared, core);
    }

    /// The next packet.
    pub(crate) fn poll(&mut self, shared: &Shared, core: &mut Core, now: Instant) -> Option<Datagram> {
        if shared.state != QpState::Rts || self.rnr_until.is_some() {
            return None;
        }
        self.local(shared, core);
        self.next(shared)?;
        let window = core.settings.window.max(1) as i32;
        // One packet of every window asks for an acknowledgement, so that the window moves on.
        let ack_every = core.settings.ack_every.clamp(1, core.settings.window.max(1));
        let (mtu, cursor_psn, next_psn) = (shared.mtu, self.cursor_psn, self.next_psn);
        let wqe = self.queue.get_mut(self.cursor)?;
        if !wqe.is_read() && psn_distance(cursor_psn, self.una) >= window {
            return None;
        }
        if !wqe.begun {
            (wqe.begun, wqe.psn) = (true, next_psn);
            self.ssn = psn_add(self.ssn, 1);
            if !matches!(wqe.kind, Kind::Send { .. }) {
                // READs and WRITEs take no receive buffer. [IBA vol. 1, 9.7.7.2.5]
                self.limit = psn_add(self.limit, 1);
            }
            self.next_psn = wqe.end();
        }
        let at = psn_distance(cursor_psn, wqe.psn).max(0) as u32;
        let (first, last) = (at == 0, at + 1 >= wqe.psns);
        let bth = Bth::new().with(|s| s.psn(cursor_psn).ackreq(last || cursor_psn % ack_every == ack_every - 1));
        let datagram = match &wqe.kind {
            Kind::Read { from, len, .. } => read_request(shared, core, cursor_psn, (from.addr, from.key.0, *len), at * mtu),
            Kind::Send { head, payload, invalidate } => {
                let (inline, rest) = cut(head.as_slice(), payload, at as usize * mtu as usize, mtu as usize);
                let ieth = invalidate.filter(|_| last).map(|k| Ieth::new().with(|s| s.rkey(k.0)));
                let op = send_opcode(first, last, ieth.is_some());
                let ieth = ieth.as_ref().map_or(&[][..], |h| h.as_bytes());
                shared.packet(core, bth.with(|s| s.opcode(op)), [ieth, &[]], inline, rest)
            }
            Kind::Write { to, data } => {
                let (_, rest) = cut(&[], data, at as usize * mtu as usize, mtu as usize);
                let reth = Reth::new().with(|s| s.va(to.addr).rkey(to.key.0).dmalen(data.len() as u32));
                let reth = if first { &reth.as_bytes()[..] } else { &[] };
                shared.packet(core, bth.with(|s| s.opcode(write_opcode(first, last))), [reth, &[]], &[], rest)
            }
            _ => None,
        };
        let read = wqe.is_read();
        self.cursor_psn = if read { wqe.end() } else { psn_add(cursor_psn, 1) };
        if read || last {
            self.cursor += 1;
        }
        self.reads += u32::from(read);
        if psn_distance(self.cursor_psn, self.sent) > 0 {
            self.sent = self.cursor_psn;
        }
        if self.deadline.is_none() {
            self.rearm(now);
        }
        datagram
    }

    fn rearm(&mut self, now: Instant) {
        let outstanding = psn_distance(self.sent, self.una) > 0;
        self.deadline = coded_time(self.timeout).filter(|_| outstanding).map(|t| now + t);
    }

    /// A response. False where the queue pair has to go to ERR.
    pub(crate) fn handle(&mut self, shared: &Shared, core: &mut Core, now: Instant, packet: &Incoming<'_>) -> bool {
        let psn = packet.headers.bth.psn();
        // [ROCE-ACK-01]
        if psn_distance(psn, self.sent) >= 0 || shared.state != QpState::Rts {
            core.counters.ghost += 1;
            return true;
        }
        if psn_distance(psn, self.una) < 0 {
            // An acknowledgement again, which may still bring credits. [IBA vol. 1, 9.7.7.2.3]
            if let Some(aeth) = packet.headers.aeth {
                self.credit(&aeth);
            }
            core.counters.ghost += u64::from(psn_distance(psn_add(psn, 1), self.una) < 0);
            return true;
        }
        match packet.headers.bth.opcode() {
            RoceOpcode::ACK => match packet.headers.aeth {
                Some(aeth) => self.acknowledged(shared, core, now, psn, &aeth),
                None => true,
            },
            op if op.is_read_response() => self.response(shared, core, now, packet),
            // No atomic of ours is out.
            _ => {
                core.counters.ghost += 1;
                true
            }
        }
    }

    fn credit(&mut self, aeth: &Aeth) {
        if aeth.kind() != AethKind::ACK {
            return;
        }
        match super::responder::CREDITS.get(usize::from(aeth.value())) {
            Some(credits) => {
                let limit = psn_add(aeth.msn(), *credits);
                if psn_distance(limit, self.limit) > 0 {
                    self.limit = limit;
                }
            }
            None => self.limited = aeth.value() != NO_CREDITS && self.limited,
        }
    }

    fn acknowledged(&mut self, shared: &Shared, core: &mut Core, now: Instant, psn: u32, aeth: &Aeth) -> bool {
        match aeth.kind() {
            AethKind::ACK => {
                self.credit(aeth);
                if !self.advance(shared, core, now, psn_add(psn, 1)) {
                    return self.go_back(core, now, self.una);
                }
                true
            }
            AethKind::RNR_NAK => {
                core.counters.rnr_received += 1;
                if !self.advance(shared, core, now, psn) {
                    return self.go_back(core, now, self.una);
                }
                self.receiver_not_ready(shared, core, now, aeth)
            }
            AethKind::NAK if aeth.value() == NakCode::PSN_SEQUENCE.0 => {
                self.advance(shared, core, now, psn);
                self.go_back(core, now, self.una)
            }
            AethKind::NAK => {
                let why = match NakCode(aeth.value()) {
                    NakCode::INVALID_REQUEST => WorkError::RemoteInvalidRequest,
                    NakCode::REMOTE_ACCESS => WorkError::RemoteAccess,
                    NakCode::REMOTE_OPERATIONAL => WorkError::RemoteOperational,
                    _ => WorkError::BadResponse,
                };
                self.advance(shared, core, now, psn);
                self.fail(shared, core, psn, why)
            }
            _ => true,
        }
    }

    /// All before `psn` is acknowledged, but for a READ whose responses did not all come, and what is behind it: then false.
    fn advance(&mut self, shared: &Shared, core: &mut Core, now: Instant, psn: u32) -> bool {
        let before = |w: &&Wqe| w.begun && psn_distance(w.psn, psn) < 0 || w.is_local();
        let gap = self.queue.iter().take_while(before).find_map(|w| w.missing(shared.mtu)).filter(|m| psn_distance(*m, psn) < 0);
        let reached = gap.unwrap_or(psn);
        if psn_distance(reached, self.una) > 0 {
            self.una = reached;
            self.recovering = false;
            (self.retries_left, self.rnr_left) = (self.retries, self.rnr_retries);
            self.rearm(now);
            if psn_distance(self.una, self.cursor_psn) > 0 {
                self.seek(self.una);
            }
            self.complete(shared, core);
        }
        gap.is_none()
    }

    /// A response to a READ. [IBA vol. 1, 9.7.5.1.9]
    fn response(&mut self, shared: &Shared, core: &mut Core, now: Instant, packet: &Incoming<'_>) -> bool {
        let (psn, op) = (packet.headers.bth.psn(), packet.headers.bth.opcode());
        // A response acknowledges what is before it.
        if !self.advance(shared, core, now, psn) {
            return self.go_back(core, now, self.una);
        }
        let (mtu, una) = (shared.mtu, self.una);
        let Some(wqe) = self.queue.iter_mut().find(|w| w.holds(psn)) else { return true };
        let last = psn_add(psn, 1) == wqe.end();
        let missing = wqe.missing(mtu).or((wqe.len() == 0 && una == psn).then_some(psn));
        let Kind::Read { len, got, buffer, single, .. } = &mut wqe.kind else {
            core.counters.ghost += 1;
            return self.fail(shared, core, psn, WorkError::BadResponse);
        };
        if missing != Some(psn) {
            return true;
        }
        let due = (*len - *got).min(mtu);
        let fits = matches!((op, last), (RoceOpcode::READ_FIRST | RoceOpcode::READ_MIDDLE, false))
            || matches!((op, last), (RoceOpcode::READ_LAST | RoceOpcode::READ_ONLY, true));
        // [ROCE-READ-01, ROCE-MTU-01]
        if !fits || packet.payload.len() != due as usize {
            return self.fail(shared, core, psn, WorkError::BadResponse);
        }
        if due == *len {
            *single = packet.payload.clone();
        } else {
            if *got == 0 {
                *buffer = core.pool.take(*len as usize);
            }
            buffer.extend_from_slice(&packet.payload);
        }
        *got += due;
        if let Some(aeth) = packet.headers.aeth {
            self.credit(&aeth);
        }
        self.advance(shared, core, now, psn_add(psn, 1));
        true
    }

    fn receiver_not_ready(&mut self, shared: &Shared, core: &mut Core, now: Instant, aeth: &Aeth) -> bool {
        if self.rnr_until.is_some() {
            return true;
        }
        if self.rnr_retries != 7 {
            let Some(left) = self.rnr_left.checked_sub(1) else {
                return self.fail(shared, core, self.una, WorkError::RnrRetryExceeded);
            };
            self.rnr_left = left;
        }
        let wait = core::time::Duration::from_micros(u64::from(aeth.rnr_us().unwrap_or(0)));
        self.seek(self.una);
        self.rnr_until = Some(now + wait);
        true
    }

    /// Sends from `psn` on again; signs of the same loss that come before anything was acknowledged are passed over. [IBA vol. 1, 9.7.5.2]
    fn go_back(&mut self, core: &mut Core, now: Instant, psn: u32) -> bool {
        if !self.recovering {
            core.counters.went_back += 1;
            self.recovering = true;
            self.rnr_until = None;
            self.seek(psn);
            self.rearm(now);
        }
        true
    }

    /// Moves the cursor to `psn`.
    fn seek(&mut self, psn: u32) {
        self.cursor = self.queue.iter().position(|w| !w.passed(psn)).unwrap_or(self.queue.len());
        self.cursor_psn = match self.queue.get(self.cursor) {
            Some(w) if w.begun && psn_distance(w.psn, psn) > 0 => w.psn,
            Some(w) if w.begun => psn,
            _ => self.next_psn,
        };
        self.reads = self.queue.iter().take(self.cursor).filter(|w| w.is_read()).count() as u32;
    }

    /// The entry of `psn` failed; those before it were not complete.
    fn fail(&mut self, shared: &Shared, core: &mut Core, psn: u32, why: WorkError) -> bool {
        let at = self.queue.iter().position(|w| w.holds(psn)).unwrap_or(0);
        self.queue.drain(..at).for_each(|w| end(shared, core, w, WorkError::Flushed));
        if let Some(wqe) = self.queue.pop_front() {
            end(shared, core, wqe, why);
        }
        false
    }

    /// Takes what is complete from the front of the queue.
    fn complete(&mut self, shared: &Shared, core: &mut Core) {
        while let Some(wqe) = self.queue.front_mut() {
            let acknowledged = wqe.begun && psn_distance(self.una, wqe.end()) >= 0;
            let result = match &mut wqe.kind {
                Kind::Send { .. } if acknowledged => Ok(Done::Sent),
                Kind::Write { .. } if acknowledged => Ok(Done::Written),
                Kind::Read { len, got, buffer, single, .. } if acknowledged && got == len => {
                    Ok(Done::Read(match single.is_empty() {
                        true => core::mem::take(buffer).freeze(),
                        false => core::mem::take(single),
                    }))
                }
                Kind::Register { remote } => Ok(Done::Registered(*remote)),
                Kind::Invalidate { done: Some(memory), .. } => memory.take().map(Done::Invalidated).ok_or(WorkError::NoSuchKey),
                // Whether packets made elsewhere are acknowledged is the business of who made them.
                Kind::Skip if wqe.begun => {
                    if !acknowledged {
                        self.una = wqe.end();
                    }
                    Err(WorkError::Flushed)
                }
                _ => return,
            };
            let (id, skip) = (wqe.id, matches!(wqe.kind, Kind::Skip));
            self.reads -= u32::from(wqe.is_read() && self.cursor > 0);
            self.queue.pop_front();
            self.cursor = self.cursor.saturating_sub(1);
            if !skip {
                shared.complete(core, id, result);
            }
        }
    }

    /// False where the queue pair has to go to ERR.
    pub(crate) fn handle_timeout(&mut self, shared: &Shared, core: &mut Core, now: Instant) -> bool {
        if let Some(at) = self.rnr_until {
            if at <= now {
                self.rnr_until = None;
                self.deadline = None;
            }
            return true;
        }
        if self.deadline.is_none_or(|at| at > now) {
            return true;
        }
        if self.una == self.sent {
            self.deadline = None;
            return true;
        }
        core.counters.timeouts += 1;
        if !(core.settings.endless_retries && self.retries == 7) {
            let Some(left) = self.retries_left.checked_sub(1) else {
                return self.fail(shared, core, self.una, WorkError::RetryExceeded);
            };
            self.retries_left = left;
        }
        self.recovering = false;
        self.go_back(core, now, self.una)
    }
}

/// Work that was not executed.
fn end(shared: &Shared, core: &mut Core, wqe: Wqe, why: WorkError) {
    let result = match wqe.kind {
        Kind::Skip => return,
        // Nobody knows the key, so nobody could take the region out.
        Kind::Register { remote } => {
            core.regions.remove(remote.key);
            Err(why)
        }
        // It was executed, and nobody else has the memory.
        Kind::Invalidate { done: Some(Some(memory)), .. } => Ok(Done::Invalidated(memory)),
        _ => Err(why),
    };
    shared.complete(core, wqe.id, result);
}

/// A READ request for what is missing from `offset` on. [IBA vol. 1, 9.7.3.2]
fn read_request(shared: &Shared, core: &Core, psn: u32, (addr, key, len): (u64, u32, u32), offset: u32) -> Option<Datagram> {
    let offset = offset.min(len);
    let reth = Reth::new().with(|s| s.va(addr.wrapping_add(u64::from(offset))).rkey(key).dmalen(len - offset));
    let bth = Bth::new().with(|s| s.opcode(RoceOpcode::READ_REQUEST).psn(psn).ackreq(true));
    shared.packet(core, bth, [reth.as_bytes(), &[]], &[], Bytes::new())
}

/// Bytes `at` to `at + mtu` of `head` and `payload` one behind the other.
fn cut<'a>(head: &'a [u8], payload: &Bytes, at: usize, mtu: usize) -> (&'a [u8], Bytes) {
    let end = at.saturating_add(mtu);
    let inline = head.get(at.min(head.len())..end.min(head.len())).unwrap_or(&[]);
    let from = at.saturating_sub(head.len()).min(payload.len());
    let to = end.saturating_sub(head.len()).min(payload.len());
    (inline, payload.slice(from..to.max(from)))
}

fn send_opcode(first: bool, last: bool, invalidate: bool) -> RoceOpcode {
    match (first, last, invalidate) {
        (true, true, false) => RoceOpcode::SEND_ONLY,
        (true, true, true) => RoceOpcode::SEND_ONLY_INV,
        (true, false, _) => RoceOpcode::SEND_FIRST,
        (false, false, _) => RoceOpcode::SEND_MIDDLE,
        (false, true, false) => RoceOpcode::SEND_LAST,
        (false, true, true) => RoceOpcode::SEND_LAST_INV,
    }
}

fn write_opcode(first: bool, last: bool) -> RoceOpcode {
    match (first, last) {
        (true, true) => RoceOpcode::WRITE_ONLY,
        (true, false) => RoceOpcode::WRITE_FIRST,
        (false, false) => RoceOpcode::WRITE_MIDDLE,
        (false, true) => RoceOpcode::WRITE_LAST,
    }
}
