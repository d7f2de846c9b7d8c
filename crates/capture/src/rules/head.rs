//! What the head of a PDU shows by itself: direction, type, lengths, reserved bits and bytes. [NVMe/TCP 1.0, 3.6.2]

use nvmf_spec::{Requirement, Side, req};
use nvmf_wire::DecodeError;
use nvmf_wire::tcp::{Fes, IcReq, IcResp, Pdu, PduType, TERM_PLEN, TermReq};

use super::{Out, type_of};

/// Requirements of one PDU type.
struct Rules {
    hlen: &'static Requirement,
    plen: &'static Requirement,
    /// PLEN of a PDU that has no data, without HDGST; `None` where the type has data.
    fixed: Option<u32>,
    /// Flags that the type defines.
    flags: (u8, &'static Requirement),
    /// PDO is reserved.
    pdo: Option<&'static Requirement>,
    /// Reserved bytes of the header, by ranges.
    reserved: &'static [(usize, usize, &'static Requirement)],
}

/// The requirements on HLEN.
pub(super) static HLEN: &[&Requirement] = &[
    req::TCP_ICREQ_04,
    req::TCP_ICRESP_04,
    req::TCP_TERM_27,
    req::TCP_TERM_43,
    req::TCP_CAPSULE_15,
    req::TCP_CAPSULE_26,
    req::TCP_H2C_20,
    req::TCP_C2H_24,
    req::TCP_R2T_14,
];

/// The requirements on reserved bits of FLAGS.
pub(super) static FLAGS: &[&Requirement] = &[
    req::TCP_ICREQ_03,
    req::TCP_ICRESP_03,
    req::TCP_TERM_26,
    req::TCP_TERM_42,
    req::TCP_CAPSULE_14,
    req::TCP_CAPSULE_25,
    req::TCP_H2C_19,
    req::TCP_C2H_23,
    req::TCP_R2T_13,
];

fn rules(ptype: PduType) -> Option<Rules> {
    Some(match ptype {
        PduType::IC_REQ => Rules {
            hlen: req::TCP_ICREQ_04,
            plen: req::TCP_ICREQ_05,
            fixed: Some(128),
            flags: (0, req::TCP_ICREQ_03),
            pdo: Some(req::TCP_ICREQ_06),
            reserved: &[(16, 128, req::TCP_ICREQ_13)],
        },
        PduType::IC_RESP => Rules {
            hlen: req::TCP_ICRESP_04,
            plen: req::TCP_ICRESP_05,
            fixed: Some(128),
            flags: (0, req::TCP_ICRESP_03),
            pdo: Some(req::TCP_ICRESP_06),
            reserved: &[(16, 128, req::TCP_ICRESP_14)],
        },
        PduType::H2C_TERM_REQ => Rules {
            hlen: req::TCP_TERM_27,
            plen: req::TCP_TERM_29,
            fixed: None,
            flags: (0, req::TCP_TERM_26),
            pdo: Some(req::TCP_TERM_28),
            reserved: &[(14, 24, req::TCP_TERM_39)],
        },
        PduType::C2H_TERM_REQ => Rules {
            hlen: req::TCP_TERM_43,
            plen: req::TCP_TERM_45,
            fixed: None,
            flags: (0, req::TCP_TERM_42),
            pdo: Some(req::TCP_TERM_44),
            reserved: &[(14, 24, req::TCP_TERM_55)],
        },
        PduType::CAPSULE_CMD => Rules {
            hlen: req::TCP_CAPSULE_15,
            plen: req::TCP_CAPSULE_19,
            fixed: None,
            flags: (0x03, req::TCP_CAPSULE_14),
            pdo: None,
            reserved: &[],
        },
        PduType::CAPSULE_RESP => Rules {
            hlen: req::TCP_CAPSULE_26,
            plen: req::TCP_CAPSULE_28,
            fixed: Some(24),
            flags: (0x01, req::TCP_CAPSULE_25),
            pdo: Some(req::TCP_CAPSULE_27),
            reserved: &[],
        },
        PduType::H2C_DATA => Rules {
            hlen: req::TCP_H2C_20,
            plen: req::TCP_H2C_24,
            fixed: None,
            flags: (0x07, req::TCP_H2C_19),
            pdo: None,
            reserved: &[(20, 24, req::TCP_H2C_29)],
        },
        PduType::C2H_DATA => Rules {
            hlen: req::TCP_C2H_24,
            plen: req::TCP_C2H_29,
            fixed: None,
            flags: (0x0f, req::TCP_C2H_23),
            pdo: None,
            reserved: &[(10, 12, req::TCP_C2H_31), (20, 24, req::TCP_C2H_31)],
        },
        PduType::R2T => Rules {
            hlen: req::TCP_R2T_14,
            plen: req::TCP_R2T_16,
            fixed: Some(24),
            flags: (0x01, req::TCP_R2T_13),
            pdo: Some(req::TCP_R2T_15),
            reserved: &[(20, 24, req::TCP_R2T_22)],
        },
        _ => return None,
    })
}

/// Whether the type goes this way and is known; the other rules hold only then.
pub(super) fn direction(pdu: &Pdu, out: &mut Out) -> bool {
    let ptype = pdu.ptype();
    let sender = out.dir.sender();
    if ptype.from_host() != (sender == Side::Host) {
        out.at(0, 1).add(
            req::TCP_CH_01,
            format_args!("the {} sends type {:02x}h, {ptype}", sender, ptype.0),
            "bit 0 of the type is the direction",
        );
        return false;
    }
    if rules(ptype).is_none() {
        out.at(0, 1).add(req::TCP_CH_02, format_args!("PDU type {:02x}h", ptype.0), "types 00h to 07h and 09h");
        return false;
    }
    true
}

/// A PDU whose lengths contradict each other, so that its parts cannot be told.
pub(super) fn malformed(bytes: &[u8], error: &DecodeError, out: &mut Out) {
    let Some((head, ptype)) = type_of(bytes) else { return };
    let Some(r) = rules(ptype) else {
        return out.at(0, 1).add(req::TCP_CH_02, format_args!("PDU type {:02x}h", ptype.0), "types 00h to 07h and 09h");
    };
    let hlen = ptype.hlen().unwrap_or_default();
    match error.at {
        _ if usize::from(head.hlen()) != hlen => {
            out.at(2, 1).add(r.hlen, format_args!("{ptype} with HLEN {}", head.hlen()), format_args!("{hlen}"))
        }
        3 => out.at(3, 1).add(
            req::TCP_CH_05,
            format_args!("{ptype} with PDO {} of PLEN {}", head.pdo(), head.plen()),
            "an offset behind the header, within the PDU",
        ),
        _ => out.at(4, 4).add(
            r.plen,
            format_args!("{ptype} with PLEN {}: {}", head.plen(), error.why),
            "the length of the whole PDU",
        ),
    }
}

/// Bytes that could not be framed: a breach only where PLEN is to blame.
pub(super) fn unframed(bytes: &[u8], out: &mut Out) {
    let Some((head, ptype)) = type_of(bytes) else { return };
    if head.plen() < 8 && ptype.from_host() == (out.dir.sender() == Side::Host) {
        let r = rules(ptype).map_or(req::TCP_CH_06, |r| r.plen);
        out.at(4, 4).add(r, format_args!("{ptype} with PLEN {}", head.plen()), "the length of the whole PDU");
    }
}

pub(super) fn check(pdu: &Pdu, out: &mut Out) {
    let (head, ptype) = (pdu.head(), pdu.ptype());
    let Some(r) = rules(ptype) else { return };
    let hlen = ptype.hlen().unwrap_or_default();
    out.at(2, 1).check(
        pdu.header.len() == hlen,
        r.hlen,
        format_args!("{ptype} with HLEN {}", pdu.header.len()),
        format_args!("{hlen}"),
    );
    if let Some(fixed) = r.fixed {
        let plen = fixed + u32::from(pdu.hdgst.is_some()) * 4;
        out.at(4, 4).check(head.plen() == plen, r.plen, format_args!("{ptype} with PLEN {}", head.plen()), format_args!("{plen}"));
    }
    let flags = pdu.header.get(1).copied().unwrap_or(0);
    let (defined, which) = r.flags;
    out.at(1, 1).check(
        flags & !defined == 0,
        which,
        format_args!("{ptype} with FLAGS {flags:#04x}"),
        format_args!("no bits but {defined:#04x}"),
    );
    if let Some(which) = r.pdo {
        out.at(3, 1).check(head.pdo() == 0, which, format_args!("{ptype} with PDO {}", head.pdo()), "0, it is reserved");
    }
    for (from, to, which) in r.reserved {
        let set = pdu.header.get(*from..*to).unwrap_or(&[]).iter().position(|b| *b != 0);
        if let Some(at) = set {
            let at = from + at;
            let value = pdu.header.get(at).copied().unwrap_or(0);
            out.at(at, 1).add(
                which,
                format_args!("{ptype} with {value:#04x} in byte {at}"),
                format_args!("bytes {from} to {} zero", to - 1),
            );
        }
    }
    match ptype {
        PduType::IC_REQ => ic_req(pdu, out),
        PduType::IC_RESP => ic_resp(pdu, out),
        PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ => term(pdu, r.plen, out),
        _ => {}
    }
}

fn ic_req(pdu: &Pdu, out: &mut Out) {
    let Ok(q) = IcReq::read(&pdu.header) else { return };
    out.at(8, 2).check(q.pfv() == 0, req::TCP_ICREQ_07, format_args!("PFV {}", q.pfv()), "0");
    out.at(10, 1).check(q.hpda() <= 31, req::TCP_ICREQ_08, format_args!("HPDA {}", q.hpda()), "0 to 31");
    let dgst = q.as_bytes()[11];
    out.at(11, 1).check(dgst & 0xfc == 0, req::TCP_ICREQ_09, format_args!("DGST {dgst:#04x}"), "bits 7:2 zero");
}

fn ic_resp(pdu: &Pdu, out: &mut Out) {
    let Ok(r) = IcResp::read(&pdu.header) else { return };
    out.at(8, 2).check(r.pfv() == 0, req::TCP_ICRESP_07, format_args!("PFV {}", r.pfv()), "0");
    out.at(10, 1).check(r.cpda() <= 31, req::TCP_ICRESP_08, format_args!("CPDA {}", r.cpda()), "0 to 31");
    let dgst = r.as_bytes()[11];
    out.at(11, 1).check(dgst & 0xfc == 0, req::TCP_ICRESP_09, format_args!("DGST {dgst:#04x}"), "bits 7:2 zero");
    let most = r.maxh2cdata();
    out.at(12, 4).check(most.is_multiple_of(4), req::TCP_ICRESP_12, format_args!("MAXH2CDATA {most}"), "a multiple of 4");
    out.at(12, 4).check(most >= 4096, req::TCP_ICRESP_13, format_args!("MAXH2CDATA {most}"), "at least 4096");
}

fn term(pdu: &Pdu, plen: &'static Requirement, out: &mut Out) {
    let Ok(t) = TermReq::read(&pdu.header) else { return };
    let host = out.dir.sender() == Side::Host;
    let ptype = pdu.ptype();
    let len = pdu.head().plen();
    out.at(4, 4).check(TERM_PLEN.contains(&len), plen, format_args!("{ptype} with PLEN {len}"), "24 to 152");
    let most = if host { req::TCP_TERM_21 } else { req::TCP_TERM_09 };
    out.check(pdu.data.len() <= 128, most, format_args!("{ptype} with {} bytes of data", pdu.data.len()), "128 at most");
    let (known, reserved) = if host { (req::TCP_TERM_30, req::TCP_TERM_38) } else { (req::TCP_TERM_46, req::TCP_TERM_54) };
    out.at(8, 2).check((1..=6).contains(&t.fes().0), known, format_args!("{ptype} with FES {:#06x}", t.fes().0), "01h to 06h");
    let without = matches!(t.fes(), Fes::PDU_SEQUENCE_ERROR | Fes::DATA_TRANSFER_OUT_OF_RANGE | Fes::LIMIT_EXCEEDED);
    out.at(10, 4).check(
        !without || t.fei() == 0,
        reserved,
        format_args!("FEI {:#x} with FES {:02x}h", t.fei(), t.fes().0),
        "0, it is reserved",
    );
}
