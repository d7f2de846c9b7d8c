//! What went over the wire between the guest's host and our target.
//!
//! It must show that the steps did what they were for, since `nvme` says nothing of digests or of SQ flow control, and that our
//! target was not slow where the host's log blames it for a time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nvmf_capture::{Capture, EventKind, Exchange};
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::sqe::{FabricsType, IoOpcode, Opcode, Sqe};
use nvmf_wire::tcp::{CapsuleCmd, CapsuleResp, IcReq, Pdu, PduType};
use nvmf_wire::{Cid, Cqe};

use super::Extent;

/// What the hosts were seen to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// ICReqs that asked for both digests.
    digests: usize,
    /// Connects of I/O queues, and those of them without SQ flow control.
    io_queues: usize,
    greatest_qid: u16,
    unflowed: usize,
    keep_alives: usize,
    /// The longest that our target took to answer a Keep Alive.
    slowest_keep_alive_ms: u64,
    /// Completed Asynchronous Event Requests.
    events: usize,
    reads: usize,
    writes: usize,
    /// HOSTNQNs of the queues that read or wrote.
    hosts: BTreeSet<String>,
}

/// What is wrong, a line each. A host with several processors makes `queues` I/O queues.
pub fn judge(path: &Path, extent: Extent, queues: u16) -> Result<Vec<String>, String> {
    let capture = Capture::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let seen = Seen::of(capture.exchange());
    println!("lab host: wire  {} connections, {seen:?}", capture.connections().len());
    Ok(seen.missing(extent, queues))
}

/// What is remembered of a connection.
#[derive(Default)]
struct Queue {
    /// The host, where it is an I/O queue.
    host: Option<String>,
    events: BTreeSet<Cid>,
    keep_alives: BTreeMap<Cid, u64>,
}

impl Seen {
    fn of(exchange: &Exchange) -> Seen {
        let mut seen = Seen::default();
        let mut queues: BTreeMap<usize, Queue> = BTreeMap::new();
        for (conn, event) in exchange.events() {
            let EventKind::Pdu(bytes) = &event.kind else { continue };
            let Ok(pdu) = Pdu::parse(bytes) else { continue };
            let queue = queues.entry(conn).or_default();
            match pdu.ptype() {
                PduType::IC_REQ => seen.icreq(&pdu),
                PduType::CAPSULE_CMD => seen.command(queue, &pdu, event.at_ns),
                PduType::CAPSULE_RESP => seen.response(queue, &pdu, event.at_ns),
                _ => {}
            }
        }
        seen
    }

    fn icreq(&mut self, pdu: &Pdu) {
        let both = IcReq::read(&pdu.header).is_ok_and(|icreq| icreq.hdgst() && icreq.ddgst());
        self.digests += usize::from(both);
    }

    fn command(&mut self, queue: &mut Queue, pdu: &Pdu, at_ns: u64) {
        let Ok(capsule) = CapsuleCmd::read(&pdu.header) else { return };
        let sqe = Sqe::from_bytes(capsule.sqe());
        if sqe.fctype() == Some(FabricsType::CONNECT) {
            return self.connect(queue, &Connect::from_bytes(*sqe.as_bytes()), pdu);
        }
        match (&queue.host, sqe.opc()) {
            (Some(host), opc) => {
                let (read, write) = (IoOpcode(opc.0) == IoOpcode::READ, IoOpcode(opc.0) == IoOpcode::WRITE);
                self.reads += usize::from(read);
                self.writes += usize::from(write);
                if read || write {
                    self.hosts.insert(host.clone());
                }
            }
            (None, Opcode::KEEP_ALIVE) => {
                self.keep_alives += 1;
                queue.keep_alives.insert(sqe.cid(), at_ns);
            }
            (None, Opcode::ASYNC_EVENT_REQUEST) => {
                queue.events.insert(sqe.cid());
            }
            _ => {}
        }
    }

    fn connect(&mut self, queue: &mut Queue, connect: &Connect, pdu: &Pdu) {
        if connect.qid().0 != 0 {
            self.io_queues += 1;
            self.greatest_qid = self.greatest_qid.max(connect.qid().0);
            self.unflowed += usize::from(connect.sqfcd());
            queue.host = ConnectData::read(&pdu.data).ok().map(|data| data.hostnqn().as_str().to_owned());
        }
    }

    fn response(&mut self, queue: &mut Queue, pdu: &Pdu, at_ns: u64) {
        let Ok(capsule) = CapsuleResp::read(&pdu.header) else { return };
        let cid = Cqe::from_bytes(capsule.cqe()).cid();
        if let Some(sent_ns) = queue.keep_alives.remove(&cid) {
            self.slowest_keep_alive_ms = self.slowest_keep_alive_ms.max(at_ns.saturating_sub(sent_ns) / 1_000_000);
        }
        self.events += usize::from(queue.events.remove(&cid));
    }

    /// Steps that passed but did not do what they were for.
    fn missing(&self, extent: Extent, queues: u16) -> Vec<String> {
        let at_least = [
            ("as the greatest QID", usize::from(self.greatest_qid), usize::from(queues)),
            ("connections with both digests", self.digests, 2),
            ("Connects of I/O queues", self.io_queues, 4),
            ("Connects without SQ flow control", self.unflowed, 1),
            // over three periods; the Linux host sends one every half period
            ("Keep Alive commands", self.keep_alives, 3),
            // discovery and namespace attributes, both ways
            ("completed event requests", self.events, 4),
            ("writes", self.writes, 50),
            ("reads", self.reads, 50),
            ("hosts that read or wrote", self.hosts.len(), if extent == Extent::Smoke { 1 } else { 2 }),
        ];
        let too_few = at_least.into_iter().filter(|(_, seen, least)| seen < least);
        let mut wrong: Vec<String> =
            too_few.map(|(what, seen, least)| format!("{seen} {what} on the wire, at least {least} were to come")).collect();
        if self.slowest_keep_alive_ms > SLOW_MS {
            wrong.push(format!("our target took {} ms to answer a Keep Alive", self.slowest_keep_alive_ms));
        }
        wrong
    }
}

/// Longest answer to a Keep Alive that is a busy machine's: half of the shortest period that a step asks for.
const SLOW_MS: u64 = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_did_less_than_asked_is_noticed() {
        let hosts = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let slowest_keep_alive_ms = 2000;
        let (digests, io_queues, greatest_qid, unflowed, keep_alives, events, reads, writes) = (2, 4, 4, 1, 3, 4, 50, 50);
        let enough =
            Seen { digests, io_queues, greatest_qid, unflowed, keep_alives, slowest_keep_alive_ms, events, reads, writes, hosts };
        assert_eq!(enough.missing(Extent::Full, 4), Vec::<String>::new());
        let less = Seen { greatest_qid: 1, unflowed: 0, slowest_keep_alive_ms: 2001, hosts: BTreeSet::new(), ..enough };
        let expected = [
            "1 as the greatest QID on the wire, at least 4 were to come",
            "0 Connects without SQ flow control on the wire, at least 1 were to come",
            "0 hosts that read or wrote on the wire, at least 2 were to come",
            "our target took 2001 ms to answer a Keep Alive",
        ];
        assert_eq!(less.missing(Extent::Usual, 4), expected);
    }
}
