//! The host's side of data: capsules, H2CData for R2Ts, C2HData in pieces, digests, alignment, completions.

use crate::host_support::{Peer, T0, c2h, crc32c, digests, icresp, pdu, r2t, resp};
use bytes::Bytes;
use nvmf_engine::host::{HostEvent, HostSettings, HostTcpSettings, Payload, SubmitError, Waiting, command};
use nvmf_engine::tcp::host::HostConnection;
use nvmf_seam::Instant;
use nvmf_seam::rdma::Memory;
use nvmf_wire::{Cid, Nsid, Qid, Status};

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().unwrap())
}

#[test]
fn icreq_says_what_was_chosen_and_nothing_else() {
    let settings = HostTcpSettings { hpda: 31, r2ts: 4, ..digests(true, true) };
    let mut c = HostConnection::new(settings, Qid(0), 32, 4096, 0, T0);
    let b = c.poll_transmit(T0).unwrap().to_bytes();
    assert_eq!(b[..16], [0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 31, 3, 3, 0, 0, 0]);
    assert!(b.len() == 128 && b[16..].iter().all(|x| *x == 0));
    assert!(c.poll_transmit(T0).is_none(), "nothing before the ICResp");
    assert_eq!(c.submit(command::read(Nsid(1), 0, 1), Payload::In(512), None), Err(SubmitError::NotReady));
}

#[test]
fn capsules_carry_their_data_where_there_is_room() {
    // (queue, room of I/O capsules, bytes, in the capsule)
    for (qid, room, len, inside) in
        [(1, 0, 512, false), (1, 4096, 4096, true), (1, 4096, 4608, false), (0, 0, 8192, true), (0, 0, 8196, false)]
    {
        let mut c = HostConnection::new(HostTcpSettings::default(), Qid(qid), 32, 1 << 20, room, T0);
        c.handle_bytes(&icresp(0, 0, 4096), T0);
        c.poll_transmit(T0);
        // Opcode 01h moves data to the controller on either kind of queue.
        c.submit(command::write(Nsid(1), 0, 1), Payload::Out(vec![9; len].into()), None).unwrap();
        let b = c.poll_transmit(T0).unwrap().to_bytes();
        let (pdo, plen) = if inside { (72, 72 + len) } else { (0, 72) };
        assert_eq!((b.len(), b[0], b[2], b[3] as usize, u32_at(&b, 4) as usize), (plen, 4, 72, pdo, plen));
        // PSDT 01b; SGL1 in bytes 24 to 39 of the SQE.
        assert_eq!(b[9], 0x40);
        let sgl = &b[8 + 24..8 + 40];
        assert_eq!((u32_at(sgl, 8) as usize, sgl[15]), (len, if inside { 0x01 } else { 0x5a }));
        assert!(sgl[..8].iter().chain(&sgl[12..15]).all(|x| *x == 0));
    }
}

#[test]
fn padding_follows_cpda_whatever_the_digest() {
    for (cpda, header, pdo) in [
        (0, false, 72),
        (0, true, 76),
        (1, false, 72),
        (1, true, 80),
        (3, true, 80),
        (15, false, 128),
        (31, false, 128),
        (31, true, 128),
    ] {
        let mut c = HostConnection::new(digests(header, true), Qid(0), 32, 1 << 20, 0, T0);
        c.handle_bytes(&icresp(cpda, 2 | u8::from(header), 4096), T0);
        c.poll_transmit(T0);
        let data: Bytes = (0..512u32).map(|i| i as u8).collect();
        c.submit(command::write(Nsid(1), 0, 1), Payload::Out(data.clone()), None).unwrap();
        let b = c.poll_transmit(T0).unwrap().to_bytes();
        assert_eq!((usize::from(b[3]), b[1]), (pdo, 2 | u8::from(header)), "CPDA {cpda}");
        assert_eq!(b.len(), pdo + 512 + 4);
        let end = if header { 76 } else { 72 };
        if header {
            assert_eq!(b[72..76], crc32c(&b[..72]));
        }
        assert!(b[end..pdo].iter().all(|x| *x == 0), "PAD is zero");
        assert_eq!(&b[pdo..pdo + 512], &data);
        assert_eq!(b[pdo + 512..], crc32c(&data));
    }
}

#[test]
fn an_r2t_is_answered_in_pieces_of_maxh2cdata() {
    let mut p = Peer::ready_with(HostTcpSettings { r2ts: 2, ..digests(true, true) }, &icresp(15, 3, 4096));
    let cid = p.write(20_480).0;
    let seal = |b: Vec<u8>| {
        let mut b = b;
        b[1] |= 1;
        b[4] = 28;
        let d = crc32c(&b);
        b.extend(d);
        b
    };
    p.give(&seal(r2t(cid, 0xbeef, 0, 10_240)));
    p.give(&seal(r2t(cid, 7, 10_240, 10_240)));
    let sent = p.sent();
    let seen: Vec<_> = sent.iter().map(|b| (u16::from_le_bytes([b[10], b[11]]), u32_at(b, 12), u32_at(b, 16), b[1])).collect();
    assert_eq!(
        seen,
        [
            (0xbeef, 0, 4096, 3),
            (0xbeef, 4096, 4096, 3),
            (0xbeef, 8192, 2048, 7),
            (7, 10_240, 4096, 3),
            (7, 14_336, 4096, 3),
            (7, 18_432, 2048, 7)
        ]
    );
    for b in &sent {
        let (at, len) = (u32_at(b, 12) as usize, u32_at(b, 16) as usize);
        assert_eq!((b[0], b[2], b[3], u16::from_le_bytes([b[8], b[9]])), (6, 24, 64, cid));
        assert_eq!(b[24..28], crc32c(&b[..24]));
        let want: Vec<u8> = (at..at + len).map(|i| (i / 4) as u8).collect();
        assert_eq!(b[64..64 + len], want);
        assert_eq!(b[64 + len..], crc32c(&want));
    }
    p.give(&seal(resp(cid, 1, 0)));
    assert!(p.completions()[0].status().is_success());
}

#[test]
fn payload_is_shared_not_copied() {
    let mut p = Peer::ready();
    let data = Bytes::from(vec![1; 4096]);
    p.host.submit(command::write(Nsid(1), 0, 8), Payload::Out(data.clone()), None).unwrap();
    p.sent();
    p.give(&r2t(0, 1, 0, 4096));
    let t = p.host.poll_transmit(T0).unwrap();
    assert_eq!(t.payload.as_ptr(), data.as_ptr());
}

#[test]
fn reads_arrive_in_pieces_between_other_commands() {
    let mut p = Peer::ready();
    let (a, b) = (p.read(1024).0, p.read(1024).0);
    let mut stream = Vec::new();
    stream.extend(c2h(0, a, 0, &[1; 512]));
    stream.extend(c2h(0, b, 0, &[2; 4]));
    stream.extend(c2h(4, a, 512, &[3; 512]));
    stream.extend(c2h(12, b, 4, &[4; 1020]));
    stream.extend(resp(a, 2, 0));
    // Whatever the segments were. [TCP-GEN-05]
    for n in [1, 3, 24, 100, stream.len()] {
        let mut p = Peer::ready();
        p.read(1024);
        p.read(1024);
        stream.chunks(n).for_each(|c| p.give(c));
        let done = p.completions();
        assert_eq!(done.iter().map(|c| c.cid.0).collect::<Vec<_>>(), [b, a]);
        assert_eq!(done[0].data.to_bytes(), [vec![2; 4], vec![4; 1020]].concat());
        assert_eq!(done[1].data.to_bytes(), [vec![1; 512], vec![3; 512]].concat());
        assert!(done.iter().all(|c| c.status().is_success() && c.local.is_none()));
    }
}

#[test]
fn hpda_is_an_alignment_of_data_to_the_host() {
    for (pdo, fine) in [(24u8, false), (32, false), (64, true), (128, true), (96, false)] {
        let mut p = Peer::ready_with(HostTcpSettings { hpda: 15, ..HostTcpSettings::default() }, &icresp(0, 0, 4096));
        let cid = p.read(512).0;
        let plen = u32::from(pdo) + 512;
        p.give(&pdu(7, 12, 24, pdo, plen, &[(8, &cid.to_le_bytes()), (16, &512u32.to_le_bytes())]));
        if fine {
            assert_eq!(p.completions()[0].data.len(), 512, "PDO {pdo}");
        } else {
            assert_eq!((p.terminated().0, pdo), (1, pdo));
        }
    }
}

/// A read of two pieces of which one has a wrong DDGST; ended by SUCCESS or by this status.
fn broken(which: usize, end: Option<u16>) -> (Status, Option<Status>, usize) {
    let mut p = Peer::ready_with(digests(false, true), &icresp(0, 2, 4096));
    let (cid, other) = (p.read(1024).0, p.read(512).0);
    for n in 0..2 {
        let last = n == 1;
        let flags = 2 | if last { 4 } else { 0 } | if last && end.is_none() { 8 } else { 0 };
        let mut b = c2h(flags, cid, n as u32 * 512, &[n as u8; 512]);
        b[4..8].copy_from_slice(&(24 + 512 + 4u32).to_le_bytes());
        let mut d = crc32c(&[n as u8; 512]);
        d[0] ^= u8::from(n == which);
        b.extend(d);
        p.give(&b);
    }
    if let Some(status) = end {
        p.give(&resp(cid, 1, status));
    }
    // Others go on. [TCP-DGST-23]
    let mut b = c2h(2 | 12, other, 0, &[9; 512]);
    b[4..8].copy_from_slice(&(24 + 512 + 4u32).to_le_bytes());
    b.extend(crc32c(&[9; 512]));
    p.give(&b);
    assert!(p.sent().is_empty());
    let done = p.completions();
    assert_eq!((done.len(), done[1].status()), (2, Status::SUCCESS));
    (done[0].status(), done[0].local, done[0].data.len())
}

#[test]
fn a_data_digest_error_fails_its_command_only() {
    let transient = Status::TRANSIENT_TRANSPORT_ERROR;
    for which in [0, 1] {
        assert_eq!(broken(which, None), (transient, Some(transient), 1024));
        assert_eq!(broken(which, Some(0)), (transient, Some(transient), 1024));
        // What the controller says about a failure stands.
        let status = Status::INTERNAL_ERROR;
        assert_eq!(broken(which, Some(status.0)), (status, None, 1024));
    }
    assert_eq!(broken(9, Some(0)), (Status::SUCCESS, None, 1024));
}

#[test]
fn a_success_that_moved_too_little_is_none() {
    let mut p = Peer::ready();
    let cid = p.read(1024).0;
    p.give(&c2h(4, cid, 0, &[1; 512]));
    p.give(&resp(cid, 1, 0));
    let events = p.events();
    let noted = events.iter().any(|e| matches!(e, HostEvent::Violation(v) if v.requirement.id == "TCP-C2H-04"));
    let HostEvent::Completed(done) = events.last().unwrap() else { panic!("{events:?}") };
    assert!(noted && done.status() == Status::DATA_TRANSFER_ERROR);

    let cid = p.write(1024).0;
    p.give(&r2t(cid, 1, 0, 512));
    p.sent();
    p.give(&resp(cid, 2, 0));
    let events = p.events();
    let noted = events.iter().any(|e| matches!(e, HostEvent::Violation(v) if v.requirement.id == "TCP-R2T-04"));
    let HostEvent::Completed(done) = events.last().unwrap() else { panic!("{events:?}") };
    assert!(noted && done.status() == Status::DATA_TRANSFER_ERROR);
    assert!(p.sent().is_empty());
}

#[test]
fn an_error_ends_a_command_early_and_its_data_is_not_sent() {
    let mut p = Peer::ready();
    let cid = p.write(8192).0;
    p.give(&[r2t(cid, 1, 0, 8192), resp(cid, 1, Status::INTERNAL_ERROR.0)].concat());
    assert_eq!(p.completions()[0].status(), Status::INTERNAL_ERROR);
    assert!(p.sent().is_empty());
    // The identifier is free, and its next use starts at 0 again.
    let next = p.write(512);
    assert_ne!(next, cid_of(cid));
    p.give(&r2t(next.0, 1, 0, 512));
    assert_eq!(p.sent().len(), 1);
}

fn cid_of(n: u16) -> Cid {
    Cid(n)
}

#[test]
fn flow_control_holds_commands_back_until_sqhd_moves() {
    let mut c = HostConnection::new(HostTcpSettings::default(), Qid(1), 3, 1 << 20, 0, T0);
    c.handle_bytes(&icresp(0, 0, 4096), T0);
    let submit = |c: &mut HostConnection| c.submit(command::read(Nsid(1), 0, 1), Payload::In(512), None);
    let (a, b) = (submit(&mut c).unwrap(), submit(&mut c).unwrap());
    assert_ne!(a, b);
    assert_eq!(submit(&mut c), Err(SubmitError::Full));
    while c.poll_transmit(T0).is_some() {}
    // Completed with an error, but SQHD stays: no place yet.
    c.handle_bytes(&resp(a.0, 0, Status::INTERNAL_ERROR.0), T0);
    assert_eq!((submit(&mut c), c.room()), (Err(SubmitError::Full), 0));
    c.handle_bytes(&resp(b.0, 2, Status::INTERNAL_ERROR.0), T0);
    assert_eq!(c.room(), 2);
    submit(&mut c).unwrap();
}

#[test]
fn directions_and_sizes_are_checked_before_anything_is_sent() {
    let mut p = Peer::ready();
    let h = &mut p.host;
    assert_eq!(h.submit(command::read(Nsid(1), 0, 1), Payload::Out(vec![0; 512].into()), None), Err(SubmitError::Direction));
    assert_eq!(h.submit(command::write(Nsid(1), 0, 1), Payload::In(512), None), Err(SubmitError::Direction));
    assert_eq!(h.submit(command::read(Nsid(1), 0, 1), Payload::In((1 << 20) + 4), None), Err(SubmitError::TooLarge));
    assert!(p.sent().is_empty());
}

#[test]
fn a_command_without_an_answer_is_told_once() {
    let mut p = Peer::ready();
    let until = T0 + HostSettings::new("", [1; 16], "").command_patience;
    let cid = p.host.submit(command::read(Nsid(1), 0, 1), Payload::In(512), Some(until)).unwrap();
    p.sent();
    assert_eq!(p.host.poll_timeout(), Some(until));
    p.host.handle_timeout(Instant(until.0 - 1));
    assert!(p.events().is_empty());
    p.host.handle_timeout(until);
    let events = p.events();
    assert!(matches!(events[0], HostEvent::TimedOut(Waiting::Command(c)) if c == cid));
    // Whoever made the connection decides; the command is not over. [FAB-INIT-26]
    assert_eq!((events.len(), p.host.outstanding(), p.host.poll_timeout()), (1, 1, None));
    p.give(&resp(cid.0, 1, Status::INTERNAL_ERROR.0));
    assert_eq!(p.completions().len(), 1);
}

/// What RDMA leaves to the NIC a byte stream costs: every byte is copied into it or out of it, and a digest reads it once more.
#[test]
fn bytes_that_the_cpu_touches_are_counted() {
    let mut p = Peer::ready();
    let len = 64 << 10;
    let cid = p.write(len);
    p.give(&r2t(cid.0, 1, 0, len as u32));
    assert_eq!(p.sent().len(), len / 4096);
    p.give(&resp(cid.0, 1, 0));
    assert_eq!(p.host.touched(), len as u64);
    let cid = p.read(4096);
    p.give(&c2h(0x0c, cid.0, 0, &[7; 4096]));
    assert_eq!(p.host.touched(), len as u64 + 4096);
    // Memory of the user's: gathered into it as well, and out of it where it may change.
    let cid = p.host.submit(command::read(Nsid(1), 0, 8), Payload::Into(Memory::zeroed(4096)), None).unwrap();
    p.sent();
    p.give(&c2h(4, cid.0, 0, &[9; 4096]));
    p.give(&resp(cid.0, 3, 0));
    let memory = p.completions().pop().unwrap().memory.unwrap();
    assert_eq!((memory.as_slice(), memory.touched()), (&[9; 4096][..], 4096));
    assert_eq!(p.host.touched(), len as u64 + 3 * 4096);
    let cid = p.host.submit(command::write(Nsid(1), 0, 8), Payload::OutOf(Memory::zeroed(4096)), None).unwrap();
    p.sent();
    p.give(&r2t(cid.0, 1, 0, 4096));
    p.sent();
    p.give(&resp(cid.0, 4, 0));
    assert_eq!(p.completions().pop().unwrap().memory.unwrap().touched(), 4096);
    assert_eq!(p.host.touched(), len as u64 + 5 * 4096);

    let mut p = Peer::ready_with(digests(false, true), &icresp(0, 2, 4096));
    let cid = p.write(512);
    p.give(&r2t(cid.0, 1, 0, 512));
    p.sent();
    assert_eq!(p.host.touched(), 1024);
}
