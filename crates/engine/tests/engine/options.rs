//! What a controller may have or not: static controllers, NVM Subsystem Reset, deletion of single queues, ANA, referrals.

use std::time::Duration;

use crate::common::*;
use bytes::Bytes;
use nvmf_engine::controller::{ConfigError, EndReason, HubEvent};
use nvmf_engine::tcp::CloseReason;
use nvmf_engine::{ControllerModel, ControllerSettings, TcpSettings};
use nvmf_wire::connect::Disconnect;
use nvmf_wire::identify::{IdentifyController, IdentifyNamespace, read_controller_list};
use nvmf_wire::log::{AnaState, DiscoveryEntry, DiscoveryHeader, ErrorEntry, SubsystemType, read_ana};
use nvmf_wire::property::{NSSR_RESET, Property};
use nvmf_wire::sqe::{FabricsType, IoOpcode};
use nvmf_wire::value::Text;
use nvmf_wire::{Cid, Cntlid, Cqe, Nsid, Opcode, SglDescriptor, Sqe, Status};

const OTHER_HOST: &str = "nqn.2014-08.org.example:other-host";

fn rig(settings: ControllerSettings) -> Rig {
    Rig::new(settings, TcpSettings::default())
}

fn fixed(count: u16) -> ControllerSettings {
    ControllerSettings { controller_model: ControllerModel::Static { count }, ..ControllerSettings::default() }
}

/// An Admin Queue of the controller named, or the refusal.
fn ask(rig: &mut Rig, host: &str, id: u16, kato: u32) -> Result<(Conn, Cntlid), (Status, u32)> {
    let c = rig.open();
    rig.init(c, |_| {});
    let (sqe, data) = connect_with(|_| {}, |d| put(d.set().hostnqn(Text::new(host))), 0, 31, kato, Cntlid(id));
    let (cqe, _) = rig.command(c, sqe, data);
    if !cqe.status().is_success() {
        return Err((cqe.status().code(), cqe.dw0()));
    }
    assert_eq!(rig.status(c, property_set(Property::CC, u64::from(enable())), Bytes::new()), Status::SUCCESS);
    Ok((c, Cntlid(cqe.dw0() as u16)))
}

#[test]
fn static_controllers_are_named_or_left_to_choose() {
    let mut rig = rig(fixed(3));
    let refused = Status::CONNECT_INVALID_PARAMETERS;
    for id in [0xffff, 0, 4, 0xfffd] {
        assert_eq!(ask(&mut rig, HOSTNQN, id, 9000), Err((refused, 0x1_0010)), "{id:#x}");
    }
    let (two, id) = ask(&mut rig, HOSTNQN, 2, 9000).unwrap();
    assert_eq!(id, Cntlid(2));
    assert_eq!(ask(&mut rig, OTHER_HOST, 2, 9000), Err((Status::CONTROLLER_BUSY, 0)));
    rig.hub.reserve_controller(SUBNQN, Cntlid(1), OTHER_HOST).unwrap();
    assert_eq!(rig.hub.reserve_controller(SUBNQN, Cntlid(4), OTHER_HOST), Err(ConfigError::Unknown));
    assert_eq!(ask(&mut rig, HOSTNQN, 1, 9000), Err((Status::CONNECT_INVALID_HOST, 0)));
    assert_eq!(ask(&mut rig, HOSTNQN, 0xfffe, 9000).unwrap().1, Cntlid(3));
    assert_eq!(ask(&mut rig, HOSTNQN, 0xfffe, 9000), Err((Status::CONTROLLER_BUSY, 0)));
    assert_eq!(ask(&mut rig, OTHER_HOST, 0xfffe, 9000).unwrap().1, Cntlid(1));
    // All of them exist whether a host is there or not.
    let (_, page) = rig.command(two, identify(0x13, 0), Bytes::new());
    assert_eq!(read_controller_list(&page).unwrap(), [1, 2, 3].map(Cntlid));
    let (_, page) = rig.command(two, identify(1, 0), Bytes::new());
    assert!(IdentifyController::read(&page).unwrap().fcatt_static());
    // An I/O queue names the controller as ever.
    let io = rig.open();
    rig.init(io, |_| {});
    let (sqe, data) = connect(1, 31, 0, Cntlid(2));
    assert_eq!(rig.status(io, sqe, data), Status::SUCCESS);
    // The discovery service stays dynamic and says what the subsystem is.
    let c = rig.open();
    rig.init(c, |_| {});
    let (sqe, data) = discovery(0);
    assert_eq!(rig.status(c, sqe, data), Status::SUCCESS);
    assert_eq!(rig.status(c, property_set(Property::CC, 1), Bytes::new()), Status::SUCCESS);
    let (_, log) = rig.command(c, log_page(0x70, 2048, 0, true), Bytes::new());
    assert_eq!(DiscoveryEntry::of_page(&log, 0).unwrap().cntlid(), Cntlid::ANY_STATIC);
}

#[test]
fn a_static_controller_keeps_what_was_saved_and_tells_of_its_end() {
    let mut rig = rig(fixed(2));
    let (c, _) = ask(&mut rig, HOSTNQN, 1, 9000).unwrap();
    let set = |save: u32, value| admin_sqe(Opcode::SET_FEATURES, 0, 1 | save << 31, value);
    let get = |rig: &mut Rig, c, select: u32| {
        let (cqe, _) = rig.command(c, admin_sqe(Opcode::GET_FEATURES, 0, 1 | select << 8, 0), Bytes::new());
        cqe.dw0()
    };
    assert_eq!(rig.status(c, set(1, 0x0100), Bytes::new()), Status::SUCCESS);
    assert_eq!(rig.status(c, set(0, 0x0200), Bytes::new()), Status::SUCCESS);
    assert_eq!(rig.status(c, identify(0xff, 0), Bytes::new()), Status::INVALID_FIELD_IN_COMMAND);
    rig.pass(Duration::from_secs(10));
    assert_eq!(rig.closed(c), Some(CloseReason::Association));
    let (c, _) = ask(&mut rig, HOSTNQN, 1, 9000).unwrap();
    assert_eq!([0, 1, 2].map(|s| get(&mut rig, c, s)), [0x0100, 0, 0x0100]);
    // The error log has the expiry alone, and the count goes on. [ADM-LOG-20, ADM-LOG-23, ADM-LOG-25]
    let (_, page) = rig.command(c, log_page(1, 128, 0, false), Bytes::new());
    let [first, second] = [0, 64].map(|at| ErrorEntry::read(&page[at..]).unwrap());
    assert_eq!((first.count(), second.count()), (2, 0));
    assert_eq!((first.sqid().0, first.cid().0, &page[14..16]), (0xffff, 0xffff, &[0xff; 2][..]));
    assert_eq!(Status(first.status()), Status::KEEP_ALIVE_TIMER_EXPIRED);
    // The other controller is another.
    let (other, _) = ask(&mut rig, HOSTNQN, 2, 9000).unwrap();
    assert_eq!(get(&mut rig, other, 2), 0);
}

#[test]
fn a_subsystem_reset_takes_all_hosts_and_is_remembered() {
    let mut rig = rig(ControllerSettings { subsystem_reset: true, ..fixed(3) });
    let (one, _) = ask(&mut rig, HOSTNQN, 1, 9000).unwrap();
    let (two, _) = ask(&mut rig, OTHER_HOST, 2, 9000).unwrap();
    assert_eq!(rig.property(one, Property::CAP) >> 36 & 1, 1, "CAP.NSSRS");
    assert_eq!(rig.property(one, Property::NSSR), 0);
    assert_eq!(rig.status(one, property_set(Property::NSSR, 0x4e56_4d64), Bytes::new()), Status::SUCCESS);
    assert_eq!((rig.closed(one), rig.closed(two)), (None, None));
    assert_eq!(rig.status(one, property_set(Property::NSSR, u64::from(NSSR_RESET)), Bytes::new()), Status::SUCCESS);
    assert_eq!((rig.closed(one), rig.closed(two)), (Some(CloseReason::Association), Some(CloseReason::Association)));
    let ended = |e: &HubEvent| matches!(e, HubEvent::Ended { reason: EndReason::SubsystemReset, .. });
    assert_eq!(rig.events.iter().filter(|e| ended(e)).count(), 2);
    for id in [1, 3] {
        let (c, _) = ask(&mut rig, HOSTNQN, id, 9000).unwrap();
        assert_eq!(rig.property(c, Property::CSTS), 0x11, "RDY and NSSRO");
        assert_eq!(rig.status(c, property_set(Property::CC, 0), Bytes::new()), Status::SUCCESS);
        assert_eq!(rig.property(c, Property::CSTS), 0x10, "a controller reset leaves it");
        assert_eq!(rig.status(c, property_set(Property::CSTS, 0x10), Bytes::new()), Status::SUCCESS);
        assert_eq!(rig.property(c, Property::CSTS), 0);
    }
}

/// An association with I/O queues 1 and 2, whose host can do with the loss of one or cannot.
fn two_queues(rig: &mut Rig, ioqd: bool) -> (Conn, Conn, Conn) {
    let admin = rig.open();
    rig.init(admin, |_| {});
    let (sqe, data) = connect_with(|c| put(c.set().ioqd(ioqd)), |_| {}, 0, 31, 9000, Cntlid::DYNAMIC);
    let (cqe, _) = rig.command(admin, sqe, data);
    let id = Cntlid(cqe.dw0() as u16);
    assert_eq!(rig.status(admin, property_set(Property::CC, u64::from(enable())), Bytes::new()), Status::SUCCESS);
    let [one, two] = [1, 2].map(|qid| queue(rig, qid, id));
    (admin, one, two)
}

fn queue(rig: &mut Rig, qid: u16, id: Cntlid) -> Conn {
    let c = rig.open();
    rig.init(c, |_| {});
    let (sqe, data) = connect_with(|c| put(c.set().ioqd(true)), |_| {}, qid, 31, 0, id);
    assert_eq!(rig.status(c, sqe, data), Status::SUCCESS);
    c
}

fn disconnect(recfmt: u16) -> Sqe {
    let mut d = Disconnect::new();
    d.set().recfmt(recfmt);
    let mut b = *d.as_bytes();
    (b[0], b[1], b[4]) = (Opcode::FABRICS.0, 0x40, FabricsType::DISCONNECT.0);
    Sqe::from_bytes(b)
}

fn read(cid: u16) -> Sqe {
    rw(IoOpcode::READ, 1, 0, 1, SglDescriptor::transport(512)).with(|s| s.cid(Cid(cid)))
}

#[test]
fn disconnect_ends_one_queue_after_its_commands() {
    let mut rig = rig(ControllerSettings { queue_deletion: true, ..ControllerSettings::default() });
    let (admin, one, two) = two_queues(&mut rig, true);
    let (_, page) = rig.command(admin, identify(1, 0), Bytes::new());
    let id = IdentifyController::read(&page).unwrap();
    assert!(id.ofcs_disconnect());
    assert_eq!(rig.status(one, disconnect(1), Bytes::new()), Status::INCOMPATIBLE_FORMAT);
    assert_eq!(rig.status(admin, disconnect(0), Bytes::new()), Status::INVALID_QUEUE_TYPE);
    // A read that is at work comes first; what comes later is not processed.
    rig.hold_stores = true;
    rig.submit(one, read(70), Bytes::new());
    rig.submit(one, disconnect(0).with(|s| s.cid(Cid(71))), Bytes::new());
    rig.submit(one, read(72), Bytes::new());
    assert!(rig.pdu(one).is_none());
    rig.hold_stores = false;
    rig.settle();
    assert_eq!(rig.end_of(one, Cid(70)).1.len(), 512);
    assert_eq!(rig.end_of(one, Cid(71)).0.status(), Status::SUCCESS);
    rig.submit(one, read(73), Bytes::new());
    assert!(rig.pdu(one).is_none());
    // The rest goes on, and the queue ID is free while the connection still stands.
    rig.pass(Duration::from_secs(5));
    assert_eq!(rig.closed(one), None);
    rig.submit(two, read(74), Bytes::new());
    assert_eq!(rig.end_of(two, Cid(74)).0.status(), Status::SUCCESS);
    let again = queue(&mut rig, 1, id.cntlid());
    rig.submit(again, read(75), Bytes::new());
    assert_eq!(rig.end_of(again, Cid(75)).0.status(), Status::SUCCESS);
    // The host that never closes is closed at last.
    rig.status(admin, admin_sqe(Opcode::KEEP_ALIVE, 0, 0, 0), Bytes::new());
    for _ in 0..4 {
        rig.pass(Duration::from_secs(8));
        rig.status(admin, admin_sqe(Opcode::KEEP_ALIVE, 0, 0, 0), Bytes::new());
    }
    assert_eq!((rig.closed(one), rig.closed(two)), (Some(CloseReason::Association), None));
    assert_eq!(rig.held(one), 0);
}

#[test]
fn the_loss_of_a_queue_leaves_the_association_where_both_sides_can_do_with_it() {
    for (ours, host) in [(true, true), (true, false), (false, true)] {
        let mut rig = rig(ControllerSettings { queue_deletion: ours, ..ControllerSettings::default() });
        let (admin, one, two) = two_queues(&mut rig, host);
        rig.hang_up(one);
        rig.pass(Duration::from_secs(5));
        let open = ours && host;
        assert_eq!((rig.closed(admin).is_none(), rig.closed(two).is_none()), (open, open), "{ours} {host}");
    }
    let mut rig = rig(ControllerSettings { queue_deletion: true, ..ControllerSettings::default() });
    let (admin, one, _) = two_queues(&mut rig, false);
    assert_eq!(rig.status(one, disconnect(0), Bytes::new()), Status::SUCCESS);
    rig.pass(Duration::from_secs(5));
    assert_eq!(rig.closed(admin), Some(CloseReason::Association), "a host without CATTR bit 3 loses the association");
}

#[test]
fn ana_groups_are_reported_obeyed_and_told_of() {
    let mut rig = rig(ControllerSettings { ana_groups: 2, ..ControllerSettings::default() });
    rig.hub.set_ana_group(SUBNQN, 3, 2).unwrap();
    assert_eq!(rig.hub.set_ana_group(SUBNQN, 3, 3), Err(ConfigError::Ana));
    assert_eq!(rig.hub.set_ana_state(SUBNQN, 1, AnaState(5)), Err(ConfigError::Ana));
    let (admin, io) = rig.io();
    let (_, page) = rig.command(admin, identify(1, 0), Bytes::new());
    let id = IdentifyController::read(&page).unwrap();
    assert_eq!((id.cmic_ana(), id.anagrpmax(), id.nanagrpid(), id.oaes_ana()), (true, 2, 2, true));
    let log = |rig: &mut Rig| {
        let (cqe, page) = rig.command(admin, log_page(0x0c, 88, 0, false), Bytes::new());
        assert_eq!(cqe.status(), Status::SUCCESS);
        let (header, groups) = read_ana(&page).unwrap();
        let groups: Vec<_> = groups.into_iter().map(|(g, n)| (g.grpid(), g.state(), n)).collect();
        (header.chcnt(), groups)
    };
    let expected = |second| vec![(1, AnaState::OPTIMIZED, vec![Nsid(1)]), (2, second, vec![Nsid(3)])];
    assert_eq!(log(&mut rig), (0, expected(AnaState::OPTIMIZED)));
    let status = |rig: &mut Rig, sqe: Sqe| -> Cqe { rig.command(io, sqe, Bytes::new()).0 };
    let third = rw(IoOpcode::READ, 3, 0, 1, SglDescriptor::transport(4096));
    assert_eq!(rig.status(admin, admin_sqe(Opcode::SET_FEATURES, 0, 0x0b, 1 << 11), Bytes::new()), Status::SUCCESS);
    for (n, (state, want)) in [
        (AnaState::NON_OPTIMIZED, Status::SUCCESS),
        (AnaState::INACCESSIBLE, Status::ASYMMETRIC_ACCESS_INACCESSIBLE),
        (AnaState::CHANGE, Status::ASYMMETRIC_ACCESS_TRANSITION),
        (AnaState::PERSISTENT_LOSS, Status::ASYMMETRIC_ACCESS_PERSISTENT_LOSS),
    ]
    .into_iter()
    .enumerate()
    {
        let event = Cid(900 + n as u16);
        rig.submit(admin, admin_sqe(Opcode::ASYNC_EVENT_REQUEST, 0, 0, 0).with(|s| s.cid(event)), Bytes::new());
        rig.hub.set_ana_state(SUBNQN, 2, state).unwrap();
        rig.settle();
        if state == AnaState::CHANGE {
            assert!(rig.pdu(admin).is_none(), "entry to the change state needs no notice");
        } else {
            // The request of the change state still waits when the next state comes.
            let waiting = if state == AnaState::PERSISTENT_LOSS { Cid(902) } else { event };
            assert_eq!(rig.end_of(admin, waiting).0.dw0(), 0x000c_0302);
        }
        assert_eq!(log(&mut rig), (n as u64 + 1, expected(state)));
        assert_eq!(status(&mut rig, third).status().code(), want);
        assert_eq!(status(&mut rig, rw(IoOpcode::FLUSH, 3, 0, 1, SglDescriptor::default())).status().code(), want);
        assert_eq!(status(&mut rig, read(0)).status(), Status::SUCCESS, "the other group is not touched");
        let (_, page) = rig.command(admin, identify(0, 3), Bytes::new());
        let ns = IdentifyNamespace::read(&page).unwrap();
        let hidden = matches!(state, AnaState::INACCESSIBLE | AnaState::PERSISTENT_LOSS);
        assert_eq!((ns.anagrpid(), ns.nuse()), (2, if hidden { 0 } else { BLOCKS }));
    }
    assert_eq!(rig.hub.set_ana_state(SUBNQN, 2, AnaState::OPTIMIZED), Err(ConfigError::Ana), "lost for ever");
    let all = log_page(0x0c, 88, 0, false);
    let groups_only = all.with(|s| s.cdw10(all.cdw10() | 1 << 8));
    let (_, page) = rig.command(admin, groups_only, Bytes::new());
    let (_, groups) = read_ana(&page).unwrap();
    assert!(groups.iter().all(|(g, n)| g.nsids() == 0 && n.is_empty()), "groups only");
}

#[test]
fn referrals_stand_in_the_log_of_any_discovery_controller() {
    let mut rig = Rig::default();
    for to in ["192.0.2.7:8009", "[2001:db8::7]:8009"] {
        rig.hub.add_referral(to.parse().unwrap()).unwrap();
    }
    assert_eq!(rig.hub.add_referral("192.0.2.7:8009".parse().unwrap()), Err(ConfigError::Exists));
    for kato in [0, 120_000] {
        let c = rig.open();
        rig.init(c, |_| {});
        let (sqe, data) = discovery(kato);
        assert_eq!(rig.status(c, sqe, data), Status::SUCCESS);
        assert_eq!(rig.status(c, property_set(Property::CC, 1), Bytes::new()), Status::SUCCESS);
        let (_, log) = rig.command(c, log_page(0x70, 4096, 0, true), Bytes::new());
        assert_eq!(DiscoveryHeader::read(&log).unwrap().numrec(), 3);
        let of = |at| {
            let e = DiscoveryEntry::of_page(&log, at).unwrap();
            (e.subtype(), e.traddr().as_str().to_owned(), e.trsvcid().as_str().to_owned(), e.cntlid(), e.adrfam().0)
        };
        let referral = |ip: &str, family| (SubsystemType::REFERRAL, ip.to_owned(), "8009".to_owned(), Cntlid::DYNAMIC, family);
        assert_eq!([of(1), of(2)], [referral("192.0.2.7", 1), referral("2001:db8::7", 2)]);
    }
    rig.hub.remove_referral("192.0.2.7:8009".parse().unwrap()).unwrap();
    assert_eq!(rig.hub.remove_referral("192.0.2.7:8009".parse().unwrap()), Err(ConfigError::Unknown));
}
