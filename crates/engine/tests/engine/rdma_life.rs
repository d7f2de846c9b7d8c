//! How associations over RDMA live and end, over two software NICs: keep alive, queues deleted and made again, connections lost with
//! commands out, several hosts at once.

use std::time::Duration;

use crate::rdma_world::{NS, World, pattern, settings};
use nvmf_engine::RdmaSettings;
use nvmf_engine::host::{Event, HostError, HostSettings, Payload, command};
use nvmf_roce::testing::Faults;
use nvmf_seam::rdma::{Device, Memory};
use nvmf_wire::{Qid, Status};

#[test]
fn it_is_kept_alive() {
    let mut w = World::plain();
    let id = w.ready(HostSettings { kato_ms: 10_000, ..settings() });
    let end = w.pair.now + Duration::from_secs(100);
    w.until(|w| w.pair.now >= end);
    assert!(w.initiator.host(id).unwrap().is_ready());
    assert!(w.execute(id, 1, command::read(NS, 0, 8), Payload::In(4096)).status().is_success());
    w.shut(id);
}

#[test]
fn a_queue_is_deleted_and_made_again() {
    let mut w = World::plain();
    let id = w.ready(HostSettings { queue_deletion: true, ..settings() });
    w.submit(id, 2, command::write(NS, 0, 128), Payload::Out(pattern(64 << 10)));
    let now = w.pair.now;
    w.initiator.host_mut(id).unwrap().delete_queue(Qid(2), now).expect("both sides can");
    w.until(|w| w.events.iter().any(|(_, e)| matches!(e, Event::QueueDeleted(Qid(2), Some(Status::SUCCESS)))));
    assert!(w.completions().remove(0).status().is_success(), "its commands finish first");
    assert_eq!(w.initiator.host(id).unwrap().io_queues().collect::<Vec<_>>(), [Qid(1)]);
    w.initiator.host_mut(id).unwrap().create_queue(Qid(2)).unwrap();
    w.until(|w| w.events.iter().any(|(_, e)| matches!(e, Event::QueueCreated(Qid(2)))));
    let read = w.execute(id, 2, command::read(NS, 0, 128), Payload::In(64 << 10));
    assert!(read.data.to_bytes() == pattern(64 << 10));
    w.shut(id);
}

/// Commands of both directions that are out when the connection goes.
fn busy(seed_latency: u64) -> (World, nvmf_engine::rdma::HostId) {
    let mut w = World::new(RdmaSettings::default(), |_| {});
    w.pair.latency = Duration::from_micros(seed_latency);
    let id = w.ready(HostSettings { async_events: 0, ..settings() });
    for n in 0..32 {
        w.submit(id, 1, command::write(NS, n * 128, 128), Payload::OutOf(Memory::shared(pattern(64 << 10))));
        w.submit(id, 2, command::read(NS, n * 128, 128), Payload::Into(Memory::zeroed(64 << 10)));
    }
    w.settle();
    (w, id)
}

/// Every command ended once, with its memory, and the device has neither connection nor region of them.
fn all_back(w: &mut World, id: nvmf_engine::rdma::HostId) {
    w.until(|w| w.initiator.host(id).unwrap().connections().next().is_none());
    let done = w.completions();
    assert_eq!(done.len(), 64);
    assert!(done.iter().all(|c| c.memory.as_ref().is_some_and(|m| m.len() == 64 << 10)));
    for at in std::mem::take(&mut w.initiator.device_mut().registered) {
        assert!(w.initiator.device_mut().deregister(at.key).is_none(), "a region was left behind");
    }
}

/// RD-10: DREQ with commands out, and a new association at once; packets of the old queue pairs come late.
#[test]
fn late_packets_of_the_old_queue_pairs_disturb_nothing() {
    let (mut w, id) = busy(50);
    w.pair.faults = Faults { reordering: 300, duplication: 200, ..Faults::default() };
    // Some are answered, the rest is on its way.
    w.until(|w| w.events.iter().any(|(_, e)| matches!(e, Event::Completed(..))));
    let now = w.pair.now;
    let qp = *w.target.device.qps.last().unwrap();
    w.target.device.disconnect(now, qp);
    w.settle();
    let again = w.connect(settings());
    w.until(|w| w.initiator.host(id).unwrap().is_over());
    assert!(
        matches!(
            w.events.iter().find(|(h, e)| *h == id && matches!(e, Event::Failed(_))),
            Some((_, Event::Failed(HostError::Lost { .. })))
        ),
        "{:?}",
        w.events
    );
    w.until(|w| w.events.iter().any(|(h, e)| *h == again && matches!(e, Event::Ready)));
    all_back(&mut w, id);
    w.pair.faults = Faults::default();
    let data = pattern(1 << 20);
    assert!(w.execute(again, 1, command::write(NS, 0, 2048), Payload::Out(data.clone())).status().is_success());
    assert!(w.execute(again, 2, command::read(NS, 0, 2048), Payload::In(1 << 20)).data.to_bytes() == data);
    assert!(!w.events.iter().any(|(_, e)| matches!(e, Event::Violation(..))), "{:?}", w.events);
    w.events.clear();
    w.shut(again);
}

/// Nothing comes through any more: the NIC gives up, and every command ends.
#[test]
fn a_wire_that_is_cut_ends_the_association() {
    let (mut w, id) = busy(50);
    w.pair.faults = Faults { loss: 1000, ..Faults::default() };
    w.until(|w| w.initiator.host(id).unwrap().is_over());
    let why = w.events.iter().find_map(|(_, e)| match e {
        Event::Failed(e) => Some(e.to_string()),
        _ => None,
    });
    assert!(why.as_ref().is_some_and(|w| w.contains("the controller's NIC does not answer")), "{why:?}");
    all_back(&mut w, id);
}

/// An association that is thrown away takes its regions and connections along.
#[test]
fn a_removed_association_leaves_nothing_behind() {
    let (mut w, id) = busy(50);
    let now = w.pair.now;
    let association = w.initiator.remove(id, now).unwrap();
    assert!(association.is_over() && association.connections().next().is_none());
    w.settle();
    let completed = w.completions().len();
    assert_eq!(completed, 64);
    for at in std::mem::take(&mut w.initiator.device_mut().registered) {
        assert!(w.initiator.device_mut().deregister(at.key).is_none(), "a region was left behind");
    }
    let id = w.ready(settings());
    w.events.clear();
    w.shut(id);
}

/// Several hosts behind one NIC, at once.
#[test]
fn eight_associations_share_a_device() {
    let mut w = World::plain();
    let names =
        (0..8).map(|n| HostSettings { hostnqn: format!("nqn.2014-08.org.example:host{n}"), hostid: [n + 1; 16], ..settings() });
    let ids: Vec<_> = names.map(|s| w.connect(s)).collect();
    w.until(|w| w.events.iter().filter(|(_, e)| matches!(e, Event::Ready)).count() == 8);
    for (n, id) in ids.iter().enumerate() {
        w.submit(*id, 1, command::write(NS, n as u64 * 512, 512), Payload::Out(pattern(256 << 10)));
    }
    w.until(|w| w.events.iter().filter(|(_, e)| matches!(e, Event::Completed(..))).count() == 8);
    assert!(w.completions().iter().all(|c| c.status().is_success()));
    for id in ids {
        assert_eq!(w.initiator.host(id).unwrap().touched(), 0);
        w.shut(id);
        let now = w.pair.now;
        assert!(w.initiator.remove(id, now).is_some_and(|a| a.is_over()));
    }
    assert_eq!(w.initiator.hosts().count(), 0);
}
