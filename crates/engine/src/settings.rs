//! What a user may choose about a controller: identity, limits and patience. Every limit that a peer could press against stands here.

use core::time::Duration;

/// Which controllers an NVM subsystem has. [FAB-CNTLID-08, FAB-CNTLID-10]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ControllerModel {
    /// A Connect makes a controller, which ends with its association.
    #[default]
    Dynamic,
    /// Controllers 1 to `count` exist always, and keep what was saved from one association to the next.
    Static {
        /// At least 1, at most 0xffef.
        count: u16,
    },
}

/// What concerns an NVM subsystem and its controllers, whatever the transport.
#[derive(Clone, Debug)]
pub struct ControllerSettings {
    /// Serial Number (SN), at most 20 printable ASCII characters.
    pub serial: String,
    /// Model Number (MN), at most 40 printable ASCII characters.
    pub model: String,
    /// Firmware Revision (FR), at most 8 printable ASCII characters.
    pub firmware: String,
    /// Size of the largest Admin Queue, entries: 2 to 4096. The discovery log announces it as ASQSZ, which must be at least 32.
    pub admin_queue_entries: u16,
    /// Size of the largest I/O queue, entries, at least 2: CAP.MQES is one less.
    pub io_queue_entries: u16,
    /// I/O queues a controller has, at least 1.
    pub io_queues: u16,
    /// Maximum Data Transfer Size: 2^n pages of 4096 bytes; 0 for no limit (then [`TcpSettings::max_held`] bounds memory).
    pub mdts: u8,
    /// IOCCSZ: size of the largest I/O command capsule in units of 16 bytes, at least 4.
    pub ioccsz: u32,
    /// Asynchronous Event Requests that may be outstanding: AERL is one less. At least 4. [FAB-IDENT-08]
    pub async_events: u8,
    /// Abort commands that may run at once: ACL is one less. At least 4. [ADM-IDENTIFY-58]
    pub aborts: u8,
    /// Granularity of the Keep Alive Timeout (KAS) in units of 100 ms, at least 1. [FAB-IDENT-03]
    pub kas: u16,
    /// True to take KATO 0 in a Connect to an NVM subsystem (the timer is then off), as widespread targets do; false to refuse it
    /// with Keep Alive Timeout Invalid, as the text says. [KA-07]
    pub kato_zero: bool,
    /// Traffic based keep alive (CTRATT, TBKAS): any admin or I/O command keeps the association alive. [KA-14]
    pub traffic_keep_alive: bool,
    /// True to grant a host's wish to switch SQ flow control off. [FAB-SQFC-04]
    pub flow_control_off: bool,
    /// Largest NSID (NN): the room for namespaces.
    pub namespaces: u32,
    /// Static or dynamic controllers. Those of discovery are dynamic always. [FAB-CNTLID-09]
    pub controller_model: ControllerModel,
    /// NVM Subsystem Reset (CAP.NSSRS): a host may reset all controllers of the subsystem. [RESET-31]
    pub subsystem_reset: bool,
    /// Disconnect, and the loss of a single I/O queue without that of the association (OFCS bit 0). [FAB-DISC-15, FAB-DISC-16]
    pub queue_deletion: bool,
    /// A host may enable the controller for admin commands alone (CAP.CSS bit 7, CC.CSS 111b). [FAB-PROP-31]
    pub admin_only: bool,
    /// ANA groups that a namespace may be in; 0 for no ANA reporting. [ANA-01]
    pub ana_groups: u32,
    /// Controllers that may exist at once in one subsystem, at most 0xffef. [FAB-CNTLID-01]
    pub controllers: u16,
    /// Entries of the Error Information log: ELPE is one less. At least 1.
    pub error_entries: u8,
    /// Time that a controller may stay not enabled after Connect or after a controller reset before its association is removed;
    /// the text demands at least two minutes. `None` for ever. [FAB-ASSOC-10, FAB-ASSOC-11]
    pub enable_patience: Option<Duration>,
    /// How long an association outlives the connection of an I/O queue. The text names no time; hosts close their I/O queues first
    /// and then shut the controller down over the Admin Queue, which has to be answered still. [FAB-ASSOC-03]
    pub loss_patience: Duration,
}

impl Default for ControllerSettings {
    fn default() -> Self {
        Self {
            serial: "NVMFSPEC0001".into(),
            model: "nvmfspec reference controller".into(),
            firmware: "0.1.0".into(),
            admin_queue_entries: 128,
            io_queue_entries: 1024,
            io_queues: 64,
            mdts: 8,
            ioccsz: 4 + 8192 / 16,
            async_events: 4,
            aborts: 4,
            kas: 1,
            kato_zero: false,
            traffic_keep_alive: false,
            flow_control_off: true,
            namespaces: 1024,
            controller_model: ControllerModel::Dynamic,
            subsystem_reset: false,
            queue_deletion: false,
            admin_only: false,
            ana_groups: 0,
            controllers: 4096,
            error_entries: 16,
            enable_patience: None,
            loss_patience: Duration::from_secs(1),
        }
    }
}

/// What concerns one NVMe/TCP connection of a controller.
#[derive(Clone, Debug)]
pub struct TcpSettings {
    /// Controller PDU Data Alignment (CPDA), 0 to 31: data from the host starts at a multiple of (n + 1) x 4 bytes.
    pub cpda: u8,
    /// MAXH2CDATA, bytes: a multiple of 4, at least 4096. [TCP-ICRESP-12, TCP-ICRESP-13]
    pub maxh2cdata: u32,
    /// Most bytes that one R2T asks for, a multiple of 4: smaller than a write means several R2Ts.
    pub max_r2tl: u32,
    /// Most bytes of data in one C2HData PDU, a multiple of 4: smaller than a read means several PDUs.
    pub max_c2hdata: u32,
    /// Most R2Ts of one command outstanding, whatever the host's MAXR2T allows. At least 1.
    pub max_r2ts: u32,
    /// Header digests are granted when asked for.
    pub header_digest: bool,
    /// Data digests are granted when asked for.
    pub data_digest: bool,
    /// Successful reads end with SUCCESS in the last C2HData where SQ flow control is off on the queue. [TCP-C2H-10]
    pub success: bool,
    /// Bytes of write data that one connection holds while it waits for more: commands beyond wait for their R2T.
    pub max_held: usize,
    /// Patience for a whole ICReq, and after the ICResp for a Connect.
    pub connect_patience: Duration,
    /// Patience for the rest of a header whose first 8 bytes are wrong already, so that the terminate request can show all of it.
    pub header_patience: Duration,
    /// How long after its C2HTermReq the controller waits for the host to close; the text has 30 s. [TCP-TERM-08]
    pub term_wait: Duration,
}

impl Default for TcpSettings {
    fn default() -> Self {
        Self {
            cpda: 0,
            maxh2cdata: 128 * 1024,
            max_r2tl: 1024 * 1024,
            max_c2hdata: 128 * 1024,
            max_r2ts: 16,
            header_digest: true,
            data_digest: true,
            success: true,
            max_held: 8 * 1024 * 1024,
            connect_patience: Duration::from_secs(30),
            header_patience: Duration::from_millis(200),
            term_wait: Duration::from_secs(30),
        }
    }
}

/// What concerns the NVMe/RDMA connections of a target. IOCCSZ is in [`ControllerSettings`].
#[derive(Clone, Debug)]
pub struct RdmaSettings {
    /// Where capsules have what.
    pub capsules: RdmaCapsules,
    /// READs of one queue that are out at a time (ORD), at least 1; the host's IRD and the device may allow fewer. [RDMA-CM-04]
    pub reads: u8,
    /// Most bytes that one READ asks for, at least 1.
    pub max_read: u32,
    /// Most bytes of one WRITE, at least 1.
    pub max_write: u32,
    /// Responses are sent as SEND with Invalidate where the host wishes for it and the device can. [RDMA-KEY-05]
    pub remote_invalidate: bool,
    /// Bytes of write data that one connection holds while it waits for more, and of read data that WRITEs have out: commands beyond
    /// wait.
    pub max_held: usize,
    /// Connections, those that CM still sets up among them; further requests are refused for lack of resources. [RDMA-CM-28]
    pub connections: usize,
    /// Patience for the end of CM's handshake and a Connect, counted from the request.
    pub connect_patience: Duration,
    /// How long a connection that ends waits for the host to take the last response, and after a Disconnect for the host to end it.
    pub close_patience: Duration,
}

impl Default for RdmaSettings {
    fn default() -> Self {
        Self {
            capsules: RdmaCapsules::default(),
            reads: 16,
            max_read: 128 * 1024,
            max_write: 1024 * 1024,
            remote_invalidate: true,
            max_held: 8 * 1024 * 1024,
            connections: 16 * 1024,
            connect_patience: Duration::from_secs(30),
            close_patience: Duration::from_secs(1),
        }
    }
}

/// Where command capsules of NVMe/RDMA have their descriptors and data, on I/O queues. Identify tells it.
///
/// Behind the SQE is room for descriptors, then for data. [SGL-21 to SGL-26]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RdmaCapsules {
    /// MSDBD: data block descriptors of one command, at least 1.
    pub msdbd: u8,
    /// ICDOFF: where in-capsule data begins behind the SQE, units of 16 bytes. With 0 descriptors may take all that the capsule has,
    /// with any other no more than so many.
    pub icdoff: u16,
}

impl Default for RdmaCapsules {
    fn default() -> Self {
        Self { msdbd: 16, icdoff: 0 }
    }
}

impl RdmaCapsules {
    /// MSDBD as it is told: no more descriptors than the capsule has room for.
    pub fn descriptors(&self, ioccsz: u32) -> u8 {
        let room = if self.icdoff == 0 { ioccsz.saturating_sub(4) } else { ioccsz.saturating_sub(4).min(self.icdoff.into()) };
        // One needs no room: it is in the SQE.
        u32::from(self.msdbd).min(room).max(1) as u8
    }

    /// Bytes of in-capsule data.
    pub fn data_bytes(&self, ioccsz: u32) -> usize {
        (ioccsz.saturating_sub(4).saturating_sub(self.icdoff.into()) as usize).saturating_mul(16)
    }
}
