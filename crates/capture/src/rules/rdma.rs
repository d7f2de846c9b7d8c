//! NVMe/RDMA: how capsules travel, which memory READs and WRITEs touch, which keys are invalidated. [NVMe/RDMA 1.0, 3.3 and 3.6]
//!
//! What capsules hold is judged by the rules that know no transport; the packets below are judged in `roce`, the establishment of
//! connections in `rdma_cm`.

use std::collections::{BTreeMap, VecDeque};

use nvmf_spec::{Requirement, Side, req};
use nvmf_wire::cm::{CmRep, CmReq};
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::rdma::RdmaRequest;
use nvmf_wire::sgl::{SglKeyed, SglType};
use nvmf_wire::sqe::{Direction as DataDirection, FabricsType, IoOpcode, Opcode};
use nvmf_wire::{Cid, Cqe, IdentifyController, Qid, Sqe, Status};

use super::answer::Causes;
use super::roce::Flow;
use super::state::State;
use super::{Name, Out, Said, capsule, host, name, rdma_cm, response, store};
use crate::exchange::Direction;
use crate::roce::{Data, Rdma as Message, Target};
use crate::session::Command;

/// Keys of completed commands that are remembered, and READs under way.
const MOST: usize = 4096;

/// What the rules remember of an RDMA connection beyond what every connection has.
#[derive(Debug, Default)]
pub(super) struct Rdma {
    /// The start, or packets in between, were not seen: what commands are outstanding is not known.
    pub partial: bool,
    /// REQ of the host, and its private data.
    pub req: Option<CmReq>,
    pub request: Option<RdmaRequest>,
    /// REP of the controller.
    pub rep: Option<CmRep>,
    /// Bytes behind the SQE in the capsule that is judged, on the wire; the capture may have fewer.
    pub behind: u64,
    /// Packets of host and controller.
    pub flows: [Flow; 2],
    /// Keys of completed commands, with their CID, until a command names them again.
    gone: BTreeMap<u32, u16>,
    /// RDMA READs whose answers are not complete: key and address.
    reads: VecDeque<(u32, u64)>,
    /// Data of a Connect that is read from the host.
    connect: Vec<u8>,
}

/// Judges what packets came to.
pub(super) fn message(state: &mut State, dir: Direction, message: &Message, out: &mut Out) {
    let rdma = state.rdma.get_or_insert_default();
    match message {
        Message::QueuePairs { inferred: true, .. } | Message::Missing { .. } => rdma.partial = true,
        Message::Cm(cm) => rdma_cm::message(rdma, dir.sender(), cm, out),
        Message::Immediate(data) => {
            out.add(req::RDMA_GEN_04, format_args!("immediate data {data:#010x}"), "SENDs, READs and WRITEs without it");
        }
        Message::Stray { why } if !rdma.partial => {
            out.add(req::ROCE_SEQ_01, format_args!("a packet out of its message: {why}"), "first, middle and last in this order");
        }
        _ if rdma.partial => {}
        Message::Command { sqe, rest, send } => {
            out.part(0, Sqe::LEN);
            rdma.behind = send.bytes.saturating_sub(Sqe::LEN as u64);
            capsule::check(state, sqe, rest, out);
            connected_as(state, sqe, out);
            // a Connect that has its data in the capsule
            if sqe.fctype() == Some(FabricsType::CONNECT)
                && let Ok(data) = ConnectData::read(rest)
            {
                rdma_cm::controller(state, sqe, &data, out);
            }
            state.note_command(sqe, rest);
            named(state, sqe);
        }
        Message::Response { cqe, invalidate, send, .. } => {
            out.cqe(0);
            response::check(state, cqe, out);
            completed(state, cqe, send.bytes, *invalidate, out);
            state.note_response(cqe);
        }
        Message::Send { send, .. } => short(state, dir.sender(), send.bytes, out),
        Message::Read(target) => read(state, dir, target, out),
        Message::Data(data) => moves(state, dir, data, out),
        _ => {}
    }
    state.session.apply_rdma(dir, message);
}

fn keyed(sqe: &Sqe) -> Option<SglKeyed> {
    let sgl = SglKeyed::from_bytes(*sqe.sgl1().as_bytes());
    (sgl.kind() == SglType::KEYED_DATA_BLOCK).then_some(sgl)
}

/// A keyed descriptor of a sub type that is none of the two.
pub(super) fn reserved_subtype(state: &State, sqe: &Sqe) -> bool {
    state.rdma.is_some() && keyed(sqe).is_some_and(|sgl| !matches!(sgl.sub().0, 0 | 0xf))
}

/// A capsule's length, and the one descriptor that says where the data is.
pub(super) fn sgl(state: &State, sqe: &Sqe, who: Said, out: &mut Out) {
    let behind = state.rdma.as_ref().map_or(0, |r| r.behind);
    let (fabrics, io) = (sqe.fctype().is_some(), !state.session.is_admin());
    let sgl = sqe.sgl1();
    let id = sgl.id();
    let none = sgl.as_bytes().iter().all(|b| *b == 0);
    let within = !none && sgl.is_in_capsule();
    if fabrics || !io {
        let size = if fabrics { req::RDMA_CAPS_01 } else { req::RDMA_CAPS_02 };
        let seen = format_args!("{who} in a capsule of {} bytes, SGL descriptor {id:02x}h", Sqe::LEN as u64 + behind);
        let data = none || matches!(id >> 4, 4 | 5);
        out.at(24, 16).check(behind == 0, size, seen, "64 bytes, and the data in a buffer that a keyed descriptor names");
        let which: &[_] = if fabrics { &[req::RDMA_SGL_05] } else { &[req::RDMA_SGL_05, req::RDMA_SGL_01] };
        for which in which {
            out.at(24, 16).check(data, which, seen, "64 bytes, and the data in a buffer that a keyed descriptor names");
        }
    } else {
        let right = none || within || matches!(id, 0x31 | 0x40 | 0x4f);
        let seen = format_args!("{who} with SGL descriptor {id:02x}h");
        let address = matches!(id, 0x00 | 0x20 | 0x30) && !none;
        if address {
            out.at(24, 16).add(req::RDMA_SGL_04, seen, "descriptors and data in the capsule, or a key");
        } else {
            out.at(24, 16).check(right, req::RDMA_SGL_02, seen, "01h, 31h, 40h or 4Fh");
        }
    }
    let end = sgl.addr().saturating_add(u64::from(sgl.len()));
    let offset = state.known.identify.as_ref().map_or(0, |i| u64::from(i.icdoff()) * 16);
    if within && io && !fabrics {
        let seen = format_args!("{who} with {behind} bytes in capsule, its SGL from {} to {end}", sgl.addr());
        let fits = end <= behind && (sgl.len() == 0 || sgl.addr() >= offset);
        out.at(24, 16).check(fits, req::FAB_TRANS_08, seen, format_args!("within the capsule, from ICDOFF on, {offset}"));
    }
}

/// What Connect says against what the REQ of its queue pair said.
fn connected_as(state: &State, sqe: &Sqe, out: &mut Out) {
    let Some(request) = state.rdma.as_ref().and_then(|r| r.request).filter(|_| sqe.fctype() == Some(FabricsType::CONNECT)) else {
        return;
    };
    let c = Connect::from_bytes(*sqe.as_bytes());
    let (qid, size) = (request.qid().0, request.hsqsize().0);
    out.at(42, 2).check(
        c.qid().0 == qid,
        req::RDMA_CM_11,
        format_args!("Connect of queue {}", c.qid().0),
        format_args!("{qid}, as in the REQ"),
    );
    out.at(44, 2).check(
        c.sqsize().0 == size,
        req::RDMA_CM_13,
        format_args!("Connect with SQSIZE {}", c.sqsize().0),
        format_args!("{size}, HSQSIZE of the REQ"),
    );
}

/// The keys that a command names are its own from now on.
fn named(state: &mut State, sqe: &Sqe) {
    let Some(rdma) = &mut state.rdma else { return };
    if let Some(sgl) = keyed(sqe) {
        rdma.gone.remove(&sgl.key());
    }
    if sqe.fctype() == Some(FabricsType::CONNECT) {
        rdma.connect.clear();
    }
}

/// A response: its size, the key that it invalidates, and that of its command, which is gone with it.
fn completed(state: &mut State, cqe: &Cqe, len: u64, invalidate: Option<u32>, out: &mut Out) {
    let Some(command) = state.session.command(cqe.cid()) else { return };
    let (sqe, who) = (command.sqe, name(&state.session, command));
    let which = match (sqe.fctype(), state.session.is_admin()) {
        (Some(_), _) => req::RDMA_CAPS_01,
        (None, true) => req::RDMA_CAPS_02,
        (None, false) => req::RDMA_CAPS_04,
    };
    out.part(0, Cqe::LEN);
    out.check(len == Cqe::LEN as u64, which, format_args!("response of {len} bytes for {who}"), "16 bytes");
    let sgl = keyed(&sqe);
    if let Some(key) = invalidate {
        let seen = format_args!("response for {who} invalidates key {key:#010x}");
        match sgl.filter(|s| s.sub().0 == 0xf) {
            None if sqe.sgl1().kind() == SglType::LAST_SEGMENT => {}
            None => out.add(req::RDMA_KEY_08, seen, "no key: its descriptor does not ask for it"),
            Some(s) => {
                out.check(s.key() == key, req::RDMA_KEY_07, seen, format_args!("{:#010x}, the key of its descriptor", s.key()))
            }
        }
        let busy = state.rdma.as_ref().is_some_and(|r| r.reads.iter().any(|(k, _)| *k == key));
        out.check(
            !busy,
            req::RDMA_KEY_04,
            format_args!("key {key:#010x} invalidated under an RDMA READ"),
            "once all READs and WRITEs are done",
        );
    }
    let (Some(rdma), Some(sgl)) = (&mut state.rdma, sgl) else { return };
    if rdma.gone.len() >= MOST {
        rdma.gone.clear();
    }
    rdma.gone.insert(sgl.key(), cqe.cid().0);
}

/// Data before a success: all that the command moves. What may be shorter than its buffer is not judged.
pub(super) fn moved(state: &State, command: &Command, success: bool, who: Said, out: &mut Out) {
    let whole = match state.session.is_admin() || command.is_fabrics() {
        true => !command.is_fabrics() && matches!(command.sqe.opc(), Opcode::IDENTIFY | Opcode::GET_LOG_PAGE),
        false => matches!(IoOpcode(command.sqe.opc().0), IoOpcode::READ | IoOpcode::WRITE | IoOpcode::COMPARE),
    };
    let Some(sgl) = keyed(&command.sqe).filter(|_| success && whole) else { return };
    let to_host = command.direction() == DataDirection::ControllerToHost;
    let (moved, which, how) = match to_host {
        true => (command.c2h.next, req::RDMA_DATA_07, "written"),
        false => (command.h2c.next, req::RDMA_DATA_05, "read"),
    };
    out.check(
        moved >= sgl.len(),
        which,
        format_args!("{who} succeeds with {moved} bytes {how}"),
        format_args!("all {} before it", sgl.len()),
    );
}

/// A SEND that is no capsule.
fn short(state: &State, side: Side, len: u64, out: &mut Out) {
    let (least, which) = match side {
        Side::Host => (Sqe::LEN, req::RDMA_CAPS_06),
        Side::Controller if state.session.is_admin() => (Cqe::LEN, req::RDMA_CAPS_02),
        Side::Controller => (Cqe::LEN, req::RDMA_CAPS_04),
    };
    out.part(0, 64);
    out.check(len >= least as u64, which, format_args!("a SEND of {len} bytes"), format_args!("{least} at least"));
}

/// The memory that an operation of the controller names, against what a command of the host named.
fn target(state: &State, write: bool, target: &Target, out: &mut Out) {
    let (reth, what) = (target.reth, if write { "WRITE" } else { "READ" });
    let (key, len) = (reth.rkey(), u64::from(reth.dmalen()));
    if len == 0 {
        return;
    }
    out.part(0, 16);
    let Some(command) = target.cid.and_then(|cid| state.session.command(cid)) else {
        let past = state.rdma.as_ref().and_then(|r| r.gone.get(&key));
        let seen = format_args!("RDMA {what} of {len} bytes with key {key:#010x}");
        return match past {
            Some(cid) => {
                let which = if write { req::RDMA_DATA_07 } else { req::RDMA_DATA_10 };
                out.add(which, format_args!("{seen}, of CID {cid:#06x}, which is completed"), "before the response");
            }
            None => out.add(req::RDMA_DATA_10, format_args!("{seen}, which no command named"), "the key of an outstanding command"),
        };
    };
    let who = Name { session: &state.session, sqe: &command.sqe };
    let right = match command.direction() {
        DataDirection::Both => true,
        DataDirection::ControllerToHost => write,
        DataDirection::HostToController => !write,
        DataDirection::None => false,
    };
    out.check(
        right,
        req::RDMA_DATA_05,
        format_args!("RDMA {what} for {who}"),
        "WRITE for what goes to the host, READ for what it gives",
    );
    let Some(length) = super::buffer(state, &command.sqe) else { return };
    let end = target.offset.map(|at| at + len);
    let seen = format_args!("RDMA {what} of {len} bytes at {:#x} for {who}", reth.va());
    let within = end.is_some_and(|end| end <= u64::from(length));
    out.check(within, req::RDMA_DATA_10, seen, format_args!("within the {length} bytes of its descriptor"));
}

/// An RDMA READ is asked for. That a host asks for one is judged at its packet.
fn read(state: &mut State, dir: Direction, t: &Target, out: &mut Out) {
    if dir == Direction::HostToController {
        return;
    }
    target(state, false, t, out);
    let Some(rdma) = &mut state.rdma else { return };
    rdma.reads.push_back((t.reth.rkey(), t.reth.va()));
    if rdma.reads.len() > MOST {
        rdma.reads.pop_front();
    }
    if let Some(req) = rdma.req {
        let (now, most) = (rdma.reads.len(), usize::from(req.resources()));
        let seen = format_args!("{now} RDMA READs outstanding");
        out.check(
            now <= most || most == 0,
            req::RDMA_CM_04,
            seen,
            format_args!("{most} at most, by the responder resources of the REQ"),
        );
    }
}

/// Data of a WRITE, or of the answer to a READ.
fn moves(state: &mut State, dir: Direction, data: &Data, out: &mut Out) {
    let write = dir == Direction::ControllerToHost;
    if write && data.before == 0 {
        target(state, true, &data.target, out);
    }
    let moved = data.span.bytes;
    let (all, which) = (u64::from(data.target.reth.dmalen()), if write { req::ROCE_WRITE_01 } else { req::ROCE_READ_01 });
    out.part(0, 16);
    let seen = format_args!("{} with {moved} bytes", if write { "an RDMA WRITE" } else { "an RDMA READ answered" });
    out.check(if data.last { moved == all } else { moved < all }, which, seen, format_args!("{all}, as its RETH says"));
    if data.last
        && !write
        && let Some(rdma) = &mut state.rdma
    {
        let (key, va) = (data.target.reth.rkey(), data.target.reth.va());
        if let Some(at) = rdma.reads.iter().position(|r| *r == (key, va)) {
            rdma.reads.remove(at);
        }
    }
    let (Some(cid), Some(offset)) = (data.target.cid, data.offset()) else { return };
    match write {
        true => state.took(cid, offset, &data.bytes, true),
        false => {
            store::moved(state, cid, offset, true, &data.bytes, true);
            connecting(state, cid, offset, &data.bytes, out);
        }
    }
}

/// The data of a Connect comes behind its command.
fn connecting(state: &mut State, cid: Cid, offset: u64, bytes: &[u8], out: &mut Out) {
    let Some(sqe) = state.session.command(cid).map(|c| c.sqe).filter(|s| s.fctype() == Some(FabricsType::CONNECT)) else { return };
    let Some(rdma) = &mut state.rdma else { return };
    if offset != rdma.connect.len() as u64 || rdma.connect.len() + bytes.len() > ConnectData::LEN {
        return;
    }
    rdma.connect.extend_from_slice(bytes);
    let Ok(data) = ConnectData::read(&rdma.connect) else { return };
    let whole = std::mem::take(&mut rdma.connect);
    let mut inner = Out::new(out.dir);
    inner.part(0, ConnectData::LEN);
    let who = Name { session: &state.session, sqe: &sqe };
    host::connect_data(state, &sqe, &data, &who, &mut inner);
    rdma_cm::controller(state, &sqe, &data, &mut inner);
    out.of_data(&whole, inner);
    state.note_connect(Some(&data));
}

/// Descriptors that a controller has to refuse.
pub(super) fn refused(state: &State, sqe: &Sqe, causes: &mut Causes) {
    const TYPE: &[Status] = &[Status::SGL_DESCRIPTOR_TYPE_INVALID];
    let sgl = sqe.sgl1();
    let (id, none) = (sgl.id(), sgl.as_bytes().iter().all(|b| *b == 0));
    let known: &'static [&'static Requirement] = &[req::RDMA_SGL_03];
    let taken = none || sgl.is_in_capsule() || matches!(id >> 4, 4 | 5) || id == 0x31;
    causes.add(!taken, known, TYPE, || format!("with SGL descriptor {id:02x}h"));
    causes.add(reserved_subtype(state, sqe), &[req::RDMA_SGL_09], TYPE, || format!("with SGL descriptor {id:02x}h"));
}

/// What Identify Controller says of capsules and SGLs.
pub(super) fn identify(i: &IdentifyController, who: Said, out: &mut Out) {
    let resp = i.iorcsz();
    out.check(resp <= 1, req::RDMA_CAPS_04, format_args!("{who}: IORCSZ {resp}"), "1: responses have no data");
    let (support, keyed, offset) = (i.sgls_support(), i.sgls_keyed(), i.sgls_offset());
    out.check(support == 1, req::RDMA_SGL_07, format_args!("{who}: SGLS bits 1:0 {support:02b}b"), "01b");
    let within = i.ioccsz() > 4;
    let seen = format_args!("{who}: SGLS bit 2 {}, bit 20 {}, IOCCSZ {}", u8::from(keyed), u8::from(offset), i.ioccsz());
    out.check(keyed && (offset || !within), req::RDMA_SGL_08, seen, "both set; bit 20 only where data may be in capsules");
}

/// Keep alive is asked for by the transport: a controller that is none of discovery does not take a KATO of 0.
pub(super) fn kept_alive(state: &State, sqe: &Sqe, causes: &mut Causes) {
    let c = Connect::from_bytes(*sqe.as_bytes());
    let io = state.asking.as_ref().is_some_and(|w| w.subnqn != nvmf_wire::nqn::DISCOVERY_NQN);
    let none = state.rdma.is_some() && c.qid() == Qid::ADMIN && c.kato() == 0 && io;
    causes.add(none, &[req::RDMA_KA_01], &[Status::KEEP_ALIVE_TIMEOUT_INVALID], || "with KATO 0".into());
}
