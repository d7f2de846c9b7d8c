//! What a PDU holds, field by field, under Wireshark's names and as tshark prints them.
//!
//! [`Dissector`] walks the fields of each event of a capture in the order of the bytes and hands them to a [`Visitor`]: what prints JSON, a
//! tree or chosen fields, and what filters, are visitors. A field is a name, a value and a place; nothing is allocated for one. Names of
//! our own begin with `nvmfspec.` and exist only where Wireshark has none.

mod dissect;
mod filter;
mod format;
mod json;
mod page;
mod rdma;
mod select;
pub mod tables;
mod tree;

pub use dissect::{Dissector, View};
pub use filter::{Filter, FilterError};
pub use json::Json;
pub use select::Select;
pub use tree::Tree;

use std::net::IpAddr;

use nvmf_wire::layout::load_bits;

/// How tshark prints a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// A heading: it has no value of its own.
    Nothing,
    /// Decimal.
    Dec,
    /// `0x` and so many hexadecimal digits.
    Hex(u8),
    /// `1` where any of its bits is set, else `0`.
    Flag,
    /// Hexadecimal bytes with colons between.
    Bytes,
    /// Text up to the first NUL.
    Text,
}

/// One row of a table: a field of a structure.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// How deep it is nested, from 0.
    pub depth: u8,
    /// Wireshark's name.
    pub name: &'static str,
    /// First byte, from the start of the structure.
    pub at: u16,
    /// Bytes that it touches.
    pub len: u16,
    /// Its bits in the little-endian integer that these bytes are; 0 for all of them.
    pub mask: u64,
    /// How it is printed.
    pub show: Show,
}

/// A field that takes whole bytes.
#[must_use]
pub const fn whole(depth: u8, name: &'static str, at: u16, len: u16, show: Show) -> Row {
    Row { depth, name, at, len, mask: 0, show }
}

/// A field of some bits.
#[must_use]
pub const fn bits(depth: u8, name: &'static str, at: u16, len: u16, mask: u64, show: Show) -> Row {
    Row { depth, name, at, len, mask, show }
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// It is a heading.
    Nothing,
    /// An integer; the digits are how many hexadecimal ones tshark prints, 0 for decimal.
    Number(u64, u8),
    /// One bit, or some of which any is set.
    Flag(bool),
    /// Bytes as they are on the wire.
    Bytes(&'a [u8]),
    /// Text, without the NUL that ends it.
    Text(&'a [u8]),
    /// An IP address.
    Address(IpAddr),
    /// A time or a span of time, nanoseconds, printed as seconds with nine digits.
    Seconds(u64),
    /// A span of time, nanoseconds, printed as milliseconds with as many digits as it needs.
    Millis(u64),
}

/// A field as a [`Visitor`] sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'static str,
    /// How deep it is nested in its layer, from 0.
    pub depth: u8,
    /// What it holds.
    pub value: Value<'a>,
    /// First byte, from the start of the PDU or, for data that came in pieces, of the piece.
    pub at: usize,
    /// Bytes that it takes; 0 for what is not in the bytes, such as a frame number.
    pub len: usize,
}

/// Which frame of which connection the fields that follow are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Number of the frame, from 1.
    pub frame: u64,
    /// When, nanoseconds since the epoch.
    pub at_ns: u64,
    /// The same since the first event.
    pub since_ns: u64,
    /// The connection, as [`Watcher`](crate::Watcher) numbers it.
    pub conn: usize,
    /// Who sent it.
    pub from: std::net::SocketAddr,
    /// To whom.
    pub to: std::net::SocketAddr,
    /// What carries it.
    pub transport: crate::Transport,
}

/// Sees fields go by: first the packet, then for each layer its name and its fields in the order of the bytes.
pub trait Visitor {
    /// A PDU or another event of this packet follows.
    fn packet(&mut self, packet: &Packet);
    /// The fields that follow are of this layer.
    fn layer(&mut self, name: &'static str);
    /// A field.
    fn field(&mut self, field: &Field<'_>);
    /// The PDU or event is over.
    fn end(&mut self) {}
}

impl Packet {
    /// The fields of the layers below: frame, IP and transport. tshark has more of them.
    pub fn layers(&self, visitor: &mut impl Visitor) {
        let field = |name, value| Field { name, depth: 0, value, at: 0, len: 0 };
        let number = |n: u64| Value::Number(n, 0);
        visitor.layer("frame");
        visitor.field(&field("frame.time_epoch", Value::Seconds(self.at_ns)));
        visitor.field(&field("frame.time_relative", Value::Seconds(self.since_ns)));
        visitor.field(&field("frame.number", number(self.frame)));
        let names = match self.from.ip() {
            IpAddr::V4(_) => ["ip", "ip.src", "ip.dst", "ip.addr"],
            IpAddr::V6(_) => ["ipv6", "ipv6.src", "ipv6.dst", "ipv6.addr"],
        };
        let [layer, src, dst, addr] = names;
        visitor.layer(layer);
        visitor.field(&field(src, Value::Address(self.from.ip())));
        visitor.field(&field(addr, Value::Address(self.from.ip())));
        visitor.field(&field(dst, Value::Address(self.to.ip())));
        visitor.field(&field(addr, Value::Address(self.to.ip())));
        let [layer, src, dst, port, stream] = match self.transport {
            crate::Transport::Tcp => ["tcp", "tcp.srcport", "tcp.dstport", "tcp.port", "tcp.stream"],
            crate::Transport::Rdma => ["udp", "udp.srcport", "udp.dstport", "udp.port", "udp.stream"],
        };
        visitor.layer(layer);
        visitor.field(&field(src, number(self.from.port().into())));
        visitor.field(&field(dst, number(self.to.port().into())));
        visitor.field(&field(port, number(self.from.port().into())));
        visitor.field(&field(port, number(self.to.port().into())));
        visitor.field(&field(stream, number(self.conn as u64)));
    }
}

/// Part of a structure: its bytes from `first` on, of which those from `new` on were not seen before.
#[derive(Clone, Copy)]
struct Window<'a> {
    bytes: &'a [u8],
    /// Where in the structure they begin, bytes.
    first: usize,
    /// Where in the structure the new ones begin, bytes.
    new: usize,
    /// Where the new ones stand in the PDU.
    at: usize,
}

impl<'a> Window<'a> {
    /// All of `bytes`, which are the structure from its start and stand at `at` of the PDU.
    fn whole(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, first: 0, new: 0, at }
    }

    /// What stands at a place of the structure, if it is here and ends in what is new.
    fn get(&self, at: usize, len: usize) -> Option<&'a [u8]> {
        let from = at.checked_sub(self.first)?;
        let bytes = self.bytes.get(from..from + len)?;
        (at + len > self.new || len == 0).then_some(bytes)
    }

    /// The end of what is here, from the start of the structure.
    fn end(&self) -> usize {
        self.first + self.bytes.len()
    }

    /// Place of a byte of the structure in the PDU; 0 where it came before.
    fn place(&self, at: usize) -> usize {
        (at + self.at).saturating_sub(self.new)
    }
}

/// Walks a table over a structure that begins at `base` of the window; `depth` is added to that of the rows.
fn walk(rows: &'static [Row], window: Window<'_>, base: usize, depth: u8, visitor: &mut impl Visitor) {
    for (i, row) in rows.iter().enumerate() {
        let at = base + usize::from(row.at);
        let len = usize::from(row.len);
        let Some(bytes) = window.get(at, len) else {
            // A heading belongs to those of its fields that are here.
            if rows.get(i + 1).is_some_and(|next| next.depth > row.depth) && shows(rows, i, window, base) {
                let field = Field { name: row.name, depth: depth + row.depth, value: Value::Nothing, at: window.place(at), len };
                visitor.field(&field);
            }
            continue;
        };
        let field = Field { name: row.name, depth: depth + row.depth, value: row.value(bytes), at: window.place(at), len };
        visitor.field(&field);
    }
}

/// True where a field below row `i` is shown.
fn shows(rows: &[Row], i: usize, window: Window<'_>, base: usize) -> bool {
    let Some(row) = rows.get(i) else { return false };
    let below = rows.iter().skip(i + 1).take_while(|next| next.depth > row.depth);
    below.into_iter().any(|next| window.get(base + usize::from(next.at), usize::from(next.len)).is_some())
}

impl Row {
    /// The value in its bytes.
    fn value<'a>(&self, bytes: &'a [u8]) -> Value<'a> {
        match self.show {
            Show::Nothing => Value::Nothing,
            Show::Bytes => Value::Bytes(bytes),
            Show::Text => Value::Text(bytes.split(|b| *b == 0).next().unwrap_or(&[])),
            Show::Dec => Value::Number(self.number(bytes), 0),
            Show::Hex(digits) => Value::Number(self.number(bytes), digits),
            Show::Flag => Value::Flag(self.number(bytes) != 0),
        }
    }

    fn number(&self, bytes: &[u8]) -> u64 {
        let word = load_bits(bytes, 0, 8 * bytes.len().min(8));
        match self.mask {
            0 => word,
            mask => (word & mask) >> mask.trailing_zeros(),
        }
    }
}
