//! Every field on a line of its own, indented by how it is nested.

use std::collections::BTreeMap;
use std::io::Write as _;

use nvmf_wire::registry::LAYOUTS;

use super::{Field, Packet, Value, Visitor};

/// Most bytes of one field that are printed.
const MOST: usize = 32;

/// Writes a block for each PDU: its frame, then a line for each field with name, value, and what the field and the value are called.
#[derive(Debug)]
pub struct Tree {
    out: Vec<u8>,
    colours: bool,
    words: BTreeMap<&'static str, &'static nvmf_wire::Field>,
}

impl Tree {
    /// With or without colours.
    #[must_use]
    pub fn new(colours: bool) -> Self {
        let mut words = BTreeMap::new();
        for field in LAYOUTS.iter().flat_map(|l| l.fields).filter(|f| !f.wireshark.is_empty()) {
            words.entry(field.wireshark).or_insert(field);
        }
        Self { out: Vec::new(), colours, words }
    }

    /// What was written since the last time.
    pub fn take(&mut self, to: &mut impl std::io::Write) -> std::io::Result<()> {
        to.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn coloured(&mut self, code: &str, text: &[u8]) {
        if self.colours {
            self.out.extend_from_slice(code.as_bytes());
        }
        self.out.extend_from_slice(text);
        if self.colours {
            self.out.extend_from_slice(b"\x1b[0m");
        }
    }
}

impl Visitor for Tree {
    fn packet(&mut self, packet: &Packet) {
        let mut head = Vec::new();
        let _ = write!(head, "Frame {}: {} → {}, ", packet.frame, packet.from, packet.to);
        Value::Seconds(packet.since_ns).write(&mut head);
        let _ = write!(head, " s, connection #{}", packet.conn);
        self.coloured("\x1b[1m", &head);
        self.out.push(b'\n');
    }

    fn layer(&mut self, name: &'static str) {
        self.out.extend_from_slice(b"  ");
        self.coloured("\x1b[36m", name.as_bytes());
        self.out.push(b'\n');
    }

    fn field(&mut self, field: &Field<'_>) {
        for _ in 0..=field.depth + 1 {
            self.out.extend_from_slice(b"  ");
        }
        self.out.extend_from_slice(field.name.as_bytes());
        match field.value {
            Value::Nothing => {}
            Value::Bytes(bytes) => {
                self.out.extend_from_slice(b": ");
                Value::Bytes(bytes.get(..MOST).unwrap_or(bytes)).write(&mut self.out);
                if bytes.len() > MOST {
                    let _ = write!(self.out, "… ({} bytes)", bytes.len());
                }
            }
            Value::Text(text) => {
                self.out.extend_from_slice(b": \"");
                self.out.extend(text.iter().map(|b| if b.is_ascii_graphic() || *b == b' ' { *b } else { b'?' }));
                self.out.push(b'"');
            }
            value => {
                self.out.extend_from_slice(b": ");
                value.write(&mut self.out);
            }
        }
        if let Some(known) = self.words.get(field.name).copied() {
            let number = match field.value {
                Value::Number(n, _) => Some(n),
                Value::Flag(b) => Some(b.into()),
                _ => None,
            };
            if let Some(label) = number.and_then(|n| (known.label)(n)) {
                let _ = write!(self.out, " ({label})");
            }
            let mut title = b"  ".to_vec();
            title.extend_from_slice(known.title.as_bytes());
            self.coloured("\x1b[2m", &title);
        }
        self.out.push(b'\n');
    }

    fn end(&mut self) {
        self.out.push(b'\n');
    }
}
