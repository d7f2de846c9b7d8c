//! The reference host in tests: a network that writes down what passes, and a day of work over it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use nvmf_capture::rules::{Finding, Judge};
use nvmf_capture::{Direction, Exchange, Recorder};
use nvmf_engine::host::{HostSettings, Payload, command};
use nvmf_net::{ClientError, HostClient};
use nvmf_scenario::ast::{Fault, Script};
use nvmf_seam::{Instant, LinkId, Network, OpenError, Received, SendError};
use nvmf_spec::Side;
use nvmf_wire::{Nsid, Qid, Status};

use crate::world;

/// A network that writes down what passes, as the host sees it.
#[derive(Debug)]
pub struct Recorded<N> {
    /// The network itself.
    pub inner: N,
    links: BTreeMap<LinkId, Recorder>,
}

impl<N: Network> Recorded<N> {
    /// Nothing was seen yet.
    pub fn new(inner: N) -> Self {
        Self { inner, links: BTreeMap::new() }
    }

    fn push(&mut self, link: LinkId, dir: Direction, bytes: &[u8]) {
        let now = self.inner.now().0;
        if let Some(r) = self.links.get_mut(&link) {
            r.push(dir, now, bytes.to_vec());
        }
    }

    fn ended(&mut self, link: LinkId, by: Direction, reset: bool) {
        let now = self.inner.now().0;
        if let Some(r) = self.links.get_mut(&link) {
            r.close(by, now, reset);
        }
    }

    /// What passed so far.
    pub fn exchange(&self) -> Exchange {
        Exchange { connections: self.links.values().map(|r| r.connection().clone()).collect() }
    }

    /// What a bystander finds wrong with either side.
    pub fn judged(&self) -> Vec<Finding> {
        let exchange = self.exchange();
        assert!(!exchange.connections.is_empty(), "nothing was seen");
        Judge::exchange(&exchange)
    }

    /// The same as text.
    pub fn findings(self) -> Vec<String> {
        self.judged().iter().map(ToString::to_string).collect()
    }

    /// What it finds wrong with the host.
    pub fn ours(&self) -> Vec<String> {
        self.judged().iter().filter(|f| f.side == Side::Host).map(ToString::to_string).collect()
    }
}

impl<N: Network> Network for Recorded<N> {
    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn open(&mut self, to: SocketAddr, patience: Duration) -> Result<LinkId, OpenError> {
        let link = self.inner.open(to, patience)?;
        let from = SocketAddr::from(([192, 0, 2, 9], 40_000 + (link.0 % 20_000) as u16));
        self.links.insert(link, Recorder::new(from, to, self.inner.now().0));
        Ok(link)
    }

    fn send(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), SendError> {
        self.push(link, Direction::HostToController, bytes);
        self.inner.send(link, bytes)
    }

    fn receive(&mut self, link: LinkId, until: Instant) -> Received {
        let got = self.inner.receive(link, until);
        match &got {
            Received::Bytes(b) => self.push(link, Direction::ControllerToHost, b),
            Received::Closed { reset } => self.ended(link, Direction::ControllerToHost, *reset),
            Received::Nothing => {}
        }
        got
    }

    fn shutdown(&mut self, link: LinkId) {
        self.inner.shutdown(link);
    }

    fn close(&mut self, link: LinkId, reset: bool) {
        self.ended(link, Direction::HostToController, reset);
        self.inner.close(link, reset);
    }

    fn sleep(&mut self, until: Instant) {
        self.inner.sleep(until);
    }

    fn operate(&mut self, verb: &str, with: &[(String, nvmf_wire::Value)]) -> Result<(), String> {
        self.inner.operate(verb, with)
    }
}

/// Settings of a host of [`world::sim`].
pub fn settings() -> HostSettings {
    let mut settings = HostSettings::new("nqn.2014-08.org.example:host", *b"0123456789abcdef", world::SUBNQN);
    settings.kato_ms = 1000;
    settings
}

/// Bytes that differ from place to place and from seed to seed.
pub fn pattern(seed: u64, len: usize) -> Bytes {
    (0..len).map(|i| (seed as usize + i / 4 * 7 + i) as u8).collect()
}

/// The only fault of a script.
///
/// # Panics
///
/// Where the text is not the script of one fault.
pub fn fault(text: &str) -> Fault {
    let scripts = nvmf_scenario::parse::parse("a test", text).unwrap_or_else(|e| panic!("{e}"));
    match scripts.into_iter().next() {
        Some(Script::Fault(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

/// A day of a host: looks, reads and writes of several sizes and depths, an abort, a controller reset, a rest under keep alive. Ends with
/// the first thing that cannot be done, or where data read back is not what was written.
pub fn day<N: Network>(client: &mut HostClient<N>) -> Result<(), ClientError> {
    let wrong = |what: &str| Err(ClientError::Answer(what.into()));
    client.namespaces()?;
    client.namespace(Nsid(1))?;
    for (lba, blocks) in [(0, 1), (1, 8), (9, 17), (64, 300)] {
        let data = pattern(lba, blocks as usize * 512);
        let put = client.execute(Qid(1), command::write(Nsid(1), lba, blocks), Payload::Out(data.clone()))?;
        let got = client.execute(Qid(2), command::read(Nsid(1), lba, blocks), Payload::In(blocks * 512))?;
        if put.status().is_success() && got.status().is_success() && got.data.to_bytes() != data {
            return wrong("other data than was written");
        }
    }
    client.execute(Qid(1), command::flush(Nsid(1)), Payload::None)?;
    let commands = (0..40u64).map(|n| match n % 2 {
        0 => (command::write(Nsid(1), 1000 + n * 16, 16), Payload::Out(pattern(n, 8192))),
        _ => (command::read(Nsid(1), 1000 + n * 16, 16), Payload::In(8192)),
    });
    client.run(commands, |_, _| {})?;
    let cid = client.submit(Qid(1), command::read(Nsid(1), 0, 64), Payload::In(32_768))?;
    match client.abort(Qid(1), cid) {
        Err(ClientError::Submit(_) | ClientError::Status { .. }) | Ok(_) => {}
        Err(other) => return Err(other),
    }
    client.wait(Qid(1), cid)?;
    client.reset()?;
    let got = client.execute(Qid(1), command::read(Nsid(1), 9, 17), Payload::In(17 * 512))?;
    if got.status() == Status::SUCCESS && got.data.to_bytes() != pattern(9, 17 * 512) {
        return wrong("the reset changed data");
    }
    let until = client.network().now() + Duration::from_millis(3500);
    client.idle(until)
}
