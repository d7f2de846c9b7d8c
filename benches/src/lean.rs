//! A host that costs as little as a host can: ready-made capsules, one write for all that is due, headers read and data passed over.
//!
//! It is a load generator, not a host: data digests of the controller are not checked, and every deviation from what a controller
//! without faults sends is an error that ends the measurement.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::Bytes;
use nvmf_seam::{Entropy, SplitMix64};
use nvmf_wire::tcp::{CapsuleCmd, CapsuleResp, Digests, IcReq, PduHead, PduType, R2t};
use nvmf_wire::{Cid, Cntlid, Cqe, Qid, SglDescriptor, Sqe};

use crate::pdu;
use crate::round::{BLOCK, BLOCKS, READ, Rate, Work};

/// Entries of the I/O queue: 255 commands may be outstanding.
const ENTRIES: u16 = 256;
/// Every PDU that comes on a running I/O queue has a header of this length.
const HEADER: usize = 24;

/// An association: an Admin Queue that stays idle and one I/O queue.
pub struct LeanHost {
    /// Held open: with it the association ends.
    _admin: TcpStream,
    stream: TcpStream,
    digests: Digests,
    random: SplitMix64,
    buf: Vec<u8>,
}

impl LeanHost {
    /// Creates both queues and enables the controller.
    pub fn connect(to: SocketAddr, subnqn: &str, digests: bool) -> io::Result<Self> {
        let digests = Digests { header: digests, data: digests };
        let mut admin = open(to, digests)?;
        let response = exchange(&mut admin, &pdu::connect(Qid::ADMIN, Cntlid::DYNAMIC, 32, subnqn, digests), digests)?;
        let cntlid = Cntlid(response.dw0() as u16);
        exchange(&mut admin, &pdu::enable(digests), digests)?;
        let mut stream = open(to, digests)?;
        exchange(&mut stream, &pdu::connect(Qid(1), cntlid, ENTRIES, subnqn, digests), digests)?;
        Ok(Self { _admin: admin, stream, digests, random: SplitMix64::new(1), buf: vec![0; READ] })
    }

    /// Keeps `work.depth` commands under way for `time`, at random places.
    pub fn run(&mut self, work: &Work, time: Duration) -> io::Result<Rate> {
        let blocks = (work.len / BLOCK) as u16;
        let name = if work.write { "Write" } else { "Read" };
        let sqe = pdu::io(name, 0, blocks, SglDescriptor::transport(work.len));
        let capsule = |cid: u16| pdu::capsule(sqe.with(|s| s.cid(Cid(cid))), Bytes::new(), self.digests);
        let mut capsules: Vec<Vec<u8>> = (0..work.depth).map(capsule).collect();
        let mut data = if work.write { pdu::h2c_data(vec![9; work.len as usize].into(), self.digests) } else { Vec::new() };
        let mut parser = Parser { head: [0; HEADER], have: 0, skip: 0 };
        let mut send = Vec::with_capacity(READ);
        let begin = Instant::now();
        let (mut out, mut done) = (u64::from(work.depth), 0);
        for c in &mut capsules {
            self.place(c, blocks);
            send.extend_from_slice(c);
        }
        while out > 0 {
            if !send.is_empty() {
                self.stream.write_all(&send)?;
                send.clear();
            }
            let n = self.stream.read(&mut self.buf)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let more = begin.elapsed() < time;
            let mut at = 0;
            while at < n {
                let Some(head) = parser.step(&self.buf[at..n], &mut at)? else { continue };
                match PduType(head[0]) {
                    PduType::C2H_DATA if !work.write => {}
                    PduType::CAPSULE_RESP => {
                        let cqe = succeeded(&head)?;
                        let c = capsules.get_mut(usize::from(cqe.cid().0)).ok_or_else(|| odd("CID"))?;
                        done += 1;
                        if more {
                            place(c, blocks, &mut self.random, self.digests);
                            send.extend_from_slice(c);
                        } else {
                            out -= 1;
                        }
                    }
                    PduType::R2T if work.write => {
                        answer(&mut data, &head, work.len, self.digests)?;
                        self.stream.write_all(&data)?;
                    }
                    other => return Err(odd(&format!("PDU type {:#04x}", other.0))),
                }
            }
        }
        Ok(Rate { done, time: begin.elapsed() })
    }

    fn place(&mut self, capsule: &mut [u8], blocks: u16) {
        place(capsule, blocks, &mut self.random, self.digests);
    }
}

/// Opens a connection and negotiates.
fn open(to: SocketAddr, digests: Digests) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(&pdu::ic_req(digests))?;
    let mut resp = [0; IcReq::LEN];
    stream.read_exact(&mut resp)?;
    let granted = Digests { header: resp[11] & 1 != 0, data: resp[11] & 2 != 0 };
    if resp[0] != PduType::IC_RESP.0 || granted != digests {
        return Err(odd("ICResp"));
    }
    Ok(stream)
}

/// One command without data to the host; its completion.
fn exchange(stream: &mut TcpStream, capsule: &[u8], digests: Digests) -> io::Result<Cqe> {
    stream.write_all(capsule)?;
    let mut resp = [0; CapsuleResp::LEN + 4];
    let len = CapsuleResp::LEN + if digests.header { 4 } else { 0 };
    stream.read_exact(&mut resp[..len])?;
    let head: &[u8; HEADER] = resp.first_chunk().ok_or_else(|| odd("length"))?;
    if head[0] != PduType::CAPSULE_RESP.0 {
        return Err(odd("PDU type"));
    }
    succeeded(head)
}

fn succeeded(head: &[u8; HEADER]) -> io::Result<Cqe> {
    let cqe = Cqe::from_bytes(CapsuleResp::from_bytes(*head).cqe());
    if cqe.status().is_success() { Ok(cqe) } else { Err(odd(&format!("status {:?}", cqe.status()))) }
}

/// A new random place for a command.
fn place(capsule: &mut [u8], blocks: u16, random: &mut SplitMix64, digests: Digests) {
    let slba = random.below(BLOCKS / u64::from(blocks)) * u64::from(blocks);
    // SLBA: bytes 47:40 of the SQE
    let at = CapsuleCmd::LEN - Sqe::LEN + 40;
    capsule[at..at + 8].copy_from_slice(&slba.to_le_bytes());
    pdu::sign(capsule, CapsuleCmd::LEN, digests);
}

/// Makes `data` the answer to an R2T.
fn answer(data: &mut [u8], head: &[u8; HEADER], len: u32, digests: Digests) -> io::Result<()> {
    let r2t = R2t::from_bytes(*head);
    if (r2t.r2to(), r2t.r2tl()) != (0, len) {
        return Err(odd("R2T in parts"));
    }
    pdu::address(data, r2t.cccid(), r2t.ttag(), digests);
    Ok(())
}

/// Finds headers in a stream, and passes over what is between them.
struct Parser {
    head: [u8; HEADER],
    have: usize,
    skip: usize,
}

impl Parser {
    /// Takes some of `bytes`, counts it in `at`, and gives a header where one is complete.
    fn step(&mut self, bytes: &[u8], at: &mut usize) -> io::Result<Option<[u8; HEADER]>> {
        let passed = self.skip.min(bytes.len());
        self.skip -= passed;
        let n = (HEADER - self.have).min(bytes.len() - passed);
        self.head[self.have..self.have + n].copy_from_slice(&bytes[passed..passed + n]);
        self.have += n;
        *at += passed + n;
        if self.have < HEADER {
            return Ok(None);
        }
        self.have = 0;
        let plen = PduHead::read(&self.head).map_or(0, |h| h.plen() as usize);
        self.skip = plen.checked_sub(HEADER).ok_or_else(|| odd("PLEN"))?;
        Ok(Some(self.head))
    }
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("an unexpected answer of the controller: {what}"))
}
