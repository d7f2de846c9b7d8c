//! I/O commands that a controller may leave out: each where ONCS or FUSES has it.

use bytes::Bytes;
use nvmf_engine::host::{Payload, command};
use nvmf_net::ClientError;
use nvmf_wire::{Qid, Status};

use super::super::Client;
use super::data::{Ground, Named};
use super::{Step, Wrong, done, left};

pub(super) const WRITES: &[Named] = &[
    ("write zeroes", Ground::write_zeroes),
    ("compare", Ground::compare_command),
    ("compare and write", Ground::compare_and_write),
];

/// Blocks of each command here.
const BLOCKS: u64 = 4;

impl Ground {
    fn small(&self) -> u64 {
        BLOCKS.min(self.blocks)
    }

    /// What the blocks hold now.
    fn read_small(&self, client: &mut Client) -> Result<Bytes, Wrong> {
        let n = self.small();
        Ok(self.one(client, self.read(self.first, n), "Read", self.first)?.data.to_bytes())
    }

    fn write_zeroes(&self, client: &mut Client) -> Step {
        if !client.controller().oncs_wzs() {
            return left("ONCS has no Write Zeroes");
        }
        let n = self.small();
        self.one(client, self.write(self.first, n, 300), "Write", self.first)?;
        let sqe = command::write_zeroes(self.nsid, self.first, n as u32);
        self.one(client, (sqe, Payload::None), "Write Zeroes", self.first)?;
        if self.read_small(client)?.iter().any(|b| *b != 0) {
            return Err(Wrong::Step(format!("blocks {} on are not zero after Write Zeroes", self.first)));
        }
        done(format!("{n} blocks, read back zero"))
    }

    fn compare_command(&self, client: &mut Client) -> Step {
        if !client.controller().oncs_compare() {
            return left("ONCS has no Compare");
        }
        let n = self.small();
        self.one(client, self.write(self.first, n, 301), "Write", self.first)?;
        for (round, want) in [(301, Status::SUCCESS), (302, Status::COMPARE_FAILURE)] {
            let payload = Payload::Out(self.pattern(self.first, n, round));
            let status = client.execute(Qid(1), command::compare(self.nsid, self.first, n as u32), payload)?.status();
            if status.code() != want {
                return Err(Wrong::Step(format!("Compare gave {status} where {want} is right")));
            }
        }
        done(format!("{n} blocks, with equal and with other data"))
    }

    /// The first writes, the second finds other data than it compares with and leaves everything as it is. [NVM-FUSED-05, NVM-FUSED-06]
    fn compare_and_write(&self, client: &mut Client) -> Step {
        if !client.controller().fuses() {
            return left("FUSES has no Compare and Write");
        }
        let n = self.small();
        self.one(client, self.write(self.first, n, 303), "Write", self.first)?;
        let good = [Status::SUCCESS, Status::SUCCESS];
        let bad = [Status::COMPARE_FAILURE, Status::ABORTED_FAILED_FUSED];
        for (with, write, want) in [(303, 304, good), (303, 305, bad)] {
            let seen = self.pair(client, n, with, write)?;
            if seen != want {
                return Err(Wrong::Step(format!("{} and {} where {} and {} are right", seen[0], seen[1], want[0], want[1])));
            }
            let now = self.read_small(client)?;
            self.compare(&now, self.first, n, 304)?;
        }
        done(format!("{n} blocks, with equal and with other data"))
    }

    fn pair(&self, client: &mut Client, n: u64, with: u64, write: u64) -> Result<[Status; 2], ClientError> {
        let data = |round| Payload::Out(self.pattern(self.first, n, round));
        let first = (command::compare(self.nsid, self.first, n as u32), data(with));
        let second = (command::write(self.nsid, self.first, n as u32), data(write));
        let (a, b) = client.submit_fused(Qid(1), first, second)?;
        Ok([client.wait(Qid(1), a)?.status().code(), client.wait(Qid(1), b)?.status().code()])
    }
}
