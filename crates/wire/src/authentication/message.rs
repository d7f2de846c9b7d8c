//! The messages of in-band authentication: AUTH_Negotiate, the four of DH-HMAC-CHAP, and the two failures. [Base 2.0, 8.13.3 to 8.13.5]
//!
//! Each is a head of fixed length, in a table, and values whose lengths the head gives. [`Message::read`] takes one apart. DH values
//! are big-endian octet strings; all else is little-endian. Authentication Receive may allocate more than the message is long: what
//! is behind it has no meaning.

use alloc::vec::Vec;
use core::fmt;

use nom::bytes::complete::take;
use nom::{IResult, Parser};

use crate::layout::{DecodeError, Layout, Structure};

layout! {
    /// What all messages start with. The host chooses T_ID, which is the same through a transaction. [Base 2.0, 8.13.3]
    pub struct AuthMessage[6] {
        auth_type: AuthType @ 0 "Authentication Type (AUTH_TYPE)",
        auth_id: AuthId @ 1 "Authentication Identifier (AUTH_ID), within its type",
        t_id: u16 @ 4 "Transaction Identifier (T_ID)",
    }

    /// AUTH_Negotiate, from the host; NAPD descriptors of 64 bytes follow. [Base 2.0, 8.13.4.1]
    pub struct AuthNegotiate[8] of AuthMessage {
        sc_c: SecureChannel @ 6 "Secure Channel Protocol Concatenation (SC_C)",
        napd: u8 @ 7 "Number of Authentication Protocol Descriptors (NAPD)",
    }

    /// Authentication protocol descriptor for DH-HMAC-CHAP: what the host can use, best first. [Base 2.0, 8.13.5.2]
    pub struct AuthDescriptor[64] {
        authid: AuthProtocol @ 0 "Authentication Protocol Identifier (AuthID)",
        halen: u8 @ 2 "Hash Algorithm List Length (HALEN): identifiers, 1 to 30",
        dhlen: u8 @ 3 "Diffie-Hellman Group Identifier List Length (DHLEN): identifiers, 1 to 30",
        hashes: [u8; 30] @ 4 "Hash identifiers (HashID), HALEN of them, then zeroes",
        groups: [u8; 30] @ 34 "Diffie-Hellman group identifiers (DHgID), DHLEN of them, then zeroes",
    }

    /// DH-HMAC-CHAP_Challenge, from the controller; the challenge C1 (HL bytes) and the controller's DH value (DHVLEN bytes) follow.
    /// [Base 2.0, 8.13.5.3]
    pub struct DhchapChallenge[16] of AuthMessage {
        hl: u8 @ 6 "Hash Length (HL), bytes",
        hashid: HashId @ 8 "Hash Identifier (HashID)",
        dhgid: DhGroup @ 9 "Diffie-Hellman Group Identifier (DHgID)",
        dhvlen: u16 @ 10 "Diffie-Hellman Value Length (DHVLEN), bytes",
        seqnum: u32 @ 12 "Sequence Number (SEQNUM): S1",
    }

    /// DH-HMAC-CHAP_Reply, from the host; the response R1, the challenge C2 (HL bytes each) and the host's DH value (DHVLEN bytes)
    /// follow. [Base 2.0, 8.13.5.4]
    pub struct DhchapReply[16] of AuthMessage {
        hl: u8 @ 6 "Hash Length (HL), bytes",
        cvalid: u8 @ 8 "Challenge Valid (CVALID): 1 where C2 is to be answered",
        dhvlen: u16 @ 10 "Diffie-Hellman Value Length (DHVLEN), bytes",
        seqnum: u32 @ 12 "Sequence Number (SEQNUM): S2",
    }

    /// DH-HMAC-CHAP_Success1, from the controller; the response R2 (HL bytes) follows, also where RVALID is 0. [Base 2.0, 8.13.5.5]
    pub struct DhchapSuccess1[16] of AuthMessage {
        hl: u8 @ 6 "Hash Length (HL), bytes",
        rvalid: u8 @ 8 "Response Valid (RVALID): 1 where R2 answers a challenge",
    }

    /// DH-HMAC-CHAP_Success2, from the host. [Base 2.0, 8.13.5.6]
    pub struct DhchapSuccess2[16] of AuthMessage {}

    /// AUTH_Failure1 (from the controller) and AUTH_Failure2 (from the host). [Base 2.0, 8.13.4.2]
    pub struct AuthFailure[8] of AuthMessage {
        reason: FailureReason @ 6 "Reason Code",
        explanation: FailureExplanation @ 7 "Reason Code Explanation",
    }
}

open_enum! {
    /// Authentication Type (AUTH_TYPE). [Base 2.0, 8.13.3]
    pub struct AuthType(u8) {
        COMMON = 0x00 "common messages",
        DH_HMAC_CHAP = 0x01 "DH-HMAC-CHAP",
    }
    /// Authentication Identifier (AUTH_ID). 01h to 04h belong to DH-HMAC-CHAP, the others to the common messages. [Base 2.0, 8.13.3]
    pub struct AuthId(u8) {
        NEGOTIATE = 0x00 "AUTH_Negotiate",
        CHALLENGE = 0x01 "DH-HMAC-CHAP_Challenge",
        REPLY = 0x02 "DH-HMAC-CHAP_Reply",
        SUCCESS1 = 0x03 "DH-HMAC-CHAP_Success1",
        SUCCESS2 = 0x04 "DH-HMAC-CHAP_Success2",
        FAILURE2 = 0xf0 "AUTH_Failure2",
        FAILURE1 = 0xf1 "AUTH_Failure1",
    }
    /// Secure Channel Protocol Concatenation (SC_C): whether TLS is to follow. [Base 2.0, 8.13.4.1; Base 2.1, 8.3.4.4.1]
    pub struct SecureChannel(u8) {
        NONE = 0x00 "no secure channel",
        TLS = 0x01 "TLS, obsolete since 2.1",
        NEW_TLS_PSK = 0x02 "new TLS PSK (NEWTLSPSK)",
        REPLACE_TLS_PSK = 0x03 "replace TLS PSK (REPLACETLSPSK)",
    }
    /// Authentication Protocol Identifier (AuthID). [Base 2.0, 8.13.4.1]
    pub struct AuthProtocol(u8) {
        DH_HMAC_CHAP = 0x01 "DH-HMAC-CHAP",
    }
    /// Hash Identifier (HashID). [Base 2.0, 8.13.5.2]
    pub struct HashId(u8) {
        SHA_256 = 0x01 "SHA-256",
        SHA_384 = 0x02 "SHA-384",
        SHA_512 = 0x03 "SHA-512",
    }
    /// Diffie-Hellman Group Identifier (DHgID). [Base 2.0, 8.13.5.2; RFC 7919]
    pub struct DhGroup(u8) {
        NULL = 0x00 "NULL",
        FFDHE2048 = 0x01 "ffdhe2048",
        FFDHE3072 = 0x02 "ffdhe3072",
        FFDHE4096 = 0x03 "ffdhe4096",
        FFDHE6144 = 0x04 "ffdhe6144",
        FFDHE8192 = 0x05 "ffdhe8192",
    }
    /// Reason Code of a failure. [Base 2.0, 8.13.4.2]
    pub struct FailureReason(u8) {
        AUTHENTICATION_FAILURE = 0x01 "authentication failure",
    }
    /// Reason Code Explanation of a failure. [Base 2.0, 8.13.4.2]
    pub struct FailureExplanation(u8) {
        FAILED = 0x01 "authentication failed",
        PROTOCOL_NOT_USABLE = 0x02 "authentication protocol not usable",
        CONCATENATION_MISMATCH = 0x03 "secure channel concatenation mismatch",
        HASH_NOT_USABLE = 0x04 "hash function not usable",
        GROUP_NOT_USABLE = 0x05 "Diffie-Hellman group not usable",
        INCORRECT_PAYLOAD = 0x06 "incorrect payload",
        INCORRECT_MESSAGE = 0x07 "incorrect protocol message",
    }
}

impl HashId {
    /// Length of the hash, bytes; `None` for an identifier that the text does not have.
    pub fn length(self) -> Option<u8> {
        match self {
            Self::SHA_256 => Some(32),
            Self::SHA_384 => Some(48),
            Self::SHA_512 => Some(64),
            _ => None,
        }
    }
}

impl DhGroup {
    /// Length of a value of the group, bytes: 0 for NULL; `None` for an identifier that the text does not have.
    pub fn length(self) -> Option<u16> {
        match self {
            Self::NULL => Some(0),
            Self::FFDHE2048 => Some(256),
            Self::FFDHE3072 => Some(384),
            Self::FFDHE4096 => Some(512),
            Self::FFDHE6144 => Some(768),
            Self::FFDHE8192 => Some(1024),
            _ => None,
        }
    }
}

impl AuthDescriptor {
    /// The hashes that are offered; at most 30, whatever HALEN says.
    pub fn hash_ids(&self) -> Vec<HashId> {
        self.hashes().into_iter().take(self.halen().into()).map(HashId).collect()
    }

    /// The groups that are offered; at most 30, whatever DHLEN says.
    pub fn group_ids(&self) -> Vec<DhGroup> {
        self.groups().into_iter().take(self.dhlen().into()).map(DhGroup).collect()
    }
}

/// One message, taken apart. Whether its values are right for the moment is not judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// AUTH_Negotiate with its descriptors.
    Negotiate(AuthNegotiate, Vec<AuthDescriptor>),
    /// DH-HMAC-CHAP_Challenge.
    Challenge {
        /// Its head.
        head: DhchapChallenge,
        /// Challenge (C1).
        c1: &'a [u8],
        /// The controller's DH value, g^x mod p; empty for the NULL group.
        dhv: &'a [u8],
    },
    /// DH-HMAC-CHAP_Reply.
    Reply {
        /// Its head.
        head: DhchapReply,
        /// Response (R1).
        r1: &'a [u8],
        /// Challenge (C2); zeroes where CVALID is 0.
        c2: &'a [u8],
        /// The host's DH value, g^y mod p; empty for the NULL group.
        dhv: &'a [u8],
    },
    /// DH-HMAC-CHAP_Success1.
    Success1 {
        /// Its head.
        head: DhchapSuccess1,
        /// Response (R2); zeroes where RVALID is 0.
        r2: &'a [u8],
    },
    /// DH-HMAC-CHAP_Success2.
    Success2(DhchapSuccess2),
    /// AUTH_Failure1 or AUTH_Failure2.
    Failure(AuthFailure),
    /// A type and identifier that the text does not have.
    Unknown(AuthMessage),
}

impl<'a> Message<'a> {
    /// Takes a message apart. Fails where the data ends before what its head announces.
    pub fn read(data: &'a [u8]) -> Result<Self, DecodeError> {
        let head = AuthMessage::read(data)?;
        Ok(match (head.auth_type(), head.auth_id()) {
            (AuthType::COMMON, AuthId::NEGOTIATE) => {
                let head = AuthNegotiate::read(data)?;
                let [list] = values(data, AuthNegotiate::LAYOUT, [usize::from(head.napd()) * AuthDescriptor::LEN])?;
                Self::Negotiate(head, list.chunks_exact(AuthDescriptor::LEN).map(AuthDescriptor::with_bytes).collect())
            }
            (AuthType::DH_HMAC_CHAP, AuthId::CHALLENGE) => {
                let head = DhchapChallenge::read(data)?;
                let [c1, dhv] = values(data, DhchapChallenge::LAYOUT, [head.hl().into(), head.dhvlen().into()])?;
                Self::Challenge { head, c1, dhv }
            }
            (AuthType::DH_HMAC_CHAP, AuthId::REPLY) => {
                let head = DhchapReply::read(data)?;
                let [r1, c2, dhv] = values(data, DhchapReply::LAYOUT, [head.hl().into(), head.hl().into(), head.dhvlen().into()])?;
                Self::Reply { head, r1, c2, dhv }
            }
            (AuthType::DH_HMAC_CHAP, AuthId::SUCCESS1) => {
                let head = DhchapSuccess1::read(data)?;
                let [r2] = values(data, DhchapSuccess1::LAYOUT, [head.hl().into()])?;
                Self::Success1 { head, r2 }
            }
            (AuthType::DH_HMAC_CHAP, AuthId::SUCCESS2) => Self::Success2(DhchapSuccess2::read(data)?),
            (AuthType::COMMON, AuthId::FAILURE1 | AuthId::FAILURE2) => Self::Failure(AuthFailure::read(data)?),
            _ => Self::Unknown(head),
        })
    }

    /// The table of its head.
    pub fn layout(&self) -> &'static Layout {
        match self {
            Self::Negotiate(..) => AuthNegotiate::LAYOUT,
            Self::Challenge { .. } => DhchapChallenge::LAYOUT,
            Self::Reply { .. } => DhchapReply::LAYOUT,
            Self::Success1 { .. } => DhchapSuccess1::LAYOUT,
            Self::Success2(_) => DhchapSuccess2::LAYOUT,
            Self::Failure(_) => AuthFailure::LAYOUT,
            Self::Unknown(_) => AuthMessage::LAYOUT,
        }
    }
}

/// The values behind a head, of these lengths.
fn values<'a, const N: usize>(data: &'a [u8], head: &Layout, lengths: [usize; N]) -> Result<[&'a [u8]; N], DecodeError> {
    cut(data.get(head.bytes..).unwrap_or(&[]), lengths).map(|(_, parts)| parts).map_err(|_| {
        let whole = head.bytes + lengths.iter().sum::<usize>();
        DecodeError {
            what: head.name,
            at: data.len(),
            why: alloc::format!("{whole} bytes are announced, {} are there", data.len()),
        }
    })
}

fn cut<const N: usize>(mut input: &[u8], lengths: [usize; N]) -> IResult<&[u8], [&[u8]; N]> {
    let mut parts = [&[][..]; N];
    for (part, length) in parts.iter_mut().zip(lengths) {
        (input, *part) = take(length).parse(input)?;
    }
    Ok((input, parts))
}

/// Name, then the fields and values that are not zero.
impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Negotiate(head, list) => {
                show(f, AuthNegotiate::LAYOUT, head.as_bytes())?;
                list.iter().try_for_each(|d| descriptor(f, d))
            }
            Self::Challenge { head, c1, dhv } => {
                show(f, DhchapChallenge::LAYOUT, head.as_bytes())?;
                value(f, "c1", c1)?;
                value(f, "dhv", dhv)
            }
            Self::Reply { head, r1, c2, dhv } => {
                show(f, DhchapReply::LAYOUT, head.as_bytes())?;
                value(f, "r1", r1)?;
                value(f, "c2", c2)?;
                value(f, "dhv", dhv)
            }
            Self::Success1 { head, r2 } => {
                show(f, DhchapSuccess1::LAYOUT, head.as_bytes())?;
                value(f, "r2", r2)
            }
            Self::Success2(head) => show(f, DhchapSuccess2::LAYOUT, head.as_bytes()),
            Self::Failure(head) => show(f, AuthFailure::LAYOUT, head.as_bytes()),
            Self::Unknown(head) => write!(f, "authentication message {head}"),
        }
    }
}

/// What a descriptor offers, by name; one of another protocol field by field.
fn descriptor(f: &mut fmt::Formatter<'_>, d: &AuthDescriptor) -> fmt::Result {
    if d.authid() != AuthProtocol::DH_HMAC_CHAP {
        return write!(f, " {{{d}}}");
    }
    write!(f, " {{{} hashes=", d.authid())?;
    list(f, &d.hash_ids())?;
    f.write_str(" groups=")?;
    list(f, &d.group_ids())?;
    f.write_str("}")
}

fn list(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display]) -> fmt::Result {
    items.iter().enumerate().try_for_each(|(i, item)| write!(f, "{}{item}", if i > 0 { "," } else { "" }))
}

fn show(f: &mut fmt::Formatter<'_>, layout: &Layout, head: &[u8]) -> fmt::Result {
    write!(f, "{}", AuthMessage::with_bytes(head).auth_id())?;
    for field in layout.all_fields().skip(2) {
        write!(f, " {}={}", field.name, field.show(head))?;
    }
    match layout.reserved_set(head) {
        Some(at) => write!(f, " reserved[{at}]={:#04x}", head.get(at).copied().unwrap_or(0)),
        None => Ok(()),
    }
}

/// The start of a value; the whole of it is for those who read bytes.
fn value(f: &mut fmt::Formatter<'_>, name: &str, bytes: &[u8]) -> fmt::Result {
    if bytes.iter().all(|b| *b == 0) {
        return Ok(());
    }
    write!(f, " {name}=")?;
    bytes.iter().take(8).try_for_each(|b| write!(f, "{b:02x}"))?;
    if bytes.len() > 8 { write!(f, "…({})", bytes.len()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(id: u8, rest: &[u8]) -> Vec<u8> {
        let mut b = alloc::vec![u8::from(id != 0 && id < 0xf0), id, 0, 0, 7, 0];
        b.extend(rest);
        b
    }

    #[test]
    fn values_lie_where_the_head_says() {
        let mut b = head(2, &[2, 0, 1, 0, 4, 0, 9, 0, 0, 0]);
        b.extend([1, 1, 2, 2, 3, 3, 3, 3, 99]);
        match Message::read(&b).unwrap() {
            Message::Reply { head, r1: &[1, 1], c2: &[2, 2], dhv: &[3, 3, 3, 3] } => {
                assert_eq!((head.seqnum(), head.dhvlen()), (9, 4))
            }
            other => panic!("{other:?}"),
        }
        for n in 0..24 {
            let e = Message::read(&b[..n]).unwrap_err();
            assert_eq!(e.at, n, "{e}");
        }
        let e = Message::read(&b[..23]).unwrap_err();
        assert!(e.why.contains("24 bytes are announced, 23 are there"), "{e}");
    }

    #[test]
    fn a_negotiation_has_as_many_descriptors_as_it_says() {
        let mut b = head(0, &[0, 2]);
        b.resize(8 + 128, 0);
        (b[8], b[10], b[11], b[12], b[42], b[43]) = (1, 1, 2, 3, 0, 5);
        (b[72], b[74]) = (9, 255);
        let Message::Negotiate(head, list) = Message::read(&b).unwrap() else { panic!() };
        assert_eq!((head.napd(), list.len()), (2, 2));
        assert_eq!(
            (list[0].hash_ids(), list[0].group_ids()),
            (alloc::vec![HashId::SHA_512], alloc::vec![DhGroup::NULL, DhGroup::FFDHE8192])
        );
        assert_eq!(list[1].hash_ids().len(), 30, "HALEN beyond the field");
        assert!(Message::read(&b[..135]).is_err());
        b[7] = 255;
        assert!(Message::read(&b).unwrap_err().why.contains("16328 bytes are announced"));
    }

    #[test]
    fn types_and_identifiers_belong_together() {
        for (ty, id) in [(1, 0), (0, 1), (1, 0xf1), (2, 3), (0xff, 0xff)] {
            let b = [ty, id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            assert!(matches!(Message::read(&b).unwrap(), Message::Unknown(_)), "{ty} {id}");
        }
        let shown = alloc::format!("{}", Message::read(&head(0xf1, &[1, 6])).unwrap());
        assert_eq!(shown, "AUTH_Failure1 t_id=7 reason=1 authentication failure explanation=6 incorrect payload");
    }

    #[test]
    fn lengths_of_the_text() {
        assert_eq!(
            [HashId::SHA_256, HashId::SHA_384, HashId::SHA_512, HashId(4)].map(HashId::length),
            [Some(32), Some(48), Some(64), None]
        );
        let groups = [DhGroup::NULL, DhGroup::FFDHE2048, DhGroup::FFDHE3072, DhGroup::FFDHE8192, DhGroup(6)];
        assert_eq!(groups.map(DhGroup::length), [Some(0), Some(256), Some(384), Some(1024), None]);
    }
}
