//! What arrows of NVMe/RDMA say: messages of RoCEv2, and packets where they tell something of themselves.

use std::fmt::Write as _;

use nvmf_wire::Sqe;
use nvmf_wire::cm::{CmMessage, CmRej};
use nvmf_wire::layout::Structure;
use nvmf_wire::rdma::{RdmaAccept, RdmaReject, RdmaRequest};
use nvmf_wire::roce::{AethKind, Reth};
use nvmf_wire::sgl::{SglKeyed, SglType};

use super::words::{Piece, Told, fields, range};
use crate::exchange::Direction;
use crate::roce::{Cm, Data, Icrc, Packet, Place, Rdma};
use crate::session::Session;

impl Told {
    /// What packets came to; `None` where that is no arrow. `session` is what was seen before it.
    pub(super) fn rdma(session: &Session, dir: Direction, rdma: &Rdma) -> Option<Self> {
        Some(match rdma {
            Rdma::QueuePairs { .. } => return None,
            Rdma::Cm(cm) => Self::cm(cm),
            Rdma::Command { sqe, rest, .. } => Self::command(session, sqe, "SEND: command capsule,", rest.len()),
            Rdma::Response { cqe, invalidate, .. } => {
                let send = if invalidate.is_some() { "SEND with Invalidate" } else { "SEND" };
                let mut told = Self::response(session, cqe, &format!("{send}: response capsule,"));
                if let Some(key) = invalidate {
                    let _ = write!(told.fields, " invalidate={key:#x}");
                    told.words.push_str(" The host's key is invalid from now on.");
                }
                told
            }
            Rdma::Send { send, .. } => Self::trouble("SEND that is no capsule".to_owned(), format!("{} bytes", send.bytes)),
            Rdma::Read(target) => {
                let what = range(target.offset.unwrap_or(0), target.reth.dmalen().into());
                let cid = target.cid.map_or(String::new(), |c| format!("cid={:#06x} ", c.0));
                let text = format!("{cid}{} length={}", key(&target.reth), target.reth.dmalen());
                let words = format!("The controller fetches {what} of the command's data from the memory of the host.");
                Self { cid: target.cid, ..Self::new(Piece::Ready, "RDMA READ request", text, words) }
            }
            Rdma::Data(data) => Self::moved(dir, data),
            Rdma::Immediate(value) => {
                Self::new(Piece::Trouble, "immediate data", format!("{value:#x}"), "NVMe has no use for immediate data.")
            }
            Rdma::Missing { psn, count } => {
                let fields = format!("{count} from psn={psn:#x} on");
                Self::new(Piece::Trouble, "packets not captured", fields, "The capture does not have what came here.")
            }
            Rdma::Stray { why } => Self::trouble("stray packet".to_owned(), (*why).to_owned()),
        })
    }

    fn moved(dir: Direction, data: &Data) -> Self {
        let (at, len) = (data.offset().unwrap_or(u64::from(data.before)), data.bytes.len() as u64);
        let (name, piece) = match dir {
            Direction::HostToController => ("RDMA READ response", Piece::Out),
            Direction::ControllerToHost => ("RDMA WRITE", Piece::In),
        };
        let cid = data.target.cid.map_or(String::new(), |c| format!("cid={:#06x} ", c.0));
        let keys = if piece == Piece::In { format!("{} ", key(&data.target.reth)) } else { String::new() };
        let mut told = Self::new(piece, name, String::new(), String::new());
        told.cid = data.target.cid;
        told.operation = Some(data.target.reth.va());
        told.prefix = format!("{cid}{keys}");
        told.moves(at, len);
        told
    }

    fn cm(cm: &Cm) -> Self {
        let message = cm.message();
        let private = cm.private();
        let (piece, detail, words) = match message {
            CmMessage::REQ => {
                let words = "The host asks for a connection of two queue pairs, for one NVMe queue.";
                (Piece::Setup, RdmaRequest::read(private).ok().map(|_| fields(RdmaRequest::LAYOUT, private, 0)), words)
            }
            CmMessage::REP => {
                let words = "The controller agrees.";
                (Piece::Setup, RdmaAccept::read(private).ok().map(|_| fields(RdmaAccept::LAYOUT, private, 0)), words)
            }
            CmMessage::RTU => (Piece::Setup, None, "The host is ready to use the connection."),
            CmMessage::REJ => {
                let reason = CmRej::read(&cm.bytes)
                    .map_or(String::new(), |r| format!("reason={} {}", r.reason().0, r.reason().name().unwrap_or("?")));
                let refused = RdmaReject::read(private).ok().map(|_| fields(RdmaReject::LAYOUT, private, 0)).unwrap_or_default();
                (Piece::Trouble, Some(format!("{reason} {refused}")), "There will be no connection.")
            }
            CmMessage::DREQ => (Piece::Closed, None, "The connection is to end."),
            CmMessage::DREP => (Piece::Closed, None, "It has ended."),
            _ => (Piece::Setup, None, "Connection management."),
        };
        let again = if cm.repeated { " (again)" } else { "" };
        let name = message.name().map_or_else(|| format!("CM message {:#x}", message.0), |n| format!("CM {n}"));
        Self::new(piece, format!("{name}{again}"), detail.unwrap_or_default(), words)
    }

    /// A packet that says something of itself: that it came again, that it is broken, that it is refused; and where `acks`, that others
    /// came. `None` for what is told by [`Self::rdma`] alone.
    pub(super) fn packet(packet: &Packet, acks: bool) -> Option<Self> {
        let headers = packet.headers().ok()?;
        let fields = format!("psn={:#x}", headers.bth.psn());
        let name = headers.bth.opcode().name().unwrap_or("packet");
        if let Icrc::Bad { .. } = packet.icrc {
            return Some(Self::new(Piece::Trouble, format!("{name}, ICRC wrong"), fields, "The receiver drops it without a word."));
        }
        if let Place::Repeated = packet.place {
            return Some(Self::new(Piece::Trouble, format!("{name}, again"), fields, "A retransmission."));
        }
        let aeth = headers.aeth?;
        match aeth.kind() {
            AethKind::ACK => (acks && packet.payload().is_empty())
                .then(|| Self::new(Piece::Ack, "ACK", fields, "All packets up to this number have come.")),
            AethKind::RNR_NAK => {
                let wait = aeth.rnr_us().unwrap_or(0);
                Some(Self::new(Piece::Trouble, "RNR NAK", format!("{fields} timer={wait} \u{b5}s"), "The receiver is not ready."))
            }
            _ => {
                let why = aeth.nak().and_then(|n| n.name()).unwrap_or("unknown");
                Some(Self::new(Piece::Trouble, "NAK", format!("{fields} {why}"), "The receiver refuses, or misses packets."))
            }
        }
    }
}

/// Where in the memory of the host.
fn key(reth: &Reth) -> String {
    format!("va={:#x} rkey={:#x}", reth.va(), reth.rkey())
}

/// The memory that a command names, if its first descriptor has a key.
pub(super) fn keyed(sqe: &Sqe) -> Option<(String, u64)> {
    let sgl = SglKeyed::from_bytes(*sqe.sgl1().as_bytes());
    let there = sgl.kind() == SglType::KEYED_DATA_BLOCK && sgl.len() > 0;
    there.then(|| (format!("va={:#x} rkey={:#x}", sgl.addr(), sgl.key()), u64::from(sgl.len())))
}
