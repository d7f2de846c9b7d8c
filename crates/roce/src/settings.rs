//! What one NIC is like: its address, what it can do, and every limit that a peer can press against.

use core::net::IpAddr;
use core::time::Duration;

use nvmf_seam::rdma::Limits;

/// Settings of a [`crate::Nic`]. [`NicSettings::new`] gives those of a soft-RoCE device of Linux, where it has them.
#[derive(Clone, Debug)]
pub struct NicSettings {
    /// The address of the one port; its GID follows from it. [IBA annex A17.4]
    pub address: IpAddr,
    /// Largest IP packet that the link carries, bytes. The path MTU follows from it.
    pub link_mtu: u32,
    /// CA GUID in CM messages.
    pub guid: u64,
    /// P_Key of all packets. Bit 15 says full membership and is not compared. [IBA vol. 1, 10.9.3]
    pub pkey: u16,
    /// TTL or hop limit of packets.
    pub ttl: u8,
    /// DSCP of packets, 0 to 63.
    pub dscp: u8,
    /// Packets are marked ECT(0), so that switches may mark them as congested. CNPs and CM never are.
    pub ect: bool,
    /// UDP source port of all packets; `None`: one for each flow, by which switches spread them. A socket has only its own.
    pub source_port: Option<u16>,
    /// UDP checksums are made; otherwise they are 0, also over IPv6. [IBA annex A17.3.2]
    pub udp_checksum: bool,
    /// Queue pairs, those of half-open connections among them.
    pub max_qps: u32,
    /// Passive connections that CM has not brought up yet; further REQs are refused with reason 3 (no resources).
    pub max_half_open: u32,
    /// Work requests on one send queue, and receive buffers of one queue pair.
    pub max_work: u32,
    /// READs that one queue pair has out, or answers, at a time.
    pub max_reads: u8,
    /// Bytes of one READ or WRITE of ours, at most 2^30.
    pub max_transfer: u32,
    /// Bytes of one region.
    pub max_region: u64,
    /// Regions, at most 2^24.
    pub max_regions: u32,
    /// What the other side reads or writes goes through a buffer from which the host's CPU copies, as where a NIC cannot reach the memory of an
    /// accelerator: those bytes count as touched. [`Memory::touched`](nvmf_seam::rdma::Memory::touched)
    pub bounce: bool,
    /// SEND with Invalidate is taken; otherwise it gets NAK 61h.
    pub remote_invalidate: bool,
    /// Packets of SENDs and WRITEs that one queue pair has out unacknowledged.
    pub window: u32,
    /// A requester asks for an acknowledgement on the last packet of each message, and on every so many packets; at most the window.
    pub ack_every: u32,
    /// Local ACK Timeout n of our queue pairs, as the REQ names it: 4.096 us * 2^n; 0 for never. [IBA vol. 1, 9.7.6.1.3]
    pub ack_timeout: u8,
    /// PSN that our CM messages give to the first request of the other side, 24 bits; `None`: by chance, as it should be, so that packets
    /// of an earlier connection are not taken for those of a new one.
    pub first_psn: Option<u32>,
    /// Target ACK Delay n that a REP names: 4.096 us * 2^n, for which we may hold back an acknowledgement. The other side waits no shorter
    /// for one. [IBA vol. 1, 12.7.33]
    pub ack_delay: u8,
    /// A Retry Count of 7 is without end, as soft-RoCE and some NICs have it. In InfiniBand it is 7 times.
    pub endless_retries: bool,
    /// Timer code of our RNR NAKs. [IBA vol. 1, 9.7.5.2.8, Table 45]
    pub rnr_timer: u8,
    /// Least time between two CNPs for one queue pair; `None`: congestion marks are counted, and not answered. [IBA annex A17.9.3]
    pub cnp_interval: Option<Duration>,
    /// DSCP of CNPs.
    pub cnp_dscp: u8,
    /// CM response timeout n: 4.096 us * 2^n until a REQ, REP or DREQ is sent again.
    pub cm_timeout: u8,
    /// How often each of them is sent again, 0 to 15.
    pub cm_retries: u8,
    /// Service timeout n of an MRA, which answers a REQ that is repeated while the consumer still decides.
    pub mra_timeout: u8,
    /// CM messages and CNPs that wait to be sent; further ones are dropped, and their senders ask again.
    pub max_control: usize,
    /// For how long a queue pair number or communication ID that was in use is not given out again.
    pub time_wait: Duration,
    /// Events that wait to be taken, of those that packets of a peer can make at will (packets that are shown).
    pub max_shown: usize,
    /// Bytes of IP packets that are recorded for each connection; 0 for none.
    pub record: usize,
}

impl NicSettings {
    /// The usual ones, on a link of Ethernet's 1500 bytes.
    pub fn new(address: IpAddr) -> Self {
        Self {
            address,
            link_mtu: 1500,
            guid: 0x0200_00ff_fe00_0001,
            pkey: 0xffff,
            ttl: 64,
            dscp: 0,
            ect: true,
            source_port: None,
            udp_checksum: false,
            max_qps: 16_384,
            max_half_open: 1024,
            max_work: 4096,
            max_reads: 16,
            max_transfer: 1 << 30,
            max_region: 1 << 32,
            max_regions: 1 << 20,
            bounce: false,
            remote_invalidate: true,
            window: 128,
            ack_every: 32,
            ack_timeout: 17,
            first_psn: None,
            ack_delay: 0,
            endless_retries: false,
            rnr_timer: 12,
            cnp_interval: Some(Duration::from_micros(50)),
            cnp_dscp: 48,
            cm_timeout: 18,
            cm_retries: 7,
            mra_timeout: 20,
            max_control: 4096,
            time_wait: Duration::from_secs(2),
            max_shown: 65_536,
            record: 0,
        }
    }

    /// What a consumer may ask of the device.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            work: self.max_work,
            reads: self.max_reads,
            transfer: self.max_transfer,
            region: self.max_region,
            sends_invalidate: true,
            takes_invalidate: self.remote_invalidate,
        }
    }

    /// Code of the largest path MTU that the link carries, with room for the largest headers there are (as Linux reckons:
    /// 40 + 8 + 12 + 4 + 28 + 4 bytes). 256 bytes is the least.
    pub(crate) fn path_mtu(&self) -> u8 {
        (1..=5).rev().find(|code| (128 << code) + 96 <= self.link_mtu).unwrap_or(1)
    }
}

/// 4.096 us * 2^n; `None` for 0, which is without end. [IBA vol. 1, 9.7.6.1.3]
pub(crate) fn coded_time(n: u8) -> Option<Duration> {
    (n > 0).then(|| Duration::from_nanos(4096 << n.min(31)))
}
