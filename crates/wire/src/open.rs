//! Open enums and number types: a newtype with constants, so that values that the text does not know survive a round trip.

/// Declares open enums: `Name(repr) { CONST = value "Name in the text", }`.
#[macro_export]
macro_rules! open_enum {
    ($(
        $(#[$m:meta])*
        $vis:vis struct $name:ident($repr:ident) { $( $c:ident = $v:literal $label:literal, )* }
    )+) => {$(
        $(#[$m])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        $vis struct $name(pub $repr);

        impl $name {
            $( #[doc = $label] pub const $c: $name = $name($v); )*

            /// Every value that has a name: (value, name in code, name in the text).
            pub const NAMED: &'static [($name, &'static str, &'static str)] = &[$( ($name($v), stringify!($c), $label), )*];

            /// The name in the text.
            pub fn name(self) -> Option<&'static str> {
                match self.0 { $( $v => Some($label), )* _ => None }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(n) => f.write_str(n),
                    None => write!(f, "{:#x}", self.0),
                }
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x}"), self.0)?;
                if let Some(n) = self.name() {
                    write!(f, " {n}")?;
                }
                f.write_str(")")
            }
        }

        impl $crate::value::FieldType for $name {
            const KIND: $crate::layout::Kind = $crate::layout::Kind::Uint;
            const BITS: usize = $repr::BITS as usize;
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                Self(bits as $repr)
            }
            #[inline(always)]
            fn to_bits(self) -> u64 {
                u64::from(self.0)
            }
            fn label(bits: u64) -> Option<&'static str> {
                Self(bits as $repr).name()
            }
        }
    )+};
}

open_enum! {
    /// Command Identifier (CID): unique among the outstanding commands of one queue. [Base 2.0, 3.3.3.1]
    pub struct Cid(u16) {}
    /// Controller Identifier (CNTLID). [Base 2.0, 6.3]
    pub struct Cntlid(u16) {
        DYNAMIC = 0xffff "dynamic controller model",
        ANY_STATIC = 0xfffe "any controller (static model)",
    }
    /// Queue Identifier (QID): 0 is the Admin Queue.
    pub struct Qid(u16) {
        ADMIN = 0 "Admin Queue",
    }
    /// Namespace Identifier (NSID). [Base 2.0, 3.2.1]
    pub struct Nsid(u32) {
        NONE = 0 "none",
        BROADCAST = 0xffff_ffff "broadcast",
    }
}

macro_rules! zero_based {
    ($($(#[$m:meta])* $t:ident $r:ident),+) => {$(
        $(#[$m])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
        pub struct $t(pub $r);

        impl $t {
            /// The count that the raw value stands for.
            pub fn count(self) -> u64 {
                u64::from(self.0) + 1
            }

            /// The raw value for a count of at least 1; larger counts than fit give the largest.
            pub fn of(count: u64) -> Self {
                Self($r::try_from(count.saturating_sub(1)).unwrap_or($r::MAX))
            }
        }

        impl $crate::value::FieldType for $t {
            const KIND: $crate::layout::Kind = $crate::layout::Kind::ZeroBased;
            const BITS: usize = $r::BITS as usize;
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                Self(bits as $r)
            }
            #[inline(always)]
            fn to_bits(self) -> u64 {
                u64::from(self.0)
            }
        }
    )+};
}

zero_based! {
    /// A 0's based count of 8 bits: the raw value 0 means 1.
    ZeroBased8 u8,
    /// A 0's based count of 16 bits: the raw value 0 means 1.
    ZeroBased16 u16,
    /// A 0's based count of 32 bits: the raw value 0 means 1.
    ZeroBased32 u32
}
