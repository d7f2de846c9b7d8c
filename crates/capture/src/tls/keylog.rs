//! Key log files: the secrets of TLS connections, one a line, as TLS libraries write them for analysers (`SSLKEYLOGFILE`).
//! [RFC 9850; NSS key log format]
//!
//! A line holds a label, the client random (32 bytes, hex) that tells the connection, and the secret (hex). Lines that start with `#`
//! and empty ones are comments.

use std::collections::BTreeMap;
use std::fmt;

use crate::exchange::Direction;

/// Most connections whose secrets one key log keeps.
pub const MAX_CONNECTIONS: usize = 65_536;

/// Longest secret that is kept, bytes: the hash of TLS_AES_256_GCM_SHA384.
const MAX_SECRET: usize = 48;

/// The labels whose secrets are used, with their place: those of the handshake, then those of application data.
const USED: [(&str, usize, Direction); 4] = [
    ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", 0, Direction::HostToController),
    ("SERVER_HANDSHAKE_TRAFFIC_SECRET", 0, Direction::ControllerToHost),
    ("CLIENT_TRAFFIC_SECRET_0", 1, Direction::HostToController),
    ("SERVER_TRAFFIC_SECRET_0", 1, Direction::ControllerToHost),
];

/// Secrets by client random.
#[derive(Clone, Default)]
pub struct KeyLog {
    connections: BTreeMap<[u8; 32], Secrets>,
}

/// The secrets of one connection: `of[0]` for the handshake, `of[1]` for application data, each by direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets {
    of: [[Option<Box<[u8]>>; 2]; 2],
}

impl Secrets {
    pub(crate) fn handshake(&self, dir: Direction) -> Option<&[u8]> {
        self.get(0, dir)
    }

    pub(crate) fn traffic(&self, dir: Direction) -> Option<&[u8]> {
        self.get(1, dir)
    }

    fn get(&self, epoch: usize, dir: Direction) -> Option<&[u8]> {
        self.of.get(epoch)?.get(dir.index())?.as_deref()
    }
}

/// Why a key log cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLogError {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong with it. It never quotes the line: that could be a secret.
    pub why: String,
}

impl fmt::Display for KeyLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for KeyLogError {}

/// Tells how many connections there are, not their secrets.
impl fmt::Debug for KeyLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLog").field("connections", &self.connections.len()).finish()
    }
}

impl KeyLog {
    /// Reads a key log. Labels that are not used here, or not known, are passed over with whatever follows them.
    pub fn read(text: &[u8]) -> Result<Self, KeyLogError> {
        let mut log = Self::default();
        log.add(text)?;
        Ok(log)
    }

    /// Adds the lines of another key log. Those before a line that is wrong are kept.
    pub fn add(&mut self, text: &[u8]) -> Result<(), KeyLogError> {
        for (i, line) in text.split(|b| *b == b'\n').enumerate() {
            self.line(line).map_err(|why| KeyLogError { line: i + 1, why })?;
        }
        Ok(())
    }

    /// Connections of which there is a secret.
    #[must_use]
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// True where there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    pub(crate) fn secrets(&self, client_random: &[u8; 32]) -> Option<&Secrets> {
        self.connections.get(client_random)
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let line = std::str::from_utf8(line).map_err(|_| "is no text".to_owned())?.trim_end_matches('\r');
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (label, rest) = line.split_once(' ').ok_or("has no label, client random and secret")?;
        if label.is_empty() || !label.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_') {
            return Err("does not start with a label such as CLIENT_TRAFFIC_SECRET_0".to_owned());
        }
        let Some((_, epoch, dir)) = USED.iter().find(|(name, ..)| *name == label) else { return Ok(()) };
        let (random, secret) = rest.split_once(' ').ok_or("has no secret behind the client random")?;
        let random: [u8; 32] = unhex(random)
            .and_then(|r| r.try_into().ok())
            .ok_or_else(|| format!("{} characters of client random, 64 of hex are due", random.len()))?;
        let digits = secret.len();
        let secret = unhex(secret)
            .filter(|s| matches!(s.len(), 32 | MAX_SECRET))
            .ok_or_else(|| format!("{digits} characters of secret, 64 or 96 of hex are due"))?;
        if self.connections.len() >= MAX_CONNECTIONS && !self.connections.contains_key(&random) {
            return Err(format!("more than {MAX_CONNECTIONS} connections"));
        }
        let place = self.connections.entry(random).or_default().of.get_mut(*epoch).and_then(|d| d.get_mut(dir.index()));
        match place {
            Some(Some(known)) if **known != *secret => Err(format!("a second {label} of the same connection, and another one")),
            Some(place) => {
                *place = Some(secret.into());
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |b: u8| char::from(b).to_digit(16);
    let bytes = pairs.iter().map(|[h, l]| Some((digit(*h)? << 4 | digit(*l)?) as u8));
    if rest.is_empty() { bytes.collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, random: &str, secret: &str) -> String {
        format!("{label} {} {}\n", random.repeat(32), secret.repeat(32))
    }

    #[test]
    fn labels_that_are_not_used_are_passed_over() {
        let text = format!(
            "# a comment\r\n\n{}{}CLIENT_RANDOM zz\nSOME_LABEL_OF_2030 what ever\n",
            line("CLIENT_TRAFFIC_SECRET_0", "0a", "F1").replace('\n', "\r\n"),
            line("EXPORTER_SECRET", "0b", "02"),
        );
        let log = KeyLog::read(text.as_bytes()).unwrap();
        assert_eq!(log.len(), 1);
        let secrets = log.secrets(&[10; 32]).unwrap();
        assert_eq!(secrets.traffic(Direction::HostToController), Some(&[0xf1; 32][..]));
        assert_eq!(secrets.traffic(Direction::ControllerToHost), None);
        assert_eq!(secrets.handshake(Direction::HostToController), None);
        assert_eq!(format!("{log:?}"), "KeyLog { connections: 1 }");
    }

    #[test]
    fn a_wrong_line_is_told_by_its_number() {
        let good = line("SERVER_HANDSHAKE_TRAFFIC_SECRET", "01", "02");
        let secret = "SERVER_HANDSHAKE_TRAFFIC_SECRET";
        let cases = [
            (b"-----BEGIN PRIVATE KEY-----\n".to_vec(), "does not start with a label"),
            (b"CLIENT_TRAFFIC_SECRET_0\n".to_vec(), "has no label, client random and secret"),
            (b"CLIENT_TRAFFIC_SECRET_0 0102\n".to_vec(), "has no secret"),
            (format!("{secret} 01 02\n").into_bytes(), "2 characters of client random"),
            (format!("{secret} {} 0g\n", "01".repeat(32)).into_bytes(), "2 characters of secret"),
            (format!("{secret} {} {}\n", "01".repeat(32), "02".repeat(31)).into_bytes(), "62 characters of secret"),
            (line(secret, "01", "03").into_bytes(), "and another one"),
            (vec![0xff, b'\n'], "is no text"),
        ];
        for (bytes, why) in cases {
            let text = [good.as_bytes(), b"# fine\n", good.as_bytes(), &bytes].concat();
            let mut log = KeyLog::default();
            let e = log.add(&text).unwrap_err();
            assert_eq!(e.line, 4);
            assert!(e.to_string().contains(why), "{e}");
            assert_eq!(log.len(), 1, "what stood before is kept");
        }
    }

    #[test]
    fn the_number_of_connections_is_limited() {
        let mut log = KeyLog::default();
        for i in 0..MAX_CONNECTIONS as u64 {
            let text = format!("CLIENT_TRAFFIC_SECRET_0 {i:064x} {}", "00".repeat(32));
            log.add(text.as_bytes()).unwrap();
        }
        let e = log.add(format!("CLIENT_TRAFFIC_SECRET_0 {} {}", "ff".repeat(32), "00".repeat(32)).as_bytes()).unwrap_err();
        assert!(e.why.contains("more than 65536"), "{e}");
        let same = format!("SERVER_TRAFFIC_SECRET_0 {:064x} {}", 7, "00".repeat(32));
        log.add(same.as_bytes()).expect("a connection that is known may have more secrets");
    }
}
