//! A connection of the player: what was sent, what came, and what both agreed on.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;
use nvmf_capture::{Connection, Direction, Recorder, Session, trace};
use nvmf_seam::{Instant, LinkId, Network, Received, SendError};
use nvmf_wire::tcp::{Digests, Framer, IcResp, Pdu};
use nvmf_wire::{CommandKind, Sqe};

use crate::ast::End;

/// How the peer ended the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// FIN.
    Fin,
    /// RST.
    Rst,
}

/// What waiting for the next PDU gave.
#[derive(Debug)]
pub(super) enum Next {
    /// A PDU whose parts can be told.
    Pdu(Pdu),
    /// Bytes that make no PDU: why.
    Garbage(String),
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
}

/// Largest PDU taken from a peer, bytes. Larger ones count as garbage.
const MAX_PDU: usize = 64 << 20;

/// A connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) link: LinkId,
    name: Option<String>,
    recorder: Recorder,
    framer: Framer,
    pdus: VecDeque<Pdu>,
    ended: Option<Ended>,
    garbage: Option<String>,
    pub(super) digests: Digests,
    /// Alignment that the controller wants for our data, bytes.
    pub(super) align: usize,
    pub(super) icresp: Option<IcResp>,
    pub(super) qid: u16,
    next_cid: u16,
    pub(super) last_cid: u16,
    pub(super) sent: BTreeMap<u16, Sent>,
    /// The PDU sent last, for `offender`.
    pub(super) last_sent: Vec<u8>,
    /// Header of the PDU received last, for `term=header`.
    pub(super) last_header: Bytes,
    held: Vec<u8>,
    session: Session,
    /// Next I/O queue of the association, on its admin connection.
    pub(super) next_qid: u16,
    /// Parameters that further queues of the association repeat.
    pub(super) cntlid: u16,
    pub(super) subnqn: String,
    pub(super) hostnqn: String,
    pub(super) hostid: Vec<u8>,
}

impl Conn {
    pub(super) fn new(link: LinkId, name: Option<&str>, server: SocketAddr, index: usize, at: Instant) -> Self {
        // a name for traces; the real port of our end says nothing
        let client = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 50_000 + (index % 10_000) as u16);
        Self {
            link,
            name: name.map(str::to_owned),
            recorder: Recorder::new(client, server, at.0),
            framer: Framer::new(MAX_PDU),
            pdus: VecDeque::new(),
            ended: None,
            garbage: None,
            digests: Digests::default(),
            align: 4,
            icresp: None,
            qid: 0,
            next_cid: 1,
            last_cid: 0,
            sent: BTreeMap::new(),
            last_sent: Vec::new(),
            last_header: Bytes::new(),
            held: Vec::new(),
            session: Session::new(),
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

    pub(super) fn into_recording(self) -> Connection {
        self.recorder.finish()
    }

    /// The next CID: from 1 on, never FFFFh. [SQE-03]
    pub(super) fn new_cid(&mut self) -> u16 {
        let cid = self.next_cid;
        self.next_cid = if cid >= 0xfffe { 1 } else { cid + 1 };
        cid
    }

    /// Sends, together with what was held back.
    pub(super) fn send(&mut self, net: &mut dyn Network, bytes: &[u8]) -> Result<(), SendError> {
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        if all.is_empty() {
            return Ok(());
        }
        let at = net.now();
        let sent = net.send(self.link, &all);
        if sent.is_ok() {
            let all = Bytes::from(all);
            if let Ok(p) = Pdu::parse(&all) {
                self.session.apply(Direction::HostToController, &p);
            }
            self.recorder.push(Direction::HostToController, at.0, all);
        }
        sent
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
        self.held.extend_from_slice(bytes);
    }

    pub(super) fn flush_held(&mut self, net: &mut dyn Network) {
        let _ = self.send(net, &[]);
    }

    /// Notes that we ended it.
    pub(super) fn we_ended(&mut self, at: Instant, how: End) {
        self.recorder.close(Direction::HostToController, at.0, how == End::Reset);
    }

    /// Puts a PDU back, to be the next.
    pub(super) fn put_back(&mut self, pdu: Pdu) {
        self.pdus.push_front(pdu);
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
            let got = net.receive(self.link, until);
            let at = net.now();
            match got {
                Received::Bytes(b) => {
                    self.framer.push(&b);
                    self.recorder.push(Direction::ControllerToHost, at.0, b);
                    self.cut();
                }
                Received::Closed { reset } => {
                    self.recorder.close(Direction::ControllerToHost, at.0, reset);
                    self.ended = Some(if reset { Ended::Rst } else { Ended::Fin });
                }
                Received::Nothing => return Next::Nothing(self.framer.len()),
            }
        }
    }

    fn cut(&mut self) {
        while let Some(b) = self.framer.next_pdu() {
            match Pdu::parse(&b) {
                Ok(p) => self.pdus.push_back(p),
                Err(e) => {
                    self.garbage = Some(e.to_string());
                    return;
                }
            }
        }
        if let Some(plen) = self.framer.oversize() {
            let head: Vec<String> = self.framer.peek().iter().take(16).map(|b| format!("{b:02x}")).collect();
            self.garbage = Some(format!("PLEN {plen} cannot be that of a PDU; the bytes are {}", head.join(" ")));
        }
    }
}
