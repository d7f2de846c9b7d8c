//! The raw player: plays a check's statements against a peer. It builds every byte itself, may send anything, and owns its
//! connections; the engine's host has no part in it (design invariant I2).
//!
//! [`Player`] walks the statements; `conn` is a connection, `compose` makes PDUs from fields, `expect` judges what comes,
//! `verbs` does whole commands and the way up to an association, `eval` expressions. Over RDMA `rdma` carries a connection, `keyed` has
//! its memory, `packets` packets made by hand. `memory` counts what a CPU touches.

mod compose;
mod conn;
mod eval;
mod expect;
mod keyed;
mod memory;
mod packets;
mod rdma;
mod verbs;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use nvmf_capture::{Exchange, Transport, live};
use nvmf_seam::{Network, OpenError};
use nvmf_wire::Cntlid;

use conn::Conn;
pub(crate) use eval::show_cond;
pub use eval::{EvalError, Scope};

use crate::ast::{End, Grade, Place, Stmt, Test, What};
use crate::value::{Val, compare, show_op};

/// What a script is played against.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where the subsystem under test is.
    pub addr: SocketAddr,
    /// What carries the capsules there.
    pub transport: Transport,
    /// Where the discovery service is.
    pub discovery: SocketAddr,
    /// What carries the capsules there.
    pub discovery_transport: Transport,
    /// False where the discovery service is known not to answer there.
    pub serves_discovery: bool,
    /// Host NQN used for Connect.
    pub hostnqn: String,
    /// Host Identifier used for Connect.
    pub hostid: [u8; 16],
    /// Subsystem under test.
    pub subnqn: String,
    /// The discovery service's NQN.
    pub discnqn: String,
    /// CNTLID of a Connect for the Admin Queue of the subsystem under test: FFFFh where its controllers are dynamic, FFFEh for any of
    /// those that are static. [FAB-CNTLID-02, FAB-CNTLID-05]
    pub cntlid: Cntlid,
    /// Values bound from the start besides those.
    pub facts: BTreeMap<String, Val>,
    /// Multiplies every patience.
    pub time_scale: f64,
}

impl Peer {
    /// What is bound before a script begins: the facts, and the names used for Connect.
    pub fn names(&self) -> BTreeMap<String, Val> {
        let mut all = self.facts.clone();
        for (name, text) in [("hostnqn", &self.hostnqn), ("subnqn", &self.subnqn), ("discnqn", &self.discnqn)] {
            all.insert(name.into(), Val::Text(text.clone()));
        }
        all.insert("hostid".into(), Val::Bytes(self.hostid.to_vec()));
        all.insert("rdma".into(), Val::Int(u64::from(self.transport == Transport::Rdma)));
        all
    }
}

/// How a script ended before its last statement, or what it has to say.
#[derive(Clone, Debug)]
pub struct Stop {
    /// What it means.
    pub kind: StopKind,
    /// Expected, seen.
    pub message: String,
    /// What was seen, in one word.
    pub seen: Seen,
    /// The statement.
    pub place: Place,
}

/// What an early end means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopKind {
    /// A grade of the script.
    Graded(Grade),
    /// A verb could not do what the script needs; the check named is the one that judges this.
    Prerequisite(&'static str),
    /// The script is wrong.
    Script,
    /// Our side broke.
    Harness,
}

/// What was seen, so that a timeout, a wrong answer and a silent close are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// What was expected.
    Expected,
    /// Nothing within the time.
    Timeout,
    /// Another PDU or another value.
    WrongAnswer,
    /// FIN without a word.
    Close,
    /// RST.
    Reset,
    /// Something where nothing should have come.
    Unexpected,
    /// Data that differs.
    WrongData,
    /// The peer could not be connected to.
    Unreachable,
    /// Nothing was tried.
    NotRun,
}

/// What playing a script gave.
#[derive(Clone, Debug)]
pub struct Played {
    /// The end, where it was not the last statement.
    pub stop: Option<Stop>,
    /// A *should* unmet on the way: first one.
    pub warning: Option<Stop>,
    /// Exact values worth recording.
    pub notes: Vec<String>,
    /// Everything that crossed the wire.
    pub exchange: Exchange,
    /// How long it took, in the world's time.
    pub took: Duration,
}

/// What a probe learns of a peer, besides its names: bound before a check begins.
pub const FACTS: &[&str] = &["cap", "vs", "id", "nsid", "block", "blocks", "lba", "incapsule", "mdts", "hdgst", "ddgst", "icresp"];
/// Most statements that one script may run, repeats included: a script cannot hang us.
const MAX_STEPS: usize = 100_000;
/// Patience of a statement without `within`.
const PATIENCE: Duration = Duration::from_secs(5);

type Step<T = ()> = Result<T, Stop>;

/// Plays one script.
pub struct Player<'a> {
    net: &'a mut dyn Network,
    peer: &'a Peer,
    vars: BTreeMap<String, Val>,
    conns: Vec<Conn>,
    /// Connection that statements without `via` mean.
    current: Option<usize>,
    /// Admin connection of the association that `connect io` extends.
    admin: Option<usize>,
    notes: Vec<String>,
    warning: Option<Stop>,
    steps: usize,
    place: Place,
}

impl<'a> Player<'a> {
    /// A player with `vars` bound besides the peer's facts.
    pub fn new(net: &'a mut dyn Network, peer: &'a Peer, vars: BTreeMap<String, Val>) -> Self {
        let mut all = peer.names();
        all.extend(vars);
        Self {
            net,
            peer,
            vars: all,
            conns: Vec::new(),
            current: None,
            admin: None,
            notes: Vec::new(),
            warning: None,
            steps: 0,
            place: Place::default(),
        }
    }

    /// Plays `body` to its end or to the first stop, then closes what is open. Gives the values bound as well.
    pub fn play(mut self, body: &[Stmt]) -> (Played, BTreeMap<String, Val>) {
        let begun = self.net.now();
        let stop = self.block(body).err();
        let took = self.net.now().since(begun);
        for i in 0..self.conns.len() {
            self.drain(i);
            self.conns[i].end(&mut *self.net, End::Close);
        }
        let over_rdma = self.recorded();
        let mut connections: Vec<_> = self.conns.into_iter().filter_map(Conn::into_recording).collect();
        connections.extend(live::roce(&over_rdma, self.peer.addr.port()));
        connections.sort_by_key(|c| c.opened_ns);
        (Played { stop, warning: self.warning, notes: self.notes, exchange: Exchange { connections }, took }, self.vars)
    }

    /// The packets of all connections over RDMA, in order of time.
    fn recorded(&mut self) -> Vec<(u64, Bytes)> {
        let mut all = Vec::new();
        if self.conns.iter().any(Conn::is_rdma) {
            // the answers to DREQ belong to it
            let until = self.net.now() + Duration::from_millis(5);
            self.net.sleep(until);
        }
        for pairs in self.conns.iter_mut().filter_map(Conn::pairs) {
            all.extend(pairs.finish(&mut *self.net).into_iter().map(|r| (r.at.0, r.datagram)));
        }
        all.sort_by_key(|(at, _)| *at);
        all
    }

    fn block(&mut self, body: &[Stmt]) -> Step {
        for s in body {
            self.place = s.place;
            self.vars.insert("now".into(), Val::Int(self.net.now().0 / 1_000_000));
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return Err(self.stop(StopKind::Script, Seen::NotRun, format!("more than {MAX_STEPS} statements")));
            }
            self.statement(s)?;
        }
        Ok(())
    }

    fn statement(&mut self, s: &Stmt) -> Step {
        if let Ok(i) = self.conn_of(s) {
            self.bind_facts(i);
        }
        match &s.what {
            What::Open { name } => self.open(name.as_deref(), self.peer.addr).map(|_| ()),
            What::Connect { kind, name, with } => self.connect(kind, name.as_deref(), with),
            What::Send { pdu, command, with, mode } => {
                let i = self.conn_of(s)?;
                self.send(i, pdu, command.as_deref(), with, mode)
            }
            What::SendBytes { bytes, mode } => {
                let i = self.conn_of(s)?;
                let mut bytes = self.eval(bytes)?.bytes().map_err(|e| self.script(e))?;
                if self.conns[i].is_rdma() {
                    // a SEND of these bytes: what stands for the common header does not go out
                    self.up(i, None)?;
                    bytes.splice(0..0, [0; nvmf_wire::tcp::PduHead::LEN]);
                }
                self.transmit(i, bytes, mode)
            }
            What::Expect { any, within } => {
                let i = self.conn_of(s)?;
                self.expect(i, any, *within)
            }
            What::Command { name, with, status, bind, grade, text } => {
                let i = self.conn_of(s)?;
                self.command(i, name, with, status, bind.as_deref(), *grade, text.as_deref())
            }
            What::Transfer { write, with } => {
                let i = self.conn_of(s)?;
                self.transfer(i, *write, with)
            }
            What::Assert { test, grade, text } => self.assert(test, *grade, text.as_deref()),
            What::Let { name, value } => {
                let v = self.eval(value)?;
                self.vars.insert(name.clone(), v);
                Ok(())
            }
            What::Await { property, cond, within } => {
                let i = self.conn_of(s)?;
                self.await_property(i, property, cond, *within)
            }
            What::Wait(d) => {
                let until = self.net.now() + self.patience(*d);
                self.net.sleep(until);
                Ok(())
            }
            What::End(how) => {
                let i = self.conn_of(s)?;
                self.conns[i].end(&mut *self.net, *how);
                Ok(())
            }
            What::Rdma(what) => self.rdma(s, what),
            What::Target { verb, with } => {
                let with = with.iter().map(|a| Ok((a.name.clone(), self.plain(&a.value)?))).collect::<Step<Vec<_>>>()?;
                self.net.operate(verb, &with).map_err(|e| self.script(e))
            }
            What::Note(text, values) => {
                let mut line = text.clone();
                for v in values {
                    line = format!("{line} {}", self.eval(v)?.show());
                }
                self.notes.push(line);
                Ok(())
            }
            What::Repeat(n, body) => self.repeat(n, body),
            What::If(test, body) => {
                if self.holds(test)? {
                    self.block(body)?;
                }
                Ok(())
            }
        }
    }

    /// A value as other crates know it.
    fn plain(&self, e: &crate::ast::Expr) -> Step<nvmf_wire::Value> {
        self.eval(e)?.plain().map_err(|e| self.script(e))
    }

    /// Names bound inside are forgotten after each round, so that `ttag=$t` binds anew.
    fn repeat(&mut self, n: &crate::ast::Expr, body: &[Stmt]) -> Step {
        let n = self.int(n)?;
        let outer: Vec<String> = self.vars.keys().cloned().collect();
        let mut known = outer.len();
        for i in 0..n {
            self.vars.insert("i".into(), Val::Int(i));
            self.block(body)?;
            // names only ever come anew: most rounds bring none
            if self.vars.len() > known {
                let kept = ["cid", "cntlid", "icresp", "i", "key", "addr", "qp", "touched"];
                self.vars.retain(|k, _| outer.contains(k) || kept.contains(&k.as_str()));
                known = self.vars.len();
            }
        }
        Ok(())
    }

    fn holds(&mut self, test: &Test) -> Step<bool> {
        let (l, r) = (self.eval(&test.left)?, self.eval(&test.right)?);
        compare(&l, test.op, &r).map_err(|e| self.script(e))
    }

    fn assert(&mut self, test: &Test, grade: Grade, text: Option<&str>) -> Step {
        if self.holds(test)? {
            return Ok(());
        }
        let (l, r) = (self.eval(&test.left)?.show(), self.eval(&test.right)?.show());
        let shown = format!("{}{}{}", eval::show(&test.left), show_op(test.op), eval::show(&test.right));
        let message = format!(
            "{}expected {shown}; seen {l}, wanted {}{r}",
            text.map_or(String::new(), |t| format!("{t}: ")),
            show_op(test.op)
        );
        self.grade(grade, Seen::WrongAnswer, message)
    }

    /// Ends the script with `grade`, or notes it and goes on for `ok` and `warn`.
    fn grade(&mut self, grade: Grade, seen: Seen, message: String) -> Step {
        match grade {
            Grade::Ok => {
                self.notes.push(message);
                Ok(())
            }
            Grade::Warn => {
                let stop = self.stop(StopKind::Graded(grade), seen, message);
                self.warning.get_or_insert(stop);
                Ok(())
            }
            _ => Err(self.stop(StopKind::Graded(grade), seen, message)),
        }
    }

    fn stop(&self, kind: StopKind, seen: Seen, message: impl Into<String>) -> Stop {
        Stop { kind, message: message.into(), seen, place: self.place }
    }

    fn script(&self, why: impl Into<String>) -> Stop {
        self.stop(StopKind::Script, Seen::NotRun, why)
    }

    fn patience(&self, d: Duration) -> Duration {
        d.mul_f64(self.peer.time_scale.max(0.001))
    }

    fn conn_of(&self, s: &Stmt) -> Step<usize> {
        match &s.via {
            Some(name) => {
                let hit = self.conns.iter().rposition(|c| c.name() == Some(name.as_str()));
                hit.ok_or_else(|| self.script(format!("no connection named `{name}`")))
            }
            None => self.current.ok_or_else(|| self.script("no connection is open yet; expected `open` or `connect` before")),
        }
    }

    fn open(&mut self, name: Option<&str>, to: SocketAddr) -> Step<usize> {
        let patience = self.patience(PATIENCE);
        match self.net.open(to, patience) {
            Ok(link) => {
                let at = self.net.now();
                self.conns.push(Conn::tcp(link, name, to, self.conns.len(), at));
                self.current = Some(self.conns.len() - 1);
                Ok(self.conns.len() - 1)
            }
            Err(e) => {
                let kind = match e {
                    OpenError::Other(_) => StopKind::Harness,
                    _ => StopKind::Prerequisite("tcp/icreq/answered"),
                };
                Err(self.stop(kind, Seen::Unreachable, format!("{to}: {e}")))
            }
        }
    }
}
