//! RoCEv2 packets: headers, invariant CRC, sequence numbers, acknowledgements. [IBA vol. 1, 9; annex A17]
//!
//! A packet that the capture does not have may have been lost by it, and one whose CRC is wrong was dropped by its receiver: neither is
//! held against anybody further.

use std::collections::VecDeque;

use nvmf_spec::{Side, req};
use nvmf_wire::cm::{GSI_QKEY, GSI_QPN, PathMtu};
use nvmf_wire::roce::{Bth, Headers, ICRC_LEN, RoceOpcode, psn_distance};
use nvmf_wire::tcp::crc32c;

use super::state::State;
use super::{Out, index};
use crate::exchange::Direction;
use crate::roce::{Icrc, Packet, Place};

/// Packets of a side that are remembered, to tell what is sent again.
const MOST: usize = 256;

/// So many packets the capture may lack at the start of a connection whose establishment it has.
const LOST: i32 = 4096;

/// What is remembered of the packets of one side.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// PSN of its newest request.
    psn: Option<u32>,
    /// PSNs of the last SENDs and WRITEs, with a checksum of what they held, newest last.
    sent: VecDeque<(u32, (RoceOpcode, [u8; 4]))>,
    /// MSN of its newest acknowledgement.
    msn: Option<u32>,
    /// PSN of an acknowledgement for what its peer has not sent, as far as was seen.
    ghost: Option<u32>,
}

pub(super) fn packet(state: &mut State, dir: Direction, packet: &Packet, out: &mut Out) {
    let side = dir.sender();
    let Ok(h) = packet.headers() else { return };
    out.part(0, h.len);
    if let Icrc::Bad { expected } = packet.icrc {
        let at = packet.bytes.len().saturating_sub(ICRC_LEN);
        let got = packet.bytes.get(at..).unwrap_or(&[]);
        out.at(at, ICRC_LEN).add(req::ROCE_ICRC_01, format_args!("ICRC {got:02x?}"), format_args!("{expected:02x?}"));
        return;
    }
    bth(&packet.bytes, &h.bth, out);
    let op = h.bth.opcode();
    transport(side, op, out);
    if let Some(deth) = h.deth.filter(|_| op.transport() == 3) {
        let right = h.bth.dqpn() == GSI_QPN && deth.sqpn() == GSI_QPN && deth.qkey() == GSI_QKEY;
        let seen = format_args!("a datagram from QP {} to QP {} with Q_Key {:#010x}", deth.sqpn(), h.bth.dqpn(), deth.qkey());
        out.check(right, req::ROCE_CM_02, seen, "QP 1 on both ends, Q_Key 0x80010000");
    }
    if packet.icrc != Icrc::Unknown {
        payload(state, packet, &h, out);
    }
    if op.transport() == 0 {
        numbers(state, side, packet, &h, out);
    }
}

fn bth(bytes: &[u8], bth: &Bth, out: &mut Out) {
    out.at(1, 1).check(bth.tver() == 0, req::ROCE_BTH_01, format_args!("TVer {}", bth.tver()), "0");
    let reserved = [(4, 0x3f), (8, 0x7f)].into_iter().find(|(at, mask)| bytes.get(*at).is_some_and(|b| b & mask != 0));
    if let Some((at, _)) = reserved {
        let value = bytes.get(at).copied().unwrap_or(0);
        out.at(at, 1).add(req::ROCE_BTH_02, format_args!("BTH with {value:#04x} in byte {at}"), "its reserved bits 0");
    }
}

/// What NVMe/RDMA uses of the transport: reliable connections, SENDs, and READs and WRITEs of the controller.
fn transport(side: Side, op: RoceOpcode, out: &mut Out) {
    let name = op.name().unwrap_or("a reserved opcode");
    let seen = format_args!("the {side} sends {name}, {:02x}h", op.0);
    let ours = matches!(op.transport(), 0 | 2) || matches!(op, RoceOpcode::UD_SEND_ONLY | RoceOpcode::CNP);
    out.at(0, 1).check(ours, req::RDMA_GEN_02, seen, "a reliable connection");
    let atomic = matches!(op, RoceOpcode::CMP_SWAP | RoceOpcode::FETCH_ADD | RoceOpcode::ATOMIC_ACK);
    out.at(0, 1).check(!atomic, req::RDMA_GEN_04, seen, "SENDs, READs and WRITEs alone");
    if side == Side::Host {
        let invalidates = matches!(op, RoceOpcode::SEND_LAST_INV | RoceOpcode::SEND_ONLY_INV);
        out.at(0, 1).check(!invalidates, req::RDMA_DATA_01, seen, "commands in plain SENDs");
        let reads = op == RoceOpcode::READ_REQUEST;
        out.at(0, 1).check(!op.is_write() && !reads, req::RDMA_DATA_04, seen, "READs and WRITEs from the controller alone");
        out.at(0, 1).check(!reads, req::RDMA_CM_06, seen, "READs and WRITEs from the controller alone");
    } else {
        let with = matches!(op, RoceOpcode::SEND_LAST_IMM | RoceOpcode::SEND_ONLY_IMM);
        out.at(0, 1).check(!with, req::RDMA_DATA_02, seen, "responses in SENDs, with or without Invalidate");
    }
}

/// Padding, and payloads that fill the MTU where more follows.
fn payload(state: &State, packet: &Packet, h: &Headers, out: &mut Out) {
    let op = h.bth.opcode();
    let moves = op.is_send() || op.is_write() || op.is_read_response();
    let Some(all) = packet.len.checked_sub(h.len + ICRC_LEN).filter(|_| moves) else { return };
    let pad = usize::from(h.bth.padcnt());
    out.at(1, 1).check(
        all.is_multiple_of(4) && pad <= all,
        req::ROCE_BTH_03,
        format_args!("{all} bytes of payload and padding, PadCnt {pad}"),
        "a multiple of 4",
    );
    let Some(mtu) = state.rdma.as_ref().and_then(|r| r.req).and_then(|r| mtu(r.mtu())) else { return };
    let len = all.saturating_sub(pad);
    let fits = match (op.begins(), op.ends()) {
        (true, true) => len <= mtu,
        (false, true) => (1..=mtu).contains(&len),
        _ => len == mtu && pad == 0,
    };
    let name = op.name().unwrap_or_default();
    out.check(
        fits,
        req::ROCE_MTU_01,
        format_args!("{name} with {len} bytes"),
        format_args!("{mtu} where more follows, no more where it ends"),
    );
}

fn mtu(code: PathMtu) -> Option<usize> {
    (1..=5).contains(&code.0).then(|| 128 << code.0)
}

/// PSNs of requests, and what acknowledgements say of those of the peer.
fn numbers(state: &mut State, side: Side, packet: &Packet, h: &Headers, out: &mut Out) {
    let rdma = state.rdma.get_or_insert_default();
    let (own, peer) = (index(side), index(side.other()));
    let (op, psn) = (h.bth.opcode(), h.bth.psn());
    if op.is_response() {
        let newest = rdma.flows[peer].psn;
        let flow = &mut rdma.flows[own];
        if let Some(newest) = newest.filter(|n| psn_distance(psn, *n) > 0 && op == RoceOpcode::ACK) {
            flow.ghost = flow.ghost.filter(|g| psn_distance(*g, newest) > 0).or(Some(psn));
        }
        let Some(aeth) = h.aeth.filter(|_| packet.place != Place::Repeated) else { return };
        if let Some(last) = flow.msn.filter(|m| psn_distance(aeth.msn(), *m) < 0) {
            out.at(Bth::LEN + 1, 3).add(
                req::ROCE_ACK_02,
                format_args!("MSN {} after {last}", aeth.msn()),
                "counts that never go back",
            );
        } else {
            flow.msn = Some(aeth.msn());
        }
        return;
    }
    let starts = match side {
        Side::Host => rdma.rep.as_ref().map(|r| r.psn()),
        Side::Controller => rdma.req.as_ref().map(|r| r.psn()),
    };
    let ghost = rdma.flows[peer].ghost;
    let flow = &mut rdma.flows[own];
    if let (None, Some(due)) = (flow.psn, starts) {
        let right = (0..LOST).contains(&psn_distance(psn, due));
        let seen = format_args!("the first request has PSN {psn}");
        out.at(9, 3).check(right, req::ROCE_PSN_01, seen, format_args!("{due}, as the peer asked for"));
    }
    again(flow, packet, h, out);
    if flow.psn.is_none_or(|n| psn_distance(psn, n) > 0) {
        // What is sent only now cannot have been acknowledged before.
        if let Some(ghost) = ghost.filter(|g| psn_distance(*g, psn) >= 0 && packet.place == Place::Next && flow.psn.is_some()) {
            let seen = format_args!("PSN {ghost} was acknowledged before it was sent");
            out.blame(side.other(), req::ROCE_ACK_01, seen, format_args!("no further than {}", flow.psn.unwrap_or(0)));
            rdma.flows[peer].ghost = None;
        }
        rdma.flows[own].psn = Some(psn);
    }
}

/// A SEND or WRITE under a PSN that was used: the same packet once more.
fn again(flow: &mut Flow, packet: &Packet, h: &Headers, out: &mut Out) {
    let op = h.bth.opcode();
    if !(op.is_send() || op.is_write()) || packet.icrc == Icrc::Unknown {
        return;
    }
    let psn = h.bth.psn();
    let held = packet.bytes.get(Bth::LEN..packet.bytes.len().saturating_sub(ICRC_LEN)).unwrap_or(&[]);
    let mark = (op, crc32c(held));
    if packet.place == Place::Repeated {
        let before = flow.sent.iter().rev().find(|(p, _)| *p == psn);
        out.check(
            before.is_none_or(|(_, m)| *m == mark),
            req::ROCE_PSN_02,
            format_args!("PSN {psn} again, for another packet"),
            "the packet that it was",
        );
        return;
    }
    if flow.sent.len() == MOST {
        flow.sent.pop_front();
    }
    flow.sent.push_back((psn, mark));
}
