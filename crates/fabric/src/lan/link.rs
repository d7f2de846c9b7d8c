//! A link: what each of its directions does to frames.

use core::time::Duration;

use nvmf_seam::{Entropy, Instant, SplitMix64};

/// How one direction of a link carries frames. Faults come on top: [`LinkFault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// From the last bit sent to the last bit received.
    pub delay: Duration,
    /// A random time up to this comes on top. It does not reorder: what is to do so is a fault.
    pub jitter: Duration,
    /// Bits a second; `None`: a frame takes no time to be sent.
    pub rate: Option<u64>,
    /// Bytes of a packet behind the Ethernet header; a larger one is lost.
    pub mtu: usize,
}

impl Default for LinkSettings {
    /// 25 Gbit/s, 1 us, MTU 9000.
    fn default() -> Self {
        Self { delay: Duration::from_micros(1), jitter: Duration::ZERO, rate: Some(25_000_000_000), mtu: 9000 }
    }
}

impl LinkSettings {
    /// How long a frame of so many bytes on the wire is being sent.
    pub(super) fn serialization(&self, wire_len: usize) -> Duration {
        match self.rate {
            Some(rate) if rate > 0 => Duration::from_nanos((wire_len as u64 * 8).saturating_mul(1_000_000_000) / rate),
            _ => Duration::ZERO,
        }
    }

    /// One pause quantum: 512 bit times [IEEE 802.3, 31B.2]; those of 100 Gbit/s where the link has no rate.
    pub(super) fn quantum(&self) -> Duration {
        let rate = self.rate.filter(|r| *r > 0).unwrap_or(100_000_000_000);
        Duration::from_nanos(512 * 1_000_000_000 / rate)
    }
}

/// A part of all frames, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PerMillion(pub u32);

impl PerMillion {
    /// All.
    pub const ALL: Self = Self(1_000_000);

    /// Whether one of them is hit.
    pub(super) fn hits(self, random: &mut SplitMix64) -> bool {
        random.below(1_000_000) < u64::from(self.0)
    }
}

/// What goes wrong on one direction of a link, for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFault {
    /// What.
    pub what: Wrong,
    /// Which frames.
    pub share: PerMillion,
    /// From when on.
    pub from: Instant,
    /// Until when.
    pub until: Instant,
}

/// What becomes of a frame that a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Lost. With all frames it is a partition.
    Lost,
    /// Arrives twice.
    Duplicated,
    /// One random bit behind the Ethernet header arrives changed, as by a bad memory in a switch: the FCS is right.
    Corrupted,
    /// Arrives a random time up to this later, so that others overtake it.
    Reordered(Duration),
    /// Arrives this much later, with those behind it.
    Delayed(Duration),
}

impl core::fmt::Display for Wrong {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Lost => f.write_str("lost"),
            Self::Duplicated => f.write_str("duplicated"),
            Self::Corrupted => f.write_str("corrupted"),
            Self::Reordered(by) => write!(f, "reordered by up to {by:?}"),
            Self::Delayed(by) => write!(f, "delayed by {by:?}"),
        }
    }
}

/// A fault that hit a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub what: Wrong,
    /// The bit that is flipped by corruption, counted from the first byte of the frame, most significant bit first.
    pub bit: Option<usize>,
}

impl core::fmt::Display for Hit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.what)?;
        self.bit.map_or(Ok(()), |bit| write!(f, ": byte {} ^ {:#04x}", bit / 8, 0x80 >> (bit % 8)))
    }
}

/// One direction of a link, with what is random about it.
#[derive(Debug)]
pub(super) struct Way {
    pub settings: LinkSettings,
    random: SplitMix64,
    /// Each with a stream of its own, so that one fault less leaves the others as they were.
    faults: Vec<(LinkFault, SplitMix64)>,
    /// When the last frame arrives that keeps its place.
    last: Instant,
    /// What hit the last frame.
    pub hits: Vec<Hit>,
}

impl Way {
    pub fn new(settings: LinkSettings, seed: u64) -> Self {
        Self { settings, random: SplitMix64::new(seed), faults: Vec::new(), last: Instant::START, hits: Vec::new() }
    }

    pub fn add(&mut self, fault: LinkFault, seed: u64) {
        self.faults.push((fault, SplitMix64::new(seed)));
    }

    pub fn heal(&mut self) {
        self.faults.clear();
    }

    /// When a frame arrives whose last bit is sent at `sent`, at most twice; [`Way::hits`] has what hit it. `len`: bytes of the frame, of
    /// which `head` are those of its Ethernet header.
    pub fn fate(&mut self, sent: Instant, len: usize, head: usize) -> [Option<Instant>; 2] {
        let jitter = match self.settings.jitter.as_nanos() as u64 {
            0 => 0,
            most => self.random.below(most + 1),
        };
        let mut at = (sent + self.settings.delay + Duration::from_nanos(jitter)).max(self.last);
        let (mut lost, mut twice, mut late) = (false, false, Duration::ZERO);
        self.hits.clear();
        for (f, random) in &mut self.faults {
            if sent < f.from || sent >= f.until || !f.share.hits(random) {
                continue;
            }
            let mut bit = None;
            match f.what {
                Wrong::Lost => lost = true,
                Wrong::Duplicated => twice = true,
                Wrong::Corrupted => bit = Some(head * 8 + random.below((len - head) as u64 * 8) as usize),
                Wrong::Reordered(by) => late += Duration::from_nanos(random.below(by.as_nanos() as u64 + 1)),
                Wrong::Delayed(by) => at = at + by,
            }
            self.hits.push(Hit { what: f.what, bit });
        }
        if lost {
            return [None; 2];
        }
        self.last = at;
        at = at + late;
        [Some(at), twice.then_some(at)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(what: Wrong, share: u32) -> LinkFault {
        LinkFault { what, share: PerMillion(share), from: Instant(100), until: Instant(2_000_000) }
    }

    #[test]
    fn a_fault_hits_its_share_within_its_time() {
        let mut way = Way::new(LinkSettings::default(), 1);
        way.add(fault(Wrong::Lost, 100_000), 2);
        let lost = (0..20_000u64).filter(|i| way.fate(Instant(100 + i), 100, 14)[0].is_none()).count();
        assert!((1_800..2_200).contains(&lost), "{lost}");
        way.add(fault(Wrong::Lost, 1_000_000), 3);
        let lost = |way: &mut Way, at| way.fate(Instant(at), 100, 14)[0].is_none();
        assert!(!lost(&mut way, 99) && lost(&mut way, 100) && lost(&mut way, 1_999_999) && !lost(&mut way, 2_000_000));
        way.heal();
        assert!(!lost(&mut way, 100));
    }

    #[test]
    fn a_stream_keeps_its_order_but_for_what_is_reordered() {
        let jitter = Duration::from_micros(50);
        let mut way = Way::new(LinkSettings { jitter, ..LinkSettings::default() }, 1);
        let times = |way: &mut Way| (0..200).map(|i| way.fate(Instant(1000 + i), 100, 14)[0].unwrap()).collect::<Vec<_>>();
        assert!(times(&mut way).is_sorted());
        way.add(fault(Wrong::Reordered(jitter), 200_000), 9);
        assert!(!times(&mut way).is_sorted());
    }

    #[test]
    fn one_fault_less_leaves_the_others_as_they_were() {
        let hits = |with_loss| {
            let mut way = Way::new(LinkSettings::default(), 1);
            way.add(fault(Wrong::Duplicated, 100_000), 5);
            if with_loss {
                way.add(fault(Wrong::Delayed(Duration::from_nanos(7)), 300_000), 6);
            }
            (0..500).map(|i| way.fate(Instant(100 + i), 100, 14)[1].is_some()).collect::<Vec<_>>()
        };
        assert_eq!(hits(true), hits(false));
    }

    #[test]
    fn rates_and_quanta() {
        let link = LinkSettings { rate: Some(10_000_000_000), ..LinkSettings::default() };
        assert_eq!((link.serialization(1250), link.quantum()), (Duration::from_micros(1), Duration::from_nanos(51)));
    }
}
