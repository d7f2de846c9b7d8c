//! A PDU's fields under Wireshark's names, to be held beside `tshark -T fields`.

use nvmf_wire::connect::ConnectData;
use nvmf_wire::cqe::{AsyncEventResponse, ConnectResponse, PropertyGetResponse};
use nvmf_wire::layout::{Layout, Structure, Value};
use nvmf_wire::property::{Property, PropertyGet, PropertySet};
use nvmf_wire::sqe::{FabricsType, Opcode};
use nvmf_wire::tcp::{CapsuleCmd, CapsuleResp, Pdu, PduHead, PduType};
use nvmf_wire::{Cqe, Sqe, Status};

use crate::session::Session;

/// `(name, value)` of every field that has a name in Wireshark, in wire order: integers in decimal, bytes in hexadecimal, text as it
/// is. `session` is what was seen before the PDU.
///
/// tshark 4.0 differs: it has no length for a transport SGL (5Ah), takes the response of a failed Connect for one that succeeded,
/// prints NLB plus one and the opcode of Fabrics commands as `7f`, shows a tag of 0 for every C2HData, and leaves out dwords that a
/// command defines bit by bit.
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
                if sqe.fctype() == Some(FabricsType::PROPERTY_SET) {
                    let set = PropertySet::from_bytes(*sqe.as_bytes());
                    property(&mut out, set.ofst(), set.value());
                }
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
                if let Some(get) = property_read(session, &cqe) {
                    let value = PropertyGetResponse::from_bytes(*cqe.as_bytes()).value();
                    property(&mut out, get.ofst(), value);
                }
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
    let Some(command) = session.command(cqe.cid()).filter(|_| cqe.status().code() == Status::SUCCESS) else {
        return Cqe::LAYOUT;
    };
    match command.sqe.fctype() {
        Some(FabricsType::CONNECT) => ConnectResponse::LAYOUT,
        Some(FabricsType::PROPERTY_GET) => PropertyGetResponse::LAYOUT,
        None if command.sqe.opc() == Opcode::ASYNC_EVENT_REQUEST && session.is_admin() => AsyncEventResponse::LAYOUT,
        _ => Cqe::LAYOUT,
    }
}

/// The Property Get that this completes with success.
fn property_read(session: &Session, cqe: &Cqe) -> Option<PropertyGet> {
    let command = session.command(cqe.cid()).filter(|_| cqe.status().code() == Status::SUCCESS)?;
    (command.sqe.fctype() == Some(FabricsType::PROPERTY_GET)).then(|| PropertyGet::from_bytes(*command.sqe.as_bytes()))
}

/// The bits of a property that has some.
fn property(out: &mut Vec<(&'static str, String)>, at: Property, value: u64) {
    if let Some(layout) = crate::trace::property_layout(at) {
        add(out, layout, &value.to_le_bytes());
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
