//! Lines of a scene: words, then values by name; and what a value can be.

use core::time::Duration;

use nom::branch::alt;
use nom::bytes::complete::{tag, take_while1};
use nom::character::complete::{char, digit1, space0};
use nom::combinator::{all_consuming, map, map_res, opt, recognize, value};
use nom::multi::many0;
use nom::sequence::{delimited, preceded, separated_pair, terminated};
use nom::{IResult, Parser};

use crate::lan::PerMillion;

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub words: Vec<&'a str>,
    pub with: Vec<(&'a str, &'a str)>,
}

/// A statement; `None` for an empty line or a comment. The error is the column, from 1 on.
pub(super) fn line(text: &str) -> Result<Option<Line<'_>>, usize> {
    let text = text.split_once(" #").map_or(text, |(t, _)| t).trim_end();
    if text.trim_start().is_empty() || text.trim_start().starts_with('#') {
        return Ok(None);
    }
    let words = many0(preceded(space0, terminated(alt((quoted, word, tag("="))), nom::combinator::not(char('=')))));
    let with = many0(preceded(space0, separated_pair(word, char('='), alt((quoted, word)))));
    let whole: IResult<&str, _> = (words, with).parse(text);
    match whole {
        Ok((rest, (words, with))) if rest.trim().is_empty() && !words.is_empty() => Ok(Some(Line { words, with })),
        Ok((rest, _)) => Err(text.len() - rest.trim_start().len() + 1),
        Err(_) => Err(1),
    }
}

fn word(i: &str) -> IResult<&str, &str> {
    take_while1(|c: char| c.is_alphanumeric() || "-_.:%/<>".contains(c)).parse(i)
}

fn quoted(i: &str) -> IResult<&str, &str> {
    delimited(char('"'), nom::bytes::complete::take_while(|c| c != '"'), char('"')).parse(i)
}

/// Reads all of `text`, or nothing.
pub(super) fn whole<T>(text: &str, parser: impl Fn(&str) -> IResult<&str, T>) -> Option<T> {
    all_consuming(parser).parse(text).ok().map(|(_, v)| v)
}

/// A number.
pub(super) fn number(i: &str) -> IResult<&str, u64> {
    map_res(digit1, str::parse).parse(i)
}

/// Bytes: `512`, `4KiB`, `1MiB`.
pub(super) fn size(i: &str) -> IResult<&str, u64> {
    let unit = alt((value(1 << 10, tag("KiB")), value(1 << 20, tag("MiB")), value(1 << 30, tag("GiB"))));
    map_res((number, opt(unit)), |(n, u)| n.checked_mul(u.unwrap_or(1u64)).ok_or(())).parse(i)
}

/// A time: `5ns`, `20us`, `20ms`, `1s`, `2min`; `0` needs no unit.
pub(super) fn time(i: &str) -> IResult<&str, Duration> {
    let unit = alt((
        value(1u64, tag("ns")),
        value(1_000, tag("us")),
        value(60_000_000_000, tag("min")),
        value(1_000_000, tag("ms")),
        value(1_000_000_000, tag("s")),
    ));
    let with_unit = map_res((number, unit), |(n, u)| n.checked_mul(u).map(Duration::from_nanos).ok_or(()));
    alt((with_unit, value(Duration::ZERO, char('0')))).parse(i)
}

/// Bits a second: `100Mbit`, `25Gbit`.
pub(super) fn rate(i: &str) -> IResult<&str, u64> {
    let unit = alt((value(1_000_000, tag("Mbit")), value(1_000_000_000, tag("Gbit"))));
    map_res((number, unit), |(n, u): (u64, u64)| n.checked_mul(u).ok_or(())).parse(i)
}

/// A part of all: `1%`, `0.01%`, `1/10000`.
pub(super) fn share(i: &str) -> IResult<&str, PerMillion> {
    let percent = map(terminated(recognize((digit1, opt((char('.'), digit1)))), char('%')), |t: &str| {
        PerMillion((t.parse::<f64>().unwrap_or(0.0).min(100.0) * 10_000.0).round() as u32)
    });
    let part = map_res(separated_pair(number, char('/'), number), |(n, of)| match of {
        0 => Err(()),
        of => Ok(PerMillion((n.saturating_mul(1_000_000) / of).min(1_000_000) as u32)),
    });
    alt((percent, part)).parse(i)
}

/// One value, or a range of them: `4KiB`, `4KiB..64KiB`. A range that ends before it begins is none.
pub(super) fn range<T: Copy + PartialOrd>(i: &str, one: impl Fn(&str) -> IResult<&str, T>) -> IResult<&str, (T, T)> {
    let ends = (&one, opt(preceded(tag(".."), &one)));
    map_res(ends, |(a, b)| match b {
        None => Ok((a, a)),
        Some(b) if b >= a => Ok((a, b)),
        Some(_) => Err(()),
    })
    .parse(i)
}

/// The names that `h1..8` stands for; any other word is one name.
pub(super) fn names(word: &str) -> Vec<String> {
    let Some((first, last)) = word.split_once("..") else { return vec![word.into()] };
    let stem = first.trim_end_matches(|c: char| c.is_ascii_digit());
    match (first[stem.len()..].parse::<u32>(), last.parse::<u32>()) {
        (Ok(a), Ok(b)) if a <= b && b - a < 1024 => (a..=b).map(|n| format!("{stem}{n}")).collect(),
        _ => vec![word.into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let l = line("  link h1..8 sw rate=25Gbit delay=1us # a comment").unwrap().unwrap();
        assert_eq!((l.words, l.with), (vec!["link", "h1..8", "sw"], vec![("rate", "25Gbit"), ("delay", "1us")]));
        assert_eq!(line("says \"two words\"").unwrap().unwrap().words, ["says", "two words"]);
        assert_eq!(line("expect h touched = 0").unwrap().unwrap().words, ["expect", "h", "touched", "=", "0"]);
        assert_eq!((line("   "), line("# x")), (Ok(None), Ok(None)));
        assert_eq!((line("load h1 ops= 3"), line("a=1"), line("link h1 sw ?")), (Err(9), Err(4), Err(12)));
    }

    #[test]
    fn values() {
        assert_eq!((whole("64KiB", size), whole("7", size), whole("4KB", size)), (Some(65536), Some(7), None));
        assert_eq!((whole("20ms", time), whole("0", time)), (Some(Duration::from_millis(20)), Some(Duration::ZERO)));
        assert_eq!((whole("1min", time), whole("3", time)), (Some(Duration::from_secs(60)), None));
        assert_eq!(whole("99999999999999999999s", time), None);
        let parts = ["1%", "0.01%", "1/10000", "100%", "2/0", "1"].map(|t| whole(t, share).map(|p| p.0));
        assert_eq!(parts, [Some(10_000), Some(100), Some(100), Some(1_000_000), None, None]);
        assert_eq!(whole("4KiB..64KiB", |i| range(i, size)), Some((4096, 65536)));
        assert_eq!((whole("5..4", |i| range(i, number)), whole("5", |i| range(i, number))), (None, Some((5, 5))));
        assert_eq!(whole("25Gbit", rate), Some(25_000_000_000));
    }

    #[test]
    fn several_names_in_one_word() {
        assert_eq!(names("h1..3"), ["h1", "h2", "h3"]);
        assert_eq!((names("sw"), names("h3..1"), names("a..b")), (vec!["sw".into()], vec!["h3..1".into()], vec!["a..b".into()]));
    }
}
