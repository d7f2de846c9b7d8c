//! Expressions.

use super::{FACTS, Player, Seen, Step, StopKind};
use crate::ast::Expr;
use crate::pattern::pattern;
use crate::value::{Val, show_op};

/// Most bytes that a script may make at once.
const MAX_BYTES: u64 = 64 << 20;

impl Player<'_> {
    pub(super) fn int(&self, e: &Expr) -> Step<u64> {
        self.eval(e)?.int().map_err(|why| self.script(why))
    }

    pub(super) fn eval(&self, e: &Expr) -> Step<Val> {
        Ok(match e {
            Expr::Int(n) => Val::Int(*n),
            Expr::Text(t) => Val::Text(t.clone()),
            Expr::Hex(b) => Val::Bytes(b.clone()),
            Expr::Word(w) => Val::Word(w.clone()),
            Expr::Var(name, field) => {
                let v = self.vars.get(name).ok_or_else(|| self.unbound(name))?;
                match field {
                    Some(f) => v.field(f).map_err(|why| self.script(why))?,
                    None => v.clone(),
                }
            }
            Expr::Set(items) => {
                let mut out = Vec::new();
                for i in items {
                    match self.eval(i)? {
                        Val::Set(s) => out.extend(s),
                        v => {
                            let n = v.int().map_err(|why| self.script(why))?;
                            out.push((n, n));
                        }
                    }
                }
                Val::Set(out)
            }
            Expr::Range(a, b) => Val::Set(vec![(self.int(a)?, self.int(b)?)]),
            Expr::Binary(op, a, b) => self.binary(*op, self.int(a)?, self.int(b)?)?,
            Expr::Call(f, args) => self.call(f, args)?,
        })
    }

    /// A fact that the probe of the peer could not learn is the peer's fault; any other name is the script's.
    fn unbound(&self, name: &str) -> super::Stop {
        let (kind, why) = match FACTS.contains(&name) {
            true => (StopKind::Prerequisite("fabrics/connect/enable"), "could not be learnt from the peer"),
            false => (StopKind::Script, "is bound to nothing"),
        };
        self.stop(kind, Seen::NotRun, format!("`${name}` {why}"))
    }

    fn binary(&self, op: char, a: u64, b: u64) -> Step<Val> {
        let r = match op {
            '+' => a.checked_add(b),
            '-' => a.checked_sub(b),
            '*' => a.checked_mul(b),
            '/' => a.checked_div(b),
            _ => a.checked_rem(b),
        };
        r.map(Val::Int).ok_or_else(|| self.script(format!("{a} {op} {b} has no value of 64 bits")))
    }

    fn call(&self, f: &str, args: &[Expr]) -> Step<Val> {
        let n = |i: usize| -> Step<u64> {
            args.get(i).map_or_else(|| Err(self.script(format!("{f}() lacks argument {}", i + 1))), |e| self.int(e))
        };
        let size =
            |n: u64| if n <= MAX_BYTES { Ok(n as usize) } else { Err(self.script(format!("{n} bytes; at most {MAX_BYTES}"))) };
        Ok(match f {
            "min" => Val::Int(n(0)?.min(n(1)?)),
            "max" => Val::Int(n(0)?.max(n(1)?)),
            "len" => {
                let v = args.first().map_or_else(|| Err(self.script("len() lacks its argument")), |e| self.eval(e))?;
                Val::Int(v.bytes().map_err(|e| self.script(e))?.len() as u64)
            }
            "zeros" => Val::Bytes(vec![0; size(n(0)?)?]),
            "fill" => Val::Bytes(vec![n(1)? as u8; size(n(0)?)?]),
            "nqn" => {
                let head = "nqn.2014-08.org.example:nvmfspec.";
                let len = size(n(0)?)?;
                if len < head.len() {
                    return Err(self.script(format!("nqn({len}): at least {}", head.len())));
                }
                Val::Text(format!("{head}{}", "x".repeat(len - head.len())))
            }
            "pattern" => {
                let name = match args.first().map(|e| self.eval(e)).transpose()? {
                    Some(Val::Word(w) | Val::Text(w)) => w,
                    _ => return Err(self.script("pattern(NAME, LBA, BYTES)")),
                };
                Val::Bytes(pattern(&name, n(1)?.saturating_mul(self.block_size()), size(n(2)?)?))
            }
            "take" => {
                let v = args.first().map_or_else(|| Err(self.script("take() lacks its argument")), |e| self.eval(e))?;
                let b = v.bytes().map_err(|e| self.script(e))?;
                let (at, len) = (size(n(1)?)?, size(n(2)?)?);
                let part = b.get(at..at + len).ok_or_else(|| self.script(format!("take({at}, {len}) of {} bytes", b.len())))?;
                Val::Bytes(part.to_vec())
            }
            _ => return Err(self.script(format!("no function `{f}`: min, max, len, zeros, fill, nqn, pattern, take"))),
        })
    }

    pub(super) fn block_size(&self) -> u64 {
        self.vars.get("block").and_then(|v| v.int().ok()).unwrap_or(512)
    }
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
pub(super) fn show_cond(c: &crate::ast::Cond) -> String {
    format!("{}{}{}", c.name, show_op(c.op), show(&c.value))
}
