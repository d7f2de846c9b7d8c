//! What a controller says of itself: properties, Identify, log pages, features, events.

use nvmf_spec::Side::Controller;
use nvmf_wire::identify::{Descriptor, Nidt, namespace_list, write_descriptors};
use nvmf_wire::log::{AnaGroup, AnaHeader, DiscoveryEntry, DiscoveryHeader, ErrorEntry, FirmwareSlots, Smart};
use nvmf_wire::nqn::DISCOVERY_NQN;
use nvmf_wire::{IdentifyNamespace, Nsid, Sqe, Status, Structure, Value};

use crate::Seen;
use crate::talk::{Talk, bent, controller, get_cap, get_vs, io_queue, property, set_cc, sqe, up, up_as};

pub const CAP: u64 = 0x0800_0020_1e01_03ff;
const NQN: &str = "nqn.2026-01.org.example:sub";

pub fn cases(seen: &mut Seen) {
    properties(seen);
    readiness(seen);
    controller_data(seen);
    controller_capabilities(seen);
    namespaces(seen);
    lists(seen);
    discovery_log(seen);
    logs(seen);
    smart(seen);
    features(seen);
    events(seen);
}

/// The bytes of a structure with fields set by name.
pub fn fields<T: Structure>(ints: &[(&str, u64)], texts: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = T::zeroed().bytes().to_vec();
    change::<T>(&mut bytes, ints, texts);
    bytes
}

fn change<T: Structure>(bytes: &mut [u8], ints: &[(&str, u64)], texts: &[(&str, &str)]) {
    for (name, v) in ints {
        T::LAYOUT.write_field(bytes, name, &Value::Int(*v)).unwrap();
    }
    for (name, v) in texts {
        T::LAYOUT.write_field(bytes, name, &Value::Bytes(v.as_bytes().to_vec())).unwrap();
    }
}

pub fn identify(cid: u16, cns: u64, nsid: u64) -> Sqe {
    sqe("Identify", cid, &[("cns", cns), ("nsid", nsid)])
}

pub fn log(cid: u16, lid: u64, bytes: usize, more: &[(&str, u64)]) -> Sqe {
    sqe("GetLogPage", cid, &[&[("lid", lid), ("numd", bytes as u64 / 4 - 1)], more].concat())
}

/// Identify Controller with fields changed breaks these.
fn says(seen: &mut Seen, ids: &str, ints: &[(&str, u64)]) {
    let mut t = up();
    t.fetch(identify(9, 1, 0), &controller(ints));
    seen.breaks(Controller, ids, vec![t]);
}

fn properties(seen: &mut Seen) {
    let read = |seen: &mut Seen, ids: &str, ofst: u64, wide: bool, value: u64| {
        let mut t = up();
        property(&mut t, 9, ofst, wide, value);
        seen.breaks(Controller, ids, vec![t]);
    };
    read(seen, "", 0, true, CAP);
    read(seen, "FAB-PROP-17", 0, true, CAP & !0xffff);
    read(seen, "FAB-PROP-18", 0, true, CAP & !0x10000);
    read(seen, "FAB-PROP-19", 0, true, CAP | 1 << 32);
    read(seen, "FAB-PROP-20 RESET-17", 0, true, CAP & !(1 << 59));
    read(seen, "FAB-PROP-21", 0, true, CAP | 1 << 58);
    read(seen, "FAB-PROP-16", 8, false, 0x10500);
    read(seen, "FAB-PROP-05 RESET-28", 0x1c, false, 0x81);
    read(seen, "FAB-PROP-05 RESET-28", 0x14, false, 0x8046_0001);
    read(seen, "RESET-09", 0x14, false, 0x0046_0000);
    read(seen, "RESET-09", 0x14, false, 0x0046_0081);
    read(seen, "RESET-16 FAB-PROP-32", 0x14, false, 0x0146_0001);
    read(seen, "FAB-PROP-33 RESET-31", 0x20, false, 1);
    read(seen, "FAB-PROP-14 RESET-28", 0x24, false, 0x1f_001f);
    read(seen, "FAB-PROP-05 RESET-28", 0x1000, false, 5);
    read(seen, "FAB-PROP-25", 0x68, false, 0x1_0001);
    read(seen, "FAB-PROP-26 FAB-PROP-25", 0x68, false, 0x100_0100);

    let mut t = up_as(DISCOVERY_NQN);
    property(&mut t, 9, 0x68, false, 1);
    seen.breaks(Controller, "FAB-PROP-13", vec![t]);
    let mut t = up_as(DISCOVERY_NQN);
    get_cap(&mut t, 9, CAP | 1 << 48);
    seen.breaks(Controller, "FAB-PROP-22", vec![t]);
    let mut t = up_as(DISCOVERY_NQN);
    get_cap(&mut t, 9, CAP | 1 << 43);
    seen.breaks(Controller, "FAB-PROP-23", vec![t]);

    let mut t = crate::connected(0, crate::PLAIN);
    property(&mut t, 3, 0x14, false, 1);
    seen.breaks(Controller, "FAB-QUEUE-04 RESET-09", vec![t]);
}

fn readiness(seen: &mut Seen) {
    let mut t = crate::connected(0, crate::PLAIN);
    property(&mut t, 3, 0x1c, false, 1);
    seen.breaks(Controller, "RESET-02", vec![t]);

    // 15 s is what CAP.TO allows here.
    let slow = |wait_s: u64| {
        let mut t = crate::connected(0, crate::PLAIN);
        get_cap(&mut t, 1, CAP);
        get_vs(&mut t, 2, 0x20000);
        set_cc(&mut t, 3, 0x0046_0001);
        property(&mut t, 4, 0x1c, false, 0);
        t.now_ns += wait_s * 1_000_000_000;
        property(&mut t, 5, 0x1c, false, 0);
        t
    };
    seen.breaks(Controller, "", vec![slow(14)]);
    seen.breaks(Controller, "RESET-03 RESET-02 FAB-INIT-08", vec![slow(16)]);

    let mut t = up();
    set_cc(&mut t, 9, 0x0046_0000);
    property(&mut t, 10, 0x1c, false, 0);
    property(&mut t, 11, 0x1c, false, 8);
    seen.breaks(Controller, "RESET-24", vec![t]);
}

fn controller_data(seen: &mut Seen) {
    says(seen, "", &[]);
    says(seen, "ADM-IDENTIFY-42 FAB-IDENT-09", &[("cntlid", 2)]);
    says(seen, "ADM-IDENTIFY-43", &[("ver", 0x10400)]);
    says(seen, "ADM-IDENTIFY-44 FAB-IDENT-04", &[("cntrltype", 0)]);
    says(seen, "ADM-IDENTIFY-48", &[("ctratt_hids", 0)]);
    says(seen, "ADM-IDENTIFY-49 FAB-IDENT-03", &[("kas", 0)]);
    says(seen, "ADM-IDENTIFY-50", &[("sqes_min", 5)]);
    says(seen, "ADM-IDENTIFY-50", &[("cqes_max", 3)]);
    says(seen, "ADM-IDENTIFY-51", &[("maxcmd", 0)]);
    says(seen, "ADM-IDENTIFY-52", &[("sgls_support", 0)]);
    says(seen, "ADM-IDENTIFY-53 FAB-IDENT-02", &[("ioccsz", 3)]);
    says(seen, "TCP-CAPSULE-08", &[("iorcsz", 2)]);
    says(seen, "TCP-CAPSULE-09", &[("icdoff", 1)]);
    says(seen, "ADM-IDENTIFY-58", &[("acl", 2)]);
    says(seen, "ADM-IDENTIFY-58 FAB-IDENT-08", &[("aerl", 2)]);
    says(seen, "FAB-CNTLID-10 ADM-IDENTIFY-55", &[("fcatt_static", 1)]);
    let with = |at: usize, value: u8| {
        let mut t = up();
        t.fetch(identify(9, 1, 0), &bent(&controller(&[]), &[(at, value)]));
        vec![t]
    };
    seen.breaks(Controller, "ADM-IDENTIFY-45 FAB-IDENT-14", with(63, 0));
    seen.breaks(Controller, "ADM-IDENTIFY-45 FAB-IDENT-14", with(24, b' '));
    seen.breaks(Controller, "ADM-IDENTIFY-65", with(400, 1));
    seen.breaks(Controller, "ADM-IDENTIFY-47", with(768 + NQN.len() - 1, b'x'));

    let mut t = up_as(DISCOVERY_NQN);
    t.fetch(identify(9, 1, 0), &controller(&[("oaes_dlpc", 1)]));
    seen.breaks(Controller, "ADM-IDENTIFY-44 DISC-CTRL-01 ADM-IDENTIFY-47", vec![t]);
    let mut t = up_as(DISCOVERY_NQN);
    t.fetch(identify(9, 1, 0), &controller(&[("cntrltype", 2)]));
    seen.breaks(Controller, "ADM-IDENTIFY-70 FAB-IDENT-06 DISC-CTRL-06", vec![t]);
}

fn controller_capabilities(seen: &mut Seen) {
    says(seen, "ADM-IDENTIFY-59", &[("ctratt_ng", 1)]);
    says(seen, "ADM-IDENTIFY-60", &[("oacs_nms", 1)]);
    says(seen, "ADM-IDENTIFY-61", &[("vwc_fb", 0)]);
    says(seen, "ADM-IDENTIFY-62", &[("wctemp", 0)]);
    says(seen, "ADM-IDENTIFY-63", &[("sanicap_ndi", 1)]);
    says(seen, "ADM-IDENTIFY-64", &[("fna_fnvmbs", 1), ("fna_fns", 1)]);
    says(seen, "ADM-IDENTIFY-67", &[("did", 1)]);
    says(seen, "ADM-IDENTIFY-68", &[("ctratt_rrl", 1), ("rrls", 1)]);
    says(seen, "ADM-IDENTIFY-69", &[("npss", 32)]);
    says(seen, "SGL-14", &[("sgls_sdt", 2), ("msdbd", 1)]);
    says(seen, "ANA-02", &[("anatt", 5)]);
    says(seen, "ANA-01", &[("oaes_ana", 1)]);
    let ana: &[(&str, u64)] = &[("cmic_ana", 1), ("anatt", 5), ("anagrpmax", 4), ("nanagrpid", 4), ("anacap_optimized", 1)];
    says(seen, "", ana);
    says(seen, "ANA-02", &[ana, &[("nanagrpid", 5)]].concat());
    says(seen, "ADM-IDENTIFY-66", &[ana, &[("mnan", 9)]].concat());

    let mut t = up();
    t.fetch(identify(9, 6, 0), &fields::<nvmf_wire::identify::IdentifyControllerNvm>(&[("dmrl", 1)], &[]));
    seen.breaks(Controller, "ADM-IDENTIFY-78", vec![t]);
    let mut sets = vec![0; 4096];
    sets[0] = 1;
    sets[16] = 1;
    let mut t = up();
    t.fetch(sqe("Identify", 9, &[("cns", 0x1c), ("cntid", 0xffff)]), &sets);
    seen.breaks(Controller, "ADM-IDENTIFY-41", vec![t]);
    let mut ids = vec![0; 4096];
    ids[..6].copy_from_slice(&[2, 0, 2, 0, 1, 0]);
    let mut t = up();
    t.fetch(identify(9, 0x13, 0), &ids);
    seen.breaks(Controller, "ADM-IDENTIFY-38", vec![t]);
}

/// Identify Namespace data that is right: 8192 blocks of 512 bytes.
pub fn namespace(ints: &[(&str, u64)]) -> Vec<u8> {
    let right = [("nsze", 8192), ("ncap", 8192), ("nuse", 10), ("lbaf0", 9 << 16)];
    let mut bytes = fields::<IdentifyNamespace>(&right, &[]);
    change::<IdentifyNamespace>(&mut bytes, ints, &[]);
    bytes
}

fn namespaces(seen: &mut Seen) {
    let is = |seen: &mut Seen, ids: &str, of: &[(&str, u64)], ints: &[(&str, u64)]| {
        let mut t = up();
        t.fetch(identify(9, 1, 0), &controller(of));
        t.fetch(identify(10, 0, 1), &namespace(ints));
        seen.breaks(Controller, ids, vec![t]);
    };
    is(seen, "", &[], &[]);
    is(seen, "ADM-IDENTIFY-71", &[], &[("nuse", 9000)]);
    is(seen, "ADM-IDENTIFY-71", &[], &[("ncap", 8000)]);
    is(seen, "ADM-IDENTIFY-72", &[], &[("flbas_low", 1)]);
    is(seen, "ADM-IDENTIFY-72", &[], &[("lbaf0", 8 << 16)]);
    is(seen, "ADM-IDENTIFY-73", &[], &[("nlbaf", 16)]);
    is(seen, "ADM-IDENTIFY-74", &[], &[("dps_first", 1)]);
    is(seen, "ADM-IDENTIFY-75", &[("awun", 7)], &[("nsfeat_nsabp", 1), ("nawun", 3)]);
    is(seen, "ADM-IDENTIFY-76", &[], &[("nabo", 3)]);
    is(seen, "ADM-IDENTIFY-80", &[], &[("nsfeat_uidreuse", 1)]);
    is(seen, "ADM-IDENTIFY-80", &[], &[("anagrpid", 1)]);
    is(seen, "RES-04", &[], &[("rescap", 1)]);
    is(seen, "ADM-IDENTIFY-77", &[("oncs_copy", 1)], &[]);
    let ana: &[(&str, u64)] = &[("cmic_ana", 1), ("anatt", 5), ("anagrpmax", 4), ("nanagrpid", 4), ("anacap_optimized", 1)];
    is(seen, "ANA-03", ana, &[("anagrpid", 5)]);

    let described = |seen: &mut Seen, ids: &str, of: &[(&str, u64)], cap: u64, list: &[(u8, &[u8])], bend: &[(usize, u8)]| {
        let mut t = up();
        get_cap(&mut t, 8, cap);
        t.fetch(identify(9, 0, 1), &namespace(of));
        let all: Vec<_> = list.iter().map(|(n, nid)| Descriptor { nidt: Nidt(*n), reserved: 0, nid }).collect();
        t.fetch(identify(10, 3, 1), &bent(&write_descriptors(&all).unwrap(), bend));
        seen.breaks(Controller, ids, vec![t]);
    };
    let uuid: (u8, &[u8]) = (3, &[7; 16]);
    described(seen, "", &[], CAP, &[uuid], &[]);
    described(seen, "ADM-IDENTIFY-18 ADM-IDENTIFY-22", &[], CAP, &[(4, &[0])], &[]);
    described(seen, "ADM-IDENTIFY-19", &[], CAP, &[uuid, uuid], &[]);
    described(seen, "ADM-IDENTIFY-20", &[], CAP | 1 << 43, &[uuid], &[]);
    described(seen, "ADM-IDENTIFY-21", &[], CAP, &[uuid, (1, &[9; 8])], &[]);
    described(seen, "ADM-IDENTIFY-23", &[], CAP, &[uuid, (4, &[0, 0])], &[]);
    described(seen, "ADM-IDENTIFY-24", &[], CAP, &[uuid], &[(900, 1)]);
}

fn lists(seen: &mut Seen) {
    let list = |seen: &mut Seen, ids: &str, cns: u64, from: u64, nsids: &[u32], bend: &[(usize, u8)]| {
        let mut t = up();
        t.fetch(identify(9, 1, 0), &controller(&[]));
        let nsids: Vec<Nsid> = nsids.iter().map(|n| Nsid(*n)).collect();
        t.fetch(identify(10, cns, from), &bent(&namespace_list(nsids), bend));
        seen.breaks(Controller, ids, vec![t]);
    };
    list(seen, "", 2, 0, &[1, 2, 8], &[]);
    list(seen, "ADM-IDENTIFY-14", 2, 0, &[2, 1], &[]);
    list(seen, "ADM-IDENTIFY-14", 2, 1, &[1, 2], &[]);
    list(seen, "ADM-IDENTIFY-14", 2, 0, &[1, 2], &[(100, 3)]);
    list(seen, "ADM-IDENTIFY-16", 2, 0, &[1, 9], &[]);
    list(seen, "ADM-IDENTIFY-29", 7, 0, &[2, 1], &[]);
    list(seen, "ADM-IDENTIFY-36", 0x10, 0, &[2, 1], &[]);
}

/// The header of a discovery log of one record.
pub fn one_record() -> Vec<u8> {
    fields::<DiscoveryHeader>(&[("numrec", 1)], &[])
}

pub fn entry(ints: &[(&str, u64)]) -> Vec<u8> {
    let right = [("trtype", 3), ("adrfam", 1), ("subtype", 2), ("portid", 1), ("cntlid", 0xffff), ("asqsz", 32)];
    let mut bytes = fields::<DiscoveryEntry>(&right, &[("trsvcid", "4420"), ("traddr", "10.0.0.2"), ("subnqn", NQN)]);
    change::<DiscoveryEntry>(&mut bytes, ints, &[]);
    bytes
}

fn discovery_log(seen: &mut Seen) {
    let page = |seen: &mut Seen, ids: &str, header: &[u8], entries: &[Vec<u8>]| {
        let mut t = up_as(DISCOVERY_NQN);
        let data = [header.to_vec(), entries.concat()].concat();
        t.fetch(log(9, 0x70, data.len(), &[]), &data);
        seen.breaks(Controller, ids, vec![t]);
    };
    let head = |n: u64| fields::<DiscoveryHeader>(&[("numrec", n)], &[]);
    let one = |seen: &mut Seen, ids: &str, e: Vec<u8>| page(seen, ids, &head(1), &[e]);
    one(seen, "", entry(&[]));
    page(seen, "DISC-LOG-07 ADM-LOG-39", &bent(&head(0), &[(16, 1)]), &[]);
    page(seen, "DISC-LOG-07", &bent(&head(0), &[(100, 1)]), &[]);
    // Behind NUMREC nothing is judged.
    page(seen, "", &head(0), &[vec![0xee; 1024]]);
    one(seen, "DISC-LOG-12", entry(&[("trtype", 9)]));
    one(seen, "DISC-LOG-13", entry(&[("adrfam", 9)]));
    one(seen, "DISC-LOG-14", entry(&[("subtype", 9)]));
    one(seen, "DISC-LOG-15", entry(&[("treq_secure", 3)]));
    one(seen, "DISC-LOG-16", bent(&entry(&[]), &[(3, 0x80)]));
    one(seen, "DISC-LOG-18", entry(&[("cntlid", 0xfff5)]));
    one(seen, "DISC-LOG-19 ADM-LOG-39", entry(&[("asqsz", 16)]));
    one(seen, "DISC-LOG-21", bent(&entry(&[]), &[(40, 0)]));
    one(seen, "DISC-LOG-25", bent(&entry(&[]), &[(20, 1)]));
    one(seen, "TCP-DISC-07 TCP-DISC-02", bent(&entry(&[]), &[(32, b'x')]));
    one(seen, "TCP-TLS-01 TCP-TLS-03 TCP-DISC-01", bent(&entry(&[]), &[(768, 3)]));
    one(seen, "TCP-TLS-03", bent(&entry(&[]), &[(769, 1)]));
    one(seen, "NQN-01", bent(&entry(&[]), &[(256, 0)]));
    one(seen, "NQN-03", bent(&entry(&[]), &[(256, b'x')]));
    let long: Vec<(usize, u8)> = (0..230).map(|n| (256 + n, if n < 4 { b"nqn."[n] } else { b'a' })).collect();
    one(seen, "NQN-02", bent(&entry(&[]), &long));
    one(seen, "DISC-LOG-20 ADM-LOG-39", entry(&[("subtype", 1)]));
    page(seen, "DISC-LOG-10 FAB-CNTLID-08", &head(2), &[entry(&[]), entry(&[("cntlid", 3)])]);
    page(seen, "DISC-LOG-11", &head(2), &[entry(&[]), entry(&[])]);
}

fn logs(seen: &mut Seen) {
    let page = |seen: &mut Seen, ids: &str, lid: u64, data: &[u8]| {
        let mut t = up();
        t.fetch(identify(9, 1, 0), &controller(&[]));
        t.fetch(log(10, lid, data.len(), &[]), data);
        seen.breaks(Controller, ids, vec![t]);
    };
    let supported = |lids: &[usize]| {
        let mut data = vec![0; 1024];
        lids.iter().for_each(|l| data[l * 4] = 1);
        data
    };
    page(seen, "", 0, &supported(&[0, 1, 2, 3]));
    page(seen, "ADM-LOG-13", 0, &supported(&[0, 1, 3]));
    page(seen, "ADM-LOG-17", 0, &supported(&[1, 2, 3]));
    page(seen, "ADM-LOG-16", 0, &supported(&[0, 1, 2, 3, 0x70]));
    for (ids, lids) in [("", &[0, 0x70][..]), ("ADM-LOG-15 DISC-CTRL-13", &[0, 2, 0x70]), ("ADM-LOG-14 DISC-CTRL-11", &[0])] {
        let mut t = up_as(DISCOVERY_NQN);
        t.fetch(log(10, 0, 1024, &[]), &supported(lids));
        seen.breaks(Controller, ids, vec![t]);
    }

    let errors = |counts: &[u64], more: &[(&str, u64)]| {
        counts.iter().flat_map(|c| fields::<ErrorEntry>(&[&[("count", *c)], more].concat(), &[])).collect::<Vec<u8>>()
    };
    page(seen, "ADM-LOG-18", 1, &errors(&[1, 2], &[]));
    page(seen, "ADM-LOG-18", 1, &errors(&[2, 1], &[]));
    page(seen, "ADM-LOG-19", 1, &errors(&[0, 1], &[]));
    page(seen, "ADM-LOG-22", 1, &errors(&[1], &[("trtype", 9)]));
    page(seen, "ADM-LOG-21", 1, &errors(&[1], &[("location_byte", 64)]));
    let mut t = up();
    t.fetch(log(9, 1, 64, &[]), &errors(&[7], &[]));
    t.fetch(log(10, 1, 64, &[]), &errors(&[6], &[]));
    seen.breaks(Controller, "ADM-LOG-19", vec![t]);

    let slots = |active: u64, frs: &str| fields::<FirmwareSlots>(&[("active", active)], &[("frs1", frs)]);
    page(seen, "", 3, &slots(1, "1.0"));
    page(seen, "ADM-LOG-32", 3, &slots(0, "1.0"));
    page(seen, "ADM-LOG-32", 3, &slots(2, "1.0"));
    page(seen, "ADM-IDENTIFY-46", 3, &slots(1, "2.0"));
    page(seen, "ADM-LOG-33", 4, &bent(&vec![0; 4096], &[(0, 2), (4, 1)]));
    page(seen, "ADM-LOG-33", 4, &bent(&vec![0; 4096], &[(100, 1)]));

    let effects = |change: &[(usize, u8)]| {
        let mut data = vec![0; 4096];
        [2, 6, 9, 10, 12].iter().for_each(|o| data[o * 4] = 1);
        [0, 2].iter().for_each(|o| data[1024 + o * 4] = 1);
        data[1028] = 3;
        bent(&data, change)
    };
    page(seen, "", 5, &effects(&[]));
    page(seen, "ADM-LOG-34", 5, &effects(&[(1024 + 8 * 4, 2)]));
    page(seen, "ADM-LOG-35", 5, &effects(&[(24, 0)]));
    page(seen, "ADM-LOG-35", 5, &effects(&[(1032, 0)]));
    page(seen, "ADM-LOG-35", 5, &effects(&[(1028, 1)]));

    let groups = |list: &[(u64, u64, &[u32])]| {
        let mut data = fields::<AnaHeader>(&[("groups", list.len() as u64)], &[]);
        for (id, state, nsids) in list {
            data.extend(fields::<AnaGroup>(&[("grpid", *id), ("state", *state), ("nsids", nsids.len() as u64)], &[]));
            data.extend(nsids.iter().flat_map(|n| n.to_le_bytes()));
        }
        data
    };
    let ana = |seen: &mut Seen, ids: &str, list: &[(u64, u64, &[u32])]| {
        let mut t = up();
        let able = [("cmic_ana", 1), ("anatt", 5), ("anagrpmax", 4), ("nanagrpid", 4), ("anacap_optimized", 1)];
        t.fetch(identify(9, 1, 0), &controller(&able));
        let data = groups(list);
        t.fetch(log(10, 0x0c, data.len(), &[]), &data);
        seen.breaks(Controller, ids, vec![t]);
    };
    ana(seen, "", &[(1, 1, &[1, 2])]);
    ana(seen, "ANA-04", &[(2, 1, &[1]), (1, 1, &[2])]);
    ana(seen, "ANA-04", &[(1, 1, &[2, 1])]);
    ana(seen, "ANA-09", &[(1, 7, &[1])]);
    ana(seen, "ANA-09", &[(1, 3, &[1])]);
}

fn smart(seen: &mut Seen) {
    let page = |ints: &[(&str, u64)], reads: u64, errors: u64| {
        let mut data = fields::<Smart>(&[&[("spare", 100), ("temperature", 300)], ints].concat(), &[]);
        data[64..72].copy_from_slice(&reads.to_le_bytes());
        data[176..184].copy_from_slice(&errors.to_le_bytes());
        data
    };
    let read = |t: &mut Talk, cid: u16, data: &[u8]| t.fetch(log(cid, 2, 512, &[("nsid", 0xffff_ffff)]), data);
    let one = |seen: &mut Seen, ids: &str, data: &[u8]| {
        let mut t = up();
        read(&mut t, 9, data);
        seen.breaks(Controller, ids, vec![t]);
    };
    one(seen, "", &page(&[], 0, 0));
    one(seen, "ADM-LOG-29", &page(&[("spare", 101)], 0, 0));
    one(seen, "ADM-LOG-29", &bent(&page(&[], 0, 0), &[(20, 1)]));
    let error = |count: u64| fields::<ErrorEntry>(&[("count", count)], &[]);
    let mut t = up();
    t.fetch(log(9, 1, 64, &[]), &error(7));
    read(&mut t, 10, &page(&[], 0, 6));
    seen.breaks(Controller, "ADM-LOG-31", vec![t]);
    let mut t = up();
    read(&mut t, 9, &page(&[], 0, 9));
    t.fetch(log(10, 1, 64, &[]), &error(7));
    seen.breaks(Controller, "ADM-LOG-31", vec![t]);
    // Three Reads between two looks at their number.
    for (ids, after) in [("", 8), ("ADM-LOG-30", 7)] {
        let mut t = up();
        let mut q = io_queue(&t);
        read(&mut t, 9, &page(&[], 5, 0));
        q.now_ns = t.now_ns;
        for cid in 1..4 {
            q.fetch(crate::io("Read", cid, 512), &[0; 512]);
        }
        t.now_ns = q.now_ns;
        read(&mut t, 10, &page(&[], after, 0));
        seen.breaks(Controller, ids, vec![t, q]);
    }
}

fn features(seen: &mut Seen) {
    let get = |cid, fid: u64, sel: u64| sqe("GetFeatures", cid, &[("fid", fid), ("sel", sel)]);
    let set = |cid, fid: u64, value: u64| sqe("SetFeatures", cid, &[("fid", fid), ("value", value)]);
    let talk = |seen: &mut Seen, ids: &str, steps: &[(Sqe, u32)]| {
        let mut t = up();
        steps.iter().for_each(|(sqe, dw0)| t.ask(*sqe, *dw0));
        seen.breaks(Controller, ids, vec![t]);
    };
    talk(seen, "", &[(set(9, 0x0b, 0x100), 0), (get(10, 0x0b, 0), 0x100), (get(11, 0x0b, 3), 4)]);
    talk(seen, "CQE-04", &[(set(9, 0x0b, 0x100), 0x100)]);
    talk(seen, "ADM-FEAT-29 ADM-FEAT-17", &[(set(9, 0x0b, 0x100), 0), (get(10, 0x0b, 0), 0)]);
    talk(seen, "ADM-FEAT-26 ADM-FEAT-27", &[(set(9, 7, 0x0007_0007), 0x0003_0003), (get(10, 7, 0), 0x0004_0004)]);
    talk(seen, "ADM-FEAT-05", &[(get(9, 0x0b, 3), 8)]);
    talk(seen, "ADM-FEAT-06", &[(get(9, 1, 1), 3), (get(10, 1, 1), 4)]);
    talk(seen, "ADM-FEAT-04", &[(get(9, 1, 3), 4), (get(10, 1, 1), 3), (get(11, 1, 2), 4)]);
    talk(seen, "ADM-AER-08 FAB-IDENT-12", &[(get(9, 0x0b, 0), 0x100)]);
    talk(seen, "ADM-FEAT-53", &[(get(9, 5, 0), 0x1_0000)]);
    talk(seen, "KA-17 ADM-FEAT-31", &[(get(9, 0x0f, 0), 5050)]);
    talk(seen, "KA-17 ADM-FEAT-32", &[(get(9, 0x0f, 0), 4000)]);
    talk(seen, "ADM-FEAT-33 KA-18", &[(get(9, 0x0f, 1), 60_000)]);
    let mut t = up();
    t.ask(get(10, 0x0f, 0), 5500);
    seen.breaks(Controller, "KA-17", vec![t]);
    let mut t = up_as(DISCOVERY_NQN);
    t.ask(get(9, 0x0b, 0), 0);
    seen.breaks(Controller, "DISC-CTRL-14", vec![t]);
    for (ids, id) in [("", [0x11; 16]), ("HOSTID-03 ADM-FEAT-34 FAB-CONNECT-18", [0x12; 16])] {
        let mut t = up();
        t.fetch(sqe("GetFeatures", 9, &[("fid", 0x81), ("value", 1)]), &id);
        seen.breaks(Controller, ids, vec![t]);
    }
}

fn events(seen: &mut Seen) {
    let event = |seen: &mut Seen, ids: &str, dw0: u32| {
        let mut t = up();
        t.ask(sqe("AsyncEventRequest", 9, &[]), dw0);
        seen.breaks(Controller, ids, vec![t]);
    };
    event(seen, "", 0x0004_0002);
    event(seen, "ADM-AER-04", 0x0100_0002 | 0x0004_0000);
    event(seen, "ADM-AER-04", 5);
    event(seen, "ADM-AER-04", 0x0001_0900);
    event(seen, "ADM-AER-05", 0x0003_0002);
    let mut t = up_as(DISCOVERY_NQN);
    t.ask(sqe("AsyncEventRequest", 9, &[]), 0x0004_0002);
    seen.breaks(Controller, "DISC-CTRL-16 ADM-AER-25", vec![t]);

    let abort = |cid: u64| sqe("Abort", 10, &[("cid_abort", cid)]);
    let mut t = up();
    t.command(sqe("AsyncEventRequest", 9, &[]), &[]);
    t.command(abort(9), &[]);
    t.answer(9, Status::COMMAND_ABORT_REQUESTED, 0);
    t.answer(10, Status::SUCCESS, 0);
    seen.breaks(Controller, "", vec![t]);
    let mut t = up();
    t.command(sqe("AsyncEventRequest", 9, &[]), &[]);
    t.ask(abort(9), 0);
    seen.breaks(Controller, "ADM-ABORT-01 FAB-STATUS-13", vec![t]);
    let mut t = up();
    t.ask(abort(0x7777), 0);
    seen.breaks(Controller, "ADM-ABORT-02 FAB-STATUS-13", vec![t]);
}
