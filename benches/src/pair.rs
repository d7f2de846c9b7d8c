//! The reference host and the reference controller in memory: what one sends is given to the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use nvmf_engine::TcpSettings;
use nvmf_engine::controller::Hub;
use nvmf_engine::host::{Association, Completion, Event, HostSettings, HostTcpSettings, Payload};
use nvmf_engine::message::ConnectionId;
use nvmf_engine::tcp::ControllerConnection;
use nvmf_seam::{Store, Transmit};
use nvmf_wire::tcp::Digests;
use nvmf_wire::{Qid, Sqe};

use crate::{NOW, SUBNQN, hub};

/// The I/O queue.
const IO: Qid = Qid(1);

/// An association with one I/O queue, both ends of it.
pub struct Pair {
    host: Association,
    hub: Hub,
    queues: BTreeMap<Qid, ControllerConnection>,
    /// What is on the way: one PDU.
    wire: Vec<u8>,
    completed: Option<Completion>,
}

impl Pair {
    /// A ready association with a controller over `store`, with both digests where asked for.
    pub fn new(store: Arc<dyn Store>, digests: bool) -> Self {
        let digests = Digests { header: digests, data: digests };
        let tcp = HostTcpSettings { digests, ..HostTcpSettings::default() };
        let settings = HostSettings { tcp, ..HostSettings::new("nqn.2014-08.org.example:host", [7; 16], SUBNQN) };
        let (host, hub) = (Association::new(settings), hub(store));
        let mut pair = Self { host, hub, queues: BTreeMap::new(), wire: Vec::new(), completed: None };
        pair.settle();
        assert!(pair.host.is_ready());
        pair
    }

    /// One command to its end.
    pub fn execute(&mut self, sqe: Sqe, payload: Payload) -> Completion {
        self.host.submit(IO, sqe, payload, NOW).expect("a place in the queue");
        self.settle();
        self.completed.take().expect("a completion")
    }

    /// Until nothing moves.
    fn settle(&mut self) {
        let mut moved = true;
        while moved {
            moved = false;
            while let Some(event) = self.host.poll_event() {
                self.event(event);
                moved = true;
            }
            while let Some((qid, t)) = self.host.poll_transmit(NOW) {
                write(&t, &mut self.wire);
                if let Some(q) = self.queues.get_mut(&qid) {
                    q.handle_bytes(NOW, &self.wire);
                }
                moved = true;
            }
            for (qid, q) in &mut self.queues {
                moved |= turn(*qid, q, &mut self.hub, &mut self.host, &mut self.wire);
            }
            while let Some((to, m)) = self.hub.poll_message() {
                if let Some(q) = self.queues.get_mut(&Qid(to.0 as u16)) {
                    q.handle_message(NOW, m);
                }
                moved = true;
            }
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Open(qid) => {
                self.hub.open(ConnectionId(u64::from(qid.0)), 1, None);
                self.queues.insert(qid, ControllerConnection::new(NOW, Arc::new(TcpSettings::default())));
                self.host.handle_opened(qid, NOW);
            }
            Event::Completed(_, completion) => self.completed = Some(completion),
            Event::Ready | Event::Negotiated(..) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// What one queue of the controller has to do.
fn turn(qid: Qid, q: &mut ControllerConnection, hub: &mut Hub, host: &mut Association, wire: &mut Vec<u8>) -> bool {
    let mut moved = false;
    while let Some(m) = q.poll_message() {
        hub.handle_message(NOW, ConnectionId(u64::from(qid.0)), m);
        moved = true;
    }
    while let Some(r) = q.poll_store() {
        q.handle_store(NOW, r.execute());
        moved = true;
    }
    while let Some(t) = q.poll_transmit(NOW) {
        write(&t, wire);
        host.handle_bytes(qid, wire, NOW);
        moved = true;
    }
    moved
}

/// The one copy that a socket would make too.
fn write(t: &Transmit, to: &mut Vec<u8>) {
    to.clear();
    to.extend_from_slice(t.head.as_slice());
    to.extend_from_slice(&t.payload);
    to.extend(t.digest.iter().flatten());
}
