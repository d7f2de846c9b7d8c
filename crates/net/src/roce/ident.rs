//! The IPv4 header as the sender of a datagram wrote it, from what a UDP socket does not hide.
//!
//! The invariant CRC covers the identification, which a socket does not show. But a CRC is affine: changing some bits of a packet
//! changes its CRC by a value that depends on those bits and on what length follows them, and no two changes within 32 bits
//! give the same value. So the 16 bits are found from the CRC that came, and 32 - 16 bits of it are left to tell a
//! packet that was damaged. [IBA vol. 1, 7.8.1; annex A17.9.2]

use nvmf_wire::roce::{ICRC_LEN, icrc};

/// Bytes of the header.
pub(super) const IPV4: usize = 20;
/// Where the identification is.
const IDENTIFICATION: usize = 4;
/// Where flags and fragment offset are; 40h there is Don't Fragment.
const FLAGS: usize = 6;
const DONT_FRAGMENT: u8 = 0x40;

/// Fills in identification and flags of `packet`, which goes from its IPv4 header (20 bytes, these four 0) to its ICRC. False where no
/// value fits: the packet was damaged on its way.
pub(super) fn restore(packet: &mut [u8]) -> bool {
    let Some(covered) = packet.len().checked_sub(ICRC_LEN).filter(|n| *n > IPV4) else { return false };
    // RoCEv2 packets are never fragmented, and all senders known say so.
    [DONT_FRAGMENT, 0].into_iter().any(|flags| {
        packet[FLAGS] = flags;
        let Some(id) = identification(packet, covered) else { return false };
        packet[IDENTIFICATION..FLAGS].copy_from_slice(&id);
        true
    })
}

fn identification(packet: &[u8], covered: usize) -> Option<[u8; 2]> {
    let (head, came) = packet.split_at_checked(covered)?;
    let difference = u32::from_le_bytes(icrc(head)?) ^ u32::from_le_bytes(came.try_into().ok()?);
    // Run the difference back to where the two bytes entered the register.
    let bits = back(difference, covered - IDENTIFICATION);
    u16::try_from(bits).ok().map(u16::to_le_bytes)
}

/// The polynomial of the CRC, bit 31 for x^0. [IEEE 802.3, 3.2.9]
const POLYNOMIAL: u32 = 0xedb8_8320;
/// x^0.
const ONE: u32 = 1 << 31;

/// x^-(8 * 2^k) for each k.
const BACK: [u32; 16] = {
    let mut table = [0; 16];
    // 1 / x: what `times_x` makes 1 of.
    let mut power = ((ONE ^ POLYNOMIAL) << 1) | 1;
    let mut n = 0;
    while n < 3 + table.len() {
        if n >= 3 {
            table[n - 3] = power;
        }
        power = product(power, power);
        n += 1;
    }
    table
};

/// The register as it was `bytes` zero bytes ago.
fn back(register: u32, bytes: usize) -> u32 {
    BACK.iter().enumerate().filter(|(k, _)| bytes >> k & 1 == 1).fold(register, |r, (_, power)| product(r, *power))
}

/// a * b modulo the polynomial.
const fn product(a: u32, mut b: u32) -> u32 {
    let (mut sum, mut bit) = (0, ONE);
    while bit != 0 {
        if a & bit != 0 {
            sum ^= b;
        }
        b = times_x(b);
        bit >>= 1;
    }
    sum
}

const fn times_x(b: u32) -> u32 {
    if b & 1 == 1 { b >> 1 ^ POLYNOMIAL } else { b >> 1 }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn packet(id: u16, flags: u8, payload: usize) -> Vec<u8> {
        let len = IPV4 + 8 + 12 + payload + ICRC_LEN;
        let mut p: Vec<u8> = (0..len).map(|n| (n * 37 + payload) as u8).collect();
        p[..12].copy_from_slice(&[0x45, 2, (len >> 8) as u8, len as u8, 0, 0, flags, 0, 64, 17, 0, 0]);
        p[4..6].copy_from_slice(&id.to_be_bytes());
        let crc = icrc(&p[..len - ICRC_LEN]).unwrap();
        p[len - ICRC_LEN..].copy_from_slice(&crc);
        p
    }

    #[test]
    fn every_identification_is_found() {
        for id in (0..=u16::MAX).step_by(13) {
            let sent = packet(id, DONT_FRAGMENT, usize::from(id % 64) * 68);
            let mut seen = sent.clone();
            seen[4..8].fill(0);
            assert!(restore(&mut seen));
            assert_eq!(seen, sent);
        }
    }

    /// IPv4 packets of RoCEv2 in a recorded file.
    fn recorded(name: &str) -> Vec<Vec<u8>> {
        let path = format!("{}/../../captures/{name}", env!("CARGO_MANIFEST_DIR"));
        let mut file = Vec::new();
        let open = std::fs::File::open(path).expect("a capture");
        flate2::read::GzDecoder::new(open).read_to_end(&mut file).expect("a gzip file");
        let (mut packets, mut rest) = (Vec::new(), &file[24..]);
        while let Some((head, behind)) = rest.split_at_checked(16) {
            let len = u32::from_le_bytes(head[8..12].try_into().unwrap()) as usize;
            let (frame, behind) = behind.split_at(len);
            if frame[12..15] == [8, 0, 0x45] && frame[23] == 17 && frame[36..38] == [0x12, 0xb7] {
                let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
                packets.push(frame[14..end].to_vec());
            }
            rest = behind;
        }
        packets
    }

    #[test]
    fn what_soft_roce_put_into_its_packets_is_found() {
        let (mut all, mut ids) = (0, std::collections::BTreeSet::new());
        for name in ["linux-6.12/rdma-io.pcap.gz", "rxe-peer/t1-udp-fault-droptx.pcap.gz", "rxe-peer/psn-swapped.pcap.gz"] {
            for sent in recorded(name) {
                let mut seen = sent.clone();
                seen[4..8].fill(0);
                assert!(restore(&mut seen));
                assert_eq!(seen, sent, "{name}");
                all += 1;
                ids.insert([sent[4], sent[5]]);
            }
        }
        assert!(all > 1000 && ids.len() > 300, "{all} packets, {} identifications", ids.len());
    }

    #[test]
    fn a_sender_that_lets_fragment_is_understood() {
        let sent = packet(0xbeef, 0, 1024);
        let mut seen = sent.clone();
        seen[4..8].fill(0);
        assert!(restore(&mut seen));
        assert_eq!(seen, sent);
    }

    #[test]
    fn damage_is_told() {
        // Each byte but those that the CRC leaves out: TOS, TTL, checksum, UDP checksum, byte 4 of the BTH.
        let left_out = [1, 8, 10, 11, 26, 27, 32];
        let (mut told, mut all) = (0, 0);
        for at in (8..packet(0, 0, 256).len()).filter(|at| !left_out.contains(at)) {
            for bit in 0..8 {
                let mut seen = packet(0x1234, DONT_FRAGMENT, 256);
                seen[4..8].fill(0);
                seen[at] ^= 1 << bit;
                all += 1;
                told += usize::from(!restore(&mut seen));
            }
        }
        // One in 2^15 looks right by chance.
        assert!(all > 2000 && told + 1 >= all, "{told} of {all}");
        assert!(!restore(&mut [0; 24]) && !restore(&mut []));
    }
}
