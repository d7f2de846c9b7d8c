//! [`VerbsDevice`]: the connections of one RDMA device.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nvmf_seam::Instant;
use nvmf_seam::rdma::{
    Accept, Accepted, Ask, CmEvent, Device, DeviceError, DeviceEvent, Limits, Memory, PlayedDevice, QpId, Rkey, Work,
};
use rdma_sys::{ibv_ack_async_event, ibv_async_event, ibv_context, ibv_device_cap_flags, ibv_event_type, ibv_get_async_event};

use crate::cm::{Events, Id, What};
use crate::conn::Conn;
use crate::pool::Pool;
use crate::sys::{Channel, Domain, Ready, Window, attributes, device_names, name, set_nonblocking};

/// What a user may choose about a device.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the device, such as `rxe0` or `mlx5_0`.
    pub name: String,
    /// Address to connect from and to listen on; `None` for any of the device's.
    pub address: Option<IpAddr>,
    /// Work requests on a send queue, and receives of a queue pair; less where the device does less.
    pub depth: u32,
    /// Most bytes of buffers that are registered.
    pub memory: usize,
}

impl Settings {
    /// The usual ones for a device.
    pub fn of(name: &str) -> Self {
        Self { name: name.to_owned(), address: None, depth: 1024, memory: 256 << 20 }
    }
}

/// What all connections of a device share.
pub struct Context {
    pub verbs: *mut ibv_context,
    pub pool: Arc<Pool>,
    pub domain: Arc<Domain>,
    pub channel: Channel,
    pub limits: Limits,
    pub max_cqe: u32,
    /// Bytes that a SEND has inline, if the device grants it.
    pub inline: u32,
    /// Windows whose key is invalid; `None` where the device has no windows of type 2B.
    windows: Option<Mutex<Vec<Window>>>,
}

// SAFETY: verbs may be called from any thread; what changes is behind a lock, or in the kernel.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    fn new(verbs: *mut ibv_context, settings: &Settings) -> Result<Arc<Self>, DeviceError> {
        let attr = attributes(verbs)?;
        let domain = Domain::new(verbs)?;
        let has_windows = attr.device_cap_flags & ibv_device_cap_flags::IBV_DEVICE_MEM_WINDOW_TYPE_2B.0 != 0;
        // A device may say that it has windows and yet make none.
        let windows = if has_windows { Window::new(&domain) } else { None };
        let limits = Limits {
            work: settings.depth.min(attr.max_qp_wr.max(1) as u32),
            reads: attr.max_qp_rd_atom.min(attr.max_qp_init_rd_atom).clamp(0, 128) as u8,
            transfer: 4 << 20,
            region: attr.max_mr_size,
            sends_invalidate: true,
            takes_invalidate: windows.is_some(),
        };
        // SAFETY: contexts of librdmacm live as long as the process.
        set_nonblocking(unsafe { (*verbs).async_fd })?;
        Ok(Arc::new(Self {
            verbs,
            pool: Pool::new(domain.clone(), settings.memory),
            channel: Channel::new(verbs)?,
            limits,
            max_cqe: attr.max_cqe.max(1) as u32,
            inline: 80,
            windows: windows.map(|w| Mutex::new(vec![w])),
            domain,
        }))
    }

    /// A window whose key is invalid, where the device has windows.
    pub fn window(&self) -> Option<Window> {
        let kept = self.windows.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.or_else(|| Window::new(&self.domain))
    }

    /// Keeps a window for the next use.
    pub fn keep(&self, window: Option<Window>) {
        if let (Some(windows), Some(window)) = (&self.windows, window) {
            windows.lock().unwrap_or_else(PoisonError::into_inner).push(window);
        }
    }
}

/// An RDMA device, through RDMA-CM.
///
/// Its driver waits by [`VerbsDevice::wait`], lets [`VerbsDevice::turn`] take in what the hardware has, and drains
/// [`Device::poll_event`]. Limits: see [`Settings`].
pub struct VerbsDevice {
    settings: Settings,
    // Dropped in this order: connections before their context, ids before their channel.
    conns: BTreeMap<QpId, Conn>,
    asks: BTreeMap<QpId, Ask>,
    listeners: Vec<Id>,
    context: Option<Arc<Context>>,
    channel: Events,
    ready: Ready,
    next: u32,
    events: VecDeque<(QpId, DeviceEvent)>,
    /// Memory of connections that were destroyed, until it is asked for, or another connection is.
    left: Vec<(Rkey, Memory)>,
}

// SAFETY: librdmacm and libibverbs may be called from any thread, and all pointers in it are its own.
unsafe impl Send for VerbsDevice {}

impl VerbsDevice {
    /// Opens the device. The error says what to do where there is none of that name.
    pub fn open(settings: Settings) -> Result<Self, DeviceError> {
        let names = device_names();
        if !names.contains(&settings.name) {
            let there = match names.is_empty() {
                true => {
                    "there is none (for soft-RoCE: `modprobe rdma_rxe`, then `rdma link add rxe0 type rxe netdev IFACE`)".to_owned()
                }
                false => format!("there are {}", names.join(", ")),
            };
            return Err(DeviceError::Other(format!("no RDMA device {}: {there}", settings.name)));
        }
        let channel = Events::new()?;
        let ready = Ready::new()?;
        ready.add(channel.fd())?;
        let mut device = Self {
            settings,
            conns: BTreeMap::new(),
            asks: BTreeMap::new(),
            listeners: Vec::new(),
            context: None,
            channel,
            ready,
            next: 0,
            events: VecDeque::new(),
            left: Vec::new(),
        };
        if let Some(address) = device.settings.address {
            let probe = Id::new(&device.channel)?;
            if probe.bind(SocketAddr::new(address, 0)).is_err() || probe.context().is_null() {
                let why = format!(
                    "{address} is not on the RDMA device {}: `rdma link` tells on which interface it is",
                    device.settings.name
                );
                return Err(DeviceError::Other(why));
            }
            device.enter(probe.context())?;
        }
        Ok(device)
    }

    /// Waits until the device has something, at most this long; true where it has.
    pub fn wait(&self, most: Duration) -> bool {
        self.ready.wait(most)
    }

    /// Takes in what the hardware and CM have; true where something came.
    pub fn turn(&mut self) -> bool {
        let mut came = false;
        while let Some(told) = self.channel.next() {
            self.told(told.id, told.what);
            came = true;
        }
        // A queue is armed before it is emptied: one that is not told of has nothing.
        while let Some(qp) = self.context.as_ref().and_then(|c| c.channel.next()).map(QpId) {
            if let Some(conn) = self.conns.get_mut(&qp) {
                conn.poll();
            }
            self.collect(qp);
            came = true;
        }
        self.asynchronous();
        came
    }

    /// Something waits for [`Device::poll_event`]. Not all of it comes by the descriptor: work may be over as soon as it is posted.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Payload bytes that a CPU copied into registered buffers.
    pub fn copied(&self) -> u64 {
        self.conns.values().map(|c| c.copied).sum()
    }

    /// The context of a device that an id is on; an error where it is another device than the one that was opened.
    fn enter(&mut self, verbs: *mut ibv_context) -> Result<Arc<Context>, DeviceError> {
        if verbs.is_null() {
            return Err(DeviceError::Other("the address is on no RDMA device".into()));
        }
        if let Some(c) = self.context.as_ref().filter(|c| c.verbs == verbs) {
            return Ok(c.clone());
        }
        let there = name(verbs);
        if there != self.settings.name {
            return Err(DeviceError::Other(format!("the address is on the RDMA device {there}, not on {}", self.settings.name)));
        }
        let context = Context::new(verbs, &self.settings)?;
        self.ready.add(context.channel.fd())?;
        // SAFETY: contexts of librdmacm live as long as the process.
        self.ready.add(unsafe { (*verbs).async_fd })?;
        self.context = Some(context.clone());
        Ok(context)
    }

    fn number(&mut self) -> QpId {
        self.next += 1;
        QpId(self.next)
    }

    fn of(&self, id: *mut rdma_sys::rdma_cm_id) -> Option<QpId> {
        self.conns.iter().find(|(_, c)| c.id.as_ptr() == id).map(|(qp, _)| *qp)
    }

    fn say(&mut self, qp: QpId, event: CmEvent) {
        self.events.push_back((qp, DeviceEvent::Cm(event)));
    }

    fn collect(&mut self, qp: QpId) {
        if let Some(conn) = self.conns.get_mut(&qp) {
            while let Some(done) = conn.next_done() {
                self.events.push_back((qp, DeviceEvent::Completed(done)));
            }
        }
    }

    fn told(&mut self, id: *mut rdma_sys::rdma_cm_id, what: What) {
        if let What::Request(asked) = what {
            // SAFETY: the id of a request, which nobody else has.
            let conn = Conn::new(unsafe { Id::from_request(id) });
            return self.requested(conn, asked);
        }
        let Some(qp) = self.of(id) else { return };
        match what {
            What::AddressResolved => {
                let ok = self.conns.get(&qp).is_some_and(|c| c.id.resolve_route());
                if !ok {
                    self.lost(qp, CmEvent::Unreachable);
                }
            }
            What::RouteResolved => {
                if self.ask(qp).is_err() {
                    self.lost(qp, CmEvent::Unreachable);
                }
            }
            What::Established { private, responder_resources, initiator_depth, rnr_retry_count } => match self.asks.remove(&qp) {
                Some(_) => {
                    self.say(qp, CmEvent::Accepted(Accepted { private, responder_resources, initiator_depth, rnr_retry_count }))
                }
                None => self.say(qp, CmEvent::Established),
            },
            What::Rejected { reason, private } => match self.asks.remove(&qp) {
                Some(_) => self.lost(qp, CmEvent::Rejected { reason, private }),
                None => self.lost(qp, CmEvent::Disconnected),
            },
            What::Failed => self.lost(qp, CmEvent::Unreachable),
            What::Disconnected => {
                // Takes the queue pair to its error state, from which its work is flushed.
                if let Some(c) = self.conns.get(&qp) {
                    c.id.disconnect();
                }
                self.lost(qp, CmEvent::Disconnected);
            }
            What::Removed => self.lost(qp, CmEvent::Removed),
            What::Request(_) | What::Other => {}
        }
    }

    /// A connection did not come up, or is over.
    fn lost(&mut self, qp: QpId, event: CmEvent) {
        self.asks.remove(&qp);
        if let Some(c) = self.conns.get_mut(&qp) {
            c.over = true;
            c.flush_early();
            c.poll();
        }
        self.collect(qp);
        self.say(qp, event);
    }

    /// The way is known: a queue pair, and REQ.
    fn ask(&mut self, qp: QpId) -> Result<(), DeviceError> {
        let verbs = self.conns.get(&qp).map_or(ptr::null_mut(), |c| c.id.context());
        let context = self.enter(verbs)?;
        let (Some(conn), Some(ask)) = (self.conns.get_mut(&qp), self.asks.get(&qp)) else { return Err(DeviceError::State) };
        conn.make_pair(&context, qp)?;
        if conn.id.connect(ask) { Ok(()) } else { Err(DeviceError::State) }
    }

    fn requested(&mut self, mut conn: Conn, asked: nvmf_seam::rdma::Asked) {
        let qp = self.number();
        let made = self.enter(conn.id.context()).and_then(|context| conn.make_pair(&context, qp));
        if made.is_err() {
            // Not our device, or nothing left of it: refused without private data.
            conn.id.reject(&[]);
            return;
        }
        self.conns.insert(qp, conn);
        self.say(qp, CmEvent::Request(asked));
    }

    /// A device that failed takes all its connections with it.
    fn asynchronous(&mut self) {
        let Some(context) = &self.context else { return };
        let mut fatal = false;
        // SAFETY: an event that was got is valid until it is acknowledged.
        unsafe {
            let mut event: ibv_async_event = std::mem::zeroed();
            while ibv_get_async_event(context.verbs, &raw mut event) == 0 {
                fatal |= event.event_type == ibv_event_type::IBV_EVENT_DEVICE_FATAL;
                ibv_ack_async_event(&raw mut event);
            }
        }
        if fatal {
            let all: Vec<QpId> = self.conns.keys().copied().collect();
            all.into_iter().for_each(|qp| self.lost(qp, CmEvent::Removed));
        }
    }
}

/// Readable where the device has something.
impl AsFd for VerbsDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

impl fmt::Debug for VerbsDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerbsDevice")
            .field("settings", &self.settings)
            .field("connections", &self.conns.len())
            .finish_non_exhaustive()
    }
}

impl PlayedDevice for VerbsDevice {
    fn is_over(&mut self, qp: QpId) -> bool {
        self.conns.get(&qp).is_none_or(|c| c.over)
    }
}

impl Device for VerbsDevice {
    fn limits(&self) -> Limits {
        let usual = Limits {
            work: self.settings.depth,
            reads: 16,
            transfer: 4 << 20,
            region: 1 << 30,
            sends_invalidate: true,
            takes_invalidate: false,
        };
        self.context.as_ref().map_or(usual, |c| c.limits)
    }

    fn listen(&mut self, port: u16) -> Result<(), DeviceError> {
        let id = Id::new(&self.channel)?;
        id.bind(SocketAddr::new(self.settings.address.unwrap_or(IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED)), port))?;
        id.listen()?;
        self.listeners.push(id);
        Ok(())
    }

    fn connect(&mut self, _now: Instant, to: SocketAddr, ask: &Ask) -> Result<QpId, DeviceError> {
        let id = Id::new(&self.channel)?;
        id.resolve(self.settings.address, to)?;
        let qp = self.number();
        self.left.clear();
        self.conns.insert(qp, Conn::new(id));
        self.asks.insert(qp, ask.clone());
        Ok(qp)
    }

    fn accept(&mut self, _now: Instant, qp: QpId, accept: &Accept) -> Result<(), DeviceError> {
        self.conns.get(&qp).ok_or(DeviceError::State)?.id.accept(accept)
    }

    fn reject(&mut self, _now: Instant, qp: QpId, private: &[u8]) -> Result<(), DeviceError> {
        self.conns.remove(&qp).ok_or(DeviceError::State)?.id.reject(private);
        Ok(())
    }

    fn disconnect(&mut self, _now: Instant, qp: QpId) {
        let done = self.conns.get(&qp).is_some_and(|c| c.is_ready() && c.id.disconnect());
        if !done {
            self.lost(qp, CmEvent::Disconnected);
        }
    }

    fn destroy(&mut self, _now: Instant, qp: QpId) {
        self.asks.remove(&qp);
        self.left.extend(self.conns.remove(&qp).into_iter().flat_map(Conn::dissolve));
        self.events.retain(|(of, _)| *of != qp);
    }

    fn post(&mut self, _now: Instant, qp: QpId, work: Work) -> Result<(), DeviceError> {
        let posted = self.conns.get_mut(&qp).ok_or(DeviceError::State)?.post(work);
        self.collect(qp);
        posted
    }

    fn deregister(&mut self, key: Rkey) -> Option<Memory> {
        let left = self.left.iter().position(|(of, _)| *of == key).map(|at| self.left.swap_remove(at).1);
        left.or_else(|| self.conns.values_mut().find_map(|c| c.deregister(key)))
    }

    fn poll_event(&mut self) -> Option<(QpId, DeviceEvent)> {
        self.events.pop_front()
    }
}
