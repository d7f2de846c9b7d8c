//! Fatal transport errors: what a terminate request says of the PDU at fault, and whether a fatal one was followed by it.
//! [NVMe/TCP 1.0, 3.5.1 and 3.6.2.4 to 3.6.2.5]
//!
//! The other rules say what was wrong with a PDU ([`Faults::note`]); here stands which Fatal Error Status and Information fit that.
//! A breach for which the text names none fits any.

use std::collections::VecDeque;

use nvmf_spec::{Requirement, Side, req};
use nvmf_wire::tcp::{Fes, Pdu, PduType, TermReq};

use super::{Out, head};

/// PDUs at fault that are remembered of each side.
const MOST: usize = 32;
/// So long a fatal error may stay unanswered, nanoseconds: the time that the text gives a peer to close. [TCP-TERM-08]
const PATIENCE_NS: u64 = 30_000_000_000;

/// FES, and FEI where the text gives one.
type Fit = (u16, Option<u32>);

/// A PDU at fault.
#[derive(Debug)]
struct Fault {
    head: Vec<u8>,
    ptype: PduType,
    /// Every breach is one that ends the connection, for certain.
    fatal: bool,
    /// FES and FEI that fit; empty where any does.
    fits: Vec<Fit>,
    at_ns: u64,
    /// CID, where it is a command.
    cid: Option<u16>,
    /// The lowest byte at fault, where each breach names one.
    lowest: Option<u32>,
    /// What breaks first.
    breach: &'static Requirement,
    /// Its header digest is wrong, or may be taken for wrong.
    digest: bool,
}

/// The PDUs at fault of one side.
#[derive(Debug, Default)]
pub(super) struct Faults {
    list: VecDeque<Fault>,
    /// More were at fault than are remembered, or bytes that are none.
    more: bool,
    /// CIDs of commands that were sent behind a fatal fault.
    behind: Vec<u16>,
    /// The peer was found to go on.
    told: bool,
}

impl Faults {
    /// Notes what was wrong with a PDU.
    pub fn note(&mut self, bytes: &[u8], hdgst: Option<[u8; 4]>, breaches: &[&'static Requirement], at_ns: u64) {
        let Some(first) = breaches.first() else { return };
        let ptype = PduType(bytes.first().copied().unwrap_or(0xff));
        let mut fits = Vec::new();
        let (mut fatal, mut any, mut lowest, mut breach) = (false, false, None::<u32>, None);
        for b in breaches {
            match cause(b, ptype, hdgst) {
                Some((ends, codes)) => {
                    fatal |= ends;
                    breach = breach.or(ends.then_some(*b));
                    let at = codes.iter().filter_map(|(_, i)| *i).max();
                    lowest = [lowest, at].into_iter().flatten().min();
                    fits.extend_from_slice(&codes);
                }
                None => any = true,
            }
        }
        if any {
            fits.clear();
        }
        let cid = (ptype == PduType::CAPSULE_CMD).then(|| bytes.get(10..12).map(|c| u16::from_le_bytes([c[0], c[1]]))).flatten();
        if self.list.len() == MOST {
            self.list.pop_front();
            self.more = true;
        }
        let digest = breaches.iter().any(|b| [req::TCP_DGST_05, req::TCP_DGST_06, req::TCP_DGST_08].contains(b));
        let head = bytes.get(..128.min(bytes.len())).unwrap_or(&[]).to_vec();
        self.list.push_back(Fault { head, ptype, fatal, fits, at_ns, cid, lowest, breach: breach.unwrap_or(first), digest });
    }

    /// Notes a PDU at which the text is silent: a terminate request for it fits, whatever it says.
    pub fn note_silent(&mut self, bytes: &[u8], at_ns: u64) {
        let ptype = PduType(bytes.first().copied().unwrap_or(0xff));
        if self.list.len() < MOST {
            self.list.push_back(Fault {
                head: bytes.to_vec(),
                ptype,
                fatal: false,
                fits: Vec::new(),
                at_ns,
                cid: None,
                lowest: None,
                breach: req::TCP_CH_06,
                digest: false,
            });
        }
    }

    /// Whether this quotes a PDU at fault.
    pub fn has(&self, quote: &[u8]) -> bool {
        self.list.iter().any(|f| starts(&f.head, quote))
    }

    /// Bytes came that are no PDU: what the peer takes them for is not known.
    pub fn blur(&mut self) {
        self.more = true;
    }

    /// A command came; behind a fatal fault nobody serves it.
    pub fn command(&mut self, cid: u16) {
        if self.fatal().is_some() && self.behind.len() < MOST {
            self.behind.push(cid);
        }
    }

    fn fatal(&self) -> Option<&Fault> {
        self.list.iter().find(|f| f.fatal && f.ptype != PduType::H2C_TERM_REQ && f.ptype != PduType::C2H_TERM_REQ)
    }
}

/// What fits a breach: whether it surely ends the connection, and FES with FEI. `None` where the text leaves it open.
fn cause(r: &'static Requirement, ptype: PduType, hdgst: Option<[u8; 4]>) -> Option<(bool, Vec<Fit>)> {
    let header = Fes::INVALID_PDU_HEADER_FIELD.0;
    let (sequence, unsupported) = (Fes::PDU_SEQUENCE_ERROR.0, Fes::UNSUPPORTED_PARAMETER.0);
    let field = |at: u32| (header, Some(at));
    if head::HLEN.contains(&r) {
        return Some((true, vec![field(2)]));
    }
    if head::FLAGS.contains(&r) {
        return Some((false, vec![field(1)]));
    }
    let plen = [req::TCP_ICREQ_05, req::TCP_CAPSULE_19, req::TCP_H2C_24, req::TCP_CH_06];
    if plen.contains(&r) && r != req::TCP_H2C_24 {
        return Some((r == req::TCP_ICREQ_05, vec![field(4)]));
    }
    Some(match r {
        r if r == req::TCP_CH_01 || r == req::TCP_CH_02 => (true, vec![field(0), (sequence, None)]),
        r if r == req::TCP_CH_05 => (false, vec![field(3)]),
        r if r == req::TCP_ICREQ_07 || r == req::TCP_ICRESP_07 => (true, vec![field(8), (unsupported, Some(8))]),
        r if r == req::TCP_ICREQ_08 || r == req::TCP_ICRESP_08 => (true, vec![field(10), (unsupported, Some(10))]),
        r if r == req::TCP_ICREQ_01 => (ptype != PduType::H2C_TERM_REQ, vec![(sequence, None), field(0)]),
        r if r == req::TCP_DGST_06 => {
            (true, vec![(Fes::HEADER_DIGEST_ERROR.0, Some(u32::from_le_bytes(hdgst.unwrap_or_default())))])
        }
        r if r == req::TCP_DGST_18 => (true, vec![field(11), (unsupported, Some(11))]),
        r if r == req::TCP_R2T_03 => (true, vec![(sequence, None)]),
        r if r == req::TCP_R2T_10 => (true, vec![(Fes::LIMIT_EXCEEDED.0, None)]),
        r if r == req::TCP_H2C_09 => (true, vec![(Fes::LIMIT_EXCEEDED.0, None)]),
        r if r == req::TCP_H2C_07 || r == req::TCP_H2C_08 => {
            (true, vec![(sequence, None), (Fes::DATA_TRANSFER_OUT_OF_RANGE.0, None)])
        }
        r if r == req::TCP_H2C_04 => (true, vec![field(8), field(10), (sequence, None)]),
        _ => return None,
    })
}

/// Judges a terminate request against what its peer did wrong.
pub(super) fn term(faults: &Faults, sender: Side, answers: bool, pdu: &Pdu, out: &mut Out) {
    let Ok(t) = TermReq::read(&pdu.header) else { return };
    let (fes, fei) = (t.fes().0, t.fei());
    if faults.more || !(1..=6).contains(&fes) || pdu.header.len() != TermReq::LEN {
        return;
    }
    let host = sender == Side::Host;
    let of = |h, c| if host { h } else { c };
    let quoted: Vec<&Fault> = faults.list.iter().filter(|f| starts(&f.head, &pdu.data)).collect();
    let named: Vec<&Fault> = if quoted.is_empty() { faults.list.iter().collect() } else { quoted };
    let seen = format_args!("{} with FES {fes:02x}h, FEI {fei:#x}", pdu.ptype());
    let plain = [Fes::INVALID_PDU_HEADER_FIELD, Fes::PDU_SEQUENCE_ERROR, Fes::HEADER_DIGEST_ERROR].map(|f| f.0);
    if named.is_empty() {
        // The peer's PDUs were right, so that only its terminate request is left to complain of.
        if answers && !host {
            out.add(req::TCP_TERM_19, format_args!("{seen} in answer to an H2CTermReq"), "the end of the connection");
        } else if plain.contains(&fes) {
            out.add(of(req::TCP_TERM_16, req::TCP_TERM_04), seen, "no terminate request: every PDU before it was right");
        }
        return;
    }
    let digests = named.iter().any(|f| f.digest || f.fits.contains(&(1, Some(2))));
    if fes == Fes::HEADER_DIGEST_ERROR.0 && !digests {
        return out.add(of(req::TCP_TERM_16, req::TCP_TERM_04), seen, "another FES: every header digest before it was right");
    }
    if named.iter().any(|f| f.fits.is_empty()) {
        return;
    }
    let fits: Vec<Fit> = named.iter().flat_map(|f| f.fits.iter().copied()).collect();
    if !fits.iter().any(|(s, _)| *s == fes) {
        return out.add(of(req::TCP_TERM_16, req::TCP_TERM_04), seen, format_args!("FES {}", list(fits.iter().map(|(s, _)| *s))));
    }
    if fits.iter().any(|(s, i)| *s == fes && i.is_none_or(|i| i == fei)) {
        let lowest =
            named.iter().filter_map(|f| f.lowest).min().filter(|_| fes == Fes::INVALID_PDU_HEADER_FIELD.0 && named.len() == 1);
        if let Some(lowest) = lowest.filter(|l| fei > *l) {
            out.add(
                of(req::TCP_TERM_35, req::TCP_TERM_51),
                seen,
                format_args!("FEI {lowest:#x}, the lowest of the fields at fault"),
            );
        }
        return;
    }
    let which = match fes {
        3 => of(req::TCP_TERM_36, req::TCP_TERM_52),
        6 => of(req::TCP_TERM_37, req::TCP_TERM_53),
        _ => of(req::TCP_TERM_34, req::TCP_TERM_50),
    };
    let given = of(req::TCP_TERM_17, req::TCP_TERM_05);
    let due = fits.iter().filter(|(s, _)| *s == fes).filter_map(|(_, i)| i.map(|i| format!("{i:#x}"))).collect::<Vec<_>>();
    for which in [which, given] {
        out.add(which, seen, format_args!("FEI {}", due.join(" or ")));
    }
}

fn starts(head: &[u8], data: &[u8]) -> bool {
    let len = head.len().min(data.len());
    len >= 8 && head.get(..len) == data.get(..len)
}

fn list(codes: impl Iterator<Item = u16>) -> String {
    let mut all: Vec<u16> = codes.collect();
    all.sort_unstable();
    all.dedup();
    all.iter().map(|c| format!("{c:02x}h")).collect::<Vec<_>>().join(" or ")
}

/// The controller sends something that is no terminate request, though the host sent what ends the connection.
pub(super) fn goes_on(faults: &mut Faults, pdu: &Pdu, out: &mut Out) {
    let Some(fault) = faults.fatal().filter(|_| !faults.told) else { return };
    let cid = pdu.header.get(20..22).map(|c| u16::from_le_bytes([c[0], c[1]]));
    let answers = match pdu.ptype() {
        PduType::IC_RESP => fault.ptype == PduType::IC_REQ,
        PduType::CAPSULE_RESP => cid.is_some() && (faults.behind.contains(&cid.unwrap_or_default()) || fault.cid == cid),
        _ => false,
    };
    if answers {
        let seen = format_args!("{} though the host sent {} that ends the connection", pdu.ptype(), fault.ptype);
        out.add(req::TCP_TERM_02, seen, "a C2HTermReq and nothing else");
        faults.told = true;
    }
}

/// A side closes its direction first. What its peer sent was fatal, and it closes without a word, or the peer waited too long.
pub(super) fn closed(faults: &mut [Faults; 2], term: [bool; 2], by: Side, reset: bool, now_ns: u64, out: &mut Out) {
    // A reset may have overtaken a terminate request on its way, where the capture was taken at its receiver.
    let quiet = !reset;
    for side in [Side::Host, Side::Controller] {
        let (own, peer) = (super::index(side), super::index(side.other()));
        let Some(faults) = faults.get_mut(peer).filter(|f| !f.told && !term.get(own).copied().unwrap_or(true)) else { continue };
        let Some(fault) = faults.fatal() else { continue };
        let waited = now_ns.saturating_sub(fault.at_ns);
        let silent = by == side && quiet;
        // How long a host looks at what it got is for it to say.
        let never = by != side && side == Side::Controller && waited >= PATIENCE_NS;
        if !silent && !never {
            continue;
        }
        let seen = match silent {
            true => format!("the {side} closes after {} that is a fatal error", fault.ptype),
            false => format!("nothing for {} s after {} that is a fatal error", waited / 1_000_000_000, fault.ptype),
        };
        let which = if side == Side::Host { req::TCP_TERM_15 } else { req::TCP_TERM_03 };
        out.blame(side, which, &seen, "a terminate request");
        if let Some(which) = reaction(fault.breach).filter(|_| side == Side::Host) {
            out.blame(side, which, seen, "a terminate request");
        }
        faults.told = true;
    }
}

/// The requirement that asks a host for a terminate request after this breach of the controller.
fn reaction(breach: &'static Requirement) -> Option<&'static Requirement> {
    let icresp = [req::TCP_ICRESP_04, req::TCP_ICRESP_07, req::TCP_ICRESP_08];
    Some(match breach {
        b if icresp.contains(&b) => req::TCP_ERR_03,
        b if b == req::TCP_DGST_18 => req::TCP_DGST_19,
        b if b == req::TCP_DGST_06 => req::TCP_DGST_21,
        b if b == req::TCP_R2T_03 => req::TCP_R2T_06,
        b if b == req::TCP_R2T_10 => req::TCP_R2T_11,
        _ => return None,
    })
}

/// A terminate request is answered by the end of the connection; after 30 s its sender need not wait any longer.
pub(super) fn lingered(term: [Option<u64>; 2], by: Side, now_ns: u64, out: &mut Out) {
    let [host, controller] = term;
    let (sent, which) = match by {
        Side::Host => (host, req::TCP_TERM_19),
        Side::Controller => (controller, req::TCP_TERM_07),
    };
    if let Some(sent) = sent.filter(|at| now_ns.saturating_sub(*at) >= PATIENCE_NS) {
        let waited = now_ns.saturating_sub(sent) / 1_000_000_000;
        out.blame(by.other(), which, format_args!("the connection stands {waited} s after a terminate request"), "its end");
    }
}
