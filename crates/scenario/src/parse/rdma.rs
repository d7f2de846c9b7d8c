//! Statements that mean something over RDMA alone.

use super::Fault;
use super::atom::Cursor;
use super::stmt::{as_name, assigns, command_of, conds};
use crate::ast::{Awaited, RdmaWhat, What};
use crate::roce::{is_name, names};

/// The statement that begins with `verb`, where it is one of these.
pub(super) fn statement(verb: &str, c: &mut Cursor<'_>, via: &mut Option<String>) -> Result<Option<What>, Fault> {
    let what = match verb {
        "open" if c.eat("rdma") => {
            let name = as_name(c)?;
            RdmaWhat::Open { name, with: assigns(c, &mut None)? }
        }
        "region" => RdmaWhat::Region { name: c.word("a name for the region")?, with: assigns(c, via)? },
        "deregister" => RdmaWhat::Deregister(c.word("the name of a region")?),
        "peek" => {
            let name = c.word("the name of a region")?;
            if !c.eat("as") {
                return Err(c.fault("`as $name`"));
            }
            RdmaWhat::Peek { name, bind: c.dollar()? }
        }
        "capsule" => {
            let bind = c.dollar()?;
            let here = c.clone();
            let command = command_of(c, "a capsule")?.ok_or_else(|| here.fault("a command"))?;
            RdmaWhat::Capsule { bind, command, with: assigns(c, via)? }
        }
        "send" if c.eat("packet") => {
            let packet = packet_name(c)?;
            RdmaWhat::Packet { packet, again: c.eat("again"), with: assigns(c, via)? }
        }
        "mute" => RdmaWhat::Mute(true),
        "unmute" => RdmaWhat::Mute(false),
        "mark" => RdmaWhat::Mark,
        "receive" => RdmaWhat::Receive(c.expr()?),
        _ => return Ok(None),
    };
    Ok(Some(What::Rdma(what)))
}

/// What an `expect` waits for, where it is one of these.
pub(super) fn awaited(c: &mut Cursor<'_>) -> Result<Option<Awaited>, Fault> {
    Ok(Some(if c.eat("accept") {
        Awaited::Cm { message: "REP", conds: conds(c)? }
    } else if c.eat("reject") {
        Awaited::Cm { message: "REJ", conds: conds(c)? }
    } else if c.eat("disconnect") {
        Awaited::Disconnect
    } else if c.eat("packet") {
        Awaited::Packet { packet: packet_name(c)?, conds: conds(c)? }
    } else if c.eat("no") {
        if !c.eat("packet") {
            return Err(c.fault("`packet`"));
        }
        Awaited::NoPacket { packet: packet_name(c)?, conds: conds(c)? }
    } else {
        return Ok(None);
    }))
}

pub(super) fn packet_name(c: &mut Cursor<'_>) -> Result<String, Fault> {
    let here = c.clone();
    let name = c.word("the name of a packet")?;
    if is_name(&name) { Ok(name) } else { Err(here.fault(format!("a packet: {}", names()))) }
}
