//! Takes a capture through the codec and back: every PDU in parts, its header, SQE, CQE and known data field by field.
//!
//! What contradicts itself (a malformed PDU that still has a length) is counted as malformed, and what cannot be framed as
//! undecodable, each with where and why; neither is a mismatch. Start with [`Trip::of`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use nvmf_capture::roce::{Icrc, Packet, Place, Rdma};
use nvmf_capture::tls::KeyLog;
use nvmf_capture::{Capture, Connection, Direction, EventKind, Follow, Session};
use nvmf_wire::admin::{Cns, Feature, GetLogPage, Identify, SetFeatures};
use nvmf_wire::cm::Mad;
use nvmf_wire::connect::ConnectData;
use nvmf_wire::cqe::{AsyncEventResponse, ConnectInvalid, ConnectResponse, PropertyGetResponse, QueuesGranted};
use nvmf_wire::identify::{page_layout, read_descriptors, write_descriptors};
use nvmf_wire::layout::{Layout, Structure};
use nvmf_wire::log::page_layouts;
use nvmf_wire::roce::{Aeth, Bth, Deth, Ieth, Reth};
use nvmf_wire::sqe::FabricsType;
use nvmf_wire::tcp::{C2hData, CapsuleCmd, CapsuleResp, H2cData, Pdu, PduHead, PduType};
use nvmf_wire::{Cid, Cqe, Opcode, Sqe, Status};

/// Most bytes of one command's data that are put together.
const MAX_DATA: usize = 1 << 20;

/// What one capture held, and what did not come back.
#[derive(Debug, Default)]
pub struct Trip {
    /// Connections of NVMe/TCP and NVMe/RDMA.
    pub connections: usize,
    /// PDUs by type, malformed ones included.
    pub pdus: BTreeMap<String, usize>,
    /// RoCEv2 packets by opcode, without the transport that its name begins with.
    pub packets: BTreeMap<String, usize>,
    /// What RoCEv2 packets came to, without what was sent again: capsules, READs, WRITEs, messages of connection management.
    pub messages: BTreeMap<String, usize>,
    /// RoCEv2 packets that were sent again, connection management aside.
    pub repeated: usize,
    /// SQEs, CQEs and data structures taken through their tables.
    pub sqes: usize,
    /// See `sqes`.
    pub cqes: usize,
    /// See `sqes`.
    pub data: usize,
    /// Digests and invariant CRCs that are not those of the bytes.
    pub bad_digests: usize,
    /// PDUs whose header contradicts itself or the type, each with where and why.
    pub malformed: Vec<String>,
    /// Bytes that are in no PDU, each piece with where and why.
    pub rest: Vec<String>,
    /// What did not come back as it was. Must stay empty.
    pub mismatches: Vec<String>,
}

impl fmt::Display for Trip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} connections:", self.connections)?;
        for (t, n) in self.pdus.iter().chain(&self.packets).chain(&self.messages) {
            write!(f, " {t} {n}")?;
        }
        write!(f, "; SQE {}, CQE {}, data {}", self.sqes, self.cqes, self.data)?;
        for (what, n) in [("bad digests", self.bad_digests), ("malformed", self.malformed.len()), ("undecodable", self.rest.len())]
        {
            if n > 0 {
                write!(f, "; {what} {n}")?;
            }
        }
        Ok(())
    }
}

impl Trip {
    /// Reads a pcap or pcapng file, plain or in gzip, with the key log of its TLS connections where there is one. Fails where it is no
    /// capture.
    pub fn of(path: &Path, keys: Option<&Path>) -> Result<Self, String> {
        let wrong = |path: &Path, e: &dyn fmt::Display| format!("{}: {e}", path.display());
        let mut follow = Follow::new();
        if let Some(keys) = keys {
            let text = std::fs::read(keys).map_err(|e| wrong(keys, &e))?;
            follow = follow.keys(KeyLog::read(&text).map_err(|e| wrong(keys, &e))?);
        }
        let file = std::fs::File::open(path).map_err(|e| wrong(path, &e))?;
        let capture = Capture::follow(&follow, file).map_err(|e| wrong(path, &e))?;
        let mut trip = Self { connections: capture.connections().len(), ..Self::default() };
        trip.rest.extend(capture.notes().iter().cloned());
        for (n, c) in capture.connections().iter().enumerate() {
            trip.connection(n, c);
        }
        Ok(trip)
    }

    /// PDUs and packets in all.
    pub fn total(&self) -> usize {
        self.pdus.values().chain(self.packets.values()).sum()
    }

    fn connection(&mut self, n: usize, c: &Connection) {
        let mut session = Session::new();
        let mut reads: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
        for (i, event) in c.events.iter().enumerate() {
            let at = format!("connection {n} {} event {i}", event.dir.arrow());
            match &event.kind {
                EventKind::Pdu(bytes) => match Pdu::parse(bytes) {
                    Ok(pdu) => {
                        if pdu.to_bytes() != bytes.as_ref() {
                            self.mismatches.push(format!("{at}: the parts of the {} give other bytes", pdu.ptype()));
                        }
                        self.pdu(&at, event.dir, &session, &pdu, &mut reads);
                        session.apply(event.dir, &pdu);
                    }
                    Err(e) => {
                        self.count(PduType(bytes.first().copied().unwrap_or(0xff)));
                        self.fields(&at, PduHead::LAYOUT, bytes);
                        self.malformed.push(format!("{at}: {e}"));
                    }
                },
                EventKind::Undecodable { offset, why, len, .. } => {
                    self.rest.push(format!("{at}: {len} bytes from stream offset {offset}: {why}"));
                }
                EventKind::Gap { offset, len } => {
                    self.rest.push(format!("{at}: {len} bytes from stream offset {offset} are not in the capture"));
                }
                EventKind::Packet(packet) => self.packet(&at, packet),
                EventKind::Rdma(rdma) => {
                    self.rdma(&at, event.dir, &session, rdma, &mut reads);
                    session.apply_rdma(event.dir, rdma);
                }
                EventKind::Closed { .. } | EventKind::Tls(_) => {}
            }
        }
    }

    fn count(&mut self, t: PduType) {
        let name = t.name().map_or_else(|| format!("{:02x}h", t.0), str::to_owned);
        *self.pdus.entry(name).or_default() += 1;
    }

    /// All fields of `layout`, written into zeroes beside the reserved bits, give the bytes again.
    fn fields(&mut self, at: &str, layout: &'static Layout, bytes: &[u8]) {
        let Some(bytes) = bytes.get(..layout.bytes) else {
            self.mismatches.push(format!("{at}: {} bytes for a {} of {}", bytes.len(), layout.name, layout.bytes));
            return;
        };
        let mut again: Vec<u8> = layout.reserved_mask().iter().zip(bytes).map(|(m, b)| m & b).collect();
        for f in layout.all_fields() {
            if let Err(e) = layout.write_field(&mut again, f.name, &f.get(bytes)) {
                self.mismatches.push(format!("{at}: {}: {e}", layout.name));
            }
        }
        if let Some((field, left, right)) = layout.diff(bytes, &again).into_iter().next() {
            self.mismatches.push(format!("{at}: {}.{field} was {left}, came back as {right}", layout.name));
        } else if again != bytes {
            self.mismatches.push(format!("{at}: {} came back otherwise", layout.name));
        }
    }

    fn pdu(&mut self, at: &str, dir: Direction, session: &Session, pdu: &Pdu, reads: &mut BTreeMap<u16, Vec<u8>>) {
        let ptype = pdu.ptype();
        self.count(ptype);
        self.bad_digests += usize::from(!pdu.hdgst_ok()) + usize::from(!pdu.ddgst_ok());
        match ptype.layout() {
            Some(l) if pdu.header.len() == l.bytes => {
                self.fields(at, l, &pdu.header);
                if ptype.from_host() != (dir == Direction::HostToController) {
                    self.malformed.push(format!("{at}: {ptype} in the wrong direction"));
                }
            }
            other => {
                let want = other.map_or("no type that the text has".to_owned(), |l| format!("HLEN {} expected", l.bytes));
                self.fields(at, PduHead::LAYOUT, &pdu.header);
                self.malformed.push(format!("{at}: {ptype} with HLEN {}: {want}", pdu.header.len()));
                return;
            }
        }
        match ptype {
            PduType::CAPSULE_CMD => {
                if let Ok(capsule) = CapsuleCmd::read(&pdu.header) {
                    self.command(at, session, &Sqe::from_bytes(capsule.sqe()), &pdu.data);
                }
            }
            PduType::CAPSULE_RESP => {
                if let Ok(capsule) = CapsuleResp::read(&pdu.header) {
                    self.response(at, session, Cqe::from_bytes(capsule.cqe()));
                }
            }
            PduType::C2H_DATA => {
                if let Ok(head) = C2hData::read(&pdu.header) {
                    let piece = (head.cccid(), u64::from(head.datao()), head.last());
                    self.read_data(at, session, piece, &pdu.data, reads);
                }
            }
            PduType::H2C_DATA => {
                let command = H2cData::read(&pdu.header).ok().and_then(|h| session.command(h.cccid()));
                if command.is_some_and(|c| c.sqe.fctype() == Some(FabricsType::CONNECT)) {
                    self.connect_data(at, &pdu.data);
                }
            }
            _ => {}
        }
    }

    /// A packet with its headers, and the message in it where that is one of connection management.
    fn packet(&mut self, at: &str, packet: &Packet) {
        let headers = match packet.headers() {
            Ok(h) => h,
            Err(e) => return self.malformed.push(format!("{at}: {e}")),
        };
        let name = headers.bth.opcode().to_string();
        *self.packets.entry(name.trim_start_matches("RC ").to_owned()).or_default() += 1;
        self.bad_digests += usize::from(packet.icrc != Icrc::Good);
        self.repeated += usize::from(packet.place == Place::Repeated && headers.deth.is_none());
        let mut rest = &packet.bytes[..];
        let mut next = |layout: &'static Layout| {
            self.fields(at, layout, rest);
            rest = rest.get(layout.bytes..).unwrap_or(&[]);
        };
        next(Bth::LAYOUT);
        let there = [
            (headers.deth.is_some(), Deth::LAYOUT),
            (headers.reth.is_some(), Reth::LAYOUT),
            (headers.aeth.is_some(), Aeth::LAYOUT),
            (headers.ieth.is_some(), Ieth::LAYOUT),
        ];
        for (_, layout) in there.into_iter().filter(|(there, _)| *there) {
            next(layout);
        }
    }

    fn rdma(&mut self, at: &str, dir: Direction, session: &Session, rdma: &Rdma, reads: &mut BTreeMap<u16, Vec<u8>>) {
        let what = match rdma {
            Rdma::QueuePairs { .. } => return,
            Rdma::Cm(cm) => {
                self.fields(at, Mad::LAYOUT, cm.mad.as_bytes());
                match cm.message().layout() {
                    Some(layout) => self.fields(at, layout, &cm.bytes),
                    None => self.malformed.push(format!("{at}: message {} of connection management", cm.message())),
                }
                "CM"
            }
            Rdma::Command { sqe, rest, .. } => {
                self.command(at, session, sqe, rest);
                "CapsuleCmd"
            }
            Rdma::Response { cqe, .. } => {
                self.response(at, session, *cqe);
                "CapsuleResp"
            }
            Rdma::Read(_) => "READ",
            Rdma::Data(data) => {
                let owner = data.target.cid.zip(data.offset());
                let connect =
                    owner.and_then(|(cid, _)| session.command(cid)).filter(|c| c.sqe.fctype() == Some(FabricsType::CONNECT));
                if connect.is_some() {
                    self.connect_data(at, &data.bytes);
                } else if let Some((cid, offset)) = owner {
                    self.read_data(at, session, (cid, offset, data.last), &data.bytes, reads);
                }
                if !data.last {
                    return;
                }
                if dir == Direction::HostToController { "READ response" } else { "WRITE" }
            }
            other => return self.rest.push(format!("{at}: {other:?}")),
        };
        *self.messages.entry(what.to_owned()).or_default() += 1;
    }

    fn command(&mut self, at: &str, session: &Session, sqe: &Sqe, data: &[u8]) {
        self.sqes += 1;
        self.fields(at, Sqe::LAYOUT, sqe.as_bytes());
        self.fields(at, session.layout_of(sqe).0, sqe.as_bytes());
        if sqe.fctype() == Some(FabricsType::CONNECT) {
            self.connect_data(at, data);
        }
    }

    fn connect_data(&mut self, at: &str, data: &[u8]) {
        if data.len() == ConnectData::LEN {
            self.data += 1;
            self.fields(at, ConnectData::LAYOUT, data);
        }
    }

    fn response(&mut self, at: &str, session: &Session, cqe: Cqe) {
        self.cqes += 1;
        self.fields(at, Cqe::LAYOUT, cqe.as_bytes());
        if cqe.with_status(cqe.status()) != cqe && cqe.as_bytes()[14] & 1 == 0 {
            self.mismatches.push(format!("{at}: the status field came back otherwise"));
        }
        let Some(sqe) = session.command(cqe.cid()).map(|c| c.sqe) else { return };
        let layout = match (sqe.fctype(), cqe.status().code()) {
            (Some(FabricsType::CONNECT), Status::SUCCESS) => ConnectResponse::LAYOUT,
            (Some(FabricsType::CONNECT), Status::CONNECT_INVALID_PARAMETERS) => ConnectInvalid::LAYOUT,
            (Some(FabricsType::PROPERTY_GET), Status::SUCCESS) => PropertyGetResponse::LAYOUT,
            (None, Status::SUCCESS) if session.is_admin() => match sqe.opc() {
                Opcode::ASYNC_EVENT_REQUEST => AsyncEventResponse::LAYOUT,
                Opcode::SET_FEATURES | Opcode::GET_FEATURES
                    if SetFeatures::from_bytes(*sqe.as_bytes()).fid() == Feature::NUMBER_OF_QUEUES =>
                {
                    QueuesGranted::LAYOUT
                }
                _ => return,
            },
            _ => return,
        };
        self.fields(at, layout, cqe.as_bytes());
    }

    /// A piece of a command's data: CID, offset, and whether it is the last.
    fn read_data(
        &mut self,
        at: &str,
        session: &Session,
        (cid, offset, last): (Cid, u64, bool),
        bytes: &[u8],
        reads: &mut BTreeMap<u16, Vec<u8>>,
    ) {
        let data = reads.entry(cid.0).or_default();
        if offset == 0 {
            data.clear();
        }
        if offset == data.len() as u64 && data.len() + bytes.len() <= MAX_DATA {
            data.extend_from_slice(bytes);
        }
        if !last {
            return;
        }
        let data = reads.remove(&cid.0).unwrap_or_default();
        let Some(sqe) = session.command(cid).map(|c| c.sqe) else { return };
        if !session.is_admin() || sqe.fctype().is_some() {
            return;
        }
        match sqe.opc() {
            Opcode::IDENTIFY => self.identify(at, Identify::from_bytes(*sqe.as_bytes()).cns(), &data),
            Opcode::GET_LOG_PAGE => self.log_page(at, &GetLogPage::from_bytes(*sqe.as_bytes()), &data),
            _ => {}
        }
    }

    fn identify(&mut self, at: &str, cns: Cns, data: &[u8]) {
        if cns == Cns::NAMESPACE_DESCRIPTORS {
            self.data += 1;
            match read_descriptors(data) {
                Ok(list) if write_descriptors(&list).as_deref() != Some(data) => {
                    self.mismatches.push(format!("{at}: the namespace descriptors came back otherwise"));
                }
                Ok(_) => {}
                Err(e) => self.malformed.push(format!("{at}: {e}")),
            }
        } else if let Some(layout) = page_layout(cns) {
            self.data += 1;
            self.fields(at, layout, data);
        }
    }

    fn log_page(&mut self, at: &str, command: &GetLogPage, data: &[u8]) {
        let Some((head, entry)) = page_layouts(command.lid()).filter(|_| command.lpo() == 0) else { return };
        let mut rest = data;
        if let Some(l) = head.filter(|l| rest.len() >= l.bytes) {
            self.data += 1;
            self.fields(at, l, rest);
            rest = rest.get(l.bytes..).unwrap_or(&[]);
        }
        for piece in entry.into_iter().flat_map(|l| rest.chunks_exact(l.bytes).map(move |p| (l, p))) {
            self.data += 1;
            self.fields(at, piece.0, piece.1);
        }
    }
}
