//! Statements and blocks of statements.

use super::Fault;
use super::atom::Cursor;
use super::lines::Line;
use crate::ast::{Alternative, Assign, Awaited, Cond, End, Grade, SendMode, Stmt, What};

const VERBS: &str = "a statement: open, connect, send, expect, command, read, write, assert, let, await, wait, close, reset, \
                     shutdown, vanish, target, note, repeat, if or use; over RDMA also region, deregister, peek, capsule, mute, unmute, mark, receive";

/// Words that end a list of fields.
const RESERVED: &[&str] =
    &["via", "as", "cut", "split", "hold", "within", "else", "ok", "note", "fail", "lenient", "warn", "skip", "should", "for"];

/// The statements from `at` on that are indented by `indent`; `at` moves behind them.
pub(super) fn block(lines: &[Line<'_>], at: &mut usize, indent: usize) -> Result<Vec<Stmt>, Fault> {
    let mut out = Vec::new();
    while let Some(line) = lines.get(*at).filter(|l| l.indent >= indent) {
        if line.indent > indent {
            let mut c = Cursor::new(line);
            let _ = c.eat("");
            return Err(Fault { place: c.place(), what: format!("indented by {} spaces; expected {indent}", line.indent) });
        }
        *at += 1;
        out.push(statement(line, lines, at)?);
    }
    Ok(out)
}

fn statement(line: &Line<'_>, lines: &[Line<'_>], at: &mut usize) -> Result<Stmt, Fault> {
    let mut c = Cursor::new(line);
    let place = c.place();
    let mut via = None;
    let verb = c.word(VERBS)?;
    let what = match super::rdma::statement(&verb, &mut c, &mut via)? {
        Some(what) => what,
        None => plain(&verb, &mut c, &mut via, line, lines, at)?,
    };
    if c.eat("via") {
        via = Some(c.word("the name of a connection")?);
    }
    c.end()?;
    Ok(Stmt { what, via, place })
}

/// The statement that begins with `verb`.
fn plain(
    verb: &str,
    c: &mut Cursor<'_>,
    via: &mut Option<String>,
    line: &Line<'_>,
    lines: &[Line<'_>],
    at: &mut usize,
) -> Result<What, Fault> {
    Ok(match verb {
        "open" => What::Open { name: as_name(c)? },
        "connect" => connect(c)?,
        "send" => send(c, via)?,
        "expect" => expect(c, via)?,
        "command" => command(c, via)?,
        "read" | "write" => What::Transfer { write: verb == "write", with: assigns(c, via)? },
        "assert" => assertion(c)?,
        "let" => {
            let name = c.dollar()?;
            if !c.eat_mark("=") {
                return Err(c.fault("`=`"));
            }
            What::Let { name, value: c.expr()? }
        }
        "await" => {
            let property = c.word("a property: cap, vs, cc or csts, with `.field`")?;
            await_property(c, &property)?
        }
        "wait" => What::Wait(c.duration()?),
        "close" => What::End(End::Close),
        "reset" => What::End(End::Reset),
        "shutdown" => What::End(End::Shutdown),
        "vanish" => What::End(End::Silent),
        "target" => What::Target { verb: c.word("what to change at the target")?, with: assigns(c, &mut None)? },
        "note" => {
            let text = c.text()?;
            let mut values = Vec::new();
            while !c.at_end() {
                values.push(c.expr()?);
            }
            What::Note(text, values)
        }
        "repeat" => {
            let n = c.expr()?;
            c.end()?;
            What::Repeat(n, inner(line, lines, at)?)
        }
        "if" => {
            let test = c.test()?;
            c.end()?;
            What::If(test, inner(line, lines, at)?)
        }
        _ => return Err(Fault { place: Cursor::new(line).place(), what: format!("expected {VERBS}, found `{verb}`") }),
    })
}

fn inner(line: &Line<'_>, lines: &[Line<'_>], at: &mut usize) -> Result<Vec<Stmt>, Fault> {
    match lines.get(*at).filter(|l| l.indent > line.indent) {
        Some(first) => block(lines, at, first.indent),
        None => Err(Fault { place: Cursor::new(line).place(), what: "expected an indented block below".into() }),
    }
}

pub(super) fn as_name(c: &mut Cursor<'_>) -> Result<Option<String>, Fault> {
    if c.eat("as") { c.word("a name for the connection").map(Some) } else { Ok(None) }
}

/// `name=value` until a reserved word or the end.
pub(super) fn assigns(c: &mut Cursor<'_>, via: &mut Option<String>) -> Result<Vec<Assign>, Fault> {
    let mut out = Vec::new();
    while !c.at_end() && !RESERVED.contains(&c.peek()) && !starts_mark(c) {
        out.push(c.assign()?);
    }
    if c.eat("via") {
        *via = Some(c.word("the name of a connection")?);
    }
    Ok(out)
}

fn starts_mark(c: &Cursor<'_>) -> bool {
    let mut d = c.clone();
    d.eat_mark("->") || d.eat_mark("|") || d.eat_mark(";")
}

fn connect(c: &mut Cursor<'_>) -> Result<What, Fault> {
    let here = c.clone();
    let kind = c.word("tcp, fabric, admin, io or discovery")?;
    if !["tcp", "fabric", "admin", "io", "discovery"].contains(&kind.as_str()) {
        return Err(here.fault("tcp, fabric, admin, io or discovery"));
    }
    let mut name = as_name(c)?;
    let with = assigns(c, &mut None)?;
    if name.is_none() {
        name = as_name(c)?;
    }
    Ok(What::Connect { kind, name, with })
}

fn send_mode(c: &mut Cursor<'_>) -> Result<SendMode, Fault> {
    let mut mode = SendMode::default();
    loop {
        if c.eat("cut") {
            mode.cut = Some(c.expr()?);
        } else if c.eat("split") {
            mode.split = Some(c.expr()?);
        } else if c.eat("hold") {
            mode.hold = true;
        } else {
            return Ok(mode);
        }
    }
}

fn send(c: &mut Cursor<'_>, via: &mut Option<String>) -> Result<What, Fault> {
    if c.eat("bytes") {
        let bytes = c.expr()?;
        return Ok(What::SendBytes { bytes, mode: send_mode(c)? });
    }
    let pdu = pdu_name(c)?;
    let command = command_of(c, &pdu)?;
    let with = assigns(c, via)?;
    Ok(What::Send { pdu, command, with, mode: send_mode(c)? })
}

/// The name of a PDU, `any`, or `PDU` for one given by its type.
pub(super) fn pdu_name(c: &mut Cursor<'_>) -> Result<String, Fault> {
    let known = nvmf_wire::tcp::PduType::NAMED.iter().map(|n| n.2).chain(["any", "PDU"]).collect::<Vec<_>>();
    let here = c.clone();
    let name = c.word("a PDU name")?;
    if known.contains(&name.as_str()) { Ok(name) } else { Err(here.fault(format!("a PDU: {}", known.join(", ")))) }
}

/// The command's name that follows the PDU's, where one does.
pub(super) fn command_of(c: &mut Cursor<'_>, pdu: &str) -> Result<Option<String>, Fault> {
    if !c.peek().starts_with(|x: char| x.is_ascii_uppercase()) {
        return Ok(None);
    }
    let here = c.clone();
    let name = c.word("a command")?;
    if nvmf_wire::CommandKind::named(&name).is_some() || name == "Raw" {
        return Ok(Some(name));
    }
    let known = nvmf_wire::command::COMMANDS.iter().map(|k| k.name).collect::<Vec<_>>().join(", ");
    Err(here.fault(format!("a field of {pdu}, or a command: {known} or Raw")))
}

fn grade(c: &mut Cursor<'_>) -> Option<Grade> {
    for (word, g) in [
        ("ok", Grade::Ok),
        ("note", Grade::Ok),
        ("fail", Grade::Fail),
        ("lenient", Grade::Lenient),
        ("warn", Grade::Warn),
        ("skip", Grade::Skip),
    ] {
        if c.eat(word) {
            return Some(g);
        }
    }
    None
}

/// Conditions until a reserved word, a mark or the end.
pub(super) fn conds(c: &mut Cursor<'_>) -> Result<Vec<Cond>, Fault> {
    let mut out = Vec::new();
    while !c.at_end() && !RESERVED.contains(&c.peek()) && !starts_mark(c) && c.peek().starts_with(|x: char| x.is_ascii_lowercase())
    {
        out.push(c.cond()?);
    }
    Ok(out)
}

fn expect(c: &mut Cursor<'_>, via: &mut Option<String>) -> Result<What, Fault> {
    let mut any = Vec::new();
    let mut within = None;
    loop {
        let what = if c.eat("close") {
            Awaited::Close
        } else if c.eat("silence") {
            if c.eat("for") {
                within = Some(c.duration()?);
            }
            Awaited::Silence
        } else if let Some(awaited) = super::rdma::awaited(c)? {
            if matches!(awaited, Awaited::NoPacket { .. }) && c.eat("for") {
                within = Some(c.duration()?);
            }
            awaited
        } else {
            let pdu = pdu_name(c)?;
            Awaited::Pdu { pdu, conds: conds(c)? }
        };
        let g = grade(c);
        let text = c.maybe_text();
        any.push(Alternative { what, grade: g.unwrap_or(Grade::Ok), text });
        if !c.eat_mark("|") {
            break;
        }
    }
    if c.eat("via") {
        *via = Some(c.word("the name of a connection")?);
    }
    if c.eat("within") {
        within = Some(c.duration()?);
    }
    if c.eat("via") {
        *via = Some(c.word("the name of a connection")?);
    }
    if c.eat("else") {
        let here = c.clone();
        let g = grade(c).ok_or_else(|| here.fault("fail, lenient, warn or skip"))?;
        any.push(Alternative { what: Awaited::Pdu { pdu: "any".into(), conds: Vec::new() }, grade: g, text: c.maybe_text() });
    }
    Ok(What::Expect { any, within })
}

fn command(c: &mut Cursor<'_>, via: &mut Option<String>) -> Result<What, Fault> {
    let here = c.clone();
    let name = command_of(c, "a capsule")?.ok_or_else(|| here.fault("a command"))?;
    let with = assigns(c, via)?;
    let status = if c.eat_mark("->") { conds(c)? } else { Vec::new() };
    let mut bind = None;
    if c.eat("as") {
        bind = Some(c.dollar()?);
    }
    let mut g = Grade::Fail;
    let mut text = None;
    if c.eat("else") {
        let here = c.clone();
        g = grade(c).ok_or_else(|| here.fault("fail, lenient, warn or skip"))?;
        text = c.maybe_text();
    }
    if c.eat("via") {
        *via = Some(c.word("the name of a connection")?);
    }
    Ok(What::Command { name, with, status, bind, grade: g, text })
}

fn assertion(c: &mut Cursor<'_>) -> Result<What, Fault> {
    let test = c.test()?;
    let mut g = Grade::Fail;
    if c.eat("should") {
        g = Grade::Warn;
    } else if c.eat("else") {
        let here = c.clone();
        g = grade(c).ok_or_else(|| here.fault("fail, lenient, warn or skip"))?;
    }
    Ok(What::Assert { test, grade: g, text: c.maybe_text() })
}

fn await_property(c: &mut Cursor<'_>, property: &str) -> Result<What, Fault> {
    let (p, field) = property.split_once('.').ok_or_else(|| c.fault("a property with a field, such as csts.rdy"))?;
    let place = c.place();
    if !c.eat_mark("=") {
        return Err(c.fault("`=`"));
    }
    let cond = Cond { name: field.to_owned(), op: crate::ast::Op::Equal, value: c.expr()?, place };
    let within = if c.eat("within") { Some(c.duration()?) } else { None };
    Ok(What::Await { property: p.to_owned(), cond, within })
}
