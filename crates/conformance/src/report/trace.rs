//! What went over the wire in one check, as lines for people, as a pcapng and as one number.

use nvmf_capture::pcapng::Writer;
use nvmf_capture::{Event, EventKind, Exchange, Trace};

use super::printable;
use crate::verdict::CheckResult;

/// How many lines of a trace stand beside a failure.
pub const TAIL: usize = 8;

/// The decoded trace, one line a PDU, without control characters.
#[must_use]
pub fn lines(exchange: &Exchange) -> Vec<String> {
    let text = Trace::new(exchange.start_ns()).exchange(exchange);
    text.lines().map(printable).collect()
}

/// The last lines of it. Where some are left out, the first line says how many.
#[must_use]
pub fn tail(exchange: &Exchange, most: usize) -> Vec<String> {
    let mut lines = lines(exchange);
    let left_out = lines.len().saturating_sub(most);
    if left_out > 0 {
        lines.drain(..left_out);
        lines.insert(0, format!("… {left_out} lines before"));
    }
    lines
}

/// The traffic of a check as a pcapng file that Wireshark opens. `base_ns` is the start of the run, nanoseconds since 1970; 0 in
/// the simulated world, whose files are then the same for the same seed.
pub fn pcapng(result: &CheckResult, base_ns: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let writer = Writer::new().at(base_ns).comment(result.id.as_str());
    writer.write(&result.exchange, &mut bytes).map_err(|e| e.to_string())?;
    Ok(bytes)
}

/// A number that tells whether two exchanges are the same: times, directions and bytes of all events (FNV-1a, 64 bits).
#[must_use]
pub fn hash(exchange: &Exchange) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for (connection, event) in exchange.events() {
        hash.number(connection as u64);
        hash.event(event);
    }
    hash.0
}

struct Fnv(u64);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn event(&mut self, event: &Event) {
        self.number(event.at_ns);
        self.bytes(&[event.dir.arrow() as u8]);
        match &event.kind {
            EventKind::Pdu(bytes) => {
                self.number(bytes.len() as u64);
                self.bytes(bytes);
            }
            EventKind::Closed { reset } => self.bytes(&[1, u8::from(*reset)]),
            EventKind::Undecodable { offset, bytes, len, .. } => {
                self.number(*offset);
                self.number(*len);
                self.bytes(bytes);
            }
            EventKind::Gap { offset, len } => {
                self.number(*offset);
                self.number(*len);
            }
            EventKind::Tls(notice) => self.bytes(notice.to_string().as_bytes()),
            EventKind::Packet(packet) => self.bytes(&packet.bytes),
            // It says again what the packets before it hold.
            EventKind::Rdma(_) => {}
        }
    }
}
