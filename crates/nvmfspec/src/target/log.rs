//! What a target that plays in the foreground prints, and what it records for `--pcap`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use nvmf_capture::pcapng::{FrameWriter, Writer};
use nvmf_capture::{Connection, Direction, Exchange, Recorder};
use nvmf_conformance::report::printable;
use nvmf_engine::controller::HubEvent;
use nvmf_engine::message::ConnectionId;
use nvmf_engine::rdma::TargetEvent;
use nvmf_engine::tcp::Event;
use nvmf_net::target::{Observer, close_reason};
use nvmf_seam::{Instant, Side};

use crate::bystander::Bystander;
use crate::output;

/// Most bytes recorded for a capture; what comes later is left out.
const CAPTURE_MAX: usize = 1 << 30;

/// Prints and records.
pub struct Log {
    print: bool,
    record: bool,
    begin: SystemTime,
    tape: Mutex<Tape>,
    bystander: Option<Mutex<Watch>>,
}

/// What `--judge` watches.
#[derive(Default)]
struct Watch {
    bystander: Bystander,
    numbers: BTreeMap<ConnectionId, usize>,
}

#[derive(Default)]
struct Tape {
    open: BTreeMap<ConnectionId, Recorder>,
    done: BTreeMap<ConnectionId, Connection>,
    /// RoCEv2 packets, with their times in nanoseconds.
    packets: Vec<(u64, Bytes)>,
    bytes: usize,
    full: bool,
    hosts: BTreeMap<ConnectionId, SocketAddr>,
}

impl Log {
    /// A log of a target that begins now.
    pub fn new(print: bool, record: bool, judge: bool) -> Self {
        Self { print, record, begin: SystemTime::now(), tape: Mutex::default(), bystander: judge.then(Mutex::default) }
    }

    /// The last line, where traffic was judged.
    pub fn end(&self) {
        if let Some(mut watch) = self.watch() {
            // Packets are judged together: what a message is for is known once its connection is.
            let packets = if self.record { self.tape().packets.clone() } else { std::mem::take(&mut self.tape().packets) };
            if let Some(last) = packets.last() {
                let findings = watch.bystander.packets(&packets, nvmf_wire::tcp::IO_PORT);
                self.tell(Instant(last.0), findings);
            }
            output::print(&format!("{}\n", watch.bystander.summary(nvmf_spec::Side::Controller)));
        }
    }

    fn watch(&self) -> Option<MutexGuard<'_, Watch>> {
        self.bystander.as_ref().map(|w| w.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Findings are what `--judge` is for: they are printed even where nothing else is.
    fn tell(&self, now: Instant, findings: Vec<String>) {
        for finding in findings {
            output::print(&format!("{:>10.3} s  {finding}\n", now.since(Instant::START).as_secs_f64()));
        }
    }

    fn record(&self, now: Instant, connection: ConnectionId, dir: Direction, bytes: &Bytes) {
        let mut tape = self.tape();
        if self.has_room(&mut tape, now, bytes.len())
            && let Some(r) = tape.open.get_mut(&connection)
        {
            r.push(dir, now.0, bytes.clone());
        }
    }

    fn has_room(&self, tape: &mut Tape, now: Instant, bytes: usize) -> bool {
        if tape.bytes + bytes > CAPTURE_MAX {
            if !std::mem::replace(&mut tape.full, true) {
                self.say(now, "the capture is full: what comes now is not in it");
            }
            return false;
        }
        tape.bytes += bytes;
        true
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, now: Instant, what: &str) {
        if self.print {
            // Names come from the peer.
            output::print(&format!("{:>10.3} s  {}\n", now.since(Instant::START).as_secs_f64(), printable(what)));
        }
    }

    /// Writes what was recorded.
    pub fn write_capture(&self, path: &Path) -> io::Result<()> {
        let tape = std::mem::take(&mut *self.tape());
        let mut all = tape.done;
        all.extend(tape.open.into_iter().map(|(id, r)| (id, r.finish())));
        let exchange = Exchange { connections: all.into_values().collect() };
        let base = self.begin.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let mut file = BufWriter::new(File::create(path)?);
        if !tape.packets.is_empty() {
            write_packets(&tape.packets, base, &mut file)?;
        }
        if tape.packets.is_empty() || !exchange.connections.is_empty() {
            Writer::new().at(base).write(&exchange, &mut file)?;
        }
        file.flush()
    }
}

/// A section of a pcapng file with RoCEv2 packets. What was below them is made up, as the NIC did not see it.
fn write_packets(packets: &[(u64, Bytes)], base: u64, out: &mut impl Write) -> io::Result<()> {
    const ETHERNET: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    let mut file = FrameWriter::new(out)?;
    let nic = file.interface("nic")?;
    for (at_ns, packet) in packets {
        let kind = if packet.first().is_some_and(|b| b >> 4 == 6) { [0x86, 0xdd] } else { [8, 0] };
        file.frame(nic, base + at_ns, &[&ETHERNET, &kind, packet], "")?;
    }
    file.finish().map(drop)
}

impl Observer for Log {
    fn opened(&self, now: Instant, connection: ConnectionId, host: SocketAddr, controller: SocketAddr) {
        let mut tape = self.tape();
        tape.hosts.insert(connection, host);
        if self.record {
            tape.open.insert(connection, Recorder::new(host, controller, now.0));
        }
        if let Some(mut watch) = self.watch() {
            let number = watch.bystander.opened(host, controller, now.0);
            watch.numbers.insert(connection, number);
        }
    }

    fn bytes(&self, now: Instant, connection: ConnectionId, from: Side, bytes: &[u8]) {
        let dir = match from {
            Side::Host => Direction::HostToController,
            Side::Controller => Direction::ControllerToHost,
        };
        let bytes = Bytes::copy_from_slice(bytes);
        if self.record {
            self.record(now, connection, dir, &bytes);
        }
        if let Some(mut watch) = self.watch()
            && let Some(number) = watch.numbers.get(&connection).copied()
        {
            let findings = watch.bystander.bytes(number, dir, now.0, bytes);
            self.tell(now, findings);
        }
    }

    fn connection(&self, now: Instant, connection: ConnectionId, event: Event) {
        let host = self.tape().hosts.get(&connection).map(SocketAddr::to_string).unwrap_or_default();
        match event {
            Event::Fatal { fes, fei } => self.say(now, &format!("{host}: fatal transport error, C2HTermReq FES {fes} FEI {fei}")),
            Event::Close(reason) => self.say(now, &format!("{host}: closing: {}", close_reason(reason))),
        }
    }

    fn closed(&self, now: Instant, connection: ConnectionId) {
        let mut tape = self.tape();
        tape.hosts.remove(&connection);
        if let Some(mut r) = tape.open.remove(&connection) {
            r.close(Direction::ControllerToHost, now.0, false);
            tape.done.insert(connection, r.finish());
        }
        if let Some(mut watch) = self.watch()
            && let Some(number) = watch.numbers.remove(&connection)
        {
            let findings = watch.bystander.closed(number, Direction::ControllerToHost, now.0, false);
            self.tell(now, findings);
        }
    }

    fn packet(&self, now: Instant, packet: &[u8]) {
        let mut tape = self.tape();
        if self.has_room(&mut tape, now, packet.len()) {
            tape.packets.push((now.0, Bytes::copy_from_slice(packet)));
        }
    }

    fn rdma(&self, now: Instant, event: &TargetEvent) {
        match event {
            TargetEvent::Rejected { from, status } => self.say(now, &format!("{from}: refused: {status}")),
            TargetEvent::Failed { error, .. } => self.say(now, &format!("an RDMA operation failed: {error:?}")),
            TargetEvent::Opened { .. } | TargetEvent::Closed { .. } => {}
        }
    }

    fn hub(&self, now: Instant, event: &HubEvent) {
        match event {
            HubEvent::Connected { cntlid, qid: 0, hostnqn, subnqn, .. } => {
                self.say(now, &format!("controller {:#06x}: {hostnqn} connected to {subnqn}", cntlid.0));
            }
            HubEvent::Connected { cntlid, qid, .. } => {
                self.say(now, &format!("controller {:#06x}: I/O queue {qid} connected", cntlid.0))
            }
            HubEvent::Refused { status, result, .. } => {
                self.say(now, &format!("Connect refused: {} (DW0 {result:#010x})", status.show(true)));
            }
            HubEvent::Ended { cntlid, hostnqn, reason, .. } => {
                self.say(now, &format!("controller {:#06x}: association of {hostnqn} ended: {reason}", cntlid.0));
            }
        }
    }

    fn wants_bytes(&self) -> bool {
        self.record || self.bystander.is_some()
    }
}
