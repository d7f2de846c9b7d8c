//! What a bystander remembers of one connection: parameters, queue, outstanding commands and how far their data got.
//!
//! It is the common ground of [`crate::trace`] and [`crate::rules`]: it judges nothing, and takes wrong PDUs for what they seem to
//! mean. What a peer can make it keep is limited: one entry a CID, [`MAX_R2TS`] R2Ts each, and one
//! authentication message.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::VecDeque;

use nvmf_wire::admin::GetLogPage;
use nvmf_wire::cm::CmMessage;
use nvmf_wire::command::CommandKind;
use nvmf_wire::connect::Connect;
use nvmf_wire::layout::{Layout, Structure};
use nvmf_wire::rdma::RdmaRequest;
use nvmf_wire::sqe::{Direction as DataDirection, FabricsSqe, FabricsType, IoOpcode, Opcode};
use nvmf_wire::tcp::{C2hData, CapsuleCmd, CapsuleResp, Digests, H2cData, IcReq, IcResp, Pdu, PduType, R2t};
use nvmf_wire::{Cid, Cqe, Qid, Sqe, Status};

use crate::exchange::Direction;
pub use crate::message::MAX_MESSAGE;
use crate::message::Message;
use crate::roce::Rdma;

/// Most outstanding R2Ts remembered for one command.
pub const MAX_R2TS: usize = 4096;

/// One connection, as seen so far.
#[derive(Clone, Debug, Default)]
pub struct Session {
    icreq: Option<IcReq>,
    icresp: Option<IcResp>,
    connect: Option<Connect>,
    /// SQHD of the Connect response after success.
    connect_sqhd: Option<u16>,
    request: Option<RdmaRequest>,
    commands: BTreeMap<u16, Command>,
    message: Message,
    submitted: u64,
    inferred: Option<bool>,
}

/// A command that has not been completed.
#[derive(Clone, Debug)]
pub struct Command {
    /// Its SQE.
    pub sqe: Sqe,
    /// How many commands were sent on the queue before it.
    pub number: u64,
    /// Bytes of data in its capsule.
    pub in_capsule: u32,
    /// Data to the host so far: C2HData, or RDMA WRITEs.
    pub c2h: Transfer,
    /// Data to the controller so far: H2CData over all R2Ts, or what RDMA READs brought.
    pub h2c: Transfer,
    /// Offset at which the next R2T has to start: R2TO + R2TL of the last one, bytes.
    pub r2t_next: u32,
    /// R2Ts that were sent and not yet satisfied, in order.
    pub r2ts: VecDeque<Window>,
    /// Data of the host for it had a wrong digest.
    pub bad_digest: bool,
}

/// Data that moved in one direction for one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// PDUs, or packets with data, so far.
    pub pdus: u32,
    /// Offset behind the last byte, bytes.
    pub next: u32,
    /// LAST_PDU was seen, or the end of an RDMA operation.
    pub last: bool,
}

/// An R2T that waits for its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Transfer Tag (TTAG).
    pub ttag: u16,
    /// Requested Data Offset (R2TO), bytes.
    pub r2to: u32,
    /// Requested Data Length (R2TL), bytes.
    pub r2tl: u32,
    /// Bytes that were sent for it.
    pub sent: u32,
}

impl Command {
    /// Direction of its data.
    #[must_use]
    pub fn direction(&self) -> DataDirection {
        DataDirection::of(&self.sqe)
    }

    /// The length that its first SGL descriptor gives, bytes; `None` where it is none of those that NVMe/TCP and NVMe/RDMA have for data.
    #[must_use]
    pub fn length(&self) -> Option<u32> {
        self.sqe.sgl1().data_len()
    }

    /// True for a Fabrics command.
    #[must_use]
    pub fn is_fabrics(&self) -> bool {
        self.sqe.fctype().is_some()
    }
}

impl Session {
    /// A connection of which nothing was seen.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The ICReq.
    #[must_use]
    pub fn icreq(&self) -> Option<&IcReq> {
        self.icreq.as_ref()
    }

    /// The ICResp.
    #[must_use]
    pub fn icresp(&self) -> Option<&IcResp> {
        self.icresp.as_ref()
    }

    /// The first Connect command that was sent, successful or not.
    #[must_use]
    pub fn connect(&self) -> Option<&Connect> {
        self.connect.as_ref()
    }

    /// SQHD of the successful Connect response; `None` before it.
    #[must_use]
    pub fn connect_sqhd(&self) -> Option<u16> {
        self.connect_sqhd
    }

    /// Digests in use; `None` until both ICReq and ICResp were seen. [TCP-DGST-03, TCP-DGST-11]
    #[must_use]
    pub fn digests(&self) -> Option<Digests> {
        let (q, r) = (self.icreq.as_ref()?, self.icresp.as_ref()?);
        Some(Digests { header: q.hdgst() && r.hdgst(), data: q.ddgst() && r.ddgst() })
    }

    /// The queue, as Connect names it; before it, as the private data of an RDMA connection's REQ does.
    #[must_use]
    pub fn qid(&self) -> Option<Qid> {
        self.connect.map(|c| c.qid()).or_else(|| self.request.map(|r| r.qid()))
    }

    /// The host's private data of the REQ that asked for an RDMA connection.
    #[must_use]
    pub fn rdma_request(&self) -> Option<&RdmaRequest> {
        self.request.as_ref()
    }

    /// True where opcodes are those of admin commands: on the Admin Queue, and as long as no Connect was seen, but for
    /// [`Session::inferred`].
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.qid().map_or(self.inferred.unwrap_or(true), |q| q == Qid::ADMIN)
    }

    /// Whether this is the Admin Queue (`true`) or an I/O Queue, as far as its commands tell, where neither the start of the connection
    /// nor a Connect was seen.
    #[must_use]
    pub fn inferred(&self) -> Option<bool> {
        self.inferred
    }

    /// What [`Session::inferred`] will be with `sqe`, where that is news.
    #[must_use]
    pub fn infers(&self, sqe: &Sqe) -> Option<bool> {
        let begun = self.icreq.is_some() || self.icresp.is_some() || self.connect.is_some() || self.request.is_some();
        if begun || self.inferred.is_some() { None } else { queue_of(sqe) }
    }

    /// True where the opcode of `sqe`, the next command, is that of an admin command.
    fn is_admin_command(&self, sqe: &Sqe) -> bool {
        self.infers(sqe).unwrap_or_else(|| self.is_admin())
    }

    /// True once Connect asked for no SQ flow control and the controller granted it by SQHD FFFFh. [FAB-SQFC-04]
    #[must_use]
    pub fn flow_control_off(&self) -> bool {
        self.connect.is_some_and(|c| c.sqfcd()) && self.connect_sqhd == Some(0xffff)
    }

    /// Entries of the submission queue, as Connect gives them.
    #[must_use]
    pub fn queue_size(&self) -> Option<u64> {
        self.connect.map(|c| c.sqsize().count())
    }

    /// An outstanding command.
    #[must_use]
    pub fn command(&self, cid: Cid) -> Option<&Command> {
        self.commands.get(&cid.0)
    }

    /// All outstanding commands, in order of their CID.
    pub fn outstanding(&self) -> impl Iterator<Item = &Command> {
        self.commands.values()
    }

    /// The authentication message of command `cid` where its data from `offset` on, which was not applied yet, completes it; `last`: no
    /// more data comes. In a capsule the data starts at 0. At most [`MAX_MESSAGE`] bytes.
    #[must_use]
    pub fn message_with<'a>(&'a self, cid: Cid, offset: u32, data: &'a [u8], last: bool) -> Option<Cow<'a, [u8]>> {
        self.message.with(cid, offset, data, last)
    }

    /// Commands sent so far.
    #[must_use]
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// The name of a command on this queue: that of the table (`PropertyGet`), else the text's, else the code.
    #[must_use]
    pub fn command_name(&self, sqe: &Sqe) -> Cow<'static, str> {
        let admin = self.is_admin_command(sqe);
        if let Some(kind) = CommandKind::of(sqe, admin) {
            return Cow::Borrowed(kind.name);
        }
        let (named, code) = match sqe.fctype() {
            Some(f) => (f.name(), format!("fctype {:02x}h", f.0)),
            None if admin => (sqe.opc().name(), format!("opcode {:02x}h", sqe.opc().0)),
            None => (IoOpcode(sqe.opc().0).name(), format!("opcode {:02x}h", sqe.opc().0)),
        };
        Cow::Owned(named.map_or(code, |n| n.split([' ', '-', '/']).map(capital).collect()))
    }

    /// The table to read a command with, and whether it is the command's own, so that all its fields are known.
    #[must_use]
    pub fn layout_of(&self, sqe: &Sqe) -> (&'static Layout, bool) {
        let admin = self.is_admin_command(sqe) || sqe.fctype() == Some(FabricsType::CONNECT);
        match CommandKind::of(sqe, admin) {
            Some(kind) => (kind.layout, true),
            None if sqe.fctype().is_some() => (FabricsSqe::LAYOUT, false),
            None => (Sqe::LAYOUT, false),
        }
    }

    /// Takes note of a PDU. One that travels against its direction changes nothing.
    pub fn apply(&mut self, dir: Direction, pdu: &Pdu) {
        if pdu.ptype().from_host() != (dir == Direction::HostToController) {
            return;
        }
        match pdu.ptype() {
            PduType::IC_REQ => self.icreq = self.icreq.or(IcReq::read(&pdu.header).ok()),
            PduType::IC_RESP => self.icresp = self.icresp.or(IcResp::read(&pdu.header).ok()),
            PduType::CAPSULE_CMD => {
                if let Ok(c) = CapsuleCmd::read(&pdu.header) {
                    let sqe = Sqe::from_bytes(c.sqe());
                    self.on_command(sqe, pdu.data.len() as u32, !pdu.ddgst_ok());
                    self.message.data(sqe.cid(), 0, &pdu.data);
                }
            }
            PduType::CAPSULE_RESP => {
                if let Ok(c) = CapsuleResp::read(&pdu.header) {
                    self.on_response(&Cqe::from_bytes(c.cqe()));
                }
            }
            PduType::C2H_DATA => {
                if let Ok(c) = C2hData::read(&pdu.header) {
                    self.on_data(c.cccid(), dir, c.datao(), c.datal(), c.last());
                    self.message.data(c.cccid(), c.datao(), &pdu.data);
                    if c.success() && c.last() {
                        self.commands.remove(&c.cccid().0);
                    }
                }
            }
            PduType::R2T => {
                if let Ok(r) = R2t::read(&pdu.header) {
                    self.r2t(&r);
                }
            }
            PduType::H2C_DATA => {
                if let Ok(h) = H2cData::read(&pdu.header) {
                    self.on_data(h.cccid(), dir, h.datao(), h.datal(), h.last());
                    self.message.data(h.cccid(), h.datao(), &pdu.data);
                    self.h2c_data(&h, !pdu.ddgst_ok());
                }
            }
            _ => {}
        }
    }

    /// Takes note of what RoCEv2 packets came to.
    pub fn apply_rdma(&mut self, dir: Direction, rdma: &Rdma) {
        match rdma {
            Rdma::Cm(cm) if cm.message() == CmMessage::REQ => {
                self.request = self.request.or_else(|| RdmaRequest::read(cm.private()).ok());
            }
            Rdma::Command { sqe, rest, .. } => {
                self.on_command(*sqe, rest.len() as u32, false);
                self.message.data(sqe.cid(), 0, rest);
            }
            Rdma::Response { cqe, .. } => self.on_response(cqe),
            Rdma::Data(data) => {
                if let (Some(cid), Some(offset)) = (data.target.cid, data.offset()) {
                    // What moved, which may be more than what the capture has of it.
                    let len = data.span.bytes.saturating_sub(data.before.into());
                    self.on_data(cid, dir, offset as u32, len as u32, data.last);
                    self.message.data(cid, offset as u32, &data.bytes);
                }
            }
            _ => {}
        }
    }

    /// The host sent a command, with so many bytes of data in its capsule.
    pub fn on_command(&mut self, sqe: Sqe, in_capsule: u32, bad_digest: bool) {
        self.inferred = self.inferred.or_else(|| self.infers(&sqe));
        if sqe.fctype() == Some(FabricsType::CONNECT) && self.connect.is_none() {
            self.connect = Connect::read(sqe.as_bytes()).ok();
        }
        let command = Command {
            sqe,
            number: self.submitted,
            in_capsule,
            c2h: Transfer::default(),
            h2c: Transfer::default(),
            r2t_next: 0,
            r2ts: VecDeque::new(),
            bad_digest,
        };
        self.submitted += 1;
        self.message.command(&sqe);
        self.commands.insert(sqe.cid().0, command);
    }

    /// The controller completed a command.
    pub fn on_response(&mut self, cqe: &Cqe) {
        let Some(command) = self.commands.remove(&cqe.cid().0) else { return };
        let connect = command.sqe.fctype() == Some(FabricsType::CONNECT);
        if connect && cqe.status().code() == Status::SUCCESS {
            self.connect_sqhd.get_or_insert(cqe.sqhd());
            self.connect = Connect::read(command.sqe.as_bytes()).ok();
        }
    }

    /// Data of a command moved: `len` bytes from `offset` on; `last` ends the PDUs or the RDMA operation that brought it.
    pub fn on_data(&mut self, cid: Cid, dir: Direction, offset: u32, len: u32, last: bool) {
        let Some(command) = self.commands.get_mut(&cid.0) else { return };
        match dir {
            Direction::HostToController => command.h2c.add(offset, len, last),
            Direction::ControllerToHost => command.c2h.add(offset, len, last),
        }
    }

    fn r2t(&mut self, r2t: &R2t) {
        if let Some(command) = self.commands.get_mut(&r2t.cccid().0) {
            command.r2t_next = r2t.r2to().wrapping_add(r2t.r2tl());
            if command.r2ts.len() < MAX_R2TS {
                let window = Window { ttag: r2t.ttag(), r2to: r2t.r2to(), r2tl: r2t.r2tl(), sent: 0 };
                command.r2ts.push_back(window);
            }
        }
    }

    fn h2c_data(&mut self, data: &H2cData, bad_digest: bool) {
        let Some(command) = self.commands.get_mut(&data.cccid().0) else { return };
        command.bad_digest |= bad_digest;
        if let Some(at) = command.r2ts.iter().position(|w| w.ttag == data.ttag())
            && let Some(window) = command.r2ts.get_mut(at)
        {
            window.sent = window.sent.saturating_add(data.datal());
            if data.last() || window.sent >= window.r2tl {
                command.r2ts.remove(at);
            }
        }
    }
}

impl Transfer {
    fn add(&mut self, offset: u32, len: u32, last: bool) {
        self.pdus = self.pdus.saturating_add(1);
        self.next = offset.wrapping_add(len);
        self.last |= last;
    }
}

/// Whether a command belongs on the Admin Queue or on an I/O Queue; `None` where its opcode means something on both and its fields fit
/// both, and for Fabrics commands. Queues are not created or deleted by admin commands over fabrics. [Base 2.0, 3.1.3.4]
fn queue_of(sqe: &Sqe) -> Option<bool> {
    let (nsid, length) = (sqe.nsid(), u64::from(sqe.sgl1().len()));
    if sqe.fctype().is_some() {
        return None;
    }
    match IoOpcode(sqe.opc().0) {
        IoOpcode::FLUSH | IoOpcode::WRITE | IoOpcode::WRITE_UNCORRECTABLE | IoOpcode::COMPARE => Some(false),
        IoOpcode::READ => Some(GetLogPage::read(sqe.as_bytes()).is_ok_and(|g| (u64::from(g.numd()) + 1) * 4 == length)),
        // Abort; Asynchronous Event Request. Both leave NSID and every dword from 11 on unused.
        IoOpcode::WRITE_ZEROES | IoOpcode::VERIFY => Some(nsid.0 == 0),
        _ => match sqe.opc() {
            Opcode::IDENTIFY | Opcode::GET_FEATURES | Opcode::KEEP_ALIVE => Some(true),
            _ => None,
        },
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or(String::new(), |c| c.to_ascii_uppercase().to_string() + chars.as_str())
}
