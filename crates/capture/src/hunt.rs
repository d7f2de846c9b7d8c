//! PDU heads that prove themselves: how a stream is found again behind a gap, and NVMe/TCP in the middle of a connection.
//!
//! A head is believed where every byte that its type fixes is right: type and direction, FLAGS, HLEN, PDO, PLEN beside what it has
//! to hold, and reserved bytes. That leaves room for about one false head in 2^40 places. [NVMe/TCP 1.0, 3.6.2]

use nvmf_wire::tcp::{C2hData, H2cData, PduHead, PduType};

/// Longest PDU that is believed, bytes: longer ones would have to be waited for.
pub(crate) const MAX_BELIEVED: u32 = 4 << 20;

/// What is at some place of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// No PDU starts here.
    No,
    /// It cannot be told from so few bytes.
    Short,
    /// A PDU of so many bytes starts here.
    Pdu(u32),
}

/// Judges the place at which `bytes` start. `from_host` is the direction, where it is known.
pub(crate) fn place(bytes: &[u8], from_host: Option<bool>) -> Place {
    // The cheap look first: most places fall here.
    let [ptype, _, hlen, ..] = *bytes else { return if bytes.is_empty() { Place::Short } else { first(bytes) } };
    let ptype = PduType(ptype);
    if ptype.hlen() != Some(usize::from(hlen)) || from_host.is_some_and(|f| f != ptype.from_host()) {
        return Place::No;
    }
    let Ok(head) = PduHead::read(bytes) else { return Place::Short };
    let (flags, hdgst) = (bytes.get(1).copied().unwrap_or(0), if head.hdgstf() { 4 } else { 0 });
    let (pdo, plen) = (u32::from(head.pdo()), head.plen());
    let bare = u32::from(hlen) + hdgst;
    let fits = match ptype {
        PduType::IC_REQ | PduType::IC_RESP => flags == 0 && pdo == 0 && plen == 128,
        PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ => flags == 0 && pdo == 0 && (24..=152).contains(&plen),
        PduType::CAPSULE_CMD => flags & !3 == 0 && ((pdo == 0 && plen == bare) || (pdo >= bare && plen > pdo)),
        PduType::CAPSULE_RESP | PduType::R2T => flags & !1 == 0 && pdo == 0 && plen == bare,
        PduType::H2C_DATA => flags & !7 == 0 && pdo >= bare && plen >= pdo,
        PduType::C2H_DATA => flags & !15 == 0 && pdo >= bare && plen >= pdo,
        _ => false,
    };
    if !fits || plen > MAX_BELIEVED {
        return Place::No;
    }
    match ptype {
        PduType::H2C_DATA => match H2cData::read(bytes) {
            Ok(d) => whole(&head, d.datal(), bytes.get(20..24)),
            Err(_) => Place::Short,
        },
        PduType::C2H_DATA => match C2hData::read(bytes) {
            Ok(d) => whole(&head, d.datal(), bytes.get(20..24)),
            Err(_) => Place::Short,
        },
        PduType::R2T => match bytes.get(20..24) {
            Some(reserved) => {
                if reserved == [0; 4] {
                    Place::Pdu(plen)
                } else {
                    Place::No
                }
            }
            None => Place::Short,
        },
        _ => Place::Pdu(plen),
    }
}

/// Judges a place of which one or two bytes are known.
fn first(bytes: &[u8]) -> Place {
    let known = bytes.first().is_some_and(|t| PduType(*t).hlen().is_some());
    if known { Place::Short } else { Place::No }
}

/// A data PDU holds what DATAL says, and nothing in its last four bytes.
fn whole(head: &PduHead, datal: u32, reserved: Option<&[u8]>) -> Place {
    let digest = if head.ddgstf() { 4 } else { 0 };
    let fits = u64::from(head.pdo()) + u64::from(datal) + digest == u64::from(head.plen());
    if fits && reserved == Some(&[0; 4]) { Place::Pdu(head.plen()) } else { Place::No }
}

/// True where the PDU of `plen` bytes that seems to start at `bytes` is followed by another one, or ends where they end. `None` where
/// that has to be waited for.
pub(crate) fn proven(bytes: &[u8], plen: u32, from_host: Option<bool>) -> Option<bool> {
    let next = bytes.get(plen as usize..)?;
    Some(next.is_empty() || place(next, from_host) != Place::No)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvmf_wire::tcp::{Digests, Pdu};

    fn c2h(len: usize) -> Vec<u8> {
        let mut head = *C2hData::new().with(|d| d.datal(len as u32)).as_bytes();
        (head[0], head[2]) = (7, 24);
        Pdu::build(&head, vec![7u8; len].into(), Digests { header: true, data: true }, 4).to_bytes()
    }

    #[test]
    fn a_head_is_believed_only_whole_and_right() {
        let pdu = c2h(512);
        assert_eq!(place(&pdu, Some(false)), Place::Pdu(pdu.len() as u32));
        assert_eq!(place(&pdu, Some(true)), Place::No, "the other direction");
        for n in 0..24 {
            assert_eq!(place(&pdu[..n], None), Place::Short, "{n} bytes");
        }
        let fixed = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
        for at in fixed {
            let mut wrong = pdu.clone();
            wrong[at] ^= 0x20;
            assert_eq!(place(&wrong, None), Place::No, "byte {at}");
        }
    }

    #[test]
    fn a_pdu_is_proven_by_what_follows_it() {
        let mut two = c2h(64);
        let plen = two.len() as u32;
        assert_eq!(proven(&two, plen, None), Some(true));
        assert_eq!(proven(&two[..40], plen, None), None);
        two.extend(c2h(64));
        assert_eq!(proven(&two, plen, None), Some(true));
        two[plen as usize] = 0xee;
        assert_eq!(proven(&two, plen, None), Some(false));
    }
}
