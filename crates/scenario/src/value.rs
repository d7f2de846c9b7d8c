//! What a script's names hold.

use nvmf_wire::{Layout, Status, Value};

use crate::ast::Op;

/// A value.
#[derive(Clone, Debug)]
pub enum Val {
    /// A number.
    Int(u64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A bare word, not yet given a meaning.
    Word(String),
    /// Ranges of numbers, both ends included.
    Set(Vec<(u64, u64)>),
    /// A structure, or the outcome of a command: its bytes, and numbers beside them.
    Record {
        /// The table to read the bytes with.
        layout: Option<&'static Layout>,
        /// The bytes.
        bytes: Vec<u8>,
        /// `dw0`, `status`, …
        beside: Vec<(&'static str, u64)>,
    },
}

impl Val {
    /// The number, where it is one.
    pub fn int(&self) -> Result<u64, String> {
        match self {
            Self::Int(n) => Ok(*n),
            Self::Word(w) => status(w).ok_or_else(|| format!("`{w}` is no number")),
            other => Err(format!("{} is no number", other.show())),
        }
    }

    /// The bytes of text, bytes and records.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::Text(t) => Ok(t.clone().into_bytes()),
            Self::Bytes(b) | Self::Record { bytes: b, .. } => Ok(b.clone()),
            other => Err(format!("{} is no bytes", other.show())),
        }
    }

    /// A number, or the bytes of anything else; a word is text.
    pub fn plain(&self) -> Result<Value, String> {
        Ok(match self {
            Self::Int(n) => Value::Int(*n),
            Self::Word(w) => Value::Bytes(w.clone().into_bytes()),
            other => Value::Bytes(other.bytes()?),
        })
    }

    /// A field of a record.
    pub fn field(&self, name: &str) -> Result<Self, String> {
        let Self::Record { layout, bytes, beside } = self else {
            return Err(format!("{} has no fields", self.show()));
        };
        if let Some((_, n)) = beside.iter().find(|(k, _)| *k == name) {
            return Ok(Self::Int(*n));
        }
        let field = layout
            .and_then(|l| l.field(name))
            .ok_or_else(|| format!("no field `{name}` in {}", layout.map_or("data without a table", |l| l.name)))?;
        Ok(match field.get(bytes) {
            Value::Int(n) => Self::Int(n),
            Value::Bytes(b) => match field.kind {
                nvmf_wire::Kind::Text | nvmf_wire::Kind::Ascii => Self::Text(text(&b, field.kind == nvmf_wire::Kind::Text)),
                _ => Self::Bytes(b),
            },
        })
    }

    /// For reports.
    pub fn show(&self) -> String {
        match self {
            Self::Int(n) if *n < 10 => n.to_string(),
            Self::Int(n) => format!("{n} ({n:#x})"),
            Self::Text(t) => format!("{t:?}"),
            Self::Word(w) => w.clone(),
            Self::Bytes(b) | Self::Record { bytes: b, .. } => {
                let head: String = b.iter().take(16).map(|x| format!("{x:02x}")).collect();
                if b.len() > 16 { format!("{head}… ({} bytes)", b.len()) } else { format!("hex:{head}") }
            }
            Self::Set(s) => {
                let parts: Vec<_> = s.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}..{b}") }).collect();
                format!("{{{}}}", parts.join(", "))
            }
        }
    }
}

/// Text of a field: up to the NUL, or without the padding. Bytes that are no UTF-8 become U+FFFD.
fn text(b: &[u8], nul: bool) -> String {
    let end = if nul { b.iter().position(|x| *x == 0).unwrap_or(b.len()) } else { b.len() };
    String::from_utf8_lossy(&b[..end]).trim_end_matches([' ', '\0']).to_owned()
}

/// A status written as `success`, `0/02h` or by its name; SCT in bits 10:8, SC in 7:0.
pub fn status(word: &str) -> Option<u64> {
    if word == "success" {
        return Some(0);
    }
    if let Some((sct, sc)) = word.strip_suffix('h').and_then(|w| w.split_once('/')) {
        let (sct, sc) = (sct.parse::<u8>().ok()?, u8::from_str_radix(sc, 16).ok()?);
        return (sct < 8).then(|| u64::from(Status::of(sct, sc).0));
    }
    Status::from_id(word).map(|s| u64::from(s.0))
}

/// Compares; `Err` says why the two cannot be compared.
pub fn compare(left: &Val, op: Op, right: &Val) -> Result<bool, String> {
    if let (Val::Text(_) | Val::Bytes(_) | Val::Record { .. }, Op::Equal | Op::NotEqual) = (left, op) {
        let same = match (left, right) {
            (Val::Text(a), Val::Word(b)) => a == b,
            _ => left.bytes()? == right.bytes()?,
        };
        return Ok(same == (op == Op::Equal));
    }
    let l = left.int()?;
    if let Val::Set(s) = right {
        let inside = s.iter().any(|(a, b)| (*a..=*b).contains(&l));
        return Ok(if op == Op::NotEqual { !inside } else { inside });
    }
    let r = right.int()?;
    Ok(match op {
        Op::Equal | Op::In => l == r,
        Op::NotEqual => l != r,
        Op::Less => l < r,
        Op::AtMost => l <= r,
        Op::More => l > r,
        Op::AtLeast => l >= r,
    })
}

/// An operator as written.
pub fn show_op(op: Op) -> &'static str {
    match op {
        Op::Equal => "=",
        Op::NotEqual => "!=",
        Op::Less => "<",
        Op::AtMost => "<=",
        Op::More => ">",
        Op::AtLeast => ">=",
        Op::In => " in ",
    }
}
