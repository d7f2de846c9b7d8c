//! Whole commands, transfers, and the way up: a connection, Connect, enable, I/O queue.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use nvmf_capture::Transport;
use nvmf_wire::connect::{Connect, ConnectData};
use nvmf_wire::property::{Cap, Cc, Csts, Property, Vs};
use nvmf_wire::tcp::{C2hData, Digests, H2cData, IcResp, Pdu, PduType, R2t};
use nvmf_wire::{Cid, Cqe, Layout, Sqe, Structure, Value, cqe};

use super::compose::{Said, typed};
use super::conn::Next;
use super::expect::{Met, observation, show_status};
use super::{PATIENCE, Player, Seen, Step, StopKind};
use crate::ast::{Assign, Cond, Expr, Grade, Op, SendMode};
use crate::fields::{cqe_of, data_layout};
use crate::pattern::{mismatch, pattern};
use crate::value::{Val, compare};

/// What a command came to.
pub(super) struct Outcome {
    pub(super) cqe: Cqe,
    pub(super) data: Vec<u8>,
    /// The response capsule; none where SUCCESS stood for it.
    resp: Option<Pdu>,
}

/// Most bytes that one command's data may take here.
const MAX_DATA: usize = 64 << 20;

impl Player<'_> {
    /// `connect …`.
    pub(super) fn connect(&mut self, kind: &str, name: Option<&str>, with: &[Assign]) -> Step {
        let said = self.say(with)?;
        // `connect tcp to=discovery`: a connection to the discovery service with nothing on it yet
        let to_discovery = said.iter().any(|s| s.name == "to" && matches!(&s.value, Val::Word(w) if w == "discovery"));
        if (kind == "discovery" || to_discovery) && !self.peer.serves_discovery {
            return self.grade(Grade::Skip, Seen::NotRun, format!("no discovery service answers at {}", self.peer.discovery));
        }
        if kind == "io" && self.admin.is_none() {
            self.connect_admin(None, &[], "fabrics/connect/enable", false)?;
        }
        match kind {
            "tcp" => self.connect_transport(name, &said, to_discovery).map(|_| ()),
            "fabric" => {
                let i = self.connect_transport(name, &said, false)?;
                self.connect_queue(i, 0, &said, "fabrics/connect/admin", false)
            }
            "admin" => self.connect_admin(name, &said, "fabrics/connect/enable", false),
            "discovery" => self.connect_admin(name, &said, "discovery/connect", true),
            _ => self.connect_io(name, &said),
        }
    }

    /// A connection that is up, to the subsystem or to the discovery service.
    fn connect_transport(&mut self, name: Option<&str>, said: &[Said], discovery: bool) -> Step<usize> {
        let (to, transport) =
            if discovery { (self.peer.discovery, self.peer.discovery_transport) } else { (self.peer.addr, self.peer.transport) };
        match transport {
            Transport::Tcp => self.connect_tcp(name, said, to),
            Transport::Rdma => {
                let i = self.open_pairs(name, said, to)?;
                self.conns[i].introduction = said.to_vec();
                Ok(i)
            }
        }
    }

    fn connect_tcp(&mut self, name: Option<&str>, said: &[Said], to: SocketAddr) -> Step<usize> {
        const JUDGED: &str = "tcp/icreq/answered";
        let i = self.open(name, to)?;
        let own: Vec<Said> = said
            .iter()
            .filter(|s| ["hdgst", "ddgst", "hpda", "maxr2t", "pfv"].contains(&s.name.as_str()))
            .map(|s| Said::of(&s.name, s.value.clone()))
            .collect();
        let bytes = self.compose(i, "ICReq", None, &own)?;
        self.transmit(i, bytes, &SendMode::default())?;
        let until = self.net.now() + self.patience(PATIENCE);
        let next = self.conns[i].next(&mut *self.net, until);
        let Next::Pdu(p) = &next else {
            return Err(self.no_way(i, &next, JUDGED, "ICResp"));
        };
        let resp = match IcResp::read(&p.header) {
            Ok(r) if p.ptype() == PduType::IC_RESP => r,
            _ => return Err(self.no_way(i, &next, JUDGED, "ICResp")),
        };
        let c = &mut self.conns[i];
        c.seen(p);
        // in use are those that both ends enabled; one enabled unasked is judged elsewhere [TCP-DGST-03, TCP-DGST-11, TCP-DGST-18]
        let asked = |name: &str| own.iter().any(|s| s.name == name && s.value.int().is_ok_and(|n| n != 0));
        c.agreed(resp, Digests { header: resp.hdgst() && asked("hdgst"), data: resp.ddgst() && asked("ddgst") });
        let record = Val::Record { layout: Some(IcResp::LAYOUT), bytes: resp.as_bytes().to_vec(), beside: Vec::new() };
        self.vars.insert("icresp".into(), record);
        Ok(i)
    }

    /// Connect for one queue, over a connection that is up.
    fn connect_queue(&mut self, i: usize, qid: u16, said: &[Said], judged: &'static str, discovery: bool) -> Step {
        let mut own = vec![Said::of("qid", Val::Int(u64::from(qid)))];
        if discovery {
            own.push(Said::of("subnqn", Val::Text(self.peer.discnqn.clone())));
        }
        let known = |n: &str| Connect::LAYOUT.field(n).is_some() || ConnectData::LAYOUT.field(n).is_some();
        own.extend(said.iter().filter(|s| known(&s.name)).map(|s| Said::of(&s.name, s.value.clone())));
        let bytes = self.compose(i, "CapsuleCmd", Some("Connect"), &own)?;
        if let Ok(d) = ConnectData::read(&self.connect_data(&own)?) {
            let c = &mut self.conns[i];
            (c.subnqn, c.hostnqn) = (d.subnqn().as_str().to_owned(), d.hostnqn().as_str().to_owned());
            c.hostid = d.hostid().to_vec();
        }
        self.transmit(i, bytes, &SendMode::default())?;
        let done = self.complete(i, &Bytes::new(), Some(judged))?;
        if !done.cqe.status().is_success() {
            let message = format!("Connect to queue {qid} got {}", done.cqe.status().show(true));
            return Err(self.stop(StopKind::Prerequisite(judged), Seen::WrongAnswer, message));
        }
        let cntlid = cqe::ConnectResponse::from_bytes(*done.cqe.as_bytes()).cntlid().0;
        let c = &mut self.conns[i];
        (c.qid, c.cntlid) = (qid, cntlid);
        if qid == 0 {
            self.admin = Some(i);
            self.vars.insert("cntlid".into(), Val::Int(u64::from(cntlid)));
        }
        Ok(())
    }

    fn connect_admin(&mut self, name: Option<&str>, said: &[Said], judged: &'static str, discovery: bool) -> Step {
        let i = self.connect_transport(name, said, discovery)?;
        let connect = if discovery { judged } else { "fabrics/connect/admin" };
        self.connect_queue(i, 0, said, connect, discovery)?;
        let cap = Cap::from_bytes(self.property_get(i, Property::CAP, judged)?.to_le_bytes());
        // the widest choice that the controller has [Base 2.0, 3.1.3.5]
        let css = if cap.css_sets() {
            6
        } else if !cap.css_nvm() && cap.css_none() {
            7
        } else {
            0
        };
        let cc = Cc::new().with(|s| s.en(true).css(css).mps(cap.mpsmin()).iosqes(6).iocqes(4));
        self.property_set(i, Property::CC, u64::from(u32::from_le_bytes(*cc.as_bytes())), judged)?;
        // CAP.TO bounds the wait; a controller that says 0 gets what others get [Base 2.0, 3.1.3.1]
        let to = Duration::from_millis(500) * u32::from(cap.to()).max(10);
        let until = self.net.now() + self.patience(to);
        loop {
            let csts = Csts::from_bytes((self.property_get(i, Property::CSTS, judged)? as u32).to_le_bytes());
            if csts.rdy() {
                return Ok(());
            }
            if csts.cfs() || self.net.now() >= until {
                let why = if csts.cfs() { "CSTS.CFS is set" } else { "CSTS.RDY stays 0 for CAP.TO" };
                return Err(self.stop(StopKind::Prerequisite(judged), Seen::Timeout, format!("after CC.EN = 1 {why}")));
            }
            let pause = self.net.now() + Duration::from_millis(20);
            self.net.sleep(pause);
        }
    }

    fn connect_io(&mut self, name: Option<&str>, said: &[Said]) -> Step {
        const JUDGED: &str = "fabrics/connect/io";
        let Some(admin) = self.admin else {
            return Err(self.script("no association to add an I/O queue to"));
        };
        if self.conns[admin].next_qid == 1 {
            let own = [Said::of("fid", Val::Int(7)), Said::of("value", Val::Int(0x0003_0003))];
            let bytes = self.compose(admin, "CapsuleCmd", Some("SetFeatures"), &own)?;
            self.transmit(admin, bytes, &SendMode::default())?;
            let done = self.complete(admin, &Bytes::new(), Some(JUDGED))?;
            if !done.cqe.status().is_success() {
                let message = format!("Set Features, Number of Queues got {}", done.cqe.status());
                return Err(self.stop(StopKind::Prerequisite(JUDGED), Seen::WrongAnswer, message));
            }
        }
        let i = self.connect_transport(name, said, false)?;
        let qid =
            said.iter().find(|s| s.name == "qid").and_then(|s| s.value.int().ok()).map_or(self.conns[admin].next_qid, |q| q as u16);
        self.connect_queue(i, qid, said, JUDGED, false)?;
        self.conns[admin].next_qid = self.conns[admin].next_qid.max(qid.saturating_add(1));
        Ok(())
    }

    fn property_get(&mut self, i: usize, p: Property, judged: &'static str) -> Step<u64> {
        let size = u64::from(p.size() == Some(8));
        let own = [Said::of("ofst", Val::Int(u64::from(p.0))), Said::of("attrib", Val::Int(size))];
        let done = self.small(i, "PropertyGet", &own, judged)?;
        Ok(cqe::PropertyGetResponse::from_bytes(*done.as_bytes()).value())
    }

    fn property_set(&mut self, i: usize, p: Property, value: u64, judged: &'static str) -> Step {
        let own = [Said::of("ofst", Val::Int(u64::from(p.0))), Said::of("value", Val::Int(value))];
        self.small(i, "PropertySet", &own, judged).map(|_| ())
    }

    /// A command of the way up: anything but success is for the check that judges it.
    fn small(&mut self, i: usize, name: &str, own: &[Said], judged: &'static str) -> Step<Cqe> {
        let bytes = self.compose(i, "CapsuleCmd", Some(name), own)?;
        self.transmit(i, bytes, &SendMode::default())?;
        let done = self.complete(i, &Bytes::new(), Some(judged))?;
        if done.cqe.status().is_success() {
            return Ok(done.cqe);
        }
        Err(self.stop(StopKind::Prerequisite(judged), Seen::WrongAnswer, format!("{name} got {}", done.cqe.status().show(true))))
    }

    fn no_way(&self, i: usize, next: &Next, judged: &'static str, wanted: &str) -> super::Stop {
        self.stop(StopKind::Prerequisite(judged), observation(next), format!("expected {wanted}; seen {}", self.words_of(i, next)))
    }

    /// `command NAME …`.
    pub(super) fn command(
        &mut self,
        i: usize,
        name: &str,
        with: &[Assign],
        status: &[Cond],
        bind: Option<&str>,
        grade: Grade,
        text: Option<&str>,
    ) -> Step {
        let said = self.say(with)?;
        let bytes = self.compose(i, "CapsuleCmd", Some(name), &said)?;
        let sqe = self.conns[i].sent.get(&self.conns[i].last_cid).map_or(Sqe::new(), |s| s.sqe);
        self.transmit(i, bytes, &SendMode::default())?;
        let payload = self.payload(i, &said)?.into();
        let done = self.complete(i, &payload, None)?;
        if let Some(b) = bind {
            let beside = vec![
                ("dw0", u64::from(done.cqe.dw0())),
                ("dw1", u64::from(done.cqe.dw1())),
                ("status", u64::from(done.cqe.status().code().0)),
                ("sqhd", u64::from(done.cqe.sqhd())),
                ("dnr", u64::from(done.cqe.dnr())),
                ("cid", u64::from(done.cqe.cid().0)),
                ("length", done.data.len() as u64),
                ("touched", self.conns[i].sent.get(&done.cqe.cid().0).map_or(0, |s| s.buffer.touched)),
            ];
            let (layout, bytes) = record_of(&sqe, &done);
            self.vars.insert(b.to_owned(), Val::Record { layout, bytes, beside });
        }
        if name == "Connect" && done.cqe.status().is_success() {
            self.conns[i].qid = Connect::from_bytes(*sqe.as_bytes()).qid().0;
        }
        let resp = done.resp.unwrap_or_else(|| synthetic(&done.cqe));
        let success = [Cond { name: "status".into(), op: Op::Equal, value: Expr::Word("success".into()), place: self.place }];
        let conds = if status.iter().any(|c| c.name == "status") { status.to_vec() } else { [&success[..], status].concat() };
        match self.conditions(i, &resp, &conds)? {
            Met::Yes(mut notes) => {
                self.notes.append(&mut notes);
                Ok(())
            }
            Met::No(why) => {
                let said = text.map_or(String::new(), |t| format!("{t}: "));
                let got = show_status(&Val::Int(u64::from(done.cqe.status().0)));
                self.grade(grade, Seen::WrongAnswer, format!("{said}{name} got {got} ({why})"))
            }
        }
    }

    /// The data of the command just sent, for R2Ts.
    fn payload(&self, i: usize, said: &[Said]) -> Step<Vec<u8>> {
        if let Some(s) = said.iter().find(|s| s.name == "data") {
            return s.value.bytes().map_err(|e| self.script(e));
        }
        let Some(sent) = self.conns[i].sent.get(&self.conns[i].last_cid) else { return Ok(Vec::new()) };
        if sent.kind.is_some_and(|k| matches!(k.name, "Write" | "Compare")) {
            let name = said.iter().find(|s| s.name == "pattern").map_or("lba".to_owned(), |s| s.value.show());
            let blocks = nvmf_wire::nvm::Write::from_bytes(*sent.sqe.as_bytes()).nlb().count();
            return Ok(pattern(&name, sent.at, (blocks * self.block_size()) as usize));
        }
        if sent.kind.is_some_and(|k| k.name == "Connect") {
            return self.connect_data(said);
        }
        Ok(Vec::new())
    }

    /// `read …` and `write …`.
    pub(super) fn transfer(&mut self, i: usize, write: bool, with: &[Assign]) -> Step {
        let said = self.say(with)?;
        let name = if write { "Write" } else { "Read" };
        let bytes = self.compose(i, "CapsuleCmd", Some(name), &said)?;
        let (at, blocks) = self.conns[i]
            .sent
            .get(&self.conns[i].last_cid)
            .map_or((0, 0), |s| (s.at, nvmf_wire::nvm::Read::from_bytes(*s.sqe.as_bytes()).nlb().count()));
        self.transmit(i, bytes, &SendMode::default())?;
        let payload = if write { self.payload(i, &said)?.into() } else { Bytes::new() };
        let done = self.complete(i, &payload, None)?;
        if !done.cqe.status().is_success() {
            return self.grade(Grade::Fail, Seen::WrongAnswer, format!("{name} got {}", done.cqe.status()));
        }
        if write {
            return Ok(());
        }
        let want = (blocks * self.block_size()) as usize;
        if done.data.len() != want {
            return self.grade(Grade::Fail, Seen::WrongData, format!("Read of {want} bytes gave {}", done.data.len()));
        }
        if let Some(s) = said.iter().find(|s| s.name == "pattern")
            && let Some(why) = mismatch(&s.value.show(), at, &done.data)
        {
            return self.grade(Grade::Fail, Seen::WrongData, why);
        }
        Ok(())
    }

    /// Serves the command sent last until it completes: takes C2HData, answers R2T with `payload`. `judged` names the check that
    /// judges a failure on the way up; without it a failure is the script's own.
    pub(super) fn complete(&mut self, i: usize, payload: &Bytes, judged: Option<&'static str>) -> Step<Outcome> {
        let cid = self.conns[i].last_cid;
        let until = self.net.now() + self.patience(PATIENCE) + self.patience(PATIENCE);
        let mut data = Vec::new();
        let mut aside = Vec::new();
        let out = loop {
            let next = self.conns[i].next(&mut *self.net, until);
            let Next::Pdu(p) = &next else {
                break Err(self.broken(i, &next, judged));
            };
            match p.ptype() {
                PduType::C2H_DATA if C2hData::read(&p.header).is_ok_and(|h| h.cccid().0 == cid) => {
                    let h = C2hData::read(&p.header).unwrap_or_default();
                    self.conns[i].seen(p);
                    let mut bytes = p.data.clone();
                    if let Some(sent) = self.conns[i].sent.get_mut(&cid) {
                        // out of the stream, and into the command's memory
                        sent.buffer.touch(2 * bytes.len());
                        bytes = sent.buffer.through(bytes);
                    }
                    let (from, to) = (h.datao() as usize, h.datao() as usize + p.data.len());
                    if to > MAX_DATA {
                        break Err(self.broken(i, &next, judged));
                    }
                    if data.len() < to {
                        data.resize(to, 0);
                    }
                    if let Some(d) = data.get_mut(from..to) {
                        d.copy_from_slice(&bytes);
                    }
                    if h.success() {
                        break Ok(Outcome { cqe: Cqe::new().with(|s| s.cid(Cid(cid))), data, resp: None });
                    }
                }
                PduType::R2T if R2t::read(&p.header).is_ok_and(|r| r.cccid().0 == cid) => {
                    let r = R2t::read(&p.header).unwrap_or_default();
                    self.conns[i].seen(p);
                    let (from, to) = (r.r2to() as usize, r.r2to() as usize + r.r2tl() as usize);
                    if from > to || to > payload.len() {
                        break Err(self.broken(i, &next, judged));
                    }
                    self.answer_r2t(i, &r, &payload.slice(from..to));
                }
                PduType::CAPSULE_RESP if cqe_of(p).cid().0 == cid => {
                    self.conns[i].seen(p);
                    if let Some(sent) = self.conns[i].sent.get_mut(&cid).filter(|s| !s.data.is_empty()) {
                        data = std::mem::take(&mut sent.data);
                    }
                    break Ok(Outcome { cqe: cqe_of(p), data, resp: Some(p.clone()) });
                }
                // a response to an earlier command (an AER, say) waits for whoever expects it
                PduType::CAPSULE_RESP | PduType::C2H_DATA | PduType::R2T if aside.len() < 1024 => aside.push(p.clone()),
                _ => break Err(self.broken(i, &next, judged)),
            }
        };
        for p in aside.into_iter().rev() {
            self.conns[i].put_back(p);
        }
        self.bind_touched(i, cid);
        out
    }

    fn answer_r2t(&mut self, i: usize, r: &R2t, part: &Bytes) {
        let c = &mut self.conns[i];
        let most = c.icresp().map_or(usize::MAX, |r| r.maxh2cdata() as usize).max(4);
        let pieces = part.chunks(most).count();
        for (k, piece) in part.chunks(most).enumerate() {
            let mut head = typed::<H2cData>(PduType::H2C_DATA).with(|s| s.cccid(r.cccid()).ttag(r.ttag()));
            head.set().datao(r.r2to() + (k * most) as u32).datal(piece.len() as u32).last(k + 1 == pieces);
            let mut piece = part.slice_ref(piece);
            let digest = c.digests().data;
            if let Some(sent) = c.sent.get_mut(&r.cccid().0) {
                // into the PDU, and over it for a digest
                sent.buffer.touch(piece.len() * if digest { 2 } else { 1 });
                piece = sent.buffer.through(piece);
            }
            let pdu = Pdu::build(head.as_bytes(), piece, c.digests(), c.align()).seal().to_bytes();
            c.last_sent.clone_from(&pdu);
            if c.send(&mut *self.net, &pdu).is_err() {
                return;
            }
        }
    }

    fn broken(&self, i: usize, next: &Next, judged: Option<&'static str>) -> super::Stop {
        let kind = judged.map_or(StopKind::Graded(Grade::Fail), StopKind::Prerequisite);
        let sent = self.conns[i].sent.get(&self.conns[i].last_cid);
        let what = sent.and_then(|s| s.kind).map_or("the command", |k| k.name);
        self.stop(kind, observation(next), format!("expected the completion of {what}; seen {}", self.words_of(i, next)))
    }

    /// `await PROPERTY.field=V`.
    pub(super) fn await_property(&mut self, i: usize, property: &str, cond: &Cond, within: Option<Duration>) -> Step {
        let (p, layout): (Property, &'static Layout) = match property {
            "cap" => (Property::CAP, Cap::LAYOUT),
            "vs" => (Property::VS, Vs::LAYOUT),
            "cc" => (Property::CC, Cc::LAYOUT),
            "csts" => (Property::CSTS, Csts::LAYOUT),
            _ => return Err(self.script(format!("no property `{property}`: cap, vs, cc or csts"))),
        };
        let field = layout.field(&cond.name).ok_or_else(|| self.script(format!("no field `{}` in {}", cond.name, layout.name)))?;
        let want = self.eval(&cond.value)?;
        let until = self.net.now() + self.patience(within.unwrap_or(PATIENCE));
        loop {
            let own = [Said::of("ofst", Val::Int(u64::from(p.0))), Said::of("attrib", Val::Int(u64::from(p.size() == Some(8))))];
            let bytes = self.compose(i, "CapsuleCmd", Some("PropertyGet"), &own)?;
            self.transmit(i, bytes, &SendMode::default())?;
            let done = self.complete(i, &Bytes::new(), None)?;
            if !done.cqe.status().is_success() {
                return self.grade(Grade::Fail, Seen::WrongAnswer, format!("PropertyGet got {}", done.cqe.status().show(true)));
            }
            let value = cqe::PropertyGetResponse::from_bytes(*done.cqe.as_bytes()).value().to_le_bytes();
            let seen = match field.get(&value) {
                Value::Int(n) => Val::Int(n),
                Value::Bytes(b) => Val::Bytes(b),
            };
            if compare(&seen, cond.op, &want).map_err(|e| self.script(e))? {
                return Ok(());
            }
            if self.net.now() >= until {
                let message = format!("expected {property}.{}={} in time; seen {}", cond.name, want.show(), seen.show());
                return self.grade(Grade::Fail, Seen::Timeout, message);
            }
            let pause = self.net.now() + Duration::from_millis(20);
            self.net.sleep(pause);
        }
    }

    /// Takes what is still coming, for the record: what the peer sends late is judged too.
    pub(super) fn drain(&mut self, i: usize) {
        let until = self.net.now() + Duration::from_millis(2);
        for _ in 0..64 {
            if !matches!(self.conns[i].next(&mut *self.net, until), Next::Pdu(_)) {
                return;
            }
        }
    }
}

impl Said {
    pub(super) fn of(name: &str, value: Val) -> Self {
        Self { name: name.to_owned(), index: None, value }
    }
}

/// A response capsule for a command that SUCCESS completed.
fn synthetic(cqe: &Cqe) -> Pdu {
    let head = typed::<nvmf_wire::tcp::CapsuleResp>(PduType::CAPSULE_RESP).with(|s| s.cqe(*cqe.as_bytes()));
    Pdu::build(head.as_bytes(), Bytes::new(), Digests::default(), 4)
}

/// The table of a command's data, where it is one structure; for the rest the response.
fn record_of(sqe: &Sqe, done: &Outcome) -> (Option<&'static Layout>, Vec<u8>) {
    if let Some(nvmf_wire::sqe::FabricsType::PROPERTY_GET) = sqe.fctype() {
        let p = nvmf_wire::property::PropertyGet::from_bytes(*sqe.as_bytes()).ofst();
        let value = cqe::PropertyGetResponse::from_bytes(*done.cqe.as_bytes()).value().to_le_bytes();
        let layout = match p {
            Property::CAP => Some(Cap::LAYOUT),
            Property::VS => Some(Vs::LAYOUT),
            Property::CC => Some(Cc::LAYOUT),
            Property::CSTS => Some(Csts::LAYOUT),
            _ => None,
        };
        return (layout, value.to_vec());
    }
    if done.data.is_empty() {
        let layout = match sqe.fctype() {
            Some(nvmf_wire::sqe::FabricsType::CONNECT) if done.cqe.status().is_success() => cqe::ConnectResponse::LAYOUT,
            Some(nvmf_wire::sqe::FabricsType::CONNECT) => cqe::ConnectInvalid::LAYOUT,
            _ => Cqe::LAYOUT,
        };
        return (Some(layout), done.cqe.as_bytes().to_vec());
    }
    (data_layout(sqe), done.data.clone())
}
