//! NVMe Qualified Names (NQN) and host identifiers. [Base 2.0, 4.5]
//!
//! A name that came over a connection is compared byte by byte ([NQN-08]) and not interpreted ([NQN-09]); the grammar here is for
//! names that a person types and for judging what a peer reports. Start with [`Nqn::parse`].

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;

/// The NQN of every discovery service. [Base 2.0, 4.5; NQN-15]
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// What stands before the UUID in the second form. [NQN-06]
pub const UUID_PREFIX: &str = "nqn.2014-08.org.nvmexpress:uuid:";
/// Most bytes of an NQN, without the NUL. [NQN-02]
pub const MAX_BYTES: usize = 223;

/// Which form a name has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `nqn.yyyy-mm.reverse.domain:string`. [NQN-03]
    Domain,
    /// `nqn.2014-08.org.nvmexpress:uuid:` and a UUID. [NQN-06]
    Uuid,
    /// [`DISCOVERY_NQN`].
    Discovery,
}

/// A name that keeps to the grammar.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nqn(String);

/// Where a name leaves the grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NqnError {
    /// Byte offset from the start of the name.
    pub at: usize,
    /// What stands there, and what was expected.
    pub why: String,
}

impl fmt::Display for NqnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NQN at byte {}: {}", self.at, self.why)
    }
}

impl core::error::Error for NqnError {}

impl Nqn {
    /// Takes `text` where it is one of the three forms.
    pub fn parse(text: &str) -> Result<Self, NqnError> {
        check(text)?;
        Ok(Self(text.to_owned()))
    }

    /// Takes a 256-byte field: UTF-8 up to the NUL. [NQN-01]
    pub fn from_field(field: &[u8]) -> Result<Self, NqnError> {
        let end = field.iter().position(|b| *b == 0).ok_or_else(|| fail(field.len(), "no NUL ends the name"))?;
        let bytes = field.get(..end).unwrap_or(&[]);
        let text = core::str::from_utf8(bytes).map_err(|e| fail(e.valid_up_to(), "no UTF-8 from here on"))?;
        Self::parse(text)
    }

    /// A name of the second form.
    pub fn of_uuid(uuid: &[u8; 16]) -> Self {
        Self(alloc::format!("{UUID_PREFIX}{}", uuid_text(uuid)))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its form.
    pub fn form(&self) -> Form {
        if self.0 == DISCOVERY_NQN {
            Form::Discovery
        } else if self.0.starts_with(UUID_PREFIX) {
            Form::Uuid
        } else {
            Form::Domain
        }
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn fail(at: usize, why: &str) -> NqnError {
    NqnError { at, why: why.to_owned() }
}

/// What stands at `at`, for an error.
fn seen(text: &str, at: usize) -> String {
    match text.get(at..).and_then(|t| t.chars().next()) {
        Some(c) => alloc::format!("{c:?}"),
        None => "the end".to_owned(),
    }
}

fn check(text: &str) -> Result<(), NqnError> {
    if text.len() > MAX_BYTES {
        return Err(NqnError { at: MAX_BYTES, why: alloc::format!("{} bytes, at most {MAX_BYTES} expected", text.len()) });
    }
    if let Some(at) = text.bytes().position(|b| b == 0) {
        return Err(fail(at, "a NUL inside the name"));
    }
    if text == DISCOVERY_NQN {
        return Ok(());
    }
    if let Some(uuid) = text.strip_prefix(UUID_PREFIX) {
        return parse_uuid(uuid).map(drop).map_err(|e| NqnError { at: e.at + UUID_PREFIX.len(), why: e.why });
    }
    let domain_at = date(text)?;
    let colon = domain(text, domain_at)?;
    if text.get(domain_at..colon) == Some("org.nvmexpress") {
        return Err(fail(domain_at, "org.nvmexpress is only for the uuid form and the discovery name")); // NQN-05
    }
    if text.len() == colon + 1 {
        return Err(fail(text.len(), "the name ends, a string behind the ':' expected"));
    }
    Ok(())
}

/// Checks `nqn.yyyy-mm.` and returns where the domain starts. [NQN-03, NQN-04]
fn date(text: &str) -> Result<usize, NqnError> {
    for (at, want) in "nqn.####-##.".bytes().enumerate() {
        let got = text.as_bytes().get(at).copied();
        let good = if want == b'#' { got.is_some_and(|b| b.is_ascii_digit()) } else { got == Some(want) };
        if !good {
            let start = (0..=at).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
            let expected = if want == b'#' { "a digit".to_owned() } else { alloc::format!("{:?}", char::from(want)) };
            return Err(NqnError { at, why: alloc::format!("{}, {expected} expected in nqn.yyyy-mm.", seen(text, start)) });
        }
    }
    let month = text.get(9..11).unwrap_or_default();
    if !("01"..="12").contains(&month) {
        return Err(NqnError { at: 9, why: alloc::format!("month {month}, 01 to 12 expected") });
    }
    Ok(12)
}

/// Checks the reversed domain and returns where its ':' is: labels of letters, digits and inner '-', joined by '.'. Letters beyond ASCII
/// are let through, since an NQN is UTF-8 and the text does not demand an encoded domain.
fn domain(text: &str, start: usize) -> Result<usize, NqnError> {
    let rest = text.get(start..).unwrap_or_default();
    let mut label = start;
    let mut last = '.';
    for (i, c) in rest.char_indices() {
        let at = start + i;
        match c {
            '.' | ':' if at == label => {
                return Err(NqnError { at, why: alloc::format!("{c:?}, a label of the reversed domain expected") });
            }
            '.' | ':' if last == '-' => return Err(fail(at - 1, "'-' ends a label of the reversed domain")),
            ':' => return Ok(at),
            '.' => label = at + 1,
            '-' if at == label => return Err(fail(at, "'-' starts a label of the reversed domain")),
            '-' => {}
            c if c.is_ascii_alphanumeric() || !c.is_ascii() => {}
            c => {
                return Err(NqnError {
                    at,
                    why: alloc::format!("{c:?} in the reversed domain, a letter, digit, '-', '.' or ':' expected"),
                });
            }
        }
        last = c;
    }
    Err(fail(text.len(), "the name ends, ':' and a string expected behind the reversed domain"))
}

/// A UUID as 8-4-4-4-12 hexadecimal digits, in lower case. The bytes are in wire order, which is that of the text.
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut out = String::with_capacity(36);
    for (i, b) in uuid.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        let _ = fmt::Write::write_fmt(&mut out, format_args!("{b:02x}"));
    }
    out
}

/// Reads a UUID of 8-4-4-4-12 hexadecimal digits in either case. [NQN-06]
pub fn parse_uuid(text: &str) -> Result<[u8; 16], NqnError> {
    let mut out = [0u8; 16];
    let mut digits = 0;
    for (at, c) in text.char_indices() {
        let dash = matches!(at, 8 | 13 | 18 | 23);
        match c.to_digit(16) {
            Some(d) if !dash && digits < 32 => {
                if let Some(b) = out.get_mut(digits / 2) {
                    *b = *b << 4 | d as u8;
                }
                digits += 1;
            }
            _ if c == '-' && dash => {}
            _ => {
                let want = if at >= 36 {
                    "the end"
                } else if dash {
                    "'-'"
                } else {
                    "a hexadecimal digit"
                };
                return Err(NqnError { at, why: alloc::format!("{c:?} in a UUID, {want} expected") });
            }
        }
    }
    if digits < 32 {
        return Err(NqnError { at: text.len(), why: alloc::format!("the UUID ends after {digits} of 32 hexadecimal digits") });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn at(text: &str) -> usize {
        Nqn::parse(text).expect_err(text).at
    }

    #[test]
    fn the_three_forms() {
        assert_eq!(Nqn::parse(DISCOVERY_NQN).unwrap().form(), Form::Discovery);
        assert_eq!(Nqn::parse("nqn.2014-08.com.example:nvme:nvm-subsystem-sn-d78432").unwrap().form(), Form::Domain);
        let text = "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
        let n = Nqn::parse(text).unwrap();
        assert_eq!((n.form(), text.len()), (Form::Uuid, 68));
        assert_eq!(Nqn::of_uuid(&parse_uuid(&text[32..]).unwrap()).to_string(), text);
    }

    #[test]
    fn errors_say_where() {
        assert_eq!(at(""), 0);
        assert_eq!(at("iqn.2014-08.com.example:x"), 0);
        assert_eq!(at("nqn.2014_08.com.example:x"), 8);
        assert_eq!(at("nqn.2014-13.com.example:x"), 9);
        assert_eq!(at("nqn.20é4-08.com.example:x"), 6);
        assert_eq!(at("nqn.2014-08.com..example:x"), 16);
        assert_eq!(at("nqn.2014-08.com.-example:x"), 16);
        assert_eq!(at("nqn.2014-08.com.example-:x"), 23);
        assert_eq!(at("nqn.2014-08.com.exa mple:x"), 19);
        assert_eq!(at("nqn.2014-08.com.example"), 23);
        assert_eq!(at("nqn.2014-08.com.example:"), 24);
        assert_eq!(at("nqn.2014-08.org.nvmexpress:mine"), 12);
        assert_eq!(at("nqn.2014-08.com.example:a\0b"), 25);
        assert_eq!(at("nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bg6"), 66);
        assert_eq!(at("nqn.2014-08.org.nvmexpress:uuid:f81d4fae"), 40);
        assert_eq!(at("nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6a"), 68);
    }

    #[test]
    fn length_counts_bytes_without_the_nul() {
        let head = "nqn.2014-08.com.example:";
        let longest = head.to_string() + &"a".repeat(MAX_BYTES - head.len());
        let mut field = [0u8; 256];
        field[..MAX_BYTES].copy_from_slice(longest.as_bytes());
        assert_eq!(Nqn::from_field(&field).unwrap().as_str(), longest);
        assert_eq!(Nqn::parse(&(longest + "a")).unwrap_err().at, MAX_BYTES);
        assert_eq!(Nqn::from_field(&[b'a'; 256]).unwrap_err().at, 256);
    }
}
