//! Fields by name: in a PDU's header, in the command or response that it carries, in the data of a command.

use nvmf_wire::cqe::{AsyncEventResponse, ConnectInvalid, ConnectResponse, PropertyGetResponse, QueuesGranted};
use nvmf_wire::tcp::{CapsuleCmd, CapsuleResp, Pdu, PduHead, PduType};
use nvmf_wire::{CommandKind, Cqe, Field, Layout, Opcode, Sqe, Structure, Value, admin, feature, identify, log};

use crate::value::Val;

/// The tables that a response may be read with.
pub(crate) const RESPONSES: [&Layout; 6] = [
    Cqe::LAYOUT,
    ConnectResponse::LAYOUT,
    ConnectInvalid::LAYOUT,
    PropertyGetResponse::LAYOUT,
    AsyncEventResponse::LAYOUT,
    QueuesGranted::LAYOUT,
];

/// The CQE in a response capsule; zeroes in any other PDU.
pub(crate) fn cqe_of(pdu: &Pdu) -> Cqe {
    CapsuleResp::read(&pdu.header).map(|c| Cqe::from_bytes(c.cqe())).unwrap_or_default()
}

/// Field and the bytes that it is read from: of the PDU, of the CQE or one of the responses, or of the SQE as `command` has it.
/// `status`, `length` and `flags` are no fields of a table: the caller knows them.
pub(crate) fn find(pdu: &Pdu, name: &str, command: Option<&'static CommandKind>) -> Option<(Option<&'static Field>, Vec<u8>)> {
    if matches!(name, "status" | "length" | "flags") {
        return Some((None, Vec::new()));
    }
    let header = pdu.header.to_vec();
    let own = pdu.ptype().layout().and_then(|l| l.field(name)).or_else(|| PduHead::LAYOUT.field(name));
    if own.is_some() {
        return Some((own, header));
    }
    match pdu.ptype() {
        PduType::CAPSULE_RESP => RESPONSES.iter().find_map(|l| l.field(name)).map(|f| (Some(f), cqe_of(pdu).as_bytes().to_vec())),
        PduType::CAPSULE_CMD => {
            let sqe = CapsuleCmd::read(&pdu.header).ok()?.sqe().to_vec();
            let f = command.and_then(|k| k.layout.field(name)).or_else(|| Sqe::LAYOUT.field(name));
            if f.is_some() {
                return Some((f, sqe));
            }
            command.and_then(|k| k.data).and_then(|l| l.field(name)).map(|f| (Some(f), pdu.data.to_vec()))
        }
        _ => None,
    }
}

/// What a PDU holds under `name`, with the field where it is one of a table.
pub(crate) fn seen(pdu: &Pdu, name: &str, command: Option<&'static CommandKind>) -> Option<(Option<&'static Field>, Val)> {
    let (field, buf) = find(pdu, name, command)?;
    let value = match (name, field) {
        ("status", _) => Val::Int(u64::from(cqe_of(pdu).status().code().0)),
        ("flags", _) => Val::Int(u64::from(pdu.header.get(1).copied().unwrap_or(0))),
        (_, None) => Val::Int(pdu.data.len() as u64),
        (_, Some(f)) => value_in(f, &buf),
    };
    Some((field, value))
}

/// A field's value; text without the NULs behind it, so that it compares with text.
pub(crate) fn value_in(f: &Field, buf: &[u8]) -> Val {
    match f.get(buf) {
        Value::Int(n) => Val::Int(n),
        Value::Bytes(mut b) if f.kind == nvmf_wire::Kind::Text => {
            b.truncate(b.iter().rposition(|x| *x != 0).map_or(0, |n| n + 1));
            Val::Bytes(b)
        }
        Value::Bytes(b) => Val::Bytes(b),
    }
}

/// The value of `f` whose name is `word`, letters and digits alone compared.
pub(crate) fn coded(f: &Field, word: &str) -> Option<u64> {
    let plain = |s: &str| s.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect::<String>();
    let want = plain(word);
    let top = if f.width >= 16 { 0xffff } else { (1u64 << f.width) - 1 };
    (0..=top).find(|n| (f.label)(*n).is_some_and(|l| plain(l) == want))
}

/// Writes a value into a field; a word is the name of a coded value.
pub(crate) fn put(f: &Field, buf: &mut [u8], v: &Val) -> Result<(), String> {
    let named = |w: &str| coded(f, w).map(Value::Int).ok_or_else(|| format!("`{w}` is no value of {}", f.name));
    let value = match v {
        Val::Int(n) => Value::Int(*n),
        Val::Word(w) => named(w)?,
        Val::Text(t) if f.is_int() => named(t)?,
        v => Value::Bytes(v.bytes()?),
    };
    f.set(buf, &value)
}

/// The table of the data that a command returns, where it begins with one structure.
pub(crate) fn data_layout(sqe: &Sqe) -> Option<&'static Layout> {
    match sqe.opc() {
        Opcode::IDENTIFY => identify::page_layout(admin::Identify::from_bytes(*sqe.as_bytes()).cns()),
        Opcode::GET_LOG_PAGE => {
            let (head, entry) = log::page_layouts(admin::GetLogPage::from_bytes(*sqe.as_bytes()).lid())?;
            head.or(entry)
        }
        Opcode::GET_FEATURES => feature::data_layout(admin::GetFeatures::from_bytes(*sqe.as_bytes()).fid()),
        _ => None,
    }
}
