//! Trace lines of RoCEv2: one a message, and one for each packet that tells of trouble.

use std::fmt::Write as _;

use nvmf_wire::cm::{CmMessage, CmRej, CmRep, CmReq, RejReason};
use nvmf_wire::rdma::{RdmaAccept, RdmaReject, RdmaRequest};
use nvmf_wire::roce::{Headers, RoceOpcode};
use nvmf_wire::sqe::FabricsType;

use super::event::{Cm, Data, Icrc, Packet, Place, Rdma, Span, Target};
use crate::exchange::Direction;
use crate::session::Session;
use crate::trace::{command, connect_data, hex, of, response};

/// What is odd about a packet in itself; empty for most: what they come to is told by [`message`].
pub(crate) fn packet(packet: &Packet) -> String {
    let Ok(headers) = packet.headers() else { return String::new() };
    let (op, psn) = (headers.bth.opcode(), headers.bth.psn());
    let mut out = match refusal(&headers) {
        Some(refusal) => refusal,
        None => op.to_string().trim_start_matches("RC ").to_owned(),
    };
    let _ = write!(out, " psn={psn}");
    let trouble = out.len();
    match packet.place {
        Place::Next => {}
        Place::Repeated => out.push_str(", sent again"),
        Place::Outside => out.push_str(", before the first PSN"),
        Place::Early(n) => {
            let _ = write!(out, ", {n} before it missing");
        }
    }
    if let Icrc::Bad { expected } = packet.icrc {
        let there = packet.bytes.len().saturating_sub(4);
        let _ = write!(out, ", ICRC BAD: {}, not {}", hex(packet.bytes.get(there..).unwrap_or(&[]), 4), hex(&expected, 4));
    }
    let says = out.len() > trouble || headers.aeth.is_some_and(|a| a.syndrome() & 0x60 != 0) || op == RoceOpcode::CNP;
    // A message of connection management that comes again is told as such.
    if says && (op != RoceOpcode::UD_SEND_ONLY || packet.icrc != Icrc::Good) { out } else { String::new() }
}

/// What an acknowledgement refuses.
fn refusal(headers: &Headers) -> Option<String> {
    let aeth = headers.aeth?;
    if let Some(us) = aeth.rnr_us() {
        return Some(format!("RNR NAK, wait {}.{:02} ms,", us / 1000, us % 1000 / 10));
    }
    aeth.nak().map(|code| format!("NAK {code},"))
}

/// What packets came to, in words; empty where it is told with what follows. `session` is what was seen before it.
pub(crate) fn message(session: &Session, dir: Direction, rdma: &Rdma) -> String {
    match rdma {
        Rdma::QueuePairs { inferred: false, .. } => String::new(),
        Rdma::QueuePairs { host, controller, .. } => {
            let qpn = |q: &Option<u32>| q.map_or("unknown".to_owned(), |q| format!("{q:#x}"));
            let (host, controller) = (qpn(host), qpn(controller));
            format!("queue pairs {host} of the host, {controller} of the controller: told from packets, no CM was captured")
        }
        Rdma::Cm(cm) => connection(cm),
        Rdma::Command { sqe, rest, send } => {
            let mut out = "CapsuleCmd".to_owned();
            command(&mut out, session, sqe, rest);
            if send.bytes > 64 {
                let _ = write!(out, " data={}", send.bytes - 64);
            }
            out + &packets(send)
        }
        Rdma::Response { cqe, rest, invalidate, send } => {
            let key = invalidate.map_or(String::new(), |key| format!(" [INVALIDATE {key:#x}]"));
            let mut out = format!("CapsuleResp{key}");
            response(&mut out, session, cqe);
            if !rest.is_empty() {
                let _ = write!(out, " and {} bytes behind it", rest.len());
            }
            out + &packets(send)
        }
        Rdma::Send { bytes, send } => format!("SEND of {} bytes is no capsule: {}{}", send.bytes, hex(bytes, 24), packets(send)),
        Rdma::Read(target) => format!("READ{}", place(session, target)),
        Rdma::Data(data) => moved(session, dir, data),
        Rdma::Immediate(immediate) => format!("immediate data {immediate:#x}"),
        Rdma::Missing { psn, count } => format!("{count} packets from PSN {psn} on were not captured"),
        Rdma::Stray { why } => (*why).to_owned(),
    }
}

/// The memory of an operation, and whose it is.
fn place(session: &Session, target: &Target) -> String {
    let Target { reth, cid, offset } = target;
    let mut out = format!(" len={} key={:#x} va={:#x}", reth.dmalen(), reth.rkey(), reth.va());
    match cid.and_then(|cid| session.command(cid)) {
        Some(command) => {
            let _ = write!(out, " cid={:#06x}", command.sqe.cid().0);
            of(&mut out, session, Some(command));
            match offset {
                Some(0) => {}
                Some(offset) => {
                    let _ = write!(out, " offset={offset}");
                }
                None => out.push_str(" OUTSIDE ITS MEMORY"),
            }
        }
        None => out.push_str(" of no outstanding command"),
    }
    out
}

/// A WRITE, or the response to a READ, told with its last packet.
fn moved(session: &Session, dir: Direction, data: &Data) -> String {
    if !data.last {
        return String::new();
    }
    // Only the controller reads and writes, so that the host's data answer a READ. [NVMe/RDMA 1.0, 3.3]
    let what = if dir == Direction::HostToController { "READ response" } else { "WRITE" };
    let mut out = format!("{what}{}", place(session, &data.target));
    if data.span.bytes != u64::from(data.target.reth.dmalen()) {
        let _ = write!(out, ", {} bytes came", data.span.bytes);
    }
    let owner = data.target.cid.and_then(|cid| session.command(cid));
    if data.before == 0 && owner.is_some_and(|c| c.sqe.fctype() == Some(FabricsType::CONNECT)) {
        out.push_str(&connect_data(&data.bytes));
    }
    out + &packets(&data.span)
}

fn packets(span: &Span) -> String {
    if span.packets > 1 { format!(" in {} packets", span.packets) } else { String::new() }
}

/// A message of connection management with what it says of the queue.
fn connection(cm: &Cm) -> String {
    let mut out = format!("CM {}", cm.message());
    if cm.repeated {
        out.push_str(", sent again");
        return out;
    }
    match cm.message() {
        CmMessage::REQ => {
            if let Ok(req) = CmReq::read(&cm.bytes) {
                let (port, mtu) = (req.service_id() & 0xffff, req.mtu());
                let _ = write!(out, " port={port} qpn={:#x} psn={} mtu={mtu}", req.qpn(), req.psn());
                let _ = write!(out, " resources={} depth={}", req.resources(), req.depth());
            }
            out.push_str(&private(cm, |b| RdmaRequest::read(b).map_or(String::new(), |r| r.to_string())));
        }
        CmMessage::REP => {
            if let Ok(rep) = CmRep::read(&cm.bytes) {
                let _ = write!(out, " qpn={:#x} psn={}", rep.qpn(), rep.psn());
                let _ = write!(out, " resources={} depth={}", rep.resources(), rep.depth());
            }
            out.push_str(&private(cm, |b| RdmaAccept::read(b).map_or(String::new(), |r| r.to_string())));
        }
        CmMessage::REJ => {
            if let Ok(rej) = CmRej::read(&cm.bytes) {
                let _ = write!(out, " of {}, reason {} {}", rej.message(), rej.reason().0, rej.reason());
                if rej.reason() == RejReason::CONSUMER {
                    out.push_str(&private(cm, |b| RdmaReject::read(b).map_or(String::new(), |r| r.to_string())));
                }
            }
        }
        _ => {}
    }
    out
}

fn private(cm: &Cm, show: impl Fn(&[u8]) -> String) -> String {
    let text = show(cm.private());
    if text.is_empty() { String::new() } else { format!(" {{{text}}}") }
}
