//! What two captures may differ in: a list of rules, a line each. The grammar is in `docs/compare.md`.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use nvmf_wire::command::COMMANDS;
use nvmf_wire::registry::LAYOUTS;
use nvmf_wire::tcp::PduType;

use super::message::{FACTS, NAMES};

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum How {
    /// The same value.
    Exact,
    /// Not at all.
    Ignore,
    /// The same up to a renaming; the domain by its place in [`Mask::domain`].
    Rename(usize),
    /// Apart by no more than this.
    Within(Tolerance),
    /// The same steps from one value to the next.
    Counter,
}

/// The most that two numbers may be apart: the larger of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerance {
    /// In the field's own unit; nanoseconds for times.
    pub most: u64,
    /// As a part of the larger one.
    pub part: f64,
}

impl Tolerance {
    pub fn holds(self, a: u64, b: u64) -> bool {
        let most = (a.max(b) as f64 * self.part).max(self.most as f64);
        a.abs_diff(b) as f64 <= most
    }
}

/// What a mask says of one field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rule {
    pub how: How,
    /// Line of the mask that says so; `None` where none does.
    pub line: Option<Line>,
    /// Pairs of values, in A and in B, that are taken for equal, each with its line.
    pub allowed: Vec<(u64, u64, Line)>,
}

/// A line of a mask: which part of it (0 is the default), and its number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// 0 for the lines that always hold, then the masks in the order in which they were added.
    pub mask: usize,
    /// From 1.
    pub number: usize,
}

/// A mask that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskError {
    /// Line, from 1.
    pub line: usize,
    /// What stands there and what was expected.
    pub why: String,
}

impl fmt::Display for MaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for MaskError {}

/// What two captures may differ in.
#[derive(Clone, Debug)]
pub struct Mask {
    lines: Vec<(Line, What)>,
    domains: Vec<String>,
    masks: usize,
}

#[derive(Clone, Debug)]
enum What {
    Field { path: Vec<String>, how: How },
    Allow { path: Vec<String>, a: u64, b: u64 },
    Skip { path: Vec<String>, conds: Vec<(String, u64)> },
    Join { path: Vec<String> },
    Unordered { path: Vec<String> },
}

/// The lines that always hold, as text.
pub const DEFAULT: &str = include_str!("default.mask");

impl Default for Mask {
    /// The lines that always hold.
    fn default() -> Self {
        let mut mask = Self { lines: Vec::new(), domains: Vec::new(), masks: 0 };
        if let Err(e) = mask.add(DEFAULT) {
            unreachable!("the default mask: {e}");
        }
        mask
    }
}

impl Mask {
    /// Adds the lines of a mask behind those that are there. Nothing is added where one cannot be read.
    pub fn add(&mut self, text: &str) -> Result<(), MaskError> {
        let mut lines = Vec::new();
        for (n, line) in text.lines().enumerate() {
            let number = n + 1;
            let said = self.line(line).map_err(|why| MaskError { line: number, why })?;
            lines.extend(said.map(|what| (Line { mask: self.masks, number }, what)));
        }
        self.masks += 1;
        self.lines.extend(lines);
        Ok(())
    }

    fn line(&mut self, text: &str) -> Result<Option<What>, String> {
        let words = words(text)?;
        let mut words = words.iter();
        let Some(verb) = words.next() else { return Ok(None) };
        let verb = match verb {
            Word::Bare(w) => w.as_str(),
            Word::Quoted(_) => return Err(VERBS.into()),
        };
        let mut bare = |what: &str| match words.next() {
            Some(Word::Bare(w)) => Ok(w.clone()),
            Some(Word::Quoted(_)) => Err(format!("a quoted text; expected {what}")),
            None => Err(format!("the line ends; expected {what}")),
        };
        let said = match verb {
            "exact" => What::Field { path: field_path(&bare("a field")?)?, how: How::Exact },
            "ignore" => What::Field { path: field_path(&bare("a field")?)?, how: How::Ignore },
            "counter" => What::Field { path: field_path(&bare("a field")?)?, how: How::Counter },
            "rename" => {
                let path = field_path(&bare("a field")?)?;
                if bare("`as`")? != "as" {
                    return Err("expected `as` and a domain behind the field".into());
                }
                let domain = bare("a domain")?;
                let at = self.domains.iter().position(|d| *d == domain).unwrap_or_else(|| {
                    self.domains.push(domain.clone());
                    self.domains.len() - 1
                });
                What::Field { path, how: How::Rename(at) }
            }
            "within" => {
                let path = field_path(&bare("a field")?)?;
                What::Field { path, how: How::Within(tolerance(&bare("a tolerance: 10, 5ms or 20%")?)?) }
            }
            "allow" => {
                let path = field_path(&bare("a field")?)?;
                let a = number(&bare("the value in A")?)?;
                if bare("`->`")? != "->" {
                    return Err("expected `->` between the value in A and the one in B".into());
                }
                What::Allow { path, a, b: number(&bare("the value in B")?)? }
            }
            "join" => What::Join { path: message_path(&bare("a message")?)? },
            "unordered" => What::Unordered { path: message_path(&bare("a message")?)? },
            "skip" => {
                let named = bare("a message or a table")?;
                let path = if is_table(&named) { vec![named] } else { message_path(&named)? };
                let mut conds = Vec::new();
                while let Some(Word::Bare(w)) = words.as_slice().first() {
                    words.next();
                    let (name, value) =
                        w.split_once('=').ok_or_else(|| format!("`{w}`; expected field=number or the reason in quotes"))?;
                    field_path(name)?;
                    conds.push((name.to_owned(), number(value)?));
                }
                What::Skip { path, conds }
            }
            other => return Err(format!("`{other}`; expected {VERBS}")),
        };
        let reason = match words.next() {
            Some(Word::Quoted(text)) if text.trim().len() > 3 => true,
            Some(Word::Quoted(_)) => return Err("the reason says nothing".into()),
            Some(Word::Bare(w)) => return Err(format!("`{w}`; expected the reason in quotes")),
            None => false,
        };
        if !reason && !matches!(verb, "exact" | "rename") {
            return Err(format!("{verb} without a reason: expected one in quotes at the end of the line"));
        }
        match words.next() {
            None => Ok(Some(said)),
            Some(_) => Err("something behind the reason".into()),
        }
    }

    /// How a field is compared; `path` is message, command, structure (empty where there is none), field.
    pub(super) fn rule(&self, path: [&str; 4]) -> Rule {
        let mut rule = Rule { how: How::Exact, line: None, allowed: Vec::new() };
        for (line, what) in &self.lines {
            match what {
                What::Field { path: p, how } if names(p, &path) => (rule.how, rule.line) = (*how, Some(*line)),
                What::Allow { path: p, a, b } if names(p, &path) => rule.allowed.push((*a, *b, *line)),
                _ => {}
            }
        }
        rule
    }

    /// The line by which a message is left out, where one fits; `field` gives the value of one of its fields.
    pub(super) fn skips(&self, message: &str, command: &str, field: impl Fn(&str) -> Option<u64>) -> Option<Line> {
        self.lines.iter().find_map(|(line, what)| match what {
            What::Skip { path, conds } if begins(path, message, command) => {
                conds.iter().all(|(name, value)| field(name) == Some(*value)).then_some(*line)
            }
            _ => None,
        })
    }

    /// The line by which data in several of these messages is taken for data in one.
    pub(super) fn joins(&self, message: &str, command: &str) -> Option<Line> {
        self.lines.iter().find_map(|(line, what)| match what {
            What::Join { path } if begins(path, message, command) => Some(*line),
            _ => None,
        })
    }

    /// The line by which these may come in any order.
    pub(super) fn unordered(&self, message: &str, command: &str) -> Option<Line> {
        self.lines.iter().find_map(|(line, what)| match what {
            What::Unordered { path } if begins(path, message, command) => Some(*line),
            _ => None,
        })
    }

    /// A domain's name.
    pub(super) fn domain(&self, at: usize) -> &str {
        self.domains.get(at).map_or("", String::as_str)
    }

    /// The numbers of the lines of a mask: 0 for those that always hold, then in the order in which masks were added.
    #[must_use]
    pub fn lines(&self, mask: usize) -> BTreeSet<usize> {
        self.lines.iter().filter(|(l, _)| l.mask == mask).map(|(l, _)| l.number).collect()
    }
}

const VERBS: &str = "ignore, rename, within, counter, allow, exact, skip, join or unordered";

enum Word {
    Bare(String),
    Quoted(String),
}

/// Words and texts in quotes; `\"` is a quote in a text, `#` outside of one begins a comment.
fn words(text: &str) -> Result<Vec<Word>, String> {
    let mut out = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.peek().copied() {
        if c.is_whitespace() {
            chars.next();
        } else if c == '#' {
            break;
        } else if c == '"' {
            chars.next();
            let mut said = String::new();
            loop {
                match chars.next() {
                    Some('"') => break,
                    Some('\\') => said.extend(chars.next()),
                    Some(other) => said.push(other),
                    None => return Err("a text without its closing quote".into()),
                }
            }
            out.push(Word::Quoted(said));
        } else {
            let mut word = String::new();
            while let Some(c) = chars.peek().copied().filter(|c| !c.is_whitespace() && *c != '"') {
                word.push(c);
                chars.next();
            }
            out.push(Word::Bare(word));
        }
    }
    Ok(out)
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("`{text}`; expected a number"))
}

fn tolerance(text: &str) -> Result<Tolerance, String> {
    if let Some(percent) = text.strip_suffix('%') {
        let part = percent.parse::<f64>().ok().filter(|p| (0.0..=100.0).contains(p));
        return part.map(|p| Tolerance { most: 0, part: p / 100.0 }).ok_or_else(|| format!("`{text}`; expected 0% to 100%"));
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (value, unit) = text.split_at(digits);
    let value = number(value).map_err(|_| format!("`{text}`; expected a number, or one with us, ms, s or %"))?;
    let most = match unit {
        "" => Some(value),
        "us" => Some(Duration::from_micros(value).as_nanos() as u64),
        "ms" => Some(Duration::from_millis(value).as_nanos() as u64),
        "s" => value.checked_mul(1_000_000_000),
        _ => None,
    };
    most.map(|most| Tolerance { most, part: 0.0 }).ok_or_else(|| format!("`{text}`; expected a number, or one with us, ms, s or %"))
}

/// Segments of a field's path, each of which has to be a name that there is.
fn field_path(text: &str) -> Result<Vec<String>, String> {
    let path: Vec<String> = text.split('.').map(str::to_owned).collect();
    let Some((field, above)) = path.split_last() else { return Err("a field".into()) };
    let plain = field.split('[').next().unwrap_or_default();
    let known = |f: &str| FACTS.contains(&f) || f == "reserved" || LAYOUTS.iter().any(|l| l.field(f).is_some());
    if !field.contains('*') && !known(plain) {
        return Err(format!("no field `{field}` in any table"));
    }
    for segment in above.iter().filter(|s| !s.contains('*')) {
        let plain = segment.split('[').next().unwrap_or_default();
        if !is_message(plain) && !is_command(plain) && !is_table(plain) {
            return Err(format!("`{segment}` is no message, no command and no table"));
        }
    }
    if path.len() > 4 {
        return Err(format!("`{text}` has more than message, command, table and field"));
    }
    Ok(path)
}

fn message_path(text: &str) -> Result<Vec<String>, String> {
    let path: Vec<String> = text.split('.').map(str::to_owned).collect();
    let wild = |s: &String| s.contains('*');
    match path.as_slice() {
        [message] | [message, _] if !wild(message) && !is_message(message) => Err(format!("no message `{message}`")),
        [_, command] if !wild(command) && !is_command(command) => Err(format!("no command `{command}`")),
        [_] | [_, _] => Ok(path),
        _ => Err(format!("`{text}`; expected a message, or a message and its command")),
    }
}

fn is_table(name: &str) -> bool {
    LAYOUTS.iter().any(|l| l.name == name)
}

fn is_message(name: &str) -> bool {
    NAMES.contains(&name) || PduType::NAMED.iter().any(|n| n.2 == name)
}

fn is_command(name: &str) -> bool {
    name == super::message::UNKNOWN || COMMANDS.iter().any(|c| c.name == name)
}

/// Whether a pattern names a field: its last segment the field itself, those before it, in their order, some of message, command and
/// table. An index matters only to a pattern that has one.
fn names(pattern: &[String], path: &[&str; 4]) -> bool {
    let one = |p: &str, s: &str| fits(p, s) || !p.contains('[') && s.split('[').next().is_some_and(|s| fits(p, s));
    let ([above @ .., field], [rest @ .., last]) = (pattern, path) else { return false };
    let mut rest = rest.iter().filter(|s| !s.is_empty());
    one(field, last) && above.iter().all(|p| rest.any(|s| one(p, s)))
}

fn begins(pattern: &[String], message: &str, command: &str) -> bool {
    match pattern {
        [m] => fits(m, message),
        [m, c] => fits(m, message) && fits(c, command),
        _ => false,
    }
}

/// `*` stands for any characters.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(text: &str) -> Mask {
        let mut mask = Mask::default();
        mask.add(text).unwrap_or_else(|e| panic!("{e}"));
        mask
    }

    #[test]
    fn the_last_line_that_fits_counts() {
        let m = mask("ignore Identify*.* \"all of it\"\nexact IdentifyController.mdts\nwithin time 2ms \"a lab\"\n");
        assert_eq!(m.rule(["Data", "Identify", "IdentifyController", "sn"]).how, How::Ignore);
        assert_eq!(m.rule(["Data", "Identify", "IdentifyController", "mdts"]).how, How::Exact);
        assert_eq!(m.rule(["CapsuleCmd", "Read", "", "slba"]).how, How::Exact);
        assert_eq!(m.rule(["CapsuleCmd", "Read", "", "time"]).how, How::Within(Tolerance { most: 2_000_000, part: 0.0 }));
        assert!(matches!(m.rule(["C2HData", "Read", "", "cccid"]).how, How::Rename(_)));
        assert_eq!((m.lines(1), m.lines(2)), (BTreeSet::from([1, 2, 3]), BTreeSet::new()));
    }

    #[test]
    fn an_index_and_a_condition_matter_where_they_are_named() {
        let m = mask(
            "ignore DiscoveryEntry[1].subnqn \"x is y\"\nignore NamespaceDescriptor.nid \"x is y\"\nskip CapsuleResp.Read sc=6 \"x is y\"\nallow Read.sc 6 -> 0x80 \"x is y\"",
        );
        let how = |i: usize| m.rule(["Data", "GetLogPage", &format!("DiscoveryEntry[{i}]"), "subnqn"]).how;
        assert_eq!((how(0), how(1)), (How::Exact, How::Ignore));
        assert_eq!(m.rule(["Data", "Identify", "NamespaceDescriptor[3]", "nid"]).how, How::Ignore);
        assert!(m.skips("CapsuleResp", "Read", |_| Some(6)).is_some() && m.skips("CapsuleResp", "Read", |_| Some(5)).is_none());
        assert!(m.skips("CapsuleResp", "Write", |_| Some(6)).is_none());
        assert_eq!(m.rule(["CapsuleResp", "Read", "", "sc"]).allowed, [(6, 0x80, Line { mask: 1, number: 4 })]);
    }

    #[test]
    fn what_cannot_be_read_is_said_with_its_line() {
        for (text, line, why) in [
            ("\nignore slba", 2, "ignore without a reason"),
            ("ignore slbaa \"x is y\"", 1, "no field `slbaa`"),
            ("ignore Raed.slba \"x is y\"", 1, "`Raed` is no message"),
            ("forget slba \"x is y\"", 1, "`forget`; expected ignore"),
            ("within time soon \"x is y\"", 1, "`soon`"),
            ("within time 5h \"x is y\"", 1, "`5h`"),
            ("rename slba cid", 1, "`as`"),
            ("allow sc 6 7 \"x is y\"", 1, "`->`"),
            ("skip CapsuleResp.Raed \"x is y\"", 1, "no command `Raed`"),
            ("skip CapsuleResp sc \"x is y\"", 1, "field=number"),
            ("join C2HDate \"x is y\"", 1, "no message `C2HDate`"),
            ("ignore slba \"x is y", 1, "closing quote"),
            ("ignore slba \"x is y\" slba", 1, "behind the reason"),
            ("ignore slba \"\"", 1, "says nothing"),
        ] {
            let e = Mask::default().add(text).unwrap_err();
            assert!(e.line == line && e.why.contains(why), "{text}: {e}");
        }
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text, yes) in [
            ("*", "", true),
            ("Identify*", "IdentifyController", true),
            ("*data*al", "xdatabal", true),
            ("a*", "ba", false),
            ("a", "ab", false),
        ] {
            assert_eq!(fits(pattern, text), yes, "{pattern} {text}");
        }
    }
}
