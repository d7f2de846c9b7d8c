//! Features that are saved, the temperature and its events, the time, and lists of controllers.

use std::time::Duration;

use crate::common::*;
use bytes::Bytes;
use nvmf_wire::identify::read_controller_list;
use nvmf_wire::log::Smart;
use nvmf_wire::property::Property;
use nvmf_wire::{Cid, Cntlid, Nsid, Opcode, SglDescriptor, Sqe, Status};

const SAVE: u32 = 1 << 31;
/// A temperature threshold below the 303 K of a new target, for the composite temperature.
const LOW: u32 = 300;

fn set(cdw10: u32, value: u32) -> Sqe {
    admin_sqe(Opcode::SET_FEATURES, 0, cdw10, value)
}

fn get(rig: &mut Rig, c: Conn, fid: u32, select: u32, nsid: u32) -> u32 {
    let (cqe, _) = rig.command(c, admin_sqe(Opcode::GET_FEATURES, nsid, fid | select << 8, 0), Bytes::new());
    assert_eq!(cqe.status(), Status::SUCCESS);
    cqe.dw0()
}

fn done(rig: &mut Rig, c: Conn, sqe: Sqe) {
    assert_eq!(rig.status(c, sqe, Bytes::new()), Status::SUCCESS, "{sqe}");
}

fn reset(rig: &mut Rig, c: Conn) {
    done(rig, c, property_set(Property::CC, 0));
    done(rig, c, property_set(Property::CC, u64::from(enable())));
}

fn request(rig: &mut Rig, c: Conn, cid: u16) {
    rig.submit(c, admin_sqe(Opcode::ASYNC_EVENT_REQUEST, 0, 0, 0).with(|s| s.cid(Cid(cid))), Bytes::new());
}

fn smart(rig: &mut Rig, c: Conn, retain: bool) -> Smart {
    let (cqe, page) = rig.command(c, log_page(2, 512, 0, retain), Bytes::new());
    assert_eq!(cqe.status(), Status::SUCCESS);
    Smart::read(&page).unwrap()
}

#[test]
fn a_saved_value_survives_a_controller_reset() {
    let mut rig = Rig::default();
    let (c, _) = rig.enabled();
    let all = |rig: &mut Rig| [0, 1, 2].map(|select| get(rig, c, 1, select, 0));
    done(&mut rig, c, set(1, 0x0203_0401));
    assert_eq!(all(&mut rig), [0x0203_0401, 0, 0], "current, default, saved");
    done(&mut rig, c, set(1 | SAVE, 0x0a0b_0c02));
    assert_eq!(all(&mut rig), [0x0a0b_0c02, 0, 0x0a0b_0c02]);
    done(&mut rig, c, set(1, 0));
    assert_eq!(all(&mut rig), [0, 0, 0x0a0b_0c02]);
    reset(&mut rig, c);
    assert_eq!(all(&mut rig), [0x0a0b_0c02, 0, 0x0a0b_0c02]);
    assert_eq!(get(&mut rig, c, 1, 3, 0), 0b101, "changeable, saveable");
    // A new association with a dynamic controller has none of it. [FAB-CNTLID-12]
    rig.hang_up(c);
    let (c, _) = rig.enabled();
    assert_eq!([0, 2].map(|select| get(&mut rig, c, 1, select, 0)), [0, 0]);
}

#[test]
fn error_recovery_is_a_namespace_s_own() {
    let mut rig = Rig::default();
    let (c, _) = rig.enabled();
    done(&mut rig, c, set(5, 7).with(|s| s.nsid(Nsid(1))));
    assert_eq!([1, 3].map(|n| get(&mut rig, c, 5, 0, n)), [7, 0]);
    done(&mut rig, c, set(5, 9).with(|s| s.nsid(Nsid::BROADCAST)));
    assert_eq!([1, 3].map(|n| get(&mut rig, c, 5, 0, n)), [9, 9]);
    for (nsid, want) in [(u32::MAX, Status::INVALID_NAMESPACE_OR_FORMAT), (2, Status::INVALID_FIELD_IN_COMMAND)] {
        assert_eq!(rig.status(c, admin_sqe(Opcode::GET_FEATURES, nsid, 5, 0), Bytes::new()), want);
    }
}

#[test]
fn a_temperature_at_the_threshold_is_told_once_and_kept_for_the_next_request() {
    let mut rig = Rig::default();
    let (c, _) = rig.enabled();
    request(&mut rig, c, 900);
    request(&mut rig, c, 901);
    // Not enabled: the warning stands in the log alone.
    done(&mut rig, c, set(4, LOW));
    assert!(smart(&mut rig, c, true).warn_temperature());
    assert!(rig.pdu(c).is_none());
    // Enabled while it holds. [ADM-AER-10]
    rig.submit(c, set(0x0b, 2).with(|s| s.cid(Cid(50))), Bytes::new());
    assert_eq!(rig.end_of(c, Cid(900)).0.dw0(), 0x0002_0101);
    assert_eq!(rig.end_of(c, Cid(50)).0.status(), Status::SUCCESS);
    // Masked until the log was read with RAE 0, also for what happens anew.
    let again = |rig: &mut Rig| {
        done(rig, c, set(4, 400));
        done(rig, c, set(4, LOW));
    };
    again(&mut rig);
    smart(&mut rig, c, true);
    assert!(rig.pdu(c).is_none());
    let (_, page) = rig.command(c, log_page(2, 512, 0, false), Bytes::new());
    assert_eq!(page[0], 2);
    assert!(rig.pdu(c).is_none(), "the read cleared what was not reported yet as well");
    // Cleared: the next one comes, and without a request it waits.
    rig.hub.set_temperature(290);
    rig.hub.set_temperature(310);
    rig.settle();
    assert_eq!(rig.end_of(c, Cid(901)).0.dw0(), 0x0002_0101);
    smart(&mut rig, c, false);
    again(&mut rig);
    request(&mut rig, c, 902);
    assert_eq!(rig.end_of(c, Cid(902)).0.dw0(), 0x0002_0101);
    assert_eq!(smart(&mut rig, c, true).temperature(), 310);
    // After a reset thresholds and events are what they were.
    reset(&mut rig, c);
    assert!(!smart(&mut rig, c, false).warn_temperature());
    request(&mut rig, c, 903);
    done(&mut rig, c, set(4, LOW));
    assert!(rig.pdu(c).is_none());
}

#[test]
fn the_time_runs_on_from_what_was_set() {
    let mut rig = Rig::default();
    let (c, _) = rig.enabled();
    let read = |rig: &mut Rig| {
        let sqe = admin_sqe(Opcode::GET_FEATURES, 0, 0x0e, 0).with_sgl1(SglDescriptor::transport(8));
        let (cqe, data) = rig.command(c, sqe, Bytes::new());
        assert_eq!(cqe.status(), Status::SUCCESS);
        let value = u64::from_le_bytes(data.try_into().unwrap());
        (value & 0xffff_ffff_ffff, value >> 49 & 7)
    };
    rig.pass(Duration::from_millis(70));
    assert_eq!(read(&mut rig), (70, 0));
    let sqe = set(0x0e, 0).with_sgl1(SglDescriptor::in_capsule(0, 8));
    assert_eq!(rig.status(c, sqe, Bytes::copy_from_slice(&[0, 0, 1, 0, 0, 0, 0xff, 0xff])), Status::SUCCESS);
    rig.pass(Duration::from_millis(5));
    assert_eq!(read(&mut rig), (0x10005, 1));
    reset(&mut rig, c);
    assert_eq!(read(&mut rig).1, 0);
}

#[test]
fn lists_of_controllers() {
    let mut rig = Rig::default();
    let (c, first) = rig.enabled();
    let (_, second) = rig.enabled();
    let list = |rig: &mut Rig, cns, nsid, from: u32| {
        let (cqe, page) = rig.command(c, identify(cns, nsid).with(|s| s.cdw10(u32::from(cns) | from << 16)), Bytes::new());
        assert_eq!(cqe.status(), Status::SUCCESS);
        read_controller_list(&page).unwrap()
    };
    assert_eq!(list(&mut rig, 0x13, 0, 0), [first, second]);
    assert_eq!(list(&mut rig, 0x13, 0, u32::from(second.0)), [second]);
    assert_eq!(list(&mut rig, 0x12, 1, 0), [first, second]);
    assert_eq!(list(&mut rig, 0x12, 2, 0), [Cntlid(0); 0], "an inactive NSID is attached nowhere");
}
