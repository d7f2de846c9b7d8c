//! Bytes to PDUs: a header is judged as soon as it is there, the rest of the PDU is awaited, and oversized capsule data is passed
//! over without being kept.

use bytes::{Bytes, BytesMut};
use nvmf_seam::Instant;
use nvmf_wire::tcp::{CapsuleCmd, Digests, Fes, H2cData, IcReq, IcResp, Pdu, PduHead, PduType, TERM_PLEN, crc32c};
use nvmf_wire::{Sqe, Status};

use super::controller::{ControllerConnection, Event};
use super::judge::{self, Context, Fault, Parts};
use super::send::Out;
use crate::queue::{Capsule, CloseReason, Phase};

/// A capsule whose data exceeds every limit, being passed over.
#[derive(Debug)]
pub(super) struct Skip {
    /// The capsule's header, 72 bytes.
    header: Bytes,
    /// Bytes still to come.
    left: usize,
}

/// Longest capsule that is passed over and answered with a status; a longer PLEN is a fault of the header.
const SKIP_MAX: usize = 16 * 1024 * 1024;

/// What a step of the parser came to.
enum Step {
    Again,
    Wait,
}

impl ControllerConnection {
    /// Takes PDUs out of the buffer as long as there are whole ones.
    pub(super) fn advance(&mut self, now: Instant) {
        self.core.fetch();
        self.core.start_waiting();
        loop {
            match self.core.phase {
                Phase::Connecting | Phase::Deleted | Phase::Closing | Phase::Closed => break,
                Phase::Terminating => {
                    self.buf = BytesMut::new();
                    break;
                }
                _ => {}
            }
            if !self.can_receive() {
                break;
            }
            match self.step(now) {
                Step::Again => {}
                Step::Wait => break,
            }
        }
        if self.core.phase == Phase::Closing {
            self.let_go();
        }
    }

    /// Bytes that may be held before parsing goes on.
    pub(super) fn room(&self) -> usize {
        self.core.binding.settings.maxh2cdata as usize + self.core.queue.in_capsule + 4096
    }

    fn step(&mut self, now: Instant) -> Step {
        if let Some(skip) = &mut self.skip {
            let n = skip.left.min(self.buf.len());
            skip.left -= n;
            let _ = self.buf.split_to(n);
            if skip.left > 0 {
                return Step::Wait;
            }
            if let Some(skip) = self.skip.take() {
                self.oversized(&skip.header);
            }
            return Step::Again;
        }
        // Looked at after every completion, mostly in vain: an error with a text would be the one allocation of a command.
        if self.buf.len() < PduHead::LEN {
            return Step::Wait;
        }
        let Ok(head) = PduHead::read(&self.buf) else { return Step::Wait };
        if head.ptype() == PduType::H2C_TERM_REQ {
            return self.term_req(now, &head);
        }
        match judge::head(&head, &self.context(head.ptype())) {
            Ok(parts) => self.body(&head, parts),
            Err(fault) => self.reject(now, &head, fault),
        }
    }

    fn context(&self, ptype: PduType) -> Context {
        Context {
            initialized: self.core.phase != Phase::Fresh,
            digests: self.digests,
            align: (usize::from(self.core.binding.settings.cpda) + 1) * 4,
            // H2CData is bounded by DATAL, which is judged before its data comes.
            longest: if ptype == PduType::H2C_DATA { usize::MAX } else { SKIP_MAX },
        }
    }

    /// H2CTermReq: whatever it says, close; a terminate request is never answered by one. [TCP-TERM-19, TCP-TERM-22, TCP-TERM-23]
    fn term_req(&mut self, now: Instant, head: &PduHead) -> Step {
        let whole = !TERM_PLEN.contains(&head.plen()) || self.buf.len() >= head.plen() as usize;
        if whole || self.patience_over(now) {
            self.core.binding.out.clear();
            self.shut(CloseReason::HostTerminated);
            return Step::Again;
        }
        Step::Wait
    }

    /// The common header is wrong. The terminate request shows the whole header, so the rest is awaited for a little while.
    /// [TCP-TERM-06]
    fn reject(&mut self, now: Instant, head: &PduHead, fault: Fault) -> Step {
        let named = head.ptype().hlen().unwrap_or(usize::from(head.hlen()).clamp(PduHead::LEN, 128));
        let plen = (head.plen() as usize).max(PduHead::LEN);
        let want = named.min(plen);
        if self.buf.len() < want && !self.patience_over(now) {
            return Step::Wait;
        }
        let header = self.buf.split_to(want.min(self.buf.len()));
        self.fatal(fault, &header);
        Step::Again
    }

    /// True once [`header_patience`](crate::TcpSettings::header_patience) is over; starts it where it does not run.
    fn patience_over(&mut self, now: Instant) -> bool {
        let due = *self.header_due.get_or_insert(now + self.core.binding.settings.header_patience);
        if due <= now {
            self.header_due = None;
        }
        due <= now
    }

    /// The common header is right: judge the rest of the header, then wait for the rest of the PDU.
    fn body(&mut self, head: &PduHead, parts: Parts) -> Step {
        self.header_due = None;
        let fixed = parts.hlen + if parts.hdgst { 4 } else { 0 };
        let Some(front) = self.buf.get(..fixed) else { return Step::Wait };
        if parts.hdgst {
            let (header, digest) = front.split_at(parts.hlen);
            if crc32c(header) != digest {
                // FEI is the digest as received. [TCP-DGST-22, TCP-TERM-52]
                let fei = u32::from_le_bytes(digest.first_chunk().copied().unwrap_or_default());
                let header = Bytes::copy_from_slice(header);
                self.fatal(Fault { fes: Fes::HEADER_DIGEST_ERROR, fei }, &header);
                return Step::Again;
            }
        }
        if head.ptype() == PduType::H2C_DATA
            && let Ok(data) = H2cData::read(front)
            && let Err(fault) = self.judge_h2c(&data, parts.data.1 - parts.data.0)
        {
            let header = Bytes::copy_from_slice(&front[..parts.hlen]);
            self.fatal(fault, &header);
            return Step::Again;
        }
        let plen = head.plen() as usize;
        if head.ptype() == PduType::CAPSULE_CMD && parts.data.1 - parts.data.0 > self.core.queue.in_capsule {
            let pdu = self.buf.split_to(fixed);
            self.skip = Some(Skip { header: pdu.freeze().slice(..parts.hlen), left: plen - fixed });
            return Step::Again;
        }
        if self.buf.len() < plen {
            self.buf.reserve(plen - self.buf.len());
            return Step::Wait;
        }
        let pdu = self.buf.split_to(plen).freeze();
        self.whole(head.ptype(), &pdu, parts);
        Step::Again
    }

    fn whole(&mut self, ptype: PduType, pdu: &Bytes, parts: Parts) {
        let data = pdu.slice(parts.data.0..parts.data.1);
        let intact = !parts.ddgst || pdu.get(parts.data.1..).is_some_and(|d| d == crc32c(&data));
        match ptype {
            PduType::IC_REQ => self.ic_req(pdu),
            PduType::CAPSULE_CMD => self.capsule(pdu, data, intact),
            PduType::H2C_DATA => self.h2c_data(pdu, data, intact),
            _ => {}
        }
    }

    /// A whole CapsuleCmd. `intact`: its data digest, if any, is right.
    fn capsule(&mut self, pdu: &[u8], data: Bytes, intact: bool) {
        let Ok(cmd) = CapsuleCmd::read(pdu) else { return };
        self.core.submit(Capsule { sqe: Sqe::from_bytes(cmd.sqe()), data, intact });
    }

    /// A capsule whose data was passed over: it exceeds what a capsule may hold. The text names no status; the descriptor's length
    /// is not one that a capsule can have. [TCP-SILENT-06, TCP-CAPSULE-02, TCP-CAPSULE-06]
    fn oversized(&mut self, header: &[u8]) {
        let Ok(cmd) = CapsuleCmd::read(header) else { return };
        self.core.submit_refused(Sqe::from_bytes(cmd.sqe()), Status::DATA_SGL_LENGTH_INVALID.dnr(), 0);
    }

    /// [TCP-ICRESP-01]
    fn ic_req(&mut self, pdu: &Bytes) {
        let Ok(req) = IcReq::read(pdu) else { return };
        // A format version that we do not know is a parameter that we do not support. [TCP-ICREQ-07, TCP-ERR-02]
        if req.pfv() != 0 {
            return self.fatal(Fault::unsupported(8), pdu);
        }
        // [TCP-ICREQ-08, TCP-ERR-01, TCP-PAD-06]
        if req.hpda() > 31 {
            return self.fatal(Fault::field(10), pdu);
        }
        let s = &self.core.binding.settings;
        // A digest is used only where both want it. [TCP-DGST-03, TCP-DGST-11, TCP-DGST-18]
        let digests = Digests { header: req.hdgst() && s.header_digest, data: req.ddgst() && s.data_digest };
        let resp = IcResp::new().with(|r| r.cpda(s.cpda).hdgst(digests.header).ddgst(digests.data).maxh2cdata(s.maxh2cdata));
        let mut header = *resp.as_bytes();
        header[0] = PduType::IC_RESP.0;
        // MAXR2T is 0's based. [TCP-ICREQ-12, TCP-R2T-10]
        self.core.binding.max_r2ts = u32::try_from(req.maxr2t().count()).unwrap_or(u32::MAX).min(s.max_r2ts.max(1));
        self.align = (usize::from(req.hpda()) + 1) * 4;
        self.core.phase = Phase::Initialized;
        self.core.binding.out.push_back(Out::Plain(Pdu::build(&header, Bytes::new(), Digests::default(), 4)));
        self.digests = digests;
    }

    /// A fatal transport error: nothing more is processed, the C2HTermReq is the last PDU, then the host closes.
    /// [TCP-TERM-01 to TCP-TERM-06, TCP-TERM-09]
    pub(super) fn fatal(&mut self, fault: Fault, header: &[u8]) {
        self.events.push_back(Event::Fatal { fes: fault.fes.0, fei: fault.fei });
        self.core.phase = Phase::Terminating;
        self.buf = BytesMut::new();
        self.skip = None;
        self.header_due = None;
        self.core.requests.clear();
        self.core.binding.out.push_back(Out::term(fault, header));
    }
}
