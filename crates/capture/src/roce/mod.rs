//! NVMe/RDMA over RoCEv2, as a bystander sees it.
//!
//! A connection is a pair of queue pairs. [`Packet`] is what one frame holds, [`Rdma`] what packets come to: capsules, data that moved,
//! connection management. Read [`Rdma`] first.
//!
//! Inside, `Roce` finds the connection that a packet belongs to, by what CM said (`manage`) or, where the capture does not have that,
//! by the packets themselves (`infer`); `pair` follows one connection; `order`, `ranges` and `place` are what it keeps of PSNs, memory and
//! where data begin in a capsule.

mod event;
mod infer;
mod manage;
mod order;
mod pair;
mod place;
mod ranges;
mod room;
pub(crate) mod show;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use nvmf_wire::cm::GSI_QPN;
use nvmf_wire::roce::{Headers, ICRC_LEN, RoceOpcode, UDP_PORT, icrc};

pub use event::{Cm, Data, Icrc, Packet, Place, Rdma, Span, Target};

use crate::exchange::{Direction, Ends, Transport};
use crate::follow::Watcher;
use crate::packet::Datagram;
use infer::Halves;
use pair::{Out, Pair, When};
use place::Places;
use room::Room;

/// Most connections that are remembered; the oldest goes first.
const MAX_CONNECTIONS: usize = 16_384;
/// Ended connections that are remembered, for packets that come again.
const LINGERING: usize = 64;

/// Who sends to which queue pair of whom: the sender's address, the receiver's, and the destination of the BTH.
type Way = (IpAddr, IpAddr, u32);

/// All RoCEv2 traffic of a capture.
pub(crate) struct Roce {
    ports: Vec<u16>,
    known: BTreeMap<usize, Known>,
    ways: HashMap<Way, (usize, Direction)>,
    /// Communication IDs: whose, in talk with whom, and who of the connection that is.
    ids: HashMap<(IpAddr, IpAddr, u32), (usize, Direction)>,
    halves: Halves,
    places: Places,
    room: Room,
    ended: VecDeque<usize>,
    /// Connections of which one queue pair is not known yet.
    incomplete: BTreeSet<usize>,
}

/// One connection.
struct Known {
    pair: Pair,
    host: IpAddr,
    controller: IpAddr,
    /// Queue pairs of host and controller.
    qpns: [Option<u32>; 2],
    /// Communication IDs of host and controller.
    ids: [Option<u32>; 2],
    /// CM messages that host and controller have sent, a bit each.
    sent: [u16; 2],
    inferred: bool,
}

impl Known {
    /// The way of what `dir` sends, once the receiver's queue pair is known.
    fn way(&self, dir: Direction) -> Option<Way> {
        match dir {
            Direction::HostToController => Some((self.host, self.controller, self.qpns[1]?)),
            Direction::ControllerToHost => Some((self.controller, self.host, self.qpns[0]?)),
        }
    }

    fn queue_pairs(&self) -> Rdma {
        Rdma::QueuePairs { host: self.qpns[0], controller: self.qpns[1], inferred: self.inferred }
    }
}

impl Roce {
    /// A REQ for one of `ports` is taken for NVMe/RDMA whatever its private data.
    pub(crate) fn new(ports: Vec<u16>) -> Self {
        Self {
            ports,
            known: BTreeMap::new(),
            ways: HashMap::new(),
            ids: HashMap::new(),
            halves: Halves::default(),
            places: Places::default(),
            room: Room::default(),
            ended: VecDeque::new(),
            incomplete: BTreeSet::new(),
        }
    }

    /// Takes the next datagram of the capture, which came in frame `number`; `next` numbers connections.
    pub(crate) fn datagram(&mut self, at_ns: u64, number: u64, d: &Datagram<'_>, next: &mut usize, watcher: &mut dyn Watcher) {
        if d.port != UDP_PORT {
            return;
        }
        let bytes = Bytes::copy_from_slice(d.payload);
        let packet = Packet { icrc: check(d), bytes, len: d.len, place: Place::Next };
        let Ok(headers) = packet.headers() else { return };
        let when = When { at_ns, frame: number };
        let (op, qpn) = (headers.bth.opcode(), headers.bth.dqpn());
        if op == RoceOpcode::UD_SEND_ONLY && qpn == GSI_QPN {
            return self.manage((d.from, d.to), when, &headers, packet, next, watcher);
        }
        let way = (d.from, d.to, qpn);
        match self.ways.get(&way).copied() {
            Some((conn, dir)) => self.packet(conn, dir, when, &headers, packet, watcher),
            None if op.transport() == 0 && !matches!(packet.icrc, Icrc::Bad { .. }) => {
                self.infer(way, when, &headers, packet, next, watcher);
            }
            None => {}
        }
    }

    /// The capture is over. Returns how many queue pairs carried something else, or too little to tell.
    pub(crate) fn finish(mut self, next: &mut usize, watcher: &mut dyn Watcher) -> usize {
        let others = self.infer_rest(next, watcher);
        for conn in self.known.into_keys() {
            watcher.over(conn);
        }
        others
    }

    fn packet(&mut self, conn: usize, dir: Direction, when: When, headers: &Headers, packet: Packet, watcher: &mut dyn Watcher) {
        if let Some(known) = self.known.get_mut(&conn) {
            known.pair.packet(dir, headers, packet, &mut Out { conn, when, watcher, room: &mut self.room });
            if let Some(said) = known.pair.admin.said() {
                self.places.note(known.host, known.controller, said);
            }
        }
    }

    /// A connection of which the queue pairs are known so far as `known` says.
    fn open(&mut self, known: Known, when: When, next: &mut usize, watcher: &mut dyn Watcher) -> usize {
        if self.known.len() >= MAX_CONNECTIONS
            && let Some((&oldest, _)) = self.known.first_key_value()
        {
            self.forget(oldest, watcher);
        }
        let conn = *next;
        *next += 1;
        let at = |ip| SocketAddr::new(ip, UDP_PORT);
        let (client, server) = (at(known.host), at(known.controller));
        watcher.opened(conn, &Ends { client, server, opened_ns: when.at_ns, transport: Transport::Rdma });
        self.known.insert(conn, known);
        self.learn(conn);
        conn
    }

    /// Enters what is known of a connection into the tables by which it is found. A queue pair or ID that another connection had is
    /// this one's now.
    fn learn(&mut self, conn: usize) {
        let Some(known) = self.known.get(&conn) else { return };
        if known.qpns.contains(&None) {
            self.incomplete.insert(conn);
        } else {
            self.incomplete.remove(&conn);
        }
        let ends = [(known.host, known.controller), (known.controller, known.host)];
        for (dir, id, (own, peer)) in
            [(Direction::HostToController, known.ids[0], ends[0]), (Direction::ControllerToHost, known.ids[1], ends[1])]
        {
            if let Some(way) = known.way(dir) {
                self.ways.insert(way, (conn, dir));
                self.halves.forget(way, &mut self.room);
            }
            if let Some(id) = id {
                self.ids.insert((own, peer, id), (conn, dir));
            }
        }
    }

    /// The connection has ended: it is remembered for a while.
    fn end(&mut self, conn: usize, watcher: &mut dyn Watcher) {
        if let Some(known) = self.known.get_mut(&conn).filter(|_| !self.ended.contains(&conn)) {
            known.pair.close(&mut self.room);
            self.incomplete.remove(&conn);
            self.ended.push_back(conn);
        }
        if self.ended.len() > LINGERING
            && let Some(oldest) = self.ended.pop_front()
        {
            self.forget(oldest, watcher);
        }
    }

    fn forget(&mut self, conn: usize, watcher: &mut dyn Watcher) {
        let Some(mut known) = self.known.remove(&conn) else { return };
        known.pair.close(&mut self.room);
        self.incomplete.remove(&conn);
        for dir in [Direction::HostToController, Direction::ControllerToHost] {
            if let Some(way) = known.way(dir)
                && self.ways.get(&way).is_some_and(|w| w.0 == conn)
            {
                self.ways.remove(&way);
            }
        }
        for (id, own, peer) in [(known.ids[0], known.host, known.controller), (known.ids[1], known.controller, known.host)] {
            if let Some(id) = id
                && self.ids.get(&(own, peer, id)).is_some_and(|i| i.0 == conn)
            {
                self.ids.remove(&(own, peer, id));
            }
        }
        watcher.over(conn);
    }
}

/// What the ICRC of a datagram is worth.
fn check(d: &Datagram<'_>) -> Icrc {
    if d.payload.len() != d.len {
        return Icrc::Unknown;
    }
    let Some((covered, found)) = d.ip.split_last_chunk::<ICRC_LEN>() else { return Icrc::Unknown };
    match icrc(covered) {
        Some(expected) if expected == *found => Icrc::Good,
        Some(expected) => Icrc::Bad { expected },
        None => Icrc::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::EventKind;
    use crate::kept::Kept;
    use nvmf_wire::roce::Bth;

    /// Feeds packets as they are, without an IP header to check the ICRC by.
    fn feed(roce: &mut Roce, kept: &mut Kept, next: &mut usize, packets: impl Iterator<Item = (RoceOpcode, u32, u32, Vec<u8>)>) {
        for (n, (op, qpn, psn, payload)) in packets.enumerate() {
            let mut bytes = Bth::new().with(|s| s.opcode(op).dqpn(qpn).psn(psn)).as_bytes().to_vec();
            bytes.extend(payload);
            bytes.extend([0; ICRC_LEN]);
            let (from, to) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
            let d = Datagram { from, to, port: UDP_PORT, ip: &[], payload: &bytes, len: bytes.len() };
            roce.datagram(n as u64, n as u64 + 1, &d, next, kept);
        }
    }

    /// A flush command: it shows that its way leads to a controller.
    fn command() -> Vec<u8> {
        let mut sqe = vec![0; 64];
        sqe[1] = 0x40;
        sqe
    }

    #[test]
    fn queue_pairs_without_end_are_forgotten() {
        let (mut roce, mut kept, mut next) = (Roce::new(vec![]), Kept::default(), 0);
        let strangers = (0..20_000u32).map(|n| (RoceOpcode::WRITE_MIDDLE, 2 + n, n, vec![7; 2048]));
        feed(&mut roce, &mut kept, &mut next, strangers);
        assert!(roce.halves.len() <= 1024, "{}", roce.halves.len());
        assert_eq!(next, 0);
        assert_eq!(roce.finish(&mut next, &mut kept), 1024);
    }

    #[test]
    fn what_waits_has_a_limit() {
        let (mut roce, mut kept, mut next) = (Roce::new(vec![]), Kept::default(), 0);
        let send = |op, psn, payload| (op, 5, psn, payload);
        // 128 commands show what the queue pair is; then a SEND without end, and early packets behind a hole.
        let commands = (0..129).map(|n| send(RoceOpcode::SEND_ONLY, n, command()));
        let endless = (129..4000).map(|n| {
            let op = if n == 129 { RoceOpcode::SEND_FIRST } else { RoceOpcode::SEND_MIDDLE };
            send(op, n, vec![1; 4096])
        });
        let early = (4002..9000).step_by(2).map(|n| send(RoceOpcode::SEND_MIDDLE, n, vec![2; 4096]));
        feed(&mut roce, &mut kept, &mut next, commands.chain(endless).chain(early));
        assert_eq!(next, 1);
        assert!(roce.room.used() <= (1 << 20) + 257 * 4200, "{}", roce.room.used());
        let capture = kept.into_exchange();
        let told = |f: fn(&Rdma) -> bool| {
            capture.connections[0].events.iter().filter(|e| matches!(&e.kind, EventKind::Rdma(r) if f(r))).count()
        };
        assert_eq!(told(|r| matches!(r, Rdma::Command { .. })), 129);
        assert!(told(|r| matches!(r, Rdma::Missing { .. })) > 2000);
    }
}
