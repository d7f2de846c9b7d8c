//! RoCEv2 packets of a live connection, read as those of a capture are.

use bytes::Bytes;

use crate::exchange::{Chunk, Connection, EventKind, Transport};
use crate::file::Frame;
use crate::follow::Follow;
use crate::kept::Kept;
use crate::packet::Link;

/// The connections in `packets`, the IP packets of NVMe/RDMA that went by, with times in nanoseconds, in order of time. Each connection has
/// its packets as chunks, from the IP header to the ICRC; [`crate::Event::frame`] counts them from 1. A connection to `port` is NVMe's
/// whatever its REQ holds.
#[must_use]
pub fn roce(packets: &[(u64, Bytes)], port: u16) -> Vec<Connection> {
    let mut kept = Kept::default();
    Follow::new().decode_as(port).frames(&mut kept, |sink| {
        for ((at_ns, bytes), number) in packets.iter().zip(1..) {
            sink.frame(&Frame { number, at_ns: *at_ns, link: Link::Raw, bytes, original_len: bytes.len() });
        }
    });
    let mut connections = kept.into_exchange().connections;
    for c in connections.iter_mut().filter(|c| c.transport == Transport::Rdma) {
        let whole = |frame: u64| packets.get(usize::try_from(frame).ok()?.checked_sub(1)?);
        let of_packets = c.events.iter().filter(|e| matches!(e.kind, EventKind::Packet(_)));
        c.chunks = of_packets
            .filter_map(|e| whole(e.frame).map(|(at_ns, bytes)| Chunk { at_ns: *at_ns, dir: e.dir, bytes: bytes.clone() }))
            .collect();
    }
    connections
}
