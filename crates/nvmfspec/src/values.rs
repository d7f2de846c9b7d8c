//! Values of options that are more than a word: each with a `FromStr` whose error says what was expected.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use nvmf_capture::Transport;
use nvmf_wire::tcp::IO_PORT;

/// What carries queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TransportArg {
    /// NVMe/TCP
    #[default]
    Tcp,
    /// NVMe/RDMA over RoCEv2
    Rdma,
}

impl fmt::Display for TransportArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Rdma => "rdma",
        })
    }
}

impl From<TransportArg> for Transport {
    fn from(arg: TransportArg) -> Self {
        match arg {
            TransportArg::Tcp => Self::Tcp,
            TransportArg::Rdma => Self::Rdma,
        }
    }
}

/// `ADDR[:PORT]`: an address to listen on; port 4420 where none is given.
pub fn listen_at(text: &str) -> Result<SocketAddr, String> {
    let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    let plain = inner.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, IO_PORT));
    text.parse()
        .or(plain)
        .map_err(|_| "expected an IP address, with or without a port: 10.0.0.5, 10.0.0.5:4420, [fd00::5]:4420".into())
}

/// `HOST[:PORT]`: a name, an IPv4 address, or an IPv6 address, in brackets where a port follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// The name or address, without brackets.
    pub host: String,
    /// The port, if one was given.
    pub port: Option<u16>,
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected HOST, HOST:PORT, an IPv4 address or an IPv6 address as [ADDRESS]:PORT";
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, after) = rest.split_once(']').ok_or(format!("the bracket is not closed: {expected}"))?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| format!("`{host}` is no IPv6 address: {expected}"))?;
            match after {
                "" => (host, None),
                _ => (host, Some(after.strip_prefix(':').ok_or(format!("`{after}` after the bracket: {expected}"))?)),
            }
        } else if text.parse::<std::net::Ipv6Addr>().is_ok() {
            (text, None)
        } else {
            match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.is_empty() || !host.chars().all(is_name) {
            return Err(format!("`{host}` is no host: {expected}"));
        }
        let port = port.map(|p| p.parse().ok().filter(|p| *p != 0).ok_or(format!("`{p}` is no port: 1 to 65535 was expected")));
        Ok(Self { host: host.to_owned(), port: port.transpose()? })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.host.contains(':'), self.port) {
            (true, Some(port)) => write!(f, "[{}]:{port}", self.host),
            (false, Some(port)) => write!(f, "{}:{port}", self.host),
            (_, None) => f.write_str(&self.host),
        }
    }
}

/// `[NSID:]FIRST-LAST`: the blocks that may be written, the last one included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The namespace; `None` is the lowest active one.
    pub nsid: Option<u32>,
    /// The first block.
    pub first: u64,
    /// The last block.
    pub last: u64,
}

impl FromStr for Blocks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected [NSID:]FIRST-LAST in blocks, such as 0-8191 or 2:0x1000-0x1fff";
        let (nsid, range) = match text.split_once(':') {
            Some((nsid, range)) => (Some(nsid), range),
            None => (None, text),
        };
        let nsid = match nsid.map(number) {
            None => None,
            Some(Some(nsid @ 1..=0xffff_fffe)) => u32::try_from(nsid).ok(),
            Some(_) => return Err(format!("the NSID is 1 to 0xfffffffe: {expected}")),
        };
        let (first, last) = range.split_once('-').ok_or(expected)?;
        let (first, last) = (number(first).ok_or(expected)?, number(last).ok_or(expected)?);
        if last < first {
            return Err(format!("the last block lies before the first: {expected}"));
        }
        Ok(Self { nsid, first, last })
    }
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(nsid) = self.nsid {
            write!(f, "{nsid}:")?;
        }
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// A number in decimal, or in hexadecimal after `0x`.
fn number(text: &str) -> Option<u64> {
    // The integer parsers would take a leading plus.
    if !text.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A seed: any 64-bit number.
pub fn seed(text: &str) -> Result<u64, String> {
    number(text).ok_or_else(|| "expected a number from 0 to 2^64 - 1, in decimal or after 0x".into())
}

/// What patience is multiplied by.
pub fn scale(text: &str) -> Result<f64, String> {
    let scale = text.parse::<f64>().ok().filter(|x| (0.001..=1000.0).contains(x));
    scale.ok_or_else(|| "expected a number from 0.001 to 1000".into())
}

/// A time of 1 ms to 49 days, in milliseconds: a number of seconds, or a number with the unit `ms`, `s` or `min`. Decimals are taken down
/// to the millisecond.
pub fn millis(text: &str) -> Result<u32, String> {
    let expected = "expected seconds such as 2 or 0.5, or 500ms, 2s, 1min";
    let units = [("ms", 1.0), ("min", 60_000.0), ("s", 1000.0)];
    let unit = units.iter().find_map(|(unit, ms)| text.strip_suffix(unit).map(|n| (n, *ms)));
    let (digits, scale) = unit.unwrap_or((text, 1000.0));
    // The float parser would take signs, exponents, `inf` and `nan`.
    if !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(expected.into());
    }
    let ms = digits.parse::<f64>().map_err(|_| expected)? * scale;
    match ms.round() {
        ms if (1.0..=f64::from(u32::MAX)).contains(&ms) => Ok(ms as u32),
        _ => Err(format!("1 ms to 49 days: {expected}")),
    }
}

/// An NQN as the options take it: what it contains is for the target to judge; longer than its field it cannot be.
pub fn nqn(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("an NQN cannot be empty".into()),
        1..=223 => Ok(text.to_owned()),
        n => Err(format!("{n} bytes: an NQN has 223 at most")),
    }
}

/// A UUID, as 16 bytes in the order written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uuid(pub [u8; 16]);

impl FromStr for Uuid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected a UUID such as 6f4a3f0e-2b51-4c8e-9d0a-1d2c3b4a5f60";
        let groups: Vec<usize> = text.split('-').map(str::len).collect();
        if groups != [8, 4, 4, 4, 12] || !text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
            return Err(expected.into());
        }
        let digits = u128::from_str_radix(&text.replace('-', ""), 16).map_err(|_| expected)?;
        Ok(Self(digits.to_be_bytes()))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        let read = |text: &str| text.parse::<HostPort>().map(|h| (h.host, h.port));
        for (text, host, port) in [
            ("10.0.0.5", "10.0.0.5", None),
            ("10.0.0.5:4420", "10.0.0.5", Some(4420)),
            ("array-1.example", "array-1.example", None),
            ("array-1:8009", "array-1", Some(8009)),
            ("[fe80::1]:4420", "fe80::1", Some(4420)),
            ("[::1]", "::1", None),
            ("::1", "::1", None),
        ] {
            assert_eq!(read(text), Ok((host.to_owned(), port)), "{text}");
            let shown = text.parse::<HostPort>().expect("a host").to_string();
            assert_eq!(read(&shown), Ok((host.to_owned(), port)), "{text} as {shown}");
        }
        for text in ["", ":4420", "a:", "a:0", "a:65536", "a:x", "[::1", "[::1]4420", "[a]:1", "http://a", "a b", "a:1:2"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn places_to_listen() {
        let read = |text: &str| listen_at(text).map(|at| at.to_string());
        for (text, at) in [
            ("10.0.0.5", "10.0.0.5:4420"),
            ("10.0.0.5:1", "10.0.0.5:1"),
            ("fd00::5", "[fd00::5]:4420"),
            ("[fd00::5]", "[fd00::5]:4420"),
            ("[fd00::5]:8009", "[fd00::5]:8009"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(at));
        }
        assert!(["", "host", "10.0.0.5:", "10.0.0.5:65536"].iter().all(|text| listen_at(text).is_err()));
    }

    #[test]
    fn ranges_of_blocks() {
        let read = |text: &str| text.parse::<Blocks>().ok().map(|b| (b.nsid, b.first, b.last));
        assert_eq!(read("0-8191"), Some((None, 0, 8191)));
        assert_eq!(read("2:0x10-0x1f"), Some((Some(2), 16, 31)));
        assert_eq!(read("7-7"), Some((None, 7, 7)));
        for text in ["", "5", "5-4", "0:0-1", "4294967295:0-1", "-1-5", "1-", "a-b", "+1-5", "1:2:3-4", "0-18446744073709551616"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn the_rest() {
        assert_eq!(seed("0x10"), Ok(16));
        assert!(seed("-1").is_err() && seed("").is_err());
        assert_eq!(scale("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "nan", "inf", "1e9", "x"] {
            assert!(scale(wrong).is_err(), "{wrong}");
        }
        let times = [("2", 2000), ("0.5", 500), ("500ms", 500), ("2s", 2000), ("1.5s", 1500), ("2min", 120_000), ("0.001", 1)];
        for (text, ms) in times {
            assert_eq!(millis(text), Ok(ms), "{text}");
        }
        for wrong in ["", "0", "-1", "ms", "1h", "1e3", "inf", "0.1ms", "1 s", "50000000"] {
            assert!(millis(wrong).is_err(), "{wrong}");
        }
        assert!(nqn("").is_err() && nqn(&"x".repeat(224)).is_err() && nqn(&"x".repeat(223)).is_ok());
        let uuid: Uuid = "00112233-4455-6677-8899-aabbccddeeff".parse().expect("a UUID");
        assert_eq!(uuid.0[..4], [0, 0x11, 0x22, 0x33]);
        assert_eq!(uuid.to_string(), "00112233-4455-6677-8899-aabbccddeeff");
        for wrong in
            ["00112233445566778899aabbccddeeff", "00112233-4455-6677-8899-aabbccddeefg", "+0112233-4455-6677-8899-aabbccddeeff"]
        {
            assert!(wrong.parse::<Uuid>().is_err(), "{wrong}");
        }
    }
}
