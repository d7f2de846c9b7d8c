//! What waits to be written to a socket: PDUs as the engine gave them, head, payload and digest apart.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::Bytes;
use nvmf_seam::{Head, Transmit};
use tokio::net::TcpStream;

/// PDUs in order. One vectored write sends many; a payload is never copied (design invariant I4).
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<Transmit>,
    /// Bytes of the first PDU that were written.
    written: usize,
    len: usize,
}

/// Slices of one write.
const SLICES: usize = 64;

impl Outbox {
    /// Bytes from which on nothing more is asked of the engine.
    pub const FULL: usize = 512 * 1024;

    pub fn push(&mut self, t: Transmit) {
        self.len += t.len();
        self.queue.push_back(t);
    }

    pub fn push_bytes(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.push(Transmit { head: Head::new(&[]), payload: bytes, digest: None });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.len >= Self::FULL
    }

    /// Writes what the socket takes. True where everything was written.
    pub fn write(&mut self, stream: &TcpStream) -> io::Result<bool> {
        while !self.queue.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let n = self.gather(&mut slices);
            match stream.try_write_vectored(slices.get(..n).unwrap_or(&[])) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.advance(n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        let mut skip = self.written;
        let mut n = 0;
        let parts =
            self.queue.iter().flat_map(|t| [t.head.as_slice(), &t.payload[..], t.digest.as_ref().map_or(&[][..], |d| &d[..])]);
        for part in parts {
            if n == SLICES {
                break;
            }
            let from = skip.min(part.len());
            skip -= from;
            if from < part.len()
                && let Some(slot) = slices.get_mut(n)
            {
                *slot = IoSlice::new(&part[from..]);
                n += 1;
            }
        }
        n
    }

    fn advance(&mut self, n: usize) {
        self.written += n;
        self.len -= n;
        while let Some(first) = self.queue.front()
            && self.written >= first.len()
        {
            self.written -= first.len();
            self.queue.pop_front();
        }
    }
}
