//! Frames of a capture that a simulated run wrote, judged by routines of this file alone: every checksum and ICRC, and whether what is wrong
//! is what a fault did. Nothing here is shared with what makes, changes or writes frames. Read [`audit`].

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// A file that a test can look into.
#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    /// What was written so far.
    ///
    /// # Panics
    ///
    /// Where the writer has.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Write for Shared {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A frame of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// Name of the interface.
    pub interface: &'a str,
    /// From the destination address to the last byte before the FCS.
    pub bytes: &'a [u8],
    /// Faults that hit it.
    pub comment: &'a str,
}

impl Captured<'_> {
    fn is(&self, fault: &str) -> bool {
        self.comment.split(", ").any(|f| f == fault)
    }

    /// What arrives of it: at most two frames.
    fn arrives(&self) -> impl Iterator<Item = Vec<u8>> {
        let lost = self.is("lost");
        let first = (!lost).then(|| self.changed().unwrap_or_else(|| self.bytes.to_vec()));
        let second = (!lost && self.is("duplicated")).then(|| self.bytes.to_vec());
        first.into_iter().chain(second)
    }

    /// What corruption made of it, by its comment.
    fn changed(&self) -> Option<Vec<u8>> {
        let mut out = self.bytes.to_vec();
        let mut hit = false;
        for change in self.comment.split(", ").filter_map(|f| f.strip_prefix("corrupted: byte ")) {
            let (at, mask) = change.split_once(" ^ 0x").expect("a byte and a mask");
            out[at.parse::<usize>().expect("a number")] ^= u8::from_str_radix(mask, 16).expect("a mask");
            hit = true;
        }
        hit.then_some(out)
    }
}

/// The frames of a pcapng file, little-endian as we write it.
///
/// # Panics
///
/// Where it is no such file.
pub fn read(file: &[u8]) -> Vec<Captured<'_>> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let half = |at: usize| usize::from(u16::from_le_bytes(file[at..at + 2].try_into().unwrap()));
    // the option with this code among those from `at` to `end`
    let option = |mut at: usize, end: usize, code: usize| {
        while at + 4 <= end && half(at) != 0 {
            if half(at) == code {
                return std::str::from_utf8(&file[at + 4..at + 4 + half(at + 2)]).unwrap();
            }
            at += 4 + half(at + 2).next_multiple_of(4);
        }
        ""
    };
    let (mut at, mut interfaces, mut out) = (0, Vec::new(), Vec::new());
    while at < file.len() {
        let end = at + word(at + 4);
        match word(at) {
            1 => interfaces.push(option(at + 16, end - 4, 2)),
            6 => {
                let (from, len) = (at + 28, word(at + 20));
                let comment = option(from + len.next_multiple_of(4), end - 4, 1);
                out.push(Captured { interface: interfaces[word(at + 8)], bytes: &file[from..from + len], comment });
            }
            _ => {}
        }
        at = end;
    }
    out
}

/// CRC-32 of Ethernet, by a table of one byte.
fn crc(bytes: impl Iterator<Item = u8>) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let (mut c, mut bit) = (i as u32, 0);
            while bit < 8 {
                c = if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 };
                bit += 1;
            }
            table[i] = c;
            i += 1;
        }
        table
    };
    !bytes.fold(!0, |c, b| TABLE[usize::from(c as u8 ^ b)] ^ c >> 8)
}

/// The ICRC of an IP packet with RoCEv2 in it: behind eight bytes FFh, with those fields as ones that routers may change: TOS, TTL and header
/// checksum, or traffic class, flow label and hop limit; UDP checksum and BTH byte 4. [IBA annex A17.3.3]
fn icrc(ip: &[u8]) -> [u8; 4] {
    let (covered, masked): (_, &[usize]) = match ip[0] >> 4 {
        4 => (&ip[..ip.len() - 4], &[1, 8, 10, 11, 26, 27, 32]),
        _ => (&ip[..ip.len() - 4], &[1, 2, 3, 7, 46, 47, 52]),
    };
    let mut head = covered[..covered.len().min(64)].to_vec();
    masked.iter().filter(|i| **i < covered.len()).for_each(|i| head[*i] = 0xff);
    if ip[0] >> 4 == 6 {
        head[0] |= 0x0f;
    }
    let rest = &covered[head.len()..];
    crc([0xff; 8].into_iter().chain(head).chain(rest.iter().copied())).to_le_bytes()
}

/// The sum of 16-bit words with the carries put back; FFFFh of what holds its own right checksum. [RFC 1071]
fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|p| p.chunks(2));
    let mut s: u64 = words.map(|w| u64::from(w[0]) << 8 | w.get(1).map_or(0, |b| u64::from(*b))).sum();
    while s > 0xffff {
        s = (s & 0xffff) + (s >> 16);
    }
    s as u16
}

fn half(b: &[u8], at: usize) -> usize {
    usize::from(b[at]) << 8 | usize::from(b[at + 1])
}

/// What is wrong about a frame; `None` where nothing is that a receiver can tell.
pub fn wrong(frame: &[u8]) -> Option<&'static str> {
    let body = frame.get(14..)?;
    match half(frame, 12) {
        0x0800 => ipv4(body),
        0x86dd => ipv6(body),
        0x0806 => (body.len() < 28 || body[..6] != [0, 1, 8, 0, 6, 4] || !matches!(half(body, 6), 1 | 2)).then_some("ARP"),
        0x8808 => (body.len() != 46 || body[..3] != [1, 1, 0]).then_some("MAC control"),
        _ => Some("EtherType"),
    }
}

fn ipv4(ip: &[u8]) -> Option<&'static str> {
    if ip.len() < 20 || ip[0] != 0x45 {
        return Some("version and IHL");
    }
    if half(ip, 2) != ip.len() {
        return Some("total length");
    }
    if sum(&[&ip[..20]]) != 0xffff {
        return Some("header checksum");
    }
    if half(ip, 6) & 0x3fff != 0 {
        return Some("a fragment");
    }
    above(ip[9], &ip[12..20], 20, ip)
}

fn ipv6(ip: &[u8]) -> Option<&'static str> {
    if ip.len() < 40 || ip[0] >> 4 != 6 {
        return Some("version");
    }
    if half(ip, 4) + 40 != ip.len() {
        return Some("payload length");
    }
    above(ip[6], &ip[8..40], 40, ip)
}

/// What is in an IP packet behind its header of `at` bytes.
fn above(protocol: u8, addresses: &[u8], at: usize, ip: &[u8]) -> Option<&'static str> {
    let data = &ip[at..];
    let pseudo = [&[0, protocol][..], &(data.len() as u16).to_be_bytes()].concat();
    let right = || sum(&[addresses, &pseudo, data]) == 0xffff;
    match protocol {
        6 if data.len() < 20 || usize::from(data[12] >> 4) * 4 > data.len() || data[12] >> 4 < 5 => Some("data offset"),
        6 => (!right()).then_some("TCP checksum"),
        17 if data.len() < 8 || half(data, 4) != data.len() => Some("UDP length"),
        17 if half(data, 6) != 0 && !right() => Some("UDP checksum"),
        17 if half(data, 2) != 4791 => Some("UDP port"),
        17 if data.len() < 8 + 12 + 4 => Some("shorter than its headers"),
        17 => (data[data.len() - 4..] != icrc(ip)).then_some("ICRC"),
        58 => (at != 40 || !right()).then_some("ICMPv6 checksum"),
        _ => Some("protocol"),
    }
}

/// A frame that a fault changed on its way to a switch.
struct Planted<'a> {
    /// The link.
    on: &'a str,
    times: u64,
    /// How often it was seen on other links.
    seen: BTreeMap<&'a str, u64>,
}

/// What a frame is known by from link to link: all of it but what a switch changes when it marks congestion. A mark keeps the sum of the
/// IPv4 header.
type Identity = (u16, Vec<u8>);

fn identity(frame: &[u8]) -> Identity {
    let mut same = frame.to_vec();
    if frame.len() < 34 || half(frame, 12) != 0x0800 || frame[14] >> 4 != 4 {
        return (0, same);
    }
    same[15] &= !3;
    same[24..26].fill(0);
    (sum(&[&frame[14..34]]), same)
}

/// What [`audit`] counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames.
    pub frames: u64,
    /// RoCEv2, TCP, PFC, and what finds neighbours.
    pub kinds: [u64; 4],
    /// Frames with Congestion Experienced.
    pub marked: u64,
    /// Frames that a fault was to change.
    pub hits: u64,
    /// Frames that were changed on a link before.
    pub changed: u64,
    /// Frames that came to a station, and are wrong.
    pub arrived_wrong: u64,
}

/// Judges a capture of all links: a frame is right, or it is what a fault made of one on another link before; and what a fault changed on its
/// way to a switch is seen behind it. `to_station`: whether a frame on its link is on its way to a station. The error is what does not
/// hold.
pub fn audit(file: &[u8], to_station: impl Fn(&Captured<'_>) -> bool) -> Result<Counts, String> {
    let mut c = Counts::default();
    let mut planted: BTreeMap<Identity, Planted<'_>> = BTreeMap::new();
    for (n, f) in read(file).iter().enumerate() {
        c.frames += 1;
        let at = |what: &str| format!("frame {} on {}: {what} ({}): {:02x?}", n + 1, f.interface, f.comment, f.bytes);
        if f.bytes.len() < 14 {
            return Err(at("no Ethernet header"));
        }
        match planted.get_mut(&identity(f.bytes)).filter(|p| p.on != f.interface) {
            Some(Planted { times, seen, .. }) => {
                let seen = seen.entry(f.interface).or_default();
                *seen += 1;
                if *seen > *times {
                    return Err(at("changed more often than a fault hit it"));
                }
                c.changed += 1;
            }
            None => {
                if let Some(what) = wrong(f.bytes) {
                    return Err(at(what));
                }
                count(&mut c, f.bytes);
            }
        }
        let station = to_station(f);
        c.hits += u64::from(f.changed().is_some());
        if station {
            c.arrived_wrong += f.arrives().filter(|b| wrong(b).is_some()).count() as u64;
        } else if let Some(changed) = f.changed().filter(|_| !f.is("lost")) {
            let new = || Planted { on: f.interface, times: 0, seen: BTreeMap::new() };
            planted.entry(identity(&changed)).or_insert_with(new).times += 1;
        }
    }
    match planted.values().find(|p| p.seen.values().max() != Some(&p.times)) {
        Some(Planted { on, times, seen }) => Err(format!("changed {times} times on {on}, and seen behind it: {seen:?}")),
        None => Ok(c),
    }
}

fn count(c: &mut Counts, frame: &[u8]) {
    let protocol = match half(frame, 12) {
        0x0800 => frame[23],
        0x86dd => frame[20],
        0x8808 => return c.kinds[2] += 1,
        _ => return c.kinds[3] += 1,
    };
    match protocol {
        17 => c.kinds[0] += 1,
        6 => c.kinds[1] += 1,
        _ => c.kinds[3] += 1,
    }
    let traffic_class = if half(frame, 12) == 0x0800 { frame[15] } else { frame[15] >> 4 };
    c.marked += u64::from(traffic_class & 3 == 3);
}
