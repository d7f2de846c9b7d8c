//! The handshake messages that a bystander needs: what was offered, what was chosen. [RFC 8446, 4]
//!
//! Messages are read as far as they are needed; a message that contradicts itself gives `None`.

use bytes::Bytes;

use super::notice::{Group, Notice, Suite, Version};

/// Handshake message types. [RFC 8446, 4]
pub(super) mod kind {
    pub(in crate::tls) const CLIENT_HELLO: u8 = 1;
    pub(in crate::tls) const SERVER_HELLO: u8 = 2;
    pub(in crate::tls) const NEW_SESSION_TICKET: u8 = 4;
    pub(in crate::tls) const FINISHED: u8 = 20;
    pub(in crate::tls) const KEY_UPDATE: u8 = 24;
}

/// Extensions. [RFC 8446, 4.2]
mod extension {
    pub(super) const PRE_SHARED_KEY: u16 = 41;
    pub(super) const EARLY_DATA: u16 = 42;
    pub(super) const SUPPORTED_VERSIONS: u16 = 43;
    pub(super) const KEY_SHARE: u16 = 51;
}

/// The random of a ServerHello that is a HelloRetryRequest. [RFC 8446, 4.1.3]
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a,
    0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Big-endian fields from the front of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.first_chunk().map(|b| u16::from_be_bytes(*b))
    }

    /// A vector with a length of one byte.
    fn short(&mut self) -> Option<&'a [u8]> {
        let n = self.u8()?;
        self.take(n.into())
    }

    /// A vector with a length of two bytes.
    fn long(&mut self) -> Option<&'a [u8]> {
        let n = self.u16()?;
        self.take(n.into())
    }
}

/// What a ClientHello offers.
pub(super) fn client_hello(body: &[u8]) -> Option<Notice> {
    let mut r = Reader(body);
    r.u16()?;
    let random = *r.take(32)?.first_chunk()?;
    r.short()?;
    let suites = r.long()?.as_chunks::<2>().0.iter().map(|b| Suite(u16::from_be_bytes(*b))).collect();
    r.short()?;
    let (mut identities, mut early_data) = (Vec::new(), false);
    let mut extensions = Reader(if r.0.is_empty() { &[] } else { r.long()? });
    while !extensions.0.is_empty() {
        let (id, body) = (extensions.u16()?, extensions.long()?);
        match id {
            extension::EARLY_DATA => early_data = true,
            extension::PRE_SHARED_KEY => {
                let mut list = Reader(Reader(body).long()?);
                while !list.0.is_empty() {
                    identities.push(Bytes::copy_from_slice(list.long()?));
                    list.take(4)?;
                }
            }
            _ => {}
        }
    }
    Some(Notice::ClientHello { random, suites, identities, early_data })
}

/// What a ServerHello chose out of the PSK identities `offered`, or that it is a HelloRetryRequest.
pub(super) fn server_hello(body: &[u8], offered: &[Bytes]) -> Option<Notice> {
    let mut r = Reader(body);
    let mut version = Version(r.u16()?);
    let retry = r.take(32)? == RETRY;
    r.short()?;
    let suite = Suite(r.u16()?);
    r.u8()?;
    let (mut group, mut identity) = (None, None);
    let mut extensions = Reader(if r.0.is_empty() { &[] } else { r.long()? });
    while !extensions.0.is_empty() {
        let (id, body) = (extensions.u16()?, extensions.long()?);
        match id {
            extension::SUPPORTED_VERSIONS => version = Version(Reader(body).u16()?),
            extension::KEY_SHARE => group = Some(Group(Reader(body).u16()?)),
            extension::PRE_SHARED_KEY => identity = offered.get(usize::from(Reader(body).u16()?)).cloned(),
            _ => {}
        }
    }
    Some(match retry {
        true => Notice::HelloRetryRequest { suite, group },
        false => Notice::ServerHello { version, suite, group, identity },
    })
}

/// The lifetime that a NewSessionTicket gives, seconds.
pub(super) fn ticket_lifetime(body: &[u8]) -> Option<u32> {
    body.first_chunk().map(|b| u32::from_be_bytes(*b))
}
