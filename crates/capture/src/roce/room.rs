//! How much may wait.

/// Most bytes that wait, over all connections.
const MAX_WAITING: usize = 32 << 20;

/// Bytes that wait, over all connections.
#[derive(Debug, Default)]
pub(super) struct Room {
    used: usize,
}

impl Room {
    /// Takes so many bytes; false where there is no room for them.
    #[must_use]
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let fits = self.used + bytes <= MAX_WAITING;
        if fits {
            self.used += bytes;
        }
        fits
    }

    /// Gives back what was taken.
    pub(super) fn give(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Bytes that wait now.
    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.used
    }
}
