//! Capture files: pcap and pcapng, plain or in gzip, with the link types that NVMe/TCP is captured on.
//!
//! Entry: [`Capture::open`]. A file that ends in the middle of a record is read as far as it goes ([`Capture::notes`] says so).

use std::fmt;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::PcapNgReader;
use pcap_file::pcapng::blocks::block_common::Block;

use crate::exchange::{Connection, Exchange};
use crate::packet::{self, Link};
use crate::tcp::Reassembly;

/// Ports on which a connection is taken for NVMe/TCP even without an ICReq at its start.
pub const PORTS: [u16; 2] = [nvmf_wire::tcp::IO_PORT, nvmf_wire::tcp::DISCOVERY_PORT];

/// Longest packet record, bytes.
const MAX_RECORD: usize = 8 << 20;

/// A capture file, read.
#[derive(Clone, Debug)]
pub struct Capture {
    exchange: Exchange,
    packets: u64,
    others: usize,
    notes: Vec<String>,
}

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

impl Capture {
    /// Reads a file, whatever its name: the format is told from the first bytes.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        Self::read(BufReader::new(std::fs::File::open(path)?))
    }

    /// Reads a capture from a stream.
    pub fn read(mut reader: impl Read) -> Result<Self, CaptureError> {
        let mut magic = [0u8; 4];
        reader.read_exact(&mut magic).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => CaptureError::Format("it has less than 4 bytes".to_owned()),
            _ => CaptureError::Io(e),
        })?;
        let reader = Cursor::new(magic).chain(reader);
        match magic {
            [0x1f, 0x8b, ..] => {
                let mut inner = flate2::read::MultiGzDecoder::new(reader);
                let mut magic = [0u8; 4];
                inner.read_exact(&mut magic)?;
                Self::plain(magic, Cursor::new(magic).chain(inner))
            }
            _ => Self::plain(magic, reader),
        }
    }

    fn plain(magic: [u8; 4], reader: impl Read) -> Result<Self, CaptureError> {
        let mut sink = Sink::default();
        match u32::from_le_bytes(magic) {
            0x0a0d_0d0a => sink.pcapng(reader)?,
            0xa1b2_c3d4 | 0xd4c3_b2a1 | 0xa1b2_3c4d | 0x4d3c_b2a1 => sink.pcap(reader)?,
            other => return Err(CaptureError::Format(format!("it starts with {other:08x}"))),
        }
        let (connections, others) = sink.tcp.finish(&PORTS);
        Ok(Self { exchange: Exchange { connections }, packets: sink.packets, others, notes: sink.notes })
    }

    /// The NVMe/TCP connections, in the order in which they were opened.
    #[must_use]
    pub fn connections(&self) -> &[Connection] {
        &self.exchange.connections
    }

    /// The same as an exchange.
    #[must_use]
    pub fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// The same, taken out.
    #[must_use]
    pub fn into_exchange(self) -> Exchange {
        self.exchange
    }

    /// Packets read.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// TCP connections that carry something else.
    #[must_use]
    pub fn other_connections(&self) -> usize {
        self.others
    }

    /// What is odd about the file itself, such as an end in the middle of a record.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

#[derive(Default)]
struct Sink {
    tcp: Reassembly,
    packets: u64,
    notes: Vec<String>,
}

impl Sink {
    fn packet(&mut self, link: Link, at_ns: u64, frame: &[u8], orig_len: u32) {
        self.packets += 1;
        if let Some(s) = packet::segment(link, frame, orig_len as usize) {
            self.tcp.segment(at_ns, &s);
        }
    }

    fn pcap(&mut self, reader: impl Read) -> Result<(), CaptureError> {
        let mut reader = PcapReader::with_capacity(reader, MAX_RECORD).map_err(|e| CaptureError::Format(e.to_string()))?;
        let link = link_of(reader.header().datalink)?;
        while let Some(packet) = reader.next_packet() {
            match packet {
                Ok(p) => self.packet(link, p.timestamp().as_nanos() as u64, p.data(), p.orig_len()),
                Err(e) => {
                    self.notes.push(format!("after packet {}: {e}", self.packets));
                    break;
                }
            }
        }
        Ok(())
    }

    fn pcapng(&mut self, reader: impl Read) -> Result<(), CaptureError> {
        let mut reader = PcapNgReader::with_capacity(reader, MAX_RECORD).map_err(|e| CaptureError::Format(e.to_string()))?;
        let mut last_ns = 0;
        while let Some(block) = reader.next_block() {
            let (block, state) = match block {
                Ok(b) => b,
                Err(e) => {
                    self.notes.push(format!("after packet {}: {e}", self.packets));
                    break;
                }
            };
            let (interface, at_ns, data, orig_len) = match &block {
                Block::EnhancedPacket(p) => (p.interface_id, p.timestamp.as_nanos() as u64, &p.data, p.original_len),
                Block::SimplePacket(p) => (0, last_ns, &p.data, p.original_len),
                Block::InterfaceDescription(i) => {
                    if let Err(e) = link_of(i.linktype) {
                        self.notes.push(format!("an interface {e}; its packets are left out"));
                    }
                    continue;
                }
                _ => continue,
            };
            last_ns = at_ns;
            let link = state.interfaces().get(interface as usize).and_then(|i| link_of(i.linktype).ok());
            if let Some(link) = link {
                self.packet(link, at_ns, data, orig_len);
            }
        }
        Ok(())
    }
}

fn link_of(link: DataLink) -> Result<Link, CaptureError> {
    Ok(match link {
        DataLink::ETHERNET => Link::Ethernet,
        DataLink::LINUX_SLL => Link::Cooked,
        DataLink::LINUX_SLL2 => Link::Cooked2,
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => Link::Raw,
        DataLink::NULL | DataLink::LOOP => Link::Loopback,
        other => return Err(CaptureError::Link(format!("{other:?}"))),
    })
}
