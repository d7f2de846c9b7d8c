//! Hand-broken copies of recorded captures: one thing is changed in one PDU, the copy is written as a capture file and judged as
//! `nvmfspec lint` judges one, and exactly the rule that was broken is found, at the frame and against the side that broke it.

mod talk;

#[path = "broken/cases.rs"]
mod cases;

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use nvmf_capture::lint::{Cause, Lint, Sieve};
use nvmf_capture::{Capture, Ends, Event, EventKind, Exchange, Follow, Judge, Recorder, Watcher, pcapng};
use nvmf_wire::command::CommandKind;
use nvmf_wire::connect::Connect;
use nvmf_wire::sqe::FabricsType;
use nvmf_wire::tcp::{Pdu, PduType};
use nvmf_wire::{Qid, Sqe};

/// What is done to one PDU.
#[derive(Clone, Copy, Debug)]
pub enum Break {
    /// Bytes from an offset on become these; digests are made right again.
    Set(usize, &'static [u8]),
    /// The same, with the digests as they were.
    Raw(usize, &'static [u8]),
    /// It is not there.
    Drop,
    /// It is there twice.
    Twice,
    /// It changes places with the next one of its direction on its connection.
    Swap,
}

/// One broken copy.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The capture, below `captures/`, without `.pcap.gz`.
    pub capture: &'static str,
    /// Which PDU: its type; the command that it is or belongs to, where there is one; and how many of those to pass over.
    pub pdu: (PduType, &'static str, usize),
    /// What is done to it.
    pub how: Break,
    /// What is broken: ids parted by commas where several say the same, and the side.
    pub breaks: &'static str,
    /// Where it shows: so many PDUs of the capture behind the one that was changed.
    pub behind: usize,
}

/// A capture, with what its PDUs are.
struct Original {
    exchange: Exchange,
    /// Index of the connection and of the event, type, and command of each PDU, in order of time.
    pdus: Vec<(usize, usize, PduType, String)>,
}

impl Original {
    fn open(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../captures/{name}.pcap.gz"));
        let exchange = Capture::open(path).unwrap().into_exchange();
        let mut commands: BTreeMap<(usize, u16), String> = BTreeMap::new();
        let mut io: BTreeMap<usize, bool> = BTreeMap::new();
        let mut at: Vec<usize> = vec![0; exchange.connections.len()];
        let mut pdus = Vec::new();
        for (conn, event) in exchange.events() {
            let index = at[conn];
            at[conn] += 1;
            let EventKind::Pdu(bytes) = &event.kind else { continue };
            let ptype = PduType(bytes[0]);
            let cid = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            let command = match ptype {
                PduType::CAPSULE_CMD if bytes.len() >= 72 => {
                    let sqe = Sqe::from_bytes(*bytes[8..].first_chunk().unwrap());
                    if sqe.fctype() == Some(FabricsType::CONNECT) {
                        io.insert(conn, Connect::from_bytes(*sqe.as_bytes()).qid() != Qid::ADMIN);
                    }
                    let admin = !io.get(&conn).copied().unwrap_or(false);
                    let name = CommandKind::of(&sqe, admin).map_or_else(String::new, |k| k.name.to_owned());
                    commands.insert((conn, sqe.cid().0), name.clone());
                    name
                }
                PduType::CAPSULE_RESP if bytes.len() >= 24 => commands.get(&(conn, cid(20))).cloned().unwrap_or_default(),
                PduType::C2H_DATA | PduType::H2C_DATA | PduType::R2T if bytes.len() >= 24 => {
                    commands.get(&(conn, cid(8))).cloned().unwrap_or_default()
                }
                _ => String::new(),
            };
            pdus.push((conn, index, ptype, command));
        }
        Self { exchange, pdus }
    }

    /// Index among [`Self::pdus`].
    fn find(&self, (ptype, command, skip): (PduType, &str, usize)) -> usize {
        let fits = |p: &&(usize, (usize, usize, PduType, String))| p.1.2 == ptype && (command.is_empty() || p.1.3 == command);
        let all: Vec<_> = self.pdus.iter().cloned().enumerate().collect();
        all.iter().filter(fits).nth(skip).unwrap_or_else(|| panic!("no {ptype} {command} {skip}")).0
    }

    /// A copy with one PDU changed, as a capture file.
    fn broken(&self, nth: usize, how: Break) -> Vec<u8> {
        let (conn, index, ..) = self.pdus[nth];
        let mut exchange = self.exchange.clone();
        let events = &mut exchange.connections[conn].events;
        match how {
            Break::Set(at, bytes) => change(&mut events[index], at, bytes, true),
            Break::Raw(at, bytes) => change(&mut events[index], at, bytes, false),
            Break::Drop => drop(events.remove(index)),
            Break::Twice => events.insert(index, events[index].clone()),
            Break::Swap => {
                let dir = events[index].dir;
                let next = (index + 1..events.len()).find(|n| events[*n].dir == dir).unwrap();
                let (a, b) = (events[index].kind.clone(), events[next].kind.clone());
                (events[index].kind, events[next].kind) = (b, a);
            }
        }
        file(exchange)
    }
}

fn change(event: &mut Event, at: usize, new: &[u8], seal: bool) {
    let EventKind::Pdu(bytes) = &mut event.kind else { panic!("no PDU") };
    let mut b = bytes.to_vec();
    assert_ne!(b[at..at + new.len()], *new, "nothing is changed");
    b[at..at + new.len()].copy_from_slice(new);
    *bytes = match Pdu::parse(&Bytes::copy_from_slice(&b)) {
        Ok(pdu) if seal => pdu.seal().to_bytes().into(),
        _ => b.into(),
    };
}

/// The exchange as a pcapng file, each PDU in segments of its own.
fn file(exchange: Exchange) -> Vec<u8> {
    let rebuilt = exchange.connections.into_iter().map(|c| {
        let mut rec = Recorder::new(c.client, c.server, c.opened_ns);
        for e in c.events {
            match e.kind {
                EventKind::Pdu(bytes) | EventKind::Undecodable { bytes, .. } => drop(rec.push(e.dir, e.at_ns, bytes).len()),
                EventKind::Closed { reset } => drop(rec.close(e.dir, e.at_ns, reset).len()),
                other => panic!("{other:?} in a capture that is to be copied"),
            }
        }
        rec.finish()
    });
    let mut out = Vec::new();
    pcapng::Writer::new().mss(1460).write(&Exchange { connections: rebuilt.collect() }, &mut out).unwrap();
    out
}

/// Frames of the PDUs, in order of time.
#[derive(Default)]
struct Frames(Vec<u64>);

impl Watcher for Frames {
    fn event(&mut self, _: usize, event: &Event) {
        if matches!(event.kind, EventKind::Pdu(_) | EventKind::Undecodable { .. }) {
            self.0.push(event.frame);
        }
    }
}

/// What lint says of a file: ids and side, what was seen, frame.
fn lint(file: &[u8]) -> Vec<(String, String, u64)> {
    let mut out = Vec::new();
    let mut lint = Lint::new(Judge::new().exclusive(), Sieve::default(), |_: &Ends, cause: &Cause, _| {
        let ids: Vec<&str> = cause.requirements().map(|r| r.id).collect();
        let f = &cause.finding;
        out.push((format!("{} {}", ids.join(","), f.side), f.seen.clone(), f.frame));
    });
    Follow::new().read(file, &mut lint).unwrap();
    out
}

/// Judges one case; an error says what was found instead.
fn judge(original: &Original, case: &Case) -> Result<(), String> {
    let nth = original.find(case.pdu);
    let mut before: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (what, seen, _) in lint(&file(original.exchange.clone())) {
        *before.entry((what, seen)).or_default() += 1;
    }
    let broken = original.broken(nth, case.how);
    let mut new = Vec::new();
    for (what, seen, frame) in lint(&broken) {
        match before.get_mut(&(what.clone(), seen.clone())) {
            Some(n) if *n > 0 => *n -= 1,
            _ => new.push((what, seen, frame)),
        }
    }
    let mut frames = Frames::default();
    Follow::new().read(&broken[..], &mut frames).unwrap();
    let due = frames.0.get(nth + case.behind).copied().unwrap_or(0);
    match &new[..] {
        [(what, _, frame)] if what == case.breaks && *frame == due => Ok(()),
        _ => {
            let at: Vec<_> =
                new.iter().map(|(_, _, f)| frames.0.iter().position(|g| g == f).map(|at| at as isize - nth as isize)).collect();
            Err(format!("{case:?}\n  found {new:?}, so many PDUs behind: {at:?}"))
        }
    }
}

#[test]
fn each_break_is_found_and_nothing_else() {
    let mut originals: BTreeMap<&str, Original> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut broken = std::collections::BTreeSet::new();
    for case in cases::CASES {
        let original = originals.entry(case.capture).or_insert_with(|| Original::open(case.capture));
        broken.insert(case.breaks);
        wrong.extend(judge(original, case).err());
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases::CASES.len(), wrong.join("\n"));
    assert!(broken.len() >= 150, "only {} different rules", broken.len());
}

/// The test can fail: a copy with nothing changed has nothing to find, and one that is broken elsewhere is told apart.
#[test]
fn a_case_that_breaks_something_else_fails() {
    let right = cases::CASES[0];
    let original = Original::open(right.capture);
    assert_eq!(judge(&original, &right), Ok(()));
    assert!(judge(&original, &Case { breaks: "TCP-CH-02 host", ..right }).is_err());
    assert!(judge(&original, &Case { how: Break::Swap, ..right }).is_err());
}
