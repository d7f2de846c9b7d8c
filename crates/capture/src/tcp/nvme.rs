//! A connection that carries NVMe/TCP: its bytes, through TLS where that is below, to events.

use super::side::{Piece, When};
use crate::exchange::{Cutter, Direction, EventKind};
use crate::follow::Watcher;
use crate::tls::{self, KeyLog, Output};

/// A connection that carries NVMe/TCP.
pub(super) struct Nvme {
    pub(super) conn: usize,
    /// Which of the ends is the host.
    host: usize,
    cutter: Cutter,
    tls: Option<Box<tls::Stream>>,
    /// What it holds of PDUs that are not whole, as far as the sum of all knows, bytes.
    held: usize,
}

/// Most bytes that all connections together hold of PDUs that are not whole; the one that would go beyond it loses its PDU.
const MAX_HELD_IN_ALL: usize = 32 << 20;

impl Nvme {
    pub(super) fn new(conn: usize, host: usize, opened_ns: u64, tls: bool) -> Self {
        Self { conn, host, cutter: Cutter::new(opened_ns), tls: tls.then(Box::default), held: 0 }
    }

    pub(super) fn missed_start(&mut self, when: When, watcher: &mut dyn Watcher) {
        let conn = self.conn;
        self.cutter.frame = when.frame;
        self.cutter.missed_start(when.at_ns, |e| watcher.event(conn, &e));
    }

    pub(super) fn piece(&mut self, end: usize, when: When, piece: Piece<'_>, keys: &KeyLog, watcher: &mut dyn Watcher) {
        let dir = if end == self.host { Direction::HostToController } else { Direction::ControllerToHost };
        let (conn, at_ns, cutter) = (self.conn, when.at_ns, &mut self.cutter);
        cutter.frame = when.frame;
        match (piece, &mut self.tls) {
            (Piece::Bytes(bytes), Some(tls)) => tls.push(dir, bytes, keys, |d, out| give(cutter, conn, d, at_ns, out, watcher)),
            (Piece::Bytes(bytes), None) => {
                watcher.chunk(conn, dir, at_ns, bytes);
                cutter.push(dir, at_ns, bytes, |e| watcher.event(conn, &e));
            }
            (Piece::Gap(len), Some(tls)) => tls.gap(dir, len, |d, out| give(cutter, conn, d, at_ns, out, watcher)),
            (Piece::Gap(len), None) => cutter.gap(dir, at_ns, len, |e| watcher.event(conn, &e)),
            (Piece::Closed { reset }, tls) => {
                for d in [dir.reverse(), dir] {
                    if let Some(tls) = tls.as_mut().filter(|_| d == dir || reset) {
                        tls.end(d, |d, out| give(cutter, conn, d, at_ns, out, watcher));
                    }
                }
                cutter.close(dir, at_ns, reset, |e| watcher.event(conn, &e));
            }
            (Piece::Repeated(len), _) => watcher.repeated(conn, dir, at_ns, len),
        }
    }

    /// Keeps `sum`, which is over all connections, within its limit; `end` is who sent last.
    pub(super) fn weigh(&mut self, end: usize, when: When, sum: &mut usize, watcher: &mut dyn Watcher) {
        let others = *sum - self.held;
        if others + self.cutter.held() > MAX_HELD_IN_ALL {
            let dir = if end == self.host { Direction::HostToController } else { Direction::ControllerToHost };
            let why = format!("all connections hold more than {} MiB of PDUs that are not whole", MAX_HELD_IN_ALL >> 20);
            let conn = self.conn;
            self.cutter.give_up(dir, when.at_ns, &why, |e| watcher.event(conn, &e));
        }
        self.held = self.cutter.held();
        *sum = others + self.held;
    }

    /// Nothing more comes. Takes what it held from the sum of all.
    pub(super) fn finish(&mut self, sum: &mut usize, watcher: &mut dyn Watcher) {
        *sum -= self.held;
        let (conn, cutter) = (self.conn, &mut self.cutter);
        if let Some(tls) = &mut self.tls {
            for d in [Direction::HostToController, Direction::ControllerToHost] {
                // The time is that of what came last.
                tls.end(d, |d, out| give(cutter, conn, d, 0, out, watcher));
            }
        }
        cutter.finish(|e| watcher.event(conn, &e));
    }
}

/// Takes what TLS gives.
fn give(cutter: &mut Cutter, conn: usize, dir: Direction, at_ns: u64, out: Output<'_>, watcher: &mut dyn Watcher) {
    match out {
        Output::Data(bytes) => {
            watcher.chunk(conn, dir, at_ns, bytes);
            cutter.push(dir, at_ns, bytes, |e| watcher.event(conn, &e));
        }
        Output::Missing(len) => cutter.gap(dir, at_ns, len, |e| watcher.event(conn, &e)),
        Output::Notice(notice) => watcher.event(conn, &cutter.event(dir, at_ns, EventKind::Tls(notice))),
        Output::Unopened { offset, why, bytes, len } => {
            watcher.event(conn, &cutter.event(dir, at_ns, EventKind::Undecodable { offset, why, bytes, len }));
        }
    }
}

/// Whether a TLS connection on any port carries NVMe/TCP: a PSK identity of the host says so, or its first PDU, where the secrets are
/// there. `pieces` are the bytes so far, with whether they are the client's; `None` where more are needed.
pub(super) fn below_tls<'a>(pieces: impl Iterator<Item = (bool, &'a [u8])>, keys: &KeyLog) -> Option<bool> {
    let mut stream = tls::Stream::default();
    let (mut verdict, mut start) = (None, Vec::new());
    for (client, bytes) in pieces {
        let dir = if client { Direction::HostToController } else { Direction::ControllerToHost };
        stream.push(dir, bytes, keys, |dir, out| match out {
            Output::Notice(tls::Notice::ClientHello { identities, .. }) if identities.iter().any(|id| id.starts_with(b"NVMe")) => {
                verdict = Some(true);
            }
            Output::Data(data) if dir == Direction::HostToController && start.len() < 8 => {
                start.extend(data.iter().take(8 - start.len()));
                if let Some(head) = start.first_chunk::<8>() {
                    verdict.get_or_insert(super::flow::is_ic(head, 0));
                }
            }
            Output::Unopened { .. } => {
                verdict.get_or_insert(false);
            }
            _ => {}
        });
        if verdict.is_some() {
            return verdict;
        }
    }
    None
}
