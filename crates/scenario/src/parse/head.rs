//! Heads of scripts, tables of cases, fault rules, and the file as a whole.

use std::collections::BTreeMap;

use nvmf_capture::Transport;

use super::Fault;
use super::atom::Cursor;
use super::lines::{Line, lines};
use super::rdma::packet_name;
use super::stmt::{assigns, block, command_of, conds, pdu_name};
use crate::ast::{
    Action, Case, Check, ClassWord, Fault as FaultScript, Golden, Need, Place, Rule, Scenario, Script, Setting, Spanned, WireLine,
};

const KINDS: &str = "check, fault, scenario or part";
/// Most lines of a file, with its parts put in.
const MAX_LINES: usize = 100_000;

/// All scripts of a file.
pub(super) fn file(text: &str) -> Result<Vec<Script>, Fault> {
    let lines = spread(lines(text)?)?;
    let mut out = Vec::new();
    let mut at = 0;
    if lines.is_empty() {
        return Err(Fault { place: Place { line: 1, column: 1 }, what: format!("an empty script; expected {KINDS}") });
    }
    while let Some(line) = lines.get(at) {
        let mut c = Cursor::new(line);
        if line.indent != 0 {
            return Err(c.fault(format!("{KINDS} at the begin of a line")));
        }
        let here = c.clone();
        let kind = c.word(KINDS)?;
        let place = c.place();
        let id = c.id("an id such as tcp/icreq/pfv-unsupported")?;
        c.end()?;
        at += 1;
        out.push(match kind.as_str() {
            "check" => Script::Check(check(&lines, &mut at, id, place)?),
            "fault" => Script::Fault(fault(&lines, &mut at, id, place)?),
            "scenario" => Script::Scenario(scenario(&lines, &mut at, id, place)?),
            _ => return Err(here.fault(KINDS)),
        });
    }
    Ok(out)
}

fn ids(c: &mut Cursor<'_>, expected: &str) -> Result<Vec<Spanned<String>>, Fault> {
    let mut out = Vec::new();
    loop {
        let place = c.place();
        out.push(Spanned { it: c.id(expected)?, place });
        if !c.eat_mark(",") {
            return c.end().map(|()| out);
        }
    }
}

fn missing(place: Place, what: &str) -> Fault {
    Fault { place, what: format!("expected a line `{what}` in the head") }
}

fn check(lines: &[Line<'_>], at: &mut usize, id: String, place: Place) -> Result<Check, Fault> {
    let mut k = Check {
        id,
        says: String::new(),
        cites: Vec::new(),
        class: ClassWord::Safe,
        alone: None,
        over: None,
        writes: None,
        after: Vec::new(),
        needs: Vec::new(),
        cases: Vec::new(),
        body: Vec::new(),
        place,
    };
    let Some(indent) = lines.get(*at).map(|l| l.indent).filter(|i| *i > 0) else {
        return Err(missing(place, "says \"…\""));
    };
    while let Some(line) = lines.get(*at).filter(|l| l.indent == indent) {
        let mut c = Cursor::new(line);
        match c.peek() {
            "says" => {
                c.eat("says");
                k.says = c.text()?;
            }
            "cites" => {
                c.eat("cites");
                k.cites.extend(ids(&mut c, "a requirement id")?);
            }
            "class" => {
                c.eat("class");
                let here = c.clone();
                k.class = match c.word("safe, disruptive or destructive")?.as_str() {
                    "safe" => ClassWord::Safe,
                    "disruptive" => ClassWord::Disruptive,
                    "destructive" => ClassWord::Destructive,
                    _ => return Err(here.fault("safe, disruptive or destructive")),
                };
            }
            "over" => {
                c.eat("over");
                k.over = Some(transport(&mut c)?);
            }
            "alone" => {
                c.eat("alone");
                k.alone = Some(c.text()?);
            }
            "writes" => {
                c.eat("writes");
                k.writes = Some(c.expr()?);
                if !c.eat("blocks") {
                    return Err(c.fault("`blocks`"));
                }
            }
            "after" => {
                c.eat("after");
                k.after.extend(ids(&mut c, "the id of a check")?);
            }
            "needs" => {
                c.eat("needs");
                let test = c.test()?;
                k.needs.push(Need { test, why: c.text()? });
            }
            "cases" => {
                c.eat("cases");
                c.end()?;
                *at += 1;
                k.cases = cases(lines, at, indent)?;
                continue;
            }
            _ => break,
        }
        c.end()?;
        *at += 1;
    }
    if k.says.is_empty() {
        return Err(missing(place, "says \"…\""));
    }
    if k.cites.is_empty() {
        return Err(missing(place, "cites REQUIREMENT-ID"));
    }
    k.body = block(lines, at, indent)?;
    if k.body.is_empty() {
        return Err(Fault { place, what: "a check without statements".into() });
    }
    Ok(k)
}

fn cases(lines: &[Line<'_>], at: &mut usize, indent: usize) -> Result<Vec<Case>, Fault> {
    let mut out: Vec<Case> = Vec::new();
    while let Some(line) = lines.get(*at).filter(|l| l.indent > indent) {
        let mut c = Cursor::new(line);
        let place = c.place();
        let name = c.id("the name of a case")?;
        if out.iter().any(|k| k.name == name) {
            return Err(Fault { place, what: format!("a second case `{name}`; expected a name of its own") });
        }
        let mut values = Vec::new();
        while !c.at_end() {
            let a = c.assign()?;
            values.push((a.name, a.value));
        }
        out.push(Case { name, values, place });
        *at += 1;
    }
    if out.is_empty() {
        let place = lines.get(*at).map_or(Place { line: 1, column: 1 }, |l| Cursor::new(l).place());
        return Err(Fault { place, what: "expected a row of the table of cases, indented below `cases`".into() });
    }
    Ok(out)
}

fn fault(lines: &[Line<'_>], at: &mut usize, id: String, place: Place) -> Result<FaultScript, Fault> {
    let mut f =
        FaultScript { id, says: String::new(), over: None, breaks: Vec::new(), fails: Vec::new(), rules: Vec::new(), place };
    while let Some(line) = lines.get(*at).filter(|l| l.indent > 0) {
        let mut c = Cursor::new(line);
        let here = c.clone();
        match c.word("says, over, breaks, fails or on")?.as_str() {
            "says" => f.says = c.text()?,
            "over" => f.over = Some(transport(&mut c)?),
            "breaks" => f.breaks.extend(ids(&mut c, "a requirement id")?),
            "fails" => f.fails.extend(ids(&mut c, "the id of a check")?),
            "on" => f.rules.push(rule(&mut c, here.place())?),
            _ => return Err(here.fault("says, over, breaks, fails or on")),
        }
        c.end()?;
        *at += 1;
    }
    if f.says.is_empty() {
        return Err(missing(place, "says \"…\""));
    }
    if f.rules.is_empty() {
        return Err(missing(place, "on c2h PDU: action"));
    }
    Ok(f)
}

fn rule(c: &mut Cursor<'_>, place: Place) -> Result<Rule, Fault> {
    let here = c.clone();
    let from_controller = match c.word("c2h or h2c")?.as_str() {
        "c2h" => true,
        "h2c" => false,
        _ => return Err(here.fault("c2h or h2c")),
    };
    let event = ["end", "wait"].into_iter().find(|name| !from_controller && c.eat(name));
    let pdu = event.map_or_else(|| pdu_or_packet(c), |name| Ok(name.to_owned()))?;
    let command = if event.is_some() { None } else { command_of(c, &pdu)? };
    let conds = if event == Some("end") { Vec::new() } else { conds(c)? };
    let nth = if event.is_none() && c.eat_mark("#") { Some(c.number()?) } else { None };
    if !c.eat_mark(":") {
        return Err(c.fault("`:` and an action"));
    }
    let mut actions = Vec::new();
    loop {
        let here = c.clone();
        let one = action(c)?;
        if !matches!((event, &one), (Some("end"), Action::Drop) | (Some("wait"), Action::Answer(..) | Action::Close) | (None, _)) {
            return Err(here.fault(if event == Some("end") { "drop" } else { "answer or close" }));
        }
        actions.push(one);
        if !c.eat_mark(";") {
            break;
        }
    }
    Ok(Rule { from_controller, pdu, command, conds, nth, actions, place })
}

fn transport(c: &mut Cursor<'_>) -> Result<Transport, Fault> {
    let here = c.clone();
    match c.word("tcp or rdma")?.as_str() {
        "tcp" => Ok(Transport::Tcp),
        "rdma" => Ok(Transport::Rdma),
        _ => Err(here.fault("tcp or rdma")),
    }
}

/// A PDU, or a packet of RoCEv2.
fn pdu_or_packet(c: &mut Cursor<'_>) -> Result<String, Fault> {
    if crate::roce::is_name(c.peek()) { packet_name(c) } else { pdu_name(c) }
}

fn action(c: &mut Cursor<'_>) -> Result<Action, Fault> {
    const ACTIONS: &str = "set, drop, duplicate, delay, corrupt, hold, close or answer";
    let here = c.clone();
    Ok(match c.word(ACTIONS)?.as_str() {
        "set" => Action::Set(assigns(c, &mut None)?),
        "drop" => Action::Drop,
        "duplicate" => Action::Duplicate,
        "delay" => Action::Delay(c.duration()?),
        "corrupt" => {
            let here = c.clone();
            let part = c.word("header, data, hdgst, ddgst or icrc")?;
            if !["header", "data", "hdgst", "ddgst", "icrc"].contains(&part.as_str()) {
                return Err(here.fault("header, data, hdgst, ddgst or icrc"));
            }
            let at = if c.eat("at") { c.number()? } else { 0 };
            Action::Corrupt(part, at)
        }
        "hold" => Action::Hold,
        "close" => Action::Close,
        "answer" => {
            let pdu = pdu_or_packet(c)?;
            Action::Answer(pdu, assigns(c, &mut None)?)
        }
        _ => return Err(here.fault(ACTIONS)),
    })
}

fn scenario(lines: &[Line<'_>], at: &mut usize, id: String, place: Place) -> Result<Scenario, Fault> {
    const HEAD: &str = "says, over, golden, target, host or wire";
    let mut s = Scenario {
        id,
        says: String::new(),
        over: Transport::Tcp,
        golden: None,
        target: Vec::new(),
        host: Vec::new(),
        wires: Vec::new(),
        place,
    };
    while let Some(line) = lines.get(*at).filter(|l| l.indent > 0) {
        let mut c = Cursor::new(line);
        let here = c.clone();
        match c.word(HEAD)?.as_str() {
            "says" => s.says = c.text()?,
            "over" => s.over = transport(&mut c)?,
            "golden" => s.golden = Some(golden(&mut c, here.place())?),
            key @ ("host" | "wire" | "target") => {
                c.end()?;
                *at += 1;
                let Some(inner) = lines.get(*at).map(|l| l.indent).filter(|i| *i > line.indent) else {
                    return Err(Fault { place: here.place(), what: "expected an indented block below".into() });
                };
                match key {
                    "host" => s.host = block(lines, at, inner)?,
                    "target" => s.target = target(lines, at, inner)?,
                    _ => s.wires.push(wire(lines, at, inner)?),
                }
                continue;
            }
            _ => return Err(here.fault(HEAD)),
        }
        c.end()?;
        *at += 1;
    }
    let held = !s.wires.is_empty() || s.golden.as_ref().is_some_and(|g| !g.masks.is_empty());
    if s.host.is_empty() || !held {
        return Err(missing(place, "host`, and `wire` or `golden \"…\" mask NAME"));
    }
    Ok(s)
}

fn golden(c: &mut Cursor<'_>, place: Place) -> Result<Golden, Fault> {
    let mut g = Golden { file: c.text()?, from: None, to: None, masks: Vec::new(), place };
    while !c.at_end() {
        let here = c.clone();
        match c.word("from, to or mask")?.as_str() {
            "from" => g.from = Some(command_name(c)?),
            "to" => g.to = Some(command_name(c)?),
            "mask" => loop {
                g.masks.push(c.id("the name of a mask")?);
                if !c.eat_mark(",") {
                    break;
                }
            },
            _ => return Err(here.fault("from, to or mask")),
        }
    }
    Ok(g)
}

fn command_name(c: &mut Cursor<'_>) -> Result<String, Fault> {
    let here = c.clone();
    command_of(c, "a capsule")?.ok_or_else(|| here.fault("a command"))
}

fn target(lines: &[Line<'_>], at: &mut usize, indent: usize) -> Result<Vec<Setting>, Fault> {
    let mut out = Vec::new();
    while let Some(line) = lines.get(*at).filter(|l| l.indent == indent) {
        let mut c = Cursor::new(line);
        let place = c.place();
        let what =
            c.word("what the target is like: controller, transport, rdma, subsystem, namespace, data, port, referral or player")?;
        let with = assigns(&mut c, &mut None)?;
        c.end()?;
        out.push(Setting { what, with, place });
        *at += 1;
    }
    Ok(out)
}

/// Puts the lines of `part NAME` wherever `use NAME` stands below. Lines keep the place at which they were written.
fn spread(lines: Vec<Line<'_>>) -> Result<Vec<Line<'_>>, Fault> {
    let mut parts: BTreeMap<&str, Vec<Line<'_>>> = BTreeMap::new();
    let mut part = None;
    let mut out: Vec<Line<'_>> = Vec::with_capacity(lines.len());
    for line in lines {
        let place = Place { line: line.number, column: line.indent + 1 };
        let fault = |what: String| Fault { place, what };
        let (verb, name) = line.text.split_once(' ').unwrap_or((line.text, ""));
        if line.indent == 0 {
            part = (verb == "part").then(|| name.trim());
            if let Some(name) = part {
                let known = parts.insert(name, Vec::new()).is_some();
                if known || name.is_empty() || name.contains(' ') {
                    return Err(fault("expected `part` and a name of its own".into()));
                }
                continue;
            }
        }
        let mut add = vec![line];
        if line.indent > 0 && verb == "use" {
            let known = parts.get(name.trim()).ok_or_else(|| fault(format!("no part `{}` above", name.trim())))?;
            let first = known.first().map_or(0, |l| l.indent);
            add = known.iter().map(|l| Line { indent: line.indent + l.indent - first.min(l.indent), ..*l }).collect();
        }
        let to = match part {
            Some(name) => parts.entry(name).or_default(),
            None => &mut out,
        };
        if to.len() + add.len() > MAX_LINES {
            return Err(fault(format!("more than {MAX_LINES} lines")));
        }
        to.extend(add);
    }
    Ok(out)
}

fn wire(lines: &[Line<'_>], at: &mut usize, indent: usize) -> Result<Vec<WireLine>, Fault> {
    let mut out = Vec::new();
    while let Some(line) = lines.get(*at).filter(|l| l.indent == indent) {
        let mut c = Cursor::new(line);
        let place = c.place();
        let from_controller = if c.eat_mark("<") {
            true
        } else if c.eat_mark(">") {
            false
        } else {
            return Err(c.fault("`>` (host to controller) or `<`"));
        };
        let pdu = pdu_or_packet(&mut c)?;
        let many = c.eat_mark("+");
        let command = command_of(&mut c, &pdu)?;
        let conds = conds(&mut c)?;
        c.end()?;
        out.push(WireLine { from_controller, pdu, command, many, conds, place });
        *at += 1;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str =
        "scenario a\n  golden \"f\" from Write to Read mask x, y-z\n  target\n    use lab\n    port id=2\n  host\n    use up\n";

    #[test]
    fn parts_are_put_in_with_the_indentation_of_their_use() {
        let text = format!(
            "part one\n  open\npart up\n      use one\n      repeat 2\n        close\npart lab\n  subsystem nqn=\"n\"\n{SCENARIO}"
        );
        let Script::Scenario(s) = file(&text).unwrap_or_else(|f| panic!("{f:?}")).remove(0) else { panic!("a scenario") };
        let golden = s.golden.expect("a golden");
        assert_eq!((golden.from.as_deref(), golden.to.as_deref(), golden.masks.len()), (Some("Write"), Some("Read"), 2));
        assert_eq!(s.target.iter().map(|l| l.what.as_str()).collect::<Vec<_>>(), ["subsystem", "port"]);
        assert_eq!(s.host.len(), 2);
        // a statement stands where it was written
        assert_eq!((s.host[0].place.line, s.host[1].place.line), (2, 5));
    }

    #[test]
    fn a_part_that_is_not_there_or_grows_without_end_is_refused() {
        for (text, line, what) in [
            (SCENARIO.to_owned(), 4, "no part `lab` above"),
            ("part a\n  use a\n  open\npart a\n  open\n".to_owned(), 4, "a name of its own"),
            ("part\n  open\n".to_owned(), 1, "a name of its own"),
            ("scenario a\n  golden \"f\"\n  host\n    open\n".to_owned(), 1, "mask NAME"),
        ] {
            let fault = file(&text).expect_err(&text);
            assert!(fault.place.line == line && fault.what.contains(what), "{text}: {fault:?}");
        }
        let doubling: String = (1..40).map(|n| format!("part p{n}\n  use p{}\n  use p{}\n", n - 1, n - 1)).collect();
        let fault = file(&format!("part p0\n  open\n{doubling}")).expect_err("too much");
        assert!(fault.what.contains("lines"), "{fault:?}");
    }
}
