//! A controller of a few lines that answers each command with what the test says.

use std::time::Duration;

use nvmf_engine::host::{Association, Event, HostError, HostSettings};
use nvmf_seam::Instant;
use nvmf_wire::{IdentifyController, Qid};

use super::{icresp, pdu, resp};

/// A command as the controller sees it: queue, opcode, FCTYPE, byte 44 of the SQE (OFST of a property), the SQE.
#[derive(Clone, Debug)]
pub struct Seen {
    pub qid: u16,
    pub opc: u8,
    pub fctype: u8,
    pub sqe: Vec<u8>,
}

impl Seen {
    pub fn is_property(&self, fctype: u8, offset: u8) -> bool {
        self.opc == 0x7f && self.fctype == fctype && self.sqe[44] == offset
    }
}

/// What it answers: dword 0 and 1, and a status; or nothing.
pub type Answer = Option<(u64, u16)>;
pub type Oddity = Box<dyn FnMut(&Seen) -> Option<Answer>>;
pub struct Rig {
    pub host: Association,
    pub now: Instant,
    /// Answers that differ from those of a plain controller.
    pub odd: Oddity,
    pub seen: Vec<Seen>,
    pub sqhd: [u16; 4],
    pub enabled: bool,
    pub shut: bool,
    pub identify: IdentifyController,
    pub events: Vec<Event>,
}

pub fn settings() -> HostSettings {
    HostSettings::new("nqn.2014-08.org.example:host", [1; 16], "nqn.2014-08.org.example:subsystem")
}

impl Rig {
    pub fn new(settings: HostSettings, odd: impl FnMut(&Seen) -> Option<Answer> + 'static) -> Self {
        Self {
            host: Association::new(settings),
            now: Instant(0),
            odd: Box::new(odd),
            seen: Vec::new(),
            sqhd: [0; 4],
            enabled: false,
            shut: false,
            identify: IdentifyController::new().with(|s| s.ioccsz(4).iorcsz(1).sgls_support(1).sgls_offset(true)),
            events: Vec::new(),
        }
    }

    /// Runs until nothing happens by itself within `patience`.
    pub fn run(&mut self, patience: Duration) {
        let end = self.now + patience;
        loop {
            while let Some(e) = self.host.poll_event() {
                if let Event::Open(qid) = e {
                    self.host.handle_opened(qid, self.now);
                } else {
                    self.events.push(e);
                }
            }
            if let Some((qid, t)) = self.host.poll_transmit(self.now) {
                let b = t.to_bytes();
                for answer in self.answer(qid, &b) {
                    self.host.handle_bytes(qid, &answer, self.now);
                }
                continue;
            }
            match self.host.poll_timeout() {
                Some(t) if t <= end => {
                    self.now = self.now.max(t);
                    self.host.handle_timeout(self.now);
                }
                _ => break,
            }
        }
        self.now = self.now.max(end);
    }

    pub fn answer(&mut self, qid: Qid, b: &[u8]) -> Vec<Vec<u8>> {
        match b[0] {
            0 => return vec![icresp(0, 0, 4096)],
            // H2CTermReq, H2CData
            2 | 6 => return Vec::new(),
            4 => {}
            other => panic!("PDU type {other}"),
        }
        let sqe = b[8..72].to_vec();
        let seen = Seen { qid: qid.0, opc: sqe[0], fctype: sqe[4], sqe };
        self.seen.push(seen.clone());
        self.sqhd[usize::from(qid.0)] += 1;
        let answer = (self.odd)(&seen).unwrap_or_else(|| self.plain(&seen));
        let Some((value, status)) = answer else { return Vec::new() };
        let cid = u16::from_le_bytes([seen.sqe[2], seen.sqe[3]]);
        let mut out = Vec::new();
        if seen.opc == 6 && status == 0 {
            let data = self.identify.as_bytes();
            let len = (data.len() as u32).to_le_bytes();
            out.push(pdu(7, 4, 24, 24, 24 + data.len() as u32, &[(8, &cid.to_le_bytes()), (16, &len), (24, data)]));
        }
        let mut r = resp(cid, self.sqhd[usize::from(qid.0)] % 32, status);
        r[8..16].copy_from_slice(&value.to_le_bytes());
        out.push(r);
        out
    }

    /// A controller that is ready at once, with 2 I/O queues.
    pub fn plain(&mut self, c: &Seen) -> Answer {
        Some((
            match c.opc {
                0x7f if c.fctype == 1 => 5,
                0x7f if c.is_property(4, 0) => 0x20_0100_001f,
                0x7f if c.is_property(4, 8) => 0x0002_0000,
                0x7f if c.is_property(0, 0x14) => {
                    self.enabled = c.sqe[48] & 1 != 0;
                    self.shut = c.sqe[49] & 0xc0 == 0x40;
                    0
                }
                0x7f if c.is_property(4, 0x1c) => u64::from(self.enabled) | if self.shut { 8 } else { 0 },
                0x09 if c.sqe[40] == 7 => 0x0001_0001,
                0x0c => return None,
                _ => 0,
            },
            0,
        ))
    }

    pub fn failure(&self) -> &HostError {
        let found: Vec<&HostError> = self
            .events
            .iter()
            .filter_map(|e| match e {
                Event::Failed(e) => Some(e),
                _ => None,
            })
            .collect();
        assert_eq!(found.len(), 1, "{:?}", self.events);
        assert!(self.host.is_over() && self.host.connections().next().is_none());
        found[0]
    }

    pub fn is_ready(&self) -> bool {
        self.events.iter().any(|e| matches!(e, Event::Ready))
    }

    pub fn count(&self, what: impl Fn(&Seen) -> bool) -> usize {
        self.seen.iter().filter(|s| what(s)).count()
    }
}
