//! RoCEv2 packets and CM messages by name: which one it is, its fields, and how one is made.
//!
//! A field is found by its name in the wire tables, in the first part of the packet that has it; a part's name before it
//! (`bth.`, `reth.`, `cm.`, …) chooses. Read [`Packet`].

mod commands;

use nvmf_wire::cm::{
    CmDrep, CmDreq, CmMessage, CmMra, CmRej, CmRep, CmReq, CmRtu, GSI_QKEY, GSI_QPN, IpCm, MAD_LEN, Mad, MadClass, MadMethod,
};
use nvmf_wire::rdma::{RdmaAccept, RdmaReject, RdmaRequest};
use nvmf_wire::roce::{
    Aeth, AethKind, AtomicAckEth, AtomicEth, Bth, Deth, Headers, ICRC_LEN, Ieth, ImmDt, Reth, RoceOpcode, UDP_PORT, icrc,
};
use nvmf_wire::sgl::{SglKeyed, SglType};
use nvmf_wire::{CommandKind, Cqe, Field, Layout, Sqe, Structure};

pub(crate) use commands::Commands;

use crate::fields::{RESPONSES, put, value_in};
use crate::value::Val;

/// Names that stand for several opcodes, or for some packets of one.
const KINDS: &[&str] = &["SEND", "WRITE", "READ_RESPONSE", "NAK", "RNR_NAK", "OTHER"];

/// True for a name that a packet can have.
pub(crate) fn is_name(name: &str) -> bool {
    name == "any" || KINDS.contains(&name) || opcode(name).is_some() || message(name).is_some()
}

/// All names, for errors.
pub(crate) fn names() -> String {
    let opcodes = RoceOpcode::NAMED.iter().map(|n| n.1);
    let messages = CmMessage::NAMED.iter().map(|n| n.1);
    opcodes.chain(messages).chain(KINDS.iter().copied()).chain(["any"]).collect::<Vec<_>>().join(", ")
}

fn opcode(name: &str) -> Option<RoceOpcode> {
    RoceOpcode::NAMED.iter().find(|n| n.1 == name).map(|n| n.0)
}

fn message(name: &str) -> Option<CmMessage> {
    CmMessage::NAMED.iter().find(|n| n.1 == name).map(|n| n.0)
}

/// A part of a packet: the prefix that chooses it, its table, and where it begins.
type Part = (&'static str, &'static Layout, usize);

/// The tables that a packet may have, by prefix.
const TABLES: [(&str, &[&Layout]); 15] = [
    ("bth", &[Bth::LAYOUT]),
    ("deth", &[Deth::LAYOUT]),
    ("reth", &[Reth::LAYOUT]),
    ("atomic", &[AtomicEth::LAYOUT]),
    ("aeth", &[Aeth::LAYOUT]),
    ("atomic_ack", &[AtomicAckEth::LAYOUT]),
    ("immdt", &[ImmDt::LAYOUT]),
    ("ieth", &[Ieth::LAYOUT]),
    ("mad", &[Mad::LAYOUT]),
    ("cm", &[CmReq::LAYOUT, CmMra::LAYOUT, CmRej::LAYOUT, CmRep::LAYOUT, CmRtu::LAYOUT, CmDreq::LAYOUT, CmDrep::LAYOUT]),
    ("ip_cm", &[IpCm::LAYOUT]),
    ("private", &[RdmaRequest::LAYOUT, RdmaAccept::LAYOUT, RdmaReject::LAYOUT]),
    ("cqe", &RESPONSES),
    ("sgl", &[SglKeyed::LAYOUT]),
    ("sqe", &[Sqe::LAYOUT]),
];

/// Whether some packet has a field of that name.
pub(crate) fn may_have(name: &str) -> bool {
    let (prefix, plain) = split(name);
    let commands = || nvmf_wire::command::COMMANDS.iter().any(|k| k.layout.field(plain).is_some());
    matches!(name, "status" | "payload" | "byte")
        || TABLES
            .iter()
            .filter(|t| prefix.is_none_or(|p| p == t.0))
            .any(|t| t.1.iter().any(|l| l.field(plain).is_some()) || t.0 == "sqe" && commands())
}

fn split(name: &str) -> (Option<&str>, &str) {
    match name.split_once('.') {
        Some((prefix, plain)) => (Some(prefix), plain),
        None => (None, name),
    }
}

/// A packet from its BTH to its padding, without the ICRC.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    /// Who sent it.
    pub(crate) from_controller: bool,
    /// Its ICRC was right.
    pub(crate) intact: bool,
    headers: Headers,
}

impl Packet {
    /// Takes a packet apart; `None` where it ends within its headers.
    pub(crate) fn read(bytes: &[u8], from_controller: bool, intact: bool) -> Option<Self> {
        Some(Self { headers: Headers::read(bytes).ok()?, bytes: bytes.to_vec(), from_controller, intact })
    }

    /// A packet of that name with nothing in it but what the name says.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let (op, cm) = match (name, message(name)) {
            ("NAK" | "RNR_NAK", _) => (RoceOpcode::ACK, None),
            (_, Some(m)) => (RoceOpcode::UD_SEND_ONLY, Some(m)),
            _ => (opcode(name)?, None),
        };
        let bth = Bth::new().with(|s| s.opcode(op).pkey(0xffff));
        // 64 zero bytes hold the headers of any opcode
        let mut bytes = bth.as_bytes().to_vec();
        bytes.resize(Bth::LEN + 64, 0);
        let len = Headers::read(&bytes).ok()?.len;
        bytes.truncate(len);
        if let Some(m) = cm {
            let class = MadClass::COMMUNICATION_MANAGEMENT;
            let mad = Mad::new().with(|s| s.base(1).class(class).version(2).method(MadMethod::SEND).attribute(m));
            bytes.extend_from_slice(mad.as_bytes());
            bytes.resize(len + MAD_LEN, 0);
        }
        let mut packet = Self::read(&bytes, false, true)?;
        let set = |packet: &mut Self, name: &str, n: u64| packet.set(name, None, &Val::Int(n));
        match name {
            "NAK" => set(&mut packet, "aeth.kind", u64::from(AethKind::NAK.0)).ok()?,
            "RNR_NAK" => set(&mut packet, "aeth.kind", u64::from(AethKind::RNR_NAK.0)).ok()?,
            "ACK" => set(&mut packet, "aeth.value", 31).ok()?,
            _ if cm.is_some() => {
                set(&mut packet, "bth.dqpn", u64::from(GSI_QPN)).ok()?;
                set(&mut packet, "deth.sqpn", u64::from(GSI_QPN)).ok()?;
                set(&mut packet, "deth.qkey", u64::from(GSI_QKEY)).ok()?;
            }
            _ => {}
        }
        Some(packet)
    }

    pub(crate) fn opcode(&self) -> RoceOpcode {
        self.headers.bth.opcode()
    }

    pub(crate) fn bth(&self) -> &Bth {
        &self.headers.bth
    }

    /// The message of connection management in it.
    pub(crate) fn message(&self) -> Option<CmMessage> {
        let ud = self.opcode() == RoceOpcode::UD_SEND_ONLY && self.bytes.len() >= self.headers.len + MAD_LEN;
        ud.then(|| Mad::read(self.bytes.get(self.headers.len..)?).ok()).flatten().map(|m| m.attribute())
    }

    /// Whether it goes by that name.
    pub(crate) fn is(&self, name: &str) -> bool {
        let op = self.opcode();
        let kind = self.headers.aeth.map(|a| a.kind()).filter(|_| op == RoceOpcode::ACK);
        match name {
            "any" => true,
            "SEND" => op.is_send(),
            "WRITE" => op.is_write(),
            "READ_RESPONSE" => op.is_read_response(),
            "CapsuleCmd" => self.sqe().is_some(),
            "CapsuleResp" => self.cqe().is_some(),
            "OTHER" => op.name().is_none(),
            "NAK" => kind == Some(AethKind::NAK),
            "RNR_NAK" => kind == Some(AethKind::RNR_NAK),
            _ => opcode(name) == Some(op) || message(name).is_some_and(|m| self.message() == Some(m)),
        }
    }

    /// Where the payload begins, and where it ends.
    pub(crate) fn payload(&self) -> &[u8] {
        let end = self.bytes.len().saturating_sub(usize::from(self.headers.bth.padcnt()));
        self.bytes.get(self.headers.len..end).unwrap_or(&[])
    }

    /// What a READ request, or the first packet of a WRITE, is about.
    pub(crate) fn reth(&self) -> Option<Reth> {
        self.headers.reth
    }

    /// The completion queue entry that it carries.
    pub(crate) fn cqe(&self) -> Option<Cqe> {
        let whole = self.from_controller && self.opcode().is_send() && self.opcode().begins() && self.opcode().ends();
        whole.then(|| Cqe::read(self.payload()).ok()).flatten()
    }

    /// The submission queue entry that it carries, or the start of its capsule.
    pub(crate) fn sqe(&self) -> Option<Sqe> {
        let first = !self.from_controller && self.opcode().is_send() && self.opcode().begins();
        first.then(|| Sqe::read(self.payload()).ok()).flatten()
    }

    fn parts(&self, command: Option<&'static CommandKind>) -> Vec<Part> {
        let h = &self.headers;
        let mut at = Bth::LEN;
        let mut parts: Vec<Part> = vec![("bth", Bth::LAYOUT, 0)];
        for (there, prefix, layout) in [
            (h.deth.is_some(), "deth", Deth::LAYOUT),
            (h.reth.is_some(), "reth", Reth::LAYOUT),
            (h.atomic.is_some(), "atomic", AtomicEth::LAYOUT),
            (h.aeth.is_some(), "aeth", Aeth::LAYOUT),
            (h.atomic_ack.is_some(), "atomic_ack", AtomicAckEth::LAYOUT),
            (h.immdt.is_some(), "immdt", ImmDt::LAYOUT),
            (h.ieth.is_some(), "ieth", Ieth::LAYOUT),
        ] {
            if there {
                parts.push((prefix, layout, at));
                at += layout.bytes;
            }
        }
        if self.cqe().is_some() {
            parts.extend(RESPONSES.iter().map(|l| ("cqe", *l, at)));
        }
        if let Some(sqe) = self.sqe() {
            parts.extend(command.map(|k| ("sqe", k.layout, at)));
            parts.push(("sqe", Sqe::LAYOUT, at));
            if sqe.sgl1().kind() == SglType::KEYED_DATA_BLOCK {
                parts.push(("sgl", SglKeyed::LAYOUT, at + Sqe::LAYOUT.offset("sgl1_addr")));
            }
        }
        if let Some(m) = self.message() {
            parts.push(("mad", Mad::LAYOUT, at));
            let body = at + Mad::LEN;
            // NVMe's names go before CM's, which has `qkey` and the like in several places
            match m {
                CmMessage::REQ => {
                    let private = body + CmReq::LAYOUT.offset("private");
                    parts.push(("private", RdmaRequest::LAYOUT, private + IpCm::LEN));
                    parts.push(("ip_cm", IpCm::LAYOUT, private));
                }
                CmMessage::REP => parts.push(("private", RdmaAccept::LAYOUT, body + CmRep::LAYOUT.offset("private"))),
                CmMessage::REJ => {
                    parts.push(("private", RdmaReject::LAYOUT, body + CmRej::LAYOUT.offset("private")));
                }
                _ => {}
            }
            parts.extend(m.layout().map(|l| ("cm", l, body)));
        }
        parts
    }

    fn find(&self, name: &str, command: Option<&'static CommandKind>) -> Option<(&'static Field, usize)> {
        let (prefix, plain) = split(name);
        let parts = self.parts(command);
        parts.iter().filter(|p| prefix.is_none_or(|x| x == p.0)).find_map(|(_, l, at)| Some((l.field(plain)?, *at)))
    }

    /// What it holds under `name`, with the field where it is one of a table. `command`: the one that its capsule has.
    pub(crate) fn get(&self, name: &str, command: Option<&'static CommandKind>) -> Option<(Option<&'static Field>, Val)> {
        match name {
            "len" => return Some((None, Val::Int(self.payload().len() as u64))),
            "icrc" => return Some((None, Val::Int(u64::from(self.intact)))),
            "payload" => return Some((None, Val::Bytes(self.payload().to_vec()))),
            "status" => return self.cqe().map(|c| (None, Val::Int(u64::from(c.status().code().0)))),
            "reserved" => return Some((None, Val::Int(u64::from(self.reserved())))),
            _ => {}
        }
        let (field, at) = self.find(name, command)?;
        Some((Some(field), value_in(field, self.bytes.get(at..)?)))
    }

    /// How many reserved bytes are not 0, of its tables and of the private data behind NVMe's. [RDMA-CM-18, ROCE-BTH-02]
    fn reserved(&self) -> u32 {
        let parts = self.parts(None);
        let own = |p: &&Part| !matches!(p.0, "sqe" | "cqe" | "sgl");
        let dirty = |(_, l, at): &Part| {
            let bytes = self.bytes.get(*at..).unwrap_or(&[]);
            l.reserved_mask().iter().zip(bytes).filter(|(m, b)| *m & *b != 0).count() as u32
        };
        parts.iter().filter(own).map(dirty).sum()
    }

    /// Changes a field; the packet keeps its length, but for `payload`.
    pub(crate) fn set(&mut self, name: &str, command: Option<&'static CommandKind>, value: &Val) -> Result<(), String> {
        match name {
            "payload" => {
                self.bytes.truncate(self.headers.len);
                self.bytes.extend(value.bytes()?);
                return Ok(());
            }
            "status" => {
                let cqe = self.cqe().ok_or("no response capsule in it")?.with_status(nvmf_wire::Status(value.int()? as u16));
                let at = self.headers.len;
                self.bytes.get_mut(at..at + Cqe::LEN).ok_or("too short")?.copy_from_slice(cqe.as_bytes());
                return Ok(());
            }
            _ => {}
        }
        let (field, at) = self.find(name, command).ok_or_else(|| format!("no field `{name}` in {}", self.show_name()))?;
        put(field, self.bytes.get_mut(at..).unwrap_or(&mut []), value)?;
        self.headers = Headers::read(&self.bytes).map_err(|e| e.to_string())?;
        Ok(())
    }

    /// Fills the payload up to four bytes and says so in the BTH. [ROCE-BTH-03]
    pub(crate) fn pad(&mut self) {
        let missing = self.bytes.len().next_multiple_of(4) - self.bytes.len();
        self.bytes.resize(self.bytes.len() + missing, 0);
        let _ = self.set("bth.padcnt", None, &Val::Int(missing as u64));
    }

    fn show_name(&self) -> String {
        let named = RoceOpcode::NAMED.iter().find(|n| n.0 == self.opcode()).map(|n| n.1);
        let cm = self.message().and_then(|m| CmMessage::NAMED.iter().find(|n| n.0 == m)).map(|n| n.1);
        cm.or(named).map_or_else(|| self.opcode().to_string(), str::to_owned)
    }

    /// In words, for reports.
    pub(crate) fn show(&self) -> String {
        let mut out = self.show_name();
        let shown: &[&str] = match self.message() {
            Some(CmMessage::REJ) => &["reason", "private.recfmt", "sts"],
            Some(CmMessage::REP) => &["private.recfmt", "crqsize", "cm.qpn", "cm.psn", "resources", "depth", "rnr_retries"],
            Some(_) => &["local_id", "remote_id"],
            None => &["psn", "kind", "value", "msn", "va", "reth.rkey", "dmalen", "ieth.rkey", "cid", "status"],
        };
        for name in shown {
            if let Some((field, v)) = self.get(name, None) {
                let plain = name.rsplit('.').next().unwrap_or(name);
                let label = field.zip(v.int().ok()).and_then(|(f, n)| (f.label)(n)).map_or(String::new(), |l| format!(" {l}"));
                out.push_str(&format!(" {plain}={}{label}", v.show()));
            }
        }
        out
    }
}

/// A packet in its IP packet.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    /// IP and UDP header.
    head: Vec<u8>,
    pub(crate) packet: Packet,
}

impl Datagram {
    /// Takes an IP packet apart; `None` where it is none of RoCEv2.
    pub(crate) fn read(bytes: &[u8], from_controller: bool) -> Option<Self> {
        let (ip, protocol) = match bytes.first()? >> 4 {
            4 => (usize::from(bytes[0] & 15) * 4, *bytes.get(9)?),
            6 => (40, *bytes.get(6)?),
            _ => return None,
        };
        let port = u16::from_be_bytes(*bytes.get(ip + 2..)?.first_chunk()?);
        // 17: UDP
        if protocol != 17 || port != UDP_PORT {
            return None;
        }
        let (head, rest) = bytes.split_at_checked(ip + 8).filter(|_| ip >= 20)?;
        let (packet, end) = rest.split_last_chunk::<ICRC_LEN>()?;
        let intact = icrc(&bytes[..bytes.len() - ICRC_LEN]) == Some(*end);
        Some(Self { head: head.to_vec(), packet: Packet::read(packet, from_controller, intact)? })
    }

    /// The same way back, with another packet in it.
    pub(crate) fn reversed(&self, packet: Packet) -> Self {
        let mut head = self.head.clone();
        // source, then destination: 4 bytes each from 12 on, or 16 each from 8 on
        let (at, len) = if head[0] >> 4 == 4 { (12, 4) } else { (8, 16) };
        if let Some(both) = head.get_mut(at..at + 2 * len) {
            both.rotate_left(len);
        }
        Self { head, packet }
    }

    /// The IP packet with lengths that are right, and with the right ICRC, or a `wrong` one.
    pub(crate) fn to_bytes(&self, wrong: bool) -> Vec<u8> {
        let mut out = [&self.head[..], &self.packet.bytes].concat();
        let (total, udp) = ((out.len() + ICRC_LEN) as u16, (8 + self.packet.bytes.len() + ICRC_LEN) as u16);
        let at_udp = self.head.len() - 8;
        out[at_udp + 4..at_udp + 6].copy_from_slice(&udp.to_be_bytes());
        // no UDP checksum: the ICRC stands for it
        out[at_udp + 6..at_udp + 8].fill(0);
        if out[0] >> 4 == 4 {
            out[2..4].copy_from_slice(&total.to_be_bytes());
            out[10..12].fill(0);
            let sum = out[..at_udp].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum::<u32>();
            let folded = (sum & 0xffff) + (sum >> 16);
            let sum = !((folded & 0xffff) + (folded >> 16)) as u16;
            out[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            out[4..6].copy_from_slice(&udp.to_be_bytes());
        }
        let right = icrc(&out).unwrap_or_default();
        out.extend_from_slice(&if wrong { right.map(|b| b ^ 0xff) } else { right });
        out
    }
}

#[cfg(test)]
impl Datagram {
    pub(crate) fn with(head: Vec<u8>, packet: Packet) -> Self {
        Self { head, packet }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_made_and_read_by_name() {
        let mut p = Packet::of_name("NAK").unwrap();
        p.set("psn", None, &Val::Int(0xff_fffe)).unwrap();
        p.set("value", None, &Val::Int(2)).unwrap();
        assert!(p.is("NAK") && p.is("ACK") && !p.is("RNR_NAK") && !p.is("SEND"));
        assert_eq!(p.bytes, [0x11, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0x62, 0, 0, 0]);
        assert_eq!(p.show(), "ACK psn=16777214 (0xfffffe) kind=3 NAK value=2 msn=0");

        let mut req = Packet::of_name("REQ").unwrap();
        assert_eq!((req.bytes.len(), req.message()), (Bth::LEN + Deth::LEN + MAD_LEN, Some(CmMessage::REQ)));
        for (name, n) in [("hsqsize", 31), ("cm.qpn", 7), ("ip_cm.port", 9), ("mad.tid", 3)] {
            req.set(name, None, &Val::Int(n)).unwrap();
            assert_eq!(req.get(name, None).and_then(|v| v.1.int().ok()), Some(n), "{name}");
        }
        // the part that comes first has the name alone; a prefix chooses another one
        assert_eq!(req.get("qkey", None).and_then(|v| v.1.int().ok()), Some(u64::from(GSI_QKEY)));
        assert_eq!(req.get("cm.qkey", None).and_then(|v| v.1.int().ok()), Some(0));
        assert!(req.set("crqsize", None, &Val::Int(1)).is_err());
    }

    #[test]
    fn every_name_but_that_of_a_group_makes_a_packet_of_that_name() {
        for name in names().split(", ").filter(|n| !["SEND", "WRITE", "READ_RESPONSE", "OTHER", "any"].contains(n)) {
            assert!(is_name(name), "{name}");
            let p = Packet::of_name(name).unwrap_or_else(|| panic!("{name}"));
            assert!(p.is(name), "{name}: {}", p.show());
        }
    }

    #[test]
    fn padding_is_counted() {
        let mut p = Packet::of_name("SEND_ONLY").unwrap();
        p.set("payload", None, &Val::Bytes(vec![1; 5])).unwrap();
        p.pad();
        assert_eq!((p.bytes.len(), p.bth().padcnt(), p.payload().len()), (Bth::LEN + 8, 3, 5));
    }
}
