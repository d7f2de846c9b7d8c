//! A connection of the player: what was sent, what came, and what both agreed on.
//!
//! [`Conn`] is the same for every transport: capsules go out, and what comes is taken one by one with [`Conn::next`]. Its [`Wire`] is what
//! carries them: here the stream of NVMe/TCP, in `rdma` queue pairs. A response capsule is a [`Pdu`] over either: over RDMA it has
//! the header that it would have over TCP, so that scripts read its fields in one way.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;
use nvmf_capture::{Connection, Direction, Recorder, Session, trace};
use nvmf_seam::{Instant, LinkId, Network, Received, SendError};
use nvmf_wire::tcp::{Digests, Framer, IcResp, Pdu};
use nvmf_wire::{CommandKind, Sqe};

use super::compose::Said;
use super::memory::Buffer;
use super::rdma::{Pairs, Region};
use crate::ast::End;
use crate::roce::Packet;

/// How the peer ended the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// FIN.
    Fin,
    /// RST.
    Rst,
    /// DREQ, over RDMA.
    Dreq,
    /// The queue pair is in error, or the peer's is.
    Error,
}

/// What waiting for the next PDU gave.
#[derive(Debug)]
pub(super) enum Next {
    /// A PDU whose parts can be told.
    Pdu(Pdu),
    /// Bytes that make no PDU: why.
    Garbage(String),
    /// REP or REJ: what became of a REQ.
    Cm(Packet),
    /// The peer ended the connection.
    Ended(Ended),
    /// The time ran out; so many bytes of an unfinished PDU are there.
    Nothing(usize),
}

/// A command sent on the connection.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) sqe: Sqe,
    pub(super) kind: Option<&'static CommandKind>,
    /// Offset in the namespace that its data begins at, bytes.
    pub(super) at: u64,
    /// The memory that its data lies in.
    pub(super) buffer: Buffer,
    /// Over RDMA: memory registered for it, until its response.
    pub(super) region: Option<Region>,
    /// Over RDMA: what was in that memory when the response came, where the controller may write to it.
    pub(super) data: Vec<u8>,
    /// Over RDMA: the key that the response invalidated.
    pub(super) invalidated: Option<u32>,
}

impl Sent {
    pub(super) fn new(sqe: Sqe, kind: Option<&'static CommandKind>, at: u64) -> Self {
        Self { sqe, kind, at, buffer: Buffer::default(), region: None, data: Vec::new(), invalidated: None }
    }
}

/// Largest PDU taken from a peer, bytes. Larger ones count as garbage.
const MAX_PDU: usize = 64 << 20;

/// What carries a connection.
#[derive(Debug)]
pub(super) enum Wire {
    Tcp(Box<Stream>),
    Rdma(Box<Pairs>),
}

/// The stream of NVMe/TCP.
#[derive(Debug)]
pub(super) struct Stream {
    link: LinkId,
    recorder: Recorder,
    framer: Framer,
    held: Vec<u8>,
    digests: Digests,
    /// Alignment that the controller wants for our data, bytes.
    align: usize,
    icresp: Option<IcResp>,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) wire: Wire,
    name: Option<String>,
    pdus: VecDeque<Pdu>,
    ended: Option<Ended>,
    garbage: Option<String>,
    pub(super) qid: u16,
    next_cid: u16,
    pub(super) last_cid: u16,
    pub(super) sent: BTreeMap<u16, Sent>,
    /// The PDU sent last, for `offender`.
    pub(super) last_sent: Vec<u8>,
    /// Header of the PDU received last, for `term=header`.
    pub(super) last_header: Bytes,
    session: Session,
    /// What the script said of the REQ, until it goes out.
    pub(super) introduction: Vec<Said>,
    /// Next I/O queue of the association, on its admin connection.
    pub(super) next_qid: u16,
    /// Parameters that further queues of the association repeat.
    pub(super) cntlid: u16,
    pub(super) subnqn: String,
    pub(super) hostnqn: String,
    pub(super) hostid: Vec<u8>,
}

impl Conn {
    /// Over TCP.
    pub(super) fn tcp(link: LinkId, name: Option<&str>, server: SocketAddr, index: usize, at: Instant) -> Self {
        // a name for traces; the real port of our end says nothing
        let client = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 50_000 + (index % 10_000) as u16);
        let stream = Stream {
            link,
            recorder: Recorder::new(client, server, at.0),
            framer: Framer::new(MAX_PDU),
            held: Vec::new(),
            digests: Digests::default(),
            align: 4,
            icresp: None,
        };
        Self::new(Wire::Tcp(Box::new(stream)), name)
    }

    /// Over RDMA: nothing is sent yet.
    pub(super) fn rdma(name: Option<&str>, pairs: Pairs) -> Self {
        Self::new(Wire::Rdma(Box::new(pairs)), name)
    }

    fn new(wire: Wire, name: Option<&str>) -> Self {
        Self {
            wire,
            name: name.map(str::to_owned),
            pdus: VecDeque::new(),
            ended: None,
            garbage: None,
            qid: 0,
            next_cid: 1,
            last_cid: 0,
            sent: BTreeMap::new(),
            last_sent: Vec::new(),
            last_header: Bytes::new(),
            session: Session::new(),
            introduction: Vec::new(),
            next_qid: 1,
            cntlid: 0xffff,
            subnqn: String::new(),
            hostnqn: String::new(),
            hostid: Vec::new(),
        }
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What was recorded over TCP.
    pub(super) fn into_recording(self) -> Option<Connection> {
        match self.wire {
            Wire::Tcp(stream) => Some(stream.recorder.finish()),
            Wire::Rdma(_) => None,
        }
    }

    pub(super) fn pairs(&mut self) -> Option<&mut Pairs> {
        match &mut self.wire {
            Wire::Rdma(pairs) => Some(pairs),
            Wire::Tcp(_) => None,
        }
    }

    pub(super) fn is_rdma(&self) -> bool {
        matches!(self.wire, Wire::Rdma(_))
    }

    pub(super) fn digests(&self) -> Digests {
        self.stream().map_or(Digests::default(), |s| s.digests)
    }

    pub(super) fn align(&self) -> usize {
        self.stream().map_or(4, |s| s.align)
    }

    pub(super) fn icresp(&self) -> Option<IcResp> {
        self.stream().and_then(|s| s.icresp)
    }

    fn stream(&self) -> Option<&Stream> {
        match &self.wire {
            Wire::Tcp(stream) => Some(stream),
            Wire::Rdma(_) => None,
        }
    }

    /// What both ends agreed on.
    pub(super) fn agreed(&mut self, resp: IcResp, digests: Digests) {
        if let Wire::Tcp(s) = &mut self.wire {
            (s.icresp, s.digests, s.align) = (Some(resp), digests, (usize::from(resp.cpda()) + 1) * 4);
        }
    }

    /// The next CID: from 1 on, never FFFFh. [SQE-03]
    pub(super) fn new_cid(&mut self) -> u16 {
        let cid = self.next_cid;
        self.next_cid = if cid >= 0xfffe { 1 } else { cid + 1 };
        cid
    }

    /// Sends, together with what was held back. Over RDMA a capsule is what `bytes` has behind the common header.
    pub(super) fn send(&mut self, net: &mut dyn Network, bytes: &[u8]) -> Result<(), SendError> {
        match &mut self.wire {
            Wire::Tcp(stream) => {
                let mut all = std::mem::take(&mut stream.held);
                all.extend_from_slice(bytes);
                if all.is_empty() {
                    return Ok(());
                }
                let at = net.now();
                let sent = net.send(stream.link, &all);
                if sent.is_ok() {
                    let all = Bytes::from(all);
                    if let Ok(p) = Pdu::parse(&all) {
                        self.session.apply(Direction::HostToController, &p);
                    }
                    stream.recorder.push(Direction::HostToController, at.0, all);
                }
                sent
            }
            Wire::Rdma(pairs) => {
                if let Ok(p) = Pdu::parse(&Bytes::copy_from_slice(bytes)) {
                    self.session.apply(Direction::HostToController, &p);
                }
                pairs.hold(bytes);
                pairs.flush(net)
            }
        }
    }

    /// A PDU from the peer in words.
    pub(super) fn words(&self, pdu: &Pdu) -> String {
        trace::describe(&self.session, Direction::ControllerToHost, pdu)
    }

    /// Takes note of a PDU that was judged.
    pub(super) fn seen(&mut self, pdu: &Pdu) {
        self.session.apply(Direction::ControllerToHost, pdu);
    }

    pub(super) fn hold(&mut self, bytes: &[u8]) {
        match &mut self.wire {
            Wire::Tcp(stream) => stream.held.extend_from_slice(bytes),
            Wire::Rdma(pairs) => pairs.hold(bytes),
        }
    }

    pub(super) fn flush_held(&mut self, net: &mut dyn Network) {
        let _ = match &mut self.wire {
            Wire::Tcp(_) => self.send(net, &[]),
            Wire::Rdma(pairs) => pairs.flush(net),
        };
    }

    /// Ends the connection.
    pub(super) fn end(&mut self, net: &mut dyn Network, how: End) {
        self.flush_held(net);
        match &mut self.wire {
            Wire::Tcp(stream) => {
                let at = net.now();
                match how {
                    End::Shutdown => net.shutdown(stream.link),
                    End::Close | End::Reset | End::Silent => net.close(stream.link, how == End::Reset),
                }
                stream.recorder.close(Direction::HostToController, at.0, how == End::Reset);
            }
            // it has no half of a connection, and no reset that the peer would notice but DREQ
            Wire::Rdma(pairs) => pairs.end(net, how == End::Silent),
        }
    }

    /// Puts a PDU back, to be the next.
    pub(super) fn put_back(&mut self, pdu: Pdu) {
        self.pdus.push_front(pdu);
    }

    /// What [`Conn::next`] would give without waiting; nothing is taken.
    pub(super) fn ready(&self) -> Option<Next> {
        match (self.pdus.front(), &self.garbage, self.ended) {
            (Some(pdu), ..) => Some(Next::Pdu(pdu.clone())),
            (None, Some(why), _) => Some(Next::Garbage(why.clone())),
            (None, None, Some(how)) => Some(Next::Ended(how)),
            (None, None, None) => None,
        }
    }

    /// Over RDMA: lets one thing happen; false where nothing did until `until`.
    pub(super) fn pump(&mut self, net: &mut dyn Network, until: Instant) -> bool {
        self.flush_held(net);
        let Wire::Rdma(pairs) = &mut self.wire else { return false };
        match pairs.receive(net, until, &mut self.sent, &mut self.pdus) {
            Ok(more) => more,
            Err(Stopped::Garbage(why)) => {
                self.garbage.get_or_insert(why);
                true
            }
            Err(Stopped::Ended(how)) => {
                self.ended.get_or_insert(how);
                net.now() < until
            }
        }
    }

    /// Over RDMA: whether the connection is over, as far as our NIC knows.
    pub(super) fn is_over(&mut self, net: &mut dyn Network) -> bool {
        let now = net.now();
        while self.ended.is_none() && self.pump(net, now) {}
        self.ended.is_some() || self.pairs().is_some_and(|p| p.is_flushed())
    }

    /// Waits for the next PDU until `until`.
    pub(super) fn next(&mut self, net: &mut dyn Network, until: Instant) -> Next {
        self.flush_held(net);
        loop {
            if let Some(p) = self.pdus.pop_front() {
                self.last_header = p.header.clone();
                return Next::Pdu(p);
            }
            if let Some(why) = &self.garbage {
                return Next::Garbage(why.clone());
            }
            if let Some(e) = self.ended {
                return Next::Ended(e);
            }
            match &mut self.wire {
                Wire::Tcp(stream) => match stream.receive(net, until, &mut self.pdus) {
                    Ok(true) => {}
                    Ok(false) => return Next::Nothing(stream.framer.len()),
                    Err(Stopped::Garbage(why)) => self.garbage = Some(why),
                    Err(Stopped::Ended(how)) => self.ended = Some(how),
                },
                Wire::Rdma(pairs) => {
                    if let Some(packet) = pairs.take_outcome() {
                        return Next::Cm(packet);
                    }
                    if !self.pump(net, until) && self.ended.is_none() {
                        return Next::Nothing(0);
                    }
                }
            }
        }
    }
}

/// Why nothing more can come.
pub(super) enum Stopped {
    Garbage(String),
    Ended(Ended),
}

impl Stream {
    /// Takes what comes next; false where nothing does until `until`.
    fn receive(&mut self, net: &mut dyn Network, until: Instant, pdus: &mut VecDeque<Pdu>) -> Result<bool, Stopped> {
        let got = net.receive(self.link, until);
        let at = net.now();
        match got {
            Received::Bytes(b) => {
                self.framer.push(&b);
                self.recorder.push(Direction::ControllerToHost, at.0, b);
                self.cut(pdus).map(|()| true)
            }
            Received::Closed { reset } => {
                self.recorder.close(Direction::ControllerToHost, at.0, reset);
                Err(Stopped::Ended(if reset { Ended::Rst } else { Ended::Fin }))
            }
            Received::Nothing => Ok(false),
        }
    }

    fn cut(&mut self, pdus: &mut VecDeque<Pdu>) -> Result<(), Stopped> {
        while let Some(b) = self.framer.next_pdu() {
            match Pdu::parse(&b) {
                Ok(p) => pdus.push_back(p),
                Err(e) => return Err(Stopped::Garbage(format!("bytes that are no NVMe/TCP PDU: {e}"))),
            }
        }
        match self.framer.oversize() {
            Some(plen) => {
                let head: Vec<String> = self.framer.peek().iter().take(16).map(|b| format!("{b:02x}")).collect();
                let why = format!("PLEN {plen} cannot be that of a PDU; the bytes are {}", head.join(" "));
                Err(Stopped::Garbage(format!("bytes that are no NVMe/TCP PDU: {why}")))
            }
            None => Ok(()),
        }
    }
}
