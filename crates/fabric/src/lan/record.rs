//! What links carry, into a pcapng file.

use std::io::{self, Write};

use nvmf_capture::pcapng::FrameWriter;
use nvmf_seam::Instant;

use super::frame::Frame;
use super::link::Hit;

/// Where captures go.
pub type CaptureFile = Box<dyn Write + Send>;

/// A capture of any number of links. A frame is seen as its sender put it on the wire; its comment has the faults that hit it there.
pub(super) struct Recorder {
    file: FrameWriter<CaptureFile>,
    base_ns: u64,
    /// The first error; nothing is written after it.
    error: Option<io::Error>,
}

impl Recorder {
    pub fn new(file: CaptureFile, base_ns: u64) -> io::Result<Self> {
        Ok(Self { file: FrameWriter::new(file)?, base_ns, error: None })
    }

    pub fn interface(&mut self, name: &str) -> io::Result<u32> {
        self.file.interface(name)
    }

    pub fn frame(&mut self, interface: u32, now: Instant, frame: &Frame, hits: &[Hit]) {
        if self.error.is_some() {
            return;
        }
        let comment = hits.iter().map(Hit::to_string).collect::<Vec<_>>().join(", ");
        let at = self.base_ns.saturating_add(now.0);
        self.error = self.file.frame(interface, at, &frame.parts(), &comment).err();
    }

    pub fn finish(self) -> io::Result<()> {
        match self.error {
            Some(e) => Err(e),
            None => self.file.finish().map(drop),
        }
    }
}

impl core::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Recorder")
    }
}
