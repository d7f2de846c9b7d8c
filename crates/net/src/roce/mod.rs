//! RoCEv2 on a real wire without an RDMA device: carriers, which move the IP packets of a software NIC.
//!
//! A [`Carrier`] takes [`Datagram`]s and gives packets from the IP header to the ICRC. [`UdpCarrier`] is a socket on UDP port 4791,
//! which any user may have; [`FrameCarrier`] is whole Ethernet frames, on an interface or to a virtual machine. Choose one by
//! [`Way::open`]. Who speaks RoCEv2 is not here: that is `nvmf_roce`.

mod batch;
mod desk;
mod ethernet;
mod frames;
mod ident;
mod line;
mod udp;
mod way;

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use bytes::Bytes;
use nix::poll::{PollFd, PollFlags};
use nix::sys::time::TimeSpec;
use nvmf_roce::Datagram;
use nvmf_seam::Instant;

pub use desk::{Player, RealWire};
pub use frames::FrameCarrier;
pub use line::Line;
pub use udp::UdpCarrier;
pub use way::{OpenFault, Way, address_towards};

/// What moves the packets of one NIC. No call waits; the descriptor (`AsFd`) is readable when something came.
pub trait Carrier: AsFd + Send {
    /// The NIC's address.
    fn address(&self) -> IpAddr;

    /// Bytes of the largest IP packet that goes. It falls when a send shows that the way is narrower.
    fn mtu(&self) -> u32;

    /// The UDP source port of everything that is sent; `None` where each packet may have its own.
    fn source_port(&self) -> Option<u16>;

    /// Packets that the other end of the wire can hold, where it is known to be few.
    fn window(&self) -> Option<u32> {
        None
    }

    /// Sends from the front of `queue`, and leaves what does not fit now: to be tried again at [`Carrier::poll_timeout`], or when
    /// something came. What can never go, as it is too long or nobody takes it, is dropped, as a wire would.
    fn send(&mut self, now: Instant, queue: &mut VecDeque<Datagram>) -> io::Result<()>;

    /// Gives some of what came to `each`, in order. The number of what was taken; 0 where nothing is there.
    fn receive(&mut self, now: Instant, each: &mut dyn FnMut(Bytes)) -> io::Result<usize>;

    /// When [`Carrier::send`] is to be called next, whatever comes.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// Waits until something came or the time is over.
pub fn wait(source: &(impl AsFd + ?Sized), time: Duration) {
    let mut fds = [PollFd::new(source.as_fd(), PollFlags::POLLIN)];
    // An interrupted wait is a short one: the caller looks at its clock.
    let _ = nix::poll::ppoll(&mut fds, Some(TimeSpec::from_duration(time)), None);
}
