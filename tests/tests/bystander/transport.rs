//! Fatal errors and what follows them, and the data of blocks.

use nvmf_spec::Side::{self, Controller, Host};
use nvmf_wire::tcp::{CapsuleCmd, CapsuleResp, Digests, Fes, IcReq, IcResp, PduType, TermReq};
use nvmf_wire::{Cid, Cqe, SglDescriptor, Sqe, Status};

use crate::talk::{C2H, H2C, Talk, connected, io, sqe};
use crate::{PLAIN, Seen, h2c, r2t, wrong_pdu};

pub fn cases(seen: &mut Seen) {
    fitting(seen);
    by_the_host(seen);
    going_on(seen);
    blocks(seen);
}

fn term(t: &mut Talk, side: Side, fes: u16, fei: u32, quoted: &[u8]) {
    let (dir, ptype) = if side == Host { (H2C, PduType::H2C_TERM_REQ) } else { (C2H, PduType::C2H_TERM_REQ) };
    let head = TermReq::new().with(|s| s.fes(Fes(fes)).fei(fei));
    let bytes = wrong_pdu(&Talk::new(), ptype, head.as_bytes(), quoted, &[]);
    t.raw(dir, &bytes);
}

/// What the controller breaks with this terminate request behind the bytes of the host.
#[track_caller]
fn answered(seen: &mut Seen, ids: &str, start: Talk, wrong: &[u8], fes: u16, fei: u32) {
    let mut t = start;
    t.raw(H2C, wrong);
    term(&mut t, Controller, fes, fei, wrong.get(..24).unwrap_or(wrong));
    seen.only(Controller, ids, vec![t]);
}

fn icreq(changes: &[(usize, u8)]) -> Vec<u8> {
    wrong_pdu(&Talk::new(), PduType::IC_REQ, IcReq::new().as_bytes(), &[], changes)
}

fn capsule(changes: &[(usize, u8)]) -> Vec<u8> {
    let c = CapsuleCmd::new().with(|s| s.sqe(*sqe("Flush", 7, &[("nsid", 1)]).as_bytes()));
    wrong_pdu(&Talk::new(), PduType::CAPSULE_CMD, c.as_bytes(), &[], changes)
}

fn fitting(seen: &mut Seen) {
    let fes = "TCP-TERM-04";
    let fei = "TCP-TERM-50 TCP-TERM-05";
    // PFV, HPDA, HLEN and FLAGS of an ICReq.
    answered(seen, "", Talk::new(), &icreq(&[(8, 1)]), 1, 8);
    answered(seen, "", Talk::new(), &icreq(&[(8, 1)]), 6, 8);
    answered(seen, fei, Talk::new(), &icreq(&[(8, 1)]), 1, 9);
    answered(seen, "TCP-TERM-53 TCP-TERM-05", Talk::new(), &icreq(&[(8, 1)]), 6, 9);
    answered(seen, fes, Talk::new(), &icreq(&[(8, 1)]), 2, 0);
    answered(seen, fei, Talk::new(), &icreq(&[(10, 32)]), 1, 8);
    answered(seen, "", Talk::new(), &icreq(&[(10, 32)]), 6, 10);
    answered(seen, fei, Talk::new(), &icreq(&[(2, 64)]), 1, 4);
    answered(seen, fes, Talk::new(), &icreq(&[(1, 0x80)]), 2, 0);
    answered(seen, "", Talk::new(), &icreq(&[(1, 0x80)]), 1, 1);
    // A second ICReq is refused by whatever name.
    let mut second = Talk::new();
    second.start(PLAIN);
    answered(seen, "", second, &icreq(&[]), 2, 0);
    // A reserved type, a wrong direction.
    answered(seen, "", connected(1, PLAIN), &[0x0a, 0, 24, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1, 0);
    answered(seen, fes, connected(1, PLAIN), &[0x0a, 0, 24, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 3, 0);
    // A wrong header digest: FEI is what was received.
    let digests = Digests { header: true, data: false };
    let mut bad = wrong_pdu(&connected(1, digests), PduType::CAPSULE_CMD, &capsule(&[])[..72], &[], &[]);
    bad[72] ^= 1;
    let received = u32::from_le_bytes(bad[72..76].try_into().unwrap());
    answered(seen, "", connected(1, digests), &bad, 3, received);
    answered(seen, "TCP-TERM-52 TCP-TERM-05", connected(1, digests), &bad, 3, 0);
    answered(seen, fes, connected(1, digests), &bad, 2, 0);
    // An answer to a terminate request.
    let mut t = connected(1, PLAIN);
    term(&mut t, Host, 6, 8, &[]);
    term(&mut t, Controller, 1, 8, &[]);
    seen.only(Controller, "TCP-TERM-19", vec![t]);
}

fn by_the_host(seen: &mut Seen) {
    let icresp = |changes: &[(usize, u8)]| {
        let head = IcResp::new().with(|s| s.maxh2cdata(8192));
        wrong_pdu(&Talk::new(), PduType::IC_RESP, head.as_bytes(), &[], changes)
    };
    let answered = |seen: &mut Seen, ids: &str, wrong: &[u8], fes: u16, fei: u32| {
        let mut t = Talk::new();
        t.raw(H2C, &icreq(&[]));
        t.raw(C2H, wrong);
        term(&mut t, Host, fes, fei, &wrong[..24]);
        seen.only(Host, ids, vec![t]);
    };
    answered(seen, "", &icresp(&[(2, 64)]), 1, 2);
    answered(seen, "TCP-TERM-34 TCP-TERM-17", &icresp(&[(2, 64)]), 1, 8);
    answered(seen, "TCP-TERM-16", &icresp(&[(2, 64)]), 2, 0);
    // PFV may be called invalid or unsupported.
    answered(seen, "TCP-TERM-37 TCP-TERM-17", &icresp(&[(8, 1)]), 6, 9);
    let digests = Digests { header: true, data: false };
    let mut t = connected(1, digests);
    t.command(io("Flush", 7, 0), &[]);
    let head = CapsuleResp::new().with(|s| s.cqe(*Cqe::of(Cid(7), Status::SUCCESS, 2).as_bytes()));
    let mut bad = wrong_pdu(&t, PduType::CAPSULE_RESP, head.as_bytes(), &[], &[]);
    bad[24] ^= 1;
    t.raw(C2H, &bad);
    term(&mut t, Host, 3, 0, &bad[..24]);
    seen.only(Host, "TCP-TERM-36 TCP-TERM-17", vec![t]);
}

/// After a fatal error: a terminate request, and nothing else.
fn going_on(seen: &mut Seen) {
    let wrong = capsule(&[(2, 71)]);
    let mut t = connected(1, PLAIN);
    t.raw(H2C, &wrong);
    t.command(io("Flush", 9, 0), &[]);
    t.answer(9, Status::SUCCESS, 0);
    seen.only(Controller, "TCP-TERM-02", vec![t]);
    let mut t = Talk::new();
    t.raw(H2C, &icreq(&[(8, 1)]));
    t.send(C2H, PduType::IC_RESP, IcResp::new().with(|s| s.maxh2cdata(8192)).as_bytes(), &[]);
    seen.only(Controller, "TCP-TERM-02", vec![t]);
    for (ids, by, wait_s, reset) in
        [("TCP-TERM-03", C2H, 0, false), ("", C2H, 0, true), ("", H2C, 29, false), ("TCP-TERM-03", H2C, 30, false)]
    {
        let mut t = connected(1, PLAIN);
        t.raw(H2C, &wrong);
        t.now_ns += wait_s * 1_000_000_000;
        t.rec.close(by, t.now_ns, reset);
        seen.only(Controller, ids, vec![t]);
    }
    // What came before is answered all the same.
    let mut t = connected(1, PLAIN);
    t.command(io("Flush", 9, 0), &[]);
    t.raw(H2C, &wrong);
    t.answer(9, Status::SUCCESS, 0);
    seen.only(Controller, "", vec![t]);
}

/// Data that is read is the data that was written.
fn blocks(seen: &mut Seen) {
    let inline = |cid: u16, slba: u64| -> Sqe {
        sqe("Write", cid, &[("nsid", 1), ("slba", slba)]).with_sgl1(SglDescriptor::in_capsule(0, 512))
    };
    let read = |cid: u16, slba: u64| sqe("Read", cid, &[("nsid", 1), ("slba", slba)]);
    let write = |q: &mut Talk, cid: u16, slba: u64, data: u8| {
        q.command(inline(cid, slba), &[data; 512]);
        q.answer(cid, Status::SUCCESS, 0);
    };
    let both = |q: Talk| vec![crate::talk::up(), q];
    let queue = || crate::talk::io_queue(&crate::talk::up());
    for (ids, data) in [("", 5), ("NVM-RW-08", 6)] {
        let mut q = queue();
        write(&mut q, 1, 8, 5);
        q.fetch(read(2, 8), &[data; 512]);
        seen.only(Controller, ids, both(q));
    }
    // By R2T, in two pieces.
    for (ids, data) in [("", 5), ("NVM-RW-08", 6)] {
        let mut q = queue();
        q.command(sqe("Write", 1, &[("nsid", 1), ("slba", 8), ("nlb", 1)]).with_sgl1(SglDescriptor::transport(1024)), &[]);
        q.r2t(&r2t(1, 3, 0, 1024));
        q.send(H2C, PduType::H2C_DATA, &h2c(1, 3, 0, 512, false), &[5; 512]);
        q.send(H2C, PduType::H2C_DATA, &h2c(1, 3, 512, 512, true), &[5; 512]);
        q.answer(1, Status::SUCCESS, 0);
        q.fetch(read(2, 9), &[data; 512]);
        seen.only(Controller, ids, both(q));
    }
    // A write under way while the Read was, a failed one, one that overlaps, and zeroes: nobody knows.
    let mut q = queue();
    write(&mut q, 1, 8, 5);
    q.command(inline(2, 8), &[6; 512]);
    q.fetch(read(3, 8), &[6; 512]);
    q.answer(2, Status::SUCCESS, 0);
    seen.only(Controller, "", both(q));
    let mut q = queue();
    write(&mut q, 1, 8, 5);
    q.command(inline(2, 8), &[6; 512]);
    q.answer(2, Status::WRITE_FAULT, 0);
    q.fetch(read(3, 8), &[6; 512]);
    seen.only(Controller, "", both(q));
    let mut q = queue();
    q.command(inline(1, 8), &[5; 512]);
    q.command(inline(2, 8), &[6; 512]);
    q.answer(2, Status::SUCCESS, 0);
    q.answer(1, Status::SUCCESS, 0);
    q.fetch(read(3, 8), &[6; 512]);
    seen.only(Controller, "", both(q));
    let mut q = queue();
    write(&mut q, 1, 8, 5);
    q.ask(sqe("WriteZeroes", 2, &[("nsid", 1), ("slba", 8)]), 0);
    q.fetch(read(3, 8), &[0; 512]);
    seen.only(Controller, "", both(q));
}
