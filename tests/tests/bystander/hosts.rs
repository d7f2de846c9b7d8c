//! What a host sends, against what the controller said of itself.

use nvmf_spec::Side::Host;
use nvmf_wire::{SglDescriptor, Sqe};

use crate::Seen;
use crate::admin::{CAP, identify, log, namespace};
use crate::answers::shifted;
use crate::talk::{Talk, bent, connect, controller, get_cap, io_queue, property, set_cc, sqe, up, up_as};

pub fn cases(seen: &mut Seen) {
    admin(seen);
    properties(seen);
    connects(seen);
    queues(seen);
    io(seen);
}

fn raw(sqe: Sqe, changes: &[(usize, u8)]) -> Sqe {
    Sqe::from_bytes(bent(sqe.as_bytes(), changes).try_into().unwrap())
}

/// The host sends this on an Admin Queue that is up.
fn sends(seen: &mut Seen, ids: &str, sqe: Sqe) {
    let mut t = up();
    t.fetch(identify(8, 1, 0), &controller(&[]));
    t.command(sqe, &[]);
    seen.only(Host, ids, vec![t]);
}

fn admin(seen: &mut Seen) {
    let get_log = |fields: &[(&str, u64)]| log(9, 2, 512, fields).with_sgl1(SglDescriptor::transport(512));
    sends(seen, "", sqe("KeepAlive", 9, &[]));
    sends(seen, "SQE-03", sqe("KeepAlive", 0xffff, &[]));
    sends(seen, "SQE-13", sqe("KeepAlive", 9, &[("nsid", 1)]));
    sends(seen, "SQE-13", identify(9, 1, 1));
    sends(seen, "ADM-ABORT-08", sqe("Abort", 9, &[("nsid", 1)]));
    sends(seen, "ADM-AER-26", sqe("AsyncEventRequest", 9, &[("nsid", 1)]));
    sends(seen, "ADM-IDENTIFY-07", sqe("Identify", 9, &[("cns", 1), ("cntid", 5)]));
    sends(seen, "ADM-IDENTIFY-09", sqe("Identify", 9, &[("cns", 1), ("csi", 2)]));
    sends(seen, "", sqe("Identify", 9, &[("cns", 6), ("csi", 2)]));
    sends(seen, "ADM-LOG-03", get_log(&[("lpo", 2)]));
    sends(seen, "ADM-LOG-27", get_log(&[("nsid", 1)]));
    sends(seen, "ADM-LOG-11", log(9, 5, 4096, &[("rae", 1)]).with_sgl1(SglDescriptor::transport(4096)));
    let ask = |name: &str, n: u16| {
        let mut t = up();
        t.fetch(identify(8, 1, 0), &controller(&[]));
        (0..n).for_each(|cid| t.command(sqe(name, 20 + cid, &[]), &[]));
        vec![t]
    };
    seen.only(Host, "", ask("AsyncEventRequest", 4));
    seen.only(Host, "", ask("Abort", 4));
    seen.only(Host, "ADM-ABORT-05", ask("Abort", 5));
    // An event request is that of an I/O controller once a queue of it stands.
    let mut all = ask("AsyncEventRequest", 5);
    let q = io_queue(&up());
    all.push(q);
    seen.only(Host, "ADM-AER-03", all);

    let mut t = up();
    let q = io_queue(&t);
    t.now_ns = q.now_ns;
    t.command(sqe("SetFeatures", 9, &[("fid", 7)]), &[]);
    seen.only(Host, "ADM-FEAT-24", vec![t, q]);
    let mut t = up();
    t.fetch(identify(8, 0, 1), &namespace(&[]));
    t.command(sqe("SetFeatures", 9, &[("fid", 5), ("nsid", 1), ("value", 0x1_0000)]), &[]);
    seen.only(Host, "ADM-FEAT-54", vec![t]);
}

fn properties(seen: &mut Seen) {
    let get = |fields: &[(&str, u64)]| sqe("PropertyGet", 9, fields);
    sends(seen, "FAB-PROP-01 RESET-30", get(&[("ofst", 8), ("attrib", 1)]));
    sends(seen, "FAB-PROP-01 RESET-30", get(&[("ofst", 0x15)]));
    sends(seen, "FAB-PROP-07", get(&[("ofst", 8), ("attrib", 5)]));
    let set = |value: u64| sqe("PropertySet", 9, &[("ofst", 0x14), ("value", value)]);
    sends(seen, "FAB-PROP-08", set(0x1_0046_0001));
    sends(seen, "FAB-PROP-06 RESET-28", set(0x8046_0001));
    sends(seen, "FAB-PROP-27 RESET-12 FAB-PROP-28 RESET-13", set(0x0046_0081));

    // The first CC of a host that knows CAP.
    let first = |seen: &mut Seen, ids: &str, cap: u64, cc: u64| {
        let mut t = crate::connected(0, crate::PLAIN);
        get_cap(&mut t, 1, cap);
        t.command(sqe("PropertySet", 2, &[("ofst", 0x14), ("value", cc)]), &[]);
        seen.only(Host, ids, vec![t]);
    };
    first(seen, "", CAP, 0x0046_0001);
    first(seen, "FAB-INIT-03 FAB-INIT-02 RESET-18", CAP, 0x0046_0011);
    first(seen, "FAB-PROP-28 RESET-13", CAP, 0x0046_0081);
    first(seen, "FAB-PROP-28", CAP, 0x0046_0801);
    first(seen, "FAB-INIT-02 RESET-18", CAP | 1 << 43, 0x0046_0001);
    first(seen, "", CAP | 1 << 43, 0x0046_0061);
    first(seen, "FAB-INIT-02 RESET-18", CAP | 1 << 44, 0x0046_0061);
    let mut t = up_as(nvmf_wire::nqn::DISCOVERY_NQN);
    set_cc(&mut t, 9, 0x0046_0000);
    property(&mut t, 10, 0x1c, false, 0);
    t.command(set(0x0046_0061), &[]);
    seen.only(Host, "FAB-PROP-30 RESET-19", vec![t]);
    // EN is set again before RDY went.
    let mut t = up();
    set_cc(&mut t, 9, 0x0046_0000);
    property(&mut t, 10, 0x1c, false, 1);
    t.command(set(0x0046_0001), &[]);
    seen.only(Host, "FAB-INIT-09 RESET-05", vec![t]);
}

/// A queue that is about to be connected.
fn connecting(admin: &Talk, qid: u16, changes: &[(usize, u8)], data: &[(usize, u8)]) -> Talk {
    let mut t = Talk::new();
    t.start(crate::PLAIN);
    let (sqe, d) = connect(qid, 0);
    t.command(raw(sqe, changes), &bent(d.as_bytes(), data));
    t.rec = shifted(&t, admin.now_ns);
    t
}

fn connects(seen: &mut Seen) {
    let alone = |seen: &mut Seen, ids: &str, changes: &[(usize, u8)], data: &[(usize, u8)]| {
        seen.only(Host, ids, vec![connecting(&Talk::new(), 0, changes, data)]);
    };
    alone(seen, "", &[], &[]);
    alone(seen, "FAB-QUEUE-14", &[(45, 0x20)], &[]);
    alone(seen, "NQN-01", &[], &[(530, 0xff)]);
    alone(seen, "NQN-03", &[], &[(512, b'x')]);
    let name = |text: &str| text.bytes().chain([0; 8]).enumerate().map(|(n, b)| (512 + n, b)).collect::<Vec<_>>();
    alone(seen, "NQN-02", &[], &name(&format!("nqn.2026-01.org.example:{}", "a".repeat(200))));
    alone(seen, "", &[], &name("nqn.2014-08.org.nvmexpress:uuid:01234567-89ab-cdef-0123-456789abcdef"));
    alone(seen, "NQN-06", &[], &name("nqn.2014-08.org.nvmexpress:uuid:01234567-89ab-cdef-0123-456789abcdeg"));
    let io = |seen: &mut Seen, ids: &str, admin: Talk, changes: &[(usize, u8)], data: &[(usize, u8)]| {
        let q = connecting(&admin, 1, changes, data);
        seen.only(Host, ids, vec![admin, q]);
    };
    io(seen, "", up(), &[], &[]);
    io(seen, "FAB-CONNECT-24", up(), &[], &[(0, 0x99)]);
    io(seen, "FAB-QUEUE-14", up(), &[(45, 0x10)], &[]);
    io(seen, "FAB-CONNECT-22 FAB-QUEUE-11 FAB-QUEUE-18 FAB-INIT-04 FAB-INIT-05", crate::connected(0, crate::PLAIN), &[], &[]);
    let mut odd = crate::connected(0, crate::PLAIN);
    set_cc(&mut odd, 1, 1);
    property(&mut odd, 2, 0x1c, false, 1);
    io(seen, "RESET-15 FAB-INIT-01 FAB-QUEUE-18 FAB-INIT-04 FAB-INIT-05", odd, &[], &[]);
}

fn queues(seen: &mut Seen) {
    let leave = |changes: &[(usize, u8)]| raw(sqe("Disconnect", 9, &[]), changes);
    let mut q = crate::connected(1, crate::PLAIN);
    q.command(leave(&[(60, 1)]), &[]);
    seen.only(Host, "FAB-DISC-04 FAB-CMD-10", vec![q]);
    let mut q = crate::connected(1, crate::PLAIN);
    q.command(sqe("Flush", 1, &[("nsid", 1)]), &[]);
    q.command(leave(&[]), &[]);
    seen.only(Host, "FAB-DISC-08 FAB-DISC-22", vec![q]);
    let mut q = crate::connected(1, crate::PLAIN);
    q.ask(leave(&[]), 0);
    q.command(sqe("Flush", 1, &[("nsid", 1)]), &[]);
    seen.only(Host, "FAB-DISC-07", vec![q]);

    // SQ flow control is off: one entry of 32 stays free.
    let outstanding = |n: u16| {
        let mut q = crate::sqhd_off();
        (0..n).for_each(|cid| q.command(sqe("Flush", 500 + cid, &[("nsid", 1)]), &[]));
        vec![q]
    };
    seen.only(Host, "", outstanding(31));
    seen.only(Host, "SQE-44 FAB-SQFC-12", outstanding(32));

    let half =
        |cid: u16, fuse: u8| raw(sqe("Read", cid, &[("nsid", 1)]), &[(1, 0x40 | fuse)]).with_sgl1(SglDescriptor::transport(512));
    for (ids, order) in [("", [1, 2]), ("NVM-FUSED-02 FAB-TRANS-16", [1, 0]), ("NVM-FUSED-02 FAB-TRANS-16", [0, 2])] {
        let mut q = crate::connected(1, crate::PLAIN);
        q.command(half(1, order[0]), &[]);
        q.command(half(2, order[1]), &[]);
        seen.only(Host, ids, vec![q]);
    }
}

fn io(seen: &mut Seen) {
    let on = |of: &[(&str, u64)], sqe: Sqe, data: &[u8]| {
        let mut t = up();
        t.fetch(identify(8, 1, 0), &controller(of));
        t.fetch(identify(9, 0, 1), &namespace(&[]));
        let mut q = io_queue(&t);
        q.command(sqe, data);
        vec![t, q]
    };
    let read = |nlb: u64| sqe("Read", 9, &[("nsid", 1), ("nlb", nlb)]).with_sgl1(SglDescriptor::transport((nlb as u32 + 1) * 512));
    seen.only(Host, "", on(&[], read(63), &[]));
    seen.only(Host, "NVM-RW-07 FAB-IDENT-11", on(&[], read(64), &[]));
    let inline = |bytes: u32| {
        sqe("Write", 9, &[("nsid", 1), ("nlb", u64::from(bytes) / 512 - 1)]).with_sgl1(SglDescriptor::in_capsule(0, bytes))
    };
    seen.only(Host, "", on(&[], inline(4096), &[0; 4096]));
    let beyond = "TCP-CAPSULE-06 TCP-CAPSULE-07 FAB-TRANS-08 SQE-29";
    seen.only(Host, beyond, on(&[], inline(4608), &[0; 4608]));
    let protected = |opcode: u8, prinfo: u8| raw(read(0), &[(0, opcode), (51, prinfo << 2)]);
    seen.only(Host, "NVM-RW-19", on(&[], protected(5, 8), &[]));
    seen.only(Host, "NVM-RW-21", on(&[], protected(8, 1).with_sgl1(SglDescriptor::default()), &[]));

    // The controller was reset, and the host goes on with its old queue; just after it a Read may have been sent before.
    for (later_ns, breaks) in [(0, ""), (900_000_000, ""), (1_100_000_000, "FAB-QUEUE-09 RESET-11")] {
        let mut t = up();
        let mut q = io_queue(&t);
        t.now_ns = q.now_ns;
        set_cc(&mut t, 9, 0x0046_0000);
        q.now_ns = t.now_ns + later_ns;
        q.command(read(0), &[]);
        seen.only(Host, breaks, vec![t, q]);
    }
}
