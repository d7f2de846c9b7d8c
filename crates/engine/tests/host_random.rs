//! Whatever a controller sends, a host neither panics nor grows: arbitrary bytes, and PDUs that are nearly right.

mod host_support;

use host_support::{Peer, c2h, icresp, r2t, resp};
use nvmf_engine::host::{Association, Event, HostSettings, HostTcpSettings};
use nvmf_engine::tcp::host::HostEvent;
use nvmf_seam::Instant;
use nvmf_wire::Qid;
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
