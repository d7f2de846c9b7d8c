//! Whatever a controller sends, a host neither panics nor grows: arbitrary bytes, and PDUs that are nearly right.

use std::time::Duration;

use crate::host_support::rig::{Rig, settings};
use crate::host_support::{Peer, c2h, icresp, r2t, resp};
use bytes::Bytes;
use nvmf_engine::host::{Association, Event, HostEvent, HostSettings, HostTcpSettings, Payload, command};
use nvmf_seam::Instant;
use nvmf_wire::{Cid, Nsid, Qid, ZeroBased8};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// PDUs as a controller sends them, with small numbers, so that many of them fit what the host expects.
fn nearly_right() -> impl Strategy<Value = Vec<u8>> {
    let cid = 0u16..6;
    prop_oneof![
        (cid.clone(), 0u16..40, prop_oneof![Just(0u16), any::<u16>()]).prop_map(|(c, h, s)| resp(c, h, s & 0x7fff)),
        (cid.clone(), 0u32..5, 1u32..5, any::<u16>()).prop_map(|(c, o, l, t)| r2t(c, t, o * 1024, l * 1024)),
        (cid, 0u8..16, 0u32..5, 0usize..3).prop_map(|(c, f, o, l)| c2h(f & 0x0c, c, o * 1024, &vec![7; l * 1024])),
    ]
}

/// The same with a byte changed now and then.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let pdu =
        (nearly_right(), prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>()))).prop_map(|(mut b, change)| {
            if let Some((at, to)) = change {
                let at = at.index(b.len().min(32));
                b[at] = to;
            }
            b
        });
    prop::collection::vec(pdu, 0..40).prop_map(|v| v.concat())
}

/// Feeds `bytes` in pieces of `step` with reads and writes outstanding; what comes out has to stay within the limits.
fn play(bytes: &[u8], step: usize, r2ts: u16) {
    let mut p = Peer::ready_with(HostTcpSettings { r2ts, ..HostTcpSettings::default() }, &icresp(0, 0, 1024));
    for _ in 0..3 {
        p.read(4096);
        p.write(4096);
    }
    let (mut sent, mut completed, mut noted, mut closed) = (0, 0, 0, false);
    for chunk in bytes.chunks(step) {
        p.give(chunk);
        sent += p.sent().iter().map(Vec::len).sum::<usize>();
        for e in p.events() {
            assert!(!closed, "nothing comes after Close: {e:?}");
            match e {
                HostEvent::Completed(c) => {
                    assert!(c.data.len() <= 4096);
                    completed += 1;
                }
                HostEvent::Violation(_) => noted += 1,
                HostEvent::Close { .. } => closed = true,
                _ => {}
            }
        }
    }
    assert_eq!(completed + p.host.outstanding(), 6);
    // Three writes of 4096 bytes in pieces of 1024 at most, with their heads, and one terminate request.
    assert!(sent <= 3 * (4096 + 4 * 1024 / 4 * 28) + 152, "{sent}");
    assert!(noted <= 65);
    // Whatever state it is in, it comes to an end by itself or waits for the controller.
    if let Some(at) = p.host.poll_timeout() {
        p.now = at;
        p.host.handle_timeout(at);
    }
}

/// What happens to an association that is up: by the controller, by its user, or by time.
#[derive(Clone, Debug)]
enum Act {
    Bytes(u16, Vec<u8>),
    Close(u16, bool),
    Read(u16),
    Fused,
    Abort(u16),
    Reset,
    Delete(u16),
    Create(u16),
    Shutdown(bool),
    Time(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let qid = 0u16..3;
    prop_oneof![
        6 => (qid.clone(), nearly_right()).prop_map(|(q, b)| Act::Bytes(q, b)),
        1 => (qid.clone(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(q, b)| Act::Bytes(q, b)),
        1 => (qid.clone(), any::<bool>()).prop_map(|(q, r)| Act::Close(q, r)),
        4 => qid.clone().prop_map(Act::Read),
        1 => Just(Act::Fused),
        2 => (0u16..12).prop_map(Act::Abort),
        2 => Just(Act::Reset),
        1 => qid.clone().prop_map(Act::Delete),
        1 => qid.prop_map(Act::Create),
        1 => any::<bool>().prop_map(Act::Shutdown),
        2 => (0u64..40_000).prop_map(Act::Time),
    ]
}

/// Plays the acts on a controller that answers all but reads; every command of the user's ends once, and all comes to an end.
fn live(acts: Vec<Act>, deletes: bool) {
    let mut s = settings();
    (s.io_queues, s.queue_deletion, s.async_events) = (2, deletes, 3);
    let mut r = Rig::new(s, |c| (c.opc == 2 && c.sqe[40] != 0x70).then_some(None));
    r.identify = r.identify.with(|s| s.aerl(ZeroBased8(3)).ofcs_disconnect(true).fuses(true));
    r.run(Duration::from_millis(1));
    assert!(r.is_ready());
    let (mut submitted, mut failed) = (0, 0);
    for act in acts {
        let now = r.now;
        match act {
            Act::Bytes(q, b) => r.host.handle_bytes(Qid(q), &b, now),
            Act::Close(q, reset) => r.host.handle_closed(Qid(q), reset, now),
            Act::Read(q) => {
                let sqe = if q == 0 {
                    command::get_log_page(nvmf_wire::admin::LogPage::SMART, 0, 512, true)
                } else {
                    command::read(Nsid(1), 0, 1)
                };
                submitted += usize::from(r.host.submit(Qid(q), sqe, Payload::In(512), now).is_ok());
            }
            Act::Fused => {
                let half = |sqe| (sqe, Payload::Out(Bytes::from_static(&[3; 512])));
                let (first, second) = (half(command::compare(Nsid(1), 0, 1)), half(command::write(Nsid(1), 0, 1)));
                submitted += 2 * usize::from(r.host.submit_fused(Qid(1), first, second, now).is_ok());
            }
            Act::Abort(cid) => submitted += usize::from(r.host.abort(Qid(1 + cid % 2), Cid(cid), now).is_ok()),
            Act::Reset => {
                r.host.reset(now);
            }
            Act::Delete(q) => drop(r.host.delete_queue(Qid(q), now)),
            Act::Create(q) => drop(r.host.create_queue(Qid(q))),
            Act::Shutdown(true) => r.host.shutdown(now),
            Act::Shutdown(false) => r.host.shutdown_abruptly(now),
            Act::Time(ms) => r.run(Duration::from_millis(ms)),
        }
        r.run(Duration::from_millis(1));
        assert!(r.host.connections().count() <= 3);
    }
    for q in 0..3 {
        r.host.handle_closed(Qid(q), false, r.now);
    }
    r.run(Duration::from_secs(60));
    let ended = r.events.iter().filter(|e| matches!(e, Event::Completed(..))).count();
    failed += r.events.iter().filter(|e| matches!(e, Event::Failed(_) | Event::Ended)).count();
    assert_eq!((ended, failed, r.host.poll_timeout()), (submitted, 1, None), "{:?}", r.events);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600), step in 1usize..64) {
        play(&bytes, step, 1);
    }

    #[test]
    fn pdus_that_are_nearly_right(bytes in stream(), step in prop_oneof![Just(1usize), 2usize..64, Just(4096)], r2ts in 1u16..4) {
        play(&bytes, step, r2ts);
    }

    /// Segments change nothing about what a stream of bytes means, but for when answers were sent in between.
    #[test]
    fn segments_do_not_matter(pdus in prop::collection::vec(nearly_right(), 0..20), step in 1usize..64) {
        let run = |step: usize| {
            let bytes = pdus.concat();
            let mut p = Peer::ready_with(HostTcpSettings { r2ts: 8, ..HostTcpSettings::default() }, &icresp(0, 0, 1024));
            p.read(4096);
            p.write(4096);
            p.read(4096);
            bytes.chunks(step).for_each(|c| p.give(c));
            let seen: Vec<String> = p.events().iter().map(|e| match e {
                HostEvent::Completed(c) => format!("{:?} {:?} {:?}", c.cid, c.status(), c.data.to_bytes()),
                e => format!("{e:?}"),
            }).collect();
            (seen, p.sent())
        };
        prop_assert_eq!(run(step), run(usize::MAX));
    }

    #[test]
    fn an_association_that_is_up_takes_anything(acts in prop::collection::vec(act(), 0..40), deletes in any::<bool>()) {
        live(acts, deletes);
    }

    #[test]
    fn an_association_takes_anything(
        steps in prop::collection::vec((0u16..3, prop::option::of(prop::collection::vec(any::<u8>(), 0..200)), any::<bool>()), 0..30),
        connected in any::<bool>(),
    ) {
        let mut a = Association::new(HostSettings::new("nqn.2014-08.org.example:host", [1; 16], "nqn.2014-08.org.example:subsystem"));
        let mut now = Instant(0);
        a.handle_opened(Qid::ADMIN, now);
        if connected {
            a.handle_bytes(Qid::ADMIN, &icresp(0, 0, 4096), now);
            while a.poll_transmit(now).is_some() {}
            a.handle_bytes(Qid::ADMIN, &resp(0, 1, 0), now);
        }
        let mut failed = 0;
        for (qid, bytes, open) in steps {
            let qid = Qid(qid);
            match bytes {
                Some(b) => a.handle_bytes(qid, &b, now),
                None if open => a.handle_opened(qid, now),
                None => a.handle_closed(qid, open, now),
            }
            while a.poll_transmit(now).is_some() {}
            while let Some(e) = a.poll_event() {
                failed += u32::from(matches!(e, Event::Failed(_)));
            }
            if let Some(t) = a.poll_timeout() {
                now = now.max(t);
                a.handle_timeout(now);
            }
        }
        prop_assert!(failed <= 1);
        // Left alone, everything ends.
        for _ in 0..50 {
            while a.poll_transmit(now).is_some() {}
            match a.poll_timeout() {
                Some(t) => { now = now.max(t); a.handle_timeout(now); }
                None => break,
            }
        }
        prop_assert!(a.poll_timeout().is_none());
    }
}
