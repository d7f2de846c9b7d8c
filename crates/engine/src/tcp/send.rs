//! What goes to the host: ICResp, R2T, C2HData, CapsuleResp, C2HTermReq, built when the driver asks for them.

use bytes::{Bytes, BytesMut};
use nvmf_seam::{Head, Instant, Transmit};
use nvmf_wire::tcp::{C2hData, CapsuleResp, Digests, Pdu, PduType, R2t, TermReq, crc32c};
use nvmf_wire::{Cid, Cqe, Status};

use super::controller::ControllerConnection;
use super::judge::Fault;
use crate::queue::{Phase, Reply};

/// One thing to send; data is cut into PDUs only when its turn comes.
#[derive(Debug)]
pub(super) enum Out {
    /// A PDU that is ready.
    Plain(Pdu),
    /// The last PDU of the connection.
    Term(Pdu),
    /// Asks for data.
    R2t { cid: Cid, ttag: u16, offset: u32, len: u32 },
    /// The end of a command: what is left of its data from `at` on, then the completion.
    Reply { reply: Reply, at: usize },
}

impl Out {
    /// Entries from which on nothing more is taken in.
    pub const LIMIT: usize = 4096;

    /// C2HTermReq: FES, FEI and at most 128 bytes of the header that was being processed. [TCP-TERM-04 to TCP-TERM-06, TCP-TERM-09]
    pub fn term(fault: Fault, header: &[u8]) -> Self {
        let mut b = *TermReq::new().with(|s| s.fes(fault.fes).fei(fault.fei)).as_bytes();
        b[0] = PduType::C2H_TERM_REQ.0;
        let shown = Bytes::copy_from_slice(header.get(..128).unwrap_or(header));
        Self::Term(Pdu::build(&b, shown, Digests::default(), 4))
    }
}

impl ControllerConnection {
    pub(super) fn next_transmit(&mut self, now: Instant) -> Option<Transmit> {
        match self.core.binding.out.pop_front()? {
            Out::Plain(pdu) => Some(whole(&pdu)),
            Out::Term(pdu) => {
                self.core.binding.out.clear();
                if self.core.phase == Phase::Terminating {
                    self.term_due = Some(now + self.core.binding.settings.term_wait);
                }
                Some(whole(&pdu))
            }
            Out::R2t { cid, ttag, offset, len } => {
                let mut b = *R2t::new().with(|s| s.cccid(cid).ttag(ttag).r2to(offset).r2tl(len)).as_bytes();
                b[0] = PduType::R2T.0;
                Some(self.encode(&mut b, Bytes::new()))
            }
            Out::Reply { reply, at } => Some(self.reply(now, reply, at)),
        }
    }

    /// The next PDU of a reply: C2HData while there is data, then CapsuleResp, unless SUCCESS said it already.
    fn reply(&mut self, now: Instant, mut r: Reply, at: usize) -> Transmit {
        if at < r.data.len() {
            let end = r.data.len().min(at + self.core.binding.settings.max_c2hdata.max(4) as usize);
            let last = end == r.data.len();
            // All in one PDU is given away as it is: to share it would cost an allocation.
            let part = if last && at == 0 { core::mem::take(&mut r.data) } else { r.data.slice(at..end) };
            // SUCCESS stands for a completion that says nothing more. It takes the SQHD update with it, so we set it only where the
            // host does without. [TCP-C2H-10, TCP-C2H-14, TCP-C2H-15, TCP-C2H-25]
            let success = last
                && self.core.binding.settings.success
                && !self.core.queue.flow_control
                && r.result == 0
                && r.status == Status::SUCCESS;
            // [TCP-C2H-01 to TCP-C2H-04, TCP-C2H-08, TCP-C2H-09]
            let mut b = *C2hData::new()
                .with(|s| s.cccid(r.cid).datao(at as u32).datal(part.len() as u32).last(last).success(success))
                .as_bytes();
            b[0] = PduType::C2H_DATA.0;
            let cid = r.cid;
            if success {
                // [TCP-C2H-11]
                self.core.finish(cid);
            } else {
                self.core.binding.out.push_front(Out::Reply { reply: r, at: end });
            }
            return self.encode(&mut b, part);
        }
        // [TCP-C2H-13, CQE-16, CQE-19]
        let sqhd = r.sqhd.unwrap_or_else(|| self.core.queue.report_head());
        let mut cqe = *Cqe::of(r.cid, r.status, sqhd).as_bytes();
        cqe[..8].copy_from_slice(&r.result.to_le_bytes());
        let mut b = *CapsuleResp::new().with(|s| s.cqe(cqe)).as_bytes();
        b[0] = PduType::CAPSULE_RESP.0;
        if r.counted {
            self.core.finish(r.cid);
            if self.core.queue.ending == Some(r.cid) {
                self.deleted(now);
            }
        }
        self.encode(&mut b, Bytes::new())
    }

    /// The response to Disconnect is on its way, the last of the queue; the host closes when it has it. [FAB-DISC-06, FAB-DISC-10,
    /// FAB-DISC-12]
    fn deleted(&mut self, now: Instant) {
        self.core.phase = Phase::Deleted;
        self.buf = BytesMut::new();
        self.core.queue.forget_pending();
        self.header_due = None;
        self.term_due = Some(now + self.core.binding.settings.term_wait);
    }

    /// Fills in the common header and adds padding and digests. [TCP-CH-03 to TCP-CH-06, TCP-PAD-01, TCP-DGST-06, TCP-DGST-16]
    fn encode(&self, header: &mut [u8], payload: Bytes) -> Transmit {
        let hlen = header.len();
        let data = !payload.is_empty();
        let at = hlen + if self.digests.header { 4 } else { 0 };
        let data_at = if data { at.next_multiple_of(self.align) } else { at };
        let ddgst = data && self.digests.data;
        let plen = data_at + payload.len() + if ddgst { 4 } else { 0 };
        header[1] |= u8::from(self.digests.header) | u8::from(ddgst) << 1;
        header[2] = hlen as u8;
        header[3] = if data { data_at as u8 } else { 0 };
        header[4..8].copy_from_slice(&(plen as u32).to_le_bytes());
        let mut head = Head::new(header);
        if self.digests.header {
            head.extend(&crc32c(header));
        }
        head.pad(data_at - at);
        let digest = ddgst.then(|| crc32c(&payload));
        Transmit { head, payload, digest }
    }
}

/// A PDU without digests and padding.
fn whole(pdu: &Pdu) -> Transmit {
    Transmit { head: Head::new(&pdu.header), payload: pdu.data.clone(), digest: None }
}
