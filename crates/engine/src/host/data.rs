//! Data that came with a command, in the pieces in which it arrived, so that nothing is copied (design invariant I4).

use bytes::{Bytes, BytesMut};

/// Data of a command in order of its offsets.
#[derive(Clone, Debug, Default)]
pub struct Data {
    pieces: Vec<Bytes>,
    len: usize,
}

impl From<Bytes> for Data {
    fn from(piece: Bytes) -> Self {
        let mut data = Self::default();
        data.push(piece);
        data
    }
}

impl Data {
    /// Appends a piece; empty ones leave no trace, so the pieces never outnumber the bytes.
    pub(crate) fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.len += piece.len();
            self.pieces.push(piece);
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True where there is no data.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces in order.
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// Copies all to the start of `to`, as far as there is room.
    pub(crate) fn copy_to(&self, to: &mut [u8]) {
        let mut rest = to;
        for piece in &self.pieces {
            let n = piece.len().min(rest.len());
            let (here, behind) = rest.split_at_mut(n);
            here.copy_from_slice(piece.get(..n).unwrap_or_default());
            rest = behind;
        }
    }

    /// All in one piece; copies only where there are several.
    pub fn to_bytes(&self) -> Bytes {
        match self.pieces.as_slice() {
            [] => Bytes::new(),
            [one] => one.clone(),
            many => {
                let mut all = BytesMut::with_capacity(self.len);
                for piece in many {
                    all.extend_from_slice(piece);
                }
                all.freeze()
            }
        }
    }
}
