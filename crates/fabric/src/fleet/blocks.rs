//! [`Blocks`]: what a host knows of its part of a namespace, so that it can tell what a read may give.

use bytes::{BufMut, Bytes, BytesMut};
use nvmf_seam::{Entropy, SplitMix64};

/// What is known of one block.
#[derive(Clone, Debug, Default)]
struct Block {
    /// The write that was acknowledged last; 0 for none.
    acknowledged: u32,
    /// Writes of which it is not known whether they were done, as their connection was lost.
    maybe: Vec<u32>,
    /// A command is at it.
    busy: bool,
}

/// The blocks of one host. Each write has a number, and each block says which one of which host wrote it, and where.
#[derive(Debug)]
pub(super) struct Blocks {
    host: u32,
    size: usize,
    blocks: Vec<Block>,
    writes: u32,
}

/// What is wrong with the data of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// An older state than the one that was acknowledged.
    Lost { block: usize, found: u32, acknowledged: u32 },
    /// Bytes that nobody wrote there.
    Foreign { block: usize },
    /// Not as many as asked for.
    Length { is: usize, should: usize },
}

impl core::fmt::Display for Wrong {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Lost { block, found, acknowledged } => {
                write!(f, "block {block}: write {acknowledged} was acknowledged and is lost, ")?;
                match found {
                    0 => f.write_str("nothing was ever written"),
                    n => write!(f, "write {n} is there"),
                }
            }
            Self::Foreign { block } => write!(f, "block {block} has bytes that were never written there"),
            Self::Length { is, should } => write!(f, "a read of {should} bytes gave {is}"),
        }
    }
}

impl Blocks {
    pub fn new(host: u32, size: usize, count: usize) -> Self {
        Self { host, size, blocks: vec![Block::default(); count], writes: 0 }
    }

    /// A range of `count` blocks that no command is at, and for a write none whose state is not known. Gives up after some tries.
    pub fn choose(&self, count: usize, write: bool, random: &mut SplitMix64) -> Option<usize> {
        let last = self.blocks.len().checked_sub(count)?;
        (0..8)
            .map(|_| random.below(last as u64 + 1) as usize)
            .find(|at| self.blocks[*at..*at + count].iter().all(|b| !b.busy && (!write || b.maybe.is_empty())))
    }

    pub fn set_busy(&mut self, at: usize, count: usize, busy: bool) {
        self.blocks[at..at + count].iter_mut().for_each(|b| b.busy = busy);
    }

    /// A new write: its number, and its data.
    pub fn write(&mut self, at: usize, count: usize) -> (u32, Bytes) {
        self.writes += 1;
        let mut data = BytesMut::with_capacity(count * self.size);
        for block in at..at + count {
            let first = self.word(block, self.writes);
            (0..self.size as u64 / 8).for_each(|i| data.put_u64_le(first.wrapping_add(i.wrapping_mul(STEP))));
        }
        (self.writes, data.freeze())
    }

    /// The first word of a block; the others follow from it. It says who wrote it, where, and with which write.
    fn word(&self, block: usize, write: u32) -> u64 {
        u64::from(write) << 32 | u64::from(self.host & 0x3ff) << 22 | (block as u64 & 0x3f_ffff)
    }

    pub fn acknowledged(&mut self, at: usize, count: usize, write: u32) {
        for b in &mut self.blocks[at..at + count] {
            b.acknowledged = write;
            b.maybe.clear();
        }
    }

    pub fn unknown(&mut self, at: usize, count: usize, write: u32) {
        self.blocks[at..at + count].iter_mut().for_each(|b| b.maybe.push(write));
    }

    /// Whether the data of a read can be right. `pieces` follow one another.
    pub fn check(&self, at: usize, count: usize, pieces: &[Bytes]) -> Result<(), Wrong> {
        let (is, should) = (pieces.iter().map(Bytes::len).sum(), count * self.size);
        if is != should {
            return Err(Wrong::Length { is, should });
        }
        // pieces end anywhere
        let joined = match pieces {
            [one] => one.clone(),
            many => many.concat().into(),
        };
        joined.chunks(self.size).zip(at..).try_for_each(|(data, block)| self.check_block(block, data))
    }

    fn check_block(&self, block: usize, data: &[u8]) -> Result<(), Wrong> {
        let (words, _) = data.as_chunks::<8>();
        let first = words.first().map_or(0, |w| u64::from_le_bytes(*w));
        let found = (first >> 32) as u32;
        let known = &self.blocks[block];
        let whole = match found {
            0 => words.iter().all(|w| *w == [0; 8]),
            _ if first != self.word(block, found) => false,
            _ => words.iter().zip(0u64..).all(|(w, i)| u64::from_le_bytes(*w) == first.wrapping_add(i.wrapping_mul(STEP))),
        };
        if !whole {
            return Err(Wrong::Foreign { block });
        }
        if found == known.acknowledged || known.maybe.contains(&found) {
            return Ok(());
        }
        match found < known.acknowledged {
            true => Err(Wrong::Lost { block, found, acknowledged: known.acknowledged }),
            false => Err(Wrong::Foreign { block }),
        }
    }

    /// Ranges of blocks that were written, or perhaps, of at most `most` blocks each.
    pub fn written(&self, most: usize) -> Vec<(usize, usize)> {
        let mut out: Vec<(usize, usize)> = Vec::new();
        for (i, b) in self.blocks.iter().enumerate() {
            if b.acknowledged == 0 && b.maybe.is_empty() {
                continue;
            }
            match out.last_mut() {
                Some((at, count)) if *at + *count == i && *count < most => *count += 1,
                _ => out.push((i, 1)),
            }
        }
        out
    }
}

/// Between two words of a block.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_write_and_a_foreign_one_are_told_from_a_right_one() {
        let mut b = Blocks::new(3, 512, 16);
        let (one, first) = b.write(2, 4);
        assert_eq!(b.check(2, 4, std::slice::from_ref(&first)), Err(Wrong::Foreign { block: 2 }), "not acknowledged");
        b.acknowledged(2, 4, one);
        assert_eq!(b.check(2, 4, &[first.slice(..700), first.slice(700..)]), Ok(()));
        assert_eq!(b.check(6, 1, &[Bytes::from(vec![0; 512])]), Ok(()), "never written");
        assert_eq!(b.check(2, 1, &[Bytes::from(vec![0; 512])]), Err(Wrong::Lost { block: 2, found: 0, acknowledged: 1 }));
        assert_eq!(b.check(3, 1, &[first.slice(..512)]), Err(Wrong::Foreign { block: 3 }), "of another place");
        let mut torn = first.to_vec();
        torn[300] ^= 1;
        assert_eq!(b.check(2, 4, &[torn.into()]), Err(Wrong::Foreign { block: 2 }));
        assert_eq!(b.check(2, 4, &[first.slice(..2047)]), Err(Wrong::Length { is: 2047, should: 2048 }));
        let (two, second) = b.write(2, 1);
        b.unknown(2, 1, two);
        assert_eq!((b.check(2, 1, std::slice::from_ref(&second)), b.check(2, 1, &[first.slice(..512)])), (Ok(()), Ok(())));
        b.acknowledged(2, 1, two);
        assert_eq!(b.check(2, 1, &[first.slice(..512)]), Err(Wrong::Lost { block: 2, found: 1, acknowledged: 2 }));
        assert_eq!(b.written(3), [(2, 3), (5, 1)]);
    }
}
