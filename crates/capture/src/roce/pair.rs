//! One connection: a pair of queue pairs, and what their packets come to.
//!
//! Requests are taken in the order of their PSNs, as their receiver takes them: what comes too early waits for what is missing before
//! it. Responses to a READ are placed by their PSN. What can be made to wait is limited for a connection and in all ([`Room`]).

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use nvmf_wire::roce::{Aeth, AethKind, Headers, RoceOpcode, psn_add, psn_distance};
use nvmf_wire::{Cqe, Sqe};

use super::event::{Data, Icrc, Packet, Place, Rdma, Span, Target};
use super::order::{Order, Seen};
use super::place::Admin;
use super::ranges::Ranges;
use super::room::Room;
use crate::exchange::{Direction, Event, EventKind};
use crate::follow::Watcher;

/// Longest SEND that is put together, bytes. In-capsule data is a few KiB in practice; IOCCSZ could be more.
const MAX_SEND: usize = 1 << 20;
/// Most packets of one direction that wait for one that is missing before them.
const MAX_HELD: usize = 256;
/// Most READs remembered in one direction, answered ones included: they may be answered again.
const MAX_READS: usize = 256;
/// When something was captured.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    pub(super) at_ns: u64,
    pub(super) frame: u64,
}

/// Where events of one connection go.
pub(super) struct Out<'a> {
    pub(super) conn: usize,
    pub(super) when: When,
    pub(super) watcher: &'a mut dyn Watcher,
    pub(super) room: &'a mut Room,
}

impl Out<'_> {
    pub(super) fn packet(&mut self, dir: Direction, packet: Packet) {
        self.event(dir, EventKind::Packet(packet));
    }

    pub(super) fn rdma(&mut self, dir: Direction, rdma: Rdma) {
        self.event(dir, EventKind::Rdma(Box::new(rdma)));
    }

    fn event(&mut self, dir: Direction, kind: EventKind) {
        let When { at_ns, frame } = self.when;
        self.watcher.event(self.conn, &Event { at_ns, frame, dir, kind });
    }
}

/// What is known of a pair of queue pairs.
#[derive(Debug, Default)]
pub(super) struct Pair {
    /// Its partition, as the first packet has it, without the bit of membership.
    pkey: Option<u16>,
    /// By who sends the requests.
    sides: [Side; 2],
    ranges: Ranges,
    /// Path MTU, bytes.
    mtu: Option<u32>,
    /// What its capsules say of the controller.
    pub(super) admin: Admin,
    /// Bytes between the SQE and in-capsule data.
    place: usize,
}

/// The requests of one side.
#[derive(Debug, Default)]
struct Side {
    order: Order,
    held: VecDeque<(When, Headers, Packet)>,
    send: Option<Assembly>,
    write: Option<Operation>,
    reads: VecDeque<(Operation, Seen)>,
    /// The packet before this one was out of place as well.
    astray: bool,
}

/// A SEND of which the end did not come yet.
#[derive(Debug)]
struct Assembly {
    bytes: BytesMut,
    /// False from where bytes are missing on.
    whole: bool,
    span: Span,
}

/// A WRITE, or a READ with its response.
#[derive(Clone, Copy, Debug)]
struct Operation {
    target: Target,
    before: u32,
    span: Span,
}

impl Pair {
    /// One whose capsules have so many bytes between the SQE and what is behind it.
    pub(super) fn new(place: usize) -> Self {
        Self { place, ..Self::default() }
    }

    /// The CM says with which PSN a side begins, and how long packets are at most.
    pub(super) fn begin(&mut self, sender: Direction, psn: u32, mtu: Option<u32>) {
        self.side(sender).order.begin(psn);
        self.mtu = self.mtu.or(mtu);
    }

    /// The next packet of the connection.
    pub(super) fn packet(&mut self, dir: Direction, headers: &Headers, mut packet: Packet, out: &mut Out<'_>) {
        let (op, psn) = (headers.bth.opcode(), headers.bth.psn());
        // another version or partition is dropped by the receiver as well [ROCE-BTH-04]
        let pkey = headers.bth.pkey() & 0x7fff;
        let foreign = headers.bth.tver() != 0 || *self.pkey.get_or_insert(pkey) != pkey;
        if matches!(packet.icrc, Icrc::Bad { .. }) || op.transport() != 0 || foreign {
            return out.packet(dir, packet);
        }
        let len = packet.payload_len(headers) as u32;
        if matches!(
            op,
            RoceOpcode::SEND_FIRST
                | RoceOpcode::SEND_MIDDLE
                | RoceOpcode::WRITE_FIRST
                | RoceOpcode::WRITE_MIDDLE
                | RoceOpcode::READ_FIRST
                | RoceOpcode::READ_MIDDLE
        ) && len > 0
        {
            self.mtu = Some(len);
        }
        if op.is_response() {
            return self.response(dir, headers, packet, out);
        }
        let side = self.side(dir);
        packet.place = match side.order.place(psn) {
            Place::Early(_) if side.held.iter().any(|(_, h, _)| h.bth.psn() == psn) => Place::Repeated,
            place => place,
        };
        let place = packet.place;
        out.packet(dir, packet.clone());
        match place {
            Place::Next => {
                self.request(dir, out.when, headers, &packet, out);
                self.drain(dir, out);
            }
            Place::Early(_) => self.hold(dir, headers, packet, out),
            Place::Repeated | Place::Outside => {}
        }
    }

    /// The connection is over: gives back what its packets took of the room.
    pub(super) fn close(&mut self, room: &mut Room) {
        for side in &mut self.sides {
            let send = side.send.take().map_or(0, |a| a.bytes.len());
            room.give(send + side.held.drain(..).map(|(_, _, p)| p.bytes.len()).sum::<usize>());
        }
        self.ranges.clear(room);
    }

    fn side(&mut self, dir: Direction) -> &mut Side {
        let [a, b] = &mut self.sides;
        if dir == Direction::HostToController { a } else { b }
    }

    fn hold(&mut self, dir: Direction, headers: &Headers, packet: Packet, out: &mut Out<'_>) {
        if self.side(dir).held.len() >= MAX_HELD {
            self.give_up(dir, out);
        }
        if !out.room.take(packet.bytes.len()) {
            // What it holds is missing later on.
            return;
        }
        self.side(dir).held.push_back((out.when, *headers, packet));
        self.drain(dir, out);
    }

    /// Takes what waited and is due now.
    fn drain(&mut self, dir: Direction, out: &mut Out<'_>) {
        loop {
            let side = self.side(dir);
            let place = |h: &Headers| side.order.place(h.bth.psn());
            let Some(at) = side.held.iter().position(|(_, h, _)| !matches!(place(h), Place::Early(_))) else { return };
            let due = side.held.get(at).is_some_and(|(_, h, _)| place(h) == Place::Next);
            let Some((when, headers, packet)) = side.held.remove(at) else { return };
            out.room.give(packet.bytes.len());
            if due {
                self.request(dir, when, &headers, &packet, out);
            }
        }
    }

    /// What is missing before the packets that wait will not come: says so, and goes on behind it.
    fn give_up(&mut self, dir: Direction, out: &mut Out<'_>) {
        let side = self.side(dir);
        let Some(next) = side.order.next() else { return };
        let first = side.held.iter().map(|(_, h, _)| h.bth.psn()).min_by_key(|psn| psn_distance(*psn, next));
        let Some(first) = first else { return };
        side.order.skip_to(first);
        side.write = None;
        if let Some(lost) = side.send.take() {
            out.room.give(lost.bytes.len());
        }
        out.rdma(dir, Rdma::Missing { psn: next, count: psn_distance(first, next).unsigned_abs() });
        self.drain(dir, out);
    }

    /// A request that is due.
    fn request(&mut self, dir: Direction, when: When, headers: &Headers, packet: &Packet, out: &mut Out<'_>) {
        let (op, psn) = (headers.bth.opcode(), headers.bth.psn());
        let mut count = Some(1);
        if op.is_send() {
            self.send(dir, when, headers, packet, out);
        } else if op.is_write() {
            self.write(dir, when, headers, packet, out);
        } else if let (RoceOpcode::READ_REQUEST, Some(reth)) = (op, headers.reth) {
            count = self.mtu.map(|mtu| reth.dmalen().div_ceil(mtu).clamp(1, 0x007f_ffff));
            let target = self.ranges.owner(reth);
            out.rdma(dir, Rdma::Read(target));
            let reads = &mut self.side(dir).reads;
            if reads.len() >= MAX_READS {
                reads.pop_front();
            }
            reads.push_back((Operation { target, before: 0, span: Span { psn, ..Span::default() } }, Seen::default()));
        }
        self.side(dir).order.took(psn, count);
        if let Some(immediate) = headers.immdt {
            out.rdma(dir, Rdma::Immediate(immediate.data()));
        }
    }

    fn send(&mut self, dir: Direction, when: When, headers: &Headers, packet: &Packet, out: &mut Out<'_>) {
        let op = headers.bth.opcode();
        let (payload, len) = (packet.payload_behind(headers), packet.payload_len(headers) as u64);
        let invalidate = headers.ieth.map(|i| i.rkey());
        let side = self.side(dir);
        if op.begins() {
            if let Some(lost) = side.send.take() {
                out.room.give(lost.bytes.len());
                stray(side, dir, "a SEND begins before the one under way has ended", out);
            }
            side.astray = false;
            let first = Span { first_frame: when.frame, psn: headers.bth.psn(), packets: 1, bytes: len };
            if op.ends() {
                return self.capsule(dir, payload, invalidate, first, out);
            }
            let mut begun = Assembly { bytes: BytesMut::new(), whole: true, span: Span { packets: 0, bytes: 0, ..first } };
            begun.add(&payload, len, out.room);
            side.send = Some(begun);
            return;
        }
        let Some(begun) = &mut side.send else {
            return stray(side, dir, "a SEND goes on that was not seen to begin", out);
        };
        begun.add(&payload, len, out.room);
        if op.ends()
            && let Some(ended) = side.send.take()
        {
            out.room.give(ended.bytes.len());
            self.capsule(dir, ended.bytes.freeze(), invalidate, ended.span, out);
        }
    }

    /// A SEND has ended.
    fn capsule(&mut self, dir: Direction, bytes: Bytes, invalidate: Option<u32>, send: Span, out: &mut Out<'_>) {
        let rdma = match dir {
            Direction::HostToController => Sqe::read(&bytes).ok().map(|sqe| {
                let rest = bytes.slice((Sqe::LEN + self.place).min(bytes.len())..);
                self.admin.command(&sqe);
                self.ranges.command(&sqe, &rest, out.room);
                Rdma::Command { sqe, rest, send }
            }),
            Direction::ControllerToHost => Cqe::read(&bytes).ok().map(|cqe| {
                self.admin.response(&cqe);
                self.ranges.response(cqe.cid(), out.room);
                Rdma::Response { cqe, rest: bytes.slice(Cqe::LEN..), invalidate, send }
            }),
        };
        out.rdma(dir, rdma.unwrap_or(Rdma::Send { bytes, send }));
    }

    fn write(&mut self, dir: Direction, when: When, headers: &Headers, packet: &Packet, out: &mut Out<'_>) {
        let op = headers.bth.opcode();
        if let Some(reth) = headers.reth {
            let span = Span { first_frame: when.frame, psn: headers.bth.psn(), ..Span::default() };
            let target = self.ranges.owner(reth);
            let side = self.side(dir);
            if side.write.is_some() {
                stray(side, dir, "a WRITE begins before the one under way has ended", out);
            }
            side.astray = false;
            side.write = Some(Operation { target, before: 0, span });
        }
        let side = self.side(dir);
        let Some(operation) = &mut side.write else {
            return stray(side, dir, "a WRITE goes on that was not seen to begin", out);
        };
        let len = packet.payload_len(headers) as u32;
        let data = operation.piece(packet.payload_behind(headers), len, op.ends());
        operation.before = operation.before.saturating_add(len);
        if op.ends() {
            side.write = None;
        }
        self.admin.data(&data);
        out.rdma(dir, Rdma::Data(data));
    }

    /// An acknowledgement, or a piece of the response to a READ.
    fn response(&mut self, dir: Direction, headers: &Headers, mut packet: Packet, out: &mut Out<'_>) {
        let (op, psn, mtu) = (headers.bth.opcode(), headers.bth.psn(), self.mtu);
        let asked = dir.reverse();
        if !op.is_read_response() {
            out.packet(dir, packet);
            if let Some(aeth) = headers.aeth {
                self.acknowledged(asked, psn, &aeth, out);
            }
            return;
        }
        let side = self.side(asked);
        let found = side.reads.iter_mut().rev().find_map(|read| {
            let at = u32::try_from(psn_distance(psn, read.0.span.psn)).ok()?;
            let packets = mtu.map_or(u32::MAX, |m| read.0.target.reth.dmalen().div_ceil(m).max(1));
            (at < packets).then_some((at, read))
        });
        let Some((at, (operation, seen))) = found.filter(|(at, _)| *at == 0 || mtu.is_some()) else {
            out.packet(dir, packet);
            return stray(side, dir, "the response to a READ that was not seen", out);
        };
        packet.place = seen.note(at);
        let fresh = packet.place != Place::Repeated;
        operation.before = at.saturating_mul(mtu.unwrap_or(0));
        let len = packet.payload_len(headers) as u32;
        let ends = operation.before.saturating_add(len) >= operation.target.reth.dmalen();
        if operation.span.first_frame == 0 {
            operation.span.first_frame = out.when.frame;
        }
        let data = fresh.then(|| operation.piece(packet.payload_behind(headers), len, ends));
        side.astray = false;
        out.packet(dir, packet);
        if let Some(data) = data {
            out.rdma(dir, Rdma::Data(data));
        }
    }

    /// The receiver of `asked`'s requests is at `psn`: what is missing before that was only missed by the capture.
    fn acknowledged(&mut self, asked: Direction, psn: u32, aeth: &Aeth, out: &mut Out<'_>) {
        let up_to = if aeth.kind() == AethKind::ACK { psn } else { psn_add(psn, 0x00ff_ffff) };
        let behind = |side: &Side| !side.held.is_empty() && side.order.next().is_some_and(|n| psn_distance(up_to, n) >= 0);
        while behind(self.side(asked)) {
            self.give_up(asked, out);
        }
    }
}

/// Tells of a packet that does not fit in, once for those in a row.
fn stray(side: &mut Side, dir: Direction, why: &'static str, out: &mut Out<'_>) {
    if !std::mem::replace(&mut side.astray, true) {
        out.rdma(dir, Rdma::Stray { why });
    }
}

impl Assembly {
    fn add(&mut self, payload: &Bytes, len: u64, room: &mut Room) {
        self.span.packets = self.span.packets.saturating_add(1);
        self.span.bytes += len;
        self.whole = self.whole && self.bytes.len() + payload.len() <= MAX_SEND && room.take(payload.len());
        if self.whole {
            self.bytes.extend_from_slice(payload);
        }
        self.whole &= payload.len() as u64 == len;
    }
}

impl Operation {
    fn piece(&mut self, bytes: Bytes, len: u32, last: bool) -> Data {
        self.span.packets = self.span.packets.saturating_add(1);
        self.span.bytes += u64::from(len);
        Data { target: self.target, before: self.before, bytes, last, span: self.span }
    }
}
