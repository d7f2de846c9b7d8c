//! The memory that a command's data lies in: of which kind it is, and how many payload bytes the host's CPU read or wrote on their way
//! between it and the wire.
//!
//! Counted is each copy that the path asks for, where it is made: into a capsule or a PDU, out of a PDU, through a bounce buffer. Not counted
//! is what the player does beside it: it makes data, looks at data, and writes down what crossed the wire.

use bytes::Bytes;
use nvmf_seam::rdma::{Memory, Place};

use super::compose::{Said, number, word};
use super::{Player, Step};
use crate::value::Val;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Buffer {
    pub(super) place: Place,
    /// Data goes through a second buffer, in the host's memory.
    pub(super) bounce: bool,
    /// Payload bytes that the CPU read or wrote.
    pub(super) touched: u64,
}

impl Buffer {
    /// The CPU copies payload.
    pub(super) fn touch(&mut self, bytes: usize) {
        self.touched += bytes as u64;
    }

    /// Payload on its way into a PDU or capsule, or out of one: through the bounce buffer, where there is one.
    pub(super) fn through(&mut self, payload: Bytes) -> Bytes {
        if !self.bounce {
            return payload;
        }
        self.touch(payload.len());
        Bytes::copy_from_slice(&payload)
    }

    /// What a NIC is to read or write: this memory, or a bounce buffer, into which the CPU copies what goes out.
    pub(super) fn registered(&self, memory: Memory) -> Memory {
        if !self.bounce {
            return memory.at(self.place);
        }
        let mut second = Memory::zeroed(memory.len());
        if let (true, Some(to)) = (memory.is_read_only(), second.as_mut_slice()) {
            to.copy_from_slice(memory.as_slice());
            second.touch(memory.len());
        }
        second
    }

    /// The memory that a NIC gave back; `filled` where the controller wrote to it.
    pub(super) fn returned(&mut self, memory: &mut Memory, filled: bool) {
        if self.bounce && filled {
            // out of the bounce buffer
            memory.touch(memory.len());
        }
        self.touched += memory.touched();
    }
}

impl Player<'_> {
    /// `memory=host|gpu` and `bounce` of a command.
    pub(super) fn buffer(&self, said: &[Said]) -> Step<Buffer> {
        let place = match word(said, "memory").as_deref() {
            None | Some("host") => Place::Host,
            Some("gpu") => Place::Gpu,
            Some(other) => return Err(self.script(format!("memory={other}; expected host or gpu"))),
        };
        Ok(Buffer { place, bounce: number(said, "bounce").is_some_and(|n| n != 0), touched: 0 })
    }

    /// `$touched`: of the command that completed last.
    pub(super) fn bind_touched(&mut self, i: usize, cid: u16) {
        let touched = self.conns[i].sent.get(&cid).map_or(0, |s| s.buffer.touched);
        self.vars.insert("touched".into(), Val::Int(touched));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounce_is_counted_on_the_way_out_and_on_the_way_in() {
        let gpu = Buffer { place: Place::Gpu, ..Buffer::default() };
        let mut direct = gpu.registered(Memory::shared(vec![7; 512].into()));
        assert_eq!((direct.place(), direct.touched()), (Place::Gpu, 0));
        let mut path = gpu;
        path.returned(&mut direct, false);
        assert_eq!(path.touched, 0);

        let mut path = Buffer { bounce: true, ..gpu };
        let mut out = path.registered(Memory::shared(vec![7; 512].into()));
        assert_eq!((out.place(), out.as_slice()), (Place::Host, &[7; 512][..]));
        path.returned(&mut out, false);
        assert_eq!(path.touched, 512);
        let mut into = path.registered(Memory::zeroed(512));
        path.returned(&mut into, true);
        assert_eq!(path.touched, 1024);
        assert_eq!((path.through(vec![1; 8].into()).len(), path.touched), (8, 1032));
    }
}
