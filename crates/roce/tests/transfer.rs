//! Two NICs back to back on a wire that loses nothing: connections, messages of every size, invalidation, the end.

use std::time::Duration;

use bytes::Bytes;
use nvmf_roce::NicSettings;
use nvmf_roce::testing::Pair;
use nvmf_seam::Head;
use nvmf_seam::rdma::{
    Access, CmEvent, Completion, Device, DeviceEvent, Done, Memory, QpId, Remote, Rkey, Work, WorkError, WorkId,
};

const SIZES: [usize; 12] = [0, 1, 3, 64, 255, 256, 257, 1024, 4095, 4097, 65_536, 1_048_576];

fn pattern(len: usize) -> Bytes {
    (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect::<Vec<_>>().into()
}

/// Completions of one side, in order.
fn completions(pair: &mut Pair, side: usize) -> Vec<Completion> {
    let mut out = Vec::new();
    while let Some((_, event)) = pair.nics[side].poll_event() {
        if let DeviceEvent::Completed(c) = event {
            out.push(c);
        }
    }
    out
}

fn up(change: impl Fn(&mut NicSettings)) -> (Pair, QpId, QpId) {
    let mut pair = Pair::new(7, change);
    let (a, b) = pair.connect(&Pair::ask(), &Pair::accept()).expect("comes up");
    (pair, a, b)
}

fn post(pair: &mut Pair, side: usize, qp: QpId, work: Work) {
    let now = pair.now;
    pair.nics[side].post(now, qp, work).expect("is taken");
}

fn register(pair: &mut Pair, side: usize, qp: QpId, memory: Memory, access: Access) -> Remote {
    post(pair, side, qp, Work::Register { id: WorkId(99), memory, access });
    match completions(pair, side).pop().map(|c| c.result) {
        Some(Ok(Done::Registered(remote))) => remote,
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_of_every_size_cross_at_every_path_mtu() {
    for link_mtu in [352, 608, 1500, 2200, 4200, 9000] {
        let (mut pair, a, b) = up(|s| s.link_mtu = link_mtu);
        for (n, size) in SIZES.into_iter().enumerate() {
            let (id, data) = (WorkId(n as u64), pattern(size));
            // SEND, with a head as a capsule has it.
            post(&mut pair, 1, b, Work::Receive { id, len: 64 + size as u32 });
            let (head, payload) = (Head::new(&[0xc4; 64]), data.clone());
            post(&mut pair, 0, a, Work::Send { id, head, payload, invalidate: None });
            pair.settle();
            let got = completions(&mut pair, 1).pop().expect("arrived");
            let Ok(Done::Received { data: all, invalidated: None }) = got.result else { panic!("{:?}", got.result) };
            assert_eq!((got.id, &all[..64], all.len()), (id, &[0xc4; 64][..], 64 + size));
            assert!(all[64..] == data);
            assert!(matches!(completions(&mut pair, 0)[..], [Completion { result: Ok(Done::Sent), .. }]));

            // READ by the other side.
            let access = Access { read: true, write: false };
            let at = register(&mut pair, 0, a, Memory::shared(data.clone()), access);
            post(&mut pair, 1, b, Work::Read { id, from: at, len: size as u32 });
            pair.settle();
            match completions(&mut pair, 1).pop().map(|c| c.result) {
                Some(Ok(Done::Read(got))) => assert!(got == data, "{size}"),
                other => panic!("{size}: {other:?}"),
            }

            // WRITE by the other side.
            let to = register(&mut pair, 0, a, Memory::zeroed(size), Access { read: false, write: true });
            post(&mut pair, 1, b, Work::Write { id, to, data: data.clone() });
            pair.settle();
            assert!(matches!(completions(&mut pair, 1)[..], [Completion { result: Ok(Done::Written), .. }]));
            let memory = pair.nics[0].deregister(to.key).expect("is there");
            assert!(memory.touched() == 0 && memory.as_slice() == &data[..]);
            assert!(pair.nics[0].deregister(to.key).is_none());
        }
        let counters = *pair.nics[0].counters();
        assert_eq!((counters.duplicate, counters.psn_ahead, counters.ghost, counters.timeouts), (0, 0, 0, 0));
    }
}

#[test]
fn work_of_one_queue_is_done_in_order_and_many_at_a_time() {
    let (mut pair, a, b) = up(|s| (s.window, s.ack_every) = (16, 4));
    let to = register(&mut pair, 0, a, Memory::zeroed(1 << 20), Access { read: true, write: true });
    for n in 0..64u64 {
        post(&mut pair, 0, a, Work::Receive { id: WorkId(n), len: 16 });
        let at = Remote { addr: to.addr + n * 16_384, key: to.key };
        post(&mut pair, 1, b, Work::Write { id: WorkId(3 * n), to: at, data: vec![n as u8 + 1; 16_384].into() });
        post(&mut pair, 1, b, Work::Read { id: WorkId(3 * n + 1), from: at, len: 16_384 });
        let head = Head::new(&[n as u8; 16]);
        post(&mut pair, 1, b, Work::Send { id: WorkId(3 * n + 2), head, payload: Bytes::new(), invalidate: None });
    }
    pair.settle();
    let done = completions(&mut pair, 1);
    assert!(done.iter().map(|c| c.id.0).eq(0..192));
    for c in &done {
        if let Ok(Done::Read(data)) = &c.result {
            assert!(data.len() == 16_384 && data.iter().all(|x| u64::from(*x) == c.id.0 / 3 + 1));
        }
    }
    assert!(completions(&mut pair, 0).iter().map(|c| c.id.0).eq(0..64));
}

#[test]
fn a_key_is_invalidated_by_either_side_once() {
    let (mut pair, a, b) = up(|_| {});
    let at = register(&mut pair, 0, a, Memory::zeroed(512), Access { read: true, write: true });
    for n in 0..2 {
        post(&mut pair, 0, a, Work::Receive { id: WorkId(n), len: 16 });
    }
    let send = |key| Work::Send { id: WorkId(1), head: Head::new(&[1; 16]), payload: Bytes::new(), invalidate: Some(key) };
    post(&mut pair, 1, b, send(at.key));
    pair.settle();
    let got = completions(&mut pair, 0);
    assert!(matches!(got[..], [Completion { result: Ok(Done::Received { invalidated: Some(k), .. }), .. }] if k == at.key));
    // The memory comes back by our own invalidation, once.
    for expected in [true, false] {
        post(&mut pair, 0, a, Work::Invalidate { id: WorkId(5), key: at.key });
        match completions(&mut pair, 0).pop().map(|c| c.result) {
            Some(Ok(Done::Invalidated(m))) => assert!(expected && m.len() == 512),
            Some(Err(WorkError::NoSuchKey)) => assert!(!expected),
            other => panic!("{other:?}"),
        }
    }
    let _ = completions(&mut pair, 1);
    // A second SEND with the same key is an access error on both sides.
    post(&mut pair, 1, b, send(at.key));
    pair.settle();
    assert!(matches!(completions(&mut pair, 1)[..], [Completion { result: Err(WorkError::RemoteAccess), .. }]));
    assert!(matches!(completions(&mut pair, 0)[..], [Completion { result: Err(WorkError::Protection), .. }]));
    assert_eq!(pair.nics[0].counters().nak_access, 1);
    post(&mut pair, 0, a, Work::Receive { id: WorkId(9), len: 16 });
    assert!(matches!(completions(&mut pair, 0)[..], [Completion { id: WorkId(9), result: Err(WorkError::Flushed) }]));
}

#[test]
fn memory_whose_invalidation_was_executed_is_not_lost_with_the_connection() {
    let (mut pair, a, _) = up(|_| {});
    let at = register(&mut pair, 0, a, Memory::zeroed(512), Access { read: true, write: true });
    // Behind a SEND that nobody acknowledges yet.
    post(&mut pair, 0, a, Work::Send { id: WorkId(1), head: Head::new(&[1]), payload: Bytes::new(), invalidate: None });
    post(&mut pair, 0, a, Work::Invalidate { id: WorkId(2), key: at.key });
    let now = pair.now;
    assert!(pair.nics[0].poll_datagram(now).is_some() && pair.nics[0].poll_datagram(now).is_none());
    assert!(completions(&mut pair, 0).is_empty() && pair.nics[0].peek(at.key).is_none());
    pair.nics[0].disconnect(now, a);
    let done = completions(&mut pair, 0);
    assert!(matches!(&done[0].result, Err(WorkError::Flushed)));
    assert!(matches!(&done[1].result, Ok(Done::Invalidated(m)) if m.len() == 512));
}

#[test]
fn a_connection_ends_for_both_sides_and_work_is_flushed() {
    let (mut pair, a, b) = up(|_| {});
    post(&mut pair, 0, a, Work::Receive { id: WorkId(1), len: 16 });
    post(&mut pair, 1, b, Work::Receive { id: WorkId(2), len: 16 });
    let now = pair.now;
    pair.nics[0].disconnect(now, a);
    pair.settle();
    for (side, id) in [(0, 1), (1, 2)] {
        let mut seen = (false, false);
        while let Some((_, event)) = pair.nics[side].poll_event() {
            match event {
                DeviceEvent::Completed(Completion { id: WorkId(n), result: Err(WorkError::Flushed) }) => seen.0 |= n == id,
                DeviceEvent::Cm(CmEvent::Disconnected) => seen.1 = true,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(seen, (true, true), "{side}");
    }
    pair.nics[0].destroy(now, a);
    pair.nics[1].destroy(now, b);
    assert!(!pair.run(Duration::from_secs(100), |_| false));
    assert!(pair.now.0 < 1_000_000_000, "nothing waits: {:?}", pair.now);
    assert!(pair.nics[0].post(now, a, Work::Invalidate { id: WorkId(1), key: Rkey(1) }).is_err());
}

#[test]
fn a_request_is_refused_in_the_words_of_the_consumer() {
    let mut pair = Pair::new(9, |_| {});
    pair.nics[1].listen(4420).unwrap();
    let now = pair.now;
    for (port, reason, first) in [(4420, 28, 7), (4421, 8, 0)] {
        let a = pair.nics[0].connect(now, (Pair::ADDRESSES[1], port).into(), &Pair::ask()).unwrap();
        pair.settle();
        while let Some((qp, event)) = pair.nics[1].poll_event() {
            assert!(
                matches!(event, DeviceEvent::Cm(CmEvent::Request(r)) if r.to.port() == 4420 && r.from.ip() == Pair::ADDRESSES[0])
            );
            pair.nics[1].reject(now, qp, &[7, 0, 6, 0]).unwrap();
        }
        pair.settle();
        match pair.nics[0].poll_event() {
            Some((qp, DeviceEvent::Cm(CmEvent::Rejected { reason: r, private }))) => {
                assert_eq!((qp, r, private[0], private.len()), (a, reason, first, 148));
            }
            other => panic!("{other:?}"),
        }
        pair.nics[0].destroy(now, a);
    }
}
