//! Connections over RDMA as a script asks for them, and memory with its keys: descriptors of commands, regions of the script's own.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use nvmf_seam::rdma::{Access, Ask, Memory, Pd, Place};
use nvmf_wire::cm::{CmReq, IpCm, Mad};
use nvmf_wire::rdma::RdmaRequest;
use nvmf_wire::sgl::{SglKeyed, SglSubtype, SglType};
use nvmf_wire::sqe::Direction;
use nvmf_wire::{Cntlid, Layout, Qid, SglDescriptor, Sqe, Structure, Value, ZeroBased16};

use super::compose::{Said, number, word};
use super::conn::Conn;
use super::memory::Buffer;
use super::rdma::{Asking, Pairs, Region};
use super::{PATIENCE, Player, Seen, Step, StopKind};
use crate::ast::Assign;
use crate::fields::coded;
use crate::pattern::pattern;
use crate::value::Val;

/// The check that judges whether a REQ is accepted.
pub(super) const JUDGED: &str = "rdma/cm/accepted";
/// Largest region, bytes.
const MAX_REGION: u64 = 64 << 20;

/// What a command carries over RDMA: its first descriptor, what is behind the SQE in the capsule, the memory registered for it.
pub(super) struct Carried {
    pub(super) sgl: SglDescriptor,
    pub(super) inside: Vec<u8>,
    pub(super) region: Option<Region>,
}

impl Player<'_> {
    /// A connection over RDMA of which nothing is sent yet: its REQ says for which queue it is, so it goes out with the first
    /// command. [RDMA-CM-11]
    pub(super) fn open_pairs(&mut self, name: Option<&str>, said: &[Said], to: SocketAddr) -> Step<usize> {
        // a host reads nothing [RDMA-CM-06]
        let ask = Ask { pd: Pd(number(said, "pd").unwrap_or(0) as u32), ..Ask::new(Bytes::new()) };
        let mut asking = Asking {
            to,
            ask,
            with: Vec::new(),
            receives: number(said, "receives").map(|n| n as u32),
            hrqsize: 0,
            invalidate: number(said, "invalidate").is_some_and(|n| n != 0),
        };
        for s in said {
            self.asked(s, &mut asking)?;
        }
        self.conns.push(Conn::rdma(name, Pairs::new(asking)));
        self.current = Some(self.conns.len() - 1);
        Ok(self.conns.len() - 1)
    }

    /// One field of the REQ. Those that the NIC keeps to have to be its own.
    fn asked(&self, s: &Said, asking: &mut Asking) -> Step {
        let small = || s.value.int().map(|n| n as u8).map_err(|e| self.script(format!("{}: {e}", s.name)));
        match s.name.as_str() {
            "cm.resources" => asking.ask.responder_resources = small()?,
            "cm.depth" => asking.ask.initiator_depth = small()?,
            "cm.retries" => asking.ask.retry_count = small()?,
            "cm.rnr_retries" => asking.ask.rnr_retry_count = small()?,
            "cm.flow_control" => asking.ask.flow_control = small()? != 0,
            name => {
                let (layout, plain): (&Layout, &str) = match name.split_once('.') {
                    Some(("cm", plain)) => (CmReq::LAYOUT, plain),
                    Some(("ip_cm", plain)) => (IpCm::LAYOUT, plain),
                    Some(("mad", plain)) => (Mad::LAYOUT, plain),
                    _ => return Ok(()),
                };
                let field = layout.field(plain).ok_or_else(|| self.script(format!("no field `{plain}` in {}", layout.name)))?;
                let value = match &s.value {
                    Val::Word(w) => Value::Int(coded(field, w).ok_or_else(|| self.script(format!("`{w}` is no value of {name}")))?),
                    v => v.plain().map_err(|e| self.script(e))?,
                };
                asking.with.push((name.strip_prefix("cm.").unwrap_or(name).to_owned(), value));
            }
        }
        Ok(())
    }

    /// `open rdma …`: the REQ goes out at once, and what comes of it is for an `expect`.
    pub(super) fn open_rdma(&mut self, name: Option<&str>, with: &[Assign]) -> Step {
        let said = self.say(with)?;
        let i = self.open_pairs(name, &said, self.peer.addr)?;
        let mut said: Vec<Said> = said;
        for s in &mut said {
            if RdmaRequest::LAYOUT.field(&s.name).is_some() {
                s.name = format!("private.{}", s.name);
            }
        }
        self.introduce(i, 0, 31, &said)
    }

    /// Sees to it that a connection over RDMA stands; `connect` has the fields of the Connect that it is for.
    pub(super) fn up(&mut self, i: usize, connect: Option<&[Said]>) -> Step {
        let Some(pairs) = self.conns[i].pairs() else { return Ok(()) };
        if pairs.is_waiting() {
            let said = connect.unwrap_or(&[]);
            let qid = number(said, "qid").unwrap_or(0);
            // A Connect may ask for anything; the REQ asks for a queue that can be.
            let most = if qid == 0 { 31 } else { self.most_entries() };
            let sqsize = number(said, "sqsize").unwrap_or(31).clamp(1, most);
            let own = std::mem::take(&mut self.conns[i].introduction);
            self.introduce(i, qid as u16, sqsize as u16, &own)?;
            // a queue that cannot be is refused here, before Connect, which is what the script asks about [RDMA-CM-25, RDMA-CM-26]
            if self.conns[i].pairs().is_some_and(|p| p.refused().is_some()) && qid > 0 {
                self.introduce(i, 0, 31, &own)?;
            }
        }
        let Some(pairs) = self.conns[i].pairs() else { return Ok(()) };
        let _ = pairs.take_outcome();
        match pairs.refused() {
            Some(why) => {
                let (why, to) = (why.to_owned(), pairs.asking.to);
                Err(self.stop(StopKind::Prerequisite(JUDGED), Seen::Unreachable, format!("{to}: {why}")))
            }
            None => Ok(()),
        }
    }

    /// MQES: the largest queue less one entry.
    fn most_entries(&self) -> u64 {
        self.vars.get("cap").and_then(|cap| cap.field("mqes").ok()).and_then(|v| v.int().ok()).unwrap_or(127).max(1)
    }

    /// Sends the REQ for a queue. [NVMe/RDMA 1.0, 3.1.4, Figure 5]
    fn introduce(&mut self, i: usize, qid: u16, sqsize: u16, said: &[Said]) -> Step {
        let association = self.admin.filter(|_| qid != 0).map_or(0, |a| self.conns[a].cntlid);
        let request = RdmaRequest::new()
            .with(|s| s.qid(Qid(qid)).hsqsize(ZeroBased16(sqsize)).hrqsize(sqsize.saturating_add(1)).cntlid(Cntlid(association)));
        let mut private = request.as_bytes().to_vec();
        for s in said {
            let Some(plain) = s.name.strip_prefix("private.") else { continue };
            let field =
                RdmaRequest::LAYOUT.field(plain).ok_or_else(|| self.script(format!("no field `{plain}` in private data")))?;
            self.put(field, &mut private, &s.value)?;
        }
        let hrqsize = RdmaRequest::read(&private).map_or(0, |r| u32::from(r.hrqsize()));
        if let Some(s) = said.iter().find(|s| s.name == "private") {
            private = s.value.bytes().map_err(|e| self.script(e))?;
        }
        let patience = self.patience(PATIENCE);
        let Some(pairs) = self.conns[i].pairs() else { return Ok(()) };
        (pairs.asking.ask.private, pairs.asking.hrqsize) = (private.into(), hrqsize.clamp(1, 4096));
        let to = pairs.asking.to;
        let opened = pairs.open(&mut *self.net, patience);
        opened.map_err(|why| self.stop(StopKind::Harness, Seen::Unreachable, format!("{to}: {why}")))
    }

    /// The descriptor of a command over RDMA, and what it stands for: by default in the capsule what fits there, else memory with a
    /// key of its own. [RDMA-CAPS-01, RDMA-SGL-01, RDMA-SGL-02]
    pub(super) fn carried(
        &mut self,
        i: usize,
        said: &[Said],
        sqe: &Sqe,
        data: Vec<u8>,
        length: u64,
        buffer: Buffer,
    ) -> Step<Carried> {
        let by_word = word(said, "sgl");
        let fabrics = sqe.fctype().is_some();
        let room =
            if self.conns[i].qid == 0 || fabrics { 0 } else { self.vars.get("incapsule").and_then(|v| v.int().ok()).unwrap_or(0) };
        // memory of a GPU is for the NIC to read: a CPU would have to fetch what goes into a capsule
        let fits = !data.is_empty() && data.len() as u64 <= room && buffer.place == Place::Host;
        let default = if fits { "in-capsule" } else { "keyed" };
        let plain = |sgl, inside| Ok(Carried { sgl, inside, region: None });
        let total = data.len().max(length as usize);
        match by_word.as_deref().unwrap_or(default) {
            "null" => plain(SglDescriptor::new(), Vec::new()),
            "transport" => plain(SglDescriptor::transport(total as u32), Vec::new()),
            "in-capsule" => plain(SglDescriptor::in_capsule(0, total as u32), self.placed(i, fabrics, &data)),
            // a last segment descriptor with an offset: the descriptors are in the capsule [RDMA-SGL-03]
            "list" => {
                let sgl = SglDescriptor::in_capsule(0, data.len() as u32).with(|s| s.kind(SglType::LAST_SEGMENT));
                plain(sgl, self.placed(i, fabrics, &data))
            }
            "keyed" => {
                let length = number(said, "length").unwrap_or(total as u64);
                let region = self.region_of(i, said, sqe, data, length, buffer)?;
                let asks = number(said, "invalidate").map(|n| n != 0);
                // there has to be a key to invalidate
                let usual = self.conns[i].pairs().is_some_and(|p| p.asking.invalidate) && !matches!(region, Keyed::None);
                let asks = asks.unwrap_or(usual);
                let (own, region) = match region {
                    Keyed::Given { addr, key } => ((addr, key), None),
                    Keyed::None => ((0, 0), None),
                    Keyed::Own(r) => ((r.addr, r.key), Some(r)),
                };
                let sub = if asks { SglSubtype::INVALIDATE_KEY } else { SglSubtype::ADDRESS };
                let sgl =
                    SglKeyed::new().with(|s| s.addr(own.0).key(own.1).len(length as u32).kind(SglType::KEYED_DATA_BLOCK).sub(sub));
                self.vars.insert("key".into(), Val::Int(u64::from(own.1)));
                self.vars.insert("addr".into(), Val::Int(own.0));
                Ok(Carried { sgl: SglDescriptor::from_bytes(*sgl.as_bytes()), inside: Vec::new(), region })
            }
            other => Err(self.script(format!("sgl={other}; expected in-capsule, keyed, list, null or transport"))),
        }
    }

    /// In-capsule data where ICDOFF has them. [FAB-TRANS-08]
    fn placed(&self, i: usize, fabrics: bool, data: &[u8]) -> Vec<u8> {
        let io = self.conns[i].qid != 0 && !fabrics;
        let units = self.vars.get("id").and_then(|id| id.field("icdoff").ok()).and_then(|v| v.int().ok()).filter(|_| io);
        let mut inside = vec![0; units.unwrap_or(0) as usize * 16];
        inside.extend_from_slice(data);
        inside
    }

    /// The memory of a command: what the script names, or registered for it.
    fn region_of(&mut self, i: usize, said: &[Said], sqe: &Sqe, data: Vec<u8>, length: u64, buffer: Buffer) -> Step<Keyed> {
        if let Some(key) = number(said, "key") {
            return Ok(Keyed::Given { addr: number(said, "addr").unwrap_or(0), key: key as u32 });
        }
        let total = (data.len() as u64).max(length);
        if total == 0 {
            return Ok(Keyed::None);
        }
        let access = match Direction::of(sqe) {
            Direction::HostToController => Access { read: true, write: false },
            Direction::ControllerToHost => Access { read: false, write: true },
            Direction::None | Direction::Both => Access { read: true, write: true },
        };
        self.register(i, data, total, access, buffer).map(Keyed::Own)
    }

    fn register(&mut self, i: usize, data: Vec<u8>, total: u64, access: Access, buffer: Buffer) -> Step<Region> {
        if total > MAX_REGION {
            return Err(self.script(format!("a region of {total} bytes; at most {MAX_REGION}")));
        }
        let memory = if access.write {
            let mut memory = Memory::zeroed(total as usize);
            if let Some(part) = memory.as_mut_slice().and_then(|m| m.get_mut(..data.len())) {
                part.copy_from_slice(&data);
            }
            memory
        } else {
            let mut data = data;
            data.resize(total as usize, 0);
            Memory::shared(data.into())
        };
        let Some(pairs) = self.conns[i].pairs() else { return Err(self.script("this connection is not over RDMA")) };
        let registered = pairs.register(&mut *self.net, buffer.registered(memory), access);
        // a queue pair in error takes no work: what the script does then is judged by what it expects
        registered.or_else(|why| {
            if self.conns[i].is_over(&mut *self.net) {
                Ok(Region { addr: 0, key: 0, len: total as usize })
            } else {
                Err(self.stop(StopKind::Harness, Seen::NotRun, why))
            }
        })
    }

    /// `region NAME …`.
    pub(super) fn region(&mut self, i: usize, name: &str, with: &[Assign]) -> Step {
        self.up(i, None)?;
        let said = self.say(with)?;
        let bytes = number(&said, "bytes").ok_or_else(|| self.script("region NAME bytes=N"))?;
        let data = match (said.iter().find(|s| s.name == "data"), word(&said, "pattern")) {
            (Some(s), _) => s.value.bytes().map_err(|e| self.script(e))?,
            (None, Some(p)) => {
                let lba = number(&said, "lba").or_else(|| self.vars.get("lba").and_then(|v| v.int().ok())).unwrap_or(0);
                pattern(&p, lba.wrapping_mul(self.block_size()), bytes.min(MAX_REGION) as usize)
            }
            (None, None) => Vec::new(),
        };
        let access = match word(&said, "access").as_deref() {
            None | Some("both") => Access { read: true, write: true },
            Some("read") => Access { read: true, write: false },
            Some("write") => Access { read: false, write: true },
            Some("none") => Access::default(),
            Some(other) => return Err(self.script(format!("access={other}; expected read, write, both or none"))),
        };
        let r = self.register(i, data, bytes, access, self.buffer(&said)?)?;
        let beside = vec![("key", u64::from(r.key)), ("addr", r.addr), ("bytes", r.len as u64)];
        self.vars.insert(name.to_owned(), Val::Record { layout: None, bytes: Vec::new(), beside });
        Ok(())
    }

    /// The key of a region by its name.
    fn key_of(&self, name: &str) -> Step<u32> {
        let key = self.vars.get(name).and_then(|r| r.field("key").ok()).and_then(|v| v.int().ok());
        key.map(|k| k as u32).ok_or_else(|| self.script(format!("no region `{name}`")))
    }

    /// `deregister NAME`.
    pub(super) fn deregister(&mut self, i: usize, name: &str) -> Step {
        let key = self.key_of(name)?;
        if let Some(pairs) = self.conns[i].pairs() {
            let _ = pairs.deregister(&mut *self.net, key);
        }
        Ok(())
    }

    /// `peek NAME as $x`. A region that was invalidated gives its memory back.
    pub(super) fn peek(&mut self, i: usize, name: &str, bind: &str) -> Step {
        let key = self.key_of(name)?;
        let lent = self.net.rdma().and_then(|r| r.peek(nvmf_seam::rdma::Rkey(key)));
        let bytes = match (lent, self.conns[i].pairs()) {
            (Some(bytes), _) => bytes.to_vec(),
            (None, Some(pairs)) => {
                let memory = pairs.deregister(&mut *self.net, key);
                memory.ok_or_else(|| self.script(format!("region `{name}` is gone")))?.as_slice().to_vec()
            }
            (None, None) => return Err(self.script("this connection is not over RDMA")),
        };
        self.vars.insert(bind.to_owned(), Val::Bytes(bytes));
        Ok(())
    }

    /// Whether what follows may count on another moment of the world: a connection over RDMA that has ended.
    pub(super) fn settle(&mut self, i: usize, time: Duration) {
        let until = self.net.now() + time;
        while self.conns[i].pump(&mut *self.net, until) {}
    }
}

/// The memory of a keyed descriptor.
enum Keyed {
    /// The script names it.
    Given { addr: u64, key: u32 },
    /// No data.
    None,
    /// Registered for the command.
    Own(Region),
}
