//! NVMe/TCP: the order in which the rules on PDUs run, and what they leave for the terminate requests that may follow. What PDUs carry,
//! commands, data and responses, is judged by rules that know no transport.

use bytes::Bytes;
use nvmf_spec::{Requirement, Side, req};
use nvmf_wire::tcp::{C2hData, CapsuleCmd, CapsuleResp, H2cData, Pdu, PduHead, PduType, R2t, TermReq};
use nvmf_wire::{Cqe, Sqe, Status};

use super::state::State;
use super::{HEADS, Out, capsule, content, data, digest, fatal, head, index, response, store};
use crate::exchange::Direction;

impl State {
    /// Judges a PDU of NVMe/TCP.
    pub fn bytes(&mut self, dir: Direction, bytes: &Bytes, out: &mut Out) {
        let side = dir.sender();
        match Pdu::parse(bytes) {
            Ok(pdu) => self.pdu(dir, pdu, out),
            Err(e) => {
                self.taint(side);
                self.ambiguous[index(side)] = true;
                self.remember(side, bytes);
                head::malformed(bytes, &e, out);
                self.blame(side, bytes, None, 0, out);
            }
        }
    }

    /// Judges bytes that are no PDU.
    pub fn undecodable(&mut self, side: Side, bytes: &[u8], out: &mut Out) {
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

    /// Remembers what was wrong with a PDU, for the terminate request that may follow.
    fn blame(&mut self, side: Side, bytes: &[u8], hdgst: Option<[u8; 4]>, from: usize, out: &Out) {
        // A response to no command is one of the transport's too: its CCCID field names none. [TCP-CAPSULE-30]
        let is_transport = |r: &&'static Requirement| r.id.starts_with("TCP-") || *r == req::CQE_01;
        let transport = out.breaches.iter().skip(from).map(|b| b.requirement).filter(is_transport);
        let what: Vec<_> = transport.collect();
        self.faults[index(side)].note(bytes, hdgst, &what, self.now_ns);
    }

    /// Keeps the start of what a side sent, so that a terminate request that quotes it can be judged.
    fn remember(&mut self, side: Side, bytes: &[u8]) {
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
    fn quote(&mut self, sender: Side, pdu: &Pdu, out: &mut Out) {
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
                if let Ok(d) = C2hData::read(&pdu.header) {
                    self.took(d.cccid(), d.datao().into(), &pdu.data, pdu.ddgst_ok());
                }
                response::by_success(self, pdu, out);
            }
            PduType::R2T => data::r2t(self, pdu, out),
            PduType::H2C_DATA => {
                data::h2c(self, pdu, out);
                if let Ok(d) = H2cData::read(&pdu.header) {
                    store::moved(self, d.cccid(), d.datao().into(), true, &pdu.data, pdu.ddgst_ok());
                }
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

    /// ICReq first, and nothing but it before ICResp. [NVMe/TCP 1.0, 3.1]
    fn order(&mut self, sender: Side, pdu: &Pdu, out: &mut Out) {
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

    fn ic_resp(&self, pdu: &Pdu, out: &mut Out) {
        let (Some(asked), Ok(got)) = (self.session.icreq(), nvmf_wire::tcp::IcResp::read(&pdu.header)) else { return };
        for (name, asked, got) in [("HDGST", asked.hdgst(), got.hdgst()), ("DDGST", asked.ddgst(), got.ddgst())] {
            out.check(asked || !got, req::TCP_DGST_18, format_args!("ICResp enables {name}"), "only what ICReq asked for");
        }
    }

    /// Remembers what the rules need beyond the session.
    fn note(&mut self, sender: Side, pdu: &Pdu) {
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
}

/// Breaches after which the receiver may have read something else than we did.
fn fatal(requirement: &Requirement) -> bool {
    [req::TCP_DGST_05, req::TCP_DGST_06, req::TCP_DGST_08, req::TCP_CH_05, req::TCP_CONN_02, req::TCP_ICREQ_01]
        .contains(&requirement)
        || head::HLEN.contains(&requirement)
}

/// A terminate request of `sender` quotes what its peer has not sent.
pub(super) fn misquoted(sender: Side, quoted: &[u8], out: &mut Out) {
    let (both, what) = match sender {
        Side::Host => ([req::TCP_TERM_18, req::TCP_TERM_40], PduType::H2C_TERM_REQ),
        Side::Controller => ([req::TCP_TERM_06, req::TCP_TERM_56], PduType::C2H_TERM_REQ),
    };
    let data: String = quoted.iter().map(|b| format!("{b:02x}")).collect();
    for which in both {
        out.blame(sender, which, format_args!("{what} with data {data}"), "the header of the PDU that was wrong");
    }
}
