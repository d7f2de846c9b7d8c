//! Whatever a controller SENDs, READs, WRITEs and says by CM, in any order: no panic, nothing grows, every command completes once, every
//! region comes back, and the connection goes on or ends by the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::rdma_support::{NS, T0, cqe};
use bytes::Bytes;
use nvmf_engine::host::{Agreed, HostEvent, HostRdmaSettings, Payload, command};
use nvmf_engine::rdma::{Capsule, HostConnection};
use nvmf_seam::Instant;
use nvmf_seam::rdma::{Accepted, CmEvent, Completion, Done, Memory, Remote, Rkey, Work, WorkError, WorkId};
use nvmf_wire::{Cid, Cntlid, Qid};
use proptest::prelude::*;

/// What happens next; numbers choose among what there is.
#[derive(Clone, Debug)]
enum Step {
    Submit {
        kind: u8,
        len: u32,
    },
    /// A response for a command that is out: its CID turned by `cid`, SQHD, status, and which key it invalidates.
    Respond {
        which: usize,
        cid: u16,
        sqhd: u16,
        status: u16,
        key: u8,
    },
    Send(Vec<u8>, Option<u32>),
    /// The device completes its oldest work, well or not.
    Work {
        fail: u8,
    },
    Cm(u8),
    Later(u64),
    Forget,
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..6, 0u32..40_000).prop_map(|(kind, len)| Step::Submit { kind, len }),
        8 => (any::<usize>(), prop_oneof![20 => Just(0u16), 1 => any::<u16>()], any::<u16>(), prop_oneof![Just(0u16), any::<u16>()],
              prop_oneof![20 => 0u8..2, 1 => 2u8..4])
            .prop_map(|(which, cid, sqhd, status, key)| Step::Respond { which, cid, sqhd, status, key }),
        1 => (prop::collection::vec(any::<u8>(), 0..20), any::<Option<u32>>()).prop_map(|(b, k)| Step::Send(b, k)),
        24 => prop_oneof![60 => Just(0u8), 1 => 1u8..9].prop_map(|fail| Step::Work { fail }),
        1 => (0u8..8).prop_map(Step::Cm),
        1 => (0u64..40_000).prop_map(Step::Later),
        1 => Just(Step::Forget),
        1 => Just(Step::Close),
    ]
}

/// A device as small as it can be.
struct World {
    host: HostConnection,
    now: Instant,
    work: Vec<Work>,
    receives: Vec<WorkId>,
    regions: BTreeMap<u32, Memory>,
    /// SENDs that the controller has: CID and key.
    out: Vec<(u16, Option<u32>)>,
    next: u32,
    submitted: BTreeSet<u64>,
    outstanding: BTreeMap<Cid, usize>,
    completed: usize,
    taken: usize,
    violations: usize,
    closed: bool,
    wished: bool,
}

const ENTRIES: u16 = 8;

impl World {
    fn new(wish: bool, descriptor: u32, work: u32) -> Self {
        let settings = HostRdmaSettings { remote_invalidate: wish, descriptor, work, ..HostRdmaSettings::default() };
        let capsule = Capsule { bytes: 64 + 4096, data_at: 0, descriptors: 16, offset: true };
        let host = HostConnection::new(settings, Qid(1), ENTRIES, Cntlid(1), capsule, 32_768, T0);
        let mut w = Self {
            host,
            now: T0,
            work: Vec::new(),
            receives: Vec::new(),
            regions: BTreeMap::new(),
            out: Vec::new(),
            next: 1,
            submitted: BTreeSet::new(),
            outstanding: BTreeMap::new(),
            completed: 0,
            taken: 0,
            violations: 0,
            closed: false,
            wished: wish,
        };
        w.pump();
        let private = Bytes::copy_from_slice(&[0, 0, ENTRIES as u8, 0, 0, 0]);
        w.host.handle_cm(
            CmEvent::Accepted(Accepted { private, responder_resources: 0, initiator_depth: 16, rnr_retry_count: 7 }),
            w.now,
        );
        assert!(matches!(w.host.poll_event(), Some(HostEvent::Ready(Agreed::Rdma(_)))));
        w
    }

    fn pump(&mut self) {
        while let Some(work) = self.host.poll_work(self.now) {
            assert!(self.submitted.insert(work.id().0) || matches!(work, Work::Receive { .. }), "a number twice");
            match work {
                Work::Receive { id, len } => {
                    assert_eq!(len, 16);
                    self.receives.push(id);
                    assert!(self.receives.len() <= usize::from(ENTRIES));
                }
                Work::Read { .. } | Work::Write { .. } => panic!("RDMA-DATA-04"),
                other => self.work.push(other),
            }
        }
        while let Some(key) = self.host.poll_revoke() {
            let memory = self.regions.remove(&key.0);
            self.host.handle_revoked(key, memory);
        }
        while let Some(event) = self.host.poll_event() {
            assert!(!self.closed, "nothing comes after the end: {event:?}");
            match event {
                HostEvent::Completed(c) => {
                    self.completed += 1;
                    let n = self.outstanding.get_mut(&c.cid).expect("a command that was submitted");
                    *n -= 1;
                    if c.status().is_success() {
                        assert!(c.data.len() <= 32_768);
                    }
                }
                HostEvent::Violation(_) => self.violations += 1,
                HostEvent::Close { .. } => {
                    self.closed = true;
                    // The queue pair is destroyed, with what it still had to do.
                    self.work.clear();
                    self.receives.clear();
                }
                _ => {}
            }
        }
        assert!(self.outstanding.values().all(|n| *n <= 1), "a CID twice");
    }

    /// The device does its oldest work.
    fn device(&mut self, fail: u8) {
        if self.work.is_empty() {
            return;
        }
        let work = self.work.remove(0);
        let id = work.id();
        let errors = [
            WorkError::Flushed,
            WorkError::Length,
            WorkError::Protection,
            WorkError::RemoteInvalidRequest,
            WorkError::RemoteAccess,
            WorkError::RetryExceeded,
            WorkError::RnrRetryExceeded,
            WorkError::NoSuchKey,
        ];
        let result = match (errors.get(usize::from(fail).wrapping_sub(1)), work) {
            (Some(e), _) => Err(*e),
            (None, Work::Send { head, payload, .. }) => {
                let capsule = [head.as_slice(), &payload].concat();
                assert!(capsule.len() <= 64 + 4096, "IOCCSZ");
                let key = matches!(capsule[39], 0x4f).then(|| u32::from_le_bytes(capsule[35..39].try_into().unwrap()));
                assert!(self.wished || key.is_none());
                self.out.push((u16::from_le_bytes([capsule[2], capsule[3]]), key));
                Ok(Done::Sent)
            }
            (None, Work::Register { memory, .. }) => {
                self.next += 1;
                self.regions.insert(self.next, memory);
                Ok(Done::Registered(Remote { addr: 0x1000, key: Rkey(self.next) }))
            }
            (None, Work::Invalidate { key, .. }) => self.regions.remove(&key.0).map(Done::Invalidated).ok_or(WorkError::NoSuchKey),
            (None, other) => panic!("{other:?}"),
        };
        self.host.handle_completion(Completion { id, result }, self.now);
    }

    fn send(&mut self, bytes: &[u8], key: Option<u32>) {
        if self.receives.is_empty() {
            return;
        }
        let id = self.receives.remove(0);
        let result = match bytes.len() {
            0..=16 => Ok(Done::Received { data: Bytes::copy_from_slice(bytes), invalidated: key.map(Rkey) }),
            _ => Err(WorkError::Length),
        };
        self.host.handle_completion(Completion { id, result }, self.now);
    }

    fn submit(&mut self, kind: u8, len: u32) {
        let (blocks, bytes) = (len.div_ceil(512).max(1), vec![1; len as usize]);
        let (sqe, payload) = match kind {
            0 => (command::flush(NS), Payload::None),
            1 => (command::write(NS, 0, blocks), Payload::Out(bytes.into())),
            2 => (command::read(NS, 0, blocks), Payload::In(len)),
            3 => (command::write(NS, 0, blocks), Payload::OutOf(Memory::shared(bytes.into()))),
            4 => (command::read(NS, 0, blocks), Payload::Into(Memory::zeroed(len as usize))),
            _ => (command::read(NS, 0, blocks), Payload::Out(bytes.into())),
        };
        let room = self.host.room();
        if let Ok(cid) = self.host.submit(sqe, payload, Some(self.now + Duration::from_secs(30))) {
            assert!(room > 0 && (kind == 0 || len <= 32_768));
            self.taken += 1;
            *self.outstanding.entry(cid).or_default() += 1;
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Submit { kind, len } => self.submit(kind, len),
            Step::Respond { which, cid, sqhd, status, key } => {
                if self.out.is_empty() {
                    return;
                }
                let (of, asked) = self.out.remove(which % self.out.len());
                let key = match key {
                    0 => None,
                    1 => asked,
                    2 => Some(asked.unwrap_or(7) ^ 1),
                    _ => self.regions.keys().next().copied(),
                };
                self.send(&cqe(of ^ cid, sqhd % ENTRIES, 0, status & 0x7fff), key);
            }
            Step::Send(bytes, key) => self.send(&bytes, key),
            Step::Work { fail } => self.device(fail),
            Step::Cm(n) => {
                let event = match n {
                    0 => CmEvent::Disconnected,
                    1 => {
                        // A device that is gone ends nothing any more, and has taken its regions along.
                        self.work.clear();
                        self.receives.clear();
                        self.regions.clear();
                        CmEvent::Removed
                    }
                    2 => CmEvent::Unreachable,
                    3 => CmEvent::Established,
                    _ => CmEvent::Rejected { reason: u16::from(n), private: Bytes::new() },
                };
                self.host.handle_cm(event, self.now);
            }
            Step::Later(ms) => {
                self.now = self.now + Duration::from_millis(ms);
                if self.host.poll_timeout().is_some_and(|t| t <= self.now) {
                    self.host.handle_timeout(self.now);
                }
            }
            Step::Forget => self.host.forget(),
            Step::Close => self.host.close(false),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn a_connection_takes_anything(
        steps in prop::collection::vec(step(), 1..300),
        wish: bool,
        descriptor in prop_oneof![Just(0xff_ffffu32), Just(4096)],
        work in prop_oneof![Just(1u32), Just(3), Just(64)],
    ) {
        let mut w = World::new(wish, descriptor, work);
        for s in steps {
            w.step(s);
            w.pump();
            prop_assert!(w.host.outstanding() < usize::from(ENTRIES));
            prop_assert!(w.work.len() <= work as usize, "the send queue's depth");
        }
        // It ends, and everything comes back.
        w.host.close(false);
        w.pump();
        while !w.work.is_empty() {
            w.device(1);
            w.pump();
        }
        prop_assert!(w.closed && w.host.outstanding() == 0);
        prop_assert_eq!((w.completed, w.outstanding.values().sum::<usize>()), (w.taken, 0));
        prop_assert!(w.regions.is_empty(), "{:?}", w.regions.keys());
        prop_assert!(w.violations <= 64 + 1, "notes are bounded");
    }
}
