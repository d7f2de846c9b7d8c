//! A pair of queue pairs that carries a connection over RDMA: what the player's NIC is given to do, and what it tells.
//!
//! Capsules go out as SENDs and come as SENDs. For a command with data memory is registered, one key each, and taken back when the
//! response is there; what is in it then is the command's data. [NVMe/RDMA 1.0, 3.2, 3.3] Read [`Pairs`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use nvmf_seam::rdma::{
    Access, Ask, CmEvent, Completion, Done, Facts, Happening, Memory, PacketSide, RawPacket, RdmaNetwork, RdmaOpenError, Recorded,
    Remote, Rkey, Work, WorkError, WorkId,
};
use nvmf_seam::{Head, Instant, LinkId, Network, SendError};
use nvmf_wire::sqe::Direction;
use nvmf_wire::tcp::{CapsuleResp, Digests, Pdu, PduHead, PduType};
use nvmf_wire::{Cqe, Structure, Value};

use super::conn::{Ended, Sent, Stopped};
use crate::roce::{Datagram, Packet};

/// Bytes of a receive buffer: more than any response capsule has, so that one that is too long is seen and not refused by our NIC.
const RECEIVE: u32 = 4096;
/// Packets of the peer kept for an `expect packet`; the oldest goes first.
const MAX_PACKETS: usize = 65_536;
/// How long our own NIC may take to register memory, and the peer to say that flushed work is the end of the connection.
const SOON: Duration = Duration::from_millis(200);

/// Memory that the controller can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) addr: u64,
    pub(super) key: u32,
    pub(super) len: usize,
}

/// How a connection is asked for.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    /// Whom.
    pub(super) to: SocketAddr,
    /// Its private data are what NVMe says of the queue.
    pub(super) ask: Ask,
    /// Fields of REQ, IP CM header and MAD that are to be otherwise.
    pub(super) with: Vec<(String, Value)>,
    /// So many receives and no more; as many as HRQSIZE, and another one for each used, where it is not said.
    pub(super) receives: Option<u32>,
    /// HRQSIZE.
    pub(super) hrqsize: u32,
    /// Whether descriptors ask for remote invalidation where a command does not say.
    pub(super) invalidate: bool,
}

#[derive(Debug)]
enum State {
    /// No REQ is sent yet.
    Waiting,
    Up(LinkId),
    Refused(String),
}

/// What carries a connection over RDMA.
#[derive(Debug)]
pub(super) struct Pairs {
    pub(super) asking: Asking,
    state: State,
    /// REP or REJ, until it is asked for.
    outcome: Option<Packet>,
    pending: VecDeque<Happening>,
    packets: VecDeque<Packet>,
    held: Vec<Bytes>,
    keys: BTreeSet<u32>,
    works: u64,
    /// Packets of an attempt that failed.
    unopened: Vec<Recorded>,
    /// Work was flushed: the end of the connection, and a DREQ may say why.
    flushed: bool,
}

impl Pairs {
    pub(super) fn new(asking: Asking) -> Self {
        Self {
            asking,
            state: State::Waiting,
            outcome: None,
            pending: VecDeque::new(),
            packets: VecDeque::new(),
            held: Vec::new(),
            keys: BTreeSet::new(),
            works: 0,
            unopened: Vec::new(),
            flushed: false,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting)
    }

    fn link(&self) -> Option<LinkId> {
        match self.state {
            State::Up(link) => Some(link),
            _ => None,
        }
    }

    /// Why there is no connection, where the peer or the world refused it.
    pub(super) fn refused(&self) -> Option<&str> {
        match &self.state {
            State::Refused(why) => Some(why),
            _ => None,
        }
    }

    /// Sends the REQ and waits for what comes of it. An error is of our own world.
    pub(super) fn open(&mut self, net: &mut dyn Network, patience: Duration) -> Result<(), String> {
        let rdma = net.rdma().ok_or("this world has no RDMA")?;
        let opened = rdma.open_rdma(self.asking.to, &self.asking.ask, &self.asking.with, patience);
        let (recorded, wanted) = match opened {
            Ok((link, _)) => {
                self.state = State::Up(link);
                (rdma.recorded(link), "REP")
            }
            Err(e) => {
                self.state = State::Refused(e.to_string());
                self.unopened = rdma.recorded_unopened();
                if let RdmaOpenError::Other(why) = e {
                    return Err(why);
                }
                (self.unopened.clone(), "REJ")
            }
        };
        self.outcome = sent_by(&recorded, PacketSide::Peer, wanted);
        let receives = self.asking.receives.unwrap_or(self.asking.hrqsize);
        self.post_receives(net, receives);
        Ok(())
    }

    /// Whether work was flushed.
    pub(super) fn is_flushed(&self) -> bool {
        self.flushed
    }

    /// REP or REJ, once.
    pub(super) fn take_outcome(&mut self) -> Option<Packet> {
        self.outcome.take()
    }

    /// Gives the NIC `n` receives more.
    pub(super) fn post_receives(&mut self, net: &mut dyn Network, n: u32) {
        for _ in 0..n {
            let id = self.work();
            let _ = self.post(net, Work::Receive { id, len: RECEIVE });
        }
    }

    fn work(&mut self) -> WorkId {
        self.works += 1;
        WorkId(self.works)
    }

    fn post(&self, net: &mut dyn Network, work: Work) -> Result<(), String> {
        let link = self.link().ok_or("there is no connection")?;
        net.rdma().ok_or("this world has no RDMA")?.post(link, work).map_err(|e| e.to_string())
    }

    /// Keeps a capsule back: what `bytes` has behind the common header.
    pub(super) fn hold(&mut self, bytes: &[u8]) {
        self.held.push(Bytes::copy_from_slice(bytes.get(PduHead::LEN..).unwrap_or(&[])));
    }

    /// Sends what was held back.
    pub(super) fn flush(&mut self, net: &mut dyn Network) -> Result<(), SendError> {
        for payload in std::mem::take(&mut self.held) {
            let id = self.work();
            self.post(net, Work::Send { id, head: Head::new(&[]), payload, invalidate: None }).map_err(|_| SendError::Closed)?;
        }
        Ok(())
    }

    /// Registers memory. An error is of our own NIC, or that the queue pair is in error.
    pub(super) fn register(&mut self, net: &mut dyn Network, memory: Memory, access: Access) -> Result<Region, String> {
        let (id, len) = (self.work(), memory.len());
        self.post(net, Work::Register { id, memory, access })?;
        let link = self.link().ok_or("there is no connection")?;
        let until = net.now() + SOON;
        while let Some(happening) = net.rdma().and_then(|r| r.next(link, until)) {
            match happening {
                Happening::Completed(Completion { id: done, result }) if done == id => {
                    let Ok(Done::Registered(Remote { addr, key })) = result else {
                        return Err(format!("memory could not be registered: {result:?}"));
                    };
                    self.keys.insert(key.0);
                    return Ok(Region { addr, key: key.0, len });
                }
                other => self.pending.push_back(other),
            }
        }
        Err("memory could not be registered in time".into())
    }

    /// Takes a region back.
    pub(super) fn deregister(&mut self, net: &mut dyn Network, key: u32) -> Option<Memory> {
        self.keys.remove(&key);
        net.rdma()?.deregister(Rkey(key))
    }

    /// Lets one thing happen: capsules go to `pdus`, packets are kept. False where nothing did until `until`.
    pub(super) fn receive(
        &mut self,
        net: &mut dyn Network,
        until: Instant,
        sent: &mut BTreeMap<u16, Sent>,
        pdus: &mut VecDeque<Pdu>,
    ) -> Result<bool, Stopped> {
        let Some(link) = self.link() else {
            net.sleep(until);
            return Ok(false);
        };
        let patience = if self.flushed { until.min(net.now() + SOON) } else { until };
        let next = self.pending.pop_front().or_else(|| net.rdma().and_then(|r| r.next(link, patience)));
        match next {
            None if self.flushed => Err(Stopped::Ended(Ended::Error)),
            None => Ok(false),
            Some(Happening::Packet(p)) => {
                if self.packets.len() >= MAX_PACKETS {
                    self.packets.pop_front();
                }
                self.packets.extend(Packet::read(&p.bytes, true, p.intact));
                Ok(true)
            }
            Some(Happening::Cm(CmEvent::Disconnected | CmEvent::Removed)) => Err(Stopped::Ended(Ended::Dreq)),
            Some(Happening::Cm(_)) => Ok(true),
            Some(Happening::Completed(Completion { result, .. })) => match result {
                Ok(Done::Received { data, invalidated }) => {
                    self.response(net, &data, invalidated, sent, pdus)?;
                    Ok(true)
                }
                Err(WorkError::NoSuchKey) | Ok(_) => Ok(true),
                // flushed, or the reason for it: a DREQ may stand behind it
                Err(_) => {
                    self.flushed = true;
                    Ok(true)
                }
            },
        }
    }

    /// A SEND of the controller: a response capsule.
    fn response(
        &mut self,
        net: &mut dyn Network,
        data: &Bytes,
        invalidated: Option<Rkey>,
        sent: &mut BTreeMap<u16, Sent>,
        pdus: &mut VecDeque<Pdu>,
    ) -> Result<(), Stopped> {
        if self.asking.receives.is_none() {
            self.post_receives(net, 1);
        }
        let Ok(cqe) = Cqe::read(data) else {
            return Err(Stopped::Garbage(format!("a SEND of {} bytes, which are no response capsule", data.len())));
        };
        if let Some(s) = sent.get_mut(&cqe.cid().0) {
            s.invalidated = invalidated.map(|k| k.0);
            let comes = matches!(Direction::of(&s.sqe), Direction::ControllerToHost | Direction::Both);
            let filled = comes && cqe.status().is_success();
            if let Some(mut memory) = s.region.take().and_then(|r| self.deregister(net, r.key)) {
                s.buffer.returned(&mut memory, filled);
                s.data = if filled { memory.as_slice().to_vec() } else { Vec::new() };
            }
        }
        let mut header = CapsuleResp::new().with(|h| h.cqe(*cqe.as_bytes()));
        header.bytes_mut()[0] = PduType::CAPSULE_RESP.0;
        let rest = data.slice(Cqe::LEN..);
        pdus.push_back(Pdu::build(header.as_bytes(), rest, Digests::default(), 4));
        Ok(())
    }

    /// The next packet of the peer that is there already.
    pub(super) fn take_packet(&mut self) -> Option<Packet> {
        self.packets.pop_front()
    }

    /// Forgets the packets of the peer so far.
    pub(super) fn forget_packets(&mut self) {
        self.packets.clear();
        self.pending.retain(|h| !matches!(h, Happening::Packet(_)));
    }

    /// What packets are made with.
    pub(super) fn facts(&self, net: &mut dyn Network) -> Option<Facts> {
        net.rdma()?.facts(self.link()?)
    }

    /// The packet of that name that we sent last.
    pub(super) fn last_sent(&self, net: &mut dyn Network, name: &str) -> Option<Packet> {
        let recorded = match self.link() {
            Some(link) => net.rdma()?.recorded(link),
            None => self.unopened.clone(),
        };
        sent_by(&recorded, PacketSide::Ours, name)
    }

    /// Sends a packet as it is.
    pub(super) fn inject(&self, net: &mut dyn Network, packet: RawPacket) -> Result<(), String> {
        let rdma = net.rdma().ok_or("this world has no RDMA")?;
        match self.link() {
            Some(link) => rdma.inject(link, packet),
            None => rdma.inject_to(self.asking.to.ip(), packet),
        }
        .map_err(|e| e.to_string())
    }

    /// Moves on the PSN of our next request.
    pub(super) fn skip(&self, net: &mut dyn Network, psns: u32) {
        self.on_link(net, |rdma, link| rdma.skip_psns(link, psns));
    }

    pub(super) fn mute(&self, net: &mut dyn Network, on: bool) {
        self.on_link(net, |rdma, link| rdma.mute(link, on));
    }

    pub(super) fn end(&self, net: &mut dyn Network, silent: bool) {
        self.on_link(net, |rdma, link| rdma.end(link, silent));
    }

    fn on_link(&self, net: &mut dyn Network, f: impl FnOnce(&mut dyn RdmaNetwork, LinkId)) {
        if let (Some(link), Some(rdma)) = (self.link(), net.rdma()) {
            f(rdma, link);
        }
    }

    /// What crossed the wire; memory is given back.
    pub(super) fn finish(&mut self, net: &mut dyn Network) -> Vec<Recorded> {
        for key in std::mem::take(&mut self.keys) {
            let _ = net.rdma().and_then(|r| r.deregister(Rkey(key)));
        }
        match (self.link(), net.rdma()) {
            (Some(link), Some(rdma)) => rdma.recorded(link),
            _ => std::mem::take(&mut self.unopened),
        }
    }
}

/// The last packet of that name that one side sent.
fn sent_by(recorded: &[Recorded], side: PacketSide, name: &str) -> Option<Packet> {
    let of_side = recorded.iter().rev().filter(|r| r.side == side);
    of_side.filter_map(|r| Datagram::read(&r.datagram, side == PacketSide::Peer)).map(|d| d.packet).find(|p| p.is(name))
}
