//! The types that a field of a table may have.

use crate::layout::{Kind, Order, load_bits, load_bits_be, store_bits, store_bits_be};

/// A type that a field of `layout!` may have.
pub trait FieldType: Copy {
    /// How it is shown.
    const KIND: Kind;
    /// Width in bits where the table gives none.
    const BITS: usize;
    /// From the bits, for integers of at most 64 bits.
    fn from_bits(bits: u64) -> Self;
    /// To bits, for integers of at most 64 bits.
    fn to_bits(self) -> u64;
    /// From the bytes of a field that is not an integer.
    fn from_slice(_: &[u8]) -> Self {
        Self::from_bits(0)
    }
    /// The bytes of a field that is not an integer, copied to `out`.
    fn to_slice(self, _out: &mut [u8]) {}
    /// The name of a coded value.
    fn label(_: u64) -> Option<&'static str> {
        None
    }
}

/// Reads a field. `bit` and `width` are constants of the table, so that this folds to a plain load.
#[inline(always)]
pub fn load<T: FieldType>(buf: &[u8], bit: usize, width: usize, order: Order) -> T {
    match T::KIND {
        Kind::Uint | Kind::ZeroBased | Kind::Flag => T::from_bits(match order {
            Order::LittleEndian => load_bits(buf, bit, width),
            Order::BigEndian => load_bits_be(buf, bit, width),
        }),
        _ => T::from_slice(buf.get(bit / 8..bit / 8 + width / 8).unwrap_or(&[])),
    }
}

/// Writes a field; see [`load`].
#[inline(always)]
pub fn store<T: FieldType>(buf: &mut [u8], bit: usize, width: usize, order: Order, value: T) {
    match T::KIND {
        Kind::Uint | Kind::ZeroBased | Kind::Flag => match order {
            Order::LittleEndian => store_bits(buf, bit, width, value.to_bits()),
            Order::BigEndian => store_bits_be(buf, bit, width, value.to_bits()),
        },
        _ => value.to_slice(buf.get_mut(bit / 8..bit / 8 + width / 8).unwrap_or(&mut [])),
    }
}

macro_rules! uint {
    ($($t:ident)+) => {$(
        impl FieldType for $t {
            const KIND: Kind = Kind::Uint;
            const BITS: usize = $t::BITS as usize;
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                bits as $t
            }
            #[inline(always)]
            fn to_bits(self) -> u64 {
                u64::from(self)
            }
        }
    )+};
}
uint!(u8 u16 u32 u64);

impl FieldType for bool {
    const KIND: Kind = Kind::Flag;
    const BITS: usize = 1;
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
    #[inline(always)]
    fn to_bits(self) -> u64 {
        u64::from(self)
    }
}

macro_rules! bytes {
    ($(#[$m:meta])* $t:ident $kind:ident) => {
        $(#[$m])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $t<const N: usize>(pub [u8; N]);

        impl<const N: usize> FieldType for $t<N> {
            const KIND: Kind = Kind::$kind;
            const BITS: usize = N * 8;
            fn from_bits(_: u64) -> Self {
                Self([0; N])
            }
            fn to_bits(self) -> u64 {
                0
            }
            fn from_slice(s: &[u8]) -> Self {
                <[u8; N]>::from_slice(s).into()
            }
            fn to_slice(self, out: &mut [u8]) {
                self.0.to_slice(out);
            }
        }

        impl<const N: usize> From<[u8; N]> for $t<N> {
            fn from(b: [u8; N]) -> Self {
                Self(b)
            }
        }
    };
}

bytes! {
    /// ASCII, left justified, padded with spaces. [Base 2.0, 1.4.2]
    Ascii Ascii
}
bytes! {
    /// UTF-8, ended by a NUL; the rest NUL. [Base 2.0, 4.5]
    Text Text
}

impl<const N: usize> Ascii<N> {
    /// `text`, cut to the field and padded with spaces.
    pub fn new(text: &str) -> Self {
        let mut b = [b' '; N];
        for (d, s) in b.iter_mut().zip(text.bytes()) {
            *d = s;
        }
        Self(b)
    }

    /// Without the padding. Bytes that are no UTF-8 end the text.
    pub fn as_str(&self) -> &str {
        valid(&self.0).trim_end_matches([' ', '\0'])
    }
}

impl<const N: usize> Text<N> {
    /// `text`, cut so that a NUL remains.
    pub fn new(text: &str) -> Self {
        let mut b = [0; N];
        for (d, s) in b.iter_mut().zip(text.bytes().take(N - 1)) {
            *d = s;
        }
        Self(b)
    }

    /// Up to the NUL. Bytes that are no UTF-8 end the text.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(N);
        valid(&self.0[..end])
    }
}

fn valid(b: &[u8]) -> &str {
    match core::str::from_utf8(b) {
        Ok(s) => s,
        Err(e) => core::str::from_utf8(&b[..e.valid_up_to()]).unwrap_or(""),
    }
}

impl<const N: usize> FieldType for [u8; N] {
    const KIND: Kind = Kind::Bytes;
    const BITS: usize = N * 8;
    fn from_bits(_: u64) -> Self {
        [0; N]
    }
    fn to_bits(self) -> u64 {
        0
    }
    fn from_slice(s: &[u8]) -> Self {
        let mut b = [0; N];
        for (d, s) in b.iter_mut().zip(s) {
            *d = *s;
        }
        b
    }
    fn to_slice(self, out: &mut [u8]) {
        for (d, s) in out.iter_mut().zip(self) {
            *d = s;
        }
    }
}
