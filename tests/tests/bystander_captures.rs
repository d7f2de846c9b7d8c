//! The bystander rules over recorded captures of real stacks, as they are and with bytes changed.

mod talk;

use std::collections::BTreeMap;
use std::fs::File;

use nvmf_capture::lint::{Cause, Lint, Sieve};
use nvmf_capture::{Capture, Ends, Exchange, Follow, Judge, Recorder, Trace, pcapng};

/// What each recorded capture of a real stack breaks, how often, and in which frame first. A change here is a change of the rules or of
/// the captures; `docs/findings.md` says of each why it is right.
#[test]
fn what_real_stacks_break() {
    let mut out = String::new();
    for path in talk::captures() {
        let mut counts: BTreeMap<String, (u32, u64)> = BTreeMap::new();
        let mut lint = Lint::new(Judge::new(), Sieve::default(), |_: &Ends, cause: &Cause, _| {
            let ids: Vec<&str> = cause.requirements().map(|r| r.id).collect();
            let f = &cause.finding;
            assert!(f.frame > 0, "{f}");
            counts.entry(format!("{} {}", ids.join(", "), f.side)).or_insert((0, f.frame)).0 += 1;
        });
        Follow::new().read(File::open(&path).unwrap(), &mut lint).unwrap();
        let name = path.file_name().unwrap().to_string_lossy();
        out.push_str(&format!("{}:\n", name.trim_end_matches(".gz").trim_end_matches(".pcap").trim_end_matches(".pcapng")));
        for (what, (n, frame)) in counts {
            out.push_str(&format!("  {what} x{n}, first in frame {frame}\n"));
        }
    }
    insta::assert_snapshot!(out);
}

/// Recorded bytes with some changed, in other pieces: whatever a peer sends, reading, tracing and judging it end.
#[test]
fn no_bytes_can_make_it_fail() {
    let mut seed = 0x2545_f491_4f6c_dd1du64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below.max(1) as u64) as usize
    };
    let mut findings = 0;
    for path in talk::captures() {
        let capture = Capture::open(&path).unwrap();
        for connection in capture.connections() {
            let mut rec = Recorder::new(connection.client, connection.server, 0);
            for (n, chunk) in connection.chunks.iter().enumerate().take(200) {
                let mut bytes = chunk.bytes.to_vec();
                for _ in 0..random(4) {
                    let (at, bit) = (random(bytes.len().min(80)), random(8));
                    bytes[at] ^= 1 << bit;
                }
                if random(20) == 0 {
                    rec.gap(chunk.dir, n as u64, random(5000) as u64);
                }
                let cut = random(bytes.len());
                let rest = bytes.split_off(cut);
                rec.push(chunk.dir, n as u64, bytes);
                rec.push(chunk.dir, n as u64, rest);
            }
            let e = Exchange { connections: vec![rec.finish()] };
            assert!(!Trace::new(0).with_rules().exchange(&e).is_empty());
            findings += Judge::exchange(&e).len();
            pcapng::Writer::new().write(&e, Vec::new()).unwrap();
        }
    }
    assert!(findings > 100, "{findings}");
}
