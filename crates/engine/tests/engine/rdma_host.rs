//! The host over RDMA: bring-up, data both ways, keys, order of events, the end.

use crate::rdma_support::{NS, Rig, cqe, settings};
use bytes::Bytes;
use nvmf_engine::host::{Event, HostError, HostRdmaSettings, HostSettings, Payload, SubmitError, command};
use nvmf_seam::rdma::{Memory, Place};
use nvmf_wire::Qid;

fn pattern(len: usize) -> Bytes {
    (0..len).map(|i| (i / 4 % 251) as u8).collect()
}

#[test]
fn it_connects_identifies_writes_and_reads() {
    let mut r = Rig::ready();
    let asks: Vec<_> = r.bench().qps.values().map(|q| q.ask.clone().unwrap()).collect();
    // RECFMT, QID, HRQSIZE (a count), HSQSIZE (0's based), CNTLID. [RDMA-CM-10 to RDMA-CM-16]
    assert_eq!(asks[0].private[..10], [0, 0, 0, 0, 32, 0, 31, 0, 0, 0]);
    assert_eq!(asks[1].private[..10], [0, 0, 1, 0, 32, 0, 31, 0, 5, 0]);
    for ask in &asks {
        assert_eq!((ask.private.len(), &ask.private[10..], ask.initiator_depth), (32, &[0; 22][..], 0));
        assert!(ask.responder_resources > 0 && ask.rnr_retry_count == 7 && ask.retry_count == 7);
    }
    // Every capsule so far was 64 bytes, with one keyed descriptor. [RDMA-CAPS-01, RDMA-CAPS-02, RDMA-SGL-05]
    assert!(r.seen.iter().all(|s| s.capsule.len() == 64 && matches!(s.sgl(), 0x40 | 0x4f)));
    assert_eq!(r.seen[0].descriptor(24).1, 1024, "the Connect's data is fetched");

    let data = pattern(64 << 10);
    r.submit(command::write(NS, 8, 128), Payload::Out(data.clone()));
    r.run();
    assert!(r.completions().remove(0).status().is_success());
    r.submit(command::read(NS, 8, 128), Payload::In(64 << 10));
    r.run();
    let read = r.completions().remove(0);
    assert!(read.status().is_success() && read.data.to_bytes() == data && read.data.pieces().len() == 1);
    assert!(r.violations().is_empty() && r.bench().regions.is_empty());
    let (id, now) = (r.id, r.now);
    assert_eq!(r.initiator.host(id).unwrap().touched(), 0, "nothing was copied");
    r.initiator.host_mut(id).unwrap().shutdown(now);
    r.run();
    assert!(matches!(r.events.last(), Some(Event::Ended)), "{:?}", r.events);
    r.is_clean();
}

/// RD-08: the response can be seen before the NIC says that the SEND is done; nothing is given back before both.
#[test]
fn a_response_before_the_sends_completion_completes_nothing() {
    let mut r = Rig::ready();
    r.bench().hold_sends = true;
    r.submit(command::write(NS, 0, 64), Payload::Out(pattern(32 << 10)));
    r.run();
    assert!(r.completions().is_empty() && r.bench().regions.len() == 1, "the buffer may still be on the wire");
    assert_eq!(r.store[..32 << 10], pattern(32 << 10), "though the controller answered");
    let qp = r.qp(1);
    r.bench().acknowledge(qp);
    r.turn();
    assert!(r.completions().remove(0).status().is_success() && r.bench().regions.is_empty());
}

/// RD-07: remote invalidation is asked for by 4Fh, believed where it happened, and else done here. [RDMA-SGL-10, RDMA-KEY-09, -10]
#[test]
fn a_key_is_gone_whoever_invalidated_it() {
    for (wish, honoured) in [(true, true), (true, false), (false, false)] {
        let rdma = Some(HostRdmaSettings { remote_invalidate: wish, ..HostRdmaSettings::default() });
        let mut r = Rig::ready_with(HostSettings { rdma, ..settings() });
        r.invalidates = honoured;
        r.submit(command::read(NS, 0, 16), Payload::In(8192));
        r.run();
        assert!(r.completions().remove(0).status().is_success());
        let read = r.seen.last().unwrap();
        assert_eq!(read.sgl(), if wish { 0x4f } else { 0x40 });
        assert_eq!(r.initiator.device().log.last().map(String::as_str), Some("INVALIDATE"));
        assert!(r.bench().regions.is_empty() && r.violations().is_empty());
    }
    // A device that does not take invalidation is never asked to.
    let mut bench = crate::rdma_support::Bench::new();
    bench.limits.takes_invalidate = false;
    let mut r = Rig::on(bench, settings());
    r.run();
    assert!(r.seen.iter().all(|s| s.sgl() == 0x40));
}

/// Answers a Read with SEND with Invalidate of a key that the test makes of the right one.
fn invalidating(wish: bool, key: impl Fn(u32) -> u32 + 'static) -> Rig {
    let rdma = Some(HostRdmaSettings { remote_invalidate: wish, ..HostRdmaSettings::default() });
    let mut r = Rig::ready_with(HostSettings { rdma, ..settings() });
    r.odd = Box::new(move |c, bench| {
        let known = c.qid == 1 && c.opc() == 2;
        if known {
            bench.send(c.qp, &cqe(c.cid(), 2, 0, 0), Some(key(c.descriptors()[0].2)));
        }
        known
    });
    r.submit(command::read(NS, 0, 16), Payload::In(8192));
    r.run();
    r
}

#[test]
fn a_foreign_key_ends_the_association() {
    for wish in [true, false] {
        let mut r = invalidating(wish, |key| key ^ 0x100);
        let rule = if wish { "RDMA-KEY-07" } else { "RDMA-KEY-08" };
        let HostError::Violation { violation, qid, .. } = r.failure() else { panic!("{:?}", r.events) };
        assert_eq!((violation.requirement.id, *qid), (rule, Qid(1)));
        assert!(!r.completions().remove(0).status().is_success());
        r.is_clean();
    }
    // Its own key, unasked: the data moved, so that nothing is lost.
    let mut r = invalidating(false, |key| key);
    assert!(r.completions().remove(0).status().is_success());
    assert_eq!(r.violations(), ["RDMA-KEY-08"]);
}

#[test]
fn a_key_invalidated_where_none_was_named_ends_the_association() {
    let mut r = Rig::ready();
    r.odd = Box::new(|c, bench| {
        bench.send(c.qp, &cqe(c.cid(), 2, 0, 0), Some(0x1234));
        true
    });
    r.submit(command::flush(NS), Payload::None);
    r.run();
    assert!(matches!(r.failure(), HostError::Violation { violation, .. } if violation.requirement.id == "RDMA-KEY-08"));
    r.is_clean();
}

/// RD-01, SGL-13: lengths of more than 24 bits are spread over descriptors, or refused; never cut.
#[test]
fn sixteen_mebibytes_have_two_descriptors_or_are_refused() {
    for (len, count) in [(0xff_fe00, 1), (1 << 24, 2), ((32 << 20) + 4096, 3)] {
        let mut r = Rig::ready_with(HostSettings { max_transfer: 64 << 20, ..settings() });
        let data = pattern(len);
        r.submit(command::write(NS, 0, (len / 512) as u32), Payload::Out(data.clone()));
        r.odd = Box::new(move |c, _| {
            assert_eq!((c.qid, c.descriptors().len()), (1, count));
            let sum: usize = c.descriptors().iter().map(|d| d.1).sum();
            assert_eq!((sum, c.capsule.len()), (len, if count == 1 { 64 } else { 64 + 16 * count }));
            // One key for all, and the wish at the last: only that one can be invalidated. [RDMA-KEY-03, RDMA-KEY-07]
            let kinds: Vec<u8> = c.descriptors().iter().map(|d| d.3).collect();
            assert!(kinds[..count - 1].iter().all(|k| *k == 0x40) && kinds[count - 1] == 0x4f);
            true
        });
        r.run();
        let c = r.seen.last().unwrap().clone();
        let got: Vec<u8> = c.descriptors().iter().flat_map(|(at, n, key, _)| r.bench().read(*key, *at, *n).unwrap()).collect();
        assert!(got == data);
        r.respond(&c, 0, 0);
        r.run();
        assert!(r.completions().remove(0).status().is_success());
    }
}

/// RD-05: MSDBD and IOCCSZ bound the descriptors; with ICDOFF they have to fit before it. [SQE-22, SGL-22]
#[test]
fn descriptors_keep_to_msdbd_and_to_the_capsule() {
    // MSDBD (0: no limit), IOCCSZ, ICDOFF, SGLS bit 20: descriptors that a command may have.
    let cases = [(16, 260, 0, true, 16), (16, 5, 0, true, 1), (16, 4, 0, true, 1), (2, 260, 0, true, 2), (0, 260, 0, true, 256)];
    for (msdbd, ioccsz, icdoff, offset, most) in cases.into_iter().chain([(16, 260, 3, true, 3), (16, 260, 0, false, 1)]) {
        let rdma = Some(HostRdmaSettings { descriptor: 4096, ..HostRdmaSettings::default() });
        // Not in the capsule, whatever fits there.
        let mut r = Rig::new(HostSettings { rdma, ..settings() });
        r.identify = r.identify.with(|s| s.msdbd(msdbd).ioccsz(ioccsz).icdoff(icdoff).sgls_offset(offset));
        r.run();
        let (id, now) = (r.id, r.now);
        let mut read = |blocks: usize| {
            let host = r.initiator.host_mut(id).unwrap();
            host.submit(Qid(1), command::read(NS, 0, blocks as u32 * 8), Payload::In(blocks as u32 * 4096), now)
        };
        assert_eq!(read(most + 1).err(), Some(SubmitError::TooLarge), "{msdbd} {ioccsz} {icdoff} {offset}");
        read(most).expect("as many as there may be");
        r.run();
        assert_eq!(r.seen.last().unwrap().descriptors().len(), most);
        assert!(r.completions().remove(0).status().is_success());
        // Of admin and Fabrics commands there is one, always. [RDMA-SGL-05]
        assert!(r.seen.iter().filter(|s| s.qid == 0).all(|s| s.capsule.len() == 64));
    }
}

/// Data in the capsule: as much as fits behind ICDOFF, of I/O commands alone. [RDMA-CAPS-03, SQE-25]
#[test]
fn small_writes_go_in_the_capsule() {
    // IOCCSZ, ICDOFF, bytes, whether they fit.
    let cases = [(260, 0, 4096, true), (260, 0, 4608, false), (260, 2, 3584, true), (260, 2, 4096, false), (260, 7, 512, false)];
    for (ioccsz, icdoff, len, inline) in cases {
        let mut r = Rig::new(settings());
        r.identify = r.identify.with(|s| s.ioccsz(ioccsz).icdoff(icdoff));
        r.run();
        assert!(r.seen.iter().all(|s| s.sgl() != 1), "Connect goes by key");
        let data = pattern(len);
        r.submit(command::write(NS, 3, (len / 512) as u32), Payload::Out(data.clone()));
        r.run();
        assert!(r.completions().remove(0).status().is_success());
        let c = r.seen.last().unwrap();
        let at = usize::from(icdoff) * 16;
        assert_eq!((c.sgl(), c.capsule.len()), if inline { (1, 64 + at + len) } else { (0x4f, 64) }, "{ioccsz} {icdoff} {len}");
        assert!(c.capsule[64..].iter().take(at).all(|b| *b == 0) && r.store[1536..1536 + len] == data);
    }
    // Linux's way for the Connect of an I/O queue.
    let rdma = Some(HostRdmaSettings { connect_in_capsule: true, ..HostRdmaSettings::default() });
    let r = Rig::ready_with(HostSettings { rdma, ..settings() });
    let connects: Vec<_> = r.seen.iter().filter(|s| s.opc() == 0x7f && s.fctype() == 1).map(|s| s.capsule.len()).collect();
    assert_eq!(connects, [64, 64 + 1024]);
}

/// Memory of the user's, wherever it is, goes to the controller and comes back without a byte of it touched.
#[test]
fn memory_comes_back_untouched() {
    for place in [Place::Host, Place::Gpu] {
        let mut r = Rig::ready();
        let data = pattern(4 << 20);
        let memory = Memory::shared(data.clone()).at(place);
        r.submit(command::write(NS, 0, 8192), Payload::OutOf(memory));
        r.run();
        let back = r.completions().remove(0).memory.expect("the memory");
        assert!((back.place(), back.touched(), back.as_slice() == data) == (place, 0, true));
        r.submit(command::read(NS, 0, 8192), Payload::Into(Memory::zeroed(4 << 20).at(place)));
        r.run();
        let back = r.completions().remove(0).memory.expect("the memory");
        assert!((back.place(), back.touched(), back.as_slice() == data) == (place, 0, true));
        // Small data of the host's own rides in the capsule, where it is copied; a GPU's never does.
        r.submit(command::write(NS, 0, 1), Payload::OutOf(Memory::zeroed(512).at(place)));
        r.run();
        let copied = if place == Place::Host { 512 } else { 0 };
        assert_eq!(r.completions().remove(0).memory.expect("the memory").touched(), copied);
        let id = r.id;
        assert_eq!(r.initiator.host(id).unwrap().touched(), copied);
    }
}

#[test]
fn a_bounce_is_counted() {
    let mut r = Rig::ready();
    r.bench().bounce = true;
    let before = r.initiator.host(r.id).unwrap().touched();
    r.submit(command::write(NS, 0, 8192), Payload::Out(pattern(4 << 20)));
    r.submit(command::read(NS, 0, 16), Payload::In(8192));
    r.run();
    assert_eq!(r.completions().len(), 2);
    assert_eq!(r.initiator.host(r.id).unwrap().touched() - before, (4 << 20) + 8192);
}

/// One checkpoint write of 4 MiB: one capsule, READs with the key that it names, one response, no byte touched.
#[test]
fn a_checkpoint_write_is_one_capsule_and_touches_nothing() {
    let mut r = Rig::ready();
    let from = r.initiator.device().log.len();
    r.odd = Box::new(|c, bench| {
        let (addr, len, key, _) = c.descriptors()[0];
        assert_eq!((len, c.capsule.len()), (4 << 20, 64));
        for n in 0..32 {
            bench.read(key, addr + n * (128 << 10), 128 << 10).expect("within the region");
        }
        assert!(bench.read(key, addr + 1, len).is_none() && bench.read(key + 1, addr, 1).is_none(), "and no byte beyond");
        bench.log.truncate(bench.log.len() - 2);
        bench.send(c.qp, &cqe(c.cid(), 2, 0, 0), Some(key));
        true
    });
    r.submit(command::write(NS, 0, 8192), Payload::Out(pattern(4 << 20)));
    r.run();
    assert!(r.completions().remove(0).status().is_success());
    let log = &r.initiator.device().log[from..];
    assert_eq!((log[0].as_str(), log[1].as_str(), log[34].as_str(), log.len()), ("REGISTER", "SEND", "INVALIDATE", 35));
    assert!(log[2..34].iter().all(|l| l == "READ 131072"));
    assert_eq!(r.initiator.host(r.id).unwrap().touched(), 0);
}

/// Halves of a fused pair stay together, though the first has memory to be registered and the second has not. [FAB-TRANS-03]
#[test]
fn capsules_go_in_the_order_of_submission() {
    let mut r = Rig::new(settings());
    r.identify = r.identify.with(|s| s.fuses(true));
    r.run();
    let (id, now) = (r.id, r.now);
    let seen = r.seen.len();
    let host = r.initiator.host_mut(id).unwrap();
    host.submit(Qid(1), command::read(NS, 0, 64), Payload::In(32 << 10), now).unwrap();
    let write = (command::write(NS, 0, 1), Payload::Out(pattern(512)));
    host.submit_fused(Qid(1), (command::compare(NS, 0, 1), Payload::OutOf(Memory::zeroed(512).at(Place::Gpu))), write, now)
        .unwrap();
    host.submit(Qid(1), command::flush(NS), Payload::None, now).unwrap();
    r.run();
    let order: Vec<(u8, u8)> = r.seen[seen..].iter().map(|s| (s.opc(), s.capsule[1] & 3)).collect();
    assert_eq!(order, [(2, 0), (5, 1), (1, 2), (0, 0)]);
}
