//! What stands in a line: words, numbers, durations, text, expressions, conditions. The pieces are nom parsers; [`Cursor`] keeps the
//! place, so that an error can name the column and what was expected there.

use std::time::Duration;

use nom::branch::alt;
use nom::bytes::complete::{tag, take_while, take_while1};
use nom::character::complete::{char, digit1, hex_digit1};
use nom::combinator::{map_res, opt, recognize};
use nom::sequence::{delimited, pair, preceded};
use nom::{IResult, Parser};

use super::Fault;
use super::lines::Line;
use crate::ast::{Assign, Cond, Expr, Op, Place, Test};

/// A place in a line.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    line: Line<'a>,
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(line: &Line<'a>) -> Self {
        Self { line: *line, rest: line.text }
    }

    /// Where it stands.
    pub(super) fn place(&self) -> Place {
        let done = self.line.text.len() - self.rest.len();
        Place { line: self.line.number, column: self.line.indent + self.line.text[..done].chars().count() + 1 }
    }

    /// An error here.
    pub(super) fn fault(&self, expected: impl std::fmt::Display) -> Fault {
        let what = match self.rest.split_whitespace().next() {
            Some(seen) => format!("expected {expected}, found `{seen}`"),
            None => format!("expected {expected}, found the end of the line"),
        };
        Fault { place: self.place(), what }
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    /// Runs a nom parser here and skips the blanks behind it.
    fn run<T>(&mut self, mut p: impl FnMut(&'a str) -> IResult<&'a str, T>) -> Option<T> {
        let (rest, out) = p(self.rest).ok()?;
        self.rest = rest;
        self.space();
        Some(out)
    }

    /// True at the end of the line.
    pub(super) fn at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Demands the end of the line.
    pub(super) fn end(&self) -> Result<(), Fault> {
        if self.at_end() { Ok(()) } else { Err(self.fault("the end of the line")) }
    }

    /// The next word without taking it.
    pub(super) fn peek(&self) -> &'a str {
        word(self.rest).map_or("", |(_, w)| w)
    }

    /// Takes `keyword` if it is the next word.
    pub(super) fn eat(&mut self, keyword: &str) -> bool {
        let hit = self.peek() == keyword;
        if hit {
            self.rest = &self.rest[keyword.len()..];
            self.space();
        }
        hit
    }

    /// Takes `mark` if it is next.
    pub(super) fn eat_mark(&mut self, mark: &str) -> bool {
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                self.space();
                true
            }
            None => false,
        }
    }

    /// A word: letters, digits, `-`, `_`, `/`, `.`.
    pub(super) fn word(&mut self, expected: &str) -> Result<String, Fault> {
        self.run(word).map(str::to_owned).ok_or_else(|| self.fault(expected))
    }

    /// An id: like a word.
    pub(super) fn id(&mut self, expected: &str) -> Result<String, Fault> {
        self.run(recognize(take_while1(|c: char| c.is_ascii_alphanumeric() || "-_/.".contains(c))).parse_complete_fn())
            .map(str::to_owned)
            .ok_or_else(|| self.fault(expected))
    }

    /// A name with `$`.
    pub(super) fn dollar(&mut self) -> Result<String, Fault> {
        self.run(|i| preceded(char('$'), name).parse(i)).map(str::to_owned).ok_or_else(|| self.fault("`$name`"))
    }

    /// Quoted text.
    pub(super) fn text(&mut self) -> Result<String, Fault> {
        self.run(quoted).map(str::to_owned).ok_or_else(|| self.fault("text in double quotes"))
    }

    /// Quoted text, if it is next.
    pub(super) fn maybe_text(&mut self) -> Option<String> {
        self.run(quoted).map(str::to_owned)
    }

    /// `30s`, `200ms`, `2min`.
    pub(super) fn duration(&mut self) -> Result<Duration, Fault> {
        self.run(duration).ok_or_else(|| self.fault("a duration such as `200ms` or `30s`"))
    }

    /// A plain number.
    pub(super) fn number(&mut self) -> Result<u64, Fault> {
        self.run(number).ok_or_else(|| self.fault("a number"))
    }

    /// An expression.
    pub(super) fn expr(&mut self) -> Result<Expr, Fault> {
        let mut left = self.product()?;
        while let Some(op) = self.operator("+-") {
            left = Expr::Binary(op, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expr, Fault> {
        let mut left = self.primary()?;
        while let Some(op) = self.operator("*/%") {
            left = Expr::Binary(op, Box::new(left), Box::new(self.primary()?));
        }
        Ok(left)
    }

    fn operator(&mut self, which: &str) -> Option<char> {
        let c = self.rest.chars().next().filter(|c| which.contains(*c))?;
        // `a -> b` is no subtraction
        if self.rest.starts_with("->") {
            return None;
        }
        self.rest = &self.rest[1..];
        self.space();
        Some(c)
    }

    fn primary(&mut self) -> Result<Expr, Fault> {
        let e = self.simple()?;
        if self.rest.starts_with("..") {
            self.eat_mark("..");
            let to = self.simple()?;
            return Ok(Expr::Range(Box::new(e), Box::new(to)));
        }
        Ok(e)
    }

    fn simple(&mut self) -> Result<Expr, Fault> {
        if self.eat_mark("(") {
            let e = self.expr()?;
            return if self.eat_mark(")") { Ok(e) } else { Err(self.fault("`)`")) };
        }
        if self.eat_mark("{") {
            return Ok(Expr::Set(self.list("}")?));
        }
        if self.rest.starts_with("hex:") {
            let start = self.clone();
            return self
                .run(hex_bytes)
                .map(Expr::Hex)
                .ok_or_else(|| start.fault("`hex:` and an even number of hexadecimal digits"));
        }
        // a status such as 0/02h is a word, though it begins with a digit
        if let Some(s) = self.run(status_word) {
            return Ok(Expr::Word(s.to_owned()));
        }
        if let Some(n) = self.run(number) {
            return Ok(Expr::Int(n));
        }
        if let Some(t) = self.run(quoted) {
            return Ok(Expr::Text(t.to_owned()));
        }
        if self.rest.starts_with('$') {
            let (name, field) = self
                .run(|i| preceded(char('$'), pair(name, opt(preceded(char('.'), name)))).parse(i))
                .ok_or_else(|| self.fault("`$name`"))?;
            return Ok(Expr::Var(name.to_owned(), field.map(str::to_owned)));
        }
        let mut call = self.clone();
        if let Some(f) = call.run(name)
            && call.eat_mark("(")
        {
            *self = call;
            return Ok(Expr::Call(f.to_owned(), self.list(")")?));
        }
        self.run(word)
            .map(|w| Expr::Word(w.to_owned()))
            .ok_or_else(|| self.fault("a value: number, \"text\", $name, {set} or word"))
    }

    fn list(&mut self, close: &str) -> Result<Vec<Expr>, Fault> {
        let mut out = Vec::new();
        loop {
            if self.eat_mark(close) {
                return Ok(out);
            }
            if !out.is_empty() && !self.eat_mark(",") {
                return Err(self.fault(format!("`,` or `{close}`")));
            }
            out.push(self.expr()?);
        }
    }

    fn comparison(&mut self) -> Option<Op> {
        for (mark, op) in [
            ("==", Op::Equal),
            ("!=", Op::NotEqual),
            ("<=", Op::AtMost),
            (">=", Op::AtLeast),
            ("=", Op::Equal),
            ("<", Op::Less),
            (">", Op::More),
        ] {
            if self.eat_mark(mark) {
                return Some(op);
            }
        }
        self.eat("in").then_some(Op::In)
    }

    /// `EXPR op EXPR`.
    pub(super) fn test(&mut self) -> Result<Test, Fault> {
        let left = self.expr()?;
        let op = self.comparison().ok_or_else(|| self.fault("a comparison: = != < <= > >= in"))?;
        Ok(Test { left, op, right: self.expr()? })
    }

    /// `name op value`, or a bare `name` for `name=1`.
    pub(super) fn cond(&mut self) -> Result<Cond, Fault> {
        let place = self.place();
        let dotted = |i| recognize(pair(name, opt(preceded(char('.'), name)))).parse(i);
        let name = self.run(dotted).ok_or_else(|| self.fault("a field name"))?.to_owned();
        match self.comparison() {
            Some(op) => Ok(Cond { name, op, value: self.expr()?, place }),
            None => Ok(Cond { name, op: Op::Equal, value: Expr::Int(1), place }),
        }
    }

    /// `name=value`, `byte[12]=value`, or a bare `name` for `name=1`.
    pub(super) fn assign(&mut self) -> Result<Assign, Fault> {
        let place = self.place();
        let dotted = |i| recognize(pair(name, opt(preceded(char('.'), name)))).parse(i);
        let (name, index) = self
            .run(|i| pair(dotted, opt(delimited(char('['), number, char(']')))).parse(i))
            .ok_or_else(|| self.fault("a field name"))?;
        let value = if self.eat_mark("=") { self.expr()? } else { Expr::Int(1) };
        Ok(Assign { name: name.to_owned(), index, value, place })
    }
}

/// Lets a nom parser be passed where a function is wanted.
trait Complete<'a, O>: Sized {
    fn parse_complete_fn(self) -> impl FnMut(&'a str) -> IResult<&'a str, O>;
}

impl<'a, O, P: Parser<&'a str, Output = O, Error = nom::error::Error<&'a str>>> Complete<'a, O> for P {
    fn parse_complete_fn(mut self) -> impl FnMut(&'a str) -> IResult<&'a str, O> {
        move |i| self.parse(i)
    }
}

fn name(i: &str) -> IResult<&str, &str> {
    recognize(pair(
        take_while1(|c: char| c.is_ascii_alphabetic() || c == '_'),
        take_while(|c: char| c.is_ascii_alphanumeric() || c == '_'),
    ))
    .parse(i)
}

fn word(i: &str) -> IResult<&str, &str> {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    recognize(pair(take_while1(first), word_rest)).parse(i)
}

/// The rest of a word; a `..` ends it, so that `a..b` is a range.
fn word_rest(i: &str) -> IResult<&str, &str> {
    let mut end = 0;
    for (at, c) in i.char_indices() {
        let more = c.is_ascii_alphanumeric() || "-_/.".contains(c);
        if !more || i[at..].starts_with("..") || i[at..].starts_with("->") {
            break;
        }
        end = at + c.len_utf8();
    }
    Ok((&i[end..], &i[..end]))
}

fn quoted(i: &str) -> IResult<&str, &str> {
    delimited(char('"'), take_while(|c| c != '"'), char('"')).parse(i)
}

fn status_word(i: &str) -> IResult<&str, &str> {
    recognize((digit1, char('/'), hex_digit1, char('h'))).parse(i)
}

fn number(i: &str) -> IResult<&str, u64> {
    let hex = map_res(preceded(tag("0x"), take_while1(|c: char| c.is_ascii_hexdigit() || c == '_')), |s: &str| {
        u64::from_str_radix(&s.replace('_', ""), 16)
    });
    let dec = map_res(take_while1(|c: char| c.is_ascii_digit() || c == '_'), |s: &str| s.replace('_', "").parse::<u64>());
    let (rest, n) = alt((hex, dec)).parse(i)?;
    let (rest, unit) = opt(alt((tag("KiB"), tag("MiB"), tag("GiB")))).parse(rest)?;
    let shift = match unit {
        Some("KiB") => 10,
        Some("MiB") => 20,
        Some(_) => 30,
        None => 0,
    };
    match n.checked_mul(1 << shift) {
        Some(n) if !rest.starts_with(|c: char| c.is_ascii_alphabetic()) => Ok((rest, n)),
        _ => Err(nom::Err::Error(nom::error::Error::new(i, nom::error::ErrorKind::Digit))),
    }
}

fn duration(i: &str) -> IResult<&str, Duration> {
    let (rest, n) = map_res(digit1, str::parse::<u64>).parse(i)?;
    let (rest, unit) = alt((tag("ms"), tag("min"), tag("s"), tag("us"))).parse(rest)?;
    let d = match unit {
        "us" => Duration::from_micros(n),
        "ms" => Duration::from_millis(n),
        "s" => Duration::from_secs(n),
        _ => Duration::from_secs(n.saturating_mul(60)),
    };
    Ok((rest, d))
}

fn hex_bytes(i: &str) -> IResult<&str, Vec<u8>> {
    map_res(preceded(tag("hex:"), hex_digit1), |s: &str| {
        if !s.len().is_multiple_of(2) {
            return Err(());
        }
        (0..s.len()).step_by(2).map(|k| u8::from_str_radix(&s[k..k + 2], 16).map_err(|_| ())).collect()
    })
    .parse(i)
}
