//! Chosen fields, as `tshark -T fields -e` prints them.

use super::{Field, Packet, Value, Visitor};

/// Writes a line for each PDU: the fields chosen, with tabs between, and commas between the values of one field.
#[derive(Debug, Default)]
pub struct Select {
    columns: Vec<Column>,
    /// Fields of the layers below were asked for.
    below: bool,
    any: bool,
    out: Vec<u8>,
}

#[derive(Debug, Default)]
struct Column {
    name: String,
    /// Values so far, the buffer kept from line to line.
    text: Vec<u8>,
    any: bool,
}

impl Select {
    /// These fields, in this order. A name that no field has gives an empty column.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let columns: Vec<Column> = names.into_iter().map(|name| Column { name, ..Column::default() }).collect();
        let below = columns.iter().any(|c| !c.name.starts_with("nvme") && !c.name.starts_with("infiniband"));
        Self { columns, below, ..Self::default() }
    }

    /// What was written since the last time.
    pub fn take(&mut self, to: &mut impl std::io::Write) -> std::io::Result<()> {
        to.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }
}

impl Visitor for Select {
    fn packet(&mut self, packet: &Packet) {
        for c in &mut self.columns {
            c.text.clear();
            c.any = false;
        }
        if self.below {
            packet.layers(self);
        }
        self.any = false;
    }

    fn layer(&mut self, _: &'static str) {}

    fn field(&mut self, field: &Field<'_>) {
        self.any = true;
        for c in self.columns.iter_mut().filter(|c| c.name == field.name) {
            if c.any {
                c.text.push(b',');
            }
            c.any = true;
            match field.value {
                Value::Nothing => c.text.extend_from_slice(field.name.as_bytes()),
                // A tab or a line end would make another column or line of it.
                Value::Text(text) => c.text.extend(text.iter().map(|b| if b.is_ascii_graphic() || *b == b' ' { *b } else { b'?' })),
                value => value.write(&mut c.text),
            }
        }
    }

    fn end(&mut self) {
        if !self.any {
            return;
        }
        for (i, c) in self.columns.iter().enumerate() {
            if i != 0 {
                self.out.push(b'\t');
            }
            self.out.extend_from_slice(&c.text);
        }
        self.out.push(b'\n');
    }
}
