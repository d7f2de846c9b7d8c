//! What the benches share: a controller in memory with one I/O queue on it ([`Rig`]), both ends of an association in memory
//! ([`pair`]), and nothing else between the bytes and the engine; and for the benches over sockets a [`lean`] host, the [`raw`] loop
//! beside it and the [`round`]s of both.
//!
//! `cargo bench -p nvmfspec-benches` runs those in memory, `cargo xtask bench` those over sockets. Each measurement has a baseline
//! beside it in the same run, as far as there is one: numbers of different machines, or of the same machine at different hours, say
//! little alone.

pub mod counting;
pub mod lean;
pub mod pair;
pub mod pdu;
pub mod raw;
pub mod roce;
pub mod round;
pub mod served;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nvmf_engine::controller::{Hub, NewNamespace, Port, PortTransport};
use nvmf_engine::message::ConnectionId;
use nvmf_engine::tcp::ControllerConnection;
use nvmf_engine::{ControllerSettings, TcpSettings};
use nvmf_seam::{Instant, Store, Transmit};
use nvmf_wire::tcp::Digests;
use nvmf_wire::{Cntlid, Qid, Sqe};
pub use pdu::io;

/// The NQN of the subsystem that is measured.
pub const SUBNQN: &str = "nqn.2014-08.org.example:subsystem";
/// Time for which each bench in memory runs before it is measured.
pub const WARM_UP: Duration = Duration::from_millis(300);
/// Time for which it is measured: all of them take less than three minutes.
pub const MEASUREMENT: Duration = Duration::from_millis(800);

const NOW: Instant = Instant(1);

/// A target with one namespace.
fn hub(store: Arc<dyn Store>) -> Hub {
    let mut hub = Hub::new(ControllerSettings::default());
    hub.add_subsystem(SUBNQN, None).expect("an NQN");
    hub.add_namespace(SUBNQN, 1, NewNamespace { store, blocking: false, uuid: None }).expect("a free NSID");
    let advertise = "192.0.2.1:4420".parse().expect("an address");
    hub.add_port(Port { id: 1, advertise, discovery_only: false, transport: PortTransport::Tcp }).expect("a free port");
    hub
}

/// A controller with an Admin Queue and one I/O queue.
pub struct Rig {
    hub: Hub,
    queues: [ControllerConnection; 2],
    digests: Digests,
}

impl Rig {
    /// An enabled controller over `store`, with both digests where asked for.
    pub fn new(store: Arc<dyn Store>, digests: bool) -> Self {
        let mut hub = hub(store);
        let tcp = Arc::new(TcpSettings::default());
        let queues = [ControllerConnection::new(NOW, tcp.clone()), ControllerConnection::new(NOW, tcp)];
        hub.open(ConnectionId(0), 1, None);
        hub.open(ConnectionId(1), 1, None);
        let mut rig = Self { hub, queues, digests: Digests { header: digests, data: digests } };
        rig.ic_req(0);
        let response = rig.connect(0, Cntlid::DYNAMIC);
        let cntlid = Cntlid(u16::from_le_bytes([response[0], response[1]]));
        rig.exchange(0, &pdu::enable(rig.digests));
        rig.ic_req(1);
        rig.connect(1, cntlid);
        assert!(rig.queues[1].is_connected());
        rig
    }

    fn ic_req(&mut self, queue: usize) {
        assert_eq!(self.exchange(queue, &pdu::ic_req(self.digests)).len(), 1);
    }

    /// Gives the CQE.
    fn connect(&mut self, qid: u16, cntlid: Cntlid) -> Vec<u8> {
        let bytes = pdu::connect(Qid(qid), cntlid, 64, SUBNQN, self.digests);
        let out = self.exchange(usize::from(qid), &bytes);
        out[0].head.as_slice()[8..24].to_vec()
    }

    /// The digests that are on.
    pub fn digests(&self) -> Digests {
        self.digests
    }

    /// The bytes of a command capsule.
    pub fn capsule(&self, sqe: Sqe, data: Bytes) -> Vec<u8> {
        pdu::capsule(sqe, data, self.digests)
    }

    /// Gives bytes to a queue, does what it asks of hub and store, and takes what it sends.
    pub fn exchange(&mut self, queue: usize, bytes: &[u8]) -> Vec<Transmit> {
        let mut out = Vec::new();
        self.exchange_into(queue, bytes, &mut out);
        out
    }

    /// As [`Rig::exchange`], into room that the caller has already.
    pub fn exchange_into(&mut self, queue: usize, bytes: &[u8], out: &mut Vec<Transmit>) {
        self.queues[queue].handle_bytes(NOW, bytes);
        loop {
            let q = &mut self.queues[queue];
            let mut moved = false;
            while let Some(m) = q.poll_message() {
                self.hub.handle_message(NOW, ConnectionId(queue as u64), m);
                moved = true;
            }
            while let Some(r) = q.poll_store() {
                q.handle_store(NOW, r.execute());
                moved = true;
            }
            while let Some(t) = q.poll_transmit(NOW) {
                out.push(t);
                moved = true;
            }
            while let Some((to, m)) = self.hub.poll_message() {
                self.queues[to.0 as usize].handle_message(NOW, m);
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }
}
