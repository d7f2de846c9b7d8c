//! Capture files: pcap and pcapng, plain or in gzip, with the link types that NVMe-oF is captured on.
//!
//! [`read`] takes frames out of a stream as they come; a file that ends in the middle of a record is read as far as it goes.

use std::fmt;
use std::io::{BufReader, Cursor, Read};

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::block_common::Block;
use pcap_file::{DataLink, Endianness};

use crate::packet::Link;

/// Longest packet record, bytes.
const MAX_RECORD: usize = 8 << 20;

/// Most interfaces of a section.
const MAX_INTERFACES: usize = 65_536;

/// Type of the pcapng block that holds secrets, and the kind of secrets that is used here. [pcapng, 4.7]
const DECRYPTION_SECRETS: u32 = 0x0a;
const TLS_KEY_LOG: u32 = 0x544c_534b;

/// Why a capture file cannot be read.
#[derive(Debug)]
pub enum CaptureError {
    /// The file cannot be read or decompressed.
    Io(std::io::Error),
    /// It is neither pcap nor pcapng, or its header is broken.
    Format(String),
    /// It holds no frames of a link type known here.
    Link(String),
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(e) => write!(f, "cannot be read: {e}"),
            Self::Format(why) => write!(f, "is no capture file: {why}"),
            Self::Link(what) => write!(f, "has link type {what}, which is not known here"),
        }
    }
}

impl std::error::Error for CaptureError {}

impl From<std::io::Error> for CaptureError {
    fn from(e: std::io::Error) -> Self {
        Self::Io(e)
    }
}

/// One captured frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    /// From 1, as Wireshark counts.
    pub(crate) number: u64,
    /// Nanoseconds since the epoch.
    pub(crate) at_ns: u64,
    pub(crate) link: Link,
    pub(crate) bytes: &'a [u8],
    /// Length on the wire, bytes.
    pub(crate) original_len: usize,
}

/// Takes what a file holds.
pub(crate) trait Frames {
    fn frame(&mut self, frame: &Frame<'_>);
    /// Secrets of TLS connections, which come before the frames that need them.
    fn key_log(&mut self, text: &[u8]) -> Result<(), String>;
    /// Something odd about the file.
    fn note(&mut self, note: &str);
}

/// Reads a capture from a stream to its end, and says how many frames it has.
pub(crate) fn read(mut reader: impl Read, sink: &mut dyn Frames) -> Result<u64, CaptureError> {
    let mut magic = [0u8; 4];
    reader.read_exact(&mut magic).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => CaptureError::Format("it has less than 4 bytes".to_owned()),
        _ => CaptureError::Io(e),
    })?;
    let reader = Cursor::new(magic).chain(reader);
    match magic {
        [0x1f, 0x8b, ..] => {
            let mut inner = flate2::read::MultiGzDecoder::new(BufReader::new(reader));
            let mut magic = [0u8; 4];
            inner.read_exact(&mut magic)?;
            plain(magic, Cursor::new(magic).chain(inner), sink)
        }
        _ => plain(magic, reader, sink),
    }
}

fn plain(magic: [u8; 4], reader: impl Read, sink: &mut dyn Frames) -> Result<u64, CaptureError> {
    match u32::from_le_bytes(magic) {
        0x0a0d_0d0a => pcapng(reader, sink),
        0xa1b2_c3d4 | 0xd4c3_b2a1 | 0xa1b2_3c4d | 0x4d3c_b2a1 => pcap(reader, sink),
        other => Err(CaptureError::Format(format!("it starts with {other:08x}"))),
    }
}

/// Reads little at a time: the buffer of [`MAX_RECORD`] is filled as far as a read goes, and what lies in a cache is read again for
/// nothing.
struct Sips<R>(R);

/// Most bytes of one read.
const SIP: usize = 128 << 10;

impl<R: Read> Read for Sips<R> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let most = buf.len().min(SIP);
        self.0.read(buf.get_mut(..most).unwrap_or_default())
    }
}

fn pcap(reader: impl Read, sink: &mut dyn Frames) -> Result<u64, CaptureError> {
    let mut reader = PcapReader::with_capacity(Sips(reader), MAX_RECORD).map_err(|e| CaptureError::Format(e.to_string()))?;
    let link = link_of(reader.header().datalink)?;
    // Where the next record starts: behind the file's header of 24 bytes, then 16 bytes and the data of each.
    let mut offset = 24;
    let mut number = 0;
    while let Some(packet) = reader.next_packet() {
        match packet {
            Ok(p) => {
                number += 1;
                offset += 16 + p.data().len() as u64;
                let (at_ns, original_len) = (p.timestamp().as_nanos() as u64, p.orig_len() as usize);
                sink.frame(&Frame { number, at_ns, link, bytes: p.data(), original_len });
            }
            Err(e) => {
                sink.note(&broken(number, offset, &e));
                break;
            }
        }
    }
    Ok(number)
}

fn pcapng(reader: impl Read, sink: &mut dyn Frames) -> Result<u64, CaptureError> {
    let mut reader = PcapNgReader::with_capacity(Sips(reader), MAX_RECORD).map_err(|e| CaptureError::Format(e.to_string()))?;
    let mut last_ns = 0;
    let mut number = 0;
    loop {
        let offset = reader.bytes_parsed();
        let Some(block) = reader.next_block() else { return Ok(number) };
        let (block, state) = match block {
            Ok(b) => b,
            Err(e) => {
                sink.note(&broken(number, offset, &e));
                return Ok(number);
            }
        };
        let (interface, at_ns, bytes, original_len) = match &block {
            Block::EnhancedPacket(p) => (p.interface_id, p.timestamp.as_nanos() as u64, &p.data, p.original_len),
            Block::Packet(p) => (p.interface_id.into(), p.timestamp.as_nanos() as u64, &p.data, p.original_len),
            Block::SimplePacket(p) => (0, last_ns, &p.data, p.original_len),
            Block::InterfaceDescription(i) => {
                if state.interfaces().len() > MAX_INTERFACES {
                    sink.note(&broken(number, offset, &format!("more than {MAX_INTERFACES} interfaces")));
                    return Ok(number);
                }
                if let Err(e) = link_of(i.linktype) {
                    sink.note(&format!("an interface {e}; its packets are left out"));
                }
                continue;
            }
            Block::Unknown(b) if b.type_ == DECRYPTION_SECRETS => {
                if let Err(e) = secrets(&b.value, state.endianness(), sink) {
                    sink.note(&format!("secrets at byte {offset}: {e}"));
                }
                continue;
            }
            _ => continue,
        };
        number += 1;
        last_ns = at_ns;
        let link = state.interfaces().get(interface as usize).and_then(|i| link_of(i.linktype).ok());
        if let Some(link) = link {
            sink.frame(&Frame { number, at_ns, link, bytes, original_len: original_len as usize });
        }
    }
}

/// A Decryption Secrets Block: what they are for, how long they are, and the secrets. [pcapng, 4.7]
fn secrets(block: &[u8], order: Endianness, sink: &mut dyn Frames) -> Result<(), String> {
    let word = |b: &[u8; 4]| if order == Endianness::Big { u32::from_be_bytes(*b) } else { u32::from_le_bytes(*b) };
    let (head, rest) = block.split_first_chunk::<8>().ok_or("a block without its head")?;
    let [kind, len] = [head.first_chunk().map_or(0, word), head.last_chunk().map_or(0, word)];
    if kind != TLS_KEY_LOG {
        return Ok(());
    }
    let text = rest.get(..len as usize).ok_or_else(|| format!("{len} bytes of secrets, {} are there", rest.len()))?;
    sink.key_log(text)
}

fn broken(frames: u64, offset: u64, why: &dyn fmt::Display) -> String {
    format!("after frame {frames}, at byte {offset}: {why}; what comes behind is not read")
}

fn link_of(link: DataLink) -> Result<Link, CaptureError> {
    Ok(match link {
        DataLink::ETHERNET => Link::Ethernet,
        DataLink::LINUX_SLL => Link::Cooked,
        DataLink::LINUX_SLL2 => Link::Cooked2,
        // 12 and 14 are what some systems call raw IP inside; files of theirs have it too.
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 | DataLink::Unknown(12 | 14) => Link::Raw,
        DataLink::NULL | DataLink::LOOP => Link::Loopback,
        other => return Err(CaptureError::Link(format!("{other:?}"))),
    })
}
