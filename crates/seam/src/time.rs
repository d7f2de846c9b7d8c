//! Time as a state machine sees it: nanoseconds since the run began.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A moment, in nanoseconds since the run began. The driver reads its clock (real or virtual) and passes it in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// The begin of the run.
    pub const START: Self = Self(0);

    /// Time since `earlier`; zero where that is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at the end of time (584 years).
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, other: Self) -> Duration {
        self.since(other)
    }
}
