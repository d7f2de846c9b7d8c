//! Memory for messages of several packets: what comes back is used again, so that a message costs no allocation.

use std::collections::VecDeque;

use bytes::BytesMut;

/// Pieces of this size are cut into buffers; larger buffers are made one by one.
const PIECE: usize = 1 << 20;
/// So many pieces that are used up are looked through for one that came back.
const KEPT: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Pool {
    open: BytesMut,
    used: VecDeque<BytesMut>,
}

impl Pool {
    /// An empty buffer with room for `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> BytesMut {
        if len > PIECE / 2 {
            return BytesMut::with_capacity(len);
        }
        // The last byte of a piece is never given out: what is left without any forgets where it came from.
        if self.open.capacity() <= len && !self.open.try_reclaim(PIECE) {
            let back = self.used.iter_mut().position(|b| b.try_reclaim(PIECE)).and_then(|i| self.used.remove(i));
            let old = core::mem::replace(&mut self.open, back.unwrap_or_else(|| BytesMut::with_capacity(PIECE)));
            if old.capacity() > 0 {
                self.used.push_back(old);
            }
            if self.used.len() > KEPT {
                self.used.pop_front();
            }
        }
        let rest = self.open.split_off(len);
        core::mem::replace(&mut self.open, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_back_is_used_again() {
        let mut pool = Pool::default();
        let mut seen = std::collections::BTreeSet::new();
        for size in [65_536, 1000] {
            for i in 0..1000u32 {
                // Several are out at a time, and all come back.
                let out: Vec<_> = (0..20).map(|_| pool.take(size)).collect();
                assert!(out.iter().all(|b| b.is_empty() && b.capacity() >= size));
                let mut first = out.into_iter().next().unwrap();
                first.extend_from_slice(&i.to_le_bytes());
                seen.extend(pool.used.iter().chain([&pool.open]).map(|b| b.as_ptr() as usize / PIECE));
            }
        }
        assert!(seen.len() <= 8 && pool.used.len() <= 3, "{} {}", seen.len(), pool.used.len());
    }

    #[test]
    fn what_is_held_is_not() {
        let mut pool = Pool::default();
        let held: Vec<_> = (0..64u8)
            .map(|i| {
                let mut b = pool.take(16_384);
                b.resize(16_384, i);
                b.freeze()
            })
            .collect();
        assert!(held.iter().enumerate().all(|(i, b)| b.iter().all(|x| usize::from(*x) == i)));
    }
}
