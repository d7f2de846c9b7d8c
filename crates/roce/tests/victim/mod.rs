//! A connection that is to be attacked, packets of every kind that crossed one like it, and all that a NIC keeps but its counters.

use bytes::{Bytes, BytesMut};
use nvmf_roce::testing::Pair;
use nvmf_roce::{Counters, Nic};
use nvmf_seam::Head;
use nvmf_seam::rdma::{Access, Completion, Device, DeviceEvent, Done, Memory, PacketSide, QpId, Remote, Work, WorkId};
use nvmf_wire::roce::icrc;

/// Bytes of the region at side 0.
pub const REGION: usize = 8192;

/// A connection with a region and receives, and packets that crossed it, with the side that they are for.
pub struct Victim {
    pub pair: Pair,
    pub qps: [QpId; 2],
    pub at: Remote,
    pub packets: Vec<(usize, Bytes)>,
}

/// Packets are recorded by one of two runs, so that the NICs of the other have no record that grows.
pub fn victim() -> Victim {
    let (mut recorded, [a, b], _) = exchange(1 << 20);
    let mut packets = Vec::new();
    for (side, qp) in [(0, a), (1, b)] {
        let theirs = recorded.nics[side].recorded(qp).into_iter().filter(|r| r.side == PacketSide::Peer);
        packets.extend(theirs.map(|r| (side, r.datagram)));
    }
    assert!(packets.len() > 20);
    let (pair, qps, at) = exchange(0);
    Victim { pair, qps, at, packets }
}

fn exchange(record: usize) -> (Pair, [QpId; 2], Remote) {
    let mut pair = Pair::new(11, |s| s.record = record);
    let (a, b) = pair.connect(&Pair::ask(), &Pair::accept()).expect("comes up");
    let now = pair.now;
    let access = Access { read: true, write: true };
    pair.nics[0].post(now, a, Work::Register { id: WorkId(0), memory: Memory::zeroed(REGION), access }).unwrap();
    let Some((_, DeviceEvent::Completed(Completion { result: Ok(Done::Registered(at)), .. }))) = pair.nics[0].poll_event() else {
        panic!()
    };
    for side in [0, 1] {
        for n in 0..4 {
            pair.nics[side].post(now, [a, b][side], Work::Receive { id: WorkId(n), len: 2048 }).unwrap();
        }
    }
    let send = |len: usize| Work::Send { id: WorkId(1), head: Head::new(&[3; 64]), payload: vec![4; len].into(), invalidate: None };
    pair.nics[0].post(now, a, send(0)).unwrap();
    pair.nics[0].post(now, a, send(1900)).unwrap();
    pair.nics[1].post(now, b, Work::Read { id: WorkId(2), from: at, len: 5000 }).unwrap();
    pair.nics[1].post(now, b, Work::Write { id: WorkId(3), to: at, data: vec![5; 5000].into() }).unwrap();
    pair.nics[1].post(now, b, send(3)).unwrap();
    pair.settle();
    for nic in &mut pair.nics {
        while nic.poll_event().is_some() {}
    }
    (pair, [a, b], at)
}

/// Gives a packet the ICRC that it should have.
pub fn seal(mut packet: BytesMut) -> Bytes {
    if let Some(end) = packet.len().checked_sub(4)
        && let Some(crc) = icrc(&packet[..end])
    {
        packet[end..].copy_from_slice(&crc);
    }
    packet.freeze()
}

/// Packets that were dropped before any connection was asked.
pub fn dropped(nic: &Nic) -> u64 {
    let c: &Counters = nic.counters();
    c.not_ip + c.not_ours + c.truncated + c.bad_icrc + c.bad_version + c.bad_pkey + c.unknown_qp + c.wrong_peer
}

/// All that a NIC has but its counters: settings, connections with their states and PSNs, work, regions to the last byte.
pub fn state(nic: &Nic) -> String {
    let all = format!("{nic:?}");
    let (before, rest) = all.split_once("counters: Counters {").expect("its counters");
    let (_, after) = rest.split_once('}').expect("their end");
    assert!(after.contains("regions: Regions"), "memory is shown");
    format!("{before}{after}")
}
