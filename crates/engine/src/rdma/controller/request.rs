//! A connection request (REQ) as an NVMe/RDMA controller judges it: its private data, and what the two sides can do. [NVMe/RDMA 1.0, 3.1]

use nvmf_seam::rdma::{Accept, Asked, Limits, Pd};
use nvmf_wire::rdma::{RECORD_FORMAT, RdmaAccept, RdmaReject, RdmaRequest, RdmaStatus};
use nvmf_wire::{Cntlid, Qid};

use crate::settings::{ControllerSettings, RdmaSettings};

/// What an RNR Retry Count has to be more than for receives to be too few now and then.
const NO_RNR_RETRY: u8 = 0;

/// A queue as CM made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub qid: Qid,
    /// Slots of the submission queue: HSQSIZE + 1, which Connect has to repeat.
    pub entries: u32,
    /// Receives that are kept posted: CRQSIZE.
    pub receives: u32,
    /// Bytes of each: the largest command capsule.
    pub receive_len: u32,
    /// SENDs that may be out: HRQSIZE, and no more than the device does.
    pub sends: u32,
    /// READs that may be out.
    pub reads: u8,
    pub rnr_retry_count: u8,
    /// IOCCSZ, units of 16 bytes.
    pub ioccsz: u32,
}

/// What the judge of a REQ has to know.
#[derive(Debug)]
pub struct Terms<'a> {
    /// Of the hub.
    pub controllers: &'a ControllerSettings,
    /// Of the binding.
    pub rdma: &'a RdmaSettings,
    /// Of the device.
    pub limits: &'a Limits,
    /// The CNTLID of the REQ is one of a controller that exists.
    pub known: bool,
}

/// CNTLID as a REQ has it; 0 where there is none.
pub fn named_controller(asked: &Asked) -> Cntlid {
    RdmaRequest::read(&asked.private).map_or(Cntlid(0), |r| r.cntlid())
}

/// Private data of the REJ that says why. [RDMA-CM-22]
pub fn reject_private(sts: RdmaStatus) -> [u8; RdmaReject::LEN] {
    *RdmaReject::new().with(|r| r.recfmt(RECORD_FORMAT).sts(sts)).as_bytes()
}

/// Judges a REQ: the lowest faulty field of the private data is named, then what CM itself asks for. Reserved bytes are not looked at.
/// [RDMA-CM-10 to RDMA-CM-16, RDMA-CM-23 to RDMA-CM-30]
pub(super) fn judge(asked: &Asked, terms: &Terms<'_>) -> Result<Granted, RdmaStatus> {
    let request = private_data(&asked.private)?;
    if request.recfmt() != RECORD_FORMAT {
        return Err(RdmaStatus::INVALID_RECFMT);
    }
    let (qid, admin) = (request.qid(), request.qid() == Qid::ADMIN);
    let c = terms.controllers;
    if !admin && qid.0 > c.io_queues {
        return Err(RdmaStatus::INVALID_QID);
    }
    if request.hrqsize() == 0 {
        return Err(RdmaStatus::INVALID_HRQSIZE);
    }
    // 0's based, as SQSIZE, with the limits of SQSIZE. [RDMA-CM-13, FAB-CONNECT-07]
    let most = if admin { c.admin_queue_entries } else { c.io_queue_entries.max(2) };
    let entries = request.hsqsize().count();
    if entries < 2 || entries > u64::from(most) {
        return Err(RdmaStatus::INVALID_HSQSIZE);
    }
    // On an I/O queue the text says *should*, and hosts send 0 there too. [RDMA-CM-14, RDMA-CM-15]
    let cntlid = request.cntlid();
    if cntlid != Cntlid(0) && (admin || !terms.known) {
        return Err(RdmaStatus::INVALID_CNTLID);
    }
    // Without READs no Connect data of an Admin Queue would ever come. What the host says of READs of its own is of no
    // account, as there are none. [RDMA-CM-04 to RDMA-CM-06]
    let reads = asked.responder_resources.min(terms.limits.reads).min(terms.rdma.reads);
    if asked.responder_resources == 0 {
        return Err(RdmaStatus::INVALID_IRD);
    }
    let entries = entries as u32;
    // Fewer receives than the queue has slots will do where a host that finds none tries again. [RDMA-CM-19, RDMA-CM-20]
    let fits = entries <= terms.limits.work;
    if reads == 0 || terms.limits.work < 2 || !fits && asked.rnr_retry_count == NO_RNR_RETRY {
        return Err(RdmaStatus::NO_RESOURCES);
    }
    let ioccsz = c.ioccsz.max(4);
    Ok(Granted {
        qid,
        entries,
        receives: entries.min(terms.limits.work),
        // No in-capsule data on the Admin Queue. [RDMA-CAPS-02]
        receive_len: if admin { 64 } else { ioccsz.saturating_mul(16) },
        sends: u32::from(request.hrqsize()),
        reads,
        rnr_retry_count: asked.rnr_retry_count,
        ioccsz,
    })
}

/// The private data of a request has 32 bytes. CM does not say how many were meant, it fills up with zeroes: what has anything behind
/// the 32 is longer, and what is nothing but zeroes is taken for none at all, since a request says how many entries its queues have.
/// [RDMA-CM-17, RDMA-CM-23]
fn private_data(bytes: &[u8]) -> Result<RdmaRequest, RdmaStatus> {
    let wrong = RdmaStatus::INVALID_LENGTH;
    let (request, behind) = bytes.split_at_checked(RdmaRequest::LEN).ok_or(wrong)?;
    let zeroes = |b: &[u8]| b.iter().all(|b| *b == 0);
    if zeroes(request) || !zeroes(behind) {
        return Err(wrong);
    }
    RdmaRequest::read(request).map_err(|_| wrong)
}

impl Granted {
    /// How the controller agrees. [RDMA-CM-02, RDMA-CM-05, RDMA-CM-09, RDMA-CM-18]
    pub fn accept(&self) -> Accept {
        // CRQSIZE is a number of entries where HSQSIZE, which it is to equal, is 0's based. Taken as what HSQSIZE means, entries, as
        // Linux does; a host that compares the bare numbers finds one more than it asked for.
        let crqsize = u16::try_from(self.receives).unwrap_or(u16::MAX);
        let private = RdmaAccept::new().with(|a| a.recfmt(RECORD_FORMAT).crqsize(crqsize));
        Accept {
            private: bytes::Bytes::copy_from_slice(private.as_bytes()),
            responder_resources: 0,
            initiator_depth: self.reads,
            rnr_retry_count: self.rnr_retry_count,
            pd: Pd::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use nvmf_wire::ZeroBased16;

    use super::*;

    fn asked(private: &[u8]) -> Asked {
        let mut all = private.to_vec();
        all.resize(56, 0);
        Asked {
            from: ([192, 0, 2, 1], 40000).into(),
            to: ([192, 0, 2, 2], 4420).into(),
            private: Bytes::from(all),
            responder_resources: 16,
            initiator_depth: 0,
            rnr_retry_count: 7,
            flow_control: true,
        }
    }

    fn request(qid: u16, hrqsize: u16, hsqsize: u16, cntlid: u16) -> RdmaRequest {
        RdmaRequest::new().with(|r| r.qid(Qid(qid)).hrqsize(hrqsize).hsqsize(ZeroBased16(hsqsize)).cntlid(Cntlid(cntlid)))
    }

    const LIMITS: Limits =
        Limits { work: 512, reads: 16, transfer: 1 << 30, region: 1 << 32, sends_invalidate: true, takes_invalidate: true };

    fn verdict(asked: &Asked, known: bool) -> Result<Granted, RdmaStatus> {
        let (controllers, rdma) = (ControllerSettings::default(), RdmaSettings::default());
        judge(asked, &Terms { controllers: &controllers, rdma: &rdma, limits: &LIMITS, known })
    }

    #[test]
    fn each_wrong_field_has_its_status() {
        let cases: [(RdmaRequest, u16); 13] = [
            (request(0, 32, 31, 0), 0),
            (request(1, 128, 127, 5), 0),
            (request(1, 128, 127, 0), 0),
            (request(0, 32, 31, 0).with(|r| r.recfmt(1)), 2),
            (request(65, 32, 31, 1), 3),
            (request(0xffff, 32, 31, 1), 3),
            (request(0, 0, 31, 0), 5),
            (request(0, 32, 0, 0), 4),
            (request(0, 32, 128, 0), 4),
            (request(1, 32, 1024, 1), 4),
            (request(1, 32, 0xffff, 1), 4),
            (request(0, 32, 31, 1), 9),
            (RdmaRequest::new(), 1),
        ];
        for (r, sts) in cases {
            let got = verdict(&asked(r.as_bytes()), true).map_or_else(|s| s.0, |_| 0);
            assert_eq!(got, sts, "{r:?}");
        }
        assert_eq!(verdict(&asked(request(1, 8, 7, 9).as_bytes()), false), Err(RdmaStatus::INVALID_CNTLID));
    }

    #[test]
    fn the_length_is_told_by_what_follows() {
        let mut private = request(0, 32, 31, 0).as_bytes().to_vec();
        private.resize(56, 0);
        assert!(verdict(&asked(&private), true).is_ok());
        private[55] = 1;
        assert_eq!(verdict(&asked(&private), true), Err(RdmaStatus::INVALID_LENGTH));
        let short = Asked { private: Bytes::from(vec![0; 31]), ..asked(&[]) };
        assert_eq!(verdict(&short, true), Err(RdmaStatus::INVALID_LENGTH));
    }

    #[test]
    fn the_depth_of_reads_is_the_least_of_all_and_none_for_the_host() {
        let ask = Asked { responder_resources: 4, initiator_depth: 255, ..asked(request(0, 32, 31, 0).as_bytes()) };
        let accept = verdict(&ask, true).unwrap().accept();
        assert_eq!((accept.initiator_depth, accept.responder_resources, accept.rnr_retry_count), (4, 0, 7));
        assert_eq!(RdmaAccept::read(&accept.private).unwrap().crqsize(), 32);
        let none = Asked { responder_resources: 0, ..ask };
        assert_eq!(verdict(&none, true), Err(RdmaStatus::INVALID_IRD));
    }

    #[test]
    fn requests_of_linux_are_agreed_to() {
        // As Linux 6.12 sent them, and what nvmet-rdma answered: captures/linux-6.12/rdma-io.
        for (private, crqsize) in [([0, 0, 0, 0, 0x20, 0, 0x1f, 0, 0, 0], 32), ([0, 0, 1, 0, 0x80, 0, 0x7f, 0, 1, 0], 128)] {
            let accept = verdict(&Asked { responder_resources: 128, ..asked(&private) }, true).unwrap().accept();
            let theirs = [0, 0, crqsize, 0, 0, 0, 0, 0];
            assert_eq!((&accept.private[..8], accept.responder_resources, accept.rnr_retry_count), (&theirs[..], 0, 7));
        }
    }

    #[test]
    fn fewer_receives_than_slots_need_a_host_that_tries_again() {
        let ask = asked(request(1, 32, 1000, 0).as_bytes());
        assert_eq!(verdict(&ask, true).unwrap().receives, 512);
        let once = Asked { rnr_retry_count: 0, ..ask };
        assert_eq!(verdict(&once, true), Err(RdmaStatus::NO_RESOURCES));
    }
}
