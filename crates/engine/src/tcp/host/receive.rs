//! PDUs from the controller: judged as soon as their header is there, acted on when they are whole.
//!
//! A header is judged in two steps, so that lengths are known to be sane before anything is waited for: the common header (type, state,
//! HDGSTF, HLEN, PLEN too small), then, once CH, PSH and HDGST are there, HDGST before everything else. [NVMe/TCP 1.0, 3.3.1.1 and 3.5]

use bytes::Bytes;
use nvmf_seam::Instant;
use nvmf_spec::{Requirement, req};
use nvmf_wire::tcp::{C2hData, CapsuleResp, Fes, IcResp, PduHead, PduType, R2t, TERM_PLEN, TermReq, crc32c};
use nvmf_wire::{Cid, Cqe, Status};

use super::{Fault, HostConnection, Item, Pending, State, Transfer};
use crate::host::connection::{Agreed, Completion, HostEvent, Negotiated};

type Judged<T> = Result<T, Fault>;

fn fault<T>(fes: Fes, fei: u32, requirement: &'static Requirement, seen: String) -> Judged<T> {
    Err(Fault { fes, fei, requirement, seen })
}

/// FES 01h: FEI is the offset of the field's first byte. [TCP-TERM-34]
fn field<T>(at: u32, requirement: &'static Requirement, seen: String) -> Judged<T> {
    fault(Fes::INVALID_PDU_HEADER_FIELD, at, requirement, seen)
}

fn sequence<T>(requirement: &'static Requirement, seen: String) -> Judged<T> {
    fault(Fes::PDU_SEQUENCE_ERROR, 0, requirement, seen)
}

/// A judged PDU: where its data lies.
struct Sound {
    plen: usize,
    data: core::ops::Range<usize>,
    ddgst: bool,
}

impl HostConnection {
    /// Bytes that came from the controller, cut anywhere. [TCP-GEN-05]
    ///
    /// Once the connection is ending they are dropped unread. [TCP-TERM-14]
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Instant) {
        if matches!(self.state, State::Terminated { .. } | State::Closed) {
            return;
        }
        self.framer.push(bytes);
        loop {
            if let State::Faulty { fault, .. } = &self.state {
                if self.framer.len() >= self.header_len() {
                    let fault = fault.clone();
                    self.terminate(fault, now);
                }
                return;
            }
            if !matches!(self.state, State::Starting { .. } | State::Ready) {
                return;
            }
            let Some(head) = self.framer.head() else { return };
            if head.ptype() == PduType::C2H_TERM_REQ && !TERM_PLEN.contains(&head.plen()) {
                // Not to be read and not to be answered. [TCP-TERM-10, TCP-TERM-11]
                self.ledger.events.push_back(HostEvent::TermReq { fes: Fes(0), fei: 0 });
                self.close(false);
                return;
            }
            match self.judge(head) {
                Ok(Some(sound)) => match self.framer.next_pdu() {
                    Some(pdu) => self.act(head, &pdu, &sound),
                    None => return,
                },
                Ok(None) => return,
                Err(fault) => self.state = State::Faulty { fault, until: now + self.settings.header_patience },
            }
        }
    }

    /// Bytes of the header that is being received, as far as its common header tells.
    fn header_len(&self) -> usize {
        let Some(head) = self.framer.head() else { return PduHead::LEN };
        head.ptype().hlen().unwrap_or(usize::from(head.hlen()).clamp(PduHead::LEN, 128))
    }

    /// What there is of the header being received.
    pub(super) fn faulty_header(&self) -> &[u8] {
        let bytes = self.framer.peek();
        bytes.get(..self.header_len()).unwrap_or(bytes)
    }

    /// `None` while more bytes of the header are needed. Changes nothing, so that asking again with more bytes is harmless.
    fn judge(&self, head: PduHead) -> Judged<Option<Sound>> {
        let ptype = head.ptype();
        let Some(hlen) = ptype.hlen() else { return field(0, req::TCP_CH_02, format!("PDU type {:#04x}", ptype.0)) };
        if ptype.from_host() {
            return field(0, req::TCP_ERR_05, format!("{ptype} from the controller"));
        }
        let plen = head.plen() as usize;
        if ptype == PduType::C2H_TERM_REQ {
            // There is no answer to a terminate request, so its header is not judged further.
            return Ok(Some(Sound { plen, data: 0..0, ddgst: false }));
        }
        if (self.state == State::Ready) == (ptype == PduType::IC_RESP) {
            return sequence(
                req::TCP_CONN_02,
                format!("{ptype} {}", if self.state == State::Ready { "again" } else { "before ICResp" }),
            );
        }
        let digest = ptype.takes_hdgst() && self.agreed.digests.header;
        if ptype.takes_hdgst() && head.hdgstf() != digest {
            let rule = if digest { req::TCP_DGST_05 } else { req::TCP_DGST_08 };
            return field(1, rule, format!("HDGSTF {} in {ptype}", u8::from(head.hdgstf())));
        }
        if usize::from(head.hlen()) != hlen {
            return field(2, req::TCP_CH_04, format!("HLEN {} in {ptype}", head.hlen()));
        }
        let header_end = hlen + if digest { 4 } else { 0 };
        if plen < header_end {
            return field(4, req::TCP_CH_06, format!("PLEN {plen} in {ptype}"));
        }
        let bytes = self.framer.peek();
        let (Some(header), true) = (bytes.get(..hlen), bytes.len() >= header_end) else { return Ok(None) };
        if digest {
            let received = bytes.get(hlen..).and_then(|b| b.first_chunk::<4>()).copied().unwrap_or_default();
            if received != crc32c(header) {
                let fei = u32::from_le_bytes(received);
                return fault(Fes::HEADER_DIGEST_ERROR, fei, req::TCP_DGST_06, format!("HDGST {fei:#010x} in {ptype}"));
            }
        }
        self.judge_body(ptype, header, header_end, plen).map(Some)
    }

    fn judge_body(&self, ptype: PduType, header: &[u8], header_end: usize, plen: usize) -> Judged<Sound> {
        let sound = Sound { plen, data: header_end..header_end, ddgst: false };
        if ptype == PduType::C2H_DATA {
            let pdo = PduHead::read(header).unwrap_or_default().pdo();
            return self.judge_c2h(C2hData::read(header).unwrap_or_default(), pdo.into(), header_end, plen);
        }
        if plen != header_end {
            let rule = match ptype {
                PduType::IC_RESP => req::TCP_ICRESP_05,
                PduType::R2T => req::TCP_R2T_16,
                _ => req::TCP_CAPSULE_28,
            };
            return field(4, rule, format!("PLEN {plen} in {ptype}"));
        }
        match ptype {
            PduType::IC_RESP => self.judge_icresp(IcResp::read(header).unwrap_or_default())?,
            PduType::R2T => self.judge_r2t(R2t::read(header).unwrap_or_default())?,
            _ => {
                let cid = response(header).cid();
                if self.known(cid).is_none() && !self.ledger.forgotten.contains_key(&cid) {
                    return field(8, req::TCP_CAPSULE_30, format!("CapsuleResp for unknown CID {:#06x}", cid.0));
                }
            }
        }
        Ok(sound)
    }

    /// In the order of the fields: the lowest offset counts. [TCP-TERM-35]
    fn judge_icresp(&self, p: IcResp) -> Judged<()> {
        let asked = self.settings.digests;
        if p.pfv() != 0 {
            return fault(Fes::UNSUPPORTED_PARAMETER, 8, req::TCP_ICRESP_07, format!("PFV {}", p.pfv()));
        }
        if p.cpda() > 31 {
            return field(10, req::TCP_ICRESP_08, format!("CPDA {}", p.cpda()));
        }
        if p.hdgst() && !asked.header || p.ddgst() && !asked.data {
            let seen = format!("HDGST {} DDGST {} enabled unasked", u8::from(p.hdgst()), u8::from(p.ddgst()));
            return field(11, req::TCP_DGST_18, seen);
        }
        if !p.maxh2cdata().is_multiple_of(4) {
            return field(12, req::TCP_ICRESP_12, format!("MAXH2CDATA {}", p.maxh2cdata()));
        }
        if p.maxh2cdata() == 0 {
            // Not an invalid value by the text, but no write could ever be sent.
            return fault(Fes::UNSUPPORTED_PARAMETER, 12, req::TCP_ICRESP_13, "MAXH2CDATA 0".into());
        }
        Ok(())
    }

    fn judge_c2h(&self, p: C2hData, pdo: usize, header_end: usize, plen: usize) -> Judged<Sound> {
        let (datao, datal) = (p.datao(), p.datal());
        // Whether DDGSTF may be set where there is no data, the text leaves open.
        if p.ddgstf() != self.agreed.digests.data && (datal > 0 || p.ddgstf()) {
            let rule = if self.agreed.digests.data { req::TCP_DGST_13 } else { req::TCP_DGST_15 };
            return field(1, rule, format!("DDGSTF {} in C2HData", u8::from(p.ddgstf())));
        }
        if p.success() && !p.last() {
            return field(1, req::TCP_C2H_14, "SUCCESS without LAST_PDU".into());
        }
        let align = (usize::from(self.settings.hpda.min(31)) + 1) * 4;
        if datal > 0 && (pdo < header_end || !pdo.is_multiple_of(align)) {
            return field(3, req::TCP_C2H_28, format!("PDO {pdo} in C2HData, alignment {align}"));
        }
        let data_at = if datal > 0 { pdo } else { header_end };
        let end = data_at + datal as usize;
        if plen != end + if p.ddgstf() { 4 } else { 0 } {
            return field(4, req::TCP_C2H_29, format!("PLEN {plen} with DATAL {datal} at PDO {pdo} in C2HData"));
        }
        let forgotten = self.ledger.forgotten.get(&p.cccid());
        if let Some(due) = forgotten.filter(|_| self.known(p.cccid()).is_none()) {
            let end = u64::from(datao) + u64::from(datal);
            if end > u64::from(*due) {
                let seen = format!("data up to {end} for a buffer of {due}");
                return fault(Fes::DATA_TRANSFER_OUT_OF_RANGE, 0, req::TCP_C2H_06, seen);
            }
            return Ok(Sound { plen, data: data_at..data_at, ddgst: false });
        }
        let Some(command) = self.known(p.cccid()) else {
            return field(8, req::TCP_C2H_30, format!("C2HData for unknown CCCID {:#06x}", p.cccid().0));
        };
        if command.own.due == 0 {
            return sequence(req::TCP_C2H_19, format!("C2HData for CID {:#06x}, which asks for no data", p.cccid().0));
        }
        if command.own.last {
            return sequence(req::TCP_C2H_09, format!("C2HData for CID {:#06x} after LAST_PDU", p.cccid().0));
        }
        if !datao.is_multiple_of(4) {
            return field(12, req::TCP_C2H_32, format!("DATAO {datao}"));
        }
        let beyond = u64::from(datao) + u64::from(datal);
        // Commands with lengths to the byte end where they end.
        if !datal.is_multiple_of(4) && beyond != u64::from(command.own.due) {
            return field(16, req::TCP_C2H_33, format!("DATAL {datal}"));
        }
        if datao as usize != command.own.data.len() {
            let rule = if command.own.data.is_empty() { req::TCP_C2H_02 } else { req::TCP_C2H_03 };
            return sequence(rule, format!("DATAO {datao} where {} is next", command.own.data.len()));
        }
        if beyond > u64::from(command.own.due) {
            let seen = format!("data up to {beyond} for a buffer of {}", command.own.due);
            return fault(Fes::DATA_TRANSFER_OUT_OF_RANGE, 0, req::TCP_C2H_06, seen);
        }
        Ok(Sound { plen, data: data_at..end, ddgst: p.ddgstf() && datal > 0 })
    }

    fn judge_r2t(&self, p: R2t) -> Judged<()> {
        let (r2to, r2tl, cid) = (p.r2to(), p.r2tl(), p.cccid());
        if self.known(cid).is_none() && self.ledger.forgotten.contains_key(&cid) {
            return Ok(());
        }
        let Some(command) = self.known(cid) else {
            return field(8, req::TCP_R2T_18, format!("R2T for unknown CCCID {:#06x}", cid.0));
        };
        let len = command.own.out.len() as u64;
        if len == 0 || command.own.in_capsule {
            return sequence(
                req::TCP_R2T_05,
                format!("R2T for CID {:#06x}, whose data is {len} bytes, none outside the capsule", cid.0),
            );
        }
        let end = u64::from(r2to) + u64::from(r2tl);
        if !r2to.is_multiple_of(4) {
            return field(12, req::TCP_R2T_20, format!("R2TO {r2to}"));
        }
        if r2tl == 0 {
            return field(16, req::TCP_R2T_05, "R2TL 0".into());
        }
        if !r2tl.is_multiple_of(4) && end != len {
            return field(16, req::TCP_R2T_21, format!("R2TL {r2tl}"));
        }
        if command.own.r2ts >= u32::from(self.settings.r2ts.max(1)) {
            let seen = format!("{} R2Ts outstanding for CID {:#06x}", command.own.r2ts + 1, cid.0);
            return fault(Fes::LIMIT_EXCEEDED, 0, req::TCP_R2T_10, seen);
        }
        if r2to != command.own.asked {
            let rule = if command.own.asked == 0 { req::TCP_R2T_02 } else { req::TCP_R2T_03 };
            return sequence(rule, format!("R2TO {r2to} where {} is next", command.own.asked));
        }
        if end > len {
            return fault(Fes::DATA_TRANSFER_OUT_OF_RANGE, 0, req::TCP_R2T_04, format!("R2T up to {end} for a buffer of {len}"));
        }
        Ok(())
    }

    /// A command that the controller can know of.
    fn known(&self, cid: Cid) -> Option<&Pending> {
        self.ledger.pending.get(&cid).filter(|p| p.sent)
    }

    fn act(&mut self, head: PduHead, pdu: &Bytes, sound: &Sound) {
        debug_assert_eq!(pdu.len(), sound.plen);
        match head.ptype() {
            PduType::IC_RESP => {
                let p = IcResp::read(pdu).unwrap_or_default();
                let digests = nvmf_wire::tcp::Digests { header: p.hdgst(), data: p.ddgst() };
                self.agreed = Negotiated { digests, align: (usize::from(p.cpda()) + 1) * 4, maxh2cdata: p.maxh2cdata() };
                self.state = State::Ready;
                self.ledger.events.push_back(HostEvent::Ready(Agreed::Tcp(self.agreed)));
            }
            PduType::CAPSULE_RESP => self.respond(response(pdu)),
            PduType::R2T => self.ready_to_transfer(R2t::read(pdu).unwrap_or_default()),
            PduType::C2H_DATA => self.take_data(C2hData::read(pdu).unwrap_or_default(), pdu, sound),
            _ => {
                let p = TermReq::read(pdu).unwrap_or_default();
                self.ledger.events.push_back(HostEvent::TermReq { fes: p.fes(), fei: p.fei() });
                self.close(false);
            }
        }
    }

    fn ready_to_transfer(&mut self, p: R2t) {
        let Some(command) = self.ledger.pending.get_mut(&p.cccid()) else { return };
        command.own.asked = p.r2to() + p.r2tl();
        command.own.r2ts += 1;
        self.out.push_back(Item::H2cData { cid: p.cccid(), ttag: p.ttag(), at: p.r2to(), end: command.own.asked });
    }

    fn take_data(&mut self, p: C2hData, pdu: &Bytes, sound: &Sound) {
        let Some(command) = self.ledger.pending.get_mut(&p.cccid()) else {
            if p.success() {
                self.ledger.forgotten.remove(&p.cccid());
            }
            return;
        };
        let data = pdu.slice(sound.data.clone());
        // Out of the byte stream, and where there is a digest once more.
        self.ledger.touched += data.len() as u64 * if sound.ddgst { 2 } else { 1 };
        if sound.ddgst && pdu.get(sound.data.end..) != Some(&crc32c(&data)[..]) {
            // Not fatal: the rest of the data is taken, then the command fails. [TCP-DGST-23, TCP-DGST-24]
            command.own.ddgst_bad = true;
        }
        command.own.data.push(data);
        command.own.last = p.last();
        if p.success() {
            // SQHD stays where it is. [TCP-C2H-12, FAB-SQFC-17]
            self.complete(Cqe::of(p.cccid(), Status::SUCCESS, 0));
        }
    }

    fn respond(&mut self, cqe: Cqe) {
        if !self.ledger.take_head(&cqe, true) {
            return;
        }
        if command_wants(self.ledger.pending.get(&cqe.cid())) && cqe.status().is_success() {
            self.ledger.note(req::TCP_C2H_08, format!("success for CID {:#06x} without LAST_PDU", cqe.cid().0));
        }
        self.complete(cqe);
    }

    /// Ends a command; what was still to be sent for it is not sent any more.
    fn complete(&mut self, cqe: Cqe) {
        let cid = cqe.cid();
        let Some(p) = self.ledger.pending.remove(&cid) else { return };
        let mut own = p.own;
        if own.r2ts > 0 {
            self.out.retain(|i| !matches!(i, Item::H2cData { cid: c, .. } if *c == cid));
        }
        let mut local = None;
        if cqe.status().is_success() {
            if own.data.len() < own.due as usize {
                self.ledger.note(req::TCP_C2H_04, format!("success with {} of {} bytes", own.data.len(), own.due));
                local = Some(Status::DATA_TRANSFER_ERROR);
            }
            if !own.in_capsule && (own.asked as usize) < own.out.len() || own.r2ts > 0 {
                self.ledger.note(req::TCP_R2T_04, format!("success after R2Ts for {} of {} bytes", own.asked, own.out.len()));
                local = Some(Status::DATA_TRANSFER_ERROR);
            }
            if own.ddgst_bad {
                local = Some(Status::TRANSIENT_TRANSPORT_ERROR); // TCP-DGST-25
            }
        }
        self.gather(&mut own);
        let completion = Completion { cid, cqe, local, data: own.data, memory: own.memory };
        self.ledger.events.push_back(HostEvent::Completed(completion));
    }

    /// Data that is to be in the user's memory is copied there.
    fn gather(&mut self, own: &mut Transfer) {
        if own.due == 0 {
            return;
        }
        let Some(memory) = &mut own.memory else { return };
        let data = std::mem::take(&mut own.data);
        if let Some(to) = memory.as_mut_slice().and_then(|m| m.get_mut(..data.len())) {
            data.copy_to(to);
            memory.touch(data.len());
            self.ledger.touched += data.len() as u64;
        }
    }
}

/// True for a command with data of which no C2HData had LAST_PDU.
fn command_wants(p: Option<&Pending>) -> bool {
    p.is_some_and(|p| p.own.due > 0 && !p.own.data.is_empty() && !p.own.last)
}

fn response(pdu: &[u8]) -> Cqe {
    Cqe::from_bytes(CapsuleResp::read(pdu).unwrap_or_default().cqe())
}
