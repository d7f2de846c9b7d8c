//! Display filters: the useful part of Wireshark's language.
//!
//! `nvme.cmd.opc == 2 and nvme.cmd.slba in {0..7, 64}`, `not nvme-tcp.ddgst`, `frame.number > 10 && ip.src == 10.0.0.1`. A comparison holds
//! where any of the values of that name in the PDU does; `!=` where the name is there and all of them differ, as Wireshark 4 has it. Entry:
//! [`Filter::parse`].

use std::fmt;
use std::net::IpAddr;

use super::{Field, Packet, Value, View, Visitor};

/// Deepest nesting of parentheses and negations.
const DEEPEST: usize = 64;

/// A display filter, ready to be asked.
#[derive(Debug)]
pub struct Filter {
    tests: Vec<Test>,
    expr: Expr,
    /// Fields of the layers below are asked for.
    below: bool,
}

/// What is wrong with a filter, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// Column from 1, in characters.
    pub column: usize,
    /// What was expected there.
    pub why: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.why)
    }
}

impl std::error::Error for FilterError {}

/// A test of one name, and what became of it in this PDU.
#[derive(Debug)]
struct Test {
    name: String,
    op: Op,
    operands: Vec<Operand>,
    /// A value of that name was there.
    seen: bool,
    /// It held for one of them.
    held: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Present,
    Equal,
    /// All differ.
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Contains,
    In,
}

/// What a field is compared with.
#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Number(u64),
    /// A fraction or a time, in billionths.
    Decimal(u128),
    Text(String),
    Bytes(Vec<u8>),
    Address(IpAddr),
    Range(Box<Operand>, Box<Operand>),
}

#[derive(Debug)]
enum Expr {
    Test(usize),
    Not(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
}

impl Filter {
    /// Reads a filter.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let tokens = tokens(text)?;
        let mut parser = Parser { tokens: &tokens, at: 0, end: text.chars().count() + 1, tests: Vec::new(), depth: 0 };
        let expr = parser.or()?;
        if let Some(token) = parser.peek() {
            return Err(FilterError {
                column: token.column,
                why: format!("`and`, `or` or the end was expected, not {}", token.shown()),
            });
        }
        let below = parser.tests.iter().any(|t| !t.name.starts_with("nvme") && !t.name.starts_with("infiniband"));
        Ok(Self { tests: parser.tests, expr, below })
    }

    /// True where it holds for an event.
    pub fn matches(&mut self, view: &View<'_>) -> bool {
        view.show(self);
        eval(&self.expr, &self.tests)
    }
}

fn eval(expr: &Expr, tests: &[Test]) -> bool {
    match expr {
        Expr::Test(i) => tests.get(*i).is_some_and(|t| if t.op == Op::Unequal { t.seen && !t.held } else { t.held }),
        Expr::Not(e) => !eval(e, tests),
        Expr::And(a, b) => eval(a, tests) && eval(b, tests),
        Expr::Or(a, b) => eval(a, tests) || eval(b, tests),
    }
}

impl Visitor for Filter {
    fn packet(&mut self, packet: &Packet) {
        for t in &mut self.tests {
            (t.seen, t.held) = (false, false);
        }
        if self.below {
            packet.layers(self);
        }
    }

    fn layer(&mut self, name: &'static str) {
        self.name(name, &Value::Nothing);
    }

    fn field(&mut self, field: &Field<'_>) {
        self.name(field.name, &field.value);
    }
}

impl Filter {
    fn name(&mut self, name: &'static str, value: &Value<'_>) {
        for t in self.tests.iter_mut().filter(|t| t.name == name) {
            t.seen = true;
            t.held |= match t.op {
                Op::Present => true,
                Op::Equal | Op::Unequal | Op::In => t.operands.iter().any(|o| equal(value, o)),
                Op::Less => t.operands.iter().any(|o| order(value, o).is_some_and(|c| c.is_lt())),
                Op::AtMost => t.operands.iter().any(|o| order(value, o).is_some_and(|c| c.is_le())),
                Op::Greater => t.operands.iter().any(|o| order(value, o).is_some_and(|c| c.is_gt())),
                Op::AtLeast => t.operands.iter().any(|o| order(value, o).is_some_and(|c| c.is_ge())),
                Op::Contains => t.operands.iter().any(|o| contains(value, o)),
            };
        }
    }
}

fn equal(value: &Value<'_>, operand: &Operand) -> bool {
    if let Operand::Range(from, to) = operand {
        return order(value, from).is_some_and(|c| c.is_ge()) && order(value, to).is_some_and(|c| c.is_le());
    }
    order(value, operand).is_some_and(|c| c.is_eq())
}

fn order(value: &Value<'_>, operand: &Operand) -> Option<std::cmp::Ordering> {
    const BILLION: u128 = 1_000_000_000;
    match (*value, operand) {
        (Value::Number(n, _), Operand::Number(o)) => Some(n.cmp(o)),
        (Value::Flag(b), Operand::Number(o)) => Some(u64::from(b).cmp(o)),
        (Value::Flag(b), Operand::Text(t)) => match t.as_str() {
            "true" | "True" | "TRUE" => Some(b.cmp(&true)),
            "false" | "False" | "FALSE" => Some(b.cmp(&false)),
            _ => None,
        },
        (Value::Seconds(ns), Operand::Decimal(o)) => Some(u128::from(ns).cmp(o)),
        (Value::Seconds(ns), Operand::Number(o)) => Some(u128::from(ns).cmp(&(u128::from(*o) * BILLION))),
        // In milliseconds, so that a billionth of one is a millionth of a nanosecond.
        (Value::Millis(ns), Operand::Decimal(o)) => Some((u128::from(ns) * 1000).cmp(o)),
        (Value::Millis(ns), Operand::Number(o)) => Some((u128::from(ns) * 1000).cmp(&(u128::from(*o) * BILLION))),
        (Value::Text(t), Operand::Text(o)) => Some(t.cmp(o.as_bytes())),
        (Value::Bytes(b), Operand::Bytes(o)) => Some(b.cmp(o.as_slice())),
        (Value::Bytes(b), Operand::Text(o)) => Some(b.cmp(o.as_bytes())),
        // One byte is written as a number, too.
        (Value::Bytes([b]), Operand::Number(o)) => Some(u64::from(*b).cmp(o)),
        (Value::Address(a), Operand::Address(o)) => Some(a.cmp(o)),
        _ => None,
    }
}

fn contains(value: &Value<'_>, operand: &Operand) -> bool {
    let (Value::Text(hay) | Value::Bytes(hay)) = *value else { return false };
    let needle: &[u8] = match operand {
        Operand::Text(t) => t.as_bytes(),
        Operand::Bytes(b) => b,
        _ => return false,
    };
    needle.is_empty() || hay.windows(needle.len()).any(|w| w == needle)
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// A name, a number, an address: whatever has no spaces.
    Word(String),
    Text(String),
    /// `==` and the like, parentheses, braces, commas.
    Sign(&'static str),
}

#[derive(Clone, Debug)]
struct Token {
    kind: Kind,
    column: usize,
}

impl Token {
    fn shown(&self) -> String {
        match &self.kind {
            Kind::Word(w) => format!("`{w}`"),
            Kind::Text(t) => format!("\"{t}\""),
            Kind::Sign(s) => format!("`{s}`"),
        }
    }
}

const SIGNS: [&str; 16] = ["==", "!=", "<=", ">=", "&&", "||", "..", "<", ">", "!", "(", ")", "{", "}", ",", "="];

fn tokens(text: &str) -> Result<Vec<Token>, FilterError> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let column = text.chars().count() - rest.chars().count() + 1;
        if first.is_whitespace() {
            rest = rest.get(first.len_utf8()..).unwrap_or("");
            continue;
        }
        let (kind, len) = if first == '"' {
            string(rest, column)?
        } else if let Some(sign) = SIGNS.iter().find(|s| rest.starts_with(*s)) {
            (Kind::Sign(sign), sign.len())
        } else {
            let word = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | ':');
            let mut len = rest.find(|c| !word(c)).unwrap_or(rest.len());
            // `1..3` is three tokens, and a name does not end in a dot.
            if let Some(at) = rest.get(..len).and_then(|w| w.find("..")) {
                len = at;
            }
            if len == 0 {
                return Err(FilterError { column, why: format!("`{first}` begins nothing") });
            }
            (Kind::Word(rest.get(..len).unwrap_or("").to_owned()), len)
        };
        out.push(Token { kind, column });
        rest = rest.get(len..).unwrap_or("");
    }
    Ok(out)
}

/// A string in quotes, with `\"` and `\\`; its length in the text.
fn string(rest: &str, column: usize) -> Result<(Kind, usize), FilterError> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((Kind::Text(text), at + 1)),
            '\\' => text.extend(chars.next().map(|(_, c)| c)),
            c => text.push(c),
        }
    }
    Err(FilterError { column, why: "the string has no end".to_owned() })
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    /// Column behind the text.
    end: usize,
    tests: Vec<Test>,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    fn error<T>(&self, why: &str) -> Result<T, FilterError> {
        let column = self.peek().map_or(self.end, |t| t.column);
        let found = self.peek().map_or("the end".to_owned(), Token::shown);
        Err(FilterError { column, why: format!("{why} was expected, not {found}") })
    }

    fn takes(&mut self, signs: &[&str]) -> bool {
        let found = match self.peek().map(|t| &t.kind) {
            Some(Kind::Sign(s)) => signs.contains(s),
            Some(Kind::Word(w)) => signs.contains(&w.as_str()),
            _ => false,
        };
        self.at += usize::from(found);
        found
    }

    fn or(&mut self) -> Result<Expr, FilterError> {
        let mut left = self.and()?;
        while self.takes(&["or", "||"]) {
            left = Expr::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expr, FilterError> {
        let mut left = self.not()?;
        while self.takes(&["and", "&&"]) {
            left = Expr::And(Box::new(left), Box::new(self.not()?));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expr, FilterError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return self.error("something less deeply nested");
        }
        let expr = if self.takes(&["not", "!"]) {
            Expr::Not(Box::new(self.not()?))
        } else if self.takes(&["("]) {
            let inner = self.or()?;
            if !self.takes(&[")"]) {
                return self.error("`)`");
            }
            inner
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn test(&mut self) -> Result<Expr, FilterError> {
        let name = match self.peek().map(|t| &t.kind) {
            Some(Kind::Word(w)) if w.starts_with(|c: char| c.is_alphabetic()) && !is_word(w) => w.clone(),
            _ => return self.error("the name of a field"),
        };
        self.at += 1;
        const OPS: [(&[&str], Op); 8] = [
            (&["==", "=", "eq"], Op::Equal),
            (&["!=", "ne"], Op::Unequal),
            (&["<=", "le"], Op::AtMost),
            (&[">=", "ge"], Op::AtLeast),
            (&["<", "lt"], Op::Less),
            (&[">", "gt"], Op::Greater),
            (&["contains"], Op::Contains),
            (&["in"], Op::In),
        ];
        let op = OPS.iter().find(|(words, _)| self.takes(words)).map_or(Op::Present, |(_, op)| *op);
        let operands = match op {
            Op::Present => Vec::new(),
            Op::In => self.set()?,
            _ => vec![self.operand()?],
        };
        self.tests.push(Test { name, op, operands, seen: false, held: false });
        Ok(Expr::Test(self.tests.len() - 1))
    }

    fn set(&mut self) -> Result<Vec<Operand>, FilterError> {
        if !self.takes(&["{"]) {
            return self.error("`{`");
        }
        let mut out = Vec::new();
        loop {
            let from = self.operand()?;
            out.push(match self.takes(&[".."]) {
                true => Operand::Range(Box::new(from), Box::new(self.operand()?)),
                false => from,
            });
            if self.takes(&["}"]) {
                return Ok(out);
            }
            if !self.takes(&[","]) {
                return self.error("`,` or `}`");
            }
        }
    }

    fn operand(&mut self) -> Result<Operand, FilterError> {
        let operand = match self.peek().map(|t| &t.kind) {
            Some(Kind::Text(t)) => Some(Operand::Text(t.clone())),
            Some(Kind::Word(w)) if !is_word(w) => operand(w),
            _ => None,
        };
        match operand {
            Some(operand) => {
                self.at += 1;
                Ok(operand)
            }
            None => self.error("a number, an address, bytes (01:02) or a \"string\""),
        }
    }
}

/// True for a word of the language.
fn is_word(w: &str) -> bool {
    ["and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "in", "contains", "matches"].contains(&w)
}

fn operand(word: &str) -> Option<Operand> {
    if let Some(hex) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok().map(Operand::Number);
    }
    if let Ok(n) = word.parse::<u64>() {
        return Some(Operand::Number(n));
    }
    if let Some(bytes) = bytes(word) {
        return Some(Operand::Bytes(bytes));
    }
    if let Ok(ip) = word.parse::<IpAddr>() {
        return Some(Operand::Address(ip));
    }
    if ["true", "false", "True", "False", "TRUE", "FALSE"].contains(&word) {
        return Some(Operand::Text(word.to_owned()));
    }
    let (whole, part) = word.split_once('.')?;
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 9 {
        return None;
    }
    let part = format!("{part:0<9}").parse::<u128>().ok()?;
    Some(Operand::Decimal(whole.parse::<u64>().ok().map(u128::from)? * 1_000_000_000 + part))
}

/// `01:02:ff`.
fn bytes(word: &str) -> Option<Vec<u8>> {
    let parts: Vec<&str> = word.split(':').collect();
    let whole = parts.len() > 1 && parts.iter().all(|p| p.len() == 2);
    whole.then(|| parts.iter().map(|p| u8::from_str_radix(p, 16).ok()).collect())?
}
