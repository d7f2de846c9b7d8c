//! Packets as `tshark -T json` lays them out.

use super::{Field, Packet, Value, Visitor};

/// Writes an array of packets to a buffer that the caller takes away as it likes ([`Json::take`]).
///
/// A frame is one element, with a layer for each PDU in it; layers and fields that come more than once have their key more than once,
/// as tshark prints them.
#[derive(Debug, Default)]
pub struct Json {
    out: Vec<u8>,
    /// The packet that is open: frame and connection.
    open: Option<(u64, usize)>,
    any: bool,
    /// A layer is open.
    layer: bool,
    /// The packet has a layer.
    layers: bool,
    /// Depths of the objects that are open in the layer.
    depth: u8,
    /// The field before, which may turn out to have fields below it.
    pending: Option<(&'static str, u8, bool)>,
    /// Something stands in the innermost object.
    filled: bool,
}

/// Columns that the fields of a layer are indented by.
const INDENT: usize = 10;

impl Json {
    /// An empty array, not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What was written since the last time. The buffer stays the writer's.
    pub fn take(&mut self, to: &mut impl std::io::Write) -> std::io::Result<()> {
        to.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// Bytes that wait to be taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// True where nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Ends the array.
    pub fn finish(&mut self) {
        self.close();
        self.out.extend_from_slice(if self.any { b"\n]\n" } else { b"[\n\n]\n" });
        self.any = true;
    }

    fn close(&mut self) {
        self.close_layer();
        if self.open.take().is_some() {
            self.out.extend_from_slice(b"\n      }\n    }\n  }");
        }
    }

    fn close_layer(&mut self) {
        self.settle();
        self.up_to(0);
        if self.layer {
            self.line(INDENT - 2, "}");
            self.layer = false;
        }
    }

    /// Writes what was held back of the field before.
    fn settle(&mut self) {
        if let Some((name, depth, written)) = self.pending.take()
            && !written
        {
            self.key(name, "", depth);
            self.out.extend_from_slice(b"\"\"");
        }
    }

    fn up_to(&mut self, depth: u8) {
        while self.depth > depth {
            self.depth -= 1;
            self.line(INDENT + 2 * usize::from(self.depth), "}");
            self.filled = true;
        }
    }

    /// A new line, its indent, and `text`.
    fn line(&mut self, indent: usize, text: &str) {
        self.out.push(b'\n');
        spaces(&mut self.out, indent);
        self.out.extend_from_slice(text.as_bytes());
    }

    /// A key with what separates it from the one before.
    fn key(&mut self, name: &str, more: &str, depth: u8) {
        if self.filled {
            self.out.push(b',');
        }
        self.filled = true;
        self.out.push(b'\n');
        spaces(&mut self.out, INDENT + 2 * usize::from(depth));
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(more.as_bytes());
        self.out.extend_from_slice(b"\": ");
    }
}

impl Visitor for Json {
    fn packet(&mut self, packet: &Packet) {
        if self.open == Some((packet.frame, packet.conn)) && packet.frame != 0 {
            return;
        }
        self.close();
        self.out.extend_from_slice(if self.any { b",\n" } else { b"[\n" });
        self.any = true;
        self.open = Some((packet.frame, packet.conn));
        self.out.extend_from_slice(b"  {\n    \"_index\": \"packets-");
        date(&mut self.out, packet.at_ns / 1_000_000_000);
        self.out.extend_from_slice(b"\",\n    \"_type\": \"doc\",\n    \"_score\": null,\n    \"_source\": {\n      \"layers\": {");
        self.layer = false;
        self.layers = false;
        self.filled = false;
        packet.layers(self);
    }

    fn layer(&mut self, name: &'static str) {
        self.close_layer();
        if self.layers {
            self.out.push(b',');
        }
        self.layers = true;
        self.out.push(b'\n');
        spaces(&mut self.out, INDENT - 2);
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\": {");
        self.layer = true;
        self.filled = false;
    }

    fn field(&mut self, field: &Field<'_>) {
        let below = self.pending.is_some_and(|(_, depth, _)| field.depth > depth);
        if below {
            if let Some((name, depth, written)) = self.pending.take() {
                self.key(name, if written { "_tree" } else { "" }, depth);
                self.out.push(b'{');
                self.depth = depth + 1;
                self.filled = false;
            }
        } else {
            self.settle();
            self.up_to(field.depth);
        }
        // A field that is deeper than its parent by more than one does not exist in the tables.
        let depth = field.depth.min(self.depth);
        let written = field.value != Value::Nothing;
        if written {
            self.key(field.name, "", depth);
            self.out.push(b'"');
            match field.value {
                Value::Text(text) => escaped(&mut self.out, text),
                value => value.write(&mut self.out),
            }
            self.out.push(b'"');
        }
        self.pending = Some((field.name, depth, written));
    }

    fn end(&mut self) {
        self.settle();
    }
}

fn spaces(out: &mut Vec<u8>, n: usize) {
    const SPACES: &[u8; 64] = &[b' '; 64];
    out.extend_from_slice(SPACES.get(..n).unwrap_or(SPACES));
}

fn escaped(out: &mut Vec<u8>, text: &[u8]) {
    for b in text {
        match b {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *b]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x20..=0x7e => out.push(*b),
            0..=0x7f => {
                let hex = |n: u8| if n < 10 { b'0' + n } else { b'a' + n - 10 };
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(b >> 4), hex(b & 15)]);
            }
            _ => out.extend_from_slice("\u{fffd}".as_bytes()),
        }
    }
}

/// Year, month and day of seconds since the epoch, UTC.
fn date(out: &mut Vec<u8>, seconds: u64) {
    // Days are counted from 1 March of year 0, so that a leap day ends a year.
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    use std::io::Write as _;
    let _ = write!(out, "{:04}-{month:02}-{day:02}", era * 400 + year + carry);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let shown = |s| {
            let mut out = Vec::new();
            date(&mut out, s);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(0), "1970-01-01");
        assert_eq!(shown(951_782_400), "2000-02-29");
        assert_eq!(shown(1_795_973_430), "2026-11-29");
    }
}
