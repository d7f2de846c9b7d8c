//! A fuzz target for the NIC: any bytes stand for what a peer, a clock and a consumer may do, and whatever they do, what has to hold holds.
//!
//! Here it is driven by seeds; `NVMFSPEC_FUZZ_SEEDS=1000000 cargo test -p nvmf-roce --release --test fuzz` plays so many. A fuzzer that
//! is led by coverage calls [`target`] with its input as it is.

#[path = "victim/mod.rs"]
mod victim;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use nvmf_seam::rdma::{Device, DeviceEvent, Work, WorkId};
use nvmf_seam::{Entropy, Head, SplitMix64};
use nvmf_wire::roce::UDP_PORT;

use victim::{REGION, Victim, dropped, seal, state, victim};

/// Input, byte by byte; zeroes behind its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or(0)
    }

    fn below(&mut self, n: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % n.max(1)
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.byte()).collect()
    }
}

/// Plays `input`. Panics where the NIC breaks a promise.
fn target(v: &mut Victim, input: &[u8]) {
    let mut input = Input(input);
    while !input.0.is_empty() {
        let side = input.below(2);
        let (now, qp) = (v.pair.now, v.qps[side]);
        match input.byte() % 8 {
            0 => {
                let n = input.below(160);
                let mut packet = input.bytes(n);
                // most get as far as the addresses, and some to the queue pairs
                if let Some(head) = packet.get_mut(..28) {
                    (head[0], head[9]) = (0x45, 17);
                    head[6..8].fill(0);
                    head[12..20].copy_from_slice(if side == 0 { &[10, 0, 0, 2, 10, 0, 0, 1] } else { &[10, 0, 0, 1, 10, 0, 0, 2] });
                    head[2..4].copy_from_slice(&(n as u16).to_be_bytes());
                    head[22..24].copy_from_slice(&UDP_PORT.to_be_bytes());
                    head[24..26].copy_from_slice(&(n as u16 - 20).to_be_bytes());
                    packet = seal(BytesMut::from(&packet[..])).to_vec();
                }
                hand(v, side, packet.into());
            }
            1..=3 => {
                let (side, packet) = v.packets[input.below(v.packets.len())].clone();
                let mut packet = BytesMut::from(&packet[..]);
                for _ in 0..input.byte() % 5 {
                    let at = input.below(packet.len());
                    packet[at] = input.byte();
                }
                let packet = match input.byte() % 4 {
                    0 => packet.split_to(input.below(packet.len())).freeze(),
                    1 => packet.freeze(),
                    _ => seal(packet),
                };
                hand(v, side, packet);
            }
            4 => {
                v.pair.now = now + Duration::from_micros(1 << (input.byte() % 24));
                v.pair.nics.iter_mut().for_each(|nic| nic.handle_timeout(v.pair.now));
            }
            5 => {
                let id = WorkId(u64::from(input.byte()));
                let len = input.below(3000) as u32;
                let work = match input.byte() % 4 {
                    0 => Work::Receive { id, len },
                    1 => {
                        Work::Send { id, head: Head::new(&[1; 64]), payload: Bytes::from(vec![2; len as usize]), invalidate: None }
                    }
                    2 => Work::Read { id, from: v.at, len },
                    _ => Work::Write { id, to: v.at, data: Bytes::from(vec![6; len as usize]) },
                };
                // work of side 0 that reaches into its own region is refused by the other side
                let _ = v.pair.nics[side].post(now, qp, work);
            }
            6 => {
                // what is sent is brought, or lost
                let lost = input.byte() % 4;
                for n in 0..input.byte() % 64 {
                    let Some(d) = v.pair.nics[side].poll_datagram(now) else { break };
                    if n % 4 != lost {
                        hand(v, 1 - side, d.to_bytes());
                    }
                }
            }
            _ => {
                while let Some((qp, event)) = v.pair.nics[side].poll_event() {
                    if matches!(event, DeviceEvent::Cm(nvmf_seam::rdma::CmEvent::Request(_))) && input.byte() % 2 == 0 {
                        let _ = v.pair.nics[side].reject(now, qp, &[]);
                    }
                }
            }
        }
    }
    v.pair.run(Duration::from_secs(5), |_| false);
}

/// A packet for a NIC. Where it is dropped before a connection is asked, it changes nothing but counters; memory stays as large as it is, and
/// what waits to be sent within its limit.
fn hand(v: &mut Victim, side: usize, packet: Bytes) {
    let nic = &mut v.pair.nics[side];
    let (before, drops) = (state(nic), dropped(nic));
    nic.handle_datagram(v.pair.now, packet.clone());
    assert!(dropped(nic) == drops || state(nic) == before, "a dropped packet changed something: {packet:02x?}");
    assert!(v.pair.nics[0].peek(v.at.key).is_none_or(|m| m.len() == REGION));
}

#[test]
fn whatever_comes_the_nic_keeps_its_promises() {
    let seeds = std::env::var("NVMFSPEC_FUZZ_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(300u64);
    let (mut dropped_all, mut naks) = (0, 0);
    for seed in 0..seeds {
        let mut random = SplitMix64::new(seed);
        let input: Vec<u8> = (0..40 + random.below(400)).map(|_| random.next_u64() as u8).collect();
        let mut v = victim();
        target(&mut v, &input);
        for nic in &v.pair.nics {
            let c = nic.counters();
            dropped_all += dropped(nic);
            naks += c.nak_invalid + c.nak_access + c.nak_sequence + c.duplicate + c.stray_cm + c.bad_mad;
        }
    }
    // the input reaches what it is meant to reach
    assert!(dropped_all > seeds && naks > seeds, "{dropped_all} {naks} of {seeds}");
}
