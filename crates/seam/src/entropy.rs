//! Randomness as an argument, so that a run is a function of its seed.

/// A source of random numbers. The simulated world passes a seeded one, one stream a node.
pub trait Entropy {
    /// The next 64 bits.
    fn next_u64(&mut self) -> u64;

    /// A number below `bound`; 0 for a bound of 0. The bias is below 2^-32 for bounds below 2^32.
    fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next_u64() % bound }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, seedable, and the same everywhere. Not for secrets.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A stream of its own for every seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }
}

impl Entropy for SplitMix64 {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
