//! Where deviations are applied: outside the state machines, on whole PDUs (design invariant I2).

use core::time::Duration;

use bytes::Bytes;

/// Who sent a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The host: PDUs host to controller (h2c).
    Host,
    /// The controller: PDUs controller to host (c2h).
    Controller,
}

/// What becomes of a PDU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapOutput {
    /// Pass on these bytes (the PDU, changed or not, or another one) in the direction of the PDU.
    Pass(Bytes),
    /// Pass on these bytes in that direction, this much later; what follows is not held up.
    Late(Duration, Bytes),
    /// Send these bytes to the PDU's own sender.
    Answer(Bytes),
    /// Close the connection, after what was passed before.
    Close,
}

/// Changes traffic as it passes. One tap serves one connection; it sees every PDU whole and in order.
pub trait Tap: Send {
    /// What becomes of `pdu`, sent by `from`. No output drops it. The tap keeps digests right where it changes a PDU, unless a wrong
    /// digest is what it is for.
    fn pdu(&mut self, from: Side, pdu: Bytes) -> Vec<TapOutput>;

    /// Told before [`Tap::pdu`]: in how many pieces that PDU came, and how many bytes of it the first had.
    fn came_in(&mut self, pieces: usize, first: usize) {
        let _ = (pieces, first);
    }

    /// True where the other side is not to notice that `by` ended the connection.
    fn hides_end(&mut self, by: Side) -> bool {
        let _ = by;
        false
    }

    /// Whether [`Tap::waiting`] is to be called. It has to be the same for the whole life of a tap.
    fn is_impatient(&self) -> bool {
        false
    }

    /// The host's next PDU has not been whole for 100 ms: `pdus` of the host went before, and `bytes` of it are there. What comes of it can
    /// be an answer or a close.
    fn waiting(&mut self, pdus: u64, bytes: usize) -> Vec<TapOutput> {
        let _ = (pdus, bytes);
        Vec::new()
    }
}
