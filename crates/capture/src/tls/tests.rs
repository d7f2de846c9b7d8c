//! Connections sealed here, with what a capture can do to them: any cut, changed records, gaps, missing secrets.

use std::fmt::Write as _;

use super::keylog::KeyLog;
use super::keys::Keys;
use super::notice::{Alert, Group, Notice, Suite, Version};
use super::stream::{Output, Stream};
use crate::exchange::Direction;
use Direction::{ControllerToHost as C2H, HostToController as H2C};

const RANDOM: [u8; 32] = [0x5a; 32];
const IDENTITY: &[u8] = b"NVMe0R01 nqn.2014-08.org.nvmexpress:uuid:1 nqn.2014-08.org.nvmexpress.discovery";

fn vector<const N: usize>(body: &[u8]) -> Vec<u8> {
    let mut out = (body.len() as u64).to_be_bytes()[8 - N..].to_vec();
    out.extend(body);
    out
}

fn extension(id: u16, body: &[u8]) -> Vec<u8> {
    [&id.to_be_bytes()[..], &vector::<2>(body)].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &vector::<3>(body)].concat()
}

fn plain(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3][..], &vector::<2>(content)].concat()
}

fn client_hello() -> Vec<u8> {
    let identity = [vector::<2>(IDENTITY), vec![0; 4]].concat();
    let psk = [vector::<2>(&identity), vector::<2>(&vector::<1>(&[7; 32]))].concat();
    let extensions = [extension(43, &[2, 3, 4]), extension(41, &psk)].concat();
    let suites = [0x13, 1, 0x13, 2, 0x13, 3];
    let body = [&[3, 3][..], &RANDOM, &[0], &vector::<2>(&suites), &[1, 0], &vector::<2>(&extensions)].concat();
    plain(22, &message(1, &body))
}

fn server_hello(suite: Suite, version: u16) -> Vec<u8> {
    let share = [&[0, 0x1d][..], &vector::<2>(&[9; 32])].concat();
    let mut extensions = [extension(51, &share), extension(41, &[0, 0])].concat();
    if version == 0x0304 {
        extensions.extend(extension(43, &version.to_be_bytes()));
    }
    let body = [&[3, 3][..], &[3; 32], &[0], &suite.0.to_be_bytes(), &[0], &vector::<2>(&extensions)].concat();
    plain(22, &message(2, &body))
}

fn secret(suite: Suite, n: u8) -> Vec<u8> {
    vec![n; if suite == Suite::AES_256_GCM_SHA384 { 48 } else { 32 }]
}

/// A key log with the secrets named by their place: handshake and traffic of the client, then of the server.
fn log(suite: Suite, which: &[u8]) -> KeyLog {
    let labels = [
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_TRAFFIC_SECRET_0",
    ];
    let hex = |b: &[u8]| b.iter().fold(String::new(), |s, b| s + &format!("{b:02x}"));
    let mut text = String::new();
    for n in which {
        let _ = writeln!(text, "{} {} {}", labels[usize::from(*n)], hex(&RANDOM), hex(&secret(suite, *n)));
    }
    KeyLog::read(text.as_bytes()).unwrap()
}

const ALL: [u8; 4] = [0, 1, 2, 3];

/// One end's way to seal.
struct Sealer {
    keys: Keys,
    seq: u64,
}

impl Sealer {
    fn new(suite: Suite, n: u8) -> Self {
        Self { keys: Keys::new(suite, &secret(suite, n)).unwrap(), seq: 0 }
    }

    fn seal(&mut self, kind: u8, content: &[u8], padding: usize) -> Vec<u8> {
        self.seq += 1;
        self.keys.seal(self.seq - 1, kind, content, padding)
    }

    fn update(&mut self) -> Vec<u8> {
        let record = self.seal(22, &message(24, &[1]), 0);
        *self = Self { keys: self.keys.updated().unwrap(), seq: 0 };
        record
    }
}

/// What the two ends send, in order.
type Talk = Vec<(Direction, Vec<u8>)>;

/// A handshake, and the two ends behind it.
fn handshake(suite: Suite) -> (Talk, [Sealer; 2]) {
    let (mut client, mut server) = (Sealer::new(suite, 0), Sealer::new(suite, 2));
    let finished = message(20, &[8; 32]);
    let flight = [message(8, &[0, 0]), finished.clone()].concat();
    let talk = vec![
        (H2C, client_hello()),
        (C2H, [server_hello(suite, 0x0304), plain(20, &[1])].concat()),
        // EncryptedExtensions and Finished, cut within a message.
        (C2H, [server.seal(22, &flight[..9], 0), server.seal(22, &flight[9..], 5)].concat()),
        (H2C, [plain(20, &[1]), client.seal(22, &finished, 0)].concat()),
    ];
    (talk, [Sealer::new(suite, 1), Sealer::new(suite, 3)])
}

/// What came out, data joined by direction.
#[derive(Debug, Default, PartialEq)]
struct Got {
    data: [Vec<u8>; 2],
    notices: Vec<Notice>,
    missing: [u64; 2],
    unopened: Vec<(u64, u64, String)>,
}

impl Got {
    fn take(&mut self, dir: Direction, output: &Output<'_>) {
        match output {
            Output::Data(b) => self.data[dir.index()].extend(*b),
            Output::Missing(n) => self.missing[dir.index()] += n,
            Output::Notice(n) => self.notices.push(n.clone()),
            Output::Unopened { offset, why, bytes, len } => {
                assert!(bytes.is_empty() || bytes.len() as u64 == *len);
                self.unopened.push((*offset, *len, why.clone()));
            }
        }
    }
}

fn read(talk: &[(Direction, Vec<u8>)], log: &KeyLog, cut: usize) -> Got {
    let (mut stream, mut got) = (Stream::new(), Got::default());
    for (dir, bytes) in talk {
        for piece in bytes.chunks(cut) {
            stream.push(*dir, piece, log, |d, o| got.take(d, &o));
        }
    }
    for dir in [H2C, C2H] {
        stream.end(dir, |d, o| got.take(d, &o));
    }
    got
}

#[test]
fn every_suite_opens_whatever_the_cut() {
    for suite in [Suite::AES_128_GCM_SHA256, Suite::AES_256_GCM_SHA384, Suite::CHACHA20_POLY1305_SHA256] {
        let (mut talk, [mut host, mut controller]) = handshake(suite);
        let long: Vec<u8> = (0..16384u32).map(|i| i as u8).collect();
        talk.push((H2C, [host.seal(23, b"one", 0), host.seal(23, b"", 100), host.seal(23, b"two\0", 255)].concat()));
        talk.push((C2H, controller.seal(22, &message(4, &[0, 0, 14, 16, 0]), 0)));
        talk.push((C2H, [controller.seal(23, &long, 0), controller.update(), controller.seal(23, b"three", 0)].concat()));
        talk.push((H2C, [host.update(), host.seal(23, b"four", 0), host.update(), host.seal(23, b"five", 0)].concat()));
        talk.push((H2C, host.seal(21, &[1, 0], 0)));
        let whole = read(&talk, &log(suite, &ALL), usize::MAX);
        assert_eq!(whole.data, [b"onetwo\0fourfive".to_vec(), [&long[..], b"three"].concat()]);
        let chosen = Notice::ServerHello {
            version: Version::TLS_1_3,
            suite,
            group: Some(Group::X25519),
            identity: Some(bytes::Bytes::from_static(IDENTITY)),
        };
        assert!(matches!(&whole.notices[0], Notice::ClientHello { random: RANDOM, early_data: false, .. }), "{:?}", whole.notices);
        let rest = [
            chosen,
            Notice::Finished,
            Notice::Finished,
            Notice::NewSessionTicket(3600),
            Notice::KeyUpdate(true),
            Notice::KeyUpdate(true),
            Notice::KeyUpdate(true),
            Notice::Alert(Alert::CLOSE_NOTIFY),
        ];
        assert_eq!(whole.notices[1..], rest);
        assert_eq!((whole.missing, whole.unopened.len()), ([0, 0], 0), "{:?}", whole.unopened);
        for cut in [1, 4, 5, 6, 100, 1460] {
            assert_eq!(read(&talk, &log(suite, &ALL), cut), whole, "pieces of {cut}");
        }
        // The host's Finished was captured before the ServerHello.
        let finished = talk.remove(3);
        talk.insert(1, finished);
        assert_eq!(read(&talk, &log(suite, &ALL), usize::MAX).data, whole.data);
    }
}

/// Ten records of 50 bytes behind a handshake.
fn ten() -> (Talk, Vec<Vec<u8>>, Vec<u8>) {
    let (talk, [mut host, _]) = handshake(Suite::AES_128_GCM_SHA256);
    let records: Vec<Vec<u8>> = (0..10u8).map(|i| host.seal(23, &[b'a' + i; 50], 0)).collect();
    (talk, records, (0..10u8).flat_map(|i| [b'a' + i; 50]).collect())
}

#[test]
fn a_changed_byte_costs_its_record_alone() {
    let (talk, records, text) = ten();
    let log = log(Suite::AES_128_GCM_SHA256, &ALL);
    let before: u64 = talk.iter().filter(|(d, _)| *d == H2C).map(|(_, b)| b.len() as u64).sum();
    for at in 0..records[3].len() {
        let mut changed = records.clone();
        changed[3][at] ^= 0x41;
        let mut talk = talk.clone();
        talk.push((H2C, changed.concat()));
        let got = read(&talk, &log, 33);
        assert_eq!(got.data[0], [&text[..150], &text[200..]].concat(), "byte {at}");
        assert_eq!(got.missing, [50, 0], "byte {at}");
        let told: u64 = got.unopened.iter().map(|(_, len, _)| len).sum();
        assert_eq!((got.unopened[0].0, told), (before + 3 * 72, 72), "byte {at}: {:?}", got.unopened);
        if (5..72).contains(&at) {
            assert!(got.unopened[0].2.contains("record 3 does not authenticate"), "{:?}", got.unopened);
        }
    }
}

#[test]
fn behind_any_gap_the_next_whole_record_opens() {
    let (talk, records, text) = ten();
    let log = log(Suite::AES_128_GCM_SHA256, &ALL);
    let bytes = records.concat();
    for (from, to) in [(1, 2), (0, 72), (71, 73), (72, 144), (100, 400), (216, 648), (3, 647), (500, 720)] {
        let (mut stream, mut got) = (Stream::new(), Got::default());
        for (dir, b) in &talk {
            stream.push(*dir, b, &log, |d, o| got.take(d, &o));
        }
        stream.push(H2C, &bytes[..from], &log, |d, o| got.take(d, &o));
        stream.gap(H2C, (to - from) as u64, |d, o| got.take(d, &o));
        stream.push(H2C, &bytes[to..], &log, |d, o| got.take(d, &o));
        stream.end(H2C, |d, o| got.take(d, &o));
        let (kept, again) = (from / 72 * 50, to.div_ceil(72) * 50);
        assert_eq!(got.data[0], [&text[..kept], &text[again..]].concat(), "{from}..{to}");
        let missing = if again == text.len() { 0 } else { (again - kept) as u64 };
        assert_eq!(got.missing[0], missing, "{from}..{to}");
        let told: u64 = got.unopened.iter().map(|(_, len, _)| len).sum();
        let rest = if again == text.len() { bytes.len() } else { to.div_ceil(72) * 72 };
        assert_eq!(told, (rest - from / 72 * 72) as u64, "{from}..{to}: {:?}", got.unopened);
    }
}

#[test]
fn a_lost_finished_or_key_update_is_passed() {
    let suite = Suite::AES_128_GCM_SHA256;
    let (talk, [mut host, _]) = handshake(suite);
    let (one, update, two) = (host.seal(23, b"one", 0), host.update(), host.seal(23, b"two", 0));
    let (mut stream, mut got) = (Stream::new(), Got::default());
    let all = log(suite, &ALL);
    for (dir, b) in &talk[..3] {
        stream.push(*dir, b, &all, |d, o| got.take(d, &o));
    }
    stream.gap(H2C, talk[3].1.len() as u64, |d, o| got.take(d, &o));
    stream.push(H2C, &one, &all, |d, o| got.take(d, &o));
    stream.gap(H2C, update.len() as u64, |d, o| got.take(d, &o));
    stream.push(H2C, &two, &all, |d, o| got.take(d, &o));
    assert_eq!(got.data[0], b"onetwo");
}

#[test]
fn what_is_missing_is_said_once() {
    let suite = Suite::AES_128_GCM_SHA256;
    let (mut talk, [mut host, mut controller]) = handshake(suite);
    for i in 0..5 {
        talk.push((H2C, host.seal(23, &[i; 50], 0)));
        talk.push((C2H, controller.seal(23, &[i; 50], 0)));
    }
    let none = read(&talk, &KeyLog::default(), usize::MAX);
    assert_eq!(none.data, [vec![], vec![]]);
    assert_eq!(none.notices.len(), 2, "what is not protected is shown");
    assert_eq!(none.unopened.len(), 1);
    assert!(none.unopened[0].2.ends_with(&format!("no secret for client random {}", "5a".repeat(32))), "{:?}", none.unopened);

    // One direction can be opened without the other; the handshake without its secrets is passed over.
    let server = read(&talk, &log(suite, &[2, 3]), usize::MAX);
    assert_eq!((server.data[0].len(), server.data[1].len(), server.unopened.len()), (0, 250, 1));
    assert!(server.unopened[0].2.contains("no client secret"), "{:?}", server.unopened);
    let traffic = read(&talk, &log(suite, &[1, 3]), usize::MAX);
    assert_eq!((traffic.data[0].len(), traffic.data[1].len(), traffic.missing), (250, 250, [0, 0]));
    let no_traffic = read(&talk, &log(suite, &[0, 2]), usize::MAX);
    assert_eq!((no_traffic.data, no_traffic.unopened.len()), ([vec![], vec![]], 1));
    assert_eq!(no_traffic.notices.len(), 4, "both Finished");

    let old = vec![talk[0].clone(), (C2H, [server_hello(suite, 0x0303), plain(23, &[1; 40])].concat())];
    let old = read(&old, &log(suite, &ALL), usize::MAX);
    assert!(old.unopened.len() == 1 && old.unopened[0].2.contains("TLS 1.2"), "{:?}", old.unopened);
    let ccm = vec![talk[0].clone(), (C2H, [server_hello(Suite::AES_128_CCM_SHA256, 0x0304), plain(23, &[1; 40])].concat())];
    let ccm = read(&ccm, &log(suite, &ALL), usize::MAX);
    assert!(ccm.unopened.len() == 1 && ccm.unopened[0].2.contains("TLS_AES_128_CCM_SHA256"), "{:?}", ccm.unopened);
}

#[test]
fn wrong_secrets_are_told_and_given_up() {
    let suite = Suite::AES_128_GCM_SHA256;
    let (mut talk, _) = handshake(suite);
    let mut other = Sealer::new(suite, 9);
    talk.extend((0..2000u32).map(|_| (H2C, other.seal(23, &[7; 16000], 0))));
    let sent: usize = talk.iter().filter(|(d, _)| *d == H2C).map(|(_, b)| b.len()).sum();
    let got = read(&talk, &log(suite, &ALL), usize::MAX);
    assert!(got.unopened.len() == 2 && got.unopened[0].2.contains("record 0 does not authenticate"), "{:?}", got.unopened);
    assert!(got.unopened[1].2.contains("given up") && got.unopened[1].1 < sent as u64 / 4, "{:?}", got.unopened);
}

#[test]
fn a_controller_that_answers_without_tls_is_shown_as_it_is() {
    let answer = b"\x03\x00\x18\x00\x18\0\0\0plain bytes of a C2HTermReq";
    for cut in [1, 7, usize::MAX] {
        let got = read(&[(H2C, client_hello()), (C2H, answer.to_vec())], &KeyLog::default(), cut);
        assert_eq!((&got.data[1][..], got.unopened.len()), (&answer[..], 0));
    }
}

#[test]
fn lengths_and_messages_that_cannot_be_end_the_reading() {
    let suite = Suite::AES_128_GCM_SHA256;
    let all = log(suite, &ALL);
    let one = |bytes: Vec<u8>| {
        let got = read(&[(H2C, bytes)], &all, usize::MAX);
        assert!(got.unopened.len() == 1 && got.data[0].is_empty(), "{got:?}");
        got.unopened[0].2.clone()
    };
    assert!(one([&client_hello()[..], &[22, 3, 3, 0x41, 1]].concat()).contains("no TLS record: type 22, version 3, 16641 bytes"));
    assert!(one(plain(22, &[1, 0, 0x80, 1])).contains("handshake message of 32769 bytes"));
    let early = [client_hello(), [plain(23, &[0; 16000]), plain(23, &[0; 16000]), plain(23, &[0; 1000])].concat()].concat();
    assert!(one(early).contains("before the ServerHello"));
    assert!(one(client_hello()[..20].to_vec()).contains("ends after 20 bytes"));
}

#[test]
fn a_start_is_told_from_other_protocols() {
    let hello = client_hello();
    assert_eq!(Stream::starts(&hello), Some(true));
    assert!((0..6).all(|n| Stream::starts(&hello[..n]).is_none()));
    let mut icreq = [0u8; 128];
    (icreq[2], icreq[4]) = (128, 128);
    for other in [&icreq[..], b"GET / HTTP/1.1", b"\x16\x03\x01\x00\x04\x02", b"\x17\x03\x03\x00\x04\x01"] {
        assert_eq!(Stream::starts(other), Some(false), "{other:?}");
    }
}
