//! Values as tshark prints them, written to a buffer.

use std::io::Write as _;

use super::Value;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Two hexadecimal digits and a colon for each byte.
static COLONS: [[u8; 3]; 256] = {
    let mut all = [[b':'; 3]; 256];
    let mut i = 0;
    while i < 256 {
        all[i][0] = DIGITS[i >> 4];
        all[i][1] = DIGITS[i & 15];
        i += 1;
    }
    all
};

impl Value<'_> {
    /// Appends it as tshark prints it. Text is made UTF-8: bytes that are not ASCII are replaced, as tshark does.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Nothing => {}
            Self::Number(n, 0) => decimal(out, n),
            Self::Number(n, digits) => hex(out, n, digits),
            Self::Flag(b) => out.push(b'0' + u8::from(b)),
            Self::Bytes(bytes) => colons(out, bytes),
            Self::Text(bytes) => text(out, bytes),
            Self::Address(ip) => {
                let _ = write!(out, "{ip}");
            }
            Self::Seconds(ns) => {
                decimal(out, ns / 1_000_000_000);
                out.push(b'.');
                padded(out, ns % 1_000_000_000, 9);
            }
            Self::Millis(ns) => millis(out, ns),
        }
    }
}

/// Appends decimal digits.
pub(super) fn decimal(out: &mut Vec<u8>, mut n: u64) {
    let mut digits = [0u8; 20];
    let mut used = 0;
    for d in digits.iter_mut().rev() {
        *d = b'0' + (n % 10) as u8;
        n /= 10;
        used += 1;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(20 - used..).unwrap_or(&[]));
}

fn padded(out: &mut Vec<u8>, n: u64, width: u32) {
    for place in (0..width).rev() {
        out.push(b'0' + (n / 10u64.pow(place) % 10) as u8);
    }
}

/// Appends `0x` and so many digits, or as many as it needs.
fn hex(out: &mut Vec<u8>, n: u64, digits: u8) {
    let needed = (64 - n.leading_zeros()).div_ceil(4) as u8;
    let digits = digits.max(needed).min(16);
    out.extend_from_slice(b"0x");
    for place in (0..digits).rev() {
        let digit = DIGITS.get((n >> (4 * u32::from(place)) & 15) as usize);
        out.push(digit.copied().unwrap_or(b'0'));
    }
}

fn colons(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(3 * bytes.len());
    for b in bytes {
        if let Some(three) = COLONS.get(usize::from(*b)) {
            out.extend_from_slice(three);
        }
    }
    if !bytes.is_empty() {
        out.pop();
    }
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    for b in bytes {
        match b {
            0..=0x7f => out.push(*b),
            _ => out.extend_from_slice("\u{fffd}".as_bytes()),
        }
    }
}

/// `%.15g` of the milliseconds, which a whole number of nanoseconds always is in full.
fn millis(out: &mut Vec<u8>, ns: u64) {
    if ns != 0 && ns < 100 {
        // Below 0.0001 it has an exponent.
        let (first, rest, exponent) = if ns < 10 { (ns, 0, 6) } else { (ns / 10, ns % 10, 5) };
        decimal(out, first);
        if rest != 0 {
            out.push(b'.');
            decimal(out, rest);
        }
        out.extend_from_slice(b"e-0");
        decimal(out, exponent);
        return;
    }
    decimal(out, ns / 1_000_000);
    let rest = ns % 1_000_000;
    if rest == 0 {
        return;
    }
    out.push(b'.');
    padded(out, rest, 6);
    while out.last() == Some(&b'0') {
        out.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: Value<'_>) -> String {
        let mut out = Vec::new();
        value.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn values_are_printed_as_tshark_does() {
        assert_eq!(shown(Value::Number(0, 0)), "0");
        assert_eq!(shown(Value::Number(u64::MAX, 0)), "18446744073709551615");
        assert_eq!(shown(Value::Number(0x2a, 4)), "0x002a");
        assert_eq!(shown(Value::Number(0x1_0000, 2)), "0x10000");
        assert_eq!(shown(Value::Bytes(&[0, 0xff, 0x10])), "00:ff:10");
        assert_eq!(shown(Value::Bytes(&[])), "");
        assert_eq!(shown(Value::Text(b"a\xffb")), "a\u{fffd}b");
        assert_eq!(shown(Value::Seconds(1_795_973_430_576_375_000)), "1795973430.576375000");
        for (ns, text) in [
            (0, "0"),
            (5, "5e-06"),
            (20, "2e-05"),
            (75, "7.5e-05"),
            (100, "0.0001"),
            (29_000, "0.029"),
            (1_000_000, "1"),
            (14_663_296_001, "14663.296001"),
        ] {
            assert_eq!(shown(Value::Millis(ns)), text);
        }
    }
}
