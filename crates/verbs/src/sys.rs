//! What libibverbs gives, as values that are freed when nobody uses them any more.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use nvmf_seam::rdma::DeviceError;
use rdma_sys::{
    ibv_access_flags, ibv_ack_cq_events, ibv_alloc_mw, ibv_alloc_pd, ibv_comp_channel, ibv_context, ibv_cq,
    ibv_create_comp_channel, ibv_create_cq, ibv_dealloc_mw, ibv_dealloc_pd, ibv_dereg_mr, ibv_destroy_comp_channel, ibv_destroy_cq,
    ibv_device_attr, ibv_free_device_list, ibv_get_cq_event, ibv_get_device_list, ibv_get_device_name, ibv_inc_rkey, ibv_mr,
    ibv_mw, ibv_mw_type, ibv_pd, ibv_query_device, ibv_reg_mr,
};

/// The error that C left in errno.
pub fn errno(what: &str) -> DeviceError {
    DeviceError::Other(format!("{what}: {}", io::Error::last_os_error()))
}

/// An error number that C returned.
pub fn failed(what: &str, code: i32) -> DeviceError {
    DeviceError::Other(format!("{what}: {}", io::Error::from_raw_os_error(code.abs())))
}

/// Makes reads of a descriptor return at once.
pub fn set_nonblocking(fd: i32) -> Result<(), DeviceError> {
    // SAFETY: fcntl on a descriptor that its owner, our caller, keeps open.
    let done = unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        flags >= 0 && libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) == 0
    };
    if done { Ok(()) } else { Err(errno("cannot make a descriptor nonblocking")) }
}

/// A descriptor that is readable as long as one of several others is.
pub struct Ready(OwnedFd);

impl Ready {
    pub fn new() -> Result<Self, DeviceError> {
        // SAFETY: makes a descriptor, which is ours alone, or says why not.
        match unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } {
            fd if fd >= 0 => {
                // SAFETY: just made.
                let ready = Self(unsafe { OwnedFd::from_raw_fd(fd) });
                // Nobody reads it; but who watches descriptors may ask for this.
                set_nonblocking(fd)?;
                Ok(ready)
            }
            _ => Err(errno("cannot make an epoll descriptor")),
        }
    }

    /// Looks at `fd` too, which is open as long as it is looked at.
    pub fn add(&self, fd: i32) -> Result<(), DeviceError> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: both are open, and the structure is read during the call.
        match unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) } {
            0 => Ok(()),
            _ => Err(errno("cannot watch a descriptor")),
        }
    }

    /// Waits until one is readable, at most this long; true where one is.
    pub fn wait(&self, most: Duration) -> bool {
        // Rounded up, so that a driver that waits for a time does not spin through its last millisecond.
        let ms = most.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32;
        let mut fd = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor that is open.
        unsafe { libc::poll(&raw mut fd, 1, ms) > 0 }
    }
}

impl AsFd for Ready {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Names of the RDMA devices of this machine.
pub fn device_names() -> Vec<String> {
    let mut count = 0;
    // SAFETY: the list is ours until it is freed below; it has `count` entries.
    unsafe {
        let list = ibv_get_device_list(&raw mut count);
        if list.is_null() {
            return Vec::new();
        }
        let names = (0..count as usize).map(|i| name_of(*list.add(i))).collect();
        ibv_free_device_list(list);
        names
    }
}

/// Name of the device that a context belongs to.
pub fn name(context: *mut ibv_context) -> String {
    // SAFETY: contexts of librdmacm live as long as the process.
    unsafe { name_of((*context).device) }
}

/// # Safety
/// `device` is one that libibverbs gave.
unsafe fn name_of(device: *mut rdma_sys::ibv_device) -> String {
    // SAFETY: libibverbs gives a string with a zero at its end.
    unsafe { CStr::from_ptr(ibv_get_device_name(device)) }.to_string_lossy().into_owned()
}

/// What a device can do.
pub fn attributes(context: *mut ibv_context) -> Result<ibv_device_attr, DeviceError> {
    // SAFETY: a plain structure of numbers, which ibv_query_device fills.
    let mut attr: ibv_device_attr = unsafe { std::mem::zeroed() };
    // SAFETY: context and structure are valid.
    match unsafe { ibv_query_device(context, &raw mut attr) } {
        0 => Ok(attr),
        code => Err(failed("cannot query the device", code)),
    }
}

/// A protection domain.
pub struct Domain(pub *mut ibv_pd);

// SAFETY: verbs may be called from any thread [ibv_fork_init(3), IBA vol. 1, 11]; the pointer is not changed after it is made.
unsafe impl Send for Domain {}
// SAFETY: as above.
unsafe impl Sync for Domain {}

impl Domain {
    pub fn new(context: *mut ibv_context) -> Result<Arc<Self>, DeviceError> {
        // SAFETY: contexts of librdmacm live as long as the process.
        let pd = unsafe { ibv_alloc_pd(context) };
        if pd.is_null() { Err(errno("cannot make a protection domain")) } else { Ok(Arc::new(Self(pd))) }
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: made by ibv_alloc_pd; everything in it holds an Arc of it and is gone.
        unsafe { ibv_dealloc_pd(self.0) };
    }
}

/// A memory region (MR).
pub struct Region {
    mr: *mut ibv_mr,
    domain: Arc<Domain>,
}

// SAFETY: see `Domain`.
unsafe impl Send for Region {}
// SAFETY: see `Domain`.
unsafe impl Sync for Region {}

impl Region {
    /// Registers memory.
    ///
    /// # Safety
    /// The memory stays where it is, and is not freed, until the region is dropped; with write access nobody else holds a reference to it
    /// while the NIC may write.
    pub unsafe fn new(domain: &Arc<Domain>, at: *const u8, len: usize, access: ibv_access_flags) -> Result<Self, DeviceError> {
        // SAFETY: the caller's promise.
        let mr = unsafe { ibv_reg_mr(domain.0, at.cast_mut().cast(), len, access.0 as i32) };
        if mr.is_null() {
            return Err(errno(&format!("cannot register {len} bytes of memory (limit of locked memory, ulimit -l?)")));
        }
        Ok(Self { mr, domain: domain.clone() })
    }

    pub fn lkey(&self) -> u32 {
        // SAFETY: valid until drop.
        unsafe { (*self.mr).lkey }
    }

    pub fn rkey(&self) -> u32 {
        // SAFETY: valid until drop.
        unsafe { (*self.mr).rkey }
    }

    pub fn as_ptr(&self) -> *mut ibv_mr {
        self.mr
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: made by ibv_reg_mr in a domain that is held.
        unsafe { ibv_dereg_mr(self.mr) };
        let _ = &self.domain;
    }
}

/// A memory window of type 2B (MW).
pub struct Window {
    mw: *mut ibv_mw,
    /// The key of its last binding, or the one that it was made with.
    key: u32,
    _domain: Arc<Domain>,
}

// SAFETY: see `Domain`.
unsafe impl Send for Window {}

impl Window {
    pub fn new(domain: &Arc<Domain>) -> Option<Self> {
        // SAFETY: the domain is valid; the function checks that the device has windows.
        let mw = unsafe { ibv_alloc_mw(domain.0, ibv_mw_type::IBV_MW_TYPE_2) }?;
        if mw.is_null() {
            return None;
        }
        // SAFETY: just made.
        let key = unsafe { (*mw).rkey };
        Some(Self { mw, key, _domain: domain.clone() })
    }

    /// A new tag for the next binding. The structure of C has to have the key of the last one then.
    pub fn next_key(&mut self) -> u32 {
        // SAFETY: valid until drop; the rest is arithmetic on a number.
        unsafe {
            (*self.mw).rkey = self.key;
            self.key = ibv_inc_rkey(self.key);
        }
        self.key
    }

    pub fn as_ptr(&self) -> *mut ibv_mw {
        self.mw
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: made by ibv_alloc_mw in a domain that is held.
        unsafe { ibv_dealloc_mw(self.mw) };
    }
}

/// A channel that tells when completion queues have something.
pub struct Channel(pub *mut ibv_comp_channel);

impl Channel {
    pub fn new(context: *mut ibv_context) -> Result<Self, DeviceError> {
        // SAFETY: contexts of librdmacm live as long as the process.
        let channel = unsafe { ibv_create_comp_channel(context) };
        if channel.is_null() {
            return Err(errno("cannot make a completion channel"));
        }
        let channel = Self(channel);
        set_nonblocking(channel.fd())?;
        Ok(channel)
    }

    pub fn fd(&self) -> i32 {
        // SAFETY: valid until drop.
        unsafe { (*self.0).fd }
    }

    /// The number of a queue that has something, until `None`.
    pub fn next(&self) -> Option<u32> {
        let (mut cq, mut number) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: a valid channel; a queue that it tells of exists, as queues are destroyed by us alone and with all events acknowledged.
        unsafe {
            if ibv_get_cq_event(self.0, &raw mut cq, &raw mut number) != 0 {
                return None;
            }
            ibv_ack_cq_events(cq, 1);
        }
        Some(number.addr() as u32)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: made by ibv_create_comp_channel; its completion queues are gone (`Context` is dropped last).
        unsafe { ibv_destroy_comp_channel(self.0) };
    }
}

/// A completion queue.
pub struct Cq(pub *mut ibv_cq);

impl Cq {
    /// A queue that is told of by `number`.
    pub fn new(context: *mut ibv_context, entries: i32, channel: &Channel, number: u32) -> Result<Self, DeviceError> {
        let number = ptr::without_provenance_mut(number as usize);
        // SAFETY: context and channel are valid, and outlive the queue; what it is told of by is a number, and never followed.
        let cq = unsafe { ibv_create_cq(context, entries, number, channel.0, 0) };
        if cq.is_null() { Err(errno(&format!("cannot make a completion queue of {entries}"))) } else { Ok(Self(cq)) }
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: made by ibv_create_cq; the queue pair that used it was destroyed, and events were acknowledged as they came.
        unsafe { ibv_destroy_cq(self.0) };
    }
}
