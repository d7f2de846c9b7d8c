//! Captures that real ones become by small changes, most of them where lengths and headers are.

use nvmf_capture::{Capture, pcapng};
use proptest::prelude::*;

/// A real capture, and where its records begin.
pub struct Base {
    pub bytes: Vec<u8>,
    pub records: Vec<usize>,
}

impl Base {
    /// From a pcap file of `captures/`.
    pub fn pcap(file: &str) -> Self {
        let bytes = unzipped(file);
        let mut records = Vec::new();
        let mut at = 24;
        while let Some(len) = bytes.get(at + 8..at + 12).and_then(|b| b.first_chunk::<4>()) {
            records.push(at);
            at += 16 + u32::from_le_bytes(*len) as usize;
        }
        assert_eq!(at, bytes.len(), "{file} is whole");
        Self { bytes, records }
    }

    /// The same as pcapng.
    pub fn pcapng(file: &str) -> Self {
        let capture = Capture::read(unzipped(file).as_slice()).expect("a capture");
        let mut bytes = Vec::new();
        pcapng::Writer::new().write(capture.exchange(), &mut bytes).expect("it can be written");
        Self::blocks(bytes)
    }

    /// From the blocks of a pcapng file.
    pub fn blocks(bytes: Vec<u8>) -> Self {
        let mut records = Vec::new();
        let mut at = 0;
        while let Some(len) = bytes.get(at + 4..at + 8).and_then(|b| b.first_chunk::<4>()) {
            records.push(at);
            at += u32::from_le_bytes(*len) as usize;
        }
        Self { bytes, records }
    }
}

impl Base {
    /// Its first records alone.
    pub fn start(mut self, records: usize) -> Self {
        let end = self.records.get(records).copied().unwrap_or(self.bytes.len());
        self.bytes.truncate(end);
        self.records.truncate(records);
        self
    }
}

/// A file of `captures/`, decompressed.
pub fn unzipped(file: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../captures").join(file);
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).expect("a capture");
    std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(file), &mut bytes).expect("gzip");
    bytes
}

/// Where a change is made.
#[derive(Clone, Copy, Debug)]
pub enum At {
    /// Anywhere, as a part of 65536 of the file.
    Part(u16),
    /// In a record, as a part of 65536 of them, so many bytes behind its beginning.
    Record(u16, u8),
}

/// One change.
#[derive(Clone, Debug)]
pub enum Change {
    Flip(At, u8),
    Byte(At, u8),
    /// A length that nobody expects, as 2 or 4 bytes, little-endian or big-endian.
    Number(At, u32, bool, bool),
    Cut(At, u16),
    Again(At, u16),
    Swap(At, At, u16),
    Insert(At, Vec<u8>),
    End(At),
}

const LENGTHS: [u32; 16] =
    [0, 1, 3, 7, 8, 23, 24, 127, 0xffff, 0x1_0000, 0x10_0000, 0x0400_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_fff0, 0xffff_ffff];

fn place() -> impl Strategy<Value = At> {
    prop_oneof![
        1 => any::<u16>().prop_map(At::Part),
        // Of a frame with Ethernet, IP and TCP the first PDU begins at byte 70 to 90 of its record.
        3 => (any::<u16>(), 0..110u8).prop_map(|(r, o)| At::Record(r, o)),
    ]
}

/// One to five changes.
pub fn changes() -> impl Strategy<Value = Vec<Change>> {
    let length = prop_oneof![proptest::sample::select(&LENGTHS[..]), any::<u32>()];
    let one = prop_oneof![
        3 => (place(), 0..8u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        3 => (place(), any::<u8>()).prop_map(|(at, b)| Change::Byte(at, b)),
        4 => (place(), length, any::<bool>(), any::<bool>()).prop_map(|(at, n, short, big)| Change::Number(at, n, short, big)),
        1 => (place(), any::<u16>()).prop_map(|(at, n)| Change::Cut(at, n)),
        1 => (place(), any::<u16>()).prop_map(|(at, n)| Change::Again(at, n)),
        1 => (place(), place(), any::<u16>()).prop_map(|(a, b, n)| Change::Swap(a, b, n)),
        1 => (place(), proptest::collection::vec(any::<u8>(), 1..40)).prop_map(|(at, b)| Change::Insert(at, b)),
        1 => place().prop_map(Change::End),
    ];
    proptest::collection::vec(one, 1..6)
}

impl At {
    fn of(self, base: &Base, len: usize) -> usize {
        let part = |of: usize, n: u16| of * usize::from(n) / 65536;
        let at = match self {
            Self::Part(n) => part(base.bytes.len(), n),
            Self::Record(n, offset) => base.records.get(part(base.records.len(), n)).map_or(0, |r| r + usize::from(offset)),
        };
        at.min(len.saturating_sub(1))
    }
}

/// The base with the changes made, one after the other.
pub fn changed(base: &Base, changes: &[Change]) -> Vec<u8> {
    let mut b = base.bytes.clone();
    for change in changes {
        let at = |at: &At| at.of(base, b.len());
        if b.is_empty() {
            break;
        }
        match change {
            Change::Flip(place, bit) => {
                let at = at(place);
                b[at] ^= 1 << bit;
            }
            Change::Byte(place, byte) => {
                let at = at(place);
                b[at] = *byte;
            }
            Change::Number(place, n, short, big) => {
                let at = at(place);
                let bytes: Vec<u8> = match (short, big) {
                    (false, false) => n.to_le_bytes().to_vec(),
                    (false, true) => n.to_be_bytes().to_vec(),
                    (true, false) => (*n as u16).to_le_bytes().to_vec(),
                    (true, true) => (*n as u16).to_be_bytes().to_vec(),
                };
                b.iter_mut().skip(at).zip(bytes).for_each(|(d, s)| *d = s);
            }
            Change::Cut(place, n) => {
                let at = at(place);
                b.drain(at..(at + usize::from(*n)).min(b.len()));
            }
            Change::Again(place, n) => {
                let at = at(place);
                let piece = b[at..(at + usize::from(*n)).min(b.len())].to_vec();
                b.splice(at..at, piece);
            }
            Change::Swap(one, other, n) => {
                let (one, other) = (at(one), at(other));
                for i in 0..usize::from(*n).min(b.len() - one.max(other)) {
                    b.swap(one + i, other + i);
                }
            }
            Change::Insert(place, bytes) => {
                let at = at(place);
                b.splice(at..at, bytes.iter().copied());
            }
            Change::End(place) => {
                let at = at(place);
                b.truncate(at);
            }
        }
    }
    b
}
