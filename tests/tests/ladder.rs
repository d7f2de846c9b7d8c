//! Ladder diagrams of recorded traffic.

mod picture;
mod talk;

use std::path::Path;

use nvmf_capture::ladder::{Choice, Pick, Picture};
use nvmf_capture::{Ends, Follow, Ladder, Transport, Watcher};
use nvmf_wire::tcp::{C2hData, Digests, PduType};
use nvmf_wire::{Cid, Status};

use talk::{C2H, Talk, connected, sqe};

const WRITE: &str = "linux-6.12/tcp-io-64k.pcap.gz";

fn drawn(file: &str, choice: Choice) -> Picture {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../captures").join(file);
    let mut ladder = Ladder::new(choice);
    Follow::new().read(std::fs::File::open(path).expect("a capture"), &mut ladder).expect("it can be read");
    ladder.finish()
}

fn talked(talk: Talk, choice: Choice) -> Picture {
    let mut ladder = Ladder::new(choice);
    let exchange = talk.exchange();
    for (i, c) in exchange.connections.iter().enumerate() {
        ladder.opened(i, &Ends { client: c.client, server: c.server, opened_ns: c.opened_ns, transport: Transport::Tcp });
    }
    for (conn, event) in exchange.events() {
        ladder.event(conn, event);
    }
    ladder.finish()
}

fn command(pick: Pick) -> Choice {
    Choice { command: Some(pick), ..Choice::default() }
}

#[test]
fn a_write_of_64_kib_with_its_r2t() {
    let p = drawn(WRITE, command(Pick::Cid { cid: Cid(0x57), conn: Some(1) }));
    insta::assert_snapshot!(p.text());
    let svg = p.svg("a capture");
    picture::well_formed(&svg);
    for text in
        ["Write of 64 KiB", "R2T", "r2tl=65536", "The host sends bytes 0 to 65535", "CQE-02", "Host 10.9.0.1", "which ties data"]
    {
        assert!(svg.contains(text), "{text}");
    }
    assert_eq!(svg, drawn(WRITE, command(Pick::Number(33))).svg("a capture"), "command 33 is the same one");
}

/// Over RDMA the controller fetches the data of a write itself, by the key that the command names.
#[test]
fn a_write_of_64_kib_that_the_controller_fetches() {
    let pick = || command(Pick::Cid { cid: Cid(0x57), conn: Some(1) });
    let p = drawn("linux-6.12/rdma-io.pcap.gz", pick());
    insta::assert_snapshot!(p.text());
    let svg = p.svg("a capture");
    picture::well_formed(&svg);
    for text in
        ["over NVMe/RDMA", "RDMA READ request", "RDMA READ response in 64 packets", "SEND with Invalidate", "rkey: address and key"]
    {
        assert!(svg.contains(text), "{text}");
    }
    let whole = drawn("linux-6.12/rdma-io.pcap.gz", Choice { unfolded: true, limit: 10_000, ..pick() });
    assert_eq!(whole.len(), 3 + 64, "each packet of the response");
}

/// Acknowledgements are drawn where all is.
#[test]
fn packets_are_drawn_where_they_are_asked_for() {
    let draw =
        |unfolded| drawn("linux-6.12/rdma-discover-8009.pcap.gz", Choice { unfolded, limit: 10_000, ..Choice::default() }).text();
    assert!(!draw(false).contains("- ACK psn=") && draw(true).contains("- ACK psn="));
    let text = draw(false);
    for message in ["CM REQ", "CM REP", "CM RTU", "CM DREQ", "RDMA WRITE"] {
        assert!(text.contains(message), "{message}: {text}");
    }
}

#[test]
fn the_first_arrows_and_how_to_see_more() {
    let p = drawn("linux-6.12/tcp-connect-2q.pcap.gz", Choice { limit: 12, ..Choice::default() });
    insta::assert_snapshot!(p.text());
    assert_eq!(p.len(), 12);
    assert!(p.svg("x").contains("more PDUs are not drawn"));
    let parts = [None, Some(1..=20), Some(21..=u64::MAX)];
    let [all, first, rest] = parts.map(|frames| {
        let choice = Choice { frames, unfolded: true, limit: 10_000, ..Choice::default() };
        drawn("linux-6.12/tcp-connect-2q.pcap.gz", choice).len()
    });
    assert!(first > 0 && rest > 0 && first + rest == all, "{first} and {rest} of {all}");
}

#[test]
fn a_range_of_time_on_one_connection() {
    let all = drawn(WRITE, Choice { limit: 10_000, ..Choice::default() });
    let some = drawn(WRITE, Choice { time_ns: Some(1_554_000_000..=1_561_000_000), conn: Some(1), ..Choice::default() });
    assert_eq!(some.len(), 4, "{}", some.text());
    assert_eq!(some.text().matches("cid=0x0057").count(), 4, "{}", some.text());
    assert!(all.len() > 100 && all.left_out().is_none());
}

#[test]
fn data_that_repeat_are_drawn_as_one() {
    let read = |unfolded| {
        let mut t = connected(1, Digests::default());
        let fields = [("nsid", 1), ("nlb", 127), ("sgl1_len", 65536), ("sgl1_type", 5), ("sgl1_sub", 10)];
        t.command(sqe("Read", 8, &fields), &[]);
        for n in 0..16u32 {
            let head = C2hData::new().with(|s| s.cccid(Cid(8)).datao(n * 4096).datal(4096).last(n == 15));
            t.send(C2H, PduType::C2H_DATA, head.as_bytes(), &[7; 4096]);
        }
        t.done(8, Status::SUCCESS, 3);
        talked(t, Choice { unfolded, ..command(Pick::Cid { cid: Cid(8), conn: None }) })
    };
    let folded = read(false);
    insta::assert_snapshot!(folded.text());
    assert_eq!((folded.len(), read(true).len()), (3, 18));
    assert!(folded.svg("x").contains("several alike"));
}

/// Names and fields of a peer that wants to break the picture.
#[test]
fn what_a_peer_sends_cannot_break_the_picture() {
    let mut t = Talk::new();
    t.start(Digests::default());
    let (sqe, data) = talk::connect(0, 1);
    let mut bytes = data.as_bytes().to_vec();
    bytes[256..300].copy_from_slice(b"nqn.2020-01.x:<script>&\x1b[2J\x00</svg>]]>\x01\x02\x03\x04\x05\x06\x07");
    t.command(sqe, &bytes);
    t.done(0, Status::SUCCESS, 1);
    let p = talked(t, Choice::default());
    let svg = p.svg("<b>&\u{1b}");
    picture::well_formed(&svg);
    assert!(svg.contains("&lt;script&gt;&amp;"), "{svg}");
    assert!(!svg.chars().any(|c| c.is_control() && c != '\n'));
    assert!(!p.text().contains('\u{1b}'));
}

#[test]
fn hosts_stand_left_of_all_controllers() {
    let p = drawn("linux-6.12/tcp-discover-8009-referral.pcap.gz", Choice::default());
    let text = p.text();
    let head = text.lines().find(|l| l.contains("Host")).expect("a head");
    assert!(head.find("Host") < head.find("Controller") && head.matches("Controller").count() >= 1, "{head}");
}
