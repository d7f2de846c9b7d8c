//! Cases of what goes on over several commands or connections: authentication, fused halves, masked events, a page read in parts, and
//! commands with limits of their own.

use nvmf_spec::Side::{Controller, Host};
use nvmf_wire::log::{AnaGroup, AnaHeader, DiscoveryEntry, ErrorEntry};
use nvmf_wire::nqn::DISCOVERY_NQN;
use nvmf_wire::tcp::{IcReq, IcResp, PduType};
use nvmf_wire::value::Text;
use nvmf_wire::{SglDescriptor, Sqe, Status};

use crate::admin::{CAP, fields, identify, log, namespace};
use crate::answers::shifted;
use crate::talk::{C2H, H2C, Talk, bent, connect, connected, controller, get_cap, io_queue, property, set_cc, sqe, up, up_as};
use crate::{PLAIN, Seen, r2t, wrong_pdu};

pub fn cases(seen: &mut Seen) {
    authentication(seen);
    disconnects(seen);
    reactions(seen);
    names(seen);
    order(seen);
    keep_alive(seen);
    events(seen);
    features(seen);
    refusals(seen);
    media(seen);
    io(seen);
    reservations(seen);
    fused(seen);
    blocks(seen);
    data(seen);
    associations(seen);
}

const OK: Status = Status::SUCCESS;

fn raw(sqe: Sqe, changes: &[(usize, u8)]) -> Sqe {
    Sqe::from_bytes(bent(sqe.as_bytes(), changes).try_into().unwrap())
}

/// An Admin Queue whose Connect asks for authentication.
fn guarded() -> Talk {
    let mut t = Talk::new();
    t.start(PLAIN);
    let (sqe, data) = connect(0, 0);
    t.command(sqe, data.as_bytes());
    t.answer(0, OK, 0x2_0001);
    t
}

fn authentication(seen: &mut Seen) {
    let send = |secp: u64, spsp0: u64, tl: u64| {
        sqe("AuthenticationSend", 9, &[("secp", secp), ("spsp0", spsp0), ("spsp1", 1), ("tl", tl)])
            .with_sgl1(SglDescriptor::in_capsule(0, 16))
    };
    for (ids, command) in [("", send(0xe9, 1, 16)), ("FAB-AUTH-01", send(0xe9, 1, 20)), ("FAB-AUTH-05", send(0xe9, 2, 16))] {
        let mut t = guarded();
        t.command(command, &[0; 16]);
        seen.only(Host, ids, vec![t]);
    }
    let mut t = guarded();
    t.command(sqe("PropertyGet", 9, &[("ofst", 0x14)]), &[]);
    seen.only(Host, "FAB-QUEUE-10", vec![t]);
    for (status, ids) in [(OK, "FAB-AUTH-02"), (Status::INVALID_FIELD_IN_COMMAND, "")] {
        let mut t = guarded();
        t.command(send(0x10, 1, 16), &[0; 16]);
        t.answer(9, status, 0);
        seen.only(Controller, ids, vec![t]);
    }
    for (status, ids) in [(OK, "FAB-QUEUE-02 FAB-AUTH-06"), (Status::AUTHENTICATION_REQUIRED, "")] {
        let mut t = guarded();
        t.refuse(sqe("PropertyGet", 9, &[("ofst", 0x14)]), status);
        seen.only(Controller, ids, vec![t]);
    }
    let alike = |dw0| {
        let mut t = Talk::new();
        t.start(PLAIN);
        let (sqe, data) = connect(0, 0);
        t.command(sqe, data.with(|s| s.hostnqn(Text::new("nqn.2026-01.org.example:sub"))).as_bytes());
        t.answer(0, OK, dw0);
        vec![t]
    };
    seen.only(Controller, "", alike(1));
    seen.only(Controller, "FAB-CONNECT-32", alike(0x2_0001));
}

fn disconnects(seen: &mut Seen) {
    let gone = || {
        let mut q = connected(1, PLAIN);
        q.command(sqe("Flush", 1, &[("nsid", 1)]), &[]);
        q.ask(sqe("Disconnect", 9, &[]), 0);
        q
    };
    seen.only(Controller, "", vec![gone()]);
    let mut q = gone();
    q.answer(1, OK, 0);
    seen.only(Controller, "FAB-DISC-05 FAB-DISC-06 RESET-35", vec![q]);
    let mut q = connected(1, PLAIN);
    q.command(sqe("Disconnect", 9, &[]), &[]);
    q.rec.close(C2H, q.now_ns, false);
    seen.only(Controller, "FAB-DISC-12", vec![q]);
}

/// What a host has to answer with a terminate request, and the time to end a connection after one.
fn reactions(seen: &mut Seen) {
    let icresp = |changes: &[(usize, u8)]| {
        let head = IcResp::new().with(|s| s.maxh2cdata(8192));
        wrong_pdu(&Talk::new(), PduType::IC_RESP, head.as_bytes(), &[], changes)
    };
    for (ids, changes) in [("TCP-ERR-03 TCP-TERM-15", &[(8, 1)]), ("TCP-DGST-19 TCP-TERM-15", &[(11, 1)])] {
        let mut t = Talk::new();
        t.send(H2C, PduType::IC_REQ, IcReq::new().as_bytes(), &[]);
        t.raw(C2H, &icresp(changes));
        t.rec.close(H2C, t.now_ns, false);
        seen.only(Host, ids, vec![t]);
    }
    let write = || {
        let mut q = connected(1, PLAIN);
        q.command(crate::io("Write", 7, 1024), &[]);
        q.r2t(&r2t(7, 5, 0, 512));
        q
    };
    for (ids, next) in [("TCP-R2T-11 TCP-TERM-15", 512), ("TCP-R2T-06 TCP-R2T-11 TCP-TERM-15", 516)] {
        let mut q = write();
        q.r2t(&r2t(7, 6, next, 1024 - next));
        q.rec.close(H2C, q.now_ns, false);
        // The first breach of a PDU names the reaction.
        let ids = if next == 512 { ids } else { "TCP-R2T-06 TCP-TERM-15" };
        seen.only(Host, ids, vec![q]);
    }
    let digests = nvmf_wire::tcp::Digests { header: true, data: false };
    let mut q = connected(1, digests);
    q.command(crate::io("Flush", 7, 0), &[]);
    let head = nvmf_wire::tcp::CapsuleResp::new().with(|s| s.cqe(*nvmf_wire::Cqe::of(nvmf_wire::Cid(7), OK, 2).as_bytes()));
    let mut bad = wrong_pdu(&q, PduType::CAPSULE_RESP, head.as_bytes(), &[], &[]);
    bad[24] ^= 1;
    q.raw(C2H, &bad);
    q.rec.close(H2C, q.now_ns, false);
    seen.only(Host, "TCP-DGST-21 TCP-TERM-15", vec![q]);

    let term = |dir| {
        let ptype = if dir == H2C { PduType::H2C_TERM_REQ } else { PduType::C2H_TERM_REQ };
        wrong_pdu(&Talk::new(), ptype, nvmf_wire::tcp::TermReq::new().with(|s| s.fes(nvmf_wire::tcp::Fes(6))).as_bytes(), &[], &[])
    };
    for (side, ids, dir, wait_s) in
        [(Host, "TCP-TERM-07", C2H, 30), (Host, "", C2H, 29), (Controller, "TCP-TERM-19", H2C, 30), (Controller, "", H2C, 29)]
    {
        let mut q = connected(1, PLAIN);
        q.raw(dir, &term(dir));
        q.now_ns += wait_s * 1_000_000_000;
        q.rec.close(dir, q.now_ns, false);
        seen.only(side, ids, vec![q]);
    }
    // Two fields at fault: the lower one is to be named.
    let two = |side: nvmf_spec::Side| {
        let (dir, ptype, head) = match side {
            Controller => (H2C, PduType::IC_REQ, IcReq::new().as_bytes().to_vec()),
            Host => (C2H, PduType::IC_RESP, IcResp::new().with(|s| s.maxh2cdata(8192)).as_bytes().to_vec()),
        };
        let wrong = wrong_pdu(&Talk::new(), ptype, &head, &[], &[(8, 1), (10, 32)]);
        let mut t = Talk::new();
        if side == Host {
            t.send(H2C, PduType::IC_REQ, IcReq::new().as_bytes(), &[]);
        }
        t.raw(dir, &wrong);
        let back = if side == Host { PduType::H2C_TERM_REQ } else { PduType::C2H_TERM_REQ };
        let head = nvmf_wire::tcp::TermReq::new().with(|s| s.fes(nvmf_wire::tcp::Fes(1)).fei(10));
        t.raw(dir.reverse(), &wrong_pdu(&Talk::new(), back, head.as_bytes(), &wrong[..24], &[]));
        vec![t]
    };
    seen.only(Controller, "TCP-TERM-51", two(Controller));
    seen.only(Host, "TCP-TERM-35", two(Host));
}

fn names(seen: &mut Seen) {
    let host = |name: &str| {
        let mut t = Talk::new();
        t.start(PLAIN);
        let (sqe, data) = connect(0, 0);
        t.command(sqe, data.with(|s| s.hostnqn(Text::new(name))).as_bytes());
        vec![t]
    };
    seen.only(Host, "NQN-05", host("nqn.2014-08.org.nvmexpress:host"));
    let mut t = Talk::new();
    t.start(PLAIN);
    let (sqe, data) = connect(0, 0);
    t.command(sqe, data.with(|s| s.subnqn(Text::new(DISCOVERY_NQN)).cntlid(nvmf_wire::Cntlid(7))).as_bytes());
    seen.only(Host, "FAB-CNTLID-02", vec![t]);

    let entry = |ints: &[(&str, u64)], texts: &[(&str, &str)]| {
        let right = [("trtype", 3), ("adrfam", 1), ("subtype", 2), ("portid", 1), ("cntlid", 0xffff), ("asqsz", 32)];
        let names = [("trsvcid", "4420"), ("traddr", "10.0.0.2"), ("subnqn", "nqn.2026-01.org.example:sub")];
        fields::<DiscoveryEntry>(&[&right[..], ints].concat(), &[&names[..], texts].concat())
    };
    let page = |seen: &mut Seen, ids: &str, entries: &[Vec<u8>]| {
        let mut t = up_as(DISCOVERY_NQN);
        let head = fields::<nvmf_wire::log::DiscoveryHeader>(&[("numrec", entries.len() as u64)], &[]);
        let data = [head, entries.concat()].concat();
        t.fetch(log(9, 0x70, data.len(), &[]), &data);
        seen.breaks(Controller, ids, vec![t]);
    };
    page(seen, "NQN-05", &[entry(&[], &[("subnqn", "nqn.2014-08.org.nvmexpress:subsystem")])]);
    page(seen, "DISC-LOG-22", &[entry(&[], &[("traddr", "10.0.0.256")])]);
    page(seen, "", &[entry(&[("adrfam", 2)], &[("traddr", "fe80::1%eth0")])]);
    page(seen, "TCP-DISC-05", &[entry(&[], &[("trsvcid", "8009")])]);
    page(seen, "DISC-LOG-17", &[entry(&[], &[]), entry(&[("portid", 2), ("treq_secure", 1)], &[])]);
}

/// What a host learns before it goes on.
fn order(seen: &mut Seen) {
    let mut t = connected(0, PLAIN);
    t.command(sqe("PropertySet", 9, &[("ofst", 0x14), ("value", 0x0046_0001)]), &[]);
    seen.only(Host, "FAB-INIT-01", vec![t]);
    let bare = || {
        let mut t = connected(0, PLAIN);
        get_cap(&mut t, 1, CAP);
        set_cc(&mut t, 2, 0x0046_0001);
        property(&mut t, 3, 0x1c, false, 1);
        t
    };
    let mut q = io_queue(&bare());
    q.rec = shifted(&q, 1);
    seen.only(Host, "FAB-QUEUE-18 FAB-INIT-04 FAB-INIT-05", vec![bare(), q]);
    let mut t = Talk::new();
    t.start(PLAIN);
    let (command, data) = connect(0, 0);
    t.command(command, data.with(|s| s.subnqn(Text::new(DISCOVERY_NQN))).as_bytes());
    t.answer(0, OK, 1);
    get_cap(&mut t, 1, CAP);
    set_cc(&mut t, 2, 0x0046_0001);
    property(&mut t, 3, 0x1c, false, 1);
    t.command(log(9, 0x70, 1024, &[]).with_sgl1(SglDescriptor::transport(1024)), &[]);
    seen.only(Host, "DISC-CTRL-20", vec![t]);

    // The log in parts: rising offsets, and the header once more at the end.
    let parts = |lid: u64, offsets: &[u64]| {
        let mut t = up_as(if lid == 0x70 { DISCOVERY_NQN } else { "nqn.2026-01.org.example:sub" });
        for (n, lpo) in offsets.iter().enumerate() {
            t.refuse(
                log(20 + n as u16, lid, 1024, &[("lpo", *lpo)]).with_sgl1(SglDescriptor::transport(1024)),
                Status::INTERNAL_ERROR,
            );
        }
        t.rec.close(H2C, t.now_ns, false);
        vec![t]
    };
    seen.only(Host, "", parts(0x70, &[0, 1024, 2048, 0]));
    seen.only(Host, "DISC-LOG-02 ADM-LOG-42", parts(0x70, &[0, 1024, 2048]));
    seen.only(Host, "DISC-LOG-02 ADM-LOG-42", parts(0x70, &[0, 2048, 1024, 0]));
    seen.only(Host, "ANA-08", parts(0x0c, &[0, 1024]));
}

fn keep_alive(seen: &mut Seen) {
    // KATO is 5 s.
    let gap = |tbkas: u64, wait_s: u64| {
        let mut t = up();
        t.fetch(identify(8, 1, 0), &controller(&[("ctratt_tbkas", tbkas)]));
        t.ask(sqe("KeepAlive", 9, &[]), 0);
        t.now_ns += wait_s * 1_000_000_000;
        t.ask(sqe("KeepAlive", 10, &[]), 0);
        vec![t]
    };
    seen.only(Host, "", gap(0, 4));
    seen.only(Host, "KA-13 ADM-KA-11", gap(0, 6));
    seen.only(Host, "KA-16 ADM-KA-12", gap(1, 6));
    for (ids, dlpc) in [("", 1), ("ADM-KA-13 DISC-CTRL-07", 0)] {
        let mut t = Talk::new();
        t.start(PLAIN);
        let (command, data) = connect(0, 0);
        let silent = raw(command, &[(48, 0), (49, 0)]);
        t.command(silent, data.with(|s| s.subnqn(Text::new(DISCOVERY_NQN))).as_bytes());
        t.answer(0, OK, 1);
        get_cap(&mut t, 1, CAP);
        set_cc(&mut t, 2, 0x0046_0001);
        property(&mut t, 3, 0x1c, false, 1);
        t.fetch(identify(8, 1, 0), &controller(&[("cntrltype", 2), ("oaes_dlpc", dlpc)]));
        t.ask(sqe("KeepAlive", 9, &[]), 0);
        seen.only(Controller, ids, vec![t]);
    }
}

fn events(seen: &mut Seen) {
    let two = |read: Option<u64>| {
        let mut t = up();
        t.ask(sqe("SetFeatures", 8, &[("fid", 0x0b), ("value", 0x100)]), 0);
        t.ask(sqe("AsyncEventRequest", 9, &[]), 0x0004_0002);
        if let Some(rae) = read {
            t.fetch(log(10, 4, 4096, &[("rae", rae)]), &[0; 4096]);
        }
        t.ask(sqe("AsyncEventRequest", 11, &[]), 0x0004_0002);
        vec![t]
    };
    let masked = "AER-02 ADM-AER-06 ADM-AER-07 ADM-LOG-10";
    seen.only(Controller, "", two(Some(0)));
    seen.only(Controller, masked, two(None));
    seen.only(Controller, masked, two(Some(1)));
    let mut t = up();
    t.ask(sqe("SetFeatures", 8, &[("fid", 0x0b), ("value", 0x200)]), 0);
    t.ask(sqe("AsyncEventRequest", 9, &[]), 0x0004_0002);
    seen.only(Controller, "ADM-AER-09", vec![t]);
}

fn features(seen: &mut Seen) {
    let get = |cid: u16, fid: u64, sel: u64| sqe("GetFeatures", cid, &[("fid", fid), ("sel", sel)]);
    let set = |cid: u16, fid: u64, value: u64, sv: u64| sqe("SetFeatures", cid, &[("fid", fid), ("value", value), ("sv", sv)]);
    let talk = |seen: &mut Seen, ids: &str, steps: &[(Sqe, Status, u32)]| {
        let mut t = up();
        for (sqe, status, dw0) in steps {
            t.command(*sqe, &[]);
            t.answer(sqe.cid().0, *status, *dw0);
        }
        seen.only(Controller, ids, vec![t]);
    };
    talk(seen, "ADM-FEAT-52", &[(get(9, 0x7e, 3), OK, 6)]);
    let saveable = Status::FEATURE_IDENTIFIER_NOT_SAVEABLE;
    talk(seen, "ADM-FEAT-07", &[(get(9, 1, 3), OK, 4), (set(10, 1, 3, 1), OK, 0)]);
    talk(seen, "", &[(get(9, 1, 3), OK, 4), (set(10, 1, 3, 1), saveable, 0)]);
    talk(seen, "ADM-FEAT-08", &[(get(9, 1, 3), OK, 0), (get(10, 1, 1), OK, 7), (set(11, 1, 3, 0), OK, 0)]);
    let all = |name: &str, fid: u64| sqe(name, 9, &[("fid", fid), ("nsid", 0xffff_ffff)]);
    talk(seen, "ADM-FEAT-13", &[(all("GetFeatures", 5), OK, 0)]);
    talk(seen, "ADM-FEAT-49", &[(all("GetFeatures", 0x82), OK, 0)]);
    talk(seen, "ADM-FEAT-55", &[(all("SetFeatures", 3), OK, 0)]);
    let mut t = up();
    t.fetch(identify(8, 1, 0), &controller(&[("ctratt_mds", 1), ("did", 1)]));
    t.ask(all("SetFeatures", 5), 0);
    seen.only(Controller, "ADM-FEAT-14", vec![t]);
    let behave = |value: u8| {
        let mut t = up();
        let command = sqe("SetFeatures", 9, &[("fid", 0x16)]).with_sgl1(SglDescriptor::in_capsule(0, 512));
        t.command(command, &bent(&[0; 512], &[(0, value)]));
        t.answer(9, OK, 0);
        t
    };
    seen.only(Controller, "ADM-FEAT-39 SQE-12", vec![behave(2)]);
    for (ids, read) in [("", 1), ("ADM-FEAT-38", 0)] {
        let mut t = behave(1);
        t.fetch(get(10, 0x16, 0), &bent(&[0; 512], &[(0, read)]));
        seen.only(Controller, ids, vec![t]);
    }
    for (ids, fid, cap) in
        [("ADM-FEAT-19", 1, CAP), ("ADM-FEAT-20", 0x0a, CAP), ("ADM-FEAT-40", 0x19, CAP | 1 << 43), ("", 0x19, CAP)]
    {
        let mut t = up();
        get_cap(&mut t, 8, cap);
        let q = io_queue(&t);
        t.now_ns = q.now_ns;
        t.refuse(get(9, fid, 0), Status::INVALID_FIELD_IN_COMMAND);
        seen.only(Controller, ids, vec![t, q]);
    }
}

fn refusals(seen: &mut Seen) {
    let data = |cns: u64, nsid: u64| identify(9, cns, nsid).with_sgl1(SglDescriptor::transport(4096));
    let says = |seen: &mut Seen, ids: &str, sqe: Sqe| {
        let mut t = up();
        t.refuse(sqe, OK);
        seen.only(Controller, ids, vec![t]);
    };
    says(seen, "ADM-IDENTIFY-35", data(0x11, 0xffff_ffff));
    says(seen, "ADM-IDENTIFY-37", data(0x12, 0xffff_ffff));
    let page = |lid: u64, lpo: u64| log(9, lid, 512, &[("lpo", lpo)]).with_sgl1(SglDescriptor::transport(512));
    says(seen, "ADM-LOG-44", page(0x81, 0));
    says(seen, "ADM-LOG-37", page(0x07, 256));
    // An administrative controller.
    let plain = || {
        let mut t = up();
        t.fetch(identify(8, 1, 0), &controller(&[("cntrltype", 3)]));
        t
    };
    let mut t = plain();
    t.fetch(identify(9, 2, 0), &bent(&vec![0; 4096], &[(0, 1)]));
    seen.only(Controller, "ADM-PROHIB-06 FAB-ASSOC-08", vec![t]);
    let t = plain();
    let mut q = io_queue(&t);
    q.now_ns = 0;
    seen.only(Controller, "ADM-PROHIB-06 FAB-ASSOC-08", vec![t, q]);

    let mut t = up_as(DISCOVERY_NQN);
    property(&mut t, 9, 0x14, false, 0x0046_0001);
    seen.only(Controller, "RESET-14 FAB-PROP-29", vec![t]);
}

/// Statuses about media that is not ready.
fn media(seen: &mut Seen) {
    for (status, ids) in [
        (Status::NAMESPACE_NOT_READY, "CQE-11"),
        (Status::NAMESPACE_NOT_READY.dnr(), ""),
        (Status::ADMIN_COMMAND_MEDIA_NOT_READY, "CQE-11 CQE-10"),
    ] {
        let mut t = up();
        t.refuse(sqe("GetFeatures", 9, &[("fid", 1)]), status);
        seen.only(Controller, ids, vec![t]);
    }
}

/// An I/O queue of a controller with these capabilities and this namespace.
fn queue(of: &[(&str, u64)], ns: &[(&str, u64)], nvm: &[(&str, u64)]) -> (Talk, Talk) {
    let mut t = up();
    t.fetch(identify(8, 1, 0), &controller(of));
    t.fetch(identify(9, 0, 1), &namespace(ns));
    t.fetch(identify(10, 6, 0), &fields::<nvmf_wire::identify::IdentifyControllerNvm>(nvm, &[]));
    let q = io_queue(&t);
    (t, q)
}

fn io(seen: &mut Seen) {
    let all = [("oncs_wzs", 1), ("oncs_verify", 1), ("oncs_copy", 1), ("oncs_dsm", 1), ("oncs_wus", 1), ("oncs_compare", 1)];
    let copies = [("mssrl", 8), ("mcl", 8), ("msrc", 1)];
    let says = |seen: &mut Seen, ids: &str, of: &[(&str, u64)], ns: &[(&str, u64)], nvm: &[(&str, u64)], sqe: Sqe, status| {
        let (t, mut q) = queue(of, &[&copies[..], ns].concat(), nvm);
        q.refuse(sqe, status);
        seen.only(Controller, ids, vec![t, q]);
    };
    let plain = |name: &str, more: &[(&str, u64)]| sqe(name, 9, &[&[("nsid", 1)], more].concat());
    let size = Status::COMMAND_SIZE_LIMIT_EXCEEDED;
    says(seen, "NVM-RW-30", &all, &[], &[], plain("Verify", &[("prinfo", 8)]), OK);
    says(
        seen,
        "NVM-RW-23 SQE-36",
        &all,
        &[],
        &[],
        plain("DatasetManagement", &[("nr", 1)]).with_sgl1(SglDescriptor::transport(16)),
        OK,
    );
    let copy = |fields: &[(&str, u64)]| plain("Copy", fields).with_sgl1(SglDescriptor::transport(96));
    says(seen, "NVM-RW-33", &all, &[], &[], copy(&[("desfmt", 1)]), OK);
    let formats = [&all[..], &[("cdfs_0", 1)]].concat();
    says(seen, "NVM-RW-35", &formats, &[], &[], copy(&[("nr", 2)]), OK);
    says(seen, "", &formats, &[], &[], copy(&[("nr", 2)]), size);
    says(seen, "", &formats, &[], &[], copy(&[("nr", 1)]), OK);
    says(seen, "NVM-RW-38", &all, &[("nsattr_wp", 1)], &[], plain("WriteZeroes", &[]), OK);
    // Limits of 4 KiB, where ONCS does not lift them.
    let limits = [("wzsl", 1), ("vsl", 1), ("wusl", 1)];
    for (name, which) in [("WriteZeroes", "NVM-RW-22"), ("Verify", "NVM-RW-31"), ("WriteUncorrectable", "NVM-RW-32")] {
        says(seen, "", &[], &[], &limits, plain(name, &[("nlb", 15)]), OK);
        says(seen, which, &[], &[], &limits, plain(name, &[("nlb", 16)]), OK);
        says(seen, "", &all, &[], &limits, plain(name, &[("nlb", 16)]), OK);
    }
    let (mut t, mut q) = queue(&[], &[], &[]);
    t.now_ns = q.now_ns;
    set_cc(&mut t, 20, 0x0046_0000);
    property(&mut t, 21, 0x1c, false, 0);
    set_cc(&mut t, 22, 0x0046_0071);
    property(&mut t, 23, 0x1c, false, 1);
    q.now_ns = t.now_ns;
    q.refuse(plain("Flush", &[]), OK);
    seen.only(Controller, "SQE-45 FAB-PROP-31", vec![t, q]);
}

fn reservations(seen: &mut Seen) {
    let says = |seen: &mut Seen, ids: &str, of: u64, opcode: u8, dw10: u32, dw11: u32, status| {
        let (t, mut q) = queue(&[("oncs_reservs", of)], &[], &[]);
        let [a, b, c, d] = dw10.to_le_bytes();
        let command = raw(sqe("Flush", 9, &[("nsid", 1)]), &[(0, opcode), (40, a), (41, b), (42, c), (43, d), (44, dw11 as u8)]);
        q.refuse(command, status);
        seen.only(Controller, ids, vec![t, q]);
    };
    says(seen, "NVM-RW-02 RES-01", 0, 0x0d, 0, 0, OK);
    says(seen, "", 0, 0x0d, 0, 0, Status::INVALID_COMMAND_OPCODE);
    says(seen, "", 1, 0x0d, 0, 0, OK);
    says(seen, "RES-26", 1, 0x0d, 3, 0, OK);
    says(seen, "RES-26", 1, 0x11, 0x700, 0, OK);
    says(seen, "RES-10", 1, 0x11, 0x108, 0, OK);
    says(seen, "RES-22", 1, 0x0e, 0, 0, OK);
    says(seen, "", 1, 0x0e, 0, 1, OK);
}

fn fused(seen: &mut Seen) {
    let half = |cid: u16, fuse: u8| raw(crate::io("Read", cid, 512), &[(1, 0x40 | fuse)]);
    let both = |first: Status, second: Status| {
        let (t, mut q) = queue(&[("fuses", 1)], &[], &[]);
        q.command(half(1, 1), &[]);
        q.command(half(2, 2), &[]);
        q.answer(1, first, 0);
        q.answer(2, second, 0);
        vec![t, q]
    };
    seen.only(Controller, "", both(OK, OK));
    seen.only(Controller, "", both(Status::COMPARE_FAILURE, Status::ABORTED_FAILED_FUSED));
    seen.only(Controller, "NVM-FUSED-05 NVM-FUSED-06 FAB-TRANS-17", both(Status::COMPARE_FAILURE, OK));
    for (status, ids) in [(OK, "NVM-FUSED-04"), (Status::ABORTED_MISSING_FUSED, "")] {
        let (t, mut q) = queue(&[("fuses", 1)], &[], &[]);
        q.command(half(1, 1), &[]);
        q.command(crate::io("Flush", 2, 0), &[]);
        q.answer(1, status, 0);
        seen.only(Controller, ids, vec![t, q]);
    }
}

/// What Compare finds, and what commands without data leave behind.
fn blocks(seen: &mut Seen) {
    let able = [("oncs_compare", 1), ("oncs_wzs", 1), ("oncs_wus", 1)];
    let written = || {
        let (t, mut q) = queue(&able, &[], &[]);
        q.command(sqe("Write", 1, &[("nsid", 1), ("slba", 8)]).with_sgl1(SglDescriptor::in_capsule(0, 512)), &[5; 512]);
        q.answer(1, OK, 0);
        (t, q)
    };
    for (data, status, ids) in
        [(5, OK, ""), (6, Status::COMPARE_FAILURE, ""), (6, OK, "NVM-RW-18"), (5, Status::COMPARE_FAILURE, "NVM-RW-18")]
    {
        let (t, mut q) = written();
        q.command(sqe("Compare", 2, &[("nsid", 1), ("slba", 8)]).with_sgl1(SglDescriptor::in_capsule(0, 512)), &[data; 512]);
        q.answer(2, status, 0);
        seen.only(Controller, ids, vec![t, q]);
    }
    for (name, data, ids) in [("WriteZeroes", 0, ""), ("WriteZeroes", 5, "NVM-RW-20"), ("WriteUncorrectable", 5, "NVM-RW-32")] {
        let (t, mut q) = written();
        q.ask(sqe(name, 2, &[("nsid", 1), ("slba", 8)]), 0);
        q.fetch(sqe("Read", 3, &[("nsid", 1), ("slba", 8)]), &[data; 512]);
        seen.only(Controller, ids, vec![t, q]);
    }
}

fn data(seen: &mut Seen) {
    let mut t = up();
    t.fetch(identify(8, 1, 0), &controller(&[("ctratt_ulist", 1)]));
    t.fetch(identify(9, 0x17, 0), &[0; 4096]);
    seen.only(Controller, "ADM-IDENTIFY-39", vec![t]);
    let mut t = up();
    t.fetch(identify(8, 0, 1), &namespace(&[("lbaf0", 9 << 16 | 8)]));
    seen.only(Controller, "SQE-20", vec![t]);
    let mut t = up();
    t.fetch(identify(8, 0, 1), &namespace(&[]));
    t.fetch(identify(9, 0, 2), &namespace(&[("dlfeat_wzds", 1)]));
    seen.only(Controller, "ADM-IDENTIFY-79", vec![t]);
    for (ids, ready) in [("", 1), ("ADM-IDENTIFY-33", 0)] {
        let mut t = up();
        t.fetch(identify(8, 0, 1), &namespace(&[]));
        t.fetch(identify(9, 8, 1), &fields::<nvmf_wire::identify::IdentifyNamespaceIndependent>(&[("nstat_ready", ready)], &[]));
        seen.only(Controller, ids, vec![t]);
    }
    let mut t = up();
    t.fetch(log(9, 1, 64, &[]), &fields::<ErrorEntry>(&[("count", 1), ("sqid", 0xffff), ("cid", 3)], &[]));
    seen.only(Controller, "ADM-LOG-20", vec![t]);
    let ana = [("cmic_ana", 1), ("anatt", 5), ("anagrpmax", 4), ("nanagrpid", 4), ("anacap_optimized", 1), ("anacap_fixed", 1)];
    let mut t = up();
    t.fetch(identify(8, 1, 0), &controller(&ana));
    t.fetch(identify(9, 0, 1), &namespace(&[("anagrpid", 2)]));
    let mut page = fields::<AnaHeader>(&[("groups", 1)], &[]);
    page.extend(fields::<AnaGroup>(&[("grpid", 1), ("state", 1), ("nsids", 1)], &[]));
    page.extend(1u32.to_le_bytes());
    t.fetch(log(10, 0x0c, page.len(), &[]), &page);
    seen.only(Controller, "ANA-05 ANA-19", vec![t]);
}

/// Two associations with one controller, both served.
fn associations(seen: &mut Seen) {
    for (ids, again) in [("", false), ("FAB-CNTLID-14", true)] {
        let mut first = up();
        let mut second = up();
        second.rec = shifted(&second, first.now_ns);
        first.now_ns = first.now_ns * 2 + 1;
        if again {
            first.ask(sqe("KeepAlive", 9, &[]), 0);
        }
        seen.only(Controller, ids, vec![first, second]);
    }
}
