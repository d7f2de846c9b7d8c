//! [`Witness`]: sees what the links of hosts carry, and whether each I/O command is the exchange that NVMe/RDMA has for it: one command
//! capsule; RDMA READs or WRITEs that name a key of its SQE and cover each byte of its data once; one response. [NVMe/RDMA 1.0, 3.3]
//!
//! What a bystander can judge beyond that is judged by the rules of `nvmf_capture`. It sees packets alone, and knows nothing of what hosts
//! and targets say of themselves.

use core::net::IpAddr;
use std::collections::BTreeMap;

use nvmf_capture::{Direction, Ends, Event, EventKind, Follow, Judge, Live, Rdma, Watcher};
use nvmf_seam::Instant;
use nvmf_wire::connect::Connect;
use nvmf_wire::roce::Reth;
use nvmf_wire::sgl::{SglKeyed, SglType};
use nvmf_wire::sqe::FabricsType;
use nvmf_wire::{Cqe, Qid, Sqe};

use crate::lan::Frame;

/// Findings that are told of each host.
const MOST: usize = 8;

/// What was seen of the exchanges of hosts, by number.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    /// I/O commands that ended as they should.
    pub whole: BTreeMap<usize, u64>,
    /// What was wrong.
    pub wrong: BTreeMap<usize, Vec<String>>,
}

/// Sees frames and tells what is wrong about the exchanges of hosts.
pub(super) struct Witness {
    live: Live,
    seen: Seen,
}

#[derive(Default)]
struct Seen {
    /// Hosts by address.
    hosts: BTreeMap<IpAddr, usize>,
    connections: BTreeMap<usize, Connection>,
    judge: Judge,
    /// I/O commands that ended as they should, by host.
    whole: BTreeMap<usize, u64>,
    wrong: BTreeMap<usize, Vec<String>>,
}

/// A queue of a host that is watched.
#[derive(Default)]
struct Connection {
    host: usize,
    /// A Connect for an I/O queue was seen.
    io: bool,
    /// Commands without a response, by CID.
    out: BTreeMap<u16, Command>,
}

struct Command {
    /// Key, address and length of what the SQE names.
    buffers: Vec<(u32, u64, u64)>,
    /// Key, first address and the one behind the last of each READ and WRITE.
    moved: Vec<(u32, u64, u64)>,
    /// A Connect: part of the queue, and not of its I/O.
    fabrics: bool,
}

impl Witness {
    /// Watches these hosts, by number and address.
    pub fn new(hosts: impl Iterator<Item = (usize, IpAddr)>) -> Self {
        let seen = Seen { hosts: hosts.map(|(i, ip)| (ip, i)).collect(), ..Seen::default() };
        Self { live: Follow::new().live(), seen }
    }

    /// A frame on the link of a host.
    pub fn frame(&mut self, now: Instant, frame: &Frame) {
        self.live.ethernet(now.0, &frame.parts().concat(), &mut self.seen);
    }

    /// Nothing more comes: what was seen of each host, by number.
    pub fn finish(self) -> Exchanges {
        let Self { live, mut seen } = self;
        live.finish(&mut seen);
        for conn in core::mem::take(&mut seen.connections).into_values() {
            for cid in conn.out.into_keys() {
                tell(&mut seen.wrong, conn.host, format!("command {cid:#06x} has no response"));
            }
        }
        Exchanges { whole: seen.whole, wrong: seen.wrong }
    }
}

fn tell(wrong: &mut BTreeMap<usize, Vec<String>>, host: usize, what: String) {
    let all = wrong.entry(host).or_default();
    if all.len() < MOST {
        all.push(what);
    }
}

impl Watcher for Seen {
    fn opened(&mut self, conn: usize, ends: &Ends) {
        if let Some(host) = self.hosts.get(&ends.client.ip()) {
            self.connections.insert(conn, Connection { host: *host, ..Connection::default() });
        }
    }

    fn event(&mut self, conn: usize, event: &Event) {
        let Some(c) = self.connections.get_mut(&conn) else { return };
        for f in self.judge.event(conn, event) {
            tell(&mut self.wrong, c.host, format!("{}: {}; expected: {}", f.requirement.id, f.seen, f.expected));
        }
        let EventKind::Rdma(message) = &event.kind else { return };
        match c.message(event.dir, message) {
            Ok(done) => *self.whole.entry(c.host).or_default() += u64::from(done),
            Err(what) => tell(&mut self.wrong, c.host, what),
        }
    }
}

impl Connection {
    /// True where a command ended by it as it should.
    fn message(&mut self, dir: Direction, message: &Rdma) -> Result<bool, String> {
        match message {
            Rdma::Command { sqe, rest, .. } => {
                let connect = sqe.fctype() == Some(FabricsType::CONNECT);
                self.io |= connect && Connect::from_bytes(*sqe.as_bytes()).qid() != Qid::ADMIN;
                let cid = sqe.cid().0;
                match self.io && self.out.insert(cid, Command::new(sqe, rest)).is_some() {
                    true => Err(format!("two capsules for command {cid:#06x}")),
                    false => Ok(false),
                }
            }
            _ if !self.io => Ok(false),
            Rdma::Read(target) => self.moves("READ", &target.reth).map(|()| false),
            Rdma::Data(data) if dir == Direction::ControllerToHost && data.before == 0 => {
                self.moves("WRITE", &data.target.reth).map(|()| false)
            }
            Rdma::Response { cqe, .. } => self.response(cqe),
            _ => Ok(false),
        }
    }

    /// A READ or WRITE of the controller.
    fn moves(&mut self, what: &str, reth: &Reth) -> Result<(), String> {
        let (key, from, to) = (reth.rkey(), reth.va(), reth.va().saturating_add(u64::from(reth.dmalen())));
        let named = |c: &&mut Command| c.buffers.iter().any(|(k, at, len)| *k == key && from >= *at && to <= at + len);
        let Some(command) = self.out.values_mut().find(named) else {
            return Err(format!("a {what} of {from:#x} to {to:#x} by key {key:#010x}, which no SQE names"));
        };
        if command.moved.iter().any(|(k, a, b)| *k == key && *a < to && from < *b) {
            return Err(format!("a {what} of {from:#x} to {to:#x} by key {key:#010x}, part of which was moved before"));
        }
        command.moved.push((key, from, to));
        Ok(())
    }

    fn response(&mut self, cqe: &Cqe) -> Result<bool, String> {
        let cid = cqe.cid().0;
        let Some(command) = self.out.remove(&cid) else {
            return Err(format!("a response for command {cid:#06x}, which is not out"));
        };
        let sum = |all: &[(u32, u64, u64)], len: fn(&(u32, u64, u64)) -> u64| all.iter().map(len).sum::<u64>();
        let (moved, all) = (sum(&command.moved, |(_, a, b)| b - a), sum(&command.buffers, |(_, _, len)| *len));
        match cqe.status().is_success() && moved != all {
            true => Err(format!("command {cid:#06x} has succeeded with {moved} of its {all} bytes moved")),
            false => Ok(!command.fabrics),
        }
    }
}

impl Command {
    /// What its SQE names, and what the descriptors behind it do. [RDMA-SGL-02]
    fn new(sqe: &Sqe, rest: &[u8]) -> Self {
        let sgl = sqe.sgl1();
        let list = match sgl.kind() {
            SglType::KEYED_DATA_BLOCK => sgl.as_bytes(),
            SglType::LAST_SEGMENT => {
                let from = usize::try_from(sgl.addr()).unwrap_or(usize::MAX);
                rest.get(from..).unwrap_or(&[]).get(..sgl.len() as usize).unwrap_or(&[])
            }
            _ => &[],
        };
        let keyed =
            list.as_chunks::<16>().0.iter().map(|d| SglKeyed::from_bytes(*d)).filter(|d| d.kind() == SglType::KEYED_DATA_BLOCK);
        let buffers = keyed.map(|d| (d.key(), d.addr(), u64::from(d.len()))).collect();
        Self { buffers, moved: Vec::new(), fabrics: sqe.fctype().is_some() }
    }
}

#[cfg(test)]
mod tests {
    use nvmf_capture::roce::{Data, Span, Target};
    use nvmf_wire::Cid;
    use nvmf_wire::sqe::Opcode;

    use super::*;

    const KEY: u32 = 0x1234_5678;

    /// An I/O queue with a Write of 8 KiB out whose buffer is at 1000h.
    fn writing() -> Connection {
        let mut c = Connection { io: true, ..Connection::default() };
        assert_eq!(c.message(Direction::HostToController, &write(7)), Ok(false));
        c
    }

    fn write(cid: u16) -> Rdma {
        let keyed = SglKeyed::new().with(|s| s.addr(0x1000).len(0x2000).key(KEY).kind(SglType::KEYED_DATA_BLOCK));
        let mut bytes = *Sqe::new().with(|s| s.opc(Opcode(1)).cid(Cid(cid))).as_bytes();
        bytes[24..40].copy_from_slice(keyed.as_bytes());
        Rdma::Command { sqe: Sqe::from_bytes(bytes), rest: bytes::Bytes::new(), send: Span::default() }
    }

    fn target(va: u64, len: u32, key: u32) -> Target {
        Target { reth: Reth::new().with(|s| s.va(va).dmalen(len).rkey(key)), cid: None, offset: None }
    }

    fn read(c: &mut Connection, va: u64, len: u32, key: u32) -> Result<bool, String> {
        c.message(Direction::ControllerToHost, &Rdma::Read(target(va, len, key)))
    }

    fn response(c: &mut Connection, cid: u16) -> Result<bool, String> {
        let cqe = Cqe::new().with(|s| s.cid(Cid(cid)));
        c.message(
            Direction::ControllerToHost,
            &Rdma::Response { cqe, rest: bytes::Bytes::new(), invalidate: None, send: Span::default() },
        )
    }

    #[test]
    fn a_whole_exchange_is_right() {
        let mut c = writing();
        assert_eq!(read(&mut c, 0x2000, 0x1000, KEY), Ok(false));
        assert_eq!(read(&mut c, 0x1000, 0x1000, KEY), Ok(false));
        assert_eq!(response(&mut c, 7), Ok(true));
        assert!(c.out.is_empty());
    }

    #[test]
    fn what_breaks_the_exchange_is_told() {
        let told = |result: Result<bool, String>, what: &str| {
            let error = result.expect_err(what);
            assert!(error.contains(what), "{error}");
        };
        told(read(&mut writing(), 0x1000, 0x1000, KEY + 1), "which no SQE names");
        told(read(&mut writing(), 0x2000, 0x1001, KEY), "which no SQE names");
        told(read(&mut writing(), 0xfff, 0x10, KEY), "which no SQE names");
        let mut twice = writing();
        assert_eq!(read(&mut twice, 0x1000, 0x1800, KEY), Ok(false));
        told(read(&mut twice, 0x2000, 0x1000, KEY), "moved before");
        let again = Rdma::Data(Data {
            target: target(0x1000, 1, KEY),
            before: 0,
            bytes: bytes::Bytes::new(),
            last: true,
            span: Span::default(),
        });
        told(twice.message(Direction::ControllerToHost, &again), "a WRITE of 0x1000");
        told(response(&mut twice, 7), "6144 of its 8192 bytes");
        told(response(&mut twice, 7), "not out");
        told(writing().message(Direction::HostToController, &write(7)), "two capsules");
    }
}
