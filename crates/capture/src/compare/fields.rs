//! Two messages field by field, as the mask says.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use nvmf_wire::{Field, Kind, Value};

use super::align::Key;
use super::mask::{How, Mask, Rule};
use super::message::{Fact, Known, Message, Part};
use super::names::Names;
use super::report::{Difference, What};
use super::side::Conn;
use super::{Comparer, Controller, Paired, Scope};
use crate::exchange::Direction;

/// CNTLID values that stand for no controller. [Base 2.0, 6.3; FAB-CNTLID-01]
const NO_CONTROLLER: u64 = 0xfff0;

/// How each field of a table is compared in one kind of message.
pub(super) struct Plan {
    fields: Vec<(&'static Field, Rule)>,
    /// Bits that no field names.
    reserved: Vec<u8>,
    /// Equal bytes are equal fields: nothing is renamed or counted.
    plain: bool,
}

/// The plans made so far.
pub(super) struct Plans<'m> {
    mask: &'m Mask,
    made: BTreeMap<(&'static str, &'static str, String, usize), Rc<Plan>>,
}

impl<'m> Plans<'m> {
    pub fn new(mask: &'m Mask) -> Self {
        Self { mask, made: BTreeMap::new() }
    }

    fn plan(&mut self, m: &Message, part: &Part) -> Rc<Plan> {
        let structure = structure(part);
        let at = (m.name, m.command, structure, std::ptr::from_ref(part.layout) as usize);
        if let Some(plan) = self.made.get(&at) {
            return Rc::clone(plan);
        }
        let rule = |f: &Field| self.mask.rule([m.name, m.command, &at.2, f.name]);
        let fields: Vec<_> = part.layout.all_fields().map(|f| (f, rule(f))).collect();
        let plain = fields.iter().all(|(_, r)| !matches!(r.how, How::Rename(_) | How::Counter));
        let plan = Rc::new(Plan { fields, reserved: part.layout.reserved_mask(), plain });
        self.made.insert(at, Rc::clone(&plan));
        plan
    }

    /// What a message is aligned by: all that has to be the same in both captures.
    pub fn key(&mut self, m: &Message) -> Key {
        let mut weak = DefaultHasher::new();
        (m.name, m.command).hash(&mut weak);
        let mut kind = DefaultHasher::new();
        m.name.hash(&mut kind);
        let mut strong = weak.clone();
        for part in &m.parts {
            let plan = self.plan(m, part);
            for (f, rule) in &plan.fields {
                if rule.how != How::Exact || !rule.allowed.is_empty() || part.hidden.contains(&f.name) {
                    continue;
                }
                match f.is_int() {
                    true => f.get(&part.bytes).int().hash(&mut strong),
                    false => part.bytes.get(f.offset()..f.offset() + f.width / 8).hash(&mut strong),
                }
            }
        }
        if self.mask.rule([m.name, m.command, "", "bytes"]).how == How::Exact {
            m.raw.hash(&mut strong);
        }
        Key { strong: strong.finish(), weak: weak.finish(), kind: kind.finish() }
    }
}

fn structure(part: &Part) -> String {
    match (part.named, part.index) {
        (false, _) => String::new(),
        (true, None) => part.layout.name.to_owned(),
        (true, Some(n)) => format!("{}[{n}]", part.layout.name),
    }
}

fn path(m: &Message, structure: &str, field: &str) -> String {
    [m.name, m.command, structure, field].into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>().join(".")
}

/// One field of both messages.
struct Both<'a> {
    field: &'static Field,
    rule: &'a Rule,
    path: String,
    bytes: [&'a [u8]; 2],
    values: [Value; 2],
}

impl Both<'_> {
    fn shown(&self, side: usize) -> String {
        self.bytes.get(side).map_or(String::new(), |b| self.field.show(b))
    }

    fn ints(&self) -> Option<(u64, u64)> {
        Some((self.values[0].int()?, self.values[1].int()?))
    }
}

/// A value that counts, in both captures.
pub(super) struct Count {
    at_ns: u64,
    field: String,
    values: (u64, u64),
    /// Where it wraps.
    entries: [Option<u64>; 2],
    rule: Rule,
    /// The values as they are, for a difference.
    what: What,
}

impl Comparer<'_> {
    pub(super) fn messages(&mut self, scope: &mut Scope, (ca, a): (usize, &Message), (cb, b): (usize, &Message)) {
        let mut found = Vec::new();
        // nearly always in the same order; by table and index where a list has one more in between
        let find = |parts: &[Part], n: usize, like: &Part| {
            let same = |p: &Part| std::ptr::eq(p.layout, like.layout) && p.index == like.index;
            if parts.get(n).is_some_and(same) { Some(n) } else { parts.iter().position(same) }
        };
        for (n, x) in a.parts.iter().enumerate() {
            let other = find(&b.parts, n, x).or_else(|| Some(n).filter(|_| !x.named));
            match other.and_then(|n| b.parts.get(n)) {
                Some(y) => self.parts(scope, a, (x, y), (ca, cb), &mut found),
                None => self.alone(a, x, true, &mut found),
            }
        }
        for (n, y) in b.parts.iter().enumerate() {
            if y.named && find(&a.parts, n, y).is_none() {
                self.alone(b, y, false, &mut found);
            }
        }
        self.facts(scope, a, b, &mut found);
        self.raw(a, b, &mut found);
        self.time(a, b, &mut found);
        if a.name == "CapsuleCmd" && scope.reused[0] != scope.reused[1] {
            let say = |reused: bool| if reused { "the CID of a command that is still out" } else { "a CID that is free" };
            let [expected, seen] = scope.reused.map(|r| say(r).to_owned());
            found.push(What::Field { path: path(a, "", "cid"), expected, seen });
        }
        if a.dir != b.dir && a.name != "Close" {
            let [expected, seen] = [a, b].map(|m| m.dir.sender().to_string());
            found.push(What::Field { path: path(a, "", "by"), expected, seen });
        }
        let at = [Some((ca, a)), Some((cb, b))];
        while let Some(count) = self.counts.get(self.counted.len()) {
            let place = self.difference(scope, at, count.what.clone());
            self.counted.push(place);
        }
        for what in found {
            self.add(scope, at, what);
        }
    }

    /// A structure that one side has alone: no difference where the mask ignores all its fields, or where it is what stands behind the
    /// last of a list.
    fn alone(&mut self, m: &Message, part: &Part, in_a: bool, found: &mut Vec<What>) {
        if part.index.is_some() && part.bytes.iter().all(|b| *b == 0) {
            return;
        }
        let plan = self.plans.plan(m, part);
        if plan.fields.iter().all(|(_, rule)| rule.how == How::Ignore) {
            self.report.used.extend(plan.fields.iter().filter_map(|(_, rule)| rule.line));
        } else {
            found.push(What::only(in_a, [m.name, m.command, &structure(part)].join(".")));
        }
    }

    fn parts(&mut self, scope: &mut Scope, m: &Message, (x, y): (&Part, &Part), conns: (usize, usize), found: &mut Vec<What>) {
        let plan = self.plans.plan(m, x);
        let same_table = std::ptr::eq(x.layout, y.layout) && x.index == y.index;
        if same_table && plan.plain && x.bytes == y.bytes {
            return;
        }
        let structure = structure(x);
        let before = found.len();
        for (field, rule) in plan.fields.iter().filter(|(f, _)| !x.hidden.contains(&f.name) && !y.hidden.contains(&f.name)) {
            // by the other's own table, where status or kind give it another
            let Some(other) = (if same_table { Some(*field) } else { y.layout.field(field.name) }) else { continue };
            let values = [field.get(&x.bytes), other.get(&y.bytes)];
            if rule.how == How::Ignore {
                self.report.used.extend(rule.line.filter(|_| values[0] != values[1]));
                continue;
            }
            let path = path(m, &structure, field.name);
            let both = Both { field, rule, path, bytes: [&x.bytes, &y.bytes], values };
            if let Some(what) = self.field(scope, m, &both, conns) {
                found.push(what);
            }
        }
        if !same_table {
            if found.len() == before {
                let path = path(m, &structure, "").trim_end_matches('.').to_owned();
                found.push(What::Field { path, expected: x.layout.name.to_owned(), seen: y.layout.name.to_owned() });
            }
            return;
        }
        for (at, mask) in plan.reserved.iter().enumerate() {
            let [l, r] = [x, y].map(|p| p.bytes.get(at).copied().unwrap_or(0) & mask);
            if l != r && *mask != 0 {
                let name = format!("reserved[{at}]");
                let rule = self.mask.rule([m.name, m.command, &structure, &name]);
                match rule.how {
                    How::Ignore => self.report.used.extend(rule.line),
                    _ => {
                        let [expected, seen] = [l, r].map(|b| format!("{b:#04x}"));
                        found.push(What::Field { path: path(m, &structure, &name), expected, seen });
                    }
                }
            }
        }
    }

    /// What differs in a field, where the rule does not allow it.
    fn field(&mut self, scope: &mut Scope, m: &Message, both: &Both<'_>, conns: (usize, usize)) -> Option<What> {
        let equal = both.values[0] == both.values[1];
        let expected = match both.rule.how {
            How::Rename(domain) => self.renamed(scope, m, both, domain, conns)?,
            How::Counter => {
                self.count(m, both, conns);
                return None;
            }
            _ if !equal && self.allowed(both) => return None,
            How::Exact if equal => return None,
            How::Within(t) if both.ints().is_some_and(|(a, b)| t.holds(a, b)) => {
                self.report.used.extend(both.rule.line.filter(|_| !equal));
                return None;
            }
            _ => both.shown(0),
        };
        Some(What::Field { path: both.path.clone(), expected, seen: both.shown(1) })
    }

    fn allowed(&mut self, both: &Both<'_>) -> bool {
        let Some((a, b)) = both.ints() else { return false };
        let line = both.rule.allowed.iter().find(|(x, y, _)| (*x, *y) == (a, b)).map(|(.., line)| *line);
        self.report.used.extend(line);
        line.is_some()
    }

    /// Takes note of a value that counts: its steps are judged once all of a connection's are known, in the order of time.
    fn count(&mut self, m: &Message, both: &Both<'_>, (ca, cb): (usize, usize)) {
        let Some(values) = both.ints() else { return };
        let field = both.path.rsplit('.').next().unwrap_or_default().to_owned();
        // SQHD begins anew at the end of the queue, and stands still at FFFFh without flow control. [FAB-SQFC-04]
        let entries = |c: Option<&Conn>| c.map(|c| c.entries).filter(|e| field == "sqhd" && *e > 0);
        let entries = [entries(self.a.conns.get(ca)), entries(self.b.conns.get(cb))];
        let what = What::Field { path: both.path.clone(), expected: both.shown(0), seen: both.shown(1) };
        self.counts.push(Count { at_ns: m.at_ns, field, values, entries, rule: both.rule.clone(), what });
    }

    /// Judges what was counted on a connection: the same steps in both, from the same begin on where the begin is there.
    pub(super) fn judge_counts(&mut self) {
        let counts = std::mem::take(&mut self.counts).into_iter();
        let mut counts: Vec<(Count, Difference)> = counts.zip(std::mem::take(&mut self.counted)).collect();
        counts.sort_by_key(|(c, _)| c.at_ns);
        let mut last: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (c, place) in counts {
            let begin = if self.part || c.field != "sqhd" { c.values } else { (0, 0) };
            let (a, b) = c.values;
            let (a0, b0) = last.insert(c.field, c.values).unwrap_or(begin);
            let step = |v: u64, v0: u64, entries: Option<u64>| match entries.filter(|e| v < *e && v0 < *e) {
                Some(e) => (v + e - v0) % e,
                None => v.wrapping_sub(v0),
            };
            let [ea, eb] = c.entries;
            let steps = (step(a, a0, ea), step(b, b0, eb));
            let allowed = c.rule.allowed.iter().find(|(x, y, _)| (*x, *y) == steps).map(|(.., line)| *line);
            if steps.0 == steps.1 || allowed.is_some() {
                self.report.used.extend(allowed.or(c.rule.line.filter(|_| a != b)));
                continue;
            }
            if let What::Field { path, expected, seen } = place.what.clone() {
                let say = |shown: String, step: u64, from: u64| format!("{shown}, {step} more than the {from} before");
                let what = What::Field { path, expected: say(expected, steps.0, a0), seen: say(seen, steps.1, b0) };
                self.report.add(Difference { what, ..place });
            }
        }
    }

    /// What was expected, where a renaming does not hold.
    fn renamed(&mut self, scope: &mut Scope, m: &Message, both: &Both<'_>, domain: usize, conns: (usize, usize)) -> Option<String> {
        let [va, vb] = [0, 1].map(|side| canonical(both, side));
        let ints = both.ints();
        let mut domain = self.mask.domain(domain).to_owned();
        if matches!(domain.as_str(), "qpn" | "communication") {
            // each device numbers its own: that of the sender, or of whom it speaks to
            let own = !both.field.name.starts_with("remote_");
            domain += if own == (m.dir == Direction::HostToController) { " of the host" } else { " of the controller" };
        }
        match (domain.as_str(), ints) {
            ("cid", Some((a, b))) if both.field.name == "cid_abort" => self.aborted(m, (a, b), conns.0, both),
            ("cid", Some((a, b))) => {
                let own = |n: usize, v: u64| scope.cids.get(n).copied().flatten().map(|c| u64::from(c) == v);
                match (own(0, a), own(1, b)) {
                    (Some(true), Some(true)) => None,
                    (Some(false), Some(false)) | (None, None) if a == b => None,
                    _ => {
                        let due = scope.cids[1].filter(|_| own(0, a) == Some(true)).map_or(a, u64::from);
                        Some(format!("{due} ({due:#x}), the CID of the command"))
                    }
                }
            }
            // given anew by each R2T and each command, for what belongs to the command
            ("ttag" | "rkey" | "va", Some(_)) => {
                let names = scope.names.entry(domain).or_default();
                if matches!(m.name, "R2T" | "CapsuleCmd") {
                    names.define(&va, &vb);
                    return None;
                }
                disagree(names, both, &va, &vb)
            }
            ("cntlid", Some((a, b))) if a >= NO_CONTROLLER || b >= NO_CONTROLLER => (a != b).then(|| both.shown(0)),
            ("cntlid", Some((a, b))) if m.name == "CapsuleResp" => {
                self.made_controller([a, b], conns);
                disagree(self.names.entry(domain).or_default(), both, &va, &vb)
            }
            _ => disagree(self.names.entry(domain).or_default(), both, &va, &vb),
        }
    }

    /// A response to Connect names a controller. IDs of associations that are over on both sides may be given again.
    fn made_controller(&mut self, ids: [u64; 2], (ca, cb): (usize, usize)) {
        let (Some(x), Some(y)) = (self.a.conns.get(ca), self.b.conns.get(cb)) else { return };
        if x.qid.is_some_and(|q| q != 0) {
            return;
        }
        let opened = [x.opened_ns, y.opened_ns];
        let names = self.names.entry("cntlid".to_owned()).or_default();
        for c in &self.controllers {
            let over = c.ended.iter().zip(opened).all(|(ended, now)| ended.is_some_and(|t| t <= now));
            if over && (c.ids[0] == ids[0] || c.ids[1] == ids[1]) {
                names.forget(&c.ids[0].to_le_bytes(), &c.ids[1].to_le_bytes());
            }
        }
        self.controllers.push(Controller { ids, ended: [x.closed_ns, y.closed_ns] });
    }

    /// CID of a command to abort: where that command is out in A, the CID of the same command in B. A CID of a command that is gone, or
    /// that never was, may be that as well, or the same number.
    fn aborted(&self, m: &Message, (a, b): (u64, u64), conn: usize, both: &Both<'_>) -> Option<String> {
        let (sqid, now) = (m.number("sqid").unwrap_or(0), m.at_ns);
        let queue = |p: &&Paired| {
            let Some(c) = self.a.conns.get(p.a) else { return false };
            if sqid == 0 { p.a == conn } else { c.qid.map(u64::from) == Some(sqid) && c.opened_ns <= now }
        };
        let found = self.paired.iter().rev().find(queue).and_then(|p| {
            let sent = |i: usize| {
                let unit = self.a.unit(p.a, i)?;
                let at = unit.messages.first().map(|m| m.at_ns).filter(|at| *at <= now)?;
                let is = unit.command.as_ref().is_some_and(|c| u64::from(c.sqe.cid().0) == a);
                let out = !unit.messages.iter().any(|m| m.name == "CapsuleResp" && m.at_ns <= now);
                is.then_some((at, out))
            };
            let ((_, out), other) = p.units.iter().filter_map(|u| Some((sent(u.a?)?, u.b?))).max_by_key(|(sent, _)| sent.0)?;
            Some((out, self.b.unit(p.b, other)?.command.as_ref().map(|c| u64::from(c.sqe.cid().0))?))
        });
        match found {
            Some((_, due)) if due == b => None,
            Some((true, due)) => Some(format!("{due} ({due:#x}), called {} in A", both.shown(0))),
            _ => (a != b).then(|| both.shown(0)),
        }
    }

    fn facts(&mut self, scope: &mut Scope, a: &Message, b: &Message, found: &mut Vec<What>) {
        let find = |facts: &[Fact], like: &Fact| facts.iter().find(|f| f.name == like.name && f.index == like.index).cloned();
        let in_a = a.facts.iter().map(|x| (Some(x.clone()), find(&b.facts, x)));
        let in_b = b.facts.iter().filter(|y| find(&a.facts, y).is_none()).map(|y| (None, Some(y.clone())));
        // what is renamed has to agree even where it is the same
        let key = |f: &Option<Fact>| f.as_ref().is_some_and(|f| f.name == "rkey" || f.name == "invalidate");
        for (x, y) in in_a.chain(in_b).filter(|(x, y)| x != y || key(x)) {
            let Some(Fact { name, index, .. }) = x.as_ref().or(y.as_ref()) else { continue };
            let field = index.map_or_else(|| (*name).to_owned(), |i| format!("{name}[{i}]"));
            let (va, vb) = (x.as_ref().map(|f| f.value.clone()), y.as_ref().map(|f| f.value.clone()));
            if !self.fact(scope, a, &field, (&va, &vb)) {
                let show = |v: Option<Known>| match v {
                    Some(Known::Int(n)) => n.to_string(),
                    Some(Known::Text(t)) => t,
                    None => "none".to_owned(),
                };
                found.push(What::Field { path: path(a, "", &field), expected: show(va), seen: show(vb) });
            }
        }
    }

    /// Whether the mask takes two different values of a fact for equal.
    fn fact(&mut self, scope: &mut Scope, m: &Message, field: &str, (a, b): (&Option<Known>, &Option<Known>)) -> bool {
        let rule = self.mask.rule([m.name, m.command, "", field]);
        let numbers = match (a, b) {
            (Some(Known::Int(p)), Some(Known::Int(q))) => Some((*p, *q)),
            _ => None,
        };
        let fits = match (rule.how, numbers) {
            (How::Ignore, _) => true,
            (How::Within(t), Some((p, q))) => t.holds(p, q),
            (How::Rename(domain), Some((p, q))) => {
                let domain = self.mask.domain(domain).to_owned();
                let names = if domain == "rkey" { &mut scope.names } else { &mut self.names };
                names.entry(domain).or_default().agree(&p.to_le_bytes(), &q.to_le_bytes())
            }
            (How::Exact, _) => a == b,
            _ => false,
        };
        let allowed = numbers.and_then(|(p, q)| rule.allowed.iter().find(|(i, j, _)| (*i, *j) == (p, q))).map(|(.., line)| *line);
        self.report.used.extend(allowed.or(rule.line.filter(|_| fits)));
        fits || allowed.is_some()
    }

    /// What no table reads.
    fn raw(&mut self, a: &Message, b: &Message, found: &mut Vec<What>) {
        if a.raw == b.raw {
            return;
        }
        let rule = self.mask.rule([a.name, a.command, "", "bytes"]);
        if rule.how == How::Ignore {
            self.report.used.extend(rule.line);
            return;
        }
        let common = a.raw.len().min(b.raw.len());
        let first = a.raw.iter().zip(b.raw.iter()).position(|(x, y)| x != y).unwrap_or(common);
        let count = a.raw.iter().zip(b.raw.iter()).filter(|(x, y)| x != y).count() + a.raw.len().abs_diff(b.raw.len());
        let show = |m: &Message| {
            let piece: String = m.raw.iter().skip(first).take(16).map(|x| format!("{x:02x}")).collect();
            format!("{} from byte {first} of {} on", if piece.is_empty() { "nothing" } else { &piece }, m.raw.len())
        };
        let seen = format!("{}; {count} bytes differ", show(b));
        found.push(What::Field { path: path(a, "", "bytes"), expected: show(a), seen });
    }

    fn time(&mut self, a: &Message, b: &Message, found: &mut Vec<What>) {
        let rule = self.mask.rule([a.name, a.command, "", "time"]);
        let How::Within(t) = rule.how else { return };
        if t.holds(a.took_ns, b.took_ns) {
            self.report.used.extend(rule.line.filter(|_| a.took_ns != b.took_ns));
            return;
        }
        let show = |m: &Message| format!("{}.{:03} ms", m.took_ns / 1_000_000, m.took_ns / 1000 % 1000);
        found.push(What::Field { path: path(a, "", "time"), expected: show(a), seen: show(b) });
    }
}

fn disagree(names: &mut Names, both: &Both<'_>, a: &[u8], b: &[u8]) -> Option<String> {
    if names.agree(a, b) {
        return None;
    }
    let show = |name: &[u8]| match both.ints() {
        Some(_) => name.first_chunk::<8>().map_or(String::new(), |b| u64::from_le_bytes(*b).to_string()),
        None => String::from_utf8_lossy(name).into_owned(),
    };
    Some(match names.called(a) {
        Some(due) => format!("{}, as {} of A was called before", show(due), both.shown(0)),
        None => format!("another name for {}: this one stands for {}", both.shown(0), names.means(b).map_or(String::new(), show)),
    })
}

/// A value as names are compared: text without padding, numbers little-endian.
fn canonical(both: &Both<'_>, side: usize) -> Vec<u8> {
    match both.values.get(side) {
        Some(Value::Int(n)) => n.to_le_bytes().to_vec(),
        Some(Value::Bytes(b)) if matches!(both.field.kind, Kind::Text | Kind::Ascii) => {
            let end = b.iter().rposition(|x| !matches!(x, 0 | b' ')).map_or(0, |n| n + 1);
            b.get(..end).unwrap_or_default().to_vec()
        }
        Some(Value::Bytes(b)) => b.clone(),
        None => Vec::new(),
    }
}
