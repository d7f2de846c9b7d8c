//! A PDU's fields under Wireshark's names, to be held beside `tshark -T fields`.

use nvmf_wire::connect::ConnectData;
use nvmf_wire::cqe::{ConnectResponse, PropertyGetResponse};
use nvmf_wire::layout::{Layout, Structure, Value};
use nvmf_wire::sqe::FabricsType;
use nvmf_wire::tcp::{CapsuleCmd, CapsuleResp, Pdu, PduHead, PduType};
use nvmf_wire::{Cqe, Sqe, Status};

use crate::session::Session;

/// `(name, value)` of every field that has a name in Wireshark, in wire order: integers in decimal, bytes in hexadecimal, text as it
/// is. `session` is what was seen before the PDU.
///
/// Known differences of tshark 4.0: it prints a transport SGL (5Ah) as reserved, and the response of a failed Connect as if it had
/// succeeded.
#[must_use]
pub fn wireshark_fields(session: &Session, pdu: &Pdu) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    add(&mut out, PduHead::LAYOUT, &pdu.header);
    let Some(layout) = pdu.ptype().layout() else { return out };
    match pdu.ptype() {
        PduType::CAPSULE_CMD => {
            if let Ok(c) = CapsuleCmd::read(&pdu.header) {
                let sqe = Sqe::from_bytes(c.sqe());
                add(&mut out, session.layout_of(&sqe).0, sqe.as_bytes());
                let connect = sqe.fctype() == Some(FabricsType::CONNECT);
                if connect && pdu.data.len() >= ConnectData::LEN {
                    add(&mut out, ConnectData::LAYOUT, &pdu.data);
                }
            }
        }
        PduType::CAPSULE_RESP => {
            if let Ok(c) = CapsuleResp::read(&pdu.header) {
                let cqe = Cqe::from_bytes(c.cqe());
                add(&mut out, response_layout(session, &cqe), cqe.as_bytes());
            }
        }
        _ => {
            for f in layout.fields.iter().filter(|f| f.offset() >= 8) {
                one(&mut out, f, &pdu.header);
            }
        }
    }
    out
}

fn response_layout(session: &Session, cqe: &Cqe) -> &'static Layout {
    let success = cqe.status().code() == Status::SUCCESS;
    match session.command(cqe.cid()).and_then(|c| c.sqe.fctype()) {
        Some(FabricsType::CONNECT) if success => ConnectResponse::LAYOUT,
        Some(FabricsType::PROPERTY_GET) if success => PropertyGetResponse::LAYOUT,
        _ => Cqe::LAYOUT,
    }
}

fn add(out: &mut Vec<(&'static str, String)>, layout: &'static Layout, bytes: &[u8]) {
    for f in layout.all_fields() {
        one(out, f, bytes);
    }
}

fn one(out: &mut Vec<(&'static str, String)>, field: &'static nvmf_wire::Field, bytes: &[u8]) {
    if field.wireshark.is_empty() {
        return;
    }
    let value = match field.get(bytes) {
        Value::Int(n) => n.to_string(),
        Value::Bytes(_) if field.kind == nvmf_wire::Kind::Text => field.show(bytes).trim_matches('"').to_owned(),
        Value::Bytes(b) => b.iter().map(|x| format!("{x:02x}")).collect(),
    };
    out.push((field.wireshark, value));
}
