//! Two captures of the same doings beside each other: where they differ, field by field.
//!
//! [`compare`] pairs the connections by the queue that they are, the commands of each pair in the order in which they were sent, and the
//! messages of each command in their order. So what merely came at another time is equal, what one capture has alone is said and passed
//! over, and everything else is compared by the fields of the wire tables. What may differ says a [`Mask`]. The rules are in
//! `docs/compare.md`.

mod align;
mod data;
mod fields;
mod mask;
mod message;
mod names;
mod rdma;
mod report;
mod side;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub use mask::{DEFAULT, Line, Mask, MaskError};
pub use report::{Difference, Report, Spot, What};

use crate::exchange::Exchange;
use align::{Key, Pair, align};
use fields::{Count, Plans};
use message::{Message, Unit};
use names::Names;
use side::{Conn, Side};

/// What is compared, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What may differ.
    pub mask: Mask,
    /// Name of a command: what was sent before the first of them is left out, on all connections.
    pub from: Option<String>,
    /// Name of a command: what begins after the first of them (at or behind `from`) is left out.
    pub to: Option<String>,
}

/// Most differences that are kept; the others are counted.
pub const MAX_KEPT: usize = 10_000;

/// Compares `a`, what is expected, with `b`, what came. An error is that one of them does not have the command to begin or end at.
pub fn compare(a: &Exchange, b: &Exchange, options: &Options) -> Result<Report, String> {
    let mut used = BTreeSet::new();
    let a: Rc<Side> = Side::of(a, options, &mut used).map_err(|e| format!("A {e}"))?.into();
    let b: Rc<Side> = Side::of(b, options, &mut used).map_err(|e| format!("B {e}"))?.into();
    let mut comparer = Comparer {
        plans: Plans::new(&options.mask),
        mask: &options.mask,
        a,
        b,
        paired: Vec::new(),
        names: BTreeMap::new(),
        controllers: Vec::new(),
        counts: Vec::new(),
        counted: Vec::new(),
        part: options.from.is_some(),
        report: Report { used, ..Report::default() },
    };
    comparer.pair();
    comparer.all();
    Ok(comparer.report.sorted())
}

/// Two connections, and their units.
struct Paired {
    a: usize,
    b: usize,
    units: Vec<Pair>,
}

/// A controller ID as one side and the other call it, and when its association ended on each.
struct Controller {
    ids: [u64; 2],
    ended: [Option<u64>; 2],
}

struct Comparer<'m> {
    mask: &'m Mask,
    plans: Plans<'m>,
    a: Rc<Side>,
    b: Rc<Side>,
    paired: Vec<Paired>,
    /// By domain.
    names: BTreeMap<String, Names>,
    controllers: Vec<Controller>,
    /// Values that count, on the pair of connections that is compared, and where each stands.
    counts: Vec<Count>,
    counted: Vec<Difference>,
    /// Captures are compared from a command on: what counts may stand elsewhere.
    part: bool,
    report: Report,
}

/// Two units in the making of their comparison.
struct Scope {
    /// Of [`Comparer::paired`].
    pair: usize,
    cids: [Option<u16>; 2],
    reused: [bool; 2],
    /// What is renamed within a command, by domain.
    names: BTreeMap<String, Names>,
    label: String,
    number: Option<u64>,
}

impl Comparer<'_> {
    /// Pairs connections, then the units of each pair.
    fn pair(&mut self) {
        let keys = |side: &Side| side.conns.iter().map(Conn::key).collect::<Vec<_>>();
        for p in align(&keys(&self.a), &keys(&self.b)) {
            match (p.a, p.b) {
                (Some(a), Some(b)) => {
                    let (ka, kb) = (self.unit_keys(a, true), self.unit_keys(b, false));
                    self.paired.push(Paired { a, b, units: align(&ka, &kb) });
                }
                (Some(i), None) => self.only(true, i),
                (_, Some(i)) => self.only(false, i),
                _ => {}
            }
        }
        // an Admin Queue comes before the I/O queues that its controller has
        self.paired.sort_by_key(|p| self.a.conns.get(p.a).map(|c| c.index));
    }

    fn unit_keys(&mut self, conn: usize, of_a: bool) -> Vec<Key> {
        let side = Rc::clone(if of_a { &self.a } else { &self.b });
        let units = side.conns.get(conn).map_or(&[][..], |c| &c.units);
        let plans = &mut self.plans;
        units.iter().filter_map(|u| u.messages.first()).map(|m| plans.key(m)).collect()
    }

    fn only(&mut self, in_a: bool, conn: usize) {
        let side = if in_a { &self.a } else { &self.b };
        let Some(c) = side.conns.get(conn) else { return };
        let spot = c.units.first().and_then(|u| u.messages.first()).map(|m| Spot::of(c, m));
        let what = format!("connection {} -> {}, {}", c.client, c.server, c.role());
        let spots = if in_a { [spot, None] } else { [None, spot] };
        self.report.add(Difference { spots, queue: c.qid, command: String::new(), number: None, what: What::only(in_a, what) });
    }

    fn all(&mut self) {
        for n in 0..self.paired.len() {
            let Some((a, b, units)) = self.paired.get(n).map(|p| (p.a, p.b, p.units.clone())) else { continue };
            self.ends(a, b);
            self.report.connections += 1;
            for p in units {
                match (p.a, p.b) {
                    (Some(i), Some(j)) => self.units(n, (a, i), (b, j), p.moved),
                    (Some(i), None) => self.only_unit(true, a, i),
                    (_, Some(j)) => self.only_unit(false, b, j),
                    _ => {}
                }
            }
            self.judge_counts();
        }
    }

    /// Addresses and ports of two connections.
    fn ends(&mut self, a: usize, b: usize) {
        let (Some(x), Some(y)) = (self.a.conns.get(a), self.b.conns.get(b)) else { return };
        let (ends, spots) = ([(x.client, y.client), (x.server, y.server)], [x.first(), y.first()]);
        let queue = x.qid;
        for (name, (p, q)) in ["client", "server"].into_iter().zip(ends) {
            if self.mask.rule(["Connection", "", "", name]).how == mask::How::Ignore {
                continue;
            }
            let (ip_a, ip_b) = (p.ip().to_string(), q.ip().to_string());
            let mut same = self.names.entry("address".into()).or_default().agree(ip_a.as_bytes(), ip_b.as_bytes());
            if name == "server" {
                let (port_a, port_b) = (p.port().to_string(), q.port().to_string());
                same &= self.names.entry("service".into()).or_default().agree(port_a.as_bytes(), port_b.as_bytes());
            }
            if !same {
                let what = What::Field {
                    path: format!("Connection.{name}"),
                    expected: format!("{p}, as it was called before"),
                    seen: q.to_string(),
                };
                self.report.add(Difference { spots: spots.clone(), queue, command: String::new(), number: None, what });
            }
        }
    }

    fn only_unit(&mut self, in_a: bool, conn: usize, unit: usize) {
        let side = if in_a { &self.a } else { &self.b };
        let Some(c) = side.conns.get(conn) else { return };
        let Some(u) = c.units.get(unit) else { return };
        let Some(m) = u.messages.first() else { return };
        let spots = if in_a { [Some(Spot::of(c, m)), None] } else { [None, Some(Spot::of(c, m))] };
        let what = What::only(in_a, shown(m, u.command.as_ref().map(|c| c.label.as_str())));
        let (command, number) = u.command.as_ref().map_or((String::new(), None), |c| (c.label.clone(), Some(c.number)));
        self.report.add(Difference { spots, queue: c.qid, command, number, what });
    }

    fn units(&mut self, pair: usize, (ca, ua): (usize, usize), (cb, ub): (usize, usize), moved: bool) {
        let (a, b) = (Rc::clone(&self.a), Rc::clone(&self.b));
        if let (Some(x), Some(y)) = (a.unit(ca, ua), b.unit(cb, ub)) {
            self.two_units(pair, (ca, x), (cb, y), moved);
        }
    }

    fn two_units(&mut self, pair: usize, (ca, a): (usize, &Unit), (cb, b): (usize, &Unit), moved: bool) {
        let command = a.command.as_ref();
        self.report.commands += u64::from(command.is_some());
        let mut scope = Scope {
            pair,
            cids: [a, b].map(|u| u.command.as_ref().map(|c| c.sqe.cid().0)),
            reused: [a, b].map(|u| u.command.as_ref().is_some_and(|c| c.reused)),
            names: BTreeMap::new(),
            label: command.map_or(String::new(), |c| c.label.clone()),
            number: command.map(|c| c.number),
        };
        let (Some(first_a), Some(first_b)) = (a.messages.first(), b.messages.first()) else { return };
        if moved {
            match self.mask.unordered(first_a.name, first_a.command) {
                Some(line) => {
                    self.report.used.insert(line);
                }
                None => {
                    let what = What::Moved(shown(first_a, command.map(|c| c.label.as_str())));
                    self.add(&scope, [Some((ca, first_a)), Some((cb, first_b))], what);
                }
            }
        }
        if let (Some(x), Some(y)) = (&a.command, &b.command)
            && x.name != y.name
        {
            self.report.messages += 1;
            let field = if x.sqe.opc() == y.sqe.opc() { "fctype" } else { "opc" };
            let what = What::Field { path: format!("{}.{field}", first_a.name), expected: x.label.clone(), seen: y.label.clone() };
            return self.add(&scope, [Some((ca, first_a)), Some((cb, first_b))], what);
        }
        // within a command only messages of one name stand for each other
        let mut keys =
            |u: &Unit| u.messages.iter().map(|m| self.plans.key(m)).map(|k| Key { kind: k.weak, ..k }).collect::<Vec<_>>();
        let (ka, kb) = (keys(a), keys(b));
        for p in align(&ka, &kb) {
            let (x, y) = (p.a.and_then(|i| a.messages.get(i)), p.b.and_then(|j| b.messages.get(j)));
            match (x, y) {
                (Some(x), Some(y)) => {
                    self.report.messages += 1;
                    if p.moved && self.mask.unordered(x.name, x.command).is_none() {
                        self.add(&scope, [Some((ca, x)), Some((cb, y))], What::Moved(shown(x, None)));
                    }
                    self.messages(&mut scope, (ca, x), (cb, y));
                }
                (Some(x), None) => self.add(&scope, [Some((ca, x)), None], What::only(true, shown(x, None))),
                (_, Some(y)) => self.add(&scope, [None, Some((cb, y))], What::only(false, shown(y, None))),
                _ => {}
            }
        }
    }

    fn add(&mut self, scope: &Scope, at: [Option<(usize, &Message)>; 2], what: What) {
        let difference = self.difference(scope, at, what);
        self.report.add(difference);
    }

    fn difference(&self, scope: &Scope, at: [Option<(usize, &Message)>; 2], what: What) -> Difference {
        let [a, b] = at;
        let spot = |side: &Side, at: Option<(usize, &Message)>| at.and_then(|(c, m)| side.conns.get(c).map(|c| Spot::of(c, m)));
        let spots = [spot(&self.a, a), spot(&self.b, b)];
        let queue = self.paired.get(scope.pair).and_then(|p| self.a.conns.get(p.a)).and_then(|c| c.qid);
        Difference { spots, queue, command: scope.label.clone(), number: scope.number, what }
    }
}

/// A message in a few words: its name, its command, and the fields that tell it from others.
fn shown(m: &Message, label: Option<&str>) -> String {
    const TELLING: &[&str] =
        &["qid", "ofst", "cns", "lid", "lpo", "fid", "nsid", "slba", "nlb", "datao", "datal", "r2to", "r2tl", "sct", "sc"];
    let mut out = format!("{} {}", m.dir.arrow(), m.name);
    if let Some(label) = label.or(Some(m.command)).filter(|l| !l.is_empty()) {
        out = format!("{out} {label}");
    }
    let header = m.parts.iter().filter(|p| !p.named);
    for (part, name) in header.flat_map(|p| TELLING.iter().map(move |n| (p, n))) {
        if let Some(f) = part.layout.field(name) {
            out = format!("{out} {name}={}", f.show(&part.bytes));
        }
    }
    out
}
