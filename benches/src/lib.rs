//! What the benches share: a controller in memory with one I/O queue on it, and nothing else between the bytes and the engine.
//!
//! `cargo bench -p nvmfspec-benches` runs them. Each measurement has a baseline beside it in the same run, as far as there is one:
//! numbers of different machines, or of the same machine at different hours, say little alone.

use std::sync::Arc;

use bytes::Bytes;
use nvmf_engine::controller::{Hub, NewNamespace, Port};
use nvmf_engine::message::ConnectionId;
use nvmf_engine::tcp::ControllerConnection;
use nvmf_engine::{ControllerSettings, TcpSettings};
use nvmf_seam::{Instant, Store, Transmit};
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::property::{Cc, Property, PropertySet};
use nvmf_wire::tcp::{CapsuleCmd, Digests, IcReq, Pdu, PduType};
use nvmf_wire::value::Text;
use nvmf_wire::{Cid, Cntlid, CommandKind, Nsid, Qid, SglDescriptor, Sqe, ZeroBased16, nvm};

const SUBNQN: &str = "nqn.2014-08.org.example:subsystem";
const NOW: Instant = Instant(1);

/// A controller with an Admin Queue and one I/O queue.
pub struct Rig {
    hub: Hub,
    queues: [ControllerConnection; 2],
    digests: Digests,
}

impl Rig {
    /// An enabled controller over `store`, with both digests where asked for.
    pub fn new(store: Arc<dyn Store>, digests: bool) -> Self {
        let mut hub = Hub::new(ControllerSettings::default());
        hub.add_subsystem(SUBNQN, None).expect("an NQN");
        hub.add_namespace(SUBNQN, 1, NewNamespace { store, blocking: false, uuid: None }).expect("a free NSID");
        let advertise = "192.0.2.1:4420".parse().expect("an address");
        hub.add_port(Port { id: 1, advertise, discovery_only: false }).expect("a free port");
        let tcp = Arc::new(TcpSettings::default());
        let queues = [ControllerConnection::new(NOW, tcp.clone()), ControllerConnection::new(NOW, tcp)];
        hub.open(ConnectionId(0), 1, None);
        hub.open(ConnectionId(1), 1, None);
        let mut rig = Self { hub, queues, digests: Digests { header: digests, data: digests } };
        rig.ic_req(0);
        let response = rig.connect(0, Cntlid::DYNAMIC);
        let cntlid = Cntlid(u16::from_le_bytes([response[0], response[1]]));
        let cc = Cc::new().with(|s| s.en(true).iosqes(6).iocqes(4));
        let mut set = PropertySet::from_bytes(*named("PropertySet").as_bytes());
        set.set().ofst(Property::CC).value(u64::from(u32::from_le_bytes(*cc.as_bytes())));
        rig.exchange(0, &rig.capsule(Sqe::from_bytes(*set.as_bytes()), Bytes::new()));
        rig.ic_req(1);
        rig.connect(1, cntlid);
        assert!(rig.queues[1].is_connected());
        rig
    }

    fn ic_req(&mut self, queue: usize) {
        let req = IcReq::new().with(|s| s.hdgst(self.digests.header).ddgst(self.digests.data));
        let mut header = *req.as_bytes();
        header[0] = PduType::IC_REQ.0;
        let bytes = Pdu::build(&header, Bytes::new(), Digests::default(), 4).to_bytes();
        assert_eq!(self.exchange(queue, &bytes).len(), 1);
    }

    /// Gives the CQE.
    fn connect(&mut self, qid: u16, cntlid: Cntlid) -> Vec<u8> {
        let mut c = Connect::from_bytes(*named("Connect").as_bytes());
        c.set().qid(Qid(qid)).sqsize(ZeroBased16(31));
        if qid == 0 {
            c.set().kato(120_000);
        }
        let mut d = ConnectData::new();
        d.set().hostid([7; 16]).cntlid(cntlid).subnqn(Text::new(SUBNQN)).hostnqn(Text::new("nqn.2014-08.org.example:host"));
        let sqe = Sqe::from_bytes(*c.as_bytes()).with_sgl1(SglDescriptor::in_capsule(0, 1024));
        let bytes = self.capsule(sqe, Bytes::copy_from_slice(d.as_bytes()));
        let out = self.exchange(usize::from(qid), &bytes);
        out[0].head.as_slice()[8..24].to_vec()
    }

    /// The bytes of a command capsule.
    pub fn capsule(&self, sqe: Sqe, data: Bytes) -> Vec<u8> {
        let mut header = *CapsuleCmd::new().with(|s| s.sqe(*sqe.as_bytes())).as_bytes();
        header[0] = PduType::CAPSULE_CMD.0;
        Pdu::build(&header, data, self.digests, 4).seal().to_bytes()
    }

    /// Gives bytes to a queue, does what it asks of hub and store, and takes what it sends.
    pub fn exchange(&mut self, queue: usize, bytes: &[u8]) -> Vec<Transmit> {
        self.queues[queue].handle_bytes(NOW, bytes);
        let mut out = Vec::new();
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
                return out;
            }
        }
    }
}

fn named(name: &str) -> Sqe {
    CommandKind::named(name).expect("a command").sqe()
}

/// A Read or, with `sgl` in the capsule, a Write of `blocks` blocks.
pub fn io(name: &str, slba: u64, blocks: u16, sgl: SglDescriptor) -> Sqe {
    let mut rw = nvm::Read::from_bytes(*named(name).as_bytes());
    rw.set().slba(slba).nlb(ZeroBased16(blocks - 1));
    Sqe::from_bytes(*rw.as_bytes()).with(|s| s.nsid(Nsid(1)).cid(Cid(0x1234)).psdt(1)).with_sgl1(sgl)
}
