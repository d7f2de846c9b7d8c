//! Connection management: what librdmacm gives, owned, and its events as plain data.

use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ptr;

use bytes::Bytes;
use nvmf_seam::rdma::{Accept, Ask, Asked, DeviceError};
use rdma_sys::{
    ibv_context, rdma_accept, rdma_ack_cm_event, rdma_bind_addr, rdma_cm_event, rdma_cm_event_type as kind, rdma_cm_id,
    rdma_conn_param, rdma_connect, rdma_create_event_channel, rdma_create_id, rdma_destroy_event_channel, rdma_destroy_id,
    rdma_disconnect, rdma_event_channel, rdma_get_cm_event, rdma_get_local_addr, rdma_get_peer_addr, rdma_listen, rdma_port_space,
    rdma_reject, rdma_resolve_addr, rdma_resolve_route,
};

use crate::sys::{errno, set_nonblocking};

/// How long an address and a route may take, milliseconds.
const RESOLVE_MS: i32 = 2000;
/// REQs that may wait on a listener.
const BACKLOG: i32 = 128;

/// Where events of CM come.
pub struct Events(*mut rdma_event_channel);

impl Events {
    pub fn new() -> Result<Self, DeviceError> {
        // SAFETY: makes a channel or says why not.
        let channel = unsafe { rdma_create_event_channel() };
        if channel.is_null() {
            return Err(errno("cannot open /dev/infiniband/rdma_cm (load rdma_ucm: `modprobe rdma_ucm`)"));
        }
        let events = Self(channel);
        set_nonblocking(events.fd())?;
        Ok(events)
    }

    pub fn fd(&self) -> i32 {
        // SAFETY: valid until drop.
        unsafe { (*self.0).fd }
    }

    /// The next event, if there is one. It is acknowledged here: nothing of it is C's any more.
    pub fn next(&self) -> Option<Told> {
        let mut event = ptr::null_mut();
        // SAFETY: an event that was got is valid until it is acknowledged, and acknowledged once.
        unsafe {
            if rdma_get_cm_event(self.0, &raw mut event) != 0 {
                return None;
            }
            let told = Told::read(&*event);
            rdma_ack_cm_event(event);
            Some(told)
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: made by rdma_create_event_channel; the device drops all its ids first.
        unsafe { rdma_destroy_event_channel(self.0) };
    }
}

/// What an event says.
pub struct Told {
    /// Whose.
    pub id: *mut rdma_cm_id,
    pub what: What,
}

/// See [`Told`].
pub enum What {
    AddressResolved,
    RouteResolved,
    /// REQ came, for a new id.
    Request(Asked),
    Established {
        private: Bytes,
        /// READs that the other side answers at a time.
        responder_resources: u8,
        /// READs that the other side has out at a time.
        initiator_depth: u8,
        rnr_retry_count: u8,
    },
    Rejected {
        reason: u16,
        private: Bytes,
    },
    Failed,
    Disconnected,
    Removed,
    /// Nothing that concerns us.
    Other,
}

impl Told {
    /// # Safety
    /// `event` was got from librdmacm and not acknowledged yet.
    unsafe fn read(event: &rdma_cm_event) -> Self {
        let what = match event.event {
            kind::RDMA_CM_EVENT_ADDR_RESOLVED => What::AddressResolved,
            kind::RDMA_CM_EVENT_ROUTE_RESOLVED => What::RouteResolved,
            // SAFETY: these events carry connection parameters, and a request an id with addresses.
            kind::RDMA_CM_EVENT_CONNECT_REQUEST => unsafe {
                let p = &event.param.conn;
                What::Request(Asked {
                    from: address(rdma_get_peer_addr(&*event.id)),
                    to: address(rdma_get_local_addr(&*event.id)),
                    private: private(p),
                    // librdmacm turns the two round: it says what is wanted of us. [rdma_get_cm_event(3)]
                    responder_resources: p.initiator_depth,
                    initiator_depth: p.responder_resources,
                    rnr_retry_count: p.rnr_retry_count,
                    flow_control: p.flow_control != 0,
                })
            },
            // SAFETY: as above.
            kind::RDMA_CM_EVENT_ESTABLISHED => unsafe {
                let p = &event.param.conn;
                What::Established {
                    private: private(p),
                    responder_resources: p.initiator_depth,
                    initiator_depth: p.responder_resources,
                    rnr_retry_count: p.rnr_retry_count,
                }
            },
            kind::RDMA_CM_EVENT_REJECTED => What::Rejected {
                reason: event.status as u16,
                // SAFETY: as above.
                private: unsafe { private(&event.param.conn) },
            },
            kind::RDMA_CM_EVENT_ADDR_ERROR
            | kind::RDMA_CM_EVENT_ROUTE_ERROR
            | kind::RDMA_CM_EVENT_CONNECT_ERROR
            | kind::RDMA_CM_EVENT_UNREACHABLE => What::Failed,
            kind::RDMA_CM_EVENT_DISCONNECTED => What::Disconnected,
            kind::RDMA_CM_EVENT_DEVICE_REMOVAL => What::Removed,
            _ => What::Other,
        };
        Self { id: event.id, what }
    }
}

/// # Safety
/// The parameters are those of an event that was not acknowledged yet.
unsafe fn private(p: &rdma_conn_param) -> Bytes {
    if p.private_data.is_null() {
        return Bytes::new();
    }
    // SAFETY: librdmacm says how many bytes are there.
    Bytes::copy_from_slice(unsafe { std::slice::from_raw_parts(p.private_data.cast(), usize::from(p.private_data_len)) })
}

/// A connection, or a listener, at librdmacm. Its queue pair has to be destroyed before it.
pub struct Id(*mut rdma_cm_id);

impl Id {
    pub fn new(events: &Events) -> Result<Self, DeviceError> {
        let mut id = ptr::null_mut();
        // SAFETY: the channel is valid and outlives the id.
        match unsafe { rdma_create_id(events.0, &raw mut id, ptr::null_mut(), rdma_port_space::RDMA_PS_TCP) } {
            0 => Ok(Self(id)),
            _ => Err(errno("cannot make a connection id")),
        }
    }

    /// Takes over the id that came with a request.
    ///
    /// # Safety
    /// `id` is that of a request, and taken over once.
    pub unsafe fn from_request(id: *mut rdma_cm_id) -> Self {
        Self(id)
    }

    pub fn as_ptr(&self) -> *mut rdma_cm_id {
        self.0
    }

    /// The device that the id is on; null while that is open.
    pub fn context(&self) -> *mut ibv_context {
        // SAFETY: valid until drop.
        unsafe { (*self.0).verbs }
    }

    pub fn bind(&self, at: SocketAddr) -> Result<(), DeviceError> {
        let mut at = Sockaddr::of(at);
        // SAFETY: id and address are valid.
        match unsafe { rdma_bind_addr(self.0, at.as_ptr()) } {
            0 => Ok(()),
            _ => Err(errno("cannot bind the address to an RDMA device")),
        }
    }

    pub fn listen(&self) -> Result<(), DeviceError> {
        // SAFETY: a bound id.
        if unsafe { rdma_listen(self.0, BACKLOG) } == 0 { Ok(()) } else { Err(errno("cannot listen")) }
    }

    pub fn resolve(&self, from: Option<IpAddr>, to: SocketAddr) -> Result<(), DeviceError> {
        let mut from = from.map(|ip| Sockaddr::of(SocketAddr::new(ip, 0)));
        let mut to = Sockaddr::of(to);
        // SAFETY: id and addresses are valid; null for no source address.
        let done =
            unsafe { rdma_resolve_addr(self.0, from.as_mut().map_or(ptr::null_mut(), Sockaddr::as_ptr), to.as_ptr(), RESOLVE_MS) };
        if done == 0 { Ok(()) } else { Err(errno("no RDMA device leads to the address")) }
    }

    pub fn resolve_route(&self) -> bool {
        // SAFETY: an id whose address is resolved.
        unsafe { rdma_resolve_route(self.0, RESOLVE_MS) == 0 }
    }

    pub fn connect(&self, ask: &Ask) -> bool {
        // SAFETY: a structure of numbers and a pointer, which is set below and used during the call alone.
        let mut p: rdma_conn_param = unsafe { mem::zeroed() };
        p.private_data = ask.private.as_ptr().cast();
        p.private_data_len = ask.private.len().min(56) as u8;
        p.responder_resources = ask.responder_resources;
        p.initiator_depth = ask.initiator_depth;
        p.retry_count = ask.retry_count;
        p.rnr_retry_count = ask.rnr_retry_count;
        p.flow_control = ask.flow_control.into();
        // SAFETY: an id with a route and a queue pair.
        unsafe { rdma_connect(self.0, &raw mut p) == 0 }
    }

    pub fn accept(&self, accept: &Accept) -> Result<(), DeviceError> {
        // SAFETY: as in `connect`.
        let mut p: rdma_conn_param = unsafe { mem::zeroed() };
        p.private_data = accept.private.as_ptr().cast();
        p.private_data_len = accept.private.len().min(196) as u8;
        p.responder_resources = accept.responder_resources;
        p.initiator_depth = accept.initiator_depth;
        p.rnr_retry_count = accept.rnr_retry_count;
        // SAFETY: an id with a request and a queue pair.
        if unsafe { rdma_accept(self.0, &raw mut p) } == 0 { Ok(()) } else { Err(errno("cannot accept")) }
    }

    pub fn reject(&self, private: &[u8]) {
        // SAFETY: an id with a request. A request that was withdrawn meanwhile is an error that nobody has to hear of.
        unsafe { rdma_reject(self.0, private.as_ptr().cast(), private.len().min(148) as u8) };
    }

    pub fn disconnect(&self) -> bool {
        // SAFETY: valid until drop.
        unsafe { rdma_disconnect(self.0) == 0 }
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: all its events were acknowledged when they came; its queue pair is gone (`Conn` drops it first).
        unsafe { rdma_destroy_id(self.0) };
    }
}

/// An address as C has it.
struct Sockaddr(libc::sockaddr_storage);

impl Sockaddr {
    fn of(addr: SocketAddr) -> Self {
        // SAFETY: a structure of numbers.
        let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
        // SAFETY: sockaddr_storage has room and alignment for both; all bytes are valid.
        unsafe {
            match addr {
                SocketAddr::V4(a) => {
                    let to = &mut *(&raw mut storage).cast::<libc::sockaddr_in>();
                    to.sin_family = libc::AF_INET as u16;
                    to.sin_port = a.port().to_be();
                    to.sin_addr.s_addr = u32::from_ne_bytes(a.ip().octets());
                }
                SocketAddr::V6(a) => {
                    let to = &mut *(&raw mut storage).cast::<libc::sockaddr_in6>();
                    to.sin6_family = libc::AF_INET6 as u16;
                    to.sin6_port = a.port().to_be();
                    to.sin6_addr.s6_addr = a.ip().octets();
                    to.sin6_scope_id = a.scope_id();
                }
            }
        }
        Self(storage)
    }

    fn as_ptr(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.0).cast()
    }
}

/// # Safety
/// `addr` is the begin of an address of its family.
unsafe fn address(addr: &libc::sockaddr) -> SocketAddr {
    // SAFETY: the family says which structure it is; ids have room for the largest.
    unsafe {
        if i32::from(addr.sa_family) == libc::AF_INET6 {
            let a = &*ptr::from_ref(addr).cast::<libc::sockaddr_in6>();
            SocketAddr::new(Ipv6Addr::from(a.sin6_addr.s6_addr).into(), u16::from_be(a.sin6_port))
        } else {
            let a = &*ptr::from_ref(addr).cast::<libc::sockaddr_in>();
            SocketAddr::new(Ipv4Addr::from(a.sin_addr.s_addr.to_ne_bytes()).into(), u16::from_be(a.sin_port))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_to_c_and_back() {
        for text in ["10.9.0.2:4420", "[fe80::1]:8009"] {
            let addr: SocketAddr = text.parse().unwrap();
            let mut c = Sockaddr::of(addr);
            // SAFETY: just made.
            assert_eq!(unsafe { address(&*c.as_ptr()) }, addr);
        }
    }
}
