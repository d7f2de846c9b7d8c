//! A wire that loses, doubles, overtakes and damages packets: every message arrives once, in order, as it was. Where nothing comes
//! through any more, the right error ends the work.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use nvmf_roce::testing::{Faults, Pair};
use nvmf_seam::rdma::{Access, Completion, Device, DeviceEvent, Done, Memory, QpId, Remote, Work, WorkError, WorkId};
use nvmf_seam::{Entropy, Head, SplitMix64};
use proptest::prelude::*;

/// Bytes that say which message they are of, and where in it.
fn pattern(n: u64, len: usize) -> Bytes {
    let mut rng = SplitMix64::new(n);
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        out.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    out.truncate(len);
    out.into()
}

/// One connection over which side 1 writes, reads and sends, and side 0 sends.
struct Run {
    pair: Pair,
    qps: [QpId; 2],
    region: Remote,
    rng: SplitMix64,
    /// What side 1 has to see, and side 0.
    expected: [VecDeque<(u64, Bytes)>; 2],
    /// What READs have to bring.
    reads: VecDeque<(u64, Bytes)>,
    done: [u64; 2],
}

const LONGEST: usize = 20_000;
const REGION: usize = 100 * LONGEST;

impl Run {
    fn new(seed: u64, link_mtu: u32, first_psn: Option<u32>, faults: Faults) -> Self {
        let mut pair = Pair::new(seed, |s| {
            (s.link_mtu, s.first_psn) = (link_mtu, first_psn);
            s.ack_timeout = 9;
            s.endless_retries = true;
            s.rnr_timer = 2;
            s.cm_timeout = 10;
            s.cm_retries = 15;
            (s.window, s.ack_every) = (24, 5);
        });
        pair.latency = Duration::from_micros(20);
        pair.faults = faults;
        let (a, b) = pair.connect(&Pair::ask(), &Pair::accept()).expect("comes up");
        let now = pair.now;
        let access = Access { read: true, write: true };
        pair.nics[0].post(now, a, Work::Register { id: WorkId(0), memory: Memory::zeroed(REGION), access }).unwrap();
        let region = match pair.nics[0].poll_event() {
            Some((_, DeviceEvent::Completed(Completion { result: Ok(Done::Registered(at)), .. }))) => at,
            other => panic!("{other:?}"),
        };
        let mut run = Self {
            pair,
            qps: [a, b],
            region,
            rng: SplitMix64::new(seed ^ 1),
            expected: Default::default(),
            reads: VecDeque::new(),
            done: [0; 2],
        };
        for side in 0..2 {
            for _ in 0..3 {
                run.post(side, Work::Receive { id: WorkId(7), len: LONGEST as u32 });
            }
        }
        run
    }

    fn post(&mut self, side: usize, work: Work) {
        let now = self.pair.now;
        self.pair.nics[side].post(now, self.qps[side], work).unwrap();
    }

    fn size(&mut self) -> usize {
        match self.rng.below(4) {
            0 => self.rng.below(4) as usize,
            1 => 1024 * self.rng.below(8) as usize,
            _ => self.rng.below(LONGEST as u64) as usize,
        }
    }

    /// A place in the part of the region that belongs to message `i`. A WRITE behind a READ of the same bytes could be seen by it, where
    /// the READ is asked for again: without a fence that is so in InfiniBand. [IBA vol. 1, 10.8.3.3]
    fn at(&mut self, i: u64, len: usize) -> (usize, Remote) {
        let offset = i as usize * LONGEST + self.rng.below((LONGEST - len) as u64 + 1) as usize;
        (offset, Remote { addr: self.region.addr + offset as u64, key: self.region.key })
    }

    /// Gives both sides `n` messages to send.
    fn load(&mut self, n: u64) {
        let mut memory = vec![0u8; REGION];
        for i in 0..n {
            for side in 0..2 {
                let size = self.size();
                let data = pattern(2 * i + side as u64, size);
                let inline = size.min(self.rng.below(120) as usize);
                let head = Head::new(&data[..inline]);
                self.expected[1 - side].push_back((i, data.clone()));
                self.post(side, Work::Send { id: WorkId(i), head, payload: data.slice(inline..), invalidate: None });
            }
            let (len, id) = (self.size(), WorkId(1_000_000 + i));
            let (offset, at) = self.at(i, len);
            let data = pattern(1_000_000 + i, len);
            memory[offset..offset + len].copy_from_slice(&data);
            self.post(1, Work::Write { id, to: at, data });
            let len = self.size();
            let of = self.rng.below(i + 1);
            let (offset, at) = self.at(of, len);
            self.reads.push_back((2_000_000 + i, Bytes::copy_from_slice(&memory[offset..offset + len])));
            self.post(1, Work::Read { id: WorkId(2_000_000 + i), from: at, len: len as u32 });
        }
    }

    /// Takes events; panics at what must not be.
    fn check(&mut self) {
        for side in 0..2 {
            while let Some((_, event)) = self.pair.nics[side].poll_event() {
                let DeviceEvent::Completed(Completion { id, result }) = event else { panic!("{event:?}") };
                match result.unwrap_or_else(|e| panic!("{id:?} of side {side}: {e:?}")) {
                    Done::Received { data, .. } => {
                        let (n, expected) = self.expected[side].pop_front().expect("one that was sent");
                        assert!(data == expected, "message {n} to side {side}: {} for {} bytes", data.len(), expected.len());
                        self.post(side, Work::Receive { id, len: LONGEST as u32 });
                    }
                    Done::Read(data) => {
                        let (n, expected) = self.reads.pop_front().expect("one that was asked for");
                        assert!(id.0 == n && data == expected, "READ {n}");
                    }
                    Done::Sent => {
                        assert_eq!(id.0, self.done[side]);
                        self.done[side] += 1;
                    }
                    Done::Written => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn finish(&mut self, n: u64) {
        let pair_done = |run: &mut Self| {
            run.check();
            run.done == [n; 2] && run.expected.iter().all(VecDeque::is_empty) && run.reads.is_empty()
        };
        let until = self.pair.now + Duration::from_secs(60);
        loop {
            self.pair.settle();
            if pair_done(self) {
                return;
            }
            if !self.pair.settle() {
                let counters = [*self.pair.nics[0].counters(), *self.pair.nics[1].counters()];
                assert!(self.pair.advance() && self.pair.now < until, "stands still: {:?} of {n}, {counters:#?}", self.done);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_arrives_once_in_order_and_whole(
        seed in any::<u64>(),
        link_mtu in prop::sample::select(vec![352u32, 1500, 4200]),
        loss in 0u32..40,
        duplication in 0u32..40,
        reordering in 0u32..60,
        corruption in 0u32..40,
        // Behind a few packets PSNs wrap.
        first_psn in prop::option::of(0xff_ff00u32..0x0100_0000),
    ) {
        let mut run = Run::new(seed, link_mtu, first_psn, Faults { loss, duplication, reordering, corruption });
        run.load(12);
        run.finish(12);
        let c = run.pair.nics[0].counters();
        prop_assert!(c.nak_invalid + c.nak_access + c.nak_operational == 0, "{c:?}");
    }
}

#[test]
fn a_long_transfer_survives_heavy_loss() {
    let mut run = Run::new(3, 4200, Some(0xff_ffff), Faults { loss: 100, duplication: 20, reordering: 100, corruption: 20 });
    run.load(100);
    run.finish(100);
    let c = run.pair.nics[1].counters();
    assert!(c.went_back > 10 && c.timeouts > 0 && c.duplicate > 0 && c.psn_ahead > 0 && c.bad_icrc > 0, "{c:?}");
}

fn up(seed: u64) -> (Pair, QpId, QpId) {
    let mut pair = Pair::new(seed, |s| s.ack_timeout = 10);
    let ask = nvmf_seam::rdma::Ask { retry_count: 3, rnr_retry_count: 2, ..Pair::ask() };
    let (a, b) = pair.connect(&ask, &nvmf_seam::rdma::Accept { rnr_retry_count: 2, ..Pair::accept() }).expect("comes up");
    (pair, a, b)
}

fn send(id: u64) -> Work {
    Work::Send { id: WorkId(id), head: Head::new(&[1; 64]), payload: Bytes::new(), invalidate: None }
}

fn results(pair: &mut Pair, side: usize) -> Vec<(u64, Result<(), WorkError>)> {
    let mut out = Vec::new();
    while let Some((_, event)) = pair.nics[side].poll_event() {
        if let DeviceEvent::Completed(c) = event {
            out.push((c.id.0, c.result.map(|_| ())));
        }
    }
    out
}

#[test]
fn a_peer_that_is_silent_is_asked_as_often_as_the_connection_says() {
    let (mut pair, a, _) = up(1);
    pair.faults.loss = 1000;
    let begin = pair.now;
    for id in 0..2 {
        pair.nics[0].post(begin, a, send(id)).unwrap();
    }
    assert!(!pair.run(Duration::from_secs(60), |_| false));
    assert_eq!(results(&mut pair, 0), [(0, Err(WorkError::RetryExceeded)), (1, Err(WorkError::Flushed))]);
    // Three times again after the first, each after 4.096 us * 2^10.
    assert_eq!(pair.nics[0].counters().timeouts, 4);
    assert_eq!(pair.now.since(begin), Duration::from_nanos(4 * (4096 << 10)));
}

#[test]
fn a_lost_response_to_a_read_is_asked_for_with_what_is_behind_it() {
    use nvmf_wire::roce::{Headers, RoceOpcode, psn_add};
    let (mut pair, a, b) = up(3);
    let data = pattern(1, 10_000);
    let access = Access { read: true, write: false };
    let now = pair.now;
    pair.nics[0].post(now, a, Work::Register { id: WorkId(0), memory: Memory::shared(data.clone()), access }).unwrap();
    let Some((_, DeviceEvent::Completed(Completion { result: Ok(Done::Registered(at)), .. }))) = pair.nics[0].poll_event() else {
        panic!()
    };
    pair.nics[1].post(now, b, Work::Read { id: WorkId(1), from: at, len: 10_000 }).unwrap();
    let request = pair.nics[1].poll_datagram(now).unwrap();
    let first = Headers::read(&request.parts()[0][28..]).unwrap();
    pair.nics[0].handle_parts(now, &request);
    // Ten responses; the fourth is lost.
    let mut n = 0;
    while let Some(d) = pair.nics[0].poll_datagram(now) {
        n += 1;
        if n != 4 {
            pair.nics[1].handle_parts(now, &d);
        }
    }
    assert_eq!(n, 10);
    let again = pair.nics[1].poll_datagram(now).expect("at once, by the gap");
    assert!(pair.nics[1].poll_datagram(now).is_none());
    let h = Headers::read(&again.parts()[0][28..]).unwrap();
    assert_eq!((h.bth.opcode(), h.bth.psn()), (RoceOpcode::READ_REQUEST, psn_add(first.bth.psn(), 3)));
    let reth = h.reth.unwrap();
    assert_eq!((reth.va(), reth.rkey(), reth.dmalen()), (at.addr + 3 * 1024, at.key.0, 10_000 - 3 * 1024));
    pair.nics[0].handle_parts(now, &again);
    pair.settle();
    match pair.nics[1].poll_event() {
        Some((_, DeviceEvent::Completed(Completion { result: Ok(Done::Read(got)), .. }))) => assert!(got == data),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_receiver_that_is_not_ready_is_asked_as_often_as_the_connection_says() {
    let (mut pair, a, b) = up(2);
    let begin = pair.now;
    pair.nics[0].post(begin, a, send(0)).unwrap();
    // A buffer in time is found.
    pair.settle();
    pair.nics[1].post(begin, b, Work::Receive { id: WorkId(9), len: 64 }).unwrap();
    pair.run(Duration::from_millis(100), |_| false);
    assert_eq!(results(&mut pair, 0), [(0, Ok(()))]);
    assert_eq!(results(&mut pair, 1), [(9, Ok(()))]);
    // None is found: twice again after the first, each after 640 us.
    let begin = pair.now;
    pair.nics[0].post(begin, a, send(1)).unwrap();
    pair.run(Duration::from_secs(100), |_| false);
    assert_eq!(results(&mut pair, 0), [(1, Err(WorkError::RnrRetryExceeded))]);
    assert_eq!((pair.nics[0].counters().rnr_received, pair.nics[1].counters().rnr_sent), (4, 4));
    assert_eq!(pair.now.since(begin), Duration::from_micros(2 * 640));
}

#[test]
fn all_timers_of_a_receiver_that_is_not_ready_are_waited_for() {
    const HUNDREDTHS_OF_MS: [u64; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144,
        8192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ];
    for (code, wait) in HUNDREDTHS_OF_MS.into_iter().enumerate() {
        let mut pair = Pair::new(code as u64, |s| s.rnr_timer = code as u8);
        let (a, b) = pair.connect(&Pair::ask(), &Pair::accept()).expect("comes up");
        let begin = pair.now;
        pair.nics[0].post(begin, a, send(0)).unwrap();
        pair.settle();
        pair.nics[1].post(begin, b, Work::Receive { id: WorkId(9), len: 64 }).unwrap();
        assert!(pair.run(Duration::from_secs(1), |p| !results(p, 0).is_empty()), "{code}");
        assert_eq!(pair.now.since(begin), Duration::from_micros(wait * 10), "{code}");
    }
}
