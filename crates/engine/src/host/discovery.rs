//! Reading a discovery log consistently: header, entries in parts, header again. [Base 2.0, 5.16.1.23; DISC-LOG-02, DISC-LOG-04]

use core::fmt;

use nvmf_wire::admin::LogPage;
use nvmf_wire::log::discovery::{DiscoveryEntry, DiscoveryHeader};
use nvmf_wire::{Sqe, Status};

use super::command::get_log_page;
use super::{Completion, Payload};

/// A discovery log as it was at one generation.
#[derive(Clone, Debug)]
pub struct DiscoveryLog {
    /// The header.
    pub header: DiscoveryHeader,
    /// The entries, in no order that means anything. [DISC-CTRL-24]
    pub entries: Vec<DiscoveryEntry>,
}

/// Why a discovery log could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryError {
    /// A Get Log Page failed.
    Status(Status),
    /// The log changed again and again while it was read.
    Changing {
        /// How often it was read.
        reads: u32,
    },
    /// A record format that this host does not know.
    Format(u16),
    /// More entries than this host holds.
    TooMany(u64),
}

impl fmt::Display for DiscoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(s) => write!(f, "Get Log Page failed with {}", s.show(true)),
            Self::Changing { reads } => write!(f, "the discovery log changed during each of {reads} reads"),
            Self::Format(n) => write!(f, "the discovery log has record format {n}"),
            Self::TooMany(n) => write!(f, "the discovery log announces {n} entries, more than can be read here"),
        }
    }
}

impl std::error::Error for DiscoveryError {}

/// Most entries that are held: 4 MiB.
pub const MAX_ENTRIES: u64 = 4096;
/// Most entries behind the header in one read of 2^12 dwords.
const AT_ONCE: u64 = 15;
/// Times that a log that changes is read before giving up.
const READS: u32 = 8;
/// Bytes read at once: below every MDTS.
const PART: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Header,
    Entries,
    Check,
}

/// Reads log page 70h: send [`Self::request`], give the completion to [`Self::handle`], until it gives the log.
#[derive(Debug)]
pub struct LogReader {
    /// The controller knows offsets (LPA bit 2); without them the whole log is read at once.
    offsets: bool,
    stage: Stage,
    reads: u32,
    header: DiscoveryHeader,
    entries: Vec<DiscoveryEntry>,
}

impl LogReader {
    /// From the start. `offsets` is LPA bit 2 of Identify Controller.
    pub fn new(offsets: bool) -> Self {
        Self { offsets, stage: Stage::Header, reads: 1, header: DiscoveryHeader::new(), entries: Vec::new() }
    }

    /// The next command. Only the last read clears the event (RAE 0), so that a change meanwhile is not lost.
    pub fn request(&self) -> (Sqe, Payload) {
        let (offset, len, retain) = match self.stage {
            Stage::Header => (0, DiscoveryHeader::LEN as u64, true),
            Stage::Check => (0, DiscoveryHeader::LEN as u64, false),
            Stage::Entries if self.offsets => (self.offset(), (self.end() - self.offset()).min(PART), true),
            Stage::Entries => (0, self.end(), true),
        };
        (get_log_page(LogPage::DISCOVERY, offset, len as u32, retain), Payload::In(len as u32))
    }

    /// Takes the answer to [`Self::request`]: the whole log at last, `None` while there is more to ask.
    pub fn handle(&mut self, answer: &Completion) -> Result<Option<DiscoveryLog>, DiscoveryError> {
        let status = answer.status();
        if status.code() == Status::DISCOVER_RESTART {
            return self.restart();
        }
        if !status.is_success() {
            return Err(DiscoveryError::Status(status));
        }
        let data = answer.data.to_bytes();
        match self.stage {
            Stage::Entries => self.take_entries(&data),
            stage => {
                let Ok(header) = DiscoveryHeader::read(&data) else {
                    return Err(DiscoveryError::Status(Status::DATA_TRANSFER_ERROR));
                };
                if stage == Stage::Check && header.genctr() == self.header.genctr() {
                    return Ok(Some(DiscoveryLog { header, entries: core::mem::take(&mut self.entries) }));
                }
                if stage == Stage::Check {
                    return self.restart();
                }
                self.take_header(header)
            }
        }
    }

    fn take_header(&mut self, header: DiscoveryHeader) -> Result<Option<DiscoveryLog>, DiscoveryError> {
        if header.recfmt() != 0 {
            return Err(DiscoveryError::Format(header.recfmt()));
        }
        // Without offsets NUMD has 12 bits as well. [Base 2.0, 5.16, Figure 195]
        if header.numrec() > if self.offsets { MAX_ENTRIES } else { AT_ONCE } {
            return Err(DiscoveryError::TooMany(header.numrec()));
        }
        self.header = header;
        self.stage = if header.numrec() == 0 { Stage::Check } else { Stage::Entries };
        Ok(None)
    }

    fn take_entries(&mut self, data: &[u8]) -> Result<Option<DiscoveryLog>, DiscoveryError> {
        let entries = if self.offsets { data } else { data.get(DiscoveryHeader::LEN..).unwrap_or(&[]) };
        let (whole, _) = entries.as_chunks::<{ DiscoveryEntry::LEN }>();
        let missing = (self.header.numrec() as usize).saturating_sub(self.entries.len());
        if whole.is_empty() || !self.offsets && whole.len() < missing {
            return Err(DiscoveryError::Status(Status::DATA_TRANSFER_ERROR));
        }
        self.entries.extend(whole.iter().take(missing).map(|e| DiscoveryEntry::from_bytes(*e)));
        if self.entries.len() as u64 >= self.header.numrec() {
            self.stage = Stage::Check;
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<Option<DiscoveryLog>, DiscoveryError> {
        if self.reads >= READS {
            return Err(DiscoveryError::Changing { reads: self.reads });
        }
        self.reads += 1;
        self.stage = Stage::Header;
        self.entries.clear();
        Ok(None)
    }

    fn offset(&self) -> u64 {
        (DiscoveryHeader::LEN + self.entries.len() * DiscoveryEntry::LEN) as u64
    }

    fn end(&self) -> u64 {
        DiscoveryHeader::LEN as u64 + self.header.numrec() * DiscoveryEntry::LEN as u64
    }
}
