//! Whether a check depends on the transport: it does where it speaks of PDUs, or of packets, keys and queue pairs, and not where
//! capsules are all that it speaks of.
//!
//! Commands, responses and the verbs that bring a queue up mean the same over any transport, and so do a lost connection and
//! silence. PDUs, their fields, digests, and the ways in which bytes are cut mean something over TCP alone; what `ast::RdmaWhat` has,
//! packets and keys over RDMA alone. A check that has words of the latter is of RDMA, whatever else it has: `cut` and `sgl` mean something
//! over both. Where words do not tell, the head of a check does: `over rdma`.

use nvmf_capture::Transport;
use nvmf_wire::tcp::PduHead;
use nvmf_wire::{CommandKind, Structure};

use crate::ast::{Assign, Awaited, Check, Cond, End, Expr, SendMode, Stmt, Test, What};

/// Facts that TCP alone has.
const FACTS: &[&str] = &["icresp", "hdgst", "ddgst"];
/// Fields of PDUs, of ICReq, and the choice among SGL descriptors, which each transport has of its own.
const FIELDS: &[&str] =
    &["hdgst", "ddgst", "hpda", "maxr2t", "pfv", "pad", "flags", "byte", "term", "offender", "sgl", "sgl1_type", "sgl1_sub"];
/// Names that RDMA alone has: of keys, and of what a queue pair is made with.
const OF_RDMA: &[&str] = &["key", "addr", "invalidate", "invalidated", "receives", "pd"];
/// Parts of a packet of connection management.
const PARTS: &[&str] = &["cm.", "ip_cm.", "mad.", "private."];

/// What a script depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Tcp,
    Rdma,
}

/// Whether `check` can only be played over TCP.
pub fn is_of_tcp(check: &Check) -> bool {
    check.over == Some(Transport::Tcp) || depends(check, Of::Tcp) && !is_of_rdma(check)
}

/// Whether `check` can only be played over RDMA.
pub fn is_of_rdma(check: &Check) -> bool {
    check.over == Some(Transport::Rdma) || depends(check, Of::Rdma)
}

/// The transport that the statements of a scenario's host need, where it is but one.
pub fn needed(body: &[Stmt]) -> Option<Transport> {
    if Of::Rdma.block(body) {
        return Some(Transport::Rdma);
    }
    Of::Tcp.block(body).then_some(Transport::Tcp)
}

fn depends(check: &Check, of: Of) -> bool {
    let cases = || check.cases.iter().flat_map(|case| &case.values).any(|(_, value)| of.expr(value));
    let needs = || check.needs.iter().any(|need| of.test(&need.test));
    of.block(&check.body) || needs() || cases() || check.writes.as_ref().is_some_and(|e| of.expr(e))
}

impl Of {
    fn block(self, body: &[Stmt]) -> bool {
        body.iter().any(|s| self.statement(s))
    }

    fn statement(self, s: &Stmt) -> bool {
        match &s.what {
            What::Rdma(_) => self == Self::Rdma,
            What::Open { .. } => self == Self::Tcp,
            What::SendBytes { bytes, .. } => self == Self::Tcp || self.expr(bytes),
            // `connect tcp`, too, is a connection that is up: each transport has that
            What::Connect { with, .. } => self.assigns(with, None),
            What::Send { pdu, command, with, mode } => {
                // what is held back until the next goes out with it: two commands at once, over any transport
                let SendMode { cut, split, hold: _ } = mode;
                self == Self::Tcp && (pdu != "CapsuleCmd" || cut.is_some() || split.is_some())
                    || self.assigns(with, command.as_deref())
            }
            What::Expect { any, .. } => any.iter().any(|a| match &a.what {
                Awaited::Pdu { pdu, conds } => {
                    self == Self::Tcp && !matches!(pdu.as_str(), "CapsuleResp" | "any") || self.conds(conds)
                }
                Awaited::Close | Awaited::Silence => false,
                Awaited::Cm { .. } | Awaited::Disconnect | Awaited::Packet { .. } | Awaited::NoPacket { .. } => self == Self::Rdma,
            }),
            What::Command { name, with, status, .. } => self.assigns(with, Some(name)) || self.conds(status),
            What::Transfer { with, .. } => self.assigns(with, None),
            What::Assert { test, .. } => self.test(test),
            What::Let { value, .. } => self.expr(value),
            What::Await { cond, .. } => self.expr(&cond.value),
            What::End(how) => self == Self::Rdma && *how == End::Silent,
            What::Wait(_) | What::Target { .. } => false,
            What::Note(_, values) => values.iter().any(|e| self.expr(e)),
            What::Repeat(n, inner) => self.expr(n) || self.block(inner),
            What::If(test, inner) => self.test(test) || self.block(inner),
        }
    }

    fn assigns(self, with: &[Assign], command: Option<&str>) -> bool {
        with.iter().any(|a| self.has(&a.name, command) || self.expr(&a.value))
    }

    fn conds(self, all: &[Cond]) -> bool {
        all.iter().any(|c| self.has(&c.name, None) || self.expr(&c.value))
    }

    /// Whether a name means something over this transport alone; a field of the command goes first.
    fn has(self, name: &str, command: Option<&str>) -> bool {
        let of_command = || command.and_then(CommandKind::named).is_some_and(|k| k.layout.field(name).is_some());
        match self {
            Self::Tcp => {
                let own = name.starts_with("pdu.") || PduHead::LAYOUT.field(name).is_some();
                FIELDS.contains(&name) || own && !of_command()
            }
            Self::Rdma => PARTS.iter().any(|p| name.starts_with(p)) || OF_RDMA.contains(&name) && !of_command(),
        }
    }

    fn test(self, t: &Test) -> bool {
        self.expr(&t.left) || self.expr(&t.right)
    }

    fn expr(self, e: &Expr) -> bool {
        match e {
            Expr::Var(name, _) => self == Self::Tcp && FACTS.contains(&name.as_str()),
            Expr::Set(all) | Expr::Call(_, all) => all.iter().any(|e| self.expr(e)),
            Expr::Range(a, b) | Expr::Binary(_, a, b) => self.expr(a) || self.expr(b),
            Expr::Int(_) | Expr::Text(_) | Expr::Hex(_) | Expr::Word(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Script;

    fn check(body: &str) -> Check {
        let text = format!("check a/b/c\n  says \"s\"\n  cites A\n{body}\n");
        match crate::parse::parse("c", &text).unwrap_or_else(|e| panic!("{e}")).remove(0) {
            Script::Check(c) => c,
            _ => unreachable!(),
        }
    }

    #[test]
    fn capsules_are_of_any_transport_and_pdus_of_tcp() {
        for body in [
            "  connect admin kato=0\n  command Identify cns=1 nsid=7 -> status=success reserved=0 as $id",
            "  connect tcp to=discovery\n  command Connect qid=0",
            "  connect io\n  send CapsuleCmd Flush cid=7 hold\n  expect CapsuleResp cid=7 status=success | close",
            "  needs $incapsule > 0 \"n\"\n  connect io\n  write lba=0 blocks=1 pattern=a\n  expect silence for 1s",
        ] {
            assert!(!is_of_tcp(&check(body)) && !is_of_rdma(&check(body)), "{body}");
        }
        for body in [
            "  open",
            "  connect tcp hpda=1",
            "  connect admin hdgst=1",
            "  connect io\n  send CapsuleCmd Flush plen=7",
            "  connect io\n  send CapsuleCmd Flush split 3",
            "  connect io\n  send H2CData",
            "  connect io\n  expect R2T",
            "  connect io\n  expect CapsuleResp | C2HTermReq",
            "  connect io\n  expect CapsuleResp hdgst=ok",
            "  connect io\n  write lba=0 blocks=1 sgl=transport",
            "  needs $hdgst = 1 \"n\"\n  connect admin",
            "  connect admin\n  repeat 2\n    if 1 = 1\n      assert $icresp.cpda = 0",
        ] {
            assert!(is_of_tcp(&check(body)) && !is_of_rdma(&check(body)), "{body}");
        }
    }

    #[test]
    fn packets_and_keys_are_of_rdma_whatever_is_beside_them() {
        for body in [
            "  open rdma qid=0 cm.rnr_retries=0 ip_cm.major=1\n  expect reject reason=28 sts=2 | accept crqsize in {31, 32}",
            "  connect io receives=1",
            "  connect io\n  region a bytes=4096 access=read pattern=x\n  deregister a",
            "  connect io\n  send CapsuleCmd Write sgl=keyed key=1 addr=7 length=512 invalidate\n  expect disconnect | close",
            "  connect io\n  send CapsuleCmd Flush cut 63\n  expect no packet NAK for 1s",
            "  connect io\n  capsule $c Flush\n  send packet SEND_ONLY psn=$qp.psn+1 payload=$c icrc=bad",
            "  connect io\n  send packet SEND_ONLY again ackreq=0\n  expect packet NAK value=0 psn=$qp.psn within 1s",
            "  connect io\n  command Read sgl=keyed -> status=success invalidated=0",
            "  connect io\n  vanish",
        ] {
            assert!(is_of_rdma(&check(body)) && !is_of_tcp(&check(body)), "{body}");
        }
    }
}
