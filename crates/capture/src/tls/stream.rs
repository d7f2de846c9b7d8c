//! Both directions of one TLS connection, from records to what they carry. [RFC 8446, 5]
//!
//! Nothing that a record says is trusted: its length is limited, and what does not authenticate is reported and left out. Where
//! bytes are missing, the next record that authenticates under a number not far ahead gives the place back.

use bytes::{Bytes, BytesMut};

use super::handshake::{self, kind};
use super::keylog::{KeyLog, Secrets};
use super::keys::{self, Keys, TAG};
use super::notice::{Alert, Notice, Suite, Version};
use crate::exchange::Direction;
use crate::trace::hex;

/// Bytes of a record header.
const HEADER: usize = 5;
/// Longest body of a record, bytes. [RFC 8446, 5.2]
const MAX_BODY: usize = (1 << 14) + 256;
/// What a record of application data adds to its data: header, content type, tag.
const OVERHEAD: u64 = (HEADER + 1 + TAG) as u64;
/// Longest handshake message, bytes. NVMe/TCP has no certificates; key shares of all groups fit.
const MAX_HANDSHAKE: usize = 32 << 10;
/// Most bytes that wait for the ServerHello.
const MAX_EARLY: usize = 32 << 10;
/// How far ahead the number of the record may be that gives the place back.
const MAX_AHEAD: u64 = 256;
/// Bytes of records that are tried under other numbers than the next, until one of them opens.
const MAX_TRIED: u64 = 4 << 20;

/// What is said of records behind one that did not open.
const NONE_OPENS: &str = "no TLS record opens";

/// Content types. [RFC 8446, 5.1]
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

/// What comes out of a [`Stream`].
#[derive(Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// Application data: the PDUs' stream.
    Data(&'a [u8]),
    /// So many bytes of application data are missing, counted as if no record were padded.
    Missing(u64),
    /// TLS speaks of itself.
    Notice(Notice),
    /// Records, or what stands in their place, that give nothing.
    Unopened {
        /// Offset in the TCP stream of this direction, bytes.
        offset: u64,
        /// Why.
        why: String,
        /// The record; empty where no record starts there.
        bytes: Bytes,
        /// How many bytes of the TCP stream there are.
        len: u64,
    },
}

/// One TLS connection. Bytes go in by [`push`](Self::push); what they give goes to `emit`, with its direction.
#[derive(Debug, Default)]
pub struct Stream {
    sides: [Side; 2],
    random: Option<[u8; 32]>,
    identities: Vec<Bytes>,
    suite: Option<Suite>,
    secrets: Secrets,
    /// Why records cannot be opened, once that is known; what was said of it is not said again.
    closed: Option<String>,
    said: bool,
}

#[derive(Debug, Default)]
struct Side {
    buffer: BytesMut,
    /// Offset in the TCP stream of the first byte of `buffer`.
    offset: u64,
    /// Handshake messages that are not complete.
    handshake: BytesMut,
    phase: Phase,
    lost: Option<Lost>,
    /// Bytes that were tried under other numbers since a record opened.
    tried: u64,
}

#[derive(Debug, Default)]
enum Phase {
    /// No keys yet.
    #[default]
    Start,
    /// This side does not speak TLS: its bytes are the PDUs' stream.
    Clear,
    /// Keys of the handshake, or of application data (`true`).
    Keyed(Keys, bool),
    /// Nothing more is read.
    Blind,
}

/// Where records were lost.
#[derive(Debug)]
struct Lost {
    /// Offset behind the last record that opened; `None` where none is due to have opened yet.
    from: Option<u64>,
    /// Offset up to which was told what is wrong.
    told: u64,
    why: String,
}

/// One record, cut out.
struct Record {
    kind: u8,
    offset: u64,
    bytes: BytesMut,
}

impl Stream {
    /// A connection whose first bytes are still to come.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// True where a stream that starts like this is TLS: the start of a ClientHello. `None` where more bytes are needed.
    #[must_use]
    pub fn starts(start: &[u8]) -> Option<bool> {
        // A handshake record of version 3.x that starts a ClientHello.
        let right = |i: usize, b: u8| match i {
            0 => b == HANDSHAKE,
            1 => b == 3,
            2 => b <= 4,
            5 => b == kind::CLIENT_HELLO,
            _ => true,
        };
        let good = start.iter().take(6).enumerate().all(|(i, b)| right(i, *b));
        if good && start.len() < 6 { None } else { Some(good) }
    }

    /// Takes bytes of one direction, in order. The host is the TLS client.
    pub fn push(&mut self, dir: Direction, bytes: &[u8], keys: &KeyLog, mut emit: impl FnMut(Direction, Output<'_>)) {
        self.side(dir).buffer.extend_from_slice(bytes);
        self.run(dir, keys, &mut emit);
        // What the host sent before the ServerHello was seen may have waited for it.
        if dir == Direction::ControllerToHost {
            self.run(dir.reverse(), keys, &mut emit);
        }
    }

    /// `len` bytes of one direction are missing.
    pub fn gap(&mut self, dir: Direction, len: u64, mut emit: impl FnMut(Direction, Output<'_>)) {
        let side = self.side(dir);
        match &side.phase {
            Phase::Clear => {
                side.offset += len;
                emit(dir, Output::Missing(len));
            }
            Phase::Blind => side.offset += len,
            Phase::Keyed(..) => {
                side.lose(format!("a gap of {len} bytes hides where the next TLS record starts"));
                side.drop_front(side.buffer.len());
                side.offset += len;
            }
            Phase::Start => {
                side.drop_front(side.buffer.len());
                side.offset += len;
                self.shut("a gap hides the TLS handshake".to_owned());
                self.blind(dir, BytesMut::new(), &mut emit);
                self.side(dir.reverse()).phase = Phase::Blind;
            }
        }
    }

    /// One direction ended: what is left can never become a record.
    pub fn end(&mut self, dir: Direction, mut emit: impl FnMut(Direction, Output<'_>)) {
        let side = self.side(dir);
        if matches!(side.phase, Phase::Clear | Phase::Blind) {
            return;
        }
        let left = side.buffer.len();
        if side.lost.is_none() && left > 0 {
            side.lose(format!("ends after {left} bytes of a TLS record"));
        }
        side.drop_front(left);
        if let Some(Lost { told, why, .. }) = side.lost.take()
            && side.offset > told
        {
            emit(dir, Output::Unopened { offset: told, why, bytes: Bytes::new(), len: side.offset - told });
        }
        side.phase = Phase::Blind;
    }

    fn side(&mut self, dir: Direction) -> &mut Side {
        let [host, controller] = &mut self.sides;
        if dir == Direction::HostToController { host } else { controller }
    }

    fn run(&mut self, dir: Direction, log: &KeyLog, emit: &mut impl FnMut(Direction, Output<'_>)) {
        loop {
            let known = self.suite.is_some() || self.closed.is_some();
            let side = self.side(dir);
            match &mut side.phase {
                Phase::Clear => {
                    let bytes = side.buffer.split();
                    side.offset += bytes.len() as u64;
                    if !bytes.is_empty() {
                        emit(dir, Output::Data(&bytes));
                    }
                    return;
                }
                Phase::Blind => return side.drop_front(side.buffer.len()),
                _ => {}
            }
            if side.lost.is_some() {
                if !self.seek(dir, log, emit) {
                    return;
                }
                continue;
            }
            match side.cut(known) {
                Cut::More => return,
                Cut::Early => {
                    self.shut("TLS records of the host come before the ServerHello".to_owned());
                }
                Cut::Clear => side.phase = Phase::Clear,
                Cut::Broken(why) if matches!(side.phase, Phase::Start) => {
                    let header = side.buffer.split_to(HEADER);
                    side.offset += HEADER as u64;
                    self.shut(why);
                    self.blind(dir, header, emit);
                }
                Cut::Broken(why) => side.lose(why),
                Cut::Record(record) => self.record(dir, record, log, emit),
            }
        }
    }

    fn record(&mut self, dir: Direction, mut record: Record, log: &KeyLog, emit: &mut impl FnMut(Direction, Output<'_>)) {
        let side = self.side(dir);
        let body = record.bytes.split_off(HEADER);
        match (&mut side.phase, record.kind) {
            (_, CHANGE_CIPHER_SPEC) => {}
            (_, ALERT) if body.len() == 2 => emit(dir, Output::Notice(Notice::Alert(Alert(body.last().copied().unwrap_or(0))))),
            (Phase::Start, HANDSHAKE) => self.messages(dir, &body, log, emit),
            (Phase::Keyed(keys, _), APPLICATION_DATA) => {
                let mut body = body;
                let (seq, offset) = (keys.seq, record.offset);
                match keys.open(seq, &record.bytes, &mut body) {
                    Some(len) => {
                        keys.seq = seq.saturating_add(1);
                        body.truncate(len);
                        self.opened(dir, offset, &body, log, emit);
                    }
                    None => {
                        let why = format!("TLS record {seq} does not authenticate: other keys, or changed on its way");
                        let len = (HEADER + body.len()) as u64;
                        record.bytes.unsplit(body);
                        side.lost = Some(Lost { from: Some(offset), told: offset + len, why: NONE_OPENS.to_owned() });
                        emit(dir, Output::Unopened { offset, why, bytes: record.bytes.freeze(), len });
                    }
                }
            }
            (Phase::Start, _) => {
                record.bytes.unsplit(body);
                self.shut("a TLS record before any secret is agreed".to_owned());
                self.blind(dir, record.bytes, emit);
            }
            (_, kind) => {
                let len = (HEADER + body.len()) as u64;
                record.bytes.unsplit(body);
                let why = format!("a TLS record of type {kind} that is not protected");
                emit(dir, Output::Unopened { offset: record.offset, why, bytes: record.bytes.freeze(), len });
            }
        }
    }

    /// Looks for a record that opens, under the next number or one not far ahead, with these keys or those that follow them. False
    /// where more bytes are needed.
    fn seek(&mut self, dir: Direction, log: &KeyLog, emit: &mut impl FnMut(Direction, Output<'_>)) -> bool {
        let following = self.following(dir);
        let side = self.side(dir);
        let was_data = matches!(side.phase, Phase::Keyed(_, true));
        let Some(found) = side.find(following) else {
            if side.tried > MAX_TRIED {
                let why = side.lost.as_ref().map_or(NONE_OPENS, |l| &l.why).to_owned();
                self.said = false;
                self.closed = Some(format!("{why}; it is given up"));
                self.blind(dir, BytesMut::new(), emit);
            }
            return false;
        };
        let Some(lost) = side.lost.take() else { return true };
        side.handshake.clear();
        if found.offset > lost.told {
            let len = found.offset - lost.told;
            emit(dir, Output::Unopened { offset: lost.told, why: lost.why, bytes: Bytes::new(), len });
        }
        let is_data = matches!(side.phase, Phase::Keyed(_, true));
        // The first record of application data, found at once, is behind the handshake alone.
        if let Some(from) = lost.from.filter(|_| was_data || (is_data && found.passed > 0)) {
            let missing = (found.offset - from).saturating_sub(found.passed * OVERHEAD);
            if missing > 0 {
                emit(dir, Output::Missing(missing));
            }
        }
        self.opened(dir, found.offset, &found.inner, log, emit);
        true
    }

    /// The keys that come after those in use: of application data behind the handshake, else what a KeyUpdate brings.
    fn following(&mut self, dir: Direction) -> Option<Keys> {
        match &self.side(dir).phase {
            Phase::Keyed(_, false) => self.suite.and_then(|suite| Keys::new(suite, self.secrets.traffic(dir)?)),
            Phase::Keyed(keys, true) => keys.updated(),
            _ => None,
        }
    }

    /// What was protected: content, its type, and zeroes.
    fn opened(&mut self, dir: Direction, offset: u64, inner: &[u8], log: &KeyLog, emit: &mut impl FnMut(Direction, Output<'_>)) {
        let end = inner.iter().rposition(|b| *b != 0);
        let (content, kind) = match end.and_then(|end| inner.get(..=end)).and_then(<[u8]>::split_last) {
            Some((kind, content)) => (content, *kind),
            None => (&[][..], 0),
        };
        match kind {
            APPLICATION_DATA if content.is_empty() => {}
            APPLICATION_DATA => emit(dir, Output::Data(content)),
            HANDSHAKE => self.messages(dir, content, log, emit),
            ALERT => emit(dir, Output::Notice(Notice::Alert(Alert(content.get(1).copied().unwrap_or(0))))),
            _ => {
                let (why, len) = (format!("a TLS record that holds content of type {kind}"), inner.len() as u64);
                emit(dir, Output::Unopened { offset, why, bytes: Bytes::new(), len });
            }
        }
    }

    /// Handshake messages, which may be cut anywhere.
    fn messages(&mut self, dir: Direction, content: &[u8], log: &KeyLog, emit: &mut impl FnMut(Direction, Output<'_>)) {
        self.side(dir).handshake.extend_from_slice(content);
        loop {
            let side = self.side(dir);
            let Some([kind, a, b, c]) = side.handshake.first_chunk::<4>().copied() else { return };
            let len = u32::from_be_bytes([0, a, b, c]) as usize;
            if len > MAX_HANDSHAKE {
                self.shut(format!("a TLS handshake message of {len} bytes"));
                return self.blind(dir, BytesMut::new(), emit);
            }
            if side.handshake.len() < 4 + len {
                return;
            }
            let mut message = side.handshake.split_to(4 + len);
            let body = message.split_off(4);
            self.message(dir, kind, &body, log, emit);
        }
    }

    fn message(&mut self, dir: Direction, kind: u8, body: &[u8], log: &KeyLog, emit: &mut impl FnMut(Direction, Output<'_>)) {
        let host = dir == Direction::HostToController;
        let start = matches!(self.side(dir).phase, Phase::Start);
        let notice = match kind {
            kind::CLIENT_HELLO if host && start => handshake::client_hello(body),
            kind::SERVER_HELLO if !host && start => handshake::server_hello(body, &self.identities),
            kind::FINISHED if !start => Some(Notice::Finished),
            kind::NEW_SESSION_TICKET if !host && !start => handshake::ticket_lifetime(body).map(Notice::NewSessionTicket),
            kind::KEY_UPDATE if !start => Some(Notice::KeyUpdate(body == [1])),
            _ => None,
        };
        let Some(notice) = notice else { return };
        match &notice {
            Notice::ClientHello { random, identities, .. } => {
                self.random = Some(*random);
                self.identities.clone_from(identities);
            }
            Notice::ServerHello { version, suite, .. } => self.chosen(*version, *suite, log),
            Notice::Finished => self.application_keys(dir),
            Notice::KeyUpdate(_) => {
                if let Phase::Keyed(keys, true) = &mut self.side(dir).phase
                    && let Some(next) = keys.updated()
                {
                    *keys = next;
                }
            }
            _ => {}
        }
        emit(dir, Output::Notice(notice));
    }

    /// Version and suite are known: the secrets are looked up, and both sides go on with the keys of the handshake.
    fn chosen(&mut self, version: Version, suite: Suite, log: &KeyLog) {
        self.suite = Some(suite);
        let Some(random) = self.random else { return self.shut("the ClientHello is missing".to_owned()) };
        if version != Version::TLS_1_3 {
            return self.shut(format!("{version}, which is not opened"));
        }
        if keys::secret_len(suite).is_none() {
            return self.shut(format!("{suite}, which is not opened"));
        }
        let Some(secrets) = log.secrets(&random) else {
            return self.shut(format!("TLS 1.3, no secret for client random {}", hex(&random, 32)));
        };
        self.secrets = secrets.clone();
        for dir in [Direction::HostToController, Direction::ControllerToHost] {
            let handshake = self.secrets.handshake(dir).and_then(|s| Keys::new(suite, s));
            let traffic = self.secrets.traffic(dir).and_then(|s| Keys::new(suite, s));
            let side = self.side(dir);
            match (handshake, traffic) {
                (Some(keys), _) => side.phase = Phase::Keyed(keys, false),
                // What is left of the handshake is passed over, up to the first record of application data.
                (None, Some(keys)) => {
                    side.phase = Phase::Keyed(keys, true);
                    let at = side.offset;
                    side.lost = Some(Lost { from: None, told: at, why: "a handshake whose secret is not there".to_owned() });
                }
                (None, None) => self.lacks(dir, suite, &random),
            }
        }
    }

    fn application_keys(&mut self, dir: Direction) {
        let (Some(suite), Some(random)) = (self.suite, self.random) else { return };
        if !matches!(self.side(dir).phase, Phase::Keyed(_, false)) {
            return;
        }
        match self.secrets.traffic(dir).and_then(|s| Keys::new(suite, s)) {
            Some(keys) => self.side(dir).phase = Phase::Keyed(keys, true),
            None => {
                self.side(dir).phase = Phase::Start;
                self.lacks(dir, suite, &random);
            }
        }
    }

    fn lacks(&mut self, dir: Direction, suite: Suite, random: &[u8; 32]) {
        let whose = if dir == Direction::HostToController { "client" } else { "server" };
        self.shut(format!("TLS 1.3, no {whose} secret that fits {suite} for client random {}", hex(random, 32)));
    }

    fn shut(&mut self, why: String) {
        self.closed.get_or_insert(why);
    }

    /// Says why nothing more is read of a direction, unless that was said of the other.
    fn blind(&mut self, dir: Direction, record: BytesMut, emit: &mut impl FnMut(Direction, Output<'_>)) {
        let why = self.closed.clone().unwrap_or_default();
        let said = std::mem::replace(&mut self.said, true);
        let side = self.side(dir);
        side.phase = Phase::Blind;
        side.handshake = BytesMut::new();
        let offset = side.lost.take().map_or(side.offset - record.len() as u64, |lost| lost.told);
        let len = side.offset.saturating_sub(offset);
        if !said {
            emit(dir, Output::Unopened { offset, why, bytes: record.freeze(), len });
        }
    }
}

enum Cut {
    /// More bytes are needed.
    More,
    /// More waits for the ServerHello than may.
    Early,
    /// This side does not speak TLS.
    Clear,
    Broken(String),
    Record(Record),
}

/// A record that opened where the place was lost.
struct Found {
    offset: u64,
    /// How many records were passed over.
    passed: u64,
    inner: BytesMut,
}

fn body_len(high: u8, low: u8) -> usize {
    usize::from(u16::from_be_bytes([high, low]))
}

impl Side {
    /// The next record. `known`: the ServerHello was seen, so that a protected record need not wait.
    fn cut(&mut self, known: bool) -> Cut {
        let Some(first) = self.buffer.first().copied() else { return Cut::More };
        if self.offset == 0 && !(CHANGE_CIPHER_SPEC..=APPLICATION_DATA).contains(&first) {
            return Cut::Clear;
        }
        let Some([kind, major, _, high, low]) = self.buffer.first_chunk::<HEADER>().copied() else { return Cut::More };
        let len = body_len(high, low);
        if !(CHANGE_CIPHER_SPEC..=APPLICATION_DATA).contains(&kind) || major != 3 || len > MAX_BODY {
            return Cut::Broken(format!("no TLS record: type {kind}, version {major}, {len} bytes"));
        }
        if kind == APPLICATION_DATA && matches!(self.phase, Phase::Start) && !known {
            return if self.buffer.len() > MAX_EARLY { Cut::Early } else { Cut::More };
        }
        if self.buffer.len() < HEADER + len {
            return Cut::More;
        }
        let bytes = self.buffer.split_to(HEADER + len);
        let offset = self.offset;
        self.offset += bytes.len() as u64;
        Cut::Record(Record { kind, offset, bytes })
    }

    /// The first whole record in the buffer that opens while the place is lost. What stands before it is dropped.
    fn find(&mut self, mut following: Option<Keys>) -> Option<Found> {
        loop {
            let looks = |w: &[u8]| matches!(w, [APPLICATION_DATA, 3, 3, h, l] if (TAG + 1..=MAX_BODY).contains(&body_len(*h, *l)));
            let Some(at) = self.buffer.windows(HEADER).position(looks) else {
                self.drop_front(self.buffer.len().saturating_sub(HEADER - 1));
                return None;
            };
            self.drop_front(at);
            let len = self.buffer.get(3..HEADER).map_or(0, |b| b.iter().fold(0, |n, b| n << 8 | usize::from(*b)));
            let Phase::Keyed(keys, data) = &mut self.phase else { return None };
            let (header, rest) = self.buffer.split_at_mut_checked(HEADER)?;
            let body = rest.get_mut(..len)?;
            let from = self.lost.as_ref().and_then(|l| l.from);
            let ahead = from.map_or(0, |from| (self.offset.saturating_sub(from) / OVERHEAD + 1).min(MAX_AHEAD));
            let mut attempt = |keys: &Keys, first: u64| {
                (0..=ahead).find_map(|n| {
                    self.tried += len as u64;
                    let seq = first.saturating_add(n);
                    if self.tried > MAX_TRIED { None } else { keys.open(seq, header, body).map(|inner| (seq, n, inner)) }
                })
            };
            let opened = attempt(keys, keys.seq).or_else(|| {
                let next = following.as_ref()?;
                let opened = attempt(next, 0)?;
                *keys = following.take()?;
                *data = true;
                Some(opened)
            });
            let Some((seq, passed, inner)) = opened else {
                if self.tried > MAX_TRIED {
                    return None;
                }
                self.drop_front(1);
                continue;
            };
            keys.seq = seq.saturating_add(1);
            self.tried = 0;
            let offset = self.offset;
            self.offset += (HEADER + len) as u64;
            let mut record = self.buffer.split_to(HEADER + len).split_off(HEADER);
            record.truncate(inner);
            return Some(Found { offset, passed, inner: record });
        }
    }

    /// The place in the stream of records is lost from here on.
    fn lose(&mut self, why: String) {
        let at = self.offset;
        self.lost.get_or_insert(Lost { from: Some(at), told: at, why });
    }

    fn drop_front(&mut self, n: usize) {
        let n = n.min(self.buffer.len());
        drop(self.buffer.split_to(n));
        self.offset += n as u64;
    }
}
