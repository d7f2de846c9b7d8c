//! Data of a command in the pieces that it came in.

use bytes::{Bytes, BytesMut};

/// Data of a command in the pieces that it came in. Small pieces are joined, so that what is kept beside the data stays small.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// Mostly the only one, and then without a list.
    first: Option<Bytes>,
    more: Vec<Bytes>,
    tail: BytesMut,
}

/// Pieces below this size are copied together.
const SMALL: usize = 4096;

impl From<Bytes> for Gather {
    fn from(data: Bytes) -> Self {
        Self { first: Some(data), more: Vec::new(), tail: BytesMut::new() }
    }
}

impl Gather {
    /// Adds what came next.
    pub fn push(&mut self, data: Bytes) {
        if data.len() < SMALL {
            self.tail.extend_from_slice(&data);
        } else {
            self.close();
            self.add(data);
        }
    }

    fn close(&mut self) {
        if !self.tail.is_empty() {
            let tail = core::mem::take(&mut self.tail).freeze();
            self.add(tail);
        }
    }

    fn add(&mut self, piece: Bytes) {
        match self.first {
            None => self.first = Some(piece),
            Some(_) => self.more.push(piece),
        }
    }

    /// The pieces in order, none of which cuts a logical block. [NVM-RW-10: a block is written as a whole]
    pub fn into_pieces(mut self, block: usize) -> impl ExactSizeIterator<Item = Bytes> {
        self.close();
        if self.first.iter().chain(&self.more).any(|p| !p.len().is_multiple_of(block)) {
            self = self.into_bytes().into();
        }
        Pieces { first: self.first, more: self.more.into_iter() }
    }

    /// All in one piece.
    pub fn into_bytes(mut self) -> Bytes {
        self.close();
        let first = self.first.unwrap_or_default();
        if self.more.is_empty() {
            return first;
        }
        let mut all = BytesMut::with_capacity(first.len() + self.more.iter().map(Bytes::len).sum::<usize>());
        all.extend_from_slice(&first);
        for piece in self.more {
            all.extend_from_slice(&piece);
        }
        all.freeze()
    }
}

/// See [`Gather::into_pieces`].
struct Pieces {
    first: Option<Bytes>,
    more: std::vec::IntoIter<Bytes>,
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.first.take().or_else(|| self.more.next())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = usize::from(self.first.is_some()) + self.more.len();
        (n, Some(n))
    }
}

impl ExactSizeIterator for Pieces {}
