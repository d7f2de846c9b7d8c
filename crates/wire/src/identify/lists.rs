//! Namespace lists (CNS 02h, 07h, 10h; log page 04h) and namespace identification descriptors (CNS 03h).
//! [Base 2.0, 5.17.2.2, 5.17.2.3 and 4.1.4 (namespace list format)]

use alloc::vec::Vec;

use nom::bytes::complete::take;
use nom::number::complete::{le_u16, u8};
use nom::{IResult, Parser};

use super::IDENTIFY_BYTES;
use crate::layout::DecodeError;
use crate::open::Nsid;

layout! {
    /// Head of a namespace identification descriptor; NIDL bytes of identifier follow. [Base 2.0, 5.17.2.3, Figure 277]
    pub struct NamespaceDescriptor[4] {
        nidt: Nidt @ 0 "Namespace Identifier Type (NIDT)",
        nidl: u8 @ 1 "Namespace Identifier Length (NIDL), bytes",
    }
}

open_enum! {
    /// Namespace Identifier Type (NIDT). [Base 2.0, 5.17.2.3, Figure 277]
    pub struct Nidt(u8) {
        EUI64 = 1 "IEEE Extended Unique Identifier",
        NGUID = 2 "Namespace Globally Unique Identifier",
        UUID = 3 "Namespace UUID",
        CSI = 4 "Command Set Identifier",
    }
}

impl Nidt {
    /// NIDL that the type demands, bytes; `None` for a type that the text does not have.
    pub fn length(self) -> Option<u8> {
        match self {
            Self::EUI64 => Some(8),
            Self::NGUID | Self::UUID => Some(16),
            Self::CSI => Some(1),
            _ => None,
        }
    }
}

/// One namespace identification descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor<'a> {
    /// Type of the identifier.
    pub nidt: Nidt,
    /// Bytes 3:2, reserved.
    pub reserved: u16,
    /// Namespace Identifier (NID): as many bytes as NIDL says, in wire order (big-endian for EUI64, NGUID and UUID).
    pub nid: &'a [u8],
}

/// Reads the descriptors up to the first with NIDL 0, or to the end. NIDL that does not belong to its type is no error here: the
/// caller compares with [`Nidt::length`].
pub fn read_descriptors(page: &[u8]) -> Result<Vec<Descriptor<'_>>, DecodeError> {
    let mut rest = page;
    let mut out = Vec::new();
    while rest.get(1).is_some_and(|nidl| *nidl != 0) {
        let at = page.len() - rest.len();
        match descriptor(rest) {
            Ok((after, d)) => {
                out.push(d);
                rest = after;
            }
            Err(_) => {
                let nidl = rest.get(1).copied().unwrap_or(0);
                return Err(DecodeError {
                    what: "NamespaceDescriptor",
                    at,
                    why: alloc::format!(
                        "NIDL {nidl} reaches beyond the page: {} bytes left, {} wanted",
                        rest.len(),
                        4 + nidl as usize
                    ),
                });
            }
        }
    }
    Ok(out)
}

fn descriptor(input: &[u8]) -> IResult<&[u8], Descriptor<'_>> {
    let (rest, (nidt, nidl, reserved)) = (u8, u8, le_u16).parse(input)?;
    let (rest, nid) = take(usize::from(nidl)).parse(rest)?;
    Ok((rest, Descriptor { nidt: Nidt(nidt), reserved, nid }))
}

/// A page with these descriptors, zero behind the last, or `None` where they do not fit into it.
pub fn write_descriptors(descriptors: &[Descriptor<'_>]) -> Option<Vec<u8>> {
    let mut page = Vec::with_capacity(IDENTIFY_BYTES);
    for d in descriptors {
        page.push(d.nidt.0);
        page.push(core::num::NonZeroU8::try_from(u8::try_from(d.nid.len()).ok()?).ok()?.get());
        page.extend_from_slice(&d.reserved.to_le_bytes());
        page.extend_from_slice(d.nid);
    }
    if page.len() > IDENTIFY_BYTES {
        return None;
    }
    page.resize(IDENTIFY_BYTES, 0);
    Some(page)
}

/// Most NSIDs in a namespace list.
pub const NAMESPACE_LIST_ENTRIES: usize = 1024;

/// Reads a namespace list: NSIDs up to the first 0, in the order of the list. A list that is not ascending is one that the caller
/// judges. A last entry of less than 4 bytes is an error.
pub fn read_namespace_list(page: &[u8]) -> Result<Vec<Nsid>, DecodeError> {
    let mut out = Vec::new();
    let (entries, rest) = page.as_chunks::<4>();
    for e in entries.iter().take(NAMESPACE_LIST_ENTRIES) {
        match u32::from_le_bytes(*e) {
            0 => return Ok(out),
            n => out.push(Nsid(n)),
        }
    }
    if !rest.is_empty() {
        let at = page.len() - rest.len();
        return Err(DecodeError { what: "namespace list", at, why: alloc::format!("entry of {} bytes, 4 expected", rest.len()) });
    }
    Ok(out)
}

/// A page that lists the first 1024 of `nsids` (which the caller gives ascending), zero behind the last.
pub fn namespace_list(nsids: impl IntoIterator<Item = Nsid>) -> Vec<u8> {
    let mut page = Vec::with_capacity(IDENTIFY_BYTES);
    for n in nsids.into_iter().take(NAMESPACE_LIST_ENTRIES) {
        page.extend_from_slice(&n.0.to_le_bytes());
    }
    page.resize(IDENTIFY_BYTES, 0);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_come_back_and_the_reserved_bytes_too() {
        let list = [
            Descriptor { nidt: Nidt::UUID, reserved: 0, nid: &[7; 16] },
            Descriptor { nidt: Nidt(0x77), reserved: 0x1234, nid: &[1, 2, 3] },
            Descriptor { nidt: Nidt::CSI, reserved: 0, nid: &[0] },
        ];
        let page = write_descriptors(&list).unwrap();
        assert_eq!(page.len(), 4096);
        assert_eq!(&page[20..24], &[0x77, 3, 0x34, 0x12]);
        assert_eq!(read_descriptors(&page).unwrap(), list);
    }

    #[test]
    fn a_descriptor_beyond_the_page_is_blamed_on_its_nidl() {
        let mut page = alloc::vec![0u8; 24];
        page[..2].copy_from_slice(&[2, 16]);
        page[20..22].copy_from_slice(&[3, 16]);
        let e = read_descriptors(&page).unwrap_err();
        assert_eq!((e.at, e.why.contains("NIDL 16"), e.why.contains("4 bytes left")), (20, true, true), "{e}");
    }

    #[test]
    fn an_empty_identifier_cannot_be_written() {
        assert_eq!(write_descriptors(&[Descriptor { nidt: Nidt::CSI, reserved: 0, nid: &[] }]), None);
        let nid = [0u8; 255];
        let d = Descriptor { nidt: Nidt(9), reserved: 0, nid: &nid };
        assert!(write_descriptors(&[d; 15]).is_some());
        assert_eq!(write_descriptors(&[d; 16]), None, "16 x 259 bytes are more than a page");
    }

    #[test]
    fn a_namespace_list_ends_at_zero_or_at_1024() {
        assert_eq!(read_namespace_list(&namespace_list([Nsid(1), Nsid(9)])).unwrap(), [Nsid(1), Nsid(9)]);
        let full = namespace_list((1..2000).map(Nsid));
        assert_eq!(read_namespace_list(&full).unwrap().len(), 1024);
        assert_eq!(read_namespace_list(&[1, 0, 0, 0, 2]).unwrap_err().at, 4);
    }
}
