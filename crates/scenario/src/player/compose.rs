//! From a PDU's name and its fields to bytes: first a right PDU for this connection, then the fields of the script, then digests.

use bytes::Bytes;
use nvmf_wire::command::Where;
use nvmf_wire::sqe::Direction;
use nvmf_wire::tcp::{CapsuleCmd, H2cData, IcReq, Pdu, PduHead, PduType, TermReq};
use nvmf_wire::{CommandKind, Field, Layout, SglDescriptor, Sqe, Structure};

use super::conn::Sent;
use super::{Player, Step};
use crate::ast::{Assign, SendMode};
use crate::fields::put;
use crate::pattern::pattern;
use crate::value::Val;

/// Fields that are no bits of a header.
const SPECIAL: &[&str] = &[
    "sgl",
    "lba",
    "blocks",
    "length",
    "data",
    "pattern",
    "pad",
    "flags",
    "byte",
    "term",
    "key",
    "addr",
    "invalidate",
    "memory",
    "bounce",
];

/// What a script said of a PDU, with the values worked out.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) name: String,
    pub(super) index: Option<u64>,
    pub(super) value: Val,
}

impl Player<'_> {
    /// `send PDU …`.
    pub(super) fn send(&mut self, i: usize, pdu: &str, command: Option<&str>, with: &[Assign], mode: &SendMode) -> Step {
        let said = self.say(with)?;
        let bytes = self.compose(i, pdu, command, &said)?;
        self.transmit(i, bytes, mode)
    }

    /// Sends bytes as the mode says. A peer that closed is no fault here: what follows in the script judges that.
    pub(super) fn transmit(&mut self, i: usize, mut bytes: Vec<u8>, mode: &SendMode) -> Step {
        if let Some(cut) = &mode.cut {
            // over RDMA a capsule has no common header before it
            let before = if self.conns[i].is_rdma() { PduHead::LEN } else { 0 };
            bytes.truncate(usize::try_from(self.int(cut)?).unwrap_or(usize::MAX).saturating_add(before));
        }
        self.conns[i].last_sent = bytes.clone();
        if mode.hold {
            self.conns[i].hold(&bytes);
            return Ok(());
        }
        let Some(split) = &mode.split else {
            let _ = self.conns[i].send(&mut *self.net, &bytes);
            return Ok(());
        };
        let n = (self.int(split)? as usize).max(1);
        for piece in bytes.chunks(n) {
            if self.conns[i].send(&mut *self.net, piece).is_err() {
                break;
            }
            let until = self.net.now() + core::time::Duration::from_millis(1);
            self.net.sleep(until);
        }
        Ok(())
    }

    pub(super) fn say(&self, with: &[Assign]) -> Step<Vec<Said>> {
        with.iter().map(|a| Ok(Said { name: a.name.clone(), index: a.index, value: self.eval(&a.value)? })).collect()
    }

    /// A PDU in bytes; a command is remembered under its CID.
    pub(super) fn compose(&mut self, i: usize, pdu: &str, command: Option<&str>, said: &[Said]) -> Step<Vec<u8>> {
        let digests = self.conns[i].digests();
        let (header, data) = match pdu {
            "ICReq" => (header_of(IcReq::LAYOUT, PduType::IC_REQ), Vec::new()),
            "CapsuleCmd" => self.capsule(i, command, said)?,
            "H2CData" => self.h2c_data(i, said)?,
            "H2CTermReq" | "C2HTermReq" => self.term_req(i, pdu, said)?,
            "PDU" => {
                let hlen = number(said, "hlen").unwrap_or(24).clamp(8, 255) as usize;
                (vec![0; hlen], self.data_of(said)?.unwrap_or_default())
            }
            other => {
                let (ptype, ..) =
                    PduType::NAMED.iter().find(|n| n.2 == other).ok_or_else(|| self.script(format!("no PDU `{other}`")))?;
                let layout = ptype.layout().ok_or_else(|| self.script(format!("no table of {other}")))?;
                (header_of(layout, *ptype), self.data_of(said)?.unwrap_or_default())
            }
        };
        let built = Pdu::build(&header, Bytes::from(data), digests, self.conns[i].align());
        self.finish(built, pdu, command, said)
    }

    /// Applies the fields of the header, seals, then applies what concerns digests, padding and single bytes.
    fn finish(&self, mut pdu: Pdu, name: &str, command: Option<&str>, said: &[Said]) -> Step<Vec<u8>> {
        let mut header = pdu.header.to_vec();
        let layout = PduType::NAMED.iter().find(|n| n.2 == name).and_then(|n| n.0.layout());
        let own = |n: &str| layout.and_then(|l| l.field(n)).or_else(|| PduHead::LAYOUT.field(n));
        for s in said {
            let plain = s.name.strip_prefix("pdu.").unwrap_or(&s.name);
            if s.name == "flags" {
                header[1] = self.number_of(s)? as u8;
            } else if SPECIAL.contains(&s.name.as_str())
                || (name == "CapsuleCmd" && !s.name.starts_with("pdu.") && is_command_field(command, plain))
            {
                continue;
            } else if let Some(f) = own(plain) {
                self.put(f, &mut header, &s.value)?;
            } else if !is_digest(plain) {
                return Err(self.script(format!(
                    "no field `{}` in {name}{}",
                    s.name,
                    command.map_or(String::new(), |c| format!(" {c}"))
                )));
            }
        }
        pdu.header = header.into();
        let mut pdu = pdu.seal();
        for s in said {
            match s.name.as_str() {
                "hdgst" if layout.is_none_or(|l| l.field("hdgst").is_none()) => {
                    pdu.hdgst = self.digest(s, pdu.hdgst, &pdu.header)?
                }
                "ddgst" if layout.is_none_or(|l| l.field("ddgst").is_none()) => pdu.ddgst = self.digest(s, pdu.ddgst, &pdu.data)?,
                "pad" => pdu.pad = vec![0; (self.number_of(s)? as usize).min(4096)].into(),
                _ => {}
            }
        }
        let mut bytes = pdu.to_bytes();
        for s in said.iter().filter(|s| s.name == "byte") {
            let at = s.index.ok_or_else(|| self.script("byte lacks its index: byte[12]=0"))? as usize;
            let n = self.number_of(s)?;
            *bytes.get_mut(at).ok_or_else(|| self.script(format!("byte[{at}] of a PDU of {} bytes", pdu.to_bytes().len())))? =
                n as u8;
        }
        Ok(bytes)
    }

    fn digest(&self, s: &Said, had: Option<[u8; 4]>, over: &[u8]) -> Step<Option<[u8; 4]>> {
        match &s.value {
            Val::Word(w) if w == "none" => Ok(None),
            Val::Word(w) if w == "bad" => {
                let mut d = had.unwrap_or_else(|| nvmf_wire::tcp::crc32c(over));
                d[0] ^= 1;
                Ok(Some(d))
            }
            Val::Word(w) if w == "good" => Ok(Some(nvmf_wire::tcp::crc32c(over))),
            v => Ok(Some((v.int().map_err(|e| self.script(e))? as u32).to_le_bytes())),
        }
    }

    fn term_req(&self, i: usize, pdu: &str, said: &[Said]) -> Step<(Vec<u8>, Vec<u8>)> {
        let ptype = if pdu == "H2CTermReq" { PduType::H2C_TERM_REQ } else { PduType::C2H_TERM_REQ };
        let header = typed::<TermReq>(ptype).with(|s| s.fes(nvmf_wire::tcp::Fes(1)));
        let seen = &self.conns[i].last_header;
        let default = if seen.is_empty() { vec![0; 8] } else { seen.iter().copied().take(128).collect() };
        Ok((header.as_bytes().to_vec(), self.data_of(said)?.unwrap_or(default)))
    }

    fn h2c_data(&self, i: usize, said: &[Said]) -> Step<(Vec<u8>, Vec<u8>)> {
        let c = &self.conns[i];
        let cccid = number(said, "cccid").unwrap_or(u64::from(c.last_cid)) as u16;
        let datao = number(said, "datao").unwrap_or(0);
        let data = match self.data_of(said)? {
            Some(d) => d,
            None => {
                let len = number(said, "datal").unwrap_or(0);
                if len > 64 << 20 {
                    return Err(self.script(format!("datal={len} without data= would make as many bytes")));
                }
                let at = c.sent.get(&cccid).map_or(0, |s| s.at);
                pattern(&word(said, "pattern").unwrap_or_else(|| "lba".into()), at + datao, len as usize)
            }
        };
        let header = typed::<H2cData>(PduType::H2C_DATA).with(|s| s.cccid(nvmf_wire::Cid(cccid)).datal(data.len() as u32));
        Ok((header.as_bytes().to_vec(), data))
    }

    /// `data=…`, where the script gives it.
    fn data_of(&self, said: &[Said]) -> Step<Option<Vec<u8>>> {
        match said.iter().find(|s| s.name == "data") {
            Some(s) => s.value.bytes().map(Some).map_err(|e| self.script(e)),
            None => Ok(None),
        }
    }

    /// A command capsule: SQE, and the data that goes in the capsule.
    fn capsule(&mut self, i: usize, command: Option<&str>, said: &[Said]) -> Step<(Vec<u8>, Vec<u8>)> {
        self.up(i, (command == Some("Connect")).then_some(said))?;
        if let Some(pairs) = self.conns[i].pairs() {
            pairs.forget_packets();
        }
        let kind = match command {
            None | Some("Raw") => None,
            Some(name) => Some(CommandKind::named(name).ok_or_else(|| self.script(format!("no command `{name}`")))?),
        };
        let cid = number(said, "cid").map_or_else(|| self.conns[i].new_cid(), |n| n as u16);
        let layout = kind.map_or(Sqe::LAYOUT, |k| k.layout);
        let mut sqe = kind.map_or_else(|| Sqe::new().with(|s| s.psdt(1)), CommandKind::sqe).with(|s| s.cid(nvmf_wire::Cid(cid)));
        self.default_fields(kind, said, &mut sqe)?;
        for s in said.iter().filter(|s| !s.name.starts_with("sgl1_")) {
            self.sqe_field(layout, s, &mut sqe)?;
        }
        let (data, length) = self.data_and_length(kind, said, &sqe)?;
        let mut buffer = self.buffer(said)?;
        let payload = data.len();
        let (sgl, inside, region) = if self.conns[i].is_rdma() {
            let carried = self.carried(i, said, &sqe, data, length, buffer)?;
            (Some(carried.sgl), carried.inside, carried.region)
        } else {
            let (sgl, inside) = self.sgl_and_data(i, kind, said, &sqe, data, length)?;
            (sgl, inside, None)
        };
        let mut inside = inside;
        if !inside.is_empty() {
            // its data are copied into the capsule
            inside = buffer.through(inside.into()).into();
            buffer.touch(payload);
        }
        if let Some(sgl) = sgl {
            sqe = sqe.with_sgl1(sgl);
        }
        for s in said.iter().filter(|s| s.name.starts_with("sgl1_")) {
            self.sqe_field(Sqe::LAYOUT, s, &mut sqe)?;
        }
        let at = nvmf_wire::nvm::Read::from_bytes(*sqe.as_bytes()).slba().wrapping_mul(self.block_size());
        let c = &mut self.conns[i];
        c.last_cid = sqe.cid().0;
        c.sent.insert(sqe.cid().0, Sent { buffer, region, ..Sent::new(sqe, kind, at) });
        self.vars.insert("cid".into(), Val::Int(u64::from(sqe.cid().0)));
        let mut header = header_of(CapsuleCmd::LAYOUT, PduType::CAPSULE_CMD);
        header[8..72].copy_from_slice(sqe.as_bytes());
        Ok((header, inside))
    }

    fn sqe_field(&self, layout: &'static Layout, s: &Said, sqe: &mut Sqe) -> Step {
        let plain = s.name.strip_prefix("sqe.").unwrap_or(&s.name);
        let mut b = *sqe.as_bytes();
        let word = |n: &str| layout.field(n).or_else(|| Sqe::LAYOUT.field(n));
        match plain {
            "lba" => self.put(word("slba").ok_or_else(|| self.script("lba: this command has no SLBA"))?, &mut b, &s.value)?,
            "blocks" => {
                let n = self.number_of(s)?;
                let n = n.checked_sub(1).ok_or_else(|| self.script("blocks=0: NLB cannot say so"))?;
                self.put(word("nlb").ok_or_else(|| self.script("blocks: this command has no NLB"))?, &mut b, &Val::Int(n))?;
            }
            "length" => {
                if let Some(f) = layout.field("numd") {
                    let n =
                        (self.number_of(s)? / 4).checked_sub(1).ok_or_else(|| self.script("length below 4: NUMD cannot say so"))?;
                    self.put(f, &mut b, &Val::Int(n))?;
                }
            }
            _ if SPECIAL.contains(&plain) => {}
            _ => {
                if let Some(f) = word(plain) {
                    self.put(f, &mut b, &s.value)?;
                }
            }
        }
        *sqe = Sqe::from_bytes(b);
        Ok(())
    }

    /// What a command needs where the script says nothing.
    fn default_fields(&self, kind: Option<&'static CommandKind>, said: &[Said], sqe: &mut Sqe) -> Step {
        let var = |n: &str| self.vars.get(n).and_then(|v| v.int().ok()).unwrap_or(0);
        let mut fields: Vec<(&str, u64)> = Vec::new();
        match kind.map_or("", |k| k.name) {
            _ if kind.is_some_and(|k| matches!(k.at, Where::Io(_))) => fields.extend([("nsid", var("nsid")), ("slba", var("lba"))]),
            "Connect" => {
                let io = number(said, "qid").is_some_and(|q| q != 0);
                fields.extend([("sqsize", 31), ("kato", if io { 0 } else { 120_000 })]);
            }
            "GetLogPage" => fields.push(("numd", 1023)),
            _ => {}
        }
        let mut b = *sqe.as_bytes();
        for (name, n) in fields {
            if let Some(f) = kind.and_then(|k| k.layout.field(name)) {
                self.put(f, &mut b, &Val::Int(n))?;
            }
        }
        *sqe = Sqe::from_bytes(b);
        Ok(())
    }

    /// The data of a command to the controller, and how many bytes are wanted of one that brings some.
    fn data_and_length(&self, kind: Option<&'static CommandKind>, said: &[Said], sqe: &Sqe) -> Step<(Vec<u8>, u64)> {
        let given = self.data_of(said)?;
        let name = kind.map_or("", |k| k.name);
        let data = match (given, name) {
            (Some(d), _) => d,
            (None, "Connect") => self.connect_data(said)?,
            (None, "Write" | "Compare") => {
                let w = nvmf_wire::nvm::Write::from_bytes(*sqe.as_bytes());
                let len = w.nlb().count() * self.block_size();
                pattern(
                    &word(said, "pattern").unwrap_or_else(|| "lba".into()),
                    w.slba().wrapping_mul(self.block_size()),
                    len as usize,
                )
            }
            _ => Vec::new(),
        };
        let length = match (number(said, "length"), name) {
            (Some(n), _) => n,
            (None, "Identify") => 4096,
            (None, "GetLogPage") => (u64::from(nvmf_wire::admin::GetLogPage::from_bytes(*sqe.as_bytes()).numd()) + 1) * 4,
            (None, "Read") => nvmf_wire::nvm::Read::from_bytes(*sqe.as_bytes()).nlb().count() * self.block_size(),
            _ => 0,
        };
        Ok((data, length))
    }

    /// The descriptor over TCP, and the data that goes in the capsule.
    fn sgl_and_data(
        &self,
        i: usize,
        kind: Option<&'static CommandKind>,
        said: &[Said],
        sqe: &Sqe,
        data: Vec<u8>,
        length: u64,
    ) -> Step<(Option<SglDescriptor>, Vec<u8>)> {
        let name = kind.map_or("", |k| k.name);
        let c = &self.conns[i];
        let room = if c.qid == 0 || sqe.fctype().is_some() {
            8192
        } else {
            self.vars.get("incapsule").and_then(|v| v.int().ok()).unwrap_or(0)
        };
        let by_word = word(said, "sgl");
        let inside = by_word.as_deref() == Some("in-capsule") || (by_word.is_none() && data.len() as u64 <= room);
        Ok(match (by_word.as_deref(), Direction::of(sqe)) {
            (Some("null"), _) => (Some(SglDescriptor::new()), Vec::new()),
            (Some("keyed"), _) => {
                let k = nvmf_wire::sgl::SglKeyed::new()
                    .with(|s| s.len(data.len().max(length as usize) as u32).kind(nvmf_wire::sgl::SglType::KEYED_DATA_BLOCK));
                (Some(SglDescriptor::from_bytes(*k.as_bytes())), Vec::new())
            }
            (None | Some("in-capsule"), _) if inside && !data.is_empty() => {
                (Some(SglDescriptor::in_capsule(0, data.len() as u32)), data)
            }
            (Some("in-capsule"), _) => (Some(SglDescriptor::in_capsule(0, length as u32)), Vec::new()),
            (None, Direction::None) if matches!(name, "PropertyGet" | "PropertySet" | "Disconnect") => (None, Vec::new()),
            (None | Some("transport"), Direction::HostToController) => {
                (Some(SglDescriptor::transport(data.len().max(length as usize) as u32)), Vec::new())
            }
            (None | Some("transport"), _) => {
                (Some(SglDescriptor::transport(length as u32)), if by_word.is_none() { data } else { Vec::new() })
            }
            (Some(other), _) => return Err(self.script(format!("sgl={other}; expected in-capsule, transport, null or keyed"))),
        })
    }

    /// Connect data: the peer's names, those of the association for an I/O queue, then the script's.
    pub(super) fn connect_data(&self, said: &[Said]) -> Step<Vec<u8>> {
        use nvmf_wire::connect::ConnectData;
        let io = number(said, "qid").is_some_and(|q| q != 0);
        let mut d = ConnectData::new().with(|s| s.cntlid(nvmf_wire::Cntlid::DYNAMIC));
        let text = |n: &str| nvmf_wire::value::Text::new(n);
        d.set().subnqn(text(&self.peer.subnqn)).hostnqn(text(&self.peer.hostnqn)).hostid(self.peer.hostid);
        if let Some(a) = self.admin.map(|a| &self.conns[a]).filter(|_| io) {
            d.set().subnqn(text(&a.subnqn)).hostnqn(text(&a.hostnqn)).cntlid(nvmf_wire::Cntlid(a.cntlid));
            if let Some(h) = a.hostid.first_chunk() {
                d.set().hostid(*h);
            }
        }
        let mut b = d.as_bytes().to_vec();
        for s in said {
            let plain = s.name.strip_prefix("data.").unwrap_or(&s.name);
            if let Some(f) = ConnectData::LAYOUT.field(plain) {
                self.put(f, &mut b, &s.value)?;
            }
        }
        // A discovery service is dynamic always. [FAB-CNTLID-09]
        let named = said.iter().any(|s| s.name.strip_prefix("data.").unwrap_or(&s.name) == "cntlid");
        let d = ConnectData::read(&b).unwrap_or_default();
        if !io && !named && d.subnqn() != text(&self.peer.discnqn) {
            b = d.with(|s| s.cntlid(self.peer.cntlid)).as_bytes().to_vec();
        }
        Ok(b)
    }

    fn number_of(&self, s: &Said) -> Step<u64> {
        s.value.int().map_err(|e| self.script(format!("{}: {e}", s.name)))
    }

    pub(super) fn put(&self, f: &Field, buf: &mut [u8], v: &Val) -> Step {
        put(f, buf, v).map_err(|e| self.script(e))
    }
}

fn is_digest(name: &str) -> bool {
    matches!(name, "hdgst" | "ddgst")
}

/// True for a name that the command or its data has, so that it is not looked for in the PDU header.
fn is_command_field(command: Option<&str>, name: &str) -> bool {
    let plain = name.strip_prefix("sqe.").or_else(|| name.strip_prefix("data.")).unwrap_or(name);
    let kind = command.and_then(CommandKind::named);
    let has = |l: &Layout| l.field(plain).is_some();
    has(Sqe::LAYOUT) || kind.is_some_and(|k| has(k.layout) || k.data.is_some_and(has))
}

pub(super) fn number(said: &[Said], name: &str) -> Option<u64> {
    said.iter().rev().find(|s| s.name == name || s.name.strip_prefix("sqe.") == Some(name)).and_then(|s| s.value.int().ok())
}

pub(super) fn word(said: &[Said], name: &str) -> Option<String> {
    said.iter().rev().find(|s| s.name == name).and_then(|s| match &s.value {
        Val::Word(w) | Val::Text(w) => Some(w.clone()),
        _ => None,
    })
}

/// A header of zeroes but for the type.
fn header_of(layout: &Layout, ptype: PduType) -> Vec<u8> {
    let mut h = vec![0; layout.bytes];
    if let Some(b) = h.first_mut() {
        *b = ptype.0;
    }
    h
}

/// The same as a view.
pub(super) fn typed<T: Structure>(ptype: PduType) -> T {
    let mut t = T::zeroed();
    t.bytes_mut()[0] = ptype.0;
    t
}
