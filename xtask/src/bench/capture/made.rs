//! Captures of any length, made of recorded ones: the frames of real associations, each time under other ports and later.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use etherparse::{SlicedPacket, TransportSlice};
use flate2::read::GzDecoder;
use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};

use crate::cmd;

/// Associations of Linux with writes and reads of 4 KiB (in capsule) and of 64 KiB (R2T).
const BUSY: [&str; 2] = ["linux-6.12/tcp-io-4k.pcap.gz", "linux-6.12/tcp-io-64k.pcap.gz"];
/// The shortest association that there is: a discovery.
const SHORT: &str = "linux-6.12/tcp-discover-4420.pcap.gz";
/// The first port that is given to a host.
const FIRST_PORT: u16 = 10_000;

/// A capture that was made.
pub struct Made {
    pub path: PathBuf,
    pub bytes: u64,
    pub frames: u64,
    pub connections: u64,
}

/// One recorded association.
struct Recorded {
    /// Time since its first frame, and the frame.
    frames: Vec<(Duration, Vec<u8>)>,
    /// The hosts' ports.
    ports: Vec<u16>,
}

/// At least `bytes` of busy associations, one after the other.
pub fn associations(path: &Path, bytes: u64) -> Result<Made, String> {
    let recorded = BUSY.map(Recorded::read);
    let mut out = Writer::create(path)?;
    while out.made.bytes < bytes {
        for r in &recorded {
            out.association(r.as_ref().map_err(Clone::clone)?)?;
        }
    }
    out.finish()
}

/// Short associations until there are `count` connections.
pub fn connections(path: &Path, count: u64) -> Result<Made, String> {
    let recorded = Recorded::read(SHORT)?;
    let mut out = Writer::create(path)?;
    while out.made.connections < count {
        out.association(&recorded)?;
    }
    out.finish()
}

/// One long connection from which a segment of the controller is missing near the start, at least `bytes` long: its data go on and on
/// behind the hole.
pub fn hole(path: &Path, bytes: u64) -> Result<Made, String> {
    let recorded = Recorded::read(BUSY[1])?;
    let mut out = Writer::create(path)?;
    out.endless(&recorded, bytes)?;
    out.finish()
}

impl Recorded {
    fn read(name: &str) -> Result<Self, String> {
        let path = cmd::root()?.join("captures").join(name);
        let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let file = File::open(&path).map_err(|e| failed(&e))?;
        let mut reader = PcapReader::new(GzDecoder::new(file)).map_err(|e| failed(&e))?;
        let mut frames = Vec::new();
        let mut first = None;
        let mut ports = Vec::new();
        while let Some(packet) = reader.next_packet() {
            let packet = packet.map_err(|e| failed(&e))?;
            let at = packet.timestamp();
            let since = at.saturating_sub(*first.get_or_insert(at));
            let frame = packet.data().to_vec();
            if let Some(tcp) = Tcp::of(&frame)
                && !ports.contains(&tcp.host)
            {
                ports.push(tcp.host);
            }
            frames.push((since, frame));
        }
        Ok(Self { frames, ports })
    }
}

/// Where the TCP header of a frame lies, and which port is the host's.
struct Tcp {
    header: usize,
    host: u16,
    from_host: bool,
    payload: usize,
}

impl Tcp {
    fn of(frame: &[u8]) -> Option<Self> {
        let packet = SlicedPacket::from_ethernet(frame).ok()?;
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else { return None };
        let header = tcp.slice().as_ptr() as usize - frame.as_ptr() as usize;
        let (from, to) = (tcp.source_port(), tcp.destination_port());
        let from_host = to == nvmf_wire::tcp::IO_PORT || to == nvmf_wire::tcp::DISCOVERY_PORT;
        Some(Self { header, host: if from_host { from } else { to }, from_host, payload: tcp.payload().len() })
    }
}

struct Writer {
    out: PcapWriter<BufWriter<File>>,
    now: Duration,
    next_port: u16,
    made: Made,
}

impl Writer {
    fn create(path: &Path) -> Result<Self, String> {
        let file = File::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let header = PcapHeader { datalink: DataLink::ETHERNET, ..PcapHeader::default() };
        let out = PcapWriter::with_header(BufWriter::with_capacity(1 << 20, file), header).map_err(|e| e.to_string())?;
        let made = Made { path: path.to_owned(), bytes: 24, frames: 0, connections: 0 };
        Ok(Self { out, now: Duration::from_secs(1_700_000_000), next_port: FIRST_PORT, made })
    }

    fn frame(&mut self, at: Duration, frame: &[u8]) -> Result<(), String> {
        let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", self.made.path.display());
        let packet = PcapPacket::new(at, frame.len() as u32, frame).map_err(|e| failed(&e))?;
        self.out.write_packet(&packet).map_err(|e| failed(&e))?;
        self.made.bytes += 16 + frame.len() as u64;
        self.made.frames += 1;
        Ok(())
    }

    /// The TCP frames of an association, under ports of its own.
    fn association(&mut self, recorded: &Recorded) -> Result<(), String> {
        let mut ports = BTreeMap::new();
        for port in &recorded.ports {
            ports.insert(*port, self.next_port);
            self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_PORT);
        }
        self.made.connections += recorded.ports.len() as u64;
        let mut end = self.now;
        for (since, frame) in &recorded.frames {
            let mut frame = frame.clone();
            let Some(tcp) = Tcp::of(&frame) else { continue };
            let port = ports.get(&tcp.host).copied().unwrap_or(tcp.host);
            let at = tcp.header + if tcp.from_host { 0 } else { 2 };
            replace(&mut frame, at, tcp.header + 16, port);
            end = self.now + *since;
            self.frame(end, &frame)?;
        }
        self.now = end + Duration::from_millis(1);
        Ok(())
    }

    /// One connection whose controller goes on sending behind a hole.
    fn endless(&mut self, recorded: &Recorded, bytes: u64) -> Result<(), String> {
        let full = |f: &[u8]| Tcp::of(f).is_some_and(|t| !t.from_host && t.payload > 1000);
        let Some((_, model)) = recorded.frames.iter().find(|(_, f)| full(f)) else {
            return Err("no long segment was recorded".to_owned());
        };
        let (header, payload, host) = Tcp::of(model).map(|t| (t.header, t.payload, t.host)).unwrap_or_default();
        let before = recorded.frames.iter().filter(|(_, f)| Tcp::of(f).is_some_and(|t| t.host == host));
        for (since, frame) in before.take_while(|(_, f)| f != model) {
            self.frame(self.now + *since, frame)?;
        }
        self.made.connections = 1;
        let sequence = model.get(header + 4..header + 8).and_then(|b| b.first_chunk::<4>()).copied().unwrap_or_default();
        // The model itself is what is missing.
        let mut next = u32::from_be_bytes(sequence).wrapping_add(payload as u32);
        while self.made.bytes < bytes {
            let mut frame = model.clone();
            let [a, b, c, d] = next.to_be_bytes();
            replace(&mut frame, header + 4, header + 16, u16::from_be_bytes([a, b]));
            replace(&mut frame, header + 6, header + 16, u16::from_be_bytes([c, d]));
            self.now += Duration::from_micros(10);
            self.frame(self.now, &frame)?;
            next = next.wrapping_add(payload as u32);
        }
        Ok(())
    }

    fn finish(self) -> Result<Made, String> {
        self.out.into_inner().flush().map_err(|e| format!("{}: {e}", self.made.path.display()))?;
        Ok(self.made)
    }
}

/// Writes a 16-bit value in network order and mends the checksum at `sum`. [RFC 1624, 3]
fn replace(frame: &mut [u8], at: usize, sum: usize, value: u16) {
    let read = |f: &[u8], at: usize| f.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    let folded = u32::from(!read(frame, sum)) + u32::from(!read(frame, at)) + u32::from(value);
    let folded = (folded & 0xffff) + (folded >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    for (place, value) in [(at, value), (sum, !(folded as u16))] {
        if let Some(to) = frame.get_mut(place..place + 2) {
            to.copy_from_slice(&value.to_be_bytes());
        }
    }
}
