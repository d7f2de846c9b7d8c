//! Data both ways: digests and padding, C2HData, R2T and H2CData.

use nvmf_wire::tcp::{CapsuleCmd, IcReq, IcResp, PduType};
use nvmf_wire::{Cid, Cqe, SglDescriptor, Sqe, Status, ZeroBased32};

use crate::talk::{C2H, H2C, Talk, connect, connected, io};
use crate::{BOTH, PLAIN, Seen, c2h, h2c, r2t, wrong_pdu};

pub fn cases(seen: &mut Seen) {
    digests_and_padding(seen);
    data_to_the_host(seen);
    data_to_the_controller(seen);
}

fn digests_and_padding(seen: &mut Seen) {
    let flush = io("Flush", 7, 0);
    for (on, id) in [(PLAIN, "TCP-DGST-08 host"), (BOTH, "TCP-DGST-05 host")] {
        seen.case(connected(1, on), &[id], |t| {
            t.digests.header = !on.header;
            t.command(flush, &[]);
        });
    }
    for (on, id) in [(PLAIN, "TCP-DGST-15 controller"), (BOTH, "TCP-DGST-13 controller")] {
        seen.case(connected(1, on), &[id], |t| {
            t.command(io("Read", 7, 512), &[]);
            t.digests.data = !on.data;
            t.c2h(&c2h(7, 0, 512, true, true));
        });
    }
    seen.case(connected(1, BOTH), &["TCP-DGST-06 host"], |t| {
        let bytes =
            wrong_pdu(t, PduType::CAPSULE_CMD, CapsuleCmd::new().with(|s| s.sqe(*flush.as_bytes())).as_bytes(), &[], &[(72, 0xff)]);
        t.raw(H2C, &bytes);
    });
    let read = || {
        let mut t = connected(1, BOTH);
        t.command(io("Read", 7, 512), &[]);
        t
    };
    let data = c2h(7, 0, 512, true, true);
    seen.case(read(), &["TCP-DGST-16 controller"], |t| {
        let bytes = wrong_pdu(t, PduType::C2H_DATA, &data, &[1; 512], &[(28, 2)]);
        t.raw(C2H, &bytes);
    });

    // Alignment of 16 bytes both ways, without digests.
    let padded = |c: Sqe| {
        let mut t = Talk::new();
        t.send(H2C, PduType::IC_REQ, IcReq::new().with(|s| s.hpda(3)).as_bytes(), &[]);
        t.send(C2H, PduType::IC_RESP, IcResp::new().with(|s| s.cpda(3).maxh2cdata(8192)).as_bytes(), &[]);
        t.align = 16;
        let (sqe, data) = connect(1, 0);
        t.command(sqe, data.as_bytes());
        t.response(*Cqe::of(Cid(0), Status::SUCCESS, 1).with(|s| s.dw0(1)).as_bytes());
        t.command(c, &[]);
        t
    };
    seen.case(padded(io("Read", 7, 512)), &["TCP-C2H-28 controller"], |t| {
        t.align = 4;
        t.c2h(&c2h(7, 0, 512, true, true));
    });
    seen.case(padded(io("Read", 7, 512)), &["TCP-PAD-03 controller"], |t| {
        t.align = 64;
        t.c2h(&c2h(7, 0, 512, true, true));
    });
    seen.case(padded(io("Read", 7, 512)), &["TCP-PAD-04 controller"], |t| {
        let bytes = wrong_pdu(t, PduType::C2H_DATA, &data, &[1; 512], &[(25, 7)]);
        t.raw(C2H, &bytes);
    });
    seen.case(padded(io("Read", 7, 512)), &["TCP-CH-05 controller"], |t| {
        let bytes = wrong_pdu(&Talk::new(), PduType::C2H_DATA, &data, &[1; 512], &[(3, 0)]);
        t.raw(C2H, &bytes);
    });
    seen.case(padded(io("Write", 7, 512)), &["TCP-H2C-23 host"], |t| {
        t.r2t(&r2t(7, 5, 0, 512));
        t.align = 4;
        t.h2c(&h2c(7, 5, 0, 512, true));
    });
    seen.case(padded(io("Flush", 7, 0)), &["TCP-CAPSULE-18 host"], |t| {
        t.align = 4;
        t.command(io("Write", 8, 0).with_sgl1(SglDescriptor::in_capsule(0, 512)), &[1; 512]);
    });
}

fn data_to_the_host(seen: &mut Seen) {
    let read = |len: u32| {
        let mut t = connected(1, PLAIN);
        t.command(io("Read", 7, len), &[]);
        t
    };
    seen.case(read(1024), &["TCP-C2H-02 controller"], |t| t.c2h(&c2h(7, 512, 512, true, true)));
    seen.case(read(1024), &["TCP-C2H-03 controller"], |t| {
        t.c2h(&c2h(7, 0, 256, false, false));
        t.c2h(&c2h(7, 512, 512, true, false));
        t.done(7, Status::SUCCESS, 2);
    });
    seen.case(read(1024), &["TCP-C2H-04 controller"], |t| t.c2h(&c2h(7, 0, 512, true, true)));
    seen.case(read(1024), &["TCP-C2H-04 controller"], |t| {
        t.c2h(&c2h(7, 0, 512, true, false));
        t.done(7, Status::SUCCESS, 2);
    });
    seen.case(read(1024), &[], |t| {
        t.c2h(&c2h(7, 0, 512, true, false));
        t.done(7, Status::UNRECOVERED_ERROR, 2);
    });
    seen.case(read(1024), &["TCP-C2H-01 controller"], |t| t.c2h(&c2h(7, 0, 1536, true, true)));
    seen.case(read(1024), &["TCP-C2H-01 controller"], |t| {
        t.send(C2H, PduType::C2H_DATA, &c2h(7, 0, 1024, true, false), &[1; 1020]);
    });
    seen.case(read(1024), &["TCP-C2H-08 controller"], |t| {
        t.c2h(&c2h(7, 0, 1024, false, false));
        t.done(7, Status::SUCCESS, 2);
    });
    seen.case(read(1024), &["TCP-C2H-09 controller"], |t| {
        t.c2h(&c2h(7, 0, 512, true, false));
        t.c2h(&c2h(7, 512, 512, true, false));
    });
    seen.case(read(1024), &["TCP-C2H-14 controller"], |t| {
        t.c2h(&c2h(7, 0, 512, false, true));
        t.c2h(&c2h(7, 512, 512, true, true));
    });
    seen.case(read(1024), &["TCP-C2H-11 controller"], |t| {
        t.c2h(&c2h(7, 0, 1024, true, true));
        t.done(7, Status::SUCCESS, 2);
    });
    seen.case(read(1024), &["TCP-C2H-30 controller"], |t| t.c2h(&c2h(8, 0, 1024, true, true)));
    seen.case(read(1024), &["TCP-C2H-30 controller"], |t| {
        t.done(7, Status::UNRECOVERED_ERROR, 2);
        t.c2h(&c2h(7, 0, 1024, true, false));
    });
    seen.case(read(1024), &["TCP-C2H-33 controller", "TCP-C2H-32 controller", "TCP-C2H-33 controller"], |t| {
        t.c2h(&c2h(7, 0, 510, false, false));
        t.c2h(&c2h(7, 510, 514, true, true));
    });
    seen.case(read(1022), &[], |t| t.c2h(&c2h(7, 0, 1022, true, true)));
    let mut write = connected(1, PLAIN);
    write.command(io("Write", 7, 512), &[]);
    seen.case(write, &["SQE-21 controller"], |t| t.c2h(&c2h(7, 0, 512, true, false)));
}

fn data_to_the_controller(seen: &mut Seen) {
    let write = |len: u32| {
        let mut t = connected(1, PLAIN);
        t.command(io("Write", 7, len), &[]);
        t
    };
    let asked = || {
        let mut t = write(1024);
        t.r2t(&r2t(7, 5, 0, 1024));
        t
    };
    seen.case(write(1024), &["TCP-R2T-02 controller"], |t| t.r2t(&r2t(7, 5, 512, 512)));
    seen.case(write(1024), &["TCP-R2T-03 controller"], |t| {
        t.r2t(&r2t(7, 5, 0, 256));
        t.h2c(&h2c(7, 5, 0, 256, true));
        t.r2t(&r2t(7, 5, 512, 512));
    });
    seen.case(write(1024), &["TCP-R2T-04 controller"], |t| t.r2t(&r2t(7, 5, 0, 1028)));
    seen.case(write(1024), &["TCP-R2T-04 controller"], |t| {
        t.r2t(&r2t(7, 5, 0, 512));
        t.h2c(&h2c(7, 5, 0, 512, true));
        t.done(7, Status::SUCCESS, 2);
    });
    seen.case(write(1024), &["TCP-R2T-18 controller"], |t| t.r2t(&r2t(8, 5, 0, 1024)));
    seen.case(connected(1, PLAIN), &["TCP-R2T-18 controller"], |t| {
        t.command(io("Read", 7, 1024), &[]);
        t.r2t(&r2t(7, 5, 0, 1024));
    });
    seen.case(connected(1, PLAIN), &["TCP-R2T-18 controller"], |t| {
        t.command(io("Write", 7, 0).with_sgl1(SglDescriptor::in_capsule(0, 512)), &[1; 512]);
        t.r2t(&r2t(7, 5, 0, 512));
    });
    seen.case(write(1024), &["TCP-R2T-10 controller"], |t| {
        t.r2t(&r2t(7, 5, 0, 512));
        t.r2t(&r2t(7, 6, 512, 512));
    });
    seen.case(write(1024), &["TCP-R2T-21 controller", "TCP-H2C-28 host", "TCP-R2T-20 controller", "TCP-R2T-21 controller"], |t| {
        t.r2t(&r2t(7, 5, 0, 510));
        t.h2c(&h2c(7, 5, 0, 510, true));
        t.r2t(&r2t(7, 5, 510, 514));
    });
    seen.case(asked(), &["TCP-H2C-07 host"], |t| t.h2c(&h2c(7, 5, 4, 1020, false)));
    seen.case(asked(), &["TCP-H2C-08 host"], |t| {
        t.h2c(&h2c(7, 5, 0, 512, false));
        t.h2c(&h2c(7, 5, 516, 256, false));
    });
    seen.case(asked(), &["TCP-H2C-08 host"], |t| t.h2c(&h2c(7, 5, 0, 1028, true)));
    seen.case(asked(), &["TCP-H2C-12 host"], |t| t.h2c(&h2c(7, 5, 0, 1024, false)));
    seen.case(asked(), &["TCP-H2C-13 host"], |t| t.h2c(&h2c(7, 5, 0, 512, true)));
    seen.case(asked(), &["TCP-H2C-24 host"], |t| t.send(H2C, PduType::H2C_DATA, &h2c(7, 5, 0, 1024, true), &[1; 1020]));
    seen.case(asked(), &["TCP-H2C-28 host", "TCP-H2C-27 host", "TCP-H2C-28 host"], |t| {
        t.h2c(&h2c(7, 5, 0, 510, false));
        t.h2c(&h2c(7, 5, 510, 514, true));
    });
    seen.case(asked(), &["TCP-H2C-04 host"], |t| t.h2c(&h2c(7, 6, 0, 1024, true)));
    seen.case(asked(), &["TCP-H2C-04 host"], |t| t.h2c(&h2c(9, 5, 0, 1024, true)));
    seen.case(asked(), &["TCP-H2C-04 host"], |t| {
        t.h2c(&h2c(7, 5, 0, 1024, true));
        t.h2c(&h2c(7, 5, 0, 1024, true));
    });
    seen.case(asked(), &["TCP-H2C-25 host"], |t| {
        t.command(io("Write", 8, 1024), &[]);
        t.r2t(&r2t(8, 6, 0, 1024));
        t.h2c(&h2c(8, 5, 0, 1024, true));
    });
    let mut two = Talk::new();
    two.send(H2C, PduType::IC_REQ, IcReq::new().with(|s| s.maxr2t(ZeroBased32(1))).as_bytes(), &[]);
    two.send(C2H, PduType::IC_RESP, IcResp::new().with(|s| s.maxh2cdata(4096)).as_bytes(), &[]);
    let (sqe, data) = connect(1, 0);
    two.command(sqe, data.as_bytes());
    two.response(*Cqe::of(Cid(0), Status::SUCCESS, 1).with(|s| s.dw0(1)).as_bytes());
    two.command(io("Write", 7, 8192), &[]);
    seen.case(two, &["TCP-R2T-07 host", "TCP-H2C-09 host"], |t| {
        t.r2t(&r2t(7, 5, 0, 4096));
        t.r2t(&r2t(7, 6, 4096, 4096));
        t.h2c(&h2c(7, 6, 4096, 4096, true));
        t.h2c(&h2c(7, 5, 0, 4096, true));
        t.command(io("Write", 8, 8192), &[]);
        t.r2t(&r2t(8, 5, 0, 8192));
        t.h2c(&h2c(8, 5, 0, 8192, true));
    });
}
