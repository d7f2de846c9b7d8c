//! The real network with a bystander beside it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nvmf_capture::Direction;
use nvmf_net::driver::PacketTap;
use nvmf_net::{NicSource, RealNetwork};
use nvmf_seam::rdma::RdmaNetwork;
use nvmf_seam::{Instant, LinkId, Network, OpenError, Received, SendError};

use crate::bystander::Bystander;

/// One bystander for all the connections of a command.
pub(super) type Shared = Rc<RefCell<Bystander>>;

/// [`RealNetwork`], seen by a bystander where there is one.
#[derive(Debug)]
pub(super) struct Watched {
    inner: RealNetwork,
    bystander: Option<Shared>,
    numbers: BTreeMap<LinkId, usize>,
    /// RoCEv2 packets that went by, with their times in nanoseconds, and the port that they are for.
    packets: Arc<Mutex<Vec<(u64, Bytes)>>>,
    port: u16,
}

/// Most packets that are kept for the rules, which see them at the end.
const PACKETS: usize = 1 << 20;

impl Watched {
    pub(super) fn new(bystander: Option<Shared>) -> Self {
        Self::with(RealNetwork::default(), bystander)
    }

    /// The same with a NIC, to connect to `to`.
    pub(super) fn over_rdma(bystander: Option<Shared>, nic: &dyn NicSource, to: SocketAddr) -> std::io::Result<Self> {
        let packets = Arc::<Mutex<Vec<(u64, Bytes)>>>::default();
        let tap = bystander.is_some().then(|| -> PacketTap {
            let (begin, kept) = (std::time::Instant::now(), packets.clone());
            Box::new(move |packet| {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() < PACKETS {
                    kept.push((begin.elapsed().as_nanos() as u64, Bytes::copy_from_slice(packet)));
                }
            })
        });
        let mut watched = Self::with(nic.equip(RealNetwork::default(), to.ip(), tap)?, bystander);
        (watched.packets, watched.port) = (packets, to.port());
        Ok(watched)
    }

    fn with(inner: RealNetwork, bystander: Option<Shared>) -> Self {
        Self { inner, bystander, numbers: BTreeMap::new(), packets: Arc::default(), port: 0 }
    }

    /// Bytes go by. What they show is told at the end, not here.
    fn see(&self, link: LinkId, dir: Direction, bytes: impl FnOnce() -> Bytes) {
        if let (Some(bystander), Some(conn)) = (&self.bystander, self.numbers.get(&link)) {
            bystander.borrow_mut().bytes(*conn, dir, self.inner.now().0, bytes());
        }
    }

    fn ended(&mut self, link: LinkId, by: Direction, reset: bool) {
        if let (Some(bystander), Some(conn)) = (&self.bystander, self.numbers.remove(&link)) {
            bystander.borrow_mut().closed(conn, by, self.inner.now().0, reset);
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let packets = std::mem::take(&mut *self.packets.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(bystander) = self.bystander.as_ref().filter(|_| !packets.is_empty()) {
            bystander.borrow_mut().packets(&packets, self.port);
        }
    }
}

impl Network for Watched {
    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn open(&mut self, to: SocketAddr, patience: Duration) -> Result<LinkId, OpenError> {
        let link = self.inner.open(to, patience)?;
        if let Some(bystander) = &self.bystander {
            let ours = self.inner.local_addr(link).unwrap_or(to);
            self.numbers.insert(link, bystander.borrow_mut().opened(ours, to, self.inner.now().0));
        }
        Ok(link)
    }

    fn send(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), SendError> {
        // Before it is sent: the answer must not be seen first.
        self.see(link, Direction::HostToController, || Bytes::copy_from_slice(bytes));
        self.inner.send(link, bytes)
    }

    fn receive(&mut self, link: LinkId, until: Instant) -> Received {
        let got = self.inner.receive(link, until);
        match &got {
            Received::Bytes(bytes) => self.see(link, Direction::ControllerToHost, || bytes.clone()),
            Received::Closed { reset } => self.ended(link, Direction::ControllerToHost, *reset),
            Received::Nothing => {}
        }
        got
    }

    fn shutdown(&mut self, link: LinkId) {
        self.inner.shutdown(link);
    }

    fn close(&mut self, link: LinkId, reset: bool) {
        self.ended(link, Direction::HostToController, reset);
        self.inner.close(link, reset);
    }

    fn sleep(&mut self, until: Instant) {
        self.inner.sleep(until);
    }

    fn rdma(&mut self) -> Option<&mut dyn RdmaNetwork> {
        self.inner.rdma()
    }
}
