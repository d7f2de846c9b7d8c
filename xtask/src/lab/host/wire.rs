//! What went over the wire between the guest's host and our target.
//!
//! The bystander rules judge it: what our target did wrong fails the run, what the host did is told. And it must show that the
//! steps did what they were for, since `nvme` says nothing of digests or of SQ flow control.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nvmf_capture::{Capture, EventKind, Exchange, Judge};
use nvmf_spec::Side;
use nvmf_wire::connect::Connect;
use nvmf_wire::sqe::{FabricsType, IoOpcode, Opcode, Sqe};
use nvmf_wire::tcp::{CapsuleCmd, IcReq, Pdu, PduType};

/// What the hosts were seen to do.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// ICReqs that asked for both digests.
    digests: usize,
    /// Connects of I/O queues, and those of them without SQ flow control.
    io_queues: usize,
    greatest_qid: u16,
    unflowed: usize,
    keep_alives: usize,
    reads: usize,
    writes: usize,
}

/// What is wrong, a line each; what is worth knowing is printed. A host with several processors makes `queues` I/O queues.
pub fn judge(path: &Path, queues: u16) -> Result<Vec<String>, String> {
    let capture = Capture::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let seen = Seen::of(capture.exchange());
    println!("lab host: wire  {} connections, {seen:?}", capture.connections().len());
    let mut wrong = seen.missing(queues);
    let mut host = BTreeMap::new();
    let mut judge = Judge::new().once();
    for (conn, event) in capture.exchange().events() {
        for finding in judge.event(conn, event) {
            match finding.side {
                // the first of each kind tells enough
                Side::Host => host.entry(finding.requirement.id).or_insert((finding.to_string(), 0)).1 += 1,
                Side::Controller => wrong.push(format!("connection {conn}, event {}: {finding}", finding.event)),
            }
        }
    }
    for (finding, connections) in host.into_values() {
        println!("lab host: note  {finding} (on {connections} connections)");
    }
    Ok(wrong)
}

impl Seen {
    fn of(exchange: &Exchange) -> Seen {
        let mut seen = Seen::default();
        let mut io = BTreeSet::new();
        for (conn, event) in exchange.events() {
            let EventKind::Pdu(bytes) = &event.kind else { continue };
            let Ok(pdu) = Pdu::parse(bytes) else { continue };
            match (pdu.ptype(), CapsuleCmd::read(&pdu.header)) {
                (PduType::IC_REQ, _) => seen.icreq(&pdu),
                (PduType::CAPSULE_CMD, Ok(capsule)) => {
                    let sqe = Sqe::from_bytes(capsule.sqe());
                    if sqe.fctype() == Some(FabricsType::CONNECT) {
                        if seen.connect(&Connect::from_bytes(*sqe.as_bytes())) {
                            io.insert(conn);
                        }
                    } else if io.contains(&conn) {
                        seen.io_command(&sqe);
                    } else {
                        seen.keep_alives += usize::from(sqe.opc() == Opcode::KEEP_ALIVE);
                    }
                }
                _ => {}
            }
        }
        seen
    }

    fn icreq(&mut self, pdu: &Pdu) {
        let both = IcReq::read(&pdu.header).is_ok_and(|icreq| icreq.hdgst() && icreq.ddgst());
        self.digests += usize::from(both);
    }

    /// Whether it is an I/O queue's.
    fn connect(&mut self, connect: &Connect) -> bool {
        let io = connect.qid().0 != 0;
        self.io_queues += usize::from(io);
        self.greatest_qid = self.greatest_qid.max(connect.qid().0);
        self.unflowed += usize::from(io && connect.sqfcd());
        io
    }

    fn io_command(&mut self, sqe: &Sqe) {
        match IoOpcode(sqe.opc().0) {
            IoOpcode::WRITE => self.writes += 1,
            IoOpcode::READ => self.reads += 1,
            _ => {}
        }
    }

    /// Steps that passed but did not do what they were for.
    fn missing(&self, queues: u16) -> Vec<String> {
        let at_least = [
            ("as the greatest QID", usize::from(self.greatest_qid), usize::from(queues)),
            ("connections with both digests", self.digests, 2),
            ("Connects of I/O queues", self.io_queues, 4),
            ("Connects without SQ flow control", self.unflowed, 1),
            // KATO of 2 s over three periods; the Linux host sends one every half period
            ("Keep Alive commands", self.keep_alives, 3),
            ("writes", self.writes, 50),
            ("reads", self.reads, 50),
        ];
        let too_few = at_least.into_iter().filter(|(_, seen, least)| seen < least);
        too_few.map(|(what, seen, least)| format!("{seen} {what} on the wire, at least {least} were to come")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Seen;

    #[test]
    fn a_host_that_did_less_than_asked_is_noticed() {
        let enough = Seen { digests: 2, io_queues: 4, greatest_qid: 4, unflowed: 1, keep_alives: 3, reads: 50, writes: 50 };
        assert_eq!(enough.missing(4), Vec::<String>::new());
        let less = Seen { greatest_qid: 1, unflowed: 0, ..enough };
        let expected = [
            "1 as the greatest QID on the wire, at least 4 were to come",
            "0 Connects without SQ flow control on the wire, at least 1 were to come",
        ];
        assert_eq!(less.missing(4), expected);
    }
}
