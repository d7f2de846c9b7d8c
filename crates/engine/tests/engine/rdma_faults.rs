//! What a controller, its NIC, or the device does wrong or ends, and what the host makes of it.

use std::time::Duration;

use crate::rdma_support::{Bench, NS, Rig, cqe, settings};
use bytes::Bytes;
use nvmf_engine::host::{Event, HostError, HostRdmaSettings, HostSettings, Payload, SubmitError, Waiting, command};
use nvmf_seam::rdma::{Accepted, CmEvent, DeviceError, Memory, QpId, WorkError};
use nvmf_wire::{Qid, Status};

/// The Admin Queue's connection as the test answers its REQ.
fn asked(settings: HostSettings, answer: impl FnOnce(&mut Bench, QpId)) -> Rig {
    let mut r = Rig::new(settings);
    let qp = r.qp(0);
    answer(r.bench(), qp);
    r.turn();
    r
}

#[test]
fn a_reject_is_told_in_words() {
    let rej = |reason, private: &[u8]| {
        let private = Bytes::copy_from_slice(&[private, &[0; 144]].concat());
        let mut r = asked(settings(), |b, qp| b.cm(qp, CmEvent::Rejected { reason, private }));
        let HostError::Open { qid: Qid::ADMIN, why } = r.failure() else { panic!("{:?}", r.events) };
        let why = why.clone();
        r.is_clean();
        why
    };
    assert_eq!(rej(28, &[0, 0, 1, 0]), "the controller refuses the queue: Invalid Private Data Length (STS 01h)");
    assert_eq!(rej(28, &[0, 0, 9, 0]), "the controller refuses the queue: Invalid CNTLID (STS 09h)");
    // Reason 28 alone is CM's word, not the controller's. [field bug RD-03]
    assert_eq!(rej(28, &[0, 0, 0, 0]), "the connection was refused: Consumer defined (REJ reason 28)");
    assert_eq!(rej(28, &[1, 0, 4, 0]), "the connection was refused: Consumer defined (REJ reason 28)");
    assert_eq!(rej(8, &[0, 0, 4, 0]), "the connection was refused: Invalid Service ID (REJ reason 8)");
}

#[test]
fn without_a_rep_there_is_no_connection() {
    for (event, why) in [
        (CmEvent::Unreachable, "no answer to the CM REQ"),
        (CmEvent::Disconnected, "the controller gave up the connection"),
        (CmEvent::Removed, "the RDMA device is gone"),
    ] {
        let mut r = asked(settings(), |b, qp| b.cm(qp, event));
        assert!(matches!(r.failure(), HostError::Open { why: w, .. } if w == why), "{:?}", r.events);
        r.is_clean();
    }
    let mut r = asked(settings(), |_, _| {});
    r.now = r.now + Duration::from_secs(30);
    r.turn();
    assert!(matches!(r.failure(), HostError::TimedOut { waiting: Waiting::Rep, .. }));
    r.is_clean();
    let mut bench = Bench::new();
    bench.refuse = Some(DeviceError::Full("queue pairs"));
    let mut r = Rig::on(bench, settings());
    r.turn();
    assert!(matches!(r.failure(), HostError::Open { why, .. } if why == "the device has no more queue pairs"));
    r.is_clean();
}

/// REP: RECFMT and CRQSIZE 0 without retries end it, all else is noted. [RDMA-CM-04, -05, -09, -18 to -21]
#[test]
fn a_rep_is_judged() {
    type Change = fn(&mut [u8; 196], &mut Accepted);
    let with = |rnr: u8, change: Change| {
        let rdma = Some(HostRdmaSettings { rnr_retry_count: rnr, ..HostRdmaSettings::default() });
        asked(HostSettings { rdma, ..settings() }, |b, qp| b.accept_host(qp, change))
    };
    let fine: [Change; 4] = [|_, _| {}, |p, _| p[2..4].copy_from_slice(&[31, 0]), |p, _| p[2..4].fill(0), |p, _| p[32] = 1];
    for change in fine {
        assert!(with(7, change).violations().is_empty(), "either reading of CRQSIZE, anything below, bytes behind the structure");
    }
    let noted: [(u8, Change, &str); 6] = [
        (7, |p, _| p[4] = 1, "RDMA-CM-18"),
        (7, |p, _| p[2..4].copy_from_slice(&[33, 0]), "RDMA-CM-19"),
        (0, |p, _| p[2..4].copy_from_slice(&[30, 0]), "RDMA-CM-20"),
        (7, |_, a| a.responder_resources = 1, "RDMA-CM-05"),
        (7, |_, a| a.initiator_depth = 17, "RDMA-CM-04"),
        (7, |_, a| a.rnr_retry_count = 6, "RDMA-CM-09"),
    ];
    for (rnr, change, rule) in noted {
        let r = with(rnr, change);
        assert_eq!(r.violations(), [rule]);
        assert!(r.initiator.host(r.id).unwrap().connections().count() == 1, "it goes on");
    }
    let fatal: [(u8, Change, &str); 2] = [(7, |p, _| p[0] = 1, "RDMA-CM-18"), (0, |p, _| p[2..4].fill(0), "RDMA-CM-20")];
    for (rnr, change, rule) in fatal {
        let mut r = with(rnr, change);
        assert!(matches!(r.failure(), HostError::Violation { violation, .. } if violation.requirement.id == rule));
        r.is_clean();
    }
}

/// Without RNR retries no more commands are out than the controller has receives for. [RDMA-CM-21]
#[test]
fn a_small_receive_queue_is_kept_to() {
    let rdma = Some(HostRdmaSettings { rnr_retry_count: 0, ..HostRdmaSettings::default() });
    let mut r = asked(HostSettings { rdma, async_events: 0, ..settings() }, |b, qp| {
        b.accept_host(qp, |p, _| p[2..4].copy_from_slice(&[6, 0]));
    });
    r.run_from(0);
    let qp = r.qp(1);
    r.bench().accept_host(qp, |p, _| p[2..4].copy_from_slice(&[3, 0]));
    r.run_from(1);
    let (id, now) = (r.id, r.now);
    let host = r.initiator.host_mut(id).unwrap();
    assert!(host.is_ready() && host.room(Qid(1)) == 3);
    for _ in 0..3 {
        host.submit(Qid(1), command::flush(NS), Payload::None, now).unwrap();
    }
    assert_eq!(host.submit(Qid(1), command::flush(NS), Payload::None, now), Err(SubmitError::Full));
}

/// One Read of 4 KiB out, as the test answers it.
fn answered(bytes: impl Fn(u16) -> Vec<u8> + 'static) -> Rig {
    let mut r = Rig::ready();
    r.odd = Box::new(move |c, bench| {
        bench.send(c.qp, &bytes(c.cid()), None);
        true
    });
    r.submit(command::read(NS, 0, 8), Payload::In(4096));
    r.run();
    r
}

#[test]
fn responses_that_cannot_be_right_end_the_association() {
    let good = |cid| cqe(cid, 2, 0, 0).to_vec();
    type Bytes = Box<dyn Fn(u16) -> Vec<u8>>;
    let cases: [(&str, Bytes); 5] = [
        ("RDMA-CAPS-04", Box::new(move |c| good(c)[..15].to_vec())),
        ("RDMA-CAPS-04", Box::new(|_| Vec::new())),
        ("RDMA-CAPS-04", Box::new(move |c| [good(c), vec![0]].concat())),
        ("CQE-01", Box::new(move |c| good(c + 1))),
        ("CQE-01", Box::new(move |_| good(0xffff))),
    ];
    for (rule, bytes) in cases {
        let mut r = answered(bytes);
        let HostError::Violation { violation, .. } = r.failure() else { panic!("{:?}", r.events) };
        assert_eq!(violation.requirement.id, rule);
        let done = r.completions().remove(0);
        assert!(done.local == Some(Status::COMMAND_ABORTED_BY_HOST) && done.data.is_empty());
        r.is_clean();
    }
}

#[test]
fn a_second_response_ends_the_association() {
    let mut r = Rig::ready();
    r.odd = Box::new(|c, bench| {
        (0..2).for_each(|_| bench.send(c.qp, &cqe(c.cid(), 2, 0, 0), None));
        true
    });
    r.submit(command::read(NS, 0, 8), Payload::In(4096));
    r.run();
    assert!(matches!(r.failure(), HostError::Violation { violation, .. } if violation.requirement.id == "CQE-01"));
    r.is_clean();
}

/// SQHD behind the tail is noted, as over TCP; the command ends. [FAB-SQFC-14]
#[test]
fn a_wrong_head_is_noted() {
    let mut r = answered(|cid| cqe(cid, 9, 0, 0).to_vec());
    assert!(r.completions().remove(0).status().is_success());
    assert_eq!(r.violations(), ["FAB-SQFC-14"]);
}

#[test]
fn data_of_an_error_is_no_data_and_memory_comes_back() {
    let mut r = Rig::ready();
    r.odd = Box::new(|c, bench| {
        let (addr, _, key, _) = c.descriptors()[0];
        assert!(bench.write(key, addr, &[7; 512]));
        bench.send(c.qp, &cqe(c.cid(), 2, 0, 0x281), Some(key));
        true
    });
    r.submit(command::read(NS, 0, 8), Payload::In(4096));
    r.run();
    let done = r.completions().remove(0);
    assert!(!done.status().is_success() && done.data.is_empty());
    assert!(r.bench().regions.is_empty());
    let (id, now) = (r.id, r.now);
    let host = r.initiator.host_mut(id).unwrap();
    let into = Payload::Into(Memory::shared(Bytes::from_static(&[0; 512])));
    assert_eq!(host.submit(Qid(1), command::read(NS, 0, 1), into, now), Err(SubmitError::ReadOnly));
    assert_eq!(host.submit(Qid(1), command::write(NS, 0, 8), Payload::In(4096), now), Err(SubmitError::Direction));
}

/// A Read and a Write that the controller keeps, with memory of the user's.
fn kept() -> Rig {
    let mut r = Rig::ready();
    r.odd = Box::new(|c, _| c.qid == 1);
    r.submit(command::read(NS, 0, 8), Payload::Into(Memory::zeroed(4096)));
    r.submit(command::write(NS, 0, 64), Payload::OutOf(Memory::shared(Bytes::from(vec![5; 32 << 10]))));
    r.run();
    assert_eq!(r.bench().regions.len(), 2);
    r
}

/// Every way to the end gives back every region, and completes every command once, after nobody reaches its memory any more.
fn ended(mut r: Rig) -> HostError {
    r.turn();
    let done = r.completions();
    assert_eq!(done.len(), 2);
    assert!(done.iter().all(|c| c.local == Some(Status::COMMAND_ABORTED_BY_HOST) && c.memory.is_some()));
    let log = &r.initiator.device().log;
    let (dreq, taken) = (log.iter().position(|l| l == "DREQ"), log.iter().position(|l| l == "DEREGISTER"));
    assert!(dreq < taken, "the connection ends before its keys do");
    let why = r.failure().clone();
    r.is_clean();
    why
}

#[test]
fn the_end_gives_all_memory_back() {
    let mut r = kept();
    let qp = r.qp(1);
    r.bench().disconnect_by_peer(qp);
    assert!(matches!(ended(r), HostError::Lost { qid: Qid(1), .. }));

    let mut r = kept();
    let (qp, id) = (r.qp(0), r.bench().any_receive(0));
    r.bench().complete(qp, id, Err(WorkError::RetryExceeded));
    let HostError::Broken { why, qid: Qid::ADMIN, .. } = ended(r) else { panic!() };
    assert_eq!(why, "the controller's NIC does not answer");

    // The NIC refused what the controller asked of a region: work is flushed, and no reason is given.
    let mut r = kept();
    let (qp, id) = (r.qp(1), r.bench().any_receive(1));
    r.bench().complete(qp, id, Err(WorkError::Flushed));
    assert!(matches!(ended(r), HostError::Broken { why: "the queue pair went to its error state", .. }));

    // The same with a reason behind it: that counts.
    let mut r = kept();
    let (qp, id) = (r.qp(1), r.bench().any_receive(1));
    r.bench().complete(qp, id, Err(WorkError::Flushed));
    r.bench().disconnect_by_peer(qp);
    assert!(matches!(ended(r), HostError::Lost { qid: Qid(1), .. }));

    let mut r = kept();
    r.now = r.now + Duration::from_secs(30);
    // No answer on the Admin Queue either.
    r.odd = Box::new(|_, _| true);
    r.turn();
    r.now = r.now + Duration::from_secs(30);
    assert!(matches!(ended(r), HostError::TimedOut { qid: Qid(1), waiting: Waiting::Command(_), .. }));
}

#[test]
fn a_device_that_is_gone_takes_memory_along() {
    let mut r = kept();
    let qp = r.qp(1);
    r.bench().regions.clear();
    r.bench().cm(qp, CmEvent::Removed);
    r.turn();
    assert_eq!(r.completions().iter().filter(|c| c.memory.is_none()).count(), 2);
    assert!(matches!(r.failure(), HostError::Broken { why: "the RDMA device is gone", .. }));
}

/// A device, or its driver, that never gives memory back does not keep the end from coming.
#[test]
fn the_end_comes_without_the_device() {
    let mut r = Rig::ready();
    r.bench().mute = true;
    r.submit(command::write(NS, 0, 64), Payload::OutOf(Memory::zeroed(32 << 10)));
    r.turn();
    let (id, now) = (r.id, r.now);
    r.initiator.host_mut(id).unwrap().shutdown_abruptly(now);
    r.now = r.now + Duration::from_secs(60);
    r.turn();
    r.now = r.now + Duration::from_secs(60);
    r.turn();
    r.now = r.now + Duration::from_secs(60);
    r.turn();
    let done = r.completions();
    assert!(done.len() == 1 && done[0].memory.is_none() && r.initiator.host(id).unwrap().connections().next().is_none());
}

/// What the device does not take is lost with the connection, and nothing else is.
#[test]
fn work_that_is_not_taken_ends_the_association() {
    for kind in ["REGISTER", "SEND", "INVALIDATE"] {
        let mut r = Rig::ready();
        r.bench().full = Some(kind);
        r.submit(command::write(NS, 0, 64), Payload::OutOf(Memory::zeroed(32 << 10)));
        r.run();
        r.run();
        assert!(matches!(r.failure(), HostError::Broken { why: "the RDMA device takes no more work", .. }), "{kind}");
        let done = r.completions();
        assert_eq!((done.len(), done[0].memory.is_some()), (1, kind != "REGISTER"));
        r.is_clean();
    }
}

/// RD-10: what a queue pair says after its end is no news, and a new one is not disturbed by it.
#[test]
fn late_completions_of_an_old_queue_pair_change_nothing() {
    let mut r = kept();
    let (qp, id) = (r.qp(1), r.bench().any_receive(1));
    r.bench().disconnect_by_peer(qp);
    r.turn();
    let events = r.events.len();
    let data = Bytes::copy_from_slice(&cqe(1, 1, 0, 0));
    r.bench().complete(qp, id, Ok(nvmf_seam::rdma::Done::Received { data, invalidated: None }));
    r.bench().cm(qp, CmEvent::Disconnected);
    r.turn();
    assert_eq!(r.events.len(), events);
    r.odd = Box::new(|_, _| false);
    let now = r.now;
    let id = r.initiator.connect(crate::rdma_support::TARGET.parse().unwrap(), settings(), now);
    r.run();
    assert!(r.initiator.host(id).unwrap().is_ready());
}

/// A controller reset takes commands and keys; an answer that still comes is passed over. [FAB-INIT-13]
#[test]
fn a_reset_takes_keys_back() {
    let mut r = Rig::ready();
    // An Identify on the Admin Queue that is never answered.
    r.odd = Box::new(|c, _| c.qid == 1 || c.opc() == 6);
    let (id, now) = (r.id, r.now);
    let identify = command::identify(nvmf_wire::admin::Cns::CONTROLLER, nvmf_wire::Nsid::NONE);
    r.initiator.host_mut(id).unwrap().submit(Qid::ADMIN, identify, Payload::In(4096), now).unwrap();
    r.submit(command::read(NS, 0, 8), Payload::In(4096));
    r.run();
    let lost = r.seen.iter().rev().find(|c| c.opc() == 6).unwrap().clone();
    assert!(r.completions().is_empty() && r.bench().regions.len() == 2);
    r.odd = Box::new(|_, _| false);
    assert!(r.initiator.host_mut(id).unwrap().reset(now));
    r.events.clear();
    r.run();
    assert_eq!(r.completions().len(), 2);
    assert!(r.bench().regions.is_empty() && r.initiator.host(id).unwrap().is_ready());
    // Late, and not taken for another command's.
    r.respond(&lost, 0, 0);
    r.run();
    assert_eq!(r.violations(), ["FAB-INIT-13"]);
    assert!(r.initiator.host(id).unwrap().is_ready());
}

/// Work requests are held back where the send queue is full, and go on when it is not.
#[test]
fn the_send_queue_is_never_overrun() {
    let mut bench = Bench::new();
    bench.limits.work = 40;
    let mut r = Rig::on(bench, settings());
    r.run();
    r.bench().hold_sends = true;
    let qp = r.qp(1);
    for _ in 0..20 {
        r.submit(command::read(NS, 0, 8), Payload::In(4096));
    }
    let rdma = r.initiator.host(r.id).unwrap().settings().rdma.clone().unwrap();
    assert_eq!(rdma.work, 40);
    for _ in 0..20 {
        r.run();
        assert!(r.bench().qps[&qp].unacknowledged.len() <= 40);
        r.bench().acknowledge(qp);
    }
    r.run();
    assert_eq!(r.completions().len(), 20);
}

#[test]
fn settings_that_no_host_may_have() {
    let fault = |change: &dyn Fn(&mut HostSettings, &mut HostRdmaSettings)| {
        let (mut s, mut rdma) = (settings(), HostRdmaSettings::default());
        change(&mut s, &mut rdma);
        s.rdma = Some(rdma);
        s.fault().is_some()
    };
    assert!(!fault(&|_, _| {}));
    assert!(fault(&|s, _| s.kato_ms = 0), "RDMA-KA-01");
    assert!(!fault(&|s, _| (s.kato_ms, s.discovery) = (0, true)));
    assert!(fault(&|_, r| r.responder_resources = 0));
    assert!(fault(&|_, r| r.descriptor = 1 << 24) && fault(&|_, r| r.descriptor = 0));
    assert!(fault(&|_, r| r.rnr_retry_count = 8) && fault(&|_, r| r.retry_count = 8) && fault(&|_, r| r.work = 0));
    let mut r = Rig::new(HostSettings { kato_ms: 0, ..settings() });
    r.turn();
    assert!(matches!(r.failure(), HostError::Unusable(_)) && matches!(r.events[0], Event::Failed(_)));
}

/// A controller that cannot be reached by keys is of no use. [RDMA-SGL-08]
#[test]
fn keyed_descriptors_are_needed() {
    let mut r = Rig::new(settings());
    r.identify = r.identify.with(|s| s.sgls_keyed(false));
    r.run();
    assert!(matches!(r.failure(), HostError::Unusable(why) if why.contains("keyed")));
    r.is_clean();
}
