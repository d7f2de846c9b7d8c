//! Every field of every frame: ours beside tshark's.
//!
//! PDUs of a frame are paired in their order, by type, length and CID; then the values of each name. A difference, or a field that tshark
//! alone has, needs a rule ([`super::rules`]). Start with [`run`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use nvmf_capture::fields::{self, Dissector, Field, Visitor};
use nvmf_capture::roce::{Packet, Place, Rdma};
use nvmf_capture::tls::KeyLog;
use nvmf_capture::{Direction, Ends, Event, EventKind, Follow, Session, Watcher};
use nvmf_wire::tcp::{C2hData, H2cData, Pdu, PduType};
use nvmf_wire::{Cid, Sqe};

use super::rules::{Case, RULES};
use super::tshark::{self, Shown};

/// A PDU as we show it, with what rules look at.
#[derive(Debug, Default)]
pub struct Ours {
    /// Name and value of each field.
    pub fields: Shown,
    /// The PDU.
    pub bytes: Bytes,
    /// The same in parts.
    pub pdu: Option<Pdu>,
    /// The command that it is or belongs to.
    pub sqe: Option<Sqe>,
    /// Where its data begins in all of its command's data, and whether it is only a part of that.
    pub piece: Option<(u64, bool)>,
    /// The queue is the Admin Queue, or not known.
    pub admin: bool,
}

impl Ours {
    /// The value of the field whose name ends with `word` and begins like `name`.
    pub fn word(&self, name: &str, word: &str) -> Option<u64> {
        let fields = self.fields.fields.iter().filter(|f| f.0.ends_with(word));
        let text = fields.max_by_key(|f| f.0.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count())?.1.as_str();
        u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    }

    /// Status code type and status code of the CQE that it carries, as one number.
    pub fn status(&self) -> Option<u64> {
        let status = self.fields.get("nvme.cqe.status")?.strip_prefix("0x")?;
        u64::from_str_radix(status, 16).ok().map(|s| s >> 1 & 0x7ff)
    }
}

/// How the fields of one name compare.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    equal: usize,
    ours: usize,
    excused: usize,
    differ: usize,
    theirs: usize,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.equal += other.equal;
        self.ours += other.ours;
        self.excused += other.excused;
        self.differ += other.differ;
        self.theirs += other.theirs;
    }
}

/// What comparing came to.
#[derive(Debug, Default)]
struct Compared {
    frames: usize,
    pdus: usize,
    counts: Counts,
    /// Unexplained: name and kind, how often, the first.
    unexplained: BTreeMap<(String, &'static str), (usize, String)>,
    /// How often each rule held, and where first.
    rules: BTreeMap<&'static str, (usize, String)>,
}

/// Each file's name and comparison, in their order. Several at a time, as tshark is slow; but what is told of each stays together.
fn compare_all(files: &[PathBuf], keys: Option<&Path>, all: bool) -> Result<Vec<(String, Compared)>, String> {
    let workers = if all { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(file) = files.get(at) else { return };
                    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    let one = compare(file, &name, keys, all).map(|one| (name, one));
                    done.lock().unwrap_or_else(PoisonError::into_inner).insert(at, one);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

/// Compares files and prints what it came to. Fails where a difference has no rule.
pub fn run(files: &[PathBuf], keys: Option<&Path>, all: bool) -> Result<(), String> {
    let version = tshark::version()?;
    let mut total = Compared::default();
    for (name, one) in compare_all(files, keys, all)? {
        let c = one.counts;
        println!(
            "{:5} frames {:6} PDUs {:8} equal {:6} ours only {:6} by rule {:4} differ {:4} theirs only  {name}",
            one.frames, one.pdus, c.equal, c.ours, c.excused, c.differ, c.theirs
        );
        total.frames += one.frames;
        total.pdus += one.pdus;
        total.counts.add(c);
        for (key, (n, first)) in one.unexplained {
            total.unexplained.entry(key).or_insert((0, first)).0 += n;
        }
        for (key, (n, first)) in one.rules {
            total.rules.entry(key).or_insert((0, first)).0 += n;
        }
    }
    println!("\nby rule (docs/wireshark.md):");
    for (rule, (n, first)) in &total.rules {
        println!("{n:8}  {rule:<24} first: {first}");
    }
    if !total.unexplained.is_empty() {
        println!("\nwithout a rule:");
        for ((field, kind), (n, first)) in &total.unexplained {
            println!("{n:8}  {kind:<11} {field}  first: {first}");
        }
    }
    let c = total.counts;
    println!(
        "\ntshark {version}, {} files: {} frames, {} PDUs; {} fields equal, {} ours only, {} by rule, {} differ, {} theirs only",
        files.len(),
        total.frames,
        total.pdus,
        c.equal,
        c.ours,
        c.excused,
        c.differ,
        c.theirs
    );
    match c.differ + c.theirs {
        0 => Ok(()),
        n => Err(format!("{n} fields differ from tshark without a rule")),
    }
}

fn compare(path: &Path, name: &str, keys: Option<&Path>, all: bool) -> Result<Compared, String> {
    let reading = ours(path, keys)?;
    let ports: Vec<(u16, bool)> =
        reading.ports.iter().filter(|p| *p.0 != nvmf_wire::roce::UDP_PORT).map(|(p, tls)| (*p, *tls)).collect();
    let theirs = tshark::dissect(path, &ports, keys)?;
    let mut out = Compared::default();
    let empty = Vec::new();
    let none = Vec::new();
    let mut frames: Vec<u64> = reading.frames.keys().chain(theirs.keys()).copied().collect();
    frames.sort_unstable();
    frames.dedup();
    let mut again = false;
    for frame in frames {
        out.frames += 1;
        let packet = reading.packets.get(&frame);
        again |= packet.is_some_and(|p| p.place == Place::Repeated);
        let (a, b) = (reading.frames.get(&frame).unwrap_or(&empty), theirs.get(&frame).unwrap_or(&none));
        for (one, two) in pairs(a, b) {
            out.pdus += 1;
            out.pdu(&format!("{name} frame {frame}"), (one, two), (again, packet), all);
        }
    }
    Ok(out)
}

/// PDUs of one frame, paired in order.
fn pairs<'a>(ours: &'a [Ours], theirs: &'a [Shown]) -> Vec<(Option<&'a Ours>, Option<&'a Shown>)> {
    let mut out = Vec::new();
    let mut rest = theirs;
    for one in ours {
        match rest.iter().position(|t| same(&one.fields, t)) {
            Some(at) => {
                out.extend(rest[..at].iter().map(|t| (None, Some(t))));
                out.push((Some(one), Some(&rest[at])));
                rest = &rest[at + 1..];
            }
            None => out.push((Some(one), None)),
        }
    }
    out.extend(rest.iter().map(|t| (None, Some(t))));
    out
}

/// True where two are the same PDU.
fn same(ours: &Shown, theirs: &Shown) -> bool {
    const CIDS: [&str; 4] = ["nvme.cmd.cid", "nvme.fabrics.cmd.cid", "nvme.cqe.cid", "nvme-tcp.cmd.cid"];
    let cid = |s: &Shown| CIDS.iter().find_map(|n| s.get(n)).map(str::to_owned);
    let equal = |name| ours.get(name) == theirs.get(name);
    equal("nvme-tcp.type") && equal("nvme-tcp.plen") && cid(theirs).is_none_or(|c| cid(ours).is_none_or(|o| o == c))
}

impl Compared {
    fn pdu(
        &mut self,
        place: &str,
        (ours, theirs): (Option<&Ours>, Option<&Shown>),
        (again, roce): (bool, Option<&Packet>),
        all: bool,
    ) {
        let mut names: Vec<&str> = Vec::new();
        let nothing = Shown::default();
        let (a, b) = (ours.map_or(&nothing, |o| &o.fields), theirs.unwrap_or(&nothing));
        for (name, _) in a.fields.iter().chain(&b.fields) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        for name in names {
            let values = |s: &Shown| s.fields.iter().filter(|f| f.0 == name).map(|f| f.1.clone()).collect::<Vec<_>>();
            let (mut a, mut b) = (values(a), values(b));
            if a.len() != b.len() {
                // What both have is equal, in whatever order.
                let before = b.len();
                b.retain(|v| match a.iter().position(|o| o == v) {
                    Some(at) => {
                        a.remove(at);
                        false
                    }
                    None => true,
                });
                self.counts.equal += before - b.len();
            }
            for i in 0..a.len().max(b.len()) {
                let (ours_value, theirs_value) = (a.get(i).map(String::as_str), b.get(i).map(String::as_str));
                let case =
                    Case { name, index: i, ours: ours_value, theirs: theirs_value.unwrap_or_default(), pdu: ours, again, roce };
                self.value(place, &case, theirs_value.is_some(), all);
            }
        }
    }

    fn value(&mut self, place: &str, case: &Case<'_>, there: bool, all: bool) {
        let name = case.name;
        let kind = match case.ours {
            Some(a) if there && a == case.theirs => {
                self.counts.equal += 1;
                return;
            }
            Some(_) if there => "differs",
            None if there => "theirs only",
            _ => {
                self.counts.ours += 1;
                return;
            }
        };
        if let Some(rule) = RULES.iter().find(|r| r.holds(case)) {
            self.counts.excused += 1;
            self.rules.entry(rule.id).or_insert_with(|| (0, format!("{place}: {name}"))).0 += 1;
            return;
        }
        let short = |v: Option<&str>| v.map_or("-".to_owned(), |v| v.chars().take(60).collect());
        let text = format!("{place}: {} here, {} there", short(case.ours), short(Some(case.theirs)));
        if all {
            println!("        {kind:<11} {name}  {text}");
        }
        match kind {
            "differs" => self.counts.differ += 1,
            _ => self.counts.theirs += 1,
        }
        self.unexplained.entry((name.to_owned(), kind)).or_insert((0, text)).0 += 1;
    }
}

/// Our reading of a file.
#[derive(Default)]
struct Reading {
    frames: BTreeMap<u64, Vec<Ours>>,
    /// Ports of controllers, and whether TLS was seen there.
    ports: BTreeMap<u16, bool>,
    ends: BTreeMap<usize, Ends>,
    dissector: Dissector,
    sessions: BTreeMap<usize, Session>,
    collect: Collect,
    /// RoCEv2 packets.
    packets: BTreeMap<u64, Packet>,
}

fn ours(path: &Path, keys: Option<&Path>) -> Result<Reading, String> {
    let file = std::fs::File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut reading = Reading::default();
    let mut follow = Follow::new();
    if let Some(keys) = keys {
        let text = std::fs::read(keys).map_err(|e| format!("{}: {e}", keys.display()))?;
        follow = follow.keys(KeyLog::read(&text).map_err(|e| format!("{}: {e}", keys.display()))?);
    }
    follow.read(std::io::BufReader::new(file), &mut reading).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(reading)
}

impl Watcher for Reading {
    fn opened(&mut self, conn: usize, ends: &Ends) {
        self.ports.entry(ends.server.port()).or_insert(false);
        self.ends.insert(conn, *ends);
        self.dissector.opened(conn, ends);
        self.sessions.insert(conn, Session::new());
    }

    fn event(&mut self, conn: usize, event: &Event) {
        if let EventKind::Tls(_) = &event.kind
            && let Some(ends) = self.ends.get(&conn)
        {
            self.ports.insert(ends.server.port(), true);
        }
        let collect = &mut self.collect;
        self.dissector.event(conn, event, |view| view.show(collect));
        let fields = std::mem::take(&mut self.collect.fields);
        let session = self.sessions.entry(conn).or_default();
        let mut one = Ours { fields, admin: session.is_admin(), ..Ours::default() };
        if let EventKind::Pdu(bytes) = &event.kind {
            one.bytes = bytes.clone();
            one.pdu = Pdu::parse(bytes).ok();
            if let Some(pdu) = &one.pdu {
                one.sqe = command_of(session, event.dir, pdu);
                one.piece = piece_of(pdu);
                session.apply(event.dir, pdu);
                one.sqe = one.sqe.or_else(|| command_of(session, event.dir, pdu));
            }
        }
        match &event.kind {
            EventKind::Packet(packet) => {
                self.packets.insert(event.frame, packet.clone());
            }
            EventKind::Rdma(rdma) => {
                one.sqe = rdma_command(session, rdma);
                if let Rdma::Data(data) = &**rdma {
                    one.piece = data.offset().map(|offset| (offset, !(data.last && offset == 0)));
                }
                session.apply_rdma(event.dir, rdma);
            }
            _ => {}
        }
        if !one.fields.fields.is_empty() {
            self.frames.entry(event.frame).or_default().push(one);
        }
    }
}

/// The command that a PDU is or belongs to.
fn command_of(session: &Session, dir: Direction, pdu: &Pdu) -> Option<Sqe> {
    let header = &pdu.header;
    let cid = |at: usize| Some(Cid(u16::from_le_bytes([*header.get(at)?, *header.get(at + 1)?])));
    match (pdu.ptype().0, dir) {
        (4, _) => Some(Sqe::from_bytes(*header.get(8..72)?.first_chunk::<64>()?)),
        (5, _) => session.command(cid(20)?).map(|c| c.sqe),
        (6 | 7 | 9, _) => session.command(cid(8)?).map(|c| c.sqe),
        _ => None,
    }
}

/// Where the data of a PDU begins, and whether there is more of it elsewhere.
fn piece_of(pdu: &Pdu) -> Option<(u64, bool)> {
    let (offset, last) = match pdu.ptype() {
        PduType::C2H_DATA => C2hData::read(&pdu.header).map(|c| (c.datao(), c.last())).ok()?,
        PduType::H2C_DATA => H2cData::read(&pdu.header).map(|h| (h.datao(), h.last())).ok()?,
        _ => return None,
    };
    Some((offset.into(), !(last && offset == 0)))
}

/// The command that a message of RDMA is or belongs to.
fn rdma_command(session: &Session, rdma: &Rdma) -> Option<Sqe> {
    let cid = match rdma {
        Rdma::Command { sqe, .. } => return Some(*sqe),
        Rdma::Response { cqe, .. } => cqe.cid(),
        Rdma::Read(target) => target.cid?,
        Rdma::Data(data) => data.target.cid?,
        _ => return None,
    };
    session.command(cid).map(|c| c.sqe)
}

/// Keeps names and values.
#[derive(Debug, Default)]
struct Collect {
    fields: Shown,
}

impl Visitor for Collect {
    fn packet(&mut self, _: &fields::Packet) {}

    fn layer(&mut self, _: &'static str) {}

    fn field(&mut self, field: &Field<'_>) {
        if field.name.starts_with("nvme") && !field.name.starts_with("nvmfspec") {
            let mut text = Vec::new();
            field.value.write(&mut text);
            self.fields.fields.push((field.name.to_owned(), String::from_utf8_lossy(&text).into_owned()));
        }
    }
}
