//! Digest flags as negotiated, digests that are right, padding. [NVMe/TCP 1.0, 3.3.1 and 3.2]

use std::fmt;

use nvmf_spec::req;
use nvmf_wire::tcp::{Pdu, PduType, crc32c};

use super::Out;
use crate::session::Session;

/// Returns whether the data is what was sent.
pub(super) fn check(session: &Session, pdu: &Pdu, out: &mut Out) -> bool {
    let (head, ptype) = (pdu.head(), pdu.ptype());
    if let Some(on) = session.digests() {
        if ptype.takes_hdgst() {
            let which = if on.header { req::TCP_DGST_05 } else { req::TCP_DGST_08 };
            let seen = format_args!("{ptype} with HDGSTF {}", u8::from(head.hdgstf()));
            out.at(1, 1).check(head.hdgstf() == on.header, which, seen, u8::from(on.header));
        }
        // The text gives no value of DDGSTF for a CapsuleCmd without data where data digests are on.
        let judged = ptype.takes_ddgst() && (ptype != PduType::CAPSULE_CMD || !pdu.data.is_empty() || !on.data);
        if judged {
            let which = if on.data { req::TCP_DGST_13 } else { req::TCP_DGST_15 };
            let seen = format_args!("{ptype} with DDGSTF {}", u8::from(head.ddgstf()));
            out.at(1, 1).check(head.ddgstf() == on.data, which, seen, u8::from(on.data));
        }
    }
    if let Some(d) = pdu.hdgst {
        let due = crc32c(&pdu.header);
        out.at(pdu.header.len(), 4).check(d == due, req::TCP_DGST_06, format_args!("HDGST {} of {ptype}", Hex(d)), Hex(due));
    }
    let mut sound = true;
    if let Some(d) = pdu.ddgst {
        let (due, at) = (crc32c(&pdu.data), (head.plen() as usize).saturating_sub(4));
        sound = d == due;
        out.at(at, 4).check(sound, req::TCP_DGST_16, format_args!("DDGST {} of {ptype}", Hex(d)), Hex(due));
    }
    padding(session, pdu, out);
    sound
}

/// A digest as a number.
struct Hex([u8; 4]);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_le_bytes(self.0))
    }
}

fn padding(session: &Session, pdu: &Pdu, out: &mut Out) {
    let (head, ptype) = (pdu.head(), pdu.ptype());
    let (units, which) = match ptype {
        PduType::C2H_DATA => (session.icreq().map(|q| q.hpda()), req::TCP_C2H_28),
        PduType::H2C_DATA => (session.icresp().map(|r| r.cpda()), req::TCP_H2C_23),
        PduType::CAPSULE_CMD => (session.icresp().map(|r| r.cpda()), req::TCP_CAPSULE_18),
        _ => return,
    };
    // With a wrong HLEN nobody can tell where the data should start.
    if pdu.data.is_empty() || ptype.hlen() != Some(pdu.header.len()) {
        return;
    }
    let data_at = pdu.header.len() + pdu.hdgst.map_or(0, |_| 4);
    let pdo = usize::from(head.pdo());
    if pdo < data_at {
        return out.at(3, 1).add(
            req::TCP_CH_05,
            format_args!("{ptype} with data and PDO {pdo}"),
            format_args!("{data_at} or more, where the data starts"),
        );
    }
    if let Some(at) = pdu.pad.iter().position(|b| *b != 0) {
        let value = pdu.pad.get(at).copied().unwrap_or(0);
        out.at(data_at + at, 1).add(req::TCP_PAD_04, format_args!("{ptype} with {value:#04x} in byte {at} of PAD"), "zero");
    }
    // More than 128 bytes cannot be asked for; that itself is judged at ICReq and ICResp.
    let Some(units) = units.filter(|u| *u <= 31) else { return };
    let align = (usize::from(units) + 1) * 4;
    if !pdo.is_multiple_of(align) {
        out.at(3, 1).add(which, format_args!("{ptype} with PDO {pdo}"), format_args!("a multiple of {align}"));
    } else {
        let least = data_at.next_multiple_of(align);
        out.at(3, 1).check(
            pdo == least,
            req::TCP_PAD_03,
            format_args!("{ptype} with PDO {pdo}"),
            format_args!("{least}, with no more PAD than needed"),
        );
    }
}
