//! Connections of which the capture does not have the CM messages: told from their packets.
//!
//! A packet names only the queue pair that it is for. Two ways between the same addresses belong together where one answers, with
//! the same PSN, a request of the other. Which end is the host, and that it is NVMe at all, is told by capsules: a SEND of 64 bytes
//! or more that reads like a command, or one of 16 bytes.

use std::collections::{BTreeMap, VecDeque};

use nvmf_wire::roce::Headers;
use nvmf_wire::{Cqe, Sqe};

use super::event::Packet;
use super::pair::{Out, Pair, When};
use super::room::Room;
use super::{Known, Roce, Way};
use crate::exchange::Direction;
use crate::follow::Watcher;

/// Most ways that are looked at.
const MAX_HALVES: usize = 1024;
/// Packets after which a way that shows no capsule is taken for something else, and one without a partner for all there is.
const MAX_PACKETS: usize = 128;
/// Connections of which only one way is known; where there are more, none is guessed.
const MAX_INCOMPLETE: usize = 64;
/// PSNs of requests that an answer is looked for among.
const MAX_SENT: usize = 64;

/// The ways that belong to no connection yet.
#[derive(Default)]
pub(super) struct Halves {
    by_way: BTreeMap<Way, Half>,
    others: usize,
}

/// What one side sends to one queue pair.
#[derive(Default)]
struct Half {
    packets: Vec<(When, Headers, Packet)>,
    /// PSNs of the last requests.
    sent: VecDeque<u32>,
    /// Which way it is, once a capsule has shown it.
    dir: Option<Direction>,
    /// The way back.
    back: Option<Way>,
    /// It carries something else.
    foreign: bool,
}

impl Halves {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_way.len()
    }

    /// A way belongs to a connection now.
    pub(super) fn forget(&mut self, way: Way, room: &mut Room) {
        if let Some(half) = self.by_way.remove(&way) {
            half.give(room);
        }
    }

    fn take(&mut self, way: Way, room: &mut Room) -> Vec<(When, Headers, Packet)> {
        let Some(half) = self.by_way.remove(&way) else { return Vec::new() };
        half.give(room);
        half.packets
    }

    /// Remembers a packet. True once there is enough to open a connection. A packet for which there was no room is left.
    fn add(&mut self, way: Way, when: When, headers: &Headers, packet: &mut Option<Packet>, room: &mut Room) -> bool {
        let Some(new) = packet.as_ref() else { return false };
        if !self.by_way.contains_key(&way) && self.by_way.len() >= MAX_HALVES {
            self.by_way.retain(|_, half| !half.foreign);
            if self.by_way.len() >= MAX_HALVES {
                return false;
            }
        }
        if self.by_way.get(&way).is_some_and(|half| half.foreign) {
            return false;
        }
        let (op, psn) = (headers.bth.opcode(), headers.bth.psn());
        let back = if op.is_response() { self.asked(way, psn) } else { None };
        let half = self.by_way.entry(way).or_default();
        half.dir = half.dir.or_else(|| shown(headers, new));
        half.back = half.back.or(back);
        if !op.is_response() {
            if half.sent.len() >= MAX_SENT {
                half.sent.pop_front();
            }
            half.sent.push_back(psn);
        }
        if room.take(new.bytes.len()) {
            half.packets.extend(packet.take().map(|p| (when, *headers, p)));
        }
        let full = packet.is_some() || half.packets.len() >= MAX_PACKETS;
        let (dir, back) = (half.dir, half.back);
        if full && dir.is_none() {
            half.foreign = true;
            half.give(room);
            half.packets.clear();
            half.sent.clear();
            self.others += 1;
            return false;
        }
        let other = back.and_then(|b| self.by_way.get_mut(&b));
        let there = other.is_some_and(|other| {
            other.back = Some(way);
            other.dir.is_some()
        });
        (back.is_some() && (dir.is_some() || there)) || full
    }

    /// The way back that has a request of this PSN.
    fn asked(&self, (from, to, _): Way, psn: u32) -> Option<Way> {
        let mut back = self.by_way.range((to, from, 0)..=(to, from, u32::MAX));
        back.find(|(_, half)| half.sent.contains(&psn)).map(|(way, _)| *way)
    }
}

impl Half {
    fn give(&self, room: &mut Room) {
        room.give(self.packets.iter().map(|(_, _, p)| p.bytes.len()).sum());
    }
}

/// Which way a packet goes, where it shows a capsule of NVMe.
fn shown(headers: &Headers, packet: &Packet) -> Option<Direction> {
    let op = headers.bth.opcode();
    if !op.is_send() || !op.begins() {
        return None;
    }
    let payload = packet.payload_behind(headers);
    if op.ends() && payload.len() == Cqe::LEN {
        return Some(Direction::ControllerToHost);
    }
    // PSDT 01b, no fused operation, an SGL that NVMe/RDMA has. [Base 2.0, Figure 86; NVMe/RDMA 1.0, 3.3.1]
    let sqe = Sqe::read(&payload).ok()?;
    let sgl = matches!(sqe.sgl1().id(), 0x00 | 0x01 | 0x31 | 0x40 | 0x4f);
    (sgl && payload.get(1) == Some(&0x40)).then_some(Direction::HostToController)
}

impl Roce {
    /// A packet that belongs to no connection that is known.
    pub(super) fn infer(
        &mut self,
        way: Way,
        when: When,
        headers: &Headers,
        packet: Packet,
        next: &mut usize,
        watcher: &mut dyn Watcher,
    ) {
        if let Some((conn, dir)) = self.lonely(way, headers, &packet) {
            return self.packet(conn, dir, when, headers, packet, watcher);
        }
        let mut packet = Some(packet);
        if self.halves.add(way, when, headers, &mut packet, &mut self.room) {
            self.join(way, next, watcher);
            if let (Some(packet), Some((conn, dir))) = (packet, self.ways.get(&way).copied()) {
                self.packet(conn, dir, when, headers, packet, watcher);
            }
        }
    }

    /// What is left at the end of the capture. Returns how many ways carried something else.
    pub(super) fn infer_rest(&mut self, next: &mut usize, watcher: &mut dyn Watcher) -> usize {
        while let Some(way) = self.halves.by_way.iter().find(|(_, half)| half.dir.is_some()).map(|(way, _)| *way) {
            self.join(way, next, watcher);
        }
        self.halves.others + self.halves.by_way.values().filter(|half| !half.foreign).count()
    }

    /// Opens the connection of a way, and gives it the packets that waited.
    fn join(&mut self, way: Way, next: &mut usize, watcher: &mut dyn Watcher) {
        let Some(half) = self.halves.by_way.get(&way) else { return };
        let back = half.back;
        let other = back.and_then(|b| self.halves.by_way.get(&b)).and_then(|b| b.dir).map(Direction::reverse);
        let Some(dir) = half.dir.or(other) else { return };
        let mut packets: Vec<(Direction, (When, Headers, Packet))> =
            self.halves.take(way, &mut self.room).into_iter().map(|p| (dir, p)).collect();
        if let Some(back) = back {
            packets.extend(self.halves.take(back, &mut self.room).into_iter().map(|p| (dir.reverse(), p)));
        }
        packets.sort_by_key(|(_, (when, ..))| when.frame);
        let Some(&(_, (first, ..))) = packets.first() else { return };
        let (from, to, qpn) = way;
        let back = back.map(|b| b.2);
        let (host, controller, qpns) = match dir {
            Direction::HostToController => (from, to, [back, Some(qpn)]),
            Direction::ControllerToHost => (to, from, [Some(qpn), back]),
        };
        let known = Known { pair: Pair::default(), host, controller, qpns, ids: [None; 2], sent: [0; 2], inferred: true };
        let said = known.queue_pairs();
        let conn = self.open(known, first, next, watcher);
        Out { conn, when: first, watcher, room: &mut self.room }.rdma(dir, said);
        for (dir, (when, headers, packet)) in packets {
            self.packet(conn, dir, when, &headers, packet, watcher);
        }
    }

    /// A connection of which only the other way is known, and that this packet completes: the only one between these addresses, and the
    /// packet shows which way it goes.
    fn lonely(&mut self, (from, to, qpn): Way, headers: &Headers, packet: &Packet) -> Option<(usize, Direction)> {
        let dir = shown(headers, packet)?;
        let (host, controller) = if dir == Direction::HostToController { (from, to) } else { (to, from) };
        let missing = usize::from(dir == Direction::HostToController);
        if self.incomplete.len() > MAX_INCOMPLETE {
            return None;
        }
        let mut fits = self.incomplete.iter().filter(|conn| {
            self.known.get(conn).is_some_and(|k| k.host == host && k.controller == controller && k.qpns[missing].is_none())
        });
        let (conn, None) = (*fits.next()?, fits.next()) else { return None };
        let known = self.known.get_mut(&conn)?;
        known.qpns[missing] = Some(qpn);
        known.inferred = true;
        self.learn(conn);
        Some((conn, dir))
    }
}
