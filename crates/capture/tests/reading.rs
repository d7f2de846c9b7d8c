//! What capture files and frames can look like: sections, interfaces, blocks, link types, VLANs, IPv6 with extension headers, frames
//! that a network card was to segment. The same two PDUs come out of all.

use nvmf_capture::{Capture, Direction, EventKind};
use nvmf_wire::tcp::{C2hData, Digests, IcReq, Pdu, PduType};

const HOST: u16 = 40_000;
const PORT: u16 = 4420;

fn pdu(ptype: PduType, header: &[u8], data: &[u8]) -> Vec<u8> {
    let mut header = header.to_vec();
    header[0] = ptype.0;
    Pdu::build(&header, data.to_vec().into(), Digests::default(), 4).to_bytes()
}

fn icreq() -> Vec<u8> {
    pdu(PduType::IC_REQ, IcReq::new().as_bytes(), &[])
}

/// C2HData of `n` bytes in all.
fn data(n: usize) -> Vec<u8> {
    let n = n - 24;
    pdu(PduType::C2H_DATA, C2hData::new().with(|s| s.datal(n as u32).last(true)).as_bytes(), &vec![7; n])
}

/// A TCP segment with a checksum that nobody filled in.
fn tcp(from: u16, to: u16, seq: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut b = Vec::new();
    b.extend(from.to_be_bytes());
    b.extend(to.to_be_bytes());
    b.extend(seq.to_be_bytes());
    b.extend([0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    b.extend(payload);
    b
}

/// The host opens the connection and sends an ICReq, the controller sends `back`: segments with whether they are the host's.
fn talk(back: &[u8]) -> Vec<(bool, Vec<u8>)> {
    vec![
        (true, tcp(HOST, PORT, 100, 0x02, &[])),
        (false, tcp(PORT, HOST, 500, 0x12, &[])),
        (true, tcp(HOST, PORT, 101, 0x18, &icreq())),
        (false, tcp(PORT, HOST, 501, 0x18, back)),
    ]
}

fn v4(host: bool, payload: &[u8], total: u16) -> Vec<u8> {
    let mut b = vec![0x45, 0];
    b.extend(total.to_be_bytes());
    b.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    b.extend(if host { [10, 0, 0, 1, 10, 0, 0, 2] } else { [10, 0, 0, 2, 10, 0, 0, 1] });
    b.extend(payload);
    b
}

/// IPv6 with these extension headers, each with its own type; their next-header bytes are filled in here.
fn v6(host: bool, extensions: &[(u8, Vec<u8>)], payload: &[u8], length: Option<u16>) -> Vec<u8> {
    let types: Vec<u8> = extensions.iter().map(|(t, _)| *t).chain([6]).collect();
    let mut body = Vec::new();
    for ((_, bytes), next) in extensions.iter().zip(&types[1..]) {
        body.push(*next);
        body.extend(&bytes[1..]);
    }
    body.extend(payload);
    let mut b = vec![0x60, 0, 0, 0];
    b.extend(length.unwrap_or(body.len() as u16).to_be_bytes());
    b.extend([types[0], 64]);
    let (mut one, mut two) = ([0u8; 16], [0u8; 16]);
    (one[0], one[15], two[0], two[15]) = (0xfd, 1, 0xfd, 2);
    let (from, to) = if host { (one, two) } else { (two, one) };
    b.extend(from);
    b.extend(to);
    b.extend(body);
    b
}

fn ethernet(tags: &[(u16, u16)], ether: u16, ip: &[u8]) -> Vec<u8> {
    let mut b = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    for (tpid, tci) in tags {
        b.extend(tpid.to_be_bytes());
        b.extend(tci.to_be_bytes());
    }
    b.extend(ether.to_be_bytes());
    b.extend(ip);
    b
}

/// A pcap file with microseconds, little-endian.
fn pcap(link: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0];
    out.extend(link.to_le_bytes());
    for f in frames {
        out.extend([0; 8]);
        out.extend((f.len() as u32).to_le_bytes());
        out.extend((f.len() as u32).to_le_bytes());
        out.extend(f);
    }
    out
}

/// Lengths of the PDUs of the only connection.
fn pdus(file: &[u8]) -> Vec<(Direction, usize)> {
    let capture = Capture::read(file).unwrap();
    assert_eq!((capture.connections().len(), capture.notes()), (1, &[][..]));
    let events = &capture.connections()[0].events;
    assert!(events.iter().all(|e| matches!(e.kind, EventKind::Pdu(_))), "{events:?}");
    capture.connections()[0].pdus().map(|(e, b)| (e.dir, b.len())).collect()
}

fn both(n: usize) -> Vec<(Direction, usize)> {
    vec![(Direction::HostToController, 128), (Direction::ControllerToHost, n)]
}

#[test]
fn vlan_tags_one_and_two() {
    for tags in [&[][..], &[(0x8100, 5)], &[(0x88a8, 5), (0x8100, 6)], &[(0x9100, 5), (0x8100, 6)], &[(0x8100, 5), (0x8100, 6)]] {
        let frames: Vec<_> =
            talk(&data(600)).iter().map(|(host, t)| ethernet(tags, 0x0800, &v4(*host, t, (20 + t.len()) as u16))).collect();
        assert_eq!(pdus(&pcap(1, &frames)), both(600), "{tags:x?}");
    }
}

#[test]
fn cooked_raw_and_loopback() {
    let talk = talk(&data(600));
    let ip = |host: bool, t: &[u8]| v4(host, t, (20 + t.len()) as u16);
    let sll = |t: &(bool, Vec<u8>)| [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0][..], &ip(t.0, &t.1)].concat();
    let sll2 = |t: &(bool, Vec<u8>)| [&[8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], &ip(t.0, &t.1)].concat();
    // A tag within a cooked frame.
    let tagged =
        |t: &(bool, Vec<u8>)| [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0x81, 0, 0, 5, 8, 0][..], &ip(t.0, &t.1)].concat();
    let raw = |t: &(bool, Vec<u8>)| ip(t.0, &t.1);
    let null = |t: &(bool, Vec<u8>)| [&[2, 0, 0, 0][..], &ip(t.0, &t.1)].concat();
    let null6 = |t: &(bool, Vec<u8>)| [&[30, 0, 0, 0][..], &v6(t.0, &[], &t.1, None)].concat();
    let big = |t: &(bool, Vec<u8>)| [&[0, 0, 0, 2][..], &ip(t.0, &t.1)].concat();
    let files: [(u32, Vec<Vec<u8>>); 9] = [
        (113, talk.iter().map(sll).collect()),
        (276, talk.iter().map(sll2).collect()),
        (113, talk.iter().map(tagged).collect()),
        (101, talk.iter().map(raw).collect()),
        (12, talk.iter().map(raw).collect()),
        (228, talk.iter().map(raw).collect()),
        (0, talk.iter().map(null).collect()),
        (0, talk.iter().map(null6).collect()),
        (108, talk.iter().map(big).collect()),
    ];
    for (link, frames) in files {
        assert_eq!(pdus(&pcap(link, &frames)), both(600), "link type {link}");
    }
}

#[test]
fn ipv6_with_extension_headers() {
    let hop = vec![0, 0, 1, 4, 0, 0, 0, 0];
    let routing = [&[0, 2, 4, 0, 0, 0, 0, 0][..], &[0; 16]].concat();
    let options = vec![0, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let atomic = vec![0, 0, 0, 0, 0, 0, 0, 9];
    let all = vec![(0, hop.clone()), (60, options.clone()), (43, routing.clone()), (44, atomic.clone()), (60, options.clone())];
    for extensions in [vec![], vec![(0, hop)], vec![(43, routing)], vec![(60, options)], vec![(44, atomic)], all] {
        let frames: Vec<_> =
            talk(&data(600)).iter().map(|(host, t)| ethernet(&[], 0x86dd, &v6(*host, &extensions, t, None))).collect();
        let types: Vec<u8> = extensions.iter().map(|(t, _)| *t).collect();
        assert_eq!(pdus(&pcap(1, &frames)), both(600), "{types:?}");
    }
}

/// Fragments are not put together: that is said, with the first frame, and what they carried is missing.
#[test]
fn fragments_are_told() {
    let mut four: Vec<_> =
        talk(&data(600)).iter().map(|(host, t)| ethernet(&[], 0x0800, &v4(*host, t, (20 + t.len()) as u16))).collect();
    four[3][14 + 6] = 0x20;
    let first = vec![0, 0, 0, 1, 0, 0, 0, 9];
    let later = vec![0, 0, 0x05, 0xa8, 0, 0, 0, 9];
    let six = |extension: &Vec<u8>| {
        let mut frames: Vec<_> = talk(&data(600)).iter().map(|(h, t)| ethernet(&[], 0x86dd, &v6(*h, &[], t, None))).collect();
        frames[3] = ethernet(&[], 0x86dd, &v6(false, &[(44, extension.clone())], &talk(&data(600))[3].1, None));
        frames
    };
    for frames in [four, six(&first), six(&later)] {
        let capture = Capture::read(&pcap(1, &frames)[..]).unwrap();
        assert_eq!(capture.connections()[0].pdus().count(), 1);
        assert_eq!(capture.notes(), ["1 IP fragments, from frame 4 on: they are not put together"]);
    }
}

/// A frame that the card is to cut has a total length of 0, or that of its first piece; a length of 0 is that of the frame.
#[test]
fn frames_of_64_kib_whose_length_nobody_filled_in() {
    for n in [1448, 16_000, 65_000] {
        let big: Vec<_> = talk(&data(n))
            .iter()
            .map(|(host, t)| {
                let total = if t.len() > 1000 { 0 } else { (20 + t.len()) as u16 };
                ethernet(&[], 0x0800, &v4(*host, t, total))
            })
            .collect();
        assert_eq!(pdus(&pcap(1, &big)), both(n), "IPv4, {n} bytes");
        let big: Vec<_> = talk(&data(n))
            .iter()
            .map(|(host, t)| ethernet(&[], 0x86dd, &v6(*host, &[], t, if t.len() > 1000 { Some(0) } else { None })))
            .collect();
        assert_eq!(pdus(&pcap(1, &big)), both(n), "IPv6, {n} bytes");
    }
    // BIG TCP: more than 64 KiB, behind a jumbo payload option.
    let n = 150_000;
    let jumbo: Vec<_> = talk(&data(n))
        .iter()
        .map(|(host, t)| {
            let length = (t.len() as u32 + 8).to_be_bytes();
            let option = [&[0, 0, 0xc2, 4][..], &length].concat();
            match t.len() > 1000 {
                true => ethernet(&[], 0x86dd, &v6(*host, &[(0, option)], t, Some(0))),
                false => ethernet(&[], 0x86dd, &v6(*host, &[], t, None)),
            }
        })
        .collect();
    assert_eq!(pdus(&pcap(1, &jumbo)), both(n));
}

/// What fills a short frame up to 60 bytes is no payload.
#[test]
fn padding_of_short_frames_is_no_payload() {
    let mut segments = talk(&data(600));
    segments.insert(2, (true, tcp(HOST, PORT, 101, 0x10, &[])));
    let frames: Vec<_> = segments
        .iter()
        .map(|(host, t)| {
            let mut f = ethernet(&[], 0x0800, &v4(*host, t, (20 + t.len()) as u16));
            f.resize(f.len().max(60), 0xee);
            f
        })
        .collect();
    assert_eq!(pdus(&pcap(1, &frames)), both(600));
}

/// Writes pcapng blocks in one byte order.
struct Blocks {
    big: bool,
    out: Vec<u8>,
}

impl Blocks {
    fn new(big: bool) -> Self {
        let mut blocks = Self { big, out: Vec::new() };
        let body = [blocks.u32(0x1a2b_3c4d), blocks.u16(1), blocks.u16(0), vec![0xff; 8], blocks.option(1, b"a section")].concat();
        blocks.block(0x0a0d_0d0a, &body);
        blocks
    }

    fn u16(&self, n: u16) -> Vec<u8> {
        if self.big { n.to_be_bytes().to_vec() } else { n.to_le_bytes().to_vec() }
    }

    fn u32(&self, n: u32) -> Vec<u8> {
        if self.big { n.to_be_bytes().to_vec() } else { n.to_le_bytes().to_vec() }
    }

    fn option(&self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut out = [self.u16(code), self.u16(value.len() as u16), value.to_vec()].concat();
        out.resize(out.len().next_multiple_of(4), 0);
        [out, vec![0; 4]].concat()
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let len = self.u32(12 + body.len() as u32);
        self.out.extend([self.u32(kind), len.clone(), body, len].concat());
    }

    /// An interface with this if_tsresol.
    fn interface(&mut self, link: u16, resolution: u8) {
        let body = [self.u16(link), self.u16(0), self.u32(0), self.option(9, &[resolution])].concat();
        self.block(1, &body);
    }

    fn enhanced(&mut self, interface: u32, ticks: u64, frame: &[u8]) {
        let mut padded = frame.to_vec();
        padded.resize(padded.len().next_multiple_of(4), 0);
        let len = frame.len() as u32;
        let head = [interface, (ticks >> 32) as u32, ticks as u32, len, len].map(|n| self.u32(n)).concat();
        let body = [head, padded, self.option(1, b"a comment")].concat();
        self.block(6, &body);
    }
}

fn frames() -> Vec<Vec<u8>> {
    talk(&data(600)).iter().map(|(host, t)| ethernet(&[], 0x0800, &v4(*host, t, (20 + t.len()) as u16))).collect()
}

/// Two sections in both byte orders, interfaces each with its own clock and link type, and blocks beside the packets.
#[test]
fn sections_interfaces_and_other_blocks() {
    let frames = frames();
    let mut one = Blocks::new(false);
    one.interface(1, 6);
    one.interface(113, 9);
    one.enhanced(0, 2_000_000, &frames[0]);
    let cooked = [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0][..], &frames[1][12..]].concat();
    one.enhanced(1, 2_000_000_001, &cooked);
    // Interface statistics, a name resolution block, and one of a type that is still to be invented.
    let statistics = [one.u32(0), one.u32(0), one.u32(77), one.option(4, &[0; 8])].concat();
    one.block(5, &statistics);
    one.block(4, &[0; 4]);
    one.block(0x0bad_cafe, &[1, 2, 3, 4]);
    let mut two = Blocks::new(true);
    two.interface(1, 0x80 | 10);
    // 2.5 s in 1024ths.
    two.enhanced(0, 2560, &frames[2]);
    two.block(0x0bad_cafe, &[]);
    two.enhanced(0, 2561, &frames[3]);
    let file = [one.out, two.out].concat();
    assert_eq!(pdus(&file), both(600));
    let capture = Capture::read(&file[..]).unwrap();
    let times: Vec<_> = capture.connections()[0].events.iter().map(|e| (e.at_ns, e.frame)).collect();
    assert_eq!(times, [(2_500_000_000, 3), (2_500_976_562, 4)]);
    assert_eq!(capture.connections()[0].opened_ns, 2_000_000_000);
}

/// Simple packets have no time, and no length but that of the wire; packet blocks are those of old files.
#[test]
fn simple_and_obsolete_packets() {
    for big in [false, true] {
        let mut b = Blocks::new(big);
        b.interface(1, 6);
        for f in frames() {
            let body = [b.u32(f.len() as u32), f].concat();
            b.block(3, &body);
        }
        assert_eq!(pdus(&b.out), both(600));
        let mut b = Blocks::new(big);
        b.interface(1, 6);
        for (i, f) in frames().into_iter().enumerate() {
            let len = f.len() as u32;
            let head = [b.u16(0), b.u16(0), [0, i as u32, len, len].map(|n| b.u32(n)).concat()].concat();
            let body = [head, f].concat();
            b.block(2, &body);
        }
        assert_eq!(pdus(&b.out), both(600));
        assert_eq!(Capture::read(&b.out[..]).unwrap().connections()[0].events[1].at_ns, 3000);
    }
}

/// An interface of a link type that is not known costs its own packets, and that is said.
#[test]
fn an_unknown_link_type_is_told() {
    let mut b = Blocks::new(false);
    b.interface(195, 6);
    b.interface(1, 6);
    for f in frames() {
        b.enhanced(1, 0, &f);
        b.enhanced(0, 0, &f);
    }
    let capture = Capture::read(&b.out[..]).unwrap();
    assert_eq!((capture.connections().len(), capture.packets(), capture.notes().len()), (1, 8, 1), "{:?}", capture.notes());
}

/// What a file can make grow has a limit: interfaces, which are kept to its end.
#[test]
fn interfaces_are_limited() {
    let mut b = Blocks::new(false);
    for _ in 0..=65_536 {
        b.interface(1, 6);
    }
    b.enhanced(0, 0, &frames()[0]);
    let capture = Capture::read(&b.out[..]).unwrap();
    assert_eq!(capture.packets(), 0);
    assert!(capture.notes().len() == 1 && capture.notes()[0].contains("more than 65536 interfaces"), "{:?}", capture.notes());
}
