//! `nvmfspec host read` and `write`: ranges of blocks, cut into commands, to and from files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Write};
use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;
use nvmf_engine::host::{Payload, command};
use nvmf_wire::{Nsid, Sqe};

use super::show::transfer_limit;
use super::{Client, Failure};

/// Data of one command where the controller sets no smaller limit, bytes.
const PART: u64 = 128 * 1024;
/// Most bytes of one hex dump, and of a source held in memory.
const MOST: u64 = 1 << 30;

/// What to read.
#[derive(Args, Debug)]
pub struct ReadArgs {
    /// The namespace
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=0xffff_fffe))]
    nsid: u32,
    /// The first block
    #[arg(long, default_value_t = 0)]
    lba: u64,
    /// How many blocks
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    blocks: u64,
    /// Write the data to this file instead of dumping it; - is standard output
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// What to write.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("source").required(true))]
pub struct WriteArgs {
    /// The namespace
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=0xffff_fffe))]
    nsid: u32,
    /// The first block
    #[arg(long, default_value_t = 0)]
    lba: u64,
    /// How many blocks; with --file as many as it has, unless given
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    blocks: Option<u64>,
    /// Take the data from this file; - is standard input. The end of the last block is filled with zeroes
    #[arg(long, value_name = "FILE", group = "source")]
    file: Option<PathBuf>,
    /// `lba`: each block holds its own number, as 8 bytes again and again; or a byte such as 0xa5
    #[arg(long, value_name = "lba|BYTE", group = "source", value_parser = pattern)]
    pattern: Option<Pattern>,
    /// Read everything back and compare
    #[arg(long)]
    verify: bool,
}

/// What blocks are filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Its own number.
    Lba,
    /// One byte.
    Byte(u8),
}

fn pattern(text: &str) -> Result<Pattern, String> {
    if text == "lba" {
        return Ok(Pattern::Lba);
    }
    let byte = match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    byte.map(Pattern::Byte).ok_or_else(|| "expected `lba` or a byte such as 0xa5".into())
}

impl Pattern {
    fn fill(self, lba: u64, blocks: u64, block: u32) -> Bytes {
        match self {
            Self::Byte(b) => vec![b; (blocks * u64::from(block)) as usize].into(),
            Self::Lba => {
                let word = |n: u64| std::iter::repeat_n(n.to_le_bytes(), block as usize / 8);
                (lba..lba + blocks).flat_map(word).flatten().collect::<Vec<u8>>().into()
            }
        }
    }
}

/// Data to be written, read before anything is connected, so that a wrong name costs nothing.
#[derive(Debug)]
pub enum Source {
    /// A file's content.
    Data(Bytes),
    /// A pattern.
    Pattern(Pattern),
}

/// Opens what the options name.
pub(super) fn source(args: &WriteArgs) -> Result<Source, Failure> {
    let Some(path) = &args.file else {
        return Ok(Source::Pattern(args.pattern.unwrap_or(Pattern::Lba)));
    };
    let failed = |e: std::io::Error| Failure::Local(format!("{}: {e}", path.display()));
    let mut data = Vec::new();
    if path.as_os_str() == "-" {
        std::io::stdin().lock().take(MOST + 1).read_to_end(&mut data).map_err(failed)?;
    } else {
        File::open(path).and_then(|f| f.take(MOST + 1).read_to_end(&mut data)).map_err(failed)?;
    }
    match data.len() as u64 {
        0 => Err(Failure::Usage(format!("{} is empty", path.display()))),
        n if n > MOST => Err(Failure::Usage(format!("{} has more than {MOST} bytes", path.display()))),
        _ => Ok(Source::Data(data.into())),
    }
}

/// Block size of a namespace, bytes; refuses ranges that end behind it.
fn block_of(client: &mut Client, nsid: Nsid, lba: u64, blocks: u64) -> Result<u32, Failure> {
    let ns = client.namespace(nsid)?;
    let block = ns.block_bytes().filter(|b| *b >= 512 && *b <= 1 << 20);
    let Some(block) = block.filter(|_| ns.nsze() > 0) else {
        return Err(Failure::Usage(format!("namespace {} is not active, or its format is not one to read or write", nsid.0)));
    };
    match lba.checked_add(blocks) {
        Some(end) if end <= ns.nsze() => Ok(block),
        _ => Err(Failure::Usage(format!("namespace {} has {} blocks: the range ends behind them", nsid.0, ns.nsze()))),
    }
}

/// Blocks of each command: (first, count).
fn parts(client: &Client, lba: u64, blocks: u64, block: u32) -> impl Iterator<Item = (u64, u32)> + use<> {
    let bytes = transfer_limit(client).unwrap_or(PART).min(PART);
    let step = (bytes / u64::from(block)).clamp(1, 65_536);
    (0..blocks.div_ceil(step)).map(move |n| (lba + n * step, step.min(blocks - n * step) as u32))
}

/// Runs the commands and gives their data in order.
fn in_order(
    client: &mut Client,
    what: &'static str,
    commands: impl Iterator<Item = (u64, Sqe, Payload)>,
    mut take: impl FnMut(&[Bytes]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut firsts = BTreeMap::new();
    let mut early = BTreeMap::new();
    let (mut next, mut failed) = (0, None);
    let noted = std::cell::RefCell::new(&mut firsts);
    let commands = commands.enumerate().map(|(n, (first, sqe, payload))| {
        noted.borrow_mut().insert(n, first);
        (sqe, payload)
    });
    client.run(commands, |n, done| {
        let first = noted.borrow_mut().remove(&n).unwrap_or(0);
        if !done.status().is_success() && failed.is_none() {
            failed = Some(Failure::Local(format!("{what} at block {first} failed with {}", done.status())));
        }
        early.insert(n, done.data);
        while let Some(data) = early.remove(&next) {
            next += 1;
            if failed.is_none()
                && let Err(e) = take(data.pieces())
            {
                failed = Some(e);
            }
        }
    })?;
    failed.map_or(Ok(()), Err)
}

pub(super) fn read(client: &mut Client, args: &ReadArgs) -> Result<String, Failure> {
    let nsid = Nsid(args.nsid);
    let block = block_of(client, nsid, args.lba, args.blocks)?;
    let total = args.blocks.saturating_mul(block.into());
    let (mut dump, mut sink): (Vec<u8>, Option<Box<dyn Write>>) = match &args.file {
        None if total > MOST => return Err(Failure::Usage(format!("{total} bytes are too many to dump; give --file"))),
        None => (Vec::new(), None),
        Some(path) if path.as_os_str() == "-" => (Vec::new(), Some(Box::new(std::io::stdout().lock()))),
        Some(path) => match File::create(path) {
            Ok(f) => (Vec::new(), Some(Box::new(f))),
            Err(e) => return Err(Failure::Local(format!("{}: {e}", path.display()))),
        },
    };
    let commands =
        parts(client, args.lba, args.blocks, block).map(|(lba, n)| (lba, command::read(nsid, lba, n), Payload::In(n * block)));
    in_order(client, "Read", commands, |pieces| {
        for piece in pieces {
            match &mut sink {
                None => dump.extend_from_slice(piece),
                Some(w) => w.write_all(piece).map_err(|e| Failure::Local(format!("the data could not be written: {e}")))?,
            }
        }
        Ok(())
    })?;
    if let Some(w) = &mut sink {
        w.flush().map_err(|e| Failure::Local(format!("the data could not be written: {e}")))?;
    }
    Ok(hex(&dump, args.lba * u64::from(block)))
}

pub(super) fn write(client: &mut Client, args: &WriteArgs, source: Source) -> Result<String, Failure> {
    let nsid = Nsid(args.nsid);
    // The block size is not known before the namespace was asked, the number of blocks perhaps not before that.
    let block = block_of(client, nsid, args.lba, args.blocks.unwrap_or(1))?;
    let blocks = match (&source, args.blocks) {
        (_, Some(n)) => n,
        (Source::Data(d), None) => (d.len() as u64).div_ceil(block.into()),
        (Source::Pattern(_), None) => 1,
    };
    block_of(client, nsid, args.lba, blocks)?;
    let total = blocks.saturating_mul(block.into());
    if let Source::Data(d) = &source
        && (d.len() as u64) <= total.saturating_sub(block.into())
    {
        return Err(Failure::Usage(format!("the file has {} bytes, {blocks} blocks need {total}", d.len())));
    }
    let content = |lba: u64, n: u32| match &source {
        Source::Pattern(p) => p.fill(lba, n.into(), block),
        Source::Data(d) => {
            let from = ((lba - args.lba) * u64::from(block)) as usize;
            let want = n as usize * block as usize;
            let have = d.slice(from.min(d.len())..(from + want).min(d.len()));
            if have.len() == want { have } else { [&have[..], &vec![0; want - have.len()]].concat().into() }
        }
    };
    let commands =
        parts(client, args.lba, blocks, block).map(|(lba, n)| (lba, command::write(nsid, lba, n), Payload::Out(content(lba, n))));
    in_order(client, "Write", commands, |_| Ok(()))?;
    if args.verify {
        let mut at = args.lba;
        let mut rest = parts(client, args.lba, blocks, block);
        let commands =
            parts(client, args.lba, blocks, block).map(|(lba, n)| (lba, command::read(nsid, lba, n), Payload::In(n * block)));
        in_order(client, "Read", commands, |pieces| {
            let Some((lba, n)) = rest.next() else { return Ok(()) };
            at = lba;
            let same = content(lba, n) == pieces.concat();
            if same { Ok(()) } else { Err(Failure::Local(format!("blocks {lba} to {} read back differ", lba + u64::from(n) - 1))) }
        })?;
    }
    let seen = if args.verify { ", read back equal" } else { "" };
    Ok(format!("{blocks} blocks of {block} bytes written from block {} on{seen}\n", args.lba))
}

/// Sixteen bytes a line, with the offset; equal lines are shown once, then as `*`.
fn hex(data: &[u8], base: u64) -> String {
    let mut out = String::new();
    let mut last: Option<&[u8]> = None;
    let mut starred = false;
    let lines = data.chunks(16);
    let count = lines.len();
    for (n, line) in lines.enumerate() {
        if last == Some(line) && n + 1 < count {
            if !starred {
                out.push_str("*\n");
            }
            starred = true;
            continue;
        }
        starred = false;
        last = Some(line);
        let _ = write!(out, "{:08x} ", base + 16 * n as u64);
        for b in line {
            let _ = write!(out, " {b:02x}");
        }
        let text: String = line.iter().map(|b| if (0x20..0x7f).contains(b) { char::from(*b) } else { '.' }).collect();
        let _ = writeln!(out, "{:1$}  |{text}|", "", 3 * (16 - line.len()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert_eq!(pattern("lba"), Ok(Pattern::Lba));
        assert_eq!(pattern("0xa5"), Ok(Pattern::Byte(0xa5)));
        assert_eq!(pattern("7"), Ok(Pattern::Byte(7)));
        assert!(pattern("256").is_err() && pattern("x").is_err() && pattern("").is_err());
        let two = Pattern::Lba.fill(0x0102, 2, 512);
        assert_eq!((two.len(), &two[..8], &two[1016..]), (1024, &[2, 1, 0, 0, 0, 0, 0, 0][..], &[3, 1, 0, 0, 0, 0, 0, 0][..]));
    }

    #[test]
    fn a_dump_shows_equal_lines_once_and_the_last_one_always() {
        let mut data = vec![0; 64];
        data.extend_from_slice(b"NVMe");
        let text = hex(&data, 0x200);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(lines[1], "*");
        assert!(lines[2].starts_with("00000240  4e 56 4d 65   ") && lines[2].ends_with("  |NVMe|"), "{text}");
    }
}
