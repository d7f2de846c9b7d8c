//! Writes an [`Exchange`] as pcapng with synthetic Ethernet, IP and TCP headers, so that Wireshark can open it.
//!
//! Handshake, sequence and acknowledgement numbers, checksums, FIN and RST are those that a lossless network would have shown; each
//! chunk starts a new segment, long ones are cut at the MSS. Times have nanoseconds. Of connections over RDMA the IP packets are written as
//! they were recorded live ([`crate::live`]); what was read from a capture has its frames there. Read [`Writer`]; [`FrameWriter`] is for
//! who has whole frames.

mod frames;

use std::borrow::Cow;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use etherparse::{PacketBuilder, TcpOptionElement};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness};

pub use frames::FrameWriter;

use crate::exchange::{Connection, Direction, EventKind, Exchange, Transport};

/// How an exchange is written.
#[derive(Clone, Debug)]
pub struct Writer {
    base_ns: u64,
    mss: usize,
    comment: String,
}

impl Default for Writer {
    fn default() -> Self {
        Self { base_ns: 0, mss: 1460, comment: String::new() }
    }
}

impl Writer {
    /// Segments of 1460 bytes, times as they are, no comment.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `base_ns` nanoseconds to every time, so that a run's clock becomes one since 1970.
    #[must_use]
    pub fn at(mut self, base_ns: u64) -> Self {
        self.base_ns = base_ns;
        self
    }

    /// Cuts segments at `mss` bytes, from 1 to 65000.
    #[must_use]
    pub fn mss(mut self, mss: usize) -> Self {
        self.mss = mss.clamp(1, 65_000);
        self
    }

    /// Puts a comment on every packet, such as the id of the check.
    #[must_use]
    pub fn comment(mut self, comment: impl Into<String>) -> Self {
        self.comment = comment.into();
        self
    }

    /// Writes the file.
    pub fn write(&self, exchange: &Exchange, out: impl Write) -> io::Result<()> {
        let mut file = open(out)?;
        file.write_pcapng_block(interface("")).map_err(io::Error::other)?;

        let mut frames = Vec::new();
        for (i, connection) in exchange.connections.iter().enumerate() {
            match connection.transport {
                Transport::Tcp => self.frames(i, connection, &mut frames)?,
                Transport::Rdma => frames.extend(packets(i, connection)),
            }
        }
        frames.sort_by_key(|f| f.at_ns);
        for f in frames {
            let mut options = Vec::new();
            if !self.comment.is_empty() {
                options.push(EnhancedPacketOption::Common(CommonOption::Comment(Cow::Borrowed(&self.comment))));
            }
            let packet = EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::from_nanos(self.base_ns.saturating_add(f.at_ns)),
                original_len: f.bytes.len() as u32,
                data: Cow::Owned(f.bytes),
                options,
            };
            file.write_pcapng_block(packet).map_err(io::Error::other)?;
        }
        file.into_inner().flush()
    }

    fn frames(&self, index: usize, connection: &Connection, out: &mut Vec<Frame>) -> io::Result<()> {
        let mut tcp = Tcp::new(index, self.mss, connection);
        tcp.handshake(connection.opened_ns, out)?;
        for step in steps(connection) {
            match step {
                Step::Bytes { at_ns, dir, bytes } => {
                    for piece in bytes.chunks(self.mss) {
                        tcp.segment(at_ns, dir, Flags::Data, piece, out)?;
                    }
                }
                Step::Gap { dir, len } => tcp.advance(dir, len),
                Step::Close { at_ns, dir, reset } => {
                    tcp.segment(at_ns, dir, if reset { Flags::Rst } else { Flags::Fin }, &[], out)?;
                }
            }
        }
        Ok(())
    }
}

/// A file with its section header.
fn open<W: Write>(out: W) -> io::Result<PcapNgWriter<W>> {
    let section = SectionHeaderBlock {
        endianness: Endianness::Little,
        options: vec![SectionHeaderOption::UserApplication(Cow::Borrowed("nvmfspec"))],
        ..SectionHeaderBlock::default()
    };
    PcapNgWriter::with_section_header(out, section).map_err(io::Error::other)
}

/// An Ethernet interface whose times have nanoseconds, with a name where there is one.
fn interface(name: &str) -> InterfaceDescriptionBlock<'_> {
    let mut interface = InterfaceDescriptionBlock::new(DataLink::ETHERNET, 0);
    if !name.is_empty() {
        interface.options.push(InterfaceDescriptionOption::IfName(Cow::Borrowed(name)));
    }
    interface.options.push(InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO));
    interface
}

/// An address for an end of a connection.
fn mac(index: usize, end: usize) -> [u8; 6] {
    [2, 0, 0, 0, (index >> 7) as u8, ((index << 1) as u8) | end as u8]
}

/// The IP packets of a connection over RDMA, in frames.
fn packets(index: usize, connection: &Connection) -> impl Iterator<Item = Frame> {
    connection.chunks.iter().map(move |c| {
        let (me, peer) = (c.dir.index(), c.dir.reverse().index());
        let ether_type: [u8; 2] = if c.bytes.first().is_some_and(|b| b >> 4 == 6) { [0x86, 0xdd] } else { [0x08, 0x00] };
        let bytes = [&mac(index, peer)[..], &mac(index, me), &ether_type, &c.bytes].concat();
        Frame { at_ns: c.at_ns, bytes }
    })
}

struct Frame {
    at_ns: u64,
    bytes: Vec<u8>,
}

enum Step<'a> {
    Bytes { at_ns: u64, dir: Direction, bytes: &'a [u8] },
    Gap { dir: Direction, len: u64 },
    Close { at_ns: u64, dir: Direction, reset: bool },
}

/// Chunks, gaps and closes in one order: by time, within one direction by place in the stream.
fn steps(connection: &Connection) -> Vec<Step<'_>> {
    let mut out: Vec<(u64, u8, Step<'_>)> = Vec::new();
    let mut gaps: [Vec<(u64, u64)>; 2] = [Vec::new(), Vec::new()];
    for e in &connection.events {
        match e.kind {
            EventKind::Gap { offset, len } => gaps[e.dir.index()].push((offset, len)),
            EventKind::Closed { reset } => {
                out.push((e.at_ns, 1 + u8::from(reset), Step::Close { at_ns: e.at_ns, dir: e.dir, reset }));
            }
            EventKind::Pdu(_) | EventKind::Undecodable { .. } | EventKind::Tls(_) | EventKind::Packet(_) | EventKind::Rdma(_) => {}
        }
    }
    let mut at = [0u64; 2];
    let mut next_gap = [0usize; 2];
    for c in &connection.chunks {
        let d = c.dir.index();
        while let Some((_, len)) = gaps[d].get(next_gap[d]).filter(|(offset, _)| *offset == at[d]) {
            out.push((c.at_ns, 0, Step::Gap { dir: c.dir, len: *len }));
            at[d] += len;
            next_gap[d] += 1;
        }
        out.push((c.at_ns, 0, Step::Bytes { at_ns: c.at_ns, dir: c.dir, bytes: &c.bytes }));
        at[d] += c.bytes.len() as u64;
    }
    out.sort_by_key(|(at_ns, rank, _)| (*at_ns, *rank));
    out.into_iter().map(|(_, _, step)| step).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flags {
    Syn,
    SynAck,
    Ack,
    Data,
    Fin,
    Rst,
}

/// The two ends of a synthetic connection.
struct Tcp {
    index: usize,
    mss: u16,
    ends: [std::net::SocketAddr; 2],
    /// Next sequence number of each end.
    seq: [u32; 2],
}

impl Tcp {
    fn new(index: usize, mss: usize, connection: &Connection) -> Self {
        Self { index, mss: mss as u16, ends: [connection.client, connection.server], seq: [0x1000_0000, 0x2000_0000] }
    }

    fn handshake(&mut self, at_ns: u64, out: &mut Vec<Frame>) -> io::Result<()> {
        self.segment(at_ns, Direction::HostToController, Flags::Syn, &[], out)?;
        self.segment(at_ns, Direction::ControllerToHost, Flags::SynAck, &[], out)?;
        self.segment(at_ns, Direction::HostToController, Flags::Ack, &[], out)
    }

    fn advance(&mut self, dir: Direction, len: u64) {
        let seq = &mut self.seq[dir.index()];
        *seq = seq.wrapping_add(len as u32);
    }

    fn segment(&mut self, at_ns: u64, dir: Direction, flags: Flags, payload: &[u8], out: &mut Vec<Frame>) -> io::Result<()> {
        let (me, peer) = (dir.index(), dir.reverse().index());
        let (from, to) = (self.ends[me], self.ends[peer]);
        let link = PacketBuilder::ethernet2(mac(self.index, me), mac(self.index, peer));
        let ip = match (from.ip(), to.ip()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => link.ipv4(a.octets(), b.octets(), 64),
            (a, b) => link.ipv6(v6(a).octets(), v6(b).octets(), 64),
        };
        let tcp = ip.tcp(from.port(), to.port(), self.seq[me], 65_535);
        let tcp = match flags {
            Flags::Syn => tcp.syn(),
            Flags::SynAck => tcp.syn().ack(self.seq[peer]),
            Flags::Ack => tcp.ack(self.seq[peer]),
            Flags::Data => tcp.ack(self.seq[peer]).psh(),
            Flags::Fin => tcp.ack(self.seq[peer]).fin(),
            Flags::Rst => tcp.ack(self.seq[peer]).rst(),
        };
        // With the window scaled, no transfer looks as if it had overrun its receiver.
        let tcp = match flags {
            Flags::Syn | Flags::SynAck => {
                let options = [TcpOptionElement::MaximumSegmentSize(self.mss), TcpOptionElement::WindowScale(14)];
                tcp.options(&options).map_err(io::Error::other)?
            }
            _ => tcp,
        };
        let mut bytes = Vec::with_capacity(tcp.size(payload.len()));
        tcp.write(&mut bytes, payload).map_err(io::Error::other)?;
        let taken = matches!(flags, Flags::Syn | Flags::SynAck | Flags::Fin);
        self.advance(dir, payload.len() as u64 + u64::from(taken));
        out.push(Frame { at_ns, bytes });
        Ok(())
    }
}

fn v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(a) => a.to_ipv6_mapped(),
        IpAddr::V6(a) => a,
    }
}
