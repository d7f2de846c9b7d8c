//! Expressions.

use std::collections::BTreeMap;

use nvmf_wire::Field;
use nvmf_wire::sgl::{SglKeyed, SglSubtype, SglType};

use super::{FACTS, Player, Seen, Step, StopKind};
use crate::ast::Expr;
use crate::fields::coded;
use crate::pattern::pattern;
use crate::value::{Val, show_op, status};

/// Most bytes that a script may make at once.
const MAX_BYTES: u64 = 64 << 20;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvalError {
    /// A fact that could not be learnt from the peer.
    Fact(String),
    /// A fault of the script.
    Script(String),
}

impl std::fmt::Display for EvalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fact(name) => write!(f, "`${name}` could not be learnt from the peer"),
            Self::Script(why) => f.write_str(why),
        }
    }
}

impl From<String> for EvalError {
    fn from(why: String) -> Self {
        Self::Script(why)
    }
}

/// Works out expressions over names.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a>(pub &'a BTreeMap<String, Val>);

type Evaluated<T = Val> = Result<T, EvalError>;

impl Scope<'_> {
    /// The number that `e` is.
    pub fn int(&self, e: &Expr) -> Evaluated<u64> {
        Ok(self.eval(e)?.int()?)
    }

    /// The value of `e`.
    pub fn eval(&self, e: &Expr) -> Evaluated {
        Ok(match e {
            Expr::Int(n) => Val::Int(*n),
            Expr::Text(t) => Val::Text(t.clone()),
            Expr::Hex(b) => Val::Bytes(b.clone()),
            Expr::Word(w) => Val::Word(w.clone()),
            Expr::Var(name, field) => {
                let v = self.0.get(name).ok_or_else(|| unbound(name))?;
                match field {
                    Some(f) => v.field(f)?,
                    None => v.clone(),
                }
            }
            Expr::Set(items) => self.set(items)?,
            Expr::Range(a, b) => Val::Set(vec![(self.int(a)?, self.int(b)?)]),
            Expr::Binary(op, a, b) => binary(*op, self.int(a)?, self.int(b)?)?,
            Expr::Call(f, args) => self.call(f, args)?,
        })
    }

    /// A set of numbers and ranges; a word in it is a status.
    fn set(&self, items: &[Expr]) -> Evaluated {
        let mut out = Vec::new();
        for i in items {
            match self.eval(i)? {
                Val::Set(s) => out.extend(s),
                v => {
                    let n = v.int()?;
                    out.push((n, n));
                }
            }
        }
        Ok(Val::Set(out))
    }

    fn call(&self, f: &str, args: &[Expr]) -> Evaluated {
        let arg = |i: usize| args.get(i).ok_or_else(|| EvalError::Script(format!("{f}() lacks argument {}", i + 1)));
        let n = |i: usize| self.int(arg(i)?);
        Ok(match f {
            "min" => Val::Int(n(0)?.min(n(1)?)),
            "max" => Val::Int(n(0)?.max(n(1)?)),
            "len" => Val::Int(self.eval(arg(0)?)?.bytes()?.len() as u64),
            "zeros" => Val::Bytes(vec![0; size(n(0)?)?]),
            "fill" => Val::Bytes(vec![n(1)? as u8; size(n(0)?)?]),
            "nqn" => {
                let head = "nqn.2014-08.org.example:nvmfspec.";
                let len = size(n(0)?)?;
                let rest = len.checked_sub(head.len()).ok_or_else(|| format!("nqn({len}): at least {}", head.len()))?;
                Val::Text(format!("{head}{}", "x".repeat(rest)))
            }
            "pattern" => {
                let (Val::Word(name) | Val::Text(name)) = self.eval(arg(0)?)? else {
                    return Err(EvalError::Script("pattern(NAME, LBA, BYTES)".into()));
                };
                Val::Bytes(pattern(&name, n(1)?.saturating_mul(self.block_size()), size(n(2)?)?))
            }
            "take" => {
                let b = self.eval(arg(0)?)?.bytes()?;
                let (at, len) = (size(n(1)?)?, size(n(2)?)?);
                let part = b.get(at..at + len).ok_or_else(|| format!("take({at}, {len}) of {} bytes", b.len()))?;
                Val::Bytes(part.to_vec())
            }
            "cat" => {
                let mut all = Vec::new();
                for a in args {
                    all.extend(self.eval(a)?.bytes()?);
                }
                size(all.len() as u64)?;
                Val::Bytes(all)
            }
            "times" => {
                let b = self.eval(arg(0)?)?.bytes()?;
                size((b.len() as u64).saturating_mul(n(1)?))?;
                Val::Bytes(b.repeat(n(1)? as usize))
            }
            "keyed" => {
                let sub = if args.len() > 3 { n(3)? } else { 0 };
                let (addr, key, len) = (n(0)?, n(1)? as u32, n(2)? as u32);
                let d = SglKeyed::new()
                    .with(|s| s.addr(addr).key(key).len(len).kind(SglType::KEYED_DATA_BLOCK).sub(SglSubtype(sub as u8)));
                Val::Bytes(d.as_bytes().to_vec())
            }
            "int" => {
                let (value, width) = (n(0)?, size(n(1)?)?);
                let all = value.to_le_bytes();
                let (kept, rest) = all.split_at_checked(width).ok_or_else(|| format!("int({value}, {width}): at most 8 bytes"))?;
                if rest.iter().any(|b| *b != 0) {
                    return Err(format!("int({value}, {width}): {value} needs more bytes").into());
                }
                Val::Bytes(kept.to_vec())
            }
            _ => return self.look(f, args),
        })
    }

    /// Functions that look at bytes or at the world.
    fn look(&self, f: &str, args: &[Expr]) -> Evaluated {
        const KNOWN: &str = "min, max, len, zeros, fill, nqn, pattern, take, cat, times, int, keyed, view, reserved, isascii, isnqn, ipversion, decimal, le, now";
        let arg = |i: usize| args.get(i).ok_or_else(|| EvalError::Script(format!("{f}() lacks argument {}", i + 1)));
        let bytes = |i: usize| Ok::<_, EvalError>(self.eval(arg(i)?)?.bytes()?);
        Ok(match f {
            "view" => {
                let (Val::Word(name) | Val::Text(name)) = self.eval(arg(0)?)? else {
                    return Err(EvalError::Script("view(TABLE, BYTES)".into()));
                };
                let layout = nvmf_wire::registry::named(&name).ok_or_else(|| format!("no table `{name}`"))?;
                Val::Record { layout: Some(layout), bytes: bytes(1)?, beside: Vec::new() }
            }
            "reserved" => {
                let Val::Record { layout: Some(layout), bytes, .. } = self.eval(arg(0)?)? else {
                    return Err(EvalError::Script("reserved() of data without a table".into()));
                };
                Val::Int(layout.reserved_mask().iter().zip(&bytes).filter(|(m, b)| *m & *b != 0).count() as u64)
            }
            "isascii" => Val::Int(u64::from(is_padded_ascii(&bytes(0)?))),
            "isnqn" => Val::Int(u64::from(is_nqn_field(&bytes(0)?))),
            "ipversion" => Val::Int(ip_version(&bytes(0)?)),
            "decimal" => Val::Int(decimal(&bytes(0)?)),
            "le" => Val::Int(little_endian(&bytes(0)?).ok_or_else(|| "le() takes at most 8 bytes".to_owned())?),
            "now" => self.0.get("now").cloned().ok_or_else(|| "now() outside of statements".to_owned())?,
            _ => return Err(EvalError::Script(format!("no function `{f}`: {KNOWN}"))),
        })
    }

    /// A value to compare a field with: words are names of the field's coded values, or statuses.
    pub fn wanted(&self, e: &Expr, field: Option<&'static Field>) -> Evaluated {
        match e {
            Expr::Word(w) => {
                let n = field.and_then(|f| coded(f, w)).or_else(|| status(w));
                n.map(Val::Int).ok_or_else(|| EvalError::Script(format!("`{w}` is no value of this field and no status")))
            }
            Expr::Set(items) => {
                let mut out = Vec::new();
                for x in items {
                    match self.wanted(x, field)? {
                        Val::Set(s) => out.extend(s),
                        v => {
                            let n = v.int()?;
                            out.push((n, n));
                        }
                    }
                }
                Ok(Val::Set(out))
            }
            e => match self.eval(e)? {
                Val::Word(w) => self.wanted(&Expr::Word(w), field),
                v => Ok(v),
            },
        }
    }

    /// Block size of the namespace under test, bytes.
    pub fn block_size(&self) -> u64 {
        self.0.get("block").and_then(|v| v.int().ok()).unwrap_or(512)
    }
}

impl Player<'_> {
    pub(super) fn int(&self, e: &Expr) -> Step<u64> {
        Scope(&self.vars).int(e).map_err(|why| self.no_value(&why))
    }

    pub(super) fn eval(&self, e: &Expr) -> Step<Val> {
        Scope(&self.vars).eval(e).map_err(|why| self.no_value(&why))
    }

    pub(super) fn block_size(&self) -> u64 {
        Scope(&self.vars).block_size()
    }

    /// A fact that the probe of the peer could not learn is the peer's fault; anything else is the script's.
    pub(super) fn no_value(&self, why: &EvalError) -> super::Stop {
        let kind = match why {
            EvalError::Fact(_) => StopKind::Prerequisite("fabrics/connect/enable"),
            EvalError::Script(_) => StopKind::Script,
        };
        self.stop(kind, Seen::NotRun, why.to_string())
    }
}

/// Codes 20h to 7Eh, left justified, padded with spaces. [Base 2.0, 1.4.2]
fn is_padded_ascii(b: &[u8]) -> bool {
    b.iter().all(|c| (0x20..=0x7e).contains(c)) && (b.first() != Some(&b' ') || b.iter().all(|c| *c == b' '))
}

/// An NQN of 1 to 223 bytes that begins with `nqn.`, a NUL, and nothing but NULs behind it. [Base 2.0, 4.5]
fn is_nqn_field(b: &[u8]) -> bool {
    let end = b.iter().position(|c| *c == 0).unwrap_or(b.len());
    let name = &b[..end];
    end < b.len()
        && end <= 223
        && name.starts_with(b"nqn.")
        && std::str::from_utf8(name).is_ok()
        && b[end..].iter().all(|c| *c == 0)
}

/// 4 or 6 where padded text is such an address and nothing else, 0 for anything else.
fn ip_version(b: &[u8]) -> u64 {
    let end = b.iter().rposition(|c| !matches!(c, b' ' | 0)).map_or(0, |i| i + 1);
    match std::str::from_utf8(&b[..end]).ok().and_then(|text| text.parse::<std::net::IpAddr>().ok()) {
        Some(std::net::IpAddr::V4(_)) => 4,
        Some(std::net::IpAddr::V6(_)) => 6,
        None => 0,
    }
}

/// The number that padded text is, without leading zeroes; 0 for anything else.
fn decimal(b: &[u8]) -> u64 {
    let end = b.iter().rposition(|c| !matches!(c, b' ' | 0)).map_or(0, |i| i + 1);
    let digits = &b[..end];
    let plain = digits.iter().all(u8::is_ascii_digit) && digits.first() != Some(&b'0');
    std::str::from_utf8(digits).ok().filter(|_| plain).and_then(|t| t.parse().ok()).unwrap_or(0)
}

fn little_endian(b: &[u8]) -> Option<u64> {
    (b.len() <= 8).then(|| b.iter().rev().fold(0, |n, x| n << 8 | u64::from(*x)))
}

fn unbound(name: &str) -> EvalError {
    match FACTS.contains(&name) {
        true => EvalError::Fact(name.to_owned()),
        false => EvalError::Script(format!("`${name}` is bound to nothing")),
    }
}

fn size(n: u64) -> Evaluated<usize> {
    if n <= MAX_BYTES { Ok(n as usize) } else { Err(EvalError::Script(format!("{n} bytes; at most {MAX_BYTES}"))) }
}

fn binary(op: char, a: u64, b: u64) -> Evaluated {
    let r = match op {
        '+' => a.checked_add(b),
        '-' => a.checked_sub(b),
        '*' => a.checked_mul(b),
        '/' => a.checked_div(b),
        _ => a.checked_rem(b),
    };
    r.map(Val::Int).ok_or_else(|| EvalError::Script(format!("{a} {op} {b} has no value of 64 bits")))
}

/// An expression as written, near enough.
pub(super) fn show(e: &Expr) -> String {
    match e {
        Expr::Int(n) => n.to_string(),
        Expr::Text(t) => format!("{t:?}"),
        Expr::Hex(b) => format!("hex:{}", b.iter().map(|x| format!("{x:02x}")).collect::<String>()),
        Expr::Word(w) => w.clone(),
        Expr::Var(n, None) => format!("${n}"),
        Expr::Var(n, Some(f)) => format!("${n}.{f}"),
        Expr::Set(s) => format!("{{{}}}", s.iter().map(show).collect::<Vec<_>>().join(", ")),
        Expr::Range(a, b) => format!("{}..{}", show(a), show(b)),
        Expr::Call(f, a) => format!("{f}({})", a.iter().map(show).collect::<Vec<_>>().join(", ")),
        Expr::Binary(op, a, b) => format!("{} {op} {}", show(a), show(b)),
    }
}

/// A condition as written, near enough.
pub(crate) fn show_cond(c: &crate::ast::Cond) -> String {
    format!("{}{}{}", c.name, show_op(c.op), show(&c.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padded_ascii_is_told_from_nul_padding() {
        assert!(is_padded_ascii(b"4420    ") && is_padded_ascii(b"    "));
        assert!(!is_padded_ascii(b"4420\0\0\0\0") && !is_padded_ascii(b" 4420") && !is_padded_ascii(b"\x7f"));
    }

    #[test]
    fn an_nqn_field_ends_with_nul_and_holds_nothing_behind_it() {
        let field = |s: &str| {
            let mut b = s.as_bytes().to_vec();
            b.resize(256, 0);
            b
        };
        assert!(is_nqn_field(&field("nqn.2014-08.org.nvmexpress.discovery")));
        assert!(is_nqn_field(&field(&format!("nqn.{}", "x".repeat(219)))));
        assert!(!is_nqn_field(&field(&format!("nqn.{}", "x".repeat(220)))));
        assert!(!is_nqn_field(&field("")) && !is_nqn_field(&field("iqn.x")));
        let mut dirty = field("nqn.a");
        dirty[200] = 1;
        assert!(!is_nqn_field(&dirty));
    }

    #[test]
    fn decimal_takes_no_leading_zero_and_no_other_character() {
        let all = [b"4420  ".as_slice(), b"8009\0\0", b"04420", b"44 20", b"0x44", b"", b"none"].map(decimal);
        assert_eq!(all, [4420, 8009, 0, 0, 0, 0, 0]);
        assert_eq!((little_endian(&[1, 2]), little_endian(&[0; 9])), (Some(0x201), None));
    }
}
