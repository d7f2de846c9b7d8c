//! `nvmfspec ladder`: a picture of who sent what to whom.

use std::io::IsTerminal;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use nvmf_capture::Ladder;
use nvmf_capture::ladder::{Choice, Pick};
use nvmf_conformance::ExitStatus;
use nvmf_conformance::report::printable;
use nvmf_wire::Cid;

use crate::input::Input;
use crate::output;

const HELP: &str = "\
Examples:
  nvmfspec ladder run.pcapng                                  the first arrows, as text
  nvmfspec ladder --command 33 --svg write.svg run.pcapng     one command, as a picture with explanations
  nvmfspec ladder --command cid=0x57,conn=1 run.pcapng        the first with this Command Identifier on connection 1
  nvmfspec ladder --frames 120-160 --conn 1 run.pcapng
  nvmfspec ladder --time 1.5s-1600ms run.pcapng

Commands are numbered over the whole capture, and the arrows show their numbers; connections are those of `nvmfspec trace`. Three and more
pieces of data that go on are drawn as one arrow with their count. Below an arrow stands what the bystander rules find in it;
`nvmfspec explain ID` prints the requirement.

Exit status: 0 done; 1 nothing is there to draw; 2 usage; 3 the file could not be read, or the picture not be written.";

/// A capture to draw.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct LadderArgs {
    #[command(flatten)]
    input: Input,
    /// Write the picture as SVG into this file, instead of text to standard output
    #[arg(long, value_name = "OUT")]
    svg: Option<PathBuf>,
    /// Frames of the file, from 1: A-B, A- or -B, or one
    #[arg(long, value_name = "A-B", value_parser = frames)]
    frames: Option<RangeInclusive<u64>>,
    /// Time since the start of the capture: A-B, A- or -B, with units (1500ms-1.6s) or in milliseconds
    #[arg(long, value_name = "A-B", value_parser = times)]
    time: Option<RangeInclusive<u64>>,
    /// One connection
    #[arg(long, value_name = "N")]
    conn: Option<usize>,
    /// One command and all that belongs to it: its number, or cid=… with an optional ,conn=…
    #[arg(long, value_name = "N|cid=N", value_parser = pick)]
    command: Option<Pick>,
    /// Draw all data, also where they repeat
    #[arg(long)]
    all: bool,
    /// Most arrows
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

/// Draws the picture.
pub fn run(args: &LadderArgs) -> ExitCode {
    let mut ladder = Ladder::new(Choice {
        frames: args.frames.clone(),
        time_ns: args.time.clone(),
        conn: args.conn,
        command: args.command,
        unfolded: args.all,
        limit: args.limit as usize,
    });
    if let Err(status) = args.input.follow(&mut ladder) {
        return status;
    }
    let picture = ladder.finish();
    if picture.is_empty() {
        return output::refuse(ExitStatus::Failed, "nothing of the capture is in what was chosen");
    }
    let Some(path) = &args.svg else {
        // What peers sent may be in it.
        let text = printable(&picture.text());
        return output::print(&if std::io::stdout().is_terminal() { red(&text) } else { text });
    };
    if let Some(more) = picture.left_out() {
        eprintln!("note: {more}");
    }
    match std::fs::write(path, picture.svg(&args.input.file.display().to_string())) {
        Ok(()) => ExitStatus::Success.into(),
        Err(e) => output::refuse(ExitStatus::Harness, &format!("{} cannot be written: {e}", path.display())),
    }
}

/// Findings in red.
fn red(text: &str) -> String {
    let line = |l: &str| if l.trim_start().starts_with('!') { format!("\x1b[31m{l}\x1b[0m\n") } else { format!("{l}\n") };
    text.lines().map(line).collect()
}

fn frames(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number = |n: &str, open| match n.trim() {
        "" => Ok(open),
        n => n.parse::<u64>().map_err(|_| format!("{n:?} is no frame number")),
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = number(first, 1)?..=number(last, u64::MAX)?;
    if range.is_empty() { Err("the first is behind the last".to_owned()) } else { Ok(range) }
}

fn times(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text.split_once('-').ok_or("two times with a - between them")?;
    let time = |t: &str, open| if t.trim().is_empty() { Ok(open) } else { nanoseconds(t) };
    let range = time(first, 0)?..=time(last, u64::MAX)?;
    if range.is_empty() { Err("the first is behind the last".to_owned()) } else { Ok(range) }
}

fn nanoseconds(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let units = [("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("ns", 1e-9), ("s", 1.0), ("", 1e-3)];
    let found = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, seconds) = found.unwrap_or((text, &1e-3));
    let value: f64 = number.parse().map_err(|_| format!("{text:?} is no time"))?;
    let time = Duration::try_from_secs_f64(value * seconds).map_err(|_| format!("{text:?} is no time of a capture"))?;
    u64::try_from(time.as_nanos()).map_err(|_| format!("{text:?} is too long"))
}

fn pick(text: &str) -> Result<Pick, String> {
    if let Ok(number) = text.parse() {
        return Ok(Pick::Number(number));
    }
    let (mut cid, mut conn) = (None, None);
    for part in text.split(',') {
        match part.split_once('=') {
            Some(("cid", n)) => cid = Some(short(n)?),
            Some(("conn", n)) => conn = Some(n.parse().map_err(|_| format!("{n:?} is no connection"))?),
            _ => return Err(format!("{part:?}: a number, or cid=N with an optional ,conn=N")),
        }
    }
    cid.map(|cid| Pick::Cid { cid: Cid(cid), conn }).ok_or_else(|| "cid=N is missing".to_owned())
}

fn short(text: &str) -> Result<u16, String> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u16::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number.map_err(|_| format!("{text:?} is no Command Identifier"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_picks_are_read() {
        assert_eq!(frames("3-9"), Ok(3..=9));
        assert_eq!(frames("7"), Ok(7..=7));
        assert_eq!((frames("9-"), frames("-9")), (Ok(9..=u64::MAX), Ok(1..=9)));
        assert_eq!(times("1s-"), Ok(1_000_000_000..=u64::MAX));
        assert!(frames("9-3").is_err() && frames("a").is_err());
        assert_eq!(times("1.5s-1600ms"), Ok(1_500_000_000..=1_600_000_000));
        assert!(times("2-3us").is_err(), "2 ms are more than 3 us");
        assert_eq!(times("250us-2"), Ok(250_000..=2_000_000));
        assert!(times("1e300s-1e301s").is_err() && times("5").is_err());
        assert_eq!(pick("12"), Ok(Pick::Number(12)));
        assert_eq!(pick("cid=0x57,conn=1"), Ok(Pick::Cid { cid: Cid(0x57), conn: Some(1) }));
        assert!(pick("cid=70000").is_err() && pick("conn=1").is_err() && pick("x").is_err());
    }

    #[test]
    fn findings_alone_are_red() {
        assert_eq!(red("a -->|\n   ! X\n"), "a -->|\n\u{1b}[31m   ! X\u{1b}[0m\n");
    }
}
