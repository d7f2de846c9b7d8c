//! An association between bring-up and end: controller resets, aborts, fused pairs, queues that come and go, keep alive by traffic,
//! events, and a controller that reports a fatal error.

use std::time::Duration;

use crate::host_support::resp;
use crate::host_support::rig::{Rig, Seen, settings};
use bytes::Bytes;
use nvmf_engine::host::{Event, HostError, HostSettings, Payload, SubmitError, command};
use nvmf_wire::{Cid, Nsid, Opcode, Qid, Sqe, Status, ZeroBased8};

const MS: Duration = Duration::from_millis(1);

fn read() -> (Sqe, Payload) {
    (command::read(Nsid(1), 0, 1), Payload::In(512))
}

fn up(settings: HostSettings, odd: impl FnMut(&Seen) -> Option<Option<(u64, u16)>> + 'static) -> Rig {
    let mut r = Rig::new(settings, odd);
    r.run(MS);
    assert!(r.is_ready(), "{:?}", r.events);
    r
}

fn readies(r: &Rig) -> usize {
    r.events.iter().filter(|e| matches!(e, Event::Ready)).count()
}

fn completed(r: &Rig, qid: Qid, cid: Cid) -> Option<Status> {
    r.events.iter().find_map(|e| match e {
        Event::Completed(q, c) if *q == qid && c.cid == cid => Some(c.status()),
        _ => None,
    })
}

fn is_silent(c: &Seen) -> Option<Option<(u64, u16)>> {
    (c.opc == 2 && c.qid == 1).then_some(None)
}

#[test]
fn a_reset_ends_what_was_out_and_brings_everything_up_again() {
    let mut s = settings();
    (s.io_queues, s.async_events) = (2, 2);
    let mut r = Rig::new(s, is_silent);
    r.identify = r.identify.with(|s| s.aerl(ZeroBased8(3)).oaes_nan(true));
    r.run(MS);
    let (sqe, payload) = read();
    let lost = r.host.submit(Qid(1), sqe, payload, r.now).unwrap();
    r.run(MS);
    let before = r.seen.len();
    assert!(r.host.reset(r.now));
    assert_eq!(r.host.submit(Qid(1), read().0, read().1, r.now), Err(SubmitError::NotReady));
    r.sqhd[1..].fill(0);
    r.run(MS);
    assert_eq!((readies(&r), completed(&r, Qid(1), lost)), (2, Some(Status::COMMAND_ABORTED_BY_HOST)));
    let order: Vec<(u16, u8, u8)> = r.seen[before..].iter().map(|c| (c.qid, c.opc, c.sqe[44] * u8::from(c.opc == 0x7f))).collect();
    assert_eq!(
        order,
        [
            (0, 0x7f, 0x14), // CC.EN 0
            (0, 0x7f, 0x1c),
            (0, 0x7f, 0x14), // CC.EN 1
            (0, 0x7f, 0x1c),
            (0, 0x06, 0),
            (0, 0x0c, 0), // the event requests are new. [FAB-INIT-13, FAB-INIT-14]
            (0, 0x0c, 0),
            (0, 0x09, 0),
            (0, 0x09, 0),
            (1, 0x7f, 31),
            (2, 0x7f, 31),
        ]
    );
    let cc: Vec<u8> = r.seen.iter().filter(|c| c.is_property(0, 0x14)).map(|c| c.sqe[48]).collect();
    assert_eq!(cc, [1, 0, 1]);
    // Requests of before are known no more: what comes for them is passed over, and their identifiers are not in use.
    let old: Vec<u16> =
        r.seen[..before].iter().filter(|c| c.opc == 0x0c).map(|c| u16::from_le_bytes([c.sqe[2], c.sqe[3]])).collect();
    let new: Vec<u16> = r.seen[before..].iter().map(|c| u16::from_le_bytes([c.sqe[2], c.sqe[3]])).collect();
    assert!(old.len() == 2 && old.iter().all(|c| !new.contains(c)), "{old:?} {new:?}");
    r.host.handle_bytes(Qid::ADMIN, &resp(old[0], r.sqhd[0] % 32, Status::INTERNAL_ERROR.0), r.now);
    r.run(MS);
    assert!(!r.host.is_over());
    assert!(r.events.iter().any(|e| matches!(e, Event::Violation(Qid::ADMIN, v) if v.requirement.id == "FAB-INIT-13")));
    // A second time it is an identifier of no command.
    r.host.handle_bytes(Qid::ADMIN, &resp(old[0], r.sqhd[0] % 32, Status::INTERNAL_ERROR.0), r.now);
    r.run(MS);
    assert!(matches!(
        r.events.iter().rev().find(|e| matches!(e, Event::Failed(_))),
        Some(Event::Failed(HostError::Violation { .. }))
    ));
}

#[test]
fn io_connections_that_go_with_a_reset_are_no_loss() {
    // RDY stays 1 for a while.
    let mut left = 3;
    let mut r = up(settings(), |_| None);
    r.odd = Box::new(move |c| {
        (c.is_property(4, 0x1c) && left > 0).then(|| {
            left -= 1;
            Some((1, 0))
        })
    });
    r.host.reset(r.now);
    r.run(MS);
    r.host.handle_closed(Qid(1), false, r.now);
    r.sqhd[1] = 0;
    r.run(Duration::from_secs(1));
    assert_eq!(readies(&r), 2, "{:?}", r.events);
    // The end of the Admin Queue is.
    r.host.reset(r.now);
    r.host.handle_closed(Qid::ADMIN, false, r.now);
    r.run(MS);
    assert!(matches!(r.failure(), HostError::Lost { qid: Qid::ADMIN, .. }));
}

#[test]
fn a_queue_that_a_reset_left_standing_for_a_while_is_asked_for_again() {
    for (refusals, readies_in_the_end) in [(3, 2), (1000, 1)] {
        let mut left = refusals;
        let mut r = up(settings(), |_| None);
        r.odd = Box::new(move |c| {
            (c.qid == 1 && c.opc == 0x7f && left > 0).then(|| {
                left -= 1;
                Some((0, Status::COMMAND_SEQUENCE_ERROR.dnr().0))
            })
        });
        r.host.reset(r.now);
        r.sqhd[1] = 0;
        r.run(Duration::from_secs(5));
        assert_eq!(readies(&r), readies_in_the_end, "{:?}", r.events);
        assert_eq!(r.host.is_over(), readies_in_the_end == 1);
    }
}

#[test]
fn a_reset_that_does_not_end() {
    let mut r = up(settings(), |_| None);
    r.odd = Box::new(|c| c.is_property(4, 0x1c).then_some(Some((1, 0))));
    r.host.reset(r.now);
    r.run(Duration::from_secs(1));
    assert!(matches!(r.failure(), HostError::NotReady));
}

#[test]
fn a_fatal_error_is_answered_with_a_reset_and_a_second_one_with_the_end() {
    let mut r = up(settings(), is_silent);
    let (sqe, payload) = read();
    r.host.submit(Qid(1), sqe, payload, r.now).unwrap();
    // CSTS.CFS until CC.EN goes to 0. [FAB-INIT-25, FAB-INIT-26, RESET-33]
    let mut sick = true;
    r.odd = Box::new(move |c| {
        sick &= !(c.is_property(0, 0x14) && c.sqe[48] & 1 == 0);
        if sick && c.is_property(4, 0x1c) { Some(Some((3, 0))) } else { is_silent(c) }
    });
    r.sqhd[1] = 0;
    r.run(Duration::from_secs(31));
    assert!(r.events.iter().any(|e| matches!(e, Event::Fatal)), "{:?}", r.events);
    assert_eq!(readies(&r), 2);

    r.odd = Box::new(|c| match () {
        () if c.is_property(4, 0x1c) => Some(Some((2, 0))),
        () => is_silent(c),
    });
    let (sqe, payload) = read();
    r.host.submit(Qid(1), sqe, payload, r.now).unwrap();
    r.run(Duration::from_secs(40));
    assert!(matches!(r.failure(), HostError::Fatal));
}

#[test]
fn a_command_without_an_answer_ends_the_association_after_a_look_at_csts() {
    let mut r = up(settings(), is_silent);
    let (sqe, payload) = read();
    r.host.submit(Qid(1), sqe, payload, r.now).unwrap();
    let looks = r.count(|c| c.is_property(4, 0x1c));
    r.run(Duration::from_secs(31));
    assert!(matches!(r.failure(), HostError::TimedOut { qid: Qid(1), .. }));
    assert_eq!(r.count(|c| c.is_property(4, 0x1c)), looks + 1);
    // That connection is reset, the others close. [TCP-TERM-24]
    let closed: Vec<(Qid, bool)> =
        r.events.iter().filter_map(|e| if let Event::Close { qid, reset } = e { Some((*qid, *reset)) } else { None }).collect();
    assert_eq!(closed, [(Qid::ADMIN, false), (Qid(1), true)]);
}

#[test]
fn aborts_name_queue_and_command_and_are_bounded_by_acl() {
    let mut r = Rig::new(settings(), |c| (c.opc == 8 || is_silent(c).is_some()).then_some(None));
    r.identify = r.identify.with(|s| s.acl(ZeroBased8(1)));
    r.run(MS);
    let (sqe, payload) = read();
    let cid = r.host.submit(Qid(1), sqe, payload, r.now).unwrap();
    assert_eq!(r.host.abort(Qid(1), Cid(0x77), r.now), Err(SubmitError::Unknown));
    let one = r.host.abort(Qid(1), cid, r.now).unwrap();
    let two = r.host.abort(Qid(1), cid, r.now).unwrap();
    // ADM-ABORT-05
    assert_eq!(r.host.abort(Qid(1), cid, r.now), Err(SubmitError::Full));
    r.run(MS);
    let aborts: Vec<Vec<u8>> = r.seen.iter().filter(|c| c.opc == 8).map(|c| c.sqe.clone()).collect();
    assert_eq!(aborts.len(), 2);
    for (sqe, own) in aborts.iter().zip([one, two]) {
        // ADM-ABORT-08: CDW10 alone; NSID, the SGL and the other dwords are zero.
        let mut want = [0; 64];
        (want[0], want[1]) = (8, 0x40);
        want[2..4].copy_from_slice(&own.0.to_le_bytes());
        want[40] = 1;
        want[42..44].copy_from_slice(&cid.0.to_le_bytes());
        assert_eq!(sqe[..], want);
    }
    r.host.handle_bytes(Qid::ADMIN, &resp(one.0, r.sqhd[0] % 32, 0), r.now);
    assert!(r.host.abort(Qid(1), cid, r.now).is_ok());
}

#[test]
fn a_fused_pair_goes_out_as_two_neighbours() {
    let mut r = Rig::new(settings(), |_| None);
    let pair = || {
        (
            (command::compare(Nsid(1), 4, 1), Payload::Out(Bytes::from_static(&[7; 512]))),
            (command::write(Nsid(1), 4, 1), Payload::Out(Bytes::from_static(&[8; 512]))),
        )
    };
    r.run(MS);
    let (first, second) = pair();
    assert_eq!(r.host.submit_fused(Qid(1), first, second, r.now), Err(SubmitError::Unsupported));
    let mut r = Rig::new(settings(), |_| None);
    r.identify = r.identify.with(|s| s.fuses(true));
    r.run(MS);
    let (sqe, payload) = read();
    r.host.submit(Qid(1), sqe, payload, r.now).unwrap();
    let (first, second) = pair();
    let (a, b) = r.host.submit_fused(Qid(1), first, second, r.now).unwrap();
    let (sqe, payload) = read();
    r.host.submit(Qid(1), sqe, payload, r.now).unwrap();
    let mut sent = Vec::new();
    while let Some((Qid(1), t)) = r.host.poll_transmit(r.now) {
        let t = t.to_bytes();
        sent.push((t[8], t[9] & 3, u16::from_le_bytes([t[10], t[11]])));
    }
    // FUSE 01b and 10b, nothing between. [NVM-FUSED-02, FAB-TRANS-16]
    assert_eq!(sent[1..3], [(5, 1, a.0), (1, 2, b.0)]);
    assert_eq!((sent.len(), sent[0].0, sent[3].0), (4, 2, 2));
    // Both or none: one place is left of 31.
    for _ in 0..26 {
        let (sqe, payload) = read();
        r.host.submit(Qid(1), sqe, payload, r.now).unwrap();
    }
    let (first, second) = pair();
    assert_eq!((r.host.room(Qid(1)), r.host.submit_fused(Qid(1), first, second, r.now)), (1, Err(SubmitError::Full)));
}

#[test]
fn a_queue_is_deleted_once_idle_and_connected_again() {
    let mut s = settings();
    (s.io_queues, s.queue_deletion) = (2, true);
    let mut r = Rig::new(s, is_silent);
    r.identify = r.identify.with(|s| s.ofcs_disconnect(true));
    r.run(MS);
    // CATTR bit 3 goes with the Admin Queue alone. [FAB-CONNECT-13]
    let cattr: Vec<u8> = r.seen.iter().filter(|c| c.opc == 0x7f && c.fctype == 1).map(|c| c.sqe[46]).collect();
    assert_eq!(cattr, [8, 0, 0]);
    let (sqe, payload) = read();
    let cid = r.host.submit(Qid(1), sqe, payload, r.now).unwrap();
    r.host.delete_queue(Qid(1), r.now).unwrap();
    r.run(MS);
    assert_eq!(r.count(|c| c.fctype == 8 && c.opc == 0x7f), 0, "a command is outstanding");
    assert_eq!(r.host.submit(Qid(1), read().0, read().1, r.now), Err(SubmitError::NotReady));
    r.host.handle_bytes(Qid(1), &resp(cid.0, 2, Status::INTERNAL_ERROR.0), r.now);
    r.run(MS);
    let gone: Vec<&Seen> = r.seen.iter().filter(|c| c.fctype == 8 && c.opc == 0x7f).collect();
    assert_eq!(gone.len(), 1);
    assert!(gone[0].qid == 1 && gone[0].sqe[5..64].iter().all(|b| *b == 0), "no data, the rest reserved. [FAB-DISC-04]");
    assert!(matches!(r.events.last(), Some(Event::QueueDeleted(Qid(1), Some(Status::SUCCESS)))), "{:?}", r.events.last());
    assert!(r.events.iter().any(|e| matches!(e, Event::Close { qid: Qid(1), reset: false })));
    assert_eq!(r.host.io_queues().collect::<Vec<_>>(), [Qid(2)]);
    r.sqhd[1] = 0;
    r.host.create_queue(Qid(1)).unwrap();
    r.run(MS);
    assert!(matches!(r.events.last(), Some(Event::QueueCreated(Qid(1)))));
    // The loss of one is none of the association. [FAB-DISC-20]
    r.host.handle_closed(Qid(2), true, r.now);
    r.run(MS);
    assert!(matches!(r.events.last(), Some(Event::QueueDeleted(Qid(2), None))) && !r.host.is_over());
    // A refusal leaves the queue.
    r.odd = Box::new(|c| (c.fctype == 8 && c.opc == 0x7f).then_some(Some((0, Status::CONTROLLER_BUSY.0))));
    r.host.delete_queue(Qid(1), r.now).unwrap();
    r.run(MS);
    assert!(matches!(r.events.last(), Some(Event::QueueDeleted(Qid(1), Some(Status::CONTROLLER_BUSY)))));
    assert!(r.host.submit(Qid(1), read().0, read().1, r.now).is_ok());
    assert_eq!(r.host.delete_queue(Qid::ADMIN, r.now), Err(SubmitError::Unsupported));
}

#[test]
fn a_queue_is_not_deleted_where_it_was_not_agreed_on() {
    let mut r = Rig::new(settings(), |_| None);
    r.identify = r.identify.with(|s| s.ofcs_disconnect(true));
    r.run(MS);
    assert_eq!(r.host.delete_queue(Qid(1), r.now), Err(SubmitError::Unsupported));
    r.host.handle_closed(Qid(1), false, r.now);
    r.run(MS);
    assert!(matches!(r.failure(), HostError::Lost { qid: Qid(1), .. }));
}

#[test]
fn keep_alive_goes_by_granularity_and_by_traffic() {
    let keep_alives = |kas: u16, tbkas: bool, kato_ms: u32, traffic: bool| {
        let mut s = settings();
        s.kato_ms = kato_ms;
        let mut r = Rig::new(s, |_| None);
        r.identify = r.identify.with(|s| s.kas(kas).ctratt_tbkas(tbkas));
        r.run(MS);
        for _ in 0..100 {
            if traffic {
                r.host.submit(Qid(1), command::flush(Nsid(1)), Payload::None, r.now).unwrap();
            }
            r.run(Duration::from_millis(100));
        }
        assert!(!r.host.is_over());
        (r.count(|c| c.opc == 0x18), r.host.facts().kato_ms)
    };
    // 10 s at half of 2 s; a KATO of 1 ms is raised to the granularity of 5 s. [KA-13, KA-17]
    assert_eq!(keep_alives(1, false, 2000, true), (10, 2000));
    assert_eq!(keep_alives(50, false, 1, true), (4, 5000));
    assert_eq!(keep_alives(10, false, 1500, true), (13, 2000));
    // Other commands do as well where the controller says so. [KA-15, KA-16, ADM-KA-12]
    assert_eq!(keep_alives(1, true, 2000, true), (0, 2000));
    assert_eq!(keep_alives(1, true, 2000, false), (10, 2000));
}

/// A controller that answers every request for an event at once with the same one.
#[test]
fn events_that_are_not_masked_come_to_an_end() {
    let mut s = settings();
    s.async_events = 2;
    let mut r = Rig::new(s, |c| (c.opc == 0x0c).then_some(Some((0x0002_0101, 0))));
    r.identify = r.identify.with(|s| s.aerl(ZeroBased8(7)));
    r.run(Duration::from_secs(1));
    let told = r.events.iter().filter(|e| matches!(e, Event::AsyncEvent(_))).count();
    let notes = r.events.iter().filter(|e| matches!(e, Event::Violation(_, v) if v.requirement.id == "ADM-AER-06")).count();
    assert_eq!((told, notes, r.count(|c| c.opc == 0x0c), r.host.event_requests()), (3, 2, 3, 0));
    // Reading the page with RAE 1 changes nothing, with RAE 0 the requests come back.
    r.odd = Box::new(|_| None);
    for (retain, requests) in [(true, 0), (false, 2)] {
        r.host
            .submit(Qid::ADMIN, command::get_log_page(nvmf_wire::admin::LogPage::SMART, 0, 512, retain), Payload::In(512), r.now)
            .unwrap();
        assert_eq!(r.host.event_requests(), requests);
        r.run(MS);
    }
    let (sqe, payload) =
        command::clear_event(nvmf_wire::cqe::AsyncEventResponse::from_bytes([1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]))
            .unwrap();
    // SMART with NSID FFFFFFFFh, RAE 0. [ADM-LOG-27]
    assert_eq!((sqe.opc(), sqe.nsid(), sqe.as_bytes()[40..42].to_vec()), (Opcode::GET_LOG_PAGE, Nsid::BROADCAST, vec![2, 0]));
    assert!(matches!(payload, Payload::In(512)));
}

#[test]
fn mdts_and_the_offset_of_descriptors_are_kept_to() {
    let mut s = settings();
    s.max_transfer = 1 << 20;
    let mut r = Rig::new(s, |_| None);
    // CAP.MPSMIN is 0 here: 2 pages of 4096 bytes.
    r.identify = r.identify.with(|s| s.mdts(1).ioccsz(4 + 64).sgls_offset(false));
    r.run(MS);
    let write = |n: u32| (command::write(Nsid(1), 0, n), Payload::Out(vec![0; n as usize * 512].into()));
    for (n, right) in [(1, true), (16, true), (17, false)] {
        let (sqe, payload) = write(n);
        let got = r.host.submit(Qid(1), sqe, payload, r.now);
        assert_eq!(got.is_ok(), right, "{got:?}");
    }
    assert_eq!(
        r.host.submit(Qid::ADMIN, command::get_log_page(nvmf_wire::admin::LogPage::ERROR, 0, 8196, true), Payload::In(8196), r.now),
        Err(SubmitError::TooLarge)
    );
    // Without offsets no data goes in the capsule of an I/O command.
    while let Some((_, t)) = r.host.poll_transmit(r.now) {
        let t = t.to_bytes();
        assert_eq!((t.len(), t[8 + 39]), (72, 0x5a));
    }
}

#[test]
fn settings_that_no_host_may_have() {
    let changes: [fn(&mut HostSettings); 8] = [
        |s| s.hostid = [0; 16],
        |s| s.hostnqn = "n".repeat(224),
        |s| s.subnqn.clear(),
        |s| s.hostnqn = "nqn.2014-08.org.example:a\0b".into(),
        |s| s.admin_entries = 3,
        |s| s.admin_entries = 4097,
        |s| s.io_entries = 1,
        |s| s.tcp.hpda = 32,
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let mut s = settings();
        change(&mut s);
        let mut r = Rig::new(s, |_| None);
        r.run(MS);
        assert!(matches!(r.failure(), HostError::Unusable(_)), "{n}");
        assert!(r.seen.is_empty());
    }
}

#[test]
fn a_controller_with_a_name_of_its_own_that_turns_out_to_be_for_discovery() {
    let mut s = settings();
    s.io_queues = 4;
    let mut r = Rig::new(s, |_| None);
    r.identify = r.identify.with(|s| s.cntrltype(nvmf_wire::identify::ControllerType::DISCOVERY).sgls_support(0));
    r.run(MS);
    assert!(r.is_ready());
    assert_eq!((r.host.facts().io_queues, r.count(|c| c.qid > 0), r.count(|c| c.opc == 9 && c.sqe[40] == 7)), (0, 0, 0));
}

#[test]
fn what_the_responses_of_connect_may_not_say() {
    for cntlid in [0xfff0u64, 0xffff] {
        let mut r = Rig::new(settings(), move |c| (c.fctype == 1 && c.opc == 0x7f).then_some(Some((cntlid, 0))));
        r.run(MS);
        assert!(matches!(r.failure(), HostError::Unusable(_)), "{cntlid:#x}");
    }
    let mut r = Rig::new(settings(), |c| (c.fctype == 1 && c.opc == 0x7f).then_some(Some((5 + u64::from(c.qid), 0))));
    r.run(MS);
    assert!(matches!(r.failure(), HostError::Unusable(_)));
}

#[test]
fn retry_delays_are_asked_for_where_there_are_any() {
    let mut r = Rig::new(settings(), |_| None);
    r.identify = r.identify.with(|s| s.crdt1(5));
    r.run(MS);
    let asked: Vec<&Seen> = r.seen.iter().filter(|c| c.opc == 9 && c.sqe[40] == 0x16).collect();
    assert_eq!((asked.len(), r.host.facts().retry_delays, r.is_ready()), (1, true, true));
    // 512 bytes in the capsule.
    assert_eq!((asked[0].sqe[32..36].to_vec(), asked[0].sqe[39]), (512u32.to_le_bytes().to_vec(), 1));
    let mut r = Rig::new(settings(), |c| (c.opc == 9 && c.sqe[40] == 0x16).then_some(Some((0, 2))));
    r.identify = r.identify.with(|s| s.crdt1(5));
    r.run(MS);
    assert!(r.is_ready() && !r.host.facts().retry_delays);
}

#[test]
fn an_abrupt_shutdown_waits_for_nothing() {
    let mut r = up(settings(), is_silent);
    let (sqe, payload) = read();
    r.host.submit(Qid(1), sqe, payload, r.now).unwrap();
    r.run(MS);
    r.odd = Box::new(|c| c.is_property(4, 0x1c).then_some(Some((1 | 8, 0))));
    r.host.shutdown_abruptly(r.now);
    r.run(MS);
    let cc = r.seen.iter().rev().find(|c| c.is_property(0, 0x14)).unwrap();
    assert_eq!(cc.sqe[48..52], [1, 0x80, 0x46, 0], "SHN 10b");
    assert!(matches!(r.events.last(), Some(Event::Ended)));
}
