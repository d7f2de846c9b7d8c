//! Whether a check depends on the transport: it does where it speaks of PDUs, and not where capsules are all that it speaks of.
//!
//! Commands, responses and the verbs that bring a queue up mean the same over any transport, and so do a lost connection and
//! silence. PDUs, their fields, digests, and the ways in which bytes are cut mean something over TCP alone.

use nvmf_wire::tcp::PduHead;
use nvmf_wire::{CommandKind, Structure};

use crate::ast::{Assign, Awaited, Check, Cond, Expr, SendMode, Stmt, Test, What};

/// Facts that TCP alone has.
const FACTS: &[&str] = &["icresp", "hdgst", "ddgst"];
/// Fields of PDUs, of ICReq, and the choice among SGL descriptors, which each transport has of its own.
const FIELDS: &[&str] =
    &["hdgst", "ddgst", "hpda", "maxr2t", "pfv", "pad", "flags", "byte", "term", "offender", "sgl", "sgl1_type", "sgl1_sub"];

/// Whether `check` can only be played over TCP.
pub fn is_of_tcp(check: &Check) -> bool {
    let cases = || check.cases.iter().flat_map(|case| &case.values).any(|(_, value)| expr(value));
    let needs = || check.needs.iter().any(|need| test(&need.test));
    block(&check.body) || needs() || cases() || check.writes.as_ref().is_some_and(expr)
}

fn block(body: &[Stmt]) -> bool {
    body.iter().any(statement)
}

fn statement(s: &Stmt) -> bool {
    match &s.what {
        What::Open { .. } | What::SendBytes { .. } => true,
        // `connect tcp`, too, is a connection that is up: each transport has that
        What::Connect { with, .. } => assigns(with, None),
        What::Send { pdu, command, with, mode } => {
            // what is held back until the next goes out with it: two commands at once, over any transport
            let SendMode { cut, split, hold: _ } = mode;
            pdu != "CapsuleCmd" || cut.is_some() || split.is_some() || assigns(with, command.as_deref())
        }
        What::Expect { any, .. } => any.iter().any(|a| match &a.what {
            Awaited::Pdu { pdu, conds: all } => !matches!(pdu.as_str(), "CapsuleResp" | "any") || conds(all),
            Awaited::Close | Awaited::Silence => false,
        }),
        What::Command { name, with, status, .. } => assigns(with, Some(name)) || conds(status),
        What::Transfer { with, .. } => assigns(with, None),
        What::Assert { test: t, .. } => test(t),
        What::Let { value, .. } => expr(value),
        What::Await { cond, .. } => expr(&cond.value),
        What::Wait(_) | What::End(_) | What::Target { .. } => false,
        What::Note(_, values) => values.iter().any(expr),
        What::Repeat(n, inner) => expr(n) || block(inner),
        What::If(t, inner) => test(t) || block(inner),
    }
}

fn assigns(with: &[Assign], command: Option<&str>) -> bool {
    with.iter().any(|a| is_of_pdu(&a.name, command) || expr(&a.value))
}

fn conds(all: &[Cond]) -> bool {
    all.iter().any(|c| is_of_pdu(&c.name, None) || expr(&c.value))
}

/// Whether a name means a part of a PDU; a field of the command goes first.
fn is_of_pdu(name: &str, command: Option<&str>) -> bool {
    let of_command = command.and_then(CommandKind::named).is_some_and(|k| k.layout.field(name).is_some());
    let own = name.starts_with("pdu.") || PduHead::LAYOUT.field(name).is_some();
    FIELDS.contains(&name) || own && !of_command
}

fn test(t: &Test) -> bool {
    expr(&t.left) || expr(&t.right)
}

fn expr(e: &Expr) -> bool {
    match e {
        Expr::Var(name, _) => FACTS.contains(&name.as_str()),
        Expr::Set(all) | Expr::Call(_, all) => all.iter().any(expr),
        Expr::Range(a, b) | Expr::Binary(_, a, b) => expr(a) || expr(b),
        Expr::Int(_) | Expr::Text(_) | Expr::Hex(_) | Expr::Word(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Script;

    fn of_tcp(body: &str) -> bool {
        let text = format!("check a/b/c\n  says \"s\"\n  cites A\n{body}\n");
        match crate::parse::parse("c", &text).unwrap().remove(0) {
            Script::Check(c) => is_of_tcp(&c),
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
            assert!(!of_tcp(body), "{body}");
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
            assert!(of_tcp(body), "{body}");
        }
    }
}
