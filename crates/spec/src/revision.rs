//! Revisions of the NVM Express Base Specification, encoded as the Version property (VS).

use core::fmt;
use core::str::FromStr;

/// A revision as VS reports it: major in bits 31:16, minor in 15:8, tertiary in 7:0 [Base 2.0, 3.1.3.2].
///
/// Any value is valid, so that what a peer reports can be kept; they are ordered as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u32);

impl Revision {
    /// NVM Express 1.0.
    pub const V1_0: Self = Self::new(1, 0, 0);
    /// NVM Express 1.1.
    pub const V1_1: Self = Self::new(1, 1, 0);
    /// NVM Express 1.2.
    pub const V1_2: Self = Self::new(1, 2, 0);
    /// NVM Express 1.2.1, the base of NVMe over Fabrics 1.0.
    pub const V1_2_1: Self = Self::new(1, 2, 1);
    /// NVM Express 1.3.
    pub const V1_3: Self = Self::new(1, 3, 0);
    /// NVM Express 1.4, the base of NVMe over Fabrics 1.1.
    pub const V1_4: Self = Self::new(1, 4, 0);
    /// NVM Express Base 2.0, which took NVMe over Fabrics in.
    pub const V2_0: Self = Self::new(2, 0, 0);
    /// NVM Express Base 2.1.
    pub const V2_1: Self = Self::new(2, 1, 0);
    /// NVM Express Base 2.2.
    pub const V2_2: Self = Self::new(2, 2, 0);
    /// NVM Express Base 2.3.
    pub const V2_3: Self = Self::new(2, 3, 0);

    /// From its three numbers.
    #[must_use]
    pub const fn new(major: u16, minor: u8, tertiary: u8) -> Self {
        Self(((major as u32) << 16) | ((minor as u32) << 8) | tertiary as u32)
    }

    /// Major Version Number (MJR).
    #[must_use]
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Minor Version Number (MNR).
    #[must_use]
    pub const fn minor(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Tertiary Version Number (TER).
    #[must_use]
    pub const fn tertiary(self) -> u8 {
        self.0 as u8
    }
}

impl fmt::Display for Revision {
    /// `2.0`, or `1.2.1` where the tertiary number is not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major(), self.minor())?;
        match self.tertiary() {
            0 => Ok(()),
            tertiary => write!(f, ".{tertiary}"),
        }
    }
}

/// Text that is no revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseRevisionError;

impl fmt::Display for ParseRevisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a revision is written MAJOR.MINOR or MAJOR.MINOR.TERTIARY, such as 2.0 or 1.2.1")
    }
}

impl core::error::Error for ParseRevisionError {}

impl FromStr for Revision {
    type Err = ParseRevisionError;

    /// Reads `2.0` or `1.2.1`: decimal digits only.
    fn from_str(text: &str) -> Result<Self, ParseRevisionError> {
        // The integer parsers would take a leading plus.
        if text.bytes().any(|b| !b.is_ascii_digit() && b != b'.') {
            return Err(ParseRevisionError);
        }
        let mut parts = text.split('.');
        let major = parts.next().and_then(|p| p.parse().ok()).ok_or(ParseRevisionError)?;
        let minor = parts.next().and_then(|p| p.parse().ok()).ok_or(ParseRevisionError)?;
        let tertiary = match parts.next() {
            Some(p) => p.parse().map_err(|_| ParseRevisionError)?,
            None => 0,
        };
        match parts.next() {
            Some(_) => Err(ParseRevisionError),
            None => Ok(Self::new(major, minor, tertiary)),
        }
    }
}
