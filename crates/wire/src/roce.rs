//! RoCEv2: InfiniBand's transport in UDP datagrams to port 4791. Big-endian. [IBA vol. 1, 9; annex A17]
//!
//! A packet is a [`Bth`], the extended headers that its [`RoceOpcode`] asks for, the payload, padding to four bytes, and the invariant
//! CRC ([`icrc()`]). [`Headers`] takes one apart. What is in a SEND, and what a READ or WRITE moves, is the consumer's.

use crate::layout::{DecodeError, Structure};

/// UDP port of RoCEv2. [IBA annex A17]
pub const UDP_PORT: u16 = 4791;
/// Bytes of the invariant CRC behind the padding.
pub const ICRC_LEN: usize = 4;
/// Reserved bytes behind the BTH of a CNP. [IBA annex A17.9.3]
pub const CNP_RESERVED: usize = 16;

layout! {
    /// Base Transport Header (BTH): what the packet is, for which queue pair, and its number. [IBA vol. 1, 9.2]
    pub struct Bth[12] in BigEndian {
        opcode: RoceOpcode @ 0 "Opcode" = "infiniband.bth.opcode",
        se: bool @ 1 [7] "Solicited Event (SE)" = "infiniband.bth.se",
        migreq: bool @ 1 [6] "Migration Request (M)" = "infiniband.bth.m",
        padcnt: u8 @ 1 [5:4] "Pad Count, bytes" = "infiniband.bth.padcnt",
        tver: u8 @ 1 [3:0] "Transport Header Version" = "infiniband.bth.tver",
        pkey: u16 @ 2 "Partition Key" = "infiniband.bth.p_key",
        fecn: bool @ 4 [7] "Forward Explicit Congestion Notification (FECN)",
        becn: bool @ 4 [6] "Backward Explicit Congestion Notification (BECN)",
        dqpn: u32 @ 5 [23:0] "Destination Queue Pair (DestQP)" = "infiniband.bth.destqp",
        ackreq: bool @ 8 [7] "Acknowledge Request (A)" = "infiniband.bth.a",
        psn: u32 @ 9 [23:0] "Packet Sequence Number (PSN)" = "infiniband.bth.psn",
    }

    /// Datagram Extended Transport Header (DETH): who sent an unreliable datagram. [IBA vol. 1, 9.3.3]
    pub struct Deth[8] in BigEndian {
        qkey: u32 @ 0 "Queue Key (Q_Key)" = "infiniband.deth.q_key",
        sqpn: u32 @ 5 [23:0] "Source Queue Pair (SrcQP)" = "infiniband.deth.srcqp",
    }

    /// RDMA Extended Transport Header (RETH): the memory that a READ or WRITE is for. [IBA vol. 1, 9.3.4]
    pub struct Reth[16] in BigEndian {
        va: u64 @ 0 "Virtual Address" = "infiniband.reth.va",
        rkey: u32 @ 8 "Remote Key (R_Key)" = "infiniband.reth.r_key",
        dmalen: u32 @ 12 "DMA Length, bytes" = "infiniband.reth.dmalen",
    }

    /// Atomic Extended Transport Header (AtomicETH). [IBA vol. 1, 9.3.5]
    pub struct AtomicEth[28] in BigEndian {
        va: u64 @ 0 "Virtual Address" = "infiniband.reth.va",
        rkey: u32 @ 8 "Remote Key (R_Key)" = "infiniband.reth.r_key",
        swap: u64 @ 12 "Swap (or Add) Data" = "infiniband.atomiceth.swapdt",
        compare: u64 @ 20 "Compare Data" = "infiniband.atomiceth.cmpdt",
    }

    /// ACK Extended Transport Header (AETH): how far the responder is, or why it refuses. [IBA vol. 1, 9.3.6, 9.7.5.2.1]
    pub struct Aeth[4] in BigEndian {
        kind: AethKind @ 0 [6:5] "Syndrome: kind" = "infiniband.aeth.syndrome.opcode",
        value: u8 @ 0 [4:0] "Syndrome: credits (ACK), timer (RNR NAK) or error (NAK)",
        msn: u32 @ 1 [23:0] "Message Sequence Number (MSN)" = "infiniband.aeth.msn",
    }

    /// Atomic ACK Extended Transport Header (AtomicAckETH). [IBA vol. 1, 9.3.7]
    pub struct AtomicAckEth[8] in BigEndian {
        original: u64 @ 0 "Original Remote Data" = "infiniband.atomicacketh.origremdt",
    }

    /// Immediate Data (ImmDt). [IBA vol. 1, 9.3.8]
    pub struct ImmDt[4] in BigEndian {
        data: u32 @ 0 "Immediate Data" = "infiniband.immdt",
    }

    /// Invalidate Extended Transport Header (IETH): the key that the receiver invalidates. [IBA vol. 1, 9.3.9]
    pub struct Ieth[4] in BigEndian {
        rkey: u32 @ 0 "Remote Key (R_Key)" = "infiniband.ieth",
    }
}

open_enum! {
    /// Opcode of a BTH: transport in bits 7:5, operation in bits 4:0. [IBA vol. 1, 9.2.1, Table 38; annexes A14, A17]
    pub struct RoceOpcode(u8) {
        SEND_FIRST = 0x00 "RC SEND First",
        SEND_MIDDLE = 0x01 "RC SEND Middle",
        SEND_LAST = 0x02 "RC SEND Last",
        SEND_LAST_IMM = 0x03 "RC SEND Last with Immediate",
        SEND_ONLY = 0x04 "RC SEND Only",
        SEND_ONLY_IMM = 0x05 "RC SEND Only with Immediate",
        WRITE_FIRST = 0x06 "RC RDMA WRITE First",
        WRITE_MIDDLE = 0x07 "RC RDMA WRITE Middle",
        WRITE_LAST = 0x08 "RC RDMA WRITE Last",
        WRITE_LAST_IMM = 0x09 "RC RDMA WRITE Last with Immediate",
        WRITE_ONLY = 0x0a "RC RDMA WRITE Only",
        WRITE_ONLY_IMM = 0x0b "RC RDMA WRITE Only with Immediate",
        READ_REQUEST = 0x0c "RC RDMA READ Request",
        READ_FIRST = 0x0d "RC RDMA READ Response First",
        READ_MIDDLE = 0x0e "RC RDMA READ Response Middle",
        READ_LAST = 0x0f "RC RDMA READ Response Last",
        READ_ONLY = 0x10 "RC RDMA READ Response Only",
        ACK = 0x11 "RC Acknowledge",
        ATOMIC_ACK = 0x12 "RC Atomic Acknowledge",
        CMP_SWAP = 0x13 "RC CmpSwap",
        FETCH_ADD = 0x14 "RC FetchAdd",
        SEND_LAST_INV = 0x16 "RC SEND Last with Invalidate",
        SEND_ONLY_INV = 0x17 "RC SEND Only with Invalidate",
        UD_SEND_ONLY = 0x64 "UD SEND Only",
        UD_SEND_ONLY_IMM = 0x65 "UD SEND Only with Immediate",
        CNP = 0x81 "CNP",
    }
    /// What an AETH says: bits 6:5 of the syndrome. [IBA vol. 1, 9.7.5.2.1, Table 46]
    pub struct AethKind(u8) {
        ACK = 0 "ACK",
        RNR_NAK = 1 "RNR NAK",
        NAK = 3 "NAK",
    }
    /// Why a responder refuses: bits 4:0 of the syndrome of a NAK. [IBA vol. 1, 9.7.5.2.2, Table 47]
    pub struct NakCode(u8) {
        PSN_SEQUENCE = 0 "PSN sequence error",
        INVALID_REQUEST = 1 "invalid request",
        REMOTE_ACCESS = 2 "remote access error",
        REMOTE_OPERATIONAL = 3 "remote operational error",
        INVALID_RD_REQUEST = 4 "invalid RD request",
    }
}

impl RoceOpcode {
    /// Bits 7:5: 0 for the reliable connection, which NVMe/RDMA uses.
    pub fn transport(self) -> u8 {
        self.0 >> 5
    }

    /// True for SENDs of a reliable connection.
    pub fn is_send(self) -> bool {
        self.0 <= Self::SEND_ONLY_IMM.0 || matches!(self, Self::SEND_LAST_INV | Self::SEND_ONLY_INV)
    }

    /// True for RDMA WRITEs of a reliable connection.
    pub fn is_write(self) -> bool {
        (Self::WRITE_FIRST.0..=Self::WRITE_ONLY_IMM.0).contains(&self.0)
    }

    /// True for responses to RDMA READs.
    pub fn is_read_response(self) -> bool {
        (Self::READ_FIRST.0..=Self::READ_ONLY.0).contains(&self.0)
    }

    /// True for what a responder sends: it carries the PSN of a request of the other side.
    pub fn is_response(self) -> bool {
        (Self::READ_FIRST.0..=Self::ATOMIC_ACK.0).contains(&self.0)
    }

    /// True for what begins a message: the first or only packet of a SEND, WRITE or READ response.
    pub fn begins(self) -> bool {
        matches!(
            self,
            Self::SEND_FIRST
                | Self::SEND_ONLY
                | Self::SEND_ONLY_IMM
                | Self::SEND_ONLY_INV
                | Self::WRITE_FIRST
                | Self::WRITE_ONLY
                | Self::WRITE_ONLY_IMM
                | Self::READ_FIRST
                | Self::READ_ONLY
        )
    }

    /// True for what ends a message: the last or only packet of a SEND, WRITE or READ response.
    pub fn ends(self) -> bool {
        let goes_on = matches!(
            self,
            Self::SEND_FIRST | Self::SEND_MIDDLE | Self::WRITE_FIRST | Self::WRITE_MIDDLE | Self::READ_FIRST | Self::READ_MIDDLE
        );
        (self.is_send() || self.is_write() || self.is_read_response()) && !goes_on
    }

    fn has(self, header: &[RoceOpcode]) -> bool {
        header.contains(&self)
    }
}

const WITH_RETH: [RoceOpcode; 4] =
    [RoceOpcode::WRITE_FIRST, RoceOpcode::WRITE_ONLY, RoceOpcode::WRITE_ONLY_IMM, RoceOpcode::READ_REQUEST];
const WITH_AETH: [RoceOpcode; 5] =
    [RoceOpcode::READ_FIRST, RoceOpcode::READ_LAST, RoceOpcode::READ_ONLY, RoceOpcode::ACK, RoceOpcode::ATOMIC_ACK];
const WITH_IMMEDIATE: [RoceOpcode; 5] = [
    RoceOpcode::SEND_LAST_IMM,
    RoceOpcode::SEND_ONLY_IMM,
    RoceOpcode::WRITE_LAST_IMM,
    RoceOpcode::WRITE_ONLY_IMM,
    RoceOpcode::UD_SEND_ONLY_IMM,
];

impl Aeth {
    /// The syndrome as a whole, with its reserved bit.
    pub fn syndrome(&self) -> u8 {
        self.as_bytes()[0]
    }

    /// Why the responder refuses, where it does for good.
    pub fn nak(&self) -> Option<NakCode> {
        (self.kind() == AethKind::NAK).then(|| NakCode(self.value()))
    }

    /// How long a receiver that is not ready wants the sender to wait, microseconds. [IBA vol. 1, 9.7.5.2.8, Table 45]
    pub fn rnr_us(&self) -> Option<u32> {
        const TENS_OF_US: [u32; 32] = [
            65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144,
            8192, 12_288, 16_384, 24_576, 32_768, 49_152,
        ];
        let tens = TENS_OF_US.get(usize::from(self.value()))?;
        (self.kind() == AethKind::RNR_NAK).then(|| tens * 10)
    }
}

/// `a` minus `b` of two PSNs: positive where `a` is ahead. [IBA vol. 1, 9.7.1]
pub fn psn_distance(a: u32, b: u32) -> i32 {
    let delta = a.wrapping_sub(b) & 0x00ff_ffff;
    if delta < 0x0080_0000 { delta as i32 } else { delta as i32 - 0x0100_0000 }
}

/// `psn` moved on by `n`, in 24 bits.
pub fn psn_add(psn: u32, n: u32) -> u32 {
    psn.wrapping_add(n) & 0x00ff_ffff
}

/// The headers of one packet, in the order of the wire. [IBA vol. 1, 9.2.1, Table 38]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Base Transport Header.
    pub bth: Bth,
    /// Of unreliable datagrams.
    pub deth: Option<Deth>,
    /// Of READ requests, and of the first or only packet of a WRITE.
    pub reth: Option<Reth>,
    /// Of CmpSwap and FetchAdd.
    pub atomic: Option<AtomicEth>,
    /// Of acknowledgements, and of the first, last or only packet of a READ response.
    pub aeth: Option<Aeth>,
    /// Of atomic acknowledgements.
    pub atomic_ack: Option<AtomicAckEth>,
    /// Of what carries immediate data.
    pub immdt: Option<ImmDt>,
    /// Of SENDs with Invalidate.
    pub ieth: Option<Ieth>,
    /// Bytes of all of them: where the payload begins.
    pub len: usize,
}

impl Headers {
    /// Reads the headers at the start of a packet. What an opcode that is not known here would have behind the BTH counts as payload.
    /// Fails where the packet ends within them.
    pub fn read(packet: &[u8]) -> Result<Self, DecodeError> {
        let bth = Bth::read(packet)?;
        let op = bth.opcode();
        let mut out = Self { bth, len: Bth::LEN, ..Self::default() };
        let ud = [RoceOpcode::UD_SEND_ONLY, RoceOpcode::UD_SEND_ONLY_IMM];
        out.deth = next(op.has(&ud), packet, &mut out.len)?;
        out.reth = next(op.has(&WITH_RETH), packet, &mut out.len)?;
        out.atomic = next(op.has(&[RoceOpcode::CMP_SWAP, RoceOpcode::FETCH_ADD]), packet, &mut out.len)?;
        out.aeth = next(op.has(&WITH_AETH), packet, &mut out.len)?;
        out.atomic_ack = next(op == RoceOpcode::ATOMIC_ACK, packet, &mut out.len)?;
        out.immdt = next(op.has(&WITH_IMMEDIATE), packet, &mut out.len)?;
        out.ieth = next(op.has(&[RoceOpcode::SEND_LAST_INV, RoceOpcode::SEND_ONLY_INV]), packet, &mut out.len)?;
        Ok(out)
    }

    /// The payload of a packet whose headers these are; `packet` ends with its ICRC. `None` where padding and ICRC do not fit.
    pub fn payload<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let end = packet.len().checked_sub(ICRC_LEN + usize::from(self.bth.padcnt()))?;
        packet.get(self.len..end)
    }
}

fn next<T: Structure>(there: bool, packet: &[u8], at: &mut usize) -> Result<Option<T>, DecodeError> {
    if !there {
        return Ok(None);
    }
    let len = T::LAYOUT.bytes;
    let Some(bytes) = packet.get(*at..*at + len) else {
        let why =
            alloc::format!("ends after {} bytes, {} of them of {}", packet.len(), packet.len().saturating_sub(*at), T::LAYOUT.name);
        return Err(DecodeError { what: T::LAYOUT.name, at: packet.len(), why });
    };
    *at += len;
    Ok(Some(T::with_bytes(bytes)))
}

/// Invariant CRC of a packet, in the byte order of the wire. [IBA vol. 1, 7.8.1; annex A17.9.2]
///
/// `datagram` is the IP packet from its header to the last byte before the ICRC, with total length and UDP length as on the wire: they
/// count the ICRC. What routers and switches may change counts as all ones: TOS, TTL and header checksum, or traffic class, flow
/// label and hop limit; the UDP checksum; byte 4 of the BTH. `None` where it is no IPv4 or IPv6 with UDP right behind, or too short.
pub fn icrc(datagram: &[u8]) -> Option<[u8; 4]> {
    icrc_of(&[datagram])
}

/// [`icrc()`] of a packet in parts that follow each other; the first has at least all up to the end of the BTH.
pub fn icrc_of(parts: &[&[u8]]) -> Option<[u8; 4]> {
    let (start, rest) = parts.split_first()?;
    let first = *start.first()?;
    let (ip_len, protocol, masks): (usize, usize, &[(usize, u8)]) = match first >> 4 {
        4 => (usize::from(first & 15) * 4, 9, &[(1, 0xff), (8, 0xff), (10, 0xff), (11, 0xff)]),
        6 => (40, 6, &[(0, 0x0f), (1, 0xff), (2, 0xff), (3, 0xff), (7, 0xff)]),
        _ => return None,
    };
    if ip_len < 20 || *start.get(protocol)? != UDP || start.len() < ip_len + 8 + Bth::LEN {
        return None;
    }
    // All up to byte 4 of the BTH; eight bytes of ones before it stand for the local route header, which Ethernet does not have.
    let len = ip_len + 8 + 5;
    let mut head = [0xff; 8 + 60 + 8 + 5];
    let copy = head.get_mut(8..8 + len)?;
    copy.copy_from_slice(start.get(..len)?);
    for (at, mask) in masks.iter().chain(&[(ip_len + 6, 0xff), (ip_len + 7, 0xff), (ip_len + 12, 0xff)]) {
        *copy.get_mut(*at)? |= mask;
    }
    let mut crc = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32IsoHdlc);
    crc.update(head.get(..8 + len)?);
    crc.update(start.get(len..)?);
    rest.iter().for_each(|part| crc.update(part));
    Some((crc.finalize() as u32).to_le_bytes())
}

/// Protocol number of UDP.
const UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn psns_wrap_in_24_bits() {
        assert_eq!((psn_distance(0, 0xff_ffff), psn_distance(0xff_ffff, 0), psn_distance(7, 7)), (1, -1, 0));
        assert_eq!((psn_distance(0x7f_ffff, 0), psn_distance(0x80_0000, 0)), (0x7f_ffff, -0x80_0000));
        assert_eq!(psn_add(0xff_fffe, 3), 1);
    }

    #[test]
    fn an_icrc_is_the_same_in_parts() {
        let mut packet: Vec<u8> = (0..200u32).map(|i| (i * 7) as u8).collect();
        (packet[0], packet[9]) = (0x45, 17);
        let whole = icrc(&packet);
        assert!(whole.is_some());
        for cut in 40..200 {
            assert_eq!(icrc_of(&[&packet[..cut], &packet[cut..190.max(cut)], &packet[190.max(cut)..]]), whole);
        }
        assert_eq!(icrc_of(&[&packet[..39], &packet[39..]]), None);
    }

    #[test]
    fn a_syndrome_says_what_to_do() {
        let aeth = |first: u8| Aeth::from_bytes([first, 0, 0, 5]);
        assert_eq!((aeth(0x62).nak(), aeth(0x62).rnr_us()), (Some(NakCode::REMOTE_ACCESS), None));
        assert_eq!((aeth(0x20).rnr_us(), aeth(0x21).rnr_us(), aeth(0x3f).rnr_us()), (Some(655_360), Some(10), Some(491_520)));
        assert_eq!((aeth(0x1f).nak(), aeth(0x1f).rnr_us(), aeth(0x1f).kind()), (None, None, AethKind::ACK));
    }

    #[test]
    fn a_packet_that_ends_within_its_headers_is_told_where() {
        let bth = Bth::new().with(|s| s.opcode(RoceOpcode::READ_REQUEST));
        let mut packet = bth.as_bytes().to_vec();
        packet.extend([0; 15]);
        let e = Headers::read(&packet).unwrap_err();
        assert_eq!((e.what, e.at), ("Reth", 27));
        packet.push(0);
        assert_eq!(Headers::read(&packet).unwrap().len, 28);
        assert_eq!(Headers::read(&packet).unwrap().payload(&packet), None);
    }
}
