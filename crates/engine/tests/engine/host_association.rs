//! Bring-up, discovery and the end against controllers that are slow, odd or broken: a controller of a few lines that answers each
//! command with what the test says.

use std::time::Duration;

use crate::host_support::resp;
use crate::host_support::rig::{Rig, Seen, settings};
use bytes::Bytes;
use nvmf_engine::host::{
    Association, Completion, Data, DiscoveryError, Event, HostError, LogReader, Payload, SubmitError, Waiting, command,
};
use nvmf_seam::Instant;
use nvmf_wire::admin::LogPage;
use nvmf_wire::log::{DiscoveryEntry, DiscoveryHeader};
use nvmf_wire::{Cid, Cqe, Nsid, Qid, Status};

/// Offset, length and RAE of a request for a part of the log.
type Asked = (u64, u32, bool);

#[test]
fn bring_up_in_order() {
    let mut s = settings();
    s.io_queues = 3;
    let mut r = Rig::new(s, |_| None);
    r.run(Duration::from_millis(1));
    assert!(r.is_ready());
    let names: Vec<(u16, u8, u8, u8)> =
        r.seen.iter().map(|c| (c.qid, c.opc, c.fctype * u8::from(c.opc == 0x7f), c.sqe[44])).collect();
    assert_eq!(
        names,
        [
            (0, 0x7f, 1, 31),   // Connect, SQSIZE 31
            (0, 0x7f, 4, 0),    // CAP
            (0, 0x7f, 4, 8),    // VS
            (0, 0x7f, 4, 0x1c), // CSTS
            (0, 0x7f, 0, 0x14), // CC
            (0, 0x7f, 4, 0x1c), // CSTS
            (0, 0x06, 0, 0),    // Identify
            (0, 0x0c, 0, 0),    // Asynchronous Event Request
            (0, 0x09, 0, 2),    // Number of Queues: 3 wanted
            (1, 0x7f, 1, 31),   // I/O queues: 2 granted, 32 entries by MQES
            (2, 0x7f, 1, 31),
        ]
    );
    // CC: EN, CSS 0, MPS 0, IOSQES 6, IOCQES 4. [FAB-INIT-02, RESET-15]
    assert_eq!(r.seen[4].sqe[48..56], [1, 0, 0x46, 0, 0, 0, 0, 0]);
    // KATO goes with the Admin Queue only. [FAB-CONNECT-14]
    assert_eq!((r.seen[0].sqe[48..52].to_vec(), r.seen[9].sqe[48..52].to_vec()), (120_000u32.to_le_bytes().to_vec(), vec![0; 4]));
    assert_eq!((r.host.facts().cntlid.0, r.host.facts().io_queues, r.host.facts().io_entries), (5, 2, 32));
}

#[test]
fn a_controller_that_is_enabled_already_is_reset_first() {
    let mut r = Rig::new(settings(), |_| None);
    r.enabled = true;
    r.run(Duration::from_millis(1));
    assert!(r.is_ready());
    let cc: Vec<u8> = r.seen.iter().filter(|c| c.is_property(0, 0x14)).map(|c| c.sqe[48]).collect();
    assert_eq!(cc, [0, 1], "EN goes from 0 to 1 only while RDY is 0");
}

#[test]
fn readiness_is_waited_for_as_long_as_cap_to_says() {
    // CAP.TO is 1: 500 ms.
    let never = |c: &Seen| c.is_property(4, 0x1c).then_some(Some((0, 0)));
    let mut r = Rig::new(settings(), never);
    r.run(Duration::from_millis(450));
    assert!(!r.host.is_over());
    r.run(Duration::from_millis(200));
    assert!(matches!(r.failure(), HostError::NotReady));
    assert_eq!(r.count(|c| c.is_property(4, 0x1c)), 7);
    // CRTO counts where it is longer: CAP.CRMS bit 0, CRWMT 3.
    let slow = |c: &Seen| match () {
        () if c.is_property(4, 0) => Some(Some((1 << 59 | 0x20_0100_001f, 0))),
        () if c.is_property(4, 0x68) => Some(Some((3, 0))),
        () if c.is_property(4, 0x1c) => Some(Some((0, 0))),
        () => None,
    };
    let mut r = Rig::new(settings(), slow);
    r.run(Duration::from_millis(1450));
    assert!(!r.host.is_over());
    r.run(Duration::from_millis(200));
    assert!(matches!(r.failure(), HostError::NotReady));
}

#[test]
fn what_bring_up_cannot_work_with() {
    let mut r = Rig::new(settings(), |c: &Seen| c.is_property(4, 0x1c).then_some(Some((2, 0))));
    r.run(Duration::from_secs(1));
    assert!(matches!(r.failure(), HostError::Fatal));

    let mut r = Rig::new(settings(), |c: &Seen| (c.fctype == 1).then_some(Some((0x2_0000 | 5, 0))));
    r.run(Duration::from_secs(1));
    assert!(matches!(r.failure(), HostError::AuthenticationRequired));

    let mut r = Rig::new(settings(), |c: &Seen| (c.opc == 6).then_some(Some((0, 2))));
    r.run(Duration::from_secs(1));
    assert!(matches!(r.failure(), HostError::Command { status, .. } if *status == Status::INVALID_FIELD_IN_COMMAND));

    let mut r = Rig::new(settings(), |_| None);
    r.identify = r.identify.with(|s| s.icdoff(1));
    r.run(Duration::from_secs(1));
    assert!(matches!(r.failure(), HostError::Unusable(_)));

    let mut r = Rig::new(settings(), |c: &Seen| (c.qid == 1).then_some(Some((44, 0x182))));
    r.run(Duration::from_secs(1));
    let why = r.failure().to_string();
    assert!(why.contains("queue 1") && why.contains("1/82h") && why.contains("IPO 44 in the SQE"), "{why}");

    let mut r = Rig::new(settings(), |c: &Seen| (c.opc == 6).then_some(None));
    r.run(Duration::from_secs(29));
    assert!(!r.host.is_over());
    r.run(Duration::from_secs(2));
    let why = r.failure();
    assert!(matches!(why, HostError::TimedOut { waiting: Waiting::Command(_), during: "Identify Controller", .. }), "{why:?}");
}

#[test]
fn a_connection_that_cannot_be_opened() {
    let mut a = Association::new(settings());
    assert!(matches!(a.poll_event(), Some(Event::Open(Qid::ADMIN))));
    a.handle_open_failed(Qid::ADMIN, "refused".into(), Instant(0));
    assert!(matches!(a.poll_event(), Some(Event::Failed(HostError::Open { qid: Qid::ADMIN, .. }))));
    // One that arrives too late is closed again.
    a.handle_opened(Qid::ADMIN, Instant(0));
    assert!(matches!(a.poll_event(), Some(Event::Close { qid: Qid::ADMIN, .. })));
}

#[test]
fn a_controller_that_does_not_read_is_reset() {
    let mut r = Rig::new(settings(), |_| None);
    r.run(Duration::from_millis(1));
    r.host.handle_stalled(Qid(1), r.now);
    r.run(Duration::from_millis(1));
    assert!(matches!(r.failure(), HostError::Stalled { qid: Qid(1) }));
    // TCP-TERM-24: what cannot be sent is followed by a reset; the other connection ends in order.
    let closed: Vec<(u16, bool)> = r
        .events
        .iter()
        .filter_map(|e| match e {
            Event::Close { qid, reset } => Some((qid.0, *reset)),
            _ => None,
        })
        .collect();
    assert_eq!(closed, [(0, false), (1, true)]);
}

#[test]
fn keep_alive_at_half_of_kato() {
    let mut s = settings();
    s.kato_ms = 5000;
    let mut r = Rig::new(s, |_| None);
    r.run(Duration::from_millis(1));
    r.run(Duration::from_secs(24));
    assert_eq!(r.count(|c| c.opc == 0x18), 9);
    // An answer that does not come ends the association.
    r.odd = Box::new(|c| (c.opc == 0x18).then_some(None));
    r.run(Duration::from_secs(10));
    assert!(matches!(r.failure(), HostError::TimedOut { .. }));
}

#[test]
fn events_are_asked_for_again_but_not_after_a_refusal() {
    let mut s = settings();
    s.async_events = 9;
    let mut first = true;
    let mut r = Rig::new(s, move |c| (c.opc == 0x0c && std::mem::take(&mut first)).then_some(Some((0x0004_0002, 0))));
    r.identify = r.identify.with(|s| s.aerl(nvmf_wire::ZeroBased8(2)).oaes_nan(true));
    r.run(Duration::from_secs(1));
    let told: Vec<_> = r.events.iter().filter(|e| matches!(e, Event::AsyncEvent(_))).collect();
    assert_eq!(told.len(), 1);
    // AERL + 1 are outstanding, and one more was sent for the one that was answered. [ADM-AER-03]
    assert_eq!(r.count(|c| c.opc == 0x0c), 3 + 1);
    // The event was asked for by Asynchronous Event Configuration.
    assert_eq!(r.count(|c| c.opc == 9 && c.sqe[40] == 0x0b && c.sqe[45] == 1), 1);

    let mut r = Rig::new(settings(), |c| (c.opc == 0x0c).then_some(Some((0, 0x105))));
    r.run(Duration::from_secs(1));
    assert!(r.is_ready() && r.count(|c| c.opc == 0x0c) == 1);
}

#[test]
fn shutdown_lets_commands_finish_and_waits_for_shst() {
    let mut r = Rig::new(settings(), |c| (c.qid == 1 && c.opc == 2).then_some(None));
    r.run(Duration::from_millis(1));
    let cid = r.host.submit(Qid(1), command::read(Nsid(1), 0, 1), Payload::In(512), r.now).unwrap();
    r.run(Duration::from_millis(1));
    r.host.shutdown(r.now);
    r.run(Duration::from_millis(1));
    assert_eq!(r.count(|c| c.is_property(0, 0x14)), 1, "no CC.SHN while a command is outstanding");
    assert_eq!(r.host.submit(Qid(1), command::read(Nsid(1), 0, 1), Payload::In(512), r.now), Err(SubmitError::NotReady));
    r.host.handle_bytes(Qid(1), &resp(cid.0, 2, Status::INTERNAL_ERROR.0), r.now);
    r.run(Duration::from_millis(1));
    let cc = r.seen.iter().rev().find(|c| c.is_property(0, 0x14)).unwrap();
    assert_eq!(cc.sqe[48..52], [1, 0x40, 0x46, 0], "SHN 01b, the rest as it was");
    // The Admin Queue goes last.
    let order: Vec<u16> = r
        .events
        .iter()
        .filter_map(|e| match e {
            Event::Close { qid, reset: false } => Some(qid.0),
            _ => None,
        })
        .collect();
    assert_eq!(order, [1, 0]);
    assert!(matches!(r.events.last(), Some(Event::Ended)));

    // A controller that never says that it is done.
    let mut r = Rig::new(settings(), |_| None);
    r.run(Duration::from_millis(1));
    r.odd = Box::new(|c| c.is_property(4, 0x1c).then_some(Some((1 | 4, 0))));
    r.host.shutdown(r.now);
    r.run(Duration::from_secs(11));
    assert!(matches!(r.failure(), HostError::NoShutdown));
}

#[test]
fn two_places_of_the_admin_queue_are_kept_for_the_association_itself() {
    let mut s = settings();
    (s.kato_ms, s.async_events) = (1000, 0);
    let mut r = Rig::new(s, |c| (c.opc == 2).then_some(None));
    r.run(Duration::from_millis(1));
    let mut n = 0;
    while r.host.submit(Qid::ADMIN, command::get_log_page(LogPage::SMART, 0, 512, false), Payload::In(512), r.now).is_ok() {
        n += 1;
    }
    assert_eq!(n, 29);
    r.run(Duration::from_millis(600));
    assert_eq!(r.count(|c| c.opc == 0x18), 1);
}

fn answer(data: &[u8]) -> Completion {
    Completion { cid: Cid(0), cqe: Cqe::new(), local: None, data: Data::from(Bytes::copy_from_slice(data)), memory: None }
}

fn header(genctr: u64, numrec: u64) -> Vec<u8> {
    DiscoveryHeader::new().with(|s| s.genctr(genctr).numrec(numrec)).as_bytes().to_vec()
}

/// A log of `entries` whose generation at each read of a header is the next of `generations`.
fn read_log(offsets: bool, entries: usize, generations: &[u64]) -> (Result<usize, DiscoveryError>, Vec<Asked>) {
    let page: Vec<u8> = (0..entries).flat_map(|n| *DiscoveryEntry::new().with(|s| s.portid(n as u16)).as_bytes()).collect();
    let (mut reader, mut asked, mut n) = (LogReader::new(offsets), Vec::new(), 0);
    loop {
        let (sqe, payload) = reader.request();
        let b = sqe.as_bytes();
        let (lpo, rae) = (u64::from_le_bytes(b[48..56].try_into().unwrap()), b[41] & 0x80 != 0);
        let Payload::In(len) = payload else { panic!("{payload:?}") };
        assert_eq!((b[0], b[40], u32::from_le_bytes(b[42..46].try_into().unwrap())), (2, 0x70, len / 4 - 1));
        asked.push((lpo, len, rae));
        let whole = [header(generations[n.min(generations.len() - 1)], entries as u64), page.clone()].concat();
        n += usize::from(lpo == 0);
        match reader.handle(&answer(&whole[lpo as usize..lpo as usize + len as usize])) {
            Ok(None) => {}
            Ok(Some(log)) => {
                assert!(log.entries.iter().enumerate().all(|(n, e)| usize::from(e.portid()) == n));
                return (Ok(log.entries.len()), asked);
            }
            Err(e) => return (Err(e), asked),
        }
    }
}

#[test]
fn a_discovery_log_is_read_in_parts_and_checked() {
    let (got, asked) = read_log(true, 9, &[3]);
    assert_eq!(got, Ok(9));
    // Only the last read lets the event go. Offsets rise. [DISC-LOG-02]
    let want = [(0, 1024, true), (1024, 4096, true), (5120, 4096, true), (9216, 1024, true), (0, 1024, false)];
    assert_eq!(asked, want);
    assert_eq!(read_log(true, 0, &[3]).0, Ok(0));
    let (got, asked) = read_log(false, 3, &[3, 3, 3]);
    assert_eq!((got, asked.as_slice()), (Ok(3), &[(0, 1024, true), (0, 4096, true), (0, 1024, false)][..]));
}

#[test]
fn a_log_that_changes_is_read_again_but_not_for_ever() {
    // Changed during the first read, then quiet.
    assert_eq!(read_log(true, 2, &[1, 2, 2, 2]).0, Ok(2));
    let always: Vec<u64> = (0..100).collect();
    assert_eq!(read_log(true, 2, &always).0, Err(DiscoveryError::Changing { reads: 8 }));
    // Discover Restart counts as a change. [DISC-LOG-04]
    let mut reader = LogReader::new(true);
    for _ in 1..8 {
        let restart = Completion { cqe: Cqe::of(Cid(0), Status::DISCOVER_RESTART, 0), ..answer(&[]) };
        assert!(matches!(reader.handle(&restart), Ok(None)));
    }
    let restart = Completion { cqe: Cqe::of(Cid(0), Status::DISCOVER_RESTART, 0), ..answer(&[]) };
    assert_eq!(reader.handle(&restart).err(), Some(DiscoveryError::Changing { reads: 8 }));
}

#[test]
fn what_a_discovery_log_may_not_be() {
    let start = |data: &[u8]| LogReader::new(true).handle(&answer(data)).err();
    assert_eq!(start(&header(1, 4097)), Some(DiscoveryError::TooMany(4097)));
    assert_eq!(start(&header(1, u64::MAX)), Some(DiscoveryError::TooMany(u64::MAX)));
    assert!(start(&[0; 100]).is_some());
    let odd = DiscoveryHeader::new().with(|s| s.recfmt(1));
    assert_eq!(start(odd.as_bytes()), Some(DiscoveryError::Format(1)));
    // Entries that do not come.
    let mut reader = LogReader::new(true);
    reader.handle(&answer(&header(1, 2))).unwrap();
    assert!(reader.handle(&answer(&[0; 1000])).is_err());
}
