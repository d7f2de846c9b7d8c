//! Our host and our controller over two software NICs back to back: both transports' ends meet, and a wire between them loses packets.

use std::time::Duration;

use crate::common::SUBNQN;
use crate::rdma_world::{NS, World, pattern, settings};
use bytes::Bytes;
use nvmf_engine::host::{
    DISCOVERY_NQN, DiscoveryLog, Event, HostError, HostRdmaSettings, HostSettings, LogReader, Payload, command,
};
use nvmf_engine::{RdmaCapsules, RdmaSettings};
use nvmf_roce::testing::{Faults, Pair};
use nvmf_roce::{Nic, NicSettings};
use nvmf_seam::rdma::{Memory, Place, Rkey};
use nvmf_wire::Qid;

#[test]
fn bring_up_data_both_ways_reset_and_shutdown() {
    let mut w = World::plain();
    let id = w.ready(settings());
    let facts = w.initiator.host(id).unwrap().facts();
    assert!(facts.io_queues == 2 && facts.negotiated.values().all(|a| a.rdma().is_some_and(|g| g.reads > 0)));
    for (qid, len) in [(1, 512), (2, 4096), (1, 8192), (2, 64 << 10), (1, 1 << 20)] {
        let (data, blocks) = (pattern(len), (len / 512) as u32);
        assert!(w.execute(id, qid, command::write(NS, 1, blocks), Payload::Out(data.clone())).status().is_success());
        let read = w.execute(id, 3 - qid, command::read(NS, 1, blocks), Payload::In(len as u32));
        assert!(read.status().is_success() && read.data.to_bytes() == data, "{len} {:?}", read.cqe);
        let compared = w.execute(id, qid, command::compare(NS, 2, 1), Payload::Out(Bytes::from(vec![9; 512])));
        assert!(!compared.status().is_success());
    }
    assert!(w.execute(id, 1, command::flush(NS), Payload::None).status().is_success());
    assert_eq!(w.initiator.host(id).unwrap().touched(), 0);
    let now = w.pair.now;
    assert!(w.initiator.host_mut(id).unwrap().reset(now));
    w.events.clear();
    w.until(|w| w.events.iter().any(|(_, e)| matches!(e, Event::Ready)));
    let read = w.execute(id, 1, command::read(NS, 1, 2048), Payload::In(1 << 20));
    assert!(read.data.to_bytes() == pattern(1 << 20));
    w.shut(id);
}

#[test]
fn discovery_over_rdma_then_the_subsystem_it_names() {
    let mut w = World::plain();
    let discovery = HostSettings { subnqn: DISCOVERY_NQN.into(), kato_ms: 0, ..settings() };
    let id = w.ready(discovery);
    let mut reader = LogReader::new(true);
    let log: DiscoveryLog = loop {
        let (sqe, payload) = reader.request();
        let done = w.execute(id, 0, sqe, payload);
        if let Some(log) = reader.handle(&done).expect("a log") {
            break log;
        }
    };
    assert_eq!(log.entries.len(), 1);
    assert_eq!(log.entries[0].subnqn().as_str(), SUBNQN);
    w.shut(id);
    // The same device, another association.
    let id = w.ready(settings());
    w.shut(id);
}

/// One checkpoint write of 4 MiB: one capsule, READs of the controller with the key that its SQE names, one response, and no byte of it
/// was touched by the host's CPU, wherever the memory is.
#[test]
fn a_checkpoint_write_of_4_mib() {
    for place in [Place::Host, Place::Gpu] {
        let mut w = World::plain();
        let id = w.ready(HostSettings { io_queues: 1, async_events: 0, ..settings() });
        let (sends, received) = (w.initiator.device().sends.len(), w.initiator.device().received.len());
        w.target.device.reads.clear();
        let memory = Memory::shared(pattern(4 << 20)).at(place);
        let done = w.execute(id, 1, command::write(NS, 0, 8192), Payload::OutOf(memory));
        assert!(done.status().is_success(), "{done:?}");
        let back = done.memory.expect("the memory");
        assert_eq!((back.place(), back.touched(), back.len()), (place, 0, 4 << 20));
        assert_eq!(w.initiator.host(id).unwrap().touched(), 0);
        let ours = w.initiator.device();
        assert_eq!((ours.sends.len() - sends, ours.received.len() - received), (1, 1), "one capsule, one response");
        let capsule = ours.sends.last().unwrap();
        assert_eq!((capsule.len(), capsule[39], &capsule[32..35]), (64, 0x4f, &[0, 0, 0x40][..]));
        let key = Rkey(u32::from_le_bytes(capsule[35..39].try_into().unwrap()));
        let reads = &w.target.device.reads;
        assert!(!reads.is_empty() && reads.iter().all(|(k, _)| *k == key));
        assert_eq!(reads.iter().map(|(_, n)| u64::from(*n)).sum::<u64>(), 4 << 20);
        assert_eq!(ours.received.last().unwrap().1, Some(key), "the response invalidated it");
        w.shut(id);
    }
}

#[test]
fn a_device_that_bounces_is_counted() {
    let mut w = World::plain();
    let id = w.ready(settings());
    let before = w.initiator.host(id).unwrap().touched();
    w.initiator.device_mut().bounce = true;
    let done = w.execute(id, 1, command::write(NS, 0, 8192), Payload::OutOf(Memory::shared(pattern(4 << 20)).at(Place::Gpu)));
    assert_eq!(done.memory.expect("the memory").touched(), 4 << 20);
    assert_eq!(w.initiator.host(id).unwrap().touched() - before, 4 << 20);
}

/// RD-04: with one READ at a time, or 16, of a controller that would like more.
#[test]
fn reads_keep_to_the_hosts_responder_resources() {
    for responder_resources in [1, 2, 16] {
        let mut w = World::plain();
        let rdma = Some(HostRdmaSettings { responder_resources, ..HostRdmaSettings::default() });
        let id = w.ready(HostSettings { rdma, ..settings() });
        assert!(w.initiator.host(id).unwrap().facts().negotiated.values().all(|a| a.rdma().unwrap().reads <= responder_resources));
        for n in 0..8 {
            w.submit(id, 1, command::write(NS, n * 256, 256), Payload::Out(pattern(128 << 10)));
        }
        w.until(|w| w.events.iter().filter(|(_, e)| matches!(e, Event::Completed(..))).count() == 8);
        assert!(w.completions().iter().all(|c| c.status().is_success()));
        w.shut(id);
    }
}

/// Keyed descriptors by pages: several of them, READ in their order and WRITTEN in their order.
#[test]
fn several_descriptors_both_ways() {
    let mut w = World::plain();
    let rdma = Some(HostRdmaSettings { descriptor: 8192, ..HostRdmaSettings::default() });
    let id = w.ready(HostSettings { rdma, ..settings() });
    let data = pattern(100 << 10);
    assert!(w.execute(id, 1, command::write(NS, 5, 200), Payload::Out(data.clone())).status().is_success());
    let capsule = w.initiator.device().sends.last().unwrap();
    assert_eq!((capsule[39], capsule.len()), (0x31, 64 + 13 * 16));
    let read = w.execute(id, 1, command::read(NS, 5, 200), Payload::In(100 << 10));
    assert!(read.data.to_bytes() == data);
    w.shut(id);
}

/// In-capsule data and descriptors where the controller's ICDOFF puts them. [SQE-25, SGL-22]
#[test]
fn both_ends_agree_on_icdoff() {
    let capsules = RdmaCapsules { icdoff: 4, msdbd: 16 };
    let mut w = World::new(RdmaSettings { capsules, ..RdmaSettings::default() }, |_| {});
    let rdma = Some(HostRdmaSettings { descriptor: 4096, connect_in_capsule: true, ..HostRdmaSettings::default() });
    let id = w.ready(HostSettings { rdma, ..settings() });
    // What fits, and four pages.
    for (len, sgl, size) in [(4096, 0x01, 64 + 64 + 4096), (16 << 10, 0x31, 64 + 64)] {
        let data = pattern(len);
        assert!(w.execute(id, 1, command::write(NS, 5, (len / 512) as u32), Payload::Out(data.clone())).status().is_success());
        let capsule = w.initiator.device().sends.last().unwrap();
        assert_eq!((capsule[39], capsule.len()), (sgl, size));
        let read = w.execute(id, 1, command::read(NS, 5, (len / 512) as u32), Payload::In(len as u32));
        assert!(read.data.to_bytes() == data);
    }
    w.shut(id);
}

#[test]
fn a_wire_that_loses_and_reorders_changes_nothing() {
    let mut w = World::new(RdmaSettings::default(), |s| s.link_mtu = 1500);
    w.pair.latency = Duration::from_micros(5);
    w.pair.faults = Faults { loss: 10, duplication: 10, reordering: 20, corruption: 5 };
    let id = w.ready(settings());
    for n in 0..16 {
        w.submit(id, 1 + n as u16 % 2, command::write(NS, n * 128, 128), Payload::Out(pattern(64 << 10)));
    }
    w.until(|w| w.events.iter().filter(|(_, e)| matches!(e, Event::Completed(..))).count() == 16);
    assert!(w.completions().iter().all(|c| c.status().is_success()));
    for n in 0..16 {
        let read = w.execute(id, 1, command::read(NS, n * 128, 128), Payload::In(64 << 10));
        assert!(read.status().is_success() && read.data.to_bytes() == pattern(64 << 10));
    }
    w.shut(id);
}

/// The words of a REJ come to the user.
#[test]
fn a_refused_queue_says_why() {
    let mut w = World::plain();
    w.target.device.nic = Nic::new(NicSettings::new(Pair::ADDRESSES[1]), 3);
    let id = w.connect(settings());
    w.until(|w| w.events.iter().any(|(_, e)| matches!(e, Event::Failed(_))));
    let Some((_, Event::Failed(HostError::Open { qid: Qid::ADMIN, why }))) = w.events.last() else { panic!("{:?}", w.events) };
    assert!(why.contains("reason 8"), "nobody listens: {why}");
    assert!(w.initiator.host(id).unwrap().connections().next().is_none());
    // STS of NVMe/RDMA. [RDMA-CM-22, RDMA-CM-28]
    let mut w = World::new(RdmaSettings { connections: 0, ..RdmaSettings::default() }, |_| {});
    w.connect(settings());
    w.until(|w| w.events.iter().any(|(_, e)| matches!(e, Event::Failed(_))));
    let Some((_, Event::Failed(e))) = w.events.last() else { panic!("{:?}", w.events) };
    assert_eq!(e.to_string(), "queue 0: the controller refuses the queue: No Resources (STS 06h)");
}
