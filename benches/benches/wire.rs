//! Layouts, digests and framing, each beside the least that any code could do for the same end.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nvmf_wire::tcp::{C2hData, Digests, Framer, Pdu, PduHead, PduType, crc32c};
use nvmf_wire::{Cid, Cqe, Nsid, Opcode, SglDescriptor, Sqe, Status, Structure, ZeroBased16, nvm};
use nvmfspec_benches::{MEASUREMENT, WARM_UP, io};

fn le16(b: &[u8; 64], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}

fn sqe(c: &mut Criterion) {
    let mut g = c.benchmark_group("sqe-decode");
    let sqe = io("Read", 0x1234_5678, 8, SglDescriptor::transport(4096));
    let bytes = *sqe.as_bytes();
    let read = nvm::Read::from_bytes(bytes);
    g.bench_function("fields", |b| {
        b.iter(|| {
            let (s, r) = black_box((&sqe, &read));
            (s.opc(), s.cid(), s.nsid(), s.psdt(), r.slba(), r.nlb())
        });
    });
    g.bench_function("baseline-loads", |b| {
        b.iter(|| {
            let b = black_box(&bytes);
            let nsid = u32::from_le_bytes([b[4], b[5], b[6], b[7]]);
            let slba = u64::from_le_bytes([b[40], b[41], b[42], b[43], b[44], b[45], b[46], b[47]]);
            (b[0], le16(b, 2), nsid, b[1] >> 6, slba, le16(b, 48))
        });
    });
    g.bench_function("described", |b| b.iter(|| nvm::Read::LAYOUT.describe(black_box(&bytes))));
    g.finish();
}

fn cqe(c: &mut Criterion) {
    let mut g = c.benchmark_group("cqe-decode");
    let cqe = Cqe::of(Cid(0x1234), Status::LBA_OUT_OF_RANGE.dnr(), 7);
    let bytes = *cqe.as_bytes();
    g.bench_function("fields", |b| {
        b.iter(|| {
            let c = black_box(&cqe);
            (c.dw0(), c.sqhd(), c.cid(), c.status())
        });
    });
    g.bench_function("baseline-loads", |b| {
        b.iter(|| {
            let b = black_box(&bytes);
            let two = |at: usize| u16::from_le_bytes([b[at], b[at + 1]]);
            (u32::from_le_bytes([b[0], b[1], b[2], b[3]]), two(8), two(12), two(14) >> 1)
        });
    });
    g.finish();
}

fn sqe_encode(c: &mut Criterion) {
    let mut g = c.benchmark_group("sqe-encode");
    g.bench_function("table", |b| {
        b.iter(|| {
            let (cid, slba, nlb) = black_box((Cid(0x1234), 0x1234_5678u64, ZeroBased16(7)));
            let read = nvm::Read::new().with(|s| s.slba(slba).nlb(nlb));
            let sqe = Sqe::from_bytes(*read.as_bytes()).with(|s| s.opc(Opcode(2)).cid(cid).nsid(Nsid(1)).psdt(1));
            *sqe.with_sgl1(SglDescriptor::transport(4096)).as_bytes()
        });
    });
    g.bench_function("baseline-stores", |b| {
        b.iter(|| {
            let (cid, slba, nlb) = black_box((0x1234u16, 0x1234_5678u64, 7u16));
            let mut s = [0u8; 64];
            (s[0], s[1], s[39]) = (2, 1 << 6, 0x5a);
            s[2..4].copy_from_slice(&cid.to_le_bytes());
            s[4..8].copy_from_slice(&1u32.to_le_bytes());
            s[32..36].copy_from_slice(&4096u32.to_le_bytes());
            s[40..48].copy_from_slice(&slba.to_le_bytes());
            s[48..50].copy_from_slice(&nlb.to_le_bytes());
            s
        });
    });
    g.finish();
}

fn cqe_encode(c: &mut Criterion) {
    let mut g = c.benchmark_group("cqe-encode");
    g.bench_function("table", |b| {
        b.iter(|| {
            let (cid, sqhd) = black_box((Cid(0x1234), 7u16));
            *Cqe::of(cid, Status::SUCCESS, sqhd).as_bytes()
        });
    });
    g.bench_function("baseline-stores", |b| {
        b.iter(|| {
            let (cid, sqhd) = black_box((0x1234u16, 7u16));
            let mut s = [0u8; 16];
            s[8..10].copy_from_slice(&sqhd.to_le_bytes());
            s[12..14].copy_from_slice(&cid.to_le_bytes());
            s
        });
    });
    g.finish();
}

fn head_decode(c: &mut Criterion) {
    let mut g = c.benchmark_group("c2hdata-head-decode");
    let mut bytes = *C2hData::new().with(|s| s.cccid(Cid(0x1234)).datao(4096).datal(8192).last(true)).as_bytes();
    let common = PduHead::new().with(|s| s.ptype(PduType::C2H_DATA).hlen(24).pdo(24).plen(8216));
    (bytes[0], bytes[2], bytes[3]) = (PduType::C2H_DATA.0, 24, 24);
    bytes[4..8].copy_from_slice(&common.as_bytes()[4..]);
    g.bench_function("fields", |b| {
        b.iter(|| {
            let bytes = &black_box(&bytes)[..];
            let (head, data) = (PduHead::read(bytes).expect("long enough"), C2hData::read(bytes).expect("long enough"));
            (head.ptype(), head.hlen(), head.pdo(), head.plen(), data.cccid(), data.datao(), data.datal(), data.last())
        });
    });
    g.bench_function("baseline-loads", |b| {
        b.iter(|| {
            let b = black_box(&bytes);
            let four = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
            (b[0], b[2], b[3], four(4), u16::from_le_bytes([b[8], b[9]]), four(12), four(16), b[1] & 4 != 0)
        });
    });
    g.finish();
}

fn head(c: &mut Criterion) {
    let mut g = c.benchmark_group("c2hdata-head-encode");
    g.bench_function("table", |b| {
        b.iter(|| {
            let (cid, datao, datal) = black_box((Cid(0x1234), 4096u32, 8192u32));
            let mut h = *C2hData::new().with(|s| s.cccid(cid).datao(datao).datal(datal).last(true)).as_bytes();
            let head = *PduHead::new().with(|s| s.ptype(PduType::C2H_DATA).hlen(24).pdo(24).plen(8216)).as_bytes();
            h[0] = head[0];
            h[2..8].copy_from_slice(&head[2..8]);
            h
        });
    });
    g.bench_function("baseline-stores", |b| {
        b.iter(|| {
            let (cid, datao, datal) = black_box((0x1234u16, 4096u32, 8192u32));
            let mut h = [0u8; 24];
            (h[0], h[1], h[2], h[3]) = (7, 4, 24, 24);
            h[4..8].copy_from_slice(&8216u32.to_le_bytes());
            h[8..10].copy_from_slice(&cid.to_le_bytes());
            h[12..16].copy_from_slice(&datao.to_le_bytes());
            h[16..20].copy_from_slice(&datal.to_le_bytes());
            h
        });
    });
    g.finish();
}

fn digest(c: &mut Criterion) {
    for len in [4096, 65_536] {
        let mut g = c.benchmark_group(format!("crc32c-{len}"));
        g.throughput(Throughput::Bytes(len as u64));
        let data: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        g.bench_function("digest", |b| b.iter(|| crc32c(black_box(&data))));
        let mut to = vec![0; len];
        g.bench_function("baseline-memcpy", |b| b.iter(|| to.copy_from_slice(black_box(&data))));
        g.finish();
    }
}

/// 64 KiB of C2HData with 4 KiB each, as TCP segments of a jumbo frame bring them.
fn framer(c: &mut Criterion) {
    const SEGMENT: usize = 8960;
    let mut g = c.benchmark_group("framer-64k");
    let mut header = *C2hData::new().with(|s| s.datal(4096)).as_bytes();
    header[0] = PduType::C2H_DATA.0;
    let pdu = Pdu::build(&header, Bytes::from(vec![5; 4096]), Digests::default(), 4).to_bytes();
    let stream = pdu.repeat(16);
    g.throughput(Throughput::Bytes(stream.len() as u64));
    g.bench_function("pdus", |b| {
        b.iter(|| {
            let mut framer = Framer::new(1 << 20);
            let mut n = 0;
            for segment in black_box(&stream).chunks(SEGMENT) {
                framer.push(segment);
                while let Some(pdu) = framer.next_pdu() {
                    n += pdu.len();
                }
            }
            assert_eq!(n, stream.len());
        });
    });
    g.bench_function("baseline-memcpy", |b| {
        b.iter(|| {
            let mut to = Vec::with_capacity(stream.len());
            for segment in black_box(&stream).chunks(SEGMENT) {
                to.extend_from_slice(segment);
            }
            to
        });
    });
    g.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(WARM_UP).measurement_time(MEASUREMENT);
    targets = sqe, sqe_encode, cqe, cqe_encode, head_decode, head, digest, framer
}
criterion_main!(benches);
