//! The decoded trace, over exchanges put together by hand.

mod talk;

use bytes::Bytes;
use nvmf_capture::{Connection, Event, EventKind, Recorder, Trace};
use nvmf_wire::tcp::{C2hData, Digests, Fes, H2cData, Pdu, PduType, R2t, TermReq};
use nvmf_wire::{Cid, Cqe, Status};

use talk::{C2H, H2C, Talk, connect, connected, sqe};

fn plain(talk: Talk) -> String {
    Trace::default().without_times().exchange(&talk.exchange())
}

#[test]
fn an_admin_queue_with_its_properties() {
    let mut t = connected(0, Digests::default());
    t.command(sqe("PropertyGet", 1, &[("attrib", 1)]), &[]);
    t.response(*Cqe::of(Cid(1), Status::SUCCESS, 2).with(|s| s.dw0(0x1e01_03ff).dw1(0x20)).as_bytes());
    t.command(sqe("PropertySet", 2, &[("ofst", 0x14), ("value", 0x0046_0001)]), &[]);
    t.done(2, Status::SUCCESS, 3);
    t.command(sqe("PropertyGet", 3, &[("ofst", 0x1c)]), &[]);
    t.response(*Cqe::of(Cid(3), Status::SUCCESS, 4).with(|s| s.dw0(1)).as_bytes());
    t.command(sqe("SetFeatures", 4, &[("fid", 7), ("value", 0x0001_0001)]), &[]);
    t.response(*Cqe::of(Cid(4), Status::SUCCESS, 5).with(|s| s.dw0(0x0001_0001)).as_bytes());
    t.command(sqe("AsyncEventRequest", 5, &[]), &[]);
    t.response(*Cqe::of(Cid(5), Status::SUCCESS, 6).with(|s| s.dw0(0x0004_0002)).as_bytes());
    t.command(sqe("Identify", 6, &[("cns", 1), ("sgl1_len", 4096), ("sgl1_type", 5), ("sgl1_sub", 10)]), &[]);
    let head = C2hData::new().with(|s| s.cccid(Cid(6)).datal(4096).last(true));
    t.send(C2H, PduType::C2H_DATA, head.as_bytes(), &[0; 4096]);
    t.done(6, Status::SUCCESS, 7);
    insta::assert_snapshot!(plain(t));
}

#[test]
fn an_io_queue_with_r2t_digests_and_padding() {
    let mut t = connected(1, Digests { header: true, data: true });
    t.align = 32;
    let fields = [("nsid", 1), ("slba", 128), ("nlb", 7), ("sgl1_len", 4096), ("sgl1_type", 5), ("sgl1_sub", 10)];
    t.command(sqe("Write", 7, &fields), &[]);
    t.send(C2H, PduType::R2T, R2t::new().with(|s| s.cccid(Cid(7)).ttag(0x21).r2tl(4096)).as_bytes(), &[]);
    for (datao, last) in [(0, false), (2048, true)] {
        let head = H2cData::new().with(|s| s.cccid(Cid(7)).ttag(0x21).datao(datao).datal(2048).last(last));
        t.send(H2C, PduType::H2C_DATA, head.as_bytes(), &[7; 2048]);
    }
    t.done(7, Status::SUCCESS, 2);
    t.command(sqe("Read", 8, &fields), &[]);
    let head = C2hData::new().with(|s| s.cccid(Cid(8)).datal(4096).last(true).success(true));
    t.send(C2H, PduType::C2H_DATA, head.as_bytes(), &[7; 4096]);
    t.done(8, Status::SUCCESS, 3);
    insta::assert_snapshot!(plain(t));
}

#[test]
fn what_goes_wrong_is_said() {
    let mut t = Talk::new();
    t.start(Digests::default());
    let (sqe, data) = connect(0, 3);
    t.command(sqe, data.as_bytes());
    let status = Status(Status::CONNECT_INVALID_PARAMETERS.0 | 1 << 14);
    t.response(*Cqe::of(Cid(3), status, 1).with(|s| s.dw0(0x0001_0100)).as_bytes());
    t.send(C2H, PduType::R2T, R2t::new().with(|s| s.cccid(Cid(9)).ttag(1).r2tl(512)).as_bytes(), &[]);
    t.send(H2C, PduType(0x0a), &[0; 16], &[]);
    t.send(H2C, PduType::CAPSULE_RESP, &[0; 24], &[]);
    t.digests = Digests { header: true, data: true };
    t.align = 16;
    let head = C2hData::new().with(|s| s.cccid(Cid(3)).datal(8));
    t.send(C2H, PduType::C2H_DATA, &with_reserved(head.as_bytes()), &[1; 8]);
    let mut torn =
        Pdu::build(&with_type(H2cData::new().as_bytes(), PduType::H2C_DATA), Bytes::from_static(&[1; 8]), t.digests, 4).to_bytes();
    torn[3] = 200;
    t.raw(H2C, &torn);
    let offending = with_type(&[0; 24], PduType::H2C_DATA);
    let term = TermReq::new().with(|s| s.fes(Fes::INVALID_PDU_HEADER_FIELD).fei(3));
    t.send(C2H, PduType::C2H_TERM_REQ, term.as_bytes(), &offending);
    t.raw(C2H, &[1, 2, 3, 4, 0xff, 0xff, 0xff, 0xff, 5]);
    t.rec.gap(H2C, t.now_ns, 77);
    t.rec.close(C2H, t.now_ns, true);
    insta::assert_snapshot!(plain(t));
}

fn with_type(header: &[u8], ptype: PduType) -> Vec<u8> {
    let mut b = header.to_vec();
    b[0] = ptype.0;
    b
}

fn with_reserved(header: &[u8]) -> Vec<u8> {
    let mut b = header.to_vec();
    b[10] = 0x55;
    b
}

#[test]
fn times_are_milliseconds_since_the_start_with_microseconds() {
    let mut t = Talk::new();
    t.start(Digests::default());
    let e = t.exchange();
    let text = Trace::new(e.start_ns()).exchange(&e);
    assert_eq!(text.lines().next(), Some("#0 10.0.0.1:40000 -> 10.0.0.2:4420"));
    assert!(text.lines().nth(1).unwrap().starts_with("     1.000 #0 > ICReq "), "{text}");
    assert!(text.lines().nth(2).unwrap().starts_with("     2.001 #0 < ICResp "), "{text}");
}

#[test]
fn every_cut_gives_the_same_events_and_keeps_the_pieces() {
    let whole = connected(0, Digests { header: true, data: true }).exchange();
    let connection = &whole.connections[0];
    for size in [1, 7, 8, 9, 72, 4096] {
        let mut rec = Recorder::new(connection.client, connection.server, 0);
        let mut pieces = 0;
        for chunk in &connection.chunks {
            for piece in chunk.bytes.chunks(size) {
                rec.push(chunk.dir, chunk.at_ns, Bytes::copy_from_slice(piece));
                pieces += 1;
            }
        }
        let again = rec.finish();
        assert_eq!(again.events, connection.events, "pieces of {size}");
        assert_eq!(again.chunks.len(), pieces);
    }
}

#[test]
fn the_discovery_of_a_real_host() {
    let path = talk::captures().into_iter().find(|p| p.ends_with("linux-6.12/tcp-discover-4420.pcap.gz")).unwrap();
    let capture = nvmf_capture::Capture::open(path).unwrap();
    insta::assert_snapshot!(Trace::default().without_times().exchange(capture.exchange()));
}

/// The messages of DH-HMAC-CHAP as a real host and target say them: both sides prove themselves; the host's key is wrong.
#[test]
fn the_authentication_of_a_real_host() {
    let mut out = String::new();
    for name in ["auth-bidi-sha384-ffdhe2048", "auth-uni-sha256-null", "auth-fail-wrong-key"] {
        let path = talk::captures().into_iter().find(|p| p.ends_with(format!("linux-6.12/{name}.pcap.gz"))).unwrap();
        let capture = nvmf_capture::Capture::open(path).unwrap();
        let text = Trace::default().without_times().exchange(capture.exchange());
        out.push_str(&format!("{name}\n"));
        for line in text.lines().filter(|l| l.contains("AUTH_") || l.contains("CHAP_")) {
            out.push_str(&format!("{line}\n"));
        }
    }
    insta::assert_snapshot!(out);
}

/// A message is shown where its last piece comes, in capsules, H2CData and C2HData, and only if no piece is missing.
#[test]
fn an_authentication_message_in_pieces() {
    let mut t = connected(0, Digests::default());
    let challenge: Vec<u8> = [&[1, 1, 0, 0, 5, 0, 32, 0, 1, 0, 0, 0, 9, 0, 0, 0][..], &[0xc1; 32]].concat();
    let transport = [("al", 4096), ("sgl1_len", 4096), ("sgl1_type", 5), ("sgl1_sub", 10)];
    t.command(sqe("AuthenticationReceive", 3, &transport), &[]);
    for (from, to) in [(0, 5), (5, 40), (40, 48)] {
        let head = C2hData::new().with(|s| s.cccid(Cid(3)).datao(from as u32).datal((to - from) as u32).last(to == 48));
        t.send(C2H, PduType::C2H_DATA, head.as_bytes(), &challenge[from..to]);
    }
    t.done(3, Status::SUCCESS, 3);
    let reply: Vec<u8> = [&[1, 2, 0, 0, 5, 0, 32, 0, 0, 0, 0, 0, 9, 0, 0, 0][..], &[0x71; 32], &[0; 32]].concat();
    t.command(sqe("AuthenticationSend", 4, &[("tl", 80), ("sgl1_len", 80), ("sgl1_type", 5), ("sgl1_sub", 10)]), &[]);
    t.send(C2H, PduType::R2T, R2t::new().with(|s| s.cccid(Cid(4)).ttag(1).r2tl(80)).as_bytes(), &[]);
    for (from, to) in [(0, 64), (64, 80)] {
        let head = H2cData::new().with(|s| s.cccid(Cid(4)).ttag(1).datao(from as u32).datal((to - from) as u32).last(to == 80));
        t.send(H2C, PduType::H2C_DATA, head.as_bytes(), &reply[from..to]);
    }
    t.done(4, Status::SUCCESS, 4);
    t.command(sqe("AuthenticationReceive", 5, &transport), &[]);
    let head = C2hData::new().with(|s| s.cccid(Cid(5)).datao(8).datal(40).last(true));
    t.send(C2H, PduType::C2H_DATA, head.as_bytes(), &challenge[8..]);
    t.command(sqe("AuthenticationSend", 6, &[("tl", 12), ("sgl1_len", 12), ("sgl1_sub", 1)]), &reply[..12]);
    let text = plain(t);
    let shown: Vec<&str> = text.lines().filter(|l| l.contains('{') && l.contains("uthentication")).collect();
    assert_eq!(shown.len(), 3, "{shown:#?}");
    assert!(
        shown[0].contains("datao=40") && shown[0].contains("CHAP_Challenge t_id=5") && shown[0].contains("c1=c1c1"),
        "{}",
        shown[0]
    );
    assert!(shown[1].contains("datao=64") && shown[1].contains("CHAP_Reply") && shown[1].contains("(32)}"), "{}", shown[1]);
    assert!(shown[2].contains("malformed authentication message") && shown[2].contains("DhchapReply"), "{}", shown[2]);
}

/// Reading, writing as pcapng and reading again keeps every PDU, its time and its direction.
#[test]
fn recorded_captures_survive_being_written() {
    for path in talk::captures() {
        let first = nvmf_capture::Capture::open(&path).unwrap();
        let mut bytes = Vec::new();
        nvmf_capture::pcapng::Writer::new().write(first.exchange(), &mut bytes).unwrap();
        let again = nvmf_capture::Capture::read(&bytes[..]).unwrap();
        // What is written is not below TLS, and nothing is written of what was not opened.
        let with_pdus = |c: &&Connection| c.pdus().next().is_some();
        let (before, after) = (first.connections().iter().filter(with_pdus), again.connections().iter().filter(with_pdus));
        assert_eq!(before.clone().count(), after.clone().count(), "{path:?}");
        for (a, b) in before.zip(after) {
            let kept = |e: &&Event| !matches!(e.kind, EventKind::Tls(_));
            let plain = |c: &Connection| c.events.iter().filter(kept).map(|e| (e.at_ns, e.dir, e.kind.clone())).collect::<Vec<_>>();
            assert_eq!(plain(a), plain(b), "{path:?}");
        }
    }
}
