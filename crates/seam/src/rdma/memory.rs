//! Memory that a NIC reads and writes without its host's CPU.

use bytes::{Bytes, BytesMut};

/// Where memory lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Memory of the host.
    #[default]
    Host,
    /// Memory of an accelerator, which a NIC reaches without going through the host's.
    Gpu,
}

#[derive(Clone, Debug)]
enum Buffer {
    /// To be read only.
    Shared(Bytes),
    Owned(BytesMut),
}

/// Memory to be registered. It is moved into the device and comes back by invalidation, so nobody else touches it meanwhile.
///
/// It counts the payload bytes that a CPU read or wrote: whoever copies, checks or fills with the CPU says so by [`Memory::touch`]. What
/// a NIC moves is not counted, and neither is making the memory or taking it apart.
#[derive(Clone, Debug)]
pub struct Memory {
    buffer: Buffer,
    place: Place,
    touched: u64,
}

impl Memory {
    /// Bytes to be read by the other side; not copied.
    pub fn shared(bytes: Bytes) -> Self {
        Self { buffer: Buffer::Shared(bytes), place: Place::Host, touched: 0 }
    }

    /// `len` zero bytes that the other side may read and write.
    pub fn zeroed(len: usize) -> Self {
        Self { buffer: Buffer::Owned(BytesMut::zeroed(len)), place: Place::Host, touched: 0 }
    }

    /// The same memory, said to lie at `place`.
    pub fn at(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// Where it lies.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// True where there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match &self.buffer {
            Buffer::Shared(b) => b,
            Buffer::Owned(b) => b,
        }
    }

    /// True for shared bytes, which cannot be written to.
    pub fn is_read_only(&self) -> bool {
        matches!(self.buffer, Buffer::Shared(_))
    }

    /// The bytes to write to; `None` for shared ones.
    pub fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        match &mut self.buffer {
            Buffer::Shared(_) => None,
            Buffer::Owned(b) => Some(b),
        }
    }

    /// The bytes from `at` on, `len` of them, to be sent: shared ones are not copied, as they cannot change. `None` out of bounds.
    pub fn slice(&self, at: usize, len: usize) -> Option<Bytes> {
        let end = at.checked_add(len)?;
        match &self.buffer {
            Buffer::Shared(b) => (end <= b.len()).then(|| b.slice(at..end)),
            Buffer::Owned(b) => b.get(at..end).map(Bytes::copy_from_slice),
        }
    }

    /// All bytes; not copied.
    pub fn into_bytes(self) -> Bytes {
        match self.buffer {
            Buffer::Shared(b) => b,
            Buffer::Owned(b) => b.freeze(),
        }
    }

    /// A CPU read or wrote so many payload bytes.
    pub fn touch(&mut self, bytes: usize) {
        self.touched = self.touched.saturating_add(bytes as u64);
    }

    /// Payload bytes that a CPU read or wrote.
    pub fn touched(&self) -> u64 {
        self.touched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_bytes_are_lent_and_owned_ones_copied() {
        let bytes = Bytes::from(vec![7; 4096]);
        let m = Memory::shared(bytes.clone());
        assert_eq!(m.slice(512, 8).unwrap().as_ptr(), bytes[512..].as_ptr());
        assert!(m.slice(4095, 2).is_none() && m.slice(usize::MAX, 2).is_none());
        let mut m = Memory::zeroed(16).at(Place::Gpu);
        m.as_mut_slice().unwrap()[3] = 9;
        assert_eq!((&m.slice(2, 2).unwrap()[..], m.place(), m.len()), (&[0, 9][..], Place::Gpu, 16));
        m.touch(16);
        assert_eq!((m.touched(), m.into_bytes().len()), (16, 16));
    }
}
