//! Log pages of discovery controllers that hosts register with: host discovery (71h), AVE discovery (72h), and pull model DDC requests
//! (73h). [Base 2.1, 5.1.12.3.2 to 5.1.12.3.4]
//!
//! Pages 71h and 72h are read like the discovery log page: header, entries of variable length, then GENCTR again.

use alloc::vec::Vec;

use crate::layout::{DecodeError, Structure};
use crate::log::{AddressFamily, TransportType};
use crate::value::{Ascii, Text};

layout! {
    /// Header of the host discovery log page (71h), 1024 bytes. [Base 2.1, 5.1.12.3.2, Figure 300]
    pub struct HostDiscoveryHeader[1024] {
        genctr: u64 @ 0 "Generation Counter (GENCTR)",
        numrec: u64 @ 8 "Number of Records (NUMREC)",
        recfmt: u16 @ 16 "Record Format (RECFMT): 0",
        hdlpf: u8 @ 18 "Host Discovery Log Page Flags (HDLPF)",
        thdlpl: u32 @ 20 "Total Host Discovery Log Page Length (THDLPL), bytes",
    }

    /// Host extended discovery log page entry without its attributes: the first 1032 of TEL bytes; see [`super::extended`].
    /// [Base 2.1, 5.1.12.3.2, Figure 299]
    pub struct HostDiscoveryEntry[1032] {
        trtype: TransportType @ 0 "Transport Type (TRTYPE)",
        adrfam: AddressFamily @ 1 "Address Family (ADRFAM)",
        eflags: u16 @ 10 "Entry Flags (EFLAGS)",
        hostnqn: (Text<256>) @ 256 "Host NVMe Qualified Name (HOSTNQN)",
        traddr: (Ascii<256>) @ 512 "Transport Address (TRADDR)",
        tsas: [u8; 256] @ 768 "Transport Specific Address Subtype (TSAS)",
        tel: u32 @ 1024 "Total Entry Length (TEL), bytes",
        numexat: u16 @ 1028 "Number of Extended Attributes (NUMEXAT)",
    }

    /// Header of the AVE discovery log page (72h), 1024 bytes. [Base 2.1, 5.1.12.3.3, Figure 301]
    pub struct AveDiscoveryHeader[1024] {
        genctr: u64 @ 0 "Generation Counter (GENCTR)",
        numrec: u64 @ 8 "Number of Records (NUMREC)",
        recfmt: u16 @ 16 "Record Format (RECFMT): 0",
        tadlpl: u32 @ 20 "Total AVE Discovery Log Page Length (TADLPL), bytes",
    }

    /// AVE discovery log page entry; NUMATR transport records follow. [Base 2.1, 5.1.12.3.3, Figure 302]
    pub struct AveDiscoveryEntry[232] {
        tel: u32 @ 0 "Total Entry Length (TEL), bytes",
        avenqn: (Text<224>) @ 4 "AVE NQN (AVENQN)",
        numatr: u8 @ 228 "Number of AVE Transport Records (NUMATR)",
    }

    /// AVE transport record. The address is in binary, in wire order: 16 bytes of IPv6, or 4 of IPv4 and zeroes.
    /// [Base 2.1, 5.1.12.3.3, Figure 303]
    pub struct AveTransportRecord[20] {
        adrfam: AddressFamily @ 0 "AVE Address Family (AVEADRFAM): IPv4 or IPv6",
        trsvcid: u16 @ 2 "AVE Transport Service Identifier (AVETRSVCID): TCP port",
        traddr: [u8; 16] @ 4 "AVE Transport Address (AVETRADDR)",
    }

    /// Header of the pull model DDC request log page (73h); what the operation needs follows. [Base 2.1, 5.1.12.3.4, Figure 304]
    pub struct PullModelRequest[8] {
        ori: PullModelOperation @ 0 "Operation Request Identifier (ORI)",
        tpdrpl: u32 @ 4 "Total Pull Model DDC Request Log Page Length (TPDRPL), bytes",
    }
}

open_enum! {
    /// Operation Request Identifier (ORI). [Base 2.1, 5.1.12.3.4, Figure 304]
    pub struct PullModelOperation(u8) {
        GET_ZONEGROUP = 1 "Get Active ZoneGroup",
        ADD_ZONEGROUP = 2 "Add or Replace Active ZoneGroup",
        REMOVE_ZONEGROUP = 3 "Remove Active ZoneGroup",
        LOG_PAGE = 4 "Discovery Log Page Request",
    }
}

/// The entries of an AVE discovery log page, each with its transport records.
pub type AveEntries = Vec<(AveDiscoveryEntry, Vec<AveTransportRecord>)>;

/// Reads a whole AVE discovery log page. Fails where the bytes end before what NUMREC and TEL announce, or where TEL has no room for
/// NUMATR records; bytes of TEL behind the last record are passed over.
pub fn read_ave(page: &[u8]) -> Result<(AveDiscoveryHeader, AveEntries), DecodeError> {
    let header = AveDiscoveryHeader::read(page)?;
    let mut at = AveDiscoveryHeader::LEN;
    let mut out = Vec::new();
    for _ in 0..header.numrec() {
        let rest = page.get(at..).unwrap_or(&[]);
        let entry = AveDiscoveryEntry::read(rest).map_err(|e| DecodeError { at: at + e.at, ..e })?;
        let (tel, needed) = (entry.tel() as usize, AveDiscoveryEntry::LEN + usize::from(entry.numatr()) * AveTransportRecord::LEN);
        let records = rest.get(AveDiscoveryEntry::LEN..needed);
        let (Some(records), true, true) = (records, tel >= needed, tel <= rest.len()) else {
            let why = alloc::format!("TEL {tel}, {needed} wanted for {} records, {} left", entry.numatr(), rest.len());
            return Err(DecodeError { what: AveDiscoveryEntry::LAYOUT.name, at, why });
        };
        let records = records.chunks_exact(AveTransportRecord::LEN).map(AveTransportRecord::with_bytes).collect();
        out.push((entry, records));
        at += tel;
    }
    Ok((header, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_walked_by_their_length() {
        let mut page = alloc::vec![0u8; 1024 + 276 + 232];
        page[8] = 2;
        page[1024..1026].copy_from_slice(&276u16.to_le_bytes());
        page[1024 + 228] = 2;
        page[1024 + 232] = 1;
        page[1024 + 232 + 20] = 2;
        page[1300] = 232;
        let (_, list) = read_ave(&page).unwrap();
        assert_eq!((list.len(), list[0].1.len(), list[1].1.len()), (2, 2, 0));
        assert_eq!((list[0].1[0].adrfam(), list[0].1[1].adrfam()), (AddressFamily::IPV4, AddressFamily::IPV6));
        let at = |change: fn(&mut [u8])| {
            let mut b = page.clone();
            change(&mut b);
            read_ave(&b).unwrap_err().at
        };
        assert_eq!(at(|b| b[1024 + 228] = 3), 1024, "no room for three records");
        assert_eq!(at(|b| b[1300] = 231), 1300, "an entry that would be read for ever");
        assert_eq!(at(|b| b[1300] = 233), 1300, "an entry beyond the page");
        assert_eq!(at(|b| b[8] = 3), 1532, "an entry more than there is");
        assert_eq!(read_ave(&page[..1023]).unwrap_err().at, 1023);
    }
}
