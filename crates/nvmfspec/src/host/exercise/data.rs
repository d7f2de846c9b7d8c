//! Reads and writes of many sizes and depths. What is written is a pattern that differs by block and by write, and is read back.

use bytes::{BufMut, Bytes, BytesMut};
use nvmf_engine::host::{Completion, Payload, command};
use nvmf_seam::{Entropy as _, SplitMix64};
use nvmf_wire::{Nsid, Qid, Sqe, Status};

use super::super::Client;
use super::super::show::transfer_limit;
use super::{Step, Told, Wrong, done, left};
use crate::values::Blocks;

/// A step by its name.
pub(super) type Named = (&'static str, fn(&Ground, &mut Client) -> Step);

pub(super) const READS: &[Named] = &[("reads", Ground::reads), ("reads, by depth", Ground::deep_reads)];

pub(super) const WRITES: &[Named] = &[
    ("writes", Ground::writes),
    ("writes, by depth", Ground::deep_writes),
    ("write over MAXH2CDATA", Ground::long_write),
    ("flush", Ground::flush),
];

/// Blocks of the commands.
const SIZES: [u64; 12] = [1, 2, 3, 5, 8, 16, 17, 31, 64, 100, 128, 256];
/// Commands outstanding at once; the last is as many as fit.
const DEPTHS: [usize; 4] = [1, 4, 32, usize::MAX];
/// Commands of one depth.
const COMMANDS: usize = 96;
/// Most data of one command of this exercise, bytes.
const MOST: u64 = 16 << 20;
/// Most data of one command where its size is not the point, bytes: about what hosts send.
const USUAL: u64 = 1 << 20;

/// What a controller says to a length that it does not take.
const LENGTHS: [Status; 3] = [Status::DATA_SGL_LENGTH_INVALID, Status::INVALID_FIELD_IN_COMMAND, Status::DATA_TRANSFER_ERROR];

/// Where to read and write.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) nsid: Nsid,
    /// Bytes.
    pub(super) block: u32,
    pub(super) first: u64,
    /// Blocks from `first` on that may be used.
    pub(super) blocks: u64,
    write: bool,
}

impl Ground {
    /// The blocks that may be written, or all of the lowest active namespace to read.
    pub(super) fn find(client: &mut Client, allowed: Option<Blocks>) -> Result<Self, Wrong> {
        let lowest = client.namespaces()?.first().copied();
        let named = allowed.and_then(|b| b.nsid).map(Nsid);
        let nsid = named.or(lowest).ok_or_else(|| Wrong::Step("no namespace is active".into()))?;
        let ns = client.namespace(nsid)?;
        let block = ns.block_bytes().filter(|b| (512..=1 << 20).contains(b) && ns.nsze() > 0);
        let block = block.ok_or_else(|| Wrong::Step(format!("namespace {} has no format to read or write", nsid.0)))?;
        let (first, last) = allowed.map_or((0, ns.nsze() - 1), |b| (b.first, b.last));
        if last >= ns.nsze() {
            return Err(Wrong::Step(format!("namespace {} has {} blocks: the range ends behind them", nsid.0, ns.nsze())));
        }
        let blocks = (last - first).saturating_add(1);
        Ok(Self { nsid, block, first, blocks, write: allowed.is_some() })
    }

    pub(super) fn may_write(&self) -> bool {
        self.write
    }

    /// Most blocks of one command.
    pub(super) fn most(&self, client: &Client) -> u64 {
        let bytes = transfer_limit(client).unwrap_or(MOST).min(MOST);
        (bytes / u64::from(self.block)).min(self.blocks).clamp(1, 65_536)
    }

    fn sizes(&self, client: &Client) -> Vec<u64> {
        let most = self.most(client);
        SIZES.into_iter().filter(|n| *n <= most).collect()
    }

    pub(super) fn bytes(&self, blocks: u64) -> u32 {
        u32::try_from(blocks * u64::from(self.block)).unwrap_or(u32::MAX)
    }

    /// What block by block is written in round `round`.
    pub(super) fn pattern(&self, lba: u64, blocks: u64, round: u64) -> Bytes {
        let mut out = BytesMut::with_capacity(self.bytes(blocks) as usize);
        for n in lba..lba + blocks {
            let mut words = SplitMix64::new(n ^ round.rotate_left(40));
            for _ in 0..self.block / 8 {
                out.put_u64_le(words.next_u64());
            }
        }
        out.freeze()
    }

    pub(super) fn read(&self, lba: u64, blocks: u64) -> (Sqe, Payload) {
        (command::read(self.nsid, lba, blocks as u32), Payload::In(self.bytes(blocks)))
    }

    pub(super) fn write(&self, lba: u64, blocks: u64, round: u64) -> (Sqe, Payload) {
        (command::write(self.nsid, lba, blocks as u32), Payload::Out(self.pattern(lba, blocks, round)))
    }

    /// A command on the first I/O queue.
    pub(super) fn one(
        &self,
        client: &mut Client,
        (sqe, payload): (Sqe, Payload),
        what: &str,
        lba: u64,
    ) -> Result<Completion, Wrong> {
        let want = if let Payload::In(n) = payload { n as usize } else { 0 };
        let blocks = match &payload {
            Payload::None => 0,
            Payload::In(n) => u64::from(n / self.block),
            Payload::Out(data) => data.len() as u64 / u64::from(self.block),
            Payload::OutOf(m) | Payload::Into(m) => m.len() as u64 / u64::from(self.block),
        };
        let answer = client.execute(Qid(1), sqe, payload)?;
        sound(&answer, want, what, lba, blocks)?;
        Ok(answer)
    }

    pub(super) fn compare(&self, got: &Bytes, lba: u64, blocks: u64, round: u64) -> Result<(), Wrong> {
        if *got == self.pattern(lba, blocks, round) {
            Ok(())
        } else {
            Err(Wrong::Step(format!("blocks {lba} to {} read back differ from what was written", lba + blocks - 1)))
        }
    }

    /// One block, after another connect.
    pub(super) fn first_read(&self, client: &mut Client) -> Step {
        self.one(client, self.read(self.first, 1), "Read", self.first)?;
        done(format!("block {} of namespace {}", self.first, self.nsid.0))
    }

    fn reads(&self, client: &mut Client) -> Step {
        let mut sizes = self.sizes(client);
        sizes.push(self.most(client).min(USUAL / u64::from(self.block)).max(1));
        for n in &sizes {
            // At both ends.
            for lba in [self.first, self.first + self.blocks - n] {
                self.one(client, self.read(lba, *n), "Read", lba)?;
            }
        }
        let largest = sizes.iter().max().copied().unwrap_or(1);
        done(format!("{} of 1 to {largest} blocks of {} bytes", 2 * sizes.len(), self.block))
    }

    /// Pieces of changing size, one behind the other.
    fn pieces(&self, client: &Client) -> Vec<(u64, u64)> {
        let sizes = self.sizes(client);
        let (mut at, mut out) = (0, Vec::new());
        for n in sizes.iter().cycle().take(COMMANDS) {
            let n = (*n).min(self.blocks - at);
            if n == 0 {
                break;
            }
            out.push((self.first + at, n));
            at += n;
        }
        out
    }

    /// Runs commands, `depth` at a time, over all queues; gives each completion with its piece.
    fn deep(
        &self,
        client: &mut Client,
        pieces: &[(u64, u64)],
        depth: usize,
        make: impl Fn(u64, u64) -> (Sqe, Payload),
        what: &str,
        mut take: impl FnMut(&Completion, u64, u64) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        for batch in pieces.chunks(depth.min(pieces.len().max(1))) {
            let mut wrong = None;
            client.run(batch.iter().map(|(lba, n)| make(*lba, *n)), |index, answer| {
                let Some((lba, n)) = batch.get(index).copied() else { return };
                let want = if what == "Read" { self.bytes(n) as usize } else { 0 };
                let seen = sound(&answer, want, what, lba, n).and_then(|()| take(&answer, lba, n));
                wrong = wrong.take().or(seen.err());
            })?;
            if let Some(wrong) = wrong {
                return Err(wrong);
            }
        }
        Ok(())
    }

    fn deep_reads(&self, client: &mut Client) -> Step {
        let pieces = self.pieces(client);
        for depth in DEPTHS {
            self.deep(client, &pieces, depth, |lba, n| self.read(lba, n), "Read", |_, _, _| Ok(()))?;
        }
        done(self.depths(client, pieces.len()))
    }

    fn depths(&self, client: &Client, pieces: usize) -> String {
        format!("{pieces} at depth 1, 4, 32 and as many as fit, on {} queues", client.facts().io_queues)
    }

    fn writes(&self, client: &mut Client) -> Step {
        let sizes = self.sizes(client);
        for (n, round) in sizes.iter().zip(1..) {
            for lba in [self.first, self.first + self.blocks - n] {
                self.one(client, self.write(lba, *n, round), "Write", lba)?;
                let back = self.one(client, self.read(lba, *n), "Read", lba)?;
                self.compare(&back.data.to_bytes(), lba, *n, round)?;
            }
        }
        let largest = sizes.iter().max().copied().unwrap_or(1);
        done(format!("{} of 1 to {largest} blocks, read back equal", 2 * sizes.len()))
    }

    fn deep_writes(&self, client: &mut Client) -> Step {
        let pieces = self.pieces(client);
        for (depth, round) in DEPTHS.into_iter().zip(100..) {
            self.deep(client, &pieces, depth, |lba, n| self.write(lba, n, round), "Write", |_, _, _| Ok(()))?;
            let check = |answer: &Completion, lba, n| self.compare(&answer.data.to_bytes(), lba, n, round);
            self.deep(client, &pieces, depth, |lba, n| self.read(lba, n), "Read", check)?;
        }
        done(format!("{}, read back equal", self.depths(client, pieces.len())))
    }

    /// More than one H2CData PDU holds, where the range and MDTS have room for it. [TCP-ICRESP-11]
    ///
    /// MDTS is the only limit that a controller has a field for, and 0 says that there is none (FAB-IDENT-10). One that refuses a length
    /// within it deviates; what it does take is then looked for, and has to be right as ever.
    fn long_write(&self, client: &mut Client) -> Step {
        let most = self.most(client);
        let limit = client.facts().negotiated.get(&Qid(1)).and_then(|a| a.tcp()).map_or(0, |n| n.maxh2cdata);
        let need = u64::from(limit / self.block) + 3;
        if need > most {
            let room = self.bytes(most);
            return left(format!("one command can have {room} bytes here, MAXH2CDATA is {limit}"));
        }
        let mut refused = None;
        for (n, round) in [(need, 200), (most, 201)] {
            refused = self.long(client, n, round)?.map(|status| (n, status));
            if refused.is_some() {
                break;
            }
        }
        let Some((n, status)) = refused else {
            return done(format!("{} and {} bytes, MAXH2CDATA {limit}, read back equal", self.bytes(need), self.bytes(most)));
        };
        let promise = match transfer_limit(client) {
            Some(bytes) => format!("MDTS allows {bytes} bytes"),
            None => "MDTS 0 sets no limit".into(),
        };
        let told = format!("{promise}, yet a Write of {} bytes fails with {status} [FAB-IDENT-10]", self.bytes(n));
        let mut least = n;
        while least > 1 {
            // As much as one H2CData holds is the first guess.
            least = (u64::from(limit / self.block)).clamp(1, least - 1).max(least / 2);
            if self.long(client, least, 202)?.is_none() {
                let bytes = self.bytes(least);
                return Ok(Told::Deviates(format!("{told}; {bytes} bytes go, MAXH2CDATA {limit}, read back equal")));
            }
        }
        Err(Wrong::Step(told))
    }

    /// One Write, read back; or the status with which its length is refused.
    fn long(&self, client: &mut Client, blocks: u64, round: u64) -> Result<Option<Status>, Wrong> {
        let (sqe, payload) = self.write(self.first, blocks, round);
        let answer = client.execute(Qid(1), sqe, payload)?;
        if LENGTHS.contains(&answer.status().code()) {
            return Ok(Some(answer.status()));
        }
        sound(&answer, 0, "Write", self.first, blocks)?;
        let back = self.one(client, self.read(self.first, blocks), "Read", self.first)?;
        self.compare(&back.data.to_bytes(), self.first, blocks, round)?;
        Ok(None)
    }

    fn flush(&self, client: &mut Client) -> Step {
        self.one(client, (command::flush(self.nsid), Payload::None), "Flush", self.first)?;
        done(format!("namespace {}", self.nsid.0))
    }
}

pub(super) fn sound(answer: &Completion, want: usize, what: &str, lba: u64, blocks: u64) -> Result<(), Wrong> {
    match answer.status() {
        s if !s.is_success() => Err(Wrong::Step(format!("{what} of {blocks} blocks at block {lba} failed with {s}"))),
        _ if answer.data.len() != want => {
            Err(Wrong::Step(format!("{what} at block {lba} gave {} of {want} bytes", answer.data.len())))
        }
        _ => Ok(()),
    }
}
