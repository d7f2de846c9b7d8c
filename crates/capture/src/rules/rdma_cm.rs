//! Connection management: the private data by which a queue introduces itself, and what InfiniBand asks of the messages that carry it.
//! [NVMe/RDMA 1.0, 3.1.4 and 3.5.1; IBA vol. 1, 12.6]

use nvmf_spec::{Side, req};
use nvmf_wire::cm::{CmMessage, CmRej, CmRep, CmReq, IpCm, MadClass, MadMethod, SERVICE_ID};
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::rdma::{RdmaAccept, RdmaReject, RdmaRequest, RdmaStatus};
use nvmf_wire::{Cntlid, Qid, Sqe};

use super::Out;
use super::rdma::Rdma;
use super::state::State;
use crate::roce::Cm;

/// Where private data begins in a REQ, behind the IP CM header; in a REP; in a REJ.
const REQ_PRIVATE: usize = 140 + 36;
const REP_PRIVATE: usize = 36;
const REJ_PRIVATE: usize = 84;
/// Reason of a REJ whose private data says more: consumer defined.
const CONSUMER: u16 = 28;

pub(super) fn message(rdma: &mut Rdma, side: Side, cm: &Cm, out: &mut Out) {
    out.part(0, cm.bytes.len());
    let m = &cm.mad;
    let right = (m.base(), m.class(), m.version(), m.method()) == (1, MadClass::COMMUNICATION_MANAGEMENT, 2, MadMethod::SEND);
    let seen = format_args!(
        "a MAD of base version {}, class {:02x}h, class version {}, method {:02x}h",
        m.base(),
        m.class().0,
        m.version(),
        m.method().0
    );
    out.check(right, req::ROCE_CM_01, seen, "1, 07h, 2 and 03h");
    // The same once more was judged the first time.
    if cm.repeated {
        return;
    }
    match cm.message() {
        CmMessage::REQ => {
            let (Ok(req), Ok(request)) = (CmReq::read(&cm.bytes), RdmaRequest::read(cm.private())) else { return };
            if side == Side::Host {
                self::request(&req, &request, cm, out);
                (rdma.req, rdma.request) = (Some(req), Some(request));
            }
        }
        CmMessage::REP => {
            if let Ok(rep) = CmRep::read(&cm.bytes) {
                accept(rdma, &rep, cm, out);
                rdma.rep = Some(rep);
            }
        }
        CmMessage::REJ => {
            if let Ok(rej) = CmRej::read(&cm.bytes) {
                reject(rdma, &rej, cm, side, out);
            }
        }
        CmMessage::RTU | CmMessage::DREQ | CmMessage::DREP => answers(rdma, side, cm, out),
        _ => {}
    }
}

fn request(req: &CmReq, r: &RdmaRequest, cm: &Cm, out: &mut Out) {
    let mtu = req.mtu().0;
    out.at(50, 1).check((1..=5).contains(&mtu), req::ROCE_CM_04, format_args!("path MTU {mtu}"), "1 to 5");
    let service = req.service_id();
    let by_ip = is_by_ip(req);
    let port = service >> 16 == SERVICE_ID >> 16;
    for which in [req::RDMA_DISC_05, req::RDMA_DISC_09] {
        out.at(8, 8).check(
            by_ip && port,
            which,
            format_args!("service ID {service:016x}, no header of the IP CM service"),
            "0000000001060000h and a port, and that header",
        );
    }
    let rnr = req.rnr_retries();
    out.at(50, 1).check(
        matches!(rnr, 0 | 7),
        req::RDMA_CM_07,
        format_args!("RNR retry count {rnr}"),
        "7, or 0 where the provider has none",
    );
    out.at(REQ_PRIVATE, 2).check(r.recfmt() == 0, req::RDMA_CM_10, format_args!("REQ with RECFMT {}", r.recfmt()), "0");
    out.at(REQ_PRIVATE + 4, 2).check(r.hrqsize() != 0, req::RDMA_CM_12, "REQ with HRQSIZE 0", "the entries of the receive queue");
    let admin = r.qid() == Qid::ADMIN;
    let id = r.cntlid().0;
    out.at(REQ_PRIVATE + 8, 2).check(
        !admin || id == 0,
        req::RDMA_CM_14,
        format_args!("REQ for the Admin Queue with CNTLID {id}"),
        "0",
    );
    let set = cm.private().get(10..32).and_then(|b| b.iter().position(|b| *b != 0));
    if let Some(at) = set {
        out.at(REQ_PRIVATE + 10 + at, 1).add(
            req::RDMA_CM_16,
            format_args!("REQ with byte {} of its private data set", 10 + at),
            "0",
        );
    }
}

/// Whether the header of the IP CM service is there.
fn is_by_ip(req: &CmReq) -> bool {
    IpCm::read(&req.private()).is_ok_and(|ip| ip.major() == 0 && matches!(ip.ip(), 4 | 6))
}

fn accept(rdma: &Rdma, rep: &CmRep, cm: &Cm, out: &mut Out) {
    answers_to(rdma, Side::Controller, rep.remote_id(), out);
    let Ok(a) = RdmaAccept::read(cm.private()) else { return };
    let set = cm.private().get(4..32).is_some_and(|b| b.iter().any(|b| *b != 0));
    let seen = format_args!("REP with RECFMT {} and bytes 31:4 {}", a.recfmt(), if set { "set" } else { "0" });
    out.at(REP_PRIVATE, 32).check(a.recfmt() == 0 && !set, req::RDMA_CM_18, seen, "0 and 0");
    out.at(24, 1).check(
        rep.resources() == 0,
        req::RDMA_CM_05,
        format_args!("REP with responder resources {}", rep.resources()),
        "0: a host reads nothing",
    );
    let (Some(req), Some(r)) = (&rdma.req, &rdma.request) else { return };
    let (asked, got) = (req.rnr_retries(), rep.rnr_retries());
    out.at(27, 1).check(
        asked == got,
        req::RDMA_CM_09,
        format_args!("REP with RNR retry count {got}"),
        format_args!("{asked}, as in the REQ"),
    );
    // HSQSIZE is 0's based, and CRQSIZE is not said to be: both readings pass.
    let (size, queue) = (a.crqsize(), r.hsqsize().0);
    let fits = size == queue || u32::from(size) == u32::from(queue) + 1;
    out.at(REP_PRIVATE + 2, 2).check(
        asked != 0 || fits,
        req::RDMA_CM_20,
        format_args!("REP with CRQSIZE {size}"),
        format_args!("HSQSIZE, {queue}: there is no RNR retry"),
    );
    let why = |n: u8| format!("REJ with STS {n:02}h");
    out.part(REP_PRIVATE, 4);
    out.check(r.recfmt() == 0, req::RDMA_CM_24, format_args!("a queue of RECFMT {} is taken", r.recfmt()), why(2));
    out.check(r.qid().0 != 0xffff, req::RDMA_CM_25, "a queue of QID FFFFh is taken", why(3));
    out.check(queue != 0, req::RDMA_CM_26, "a queue of HSQSIZE 0, one entry, is taken", why(4));
    out.check(r.hrqsize() != 0, req::RDMA_CM_27, "a queue of HRQSIZE 0 is taken", why(5));
    let id = r.cntlid().0;
    out.check(r.qid() != Qid::ADMIN || id == 0, req::RDMA_CM_30, format_args!("an Admin Queue of CNTLID {id} is taken"), why(9));
}

fn reject(rdma: &Rdma, rej: &CmRej, cm: &Cm, side: Side, out: &mut Out) {
    answers_to(rdma, side, rej.remote_id(), out);
    let (Ok(r), true) = (RdmaReject::read(cm.private()), rej.reason().0 == CONSUMER && side == Side::Controller) else { return };
    // the IP CM service refused it, before NVMe saw it [IBA vol. 1, annex A11]
    if rdma.req.as_ref().is_some_and(|req| !is_by_ip(req)) {
        return;
    }
    let (recfmt, sts) = (r.recfmt(), r.sts().0);
    out.at(REJ_PRIVATE, 2).check(recfmt == 0, req::RDMA_CM_22, format_args!("REJ with RECFMT {recfmt}"), "0");
    let seen = format_args!("REJ with STS {sts:#06x}");
    out.at(REJ_PRIVATE + 2, 2).check((1..=9).contains(&sts), req::RDMA_CM_22, seen, "01h to 09h");
    out.at(REJ_PRIVATE + 2, 2).check(!(0xa..=0xff).contains(&sts), req::RDMA_CM_31, seen, "01h to 09h");
    let Some(q) = &rdma.request else { return };
    let innocent = match r.sts() {
        RdmaStatus::INVALID_RECFMT if q.recfmt() == 0 => Some(req::RDMA_CM_24),
        RdmaStatus::INVALID_QID if q.qid() == Qid::ADMIN => Some(req::RDMA_CM_25),
        RdmaStatus::INVALID_CNTLID if q.qid() == Qid::ADMIN && q.cntlid().0 == 0 => Some(req::RDMA_CM_30),
        _ => None,
    };
    if let Some(which) = innocent {
        out.at(REJ_PRIVATE + 2, 2).add(
            which,
            format_args!("{seen}, {}", r.sts().name().unwrap_or_default()),
            "the field that is wrong: this one is right",
        );
    }
}

/// Communication IDs: what a message names as its peer's is what its peer calls its own.
fn answers(rdma: &Rdma, side: Side, cm: &Cm, out: &mut Out) {
    let remote = cm.bytes.get(4..8).and_then(|b| b.first_chunk()).map(|b| u32::from_be_bytes(*b));
    if let Some(remote) = remote {
        answers_to(rdma, side, remote, out);
    }
}

fn answers_to(rdma: &Rdma, side: Side, remote: u32, out: &mut Out) {
    let due = match side {
        Side::Host => rdma.rep.as_ref().map(|r| r.local_id()),
        Side::Controller => rdma.req.as_ref().map(|r| r.local_id()),
    };
    if let Some(due) = due {
        out.at(4, 4).check(
            remote == due,
            req::ROCE_CM_03,
            format_args!("remote communication ID {remote:#010x}"),
            format_args!("{due:#010x}"),
        );
    }
}

/// The controller that the REQ of an I/O queue named, against the one of its Connect.
pub(super) fn controller(state: &State, sqe: &Sqe, data: &ConnectData, out: &mut Out) {
    let Some(r) = state.rdma.as_ref().and_then(|r| r.request) else { return };
    let (io, id) = (Connect::from_bytes(*sqe.as_bytes()).qid() != Qid::ADMIN, r.cntlid());
    let named = data.cntlid() != Cntlid::DYNAMIC && data.cntlid() != Cntlid::ANY_STATIC;
    let seen = format_args!("CNTLID {} in the REQ of an I/O queue", id.0);
    out.check(
        !io || !named || id == data.cntlid(),
        req::RDMA_CM_15,
        seen,
        format_args!("{}, the controller of its association", data.cntlid().0),
    );
}
