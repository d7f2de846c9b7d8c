//! NVMe/RDMA in captures: every RoCEv2 frame, command, response and piece of data of the recorded traffic is shown, also when CM is
//! missing, PSNs wrap, or frames are cut, broken or left out.

mod frames;

use std::collections::{BTreeMap, BTreeSet};

use frames::{Pcap, Record};
use nvmf_capture::roce::{Icrc, Place, Rdma};
use nvmf_capture::{Capture, Connection, Direction, EventKind, Session, Transport};
use nvmf_wire::roce::RoceOpcode;
use nvmf_wire::sgl::SglKeyed;
use nvmf_wire::sqe::Direction as DataDirection;
use nvmf_wire::{Cqe, Opcode, Sqe, Status};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;

const HOST_CAPTURES: [&str; 9] = [
    "linux-6.12/rdma-admin",
    "linux-6.12/rdma-aen-ns",
    "linux-6.12/rdma-connect-plain",
    "linux-6.12/rdma-discover-8009",
    "linux-6.12/rdma-inline0",
    "linux-6.12/rdma-inline16k",
    "linux-6.12/rdma-io",
    "linux-6.12/rdma-keepalive-reset",
    "rxe-peer/h1-udp6-tap",
];

const FAULT_CAPTURES: [&str; 8] = [
    "linux-6.12/rdma-cmreq-outside",
    "rxe-peer/psn-swapped",
    "rxe-peer/t1-udp-fault-dreq",
    "rxe-peer/t1-udp-fault-droprx",
    "rxe-peer/t1-udp-fault-droptx",
    "rxe-peer/t1-udp-fault-rej",
    "rxe-peer/t1-udp-fault-reqlost",
    "rxe-peer/t1-udp-fault-rnr",
];

/// The invariant CRC bit by bit, from the text, with nothing of ours.
fn slow_icrc(datagram: &[u8]) -> [u8; 4] {
    let mut d = datagram.to_vec();
    let masked: &[usize] = if d[0] >> 4 == 4 { &[1, 8, 10, 11, 26, 27, 32] } else { &[1, 2, 3, 7, 46, 47, 52] };
    if d[0] >> 4 == 6 {
        d[0] |= 15;
    }
    for at in masked {
        d[*at] = 0xff;
    }
    let mut crc = u32::MAX;
    for byte in [0xff; 8].iter().chain(&d) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    (!crc).to_le_bytes()
}

fn rdma(c: &Connection) -> impl Iterator<Item = (u64, Direction, &Rdma)> {
    c.events.iter().filter_map(|e| match &e.kind {
        EventKind::Rdma(r) => Some((e.frame, e.dir, &**r)),
        _ => None,
    })
}

#[test]
fn every_frame_is_shown_and_its_icrc_is_right() {
    for name in HOST_CAPTURES.iter().chain(&FAULT_CAPTURES) {
        let pcap = Pcap::open(name);
        let mut frames = BTreeSet::new();
        for (i, r) in pcap.records.iter().enumerate() {
            if let Some((ip, _, end)) = r.roce() {
                assert_eq!(slow_icrc(&r.frame[ip..end - 4]), r.frame[end - 4..end], "{name}, frame {}", i + 1);
                frames.insert(i as u64 + 1);
            }
        }
        let capture = pcap.read();
        let mut shown = BTreeSet::new();
        for e in capture.connections().iter().flat_map(|c| &c.events) {
            if let EventKind::Packet(p) = &e.kind {
                assert_eq!(p.icrc, Icrc::Good, "{name}, frame {}", e.frame);
                assert!(shown.insert(e.frame), "{name}: frame {} twice", e.frame);
            }
        }
        assert_eq!(shown, frames, "{name}");
        assert!(capture.connections().iter().all(|c| c.transport == Transport::Rdma));
    }
}

/// A command, its response, the data that READs and WRITEs moved for it, and in how many packets.
type Moved = (Sqe, Option<Cqe>, Vec<u8>, u32);

/// What each command moved, put together from the pieces.
fn gather(c: &Connection) -> Vec<Moved> {
    let mut open = BTreeMap::new();
    let mut done = Vec::new();
    for (frame, _, r) in rdma(c) {
        match r {
            Rdma::Command { sqe, rest, .. } => {
                let old = open.insert(sqe.cid().0, (*sqe, rest.to_vec(), 0));
                assert!(old.is_none(), "frame {frame}: two commands of {:?}", sqe.cid());
            }
            Rdma::Data(data) => {
                let cid = data.target.cid.unwrap_or_else(|| panic!("frame {frame}: data of no command"));
                let (_, bytes, pieces) = open.get_mut(&cid.0).expect("an outstanding command");
                let from = data.offset().expect("a place") as usize;
                bytes.resize(bytes.len().max(from + data.bytes.len()), 0);
                bytes[from..from + data.bytes.len()].copy_from_slice(&data.bytes);
                *pieces += 1;
            }
            Rdma::Response { cqe, invalidate, .. } => {
                let (sqe, bytes, pieces) = open.remove(&cqe.cid().0).unwrap_or_else(|| panic!("frame {frame}: no command"));
                let sgl = SglKeyed::from_bytes(*sqe.sgl1().as_bytes());
                assert!(invalidate.is_none_or(|key| key == sgl.key()), "frame {frame}: another key");
                done.push((sqe, Some(*cqe), bytes, pieces));
            }
            Rdma::Missing { .. } | Rdma::Stray { .. } | Rdma::Send { .. } => panic!("frame {frame}: {r:?}"),
            _ => {}
        }
    }
    done.extend(open.into_values().map(|(sqe, bytes, pieces)| (sqe, None, bytes, pieces)));
    done
}

/// Every command is answered but for one Asynchronous Event Request, and its data came whole, whichever way.
#[test]
fn commands_have_their_responses_and_their_data() {
    let mut pages = BTreeSet::new();
    for name in HOST_CAPTURES {
        for c in Pcap::open(name).read().connections() {
            let mut session = Session::new();
            rdma(c).for_each(|(_, dir, r)| session.apply_rdma(dir, r));
            for (sqe, cqe, data, pieces) in gather(c) {
                let Some(cqe) = cqe else {
                    let waits = sqe.opc() == Opcode::ASYNC_EVENT_REQUEST;
                    assert!(waits || name == "rxe-peer/h1-udp6-tap", "{name}: {sqe:?} has no response");
                    continue;
                };
                let sgl = sqe.sgl1();
                let keyed = SglKeyed::from_bytes(*sgl.as_bytes());
                let len = if sgl.is_in_capsule() { sgl.len() } else { keyed.len() } as usize;
                let moves = DataDirection::of(&sqe) != DataDirection::None;
                if cqe.status().code() == Status::SUCCESS && moves {
                    assert_eq!(data.len(), len, "{name}: {sqe:?}");
                }
                if session.is_admin() && sqe.opc() == Opcode::GET_LOG_PAGE && sqe.fctype().is_none() {
                    pages.insert((data.len(), pieces));
                }
            }
        }
    }
    // The ANA log page of 8208 bytes came in nine packets of one WRITE; the effects log in four.
    assert!(pages.contains(&(8208, 9)) && pages.contains(&(4096, 4)) && pages.contains(&(512, 1)), "{pages:?}");
}

/// The host wrote a pattern that says where each word lies: offset in the sector, a mark, and the sector.
#[test]
fn what_was_written_and_read_is_the_pattern_of_the_recording() {
    const WRITE: Opcode = Opcode(1);
    let (mut capsules, mut moved) = (BTreeSet::new(), BTreeMap::new());
    for name in ["linux-6.12/rdma-inline16k", "linux-6.12/rdma-io", "linux-6.12/rdma-inline0"] {
        for c in Pcap::open(name).read().connections() {
            for (_, _, r) in rdma(c) {
                if let Rdma::Command { sqe, rest, send } = r
                    && mark(rest)
                {
                    assert!(sqe.opc() == WRITE && patterned(rest), "{name}: {sqe:?}");
                    capsules.insert((rest.len(), send.packets));
                }
            }
            for (sqe, _, data, pieces) in gather(c).into_iter().filter(|(_, _, data, _)| mark(data)) {
                // A Read may find blocks that nobody wrote.
                assert!(sqe.opc() != WRITE || patterned(&data), "{name}: {sqe:?}");
                if pieces >= 8 && patterned(&data) {
                    *moved.entry(sqe.opc() == WRITE).or_insert(0) += 1;
                }
            }
        }
    }
    assert!(capsules.contains(&(16_384, 17)) && capsules.contains(&(4096, 5)) && capsules.contains(&(512, 1)), "{capsules:?}");
    assert!(moved.get(&true).is_some_and(|n| *n >= 2) && moved.get(&false).is_some_and(|n| *n >= 1), "{moved:?}");
}

fn mark(bytes: &[u8]) -> bool {
    bytes.get(2..4) == Some(&[0x42, 0x4c])
}

/// True where every word of `bytes` follows the one before it.
fn patterned(bytes: &[u8]) -> bool {
    let word = |w: &[u8]| (u16::from_le_bytes([w[0], w[1]]), u32::from_le_bytes([w[4], w[5], w[6], w[7]]));
    let words: Vec<_> = bytes.chunks_exact(8).collect();
    let follows = |a: &[u8], b: &[u8]| {
        let ((x, s), (y, t)) = (word(a), word(b));
        if x == 504 { (y, t) == (0, s + 1) } else { (y, t) == (x + 8, s) }
    };
    words.len() > 1 && words.iter().all(|w| mark(w)) && words.windows(2).all(|w| follows(w[0], w[1]))
}

/// Without CM the same capsules and data are seen, and it is said that the queue pairs are a guess.
#[test]
fn without_cm_the_queue_pairs_are_told_from_packets() {
    for name in ["linux-6.12/rdma-io", "linux-6.12/rdma-keepalive-reset", "linux-6.12/rdma-inline16k"] {
        let whole = Pcap::open(name);
        let torn = whole.clone().keep(|r| r.opcode() != Some(RoceOpcode::UD_SEND_ONLY)).read();
        let (before, after) = (whole.read(), torn);
        assert_eq!(told(&before), told(&after), "{name}");
        let inferred = |c: &Connection| rdma(c).any(|(_, _, r)| matches!(r, Rdma::QueuePairs { inferred: true, .. }));
        assert!(after.connections().iter().all(inferred) && !before.connections().iter().any(inferred), "{name}");
    }
}

/// A message without frame numbers.
fn shown(dir: Direction, r: &Rdma) -> String {
    match r {
        Rdma::Command { sqe, rest, .. } => format!("{dir:?} {sqe:?} {rest:?}"),
        Rdma::Response { cqe, invalidate, .. } => format!("{dir:?} {cqe:?} {invalidate:?}"),
        Rdma::Data(d) => format!("{dir:?} {:?} {} {} {:?}", d.target, d.before, d.last, d.bytes),
        other => format!("{dir:?} {other:?}"),
    }
}

/// The connections of a capture, each with its messages but for those of connection management.
fn told(capture: &Capture) -> Vec<Vec<String>> {
    let aside = |r: &Rdma| matches!(r, Rdma::Cm(_) | Rdma::QueuePairs { .. });
    let of = |c: &Connection| rdma(c).filter(|(_, _, r)| !aside(r)).map(|(_, dir, r)| shown(dir, r)).collect();
    capture.connections().iter().map(of).collect()
}

/// Where in a packet, from its BTH on, PSNs stand that its queue pairs start with or use.
fn psn_at(packet: &[u8]) -> Option<usize> {
    match (RoceOpcode(packet[0]), packet.get(20 + 17)) {
        (RoceOpcode::UD_SEND_ONLY, Some(0x10)) => Some(20 + 24 + 44),
        (RoceOpcode::UD_SEND_ONLY, Some(0x13)) => Some(20 + 24 + 20),
        (RoceOpcode::UD_SEND_ONLY, _) => None,
        _ => Some(9),
    }
}

/// PSNs that run over their 24 bits in the middle change nothing but themselves.
#[test]
fn psns_wrap() {
    let psn = |p: &[u8], at: usize| u32::from_be_bytes([0, p[at], p[at + 1], p[at + 2]]);
    for name in ["linux-6.12/rdma-io", "rxe-peer/t1-udp-fault-droptx"] {
        let whole = Pcap::open(name);
        let before = told(&whole.read());
        let starts: Vec<u32> = whole
            .records
            .iter()
            .filter(|r| r.opcode() == Some(RoceOpcode::UD_SEND_ONLY))
            .filter_map(|r| {
                let packet = &r.frame[r.roce()?.1..];
                Some(psn(packet, psn_at(packet)?))
            })
            .collect();
        assert_eq!(starts.len(), 4, "{name}: REQ and REP of two queues");
        for start in starts {
            let shift = 0x00ff_fff0u32.wrapping_sub(start);
            let mut moved = whole.clone();
            for r in &mut moved.records {
                r.change(|p| {
                    if let Some(at) = psn_at(p) {
                        let new = psn(p, at).wrapping_add(shift);
                        p[at..at + 3].copy_from_slice(&new.to_be_bytes()[1..]);
                    }
                });
            }
            assert_eq!(told(&moved.read()), before, "{name}: from PSN {start:#x}");
        }
    }
}

/// A packet that the capture lost is said to be missing; what was before and behind it is there.
#[test]
fn a_lost_frame_costs_its_message_alone() {
    let whole = Pcap::open("linux-6.12/rdma-inline16k");
    let count = |c: &Capture| told(c).iter().map(Vec::len).sum::<usize>();
    let all = count(&whole.read());
    let middle = whole.records.iter().position(|r| r.opcode() == Some(RoceOpcode::SEND_MIDDLE)).expect("a long SEND");
    let mut torn = whole.clone();
    torn.records.remove(middle);
    let torn = torn.read();
    let missing: Vec<_> = torn.connections().iter().flat_map(rdma).filter(|(_, _, r)| matches!(r, Rdma::Missing { .. })).collect();
    assert!(matches!(missing[..], [(_, Direction::HostToController, Rdma::Missing { count: 1, .. })]), "{missing:?}");
    // The capsule becomes: missing, and one stray.
    assert_eq!(count(&torn), all + 1);
}

/// Frames that a snap length cut: the capsules are there as far as they were captured, and no ICRC is claimed to be wrong.
#[test]
fn frames_cut_short_are_read_as_far_as_they_go() {
    let whole = Pcap::open("linux-6.12/rdma-io");
    let mut cut = whole.clone();
    for r in &mut cut.records {
        r.frame.truncate(140);
    }
    let (before, after) = (whole.read(), cut.read());
    let sqes = |c: &Capture| -> Vec<Sqe> {
        let all = c.connections().iter().flat_map(rdma);
        all.filter_map(|(_, _, r)| if let Rdma::Command { sqe, .. } = r { Some(*sqe) } else { None }).collect()
    };
    let spans = |c: &Capture| -> Vec<u64> {
        let all = c.connections().iter().flat_map(rdma);
        all.filter_map(|(_, _, r)| if let Rdma::Data(d) = r { d.last.then_some(d.span.bytes) } else { None }).collect()
    };
    // The frames of CM are longer than that: the queue pairs are told from packets.
    assert_eq!((sqes(&before), spans(&before)), (sqes(&after), spans(&after)));
    let events = after.connections().iter().flat_map(|c| &c.events);
    assert!(!events.clone().any(|e| matches!(&e.kind, EventKind::Packet(p) if matches!(p.icrc, Icrc::Bad { .. }))));
    assert!(events.clone().any(|e| matches!(&e.kind, EventKind::Packet(p) if p.icrc == Icrc::Unknown)));
}

/// A packet whose ICRC is wrong is dropped by its receiver: it is shown as such, and what it holds is not taken.
#[test]
fn a_wrong_icrc_is_told_and_its_packet_not_taken() {
    let mut pcap = Pcap::open("linux-6.12/rdma-discover-8009");
    let all = told(&pcap.read())[0].len();
    let at = pcap.records.iter().rposition(|r| r.opcode() == Some(RoceOpcode::SEND_ONLY_INV)).expect("a response");
    let (_, bth, _) = pcap.records[at].roce().unwrap();
    pcap.records[at].frame[bth + 16] ^= 1;
    let capture = pcap.read();
    let bad: Vec<u64> = capture.connections()[0]
        .events
        .iter()
        .filter(|e| matches!(&e.kind, EventKind::Packet(p) if matches!(p.icrc, Icrc::Bad { .. })))
        .map(|e| e.frame)
        .collect();
    assert_eq!(bad, [at as u64 + 1]);
    assert!(pcap.trace().contains("ICRC BAD"));
    // Its place stays open, as nothing comes again: the response is missing.
    let after = &told(&capture)[0];
    assert_eq!(after.iter().filter(|l| l.contains("Missing")).count(), 1, "{after:?}");
    assert_eq!(after.len(), all);
}

/// Data in a capsule begin where Identify Controller says, with ICDOFF in 16 bytes, on the I/O queues of that controller.
#[test]
fn data_in_a_capsule_begin_at_icdoff() {
    let mut pcap = Pcap::open("linux-6.12/rdma-inline16k");
    let longest = |p: &Pcap| {
        let capture = p.read();
        let rests = capture.connections().iter().flat_map(rdma).filter_map(|(_, _, r)| match r {
            Rdma::Command { rest, .. } => Some(rest.clone()),
            _ => None,
        });
        rests.max_by_key(|r| r.len()).unwrap()
    };
    let before = longest(&pcap);
    // Byte 1800 is in the second packet of the first WRITE, which answers Identify Controller.
    let second = pcap.records.iter().position(|r| r.opcode() == Some(RoceOpcode::WRITE_MIDDLE)).expect("a WRITE");
    pcap.records[second].change(|p| p[12 + 1800 - 1024] = 2);
    assert_eq!((before.len(), longest(&pcap)), (16_384, before.slice(32..)));
}

/// What comes again is told as such and taken once: what a peer made of it is the same as without loss.
#[test]
fn retransmissions_are_told_and_taken_once() {
    for (name, again) in
        [("rxe-peer/t1-udp-fault-droptx", 500), ("rxe-peer/t1-udp-fault-droprx", 305), ("rxe-peer/t1-udp-fault-rnr", 9)]
    {
        let capture = Pcap::open(name).read();
        let packets = capture.connections().iter().flat_map(|c| &c.events).filter_map(|e| match &e.kind {
            EventKind::Packet(p) => Some(p),
            _ => None,
        });
        assert_eq!(packets.filter(|p| p.place == Place::Repeated).count(), again, "{name}");
        for c in capture.connections() {
            for (sqe, cqe, data, _) in gather(c) {
                let done = cqe.is_some_and(|c| c.status().code() == Status::SUCCESS) && !sqe.sgl1().is_in_capsule();
                let moves = done && DataDirection::of(&sqe) != DataDirection::None;
                let len = SglKeyed::from_bytes(*sqe.sgl1().as_bytes()).len() as usize;
                assert!(!moves || data.len() == len, "{name}: {} bytes of {sqe:?}", data.len());
            }
        }
    }
}

#[test]
fn traces() {
    for name in ["psn-swapped", "t1-udp-fault-rej", "t1-udp-fault-dreq", "t1-udp-fault-rnr"] {
        insta::assert_snapshot!(name, Pcap::open(&format!("rxe-peer/{name}")).trace());
    }
    insta::assert_snapshot!("rdma-io", Pcap::open("linux-6.12/rdma-io").trace());
}

/// A RoCEv2 capture with bytes changed, records lost, cut, doubled and exchanged, some with the right ICRC again.
fn broken() -> impl Strategy<Value = Pcap> {
    let change = (any::<Index>(), 0usize..6, any::<Index>(), any::<u8>(), any::<bool>());
    (0usize..3, proptest::collection::vec(change, 1..40)).prop_map(|(which, changes)| {
        let name = ["linux-6.12/rdma-inline16k", "rxe-peer/t1-udp-fault-dreq", "rxe-peer/h1-udp6-tap"][which];
        let mut pcap = Pcap::open(name);
        for (record, what, at, byte, mend) in changes {
            let len = pcap.records.len();
            let i = record.index(len);
            let edit = |r: &mut Record| {
                let Some((_, bth, end)) = r.roce().filter(|(_, _, end)| r.frame.len() >= *end) else { return };
                if mend {
                    r.change(|p| p[at.index(p.len())] = byte);
                } else {
                    r.frame[bth..end][at.index(end - bth)] = byte;
                }
            };
            match what {
                0..=2 => edit(&mut pcap.records[i]),
                3 => drop(pcap.records.remove(i)),
                4 => pcap.records.swap(i, at.index(len)),
                _ => {
                    let to = at.index(pcap.records[i].frame.len());
                    pcap.records[i].frame.truncate(to.max(60));
                }
            }
        }
        pcap
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, rng_seed: RngSeed::Fixed(4791), ..ProptestConfig::default() })]

    /// Nothing that is done to frames stops the reader, and no frame is shown twice.
    #[test]
    fn broken_captures_are_read_to_their_end(pcap in broken()) {
        let capture = pcap.read();
        prop_assert_eq!(capture.packets(), pcap.records.len() as u64);
        let mut seen = BTreeSet::new();
        for e in capture.connections().iter().flat_map(|c| &c.events) {
            if let EventKind::Packet(_) = &e.kind {
                prop_assert!(seen.insert(e.frame));
            }
        }
        prop_assert!(!pcap.trace().is_empty());
    }
}
