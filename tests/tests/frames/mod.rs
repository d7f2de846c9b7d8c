//! Captures in gzip, frame by frame, to be changed and read again.

use std::path::Path;

use nvmf_capture::{Capture, Trace};
use nvmf_wire::roce::{RoceOpcode, UDP_PORT, icrc};

/// A pcap file of Ethernet frames, taken apart.
#[derive(Clone, Debug)]
pub struct Pcap {
    head: Vec<u8>,
    /// In the order of the file.
    pub records: Vec<Record>,
}

#[derive(Clone, Debug)]
pub struct Record {
    time: [u8; 8],
    original: u32,
    /// As far as it was captured.
    pub frame: Vec<u8>,
}

impl Pcap {
    /// A file of `captures/`.
    pub fn open(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../captures/{name}.pcap.gz"));
        let file = std::fs::File::open(path).expect("a capture");
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(file), &mut bytes).expect("gzip");
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let (mut at, mut records) = (24, Vec::new());
        while at < bytes.len() {
            let len = word(at + 8) as usize;
            let time = bytes[at..at + 8].try_into().unwrap();
            records.push(Record { time, original: word(at + 12), frame: bytes[at + 16..at + 16 + len].to_vec() });
            at += 16 + len;
        }
        Self { head: bytes[..24].to_vec(), records }
    }

    /// The file again.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.head.clone();
        for r in &self.records {
            out.extend(r.time);
            out.extend((r.frame.len() as u32).to_le_bytes());
            out.extend(r.original.to_le_bytes());
            out.extend(&r.frame);
        }
        out
    }

    /// What the capture holds.
    pub fn read(&self) -> Capture {
        Capture::read(&self.bytes()[..]).expect("a capture")
    }

    /// Its trace without times.
    pub fn trace(&self) -> String {
        Trace::default().without_times().exchange(self.read().exchange())
    }

    /// Without the records that `f` does not want.
    pub fn keep(mut self, mut f: impl FnMut(&Record) -> bool) -> Self {
        self.records.retain(|r| f(r));
        self
    }
}

impl Record {
    /// Where the IP header, the BTH, and what is behind the ICRC begin; `None` for other traffic.
    pub fn roce(&self) -> Option<(usize, usize, usize)> {
        let f = &self.frame;
        let half = |at: usize| usize::from(f[at]) << 8 | usize::from(f[at + 1]);
        let (bth, end) = match half(12) {
            0x0800 if f[23] == 17 => (14 + 20 + 8, 14 + half(16)),
            0x86dd if f[20] == 17 => (14 + 40 + 8, 14 + 40 + half(18)),
            _ => return None,
        };
        (half(bth - 6) == usize::from(UDP_PORT)).then_some((14, bth, end))
    }

    /// Of its BTH.
    pub fn opcode(&self) -> Option<RoceOpcode> {
        self.roce().map(|(_, bth, _)| RoceOpcode(self.frame[bth]))
    }

    /// Changes the packet from its BTH on, and gives it the right ICRC again.
    pub fn change(&mut self, f: impl FnOnce(&mut [u8])) {
        let Some((ip, bth, end)) = self.roce() else { return };
        f(&mut self.frame[bth..end - 4]);
        let right = icrc(&self.frame[ip..end - 4]).unwrap();
        self.frame[end - 4..end].copy_from_slice(&right);
    }
}
