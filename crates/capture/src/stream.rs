//! One direction of a connection: from bytes to PDUs, with gaps. [NVMe/TCP 1.0, 2; TCP-GEN-05]

use bytes::{Bytes, BytesMut};
use nvmf_wire::tcp::Framer;

use crate::exchange::{EventKind, MAX_UNDECODABLE};
use crate::hunt::{self, Place};

/// Longest PDU that is put together, bytes. Longer ones are reported as undecodable: the receiver of a real stack has such a limit
/// as well (MAXH2CDATA, MDTS), and a bystander must not grow with what a length field claims.
pub(crate) const MAX_PDU: usize = 64 << 20;

/// Cuts one direction into PDUs and says what cannot be cut.
///
/// Invariant: at most one of `skip` and `lost` is in force; while it is, the framer is empty.
#[derive(Debug)]
pub(crate) struct Stream {
    framer: Framer,
    /// Who sends, where that is known.
    from_host: Option<bool>,
    /// Stream offset of the next byte that comes.
    offset: u64,
    /// Bytes of a PDU that a gap cut, still to be left out.
    skip: u64,
    /// Set once no PDU boundary is known any more.
    lost: Option<Lost>,
}

/// A stretch of a stream of which no PDU boundary is known.
#[derive(Debug)]
struct Lost {
    /// Stream offset of its first byte.
    offset: u64,
    why: String,
    /// The first of its bytes, of `len` in all.
    bytes: BytesMut,
    len: u64,
    /// What may still prove to be a PDU; `None` where none is looked for.
    hunted: Option<BytesMut>,
}

impl Lost {
    fn new(offset: u64, why: String, hunts: bool) -> Self {
        Self { offset, why, bytes: BytesMut::new(), len: 0, hunted: hunts.then(BytesMut::new) }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        let room = MAX_UNDECODABLE.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// Takes the next piece. True once what `hunted` holds starts with a PDU.
    fn hunt(&mut self, piece: &[u8], from_host: Option<bool>) -> bool {
        let Some(mut held) = self.hunted.take() else {
            self.take(piece);
            return false;
        };
        let piece_at = held.len();
        held.extend_from_slice(piece);
        let mut at = 0;
        let mut found = false;
        while let Some(rest) = held.get(at..).filter(|r| !r.is_empty()) {
            match hunt::place(rest, from_host) {
                Place::No => {}
                Place::Short => break,
                // A PDU tends to start where a segment does.
                Place::Pdu(_) if at == piece_at => found = true,
                Place::Pdu(plen) => match hunt::proven(rest, plen, from_host) {
                    Some(proven) => found = proven,
                    None => break,
                },
            }
            if found {
                break;
            }
            at += 1;
        }
        self.take(&held.split_to(at));
        self.hunted = Some(held);
        found
    }

    /// What is shown of it; nothing where it has no bytes.
    fn end(mut self) -> Option<EventKind> {
        if let Some(held) = self.hunted.take() {
            self.take(&held);
        }
        let Self { offset, why, bytes, len, .. } = self;
        (len > 0).then(|| EventKind::Undecodable { offset, why, bytes: bytes.freeze(), len })
    }
}

impl Default for Stream {
    fn default() -> Self {
        Self { framer: Framer::new(MAX_PDU), from_host: None, offset: 0, skip: 0, lost: None }
    }
}

impl Stream {
    /// A stream of the host's PDUs, or of the controller's.
    pub(crate) fn new(from_host: bool) -> Self {
        Self { from_host: Some(from_host), ..Self::default() }
    }

    /// The first byte that comes is not the first of the stream: the first PDU that proves itself is looked for.
    pub(crate) fn missed_start(&mut self) {
        self.lost = Some(Lost::new(0, "the start of the stream is missing".to_owned(), true));
    }

    pub(crate) fn push(&mut self, bytes: &[u8], mut emit: impl FnMut(EventKind)) {
        let whole = bytes.len() as u64;
        let mut bytes = bytes;
        let skipped = self.skip.min(whole);
        bytes = bytes.get(skipped as usize..).unwrap_or(&[]);
        self.skip -= skipped;
        let at = self.offset + skipped;
        self.offset += whole;
        if bytes.is_empty() {
            return;
        }
        match self.lost.take() {
            Some(mut lost) => {
                if !lost.hunt(bytes, self.from_host) {
                    self.lost = Some(lost);
                    return;
                }
                let held = lost.hunted.take().unwrap_or_default();
                lost.why = format!("{}; the next PDU that proves itself is {} bytes on", lost.why, lost.len);
                if let Some(kind) = lost.end() {
                    emit(kind);
                }
                self.framer.push(&held);
            }
            None => {
                self.framer.push(bytes);
                if at < 8
                    && let Some(why) = foreign(self.framer.peek())
                {
                    return self.lose(why, false, emit);
                }
            }
        }
        while let Some(pdu) = self.framer.next_pdu() {
            emit(EventKind::Pdu(pdu));
        }
        if let Some(plen) = self.framer.oversize() {
            self.lose(format!("PLEN {plen} cannot be framed (8 to {MAX_PDU})"), false, emit);
        }
    }

    pub(crate) fn gap(&mut self, len: u64, mut emit: impl FnMut(EventKind)) {
        if len == 0 {
            return;
        }
        let gap = EventKind::Gap { offset: self.offset, len };
        let started = self.offset > 0;
        self.offset += len;
        if let Some(lost) = self.lost.take() {
            let (why, hunts) = (lost.why.clone(), lost.hunted.is_some());
            lost.end().map(&mut emit);
            emit(gap);
            self.lost = Some(Lost::new(self.offset, why, hunts));
            return;
        }
        if self.skip > 0 {
            emit(gap);
            let skipped = self.skip.min(len);
            self.skip -= skipped;
            if len > skipped {
                self.lose(GAP.to_owned(), true, emit);
            }
            return;
        }
        let held = self.framer.len() as u64;
        let plen = self.framer.head().map(|h| u64::from(h.plen()));
        if held > 0 {
            let bytes = self.framer.take_rest();
            emit(EventKind::Undecodable {
                offset: self.offset - len - held,
                why: format!("a gap of {len} bytes cuts this PDU"),
                len: held,
                bytes: cap(bytes),
            });
        }
        emit(gap);
        match plen {
            Some(plen) if plen >= held + len => self.skip = plen - held - len,
            _ if started || held > 0 => self.lose(GAP.to_owned(), true, emit),
            _ => self.lose("the start of the stream is missing".to_owned(), true, emit),
        }
    }

    /// Bytes held of a PDU that is not whole.
    pub(crate) fn held(&self) -> usize {
        self.framer.len()
    }

    /// Lets go of the PDU that is not whole, for `why`: what is still to come of it is passed over.
    pub(crate) fn give_up(&mut self, why: &str, mut emit: impl FnMut(EventKind)) {
        let Some(plen) = self.framer.head().map(|h| u64::from(h.plen())) else { return };
        let bytes = self.framer.take_rest();
        let len = bytes.len() as u64;
        emit(EventKind::Undecodable {
            offset: self.offset - len,
            why: format!("{len} of PLEN {plen} bytes: {why}"),
            bytes: cap(bytes),
            len,
        });
        self.skip = plen.saturating_sub(len);
        // The room that it grew to goes as well.
        self.framer = Framer::new(MAX_PDU);
    }

    /// The direction ended: what is left can never become a PDU.
    pub(crate) fn end(&mut self, mut emit: impl FnMut(EventKind)) {
        if let Some(lost) = self.lost.take() {
            lost.end().map(emit);
        } else if !self.framer.is_empty() {
            let bytes = self.framer.take_rest();
            let len = bytes.len() as u64;
            let why = match nvmf_wire::tcp::PduHead::read(&bytes) {
                Ok(h) => format!("ends after {len} of PLEN {} bytes", h.plen()),
                Err(_) => format!("ends after {len} bytes of a common header"),
            };
            emit(EventKind::Undecodable { offset: self.offset - len, why, bytes: cap(bytes), len });
        }
    }

    /// No boundary is known from here on: says so at once for what is held; what follows is told once it ends. With `hunts` the next
    /// PDU that proves itself ends it: a gap is the capture's fault, while what the sender framed wrongly has no next PDU.
    fn lose(&mut self, why: String, hunts: bool, mut emit: impl FnMut(EventKind)) {
        let bytes = self.framer.take_rest();
        let len = bytes.len() as u64;
        let mut next = format!("behind what cannot be framed: {why}");
        if len > 0 {
            emit(EventKind::Undecodable { offset: self.offset - len, why, bytes: cap(bytes), len });
        } else {
            next = why;
        }
        self.lost = Some(Lost::new(self.offset, next, hunts));
    }
}

/// Why a stream is lost behind a gap.
const GAP: &str = "a gap hides where the next PDU starts";

fn cap(bytes: Bytes) -> Bytes {
    let n = bytes.len().min(MAX_UNDECODABLE);
    bytes.slice(..n)
}

/// Names another protocol that starts like this; its first bytes could pass for a PDU of some length.
fn foreign(start: &[u8]) -> Option<String> {
    match start {
        [0x14..=0x17, 3, 0..=4, ..] => Some("TLS records".to_owned()),
        [b'G', b'E', b'T', b' ', ..] | [b'H', b'T', b'T', b'P', ..] | [b'P', b'O', b'S', b'T', ..] => Some("HTTP".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pdu(plen: u32) -> Vec<u8> {
        let mut b = vec![5, 0, 24, 0];
        b.extend(plen.to_le_bytes());
        b.resize(plen as usize, 0xaa);
        b
    }

    fn run(f: impl FnOnce(&mut Stream, &mut dyn FnMut(EventKind))) -> Vec<EventKind> {
        let mut out = Vec::new();
        let mut s = Stream::default();
        f(&mut s, &mut |e| out.push(e));
        s.end(|e| out.push(e));
        out
    }

    #[test]
    fn a_gap_within_a_pdu_costs_that_pdu_only() {
        let out = run(|s, emit| {
            s.push(&pdu(100)[..40], &mut *emit);
            s.gap(50, &mut *emit);
            s.push(&[0xaa; 10], &mut *emit);
            s.push(&pdu(24), &mut *emit);
        });
        assert!(matches!(&out[0], EventKind::Undecodable { offset: 0, len: 40, .. }), "{out:?}");
        assert_eq!(out[1], EventKind::Gap { offset: 40, len: 50 });
        assert_eq!(out[2], EventKind::Pdu(pdu(24).into()));
        assert_eq!(out.len(), 3);
    }

    #[test]
    fn a_gap_over_a_header_loses_the_stream() {
        let out = run(|s, emit| {
            s.push(&pdu(24), &mut *emit);
            s.gap(4, &mut *emit);
            s.push(&pdu(24)[4..], &mut *emit);
        });
        assert_eq!(out[1], EventKind::Gap { offset: 24, len: 4 });
        assert!(matches!(&out[2], EventKind::Undecodable { offset: 28, len: 20, .. }), "{out:?}");
    }

    /// Three responses and noise, in which the second is found again wherever the gap ends and however the rest is cut.
    #[test]
    fn behind_a_gap_the_next_pdu_that_proves_itself_is_found() {
        let resp = pdu(24);
        let mut rest = vec![5u8, 0, 24, 9, 9, 5, 0, 24, 0, 7, 5];
        let noise = rest.len() as u64;
        rest.extend(&resp);
        rest.extend(&resp);
        for size in [1, 2, 5, 24, 35, 1000] {
            let out = run(|s, emit| {
                s.push(&resp, &mut *emit);
                s.gap(70_000, &mut *emit);
                rest.chunks(size).for_each(|piece| s.push(piece, &mut *emit));
            });
            let [first, gap, lost, a, b] = &out[..] else { panic!("pieces of {size}: {out:?}") };
            assert_eq!((first, a, b), (&EventKind::Pdu(resp.clone().into()), a, a));
            assert_eq!(*a, EventKind::Pdu(resp.clone().into()));
            assert_eq!(*gap, EventKind::Gap { offset: 24, len: 70_000 });
            assert!(matches!(lost, EventKind::Undecodable { offset: 70_024, len, .. } if *len == noise), "{lost:?}");
        }
    }

    #[test]
    fn a_capture_that_begins_in_the_middle_of_a_stream() {
        let out = run(|s, emit| {
            s.missed_start();
            s.push(&[0xaa; 1000], &mut *emit);
            s.push(&pdu(24), &mut *emit);
        });
        assert!(matches!(&out[0], EventKind::Undecodable { offset: 0, len: 1000, .. }), "{out:?}");
        assert_eq!(out[1..], [EventKind::Pdu(pdu(24).into())]);
    }

    #[test]
    fn lengths_that_cannot_be_framed_end_the_decoding() {
        for plen in [0u32, 7, u32::MAX] {
            let mut b = pdu(8);
            b[4..8].copy_from_slice(&plen.to_le_bytes());
            let out = run(|s, emit| {
                s.push(&pdu(24), &mut *emit);
                s.push(&b, &mut *emit);
                s.push(&[1, 2, 3], &mut *emit);
            });
            assert!(matches!(&out[2], EventKind::Undecodable { offset: 32, len: 3, .. }), "{out:?}");
            assert_eq!(out.len(), 3);
            match &out[1] {
                EventKind::Undecodable { offset: 24, len: 8, why, .. } => assert!(why.contains(&format!("PLEN {plen}")), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn tls_is_told_even_byte_by_byte() {
        let out = run(|s, emit| {
            for b in [0x16, 3, 1, 0, 4, 0, 0, 0, 1] {
                s.push(&[b], &mut *emit);
            }
        });
        assert!(matches!(&out[0], EventKind::Undecodable { offset: 0, len: 3, why, .. } if why.contains("TLS")), "{out:?}");
        assert!(matches!(&out[1], EventKind::Undecodable { offset: 3, len: 6, why, .. } if why.contains("TLS")), "{out:?}");
    }
}
