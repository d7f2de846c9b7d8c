//! A region, a key or a bound that is wrong by one is refused with the right NAK, for READ, WRITE and invalidation, and memory outside
//! is not touched. [IBA vol. 1, 9.7.4.1, 9.7.5.2; 10.6.3]

use bytes::Bytes;
use nvmf_roce::testing::Pair;
use nvmf_seam::Head;
use nvmf_seam::rdma::{
    Accept, Access, Completion, Device, DeviceEvent, Done, Memory, Pd, QpId, Remote, Rkey, Work, WorkError, WorkId,
};
use proptest::prelude::*;

/// What side 1 does to a region of side 0.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    Read,
    Write,
    Invalidate,
}

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    Nothing,
    /// Begins one byte before the region.
    Before,
    /// Ends one byte behind it.
    Behind,
    /// Begins a whole address space behind it, so that its end wraps.
    Wraps,
    /// The tag of the key is that of the next registration.
    Tag,
    /// One bit of the key's index is turned.
    Index(u8),
    /// The region is of another domain.
    Domain,
    /// It may do the other thing only.
    Rights,
    /// The key was invalidated.
    Stale,
    /// The key was invalidated, and its memory taken out.
    Gone,
}

fn wrong() -> impl Strategy<Value = Wrong> {
    prop_oneof![
        Just(Wrong::Nothing),
        Just(Wrong::Before),
        Just(Wrong::Behind),
        Just(Wrong::Wraps),
        Just(Wrong::Tag),
        (0u8..24).prop_map(Wrong::Index),
        Just(Wrong::Domain),
        Just(Wrong::Rights),
        Just(Wrong::Stale),
        Just(Wrong::Gone),
    ]
}

struct Rig {
    pair: Pair,
    qps: [QpId; 2],
    /// A connection of the same two NICs in another domain.
    other: QpId,
}

fn rig(seed: u64) -> Rig {
    let mut pair = Pair::new(seed, |_| {});
    let ask = nvmf_seam::rdma::Ask { pd: Pd(77), ..Pair::ask() };
    let (other, _) = pair.connect(&ask, &Pair::accept()).expect("comes up");
    let (a, b) = pair.connect(&Pair::ask(), &Accept { ..Pair::accept() }).expect("comes up");
    Rig { pair, qps: [a, b], other }
}

impl Rig {
    fn post(&mut self, side: usize, qp: QpId, work: Work) {
        let now = self.pair.now;
        self.pair.nics[side].post(now, qp, work).unwrap();
    }

    fn results(&mut self, side: usize) -> Vec<Result<Done, WorkError>> {
        self.pair.settle();
        let mut out = Vec::new();
        while let Some((_, event)) = self.pair.nics[side].poll_event() {
            if let DeviceEvent::Completed(Completion { result, .. }) = event {
                out.push(result);
            }
        }
        out
    }

    fn register(&mut self, qp: QpId, memory: Memory, access: Access) -> Remote {
        self.post(0, qp, Work::Register { id: WorkId(0), memory, access });
        match self.results(0).pop() {
            Some(Ok(Done::Registered(at))) => at,
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_wrong_by_one_is_refused(
        seed in any::<u64>(),
        len in 1usize..9000,
        (from, to) in (0f64..1.0, 0f64..1.0),
        doing in prop::sample::select(vec![Doing::Read, Doing::Write, Doing::Invalidate]),
        wrong in wrong(),
    ) {
        let mut rig = rig(seed);
        let [a, b] = rig.qps;
        let both = Access { read: true, write: true };
        let access = match (wrong, doing) {
            (Wrong::Rights, Doing::Read) => Access { read: false, write: true },
            (Wrong::Rights, _) => Access { read: true, write: false },
            _ => both,
        };
        // Neighbours that must stay as they are.
        let fill = |n: u8| {
            let mut m = Memory::zeroed(len);
            m.as_mut_slice().unwrap().fill(n);
            m
        };
        let before = rig.register(a, fill(0xb1), both);
        let owner = if wrong == Wrong::Domain { rig.other } else { a };
        let region = rig.register(owner, fill(0x55), access);
        let behind = rig.register(a, fill(0xb2), both);

        // A range within the region, of at least one byte.
        let (x, y) = ((from * len as f64) as usize, (to * len as f64) as usize);
        let (mut start, mut end) = (x.min(y) as u64, x.max(y) as u64 + 1);
        let mut key = region.key;
        match wrong {
            Wrong::Before => start = u64::MAX,
            Wrong::Behind => end = len as u64 + 1,
            Wrong::Wraps => start = u64::MAX - region.addr,
            Wrong::Tag => key = Rkey(key.0 & !0xff | key.0.wrapping_add(1) & 0xff),
            Wrong::Index(bit) => key = Rkey(key.0 ^ 0x100 << bit),
            Wrong::Stale | Wrong::Gone => {
                rig.post(0, a, Work::Receive { id: WorkId(1), len: 4 });
                let head = Head::new(&[1; 4]);
                rig.post(1, b, Work::Send { id: WorkId(2), head, payload: Bytes::new(), invalidate: Some(key) });
                prop_assert!(matches!(rig.results(1)[..], [Ok(Done::Sent)]));
                rig.results(0);
                if wrong == Wrong::Gone {
                    prop_assert!(rig.pair.nics[0].deregister(key).is_some());
                }
            }
            Wrong::Nothing | Wrong::Domain | Wrong::Rights => {}
        }
        let size = end.wrapping_sub(start).clamp(1, 1 << 20) as u32;
        let at = Remote { addr: region.addr.wrapping_add(start), key };
        let foreign = [before.key, behind.key].contains(&key);
        // Bounds and rights do not matter to invalidation.
        let of_range = matches!(wrong, Wrong::Before | Wrong::Behind | Wrong::Wraps | Wrong::Rights);
        let right = wrong == Wrong::Nothing || doing == Doing::Invalidate && (of_range || foreign);
        match doing {
            Doing::Read => rig.post(1, b, Work::Read { id: WorkId(3), from: at, len: size }),
            Doing::Write => rig.post(1, b, Work::Write { id: WorkId(3), to: at, data: vec![0xee; size as usize].into() }),
            Doing::Invalidate => {
                rig.post(0, a, Work::Receive { id: WorkId(4), len: 4 });
                let head = Head::new(&[1; 4]);
                rig.post(1, b, Work::Send { id: WorkId(3), head, payload: Bytes::new(), invalidate: Some(key) });
            }
        }
        let got = rig.results(1);
        let counters = *rig.pair.nics[0].counters();
        if right {
            prop_assert!(matches!(got[..], [Ok(_)]), "{got:?}");
            prop_assert_eq!(counters.nak_access + counters.nak_invalid, 0);
            if let [Ok(Done::Read(data))] = &got[..] {
                prop_assert!(data.len() == size as usize && data.iter().all(|b| *b == 0x55));
            }
        } else {
            prop_assert!(matches!(got[..], [Err(WorkError::RemoteAccess)]), "{got:?}");
            prop_assert_eq!((counters.nak_access, counters.nak_invalid), (1, 0));
        }
        // Nothing was written but where it was allowed, and a key that was refused is as valid as before.
        for (key, fill) in [(before.key, 0xb1), (behind.key, 0xb2), (region.key, 0x55)] {
            let Some(memory) = rig.pair.nics[0].deregister(key) else {
                prop_assert!(key == region.key && wrong == Wrong::Gone);
                continue;
            };
            let written = doing == Doing::Write && right && key == region.key;
            let inside = |i: usize| written && (start..end).contains(&(i as u64));
            let as_it_should = memory.as_slice().iter().enumerate().all(|(i, b)| *b == if inside(i) { 0xee } else { fill });
            prop_assert!(as_it_should);
            prop_assert_eq!(memory.touched(), 0);
        }
    }
}

/// One try of side 1 with READs or WRITEs that this connection does not allow.
fn try_read(reads_allowed: u8) -> (Vec<Result<Done, WorkError>>, u64) {
    let mut pair = Pair::new(5, |_| {});
    let ask = nvmf_seam::rdma::Ask { responder_resources: reads_allowed, ..Pair::ask() };
    let (a, b) = pair.connect(&ask, &Pair::accept()).expect("comes up");
    let mut rig = Rig { pair, qps: [a, b], other: a };
    let at = rig.register(a, Memory::zeroed(4096), Access { read: true, write: true });
    // Side 1 honours what was agreed, so the READ is made by hand.
    let facts = rig.pair.nics[1].facts(b).unwrap();
    use nvmf_wire::roce::{Bth, Reth, RoceOpcode};
    for n in 0..3 {
        let bth = Bth::new().with(|s| {
            s.opcode(RoceOpcode::READ_REQUEST).pkey(0xffff).dqpn(facts.peer_qpn).psn(nvmf_wire::roce::psn_add(facts.psn, n))
        });
        let reth = Reth::new().with(|s| s.va(at.addr).rkey(at.key.0).dmalen(64));
        let bytes = [&bth.as_bytes()[..], reth.as_bytes()].concat().into();
        rig.pair.nics[1].inject(b, nvmf_seam::rdma::RawPacket { bytes, ..Default::default() }).unwrap();
    }
    // All three come before the first is answered.
    while let Some(d) = rig.pair.nics[1].poll_datagram(rig.pair.now) {
        rig.pair.nics[0].handle_parts(rig.pair.now, &d);
    }
    let got = rig.results(0);
    (got, rig.pair.nics[0].counters().nak_invalid)
}

#[test]
fn more_reads_than_agreed_are_an_invalid_request() {
    assert_eq!(try_read(0).1, 1);
    assert_eq!(try_read(2).1, 1);
    assert_eq!(try_read(3).1, 0);
}

#[test]
fn a_requester_has_no_more_reads_out_than_agreed() {
    for allowed in [0u8, 1, 3] {
        let mut pair = Pair::new(6, |_| {});
        let ask = nvmf_seam::rdma::Ask { responder_resources: allowed, ..Pair::ask() };
        let (a, b) = pair.connect(&ask, &Pair::accept()).expect("comes up");
        let mut rig = Rig { pair, qps: [a, b], other: a };
        let at = rig.register(a, Memory::zeroed(4096), Access { read: true, write: true });
        for n in 0..8 {
            rig.post(1, b, Work::Read { id: WorkId(n), from: at, len: 4096 });
        }
        let mut out = 0;
        while rig.pair.nics[1].poll_datagram(rig.pair.now).is_some() {
            out += 1;
        }
        assert_eq!(out, allowed);
    }
}

#[test]
fn immediate_data_and_atomics_are_told_apart() {
    use nvmf_wire::roce::{Bth, RoceOpcode};
    // Opcode, bytes behind the BTH, what side 0 counts: NAK 61h, RNR NAK.
    let cases: [(RoceOpcode, usize, (u64, u64)); 9] = [
        (RoceOpcode::CMP_SWAP, 28, (1, 0)),
        (RoceOpcode::FETCH_ADD, 28, (1, 0)),
        (RoceOpcode(0x15), 0, (1, 0)),
        (RoceOpcode(0x1f), 0, (1, 0)),
        (RoceOpcode::SEND_MIDDLE, 1024, (1, 0)),
        (RoceOpcode::WRITE_LAST, 8, (1, 0)),
        (RoceOpcode::SEND_FIRST, 1020, (1, 0)),
        (RoceOpcode::SEND_ONLY_IMM, 8, (0, 1)),
        (RoceOpcode::WRITE_ONLY_IMM, 20, (0, 1)),
    ];
    for (op, len, expected) in cases {
        let mut rig = rig(8);
        let b = rig.qps[1];
        let facts = rig.pair.nics[1].facts(b).unwrap();
        let bth = Bth::new().with(|s| s.opcode(op).pkey(0xffff).dqpn(facts.peer_qpn).psn(facts.psn).ackreq(true));
        let bytes = [&bth.as_bytes()[..], &vec![0; len]].concat().into();
        rig.pair.nics[1].inject(b, nvmf_seam::rdma::RawPacket { bytes, ..Default::default() }).unwrap();
        rig.pair.settle();
        let c = rig.pair.nics[0].counters();
        assert_eq!((c.nak_invalid, c.rnr_sent), expected, "{op}");
    }
    // Where a buffer waits, immediate data takes it.
    let mut rig = rig(8);
    let [a, b] = rig.qps;
    rig.post(0, a, Work::Receive { id: WorkId(1), len: 16 });
    let facts = rig.pair.nics[1].facts(b).unwrap();
    let bth =
        Bth::new().with(|s| s.opcode(RoceOpcode::SEND_ONLY_IMM).pkey(0xffff).dqpn(facts.peer_qpn).psn(facts.psn).ackreq(true));
    let bytes = [&bth.as_bytes()[..], &[0, 0, 0, 9], b"data"].concat().into();
    rig.pair.nics[1].inject(b, nvmf_seam::rdma::RawPacket { bytes, ..Default::default() }).unwrap();
    assert!(matches!(&rig.results(0)[..], [Ok(Done::Received { data, invalidated: None })] if data == "data"));
}
