//! What a controller can do wrong on a connection, and the H2CTermReq that each fault demands. [NVMe/TCP 1.0, 3.5 and 3.6.2.4]

use crate::host_support::{Peer, c2h, crc32c, digests, icresp, pdu, r2t, resp};
use nvmf_engine::host::{HostEvent, HostTcpSettings, Waiting};
use nvmf_spec::Answer;

/// Gives `bytes` and expects a terminate request with FES, FEI and the first `header` bytes of what was given.
fn check(what: &str, mut p: Peer, bytes: &[u8], fes: u16, fei: u32, header: usize) {
    p.give(bytes);
    let seen: Vec<HostEvent> = p.events();
    let violation = seen.iter().find_map(|e| match e {
        HostEvent::Violation(v) => Some(v.clone()),
        _ => None,
    });
    assert_eq!(violation.unwrap_or_else(|| panic!("{what}: {seen:?}")).answer, Answer::TermReq { fes, fei }, "{what}");
    assert_eq!(p.terminated(), (fes, fei, bytes[..header].to_vec()), "{what}");
}

#[test]
fn before_the_icresp() {
    let start = || Peer::starting(HostTcpSettings::default());
    for (what, bytes, fes, fei, header) in [
        ("a response first", resp(0, 0, 0), 2, 0, 24),
        ("data first", c2h(4, 0, 0, &[0; 512]), 2, 0, 24),
        ("R2T first", r2t(0, 0, 0, 512), 2, 0, 24),
        ("HLEN", pdu(1, 0, 24, 0, 128, &[(12, &[0, 16])]), 1, 2, 128),
        ("PLEN short", pdu(1, 0, 128, 0, 128, &[(4, &[127]), (12, &[0, 16])]), 1, 4, 128),
        ("PLEN long", pdu(1, 0, 128, 0, 132, &[(12, &[0, 16])]), 1, 4, 128),
        ("PFV", pdu(1, 0, 128, 0, 128, &[(8, &[1]), (12, &[0, 16])]), 6, 8, 128),
        ("CPDA 32", icresp(32, 0, 4096), 1, 10, 128),
        ("CPDA 255", icresp(255, 0, 4096), 1, 10, 128),
        ("HDGST unasked", icresp(0, 1, 4096), 1, 11, 128),
        ("DDGST unasked", icresp(0, 2, 4096), 1, 11, 128),
        ("MAXH2CDATA odd", icresp(0, 0, 4098), 1, 12, 128),
        ("MAXH2CDATA 0", icresp(0, 0, 0), 6, 12, 128),
        ("two faults, the lower offset", icresp(32, 3, 1), 1, 10, 128),
    ] {
        check(what, start(), &bytes, fes, fei, header);
    }
    // Asked for one, got the other.
    check("DDGST for HDGST", Peer::starting(digests(true, false)), &icresp(0, 2, 4096), 1, 11, 128);
}

#[test]
fn reserved_fields_of_an_icresp_are_not_judged() {
    let mut bytes = icresp(31, 0, 4);
    bytes[1] = 0xff;
    bytes[3] = 0xff;
    bytes[11] = 0xfc;
    bytes[16..].fill(0xff);
    let p = Peer::ready_with(HostTcpSettings::default(), &bytes);
    let agreed = p.host.negotiated();
    assert_eq!((agreed.align, agreed.maxh2cdata), (128, 4));
}

#[test]
fn headers() {
    for (what, bytes, fei, header) in [
        ("type of a host", pdu(4, 0, 72, 0, 72, &[]), 0, 72),
        ("H2CData from the controller", pdu(6, 0, 24, 0, 24, &[]), 0, 24),
        ("reserved type 08h", pdu(8, 0, 24, 0, 24, &[]), 0, 24),
        ("reserved type FFh", pdu(0xff, 0, 8, 0, 8, &[]), 0, 8),
        ("HDGSTF unagreed, response", pdu(5, 1, 24, 0, 28, &[]), 1, 24),
        ("HDGSTF unagreed, R2T", pdu(9, 1, 24, 0, 28, &[]), 1, 24),
        ("HLEN 0", pdu(5, 0, 0, 0, 24, &[]), 2, 24),
        ("HLEN 23", pdu(9, 0, 23, 0, 24, &[]), 2, 24),
        ("HLEN 255", pdu(7, 0, 255, 24, 536, &[]), 2, 24),
        ("PLEN 0", pdu(5, 0, 24, 0, 24, &[(4, &[0])]), 4, 24),
        ("PLEN 23", pdu(9, 0, 24, 0, 24, &[(4, &[23])]), 4, 24),
        ("PLEN 25", pdu(5, 0, 24, 0, 25, &[]), 4, 24),
        ("PLEN of 4 GiB", pdu(9, 0, 24, 0, 24, &[(4, &[0xff; 4])]), 4, 24),
        ("response for nobody", resp(0x1234, 0, 0), 8, 24),
    ] {
        check(what, Peer::ready(), &bytes, 1, fei, header);
    }
    check("a second ICResp", Peer::ready(), &icresp(0, 0, 4096), 2, 0, 128);
}

#[test]
fn a_response_to_a_command_that_was_not_sent_yet() {
    let mut p = Peer::ready();
    let cid = p.submit_write(512);
    p.give(&resp(cid.0, 1, 0));
    assert_eq!(p.terminated().0, 1);
}

/// A Read of 8192 bytes is outstanding.
fn reading() -> (Peer, u16) {
    let mut p = Peer::ready();
    let cid = p.read(8192).0;
    (p, cid)
}

#[test]
fn data_from_the_controller() {
    let d = vec![7u8; 8192];
    for (what, fes, fei, bytes) in [
        ("unknown CCCID", 1, 8, c2h(4, 0x77, 0, &d)),
        ("SUCCESS without LAST_PDU", 1, 1, c2h(8, 0, 0, &d)),
        ("DDGSTF unagreed", 1, 1, c2h(2 | 4, 0, 0, &d)),
        ("PDO 0", 1, 3, pdu(7, 4, 24, 0, 24 + 512, &[(16, &512u32.to_le_bytes())])),
        ("PDO in the header", 1, 3, pdu(7, 4, 24, 20, 24 + 512, &[(16, &512u32.to_le_bytes())])),
        ("PDO unaligned", 1, 3, pdu(7, 4, 24, 26, 26 + 512, &[(16, &512u32.to_le_bytes())])),
        ("PLEN below PDO + DATAL", 1, 4, pdu(7, 4, 24, 24, 24 + 508, &[(16, &512u32.to_le_bytes())])),
        ("PLEN above PDO + DATAL", 1, 4, pdu(7, 4, 24, 24, 24 + 516, &[(16, &512u32.to_le_bytes())])),
        ("DATAL of 4 GiB", 1, 4, pdu(7, 4, 24, 24, 24 + 512, &[(16, &[0xff; 4])])),
        ("DATAO unaligned", 1, 12, c2h(4, 0, 2, &d[..512])),
        ("DATAL unaligned", 1, 16, c2h(0, 0, 0, &d[..510])),
        ("DATAO not 0 first", 2, 0, c2h(4, 0, 512, &d[..512])),
        ("more than the buffer", 4, 0, c2h(4, 0, 0, &[0; 8196])),
    ] {
        let (p, cid) = reading();
        assert_eq!(cid, 0);
        check(what, p, &bytes, fes, fei, 24);
    }
}

#[test]
fn data_out_of_its_place() {
    for (what, fes, fei, first, second) in [
        ("gap", 2, 0, c2h(0, 0, 0, &[0; 512]), c2h(4, 0, 1024, &[0; 512])),
        ("overlap", 2, 0, c2h(0, 0, 0, &[0; 512]), c2h(4, 0, 0, &[0; 512])),
        ("beyond, later", 4, 0, c2h(0, 0, 0, &[0; 8188]), c2h(4, 0, 8188, &[0; 8])),
        ("after LAST_PDU", 2, 0, c2h(4, 0, 0, &[0; 512]), c2h(4, 0, 512, &[0; 512])),
        ("after SUCCESS", 1, 8, c2h(12, 0, 0, &[0; 8192]), c2h(4, 0, 0, &[0; 512])),
        ("response after SUCCESS", 1, 8, c2h(12, 0, 0, &[0; 8192]), resp(0, 1, 0)),
    ] {
        let (mut p, _) = reading();
        p.give(&first);
        p.events();
        check(what, p, &second, fes, fei, 24);
    }
    // A command that has no data for the host.
    let mut p = Peer::ready();
    let cid = p.write(4096).0;
    check("data for a Write", p, &c2h(4, cid, 0, &[0; 512]), 2, 0, 24);
}

/// A Write of 8192 bytes is outstanding; one R2T a command.
fn writing() -> Peer {
    let mut p = Peer::ready();
    assert_eq!(p.write(8192).0, 0);
    p
}

#[test]
fn requests_for_data() {
    for (what, fes, fei, bytes) in [
        ("unknown CCCID", 1, 8, r2t(0x77, 1, 0, 512)),
        ("R2TO unaligned", 1, 12, r2t(0, 1, 2, 512)),
        ("R2TL 0", 1, 16, r2t(0, 1, 0, 0)),
        ("R2TL unaligned", 1, 16, r2t(0, 1, 0, 510)),
        ("R2TO not 0 first", 2, 0, r2t(0, 1, 512, 512)),
        ("more than the buffer", 4, 0, r2t(0, 1, 0, 8196)),
        ("nearly 4 GiB", 4, 0, r2t(0, 1, 0, 0xffff_fffc)),
    ] {
        check(what, writing(), &bytes, fes, fei, 24);
    }
    let (p, cid) = reading();
    check("R2T for a Read", p, &r2t(cid, 1, 0, 512), 2, 0, 24);
    // Sums that wrap at 32 bits.
    let mut p = writing();
    p.give(&r2t(0, 1, 0, 4096));
    p.sent();
    check("wraps to 0", p, &r2t(0, 2, 4096, 0xffff_f000), 4, 0, 24);
}

#[test]
fn more_r2ts_than_maxr2t() {
    for allowed in [1u16, 2, 4] {
        let mut p = Peer::ready_with(HostTcpSettings { r2ts: allowed, ..HostTcpSettings::default() }, &icresp(0, 0, 4096));
        p.write(8192);
        let at_once: Vec<u8> = (0..u32::from(allowed)).flat_map(|n| r2t(0, 1, n * 512, 512)).collect();
        p.give(&at_once);
        assert!(p.events().is_empty());
        check("one more", p, &r2t(0, 9, u32::from(allowed) * 512, 512), 5, 0, 24);
    }
    // Once the first is answered, another may come.
    let mut p = writing();
    p.give(&r2t(0, 1, 0, 4096));
    assert_eq!(p.sent().len(), 1);
    p.give(&r2t(0, 2, 4096, 4096));
    assert_eq!(p.sent().len(), 1);
}

#[test]
fn header_digests() {
    let start = || {
        let mut p = Peer::ready_with(digests(true, false), &icresp(0, 1, 4096));
        p.read(512);
        p
    };
    let seal = |mut b: Vec<u8>| {
        let d = crc32c(&b[..24]);
        b[24..28].copy_from_slice(&d);
        b
    };
    let good = seal(pdu(5, 1, 24, 0, 28, &[(16, &[2]), (22, &[4])]));
    let mut p = start();
    p.give(&good);
    assert_eq!(p.completions().len(), 1);
    // The digest received is returned, not its offset. [TCP-TERM-36]
    let mut bad = good.clone();
    bad[24..28].copy_from_slice(&[1, 2, 3, 4]);
    check("wrong digest", start(), &bad, 3, 0x0403_0201, 24);
    let mut bad = good.clone();
    bad[12] ^= 1;
    let received = u32::from_le_bytes(good[24..28].try_into().unwrap());
    check("a bit of the header flipped", start(), &bad, 3, received, 24);
    // A field that the digest covers rightly but that is wrong itself.
    check("HDGSTF missing", start(), &resp(0, 1, 0), 1, 1, 24);
    check("PLEN without HDGST", start(), &pdu(5, 1, 24, 0, 24, &[]), 1, 4, 24);
    check("PLEN", start(), &seal(pdu(5, 1, 24, 0, 32, &[(16, &[2])])), 1, 4, 24);
    check("PDO over HDGST", start(), &seal(pdu(7, 5, 24, 24, 24 + 512, &[(16, &512u32.to_le_bytes())])), 1, 3, 24);
}

#[test]
fn a_wrong_start_of_a_header_waits_shortly_for_the_rest() {
    let bytes = pdu(5, 0, 99, 0, 24, &[(8, &[1, 2, 3])]);
    let mut p = Peer::ready();
    p.give(&bytes[..10]);
    assert!(p.sent().is_empty());
    p.give(&bytes[10..]);
    assert_eq!(p.terminated(), (1, 2, bytes.clone()));

    let mut p = Peer::ready();
    p.give(&bytes[..10]);
    p.now = p.host.poll_timeout().expect("patience is limited");
    p.host.handle_timeout(p.now);
    assert_eq!(p.terminated(), (1, 2, bytes[..10].to_vec()));
}

#[test]
fn a_controller_that_closes_in_the_middle_of_its_fault_is_still_blamed_for_it() {
    let mut p = Peer::starting(HostTcpSettings::default());
    p.give(b"HTTP/1.1 400 Bad Request");
    p.host.handle_closed();
    let events = p.events();
    let [HostEvent::Violation(v), HostEvent::Close { .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!((v.requirement.id, v.answer), ("TCP-CH-02", Answer::TermReq { fes: 1, fei: 0 }));
}

#[test]
fn outstanding_commands_end_with_the_connection() {
    let (mut p, cid) = reading();
    p.give(&pdu(8, 0, 24, 0, 24, &[]));
    let done = p.completions();
    assert_eq!(done.len(), 1);
    assert_eq!((done[0].cid.0, done[0].status()), (cid, nvmf_wire::Status::COMMAND_ABORTED_BY_HOST));
}

#[test]
fn a_terminate_request_is_answered_with_a_close() {
    for (plen, known) in [(24u32, true), (48, true), (152, true), (23, false), (153, false), (0, false), (u32::MAX, false)] {
        let (mut p, _) = reading();
        let mut bytes = pdu(3, 0, 24, 0, plen.clamp(24, 200), &[(8, &[5, 0]), (10, &[9, 8, 7, 6])]);
        bytes[4..8].copy_from_slice(&plen.to_le_bytes());
        p.give(&bytes);
        let events = p.events();
        let Some(HostEvent::TermReq { fes, fei }) = events.first() else { panic!("{plen}: {events:?}") };
        assert_eq!((fes.0, *fei), if known { (5, 0x0607_0809) } else { (0, 0) }, "{plen}");
        assert!(matches!(events.last(), Some(HostEvent::Close { reset: false })), "{plen}: {events:?}");
        assert!(p.sent().is_empty(), "{plen}: no answer");
    }
}

#[test]
fn no_icresp_in_time() {
    let mut p = Peer::starting(HostTcpSettings::default());
    let until = p.host.poll_timeout().expect("a timer");
    p.host.handle_timeout(until);
    let events = p.events();
    assert!(matches!(events[..], [HostEvent::TimedOut(Waiting::IcResp), HostEvent::Close { reset: true }]), "{events:?}");
}
