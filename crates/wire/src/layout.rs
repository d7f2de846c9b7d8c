//! The table of a structure, and what follows from it: reading, writing, printing, comparing, finding reserved bits.
//!
//! `layout!` turns one table into a view over `[u8; N]` with typed getters (`x.cid()`), typed setters (`x.set().cid(c)`)
//! and a [`Layout`] that scripts, traces, vectors and reports walk by field name.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

/// How a field's bits are to be shown and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Unsigned integer, at most 64 bits.
    Uint,
    /// Unsigned integer that counts from 0: the value 0 means one.
    ZeroBased,
    /// One bit.
    Flag,
    /// Bytes in wire order.
    Bytes,
    /// ASCII padded with spaces (or NULs, which real stacks send too). [Base 2.0, 1.4.2]
    Ascii,
    /// UTF-8 terminated by NUL. [Base 2.0, 4.5]
    Text,
}

/// In which order the bytes of integers stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Least significant byte first: all of NVMe. [Base 2.0, 1.4.2]
    LittleEndian,
    /// Most significant byte first: InfiniBand's headers and management datagrams.
    BigEndian,
}

impl Order {
    /// [`Field::bit`] of a field whose lowest bit is `low` of the word at byte `offset`.
    #[doc(hidden)]
    pub const fn bit(self, offset: usize, low: usize) -> usize {
        match self {
            Self::LittleEndian => offset * 8 + low,
            Self::BigEndian => offset * 8 + low % 8,
        }
    }
}

/// One field of a [`Layout`].
#[derive(Clone, Copy)]
pub struct Field {
    /// Name used in code, scripts, traces and vectors.
    pub name: &'static str,
    /// Eight times the first byte, plus the bit of the lowest byte at which the value begins: of the first byte where the order is
    /// little-endian, so that this is the lowest bit counted from bit 0 of byte 0; of the last byte where it is big-endian.
    pub bit: usize,
    /// Order of the bytes.
    pub order: Order,
    /// Width in bits.
    pub width: usize,
    /// How it is shown.
    pub kind: Kind,
    /// Full name, acronym and unit.
    pub title: &'static str,
    /// Wireshark's name for the same bits, or empty where it has none.
    pub wireshark: &'static str,
    /// Name of a coded value, where the value has one.
    pub label: fn(u64) -> Option<&'static str>,
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}+{}", self.name, self.bit, self.width)
    }
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// An integer of at most 64 bits.
    Int(u64),
    /// Bytes in wire order.
    Bytes(Vec<u8>),
}

impl Value {
    /// The integer, where it is one.
    pub fn int(&self) -> Option<u64> {
        match self {
            Value::Int(n) => Some(*n),
            Value::Bytes(_) => None,
        }
    }
}

/// A structure's table.
#[derive(Debug)]
pub struct Layout {
    /// Name of the structure, as in code.
    pub name: &'static str,
    /// What it is, with the section it comes from.
    pub about: &'static str,
    /// Length in bytes.
    pub bytes: usize,
    /// The layout whose fields this one has as well (an SQE's common part).
    pub base: Option<&'static Layout>,
    /// Byte ranges in which the base's fields do not hold here.
    pub without: &'static [(usize, usize)],
    /// The fields of its own, in the order of the table.
    pub fields: &'static [Field],
}

/// Bytes that cannot be read: whose fault, where and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Structure being read.
    pub what: &'static str,
    /// Byte offset from the start of that structure.
    pub at: usize,
    /// What stands there and what was expected.
    pub why: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: {}", self.what, self.at, self.why)
    }
}

impl core::error::Error for DecodeError {}

/// A view declared with `layout!`.
pub trait Structure: Sized + Copy {
    /// Its table.
    const LAYOUT: &'static Layout;
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// The bytes, to be changed.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// All zero.
    fn zeroed() -> Self;
    /// The first bytes of `buf`, zero where it is too short.
    fn with_bytes(buf: &[u8]) -> Self {
        let mut out = Self::zeroed();
        for (d, s) in out.bytes_mut().iter_mut().zip(buf) {
            *d = *s;
        }
        out
    }
}

/// Typed setters of a view, chained: `x.set().cid(c).nsid(n)`.
pub struct Set<'a, T>(pub(crate) &'a mut T);

/// Reads `width` (at most 64) bits from `bit` on, little-endian; bits behind the end of `buf` read as 0.
///
/// With constant `bit` and `width`, as the getters have them, one arm is left: a plain load.
#[inline(always)]
pub fn load_bits(buf: &[u8], bit: usize, width: usize) -> u64 {
    let (first, shift) = (bit / 8, bit % 8);
    let word = match (shift + width).div_ceil(8) {
        1 => word::<1>(buf, first).map(|b| u64::from(b[0])),
        2 => word::<2>(buf, first).map(|b| u64::from(u16::from_le_bytes(b))),
        4 => word::<4>(buf, first).map(|b| u64::from(u32::from_le_bytes(b))),
        8 => word::<8>(buf, first).map(u64::from_le_bytes),
        _ => None,
    };
    let word = match word {
        Some(w) => w >> shift,
        None => load_slowly(buf, first, shift, width),
    };
    if width >= 64 { word } else { word & ((1 << width) - 1) }
}

#[inline(always)]
fn word<const N: usize>(buf: &[u8], at: usize) -> Option<[u8; N]> {
    buf.get(at..)?.first_chunk::<N>().copied()
}

#[inline]
fn load_slowly(buf: &[u8], first: usize, shift: usize, width: usize) -> u64 {
    let mut word = 0u128;
    for i in 0..(shift + width).div_ceil(8) {
        if let Some(b) = buf.get(first + i) {
            word |= u128::from(*b) << (8 * i);
        }
    }
    (word >> shift) as u64
}

/// The same big-endian; `bit` is as [`Field::bit`] has it.
#[inline(always)]
pub fn load_bits_be(buf: &[u8], bit: usize, width: usize) -> u64 {
    let (first, shift) = (bit / 8, bit % 8);
    let count = (shift + width).div_ceil(8);
    let word = match count {
        1 => word::<1>(buf, first).map(|b| u64::from(b[0])),
        2 => word::<2>(buf, first).map(|b| u64::from(u16::from_be_bytes(b))),
        4 => word::<4>(buf, first).map(|b| u64::from(u32::from_be_bytes(b))),
        8 => word::<8>(buf, first).map(u64::from_be_bytes),
        _ => None,
    };
    let word = match word {
        Some(w) => w >> shift,
        None => {
            let byte = |i: usize| u128::from(buf.get(first + i).copied().unwrap_or(0));
            ((0..count).fold(0u128, |word, i| word << 8 | byte(i)) >> shift) as u64
        }
    };
    if width >= 64 { word } else { word & ((1 << width) - 1) }
}

/// Writes the low `width` (at most 64) bits of `value` big-endian; `bit` is as [`Field::bit`] has it, what does not fit into `buf` is
/// left out.
#[inline(always)]
pub fn store_bits_be(buf: &mut [u8], bit: usize, width: usize, value: u64) {
    let (first, mut shift) = (bit / 8, bit % 8);
    let last = first + (shift + width).div_ceil(8) - 1;
    let mut done = 0;
    let mut at = last;
    while done < width {
        let take = (8 - shift).min(width - done);
        let mask = (((1u16 << take) - 1) as u8) << shift;
        let piece = (((value >> done) as u8) << shift) & mask;
        if let Some(b) = buf.get_mut(at) {
            *b = (*b & !mask) | piece;
        }
        done += take;
        shift = 0;
        at = at.wrapping_sub(1);
    }
}

/// Writes the low `width` (at most 64) bits of `value` from `bit` on, little-endian; what does not fit into `buf` is left out.
#[inline(always)]
pub fn store_bits(buf: &mut [u8], bit: usize, width: usize, value: u64) {
    if bit.is_multiple_of(8)
        && matches!(width, 8 | 16 | 32 | 64)
        && let Some(whole) = buf.get_mut(bit / 8..bit / 8 + width / 8)
    {
        for (d, s) in whole.iter_mut().zip(value.to_le_bytes()) {
            *d = s;
        }
        return;
    }
    let mut done = 0;
    while done < width {
        let (at, shift) = ((bit + done) / 8, (bit + done) % 8);
        let take = (8 - shift).min(width - done);
        let mask = (((1u16 << take) - 1) as u8) << shift;
        let piece = (((value >> done) as u8) << shift) & mask;
        if let Some(b) = buf.get_mut(at) {
            *b = (*b & !mask) | piece;
        }
        done += take;
    }
}

impl Field {
    /// First byte of the field.
    pub fn offset(&self) -> usize {
        self.bit / 8
    }

    /// Bytes that the field touches.
    pub fn len(&self) -> usize {
        (self.bit % 8 + self.width).div_ceil(8)
    }

    /// Every bit that it has, lowest first, counted from bit 0 of byte 0.
    pub fn bits(&self) -> impl Iterator<Item = usize> {
        let (order, first, shift, last) = (self.order, self.bit, self.bit % 8, self.offset() + self.len().saturating_sub(1));
        (0..self.width).map(move |i| match order {
            Order::LittleEndian => first + i,
            Order::BigEndian => (last - (shift + i) / 8) * 8 + (shift + i) % 8,
        })
    }

    /// True for a field of no width (none is declared so).
    pub fn is_empty(&self) -> bool {
        self.width == 0
    }

    /// True where the field is read as an integer.
    pub fn is_int(&self) -> bool {
        matches!(self.kind, Kind::Uint | Kind::ZeroBased | Kind::Flag)
    }

    /// The field's value in `buf`; bytes behind the end read as 0.
    pub fn get(&self, buf: &[u8]) -> Value {
        if self.is_int() {
            return Value::Int(match self.order {
                Order::LittleEndian => load_bits(buf, self.bit, self.width),
                Order::BigEndian => load_bits_be(buf, self.bit, self.width),
            });
        }
        let at = self.offset();
        Value::Bytes((at..at + self.width / 8).map(|i| buf.get(i).copied().unwrap_or(0)).collect())
    }

    /// Writes `value`. Errors say what was expected: an integer that fits, or at most as many bytes as the field has (shorter
    /// text is padded: ASCII with spaces, the rest with NUL).
    pub fn set(&self, buf: &mut [u8], value: &Value) -> Result<(), String> {
        match value {
            Value::Int(n) if self.width <= 64 => {
                if self.width < 64 && *n >> self.width != 0 {
                    return Err(alloc::format!("{n:#x} does not fit into the {} bits of {}", self.width, self.name));
                }
                match self.order {
                    Order::LittleEndian => store_bits(buf, self.bit, self.width, *n),
                    Order::BigEndian => store_bits_be(buf, self.bit, self.width, *n),
                }
                Ok(())
            }
            Value::Bytes(b) if !self.is_int() => {
                let (at, room) = (self.offset(), self.width / 8);
                if b.len() > room {
                    return Err(alloc::format!("{} bytes do not fit into the {room} of {}", b.len(), self.name));
                }
                let pad = if self.kind == Kind::Ascii { b' ' } else { 0 };
                for i in 0..room {
                    if let Some(d) = buf.get_mut(at + i) {
                        *d = b.get(i).copied().unwrap_or(pad);
                    }
                }
                Ok(())
            }
            Value::Int(_) => Err(alloc::format!("{} takes bytes or text, not a number", self.name)),
            Value::Bytes(_) => Err(alloc::format!("{} takes a number of {} bits", self.name, self.width)),
        }
    }

    /// The value as traces, reports and vectors show it: numbers of up to 9 plainly, larger ones with hexadecimal.
    pub fn show(&self, buf: &[u8]) -> String {
        let mut out = String::new();
        self.write(buf, &mut out);
        out
    }

    /// The same, behind what `out` holds.
    pub fn write(&self, buf: &[u8], out: &mut String) {
        let n = match self.get(buf) {
            Value::Int(n) => n,
            Value::Bytes(b) => return out.push_str(&show_bytes(&b, self.kind)),
        };
        let _ = match (self.kind, n) {
            (Kind::ZeroBased, _) => write!(out, "{n} (={})", u128::from(n) + 1),
            (Kind::Flag, _) | (_, 0..=9) => write!(out, "{n}"),
            _ => write!(out, "{n} ({n:#x})"),
        };
        if let Some(l) = (self.label)(n) {
            let _ = write!(out, " {l}");
        }
    }

    /// True where every bit of the field is 0.
    pub fn is_zero(&self, buf: &[u8]) -> bool {
        if self.is_int() {
            return self.get(buf) == Value::Int(0);
        }
        let at = self.offset();
        buf.iter().skip(at).take(self.width / 8).all(|b| *b == 0)
    }
}

fn show_bytes(b: &[u8], kind: Kind) -> String {
    if matches!(kind, Kind::Ascii | Kind::Text) {
        let end = match kind {
            Kind::Text => b.iter().position(|c| *c == 0).unwrap_or(b.len()),
            _ => b.len(),
        };
        let text = &b[..end];
        if let Ok(s) = core::str::from_utf8(text) {
            return alloc::format!("{:?}", s.trim_end_matches([' ', '\0']));
        }
    }
    if b.iter().all(|x| *x == 0) {
        return alloc::format!("{} x 00", b.len());
    }
    let mut s = String::new();
    for x in b.iter().take(32) {
        let _ = write!(s, "{x:02x}");
    }
    if b.len() > 32 {
        let _ = write!(s, "… ({} bytes)", b.len());
    }
    s
}

impl Layout {
    /// All fields, those of the base first.
    pub fn all_fields(&self) -> impl Iterator<Item = &'static Field> {
        let base: &'static [Field] = match self.base {
            Some(b) => b.fields,
            None => &[],
        };
        let kept = |f: &&'static Field| !self.without.iter().any(|(from, to)| (*from..*to).contains(&f.offset()));
        base.iter().filter(kept).chain(self.fields)
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.all_fields().find(|f| f.name == name)
    }

    /// Byte offset of a field; for FEI and IPO. A name that the table does not have gives the structure's length.
    pub fn offset(&self, name: &str) -> usize {
        self.field(name).map_or(self.bytes, Field::offset)
    }

    /// Writes one field by name, bits beside it stay. Errors say what was expected; nothing is changed then.
    pub fn write_field(&self, buf: &mut [u8], name: &str, value: &Value) -> Result<(), String> {
        match self.field(name) {
            Some(f) => f.set(buf, value),
            None => Err(alloc::format!("{} has no field {name:?}", self.name)),
        }
    }

    /// A map of the bits that no field names: set bits are reserved.
    pub fn reserved_mask(&self) -> Vec<u8> {
        let mut mask = alloc::vec![0xffu8; self.bytes];
        for f in self.all_fields() {
            match f.order {
                // Byte by byte: this stands on the way of every property that a trace shows.
                Order::LittleEndian => {
                    let (mut bit, end) = (f.bit, f.bit + f.width);
                    while bit < end {
                        let count = (8 - bit % 8).min(end - bit);
                        if let Some(b) = mask.get_mut(bit / 8) {
                            *b &= !((((1u16 << count) - 1) as u8) << (bit % 8));
                        }
                        bit += count;
                    }
                }
                Order::BigEndian => {
                    for bit in f.bits() {
                        if let Some(b) = mask.get_mut(bit / 8) {
                            *b &= !(1 << (bit % 8));
                        }
                    }
                }
            }
        }
        mask
    }

    /// Offset of the first byte with a reserved bit set.
    pub fn reserved_set(&self, buf: &[u8]) -> Option<usize> {
        self.reserved_mask().iter().zip(buf).position(|(m, b)| m & b != 0)
    }

    /// `name=value` of every field that is not zero, in table order, then reserved bytes that are not zero.
    pub fn describe(&self, buf: &[u8]) -> String {
        let mut out = String::new();
        for f in self.all_fields() {
            let zero = match f.get(buf) {
                Value::Int(n) => n == 0,
                Value::Bytes(b) => b.iter().all(|x| *x == 0),
            };
            if !zero {
                let _ = write!(out, "{}{}={}", if out.is_empty() { "" } else { " " }, f.name, f.show(buf));
            }
        }
        if let Some(at) = self.reserved_set(buf) {
            let _ = write!(out, " reserved[{at}]={:#04x}", buf.get(at).copied().unwrap_or(0));
        }
        out
    }

    /// Fields that differ, as (name, left, right); reserved bytes by their offset.
    pub fn diff(&self, left: &[u8], right: &[u8]) -> Vec<(String, String, String)> {
        let mut out = Vec::new();
        for f in self.all_fields() {
            if f.get(left) != f.get(right) {
                out.push((f.name.to_owned(), f.show(left), f.show(right)));
            }
        }
        for (at, m) in self.reserved_mask().iter().enumerate() {
            let (l, r) = (left.get(at).copied().unwrap_or(0) & m, right.get(at).copied().unwrap_or(0) & m);
            if l != r {
                out.push((alloc::format!("reserved[{at}]"), alloc::format!("{l:#04x}"), alloc::format!("{r:#04x}")));
            }
        }
        out
    }
}

/// Declares structures as tables. One line a field:
/// `name: Type @ byte [high:low] "Full Name (ACR), unit" = "wireshark.name",` - the bits are counted from bit 0 of the byte given,
/// and without them the field takes the whole type. `of Base without 40..64` adds the fields of another table but for those that
/// start in the byte ranges named. Bits not named are reserved. `in BigEndian` turns the order of bytes: bits are then counted from bit
/// 0 of the last byte of a word that begins at the byte given and is as long as the highest bit needs.
#[macro_export]
macro_rules! layout {
    ($(
        $(#[doc = $about:literal])+
        $vis:vis struct $name:ident [$len:literal] $(of $base:ident $(without $($from:literal .. $to:literal),+)?)? $(in $order:ident)? {
            $( $f:ident : $ty:tt @ $off:literal $([$hi:literal $(: $lo:literal)?])? $title:literal $(= $ws:literal)? , )*
        }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Clone, Copy, PartialEq, Eq)]
        $vis struct $name([u8; $len]);

        #[allow(
            unused_parens,
            clippy::identity_op,
            clippy::erasing_op,
            clippy::len_without_is_empty,
            clippy::self_named_constructors
        )]
        impl $name {
            /// Length in bytes.
            pub const LEN: usize = $len;

            /// In which order the bytes of its integers stand.
            pub const ORDER: $crate::layout::Order = $crate::layout!(@order $($order)?);

            /// All bytes zero.
            pub const fn new() -> Self {
                Self([0; $len])
            }

            /// These bytes, whatever they are.
            pub const fn from_bytes(bytes: [u8; $len]) -> Self {
                Self(bytes)
            }

            /// The first bytes of `buf`. Fails only where `buf` is too short.
            pub fn read(buf: &[u8]) -> Result<Self, $crate::layout::DecodeError> {
                match buf.first_chunk::<$len>() {
                    Some(b) => Ok(Self(*b)),
                    None => Err($crate::layout::DecodeError {
                        what: stringify!($name),
                        at: buf.len(),
                        why: alloc::format!("ends after {} of {} bytes", buf.len(), $len),
                    }),
                }
            }

            /// The bytes in wire order.
            pub const fn as_bytes(&self) -> &[u8; $len] {
                &self.0
            }

            /// Typed setters, to be chained.
            pub fn set(&mut self) -> $crate::layout::Set<'_, Self> {
                $crate::layout::Set(self)
            }

            /// The same with fields changed: `X::new().with(|s| s.a(1).b(2))`.
            #[must_use]
            pub fn with(mut self, f: impl for<'s> FnOnce($crate::layout::Set<'s, Self>) -> $crate::layout::Set<'s, Self>) -> Self {
                let _ = f($crate::layout::Set(&mut self));
                self
            }

            $(
                #[doc = $title]
                #[inline]
                pub fn $f(&self) -> $ty {
                    $crate::value::load::<$ty>(&self.0, Self::ORDER.bit($off, $crate::layout!(@low $($hi $($lo)?)?)), $crate::layout!(@width $ty $($hi $($lo)?)?), Self::ORDER)
                }
            )*
        }

        #[allow(unused_parens, clippy::identity_op, clippy::erasing_op, clippy::should_implement_trait)]
        impl<'a> $crate::layout::Set<'a, $name> {
            $(
                #[doc = $title]
                #[inline]
                pub fn $f(self, value: $ty) -> Self {
                    $crate::value::store::<$ty>(&mut self.0.0, $name::ORDER.bit($off, $crate::layout!(@low $($hi $($lo)?)?)), $crate::layout!(@width $ty $($hi $($lo)?)?), $name::ORDER, value);
                    self
                }
            )*
        }

        #[allow(unused_parens, clippy::identity_op, clippy::erasing_op)]
        impl $crate::layout::Structure for $name {
            const LAYOUT: &'static $crate::layout::Layout = &$crate::layout::Layout {
                name: stringify!($name),
                about: concat!($($about),+),
                bytes: $len,
                base: $crate::layout!(@base $($base)?),
                without: &[$($($( ($from, $to) ),+)?)?],
                fields: &[$(
                    $crate::layout::Field {
                        name: stringify!($f),
                        bit: Self::ORDER.bit($off, $crate::layout!(@low $($hi $($lo)?)?)),
                        order: Self::ORDER,
                        width: $crate::layout!(@width $ty $($hi $($lo)?)?),
                        kind: <$ty as $crate::value::FieldType>::KIND,
                        title: $title,
                        wireshark: concat!("" $(, $ws)?),
                        label: <$ty as $crate::value::FieldType>::label,
                    }
                ),*],
            };
            fn bytes(&self) -> &[u8] {
                &self.0
            }
            fn bytes_mut(&mut self) -> &mut [u8] {
                &mut self.0
            }
            fn zeroed() -> Self {
                Self::new()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(&<Self as $crate::layout::Structure>::LAYOUT.describe(&self.0))
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    )+};
    (@low) => { 0 };
    (@low $bit:literal) => { $bit };
    (@low $hi:literal $lo:literal) => { $lo };
    (@order) => { $crate::layout::Order::LittleEndian };
    (@order $order:ident) => { $crate::layout::Order::$order };
    (@width $ty:tt) => { <$ty as $crate::value::FieldType>::BITS };
    (@width $ty:tt $bit:literal) => { 1 };
    (@width $ty:tt $hi:literal $lo:literal) => { $hi - $lo + 1 };
    (@base) => { None };
    (@base $base:ident) => { Some(<$base as $crate::layout::Structure>::LAYOUT) };
}

#[cfg(test)]
mod tests {
    use super::*;

    layout! {
        /// A structure for this test.
        pub struct Probe[8] {
            a: u8 @ 0 "a",
            b: u8 @ 1 [3:1] "b",
            c: bool @ 1 [7] "c",
            d: u32 @ 2 "d, unaligned",
        }
    }

    layout! {
        /// A structure for this test.
        pub struct Turned[12] in BigEndian {
            a: u16 @ 0 "a",
            b: u32 @ 2 [31:12] "b, the upper 20 bits of a word",
            c: u8 @ 5 [5:0] "c, the lower 6",
            d: u32 @ 6 [23:0] "d, three bytes",
            e: bool @ 9 [15] "e, the top of a half word",
            f: u8 @ 11 [6:4] "f",
        }
    }

    #[test]
    fn big_endian_words_are_read_written_and_mapped() {
        let bytes = [0x01, 0x02, 0xab, 0xcd, 0xef, 0x2a, 0x03, 0x04, 0x05, 0x80, 0x00, 0x50];
        let t = Turned::from_bytes(bytes);
        assert_eq!((t.a(), t.b(), t.c(), t.d(), t.e(), t.f()), (0x0102, 0xabcde, 0x2a, 0x0003_0405, true, 5));
        let built = Turned::new().with(|s| s.a(0x0102).b(0xabcde).c(0x2a).d(0x0003_0405).e(true).f(5));
        assert_eq!(built.as_bytes(), &[0x01, 0x02, 0xab, 0xcd, 0xe0, 0x2a, 0x03, 0x04, 0x05, 0x80, 0x00, 0x50]);
        let kept = Turned::from_bytes([0xff; 12]).with(|s| s.b(0));
        assert_eq!(&kept.as_bytes()[2..6], &[0, 0, 0x0f, 0xff]);
        assert_eq!(Turned::LAYOUT.reserved_mask(), [0, 0, 0, 0, 0x0f, 0xc0, 0, 0, 0, 0x7f, 0xff, 0x8f]);
        let f = Turned::LAYOUT.field("b").unwrap();
        assert_eq!((f.offset(), f.len(), f.get(&bytes)), (2, 3, Value::Int(0xabcde)));
        let mut b = [0u8; 12];
        f.set(&mut b, &Value::Int(0x12345)).unwrap();
        assert_eq!(&b[2..5], &[0x12, 0x34, 0x50]);
    }

    #[test]
    fn bits_outside_a_field_stay() {
        let mut p = Probe::from_bytes([0xff; 8]);
        p.set().b(0).c(false).d(0x0102_0304);
        assert_eq!(p.as_bytes(), &[0xff, 0x71, 4, 3, 2, 1, 0xff, 0xff]);
        assert_eq!((p.a(), p.b(), p.c(), p.d()), (0xff, 0, false, 0x0102_0304));
    }

    #[test]
    fn reserved_is_what_no_field_names() {
        assert_eq!(Probe::LAYOUT.reserved_mask(), [0, 0x71, 0, 0, 0, 0, 0xff, 0xff]);
        assert_eq!(Probe::LAYOUT.reserved_set(&[0, 0x8e, 1, 2, 3, 4, 0, 1]), Some(7));
    }

    #[test]
    fn a_value_that_does_not_fit_is_refused_and_nothing_changes() {
        let mut b = [0u8; 8];
        let f = Probe::LAYOUT.field("b").unwrap();
        assert!(f.set(&mut b, &Value::Int(8)).unwrap_err().contains("3 bits"));
        assert_eq!(b, [0; 8]);
    }
}
