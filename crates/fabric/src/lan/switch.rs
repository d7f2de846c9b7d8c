//! [`Switch`]: where a frame goes, and what it may take of the buffers.

use std::collections::BTreeMap;

use nvmf_seam::{Entropy, SplitMix64};

use super::frame::Mac;
use super::link::PerMillion;

/// When a queue marks Congestion Experienced, by its bytes: never below `min`, a rising part up to `most` at `max`, beyond it always.
/// [RFC 3168; the parameters of DCQCN]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnSettings {
    /// Bytes.
    pub min: u32,
    /// Bytes.
    pub max: u32,
    /// At `max`.
    pub most: PerMillion,
}

/// When a switch asks the other end of a port to be silent, by the bytes that it holds of what came in there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcSettings {
    /// Priorities without loss, bit 0 for priority 0.
    pub lossless: u8,
    /// Above so many bytes a pause is asked for.
    pub xoff: u32,
    /// At so many bytes it ends.
    pub xon: u32,
    /// Taken beyond `xoff`, for what is on its way until the other end is silent, bytes.
    pub headroom: u32,
    /// Length of a pause, in quanta of 512 bit times; it is asked for again while it lasts.
    pub quanta: u16,
}

impl Default for PfcSettings {
    /// Priority 3, 96 KiB, half of it, 96 KiB more, the longest pause.
    fn default() -> Self {
        Self { lossless: 1 << 3, xoff: 96 << 10, xon: 48 << 10, headroom: 96 << 10, quanta: u16::MAX }
    }
}

/// How a switch is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchSettings {
    /// Bytes of each queue of a port; what exceeds it is dropped, but in lossless priorities.
    pub queue: u32,
    /// Marking; none without.
    pub ecn: Option<EcnSettings>,
    /// Pauses; none without.
    pub pfc: Option<PfcSettings>,
    /// Entries of its table of MAC addresses.
    pub macs: usize,
    /// It learns addresses and sends what it does not know everywhere. Without, only static entries lead anywhere.
    pub learns: bool,
}

impl Default for SwitchSettings {
    /// 512 KiB a queue, neither ECN nor PFC, 1,024 addresses.
    fn default() -> Self {
        Self { queue: 512 << 10, ecn: None, pfc: None, macs: 1024, learns: true }
    }
}

#[derive(Debug)]
pub(super) struct Switch {
    pub settings: SwitchSettings,
    /// Its ports, by number.
    pub ports: Vec<u32>,
    table: BTreeMap<Mac, Entry>,
    random: SplitMix64,
}

#[derive(Debug)]
struct Entry {
    port: u32,
    fixed: bool,
}

/// Where a frame goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    Port(u32),
    /// To all ports but the one that it came from.
    Flood,
    Nowhere,
}

impl Switch {
    pub fn new(settings: SwitchSettings, seed: u64) -> Self {
        Self { settings, ports: Vec::new(), table: BTreeMap::new(), random: SplitMix64::new(seed) }
    }

    /// A static entry.
    pub fn route(&mut self, to: Mac, port: u32) {
        self.table.insert(to, Entry { port, fixed: true });
    }

    /// A frame came in from `from`. Where the table is full nothing is learnt.
    pub fn learn(&mut self, from: Mac, port: u32) {
        let room = self.table.len() < self.settings.macs;
        if !self.settings.learns || from[0] & 1 == 1 {
            return;
        }
        match self.table.get_mut(&from) {
            Some(e) if e.fixed => {}
            Some(e) => e.port = port,
            None if room => {
                self.table.insert(from, Entry { port, fixed: false });
            }
            None => {}
        }
    }

    pub fn way(&self, to: Mac, came_in: u32) -> Way {
        match self.table.get(&to) {
            Some(e) if e.port == came_in => Way::Nowhere,
            Some(e) => Way::Port(e.port),
            None if self.settings.learns => Way::Flood,
            None => Way::Nowhere,
        }
    }

    /// Whether a frame for a queue with so many bytes is to be marked.
    pub fn marks(&mut self, queued: u32) -> bool {
        match self.settings.ecn {
            Some(e) if queued > e.max => true,
            Some(e) if queued > e.min => {
                let part = u64::from(queued - e.min) * u64::from(e.most.0) / u64::from((e.max - e.min).max(1));
                self.random.below(1_000_000) < part
            }
            _ => false,
        }
    }

    /// The settings of pauses where a priority is without loss.
    pub fn lossless(&self, priority: u8) -> Option<PfcSettings> {
        self.settings.pfc.filter(|p| p.lossless >> (priority & 7) & 1 == 1)
    }
}
