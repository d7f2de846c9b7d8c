//! Many datagrams of a socket with one call, into memory that is passed on without copying.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};

use bytes::{Bytes, BytesMut};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};
use nvmf_wire::roce::ICRC_LEN;

/// Datagrams of one call.
pub(super) const BATCH: usize = 32;
/// Parts of one datagram.
pub(super) const PARTS: usize = 4;
/// In front of what is received: room for the headers that a socket does not show.
pub(super) const HEADROOM: usize = 40 + 8;
/// Most bytes that are received: an Ethernet header with the largest packet of RoCEv2, and room to see that one is larger.
const LARGEST: usize = 14 + 40 + 8 + 12 + 28 + 4096 + ICRC_LEN + 8;
/// Up to here copying is cheaper than giving the memory away.
const SMALL: usize = 256;

/// One datagram that came.
pub(super) struct Came {
    /// [`HEADROOM`] bytes to be filled in, then the datagram.
    pub buffer: BytesMut,
    /// The sender; `None` where the socket has no such addresses.
    pub from: Option<SockaddrStorage>,
    /// TOS or traffic class, where the socket was asked for it.
    pub tos: u8,
}

/// The memory of a socket's receive calls.
pub(super) struct Receiver {
    slots: Vec<BytesMut>,
}

/// What the system told of one datagram.
#[derive(Clone, Copy)]
struct Told {
    len: usize,
    from: Option<SockaddrStorage>,
    tos: u8,
    whole: bool,
}

impl Receiver {
    pub fn new() -> Self {
        Self { slots: (0..BATCH).map(|_| slot()).collect() }
    }

    /// Takes what is there, at most [`BATCH`] datagrams, without waiting. What is longer than any packet of RoCEv2 is left out.
    /// The number of all.
    pub fn receive(&mut self, socket: &impl AsFd, mut each: impl FnMut(Came)) -> Result<usize, Errno> {
        let mut told = [Told { len: 0, from: None, tos: 0, whole: false }; BATCH];
        let count = {
            // Made anew: the system writes lengths into it, and it cannot go to another thread.
            let mut headers = MultiHeaders::preallocate(BATCH, Some(nix::cmsg_space!(i32)));
            let mut slices: Vec<[IoSliceMut<'_>; 1]> =
                self.slots.iter_mut().map(|s| [IoSliceMut::new(s.get_mut(HEADROOM..).unwrap_or_default())]).collect();
            let flags = MsgFlags::MSG_DONTWAIT;
            let came = recvmmsg(socket.as_fd().as_raw_fd(), &mut headers, slices.iter_mut(), flags, None)?;
            let mut count = 0;
            for (message, told) in came.zip(&mut told) {
                let tos = message.cmsgs().ok().and_then(|mut c| c.find_map(|c| tos(&c))).unwrap_or_default();
                let whole = !message.flags.contains(MsgFlags::MSG_TRUNC);
                *told = Told { len: message.bytes, from: message.address, tos, whole };
                count += 1;
            }
            count
        };
        for (slot, told) in self.slots.iter_mut().zip(told).take(count) {
            if told.whole {
                each(Came { buffer: take(slot, HEADROOM + told.len), from: told.from, tos: told.tos });
            }
        }
        Ok(count)
    }
}

fn slot() -> BytesMut {
    BytesMut::zeroed(HEADROOM + LARGEST)
}

fn take(slot: &mut BytesMut, len: usize) -> BytesMut {
    if len <= HEADROOM + SMALL {
        return BytesMut::from(slot.get(..len).unwrap_or_default());
    }
    let mut taken = std::mem::replace(slot, self::slot());
    taken.truncate(len);
    taken
}

fn tos(message: &ControlMessageOwned) -> Option<u8> {
    match message {
        ControlMessageOwned::Ipv4Tos(tos) => Some(*tos),
        ControlMessageOwned::Ipv6TClass(class) => u8::try_from(*class).ok(),
        _ => None,
    }
}

/// A datagram that is to go: its parts, and where to, unless the socket knows.
pub(super) type Going<'a> = ([IoSlice<'a>; PARTS], Option<SockaddrStorage>);

/// Gives the first of `all`, at most [`BATCH`], to the system; how many it took.
pub(super) fn send<'a>(socket: &impl AsFd, all: impl Iterator<Item = Going<'a>>) -> Result<usize, Errno> {
    let (parts, to): (Vec<_>, Vec<_>) = all.take(BATCH).unzip();
    if parts.is_empty() {
        return Ok(0);
    }
    let mut headers = MultiHeaders::preallocate(parts.len(), None);
    let sent = sendmmsg(socket.as_fd().as_raw_fd(), &mut headers, &parts, to, [], MsgFlags::MSG_DONTWAIT)?;
    Ok(sent.count())
}

/// What a carrier passes on, from its `at`-th byte.
pub(super) fn passed_on(mut buffer: BytesMut, at: usize) -> Bytes {
    let _ = buffer.split_to(at.min(buffer.len()));
    buffer.freeze()
}
