//! Whole Ethernet frames into a pcapng file, as they come.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::opt_common::CommonOption;

/// Writes frames that somebody else made, on any number of interfaces.
pub struct FrameWriter<W: Write> {
    file: PcapNgWriter<W>,
    interfaces: u32,
}

impl<W: Write> FrameWriter<W> {
    /// A file without interfaces and frames.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(Self { file: super::open(out)?, interfaces: 0 })
    }

    /// Adds an interface (if_name); its number is for [`FrameWriter::frame`].
    pub fn interface(&mut self, name: &str) -> io::Result<u32> {
        self.file.write_pcapng_block(super::interface(name)).map_err(io::Error::other)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Adds a frame: `parts` one behind the other, without FCS, seen at `at_ns`. An empty comment is none.
    pub fn frame(&mut self, interface: u32, at_ns: u64, parts: &[&[u8]], comment: &str) -> io::Result<()> {
        let bytes = parts.concat();
        let mut options = Vec::new();
        if !comment.is_empty() {
            options.push(EnhancedPacketOption::Common(CommonOption::Comment(Cow::Borrowed(comment))));
        }
        let packet = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: Duration::from_nanos(at_ns),
            original_len: bytes.len() as u32,
            data: Cow::Owned(bytes),
            options,
        };
        self.file.write_pcapng_block(packet).map_err(io::Error::other)?;
        Ok(())
    }

    /// The file behind it, with everything written.
    pub fn finish(self) -> io::Result<W> {
        let mut out = self.file.into_inner();
        out.flush()?;
        Ok(out)
    }
}
