//! Response times of many commands in little memory.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longest time that is told from longer ones: a day, nanoseconds. It bounds a histogram to about 20 KiB.
const LONGEST_NS: u64 = 24 * 3600 * 1_000_000_000;
/// So many times are kept as they are, so that the percentiles of a few commands are exact.
const EXACT: usize = 64;
/// Times of commands: the first [`EXACT`] exactly, then as a histogram of so many decimal digits.
#[derive(Clone, Debug)]
pub(super) struct Latency {
    digits: u8,
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    exact: Vec<u64>,
    histogram: Option<Box<Histogram<u32>>>,
}

/// Service response times: from the command capsule to its response, as they passed where the capture was made.
///
/// Percentiles are those of the nearest rank; of more than 64 commands, to two decimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Latencies {
    /// Commands with a time.
    pub count: u64,
    /// Shortest, nanoseconds.
    pub min_ns: u64,
    /// Arithmetic mean, nanoseconds.
    pub mean_ns: u64,
    /// Median, nanoseconds.
    pub p50_ns: u64,
    /// 90th percentile, nanoseconds.
    pub p90_ns: u64,
    /// 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// 99.9th percentile, nanoseconds.
    #[serde(rename = "p99.9_ns")]
    pub p999_ns: u64,
    /// Longest, nanoseconds.
    pub max_ns: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self::with_digits(2)
    }
}

impl Latency {
    /// One digit tells to 6 %, in 3 KiB.
    pub(super) fn with_digits(digits: u8) -> Self {
        Self { digits, count: 0, sum_ns: 0, min_ns: 0, max_ns: 0, exact: Vec::new(), histogram: None }
    }

    pub(super) fn record(&mut self, ns: u64) {
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.count += 1;
        self.sum_ns += u128::from(ns);
        if self.histogram.is_none() {
            if self.exact.len() < EXACT {
                self.exact.push(ns);
                return;
            }
            self.roughen();
        }
        self.put(ns);
    }

    /// From now on the times are kept as a histogram.
    fn roughen(&mut self) {
        self.histogram = Histogram::new(self.digits).ok().map(Box::new);
        for old in std::mem::take(&mut self.exact) {
            self.put(old);
        }
    }

    fn put(&mut self, ns: u64) {
        if let Some(h) = &mut self.histogram {
            // It resizes itself up to the longest time: it cannot fail.
            let _ = h.record(ns.min(LONGEST_NS));
        }
    }

    /// The time that the given part of all commands did not exceed, nanoseconds.
    pub(super) fn quantile(&self, part: f64) -> u64 {
        if let Some(h) = &self.histogram {
            return h.value_at_quantile(part).clamp(self.min_ns, self.max_ns);
        }
        let mut sorted = self.exact.clone();
        sorted.sort_unstable();
        let rank = (part * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Takes over the times of another of as many digits.
    pub(super) fn absorb(&mut self, other: Self) {
        for ns in &other.exact {
            self.record(*ns);
        }
        let Some(theirs) = other.histogram else { return };
        if self.histogram.is_none() {
            self.roughen();
        }
        if let Some(mine) = &mut self.histogram {
            // Both resize themselves: it cannot fail.
            let _ = mine.add(*theirs);
        }
        self.min_ns = if self.count == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.count += other.count;
        self.sum_ns += other.sum_ns;
    }

    /// `None` where no command was answered.
    pub(super) fn report(&self) -> Option<Latencies> {
        let mean_ns = u64::try_from(self.sum_ns.checked_div(u128::from(self.count))?).unwrap_or(u64::MAX);
        Some(Latencies {
            count: self.count,
            min_ns: self.min_ns,
            mean_ns,
            p50_ns: self.quantile(0.5),
            p90_ns: self.quantile(0.9),
            p99_ns: self.quantile(0.99),
            p999_ns: self.quantile(0.999),
            max_ns: self.max_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: impl IntoIterator<Item = u64>) -> Latency {
        let mut l = Latency::default();
        times.into_iter().for_each(|t| l.record(t));
        l
    }

    #[test]
    fn a_few_times_are_told_exactly() {
        let r = of((1..=10).map(|n| n * 1_234_567)).report().unwrap();
        assert_eq!((r.count, r.min_ns, r.max_ns, r.mean_ns), (10, 1_234_567, 12_345_670, 6_790_118));
        assert_eq!((r.p50_ns, r.p90_ns, r.p99_ns), (6_172_835, 11_111_103, 12_345_670));
        assert_eq!(of([]).report(), None);
    }

    #[test]
    fn many_times_are_told_to_one_percent() {
        let r = of((1..=100_000).map(|n| n * 1000)).report().unwrap();
        for (got, want) in [(r.p50_ns, 50_000_000u64), (r.p90_ns, 90_000_000), (r.p99_ns, 99_000_000), (r.p999_ns, 99_900_000)] {
            assert!(got.abs_diff(want) <= want / 100, "{got}, not {want}");
        }
        assert_eq!((r.min_ns, r.max_ns), (1000, 100_000_000));
    }

    #[test]
    fn two_halves_give_the_whole() {
        for cut in [0u64, 5, 64, 70, 500] {
            let mut first = of((0..cut).map(|n| n * n));
            first.absorb(of((cut..500).map(|n| n * n)));
            let whole = of((0..500).map(|n| n * n)).report().unwrap();
            let joined = first.report().unwrap();
            assert_eq!(joined, whole, "cut at {cut}");
        }
    }

    #[test]
    fn an_absurd_time_costs_no_memory() {
        let mut l = of((0..100).map(|_| 1));
        l.record(u64::MAX);
        assert_eq!(l.report().unwrap().max_ns, u64::MAX);
        assert!(l.histogram.unwrap().distinct_values() < 6000);
    }
}
