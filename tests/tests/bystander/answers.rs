//! Answers to commands that have to be refused, and statuses that say what is not so.

use nvmf_spec::Side::Controller;
use nvmf_wire::nqn::DISCOVERY_NQN;
use nvmf_wire::value::Text;
use nvmf_wire::{Cntlid, SglDescriptor, Sqe, Status};

use crate::admin::{identify, log, namespace};
use crate::talk::{Talk, bent, connect, controller, io_queue, set_cc, sqe, up, up_as};
use crate::{PLAIN, Seen};

pub fn cases(seen: &mut Seen) {
    before_and_after(seen);
    fabrics(seen);
    connects(seen);
    blame(seen);
    admin(seen);
    features(seen);
    pages(seen);
    io(seen);
    claims(seen);
    digests(seen);
}

const FIELD: Status = Status::INVALID_FIELD_IN_COMMAND;
const OPCODE: Status = Status::INVALID_COMMAND_OPCODE;
const SEQUENCE: Status = Status::COMMAND_SEQUENCE_ERROR;

fn raw(sqe: Sqe, changes: &[(usize, u8)]) -> Sqe {
    Sqe::from_bytes(bent(sqe.as_bytes(), changes).try_into().unwrap())
}

/// A command with another opcode.
fn opcode(value: u8) -> Sqe {
    raw(sqe("KeepAlive", 9, &[]), &[(0, value)])
}

/// On `start` the command is answered with each of the statuses; those of `wrong` break `ids`, those of `right` nothing.
/// What the host breaks is of no interest here.
#[track_caller]
fn judged(seen: &mut Seen, ids: &str, start: &dyn Fn() -> Talk, sqe: Sqe, wrong: &[Status], right: &[Status]) {
    for (status, due) in wrong.iter().map(|s| (s, ids)).chain(right.iter().map(|s| (s, ""))) {
        let mut t = start();
        t.refuse(sqe, *status);
        seen.only(Controller, due, vec![t]);
    }
}

fn known() -> Talk {
    let mut t = up();
    t.fetch(identify(8, 1, 0), &controller(&[]));
    t
}

fn before_and_after(seen: &mut Seen) {
    let fresh = || {
        let mut t = Talk::new();
        t.start(PLAIN);
        t
    };
    let ok = Status::SUCCESS;
    judged(seen, "FAB-QUEUE-12", &fresh, sqe("PropertyGet", 9, &[("ofst", 0x14)]), &[ok], &[SEQUENCE, OPCODE]);
    judged(seen, "FAB-QUEUE-12", &fresh, sqe("KeepAlive", 9, &[]), &[ok], &[SEQUENCE, OPCODE]);
    let off = || crate::connected(0, PLAIN);
    judged(
        seen,
        "FAB-QUEUE-05 SQE-38",
        &off,
        identify(9, 1, 0).with_sgl1(SglDescriptor::transport(4096)),
        &[ok, OPCODE],
        &[SEQUENCE, Status::INTERNAL_ERROR],
    );
    let shut = || {
        let mut t = up();
        set_cc(&mut t, 8, 0x0046_4001);
        t
    };
    judged(seen, "RESET-21 FAB-INIT-20", &shut, sqe("KeepAlive", 9, &[]), &[ok], &[SEQUENCE, FIELD]);
}

fn fabrics(seen: &mut Seen) {
    let ok = Status::SUCCESS;
    let get = |fields: &[(&str, u64)]| sqe("PropertyGet", 9, fields);
    judged(seen, "FAB-CMD-07 SQE-10 FAB-CMD-13", &up, raw(get(&[("ofst", 0x14)]), &[(4, 0x10)]), &[ok, OPCODE], &[FIELD]);
    let io = || crate::connected(1, PLAIN);
    judged(seen, "FAB-CMD-04", &io, get(&[("ofst", 0x14)]), &[ok, OPCODE], &[FIELD]);
    judged(seen, "FAB-CMD-13 SQE-12", &up, get(&[("ofst", 8), ("attrib", 7)]), &[ok], &[FIELD]);
    judged(seen, "FAB-PROP-02 RESET-29", &up, get(&[("ofst", 0x15)]), &[ok], &[FIELD]);
    judged(seen, "FAB-PROP-02 RESET-29", &up, get(&[("ofst", 8), ("attrib", 1)]), &[ok], &[FIELD]);
    judged(seen, "FAB-PROP-03 RESET-29", &up, sqe("PropertySet", 9, &[("ofst", 0x15)]), &[ok], &[FIELD]);
    let leave = |recfmt: u8| raw(sqe("Disconnect", 9, &[]), &[(40, recfmt)]);
    judged(seen, "FAB-DISC-01 ADM-PROHIB-07", &up, leave(0), &[ok, SEQUENCE], &[Status::INVALID_QUEUE_TYPE, OPCODE, FIELD]);
    judged(seen, "FAB-DISC-03", &io, leave(1), &[ok, FIELD], &[Status::INCOMPATIBLE_FORMAT]);
}

/// A queue that is about to be connected, and its Connect with bytes changed in command and data.
fn connecting(qid: u16, changes: &[(usize, u8)], data: &[(usize, u8)], status: Status, dw0: u32) -> Talk {
    let mut t = Talk::new();
    t.start(PLAIN);
    let (sqe, d) = connect(qid, 0);
    t.command(raw(sqe, changes), &bent(d.as_bytes(), data));
    t.answer(0, status, dw0);
    t
}

fn connects(seen: &mut Seen) {
    let (ok, invalid) = (Status::SUCCESS, Status::CONNECT_INVALID_PARAMETERS);
    let alone = |seen: &mut Seen, ids: &str, changes: &[(usize, u8)], status, dw0| {
        seen.only(Controller, ids, vec![connecting(0, changes, &[], status, dw0)]);
    };
    alone(seen, "FAB-CONNECT-04", &[(40, 1)], ok, 1);
    alone(seen, "FAB-CONNECT-04", &[(40, 1)], invalid, 40);
    alone(seen, "", &[(40, 1)], Status::INCOMPATIBLE_FORMAT, 0);
    alone(seen, "FAB-CONNECT-07 CQE-17", &[(44, 0)], ok, 1);
    alone(seen, "", &[(44, 0)], invalid, 44);
    alone(seen, "FAB-CONNECT-08 FAB-QUEUE-14", &[(45, 0x20)], ok, 1);
    judged(seen, "FAB-CONNECT-03", &up, connect(0, 9).0, &[ok, OPCODE], &[SEQUENCE]);
    let service = |qid: u16, cntlid: u16, status, dw0| {
        let mut t = Talk::new();
        t.start(PLAIN);
        let (sqe, d) = connect(qid, 0);
        t.command(sqe, d.with(|s| s.subnqn(Text::new(DISCOVERY_NQN)).cntlid(Cntlid(cntlid))).as_bytes());
        t.answer(0, status, dw0);
        vec![t]
    };
    seen.only(Controller, "DISC-CTRL-02 ADM-PROHIB-02", service(1, 1, ok, 1));
    seen.only(Controller, "FAB-CNTLID-09 FAB-CNTLID-03", service(0, 7, ok, 7));
    seen.only(Controller, "", service(0, 7, invalid, 0x1_0010));

    // I/O queues of a controller that is known.
    let second = |admin: Talk, changes: &[(usize, u8)], data: &[(usize, u8)], status, dw0| {
        let mut t = connecting(1, changes, data, status, dw0);
        t.rec = shifted(&t, admin.now_ns);
        vec![admin, t]
    };
    seen.only(Controller, "FAB-CONNECT-23", second(up(), &[], &[(0, 0x99)], ok, 1));
    seen.only(Controller, "FAB-CONNECT-23 FAB-CONNECT-03", second(up(), &[], &[(0, 0x99)], SEQUENCE, 0));
    seen.only(Controller, "", second(up(), &[], &[(0, 0x99)], invalid, 0x1_0000));
    seen.only(Controller, "FAB-CONNECT-08 FAB-PROP-17", second(up(), &[(45, 0x10)], &[], ok, 1));
    seen.only(Controller, "FAB-CONNECT-21", second(crate::connected(0, PLAIN), &[], &[], ok, 1));
    seen.only(Controller, "FAB-CONNECT-21 FAB-CONNECT-03", second(crate::connected(0, PLAIN), &[], &[], SEQUENCE, 0));
    seen.only(Controller, "FAB-CONNECT-03", second(up(), &[], &[], SEQUENCE, 0));
    let admin = up();
    let first = io_queue(&admin);
    let again = |status, dw0| {
        let mut t = connecting(1, &[], &[], status, dw0);
        t.rec = shifted(&t, first.now_ns);
        t
    };
    seen.only(Controller, "FAB-CONNECT-03", vec![up(), io_queue(&admin), again(ok, 1)]);
    seen.only(Controller, "", vec![up(), io_queue(&admin), again(SEQUENCE, 0)]);
}

/// The events of `t`, all later by `by_ns`.
pub fn shifted(t: &Talk, by_ns: u64) -> nvmf_capture::Recorder {
    let c = t.rec.connection();
    let mut rec = nvmf_capture::Recorder::new(c.client, c.server, by_ns);
    for chunk in &c.chunks {
        rec.push(chunk.dir, chunk.at_ns + by_ns, chunk.bytes.clone());
    }
    rec
}

/// What a refused Connect blames.
fn blame(seen: &mut Seen) {
    let invalid = Status::CONNECT_INVALID_PARAMETERS;
    let says = |seen: &mut Seen, ids: &str, status, dw0| {
        seen.only(Controller, ids, vec![connecting(0, &[], &[], status, dw0)]);
    };
    says(seen, "", invalid, 0x1_0100);
    says(seen, "FAB-CONNECT-36", invalid, 42);
    says(seen, "FAB-CONNECT-36", invalid, 512);
    says(seen, "FAB-CONNECT-36", invalid, 0x2_0100 | 0x1_0000);
    says(seen, "FAB-CONNECT-36", invalid, 0x1_0000);
    says(seen, "FAB-CONNECT-34", FIELD, 0);
    says(seen, "FAB-CONNECT-17", Status::DATA_SGL_LENGTH_INVALID, 0);
    says(seen, "FAB-CONNECT-03", SEQUENCE, 0);
    says(seen, "FAB-STATUS-06", Status::INVALID_QUEUE_IDENTIFIER, 0);
    says(seen, "FAB-STATUS-07 FAB-CONNECT-42", Status::AUTHENTICATION_REQUIRED, 0);
}

fn admin(seen: &mut Seen) {
    let ok = Status::SUCCESS;
    judged(seen, "SQE-40 FAB-ASSOC-06", &up, opcode(5), &[ok], &[OPCODE, FIELD]);
    judged(seen, "SQE-09", &up, opcode(0x6c), &[ok, FIELD], &[OPCODE]);
    judged(seen, "SQE-08", &up, raw(opcode(0x18), &[(1, 0x43)]), &[ok], &[FIELD]);
    judged(seen, "SQE-06", &up, raw(opcode(0x18), &[(1, 0xc0)]), &[ok], &[FIELD]);
    let identify = |cns, nsid| identify(9, cns, nsid).with_sgl1(SglDescriptor::transport(4096));
    let keyed = identify(1, 0).with_sgl1(SglDescriptor::read(&bent(&[0; 16], &[(9, 0x10), (15, 0x40)])).unwrap());
    judged(seen, "SGL-03 SQE-33 TCP-SGL-07", &up, keyed, &[ok, FIELD], &[Status::SGL_DESCRIPTOR_TYPE_INVALID]);
    judged(seen, "ADM-IDENTIFY-02 SQE-12", &up, identify(0x50, 0), &[ok], &[FIELD]);
    judged(seen, "SQE-16 FAB-STATUS-11", &up, identify(0, 0), &[ok, FIELD], &[Status::INVALID_NAMESPACE_OR_FORMAT]);
    judged(seen, "ADM-IDENTIFY-12", &known, identify(0, 0xffff_ffff), &[ok], &[Status::INVALID_NAMESPACE_OR_FORMAT]);
    judged(seen, "ADM-IDENTIFY-15 ADM-IDENTIFY-30", &up, identify(2, 0xffff_fffe), &[ok], &[Status::INVALID_NAMESPACE_OR_FORMAT]);
    let cut = identify(1, 0).with_sgl1(SglDescriptor::transport(512));
    judged(seen, "SGL-06 SQE-36", &up, cut, &[ok, FIELD], &[Status::DATA_SGL_LENGTH_INVALID]);
    let long = identify(1, 0).with_sgl1(SglDescriptor::transport(8192));
    judged(seen, "SGL-07 SQE-36", &known, long, &[ok], &[Status::DATA_SGL_LENGTH_INVALID]);
    judged(seen, "ADM-PROHIB-04", &known, opcode(0x14), &[ok], &[OPCODE]);
    let service = || up_as(DISCOVERY_NQN);
    judged(seen, "ADM-PROHIB-01 DISC-CTRL-10", &service, opcode(0x14), &[ok], &[OPCODE]);
}

fn features(seen: &mut Seen) {
    let ok = Status::SUCCESS;
    let get = |fields: &[(&str, u64)]| sqe("GetFeatures", 9, fields);
    let set = |fid: u64, value: u64| sqe("SetFeatures", 9, &[("fid", fid), ("value", value)]);
    judged(seen, "ADM-FEAT-02 SQE-12", &up, get(&[("fid", 1), ("sel", 7)]), &[ok], &[FIELD]);
    judged(seen, "ADM-FEAT-01", &up, get(&[("fid", 0)]), &[ok], &[FIELD]);
    judged(seen, "ADM-FEAT-21", &up, get(&[("fid", 8)]), &[ok], &[FIELD]);
    judged(seen, "ADM-FEAT-46 SQE-12", &up, get(&[("fid", 4), ("value", 0x9_0000)]), &[ok], &[FIELD]);
    judged(seen, "ADM-FEAT-46 SQE-12", &up, set(4, 0x20_0000), &[ok], &[FIELD]);
    judged(seen, "ADM-KA-07 KA-07", &up, set(0x0f, 0), &[ok, FIELD], &[Status::KEEP_ALIVE_TIMEOUT_INVALID]);
    judged(seen, "ADM-FEAT-35 HOSTID-02", &up, set(0x81, 1), &[ok, FIELD], &[SEQUENCE]);
    judged(seen, "ADM-FEAT-25", &up, set(7, 0xffff_0000), &[ok], &[FIELD]);
    let named = sqe("SetFeatures", 9, &[("fid", 0x0b), ("nsid", 1)]);
    judged(seen, "ADM-FEAT-11", &up, named, &[ok], &[Status::FEATURE_NOT_NAMESPACE_SPECIFIC]);
    judged(seen, "ADM-FEAT-44", &known, set(2, 5), &[ok], &[FIELD]);
    judged(seen, "ADM-FEAT-30", &known, set(0x0b, 0x4000), &[ok], &[FIELD]);
    judged(seen, "ADM-FEAT-42", &known, set(6, 1), &[ok], &[FIELD]);
    // Number of Queues while an I/O queue stands.
    for (status, ids) in [(ok, "ADM-FEAT-23"), (FIELD, "ADM-FEAT-23"), (SEQUENCE, "")] {
        let mut t = up();
        let q = io_queue(&t);
        t.now_ns = q.now_ns;
        t.refuse(set(7, 0x0003_0003), status);
        seen.only(Controller, ids, vec![t, q]);
    }
    let mut t = up();
    t.refuse(get(&[("fid", 0x81), ("value", 1)]).with_sgl1(SglDescriptor::transport(8)), ok);
    seen.only(Controller, "SGL-06", vec![t]);
}

fn pages(seen: &mut Seen) {
    let (ok, page) = (Status::SUCCESS, Status::INVALID_LOG_PAGE);
    let far = |lid, lpo| log(9, lid, 512, &[("lpo", lpo)]).with_sgl1(SglDescriptor::transport(512));
    judged(seen, "ADM-LOG-05", &up, far(3, 0x10_0000), &[ok], &[FIELD]);
    judged(seen, "", &up, far(3, 512), &[], &[ok, FIELD]);
    let service = || up_as(DISCOVERY_NQN);
    judged(seen, "ADM-LOG-15 DISC-CTRL-13", &service, far(2, 0), &[ok], &[FIELD, page]);
    let with_queue = |status| {
        let mut t = up();
        let q = io_queue(&t);
        t.now_ns = q.now_ns;
        t.refuse(far(0x70, 0), status);
        vec![t, q]
    };
    seen.only(Controller, "ADM-LOG-16", with_queue(ok));
    seen.only(Controller, "", with_queue(page));
}

fn io(seen: &mut Seen) {
    let ok = Status::SUCCESS;
    let all = |of: &[(&str, u64)], cap_ns: bool, sqe: Sqe, status: Status| {
        let mut t = up();
        t.fetch(identify(8, 1, 0), &controller(of));
        if cap_ns {
            t.fetch(identify(9, 0, 1), &namespace(&[]));
        }
        let mut q = io_queue(&t);
        q.refuse(sqe, status);
        vec![t, q]
    };
    let read = |nsid: u64, nlb: u64, slba: u64, len: u32| {
        sqe("Read", 9, &[("nsid", nsid), ("nlb", nlb), ("slba", slba)]).with_sgl1(SglDescriptor::transport(len))
    };
    let flush = |nsid: u64| sqe("Flush", 9, &[("nsid", nsid)]);
    let namespace = Status::INVALID_NAMESPACE_OR_FORMAT;
    for (ids, of, sqe, status) in [
        ("SQE-09", &[][..], raw(flush(1), &[(0, 0x74)]), ok),
        ("SQE-16 FAB-STATUS-11", &[], flush(0), ok),
        ("SQE-16 FAB-STATUS-11", &[], flush(0), FIELD),
        ("", &[], flush(0), namespace),
        ("SQE-18 SQE-17", &[], read(0xffff_ffff, 0, 0, 512), ok),
        ("", &[], read(0xffff_ffff, 0, 0, 512), FIELD),
        ("NVM-RW-15", &[], flush(0xffff_ffff), ok),
        ("NVM-RW-02", &[], raw(read(1, 0, 0, 512), &[(0, 5)]), ok),
        ("", &[], raw(read(1, 0, 0, 512), &[(0, 5)]), OPCODE),
        ("NVM-RW-05 SQE-36", &[], read(1, 1, 0, 512), ok),
        ("", &[], read(1, 1, 0, 512), Status::DATA_SGL_LENGTH_INVALID),
        ("NVM-RW-06 FAB-IDENT-10", &[("mdts", 0)][..0], read(1, 127, 0, 65536), ok),
        ("", &[], read(1, 127, 0, 65536), FIELD),
        ("NVM-RW-03", &[], read(1, 0, 8192, 512), ok),
        ("NVM-RW-03", &[], read(1, 0, 8192, 512), Status::CAPACITY_EXCEEDED),
        ("", &[], read(1, 0, 8192, 512), Status::LBA_OUT_OF_RANGE),
        ("", &[], read(1, 0, 8191, 512), Status::UNRECOVERED_READ_ERROR),
    ] {
        seen.only(Controller, ids, all(of, true, sqe, status));
    }
    // The block size is not known: a block has 512 bytes at least, and 2^64 is the end of every namespace.
    seen.only(Controller, "NVM-RW-05 SQE-36", all(&[], false, read(1, 1, 0, 512), ok));
    seen.only(Controller, "NVM-RW-03", all(&[], false, read(1, 1, u64::MAX, 1024), ok));
    let offset = sqe("Write", 9, &[("nsid", 1)]).with_sgl1(SglDescriptor::in_capsule(8, 512));
    for (status, ids) in
        [(ok, "SGL-18 SQE-26"), (Status::DATA_SGL_LENGTH_INVALID, "SGL-18 SQE-26"), (Status::SGL_OFFSET_INVALID, "")]
    {
        let mut q = crate::connected(1, PLAIN);
        q.command(offset, &[0; 520]);
        q.answer(9, status, 0);
        seen.only(Controller, ids, vec![q]);
    }
}

/// Statuses by themselves.
fn claims(seen: &mut Seen) {
    let says = |seen: &mut Seen, ids: &str, sqe: Sqe, status| {
        let mut t = known();
        t.refuse(sqe, status);
        seen.only(Controller, ids, vec![t]);
    };
    let keep = sqe("KeepAlive", 9, &[]);
    let get = sqe("PropertyGet", 9, &[("ofst", 0x14)]);
    says(seen, "CQE-15", keep, Status::of(0, 0x17));
    says(seen, "CQE-15", keep, Status::FDP_DISABLED);
    says(seen, "CQE-06", keep, Status(Status::INTERNAL_ERROR.0 | 0x800));
    says(seen, "CQE-08 FAB-STATUS-08", keep, Status::COMMAND_INTERRUPTED);
    says(seen, "CQE-09", keep, Status::FORMAT_IN_PROGRESS.dnr());
    says(seen, "", keep, Status::FORMAT_IN_PROGRESS);
    says(seen, "FAB-STATUS-06", get, Status::INVALID_QUEUE_IDENTIFIER);
    says(seen, "FAB-CMD-02", get, SEQUENCE);
    says(seen, "FAB-CMD-03", get, OPCODE);
    says(seen, "FAB-QUEUE-01", get, Status::AUTHENTICATION_REQUIRED);
    let identify = identify(9, 1, 0).with_sgl1(SglDescriptor::transport(4096));
    says(seen, "ADM-PROHIB-05 FAB-IDENT-13", identify, OPCODE);
    says(seen, "ADM-PROHIB-05", sqe("GetFeatures", 9, &[("fid", 1)]), OPCODE);
    says(seen, "FAB-QUEUE-05", keep, SEQUENCE);
    says(seen, "SQE-30", identify, Status::SGL_DESCRIPTOR_TYPE_INVALID);
    // Acre: the host asked for them.
    let mut t = known();
    t.ask(sqe("SetFeatures", 8, &[("fid", 0x16)]), 0);
    t.refuse(keep, Status::COMMAND_INTERRUPTED);
    seen.only(Controller, "", vec![t]);
}

/// A command whose data had a wrong digest.
fn digests(seen: &mut Seen) {
    let digests = nvmf_wire::tcp::Digests { header: false, data: true };
    for (status, ids) in [
        (Status::SUCCESS, "TCP-DGST-28 TCP-ERR-07"),
        (Status::DATA_TRANSFER_ERROR, "TCP-DGST-28 TCP-ERR-07"),
        (Status::TRANSIENT_TRANSPORT_ERROR, ""),
    ] {
        let mut q = crate::connected(1, digests);
        let write = sqe("Write", 9, &[("nsid", 1)]).with_sgl1(SglDescriptor::in_capsule(0, 512));
        let head = nvmf_wire::tcp::CapsuleCmd::new().with(|s| s.sqe(*write.as_bytes()));
        let mut bytes = crate::wrong_pdu(&q, nvmf_wire::tcp::PduType::CAPSULE_CMD, head.as_bytes(), &[1; 512], &[]);
        *bytes.last_mut().unwrap() ^= 1;
        q.sent += 1;
        q.raw(crate::talk::H2C, &bytes);
        q.answer(9, status, 0);
        seen.only(Controller, ids, vec![q]);
    }
}
