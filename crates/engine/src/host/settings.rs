//! What a user may choose about a host: names, queues, limits and patience. Every limit that a controller could press against stands
//! here.

use core::time::Duration;

use nvmf_seam::rdma::Pd;
use nvmf_wire::Cntlid;
use nvmf_wire::nqn::MAX_BYTES;
use nvmf_wire::tcp::Digests;

/// What concerns one association, whatever the transport.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// Host NQN (HOSTNQN), at most 223 bytes. [FAB-CONNECT-17]
    pub hostnqn: String,
    /// Host Identifier (HOSTID), 16 bytes, not all zero. [FAB-CONNECT-19]
    pub hostid: [u8; 16],
    /// NQN of the subsystem to connect to (SUBNQN), at most 223 bytes; the well-known discovery NQN makes the association one with a
    /// discovery controller. [NQN-15]
    pub subnqn: String,
    /// Controller asked for: FFFFh in the dynamic model. [FAB-CNTLID-02]
    pub cntlid: Cntlid,
    /// The subsystem is a discovery service though its name is not the well-known one. [DISC-CTRL-01]
    pub discovery: bool,
    /// Keep Alive Timeout (KATO), milliseconds; 0 switches it off, which only a discovery controller is sure to take. [DISC-CTRL-04]
    pub kato_ms: u32,
    /// Size of the Admin Queue, entries: 4 to 4096. [FAB-QUEUE-14]
    pub admin_entries: u16,
    /// Size of each I/O queue, entries, at least 2; lowered to what CAP.MQES allows. [FAB-QUEUE-18]
    pub io_entries: u16,
    /// I/O queues to connect; lowered to what the controller grants. None for a discovery controller.
    pub io_queues: u16,
    /// Ask to do without SQ flow control. [FAB-SQFC-03]
    pub flow_control_off: bool,
    /// Tell the controller that single I/O queues can be deleted; where it can do so too, a queue is deleted by Disconnect, and the loss of
    /// one does not end the association. [FAB-CONNECT-13, FAB-DISC-15]
    pub queue_deletion: bool,
    /// Asynchronous Event Requests to keep outstanding; lowered to AERL + 1. [ADM-AER-03]
    pub async_events: u8,
    /// Refuse a connection whose controller does not grant the digests asked for. [TCP-DGST-17]
    pub insist_on_digests: bool,
    /// Largest data of one command, bytes, beside what MDTS says; larger ones are refused by `submit`.
    pub max_transfer: u32,
    /// Patience for a connection and for the answer to a command, Asynchronous Event Requests excepted.
    pub command_patience: Duration,
    /// Patience for CSTS.SHST to say that shutdown is complete; longer where RTD3E of the controller asks for it.
    pub shutdown_patience: Duration,
    /// Time between two looks at CSTS while it is waited for.
    pub poll_interval: Duration,
    /// What concerns each NVMe/TCP connection.
    pub tcp: HostTcpSettings,
    /// What concerns each NVMe/RDMA connection; without it the association goes over TCP.
    pub rdma: Option<HostRdmaSettings>,
}

/// What concerns one NVMe/TCP connection of a host.
#[derive(Clone, Debug)]
pub struct HostTcpSettings {
    /// Host PDU Data Alignment (HPDA), 0 to 31: data from the controller starts at a multiple of (n + 1) x 4 bytes. Widespread targets
    /// refuse anything but 0.
    pub hpda: u8,
    /// Digests asked for. [TCP-DGST-01, TCP-DGST-09]
    pub digests: Digests,
    /// R2Ts that may be outstanding for one command, at least 1; MAXR2T of the ICReq is one less. [TCP-R2T-01]
    pub r2ts: u16,
    /// Patience for the ICResp. [TCP-CONN-04]
    pub ic_patience: Duration,
    /// Patience for the rest of a header whose first 8 bytes are wrong already, so that the terminate request can show all of it.
    pub header_patience: Duration,
    /// How long after its H2CTermReq the host waits for the controller to close; the text has 30 s. [TCP-TERM-20]
    pub term_wait: Duration,
}

/// What concerns one NVMe/RDMA connection of a host.
#[derive(Clone, Debug)]
pub struct HostRdmaSettings {
    /// READs of the controller that are answered at a time (Responder Resources), at least 1: without any it could fetch no data.
    /// [RDMA-CM-03]
    pub responder_resources: u8,
    /// Retry Count, 0 to 7.
    pub retry_count: u8,
    /// RNR Retry Count: 7 (for ever), or 0 where the device does not retry. [RDMA-CM-07, RDMA-CM-08]
    pub rnr_retry_count: u8,
    /// Domain of the queue pairs.
    pub pd: Pd,
    /// Ask the controller to invalidate keys with its responses (keyed descriptors 4Fh); only where the device honours that.
    /// [RDMA-SGL-10]
    pub remote_invalidate: bool,
    /// Send the data of an I/O queue's Connect in the capsule where it fits, as Linux does and targets take; the text has Fabrics
    /// capsules of 64 bytes on any queue. [RDMA-CAPS-01]
    pub connect_in_capsule: bool,
    /// Most bytes of one keyed descriptor: 1 to 16 MiB - 1. Longer data has several. [SGL-13]
    pub descriptor: u32,
    /// Work requests on the send queue at a time, at least 1.
    pub work: u32,
    /// Patience for the REP, the device's own excepted.
    pub rep_patience: Duration,
    /// How long the device is waited for at the end of a connection, to give memory back.
    pub end_patience: Duration,
}

/// Most bytes of a keyed descriptor. [SGL-13]
pub(crate) const KEYED_MAX: u32 = 0xff_ffff;

pub use nvmf_wire::nqn::DISCOVERY_NQN;

impl HostSettings {
    /// Settings for a subsystem with one I/O queue and everything else as common hosts have it.
    pub fn new(hostnqn: impl Into<String>, hostid: [u8; 16], subnqn: impl Into<String>) -> Self {
        Self {
            hostnqn: hostnqn.into(),
            hostid,
            subnqn: subnqn.into(),
            cntlid: Cntlid::DYNAMIC,
            discovery: false,
            kato_ms: 120_000,
            admin_entries: 32,
            io_entries: 128,
            io_queues: 1,
            flow_control_off: false,
            queue_deletion: false,
            async_events: 1,
            insist_on_digests: false,
            max_transfer: 16 << 20,
            command_patience: Duration::from_secs(30),
            shutdown_patience: Duration::from_secs(10),
            poll_interval: Duration::from_millis(100),
            tcp: HostTcpSettings::default(),
            rdma: None,
        }
    }

    /// True where the subsystem asked for is a discovery service.
    pub fn is_discovery(&self) -> bool {
        self.discovery || self.subnqn == DISCOVERY_NQN
    }

    /// What no host may send, so that an association with these settings is not begun.
    pub fn fault(&self) -> Option<&'static str> {
        let is_name = |nqn: &str| (1..=MAX_BYTES).contains(&nqn.len()) && !nqn.contains('\0');
        if !is_name(&self.hostnqn) || !is_name(&self.subnqn) {
            // NQN-01, NQN-02
            return Some("an NQN has 1 to 223 bytes and no NUL");
        }
        if self.hostid == [0; 16] {
            // FAB-CONNECT-19
            return Some("the Host Identifier is zero");
        }
        if !(4..=4096).contains(&self.admin_entries) || self.io_entries < 2 {
            // FAB-QUEUE-13, FAB-QUEUE-14; with fewer than 4 no place is left beside Keep Alive and what the host does by itself
            return Some("the Admin Queue has 4 to 4096 entries, an I/O queue at least 2");
        }
        if self.tcp.hpda > 31 || self.tcp.r2ts == 0 {
            // TCP-ICREQ-08
            return Some("HPDA is 0 to 31, and one R2T at least is taken");
        }
        self.rdma.as_ref().and_then(|r| self.rdma_fault(r))
    }

    fn rdma_fault(&self, r: &HostRdmaSettings) -> Option<&'static str> {
        if self.kato_ms == 0 && !self.is_discovery() {
            return Some("NVMe/RDMA needs keep alive: KATO is not zero"); // RDMA-KA-01
        }
        if r.responder_resources == 0 || r.work == 0 || !(1..=KEYED_MAX).contains(&r.descriptor) {
            return Some("RDMA READs, work requests, and bytes of a keyed descriptor (24 bits) are 1 at least");
        }
        if r.retry_count > 7 || r.rnr_retry_count > 7 {
            return Some("retry counts are 0 to 7");
        }
        None
    }
}

impl Default for HostRdmaSettings {
    fn default() -> Self {
        Self {
            responder_resources: 16,
            retry_count: 7,
            rnr_retry_count: 7,
            pd: Pd::default(),
            remote_invalidate: true,
            connect_in_capsule: false,
            descriptor: KEYED_MAX,
            work: 1024,
            rep_patience: Duration::from_secs(30),
            end_patience: Duration::from_secs(5),
        }
    }
}

impl Default for HostTcpSettings {
    fn default() -> Self {
        Self {
            hpda: 0,
            digests: Digests::default(),
            r2ts: 1,
            ic_patience: Duration::from_secs(10),
            header_patience: Duration::from_millis(200),
            term_wait: Duration::from_secs(30),
        }
    }
}
