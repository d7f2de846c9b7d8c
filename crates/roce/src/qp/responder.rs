//! The answering half: executes requests of the other side in the order of their PSNs, and acknowledges them. [IBA vol. 1, 9.7.4, 9.7.5]

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use nvmf_seam::rdma::{Done, Remote, Rkey, WorkError, WorkId};
use nvmf_wire::roce::{Aeth, AethKind, Bth, NakCode, Reth, RoceOpcode, psn_add, psn_distance};

use super::{PeerFacts, Shared, acknowledge, nak_aeth};
use crate::Datagram;
use crate::common::Core;
use crate::memory::Want;
use crate::receive::Incoming;

/// Credits that the codes 0 to 30 of a syndrome stand for; 31 says nothing of credits. [IBA vol. 1, 9.7.7.2.4]
pub(crate) const CREDITS: [u32; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192,
    12_288, 16_384, 24_576, 32_768,
];

#[derive(Clone, Copy, Debug)]
struct Receive {
    id: WorkId,
    len: u32,
}

/// The message of which more packets are to come.
#[derive(Debug, Default)]
enum Current {
    #[default]
    None,
    Send {
        receive: Receive,
        buffer: BytesMut,
    },
    Write {
        at: Remote,
        left: u32,
    },
}

/// What is to be sent, in the order of the PSNs that it answers.
#[derive(Debug)]
enum Answer {
    Ack {
        psn: u32,
    },
    Nak {
        psn: u32,
        code: NakCode,
    },
    NotReady {
        psn: u32,
    },
    /// The bytes of `left` come from `lent`, or where that is `None` out of the region at the moment at which they go out.
    Read {
        psn: u32,
        first: bool,
        at: Remote,
        left: u32,
        lent: Option<Bytes>,
    },
}

/// A READ that was answered, to be answered again. [IBA vol. 1, 9.7.5.1.5]
#[derive(Clone, Copy, Debug)]
struct Answered {
    psn: u32,
    psns: u32,
    at: Remote,
    len: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Responder {
    expected: u32,
    /// Messages completed.
    msn: u32,
    receives: VecDeque<Receive>,
    current: Current,
    /// A gap was told of, or that there was no receive buffer: nothing more is said of it until the expected PSN comes.
    told: bool,
    answers: VecDeque<Answer>,
    /// At most `max_reads`.
    answered: VecDeque<Answered>,
    max_reads: usize,
    /// A region went while a READ of it was answered.
    broken: bool,
}

/// Why a request is not executed.
enum Refusal {
    Nak(NakCode),
    /// The buffer's work request ends with this error.
    Receive(Receive, NakCode, WorkError),
    NotReady,
}

type Executed = Result<(), Refusal>;

impl From<crate::memory::Refused> for Refusal {
    fn from(_: crate::memory::Refused) -> Self {
        Self::Nak(NakCode::REMOTE_ACCESS)
    }
}

const INVALID: Refusal = Refusal::Nak(NakCode::INVALID_REQUEST);

impl Responder {
    pub(crate) fn start(&mut self, facts: &PeerFacts) {
        self.expected = facts.first_psn;
        self.max_reads = usize::from(facts.reads_in);
    }

    /// PSN that the next request should have.
    pub(crate) fn expected(&self) -> u32 {
        self.expected
    }

    /// Receive buffers that wait.
    pub(crate) fn receives(&self) -> usize {
        self.receives.len()
    }

    pub(crate) fn post(&mut self, shared: &Shared, core: &mut Core, id: WorkId, len: u32) {
        if shared.state == super::QpState::Err {
            return shared.complete(core, id, Err(WorkError::Flushed));
        }
        self.receives.push_back(Receive { id, len });
    }

    /// All buffers come back unused. What is to be answered still goes out: a NAK among it.
    pub(crate) fn flush(&mut self, shared: &Shared, core: &mut Core) {
        if let Current::Send { receive, .. } = core::mem::take(&mut self.current) {
            shared.complete(core, receive.id, Err(WorkError::Flushed));
        }
        for receive in core::mem::take(&mut self.receives) {
            shared.complete(core, receive.id, Err(WorkError::Flushed));
        }
    }

    /// A request. False where the queue pair has to go to ERR.
    pub(crate) fn handle(&mut self, shared: &Shared, core: &mut Core, packet: &Incoming<'_>) -> bool {
        let bth = &packet.headers.bth;
        let ahead = psn_distance(bth.psn(), self.expected);
        if ahead > 0 {
            core.counters.psn_ahead += 1;
            if !self.told {
                self.told = true;
                core.counters.nak_sequence += 1;
                self.answer(Answer::Nak { psn: self.expected, code: NakCode::PSN_SEQUENCE });
            }
            return true;
        }
        if ahead < 0 {
            core.counters.duplicate += 1;
            self.again(shared, core, packet);
            return true;
        }
        match self.execute(shared, core, packet) {
            Ok(()) => {
                if core::mem::take(&mut self.told) {
                    // What is here now need not be asked for.
                    self.answers.retain(|a| !matches!(a, Answer::Nak { code: NakCode::PSN_SEQUENCE, .. }));
                }
                if bth.opcode() != RoceOpcode::READ_REQUEST {
                    self.expected = psn_add(self.expected, 1);
                    if bth.ackreq() {
                        self.ack(bth.psn());
                    }
                }
                true
            }
            Err(refusal) => self.refuse(shared, core, refusal),
        }
    }

    fn refuse(&mut self, shared: &Shared, core: &mut Core, refusal: Refusal) -> bool {
        let code = match refusal {
            Refusal::NotReady => {
                self.told = true;
                core.counters.rnr_sent += 1;
                if !matches!(self.answers.back(), Some(Answer::NotReady { .. })) {
                    self.answer(Answer::NotReady { psn: self.expected });
                }
                return true;
            }
            Refusal::Nak(code) => code,
            Refusal::Receive(receive, code, why) => {
                shared.complete(core, receive.id, Err(why));
                code
            }
        };
        match code {
            NakCode::INVALID_REQUEST => core.counters.nak_invalid += 1,
            NakCode::REMOTE_ACCESS => core.counters.nak_access += 1,
            _ => core.counters.nak_operational += 1,
        }
        self.answers.push_back(Answer::Nak { psn: self.expected, code });
        false
    }

    /// An acknowledgement behind another one takes its place.
    fn ack(&mut self, psn: u32) {
        match self.answers.back_mut() {
            Some(Answer::Ack { psn: last }) => *last = psn,
            _ => self.answer(Answer::Ack { psn }),
        }
    }

    /// Queues what may be left out, as the requester asks again, where too much waits.
    fn answer(&mut self, answer: Answer) {
        if self.answers.len() < 2 * self.max_reads + 8 {
            self.answers.push_back(answer);
        }
    }

    /// A request that was executed before. [IBA vol. 1, 9.7.5.1.4, 9.7.5.1.5]
    fn again(&mut self, shared: &Shared, core: &mut Core, packet: &Incoming<'_>) {
        let (psn, op) = (packet.headers.bth.psn(), packet.headers.bth.opcode());
        let Some(reth) = packet.headers.reth.filter(|_| op == RoceOpcode::READ_REQUEST) else {
            if op.is_send() || op.is_write() {
                // Where answers to a READ still wait, the acknowledgement behind them says the same.
                if !self.answers.iter().any(|a| matches!(a, Answer::Read { .. })) {
                    self.ack(psn_add(self.expected, 0x00ff_ffff));
                }
            }
            return;
        };
        let inside = |a: &&Answered| (0..a.psns as i32).contains(&psn_distance(psn, a.psn));
        let Some(read) = self.answered.iter().find(inside).copied() else { return };
        // The same READ, or the rest of it from a later PSN on. [IBA vol. 1, 9.7.3.2]
        let skipped = psn_distance(psn, read.psn) as u32 * shared.mtu;
        let rest = read.len.saturating_sub(skipped);
        let same = reth.va() == read.at.addr.wrapping_add(u64::from(skipped)) && reth.rkey() == read.at.key.0;
        if !same || reth.dmalen() > rest {
            return;
        }
        let at = Remote { addr: reth.va(), key: read.at.key };
        if let Ok(lent) = core.regions.read(shared.pd, at, reth.dmalen()) {
            // The requester went back to here: what waits for it from here on, it asks for again.
            self.answers.retain(|a| match a {
                Answer::Ack { psn: p } | Answer::Read { psn: p, .. } => psn_distance(*p, psn) < 0,
                _ => true,
            });
            self.answers.push_back(Answer::Read { psn, first: true, at, left: reth.dmalen(), lent });
        }
    }

    fn execute(&mut self, shared: &Shared, core: &mut Core, packet: &Incoming<'_>) -> Executed {
        let op = packet.headers.bth.opcode();
        // [ROCE-SEQ-01]
        let goes_on = matches!(
            (&self.current, op),
            (
                Current::Send { .. },
                RoceOpcode::SEND_MIDDLE | RoceOpcode::SEND_LAST | RoceOpcode::SEND_LAST_IMM | RoceOpcode::SEND_LAST_INV
            ) | (Current::Write { .. }, RoceOpcode::WRITE_MIDDLE | RoceOpcode::WRITE_LAST | RoceOpcode::WRITE_LAST_IMM)
        );
        let begins = matches!(self.current, Current::None) && (op.begins() || op == RoceOpcode::READ_REQUEST);
        if !goes_on && !begins {
            return Err(INVALID);
        }
        // [ROCE-MTU-01, ROCE-BTH-03]
        let (len, mtu) = (packet.payload.len(), shared.mtu as usize);
        let sized = match op {
            RoceOpcode::READ_REQUEST => len == 0,
            _ if !op.ends() => len == mtu && packet.headers.bth.padcnt() == 0,
            _ if op.begins() => len <= mtu,
            _ => (1..=mtu).contains(&len),
        };
        if !sized {
            return Err(INVALID);
        }
        match packet.headers.reth {
            Some(reth) if op == RoceOpcode::READ_REQUEST => self.read(shared, core, &reth),
            _ if op.is_send() => self.send(shared, core, packet),
            reth => self.write(shared, core, packet, reth),
        }
    }

    fn send(&mut self, shared: &Shared, core: &mut Core, packet: &Incoming<'_>) -> Executed {
        let op = packet.headers.bth.opcode();
        let (receive, mut buffer) = match core::mem::take(&mut self.current) {
            Current::Send { receive, buffer } => (receive, buffer),
            // [IBA vol. 1, 9.7.5.2.8]
            _ => (self.receives.pop_front().ok_or(Refusal::NotReady)?, BytesMut::new()),
        };
        if buffer.len() + packet.payload.len() > receive.len as usize {
            return Err(Refusal::Receive(receive, NakCode::INVALID_REQUEST, WorkError::Length));
        }
        if !op.ends() {
            if buffer.capacity() == 0 {
                buffer = core.pool.take(receive.len as usize);
            }
            buffer.extend_from_slice(&packet.payload);
            self.current = Current::Send { receive, buffer };
            return Ok(());
        }
        let invalidated = packet.headers.ieth.map(|h| Rkey(h.rkey()));
        if let Some(key) = invalidated {
            if !core.settings.remote_invalidate {
                return Err(Refusal::Receive(receive, NakCode::INVALID_REQUEST, WorkError::Protection));
            }
            if core.regions.invalidate(shared.pd, key).is_err() {
                return Err(Refusal::Receive(receive, NakCode::REMOTE_ACCESS, WorkError::Protection));
            }
        }
        let data = if buffer.is_empty() {
            packet.payload.clone()
        } else {
            buffer.extend_from_slice(&packet.payload);
            buffer.freeze()
        };
        self.msn = psn_add(self.msn, 1);
        shared.complete(core, receive.id, Ok(Done::Received { data, invalidated }));
        Ok(())
    }

    fn write(&mut self, shared: &Shared, core: &mut Core, packet: &Incoming<'_>, reth: Option<Reth>) -> Executed {
        let op = packet.headers.bth.opcode();
        let len = packet.payload.len() as u32;
        let (at, left) = match (&self.current, reth) {
            (Current::Write { at, left }, _) => (*at, *left),
            (_, Some(reth)) => {
                let at = Remote { addr: reth.va(), key: Rkey(reth.rkey()) };
                // [ROCE-WRITE-01]: the length is looked at before the key, as a wrong one is the request's own fault.
                if reth.dmalen() > 1 << 31 {
                    return Err(INVALID);
                }
                core.regions.check(shared.pd, at, reth.dmalen(), Want::Write)?;
                (at, reth.dmalen())
            }
            _ => return Err(INVALID),
        };
        let fits = if op.ends() { left == len } else { left > len };
        if !fits {
            return Err(INVALID);
        }
        let immediate = packet.headers.immdt.is_some();
        if immediate && self.receives.is_empty() {
            return Err(Refusal::NotReady);
        }
        core.regions.write(shared.pd, at, &packet.payload)?;
        if op.ends() {
            self.current = Current::None;
            self.msn = psn_add(self.msn, 1);
            // Immediate data takes a buffer, and puts nothing into it.
            if let Some(receive) = immediate.then(|| self.receives.pop_front()).flatten() {
                shared.complete(core, receive.id, Ok(Done::Received { data: Bytes::new(), invalidated: None }));
            }
        } else {
            let at = Remote { addr: at.addr.wrapping_add(u64::from(len)), key: at.key };
            self.current = Current::Write { at, left: left - len };
        }
        Ok(())
    }

    fn read(&mut self, shared: &Shared, core: &mut Core, reth: &Reth) -> Executed {
        let waiting = self.answers.iter().filter(|a| matches!(a, Answer::Read { .. })).count();
        // More READs than were agreed to is an invalid request. [IBA vol. 1, 9.7.4.1.4]
        if waiting >= self.max_reads || reth.dmalen() > 1 << 31 {
            return Err(INVALID);
        }
        let (at, len) = (Remote { addr: reth.va(), key: Rkey(reth.rkey()) }, reth.dmalen());
        let lent = core.regions.read(shared.pd, at, len)?;
        let (psn, psns) = (self.expected, len.div_ceil(shared.mtu).max(1));
        if self.answered.len() >= self.max_reads {
            self.answered.pop_front();
        }
        self.answered.push_back(Answered { psn, psns, at, len });
        self.answers.push_back(Answer::Read { psn, first: true, at, left: len, lent });
        self.expected = psn_add(psn, psns);
        self.msn = psn_add(self.msn, 1);
        Ok(())
    }

    /// Drops what is to be answered but for fatal NAKs.
    pub(crate) fn only_refusals(&mut self) {
        self.answers.retain(|a| matches!(a, Answer::Nak { code, .. } if *code != NakCode::PSN_SEQUENCE));
    }

    /// The next answer.
    pub(crate) fn poll(&mut self, shared: &Shared, core: &mut Core) -> Option<Datagram> {
        let msn = self.msn;
        let credits = self.credits(shared);
        match self.answers.front_mut()? {
            Answer::Ack { psn } => {
                core.counters.acks_sent += 1;
                let d = acknowledge(shared, core, *psn, Aeth::new().with(|s| s.kind(AethKind::ACK).value(credits).msn(msn)));
                self.answers.pop_front();
                d
            }
            Answer::Nak { psn, code } => {
                let d = acknowledge(shared, core, *psn, nak_aeth(*code, msn));
                self.answers.pop_front();
                d
            }
            Answer::NotReady { psn } => {
                let timer = core.settings.rnr_timer & 31;
                let d = acknowledge(shared, core, *psn, Aeth::new().with(|s| s.kind(AethKind::RNR_NAK).value(timer).msn(msn)));
                self.answers.pop_front();
                d
            }
            Answer::Read { psn, first, at, left, lent } => {
                let len = shared.mtu.min(*left);
                let piece = match lent {
                    Some(data) => Ok(data.split_to(data.len().min(len as usize))),
                    None => core.regions.copy(shared.pd, *at, len, &mut core.pool),
                };
                let Ok(piece) = piece else {
                    let psn = *psn;
                    self.answers.clear();
                    self.broken = true;
                    core.counters.nak_access += 1;
                    return acknowledge(shared, core, psn, nak_aeth(NakCode::REMOTE_ACCESS, msn));
                };
                let last = *left == len;
                let op = match (*first, last) {
                    (true, true) => RoceOpcode::READ_ONLY,
                    (true, false) => RoceOpcode::READ_FIRST,
                    (false, false) => RoceOpcode::READ_MIDDLE,
                    (false, true) => RoceOpcode::READ_LAST,
                };
                let aeth = Aeth::new().with(|s| s.kind(AethKind::ACK).value(credits).msn(msn));
                let aeth = if op == RoceOpcode::READ_MIDDLE { &[][..] } else { aeth.as_bytes() };
                let d = shared.packet(core, Bth::new().with(|s| s.opcode(op).psn(*psn)), [aeth, &[]], &[], piece);
                (*psn, *first, *left) = (psn_add(*psn, 1), false, *left - len);
                at.addr = at.addr.wrapping_add(u64::from(len));
                if last {
                    self.answers.pop_front();
                }
                d
            }
        }
    }

    /// The queue pair has to go to ERR: what was promised cannot be sent.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Code of the receive buffers that wait, rounded down. [IBA vol. 1, 9.7.7.2.4]
    fn credits(&self, shared: &Shared) -> u8 {
        if !shared.flow_control {
            return 31;
        }
        let waiting = self.receives.len() as u32;
        CREDITS.iter().rposition(|c| *c <= waiting).unwrap_or(0) as u8
    }
}
