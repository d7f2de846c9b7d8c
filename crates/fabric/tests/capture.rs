//! What a simulated run writes: every ICRC and every checksum is right, by routines of this test alone; and tshark reads it.

use std::io::{self, Write};
use std::process::Command;
use std::sync::{Arc, Mutex};

use nvmf_fabric::{Fleet, Scene};

/// A file that a test can look into.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The capture of a scene without the faults that change frames, as those are written as they came out of a switch.
fn capture(name: &str) -> Vec<u8> {
    let path = format!("{}/../../tests/sims/{name}.sim", env!("CARGO_MANIFEST_DIR"));
    let mut scene = Scene::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let keep: Vec<usize> = (0..scene.faults.len()).filter(|i| !scene.faults[*i].text.contains("corrupt")).collect();
    scene = scene.only(&keep);
    for h in &mut scene.hosts {
        h.ops = h.ops.min(40);
    }
    let file = Shared::default();
    let mut fleet = Fleet::new(&scene, 3).unwrap();
    fleet.capture(Box::new(file.clone())).unwrap();
    let report = fleet.run().unwrap();
    assert_eq!(report.violations, [""; 0]);
    file.0.lock().unwrap().clone()
}

/// The frames of a pcapng file, little-endian as we write it: Enhanced Packet Blocks.
fn frames(file: &[u8]) -> Vec<&[u8]> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut out) = (0, Vec::new());
    while at < file.len() {
        if word(at) == 6 {
            out.push(&file[at + 28..at + 28 + word(at + 20)]);
        }
        at += word(at + 4);
    }
    out
}

/// CRC-32 of Ethernet, bit by bit.
fn crc(bytes: impl Iterator<Item = u8>) -> u32 {
    let mut c = !0u32;
    for b in bytes {
        c ^= u32::from(b);
        for _ in 0..8 {
            c = if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 };
        }
    }
    !c
}

/// The ICRC of an IPv4 packet: behind eight bytes FFh, with TOS, TTL, header checksum, UDP checksum and BTH byte 4 as FFh.
/// [IBA annex A17.3.3]
fn icrc(ip: &[u8]) -> [u8; 4] {
    let masked = ip[..ip.len() - 4].iter().enumerate().map(|(i, b)| match i {
        1 | 8 | 10 | 11 | 26 | 27 | 32 => 0xff,
        _ => *b,
    });
    crc([0xff; 8].into_iter().chain(masked)).to_le_bytes()
}

fn sum(bytes: &[u8]) -> u16 {
    let s: u32 = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |b| u32::from(*b))).sum();
    let s = (s & 0xffff) + (s >> 16);
    ((s & 0xffff) + (s >> 16)) as u16
}

#[test]
fn every_icrc_and_checksum_is_right() {
    for (name, marks) in [("mixed-faults", false), ("checkpoint-8-hosts", true)] {
        let file = capture(name);
        let (mut roce, mut marked, mut pfc) = (0, 0, 0);
        for f in frames(&file) {
            match u16::from_be_bytes([f[12], f[13]]) {
                0x8808 => pfc += 1,
                0x0800 => {
                    let ip = &f[14..];
                    assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
                    assert_eq!(sum(&ip[..20]), 0xffff, "header checksum: {ip:02x?}");
                    assert_eq!((ip[9], u16::from_be_bytes([ip[22], ip[23]])), (17, 4791));
                    assert_eq!(ip[ip.len() - 4..], icrc(ip), "ICRC: {ip:02x?}");
                    roce += 1;
                    marked += usize::from(ip[1] & 3 == 3);
                }
                other => panic!("EtherType {other:04x}"),
            }
        }
        assert!(roce > 1000 && (marked > 0, pfc > 0) == (marks, marks), "{name}: {roce} {marked} {pfc}");
    }
}

#[test]
fn tshark_finds_no_malformed_frame() {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("skipped: tshark is not installed");
        return;
    }
    let path = std::env::temp_dir().join(format!("nvmfspec-sim-{}.pcapng", std::process::id()));
    std::fs::write(&path, capture("checkpoint-8-hosts")).unwrap();
    let tshark = |filter: &str, field: &str| {
        let args = ["-Y", filter, "-T", "fields", "-e", field];
        let out = Command::new("tshark").arg("-r").arg(&path).args(args).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let malformed = tshark("_ws.malformed || ip.checksum.status == 0", "frame.number");
    let writes = tshark("nvme.cmd.opc == 1", "frame.number");
    let pauses = tshark("macc.opcode == 0x0101", "frame.number");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(malformed, [""; 0]);
    // eight hosts with 32 writes each, each frame seen on two links
    assert!(writes.len() >= 8 * 32 && pauses.len() > 10, "{} writes, {} pauses", writes.len(), pauses.len());
}
