//! [`Losing`]: a store that acknowledges writes which it does not do.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use nvmf_engine::store::MemoryStore;
use nvmf_seam::store::{Abilities, Geometry, Store, StoreError, StoreOp};
use nvmf_seam::{Entropy, SplitMix64};

use crate::lan::PerMillion;

/// A store that loses a part of all writes.
pub(super) struct Losing {
    inner: MemoryStore,
    share: PerMillion,
    random: Mutex<SplitMix64>,
}

impl Losing {
    pub fn new(inner: MemoryStore, share: PerMillion, seed: u64) -> Self {
        Self { inner, share, random: Mutex::new(SplitMix64::new(seed)) }
    }
}

impl Store for Losing {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    fn execute(&self, op: StoreOp) -> Result<Bytes, StoreError> {
        if matches!(op, StoreOp::Write { .. }) {
            let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
            if random.below(1_000_000) < u64::from(self.share.0) {
                return Ok(Bytes::new());
            }
        }
        self.inner.execute(op)
    }
}
