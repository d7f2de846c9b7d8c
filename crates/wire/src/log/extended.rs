//! Entries of variable length with extended attributes: of the discovery log page (70h) with EXTDLPE, of the host discovery log page
//! (71h), and of Discovery Information Management. [Base 2.1, 5.1.12.3.1, 5.1.12.3.2 and 5.3.3]
//!
//! All three have TEL and NUMEXAT at the same place: bytes 1027:1024 and 1029:1028, attributes from byte 1032 on.

use alloc::vec::Vec;

use crate::layout::{DecodeError, Structure};
use crate::log::DiscoveryEntry;

layout! {
    /// Extended discovery log page entry without its attributes: the first 1032 of TEL bytes. [Base 2.1, 5.1.12.3.1, Figure 295]
    pub struct ExtendedDiscoveryEntry[1032] of DiscoveryEntry {
        tel: u32 @ 1024 "Total Entry Length (TEL), bytes",
        numexat: u16 @ 1028 "Number of Extended Attributes (NUMEXAT)",
    }

    /// Head of an extended attribute; EXATLEN bytes of value follow. [Base 2.1, 5.3.3, Figure 499]
    pub struct ExtendedAttributeHead[4] {
        exattype: AttributeType @ 0 "Extended Attribute Type (EXATTYPE)",
        exatlen: u16 @ 2 "Extended Attribute Length (EXATLEN), bytes: a multiple of 4, not 0",
    }
}

open_enum! {
    /// Extended Attribute Type (EXATTYPE). [Base 2.1, 5.3.3, Figure 499]
    pub struct AttributeType(u16) {
        HOST_IDENTIFIER = 1 "Host Identifier",
        LABEL_ASCII = 2 "admin label, ASCII",
        LABEL_UTF8 = 3 "admin label, UTF-8",
    }
}

/// One extended attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedAttribute<'a> {
    /// What it is.
    pub kind: AttributeType,
    /// Extended Attribute Value (EXATVAL): as many bytes as EXATLEN says.
    pub value: &'a [u8],
}

impl ExtendedDiscoveryEntry {
    /// The part that every discovery log entry has.
    pub fn entry(&self) -> DiscoveryEntry {
        DiscoveryEntry::with_bytes(self.as_bytes())
    }
}

/// Splits a list of extended entries by TEL, `count` of them; `at` of an error counts from the start of `list`. Fails where TEL is
/// below 1032 or reaches beyond `list`.
pub fn read_extended_entries(list: &[u8], count: u64) -> Result<Vec<&[u8]>, DecodeError> {
    let mut out = Vec::new();
    let mut rest = list;
    for _ in 0..count {
        let at = list.len() - rest.len();
        let entry = own_bytes(rest).map_err(|e| DecodeError { at: at + e.at, ..e })?;
        out.push(entry);
        rest = rest.get(entry.len()..).unwrap_or(&[]);
    }
    Ok(out)
}

fn own_bytes(entry: &[u8]) -> Result<&[u8], DecodeError> {
    let head = ExtendedDiscoveryEntry::read(entry)?;
    let tel = head.tel() as usize;
    let at = ExtendedDiscoveryEntry::LAYOUT.offset("tel");
    let fail = |why| Err(DecodeError { what: ExtendedDiscoveryEntry::LAYOUT.name, at, why });
    if tel < ExtendedDiscoveryEntry::LEN {
        return fail(alloc::format!("TEL {tel} is less than the {} bytes before the attributes", ExtendedDiscoveryEntry::LEN));
    }
    match entry.get(..tel) {
        Some(own) => Ok(own),
        None => fail(alloc::format!("TEL {tel} reaches beyond the {} bytes that are there", entry.len())),
    }
}

/// Reads the NUMEXAT attributes of one entry, given from its first byte on. A length that does not belong to its type, or is no
/// multiple of 4, is for the caller to judge. Fails where an attribute reaches beyond TEL.
pub fn read_attributes(entry: &[u8]) -> Result<Vec<ExtendedAttribute<'_>>, DecodeError> {
    let own = own_bytes(entry)?;
    let mut rest = own.get(ExtendedDiscoveryEntry::LEN..).unwrap_or(&[]);
    let mut out = Vec::new();
    for _ in 0..ExtendedDiscoveryEntry::with_bytes(own).numexat() {
        let at = own.len() - rest.len();
        let head = ExtendedAttributeHead::read(rest).map_err(|e| DecodeError { at: at + e.at, ..e })?;
        let end = ExtendedAttributeHead::LEN + usize::from(head.exatlen());
        let Some(value) = rest.get(ExtendedAttributeHead::LEN..end) else {
            let why = alloc::format!("EXATLEN {} reaches beyond TEL: {} bytes left", head.exatlen(), rest.len() - 4);
            return Err(DecodeError { what: ExtendedAttributeHead::LAYOUT.name, at: at + 2, why });
        };
        out.push(ExtendedAttribute { kind: head.exattype(), value });
        rest = rest.get(end..).unwrap_or(&[]);
    }
    Ok(out)
}

/// The bytes behind an entry's first 1032: each attribute with its head, the value filled with zeroes to a multiple of 4. `None` where
/// a value is empty or longer than EXATLEN can say.
pub fn write_attributes(attributes: &[ExtendedAttribute<'_>]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for a in attributes {
        let len = u16::try_from(a.value.len().next_multiple_of(4)).ok().filter(|n| *n != 0)?;
        out.extend_from_slice(ExtendedAttributeHead::new().with(|s| s.exattype(a.kind).exatlen(len)).as_bytes());
        out.extend_from_slice(a.value);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(attributes: &[ExtendedAttribute<'_>]) -> Vec<u8> {
        let tail = write_attributes(attributes).unwrap();
        let head = ExtendedDiscoveryEntry::new().with(|s| s.tel((1032 + tail.len()) as u32).numexat(attributes.len() as u16));
        [head.as_bytes().as_slice(), &tail].concat()
    }

    #[test]
    fn attributes_come_back() {
        let id = [7u8; 16];
        let list = [
            ExtendedAttribute { kind: AttributeType::HOST_IDENTIFIER, value: &id },
            ExtendedAttribute { kind: AttributeType::LABEL_ASCII, value: b"rack" },
        ];
        let one = entry(&list);
        assert_eq!((one.len(), &one[1032..1036], &one[1052..1060]), (1060, &[1, 0, 16, 0][..], &b"\x02\0\x04\0rack"[..]));
        assert_eq!(read_attributes(&one).unwrap(), list);
        let two = [one.as_slice(), &entry(&[]), &[9; 8]].concat();
        let split = read_extended_entries(&two, 2).unwrap();
        assert_eq!((split[0], split[1].len()), (one.as_slice(), 1032));
        assert_eq!(read_extended_entries(&two, 3).unwrap_err().at, two.len());
    }

    #[test]
    fn a_value_is_filled_up_and_an_empty_one_cannot_be_written() {
        let label = |value| ExtendedAttribute { kind: AttributeType::LABEL_UTF8, value };
        assert_eq!(write_attributes(&[label(b"abcde")]).unwrap(), b"\x03\0\x08\0abcde\0\0\0");
        assert_eq!(write_attributes(&[label(b"")]), None);
        assert_eq!(write_attributes(&[label(&[1; 65533])]), None);
    }

    #[test]
    fn lengths_that_lie_are_blamed_where_they_stand() {
        let id = [7u8; 16];
        let good = entry(&[ExtendedAttribute { kind: AttributeType::HOST_IDENTIFIER, value: &id }]);
        let at = |change: fn(&mut [u8])| {
            let mut b = good.clone();
            change(&mut b);
            read_attributes(&b).unwrap_err().at
        };
        assert_eq!(at(|b| b[1034] = 17), 1034, "EXATLEN beyond TEL");
        assert_eq!(at(|b| b[1028] = 2), 1052, "an attribute more than there is");
        assert_eq!(at(|b| b[1024..1028].copy_from_slice(&1031u32.to_le_bytes())), 1024, "TEL below the fixed part");
        assert_eq!(at(|b| b[1024..1028].copy_from_slice(&1053u32.to_le_bytes())), 1024, "TEL beyond the bytes");
        assert_eq!(read_attributes(&good[..1000]).unwrap_err().at, 1000);
    }
}
