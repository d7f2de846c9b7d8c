//! Data of commands: what Identify, Get Log Page and the features hand over, and the lists that other commands take.

use nvmf_wire::Sqe;
use nvmf_wire::sqe::{FabricsType, Opcode};

use super::tables::{feature_data, identify, log};
use super::{Field, Row, Show, Value, Visitor, Window, walk, whole};

/// A piece of a command's data, which begins at `offset` of all of it and at `at` of its PDU; `kept` is all of the data up to the end of
/// the piece, if it was kept.
pub(super) fn window<'a>(sqe: &Sqe, kept: &'a [u8], offset: usize, piece: &'a [u8], at: usize) -> Window<'a> {
    let first = start(sqe);
    match kept.len() == offset + piece.len() {
        true => Window { first, new: first + offset, bytes: kept, at },
        false => Window { first: first + offset, new: first + offset, bytes: piece, at },
    }
}

/// Where in the structure the data begins, bytes.
fn start(sqe: &Sqe) -> usize {
    let offset = || sqe.as_bytes().get(48..56).and_then(|b| b.first_chunk::<8>()).map_or(0, |b| u64::from_le_bytes(*b));
    match sqe.opc() {
        Opcode::GET_LOG_PAGE => usize::try_from(offset()).unwrap_or(usize::MAX / 2).min(usize::MAX / 2),
        _ => 0,
    }
}

/// True where data of such a command has fields.
pub(super) fn wanted(sqe: &Sqe, admin: bool) -> bool {
    if let Some(fctype) = sqe.fctype() {
        return fctype == FabricsType::CONNECT;
    }
    admin && matches!(sqe.opc(), Opcode::IDENTIFY | Opcode::GET_LOG_PAGE | Opcode::GET_FEATURES | Opcode::SET_FEATURES)
}

/// The fields of data; `piece` is what came with this PDU.
pub(super) fn data(sqe: &Sqe, admin: bool, window: Window<'_>, piece: &[u8], visitor: &mut impl Visitor) {
    let at = window.place(window.new);
    let mut plain = || visitor.field(&Field { name: "nvme.data", depth: 0, value: Value::Bytes(piece), at, len: piece.len() });
    let (opcode, selector) = (sqe.opc(), sqe.as_bytes()[40]);
    match (opcode, admin) {
        (Opcode::IDENTIFY, true) => identified(selector, window, visitor),
        (Opcode::GET_LOG_PAGE, true) => {
            plain();
            logged(selector, window, visitor);
        }
        (Opcode::SET_FEATURES | Opcode::GET_FEATURES, true) => match feature(selector) {
            Some((rows, 0)) => walk(rows, window, 0, 0, visitor),
            Some((rows, each)) => {
                for base in entries(window, 0, each) {
                    walk(rows, window, base, 0, visitor);
                }
            }
            None => plain(),
        },
        // Reads and writes: bytes without fields.
        (Opcode(1 | 2), false) => {}
        _ => plain(),
    }
}

/// Where entries of `each` bytes that begin at `first` end in what is new.
fn entries(window: Window<'_>, first: usize, each: usize) -> impl Iterator<Item = usize> {
    let from = window.new.saturating_sub(first) / each;
    let to = window.end().saturating_sub(first).div_ceil(each);
    (from..to).map(move |i| first + i * each)
}

/// Data of a feature, and how long one of its entries is; 0 where it is one structure.
fn feature(fid: u8) -> Option<(&'static [Row], usize)> {
    Some(match fid {
        0x03 => (feature_data::LBA_RANGE, 64),
        0x0c => (feature_data::AUTONOMOUS_POWER, 8),
        0x0e => (feature_data::TIMESTAMP, 0),
        0x13 => (feature_data::PREDICTABLE, 0),
        0x16 => (feature_data::HOST_BEHAVIOR, 0),
        _ => return None,
    })
}

/// A heading over what is new of a place: with its bytes where all of them are here. Returns whether it was shown.
fn heading(row: &'static Row, window: Window<'_>, base: usize, depth: u8, visitor: &mut impl Visitor) -> bool {
    let (at, len) = (base + usize::from(row.at), usize::from(row.len));
    if at + len <= window.new || at >= window.end() {
        return false;
    }
    let value = window.get(at, len).map_or(Value::Nothing, Value::Bytes);
    visitor.field(&Field { name: row.name, depth, value, at: window.place(at), len });
    true
}

/// Identify data by CNS. [Base 2.0, 5.17.2; NVM Command Set 1.0, 4.1.5]
fn identified(cns: u8, window: Window<'_>, visitor: &mut impl Visitor) {
    match cns {
        0x00 => {
            walk(identify::NAMESPACE, window, 0, 0, visitor);
            formats(window, visitor);
            static REST: &[Row] = &[
                whole(0, "nvme.cmd.identify.ns.rsvd", 192, 192, Show::Bytes),
                whole(0, "nvme.cmd.identify.ns.vs", 384, 3712, Show::Bytes),
            ];
            walk(REST, window, 0, 0, visitor);
        }
        0x01 => {
            static STATES: Row = whole(0, "nvme.cmd.identify.ctrl.psds", 2048, 1024, Show::Bytes);
            static VENDOR: &[Row] = &[whole(0, "nvme.cmd.identify.ctrl.vs", 3072, 1024, Show::Bytes)];
            walk(identify::CONTROLLER, window, 0, 0, visitor);
            if heading(&STATES, window, 0, 0, visitor) {
                for base in entries(window, 2048, 32).take_while(|b| *b < 3072) {
                    walk(identify::POWER_STATE, window, base, 0, visitor);
                }
            }
            walk(VENDOR, window, 0, 0, visitor);
        }
        0x02 => numbers("nvme.cmd.identify.nslist.nsid", 0, window, 0, visitor),
        _ => {}
    }
}

/// LBA formats: as many as NLBAF says, where it was seen, and no more than there is room for.
fn formats(window: Window<'_>, visitor: &mut impl Visitor) {
    static FORMATS: Row = whole(0, "nvme.cmd.identify.ns.lbafs", 128, 64, Show::Nothing);
    static FORMAT: &[Row] = &[whole(1, "nvme.cmd.identify.ns.lbaf", 0, 4, Show::Hex(8))];
    let seen = Window { new: 0, ..window };
    let count = seen.get(25, 1).and_then(|b| b.first()).map_or(1, |n| usize::from(*n) + 1).min(64);
    let new = entries(window, 128, 4).filter(|b| *b >= 128).take_while(|b| *b < 128 + 4 * count);
    let mut any = false;
    for base in new {
        if !any {
            visitor.field(&Field { name: FORMATS.name, depth: 0, value: Value::Nothing, at: window.place(128), len: 64 });
            any = true;
        }
        walk(FORMAT, window, base, 0, visitor);
    }
}

/// Numbers of four bytes from `first` on, up to the first that is 0.
fn numbers(name: &'static str, first: usize, window: Window<'_>, depth: u8, visitor: &mut impl Visitor) {
    for at in entries(window, first, 4) {
        let Some(n) = window.get(at, 4).and_then(|b| b.first_chunk::<4>()).map(|b| u32::from_le_bytes(*b)) else { continue };
        if n == 0 {
            return;
        }
        visitor.field(&Field { name, depth, value: Value::Number(n.into(), 8), at: window.place(at), len: 4 });
    }
}

/// Log pages by LID, below the bytes. [Base 2.0, 5.16.1]
fn logged(lid: u8, window: Window<'_>, visitor: &mut impl Visitor) {
    let mut many = |rows, first, each: usize, count: usize| {
        for base in entries(window, first, each).take_while(|b| *b < first + each * count) {
            walk(rows, window, base, 1, visitor);
        }
    };
    match lid {
        0x01 => many(log::ERROR, 0, 64, 256),
        0x02 => walk(log::SMART, window, 0, 1, visitor),
        0x03 => walk(log::FIRMWARE, window, 0, 1, visitor),
        0x04 => numbers("nvme.cmd.get_logpage.changed_nslist", 0, window, 1, visitor),
        0x05 => many(log::EFFECTS, 0, 4, 512),
        0x06 => {
            walk(log::SELF_TEST, window, 0, 1, visitor);
            for base in entries(window, 4, 28).take_while(|b| *b < 4 + 20 * 28) {
                walk(log::SELF_TEST_RESULT, window, base, 1, visitor);
            }
        }
        0x07 | 0x08 => {
            static BLOCK: &[Row] = &[whole(0, "nvme.cmd.get_logpage.telemetry.db", 0, 512, Show::Bytes)];
            walk(log::TELEMETRY, window, 0, 1, visitor);
            for base in entries(window, 512, 512) {
                walk(BLOCK, window, base, 1, visitor);
            }
        }
        0x09 => walk(log::ENDURANCE, window, 0, 1, visitor),
        0x0a => walk(log::PREDICTABLE, window, 0, 1, visitor),
        0x0c => ana(window, visitor),
        0x0e => walk(log::LBA_STATUS, window, 0, 1, visitor),
        0x70 => {
            walk(log::DISCOVERY, window, 0, 1, visitor);
            for base in entries(window, 1024, 1024) {
                walk(log::DISCOVERY_ENTRY, window, base, 1, visitor);
                match (Window { new: 0, ..window }).get(base, 1) {
                    Some([1]) => walk(TSAS_RDMA, window, base + 768, 3, visitor),
                    Some([3]) => walk(TSAS_TCP, window, base + 768, 3, visitor),
                    _ => {}
                }
            }
        }
        0x80 => walk(log::RESERVATION, window, 0, 1, visitor),
        0x81 => walk(log::SANITIZE, window, 0, 1, visitor),
        _ => {}
    }
}

/// Transport Specific Address Subtype of NVMe/TCP. [NVMe/TCP 1.0, 3.1.1]
static TSAS_TCP: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.identify.rcrd.tsas.tcp_sectype", 0, 1, Show::Hex(2)),
    whole(0, "nvme.cmd.get_logpage.identify.rcrd.tsas.tcp_rsvd", 1, 255, Show::Bytes),
];

/// The same of NVMe/RDMA. [NVMe/RDMA 1.0, 3.1]
static TSAS_RDMA: &[Row] = &[
    whole(0, "nvme.cmd.get_logpage.identify.rcrd.tsas.rdma_qptype", 0, 1, Show::Hex(2)),
    whole(0, "nvme.cmd.get_logpage.identify.rcrd.tsas.rdma_prtype", 1, 1, Show::Hex(2)),
    whole(0, "nvme.cmd.get_logpage.identify.rcrd.tsas.rdma_cms", 2, 1, Show::Hex(2)),
    whole(0, "nvme.cmd.get_logpage.identify.rcrd.tsas.rdma_rsvd0", 3, 5, Show::Bytes),
    whole(0, "nvme.cmd.get_logpage.identify.rcrd.tsas.rdma_pkey", 8, 2, Show::Hex(4)),
    whole(0, "nvme.cmd.get_logpage.identify.rcrd.tsas.rdma_rsvd1", 10, 246, Show::Bytes),
];

/// Asymmetric Namespace Access: groups, each with as many NSIDs as it says. [Base 2.0, 5.16.1.13]
fn ana(window: Window<'_>, visitor: &mut impl Visitor) {
    walk(log::ANA, window, 0, 1, visitor);
    let seen = Window { new: 0, ..window };
    let mut base = 16;
    while let Some(count) = seen.get(base + 4, 4).and_then(|b| b.first_chunk::<4>()).map(|b| u32::from_le_bytes(*b)) {
        let len = 32usize.saturating_add(4 * count as usize);
        if base + len > window.new {
            static GROUP: Row = whole(1, "nvme.cmd.get_logpage.ana.grp", 0, 0, Show::Bytes);
            let shown = window.bytes.get(base.saturating_sub(window.first)..).map(|b| b.get(..len).unwrap_or(b));
            let value = Value::Bytes(shown.unwrap_or(&[]));
            visitor.field(&Field { name: GROUP.name, depth: 1, value, at: window.place(base), len });
            walk(log::ANA_GROUP, window, base, 1, visitor);
            let from = (base + 32).max(window.new & !3);
            for at in (from..(base + len).min(window.end())).step_by(4) {
                let Some(n) = window.get(at, 4).and_then(|b| b.first_chunk::<4>()) else { continue };
                let value = Value::Number(u32::from_le_bytes(*n).into(), 8);
                visitor.field(&Field { name: "nvme.cmd.get_logpage.ana.grp.nsid", depth: 2, value, at: window.place(at), len: 4 });
            }
        }
        base += len;
    }
}
